"""Checkpoints: a State as state.safetensors + state.json, in a directory that is complete or absent.

Notable: nothing is pickled, so reading a checkpoint cannot run code. The nested structure is JSON in which a tensor is
a reference; a tensor used in two places (tied weights) is stored once and is one tensor again after loading. The
directory is written under a temporary name, flushed to disk and renamed; a checksum detects what renaming cannot. Only
real directories with a name from this file and nothing foreign in them are ever removed. A state of NumPy arrays only,
such as that of a tabular learner, is handled without torch, whose import takes longer than some of those runs.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from txlab.errors import LabError
from txlab.experiments.protocol import State
from txlab.files import OpenFolder, closing
from txlab.runs.directory import RunDirectory

if TYPE_CHECKING:
    import numpy as np
    import torch

    Named: TypeAlias = dict[str, "torch.Tensor | np.ndarray[Any, Any]"]

FORMAT = 1
# Bytes of state.json: in all, including long strings such as a tokenizer's, and outside strings, where parsing may take
# 25 times as much memory.
LARGEST_STATE, LARGEST_STRUCTURE = 64 << 20, 16 << 20
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
STATE, TENSORS = "state.json", "state.safetensors"
# Names used here: a checkpoint; one that is being written, replaced or removed; and the files in it.
_NAME = re.compile(r"[0-9]{8,18}")
_LEFTOVER = re.compile(r"\.([0-9]{8,18})\.([0-9]+|old|gone)")
_PART = re.compile(r"state\.(json|safetensors)|\.state\.json\.[0-9]+\.[0-9]+")


@dataclass(frozen=True)
class CheckpointInfo:
    """What a checkpoint holds in addition to the state.

    log_bytes  size of events.jsonl when the checkpoint was taken: later rows are not in the state
    val_loss   the last validation loss known then; None = never evaluated
    pending    changes that the user made at later steps, before this run was last resumed, still to be repeated
    """

    step: int
    log_bytes: int = 0
    val_loss: float | None = None
    pending: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint."""

    about: CheckpointInfo
    state: State


def take_apart(state: Any) -> tuple[Any, Named]:
    """Split a nested State into (JSON value, named tensors); raises TypeError for a type that cannot be stored."""
    parts = _Parts()
    return parts.apart(state, "state"), parts.by_name


class _Parts:
    """The tensors of a state by name. Not a function inside a function: one that calls itself is a cycle, which would
    keep a copy of all tensors until Python searches for cycles."""

    def __init__(self) -> None:
        self.by_name: Named = {}
        self.met: dict[object, str] = {}  # each tensor is stored once, however often it occurs
        self.held: list[torch.Tensor] = []  # kept alive so that no other tensor reuses their memory

    def name_of(self, tensor: torch.Tensor, path: str) -> str:
        # Views of exactly the same numbers are one tensor: a tied weight is often two different objects.
        same: object = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() == 0:
            same = id(tensor)
        if same not in self.met:
            self.met[same] = path
            self.held.append(tensor)
            self.by_name[path] = tensor.detach().to("cpu", copy=True).contiguous()
        return self.met[same]

    def apart(self, value: Any, path: str) -> Any:
        import numpy as np

        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$float": str(value)}
        if isinstance(value, dict):
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return {key: self.apart(entry, f"{path}.{key}") for key, entry in value.items()}
            # Optimizers number their parameters: a list of pairs preserves the type of keys that are not strings.
            return {
                "$dict": [[self.apart(key, path), self.apart(entry, f"{path}.{key}")] for key, entry in value.items()]
            }
        if isinstance(value, (list, tuple)):
            entries = [self.apart(entry, f"{path}.{place}") for place, entry in enumerate(value)]
            return entries if isinstance(value, list) else {"$tuple": entries}
        if isinstance(value, bytes):
            return {"$bytes": base64.b64encode(value).decode()}
        if _is_torch(value):
            return {"$tensor": self.name_of(value, path)}
        if isinstance(value, np.ndarray):
            self.by_name[path] = np.array(value, order="C")
            return {"$array": path}
        if isinstance(value, np.generic):
            return self.apart(value.item(), path)
        raise TypeError(f"{path} is a {type(value).__name__}; a checkpoint holds tensors, numbers, strings and None")


def put_together(value: Any, tensors: Named) -> Any:
    """The inverse of take_apart; ValueError or KeyError if the arguments do not belong together."""
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


def save(run: RunDirectory, step: int, state: State, about: CheckpointInfo | None = None) -> int:
    """Write checkpoints/<step>/, wait until it is on disk, and return its size in bytes.

    An existing checkpoint of the same step is replaced. On OSError (a full disk), nothing half-written is left.
    """
    from txlab.runs.tensor_files import save_tensors

    about = about or CheckpointInfo(step)
    tree, tensors = take_apart(state)
    loss = about.val_loss if about.val_loss is not None and math.isfinite(about.val_loss) else None
    name = f"{step:08d}"
    aside = f".{name}.{os.getpid()}"
    with run.folder("checkpoints", make=True) as there:
        _discard(there, aside)
        try:
            there.mkdir(aside)
            with there.folder(aside) as folder:
                size, checksum = save_tensors(folder, TENSORS, tensors)
                description = {
                    "format": FORMAT,
                    "step": step,
                    "log_bytes": about.log_bytes,
                    "val_loss": loss,
                    "pending": list(about.pending),
                    "tensors": {"bytes": size, "crc32": checksum},
                    "state": tree,
                }
                data = json.dumps(description, allow_nan=False).encode()
                require_readable(data)
                folder.write(STATE, data, durable=True)
            put_in_place(there, aside, name)
        except BaseException:
            _discard(there, aside)
            raise
    return size + len(data)


def put_in_place(there: OpenFolder, aside: str, name: str) -> None:
    """Rename a complete checkpoint to its name, in place of an older one. Raises OSError."""
    if there.kind(name):  # directories cannot be swapped: the old one is renamed, and tidy() can restore it
        _set_off(there, name, "old")
    there.rename(aside, name)
    _discard(there, f".{name}.old")
    there.sync()


def discard_leftovers(there: OpenFolder, but: str) -> None:
    """Remove incomplete checkpoints, except one."""
    for name in there.names():
        if _LEFTOVER.fullmatch(name) and name != but:
            _discard(there, name)


def require_readable(data: bytes) -> None:
    """Raise ValueError if the JSON of a state would take too much memory to parse."""
    if len(data) > LARGEST_STATE or (len(data) > LARGEST_STRUCTURE and len(_TEXT.sub(b'""', data)) > LARGEST_STRUCTURE):
        raise ValueError(f"the state has {len(data) >> 20} MiB in addition to its tensors; numbers belong in tensors")


def _is_ours(there: OpenFolder, name: str) -> bool:
    """Whether a directory contains only the files of a checkpoint."""
    try:
        with there.folder(name) as folder:
            return all(map(_PART.fullmatch, folder.names()))
    except OSError:
        return False


def _discard(there: OpenFolder, name: str) -> None:
    """Remove a directory that contains only the files of a checkpoint; anything else is left alone."""
    with contextlib.suppress(OSError):
        if _is_ours(there, name):
            with there.folder(name) as folder:
                for part in folder.names():
                    folder.unlink(part)
            there.rmdir(name)


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")  # if torch has not been imported, nothing is a tensor
    return torch is not None and isinstance(value, torch.Tensor)


def _has_tensor(state: Any) -> bool:
    if isinstance(state, list):
        return any(map(_has_tensor, state))
    return isinstance(state, dict) and ("$tensor" in state or any(map(_has_tensor, state.values())))


def _set_off(there: OpenFolder, name: str, to: str) -> None:
    """Rename a checkpoint that is to be removed. OSError if the directory contains anything else."""
    if not _is_ours(there, name):
        raise OSError(errno.EEXIST, f"checkpoints/{name} holds something else than a checkpoint")
    _discard(there, f".{name}.{to}")
    there.rename(name, f".{name}.{to}")


def tidy(run: RunDirectory) -> None:
    """Remove half-written checkpoints after a kill and restore one that was being replaced. For the writer only.

    Raises LabError if something other than a directory has the name of a checkpoint or of the checkpoints folder.
    """
    try:
        there = run.folder("checkpoints")
    except FileNotFoundError:
        return
    except OSError as error:
        raise LabError(f"{run.path} is not written to: checkpoints cannot be opened ({error.strerror})") from None
    with there:
        for name in sorted(there.names()):
            kind = there.kind(name)
            if _NAME.fullmatch(name) and kind != "a folder":
                raise LabError(f"{run.path} is not written to: checkpoints/{name} is {kind}, not a checkpoint")
            leftover = _LEFTOVER.fullmatch(name)
            if leftover and leftover[2] == "old" and kind == "a folder" and not there.kind(leftover[1]):
                there.rename(name, leftover[1])
            elif leftover:
                _discard(there, name)


def steps(run: RunDirectory) -> list[int]:
    """The steps that have a checkpoint directory, ascending; damage is only detected when a checkpoint is read."""
    try:
        with run.folder("checkpoints") as there:
            names = [name for name in there.names() if _NAME.fullmatch(name) and f"{int(name):08d}" == name]
            return sorted(int(name) for name in names if there.kind(name) == "a folder")
    except OSError:
        return []


def look(run: RunDirectory, step: int) -> CheckpointInfo:
    """The CheckpointInfo of a step, without reading the tensors; LabError if the checkpoint is damaged."""
    return _look(run, step)[0]


def _look(run: RunDirectory, step: int) -> tuple[CheckpointInfo, dict[str, Any]]:
    try:
        with run.folder("checkpoints", f"{step:08d}") as folder:
            data = folder.read(STATE, LARGEST_STATE)
            require_readable(data)
            content = json.loads(data)
            size = folder.stat(TENSORS).st_size
        if content["format"] > FORMAT:
            raise LabError(f"checkpoint {step} in {run.path} has format {content['format']}; this txlab reads {FORMAT}")
        about = CheckpointInfo(int(content["step"]), int(content["log_bytes"]), content["val_loss"], content["pending"])
        if about.log_bytes < 0 or not isinstance(about.val_loss, float | int | None):
            raise ValueError(f"log_bytes is {about.log_bytes}, val_loss {about.val_loss!r}")
        for change in about.pending:
            if not (type(change["step"]) is int and isinstance(change["key"], str) and math.isfinite(change["to"])):
                raise ValueError(f"pending has {change!r}")
        if about.step != step or size != content["tensors"]["bytes"]:
            raise ValueError(f"state.safetensors has {size} bytes")
        return about, content
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LabError(f"checkpoint {step} in {run.path} is damaged: {_line(error)}") from None


def newest(run: RunDirectory) -> int | None:
    """The step of the newest checkpoint whose files exist and have the right size; None if there is none."""
    return next(reversed(sound(run)), None)


def last_good(run: RunDirectory) -> str:
    """The last clause of the sentence about a failed run: the checkpoint from which it can continue."""
    saved = newest(run)
    return "there is no checkpoint yet" if saved is None else f"last good checkpoint {saved}"


def sound(run: RunDirectory) -> list[int]:
    """The steps whose checkpoint files exist and have the right size, ascending."""
    intact = []
    for step in steps(run):
        with contextlib.suppress(LabError):
            intact.append(look(run, step).step)
    return intact


def order_of(steps: Sequence[int], wanted: int | None) -> list[int]:
    """The steps in the order to try them: newest first, or nearest first (on a tie, the earlier).

    >>> order_of([100, 200, 300], None), order_of([100, 200, 300], 240)
    ([300, 200, 100], [200, 300, 100])
    """
    if wanted is None:
        return sorted(steps, reverse=True)
    return sorted(steps, key=lambda step: (abs(step - wanted), step))


def load(run: RunDirectory, step: int, arrays: bool = False) -> State:
    """Return the state of one checkpoint; see `read`."""
    return read(run, step, arrays).state


def read(run: RunDirectory, step: int, arrays: bool = False) -> Checkpoint:
    """Read a checkpoint, tensors on the CPU, or as NumPy's `arrays`, which need no torch.

    LabError if there is none at that step or it is damaged.
    """
    if step not in steps(run):
        held = ", ".join(map(str, steps(run))) or "none"
        raise LabError(f"{run.path} has no checkpoint of step {step}; there are: {held}")
    from txlab.runs.tensor_files import load_tensors

    about, content = _look(run, step)
    try:
        as_torch = not arrays and _has_tensor(content["state"])
        with run.folder("checkpoints", f"{step:08d}") as folder, closing(folder.open(TENSORS)) as descriptor:
            tensors = load_tensors(descriptor, int(content["tensors"]["crc32"]), as_torch)
        state = put_together(content["state"], tensors)
    except ImportError:  # torch is not installed, or cannot be loaded: that does not make the checkpoint damaged
        raise
    except Exception as error:  # damage may raise anything
        raise LabError(f"checkpoint {step} in {run.path} is damaged: {_line(error)}") from None
    return Checkpoint(about, state)


def read_newest(run: RunDirectory, at_most: int | None = None) -> tuple[Checkpoint | None, dict[int, str]]:
    """The newest sound checkpoint (not later than `at_most`), and a note for each damaged step that was skipped."""
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


def prune(run: RunDirectory, keep: int, budget: int = 0) -> list[int]:
    """Remove checkpoints until all take at most `budget` bytes; returns the steps removed.

    The newest `keep` and the one with the best validation loss always stay. Of the others, the one whose neighbours are
    nearest to each other is removed first, so that the rest stay spread over the run.
    """
    there = steps(run)
    losses = {}
    for step in there:
        with contextlib.suppress(LabError):
            loss = look(run, step).val_loss
            if loss is not None:
                losses[step] = loss
    best = min(losses, key=lambda step: (losses[step], step)) if losses else None
    older = [step for step in there[: max(0, len(there) - keep)] if step != best]
    sizes = {step: size_of(run, step) for step in there}
    removed: list[int] = []
    while older and sum(sizes.values()) > budget:
        places = {step: there.index(step) for step in older}
        gaps = {step: there[place + 1] - (there[place - 1] if place else 0) for step, place in places.items()}
        least = min(older, key=lambda step: (gaps[step], step))
        for known in (older, there):
            known.remove(least)
        del sizes[least]
        removed.append(least)
    remove(run, removed)
    return sorted(removed)


def size_of(run: RunDirectory, step: int) -> int:
    """Bytes that a checkpoint takes; 0 if it cannot be read."""
    try:
        with run.folder("checkpoints", f"{step:08d}") as folder:
            return sum(folder.stat(name).st_size for name in folder.names())
    except OSError:
        return 0


def set_aside(run: RunDirectory, step: int) -> None:
    """Rename a damaged checkpoint so that it is not used again; its files remain for inspection."""
    with run.folder("checkpoints") as there:
        name = aside = f"{step:08d}"
        number = 1
        while there.kind(aside):
            aside = f"{name}.damaged" if number == 1 else f"{name}.damaged-{number}"
            number += 1
        there.rename(name, aside)


def remove(run: RunDirectory, removed: list[int]) -> None:
    """Remove checkpoints. Each is renamed first, so a kill in between leaves none that looks complete.

    A directory that contains anything else is left alone.
    """
    if not removed:
        return
    with run.folder("checkpoints") as there:
        for step in removed:
            name = f"{step:08d}"
            if _is_ours(there, name):
                _set_off(there, name, "gone")
                _discard(there, f".{name}.gone")
