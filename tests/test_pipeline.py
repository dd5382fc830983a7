"""`diagnose`: what may be given, what comes back."""

from __future__ import annotations

import inspect
import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from logdiag import Diagnosis, RuleError, SourceError, diagnose
from logdiag.read.sources import Source
from logdiag.read.streams import Stream
from logdiag.rules import RuleBook
from tests.helpers import LOGS, diagnosed, log_of, rule_text, steps, traceback_of, watchdog, write_rule

DEMO = LOGS / "demo.log"

OPTIONAL, OPTIONAL_INT = (str, type(None)), (int, type(None))

# The schema of the answer; keys are only ever added.
SCHEMA: dict[str, Any] = {
    "schema": str,
    "source": str,
    "failed": (bool, type(None)),
    "ended": str,
    "category": str,
    "reason": str,
    "confidence": float,
    "decided_by": str,
    "supports": list,
    "summary": str,
    "times": (dict, type(None)),
    "progress": (dict, type(None)),
    "root_cause": {
        "source": str,
        "line": int,
        "text": str,
        "rank": OPTIONAL_INT,
        "node": OPTIONAL,
        "time": OPTIONAL,
        "rule": str,
        "rank_from": OPTIONAL,
        "rank_guessed": bool,
    },
    "evidence": [{"source": str, "line": int, "text": str, "role": str, "rule": OPTIONAL}],
    "consequences": [{"reason": str, "title": str, "count": int, "ranks": list}],
    "candidates": [{"reason": str, "confidence": float}],
    "suspects": list,
    "similar": [
        {
            "incident": str,
            "similarity": float,
            "reason": str,
            "action": str,
            "outcome": str,
            "seen_at": str,
            "node": str,
            "words": str,
            "provenance": str,
        }
    ],
    "recovery": {"action": str, "automatic": bool, "exclude_nodes": list, "steps": list, "why": str},
    "logs": [
        {
            "source": str,
            "kind": str,
            "whose": str,
            "lines": int,
            "rank": OPTIONAL_INT,
            "node": OPTIONAL,
            "ahead_seconds": (float, type(None)),
        }
    ],
    "collectives": dict,
    "notes": list,
    "stats": {
        "bytes": int,
        "lines": int,
        "kept_lines": int,
        "seconds": float,
        "stages": dict,
        "matcher": str,
        "supports": list,
    },
    "incident": str,
}


def assert_fits(value: object, wanted: Any, path: str = "answer") -> None:
    """A value has exactly these keys and these types."""
    if isinstance(wanted, dict):
        assert isinstance(value, dict), path
        assert list(value) == list(wanted), path
        for name, kind in wanted.items():
            assert_fits(value[name], kind, f"{path}.{name}")
    elif isinstance(wanted, list):
        assert isinstance(value, list), path
        for item in value if wanted else ():
            assert_fits(item, wanted[0], path)
    else:
        assert isinstance(value, wanted), f"{path}: {value!r}"


def test_the_answer_has_exactly_the_keys_of_the_schema(book: RuleBook) -> None:
    """In the schema's order, with the schema's types."""
    answer = diagnose(DEMO, rules=book).to_dict()
    assert answer["schema"] == "logdiag.diagnosis/1"
    assert answer["evidence"]
    assert answer["consequences"]
    assert_fits(answer, SCHEMA)


def test_a_healthy_answer_has_the_same_keys(book: RuleBook) -> None:
    """`none` for category and reason, no root cause, nothing to do; without collectives no key for them."""
    answer = diagnosed(book, *steps(1, 50)).to_dict()
    assert list(answer) == [key for key in SCHEMA if key != "collectives"]
    assert (answer["failed"], answer["category"], answer["reason"], answer["root_cause"]) == (
        False,
        "none",
        "none",
        None,
    )
    assert answer["recovery"]["action"] == "none"


def test_diagnose_takes_the_arguments_of_the_design() -> None:
    """Sources by position, everything else by name."""
    parameters = inspect.signature(diagnose).parameters
    assert parameters["sources"].kind is inspect.Parameter.VAR_POSITIONAL
    assert {"rules", "exit_code", "job"} <= set(parameters)
    named = [parameter for name, parameter in parameters.items() if name != "sources"]
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in named)


def comparable(answer: Diagnosis) -> dict[str, Any]:
    """The answer without where it was read and how long it took."""
    plain = answer.to_dict()
    for item in (plain, plain["root_cause"], plain["progress"]["checkpoint"], *plain["evidence"], *plain["logs"]):
        item.pop("source")
    plain.pop("stats")
    plain.pop("collectives")
    return plain


def test_every_way_to_give_a_log_gets_the_same_answer(tmp_path: Path, book: RuleBook) -> None:
    """Path, text path, folder, bytes, open file, memory file and pipe."""
    data = DEMO.read_bytes()
    (tmp_path / "job.log").write_bytes(data)
    expected = comparable(diagnose(DEMO, rules=book))
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb") as out:
            out.write(data)

    thread = threading.Thread(target=write)
    thread.start()
    with DEMO.open("rb") as opened, DEMO.open(encoding="utf-8") as text, os.fdopen(reader, "rb") as pipe:
        given: list[Source] = [str(DEMO), tmp_path, data, bytearray(data), opened, text, io.BytesIO(data), pipe]
        answers = [comparable(diagnose(source, rules=book)) for source in given]
    thread.join()
    assert answers == [expected] * len(given)


def test_the_source_is_named(book: RuleBook) -> None:
    """One name for one file, all names for several."""
    assert diagnose(DEMO, rules=book).source == str(DEMO)
    other = LOGS / "healthy-scary.log"
    assert diagnose(DEMO, other, rules=book).source == f"{DEMO}, {other}"
    assert diagnose(b"x\n", rules=book).source == "<bytes>"


def test_several_files_are_one_job(tmp_path: Path, book: RuleBook) -> None:
    """One rank's error explains what the others say; lines and bytes are counted over all files."""
    paths = []
    for rank in range(3):
        lines = traceback_of("KeyError: 'caption'", prefix="[rank1]: ") if rank == 1 else [watchdog(rank)]
        path = tmp_path / f"rank_{rank}.log"
        path.write_bytes(log_of(*steps(1, 20), *lines))
        paths.append(path)
    answer = diagnose(*paths, rules=book)
    assert answer.reason.value == "KeyError"
    assert answer.root_cause is not None
    assert answer.root_cause.source == str(paths[1])
    assert {rank for item in answer.consequences for rank in item.ranks} == {0, 2}
    assert answer.stats["bytes"] == sum(path.stat().st_size for path in paths)
    assert answer.stats["lines"] == 20 * 3 + 6 + 2


def test_the_exit_code_counts_where_the_log_is_silent(book: RuleBook) -> None:
    """A failure without evidence is a failure; zero is none."""
    assert diagnosed(book, "hello", exit_code=137).failed
    assert not diagnosed(book, "hello", exit_code=0).failed
    assert not diagnosed(book, "hello").failed


@pytest.mark.parametrize("exit_code", [None, 0, 1])
def test_an_exit_code_does_not_hide_a_cause(book: RuleBook, exit_code: int | None) -> None:
    """A traceback that ended the job is the cause whatever the wrapper script returned."""
    answer = diagnosed(book, *steps(1, 20), *traceback_of("KeyError: 'caption'"), exit_code=exit_code)
    assert answer.reason.value == "KeyError"


def test_stats_tell_what_was_read(book: RuleBook) -> None:
    """Bytes and lines of the file, and how many were kept."""
    stats = diagnose(DEMO, rules=book).stats
    data = DEMO.read_bytes()
    assert stats["bytes"] == len(data)
    assert stats["lines"] == data.count(b"\n")
    assert 0 < stats["kept_lines"] <= stats["lines"]
    assert 0 <= sum(stats["stages"].values()) <= stats["seconds"] * 1.01


def test_advance_is_told_what_was_read(book: RuleBook) -> None:
    """For a progress bar: rising counts that end at the file's size."""
    told: list[int] = []

    def advance(stream: Stream, count: int) -> None:
        told.append(count)

    data = log_of(*steps(1, 300_000))
    diagnose(data, rules=book, advance=advance)
    assert told == sorted(told)
    assert told[-1] == len(data)
    assert len(told) > 1


def test_a_stream_that_breaks_midway_is_diagnosed_and_noted(tmp_path: Path, book: RuleBook) -> None:
    """The failure that came before the break is found, and the notes say that the log is not whole."""
    import gzip

    noise = b"".join(os.urandom(40).hex().encode() + b"\n" for _ in range(20_000))
    whole = gzip.compress(log_of(*steps(1, 20), *traceback_of("KeyError: 'caption'")) + noise)
    path = tmp_path / "job.log.gz"
    path.write_bytes(whole[: len(whole) // 2])
    answer = diagnose(path, rules=book)
    assert answer.reason.value == "KeyError"
    assert any(str(path) in note for note in answer.notes)


def test_nothing_given_is_an_error() -> None:
    """With the remedy."""
    with pytest.raises(SourceError, match="no log was given; name a file"):
        diagnose()


def test_broken_user_rules_are_an_error(tmp_path: Path) -> None:
    """Before anything is read."""
    write_rule(tmp_path, "framework/a", rule_text(reason="GremlinError"))
    with pytest.raises(RuleError, match=r"a\.yaml:1"):
        diagnose(b"x\n", rules=[tmp_path])


def test_a_rule_book_can_be_used_again(book: RuleBook) -> None:
    """The same answer the second time, and after another log in between."""
    first = comparable(diagnose(DEMO, rules=book))
    diagnosed(book, *traceback_of("KeyError: 'caption'"))
    assert comparable(diagnose(DEMO, rules=book)) == first


def test_an_error_of_the_user_is_raised_from_the_reading_thread(book: RuleBook) -> None:
    """A callback's own exception is not swallowed, and no thread is left behind."""

    class GaveUpError(Exception):
        pass

    def advance(stream: Stream, count: int) -> None:
        raise GaveUpError

    before = threading.active_count()
    with pytest.raises(GaveUpError):
        diagnose(log_of(*steps(1, 100_000)), rules=book, advance=advance)
    assert threading.active_count() <= before + 1


def test_the_last_of_a_flood_is_the_root_when_only_it_was_not_survived(book: RuleBook) -> None:
    """A thousand equal errors with steps after each, and one more at the end: that one is reported, with its line."""
    error = "ERROR loader.py:31: CUDA error: an illegal memory access was encountered"
    survived = [line for number in range(1000) for line in (error, *steps(number * 4 + 1, 4))]
    assert not diagnosed(book, *survived).failed
    answer = diagnosed(book, *survived, error)
    assert answer.failed
    assert answer.root_cause is not None
    assert answer.root_cause.line == len(survived) + 1


def test_a_job_that_ended_with_0_did_not_fail_by_what_it_survived(book: RuleBook) -> None:
    """The same error line is a failure without the exit code, and none when the job ended well; a death stays one."""
    logged = "ERROR loader.py:31: CUDA error: an illegal memory access was encountered"
    assert diagnosed(book, *steps(1, 30), logged).failed
    assert not diagnosed(book, *steps(1, 30), logged, exit_code=0).failed
    assert diagnosed(book, *steps(1, 30), *traceback_of("KeyError: 'caption'"), exit_code=0).failed
