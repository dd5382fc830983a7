"""The ranking of suspects: what broke first is found by structure and meaning, without a rule."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from functools import lru_cache
from pathlib import Path

import pytest

from evals.suspects import measure
from logdiag.errors import WeightsError
from logdiag.evaluation.cases import load_cases
from logdiag.judge.suspects.ranking import (
    CARD,
    TABLE,
    WEIGHTS,
    load_weights,
    ranking,
)
from logdiag.model import Digest
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes, digest
from logdiag.scan.survey import Survey, survey
from tests.helpers import SHARED, environment, log_of

INHOUSE = SHARED / "inhouse" / "dev.jsonl"
REAL = SHARED / "reallogs"


@lru_cache(maxsize=1)
def no_rules() -> RuleBook:
    return RuleBook([])


def read(*lines: str) -> tuple[Survey, Digest]:
    """A log as it is read with all rules off."""
    shapes = Shapes(no_rules(), ())
    found = survey(open_sources((log_of(*lines),)), no_rules(), shapes)
    return found, digest(found.lines, shapes, found.total_lines, found.total_bytes)


def steps(first: int, last: int) -> list[str]:
    """Regular output of an in-house trainer with eight workers."""
    clocks = [f"10:{number // 60 % 60:02d}:{number % 60:02d}.100" for number in range(first, last)]
    return [
        f"{clock} w{number % 8:02d} I loop  step {number} loss {3 - number / 900:.4f}"
        for number, clock in enumerate(clocks, first)
    ]


CAUSE = "10:05:01.000 w03 E board grain store of plate 5 is torn: word 0x1a7f beyond mending"
STOPPED = [
    *steps(0, 300),
    CAUSE,
    *(f"10:05:3{rank}.000 w0{rank} E ring  neighbour silent in round 41, leaving" for rank in range(8) if rank != 3),
    "launch: worker 3 ended with status 9",
    "launch: 7 others ended with status 81",
    "launch: run is over",
]


def test_what_one_worker_says_first_ranks_above_what_all_others_say_next_and_the_launchers_report() -> None:
    found = ranking(*read(*STOPPED)).lines
    assert found[0].line.text == CAUSE
    scores = {item.line.text: item.score for item in found}
    assert all(scores[CAUSE] > score for text, score in scores.items() if text.startswith("launch:"))


def test_workers_that_say_the_same_are_one_suspect() -> None:
    shown = [item.line.text for item in ranking(*read(*STOPPED)).lines if "neighbour silent" in item.line.text]
    assert len(shown) == 1


def test_records_of_a_logger_that_nobody_knows_are_told_apart_by_what_they_say() -> None:
    """Texts of several words and states count; names that vary do not."""
    work = [f'{{"at": "q{at % 7}-b", "said": "tile {at} woven, edge clean", "mood": "calm"}}' for at in range(300)]
    cause = '{"at": "q3-b", "said": "tile 301 torn: no yarn left on spool, weaver gives up", "mood": "calm"}'
    ends = ['{"at": "q5-b", "said": "tile 302 woven, edge clean", "mood": "gone"}', "loomctl: all ended, status 4"]
    found, kept = read(*work, cause, *work[:9], *ends)
    texts = [line.text for line in found.lines]
    assert {cause, ends[0]} <= set(texts)
    assert len(texts) < 90
    assert ranking(found, kept).lines[0].line.text == cause


@pytest.mark.parametrize("form", ['ts={n} lvl=info said="{words}"', '{n},INFO,loom,"{words}"'])
def test_lines_are_told_apart_by_what_they_say_in_quotes(form: str) -> None:
    """In a CSV file, and in records with keys that nobody knows, every message stands in quotes."""
    words = [f"pass {n} over the warp done, tension 2.1" for n in range(60)]
    words += ["the shed of beam four is torn and cannot be lifted", *["no answer from beam four, leaving"] * 3]
    lines = [form.format(n=1764000000 + n, words=said) for n, said in enumerate(words)]
    assert "is torn" in ranking(*read(*lines)).lines[0].line.text


def test_a_command_that_a_shell_traces_is_no_suspect() -> None:
    """It is what the shell was about to run, whatever words are in it."""
    found = ranking(
        *read(*STOPPED[:-3], "+ stage.sh[38]echo 'ERROR board is torn'", "++ mkdir /refused", "+ exit 1")
    ).lines
    assert found[0].line.text == CAUSE
    assert not any(item.line.text.startswith("+") for item in found)


@pytest.mark.parametrize("title", ["=== worker 3: last lines, torn ===", "---- boards of worker 3 ----", "## run 2 ##"])
def test_a_title_of_what_follows_is_no_suspect(title: str) -> None:
    """It says what comes next, in a paste of several outputs; a line with no ruler behind it is one."""
    found = ranking(*read(title, *STOPPED, title)).lines
    assert found[0].line.text == CAUSE
    assert not any(item.line.text == title for item in found)
    bare = title.rstrip("=-# ")
    assert any(item.line.text == bare for item in ranking(*read(bare, *STOPPED)).lines)


def test_what_is_printed_between_rulers_may_be_the_failure_itself() -> None:
    """A program may set its last word apart so."""
    banner = "=== LOOM FAILED: board 3 is torn ==="
    assert any(item.line.text == banner for item in ranking(*read(*STOPPED, banner)).lines)


def test_scores_are_chances_best_first() -> None:
    scores = [item.score for item in ranking(*read(*STOPPED)).lines]
    assert scores == sorted(scores, reverse=True)
    assert sum(scores) <= 1.0 + 1e-9
    assert all(0.0 <= score <= 1.0 for score in scores)


def test_regular_output_is_no_suspect_beside_a_fault() -> None:
    assert not any("loss" in item.line.text for item in ranking(*read(*STOPPED)).lines[:3])


def test_a_failing_log_is_more_of_a_failure_than_the_same_log_with_a_clean_end() -> None:
    healthy = [*steps(0, 300), *(f"launch: worker {rank} ended with status 0" for rank in range(8)), "launch: all well"]
    assert ranking(*read(*STOPPED)).failure > 0.5 > ranking(*read(*healthy)).failure


def test_a_log_of_one_line_or_none_has_an_answer() -> None:
    assert [item.line.text for item in ranking(*read("engine fault: quorum lost")).lines] == [
        "engine fault: quorum lost"
    ]
    assert ranking(*read("", "   ")).lines == ()
    assert ranking(*read("")).failure == 0.0


@pytest.mark.parametrize("line", ["\x07", "{" * 9000, "=========="])
def test_a_log_without_any_words_has_no_suspects(line: str) -> None:
    assert ranking(*read(line, line)).lines == ()


def test_thirty_thousand_different_lines_take_bounded_time() -> None:
    """Lines of words that never come twice: as many are kept as ever are."""
    letters = "abcdefghijklmnopqrst"
    words = [a + b + c + d for a in letters for b in letters for c in letters for d in "aeio"][:30_000]
    found, kept = read(*(f"{word}ing the {word[::-1]}er of {word[1:]}" for word in words), "fatal: the end of it")
    assert len(found.lines) >= 8_000
    begun = time.process_time()
    assert ranking(found, kept).lines
    assert time.process_time() - begun < 2.0


def test_a_log_is_ranked_alike_in_every_process() -> None:
    """Python orders sets anew in each process; of two speakers with one number (w3 and x3) the same is meant."""
    log = [f"10:00:{at % 60:02} {'wx'[at // 3 % 2]}{at % 3 + 1} I turn {at} of the reel" for at in range(60)]
    log += ["10:01:01 w1 E rank 3 left the reel", "10:01:02 x2 E rank 3 is gone", "10:01:03 w3 E cannot go on"]
    code = (
        "import json, sys\n"
        "from tests.judge.test_suspects import read\nfrom logdiag.judge.suspects.line_features import view_of\n"
        "print(json.dumps(view_of(*read(*json.loads(sys.argv[1]))).blamed))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code, json.dumps(log)],
            capture_output=True, env=environment({"PYTHONHASHSEED": seed}), check=True, text=True, timeout=60,
        ).stdout
        for seed in "1234"
    }  # fmt: skip
    assert [json.loads(answer) for answer in told] == [{"w3": 2}]


def test_the_module_loads_neither_numpy_nor_the_vectors() -> None:
    code = (
        "import sys, logdiag.judge.suspects.ranking, logdiag.judge.suspects.wording\n"
        "print('numpy' in sys.modules, 'logdiag.memory' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment(), check=True, text=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shipped weights."""
    return Path(shutil.copytree(WEIGHTS, tmp_path / "weights"))


def test_missing_weights_say_where_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"suspects\.json.*install logdiag again"):
        load_weights(tmp_path)


@pytest.mark.parametrize("damage", ["[1, 2", "{}", "[]", "null", '{"features": 3}'])
def test_a_card_that_is_no_card_is_told(folder: Path, damage: str) -> None:
    (folder / CARD).write_text(damage)
    with pytest.raises(WeightsError, match=r"suspects\.json"):
        load_weights(folder)


def test_a_table_that_is_cut_short_is_told(folder: Path) -> None:
    table = folder / TABLE
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(WeightsError, match="do not fit"):
        load_weights(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [("out", []), ("centres", [0.0]), ("temperature", 0.0), ("bias", float("nan"))],
)
def test_weights_that_do_not_fit_each_other_are_told(folder: Path, name: str, value: object) -> None:
    card = json.loads((folder / CARD).read_text())
    card[name] = value
    (folder / CARD).write_text(json.dumps(card))
    with pytest.raises(WeightsError, match="do not fit"):
        load_weights(folder)


@pytest.mark.parametrize("name", ["trees", "failure"])
@pytest.mark.parametrize("tree", [[1, 0.5, 0.1], [99, 0.5, 0.1, 0.2], "leaf", [1, 0.5, [2, 0.1], 0.2]])
def test_a_tree_that_is_none_or_asks_for_no_feature_is_told(folder: Path, name: str, tree: object) -> None:
    card = json.loads((folder / CARD).read_text())
    card[name][3] = tree
    (folder / CARD).write_text(json.dumps(card))
    with pytest.raises(WeightsError, match=r"suspects\.json"):
        load_weights(folder)


def test_weights_for_other_features_are_told(folder: Path) -> None:
    card = json.loads((folder / CARD).read_text())
    card["features"].reverse()
    (folder / CARD).write_text(json.dumps(card))
    with pytest.raises(WeightsError, match="other features"):
        load_weights(folder)


@pytest.mark.skipif(not INHOUSE.exists(), reason="these logs are not part of the repository")
def test_unknown_software_is_ranked_as_measured() -> None:
    """20 in-house logs, no rule: the root line first in eleven of 14, among three in thirteen."""
    found = measure(load_cases([INHOUSE]).cases)
    assert found["root_line_first"] >= 75
    assert found["root_line_among_three"] >= 90
    assert found["healthy_at_half"] == 0


@pytest.mark.skipif(not REAL.exists(), reason="these logs are not part of the repository")
def test_real_logs_are_ranked_as_measured_without_a_rule() -> None:
    found = measure(load_cases([REAL]).cases)
    assert found["root_line_first"] >= 70
    assert found["root_line_among_three"] >= 87
