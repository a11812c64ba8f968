"""Tic-tac-toe as characters and words: marks as large as fit, numbers on the free squares, the state of a game.

A mark is a region of the plane, not a bitmap, so it is drawn as sharply as the cells allow: two half blocks per cell,
or letters in ASCII. Whatever a colour says is also said without it: the winning marks are underlined, the cursor has
corners, a value is a number. A game is stored as the list of its moves only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import cos, hypot, radians, sin
from typing import Literal

from txlab.drawing.formatting import minus, plain, share
from txlab.drawing.palette import BLUE, BRIGHT_BLUE, BRIGHT_YELLOW, RED, RGB, Colours, contrast, cube, oklab_to_rgb
from txlab.engine.games import tictactoe
from txlab.engine.games.game import Position
from txlab.engine.games.perfect_play import Solution, verdict

Kind = Literal["wall", "blank", "corner", "mark", "under", "number", "note", "hint", "order"]
SIDE = 3
HALVES = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
THICK = {"X": 0.19, "O": 0.34}  # stroke width relative to half the mark; judged by eye from 3 to 15 rows


@dataclass(frozen=True)
class Square:
    """sign      "X", "O" or "" for a free one
    number    the text on a free square; `note` is shown below it where there is room
    merit     −1 … 1: how good it is to move there, for its colour; None if unknown
    order     the number of the move that put the mark there; `last`: it is the newest
    won       whether it is part of a winning line
    here      whether the cursor is on it; `hinted`: whether it is a suggested move
    """

    sign: str = ""
    number: str = ""
    note: str = ""
    merit: float | None = None
    order: str = ""
    last: bool = False
    won: bool = False
    here: bool = False
    hinted: bool = False


@dataclass(frozen=True)
class BoardPiece:
    """A piece of a line: the square it belongs to (−1: a grid line), and its kind."""

    text: str
    square: int
    kind: Kind


def cell_size(columns: int, rows: int) -> tuple[int, int]:
    """Return (width, height) of a square in cells: the largest that fits, odd, about twice as wide as high; height ≥ 1.

    >>> cell_size(44, 20), cell_size(80, 36), cell_size(11, 5)
    ((11, 5), (23, 11), (3, 1))
    """
    high = max(1, (rows - SIDE + 1) // SIDE)
    high -= 1 - high % 2
    room = max(1, (columns - SIDE + 1) // SIDE)
    while high > 1 and 2 * high - 1 > room:
        high -= 2
    wide = min(2 * high + 1 if high > 1 else 5, room)
    return max(1, wide - (1 - wide % 2)), high


def board_size(cell: tuple[int, int]) -> tuple[int, int]:
    """Return (columns, rows) of a board of such squares, including the grid lines."""
    return SIDE * cell[0] + SIDE - 1, SIDE * cell[1] + SIDE - 1


def inside(sign: str, x: float, y: float) -> bool:
    """Whether a point of [−1, 1]² lies in the mark: X is where ||x| − |y|| is small, O where x² + y² is near 1."""
    if sign == "X":
        return abs(abs(x) - abs(y)) <= THICK["X"] * 1.42
    return 1 - THICK["O"] <= hypot(x, y) <= 1.03


@cache
def mark(sign: str, wide: int, high: int, ascii: bool = False) -> tuple[str, ...]:
    """Draw a mark in `wide` × `high` cells.

    >>> mark("X", 5, 3, ascii=True)
    ('X   X', '  X  ', 'X   X')
    """
    down = high if ascii else 2 * high

    def at(column: int, row: int) -> bool:
        x = 2 * (column + 0.5) / wide - 1
        y = 2 * (row + 0.5) / down - 1
        return inside(sign, x, y)

    lines = []
    for row in range(high):
        if ascii:
            lines.append("".join(sign if at(column, row) else " " for column in range(wide)))
        else:
            lines.append("".join(HALVES[at(column, 2 * row), at(column, 2 * row + 1)] for column in range(wide)))
    return tuple(lines)


def lines_of_board(squares: Sequence[Square], cell: tuple[int, int], ascii: bool = False) -> list[list[BoardPiece]]:
    """Draw the nine squares, row by row, with grid lines between them."""
    wide, high = cell
    upright, flat, cross = ("|", "-", "+") if ascii else ("│", "─", "┼")
    drawn = [square_lines(square, place, wide, high, ascii) for place, square in enumerate(squares)]
    lines: list[list[BoardPiece]] = []
    for row in range(SIDE):
        if row:
            lines.append([BoardPiece(cross.join([flat * wide] * SIDE), -1, "wall")])
        for y in range(high):
            line: list[BoardPiece] = []
            for column in range(SIDE):
                line += [BoardPiece(upright, -1, "wall")] if column else []
                line += drawn[row * SIDE + column][y]
            lines.append(line)
    return lines


def square_lines(square: Square, place: int, wide: int, high: int, ascii: bool) -> list[list[BoardPiece]]:
    """Draw one square as `high` lines of `wide` cells."""
    lines = [[" "] * wide for _ in range(high)]
    kinds: list[list[Kind]] = [["blank"] * wide for _ in range(high)]

    def write(text: str, row: int, column: int, kind: Kind) -> None:
        for at, sign in enumerate(text, column):
            if 0 <= at < wide:
                lines[row][at], kinds[row][at] = sign, kind

    def centre(text: str, row: int, kind: Kind) -> None:
        write(text, row, (wide - len(text) + 1) // 2, kind)

    if square.here:
        if high == 1:
            for column, sign in ((0, ">" if ascii else "▸"), (wide - 1, "<" if ascii else "◂")):
                write(sign, 0, column, "corner") if wide >= 3 else None
        else:
            for row, pair in ((0, "++" if ascii else "┏┓"), (high - 1, "++" if ascii else "┗┛")):
                write(pair[0], row, 0, "corner")
                write(pair[1], row, wide - 1, "corner")
    middle = high // 2
    if square.sign and high >= 5 and wide >= 2 * (high - 2) - 1:
        tall = high - 2 if high < 9 else high - 4
        shape = mark(square.sign, min(2 * tall + 1, wide), tall, ascii)
        for row, text in enumerate(shape, (high - tall) // 2):
            centre(text, row, "mark")
    elif square.sign:
        centre(square.sign, middle, "mark")
    elif square.number:
        number = square.number
        if len(number) > wide:  # one decimal, or nothing: never a part of the digits
            number = "" if square.merit is None else value_text(square.merit, 1)
            number = number if len(number) <= wide else ""
        centre(plain(number) if ascii else number, middle, "number")
        if square.note and high >= 3 and len(square.note) <= wide:
            centre(square.note, middle + 1, "note")
    if square.won and high >= 3:
        long = 5 if high < 5 else 2 * high - 3 if high < 9 else 2 * high - 7
        centre(("=" if ascii else "━") * min(long, wide - 2), high - 1 if high < 9 else high - 2, "under")
    if square.order and high >= 3:
        write(square.order, 0, wide - 1 - len(square.order), "order")
    if square.hinted and not square.sign:
        if high >= 3:
            centre("*" if ascii else "◆", middle - 1, "hint")
        elif not square.number:
            centre("*" if ascii else "◆", middle, "hint")
    return [joined(texts, row, place) for texts, row in zip(lines, kinds, strict=True)]


def joined(signs: Sequence[str], kinds: Sequence[Kind], place: int) -> list[BoardPiece]:
    """Merge neighbours of one kind into one piece."""
    pieces: list[BoardPiece] = []
    for sign, kind in zip(signs, kinds, strict=True):
        if pieces and pieces[-1].kind == kind:
            pieces[-1] = BoardPiece(pieces[-1].text + sign, place, kind)
        else:
            pieces.append(BoardPiece(sign, place, kind))
    return pieces


# The value of a move as a colour: blue for losing, amber for winning, the surface itself in between. The hues are
# colour-blind safe; the lightness changes with the magnitude, so that a large value stands out in any case.
STEPS = 12
BAD_256, GOOD_256 = ["g02", "001", "002", "012", "013", "014"], ["g02", "100", "210", "310", "420", "430"]
BAD_LIGHT_256, GOOD_LIGHT_256 = ["555", "445", "345", "245", "234", "134"], ["555", "554", "543", "542", "532", "530"]


def tint(merit: float, colours: Colours, dark: bool) -> tuple[RGB | None, RGB | None]:
    """Return (background, ink) for a value in [−1, 1]; None = the surface's own."""
    size = min(1.0, abs(merit))
    if colours == "none" or size < 0.5 / STEPS:
        return None, None
    good = merit > 0
    if colours == "16":
        return None, (BRIGHT_YELLOW if good else BRIGHT_BLUE) if dark else (RED if good else BLUE)
    if colours == "256":
        known = (GOOD_256 if good else BAD_256) if dark else (GOOD_LIGHT_256 if good else BAD_LIGHT_256)
        fill = cube(known[min(len(known) - 1, 1 + int(size * (len(known) - 1)))])
        return fill, contrast(fill)
    level = round(size * STEPS) / STEPS
    hue = 70.0 if good else 255.0
    lightness, chroma = (0.24 + 0.26 * level, 0.02 + 0.09 * level) if dark else (0.97 - 0.2 * level, 0.02 + 0.1 * level)
    fill = oklab_to_rgb(lightness, chroma * cos(radians(hue)), chroma * sin(radians(hue)))
    return fill, contrast(fill)


# A game in words.

ROWS = ("the top row", "the middle row", "the bottom row")
COLUMNS = ("the left column", "the middle column", "the right column")
SIGN = {1: "X", -1: "O", 0: ""}


def position_of(moves: Sequence[int]) -> Position:
    """Return the position that the moves lead to."""
    position = tictactoe.start()
    for move in moves:
        position = tictactoe.after(position, move)
    return position


def winning_squares(position: Position) -> tuple[int, ...]:
    """Return the squares of all winning lines (one move may complete two)."""
    lines = [line for line in tictactoe.LINES if abs(sum(position[square] for square in line)) == 3]
    return tuple(sorted({square for line in lines for square in line}))


def line_words(position: Position) -> str:
    """Describe the winning lines: "the top row", "a diagonal", "the left column and a diagonal"."""
    won = [line for line in tictactoe.LINES if abs(sum(position[square] for square in line)) == 3]
    named = []
    for line in won:
        place = tictactoe.LINES.index(line)
        named.append(ROWS[place] if place < 3 else COLUMNS[place - 3] if place < 6 else "a diagonal")
    return "two diagonals" if named == ["a diagonal"] * 2 else " and ".join(named)


def value_text(value: float, digits: int = 2) -> str:
    """Format a value in [−1, 1] with its sign: "+.62", "−.31", ".00", "+1"."""
    if abs(value) >= (0.9995 if digits > 1 else 0.95):
        return minus(f"{value:+.0f}")
    text = share(value, digits)
    if float(plain(text)) == 0:
        return text.lstrip("−")
    return text if text.startswith("−") else f"+{text}"


def leads_to(solution: Solution, position: Position, move: int) -> str:
    """Describe the outcome of a move with best play: "X wins in 2 moves", "a draw with best play", "O has won"."""
    return verdict(solution, tictactoe.after(position, move))


def note_of(solution: Solution, position: Position, move: int) -> str:
    """Describe the outcome for the mover, short enough for a square: "wins", "wins in 3", "draws", "loses in 2"."""
    reached = tictactoe.after(position, move)
    n = solution.graph.numbered(reached)
    value = int(solution.value[n]) * tictactoe.mover(position)
    if value == 0:
        return "draws"
    plies = int(solution.distance[n])
    if plies == 0:
        return "wins"
    own = (plies + 1) // 2
    return f"wins in {own + 1}" if value > 0 else f"loses in {own}"


def hints(solution: Solution, position: Position) -> list[int]:
    """Return the moves of best play, the quickest win or the slowest loss first."""
    graph, mover = solution.graph, tictactoe.mover(position)
    moves = dict(graph.moves(graph.numbered(position)))
    best = max(int(solution.value[n]) * mover for n in moves.values())
    kept = [move for move, n in moves.items() if int(solution.value[n]) * mover == best]
    plies = {move: int(solution.distance[moves[move]]) for move in kept}
    wanted = min(plies.values()) if best > 0 else max(plies.values())
    return [move for move in kept if plies[move] == wanted] if best else kept


def squares_of(
    moves: Sequence[int],
    values: Mapping[int, float] | None = None,
    notes: Mapping[int, str] | None = None,
    hinted: Sequence[int] = (),
) -> list[Square]:
    """Return the nine squares: marks with the number of their move, values and notes on the free ones."""
    position = position_of(moves)
    won = winning_squares(position)
    squares = []
    for place, sign in enumerate(position):
        if sign:
            order = list(moves).index(place) + 1
            last = order == len(moves)
            squares.append(Square(SIGN[sign], order=str(order), last=last, won=place in won))
            continue
        value = None if values is None else values.get(place)
        number = "" if value is None else value_text(value)
        note = "" if notes is None else notes.get(place, "")
        squares.append(Square("", number, note, value, hinted=place in hinted))
    return squares


def ended_words(position: Position, you: int | None) -> str:
    """Describe how the game ended for the player on side `you` (+1 X, −1 O, None: a spectator)."""
    result = tictactoe.outcome(position)
    if result is None:
        return ""
    if result == 0:
        return "drawn: no square is free"
    sign, line = SIGN[result], line_words(position)
    if you is None:
        return f"{sign} has won: {line}"
    return f"you have won: {line}" if result == you else f"you have lost: {sign} has {line}"
