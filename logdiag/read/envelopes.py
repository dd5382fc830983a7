"""Takes log lines out of what containers and journals wrap around them.

Each envelope is recognised by the first lines of a stream and turned line by line into the message with its own time
and host before it, so that later stages see what the program wrote. A message that an envelope split is joined again;
each line keeps the number of the file's line it began on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, cast

from logdiag.model import number_in
from logdiag.patterns import pattern_of
from logdiag.read.forms import Forms, Keys, shipped_forms
from logdiag.read.line_wrapping import joined, width_of
from logdiag.read.record_keys import FEWEST_RECORDS, learnt
from logdiag.read.records import Record, from_micros, head_of, is_of_logger, text_of, with_message

# So large a share of the first lines must be records, or records of a logger, which have a time or a level.
_MOST_SAMPLED, _MOSTLY, _OFTEN = 200, 0.6, 0.25
_FIRST = 20
_LONGEST_LABEL = 120
_DIGITS = b"0123456789"
_NO_DIGITS = {ord(digit): None for digit in "0123456789"}
# Docker splits what is longer.
_LONGEST_OF_DOCKER = 16_000

Numbered = tuple[int, bytes]


class Envelope(NamedTuple):
    """What stands around a program's lines. `unwrap` takes some whole records, each with the number of its line in the
    file, and gives the lines in them with their numbers. A record is one line, or with `entries` the lines between two
    empty ones. `goes_on` is true for a record whose message the next one may continue.

    `alike` is asked of a record that became a single line. It is true if every record that differs from it in digits
    only becomes the same line but for its digits, as long as what `levels` finds stays the same. It is None where no
    record is like that."""

    unwrap: Callable[[Iterable[Numbered]], Iterator[Numbered]]
    goes_on: Callable[[bytes], bool]
    alike: Callable[[bytes], bool] | None = None
    levels: re.Pattern[bytes] | None = None
    entries: bool = False

    @property
    def between(self) -> bytes:
        """What stands between two records."""
        return b"\n\n" if self.entries else b"\n"

    def opened(self, record: bytes) -> bytes:
        """The line in a record that holds one."""
        return next(self.unwrap([(0, record)]))[1]


def end_of_whole(data: bytes, envelope: Envelope | None) -> int:
    """The offset at which the last whole message in a piece of a log ends, 0 where none does. Without an envelope each
    line is a message."""
    between = envelope.between if envelope else b"\n"
    end = data.rfind(between)
    while envelope and end >= 0:
        before = data.rfind(between, 0, end)
        start = before + len(between) if before >= 0 else 0
        if not envelope.goes_on(data[start:end]):
            break
        end = before
    return end + len(between) if end >= 0 else 0


# 2026-11-01T10:00:00.123456789Z stderr F message
_CRI = pattern_of(
    rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:\d\d)) (?:stdout|stderr) ([FP]) (.*)$", re.DOTALL
)


def recognise(head: list[bytes], forms: Forms | None = None) -> Envelope | None:
    """The envelope by the first lines of a stream, or None for plain text. `forms` say what the keys of records mean;
    the shipped ones if left out."""
    forms = forms or shipped_forms()
    sample = [line for line in head if line.strip()][:_FIRST]
    if not sample:
        return None
    if all(_CRI.match(line) for line in sample):
        return Envelope(_unwrap_cri, partial(_is_flagged, flag=b"P"), partial(_is_flagged, flag=b"F"))
    if sample[0].startswith(b"__CURSOR="):
        return Envelope(_unwrap_journal_export, lambda _record: False, lambda _record: True, entries=True)
    # {"message": {"message": "...", "extraInfo": {"py_callstack": "Traceback ...", "timestamp": "..."}}}
    if sample[0].lstrip().startswith(b'{"message": {') or b'"py_callstack"' in sample[0]:
        return Envelope(_unwrap_torchelastic_error, lambda _record: False)
    if learnt_forms := _forms_of_records(head, forms):
        alike, levels = partial(_becomes_alike, forms=learnt_forms), _numbered_levels(learnt_forms.keys)
        unwrap = partial(_unwrap_json, forms=learnt_forms)
        return Envelope(unwrap, lambda line: len(line) >= _LONGEST_OF_DOCKER and b'"log"' in line, alike, levels)
    if (width := width_of(head)) is None:
        return None
    return Envelope(
        partial(joined, width=width), lambda line: width.fills(line.removesuffix(b"\r").decode(errors="replace"))
    )


def _forms_of_records(head: Sequence[bytes], forms: Forms) -> Forms | None:
    """The forms with the keys of the JSON records among the first lines; None where too few of the lines are records.
    A launcher may print lines of its own between them."""
    lines = [line for line in head if line.strip()][:_MOST_SAMPLED]
    objects = [_object_in(line) for line in lines]
    forms = learnt([labelled[1] for labelled in objects if labelled], forms)
    records = [_as_record(labelled, forms.keys) for labelled in objects]
    messages = [record for _, record in filter(None, records)]
    of_loggers = sum(is_of_logger(record, forms.keys) for record in messages)
    often = of_loggers >= max(FEWEST_RECORDS, _OFTEN * len(lines))
    mostly = len(messages) >= max(FEWEST_RECORDS, _MOSTLY * len(lines))
    return forms if often or mostly or all(records[:_FIRST]) else None


def _object_in(line: bytes) -> tuple[bytes, Record] | None:
    """What a launcher put before the JSON object of a line, and the object; None where there is none."""
    start = line.find(b"{", 0, _LONGEST_LABEL)
    if start < 0 or (start and not line.rstrip().endswith(b"}")):
        return None
    import json

    try:
        value = json.loads(line[start:])
    except (ValueError, RecursionError):
        return None
    return (line[:start] if line[:start].strip() else b"", value) if isinstance(value, dict) else None


def _as_record(labelled: tuple[bytes, Record] | None, keys: Keys) -> tuple[bytes, Record] | None:
    """The same with the object as a record; None where it has no message, or the label stands before no logger's."""
    if labelled is None:
        return None
    label, value = labelled
    record = with_message(value, keys)
    return None if record is None or (label and not is_of_logger(record, keys)) else (label, record)


def _unwrap_json(lines: Iterable[Numbered], forms: Forms) -> Iterator[Numbered]:
    """Docker's json-file, `journalctl -o json`, and loggers that write one object a line."""
    started, number, head = b"", 0, b""
    for at, line in lines:
        labelled = _as_record(_object_in(line), forms.keys)
        if labelled is None:
            if line.strip():
                yield at, line
            continue
        label, record = labelled
        text = text_of(record, forms.keys).encode(errors="replace")
        if not started:
            record_head = head_of(record, forms)
            number, head = at, label + (f"{record_head} ".encode(errors="replace") if record_head else b"")
        started += text
        if "log" in record and not text.endswith(b"\n") and len(text) >= _LONGEST_OF_DOCKER:
            continue  # the rest is in the next record
        yield from ((number, head + part) for part in started.rstrip(b"\n").split(b"\n"))
        started = b""
    if started:
        yield number, head + started


@lru_cache(maxsize=8)
def _numbered_levels(keys: Keys) -> re.Pattern[bytes]:
    """The pattern of a level that is a number, to its end: `"level": 50,`   `"PRIORITY":"3"`   `"PRIORITY":""`"""
    names = "|".join(map(re.escape, (*keys.levels, "PRIORITY", "levelno")))
    return re.compile(rf'"(?:{names})" *: *(?:""|"?\d+[",}}\s])'.encode())


def _becomes_alike(line: bytes, forms: Forms) -> bool:
    """Whether the text of a record stays the same but for its digits, whatever these are."""
    if line.find(b"{", 0, _LONGEST_LABEL) < 0:
        return True
    labelled = _as_record(_object_in(line), forms.keys)
    if labelled is None or b"\\u" in line:
        return False
    text = text_of(labelled[1], forms.keys).encode(errors="replace")
    bare = text_of(cast(Record, _without_digits(labelled[1])), forms.keys).encode(errors="replace")
    return bare.translate(None, _DIGITS) == text.translate(None, _DIGITS)


def _without_digits(value: object) -> object:
    if isinstance(value, str):
        return value.translate(_NO_DIGITS)
    if isinstance(value, dict):
        return {key: _without_digits(item) for key, item in value.items()}
    return [_without_digits(item) for item in value] if isinstance(value, list) else value


def _unwrap_cri(lines: Iterable[Numbered]) -> Iterator[Numbered]:
    """The container runtimes' own form; `P` marks a part that the next line continues."""
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


def _is_flagged(line: bytes, flag: bytes) -> bool:
    match = _CRI.match(line)
    return match is not None and match[2] == flag


def _unwrap_journal_export(entries: Iterable[Numbered]) -> Iterator[Numbered]:
    """`journalctl -o export`: fields one a line; binary values follow their length."""
    for number, entry in entries:
        fields: dict[bytes, bytes] = {}
        binary = b""
        for line in entry.split(b"\n"):
            name, equals, value = line.partition(b"=")
            if binary:
                fields[binary] = line[8:] if len(line) > 8 else line
                binary = b""
            elif equals:
                fields[name] = value
            else:
                binary = name
        if b"MESSAGE" not in fields:
            continue
        micros = number_in(fields.get(b"__REALTIME_TIMESTAMP", b""))
        stamp = "" if micros is None else from_micros(micros)
        host = fields.get(b"_HOSTNAME", b"").decode(errors="replace")
        head = " ".join(part for part in (f"{host}:" if host else "", stamp) if part)
        yield number, (f"{head} ".encode() if head else b"") + fields[b"MESSAGE"]


def _unwrap_torchelastic_error(lines: Iterable[Numbered]) -> Iterator[Numbered]:
    """`error.json`, which a process that failed leaves."""
    import json

    for at, line in lines:
        try:
            message = json.loads(line)["message"]
            text = message["extraInfo"]["py_callstack"] if isinstance(message, dict) else str(message)
        except (ValueError, KeyError, TypeError, RecursionError):
            yield at, line
            continue
        yield from ((at, part) for part in str(text).encode(errors="replace").split(b"\n"))
