"""Takes log lines out of what containers and journals wrap around them.

Each envelope is recognised by the first lines of a stream and turned line by line into the message with its own time
and host before it, so that later stages see what the program wrote. A message that an envelope split is joined again;
each line keeps the number of the file's line it began on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from logdiag.model import number_in
from logdiag.read.forms import Forms, Keys, shipped_forms
from logdiag.read.line_wrapping import joined, width_of
from logdiag.read.records import Record, from_micros, head_of, is_of_logger, read_record, told_of

__all__ = ["Unwrap", "recognise"]

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
Unwrap = Callable[[Iterable[Numbered]], Iterator[Numbered]]
"""Takes (number, line) pairs of the file and gives those of the program's output."""

# 2026-11-01T10:00:00.123456789Z stderr F message
_CRI = re.compile(
    rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:\d\d)) (?:stdout|stderr) ([FP]) (.*)$", re.DOTALL
)


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
    return None if width is None else partial(joined, width=width)


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


def _unwrap_json(lines: Iterable[Numbered], forms: Forms) -> Iterator[Numbered]:
    """Docker's json-file, `journalctl -o json`, and loggers that write one object a line."""
    started, number, head = b"", 0, b""
    for at, line in lines:
        found = _record_in(line, forms.keys)
        if found is None:
            if line.strip():
                yield at, line
            continue
        label, record = found
        text = told_of(record, forms.keys).encode(errors="replace")
        if not started:
            said = head_of(record, forms)
            number, head = at, label + (f"{said} ".encode(errors="replace") if said else b"")
        started += text
        if "log" in record and not text.endswith(b"\n") and len(text) >= 16_000:
            continue  # Docker splits at 16 KiB; the rest is in the next record
        yield from ((number, head + part) for part in started.rstrip(b"\n").split(b"\n"))
        started = b""
    if started:
        yield number, head + started


def _unwrap_cri(lines: Iterable[Numbered]) -> Iterator[Numbered]:
    """The container runtimes' own form; `P` marks a part that the next line goes on with."""
    started, number = b"", 0
    for at, line in lines:
        match = _CRI.match(line)
        if match is None:
            yield at, line
            continue
        if not started:
            number, started = at, match[1] + b" "
        started += match[3]
        if match[2] == b"F":
            yield number, started
            started = b""
    if started:
        yield number, started


def _unwrap_journal_export(lines: Iterable[Numbered]) -> Iterator[Numbered]:
    """`journalctl -o export`: fields one a line, an empty line after each entry; binary values follow their length."""
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
            yield from _journal_entry(number, fields)
            fields = {}
    if fields:
        yield from _journal_entry(number, fields)


def _journal_entry(number: int, fields: dict[bytes, bytes]) -> Iterator[Numbered]:
    if b"MESSAGE" not in fields:
        return
    micros = fields.get(b"__REALTIME_TIMESTAMP", b"")
    counted = number_in(micros)
    stamp = "" if counted is None else from_micros(counted)
    host = fields.get(b"_HOSTNAME", b"").decode(errors="replace")
    said = " ".join(part for part in (f"{host}:" if host else "", stamp) if part)
    for part in fields[b"MESSAGE"].split(b"\n"):
        yield number, (f"{said} ".encode() if said else b"") + part


def _is_torchelastic_error(sample: list[bytes]) -> bool:
    """`error.json`: {"message": {"message": "...", "extraInfo": {"py_callstack": "Traceback ...", "timestamp":
    "..."}}}"""
    return sample[0].lstrip().startswith(b'{"message": {') or b'"py_callstack"' in sample[0]


def _unwrap_torchelastic_error(lines: Iterable[Numbered]) -> Iterator[Numbered]:
    import json

    for at, line in lines:
        try:
            message = json.loads(line)["message"]
            text = message["extraInfo"]["py_callstack"] if isinstance(message, dict) else str(message)
        except (ValueError, KeyError, TypeError, RecursionError):
            yield at, line
            continue
        yield from ((at, part) for part in str(text).encode(errors="replace").split(b"\n"))
