"""Files that were printed one below the other tell by their headings who says the lines below."""

from __future__ import annotations

import pytest

from logdiag import diagnose
from logdiag.read.names import places_by_folder, section_at, sections_in

_WORK = ["[    0.3] weft 9.2 on acc 0", "[   11.5] pick     4  loss 2.139e-04", "[   18.9] pick     8  loss 2.175e-04"]
_FAILS = "KeyError: 'weft'"


def _log(*names: str, failing: int) -> str:
    parts = [f"==> {name} <==\n" + "\n".join([*_WORK, *([_FAILS] * (at == failing))]) for at, name in enumerate(names)]
    return "\n\n".join([*parts, "weave: ended with 40"])


def test_a_heading_tells_rank_and_host_of_the_lines_below_it() -> None:
    """By the number in the file's name, and by the host in brackets."""
    log = _log("ox.000.out (elm-7)", "ox.001.out (oak-3)", "ox.002.out (oak-3)", failing=1)
    root = diagnose(log.encode()).root_cause
    assert root is not None
    assert (root.rank, root.node) == (1, "oak-3")


@pytest.mark.parametrize("names", [("elm-7.out", "oak-3.out"), ("logs/elm-7.log", "logs/oak-3.log")])
def test_a_file_may_be_named_for_its_host(names: tuple[str, str]) -> None:
    """Then it tells no rank."""
    root = diagnose(_log(*names, failing=1).encode()).root_cause
    assert root is not None
    assert (root.rank, root.node) == (None, "oak-3")


def test_what_follows_the_last_file_is_nobodys() -> None:
    """A blank line ends it; between files it does not matter."""
    data = _log("ox.0.out", "ox.1.out", failing=0).encode()
    sections = list(sections_in(data, 0))
    last = data.count(b"\n")
    assert [section.rank for section in sections] == [0, 1]
    assert section_at(sections, last) is None
    assert section_at(sections, 1) == sections[0]
    assert section_at(sections, last - 2) == sections[1]


def test_a_folder_for_each_host_tells_the_hosts_of_numbered_files() -> None:
    """The files are numbered over all folders; folders of runs and parts are no hosts."""
    names = [f"/srv/log/{('elm-nord', 'elm-west')[boat // 2]}/boat-{boat:02}.log" for boat in range(4)]
    data = "".join(f"==> {name} <==\nsail up\n\n" for name in ["/srv/log/coach.log", *names]).encode()
    told = [(section.rank, section.node) for section in sections_in(data, 0)]
    assert told == [(None, None), (0, "elm-nord"), (1, "elm-nord"), (2, "elm-west"), (3, "elm-west")]
    assert not places_by_folder(f"run-{boat // 2}/boat-{boat}.log" for boat in range(4))
    assert not places_by_folder(f"elm-{boat // 2}/boat-{boat % 2}.log" for boat in range(4))
    assert not places_by_folder(f"elm-0/boat-{boat}.log" for boat in range(4))
    some = [("elm-7", 0), ("elm-7", 3), ("oak-3", 5), ("oak-3", 7)]
    assert places_by_folder(f"{host}/boat-{boat}.log" for host, boat in some)["oak-3/boat-7.log"] == (7, "oak-3")
    assert not places_by_folder(f"{host}/boat-{boat}.log" for host, boat in [*some, ("elm-7", 6)])
    assert not places_by_folder(f"{host}/boat-{boat}.log" for host, boat in [("elm-7", 0), ("oak-3", 1)])
