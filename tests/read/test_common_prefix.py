"""What a recorder puts before every line is learnt, whatever its form, and costs no answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import cycle

import pytest

from logdiag import diagnose
from logdiag.model import CommonPrefix
from logdiag.read.forms import shipped_forms
from logdiag.read.prefixes import parse_line
from logdiag.read.recorder_prefix import _pieces, common_prefix
from logdiag.rules import RuleBook
from tests.helpers import LOGS, diagnosed, log_of, steps, traceback_of


def prefix_of(lines: Sequence[str]) -> CommonPrefix | None:
    return common_prefix([line.encode() for line in lines])


def _second(at: int) -> str:
    return f"{at // 50 % 60:02d}"


RECORDERS: dict[str, Callable[[int, str], str]] = {
    "airflow": lambda at, text: f"[2026-11-22, 05:31:{_second(at)} UTC] {{subprocess.py:93}} INFO - {text}",
    "gitlab": lambda at, text: f"2026-11-22T05:31:{_second(at)}.082039Z 00O {text}",
    "buildkite": lambda at, text: f"\x1b_bk;t=17953254{_second(at)}082\x07{text}",
    "prefect": lambda at, text: f"05:31:{_second(at)}.123 | INFO    | Task run 'train-0' - {text}",
    "ts": lambda at, text: f"Nov 22 05:31:{_second(at)} {text}",
    "sagemaker": lambda at, text: f"[1,mpirank:0,algo-1]<stderr>:{text}",
    "stern": lambda at, text: f"train-master-0 pytorch {text}",
    "supervisor": lambda at, text: f"2026-11-22 05:31:{_second(at)},123 DEBG 'train' stderr output: {text}",
    "loki": lambda at, text: f'2026-11-22T05:31:{_second(at)}+01:00 {{job="train", pod="train-0"}} {text}',
    "klog": lambda at, text: f"I1122 05:31:{_second(at)}.082039       1 train.go:12] {text}",
    "syslog": lambda at, text: f"<11>1 2026-11-22T05:31:{_second(at)}.082Z node-03 train 4711 - - {text}",
    "viewer": lambda at, text: f"{at:>5} {text}",
    "table": lambda at, text: f"{at}\t2026-11-22 05:31:{_second(at)}\t{text}",
    "indented": lambda at, text: f"    {text}",
    "colours without their escape": lambda at, text: f"[31m{text}[0m",
    "colours made visible": lambda at, text: f"^[[1;31m{text}^[[0m",
    "quote": lambda at, text: f"> {text}",
    "cloud": lambda at, text: json.dumps({"textPayload": text, "severity": "ERROR", "timestamp": "2026-11-22T05:31"}),
    "nested": lambda at, text: json.dumps({"jsonPayload": {"message": text}, "timestamp": "2026-11-22T05:31"}),
}  # fmt: skip


@pytest.mark.parametrize("name", ["keyerror-rank2", "demo"])
@pytest.mark.parametrize("recorder", RECORDERS)
def test_the_answer_does_not_depend_on_the_recorder(book: RuleBook, name: str, recorder: str) -> None:
    """The same lines behind a recorder's prefix: the same reason, action, rank and root line."""
    lines = (LOGS / f"{name}.log").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    plain = diagnose(log_of(*lines), rules=book, memory=False)
    recorded = diagnose(log_of(*map(RECORDERS[recorder], range(len(lines)), lines)), rules=book, memory=False)
    assert (recorded.reason, recorded.recovery.action) == (plain.reason, plain.recovery.action)
    assert recorded.root_cause is not None
    assert plain.root_cause is not None
    assert recorded.root_cause.line == plain.root_cause.line
    assert recorded.root_cause.rank == plain.root_cause.rank


LOOM = [f"pass {n} over the warp done, tension {2.1 - n / 100:.2f}, beam 4 at 17 turns" for n in range(60)]
TORN = "the shed of beam four is torn and cannot be lifted"
OF_UNKNOWN_SOFTWARE: dict[str, Callable[[int, str], str]] = {
    **RECORDERS,
    "CSV": lambda at, text: f'{at},2026-11-22 05:31:{_second(at)},INFO,loom,"{text}"',
    "keys nobody knows": lambda at, text: f'ts=2026-11-22T05:31:{_second(at)}Z lvl=info said="{text}"',
    "the kernel's clock": lambda at, text: f"[{at + 812.123456:12.6f}] {text}",
    "Perl's clock": lambda at, text: f"[Sun Nov 22 05:31:{_second(at)} 2026] {text}",
}


@pytest.mark.parametrize("recorder", OF_UNKNOWN_SOFTWARE)
def test_the_root_of_software_that_nobody_knows_does_not_depend_on_the_recorder(book: RuleBook, recorder: str) -> None:
    """Work, a line that says what broke, what others say of it, and the last word: in every form the same root."""
    lines = [*LOOM, TORN, *["no answer from beam four, leaving the loom"] * 3, "weaving broken off with 7"]
    answer = diagnose(log_of(*map(OF_UNKNOWN_SOFTWARE[recorder], range(len(lines)), lines)), rules=book, memory=False)
    assert answer.failed
    assert answer.root_cause is not None
    assert TORN in answer.root_cause.text


@pytest.mark.parametrize(("level", "relays", "many"), [("ERROR", "ERROR", 30), ("INFO", None, 30), ("ERROR", None, 12)])
def test_a_level_of_trouble_before_so_many_lines_is_the_collectors(level: str, relays: str | None, many: int) -> None:
    """A program prints many lines of INFO, and a few errors, and nothing else."""
    said = [f"{thing} {done}" for thing in ("the warp", "the weft", "the shed", "a reed", "a bobbin", "the beam")
            for done in ("is set up", "is in place", "was taken out", "turns freely", "has its yarn")]  # fmt: skip
    prefix = prefix_of([f"2026-11-22T05:31:{at:02d}Z {level}: {text}" for at, text in enumerate(said[:many])])
    assert prefix is not None
    assert prefix.relays == relays


@pytest.mark.parametrize("payload", ["textPayload", "message"])
def test_a_collector_that_calls_every_line_an_error_makes_no_failure(book: RuleBook, payload: str) -> None:
    """As collectors do with all that a container prints to stderr."""
    said = [*LOOM, "all beams are put away"]
    times = [f"2026-11-22T05:{31 + at // 60}:{at % 60:02d}Z" for at in range(len(said))]
    records = [{payload: text, "severity": "ERROR", "timestamp": at} for text, at in zip(said, times, strict=True)]
    lines = map(json.dumps, records)
    assert diagnose(log_of(*lines), rules=book, memory=False).failed is not True


def test_a_recorders_own_words_stand_without_its_prefix(book: RuleBook) -> None:
    """A few lines of other form, and lines whose message is empty, do not hide what the others share."""
    lines = [*steps(1, 60), "", *traceback_of("KeyError: 'caption'"), ""]
    recorded = [f"train-master-0 pytorch {text}".rstrip() for text in lines]
    answer = diagnosed(book, "attaching to train-master-0", *recorded, "stream closed")
    assert answer.reason.value == "KeyError"


def test_neither_empty_messages_nor_foreign_lines_hide_the_prefix() -> None:
    """Of an empty message the recorder's last blank is often gone; it begins and ends with words of its own."""
    texts = [f"{chr(97 + at % 26)} was read" if at % 3 else "" for at in range(60)]
    lines = ["attaching", *(f"train-0 app: {text}".rstrip() for text in texts), "stream closed"]
    prefix = prefix_of(lines)
    assert prefix is not None
    assert parse_line("train-0 app: boom", prefix=prefix).message == "boom"


def test_the_messages_keep_their_indentation() -> None:
    """Code below a frame is told by it: only the least padding belongs to the prefix."""
    texts = ['  File "train.py", line 3', "    main()", "step 1", "step 2", "  done"]
    prefix = prefix_of([f"train-0 app: {text}" for text in texts])
    assert prefix is not None
    assert [parse_line(f"train-0 app: {text}", prefix=prefix).message for text in texts] == texts


@pytest.mark.parametrize(
    "lines",
    [
        ["one", "two", "three", "four"],
        ["one", "  two", "  three", "  four"],
        ["app: one", "app: two", "app: three"],
        ["app: one", "app: two", "tool: three", "tool: four"],
        [],
        [f"step {number}/90 loss=2.{number} lr=0.1" for number in range(90)],
    ],
    ids=[
        "nothing in common",
        "a line that is not indented",
        "too few lines",
        "two programs",
        "no line",
        "one line again and again",
    ],
)
def test_what_is_no_prefix_is_not_learnt(lines: list[str]) -> None:
    """Lines that share nothing have none."""
    assert prefix_of(lines) is None


def test_a_level_that_is_the_same_before_other_programs_lines_tells_nothing() -> None:
    """A recorder that calls all it passes on information says nothing of how bad a line is; a logger does."""
    relayed = [
        f"05:31:07.123 | INFO | Task run 'a' - {text}" for text in (*steps(1, 4), *traceback_of("KeyError: 'a'"))
    ]
    logged = [f"05:31:07.123 | INFO | trainer - message {number}" for number in range(9)]
    assert {parse_line(text, prefix=prefix_of(relayed)).level for text in relayed} == {None}
    assert {parse_line(text, prefix=prefix_of(logged)).level for text in logged} == {"INFO"}
    mixed = [*relayed, "05:31:07.123 | ERROR | Task run 'a' - KeyError: 'a'"]
    assert parse_line(mixed[-1], prefix=prefix_of(mixed)).level == "ERROR"


@pytest.mark.parametrize(
    "printed", ["  12   | car     |  0.913", "", "+ python train.py", "srun: error: task 3: Killed", " 40%|##"]
)
@pytest.mark.parametrize("level", ["INFO", "WARN"])
def test_a_form_that_loggers_do_not_have_shows_a_relay(printed: str, level: str) -> None:
    """One line as programs print them is enough; the level of what is louder stays."""
    lines = [
        f"05:31:07.123 {level}  pump - {text}"
        for text in [*(("read", "wrote")[at % 2] + f" part {at}" for at in range(40)), printed]
    ]
    learnt = prefix_of(lines)
    assert parse_line(lines[0], prefix=prefix_of(lines[:-1])).level == shipped_forms().levels[level]
    assert parse_line(lines[0], prefix=learnt).level is None
    assert parse_line(lines[0].replace(level, "ERROR"), prefix=learnt).level == "ERROR"


def test_the_records_of_a_logger_in_json_are_read_as_such() -> None:
    """Their common beginning hides neither level nor rank nor time."""
    record = '{{"time": "2026-11-02 10:00:{0:02d}", "level": "{1}", "rank": {0}, "message": "batch {2} of the epoch"}}'
    lines = [
        record.format(rank, "ERROR" if rank == 5 else "INFO", "lost" if rank == 5 else "read") for rank in range(9)
    ]
    line = parse_line(lines[5], prefix=prefix_of(lines))
    assert (line.rank, line.level, line.clock) == (5, "ERROR", "2026-11-02 10:00:05")
    assert line.message.startswith("batch lost")


def test_colours_that_lost_their_escape_are_taken_out(book: RuleBook) -> None:
    """Only where a log shows them: a page or a pager took the escape."""
    failure = [f"[36m(RayTrainWorker pid=4711)[0m {text}" for text in traceback_of("KeyError: 'caption'")]
    answer = diagnosed(book, *steps(1, 30), *failure)
    assert answer.root_cause is not None
    assert answer.root_cause.text == "(RayTrainWorker pid=4711) KeyError: 'caption'"
    assert "[36m" in (diagnosed(book, *steps(1, 30), "KeyError: '[36m'").root_cause or answer.root_cause).text


def test_a_level_before_each_line_of_a_traceback_is_no_exception(book: RuleBook) -> None:
    """`ERROR: ` before a frame is not the name of what was raised."""
    failure = [f"ERROR: {text}" for text in traceback_of("KeyError: 'caption'")]
    answer = diagnosed(book, *steps(1, 50), *failure)
    assert answer.root_cause is not None
    assert answer.root_cause.text == "ERROR: KeyError: 'caption'"


def labelled(form: str, ranks: Sequence[int]) -> list[str]:
    """Lines of several ranks in turn."""
    return [
        f"{form.format(rank)}the {word} is read" for rank, word in zip(ranks, cycle(("shard", "plan")), strict=False)
    ]


@pytest.mark.parametrize(
    "form",
    ["w{:02} ", "worker-{} | ", "[r{}] ", "replica {}: ", "<seat{}> ", "10:00:00.123 INFO trainer {}: ", "p{}| "],
)
def test_a_label_whose_number_goes_to_and_fro_names_the_rank(form: str) -> None:
    """Launchers label the lines of their workers each in a way of its own."""
    lines = ["launch 3.1: 4 workers", *labelled(form, [0, 1, 2, 3, 1, 0, 3, 2] * 3)]
    prefix = prefix_of(lines)
    assert [parse_line(line, prefix=prefix).rank for line in lines[:6]] == [None, 0, 1, 2, 3, 1]
    assert parse_line(lines[1], prefix=prefix).message == "shard is read"


@pytest.mark.parametrize(
    ("form", "ranks"),
    [
        ("step{} ", range(30)),
        ("step {}: ", [1, 2, 1, 2] * 8),
        ("w{} ", range(30)),
        ("node-{} ", [1, 2, 1, 2] * 8),
        ("gpu{} ", [1, 2, 1, 2] * 8),
        ("w7 ", [0] * 30),
    ],
)
def test_a_number_that_counts_or_names_no_process_is_no_rank(form: str, ranks: Sequence[int]) -> None:
    """Steps rise, devices and hosts are counted otherwise, and one worker alone is no set of ranks."""
    prefix = prefix_of(labelled(form, ranks))
    assert prefix is None or prefix.label is None


def test_the_number_of_a_machine_is_no_rank_where_its_processes_are_named_behind_it() -> None:
    """`elm-01 | lane 3 | `: each lane is on one of the elms."""
    lanes = [0, 5, 2, 7, 1, 4, 3, 6] * 4
    lines = [
        f"elm-{lane // 4} | lane {lane} | the {word} is read" for lane, word in zip(lanes, cycle("ab"), strict=False)
    ]
    prefix = prefix_of(lines)
    assert prefix is None or prefix.label is None


def test_what_many_files_begin_with_is_worked_out_once() -> None:
    """512 rank files share their words: the pieces of a prefix are looked up, not made anew in each."""
    lines = [f"2026-11-01 10:00:{at % 60:02d},123 INFO [trainer.py:33] step {at}" for at in range(120)]
    before = _pieces.cache_info()
    for _ in range(20):
        prefix_of(lines)
    after = _pieces.cache_info()
    assert after.misses - before.misses <= 3 < after.hits - before.hits
