"""Saves a training job's state while it trains: the loop waits only for a copy in memory, not for the disk. How a
script uses it is in docs/recovery.md. It needs torch, which is loaded when a Saver is made.

A checkpoint is a folder `step_N` of `torch.distributed.checkpoint`. It is written as `step_N.partial` and gets its name
when all ranks' files and the list of them are on the disk, so that what has the name is whole.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from logdiag.errors import LogdiagError
from logdiag.recovery.hook import resume

_PARTIAL = ".partial"


class Saver:
    """Saves a model, its optimizers and whatever else has a `state_dict`, one save at a time.

    Each rank makes one, after its process group, in a folder that all see. The copy stays in host memory for the next
    save (pinned where there is a GPU). Nothing is deleted.
    """

    def __init__(self, folder: str, model: Any, optimizers: Any = (), **others: Any) -> None:
        try:
            import torch
            import torch.distributed as dist
            from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
        except ImportError as error:
            raise LogdiagError("logdiag.recovery.saving: torch is not installed; install torch 2.9 or newer") from error
        self._folder = folder
        self._state = {"job": _Job(model, optimizers), **others}
        self._alone = not dist.is_initialized() or dist.get_world_size() == 1
        # A group of its own, so that a save never waits for the training's collectives.
        self._group = None if self._alone else dist.new_group(backend="gloo")
        self._leads = self._alone or dist.get_rank() == 0
        gpu = torch.cuda.is_available()
        self._stager = DefaultStager(StagingOptions(gpu, False, False, gpu))
        self._last: tuple[int, Any] | None = None

    def save(self, step: int) -> None:
        """Begins to save the state after so many steps; returns once it is copied. Waits for the save before it, and
        raises LogdiagError on all ranks where that one failed; the next call saves again."""
        import torch.distributed as dist
        from torch.distributed.checkpoint import async_save

        self.wait()
        if self._leads:
            os.makedirs(self._folder, exist_ok=True)
            for unfinished in Path(self._folder).glob(f"step_*{_PARTIAL}"):
                shutil.rmtree(unfinished, ignore_errors=True)
        if self._group is not None:
            dist.barrier(self._group)
        final = os.path.join(self._folder, f"step_{step}")
        saved = async_save(
            {**self._state, "step": step},
            storage_writer=_writer(final),
            process_group=self._group,
            async_stager=self._stager,
            no_dist=self._alone,
        )
        self._last = step, saved

    def wait(self) -> None:
        """Waits until the last save is on the disk. Raises LogdiagError where it failed."""
        if self._last is None:
            return
        (step, saved), self._last = self._last, None
        error = saved.exception()
        if error is not None:
            raise LogdiagError(f"{self._folder}: the save of step {step} failed ({_first(error)})") from error

    def restore(self, path: str | None = None) -> int:
        """Loads a checkpoint, the one that `logdiag run` chose unless another is named. The step after which it was
        saved, 0 where there is none to load."""
        from torch.distributed.checkpoint import load

        path = resume().checkpoint if path is None else path
        if not path:
            return 0
        state = {**self._state, "step": 0}
        load(state, checkpoint_id=path, process_group=self._group, no_dist=self._alone)
        return int(state["step"])

    def close(self) -> None:
        """Waits for the last save and gives the copy's memory back. Raises LogdiagError where that save failed."""
        import torch.distributed as dist

        try:
            self.wait()
        finally:
            self._stager.close()
            if self._group is not None:
                dist.destroy_process_group(self._group)


class _Job:
    """Model and optimizers by the names of parameters, so that another number of ranks can load them."""

    def __init__(self, model: Any, optimizers: Any) -> None:
        self._model = model
        self._optimizers = list(optimizers) if isinstance(optimizers, Iterable) else [optimizers]

    def state_dict(self) -> dict[str, Any]:
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizers = get_state_dict(self._model, self._optimizers)
        return {"model": model, "optimizers": optimizers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        from torch.distributed.checkpoint.state_dict import set_state_dict

        set_state_dict(
            self._model,
            self._optimizers,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizers"],
        )


def _writer(final: str) -> Any:
    """Writes into a folder with another name. `finish` is called on one rank, when all ranks' files are on the disk;
    what either raises comes to all ranks."""
    from torch.distributed.checkpoint import FileSystemWriter

    class Writer(FileSystemWriter):  # type: ignore[misc]
        def write_data(self, plan: Any, planner: Any) -> Any:
            try:
                return super().write_data(plan, planner)
            except Exception as error:
                # Torch reports a full disk as "unexpected pos"; the disk's own error came before it.
                raise OSError(_first(error)) from error

        def finish(self, metadata: Any, results: Any) -> None:
            super().finish(metadata, results)
            _synced(final + _PARTIAL)
            if os.path.exists(final):  # saved anew after a restart
                os.rename(final, f"{final}.old{_PARTIAL}")
            os.rename(final + _PARTIAL, final)
            _synced(os.path.dirname(final) or ".")

    return Writer(final + _PARTIAL)


def _synced(folder: str) -> None:
    """Writes a folder to the disk; only then are new names in it safe."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _first(error: BaseException) -> str:
    """Returns the first line of the error that came first, on any rank."""
    failures = getattr(error, "failures", None)  # of torch's CheckpointException: by rank, with the traceback
    if failures:
        error = next(iter(failures.values()))[0]
    while error.__context__ is not None:
        error = error.__context__
    return (str(error) or type(error).__name__).splitlines()[0]


def lightning_callback(folder: str, every: int) -> Any:
    """A callback for Lightning's Trainer that saves every so many steps, and goes on where `logdiag run` says."""
    from lightning.pytorch import Callback

    class Saving(Callback):  # type: ignore[misc]
        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            schedules = {f"schedule-{at}": row.scheduler for at, row in enumerate(trainer.lr_scheduler_configs)}
            self._saver = Saver(folder, pl_module, trainer.optimizers, loops=trainer.fit_loop, **schedules)
            self._saver.restore()

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step and trainer.global_step % every == 0:
                self._saver.save(trainer.global_step)

        def on_train_end(self, *_: Any) -> None:
            self._saver.close()

    return Saving()


def trainer_callback(folder: str, every: int) -> Any:
    """A callback for the Hugging Face Trainer that saves every so many steps, and goes on where `logdiag run` says.

    The step is restored; which data follows is for the script, as the Trainer asks a callback for none.
    """
    from transformers import TrainerCallback

    class Saving(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
            self._saver = Saver(folder, parts["model"], parts["optimizer"], schedule=parts["lr_scheduler"])
            state.global_step = self._saver.restore()

        def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
            if state.global_step % every == 0:
                self._saver.save(state.global_step)

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self._saver.close()

    return Saving()
