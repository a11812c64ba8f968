"""The head of a safetensors file: which tensors there are, of what shape, and where their bytes lie.

Notable: nothing that a head claims is believed before it is held against the size of the file, and nothing is
allocated to read it but the head itself. The format: 8 bytes, the length N of the head, little-endian; N bytes of JSON,
name → {"dtype", "shape", "data_offsets"}; then the tensors' bytes, without holes and without sharing any.
Source: Hugging Face, safetensors, README "Format".
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from txlab.engine.tokenizers.json_files import parse_json, shown
from txlab.errors import LabError, nearest
from txlab.files import open_regular

LARGEST_HEAD = 32 << 20  # GPT-2's has 14 kB; a model of 100 000 tensors would need 15 MB
LARGEST_SIZE = 1 << 48  # of one dimension and of one tensor: no file system holds more

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
class Place:
    """Where a tensor lies: `start` is counted from the beginning of `file`."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int  # bytes


def read_head(path: Path) -> dict[str, Place]:
    """Name → place of every tensor in a safetensors file; LabError, without the file's name, for what is wrong."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise LabError("it is not a regular file")
        with os.fdopen(open_regular(path), "rb") as file:
            length = int.from_bytes(file.read(8) or b"", "little")
            if status.st_size < 8 or length > status.st_size - 8:
                raise LabError(
                    f"it is cut off or no safetensors file: it has {status.st_size:,} bytes, and its first 8 say that "
                    f"{shown(length)} bytes of head follow"
                )
            if length > LARGEST_HEAD:
                raise LabError(f"its head is larger than {LARGEST_HEAD >> 20} MiB")
            head = file.read(length)
    except OSError as error:
        raise LabError(f"it cannot be read: {error.strerror or error}") from None
    if len(head) < length:
        raise LabError("it was cut off while it was read")
    try:
        content = parse_json(head)
    except LabError as error:
        raise LabError(f"its head: {error}") from None
    if not isinstance(content, dict):
        raise LabError(f"its head must be an object, not {shown(content)}")
    content.pop("__metadata__", None)
    start = 8 + length
    places = {name: place_of(path, name, entry, start, status.st_size) for name, entry in content.items()}
    end = start
    for name, place in sorted(places.items(), key=lambda entry: (entry[1].start, entry[1].size)):
        if place.start != end:
            how = "lies over the one before it" if place.start < end else "leaves a hole before it"
            raise LabError(f"the tensor {shown(name)} {how}")
        end += place.size
    if end != status.st_size:
        raise LabError(f"{status.st_size - end:,} bytes at its end belong to no tensor")
    return places


def place_of(path: Path, name: str, entry: Any, start: int, file_size: int) -> Place:
    """One entry of a head, checked by itself: known dtype, shape, bytes of this shape, inside the file."""
    what = f"the tensor {shown(name)}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise LabError(f"{what} must have dtype, shape and data_offsets, and no more")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise LabError(
            f"{what} has the dtype {shown(dtype)}, which is not read{nearest(str(dtype)[:20], DTYPES)}; "
            f"allowed: {', '.join(DTYPES)}"
        )
    if not (isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int for n in shape)):
        raise LabError(f"{what} has the shape {shown(shape)}, which is not a list of at most 8 whole numbers")
    if any(not 0 <= n < LARGEST_SIZE for n in shape):
        raise LabError(f"{what} has the shape {shown(shape)}, of which one number is out of bounds")
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(type(n) is int for n in offsets)):
        raise LabError(f"{what} has the data_offsets {shown(offsets)}, which are not two whole numbers")
    begin, end = offsets
    size = prod(shape) * DTYPES[dtype].itemsize
    if not 0 <= begin <= end or end - begin != size:
        raise LabError(
            f"{what} is {dtype} of shape {shown(shape)}, which are {size:,} bytes, "
            f"and its data_offsets are {shown(offsets)}"
        )
    if start + end > file_size:
        raise LabError(
            f"{what} ends at byte {start + end:,}, and the file has {file_size:,}: it is cut off, or its head lies"
        )
    return Place(path, dtype, tuple(shape), start + begin, size)
