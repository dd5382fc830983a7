"""What one record of a logger that writes JSON says: its message, with when, where, how loud and of which rank it is
before it, and what the logger keeps of an exception in fields of their own behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from logdiag.model import number_in
from logdiag.read.forms import Forms, Keys, shipped_forms

__all__ = ["Record", "from_micros", "head_of", "is_of_logger", "read_record", "told_of"]

Record = dict[str, object]

_EVENT = "event"
_SAID = ("message", "msg")
_STACKS = ("traceback", "stack_trace", "stacktrace", "stack")
_KINDS = ("type", "name", "kind")
# 3   "3"   "w3"   "worker-3"   "3/64"
_RANK = re.compile(r"(?:[A-Za-z_]{1,12}[-_]?)?(\d{1,6})(?:/\d{1,6})?")
# "rep": "r-04"   "unit": "learner-0"   (who speaks, where no key is known to say it)
_NUMBERED_NAME = re.compile(r"[A-Za-z][A-Za-z_]{0,15}[-_.]?\d{1,5}")
_DIGIT = re.compile(r"\d")
_WORDS = re.compile(r"[^\W\d_]{2,}[^\w]+[^\W\d_]{2,}")
_DEEPEST = 3
_MOST_TOLD = 12
_LONGEST_NAME = 23
_LONGEST_TOLD = 16_000
# The levels of journald and syslog count down; what a unit prints is 6 whatever it says.
_PRIORITIES = {0: "FATAL", 1: "FATAL", 2: "FATAL", 3: "ERROR", 4: "WARNING"}
# Those of pino and bunyan count up, and those of Python's `levelno` too.
_NUMBERED = {10: "TRACE", 20: "DEBUG", 30: "INFO", 40: "WARNING", 50: "ERROR", 60: "FATAL"}
_LEVELNO = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}


def read_record(line: bytes, keys: Keys | None = None) -> Record | None:
    """One JSON object with a message, or None. `keys` say which those are; the shipped ones if left out."""
    import json

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    keys = keys or shipped_forms().keys
    for name in keys.nested:
        if name in value and isinstance(nested := value[name], dict):
            value = {**nested, **value}
    if any(isinstance(value[key], (str, list)) for key in keys.messages if key in value):
        return value
    event = next((value[key] for key in keys.events if isinstance(value.get(key), str)), None)
    return {_EVENT: event, **value} if event and is_of_logger(value, keys) else None


def is_of_logger(record: Record, keys: Keys) -> bool:
    """Whether a record says when it was made or how bad it is, as those of loggers do."""
    return any(key in record for key in (*keys.times, *keys.levels))


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which keys of a record are asked for what, in order; `texts` with whether one word is enough."""

    messages: tuple[str, ...]
    times: tuple[str, ...]
    nodes: tuple[str, ...]
    levels: tuple[str, ...]
    ranks: tuple[str, ...]
    numbers: tuple[str, ...]
    texts: tuple[tuple[str, bool], ...]
    speakers: tuple[str, ...]
    telling: bool


@lru_cache(maxsize=512)
def _plan_of(names: tuple[str, ...], keys: Keys) -> _Plan:
    """The records of one logger have few sets of names."""
    counts = not set(keys.counters).isdisjoint(names)
    envelope = not set(keys.envelopes).isdisjoint(names)
    before = {*keys.ranks, *keys.times, *keys.levels, *keys.nodes}
    messages = tuple(key for key in keys.messages if key in names)
    texts = [] if envelope else list(_texts_among((key for key in names if key not in messages[:1]), keys))
    unknown = [key for key, _ in texts if key not in messages and key not in keys.events]
    speakers = [*unknown, *(key for key in keys.speakers if key in names)]
    return _Plan(
        messages=messages,
        times=tuple(key for key in keys.times if key in names),
        nodes=tuple(key for key in keys.nodes if key in names),
        levels=tuple(key for key in keys.levels if key in names),
        ranks=tuple(key for key in keys.ranks if key in names),
        numbers=tuple(
            key for key in names if not envelope and key not in before and (counts or key.lower() in keys.statuses)
        ),
        texts=tuple(texts),
        speakers=() if envelope else tuple(speakers),
        telling=not envelope and not {*keys.errors, *keys.attributes}.isdisjoint(names),
    )


def _texts_among(names: Iterable[str], keys: Keys) -> Iterator[tuple[str, bool]]:
    apart, elsewhere, states = _no_texts(keys)
    for name in names:
        if name not in apart and name.lower() not in elsewhere:
            yield name, name.lower() in states


@lru_cache(maxsize=8)
def _no_texts(keys: Keys) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The keys of what is told apart, of what is not told at all, and those where one word is a text."""
    apart = (*keys.messages[:1], *keys.times, *keys.nodes, *keys.levels, *keys.ranks, *keys.errors, *keys.nested)
    return frozenset(apart), frozenset(keys.elsewhere), frozenset(keys.states)


def told_of(record: Record, keys: Keys) -> str:
    """All that a record says: its message, numbers and states (`status=139`), what it keeps of an exception (behind the
    message where that is one line, below it otherwise), and its further texts (`; cause: the file is gone`)."""
    plan = _plan_of(tuple(record), keys)
    text = _first_text(record, plan.messages)
    for key in plan.numbers:
        if type(record[key]) in (int, float):
            text += f" {key}={record[key]}"
    if plan.telling:
        for name in keys.attributes:
            record = {**attributes, **record} if isinstance(attributes := record.get(name), dict) else record
        for told in _errors(record, keys.errors):
            if told not in text:
                text += ("\n" if "\n" in told else ": ") + told if text else told
    if plan.texts:
        for key, told in islice(_texts(record, plan.texts, keys), _MOST_TOLD):
            if told not in text:
                text += f"\n{told}" if "\n" in told else f"; {key}: {told}" if text else told
    return text


def _texts(record: Record, names: Iterable[tuple[str, bool]], keys: Keys, depth: int = 0) -> Iterator[tuple[str, str]]:
    """What the fields beside the message say, with their names."""
    for key, one_word in names:
        value = record[key]
        if isinstance(value, list):
            value = ", ".join(item for item in value[:_MOST_TOLD] if isinstance(item, str))
        if isinstance(value, str):
            if _WORDS.search(value[:_LONGEST_TOLD]) or (value and one_word):
                yield key, value[:_LONGEST_TOLD].strip("\n")
        elif isinstance(value, dict) and depth < _DEEPEST:
            yield from _texts(value, _texts_among(value, keys), keys, depth + 1)


def head_of(record: Record, forms: Forms) -> str:
    """Host, time, level, and rank or else who speaks, as the head of a plain line has them; empty where the record has
    none."""
    plan = _plan_of(tuple(record), forms.keys)
    stamp = _first_text(record, plan.times) or _counted_time(record, plan.times)
    host = _first_text(record, plan.nodes)
    level = _level_of(record, plan.levels, forms.levels)
    rank = _rank_in(record[plan.ranks[0]]) if plan.ranks else ""
    # A plain name before a colon could be any word.
    named = f"{host}:" if _DIGIT.search(host) else f"[host={host}]:" if host and host != "localhost" else ""
    said = ((key, value) for key in plan.speakers if isinstance(value := record[key], str))
    speaker = next((f"[{key}={name}]:" for key, name in said if _NUMBERED_NAME.fullmatch(name[:_LONGEST_NAME])), "")
    parts = (
        named,
        stamp,
        f"{level}:" if level else "",
        f"[rank{rank}]:" if rank else speaker,
    )
    return " ".join(filter(None, parts))


def _rank_in(value: object) -> str:
    match = _RANK.fullmatch(str(value)[:30])
    return match[1] if match else ""


def _level_of(record: Record, keys: tuple[str, ...], levels: Mapping[str, str]) -> str:
    for key in keys:
        value = record[key]
        if type(value) is int:
            return _NUMBERED.get(value, "")
        if isinstance(value, str) and value:
            return levels.get(value.upper(), "")
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


def _errors(record: Record, keys: tuple[str, ...]) -> Iterator[str]:
    """What the fields of an exception say, as it is written or as the most telling part of an object."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, dict):
            kind, said = _first_text(value, _KINDS), _first_text(value, _SAID)
            value = _first_text(value, _STACKS) or ": ".join(part for part in (kind, said) if part)
        if isinstance(value, str) and value.strip():
            yield value.strip("\n")
