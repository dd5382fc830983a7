"""The frozen types that stages pass on, and the two closed lists: reasons and actions.

The taxonomy is that of "Characterization of Large Language Model Development in the Datacenter" (NSDI '24, arXiv
2403.07648).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from logdiag.model.plain import from_plain, plain
from logdiag.patterns import pattern_of

if TYPE_CHECKING:
    from logdiag.read.forms import Forms

SCHEMA = "logdiag.diagnosis/1"
_NOT_OF_THE_SCHEMA = ("digest", "decisions", "marks")
_NUMBERS = pattern_of(r"\d+")
# Left out of the answer where there is nothing.
_ONLY_WHERE_TOLD = ("changes", "collectives", "job", "kind")


class _Word(str, Enum):
    """A word of a closed list; it prints as itself, in every version of Python alike."""

    def __str__(self) -> str:
        return str(self.value)


# Longer ones are no count of anything, and Python refuses to read some of them.
_LONGEST_NUMBER = 18


def number_in(text: str | bytes) -> int | None:
    """The whole number that a text of a log is; None for another text, and for more digits than anything counts."""
    return int(text) if len(text) <= _LONGEST_NUMBER and text.isascii() and text.isdigit() else None


def median(values: Iterable[float]) -> float:
    """The middle one of some numbers, or the mean of the two in the middle. `statistics` would load fractions, decimals
    and random numbers for it.

    Raises IndexError where there are none.
    """
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


ALL_NINES = bytes.maketrans(b"012345678", b"999999999")
"""Makes every digit of a text in bytes a 9."""
HEX = b"\x01"
"""Stands for a number of base 16 in a line's shape."""


def with_nines(text: str) -> bytes:
    """A text with every digit a 9, as UTF-8: the same for texts that differ in digits only."""
    return text.encode("utf-8", "surrogatepass").translate(ALL_NINES)


class Category(_Word):
    """Where the cause lies; `none` for a log that shows no failure."""

    INFRASTRUCTURE = "infrastructure"
    FRAMEWORK = "framework"
    SCRIPT = "script"
    NONE = "none"


_REASONS = {
    Category.INFRASTRUCTURE: "NVLinkError CUDAError NodeFailure ECCError NetworkError ConnectionError S3StorageError"
    " NCCLTimeoutError NCCLRemoteError",
    Category.FRAMEWORK: "DataloaderKilled AttributeError OutOfMemoryError RuntimeError AssertionError ValueError"
    " ZeroDivisionError ModelLoadingError DatasetLoadingError",
    Category.SCRIPT: "FileNotFoundError OSError TypeError NameError PermissionError ImportError KeyError SyntaxError"
    " ArgumentError CalledProcessError IndexError Others",
    Category.NONE: "none",
}
_CATEGORY_OF = {reason: category for category, reasons in _REASONS.items() for reason in reasons.split()}


class Reason(_Word):
    """The root cause's name in the paper's taxonomy; `none` for a log that shows no failure."""

    NVLINK_ERROR = "NVLinkError"
    CUDA_ERROR = "CUDAError"
    NODE_FAILURE = "NodeFailure"
    ECC_ERROR = "ECCError"
    NETWORK_ERROR = "NetworkError"
    CONNECTION_ERROR = "ConnectionError"
    S3_STORAGE_ERROR = "S3StorageError"
    NCCL_TIMEOUT_ERROR = "NCCLTimeoutError"
    NCCL_REMOTE_ERROR = "NCCLRemoteError"
    DATALOADER_KILLED = "DataloaderKilled"
    ATTRIBUTE_ERROR = "AttributeError"
    OUT_OF_MEMORY_ERROR = "OutOfMemoryError"
    RUNTIME_ERROR = "RuntimeError"
    ASSERTION_ERROR = "AssertionError"
    VALUE_ERROR = "ValueError"
    ZERO_DIVISION_ERROR = "ZeroDivisionError"
    MODEL_LOADING_ERROR = "ModelLoadingError"
    DATASET_LOADING_ERROR = "DatasetLoadingError"
    FILE_NOT_FOUND_ERROR = "FileNotFoundError"
    OS_ERROR = "OSError"
    TYPE_ERROR = "TypeError"
    NAME_ERROR = "NameError"
    PERMISSION_ERROR = "PermissionError"
    IMPORT_ERROR = "ImportError"
    KEY_ERROR = "KeyError"
    SYNTAX_ERROR = "SyntaxError"
    ARGUMENT_ERROR = "ArgumentError"
    CALLED_PROCESS_ERROR = "CalledProcessError"
    INDEX_ERROR = "IndexError"
    OTHERS = "Others"
    NONE = "none"

    @property
    def category(self) -> Category:
        """The category that the paper files this reason under."""
        return _CATEGORY_OF[self.value]


class Ended(_Word):
    """How the log ends: with a clean exit; with what failed; amid its work, as of a job that hangs, still runs or was
    killed; `unknown` where not all was read, or its last words are of a kind that nothing knows."""

    CLEAN = "clean"
    FAILED = "failed"
    STOPS = "stops"
    UNKNOWN = "unknown"


class Action(_Word):
    """What to do next. Those of `automatic` need no person."""

    RESTART = "restart"
    RESTART_EXCLUDING_NODE = "restart_excluding_node"
    ROLLBACK_AND_SKIP = "rollback_and_skip"
    RETRY_LATER = "retry_later"
    REDUCE_MEMORY = "reduce_memory"
    FIX_AND_RESUBMIT = "fix_and_resubmit"
    NONE = "none"

    @property
    def automatic(self) -> bool:
        """Whether a scheduler may carry it out without a person."""
        return self in _AUTOMATIC


_AUTOMATIC = frozenset({Action.RESTART, Action.RESTART_EXCLUDING_NODE, Action.ROLLBACK_AND_SKIP, Action.RETRY_LATER})


TROUBLE = frozenset({"ERROR", "SEVERE", "CRITICAL", "FATAL"})
"""The levels that a recorder gives to what went wrong."""
CALM = frozenset({"INFO", "DEBUG", "TRACE", "NOTICE"})
"""The levels that a recorder gives to ordinary output; `WARNING` lies between."""
DETAILS = frozenset({"DEBUG", "TRACE"})
"""Of these, the levels of what helps to debug a program, and is no report of a failure."""


class Role(_Word):
    """What a matching line is worth; see `rules/README.md`."""

    CAUSE = "cause"
    SYMPTOM = "symptom"
    HINT = "hint"
    PROGRESS = "progress"
    FINISHED = "finished"
    HARMLESS = "harmless"
    RETRY = "retry"
    STRUCTURE = "structure"
    PLACE = "place"
    CALL = "call"
    KIND = "kind"
    PROCESS = "process"

    @property
    def is_failure(self) -> bool:
        """Whether the line shows a failure: its cause, or a symptom of it."""
        return self in (Role.CAUSE, Role.SYMPTOM)

    @property
    def is_calm(self) -> bool:
        """Whether the line is ordinary work or harmless."""
        return self in (Role.PROGRESS, Role.HARMLESS)

    @property
    def is_context(self) -> bool:
        """Whether the line shows no failure, not even a possible one; its rule has no reason."""
        return not self.is_failure and self is not Role.HINT


class Support(_Word):
    """What an answer rests on; `rules/confidence.yaml` says what each is worth."""

    # One of these for a failure with a root cause, after the kind of its root ...
    NARROW = "narrow"
    GENERAL = "general"
    CATCH_ALL = "catch_all"
    SYMPTOM = "symptom"
    BARE_SYMPTOM = "bare_symptom"
    QUIET = "quiet"
    HINT = "hint"
    # ... or, where the memory named it, after how alike the past failure was ...
    SAME = "same"
    NEARLY_SAME = "nearly_same"
    ALIKE = "alike"
    FAINTLY_ALIKE = "faintly_alike"
    # ... or that a language model named it, every line that it cites being the log's ...
    AGENT = "agent"
    # ... or of these where no root was found.
    SUSPECT = "suspect"
    EXIT_CODE = "exit_code"
    FINISHED = "finished"
    WORKING = "working"
    SILENT = "silent"
    COMPLAINING = "complaining"
    # These may come on top.
    DIVIDED = "divided"
    RIVAL = "rival"
    DISAGREEING_CHAIN = "disagreeing_chain"
    DOUBTFUL = "doubtful"
    UNEXPLAINED = "unexplained"
    SURVIVED = "survived"
    TRIAL = "trial"
    CLEAR_WORDS = "clear_words"
    UNKNOWN_SOFTWARE = "unknown_software"


class CommonPrefix(NamedTuple):
    """What a recorder puts before every line of a stream. One that `relays` gives another program's lines this level
    whatever they say: it tells nothing. `label` is how the stream names the rank that speaks, where it has a way of its
    own. `forms` are those of the user, beside the shipped ones; None where there are none."""

    pattern: re.Pattern[str]
    relays: str | None = None
    label: re.Pattern[str] | None = None
    forms: Forms | None = None


class Sealed(NamedTuple):
    """Lines of a block that lack their digits in it, where no one is likely to look at them: of each line `places` has
    which of the `records` it stands in, -1 for a line that is whole. `opened` makes the whole line of a record; in the
    file records stand one behind the other with `between` in between."""

    places: Sequence[int] = ()
    records: Sequence[bytes] = ()
    between: bytes = b"\n"
    opened: Callable[[bytes], bytes] = bytes

    def __reduce__(self) -> tuple[object, ...]:
        """For another process, which must know itself what opens a record: the records in one piece."""
        return _received, (self.places, self.between.join(self.records), self.between)

    def holds(self, index: int) -> bool:
        """Whether a line is sealed."""
        return bool(self.places) and self.places[index] >= 0

    def line(self, index: int) -> bytes:
        """A sealed line, whole."""
        return self.opened(self.records[self.places[index]])


def _received(places: Sequence[int], records: bytes, between: bytes) -> Sealed:
    return Sealed(places, records.split(between), between)


class Block(NamedTuple):
    """Whole lines of one stream, as bytes without colours, in the order of the file.

    `line_numbers` is None where line i of the block is line `first_line + i` of the file; an envelope that joins
    lines gives each line's own number instead. `offset` is where the file's bytes of which the block was made begin.
    `prefix` is what a recorder puts before every line of the stream. Of an envelope's first block `wrapped` are the
    file's first lines as they stand there; some of an envelope's lines may be `sealed`.
    """

    stream: int
    first_line: int
    offset: int
    data: bytes
    line_numbers: tuple[int, ...] | None = None
    prefix: CommonPrefix | None = None
    wrapped: tuple[bytes, ...] = ()
    sealed: Sealed = Sealed()

    def number_of(self, index: int) -> int:
        """The file's own number of this block's line `index`, both counted from the block's first."""
        if self.line_numbers is None:
            return self.first_line + index
        return self.line_numbers[min(index, len(self.line_numbers) - 1)] if self.line_numbers else self.first_line

    def numbers_of(self, indices: Iterable[int]) -> list[int]:
        """The same of several lines."""
        if self.line_numbers is None:
            return [self.first_line + index for index in indices]
        return [self.number_of(index) for index in indices]


LinePlace: TypeAlias = tuple[int, int]
"""A line's stream and its position there, in the order of the logs."""
LineInFile: TypeAlias = tuple[str, int]
"""A line's file and its number there."""


class Line(NamedTuple):
    """One line as it stands in its source, with what its prefixes say.

    `starts` are the offsets at which the message may begin: the line's start, and the end of each prefix. `time` is
    seconds since the epoch, of the 1970s where no year is printed (only differences count), `clock` the text it was
    read from. `speaker` tells processes that share a stream apart. `position` is the line's index among the lines
    of its `stream`, from 0: unlike `number` it also counts the parts of a line that carriage returns wrote over
    each other.
    """

    source: str
    number: int
    text: str
    rank: int | None = None
    node: str | None = None
    time: float | None = None
    clock: str | None = None
    level: str | None = None
    speaker: str = ""
    starts: tuple[int, ...] = (0,)
    stream: int = 0
    position: int = 0

    @property
    def message(self) -> str:
        """The text without its prefixes."""
        return self.text[self.starts[-1] :]

    @property
    def wording(self) -> str:
        """The message with all numbers alike."""
        return _NUMBERS.sub("0", self.message)

    @property
    def place(self) -> LinePlace:
        """Its stream and position, in the order of the logs; no other line has them."""
        return self.stream, self.position

    @property
    def in_file(self) -> LineInFile:
        """Its file and its number there, by which an answer names it; several lines may share them."""
        return self.source, self.number

    @property
    def process(self) -> tuple[int, int | None, str | None, str]:
        """The process that printed it, by stream, rank, node and speaker."""
        return self.stream, self.rank, self.node, self.speaker


class Finding(NamedTuple):
    """A rule that fired on a line, with the rule's words resolved for this line (a code's row may replace the rule's).

    `generality` is the number of narrower rules, or 1 where a rule that names no reason lacks the code in its table,
    `goes_on` that what prints such a line usually goes on working,
    `ends` that what prints it ends by it, `closes` that a launcher prints it when all its workers have ended,
    `failure_kind` what it is where no reason says so (see `Diagnosis.kind`), `trial` that no person has accepted the
    rule yet. `supports` are there when not a rule but the memory says this: what it rests on.
    """

    rule: str
    line: Line
    role: Role
    reason: Reason
    title: str
    why: str
    action: Action | None = None
    action_before_progress: Action | None = None
    steps: tuple[str, ...] = ()
    explains: frozenset[Reason] = frozenset()
    facts: Mapping[str, str] = {}
    generality: int = 0
    goes_on: bool = False
    ends: bool = False
    closes: bool = False
    failure_kind: str = ""
    supports: tuple[Support, ...] = ()
    trial: bool = False

    @property
    def rank(self) -> int | None:
        """The failing rank: the one that the line names (`rank`), else the rank of the line's prefix. A line without a
        prefix may name its own (`own_rank`); a prefix is better, for it counts in the whole job, not in a group."""
        named = number_in(self.facts.get("rank", ""))
        own = number_in(self.facts.get("own_rank", "")) if self.line.rank is None else None
        return named if named is not None else own if own is not None else self.line.rank

    @property
    def node(self) -> str | None:
        """The failing node: the one that the line names, else the one that printed it."""
        return self.facts.get("node") or self.line.node


class Decision(NamedTuple):
    """One step of the judgement: `name` of what decided, the line that it is `about` (None for the whole log), its
    `outcome` (`recovered`, `stands`, `root`, `rank 3`, `set aside`, `failed`, ...), and `because`, a sentence."""

    name: str
    about: Line | None
    outcome: str
    because: str


@dataclass(frozen=True, slots=True)
class Digest:
    """What is worth reading of a log, and the receipt of what was left out.

    `lines` are in the order of the sources; `counts` gives, for each kept line that stands for others, how many it
    stands for; `dropped_by` counts dropped lines by filter.
    """

    lines: tuple[Line, ...]
    counts: dict[LineInFile, int]
    dropped_by: dict[str, int]
    total_lines: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    """One line of a log: `source` is the file as it was named (`<stdin>` for a pipe), `line` its own line number, from
    1, and `text` the whole line as it stands there."""

    source: str
    line: int
    text: str

    @property
    def in_file(self) -> LineInFile:
        """As `Line.in_file`."""
        return self.source, self.line


@dataclass(frozen=True, slots=True)
class RootCause(Place):
    """The line that names what broke first.

    `rank` and `node` are the process and the machine that failed first, None where the log does not tell. `time` is the
    clock's text as the log prints it, of the line or else of the nearest earlier one of the same process, None where it
    has none. `rule` is the rule that knows the line, as `category/name`; `memory/ID` or `agent/MODEL` where not a rule
    but a past failure or a language model named it. `rank_from` says from what the rank was concluded, None where there
    is none; `rank_guessed` that this is no more than a guess.
    """

    rank: int | None
    node: str | None
    time: str | None
    rule: str
    rank_from: str | None = None
    rank_guessed: bool = False


@dataclass(frozen=True, slots=True)
class Evidence(Place):
    """One line that the answer rests on. `role` is `root` (the root line; once), `context` (lines around it) or
    `consequence` (what it made others print). `rule` is the rule that fired on it, None for a line that is only
    context."""

    role: str
    rule: str | None


@dataclass(frozen=True, slots=True)
class Consequence:
    """What the root cause made other ranks print: a `reason` of the taxonomy, the rule's `title`, the `count` of such
    lines, and the `ranks` that printed them, ascending, empty where they are not known."""

    reason: str
    title: str
    count: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Another reading of the log. `confidence` is its share (0 to 1) of what the answer's own confidence leaves, for
    ordering only: unlike the answer's it is not fitted on labelled failures."""

    reason: Reason
    confidence: float


@dataclass(frozen=True, slots=True)
class Suspect(Place):
    """A line that may tell of the failure although nothing is known of its words, by where and how it stands in the
    log. `score` from 0 to 1 is how likely it is, among the lines of this log, to be the one that names what broke
    first."""

    score: float


@dataclass(frozen=True, slots=True)
class Change(Place):
    """A line that is new since the good run (`times_more` None), or comes so many times more often: the first such
    line; `count` is how many there are."""

    count: int
    times_more: float | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """One log that was read, and what it was taken for.

    `kind` is what its lines look like (`job-output`, `rank-output`, `kernel-log`, ...), `whose` it is: `job`,
    `machine`, `scheduler`, `cluster` or `service`. `rank` and `node` are what its name tells.
    `ahead_seconds` is by how much its clock seems to be ahead of the job's, None where nothing tells.
    """

    source: str
    kind: str
    whose: str
    lines: int
    rank: int | None = None
    node: str | None = None
    ahead_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """When it happened, by the log's own clocks.

    `first_failure_at` is the time of the root line and `last_progress_at` that of the last step seen of any process,
    both as the log prints them; `last_step` is that step's number. `idle_seconds` lie between the last step (without
    one: the root line) and the log's last time. Each is None where the log does not tell.
    """

    first_failure_at: str | None = None
    last_progress_at: str | None = None
    last_step: int | None = None
    idle_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint(Place):
    """A checkpoint that a line tells of: the number of its `step`, and the clock's text; None where the log does not
    tell."""

    step: int | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What of the job's work is saved and what is lost.

    `checkpoint` is the last complete one (or the one that the job began from), `unfinished` a later one that was begun.
    `steps_lost` and `seconds_lost` lie between it and the last step and the log's last time; `ranks` is how many
    processes the job had; `gpu_hours_lost` counts one GPU for each. Each is None where the log does not tell.
    """

    checkpoint: Checkpoint | None = None
    unfinished: Checkpoint | None = None
    steps_lost: int | None = None
    seconds_lost: float | None = None
    ranks: int | None = None
    gpu_hours_lost: float | None = None


class Mark(NamedTuple):
    """Something that happened in one process: `kind` is `root`, `consequence`, `apart` (a fault of its own),
    `recovered`, `step`, `checkpoint` or `end` (a clean one). `words` say what, empty for a step."""

    kind: str
    line: Line
    words: str = ""
    rank: int | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class RankInGroup:
    """Where one rank stood in one process group when the job hung.

    `standing` is `waits`, `entered` (it is over for this rank), `ahead`, `behind`, `silent` (nothing is known of it),
    `other collective` or `other size`.
    `enqueued`, `started` and `completed` number its last such collective, counted from 1; `operation`, `sequence` and
    `sizes` tell of the one it stands in, or else of its last; `last_at` is the clock's text of its last line, `stack`
    where in the program it made its last call, innermost first. None or empty where the log does not tell.
    """

    rank: int
    group: str
    standing: str
    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None
    operation: str = ""
    sequence: int | None = None
    sizes: str = ""
    last_at: str | None = None
    stack: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Collectives:
    """Which rank kept the others waiting in a collective.

    `kind` is `missing-rank`, `slow-rank`, `desync`, `wrong-size` or `dead-link`; `ranks` are those to look at first,
    empty where all stand alike; `summary` says so in a sentence. The others wait in `operation` number `sequence` of
    the process group `group`; `rows` are its ranks, ascending.
    """

    kind: str
    ranks: tuple[int, ...]
    summary: str
    group: str
    operation: str
    sequence: int | None
    rows: tuple[RankInGroup, ...]


@dataclass(frozen=True, slots=True)
class Similar:
    """A past failure like this one, what was done about it, and whether that worked; `words` say so in a sentence.

    `incident` is its id, `similarity` the cosine, 1.0 for the very same line. `outcome` is how a person judged the
    remedy: `worked`, `did_not` or `unknown`. `seen_at` is ISO 8601 in UTC, empty for what ships with logdiag; `node`
    the one that failed then, empty where it is not known. `provenance` says where a shipped remedy is known from
    (`vendor documentation`, `public issue reports`, ...); empty for one's own.
    """

    incident: str
    similarity: float
    reason: Reason
    action: Action
    outcome: str
    seen_at: str
    node: str = ""
    words: str = ""
    provenance: str = ""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What to do next, from a table that people wrote or from what a person confirmed.

    `automatic` says that a scheduler may carry `action` out without a person: it is of that kind, and the answer is
    sure (a confidence of 0.6 or more); else the action is advice. `exclude_nodes` are the nodes to leave out, the worst
    first, only with `restart_excluding_node`. `steps` are sentences in the order in which to do them,
    `why` is one sentence.
    """

    action: Action
    automatic: bool
    exclude_nodes: tuple[str, ...]
    steps: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The answer; `to_dict()` gives the schema `logdiag.diagnosis/1`, `from_dict()` reads it again.

    source        the logs as they were named, several with `, ` between them
    failed        whether the job failed; None where the log does not tell
    ended         how the log ends: `clean`, `failed`, `stops` (no end of the job is in it) or `unknown`
    category      where the cause lies; `none` unless it failed
    reason        what broke first, one of 30 words; `none` unless it failed, `Others` where no other word fits; of a
                  machine's log alone what would end a job (`failed` is None then)
    confidence    0 to 1, to be read as the share of such answers that are right; below 0.6 the answer is not sure
    decided_by    who named the reason: `rules`, `memory`, `suspects`, `agent`, or `none` where nobody did
    supports      what the answer rests on: its kind first, then what makes it more or less certain
    summary       one or two sentences
    times         when it happened; None where the log shows neither a clock nor a step
    progress      what of the work is saved and what is lost; None where the log tells of no checkpoint
    root_cause    the line that names the cause; None where none was found
    evidence      at most 12 lines in the order of the log, those of the root's file first; empty without a root cause
    consequences  what the root made others say, the most frequent first, without the root itself
    candidates    at most 4 other readings, the likeliest first
    changes       at most 20 lines that are new since a good run, or come far more often, the most suspicious first;
                  empty (and no key of the schema) without a `baseline`
    suspects      at most 3 suspicious lines, the most suspicious first
    similar       past failures like this one, the most alike first
    recovery      what to do next; its action is `none` unless it failed
    logs          what was read, and what each log was taken for, in the order of the sources
    job           what the cluster says of the job: `id`, `name`, `user`, `state`, `exit_code`, `nodes`, ...; empty (and
                  no key of the schema) where no cluster was asked
    kind          what it is where no reason says so: `missing-rank`, `slow-rank`, `desync`, `wrong-size`, `dead-link`,
                  `hang`, `not-finite`, `loss-spike` or `straggler`; empty (and no key of the schema) for all else
    collectives   where each rank stood in the collective that hung; None (and no key of the schema) without one
    notes         what else a reader should know, a sentence each: what was not read, what is missing, what it survived
    stats         `bytes`, `lines` and `kept_lines` are counts, `seconds` and `stages` (by name) times, `matcher` the
                  engine that searched, `supports` as above, `agent` what a language model was asked
    decisions     which step of the judgement put each line where it is (`logdiag explain`); not part of the schema
    digest        what is worth reading of the log; not part of the schema
    marks         what happened in which process, for a timeline; not part of the schema
    incident      the id under which it was remembered, empty where it was not
    """

    source: str
    failed: bool | None
    ended: Ended = Ended.UNKNOWN
    category: Category
    reason: Reason
    confidence: float
    decided_by: str
    supports: tuple[Support, ...] = ()
    summary: str
    times: Times | None = None
    progress: Progress | None = None
    root_cause: RootCause | None
    evidence: tuple[Evidence, ...]
    consequences: tuple[Consequence, ...]
    candidates: tuple[Candidate, ...]
    changes: tuple[Change, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    similar: tuple[Similar, ...]
    recovery: Recovery
    logs: tuple[Log, ...] = ()
    job: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    collectives: Collectives | None = None
    notes: tuple[str, ...]
    stats: dict[str, Any]
    decisions: tuple[Decision, ...] = field(default=(), repr=False, compare=False)
    digest: Digest = field(default=Digest((), {}, {}, 0, 0), repr=False, compare=False)
    marks: tuple[Mark, ...] = field(default=(), repr=False, compare=False)
    incident: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values, in the schema's order, ready for JSON."""
        answer: dict[str, Any] = {"schema": SCHEMA}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if name not in _NOT_OF_THE_SCHEMA and (value or name not in _ONLY_WHERE_TOLD):
                answer[name] = plain(value)
        return answer

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Diagnosis:
        """The answer out of what `to_dict` gave, without digest and decisions. Keys that are not known are left out.

        Raises LogdiagError, with all problems at once, for what is no `logdiag.diagnosis/1`.
        """
        return from_plain(cls, document, schema=SCHEMA, left_out=_NOT_OF_THE_SCHEMA)

    def to_json(self, *, indent: int | None = None) -> str:
        """`to_dict()` as JSON in ASCII, on one line unless an `indent` is given."""
        import json

        return json.dumps(self.to_dict(), indent=indent)


_PLACEHOLDER = pattern_of(r"\{([a-z_]+)\}")


_UNFILLED = pattern_of(r" ?\((?:[^(){}]* )?\{[a-z_]+\}[^(){}]*\)| ?[:'\"]*\{[a-z_]+\}['\"]*")


def fill(text: str, facts: Mapping[str, str]) -> str:
    """Puts facts into a rule's words: `{node}` becomes its value, or `the node` where the log does not tell."""
    return _PLACEHOLDER.sub(lambda match: facts.get(match[1]) or f"the {match[1]}", text)


def fill_title(text: str, facts: Mapping[str, str]) -> str:
    """As `fill`, for a headline: a fact that the log does not tell is left out."""
    known = _PLACEHOLDER.sub(lambda match: facts.get(match[1]) or match[0], text)
    return _UNFILLED.sub("", known).strip() if "{" in known else known
