"""Reading JSON and bytes from untrusted files: bounded, strict, one sentence for each fault.

Notable: Python's JSON accepts NaN, and the last of two equal keys; both are refused here. The size is limited before
anything is parsed, and so is the number of values, since a list of empty lists takes twenty times its text in memory.
"""

import errno
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from txlab.errors import LabError
from txlab.files import read_regular

# Gemma 3's tokenizer.json, one of the largest, has 33 MB, 1.9 million values and 0.3 million keys.
LARGEST_FILE = 64 << 20
MOST_VALUES = 2_500_000
MOST_KEYS = 1_000_000  # a key takes twice as long as a value, and more memory


def read_bytes(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """The bytes of a regular file; raises LabError, without the file's name, for anything else."""
    try:
        return read_regular(path, largest)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise LabError(str(error.strerror)) from None
        if error.errno in (errno.EINVAL, errno.EISDIR):
            raise LabError("it is not a regular file") from None
        raise LabError(f"it cannot be read: {error.strerror or error}") from None
    except ValueError:  # a null byte in the name
        raise LabError("it cannot be read: it is not a valid file name") from None


def read_json(path: Path, largest: int = LARGEST_FILE, most: int = MOST_VALUES) -> Any:
    """The value in a JSON file; raises LabError, without the file's name, if it is not JSON or too large."""
    return parse_json(read_bytes(path, largest), most)


def parse_json(data: bytes, most: int = MOST_VALUES) -> Any:
    """The value of JSON text; raises LabError if it is not JSON or has more than `most` values."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") > most:
        raise LabError(f"it has more than {most:,} values")
    if data.count(b":") > MOST_KEYS:
        raise LabError(f"it has more than {MOST_KEYS:,} keys")
    try:
        return json.loads(data.decode(), object_pairs_hook=without_twice, parse_constant=no_number)
    except UnicodeDecodeError as error:
        raise LabError(f"it is not JSON: byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise LabError("it is not JSON that can be read: it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise LabError(f"it is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:  # a number of thousands of digits
        raise LabError(f"it is not JSON that can be read: {str(error).split(';')[0]}") from None


def without_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise LabError(f"the key {format_value(twice)} occurs twice in one object")
    return content


def no_number(name: str) -> NoReturn:
    raise LabError(f"{name} is not a JSON number")


def format_value(value: object) -> str:
    """A value as it appears in a message, shortened to fit a line."""
    try:
        text = repr(value[:60] if isinstance(value, str) else value)
    except RecursionError:
        return "something nested deeply"
    return text if len(text) <= 60 else text[:57] + "…"


def write_aside(path: Path, data: bytes) -> None:
    """Write to a temporary file and rename it, so that the file is complete or absent."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(aside).chmod(0o644)
        Path(aside).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(aside).unlink()
        raise


def mapping(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise LabError(f"{name} must be an object, not {format_value(value)}")
    return value


def require_list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise LabError(f"{name} must be a list, not {format_value(value)}")
    return value


def text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise LabError(f"{name} must be text, not {format_value(value)}")
    return value


def whole_number(value: object, name: str) -> int:
    if type(value) is not int:
        raise LabError(f"{name} must be a whole number, not {format_value(value)}")
    return value
