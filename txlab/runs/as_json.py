"""Converts any value of a user's program to JSON or to its text: configurations, names, tags, facts, rows of the log.

No value may end a training, and none is dropped silently: values without a JSON type become their text (an integer of
more than 64 bits, bytes, a path, a torch.dtype), a set becomes a list, a dataclass a table; values that refer to
themselves, are nested too deeply or are too long are cut, and the cut is shown as "…".
"""

from __future__ import annotations

import dataclasses
import math
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from json import JSONDecodeError, loads
from types import ModuleType, SimpleNamespace
from typing import Any

import orjson

DEEPEST = 20  # levels of tables and lists; TOML is read to 32, orjson writes 254
LARGEST = 100_000  # characters of a configuration, so that scenario.toml can be read again
LONGEST = 10_000  # characters of a text in it
LARGEST_ROW = 8 << 20  # of a row of the log, or the facts of a frame
MOST_NUMBERS = 1000  # of an array or a list that is written out
MORE = "…"
_SURROGATE = re.compile("[\ud800-\udfff]")


def as_json(value: Any) -> Any:
    """The value in the types of JSON, with floats that may not be finite. Never raises, and changes no valid JSON.

    >>> as_json({"seed": 2**70, 3: {"b", "a"}, "3": (1, None)})
    {'seed': '1180591620717411303424', '3': ['a', 'b'], '3 (2)': [1, None]}
    """
    return _Plain().of(value, 0)


def table_of(value: Any) -> dict[str, Any]:
    """A configuration as a table of JSON: of a mapping, a dataclass or a Namespace its entries."""
    table = as_json({} if value is None else value)
    return table if isinstance(table, dict) else {"config": table}


def text_of(value: Any, longest: int = LONGEST, lone: str = "?") -> str:
    """The text of a value, cut at `longest` characters, with `lone` replacing what UTF-8 cannot encode (file names may
    contain it). Never raises."""
    if not isinstance(value, str):
        try:
            value = whole_text(value) if isinstance(value, int) else str(value)
        except Exception:  # a __str__ that fails, or recurses
            value = f"<{type(value).__qualname__}>"
    text = str(value) if value.isascii() else _SURROGATE.sub(lone, value)
    return text if len(text) <= longest else text[: longest - 1] + MORE


def encode_json(value: Any, option: int = 0) -> bytes:
    """The value as bytes of JSON; numbers that are not finite have their names: "NaN", "Infinity", "-Infinity", because
    orjson would silently write null. Never raises."""
    try:
        return orjson.dumps(finite(value, 6), option=option)
    except TypeError:  # no JSON type, or nested deeply: rare, so only searched for on demand
        plain = _Plain(LARGEST_ROW, LARGEST_ROW, LARGEST_ROW, "\ufffd").of(value, 0)
        return orjson.dumps(finite(plain, DEEPEST + 2), option=option)


def finite(value: Any, deepest: int) -> Any:
    """The same JSON value with floats that are not finite replaced by their names. TypeError if it is nested more
    deeply."""
    if isinstance(value, float):
        return value if math.isfinite(value) else name_of(value)
    if isinstance(value, (dict, list, tuple)) and deepest < 0:
        raise TypeError("it is nested too deeply")
    if isinstance(value, dict):
        return {key: finite(entry, deepest - 1) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(entry, deepest - 1) for entry in value]
    return value


def name_of(value: float) -> str:
    """The name of a non-finite number, as used in rows and lists."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def read_json(data: bytes | str) -> Any:
    """A JSON value of another program, with NaN, and with integers of more than 64 bits as their text. Raises
    ValueError."""
    try:
        return loads(data, parse_int=lambda digits: int(digits) if len(digits) < 19 else as_json(whole_of(digits)))
    except RecursionError:
        raise JSONDecodeError("it is nested too deeply", "", 0) from None


def whole_of(digits: str) -> int | str:
    return int(digits) if len(digits) <= 4000 else digits


def whole_text(value: int) -> str:
    """An integer in digits; one of more than Python writes in decimal, in hexadecimal."""
    try:
        return int.__repr__(value)
    except ValueError:
        return hex(value)


class _Plain:
    """Converts one value to plain types. `left` is the number of characters still available."""

    def __init__(
        self, largest: int = LARGEST, longest: int = LONGEST, most: int = MOST_NUMBERS, lone: str = "?"
    ) -> None:
        self.left, self.longest, self.most, self.lone = largest, longest, most, lone
        self.above: set[int] = set()  # ids of the values being converted, to detect cycles

    def of(self, value: Any, depth: int) -> Any:
        self.left -= 8
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int):
            return int(value) if -(2**63) <= value < 2**64 else self.text(value)
        if isinstance(value, float):
            return float(value)
        if id(value) in self.above:
            return MORE
        self.above.add(id(value))
        try:
            return self.other(value, depth)
        except Exception:  # its own methods failed
            return self.text(value)
        finally:
            self.above.discard(id(value))

    def text(self, value: Any) -> str:
        shortened = text_of(value, min(self.longest, max(100, self.left)), self.lone)
        self.left -= len(shortened)
        return shortened

    def other(self, value: Any, depth: int) -> Any:
        if isinstance(value, (Decimal, Fraction)):
            return float(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self.text(repr(bytes(value[: LONGEST // 4])) + (MORE if len(value) > LONGEST // 4 else ""))
        if isinstance(value, (type, ModuleType)) or hasattr(value, "__qualname__"):  # not by its address
            return self.text(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}".lstrip("."))
        if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy's numbers and arrays, torch's tensors
            return self.array(value, depth)
        if (entries := entries_of(value)) is not None:
            return self.table(entries, depth) if depth < DEEPEST else self.deep(value)
        if isinstance(value, Set):
            value = sorted(value, key=lambda entry: (type(entry).__name__, text_of(entry).zfill(20)))
        if isinstance(value, Sequence):
            return self.list(value, depth) if depth < DEEPEST else self.deep(value)
        return self.text(value)

    def table(self, entries: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, value in entries.items():
            if self.left <= 0:
                kept[unused_key(MORE, kept)] = f"{len(entries) - len(kept)} more"
                break
            kept[unused_key(self.text(key), kept)] = self.of(value, depth + 1)
        return kept

    def list(self, value: Sequence[Any], depth: int) -> list[Any]:
        values = []
        for place in range(len(value)):
            if self.left <= 0 or place >= self.most:
                values.append(f"{MORE} {len(value) - place} more")
                break
            values.append(self.of(value[place], depth + 1))
        return values

    def array(self, value: Any, depth: int) -> Any:
        shape = tuple(getattr(value, "shape", ()))
        if math.prod(shape) > self.most:
            return self.text(f"{type(value).__name__} of shape {shape}, {value.dtype}")
        plain = value.tolist()
        return self.text(value) if type(plain) is type(value) else self.of(plain, depth)

    def deep(self, value: Any) -> str:
        """The text of a value that is nested more deeply than tables are read; not recursive."""
        pieces: list[str] = []
        rest: list[Any] = [value]
        size, room = 0, min(self.longest, max(100, self.left))
        while rest and size < room:
            one = rest.pop()
            if isinstance(one, _Sign):
                pieces.append(one)
            elif isinstance(one, Mapping):
                inside = [part for key, entry in one.items() for part in (_Sign(", "), _Sign(f"{key!r}: "), entry)][1:]
                rest += [_Sign("}"), *reversed(inside), _Sign("{")]
                continue
            elif isinstance(one, (list, tuple)):
                inside = [part for entry in one for part in (_Sign(", "), entry)][1:]
                rest += [_Sign("]"), *reversed(inside), _Sign("[")]
                continue
            else:
                pieces.append(repr(one) if isinstance(one, str) else text_of(one))
            size += len(pieces[-1])
        return self.text("".join(pieces) + (MORE if rest else ""))


class _Sign(str):
    """A bracket or a comma of the text that `deep` makes."""


def entries_of(value: Any) -> Mapping[Any, Any] | None:
    """The entries of a table-like value; None for any other."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if isinstance(value, (Namespace, SimpleNamespace)):
        return vars(value)
    for way in ("_asdict", "model_dump"):  # a namedtuple, a model of pydantic
        if callable(make := getattr(value, way, None)):
            made = make()
            return made if isinstance(made, Mapping) else None
    return None


def unused_key(key: str, taken: Mapping[str, Any]) -> str:
    """The key, with a number appended if it is taken: 3 and "3" are two keys, and "a.b" may be one or two.

    >>> unused_key("a", {}), unused_key("a", {"a": 1, "a (2)": 2})
    ('a', 'a (3)')
    """
    if key not in taken:
        return key
    number = 2
    while f"{key} ({number})" in taken:
        number += 1
    return f"{key} ({number})"
