"""What looks like a host's name, and what may be one beside the processes of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

from logdiag.judge.ranks.vocabulary import DEVICES, NO_HOSTS, NO_NAMES
from logdiag.judge.ranks.words import counted, members
from logdiag.patterns import pattern_of

_HOST = pattern_of(r"(?=.*[\d-])[^\W\d_][^\W_]*(?:-[^\W_]+)*")
# nvme of nvme0n1   (but nothing of tp-gpu03)
_STEM_OF_DEVICE = pattern_of(r"([^\W\d_]+)\d")
_LEAST_OF_ONE_LETTER = 10
# No job has so many groups of tensors or of data, nor a host so many devices.
_MORE_THAN_GROUPS = 100
_MOST_CACHED = 16_384


@lru_cache(_MOST_CACHED)
def may_be_a_host(name: str) -> bool:
    """Whether a word looks like a host's name: elm-7, tg-lon-08, oil1, dp-112; but not c3, nor tp3."""
    if not _HOST.fullmatch(name):
        return False
    stem, number = counted(name)
    device = _STEM_OF_DEVICE.match(name)
    letters = stem or (device[1] if device else "")
    of_a_group = letters.lower() in NO_HOSTS and not ("-" in name and number >= _MORE_THAN_GROUPS)
    return not of_a_group and (number < 0 or len(stem) > 1 or number >= _LEAST_OF_ONE_LETTER)


def looks_like_a_host(word: str) -> bool:
    """Whether a word looks like a host's name, and like no device (`gpu12`) and no range (`tow01-tow08`)."""
    return may_be_a_host(word) and counted(word)[0] not in DEVICES and not members(word)


def may_be_a_place(word: str) -> bool:
    """Whether a word looks like a host, or is of letters alone and no single letter, level or setting."""
    return may_be_a_host(word) or (word.replace("-", "").isalpha() and len(word) > 1 and word.lower() not in NO_NAMES)


def may_be_shared_hosts(names: Sequence[str], *, called_hosts: bool = False) -> bool:
    """Whether words beside processes, in the order of their ranks, may be hosts that these share, though plain words:
    each comes as often, in blocks (a a b b) or in turn (a b a b a b), and is no number, level or device. What looks
    like hosts, or is called so, may come unequally often, in blocks of two at least."""
    each = Counter(names)
    count = len(each)
    if not 1 < count < len(names):
        return False
    in_turn = len(names) > 2 * count and all(name == names[index % count] for index, name in enumerate(names))
    alike = all(map(looks_like_a_host, each))
    names_of_places = all(map(may_be_a_place, each))
    if len(set(each.values())) > 1:
        return (alike or (called_hosts and names_of_places)) and neighbours_share(names) and min(each.values()) > 1
    return alike or (names_of_places and (neighbours_share(names) or in_turn))


def neighbours_share(names: Sequence[str]) -> bool:
    """Whether equal words always stand together, and one comes again: a a b."""
    return len(set(names)) == sum(1 for _ in groupby(names)) < len(names)
