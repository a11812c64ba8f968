"""The ladder of a learner's snapshots: the same games whenever they are played, and intervals from the counts alone."""

from __future__ import annotations

from itertools import pairwise
from math import inf, log, sqrt

import numpy as np
import pytest

from txlab.engine.games import tictactoe
from txlab.engine.games.backgammon import game as backgammon
from txlab.engine.games.backgammon.network import Network
from txlab.engine.games.backgammon.player import NetworkPlayer
from txlab.engine.games.ladder import EARLIER, Ladder, further_rungs
from txlab.engine.games.players import RandomPlayer, TabularPlayer, perfect_player, random_player
from txlab.engine.games.tournament import Interrupted
from txlab.engine.intervals import difference_interval, student_quantile
from txlab.experiments.tabular.training import Training


def learnt(*marks: int) -> list[tuple[int, TabularPlayer]]:
    """A learner of tic-tac-toe after this number of games."""
    training, found = Training(), []
    for games in marks:
        training.run(games - training.games)
        found.append((games, training.player(f"{games} games")))
    return found


def ladder_of(rungs: list[tuple[int, TabularPlayer]], at_once: int, before: int, openings: int = 12) -> Ladder:
    """A ladder whose games are all played; `before` times it plays between two rungs."""
    ladder = Ladder(tictactoe, [random_player(tictactoe), perfect_player(tictactoe)], openings)
    for rung in rungs:
        ladder.add(*rung)
        for _ in range(before):
            ladder.play(at_once)
    while ladder.play(at_once):
        pass
    return ladder


def test_the_results_depend_neither_on_the_order_nor_on_the_batch_of_games() -> None:
    rungs = learnt(0, 100, 3_000, 20_000)
    at_the_end, meanwhile = ladder_of(rungs, 1, 0), ladder_of(rungs, 5, 2)
    assert np.array_equal(at_the_end.results, meanwhile.results)
    assert all((meanwhile.pairs[pair] == points).all() for pair, points in at_the_end.pairs.items())
    opponents = [2 + min(EARLIER, number) for number in range(len(rungs))]
    assert at_the_end.games == 2 * 12 * sum(opponents)


def test_a_new_rung_plays_before_the_others_play_on() -> None:
    rungs = learnt(0, 100, 1_000)
    ladder = Ladder(tictactoe, [random_player(tictactoe)])
    ladder.add(*rungs[0])
    ladder.add(*rungs[1])
    for _ in range(9):
        ladder.play()
    ladder.add(*rungs[2])
    for _ in range(3):
        ladder.play()
    assert all(len(ladder.pairs[i, 3]) == 1 for i in (0, 1, 2))


def test_games_that_are_given_up_leave_no_trace() -> None:
    ladder = Ladder(backgammon, [RandomPlayer(backgammon)])
    ladder.add(0, NetworkPlayer("drawn", Network.initialize(4, 1)))
    asked: list[None] = []

    def late() -> bool:
        asked.append(None)
        return len(asked) > 5

    with pytest.raises(Interrupted):
        ladder.play(2, late)
    assert ladder.games == 0
    assert ladder.rungs() == []


def test_two_players_have_the_exact_interval_of_their_difference() -> None:
    ladder = Ladder(tictactoe, [], openings=20)
    for rung in learnt(0, 3_000):
        ladder.add(*rung)
    while ladder.play(3):
        pass
    first, second = ladder.rungs()
    won, drawn, lost = ladder.standings().against(1, 0)
    assert (second.low, second.high) == difference_interval(won, drawn, lost)
    assert (first.rating, first.low, first.high) == (0, 0, 0)


def profile(points: np.ndarray, i: int, zero: int, difference: float) -> float:
    """The greatest log-likelihood of results with θᵢ − θ_zero held, by ascent along each other θ in turn."""
    theta = np.zeros(len(points))
    theta[i] = difference
    free = [k for k in range(len(points)) if k not in (i, zero)]

    def value() -> float:
        return float(-(points * np.log1p(np.exp(theta[None, :] - theta[:, None]))).sum())

    games, before = points + points.T, -inf
    while value() - before > 1e-11:
        before = value()
        for k in free:
            for _ in range(3):
                expected = 1 / (1 + np.exp(theta - theta[k]))
                slope = points[k].sum() - (games[k] * expected).sum()
                theta[k] += slope / max((games[k] * expected * (1 - expected)).sum(), 1e-9)
    return value()


def ends(points: np.ndarray, i: int, zero: int) -> tuple[float, float]:
    """Where twice the log-likelihood is 3.84 below the greatest, after half a point changed sides: by bisection."""
    found = []
    for sign in (-1, 1):
        moved = points.copy()
        taken = points[i] if sign < 0 else points[:, i]
        half = 0.5 * taken / taken.sum()
        moved[:, i] -= sign * half
        moved[i] += sign * half
        inside = max(np.linspace(-8, 8, 161), key=lambda at: profile(moved, i, zero, at))
        fine = np.linspace(inside - 0.1, inside + 0.1, 41)
        inside = max(fine, key=lambda at: profile(moved, i, zero, at))
        most, near, far = profile(moved, i, zero, inside), float(inside), float(inside) + 12 * sign
        for _ in range(40):
            middle = (near + far) / 2
            if 2 * (most - profile(moved, i, zero, middle)) < 3.841459:
                near = middle
            else:
                far = middle
        found.append(400 / log(10) * near)
    return found[0], found[1]


def test_ratings_and_points_are_recomputed_from_the_counts_of_the_games() -> None:
    """Backgammon, where no game is drawn."""
    players = [NetworkPlayer(str(seed), Network.initialize(4, seed)) for seed in (1, 2, 3)]
    ladder = Ladder(backgammon, [RandomPlayer(backgammon)], openings=6)
    for age, player in enumerate(players):
        ladder.add(100 * age, player)
    while ladder.play(2):
        pass
    standings = ladder.standings()
    points = np.array([[0 if i == j else standings.against(i, j)[0] for j in range(4)] for i in range(4)], dtype=float)
    for rung, row in zip(ladder.rungs(), (1, 2, 3), strict=True):
        if row > 1:
            assert (rung.low, rung.high) == pytest.approx(ends(points, row, 1), abs=1.0)  # both find them to .2 points
            assert rung.low < rung.rating < rung.high
        assert rung.points is not None
        seen = -ladder.pairs[0, row]
        every = np.concatenate([seen, [-3, -3, 3, 3]])  # two imaginary values at each end
        middle = (seen.sum() + 0) / (len(seen) + 2)
        error = sqrt(((every - middle) ** 2).sum() / ((len(seen) + 1) * (len(seen) + 2)))
        half = student_quantile(len(seen) + 2) * error
        assert rung.points == pytest.approx((seen.mean(), max(-3, middle - half), min(3, middle + half)))


def test_all_first_snapshots_are_rungs_and_then_ever_fewer() -> None:
    ages = list(range(0, 100_001, 500))
    rungs = further_rungs(ages, [], ended=False)
    assert rungs[:8] == ages[:8]
    assert all(later >= 1.29 * earlier for earlier, later in pairwise(rungs[7:]))
    assert len(rungs) < 25
    assert further_rungs(ages, rungs, ended=False) == []
    assert further_rungs(ages, rungs, ended=True) == [100_000]
    again: list[int] = []
    for end in range(1, len(ages) + 1):  # as they come
        again += further_rungs(ages[:end], again, ended=False)
    assert again == rungs
