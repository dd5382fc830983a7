"""`logdiag explain`: which step of the judgement made the root, and which set the other candidates aside."""

from __future__ import annotations

from collections.abc import Iterator

import click

from logdiag.cli.options import PATH, own_rules, status_of_job
from logdiag.model import Decision, Diagnosis
from logdiag.pipeline import diagnose
from logdiag.report.words import clean, headline

_LONGEST_LINE = 160


@click.command("explain")
@click.argument("paths", nargs=-1, required=True, type=PATH)
@own_rules
@status_of_job
def explain_command(paths: tuple[str, ...], folders: tuple[str, ...], job_status: int | None) -> None:
    """Show how the answer for ONE job came about.

    For each line that may have been the cause: which decision set it aside, and which made the root. The rules alone
    are asked, no memory and no model.

    \b
      logdiag explain slurm-4711.out
    """
    answer = diagnose(*paths, rules=folders, memory=False, exit_code=job_status)
    for row in explained(answer):
        click.echo(row)


def explained(answer: Diagnosis) -> Iterator[str]:
    """The rows of the explanation, in the order of the log; lines of which the same was decided are counted."""
    yield headline(answer)
    about: dict[tuple[str, str], list[Decision]] = {}
    for decision in answer.decisions:
        about.setdefault((decision.outcome, decision.name), []).append(decision)
    for (outcome, name), decisions in about.items():
        yield ""
        yield f"{outcome.upper()}  {name}: {decisions[0].because}"
        lines = [decision.about for decision in decisions if decision.about is not None]
        for line in lines[:3]:
            yield f"    {clean(line.source)}:{line.number}  {clean(line.text.strip(), _LONGEST_LINE)}"
        if len(lines) > 3:
            yield f"    and {len(lines) - 3} more, to {clean(lines[-1].source)}:{lines[-1].number}"
