"""How frames lie in safetensors files: a single one, or a pack with the step before each name.

Notable: headers are parsed here, not by the library, so that one tensor of one frame is read with one pread. What a
header claims is checked against the size of the file before a byte is believed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from safetensors.numpy import save as encode_safetensors

from txlab.experiments.protocol import Frame

_HEADER_LIMIT = 100_000_000  # safetensors' own
SINGLE = re.compile(r"(\d{8,})\.safetensors")
PACK = re.compile(r"pack-(\d{8,})-(\d{8,})\.safetensors")
_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2",
}  # fmt: skip

Identity = tuple[int, int, int]  # modification time, size, inode: changes with every rewriting
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError)

Arrays = Mapping[str, np.ndarray[Any, Any]]


def single_name(step: int) -> str:
    return f"{step:08d}.safetensors"


def pack_name(first: int, last: int) -> str:
    return f"pack-{first:08d}-{last:08d}.safetensors"


@dataclass(frozen=True)
class Stored:
    """The header of one file: for each step what was said about it, and name → (type, shape, begin, end) in bytes."""

    texts: Mapping[int, str]
    tensors: Mapping[int, Mapping[str, tuple[str, tuple[int, ...], int, int]]]


def _parse_header(data: bytes, start: int, size: int, single: int | None) -> Stored:
    """Understand a safetensors header; `start` is where the tensors begin, `size` the file's. ValueError if it lies."""
    header = orjson.loads(data)
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    texts = {int(key): str(text) for key, text in header.pop("__metadata__", {}).items() if key.isdecimal()}
    tensors: dict[int, dict[str, tuple[str, tuple[int, ...], int, int]]] = {step: {} for step in texts}
    for key, entry in header.items():
        begin, end = entry["data_offsets"]
        shape = tuple(int(length) for length in entry["shape"])
        kind = str(entry["dtype"])
        if single is None:
            prefix, _, name = key.partition("/")
            step = int(prefix)
        else:
            step, name = single, key
        expected = np.dtype(_TYPES[kind]).itemsize * int(np.prod(shape, dtype=np.int64)) if kind in _TYPES else -1
        if expected != end - begin or begin < 0 or start + end > size:
            raise ValueError(f"{key} does not fit")
        tensors.setdefault(step, {})[name] = (kind, shape, start + begin, start + end)
    return Stored(texts, {step: tensors[step] for step in texts})


def read_header(descriptor: int, single: int | None) -> Stored:
    size = os.fstat(descriptor).st_size
    length = int.from_bytes(os.pread(descriptor, 8, 0), "little")
    if not 2 <= length <= min(_HEADER_LIMIT, size - 8):
        raise ValueError("the header's length is wrong")
    return _parse_header(os.pread(descriptor, length, 8), 8 + length, size, single)


def read_array(descriptor: int, place: tuple[str, tuple[int, ...], int, int]) -> np.ndarray[Any, Any]:
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
    single = SINGLE.fullmatch(path.name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return sorted(read_header(descriptor, int(single[1]) if single else None).texts)
        finally:
            os.close(descriptor)
    except DAMAGE:
        return []


def load_frames(path: Path) -> dict[int, tuple[str, dict[str, np.ndarray[Any, Any]]]]:
    """Every frame of a file: step → (what it says, arrays); empty if the file is damaged. bfloat16 becomes float32."""
    single = SINGLE.fullmatch(path.name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            header = read_header(descriptor, int(single[1]) if single else None)
            return {
                step: (header.texts[step], {name: read_array(descriptor, place) for name, place in places.items()})
                for step, places in header.tensors.items()
            }
        finally:
            os.close(descriptor)
    except DAMAGE:
        return {}


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a file with one frame."""
    return bytes(encode_safetensors(as_arrays(frame), {f"{frame.step:08d}": said_in(frame)}))


def encode_pack(frames: Mapping[int, tuple[str, Arrays]]) -> bytes:
    tensors = {f"{step:08d}/{name}": array for step, (_, arrays) in frames.items() for name, array in arrays.items()}
    return bytes(encode_safetensors(tensors, {f"{step:08d}": said for step, (said, _) in frames.items()}))
