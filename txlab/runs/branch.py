"""A new run that continues from a checkpoint of another run, which stays unchanged.

It starts with the old run's log up to that checkpoint, so that both share the beginning of the curve; earlier frames
stay with the old run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from txlab.errors import LabError
from txlab.files import OpenFolder
from txlab.runs import checkpoints
from txlab.runs.directory import FILES_OF_PEOPLE, FILES_OF_START, RunDirectory, info_of, new_info
from txlab.runs.folder import new_run
from txlab.runs.origin import command_line, commit_of
from txlab.runs.tensor_files import read_places

PIECE = 1 << 20


def branch(run: RunDirectory | Path, step: int, root: Path | None = None, out: Path | None = None) -> Path:
    """Prepare a run that continues from checkpoint `step` of this one, and return its path; `execute` computes it.

    `root` is the folder of runs, by default that of the old run. Raises LabError if there is no such checkpoint, it is
    damaged, or another program recorded the run.
    """
    old = RunDirectory.of(run).hold_open()
    info = info_of(old)
    if info.recorded:
        raise LabError(f"{old.path} was recorded by another program, and only that program can continue it")
    about = checkpoints.read(old, step).about  # refuses a damaged one before anything is made
    with new_run(root or old.path.parent, f"{info.scenario or old.name}-from-{step}", out) as (new, path):
        with old.folder() as source, new.folder() as target:
            for name in ("scenario.toml", *FILES_OF_START, *FILES_OF_PEOPLE):
                if source.kind(name):
                    copy(source, target, name)
            copy(source, target, "events.jsonl", about.log_bytes)
        name = f"{step:08d}"
        with old.folder("checkpoints", name) as source, new.folder("checkpoints", name, make=True) as target:
            for part in (checkpoints.STATE, checkpoints.TENSORS):
                copy(source, target, part)
        made = new_info(new, info.scenario, info.kind, info.title, info.steps)
        made.name, made.step, made.facts, made.changes = path.name, step, info.facts, info.changes
        made.branched = {"run": old.name, "step": step}
        made.command, made.git = command_line(), commit_of(Path.cwd())
        made.save(new)
    return path


def copy(source: OpenFolder, target: OpenFolder, name: str, size: int | None = None) -> None:
    """Copy a file, or its first `size` bytes. Raises OSError, and LabError for a damaged file: a sparse one may be
    larger than any disk."""
    with (
        os.fdopen(source.open(name), "rb") as old,
        os.fdopen(target.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as new,
    ):
        text = not name.endswith(".safetensors")
        left = (os.fstat(old.fileno()).st_size if text else end_of_tensors(old, name)) if size is None else size
        while left > 0 and (data := old.read(min(PIECE, left))):
            if text and b"\0" in data:
                raise LabError(f"{name} is damaged: it has a zero byte at {old.tell() - len(data) + data.index(0)}")
            new.write(data)
            left -= len(data)
        os.fsync(new.fileno())


def end_of_tensors(file: BinaryIO, name: str) -> int:
    """Return where the last tensor of a safetensors file ends. Raises LabError for a damaged header."""
    try:
        _, places, header = read_places(file.fileno())
        return max((end for _, _, _, end in places.values()), default=8 + header)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LabError(f"{name} is damaged: {error}") from None
