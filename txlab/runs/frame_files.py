"""How frames lie in safetensors files: a single one, or a pack with the step before each name.

Notable: headers are parsed here, not by the library, so that one tensor of one frame is read with one pread. What a
header claims is checked against the size of the file before a byte is believed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from txlab.experiments.protocol import Frame
from txlab.runs.atomic import atomic_write

_CHUNK = 1 << 22
_HEADER_LIMIT = 100_000_000  # safetensors' own
SINGLE = re.compile(r"(\d{8,})\.safetensors")
PACK = re.compile(r"pack-(\d{8,})-(\d{8,})\.safetensors")
_SIZES = {
    "BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8,
    "I64": 8, "F64": 8,
}  # fmt: skip
_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2",
}  # fmt: skip

_NAMES = {np.dtype(code): name for name, code in _TYPES.items() if name != "BF16"}

Place = tuple[str, list[int], int, int]  # type, shape, first byte in the file, byte after the last
Identity = tuple[int, int, int]  # modification time, size, inode: changes with every rewriting
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError)


def single_name(step: int) -> str:
    return f"{step:08d}.safetensors"


def pack_name(first: int, last: int) -> str:
    return f"pack-{first:08d}-{last:08d}.safetensors"


@dataclass(frozen=True)
class Stored:
    """The header of one file: for each step what was said about it and its tensors, name → place."""

    texts: Mapping[int, str]
    tensors: Mapping[int, Mapping[str, Place]]


def _parse_header(data: bytes, start: int, size: int, single: int | None) -> Stored:
    """Understand a safetensors header; `start` is where the tensors begin, `size` the file's. ValueError if it lies."""
    header = orjson.loads(data)
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    texts = {int(key): str(text) for key, text in header.pop("__metadata__", {}).items() if key.isdecimal()}
    tensors: dict[int, dict[str, Place]] = {step: {} for step in texts}
    for key, entry in header.items():
        begin, end = entry["data_offsets"]
        shape, kind = entry["shape"], entry["dtype"]
        if single is None:
            prefix, _, name = key.partition("/")
            step = int(prefix)
        else:
            step, name = single, key
        if _SIZES[kind] * prod(shape) != end - begin or begin < 0 or start + end > size:
            raise ValueError(f"{key} does not fit")
        tensors.setdefault(step, {})[name] = (kind, shape, start + begin, start + end)
    return Stored(texts, {step: tensors[step] for step in texts})


def read_header(descriptor: int, single: int | None) -> Stored:
    size = os.fstat(descriptor).st_size
    length = int.from_bytes(os.pread(descriptor, 8, 0), "little")
    if not 2 <= length <= min(_HEADER_LIMIT, size - 8):
        raise ValueError("the header's length is wrong")
    return _parse_header(os.pread(descriptor, length, 8), 8 + length, size, single)


def read_array(descriptor: int, place: Place) -> np.ndarray[Any, Any]:
    """One tensor's bytes as a NumPy array; bfloat16 (which NumPy lacks) widened to float32, without loss."""
    kind, shape, begin, end = place
    flat = np.frombuffer(os.pread(descriptor, end - begin, begin), dtype=_TYPES[kind])
    if kind == "BF16":
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    return flat.reshape(shape)


def as_arrays(frame: Frame) -> dict[str, np.ndarray[Any, Any]]:
    """The frame's tensors as contiguous NumPy arrays; torch's are fetched from where they are, bfloat16 as float32."""
    arrays = {}
    for name, tensor in frame.tensors.items():
        if not isinstance(tensor, np.ndarray) and hasattr(tensor, "detach"):
            tensor = tensor.detach().cpu()
            tensor = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
        arrays[name] = np.asarray(tensor, order="C")
    return arrays


def said_in(frame: Frame) -> str:
    """What a frame says beside its tensors, as the JSON that goes into the file's metadata."""
    said = {
        "tokens": {name: [_valid(label) for label in labels] for name, labels in frame.tokens.items()},
        "texts": {name: _valid(text) for name, text in frame.texts.items()},
        "facts": dict(frame.facts),
    }
    return orjson.dumps(said, default=str, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS).decode()


def _valid(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def steps_in(path: Path) -> list[int]:
    """The steps of the frames in a file, from its header alone; none if it is damaged."""
    try:
        with opened(path) as (_, header):
            return sorted(header.texts)
    except DAMAGE:
        return []


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[int, Stored]]:
    """The descriptor and the header of a file of frames; raises what DAMAGE names."""
    single = SINGLE.fullmatch(path.name)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor, read_header(descriptor, int(single[1]) if single else None)
    finally:
        os.close(descriptor)


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a file with one frame."""
    entries: dict[str, Any] = {"__metadata__": {f"{frame.step:08d}": said_in(frame)}}
    pieces: list[Any] = []
    size = 0
    # The widest numbers first, so that each tensor is aligned, as the format recommends.
    for name, array in sorted(as_arrays(frame).items(), key=lambda entry: (-entry[1].itemsize, entry[0])):
        kind = _NAMES[array.dtype.newbyteorder("<")]
        begin, size = size, size + array.nbytes
        entries[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [begin, size]}
        pieces.append(np.asarray(array, array.dtype.newbyteorder("<")).data.cast("B") if array.nbytes else b"")
    said = orjson.dumps(entries)
    said += b" " * (-len(said) % 8)
    return b"".join([len(said).to_bytes(8, "little"), said, *pieces])


def write_pack(path: Path, sources: Iterable[Path], kept: Container[int] | None = None) -> tuple[list[int], int]:
    """Put the frames of several files (all, or the steps kept) into one pack, atomically: (their steps, its bytes).

    Tensors are copied as bytes, a stretch at a time, never decoded; a source that is damaged gives nothing. No pack is
    written when there is no frame for it.
    """
    metadata: dict[str, str] = {}
    entries: dict[str, Any] = {}
    stretches: list[tuple[int, int, int]] = []  # (descriptor, first byte, byte after the last), in the pack's order
    size = 0
    with contextlib.ExitStack() as stack:
        for source in sources:
            try:
                descriptor, header = stack.enter_context(opened(source))
            except DAMAGE:
                continue
            for step, places in header.tensors.items():
                prefix = f"{step:08d}"
                if prefix in metadata or (kept is not None and step not in kept):
                    continue
                metadata[prefix] = header.texts[step]
                for name, (kind, shape, begin, end) in sorted(places.items(), key=lambda entry: entry[1][2]):
                    entries[f"{prefix}/{name}"] = {
                        "dtype": kind,
                        "shape": shape,
                        "data_offsets": [size, size + end - begin],
                    }
                    size += end - begin
                    if stretches and stretches[-1][0] == descriptor and stretches[-1][2] == begin:
                        stretches[-1] = (descriptor, stretches[-1][1], end)
                    else:
                        stretches.append((descriptor, begin, end))
        if not metadata:
            return [], 0
        said = orjson.dumps({"__metadata__": metadata, **entries})
        said += b" " * (-len(said) % 8)  # the tensors begin aligned, as the format recommends
        atomic_write(path, _pieces(len(said).to_bytes(8, "little") + said, stretches))
    return sorted(int(prefix) for prefix in metadata), 8 + len(said) + size


def _pieces(head: bytes, stretches: Iterable[tuple[int, int, int]]) -> Iterator[bytes]:
    yield head
    for descriptor, begin, end in stretches:
        while begin < end:
            piece = os.pread(descriptor, min(_CHUNK, end - begin), begin)
            if not piece:
                raise OSError(errno.EIO, "a file of frames became shorter while it was read")
            begin += len(piece)
            yield piece
