"""What one record of a logger that writes JSON says: its message, with when, where, how loud and of which rank it is
before it, and what the logger keeps of an exception in fields of their own behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from logdiag.model import number_in
from logdiag.read.prefixes import LEVELS

__all__ = ["Record", "from_micros", "head_of", "is_of_logger", "read_record", "told_of"]

Record = dict[str, object]

# Docker, journald, loggers; Cloud Logging, CloudWatch, OpenTelemetry and Loki as they export; a runner's result;
# structlog
_MESSAGES = (
    *("log", "MESSAGE", "message", "msg", "text", "textPayload", "@message", "body", "line", "stderr", "output"),
    "event",
)
# {"t": "02:11:07", "lvl": "warn", "kind": "seat.lost", "seat": 5}
_EVENTS = ("evt", "ev", "kind", "what", "action", "op", "type")
_TIMES = ("time", "timestamp", "ts", "@timestamp", "asctime", "t")
_HOSTS = ("_HOSTNAME", "hostname", "host", "node", "node_name", "nodeName", "pod", "pod_name")
_LEVELS = ("level", "levelname", "severity", "severityText", "severity_text", "sev", "lvl", "log.level", "loglevel")
_RANKS = (
    *("rank", "global_rank", "world_rank", "process_index", "replica", "replica_id", "worker", "worker_id"),
    *("worker_rank", "seat", "proc"),
)
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
# 3   "3"   "w3"   "worker-3"   "3/64"
_RANK = re.compile(r"(?:[A-Za-z_]{1,12}[-_]?)?(\d{1,6})(?:/\d{1,6})?")
_TOLD_BEFORE = frozenset({*_RANKS, *_TIMES, *_LEVELS, *_HOSTS})
# {"event": "train", "step": 41, "loss": 2.1}
_COUNTERS = frozenset({"step", "global_step", "iteration", "iter", "epoch", "batch", "update"})
# {"msg": "worker ended", "worker": 5, "status": 139}
_STATUS_KEYS = (
    "status exit_status exit_code exitcode return_code returncode rc code signal errno error_code status_code"
)
_STATUSES = frozenset(_STATUS_KEYS.split())
# One word is enough there; elsewhere a text has two.
_STATE_KEYS = "status state reason result outcome cause detail error_type exc_type stderr stdout output text"
_STATES = frozenset(_STATE_KEYS.split())
# What says where in the program or the cluster a record was made, and not what happened.
_ELSEWHERE_KEYS = (
    "logger logger_name name module caller source src file filename pathname path func function funcname thread "
    "threadname thread_name process processname process_name taskname version hostname user argv args cmd cmdline "
    "command image container container_name kubernetes docker labels resource config settings env environment "
    "stream tag tags service"
)
_ELSEWHERE = frozenset(_ELSEWHERE_KEYS.split())
# What a container's or a journal's record says of the program is all in its message.
_ENVELOPES = frozenset({"log", "MESSAGE", "textPayload"})
_NO_TEXTS = frozenset({*_MESSAGES[:1], *_TIMES, *_HOSTS, *_LEVELS, *_RANKS, *_ERRORS, *_NESTED})
_WORDS = re.compile(r"[^\W\d_]{2,}[^\w]+[^\W\d_]{2,}")
_DEEPEST = 3
_MOST_TOLD = 12
_LONGEST_TOLD = 16_000
# The levels of journald and syslog count down; what a unit prints is 6 whatever it says.
_PRIORITIES = {0: "FATAL", 1: "FATAL", 2: "FATAL", 3: "ERROR", 4: "WARNING"}
# Those of pino and bunyan count up, and those of Python's `levelno` too.
_NUMBERED = {10: "TRACE", 20: "DEBUG", 30: "INFO", 40: "WARNING", 50: "ERROR", 60: "FATAL"}
_LEVELNO = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}


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
    if any(isinstance(value[key], (str, list)) for key in _MESSAGES if key in value):
        return value
    event = next((value[key] for key in _EVENTS if isinstance(value.get(key), str)), None)
    return {"event": event, **value} if event and is_of_logger(value) else None


def is_of_logger(record: Record) -> bool:
    """Whether a record says when it was made or how bad it is, as those of loggers do."""
    return any(key in record for key in (*_TIMES, *_LEVELS))


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which keys of a record are asked for what, in order; `texts` with whether one word is enough."""

    messages: tuple[str, ...]
    times: tuple[str, ...]
    hosts: tuple[str, ...]
    levels: tuple[str, ...]
    ranks: tuple[str, ...]
    numbers: tuple[str, ...]
    texts: tuple[tuple[str, bool], ...]
    telling: bool


@lru_cache(maxsize=512)
def _plan_of(keys: tuple[str, ...]) -> _Plan:
    """The records of one logger have few sets of keys."""
    counts = not _COUNTERS.isdisjoint(keys)
    envelope = not _ENVELOPES.isdisjoint(keys)
    messages = tuple(key for key in _MESSAGES if key in keys)
    return _Plan(
        messages=messages,
        times=tuple(key for key in _TIMES if key in keys),
        hosts=tuple(key for key in _HOSTS if key in keys),
        levels=tuple(key for key in _LEVELS if key in keys),
        ranks=tuple(key for key in _RANKS if key in keys),
        numbers=tuple(
            key for key in keys if not envelope and key not in _TOLD_BEFORE and (counts or key.lower() in _STATUSES)
        ),
        texts=() if envelope else tuple(_texts_among(key for key in keys if key not in messages[:1])),
        telling=not envelope and not _TELLING.isdisjoint(keys),
    )


def _texts_among(keys: Iterable[str]) -> Iterator[tuple[str, bool]]:
    for key in keys:
        if key not in _NO_TEXTS and key.lower() not in _ELSEWHERE:
            yield key, key.lower() in _STATES


def told_of(record: Record) -> str:
    """All that a record says: its message, numbers and states (`status=139`), what it keeps of an exception (behind the
    message where that is one line, below it otherwise), and its further texts (`; cause: the file is gone`)."""
    plan = _plan_of(tuple(record))
    text = _first_text(record, plan.messages)
    for key in plan.numbers:
        if type(record[key]) in (int, float):
            text += f" {key}={record[key]}"
    if plan.telling:
        attributes = record.get(_ATTRIBUTES)
        for told in _errors({**attributes, **record} if isinstance(attributes, dict) else record):
            if told not in text:
                text += ("\n" if "\n" in told else ": ") + told if text else told
    if plan.texts:
        for key, told in islice(_texts(record, plan.texts), _MOST_TOLD):
            if told not in text:
                text += f"\n{told}" if "\n" in told else f"; {key}: {told}" if text else told
    return text


def _texts(record: Record, keys: Iterable[tuple[str, bool]], depth: int = 0) -> Iterator[tuple[str, str]]:
    """What the fields beside the message say, with their names."""
    for key, one_word in keys:
        value = record[key]
        if isinstance(value, list):
            value = ", ".join(item for item in value[:_MOST_TOLD] if isinstance(item, str))
        if isinstance(value, str):
            if _WORDS.search(value[:_LONGEST_TOLD]) or (value and one_word):
                yield key, value[:_LONGEST_TOLD].strip("\n")
        elif isinstance(value, dict) and depth < _DEEPEST:
            yield from _texts(value, _texts_among(value), depth + 1)


def head_of(record: Record) -> str:
    """Host, time, level and rank as the head of a plain line has them; empty where the record has none."""
    plan = _plan_of(tuple(record))
    stamp = _first_text(record, plan.times) or _counted_time(record, plan.times)
    host = _first_text(record, plan.hosts)
    level = _level_of(record, plan.levels)
    rank = _rank_in(record[plan.ranks[0]]) if plan.ranks else ""
    parts = (
        f"{host}:" if host and re.search(r"\d", host) else "",
        stamp,
        f"{level}:" if level else "",
        f"[rank{rank}]:" if rank else "",
    )
    return " ".join(filter(None, parts))


def _rank_in(value: object) -> str:
    match = _RANK.fullmatch(str(value)[:30])
    return match[1] if match else ""


def _level_of(record: Record, keys: tuple[str, ...]) -> str:
    for key in keys:
        value = record[key]
        if type(value) is int:
            return _NUMBERED.get(value, "")
        if isinstance(value, str) and value:
            return LEVELS.get(value.upper(), "")
    if "PRIORITY" in record:
        return _PRIORITIES.get(_small_number(record["PRIORITY"]), "")
    return _LEVELNO.get(_small_number(record["levelno"]), "") if "levelno" in record else ""


def _small_number(value: object) -> int:
    told = str(value)[:4]
    return int(told) if told.isdecimal() else -1


def from_micros(micros: int) -> str:
    """A time in microseconds since the epoch as loggers print it; empty where there is no such time."""
    from datetime import datetime, timezone

    try:
        moment = datetime.fromtimestamp(micros / 1e6, tz=timezone.utc).replace(tzinfo=None)
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{moment.isoformat(timespec='microseconds')}Z"


def _counted_time(record: Record, keys: tuple[str, ...]) -> str:
    """The time of journald (microseconds) and of loggers that count seconds or milliseconds."""
    micros = record.get("__REALTIME_TIMESTAMP")
    if isinstance(micros, str) and (counted := number_in(micros)) is not None:
        return from_micros(counted)
    number = next((value for key in keys if isinstance(value := record[key], (int, float))), 0)
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
