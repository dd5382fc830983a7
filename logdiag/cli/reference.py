"""`logdiag reasons`, `logdiag schema` and `logdiag completion`: what there is to look up."""

from __future__ import annotations

import click

from logdiag.cli.options import text_or_json
from logdiag.cli.output import print_json, print_listed
from logdiag.model import Reason
from logdiag.rules import RuleBook


@click.command("reasons", short_help="Print what each reason means, and what is done about it.")
@text_or_json
def reasons(form: str) -> None:
    """Print every reason that an answer can name: its category, what is done by default, and what it means."""
    table = RuleBook.load(()).reasons
    rows = [
        {
            "reason": reason.value,
            "category": reason.category.value,
            "action": entry.action.value,
            "meaning": entry.meaning,
        }
        for reason in Reason
        if (entry := table.get(reason))
    ]
    words = (f"{row['reason']:<19}  {row['category']:<14}  {row['action']:<22}  {row['meaning']}" for row in rows)
    print_listed(form, rows, words)


@click.command("schema", short_help="Print the JSON Schema of an answer, or of a rule file for editors.")
@click.argument("form", type=click.Choice(["answer", "rule", "family", "catalogue", "filter"]), default="answer")
def schema(form: str) -> None:
    """Print the JSON Schema of an answer; or of a rule's, a family's, a catalogue's or a filter's file, for editors."""
    if form == "answer":
        from logdiag.report import schema_text

        click.echo(schema_text(), nl=False)
        return
    from logdiag.rules.files import schema_of

    print_json(schema_of(form))


@click.command("completion", short_help="Print what lets a shell complete words.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, options, reasons, rules and file names.

    \b
    bash:  eval "$(logdiag completion bash)"      in ~/.bashrc
    zsh:   eval "$(logdiag completion zsh)"       in ~/.zshrc, after compinit
    fish:  logdiag completion fish > ~/.config/fish/completions/logdiag.fish
    """
    from click.shell_completion import get_completion_class

    from logdiag.cli.main import COMPLETE, commands

    kind = get_completion_class(shell)
    if kind is not None:
        click.echo(kind(commands, {}, "logdiag", COMPLETE).source())
