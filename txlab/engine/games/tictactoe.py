"""The rules of tic-tac-toe (MATH G1).

A position is nine numbers, row by row: 1 is X, −1 is O, 0 is free. The player to move follows from the number of signs,
since X begins. Nothing here depends on values, players or arrays.

>>> position = read("X.O/.X./..O")
>>> mover(position), legal(position)
(1, (1, 3, 5, 6, 7))
>>> text(after(position, 5))
'X.O/.XX/..O'
"""

from __future__ import annotations

from collections.abc import Mapping

from txlab.engine.games.game import FIRST, SECOND, Position, no_chances
from txlab.errors import LabError

NAME, TITLE = "tictactoe", "Tic-tac-toe"
chances = no_chances
SIGNS = ("X", "O")
MOST_POINTS = 1
PLACE, TAKEN, HOW = "square", "taken", "squares are 1 to 9, row by row"
SHOWCASE = ((0,), "only the centre does not lose")
MOVES: tuple[str, ...] = (
    "top left", "top", "top right",
    "left", "centre", "right",
    "bottom left", "bottom", "bottom right",
)  # fmt: skip
SIDE = 3

LINES = (
    (0, 1, 2), (3, 4, 5), (6, 7, 8),
    (0, 3, 6), (1, 4, 7), (2, 5, 8),
    (0, 4, 8), (2, 4, 6),
)  # fmt: skip
LINE_NAMES = (
    "the top row", "the middle row", "the bottom row",
    "the left column", "the middle column", "the right column",
    "a diagonal", "a diagonal",
)  # fmt: skip

# The source of each square of the image under the eight symmetries of the square: rotations, each also reflected.
TURN = (6, 3, 0, 7, 4, 1, 8, 5, 2)
MIRROR = (2, 1, 0, 5, 4, 3, 8, 7, 6)


def start() -> Position:
    return (0,) * 9


def mover(position: Position) -> int:
    """+1 (X) while there are as many X as O, −1 (O) otherwise."""
    return FIRST if sum(position) == 0 else SECOND


def winning_line(position: Position) -> tuple[int, ...] | None:
    """The three squares that won, or None if neither side has. If one move completes two lines, the first of them."""
    for line in LINES:
        if abs(position[line[0]] + position[line[1]] + position[line[2]]) == 3:
            return line
    return None


def outcome(position: Position) -> int | None:
    """+1 if X has three in a row, −1 if O has, 0 if no square is free; None until the game ends."""
    line = winning_line(position)
    if line is not None:
        return int(position[line[0]])
    return None if 0 in position else 0


def how_won(position: Position) -> str:
    """The lines that won: "the top row", "a diagonal", "the left column and a diagonal"."""
    won = [place for place, line in enumerate(LINES) if abs(sum(position[square] for square in line)) == SIDE]
    named = [LINE_NAMES[place] for place in won]
    return "two diagonals" if named == ["a diagonal"] * 2 else " and ".join(named)


def legal(position: Position) -> tuple[int, ...]:
    """The free squares, in order; none if the game has ended."""
    if winning_line(position) is not None:
        return ()
    return tuple(square for square in range(9) if position[square] == 0)


def after(position: Position, move: int) -> Position:
    """The position with the mover's sign on that square. LabError if it cannot be set there."""
    if move not in legal(position):
        where = MOVES[move] if 0 <= move < 9 else f"square {move}"
        raise LabError(f"{where} is not free; free are: {', '.join(MOVES[each] for each in legal(position)) or 'none'}")
    return (*position[:move], mover(position), *position[move + 1 :])


def images(position: Position) -> tuple[Position, ...]:
    """The eight images of this position under rotations and reflections, itself the first; some may be equal."""
    turns = []
    turned = position
    for _ in range(4):
        turns += [turned, tuple(turned[square] for square in MIRROR)]
        turned = tuple(turned[square] for square in TURN)
    return tuple(turns)


def name_of_move(position: Position, move: int) -> str:
    """ "centre", "top left" """
    return MOVES[move]


def name_of_place(square: int) -> str:
    return MOVES[square]


def ways(position: Position) -> Mapping[tuple[int, ...], int]:
    """The places of the board are its nine squares, row by row."""
    return {(square,): square for square in legal(position)}


def text(position: Position) -> str:
    """Three rows of X, O and ., separated by slashes."""
    signs = "".join({FIRST: "X", SECOND: "O", 0: "."}[sign] for sign in position)
    return "/".join(signs[row : row + SIDE] for row in (0, 3, 6))


def read(text: str) -> Position:
    """Parse a position such as X.O/.X./..O (slashes may be left out). LabError if no game leads to it."""
    signs = text.replace("/", "").upper()
    if len(signs) != 9 or set(signs) - set("XO."):
        raise LabError(f"{text!r} is not a position; write nine of X, O and ., row by row, as in X.O/.X./..O")
    position = tuple({"X": FIRST, "O": SECOND, ".": 0}[sign] for sign in signs)
    lines = {position[a] for a, b, c in LINES if abs(position[a] + position[b] + position[c]) == 3}
    # X begins: as many X as O, or one more; only the player who moved last can have a line
    if sum(position) not in (0, 1) or len(lines) > 1 or (lines and lines != {FIRST if sum(position) else SECOND}):
        raise LabError(f"{text!r} cannot come up: X and O move in turn, X first, and the game ends with three in a row")
    return position
