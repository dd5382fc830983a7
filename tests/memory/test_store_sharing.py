"""The incident store shared: exports and imports carry everything, and nothing that comes from outside does harm."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import sys
from pathlib import Path

import pytest

from logdiag.errors import MemoryStoreError
from logdiag.memory.documents import Merged
from logdiag.memory.incident import Helped
from logdiag.memory.store import Store
from logdiag.model import Reason
from tests.memory_helpers import incident, letters_store, text_of

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="uses what only Linux has")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store without the shipped incidents."""
    return letters_store(tmp_path / "memory")


def test_export_and_import_carry_everything(store: Store, tmp_path: Path) -> None:
    """What one exported oneself; a second import changes nothing."""
    store.add(incident("a", window=("x",), job={"name": "j"}, node="n", cause="c", remedy="r"))
    store.correct(store.add(incident("b")).id, by="mira", outcome=Helped.WORKED)
    text = io.StringIO()
    assert store.export(text) == 2
    other = letters_store(tmp_path / "other")
    assert other.import_(text.getvalue().splitlines(), own=True) == Merged(added=2)
    assert other.list() == store.list()
    assert other.import_(text.getvalue().splitlines(), own=True) == Merged(kept=2)
    assert json.loads(text.getvalue().splitlines()[0])["schema"] == "logdiag.incident/1"


def line_of(**fields: object) -> str:
    """A line of an import."""
    return json.dumps({"id": "i-22222222", "signature": "widget", "reason": "KeyError", "action": "restart", **fields})


EARLY, LATE = "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"


@pytest.mark.parametrize(
    ("ours", "theirs", "wins"),
    [
        ({"changed_at": EARLY}, {"changed_at": LATE}, "theirs"),
        ({"changed_at": LATE}, {"changed_at": EARLY}, "ours"),
        ({"changed_at": EARLY, "confirmed_by": "m"}, {"changed_at": LATE}, "ours"),
        ({"changed_at": LATE}, {"changed_at": EARLY, "confirmed_by": "m"}, "theirs"),
        ({"changed_at": EARLY, "confirmed_by": "m"}, {"changed_at": LATE, "confirmed_by": "n"}, "theirs"),
        ({"changed_at": EARLY}, {"changed_at": EARLY}, "ours"),
    ],
)
def test_an_import_keeps_what_is_confirmed_and_then_what_is_newer(
    store: Store, ours: dict[str, str], theirs: dict[str, str], wins: str
) -> None:
    """In whatever order they come."""
    store.import_([line_of(**ours, remedy="ours")], own=True)
    merged = store.import_([line_of(**theirs, remedy="theirs")], own=True)
    assert store.get("i-22222222").remedy == wins
    assert merged == (Merged(replaced=1) if wins == "theirs" else Merged(kept=1))


def test_what_others_confirmed_is_not_confirmed_here(store: Store) -> None:
    """It says where it came from and who had confirmed it there, is never taken before one's own word, and is
    knowledge when it is confirmed here."""
    ours = store.correct(store.add(incident("widget", Reason.OS_ERROR)).id, by="mira")
    line = line_of(confirmed_by="eve", changed_at=LATE)
    store.import_([line, line_of(id=ours.id, confirmed_by="eve", changed_at=LATE)], "theirs.jsonl")
    foreign = store.get("i-22222222")
    assert (foreign.confirmed_by, foreign.imported) == ("", "theirs.jsonl, confirmed there by eve")
    assert store.get(ours.id) == ours
    assert store.known([foreign.fingerprint]) == {foreign.fingerprint: (ours,)}
    store.correct(foreign.id, by="mira")
    assert foreign.id in {item.id for item in store.known([foreign.fingerprint])[foreign.fingerprint]}
    assert "imported from theirs.jsonl" in store.get(foreign.id).history[0].what


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"signature": "\\ud800", "reason": "KeyError", "action": "restart"}',
        json.dumps({name: [1] for name in ("id", "signature", "reason", "action", "outcome", "window", "job", "node")}),
        line_of(cause="x" * 300_000),
        line_of(cause="x" * 5_000),
        line_of(id="../../../..x/evil"),
        line_of(id="i-x'); DROP TABLE incidents; --"),
        line_of(id="i-\x1b[31mabcd"),
        line_of(seen_at="9999-12-31T23:59:59-23:00"),
        line_of(seen_at="2999-01-01"),
        line_of(seen_at=["2026"]),
        line_of(history=[{"at": 1}]),
        line_of(history="x"),
        line_of(frames=[["a", "b"]]),
        line_of(times_seen=10**400),
    ],
    ids=lambda line: line[:50],
)
def test_hostile_lines_are_refused_with_a_sentence(store: Store, line: str) -> None:
    """Too deep, too long, of the wrong kind, half characters, ids that are none: nothing is taken in."""
    with pytest.raises(MemoryStoreError, match=r"theirs\.jsonl:2: ") as caught:
        store.import_(io.StringIO(f"{line_of()}\n{line}\n"), "theirs.jsonl")
    assert len(str(caught.value)) < 5000
    assert store.count() == 0


BAD_ROWS = {
    "deep": "[" * 100_000,
    "not JSON": "{torn",
    "no incident": "7",
    "blob": b"\xff\x00\x80",
    "nothing": "",
    "no reason": '{"signature": "x", "action": "restart"}',
    "of a newer version": '{"signature": "x", "action": "restart", "reason": "FluxError"}',
    "half a character": '{"signature": "\\ud800", "reason": "KeyError", "action": "restart"}',
    "wrong kinds": '{"signature": 7, "reason": "KeyError", "action": "restart", "seen_at": 9}',
    "too long": '{"signature": "x", "reason": "KeyError", "action": "restart", "cause": "' + "x" * 300_000 + '"}',
}


@pytest.mark.parametrize("document", BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_spoils_nothing_but_itself(store: Store, document: object) -> None:
    """Lists, searches, statistics and exports go on without it, and say which it is; it can be forgotten."""
    bad, good = store.add(incident(text_of(1), node="n1")), store.add(incident(text_of(2), node="n1"))
    store.correct(bad.id, by="mira")
    store.nearest(text_of(1))
    with sqlite3.connect(Path(store.place, "incidents.db")) as connection:
        connection.execute("UPDATE incidents SET document = ?, reason = 'Bad' WHERE id = ?", (document, bad.id))
        connection.execute("UPDATE vectors SET vector = x'00' WHERE row = 1")
    connection.close()
    with letters_store(store.place) as opened:
        assert opened.list() == (good,)
        assert opened.unreadable == (bad.id,)
        assert opened.known([bad.fingerprint]) == {}
        assert [item.id for _, item in opened.nearest(text_of(1))] == [good.id]
        assert opened.stats()["incidents"] == 1
        assert opened.export(io.StringIO()) == 1
        with pytest.raises(MemoryStoreError, match="cannot be read"):
            opened.get(bad.id)
        opened.import_([line_of(id=bad.id)])
        assert opened.get(bad.id).signature == "widget"
        opened.forget(bad.id)
        assert opened.list() == (good,)


@LINUX
def test_nobody_else_may_read_a_store(store: Store) -> None:
    """The folder and its files, whatever the process leaves to others."""
    before = os.umask(0)
    try:
        store.add(incident("widget"))
        store.nearest("widget")
        kept = [Path(store.place), *Path(store.place).iterdir()]
        assert {path.name: oct(path.stat().st_mode & 0o777) for path in kept} == {
            path.name: "0o700" if path.is_dir() else "0o600" for path in kept
        }
    finally:
        os.umask(before)


def test_an_import_with_another_wording_is_found_by_it(store: Store) -> None:
    """The old wording's vector does not stay."""
    store.import_([line_of(changed_at=EARLY)])
    store.nearest("widget")
    store.import_([line_of(changed_at=LATE, signature="gear broke")])
    assert store.nearest("gear broke", 1)[0][0] == pytest.approx(1, abs=0.002)
    assert store.count() == 1


def test_a_broken_import_changes_nothing(store: Store) -> None:
    """All problems of all lines are told, with their line and what is allowed."""
    lines = [
        line_of(),
        "{torn",
        line_of(reason="Bad", action="", window="x", job={"a": 1}, node=5),
        line_of(id="corpus/x"),
        "[]",
        line_of(seen_at="noon"),
    ]
    with pytest.raises(MemoryStoreError) as caught:
        store.import_(lines, "shared.jsonl")
    text = str(caught.value)
    for part in (
        "shared.jsonl:2: not JSON",
        "shared.jsonl:3: reason: Input should be 'NVLinkError'",
        "shared.jsonl:3: action: Input should be",
        "shared.jsonl:3: window: Input should be a valid tuple",
        "shared.jsonl:3: job.a: Input should be a valid string",
        "shared.jsonl:6: seen_at: 'noon' is no time",
        "shared.jsonl:3: node: Input should be a valid string",
        "shared.jsonl:4: id: corpus/x ships with logdiag",
        "shared.jsonl:5: is no JSON object",
    ):
        assert part in text
    assert store.count() == 0
