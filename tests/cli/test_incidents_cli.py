"""`logdiag incidents`, run as people run it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import LOGS, log_of, run_logdiag, steps, traceback_of

DEMO = LOGS / "demo.log"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of an empty store, told by the environment."""
    monkeypatch.setenv("LOGDIAG_MEMORY", str(tmp_path / "memory"))
    return tmp_path / "memory"


def said(*arguments: str | Path) -> str:
    """What `logdiag incidents` prints when all is well."""
    done = run_logdiag("incidents", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def answer(*arguments: str | Path) -> Any:
    """The same, read as JSON."""
    return json.loads(said(*arguments, "--format", "json"))


def complaint(*arguments: str | Path) -> str:
    """The one sentence of a command that could not do its work."""
    done = run_logdiag("incidents", *arguments)
    text = done.stderr.decode()
    assert (done.returncode, done.stdout) == (2, b""), text
    assert len(text.splitlines()) == 1, text
    assert text.startswith("logdiag: ")
    return text


def test_a_failure_is_remembered_by_its_log(memory: Path) -> None:
    """The root line that logdiag finds, masked, with its window, node, reason and action; unconfirmed."""
    added = answer("add", DEMO, "--outcome", "worked", "--remedy", "Left the node out.", "--job", "name=demo")
    assert added["signature"] == "RuntimeError: CUDA driver error: uncorrectable ECC error encountered"
    assert (added["reason"], added["action"]) == ("ECCError", "restart_excluding_node")
    assert (added["node"], added["outcome"], added["remedy"]) == ("node-004", "worked", "Left the node out.")
    assert (added["job"], added["confirmed_by"]) == ({"name": "demo"}, "")
    assert 1 <= len(added["window"]) <= 4
    assert answer("list") == [added]
    assert answer("show", added["id"]) == added


def test_a_log_that_is_added_again_is_known(memory: Path) -> None:
    """It is no second incident, and what is said of it then is a correction."""
    added = answer("add", DEMO)
    done = run_logdiag("incidents", "add", DEMO, "--reason", "CUDAError", "--by", "mira", "--format", "json")
    assert done.stderr.decode() == f"known as {added['id']}, seen again: 2 times in all\n"
    assert [(item["id"], item["reason"], item["confirmed_by"]) for item in answer("list")] == [
        (added["id"], "CUDAError", "mira")
    ]


def test_confirming_and_correcting_turn_it_into_knowledge(memory: Path) -> None:
    """By whom is told, or is who runs the command."""
    added = answer("add", DEMO)
    assert "confirmed by mira" in said("confirm", added["id"], "--by", "mira", "--outcome", "did_not")
    assert answer("show", added["id"])["confirmed_by"] == "mira"
    corrected = answer("correct", added["id"], "--reason", "CUDAError", "--remedy", "Swapped the card.")
    assert (corrected["reason"], corrected["remedy"], corrected["outcome"]) == (
        "CUDAError",
        "Swapped the card.",
        "unknown",
    )
    assert corrected["confirmed_by"] not in ("", "mira")
    assert "nothing to correct; give --reason" in complaint("correct", added["id"])


def test_a_correction_says_what_went(memory: Path) -> None:
    """The action is the new reason's; the old cause and remedy go unless they are given; a remedy can be emptied, and
    the history says who said what."""
    identity = answer("add", DEMO)["id"]
    text = said("correct", identity, "--reason", "S3StorageError", "--remedy", "renewed the token", "--by", "ada")
    for part in ("reason ECCError -> S3StorageError", "action restart_excluding_node -> retry_later", "-> nothing"):
        assert part in text
    shown = answer("show", identity)
    assert (shown["action"], shown["cause"], shown["remedy"]) == ("retry_later", "", "renewed the token")
    assert "remedy renewed the token -> nothing" in said("correct", identity, "--remedy", "", "--by", "bob")
    text = said("show", identity)
    for part in ("logdiag: remembered", "ada: corrected: reason ECCError -> S3StorageError", "bob: corrected: remedy"):
        assert part in text


def test_foreign_text_steers_no_terminal(memory: Path, tmp_path: Path) -> None:
    """Controls are taken out, and no line feed makes a line of its own."""
    evil = "\x1b]0;pwn\x07 \x1b[31m red\nWhat to do  restart"
    line = {"signature": "widget", "reason": "KeyError", "action": "restart", "cause": evil, "node": evil,
            "job": {evil: evil}, "confirmed_by": evil, "history": [{"at": evil, "by": evil, "what": evil}],
            "window": [evil], "frames": [{"file": evil, "function": evil}]}  # fmt: skip
    (tmp_path / "theirs.jsonl").write_text(json.dumps(line) + "\n")
    said("import", tmp_path / "theirs.jsonl", "--own")
    identity = answer("list")[0]["id"]
    for text in (said("show", identity), said("list"), said("nodes"), said("search", "widget")):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert not [line for line in text.splitlines() if line.startswith("What to do")]


def test_a_line_that_a_person_gives_is_remembered(memory: Path) -> None:
    """With the reason it is confirmed, and the action is the reason's own."""
    line = ("--signature", "node-4: the flux ran out at 0x12")
    added = answer("add", *line, "--reason", "NetworkError", "--by", "mira")
    assert added["signature"].endswith("the flux ran out at <hex>")
    assert added["confirmed_by"] == "mira"
    assert added["action"] != "none"
    assert "--reason is missing" in complaint("add", *line)
    assert "needs a LOG or a --signature, and not both" in complaint("add")


def test_a_log_without_a_root_line_is_refused(memory: Path, tmp_path: Path) -> None:
    """With what to do instead."""
    log = tmp_path / "job.log"
    log.write_bytes(log_of(*steps(1, 20)))
    assert "give it with --signature" in complaint("add", log)
    assert not memory.exists()


def test_search_finds_what_is_alike(memory: Path, tmp_path: Path) -> None:
    """For a line, and for the root line of a log; the shipped incidents are searched too."""
    added = answer("add", "--signature", "the flux capacitor of lane 4 ran dry", "--reason", "NetworkError")
    found = answer("search", "the flux capacitor of lane 17 ran dry", "--limit", "3")
    assert found[0]["id"] == added["id"]
    assert found[0]["similarity"] == pytest.approx(1, abs=0.01)
    assert len(found) == 3
    assert all(item["id"].startswith("corpus/") for item in found[1:])
    log = tmp_path / "job.log"
    log.write_bytes(log_of(*steps(1, 20), *traceback_of("KeyError: 'caption'")))
    by_log = answer("search", log, "--limit", "1")
    assert by_log[0]["reason"] == "KeyError"
    assert said("search", "the flux capacitor of lane 17 ran dry").startswith(f"1.00  {added['id']}")


def test_the_list_is_narrowed(memory: Path) -> None:
    """By reason, node, time and number; the shipped ones when asked for."""
    one = answer("add", "--signature", "a b", "--reason", "KeyError", "--node", "n1", "--seen-at", "2026-11-01")
    two = answer("add", "--signature", "c d", "--reason", "OSError", "--seen-at", "2026-11-02T10:00:00+02:00")
    assert two["seen_at"] == "2026-11-02T08:00:00Z"
    assert answer("list") == [two, one]
    assert answer("list", "--reason", "KeyError") == [one]
    assert answer("list", "--node", "n1") == [one]
    assert answer("list", "--since", "2026-11-02") == [two]
    assert answer("list", "--limit", "1") == [two]
    assert len(answer("list", "--shipped")) > 250
    line = said("list", "--node", "n1")
    assert line.split() == [one["id"], "2026-11-01T00:00:00Z", "KeyError", "unknown", "confirmed", "a", "b"]


def test_everything_is_shown(memory: Path) -> None:
    """Each field with its name, and how to confirm what is not."""
    added = answer("add", DEMO, "--cause", "Rust.", "--job", "name=demo")
    text = said("show", added["id"])
    for part in (added["signature"], "cause:         Rust.", "node-004", "name demo", added["window"][0], "demo.log"):
        assert part in text
    assert f"nobody: logdiag incidents confirm {added['id']}" in text
    shipped = answer("list", "--shipped")[-1]["id"]
    assert said("show", shipped).startswith(shipped)


def test_teams_share_by_export_and_import(memory: Path, tmp_path: Path) -> None:
    """Files and pipes; a second import keeps what is there."""
    answer("add", "--signature", "a b", "--reason", "KeyError")
    assert said("export", tmp_path / "out.jsonl") == ""
    assert said("export") == (tmp_path / "out.jsonl").read_text()
    other = tmp_path / "other"
    assert said("import", tmp_path / "out.jsonl", "--memory", other) == "1 added, 0 replaced, 0 kept as they were\n"
    foreign = answer("list", "--memory", other)[0]
    assert (foreign["confirmed_by"], foreign["imported"].startswith("out.jsonl, confirmed there by ")) == ("", True)
    assert "  imported     a b" in said("list", "--memory", other)
    other = tmp_path / "moved"
    said("import", tmp_path / "out.jsonl", "--own", "--memory", other)
    piped = run_logdiag(
        "incidents", "import", "-", "--own", "--memory", other, stdin=(tmp_path / "out.jsonl").read_bytes()
    )
    assert piped.stdout == b"0 added, 0 replaced, 1 kept as they were\n"
    assert answer("list", "--memory", other) == answer("list")
    (tmp_path / "broken.jsonl").write_text("{\n")
    assert f"{tmp_path / 'broken.jsonl'}:1: not JSON" in complaint("import", tmp_path / "broken.jsonl")
    assert "gone.jsonl" in complaint("import", tmp_path / "gone.jsonl")
    torn = run_logdiag("incidents", "import", "-", stdin=b"\xff\n")
    assert (torn.returncode, torn.stdout, torn.stderr.count(b"\n")) == (2, b"", 1), torn.stderr
    assert "out.jsonl" in complaint("export", tmp_path / "gone" / "out.jsonl")


def test_what_is_forgotten_is_gone(memory: Path) -> None:
    """Several at once; an unknown one is one sentence."""
    ids = [answer("add", "--signature", text, "--reason", "KeyError")["id"] for text in ("a b", "c d")]
    assert said("forget", *ids) == f"{ids[0]}: forgotten\n{ids[1]}: forgotten\n"
    assert answer("list") == []
    assert f"{ids[0]}: no such incident" in complaint("forget", ids[0])
    assert "ships with logdiag and cannot be changed" in complaint("forget", "corpus/x")


def test_stats_count(memory: Path) -> None:
    """By reason and outcome, with the shipped ones apart."""
    answer("add", "--signature", "a b", "--reason", "KeyError", "--outcome", "worked")
    stats = answer("stats")
    assert (stats["incidents"], stats["confirmed"], stats["reasons"]) == (1, 1, {"KeyError": 1})
    assert stats["shipped"] > 250
    assert f"{memory}: 1 incidents, 1 confirmed" in said("stats")


def test_nodes_that_fail_too_often_are_marked(memory: Path) -> None:
    """With the corrected probability, the reasons and the jobs."""
    for job in ("a", "b", "c"):
        answer("add", "--signature", "lost it", "--reason", "ECCError", "--node", "node-7", "--job", f"name={job}")
    answer("add", "--signature", "lost it", "--reason", "ECCError", "--node", "node-8")
    lines = said("nodes", "--of", "100").splitlines()
    assert lines[0].startswith("* node-7    3 failures  p ")
    assert lines[0].endswith("3 ECCError  jobs c, b, a")
    assert lines[1].startswith("  node-8    1 failures")
    assert [item["suspicious"] for item in answer("nodes", "--of", "100")] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["add", "--signature", "x", "--reason", "Bad"], "'Bad' is not one of"),
        (["add", "--signature", "x", "--reason", "KeyError", "--seen-at", "noon"], "'noon' is no time"),
        (["add", "--signature", "x", "--reason", "KeyError", "--job", "name"], "not KEY=VALUE"),
        (["add", "--signature", "  ", "--reason", "KeyError"], "without a signature"),
        (["add", "gone.log"], "gone.log"),
        (["show", "i-gone"], "no such incident"),
        (["confirm", "i-gone"], "no such incident"),
        (["list", "--since", "noon"], "'noon' is no time"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_arguments_are_one_sentence(memory: Path, arguments: list[str], part: str) -> None:
    """Exit status 2, and nothing is stored."""
    assert part in complaint(*arguments)
    assert not memory.exists()


def test_a_place_is_given_each_time_or_by_the_environment(memory: Path, tmp_path: Path) -> None:
    """`--memory` comes before `LOGDIAG_MEMORY`."""
    answer("add", "--signature", "a b", "--reason", "KeyError", "--memory", tmp_path / "mine")
    assert answer("list") == []
    assert len(answer("list", "--memory", tmp_path / "mine")) == 1
    assert os.listdir(tmp_path / "mine") == ["incidents.db"]
