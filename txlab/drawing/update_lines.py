"""An update rule in symbols with the numbers of one update below them.

Q(s,a) ← Q(s,a) + α  [ r  + γ maxₐ′ Q(s′,a′) − Q(s,a)  ]
−7.41  ← −7.5   + .5 [ −1 + 1 (−6.32)        − (−7.5)  ]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from txlab.drawing.formatting import count, minus, special
from txlab.drawing.text import fit, formula, width

Part = Literal["letters", "number", "sign"]
Pair = tuple[list[tuple[str, Part]], list[tuple[str, Part]]]
SIGNS = ("+", "−", "-", "·", "×", "/")


def compact(value: float, digits: int = 4) -> str:
    """Format with at most four significant digits and no trailing zeros: .5, −7.41, 12 300, 3e-5.

    >>> compact(0.5), compact(-7.41), compact(-0.05), compact(1), compact(3e-5), compact(123456.0)
    ('.5', '−7.41', '−.05', '1', '3e-5', '123 456')
    """
    if not math.isfinite(value):
        return special(value)
    if abs(value) >= 1000 and abs(value) < 1e7:
        return count(value)
    if 0 < abs(value) < 1e-3 or abs(value) >= 1e7:
        mantissa, exponent = f"{value:.2e}".split("e")
        return minus(f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}")
    text = f"{value:.{digits}g}"
    if text.startswith(("0.", "-0.")):
        text = text.replace("0.", ".", 1)
    return minus(text) if text != "-0" else "0"


def below(letters: str, value: float | None, before: tuple[str, float | None]) -> str:
    """Return the text below a piece of the rule: its number, in parentheses after a sign or a factor; or the sign
    itself."""
    if value is None:
        return letters
    text = compact(value)
    sign, factor = before
    return f"({text})" if value < 0 and (factor is not None or sign.strip()[-1:] in SIGNS) else text


def term_lines(terms: Sequence[tuple[str, float | None]], cells: int, ascii: bool = False) -> list[Pair]:
    """Return pairs of lines, symbols above numbers, each with as many terms as fit."""
    columns: list[tuple[str, str, bool]] = []
    before: tuple[str, float | None] = ("", None)
    for letters, value in terms:
        if value is not None and value >= 0 and before[1] is not None:
            columns.append(("", formula("·", ascii), True))  # between two factors: "1 · 0", not "1 0"
        written, number = letters.strip(), below(letters, value, before).strip()
        columns.append((formula(written, ascii), formula(number, ascii), value is None))
        before = (letters, value)
    pairs: list[Pair] = []
    room = 0
    for above, under, sign in columns:
        wide = max(width(above), width(under))
        if not pairs or wide + 1 > room:
            pairs.append(([], []))
            room = cells
        wide = min(wide, room)
        pairs[-1][0].append((fit(above, wide, ellipsis="~") + " ", "sign" if sign else "letters"))
        pairs[-1][1].append((fit(under, wide, ellipsis="~") + " ", "sign" if sign else "number"))
        room -= wide + 1
    return pairs
