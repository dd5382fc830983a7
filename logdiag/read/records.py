"""Turns one JSON record of a logger into plain text: host, time, level and rank as the head, then the message, then
what other fields hold of an exception."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from logdiag.patterns import pattern_of
from logdiag.read.forms import Forms, Keys, folded

Record = dict[str, object]

_EXCEPTION_MESSAGES = ("message", "msg", "excvalue", "text", "detail", "description", "reason")
_EXCEPTION_STACKS = ("traceback", "stacktrace", "stack", "extendedstacktrace")
_EXCEPTION_CLASSES = ("type", "name", "kind", "class", "exctype", "code")
_OWN_NUMBERS = frozenset(("id", "no", "number", "index"))
_CAUSES = ("cause", "causedby", "inner", "innerexception", "source")
# A key of so few letters is a message's only in a record that has a time or a level.
_SHORT = 2
# 3   "3"   "w3"   "worker-3"   "3/64"
_RANK = pattern_of(r"(?:[A-Za-z_]{1,12}[-_]?)?(\d{1,6})(?:/\d{1,6})?")
# "rep": "r-04"   "unit": "learner-0"   (names that tell which process printed the record)
_NUMBERED_NAME = pattern_of(r"[A-Za-z][A-Za-z_]{0,15}[-_.]?\d{1,5}")
_DIGIT = pattern_of(r"\d")
_WORDS = pattern_of(r"[^\W\d_]{2,}[^\w]+[^\W\d_]{2,}")
_DEEPEST = 3
_MOST_TEXTS, _MOST_NUMBERS = 12, 64
_MOST_PLACES, _LONGEST_PLACEMENT = 64, 900
_LONGEST_NAME = 23
_LONGEST_TEXT = 16_000
# journald gives what a unit prints the priority 6, whatever it is; so 5 to 7 mean nothing here.
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
# How many microseconds a time's unit has, by the digits of today's times: seconds, milli-, micro- and nanoseconds.
_UNITS = {10: 1e6, 13: 1e3, 16: 1, 19: 1e-3}


def with_message(record: Record, keys: Keys) -> Record | None:
    """A record with the keys of its nested objects beside its own; None where it has no message."""
    record = opened_up(record, keys)
    messages = plan_of(tuple(record), keys).messages
    return record if any(isinstance(record[key], (str, list)) for key in messages) else None


def opened_up(record: Record, keys: Keys) -> Record:
    """A record with the keys of its nested objects beside its own, which come first. The number of an object that
    has no message goes by its key: `"unit": {"id": 13, "at": "10.4.2.9"}` becomes `"unit": 13, "at": "10.4.2.9"`."""
    for name in () if keys.opened.isdisjoint(record) else keys.nested:
        if name in record and isinstance(nested := record[name], dict):
            outer = {key: value for key, value in record.items() if key != name}
            number_key = next((key for key in nested if folded(key) in _OWN_NUMBERS and type(nested[key]) is int), None)
            if number_key is not None and not plan_of(tuple(nested), keys).messages:
                outer[name] = nested[number_key]
                nested = {key: value for key, value in nested.items() if key != number_key}
            record = {**outer, **nested, **outer}
    return record


def is_of_logger(record: Record, keys: Keys) -> bool:
    """Whether a record has a key of a time or of a level, as those of loggers do."""
    plan = plan_of(tuple(record), keys)
    return bool(plan.times or plan.levels)


class Plan(NamedTuple):
    """The keys of a record by what is read from them, in the order in which they are tried. In `texts` each has with it
    whether a value of one word counts. `envelope` is true for a record of a container or a journal, around a program's
    own line."""

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
    """The plan for records with these keys. It is remembered: the records of one logger have few sets of keys."""
    known = set(names)
    written = {folded(name): name for name in reversed(names)}

    def among(wanted: Iterable[str]) -> tuple[str, ...]:
        present = (key if key in known else written.get(folded(key)) for key in wanted)
        return tuple(dict.fromkeys(key for key in present if key))

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
    """Those of a record's keys that may hold further texts, each with whether a value of one word counts."""
    apart, states = _no_texts(keys)
    for name in names:
        if (bare := folded(name)) not in apart:
            yield name, whole or bare in states


@lru_cache(maxsize=8)
def _no_texts(keys: Keys) -> tuple[frozenset[str], frozenset[str]]:
    """The folded keys that hold no further text, and those under which one word counts as a text."""
    apart = (*keys.messages[:1], *keys.times, *keys.nodes, *keys.levels, *keys.ranks, *keys.errors, *keys.nested)
    return frozenset(map(folded, (*apart, *keys.elsewhere))), frozenset(map(folded, keys.states))


def text_of(record: Record, keys: Keys) -> str:
    """The text of a record: its message, numbers and states (`status=139`), its exception (behind the message if that
    is one line, else below it), and its further texts (`; cause: the file is gone`)."""
    plan = plan_of(tuple(record), keys)
    text = _first_text(record, plan.messages)
    for key in plan.numbers:
        if type(record[key]) in (int, float):
            text += f" {key}={record[key]}"
    for name in plan.attributes:
        record = {**attributes, **record} if isinstance(attributes := record[name], dict) else record
    for error in _errors(record, plan.errors):
        if error not in text:
            text += ("\n" if "\n" in error else ": ") + error if text else error
    # {"ev": "task.end", "body": {"why": "no such file"}}
    in_message = [(key, False) for key in plan.messages if isinstance(record[key], dict)]
    if plan.texts or in_message:
        for key, further in islice(_texts(record, [*plan.texts, *in_message], keys), _MOST_TEXTS):
            if further not in text:
                text += f"\n{further}" if "\n" in further else f"; {key}: {further}" if text else further
    return text


def _texts(record: Record, names: Iterable[tuple[str, bool]], keys: Keys, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The texts in the fields beside the message, each with its key; also those of objects within."""
    for key, one_word in names:
        value = record[key]
        if isinstance(value, dict):
            yield from _texts_within(key, [value], keys, depth)
        elif isinstance(value, list) and (placement := _placement(value, keys)):
            yield key, placement
        elif isinstance(value, list):
            texts = [item for item in value[:_MOST_TEXTS] if isinstance(item, str)]
            text = ("\n" if folded(key) in keys.stacks else ", ").join(texts)
            if _tells(text, one_word):
                yield key, text[:_LONGEST_TEXT].strip("\n")
            objects = [item for item in value[:_MOST_TEXTS] if isinstance(item, dict)]
            yield from _texts_within(key, objects, keys, depth)
        # {"trace": "projects/loom/traces/41"} is an id.
        elif isinstance(value, str) and _tells(value, one_word) and folded(key) not in keys.stacks:
            yield key, value[:_LONGEST_TEXT].strip("\n")


def _tells(text: str, one_word: bool) -> bool:
    """Whether a text has words, or one where that counts."""
    return _WORDS.search(text[:_LONGEST_TEXT]) is not None or (bool(text) and one_word)


def _texts_within(key: str, objects: Sequence[Record], keys: Keys, depth: int) -> Iterator[tuple[str, str]]:
    """The exceptions and texts of objects under a key, if they do not lie too deep."""
    for within in objects if depth < _DEEPEST else ():
        yield from ((key, error) for error in _errors(within, plan_of(tuple(within), keys).errors))
        yield from _texts(within, _texts_among(within, keys), keys, depth + 1)


def _placement(items: Sequence[object], keys: Keys) -> str:
    """What runs where, of a list of objects that each name a host, or are rows of a table: [{"host": "elm-1", "ranks":
    [0, 1]}, ...] becomes `host=elm-1 ranks=0,1 host=...`. Empty for any other list."""
    objects = [item for item in items[:_MOST_PLACES] if isinstance(item, dict)]
    hosts = set(map(folded, keys.nodes))
    if not objects or not (all(any(folded(key) in hosts for key in item) for item in objects) or _are_rows(objects)):
        return ""
    words = (f"{key}={_in_a_word(value)}" for item in objects for key, value in item.items())
    return " ".join(words)[:_LONGEST_PLACEMENT]


def _are_rows(objects: Sequence[Record]) -> bool:
    """Whether objects have the same keys, under one of which each has another number or word, and words under one:
    [{"seat": 0, "bench": "elm-1"}, {"seat": 1, "bench": "elm-1"}], [{"machine": "elm-1", "addr": "10.4.2.9"}, ...]."""
    if any(item.keys() != objects[0].keys() for item in objects):
        return False
    columns = [[item[key] for item in objects] for key in objects[0]]
    words = [column for column in columns if all(isinstance(value, str) and " " not in value for value in column)]
    numbers = [column for column in columns if all(type(value) is int for value in column)]
    return bool(words) and any(len(set(column)) == len(objects) > 1 for column in (*words, *numbers))


def _in_a_word(value: object) -> str:
    numbers = isinstance(value, list) and all(type(number) is int for number in value)
    return ",".join(map(str, value)) if isinstance(value, list) and numbers else str(value).partition(" ")[0]


def head_of(record: Record, forms: Forms) -> str:
    """Host, time, level, and rank or the process's name, written as the head of a plain line; empty for none."""
    plan = plan_of(tuple(record), forms.keys)
    stamp = _time_of(record, plan.times)
    host = _first_text(record, plan.nodes) or _name_in(record, plan.nodes)
    level = level_of(record, plan.levels, forms.levels)
    rank = _RANK.fullmatch(str(record[plan.ranks[0]])[:30]) if plan.ranks else None
    # A plain name before a colon could be any word.
    host_label = f"{host}:" if _DIGIT.search(host) else f"[host={host}]:" if host and host != "localhost" else ""
    names = ((key, value) for key in plan.speakers if isinstance(value := record[key], str))
    speaker = next((f"[{key}={name}]:" for key, name in names if _NUMBERED_NAME.fullmatch(name[:_LONGEST_NAME])), "")
    parts = (host_label, stamp, f"{level}:" if level else "", f"[rank{rank[1]}]:" if rank else speaker)
    return " ".join(filter(None, parts))


def _name_in(record: Record, keys: tuple[str, ...]) -> str:
    """The name in an object of one of these keys: {"host": {"name": "node-7", "os": {...}}} (Elastic)"""
    objects = (value for key in keys if isinstance(value := record[key], dict))
    return next((name for value in objects if isinstance(name := value.get("name"), str)), "")


def level_of(record: Record, keys: tuple[str, ...], levels: Mapping[str, str]) -> str:
    """The level of a record by logdiag's own name; empty where none of these keys has one."""
    if _GRAYLOG in record and "level" in record:
        return _SYSLOG.get(_small_number(record["level"]), "")
    # "level": 400, "level_name": "ERROR"
    for key in keys:
        if isinstance(value := record[key], str):
            name = value.upper()
            if level := levels.get(name) or levels.get(_SHIFT.sub("", name)):
                return level
    for key in keys:
        if type(value := record[key]) is int and (level := levels.get(str(value)) or _NUMBERED.get(value)):
            return level
    if "PRIORITY" in record:
        return _PRIORITIES.get(_small_number(record["PRIORITY"]), "")
    return LEVELNO.get(_small_number(record["levelno"]), "") if "levelno" in record else ""


def _small_number(value: object) -> int:
    """A number of at most four digits; -1 for anything else."""
    digits = str(value)[:4]
    return int(digits) if digits.isdecimal() else -1


def from_micros(micros: int) -> str:
    """A time in microseconds since the epoch as loggers print it; empty where there is no such time."""
    from datetime import datetime, timezone

    try:
        moment = datetime.fromtimestamp(micros / 1e6, tz=timezone.utc).replace(tzinfo=None)
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{moment.isoformat(timespec='microseconds')}Z"


def micros_in(value: object) -> float | None:
    """The microseconds since the epoch that a number of seconds, or of parts of them, stands for; None for others."""
    number = int(value) if isinstance(value, str) and len(value) < 20 and value.isdecimal() else value
    if not isinstance(number, (int, float)) or not 1e9 <= number < 1e19:
        return None
    unit = _UNITS.get(len(str(int(number))))
    return None if unit is None else number * unit


def _time_of(record: Record, keys: tuple[str, ...]) -> str:
    """The first time of these keys, as it is written or from a number of seconds or parts of them; empty for none."""
    for key in keys:
        value = record[key]
        if isinstance(value, str) and value and not value.isdecimal():
            return value
        if (micros := micros_in(value)) is not None:
            return from_micros(int(micros))
    return ""


def _first_text(record: Record, keys: Iterable[str]) -> str:
    """The first text under one of these keys; empty for none."""
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
    """The text in each field of an exception; of an object its stack, or else its class and message."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = value[0]  # structlog has one for each of a chain
        if isinstance(value, dict):
            value = "; cause: ".join(_chain_of(value))
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            value = "\n".join(value)  # AWS Lambda writes a stack as a list of its lines
        if isinstance(value, str) and value.strip():
            yield value.strip("\n")


def _chain_of(error: Record) -> Iterator[str]:
    """The text of an exception that is an object, and of each that caused the one before it: {"class": "E", "message":
    "cannot save", "cause": {"text": "disk full"}}."""
    cause: object = error
    for _ in range(_DEEPEST):
        if not isinstance(cause, dict):
            return
        parts = {folded(name): part for name, part in cause.items()}
        kind, message = _first_text(parts, _EXCEPTION_CLASSES), _first_text(parts, _EXCEPTION_MESSAGES)
        if text := _first_text(parts, _EXCEPTION_STACKS) or ": ".join(filter(None, (kind, message))):
            yield text
        cause = next((parts[name] for name in _CAUSES if name in parts), None)
