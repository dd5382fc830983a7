"""The fault lab: its scenarios are sound, its labels follow from what was done, and its jobs leave nothing behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from evals.faultlab import sandbox
from evals.faultlab.cases import label_of, leaks_of, problems_of, wording
from evals.faultlab.grow import grow
from evals.faultlab.sample import take
from evals.faultlab.sandbox import Output
from evals.faultlab.scenario import Scenario, load_scenarios
from evals.faultlab.shapes import Shape, shapes_of
from logdiag.errors import LogdiagError
from logdiag.model import Action, Reason
from tests.helpers import zstd

SCENARIOS = load_scenarios()
FAULTS = [scenario for scenario in SCENARIOS if scenario.root]
HEALTHY = [scenario for scenario in SCENARIOS if not scenario.root]
SPLITS = ("dev", "heldback")


def scenario_of(**fields: object) -> Scenario:
    """A small scenario."""
    base = {
        "name": "small",
        "split": "dev",
        "reason": "Others",
        "action": "fix_and_resubmit",
        "root": "it broke",
        "why": "A test.",
        "ranks": [1],
        "second": False,
        "long": False,
    }
    return Scenario.model_validate({**base, **fields})


def shape_of(scenario: Scenario) -> Shape:
    """Its first shape."""
    return shapes_of(scenario, 1)[0]


def test_there_are_enough_faults_and_healthy_jobs_in_both_splits() -> None:
    """70 faults and 25 healthy jobs; each split has its part of both."""
    assert len(FAULTS) >= 70
    assert len(HEALTHY) >= 25
    for split in SPLITS:
        assert sum(scenario.split == split for scenario in FAULTS) >= 20
        assert sum(scenario.split == split for scenario in HEALTHY) >= 5
    assert {scenario.split for scenario in SCENARIOS} == set(SPLITS)


def test_every_reason_has_a_fault() -> None:
    """What a machine without a GPU cannot produce is reconstructed, and says so."""
    reasons = {split: {s.reason for s in SCENARIOS if s.split == split} for split in SPLITS}
    assert reasons["dev"] == set(Reason)
    assert len(reasons["heldback"]) >= 15
    for scenario in SCENARIOS:
        if scenario.reason in (Reason.ECC_ERROR, Reason.NVLINK_ERROR, Reason.NCCL_TIMEOUT_ERROR):
            assert scenario.reconstructed, scenario.name


def test_names_are_unique_and_no_wording_is_in_both_splits() -> None:
    """A fault of the held-back split prints a root line that no fault of the other prints."""
    assert [name for name, count in Counter(scenario.name for scenario in SCENARIOS).items() if count > 1] == []
    roots = {split: {wording(s.root) for s in FAULTS if s.split == split} for split in SPLITS}
    assert roots["dev"] & roots["heldback"] == set()
    # A piece of another's line is the same wording, unless it is no more than an exception's name.
    pairs = [sorted((one.lower(), other.lower()), key=len) for one in roots["dev"] for other in roots["heldback"]]
    assert [pair for pair in pairs if pair[0] in pair[1] and " " in pair[0]] == []


def test_a_label_is_allowed_by_the_taxonomy() -> None:
    """Every scenario's label is one that `logdiag eval` takes, before anything has run."""
    for scenario in SCENARIOS:
        for shape in shapes_of(scenario, 1):
            label = label_of(scenario, shape)
            assert label["category"] == Reason(label["reason"]).category.value
            assert (label["reason"] == "none") == (label["action"] == "none" and not label["root_line"])
            assert "{" not in label["root_line"] or "{" in scenario.root


def test_the_shapes_are_the_same_for_a_seed_and_cover_every_size() -> None:
    """Few and many ranks, early and late, recovered faults before, second errors after, long and very long logs."""
    shapes = [shape for scenario in SCENARIOS for shape in shapes_of(scenario, 1)]
    assert shapes == [shape for scenario in SCENARIOS for shape in shapes_of(scenario, 1)]
    assert shapes != [shape for scenario in SCENARIOS for shape in shapes_of(scenario, 2)]
    assert {1, 2, 4, 8} <= {shape.ranks for shape in shapes}
    for split in SPLITS:
        own = [shape for s in SCENARIOS if s.split == split for shape in shapes_of(s, 1)]
        assert {shape.recovered for shape in own} == {"", "tracker", "sample"}
        assert {shape.second for shape in own} == {"", "summary", "notify"}
        assert {shape.tee for shape in own} == {shape.folder for shape in own} == {True, False}
        assert max(shape.megabytes for shape in own) >= 40
    assert max(shape.megabytes for shape in shapes) >= 200
    for scenario in SCENARIOS:
        for shape in shapes_of(scenario, 1):
            assert shape.ranks in scenario.ranks or (shape.ranks == 8 and max(scenario.ranks) >= 4)
            assert 0 <= shape.culprit < shape.ranks


def test_a_broken_scenario_is_named_with_its_file(tmp_path: Path) -> None:
    """All of them at once."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "one.yaml").write_text("reason: Gremlins\naction: none\nwhy: x\n")
    (tmp_path / "dev" / "two.yaml").write_text("reason: KeyError\naction: fix_and_resubmit\nwhy: no root\n")
    with pytest.raises(LogdiagError, match=r"(?s)one\.yaml.*Gremlins.*two\.yaml.*a fault needs a root"):
        load_scenarios(tmp_path)


def test_a_run_counts_only_when_it_shows_what_it_should() -> None:
    """The root line, a fitting exit status, an end in time, and no word that gives the label away."""
    scenario = scenario_of(name="jammed-widget")
    label = label_of(scenario, shape_of(scenario))

    def said(log: str, status: int | None = 1, trouble: str = "") -> list[str]:
        output = Output({"job.log": log.encode()}, status, "", trouble)
        return [problem.what for problem in problems_of(scenario, label, output)]

    assert said("step 1\nError: it broke\n") == []
    assert said("step 1\n") == ["the root line is not in the log: it broke"]
    assert said("it broke", status=0) == ["the job ended well"]
    assert said("it broke", trouble="still running after 9 s") == ["still running after 9 s"]
    assert said("") == ["the log is empty", "the root line is not in the log: it broke"]
    assert said("it broke\njammed-widget") == ["the log gives its label away: jammed-widget"]
    assert leaks_of("x", "S3StorageError at /faultlab/x") == ["faultlab", "S3StorageError"]


def test_a_grown_log_goes_on_counting() -> None:
    """Steps and times never go back, the root stays one line, and what came before and after it is all there."""
    log = (
        "starting\n"
        + "".join(f"2026-11-21 10:00:{s:02d},100 INFO step {s}/20 loss=2.5 errors=0\n" for s in range(1, 11))
        + "KeyError: 'books'\nE1121 10:00:11.250000 17 api.py:9] failed\n2026-11-21 10:00:11,000 ERROR peer lost\n"
    ).encode()
    grown = b"".join(grow(log, "KeyError", 50_000)).decode()
    assert len(grown) >= 50_000
    counted = [int(number) for number in re.findall(r"step (\d+)/", grown)]
    assert counted == list(range(1, len(counted) + 1))
    times = re.findall(r"2026-\S+ [\d:]+", grown)
    assert times == sorted(times)
    assert len(set(re.findall(r"step \d+/(\d+)", grown))) == 1
    assert max(counted) <= int(re.findall(r"step \d+/(\d+)", grown)[0])
    assert re.findall(r"E(\d{2})(\d{2}) ([\d:]+)", grown) == [tuple(re.split(r"[- ]", times[-1])[1:])]
    assert grown.count("KeyError") == 1
    assert grown.startswith("starting\n")
    assert grown.endswith("ERROR peer lost\n")
    assert "errors=0" in grown
    assert "errors=1" not in grown


def test_a_healthy_log_grows_before_its_end() -> None:
    """Its last line stays its last."""
    log = "".join(f"step {number}/9 loss 2.5\n" for number in range(1, 10)).encode() + b"finished\n"
    grown = b"".join(grow(log, "", 10_000))
    assert len(grown) >= 10_000
    assert grown.endswith(b"finished\n")
    assert grown.count(b"finished") == 1


def test_a_log_without_steps_does_not_grow() -> None:
    """There is nothing that could be repeated."""
    assert b"".join(grow(b"starting\nit broke\n", "it broke", 10_000)) == b"starting\nit broke\n"


needs_namespaces = pytest.mark.skipif(
    not shutil.which("unshare")
    or not shutil.which("ip")
    or subprocess.run(["unshare", "--mount", "--pid", "--fork", "--net", "true"], capture_output=True).returncode != 0,
    reason="this machine does not let us make namespaces",
)


@needs_namespaces
def test_a_job_runs_apart_and_leaves_nothing_behind() -> None:
    """Its processes, mounts and listening sockets end with it; its output and status come back, paths made usual."""
    mark = f"{os.getpid()}{time.monotonic_ns()}"
    scenario = scenario_of(
        setup="mount -t tmpfs tmpfs /mnt/run/data && serve 9090 /api=503,200",
        launch=f"sleep 98765.{mark} & hostname; pwd; python -c 'print(1)'; echo it broke; exit 7",
    )
    before = Path("/proc/mounts").read_text(encoding="utf-8")
    output = sandbox.run(scenario, shape_of(scenario), 1)
    assert output.trouble == ""
    assert output.status == 7
    assert output.files["job.log"].decode().split("\n") == [shape_of(scenario).host, "/workspace", "1", "it broke", ""]
    assert Path("/proc/mounts").read_text(encoding="utf-8") == before
    assert _running(f"98765.{mark}") == []


@needs_namespaces
def test_a_job_that_does_not_end_is_ended_with_all_it_started() -> None:
    """At its time limit, and the run says so."""
    mark = f"{os.getpid()}{time.monotonic_ns()}"
    scenario = scenario_of(launch=f"setsid sleep 87654.{mark} & sleep 87654.{mark}", seconds=3)
    began = time.monotonic()
    output = sandbox.run(scenario, shape_of(scenario), 1)
    assert time.monotonic() - began < 30
    assert output.trouble == "still running after 3 s"
    deadline = time.monotonic() + 10
    while _running(f"87654.{mark}") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _running(f"87654.{mark}") == []


def _running(argument: str) -> list[str]:
    """The processes that have an argument."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if argument.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:
            continue
    return found


@needs_namespaces
def test_the_service_answers_as_planned() -> None:
    """One answer after the other, the last one again and again, and a cut connection."""
    ask = (
        "import http.client\n"
        "for path in ('/api', '/api', '/api', '/other', '/cut'):\n"
        "    link = http.client.HTTPConnection('127.0.0.1', 9090, timeout=5)\n"
        "    try:\n"
        "        link.request('GET', path)\n"
        "        print(path, link.getresponse().status)\n"
        "    except OSError as error:\n"
        "        print(path, type(error).__name__)\n"
    )
    scenario = scenario_of(
        files={"ask.py": ask}, setup="serve 9090 /api=503,200 /cut=reset", launch="python ask.py; exit 1"
    )
    log = sandbox.run(scenario, shape_of(scenario), 1).files["job.log"].decode()
    assert log.splitlines() == ["/api 503", "/api 200", "/api 200", "/other 200", "/cut ConnectionResetError"]


@needs_namespaces
def test_the_failing_rank_reads_the_record_that_breaks() -> None:
    """Of all ranks' records only one is the scenario's, at the step at which it strikes."""
    scenario = scenario_of(ranks=[2], record={"tokens": None, "weight": "-"}, launch="cat data/*.jsonl; exit 1")
    shape = shapes_of(scenario, 1)[1]
    rows = sandbox.run(scenario, shape, 1).files["job.log"].decode().splitlines()
    special = [row for row in rows if '"books"' in row]
    assert len(special) == 1
    assert '"tokens": null' in special[0]
    assert "weight" not in special[0]
    assert Action.FIX_AND_RESUBMIT is scenario.action


def test_the_sample_leaves_out_what_other_labelled_cases_say_word_for_word(tmp_path: Path) -> None:
    """Two sets that share a root line's words do not measure apart; the mere name of an exception is no wording."""
    said = "loader.ShardError: shard 7 of the corpus has no index beside it"
    made, kept = tmp_path / "made", tmp_path / "kept"
    made.mkdir()
    kept.mkdir()
    rows = [{"id": "dev/a/0", "log": f"step 1\n{said}\n"}, {"id": "dev/b/0", "log": "step 1\nEOFError\n"}]
    (made / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    other = {"category": "script", "reason": "Others", "action": "fix_and_resubmit"}
    others = [{"id": str(at), "log": line, "root_line": line, **other} for at, line in enumerate((said, "EOFError"))]
    path = tmp_path / "others.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in others), encoding="utf-8")
    assert take(made, kept) == {"dev": 2}
    assert take(made, kept, [str(path)]) == {"dev": 1}
    assert json.loads(zstd.decompress((kept / "dev.jsonl.zst").read_bytes()))["id"] == "dev/b/0"
