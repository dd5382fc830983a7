"""What is kept between runs: only the user's own is believed, and nothing is left lying about."""

from __future__ import annotations

import marshal
import os
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdiag.rules import ReasonEntry, Rule
from logdiag.settings import cache
from tests.helpers import LOGS, environment

ASKED = """
import sys
from logdiag import diagnose
print(diagnose(sys.argv[1], memory=False).recovery.action.value)
"""
TRUE_ACTION = "restart_excluding_node"
FORGED_ACTION = "restart"


def asked(site: Path, folder: Path, temporary: Path) -> str:
    """The action for the sample log, from a process with this cache folder."""
    temporary.mkdir(exist_ok=True)
    env = environment({"PYTHONPATH": str(site), "LOGDIAG_CACHE": str(folder), "TMPDIR": str(temporary)})
    done = subprocess.run(
        [sys.executable, "-c", ASKED, str(LOGS / "demo.log")],
        capture_output=True,
        text=True,
        env=env,
        check=True,
        cwd=site,
    )
    return done.stdout.strip()


def forged(content: bytes) -> bytes:
    """A whole cache file in which every rule and reason advises another action, its check sum right."""
    name, plain = marshal.loads(content[4:])
    advice: dict[str, Any] = {"action": FORGED_ACTION, "action_before_progress": None}
    plain["rules"] = [tuple(Rule._make(item)._replace(**advice)) for item in plain["rules"]]
    plain["reasons"] = {
        reason: tuple(ReasonEntry._make(item)._replace(**advice)) for reason, item in plain["reasons"].items()
    }
    body = marshal.dumps((name, plain))
    return zlib.crc32(body).to_bytes(4, "big") + body


@pytest.fixture(scope="module")
def forgery(site: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """The name and the content of a cache file of the shipped rules that were replaced."""
    folder = tmp_path_factory.mktemp("forgery") / "cache"
    assert asked(site, folder, folder.with_name("tmp")) == TRUE_ACTION
    (file,) = folder.glob("rules-*")
    return file.name, forged(file.read_bytes())


@pytest.fixture
def poisoned(forgery: tuple[str, bytes], own_cache: Path) -> Path:
    """A cache folder whose rules were replaced."""
    own_cache.mkdir(mode=0o700)
    file = own_cache / forgery[0]
    file.write_bytes(forgery[1])
    file.chmod(0o600)
    return file


def test_the_forgery_would_be_believed_of_the_user_alone(poisoned: Path, site: Path, tmp_path: Path) -> None:
    """The control of the tests below: what is forged there does change the answer when nothing speaks against it."""
    assert asked(site, poisoned.parent, tmp_path / "tmp") == FORGED_ACTION


def everybody_writes(file: Path) -> None:
    """The file may be written by all."""
    file.chmod(0o666)


def a_group_writes(file: Path) -> None:
    """The file may be written by a group that is not its owner's alone."""
    os.chown(file, -1, 3 if os.geteuid() == 0 else os.getegid())
    file.chmod(0o620)


def everybody_writes_to_the_folder(file: Path) -> None:
    """Whoever likes may put another file there."""
    file.parent.chmod(0o777)


def another_owns_it(file: Path) -> None:
    """The file is somebody's."""
    os.chown(file, 65534, 65534)


def another_owns_the_folder(file: Path) -> None:
    """The folder is somebody's, its files ours."""
    os.chown(file.parent, 65534, 65534)


def a_link_leads_to_it(file: Path) -> None:
    """The file lies elsewhere."""
    file.rename(file.parent.parent / "elsewhere")
    file.symlink_to(file.parent.parent / "elsewhere")


needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")


@pytest.mark.parametrize(
    "give_away",
    [
        everybody_writes,
        everybody_writes_to_the_folder,
        a_link_leads_to_it,
        pytest.param(a_group_writes, marks=needs_root),
        pytest.param(another_owns_it, marks=needs_root),
        pytest.param(another_owns_the_folder, marks=needs_root),
    ],
)
def test_what_another_may_have_written_is_not_believed(own_cache: Path, give_away: Callable[[Path], None]) -> None:
    """A value that was kept and is the user's alone comes back; one that another may have written does not."""
    cache.write("thing", b"origin", "forged")
    assert cache.read("thing", b"origin") == "forged"
    (file,) = own_cache.iterdir()
    give_away(file)
    assert cache.read("thing", b"origin") is None


def test_rules_that_another_may_have_written_are_compiled_anew(poisoned: Path, site: Path, tmp_path: Path) -> None:
    """The action is that of the shipped rules."""
    everybody_writes(poisoned)
    assert asked(site, poisoned.parent, tmp_path / "tmp") == TRUE_ACTION


def test_nobody_else_may_read_or_write_what_is_kept(own_cache: Path) -> None:
    """Folder 0700, file 0600, whatever the mask of the process is."""
    before = os.umask(0)
    try:
        cache.write("thing", b"origin", [1, 2])
    finally:
        os.umask(before)
    (file,) = own_cache.iterdir()
    assert stat.S_IMODE(own_cache.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_was_kept_comes_back_for_the_same_origin_only(own_cache: Path) -> None:
    """Another origin, and a file under another's name, are not served."""
    cache.write("thing", b"origin", {"a": (1, b"x")})
    assert cache.read("thing", b"origin") == {"a": (1, b"x")}
    assert cache.read("thing", b"other") is None
    (file,) = own_cache.iterdir()
    cache.write("thing", b"other", 2)
    (other,) = set(own_cache.iterdir()) - {file}
    other.write_bytes(file.read_bytes())
    assert cache.read("thing", b"other") is None


def test_an_entry_that_leads_nowhere_does_not_keep_the_old_files(own_cache: Path) -> None:
    """What vanishes between the listing and the look, as a link to nothing does, leaves the rest to be tidied."""
    cache.write("thing", b"0", 0)
    (own_cache / "thing-00000000").symlink_to(own_cache / "nothing")
    for number in range(1, 40):
        cache.write("thing", str(number).encode(), number)
    assert len(list(own_cache.iterdir())) < 20
    assert cache.read("thing", b"39") == 39


def test_where_the_folder_cannot_be_used_one_among_the_temporary_files_serves(site: Path, tmp_path: Path) -> None:
    """A home that cannot be written costs the first run its time, not each."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    unusable, temporary = tmp_path / "file" / "cache", tmp_path / "tmp"
    assert asked(site, unusable, temporary) == TRUE_ACTION
    (folder,) = temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (file,) = folder.glob("rules-*")
    before = file.stat().st_ino  # what is used gets a new time, what is made again a new place
    assert asked(site, unusable, temporary) == TRUE_ACTION
    assert file.stat().st_ino == before


def test_a_folder_squatted_among_the_temporary_files_is_not_used(site: Path, tmp_path: Path) -> None:
    """Somebody made it first: nothing is read there and nothing written."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    squatted = tmp_path / "tmp" / f"logdiag-{os.getuid()}"
    squatted.mkdir(parents=True)
    squatted.chmod(0o777)
    assert asked(site, tmp_path / "file" / "cache", tmp_path / "tmp") == TRUE_ACTION
    assert list(squatted.iterdir()) == []


WRITE_WITHOUT_SPACE = """
import resource, signal, sys
from logdiag.settings import cache
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
cache.write("thing", b"origin", b"x" * 100_000)
print(cache.read("thing", b"origin"))
"""


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    """A file that could not be finished goes, at the first place and at the spare one."""
    env = environment({"LOGDIAG_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)})
    done = subprocess.run(
        [sys.executable, "-c", WRITE_WITHOUT_SPACE], capture_output=True, text=True, env=env, check=True
    )
    assert done.stdout.strip() == "None"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_only_the_latest_files_stay_and_no_unfinished_ones(own_cache: Path) -> None:
    """Those of a process that died an hour ago are removed; other files in the folder are left alone."""
    own_cache.mkdir(mode=0o700)
    for name, age in (("logdiag-unfinished-a", 7200), ("logdiag-unfinished-b", 0), ("rules-of-mine.txt", 7200)):
        (own_cache / name).write_text("", encoding="utf-8")
        stamp = (own_cache / name).stat().st_mtime - age
        os.utime(own_cache / name, (stamp, stamp))
    for number in range(12):
        cache.write("rules", str(number).encode(), number)
        assert cache.read("rules", b"0") == 0  # in use, so never the oldest
    assert len(list(own_cache.glob("rules-" + "[0-9a-f]" * 32))) == 8
    assert {path.name for path in own_cache.glob("logdiag-*")} == {"logdiag-unfinished-b"}
    assert (own_cache / "rules-of-mine.txt").exists()


@pytest.mark.parametrize("value", [object, ["a", object()]])
def test_only_plain_values_are_kept(own_cache: Path, value: Any) -> None:
    """What cannot be written is the caller's mistake, told at once."""
    with pytest.raises(ValueError, match="unmarshallable"):
        cache.write("thing", b"origin", value)
