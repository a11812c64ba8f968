"""The layout of a backgammon board: its dimensions in the available room, and its places.

A spot is a slot, 0 … 5 and 7 … 12 for the points from the left, 6 for the bar, 13 for the trays, in the upper or the
lower half. The side at the bottom has its home at the lower right, and enters from the bar into the upper half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from txlab.drawing.boards import BoardView
from txlab.engine.games.backgammon.rules import BAR, OFF, Side, Steps, step

Hops: TypeAlias = list[tuple[int, int]]
TRAY, WIDEST_TRAY = 12, 27  # cells of the right column: two dice with a gap fit in both
LARGEST = 20  # half rows of a checker
STACK = 5  # the number of checkers on a point that sets their size


@dataclass(frozen=True)
class Layout:
    """All in cells, except `high`, of a checker, in units: half rows, or whole ones in ASCII; 0: a letter."""

    wide: int  # of a point
    bar: int
    tray: int
    half: int  # rows of checkers in each half
    middle: int  # rows between the halves
    high: int
    units: int

    @property
    def columns(self) -> int:
        return 5 + 12 * self.wide + self.bar + self.tray

    @property
    def rows(self) -> int:
        return 2 + 2 * self.half + self.middle

    @property
    def pitch(self) -> int:
        return self.high + 1 if self.high else self.units

    @property
    def most(self) -> int:
        """Checkers that fit on a point."""
        return (self.half * self.units + (1 if self.high else 0)) // self.pitch

    def top(self, upper: bool, number: int) -> int:
        """The first unit of the checker with that number, 0 at the edge of the board."""
        edge = self.units if upper else (self.rows - 1) * self.units - (self.high or self.units)
        return edge + (number if upper else -number) * self.pitch

    def tip(self, upper: bool) -> int:
        """The row for marks, next to the points' tips."""
        return self.half + 1 if upper else self.half + self.middle

    def left(self, slot: int) -> int:
        """The first column of a slot: 0 … 5 and 7 … 12 are points from the left, 6 is the bar, 13 the tray."""
        if slot < 7:
            return 1 + slot * self.wide + (slot > 5)
        return 3 + (slot - 1) * self.wide + self.bar + (slot > 12)

    def width(self, slot: int) -> int:
        return self.bar if slot == 6 else self.tray if slot == 13 else self.wide


def layout(columns: int, rows: int, ascii: bool) -> Layout | None:
    """The largest board of this room; None if there is too little for one."""
    units = 1 if ascii else 2
    room = (columns - 8 - TRAY) // 12
    half = (rows - 4) // 2
    if room < 2 or half < 3:
        return None
    fits = [high for high in range(2, LARGEST + 1) if STACK * (high + 1) - 1 <= half * units and high < room]
    high = fits[-1] if fits else 0
    wide = min(room, max(5, high + 1) if not ascii else max(5, 2 * high + 2))
    half = min(half, -(-STACK * (high + 1) // units) + 1) if high else min(half, 9)
    bar = max(3, min(wide, columns - 5 - TRAY - 12 * wide))
    tray = max(TRAY, min(WIDEST_TRAY, columns - 5 - 12 * wide - bar, 2 * wide + 9))
    return Layout(wide, bar, tray, half, 2 + (rows - 4 - 2 * half > 0), high, units)


@dataclass(frozen=True)
class Table:
    """The checkers, from the view of the side at the bottom; each step of a move is applied once it is chosen.

    sides       the 25 counts of each side, from its own view
    turn, dice  of the position
    mover       the side whose places are meant: 1 or −1
    used        played dice
    hops        (from, to) of the last move; hopped: its side
    """

    bottom: int
    sides: dict[int, Side]
    turn: int
    dice: tuple[int, ...]
    used: tuple[int, ...]
    hops: Hops
    hopped: int

    @property
    def mover(self) -> int:
        return self.turn or self.bottom

    def spot(self, side: int, place: int) -> tuple[int, bool]:
        """(slot, whether in the upper half) of a place of that side."""
        if place in (BAR, OFF):
            return (6, side == self.bottom) if place == BAR else (13, side != self.bottom)
        point = place if side == self.bottom else 23 - place
        return (12 - point - (point > 5), False) if point < 12 else (point - 12 + (point > 17), True)

    def place(self, slot: int, upper: bool) -> int | None:
        """The place of the player to move at a spot; None if it is not one."""
        places = [place for place in range(OFF, BAR + 1) if self.spot(self.mover, place) == (slot, upper)]
        return places[0] if places else None


def table(view: BoardView) -> Table:
    turn, dice, own, other = view.position
    side = turn or view.bottom
    board, used, left = (own, other), [], sorted(dice * (2 if len(set(dice)) == 1 else 1))
    for start, to in zip(view.chosen[::2], view.chosen[1::2], strict=False):
        board = step(board, start, start - to) or board
        die = next((die for die in left if die == start - to or (to == OFF and die > start)), start - to)
        used.append(die)
        if die in left:
            left.remove(die)
    hopped = view.before[0] if view.before is not None else 0
    hops = hops_of(view.last) if hopped and view.last else []
    return Table(view.bottom, {side: board[0], -side: board[1]}, turn, dice, tuple(used), hops, hopped)


def hops_of(steps: Steps) -> Hops:
    return [(start, max(start - die, OFF)) for start, die in steps]
