"""The numbered formulas that code, scenarios and screens cite ("MATH T1"), from assets/texts/formulas.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from txlab.errors import LabError, choices
from txlab.files import shipped_path


@dataclass(frozen=True)
class Place:
    """Where a formula is at work in the console: a screen, the scenario whose run it shows, a text, keys to press."""

    screen: str = ""
    scenario: str = ""
    text: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Formula:
    """number    a letter, which is its chapter in `schema.CHAPTERS`, and a number in it
    formulas  the equations, one a line
    meaning   their meaning, in a few sentences
    source    their source
    erratum   a known misprint; "" = none
    letters   each letter of the equations → its meaning, with its shape
    uses      the numbers of the formulas that it is made of
    """

    number: str
    title: str
    formulas: tuple[str, ...]
    meaning: str
    source: str
    erratum: str = ""
    letters: dict[str, str] = field(default_factory=dict)
    uses: tuple[str, ...] = ()
    place: Place = Place()


@dataclass(frozen=True)
class LectureText:
    """One of the five texts: its sections in order, each with the formulas that it contains."""

    name: str
    title: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]


@cache
def lecture_texts() -> dict[str, LectureText]:
    """Name → text."""
    tables = tables_of("texts/lecture_texts.toml")
    return {
        name: LectureText(
            name, row["title"], tuple((each["title"], tuple(each["formulas"])) for each in row["sections"])
        )
        for name, row in tables.items()
    }


def used_by(number: str) -> tuple[str, ...]:
    """The numbers of the formulas that are made of this one."""
    return tuple(each.number for each in content()[0].values() if number in each.uses)


def tables_of(path: str) -> dict[str, Any]:
    return tomllib.loads(shipped_path(path).read_text(encoding="utf-8"))


@cache
def content() -> tuple[dict[str, Formula], dict[str, str]]:
    """Number → formula, in order, and letter → meaning."""
    tables = tables_of("texts/formulas.toml")
    letters: dict[str, str] = tables.pop("letters")
    formulas = {}
    for number, row in tables.items():
        plain = {key: " ".join(row.get(key, "").split()) for key in ("title", "meaning", "source", "erratum")}
        place = row.get("place", {})
        formulas[number] = Formula(
            number,
            formulas=tuple(row["formulas"]),
            letters=row.get("letters", {}),
            uses=tuple(row.get("uses", ())),
            place=Place(**{**place, "keys": tuple(place.get("keys", ()))}),
            **plain,
        )
    return formulas, letters


def formula_named(number: str) -> Formula:
    """The formula of that number. LabError for a number that none has."""
    formulas, _ = content()
    if number.upper() not in formulas:
        raise LabError(f"no formula has the number {number!r}{choices(number.upper(), formulas)}")
    return formulas[number.upper()]
