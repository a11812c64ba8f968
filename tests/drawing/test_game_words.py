"""What is said of a game is true: checked against a search on tuples that knows nothing of graphs."""

from __future__ import annotations

import random
from functools import cache

import pytest

from txlab.drawing.boards import value_text
from txlab.drawing.game_words import ended_words, points_text
from txlab.engine.games import tictactoe
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.game import Position
from txlab.engine.games.players import perfect_player

ROWS = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


@cache
def searched(board: str, mover: str) -> tuple[int, int]:
    """(value for the mover, plies to the end when who wins hurries and who loses delays), by plain recursion."""
    other = "O" if mover == "X" else "X"
    if any(board[a] == board[b] == board[c] == other for a, b, c in ROWS):
        return -1, 0
    if "." not in board:
        return 0, 0
    found = []
    for square, sign in enumerate(board):
        if sign == ".":
            value, plies = searched(board[:square] + mover + board[square + 1 :], other)
            found.append((-value, plies + 1))
    best = max(value for value, _ in found)
    plies = [each for value, each in found if value == best]
    return best, min(plies) if best > 0 else max(plies)


def position_of(moves: list[int]) -> Position:
    position = tictactoe.start()
    for move in moves:
        position = tictactoe.after(position, move)
    return position


def some_positions(count: int) -> list[list[int]]:
    choice, found = random.Random(3), []
    while len(found) < count:
        moves: list[int] = []
        for _ in range(choice.randrange(9)):
            free = tictactoe.legal(position_of(moves))
            if not free:
                break
            moves.append(choice.choice(free))
        if tictactoe.legal(position_of(moves)):
            found.append(moves)
    return found


def test_notes_and_hints_are_those_of_an_independent_search() -> None:
    perfect = perfect_player(tictactoe)
    for moves in some_positions(150):
        position = position_of(moves)
        board = tictactoe.text(position).replace("/", "")
        mover, other = ("X", "O") if len(moves) % 2 == 0 else ("O", "X")
        outlook = {}
        for square in tictactoe.legal(position):
            value, plies = searched(board[:square] + mover + board[square + 1 :], other)
            outlook[square] = (-value, plies)
            own = (plies + 2) // 2 if value < 0 else (plies + 1) // 2  # moves of the winner, this one included
            words = "draws" if value == 0 else f"wins in {own}" if value < 0 else f"loses in {own}"
            assert perfect.notes(position)[square] == ("wins" if words == "wins in 1" else words)
        best = max(value for value, _ in outlook.values())
        kept = {square: plies for square, (value, plies) in outlook.items() if value == best}
        wanted = (min if best > 0 else max)(kept.values())
        assert perfect.best(position) == [s for s, plies in kept.items() if best == 0 or plies == wanted]


def test_how_a_game_ended_is_said_from_where_one_sits() -> None:
    position = position_of([0, 3, 1, 4, 2])
    assert ended_words(tictactoe, position, 1) == "you have won: the top row"  # type: ignore[arg-type]
    assert ended_words(tictactoe, position, -1) == "you have lost: X has the top row"  # type: ignore[arg-type]
    assert ended_words(tictactoe, position, None) == "X has won: the top row"  # type: ignore[arg-type]
    drawn = position_of([0, 1, 2, 4, 3, 5, 7, 6, 8])
    assert ended_words(tictactoe, drawn, 1) == "drawn: no square is free"  # type: ignore[arg-type]
    assert ended_words(tictactoe, position_of([0]), 1) == ""  # type: ignore[arg-type]
    none, all_home = (0,) * 25, (15, *(0,) * 24)
    assert ended_words(backgammon, (1, (), all_home, none), 1) == "you have lost: a gammon, 2 points"  # type: ignore[arg-type]


def test_two_lines_at_once_are_both_named() -> None:
    assert tictactoe.how_won(position_of([0, 3, 1, 5, 6, 7, 8, 4])) == "the middle row"
    assert tictactoe.how_won(position_of([0, 1, 2, 3, 8, 5, 6, 7, 4])) == "two diagonals"


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "+1"), (-1, "−1"), (0.0, ".00"), (-0.004, ".00"), (0.618, "+.62"), (-0.31, "−.31")]
)
def test_values_have_their_sign(value: float, text: str) -> None:
    assert value_text(value) == text


def test_points_keep_three_decimals() -> None:
    assert [points_text(value) for value in (0.3118, -1.2, -0.0001)] == ["+.312", "−1.200", ".000"]
