"""The wire format of protocol buffers, as far as event files and W&B's files need it.

Source: https://protobuf.dev/programming-guides/encoding. Everything is checked against the end of the message, and a
message that does not fit raises ValueError; the caller decides how deeply nested messages are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Value = int | bytes


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The integer at `at` and the offset after it. Raises ValueError."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise ValueError("a number does not end")


def fields(data: bytes, at: int = 0, end: int | None = None) -> Iterator[tuple[int, int, Value]]:
    """Yield (number, wire type, value) of a message: integers unchanged, everything else as its bytes.

    >>> list(fields(bytes([0x08, 0x96, 0x01, 0x12, 0x02, 0x68, 0x69])))
    [(1, 0, 150), (2, 2, b'hi')]
    """
    end = len(data) if end is None else end
    while at < end:
        key, at = varint(data, at, end)
        kind = key & 7
        if kind == VARINT:
            value, at = varint(data, at, end)
            yield key >> 3, kind, value
            continue
        if kind == BYTES:
            length, at = varint(data, at, end)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if length > end - at:
            raise ValueError("a field is longer than its message")
        yield key >> 3, kind, data[at : at + length]
        at += length


def message(data: bytes) -> dict[int, Value]:
    """The last value of each field of a message. Raises ValueError."""
    return {number: value for number, _, value in fields(data)}


def of(entries: dict[int, Value], number: int) -> bytes:
    """A field of bytes, b"" if it is absent or something else."""
    value = entries.get(number)
    return value if isinstance(value, bytes) else b""


def text(entries: dict[int, Value], number: int) -> str:
    return of(entries, number).decode("utf-8", "replace")


def number(entries: dict[int, Value], field: int) -> int:
    """A signed integer, 0 if it is absent."""
    value = entries.get(field)
    return to_signed(value) if isinstance(value, int) else 0


def to_signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def double(value: Value) -> float:
    """A field of eight bytes as a number. Raises ValueError."""
    if not isinstance(value, bytes) or len(value) != 8:
        raise ValueError("no double")
    return float(struct.unpack("<d", value)[0])
