"""Frames as the remote reader sends them: each number as one of 253 levels, as the difference to the frame before."""

from __future__ import annotations

import zlib
from math import prod
from typing import Any

import numpy as np

from txlab.experiments.protocol import Frame
from txlab.runs.remote.line import parse_json
from txlab.runs.tensor_files import SIZES, TYPES, numbers_of

APPROXIMATE = "approximate"  # a fact of a mirrored frame: the names of tensors that have only 253 levels
LEVELS = 252
# Bytes of a frame, packed or not: of levels, each of which takes eight bytes of memory here, and of exact numbers.
LARGEST, LARGEST_EXACT = 4 << 20, 32 << 20
LARGEST_HEAD = 1 << 20
Array = np.ndarray[Any, Any]


class RemoteFrames:
    """Decodes frames from the other side; keeps the levels of the frames that later ones refer to."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[str, dict[str, Array]]] = {}

    def decode(self, blob: bytes | bytearray, remember: bool = True) -> Frame:
        """Decode a frame; later ones may refer to it unless it was requested exactly. Raises KeyError if it refers to
        an unknown frame, ValueError or another of NONSENSE for anything that is not a frame."""
        inflate = zlib.decompressobj()
        try:
            data = inflate.decompress(blob, LARGEST if remember else LARGEST_EXACT)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if inflate.unconsumed_tail or not inflate.eof:
            raise ValueError("a frame is too large, or cut off")
        newline = data.find(b"\n", 0, LARGEST_HEAD)
        description, rest = parse_json(data[: max(0, newline)]), memoryview(data)[newline + 1 :]
        step, base = description["step"], description["base"]
        if type(step) is not int or not 0 <= step < 10**18:
            raise ValueError("a frame has no step")
        text_before, before = self.kept[base] if base is not None else ("", {})
        text = text_before if description["text"] is None else description["text"]
        tensors: dict[str, Array] = {}
        levels: dict[str, Array] = {}
        place = 0
        for name, kind, shape, coarse, size in description["tensors"]:
            piece = rest[place : place + size]
            place += size
            count = prod(shape)
            if type(name) is not str or len(piece) != size or any(type(n) is not int or n < 0 for n in shape):
                raise ValueError("a tensor of a frame is cut off")
            if coarse is not None and not remember:
                raise ValueError("a frame that was asked for exactly has levels")
            if coarse is None:
                if size != SIZES[kind] * count:
                    raise ValueError("a tensor of a frame has another size than its shape")
                tensors[name] = numbers_of(kind, bytes(piece)).reshape(shape)
                continue
            low, high, differs = float(coarse[0]), float(coarse[1]), coarse[2]
            if size != count or kind not in ("F16", "F32", "F64"):
                raise ValueError("a tensor of a frame has another size than its shape")
            codes = np.frombuffer(piece, np.uint8)
            if differs:
                codes = before[name] + codes  # modulo 256, as uint8 does
            levels[name] = codes
            tensors[name] = numbers(codes, low, high).astype(TYPES[kind]).reshape(shape)
        if place != len(rest):
            raise ValueError("a frame has more bytes than tensors")
        described = parse_json(text.encode())
        facts = dict(described["facts"])
        if levels:
            facts[APPROXIMATE] = sorted(levels)
        if remember:
            self.kept = dict([*self.kept.items()][-3:])
            self.kept[step] = text, levels
        tokens = {str(key): [str(each) for each in row] for key, row in described["tokens"].items()}
        texts = {str(key): str(each) for key, each in described["texts"].items()}
        return Frame(step, tensors, tokens, texts, facts)


def numbers(codes: Array, low: float, high: float) -> Array:
    """The middle of each level; 253, 254 and 255 are -inf, inf and NaN."""
    table = low + np.arange(256) * ((high - low) / LEVELS)
    table[253:] = -np.inf, np.inf, np.nan
    values: Array = table[codes]
    return values


def is_exact(frame: Frame) -> bool:
    return APPROXIMATE not in frame.facts
