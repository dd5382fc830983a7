"""Nothing of what a model knows is lost where the judgement left it open: reason, line and rank of logs whose words no
rule knows are taken as it says them. An oracle that knows the labels answers over real HTTP."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from logdiag import Diagnosis, diagnose
from logdiag.agent.opinion import AgentSettings, leaves_open
from logdiag.model import Reason
from logdiag.rules import RuleBook
from tests.agent_helpers import NAME
from tests.chat_server import ChatServer, calls
from tests.helpers import SHARED, log_of
from tests.oracle import oracle_of


@dataclass(frozen=True)
class Known:
    """A log of in-house software, and what a careful reader says of it."""

    log: bytes
    reason: str
    root: str
    rank: int | None = None
    also: tuple[str, ...] = ()


def ticks(first: int, count: int, who: str = "m00") -> list[str]:
    """Lines of ordinary work of a trainer of our own."""
    return [f"{who} tick {first + at} fog=2.{at:02d} haste=41.{at % 10}k" for at in range(count)]


OWN = {
    "a word that memory cannot repair, in words of its own": Known(
        log_of(
            *ticks(100, 30), "m11 W warden: cell bank 4 of slate 2 gave a twisted word, mended it",
            *ticks(130, 10), "m11 E warden: cell bank 4 of slate 2 gave a twisted word, past mending",
            "m11 F slate 2 is laid down", *(f"m{at:02d} E ring: m11 went silent" for at in range(10)),
            "tender: 12 of 12 seats left, worst status 70",
        ),
        "ECCError", "gave a twisted word, past mending", 11,
    ),
    "a lane that went dark, said as a warning, and work ran on for a while": Known(
        log_of(
            *ticks(100, 20), "m03 W lanes: lane 3 from chip 1 to chip 2 is dark, none is left between them",
            *ticks(120, 2), "m00 I watch: tick 122 has been open for 300 s",
            "m00 I watch: tick 122 has been open for 900 s", "m00 E watch: tick 122 does not close, leaving",
            "tender: worst status 3",
        ),
        "NVLinkError", "lane 3 from chip 1 to chip 2 is dark", 3,
    ),
    "a guard that ended the run: no other reason fits": Known(
        log_of(*ticks(1, 40), "m00 E guard: fog rose above the band for 40 ticks in a row, first at 31", "m00 exits 4"),
        "Others", "guard: fog rose above the band",
    ),
    "an exception of no known class": Known(
        log_of(
            *ticks(1, 12), "Traceback (most recent call last):", '  File "/srv/quern/mill.py", line 88, in turn',
            "    self.hopper.draw(9)", "quern.hopper.HopperDry: the granary keeper at gk-2:7001 turned 9 draws away",
            "quern: leaving with 9",
        ),
        "ConnectionError", "HopperDry: the granary keeper",
    ),
    "seats that only say that one is gone, and one that says why": Known(
        log_of(
            *ticks(1, 15), "m07 E slate: the pool of 40 GiB has no room for another 3 GiB", "m07 leaves with 9",
            *(f"m{at:02d} E ring: seat 7 does not answer" for at in (1, 2, 3)), "tender: worst status 9",
        ),
        "OutOfMemoryError", "the pool of 40 GiB has no room", 7,
    ),
    "a job that came to its end in spite of what it printed": Known(
        log_of(
            *ticks(1, 15), "m02 E put: the store said no (507), trying again", "m02 I put: done at the second try",
            *ticks(16, 30), "plan is through, 45 ticks, seal written", "tender: every seat well, status 0",
        ),
        "none", "",
    ),
}  # fmt: skip


def ask(monkeypatch: pytest.MonkeyPatch, book: RuleBook, known: Known) -> tuple[Diagnosis, Diagnosis]:
    """The diagnosis without the oracle, and with it."""
    alone = diagnose(known.log, rules=book, memory=False)
    with ChatServer(oracle_of(known.reason, known.root, known.rank)) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        return alone, diagnose(known.log, rules=book, memory=False, llm=AgentSettings(NAME, timeout=30.0))


def lost(known: Known, alone: Diagnosis, after: Diagnosis) -> list[str]:
    """What of the oracle's knowledge is not in the answer, where it was for it to say."""
    if not leaves_open(alone):
        return []
    root = after.root_cause
    found: list[str] = []
    if after.reason.value not in (known.reason, *known.also):
        found.append(f"reason: {after.reason.value}")
    if (root is not None or known.root) and (root is None or not known.root or known.root not in root.text):
        found.append(f"line: {root.text if root else None}")
    if known.rank is not None and (root is None or root.rank != known.rank):
        found.append(f"rank: {root.rank if root else None}")
    return found


@pytest.mark.parametrize("name", OWN)
def test_what_the_oracle_knows_is_taken(monkeypatch: pytest.MonkeyPatch, book: RuleBook, name: str) -> None:
    """Whatever follows its line, whatever catch-alls say, also when its reason is Others."""
    known = OWN[name]
    alone, after = ask(monkeypatch, book, known)
    assert known.reason == "none" or leaves_open(alone), "nobody would ask: no cause is named here"
    assert lost(known, alone, after) == []
    if known.reason != "none":
        assert after.failed is True
        assert after.decided_by == "agent"


def inhouse() -> list[dict[str, Any]]:
    """Further labelled logs of in-house software, where a checkout lies beside them."""
    file = SHARED / "inhouse" / "dev.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


@pytest.mark.skipif(not inhouse(), reason="the labelled in-house logs are not here")
def test_of_the_labelled_in_house_logs_nothing_is_lost(monkeypatch: pytest.MonkeyPatch, book: RuleBook) -> None:
    """Reason, line and rank of all that the judgement left open; and it leaves no failure called healthy."""
    left: dict[str, list[str]] = {}
    for case in inhouse():
        known = Known(
            case["log"].encode(), case["reason"], case["root_line"], case.get("rank"), tuple(case.get("also_ok", ()))
        )
        alone, after = ask(monkeypatch, book, known)
        if missed := lost(known, alone, after):
            left[case["id"]] = missed
        if known.reason != "none" and after.failed is not True:
            left.setdefault(case["id"], []).append("nobody asked")
    assert left == {}


def test_a_clean_end_may_be_said_where_the_log_shows_it(monkeypatch: pytest.MonkeyPatch, book: RuleBook) -> None:
    """A last line that is cited for it is proof; without one a failure stays."""
    log = log_of(*ticks(1, 12), "m02 E hopper: drew nothing", "Traceback (most recent call last):",
                 '  File "/srv/quern/mill.py", line 88, in turn', "    draw()", "quern.hopper.HopperDry: nothing there",
                 *[f"note {at}: all seats rest" for at in "abcd"], "plan is through and sealed")  # fmt: skip
    alone = diagnose(log, rules=book, memory=False)
    said = {"cause": "It was caught.", "would_prove": "", "evidence": [], "confidence": 0.9}
    answers: dict[str, Diagnosis] = {}
    for kind, cited in {
        "cited": {"source": 1, "number": 22, "quote": "plan is through and sealed"},
        "bare": None,
    }.items():
        with ChatServer([calls("answer", reason="none", root_line=cited, rank=None, **said)]) as server:
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
            answers[kind] = diagnose(log, rules=book, memory=False, llm=AgentSettings(NAME, timeout=30.0))
    assert alone.failed is True
    assert (answers["cited"].failed, answers["cited"].reason) == (False, Reason.NONE)
    assert answers["cited"].recovery.automatic is False
    assert answers["bare"].failed is True
