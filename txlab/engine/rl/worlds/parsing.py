"""From a text to a map: `key: value` lines, then the rows. `Map.text` is the way back.

Notable: a colon is no sign, so a line with one is of the head, and the first line without one begins the map. Whatever
is wrong is said with its line; nothing is allocated for a text that is too long to be a map.
"""

from __future__ import annotations

from typing import Any

from txlab.engine.rl.worlds.drawn import MOST_CELLS, MOST_SIDE, Map, refuse_size
from txlab.engine.rl.worlds.tiles import FIXED, legal, number_of, shown, tile_of
from txlab.errors import LabError, nearest

MOST_CHARACTERS = 5 * MOST_CELLS
KEYS = ("title", "moves", "start", "slip", "wind", "gusts", "step", "bump", "discount", "limit")


def parse_map(text: str) -> Map:
    """The map that is drawn in `text`. LabError, one sentence with the line, where it is none.

    >>> parse_map("step: -1\\n\\nS.G").step
    -1.0
    """
    if len(text) > MOST_CHARACTERS:
        raise LabError(f"a map of {len(text)} characters is too large; {MOST_CHARACTERS} are allowed")
    head: dict[str, Any] = {}
    signs: dict[str, Any] = {}
    rows: list[tuple[int, str]] = []
    for number, line in enumerate(text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"), start=1):
        line = line.rstrip(" \t")
        if not line:
            continue
        try:
            if ":" in line:
                if rows:
                    raise LabError(
                        f"{shown(line)} has a colon, which is no sign; `key: value` lines come before the map"
                    )
                take(line, head, signs)
            else:
                if rows and number != rows[-1][0] + 1:
                    raise LabError("the map goes on after an empty line; its rows must follow each other")
                rows.append((number, line))
                refuse_size(len(rows), len(line))
        except LabError as error:
            raise LabError(f"line {number}: {error}") from None
    if not rows:
        raise LabError("there is no map: rows of signs must follow the `key: value` lines, such as S..G")
    drawn = Map(rows=("." * len(rows[0][1]),), signs=signs, **head)
    for number, row in rows:
        try:
            refuse_row(row, drawn)
        except LabError as error:
            raise LabError(f"line {number}: {error}") from None
    return Map(rows=tuple(row for _, row in rows), signs=signs, **head)


def take(line: str, head: dict[str, Any], signs: dict[str, Any]) -> None:
    """Put one line of the head where it belongs. LabError without the line."""
    key, _, value = (part.strip() for part in line.partition(":"))
    if key in head or key in signs:
        raise LabError(f"{key} is said twice")
    if legal(key) and len(key) == 1:
        if key in FIXED:
            raise LabError(f"{key} is always {'floor' if key == '.' else 'wall'}; other signs can be given a meaning")
        try:
            signs[key] = tile_of(value)
        except LabError as error:
            raise LabError(f"{key} {error}") from None
        Map(rows=(".",), signs={key: signs[key]})  # refuses numbers that are out of range
        return
    if key not in KEYS:
        raise LabError(
            f"{shown(key)} is no key of a map{nearest(key[:40], KEYS)}; allowed: {', '.join(KEYS)}, or a sign"
        )
    head[key] = worth(key, value)
    if key != "wind":  # which needs to know how many columns there are
        Map(rows=(".",), **{key: head[key]})


def worth(key: str, value: str) -> Any:
    """The value of a key, of its type."""
    if key in ("title", "moves", "start"):
        return value
    if key == "wind":
        parts = value.replace(",", " ").split()
        if len(parts) > MOST_SIDE:
            raise LabError(f"wind has {len(parts)} numbers; a map has {MOST_SIDE} columns at most")
        return tuple(whole(key, part) for part in parts)
    if key == "limit":
        return whole(key, value)
    try:
        return number_of(value)
    except ValueError:
        raise LabError(f"{key} = {shown(value)} must be a number, such as -1, 0.2 or 2/3") from None


def whole(key: str, text: str) -> int:
    """A whole number of at most nine digits."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise LabError(f"{key} = {shown(text)} must be a whole number")
    return int(text)


def refuse_row(row: str, drawn: Map) -> None:
    """LabError for a row that is not as long as the others, or has a sign that means nothing. Without the line."""
    for column, sign in enumerate(row):
        if sign not in drawn.tiles:
            if not legal(sign):
                raise LabError(f"column {column + 1}: {shown(sign)} is no sign; signs are printable ASCII, floor is .")
            raise LabError(
                f"column {column + 1}: {sign} has no meaning here; there are {' '.join(drawn.tiles)},"
                f" and a line `{sign}: …` above the map would give it one"
            )
    if len(row) != drawn.width:
        raise LabError(f"{len(row)} cells where the first row has {drawn.width}; every row must be as long")
