"""A writer that is killed at any point: what it was to write is complete or as it was before, and the next one that
writes the same place removes what the killed ones left."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from test_branch import killed_after

from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.formats import read_vectors, write_vectors
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.files import export_tokenizer, load_tokenizer, save_tokenizer
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.weights.saving import save_model
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.files import folder_made_whole
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.frames import FrameIndex, FrameWriter
from txlab.runs.models import open_model

TEXT = "a rose is a rose is a rose"


@dataclass
class Writer:
    """`write(place, 0)` writes the first content, `write(place, 1)` the second; `found` tells which is there."""

    write: Callable[[Path, int], object]
    found: Callable[[Path], int | None]
    again: bool = True  # whether a place that has a content can be given another
    most: int = 400  # operations


def tokenizer(which: int) -> BytePairTokenizer:
    """The second has all merges of the first, and more tokens: a file of each of the two would be read."""
    return train_tokenizer([TEXT], (258, 260)[which], "gpt2")


def which_tokenizer(place: Path) -> int | None:
    if not place.exists():
        return None
    loaded = load_tokenizer(place)
    assert isinstance(loaded, BytePairTokenizer)
    return [(each.merges, each.vocabulary) for each in (tokenizer(0), tokenizer(1))].index(
        (loaded.merges, loaded.vocabulary)
    )


def which_gpt2(place: Path) -> int | None:
    try:
        return which_tokenizer(place)
    except LabError:  # one of the two files is missing
        return None


def model(which: int) -> GPT:
    return GPT(GPTShape(1, 2, 8, 16, 256), torch.Generator().manual_seed(which))


def which_model(place: Path) -> int | None:
    if not place.exists():
        return None
    there = open_model(str(place)).model.state_dict()
    return [
        all(torch.equal(there[key], of) for key, of in model(which).state_dict().items()) for which in (0, 1)
    ].index(True)


def vectors(which: int) -> Embedding:
    return Embedding(("a", "b"), np.full((2, 3), which, np.float32) + 1, None, None, "")


def which_vectors(place: Path) -> int | None:
    return int(read_vectors(place).vectors[1, 1]) - 1 if place.exists() else None


def state(which: int) -> dict[str, object]:
    return {"w": torch.full((50,), float(which)), "which": which}


def save_state(place: Path, which: int) -> None:
    place.mkdir(exist_ok=True)
    checkpoints.save(RunDirectory(place), 7, state(which))


def which_state(place: Path) -> int | None:
    run = RunDirectory(place)
    checkpoints.tidy(run)  # as a process that continues the run does
    if not (sound := checkpoints.sound(run)):
        return None
    loaded = checkpoints.load(run, sound[-1])
    assert loaded["w"].tolist() == [float(loaded["which"])] * 50
    return int(loaded["which"])


def write_frames(place: Path, which: int) -> None:
    """Enough frames for a pack."""
    from txlab.files import OpenFolder

    place.mkdir(exist_ok=True)
    (place / "frames").mkdir(exist_ok=True)
    writer = FrameWriter(OpenFolder.at(place / "frames"), 1e9)
    for step in range(65):
        if step not in writer.steps or which:
            writer.write(Frame(step, {"x": np.full(3, step)}, {}, {}, {}))


def which_frames(place: Path) -> int | None:
    """All frames that are listed are there, whole."""
    if not (place / "frames").exists():
        return None
    index = FrameIndex(place / "frames")
    index.refresh()
    for step in index.steps.tolist():
        assert index.read(step).tensors["x"].tolist() == [step] * 3
    return 0 if len(index) == 65 else None


WRITERS = {
    "a model": Writer(lambda place, which: save_model(model(which), None, place), which_model, again=False),
    "a tokenizer": Writer(lambda place, which: save_tokenizer(tokenizer(which), place), which_tokenizer),
    "tokenizer.json": Writer(
        lambda place, which: export_tokenizer(tokenizer(which), place, "huggingface"), which_tokenizer
    ),
    "GPT-2's two files": Writer(lambda place, which: export_tokenizer(tokenizer(which), place, "gpt2"), which_gpt2),
    "vectors": Writer(lambda place, which: write_vectors(vectors(which), place, "word2vec"), which_vectors),
    "a checkpoint": Writer(save_state, which_state),
    "frames": Writer(write_frames, which_frames, again=False, most=1000),
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_killed_is_complete_or_as_it_was(tmp_path: Path, name: str) -> None:
    writer = WRITERS[name]
    for begins_with in (None, 0) if writer.again else (None,):
        which = 0 if begins_with is None else 1
        place = tmp_path / f"{begins_with}" / "target"
        place.parent.mkdir()
        found = set()
        for operations in range(0, writer.most, 1 if writer.most < 1000 else 41):
            if begins_with is not None:
                writer.write(place, begins_with)
            ended = killed_after(operations, lambda: writer.write(place, which))  # noqa: B023
            found.add(writer.found(place))
            if ended:
                break
            if name in ("a model", "frames"):  # else it is written over
                shutil.rmtree(place, ignore_errors=True)
        assert ended
        assert writer.found(place) == which
        absent = {None} if name == "GPT-2's two files" else set()
        assert found <= {begins_with, which} | absent
        assert len(found) > 1, "no kill came before the end"
        if name == "a model":  # it can be gigabytes
            assert [path.name for path in place.parent.iterdir()] == ["target"]


@pytest.mark.parametrize("name", WRITERS)
def test_what_the_disk_refuses_is_as_it_was(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = WRITERS[name]
    place = tmp_path / "target"
    if writer.again:
        writer.write(place, 0)
    before = writer.found(place)

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def leftovers() -> list[str]:
        return [str(path) for path in tmp_path.rglob(".*") if path.name.startswith(".")]

    with monkeypatch.context() as full:
        full.setattr(os, "write", refuse)
        full.setattr(os, "replace", refuse)
        full.setattr(Path, "replace", refuse)
        with contextlib.suppress(LabError, OSError):
            writer.write(place, 1)
    assert leftovers() == []
    if name == "GPT-2's two files":
        assert writer.found(place) in (before, None)
    else:
        assert writer.found(place) == before


def test_a_folder_that_is_being_made_is_left_to_its_process(tmp_path: Path) -> None:
    place = tmp_path / "model"
    with folder_made_whole(place) as aside:
        (aside / "half").write_text("…")
        with pytest.raises(LabError, match="is being written by another process"):
            save_model(model(0), None, place)
    assert [path.name for path in place.iterdir()] == ["half"]
    with pytest.raises(LabError, match="an export needs a new or an empty folder"):
        save_model(model(0), None, place)
