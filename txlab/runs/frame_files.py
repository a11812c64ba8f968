"""How frames lie in safetensors files: a single one, or a pack with the step before each name.

Notable: headers are parsed by us, not by the library, so that one tensor of one frame is read with one pread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.folder import Folder
from txlab.runs.tensor_files import LARGEST_HEADER, NAMES, TYPES, Place, encode_header, read_places

_CHUNK = 1 << 22
LARGEST_FRAME = 256 << 20  # bytes of the tensors that are read of a frame
MOST_FRAMES = 1024  # in one file; ours have 64
STEP = re.compile(r"[0-9]{8,18}")
SINGLE = re.compile(r"([0-9]{8,18})\.safetensors")
PACK = re.compile(r"pack-([0-9]{8,18})-([0-9]{8,18})\.safetensors")
ASIDE = re.compile(r"\.(pack-[0-9]{8,18}-)?[0-9]{8,18}\.safetensors\.[0-9]+\.[0-9]+")  # what a kill left half-written
Identity = tuple[int, int, int]  # modification time, size, inode: changes with every rewriting
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError)


def single_name(step: int) -> str:
    return f"{step:08d}.safetensors"


def pack_name(first: int, last: int) -> str:
    return f"pack-{first:08d}-{last:08d}.safetensors"


@dataclass(frozen=True)
class Stored:
    """The header of one file: for each step what was said about it and its tensors, name → place; its bytes."""

    texts: Mapping[int, str]
    tensors: Mapping[int, Mapping[str, Place]]
    size: int


def read_header(descriptor: int, single: int | None) -> Stored:
    """Raises what DAMAGE names."""
    metadata, places, size = read_places(descriptor)
    if len(metadata) > MOST_FRAMES:
        raise ValueError(f"it claims to hold {len(metadata)} frames")
    texts = {int(key): str(text) for key, text in metadata.items() if STEP.fullmatch(key)}
    tensors: dict[int, dict[str, Place]] = {step: {} for step in texts}
    for key, place in places.items():
        if single is None:
            prefix, _, name = key.partition("/")
            step = int(prefix)
        else:
            step, name = single, key
        tensors.setdefault(step, {})[name] = place
    return Stored(texts, {step: tensors[step] for step in texts}, size)


def read_arrays(descriptor: int, places: Mapping[str, Place]) -> dict[str, np.ndarray[Any, Any]]:
    """Tensors as NumPy arrays; bfloat16 (which NumPy lacks) widened to float32, without loss."""
    if sum(end - begin for _, _, begin, end in places.values()) > LARGEST_FRAME:
        raise ValueError(f"the tensors of a frame have more than {LARGEST_FRAME >> 20} MiB")
    arrays = {}
    for name, (kind, shape, begin, end) in places.items():
        flat = np.frombuffer(os.pread(descriptor, end - begin, begin), dtype=TYPES[kind])
        if kind == "BF16":
            flat = (flat.astype(np.uint32) << 16).view(np.float32)
        arrays[name] = flat.reshape(shape)
    return arrays


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


def steps_in(folder: Folder, name: str) -> list[int]:
    """The steps of the frames in a file, from its header alone; none if it is damaged."""
    try:
        with opened(folder, name) as (_, header):
            return sorted(header.texts)
    except DAMAGE:
        return []


@contextlib.contextmanager
def opened(folder: Folder, name: str) -> Iterator[tuple[int, Stored]]:
    """The descriptor and the header of a file of frames; raises what DAMAGE names."""
    single = SINGLE.fullmatch(name)
    descriptor = folder.open(name)
    try:
        yield descriptor, read_header(descriptor, int(single[1]) if single else None)
    finally:
        os.close(descriptor)


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a file with one frame. LabError for one that no reader would take."""
    entries: dict[str, Any] = {"__metadata__": {f"{frame.step:08d}": said_in(frame)}}
    pieces: list[Any] = []
    size = 0
    # The widest numbers first, so that each tensor is aligned, as the format recommends.
    for name, array in sorted(as_arrays(frame).items(), key=lambda entry: (-entry[1].itemsize, entry[0])):
        kind = NAMES.get(array.dtype.newbyteorder("<"))
        if kind is None:
            raise LabError(f"the tensor {name} of a frame is of {array.dtype}; allowed: {', '.join(map(str, NAMES))}")
        begin, size = size, size + array.nbytes
        entries[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [begin, size]}
        pieces.append(np.asarray(array, array.dtype.newbyteorder("<")).data.cast("B") if array.nbytes else b"")
    head = encode_header(entries)
    for has, most, what in ((size, LARGEST_FRAME, "tensors"), (len(head), LARGEST_HEADER, "texts and facts")):
        if has > most:
            raise LabError(f"the {what} of a frame have at most {most >> 20} MiB, not {has >> 20} MiB")
    return b"".join([head, *pieces])


class TooMuch(Exception):
    """What the frames say would not fit into the header of one pack."""


def write_pack(
    folder: Folder, pack: str, sources: Iterable[str], kept: Container[int] | None = None
) -> tuple[list[int], int]:
    """Put the frames of several files (all, or the steps kept) into one pack, atomically: (their steps, its bytes).

    Tensors are copied as bytes, a stretch at a time, never decoded; a source that is damaged gives nothing. No pack is
    written when there is no frame for it. Raises TooMuch.
    """
    metadata: dict[str, str] = {}
    entries: dict[str, Any] = {}
    stretches: list[tuple[int, int, int]] = []  # (descriptor, first byte, byte after the last), in the pack's order
    size = 0
    with contextlib.ExitStack() as stack:
        for source in sources:
            try:
                descriptor, header = stack.enter_context(opened(folder, source))
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
        head = encode_header({"__metadata__": metadata, **entries})
        if len(head) > LARGEST_HEADER:
            raise TooMuch
        folder.write(pack, _pieces(head, stretches))
    return sorted(int(prefix) for prefix in metadata), len(head) + size


def _pieces(head: bytes, stretches: Iterable[tuple[int, int, int]]) -> Iterator[bytes]:
    yield head
    for descriptor, begin, end in stretches:
        while begin < end:
            piece = os.pread(descriptor, min(_CHUNK, end - begin), begin)
            if not piece:
                raise OSError(errno.EIO, "a file of frames became shorter while it was read")
            begin += len(piece)
            yield piece
