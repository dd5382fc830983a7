"""Takes log lines out of what containers and journals wrap around them.

Each envelope is recognised by the first lines of a stream and turned line by line into the message with its own time
and host before it, so that later stages see what the program wrote. A message that an envelope split is joined again;
each line keeps the number of the file's line it began on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import cast

from logdiag.model import number_in
from logdiag.read.forms import Forms, Keys, shipped_forms
from logdiag.read.line_wrapping import joined, width_of
from logdiag.read.record_keys import FEWEST_RECORDS, learnt
from logdiag.read.records import Record, from_micros, head_of, is_of_logger, object_in, told_of, with_message

# Of the first lines so many are records, or those of a logger, which say when or how loud they are.
_MOST_SAMPLED, _MOSTLY, _OFTEN = 200, 0.6, 0.25
_FIRST = 20
_LONGEST_LABEL = 120
Numbered = tuple[int, bytes]
Unwrapped = tuple[int, bytes, bytes]
Unwrap = Callable[[Iterable[Numbered], Container[bytes]], Iterator[Unwrapped]]
"""Takes (number, line) pairs of the file and gives (number, line, b"") of the program's output. Where the line without
its digits is a settled one, it may be given so, with what it stands in: to be opened when it is wanted after all."""

_DIGITS = b"0123456789"
_NO_DIGITS = {ord(digit): None for digit in "0123456789"}
# In this order, so that a message that was binary may go on to the end.
_TOLD_OF_AN_ENTRY = (b"__REALTIME_TIMESTAMP", b"_HOSTNAME", b"MESSAGE")
_CURSOR = b'"__CURSOR"'
_MOST_KNOWN = 20_000
_LONGEST_KNOWN = 4096

# 2026-11-01T10:00:00.123456789Z stderr F message
_CRI = re.compile(
    rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:\d\d)) (?:stdout|stderr) ([FP]) (.*)$", re.DOTALL
)


def opened(sealed: bytes, unwrap: Unwrap) -> bytes:
    """The line that stands in what was given beside it."""
    return next(unwrap(((0, line) for line in sealed.split(b"\n")), ()))[1]


class _Seals:
    """What each record became, by the record without its digits: for one that differs in digits only becomes the same
    but for digits. A number that says how bad something is becomes a word: where a record has one, it is looked at."""

    def __init__(self, settled: Container[bytes], levels: re.Pattern[bytes] | None = None) -> None:
        self._settled, self._levels = settled, levels
        self._known: dict[bytes, bytes] = {}

    def settled(self, record: bytes) -> bytes | None:
        """The settled line that a record stands for."""
        key = self._key(record)
        text = self._known.get(key)
        if text == b"":
            text = self._known.get(self._with_levels(key, record))
        return text if text is not None and text in self._settled else None

    def learn(self, record: bytes, text: bytes) -> None:
        """Remembers what a record became."""
        if len(self._known) >= _MOST_KNOWN or len(record) > _LONGEST_KNOWN:
            return
        key = self._key(record)
        if self._levels and self._levels.search(record):
            self._known[key] = b""
            key = self._with_levels(key, record)
        self._known[key] = text.translate(None, _DIGITS)

    def _key(self, record: bytes) -> bytes:
        # Where an entry of a journal stands is told by nothing that is read of it.
        at = record.find(_CURSOR)
        end = record.find(b'",', at) if at >= 0 else -1
        return (record[:at] + record[end:] if end >= 0 else record).translate(None, _DIGITS)

    def _with_levels(self, key: bytes, record: bytes) -> bytes:
        return b" ".join((key, *(self._levels.findall(record) if self._levels else ())))


def recognise(head: list[bytes], forms: Forms | None = None) -> Unwrap | None:
    """The envelope that the first lines of a stream show, or None for plain text. `forms` say what the keys of records
    mean; the shipped ones if left out."""
    forms = forms or shipped_forms()
    sample = [line for line in head if line.strip()][:_FIRST]
    if not sample:
        return None
    if all(_CRI.match(line) for line in sample):
        return _unwrap_cri
    if sample[0].startswith(b"__CURSOR="):
        return _unwrap_journal_export
    if _is_torchelastic_error(sample):
        return _unwrap_torchelastic_error
    if told := _of_records(head, forms):
        return partial(_unwrap_json, forms=told)
    width = width_of(head)
    return None if width is None else partial(_unwrap_wrapped, width=width)


def _of_records(head: Sequence[bytes], forms: Forms) -> Forms | None:
    """The forms of the records that most of the first lines are, a launcher's own words among them."""
    lines = [line for line in head if line.strip()][:_MOST_SAMPLED]
    objects = [_object_in(line) for line in lines]
    forms = learnt([found[1] for found in objects if found], forms)
    records = [_told_in(found, forms.keys) if found else None for found in objects]
    told = [record for _, record in filter(None, records)]
    of_loggers = sum(is_of_logger(record, forms.keys) for record in told)
    often = of_loggers >= max(FEWEST_RECORDS, _OFTEN * len(lines))
    mostly = len(told) >= max(FEWEST_RECORDS, _MOSTLY * len(lines))
    return forms if often or mostly or all(records[:_FIRST]) else None


def _object_in(line: bytes) -> tuple[bytes, Record] | None:
    """A line's object in JSON, and what a launcher put before it."""
    start = line.find(b"{", 0, _LONGEST_LABEL)
    if start < 0 or (start and not line.rstrip().endswith(b"}")):
        return None
    found = object_in(line[start:])
    return None if found is None else (line[:start] if line[:start].strip() else b"", found)


def _told_in(found: tuple[bytes, Record], keys: Keys) -> tuple[bytes, Record] | None:
    """An object as a record, where it is one."""
    label, told = found
    record = with_message(told, keys)
    return None if record is None or (label and not is_of_logger(record, keys)) else (label, record)


def _record_in(line: bytes, keys: Keys) -> tuple[bytes, Record] | None:
    """A line's record, and what a launcher put before it."""
    found = _object_in(line)
    return found and _told_in(found, keys)


def _unwrap_wrapped(lines: Iterable[Numbered], _settled: Container[bytes], width: int) -> Iterator[Unwrapped]:
    yield from ((number, line, b"") for number, line in joined(lines, width))


def _unwrap_json(lines: Iterable[Numbered], settled: Container[bytes], forms: Forms) -> Iterator[Unwrapped]:
    """Docker's json-file, `journalctl -o json`, and loggers that write one object a line."""
    seals = _Seals(settled, _numbered_levels(forms.keys))
    started, number, head = b"", 0, b""
    for at, line in lines:
        if not started and (text := seals.settled(line)) is not None:
            yield at, text, line
            continue
        found = _record_in(line, forms.keys)
        if found is None:
            if line.strip():
                yield at, line, b""
            continue
        label, record = found
        text = told_of(record, forms.keys).encode(errors="replace")
        if not started:
            said = head_of(record, forms)
            number, head = at, label + (f"{said} ".encode(errors="replace") if said else b"")
            if settled and b"\n" not in text.rstrip(b"\n") and _is_told_alike(line, record, text, forms.keys):
                seals.learn(line, head + text.rstrip(b"\n"))
        started += text
        if "log" in record and not text.endswith(b"\n") and len(text) >= 16_000:
            continue  # Docker splits at 16 KiB; the rest is in the next record
        yield from ((number, head + part, b"") for part in started.rstrip(b"\n").split(b"\n"))
        started = b""
    if started:
        yield number, head + started, b""


@lru_cache(maxsize=8)
def _numbered_levels(keys: Keys) -> re.Pattern[bytes]:
    """`"level": 50`   `"PRIORITY":"3"`"""
    names = "|".join(map(re.escape, (*keys.levels, "PRIORITY", "levelno")))
    return re.compile(rf'"(?:{names})" *: *"?(\d+)'.encode())


def _is_told_alike(line: bytes, record: Record, text: bytes, keys: Keys) -> bool:
    """Whether a record is told alike but for its digits whatever these are: what it leaves out it always does."""
    if b"\\u" in line:
        return False
    bare = told_of(cast(Record, _without_digits(record)), keys).encode(errors="replace")
    return bare.translate(None, _DIGITS) == text.translate(None, _DIGITS)


def _without_digits(value: object) -> object:
    if isinstance(value, str):
        return value.translate(_NO_DIGITS)
    if isinstance(value, dict):
        return {key: _without_digits(item) for key, item in value.items()}
    return [_without_digits(item) for item in value] if isinstance(value, list) else value


def _unwrap_cri(lines: Iterable[Numbered], settled: Container[bytes]) -> Iterator[Unwrapped]:
    """The container runtimes' own form; `P` marks a part that the next line goes on with."""
    seals = _Seals(settled)
    started, number = b"", 0
    for at, line in lines:
        if not started and (text := seals.settled(line)) is not None:
            yield at, text, line
            continue
        match = _CRI.match(line)
        if match is None:
            yield at, line, b""
            continue
        whole = not started and match[2] == b"F"
        if not started:
            number, started = at, match[1] + b" "
        started += match[3]
        if match[2] == b"F":
            if whole and settled:
                seals.learn(line, started)
            yield number, started, b""
            started = b""
    if started:
        yield number, started, b""


def _unwrap_journal_export(lines: Iterable[Numbered], settled: Container[bytes]) -> Iterator[Unwrapped]:
    """`journalctl -o export`: fields one a line, an empty line after each entry; binary values follow their length."""
    seals = _Seals(settled)
    fields: dict[bytes, bytes] = {}
    number, binary = 0, b""
    for at, line in lines:
        if binary:
            fields[binary] = line[8:] if len(line) > 8 else line
            binary = b""
        elif line:
            name, equals, value = line.partition(b"=")
            number = at if name == b"MESSAGE" else number
            if equals:
                fields[name] = value
            else:
                binary = name
        elif fields:
            yield from _journal_entry(number, fields, seals)
            fields = {}
    if fields:
        yield from _journal_entry(number, fields, seals)


def _journal_entry(number: int, fields: dict[bytes, bytes], seals: _Seals) -> Iterator[Unwrapped]:
    if b"MESSAGE" not in fields:
        return
    entry = b"\n".join([name + b"=" + fields[name] for name in _TOLD_OF_AN_ENTRY if name in fields])
    if (text := seals.settled(entry)) is not None:
        yield number, text, entry
        return
    micros = fields.get(b"__REALTIME_TIMESTAMP", b"")
    counted = number_in(micros)
    stamp = "" if counted is None else from_micros(counted)
    host = fields.get(b"_HOSTNAME", b"").decode(errors="replace")
    said = " ".join(part for part in (f"{host}:" if host else "", stamp) if part)
    parts = [(f"{said} ".encode() if said else b"") + part for part in fields[b"MESSAGE"].split(b"\n")]
    if len(parts) == 1:
        seals.learn(entry, parts[0])
    yield from ((number, part, b"") for part in parts)


def _is_torchelastic_error(sample: list[bytes]) -> bool:
    """`error.json`: {"message": {"message": "...", "extraInfo": {"py_callstack": "Traceback ...", "timestamp":
    "..."}}}"""
    return sample[0].lstrip().startswith(b'{"message": {') or b'"py_callstack"' in sample[0]


def _unwrap_torchelastic_error(lines: Iterable[Numbered], _settled: Container[bytes]) -> Iterator[Unwrapped]:
    import json

    for at, line in lines:
        try:
            message = json.loads(line)["message"]
            text = message["extraInfo"]["py_callstack"] if isinstance(message, dict) else str(message)
        except (ValueError, KeyError, TypeError, RecursionError):
            yield at, line, b""
            continue
        yield from ((at, part, b"") for part in str(text).encode(errors="replace").split(b"\n"))
