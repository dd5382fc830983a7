"""Lines without their numbers: what is left is the line's shape.

Numbers of base 16 (addresses, identifiers) have letters too. They are known by what stands before them (`0x`,
`request-`), which is learnt from the log: to look for them everywhere would take longer than all else.
"""

from __future__ import annotations

import re
from collections import Counter

from logdiag.model import HEX
from logdiag.patterns import pattern_of

DIGITS = b"0123456789"
# comm 0x55d0   request chatcmpl-1f   container=1f   "trace": "1f
_BEFORE = pattern_of(rb"(\b0x|[A-Za-z]+[^\w\\\n]{1,4})(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{6,}\b")
_LEARNT_BYTES, _OFTEN, _MOST = 1 << 14, 8, 12


def without_numbers(data: bytes, before: tuple[bytes, ...]) -> bytes:
    """Lines without digits, and with `HEX` for the numbers of base 16 that stand behind one of these words."""
    for word in before:
        if word in data:
            data = _numbers_behind(word).sub(word + HEX, data)
    return data.translate(None, DIGITS)


def words_before_numbers(data: bytes, known: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The words behind which numbers of base 16 often stand in the middle of a block, beside those that are known."""
    start = max(len(data) - _LEARNT_BYTES, 0) // 2
    found = Counter(_BEFORE.findall(data, start, start + _LEARNT_BYTES)).most_common(_MOST)
    new = [word for word, count in found if count >= _OFTEN and word not in known]
    return tuple(new[: _MOST - len(known)])


def _numbers_behind(word: bytes) -> re.Pattern[bytes]:
    # One that does not begin with its word is found many times slower.
    number = rb"(?<!\w0x)[0-9a-f]+\b" if word == b"0x" else rb"[0-9a-f]{6,}(?:-[0-9a-f]+)*\b"
    return re.compile(re.escape(word) + number)
