"""The command, run as people run it: real processes, pipes and files."""

from __future__ import annotations

import gzip
import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from logdiag import __version__
from tests.helpers import LOGS, environment, log_of, rule_text, run_logdiag, steps, traceback_of, write_rule
from tests.memory_helpers import without_root_powers

DEMO = LOGS / "demo.log"
HEALTHY = LOGS / "healthy-scary.log"
KEY_ERROR = log_of(*steps(1, 20), *traceback_of("KeyError: 'caption'"))


def complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one sentence on standard error of a command that could not do its work."""
    text = done.stderr.decode()
    assert done.returncode == 2, text
    assert done.stdout == b""
    assert "Traceback" not in text
    assert text.startswith("logdiag: ")
    assert len(text.splitlines()) == 1, text
    return text


# --- one job ---


def test_a_file_is_diagnosed() -> None:
    """The report goes to standard output, nothing to standard error, and the status is 0."""
    done = run_logdiag(DEMO)
    assert done.returncode == 0
    assert done.stderr == b""
    text = done.stdout.decode()
    assert text.startswith("FAILED  infrastructure / ECCError")
    assert f"{DEMO}:159" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("arguments", [[], ["-"]], ids=["nothing", "dash"])
def test_a_pipe_is_diagnosed(arguments: list[str]) -> None:
    """Without a path, or for `-`."""
    done = run_logdiag(*arguments, "--format", "json", stdin=DEMO.read_bytes())
    answer = json.loads(done.stdout)
    assert answer["reason"] == "ECCError"
    assert answer["root_cause"]["source"] == "<stdin>"
    assert answer["root_cause"]["line"] == 159


def test_several_paths_and_a_folder_are_one_job(tmp_path: Path) -> None:
    """One answer, which names the file of the root cause."""
    (tmp_path / "rank_0.log").write_bytes(log_of(*steps(1, 20)))
    (tmp_path / "rank_1.log").write_bytes(KEY_ERROR)
    by_files = json.loads(run_logdiag(tmp_path / "rank_0.log", tmp_path / "rank_1.log", "--format", "jsonl").stdout)
    by_folder = json.loads(run_logdiag(tmp_path, "--format", "jsonl").stdout)
    for answer in (by_files, by_folder):
        assert answer["reason"] == "KeyError"
        assert answer["root_cause"]["source"] == str(tmp_path / "rank_1.log")
        assert answer["root_cause"]["rank"] == 1


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("text", "FAILED"),
        ("json", "{\n"),
        ("jsonl", '{"schema": "logdiag.diagnosis/1"'),
        ("markdown", "## FAILED"),
        ("sarif", '{\n  "$schema"'),
    ],
)
def test_each_format_is_printed(form: str, start: str) -> None:
    """What it begins with, and one final newline."""
    text = run_logdiag(DEMO, "--format", form).stdout.decode()
    assert text.startswith(start)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert (len(text.splitlines()) == 1) == (form == "jsonl")


@pytest.mark.parametrize(
    ("name", "status"),
    [("demo.log", 10), ("slurm-oom.log", 11), ("keyerror-rank2.log", 12), ("healthy-scary.log", 0)],
)
def test_the_exit_status_tells_the_category_when_asked(name: str, status: int) -> None:
    """10 infrastructure, 11 framework, 12 script, 0 healthy; without the option 0 for all."""
    assert run_logdiag(LOGS / name, "--exit-code").returncode == status
    assert run_logdiag(LOGS / name).returncode == 0


def test_a_log_that_does_not_tell_has_an_exit_status_of_its_own() -> None:
    """13: it stops before anything was done, or holds nothing at all."""
    for log in (log_of("loading the tokenizer", "reading 12 shards"), b""):
        done = run_logdiag("--exit-code", stdin=log)
        assert done.returncode == 13
        assert done.stdout.startswith(b"NOT KNOWN  the log does not tell")


def test_the_jobs_own_exit_code_counts() -> None:
    """A log that shows nothing of a job that failed is a failure."""
    silent = log_of("hello")
    failed = json.loads(run_logdiag("--exit-code-of-job", "137", "--format", "json", stdin=silent).stdout)
    fine = json.loads(run_logdiag("--exit-code-of-job", "0", "--format", "json", stdin=silent).stdout)
    assert (failed["failed"], failed["reason"]) == (True, "Others")
    assert not fine["failed"]


def test_the_digest_ends_with_its_receipt() -> None:
    """Lines with their own numbers, then lines in, kept and left out, which add up."""
    lines = [f"shard {number} opened" for number in range(3000)]
    done = run_logdiag("--digest", stdin=log_of(*lines, *traceback_of("KeyError: 'caption'")))
    text = done.stdout.decode()
    assert "3005 | " not in text or "KeyError" in text
    assert "3006 | KeyError: 'caption'" in text
    receipt = next(line for line in text.splitlines() if " lines in, " in line)
    total, kept, left_out = (int(word.replace(",", "")) for word in receipt.split() if word[0].isdigit())
    assert total == 3006
    assert kept + left_out == total
    dropped = text.split(receipt)[1].strip().splitlines()
    assert sum(int(line.split()[0].replace(",", "")) for line in dropped) == left_out


def test_a_rule_folder_of_ones_own_is_used(tmp_path: Path) -> None:
    """`--rules` may be given twice."""
    write_rule(tmp_path / "a", "framework/widget", rule_text(match=["widget jammed"], fires=["widget jammed"]))
    write_rule(tmp_path / "b", "script/gear", rule_text(reason="TypeError", match=["gear stuck"], fires=["gear stuck"]))
    both = ["--rules", str(tmp_path / "a"), "--rules", str(tmp_path / "b"), "--format", "json"]
    assert json.loads(run_logdiag(*both, stdin=b"widget jammed\n").stdout)["root_cause"]["rule"] == "framework/widget"
    assert json.loads(run_logdiag(*both, stdin=b"gear stuck\n").stdout)["root_cause"]["rule"] == "script/gear"
    assert not json.loads(run_logdiag("--format", "json", stdin=b"gear stuck\n").stdout)["failed"]


def test_a_filter_bound_to_a_job_is_used_for_that_job(tmp_path: Path) -> None:
    """`--job` tells the job's metadata."""
    write_rule(
        tmp_path, "filters/gears", "title: g\ndrop: ['^gear ']\njob: {user: mira}\nexamples: {drops: ['gear a']}\n"
    )
    lines = log_of(*(f"gear {number} turned" for number in range(500)))
    mine = run_logdiag(
        "--digest", "--rules", tmp_path, "--job", "user=mira", "--job", "name=x", stdin=lines
    ).stdout.decode()
    other = run_logdiag("--digest", "--rules", tmp_path, "--job", "user=ada", stdin=lines).stdout.decode()
    assert "filters/gears" in mine
    assert "filters/gears" not in other


# --- passing through ---


def test_tee_passes_the_bytes_through_unchanged() -> None:
    """Every byte goes to standard output, the report to standard error."""
    data = KEY_ERROR + b"\x1b[31mred\x1b[0m \xff\x00 last line without newline"
    done = run_logdiag("--tee", stdin=data)
    assert done.stdout == data
    assert b"KeyError" in done.stderr
    assert done.stderr.startswith(b"FAILED")


def test_tee_passes_each_line_through_before_the_next_is_written() -> None:
    """Live: what the job printed is seen at once."""
    with subprocess.Popen(
        [sys.executable, "-m", "logdiag", "--tee"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        bufsize=0,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for line in (
            b"step 1\n",
            b"a part of a line",
            b" and its end\n",
            *(f"{text}\n".encode() for text in traceback_of("KeyError: 1")),
        ):
            process.stdin.write(line)
            seen = b""
            while len(seen) < len(line):
                assert select.select([process.stdout], [], [], 30)[0], f"{line!r} did not come through"
                seen += process.stdout.read(len(line) - len(seen))
            assert seen == line
        assert process.poll() is None
        process.stdin.close()
        assert b"KeyError" in process.stderr.read()
        assert process.wait(30) == 0


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`logdiag ... | head -1` ends without a traceback."""
    with subprocess.Popen(
        [sys.executable, "-m", "logdiag", "--digest", str(DEMO)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


# --- many jobs ---


def test_batch_answers_one_line_for_each_path() -> None:
    """In the order given; each is a job of its own."""
    done = run_logdiag("batch", "--format", "jsonl", DEMO, HEALTHY, LOGS / "torchelastic")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["reason"] for answer in answers] == ["ECCError", "none", "ValueError"]
    assert [answer["source"] for answer in answers] == [str(DEMO), str(HEALTHY), str(LOGS / "torchelastic")]
    assert done.returncode == 0


def test_a_path_that_cannot_be_read_does_not_stop_a_batch(tmp_path: Path) -> None:
    """It is named on standard error, the others are answered, and the status is 2."""
    done = run_logdiag("batch", "-f", "jsonl", DEMO, tmp_path / "gone.log", HEALTHY)
    assert [json.loads(line)["reason"] for line in done.stdout.splitlines()] == ["ECCError", "none"]
    assert done.stderr.decode().count("gone.log") == 1
    assert done.returncode == 2


def test_batch_prints_digests_and_tells_the_worst_status() -> None:
    """The shared options work there too."""
    done = run_logdiag("batch", "--digest", DEMO, HEALTHY)
    assert done.stdout.count(b" lines in, ") == 2
    assert run_logdiag("batch", "--exit-code", HEALTHY, DEMO, LOGS / "keyerror-rank2.log").returncode == 12


# --- rules ---


def test_rules_list_names_every_rule() -> None:
    """Id, role, reason and title; those of one reason, or those that hold some words, when asked."""
    rows = run_logdiag("rules", "list").stdout.decode().splitlines()
    assert len(rows) > 100
    assert any(row.startswith("nvidia/xid ") for row in rows)
    ecc = run_logdiag("rules", "list", "--reason", "ECCError").stdout.decode().splitlines()
    assert ecc
    assert all("ECCError" in row for row in ecc)
    nvme = run_logdiag("rules", "list", "nvme", "stopped").stdout.decode().splitlines()
    assert [row.split()[0] for row in nvme] == ["catalogues/kernel/nvme-lost"]
    assert b"no rule has frobnicate" in run_logdiag("rules", "list", "frobnicate").stderr


def test_rules_show_prints_the_rule_as_it_stands_in_its_file() -> None:
    """A file's only rule whole, one of a family its own rows, each with the file and the line where it begins."""
    path, line, shown = _shown("nvidia/ecc-uncorrectable")
    assert (shown, line) == (path.read_text(encoding="utf-8"), 1)
    path, line, shown = _shown("collectives/gloo-no-interface")
    rows = [row.strip() for row in path.read_text(encoding="utf-8").splitlines()][line - 1 :]
    assert rows[0] == "gloo-no-interface:"
    assert [row.strip() for row in shown.splitlines()] == rows[: len(shown.splitlines())]
    assert "reason: NetworkError" in shown
    assert "gloo-connect-failed" not in shown


def _shown(identity: str) -> tuple[Path, int, str]:
    """A rule's file, the line where it begins, and its text."""
    place, _, text = run_logdiag("rules", "show", identity).stdout.decode().partition("\n")
    path, line = place.removeprefix("# ").rsplit(":", 1)
    return Path(path), int(line), text


def test_rules_test_reports_all_problems_of_a_users_folder(tmp_path: Path) -> None:
    """Each with file, line and remedy; the status is 1."""
    write_rule(tmp_path, "framework/widget", rule_text(fires=["error: widget jammed", "gear stuck"]))
    write_rule(tmp_path, "framework/gear", rule_text(match=["cog lost"], fires=["cog lost"], quiet="['a cog lost']"))
    done = run_logdiag("rules", "test", tmp_path)
    mine = [line for line in done.stdout.decode().splitlines() if line.startswith(str(tmp_path))]
    assert done.returncode == 1
    assert {line.split(":")[0].rsplit("/", 1)[1] for line in mine} == {"widget.yaml", "gear.yaml"}
    assert all(line.split(":")[1].isdigit() and "; " in line for line in mine)
    as_json = json.loads(run_logdiag("rules", "test", tmp_path, "--format", "json").stdout)
    assert len([problem for problem in as_json if problem["file"].startswith(str(tmp_path))]) == len(mine)
    assert set(as_json[0]) == {"file", "line", "rule", "what", "remedy"}


def test_rules_why_names_the_winner_and_its_facts() -> None:
    """All rules that match, a star before the one that wins, and what it takes from the line."""
    text = run_logdiag(
        "rules", "why", "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus."
    ).stdout.decode()
    assert any(line.startswith("* nvidia/xid") for line in text.splitlines())
    assert "xid = 79" in text
    assert "no rule matches" in run_logdiag("rules", "why", "all is quiet").stdout.decode()
    advice = run_logdiag("rules", "why", "For debugging consider passing CUDA_LAUNCH_BLOCKING=1").stdout.decode()
    assert " cause " not in advice


# --- help ---


def test_the_version_is_printed() -> None:
    """The package's own."""
    assert __version__ in run_logdiag("--version").stdout.decode()


# --- what cannot be done ---


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    """With the path and the remedy."""
    said = complaint(run_logdiag(tmp_path / "gone.log"))
    assert str(tmp_path / "gone.log") in said
    assert "check the path" in said


def test_a_folder_without_logs_is_one_sentence(tmp_path: Path) -> None:
    """With what would be a log."""
    said = complaint(run_logdiag(tmp_path))
    assert str(tmp_path) in said
    assert "*.log" in said


@pytest.mark.skipif(sys.platform != "linux", reason="takes root's powers away by a call of Linux")
@pytest.mark.parametrize("kind", ["folder", "file", "file in a folder"])
def test_what_may_not_be_read_is_one_sentence(tmp_path: Path, kind: str) -> None:
    """A folder or file without permission is named, with the remedy."""
    folder = tmp_path / "run"
    folder.mkdir()
    log = folder / "rank_0.log"
    log.write_bytes(KEY_ERROR)
    closed = folder if kind == "folder" else log
    closed.chmod(0)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "logdiag", str(log if kind == "file" else folder)],
            capture_output=True,
            env=environment(),
            preexec_fn=without_root_powers,
            check=False,
            timeout=60,
        )
    finally:
        closed.chmod(0o755)
    said = complaint(done)
    assert str(closed) in said
    assert "permission denied" in said


def test_a_corrupt_compressed_file_is_one_sentence(tmp_path: Path) -> None:
    """Nothing of the decompressor's own exceptions."""
    path = tmp_path / "job.log.gz"
    path.write_bytes(gzip.compress(KEY_ERROR)[:10] + b"garbage" * 20)
    said = complaint(run_logdiag(path))
    assert str(path) in said
    assert "; " in said


def test_broken_rules_are_named_all_at_once(tmp_path: Path) -> None:
    """Each with file and line, no traceback, status 2."""
    write_rule(tmp_path, "framework/a", rule_text(action="pray"))
    write_rule(tmp_path, "framework/b", "title: [")
    done = run_logdiag("--rules", tmp_path, stdin=b"x\n")
    said = done.stderr.decode()
    assert done.returncode == 2
    assert "Traceback" not in said
    assert "a.yaml:" in said
    assert "b.yaml:" in said


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--format", "pdf"], "pdf"),
        (["--exit-code-of-job", "many"], "many"),
        (["--exit-code-of-job", "999999"], "999999"),
        (["--brief", "--format", "json"], "--brief"),
        (["--output", "answer.pdf"], "answer.pdf"),
        (["--output", "/no/such/folder/answer.json"], "/no/such/folder/answer.json"),
        (["batch", "-o", "answer.json", "x.log"], "answer.json"),
        (["completion", "tcsh"], "tcsh"),
        (["--no-such-option"], "--no-such-option"),
        (["--job", "nothing"], "nothing"),
        (["--rules", "/no/such/folder"], "/no/such/folder"),
        (["batch"], "PATH"),
        (["batch", "--format", "pdf", "x.log"], "pdf"),
        (["rules", "show", "no/such-rule"], "no/such-rule"),
        (["rules", "list", "--reason", "Gremlins"], "Gremlins"),
        (["rules", "frobnicate"], "frobnicate"),
        (["rules", "why"], "LINE"),
        (["rules", "test", "/no/such/folder"], "/no/such/folder"),
    ],
)
def test_an_unknown_value_is_one_sentence_that_names_it(arguments: list[str], named: str) -> None:
    """Status 2, on standard error."""
    assert named in complaint(run_logdiag(*arguments, stdin=b"x\n"))


def test_a_log_named_like_a_command_can_be_given(tmp_path: Path) -> None:
    """By a path, or after `diagnose`."""
    (tmp_path / "batch").write_bytes(KEY_ERROR)
    for arguments in (["./batch"], ["diagnose", "batch"]):
        done = run_logdiag(*arguments, "--format", "json", cwd=tmp_path)
        assert json.loads(done.stdout)["reason"] == "KeyError"


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8"])
def test_any_locale_can_print_any_report(locale: str) -> None:
    """Characters that the terminal's coding lacks are escaped, not a crash."""
    data = log_of(*traceback_of("KeyError: 'größe \u4e2d\u6587 \U0001f600'"))
    environ = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run_logdiag(stdin=data, env=environ)
    assert done.returncode == 0, done.stderr
    assert b"KeyError" in done.stdout


def test_a_terminal_gets_colours_and_a_pipe_none() -> None:
    """Also when NO_COLOR asks for none."""
    plain = environment()
    plain.pop("NO_COLOR")
    coloured = on_a_terminal({**plain, "TERM": "xterm-256color"})
    assert b"\x1b[1;31m" in coloured
    assert b"ECCError" in coloured
    assert b"\x1b[1;31m" not in on_a_terminal({**plain, "NO_COLOR": "1"})
    piped = subprocess.run([sys.executable, "-m", "logdiag", str(DEMO)], env=plain, capture_output=True, check=True)
    assert b"\x1b" not in piped.stdout


def on_a_terminal(environ: dict[str, str]) -> bytes:
    """What a terminal is sent for the sample log."""
    import pty

    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "logdiag", str(DEMO)], stdout=follower, stderr=follower, env=environ
    ) as process:
        os.close(follower)
        sent = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # Linux ends a terminal that everyone left with an error
                break
            if not part:
                break
            sent += part
        process.wait(30)
    os.close(leader)
    return sent


def test_a_terminal_without_a_log_gets_help_not_silence() -> None:
    """`logdiag` alone in a terminal does not wait for input for ever."""
    import pty

    leader, follower = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "logdiag"],
        stdin=follower,
        capture_output=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    os.close(leader)
    os.close(follower)
    assert "no log was given" in complaint(done)
