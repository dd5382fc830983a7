"""`logdiag run`: real processes, real terminals, real signals; what fails is diagnosed and goes on by policy."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from logdiag.recovery.hook import resume
from tests.helpers import environment, run_logdiag

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the marks of processes are read from /proc")

# What is seen at once is seen at once here too. A busy machine lets a job stand still for seconds: only a test of a
# hang takes that for one.
QUICK = "hang: {{times: 5, at_least: {at_least}, after_fault: 0.5}}\nwait: {{seconds: 0.2}}\n"
# Seconds in which a busy machine has answered too.
PATIENCE = 100
# A child in a session of its own, which no signal to the job's group reaches.
ORPHAN = "open({file!r}, 'w').write(str(subprocess.Popen(['sleep', '300'], start_new_session=True).pid))"
STEPS = (
    "import os, signal, subprocess, sys, time\n"
    "for n in range({first}, {last}):\n    print('step', n, 'loss', 2.0, flush=True); time.sleep(0.03)\n"
)


@pytest.fixture
def quick(tmp_path: Path) -> str:
    """A policy file for tests."""
    return policy_in(tmp_path, PATIENCE)


def policy_in(folder: Path, at_least: int) -> str:
    """A policy file that takes so many seconds of silence for a hang."""
    file = folder / "policy.yaml"
    file.write_text(QUICK.format(at_least=at_least), encoding="utf-8")
    return str(file)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def steps(first: int, last: int) -> str:
    return STEPS.format(first=first, last=last)


def events(state: Path, kind: str = "") -> list[dict[str, Any]]:
    rows = [json.loads(row) for row in (state / "ledger.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if not kind or row["event"] == kind]


def choices(state: Path) -> list[str]:
    return [row["step"] for row in events(state, "choice")]


def wait_for(what: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < until, "it did not come in time"
        time.sleep(0.05)


def is_alive(pid_file: Path) -> bool:
    """Whether a process still runs; one that has ended may wait for its new parent to take note."""
    try:
        status = Path(f"/proc/{pid_file.read_text()}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def started(arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "logdiag", "run", *arguments], env=environment(), **options)


def test_output_and_status_go_through_unchanged(tmp_path: Path) -> None:
    """Byte by byte on both streams, the log has both; nothing of logdiag is in standard output."""
    code = "import sys\nsys.stdout.buffer.write(b'\\xff\\x00a\\rb\\n'); sys.stderr.write('warned\\n'); sys.exit(0)"
    done = run_logdiag("run", "--state", tmp_path / "s", "--", *python(code))
    assert (done.returncode, done.stdout) == (0, b"\xff\x00a\rb\n")
    assert done.stderr.startswith(b"warned\n")
    assert sorted((tmp_path / "s" / "attempt-1.log").read_bytes()) == sorted(b"\xff\x00a\rb\nwarned\n")


@pytest.mark.parametrize(("end", "status"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), signal.SIGKILL)", 137)])
def test_the_status_of_the_job_is_kept(tmp_path: Path, end: str, status: int) -> None:
    """Also where a signal ended it: 128 and its number. --restart 0 diagnoses and restarts nothing."""
    done = run_logdiag(
        "run", "--restart", "0", "--state", tmp_path / "s", "--", *python(f"import os, signal, sys\n{end}")
    )
    assert done.returncode == status
    assert len(events(tmp_path / "s", "start")) == 1
    assert b"FAILED" in done.stderr


def test_output_is_live(tmp_path: Path) -> None:
    """A line is there while the job still runs."""
    code = "import sys\nprint('first', flush=True)\nsys.stdin.read()"
    job = started(["--state", str(tmp_path / "s"), "--", *python(code)],
                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    assert job.stdout is not None
    assert job.stdout.readline() == b"first\n"
    assert job.poll() is None
    job.communicate(timeout=PATIENCE)
    assert job.returncode == 0


def test_a_terminal_stays_a_terminal(tmp_path: Path) -> None:
    """The job sees one of the same width, prints colours, and not a byte is changed."""
    ours, theirs = pty.openpty()
    import fcntl
    import struct
    import termios

    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 77, 0, 0))
    code = (
        "import os, sys\nprint(sys.stdout.isatty(), os.get_terminal_size().columns, '\\x1b[31mred\\x1b[0m', end='\\r')"
    )
    job = started(["--state", str(tmp_path / "s"), "--", *python(code)], stdin=subprocess.DEVNULL, stdout=theirs,
                  stderr=subprocess.PIPE)  # fmt: skip
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], PATIENCE)[0]:
        try:
            piece = os.read(ours, 1000)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    job.communicate(timeout=PATIENCE)
    os.close(ours)
    assert shown == b"True 77 \x1b[31mred\x1b[0m\r"


TYPED = """
import os, pty, sys
typed = [b"hello\\n"]
def shown(end):
    piece = os.read(end, 1000)
    if b"ready" in piece:
        os.write(end, typed.pop())
    return piece
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:], shown)))
"""


def test_what_is_typed_reaches_the_job(tmp_path: Path) -> None:
    """On a terminal a debugger can be used; nothing is shown twice."""
    code = "print('got', input('ready> '), sys.stdin.isatty())"
    words = [
        sys.executable,
        "-m",
        "logdiag",
        "run",
        "--state",
        str(tmp_path / "s"),
        "--",
        *python("import sys\n" + code),
    ]
    done = subprocess.run(
        [sys.executable, "-c", TYPED, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(),
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"ready> hello\r\ngot hello True\r\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_job_and_starts_nothing_again(tmp_path: Path, number: signal.Signals) -> None:
    """The job's own handler says how it ends."""
    code = (
        f"import signal, sys, time\nsignal.signal({int(number)}, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    job = started(["--state", str(tmp_path / "s"), "--", *python(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert job.stdout is not None
    assert job.stdout.readline() == b"ready\n"
    job.send_signal(number)
    _, said = job.communicate(timeout=PATIENCE)
    assert job.returncode == 5
    assert f"ended by {number.name}".encode() in said
    assert len(events(tmp_path / "s", "start")) == 1


def test_a_signal_ends_the_waiting_too(tmp_path: Path) -> None:
    """Between two attempts nothing is started; a person may give another command then, a scheduler the same."""
    code = steps(0, 8) + "raise ConnectionError('HTTP Error 503: Service Unavailable')"
    for number, other in ((signal.SIGTERM, 2), (signal.SIGINT, 0)):
        state = tmp_path / number.name
        job = started(
            ["--state", str(state), "--", *python(code)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for((state / "ledger.jsonl").exists)
        wait_for(partial(events, state, "choice"))
        job.send_signal(number)
        assert job.wait(PATIENCE) == 1
        assert len(events(state, "start")) == 1
        assert run_logdiag("run", "--state", state, "--", "true").returncode == other


def test_out_of_memory_at_the_same_step_stops_with_advice(tmp_path: Path) -> None:
    """After one restart, for another step may be passed; the steps to take are printed."""
    code = steps(0, 8) + "raise MemoryError('Unable to allocate 4.00 GiB')"
    done = run_logdiag("run", "--state", tmp_path / "s", "--", *python(code))
    assert done.returncode == 1
    assert choices(tmp_path / "s") == ["restart", "stop"]
    assert b"fewer data-loading workers" in done.stderr


def test_a_hang_that_ends_politely_is_no_success(tmp_path: Path) -> None:
    """A job that is told to end and says 0 has not done its work."""
    code = steps(0, 20) + "signal.signal(signal.SIGTERM, lambda *_: os._exit(0))\ntime.sleep(300)"
    policy = policy_in(tmp_path, 5)
    done = run_logdiag("run", "--policy", policy, "--restart", "0", "--state", tmp_path / "s", "--", *python(code))
    assert done.returncode == 1
    assert choices(tmp_path / "s") == ["stop"]


def test_a_checkpoint_that_is_only_written_anew_is_no_progress(tmp_path: Path) -> None:
    """A job without steps in its output that fails again and again, each time behind the same checkpoint."""
    saved = tmp_path / "ckpt"
    saved.mkdir()
    code = (
        f"open({str(saved / 'step_3.safetensors')!r}, 'wb').write((2).to_bytes(8, 'little') + b'{{}}')\n"
        "raise ConnectionResetError(104, 'Connection reset by peer')"
    )
    run_logdiag("run", "--state", tmp_path / "s", "--checkpoint-dir", saved, "--", *python(code))
    assert [row["failure"]["progressed"] for row in events(tmp_path / "s", "choice")] == [True, False, False]


def test_a_passing_fault_goes_on_from_the_last_whole_checkpoint(tmp_path: Path) -> None:
    """The torn one is skipped and named; the script is told by placeholder and by variable."""
    saved = tmp_path / "ckpt"
    saved.mkdir()
    (saved / "step_5.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    code = steps(0, 8) + (
        f"if not sys.argv[2:]:\n    open({str(saved / 'step_9.safetensors')!r}, 'wb').write(b'torn')\n"
        f"    os.rename({str(saved / 'step_5.safetensors')!r}, {str(saved / 'step_6.safetensors')!r})\n"
        "    raise ConnectionResetError(104, 'Connection reset by peer')\n"
        "print('from', sys.argv[2], os.environ['LOGDIAG_RUN_CHECKPOINT'] in sys.argv[2])"
    )
    (saved / "step_5.safetensors").rename(tmp_path / "later")
    code = code.replace(repr(str(saved / "step_5.safetensors")), repr(str(tmp_path / "later")))
    done = run_logdiag(
        "run", "--state", tmp_path / "s", "--checkpoint-dir", saved, "--", *python(code), "x", "--from={checkpoint}"
    )
    assert done.returncode == 0, done.stderr.decode()
    assert f"from --from={saved}/step_6.safetensors True".encode() in done.stdout
    assert b"not used: " in done.stderr
    assert b"step_9.safetensors" in done.stderr
    assert choices(tmp_path / "s") == ["restart"]


def test_a_script_error_stops_at_once_with_the_advice(tmp_path: Path) -> None:
    """No second attempt, and the report says what to do."""
    done = run_logdiag("run", "--state", tmp_path / "s", "--", *python(steps(0, 6) + "print(lerning_rate)"))
    assert done.returncode == 1
    assert choices(tmp_path / "s") == ["stop"]
    assert b"NameError" in done.stderr
    assert b"fix_and_resubmit" in done.stderr


def test_what_nobody_knows_is_restarted_once(tmp_path: Path) -> None:
    """Words of no rule, after progress, and again."""
    code = steps(0, 8) + "print('the fluxgate is torn'); sys.exit(3)"
    done = run_logdiag("run", "--state", tmp_path / "s", "--", *python(code))
    assert done.returncode == 3
    assert choices(tmp_path / "s") == ["restart", "stop"]


def test_a_hang_is_seen_while_the_job_waits(tmp_path: Path) -> None:
    """A stopped process says nothing: it is ended, its children too, and the job started again; in seconds."""
    code = steps(0, 20) + (
        "if os.environ['LOGDIAG_RUN_ATTEMPT'] == '1':\n"
        f"    {ORPHAN.format(file=str(tmp_path / 'pid'))}\n    os.kill(os.getpid(), signal.SIGSTOP)"
    )
    began = time.monotonic()
    done = run_logdiag("run", "--policy", policy_in(tmp_path, 5), "--state", tmp_path / "s", "--", *python(code))
    assert done.returncode == 0, done.stderr.decode()
    assert time.monotonic() - began < PATIENCE
    assert [row["failure"]["seen"] for row in events(tmp_path / "s", "choice")] == ["hang"]
    assert not is_alive(tmp_path / "pid")


def test_a_restart_that_does_not_come_to_its_first_step_is_a_hang_too(tmp_path: Path) -> None:
    """The second attempt waits for its peers in silence; the third goes on."""
    code = (
        "import os, time\nif os.environ['LOGDIAG_RUN_ATTEMPT'] == '2': time.sleep(300)\n"
        + steps(0, 8)
        + "if os.environ['LOGDIAG_RUN_ATTEMPT'] == '1': raise ConnectionResetError(104, 'Connection reset by peer')"
    )
    done = run_logdiag("run", "--policy", policy_in(tmp_path, 5), "--state", tmp_path / "s", "--", *python(code))
    assert done.returncode == 0, done.stderr.decode()
    assert [row["failure"]["seen"] for row in events(tmp_path / "s", "choice")] == ["log", "hang"]


def test_an_xid_is_acted_on_while_the_job_still_waits(tmp_path: Path, quick: str) -> None:
    """The node is left out of the next attempt; the spare one takes its place."""
    (tmp_path / "hosts").write_text("127.0.0.2\n127.0.0.3  # slots=8\n127.0.0.4\n", encoding="utf-8")
    xid = "Nov 23 13:50:01 127.0.0.3 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus."
    code = (
        steps(0, 10)
        + "print(sys.argv[1], flush=True)\nif '127.0.0.3' in sys.argv[1]:\n"
        + f"    print({xid!r}, flush=True); time.sleep(300)"
    )
    done = run_logdiag("run", "--policy", quick, "--state", tmp_path / "s", "--nodes", tmp_path / "hosts", "--",
                       *python(code), "{nodes:2}")  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert re.findall(rb"^127.*", done.stdout, re.MULTILINE) == [b"127.0.0.2,127.0.0.3", b"127.0.0.2,127.0.0.4"]
    assert [row["node"] for row in events(tmp_path / "s", "choice")] == ["127.0.0.3"]
    assert b"seen: GPU has fallen off the bus" in done.stderr


@pytest.mark.parametrize("bad", ["90.5", "nan"])
def test_a_loss_that_spikes_is_rolled_back_and_its_batches_skipped(tmp_path: Path, quick: str, bad: str) -> None:
    """From the last checkpoint before it, though a later one is whole; the hook tells the batches."""
    saved = tmp_path / "ckpt"
    saved.mkdir()
    code = (
        "import os, sys, time\nfrom logdiag.recovery.hook import resume\nplan = resume()\n"
        "first = int(plan.checkpoint.rsplit('_')[-1].split('.')[0]) + 1 if plan.checkpoint else 0\n"
        "print('begins at', first, flush=True)\n"
        "for n in range(first, 60):\n    if plan.skips(n):\n        print('left out', n, flush=True); continue\n"
        f"    print('step', n, 'loss', {bad!r} if plan.attempt == 1 and n > 24 else 2.0, flush=True)\n"
        # The bad one would go on for ever; it waits until that is seen.
        "    time.sleep(300 if plan.attempt == 1 and n == 30 else 0.05)\n"
        "    if n % 10 == 0 or n == 25:\n"
        f"        open(f'{saved}/step_{{n}}.safetensors', 'wb').write((2).to_bytes(8, 'little') + b'{{}}')\n"
    )
    done = run_logdiag(
        "run", "--policy", quick, "--state", tmp_path / "s", "--checkpoint-dir", saved, "--", *python(code)
    )
    assert done.returncode == 0, done.stderr.decode()
    assert re.findall(rb"begins at (\d+)", done.stdout) == [b"0", b"21"]
    left_out = [int(number) for number in re.findall(rb"left out (\d+)", done.stdout)]
    assert set(left_out) >= {24, 25, 26, 27}
    assert left_out == list(range(24, left_out[-1] + 1))
    assert left_out[-1] < 34
    assert choices(tmp_path / "s") == ["rollback"]


def test_a_killed_logdiag_goes_on_where_it_was(tmp_path: Path) -> None:
    """kill -9 in the second attempt: the budget and the attempts are known; the job's orphans end."""
    code = steps(0, 8) + (
        "if os.environ['LOGDIAG_RUN_ATTEMPT'] == '2':\n"
        f"    {ORPHAN.format(file=str(tmp_path / 'pid'))}\n    time.sleep(300)\n"
        "raise ConnectionResetError(104, 'Connection reset by peer')"
    )
    command = ["--state", str(tmp_path / "s"), "--", *python(code)]
    job = started(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for((tmp_path / "pid").exists)
    wait_for((tmp_path / "pid").read_text)
    job.kill()
    job.wait()
    with (tmp_path / "s" / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b'{"event": "cho')
    other = run_logdiag("run", "--state", tmp_path / "s", "--", "true")
    assert other.returncode == 2
    assert b"holds the unfinished job" in other.stderr
    done = run_logdiag("run", *command)
    assert done.returncode == 1
    assert b"lost its logdiag" in done.stderr
    assert not is_alive(tmp_path / "pid")
    assert [row["attempt"] for row in events(tmp_path / "s", "start")] == [1, 2, 3, 4]
    assert choices(tmp_path / "s") == ["restart", "restart", "stop"]


def test_only_one_logdiag_watches_a_job(tmp_path: Path) -> None:
    """The second is told so."""
    job = started(["--state", str(tmp_path / "s"), "--", "sleep", "60"])
    wait_for(lambda: (tmp_path / "s" / "ledger.jsonl").exists() and events(tmp_path / "s", "start"))
    done = run_logdiag("run", "--state", tmp_path / "s", "--", "sleep", "60")
    job.terminate()
    job.wait()
    assert (done.returncode, b"another logdiag watches this job" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--policy", "nowhere.yaml", "--", "touch", "x"], "--policy nowhere.yaml: cannot be read"),
        (["--checkpoint-dir", "nowhere", "--", "touch", "x"], "--checkpoint-dir nowhere: no such folder"),
        (["--nodes", "hosts", "--", "touch", "x"], "COMMAND says nowhere which nodes to use"),
        (["--nodes", "nowhere", "--", "touch", "{nodes}"], "--nodes nowhere: cannot be read"),
        (["--nodes", "wrong", "--", "touch", "{nodes}"], "no.such.host.invalid: no such host"),
        (["--", "touch", "{nodes}"], "give --nodes FILE"),
        (["--", "touch", "{checkpoint}"], "give --checkpoint-dir DIR"),
        (["--", "no-such-command-at-all"], "no-such-command-at-all: no such command"),
        (["--notify", "team", "--", "touch", "x"], "--notify team: no address"),
        (["--offline", "--notify", "http://127.0.0.1:9", "--", "touch", "x"], "offline is set"),
        (["--job", "nonsense", "--", "touch", "x"], "--job nonsense: not KEY=VALUE"),
        (["--state", "hosts", "--", "touch", "x"], "--state hosts: cannot be written"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_nothing_starts(
    tmp_path: Path, arguments: list[str], wanted: str
) -> None:
    """Status 2, the file and the remedy named, no process, no ledger."""
    (tmp_path / "hosts").write_text("127.0.0.1\n", encoding="utf-8")
    (tmp_path / "wrong").write_text("127.0.0.1\nno.such.host.invalid\n", encoding="utf-8")
    done = run_logdiag("run", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert wanted in done.stderr.decode()
    assert len(done.stderr.decode().strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hosts", "wrong"]


def test_the_hook_says_nothing_outside_of_a_run() -> None:
    """A script with the hook runs as it is; what is told is read back."""
    assert resume({}).checkpoint == ""
    assert not resume({}).skips(0)
    told = resume({"LOGDIAG_RUN_SKIP": "3-5,9-9", "LOGDIAG_RUN_ATTEMPT": "2", "LOGDIAG_RUN_EXCLUDE": "n1,n2"})
    assert [number for number in range(12) if told.skips(number)] == [3, 4, 5, 9]
    assert (told.attempt, told.excluded) == (2, ("n1", "n2"))
