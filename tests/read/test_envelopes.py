"""What containers and journals wrap around lines is taken off, and the file's own line numbers stay."""

from __future__ import annotations

import base64
import json

import pytest

from logdiag import diagnose
from logdiag.read.envelopes import recognise
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from tests.helpers import diagnosed, log_of, steps, traceback_of
from tests.judge.test_causes import rank_of

FAILURE = [*steps(1, 40), *traceback_of("KeyError: 'caption'")]


def unwrapped(data: bytes) -> list[tuple[int, str]]:
    """(number, text) of each line of a log, as the later stages get them."""
    found = []
    for block in open_sources((data,))[0].blocks():
        for index, line in enumerate(block.data.removesuffix(b"\n").split(b"\n")):
            found.append((block.number_of(index), line.decode()))
    return found


def docker(lines: list[str]) -> bytes:
    """Docker's json-file driver."""
    return log_of(
        *(
            json.dumps({"log": f"{line}\n", "stream": "stderr", "time": f"2026-03-11T18:04:{i % 60:02}.104213Z"})
            for i, line in enumerate(lines)
        )
    )


def cri(lines: list[str]) -> bytes:
    """The form of containerd and CRI-O."""
    return log_of(*(f"2026-03-11T18:04:{i % 60:02}.104213000Z stderr F {line}" for i, line in enumerate(lines)))


def journal_export(lines: list[str]) -> bytes:
    """`journalctl -o export`, five lines an entry."""
    return "".join(
        f"__CURSOR=s=0{i}\n__REALTIME_TIMESTAMP={1773252251000000 + i}\n_HOSTNAME=gpu-node12\nMESSAGE={line}\n\n"
        for i, line in enumerate(lines)
    ).encode()


def journal_json(lines: list[str]) -> bytes:
    """`journalctl -o json`."""
    return log_of(
        *(
            json.dumps({"__REALTIME_TIMESTAMP": str(1773252251000000 + i), "_HOSTNAME": "gpu-node12", "MESSAGE": line})
            for i, line in enumerate(lines)
        )
    )


def json_logger(lines: list[str]) -> bytes:
    """A logger that writes one object a line."""
    return log_of(*(json.dumps({"level": "info", "message": line}) for line in lines))


def kubectl(lines: list[str]) -> bytes:
    """`kubectl logs --prefix`."""
    return log_of(*(f"[pod/trainer-3/pytorch] {line}" for line in lines))


ENVELOPES = {
    "docker": (docker, 1),
    "cri": (cri, 1),
    "journal export": (journal_export, 5),
    "journal json": (journal_json, 1),
    "json logger": (json_logger, 1),
    "kubectl": (kubectl, 1),
}


@pytest.mark.parametrize("name", ENVELOPES)
def test_a_failure_is_found_inside_each_envelope(name: str, book: RuleBook) -> None:
    """The same reason, and the number of the file's line, whatever wraps the output."""
    wrap, lines_each = ENVELOPES[name]
    answer = diagnose(wrap(FAILURE), rules=book)
    assert answer.reason.value == "KeyError"
    assert answer.root_cause is not None
    assert (answer.root_cause.line + lines_each - 1) // lines_each == len(FAILURE)
    assert "KeyError: 'caption'" in answer.root_cause.text


def test_plain_text_has_no_envelope() -> None:
    """Ordinary output is left as it is, an empty head too."""
    assert recognise([b"step 1", b"{not json"]) is None
    assert recognise([]) is None
    assert recognise([b"", b"   "]) is None


def test_objects_without_a_message_are_no_envelope() -> None:
    """A log of metrics as JSON is the program's own output."""
    assert recognise([b'{"step": 1, "loss": 2.1}'] * 5) is None


def test_docker_parts_of_a_long_line_are_joined() -> None:
    """Docker cuts a line after 16 KiB; its parts are one line again, with the number of the first part."""
    long = "x" * 16384
    records = [{"log": "before\n"}, {"log": long}, {"log": "end\n"}, {"log": "after\n"}]
    lines = unwrapped(log_of(*(json.dumps(record) for record in records)))
    assert lines == [(1, "before"), (2, long + "end"), (4, "after")]


def test_cri_parts_of_a_long_line_are_joined() -> None:
    """`P` marks a part that the next line goes on with."""
    data = log_of(
        "2026-03-11T18:04:11.1Z stderr F before",
        "2026-03-11T18:04:12.1Z stderr P one ",
        "2026-03-11T18:04:12.2Z stderr P two ",
        "2026-03-11T18:04:12.3Z stderr F three",
        "2026-03-11T18:04:13.1Z stderr F after",
    )
    numbers, texts = zip(*unwrapped(data), strict=True)
    assert numbers == (1, 2, 5)
    assert texts[1].endswith("one two three")


def test_parts_are_joined_wherever_the_blocks_are_cut() -> None:
    """A message whose parts fall into two blocks of the read is one line too."""
    parts = [f"2026-03-11T18:04:12.1Z stderr P part-{part} {'x' * 30} " for part in range(7)]
    last = "2026-03-11T18:04:12.1Z stderr F the end"
    data = log_of(*([*parts, last] * 10_000))
    assert len(data) > 5_000_000
    lines = unwrapped(data)
    assert [number for number, _ in lines] == list(range(1, 80_001, 8))
    assert {text.count("part-") for _, text in lines} == {7}


def test_journal_entries_are_whole_wherever_the_blocks_are_cut() -> None:
    """No field name of an entry reaches the later stages, in a journal of many blocks."""
    data = journal_export([f"message {i} {'x' * 80}" for i in range(30_000)])
    assert len(data) > 4_500_000
    lines = unwrapped(data)
    assert [text for _, text in lines if "message" not in text or "gpu-node12:" not in text] == []
    assert len(lines) == 30_000


def test_a_journal_message_of_several_lines_stays_several_lines() -> None:
    """Each part keeps the number of the entry's message."""
    record = json.dumps({"_HOSTNAME": "gpu-node12", "MESSAGE": "one\ntwo"})
    lines = unwrapped(log_of(record, record))
    assert [(number, text.split(": ")[-1]) for number, text in lines] == [
        (1, "one"),
        (1, "two"),
        (2, "one"),
        (2, "two"),
    ]


def test_a_journal_message_written_as_numbers_is_text_again() -> None:
    """journald writes messages with control bytes as lists of numbers."""
    record = json.dumps({"MESSAGE": list(b"NVRM: \x1b[1mbad")})
    assert unwrapped(log_of(record))[0][1].startswith("NVRM: ")


def test_a_binary_journal_field_is_read_by_its_length() -> None:
    """A field with control bytes follows its name after eight bytes of length."""
    message = b"widget \x01 jammed"
    data = b"__CURSOR=s=0\n__REALTIME_TIMESTAMP=1773252251000000\n_BOOT_ID=0a\n_PID=1\n_HOSTNAME=gpu-node12\nMESSAGE\n"
    data += len(message).to_bytes(8, "little") + message + b"\n\n" + journal_export(["after"])
    texts = [text for _, text in unwrapped(data)]
    assert any("widget" in text and "jammed" in text for text in texts)
    assert texts[-1].endswith("after")


def test_the_envelopes_time_and_host_stand_before_the_message(book: RuleBook) -> None:
    """What only the envelope knows is not lost: the answer names node and time."""
    answer = diagnose(
        journal_json(["all well", "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus."]), rules=book
    )
    assert answer.root_cause is not None
    assert answer.root_cause.node == "gpu-node12"
    assert answer.root_cause.time is not None


TRACEBACK = "\n".join(traceback_of("KeyError: 'caption'"))


@pytest.mark.parametrize(
    "fields",
    [
        {"exc_info": TRACEBACK},
        {"exception": f"{TRACEBACK}\n"},
        {"error": {"type": "KeyError", "message": "'caption'", "stack_trace": TRACEBACK}},
        {"error.type": "KeyError", "error.stack_trace": TRACEBACK},
        {"attributes": {"exception.type": "KeyError", "exception.stacktrace": TRACEBACK}},
        {"exception": {"type": "KeyError", "message": "'caption'"}},
    ],
)
def test_the_exception_beside_a_message_is_read(fields: dict[str, object], book: RuleBook) -> None:
    """Loggers keep it in a field of its own; the record's rank and host are those of its lines."""
    well = [{"level": "info", "rank": rank, "message": f"step {at} loss 2.1"} for at in range(20) for rank in (0, 3)]
    broke = {"level": "err", "rank": 3, "host": "gpu-07", "message": "the step failed", **fields}
    left = {"level": "info", "rank": 3, "message": "leaving"}
    answer = diagnose(log_of(*(json.dumps(record) for record in (*well, broke, left))), rules=book)
    assert answer.reason.value == "KeyError"
    assert answer.root_cause is not None
    assert (answer.root_cause.line, answer.root_cause.rank, answer.root_cause.node) == (41, 3, "gpu-07")
    # All lines of a record have its number: their order is the log's.
    shown = [item.text for item in answer.evidence if item.line == 41]
    assert shown[-1] == answer.root_cause.text


def test_the_error_beside_a_message_stands_behind_it() -> None:
    """What Go's loggers keep in `error`, once, and nothing where it is empty or no text."""
    records = (
        {"level": "warn", "msg": "cannot save", "error": "no space left on device"},
        {"level": "error", "msg": "cannot save: disk full", "err": "disk full"},
        {"level": "info", "msg": "saved", "error": None},
        {"level": "info", "msg": "saved", "error": 0.25},
        {"timestamp": "2026-03-11T18:04:07Z", "level": "ERROR", "fields": {"message": "Shard 0 failed"}, "target": "x"},
    )
    assert [text for _, text in unwrapped(log_of(*map(json.dumps, records)))] == [
        "WARNING: cannot save: no space left on device",
        "ERROR: cannot save: disk full",
        "INFO: saved",
        "INFO: saved",
        "2026-03-11T18:04:07Z ERROR: Shard 0 failed",
    ]


@pytest.mark.parametrize("counted", [1773252247.25, 1773252247250])
def test_a_counted_time_is_a_time(counted: float) -> None:
    """Seconds or milliseconds since the epoch; other numbers are none."""
    record = {"ts": counted, "level": "info", "msg": "ready"}
    assert unwrapped(log_of(json.dumps(record), json.dumps({**record, "ts": 17}))) == [
        (1, "2026-03-11T18:04:07.250000Z INFO: ready"),
        (2, "INFO: ready"),
    ]


def test_an_elastic_error_file_gives_its_traceback(book: RuleBook) -> None:
    """`error.json` holds a whole traceback in one JSON string."""
    stack = "\n".join(traceback_of("KeyError: 'caption'")) + "\n"
    data = json.dumps(
        {"message": {"message": "KeyError: 'caption'", "extraInfo": {"py_callstack": stack, "timestamp": "1773252251"}}}
    )
    answer = diagnose(data.encode(), rules=book)
    assert answer.reason.value == "KeyError"
    assert answer.root_cause is not None
    assert answer.root_cause.line == 1


@pytest.mark.parametrize("name", ["docker", "cri", "journal json"])
def test_a_line_outside_the_envelope_is_kept(name: str) -> None:
    """What a crashing runtime writes in between is a line like others, with its own number."""
    wrap, _ = ENVELOPES[name]
    data = wrap(["one"] * 25) + b"fatal: runtime died\n" + wrap(["two"])
    lines = unwrapped(data)
    assert (26, "fatal: runtime died") in lines
    assert lines[-1][0] == 27


@pytest.mark.parametrize(
    "line",
    [
        '{"log": 5}',
        '{"log": null, "time": [1]}',
        '{"MESSAGE": [300, -1]}',
        '{"message": {"message": {}}}',
        '{"message": {"extraInfo": 3}}',
        '{"log": "\\ud800"}',
        "[" * 5000,
        '{"log":' + "[" * 5000,
        base64.b64encode(bytes(range(256))).decode(),
    ],
)
def test_a_strange_record_is_no_error(line: str) -> None:
    """Values of other types, lone surrogates and deep nesting are read without failing."""
    assert isinstance(unwrapped(log_of(line)), list)
    assert isinstance(unwrapped(docker(["fine"] * 25) + log_of(line)), list)


def test_the_numbers_of_a_record_that_counts_steps_are_read(book: RuleBook) -> None:
    """A structured logger names an event and keeps step and loss in fields of their own: that is progress."""
    failed = {"event": "row", "level": "error", "error": "KeyError: 'caption'"}
    work = [{"event": "progress", "level": "info", "step": step, "norm": 0.73, "rank": 0} for step in range(5)]
    log = [json.dumps(record) for record in (*work, failed, *work)]
    assert not diagnosed(book, *log).failed
    assert diagnosed(book, *log[:6]).failed
    assert recognise([b'{"event": {"kind": "train"}}']) is None


def test_a_replica_that_a_record_names_is_its_rank(book: RuleBook) -> None:
    """Services count their processes so, JAX calls it the process's index."""
    for key in ("replica", "process_index"):
        record = {key: 2, "severity": "critical", "event": "failed", "error": "KeyError: 'caption'"}
        assert rank_of(diagnosed(book, *[json.dumps({"event": "up", key: 0})] * 3, json.dumps(record))) == 2


def test_a_numbered_name_under_any_key_tells_who_speaks(book: RuleBook) -> None:
    """In-house records call their processes as they like; a rank that is told comes first, a logger's name is none."""
    said = {"level": "warning", "msg": "no pulse"}
    assert shown(*[{"rep": "r-04", **said}] * 2) == ["WARNING: [rep=r-04]: no pulse"] * 2
    assert shown(*[{"rank": 3, "rep": "r-04", **said}] * 2) == ["WARNING: [rank3]: no pulse"] * 2
    assert shown(*[{"src": "learner-0", **said}] * 2) == ["WARNING: [src=learner-0]: no pulse"] * 2
    assert shown(*[{"app": "trainer", "thread": "io-2", **said}] * 2) == ["WARNING: no pulse"] * 2
    up = [json.dumps({"level": "info", "msg": f"assigned r-{at:02d} to elm-{at + 40} slot 2"}) for at in range(8)]
    work = [
        json.dumps({"rep": f"r-{at % 8:02d}", "level": "info", "msg": f"step {at // 8} loss 2.1"}) for at in range(32)
    ]
    failed = json.dumps({"rep": "r-05", "level": "error", "msg": "KeyError: 'caption'"})
    answer = diagnosed(book, *up, *work, failed)
    assert answer.root_cause is not None
    assert (answer.root_cause.rank, answer.root_cause.node) == (5, "elm-45")


def test_counted_times_are_written_alike() -> None:
    """A whole second has its fraction too: what stands before every line can be learnt."""
    records = [{"ts": 1773252251.0 + part / 4, "level": "info", "msg": "ready"} for part in range(3)]
    heads = [text.split(" ")[0] for _, text in unwrapped(log_of(*map(json.dumps, records)))]
    assert [len(head) for head in heads] == [len("2026-03-11T18:04:11.000000Z")] * 3


def shown(*records: object) -> list[str]:
    """The lines of a log of these records."""
    return [
        text
        for _, text in unwrapped(log_of(*(item if isinstance(item, str) else json.dumps(item) for item in records)))
    ]


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (
            {"level": "info", "msg": "output", "worker": 5, "text": "mixer: the file is gone"},
            "INFO: [rank5]: output; text: mixer: the file is gone",
        ),
        (
            {"lvl": "warn", "t": "2026-03-11T18:04:07Z", "kind": "seat.left", "seat": "w-7", "status": 139},
            "2026-03-11T18:04:07Z WARNING: [rank7]: seat.left status=139",
        ),
        (
            {
                "severity": "ERROR",
                "message": "lost",
                "cause": {"what": "peer went away", "detail": {"why": "no pulse"}},
            },
            "ERROR: lost; what: peer went away; why: no pulse",
        ),
        ({"level": 50, "time": 1773252247250, "msg": "left"}, "2026-03-11T18:04:07.250000Z ERROR: left"),
        ({"levelno": 50, "message": "left", "state": "LOST"}, "CRITICAL: left; state: LOST"),
        ({"level": "error", "msg": "left", "notes": ["no way to cell 4", 7]}, "ERROR: left; notes: no way to cell 4"),
        ({"level": "info", "msg": "up", "rank": "3/64", "pod": "trainer-3"}, "trainer-3: INFO: [rank3]: up"),
    ],
)
def test_a_record_keeps_what_it_says(record: dict[str, object], line: str) -> None:
    """Texts stand behind the message, states and statuses too, and the speaker before it."""
    assert shown(*[record] * 3) == [line] * 3


@pytest.mark.parametrize(
    ("record", "line"),
    [
        ({"@t": "2026-03-11T18:04:07Z", "@mt": "lost {Peer}", "Peer": 4}, "2026-03-11T18:04:07Z lost {Peer}"),
        ({"EventId": 0, "LogLevel": "Critical", "Message": "left", "ExitCode": 9}, "CRITICAL: left ExitCode=9"),
        ({"timeUnixNano": "1773252247250000000", "body": "left"}, "2026-03-11T18:04:07.250000Z left"),
        ({"time": 1773252247250000, "msg": "left"}, "2026-03-11T18:04:07.250000Z left"),
        ({"level": "WARN+1", "msg": "left", "source": {"function": "main stop"}}, "WARNING: left"),
        ({"level": "error", "event": "left", "exception": [{"exc_type": "A", "exc_value": "b"}]}, "ERROR: left: A: b"),
        ({"level": 300, "message": "left", "context": {"exception": {"class": "A"}}}, "WARNING: left: A"),
        ({"level_value": 40000, "message": "left", "logger_name": "a.B c"}, "ERROR: left"),
        ({"Msg": "left", "GlobalRank": 3, "HostName": "n-7"}, "n-7: [rank3]: left"),
        ({"Rank": 4, "rank": 3, "msg": "left"}, "[rank3]: left"),
        ({"short_message": "left", "level": 6}, "INFO: left"),
    ],
)
def test_a_key_is_known_however_its_logger_spells_it(record: dict[str, object], line: str) -> None:
    """Case and what joins the words are the logger's own; levels and times are counted in several ways."""
    assert shown(*[record] * 3) == [line] * 3


def test_a_stack_in_a_list_is_lines() -> None:
    """AWS Lambda writes the lines of a stack as a list."""
    record = {"level": "ERROR", "message": "left", "stackTrace": ["one line", "another one"]}
    assert shown(*[record] * 2) == ["ERROR: left", "ERROR: one line", "ERROR: another one"] * 2


@pytest.mark.parametrize("row", [{"m": "a bird"}, {"M": "a bird", "x": 3}, {"name": "finch", "what": "a bird"}])
def test_a_short_key_is_a_message_only_in_a_logger_s_record(row: dict[str, object]) -> None:
    """Rows of data have such keys too."""
    assert shown(*[row] * 5) == [json.dumps(row)] * 5
    assert shown(*[{"ts": 1773252247, **row}] * 5) != [json.dumps({"ts": 1773252247, **row})] * 5


def test_what_a_record_says_beside_its_message_is_seen_by_the_rules(book: RuleBook) -> None:
    """The error that a launcher passes on in a field of its own is the root, on the worker that said it."""
    well = [{"level": "info", "msg": "output", "worker": at % 4, "text": f"step {at} loss 2.1"} for at in range(40)]
    broke = {"level": "info", "msg": "output", "worker": 2, "text": "KeyError: 'caption'"}
    left = {"level": "error", "msg": "worker left", "worker": 2, "status": 1}
    answer = diagnosed(book, *map(json.dumps, (*well, broke, left)))
    assert answer.root_cause is not None
    assert (answer.reason.value, answer.root_cause.line, answer.root_cause.rank) == ("KeyError", 41, 2)


@pytest.mark.parametrize("rank", [10**9, -1, 3.5, True, "x", "9" * 400, None, {"id": 3}, [3]])
def test_a_record_that_lies_about_its_rank_has_none(rank: object) -> None:
    """A rank is a small whole number."""
    assert shown(*[{"level": "info", "msg": "up", "rank": rank}] * 3) == ["INFO: up"] * 3


def test_the_priority_of_a_journal_is_a_level_where_it_says_something() -> None:
    """3 is an error; 6 is what all output of a unit gets."""
    entries = [{"PRIORITY": level, "MESSAGE": "the mixer left", "_CMDLINE": "python train.py now"} for level in "36"]
    assert shown(*entries) == ["ERROR: the mixer left", "the mixer left"]


def test_records_below_a_launchers_own_words_and_behind_its_label_are_read() -> None:
    """Not every line has to be a record."""
    records = [f'w{at:02} {{"level": "error", "msg": "left", "cause": "no more pulse"}}' for at in range(8)]
    lines = shown("launch 3.1: 8 workers", "hosts: a b", *records, "launch: over {not a record}")
    assert lines[:3] == ["launch 3.1: 8 workers", "hosts: a b", "w00 ERROR: left; cause: no more pulse"]
    assert lines[-1] == "launch: over {not a record}"


def test_a_container_s_own_fields_are_not_its_program_s_words() -> None:
    """What collectors add to each line stays outside of it."""
    record = {"log": "step 1\n", "kubernetes": {"note": "a fine pod"}, "status": "it runs well"}
    assert shown(*[record] * 3) == ["step 1"] * 3


@pytest.mark.parametrize(
    "record",
    [
        '{"msg": "a", "x": ' + '{"y": ' * 5000 + "1" + "}" * 5001,
        '{"msg": "a", "msg": "b", "level": "error", "level": "info", "text": "one two", "text": "two three"}',
        json.dumps({"msg": "a", "text": "word and word " * 100_000}),
        json.dumps({"msg": "a", **{f"key{at}": "two words" for at in range(5000)}}),
        json.dumps({"msg": "a", "cause": "\u0000\ud800 \x1b[31m two words"}),
        '{"msg": "a", "rank": ' + "9" * 6000 + "}",
        '{"msg": "a", "step": NaN, "loss": Infinity, "epoch": 1e999}',
    ],
    ids=["deep", "doubled", "huge", "many", "binary", "digits", "no numbers"],
)
def test_a_hostile_record_is_a_bounded_line(record: str) -> None:
    """No crash, and no line that grows without bound."""
    lines = shown(*['{"msg": "up"}'] * 20, record, '{"msg": "down"}')
    assert lines[:20] == ["up"] * 20
    assert lines[-1] == "down"
    assert all(len(line) < 40_000 or line == record for line in lines)
