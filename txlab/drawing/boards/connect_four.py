"""Connect Four: discs as large as fit, the next one above its column, and a search's numbers below each column.

The first player's discs are full, the second's are rings. A place of the board is a column.
"""

from __future__ import annotations

from dataclasses import dataclass

from txlab.drawing.boards import BoardPiece, BoardView, Kind, turn_words, value_text
from txlab.drawing.boards.canvas import Canvas, mark_size
from txlab.drawing.formatting import plain, share
from txlab.engine.games.connect_four.rules import COLUMNS, ROWS, STRIDE, square_of, winning_squares
from txlab.engine.games.game import FIRST, SECOND

LEAST_COLUMNS = 45  # for discs
BARS = " ▁▂▃▄▅▆▇█"
LARGEST, MOST_BAR = 40, 5  # units of height of a disc; rows of a bar


@dataclass(frozen=True)
class Layout:
    """high, wide   of a disc, in units of height (half rows, or whole ones in ASCII) and in cells; 1, 1: a letter
    step         cells from column to column
    spare        rows below the board
    """

    high: int
    wide: int
    step: int
    units: int
    spare: int = 0

    @property
    def pitch(self) -> int:
        """Units from row to row."""
        return self.high + 1 if self.high > 1 else self.units

    @property
    def columns(self) -> int:
        return COLUMNS * self.step + 3

    @property
    def top(self) -> int:
        """Rows above the board, for the next disc."""
        return -(-self.pitch // self.units)

    @property
    def floor(self) -> int:
        """The row of the columns' numbers."""
        return self.top - (-ROWS * self.pitch // self.units)

    def row_of(self, row: int) -> tuple[int, int]:
        """The first unit of a square's disc, and the row of cells in its middle; row 0 is the lowest, 6 above."""
        first = self.top * self.units + (ROWS - 1 - row) * self.pitch if row < ROWS else 0
        return first, (first + self.high // 2) // self.units

    def left(self, column: int) -> int:
        return 1 + column * self.step + (self.step - self.wide + 1) // 2


def layout(columns: int, rows: int, ascii: bool) -> Layout:
    """The largest board of this room; 17 × 8 cells at least."""
    units = 1 if ascii else 2
    for high in range(LARGEST, 1, -1):
        wide = 2 * high + 1 if ascii else max(5, high | 1)  # odd, so that a text has a middle; room for a value
        size = Layout(high, wide, wide + 1, units)
        if size.columns <= columns and size.floor + (5 if high > 5 else 3) <= rows:
            break
    else:
        size = Layout(1, 1, max(2, min(5, (columns - 3) // COLUMNS)), units)
    return Layout(size.high, size.wide, size.step, units, max(0, rows - size.floor - 1))


def lines(view: BoardView, columns: int, rows: int, ascii: bool) -> list[list[BoardPiece]]:
    at, game, position = layout(columns, rows, ascii), view.game, view.position
    notes = max((len(parts_of(view, column, at)) for column in view.notes), default=0)
    bar = max(0, min(MOST_BAR, at.spare - 2 - notes))
    used = at.floor + 1 + min(at.spare, 2 + bar + notes)
    canvas = Canvas(at.columns, used, ascii)
    upright, flat, corners = ("|", "-", "++") if ascii else ("│", "─", "└┘")
    for row in range(at.top, at.floor):
        canvas.write(upright, row, 0, "wall")
        canvas.write(upright, row, at.columns - 1, "wall")
    canvas.write(corners[0] + flat * (at.columns - 2) + corners[1], at.floor, 0, "wall")
    for column in range(COLUMNS):
        canvas.area(0, 1 + column * at.step, used, at.step, column)

    won, last = winning_squares(position), last_square(view)
    landing = {column: square_of(position[0] | position[1], column).bit_length() - 1 for column in game.legal(position)}
    for bit in (STRIDE * column + row for column in range(COLUMNS) for row in range(ROWS)):
        column, row = divmod(bit, STRIDE)
        side = FIRST if position[0] >> bit & 1 else SECOND if position[1] >> bit & 1 else 0
        disc(canvas, at, column, row, side, "won" if bit in won else "first" if side == FIRST else "second")
        if at.high == 1 and side:
            if bit in won:
                sign = ("#@" if ascii else "◆◇")[side == SECOND]
                canvas.write(sign, at.row_of(row)[1], at.left(column), "won")
            elif bit == last and at.step > 2:
                canvas.write("( )", at.row_of(row)[1], at.left(column) - 1, "here")
        elif bit in won:
            mark(canvas, at, column, row, side, "diamond", "*" if ascii else "★")
        elif bit == last:
            mark(canvas, at, column, row, side, "disc", "." if ascii else "•")
        elif column in view.hinted and landing.get(column) == bit:
            mark(canvas, at, column, row, side, "diamond", "*" if ascii else "◆")
    mover = game.mover(position)
    words, middle = turn_words(view), at.row_of(ROWS)[1]
    if view.cursor in landing:
        disc(canvas, at, view.cursor, ROWS, mover, "first" if mover == FIRST else "second")
        left = at.left(view.cursor)
        canvas.write(words, middle, left - 1 - len(words) if view.cursor > 3 else left + at.wide + 1, "value")
    else:
        canvas.centre(words, middle, 0, at.columns, "value")
    for column in range(COLUMNS):
        below(canvas, at, view, column, bar)
    if view.shares:  # of a search: the names of its numbers
        canvas.write("Q", at.floor + 1, 0, "quiet")
        canvas.write("N", at.floor + 2 + bar, 0, "quiet")
    return canvas.lines()


def disc(canvas: Canvas, at: Layout, column: int, row: int, side: int, kind: Kind) -> None:
    top, middle = at.row_of(row)
    letter = "X" if side == FIRST else "O" if side == SECOND else "."
    if at.high == 1:
        sign = letter if canvas.ascii else "●" if side == FIRST else "○" if side == SECOND else "·"
        canvas.write(sign, middle, at.left(column), kind if side else "quiet")
    elif side or not canvas.ascii:
        name = "ring" if side == SECOND and not canvas.ascii else "disc"  # in ASCII the letter differs
        left, wide = at.left(column) * at.units, at.wide * at.units
        canvas.shape(name, top, left, at.high, wide, kind if side else "hole", letter)
    else:
        canvas.centre(letter, middle, at.left(column), at.wide, "quiet")


def mark(canvas: Canvas, at: Layout, column: int, row: int, side: int, shape: str, sign: str) -> None:
    """Put a mark in the middle of a square: a shape where there is room, otherwise a sign."""
    top, middle = at.row_of(row)
    high = mark_size(at.high, side == SECOND)
    if canvas.ascii or high < 2:
        canvas.centre(sign, middle, at.left(column), at.wide, "mark")
    else:
        wide = 2 * high
        left = 2 * at.left(column) + (2 * at.wide - wide) // 2
        canvas.shape(shape, top + (at.high - high) // 2, left, high, wide, "mark", sign)


def below(canvas: Canvas, at: Layout, view: BoardView, column: int, bar: int) -> None:
    """The number of a column, the value of a move there, and the share of the search's visits."""
    left, row = 1 + column * at.step, at.floor
    number = str(column + 1)
    if column == view.cursor:
        number = (">{}<" if canvas.ascii else "▸{}◂").format(number)
        number = number if at.step > 2 else number[:-1]
    canvas.centre(number, row, left, at.step, "here" if column == view.cursor else "value")
    value, visits = view.values.get(column), view.shares.get(column)
    if value is not None:
        sign = "−" if value < 0 else "+"  # if a number does not fit
        text = next((text for digits in (2, 1) if len(text := value_text(value, digits)) < at.step), sign)
        canvas.area(row + 1, left, 1, at.step, column, max(-1.0, min(value, 1.0)))
        canvas.centre(plain(text) if canvas.ascii else text, row + 1, left, at.step, "value")
    row += 2 + bar
    if visits is not None:
        eighths = max(round(8 * (bar or 1) * visits), 1 if visits > 0 else 0)
        for up in range(bar):
            part = max(0, min(eighths - 8 * up, 8))
            sign = "#" if canvas.ascii and part > 3 else " " if canvas.ascii else BARS[part]
            canvas.centre(sign * max(1, at.step - 3), row - 1 - up, left, at.step, "second")
        small = "" if bar or canvas.ascii or at.step < 6 else BARS[eighths]
        canvas.centre(f"{small}{share(visits)}", row, left, at.step, "quiet")
        row += 1
    for line, words in enumerate(parts_of(view, column, at), row):
        canvas.centre(words, line, left, at.step, "quiet")


def parts_of(view: BoardView, column: int, at: Layout) -> list[str]:
    """The parts of a note that fit below a column: "312 visits", "P .31"."""
    return [part for part in view.notes.get(column, "").split(", ") if 0 < len(part) < at.step]


def last_square(view: BoardView) -> int:
    """The bit of the last move; −1 if there is none."""
    if view.before is None:
        return -1
    before, now = (first | second for first, second in (view.before, view.position))
    return int(before ^ now).bit_length() - 1


def step(cursor: int, down: int, right: int, view: BoardView) -> int:
    return max(0, min(cursor + right, COLUMNS - 1))


def first_place(view: BoardView) -> int:
    """The open column nearest to the middle."""
    return min(view.game.legal(view.position), key=lambda column: abs(column - COLUMNS // 2), default=COLUMNS // 2)


def sentence(view: BoardView) -> str:
    """ "X to move; column 1: empty; column 4 from below: X O X" """
    signs = view.game.text(view.position).split("/")[::-1]
    stacks = [" ".join(row[column] for row in signs if row[column] != ".") or "empty" for column in range(COLUMNS)]
    columns = "; ".join(f"{column}: {stack}" for column, stack in enumerate(stacks, 1))
    return f"{turn_words(view)}; columns from below {columns}"
