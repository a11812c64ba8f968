"""A model folder from elsewhere: its config.json, and the tensors of its safetensors files, whole or in shards.

The folder is not trusted. Files that it names must be inside it; only safetensors are read, because a pickle can run
code. Everything in a header is checked against the size of the file before use, and reading the header allocates
nothing else; at most one block of 16 MiB is in memory in addition to the model. The format: 8 bytes, the length N of
the header, little-endian; N bytes of JSON, name → {"dtype", "shape", "data_offsets"}; then the tensors' bytes, without
holes or overlaps. Source: Hugging Face, safetensors, README "Format".
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from txlab.engine.tokenizers.json_files import format_value, parse_json, read_json
from txlab.errors import LabError, nearest, prefix_errors
from txlab.files import open_regular

LARGEST_HEAD = 32 << 20  # of all files of a folder; GPT-2's has 14 kB; a model of 100 000 tensors would need 15 MB
MOST_TENSORS = 100_000  # in a folder; a GPT of 1024 layers has 16 000
MOST_VALUES = 10 * MOST_TENSORS  # in a header: two or three of a shape, and seven more of each tensor
LARGEST_SIZE = 1 << 48  # of one dimension and of one tensor: beyond the limits of any file system

DTYPES: dict[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
FLOATS = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class TensorLocation:
    """The location of a tensor: `start` is counted from the beginning of `file`."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int  # bytes


def read_head(path: Path, largest: int = LARGEST_HEAD, most: int = MOST_TENSORS) -> dict[str, TensorLocation]:
    """Return name → location of every tensor in a safetensors file; LabError, without the file's name, if it is invalid
    or has a header of more than `largest` bytes or `most` tensors."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise LabError("it is not a regular file")
        with os.fdopen(open_regular(path), "rb") as file:
            length = int.from_bytes(file.read(8) or b"", "little")
            if status.st_size < 8 or length > status.st_size - 8:
                raise LabError(
                    f"it is cut off or not a safetensors file: it has {status.st_size:,} bytes, and its first 8 say "
                    f"that {format_value(length)} bytes of header follow"
                )
            if length > largest:
                raise LabError(f"the headers of the weights are larger than {LARGEST_HEAD >> 20} MiB")
            head = file.read(length)
    except OSError as error:
        raise LabError(f"it cannot be read: {error.strerror or error}") from None
    if len(head) < length:
        raise LabError("it was cut off while it was read")
    with prefix_errors("its header"):
        content = parse_json(head, MOST_VALUES)
    if not isinstance(content, dict):
        raise LabError(f"its header must be an object, not {format_value(content)}")
    content.pop("__metadata__", None)
    if len(content) > most:
        raise LabError(f"the weights have more than {MOST_TENSORS:,} tensors")
    start = 8 + length
    places = {name: place_of(path, name, entry, start, status.st_size) for name, entry in content.items()}
    end = start
    for name, place in sorted(places.items(), key=lambda entry: (entry[1].start, entry[1].size)):
        if place.start != end:
            how = "overlaps the one before it" if place.start < end else "leaves a hole before it"
            raise LabError(f"the tensor {format_value(name)} {how}")
        end += place.size
    if end != status.st_size:
        raise LabError(f"{status.st_size - end:,} bytes at its end are not part of any tensor")
    return places


def place_of(path: Path, name: str, entry: Any, start: int, file_size: int) -> TensorLocation:
    """Validate one header entry by itself: known dtype, shape, matching number of bytes, inside the file."""
    what = f"the tensor {format_value(name)}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise LabError(f"{what} must have dtype, shape and data_offsets, and no more")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise LabError(
            f"{what} has the dtype {format_value(dtype)}, which is not read{nearest(str(dtype)[:20], DTYPES)}; "
            f"allowed: {', '.join(DTYPES)}"
        )
    if not (isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int for n in shape)):
        raise LabError(f"{what} has the shape {format_value(shape)}, which is not a list of at most 8 whole numbers")
    if any(not 0 <= n < LARGEST_SIZE for n in shape):
        raise LabError(f"{what} has the shape {format_value(shape)}, of which one number is out of bounds")
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(type(n) is int for n in offsets)):
        raise LabError(f"{what} has the data_offsets {format_value(offsets)}, which are not two whole numbers")
    begin, end = offsets
    size = prod(shape) * DTYPES[dtype].itemsize
    if not 0 <= begin <= end or end - begin != size:
        raise LabError(
            f"{what} is {dtype} of shape {format_value(shape)}, which are {size:,} bytes, "
            f"and its data_offsets are {format_value(offsets)}"
        )
    if start + end > file_size:
        raise LabError(
            f"{what} ends at byte {start + end:,}, and the file has {file_size:,}: it is cut off or its header is wrong"
        )
    return TensorLocation(path, dtype, tuple(shape), start + begin, size)


CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
LARGEST_CONFIG = 1 << 20
LARGEST_INDEX = 32 << 20
MOST_SHARDS = 1000
BLOCK = 16 << 20  # bytes


@dataclass(frozen=True)
class ModelFolder:
    """`config`: the object in config.json, not yet checked; `places`: name → location of that tensor."""

    path: Path
    config: dict[str, Any]
    places: dict[str, TensorLocation]

    @property
    def files(self) -> list[str]:
        return sorted({place.file.name for place in self.places.values()})


def read_folder(path: Path) -> ModelFolder:
    """Read a model folder; LabError, without the folder's name, if it is not a folder or its files are invalid."""
    try:
        if not path.is_dir():
            raise LabError("it is not a folder" if path.exists() else "there is no such folder")
    except (OSError, ValueError) as error:
        raise LabError(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not (path / CONFIG).exists():
        raise LabError(f"it has no {CONFIG}, which says what kind of model it is")
    with prefix_errors(CONFIG):
        config = read_json(path / CONFIG, LARGEST_CONFIG)
    if not isinstance(config, dict):
        raise LabError(f"{CONFIG} must be an object, not {format_value(config)}")
    return ModelFolder(path, config, places_of(path))


def places_of(path: Path) -> dict[str, TensorLocation]:
    """Locate the tensors of model.safetensors, of the shards that the index names, or of the only *.safetensors."""
    if (path / WEIGHTS).exists():
        return head_of(path / WEIGHTS)
    if (path / INDEX).exists():
        try:
            return locate_in_shards(path)
        except LabError as error:
            raise LabError(str(error) if ".safetensors: " in str(error) else f"{INDEX}: {error}") from None
    files = sorted(file.name for file in path.glob("*.safetensors"))
    if len(files) == 1:
        return head_of(path / files[0])
    if files:
        raise LabError(f"it has several *.safetensors and no {INDEX} that says what is where: {format_value(files)}")
    if pickled := sorted(file.name for file in path.glob("*.bin")) + sorted(file.name for file in path.glob("*.pt*")):
        raise LabError(
            f"its weights are in {pickled[0][:60]}, a pickle, which can run code when it is read; "
            "convert it where you trust it, with transformers: from_pretrained(…).save_pretrained(…)"
        )
    raise LabError(f"it has no weights: neither {WEIGHTS} nor {INDEX}")


def head_of(file: Path, largest: int = LARGEST_HEAD, most: int = MOST_TENSORS) -> dict[str, TensorLocation]:
    with prefix_errors(file.name):
        return read_head(file, largest, most)


def locate_in_shards(path: Path) -> dict[str, TensorLocation]:
    """Locate the tensors of all shards: each in the shard that the index names, none twice."""
    content = read_json(path / INDEX, LARGEST_INDEX, 2 * MOST_TENSORS)
    where = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(where, dict) or not all(isinstance(name, str) for name in where.values()):
        raise LabError("it has no weight_map of tensor names and file names")
    files = sorted(set(where.values()))
    if len(files) > MOST_SHARDS:
        raise LabError(f"it names {len(files):,} files; at most {MOST_SHARDS} are read")
    places: dict[str, TensorLocation] = {}
    for name in files:
        if not name.endswith(".safetensors") or name.startswith(".") or set(name) & set("/\\:\0"):
            raise LabError(f"{format_value(name)} is not the name of a *.safetensors file in this folder")
        if not (path / name).exists():
            raise LabError(f"the file {format_value(name)} is not in the folder")
    left = LARGEST_HEAD
    for name in files:
        here = head_of(path / name, left, MOST_TENSORS - len(places))
        left -= min((place.start for place in here.values()), default=(path / name).stat().st_size)
        for tensor, place in here.items():
            if tensor in places:
                raise LabError(f"the tensor {format_value(tensor)} is in {places[tensor].file.name} and in {name}")
            if where.get(tensor, name) != name:
                raise LabError(
                    f"the tensor {format_value(tensor)} is in {name}, not in {format_value(where[tensor])} as it says"
                )
            places[tensor] = place
    if missing := sorted(set(where) - set(places)):
        raise LabError(f"the tensor {format_value(missing[0])} is not in {format_value(where[missing[0]])} as it says")
    return places


def blocks(place: TensorLocation) -> Iterator[tuple[int, Tensor]]:
    """Yield (first row, rows of the tensor in its own dtype), a block at a time; the rows of a 1-D tensor are numbers.
    LabError if the file has become shorter."""
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


def read_tensor(place: TensorLocation) -> Tensor:
    """Read a whole tensor, in its own dtype."""
    parts = [part for _, part in blocks(place)]
    return torch.cat(parts).view(place.shape) if parts else torch.empty(place.shape, dtype=DTYPES[place.dtype])
