"""`txlab verify`: reference numbers, the source of each, and our own, recomputed here, beside them.

The criterion for each number is defined with the number (experiments/reference_numbers), not here; simulated numbers
show their standard errors, and any number that does not hold makes the exit status 1.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from txlab.cli import options
from txlab.cli.output import Column, print_rows, table
from txlab.cli.terminal import ascii_only, can_redraw, coloured, columns, shown
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.experiments.reference_numbers import Figure, Measured, Number

RED, GREEN, GREY = 31, 32, 90
LONG = 60  # seconds; a figure that takes longer is measured only if it or its area is asked for


def verify(
    area: Annotated[
        str | None,
        typer.Argument(
            metavar="AREA", help="rl, games, transformer, tokenizers, rlhf (half an hour); else all that is quick"
        ),
    ] = None,
    only: Annotated[str | None, typer.Option("--only", metavar="A,B", help="these figures alone, by name")] = None,
    listed: Annotated[bool, typer.Option("--list", help="say which figures there are, and compute nothing")] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="for tokenizers: a checkout of stanford-cs336/assignment1-basics"),
    ] = None,
    json: options.JsonLines = False,
    csv: options.Csv = False,
) -> None:
    """Reference numbers beside what the engine gives.

    Each is printed in a source, derived from one, computed here, or a claim.
    """
    from txlab.experiments.reference_numbers import Provenance, figures

    named = [name.strip() for name in (only or "").split(",") if name.strip()]
    chosen = figures(area, named, folder)
    if listed:
        head = [Column("figure"), Column("numbers", "right"), Column("seconds", "right"), Column("what", loose=True)]
        cells = [[each.name, str(len(each.numbers)), f"{each.seconds:.0f}", shown(each.title)] for each in chosen]
        print(table(head, cells))
        return
    waiting = [figure for figure in chosen if figure.needs]
    if waiting and (area or named):
        raise LabError(f"{waiting[0].name} needs {waiting[0].needs}")
    long = [figure for figure in chosen if figure.seconds > LONG and not (area or named)]
    chosen = [figure for figure in chosen if not figure.needs and figure not in long]
    held: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    began = time.monotonic()

    def measured() -> Iterator[tuple[Figure, list[tuple[Number, Measured]]]]:
        for place, figure in enumerate(chosen):
            left = sum(each.seconds for each in chosen[place:])
            found = figure.measure(lambda text, figure=figure, left=left: progress(figure, text, left))  # type: ignore[misc]
            progress(None, "", 0)
            pairs = list(zip(figure.numbers, found, strict=True))
            numbers.update(number.provenance for number, _ in pairs)
            held.update(number.provenance for number, found in pairs if number.holds(found))
            yield figure, pairs

    rows = (as_json(figure, *pair) for figure, pairs in measured() for pair in pairs)
    if not print_rows(rows, json, csv):
        for figure, pairs in measured():
            print_figure(figure, pairs)
        order = [name for name in get_args(Provenance) if name in numbers]
        parts = ", ".join(f"{held[name]} of {numbers[name]} {name}" for name in order)
        for figure in waiting:
            print(f"{figure.name} was left out: it needs {figure.needs}")
        for figure in long:
            print(f"{figure.name} was left out: it takes {figure.seconds / 60:.0f} minutes; --only {figure.name}")
        print(f"{held.total()} of {numbers.total()} numbers hold: {parts}; {time.monotonic() - began:.0f} s")
    raise typer.Exit(0 if held == numbers else 1)


def as_json(figure: Figure, number: Number, found: Measured) -> dict[str, object]:
    """Return a number as a row; one that is not finite is a string, as in the log of a run, since JSON has none."""
    from txlab.runs.as_json import name_of

    return {
        "figure": figure.name,
        "source": figure.source,
        "number": number.label,
        "provenance": number.provenance,
        "reference": number.value,
        "digits": number.digits,
        "cut": number.cut,
        "reference_standard_error": number.error or None,
        "reference_runs": number.runs or None,
        "measured": found.value if isfinite(found.value) else name_of(found.value),
        "standard_error": found.error or None,
        "runs": found.runs or None,
        "holds": number.holds(found),
        **({"remark": found.remark} if found.remark else {}),
    }


def print_figure(figure: Figure, rows: list[tuple[Number, Measured]]) -> None:
    """Print the title, then a line per number: its source, the reference, the measured value, whether it holds."""
    print(f"{shown(figure.title)}  {coloured(shown(figure.source), GREY)}")
    simulated = any(number.runs or found.runs for number, found in rows)
    head = [Column("  "), Column("provenance"), Column("reference", "right"), *[Column("runs", "right")] * simulated]
    head += [Column("measured", "right"), *[Column("runs", "right")] * simulated, Column("")]
    lines, paint = [], {}
    for place, (number, found) in enumerate(rows):
        holds = number.holds(found)
        verdict = ("holds" if holds else "DIFFERS") if ascii_only() else ("✓ holds" if holds else "✗ differs")
        paint[place, len(head) - 1] = GREEN if holds else RED
        reference = [with_error(number.value, number.error, number.digits), *[str(number.runs or "")] * simulated]
        more = 1 if number.cut or (found.error and not number.error) else 0
        measured = [with_error(found.value, found.error, number.digits + more), *[str(found.runs or "")] * simulated]
        if number.provenance == "claimed":  # true for so many of its seeds
            reference[0], measured[0] = (f"{count:.0f} of {number.value:.0f}" for count in (number.value, found.value))
        lines.append([f"  {shown(number.label)}", number.provenance, *reference, *measured, verdict])
    print(table(head, lines, paint), flush=True)
    for _, found in rows:
        for line in found.remark.splitlines():
            print(shown(f"  {line}"))
    if any(number.error or found.error for number, found in rows):
        print(coloured(f"  {'+-' if ascii_only() else '±'} one standard error", GREY))
    print()


def with_error(value: float, error: float, digits: int) -> str:
    """Format 12.34 ± 0.05, or only the value if it is exact; negative digits are tens, hundreds, …"""
    said = f"{value:.{digits}f}" if digits >= 0 or value != value or abs(value) == float("inf") else f"{round(value)}"
    return said + (f" {'+-' if ascii_only() else '±'} {error:.{max(digits, 0) + 1}f}" if error else "")


def progress(figure: Figure | None, text: str, left: float) -> None:
    """Overwrite one progress line on a terminal; print nothing elsewhere."""
    if not (sys.stderr.isatty() and can_redraw()):
        return
    if figure is None:
        sys.stderr.write("\r\x1b[K")
    else:
        line = shown(f"{figure.name}: {text}; about {left:.0f} s to go, all told")
        sys.stderr.write(f"\r\x1b[K{line[: columns() - 1]}")
    sys.stderr.flush()
