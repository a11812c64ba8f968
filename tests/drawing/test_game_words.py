"""How a game ended, in words, whatever the game."""

from __future__ import annotations

import pytest

from txlab.drawing.game_words import ended_words, points_text, value_words
from txlab.engine.games import tictactoe
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.connect_four import rules as connect_four
from txlab.engine.games.game import Game, Position

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
    assert ended_words(game, position, you) == words


def test_points_have_three_digits_and_outcomes_as_many_as_they_need() -> None:
    assert [points_text(value) for value in (0.3118, -1.2, -0.0001, 3.0)] == ["+.312", "−1.200", ".000", "+3.000"]
    assert [value_words(tictactoe, value) for value in (1.0, 0.0, -0.5)] == ["+1", ".00", "−.50"]
    assert value_words(backgammon, 1.0) == "+1.000"
