"""Puts tracebacks together from single lines: chained, relayed, interleaved by rank, cut at either end.

Lines are first sorted by the process that printed them, so the tracebacks of many ranks in one file do not mix.
Python's own form, the boxes of `rich`, and forms whose indentation was lost are all read.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from logdiag.judge.kinds import Kinds
from logdiag.judge.tracebacks import forms
from logdiag.model import Line, LinePlace

_LONGEST_MESSAGE = 40
# Kept lines of one process that are further apart belong to different tracebacks.
_LARGEST_GAP = 400
# A line further below an exception is no part of its message.
_LARGEST_GAP_IN_A_MESSAGE = 8
# If two tracebacks were mixed, the rest of one may come so many lines later.
_LARGEST_GAP_IN_A_MIX = 16


class Link(str, Enum):
    """How an exception is linked to the one printed before it; FIRST means not at all."""

    FIRST = "first"
    CAUSE = "cause"
    CONTEXT = "context"
    RELAYED = "relayed"


class RaisedException(NamedTuple):
    """The line that names an exception, the lines of its message, and the frames it came through.

    `text` is the exception line as it should read where the log has it otherwise, else empty. Where the log breaks off
    before that line, `line` is the `raise` statement; where two processes wrote into one line, `text` is that of one.
    """

    line: Line
    name: str
    link: Link
    message: tuple[Line, ...]
    frames: tuple[str, ...]
    text: str = ""


class Traceback(NamedTuple):
    """One chain of exceptions, in the order printed.

    `code` are the positions of lines that only show source text, which are no evidence. `ignored` means that the
    interpreter reports it as ignored, `in_thread` that only a thread ended by it, `logged` that a logger printed it, so
    the process may have gone on, and `warned` that it was logged as a warning.
    """

    exceptions: tuple[RaisedException, ...]
    stream: int
    code: frozenset[int]
    ignored: bool
    in_thread: bool
    logged: bool
    warned: bool

    @property
    def spared(self) -> bool:
        """Whether the process itself went on: it was ignored, or ended only a thread."""
        return self.ignored or self.in_thread


def find_tracebacks(lines: Sequence[Line], kinds: Kinds, steps: Container[LinePlace] = ()) -> list[Traceback]:
    """All tracebacks in the kept lines of all streams, each stream's lines in order. `kinds` are the lines' kinds,
    `steps` the places (stream and position) of lines of work, which are no part of an exception's message."""
    speakers: dict[tuple[int, int | None, str | None, str], list[Line]] = {}
    for line in lines:
        speakers.setdefault(line.process, []).append(line)
    found: list[Traceback] = []
    # A logger's prefix may give the record another speaker than the traceback that it prints below.
    records = {(line.stream, line.position + 1): line for line in lines if line.level in forms.LEVELS_OF_TROUBLE}
    for group in speakers.values():
        reader = _Reader(kinds, steps)
        for index, line in enumerate(group):
            above = records.get(line.place)
            reader.above = above if above and line.rank in (None, above.rank) else None
            reader.read(line, group[index + 1 : index + 4])
        reader.close()
        found.extend(reader.found)
    return found


@dataclass
class _Chain:
    """A chain so far: its exceptions, and the `frames` and the `link` of the next one. `in_frames` and `in_box` say
    where the reader is; `logged`, `warned` and `code` are those of Traceback, `retried` means that the record above
    announces another try."""

    exceptions: list[RaisedException] = field(default_factory=list)
    code: set[int] = field(default_factory=set)
    frames: list[str] = field(default_factory=list)
    link: Link = Link.FIRST
    in_frames: bool = False
    in_box: bool = False
    logged: bool = False
    warned: bool = False
    retried: bool = False

    @property
    def begun(self) -> bool:
        """Whether any of its lines was read."""
        return bool(self.exceptions or self.code)

    def add(self, line: Line, name: str, link: Link, text: str = "") -> None:
        """Adds an exception that came through the frames so far."""
        self.exceptions.append(RaisedException(line, name, link, (), tuple(self.frames), text))

    def ended_after_retries(self) -> bool:
        """Whether the record above announced another try, and that try's exception ended the program."""
        frames = self.exceptions[-1].frames if self.exceptions else ()
        return self.retried and bool(frames) and "<module>" in frames[0]


@dataclass
class _Reader:
    """Walks over the lines of one process and appends each chain that ends to `found`.

    `message` has the lines of the last exception's message, None once it is complete. `announced` is the position of
    the line that set `ignored` or `in_thread` for the next traceback, or of the last line of one that was mixed into
    it. `above` is a record of trouble right above the current line, None if there is none or another rank printed it.
    `alone` is the last exception line without a traceback, `logged_alone` whether a logger printed it."""

    kinds: Kinds
    steps: Container[LinePlace]
    found: list[Traceback] = field(default_factory=list)
    chain: _Chain = field(default_factory=_Chain)
    message: list[Line] | None = None
    indent: int = 0
    notebook: str = ""
    ignored: bool = False
    in_thread: bool = False
    announced: int = 0
    last: Line | None = None
    last_code: str = ""
    above: Line | None = None
    alone: Line | None = None
    logged_alone: bool = False

    def read(self, line: Line, ahead: list[Line]) -> None:
        text = _body(line)
        gap = line.position - self.last.position if self.last else 0
        if gap > _LARGEST_GAP:
            self.close()
        elif gap > _LARGEST_GAP_IN_A_MESSAGE:
            self._finish_message()
        if not self.chain.code and line.position - self.announced > _LARGEST_GAP_IN_A_MIX:
            self.ignored = self.in_thread = False
        if self._announces_next(line, text):
            pass
        elif forms.HEADER.search(text) and not forms.ESCAPED.search(text):
            self._header(line, text)
        elif (frame := forms.FRAME.match(text)) or (self.chain.in_box and forms.BOX.match(text)):
            self._frame(line, text, len(frame["indent"]) if frame else 0)
        elif self.chain.in_frames and self.notebook:
            self._in_notebook(line, text)
        elif self.chain.in_frames:
            self._among_frames(line, text, ahead)
        elif not self._linked(line, text):
            self._note_alone(line, text)
            if self.message is not None:
                self._continue_message(self.message, line, text)
        self.last = line

    def _announces_next(self, line: Line, text: str) -> bool:
        """Whether a line announces the traceback of a child process, of a thread, an ignored one, or the one that could
        not be printed at first; if so, ends the chain before."""
        in_thread, another = forms.IN_THREAD.search(text), forms.OF_A_PROCESS.match(text) or forms.ORIGINAL.match(text)
        ignored = self.kinds.is_a("exception-ignored", line)
        if not (in_thread or another or ignored):
            return False
        self.close()
        self.ignored, self.in_thread, self.announced = ignored, in_thread is not None, line.position
        return True

    def _note_alone(self, line: Line, text: str) -> None:
        """Remembers an exception line without a traceback, for the next one may name it as its cause."""
        final = forms.FINAL.match(text)
        if final and final["rest"].startswith(":") and ("." in final["name"] or forms.CLASS_NAME.search(final["name"])):
            self.alone, self.logged_alone = line, self.above is not None and self._announces_a_survivor(self.above)

    def _linked(self, line: Line, text: str) -> bool:
        """Whether a line links the next exception to those before; if so, keeps that link."""
        if forms.CAUSE.search(text) or forms.CONTEXT.search(text):
            link = Link.CAUSE if forms.CAUSE.search(text) else Link.CONTEXT
        elif self.chain.exceptions and forms.FIRST_OF_A_GROUP.match(text):
            link = Link.RELAYED
        else:
            return False  # a group's further exceptions stand beside the first
        self._finish_message()
        if not self.chain.begun and self.alone and 0 < line.position - self.alone.position <= 2:
            name = _body(self.alone).partition(":")[0]
            self.chain.exceptions.append(RaisedException(self.alone, name, Link.FIRST, (), ()))
            self.chain.logged = self.logged_alone
        self.chain.link = link
        return True

    def close(self) -> None:
        """Ends the chain."""
        self._finish_message()
        self._name_by_raise()
        if self.chain.ended_after_retries():
            self.chain.logged = self.chain.warned = False
        if self.last and self.chain.begun:
            self.found.append(
                Traceback(
                    exceptions=tuple(self.chain.exceptions),
                    stream=self.last.stream,
                    code=frozenset(self.chain.code),
                    ignored=self.ignored,
                    in_thread=self.in_thread,
                    logged=self.chain.logged,
                    warned=self.chain.warned,
                )
            )
        if self.chain.exceptions or not self.chain.code:
            self.ignored = self.in_thread = False
        else:
            # Two mixed tracebacks break each other off: the announced one may still follow.
            self.announced = max(self.chain.code)
        self.chain = _Chain()

    def _name_by_raise(self) -> None:
        """Names the exception of a traceback that breaks off at its `raise` by that statement."""
        raised = forms.RAISE.match(self.last_code) if self.chain.in_frames and self.last and self.last_code else None
        if raised and self.last and self.last.position in self.chain.code and not self.chain.exceptions:
            text = f"{raised['name']}: {raised['text'] or ''}".rstrip(": ")
            self.chain.add(self.last, raised["name"], self.chain.link, text)
            self.chain.code.discard(self.last.position)

    def _header(self, line: Line, text: str) -> None:
        relayed = forms.RELAYED_HEADER.search(text) is not None or self._quotes_next()
        self._finish_message()
        expected = relayed or self.chain.link is not Link.FIRST
        if not expected and self.chain.begun:
            self.close()
        if relayed:
            self.chain.link = Link.RELAYED
        if not self.chain.exceptions:
            before = self.last if self.last and line.position - self.last.position <= 2 else None
            announcing = [record for record in (before, self.above) if record and self._announces_a_survivor(record)]
            self.chain.logged = not forms.UNCAUGHT.search(line.text) and (line.level is not None or bool(announcing))
            self.chain.retried = any(self.kinds.is_a("retry-announced", record) for record in announcing)
            self.chain.warned = self.chain.logged and any(record.level == "WARNING" for record in (line, *announcing))
        self.chain.frames = []
        self.chain.code.add(line.position)
        self.chain.in_frames, self.chain.in_box = True, "\u2500" in text
        of_notebook = forms.NOTEBOOK_HEADER.match(text)
        self.notebook = of_notebook["name"] if of_notebook else ""
        self.indent = max(len(text) - len(text.lstrip()), 0)

    def _quotes_next(self) -> bool:
        """Whether the exception before quotes the traceback that follows: its text ends with a colon."""
        if self.message is None:
            return False
        last_line = self.message[-1] if self.message else self.chain.exceptions[-1].line
        return last_line.text.rstrip().endswith(":")

    def _frame(self, line: Line, text: str, indent: int) -> None:
        if self.message is not None and not self.chain.in_frames:
            # Frames right after an exception line: a relayed traceback without a header of its own.
            self._finish_message()
            self.chain.link = Link.RELAYED if self.chain.link is Link.FIRST else self.chain.link
        if not self.chain.in_frames:
            self.chain.frames = []
        if not self.chain.begun:
            self.chain.logged = line.level is not None  # the log begins within a record's traceback
        self.chain.in_frames = True
        self.indent = indent
        self.chain.code.add(line.position)
        self.chain.frames.append(text.strip())
        self.last_code = ""

    def _in_notebook(self, line: Line, text: str) -> None:
        """Reads a line of a notebook's traceback, which names its class in its header and again at its end."""
        if re.match(rf"{self.notebook}(?::|\s*$)", text):
            self._final(line, self.notebook)
        elif forms.OF_A_NOTEBOOK.match(text):
            self.chain.code.add(line.position)
            self.chain.frames.append(text.strip())
        else:
            self.close()

    def _among_frames(self, line: Line, text: str, ahead: list[Line]) -> None:
        stripped = text.strip()
        indent = len(text) - len(text.lstrip())
        final = forms.FINAL.match(stripped)
        # A bare word may be code whose indentation was lost; with a module's name before it, after code, it is a class.
        dotted = final is not None and "." in final["name"] and bool(self.last_code)
        named = final is not None and (
            final["rest"].startswith(":") or dotted or forms.CLASS_NAME.search(final["name"]) is not None
        )
        drawn = forms.CARETS.match(text) or forms.REPEATED.search(text) or (self.chain.in_box and forms.BOX.match(text))
        if not stripped or drawn:
            self.chain.code.add(line.position)
        elif forms.WARNED.search(line.text):
            self.close()  # pool.py:224: UserWarning: 12 leaked objects
        elif self.chain.frames and indent > self.indent and not (named and indent <= self.indent):
            self._code(line, stripped)
        elif named and final is not None:
            self._final(line, final["name"])
        elif any(forms.FRAME.match(_body(later)) for later in ahead[:2]) or (self.chain.frames and not self.last_code):
            self._code(line, stripped)
        else:
            self.close()

    def _code(self, line: Line, stripped: str) -> None:
        self.chain.code.add(line.position)
        self.last_code = stripped
        if self.chain.frames:
            self.chain.frames[-1] += "\n" + stripped

    def _final(self, line: Line, name: str) -> None:
        text = unmixed(_body(line))
        name = text.partition(":")[0] or name
        text = text or (_body(line).strip() if forms.GROUP.match(line.message) else "")
        self.chain.add(line, name, self.chain.link, text)
        self.chain.in_frames = self.chain.in_box = False
        self.message = []
        self.chain.link = Link.FIRST
        self.last_code = ""

    def _continue_message(self, message: list[Line], line: Line, text: str) -> None:
        stripped = text.strip()
        fresh_record = line.level is not None or line.clock is not None
        final = None if fresh_record else forms.FINAL.match(stripped)
        if final and forms.CLASS_NAME.search(final["name"]):
            # The quotation after `X raised:`; else the last line of another process, whose frames were mixed in.
            link = Link.RELAYED if self.chain.exceptions[-1].line.text.rstrip().endswith(":") else Link.FIRST
            self.chain.add(line, final["name"], link)
            return
        raised = self.chain.exceptions[-1].line
        # If a logger puts its prefix before each line of a traceback, a line without it is not part of it.
        another = line.level != raised.level if fresh_record else raised.level is not None
        if another or len(message) >= _LONGEST_MESSAGE or line.place in self.steps:
            self._finish_message()
        elif stripped:
            message.append(line)

    def _finish_message(self) -> None:
        if self.message and self._announces_instead(self.message[0], self.chain.exceptions[-1].line):
            self.chain.logged, self.message = True, []
        if self.message:
            self.chain.exceptions[-1] = self.chain.exceptions[-1]._replace(message=tuple(self.message))
        self.message = None

    def _announces_a_survivor(self, line: Line) -> bool:
        """Whether the line before a traceback shows that the process lives on: a record of trouble, or an announcement
        of what is done instead."""
        reported = line.level in forms.LEVELS_OF_TROUBLE and not forms.OF_NATIVE_CODE.search(line.text)
        return reported or _goes_on(line, self.kinds)

    def _announces_instead(self, line: Line, raised: Line) -> bool:
        """Whether the line right below an exception is no part of its message, but announces what is done instead."""
        follows = line.position == raised.position + 1 and not line.message[:1].isspace()
        return follows and _goes_on(line, self.kinds)


def unmixed(text: str) -> str:
    """The exception line of one of two processes that wrote the same into one line at once; empty for other lines."""
    doubled = forms.DOUBLED.match(text.strip())
    return f"{doubled['name']}: {doubled['rest']}" if doubled else ""


def _body(line: Line) -> str:
    """The text after the prefixes, but never less than a whole frame or exception line."""
    for start in line.starts:
        text = line.text[start:]
        if forms.FRAME.match(text) or forms.FINAL.match(text.strip()):
            return forms.GROUP.sub("", text)
    return forms.GROUP.sub("", line.message)


def _goes_on(line: Line, kinds: Kinds) -> bool:
    """Whether a line announces that the process goes on, what it does instead, or another try."""
    return any(kinds.is_a(kind, line) for kind in ("going-on", "done-instead", "retry-announced"))
