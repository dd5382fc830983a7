"""The incident store: what is put in comes back, with what ships below it, and what is alike is found."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from logdiag.errors import MemoryStoreError
from logdiag.memory.corpus import corpus_in, load_corpus
from logdiag.memory.incident import Helped, Incident, masked
from logdiag.memory.store import Store, open_store
from logdiag.model import Action, Reason
from logdiag.settings.places import default_memory
from tests.memory_helpers import incident, letters, letters_store, python, text_of
from tests.test_imports import loaded_by

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="uses what only Linux has")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store without the shipped incidents."""
    return letters_store(tmp_path / "memory")


def test_an_incident_comes_back_as_it_was_added(store: Store) -> None:
    """With an id and a time that it did not have."""
    given = incident(
        "widget 7 jammed in /srv/a/b",
        window=("before <n>", "after"),
        cause="It rusted.",
        remedy="Oil it.",
        outcome=Helped.WORKED,
        job={"name": "pretrain"},
        node="node-004",
        provenance="test",
        confirmed_by="mira",
    )
    added = store.add(given)
    assert added.id.startswith("i-")
    assert added.seen_at.endswith("Z")
    assert replace(added, id="", seen_at="") == given
    assert store.get(added.id) == added
    assert store.list() == (added,)
    assert store.count() == 1


def test_what_is_stored_is_masked(store: Store) -> None:
    """Paths, addresses and numbers of a raw line are not kept, neither in the signature nor in the window."""
    raw = Incident(
        "",
        "lost 203.0.113.9 reading /home/mira/x.bin",
        Reason.OS_ERROR,
        Action.RESTART,
        window=("open /home/mira/y/z",),
    )
    added = store.add(raw)
    assert added.signature == "lost <address> reading <path>"
    assert added.window == ("open <path>",)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2026-11-03", "2026-11-03T00:00:00Z"),
        ("2026-11-03T14:05:00+02:00", "2026-11-03T12:05:00Z"),
        ("2026-11-03 14:05:00", "2026-11-03T14:05:00Z"),
        ("2026-11-03T14:05:00Z", "2026-11-03T14:05:00Z"),
    ],
)
def test_times_are_kept_in_utc(store: Store, given: str, kept: str) -> None:
    """Whatever zone they are given in; without a zone they are UTC."""
    assert store.add(incident("widget", seen_at=given)).seen_at == kept


def test_the_list_is_narrowed_and_has_the_latest_first(store: Store) -> None:
    """By reason, node, time and number."""
    a = store.add(incident("a", seen_at="2026-11-01", node="n1"))
    b = store.add(incident("b", Reason.KEY_ERROR, seen_at="2026-11-03"))
    c = store.add(incident("c", seen_at="2026-11-02", node="n2"))
    assert store.list() == (b, c, a)
    assert store.list(reason=Reason.ECC_ERROR) == (c, a)
    assert store.list(node="n1") == (a,)
    assert store.list(since="2026-11-02") == (b, c)
    assert store.list(since="2026-11-02T00:00:00Z", limit=1) == (b,)


def test_exactly_this_failure_is_found_by_its_fingerprint(store: Store) -> None:
    """Occurrences that differ in what is masked are one failure; the latest first."""
    first = store.add(incident("widget 7 jammed", seen_at="2026-11-01"))
    second = store.add(incident("widget 12 jammed", seen_at="2026-11-02"))
    store.add(incident("gear 7 jammed"))
    assert store.by_fingerprint(first.fingerprint) == (second, first)
    assert store.by_fingerprint("0" * 16) == ()


def test_confirming_says_who_and_whether_it_helped(store: Store) -> None:
    """The very next look shows it, from another connection too."""
    added = store.add(incident("widget"))
    confirmed = store.correct(added.id, by="mira", outcome=Helped.WORKED)
    history = confirmed.history
    assert confirmed == replace(added, confirmed_by="mira", outcome=Helped.WORKED, history=history)
    assert [(one.by, one.what) for one in history] == [("mira", "corrected: outcome unknown -> worked")]
    assert letters_store(store.place).get(added.id) == confirmed


def test_another_reason_keeps_nothing_of_the_old_one(store: Store) -> None:
    """Cause, remedy and outcome go, the action is that of the new reason's table; what is given stays, and so
    does the signature."""
    old = incident("widget", remedy="pray", outcome=Helped.DID_NOT, cause="cold", node="n1")
    added = store.add(old)
    corrected = store.correct(added.id, by="mira", reason=Reason.KEY_ERROR)
    assert (corrected.reason, corrected.action, corrected.confirmed_by) == (Reason.KEY_ERROR, Action.NONE, "mira")
    assert (corrected.cause, corrected.remedy, corrected.outcome) == ("", "", Helped.UNKNOWN)
    assert (corrected.signature, corrected.node) == (added.signature, "n1")
    assert store.list(reason=Reason.KEY_ERROR) == (corrected,)
    assert store.list(reason=Reason.ECC_ERROR) == ()
    given = store.correct(
        store.add(old).id, by="mira", reason=Reason.KEY_ERROR, action=Action.FIX_AND_RESUBMIT, cause="x"
    )
    assert (given.action, given.cause, given.remedy) == (Action.FIX_AND_RESUBMIT, "x", "")
    with pytest.raises(MemoryStoreError, match="confirmed by nobody; say who"):
        store.correct(added.id, by=" ")


def test_a_remedy_can_be_emptied_and_replaced(store: Store) -> None:
    """Whether the old one had helped says nothing of the new one; what is not touched stays."""
    added = store.add(incident("widget", remedy="pray", outcome=Helped.DID_NOT, cause="cold"))
    emptied = store.correct(added.id, by="mira", remedy="")
    assert (emptied.remedy, emptied.outcome, emptied.cause) == ("", Helped.UNKNOWN, "cold")


def test_the_history_says_who_said_what(store: Store) -> None:
    """Of every correction, in the order of time, whatever was said later."""
    added = store.add(incident("widget", remedy="pray"))
    store.correct(added.id, by="ada", reason=Reason.KEY_ERROR)
    last = store.correct(added.id, by="bob", remedy="oil it")
    assert [entry.by for entry in last.history] == ["ada", "bob"]
    assert (
        last.history[0].what == "corrected: reason ECCError -> KeyError; action restart -> none; remedy pray -> nothing"
    )
    assert last.history[1].what == "corrected: remedy nothing -> oil it"
    assert last.history[0].at <= last.history[1].at
    assert letters_store(store.place).get(added.id) == last


def test_one_failure_is_one_incident_however_often_it_is_remembered(store: Store) -> None:
    """Of one job, or with the same piece of a log where the jobs are not known; another job's is another."""
    one = incident("widget", content="abc", node="n1")
    first, known = store.remember(one)
    again, seen = store.remember(one)
    assert (known, seen, again.id, again.times_seen) == (False, True, first.id, 2)
    assert (again.seen_at, again.history[-1].what) == (first.seen_at, "seen again, 2 times in all")
    other, _ = store.remember(replace(one, content="xyz"))
    named, _ = store.remember(replace(one, content="uvw", job={"id": "4711"}))
    same, seen = store.remember(replace(one, content="rst", job={"id": "4711"}))
    assert (same.id, seen) == (named.id, True)
    _, seen = store.remember(replace(one, content="rst", job={"id": "4712"}))
    assert not seen
    assert (store.count(), other.id == first.id) == (4, False)
    for _ in range(80):
        again, _ = store.remember(one)
    assert (store.count(), again.times_seen, len(again.history)) == (4, 82, 2)


def test_who_remembers_the_same_at_once_adds_one_incident(tmp_path: Path) -> None:
    """Eight processes, one failure."""
    code = (
        "import sys\nfrom dataclasses import replace\nfrom tests.memory_helpers import incident, letters_store\n"
        "print(letters_store(sys.argv[1]).remember(incident('widget', content='abc'))[0].id)"
    )
    started = [python(code, tmp_path / "memory") for _ in range(8)]
    ids = {process.communicate(timeout=120)[0].strip() for process in started}
    kept = letters_store(tmp_path / "memory").list()
    assert {item.id for item in kept} == ids
    assert [item.times_seen for item in kept] == [8]


def test_what_is_forgotten_is_gone(store: Store) -> None:
    """From the list, from the search, and from the file's bytes."""
    kept = store.add(incident(text_of(1)))
    gone = store.add(incident("a secret codename"))
    assert {item.id for _, item in store.nearest("a secret codename", 5)} == {kept.id, gone.id}
    store.forget(gone.id)
    assert store.list() == (kept,)
    assert [item.id for _, item in store.nearest("a secret codename", 5)] == [kept.id]
    store.close()
    assert b"codename" not in Path(store.place, "incidents.db").read_bytes()


@pytest.mark.parametrize("identity", ["i-gone", "corpus/gone"])
def test_an_unknown_id_is_one_sentence(store: Store, identity: str) -> None:
    """Which names the place, the id, and where ids are shown."""
    with pytest.raises(MemoryStoreError, match=f"{identity}: no such incident; see logdiag incidents list"):
        store.get(identity)
    if not identity.startswith("corpus/"):
        with pytest.raises(MemoryStoreError, match="no such incident"):
            store.correct(identity, by="mira")
        with pytest.raises(MemoryStoreError, match="no such incident"):
            store.forget(identity)


def test_an_id_is_given_once(store: Store) -> None:
    """Adding under an id that is taken is refused, and nothing is changed."""
    store.add(incident("widget", id="i-mine2345"))
    with pytest.raises(MemoryStoreError, match="i-mine2345: is there already"):
        store.add(incident("gear", id="i-mine2345"))
    assert store.get("i-mine2345").signature == "widget"


def test_the_numbers_add_up(store: Store) -> None:
    """Stats count by reason and outcome, and who is confirmed."""
    assert store.stats()["incidents"] == 0
    store.add(incident("a", seen_at="2026-11-01"))
    store.add(incident("b", Reason.KEY_ERROR, seen_at="2026-11-03", confirmed_by="mira", outcome=Helped.WORKED))
    store.add(incident("c", seen_at="2026-11-02"))
    stats = store.stats()
    assert (stats["incidents"], stats["confirmed"]) == (3, 1)
    assert stats["reasons"] == {"ECCError": 2, "KeyError": 1}
    assert stats["outcomes"] == {"unknown": 2, "worked": 1}
    assert (stats["first_seen"], stats["last_seen"]) == ("2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z")


def test_looking_writes_nothing(tmp_path: Path) -> None:
    """A store that nobody has added to is empty, and no folder appears."""
    store = letters_store(tmp_path / "memory")
    assert store.list() == ()
    assert store.nearest("widget") == ()
    assert store.count() == 0
    assert store.export(io.StringIO()) == 0
    assert list(tmp_path.iterdir()) == []


def test_looking_where_nothing_is_loads_no_database(tmp_path: Path) -> None:
    """A user without past incidents does not pay for SQLAlchemy."""
    code = "import sys\nfrom logdiag.memory.store import open_store\nstore = open_store(sys.argv[1])\n"
    code += "assert store.count() == 0 and store.nearest('CUDA error', 3) and not store.known(['0' * 16])"
    assert loaded_by(code, str(tmp_path / "memory")) & {"sqlalchemy", "sqlite3", "numpy"} == set()


def test_the_place_is_told_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`LOGDIAG_MEMORY`, else a folder among the user's data."""
    monkeypatch.delenv("LOGDIAG_MEMORY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_memory() == str(tmp_path / "logdiag" / "memory")
    monkeypatch.setenv("LOGDIAG_MEMORY", str(tmp_path / "elsewhere"))
    assert open_store().place == str(tmp_path / "elsewhere")


def test_exact_recall_loads_nothing_heavy(tmp_path: Path) -> None:
    """Adding and finding by fingerprint need SQLAlchemy, and no library for vectors."""
    letters_store(tmp_path, shipped=True).add(incident("widget"))
    code = (
        "import sys\nfrom logdiag.memory.store import open_store\nfrom logdiag.memory.incident import fingerprint\n"
        "assert open_store(sys.argv[1]).by_fingerprint(fingerprint('widget'))"
    )
    heavy = {"numpy", "faiss", "torch", "sentence_transformers", "tokenizers", "psycopg", "sqlalchemy.orm"}
    assert loaded_by(code, str(tmp_path)) & (heavy | {"sqlalchemy"}) == {"sqlalchemy"}


def test_without_numpy_only_similarity_search_is_missing(tmp_path: Path) -> None:
    """It says what to install; everything else works."""
    code = (
        "import sys\nsys.modules['numpy'] = None\nfrom logdiag.errors import MemoryStoreError\n"
        "from logdiag.memory.incident import Incident\nfrom logdiag.memory.store import open_store\n"
        "from logdiag.model import Action, Reason\nstore = open_store(sys.argv[1])\n"
        "added = store.add(Incident('', 'widget', Reason.ECC_ERROR, Action.RESTART))\n"
        "assert store.by_fingerprint(added.fingerprint) == (added,)\n"
        "try:\n    store.nearest('widget')\nexcept MemoryStoreError as error:\n    print(error)"
    )
    out, err = python(code, tmp_path).communicate(timeout=60)
    assert out.strip().endswith("pip install 'logdiag[memory]'"), err


def test_threads_may_take_turns(store: Store) -> None:
    """A store that one thread opened serves another."""
    store.add(incident("widget"))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(store.nearest, "widget", 1).result()[0][1].signature == "widget"
        pool.submit(store.add, incident("gear")).result()
    assert store.count() == 2


def test_shipped_incidents_lie_under_every_store(tmp_path: Path) -> None:
    """In the list after one's own, by fingerprint, in the search; never changed."""
    store = letters_store(tmp_path, shipped=True)
    shipped = store.shipped[0]
    assert shipped.id.startswith("corpus/")
    assert (shipped.outcome, shipped.confirmed_by, shipped.seen_at) == (Helped.UNKNOWN, "", "")
    assert shipped.provenance
    own = store.add(replace(shipped, id="", remedy="Mine."))
    assert store.list()[0] == own
    assert shipped in store.list(reason=shipped.reason)
    assert shipped not in store.list(since="2020-01-01")
    assert store.by_fingerprint(shipped.fingerprint)[:2] == (own, shipped)
    assert store.get(shipped.id) == shipped
    nearest = store.nearest(shipped.signature, 2)
    assert {item.id for _, item in nearest} == {own.id, shipped.id}
    assert [round(score, 2) for score, _ in nearest] == [1.0, 1.0]
    for refused in (
        lambda: store.forget(shipped.id),
        lambda: store.correct(shipped.id, by="mira"),
        lambda: store.add(shipped),
    ):
        with pytest.raises(MemoryStoreError, match="cannot be changed; add an incident of your own"):
            refused()
    assert store.count() == 1


def test_the_shipped_incidents_are_well_formed() -> None:
    """Each is masked, says what happened and what was done, and shares its wording with no other of its reason."""
    corpus = load_corpus()
    assert len(corpus.incidents) >= 250
    for item in corpus.incidents:
        assert item.signature == masked(item.signature), item.id
        assert item.cause, item.id
        assert item.remedy, item.id
        assert item.action is not Action.NONE, item.id
    keys = [(item.reason, item.fingerprint) for item in corpus.incidents]
    assert len(set(keys)) == len(keys)


def test_a_broken_shipped_file_is_one_sentence(tmp_path: Path, own_cache: Path) -> None:
    """With the file, the incident, and what is wrong."""
    (tmp_path / "KeyError.yaml").write_text("- {id: a, signature: x, action: dance}\n")
    with pytest.raises(MemoryStoreError, match=r"KeyError\.yaml: a: action: Input should be 'restart'.*corpus/README"):
        corpus_in(tmp_path)


def test_the_cache_follows_the_shipped_files(tmp_path: Path, own_cache: Path) -> None:
    """Changed files are read anew, a torn cache is made anew, and an unchanged one is not parsed again."""
    folder = tmp_path / "corpus" / "script"
    folder.mkdir(parents=True)
    file = folder / "KeyError.yaml"
    file.write_text("- {id: a, signature: x y, action: restart}\n")
    assert corpus_in(folder.parent).incidents[0].signature == "x y"
    file.write_text("- {id: a, signature: x z, action: restart}\n")
    assert corpus_in(folder.parent).incidents[0].signature == "x z"
    for cached in own_cache.iterdir():
        cached.write_bytes(cached.read_bytes()[:-3])
    assert corpus_in(folder.parent).incidents[0].signature == "x z"
    code = "import pathlib, sys\nfrom logdiag.memory.corpus import corpus_in\ncorpus_in(pathlib.Path(sys.argv[1]))"
    assert "yaml" not in loaded_by(code, str(folder.parent))


def test_the_most_similar_come_first(store: Store) -> None:
    """With their cosine; the same wording has 1."""
    store.add_all([incident(text_of(number)) for number in range(200)])
    store.add(incident("the widget jammed again"))
    found = store.nearest("the widget jammed again", 3)
    assert found[0][1].signature == "the widget jammed again"
    assert found[0][0] == pytest.approx(1, abs=0.002)
    assert [score for score, _ in found] == sorted((score for score, _ in found), reverse=True)
    assert len(found) == 3


def test_what_others_add_is_found_by_the_next_search(store: Store) -> None:
    """A store that is open sees what another process committed."""
    store.add(incident(text_of(1)))
    store.nearest(text_of(1))
    letters_store(store.place).add(incident("the widget jammed"))
    assert store.nearest("the widget jammed", 1)[0][1].signature == "the widget jammed"


def test_each_incident_is_embedded_once(store: Store) -> None:
    """Vectors are kept; another model makes its own, and those of the first stay."""
    store.add_all([incident(text_of(number)) for number in range(50)])
    store.nearest("x")
    again: list[str] = []
    other: list[str] = []
    open_store(store.place, embedder=letters(embedded=again), shipped=False).nearest(text_of(3))
    assert again == [text_of(3)]
    small = letters("small", 32, embedded=other)
    assert open_store(store.place, embedder=small, shipped=False).nearest(text_of(3), 1)[0][1].signature == text_of(3)
    assert len(other) == 51
    open_store(store.place, embedder=letters(embedded=again), shipped=False).nearest(text_of(3))
    assert again == [text_of(3)] * 2
