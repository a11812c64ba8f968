"""A game of tic-tac-toe in words and squares: whose move, how it ended, what a move leads to, what is on the board.

Notable: a game is the list of its moves, and nothing else is kept; what is said here is the same on the screen and in
the shell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from txlab.drawing.board import Square
from txlab.drawing.formatting import minus, share
from txlab.engine.games import tictactoe
from txlab.engine.games.game import Position
from txlab.engine.games.perfect_play import Solution, verdict

ROWS = ("the top row", "the middle row", "the bottom row")
COLUMNS = ("the left column", "the middle column", "the right column")
SIGN = {1: "X", -1: "O", 0: ""}
Moves = tuple[int, ...]


def position_of(moves: Sequence[int]) -> Position:
    """The position that the moves lead to."""
    position = tictactoe.start()
    for move in moves:
        position = tictactoe.after(position, move)
    return position


def winning_squares(position: Position) -> tuple[int, ...]:
    """Every square of every line that won (one move may make two of them)."""
    lines = [line for line in tictactoe.LINES if abs(sum(position[square] for square in line)) == 3]
    return tuple(sorted({square for line in lines for square in line}))


def line_words(position: Position) -> str:
    """What won: "the top row", "a diagonal", "the left column and a diagonal"."""
    won = [line for line in tictactoe.LINES if abs(sum(position[square] for square in line)) == 3]
    named = []
    for line in won:
        place = tictactoe.LINES.index(line)
        named.append(ROWS[place] if place < 3 else COLUMNS[place - 3] if place < 6 else "a diagonal")
    return "two diagonals" if named == ["a diagonal"] * 2 else " and ".join(named)


def value_text(value: float) -> str:
    """A value in [−1, 1] with its sign: "+.62", "−.31", ".00", "+1"."""
    if abs(value) >= 0.9995:
        return minus(f"{value:+.0f}")
    text = share(value)
    if text in (".00", "−.00"):
        return ".00"
    return text if text.startswith("−") else f"+{text}"


def leads_to(solution: Solution, position: Position, move: int) -> str:
    """What a move leads to with best play: "X wins in 2 moves", "a draw with best play", "O has won"."""
    return verdict(solution, tictactoe.after(position, move))


def note_of(solution: Solution, position: Position, move: int) -> str:
    """The same from the mover's view, short enough for a square: "wins", "wins in 3", "draws", "loses in 2"."""
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
    """The moves of best play, the quickest win or the slowest loss among them first of all."""
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
    """The nine squares: marks with the number of their move, values and notes on the free ones."""
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
    """How the game ended, for who sits at the side `you` (+1 X, −1 O, None: nobody)."""
    result = tictactoe.outcome(position)
    if result is None:
        return ""
    if result == 0:
        return "drawn: no square is free"
    sign, line = SIGN[result], line_words(position)
    if you is None:
        return f"{sign} has won: {line}"
    return f"you have won: {line}" if result == you else f"you have lost: {sign} has {line}"
