"""The rules of Connect Four on bitboards (MATH G3).

Seven columns of six squares; a stone falls to the lowest free square of its column, and four in a row win. A set of
stones is an integer: the square in `column` and `row` (0 the lowest) is bit 7 · column + row, and the seventh bit of
each column stays 0, so that no line continues from one column into the next. A position is (the first player's stones,
the second's). Functions of stones take ints as well as NumPy arrays of int64: the search calls them with arrays.

>>> position = read("4453")
>>> text(position)
'......./......./......./......./...O.../..OXX..'
>>> mover(position), legal(position)
(1, (0, 1, 2, 3, 4, 5, 6))
>>> outcome(read("1212121"))
1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from txlab.engine.games.game import FIRST, SECOND, Position, no_chances
from txlab.errors import LabError

NAME, TITLE = "connect-four", "Connect Four"
chances = no_chances
SIGNS = ("X", "O")
MOST_POINTS = 1
PLACE, TAKEN, HOW = "column", "full", "columns are 1 to 7, from the left"
RANDOM_MOVES = 2  # 49 openings
MOVES: tuple[str, ...] = tuple("1234567")
SHOWCASE = ((3, 3), "only the middle column wins")
COLUMNS, ROWS = 7, 6
SQUARES = COLUMNS * ROWS
STRIDE = ROWS + 1
DIRECTIONS = (1, STRIDE, STRIDE - 1, STRIDE + 1)
"""Steps between neighbours in a line: up, right, right and down, right and up."""

COLUMN = (1 << ROWS) - 1
BOTTOM = sum(1 << STRIDE * column for column in range(COLUMNS))
BOARD = BOTTOM * COLUMN

Stones = TypeVar("Stones", int, np.ndarray)
Moves: TypeAlias = Sequence[int]


def start() -> Position:
    return 0, 0


def has_four(stones: Stones) -> Stones:
    """Not 0 where four of the stones are in a row."""
    fours = stones & 0
    for step in DIRECTIONS:
        pairs = stones & (stones >> step)
        fours = fours | (pairs & (pairs >> 2 * step))
    return fours


def square_of(both: Stones, column: int | Stones) -> Stones:
    """The square (one bit) to which the next stone in that column falls; `both` are all stones, the column not full."""
    return (both + (1 << STRIDE * column)) & (COLUMN << STRIDE * column)


def open_columns(both: Stones) -> list[Stones]:
    """Of each column, not 0 where it is not full."""
    return [~both & (1 << (STRIDE * column + ROWS - 1)) for column in range(COLUMNS)]


def mirror(stones: Stones) -> Stones:
    """The stones with left and right exchanged."""
    mirror_image = stones & 0
    for column in range(COLUMNS):
        mirror_image = mirror_image | (((stones >> STRIDE * column) & COLUMN) << STRIDE * (COLUMNS - 1 - column))
    return mirror_image


def how_won(position: Position) -> str:
    """The lines of four on the board: "a column", "a row and a diagonal"."""
    lines = [
        name
        for step, name in zip(DIRECTIONS, ("a column", "a row", "a diagonal", "a diagonal"), strict=True)
        for stones in position
        if stones & stones >> step & stones >> 2 * step & stones >> 3 * step
    ]
    return "two diagonals" if lines == ["a diagonal"] * 2 else " and ".join(lines)


def plies(position: Position) -> int:
    """The number of stones on the board."""
    first, second = position
    return int(first | second).bit_count()


def mover(position: Position) -> int:
    """+1 (X, the first player) after an even number of moves, −1 (O) after an odd one."""
    return SECOND if plies(position) % 2 else FIRST


def own_and_both(position: Position) -> tuple[int, int]:
    """The stones of the player to move, and all stones: the input of the solver, the search and the network."""
    return position[plies(position) % 2], position[0] | position[1]


def outcome(position: Position) -> int | None:
    """+1 if the first player has four in a row, −1 the second, 0 if the board is full; None until the game ends."""
    first, second = position
    if has_four(first):
        return FIRST
    if has_four(second):
        return SECOND
    return 0 if first | second == BOARD else None


def legal(position: Position) -> tuple[int, ...]:
    """The columns that are not full, from the left; none if the game has ended."""
    if outcome(position) is not None:
        return ()
    return tuple(column for column, is_open in enumerate(open_columns(position[0] | position[1])) if is_open)


def after(position: Position, move: int) -> Position:
    """The position after a stone in that column. LabError if it is full, or the game has ended."""
    if move not in legal(position):
        allowed = ", ".join(MOVES[each] for each in legal(position)) or "none, the game has ended"
        raise LabError(f"column {move + 1} is not open; open are: {allowed}")
    first, second = position
    square = square_of(first | second, move)
    return (first | square, second) if mover(position) == FIRST else (first, second | square)


def images(position: Position) -> tuple[Position, ...]:
    """The position and its mirror image; they may be equal."""
    return position, (mirror(position[0]), mirror(position[1]))


def name_of_move(position: Position, move: int) -> str:
    """The column, "1" to "7"."""
    return MOVES[move]


def ways(position: Position) -> Mapping[tuple[int, ...], int]:
    """The places of the board are its seven columns."""
    return {(column,): column for column in legal(position)}


def winning_squares(position: Position) -> tuple[int, ...]:
    """The squares, as bits, of the lines of four on the board, in ascending order; empty if neither side has won."""
    squares = 0
    for stones in position:
        for step in DIRECTIONS:
            line = stones & stones >> step & stones >> 2 * step & stones >> 3 * step
            squares |= line | line << step | line << 2 * step | line << 3 * step
    return tuple(bit for bit in range(STRIDE * COLUMNS) if squares >> bit & 1)


def play(moves: Iterable[int]) -> Position:
    """The position after these moves from the start. LabError if one of them is not legal."""
    position = start()
    for number, move in enumerate(moves, 1):
        try:
            position = after(position, move)
        except LabError as error:
            raise LabError(f"move {number}: {error}") from error
    return position


def moves_text(moves: Iterable[int]) -> str:
    """A game as it is usually written: the columns, 1 … 7, in the order of the moves, "4453"."""
    return "".join(MOVES[move] for move in moves)


def read_moves(text: str) -> tuple[int, ...]:
    """The moves of such a line. LabError for any other sign, and for moves that are not legal."""
    written = "".join(text.split())
    wrong = next((sign for sign in written if sign not in MOVES), None)
    if wrong is not None:
        raise LabError(f"{wrong!r} in {text!r} is not a column; write the columns of the moves, 1 to 7, as in 4453")
    moves = tuple(map(MOVES.index, written))
    play(moves)
    return moves


def text(position: Position) -> str:
    """The six rows of X, O and ., the highest first, separated by slashes."""
    first, second = position
    rows = [[STRIDE * column + row for column in range(COLUMNS)] for row in reversed(range(ROWS))]
    return "/".join(
        "".join("X" if first >> bit & 1 else "O" if second >> bit & 1 else "." for bit in row) for row in rows
    )


def read(text: str) -> Position:
    """Parse a position, as rows of X, O and . (the highest first) or as the moves from the start, "4453".

    LabError if it is neither, or if no game leads to it.
    """
    signs = "".join(text.split()).replace("/", "").upper()
    if set(signs) <= set(MOVES):
        return play(read_moves(text))
    if len(signs) != SQUARES or set(signs) - set("XO."):
        raise LabError(
            f"{text!r} is not a position; write the moves from the start, as in 4453, "
            f"or six rows of seven of X, O and ., the highest first"
        )
    stones = {"X": 0, "O": 0}
    for place, sign in enumerate(signs):
        if sign != ".":
            row, column = divmod(place, COLUMNS)
            stones[sign] |= 1 << STRIDE * column + ROWS - 1 - row
    position = stones["X"], stones["O"]
    if history(position) is None:
        raise LabError(
            f"{text!r} cannot come up: stones fall to the lowest free square, X and O move in turn, X first, "
            "and the game ends with four in a row"
        )
    return position


def history(position: Position) -> tuple[int, ...] | None:
    """One order of moves from the start that leads to the position, or None if there is none."""
    first, second = position
    ahead = first.bit_count() - second.bit_count()
    both = first | second
    # In a column filled from below, adding its lowest square carries through all of its stones.
    if ahead not in (0, 1) or (both + BOTTOM) & both or (has_four(first) and has_four(second)):
        return None
    in_vain: set[int] = set()

    def undo(first: int, second: int) -> tuple[int, ...] | None:
        both = first | second
        if not both:
            return ()
        is_first = mover((first, second)) == SECOND
        if both in in_vain or has_four(second if is_first else first):
            return None
        for column in range(COLUMNS):
            square = top_of(both, column)
            if square & (first if is_first else second):
                before = undo(first & ~square, second & ~square)
                if before is not None:
                    return (*before, column)
        in_vain.add(both)
        return None

    return undo(first, second)


def top_of(both: int, column: int) -> int:
    """The highest stone of a column, as a bit; 0 if there is none."""
    stones = both & COLUMN << STRIDE * column
    return 1 << stones.bit_length() - 1 if stones else 0
