"""Takes log lines out of what containers and journals wrap around them.

Each envelope is recognised by the first lines of a stream and turned line by line into the message with its own time
and host before it, so that later stages see what the program wrote. A message that an envelope split is joined again;
each line keeps the number of the file's line it began on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import cast

from logdiag.model import number_in
from logdiag.read.forms import Forms, Keys, shipped_forms
from logdiag.read.line_wrapping import joined, width_of
from logdiag.read.records import Record, from_micros, head_of, is_of_logger, read_record, told_of

__all__ = ["Unwrap", "opened", "recognise"]

_MOST_SAMPLED, _FEWEST_RECORDS, _MOSTLY = 200, 4, 0.6
_LONGEST_LABEL = 120
# How often a key must be there to number processes, how many of the numbers, how often the next one is lower.
_SHARE_RANKED, _SHARE_OF_RANKS, _SHARE_FALLING = 0.2, 0.75, 0.1
_MOST_RANKS = 4096
# These count, or say how it went.
_NO_RANK_KEYS_WORDS = (
    "step epoch iter iteration batch global_step shard chunk part layer stage phase attempt attempts try tries "
    "retry retries round version v level status code rc exit_code errno line port gpu device local_rank cuda "
    "world_size size count total missed queue depth priority severity levelno lineno thread seq id n"
)
_NO_RANK_KEYS = frozenset(_NO_RANK_KEYS_WORDS.split())

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
    sample = [line for line in head if line.strip()][:20]
    if not sample:
        return None
    if all(_CRI.match(line) for line in sample):
        return _unwrap_cri
    if sample[0].startswith(b"__CURSOR="):
        return _unwrap_journal_export
    if _is_torchelastic_error(sample):
        return _unwrap_torchelastic_error
    if all(_record_in(line, forms.keys) for line in sample) or _mostly_records(head, forms.keys):
        return partial(_unwrap_json, forms=_with_rank_key(head, forms))
    width = width_of(head)
    return None if width is None else partial(_unwrap_wrapped, width=width)


def _mostly_records(head: list[bytes], keys: Keys) -> bool:
    """Whether a logger's records are most of the first lines, a launcher's own words among them."""
    lines = [line for line in head if line.strip()][:_MOST_SAMPLED]
    return sum(_record_in(line, keys) is not None for line in lines) >= max(_FEWEST_RECORDS, _MOSTLY * len(lines))


def _with_rank_key(head: Sequence[bytes], forms: Forms) -> Forms:
    """The forms, with the key by which these records number their processes, where no known key does: its numbers begin
    at 0 or 1, leave few out, and go to and fro, which those of steps do not."""
    found = [told[1] for line in head[:_MOST_SAMPLED] if (told := _record_in(line, forms.keys))]
    if any(key in each for each in found for key in forms.keys.ranks):
        return forms
    numbers: dict[str, list[int]] = {}
    for each in found:
        for key, value in each.items():
            if type(value) is int and key not in _NO_RANK_KEYS:
                numbers.setdefault(key, []).append(value)
    ranks = [key for key, told in numbers.items() if _numbers_processes(told, len(found))]
    if not ranks:
        return forms
    key = max(ranks, key=lambda name: len(numbers[name]))
    return Forms(forms.forms, forms.levels, replace(forms.keys, ranks=(*forms.keys.ranks, key)))


def _numbers_processes(told: Sequence[int], records: int) -> bool:
    distinct = set(told)
    if len(told) < _SHARE_RANKED * records or len(told) < 2 * len(distinct) or not 1 < len(distinct) <= _MOST_RANKS:
        return False
    dense = min(distinct) in (0, 1) and len(distinct) >= _SHARE_OF_RANKS * (max(distinct) - min(distinct) + 1)
    falling = sum(later < earlier for earlier, later in pairwise(told))
    return dense and falling >= max(2, _SHARE_FALLING * len(told))


def _record_in(line: bytes, keys: Keys) -> tuple[bytes, Record] | None:
    """A line's record, and what a launcher put before it."""
    if line.startswith(b"{"):
        record = read_record(line, keys)
        return None if record is None else (b"", record)
    start = line.find(b"{", 0, _LONGEST_LABEL)
    if start < 0 or not line.rstrip().endswith(b"}"):
        return None
    record = read_record(line[start:], keys)
    label = line[:start] if line[:start].strip() else b""
    return None if record is None or (label and not is_of_logger(record, keys)) else (label, record)


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
    return re.compile(rf'"[@_]?(?:{keys.one_of("levels")}|PRIORITY|levelno)" *: *"?(\d+)'.encode())


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
