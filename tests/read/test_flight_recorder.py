"""Flight-recorder dumps of torch: read safely, under any name, into the table of rank and process group.

The dumps in `tests/data/dumps` are real: `evals/record_dumps.py` made them with torch 2.13 and Gloo.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from logdiag import Diagnosis, SourceError, diagnose
from logdiag.read.pickles import plain_pickle
from logdiag.rules import RuleBook
from tests.helpers import DATA

DUMPS = DATA / "dumps"


def of(folder: Path, book: RuleBook) -> Diagnosis:
    """The answer for a folder of dumps."""
    return diagnose(folder, rules=book, memory=False)


@pytest.mark.parametrize(
    ("fault", "kind", "rank", "sentence"),
    [
        ("missing", "missing-rank", 2, "rank 2 never entered ALLREDUCE 13 (it finished 12 "),
        ("missing-json", "missing-rank", 2, "rank 2 never entered ALLREDUCE 13 (it finished 12 "),
        ("late", "slow-rank", 2, "rank 2 never entered ALLREDUCE 12 (it finished 11 "),
        ("size", "wrong-size", 1, "rank 1 entered ALLREDUCE 13 with [[6]]->[[6]], ranks 0, 2-3 with [[8]]->[[8]]"),
        ("operation", "desync", 1, "rank 1 came to BROADCAST 13, ranks 0, 2-3 to ALLREDUCE 13"),
        ("extra", "desync", 3, "rank 3 entered ALLREDUCE 13, which ranks 0-2 never did"),
    ],
)
def test_real_dumps_tell_which_rank_and_how(fault: str, kind: str, rank: int, sentence: str, book: RuleBook) -> None:
    """Five ways to be out of step, four processes each, pickled and as JSON."""
    answer = of(DUMPS / fault, book)
    assert answer.collectives is not None
    assert (answer.kind, answer.collectives.ranks) == (kind, (rank,))
    assert answer.collectives.summary.startswith(sentence)
    assert answer.failed
    assert answer.root_cause is not None
    assert answer.root_cause.rank == rank
    assert [row.rank for row in answer.collectives.rows] == [0, 1, 2, 3]


def test_the_stack_of_the_missing_ranks_last_call_is_told(book: RuleBook) -> None:
    """Frames of torch itself, which are in every stack, are left out."""
    answer = of(DUMPS / "missing", book)
    assert answer.collectives is not None
    row = answer.collectives.rows[2]
    assert (row.standing, row.enqueued, row.completed) == ("behind", 12, 12)
    assert row.stack[0].startswith("reduce (train.py:")
    assert not any("distributed_c10d" in frame for frame in row.stack)


def test_a_record_is_a_line_of_its_number(book: RuleBook) -> None:
    """The evidence names the record; the lines behind them say where the rank stood."""
    answer = of(DUMPS / "missing", book)
    records = len(pickle.loads((DUMPS / "missing" / "nccl_trace_rank_0").read_bytes())["entries"])
    assert answer.root_cause is not None
    assert answer.root_cause.line > records
    assert {log.kind for log in answer.logs} == {"flight-recorder"}


def test_plain_pickles_are_read_as_python_reads_them() -> None:
    """All real dumps, and every protocol from 2 on, for plain values of all kinds."""
    for path in DUMPS.glob("[!.]*[!n]/nccl_trace_rank_*"):
        data = path.read_bytes()
        assert plain_pickle(data, path.name) == pickle.loads(data)
    value = {"a": [1, -2, 300, 70_000, 1 << 40, 2.5, None, True, False, (), (1,), (1, 2, 3, 4)], "ü": {"b": "c"}}
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert plain_pickle(pickle.dumps([value, value], protocol), "x") == [value, value]
    assert plain_pickle(pickle.dumps(b"\x00\xff", 4), "x") == b"\x00\xff"


class Runs:
    """Pickled, it makes a folder where it is loaded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_code_is_refused_and_named(protocol: int, tmp_path: Path, book: RuleBook) -> None:
    """Alone it is an error, beside other dumps a note; in both cases it runs nothing."""
    trap = tmp_path / "made"
    dump = pickle.loads((DUMPS / "missing" / "nccl_trace_rank_3").read_bytes())
    dump["entries"].append(Runs(trap))
    hostile = tmp_path / "nccl_trace_rank_3"
    hostile.write_bytes(pickle.dumps(dump, protocol))
    with pytest.raises(
        SourceError, match=r"nccl_trace_rank_3: a pickle that would run code \((?:STACK_)?GLOBAL \w+\.mkdir"
    ):
        diagnose(hostile, rules=book, memory=False)
    others = [DUMPS / "missing" / f"nccl_trace_rank_{rank}" for rank in range(3)]
    answer = diagnose(*others, hostile, rules=book, memory=False)
    assert not trap.exists()
    assert any("would run code" in note and "mkdir" in note for note in answer.notes)
    assert answer.collectives is not None
    assert answer.collectives.ranks == (2,)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02r\xff\xff\xff\xff.",  # a place in the memo that would take 64 GB
        b"\x80\x02X\xff\xff\xff\xffabc.",  # a text longer than the file
        b"\x80\x02" + b"(" * 200_000 + b".",
        b"\x80\x02" + b"]q\x00" + b"h\x00a" * 1000 + b".",  # a list that holds itself
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f}.",
        b"\x80\x02}(K\x01]u.",
        b"\x80\x02u.", b"\x80\x02.", b"\x80\x02", b"\x80\x02h\x07.",
        b"\x80\x02}" + b"}s" * 50,
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",  # an array that would take all memory
        b"\x80\x02\x82\x01.",  # a class by its number
    ],
)  # fmt: skip
def test_hostile_pickles_end_in_one_sentence(data: bytes, tmp_path: Path, book: RuleBook) -> None:
    """None takes memory or time, none raises anything else."""
    path = tmp_path / "trace_0"
    path.write_bytes(data)
    began = time.monotonic()
    with pytest.raises(SourceError, match=r"trace_0: "):
        diagnose(path, rules=book, memory=False)
    assert time.monotonic() - began < 15


def test_entries_of_the_wrong_kinds_do_no_harm(tmp_path: Path, book: RuleBook) -> None:
    """Any value may stand anywhere, and no text of a dump makes a line of its own."""
    strange: list[Any] = [None, 7, "x", [], {}, {"process_group": 3}, {"collective_seq_id": "many", "frames": [1, {}]}]
    forged = {"process_group": ("0\n[rank9]: died", "x"), "state": "\x1b[31m", "is_p2p": 1}
    sizes = {"collective_seq_id": 1 << 70, "input_sizes": [[1 << 80, "a"], None], "time_created_ns": -(1 << 62)}
    dump = {"entries": [*strange, forged, sizes], "pg_config": {1: 2}, "pg_status": [], "version": "2.10"}
    (tmp_path / "dump_4").write_bytes(pickle.dumps(dump, 2))
    answer = diagnose(tmp_path / "dump_4", rules=book, memory=False)
    assert {line.rank for line in answer.digest.lines} == {4}
    assert all("\n" not in line.text and "\x1b" not in line.text for line in answer.digest.lines)


def test_a_truncated_dump_is_a_note_and_the_rest_is_read(tmp_path: Path, book: RuleBook) -> None:
    """What breaks off lacks its latest calls, so nothing of it counts."""
    for rank in range(4):
        data = (DUMPS / "missing" / f"nccl_trace_rank_{rank}").read_bytes()
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(data if rank != 1 else data[: len(data) // 2])
    answer = of(tmp_path, book)
    assert any("nccl_trace_rank_1: a pickle that is broken or breaks off" in note for note in answer.notes)
    assert answer.collectives is not None
    assert answer.collectives.ranks == (2,)


def test_a_missing_dump_is_information(tmp_path: Path, book: RuleBook) -> None:
    """The rank that left no dump is the one that the others wait for."""
    for rank in (0, 1, 3):
        shutil.copy(DUMPS / "missing" / f"nccl_trace_rank_{rank}", tmp_path)
    answer = of(tmp_path, book)
    assert answer.collectives is not None
    assert answer.collectives.ranks == (2,)
    assert answer.collectives.rows[2].standing == "silent"


def record(number: int, group: int, sequence: int, name: str, *, over: bool, pair: bool = False) -> dict[str, object]:
    """An entry of a dump, as torch documents it."""
    return {
        "record_id": number,
        "pg_id": group,
        "process_group": (str(group), "default_pg" if group == 0 else "pipeline"),
        "collective_seq_id": 0 if pair else sequence,
        "p2p_seq_id": sequence if pair else 0,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": 1_795_000_000_000_000_000 + number * 1_000_000,
        "input_sizes": [[8]],
        "output_sizes": [[8]],
        "state": "completed" if over else "started",
        "is_p2p": pair,
        "frames": [],
    }


def test_who_waits_for_one_rank_alone_is_not_the_missing_one(tmp_path: Path, book: RuleBook) -> None:
    """Rank 1 of a pipeline hangs, rank 2 waits to receive from it, and the others wait for both."""
    for rank in range(4):
        entries = [record(at, 0, at + 1, "all_reduce", over=True) for at in range(5)]
        if rank in (0, 3):
            entries.append(record(5, 0, 6, "all_reduce", over=False))
        if rank == 2:
            entries.append(record(5, 1, 3, "recv 2<-1", over=False, pair=True))
        dump = {"version": "2.10", "pg_config": {"0": {"ranks": "[0, 1, 2, 3]"}}, "entries": entries}
        (tmp_path / f"trace_{rank}").write_bytes(pickle.dumps(dump, 2))
    answer = of(tmp_path, book)
    assert answer.collectives is not None
    assert (answer.kind, answer.collectives.ranks) == ("missing-rank", (1,))


@pytest.mark.parametrize("name", ["_dump_{}", "trace-{}.pkl", "host7.rank{}.json", "fr.{}", "nccl_trace_rank_{}.gz"])
def test_dumps_are_found_in_a_folder_under_any_name(name: str, tmp_path: Path, book: RuleBook) -> None:
    """Pickled or not, compressed or not; pickles that are no dumps are left alone."""
    import gzip

    for rank in range(4):
        data = (DUMPS / "missing" / f"nccl_trace_rank_{rank}").read_bytes()
        compressed = gzip.compress(data) if name.endswith(".gz") else data
        (tmp_path / name.format(rank)).write_bytes(compressed)
    (tmp_path / "checkpoint_9.pkl").write_bytes(pickle.dumps({"weights": [0.1]}))
    (tmp_path / "results.json").write_text(json.dumps({"accuracy": 0.5}))
    answer = of(tmp_path, book)
    assert len(answer.logs) == 4
    assert answer.collectives is not None
    assert answer.collectives.ranks == (2,)


def test_the_table_is_in_the_report_and_in_the_json(book: RuleBook) -> None:
    """Folded to one line for ranks that stand alike; without a table the answer has no such key."""
    from logdiag import render

    answer = of(DUMPS / "missing", book)
    text = render(answer, "text")
    assert "ranks 0-1, 3: waits, 13 ALLREDUCE" in text
    assert "rank 2: behind, last 12 ALLREDUCE [[8]]->[[8]], at reduce (train.py:" in text
    assert Diagnosis.from_dict(json.loads(answer.to_json())).collectives == answer.collectives
    without = diagnose(b"step 1\nstep 2\n", rules=book, memory=False).to_dict()
    assert not {"kind", "collectives"} & without.keys()
