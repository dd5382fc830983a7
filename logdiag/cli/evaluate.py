"""`logdiag eval CASES ...`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from logdiag.errors import CaseError
from logdiag.evaluation.baselines import available
from logdiag.evaluation.cases import load_cases
from logdiag.evaluation.compare import compare, read_document
from logdiag.evaluation.document import document_of
from logdiag.evaluation.run import Diagnose, answer_case, answer_with, evaluate
from logdiag.settings import WHEN, load_settings

if TYPE_CHECKING:
    from logdiag.agent.opinion import AgentSettings

__all__ = ["evaluate_command"]


@click.command("eval")
@click.argument("paths", nargs=-1, required=True, type=click.Path(readable=False), metavar="CASES...")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--json", "json_file", metavar="FILE", help="Write the whole evaluation to FILE too.")
@click.option("--html", "html_file", metavar="FILE", help="Write a page with charts and every miss to FILE too.")
@click.option(
    "--compare", "old_file", metavar="OLD.json", help="Show what changed since OLD.json; exit 1 on a regression."
)
@click.option("--baselines", is_flag=True, help="Measure the baselines beside logdiag, on the same cases.")
@click.option("--split", metavar="NAME", help="Only the cases of this split.")
@click.option("--rules", "folders", multiple=True, metavar="DIR", help="A folder of your own rules; may be repeated.")
@click.option("--memory", metavar="PLACE", help="Past failures to ask too; without it the rules decide alone.")
@click.option("--llm", metavar="MODEL", help="A language model to ask too (provider:model); both ways are measured.")
@click.option("--llm-when", type=click.Choice(WHEN[:2]), help="When to ask it: always, or where unsure (default).")
@click.option("--llm-timeout", type=float, metavar="SECONDS", help="How long it may take for one case.")
@click.option("--votes", type=int, metavar="N", help="How many answers of the model are held against each other.")
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Diagnose N cases at a time; one a core if left out."
)
def evaluate_command(
    paths: tuple[str, ...],
    form: str,
    json_file: str | None,
    html_file: str | None,
    old_file: str | None,
    baselines: bool,
    split: str | None,
    folders: tuple[str, ...],
    memory: str | None,
    jobs: int | None,
    **model: Any,
) -> None:
    """Measure how right logdiag is on labelled cases.

    CASES are .jsonl files (also .zst, .gz, .xz) or folders of them. Each line is one case, a JSON object: id, reason,
    category, action, root_line (a part of the line that names the cause; not for a healthy job), and the log itself
    in log, or in log_file the path of a file or folder beside the case file. It may tell also_ok, also_root and
    also_action (further right readings), rank, node, exit_code, split, fault and tags.

    Exits 0 when all was measured, 1 on a regression against --compare, 2 when cases are broken: then all problems are
    listed, and nothing is scored.
    """
    old = read_document(old_file) if old_file else None
    for file in (json_file, html_file):
        _check_writable(file)
    case_set = load_cases(paths, split)
    llm = _model(model)
    if memory is not None:
        memory = load_settings({"memory": memory}).store_or_refusal()
    names, notes = available() if baselines else ((), ())
    with _ProgressBar(len(case_set.cases)) as advance:
        results = evaluate(
            case_set.cases,
            folders=folders,
            jobs=jobs,
            baselines=names,
            beside=_beside(memory, llm),
            diagnose_case=partial(answer_with, memory=memory or False, llm=llm),
            advance=advance,
        )
    rows = [result.row for result in results]
    document = document_of(case_set, results, folders=folders, notes=notes)
    comparison = compare(old["cases"], rows) if old else None
    if comparison:
        document["comparison"] = comparison.to_dict()
    _write(json_file, lambda: _as_json(document))
    if html_file:
        from logdiag.evaluation.page import page

        _write(html_file, lambda: page(document, results))
    if form == "json":
        # In ASCII, so that nothing of a log can steer a terminal.
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    else:
        from logdiag.evaluation.table import print_comparison, print_document

        print_document(document, rows)
        if comparison:
            print_comparison(comparison)
    if comparison and comparison.regressions:
        sys.exit(1)


def _model(said: Mapping[str, Any]) -> AgentSettings | None:
    """The model to ask; only one that the command names, so that an evaluation never costs by accident."""
    if said["llm"] is None:
        return None
    from logdiag.agent.opinion import AgentSettings

    settings = load_settings(said)
    if settings.offline:
        raise CaseError(f"--llm {settings.llm}: offline is set ({settings.origins['offline']}); nothing may be asked")
    return AgentSettings(settings.llm, settings.llm_timeout, settings.votes, settings.budget, settings.llm_when)


def _beside(memory: str | None, llm: AgentSettings | None) -> dict[str, Diagnose]:
    """What to measure in the same run: the same without the model, and without the memory."""
    beside: dict[str, Diagnose] = {}
    if llm is not None and memory is not None:
        beside["rules and memory"] = partial(answer_with, memory=memory)
    if llm is not None or memory is not None:
        beside["rules alone"] = answer_case
    return beside


def _as_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _check_writable(path: str | None) -> None:
    """Whether a result can be written there, before the work is done."""
    if path is None:
        return
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CaseError(f"{path}: the folder {folder} does not exist; make it first")
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise CaseError(f"{path}: cannot be written; give the name of a file in a folder of yours")


def _write(path: str | None, content: Callable[[], str]) -> None:
    if path is None:
        return
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(content())
    except OSError as error:
        raise CaseError(f"{path}: cannot be written ({error.strerror}); free the place or name another") from error


class _ProgressBar:
    """How many cases are done, on standard error, only on a terminal."""

    def __init__(self, total: int) -> None:
        self.bar: Any = None
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns: Sequence[Any] = (
                TextColumn("diagnosing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            )  # fmt: skip
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task("diagnosing", total=total)

    def __enter__(self) -> Callable[[], None] | None:
        if self.bar is None:
            return None
        self.bar.start()
        return self._advance

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def _advance(self) -> None:
        self.bar.advance(self.task)
