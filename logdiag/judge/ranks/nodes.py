"""Finds the host of the root in software that no rule knows: weighs each word that may be a host's name by its form, by
where it stands and by the ranks on its lines, with weights that were learnt (`weights.json`)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from logdiag.judge.ranks.directory import in_full
from logdiag.judge.ranks.host_names import may_be_a_host
from logdiag.judge.ranks.processes import the_only
from logdiag.judge.ranks.readings import Book
from logdiag.judge.ranks.vocabulary import BEFORE_HOSTS, COUNTERS, DEVICES, HOST_WORDS, PROCESSES
from logdiag.judge.ranks.weights import score
from logdiag.judge.ranks.witnesses import Root
from logdiag.judge.ranks.words import Row, counted, head_of, singular, without_numbers

# So many lines are looked at: the first, those around the root, the last; the first few are the job's banner.
_FIRST, _AROUND, _LAST, _BANNER = 300, 30, 100, 14
_MOST_WORDS, _HEAD, _HEAD_OF_SPEAKER, _LONGEST_RECORD = 40, 4, 6, 8
_JOINTS = ("/", ".", "=-", "_")
# A listing of hosts with such odds is right for 96 of 100 ranks.
_SURE = 1.5
_LEAST_CHANCE = 0.25
_LEAST_LEAD = 1.05
_SILENT = "silent"


class Candidate(NamedTuple):
    """A word that may be the root's host, and the features of that guess."""

    host: str
    features: Mapping[str, float]


@dataclass(slots=True)
class _Seen:
    """The lines that have a word, and how often it stands after a word for a host (`after_host_word`), after `on`, `at`
    or `to` (`after_preposition`), early in a line, and as a part of a path or a dotted name."""

    rows: list[Row] = field(default_factory=list)
    after_host_word: int = 0
    after_preposition: int = 0
    in_heads: int = 0
    in_paths: int = 0


def node_by_words(book: Book, root: Root, rank: int | None) -> str | None:
    """The likeliest host, else the one that a listing has for the root's rank; None where none is likely. `rank` is the
    root's, None where it is not known."""
    weighed = [(math.exp(score("node", word.features)), word.host) for word in candidates(book, root, rank)]
    weighed.sort(reverse=True)
    share = math.exp(score("node", {_SILENT: 1})) + sum(weight for weight, _ in weighed)
    likely = bool(weighed) and weighed[0][0] >= _LEAST_CHANCE * share
    tied = len(weighed) > 1 and weighed[0][0] < _LEAST_LEAD * weighed[1][0]
    if likely and not tied:
        return in_full(weighed[0][1], book.rows)
    directory = book.directory
    listed = directory.hosts.get(rank) if rank is not None and directory.sure >= _SURE else None
    return in_full(listed, book.rows) if listed else None


def candidates(book: Book, root: Root, rank: int | None) -> list[Candidate]:
    """All words that may be the root's host, of the lines that are looked at."""
    rows, root_index = book.rows, root.row.at
    near = range(max(0, root_index - _AROUND), min(len(rows), root_index + _AROUND))
    indices = {*range(min(_FIRST, len(rows))), *near, *range(max(0, len(rows) - _LAST), len(rows))}
    listed = {host.partition(".")[0] for host in book.directory.hosts.values()}
    words = _words_of([rows[index] for index in sorted(indices)], listed)
    forms = Counter(map(without_numbers, words))
    if not any(word in listed or _is_host(word, seen, forms[without_numbers(word)]) for word, seen in words.items()):
        return []
    named = {index: _ranks_named(rows[index], book) for index in indices}
    families, beside_ranks = _families(words, named), _alone_beside_ranks(words, named)
    found = []
    for word, seen in words.items():
        form = without_numbers(word)
        if word in listed or _is_host(word, seen, len(beside_ranks[form])):
            features = {
                **_by_form(word, book, math.log2(forms[form])),
                **_by_position(word, seen, book, root, listed),
                **_by_rank(word, seen, book, rank, named, families[form]),
            }
            found.append(Candidate(word, features))
    return found


def _words_of(rows: Sequence[Row], listed: AbstractSet[str]) -> dict[str, _Seen]:
    """Words that look like hosts, are listed as such, or stand after a word that precedes hosts; with their lines."""
    found: dict[str, _Seen] = defaultdict(_Seen)
    for row in rows:
        before = ""
        for index, word in enumerate(row.words[:_MOST_WORDS]):
            # host=elm   node: oak-3   (but "the node was low on memory")
            after_host_word = before in HOST_WORDS and (may_be_a_host(word) or bool(row.signs[index].strip()))
            after_preposition = before in BEFORE_HOSTS
            if word in listed or may_be_a_host(word) or ((after_host_word or after_preposition) and word[0].isalpha()):
                seen = found[word]
                seen.after_host_word += after_host_word
                seen.after_preposition += after_preposition
                seen.in_heads += index < _HEAD
                seen.in_paths += _in_path(row, index)
                if not seen.rows or seen.rows[-1] is not row:
                    seen.rows.append(row)
            before = row.lower[index]
        prefix = (row.line.node or "").partition(".")[0]
        if prefix and (not found[prefix].rows or found[prefix].rows[-1] is not row):
            found[prefix].rows.append(row)
    return found


def _in_path(row: Row, index: int) -> bool:
    """Whether a word is a part of a path or a longer name: `/opt/conda/lib/python3/site`, `libnccl.so`, `c10::X`."""
    after = row.signs[index + 1] if index + 1 < len(row.signs) else ""
    name_goes_on = after == "." and not row.words[index + 1].isdecimal()
    return row.signs[index].endswith(_JOINTS) or after in {"/", "_"} or after.startswith("::") or name_goes_on


def _ranks_named(row: Row, book: Book) -> AbstractSet[int]:
    """The rank that printed a line, and those that it names."""
    found = {row.line.rank, book.speakers[row.at][0] if row.at in book.speakers else None}
    found.update(book.directory.rank_at(row, index) for index in range(min(_MOST_WORDS, len(row.words))))
    return {rank for rank in found if rank is not None}


def _is_host(word: str, seen: _Seen, alike: int) -> bool:
    """Whether more than its form makes a word a host: the word before it, a line's prefix, or that several `alike`
    stand beside ranks, one on a line. Not so for `python3`, `bf16`, `rank3` and the ports of `port=hx0,hx1`."""
    prefix = any((row.line.node or "").partition(".")[0] == word for row in seen.rows)
    numbered = any(map(str.isdigit, word)) and counted(word)[0].lower() != "rank"
    host_like = may_be_a_host(word) and numbered and seen.in_paths == 0
    in_banner = seen.after_preposition > 0 and seen.rows[0].at < _BANNER
    return prefix or (seen.after_host_word > 0 and seen.in_paths == 0) or (host_like and (in_banner or alike > 1))


def _families(
    words: Mapping[str, _Seen], named: Mapping[int, AbstractSet[int]]
) -> Mapping[str, Mapping[int, set[str]]]:
    """By form and by rank, the words of that form on lines that name this rank alone."""
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for word, seen in words.items():
        for row in seen.rows:
            if (rank := the_only(named[row.at])) is not None:
                found[without_numbers(word)][rank].add(word)
    return found


def _alone_beside_ranks(
    words: Mapping[str, _Seen], named: Mapping[int, AbstractSet[int]]
) -> Mapping[str, AbstractSet[str]]:
    """By form, the words that stand on lines that name one rank alone, without another word of that form there."""
    times = Counter((without_numbers(word), row.at) for word, seen in words.items() for row in seen.rows)
    found: dict[str, set[str]] = defaultdict(set)
    for word, seen in words.items():
        form = without_numbers(word)
        if any(len(named[row.at]) == 1 and times[form, row.at] == 1 for row in seen.rows):
            found[form].add(word)
    return found


def _by_form(word: str, book: Book, alike: float) -> dict[str, float]:
    """What a word looks like; `alike` is the logarithm of how many have its form."""
    stem = singular(counted(word)[0])
    listing, named = book.directory.listing, book.directory.names.get(word.lower())
    return {
        "digit": any(map(str.isdigit, word)),
        "dash": "-" in word,
        "upper": word.isupper(),
        "short stem": len(stem) < len("ab"),
        "device": stem in DEVICES,
        "process": stem in PROCESSES,
        "counter": stem in COUNTERS,
        "counted": listing is not None and bool(stem) and stem == listing.noun,
        "a process's name": named is not None and not named.is_host,
        "family": min(alike, 4) / 4,
    }


def _by_position(word: str, seen: _Seen, book: Book, root: Root, listed: AbstractSet[str]) -> dict[str, float]:
    """The features of where a word stands: in the log, in the root's line, in the head of its record."""
    rows = seen.rows
    speaking = head_of(book.rows, root.row) or root.row
    head = zip(speaking.words[:_HEAD_OF_SPEAKER], speaking.signs, strict=False)
    at_sign = {name for name, signs in head if signs.endswith("@")}
    listed_in_root = listed & set(root.row.words)
    # The lines between the head of a short record and the root's line are of one process: `Writer: warden of elm-7`.
    short = root.row.at - speaking.at <= _LONGEST_RECORD
    in_root = any(row is root.row or (short and speaking.at < row.at < root.row.at) for row in rows)
    return {
        "rows": min(math.log2(1 + len(rows)), 8) / 8,
        "in banner": rows[0].at < _BANNER,
        "in heads": seen.in_heads / len(rows),
        "share in paths": seen.in_paths / len(rows),
        "said": seen.after_host_word > 0,
        "asked": seen.after_preposition > 0,
        "share asked": seen.after_preposition / len(rows),
        "listed": word in listed,
        "in root": in_root,
        "machine, in root": root.machine and in_root,
        "another behind @": bool(at_sign) and word not in at_sign and not root.machine,
        "machine, only listed in root": root.machine and listed_in_root == {word},
    }


def _by_rank(
    word: str,
    seen: _Seen,
    book: Book,
    rank: int | None,
    named: Mapping[int, AbstractSet[int]],
    family: Mapping[int, set[str]],
) -> dict[str, float]:
    """The features of how a word goes with the root's rank, and the words of its form with all ranks."""
    with_rank = sum(rank in named[row.at] for row in seen.rows)
    of_rank = sum(rank in ranks for ranks in named.values())
    every = len(set().union(*named.values()))
    one_each = sum(len(words) == 1 for words in family.values())
    only = rank is not None and family.get(rank) == {word}
    listed = (book.directory.hosts.get(rank, "") if rank is not None else "").partition(".")[0]
    return {
        "rank known": rank is not None,
        "share with rank": with_rank / len(seen.rows),
        "share of rank's": with_rank / max(1, of_rank),
        "one each": one_each / max(1, len(family)),
        "rank's only, one each": only * one_each / max(1, len(family)),
        "rank's only, covers": only * one_each / max(1, every),
        "listed for rank": word == listed,
        "sure of rank's": (word == listed) * max(-2.0, min(book.directory.sure, 5.0)) / 5,
        "another listed for rank": bool(listed) and word != listed,
    }
