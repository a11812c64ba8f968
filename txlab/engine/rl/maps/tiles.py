"""The meaning of a map's sign, and its notation: `A: leaving pays 10, leaving leads to a`.

Notable: the meanings are a few words that can be combined, not a program; the result is always a decision process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

from txlab.errors import LabError

START = "the start"


@dataclass(frozen=True)
class Tile:
    """The effects of a cell. A cell with no words is floor.

    wall      cannot be entered
    start     an episode may begin here
    ends      the episode ends on arrival       goal   it ends, and must be reachable from a start
    pays      reward on arrival, instead of the map's step reward        adds   reward on arrival, on top of it
    leads     arriving leads immediately to the cell with that sign, or back to `START`
    leaving_pays, leaving_leads   every action here has this reward and leads to the cell with that sign
    """

    wall: bool = False
    start: bool = False
    ends: bool = False
    goal: bool = False
    pays: float | None = None
    adds: float = 0.0
    leads: str = ""
    leaving_pays: float | None = None
    leaving_leads: str = ""

    @property
    def exit(self) -> bool:
        return self.ends or self.goal

    @property
    def stood(self) -> bool:
        """Whether the cell can be occupied, that is, whether it is a state."""
        return not self.wall and not self.leads


TILES: Mapping[str, Tile] = {
    ".": Tile(),
    "#": Tile(wall=True),
    "S": Tile(start=True),
    "G": Tile(goal=True),
    "H": Tile(ends=True),
    "C": Tile(pays=-100.0, leads=START),
}
"""The signs that every map has: floor, wall, start, goal, hole, cliff. All but floor and wall may be redefined."""

FIXED = ".#"

WORDS = (
    "floor, wall, start, goal, ends, pays N, adds N, leads to X, back to the start, leaving pays N, leaving leads to X"
)


def number_of(text: str) -> float:
    """Parse a finite number in ASCII digits, or a fraction. ValueError otherwise.

    >>> number_of("2/3"), number_of("-.04")
    (0.6666666666666666, -0.04)
    """
    if len(text) > 40 or not text.isascii() or "_" in text:
        raise ValueError("a number has at most 40 characters, with ASCII digits and no separators")
    above, line, below = text.partition("/")
    value = float(above) / float(below) if line and float(below) else float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value


def number_text(value: float) -> str:
    """The shortest text that `number_of` reads as exactly this number.

    >>> number_text(2 / 3), number_text(-1.0), number_text(0.8)
    ('2/3', '-1', '0.8')
    """
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    fraction = Fraction(value).limit_denominator(12)
    if fraction.numerator / fraction.denominator == value and len(repr(value)) > 8:
        return f"{fraction.numerator}/{fraction.denominator}"
    return repr(value)


PHRASES = {
    "pays": "pays",
    "adds": "adds",
    "leads": "leads to",
    "leaving_pays": "leaving pays",
    "leaving_leads": "leaving leads to",
}
"""Words that are followed by a number or a sign."""


def tile_of(text: str) -> Tile:
    """Parse the words that describe a tile; LabError without the place, which the caller knows."""
    fields: dict[str, Any] = {}
    for clause in text.split(","):
        words = " ".join(clause.split())
        if words == "floor":
            continue
        value: Any
        if words in ("wall", "start", "ends", "goal"):
            key, value, wording = words, True, words
        elif words == "back to the start":
            key, value, wording = "leads", START, words
        else:
            key = next((key for key, phrase in PHRASES.items() if words.startswith(phrase + " ")), "")
            if not key:
                raise LabError(f"says {escape_text(words)}; allowed: {WORDS}")
            wording = PHRASES[key]
            value = worth(words[len(wording) + 1 :], key, words)
        if key in fields:
            raise LabError(f"says {wording!r} twice")
        fields[key] = value
    tile = Tile(**fields)
    refuse_contradiction(tile)
    return tile


def worth(text: str, key: str, words: str) -> float | str:
    """The number or sign after a word."""
    if key.endswith("leads"):
        if len(text) != 1 or not legal(text):
            raise LabError(f"says {escape_text(words)}; a sign (one printable ASCII character) must follow")
        return text
    try:
        return number_of(text)
    except ValueError:
        raise LabError(f"says {escape_text(words)}; a number must follow, such as -1 or 2/3") from None


def refuse_contradiction(tile: Tile) -> None:
    """Raise LabError for words that cannot both apply to one cell."""
    leaving = tile.leaving_pays is not None or bool(tile.leaving_leads)
    if tile.wall and tile != Tile(wall=True):
        raise LabError("is a wall, which cannot be entered; it can have no other meaning")
    if tile.exit and (tile.leads or leaving or tile.start):
        raise LabError("ends the episode; it can be neither a start nor a place to continue from")
    if tile.leads and (leaving or tile.start):
        raise LabError("leads elsewhere on arrival; it can be neither a start nor left by an action")
    if tile.pays is not None and tile.adds:
        raise LabError("both pays and adds; only one of the two is allowed")


def tile_text(tile: Tile) -> str:
    """The words that `tile_of` reads as this tile."""
    words = [word for word in ("wall", "start", "ends", "goal") if getattr(tile, word)]
    for key, phrase in PHRASES.items():
        value = getattr(tile, key)
        if value != getattr(Tile(), key):
            after = value if isinstance(value, str) else number_text(value)
            words.append("back to the start" if value == START else f"{phrase} {after}")
    return ", ".join(words) or "floor"


def legal(sign: str) -> bool:
    """Whether a cell may use this sign: one printable ASCII character other than space, colon and comma."""
    return len(sign) == 1 and "!" <= sign <= "~" and sign not in ":,"


def escape_text(text: str) -> str:
    """Untrusted text made fit for a message: on one line, short, with anything but printable ASCII escaped."""
    return ascii(text if len(text) <= 40 else text[:40] + "…")
