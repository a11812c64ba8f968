"""Checkpoints: a State as state.safetensors + state.json, in a directory that is complete or absent.

Notable: nothing is pickled, so nothing read can run code. The nested structure is JSON in which a tensor is a
reference; a tensor that stands in two places (tied weights) is stored once and is one tensor again after loading. The
directory is written under another name, flushed to the disk and renamed; a checksum finds what a rename cannot.
A state of NumPy arrays alone, as a learner with a table has, is written and read without torch, whose import takes
longer than some such runs.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from txlab.errors import LabError
from txlab.experiments.protocol import State
from txlab.runs.atomic import atomic_write, sync_directory
from txlab.runs.directory import RunDirectory

if TYPE_CHECKING:
    import numpy as np
    import torch

    Named: TypeAlias = dict[str, "torch.Tensor | np.ndarray[Any, Any]"]

FORMAT = 1
_CHUNK = 1 << 22
_ASIDE = "."  # names of directories that are being written begin so


@dataclass(frozen=True)
class About:
    """What a checkpoint says beside the state.

    log_bytes  size of events.jsonl when it was taken: rows behind it are not in the state
    val_loss   the last validation loss known then; None = never evaluated
    pending    changes made by a person at later steps of an earlier life of this run, still to be repeated
    """

    step: int
    log_bytes: int = 0
    val_loss: float | None = None
    pending: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint."""

    about: About
    state: State


@dataclass
class _Tensors:
    """Tensors met while a state is taken apart: each is stored once, however often it is met."""

    by_name: Named = field(default_factory=dict)
    met: dict[object, str] = field(default_factory=dict)
    held: list[torch.Tensor] = field(default_factory=list)  # while they live, no other tensor has their memory

    def name_of(self, tensor: torch.Tensor, path: str) -> str:
        # Views of exactly the same numbers are one tensor: a tied weight is often met as two different objects.
        same: object = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() == 0:
            same = id(tensor)
        if same not in self.met:
            self.met[same] = path
            self.held.append(tensor)
            self.by_name[path] = tensor.detach().to("cpu", copy=True).contiguous()
        return self.met[same]


def take_apart(state: Any) -> tuple[Any, Named]:
    """A nested State as (JSON value, named tensors); raises TypeError for what an exact restart cannot hold."""
    tensors = _Tensors()
    return _apart(state, "state", tensors), tensors.by_name


def _apart(value: Any, path: str, tensors: _Tensors) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _apart(entry, f"{path}.{key}", tensors) for key, entry in value.items()}
        # Optimizers number their parameters: keys that are no strings keep their type in a list of pairs.
        return {"$dict": [[_apart(k, path, tensors), _apart(v, f"{path}.{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        entries = [_apart(entry, f"{path}.{place}", tensors) for place, entry in enumerate(value)]
        return entries if isinstance(value, list) else {"$tuple": entries}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    import numpy as np

    torch = sys.modules.get("torch")  # where it is not imported nothing is a tensor of it
    if torch is not None and isinstance(value, torch.Tensor):
        return {"$tensor": tensors.name_of(value, path)}
    if isinstance(value, np.ndarray):
        tensors.by_name[path] = np.array(value, order="C")
        return {"$array": path}
    if isinstance(value, np.generic):
        return _apart(value.item(), path, tensors)
    raise TypeError(f"{path} is a {type(value).__name__}; a checkpoint holds tensors, numbers, strings and None")


def put_together(value: Any, tensors: Named) -> Any:
    """The inverse of take_apart; ValueError or KeyError if the two do not belong together."""
    if isinstance(value, list):
        return [put_together(entry, tensors) for entry in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((mark, held),) = value.items()
        match mark:
            case "$tensor":
                return tensors[held]
            case "$array":
                array: Any = tensors[held]
                return array.numpy() if _is_torch(array) else array
            case "$float":
                return float(held)
            case "$tuple":
                return tuple(put_together(entry, tensors) for entry in held)
            case "$bytes":
                return base64.b64decode(held)
            case "$dict":
                return {put_together(key, tensors): put_together(entry, tensors) for key, entry in held}
    return {key: put_together(entry, tensors) for key, entry in value.items()}


def save(run: RunDirectory, step: int, state: State, about: About | None = None) -> int:
    """Write checkpoints/<step>/ and wait until it is on the disk; returns its size in bytes.

    One of the same step is replaced. Raises OSError (a full disk); nothing half-written is left then.
    """
    about = about or About(step)
    tree, tensors = take_apart(state)
    final = run.checkpoints / f"{step:08d}"
    aside = run.checkpoints / f"{_ASIDE}{final.name}.{os.getpid()}"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        _save_tensors(tensors, aside / "state.safetensors")
        size, checksum = _checksum(aside / "state.safetensors", sync=True)
        said = {
            "format": FORMAT,
            "step": step,
            "log_bytes": about.log_bytes,
            "val_loss": about.val_loss if about.val_loss is not None and math.isfinite(about.val_loss) else None,
            "pending": list(about.pending),
            "tensors": {"bytes": size, "crc32": checksum},
            "state": tree,
        }
        data = json.dumps(said, allow_nan=False).encode()
        atomic_write(aside / "state.json", data, durable=True)
        _rename_over(aside, final)
        sync_directory(run.checkpoints)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return size + len(data)


def _is_torch(tensor: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def _save_tensors(tensors: Named, path: Path) -> None:
    """safetensors' own writer; its error for a full disk becomes the OSError that it was."""
    save_file: Callable[..., None]
    if any(map(_is_torch, tensors.values())):
        import torch
        from safetensors.torch import save_file

        tensors = {name: each if _is_torch(each) else torch.from_numpy(each) for name, each in tensors.items()}
    else:
        from safetensors.numpy import save_file
    try:
        save_file(tensors, path)
    except OSError:
        raise
    except Exception as error:
        if "os error 28" in str(error) or "No space left" in str(error):
            raise OSError(28, os.strerror(28), str(path)) from None
        raise


def _load_tensors(state: Any, path: Path) -> Named:
    """By torch if the state that they belong to has a tensor of it, else by NumPy."""
    if _has_tensor(state):
        from safetensors.torch import load_file as of_torch

        return dict(of_torch(path))
    from safetensors.numpy import load_file as of_numpy

    return dict(of_numpy(path))


def _has_tensor(state: Any) -> bool:
    if isinstance(state, list):
        return any(map(_has_tensor, state))
    return isinstance(state, dict) and ("$tensor" in state or any(map(_has_tensor, state.values())))


def _checksum(path: Path, sync: bool = False) -> tuple[int, int]:
    """(size, crc32) of a file; `sync` waits until it is on the disk. About 1 GB/s."""
    size = checksum = 0
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            size += len(block)
            checksum = zlib.crc32(block, checksum)
        if sync:
            os.fsync(file.fileno())
    return size, checksum


def _rename_over(aside: Path, final: Path) -> None:
    """Directories cannot be exchanged: an older one steps aside first, and tidy() puts it back after a kill between."""
    old = final.with_name(f"{_ASIDE}{final.name}.old")
    if final.exists():
        shutil.rmtree(old, ignore_errors=True)
        final.rename(old)
    aside.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def tidy(run: RunDirectory) -> None:
    """Remove what a kill left half-written; put back a checkpoint that was being replaced. For the writer only."""
    with contextlib.suppress(OSError):
        for leftover in sorted(run.checkpoints.iterdir()):
            if leftover.name.startswith(_ASIDE):
                final = run.checkpoints / leftover.name[1:].removesuffix(".old")
                if leftover.name.endswith(".old") and not final.exists():
                    leftover.rename(final)
                else:
                    shutil.rmtree(leftover, ignore_errors=True)


def steps(run: RunDirectory) -> list[int]:
    """The steps that have a checkpoint directory, ascending; whether each is sound is found when it is read."""
    try:
        return sorted(int(path.name) for path in run.checkpoints.iterdir() if path.name.isdecimal() and path.is_dir())
    except OSError:
        return []


def look(run: RunDirectory, step: int) -> About:
    """What a checkpoint says of itself, without reading its tensors; LabError if it is damaged."""
    return _look(run, step)[0]


def _look(run: RunDirectory, step: int) -> tuple[About, dict[str, Any]]:
    folder = run.checkpoints / f"{step:08d}"
    try:
        said = json.loads((folder / "state.json").read_bytes())
        if said["format"] > FORMAT:
            raise LabError(f"checkpoint {step} in {run.path} has format {said['format']}; this txlab reads {FORMAT}")
        about = About(int(said["step"]), int(said["log_bytes"]), said["val_loss"], said["pending"])
        size = (folder / "state.safetensors").stat().st_size
        if about.step != step or size != said["tensors"]["bytes"]:
            raise ValueError(f"state.safetensors has {size} bytes")
        return about, said
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LabError(f"checkpoint {step} in {run.path} is damaged: {_line(error)}") from None


def newest(run: RunDirectory) -> int | None:
    """The step of the newest checkpoint whose files are there and as long as they should be; None if there is none."""
    return next(reversed(sound(run)), None)


def sound(run: RunDirectory) -> list[int]:
    """The steps whose checkpoints are there and as long as they should be, ascending."""
    found = []
    for step in steps(run):
        with contextlib.suppress(LabError):
            found.append(look(run, step).step)
    return found


def load(run: RunDirectory, step: int) -> State:
    """The state of one checkpoint, tensors on the CPU; LabError if there is none at that step or it is damaged."""
    return read(run, step).state


def read(run: RunDirectory, step: int) -> Checkpoint:
    """A checkpoint with what it says of itself; raises as load does."""
    if step not in steps(run):
        held = ", ".join(map(str, steps(run))) or "none"
        raise LabError(f"{run.path} has no checkpoint of step {step}; there are: {held}")
    about, said = _look(run, step)
    path = run.checkpoints / f"{step:08d}" / "state.safetensors"
    try:
        if _checksum(path)[1] != said["tensors"]["crc32"]:
            raise ValueError("the checksum of state.safetensors is wrong")
        state = put_together(said["state"], _load_tensors(said["state"], path))
    except Exception as error:  # safetensors has its own exception class, and damage can look like anything
        raise LabError(f"checkpoint {step} in {run.path} is damaged: {_line(error)}") from None
    return Checkpoint(about, state)


def read_newest(run: RunDirectory, at_most: int | None = None) -> tuple[Checkpoint | None, dict[int, str]]:
    """The newest sound checkpoint (not later than `at_most`), and a note for each damaged step that was passed over."""
    damaged: dict[int, str] = {}
    for step in reversed(steps(run)):
        if at_most is None or step <= at_most:
            try:
                return read(run, step), damaged
            except LabError as error:
                damaged[step] = f"{error}; passed over"
    return None, damaged


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def prune(run: RunDirectory, keep: int) -> list[int]:
    """Remove all but the newest `keep` and the one with the best validation loss; returns the steps removed."""
    there = steps(run)
    losses = {}
    for step in there:
        with contextlib.suppress(LabError):
            loss = look(run, step).val_loss
            if loss is not None:
                losses[step] = loss
    best = min(losses, key=lambda step: (losses[step], step)) if losses else None
    removed = [step for step in there[: max(0, len(there) - keep)] if step != best]
    remove(run, removed)
    return removed


def set_aside(run: RunDirectory, step: int) -> None:
    """Rename a damaged checkpoint so that nobody counts on it; its files stay for whoever wants to know."""
    final = run.checkpoints / f"{step:08d}"
    aside = final.with_name(f"{final.name}.damaged")
    shutil.rmtree(aside, ignore_errors=True)
    final.rename(aside)


def remove(run: RunDirectory, removed: list[int]) -> None:
    """Take checkpoints away: each is renamed first, so that a kill in between leaves none that looks whole."""
    for step in removed:
        final = run.checkpoints / f"{step:08d}"
        gone = final.with_name(f"{_ASIDE}{final.name}.gone")
        shutil.rmtree(gone, ignore_errors=True)
        final.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
