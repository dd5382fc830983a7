"""How far the clocks of a job's machines are apart, by events that several of them log at one moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from logdiag.judge.lateness import usual_step
from logdiag.judge.merge.clocks import apart
from logdiag.model import Line, median
from logdiag.patterns import pattern_of
from logdiag.scan.steps import step_number
from logdiag.scan.survey import Survey

# Two clocks must share so many moments, this share of which agrees within so many seconds. Clocks that differ by fewer
# seconds than the last number are kept as they are.
_FEWEST, _MOST_OF_THEM, _SPREAD, _LEAST = 3, 0.8, 1.0, 2.0
_HALF_AN_HOUR = 1800.0
_MOST_TOLD = 3
# So many clocks are compared with those whose offset is not known yet.
_MOST_ASKED = 16
# The node 'node1_123_0' has joined round 0 of the rendezvous 'job' as rank 1 in a world of size 2.
_ROUND = pattern_of(r"has joined round (\d{1,6}) of the rendezvous '([^']{1,120})' as rank")
# step 198 | loss 2.31407: to so many digits two steps have the same loss only if it was summed over all ranks.
_LOSS = pattern_of(r"(?i)loss['\"]?\s{0,4}[:=(|]?\s{0,4}(\d{1,9}\.\d{3,12}(?:e[-+]?\d{1,3})?)")

Key: TypeAlias = tuple[str, ...]
Moments: TypeAlias = Mapping[Key, float]


class Offsets(NamedTuple):
    """By how many seconds each wrong clock is `ahead` of that of `base`, and how many `shared` moments show it. A clock
    has the name of its node, or of its log where that names none; `clocks` are those of whole logs, by stream."""

    base: str = ""
    ahead: Mapping[str, float] = {}
    shared: Mapping[str, int] = {}
    clocks: Mapping[int, str] = {}

    def of_logs(self) -> dict[int, float]:
        """By stream, the seconds by which the clock of a log is ahead; only wrong clocks of logs that have just one."""
        return {stream: self.ahead[clock] for stream, clock in self.clocks.items() if clock in self.ahead}

    def of_machines(self, logs: Sequence[Survey]) -> Offsets:
        """The offsets for machines' own logs, without whole time zones, which may be those of the job alone."""
        ahead = {clock: seconds for clock, seconds in self.ahead.items() if not _is_zone(seconds)}
        return self._replace(ahead=ahead, clocks=_clocks(logs) if ahead else {})

    def notes(self) -> list[str]:
        """A sentence with the clocks that were set right and on what grounds; none where all are right."""
        sentences = [
            f"{name} is {ahead_in_words(seconds, self.base)} ({self.shared[name]} moments that both logged)"
            for name, seconds in self.ahead.items()
        ]
        more = f", and {len(sentences) - _MOST_TOLD} more" if len(sentences) > _MOST_TOLD else ""
        return [f"clocks differ and were set right: {', '.join(sentences[:_MOST_TOLD])}{more}"] if sentences else []


def offsets_of(jobs: Sequence[Survey]) -> Offsets:
    """The clocks of a job's logs that are ahead of or behind most others, as far as shared moments show it."""
    clocks = _clocks(jobs)
    if len({_clock(line, clocks) for part in jobs for line in part.lines}) < 2:
        return Offsets()
    moments = _moments(jobs, clocks)
    if len(moments) < 2:
        return Offsets()
    first = max(moments, key=lambda clock: len(moments[clock]))
    ahead, shared = {first: 0.0}, {first: 0}
    for _, known_clock in zip(range(_MOST_ASKED), known := [first], strict=False):
        for clock in [clock for clock in moments if clock not in ahead]:
            if (offset := _ahead(moments[known_clock], moments[clock])) is not None:
                ahead[clock], shared[clock] = ahead[known_clock] + offset[0], offset[1]
                known.append(clock)
    # Most clocks are right; of two the first one is taken as right.
    middle = sorted(ahead.values())[(len(ahead) - 1) // 2] if len(ahead) > 2 else 0.0
    base = next(clock for clock in moments if abs(ahead.get(clock, middle + _LEAST) - middle) < _SPREAD)
    shared[first] = shared[first] or max(shared.values())
    wrong = {clock: ahead[clock] - middle for clock in moments if abs(ahead.get(clock, middle) - middle) >= _LEAST}
    return Offsets(base, wrong, shared, clocks)


def set_right(part: Survey, offsets: Offsets) -> Survey:
    """The survey of a log with its times by the clock of `base`."""

    def right(line: Line) -> Line:
        ahead = offsets.ahead.get(_clock(line, offsets.clocks))
        return line._replace(time=line.time - ahead) if ahead and line.time is not None else line

    return part.each_line(right) if offsets.ahead else part


def _clocks(logs: Sequence[Survey]) -> dict[int, str]:
    """By stream, the clock of each log that has just one: of the node in its name, of the only node that its lines
    name, or its own where they name none."""
    clocks = {}
    for part in logs:
        named = {line.node for line in part.lines if line.node} | {call.facts.get("node") for call in part.calls} - {
            None
        }
        names = {_short(node) for node in named if node}
        for stream in part.streams:
            if stream.node or len(names) < 2:
                clocks[stream.index] = _short(stream.node) if stream.node else next(iter(names), stream.name)
    return clocks


def _short(node: str) -> str:
    """`node-004` of `node-004.cluster.local`; an address stays whole."""
    return node.partition(".")[0] if node[:1].isalpha() else node


def _clock(line: Line, clocks: Mapping[int, str]) -> str:
    return _short(line.node) if line.node else clocks.get(line.stream, line.source)


def _moments(jobs: Sequence[Survey], clocks: Mapping[int, str]) -> dict[str, dict[Key, float]]:
    """By clock, the time of each event that all nodes log at once. None that a clock shows at several times."""
    times: dict[str, dict[Key, list[float]]] = defaultdict(lambda: defaultdict(list))
    for part in jobs:
        for line, key, since in _shared_moments(part):
            if line.time is not None:
                times[_clock(line, clocks)][key].append(line.time - since)
    return {
        clock: {key: min(seconds) for key, seconds in keys.items() if max(seconds) - min(seconds) <= _SPREAD}
        for clock, keys in times.items()
    }


def _shared_moments(part: Survey) -> Iterator[tuple[Line, Key, float]]:
    """The lines of a log about an event that all nodes log at once, the name of the event, and how many seconds ago it
    was: a communicator was complete, a collective that hung was entered, a rendezvous came about, a loss was summed."""
    for call in part.calls:
        facts = call.facts
        if "comm_id" in facts and "COMPLETE" in call.line.text:
            yield call.line, ("communicator", facts["comm_id"]), 0.0
        elif "waited" in facts:
            sizes = (facts[name] for name in ("in", "out", "shape") if name in facts)
            yield call.line, ("collective", facts["sequence"], facts["operation"], *sizes), int(facts["waited"]) / 1000
    for line in part.lines:
        if joined := _ROUND.search(line.text) if "rendezvous" in line.text else None:
            yield line, ("round", joined[1], joined[2]), 0.0
    for line in chain(part.progress, part.lines):
        loss = _LOSS.search(line.text) if "oss" in line.text else None
        if loss and (number := step_number(line)) is not None:
            yield line, ("step", str(number), loss[1]), 0.0


def _ahead(known: Moments, clock: Moments) -> tuple[float, int] | None:
    """By how many seconds a clock is ahead of the known one, and how many moments show it; None where too few agree."""
    shared = [key for key in known if key in clock]
    for keys in ([key for key in shared if key[0] != "step"], shared):
        seconds = [apart(known[key], clock[key]) for key in keys]
        middle = median(seconds) if seconds else 0.0
        agree = [difference for difference in seconds if abs(difference - middle) <= _SPREAD]
        if len(agree) >= max(_FEWEST, _MOST_OF_THEM * len(seconds)):
            # A rank that is late, with a right clock, is late by less than a step.
            step = usual_step([[(int(key[1]), known[key]) for key in keys if key[0] == "step"]])
            late = abs(middle) >= _LEAST and keys is shared and (step is None or abs(middle) <= step)
            return (0.0 if late else middle), len(agree)
    return None


def _is_zone(seconds: float) -> bool:
    return abs(seconds - round(seconds / _HALF_AN_HOUR) * _HALF_AN_HOUR) <= _SPREAD


def ahead_in_words(seconds: float, base: str) -> str:
    """`37 s ahead of node-0`, or `1 h behind node-0, as in another time zone`."""
    side, size = ("ahead of" if seconds > 0 else "behind"), abs(seconds)
    if _is_zone(seconds):
        return f"{round(size / _HALF_AN_HOUR) / 2:g} h {side} {base}, as in another time zone"
    return f"{size:.0f} s {side} {base}"
