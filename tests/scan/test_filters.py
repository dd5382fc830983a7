"""What a log repeats is recognised without being told, and the digest's receipt adds up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from logdiag import Diagnosis, diagnose
from logdiag.rules import Filter, RuleBook
from logdiag.scan.lines import KeptLines
from logdiag.scan.shapes import filters_for
from tests.helpers import LOGS, SAMPLES, book_of, diagnosed, log_of, steps, traceback_of, watchdog, write_rule

CHATTER = [f"shard {number} of 5000 opened in 0.{number % 90:02} s" for number in range(5000)]


def kept(answer: Diagnosis) -> list[str]:
    """The digest's lines."""
    return [line.text for line in answer.digest.lines]


def assert_adds_up(answer: Diagnosis) -> None:
    """Lines in = lines kept + what each filter dropped."""
    digest = answer.digest
    assert digest.total_lines == len(digest.lines) + sum(digest.dropped_by.values())
    assert all(count > 0 for count in digest.dropped_by.values())


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_receipt_of_each_sample_adds_up(path: Path, book: RuleBook) -> None:
    """No line is unaccounted for."""
    assert_adds_up(diagnose(path, rules=book))


def test_a_repeated_shape_is_kept_a_few_times_and_counted(book: RuleBook) -> None:
    """Lines that differ only in numbers are one shape; the first one stands for all and says for how many."""
    answer = diagnosed(book, *CHATTER, *["the end"] * 1)
    assert sum("opened in" in text for text in kept(answer)) < 100
    first = next(line for line in answer.digest.lines if "opened in" in line.text)
    assert answer.digest.counts[(first.source, first.number)] == 5000
    assert_adds_up(answer)


def test_the_first_line_of_each_shape_is_kept(book: RuleBook) -> None:
    """A line that comes once in a flood of others is not lost."""
    lines = [*CHATTER[:2500], "the wheel came off quietly", *CHATTER[2500:]]
    assert "the wheel came off quietly" in kept(diagnosed(book, *lines))


def test_lines_with_another_path_or_address_are_one_shape(book: RuleBook) -> None:
    """Paths, addresses and quoted words vary as numbers do."""
    words = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot"]
    lines = [
        f"cached /data/{words[i % 6]}/{words[i % 5]}/part.bin at 0x{i * 7919:x} for '{words[i % 4]}'"
        for i in range(3000)
    ]
    assert sum("cached" in text for text in kept(diagnosed(book, *lines))) < 100


def test_what_a_line_says_in_quotes_is_kept(book: RuleBook) -> None:
    """In a CSV file every line differs from the others in quoted words only; those of the failure stay."""
    passes = [f'{n},2026-11-22 06:33:08,INFO,loom,"pass {n} over the warp done, tension 2.1"' for n in range(4000)]
    torn = '4000,2026-11-22 06:33:08,INFO,loom,"the shed of beam four is torn and cannot be lifted"'
    lines = [*passes[:3000], torn, *passes[3000:]]
    answer = diagnosed(book, *lines)
    assert torn in kept(answer)
    assert len(answer.digest.lines) < 100
    assert_adds_up(answer)


def test_a_traceback_is_kept_whole(book: RuleBook) -> None:
    """Also the second one of the same shape, in the middle of a flood."""
    failure = traceback_of("KeyError: 'caption'")
    lines = [*CHATTER[:1000], *failure, *CHATTER[1000:2000], *failure, *CHATTER[2000:]]
    texts = kept(diagnosed(book, *lines))
    assert [text for text in texts if text in failure] == failure * 2


def test_the_lines_around_a_finding_are_kept(book: RuleBook) -> None:
    """What was printed just before and just after the failure is there, regular as it may be."""
    lines = [
        *CHATTER[:2000],
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        *CHATTER[2000:],
    ]
    numbers = {line.number for line in diagnosed(book, *lines).digest.lines}
    assert {1996, 1997, 1998, 1999, 2000, 2001, 2002, 2003, 2004, 2005, 2006} <= numbers


def test_the_last_lines_are_kept(book: RuleBook) -> None:
    """The end of the log is there even when it is only more of the same."""
    numbers = [line.number for line in diagnosed(book, *CHATTER).digest.lines]
    assert numbers[-20:] == list(range(4981, 5001))


def test_lines_of_only_one_rank_are_kept(book: RuleBook) -> None:
    """What seven ranks say the same and one does not is what matters."""
    lines = [f"[rank{rank}]: entered phase {phase}" for phase in range(400) for rank in range(8)]
    lines.insert(1203, "[rank3]: retrying the phase with the slow path")
    assert "[rank3]: retrying the phase with the slow path" in kept(diagnosed(book, *lines))


def test_training_steps_are_dropped_under_a_filters_name(book: RuleBook) -> None:
    """The receipt says what kind of line was left out."""
    digest = diagnosed(book, *steps(1, 3000)).digest
    assert digest.total_lines - len(digest.lines) == sum(digest.dropped_by.values()) > 2500
    assert any(name != "repeats" for name in digest.dropped_by)


def test_kept_lines_are_in_the_order_of_the_sources(book: RuleBook) -> None:
    """Positions rise within each stream, streams follow each other."""
    answer = diagnose(LOGS / "torchelastic", rules=book)
    places = [(line.stream, line.position) for line in answer.digest.lines]
    assert places == sorted(places)
    assert len(set(places)) == len(places)


def test_findings_stay_in_the_digest(book: RuleBook) -> None:
    """A filter never hides evidence: the root line and all consequences are there."""
    answer = diagnosed(
        book, *CHATTER, *traceback_of("KeyError: 'caption'", prefix="[rank2]: "), *map(watchdog, range(8)), *CHATTER
    )
    numbers = {line.number for line in answer.digest.lines}
    assert {item.line for item in answer.evidence} <= numbers


def test_more_shapes_than_are_remembered_are_still_counted() -> None:
    """A log of which no two lines are alike is read to its end, and the receipt adds up."""
    words = [
        "ash",
        "birch",
        "cedar",
        "dogwood",
        "elm",
        "fir",
        "gorse",
        "hazel",
        "ivy",
        "juniper",
        "kauri",
        "larch",
        "maple",
    ]
    lines = [f"{a} {b} {c} {d} {e}" for a in words for b in words for c in words for d in words for e in words[:3]]
    answer = diagnose(log_of(*lines), rules=RuleBook(()))
    assert answer.digest.total_lines == len(lines) == 85_683
    assert_adds_up(answer)


def _filter(identity: str, **job: str) -> Filter:
    return Filter(id=identity, title="t", drop=("x",), job=job)


@pytest.mark.parametrize(
    ("job", "names"),
    [
        ({}, ["all"]),
        ({"framework": "megatron"}, ["all", "megatron"]),
        ({"framework": "megatron", "user": "mira"}, ["all", "megatron", "both"]),
        ({"user": "mira"}, ["all"]),
    ],
)
def test_a_bound_filter_holds_only_for_its_jobs(job: dict[str, str], names: Sequence[str]) -> None:
    """A filter with metadata needs all of them; one without holds for every job."""
    filters = [
        _filter("all"),
        _filter("megatron", framework="megatron"),
        _filter("both", framework="megatron", user="mira"),
    ]
    assert [item.id for item in filters_for(filters, job)] == list(names)


def test_a_users_filter_drops_what_it_names_for_its_job_only(tmp_path: Path) -> None:
    """A repeated job reuses its own filters; another job does not see them."""
    write_rule(
        tmp_path,
        "filters/widgets",
        "title: Widgets\ndrop: ['^widget \\w+ turned']\njob: {name: widgets}\nexamples: {drops: ['widget a turned']}\n",
    )
    book = book_of(tmp_path)
    lines = [f"widget a{i} turned left" for i in range(500)]
    mine = diagnose(log_of(*lines), rules=book, job={"name": "widgets-7"}).digest
    other = diagnose(log_of(*lines), rules=book, job={"name": "gears"}).digest
    assert mine.dropped_by == {"filters/widgets": 500 - len(mine.lines)}
    assert other.dropped_by == {"repeats": 500 - len(other.lines)}


def test_a_filter_cannot_hide_a_failure(tmp_path: Path) -> None:
    """A user's filter that drops everything changes the digest, not the diagnosis, and evidence stays."""
    write_rule(tmp_path, "filters/everything", "title: All\ndrop: ['.']\nexamples: {drops: ['a']}\n")
    answer = diagnose(log_of(*CHATTER[:300], *traceback_of("KeyError: 'caption'"), "bye"), rules=[tmp_path])
    assert answer.reason.value == "KeyError"
    assert "KeyError: 'caption'" in kept(answer)
    assert_adds_up(answer)


def test_of_more_shapes_than_are_told_apart_the_latest_are_kept(book: RuleBook) -> None:
    """What a log says at its end is worth as much as what it said first."""
    words = ["ash", "birch", "cedar", "dogwood", "elm", "fir", "gorse", "hazel", "ivy", "juniper", "kauri", "larch"]
    lines = [f"{a} {b} {c} {d} went" for a in words for b in words for c in words for d in words]
    # More than the last lines of any log behind it, which are kept as they are.
    answer = diagnosed(book, *lines, *[f"step {at} loss 2.5" for at in range(300)])
    kept = {line.number for line in answer.digest.lines}
    assert kept >= {*range(1, 8001), *range(len(lines) - 1900, len(lines) + 1)}
    assert len(kept) < 11_000
    assert_adds_up(answer)


def test_too_many_kept_lines_leave_the_earliest_and_the_latest() -> None:
    """The beginning tells what the job was, the end what killed it; the middle gives way."""
    lines = KeptLines(most=10)
    for position in range(1000):
        lines.keep((position, position + 1, b"x"))
    positions = [position for position, _, _ in lines.lines()]
    assert positions == [*range(10), *range(990, 1000)]


def test_many_kept_lines_cost_no_more_each_than_few() -> None:
    """200,000 lines past the most; finding the oldest of them anew for each took 38 microseconds a line."""
    lines = KeptLines()
    begun = time.process_time()
    for position in range(260_000):
        lines.keep((position, position + 1, b"x"))
    assert time.process_time() - begun < 3.0
    assert len(lines.lines()) == 24_000
