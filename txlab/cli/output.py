"""How commands print an answer: tables for people, JSON and CSV for programs.

A table is written as JSON, one object per line, or as CSV, with the same keys; any other answer is one JSON object,
whose rows are the CSV. Non-finite numbers are null in JSON and empty in CSV.
"""

from __future__ import annotations

import json as json_
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txlab.cli.terminal import ascii_only, colour_text, columns, sanitize


def print_rows(rows: Iterable[Mapping[str, Any]], json: bool, csv: bool) -> bool:
    """Print rows in the requested form, JSON as soon as a row is available; False if none was requested."""
    if json:
        for row in rows:
            print_json(row)
    elif csv:
        print_csv(rows)
    return json or csv


def print_answer(answer: Mapping[str, Any], rows: str, json: bool, csv: bool) -> bool:
    """Print an answer in the requested form; False if none was. `rows`: the key of the CSV rows, "" = all."""
    if json:
        print_json(answer)
    elif csv:
        print_csv(answer[rows] if rows else [answer])
    return json or csv


def print_json(answer: Mapping[str, Any]) -> None:
    """Print one JSON object on one line, in ASCII."""
    print(json_.dumps(finite(answer), allow_nan=False), flush=True)


def print_csv(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows below a line of their keys; keys of nested tables are joined by dots, a list is JSON."""
    import csv  # here: `txlab --help` needs none

    cells = [dict(flat(finite(row))) for row in rows]
    names = list(dict.fromkeys(name for row in cells for name in row))
    lines = Lines()
    writer = csv.DictWriter(lines, names, lineterminator="\n")
    if names:
        writer.writeheader()
        writer.writerows(cells)


class Lines:
    """Lines of CSV on standard output: raw for a program, escaped for a terminal."""

    def write(self, line: str) -> None:
        sys.stdout.write(sanitize(line.removesuffix("\n")) + "\n" if sys.stdout.isatty() else line)


def flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the cells of a row.

    >>> dict(flat({"name": "a", "memory": {"float32": 4}, "sizes": [1, 2], "sound": True}))
    {'name': 'a', 'memory.float32': 4, 'sizes': '[1, 2]', 'sound': 'true'}
    """
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{key}.")
        else:
            yield before + key, json_.dumps(value) if isinstance(value, list | bool) else value


def finite(value: Any) -> Any:
    """Return a nested answer with None for NaN and ±∞.

    >>> finite({"a": [1.5, float("nan")]})
    {'a': [1.5, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(entry) for key, entry in value.items()}
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    return [finite(entry) for entry in value]


@dataclass(frozen=True)
class Column:
    """A column of a table. One column may be `loose`: it takes the remaining width and is cut if necessary."""

    title: str
    align: str = "left"
    loose: bool = False


def table(
    head: Sequence[Column], rows: Sequence[Sequence[str]], paint: dict[tuple[int, int], int] | None = None
) -> str:
    """Format aligned columns, two spaces apart. `paint` maps (row, column) to a colour; cells are already
    `sanitize`."""
    from txlab.drawing.text import fit, width

    sizes = [max([width(column.title), *(width(row[i]) for row in rows)]) for i, column in enumerate(head)]
    room = columns() - 1 - sum(sizes) - 2 * (len(head) - 1)
    for i, column in enumerate(head):
        if column.loose and sys.stdout.isatty() and room < 0:  # a file or a pipe gets the full text
            sizes[i] = max(8, sizes[i] + room)
    ellipsis = "..." if ascii_only() else "…"

    def line(cells: Sequence[str], number: int) -> str:
        parts = []
        for i, cell in enumerate(cells):
            text = fit(cell, sizes[i], head[i].align, ellipsis)
            colour = (paint or {}).get((number, i))
            parts.append(colour_text(text, colour) if colour else text)
        return "  ".join(parts).rstrip()

    return "\n".join([line([column.title for column in head], -1), *(line(row, n) for n, row in enumerate(rows))])
