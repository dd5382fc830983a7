"""The keys of in-house records are found by their values, and what is no log stays as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from logdiag.rules import RuleBook
from tests.helpers import diagnosed
from tests.read.test_envelopes import shown

START = 1773252247_000_000  # microseconds since the epoch
QUIET, LOUD = ("carriage moved on", "still within the gauge"), "a thread tore at the selvage"


def loom(at: int, text: str, loud: str = "info", **others: object) -> dict[str, object]:
    """One record of a logger whose keys nobody lists."""
    told = {"when_us": START + at * 1_000_000, "loudness": loud, "shuttle": at % 4, "says": text, "shed": "weft-b"}
    return {**told, "hall": f"mill-{'ab'[at % 2]}{at % 2 + 3}", **others}


def work(rows: int = 24) -> list[dict[str, object]]:
    """What the loom says while all is well."""
    return [loom(at, QUIET[at % 2], threads=at * 3) for at in range(rows)]


def test_time_level_message_process_and_host_are_known_by_their_values() -> None:
    """What has no known key stands in its place of a plain line; other numbers and words follow the message."""
    assert shown(*work(), loom(25, LOUD, "error", cause="GAUGE"))[-1] == (
        "mill-b4: 2026-03-11T18:04:32.000000Z ERROR: [rank1]: a thread tore at the selvage; shed: weft-b; cause: GAUGE"
    )


@pytest.mark.parametrize(
    ("stamp", "told"),
    [
        ("2026-03-11 18:04:07,25", "2026-03-11 18:04:07,25"),
        ("18:04:07.250", "18:04:07.250"),
        (1773252247.25, "2026-03-11T18:04:07.250000Z"),
        (1773252247250, "2026-03-11T18:04:07.250000Z"),
        ("1773252247250000000", "2026-03-11T18:04:07.250000Z"),
    ],
)
def test_a_time_is_written_or_counted_in_any_unit(stamp: object, told: str) -> None:
    """Also as text, and with a clock alone."""
    last = {**loom(30, LOUD), "when_us": stamp}
    begun = [{**record, "when_us": stamp} for record in work()]
    if isinstance(stamp, (int, float)):
        begun = [{**record, "when_us": stamp - 24 + at} for at, record in enumerate(begun)]
    assert shown(*begun, last)[-1].startswith(f"mill-a3: {told} INFO: [rank2]: {LOUD}")


def test_the_message_is_the_same_key_every_time() -> None:
    """A longer text beside it in some records, or in the first of all, is none."""
    records = [{**record, **({"hint": "look at the reed"} if at % 3 == 0 else {})} for at, record in enumerate(work())]
    lines = shown(*records)
    assert all(f"]: {QUIET[at % 2]}" in line for at, line in enumerate(lines))
    assert "; hint: look at the reed" in lines[0]


def test_other_records_of_the_same_stream_have_a_message_of_their_own() -> None:
    """A conductor writes into the log of its workers."""
    own = [{"when_us": START + at, "remark": f"shuttle {at} was threaded", "code": at} for at in range(6)]
    lines = shown(*own, *work())
    assert lines[2] == "2026-03-11T18:04:07.000002Z shuttle 2 was threaded code=2"
    assert QUIET[0] in lines[6]
    assert "{" not in lines[6]


def test_what_an_object_says_of_the_process_is_read() -> None:
    """`"Proc": {"Id": 8203, "Seat": 4}`, one level deep; a process that is told of is not the one that speaks."""
    records = [
        {
            "at": f"10:00:{at:02}",
            "msg": "round closed",
            "Unit": {"Pid": 7000 + at % 3, "Berth": at % 3},
            "SlowestOar": at % 5,
        }
        for at in range(20)
    ]
    assert shown(*records)[4] == "10:00:04 [rank1]: round closed SlowestOar=4 Pid=7001"
    for record in records:
        del record["Unit"]
    assert "rank" not in shown(*records)[4]


@pytest.mark.parametrize(
    ("usual", "others", "told"),
    [
        (6, {4: 2, 3: 1}, {6: "INFO", 4: "WARNING", 3: "ERROR", 2: "FATAL"}),
        (4, {3: 2}, {4: "INFO", 3: "WARNING", 2: "ERROR"}),
        (1, {2: 3}, {1: "INFO", 2: "WARNING", 3: "ERROR"}),
        (20, {30: 4, 40: 4}, {10: "DEBUG", 20: "INFO", 40: "ERROR"}),
        (10, {40: 4}, {10: "INFO", 40: "WARNING", 50: "ERROR"}),
    ],
)
def test_numbers_of_levels_are_known_by_the_usual_one(
    usual: int, others: Mapping[int, int], told: Mapping[int, str]
) -> None:
    """syslog's and Windows' count down, others up; what is common before anything failed is no error."""
    numbers = [usual] * 20
    for at, (number, count) in enumerate(others.items()):
        numbers[at + 1 : at + 1 + 2 * count : 2] = [number] * count
    begun = [{"at": "10:00:00", "sev": number, "msg": "a round closed"} for number in numbers]
    lines = shown(*begun, *({"at": "10:00:01", "sev": number, "msg": "it left"} for number in told))
    assert [line.split()[1] for line in lines[len(begun) :]] == [f"{level}:" for level in told.values()]


@pytest.mark.parametrize(
    "row",
    [
        lambda at: {"step": at, "loss": 2.5 - at / 100, "tokens": 1_500_000_000 + at},
        lambda at: {"question": f"how many birds on wire {at}", "answer": "ABCD"[at % 4], "score": at % 5},
        lambda at: {"id": at, "caption": f"a bird on wire {at}", "width": 640, "mtime": 1773252247},
        lambda at: {"hidden": 64 * at, "norm": "rms norm", "act": "gelu", "I": 3},
        lambda at: {"tokens": ["a b", "c d"], "tags": ["B", "I"], "tag": "BIO"[at % 3], "said": f"the bird {at}"},
        lambda at: {"epoch": at, "note": "best so far", "took": "00:10"},
    ],
    ids=["metrics", "questions", "captions", "settings", "tags", "epochs"],
)
def test_what_is_no_log_stays_as_it_is(row: object) -> None:
    """Metrics, rows of data and settings have no time and no level of their own."""
    assert callable(row)
    records = [row(at) for at in range(30)]
    assert shown(*records) == [json.dumps(record) for record in records]


def test_the_status_of_a_service_is_no_process_s(book: RuleBook) -> None:
    """A sink that answers 408 at the exit of a finished job is no process that left with a status."""
    ended = [loom(40, "Training finished"), loom(41, "flush on exit failed", "error", Status=408)]
    lines = map(json.dumps, (*work(), *ended, loom(42, "all shuttles exited with code 0")))
    assert diagnosed(book, *lines).failed is False


def test_records_among_as_many_plain_lines_are_read() -> None:
    """A coordinator logs in JSON, its workers do not."""
    records = [json.dumps(record) for record in work(12)]
    lines = shown(*(line for at in range(12) for line in (f"w{at % 4} turn {at}", f"w{at % 4} fine", records[at])))
    assert lines[0] == "w0 turn 0"
    assert lines[2].endswith("[rank0]: carriage moved on threads=0; shed: weft-b")


def test_a_job_in_unknown_keys_that_ended_well_is_healthy(book: RuleBook) -> None:
    """Its errors were lived through, and it says that it has finished; one that broke says where."""
    well = [*work(20), loom(20, "spool 503 not to be had, once more", "error"), *work(40)[21:]]
    ended = [loom(41, "Training finished"), loom(42, "all shuttles exited with code 0")]
    assert diagnosed(book, *map(json.dumps, (*well, *ended))).failed is False
    answer = diagnosed(book, *map(json.dumps, (*well, loom(43, "KeyError: 'weft'", "error"))))
    assert answer.root_cause is not None
    assert (answer.reason.value, answer.root_cause.rank, answer.root_cause.node) == ("KeyError", 3, "mill-b4")


def test_a_list_of_what_runs_where_is_kept() -> None:
    """Of a list of objects each names a host; lists of other objects are left out."""
    crew = [{"host": "elm-7", "ranks": [0, 1], "pids": [4311, 5127]}, {"host": "oak-3", "ranks": [2, 3]}]
    record = {"ts": "2026-11-04T10:00:00Z", "level": "info", "msg": "crew is set", "crew": crew, "sails": [{"torn": 1}]}
    assert shown(record)[-1].endswith("crew is set; crew: host=elm-7 ranks=0,1 pids=4311,5127 host=oak-3 ranks=2,3")


def test_a_list_that_numbers_names_is_kept() -> None:
    """Whatever its keys are called; not where the numbers repeat, or nothing is named."""
    berths = [{"boat": 0, "quay": "mira"}, {"boat": 1, "quay": "mira"}]
    record = {"ts": "2026-11-04T10:00:00Z", "level": "info", "msg": "two boats", "berths": berths}
    assert shown(record)[-1].endswith("two boats; berths: boat=0 quay=mira boat=1 quay=mira")
    for others in ([{"boat": 0, "quay": "mira"}] * 2, [{"boat": 0, "sails": 2}, {"boat": 1, "sails": 2}]):
        assert shown({**record, "berths": others})[-1].endswith("two boats")


def test_an_object_that_has_a_number_of_its_own_is_called_by_it() -> None:
    """Also in an object within another: `"ctx": {"shuttle": {"id": 3, "at": "10.4.2.9"}}` speaks of shuttle 3."""
    records = [
        {
            **record,
            "shuttle": None,
            "ctx": {"shuttle": {"id": at % 4, "at": "10.4.2.9"}, "row": {"no": at, "of": at + 2}},
        }
        for at, record in enumerate([*work(), loom(27, LOUD)])
    ]
    records = [{key: value for key, value in record.items() if value is not None} for record in records]
    records[-1]["ctx"] = {"shuttle": {"id": 3, "at": "10.4.2.9"}}
    assert "INFO: [rank3]: a thread tore at the selvage" in shown(*records)[-1]


def test_a_list_of_rows_is_kept_whole() -> None:
    """Rows have the same keys, one of which tells them apart; what has words under each is no row."""
    beds = [{"bed": f"elm-{at}", "addr": f"10.4.2.{at}", "cores": 64} for at in range(2)]
    assert shown(*work(), loom(25, LOUD, beds=beds))[-1].endswith(
        "beds: bed=elm-0 addr=10.4.2.0 cores=64 bed=elm-1 addr=10.4.2.1 cores=64"
    )
    said = [{"at": at, "said": f"thread {at} is torn"} for at in range(2)]
    assert "said: thread 1 is torn" in shown(*work(), loom(25, LOUD, beds=said))[-1]


def test_the_number_beside_a_nested_message_keeps_its_name() -> None:
    """What holds the message is the record's own, and no thing with a number."""
    fields = [{"message": QUIET[0], "step": at, "id": at} for at in range(8)]
    records = [{"timestamp": f"2026-11-04T10:00:0{at}Z", "level": "INFO", "fields": fields[at]} for at in range(8)]
    assert "id=7" in shown(*records)[-1]
