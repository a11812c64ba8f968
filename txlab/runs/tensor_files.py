"""Tensors in the safetensors format, written to and read from descriptors: those of checkpoints and of frames.

Notable: the library takes a path, which may lead out of a run's directory; and what a header claims is checked here
against the size of the file before a byte of its tensors is believed. Format: 8 bytes with the length of the header
(little endian), the header (JSON: name → dtype, shape, data_offsets), the tensors one behind the other
(github.com/huggingface/safetensors, README).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import orjson

from txlab.runs.atomic import write_whole
from txlab.runs.folder import Folder

if TYPE_CHECKING:
    import torch

    Named: TypeAlias = Mapping[str, "torch.Tensor | np.ndarray[Any, Any]"]

LARGEST_HEADER = 16 << 20  # parsing may take 25 times as much memory; a header of ours has some 100 bytes for a tensor
SIZES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4,
    "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip
TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2", "C64": "<c8",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in TYPES.items() if name != "BF16"}
OF_TORCH = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64", "BF16": "bfloat16",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip
NAMES_OF_TORCH = {f"torch.{theirs}": name for name, theirs in OF_TORCH.items()}

Place = tuple[str, list[int], int, int]  # type, shape, first byte in the file, byte after the last


def encode_header(entries: Mapping[str, Any]) -> bytes:
    """The beginning of a file, padded so that the tensors begin aligned, as the format recommends."""
    said = orjson.dumps(entries)
    said += b" " * (-len(said) % 8)
    return len(said).to_bytes(8, "little") + said


def read_places(descriptor: int) -> tuple[dict[str, str], dict[str, Place], int]:
    """(metadata, where each tensor lies, bytes of the header).

    Raises ValueError, KeyError, TypeError or AttributeError for a header that lies.
    """
    size = os.fstat(descriptor).st_size
    length = int.from_bytes(os.pread(descriptor, 8, 0), "little")
    if not 2 <= length <= min(LARGEST_HEADER, size - 8):
        raise ValueError("the header's length is wrong")
    start = 8 + length
    header = orjson.loads(os.pread(descriptor, length, 8))
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    metadata = header.pop("__metadata__", {})
    places: dict[str, Place] = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        shape, kind = entry["shape"], entry["dtype"]
        if SIZES[kind] * prod(shape) != end - begin or begin < 0 or start + end > size:
            raise ValueError(f"{name} does not fit")
        places[name] = (kind, shape, start + begin, start + end)
    return metadata, places, length


def save_tensors(folder: Folder, name: str, tensors: Named) -> tuple[int, int]:
    """Write a file that is not there yet and wait until it is on the disk: (size, crc32). OSError as the disk says."""
    flat = {key: _bytes_of(tensor) for key, tensor in tensors.items()}
    order = sorted(flat, key=lambda key: (-SIZES[flat[key][0]], key))  # the widest first: each is aligned
    entries, size = {}, 0
    for key in order:
        kind, shape, data = flat[key]
        entries[key] = {"dtype": kind, "shape": shape, "data_offsets": [size, size + data.nbytes]}
        size += data.nbytes
    head = encode_header(entries)
    if len(head) > LARGEST_HEADER:
        raise ValueError(f"{len(entries)} tensors are too many for one file")
    descriptor = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    checksum = 0
    try:
        for piece in (memoryview(head), *(flat[key][2].data for key in order)):
            checksum = zlib.crc32(piece, checksum)
            write_whole(descriptor, piece)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return len(head) + size, checksum


def _bytes_of(tensor: Any) -> tuple[str, tuple[int, ...], np.ndarray[Any, Any]]:
    """(type, shape, its bytes) of a tensor on the CPU."""
    if isinstance(tensor, np.ndarray):
        little = np.asarray(tensor, tensor.dtype.newbyteorder("<"), order="C")
        return NAMES[little.dtype], tensor.shape, little.reshape(-1).view(np.uint8)
    import torch

    kind = NAMES_OF_TORCH.get(str(tensor.dtype))
    if kind is None:
        raise TypeError(f"a tensor of type {tensor.dtype} cannot be stored")
    return kind, tuple(tensor.shape), tensor.contiguous().reshape(-1).view(torch.uint8).numpy()


def load_tensors(descriptor: int, checksum: int | None, as_torch: bool) -> dict[str, Any]:
    """All tensors of a file, in one pass. ValueError, KeyError or TypeError if it is damaged, or lies.

    checksum  the crc32 that the file must have; None = whatever it has
    """
    _, places, _ = read_places(descriptor)
    size = os.fstat(descriptor).st_size
    import psutil

    if size > psutil.virtual_memory().available:
        raise ValueError(f"it has {size >> 20} MiB, which is more than there is memory")
    found: dict[str, Any] = {}
    order = sorted(places, key=lambda name: places[name][2:])
    with os.fdopen(os.dup(descriptor), "rb", buffering=0) as file:
        file.seek(0)
        behind = min([size, *(places[name][2] for name in order)])
        crc = zlib.crc32(file.read(behind))
        for name in order:
            kind, shape, begin, end = places[name]
            if begin != behind:
                raise ValueError(f"{name} does not begin where the one before it ends")
            found[name], data = _made(kind, shape, end - begin, as_torch)
            _fill(file, data)
            crc = zlib.crc32(data.data, crc)
            behind = end
    if behind != size:
        raise ValueError("there is something behind the last tensor")
    if checksum not in (None, crc):
        raise ValueError("the checksum is wrong")
    return found


def _fill(file: Any, data: np.ndarray[Any, Any]) -> None:
    rest = data.data
    while rest:
        taken = file.readinto(rest)
        if not taken:
            raise ValueError("it became shorter while it was read")
        rest = rest[taken:]


def _made(kind: str, shape: list[int], size: int, as_torch: bool) -> tuple[Any, np.ndarray[Any, Any]]:
    """A tensor yet to be filled, and its bytes."""
    if as_torch:
        import torch

        tensor = torch.empty(shape, dtype=getattr(torch, OF_TORCH[kind]))  # aligned as torch's kernels want it
        return tensor, tensor.reshape(-1).view(torch.uint8).numpy()
    data = np.empty(size, np.uint8)
    return data.view(TYPES[kind]).reshape(shape), data
