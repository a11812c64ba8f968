"""A model folder of others: its config.json, and the tensors of its safetensors files, whole or in shards.

Notable: a folder is somebody else's. Files are named by it, never reached outside it; only safetensors are read,
because a pickle can run code; and what lies in memory beside the model while it is read is one block of 16 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from txlab.engine.tokenizers.json_files import read_json, shown
from txlab.engine.transformer.weights.headers import DTYPES, Place, read_head
from txlab.errors import LabError

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
LARGEST_CONFIG = 1 << 20
LARGEST_INDEX = 32 << 20
MOST_SHARDS = 1000
BLOCK = 16 << 20  # bytes


@dataclass(frozen=True)
class Folder:
    """`config`: the object in config.json, not yet checked; `places`: name → where that tensor lies."""

    path: Path
    config: dict[str, Any]
    places: dict[str, Place]

    @property
    def files(self) -> list[str]:
        return sorted({place.file.name for place in self.places.values()})


def read_folder(path: Path) -> Folder:
    """LabError, without the folder's name, where it is none, or its files are not what they must be."""
    try:
        if not path.is_dir():
            raise LabError("it is not a folder" if path.exists() else "there is no such folder")
    except (OSError, ValueError) as error:
        raise LabError(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not (path / CONFIG).exists():
        raise LabError(f"it has no {CONFIG}, which says what kind of model it is")
    try:
        config = read_json(path / CONFIG, LARGEST_CONFIG)
    except LabError as error:
        raise LabError(f"{CONFIG}: {error}") from None
    if not isinstance(config, dict):
        raise LabError(f"{CONFIG} must be an object, not {shown(config)}")
    return Folder(path, config, places_of(path))


def places_of(path: Path) -> dict[str, Place]:
    """The tensors of model.safetensors, or of the shards that the index names, or of the only *.safetensors."""
    if (path / WEIGHTS).exists():
        return head_of(path / WEIGHTS)
    if (path / INDEX).exists():
        try:
            return sharded(path)
        except LabError as error:
            raise LabError(str(error) if ".safetensors: " in str(error) else f"{INDEX}: {error}") from None
    found = sorted(file.name for file in path.glob("*.safetensors"))
    if len(found) == 1:
        return head_of(path / found[0])
    if found:
        raise LabError(f"it has several *.safetensors and no {INDEX} that says what is where: {shown(found)}")
    if pickled := sorted(file.name for file in path.glob("*.bin")) + sorted(file.name for file in path.glob("*.pt*")):
        raise LabError(
            f"its weights are in {pickled[0][:60]}, a pickle, which can run code when it is read; "
            "convert it where you trust it, with transformers: from_pretrained(…).save_pretrained(…)"
        )
    raise LabError(f"it has no weights: neither {WEIGHTS} nor {INDEX}")


def head_of(file: Path) -> dict[str, Place]:
    try:
        return read_head(file)
    except LabError as error:
        raise LabError(f"{file.name}: {error}") from None


def sharded(path: Path) -> dict[str, Place]:
    """The tensors of all shards: each where the index says, none twice."""
    content = read_json(path / INDEX, LARGEST_INDEX)
    where = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(where, dict) or not all(isinstance(name, str) for name in where.values()):
        raise LabError("it has no weight_map of tensor names and file names")
    files = sorted(set(where.values()))
    if len(files) > MOST_SHARDS:
        raise LabError(f"it names {len(files):,} files; at most {MOST_SHARDS} are read")
    places: dict[str, Place] = {}
    for name in files:
        if not name.endswith(".safetensors") or name.startswith(".") or set(name) & set("/\\:\0"):
            raise LabError(f"{shown(name)} is not the name of a *.safetensors file in this folder")
        if not (path / name).exists():
            raise LabError(f"the file {shown(name)} is not in the folder")
    for name in files:
        for tensor, place in head_of(path / name).items():
            if tensor in places:
                raise LabError(f"the tensor {shown(tensor)} is in {places[tensor].file.name} and in {name}")
            if where.get(tensor, name) != name:
                raise LabError(f"the tensor {shown(tensor)} is in {name}, not in {shown(where[tensor])} as it says")
            places[tensor] = place
    if missing := sorted(set(where) - set(places)):
        raise LabError(f"the tensor {shown(missing[0])} is not in {shown(where[missing[0]])} as it says")
    return places


def blocks(place: Place) -> Iterator[tuple[int, Tensor]]:
    """(first row, rows of the tensor in its own dtype), a block at a time; a tensor of one dimension has numbers as
    rows. LabError where the file no longer has them."""
    rows = place.shape[0] if place.shape else 1
    row = prod(place.shape[1:])
    dtype = DTYPES[place.dtype]
    at_once = max(1, BLOCK // max(row * dtype.itemsize, 1))
    try:
        with place.file.open("rb") as file:
            file.seek(place.start)
            for first in range(0, rows if place.size else 0, at_once):
                count = min(at_once, rows - first)
                data = bytearray(count * row * dtype.itemsize)
                if file.readinto(data) != len(data):
                    raise LabError(f"{place.file.name} was cut off while it was read")
                yield first, torch.frombuffer(data, dtype=dtype).view(count, *place.shape[1:])
    except OSError as error:
        raise LabError(f"{place.file.name} cannot be read: {error.strerror or error}") from None


def read_tensor(place: Place) -> Tensor:
    """A whole tensor, in its own dtype."""
    parts = [part for _, part in blocks(place)]
    return torch.cat(parts).view(place.shape) if parts else torch.empty(place.shape, dtype=DTYPES[place.dtype])
