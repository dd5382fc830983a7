"""What the head of a line says: when, how loud, and which rank or node speaks.

Launchers, loggers and containers put their own words before a message, often several in a row (`node-3: [rank5]:
2026-11-01 10:00:00,123 ERROR [trainer.py:33] boom`). `parse_line` walks over them one by one, by the forms of
`rules/forms/`, and remembers each place where the message may begin, so that a rule anchored at the message's start
fits whatever stands before it.
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
from logdiag.read.forms import Form, Forms, Match, folded, shipped_forms

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
# (Worker_DP0_TP2 pid=13415): the speaker's name has the rank
_PARALLEL_RANK = pattern_of(
    r"(?:Worker|TP|worker|rank|Rank|process|Process|EngineCore)[_ -]?(?:DP0_)?(?:TP|DP|PP)?[_-]?(\d{1,5})(?=\b|_)"
)
_JSON_MESSAGE = pattern_of(r'"(?:message|msg)": ?"')
# {"level": "critical", "exception": "Traceback (most recent call last):\n  File ...\nKeyError: 'a'\n"}
_ESCAPED_HEADER = r"Traceback (most recent call last):\n"
_ESCAPED_EXCEPTION = pattern_of(r"\\n((?:[A-Za-z_]\w*\.)*[A-Z]\w*: )")
# ts=2026-11-01T10:00:00Z level=error caller=loader.go:33 msg="shard lost" worker=3 err="the file is gone"
_PAIR = pattern_of(r'(?<![^\s])([A-Za-z_@][\w.@-]{0,40})=("(?:[^"\\]|\\.)*"?|[^\s"]*)')
_PAIRED_TIME = pattern_of(r"(?P<whole>(?P<date>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d))")
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
# A clock begins with the first of these that there is.
_PARTS_OF_TIME = ("date", "us_date", "month", "month_day", "clock", "year", "day", "fraction")
_PARTS_OF_DAY = ("date", "us_date", "month_day", "year", "month", "day")
# Of so many lines, of at most this length, it is remembered where they say what.
_MOST_KNOWN, _LONGEST_KNOWN = 16_384, 500
_known: dict[tuple[bytes, tuple[str | None, ...] | None], _Places] = {}
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
    """Reads the prefixes of a line, colours already removed, into a `Line`. `prefix` is what stands before every line
    of the stream, where something does; `forms` are its own if left out, and those that ship where it has none."""
    forms = forms or (prefix and prefix.forms) or shipped_forms()
    said = _said(text, prefix, forms)
    place = said.starts[-1]
    if text.startswith("{", place):
        _take_record(said, text, place, forms)
    pairs = _pairs_of(text, said.starts) if "=" in text and forms.keys.pair_level.search(text) else {}
    if pairs:
        _take_pairs(said, pairs, forms)
    elif "; " in text:
        fields = [match.end() for match in islice(_FIELD.finditer(text, place), _MOST_FIELDS)]
        said.starts[-1:] = [*fields, place]
    return Line(
        source=source,
        number=number,
        text=text,
        rank=said.rank,
        node=said.node,
        time=said.time,
        clock=said.clock,
        level=said.level,
        speaker="/".join(said.speakers),
        starts=(*said.starts, *_starts_in_record(text, place, said.level)),
        stream=stream,
        position=position,
    )


@dataclass(slots=True)
class _Said:
    """What the prefixes of a line say."""

    starts: list[int]
    rank: int | None
    node: str | None
    level: str | None
    clock: str | None
    time: float | None
    speakers: list[str]


_Span = tuple[int, int]


@dataclass(slots=True)
class _Places:
    """Where in a line its prefixes say what; `of_time` has the parts of a time, `timed` tells whether they are one. Of
    a line that `varies`, other digits in the same places may say something else."""

    starts: list[int] = field(default_factory=lambda: [0])
    rank: _Span | None = None
    of_job: bool = False
    node: _Span | None = None
    level: str | None = None
    clock: _Span | None = None
    of_time: dict[str, _Span] = field(default_factory=dict)
    timed: bool = False
    speakers: list[_Span] = field(default_factory=list)
    varies: bool = False

    def take(self, text: str, form: Form | None, match: Match, relays: str | None, levels: Mapping[str, str]) -> None:
        """Adds what a form found, or without one what the stream's own label or recorder wrote; a level that its
        recorder `relays` tells nothing."""
        if match.re is _RUN_INTO:
            self.rank = self.level = None  # those of the process which spoke before
        self.starts.append(match.end())
        said = match.groupdict() if match.re.groupindex else {}
        # [rank17]:[E ProcessGroupNCCL.cpp:523] [Rank 2]   the first counts over the job, the second within a group
        # [RANK 8] [worker 2]   the second may be one of the first one's own
        rank_of = form.rank_of if form else "job"
        of_another = (self.of_job and rank_of == "group") or (self.rank is not None and rank_of == "worker")
        # A form of the user's own may catch anything.
        if not of_another and number_in(said.get("rank") or "") is not None:
            self.rank, self.of_job = match.span("rank"), rank_of == "job"
        self.node = match.span("node") if said.get("node") else self.node
        level = levels.get((said.get("level") or "").upper(), self.level)
        self.level = None if (form and form.relays) or (relays and relays == level) else level
        if said.get("speaker"):
            self._hear(said["speaker"], match.span("speaker"))
        if said.get("clock") and not self.timed:
            self.of_time = {name: match.span(name) for name in _PARTS_OF_TIME if said.get(name)}
            self.clock = min(self.of_time.values())[0], match.end("clock")
            self.timed = _seconds(said) is not None
            self.varies |= not self.timed and not _DAYS.isdisjoint(self.of_time)

    def _hear(self, speaker: str, span: _Span) -> None:
        self.speakers.append(span)
        if self.rank is None and (numbered := _PARALLEL_RANK.search(speaker)):
            self.rank = span[0] + numbered.start(1), span[0] + numbered.end(1)
            self.varies = True  # another number may be that of a group

    def read(self, text: str) -> _Said:
        """What stands in these places of a line."""
        rank = number_in(text[slice(*self.rank)]) if self.rank else None
        node = text[slice(*self.node)] if self.node else None
        clock = text[slice(*self.clock)] if self.clock else None
        time = _seconds({name: text[start:end] for name, (start, end) in self.of_time.items()}) if self.timed else None
        return _Said(
            [*self.starts], rank, node, self.level, clock, time, [text[start:end] for start, end in self.speakers]
        )


def _said(text: str, prefix: CommonPrefix | None, forms: Forms) -> _Said:
    """What the prefixes of a line say. Of lines that differ in digits only, the first shows where they say it: no
    shipped form asks for a certain digit."""
    if not forms.all_shipped or len(text) > _LONGEST_KNOWN:
        return _places(text, prefix, forms).read(text)
    label = prefix.label.pattern if prefix and prefix.label else None
    key = with_nines(text), (prefix.pattern.pattern, prefix.relays, label) if prefix else None
    known = _known.get(key)
    if known is not None:
        said = known.read(text)
        if (said.time is not None) == known.timed:
            return said
    places = _places(text, prefix, forms)
    if not places.varies:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = places
    return places.read(text)


def _places(text: str, prefix: CommonPrefix | None, forms: Forms) -> _Places:
    places = _Places()
    recorded = prefix.pattern.match(text) if prefix else None
    for form, match in heads_of(text, forms, recorded, prefix.label if prefix else None):
        of_recorder = recorded is not None and match.end() <= recorded.end()
        places.take(text, form, match, prefix.relays if prefix and of_recorder else None, forms.levels)
    return places


def _take_record(said: _Said, text: str, place: int, forms: Forms) -> None:
    """What a record in JSON adds."""
    keys = forms.keys
    if said.level is None and (told := keys.json_level.search(text, place)):
        said.level = forms.levels.get(told[1].upper())
    if said.time is None and (dated := keys.json_time.search(text, place)):
        said.time, said.clock = _seconds(dated.groupdict()), dated["whole"]
    if said.rank is None and (told := keys.json_rank.search(text, place)):
        said.rank = int(told[1])


def _take_pairs(said: _Said, pairs: dict[str, re.Match[str]], forms: Forms) -> None:
    """What `key=value` pairs add."""
    keys = forms.keys.in_pairs
    said.level = said.level or forms.levels.get(_value(pairs, keys["levels"]).upper())
    said.node = said.node or _value(pairs, keys["nodes"]) or None
    told = _value(pairs, keys["ranks"])
    if said.rank is None and told.isdecimal() and len(told) <= _LONGEST_RANK:
        said.rank = int(told)
    if said.time is None and (dated := _PAIRED_TIME.match(_value(pairs, keys["times"]))):
        said.time, said.clock = _seconds(dated.groupdict()), dated["whole"]
    known = [key for key in keys["pair_texts"] if key in pairs]
    # note="no pulse on this side"   (where no known key has the message)
    worded = (key for key, pair in pairs.items() if pair[2].startswith('"') and _BLANK.search(pair[2]))
    for key in known or islice(worded, 1):
        said.starts.append(pairs[key].start(2) + pairs[key][2].startswith('"'))


def _pairs_of(text: str, starts: list[int]) -> dict[str, re.Match[str]]:
    """The `key=value` pairs of a line that begins with one, or goes on with one behind a prefix; the first of equal
    keys."""
    pairs: dict[str, re.Match[str]] = {}
    if any(_PAIR.match(text, start) for start in starts):
        for match in islice(_PAIR.finditer(text), _MOST_PAIRS):
            pairs.setdefault(folded(match[1]), match)
    return pairs


def _value(pairs: dict[str, re.Match[str]], keys: tuple[str, ...]) -> str:
    return next((pairs[key][2].strip('"') for key in keys if key in pairs), "")


def _starts_in_record(text: str, place: int, level: str | None) -> Iterator[int]:
    """Where the message of a logger's record in JSON begins, and the exception of a traceback in it."""
    # Torch's error files have such a field too, with a whole traceback, and no level.
    if level and text.startswith("{", place) and (message := _JSON_MESSAGE.search(text, place)):
        yield message.end()
    if _ESCAPED_HEADER in text and (raised := _ESCAPED_EXCEPTION.search(text, text.index(_ESCAPED_HEADER))):
        yield raised.start(1)


def heads_of(
    text: str, forms: Forms, recorded: re.Match[str] | None = None, label: re.Pattern[str] | None = None
) -> Iterator[tuple[Form | None, Match]]:
    """The forms at the head of a line, one behind the other; without one, where none is known, what the stream's
    recorder wrote, and anywhere its label of a rank, once. Where another process began before this one had ended its
    line, what it ran into and the other's head follow."""
    place = yield from _heads_at(text, 0, forms, recorded, label)
    if not text.startswith('{"', place) and (match := _RUN_INTO.search(text, place)):
        yield None, match
        yield from _heads_at(text, match.end(), forms)


def _heads_at(
    text: str, place: int, forms: Forms, recorded: re.Match[str] | None = None, label: re.Pattern[str] | None = None
) -> Generator[tuple[Form | None, Match], None, int]:
    """The heads from a place on; returns where they end."""
    for _ in range(_MOST_PREFIXES):
        blank = _BLANK.match(text, place) if place else None
        begin = blank.end() if blank else place
        form: Form | None = None
        match: Match | None = label.match(text, begin) if label else None
        if match:
            label = None
        elif found := forms.next(text, begin):
            form, match = found
        elif not text.startswith('{"', place):  # a record in JSON is read as one
            match, recorded = recorded, None
        if match is None or match.end() <= place:
            break
        place = match.end()
        yield form, match
    return place


def _seconds(said: Mapping[str, str | None]) -> float | None:
    """Seconds since the epoch where a date with its year is printed. Without a year as of 1972 for torch's C++, and of
    1976 for syslog: their clocks may be those of different time zones. None for a time of day alone, and for what is no
    time."""
    try:
        return _counted(said)
    except ValueError:
        return None


def _counted(said: Mapping[str, str | None]) -> float | None:
    day = _seconds_to_day(*map(said.get, _PARTS_OF_DAY))
    if day is None:
        return None
    hours, minutes, seconds = (said.get("clock") or "0:0:0").split(":")
    return day + int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(said.get("fraction") or 0)


@lru_cache(maxsize=256)
def _seconds_to_day(
    date: str | None, us_date: str | None, month_day: str | None, in_year: str | None, named: str | None, of: str | None
) -> int | None:
    """The seconds from the epoch to the start of a day. Raises ValueError for what is no day."""
    if date:
        year, month, day = (int(part) for part in date.replace("/", "-").split("-"))
    elif us_date:
        month, day, year = (int(part) for part in us_date.split("/"))
    elif month_day:
        year, month, day = 1972, int(month_day[:-2]), int(month_day[-2:])
    elif in_year or named:
        year, month, day = int(in_year or 1976), _MONTHS.get(named or "", 0), int(of or 0)
    else:
        return None
    return (datetime.date(year, month, day).toordinal() - _EPOCH) * 86_400 if year >= 1970 else None
