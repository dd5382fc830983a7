"""Puts tracebacks together from single lines: chained, relayed, interleaved by rank, cut at either end.

Lines are sorted by who speaks before they are read, so the tracebacks of many ranks in one file do not mix. Python's
own form, the boxes of `rich`, and forms whose indentation was lost are read alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from logdiag.model import Line

__all__ = ["WARNED", "Link", "RaisedException", "Traceback", "find_tracebacks", "unmixed"]

_HEADER = re.compile(r"Traceback \(most recent call last\)")
_ESCAPED = re.compile(r"Traceback \(most recent call last\):?\\n")
_RELAYED_HEADER = re.compile(r"Original Traceback|Error: Traceback|Exception: Traceback|RemoteTraceback")
_FRAME = re.compile(r'^(?P<indent>[\s|>]*)File "[^"]*", line \d+')
# KeyError                                  Traceback (most recent call last)   (a notebook's)
_NOTEBOOK_HEADER = re.compile(r"^(?P<name>[A-Z]\w*) {2,}Traceback \(most recent call last\)\s*$")
# Cell In[7], line 5   File ~/net.py:12, in fit(x)   /opt/net.py in fit(x)   ---> 12 loss = f(x)   [... skipping ...]
_OF_A_NOTEBOOK = re.compile(
    r"^(?:\s*(?:-+> ?)?\d+(?:\s|$)|(?:File|Cell|Input In) ?\S|<[\w -]+>|[~/\w][^\s:]* in [\w<]|[A-Z]:\\|\s*\(?\.\.\.|"
    r"\[\.\.\. skipping|\s*$)"
)
#     | KeyError: 'a'   (what stands before each line of a group of exceptions)
_GROUP = re.compile(r"^(?: +\|)+ ?|^ +\+ (?=Exception Group)")
#   +-+---------------- 1 ----------------   (and above each of its exceptions)
_OF_A_GROUP = re.compile(r"^ *\+(?:-\+)?-+ (?P<place>\d+) -+$")
_BOX = re.compile(r"^\s*[\u2502\u256d\u2570|+]")
_CARETS = re.compile(r"^[\s|]*[\^~]+[\s^~]*$")
_REPEATED = re.compile(r"\[Previous line repeated \d+ more times?\]")
_CAUSE = re.compile(r"The above exception was the direct cause of the following exception")
_CONTEXT = re.compile(r"During handling of the above exception, another exception occurred")
_PROCESS = re.compile(
    r"-- Process \d+ terminated with the following error|The actor died because of an error raised|^\s*\"\"\"$"
)
# ValueError: boom   torch.cuda.OutOfMemoryError: ...
# ray.exceptions.RayTaskError(KeyError): ...   AssertionError   socket.timeout: ...   but not the level of `ERROR: ...`
_FINAL = re.compile(
    r"^(?P<name>(?!(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b)(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*|\w*(?:error|timeout|Error|Exception)))"
    r"(?:\([\w., ]*\))?(?P<rest>: ?.*|\s*)$"
)
# AttributeErrorAttributeError: : no attribute ... (two processes wrote at once)
_DOUBLED = re.compile(r"^(?P<name>(?:\w+\.)*[A-Za-z]\w*?(?:Error|Exception))(?P=name)+[: ]*(?P<rest>.*)$")
_CLASS_NAME = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Timeout|Failure|Failed|Killed|Abort(?:ed)?|Warning|error)$"
)
# /opt/conda/lib/python3.11/site-packages/tools/typing.py:68: UserWarning: no such library (Python's warnings module)
WARNED = re.compile(r"\.py:\d+: [A-Z]\w{0,60}Warning: ")
# Warning: ...   NOTE: ...   (a traceback broke off before its last line, and the next program begins)
_HEADLINE = re.compile(r"(?:Warning|[A-Z]{2,}):")
# raise ReadError("unexpected end of data")
_RAISE = re.compile(r"raise (?P<name>[A-Za-z_][\w.]*)\((?:f?(?P<quote>[\"'])(?P<text>[^\"'{]*))?")
_IGNORED = re.compile(
    r"Exception ignored (?:in|while|on)|Error in atexit|Error in sys\.excepthook|exception was never retrieved|"
    r"--- Logging error ---"
)
# What Python prints between the failure of an excepthook and the exception that the hook was called for.
_ORIGINAL = re.compile(r"^Original exception was:")
_IN_THREAD = re.compile(r"Exception in thread")
# Process Worker-3:   (what multiprocessing prints before the traceback of a child)
_IN_CHILD = re.compile(r"Process [\w.-]{1,80}:")
# `logger.exception` prints such a record and the traceback below it; after a FATAL one, of native code, nothing comes.
_LEVELS_OF_TROUBLE = frozenset({"WARNING", "ERROR", "CRITICAL"})
# What a launcher puts before each line of a worker, tracebacks included: [default3]:   [rank3]:   [1,3]<stderr>:   3:
_BY_LAUNCHER = re.compile(r"(?:\[(?:default|rank)\d+\]:|\[[\d,]+\](?:\[\w+\])?<std(?:out|err)>:|\d{1,5}: )")
# [rank3]: Traceback (most recent call last):   which is what torch prints when nothing caught it
_UNCAUGHT = re.compile(r"\[rank\d+\]: Traceback")
# skipping a batch that cannot be read   exception calling callback for <Future at 0x7f4b state=finished ...>
_INSTEAD = re.compile(
    r"(?i)\b(?:skipping|skipped|ignoring|ignored|continuing|falling back|retrying|try(?:ing)? again|will retry|"
    r"(?:trying|picking|choosing|drawing|taking|using) (?:the next|the other|another)|recovering|going on|"
    r"carrying on|left out|leaving out|"
    r"exception calling callback)\b|Error \d+ \(ignored\)|, (?:using|keeping|assuming|substituting|taking) "
)
# Terminating process 115 via signal SIGTERM   (and what follows is why)
_ENDING = re.compile(r"(?i)\b(?:terminating|killing|aborting|exiting|giving up|shutting down)\b")
_LONGEST_MESSAGE = 40
# Kept lines of one speaker further apart than this belong to different tracebacks.
_LARGEST_GAP = 400
# What follows an exception's line after so many others is no part of its message.
_LARGEST_GAP_IN_A_MESSAGE = 8
# Of two tracebacks that were mixed the rest may come so many lines later.
_LARGEST_GAP_IN_A_MIX = 16


class Link(str, Enum):
    """How an exception hangs together with the one printed before it."""

    FIRST = "first"
    CAUSE = "cause"
    CONTEXT = "context"
    RELAYED = "relayed"


@dataclass(frozen=True, slots=True)
class RaisedException:
    """The line that names an exception, the lines of its message, and the frames it came through.

    `explicit` says that a `raise` made it. Where the log breaks off before the exception's own line, `line` is that
    `raise` and `said` what it would have printed;
    where two processes wrote into one line, `said` is the line of one.
    """

    line: Line
    name: str
    link: Link
    message: tuple[Line, ...]
    frames: tuple[str, ...]
    explicit: bool = False
    said: str = ""


@dataclass(frozen=True, slots=True)
class Traceback:
    """One chain of exceptions, in the order printed.

    `positions` are all lines it covers, `code` those that only show source text and can be no evidence. `ignored`
    says that the interpreter itself reports that nobody minded, `in_thread` that only a thread ended by it, `in_child`
    that a child of the program did, `logged` that a logger printed it: the process may have gone on.
    """

    exceptions: tuple[RaisedException, ...]
    stream: int
    positions: frozenset[int]
    code: frozenset[int]
    ignored: bool
    in_thread: bool
    in_child: bool
    logged: bool


def find_tracebacks(lines: Sequence[Line]) -> list[Traceback]:
    """All tracebacks in the kept lines of all streams, each stream's lines in order."""
    speakers: dict[tuple[int, int | None, str | None, str], list[Line]] = {}
    for line in lines:
        speakers.setdefault((line.stream, line.rank, line.node, line.speaker), []).append(line)
    found: list[Traceback] = []
    # A logger's prefix may give the record another speaker than the traceback that it prints below.
    records = {(line.stream, line.position + 1): line for line in lines if line.level in _LEVELS_OF_TROUBLE}
    for group in speakers.values():
        reader = _Reader()
        for index, line in enumerate(group):
            reader.above = records.get((line.stream, line.position))
            reader.read(line, group[index + 1 : index + 4])
        reader.close()
        found.extend(reader.found)
    return found


@dataclass
class _Reader:
    """Walks over one speaker's lines; `found` grows by each chain that ends. `announced` is the place of the last line
    of what `ignored` or `in_thread` were said of."""

    found: list[Traceback] = field(default_factory=list)
    exceptions: list[RaisedException] = field(default_factory=list)
    positions: set[int] = field(default_factory=set)
    code: set[int] = field(default_factory=set)
    frames: list[str] = field(default_factory=list)
    message: list[Line] = field(default_factory=list)
    indent: int = 0
    in_frames: bool = False
    in_message: bool = False
    in_box: bool = False
    link: Link = Link.FIRST
    notebook: str = ""
    ignored: bool = False
    in_thread: bool = False
    announced: int = 0
    in_child: bool = False
    logged: bool = False
    last: Line | None = None
    last_code: str = ""
    above: Line | None = None
    alone: Line | None = None
    told_alone: bool = False

    def read(self, line: Line, ahead: list[Line]) -> None:
        text = _body(line)
        gap = line.position - self.last.position if self.last else 0
        if gap > _LARGEST_GAP:
            self.close()
        elif gap > _LARGEST_GAP_IN_A_MESSAGE:
            self._finish_message()
        if not self.code and line.position - self.announced > _LARGEST_GAP_IN_A_MIX:
            self.ignored = self.in_thread = False
        if _ORIGINAL.search(text):
            self.close()
        elif _IGNORED.search(text) or _IN_THREAD.search(text):
            self.close()
            self.in_thread = _IN_THREAD.search(text) is not None
            self.ignored = not self.in_thread
            self.announced = line.position
        elif _HEADER.search(text) and not _ESCAPED.search(text):
            self._header(line, text)
        elif (frame := _FRAME.match(text)) or (self.in_box and _BOX.match(text)):
            self._frame(line, text, len(frame["indent"]) if frame else 0)
        elif self.in_frames and self.notebook:
            self._in_notebook(line, text)
        elif self.in_frames:
            self._among_frames(line, text, ahead)
        elif not self._linked(line, text):
            self._note_alone(line, text)
            if self.in_message:
                self._continue_message(line, text)
        self.last = line

    def _note_alone(self, line: Line, text: str) -> None:
        """Remembers an exception that was never raised: it has no traceback, and may be the cause of the next one."""
        final = _FINAL.match(text)
        if final and final["rest"].startswith(":") and ("." in final["name"] or _CLASS_NAME.search(final["name"])):
            self.alone, self.told_alone = line, self.above is not None and _may_be_record_of(self.above, line)

    def _linked(self, line: Line, text: str) -> bool:
        """Whether a line says how the next exception hangs together with those before."""
        member = _OF_A_GROUP.match(text)
        if _CAUSE.search(text) or _CONTEXT.search(text):
            link = Link.CAUSE if _CAUSE.search(text) else Link.CONTEXT
        elif self.exceptions and ((member and member["place"] == "1") or _PROCESS.search(text)):
            link = Link.RELAYED
        else:
            return False  # a group's further exceptions stand beside the first
        self._finish_message()
        if not self.exceptions and not self.code and self.alone and 0 < line.position - self.alone.position <= 2:
            name = _body(self.alone).partition(":")[0]
            self.exceptions.append(RaisedException(self.alone, name, Link.FIRST, (), ()))
            self.positions.add(self.alone.position)
            self.logged = self.told_alone
        self.link = link
        self.positions.add(line.position)
        return True

    def close(self) -> None:
        """Ends the chain."""
        self._finish_message()
        self._name_by_raise()
        if self.last and (self.exceptions or self.code):
            self.found.append(
                Traceback(
                    exceptions=tuple(self.exceptions),
                    stream=self.last.stream,
                    positions=frozenset(self.positions),
                    code=frozenset(self.code),
                    ignored=self.ignored,
                    in_thread=self.in_thread,
                    in_child=self.in_child,
                    logged=self.logged,
                )
            )
        if self.exceptions or not self.code:
            self.ignored = self.in_thread = False
        else:
            # Two that were mixed break each other off: what was announced may still follow.
            self.announced = max(self.code)
        self.exceptions, self.positions, self.code, self.frames = [], set(), set(), []
        self.in_frames = self.in_box = self.in_child = self.logged = False
        self.link = Link.FIRST

    def _name_by_raise(self) -> None:
        """The exception of a traceback that breaks off at its `raise`."""
        raised = _RAISE.match(self.last_code) if self.in_frames and self.last and self.last_code else None
        if raised and self.last and self.last.position in self.code and not self.exceptions:
            said = f"{raised['name']}: {raised['text'] or ''}".rstrip(": ")
            self.exceptions.append(
                RaisedException(self.last, raised["name"], self.link, (), tuple(self.frames), explicit=True, said=said)
            )
            self.code.discard(self.last.position)

    def _header(self, line: Line, text: str) -> None:
        relayed = _RELAYED_HEADER.search(text) is not None or self._announced()
        self._finish_message()
        expected = relayed or self.link is not Link.FIRST
        if not expected and (self.exceptions or self.code):
            ignored, in_thread = (kind and not self.exceptions for kind in (self.ignored, self.in_thread))
            self.close()
            self.ignored, self.in_thread = ignored, in_thread
        if relayed:
            self.link = Link.RELAYED
        if not self.exceptions:
            before = self.last if self.last and line.position - self.last.position <= 2 else None
            self.in_child = before is not None and _IN_CHILD.fullmatch(before.message.strip()) is not None
            above = self.above if self.above and _may_be_record_of(self.above, line) else None
            self.logged = not _UNCAUGHT.search(line.text) and (
                line.level is not None
                or any(_announces_a_survivor(said) for said in (before, above) if said is not None)
            )
        self.frames = []
        self.positions.add(line.position)
        self.code.add(line.position)
        self.in_frames, self.in_box = True, "\u2500" in text
        of_notebook = _NOTEBOOK_HEADER.match(text)
        self.notebook = of_notebook["name"] if of_notebook else ""
        self.indent = max(len(text) - len(text.lstrip()), 0)

    def _announced(self) -> bool:
        """Whether the exception before quotes the traceback that follows: its text ends with a colon."""
        if not (self.in_message and self.exceptions):
            return False
        said = self.message[-1] if self.message else self.exceptions[-1].line
        return said.text.rstrip().endswith(":")

    def _frame(self, line: Line, text: str, indent: int) -> None:
        if self.in_message and not self.in_frames:
            # Frames right after a final line: what a relay wraps, printed without a header of its own.
            self._finish_message()
            self.link = Link.RELAYED if self.link is Link.FIRST else self.link
        if not self.in_frames:
            self.frames = []
        if not self.positions:
            self.logged = line.level is not None  # the log begins within a record's traceback
        self.in_frames = True
        self.indent = indent
        self.positions.add(line.position)
        self.code.add(line.position)
        self.frames.append(text.strip())
        self.last_code = ""

    def _in_notebook(self, line: Line, text: str) -> None:
        """A line of a notebook's traceback, which names its class in its header and again at its end."""
        if re.match(rf"{self.notebook}(?::|\s*$)", text):
            self._final(line, self.notebook)
        elif _OF_A_NOTEBOOK.match(text):
            self.positions.add(line.position)
            self.code.add(line.position)
            self.frames.append(text.strip())
        else:
            self.close()

    def _among_frames(self, line: Line, text: str, ahead: list[Line]) -> None:
        stripped = text.strip()
        indent = len(text) - len(text.lstrip())
        final = _FINAL.match(stripped)
        # A bare word may be code whose indentation was lost; with a module's name before it, after code, it is a class.
        dotted = final is not None and "." in final["name"] and bool(self.last_code)
        named = (
            final is not None
            and (final["rest"].startswith(":") or dotted or _CLASS_NAME.search(final["name"]) is not None)
            and not (WARNED.search(line.text) or _HEADLINE.match(stripped))
        )
        if not stripped or _CARETS.match(text) or _REPEATED.search(text) or (self.in_box and _BOX.match(text)):
            self.positions.add(line.position)
            self.code.add(line.position)
        elif self.frames and indent > self.indent and not (named and indent <= self.indent):
            self._code(line, stripped)
        elif named and final is not None:
            self._final(line, final["name"])
        elif any(_FRAME.match(_body(later)) for later in ahead[:2]) or (self.frames and not self.last_code):
            self._code(line, stripped)
        else:
            self.close()

    def _code(self, line: Line, stripped: str) -> None:
        self.positions.add(line.position)
        self.code.add(line.position)
        self.last_code = stripped
        if self.frames:
            self.frames[-1] += "\n" + stripped

    def _final(self, line: Line, name: str) -> None:
        explicit = self.last_code.startswith("raise ") if self.last_code else False
        said = unmixed(_body(line))
        name = said.partition(":")[0] or name
        said = said or (_body(line).strip() if _GROUP.match(line.message) else "")
        self.exceptions.append(RaisedException(line, name, self.link, (), tuple(self.frames), explicit, said))
        self.positions.add(line.position)
        self.in_frames = self.in_box = False
        self.in_message = True
        self.message = []
        self.link = Link.FIRST
        self.last_code = ""

    def _continue_message(self, line: Line, text: str) -> None:
        stripped = text.strip()
        fresh_record = line.level is not None or line.clock is not None
        # `Error: ...` is what a program complains with; a class of that name stands behind its module's.
        final = None if fresh_record or stripped.startswith("Error: ") else _FINAL.match(stripped)
        if final and _CLASS_NAME.search(final["name"]) and len(text) == len(text.lstrip()):
            # What `X raised:` quotes; otherwise another process's last line, its frames mixed into those before.
            quoted = not self.message and self.exceptions[-1].line.text.rstrip().endswith(":")
            link = Link.RELAYED if quoted else Link.FIRST
            self.exceptions.append(RaisedException(line, final["name"], link, (), tuple(self.frames)))
            self.positions.add(line.position)
            return
        if len(self.message) >= _LONGEST_MESSAGE or (fresh_record and not _same_record(self.exceptions[-1].line, line)):
            self._finish_message()
            return
        if stripped:
            self.message.append(line)

    def _finish_message(self) -> None:
        if self.message and _announces_instead(self.message[0], self.exceptions[-1].line):
            self.logged, self.message = True, []
        if self.in_message and self.exceptions and self.message:
            self.exceptions[-1] = replace(self.exceptions[-1], message=tuple(self.message))
        self.in_message = False
        self.message = []


def unmixed(text: str) -> str:
    """What one of two processes wrote that wrote an exception into one line at once; empty for any other line."""
    doubled = _DOUBLED.match(text.strip())
    return f"{doubled['name']}: {doubled['rest']}" if doubled else ""


def _body(line: Line) -> str:
    """The text after the prefixes; a prefix's catch-all may not swallow a frame's own words."""
    for start in line.starts:
        text = line.text[start:]
        if _FRAME.match(text) or _FINAL.match(text.strip()):
            return _GROUP.sub("", text)
    return _GROUP.sub("", line.message)


def _announces_a_survivor(line: Line) -> bool:
    """Whether the line before a traceback shows that it is only told: a record of trouble, one of Python's warnings, or
    a word of what is done instead."""
    told = line.level in _LEVELS_OF_TROUBLE or WARNED.search(line.text) is not None
    if told and _ENDING.search(line.message):
        return False
    return told or _INSTEAD.search(line.message) is not None


def _announces_instead(line: Line, raised: Line) -> bool:
    """Whether the line right below an exception is no part of its text, but says what is done instead."""
    follows = line.position == raised.position + 1 and not line.message[:1].isspace()
    return follows and _INSTEAD.search(line.message) is not None


def _may_be_record_of(record: Line, line: Line) -> bool:
    """Whether the process that printed a record may have printed the next line too: a logger names its rank only in the
    record's head, a launcher before every line."""
    if line.rank is None and _BY_LAUNCHER.match(record.text) and not _BY_LAUNCHER.match(line.text):
        return False
    return line.rank in (None, record.rank)


def _same_record(first: Line, second: Line) -> bool:
    """Whether a logger printed both lines as parts of one record, prefix and all."""
    return first.level == second.level and first.clock == second.clock
