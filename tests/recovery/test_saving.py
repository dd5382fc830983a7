"""Saving without stopping, by real processes.

Where torch is installed, or PYTHON_WITH_TORCH names a Python that has it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from logdiag import LogdiagError
from logdiag.recovery.checkpoints import checkpoints_in, newest
from logdiag.recovery.saving import Saver
from tests.helpers import environment

PYTHON = os.environ.get("PYTHON_WITH_TORCH", sys.executable)
START = """
import os, resource, signal, sys, torch, torch.distributed as dist
from logdiag import LogdiagError
from logdiag.recovery.saving import Saver, lightning_callback, trainer_callback
folder, size = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
torch.manual_seed(1)
model = torch.nn.Linear(size, size)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
def train(step):
    optimizer.zero_grad()
    model(torch.full((2, size), step / 10)).pow(2).mean().backward()
    optimizer.step()
    schedule.step()
"""
LOOP = """
saver = Saver(folder, model, optimizer, schedule=schedule)
for step in range(saver.restore() + 1, 9):
    train(step)
    if step % 3 == 0:
        saver.save(step)
saver.close()
print(schedule.last_epoch, f"{model.weight.double().sum():.12f}")
"""


def needs(module: str) -> None:
    if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{module} is not installed")


def ran(script: str, *arguments: str, resumed: str = "", launcher: tuple[str, ...] = ()) -> str:
    """What a script prints, in a process of its own or under a launcher."""
    env = environment({"LOGDIAG_RUN_CHECKPOINT": resumed, "OMP_NUM_THREADS": "1"})
    command = [PYTHON, *launcher, *(() if launcher else ("-c", script)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def whole(folder: Path) -> dict[int | None, str]:
    return {item.step: item.torn for item in checkpoints_in(str(folder))}


def test_a_restored_loop_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    """Weights, the optimizer's moments and the schedule, to the last digit; the folders are whole checkpoints."""
    needs("torch")
    undisturbed = ran(START + LOOP, str(tmp_path))
    assert whole(tmp_path) == {3: "", 6: ""}
    assert sorted(os.listdir(tmp_path)) == ["step_3", "step_6"]
    again = tmp_path / "again"
    assert ran(START + LOOP, str(again), resumed=str(tmp_path / "step_3")) == undisturbed
    assert whole(again) == {6: ""}


def test_the_copy_is_of_the_moment_of_the_call(tmp_path: Path) -> None:
    """What the loop does to the weights while they are written is not in the checkpoint."""
    needs("torch")
    script = """
saver = Saver(folder, model, optimizer)
model.weight.data.fill_(7)
saver.save(1)
model.weight.data.fill_(-1)
saver.save(2)
model.weight.data.fill_(0)
saver.close()
print(*(Saver(folder, model).restore(f"{folder}/step_{step}") and model.weight.mean().item() for step in (1, 2)))
"""
    assert ran(START + script, str(tmp_path), "1000") == "7.0 -1.0\n"


FAILING = """
if "RANK" in os.environ:
    dist.init_process_group("gloo")
rank = int(os.environ.get("RANK", 0))
saver = Saver(folder, model, optimizer)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
saver.save(1)
saver.wait()
if rank == 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
saver.save(2)
try:
    saver.save(3)
except LogdiagError as error:
    print(str(error).replace(folder, "ckpt"))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
saver.save(4)
saver.close()
if dist.is_initialized():
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_failed_save_is_known_at_the_next_one(tmp_path: Path, ranks: int) -> None:
    """On all ranks, though one alone cannot write; the one before is whole, what was begun is no checkpoint, and saving
    can go on."""
    needs("torch")
    (tmp_path / "job.py").write_text(START + FAILING)
    folder = tmp_path / "ckpt"
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)) if ranks > 1 else ()
    script = str(tmp_path / "job.py")
    printed = ran(START + FAILING, *((script,) if launcher else ()), str(folder), "300", launcher=launcher)
    said = "ckpt: the save of step 2 failed ("
    assert printed.count(said) == ranks
    assert "File too large" in printed
    assert whole(folder) == {1: "", 4: ""}
    assert sorted(os.listdir(folder)) == ["step_1", "step_4"]


def test_kill_in_the_middle_leaves_the_previous_one_whole(tmp_path: Path) -> None:
    """`kill -9` while files are written: the new one is not taken for a checkpoint; the next save clears it away."""
    needs("torch")
    script = START + "saver = Saver(folder, model)\nfor step in (1, 2): saver.save(step)\nsaver.wait()\n"
    job = subprocess.Popen([PYTHON, "-c", script, str(tmp_path), "8000"], env=environment())
    partial = tmp_path / "step_2.partial"
    until = time.monotonic() + 600
    while not (partial.is_dir() and os.listdir(partial)):
        assert time.monotonic() < until
        assert job.poll() is None
        time.sleep(0.001)
    job.send_signal(signal.SIGKILL)
    job.wait()
    assert not (tmp_path / "step_2").exists()
    found = checkpoints_in(str(tmp_path))
    best = newest(found, {})
    assert best is not None
    assert (best.step, len(found)) == (1, 1)
    script = (
        START + "saver = Saver(folder, model)\nprint(saver.restore(folder + '/step_1'))\nsaver.save(3)\nsaver.close()"
    )
    assert ran(script, str(tmp_path), "8000") == "1\n"
    assert sorted(os.listdir(tmp_path)) == ["step_1", "step_3"]


def test_ranks_save_and_load_together(tmp_path: Path) -> None:
    """Two ranks of torchrun write one checkpoint; one process loads what two saved."""
    needs("torch")
    script = (
        START
        + """
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
saver = Saver(folder, model, optimizer, schedule=schedule)
for step in range(1, 4): train(step)
saver.save(3)
saver.close()
"""
    )
    (tmp_path / "job.py").write_text(script)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    ran("", str(tmp_path / "job.py"), str(tmp_path / "ckpt"), launcher=launcher)
    assert whole(tmp_path / "ckpt") == {3: ""}
    resumed = ran(START + LOOP, str(tmp_path / "a"), resumed=str(tmp_path / "ckpt" / "step_3"))
    assert resumed == ran(START + LOOP, str(tmp_path / "b"))


LIGHTNING = """
import warnings
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch.utils.data import DataLoader, TensorDataset
warnings.simplefilter("ignore")
class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def training_step(self, batch, index):
        return self.layer(batch[0]).pow(2).mean()
    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.1)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2), "interval": "step"}]
module = Module()
data = DataLoader(TensorDataset(torch.ones(40, 4)), batch_size=4)
trainer = Trainer(max_steps=9, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
                  callbacks=[lightning_callback(folder, every=3)], enable_model_summary=False)
trainer.fit(module, data)
print(trainer.global_step, f"{module.layer.weight.double().sum():.12f}")
"""
TRAINER = """
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def forward(self, x):
        return {"loss": self.layer(x).pow(2).mean()}
model = Model()
arguments = TrainingArguments(folder + "/out", max_steps=9, per_device_train_batch_size=4, save_strategy="no",
                              use_cpu=True, report_to=[], disable_tqdm=True, remove_unused_columns=False,
                              learning_rate=0.1)
trainer = Trainer(model, arguments, train_dataset=[{"x": torch.ones(4)}] * 40,
                  callbacks=[trainer_callback(folder, every=3)])
trainer.train()
print(trainer.state.global_step, f"{model.layer.weight.double().sum():.12f}")
"""


@pytest.mark.parametrize(("module", "script"), [("lightning", LIGHTNING), ("transformers", TRAINER)])
def test_trainers_of_frameworks_go_on_where_they_were(tmp_path: Path, module: str, script: str) -> None:
    """Saved every three steps; from step 6 on the same steps lead to the same weights."""
    needs(module)
    undisturbed = ran(START + script, str(tmp_path)).splitlines()[-1]
    assert undisturbed.startswith("9 ")
    assert {3: "", 6: "", 9: ""}.items() <= whole(tmp_path).items()
    again = tmp_path / "again"
    assert ran(START + script, str(again), resumed=str(tmp_path / "step_6")).splitlines()[-1] == undisturbed
    assert [name for name in os.listdir(again) if name.startswith("step_")] == ["step_9"]


def test_without_torch_it_is_said(tmp_path: Path) -> None:
    """In one sentence, when a Saver is made; the module itself needs nothing."""
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        pytest.skip("torch is installed")
    with pytest.raises(LogdiagError, match=r"torch is not installed; install torch 2\.9 or newer"):
        Saver(str(tmp_path), object())
