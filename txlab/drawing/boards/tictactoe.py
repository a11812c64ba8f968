"""Tic-tac-toe: marks as large as fit, numbers on the free squares. A place of the board is a square, row by row."""

from __future__ import annotations

from txlab.drawing.boards import BoardPiece, BoardView, Kind, sign_of, turn_words, value_text
from txlab.drawing.boards.canvas import Canvas
from txlab.drawing.formatting import plain
from txlab.engine.games.game import FIRST
from txlab.engine.games.tictactoe import LINES, SIDE

CENTRE = 4


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


def lines(view: BoardView, columns: int, rows: int, ascii: bool) -> list[list[BoardPiece]]:
    wide, high = cell_size(columns, rows)
    canvas = Canvas(SIDE * (wide + 1) - 1, SIDE * (high + 1) - 1, ascii)
    upright, flat, cross = ("|", "-", "+") if ascii else ("│", "─", "┼")
    for row in range(len(canvas.cells)):
        between = (row + 1) % (high + 1) == 0
        text = cross.join([flat * wide] * SIDE) if between else upright.join([" " * wide] * SIDE)
        canvas.write(text, row, 0, "wall")
    won = {place for line in LINES if abs(sum(view.position[each] for each in line)) == SIDE for place in line}
    for place in range(SIDE * SIDE):
        square(canvas, view, place, (wide, high), place in won)
    return canvas.lines()


def square(canvas: Canvas, view: BoardView, place: int, cell: tuple[int, int], won: bool) -> None:
    """Draw one square: its mark, or the value of a move there."""
    wide, high = cell
    ascii, side, value = canvas.ascii, view.position[place], view.values.get(place)
    top, left = place // SIDE * (high + 1), place % SIDE * (wide + 1)
    middle, value = top + high // 2, None if side else value

    def centre(text: str, row: int, kind: Kind) -> None:
        canvas.centre(text, row, left, wide, kind)

    canvas.area(top, left, high, wide, place, None if value is None else max(-1.0, min(value, 1.0)))
    if place == view.cursor and high > 1:
        for row, pair in ((top, "++" if ascii else "┏┓"), (top + high - 1, "++" if ascii else "┗┛")):
            canvas.write(pair[0], row, left, "here")
            canvas.write(pair[1], row, left + wide - 1, "here")
    elif place == view.cursor and wide > 2:
        canvas.write(">" if ascii else "▸", middle, left, "here")
        canvas.write("<" if ascii else "◂", middle, left + wide - 1, "here")
    if side:
        sign, kind = sign_of(view.game, side), "won" if won else "first" if side == FIRST else "second"
        if high >= 5 and wide >= 2 * (high - 2) - 1:
            tall = high - 2 if high < 9 else high - 4
            broad = min(2 * tall + 1, wide)
            start, units = left + (wide - broad) // 2, canvas.units
            shape = "cross" if side == FIRST else "ring"
            canvas.shape(
                shape, (top + (high - tall) // 2) * units, start * units, tall * units, broad * units, kind, sign
            )
        else:
            centre(sign, middle, kind)
        if won and high >= 3:
            long = 5 if high < 5 else 2 * high - 3 if high < 9 else 2 * high - 7
            centre(("=" if ascii else "━") * min(long, wide - 2), top + high - (1 if high < 9 else 2), "won")
        if place in view.moves and high >= 3:
            order = str((place if view.numbered else list(view.moves).index(place)) + 1)
            canvas.write(order, top, left + wide - 1 - len(order), "here" if place == view.last else "quiet")
        return
    mover = view.game.mover(view.position)
    if place == view.cursor and high > 1 and view.game.outcome(view.position) is None:
        centre(sign_of(view.game, mover), top, "here")
    hint, number = "*" if ascii else "◆", ""
    if value is not None:  # one decimal, or nothing: never a part of the digits
        number = next((text for digits in (2, 1) if len(text := value_text(value, digits)) <= wide), "")
        centre(plain(number) if ascii else number, middle, "value")
        note = view.notes.get(place, "")
        if high >= 3:
            centre(note, middle + 1, "quiet")
    if view.numbered and value is not None and high >= 3:
        canvas.write(str(place + 1), top, left + wide - 2, "quiet")
    elif view.numbered:
        centre(str(place + 1), middle, "quiet")
    if place in view.hinted and (high >= 3 or not number):
        centre(hint, middle - (high >= 3), "here")


def step(cursor: int, down: int, right: int, view: BoardView) -> int:
    row, column = divmod(cursor, SIDE)
    return max(0, min(row + down, SIDE - 1)) * SIDE + max(0, min(column + right, SIDE - 1))


def first_place(view: BoardView) -> int:
    return CENTRE


def sentence(view: BoardView) -> str:
    """ "O to move; X . . / . O . / . . X" """
    rows = (" ".join(row) for row in view.game.text(view.position).split("/"))
    return f"{turn_words(view)}; {' / '.join(rows)}"
