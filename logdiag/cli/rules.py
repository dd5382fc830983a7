"""`logdiag rules list|show|test|why|suggest`."""

from __future__ import annotations

import json
import os
import sys

import click

from logdiag.errors import RuleError
from logdiag.rules import Rule, RuleBook

__all__ = ["rules"]

_folders = click.option(
    "--rules", "folders", multiple=True, metavar="DIR", help="A folder of your own rules; may be repeated."
)


@click.group()
def rules() -> None:
    """Look at the rules, prove them, and ask why one fires."""


@rules.command("list")
@click.option("--reason", help="Only the rules of one reason.")
@_folders
def list_command(reason: str | None, folders: tuple[str, ...]) -> None:
    """Print every rule: id, role, reason, title."""
    book = RuleBook.load(folders)
    shown = [rule for rule in book.rules if reason is None or rule.reason == reason]
    if not shown:
        raise RuleError(f"--reason {reason}: no rule has this reason; see logdiag rules list")
    width = max(len(rule.id) for rule in shown)
    for rule in shown:
        click.echo(f"{rule.id:<{width}}  {rule.role:<9}  {rule.reason:<19}  {rule.title}")


@rules.command("show")
@click.argument("identity")
@_folders
def show_command(identity: str, folders: tuple[str, ...]) -> None:
    """Print one rule's file."""
    book = RuleBook.load(folders, proof=True)
    files = {rule.id: rule.file for rule in book.rules} | {item.id: item.file for item in book.filters}
    if identity not in files:
        raise RuleError(f"{identity}: no such rule; see logdiag rules list")
    click.echo(f"# {files[identity]}")
    with open(files[identity], encoding="utf-8") as file:
        click.echo(file.read(), nl=False)


@rules.command("test")
@click.argument("folders", nargs=-1, metavar="[DIR]...")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print the problems."
)
def test_command(folders: tuple[str, ...], form: str) -> None:
    """Prove the shipped rules, and those of DIR, by their examples. All problems of all files are printed at once."""
    from logdiag.rules.check import check

    book = RuleBook.load(folders, proof=True)
    problems = check(book)
    if form == "json":
        click.echo(json.dumps([problem.to_dict() for problem in problems], indent=2))
    else:
        for problem in problems:
            click.echo(str(problem))
        examples = sum(len(rule.fires) + len(rule.quiet) for rule in book.rules)
        click.echo(
            f"{len(book.rules)} rules, {len(book.filters)} filters, {examples} examples, {len(problems)} problems"
        )
    sys.exit(1 if problems else 0)


@rules.command("why")
@click.argument("line")
@_folders
def why_command(line: str, folders: tuple[str, ...]) -> None:
    """Say which rules match LINE, which one wins, and what it takes from it."""
    book = RuleBook.load(folders)
    from logdiag.rules.book import example_line

    text, frames = example_line(line)
    matching: list[Rule] = [rule for index, rule in enumerate(book.rules) if book.claims(index, text, frames)]
    finding = book.confirm_all(text, frames)
    if not matching:
        click.echo("no rule matches this line")
    for rule in matching:
        mark = "*" if finding and finding.rule == rule.id else " "
        click.echo(f"{mark} {rule.id}  {rule.role}  {rule.reason}  {rule.title}")
    if finding:
        click.echo(f"{finding.title}: {finding.why}" if finding.why else finding.title)
        for name, value in finding.facts.items():
            click.echo(f"  {name} = {value}")


@rules.command("suggest")
@click.option("--reason", metavar="REASON", help="Only rules for one reason.")
@click.option("--accept", "accepted", is_flag=True, help="Write what passed into the folder of --rules.")
@click.option("--healthy", multiple=True, metavar="PATH", help="Logs of healthy jobs, on which nothing may fire.")
@click.option("--memory", "place", metavar="PLACE", help="The store of incidents; LOGDIAG_MEMORY if left out.")
@_folders
def suggest_command(
    reason: str | None, accepted: bool, healthy: tuple[str, ...], place: str | None, folders: tuple[str, ...]
) -> None:
    """Propose rules from incidents that people confirmed: at least two of one reason with alike lines.

    What is printed has passed all that rules test asks, fires on its incidents, on none of another reason, and on no
    healthy log. Exits 1 when something was found that did not pass.
    """
    from logdiag.memory.store import open_store
    from logdiag.memory.suggest import accept, suggest
    from logdiag.model import Reason

    if reason is not None and reason not in {item.value for item in Reason}:
        raise RuleError(f"--reason {reason}: no such reason; see logdiag rules list")
    if accepted and len(folders) != 1:
        raise RuleError("--accept needs a folder to write to; give --rules DIR once")
    if accepted:
        os.makedirs(folders[0], exist_ok=True)
    with open_store(place) as store:
        found = suggest(store, reason=Reason(reason) if reason else None, folders=folders, healthy=healthy)
    for item in found:
        if item.problems:
            lines = [f"{item.id} (from {', '.join(item.incidents)}) did not pass:", *item.problems]
            click.echo("\n  ".join(lines), err=True)
        elif accepted:
            click.echo(str(accept(item, folders[0])))
        else:
            click.echo(f"# {item.id}.yaml\n{item.text}")
    if not found:
        click.echo("nothing to suggest: no two confirmed incidents of one reason are alike and unknown", err=True)
    sys.exit(1 if any(item.problems for item in found) else 0)
