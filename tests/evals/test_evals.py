"""The log generator, the fuzz run and the ablation can be trusted."""

import json
import random
from dataclasses import replace
from pathlib import Path

from evals.ablation import in_forms, main
from evals.bench_kinds import Speed, kinds, write_kind
from evals.dress import AROUND, BESIDE, HEADS, dressed, measured
from evals.fuzz import MUTATIONS, SAMPLES, mutate, root_problem
from evals.generate import FAILED_RANK, ROOT_TEXT, write_log, write_ranks
from logdiag.model import Action, Reason
from tests.evaluation_helpers import case_of
from tests.helpers import steps


def test_generated_log_is_the_same_each_time(tmp_path: Path) -> None:
    """Size, lines and the root line are as said, and the same arguments give the same bytes."""
    first = write_log(tmp_path / "first.log", 2)
    second = write_log(tmp_path / "second.log", 2)
    data = (tmp_path / "first.log").read_bytes()
    assert first == second
    assert data == (tmp_path / "second.log").read_bytes()
    assert abs(len(data) - 2_000_000) < 100_000
    assert len(data) == first.bytes
    lines = data.decode().splitlines()
    assert len(lines) == first.lines
    assert [number for number, line in enumerate(lines, 1) if ROOT_TEXT in line] == [first.root_line]


def test_another_seed_gives_other_numbers(tmp_path: Path) -> None:
    """The seed changes the numbers."""
    write_log(tmp_path / "first.log", 1, seed=1)
    write_log(tmp_path / "second.log", 1, seed=2)
    assert (tmp_path / "first.log").read_bytes() != (tmp_path / "second.log").read_bytes()


def test_a_run_of_one_file_a_rank_fails_in_one_of_them(tmp_path: Path) -> None:
    """Each file is as large as asked for; the root line stands in that of the failed rank, a time-out in others."""
    write_ranks(tmp_path, [0.02] * 40)
    logs = {int(path.stem.removeprefix("rank_")): path.read_text() for path in tmp_path.iterdir()}
    assert sorted(logs) == list(range(40))
    assert [rank for rank, log in logs.items() if ROOT_TEXT in log] == [FAILED_RANK]
    assert sum("Watchdog caught" in log for log in logs.values()) == 39
    assert all(20_000 < len(log) < 23_000 for log in logs.values())


def test_each_kind_of_log_is_the_same_each_time_and_ends_with_its_failure(tmp_path: Path) -> None:
    """The templates are whole, and what is measured of them is right."""
    for kind in kinds().values():
        write_kind(tmp_path / "first.log", kind, 1)
        write_kind(tmp_path / "second.log", kind, 1)
        data = (tmp_path / "first.log").read_bytes()
        assert data == (tmp_path / "second.log").read_bytes()
        assert 1_000_000 < len(data) < 1_010_000
        assert b"KeyError: 'shard-00417'" in data[-200:]
    assert len(kinds()) >= 16


def test_a_kind_that_became_slower_or_wrong_fails() -> None:
    """A fifth more CPU time than is committed, as a multiple of grep's, or another answer."""
    speed = Speed("tqdm", 50.0, 1.0, 0.5, 0.05, 0.01, 60, 50.0, 4.0, right=True, before=9.0)
    assert not speed.slower
    assert replace(speed, cpu=0.55).slower
    assert not replace(speed, cpu=0.55, before=None).slower
    assert replace(speed, right=False).slower


def test_each_mutation_takes_any_bytes() -> None:
    """No kind of damage fails, on nothing at all either."""
    for change in MUTATIONS:
        for data in (b"", b"\n", b"RuntimeError: it broke"):
            assert isinstance(change(bytearray(data), random.Random(1), [b"another log\n"]), bytearray)


def test_same_seed_does_the_same_damage() -> None:
    """A fuzz run can be repeated."""
    samples = [(SAMPLES / "demo.log").read_bytes()]
    assert mutate(samples, random.Random(3)) == mutate(samples, random.Random(3))


def test_root_problem_sees_a_line_that_is_not_there() -> None:
    """Colours and NUL bytes are no difference; another line or a number beyond the end is one."""
    data = b"fine\n\x1b[31mRuntime\0Error: it broke\x1b[0m\n"
    assert root_problem(data, {"root_cause": None}) is None
    assert root_problem(data, {"root_cause": {"line": 2, "text": "RuntimeError: it broke"}}) is None
    assert root_problem(data, {"root_cause": {"line": 1, "text": "RuntimeError: it broke"}})
    assert root_problem(data, {"root_cause": {"line": 9, "text": "RuntimeError: it broke"}})


LOGGED = "2026-11-20 10:00:00 ERROR trainer: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."


def test_ablation_counts_what_the_label_makes_of_each_change(tmp_path: Path) -> None:
    """Without the decision that sees the steps after an error, a healthy job is called failed, in each form of its log;
    so it is where its condition is held, and a condition that changes nothing is told as such."""
    log = "".join(f"{line}\n" for line in (*steps(1, 5), LOGGED, *steps(6, 20)))
    healthy = case_of(reasons=(Reason.NONE,), roots=(), log=log)
    (tmp_path / "cases.jsonl").write_text(healthy.model_dump_json(exclude_unset=True) + "\n", encoding="utf-8")
    done = main([str(tmp_path / "cases.jsonl"), "--json", str(tmp_path / "table.json"), "--forms"])
    told = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert (done, told["cases"]) == (0, 4)
    rows = {row["name"]: row for row in told["rows"] if row["sort"] == "decision"}
    counts = [rows["steps_follow"][column] for column in ("cases", "changed", "reason", "better", "worse")]
    assert counts == [4, 4, 4, 4, 0]
    conditions = [row for row in told["rows"] if row["sort"] == "condition"]
    assert any(row["better"] == 4 and row["name"].startswith("judge.recovered:") for row in conditions)
    assert any(row["cases"] and not row["changed"] for row in conditions)


def test_ablation_cuts_only_what_leaves_the_root_in_the_log() -> None:
    """A failure whose root stands in the last tenth has no form without it."""
    assert len(list(in_forms(case_of(log="step: 1 loss: 3.0\n" * 9 + "KeyError: 'caption'\n")))) == 3
    assert len(list(in_forms(case_of(log="KeyError: 'caption'\n" + "step: 1 loss: 3.0\n" * 9)))) == 4


def test_a_dress_leaves_what_a_log_says() -> None:
    """Every message stands in the rewritten log, in order; what runs beside adds lines."""
    said = ["the warp is set up", "beam four is torn", "the loom is left"]
    for name in (*HEADS, *AROUND):
        lines = dressed(name, said)
        assert all(text in line for text, line in zip(said, lines, strict=True)), name
    assert dressed("", said) == said
    assert all(len(dressed(name, said)) > len(said) for name in BESIDE if name != "wrapped at 120 columns")


def test_what_others_add_to_a_log_is_counted_by_dress() -> None:
    """One failure whose root every dress keeps, and one healthy log that is called failed in none."""
    work = [f"pass {at} over the warp done, tension {2.1 - at / 100:.2f}, beam 4 at 17 turns" for at in range(40)]
    torn = "the shed of beam four is torn and cannot be lifted"
    failed = [*work, torn, *["no answer from beam four, leaving the loom"] * 3, "weaving broken off with 7"]
    cases = [
        case_of(roots=[torn], log="\n".join(failed)),
        case_of([Reason.NONE], [Action.NONE], [], log="\n".join([*work, "Training completed."])),
    ]
    counts = measured(cases, 4)
    assert counts["as they are"] == {
        "failures": 1, "root_right": 1, "not_failed": 0, "healthy": 1, "false_alarms": 0
    }  # fmt: skip
    assert [counts[name]["root_right"] for name in ("csv", "logfmt", "fluentd")] == [1, 1, 1]
    assert counts.keys() == {"as they are", *HEADS, *AROUND, *BESIDE}
