"""Dates as people write them, translated into ISO 8601 character by character (MATH T8).

    5 March 2021 · March 5, 2021 · Fri 5 Mar 2021 · the 5th of March 2021
    03/05/2021     ambiguous: here the month always comes first
    5.3.2021       ambiguous: here the day always comes first
    5-Mar-21       two digits of a year: here always 1970 … 2069
    20210305                                                              all → 2021-03-05

Years go from 1970 to 2069, so that two digits determine the century; the day of the week is correct but redundant. A
test date is not in training in *any* of its forms.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

from txlab.experiments.kinds.translation.pairs import Draws, Pair

FIRST, LAST = date(1970, 1, 1), date(2069, 12, 31)
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def ordinal(day: int) -> str:
    """1st, 2nd, 3rd, 4th … 11th, 12th, 13th … 31st."""
    suffix = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{suffix}"


def month(day: date) -> str:
    return MONTHS[day.month - 1]


FORMATS: dict[str, Callable[[date], str]] = {
    "5 March 2021": lambda d: f"{d.day} {month(d)} {d.year}",
    "March 5, 2021": lambda d: f"{month(d)} {d.day}, {d.year}",
    "Fri 5 Mar 2021": lambda d: f"{DAYS[d.weekday()]} {d.day} {month(d)[:3]} {d.year}",
    "the 5th of March 2021": lambda d: f"the {ordinal(d.day)} of {month(d)} {d.year}",
    "03/05/2021 (month first)": lambda d: f"{d.month:02}/{d.day:02}/{d.year}",
    "5.3.2021 (day first)": lambda d: f"{d.day}.{d.month}.{d.year}",
    "5-Mar-21 (1970 to 2069)": lambda d: f"{d.day}-{month(d)[:3]}-{d.year % 100:02}",
    "20210305": lambda d: f"{d.year}{d.month:02}{d.day:02}",
}


def pair(draws: Draws) -> Pair:
    """A date in one of the formats and in ISO 8601, as characters."""
    day = FIRST + timedelta(draws.number(0, (LAST - FIRST).days))
    written = draws.one_of(tuple(FORMATS.values()))(day)
    return Pair(tuple(written), tuple(day.isoformat()))


def source_characters() -> tuple[str, ...]:
    """Every character that a source may have, sorted."""
    letters = {letter for word in (*MONTHS, *DAYS, "the", "of", "st", "nd", "rd", "th") for letter in word}
    return tuple(sorted(letters | set("0123456789 ,./-")))


def target_characters() -> tuple[str, ...]:
    return tuple("-0123456789")
