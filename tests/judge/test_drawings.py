"""Matrices, boxes and JSON texts tell where processes run."""

from __future__ import annotations

import pytest

from logdiag.judge.ranks.directory import directory_of
from logdiag.judge.ranks.drawings import drawn
from logdiag.judge.ranks.words import rows_of
from logdiag.read.prefixes import parse_line

_HOSTS = {0: "elm-7", 1: "elm-7", 2: "oak-3", 3: "oak-3"}

_BOXES = """\
+----- elm-7 -----+   +----- oak-3 -----+
| seat 0 | seat 1 |   | seat 2          |
|                 |   | seat 3          |
+-----------------+   +-----------------+
"""
_NAMES_INSIDE = """\
┌────────┐
│ elm-7  │
│ seat 0 │
│ seat 1 │
└────────┘
     │
┌────────┐
│ oak-3  │
│ seat 2 │
│ seat 3 │
└────────┘
"""
_JSON = """\
10:00:00 launch: the plan is {
  "places": [
    {
      "host": "elm-7",
      "seats": [
        0,
        1
      ]
    },
    {
      "host": "oak-3",
      "seats": [
        2,
        3
      ]
    }
  ]
}
"""
_BY_NAME = """\
{
  "elm-7": [
    0,
    1
  ],
  "oak-3": [
    2,
    3
  ]
}
"""
_CUT_OFF = """\
{
  "seen": [
    {
      "host": "elm-7",
      "seats": [0, 1]
    },
"""
_HOSTS_ABOVE = """\
             elm-7  oak-3
 berth 0         0      2
 berth 1         1      3
"""
_HOSTS_BESIDE = """\
elm-7   0  1
oak-3   2  3
"""
_NAMES_BELOW_HOSTS = """\
 berth | elm-7  | oak-3
 ------+--------+--------
   0   | seat-0 | seat-2
   1   | seat-1 | seat-3
"""
_NAMES_BESIDE_HOSTS = """\
 host  | berth 0 | berth 1
 elm-7 | seat-0  | seat-1
 oak-3 | seat-2  | seat-3
"""
_FIRST_AND_COUNT = """\
[10:00:00] harbour: plan:
{
  "plan": [
    {
      "host": "elm-7",
      "seats": {
        "first": 0,
        "count": 2
      },
      "lamps": 4
    },
    {
      "host": "oak-3",
      "seats": {
        "first": 2,
        "count": 2
      },
      "lamps": 4
    }
  ],
  "total": 4
}
"""
_LISTS_BELOW_HOSTS = """\
{
  "plan": [
    {"host": "elm-7", "seats": [{"seat": 0, "pid": 4311}, {"seat": 1, "pid": 5127}]},
    {"host": "oak-3", "seats": [{"seat": 2, "pid": 6202}, {"seat": 3, "pid": 7419}]}
  ]
}
"""
_SHUFFLED = """\
seat  = 3
place = oak

seat  = 0
place = elm-7

seat  = 1
place = elm-7

seat  = 2
place = oak

"""


def _hosts_in(drawing: str) -> dict[int, str]:
    spoken = "".join(f"seat {seat}: loss 2.{turn}\n" for turn in range(3) for seat in range(4))
    rows = rows_of(parse_line(text, position=at) for at, text in enumerate((drawing + spoken).splitlines()))
    return dict(directory_of(rows, rows).hosts)


@pytest.mark.parametrize(
    "drawing",
    [
        *(_BOXES, _NAMES_INSIDE),
        *(_JSON, _BY_NAME, _FIRST_AND_COUNT, _LISTS_BELOW_HOSTS),
        *(_HOSTS_ABOVE, _HOSTS_BESIDE, _NAMES_BELOW_HOSTS, _NAMES_BESIDE_HOSTS),
    ],
)
def test_a_drawing_tells_on_which_host_each_process_runs(drawing: str) -> None:
    """Boxes side by side or below each other, JSON texts of objects or lists, matrices with hosts above or beside, of
    numbers or of names that are numbered."""
    assert _hosts_in(drawing) == _HOSTS


def test_a_host_may_have_one_process_of_those_that_are_counted() -> None:
    """A range of one stands beside ranges of several."""
    one = _FIRST_AND_COUNT.replace('"count": 2', '"count": 3', 1).replace('"first": 2', '"first": 3')
    assert _hosts_in(one.replace('"count": 2', '"count": 1')) == {0: "elm-7", 1: "elm-7", 2: "elm-7", 3: "oak-3"}


def test_blocks_in_any_order_tell_plain_and_numbered_places() -> None:
    """Each process prints its block when it comes up; one machine's name has a number, the other's has none."""
    assert _hosts_in(_SHUFFLED) == {**_HOSTS, 2: "oak", 3: "oak"}


@pytest.mark.parametrize(
    "text",
    [
        "+------+-------+\n| seat | place |\n+------+-------+\n| 0    | elm-7 |\n| 1    | oak-3 |\n+------+-------+\n",
        "the request was {\n 'seat': 0\n}\n",
        "elm-7  oak-3\n    7      9\n    8     11\n",
    ],
)
def test_what_is_no_drawing_gives_no_lines(text: str) -> None:
    """A table of several columns is read by its header, text of Python is no JSON, and measures count no processes."""
    assert list(drawn(rows_of(map(parse_line, text.splitlines())))) == []


@pytest.mark.parametrize("text", [_CUT_OFF, "[" * 100_000, "{\n" * 400], ids=["cut off", "deep", "never closed"])
def test_a_json_text_that_does_not_end_is_read_once(text: str) -> None:
    """None of its parts is read again, which would take long in a large text; what stands below it is."""
    rows = rows_of(map(parse_line, (text + "\n" + _BOXES).splitlines()))
    assert [row.line.text for row in drawn(rows)] == ["elm-7 seat 0", "elm-7 seat 1", "oak-3 seat 2", "oak-3 seat 3"]
