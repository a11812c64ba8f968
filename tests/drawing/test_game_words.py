"""How a game ended and the words about its moves, whatever the game; what is true of it is checked against a
search on tuples that knows nothing of graphs."""

from __future__ import annotations

import random
from functools import cache

import pytest

from txlab.drawing.boards import value_text
from txlab.drawing.game_words import describe_end, points_text, value_words
from txlab.engine.games import tictactoe
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.connect_four import rules as connect_four
from txlab.engine.games.game import Game, Position
from txlab.engine.games.players import perfect_player

OFF = (0,) * 25


def checkers(**points: int) -> tuple[int, ...]:
    return tuple(points.get(f"p{point}", 0) for point in range(25))


@pytest.mark.parametrize(
    ("game", "position", "you", "words"),
    [
        (tictactoe, tictactoe.read("XXX/OO./..."), 1, "you have won: the top row"),
        (tictactoe, tictactoe.read("XXX/OO./..."), -1, "you have lost: X has the top row"),
        (tictactoe, tictactoe.read("XXX/OO./..."), None, "X has won: the top row"),
        (tictactoe, tictactoe.read("XOX/OXO/XOX"), 1, "you have won: two diagonals"),
        (tictactoe, tictactoe.read("XOX/XOO/OXX"), 1, "drawn: no square is free"),
        (tictactoe, tictactoe.start(), 1, ""),
        (connect_four, connect_four.read("1212121"), 1, "you have won: a column"),
        (connect_four, connect_four.read("112233"), None, ""),
        (connect_four, connect_four.read("1122334"), -1, "you have lost: X has a row"),
        (connect_four, connect_four.read("12233434544"), 1, "you have won: a diagonal"),
        (backgammon, (-1, (), checkers(p3=14), OFF), 1, "you have won: all checkers are borne off"),
        (backgammon, (-1, (), checkers(p8=15), OFF), -1, "you have lost: a gammon, 2 points"),
        (backgammon, (1, (), checkers(p8=14, p24=1), OFF), None, "O has won: a backgammon, 3 points"),
    ],
)
def test_the_end_of_a_game_is_told_to_either_player_and_to_those_who_watch(
    game: Game, position: Position, you: int | None, words: str
) -> None:
    assert describe_end(game, position, you) == words


def test_points_have_three_digits_and_outcomes_as_many_as_they_need() -> None:
    assert [points_text(value) for value in (0.3118, -1.2, -0.0001, 3.0)] == ["+.312", "−1.200", ".000", "+3.000"]
    assert [value_words(tictactoe, value) for value in (1.0, 0.0, -0.5)] == ["+1", ".00", "−.50"]
    assert value_words(backgammon, 1.0) == "+1.000"


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


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "+1"), (-1, "−1"), (0.0, ".00"), (-0.004, ".00"), (0.618, "+.62"), (-0.31, "−.31")]
)
def test_values_have_their_sign(value: float, text: str) -> None:
    assert value_text(value) == text
