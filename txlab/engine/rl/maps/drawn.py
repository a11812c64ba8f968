"""A map as drawn: rows of signs, their meanings, the available moves, and conversion to and from text.

    title: A cliff            `key: value` lines first: title, moves, start, slip, wind, gusts,
    step: -1                  step, bump, discount, limit
    A: leaving pays 10, leaving leads to a        and the meanings of the map's own signs

    ....a.......              then the rows: . floor  # wall  S start  G goal  H hole  C cliff, and own signs
    SCCCCCCCCCCG

Notable: a map may be impossible while it is being drawn (no start, a goal behind walls); `compile_map` reports that.
But it is always rectangular, made of known signs, and small: that is checked on construction. A colon is not a sign, so
a line with one is part of the head. Every error in a text is reported with its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from txlab.engine.rl.maps.tiles import (
    FIXED,
    TILES,
    Tile,
    escape_text,
    legal,
    number_of,
    number_text,
    refuse_contradiction,
    tile_of,
    tile_text,
)
from txlab.errors import LabError, nearest

Moves = Literal["4", "king", "king-stay", "sideways"]
MOVES: tuple[Moves, ...] = get_args(Moves)

# Clockwise from up, so that the two sides of a move are its neighbours; `stay` comes last and has none.
ACTIONS: dict[Moves, tuple[str, ...]] = {
    "4": ("up", "right", "down", "left"),
    "king": ("up", "up-right", "right", "down-right", "down", "down-left", "left", "up-left"),
    "king-stay": ("up", "up-right", "right", "down-right", "down", "down-left", "left", "up-left", "stay"),
    "sideways": ("left", "right"),
}

STEPS: dict[str, tuple[int, int]] = {
    "up": (-1, 0),
    "up-right": (-1, 1),
    "right": (0, 1),
    "down-right": (1, 1),
    "down": (1, 0),
    "down-left": (1, -1),
    "left": (0, -1),
    "up-left": (-1, -1),
    "stay": (0, 0),
}
"""The displacement of each move: (rows down, columns right)."""

MOST_CELLS = 20_000
MOST_SIDE = 400
STRONGEST_WIND = 9
MOST_LIMIT = 10_000_000
LARGEST_REWARD = 1e9
LONGEST_TITLE = 120

Starts = Literal["one", "any", "everywhere"]
STARTS: tuple[Starts, ...] = get_args(Starts)

OWN = "123456789abdefhijklmnopqrtuvwxyzABDEFIJKLMNOPQRTUVWXYZ"
"""Signs to which an edit may assign a new meaning, in the order in which they are used."""

MOST_CHARACTERS = 5 * MOST_CELLS
KEYS = ("title", "moves", "start", "slip", "wind", "gusts", "step", "bump", "discount", "limit")


@dataclass(frozen=True)
class Map:
    """rows      of equal length, one sign per cell
    signs     meanings of the map's own signs; those of TILES need not be listed
    moves     "4", "king" (8), "king-stay" (9) or "sideways" (left and right)
    slip      probability of moving to one of the two sides instead, evenly
    wind      for each column, how many cells up the wind carries a move that leaves it (down if negative); () = none
    gusts     probability that a wind is one cell stronger or weaker, evenly (S&B exercise 6.10: 2/3)
    step      reward of a move       bump   of a move blocked by a wall or the edge; None = as any move
    discount  γ       limit   steps after which an episode is cut off; 0 = never
    start     "one": the single start cell; "any": uniform over all start cells; "everywhere": any state
    title     one line

    LabError where a number is out of range, or the rows are not a rectangle of known signs.
    """

    rows: tuple[str, ...]
    signs: Mapping[str, Tile] = field(default_factory=dict)
    moves: Moves = "4"
    slip: float = 0.0
    wind: tuple[int, ...] = ()
    gusts: float = 0.0
    step: float = 0.0
    bump: float | None = None
    discount: float = 1.0
    limit: int = 0
    start: Starts = "one"
    title: str = ""

    def __post_init__(self) -> None:
        refuse_numbers(self)
        refuse_rows(self)

    @property
    def height(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        return len(self.rows[0])

    @property
    def tiles(self) -> dict[str, Tile]:
        """The meaning of each sign, both the common ones and the map's own."""
        return {**TILES, **self.signs}

    def tile(self, row: int, column: int) -> Tile:
        return self.tiles[self.rows[row][column]]

    def text(self) -> str:
        """The text that `parse_map` reads as this map: a head of `key: value` lines, an empty line, the rows."""
        plain = Map(rows=(".",))
        head = [f"title: {self.title}"] if self.title else []
        for key in ("moves", "start"):
            if getattr(self, key) != getattr(plain, key):
                head.append(f"{key}: {getattr(self, key)}")
        for key in ("slip", "gusts", "step", "bump", "discount", "limit"):
            if getattr(self, key) != getattr(plain, key):
                head.append(f"{key}: {number_text(getattr(self, key))}")
        if self.wind:
            head.append("wind: " + " ".join(map(str, self.wind)))
        head += [f"{sign}: {tile_text(tile)}" for sign, tile in self.signs.items()]
        return "\n".join([*head, "", *self.rows, ""])

    # Edits: each returns a new map, rectangular and of known signs like any other.

    def with_cell(self, row: int, column: int, sign: str) -> Map:
        """Put a sign in that cell: "." floor, "#" wall, "G" goal, "H" hole, "C" cliff, or one of the map's own. A start
        ("S") replaces the existing one, unless `start` allows several."""
        self.refuse_place(row, column)
        if sign not in self.tiles:
            raise LabError(f"{escape_text(sign)} is not a sign of this map; it has {' '.join(self.tiles)}")
        rows = list(self.rows)
        if self.tiles[sign].start and self.start == "one":
            rows = [
                "".join("." if self.tiles[old].start else old for old in line)
                if any(self.tiles[old].start for old in set(line))
                else line
                for line in rows
            ]
        rows[row] = rows[row][:column] + sign + rows[row][column + 1 :]
        return replace(self, rows=tuple(rows))

    def with_reward(self, row: int, column: int, reward: float) -> Map:
        """Set the reward for arriving in that cell, instead of the step reward; its other effects stay.

        A cell whose sign is used elsewhere gets a sign of its own, whose meaning is added to the head.
        """
        self.refuse_place(row, column)
        old = self.tile(row, column)
        if old.wall:
            raise LabError(f"({row},{column}) is a wall, which cannot be entered; rewards belong on other cells")
        wanted = replace(old, pays=float(reward), adds=0.0)
        used = set("".join(self.rows))
        letter = next((sign for sign, tile in self.tiles.items() if tile == wanted), None)
        if letter is None:
            sources = {t for tile in self.tiles.values() for t in (tile.leads, tile.leaving_leads)}
            free = [s for s in OWN if s not in TILES and s not in used and s not in sources]
            if not free:
                raise LabError(f"all {len(OWN)} signs for cells with special rewards are in use")
            letter = next((s for s in free if s not in self.signs), free[0])
        rows = list(self.rows)
        rows[row] = rows[row][:column] + letter + rows[row][column + 1 :]
        signs = self.signs if self.tiles.get(letter) == wanted else {**self.signs, letter: wanted}
        return replace(self, rows=tuple(rows), signs=signs)

    def with_slip(self, slip: float) -> Map:
        return replace(self, slip=float(slip))

    def refuse_place(self, row: int, column: int) -> None:
        if not (0 <= row < self.height and 0 <= column < self.width):
            raise LabError(f"({row},{column}) is outside the map of {self.height} rows and {self.width} columns")


def refuse_numbers(drawn: Map) -> None:
    """Raise LabError for a number of the head that is out of range, naming the key."""
    for key in ("slip", "gusts", "discount"):
        if not 0 <= getattr(drawn, key) <= 1:
            raise LabError(f"{key} = {getattr(drawn, key):g} must be from 0 to 1")
    rewards = [("step", drawn.step), ("bump", drawn.bump or 0.0)]
    rewards += [(sign, n) for sign, t in drawn.signs.items() for n in (t.pays, t.adds, t.leaving_pays) if n is not None]
    for key, value in rewards:
        if not abs(value) <= LARGEST_REWARD:  # refuses NaN too
            raise LabError(f"{key}: the reward {value:g} must be from −{LARGEST_REWARD:g} to {LARGEST_REWARD:g}")
    if not 0 <= drawn.limit <= MOST_LIMIT:
        raise LabError(f"limit = {drawn.limit} must be from 0 (never) to {MOST_LIMIT}")
    for key, allowed in (("moves", MOVES), ("start", STARTS)):
        given = getattr(drawn, key)
        if given not in allowed:
            raise LabError(
                f"{key} = {escape_text(given)} is unknown{nearest(given, allowed)}; allowed: {', '.join(allowed)}"
            )
    title = drawn.title
    if len(title) > LONGEST_TITLE or not title.isprintable() or title != " ".join(title.split()):
        raise LabError(f"title must be one printable line of at most {LONGEST_TITLE} characters, with single spaces")


def refuse_rows(drawn: Map) -> None:
    """Raise LabError if the rows are not a rectangle of known signs, or the wind lacks a number for a column."""
    if not drawn.rows or not drawn.rows[0]:
        raise LabError("a map needs at least one row with one cell")
    refuse_size(len(drawn.rows), max(len(row) for row in drawn.rows))
    for sign, tile in drawn.signs.items():
        if not legal(sign) or sign in FIXED:
            raise LabError(
                f"{escape_text(sign)} cannot be given a meaning: a sign is one printable ASCII character, not . # : ,"
            )
        refuse_contradiction(tile)
    known = drawn.tiles
    for r, row in enumerate(drawn.rows):
        if len(row) != drawn.width:
            raise LabError(f"row {r} of the map has {len(row)} cells where the first has {drawn.width}")
        for sign in sorted(set(row) - set(known)):
            raise LabError(
                f"({r},{row.index(sign)}): {escape_text(sign)} has no meaning in this map; it has {' '.join(known)}"
            )
    if drawn.wind and len(drawn.wind) != drawn.width:
        raise LabError(f"wind has {len(drawn.wind)} numbers where the map has {drawn.width} columns")
    if any(abs(strength) > STRONGEST_WIND for strength in drawn.wind):
        raise LabError(f"wind = {max(drawn.wind, key=abs)} must be from −{STRONGEST_WIND} to {STRONGEST_WIND}")


def refuse_size(height: int, width: int) -> None:
    if height > MOST_SIDE or width > MOST_SIDE or height * width > MOST_CELLS:
        raise LabError(
            f"a map of {height} × {width} cells is too large; {MOST_SIDE} rows, {MOST_SIDE} columns"
            f" and {MOST_CELLS} cells are allowed"
        )


def parse_map(text: str) -> Map:
    """Parse the map drawn in `text`. LabError, naming the line, if it is not one.

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
                        f"{escape_text(line)} has a colon, which is not a sign; `key: value` lines come before the map"
                    )
                take(line, head, signs)
            else:
                if rows and number != rows[-1][0] + 1:
                    raise LabError("the map continues after an empty line; its rows must be consecutive")
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
    """Parse one line of the head into `head` or `signs`. LabError without the line number."""
    key, _, value = (part.strip() for part in line.partition(":"))
    if key in head or key in signs:
        raise LabError(f"{key} is given twice")
    if legal(key) and len(key) == 1:
        if key in FIXED:
            raise LabError(f"{key} is always {'floor' if key == '.' else 'wall'}; other signs can be given a meaning")
        try:
            signs[key] = tile_of(value)
        except LabError as error:
            raise LabError(f"{key} {error}") from None
        Map(rows=(".",), signs={key: signs[key]})  # checks the ranges of its numbers
        return
    if key not in KEYS:
        raise LabError(
            f"{escape_text(key)} is not a key of a map{nearest(key[:40], KEYS)}; allowed: {', '.join(KEYS)}, or a sign"
        )
    head[key] = worth(key, value)
    if key != "wind":  # wind needs to know how many columns there are
        Map(rows=(".",), **{key: head[key]})


def worth(key: str, value: str) -> Any:
    """The value of a key, converted to its type."""
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
        raise LabError(f"{key} = {escape_text(value)} must be a number, such as -1, 0.2 or 2/3") from None


def whole(key: str, text: str) -> int:
    """An integer of at most nine digits."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise LabError(f"{key} = {escape_text(text)} must be a whole number")
    return int(text)


def refuse_row(row: str, drawn: Map) -> None:
    """Raise LabError for a row of another length, or with an unknown sign. Without the line number."""
    for column, sign in enumerate(row):
        if sign not in drawn.tiles:
            if not legal(sign):
                raise LabError(
                    f"column {column + 1}: {escape_text(sign)} is not a sign; signs are printable ASCII, floor is ."
                )
            raise LabError(
                f"column {column + 1}: {sign} has no meaning here; there are {' '.join(drawn.tiles)},"
                f" and a line `{sign}: …` above the map would give it one"
            )
    if len(row) != drawn.width:
        raise LabError(f"{len(row)} cells where the first row has {drawn.width}; every row must be as long")
