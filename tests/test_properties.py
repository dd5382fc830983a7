"""Claims that hold for any bytes, cut anyhow, coded anyhow."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdiag import Diagnosis, diagnose
from logdiag.report import FORMATS, render
from logdiag.rules import RuleBook
from tests.helpers import LOGS, SAMPLES, log_of, steps, traceback_of, watchdog, zstd

BOOK = RuleBook.load()

# Pieces of logs, of what breaks them, and of what lies around them.
PIECES = [
    *(line.encode() for line in traceback_of("KeyError: 'caption'")),
    *(f"[rank{rank}]: ".encode() for rank in range(3)),
    *(watchdog(rank).encode() for rank in range(2)),
    *(line.encode() for line in steps(1, 4)),
    b"RuntimeError: CUDA driver error: uncorrectable ECC error encountered",
    b"The above exception was the direct cause of the following exception:",
    b"Training finished.",
    b"2026-11-01 10:00:00,123 ERROR [trainer.py:33] ",
    b'{"log":"KeyError: 1\\n","stream":"stderr","time":"2026-03-11T18:04:11Z"}',
    b"2026-03-11T18:04:11.1Z stderr P ",
    b"2026-03-11T18:04:11.1Z stderr F ",
    b"__CURSOR=s=0",
    b"MESSAGE",
    b"\x1b[31m", b"\x1b]0;", b"\x07", b"\x00\x00", b"\r", b"\r\n", b"\n", b"\n\n",
    b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf",
    b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"\xc3\x28", b"\xed\xa0\x80",
]  # fmt: skip

logs = st.one_of(
    st.binary(max_size=2000),
    st.lists(st.one_of(st.sampled_from(PIECES), st.just(b"\n"), st.binary(max_size=20)), max_size=60).map(b"".join),
    st.lists(st.sampled_from(PIECES), max_size=60).map(b"\n".join),
)


class Chunks(io.RawIOBase):
    """An open file that hands out its bytes in pieces of given sizes, in turn."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data, self.sizes, self.place, self.turn = data, sizes, 0, 0

    def read(self, size: int = -1) -> bytes:
        """At least one byte until the end, at most what was asked for."""
        wanted = self.sizes[self.turn % len(self.sizes)]
        self.turn += 1
        part = self.data[self.place : self.place + (min(wanted, size) if size >= 0 else wanted)]
        self.place += len(part)
        return part


def readable(data: bytes) -> bytes:
    """A log of any bytes but those that claim to be compressed or are no text: those are an error, not a log."""
    claims = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PK\x05\x06")
    data = data.translate(None, bytes([*range(1, 7), *range(14, 27)]))
    return b" " + data if data.startswith(claims) else data


def assert_sound(answer: Diagnosis) -> None:
    """The receipt adds up, and every form of the report can be written."""
    digest = answer.digest
    assert digest.total_lines == len(digest.lines) + sum(digest.dropped_by.values())
    assert 0 <= answer.confidence <= 1
    assert bool(answer.failed) == (answer.reason.value != "none")
    for form in FORMATS:
        render(answer, form).encode()
    json.loads(render(answer, "jsonl"))


@settings(max_examples=150)
@given(logs, st.lists(st.integers(1, 700), min_size=1, max_size=5))
def test_any_bytes_in_any_chunks_give_a_sound_answer(data: bytes, sizes: list[int]) -> None:
    """No crash, in bounded time, and the chunking changes nothing."""
    data = readable(data)
    began = time.monotonic()
    answer = diagnose(Chunks(data, sizes), rules=BOOK)
    assert time.monotonic() - began < 10
    assert_sound(answer)
    whole = diagnose(data, rules=BOOK)
    for field in ("failed", "reason", "confidence", "consequences", "recovery", "candidates"):
        assert getattr(answer, field) == getattr(whole, field)
    assert (answer.root_cause and (answer.root_cause.line, answer.root_cause.text)) == (
        whole.root_cause and (whole.root_cause.line, whole.root_cause.text)
    )


def plain(data: bytes) -> bytes:
    """A line without what is taken out of lines."""
    return re.sub(rb"\x1b\[[0-?]*[ -/]*[@-~]", b"", data).replace(b"\0", b"")


text_lines = st.lists(
    st.one_of(
        st.sampled_from(
            [line for piece in PIECES if b"\n" not in piece and piece.isascii() for line in [piece.decode()]]
        ),
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60),
    ).filter(
        lambda text: not set(text) & set("\r\n\0\x1b\ufeff") and not text.startswith(("{", "__CURSOR", "2026-03-11T18"))
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(text_lines)
def test_every_quoted_line_stands_at_its_number_in_the_input(lines: list[str]) -> None:
    """The root line, the evidence and the digest quote lines of the file, with the file's own numbers."""
    data = readable("\n".join(["first", *lines]).encode())
    given_lines = data.decode().split("\n")
    answer = diagnose(data, rules=BOOK)
    quoted = [(item.line, item.text) for item in answer.evidence]
    quoted += [(line.number, line.text) for line in answer.digest.lines]
    if answer.root_cause:
        quoted.append((answer.root_cause.line, answer.root_cause.text))
    for number, text in quoted:
        assert text == given_lines[number - 1]


@settings(max_examples=60)
@given(logs)
def test_the_root_line_is_a_line_of_the_input(data: bytes) -> None:
    """Whatever the bytes: what is quoted as the root was there; of records their words are."""
    data = readable(data)
    answer = diagnose(data, rules=BOOK)
    if (
        answer.root_cause is None
        or data.startswith((b"\xff\xfe", b"\xfe\xff"))
        or data.lstrip().startswith((b"__CURSOR", b"2026"))
        or b'{"' in data
    ):
        return
    assert answer.root_cause.text in plain(data).decode(errors="replace") or b"\x1b" in data
    assert 1 <= answer.root_cause.line <= data.count(b"\n") + 1


VARIANTS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": zstd.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "UTF-16 LE": lambda data: b"\xff\xfe" + data.decode().encode("utf-16-le"),
    "UTF-16 BE": lambda data: b"\xfe\xff" + data.decode().encode("utf-16-be"),
    "UTF-16 LE in gz": lambda data: gzip.compress(b"\xff\xfe" + data.decode().encode("utf-16-le")),
    "UTF-8 mark": lambda data: b"\xef\xbb\xbf" + data,
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "no last newline": lambda data: data.rstrip(b"\n"),
    "NUL runs": lambda data: data.replace(b"rank", b"ra\0\0\0nk").replace(b"\n", b"\0\n"),
    "colours": lambda data: b"".join(
        b"\x1b[33m" + line[:20] + b"\x1b[0m" + line[20:] + b"\n" for line in data.splitlines()
    ),
    "colours in words": lambda data: data.replace(b"Error", b"\x1b[1;31mErr\x1b[0mor"),
    "progress bar before": lambda data: b" 10%\r 20%\r 30%\n" + data.split(b"\n", 1)[1],
    "a bar written over each line": lambda data: b"".join(b"  3%|#   |\r" + line + b"\n" for line in data.splitlines()),
    "noise in front of each": lambda data: data.replace(b"\n", b"\n\xff\xfe", 1).replace(b"\n\xff\xfe", b"\n"),
}
ASCII_SAMPLES = [
    path for path in SAMPLES if path.name in ("demo.log", "keyerror-rank2.log", "slurm-oom.log", "kernel-xid79.log")
]


def essence(answer: Diagnosis) -> tuple[object, ...]:
    """What must not depend on how the log is coded."""
    root = answer.root_cause
    assert root is not None
    return answer.reason, root.line, root.rank, root.node, answer.recovery.action


@pytest.mark.parametrize("path", ASCII_SAMPLES, ids=lambda path: path.name)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_log_in_another_coding_gets_the_same_answer(variant: str, path: Path) -> None:
    """Reason, line number, rank, node and action."""
    data = path.read_bytes()
    assert essence(diagnose(VARIANTS[variant](data), rules=BOOK)) == essence(diagnose(data, rules=BOOK))


@pytest.mark.parametrize("separator", [b"\r"])
def test_a_log_with_only_carriage_returns_is_read(separator: bytes) -> None:
    """One line of the file in many parts: the root is found, its number is 1."""
    answer = diagnose(
        separator.join(log_of(*steps(1, 20), *traceback_of("KeyError: 'caption'")).splitlines()), rules=BOOK
    )
    assert answer.reason.value == "KeyError"
    assert answer.root_cause is not None
    assert answer.root_cause.line == 1
    assert answer.root_cause.text == "KeyError: 'caption'"


@pytest.mark.parametrize("before", [10, 5_000, 120_000])
def test_a_long_log_in_front_moves_only_the_line_number(before: int) -> None:
    """Across any number of blocks."""
    data = (LOGS / "demo.log").read_bytes()
    noise = log_of(*(f"worker {number % 13} opened shard {number}" for number in range(before)))
    reason, line, *rest = essence(diagnose(data, rules=BOOK))
    assert isinstance(line, int)
    assert essence(diagnose(noise + data, rules=BOOK)) == (reason, line + before, *rest)


@pytest.mark.parametrize("seed", range(6))
def test_a_root_line_anywhere_among_blocks_is_found(seed: int) -> None:
    """Wherever a block of the read ends, no line is lost or counted twice."""
    place = random.Random(seed)
    lines = [f"worker {number % 13} opened shard {number} {'x' * place.randrange(200)}" for number in range(30_000)]
    at = place.randrange(len(lines))
    lines[at:at] = ["RuntimeError: CUDA driver error: uncorrectable ECC error encountered"]
    answer = diagnose(Chunks(log_of(*lines), [place.randrange(1, 400_000) for _ in range(7)]), rules=BOOK)
    assert answer.reason.value == "ECCError"
    assert answer.root_cause is not None
    assert answer.root_cause.line == at + 1
    assert answer.stats["lines"] == len(lines)


HARD = {
    "one long line": b"x" * 6_000_000,
    "a long line of words": b"error " * 800_000,
    "a long line of brackets": b"[" * 2_000_000,
    "only newlines": b"\n" * 3_000_000,
    "only carriage returns": b"\r" * 2_000_000,
    "only NULs": b"\0" * 5_000_000,
    "open escapes": b"\x1b[" * 1_000_000,
    "open links": b"\x1b]8;;" * 500_000,
    "open braces": b'{"log": ' * 400_000,
    "a flood of failures": b"torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n" * 40_000,
    "a flood of headers": b"Traceback (most recent call last):\n" * 100_000,
    "a flood of frames": b'  File "a.py", line 1, in a\n    a()\n' * 60_000,
    "a flood of ranks": b"".join(b"[rank%d]: KeyError: 'a'\n" % rank for rank in range(40_000)),
    "a flood of ever different failures": b"".join(
        b"peer %s: NewConnectionError: Failed to establish a new connection: [Errno 111] Connection refused by %s\n"
        % (bytes([97 + number % 26, 97 + number // 26 % 26, 97 + number // 676 % 26]), b"abc"[number % 3 :] * 9)
        for number in range(40_000)
    ),
    "a flood of tracebacks": log_of(*traceback_of("KeyError: 'caption'")) * 8_000,
}


@pytest.mark.parametrize("data", HARD.values(), ids=list(HARD))
def test_hard_input_takes_bounded_time(data: bytes) -> None:
    """A few megabytes of the worst never take long, and the answer is sound."""
    began = time.process_time()
    answer = diagnose(data, rules=BOOK)
    assert time.process_time() - began < 20
    assert_sound(answer)
    assert answer.stats["bytes"] == len(data)
