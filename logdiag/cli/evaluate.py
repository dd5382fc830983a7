"""`logdiag eval CASES ...`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from logdiag.cli.options import COUNT, PATH, model_in_force, model_limits, own_rules, text_or_json
from logdiag.cli.output import check_writable, write_file
from logdiag.evaluation.baselines import available
from logdiag.evaluation.cases import CaseSet, load_cases
from logdiag.evaluation.compare import compare, read_rows
from logdiag.evaluation.run import Diagnose, answer_case, document_of, evaluate
from logdiag.evaluation.scoring import Row
from logdiag.settings import WHEN, load_settings


@click.command("eval")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="CASES...")
@text_or_json
@click.option("--json", "json_file", metavar="FILE", help="Write the whole evaluation to FILE too.")
@click.option("--html", "html_file", metavar="FILE", help="Write a page with the tables and every miss to FILE too.")
@click.option("--compare", "old", metavar="OLD.json", help="Show what changed since OLD.json; exit 1 on a regression.")
@click.option("--baselines", is_flag=True, help="Measure the baselines beside logdiag, on the same cases.")
@click.option("--split", metavar="NAME", help="Only the cases of this split.")
@own_rules
@click.option("--memory", metavar="PLACE", help="Past failures to ask too; without it the rules decide alone.")
@click.option("--llm", metavar="MODEL", help="A language model to ask too (provider:model); both ways are measured.")
@click.option("--llm-when", type=click.Choice(WHEN[:2]), help="When to ask it: always, or where unsure (default).")
@model_limits
@click.option("--jobs", type=COUNT, metavar="N", help="Diagnose N cases at a time; one a core if left out.")
def evaluate_command(
    paths: tuple[str, ...], form: str, json_file: str | None, html_file: str | None, old: str | None, **options: Any
) -> None:
    """Measure how right logdiag is on labelled cases.

    CASES are .jsonl files (also .zst, .gz, .xz) or folders of them. Each line is one case, a JSON object: id, reason,
    category, action, root_line (a part of the line that names the cause; not for a healthy job), and the log itself
    in log, or in log_file the path of a file or folder beside the case file. It may tell rank, node, exit_code,
    split, fault and tags, and in also_ok, also_root, also_action and rank_also further right readings.

    Exits 0 when all was measured, 1 on a regression against --compare, 2 when cases are broken: then all problems are
    listed, and nothing is scored.
    """
    old_rows = read_rows(old) if old else None
    for option, file in (("--json", json_file), ("--html", html_file)):
        if file:
            check_writable(option, file)
    case_set = load_cases(paths, options.pop("split"))
    document, rows = _measured(case_set, **options)
    comparison = compare(old_rows, rows) if old_rows is not None else None
    if comparison:
        document["comparison"] = asdict(comparison) | {"regressions": comparison.regressions}
    if json_file:
        write_file("--json", json_file, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    if html_file:
        from logdiag.evaluation.page import page

        write_file("--html", html_file, page(document, case_set.cases, rows))
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


def _measured(
    case_set: CaseSet, *, baselines: bool, rules: tuple[str, ...], memory: str | None, jobs: int | None, **model: Any
) -> tuple[dict[str, Any], list[Row]]:
    llm = None
    # A model set up elsewhere is not used, so that an evaluation never costs by accident.
    if model["llm"] is not None:
        settings = load_settings(model)
        settings.check_online(f"{settings.llm} may not be asked")
        llm = model_in_force(settings)
    if memory is not None:
        memory = load_settings({"memory": memory}).store_or_refusal()
    # The same run measures the answers without the model and without the memory, to show what each adds.
    beside: dict[str, Diagnose] = {}
    if llm is not None and memory is not None:
        beside["rules and memory"] = partial(answer_case, memory=memory)
    if llm is not None or memory is not None:
        beside["rules alone"] = answer_case
    names, notes = available() if baselines else ((), ())
    hidden = sys.stderr is None or not sys.stderr.isatty()
    with click.progressbar(length=len(case_set.cases), label="diagnosing", file=sys.stderr, hidden=hidden) as bar:
        asked, advance = partial(answer_case, memory=memory or False, llm=llm), partial(bar.update, 1)
        results = evaluate(
            case_set.cases,
            folders=rules,
            jobs=jobs,
            baselines=names,
            beside=beside,
            diagnose_case=asked,
            advance=advance,
        )
    return document_of(case_set, results, folders=rules, notes=notes), [result.row for result in results]
