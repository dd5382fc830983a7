"""Patterns that were compiled before find what they found then, and whatever was kept of them can be done without."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from logdiag.patterns import pattern_of, program_of, restored
from logdiag.rules import RuleBook
from logdiag.rules.searching import unanchored
from tests.helpers import ROOT

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="nothing is kept where re is built another way")

_ASK = "from logdiag.patterns import keep, pattern_of; print(pattern_of(r'(?i)step (?P<n>\\d+)').search('STEP 7')['n'])"
_GARBAGE = """
from logdiag.patterns import _NAME, _made_by
from logdiag.settings import cache
cache.write(_NAME, _made_by(), {(r'(?i)step (?P<n>\\d+)', 0): (0, b'garbage!', 1, {}, (None,))})
"""


def test_every_shipped_pattern_finds_the_same_from_its_program() -> None:
    """Where and what each pattern of a rule finds on the rule's own examples."""
    asked = 0
    for rule in RuleBook.load().rules:
        for pattern in map(unanchored, (*rule.match, *rule.unless)):
            try:
                anew = re.compile(pattern)
            except re.error:  # the few that need `regex`
                continue
            ready = restored(pattern, program_of(pattern, 0))
            assert (ready.flags, ready.groups, ready.groupindex) == (anew.flags, anew.groups, anew.groupindex), pattern
            for example in (*rule.fires, *rule.quiet):
                found, expected = ready.search(example), anew.search(example)
                assert (found and (found.span(), found.groupdict())) == (
                    expected and (expected.span(), expected.groupdict())
                ), (pattern, example)
                asked += expected is not None
    assert asked > 1000


def test_flags_and_bytes_are_kept_too() -> None:
    """A pattern of bytes, and one whose flags are given beside it."""
    ready = restored(rb"^a.b$", program_of(rb"^a.b$", int(re.MULTILINE | re.DOTALL)))
    assert ready.findall(b"x\na\nb\n") == [b"a\nb"]
    assert pattern_of("WORD", re.IGNORECASE).search("a word")


def test_a_program_that_is_none_is_refused() -> None:
    """The engine of `re` checks what it is given."""
    with pytest.raises((RuntimeError, ValueError)):
        restored("a+", (0, b"\xff" * 16, 0, {}, (None,)))


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """What the first one kept is not written again."""
    assert _asked(tmp_path, f"{_ASK}; keep()") == "7"
    (kept,) = tmp_path.glob("patterns-*")
    before = kept.stat().st_ino, kept.read_bytes()
    assert _asked(tmp_path, f"{_ASK}; keep()") == "7"
    assert (kept.stat().st_ino, kept.read_bytes()) == before


@pytest.mark.parametrize("spoil", ["torn", "garbage"])
def test_what_cannot_be_used_costs_only_time(tmp_path: Path, spoil: str) -> None:
    """A torn file, and a program that is none."""
    _asked(tmp_path, f"{_ASK}; keep()" if spoil == "torn" else _GARBAGE)
    (kept,) = tmp_path.glob("patterns-*")
    if spoil == "torn":
        kept.write_bytes(kept.read_bytes()[:-3])
    assert _asked(tmp_path, _ASK) == "7"


def test_loading_the_library_leaves_no_folder(tmp_path: Path) -> None:
    """Only what keeps something makes a place for it."""
    _asked(tmp_path / "cache", "import logdiag")
    assert not (tmp_path / "cache").exists()


def _asked(cache: Path, program: str) -> str:
    """What a process with a cache of its own prints."""
    environment = {**os.environ, "LOGDIAG_CACHE": str(cache)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
