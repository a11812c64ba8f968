"""A match: the same luck for both players, the interval of its pairs, and what moves cost by a judge."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.engine.games import tictactoe
from txlab.engine.games.analysis import BLUNDER, Total, judge_moves
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.backgammon.network import Network
from txlab.engine.games.backgammon.player import NetworkPlayer
from txlab.engine.games.connect_four import rules as connect_four
from txlab.engine.games.game import FIRST, Move, Position
from txlab.engine.games.match import Score, can_play_whole, play_match
from txlab.engine.games.players import RandomPlayer, perfect_player, random_player
from txlab.engine.games.records.record import PlayedGame
from txlab.engine.intervals import mean_interval, probability_above
from txlab.errors import LabError


def test_two_games_have_the_same_dice_with_the_seats_exchanged() -> None:
    games = list(play_match(RandomPlayer(backgammon, "A"), RandomPlayer(backgammon, "B"), 6, 9))
    thrown = [[turn.position[1] for turn in each.turns] for each in games]
    assert [each.names for each in games] == [("A", "B"), ("B", "A")] * 3
    for first, second in zip(thrown[::2], thrown[1::2], strict=True):
        both = min(len(first), len(second))
        assert first[:both] == second[:both]
    assert thrown[0][:20] != thrown[2][:20]
    begins = [each.turns[0].position[0] for each in games]
    assert begins[::2] == begins[1::2]  # the same seat, so each player once
    assert [each.turns for each in games[::2]] != [each.turns for each in games[1::2]]  # their choices are their own


def test_the_first_moves_of_a_game_without_dice_are_drawn_for_both_games() -> None:
    games = list(play_match(RandomPlayer(connect_four, "A"), RandomPlayer(connect_four, "B"), 40, 2))
    openings = [[turn.move for turn in each.turns[:2]] for each in games]
    assert openings[::2] == openings[1::2]
    assert len({tuple(each) for each in openings}) > 10
    assert any(a.turns[2:] != b.turns[2:] for a, b in zip(games[::2], games[1::2], strict=True))


def test_a_shorter_match_is_the_beginning_of_a_longer_one() -> None:
    a, b = RandomPlayer(backgammon, "A"), RandomPlayer(backgammon, "B")
    longer = list(play_match(a, b, 6, 1))
    assert list(play_match(a, b, 2, 1)) == longer[:2]
    assert list(play_match(a, b, 2, 2)) != longer[:2]


@pytest.mark.parametrize(("plies", "games"), [((1, 1), 16), ((1, 0), 12), ((0, 1), 12), ((2, 1), 2)])
def test_whole_games_end_as_the_same_games_move_by_move(plies: tuple[int, int], games: int) -> None:
    """plies: of each player; 0: it plays at random."""
    pytest.importorskip("numba")
    a, b = (
        NetworkPlayer(name, Network.initialize(units, units), ahead) if ahead else RandomPlayer(backgammon, name)
        for name, units, ahead in zip("AB", (6, 9), plies, strict=True)
    )
    assert can_play_whole(a, b)
    whole = list(play_match(a, b, games, 5, whole=True))
    assert [each.points for each in whole] == [each.points for each in play_match(a, b, games, 5)]
    assert len({each.points for each in whole}) > 1
    assert [each.names for each in whole] == [("A", "B"), ("B", "A")] * (games // 2)


def test_games_whose_players_or_rules_are_others_are_played_move_by_move() -> None:
    class Other(RandomPlayer):
        """The last of the legal moves."""

        def move(self, position: Position, draw: float) -> Move:
            return self.game.legal(position)[-1]

    a, b = Other(backgammon, "A"), RandomPlayer(backgammon, "B")
    assert not can_play_whole(a, b)
    assert not can_play_whole(RandomPlayer(tictactoe, "A"), RandomPlayer(tictactoe, "B"))
    assert list(play_match(a, b, 2, 1, whole=True)) == list(play_match(a, b, 2, 1))


def test_the_points_of_a_match_are_those_of_its_first_player_whatever_the_seat() -> None:
    a, b = perfect_player(tictactoe), random_player(tictactoe)
    games = list(play_match(a, b, 60, 3, opening=1))
    score = Score.of(games, "perfect", 1)
    assert score.lost == 0
    assert score.won == sum(
        (tictactoe.outcome(tictactoe.after(*each.turns[-1])) == (1 if each.names[0] == "perfect" else -1))
        for each in games
    )
    assert score.won + score.drawn == 60
    low, high = score.interval() or (0, 0)
    assert 0 < low < score.mean < high <= 1
    assert (score.better() or 0) > 0.999


@pytest.mark.parametrize("games", [-2, 0, 1, 7])
def test_a_match_needs_pairs(games: int) -> None:
    with pytest.raises(LabError, match="even number"):
        next(play_match(RandomPlayer(tictactoe, "A"), RandomPlayer(tictactoe, "B"), games, 0))


def test_players_of_a_match_differ_in_name_and_not_in_game() -> None:
    with pytest.raises(LabError, match="need different names"):
        next(play_match(RandomPlayer(tictactoe), RandomPlayer(tictactoe), 2, 0))
    with pytest.raises(LabError, match="plays Tic-tac-toe, B Connect Four"):
        next(play_match(RandomPlayer(tictactoe, "A"), RandomPlayer(connect_four, "B"), 2, 0))


def test_nothing_is_known_before_the_first_pair_and_little_after_it() -> None:
    assert Score((), 3).interval() is None
    assert Score((3,), 3).better() is None
    assert Score((3,), 3).won == 1
    low, high = Score((3, 3), 3).interval() or (0.0, 0.0)
    assert low < 0 < high  # one lucky pair proves nothing


@pytest.mark.parametrize(("n", "shift"), [(1, 0.0), (4, 0.2), (20, -0.4), (100, 0.1)])
def test_the_interval_of_the_pairs_covers_what_is_expected(n: int, shift: float) -> None:
    """Pairs as in backgammon: 0 when luck decides both games, else as far as a gammon each way."""
    draws = np.random.default_rng(n)
    values = np.array([-2, -1, -0.5, 0, 0.5, 1, 2])
    weights = np.array([1, 3, 4, 12, 4, 3, 1]) * np.exp(shift * values)
    weights /= weights.sum()
    expected = float(values @ weights)
    pairs = draws.choice(values, size=(1500, n), p=weights)
    covered = above = 0
    for each in pairs:
        points = tuple(int(part) for x in 2 * each for part in (x // 2, x - x // 2))
        low, high = Score(points, 3).interval() or (0.0, 0.0)
        covered += low <= expected <= high
        above += low > 0
    assert covered / 1500 >= 0.935
    if shift <= 0:
        assert above / 1500 <= 0.04


def test_the_probability_and_the_interval_tell_the_same() -> None:
    for mean in np.linspace(-2.5, 2.5, 41).tolist():
        low, high = mean_interval(mean, 1.5, 12, -3, 3)
        better = probability_above(mean, 1.5, 12, -3, 3)
        assert (better > 0.975) == (low > 0)
        assert (better < 0.025) == (high < 0)
        assert better == pytest.approx(1 - probability_above(-mean, 1.5, 12, -3, 3), abs=1e-12)


def test_the_probability_is_the_share_of_students_distribution() -> None:
    draws = np.random.default_rng(1)
    n, mean, deviation = 6, 0.4, 1.2
    middle = n * mean / (n + 2)
    squares = n * (deviation**2 + (mean - middle) ** 2) + 2 * (3 + middle) ** 2 + 2 * (3 - middle) ** 2
    error = (squares / ((n + 1) * (n + 2))) ** 0.5
    simulated = (middle + error * draws.standard_t(n + 1, 200_000) > 0).mean()
    assert probability_above(mean, deviation, n, -3, 3) == pytest.approx(simulated, abs=0.005)


class Shifted:
    """Judges by the solution of tic-tac-toe, and has no values of the empty board."""

    game = tictactoe

    def values(self, position: Position) -> dict[Move, float]:
        return perfect_player(tictactoe).values(position) if any(position) else {}


def test_the_loss_of_a_move_is_what_the_best_would_have_brought_more() -> None:
    # X top left, O top (loses), X left (wins), O right?? (X: bottom left at once), X bottom right?? (no win), …
    turns, position = [], tictactoe.start()
    from txlab.engine.games.records.record import Turn

    for move in (0, 1, 3, 5, 8):
        turns.append(Turn(position, move))
        position = tictactoe.after(position, move)
    judged = list(judge_moves(PlayedGame(("Ann", "Bob"), tuple(turns), None), Shifted()))
    values = perfect_player(tictactoe).values
    expected = [None, *(max(values(p).values()) - values(p)[m] for p, m in turns[1:])]
    assert [each.loss for each in judged] == expected
    assert [each.name for each in judged] == ["Ann", "Bob", "Ann", "Bob", "Ann"]
    assert judged[1].mark == BLUNDER == "??"
    assert judged[1].loss == 1
    assert judged[0].side == FIRST
    assert judged[0].mark == ""
    total = Total("Ann")
    for each in judged:
        if each.name == "Ann":
            total.add(each)
    assert (total.moves, total.choices, total.judged) == (3, 3, 2)
    assert total.loss == sum(each.loss for each in judged[2::2] if each.loss is not None)


def test_a_move_without_a_choice_is_not_judged() -> None:
    position = tictactoe.read("XOX/XOO/OX.")
    played = PlayedGame(("A", "B"), ((position, 8),), 0)  # type: ignore[arg-type]
    (only,) = judge_moves(played, Shifted())
    assert (only.choices, only.loss) == (1, None)
