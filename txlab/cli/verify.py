"""`txlab verify`: reference numbers with their sources, next to our own, recomputed here.

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
from txlab.cli.terminal import ascii_only, can_redraw, colour_text, columns, sanitize
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.experiments.reference_numbers import Figure, Measured, Number

RED, GREEN, GREY = 31, 32, 90
LONG = 60  # seconds; a figure that takes longer is measured only if it or its area is requested


def verify(
    area: Annotated[
        str | None,
        typer.Argument(
            metavar="AREA", help="rl, games, transformer, tokenizers, rlhf (half an hour); else all that is quick"
        ),
    ] = None,
    only: Annotated[str | None, typer.Option("--only", metavar="A,B", help="only these figures, by name")] = None,
    listed: Annotated[bool, typer.Option("--list", help="list the figures without computing them")] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="for tokenizers: a checkout of stanford-cs336/assignment1-basics"),
    ] = None,
    json: options.JsonLines = False,
    csv: options.Csv = False,
) -> None:
    """Compare reference numbers with the engine's.

    Each is printed in a source, derived from one, computed here, or a claim.
    """
    from txlab.experiments.reference_numbers import Provenance, figures

    named = [name.strip() for name in (only or "").split(",") if name.strip()]
    chosen = figures(area, named, folder)
    if listed:
        head = [Column("figure"), Column("numbers", "right"), Column("seconds", "right"), Column("what", loose=True)]
        cells = [[each.name, str(len(each.numbers)), f"{each.seconds:.0f}", sanitize(each.title)] for each in chosen]
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

    def measure_all() -> Iterator[tuple[Figure, list[tuple[Number, Measured]]]]:
        for place, figure in enumerate(chosen):
            left = sum(each.seconds for each in chosen[place:])
            results = figure.measure(lambda text, figure=figure, left=left: progress(figure, text, left))  # type: ignore[misc]
            progress(None, "", 0)
            pairs = list(zip(figure.numbers, results, strict=True))
            numbers.update(number.provenance for number, _ in pairs)
            held.update(number.provenance for number, results in pairs if number.holds(results))
            yield figure, pairs

    rows = (as_json(figure, *pair) for figure, pairs in measure_all() for pair in pairs)
    if not print_rows(rows, json, csv):
        for figure, pairs in measure_all():
            print_figure(figure, pairs)
        order = [name for name in get_args(Provenance) if name in numbers]
        parts = ", ".join(f"{held[name]} of {numbers[name]} {name}" for name in order)
        for figure in waiting:
            print(f"{figure.name} was left out: it needs {figure.needs}")
        for figure in long:
            print(f"{figure.name} was left out: it takes {figure.seconds / 60:.0f} minutes; --only {figure.name}")
        print(f"{held.total()} of {numbers.total()} numbers hold: {parts}; {time.monotonic() - began:.0f} s")
    raise typer.Exit(0 if held == numbers else 1)


def as_json(figure: Figure, number: Number, result: Measured) -> dict[str, object]:
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
        "measured": result.value if isfinite(result.value) else name_of(result.value),
        "standard_error": result.error or None,
        "runs": result.runs or None,
        "holds": number.holds(result),
        **({"remark": result.remark} if result.remark else {}),
    }


def print_figure(figure: Figure, rows: list[tuple[Number, Measured]]) -> None:
    """Print the title, then a line per number: its source, the reference, the measured value, whether it holds."""
    print(f"{sanitize(figure.title)}  {colour_text(sanitize(figure.source), GREY)}")
    simulated = any(number.runs or result.runs for number, result in rows)
    head = [Column("  "), Column("provenance"), Column("reference", "right"), *[Column("runs", "right")] * simulated]
    head += [Column("measured", "right"), *[Column("runs", "right")] * simulated, Column("")]
    lines, paint = [], {}
    for place, (number, result) in enumerate(rows):
        holds = number.holds(result)
        verdict = ("holds" if holds else "DIFFERS") if ascii_only() else ("✓ holds" if holds else "✗ differs")
        paint[place, len(head) - 1] = GREEN if holds else RED
        reference = [with_error(number.value, number.error, number.digits), *[str(number.runs or "")] * simulated]
        more = 1 if number.cut or (result.error and not number.error) else 0
        measured = [with_error(result.value, result.error, number.digits + more), *[str(result.runs or "")] * simulated]
        if number.provenance == "claimed":  # the number of seeds for which it is true
            reference[0], measured[0] = (f"{count:.0f} of {number.value:.0f}" for count in (number.value, result.value))
        lines.append([f"  {sanitize(number.label)}", number.provenance, *reference, *measured, verdict])
    print(table(head, lines, paint), flush=True)
    for _, result in rows:
        for line in result.remark.splitlines():
            print(sanitize(f"  {line}"))
    if any(number.error or result.error for number, result in rows):
        print(colour_text(f"  {'+-' if ascii_only() else '±'} one standard error", GREY))
    print()


def with_error(value: float, error: float, digits: int) -> str:
    """Format 12.34 ± 0.05, or only the value if it is exact; negative digits are tens, hundreds, …"""
    text = f"{value:.{digits}f}" if digits >= 0 or value != value or abs(value) == float("inf") else f"{round(value)}"
    return text + (f" {'+-' if ascii_only() else '±'} {error:.{max(digits, 0) + 1}f}" if error else "")


def progress(figure: Figure | None, text: str, left: float) -> None:
    """Overwrite one progress line on a terminal; print nothing elsewhere."""
    if not (sys.stderr.isatty() and can_redraw()):
        return
    if figure is None:
        sys.stderr.write("\r\x1b[K")
    else:
        line = sanitize(f"{figure.name}: {text}; about {left:.0f} s left in total")
        sys.stderr.write(f"\r\x1b[K{line[: columns() - 1]}")
    sys.stderr.flush()
