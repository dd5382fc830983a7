"""What one record of a logger that writes JSON says: its message, with when, where, how loud and of which rank it is
before it, and what the logger keeps of an exception in fields of their own behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from logdiag.read.prefixes import LEVELS

__all__ = ["from_micros", "head_of", "read_record", "told_of"]

Record = dict[str, object]

# Docker, journald, loggers; Cloud Logging, CloudWatch, OpenTelemetry and Loki as they export; a runner's result;
# structlog
_MESSAGES = (
    *("log", "MESSAGE", "message", "msg", "text", "textPayload", "@message", "body", "line", "stderr", "output"),
    "event",
)
_TIMES = ("time", "timestamp", "ts", "@timestamp", "asctime", "t")
_HOSTS = ("_HOSTNAME", "hostname", "host", "node")
_LEVELS = ("level", "levelname", "severity", "sev", "lvl")
_RANKS = ("rank", "global_rank", "process_index", "replica")
# {"jsonPayload": {"message": "..."}, "timestamp": "..."} (Cloud Logging)   {"fields": {"message": "..."}} (Rust)
_NESTED = ("jsonPayload", "fields")
# {"msg": "cannot save", "error": "no space left on device"} (Go)   {"exc_info": "Traceback ..."} (Python)
# {"err": {"type": "Error", "message": "...", "stack": "..."}} (JavaScript)   {"exception": "Traceback ..."} (structlog)
# {"error.message": "..."} (Elastic)   {"attributes": {"exception.message": "..."}} (OpenTelemetry)
_ERRORS = (
    *("error", "err", "exc_info", "exc_text", "exception", "error.message", "exception.message"),
    *("traceback", "stack_trace", "stacktrace", "stack", "error.stack_trace", "exception.stacktrace"),
)
_STACKS = ("traceback", "stack_trace", "stacktrace", "stack")
_SAID = ("message", "msg")
_KINDS = ("type", "name", "kind")
_ATTRIBUTES = "attributes"
_TELLING = frozenset({*_ERRORS, _ATTRIBUTES})
_LONGEST_RANK = 6  # digits
_TOLD_BEFORE = frozenset({*_RANKS, *_TIMES})
# {"event": "train", "step": 41, "loss": 2.1}
_COUNTERS = frozenset({"step", "global_step", "iteration", "iter", "epoch", "batch", "update"})


def read_record(line: bytes) -> Record | None:
    """One JSON object with a message, or None."""
    import json

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    for name in _NESTED:
        if name in value and isinstance(nested := value[name], dict):
            value = {**nested, **value}
    return value if any(isinstance(value[key], (str, list)) for key in _MESSAGES if key in value) else None


def told_of(record: Record) -> str:
    """The message with what the record keeps of an exception: behind it where that is one line, below it otherwise."""
    text = _first_text(record, _MESSAGES)
    if not _COUNTERS.isdisjoint(record):
        text += _measured(record)
    if _TELLING.isdisjoint(record):
        return text
    attributes = record.get(_ATTRIBUTES)
    for told in _errors({**attributes, **record} if isinstance(attributes, dict) else record):
        if told not in text:
            text += ("\n" if "\n" in told else ": ") + told if text else told
    return text


def _measured(record: Record) -> str:
    """The numbers of a record that counts steps, as plain lines print them."""
    numbers = [(key, value) for key, value in record.items() if type(value) in (int, float) and key not in _TOLD_BEFORE]
    return "".join([f" {key}={value}" for key, value in numbers])


def head_of(record: Record) -> str:
    """Host, time, level and rank as the head of a plain line has them; empty where the record has none."""
    stamp = _first_text(record, _TIMES) or _counted_time(record)
    host = _first_text(record, _HOSTS)
    level = LEVELS.get(_first_text(record, _LEVELS).upper(), "")
    rank = next((str(record[key]) for key in _RANKS if key in record), "")
    parts = (
        f"{host}:" if host and re.search(r"\d", host) else "",
        stamp,
        f"{level}:" if level else "",
        f"[rank{rank}]:" if rank.isdecimal() and len(rank) <= _LONGEST_RANK else "",
    )
    return " ".join(filter(None, parts))


def from_micros(micros: int) -> str:
    """A time in microseconds since the epoch as loggers print it; empty where there is no such time."""
    from datetime import datetime, timezone

    try:
        moment = datetime.fromtimestamp(micros / 1e6, tz=timezone.utc).replace(tzinfo=None)
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{moment.isoformat(timespec='microseconds')}Z"


def _counted_time(record: Record) -> str:
    """The time of journald (microseconds) and of loggers that count seconds or milliseconds."""
    micros = record.get("__REALTIME_TIMESTAMP")
    if isinstance(micros, str) and micros.isdigit():
        return from_micros(int(micros))
    number = next((value for key in _TIMES if key in record and isinstance(value := record[key], (int, float))), 0)
    unit = 1e6 if 1e9 <= number < 1e10 else 1e3 if 1e12 <= number < 1e13 else 0
    return from_micros(int(number * unit)) if unit else ""


def _first_text(record: Record, keys: Iterable[str]) -> str:
    for key in keys:
        if key not in record:
            continue
        value = record[key]
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and all(isinstance(item, int) and 0 <= item < 256 for item in value):
            return bytes(value).decode(errors="replace")  # journald writes messages with control bytes as numbers
    return ""


def _errors(record: Record) -> Iterator[str]:
    """What the fields of an exception say, as it is written or as the most telling part of an object."""
    for key in _ERRORS:
        value = record.get(key)
        if isinstance(value, dict):
            kind, said = _first_text(value, _KINDS), _first_text(value, _SAID)
            value = _first_text(value, _STACKS) or ": ".join(part for part in (kind, said) if part)
        if isinstance(value, str) and value.strip():
            yield value.strip("\n")
