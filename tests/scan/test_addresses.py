"""Lines that differ in addresses and identifiers are alike, and nothing else that differs among them is missed."""

from __future__ import annotations

import random

from logdiag.model import HEX
from logdiag.rules import RuleBook
from logdiag.scan.lines import without_numbers, words_before_numbers
from logdiag.scan.shapes import Shapes, words_of
from tests.helpers import log_of
from tests.rules.test_digitless import Unsettled, surveyed, times

# What may stand among them once and tells something.
TELLING = (
    "2026-03-02 08:00:00 ERROR worker 3 ended with signal 9",
    "[91200.117] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.",
    "node-1:4101:5201 [1] NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
)


def lines_with_addresses(count: int) -> list[str]:
    """What a server, a container runtime and NCCL print, with another number of base 16 in each line."""
    source = random.Random(9)
    lines = []
    for at in range(count):
        rank, one, other = at % 8, f"{source.randrange(1 << 32):08x}", f"{source.randrange(1 << 48):012x}"
        lines += [
            f"INFO 03-02 08:00:{at % 60:02d} [llm.py:261] Added request chatcmpl-{one}-{other}.",
            f"time=08:00:{at % 60:02d} level=info msg=ignoring event container={one} module=tasks",
            f"node-1:41{rank}:52{rank} [{rank}] NCCL INFO AllReduce: opCount {at:x} sendbuff 0x{other} recvbuff "
            f"0x{one} count {at} datatype 9 op 0 root 0 comm 0x55d0{rank}8a10 [nranks=8] stream 0x{other}",
            f"node-1:41{rank}:52{rank} [{rank}] NCCL INFO Channel 0{rank}/0 : {rank}[0] -> 1[0] via NET/IB/{rank}",
            f"[{at}.117] mlx5_core: health poll {other}: Connection refused by 0x{one}, exit code {at % 3}",
        ]
    return lines


def test_the_rules_find_among_addresses_what_they_find_on_each_line(book: RuleBook) -> None:
    """The findings, the lines kept and the latest calls are those of looking at every line."""
    lines = lines_with_addresses(4000)
    for at, line in enumerate(TELLING * 4):
        lines.insert(9000 + 700 * at, line)
    settling, looking = Shapes(book, ()), Unsettled(book, ())
    found, expected = surveyed(log_of(*lines), book, settling), surveyed(log_of(*lines), book, looking)
    assert any(HEX in shape for shape in settling.hits.settled)
    assert any(HEX in shape for shape in settling.hits.patterns_of)
    assert [(one.rule, one.line) for one in found.findings] == [(one.rule, one.line) for one in expected.findings]
    assert times(found) == times(expected)
    assert found.lines == expected.lines
    assert found.calls == expected.calls != []


def test_lines_alike_are_alike_to_the_digest_too() -> None:
    """A shape leaves out no more than what tells the lines of a digest apart."""
    lines = lines_with_addresses(300)
    before = words_before_numbers("\n".join(lines).encode(), ())
    words: dict[bytes, bytes] = {}
    for line in lines:
        shape = without_numbers(line.encode(), before)
        assert words.setdefault(shape, words_of(line)) == words_of(line)
    assert len(words) < 200


def test_a_word_behind_such_a_word_stays() -> None:
    """Only a whole number of base 16 is left out: the words that follow the same word elsewhere tell something."""
    before = (b"container=", b"0x")
    lines = (b"container=12ab34cd gone", b"container=failed gone", b"container=dead gone", b"at 0x1f, at 0xfail")
    assert [without_numbers(line, before) for line in lines] == [
        b"container=" + HEX + b" gone", b"container=failed gone", b"container=dead gone", b"at x" + HEX + b", at xfail",
    ]  # fmt: skip
