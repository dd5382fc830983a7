"""Every public call, from many threads, with what nobody should pass: the errors are ours, and memory stays flat."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import logdiag
from logdiag import Action, Category, Diagnosis, LogdiagError, Reason, diagnose
from logdiag.model import Role, Support
from logdiag.report import FORMATS, render
from logdiag.rules import RuleBook
from tests.helpers import LOGS, environment, rule_text, write_rule

DEMO = (LOGS / "demo.log").read_bytes()


class Breaks(io.RawIOBase):
    """An open file whose reads fail after a while."""

    def __init__(self) -> None:
        self.left = 3

    def read(self, size: int = -1) -> bytes:
        """A line of work, three times."""
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")
        return b"step 1 loss 2.0\n"


def hostile_logs(folder: Path) -> list[Any]:
    """What may be named or passed as a log: broken, foreign, endless words, and no log at all."""
    noise = random.Random(7).randbytes(20_000)
    (folder / "empty.log").write_bytes(b"")
    (folder / "noise.log").write_bytes(noise)
    (folder / "torn.log.gz").write_bytes(b"\x1f\x8b\x08\x00" + noise[:100])
    (folder / "no.tar").write_bytes(b"x" * 600)
    (folder / "\x1b]0;name\x07.log").write_bytes(DEMO)
    (folder / "job").mkdir()
    (folder / "job" / "loop").symlink_to(folder / "job")
    (folder / "job" / "rank_99999999.log").write_bytes(DEMO)
    written = [str(path) for path in sorted(folder.iterdir())]
    named = ["", "\0", "no/such.log", "x" * 5000, "\ud800", "https://host.example/x.log", Path("nowhere"), folder]
    content = [
        *(b"", b"\n", b"\0" * 5000, noise, "\u00fc".encode("utf-16"), b"\xff\xfe" + noise, DEMO[:7000], DEMO),
        *(b"[" * 100_000, b'{"a":' * 20_000, b"Traceback (most recent call last):\n" * 300, b"x" * 300_000),
        *(b"\x1b[31m" * 9000, b"[rank9999999999]: E\n" * 50, b"Xid " + b"9" * 5000, b"step 1 loss nan\n" * 300),
        b"Exited with exit code " + b"1" * 5000,
    ]
    foreign = [io.BytesIO(DEMO), io.StringIO("text"), Breaks(), 7, None, 1.5, ["a"], {"a": 1}, object(), print]
    return [*written, *named, *content, *foreign]


def hostile_options(folder: Path) -> list[dict[str, Any]]:
    """What may be passed beside the log."""
    write_rule(folder / "good", "framework/ours", rule_text())
    write_rule(folder / "bad", "framework/ours", "[" * 3000)
    (folder / "store").write_bytes(b"no folder")
    (folder / "broken" / "x").mkdir(parents=True)
    (folder / "broken" / "incidents.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    return [
        {},
        {"rules": str(folder / "good")},
        {"rules": folder / "good"},
        {"rules": [folder / "good", folder / "good"]},
        *({"rules": rules} for rules in ("our", "/dev/null", str(folder / "bad"), "\0", [None], [7], b"our", 7, [""])),
        *(
            {"memory": place}
            for place in (folder / "none", folder / "store", folder / "broken", "\0", "postgresql://%", "x://y")
        ),
        *({"llm": name, "memory": False} for name in ("foo", "always", ":", "a:", ":b", 7)),
        *({"exit_code": code} for code in (0, 1, -9, 137, 2**70)),
        {"job": {"name": "\0" * 99, "user": "\x1b[2J"}},
        {"remember": True},
        {"remember": True, "memory": folder / "store"},
        {"remember": True, "memory": False},
    ]


def of_ours(call: Callable[[], object]) -> object:
    """What a call gives, or the error of ours that it raises; any other error is the test's failure."""
    try:
        return call()
    except LogdiagError as error:
        return error


def read_through(answer: object) -> object:
    """Whatever came back can be printed in every form, and comes back from JSON."""
    if isinstance(answer, Diagnosis):
        for form in FORMATS:
            render(answer, form).encode()
        assert of_ours(lambda: Diagnosis.from_dict(answer.to_dict())) is not None
    return answer


def test_hostile_logs_from_many_threads_raise_nothing_foreign(book: RuleBook, tmp_path: Path) -> None:
    """Each is an answer or an error of ours."""
    (tmp_path / "logs").mkdir()
    given = hostile_logs(tmp_path / "logs")
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(lambda log: read_through(of_ours(lambda: diagnose(log, rules=book, memory=False))), given * 2)
        )
    assert len(answers) == 2 * len(given)
    assert sum(isinstance(answer, Diagnosis) for answer in answers) > len(given) / 2
    assert sum(isinstance(answer, LogdiagError) for answer in answers) > len(given) / 2


def test_hostile_options_raise_nothing_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is an answer, perhaps with a note, or an error of ours."""
    monkeypatch.setenv("LOGDIAG_MEMORY", str(tmp_path / "memory"))  # one of its own: something is remembered
    options = hostile_options(tmp_path)
    answers = [read_through(of_ours(partial(diagnose, DEMO, **given))) for given in options]
    assert sum(isinstance(answer, Diagnosis) for answer in answers) > 10
    assert all(answer.reason is Reason.ECC_ERROR for answer in answers if isinstance(answer, Diagnosis))


@pytest.mark.parametrize("value", [None, 7, "", "{}", [], {"schema": 3}, {"root_cause": []}, {"reason": "\ud800"}])
def test_what_is_no_answer_is_refused_by_from_dict(value: Any) -> None:
    """With an error of ours."""
    with pytest.raises(LogdiagError):
        Diagnosis.from_dict(value)


@pytest.mark.parametrize("word", [*Reason, *Action, *Category, *Role, *Support])
def test_words_of_closed_lists_print_as_themselves(word: Any) -> None:
    """In every version of Python alike: as a string, in an f-string, and filled up to a width."""
    assert str(word) == f"{word}" == f"{word:s}" == "{}".format(word) == "%s" % word == word.value  # noqa: UP031, UP032
    assert f"{word:>40}" == word.value.rjust(40)


def test_rules_may_be_one_path(tmp_path: Path) -> None:
    """A text is no list of its letters."""
    write_rule(tmp_path, "framework/ours", rule_text())
    for rules in (str(tmp_path), tmp_path, [tmp_path]):
        answer = diagnose(b"step 1 loss 2.0\nerror: widget jammed\n", rules=rules, memory=False)
        assert answer.root_cause is not None
        assert answer.root_cause.rule == "framework/ours"
    with pytest.raises(logdiag.RuleError, match=r"^our: no such folder of rules; "):
        diagnose(DEMO, rules="our", memory=False)


@pytest.mark.parametrize("name", ["foo", "always", "openai:", ":gpt"])
def test_a_model_without_a_provider_is_refused_at_once(name: str) -> None:
    """As the command refuses it."""
    with pytest.raises(logdiag.AgentError, match=rf"^llm: '{name}' cannot be used; give provider:model"):
        diagnose(DEMO, llm=name, memory=False)


USERS_OWN = """
import sys
from logdiag import diagnose
reached = []
sys.addaudithook(lambda event, given: reached.append(str(given[0])) if event in ("open", "sqlite3.connect") else None)
answer = diagnose(sys.argv[1], remember=True)
print([path for path in reached if sys.argv[2] in path and "cache" not in path], answer.notes)
"""


def test_a_library_call_does_not_read_the_users_home(tmp_path: Path) -> None:
    """No store and no settings there; what is named by LOGDIAG_MEMORY is asked."""
    home = tmp_path / "home"
    for place in (".local/share/logdiag/memory", ".config/logdiag"):
        (home / place).mkdir(parents=True)
    (home / ".local/share/logdiag/memory/incidents.db").write_bytes(b"broken")
    (home / ".config/logdiag/logdiag.toml").write_text("broken")
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "incidents.db").write_bytes(b"broken")
    env = environment({"HOME": str(home)})
    for name in ("LOGDIAG_MEMORY", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        env.pop(name, None)
    arguments = [sys.executable, "-c", USERS_OWN, str(LOGS / "demo.log"), str(home)]
    done = subprocess.run(arguments, capture_output=True, text=True, env=env, check=True)
    assert done.stdout.startswith("[] (")
    assert "was not kept, for no memory is named" in done.stdout
    assert "memory was not asked" not in done.stdout
    env["LOGDIAG_MEMORY"] = str(tmp_path / "named")
    done = subprocess.run(arguments, capture_output=True, text=True, env=env, check=True)
    assert "memory was not asked" in done.stdout
    del env["LOGDIAG_MEMORY"]
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    command = [sys.executable, "-m", "logdiag", "--config", str(empty), str(LOGS / "demo.log")]
    assert "memory was not asked" in subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_hundreds_of_diagnoses_leave_memory_flat(book: RuleBook) -> None:
    """The second half needs no more than the first, and no descriptor stays open; `make soak` makes ten thousand."""
    log = b"step 1 loss 2.0\nstep 2 loss 1.9\n" + DEMO[-3000:]

    def half() -> None:
        with ThreadPoolExecutor(2) as pool:
            assert len(set(pool.map(lambda _: diagnose(log, rules=book, memory=False).reason, range(250)))) == 1

    half()
    before, files = resident(), len(os.listdir("/proc/self/fd"))
    half()
    assert resident() - before < 2 << 20
    assert len(os.listdir("/proc/self/fd")) <= files
