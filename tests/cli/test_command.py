"""The command's edges: help, mistakes, completion, several outputs, many jobs, hostile names, broken streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import logdiag
from logdiag import Diagnosis, LogdiagError, Reason, diagnose, render
from logdiag.cli.output import print_trace
from logdiag.rules import RuleBook
from tests.helpers import (
    LOGS,
    SAMPLES,
    environment,
    log_of,
    rule_text,
    run_logdiag,
    steps,
    traceback_of,
    write_rule,
)

DEMO = LOGS / "demo.log"
HEALTHY = LOGS / "healthy-scary.log"
ESCAPES = "x\x1b]0;pwned\x07\x1b[2J"


def said(*arguments: str | os.PathLike[str], cwd: Path | None = None) -> str:
    """The complaint of a command that could not do its work, in one line."""
    done = run_logdiag(*arguments, cwd=cwd)
    assert done.returncode == 2, done
    assert done.stderr.count(b"\n") == 1, done.stderr
    return done.stderr.decode()


# --- help ---


def test_the_help_of_the_command_has_its_options() -> None:
    """Those of diagnosing, which needs no word, with examples, and every command."""
    text = run_logdiag("--help").stdout.decode()
    for word in ("--exit-code-of-job", "--tee", "--brief", "--llm", "-o, --output", "-f, --format", "--version"):
        assert word in text
    rows = text.split("Commands:")[1].split("Examples:")[0].splitlines()
    commands = [row.split()[0] for row in rows if row.strip()]
    assert {"diagnose", "batch", "rules", "incidents", "reasons", "schema", "completion"} <= set(commands)
    assert "logdiag slurm-4711.out" in text


@pytest.mark.parametrize("command", ["diagnose", "batch", "rules", "incidents"])
def test_help_has_examples(command: str) -> None:
    """That can be typed as they stand."""
    text = run_logdiag(command, "--help").stdout.decode()
    assert "logdiag " in text.split("Examples:")[1]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["incident", "list"], "logdiag incidents?"),
        (["rule"], "logdiag rules?"),
        (["--memory", "x", "incidents", "list"], "a command comes first: logdiag incidents"),
        (["--formt", "json", "x"], "'--format'"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_right_one(arguments: list[str], meant: str, tmp_path: Path) -> None:
    """Of a command or of an option."""
    assert meant in said(*arguments, cwd=tmp_path)


def test_a_usage_error_names_the_help_that_holds_the_answer() -> None:
    """That of the command which was used."""
    assert "see logdiag incidents correct --help" in said("incidents", "correct", "i-1", "--reason", "Foo")
    assert "see logdiag --help" in said("--format", "pdf")


def test_a_log_is_never_taken_for_a_mistyped_command(tmp_path: Path) -> None:
    """A file that is called like one is read."""
    (tmp_path / "incident").write_bytes(log_of(*traceback_of("KeyError: 'caption'")))
    assert b"KeyError" in run_logdiag("incident", cwd=tmp_path).stdout


def test_what_has_no_effect_is_said(tmp_path: Path) -> None:
    """`--tee` of a file, and `--remember` of a log without a failure."""
    assert b"--tee passes standard input on" in run_logdiag("--tee", DEMO).stderr
    done = run_logdiag("--remember", "--memory", tmp_path / "memory", HEALTHY)
    assert b"nothing was remembered" in done.stderr
    assert done.returncode == 0


# --- completion ---


def completed(*words: str, cwd: Path) -> list[str]:
    """What bash is offered for the last of the words."""
    env = {"_LOGDIAG_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    return run_logdiag(env=env, cwd=cwd).stdout.decode().splitlines()


def test_commands_options_reasons_rules_and_files_are_completed(tmp_path: Path) -> None:
    """File names too, as the first word and behind a command."""
    (tmp_path / "incoming.log").touch()
    assert completed("logdiag", "typ", cwd=tmp_path) == ["file,typ"]
    assert completed("logdiag", "batch", "typ", cwd=tmp_path) == ["file,typ"]
    assert completed("logdiag", "inc", cwd=tmp_path) == ["plain,incidents", "plain,incoming.log"]
    assert completed("logdiag", "--form", cwd=tmp_path) == ["plain,--format"]
    assert completed("logdiag", "rules", "list", "--reason", "S3", cwd=tmp_path) == ["plain,S3StorageError"]
    assert "plain,nvidia/xid" in completed("logdiag", "rules", "show", "nvidia/x", cwd=tmp_path)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(shell: str) -> None:
    """A script that names the command and the variable by which it asks."""
    text = run_logdiag("completion", shell).stdout.decode()
    assert "_LOGDIAG_COMPLETE" in text
    assert shell in text


def test_bash_completes_a_file_name(tmp_path: Path) -> None:
    """With the script that is printed, in a real bash."""
    (tmp_path / "slurm-4711.out").touch()
    (tmp_path / "logdiag").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m logdiag "$@"\n', encoding="utf-8")
    (tmp_path / "logdiag").chmod(0o755)
    script = (
        'eval "$(logdiag completion bash)"\n'
        "COMP_WORDS=(logdiag inc); COMP_CWORD=1; _logdiag_completion logdiag 2>/dev/null; echo ${COMPREPLY[@]}\n"
    )
    env = environment({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    done = subprocess.run(["bash", "-c", script], capture_output=True, cwd=tmp_path, env=env, check=True, timeout=120)
    assert done.stdout.decode().split() == ["incidents"]


# --- what there is to look up ---


def test_every_reason_is_explained() -> None:
    """With its category, what is done by default, and a line of meaning."""
    rows = json.loads(run_logdiag("reasons", "--format", "json").stdout)
    assert [row["reason"] for row in rows] == [reason.value for reason in Reason if reason is not Reason.NONE]
    assert all(row["meaning"].endswith(".") and row["action"] for row in rows)
    assert {row["reason"]: row["category"] for row in rows}["ECCError"] == "infrastructure"
    assert len(run_logdiag("reasons").stdout.splitlines()) == len(rows)


@pytest.mark.parametrize("path", [*SAMPLES, LOGS / "torchelastic"], ids=lambda path: path.name)
def test_answers_are_of_the_published_schema(path: Path, book: RuleBook) -> None:
    """Every sample's answer, whole and as it comes back."""
    schema = json.loads(run_logdiag("schema").stdout)
    answer = diagnose(path, rules=book)
    jsonschema.validate(answer.to_dict(), schema)
    jsonschema.validate(Diagnosis.from_dict(answer.to_dict()).to_dict(), schema)


def test_the_published_schema_knows_every_key_and_refuses_what_is_none(book: RuleBook) -> None:
    """It names what the types have, no more and no less, and beside it what only some answers tell."""
    schema = json.loads(run_logdiag("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    document = diagnose(DEMO, rules=book).to_dict()
    assert set(schema["properties"]) - set(document) == {"changes", "job", "kind"}
    assert set(document) < set(schema["properties"])
    assert not {"changes", "collectives", "kind"} & set(schema["required"])
    for name in ("root_cause", "recovery", "times"):
        assert set(schema["$defs"][name]["properties"]) == set(document[name])
    for name in ("evidence", "consequences", "candidates", "similar"):
        entry = schema["$defs"][schema["properties"][name]["items"]["$ref"].rsplit("/", 1)[1]]
        assert set(entry["properties"]) == set(document[name][0])
    changes: list[dict[str, Any]] = [{"failed": "y"}, {"reason": "Gremlins"}, {"confidence": 2}, {"evidence": [{}]}]
    for broken in changes:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**document, **broken}, schema)


def test_an_answer_in_hand_can_be_rendered(book: RuleBook) -> None:
    """In every format that the command prints; another is an error of ours."""
    answer = diagnose(DEMO, rules=book)
    assert render(answer).startswith("FAILED  infrastructure / ECCError")
    assert json.loads(logdiag.render(answer, "jsonl")) == answer.to_dict()
    with pytest.raises(LogdiagError, match="text, json, jsonl, markdown, html, sarif"):
        render(answer, "pdf")


# --- outputs ---


def test_one_run_writes_several_files_and_prints(tmp_path: Path) -> None:
    """Each in the format of its name; what is printed stays what was asked for."""
    files = [tmp_path / name for name in ("a.json", "a.md", "a.txt", "a.jsonl")]
    done = run_logdiag(DEMO, "--brief", *(word for file in files for word in ("-o", str(file))))
    assert len(done.stdout.splitlines()) == 6
    assert json.loads(files[0].read_text(encoding="utf-8"))["reason"] == "ECCError"
    assert [file.read_text(encoding="utf-8").splitlines()[0][:9] for file in files[1:]] == [
        "## FAILED", "FAILED  i", '{"schema"',
    ]  # fmt: skip


def test_a_batch_writes_all_its_answers_into_one_file(tmp_path: Path) -> None:
    """Anew at each run."""
    for _ in range(2):
        run_logdiag("batch", DEMO, HEALTHY, "-o", tmp_path / "all.jsonl")
    lines = (tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["ECCError", "none"]


def test_a_batch_prints_one_line_a_job_and_what_they_have_in_common(tmp_path: Path) -> None:
    """Path, reason, confidence, rank and line; then how many failed alike and where, healthy ones last."""
    copies = [tmp_path / f"run{number}.log" for number in range(3)]
    for path in copies:
        path.write_bytes(DEMO.read_bytes())
    done = run_logdiag("batch", *copies, HEALTHY, tmp_path / "gone.log")
    rows = done.stdout.decode().splitlines()
    assert rows[0] == f"{copies[0]}: ECCError 95%, rank 5, node-004, line 159"
    assert rows[3].startswith(f"{HEALTHY}: NO FAILURE")
    assert rows[4:] == [
        "",
        "3 of 5 runs: ECCError on node-004",
        "1 of 5 runs: no failure",
        "1 of 5 runs: not diagnosed, see standard error",
    ]


# --- hostile names ---


def harmless(sent: bytes) -> bool:
    """Whether nothing in it steers a terminal."""
    return not any((byte < 32 and byte != 10) or byte == 127 for byte in sent)


def test_no_file_name_steers_a_terminal(tmp_path: Path) -> None:
    """In errors of the command and of a batch, and in reports."""
    good, torn = tmp_path / f"{ESCAPES}.log", tmp_path / f"{ESCAPES}.log.gz"
    good.write_bytes(log_of(*steps(1, 20), *traceback_of("KeyError: 'caption'")))
    torn.write_bytes(b"\x1f\x8b\x08\x00torn")
    commands: list[list[str | Path]] = [
        [torn],
        ["batch", torn, good],
        [good],
        [tmp_path / ESCAPES],
        ["--rules", tmp_path / ESCAPES],
    ]
    for arguments in commands:
        done = run_logdiag(*arguments)
        assert harmless(done.stdout + done.stderr), (arguments, done)
        assert b"pwned" in done.stdout + done.stderr


def test_no_rule_of_another_steers_a_terminal(tmp_path: Path) -> None:
    """Its title reaches lists, explanations and reports."""
    title = '"\\e]0;pwned\\a jammed"'
    write_rule(tmp_path, "framework/widget", rule_text(match=["widget jammed"], fires=["widget jammed"], title=title))
    for arguments in (["rules", "list"], ["rules", "why", "widget jammed"], ["--no-memory"]):
        done = run_logdiag(*arguments, "--rules", tmp_path, stdin=b"widget jammed\n")
        assert b"pwned" in done.stdout, done
        assert harmless(done.stdout + done.stderr), done


def test_no_name_that_a_model_made_up_steers_a_terminal(book: RuleBook, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a tool that it called, in the trace of `-v`."""
    trace = {"steps": [ESCAPES], "refusals": [ESCAPES], "cost": None, "tokens_in": 0, "tokens_out": 0, "seconds": 0.1}
    answer = diagnose(HEALTHY, rules=book)
    print_trace(replace(answer, stats={**answer.stats, "agent": trace}))
    sent = capsys.readouterr().err
    assert sent.count("pwned") == 2
    assert harmless(sent.encode())


def test_no_incident_steers_a_terminal_or_forges_a_line(tmp_path: Path) -> None:
    """What another wrote into an export that was imported."""
    run_logdiag("incidents", "add", "--signature", "flux drift", "--reason", "Others", "--memory", tmp_path / "mine")
    export = run_logdiag("incidents", "export", "--memory", tmp_path / "mine").stdout
    forged = f"drifted\nWhat to do  restart {ESCAPES}"
    hostile: dict[str, Any] = {
        **json.loads(export),
        "cause": forged,
        "node": ESCAPES,
        "signature": ESCAPES,
        "window": [ESCAPES],
    }
    (tmp_path / "theirs.jsonl").write_text(json.dumps({**hostile, "job": {"name": ESCAPES}}) + "\n", encoding="utf-8")
    store = ["--memory", str(tmp_path / "theirs")]
    assert run_logdiag("incidents", "import", tmp_path / "theirs.jsonl", *store).returncode == 0
    commands: list[list[str]] = [["list"], ["show", hostile["id"]], ["search", "drift"], ["nodes"], ["stats"]]
    for arguments in commands:
        done = run_logdiag("incidents", *arguments, *store)
        assert done.returncode == 0, done
        assert harmless(done.stdout + done.stderr), done.stdout
        assert b"\nWhat to do" not in done.stdout


# --- broken streams ---


def shell(script: str) -> subprocess.CompletedProcess[bytes]:
    """Runs `logdiag` in a shell, where `$L` is the command and `$D` a log."""
    env = environment({"L": f"{sys.executable} -m logdiag", "D": str(DEMO)})
    return subprocess.run(["bash", "-c", script], capture_output=True, env=env, timeout=120, check=False)


@pytest.mark.parametrize(
    "script",
    [
        "$L <&-",
        "$L $D >&-",
        "$L $D >/dev/full",
        "$L $D -f json >/dev/full",
        "$L --digest $D >/dev/full",
        "$L rules list >/dev/full",
        "$L batch $D >/dev/full",
    ],
)
def test_a_closed_or_full_stream_is_one_sentence(script: str) -> None:
    """Status 2, never a traceback."""
    done = shell(script)
    assert done.returncode == 2
    assert done.stderr.startswith(b"logdiag: standard ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("script", ["$L $D 2>&- >/dev/full", "$L /no/such.log 2>&-", "$L /no/such.log 2>/dev/full"])
def test_nobody_to_be_told_is_silence(script: str) -> None:
    """The status alone tells."""
    done = shell(script)
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


@pytest.mark.parametrize("command", ["--digest $D", "rules list", "reasons"])
def test_a_reader_that_went_away_is_told_by_the_status(command: str) -> None:
    """141, as of a program that SIGPIPE ended, and not a word."""
    done = shell(f"(sleep 1; $L {command}) | true; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout.strip(), done.stderr) == (b"141", b"")


def test_no_log_takes_the_number_of_a_closed_stream() -> None:
    """A log that were opened as standard output would be written into."""
    before = DEMO.read_bytes()
    assert shell("$L $D >&- 2>&-").returncode == 2
    assert DEMO.read_bytes() == before
