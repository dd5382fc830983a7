"""Watches a running job's output for steps, losses, broken machines and hangs. Times are seconds of a monotonic clock,
passed in by the caller."""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass
from statistics import median

from logdiag.model import Action, Finding, Role
from logdiag.read.prefixes import parse_line
from logdiag.recovery.policy import Policy
from logdiag.rules import RuleBook
from logdiag.scan.steps import step_number

# 'step 12 loss 2.1'   'iter 40/900 | lm loss: 8.1E+00'   {'loss': 2.1, 'step': 3}
_LOSS = re.compile(
    r"(?i)(?<![\w/.-])(?:train(?:ing)?[_/ ]|lm )?loss[\"']?\s{0,4}[:=(|]?\s{0,4}"
    r"([-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf))\b"
)
# WARNING: loss is nan, skipping this batch
_SKIPPED = re.compile(r"(?i)\bskip|\bignor")
# epoch 3/3 step 500/500   'iter  900/ 900 |'
_OF_ALL = re.compile(r"(?<![\d/])(\d{1,9})\s{0,4}/\s{0,10}(\d{1,9})(?![\d/])")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LINE_ENDS = re.compile(rb"[\r\n]+")
_MOST_BYTES, _MOST_LINES, _LONGEST = 1 << 20, 200, 2000
# How many steps and losses must be known before their median counts as usual; how many steps after a fault mean that
# the job recovered; how many of the latest are remembered.
_FEW_STEPS, _FEW_LOSSES, _STEPS_OF_RECOVERY, _REMEMBERED = 5, 10, 3, 100
# Factors of the limit for a hang: a job that prints without making steps may evaluate or save; one that printed its end
# may upload. Of the longest step so far, and of the slowest start.
_WHILE_PRINTING, _AFTER_THE_END, _OF_THE_LONGEST, _OF_THE_SLOWEST = 3, 10, 2, 3


@dataclass(frozen=True, slots=True)
class Alarm:
    """Why a running job is to be ended: `hang`, `spike` or `fault` (a line that names a broken machine), in words."""

    kind: str
    why: str


class Watch:
    """One attempt of a job. `step` is the furthest step that its output names, `steps` how many were seen. `bad` are
    the latest steps with a bad loss, since `bad_at` (seconds since the epoch), `good` the last one before them.
    `slowest_start` are the most seconds that an earlier attempt took to its first step, 0 where there was none."""

    def __init__(self, book: RuleBook, policy: Policy, now: float, slowest_start: float = 0.0) -> None:
        self.step: int | None = None
        self.steps = 0
        self.good: int | None = None
        self.bad: list[int] = []
        self.bad_at = 0.0
        self._book, self._policy, self._began = book, policy, now
        self._start = policy.hang.start
        if slowest_start and not self._start:
            self._start = max(policy.hang.at_least, _OF_THE_SLOWEST * slowest_start)
        self._rest = b""
        self._latest: int | None = None
        self._stepped_at = self._printed_at = now
        self._gaps: deque[float] = deque(maxlen=_REMEMBERED)
        self._longest = 0.0
        self._losses: deque[float] = deque(maxlen=_REMEMBERED)
        self._fault: tuple[float, int, Finding] | None = None
        self._reported: set[str] = set()  # ids of rules
        self._finished = False

    def saw(self, data: bytes, now: float) -> list[Finding]:
        """Reads further output. Returns the causes in it whose rules did not fire before."""
        if not data:
            return []
        self._printed_at = now
        *lines, self._rest = _LINE_ENDS.split((self._rest + data)[-_MOST_BYTES:])
        self._rest = self._rest[-_LONGEST:]
        for line in lines[-_MOST_LINES:]:
            self._look_at(_COLOURS.sub("", line[:_LONGEST].decode(errors="replace")), now)
        return self._causes(b"\n".join(lines), now)

    def alarm(self, now: float) -> Alarm | None:
        """Returns why the job is to be ended now; None while it may go on."""
        if len(self.bad) >= self._policy.spike.lines:
            return Alarm("spike", f"the loss is NaN or far above the usual since step {self.bad[0]}")
        hang = self._policy.hang
        idle, silent = now - self._stepped_at, now - self._printed_at
        if len(self._gaps) < _FEW_STEPS:
            late = self._start and silent > self._start
            return Alarm("hang", f"no step to speak of in {now - self._began:.0f} s") if late else None
        usual = median(self._gaps)
        limit = max(hang.at_least, hang.times * usual, _OF_THE_LONGEST * self._longest)
        if self._fault and min(idle, now - self._fault[0]) > min(limit, max(hang.after_fault, 3 * usual)):
            return Alarm("fault", f"no step since: {self._fault[2].title}")
        limit *= _AFTER_THE_END if self._finished else 1
        if silent > limit or idle > _WHILE_PRINTING * limit:
            return Alarm("hang", f"no step for {idle:.0f} s, where one takes {usual:.2g} s")
        return None

    def _look_at(self, text: str, now: float) -> None:
        line = parse_line(text, "", 1)
        number, loss = step_number(line), _LOSS.search(text)
        if (number is None or not loss) and not self._book.is_progress(line):
            return
        counts = _OF_ALL.findall(text)
        self._finished = bool(counts) and all(count == most for count, most in counts)
        if number is None or number != self._latest:
            self._stepped(now)
        if loss and number is not None and not _SKIPPED.search(text):
            self._look_at_loss(number, float(loss[1]))
        self._latest = number
        if number is not None:
            self.step = max(number, -1 if self.step is None else self.step)

    def _stepped(self, now: float) -> None:
        if self.steps:
            self._gaps.append(now - self._stepped_at)
            # The first steps compile, load and warm up.
            self._longest = max(self._longest, self._gaps[-1]) if self.steps >= _FEW_STEPS else 0.0
        self.steps += 1
        self._stepped_at = now
        # Other ranks may still print a step that was under way.
        if self._fault and self.steps - self._fault[1] >= _STEPS_OF_RECOVERY:
            self._fault = None

    def _look_at_loss(self, step: int, loss: float) -> None:
        """Takes note of a step's loss. A step is bad until any rank prints a good loss for it: ranks of a pipeline that
        compute no loss may print NaN."""
        known = self._losses if len(self._losses) >= _FEW_LOSSES else ()
        usual = median(known) if known else 0.0
        # NaN is not below anything.
        if loss < float("inf") and (usual <= 0 or loss <= max(self._policy.spike.times * usual, *known)):
            self.bad.clear()
            self.good = step
            self._losses.append(loss)
        elif known and step not in self.bad:
            self.bad_at = self.bad_at if self.bad else time.time()
            self.bad.append(step)

    def _causes(self, data: bytes, now: float) -> list[Finding]:
        causes = []
        for start, end, patterns in self._book.scan(data):
            if not self._book.marks_of(patterns).fire:
                continue
            text = data[start : min(end, start + _LONGEST)].decode(errors="replace")
            finding = self._book.confirm(parse_line(text, "", 1), patterns)
            if finding is None:
                continue
            self._finished = self._finished or finding.role is Role.FINISHED
            if finding.role is not Role.CAUSE or finding.goes_on:
                continue
            if finding.action is Action.RESTART_EXCLUDING_NODE:
                self._fault = self._fault or (now, self.steps, finding)
            if finding.rule not in self._reported:
                self._reported.add(finding.rule)
                causes.append(finding)
        return causes
