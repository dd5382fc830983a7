"""Finds the rank and the node of the root by ordered decisions; the first that applies answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from logdiag.judge.decisions import decision, first_that_applies
from logdiag.judge.facts import Facts
from logdiag.judge.faults import Fault
from logdiag.judge.kinds import Kinds
from logdiag.judge.ranks.processes import (
    Owners,
    ends_in,
    first_to_end,
    host_in_lines,
    owners_in,
    rank_over_groups,
    speaker_beside,
    the_only,
)
from logdiag.judge.ranks.vocabulary import PROCESSES
from logdiag.judge.timeline import Timeline
from logdiag.model import TROUBLE, Collectives, Decision, Line, Reason, Role, number_in
from logdiag.patterns import pattern_of
from logdiag.scan.survey import Opening

if TYPE_CHECKING:
    from logdiag.judge.ranks.by_words import ByWords

# ValueError: shard 7 of the loom is torn   (other lines may repeat the text without the class)
_CLASS = pattern_of(r"^[\w.]{1,120}(?:Error|Exception): ")
_HEADER = "Traceback (most recent call last)"
_NUMBERS = pattern_of(r"\d{1,9}")
# Successfully assigned train/trainer-0 to gpu-07   pod trainer-0 bound to gpu-07   trainer-0 scheduled on node gpu-07
_PLACED = r"(?:\w+ ){0,3}(?:to|on|onto) (?:node |host )?['\"]?([A-Za-z][\w.-]*\d[\w.-]*)"
WAITED = frozenset({Reason.NCCL_TIMEOUT_ERROR, Reason.NCCL_REMOTE_ERROR})
"""For a root of these reasons its process waited for others."""
# So many lines at most: of a traceback; of a record.
_LONGEST_TRACEBACK, _LONGEST_RECORD = 200, 40
_SHORTEST_QUOTE, _LONGEST_QUOTE = 20, 300
# In place of a rank: several are meant, so none is named, and no later decision is asked.
_SEVERAL = -1


class _RankFacts(NamedTuple):
    """What the decisions look at: the root, all that broke the job, all kept lines, and the logs' first lines, where a
    launcher may list its ranks."""

    root: Fault
    faults: Sequence[Fault]
    lines: Sequence[Line]
    timeline: Timeline
    owners: Owners
    words: Callable[[], ByWords]
    collectives: Collectives | None
    openings: Sequence[Opening]

    @property
    def kinds(self) -> Kinds:
        """What the kept lines are, and tell of processes."""
        return self.timeline.kinds

    @property
    def node(self) -> str | None:
        """The node that the root's line names or was printed on; else the only one that NCCL named; None for none."""
        return self.root.finding.node or the_only(self.owners.nodes)

    @property
    def one_node(self) -> bool:
        return len({line.node for line in self.lines if line.node}) <= 1


def absent_from_the_collective(facts: _RankFacts) -> int | None:
    """The ranks waited in a collective, and by the table of all ranks this one kept them waiting; no rank where it
    names several."""
    if facts.root.reason is not Reason.NCCL_TIMEOUT_ERROR or facts.collectives is None:
        return None
    ranks = facts.collectives.ranks
    return None if not ranks else ranks[0] if len(ranks) == 1 else _SEVERAL


def waited_for(facts: _RankFacts) -> int | None:
    """The root's process waited for others in vain, and by its words and those of all lines for this one."""
    if facts.root.reason not in (*WAITED, Reason.CONNECTION_ERROR):
        return None
    missed: set[int] = set()
    for told in facts.kinds.told("missed", facts.root.line):
        noun = told.facts.get("noun", "rank").lower()
        if noun in PROCESSES or noun.removesuffix("s") in PROCESSES:
            missed |= _numbers_in(told.facts["missed"])
    if len(missed) == 1:
        return next(iter(missed))
    return facts.words().rank() if facts.root.reason in WAITED else None


def counted_over_its_groups(facts: _RankFacts) -> int | None:
    """The root's process is number so many in a group of several, and all groups have as many."""
    return rank_over_groups(facts.root.line, facts.lines)


def named_by_its_line(facts: _RankFacts) -> int | None:
    """The root's line names its rank, by a prefix or in its words."""
    return facts.root.finding.rank


def named_at_the_end_of_its_record(facts: _RankFacts) -> int | None:
    """The root's line, or one that goes on with its record, ends with its rank, or names it as errors of NPUs do."""
    line, at_end = facts.root.line, {told.line.place: told.rank for told in facts.kinds.told("record-end")}
    record = (kept for kept in facts.lines if kept.stream == line.stream and kept.position >= line.position)
    for kept in islice(record, _LONGEST_RECORD) if at_end else ():
        if kept.place in at_end:
            return at_end[kept.place]
        if kept is not line and (kept.clock is not None or kept.rank is not None):
            break
    return None


def owner_of_its_process(facts: _RankFacts) -> int | None:
    """The root's line, or the line below that goes on with it, names a process, and NCCL or the launcher told on that
    node which rank the process is."""
    if not facts.owners.processes:
        return None
    line, kinds = facts.root.line, facts.kinds
    below = kinds.told("process-id", line._replace(position=line.position + 1))
    named = [*kinds.told("process-id", line), *(told for told in below if told.line.text.startswith(" "))]
    return facts.owners.of_process(facts.node, named[0].pid) if named else None


def owner_of_its_gpu(facts: _RankFacts) -> int | None:
    """The root's line names a GPU by its PCI address, and NCCL told on that node which rank has it."""
    return facts.owners.of_gpu(facts.node, facts.root.finding.facts.get("pci", ""))


def number_of_its_gpu(facts: _RankFacts) -> int | None:
    """On the only node, the machine's number of the GPU: it counts them as a launcher counts its ranks."""
    return number_in(facts.root.finding.facts.get("gpu", "")) if facts.one_node else None


def number_of_nccl_device(facts: _RankFacts) -> int | None:
    """On the only node, NCCL's number of the device."""
    devices = facts.kinds.told("nccl-device", facts.root.line)
    named = devices and any(line.node for line in facts.lines) and facts.one_node
    # Lines of another node may be missing: a local index is no rank of the job then.
    return int(devices[0].facts["device"]) if named and "between-nodes" not in facts.root.traits else None


def record_above_a_caught_exception(facts: _RankFacts) -> int | None:
    """The record above an exception that was caught and printed names the rank."""
    return _rank_above(facts) if facts.root.caught else None


def died_of_the_same(facts: _RankFacts) -> int | None:
    """The one rank that died of the root's reason, or of one that it explains; of a cause before what peers say."""
    root, died = facts.root, [fault for fault in facts.faults if fault.died]
    same = [fault for fault in died if fault.reason is root.reason]
    causes = [fault for fault in same if fault.finding.role is root.finding.role]
    explained = [fault for fault in died if fault.reason in root.explains and fault.finding.role is Role.CAUSE]
    return the_only({fault.finding.rank for fault in causes or explained or same} - {None})


def first_in_the_launchers_summary(facts: _RankFacts) -> int | None:
    """The launcher's summary calls this rank the first that it saw fail."""
    return facts.timeline.first_observed


def record_above_the_traceback(facts: _RankFacts) -> int | None:
    """What stands above the root's traceback names the rank."""
    return _rank_above(facts)


def repeats_its_words(facts: _RankFacts) -> int | None:
    """The one rank of which another line repeats the root's words."""
    words = _CLASS.sub("", facts.root.line.message.strip())[:_LONGEST_QUOTE]
    if len(words) < _SHORTEST_QUOTE:
        return None
    return the_only({line.rank for line in facts.lines if line.rank is not None and words in line.text})


def speaker_of_its_block(facts: _RankFacts) -> int | None:
    """The root's line, or one other of its block, says which process speaks."""
    return None if facts.root.reason in WAITED else speaker_beside(facts.root.line, facts.kinds)[0]


def reported_as_ended_first(facts: _RankFacts) -> int | None:
    """The rank of which a launcher first reports that its process ended, unless it was stopped."""
    # A task that is a launcher is no rank; on the only node a launcher's own numbers are the ranks.
    of_launchers = facts.kinds.has("launches-ranks")
    if of_launchers and not facts.one_node:
        return None
    ends = facts.kinds.told("ended-on-node") if of_launchers else ends_in(facts.kinds)
    first = first_to_end(ends)
    if first is not None and first.rank is None and not first.pid:
        # A node's daemon is lost, and the launcher says below which of its processes that ends.
        first = first_to_end([end for end in ends if end.rank is not None and end.node == first.node])
    if first is None:
        return None
    return facts.owners.of_process(first.node or None, first.pid) if first.rank is None else first.rank


def number_of_its_device(facts: _RankFacts) -> int | None:
    """On the only node, the number of the device that the root names, unless it is 0, as which many a process sees its
    only one."""
    return (number_in(facts.root.finding.facts.get("device", "")) or None) if facts.one_node else None


def named_first_after_its_machines_fault(facts: _RankFacts) -> int | None:
    """The root is a machine's fault, and the first process that a program names there afterwards is this one."""
    line = facts.root.line
    if not facts.kinds.is_a("machines-own", line):
        return None

    def may_tell(below: Line) -> bool:
        return not facts.kinds.is_a("machines-own", below) and (not line.node or below.node in (None, line.node))

    return the_only(facts.words().named_below(may_tell))


def weighed_from_its_words(facts: _RankFacts) -> int | None:
    """By what the log lists, and by the words of this line and of those that tell of it, this one failed first."""
    return facts.words().rank()


RANK: tuple[Callable[[_RankFacts], int | None], ...] = (
    absent_from_the_collective,
    owner_of_its_process,
    waited_for,
    counted_over_its_groups,
    named_by_its_line,
    named_at_the_end_of_its_record,
    owner_of_its_gpu,
    number_of_its_gpu,
    number_of_nccl_device,
    record_above_a_caught_exception,
    died_of_the_same,
    first_in_the_launchers_summary,
    record_above_the_traceback,
    repeats_its_words,
    speaker_of_its_block,
    reported_as_ended_first,
    weighed_from_its_words,
    named_first_after_its_machines_fault,
    number_of_its_device,
)
"""Asked in this order; the first that answers decides."""

GUESSES = frozenset(
    decide.__name__
    for decide in (
        waited_for,
        weighed_from_its_words,
        number_of_its_gpu,
        number_of_nccl_device,
        repeats_its_words,
        number_of_its_device,
        named_first_after_its_machines_fault,
    )
)
"""Those decisions that take a number for a rank only because nothing contradicts it."""


def rank_from(decisions: Iterable[Decision]) -> Decision | None:
    """The decision that found the rank, None where none did."""
    names = {decide.__name__ for decide in RANK}
    return next((made for made in decisions if made.name in names and made.outcome.startswith("rank ")), None)


def rank_and_node(
    root: Fault, case: Facts, collectives: Collectives | None, without: frozenset[str]
) -> tuple[int | None, str | None, tuple[Decision, ...]]:
    """The root's rank and node, and the decisions that found the rank and a guessed node. `collectives` says where each
    rank stood when the job hung."""
    survey, timeline = case.survey, case.timeline

    @cache
    def words() -> ByWords:
        from logdiag.judge.ranks.by_words import by_words

        return by_words(root, survey.lines, survey.openings)

    faults, owners = case.standing.failures, owners_in(survey.places)
    facts = _RankFacts(root, faults, survey.lines, timeline, owners, words, collectives, survey.openings)
    made = first_that_applies(RANK, facts, without=without)
    rank = made[1] if made is not None and made[1] >= 0 else None
    decisions = [decision(made[0], root.line, "no rank" if rank is None else f"rank {rank}")] if made else []
    node = _node_in_lines(facts, rank)
    if node is None:
        only = _only_node(facts)
        # A single line that names a host, such as a launcher's last word, may tell of another process's.
        ask = only is None or sum(line.node == only for line in survey.lines) == 1
        if ask and (node := node_from_words(facts, rank)) is not None:
            decisions.append(decision(node_from_words, root.line, f"node {node}"))
        node = node or only
    return rank, node or host_in_lines(root.line, timeline.kinds), tuple(decisions)


def _node_in_lines(facts: _RankFacts, rank: int | None) -> str | None:
    """The node of the root: by its line, other lines of its rank, the launcher's summary, or NCCL's first lines."""
    root = facts.root
    # A watchdog's line is printed by a rank that waited, on the node of that rank.
    absent = _numbers_in(root.finding.facts.get("absent", "")) - {root.line.rank}
    if root.finding.node and not absent:
        return _host_of_pod(root.finding.node, facts.openings) or root.finding.node
    ranks = absent or ({rank} if rank is not None else set())
    named = {line.node for line in facts.lines if line.node and line.rank in ranks}
    named |= {entry.node for entry in facts.timeline.summary if entry.rank in ranks}
    named = named or facts.owners.nodes_of(ranks) or _nodes_reported(facts, ranks)
    return the_only(named)


def _only_node(facts: _RankFacts) -> str | None:
    """The only node that the log names, or the only one of these that the root's line names."""
    # Of lines alike only the first few are kept, so nodes of a listing are taken from the logs' first lines too.
    first = chain.from_iterable(opening.lines() for opening in facts.openings)
    every = {line.node for line in chain(facts.lines, first) if line.node}
    return the_only({node for node in every if node in facts.root.line.text.split()} or every)


def _host_of_pod(pod: str, openings: Iterable[Opening]) -> str | None:
    """The host on which a pod was placed, by the only one that the logs' first lines name behind it; None where they
    place none of this name."""
    said = re.compile(rf"(?<![\w.-]){re.escape(pod)}['\"]? {_PLACED}")
    first = (line for opening in openings for line in opening.lines() if pod in line.text and line.node != pod)
    return the_only({found[1].rstrip(".") for line in first if (found := said.search(line.text))} - {pod})


def _numbers_in(text: str) -> set[int]:
    return set(map(int, _NUMBERS.findall(text)))


def _nodes_reported(facts: _RankFacts, ranks: Collection[int]) -> set[str]:
    """The nodes of ranks, by the block of the root or by a launcher's reports; where no report names these ranks with a
    node, of the process that a launcher reports first without its rank."""
    speaker, node = speaker_beside(facts.root.line, facts.kinds)
    if node and (not ranks or speaker is None or speaker in ranks):
        return {node}
    ends = [end for end in ends_in(facts.kinds) if end.node]
    own = {end.node for end in ends if end.rank in ranks}
    first = first_to_end([end for end in ends if end.rank is None or not ranks])
    return own or ({first.node} if first else set())


def node_from_words(facts: _RankFacts, rank: int | None) -> str | None:
    """No known software names the node: of all words that may be a host's, this one fits best; a guess, for which no
    node is left out."""
    return facts.words().node(rank)


def _rank_above(facts: _RankFacts) -> int | None:
    """The rank of an exception by the lines above its traceback: one that says whose it is, the traceback's own header,
    or the record of which it is a part. None where they name none."""
    root = facts.root
    if not (root.died or root.caught):
        return None
    above = [line for line in facts.lines if line.stream == root.line.stream and line.position < root.line.position]
    raised_below = {told.line.place: told for told in reversed(facts.kinds.told("raised-below"))}
    for line in reversed(above[-_LONGEST_TRACEBACK:]):
        if told := raised_below.get(line.place):
            return facts.owners.of_process(told.node, told.pid) if told.rank is None else told.rank
        if line.rank is not None or line.level is not None:
            trouble = line.level in TROUBLE or line.level == "WARNING" or _HEADER in line.text
            over_groups = rank_over_groups(line, facts.lines) if trouble else None
            return (line.rank if over_groups is None else over_groups) if trouble else None
    return None
