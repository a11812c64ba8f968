"""Instruction records in the form of Stanford's Alpaca, read from a file (MATH H7).

    [{"instruction": "…", "input": "…", "output": "…"}, …]        one JSON list, or one object a line

A record becomes a prompt that ends where the answer begins:

    ### Instruction:
    …
    ### Input:           (left out if it is empty)
    …
    ### Response:

and its output is a demonstration. Alpaca's own prompt begins with a sentence about the task, which a small context has
no room for; it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from txlab.errors import LabError
from txlab.files import expand_path, read_regular

LARGEST_FILE = 256 << 20  # bytes; Alpaca's own 52 000 records have 23 MB
LONGEST_TEXT = 20_000  # characters of a field


@dataclass(frozen=True)
class Instruction:
    instruction: str
    input: str
    output: str


def prompt_of(record: Instruction) -> str:
    """
    >>> prompt_of(Instruction("Reverse it.", "abc", "cba"))
    '### Instruction:\\nReverse it.\\n### Input:\\nabc\\n### Response:\\n'
    """
    given = f"### Input:\n{record.input}\n" if record.input else ""
    return f"### Instruction:\n{record.instruction}\n{given}### Response:\n"


def read_instructions(path: Path) -> list[Instruction]:
    """LabError, one sentence with file and record, if anything in it is not a record, or there is none."""
    try:
        data = read_regular(expand_path(path), LARGEST_FILE)
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None
    instructions = []
    for where, row in rows_of(data, path):
        try:
            instructions.append(record_of(row))
        except LabError as error:
            raise LabError(f"{path}, {where}: {error}") from None
    if not instructions:
        raise LabError(f"{path} has no instruction records")
    return instructions


def rows_of(data: bytes, path: Path) -> Iterator[tuple[str, Any]]:
    """("record 3" or "line 3", value) of each record."""
    if data.lstrip().startswith(b"["):
        try:
            rows = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise LabError(f"{path} is not valid JSON: {error}") from None
        for number, row in enumerate(rows, 1):
            yield f"record {number}", row
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise LabError(f"{path}, line {number} is not valid JSON: {error}") from None


def record_of(row: Any) -> Instruction:
    """LabError if it is not an object with instruction and output."""
    if not isinstance(row, dict):
        raise LabError(f"{type(row).__name__} instead of an object with instruction, input and output")
    fields = {"instruction": row.get("instruction"), "input": row.get("input", ""), "output": row.get("output")}
    for name, value in fields.items():
        if not isinstance(value, str):
            raise LabError(f"{name} is {'missing' if name not in row else 'not a string'}")
        if len(value) > LONGEST_TEXT:
            raise LabError(f"{name} has {len(value)} characters; at most {LONGEST_TEXT} are possible")
    if not fields["instruction"] or not fields["output"]:
        raise LabError("instruction and output must not be empty")
    return Instruction(**fields)
