"""Reads the head of a line: its time, its level, and the rank or node that printed it.

Launchers, loggers and containers put their own words before a message, often several in a row (`node-3: [rank5]:
2026-11-01 10:00:00,123 ERROR [trainer.py:33] boom`). `parse_line` walks over them one by one, by the forms of
`rules/forms/`, and remembers each offset at which the message may begin. So a rule that is anchored at the message's
start matches whatever stands before it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from logdiag.model import CommonPrefix, Line, number_in, with_nines
from logdiag.patterns import pattern_of
from logdiag.read.forms import Form, Forms, Keys, Match, folded, shipped_forms

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
# (Worker_DP1_TP2_EP10 pid=13415): the speaker's name holds the rank; experts are counted over groups of tensors
_GROUPED_RANK = pattern_of(r"(?:TP\d{1,5}_(?:[DP]CP\d{1,5}_){0,2}EP|TP[_-]?)(\d{1,5})(?=\b|_)")
_PARALLEL_RANK = pattern_of(
    r"(?:Worker|worker|rank|Rank|process|Process|EngineCore(?:Actor)?)[_ -]?(?:TP|DP|PP)?[_-]?(\d{1,5})(?=\b|_)"
)
# pretrain-workers-0-3-x7k2q/trainer: the index of a pod in the only job of a JobSet, before five signs by chance
_POD_INDEX = pattern_of(r"-(?P<job>\d{1,4})-(?P<pod>\d{1,4})-[b-df-hj-np-tv-xz\d]{5}/")
_JSON_MESSAGE = pattern_of(r'"(?:message|msg)": ?"')
# {"level": "critical", "exception": "Traceback (most recent call last):\n  File ...\nKeyError: 'a'\n"}
_ESCAPED_HEADER = r"Traceback (most recent call last):\n"
_ESCAPED_EXCEPTION = pattern_of(r"\\n((?:[A-Za-z_]\w*\.)*[A-Z]\w*: )")
# ts=2026-11-01T10:00:00Z level=error caller=loader.go:33 msg="shard lost" worker=3 err="the file is gone"
_PAIR = pattern_of(r'(?<![^\s])([A-Za-z_@][\w.@-]{0,40})=("(?:[^"\\]|\\.)*"?|[^\s"]*)')
_PAIRED_TIME = pattern_of(r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)")
_MOST_PAIRS = 40
_LONGEST_RANK = 6  # digits
# cannot save; cause: OSError: [Errno 28] No space left on device (as records in JSON are read)
_FIELD = pattern_of(r"; [A-Za-z_][\w.@-]{0,30}: ")
_MOST_FIELDS = 4
_BLANK = pattern_of(r"[ \t]+")
# step 63/120 loss 0.1239Nov 23 19:51:13 node-3 kernel: NVRM: boom
# {'loss': 2.1, 'epoch': 0.3}[rank1]: KeyError: 'a'      step 63/120 loss 0.12KeyError: 'a'
_RUN_INTO = pattern_of(
    r"[\w)\]}%.](?=\[(?:rank|default)\d{1,6}\]:|\[(?:\d{1,6},)?\d{1,6}\](?:\[\w{1,20}\])?<std|srun: error: "
    # The launcher's table:   exitcode  : -6 (pid: 812)
    r"|  (?:host|rank|exitcode|error_file|traceback) {1,10}: "
    rf"|(?:{'|'.join(_MONTH_NAMES)}) [ \d]\d \d\d:\d\d:\d\d )"
    # What may be a part of a word only behind a number or a bracket: S3UploadError is one name.
    r"|(?:(?<![\w.])\d[\d.]*(?:[eE][-+]?\d+)?|[)\]}%])(?=(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*(?:Error|Exception)\b"
    r"|(?:[a-z_]\w*\.)+[A-Z]\w*: |[EWF]\d{4} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)"
)
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_DAYS = frozenset({"date", "us_date", "month", "month_day"})
# A clock's text begins with the first of these that the line has.
_PARTS_OF_TIME = ("date", "us_date", "month", "month_day", "clock", "year", "day", "fraction")
# In the order in which `_seconds_to_day` takes them.
_PARTS_OF_DAY = ("date", "us_date", "month_day", "year", "month", "day")
# For so many lines, of at most this length, the spans of what they say are remembered.
_MOST_REMEMBERED, _LONGEST_REMEMBERED = 16_384, 500
_remembered_spans: dict[tuple[bytes, Keys, tuple[str | None, ...] | None], _Spans] = {}
_MOST_PREFIXES = 10


def parse_line(
    text: str,
    source: str = "",
    number: int = 0,
    *,
    stream: int = 0,
    position: int = 0,
    prefix: CommonPrefix | None = None,
    forms: Forms | None = None,
) -> Line:
    """Reads the prefixes of a line into a `Line`; colours must be removed already. `prefix` is what stands before every
    line of the stream, None for nothing. Without `forms` those of the prefix are used, or else the shipped ones."""
    forms = forms or (prefix and prefix.forms) or shipped_forms()
    if not forms.all_shipped or len(text) > _LONGEST_REMEMBERED:
        return _spans_of(text, prefix, forms).read(text, source, number, stream, position)
    label = prefix.label.pattern if prefix and prefix.label else None
    key = with_nines(text), forms.keys, (prefix.pattern.pattern, prefix.relays, label) if prefix else None
    if remembered := _remembered_spans.get(key):
        line = remembered.read(text, source, number, stream, position)
        if (line.time is not None) == remembered.is_time:
            return line
    spans = _spans_of(text, prefix, forms)
    if not spans.varies:
        if len(_remembered_spans) >= _MOST_REMEMBERED:
            _remembered_spans.clear()
        _remembered_spans[key] = spans
    return spans.read(text, source, number, stream, position)


_Span = tuple[int, int]


@dataclass(slots=True)
class _Spans:
    """Where in a line (from, to) it says what of itself; None for what it does not say. `time_parts` are the spans of a
    time's fields, and `is_time` is true if together they are a valid time.

    Lines that differ in digits only say it in the same spans, as no shipped form and no key asks for a certain digit;
    so the spans of the first of them are remembered for the others. If it `varies`, other digits in the same spans may
    mean something else."""

    starts: list[int] = field(default_factory=lambda: [0])
    rank: _Span | None = None
    is_job_rank: bool = False
    node: _Span | None = None
    level: str | None = None
    clock: _Span | None = None
    time_parts: dict[str, _Span] = field(default_factory=dict)
    is_time: bool = False
    speakers: list[_Span] = field(default_factory=list)
    varies: bool = False

    def take(self, text: str, form: Form | None, match: Match, relays: str | None, levels: Mapping[str, str]) -> None:
        """Adds what `form` matched; without a form, what the stream's own label or recorder wrote. A level that the
        recorder `relays` is ignored: it stands before every line, whatever the line says."""
        if match.re is _RUN_INTO:
            self.rank = self.level = None  # they were those of the process whose line was cut off
        self.starts.append(match.end())
        groups = match.groupdict() if match.re.groupindex else {}
        # [rank17]:[E ProcessGroupNCCL.cpp:523] [Rank 2]   the first counts over the job, the second within a group
        # [RANK 8] [worker 2]   the second may be a worker of the first
        rank_of = form.rank_of if form else "job"
        of_another_kind = (self.is_job_rank and rank_of == "group") or (self.rank is not None and rank_of == "worker")
        # The group of a user's own form may match what is no number.
        if not of_another_kind and number_in(groups.get("rank") or "") is not None:
            self.rank, self.is_job_rank = match.span("rank"), rank_of == "job"
        self.node = match.span("node") if groups.get("node") else self.node
        level = levels.get((groups.get("level") or "").upper(), self.level)
        self.level = None if (form and form.relays) or (relays and relays == level) else level
        if groups.get("speaker"):
            self._take_speaker(groups["speaker"], match.span("speaker"))
        if groups.get("clock") and not self.is_time:
            self.take_time(match)

    def take_time(self, match: Match) -> None:
        """Adds the time whose fields a match has as its groups."""
        groups = match.groupdict()
        self.time_parts = {name: match.span(name) for name in _PARTS_OF_TIME if groups.get(name)}
        self.clock = min(self.time_parts.values())[0], match.end("clock")
        self.is_time = _seconds(groups) is not None
        self.varies |= not self.is_time and not _DAYS.isdisjoint(self.time_parts)

    def _take_speaker(self, speaker: str, span: _Span) -> None:
        """Adds the name of a speaker, and the rank in it where no rank is known yet."""
        self.speakers.append(span)
        if self.rank is not None:
            return
        if match := _GROUPED_RANK.search(speaker) or _PARALLEL_RANK.search(speaker):
            self.rank = span[0] + match.start(1), span[0] + match.end(1)
            self.varies = True  # another number may be a rank within a group
        elif match := _POD_INDEX.search(speaker):
            self.varies = True
            if not int(match["job"]):
                self.rank = span[0] + match.start("pod"), span[0] + match.end("pod")

    def read(self, text: str, source: str, number: int, stream: int, position: int) -> Line:
        """The line with the values that stand in these spans."""
        parts = {name: text[start:end] for name, (start, end) in self.time_parts.items()}
        return Line(
            source=source,
            number=number,
            text=text,
            rank=number_in(text[slice(*self.rank)]) if self.rank else None,
            node=text[slice(*self.node)] if self.node else None,
            time=_seconds(parts) if self.is_time else None,
            clock=text[slice(*self.clock)] if self.clock else None,
            level=self.level,
            speaker="/".join(text[start:end] for start, end in self.speakers),
            starts=tuple(self.starts),
            stream=stream,
            position=position,
        )


def _spans_of(text: str, prefix: CommonPrefix | None, forms: Forms) -> _Spans:
    spans = _Spans()
    recorded = prefix.pattern.match(text) if prefix else None
    for form, match in heads_of(text, forms, recorded, prefix.label if prefix else None):
        of_recorder = recorded is not None and match.end() <= recorded.end()
        spans.take(text, form, match, prefix.relays if prefix and of_recorder else None, forms.levels)
    start = spans.starts[-1]
    if text.startswith("{", start):
        _take_record(spans, text, start, forms)
    pairs = _pairs_of(text, spans.starts) if "=" in text and forms.keys.pair_level.search(text) else {}
    if pairs:
        _take_pairs(spans, text, pairs, forms)
    elif "; " in text:
        fields = [match.end() for match in islice(_FIELD.finditer(text, start), _MOST_FIELDS)]
        spans.starts[-1:] = [*fields, start]
    spans.starts += _starts_in_record(text, start, spans.level)
    return spans


def _take_record(spans: _Spans, text: str, start: int, forms: Forms) -> None:
    """Adds what a record in JSON says that begins at `start`."""
    keys = forms.keys
    if spans.level is None and (level := keys.in_json["levels"].search(text, start)):
        spans.level = forms.levels.get(level[1].upper())
    if not spans.is_time and (time := keys.in_json["times"].search(text, start)):
        spans.take_time(time)
    if spans.rank is None and (rank := keys.in_json["ranks"].search(text, start)):
        spans.rank = rank.span(1)


def _take_pairs(spans: _Spans, text: str, pairs: dict[str, _Span], forms: Forms) -> None:
    """Adds what `key=value` pairs say: the spans of their values by their folded keys."""

    def first(field: str) -> _Span:
        return next((pairs[key] for key in forms.keys.in_pairs[field] if key in pairs), (0, 0))

    level, node, rank, time = map(first, ("levels", "nodes", "ranks", "times"))
    spans.level = spans.level or forms.levels.get(text[slice(*level)].upper())
    if spans.node is None and node[0] < node[1]:
        spans.node = node
    if spans.rank is None and text[slice(*rank)].isdecimal() and rank[1] - rank[0] <= _LONGEST_RANK:
        spans.rank = rank
    if not spans.is_time and (moment := _PAIRED_TIME.match(text, *time)):
        spans.take_time(moment)
    message_keys = [key for key in forms.keys.in_pairs["pair_texts"] if key in pairs]
    # note="no pulse on this side"   (where no known key has the message)
    with_words = (
        key for key, (start, end) in pairs.items() if text[start - 1] == '"' and _BLANK.search(text, start, end)
    )
    spans.starts += [pairs[key][0] for key in message_keys or islice(with_words, 1)]


def _pairs_of(text: str, starts: list[int]) -> dict[str, _Span]:
    """The values of the `key=value` pairs of a line, without quotes, by their folded keys, of equal keys the first;
    empty unless a pair stands at one of these offsets, where the line or its message begins."""
    pairs: dict[str, _Span] = {}
    if any(_PAIR.match(text, start) for start in starts):
        for match in islice(_PAIR.finditer(text), _MOST_PAIRS):
            start = match.start(2) + match[2].startswith('"')
            pairs.setdefault(folded(match[1]), (start, start + len(match[2].strip('"'))))
    return pairs


def _starts_in_record(text: str, start: int, level: str | None) -> Iterator[int]:
    """The offsets of the message in a logger's JSON record that begins at `start`, and of a traceback's exception."""
    # Torch's error files have such a field too, with a whole traceback, and no level.
    if level and text.startswith("{", start) and (message := _JSON_MESSAGE.search(text, start)):
        yield message.end()
    if _ESCAPED_HEADER in text and (raised := _ESCAPED_EXCEPTION.search(text, text.index(_ESCAPED_HEADER))):
        yield raised.start(1)


def heads_of(
    text: str, forms: Forms, recorded: re.Match[str] | None = None, label: re.Pattern[str] | None = None
) -> Iterator[tuple[Form | None, Match]]:
    """The forms at the head of a line with their matches, one behind the other.

    The form is None where the match is what the stream's recorder wrote (tried where no form fits), the stream's label
    of a rank (tried first, taken once), or the end of a line into which another process printed its own, whose head
    follows."""
    offset = yield from _heads_at(text, 0, forms, recorded, label)
    if not text.startswith('{"', offset) and (match := _RUN_INTO.search(text, offset)):
        yield None, match
        yield from _heads_at(text, match.end(), forms)


def _heads_at(
    text: str, offset: int, forms: Forms, recorded: re.Match[str] | None = None, label: re.Pattern[str] | None = None
) -> Generator[tuple[Form | None, Match], None, int]:
    """The forms from an offset on; returns the offset at which they end."""
    for _ in range(_MOST_PREFIXES):
        blank = _BLANK.match(text, offset) if offset else None
        begin = blank.end() if blank else offset
        form: Form | None = None
        match: Match | None = label.match(text, begin) if label else None
        if match:
            label = None
        elif fitting := next(forms.fitting(text, begin), None):
            form, match = fitting
        elif not text.startswith('{"', offset):  # a record in JSON is read as one
            match, recorded = recorded, None
        if match is None or match.end() <= offset:
            break
        offset = match.end()
        yield form, match
    return offset


def _seconds(parts: Mapping[str, str | None]) -> float | None:
    """Seconds since the epoch of a time whose parts are named as the groups of forms are. A date without its year gets
    1972 if torch's C++ printed it, and 1976 if syslog did: their clocks may be of different time zones. None for a time
    of day alone, and for what is no time."""
    try:
        day = _seconds_to_day(*map(parts.get, _PARTS_OF_DAY))
        hours, minutes, seconds = (parts.get("clock") or "0:0:0").split(":")
        moment = int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(parts.get("fraction") or 0)
    except ValueError:
        return None
    return None if day is None else day + moment


@lru_cache(maxsize=256)
def _seconds_to_day(*parts: str | None) -> int | None:
    """Seconds from the epoch to a day's start; None without a day, and before 1970. Raises ValueError for no day."""
    date, us_date, month_day, printed_year, month_name, day_of_month = parts
    if date:
        year, month, day = (int(part) for part in date.replace("/", "-").split("-"))
    elif us_date:
        month, day, year = (int(part) for part in us_date.split("/"))
    elif month_day:
        year, month, day = 1972, int(month_day[:-2]), int(month_day[-2:])
    elif printed_year or month_name:
        year, month, day = int(printed_year or 1976), _MONTHS.get(month_name or "", 0), int(day_of_month or 0)
    else:
        return None
    return (datetime.date(year, month, day).toordinal() - _EPOCH) * 86_400 if year >= 1970 else None
