"""Tensors in the safetensors format, written to and read from descriptors: checkpoints, and frames, each in a single
file or many in a pack, where each name is prefixed by its step.

Notable: the safetensors library takes a path, which may lead out of a run's directory. Here the header is checked
against the size of the file before any tensor is trusted, and one tensor of one frame is read with one pread. Format: 8
bytes with the length of the header (little endian), the header (JSON: name → dtype, shape, data_offsets), the tensors
one after another (github.com/huggingface/safetensors, README).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import zlib
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import orjson

from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.files import OpenFolder, closing, write_whole
from txlab.runs.as_json import encode_json

if TYPE_CHECKING:
    import torch

    Named: TypeAlias = Mapping[str, "torch.Tensor | np.ndarray[Any, Any]"]

LARGEST_HEADER = 16 << 20  # parsing may take 25 times as much memory; our headers have some 100 bytes per tensor
TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2", "C64": "<c8",
}  # fmt: skip
SIZES = {name: np.dtype(code).itemsize for name, code in TYPES.items()} | {"F8_E4M3": 1, "F8_E5M2": 1}
NAMES = {np.dtype(code): name for name, code in TYPES.items() if name != "BF16"}
OF_TORCH = {name: np.dtype(code).name for name, code in TYPES.items()}
OF_TORCH |= {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
NAMES_OF_TORCH = {f"torch.{theirs}": name for name, theirs in OF_TORCH.items()}

TensorPlace = tuple[str, list[int], int, int]  # type, shape, first byte in the file, byte after the last

LARGEST_FRAME = 256 << 20  # bytes of its tensors
MOST_FRAMES = 1024  # in one file; ours have 64
STEP = re.compile(r"[0-9]{8,18}")
SINGLE = re.compile(r"([0-9]{8,18})\.safetensors")
PACK = re.compile(r"pack-([0-9]{8,18})-([0-9]{8,18})\.safetensors")
ASIDE = re.compile(r"\.(pack-[0-9]{8,18}-)?[0-9]{8,18}\.safetensors\.[0-9]+\.[0-9]+")  # left half-written by a kill
Identity = tuple[int, int, int]  # modification time, size, inode: changes whenever the file is rewritten
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError)


def encode_header(entries: Mapping[str, Any]) -> bytes:
    """Encode the header of a file, padded so that the tensors are aligned, as the format recommends."""
    header = orjson.dumps(entries)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def lay_out(tensors: Named, entries: dict[str, Any]) -> tuple[bytes, list[memoryview], int]:
    """(header of a file of these tensors, after other `entries`; their bytes in its order; the number of those bytes).

    The widest types come first, so that each is aligned. TypeError or KeyError for a tensor that cannot be stored.
    """
    flat = {name: _bytes_of(tensor) for name, tensor in tensors.items()}
    order = sorted(flat, key=lambda name: (-SIZES[flat[name][0]], name))
    size = 0
    for name in order:
        kind, shape, data = flat[name]
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [size, size + data.nbytes]}
        size += data.nbytes
    return encode_header(entries), [flat[name][2].data for name in order], size


def _bytes_of(tensor: Any) -> tuple[str, tuple[int, ...], np.ndarray[Any, Any]]:
    """(type, shape, bytes) of a tensor on the CPU."""
    if isinstance(tensor, np.ndarray):
        little = np.asarray(tensor, tensor.dtype.newbyteorder("<"), order="C")
        return NAMES[little.dtype], tensor.shape, little.reshape(-1).view(np.uint8)
    import torch

    kind = NAMES_OF_TORCH.get(str(tensor.dtype))
    if kind is None:
        raise TypeError(f"a tensor of type {tensor.dtype} cannot be stored")
    return kind, tuple(tensor.shape), tensor.contiguous().reshape(-1).view(torch.uint8).numpy()


def read_places(descriptor: int) -> tuple[dict[str, str], dict[str, TensorPlace], int]:
    """Read the header: (metadata, the place of each tensor, bytes of the header).

    Raises ValueError, KeyError, TypeError or AttributeError for an invalid header.
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
    places: dict[str, TensorPlace] = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        shape, kind = entry["shape"], entry["dtype"]
        if SIZES[kind] * prod(shape) != end - begin or begin < 0 or start + end > size:
            raise ValueError(f"{name} does not fit")
        if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)):
            raise ValueError(f"{name} has no such shape")
        places[name] = (kind, shape, start + begin, start + end)
    behind = start
    for name, (_, _, begin, end) in sorted(places.items(), key=lambda entry: entry[1][2:]):
        if begin < behind and end > begin:  # many names for one stretch would multiply the file where it is copied
            raise ValueError(f"{name} overlaps the tensor before it")
        behind = max(behind, end)
    return metadata, places, length


def save_tensors(folder: OpenFolder, name: str, tensors: Named) -> tuple[int, int]:
    """Write a new file, wait until it is on disk, and return (size, crc32). Raises OSError."""
    head, pieces, size = lay_out(tensors, {})
    if len(head) > LARGEST_HEADER:
        raise ValueError(f"{len(tensors)} tensors are too many for one file")
    checksum = 0
    with closing(folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)) as descriptor:
        for piece in (memoryview(head), *pieces):
            checksum = zlib.crc32(piece, checksum)
            write_whole(descriptor, piece)
        os.fsync(descriptor)
    return len(head) + size, checksum


def load_tensors(descriptor: int, checksum: int | None, as_torch: bool) -> dict[str, Any]:
    """Read all tensors of a file in one pass. ValueError, KeyError or TypeError if it is damaged or inconsistent.

    checksum  the expected crc32 of the file; None = any
    """
    _, places, _ = read_places(descriptor)
    size = os.fstat(descriptor).st_size
    import psutil

    if size > psutil.virtual_memory().available:
        raise ValueError(f"it has {size >> 20} MiB, which is more than the available memory")
    loaded: dict[str, Any] = {}
    order = sorted(places, key=lambda name: places[name][2:])
    with os.fdopen(os.dup(descriptor), "rb", buffering=0) as file:
        file.seek(0)
        behind = min([size, *(places[name][2] for name in order)])
        crc = zlib.crc32(file.read(behind))
        for name in order:
            kind, shape, begin, end = places[name]
            if begin != behind:
                raise ValueError(f"{name} does not begin where the one before it ends")
            if as_torch:
                import torch

                tensor = torch.empty(shape, dtype=getattr(torch, OF_TORCH[kind]))  # aligned as torch's kernels require
                loaded[name], data = tensor, tensor.reshape(-1).view(torch.uint8).numpy()
            else:
                data = np.empty(end - begin, np.uint8)
                loaded[name] = data.view(TYPES[kind]).reshape(shape)
            rest = data.data
            while rest:
                taken = file.readinto(rest)
                if not taken:
                    raise ValueError("it shrank while being read")
                rest = rest[taken:]
            crc = zlib.crc32(data.data, crc)
            behind = end
    if behind != size:
        raise ValueError("there is extra data after the last tensor")
    if checksum not in (None, crc):
        raise ValueError("the checksum is wrong")
    return loaded


# Frames


def single_name(step: int) -> str:
    return f"{step:08d}.safetensors"


def pack_name(first: int, last: int) -> str:
    return f"pack-{first:08d}-{last:08d}.safetensors"


@dataclass(frozen=True)
class Stored:
    """The header of one file: for each step its texts as JSON and its tensors, name → place; and the header's size."""

    texts: Mapping[int, str]
    tensors: Mapping[int, Mapping[str, TensorPlace]]
    size: int


def read_header(descriptor: int, single: int | None) -> Stored:
    """Read the header of a file of frames. Raises the exceptions in DAMAGE."""
    metadata, places, size = read_places(descriptor)
    if len(metadata) > MOST_FRAMES:
        raise ValueError(f"it claims to hold {len(metadata)} frames")
    texts = {int(key): str(text) for key, text in metadata.items() if STEP.fullmatch(key)}
    tensors: dict[int, dict[str, TensorPlace]] = {step: {} for step in texts}
    for key, place in places.items():
        if single is None:
            prefix, _, name = key.partition("/")
            step = int(prefix)
        else:
            step, name = single, key
        tensors.setdefault(step, {})[name] = place
    return Stored(texts, {step: tensors[step] for step in texts}, size)


def read_arrays(descriptor: int, places: Mapping[str, TensorPlace]) -> dict[str, np.ndarray[Any, Any]]:
    """Read tensors as NumPy arrays."""
    if sum(end - begin for _, _, begin, end in places.values()) > LARGEST_FRAME:
        raise ValueError(f"the tensors of a frame have more than {LARGEST_FRAME >> 20} MiB")
    arrays = {}
    for name, (kind, shape, begin, end) in places.items():
        arrays[name] = numbers_of(kind, os.pread(descriptor, end - begin, begin)).reshape(shape)
    return arrays


def numbers_of(kind: str, data: bytes) -> np.ndarray[Any, Any]:
    """The bytes of a tensor as numbers; bfloat16, which NumPy lacks, is widened to float32 without loss."""
    flat = np.frombuffer(data, TYPES[kind])
    return (flat.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else flat


def steps_in(folder: OpenFolder, name: str) -> list[int]:
    """The steps of the frames in a file, from its header alone; none if it is damaged."""
    try:
        with open_frames(folder, name) as (_, header):
            return sorted(header.texts)
    except DAMAGE:
        return []


@contextlib.contextmanager
def open_frames(
    folder: OpenFolder, name: str, known: OrderedDict[tuple[str, Identity], Stored] | None = None
) -> Iterator[tuple[int, Stored]]:
    """The descriptor and the header of a file of frames; the header is looked up in `known`, and added to it.

    Raises the exceptions in DAMAGE.
    """
    with closing(folder.open(name)) as descriptor:
        about = os.fstat(descriptor)
        key = (name, (about.st_mtime_ns, about.st_size, about.st_ino))
        header = known.get(key) if known is not None else None
        if header is None:
            single = SINGLE.fullmatch(name)
            header = read_header(descriptor, int(single[1]) if single else None)
        if known is not None:
            known[key] = header
            known.move_to_end(key)
        yield descriptor, header


def encode_frame(frame: Frame) -> bytes:
    """Encode one frame as the bytes of a file. LabError if readers would not accept it.

    Tensors are fetched from their devices, bfloat16 as float32; the rest of a frame goes into the file's metadata.
    """
    arrays = {}
    for name, tensor in frame.tensors.items():
        if not isinstance(tensor, np.ndarray) and hasattr(tensor, "detach"):
            tensor = tensor.detach().cpu()
            tensor = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
        arrays[name] = array = np.asarray(tensor)
        if array.dtype.newbyteorder("<") not in NAMES:
            raise LabError(f"the tensor {name} of a frame is of {array.dtype}; allowed: {', '.join(map(str, NAMES))}")
    header = {
        "tokens": {name: [_valid(label) for label in labels] for name, labels in frame.tokens.items()},
        "texts": {name: _valid(text) for name, text in frame.texts.items()},
        "facts": dict(frame.facts),
    }
    try:
        text = orjson.dumps(header, default=str, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # an integer of more than 64 bits, what refers to itself
        text = encode_json(header).decode()
    head, pieces, size = lay_out(arrays, {"__metadata__": {f"{frame.step:08d}": text}})
    for has, most, what in ((size, LARGEST_FRAME, "tensors"), (len(head), LARGEST_HEADER, "texts and facts")):
        if has > most:
            raise LabError(f"the {what} of a frame have at most {most >> 20} MiB, not {has >> 20} MiB")
    return b"".join([head, *pieces])


def _valid(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class TooMuch(Exception):
    """The texts of the frames do not fit into the header of one pack."""


def write_pack(
    folder: OpenFolder, pack: str, sources: Iterable[str], kept: Container[int] | None = None
) -> tuple[list[int], int]:
    """Pack the frames of several files (all, or the steps kept) atomically into one; returns (their steps, its size).

    Tensors are copied as bytes, a stretch at a time, never decoded; a damaged source is skipped. No pack is written if
    there are no frames. Raises TooMuch.
    """
    metadata: dict[str, str] = {}
    entries: dict[str, Any] = {}
    stretches: list[tuple[int, int, int]] = []  # (descriptor, first byte, byte after the last), in the pack's order
    size = 0
    with contextlib.ExitStack() as stack:
        for source in sources:
            try:
                descriptor, header = stack.enter_context(open_frames(folder, source))
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
            piece = os.pread(descriptor, min(1 << 22, end - begin), begin)
            if not piece:
                raise OSError(errno.EIO, "a file of frames became shorter while it was read")
            begin += len(piece)
            yield piece
