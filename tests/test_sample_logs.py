"""Each sample log gets the answer that the table in its README says."""

from __future__ import annotations

import re

import pytest

from logdiag import diagnose
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
