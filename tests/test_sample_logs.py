"""Each sample log gets the answer that the table in its README says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from logdiag import Diagnosis, diagnose
from logdiag.rules import RuleBook
from tests.helpers import LOGS

ROW = re.compile(
    r"^\| `(?P<log>[^`]+)` \| (?P<failed>yes|no|not known) \| (?P<reason>\w+) \| (?P<rank>\S+) \| (?P<root>[^|]+) \| "
    r"(?P<action>\w+) \|$"
)
TABLE = {
    match["log"]: match.groupdict()
    for line in (LOGS / "README.md").read_text(encoding="utf-8").splitlines()
    if (match := ROW.match(line))
}


def test_the_table_names_every_sample() -> None:
    """No sample log is without its expected answer, and none is missing."""
    assert {name.rstrip("/") for name in TABLE} == {path.name for path in LOGS.iterdir() if path.name != "README.md"}


def roots(cell: str) -> set[tuple[str, int]]:
    """(file, line) of each root line that a cell allows; no file where the log is one."""
    return {(name, int(line)) for name, line in re.findall(r"(?:`([^`]+)` )?(\d+)", cell)}


@pytest.mark.parametrize("name", TABLE)
def test_a_sample_gets_the_answer_of_its_table(name: str, book: RuleBook) -> None:
    """Failed or not, reason, rank, root line and action."""
    row = TABLE[name]
    answer = diagnose(LOGS / name, rules=book)
    assert answer.failed == {"yes": True, "no": False, "not known": None}[row["failed"]]
    assert answer.reason.value == row["reason"]
    assert answer.recovery.action.value == row["action"]
    if answer.root_cause is None:
        assert row["root"].strip() == "-"
        return
    found = answer.root_cause
    assert ("" if found.rank is None else str(found.rank)) == row["rank"].replace("-", "")
    wanted = roots(row["root"])
    assert any(found.line == line and found.source.endswith(file) for file, line in wanted), (
        found.source,
        found.line,
        wanted,
    )


STEPS = (
    "step 63/120 loss 0.12",
    "{'loss': 2.103, 'epoch': 0.3}",
    "iter 40/900 | lm loss: 8.1E+00 | lr: 1e-4",
    " 45%|#5 | 45/100 [00:10<00:12, 2.1it/s]",
)


def told(answer: Diagnosis) -> tuple[object, ...]:
    """What must not change: failed, reason, the root's line and rank, and what to do."""
    root = answer.root_cause
    return answer.failed, answer.reason, root and (root.line, root.rank), answer.recovery.action


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row["failed"] == "yes"])
def test_a_step_that_runs_into_the_root_line_changes_no_answer(
    name: str, step: str, book: RuleBook, tmp_path: Path
) -> None:
    """Another rank printed its step, and not yet the line's end, into the same pipe; also in a container's record."""
    whole = diagnose(LOGS / name, rules=book)
    assert whole.root_cause is not None
    copy = tmp_path / Path(name).name
    (shutil.copytree if (LOGS / name).is_dir() else shutil.copy)(LOGS / name, copy)
    file = tmp_path / Path(whole.root_cause.source).relative_to(LOGS)
    lines = file.read_bytes().split(b"\n")
    at, text = whole.root_cause.line - 1, whole.root_cause.text.encode()
    # The time of a container's record stands elsewhere in it.
    spoken = text if text in lines[at] else text.partition(b" ")[2]
    assert spoken in lines[at]
    lines[at] = lines[at].replace(spoken, step.encode() + spoken)
    file.write_bytes(b"\n".join(lines))
    assert told(diagnose(copy, rules=book)) == told(whole)
