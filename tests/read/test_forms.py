"""Log forms: data with proof, and those of the user's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logdiag import RuleError, diagnose
from logdiag.read.form_check import check, read_alone
from logdiag.read.forms import load_forms, shipped_forms
from logdiag.read.prefixes import parse_line
from logdiag.read.sources import open_sources
from tests.helpers import log_of, run_logdiag, steps

OWN = r"""
label:
  title: The harbour's launcher
  pattern: '<(?P<node>[a-z]+-\d+)#w(?P<rank>\d{1,5})> ?'
  samples:
    - line: '<pier-3#w07> E 10:00:00 no pulse'
      message: 'no pulse'
      node: pier-3
      rank: 7
      time: '10:00:00'
      level: ERROR
"""
SLOW = r"""
slow:
  title: A pattern that runs away
  pattern: '<(?:\w|\w\w)+>'
  samples: [{line: '<a> no pulse', message: no pulse}]
"""


def folder(at: Path, text: str, name: str = "harbour") -> Path:
    """A folder of rules that holds one file of forms."""
    (at / "forms").mkdir(parents=True, exist_ok=True)
    (at / "forms" / f"{name}.yaml").write_text(text)
    return at


def problems(at: Path) -> list[str]:
    """What `logdiag forms test` says of a folder."""
    return [str(problem) for problem in check(load_forms([at], proof=True))]


def test_every_shipped_form_is_proved() -> None:
    """Each sample is read as it says, no form takes another's, and no pattern runs away."""
    assert check(load_forms(proof=True)) == []


def test_shipped_forms_come_from_the_cache_as_they_are_read() -> None:
    """The cached ones are the same, in the same order, without their proof."""
    proved, cached = load_forms(proof=True), load_forms()
    assert [(form.id, form.pattern, form.begins) for form in cached.forms] == [
        (form.id, form.pattern, form.begins) for form in proved.forms
    ]
    assert all(not form.samples for form in load_forms().forms)
    assert shipped_forms() is shipped_forms()


def test_a_form_of_ones_own_names_rank_and_node(tmp_path: Path) -> None:
    """In the answer, by `rules=` and by `--rules`; without it they are guesses at best."""
    lines = [f"<pier-{at % 4}#w{at % 4:02d}> I 10:00:{at:02d} step {at} loss 2.1" for at in range(40)]
    log = tmp_path / "job.log"
    log.write_bytes(log_of(*lines, "<pier-3#w07> E 10:01:00 CUDA error: an illegal memory access was encountered"))
    own = folder(tmp_path / "own", OWN)
    answer = diagnose(log, rules=own, memory=False)
    assert answer.root_cause is not None
    assert (answer.root_cause.rank, answer.root_cause.node) == (7, "pier-3")
    assert not answer.root_cause.rank_guessed
    without = diagnose(log, memory=False)
    assert without.root_cause is not None
    assert without.root_cause.rank is None or without.root_cause.rank_guessed
    assert b"pier-3" in run_logdiag("--rules", own, "--format", "json", log).stdout.split(b'"node":')[1][:20]


def test_why_says_which_forms_a_line_has(tmp_path: Path) -> None:
    """With the text that each took, and what it all says; a record in JSON as it is read."""
    said = run_logdiag("forms", "why", "[rank5]: 10:00:00 ERROR no pulse").stdout.decode()
    assert [line.split()[0] for line in said.splitlines()[:3]] == [
        "launchers/torchrun-rank",
        "clocks/time-of-day",
        "loggers/level",
    ]
    assert "  rank = 5" in said
    assert "  message = no pulse" in said
    record = '{"time": "2026-11-04 10:00:00", "rank": 3, "message": "no pulse"}'
    assert "a record; it is read as: 2026-11-04" in run_logdiag("forms", "why", record).stdout.decode()
    own = run_logdiag("forms", "why", "--rules", folder(tmp_path, OWN), "<pier-3#w07> no pulse").stdout.decode()
    assert own.startswith("harbour/label  '<pier-3#w07> '")


def test_test_proves_ones_own_forms(tmp_path: Path) -> None:
    """Exit status 0 and a count; 1 and a sentence with file and line where one is wrong."""
    done = run_logdiag("forms", "test", folder(tmp_path, OWN))
    assert (done.returncode, done.stdout.decode().split(", ")[-1]) == (0, "0 problems\n")
    done = run_logdiag("forms", "test", folder(tmp_path, OWN.replace("rank: 7", "rank: 8")))
    assert done.returncode == 1
    assert "harbour.yaml:6: harbour/label: " in done.stdout.decode()
    assert "rank 7 instead of 8" in done.stdout.decode()


def test_a_form_that_takes_anothers_sample_is_found(tmp_path: Path) -> None:
    """Each fits the sample of the other: neither is the narrower one."""
    thief = """
thief:
  title: Takes ranks for processes
  pattern: '\\[rank(?P<speaker>\\d+)\\]:? ?'
  samples: [{line: '[rank5]: no pulse', speaker: '5', message: no pulse}]
"""
    found = problems(folder(tmp_path, thief))
    assert any("harbour/thief takes its sample '[rank5]: no pulse'" in problem for problem in found)


def test_of_two_forms_the_narrower_is_tried_first(tmp_path: Path) -> None:
    """By their samples alone: the general one fits those of the narrow one, not the reverse."""
    narrow = r"""
crane:
  title: A crane's number
  pattern: '\[crane (?P<rank>\d+)\] ?'
  samples: [{line: '[crane 4] no pulse', rank: 4, message: no pulse}]
"""
    assert problems(folder(tmp_path, narrow)) == []
    order = [form.id for form in load_forms([tmp_path]).forms]
    assert order.index("harbour/crane") < order.index("loggers/bracket")
    assert parse_line("[crane 4] no pulse").rank is None
    assert read_alone("[crane 4] no pulse", load_forms([tmp_path])).rank == 4


def test_own_keys_and_levels_are_added(tmp_path: Path) -> None:
    """In records of JSON and in key=value."""
    folder(tmp_path, "ranks: [berth]\nnodes: [quay]", "keys")
    forms = load_forms([folder(tmp_path, "FATAL: [SUNK]", "levels")])
    line = read_alone('{"time": "10:00:00", "level": "sunk", "berth": 3, "quay": "pier-3", "msg": "no pulse"}', forms)
    assert (line.rank, line.node, line.level) == (3, "pier-3", "FATAL")
    assert read_alone('ts=1 level=sunk berth=3 msg="no pulse"', forms).rank == 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (OWN.replace("<rank>", "<seat>"), "the group seat is no field; use one of"),
        (OWN.replace("#w", "{shore}"), "{shore} is no piece"),
        (OWN.replace(r"\d{1,5}", r"(\d{1,5}"), "is no regular expression"),
        (OWN.replace(r"\d{1,5}", r"\d{1,50000}"), "stands for more than"),
        (OWN.replace("  title", "  name"), "name: Extra inputs are not permitted; see docs/forms.md"),
        (OWN.partition("  samples")[0], "samples: Field required"),
        ("a: [", "not valid YAML"),
        (OWN.replace(r"w(?P<rank>\d{1,5})", r"(?P<date>\d+)"), "a date needs the group clock"),
    ],
)
def test_a_wrong_form_is_refused_with_a_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    """It names the file and the line, and the same holds for a diagnosis with it."""
    with pytest.raises(RuleError, match=r"harbour\.yaml:\d+: ") as refused:
        load_forms([folder(tmp_path, text)])
    assert complaint in str(refused.value)
    with pytest.raises(RuleError):
        diagnose(b"one\n", rules=tmp_path, memory=False)


def test_a_pattern_that_runs_away_is_stopped_and_noted(tmp_path: Path) -> None:
    """`forms test` finds it, and a diagnosis with it ends soon and says so."""
    line = "<" + "a" * 60 + " >"
    assert any("takes too long on" in problem for problem in problems(folder(tmp_path, SLOW)))
    answer = diagnose(log_of(*steps(1, 40), line, "KeyError: 'a'"), rules=tmp_path, memory=False)
    assert any(note.startswith("form harbour/slow: a pattern took longer than 0.2 s on") for note in answer.notes)


def test_what_a_form_catches_need_not_be_a_number(tmp_path: Path) -> None:
    """A rank of letters, a date that is none and a clock of two parts tell nothing, and stop nothing."""
    odd = r"""
odd:
  title: Catches anything
  pattern: '<(?P<rank>\w+) (?P<date>\S+) (?P<clock>\S+)> '
  samples: [{line: '<a b c> no pulse', message: no pulse, time: 'b c'}]
"""
    line = read_alone("<a b c> no pulse", load_forms([folder(tmp_path, odd)]))
    assert (line.rank, line.time, line.clock, line.message) == (None, None, "b c", "no pulse")


@pytest.mark.parametrize(
    "text",
    [
        "[shard 7] is read",
        "[step 3] loss 2.1",
        "[process 4711] started",
        "retry 3 of 5 on node-2: no pulse",
        "attempt 3: no pulse",
        "[worker 3 of the pool] idle",
        "10:00:00 workers=8 ERROR no pulse",
        "msg=up workers=8",
        "worker 3 left",
    ],
)
def test_a_number_that_counts_is_no_rank(text: str) -> None:
    """Shards, steps, process ids, tries, how many there are; nor what a sentence says of a worker."""
    assert parse_line(text).rank is None


def test_records_name_their_processes_by_the_key_that_numbers_them() -> None:
    """`wanderer` is no known key; its numbers go to and fro. Those of `orbit` rise, `missed` is a count."""
    rows = [
        json.dumps({"level": "info", "ts": 1771086400 + at, "msg": "kept course", "wanderer": at * 5 % 8, "orbit": at})
        for at in range(60)
    ]
    lost = {
        "level": "error",
        "ts": 1771086999,
        "msg": "no pulse on this side",
        "wanderer": 6,
        "host": "io",
        "missed": 3,
    }
    (stream,) = open_sources((log_of(*rows, json.dumps(lost)),))
    read = [
        parse_line(text.decode(), prefix=block.prefix) for block in stream.blocks() for text in block.data.splitlines()
    ]
    assert [line.rank for line in read[:4]] == [0, 5, 2, 7]
    assert (read[-1].rank, read[-1].node, read[-1].message) == (6, "io", "no pulse on this side missed=3")


def test_records_that_only_count_name_no_process() -> None:
    """A step, a try and a queue's length are no ranks."""
    rows = [
        json.dumps({"level": "info", "ts": 1771086400 + at, "msg": "kept course", "orbit": at, "tries": at % 3})
        for at in range(60)
    ]
    (stream,) = open_sources((log_of(*rows),))
    read = [parse_line(text.decode()) for block in stream.blocks() for text in block.data.splitlines()]
    assert {line.rank for line in read} == {None}


def test_pairs_name_the_node() -> None:
    """In any order, without a form for it."""
    line = parse_line('ts=1 level=error msg="no pulse" worker=3 host=shop-b')
    assert (line.rank, line.node) == (3, "shop-b")
