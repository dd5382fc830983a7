"""Turns dumps of torch's flight recorder, pickled or JSON, into lines that are read as any log: one for each record, so
that record 5 is line 5, then for each process group how far the rank got in it."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from logdiag.errors import SourceError
from logdiag.model import number_in
from logdiag.model.plain import rank_ranges
from logdiag.patterns import pattern_of
from logdiag.read.decompression import broken_stream_errors, decompressed
from logdiag.read.records import from_micros

LARGEST_DUMP = 1 << 26
"""Bytes; a larger one is not read. 2,000 records take up to 2 MB."""

_PICKLE = pattern_of(rb"\x80[\x02-\x05]")
_HEAD_BYTES = 1 << 12
# nccl_trace_rank_3   fr_dump.12   trace-7.pkl   rank3.json   (only files with such names are opened)
_NAME = pattern_of(r"(?i)trace|dump|flight|recorder|nccl|rank|\d$|\.(?:pkl|pickle|json)$")
_KEYS = (b"pg_config", b"entries", b"collective_seq_id")
# nccl_trace_rank_3   _dump_12   fr-7.pkl
_LAST_NUMBER = pattern_of(r"(\d{1,6})(?:\.\w{1,8})?$")
_CONTROL = pattern_of(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# So many records of one group are written with all they hold.
_MOST_IN_FULL = 64
_MOST_FRAMES, _MOST_SIZES, _LONGEST_WORD = 6, 8, 120
# torch/distributed/distributed_c10d.py, c10d_logger.py: in every stack.
_OF_TORCH = pattern_of(r"torch[/\\]distributed[/\\]\w*c10d\w*\.py$")


def is_dump(head: bytes) -> bool:
    """Whether a file's first bytes are those of a flight recorder's dump, or of a pickle that may be one."""
    if _PICKLE.match(head):
        return True
    return head.lstrip()[:1] == b"{" and sum(key in head for key in _KEYS) >= 2


def holds_dump(path: str) -> bool:
    """Whether a file of a job's folder is a dump; other pickles, as of checkpoints, are none."""
    if not (_NAME.search(os.path.basename(path)) and os.path.isfile(path)):
        return False
    try:
        with open(path, "rb") as file:
            head = next(decompressed(file), b"")[:_HEAD_BYTES]
    except broken_stream_errors():
        return False
    return is_dump(head) and any(key in head for key in _KEYS)


def lines_of_dump(data: bytes, name: str) -> Iterator[bytes]:
    """The lines of a dump, each with its newline. `name` is that of the file, which may hold the rank.

    Raises SourceError for one that is broken, that would run code, or that holds no records.
    """
    if _PICKLE.match(data):
        from logdiag.read.pickles import plain_pickle

        dump = plain_pickle(data, name)
    else:
        import json

        try:
            dump = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{name}: a flight recorder's dump that is no whole JSON; copy the whole file") from error
    if not isinstance(dump, dict) or not ({"entries", "pg_config", "pg_status"} & dump.keys()):
        raise SourceError(
            f"{name}: a pickle, but no dump of a flight recorder; name logs, or dumps of torch's recorder"
        )
    records = [_Record(item) for item in _list(dump.get("entries")) if isinstance(item, dict)]
    rank = _rank(name, dump)
    speaker = "" if rank is None else f"[rank{rank}]: "
    counts: Counter[tuple[str, bool]] = Counter()
    words = []
    for record in reversed(records):
        counts[record.group, record.between_two] += 1
        words.append(record.words() if counts[record.group, record.between_two] <= _MOST_IN_FULL else record.short)
    for record, text in zip(records, reversed(words), strict=True):
        yield f"{record.at} {speaker}flight recorder: {text}\n".encode(errors="replace")
    for line in _standings(records, dump):
        yield f"{speaker}flight recorder: {line}\n".encode(errors="replace")


class _Record:
    """One entry of a dump; what is missing or of the wrong kind is empty."""

    def __init__(self, entry: Mapping[Any, Any]) -> None:
        group = [_word(item) for item in _list(entry.get("process_group"))[:2]]
        name, description = [*group, "", ""][:2]
        self.group = name or str(_number(entry.get("pg_id")) or 0)
        self.group_words = f"PG GUID {self.group}({description})"
        self.group_id = str(_number(entry.get("pg_id")) or 0)
        self.between_two = entry.get("is_p2p") is True
        self.sequence = _number(entry.get("p2p_seq_id" if self.between_two else "collective_seq_id")) or 0
        backend, _, operation = _word(entry.get("profiling_name")).rpartition(":")
        self.operation = re.sub(r"ALL_(?=REDUCE|GATHER|TO)", "ALL", operation.upper()) or "UNKNOWN"
        self.state = _word(entry.get("state")) or "unknown"
        # Gloo records no end of a call: what it has retired is over.
        self.pending = self.state != "completed" and not (entry.get("retired") is True and backend == "gloo")
        created = (_number(entry.get("time_created_ns")) or 0) // 1000
        self.at = from_micros(created if 0 < created < 4e15 else 0)
        self.short = f"earlier {self.operation} SeqNum={self.sequence} of {self.group_words} {self.state}"
        self._entry = entry

    def words(self) -> str:
        """The record in full: the call with its sizes, types and stack."""
        entry = self._entry
        sizes = f"{_sizes(entry.get('input_sizes'))}->{_sizes(entry.get('output_sizes'))}"
        kinds = ",".join(_word(kind) for kind in _list(entry.get("input_dtypes"))[:_MOST_SIZES])
        described = (
            _frame(_word(item.get("filename")), _word(item.get("name")), _number(item.get("line")) or 0)
            for item in _list(entry.get("frames"))
            if isinstance(item, dict)
        )
        frames = list(islice(filter(None, described), _MOST_FRAMES))
        stack = f", at {' < '.join(frames)}" if frames else ""
        scope = "between two" if self.between_two else "collective"
        call = f"{scope} {self.operation} SeqNum={self.sequence} of {self.group_words} {self.state}"
        return f"{call}, sizes={sizes} {kinds}{stack}"


def _standings(records: list[_Record], dump: Mapping[Any, Any]) -> Iterator[str]:
    """For each group how far the rank got, in the words of torch's watchdog, and its first call that did not finish."""
    groups: dict[str, list[_Record]] = defaultdict(list)
    for record in records:
        groups[record.group].append(record)
    status, config = _mapping(dump.get("pg_status")), _mapping(dump.get("pg_config"))
    for name, of_group in groups.items():
        whole = [record for record in of_group if not record.between_two]
        pending = [record for record in of_group if record.pending]
        if whole:
            left = [record.sequence for record in whole if record.pending]
            last = max(record.sequence for record in whole)
            started = _number(_mapping(status.get(of_group[0].group_id)).get("last_started_collective")) or -1
            yield (
                f"[PG ID {of_group[0].group_id} {of_group[0].group_words}] PG status: last enqueued work: {last}, "
                f"last started work: {started}, last completed work: {min(left) - 1 if left else last}, "
                f"ranks=[{rank_ranges(_members(config, name))}]"
            )
        if pending:
            first = pending[0]
            call = f"{first.operation} SeqNum={first.sequence} of {first.group_words}"
            yield f"{call} was not finished when this was written"


def _members(config: Mapping[Any, Any], group: str) -> list[int]:
    """The ranks of a group, which the dump has as a text: `[0, 1, 2]`; empty where it has none."""
    settings = config.get(group)
    if settings is None and len(config) == 1:
        settings = next(iter(config.values()))  # Gloo's default group has no name there
    ranks = _mapping(settings).get("ranks")
    return [int(rank) for rank in re.findall(r"\d{1,6}", ranks)] if isinstance(ranks, str) else []


def _rank(name: str, dump: Mapping[Any, Any]) -> int | None:
    """The rank that wrote a dump: the last number of its name, or else the only rank that is in all its groups."""
    if number := _LAST_NUMBER.search(os.path.basename(name)):
        return number_in(number[1])
    groups = [set(_members({0: item}, "")) for item in _mapping(dump.get("pg_config")).values()]
    shared = set.intersection(*groups) if groups else set()
    return shared.pop() if len(shared) == 1 else None


@lru_cache(maxsize=1 << 12)
def _frame(path: str, name: str, line: int) -> str:
    """A frame as `step (job.py:9)`; empty for one of torch's own."""
    return "" if _OF_TORCH.search(path) else f"{name} ({os.path.basename(path)}:{line})"


def _sizes(value: object) -> str:
    shapes = [[_number(size) or 0 for size in _list(shape)[:_MOST_SIZES]] for shape in _list(value)[:_MOST_SIZES]]
    return str(shapes).replace(" ", "")


def _number(value: object) -> int | None:
    if isinstance(value, str):
        return -1 if value == "-1" else number_in(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _word(value: object) -> str:
    if not isinstance(value, str):
        return ""
    cut = value[:_LONGEST_WORD]
    return cut if cut.isprintable() else _CONTROL.sub("?", cut)


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}
