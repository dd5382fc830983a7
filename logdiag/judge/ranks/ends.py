"""Reads what launchers, schedulers and programs say of one process of a job: its rank, its node, its process id.

A launcher reports how each process ended, in a sentence or a block of its own (`ends_in`). A program names the process
that speaks in its message, or in another line of the same block (`speaker_beside`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from logdiag.model import Line, number_in, with_nines
from logdiag.patterns import pattern_of

_PIECES = {
    "<HOST>": r"(?P<node>(?!\d+(?![\w.]))\w[\w.-]{0,118}\w)",
    "<RANK>": r"(?P<rank>\d{1,6})",
    "<PID>": r"0*(?P<process>\d{1,9})",
    "<HOW>": r"(?P<how>\w+)",
    "<NOUN>": r"(?:(?:mpi|world|global)[ _-]?)?"
    r"(?:rank|task(?:id)?|proc(?:ess(?:or)?)?|pe|pet|image|locality-id)",
    # [[48111,1],3] of Open MPI, [prterun-node-1-3121@1,3] of PRRTE, [3135438849,3]
    "<NAME>": r"\[(?:\[\d+,\d+\]|[\w.-]{1,120}@\d+|\d+),(?P<rank>\d{1,6})\]",
}


def _forms(*texts: str) -> tuple[re.Pattern[str], ...]:
    for name, piece in _PIECES.items():
        texts = tuple(text.replace(name, piece) for text in texts)
    return tuple(map(pattern_of, texts))


_ENDS = _forms(
    # mpirun noticed that process rank 3 with PID 812 on node gpu-07 exited on signal 9 (Killed).
    # prterun has exited due to process rank 3 with PID 812 on
    r"\b(?:process|job) rank <RANK> with PID <PID> on(?: node <HOST>\b)?(?:.{0,20}exited on signal <HOW>)?",
    # The first process to do so was:   Process name: [[48111,1],3]
    r"^\s*Process name: <NAME>",
    # task 3: endrun called with an error level of 1   rank 3 aborted   Process 3 has crashed
    r"(?i:^<NOUN>[ :#=]{1,3}<RANK>:? (?:has |is |was )?"
    r"(?:endrun called|aborted|aborting|crashed|died|<HOW>(?<=killed))\b)",
    # MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
    r"\bMPI_ABORT was invoked on rank <RANK>\b",
    # application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3   internal ABORT - process 3
    r"\b(?:application called MPI_Abort\(.{1,80}\)|internal ABORT) - process <RANK>\b",
    # Abort(405375759) on node 3 (rank 3 in comm 0): Fatal error in internal_Recv:
    r"\bAbort\(-?\d+\) on node <RANK> \(rank",
    # =   RANK 3 PID 812 RUNNING AT gpu-07   =   PID 812 RUNNING AT gpu-07   (Intel MPI, MPICH)
    r"^=\s+(?:RANK <RANK> )?PID <PID> RUNNING AT <HOST>",
    # [gpu-07:mpispawn_1][child_handler] MPI process (rank: 3, pid: 812) terminated with signal 11 -> abort job
    r"^\[<HOST>:mpispawn_\d+\]\[child_handler\] MPI process \(rank: <RANK>, pid: <PID>\) "
    r"\w+ with (?:status|signal <HOW>)",
    # MPI process (rank: 3) terminated unexpectedly on gpu-07
    r"^MPI process \(rank: <RANK>\) terminated unexpectedly on <HOST>",
    # x1000c0s0b0n0.hsn.cm.example.org: rank 3 died from signal 11 and dumped core
    r"^<HOST>: rank <RANK> (?:exited with code|died from signal <HOW>)",
    # [NID 01234] [c0-0c1s2n0] [Wed Nov  4 10:00:09 2026] PE RANK 3 exit signal Segmentation fault
    r"\[NID \d+\] \[<HOST>\] \[[^\]]{10,40}\] PE RANK <RANK> exit signal <HOW>",
    # ERROR:  One or more process (first noticed rank 3) terminated with signal 11
    r"\(first noticed rank <RANK>\)",
    # [WARN] PLE 0610 plexec The process terminated with the signal.(rank=3)(nid=0x03010006)(sig=6)
    r"\bplexec .{1,80}\(rank=<RANK>\)(?:.{0,60}\(sig=<HOW>\))?",
    # rank 3 in job 1  gpu-07_34565   caused collective abort of all ranks   (MPICH's mpd)
    r"^rank <RANK> in job \d+ +<HOST>_\d+ +caused collective abort",
    # srun: error: gpu-07: task 3: Exited with exit code 1
    r"\bsrun: error: <HOST>: task <RANK>: <HOW>",
    # mpiexec: Warning: task 3 died with signal 11 (Segmentation fault).
    r"\bmpiexec: Warning: task <RANK> (?:exited with status|died with signal <HOW>)",
    # flux-shell[0]: FATAL: task-exit: task rank 3 on host gpu-07 failed (Exit 1) and exit-on-error is set
    r"\btask rank <RANK> on host <HOST> (?:failed|exited)",
    # 00003 gpu-07     ./train           Exit (1)      11/04/2026 10:00:08   (LSF's PAM)
    r"^<RANK> <HOST> +\S.{0,60} {2,}<HOW>[ (].{1,40} \d\d/\d\d/\d{4} \d\d:\d\d:\d\d$",
    # INFO exited: trainer_03 (exit status 1; not expected)   (supervisord)
    r"\bINFO exited: [\w-]*?[A-Za-z][_-]<RANK> \(<HOW>",
    # worker_3_1 exited with code 1   trainer-3 exited with code 137   (docker compose)
    r"^[A-Za-z][\w.-]*?[A-Za-z][_-]<RANK>(?:_\d+)? exited with code <HOW>",
    # trainer@3.service: Main process exited, code=killed, status=9/KILL
    r"\b[A-Za-z][\w-]*@<RANK>\.service: Main process exited, code=\w+, status=<HOW>",
    # Map (4/8) (a1b2_3_0) switched from RUNNING to FAILED on container_e01_..._000005 @ gpu-07 (dataPort=41231).
    r"\(<RANK>/\d+\).{0,160} switched from \w+ to FAILED\b(?: on \S{1,120} @ <HOST> )?",
    # Task Id : attempt_1700000000000_0001_m_000003_0, Status : FAILED
    r"\battempt_\d+_\d+_[mr]_<RANK>_\d+, Status : FAILED\b",
    # Worker 3 terminated.   (Julia)
    r"^Worker <RANK> terminated\.$",
    # RichSOCKnode #3 (PID 812 on 'gpu-07')   (R)
    r"\b\w+node #<RANK> \(PID <PID> on \W?<HOST>\W?\)",
    # Lost executor 7 on gpu-07: Container killed by YARN for exceeding memory limits.   (Spark)
    r"\bLost executor <RANK> on <HOST>: ",
    # Charmrun> error on request socket to node 3 'gpu-07'--
    r"\bCharmrun> error on request socket to node <RANK> '<HOST>'",
    # while attempting to start process rank 3.
    r"\b(?:when|while) attempting to start process rank <RANK>\.",
    # 3; it may have occurred for other processes as well.
    r"^<RANK>; it may have occurred for other processes",
    # Process 1 ([[48111,1],3]) is on host: gpu-07
    r"^\s*Process \d \(<NAME>\) is on host: <HOST>",
    # [gpu-07:00812] *** reported by process [3135438849,3]
    r"\*\*\* reported by process <NAME>",
    # [cli_3]: aborting job:
    r"^\[cli_<RANK>\]: aborting job",
    # Remote daemon: [[48111,0],2] on node gpu-07   A daemon on node gpu-07 failed to start as expected.
    r"^\s*Remote daemon: \[\S{1,60}\] on node <HOST>|\bA daemon on node (?P<node_of_it>\S{1,120}) failed to start",
    # Task failure due to loss of manager b'0a1b' on host gpu-07   (Parsl)
    r"\bloss of manager \S{1,60} on host <HOST>",
)
# What the next lines of such a report add:
_GOES_ON = _forms(
    # node gpu-07 exiting improperly. There are two reasons this could occur:
    r"^(?:node )?<HOST> (?:exiting improperly|calling )",
    #    Node:         gpu-07
    r"^\s+Node: +<HOST>\s*$",
    # =   KILLED BY SIGNAL: 9 (Killed)   =   EXIT CODE: 9
    r"^=\s+(?:KILLED BY SIGNAL|EXIT CODE): <HOW>",
    # signal 11 (Segmentation fault).
    r"^signal <HOW> \(",
)
_LINES_OF_A_REPORT = 4
# Each of these forms has one of these words; to look for them first spares most lines the forms.
_WORDS_OF_REPORTS = (
    *("rank", "process", "abort", "pid", "task", "exit", "kill", "fail", "terminated", "charmrun", "daemon", "manager"),
    *("executor", "died", "crash", "endrun", "calling", "node:", "signal"),
)
# Whoever is ended so did not fail first, as long as another ended otherwise.
_TOLD_TO_END = frozenset({"9", "15", "137", "143", "Killed", "Terminated", "killed", "terminated", "Hangup"})

_SPEAKERS = _forms(
    # MPI rank:    3 (out of 8)   task #   3   mpi_rank: 3   {locality-id}: 3   In coarray image 3
    r"(?i)^[\s{(*#>|-]{0,20}(?:in coarray )?<NOUN>\W{1,12}<RANK>(?: \(out of \d+\)| of \d+)?\W{0,12}$",
    # taskid: 3 hostname: gpu-07   on process 3 (gpu-07)
    r"(?i)^\s*(?:on )?<NOUN>[ :=#]{1,12}<RANK>,?(?: hostname: | \()<HOST>\)?\s*$",
    # ERROR on proc 3: lost atoms   DRIVER_ABORT: called by PE   3   terminated on task=3, function
    r"(?i)(?<!waiting )(?<!wait )(?<!arrived )(?<!running )\b(?:on|by) <NOUN>[ :=#]{1,12}<RANK>(?![\w.]| of\b|/)",
    # On worker 3:   Error detected on worker 3.   (Julia, MATLAB)
    r"\bOn worker <RANK>:|\bError detected on (?:worker|lab)\S{0,3} (?P<rank_of_lab>\d{1,6})\b",
    # HPL ERROR from process # 3, on line 172   Stopping Program from Node:    3
    r"\bfrom (?:process #|Node:) *<RANK>\b",
    # *** Caught a fatal signal (proc 3): SIGSEGV(11)   (rank 3, host gpu-07)
    r"\((?:proc|rank|process|PE|task)[ :=#]{1,2}<RANK>[,) ]",
    # from {-1,-1}, pnum=3, Contxt=-1
    r"\bpnum=<RANK>,",
    # amrex::Abort::3::Lost particles !!!   3::Assertion `lo < hi' failed   p=3: *** Caught
    r"^(?:amrex::\w+::)?<RANK>::|^p=(?P<rank_of_p>\d{1,6}): |^Image (?P<rank_of_image>\d{1,6}): ",
    # ------------- Processor 3 Exiting: Called CmiAbort ------------
    r"^-+ (?:Partition \d+ )?Processor <RANK> Exiting\b",
    # HDF5-DIAG: Error detected in HDF5 (1.12.0) MPI-process 3:   ERRORL2 in fft_tools:fft3d processor   3  err=-300
    r"\bMPI-process <RANK>:|\bprocessor +(?P<rank_of_processor>\d{1,6})  err=",
    # [3] --> FOAM FATAL ERROR:   [3] #0  Foam::error::printStack   [3] Stack Traceback:
    r"^\[<RANK>\] (?:-->|#\d|Stack Traceback|Received an Error)",
    # 007 (4711.003.000) 2026-11-04 10:00:09 Shadow exception!   (HTCondor)
    r"^\d{3} \(\d+\.<RANK>\.\d+\) .{5,40}(?:Shadow exception!|Job was held|Job was aborted)",
    # [[31705,1],77][btl_openib_component.c:2951:handle_wc] from   (a mail broke the line)
    r"^(?:\[[\w.-]{1,120}\])?\[\[\d+,\d+\],<RANK>\]\[[^\]\s]{1,120}\] from\s*$",
    # Error on node 3, will try to stop all the nodes
    r"^Error on node <RANK>, will try to stop",
    # ./solve on a arch-linux named gpu-07 by ada Wed Nov  4 10:00:08 2026   {hostname}: [ (tcp:10.0.0.3:7910) ]
    r" named <HOST> by \w+ [A-Z][a-z]{2} |^\{hostname\}: \[ \(tcp:(?P<node_of_it>[\w.-]{1,120}):\d",
)
_ABOVE, _BELOW = 6, 10


class Ended(NamedTuple):
    """How one process ended, by one report: None or empty for what that does not name; `told_to_end` where a signal
    ended it that a launcher sends to all others."""

    rank: int | None
    node: str
    process: str
    told_to_end: bool
    line: Line


def ends_in(lines: Sequence[Line]) -> list[Ended]:
    """The reports of ended processes, in their order."""
    found: list[Ended] = []
    worded = [line for line in lines if _holds_a_word_of_reports(line.text.lower())]
    for line in _matching(worded, (*_ENDS, *_GOES_ON)):
        last = found[-1] if found else None
        if match := _first(_ENDS, line.text):
            found.append(_ended(match, line))
        elif last and last.line.stream == line.stream and line.position - last.line.position <= _LINES_OF_A_REPORT:
            more = _first(_GOES_ON, line.text)
            part = _ended(more, line) if more else last
            found[-1] = last._replace(node=last.node or part.node, told_to_end=last.told_to_end or part.told_to_end)
    return found


def _holds_a_word_of_reports(text: str) -> bool:
    return any(word in text for word in _WORDS_OF_REPORTS)


def first_to_end(ends: Sequence[Ended]) -> Ended | None:
    """The first process that ended, before those that were told to; None where none is named."""
    return next((end for end in ends if not end.told_to_end), ends[0] if ends else None)


class Speaker(NamedTuple):
    """Which process speaks in a block of lines: None for what the block does not tell."""

    rank: int | None
    node: str | None


def speaker_beside(root: Line, lines: Iterable[Line]) -> Speaker:
    """The process that the root's line names as its own, else the only one that a line of its block names."""
    own = _speakers_in([root])
    block = [
        line
        for line in lines
        if line.stream == root.stream
        and -_ABOVE <= line.position - root.position <= _BELOW
        and line.rank in (root.rank, None)
    ]
    around = _speakers_in(block)
    ranks, nodes = (own[0] or around[0]), (own[1] or around[1])
    return Speaker(ranks.pop() if len(ranks) == 1 else None, nodes.pop() if len(nodes) == 1 else None)


def _speakers_in(lines: Sequence[Line]) -> tuple[set[int], set[str]]:
    ranks: set[int] = set()
    nodes: set[str] = set()
    for line in _matching(lines, _SPEAKERS):
        for match in filter(None, (form.search(line.text) for form in _SPEAKERS)):
            named = _ended(match, line)
            if named.rank is not None:
                ranks.add(named.rank)
            if named.node:
                nodes.add(named.node)
    return ranks, nodes


def _ended(match: re.Match[str], line: Line) -> Ended:
    # A form with two ways to name a rank calls the groups rank and rank_of_...
    groups = {name.partition("_")[0]: text for name, text in match.groupdict().items() if text}
    rank = number_in(groups.get("rank", ""))
    node = groups.get("node") or line.node or ""
    return Ended(rank, node, groups.get("process", ""), groups.get("how") in _TOLD_TO_END, line)


def _first(forms: Sequence[re.Pattern[str]], text: str) -> re.Match[str] | None:
    return next(filter(None, (form.search(text) for form in forms)), None)


def _matching(lines: Sequence[Line], forms: Sequence[re.Pattern[str]]) -> Iterator[Line]:
    """The lines that any form matches. No form asks for a certain digit: of lines that differ in digits only, one is
    enough to see whether any matches."""
    text_by_shape = {with_nines(line.text): line.text for line in lines}
    matching = {shape for shape, text in text_by_shape.items() if _first(forms, text)}
    return (line for line in lines if with_nines(line.text) in matching) if matching else iter(())
