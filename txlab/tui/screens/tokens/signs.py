"""The invisible made visible, byte by byte: what of a token stands in which cells, and the tints of its neighbours.

Notable: txlab/drawing/text.py makes text safe to read; here every byte must also be seen, so a space is a dot, every
other kind of space and a variation selector its escape, a combining mark without its letter stands on a dotted circle,
and bytes that are no UTF-8 are \\xNN. Nothing here joins with its neighbour in the terminal.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache

from txlab.drawing.palette import (
    BLACK,
    BLUE,
    BRIGHT_CYAN,
    BRIGHT_GREEN,
    BRIGHT_MAGENTA,
    BRIGHT_WHITE,
    MAGENTA,
    RGB,
    Colours,
    cube,
    oklab_to_rgb,
)
from txlab.drawing.text import VARIATION_SELECTORS, escape, visible_character, width

SPACE, ASCII_SPACE = "·", "_"
MOST_MARKS = 4  # combining marks that one letter carries; further ones stand for themselves
MARKS = ("Mn", "Me", "Mc")
SIGNS_OF_NOTHING = frozenset("·_◌")


@dataclass(frozen=True)
class Unit:
    """What belongs into the same cells: a letter with its marks, a sign, an escape. `start` and `size` are bytes."""

    start: int
    size: int
    shown: str
    width: int


def sign(character: str, ascii: bool = False) -> str:
    r"""One character as it is shown in a token, alone.

    >>> sign(" "), sign("\u00a0"), sign("\u0301"), sign("\x00"), sign("\u0378"), sign("é")
    ('·', '\\xa0', '◌́', '␀', '\\u0378', 'é')
    """
    if character == " ":
        return ASCII_SPACE if ascii else SPACE
    if "!" <= character <= "~":
        return character
    category = unicodedata.category(character)
    if category == "Zs" or character in VARIATION_SELECTORS:
        return escape(character)
    shown = visible_character(character, ascii)
    if width(shown) == 0:  # it would lie on what is before it
        return "◌" + shown if category in MARKS else escape(character)
    return shown


@lru_cache(32768)
def units(data: bytes, ascii: bool = False) -> tuple[Unit, ...]:
    r"""The bytes of a token as what is shown of them, in order; together they are all of its bytes.

    >>> [unit.shown for unit in units(b" caf\xc3\xa9\xe2\x82")]
    ['·', 'c', 'a', 'f', 'é', '\\xe2', '\\x82']
    """
    found: list[Unit] = []
    at = marks = 0
    joins = False  # whether the unit before is a letter that a mark may be put on
    for character in data.decode(errors="surrogateescape"):
        if "\udc80" <= character <= "\udcff":
            found.append(Unit(at, 1, f"\\x{ord(character) - 0xDC00:02x}", 4))
            at, joins = at + 1, False
            continue
        size = len(character.encode())
        raw = visible_character(character, ascii)
        if joins and marks < MOST_MARKS and raw == character and width(raw) == 0:
            before = found[-1]
            joined = before.shown + character
            if width(joined) == before.width:
                found[-1] = Unit(before.start, before.size + size, joined, before.width)
                at, marks = at + size, marks + 1
                continue
        shown = sign(character, ascii)
        found.append(Unit(at, size, shown, width(shown)))
        at, marks = at + size, 0
        joins = shown == character and shown not in SIGNS_OF_NOTHING
    return tuple(found)


def shown_bytes(data: bytes, ascii: bool = False) -> str:
    """A whole token on one line."""
    return "".join(unit.shown for unit in units(data, ascii))


@dataclass(frozen=True)
class Tint:
    """How one token in a few looks: `fill` behind it, `ink` for its letters (None: the surface's own)."""

    fill: RGB | None
    ink: RGB | None


# Hues that the colour-blind tell apart by their lightness as well: every second tint is the lighter one.
DARK_TINTS = [(0.27, 0.055, 250.0), (0.37, 0.06, 150.0), (0.29, 0.06, 330.0), (0.37, 0.055, 210.0)]
LIGHT_TINTS = [(0.93, 0.04, 250.0), (0.86, 0.06, 150.0), (0.92, 0.045, 340.0), (0.86, 0.05, 215.0)]
DARK_256, LIGHT_256 = ["001", "022", "101", "g07"], ["455", "454", "545", "g21"]
DARK_16, LIGHT_16 = (BRIGHT_CYAN, BRIGHT_GREEN, BRIGHT_MAGENTA, BRIGHT_WHITE), (BLUE, MAGENTA, BLACK, (0, 170, 0))


@cache
def tints(colours: Colours = "truecolor", dark: bool = True) -> tuple[Tint, ...]:
    """The tints that tokens take in turn, so that no neighbours have the same."""
    if colours == "truecolor":
        return tuple(Tint(polar(*each), None) for each in (DARK_TINTS if dark else LIGHT_TINTS))
    if colours == "256":
        return tuple(Tint(cube(digits), None) for digits in (DARK_256 if dark else LIGHT_256))
    if colours == "16":
        return tuple(Tint(None, ink) for ink in (DARK_16 if dark else LIGHT_16))
    return (Tint(None, None),)


def polar(lightness: float, chroma: float, hue: float) -> RGB:
    """A colour by OKLab lightness, chroma and hue in degrees."""
    from math import cos, radians, sin

    return oklab_to_rgb(lightness, chroma * cos(radians(hue)), chroma * sin(radians(hue)))
