"""The numbered formulas that code, scenarios and screens cite ("MATH T1"), from assets/texts/formulas.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache

from txlab.errors import LabError, choices
from txlab.files import shipped_path


@dataclass(frozen=True)
class Formula:
    """number    a letter, which is its chapter in `schema.CHAPTERS`, and a number in it
    formulas  the equations, one a line
    meaning   what they say, in a few sentences
    source    where they are from
    erratum   what is printed wrongly somewhere; "" = nothing known
    """

    number: str
    title: str
    formulas: tuple[str, ...]
    meaning: str
    source: str
    erratum: str = ""


@cache
def content() -> tuple[dict[str, Formula], dict[str, str]]:
    """Number → formula, in order, and letter → meaning."""
    tables = tomllib.loads(shipped_path("texts/formulas.toml").read_text(encoding="utf-8"))
    letters: dict[str, str] = tables.pop("letters")
    found = {}
    for number, row in tables.items():
        plain = {key: " ".join(row.get(key, "").split()) for key in ("title", "meaning", "source", "erratum")}
        found[number] = Formula(number, formulas=tuple(row["formulas"]), **plain)
    return found, letters


def formula_named(number: str) -> Formula:
    """The formula of that number. LabError for a number that none has."""
    found, _ = content()
    if number.upper() not in found:
        raise LabError(f"no formula has the number {number!r}{choices(number.upper(), found)}")
    return found[number.upper()]
