"""Lines that a terminal broke at its width are whole again, and no other line is joined."""

from __future__ import annotations

import textwrap

import pytest

from logdiag import diagnose
from logdiag.read.line_wrapping import Width, joined, width_of
from logdiag.rules import RuleBook
from tests.helpers import LOGS, log_of, steps, traceback_of, watchdog

WATCHDOGS = [watchdog(rank) for rank in range(4)]


def wrapped(lines: list[str], width: int) -> list[str]:
    """The lines as a terminal of this width shows them."""
    return [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]


def mailed(lines: list[str], width: int) -> list[str]:
    """The lines as a mail of this width shows them."""
    return [
        part for line in lines for part in textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
    ]


def whole(lines: list[str]) -> list[str]:
    """The lines after those were joined that were broken, if any were."""
    data = [line.encode() for line in lines]
    width = width_of(data)
    return [line.decode() for _, line in joined(enumerate(data, 1), width)] if width else lines


@pytest.mark.parametrize("width", [80, 101, 132])
@pytest.mark.parametrize("name", ["s3-forbidden", "keyerror-rank2", "demo"])
def test_the_answer_does_not_depend_on_the_width_of_a_terminal(book: RuleBook, name: str, width: int) -> None:
    """Broken anywhere: the same reason, action, rank and root line, at the number of the line it begins on."""
    lines = (LOGS / f"{name}.log").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    broken = wrapped(lines, width)
    plain, answer = (diagnose(log_of(*text), rules=book, memory=False) for text in (lines, broken))
    assert (answer.reason, answer.recovery.action) == (plain.reason, plain.recovery.action)
    assert plain.root_cause is not None
    assert answer.root_cause is not None
    assert (answer.root_cause.text, answer.root_cause.rank) == (plain.root_cause.text, plain.root_cause.rank)
    assert answer.root_cause.text.startswith(broken[answer.root_cause.line - 1])


def test_a_width_is_seen_by_words_that_are_torn() -> None:
    """Two of them, in lines that differ in more than numbers."""
    told = "RuntimeError: the sampler of the second stage was given weights for fewer classes than the data set has"
    lines = [*steps(1, 9), WATCHDOGS[0], *traceback_of(told)]
    assert width_of([line.encode() for line in wrapped(lines, 70)]) == Width(70, torn=True)
    assert whole(wrapped(lines, 70)) == lines


def test_one_torn_word_is_enough_where_every_full_line_goes_on_in_the_next() -> None:
    """The others are torn at a blank or a sign; one full line that does not go on leaves it open."""
    said = [
        "the mill has no flour: rc 19 ",
        "the loom has no yarn, code 12 =",
        "the kiln has no wood, at 9 % ",
        "the barn has no hay, as told ",
        "the well has no rope, once = ",
    ]
    lines = [f"Nov 22 06:33:0{at} node-7 millkeeperd: {said[at][:29].ljust(29)}= {at} of 9" for at in range(5)]
    lines.append("Nov 22 06:33:06 node-7 millkeeperd: the shutter is open; nobody looks after")
    broken = wrapped(lines, 65)
    assert whole(broken) == lines
    alone = [*broken, "Nov 22 06:33:07 node-7 millkeeperd: the mill is closed for today,", lines[0]]
    assert whole(alone) == alone


@pytest.mark.parametrize("between", [1, 3])
def test_lines_of_one_length_are_whole_whatever_comes_between(between: int) -> None:
    """Steps whose numbers have as many digits, and a sidecar's shorter line behind each or every third."""
    work = [f"pass {at} over the warp done, tension {2.1 - at / 100:.2f}, beam 4 at 17 turns" for at in range(10, 60)]
    lines = [
        line
        for at, text in enumerate(work)
        for line in ((text, f"exporter: scrape {at} ok") if at % between == 0 else (text,))
    ]
    assert whole(lines) == lines


KERNEL = [
    f"Nov 22 06:33:{at:02d} node-7 kernel: [ 1000.{at:06d}] {said}"
    for at, said in enumerate(
        [
            "mpt3sas_cm1: SAS host is non-operational",
            "sd 4:0:1:0: [sdc] Synchronize Cache(10) failed: Result: hostbyte=DID_NO_CONNECT driverbyte=DRIVER_OK",
            "sd 4:0:1:0: rejecting I/O to offline device",
            "blk_update_request: I/O error, dev sdc, sector 4711 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 0",
            "Buffer I/O error on dev sdc1, logical block 588, lost async page write",
            "EXT4-fs error (device sdc1): ext4_find_entry:1455: inode #2: comm python: reading directory lblock 0",
        ]
    )
]


@pytest.mark.parametrize("width", [68, 74, 80])
def test_lines_that_a_mail_broke_between_words_are_whole_again(book: RuleBook, width: int) -> None:
    """Each goes on in lines without a head: the text is the same, and the answer at the line where it begins."""
    broken = mailed(KERNEL, width)
    assert whole(broken) == KERNEL
    plain, answer = (diagnose(log_of(*text), rules=book, memory=False) for text in (KERNEL, broken))
    assert plain.root_cause is not None
    assert answer.root_cause is not None
    assert answer.root_cause.text == plain.root_cause.text
    assert answer.root_cause.text.startswith(broken[answer.root_cause.line - 1])


def test_a_mail_that_left_blanks_where_it_broke_lines_is_whole_again() -> None:
    """As those of the form `flowed` do: each word is one blank away from the next."""
    assert whole([f"{line} " for line in mailed(KERNEL, 74)]) == KERNEL


def test_a_line_without_a_head_that_had_room_above_is_no_rest() -> None:
    """One such line stays as it is; where there are several, the stream was not broken at all."""
    broken = [*mailed(KERNEL, 74), "Nov 22 06:34:00 node-7 kernel: done", "one more"]
    assert whole(broken) == [*KERNEL, "Nov 22 06:34:00 node-7 kernel: done", "one more"]
    several = [*broken, "and one", "and another", "and the last"]
    assert whole(several) == several


def test_short_rows_of_a_table_are_no_rests_of_a_mail() -> None:
    """Where hardly a line has a head of its own, nothing tells what begins one."""
    rows = [
        f"# rank {at} of group 0, pid {4000 + at * at}, on node-{at % 3} device {at % 8} of {'mnopqrs'[: at % 7]}8"
        for at in range(40)
    ]
    lines = [KERNEL[0], *rows]
    assert whole(lines) == lines


def test_a_mail_of_which_one_line_was_not_broken_is_whole_again() -> None:
    """What somebody copied into it may be longer than all others."""
    copied = (
        "Nov 22 06:35:00 node-7 kernel: [ 1060.000000] nvme1n1: I/O Cmd(0x2) @ LBA 16, I/O Error (sct 0x3 / sc 0x71)"
    )
    assert whole([*mailed(KERNEL, 70), copied]) == [*KERNEL, copied]


@pytest.mark.parametrize(
    "lines",
    [
        steps(1, 60),
        WATCHDOGS,
        [
            "+" + "-" * 77 + "+",
            "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile ECC |"[:79],
            "a",
        ]
        * 3,
        [
            f"part {at:03d} of the data set is read by worker {at % 7} and handed on to the trainer now"
            for at in range(9)
        ],
        [" 12%|###       | 12/100 [00:01<00:08, 10.01it/s, loss=2.011, lr=0.0001, norm=1.01]", "Saving"] * 4,
        [],
    ],
    ids=[
        "short lines",
        "one long line of every rank",
        "a table",
        "lines of one length",
        "bars of full width",
        "nothing",
    ],
)
def test_lines_that_nobody_broke_stay_as_they_are(lines: list[str]) -> None:
    """Equal lengths alone are no width."""
    assert width_of([line.encode() for line in lines]) is None


def test_the_ends_of_lines_on_windows_do_not_count() -> None:
    """A carriage return is no character of a line, nor does one stay inside."""
    lines = [(1, b"the sampler was given wei\r"), (2, b"ghts\r"), (3, b"step 2\r")]
    assert list(joined(lines, Width(25, torn=True))) == [(1, b"the sampler was given weights"), (3, b"step 2")]


def test_what_never_ends_is_no_line() -> None:
    """A dump in lines of one width is joined in parts, and none of it is lost."""
    dump = [(at, bytes(97 + (at * at + column) % 26 for column in range(76))) for at in range(1, 901)]
    whole_lines = list(joined(dump, Width(76, torn=True)))
    assert max(len(line) for _, line in whole_lines) < 10_000
    assert b"".join(line for _, line in whole_lines) == b"".join(line for _, line in dump)


def test_what_begins_a_line_is_not_joined() -> None:
    """A record's head, a frame or a blank line after a line that happens to have the full width."""
    full = "x" * 99 + "y"
    for following in ("2026-11-02 10:00:00,123 INFO ready", '  File "train.py", line 3, in main', "", full):
        lines = [(1, full.encode()), (2, following.encode())]
        assert list(joined(lines, Width(100, torn=True))) == lines
