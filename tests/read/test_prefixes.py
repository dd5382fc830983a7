"""What stands before a message: time, level, rank, node and speaker."""

from __future__ import annotations

import random
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdiag.read import prefixes
from logdiag.read.forms import load_forms, shipped_forms
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook
from logdiag.rules.book import asks_for_a_digit
from tests.helpers import diagnosed

# (line, rank): made up in the form of each launcher.
RANKS = {
    "torchrun": ("[rank5]: KeyError: 'a'", 5),
    "torchrun tee": ("[default3]:KeyError: 'a'", 3),
    "torchrun tee and torch": ("[default3]:[rank11]: KeyError: 'a'", 11),
    "c10d": ("[rank7]:[E311 18:04:11.104213000 ProcessGroupNCCL.cpp:632] [Rank 7] boom", 7),
    "process group": ("[PG ID 0 PG GUID 0(default_pg) Rank 12] boom", 12),
    "srun --label": ("6: KeyError: 'a'", 6),
    "mpirun --tag-output": ("[1,9]<stderr>:KeyError: 'a'", 9),
    "mpiexec": ("[4]<stdout>: loading", 4),
    "lightning": ("[rank: 2] Seed set to 42", 2),
    "megatron": ("[Rank 14] (after 10 iterations) memory (MB)", 14),
    "deepspeed": ("[2026-03-11 18:04:11,104] [INFO] [RANK 8] [engine.py:33:step] boom", 8),
    "ray": ("(RayTrainWorker pid=6015, ip=10.0.0.7) [rank3]: KeyError: 'a'", 3),
    "vllm": ("(Worker_TP3 pid=13415) ERROR 03-08 21:20:42 [engine.py:33] boom", 3),
    "vllm of several kinds": ("(Worker_DP0_TP2_EP2 pid=13415) ERROR 03-08 21:20:42 [engine.py:33] boom", 2),
    "vllm engine": ("(EngineCore_DP1 pid=13415) ERROR 03-08 21:20:42 [core.py:33] boom", 1),
    "sglang": ("[2026-03-11 18:04:11 TP6] Scheduler hit an exception: Traceback (most recent call last):", 6),
    "sglang of several kinds": ("[18:04:11 DP1 TP6 EP6] boom", 6),
    "logger's field": ("[2026-03-11 18:04:11] CRITICAL [loom.util:158, rank=6] boom", 6),
    "torchx": ("team.recipes.pretrain/0 [default1]:[rank9]: KeyError: 'a'", 9),
    "behind a progress bar": (" 33%|###3      | 575/1725 [3:03:39<6:06:20, 19.11s/it[rank1]:[E loom.cpp:523] boom", 1),
    "behind a closed bar": ("Epoch 2:   7%|7     | 7/99 [00:07<01:39,  1.0it/s, loss=2.1][rank4]: KeyError: 'a'", 4),
    "rank and host": ("[3:gpu-a07] boom", 3),
    "rank at a host": ("[0@dgx01] boom", 0),
    "accelerate": ("rank 4: boom", 4),
    "behind an empty label": (": [rank18]: KeyError: 'a'", 18),
    "a script of tasks": ("task 2: cp: error writing '/srv/a': No space left on device", 2),
    "jax": ("I0311 18:04:11.104213 1875515 distributed.py:106] [task 1] boom", None),
}

# Lines that look like a prefix with a rank and are none.
NO_RANKS = [
    "[18:04:11 TPU6] boom",
    "data/7 [loom] boom",
    " 33%|###3   | 575/1725 [3:03:39<6:06:20, 19.11s/it]",
    "7|x",
    "[10:42] boom",
]

NODES = {
    "pdsh": ("node-3: KeyError: 'a'", "node-3"),
    "nccl": ("gpu017:4711:4890 [2] NCCL INFO Bootstrap : Using eth0", "gpu017"),
    "syslog": ("Mar 11 18:04:11 gpu-node12 kernel: NVRM: boom", "gpu-node12"),
    "ray": ("(RayTrainWorker pid=6015, ip=10.0.0.7) boom", "10.0.0.7"),
}


@pytest.mark.parametrize(("text", "rank"), RANKS.values(), ids=list(RANKS))
def test_the_rank_is_read_from_each_launchers_prefix(text: str, rank: int | None) -> None:
    """Whoever started the processes, the speaking rank is known."""
    assert parse_line(text).rank == rank


@pytest.mark.parametrize("text", NO_RANKS)
def test_what_only_looks_like_a_prefix_names_no_rank(text: str) -> None:
    """A device, a folder, a bar with nothing behind it."""
    assert parse_line(text).rank is None


def test_the_message_begins_behind_every_new_prefix() -> None:
    """So that a rule anchored at a message's start fits."""
    for text in (
        "3|loom  | KeyError: 'a'",
        "t=114.6 | stderr | KeyError: 'a'",
        "stdout | KeyError: 'a'",
        RANKS["torchx"][0],
        RANKS["behind a closed bar"][0],
    ):
        assert parse_line(text).message == "KeyError: 'a'"


@pytest.mark.parametrize(("text", "node"), NODES.values(), ids=list(NODES))
def test_the_node_is_read_from_prefixes(text: str, node: str) -> None:
    """A prefix that names the machine tells the node."""
    assert parse_line(text).node == node


# Prefixes that may stand in any row before a message.
PREFIXES = [
    "2026-11-01 10:00:00,123 ",
    "[2026-11-01T10:00:00.123Z] ",
    "2026/11/01 10:00:00 ",
    "[11/01/26 10:00:00] ",
    "Sun Nov 01 10:00:00 2026: ",
    "[W 2026-11-01 10:00:00,123] ",
    "[ 1000.123456] ",
    "[rank5]: ",
    "[1,5]<stderr>:",
    "(RayTrainWorker pid=6015, ip=10.0.0.7) ",
    "ERROR [trainer.py:33] ",
    "E0311 18:04:11.104213 1875515 trainer.cc:8310] ",
    "[pod/trainer-0/pytorch] ",
    "ERROR:root:",
    "2026-11-01 10:00:00,123,0,trainer,ERROR: ",
]


@pytest.mark.parametrize("second", PREFIXES)
@pytest.mark.parametrize("first", PREFIXES)
def test_the_message_begins_after_any_row_of_prefixes(first: str, second: str) -> None:
    """One of the places where the message may begin is where it does, whatever two prefixes stand before it."""
    message = "ValueError: the widget is jammed"
    line = parse_line(f"{first}{second}{message}")
    assert message in [line.text[start:].lstrip() for start in line.starts]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("2026-11-01 10:00:00,123 ERROR boom", "ERROR"),
        ("WARNING:root: boom", "WARNING"),
        ("WARN  boom", "WARNING"),
        ("[rank0]:[W415 13:56:39.596823099 ProcessGroupNCCL.cpp:4561] boom", "WARNING"),
        ("E0311 18:04:11.104213 1875515 trainer.cc:8310] boom", "ERROR"),
        ("[W 2026-11-01 10:00:00,123] Trial 3 failed with value None.", "WARNING"),
        ("[I 2026-11-01 10:00:00.123 ServerApp] boom", "INFO"),
        ("E 11/22 14:14:12 MainProcess] boom", "ERROR"),
        ("14:14:12.511 [0] W ranker> boom", "WARNING"),
        ("2026-11-01:10:00:00 ERROR    [tasks:55] boom", "ERROR"),
        ('ts=1795357317.163 lvl=warn event="boom"', "WARNING"),
        ('{"t": "2026-11-01 10:00:00", "sev": "ERR", "msg": "boom"}', "ERROR"),
        ("14:14:12 I think so", None),
        ("plain words", None),
    ],
)
def test_the_level_is_read(text: str, level: str | None) -> None:
    """Long names, letters and the short form of warning."""
    assert parse_line(text).level == level


def test_two_lines_with_dates_tell_how_far_apart_they_are() -> None:
    """Only differences of `time` count, and they are seconds."""
    first = parse_line("2026-11-01 10:00:00,123 boom")
    later = parse_line("[2026-11-01T10:10:00.123Z] boom")
    assert first.time is not None
    assert later.time is not None
    assert later.time - first.time == 600
    noted = parse_line(" 2f4 | 11/01/2026 | 10:10:00 UTC | Fan 3 | Lower Critical going low | Asserted")
    assert (noted.time, noted.clock) == (later.time, "11/01/2026 | 10:10:00")


def test_the_time_is_kept_as_it_was_printed() -> None:
    """`clock` is the text the time was read from."""
    assert parse_line("[2026-11-01 10:00:00,123] boom").clock == "2026-11-01 10:00:00"


@pytest.mark.parametrize(
    "text", ["2026-13-41 10:00:00 boom", "2026-02-30 10:00:00 boom", "Sun Foo 01 10:00:00 2026: boom"]
)
def test_an_impossible_date_is_no_time(text: str) -> None:
    """A date that does not exist is no error."""
    assert parse_line(text).time is None


@pytest.mark.parametrize(
    "message",
    [
        "KeyError: 'rank'",
        "torch.cuda.OutOfMemoryError: CUDA out of memory",
        'File "/srv/job/train.py", line 5, in main',
        "Traceback (most recent call last):",
        "srun: error: gpu018: task 6: Exited with exit code 1",
    ],
)
def test_the_start_of_the_line_is_always_a_possible_start(message: str) -> None:
    """No prefix reading can take a message's own first words away for good."""
    line = parse_line(message)
    assert line.starts[0] == 0
    assert line.text == message


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    """No text fails, and the places where the message may begin lie in it, in order."""
    line = parse_line(text)
    assert line.text == text
    assert list(line.starts) == sorted(line.starts)
    assert 0 <= line.starts[0] <= line.starts[-1] <= len(text)


@given(st.text(alphabet="[]()0123456789:-., rankTZ<>stdeo", max_size=200))
def test_text_made_of_prefix_parts_can_be_read(text: str) -> None:
    """What only looks like prefixes is no error."""
    assert parse_line(text).text == text


def test_a_traceback_within_a_record_ends_in_its_exception() -> None:
    """Loggers of JSON write a whole traceback into one field; the message is what was raised."""
    frames = r"Traceback (most recent call last):\n  File \"/srv/train.py\", line 9, in main\n    raise LoomError: no\n"
    record = '{"level": "critical", "rank": 3, "exception": "' + frames + r"""KeyError: 'a'\n"}"""
    line = parse_line(record)
    assert (line.level, line.rank) == ("CRITICAL", 3)
    assert line.message.startswith("KeyError: 'a'")
    assert not parse_line('{"level": "info", "message": "KeyError: a"}').message.startswith("Traceback")


def test_the_time_of_a_record_in_json_is_read() -> None:
    """As in a prefix, so that files of records can be put in order."""
    record = parse_line('[default0]:{"time": "2026-03-11 18:04:11,104", "level": "ERROR", "message": "boom"}')
    assert (record.time, record.clock) == (parse_line("2026-03-11 18:04:11,104 ERROR boom").time, "2026-03-11 18:04:11")
    assert parse_line('{"ts": 1773252251.104, "level": "error", "message": "boom"}').time is None


def test_a_loggers_name_behind_the_level_is_no_part_of_the_message() -> None:
    """As in the format that transformers' examples set; a sentence with a dash in it stays whole."""
    line = parse_line("2026-03-11 18:14:39 - INFO - __main__ - [RANK 0] training finished")
    assert (line.message, line.level, line.rank) == ("training finished", "INFO", 0)
    assert parse_line("2026-03-11 18:14:39 - INFO - loom.weave - ready").message == "ready"
    assert parse_line("2026-03-11 18:14:39 - INFO - done - for today").message == "done - for today"


def test_the_level_at_which_another_relays_a_line_is_not_its_own() -> None:
    """A server logs what a model prints, tracebacks too, as information."""
    line = parse_line(
        "2026-03-11T18:04:11,104 [INFO ] W-9000-loom_1.0-stdout MODEL_LOG - NameError: name 'weft' is gone"
    )
    assert (line.level, line.message) == (None, "NameError: name 'weft' is gone")
    own = parse_line("2026-03-11T18:04:11,104 [INFO ] W-9000-loom_1.0-stdout org.serve.WorkerThread - started")
    assert own.level == "INFO"


def test_columns_between_bars_are_read() -> None:
    """Clock, rank, process and level, as loggers with columns print them."""
    line = parse_line("14:21:23 | r3 | 29 | ERROR | clip 7: no audio")
    assert (line.rank, line.level, line.message) == (3, "ERROR", "clip 7: no audio")


@pytest.mark.parametrize(
    "head", ["aiohttp.server ERROR", "4711 ERROR", "trainer   ERROR  ", "trainer: ERROR:", "trainer[4711]: ERROR"]
)
def test_a_name_before_the_level_is_read(head: str) -> None:
    """The order of `%(asctime)s %(name)s %(levelname)s %(message)s`, which many programs use."""
    line = parse_line(f"2026-03-11 18:14:15,840 {head} no seat left")
    assert (line.level, line.message.strip()) == ("ERROR", "no seat left")
    assert parse_line(f"{head} no seat left").message.strip() != "no seat left"


def test_a_record_of_keys_and_values_is_read() -> None:
    """As Go's and Python's loggers print them: level, rank, time, and where the message begins."""
    line = parse_line('time="2026-03-11T18:14:15Z" level=error rank=3 msg="no seat left"')
    assert (line.level, line.rank, line.message) == ("ERROR", 3, 'no seat left"')
    assert line.time == parse_line("2026-03-11 18:14:15 boom").time
    assert parse_line("the level=error of rank=3").level is None


def test_host_and_rank_behind_a_clock_are_read() -> None:
    """As pools of workers over several hosts print them; a path is no host, and neither is one of many parts."""
    line = parse_line("2026-03-11 18:14:15.429 node-2/3  step 43: loss 2.1")
    assert (line.node, line.rank, line.message) == ("node-2", 3, "step 43: loss 2.1")
    assert [parse_line(f"2026-03-11 18:14:15.429 {said} is read").rank for said in ("data/3", "shard-2/8")] == [
        None,
        None,
    ]


def test_a_message_in_a_box_begins_behind_its_border(book: RuleBook) -> None:
    """typer and tyro draw boxes around what they say of the command line."""
    lines = ["\u256d\u2500 Error \u2500\u256e", "\u2502 No such option: --batchsize \u2502", "\u2570\u2500\u2500\u256f"]
    answer = diagnosed(book, "starting", *lines)
    assert answer.reason.value == "ArgumentError"


@pytest.mark.parametrize(
    ("text", "level", "rank", "message"),
    [
        ("14:26:35.657 [pump-1] ERROR c.o.gang.SeatTail - no pulse", "ERROR", None, "no pulse"),
        ("2026-11-01 10:00:00.123  WARN 4711 --- [main] c.a.Loader : no pulse", "WARNING", None, "no pulse"),
        ("2026-11-01T10:00:00.123Z\terror\tloader/shard.go:33\tno pulse", "ERROR", None, "no pulse"),
        ("10:00AM ERR no pulse", "ERROR", None, "no pulse"),
        ("[10:00:00 FTL] no pulse", "FATAL", None, "no pulse"),
        ("[2026-11-01 10:00:00.123] [loader] [critical] no pulse", "CRITICAL", None, "no pulse"),
        ("2026-11-01T10:00:00.123456Z ERROR loader::shard: no pulse", "ERROR", None, "no pulse"),
        ("2026-11-01T10:00:00.123456Z  WARN run{id=3}: loader::shard: no pulse", "WARNING", None, "no pulse"),
        ("[2026-11-01T10:00:00Z ERROR loader] no pulse", "ERROR", None, "no pulse"),
        ("12:49:47.677  55/64 E op     no pulse", "ERROR", 55, "op     no pulse"),
        ("ERRO[0012] no pulse", "ERROR", None, "no pulse"),
        ("E, [2026-11-01T10:00:00.123456 #4711] ERROR -- loader: no pulse", "ERROR", None, "no pulse"),
        ("Mar 12 02:11:07.133 ERROR no pulse", "ERROR", None, "no pulse"),
        ("2026-11-01 10:00:00.123 +00:00 [ERR] no pulse", "ERROR", None, "no pulse"),
        ("fail: Loader.Shard[0]", "ERROR", None, "Loader.Shard[0]"),
        ("[Error]: no pulse", None, None, "no pulse"),
        ("2026-01-19 22:18:22 | r00 | trace  | no pulse", None, 0, "no pulse"),
        ("read error log of shard 3", None, None, "read error log of shard 3"),
    ],
)
def test_a_level_is_known_by_its_place_in_the_head(
    text: str, level: str | None, rank: int | None, message: str
) -> None:
    """Loggers of Java, Go, Rust, C++, .NET and Ruby, and whatever is written as they do."""
    line = parse_line(text)
    assert (line.level, line.rank, line.message) == (level, rank, message)


def test_glog_tells_its_time() -> None:
    """Two lines of one day differ by their clock; the time of a program that has none yet is none."""
    first, second = (parse_line(f"E0312 02:17:5{at}.500000  24727 health.cc:133] boom") for at in (6, 8))
    assert first.time is not None
    assert second.time is not None
    assert second.time - first.time == 2
    assert parse_line("E0000 00:00:1731518123.123456  24727 health.cc:133] boom").time is None


def test_the_message_of_pairs_may_have_any_key() -> None:
    """The first quoted text of words, where no known key has one."""
    line = parse_line('ts=2026-11-01T10:00:00Z lvl=warn Seat=3 note="no \\"pulse\\" here" hint="look there"')
    assert (line.rank, line.level, line.message) == (3, "WARNING", 'no \\"pulse\\" here" hint="look there"')
    assert parse_line('lvl=warn note="no pulse" err="it is gone"').message == 'it is gone"'


def test_pairs_give_rank_time_and_further_texts_in_any_order() -> None:
    """A rule that begins at a message's start also fits the error behind it."""
    text = 'ts=2026-11-01T10:00:00Z level=error caller=x.go:33 worker=3 err="OSError: no space" msg="cannot save"'
    line = parse_line(text)
    assert (line.level, line.rank, line.clock) == ("ERROR", 3, "2026-11-01T10:00:00")
    assert line.message == 'cannot save"'
    assert any(text[start:].startswith("OSError: no space") for start in line.starts)
    for rank in ("1000000000", "-1", "x"):
        assert parse_line(f"level=info msg=up worker={rank}").rank is None


def test_a_kernels_line_that_began_amid_anothers_names_its_machine_and_no_rank() -> None:
    """Processes that write into one pipe without whole lines run into each other."""
    line = parse_line("[rank3]: step 63/120 loss 0.1239Nov 23 19:51:13 gpu-node12 kernel: NVRM: boom")
    assert (line.node, line.rank, line.speaker) == ("gpu-node12", None, "kernel")
    assert line.text[line.starts[-1] :] == "NVRM: boom"
    assert parse_line("[rank3]: the monitor saw 'node-7 kernel: boom'").rank == 3


def with_other_digits(line: str, source: random.Random) -> str:
    """The line with every digit another one."""
    return re.sub("[0-9]", lambda _: source.choice("0123456789"), line)


def test_lines_that_differ_in_digits_only_are_read_as_if_each_were_the_first() -> None:
    """Of every sample of a form and of keys, with its digits changed at random, each time against reading it afresh."""
    forms, source, compared = shipped_forms(), random.Random(23), 0
    proof = load_forms(proof=True)
    samples = [sample.line for form in proof.forms for sample in form.samples]
    samples += [sample.line for sample in proof.keys.samples]
    for line in [*samples, *(line for line, _ in RANKS.values())]:
        for text in (line, *(with_other_digits(line, source) for _ in range(20))):
            assert parse_line(text) == prefixes._spans_of(text, None, forms).read(text, "", 0, 0, 0), text
            compared += 1
    assert compared > 2000


def test_no_shipped_form_asks_for_a_certain_digit() -> None:
    """Where a line's prefixes stand is remembered by the line without its digits."""
    for form in shipped_forms().forms:
        assert not asks_for_a_digit(form.pattern), form.id
        assert set(form.begins).isdisjoint(string.digits) or set(form.begins).issuperset(string.digits), form.id
    assert not any(re.search("[0-9]", level) for level in shipped_forms().levels)
    keys = shipped_forms().keys
    of_keys = (*keys.in_json.values(), keys.pair_level, prefixes._PAIR, prefixes._FIELD)
    for pattern in (prefixes._RUN_INTO, *of_keys):
        assert not asks_for_a_digit(pattern.pattern), pattern.pattern
    assert not any(re.search("[0-9]", key) for names in keys.in_pairs.values() for key in names)
    assert asks_for_a_digit("took [4-9] s")
    assert asks_for_a_digit(r"(\w)\1")
    assert not asks_for_a_digit(r"\d{1,5} [0-9a-f]{2,}")


@pytest.mark.parametrize(
    ("line", "message", "rank", "level"),
    [
        ("step 63/120 loss 0.12[rank1]: KeyError: 'a'", "KeyError: 'a'", 1, None),
        ("2026-11-01 10:00:00 INFO step 63/120 loss 0.12KeyError: 'a'", "KeyError: 'a'", None, None),
        (
            "[rank3]: loss: 8.1E+00 | lr: 1e-4pandas.errors.ParserError: boom",
            "pandas.errors.ParserError: boom",
            None,
            None,
        ),
        ("{'loss': 2.1, 'epoch': 0.3}[default2]:[rank2]: boom", "boom", 2, None),
        ("45/100 [00:10<00:12, 9.1it/s]2026-11-01 10:00:00 ERROR [rank 3] boom", "boom", 3, "ERROR"),
        ("step 63/120 loss 0.12[1,2]<stderr>: boom", "boom", 2, None),
        ("step 63/120 loss 0.12  exitcode  : -6 (pid: 812)", "  exitcode  : -6 (pid: 812)", None, None),
        ("[rank3]: tools.S3UploadFailedError: boom", "tools.S3UploadFailedError: boom", 3, None),
        ("[rank3]: saw KeyError: 'a' in (KeyError: 'a')", "saw KeyError: 'a' in (KeyError: 'a')", 3, None),
        ("INFO wrote run_2026-11-01 10:00:00.log", "wrote run_2026-11-01 10:00:00.log", None, "INFO"),
    ],
)
def test_what_another_process_ran_into_is_a_message_of_its_own(
    line: str, message: str, rank: int | None, level: str | None
) -> None:
    """With its own rank and level, not those of who spoke before; a name with a digit is one name."""
    read = parse_line(line)
    assert (read.message, read.rank, read.level) == (message, rank, level)


def test_a_shared_object_before_a_colon_is_no_host() -> None:
    """A loader begins its line with the library that it cannot open."""
    assert parse_line("libloom.so.4: cannot open shared object file").node is None
    assert parse_line("elm-4: cannot open shared object file").node == "elm-4"
