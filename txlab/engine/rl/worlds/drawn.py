"""A map as a person draws it: rows of signs, what the signs mean, and how one moves.

Notable: a map may be impossible (no start, a goal behind walls) while somebody draws it; `compile_map` says so. But it
is always rectangular, of legal signs that have a meaning, and small: that is checked when it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from txlab.engine.rl.worlds.moves import MOVES, Moves
from txlab.engine.rl.worlds.tiles import (
    FIXED,
    TILES,
    Tile,
    legal,
    number_text,
    refuse_contradiction,
    shown,
    tile_text,
)
from txlab.errors import LabError, nearest

MOST_CELLS = 20_000
MOST_SIDE = 400
STRONGEST_WIND = 9
MOST_LIMIT = 10_000_000
LARGEST_REWARD = 1e9
LONGEST_TITLE = 120

Starts = Literal["one", "any", "everywhere"]
STARTS: tuple[Starts, ...] = get_args(Starts)

OWN = "123456789abdefhijklmnopqrtuvwxyzABDEFIJKLMNOPQRTUVWXYZ"
"""Signs that an edit may give a meaning of its own, in the order in which they are taken."""


@dataclass(frozen=True)
class Map:
    """rows      of equal length, a sign a cell
    signs     what the map's own signs mean; those of TILES need no mention
    moves     "4", "king" (8), "king-stay" (9) or "sideways" (left and right)
    slip      probability of going to one of the two sides of the move instead, evenly
    wind      for each column, how many cells whoever leaves it is blown up (down, if negative); () = none
    gusts     probability that a wind is one cell stronger or weaker, evenly (S&B exercise 6.10: 2/3)
    step      reward of a move       bump   of a move that a wall or the edge stops where one was; None = as any move
    discount  γ       limit   steps after which an episode is cut off; 0 = never
    start     "one": in the one cell that is a start; "any": evenly in all of them; "everywhere": in any state
    title     one line

    LabError where a number is outside its range, or the rows are no rectangle of signs that mean something.
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
        """What each sign means, the common ones and the map's own."""
        return {**TILES, **self.signs}

    def tile(self, row: int, column: int) -> Tile:
        return self.tiles[self.rows[row][column]]

    def text(self) -> str:
        """The text that `parse_map` reads as this map: a head of `key: value`, an empty line, the rows."""
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

    # Edits: each gives a new map, which is rectangular and of known signs like any other.

    def with_cell(self, row: int, column: int, sign: str) -> Map:
        """With that sign in that cell: "." floor, "#" wall, "G" goal, "H" hole, "C" cliff, an own one. A start ("S")
        takes the place of the one there was, unless `start` says that there may be several."""
        self.refuse_place(row, column)
        if sign not in self.tiles:
            raise LabError(f"{shown(sign)} is not a sign of this map; it has {' '.join(self.tiles)}")
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
        """With `reward` for arriving in that cell, in place of the step reward; what else the cell does stays.

        A cell of a sign that others have too is given a sign of its own, whose meaning comes into the head.
        """
        self.refuse_place(row, column)
        old = self.tile(row, column)
        if old.wall:
            raise LabError(f"({row},{column}) is a wall, in which nobody arrives; rewards go on other cells")
        wanted = replace(old, pays=float(reward), adds=0.0)
        used = set("".join(self.rows))
        found = next((sign for sign, tile in self.tiles.items() if tile == wanted), None)
        if found is None:
            sources = {t for tile in self.tiles.values() for t in (tile.leads, tile.leaving_leads)}
            free = [s for s in OWN if s not in TILES and s not in used and s not in sources]
            if not free:
                raise LabError(f"all {len(OWN)} signs for cells with rewards of their own are in use")
            found = next((s for s in free if s not in self.signs), free[0])
        rows = list(self.rows)
        rows[row] = rows[row][:column] + found + rows[row][column + 1 :]
        signs = self.signs if self.tiles.get(found) == wanted else {**self.signs, found: wanted}
        return replace(self, rows=tuple(rows), signs=signs)

    def with_slip(self, slip: float) -> Map:
        return replace(self, slip=float(slip))

    def refuse_place(self, row: int, column: int) -> None:
        if not (0 <= row < self.height and 0 <= column < self.width):
            raise LabError(f"({row},{column}) is outside the map of {self.height} rows and {self.width} columns")


def refuse_numbers(drawn: Map) -> None:
    """LabError for a number of the head that is out of its range, naming the key."""
    for key in ("slip", "gusts", "discount"):
        if not 0 <= getattr(drawn, key) <= 1:
            raise LabError(f"{key} = {getattr(drawn, key):g} must be from 0 to 1")
    rewards = [("step", drawn.step), ("bump", drawn.bump or 0.0)]
    rewards += [(sign, n) for sign, t in drawn.signs.items() for n in (t.pays, t.adds, t.leaving_pays) if n is not None]
    for key, value in rewards:
        if not abs(value) <= LARGEST_REWARD:  # not a number is refused too
            raise LabError(f"{key}: the reward {value:g} must be from −{LARGEST_REWARD:g} to {LARGEST_REWARD:g}")
    if not 0 <= drawn.limit <= MOST_LIMIT:
        raise LabError(f"limit = {drawn.limit} must be from 0 (never) to {MOST_LIMIT}")
    for key, allowed in (("moves", MOVES), ("start", STARTS)):
        given = getattr(drawn, key)
        if given not in allowed:
            raise LabError(f"{key} = {shown(given)} is unknown{nearest(given, allowed)}; allowed: {', '.join(allowed)}")
    title = drawn.title
    if len(title) > LONGEST_TITLE or not title.isprintable() or title != " ".join(title.split()):
        raise LabError(f"title must be one printable line of at most {LONGEST_TITLE} characters, with single spaces")


def refuse_rows(drawn: Map) -> None:
    """LabError where the rows are no rectangle of signs that mean something, or the wind has not a number a column."""
    if not drawn.rows or not drawn.rows[0]:
        raise LabError("a map needs at least one row with one cell")
    refuse_size(len(drawn.rows), max(len(row) for row in drawn.rows))
    for sign, tile in drawn.signs.items():
        if not legal(sign) or sign in FIXED:
            raise LabError(
                f"{shown(sign)} cannot be given a meaning: a sign is one printable ASCII character, not . # : ,"
            )
        refuse_contradiction(tile)
    known = drawn.tiles
    for r, row in enumerate(drawn.rows):
        if len(row) != drawn.width:
            raise LabError(f"row {r} of the map has {len(row)} cells where the first has {drawn.width}")
        for sign in sorted(set(row) - set(known)):
            raise LabError(
                f"({r},{row.index(sign)}): {shown(sign)} has no meaning in this map; it has {' '.join(known)}"
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
