"""`logdiag batch PATH ...`: one job a path, one answer a line, and what they have in common."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import click

from logdiag.cli.options import PATH, arguments_of, form_option, shared
from logdiag.cli.output import note, print_answer, print_trace, printing, standard, status_of, write_outputs
from logdiag.errors import SourceError
from logdiag.model import Diagnosis
from logdiag.pipeline import diagnose
from logdiag.pipeline.workers import answers_of
from logdiag.report import FORMATS
from logdiag.report.words import clean, job_line
from logdiag.rules import RuleBook

# Not html and sarif: several such documents printed one after the other are no valid document.
_FORMATS = tuple(name for name in FORMATS if name not in ("html", "sarif"))
_EXAMPLES = """\b
Examples:
  logdiag batch runs/*                        one line a run, then what they have in common
  logdiag batch runs/* -f jsonl -o all.md     for a program, and for people in a file"""
# Fewer jobs are done by one process before others have started; how many jobs a process gets at once.
FEWEST_JOBS, _TOGETHER = 32, 4
_MOST_GROUPS = 10
_NO_FAILURE = ("no failure", "the log does not tell")


@click.command("batch", epilog=_EXAMPLES, short_help="Diagnose many jobs, one a PATH, one answer a line.")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="PATH...")
@form_option(*_FORMATS, help="How to print each.")
@shared
def batch(paths: tuple[str, ...], **options: Any) -> None:
    """Diagnose one job a PATH and print one answer a line, in text what the jobs have in common after them. A path that
    cannot be read does not stop the others."""
    style = printing(options, many=True)
    out = standard()
    done: list[Diagnosis] = []
    worst = 0
    for answer in _answers(paths, arguments_of(options)):
        if isinstance(answer, SourceError):
            note(str(answer))
            worst = 2
            continue
        if style.text:
            out.write(job_line(answer) + "\n")
        else:
            print_answer(answer, style)
        if style.verbose:
            print_trace(answer)
        write_outputs(answer, style.outputs, append=bool(done))
        done.append(answer)
        if style.by_category and worst != 2:
            worst = max(worst, status_of(answer))
    if style.text and len(paths) > 1:
        out.writelines(f"{row}\n" for row in _in_common(done, len(paths)))
    sys.exit(worst)


def _answers(paths: Sequence[str], arguments: dict[str, Any]) -> Iterator[Diagnosis | SourceError]:
    """Yields for each path, in order, its answer or the error that kept it from being read. Many are diagnosed by
    several processes, unless a memory learns from each or a model is asked; one at which a process died, here."""
    book = RuleBook.load(arguments["rules"])
    if len(paths) < FEWEST_JOBS or arguments["workers"] < 2 or arguments["remember"] or arguments["llm"]:
        yield from (_answer(path, book, arguments) for path in paths)
        return
    work = partial(_answer, arguments={**arguments, "workers": 0})
    answers = answers_of(work, paths, arguments["workers"], arguments["rules"], _TOGETHER)
    for path, answer in zip(paths, answers, strict=True):
        yield answer or _answer(path, book, arguments)


def _answer(path: str, book: RuleBook, arguments: Mapping[str, Any]) -> Diagnosis | SourceError:
    try:
        return diagnose(path, **{**arguments, "rules": book})
    except SourceError as error:
        return error


def _in_common(answers: Sequence[Diagnosis], total: int) -> Iterator[str]:
    """Yields how many runs failed for which reason and where: `41 of 96 runs: ECCError on node-017`."""
    yield ""
    groups: Counter[str] = Counter()
    for answer in answers:
        node = answer.root_cause.node if answer.root_cause else None
        if answer.failed:
            groups[f"{answer.reason.value}{f' on {clean(node)}' if node else ''}"] += 1
        else:
            groups[_NO_FAILURE[answer.failed is None]] += 1
    failures_first = sorted(groups.items(), key=lambda item: (item[0] in _NO_FAILURE, -item[1]))
    for words, count in failures_first[:_MOST_GROUPS]:
        yield f"{count} of {total} runs: {words}"
    if len(groups) > _MOST_GROUPS:
        yield f"and {len(groups) - _MOST_GROUPS} further kinds"
    if unread := total - len(answers):
        yield f"{unread} of {total} runs: not diagnosed, see standard error"
