"""`txlab verify`: published numbers beside ours, computed again here.

Notable: what a number is held against is written with the number (experiments/published), not here; simulated ones
show their standard error, and one that does not hold makes the exit status 1.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from txlab.experiments.published.figure import Figure, Measured, Number

RED, GREEN, GREY = 31, 32, 90


def verify(
    area: Annotated[str | None, typer.Argument(metavar="AREA", help="rl (decisions and tic-tac-toe); else all")] = None,
    only: Annotated[str | None, typer.Option("--only", metavar="A,B", help="these figures alone, by name")] = None,
    listed: Annotated[bool, typer.Option("--list", help="say which figures there are, and compute nothing")] = False,
    json: Annotated[bool, typer.Option("--json", help="one JSON object a number")] = False,
) -> None:
    """Published numbers beside ours."""
    from txlab.experiments.published.catalogue import figures
    from txlab.runs.events import encode_row

    chosen = figures(area, [name.strip() for name in (only or "").split(",") if name.strip()])
    if listed:
        print_list(chosen)
        return
    held = numbers = 0
    began = time.monotonic()
    for place, figure in enumerate(chosen):
        left = sum(each.seconds for each in chosen[place:])
        measured = figure.measure(lambda text, figure=figure, left=left: progress(figure, text, left))  # type: ignore[misc]
        progress(None, "", 0)
        rows = list(zip(figure.numbers, measured, strict=True))
        held += sum(number.holds(found) for number, found in rows)
        numbers += len(rows)
        if json:
            for number, found in rows:
                print(encode_row(as_json(figure, number, found)).decode(), end="", flush=True)
        else:
            print_figure(figure, rows)
    if not json:
        print(f"{held} of {numbers} numbers hold; {time.monotonic() - began:.0f} s")
    raise typer.Exit(0 if held == numbers else 1)


def as_json(figure: Figure, number: Number, found: Measured) -> dict[str, object]:
    """A number as one object; one that is not finite is named, as in the log of a run, for JSON has none."""
    return {
        "figure": figure.name,
        "source": figure.source,
        "number": number.label,
        "published": number.value,
        "digits": number.digits,
        "measured": found.value,
        "standard_error": found.error or None,
        "runs": found.runs or None,
        "holds": number.holds(found),
    }


def print_list(chosen: list[Figure]) -> None:
    from txlab.cli.terminal import Column, shown, table

    head = [Column("figure"), Column("numbers", "right"), Column("seconds", "right"), Column("what", loose=True)]
    rows = [[each.name, str(len(each.numbers)), f"{each.seconds:.0f}", shown(each.title)] for each in chosen]
    print(table(head, rows))


def print_figure(figure: Figure, rows: list[tuple[Number, Measured]]) -> None:
    """Its title, then a line a number: published, measured, the standard error, whether it holds."""
    from txlab.cli.terminal import Column, ascii_only, coloured, shown, table

    print(f"{shown(figure.title)}  {coloured(shown(figure.source), GREY)}")
    plain = ascii_only()
    head = [Column("  "), Column("published", "right"), Column("measured", "right")]
    head += [Column("std error", "right"), Column("runs", "right"), Column("")]
    lines, paint = [], {}
    for place, (number, found) in enumerate(rows):
        more = number.digits + (1 if found.error else 0)
        holds = number.holds(found)
        verdict = ("holds" if plain else "✓ holds") if holds else ("DIFFERS" if plain else "✗ differs")
        paint[place, 5] = GREEN if holds else RED
        error = f"{found.error:.{more}f}" if found.error else "exact"
        runs = str(found.runs) if found.runs else ""
        published, measured = f"{number.value:.{number.digits}f}", f"{found.value:.{more}f}"
        lines.append([f"  {shown(number.label)}", published, measured, error, runs, verdict])
    print(table(head, lines, paint), flush=True)
    print()


def progress(figure: Figure | None, text: str, left: float) -> None:
    """One line on a terminal that is written over; nothing elsewhere."""
    from txlab.cli.terminal import can_redraw, columns, shown

    if not (sys.stderr.isatty() and can_redraw()):
        return
    if figure is None:
        sys.stderr.write("\r\x1b[K")
    else:
        line = shown(f"{figure.name}: {text}; about {left:.0f} s to go, all told")
        sys.stderr.write(f"\r\x1b[K{line[: columns() - 1]}")
    sys.stderr.flush()
