"""What was not read is said, and the stream is not complete: torn, changed, foreign, unreadable, packed or binary."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from logdiag import SourceError, diagnose
from logdiag.read.sources import open_sources
from logdiag.read.streams import Limits, Stream
from logdiag.rules import RuleBook
from logdiag.scan.runs import jobs_in
from logdiag.scan.shapes import Shapes
from logdiag.scan.survey import Survey, survey
from tests.helpers import log_of, steps, traceback_of, zstd

BOOK = RuleBook.load()
LOGS = {
    "run/rank_0.log": log_of(*steps(1, 20), *traceback_of("KeyError: 'caption'")),
    "run/rank_1.log": log_of(*steps(1, 20)),
    "run/gpu-node-7/stderr": log_of("step 1"),
}
NOISE = random.Random(4).randbytes(100_000)


def surveyed(*sources: object, limits: Limits | None = None) -> tuple[Survey, list[str]]:
    """What the read finds, and all notes."""
    streams = open_sources(sources, limits)
    found = survey(streams, BOOK, Shapes(BOOK, BOOK.filters))
    return found, [note for stream in streams for note in stream.notes]


def text_of(stream: Stream) -> bytes:
    """All lines of a stream."""
    return b"".join(block.data for block in stream.blocks())


# --- archives ---


def tar_of(
    logs: dict[str, bytes],
    mode: Literal["w:", "w:gz", "w:xz"] = "w:gz",
    format: int = tarfile.DEFAULT_FORMAT,
) -> bytes:
    """A tar of these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=format) as archive:
        for name, data in logs.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_of(logs: dict[str, bytes]) -> bytes:
    """A zip of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in logs.items():
            archive.writestr(name, data)
    return out.getvalue()


PACKED = {
    "tar": lambda: tar_of(LOGS, "w:"),
    "tar.gz": lambda: tar_of(LOGS),
    "tar.xz": lambda: tar_of(LOGS, "w:xz"),
    "tar.zst": lambda: zstd.compress(tar_of(LOGS, "w:")),
    "old tar": lambda: tar_of(LOGS, "w:", format=tarfile.GNU_FORMAT),
    "zip": lambda: zip_of(LOGS),
}


@pytest.mark.parametrize("kind", PACKED)
def test_an_archive_is_read_as_the_folder_in_it(tmp_path: Path, kind: str) -> None:
    """Its logs are sources with names, ranks and nodes of their own, whatever the file is called."""
    path = tmp_path / "bundle"
    path.write_bytes(PACKED[kind]())
    streams = open_sources((path,))
    assert {stream.name: text_of(stream) for stream in streams} == {f"{path}/{name}": LOGS[name] for name in LOGS}
    assert {(stream.rank, stream.node) for stream in streams} == {(0, None), (1, None), (None, "gpu-node-7")}
    assert all(stream.complete and not stream.notes for stream in streams)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_an_archive_gets_the_answer_of_its_folder(tmp_path: Path, kind: str) -> None:
    """Root line, rank and line number are those of the file in it."""
    path = tmp_path / f"bundle.{kind}"
    path.write_bytes(PACKED[kind]())
    root = diagnose(path, rules=BOOK, memory=False).root_cause
    assert root is not None
    assert (root.source, root.line, root.rank) == (f"{path}/run/rank_0.log", 26, 0)


def test_compressed_members_long_names_and_other_files_in_an_archive() -> None:
    """A .gz in a tar is decompressed, a name of 300 characters is whole, what is no log is left out."""
    long = "deep/" * 60 + "rank_5.log"
    data = tar_of({"a/x.log.gz": gzip.compress(b"one\n"), long: b"two\n", "model.pt": NOISE, "train.py": b"x = 1\n"})
    for packed in (data, tar_of({"a/x.log.gz": gzip.compress(b"one\n"), long: b"two\n"}, format=tarfile.GNU_FORMAT)):
        streams = open_sources((packed,))
        assert [text_of(stream) for stream in streams] == [b"one\n", b"two\n"]
        assert streams[1].name == f"<bytes>/{long}"


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_names_in_an_archive_cannot_lead_or_write_elsewhere(pack: Callable[[dict[str, bytes]], bytes]) -> None:
    """Dots, leading slashes and escape characters are gone from the name that is shown."""
    (stream,) = open_sources((pack({"../../etc/\x1b]0;x\x07/../job.log": b"one\n"}),))
    assert stream.name == "<bytes>/etc/?]0;x?/job.log"


def test_links_and_devices_in_a_tar_are_not_read() -> None:
    """A link to a file of the machine gives none of its text."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind in (("a.log", tarfile.SYMTYPE), ("b.log", tarfile.LNKTYPE), ("c.log", tarfile.CHRTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        info = tarfile.TarInfo("d.log")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"own\n"))
    assert [text_of(stream) for stream in open_sources((out.getvalue(),))] == [b"own\n"]


@pytest.mark.parametrize("share", [0.4, 0.7, 0.9])
def test_a_torn_archive_is_read_as_far_as_it_goes_and_says_so(share: float) -> None:
    """Whole files before the tear are there, and the read is not complete."""
    noise = {f"rank_{rank}.log": log_of(*(os.urandom(30).hex() for _ in range(300))) for rank in range(6)}
    whole = tar_of(noise)
    found, notes = surveyed(whole[: int(len(whole) * share)])
    assert 0 < found.total_bytes < sum(map(len, noise.values()))
    assert not found.complete
    assert any("<bytes>" in note for note in notes)


@pytest.mark.parametrize("left", [1024, 1100], ids=["between two files", "within a head"])
def test_a_tar_that_ends_too_soon_says_so(left: int) -> None:
    """Without the two empty blocks at its end it is not whole, wherever it was cut."""
    found, notes = surveyed(tar_of({"rank_0.log": b"step 1\n", "rank_1.log": b"step 1\n"}, "w:")[:left])
    assert found.total_bytes > 0
    assert not found.complete
    assert "breaks off" in notes[0]


def test_a_chain_of_long_names_is_no_archive() -> None:
    """Heads that only announce other heads end in one sentence."""
    head = tarfile.TarInfo("x")
    head.type = tarfile.GNUTYPE_LONGNAME
    with pytest.raises(SourceError, match="breaks off"):
        surveyed(head.tobuf() * 3000)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (tar_of({"model.bin": NOISE}), "holds no logs"),
        (zip_of({"job.log": b"one\n"})[:60], "breaks off"),
        (tar_of({"job.log": b"x" * 5000}, "w:")[:300], "<bytes>"),
    ],
    ids=["no logs", "torn zip", "torn head"],
)
def test_an_archive_without_a_readable_log_is_an_error(data: bytes, says: str) -> None:
    """One sentence with the name, none of the libraries' exceptions."""
    with pytest.raises(SourceError, match=says):
        surveyed(data)


def test_an_archive_in_a_pipe_is_an_error_that_says_what_to_do() -> None:
    """Its heads are not taken for lines of a log."""

    class Pipe(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self.data = io.BytesIO(data)

        def read(self, size: int = -1) -> bytes:
            return self.data.read(size)

    for kind in ("tar", "tar.gz", "zip"):
        with pytest.raises(SourceError, match=r"archive; unpack it"):
            surveyed(Pipe(PACKED[kind]()))


# --- compressed twice, torn, binary ---


@pytest.mark.parametrize("outer", [gzip.compress, bz2.compress, lzma.compress, zstd.compress])
@pytest.mark.parametrize("inner", [gzip.compress, zstd.compress, lzma.compress])
def test_a_log_that_was_compressed_twice_is_read(
    outer: Callable[[bytes], bytes], inner: Callable[[bytes], bytes]
) -> None:
    """`x.log.gz` of a `.zst`, as a collector makes it."""
    assert text_of(open_sources((outer(inner(b"one\ntwo\n")),))[0]) == b"one\ntwo\n"


def test_a_log_that_was_compressed_without_end_is_an_error() -> None:
    """The layers are bounded."""
    data = b"one\n"
    for _ in range(50):
        data = gzip.compress(data)
    with pytest.raises(SourceError, match="times over"):
        surveyed(data)


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress, lzma.compress, bz2.compress])
def test_a_torn_log_of_several_blocks_keeps_its_first_part(compress: Callable[[bytes], bytes]) -> None:
    """The survey is not complete, and the note names the file."""
    lines = log_of(*(os.urandom(40).hex() for _ in range(60_000)))
    whole = compress(lines)
    found, notes = surveyed(whole[: len(whole) // 2])
    assert 1000 < found.total_lines < 60_000
    assert not found.complete
    assert len(notes) == 1
    assert "breaks off after" in notes[0]


def elf() -> bytes:
    """The head of a program."""
    return b"\x7fELF\x02\x01\x01" + bytes(9) + bytes(range(64)) * 4 + NOISE[:500]


# (A zip holds the second in which it was made: its bytes are no name for a test.)
@pytest.mark.parametrize(
    "data",
    [NOISE, NOISE[:300], elf(), zip_of({"a.log": b"x" * 99})[4:] + NOISE],
    ids=["noise", "a little noise", "a program", "a torn zip"],
)
def test_binary_data_is_refused(data: bytes) -> None:
    """Alone it is an error, beside a log it is a note, and the read is not complete."""
    with pytest.raises(SourceError, match="binary data, not a log"):
        surveyed(data)
    found, notes = surveyed(log_of("step 1"), data)
    assert found.total_lines == 1
    assert not found.complete
    assert "binary data" in notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "größer als erwartet\n".encode("latin-1") * 50,
        "训练失败 内存不足\n".encode("gbk") * 50,
        "学習は失敗した\n".encode("shift-jis") * 50,
        b"\0" * 70_000 + b"after logrotate cut it\n",
        b"10%\b\b\b20%\b\b\b30%\b\b\b done\n" * 20,
        b"key=1\x01value=2\x01\x02row\x03\n" * 30,
        b"\x1b[31mred\x1b[0m \x07\x0c\n" * 30,
        "\u2588\u2588 50% \u256d\u2500\u256e caf\u00e9\n".encode() * 30,
    ],
    ids=["latin-1", "gbk", "shift-jis", "a hole", "backspaces", "fields between controls", "colours", "boxes"],
)
def test_text_of_any_coding_is_no_binary(text: bytes) -> None:
    """Holes, bars, colours and old codings are read."""
    found, notes = surveyed(text)
    assert found.complete
    assert not notes


# --- folders ---


def make(folder: Path, **logs: str) -> Path:
    """A folder with these logs."""
    for name, text in logs.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".log").write_text(text)
    return folder


def test_a_link_out_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    """What it leads to is neither read nor shown; a link to another log of the folder adds nothing."""
    outside = make(tmp_path / "outside", shadow="root:secret\n")
    run = make(tmp_path / "run", a="step 1\n")
    (run / "evil.log").symlink_to(outside / "shadow.log")
    (run / "sub").symlink_to(outside)
    (run / "latest.log").symlink_to(run / "a.log")
    found, notes = surveyed(run)
    assert [Path(stream.name).name for stream in found.streams] == ["a.log"]
    assert not found.complete
    assert sorted(Path(note.split(": ")[0]).name for note in notes) == ["evil.log", "sub"]
    assert all("link out of the folder" in note for note in notes)


def test_a_folder_given_by_a_link_is_read(tmp_path: Path) -> None:
    """The link that a person names is meant."""
    make(tmp_path / "run", a="step 1\n")
    (tmp_path / "latest").symlink_to(tmp_path / "run")
    found, notes = surveyed(tmp_path / "latest")
    assert found.complete
    assert not notes


def as_nobody(read: Callable[[], list[str]]) -> list[str]:
    """What `read` gives in a process without root's rights."""
    answers, answer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            os.write(answer, "\n".join(read()).encode())
        finally:
            os._exit(0)
    os.close(answer)
    with os.fdopen(answers, "rb") as told:
        said = told.read().decode().split("\n")
    os.waitpid(child, 0)
    return said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="permissions as on Unix")
def test_what_may_not_be_read_is_noted() -> None:
    """A file and a sub-folder without permission: the rest is read, and both are named."""
    with tempfile.TemporaryDirectory() as folder:
        run = make(Path(folder), a="step 1\n", b="step 1\n", sub__c="KeyError: 1\n")
        run.chmod(0o755)
        (run / "b.log").chmod(0)
        (run / "sub").chmod(0)

        def read() -> list[str]:
            found, notes = surveyed(run)
            return [str(found.complete), *(stream.name for stream in found.streams), *sorted(notes)]

        complete, name, *notes = as_nobody(read)
        (run / "sub").chmod(0o700)
    assert (complete, name) == ("False", str(run / "a.log"))
    assert len(notes) == 2
    assert notes[0].startswith(f"{run}/b.log: was not read (permission denied)")
    assert notes[1].startswith(f"{run}/sub: the folder was not read (Permission denied)")


def test_a_broken_log_beside_whole_ones_is_a_note(tmp_path: Path) -> None:
    """One torn .gz of many ranks does not lose the others."""
    run = make(tmp_path / "run", rank_0="step 1\n")
    (run / "rank_1.log.gz").write_bytes(b"\x1f\x8b\x08 not gzip")
    found, notes = surveyed(run)
    assert found.total_lines == 1
    assert not found.complete
    assert "rank_1.log.gz: cannot be read" in notes[0]


@pytest.mark.parametrize("name", ["rank-0", "rank_12", "worker3", "0", "17", "node-4", "stderr"])
def test_logs_without_an_ending_are_found_in_a_folder(tmp_path: Path, name: str) -> None:
    """Launchers name them by rank or worker alone."""
    (tmp_path / name).write_text("step 1\n")
    (tmp_path / "model-00001").write_bytes(NOISE)
    assert [Path(stream.name).name for stream in open_sources((tmp_path,))] == [name]


@pytest.mark.parametrize(
    ("name", "rank"),
    [("t1.log", None), ("part1.log", None), ("rank_3", 3), ("rank_4/stdout.log", 4), ("job-9-t5.err", 5)],
)
def test_only_a_name_that_says_so_tells_the_rank(tmp_path: Path, name: str, rank: int | None) -> None:
    """`t1.log` is some test's log, not rank 1's."""
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    path.write_text("step 1\n")
    assert open_sources((path,))[0].rank == rank
    assert open_sources((tmp_path / "run",))[0].rank == rank


# --- files that change while they are read ---


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_log_that_is_cut_down_while_it_is_read_is_not_complete(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    """copytruncate: the note says from which size to which."""
    path = tmp_path / "job.log"
    path.write_bytes(compress(log_of(*(os.urandom(40).hex() for _ in range(100_000)))))
    before = path.stat().st_size
    streams = open_sources((path,))
    survey(streams, BOOK, Shapes(BOOK, BOOK.filters), lambda stream, _count: os.truncate(path, 100) if stream else None)
    assert not streams[0].complete
    cut_down = f"was cut down from {before:,} to 100 bytes while it was read" in streams[0].notes[0]
    assert cut_down == (compress is bytes) != ("breaks off after" in streams[0].notes[0])


def test_a_log_that_grows_while_it_is_read_is_complete(tmp_path: Path) -> None:
    """A living job's log is read to its end of that moment."""
    path = tmp_path / "job.log"
    path.write_bytes(log_of("step 1"))
    (stream,) = open_sources((path,))
    for _ in stream.blocks():
        with path.open("ab") as out:
            out.write(b"step 2\n")
    assert stream.complete


# --- torn in their last block or frame ---

WHOLE = log_of(*steps(1, 2000), *traceback_of("KeyError: 'caption'"))
LONG = log_of(*(f"step {at} loss {random.Random(at).random()}" for at in range(60_000)))


@pytest.mark.parametrize("rest", [3, 600], ids=["in the head", "in the text"])
@pytest.mark.parametrize("packed", [zstd.compress, bz2.compress, lzma.compress, gzip.compress])
def test_all_whole_frames_before_a_tear_are_read(packed: Callable[[bytes], bytes], rest: int) -> None:
    """As a writer leaves them that appends one after the other and is killed."""
    torn = packed(WHOLE) + packed(LONG)[:rest]
    found, notes = surveyed(torn)
    assert found.total_bytes >= len(WHOLE)
    assert any("breaks off after" in note for note in notes)
    answer = diagnose(torn, rules=BOOK)
    assert answer.root_cause is not None
    assert (answer.reason.value, answer.root_cause.line) == ("KeyError", WHOLE.count(b"\n"))


@pytest.mark.parametrize("packed", [zstd.compress, bz2.compress, gzip.compress])
def test_all_whole_blocks_before_a_tear_are_read(packed: Callable[[bytes], bytes]) -> None:
    """One frame or stream has several blocks; those before the tear are there, and the log is not called healthy."""
    whole = packed(LONG)
    found, notes = surveyed(whole[: len(whole) * 3 // 4])
    assert found.total_bytes >= 800_000
    assert LONG.startswith(found.lines[0].text.encode())
    assert any("breaks off after" in note for note in notes)
    assert diagnose(whole[: len(whole) * 3 // 4], rules=BOOK).failed is None


@pytest.mark.parametrize("packed", [zstd.compress, bz2.compress])
def test_nothing_is_read_only_where_no_block_is_whole(packed: Callable[[bytes], bytes]) -> None:
    """The formats give nothing of a block before all of it is there."""
    whole = packed(log_of(*(os.urandom(20).hex() for _ in range(1000))))
    with pytest.raises(SourceError, match="cannot be read"):
        surveyed(whole[: len(whole) // 2])


# --- several jobs in one folder ---


TYPO = "ModuleNotFoundError: No module named 'trasformers'\n"
ON_A_CLUSTER = "2026-11-01 10:00:00 gpu-a17: [rank3]: KeyError: 'text'\n"
WORK = "".join(f"2026-11-01 09:{at // 60:02d}:{at % 60:02d} step {at} loss 2.1\n" for at in range(60))


@pytest.mark.parametrize(
    "names",
    [("jobA", "jobB"), ("slurm-4711", "slurm-4712"), ("run_1", "run_2")],
)
def test_an_answer_is_of_one_of_several_jobs(tmp_path: Path, names: tuple[str, str]) -> None:
    """Nothing is in common but the folder: a typo on a laptop, and a failure on a cluster. The later one is answered
    for, with nothing of the other, which a note names."""
    first, second = names
    answer = diagnose(make(tmp_path / "logs", **{first: TYPO}, **{second: ON_A_CLUSTER}))
    assert (answer.reason.value, answer.consequences, answer.candidates) == ("KeyError", (), ())
    assert {Path(item.source).stem for item in answer.evidence} == {second}
    assert "trasformers" not in answer.summary
    assert answer.notes[0] == (
        f"these look like 2 jobs; this is the answer for {second}, the latest that failed ({first} failed of "
        "ImportError); logdiag batch diagnoses each by itself"
    )
    assert answer.stats["lines"] == 2


def test_the_only_job_that_failed_is_answered_for(tmp_path: Path) -> None:
    """Whatever ran later and is well; no rank and no node of that one is the failure's."""
    well = WORK.replace(" step", " gpu-b02: [rank5]: step") + "2026-11-01 09:02:00 Training completed.\n"
    answer = diagnose(make(tmp_path / "logs", jobA=TYPO, jobB=well))
    assert answer.root_cause is not None
    assert (answer.reason.value, answer.root_cause.rank, answer.root_cause.node) == ("ImportError", None, None)
    assert "jobA, the only one that failed (jobB shows no failure)" in answer.notes[0]


def test_a_failure_is_the_latest_by_the_clock_not_by_its_name(tmp_path: Path) -> None:
    """Where all jobs print times."""
    early = ON_A_CLUSTER.replace("10:00:00", "08:00:00").replace("gpu-a17", "gpu-c03")
    answer = diagnose(make(tmp_path / "logs", jobA=ON_A_CLUSTER, jobB=early))
    assert answer.root_cause is not None
    assert Path(answer.root_cause.source).stem == "jobA"


def test_healthy_jobs_beside_each_other_stay_healthy(tmp_path: Path) -> None:
    """The latest is answered for."""
    later = WORK.replace("2026-11-01", "2026-11-02")
    answer = diagnose(make(tmp_path / "logs", jobA=WORK, jobB=later))
    assert answer.failed is False
    assert "jobB, the latest (jobA shows no failure)" in answer.notes[0]


def test_a_scheduler_gives_no_two_jobs_one_number(tmp_path: Path) -> None:
    """Two jobs that ran at one time, told apart by it; tasks of one array that did are one."""
    names = {"slurm-4711": TYPO.replace("Mod", "2026-11-01 10:00:00 Mod"), "slurm-4712": ON_A_CLUSTER}
    assert "2 jobs" in diagnose(make(tmp_path / "two", **names)).notes[0]
    tasks = {"slurm-4711_1": ON_A_CLUSTER, "slurm-4711_2": ON_A_CLUSTER}
    assert not any("jobs" in note for note in diagnose(make(tmp_path / "one", **tasks)).notes)


def test_a_nodes_log_beside_several_jobs_counts_for_the_one(tmp_path: Path) -> None:
    """A kernel log names no job."""
    xid = "Nov  1 10:00:01 gpu-a17 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.\n"
    answer = diagnose(make(tmp_path / "logs", jobA=TYPO, jobB=ON_A_CLUSTER, dmesg=xid))
    assert answer.root_cause is not None
    assert Path(answer.root_cause.source).stem in ("dmesg", "jobB")


@pytest.mark.parametrize(
    "names",
    [("rank_0", "rank_1"), ("slurm-4711_rank0", "slurm-4711_rank1"), ("stdout", "stderr"), ("train", "dmesg")],
)
def test_the_logs_of_one_job_are_not_called_several(tmp_path: Path, names: tuple[str, str]) -> None:
    """Ranks, outputs and a node's log belong together."""
    run = make(tmp_path / "logs", **dict.fromkeys(names, "2026-11-01 10:00:00 step 1\n"))
    assert jobs_in(surveyed(run)[0]) == {}


def test_jobs_that_share_a_time_are_not_called_several(tmp_path: Path) -> None:
    """Parts of one run may be started as jobs of their own."""
    line = "2026-11-01 10:00:00 step 1\n"
    assert jobs_in(surveyed(make(tmp_path / "logs", jobA=line, jobB=line))[0]) == {}


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    """By two paths, in a folder beside its own name, and by a link; other files with the same lines are others."""
    make(tmp_path, rank_0="step 1\nstep 2\n", rank_1="step 1\nstep 2\n")
    log = next(path for path in tmp_path.rglob("rank_0*"))
    link = tmp_path / "latest.log"
    link.symlink_to(log)
    found, _ = surveyed(log, os.path.relpath(log), tmp_path, link)
    assert found.total_lines == 4
    assert surveyed(b"step 1\n", b"step 1\n")[0].total_lines == 2
