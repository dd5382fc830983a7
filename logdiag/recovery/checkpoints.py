"""Finds which checkpoints are whole, from their files alone; no framework is imported, nothing in them is run.

Known are `torch.distributed.checkpoint`, safetensors, `torch.save` and NumPy (zip), and Hugging Face's layouts. Any
other is whole when it has files, none of them empty or temporary.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import IO, Any

from logdiag.errors import LogdiagError

_ZIPS = (".pt", ".pth", ".ckpt", ".bin", ".npz")
_FILES = (*_ZIPS, ".safetensors")
# checkpoint-500   step_500   iter_0000500   epoch=1-step=500.ckpt   global_step500
_STEP = re.compile(r"(?i)(?:step|iter|iteration|checkpoint|ckpt)s?[-_=]?(\d+)")
# model-00002-of-00004.safetensors
_PART = re.compile(r"(.*?)(\d+)-of-(\d+)(.*)")
# step_40.pt.tmp   tmp-checkpoint-40   .step_40.pt.x7   step_40.partial
_UNFINISHED = re.compile(r"(?i)(?:^|[._-])(?:te?mp|partial|incomplete|inprogress|writing)(?:[._-]|\d*$)")
_LONGEST_HEADER = 100 << 20
# What Hugging Face's Trainer writes last, and what shows that it was the Trainer.
_STATE, _TRAINERS = "trainer_state.json", ("training_args.bin", "optimizer.pt", "scheduler.pt")
_INDEXES = (
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
    "diffusion_pytorch_model.safetensors.index.json",
)
_LOCAL_HEADER = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """One checkpoint: a file or a folder. `step` is what its name says, `saved_at` when its latest file was written, in
    seconds since the epoch. `torn` says why it is not whole, empty where it is."""

    path: str
    step: int | None
    saved_at: float
    torn: str = ""


def checkpoints_in(folder: str) -> list[SavedCheckpoint]:
    """The checkpoints in a folder by the step in their names, then by time; the furthest last. Raises LogdiagError."""
    if not os.path.isdir(folder):
        raise LogdiagError(f"--checkpoint-dir {folder}: no such folder; make it, or name the one the job saves into")
    checkpoints = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        is_folder = os.path.isdir(path) and not os.path.islink(path)
        if name.startswith(".") or _UNFINISHED.search(name) or not (is_folder or name.endswith(_FILES)):
            continue
        walked = os.walk(path) if is_folder else [("", [], [path])]
        files = [os.path.join(parent, file) for parent, _, names in walked for file in sorted(names)]
        try:
            saved_at = max((os.stat(file).st_mtime for file in files), default=os.stat(path).st_mtime)
            torn = _torn_folder(path, files) if is_folder else _torn_file(path)
        except OSError as error:  # gone or unreadable meanwhile
            saved_at, torn = 0.0, f"{path} cannot be read ({error.strerror})"
        numbers = _STEP.findall(name) or re.findall(r"\d+", name)
        checkpoints.append(SavedCheckpoint(path, int(numbers[-1]) if numbers else None, saved_at, torn))
    return sorted(checkpoints, key=lambda item: (-1 if item.step is None else item.step, item.saved_at))


def newest(checkpoints: Sequence[SavedCheckpoint], distrusted: Mapping[str, float]) -> SavedCheckpoint | None:
    """The furthest whole checkpoint that is not distrusted; one that was saved anew since is trusted again."""
    trusted = [item for item in checkpoints if not item.torn and item.saved_at > distrusted.get(item.path, 0.0)]
    return trusted[-1] if trusted else None


def _torn_folder(folder: str, files: list[str]) -> str:
    """Says why a folder is no whole checkpoint, as all functions here do; empty where it is."""
    if not files:
        return f"{folder} is empty"
    problems = (
        _missing_parts(files),
        *(_torn_file(file) for file in files),
        # Files come folder by folder.
        *(_torn_layout(parent, set(map(os.path.basename, group))) for parent, group in groupby(files, os.path.dirname)),
    )
    return next((problem for problem in problems if problem), "")


def _torn_layout(folder: str, names: set[str]) -> str:
    if ".metadata" in names:
        return _torn_distributed(folder)
    if any(name.endswith(".distcp") for name in names):
        return f"{folder} has no .metadata, which is written last"
    for index in names.intersection(_INDEXES):
        with open(os.path.join(folder, index), "rb") as file:
            shards = set(dict(json.load(file)).get("weight_map", {}).values())
        if missing := sorted(shards - names):
            return f"{folder} lacks {missing[0]}, which {index} names"
    if _STATE not in names and os.path.basename(folder).startswith("checkpoint-") and names.intersection(_TRAINERS):
        return f"{folder} has no {_STATE}, which the Trainer writes after the weights"
    return ""


def _missing_parts(files: Iterable[str]) -> str:
    """Says which parts are missing of files numbered like `2-of-4`."""
    parts = Counter((match[1], match[3], match[4]) for match in map(_PART.fullmatch, files) if match)
    for (before, count, after), present in parts.items():
        if present < int(count):
            return f"{before}*-of-{count}{after}: {present} of {int(count)} parts are there"
    return ""


def _torn_file(path: str) -> str:
    name = os.path.basename(path)
    size = os.path.getsize(path)
    if _UNFINISHED.search(name):
        return f"{path} is a temporary file of a save that did not end"
    if size == 0 and name.endswith((*_FILES, ".distcp", ".json")):
        return f"{path} is empty"
    try:
        if name.endswith(".safetensors"):
            return _torn_safetensors(path, size)
        if name.endswith(_ZIPS):
            return _torn_zip(path)
        if name.endswith(".json"):
            with open(path, "rb") as file:
                json.load(file)
    except (ValueError, EOFError, zipfile.BadZipFile, struct.error, RecursionError) as error:
        return f"{path} is cut off or damaged ({error or type(error).__name__})"
    return ""


def _torn_safetensors(path: str, size: int) -> str:
    """The header says where the last tensor ends: that is the end of the file."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > min(size, _LONGEST_HEADER):
            return f"{path} is cut off: its header alone is {length:,} bytes long"
        header = json.loads(file.read(length))
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    wanted = 8 + length + max(ends, default=0)
    return "" if wanted == size else f"{path} has {size:,} of {wanted:,} bytes"


def _torn_zip(path: str) -> str:
    """A zip's list of contents stands at its end; each entry must begin where it says. Checksums are not computed:
    torch may leave them out, and gigabytes would be read."""
    with open(path, "rb") as file:
        if file.read(2) == b"\x80\x02":
            return f"{path} is of torch's old format, which does not show whether it is whole; save it as zip"
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
        for entry in entries:
            file.seek(entry.header_offset)
            if file.read(4) != _LOCAL_HEADER:
                return f"{path} is damaged at {entry.filename}"
    return "" if entries else f"{path} holds nothing"


def _torn_distributed(folder: str) -> str:
    """`.metadata` lists the file, offset and length of each piece."""
    try:
        with open(os.path.join(folder, ".metadata"), "rb") as file:
            ends = _ends_of_files(file)
    except Exception as error:  # a cut pickle raises whatever its last byte leads to
        return f"{folder}/.metadata is cut off or damaged ({error or type(error).__name__})"
    for name, end in ends.items():
        file_of = os.path.join(folder, name)
        size = os.path.getsize(file_of) if os.path.exists(file_of) else -1
        if size < end:
            return f"{file_of} is missing" if size < 0 else f"{file_of} has {size:,} of {end:,} bytes"
    return "" if ends else f"{folder}/.metadata names no file"


def _ends_of_files(pickled: IO[bytes]) -> dict[str, int]:
    """Returns where the last piece of each file ends. Each class or function that the pickle names is replaced by an
    empty stand-in, so nothing is imported or called."""
    ends: dict[str, int] = {}

    class Nothing(dict[Any, Any]):
        # Some stand for keys of the index, and no dict has a hash.
        __hash__ = object.__hash__  # type: ignore[assignment]

        def __init__(self, *_: Any) -> None:
            super().__init__()

        def append(self, _: Any) -> None: ...

        extend = append

        def __setstate__(self, state: Any) -> None:
            for part in state if isinstance(state, tuple) else (state,):
                if isinstance(part, dict) and {"relative_path", "offset", "length"} <= part.keys():
                    name, end = str(part["relative_path"]), int(part["offset"]) + int(part["length"])
                    ends[name] = max(end, ends.get(name, 0))

    class Unpickler(pickle.Unpickler):
        def find_class(self, _module: str, _name: str) -> Any:
            return Nothing

        def persistent_load(self, _: Any) -> None: ...

    Unpickler(pickled).load()
    return ends
