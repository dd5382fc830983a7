"""`logdiag forms test|why`."""

from __future__ import annotations

import sys

import click

from logdiag.cli.options import PATH, own_rules
from logdiag.cli.output import say


@click.group(
    epilog="""\b
Examples:
  logdiag forms why '[rank5]: 10:00:00 ERROR boom'   which forms the head of a line has
  logdiag forms test our-rules/                      prove the forms in our-rules/forms/"""
)
def forms() -> None:
    """Look at how the head of a line is read, and prove the log forms."""


@forms.command("test")
@click.argument("folders", nargs=-1, type=PATH, metavar="[DIR]...")
def test_command(folders: tuple[str, ...]) -> None:
    """Prove the shipped log forms, and those in DIR/forms/, by their samples. All problems are printed at once."""
    from logdiag.read.form_check import check
    from logdiag.read.forms import load_forms

    loaded = load_forms(folders, proof=True)
    problems = check(loaded)
    for problem in problems:
        say(str(problem))
    samples = len(loaded.keys.samples) + sum(len(form.samples) for form in loaded.forms)
    say(f"{len(loaded.forms)} forms, {samples} samples, {len(problems)} problems")
    sys.exit(1 if problems else 0)


@forms.command("why")
@click.argument("line")
@own_rules
def why_command(line: str, rules: tuple[str, ...]) -> None:
    """Say which forms the head of LINE has, one behind the other, and what they tell."""
    from logdiag.read.form_check import plain_line, read_alone
    from logdiag.read.forms import load_forms
    from logdiag.read.prefixes import heads_of

    loaded = load_forms(rules)
    plain = plain_line(line, loaded)
    if plain != line:
        say(f"a record; it is read as: {plain}")
    for form, match in heads_of(plain, loaded):
        if form:
            say(f"{form.id}  {match[0]!r}  {form.title}")
    read = read_alone(line, loaded)
    for name in ("rank", "node", "clock", "level", "speaker", "message"):
        value = getattr(read, name)
        if value not in (None, ""):
            say(f"  {'time' if name == 'clock' else name} = {value}")
