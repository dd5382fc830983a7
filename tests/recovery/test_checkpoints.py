"""Which checkpoints are whole: real files of each layout, and each of them cut or incomplete."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logdiag import LogdiagError
from logdiag.recovery.checkpoints import checkpoints_in, newest
from tests.helpers import environment


def safetensors(path: Path, size: int = 64) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))


def zipped(path: Path) -> None:
    """As torch.save and numpy.savez lay it out: entries that are not packed, then the list of contents."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"step": 3}))
        archive.writestr("archive/data/0", bytes(400))


class _StorageInfo:
    """A stand-in for the one of torch.distributed.checkpoint: pickled by its fields, as a dataclass is."""

    def __init__(self, relative_path: str, offset: int, length: int) -> None:
        self.relative_path, self.offset, self.length = relative_path, offset, length


def distributed(folder: Path) -> None:
    folder.mkdir()
    pieces = {("w", rank): _StorageInfo(f"__{rank}_0.distcp", at, 50) for rank in range(2) for at in (0, 50)}
    for rank in range(2):
        (folder / f"__{rank}_0.distcp").write_bytes(bytes(100))
    (folder / ".metadata").write_bytes(pickle.dumps({"storage_data": pieces}))


def hugging_face(folder: Path) -> None:
    folder.mkdir()
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    for name in names:
        safetensors(folder / name)
    index = {"metadata": {"total_size": 128}, "weight_map": dict(zip("ab", names, strict=True))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    zipped(folder / "optimizer.pt")
    (folder / "trainer_state.json").write_text('{"global_step": 3}')


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """One whole checkpoint of each layout."""
    safetensors(tmp_path / "step_1.safetensors")
    zipped(tmp_path / "epoch=4-step=2.ckpt")
    hugging_face(tmp_path / "checkpoint-3")
    distributed(tmp_path / "iter_0000004")
    return tmp_path


def whole(folder: Path) -> dict[int | None, str]:
    return {item.step: item.torn for item in checkpoints_in(str(folder))}


def test_whole_ones_are_whole(saved: Path) -> None:
    """Of each layout, with the step that its name says, the furthest last."""
    assert whole(saved) == {1: "", 2: "", 3: "", 4: ""}
    assert [item.step for item in checkpoints_in(str(saved))] == [1, 2, 3, 4]


def cut(path: Path) -> Callable[[], object]:
    return lambda: path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("step", "name", "said"),
    [
        (1, "step_1.safetensors", "bytes"),
        (2, "epoch=4-step=2.ckpt", "cut off or damaged"),
        (3, "checkpoint-3/model-00001-of-00002.safetensors", "bytes"),
        (3, "checkpoint-3/optimizer.pt", "cut off or damaged"),
        (3, "checkpoint-3/trainer_state.json", "cut off or damaged"),
        (4, "iter_0000004/__1_0.distcp", "has 99 of 100 bytes"),
        (4, "iter_0000004/.metadata", "cut off or damaged"),
    ],
)
def test_a_file_that_lacks_its_last_byte_is_torn(saved: Path, step: int, name: str, said: str) -> None:
    """In each layout, the others stay whole."""
    (saved / name).write_bytes((saved / name).read_bytes()[:-1])
    torn = whole(saved)
    assert said in torn.pop(step)
    assert not any(torn.values())


@pytest.mark.parametrize(
    ("step", "name", "said"),
    [
        (3, "checkpoint-3/model-00002-of-00002.safetensors", "1 of 2 parts are there"),
        (3, "checkpoint-3/trainer_state.json", "has no trainer_state.json"),
        (4, "iter_0000004/__0_0.distcp", "is missing"),
        (4, "iter_0000004/.metadata", "has no .metadata"),
    ],
)
def test_a_file_that_was_never_written_is_missed(saved: Path, step: int, name: str, said: str) -> None:
    """What is written last, and each part that is counted."""
    (saved / name).unlink()
    assert said in whole(saved)[step]


def test_an_index_names_its_shards(saved: Path) -> None:
    """Also where their names do not count."""
    index = saved / "checkpoint-3" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "other.safetensors"}}))
    assert "lacks other.safetensors" in whole(saved)[3]


def test_what_is_unfinished_is_no_checkpoint(saved: Path) -> None:
    """Temporary names, inside and outside of a folder, empty files and folders."""
    (saved / "step_9.pt.tmp").write_bytes(b"x")
    (saved / "tmp-checkpoint-8").mkdir()
    (saved / "step_7").mkdir()
    (saved / "step_6.pt").write_bytes(b"")
    (saved / "checkpoint-3" / "optimizer.pt.tmp").write_bytes(b"x")
    assert {step: bool(torn) for step, torn in whole(saved).items()} == {
        1: False, 2: False, 3: True, 4: False, 6: True, 7: True,
    }  # fmt: skip


def test_a_damaged_middle_is_seen(saved: Path) -> None:
    """A crash may leave zeros where an entry should begin."""
    path = saved / "epoch=4-step=2.ckpt"
    content = path.read_bytes()
    second = content.index(b"PK\x03\x04", 4)
    path.write_bytes(content[:second] + bytes(4) + content[second + 4 :])
    assert "is damaged at" in whole(saved)[2]


def test_nothing_in_a_checkpoint_is_run(saved: Path) -> None:
    """A pickle that would call something names no file, and calls nothing."""

    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(saved / "was-run"),)

    (saved / "iter_0000004" / ".metadata").write_bytes(pickle.dumps(Evil()))
    assert "names no file" in whole(saved)[4]
    assert not (saved / "was-run").exists()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_cut_and_no_noise_is_taken_for_whole_or_raises(saved: Path, data: st.DataObject) -> None:
    """Each file cut anywhere is torn, or it was cut to nothing that counts."""
    names = ("step_1.safetensors", "epoch=4-step=2.ckpt", "iter_0000004/.metadata", "iter_0000004/__0_0.distcp")
    path = saved / data.draw(st.sampled_from(names))
    content = path.read_bytes()
    try:
        noise = data.draw(st.binary(max_size=30))
        path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        assert sum(bool(torn) for torn in whole(saved).values()) == 1
        path.write_bytes(noise)
        assert sum(bool(torn) for torn in whole(saved).values()) == 1
    finally:
        path.write_bytes(content)


def test_the_newest_is_whole_and_trusted(saved: Path) -> None:
    """A torn one and one from after a spike are passed over, until it is saved anew."""
    (saved / "iter_0000004" / ".metadata").unlink()
    found = checkpoints_in(str(saved))
    best = newest(found, {})
    assert best is not None
    assert best.step == 3
    distrusted = {best.path: best.saved_at}
    second = newest(found, distrusted)
    assert second is not None
    assert second.step == 2
    shutil.copy(saved / "step_1.safetensors", saved / "checkpoint-3" / "model-00001-of-00002.safetensors")
    again = newest(checkpoints_in(str(saved)), distrusted)
    assert again is not None
    assert again.step == 3


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    """In a sentence."""
    with pytest.raises(LogdiagError, match="no such folder; make it"):
        checkpoints_in(str(tmp_path / "nowhere"))


REAL = """
import os, sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Linear(50, 50)
dcp.save({"model": model.state_dict(), "step": 3}, checkpoint_id=sys.argv[1] + "/step_1")
torch.save(model.state_dict(), sys.argv[1] + "/step_2.pt")
"""


def test_torchs_own_files_are_read(tmp_path: Path) -> None:
    """Where torch is installed, or PYTHON_WITH_TORCH names a Python that has it: whole, and torn without a byte."""
    interpreter = os.environ.get("PYTHON_WITH_TORCH", sys.executable)
    done = subprocess.run([interpreter, "-c", REAL, str(tmp_path)], capture_output=True, env=environment(), timeout=120)
    if b"No module named 'torch'" in done.stderr:
        pytest.skip("torch is not installed")
    assert done.returncode == 0, done.stderr.decode()
    assert whole(tmp_path) == {1: "", 2: ""}
    for file in (tmp_path / "step_1" / "__0_0.distcp", tmp_path / "step_2.pt"):
        file.write_bytes(file.read_bytes()[:-1])
    assert all(whole(tmp_path).values())
