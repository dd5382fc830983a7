"""Learns which keys of a logger's JSON records hold the time, the level, the message, the node and the rank, where no
list of keys names them: the values in the first records of a stream show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from logdiag.patterns import pattern_of
from logdiag.read.forms import Forms, Keys, folded
from logdiag.read.records import LEVELNO, Record, level_of, micros_in, opened_up, plan_of

FEWEST_RECORDS = 4
"""Of fewer records nothing is learnt."""
# So large a share of the records has what the logger writes into each, and of a key's values is of one kind.
_MOSTLY, _NEARLY_ALL, _HALF = 0.6, 0.9, 0.5
# 2026-11-04T10:00:00.123Z   10:00:00,123   Nov  4 10:00:00
_TIME = pattern_of(
    r"(?:\d{4}[-/]\d\d[-/]\d\d[T _]|[A-Z][a-z]{2} +\d{1,2} )?\d\d?:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
)
_EARLIEST, _LATEST = 1.4e9, 2.2e9  # seconds since the epoch
# gather dropped   peer 4 is silent   (a blank between words: no path and no name)
_WORDS = pattern_of(r"[^\W\d_]{2,}\S*\s+\S")
_SHARE_WORDED, _MOST_MESSAGES = 0.3, 3
# tarn-c14   wf-l2.site   c1s1n2
_HOST = pattern_of(r"(?=[\w.-]*\d)[A-Za-z][\w.-]{2,60}")
_NUMBERED = pattern_of(r"(.*?[A-Za-z_.-])(\d{1,6})")
_HOST_STEMS = ("node", "host", "machine", "gpu", "server")
# For a key of ranks: the least share of records that have it, of all numbers up to the highest, and of falling pairs.
_SHARE_RANKED, _SHARE_OF_RANKS, _SHARE_FALLING = 0.2, 0.75, 0.1
_MOST_RANKS = 4096
_DEEPEST = 2
# The numbers of these keys are counters, sizes, statuses or devices.
_NO_RANK_KEYS_WORDS = (
    "step epoch iter iteration batch global_step shard chunk part layer stage phase attempt attempts try tries "
    "retry retries round version v level status code rc exit_code errno line port gpu device local_rank cuda "
    "world_size size count total missed queue depth priority severity levelno lineno thread seq id n"
)
# "SlowestOrdinal": 3   "lost_seat": 3   "dst": 3   (the number of another process)
_OF_ANOTHER_PROCESS = pattern_of(r"(?i)slowest|worst|missing|lost|peer|src|dst|target|from|next|prev|suspect|victim")
_NO_RANK_KEYS = frozenset(map(folded, _NO_RANK_KEYS_WORDS.split()))
_QUIET = frozenset(("TRACE", "DEBUG", "INFO", "NOTICE", "WARNING"))
# Levels that count down: syslog's, where most records have 5 to 7, and those of Windows, where most have 4.
_SYSLOG = ("FATAL", "FATAL", "FATAL", "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG")
_WINDOWS = ("FATAL", "CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")
_OFTEN = 3
_TENS = frozenset(range(10, 70, 10))

_Value = TypeVar("_Value", str, int)
_Columns = Mapping[str, Sequence[object]]


def learnt(records: Sequence[Record], forms: Forms) -> Forms:
    """The forms with the keys that the first records of a stream show, and with the meaning of their numbered levels;
    unchanged where these are no logger's records."""
    keys = forms.keys
    if len(records) < FEWEST_RECORDS:
        return forms
    if sum(plan_of(tuple(record), keys).envelope for record in records) >= _MOSTLY * len(records):
        return forms
    for _ in range(_DEEPEST):  # {"ctx": {"unit": {"id": 13}}}
        keys = replace(keys, nested=(*keys.nested, *_objects_of(records, keys)))
        records = [opened_up(record, keys) for record in records]
    columns = _columns_of(records)
    time, level = _time_key(columns, records, keys), _level_key(columns, records, forms)
    spelt = (name for record in records for name in plan_of(tuple(record), keys).levels)
    keys = replace(keys, times=(*time, *keys.times), levels=tuple(dict.fromkeys((*level, *keys.levels, *spelt))))
    levels = {**forms.levels, **_counted_levels(columns, level or keys.levels)}
    if sum(_is_of_logger(record, keys, levels) for record in records) >= _MOSTLY * len(records):
        messages = tuple(_message_keys(records, keys))
        node = _node_key(columns, records, keys)
        whole = (*time, *level, *messages, *keys.messages, *keys.events)
        keys = replace(keys, messages=(*messages, *keys.messages), nodes=(*keys.nodes, *node), whole=whole)
    else:
        keys, records = forms.keys, [opened_up(record, forms.keys) for record in records]
    keys = replace(keys, ranks=(*_rank_key(columns, records, keys), *keys.ranks))
    return Forms(forms.forms, levels, keys)


def _columns_of(records: Sequence[Record]) -> dict[str, list[object]]:
    """The values of each key, in order."""
    columns: dict[str, list[object]] = {}
    for record in records:
        for key, value in record.items():
            columns.setdefault(key, []).append(value)
    return columns


def _objects_of(records: Sequence[Record], keys: Keys) -> list[str]:
    """The keys whose values are objects in most records: `"Proc": {"Id": 8203, "Seat": 4}`; also where it is a key of
    something else, if the objects name ranks: `"labels": {"replica": "11"}`."""
    apart = (*keys.messages, *keys.errors, *keys.attributes, *keys.nodes)
    elsewhere, ranks = set(map(folded, keys.elsewhere)), set(map(folded, keys.ranks))
    objects = [(key, value) for record in records for key, value in record.items() if isinstance(value, dict)]
    with_ranks = {folded(key) for key, value in objects if not ranks.isdisjoint(map(folded, value))}
    known = set(map(folded, apart)) | (elsewhere - with_ranks)
    counts = Counter(key for key, _ in objects)
    return [key for key, count in counts.items() if count >= _MOSTLY * len(records) and folded(key) not in known]


def _is_of_logger(record: Record, keys: Keys, levels: Mapping[str, str]) -> bool:
    """Whether a record has a valid time or level under the keys of these."""
    plan = plan_of(tuple(record), keys)
    return any(_is_time(record[key]) for key in plan.times) or bool(level_of(record, plan.levels, levels))


def _is_time(value: object) -> bool:
    if isinstance(value, str) and not value.isdecimal():
        return _TIME.fullmatch(value[:60]) is not None
    micros = micros_in(value)
    return micros is not None and _EARLIEST <= micros / 1e6 <= _LATEST


def _time_key(columns: _Columns, records: Sequence[Record], keys: Keys) -> tuple[str, ...]:
    """The first key whose values are times; none where a known key has them."""
    known = sum(any(_is_time(record[key]) for key in plan_of(tuple(record), keys).times) for record in records)
    if known >= _MOSTLY * len(records):
        return ()
    with_times = (
        key for key, values in columns.items() if len(values) >= _MOSTLY * len(records) and _are_times(values)
    )
    return tuple(with_times)[:1]


def _are_times(values: Sequence[object]) -> bool:
    """Whether nearly all values are times; numbers must also grow."""
    if sum(map(_is_time, values)) < _NEARLY_ALL * len(values):
        return False
    numbers = [value for value in values if isinstance(value, (int, float))]
    growing = sum(earlier <= later for earlier, later in pairwise(numbers))
    return not numbers or (len(set(numbers)) > 1 and growing >= _MOSTLY * (len(numbers) - 1))


def _level_key(columns: _Columns, records: Sequence[Record], forms: Forms) -> tuple[str, ...]:
    """The first key whose values are levels, as texts or in tens (Python, bunyan); none where a known key has them."""
    plans = ((record, plan_of(tuple(record), forms.keys).levels) for record in records)
    if any(isinstance(record[key], str) or type(record[key]) is int for record, levels in plans for key in levels):
        return ()
    often = ((key, values) for key, values in columns.items() if len(values) >= _HALF * len(records))
    return tuple(key for key, values in often if _are_levels(values, forms.levels))[:1]


def _are_levels(values: Sequence[object], levels: Mapping[str, str]) -> bool:
    texts = [levels.get(value.upper(), "") for value in values if isinstance(value, str)]
    if len(texts) == len(values):
        return sum(map(bool, texts)) >= _NEARLY_ALL * len(texts) and _most_common(texts) in _QUIET
    numbers = [value for value in values if type(value) is int]
    falling = sum(later < earlier for earlier, later in pairwise(numbers))
    return len(numbers) == len(values) and _TENS.issuperset(numbers) and falling > 1 and _most_common(numbers) <= 30


def _counted_levels(columns: _Columns, keys: Sequence[str]) -> dict[str, str]:
    """The level that each number under these keys means; empty where no number has most records. That number is taken
    for ordinary output. Greater numbers are warnings as far as they come often, and errors from there on."""
    known = set(map(folded, keys))
    numbers = [
        value for key, values in columns.items() if folded(key) in known for value in values if type(value) is int
    ]
    usual = _most_common(numbers) if numbers else -1
    if not 0 <= usual <= 20 or max(numbers) > max(_TENS) or numbers.count(usual) < _HALF * len(numbers):
        return {}
    if 4 <= usual <= 7 and max(numbers) <= 7:
        return {str(number): level for number, level in enumerate(_WINDOWS if usual == 4 else _SYSLOG)}
    if usual == 20:
        return {str(number): level for number, level in LEVELNO.items()}
    warning = max(number for number, count in Counter(numbers).items() if number == usual or count >= _OFTEN)
    calm = {number: "DEBUG" if number < usual else "WARNING" for number in range(max(warning, usual + 1) + 1)}
    errors = dict.fromkeys(range(len(calm), max(_TENS) + 1), "ERROR")
    return {str(number): level for number, level in {**calm, **errors, usual: "INFO"}.items()}


def _most_common(values: Sequence[_Value]) -> _Value:
    return Counter(values).most_common(1)[0][0]


def _message_keys(records: Sequence[Record], keys: Keys) -> Iterator[str]:
    """The keys of messages where no known key has one: each time the key under which most records without a message so
    far have a text of words."""
    without_events = replace(keys, events=())
    apart = (*keys.times, *keys.levels, *keys.nodes, *keys.errors, *keys.elsewhere)
    known = set(map(folded, apart))
    left = [record for record in records if not _has_text(record, plan_of(tuple(record), without_events).messages)]
    for _ in range(_MOST_MESSAGES):
        if len(left) < FEWEST_RECORDS:
            return
        candidates = {}
        for key, values in _columns_of(left).items():
            texts = [value for value in values if isinstance(value, str)]
            worded = sum(_WORDS.search(text) is not None for text in texts)
            if folded(key) not in known and len(texts) >= _MOSTLY * len(left) and worded >= _SHARE_WORDED * len(texts):
                candidates[key] = len(texts), worded, len(set(texts))
        if not candidates:
            return
        key = max(candidates, key=lambda name: candidates[name])
        yield key
        left = [record for record in left if not _has_text(record, (key,))]


def _has_text(record: Record, names: Sequence[str]) -> bool:
    return any(isinstance(record.get(name), str) for name in names)


def _node_key(columns: _Columns, records: Sequence[Record], keys: Keys) -> tuple[str, ...]:
    """The key of the host's name; none where a known key has it. Its values are names with a number that are not those
    of processes, and each comes again and again."""
    if any(plan_of(tuple(record), keys).nodes for record in records):
        return ()
    apart = set(map(folded, (*keys.times, *keys.levels, *keys.messages, *keys.elsewhere, *keys.speakers)))
    for key, values in columns.items():
        names = [value for value in values if isinstance(value, str) and _HOST.fullmatch(value)]
        distinct = set(names)
        if folded(key) in apart or len(names) < max(_MOSTLY * len(records), _NEARLY_ALL * len(values)):
            continue
        if len(distinct) > 1 and 3 * len(distinct) <= len(names) and not _are_processes(names):
            return (key,)
    return ()


def _are_processes(names: Sequence[str]) -> bool:
    """Whether names are those of processes, which are numbered from 0 or 1: hand00, hand01, ..., brain0, brain1, ..."""
    numbers: dict[str, list[int]] = {}
    for match in filter(None, map(_NUMBERED.fullmatch, names)):
        if not match[1].lower().startswith(_HOST_STEMS):
            numbers.setdefault(match[1], []).append(int(match[2]))
    return bool(numbers) and all(min(of_stem) <= 1 for of_stem in numbers.values())


def _rank_key(columns: _Columns, records: Sequence[Record], keys: Keys) -> tuple[str, ...]:
    """The key by which these records number their processes; none where a known key does so in as many of them. Its
    numbers begin at 0 or 1, leave few out, and go to and fro, which those of steps do not."""
    known_ranks = [names for record in records if (names := plan_of(tuple(record), keys).ranks)]
    if any("rank" in names[0].lower() for names in known_ranks):
        return ()
    apart = _NO_RANK_KEYS | set(map(folded, (*keys.times, *keys.levels, *keys.ranks)))
    numbers = {key: [value for value in values if type(value) is int] for key, values in columns.items()}
    possible = {
        key: values
        for key, values in numbers.items()
        if folded(key) not in apart and not _OF_ANOTHER_PROCESS.search(key)
    }
    fitting = [key for key, values in possible.items() if len(values) > len(known_ranks)]
    fitting = [key for key in fitting if _numbers_processes(possible[key], len(records))]
    return (max(fitting, key=lambda name: len(numbers[name])),) if fitting else ()


def _numbers_processes(values: Sequence[int], records: int) -> bool:
    """Whether the values of one key, in so many records, are the numbers of processes."""
    distinct = set(values)
    if len(values) < _SHARE_RANKED * records or len(values) < 2 * len(distinct) or not 1 < len(distinct) <= _MOST_RANKS:
        return False
    dense = min(distinct) in (0, 1) and len(distinct) >= _SHARE_OF_RANKS * (max(distinct) - min(distinct) + 1)
    falling = sum(later < earlier for earlier, later in pairwise(values))
    return dense and falling >= max(2, _SHARE_FALLING * len(values))
