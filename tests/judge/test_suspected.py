"""Where no rule names a cause the most suspicious line stands for it: never sure, never with an automatic action."""

from __future__ import annotations

import pytest

from logdiag import diagnose
from logdiag.judge.facts import ENOUGH_LINES, lines_of_unknown_software
from logdiag.judge.faults import Fault
from logdiag.judge.judgement import judge
from logdiag.judge.suspects.ranked import RankedLine, Ranking
from logdiag.judge.tracebacks.forms import FRAME_OF_ANY
from logdiag.model import Line, Reason, Support
from logdiag.read.prefixes import parse_line
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes
from logdiag.scan.survey import survey
from tests.helpers import diagnosed, log_of, steps, traceback_of

ROOT = "lathe 1 of 2: ERROR notch 200 is not on the shelf, never cut or swept away"
DRUM = [f"Nov 22 06:08:{at} node-7 pacer[812]: turn {at} of the drum" for at in range(10, 55)]
SHOP = [
    "lathe 0 of 2: notch 100 cut in 2.1 s",
    "lathe 1 of 2: notch 100 cut in 2.2 s",
    ROOT,
    "lathe 0 of 2: belt is limp, nobody pulls at the other end",
    "shop closed with status 3",
]


def test_a_status_alone_leads_to_the_line_that_stands_out(book: RuleBook) -> None:
    """The answer says that it rests on suspects, is not sure, and leaves the action to a person."""
    answer = diagnosed(book, *SHOP)
    assert answer.root_cause is not None
    assert (answer.failed, answer.root_cause.text, answer.decided_by) == (True, ROOT, "suspects")
    assert answer.confidence < 0.6
    assert not answer.recovery.automatic
    assert answer.suspects[0].text == ROOT


@pytest.mark.parametrize(
    "last",
    [
        "CRITICAL engine: quorum lost, shutting down",
        "trainer aborted with code 9",
        "2026-11-20 10:00:00 ERROR [loader] shard 00017 checksum differs, stopping job",
        "FATAL flux_capacitor: tachyon drift exceeded, shutting down",
    ],
)
def test_last_words_of_trouble_after_steps_are_a_failure(last: str, book: RuleBook) -> None:
    """Whatever the words are, and although no rule knows them."""
    answer = diagnosed(book, *steps(1, 40), last)
    assert answer.root_cause is not None
    assert (answer.failed, answer.root_cause.line) == (True, 41)
    assert answer.confidence < 0.6


def test_a_status_of_0_is_a_clean_end_in_any_words(book: RuleBook) -> None:
    """Errors before it were recovered from."""
    answer = diagnosed(book, *SHOP[:4], "shop closed with status 0")
    assert (answer.failed, answer.root_cause) == (False, None)


def test_a_signal_is_not_traded_for_a_line_that_stands_out(book: RuleBook) -> None:
    """It came from outside: the log may know no more."""
    told = "srun: error: node-004: task 3: Killed"
    answer = diagnosed(book, *steps(1, 40), "note: 3 odd rows in shard 17 were left as they are", told)
    assert answer.decided_by == "rules"


def _root_where(book: RuleBook, *lines: str, striking: str, failure: float = 0.9) -> Fault | None:
    """The root of a log in which one line is the most suspicious, and that looks so much like a failure's."""
    found = survey(open_sources((log_of(*lines),)), book, Shapes(book, book.filters))
    line = next(line for line in found.lines if line.text == striking)
    return judge(found, book, suspects=lambda: Ranking((RankedLine(line, failure),), failure=failure)).root


def test_what_a_person_says_of_a_kernels_fault_is_not_the_root(book: RuleBook) -> None:
    """The kernel's own line is, however vague its rule and striking the words that tell what came of it."""
    fault = "Nov 22 06:09:08 node-7 kernel: aacraid: Host bus reset request. SCSI hang ?"
    said = ">>> console of node-7, saved by hand; job 4711 on it: node failed"
    root = _root_where(book, *DRUM, fault, said, striking=said)
    assert root is not None
    assert root.line.text == fault


def test_the_reason_of_a_rule_stands_where_its_line_is_the_most_suspicious(book: RuleBook) -> None:
    """Words alone would make another of it: a rule that knows the line knows more."""
    vague = "Nov 22 06:09:08 node-7 kernel: aacraid: Host bus reset request. SCSI hang ?"
    known = "Nov 22 06:09:09 node-7 kernel: aacraid 0000:02:01.0: aacraid: PCI error - slot reset failed"
    root = _root_where(book, *DRUM, vague, known, striking=known)
    assert root is not None
    assert (root.line.text, root.reason, Support.SUSPECT in root.finding.supports) == (known, Reason.OS_ERROR, True)


@pytest.mark.parametrize(("told", "survives"), [("kernel: loomd invoked oom-killer: order=0", False),
                                                ("pacer[812]: the drum has stopped: Killed", True)])  # fmt: skip
def test_a_log_that_reads_well_survived_what_its_programs_tell_but_not_its_kernel(
    told: str, survives: bool, book: RuleBook
) -> None:
    """A symptom in software that no rule knows; a kernel's report of what ends jobs stands."""
    told = f"Nov 22 06:09:08 node-7 {told}"
    root = _root_where(book, *DRUM, *DRUM, told, *DRUM[:3], striking=told, failure=0.01)
    assert (root is None) is survives


def test_a_line_that_is_surely_the_cause_stands_before_a_status_although_others_worked_on(book: RuleBook) -> None:
    """Of processes that do not wait for each other the others' steps go on."""
    work = [f"10:00:{at // 8:02d}.100 w{at % 8:02d} I loop  step {at} loss {3 - at / 900:.4f}" for at in range(300)]
    cause = "10:05:01.000 w03 E card: uncorrectable memory error in bank 5, contents lost"
    answer = diagnosed(book, *steps(1, 30), *work, cause, *steps(30, 34), "10:09:01.000 w09 E boot  leaving, status 5")
    assert answer.root_cause is not None
    assert (answer.root_cause.text, answer.decided_by) == (cause, "suspects")


def test_software_is_unknown_only_where_a_longer_log_holds_nothing_that_a_rule_knows(book: RuleBook) -> None:
    """One line of work in a known form makes it known; a few lines tell nothing."""
    unknown = _lines(*(f"tide {number} counted, 12 isles answered" for number in range(60)))
    assert lines_of_unknown_software(unknown, book) >= ENOUGH_LINES
    assert lines_of_unknown_software(unknown[:20], book) < ENOUGH_LINES
    assert lines_of_unknown_software([*unknown, *_lines(*steps(1, 1))], book) == 0


def test_an_exceptions_class_is_surer_in_software_that_a_rule_knows(book: RuleBook) -> None:
    """A class alone names the reason less often where nobody knows what else that software prints."""
    tides = [f"tide {number} counted, 12 isles answered" for number in range(60)]
    fault = "java.util.NoSuchElementException: next on empty iterator"
    unknown, known = diagnosed(book, *tides, fault), diagnosed(book, *steps(1, 1), *tides, fault)
    assert unknown.supports == (*known.supports, Support.UNKNOWN_SOFTWARE)
    assert unknown.confidence < known.confidence


@pytest.mark.parametrize("text", ["\n\n", "=====\n-----\n", "1\n2\n", "| |\n^^^^\n"])
def test_a_log_in_which_nothing_can_be_a_suspect_has_none(text: str, book: RuleBook) -> None:
    """Blanks, rulers and numbers alone: the answer is that the log does not tell."""
    answer = diagnose(text.encode() * 3, rules=book, memory=False)
    assert (answer.failed, answer.root_cause, answer.suspects) == (None, None, ())


def _lines(*texts: str) -> list[Line]:
    return [parse_line(text, "job.log", at + 1, position=at) for at, text in enumerate(texts)]


def test_a_call_in_a_stack_is_no_cause(book: RuleBook) -> None:
    """Whatever the language: another line tells what went wrong."""
    turns = [f"13:02:{second:02d}|tile{second % 4}|Info|Mill.Turn|Turn {second} err 0.8" for second in range(40)]
    stack = [
        "13:02:41|tile1|Info|Mill.Feed|segment 41: 524160 is not 524288",
        "   at Mill.Check.Equal(Int64 a, Int64 b, String what) in /src/Mill/Check.cs:line 20",
        "   at Mill.Feed.Segment.Open(Int32 id) in /src/Mill/Feed/Segment.cs:line 131",
    ]
    root = diagnosed(book, *turns, *stack, exit_code=3).root_cause
    assert root is not None
    assert root.text == stack[0]


@pytest.mark.parametrize(
    "raised",
    [
        ["feed.FeedClosedException: no further rows", "trainer left with status 3"],
        traceback_of("feed.FeedClosedException: no further rows"),
    ],
    ids=["a class alone", "a traceback"],
)
def test_the_words_of_another_suspect_name_the_reason(raised: list[str], book: RuleBook) -> None:
    """No rule knows the class, and its own words say little; the line before it says what was read."""
    told = "INFO  feed: chunk 7: checksum 9f3a differs from footer 5d20"
    answer = diagnosed(book, *steps(1, 40), told, *raised)
    assert (answer.failed, answer.reason.value) == (True, "DatasetLoadingError")
    assert answer.recovery.why.endswith("the reason is what the most suspicious lines tell.")
    assert answer.confidence < 0.6
    assert not answer.recovery.automatic


def test_a_class_of_ones_own_in_a_known_form_is_traded_for_the_line_that_stands_out(book: RuleBook) -> None:
    """A table of D's own exceptions does not have it: it tells only that something was raised."""
    turns = [f"13:02:{at:02}.004 [info] loom.d:144 hand {at % 4}: thread {at} drawn in 208 ms" for at in range(40)]
    gone = "13:02:41.101 [warning] lamp.d:205 hand 3: lamp 1 answers with 0xffffffff only, taken for gone from its slot"
    raised = [
        "13:02:55.000 [error] hall.d:118 hand 1: song 30: voice 3 missing",
        "core.exception.SongError@hall.d(118): voice",
    ]
    answer = diagnosed(book, *turns, gone, *raised, "13:02:57.000 [error] hall.d:140 hall: hand 1 left first (code 1)")
    assert answer.root_cause is not None
    assert (answer.root_cause.text, answer.reason.value) == (gone, "CUDAError")
    assert answer.confidence < 0.6


def test_the_words_of_what_was_survived_name_no_reason(book: RuleBook) -> None:
    """Many steps follow on them."""
    survived = "[rank3]: RuntimeError: CUDA out of memory, the batch is left out"
    answer = diagnosed(book, *steps(1, 40), survived, *steps(41, 80), "trainer left with status 3")
    assert (answer.failed, answer.reason.value) == (True, "Others")


def test_the_root_is_the_suspect_whose_words_tell_what_all_tell(book: RuleBook) -> None:
    """The loudest of them says what followed, in words that mean little."""
    followed = "ERROR a rig without one of its hands is not gone on with (rule whole=yes)"
    lines = [
        "rig 3.1 of the harbour yard",
        "4 hands at the ropes",
        *(f"hand {at % 4}: rope {at} made fast" for at in range(12)),
        "conf: mast.conf 12: '}' closes nothing",
        followed,
        "yard: 4 hands down, all with 21",
    ]
    answer = diagnose("\n".join(lines).encode(), rules=book, memory=False, exit_code=21)
    assert answer.root_cause is not None
    assert (answer.suspects[0].text, answer.root_cause.line, answer.reason.value) == (followed, 15, "SyntaxError")


def test_what_others_worked_on_after_is_the_cause_where_it_stands_out_most(book: RuleBook) -> None:
    """Seats 0 and 1 go on drawing threads; what ends the job says only that a seat was missing."""
    clock = "2026-10-02 10"
    cause = f"{clock}:00:12 ERROR [seat 2] open /silk/3f/2.thread: Permission denied (os error 13)"
    before = (f"{clock}:00:{at:02d} INFO  [seat {at % 4}] thread {at} drawn, 12.1 GB" for at in range(12))
    rests = f"{clock}:00:12 ERROR [seat 2] thread 2 not drawn, this seat rests"
    others = (f"{clock}:00:{at:02d} INFO  [seat {at % 2}] thread {at} drawn, 12.1 GB" for at in range(13, 24))
    waited = [f"{clock}:01:02 ERROR [seat {seat}] knot 0 not tied: 3 of 4 hands after 30 s" for seat in (0, 1, 3)]
    ended = f"{clock}:01:05 ERROR [hall] seat 0 left with 12"
    answer = diagnosed(book, *before, cause, rests, *others, *waited, ended, f"{clock}:01:05 ERROR [hall] cloth torn")
    assert answer.root_cause is not None
    assert (answer.root_cause.text, answer.reason.value) == (cause, "PermissionError")
    assert answer.confidence < 0.6
    assert not answer.recovery.automatic
    assert not any(note.startswith("recovered from: Permission") for note in answer.notes)


def test_an_exception_that_asyncio_only_tells_of_is_not_traded_for_the_one_that_ended_the_program(
    book: RuleBook,
) -> None:
    """However much it stands out: it ended one task, an hour before."""
    told = ["2026-03-02 10:00:00 ERROR asyncio: Task exception was never retrieved",
            "future: <Task finished name='Task-9' coro=<ask() done, defined at /srv/job/ask.py:9>",
            *traceback_of("NameError: name 'ask_agian' is not defined")]  # fmt: skip
    work = [f"2026-03-02 11:{number // 60:02}:{number % 60:02} INFO httpx: HTTP/1.1 200 OK" for number in range(300)]
    root = diagnosed(book, *told, *work, *traceback_of("KeyError: 'weft'")).root_cause
    assert root is not None
    assert root.text == "KeyError: 'weft'"


@pytest.mark.parametrize(
    "frame",
    [
        "python(PyEval_EvalCode+0x9f) [0x55fcffbc539f]",
        "[ 3] /lib64/libc.so.6(+0x3d900)[0x7f00]",
        "libc.so.6          000015493FE1D900  Unknown               Unknown  Unknown",
        "       6: internal/log/log.go:259:log.If()",
        "  step$mill_@mill.F90:261",
        " ? do_syscall_64+0x5b/0x80",
    ],
)
def test_native_frames_are_frames(frame: str) -> None:
    assert FRAME_OF_ANY.match(frame)


@pytest.mark.parametrize(
    "line", ["3: store.go:12: the shard is lost", "[3] /data/mill is gone", "#3 0xdead: tile refused"]
)
def test_a_message_behind_a_number_is_no_frame(line: str) -> None:
    assert not FRAME_OF_ANY.match(line)


def test_a_calm_line_before_many_steps_is_not_traded_for_what_a_rule_knows(book: RuleBook) -> None:
    """However much it stands out: the job worked on. A few steps before the end it may be the cause."""
    told = "2026-03-02 10:00:00 INFO store: array layers.0 of shape 18, 2, 2048 is written in one piece"
    ended = "slurmstepd: error: *** JOB 4711 ON gpu-07 CANCELLED AT 2026-03-02T11:00:00 DUE TO PREEMPTION ***"
    for work, root_text in ((steps(31, 600), ended), (steps(31, 30), told)):
        root = _root_where(book, *steps(1, 30), told, *work, ended, striking=told)
        assert root is not None
        assert root.line.text == root_text


def test_what_a_rule_calls_harmless_is_not_traded_for_the_root(book: RuleBook) -> None:
    """A line that stands out by its words alone, which a rule knows, and the error that a rule names."""
    lines = [
        " Domain  1: Current date being processed: 2027-03-01_00:00:00.0000, which is loop #   1 out of 81",
        " configflags%julyr, %julday, %gmt:        2027          60   0.00000000",
        " input_wrf.F: SIZE MISMATCH:  namelist ide,jde,num_metgrid_levels=  60  60  40 ; input data 60 60 34",
        " NOTE:       1 namelist vs input data inconsistencies found.",
    ]
    answer = diagnosed(book, *lines)
    assert answer.root_cause is not None
    assert answer.root_cause.line == 3


def test_a_cause_that_a_narrow_rule_knows_asks_for_no_ranking(book: RuleBook) -> None:
    """Not where rules know more of its log: ranking costs more than all else of a small log. Else it is asked for."""
    cause = "[rank2]: RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
    asked: list[str] = []

    def ranked() -> Ranking:
        asked.append(first)
        return Ranking()

    for first, *others in ([*steps(1, 100), cause], [*SHOP[:2], cause]):
        found = survey(open_sources((log_of(first, *others),)), book, Shapes(book, ()))
        root = judge(found, book, suspects=ranked).root
        assert root is not None
        assert root.reason is Reason.ECC_ERROR
    assert set(asked) == {SHOP[0]}
