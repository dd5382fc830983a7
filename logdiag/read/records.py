"""What one record of a logger that writes JSON says: its message, with when, where, how loud and of which rank it is
before it, and what the logger keeps of an exception in fields of their own behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from logdiag.patterns import pattern_of
from logdiag.read.forms import Forms, Keys, folded

Record = dict[str, object]

_SAID = ("message", "msg", "excvalue")
_STACKS = ("traceback", "stacktrace", "stack", "extendedstacktrace")
_KINDS = ("type", "name", "kind", "class", "exctype")
# A key of so few letters is a message's only in a record that has a time or a level.
_SHORT = 2
# 3   "3"   "w3"   "worker-3"   "3/64"
_RANK = pattern_of(r"(?:[A-Za-z_]{1,12}[-_]?)?(\d{1,6})(?:/\d{1,6})?")
# "rep": "r-04"   "unit": "learner-0"   (who speaks, where no key is known to say it)
_NUMBERED_NAME = pattern_of(r"[A-Za-z][A-Za-z_]{0,15}[-_.]?\d{1,5}")
_DIGIT = pattern_of(r"\d")
_WORDS = pattern_of(r"[^\W\d_]{2,}[^\w]+[^\W\d_]{2,}")
_DEEPEST = 3
_MOST_TOLD, _MOST_NUMBERS = 12, 64
_LONGEST_NAME = 23
_LONGEST_TOLD = 16_000
# What a unit prints is 6 for journald whatever it says.
_PRIORITIES = {0: "FATAL", 1: "FATAL", 2: "FATAL", 3: "ERROR", 4: "WARNING"}
# {"version": "1.1", "host": "node-7", "short_message": "no pulse", "level": 3} (Graylog)
_GRAYLOG, _SYSLOG = "short_message", {**_PRIORITIES, 5: "NOTICE", 6: "INFO", 7: "DEBUG"}
# bunyan and pino (10 to 60), Monolog (100 to 600), logback's level_value (5000 to 40000)
_COUNTED = {
    "TRACE": (10, 5000),
    "DEBUG": (20, 100, 10_000),
    "INFO": (30, 200, 20_000),
    "NOTICE": (250,),
    "WARNING": (40, 300, 30_000),
    "ERROR": (50, 400, 40_000),
    "CRITICAL": (500,),
    "FATAL": (60, 550, 600),
}
_NUMBERED = {number: level for level, numbers in _COUNTED.items() for number in numbers}
# "level": "ERROR+4" (Go)
_SHIFT = pattern_of(r"(?<=[A-Z])[+-]\d$")
LEVELNO = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}
"""Python's numbers of levels."""
UNITS = {10: 1e6, 13: 1e3, 16: 1, 19: 1e-3}
"""How many microseconds a time's unit has, by the digits of today's times: seconds, milli-, micro- and nanoseconds."""


def object_in(line: bytes) -> Record | None:
    """The JSON object that a line is."""
    import json

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def with_message(record: Record, keys: Keys) -> Record | None:
    """A record with what stands in its nested objects beside the rest; None where it has no message."""
    record = opened_up(record, keys)
    messages = plan_of(tuple(record), keys).messages
    return record if any(isinstance(record[key], (str, list)) for key in messages) else None


def opened_up(record: Record, keys: Keys) -> Record:
    """A record with the keys of its nested objects beside its own, which come first."""
    for name in () if keys.opened.isdisjoint(record) else keys.nested:
        if name in record and isinstance(nested := record[name], dict):
            own = {key: value for key, value in record.items() if key != name}
            record = {**own, **nested, **own}
    return record


def is_of_logger(record: Record, keys: Keys) -> bool:
    """Whether a record says when it was made or how bad it is, as those of loggers do."""
    plan = plan_of(tuple(record), keys)
    return bool(plan.times or plan.levels)


class Plan(NamedTuple):
    """Which keys of a record are asked for what, in order; `texts` with whether one word is enough. `envelope` tells
    whether the record is a container's or a journal's, around a program's own line."""

    messages: tuple[str, ...]
    times: tuple[str, ...]
    nodes: tuple[str, ...]
    levels: tuple[str, ...]
    ranks: tuple[str, ...]
    numbers: tuple[str, ...]
    texts: tuple[tuple[str, bool], ...]
    speakers: tuple[str, ...]
    errors: tuple[str, ...]
    attributes: tuple[str, ...]
    envelope: bool


@lru_cache(maxsize=512)
def plan_of(names: tuple[str, ...], keys: Keys) -> Plan:
    """Which keys of a record with these names are asked for what. The records of one logger have few sets of names."""
    known = set(names)
    written = {folded(name): name for name in reversed(names)}

    def among(wanted: Iterable[str]) -> tuple[str, ...]:
        found = (key if key in known else written.get(folded(key)) for key in wanted)
        return tuple(dict.fromkeys(key for key in found if key))

    whole = bool(among(keys.whole))
    counts = whole or bool(among(keys.counters))
    envelope = not known.isdisjoint(keys.envelopes)
    times, levels, ranks, nodes = map(among, (keys.times, keys.levels, keys.ranks, keys.nodes))
    of_logger = bool(times or levels)
    messages = among(key for key in keys.messages if of_logger or len(folded(key)) > _SHORT)
    events = among(keys.events) if of_logger else ()
    errors, attributes = among(keys.errors), among(keys.attributes)
    texts = [] if envelope else list(_texts_among((key for key in names if key not in messages[:1]), keys, whole))
    unknown = [key for key, _ in texts if key not in messages and key not in events]
    before, statuses = {*ranks, *times, *levels, *nodes, *errors}, among(keys.statuses)
    numbers = (key for key in names if key not in before and (counts or key in statuses))
    return Plan(
        messages=(*messages, *events),
        times=times,
        nodes=nodes,
        levels=levels,
        ranks=ranks,
        numbers=() if envelope else tuple(islice(numbers, _MOST_NUMBERS)),
        texts=tuple(texts),
        speakers=() if envelope else (*unknown, *among(keys.speakers)),
        errors=() if envelope else keys.errors if attributes else errors,
        attributes=() if envelope else attributes,
        envelope=envelope,
    )


def _texts_among(names: Iterable[str], keys: Keys, whole: bool = False) -> Iterator[tuple[str, bool]]:
    apart, states = _no_texts(keys)
    for name in names:
        if (bare := folded(name)) not in apart:
            yield name, whole or bare in states


@lru_cache(maxsize=8)
def _no_texts(keys: Keys) -> tuple[frozenset[str], frozenset[str]]:
    """The keys of what is told apart or not at all, and those where one word is a text."""
    apart = (*keys.messages[:1], *keys.times, *keys.nodes, *keys.levels, *keys.ranks, *keys.errors, *keys.nested)
    return frozenset(map(folded, (*apart, *keys.elsewhere))), frozenset(map(folded, keys.states))


def told_of(record: Record, keys: Keys) -> str:
    """All that a record says: its message, numbers and states (`status=139`), what it keeps of an exception (behind the
    message where that is one line, below it otherwise), and its further texts (`; cause: the file is gone`)."""
    plan = plan_of(tuple(record), keys)
    text = _first_text(record, plan.messages)
    for key in plan.numbers:
        if type(record[key]) in (int, float):
            text += f" {key}={record[key]}"
    for name in plan.attributes:
        record = {**attributes, **record} if isinstance(attributes := record[name], dict) else record
    for told in _errors(record, plan.errors):
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
    plan = plan_of(tuple(record), forms.keys)
    stamp = _time_of(record, plan.times)
    host = _first_text(record, plan.nodes) or _name_in(record, plan.nodes)
    level = level_of(record, plan.levels, forms.levels)
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


def _name_in(record: Record, keys: tuple[str, ...]) -> str:
    """{"host": {"name": "node-7", "os": {...}}} (Elastic)"""
    objects = (value for key in keys if isinstance(value := record[key], dict))
    return next((name for value in objects if isinstance(name := value.get("name"), str)), "")


def _rank_in(value: object) -> str:
    match = _RANK.fullmatch(str(value)[:30])
    return match[1] if match else ""


def level_of(record: Record, keys: tuple[str, ...], levels: Mapping[str, str]) -> str:
    """How loud a record is, by logdiag's own name; empty where none of these keys tells."""
    if _GRAYLOG in record and "level" in record:
        return _SYSLOG.get(_small_number(record["level"]), "")
    # "level": 400, "level_name": "ERROR"
    for key in keys:
        if isinstance(value := record[key], str):
            named = value.upper()
            if level := levels.get(named) or levels.get(_SHIFT.sub("", named)):
                return level
    for key in keys:
        if type(value := record[key]) is int and (level := levels.get(str(value)) or _NUMBERED.get(value)):
            return level
    if "PRIORITY" in record:
        return _PRIORITIES.get(_small_number(record["PRIORITY"]), "")
    return LEVELNO.get(_small_number(record["levelno"]), "") if "levelno" in record else ""


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


def _time_of(record: Record, keys: tuple[str, ...]) -> str:
    """The time as it is written, or from the number that counts it."""
    for key in keys:
        value = record[key]
        if isinstance(value, str) and value and not value.isdecimal():
            return value
        number = int(value) if isinstance(value, str) and 0 < len(value) < 20 else value
        if isinstance(number, (int, float)) and 1e9 <= number < 1e19:
            unit = UNITS.get(len(str(int(number))))
            return from_micros(int(number * unit)) if unit else ""
    return ""


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
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = value[0]  # structlog has one for each of a chain
        if isinstance(value, dict):
            parts = {folded(name): part for name, part in value.items()}
            kind, said = _first_text(parts, _KINDS), _first_text(parts, _SAID)
            value = _first_text(parts, _STACKS) or ": ".join(part for part in (kind, said) if part)
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            value = "\n".join(value)  # AWS Lambda writes a stack as a list of its lines
        if isinstance(value, str) and value.strip():
            yield value.strip("\n")
