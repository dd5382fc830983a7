"""What a team's own incidents do and do not do, with the command and the logs that people have."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from logdiag import Diagnosis, Reason, diagnose
from logdiag.memory.incident import masked, skeleton
from logdiag.memory.remember import incident_of
from logdiag.memory.store import open_store
from logdiag.model import Suspect
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook
from tests.helpers import log_of, run_logdiag, steps, traceback_of
from tests.memory_helpers import incident

NETWORK = "NCCL WARN NET/IB : Got completion from peer 10.0.{n}.7<41233> with status=12 opcode=0 len=0 vendor err 129"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of an empty store, told by the environment."""
    monkeypatch.setenv("LOGDIAG_MEMORY", str(tmp_path / "memory"))
    return tmp_path / "memory"


def network_log(folder: Path, name: str, *, node: str, rank: int, started: int) -> Path:
    """The log of a job whose network failed on a node."""
    log = folder / name
    line = f"{node}:4711:4802 [{rank % 8}] {NETWORK.format(n=started)}"
    log.write_bytes(
        log_of(*steps(started, 60), line, f"{node}: [rank{rank}]: RuntimeError: NCCL communicator was aborted")
    )
    return log


def answer(*arguments: str | Path) -> dict[str, Any]:
    """What `logdiag` answers, read as JSON."""
    done = run_logdiag(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr.decode()
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def test_one_log_remembered_eleven_times_convicts_no_node(book: RuleBook, memory: Path, tmp_path: Path) -> None:
    """A controller that retries its call, or two people with one log: one incident, one job, no suspicion."""
    log = network_log(tmp_path, "run7.log", node="node-11", rank=6, started=100)
    first = answer("--remember", log)
    copied = tmp_path / "copy.log"
    copied.write_bytes(log.read_bytes())
    for again in (answer("--remember", path) for path in (log, copied) * 5):
        assert again["incident"] == first["incident"]
        assert any(note.startswith(f"known as {first['incident']}, seen again") for note in again["notes"])
    for number in range(3):
        answer(
            "--remember", network_log(tmp_path, f"o{number}.log", node=f"node-{number + 20}", rank=1, started=number)
        )
    records = json.loads(run_logdiag("incidents", "nodes", "--of", "200", "--format", "json").stdout)
    assert {item["node"]: item["failures"] for item in records}["node-11"] == 1
    assert not any(item["suspicious"] for item in records)
    after = answer(network_log(tmp_path, "next.log", node="node-30", rank=2, started=900))
    assert "node-11" not in after["recovery"]["exclude_nodes"]


def test_why_a_node_is_left_out_is_said(memory: Path, tmp_path: Path) -> None:
    """In a line that names the count of jobs and the days."""
    with open_store(memory, shipped=False) as store:
        for number in range(6):
            store.add(incident("lost", Reason.NETWORK_ERROR, node="node-11", job={"id": f"j{number}"}))
        for number in range(12):
            store.add(incident("lost", Reason.NETWORK_ERROR, node=f"node-{number + 20}", job={"id": f"k{number}"}))
    log = tmp_path / "ecc.log"
    xid = "NVRM: Xid (PCI:0000:3b:00): 48, pid=3121, An uncorrectable double bit error (DBE) has been detected on GPU"
    log.write_bytes(log_of(*steps(1, 50), f"node-40: {xid}"))
    said = answer(log)
    assert "node-11" in said["recovery"]["exclude_nodes"]
    notes = [note for note in said["notes"] if note.startswith("left out of the restart: node node-11")]
    assert len(notes) == 1
    assert "failed first in 6 jobs of the last 30 days" in notes[0]


def test_a_corrected_incident_says_nothing_of_its_own_job(memory: Path, tmp_path: Path) -> None:
    """The next job's answer has the next job's rank and node, the new reason's action, and no word of the old ones."""
    first = answer("--remember", network_log(tmp_path, "run7.log", node="node-11", rank=6, started=100))
    correct = ("incidents", "correct", first["incident"], "--reason", "S3StorageError", "--remedy", "renewed the token")
    assert run_logdiag(*correct, "--by", "ada").returncode == 0
    after = answer(network_log(tmp_path, "run8.log", node="node-77", rank=2, started=700))
    assert (after["reason"], after["decided_by"]) == ("S3StorageError", "memory")
    assert after["recovery"]["action"] == "retry_later"
    assert after["confidence"] <= 0.97
    words = json.dumps([after["summary"], after["recovery"], [past["words"] for past in after["similar"]]])
    for old in ("node-11", "rank 6", "InfiniBand", "excluding"):
        assert old not in words
    assert f"Ada said so of incident {first['incident']}" in after["recovery"]["why"]
    assert "renewed the token" in after["recovery"]["steps"]


@pytest.mark.parametrize(
    "ending",
    [
        ["mixer[7]: CRITICAL lattice {n}: quorum lost on host {host}, epoch 4{n}1 withdrawn"],
        ["2026-11-20 10:0{n}:00 ERROR [loader] shard 0001{n} of /data/{host}/mix checksum differs, stopping job"],
        ["[w{n}|E] feeder@{host}: belt b{n}7 stopped after {n}30ms, tipping over"],
    ],
    ids=["critical", "error", "terse"],
)
def test_a_failure_that_nothing_knew_is_known_after_one_correction(
    ending: list[str], book: RuleBook, tmp_path: Path
) -> None:
    """Remembered by its most suspicious line, corrected by a person, and known with other numbers, hosts and paths."""
    place = tmp_path / "memory"

    def log(number: int, host: str) -> bytes:
        return log_of(*steps(1, 40 + number), *(line.format(n=number, host=host) for line in ending))

    with open_store(place) as store:
        alone = diagnose(log(3, "frodo-a1"), rules=book, memory=store)
        last = alone.digest.lines[-1]
        found = alone if alone.suspects or alone.root_cause else suspected(alone, last.source, last.number, last.text)
        kept, _ = store.remember(incident_of(found))
        assert kept.signature == masked(last)
        store.correct(kept.id, by="mira", reason=Reason.DATASET_LOADING_ERROR, remedy="Wrote the shard again.")
        after = diagnose(log(5, "bilbo-c4.prod.example.com"), rules=book, memory=store)
    assert (after.failed, after.reason, after.decided_by) == (True, Reason.DATASET_LOADING_ERROR, "memory")
    assert "Wrote the shard again." in after.recovery.steps
    with open_store(place) as store:
        healthy = diagnose(log_of(*steps(1, 45), "Training completed."), rules=book, memory=store)
    assert healthy.failed is False


def suspected(answer: Diagnosis, source: str, line: int, text: str) -> Diagnosis:
    """The same answer with one suspicious line, and no word on whether the job failed."""
    from dataclasses import replace

    return replace(answer, failed=None, suspects=(Suspect(source, line, text, 0.9),))


@pytest.mark.parametrize("lines", [[], ["step 1"], steps(1, 30)], ids=["empty", "a line", "steps"])
def test_a_job_that_failed_always_gets_an_id(lines: list[str], book: RuleBook, tmp_path: Path) -> None:
    """Where no line tells why, it is remembered by how it ended, and no ordinary line is taken for a failure later."""
    with open_store(tmp_path / "memory") as store:
        failed = diagnose(log_of(*lines), rules=book, memory=store, remember=True, exit_code=137)
        assert failed.incident
        store.correct(failed.incident, by="mira", reason=Reason.NODE_FAILURE)
        healthy = diagnose(log_of(*steps(1, 45)), rules=book, memory=store)
    assert healthy.decided_by != "memory"
    assert healthy.failed is not True


def test_one_teams_exception_is_not_anothers(book: RuleBook, tmp_path: Path) -> None:
    """`KeyError: 'text'` says little: what was confirmed of it holds where it was raised in the same place."""
    ours = [*steps(1, 9), *traceback_of("KeyError: 'text'")]
    theirs = [*steps(1, 9), "Traceback (most recent call last):", '  File "/opt/b/collate.py", line 12, in __call__',
              "    ids = tokenize(sample)", "KeyError: 'text'"]  # fmt: skip
    moved = [line.replace("/srv/job/", "/home/bilbo/v2/").replace("line 71", "line 99") for line in ours]
    with open_store(tmp_path / "memory") as store:
        kept = diagnose(log_of(*ours), rules=book, memory=store, remember=True).incident
        assert [frame.function for frame in store.get(kept).frames] == ["main", "<module>"]
        store.correct(kept, by="mira", reason=Reason.DATASET_LOADING_ERROR)
        assert diagnose(log_of(*moved), rules=book, memory=store).reason is Reason.DATASET_LOADING_ERROR
        assert diagnose(log_of(*theirs), rules=book, memory=store).reason is Reason.KEY_ERROR


def test_a_poisoned_row_ends_no_diagnosis(memory: Path, tmp_path: Path) -> None:
    """The rules decide, one note says how many rows are bad, and the other incidents still count."""
    log = network_log(tmp_path, "run7.log", node="node-11", rank=6, started=100)
    bad = answer("--remember", log)["incident"]
    with open_store(memory, shipped=False) as store:
        store.correct(bad, by="mira")
        good = store.add(incident("lattice of the mixer lost its quorum", Reason.OS_ERROR, confirmed_by="mira"))
    with sqlite3.connect(memory / "incidents.db") as connection:
        connection.execute("UPDATE incidents SET document = ?, signature = x'ff00' WHERE id = ?", ("[" * 100_000, bad))
    connection.close()
    said = answer(log)
    assert said["reason"] == "NetworkError"
    notes = [note for note in said["notes"] if "could not be read" in note]
    assert notes == [f"1 past incident could not be read and left out ({bad}); logdiag incidents forget removes them"]
    listed = run_logdiag("incidents", "list")
    assert (listed.returncode, good.id in listed.stdout.decode(), bad in listed.stderr.decode()) == (0, True, True)
    assert run_logdiag("incidents", "forget", bad).returncode == 0
    assert not [note for note in answer(log)["notes"] if "could not be read" in note]


def test_what_ships_is_a_known_remedy_and_decides_nothing(book: RuleBook, tmp_path: Path) -> None:
    """It says where it is known from, and never that somebody tried it."""
    with open_store(tmp_path / "memory") as store:
        ecc = diagnose(
            log_of(*steps(1, 30), "CUDA error: uncorrectable ECC error encountered"), rules=book, memory=store
        )
        assert ecc.similar
        for past in ecc.similar:
            assert past.incident.startswith("corpus/")
            assert past.outcome == "unknown"
            assert past.provenance
            assert past.words.startswith(f"known remedy ({past.provenance}): ")
        for shipped in store.shipped[:: max(1, len(store.shipped) // 60)]:
            alone = diagnose(log_of(*steps(1, 30), shipped.signature), rules=book, memory=False)
            answer = diagnose(log_of(*steps(1, 30), shipped.signature), rules=book, memory=store)
            assert (answer.reason, answer.confidence, answer.recovery) == (
                alone.reason,
                alone.confidence,
                alone.recovery,
            )


def test_an_import_decides_nothing_before_it_is_confirmed_here(book: RuleBook, tmp_path: Path) -> None:
    """Whoever hands over an export decides no action, and convicts no node."""
    line = "lattice of the mixer lost its quorum in stage blue"
    (tmp_path / "theirs.jsonl").write_text(
        "".join(
            json.dumps({"id": f"i-2222222{at}", "signature": line, "reason": "S3StorageError", "action": "retry_later",
                        "confirmed_by": "eve", "node": "node-9", "job": {"id": f"{at}"}}) + "\n"
            for at in range(8)
        )
    )  # fmt: skip
    with open_store(tmp_path / "memory") as store:
        with open(tmp_path / "theirs.jsonl", encoding="utf-8") as file:
            store.import_(file)
        log = log_of(*steps(1, 30), f"ERROR {line}")
        assert diagnose(log, rules=book, memory=store).decided_by != "memory"
        from logdiag.memory.nodes import node_records

        assert node_records(store, nodes=100) == ()
        store.correct("i-22222220", by="mira")
        assert diagnose(log, rules=book, memory=store).reason is Reason.S3_STORAGE_ERROR


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("shard w3 of data/a_1.bin gone on host frodo", "shard w17 of data/b_22.bin gone on host bilbo", True),
        ("peer=samwise-2 left ring r4", "peer=gimli.prod.example.com left ring r11", True),
        ("mixer@frodo: belt b7 stopped", "mixer@bilbo: belt b12 stopped", True),
        ("ring failed with errno 28", "ring failed with errno 5", False),
        ("quartz.lattice.ShardFault: gone", "quartz.lattice.RingFault: gone", False),
        ("belt stopped", "belt slowed", False),
    ],
)
def test_a_skeleton_has_no_names_and_keeps_codes(one: str, other: str, same: bool) -> None:
    """What varies from run to run is left out, and what tells failures apart is not."""
    assert (skeleton(masked(parse_line(one))) == skeleton(masked(parse_line(other)))) is same
