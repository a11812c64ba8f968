"""`txlab formulas`: what "MATH T1" means, wherever a screen, a scenario or the code cites it."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from txlab.cli import options
from txlab.cli.output import Column, print_rows, table
from txlab.cli.terminal import ascii_only, columns

if TYPE_CHECKING:
    from txlab.experiments.formulas import Formula


def formulas(
    number: Annotated[str | None, typer.Argument(metavar="NUMBER", help="show this one in full, e.g. T1")] = None,
    json: options.JsonLines = False,
    csv: options.Csv = False,
) -> None:
    """The numbered formulas: equations, meaning, source, errata."""
    from txlab.experiments.formulas import content, formula_named

    chosen = list(content()[0].values()) if number is None else [formula_named(number)]
    if print_rows(map(asdict, chosen), json, csv):
        return
    if number is None:
        print_all(chosen)
    else:
        print_one(chosen[0])


def print_all(chosen: list[Formula]) -> None:
    """Print number, title and first equation of each, by chapter, and the letters."""
    from txlab.experiments.formulas import content
    from txlab.experiments.schema import CHAPTERS

    head = [Column("number"), Column("title"), Column("formula", loose=True)]
    rows = {each.number: [each.number, written(each.title), written(each.formulas[0])] for each in chosen}
    title, *lines = table(head, list(rows.values())).splitlines()
    for chapter, name in CHAPTERS.items():
        members = [line for number, line in zip(rows, lines, strict=True) if number.startswith(chapter)]
        print("\n".join([f"{chapter}  {name}", title, *members]), end="\n\n")
    print(table([Column("letter"), Column("meaning")], [[written(a), written(b)] for a, b in content()[1].items()]))
    print("\ntxlab formulas NUMBER shows one in full.")


def print_one(formula: Formula) -> None:
    room = min(columns() - 1, 100)
    print(f"{formula.number}  {written(formula.title)}\n")
    for line in formula.formulas:
        print(f"  {written(line)}")
    for name, text in (("", formula.meaning), ("Erratum: ", formula.erratum), ("Source: ", formula.source)):
        if text:
            print("\n" + textwrap.fill(written(name + text), room))


def written(text: str) -> str:
    """Return the text with its signs spelt in ASCII where needed."""
    from txlab.drawing.text import formula

    return formula(text, ascii_only())
