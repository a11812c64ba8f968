"""What intervals cover, by simulation from known truths, for few games and many; exact tails; nested intervals.

TXLAB_THOROUGH=1 simulates every n from 1 to 100 and more tournaments, some minutes.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import combinations, pairwise
from math import comb, inf, sqrt

import numpy as np
import pytest

from txlab.engine.games.tournament import ratings
from txlab.engine.intervals import (
    covered_by_standard_error,
    difference_interval,
    mean_interval,
    rating_difference,
    score_interval,
    share_interval,
    student_quantile,
)
from txlab.experiments.learning.explanations import interval_steps

THOROUGH = bool(os.environ.get("TXLAB_THOROUGH"))
SIMULATIONS = 2000
LEAST = 0.93  # of 2000 simulations at .95, 4 standard errors lower
COUNTS = range(1, 101) if THOROUGH else (1, 2, 3, 5, 7, 10, 20, 50, 100)
ODDS = (  # of −3, −2 … 3 points a game
    *((0, 0, 0, 99, 0, 0, 1), (0, 0, 0, 97, 3, 0, 0), (0, 0, 1, 0, 0, 98, 1), (1, 0, 0, 0, 0, 0, 9)),
    *((0, 0, 0, 0, 0, 1, 1), (1, 0, 0, 0, 0, 0, 1), (1, 4, 15, 10, 25, 12, 2), (1, 0, 0, 398, 0, 0, 1)),
)
GAPS = range(0, 401, 25) if THOROUGH else (0, 100, 200, 400)
DRAWN = (
    (0.0, 0.02, 0.2, 0.5, 0.9, 1.0) if THOROUGH else (0.0, 0.2, 0.9)
)  # of the games that may be drawn at this expected score


def expected(gap: float) -> float:
    return 1 / (1 + 10 ** (-gap / 400))


interval_of = cache(difference_interval)


def covered(games: np.ndarray, gap: float) -> float:
    """The share of rows (won, drawn, lost) whose interval contains the gap."""
    rows, counts = np.unique(games, axis=0, return_counts=True)
    inside = [low <= gap <= high for low, high in (interval_of(*row) for row in rows.tolist())]
    return float(counts[inside].sum() / counts.sum())


@pytest.mark.parametrize("n", COUNTS)
def test_the_interval_of_a_difference_covers_the_truth(n: int) -> None:
    draws = np.random.default_rng(n)
    for gap in GAPS:
        for part in DRAWN:
            drawn = part * 2 * (1 - expected(gap))
            won = expected(gap) - drawn / 2
            games = draws.multinomial(n, [won, drawn, max(0.0, 1 - won - drawn)], size=SIMULATIONS)
            assert covered(games, gap) >= LEAST, (gap, part)


@pytest.mark.parametrize("n", [2, 6, 20, 100])
def test_the_advantage_of_a_seat_does_not_cost_coverage(n: int) -> None:
    """Half the games from either seat, which is worth `seat` points: the gap is that of the mean score."""
    draws = np.random.default_rng(n)
    for gap in (0, 150, 300):
        for seat in (100, 300):
            first, second = expected(gap + seat), expected(gap - seat)
            won = draws.binomial(n // 2, first, SIMULATIONS) + draws.binomial(n // 2, second, SIMULATIONS)
            games = np.stack([won, 0 * won, n - won], axis=1)
            assert covered(games, rating_difference((first + second) / 2)) >= LEAST, (gap, seat)


def test_the_interval_of_a_share_is_where_the_exact_tails_are_small() -> None:
    def at_least(k: int, n: int, p: float) -> float:
        return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))

    for n in (1, 2, 7, 30, 200):
        for k in {0, 1, n // 3, n - 1, n}:
            low, high = share_interval(k, n)
            assert low == 0 if k == 0 else at_least(k, n, low) == pytest.approx(0.025, abs=1e-12)
            assert high == 1 if k == n else at_least(k + 1, n, high) == pytest.approx(0.975, abs=1e-12)
            assert low < k / n < high or k in (0, n)
    assert share_interval(500_000, 1_000_000) == pytest.approx((0.49902, 0.50098), abs=1e-5)


def test_more_results_with_the_same_shares_never_give_a_wider_interval() -> None:
    for won, drawn, lost in ((1, 0, 0), (0, 1, 0), (1, 1, 0), (1, 0, 1), (2, 1, 1), (3, 0, 1), (9, 0, 1), (1, 8, 1)):
        before = (0.0, 1.0)
        for times in (1, 2, 3, 5, 10, 30, 100, 1000):
            low, high = score_interval(won * times, drawn * times, lost * times)
            assert before[0] <= low < high <= before[1]
            before = (low, high)
    for n in range(200):  # results that go one way: an end moves nearer, the other stays away
        low, high = difference_interval(n, 0, 0)
        assert difference_interval(n + 1, 0, 0)[0] > low
        assert high == inf
    for n in range(1, 200):
        assert difference_interval(0, n, 0)[1] > difference_interval(0, n + 1, 0)[1] > 0


def test_an_accuracy_of_a_sample_is_explained_with_an_interval_that_is_never_empty() -> None:
    for right, count in ((0, 64), (64, 64), (40, 64), (1, 1)):
        low, high = (step.result for step in interval_steps(right / count, count))
        assert (low, high) == share_interval(right, count)
        assert low < high


# Tournaments


def results_of(strengths: tuple[float, ...], n: int, drawn: float, draws: np.random.Generator) -> np.ndarray:
    """won (P, P) and drawn (P, P) after n games between every two, as (2, P, P)."""
    P = len(strengths)
    found = np.zeros((2, P, P), dtype=int)
    for i, j in combinations(range(P), 2):
        score = expected(strengths[i] - strengths[j])
        share = drawn * 2 * min(score, 1 - score)
        won, ties, lost = draws.multinomial(n, [score - share / 2, share, max(0.0, 1 - score - share / 2)])
        found[0, i, j], found[0, j, i], found[1, i, j], found[1, j, i] = won, lost, ties, ties
    return found


FIELDS = [((0, 0, 0), 0.0), ((400, 200, 0), 0.0), ((400, 0, 0), 0.3), ((0, 100, 300, 400), 0.8)]
FEW = [(*FIELDS[0], 12), (*FIELDS[1], 2), (*FIELDS[1], 12), (*FIELDS[2], 1), (*FIELDS[2], 12), (*FIELDS[3], 2)]


@pytest.mark.parametrize(
    ("strengths", "drawn", "n"), [(*each, n) for each in FIELDS for n in (1, 2, 4, 12, 40)] if THOROUGH else FEW
)
def test_the_intervals_of_a_tournament_cover_the_true_ratings(
    strengths: tuple[float, ...], drawn: float, n: int
) -> None:
    """All players of a tournament count; as few tournaments as needed to tell 95 % from the 90 % of a wrong formula."""
    draws, simulations = np.random.default_rng(7 * n), 1000 if THOROUGH else 40
    true = 1500 + np.array(strengths) - np.mean(strengths)
    known: dict[bytes, np.ndarray] = {}
    inside = 0
    for _ in range(simulations):
        won, ties = results_of(strengths, n, drawn, draws)
        key = won.tobytes() + ties.tobytes()
        if key not in known:
            found = ratings(won, ties)
            assert (found.low < found.high).all()
            assert ((found.low <= found.rating) & (found.rating <= found.high)).all()
            known[key] = (found.low <= true) & (true <= found.high)
        inside += int(known[key].sum())
    total = simulations * len(strengths)
    assert inside / total >= 0.95 - 2.5 * sqrt(0.05 * 0.95 / total) * sqrt(2)  # players of a tournament are dependent


LADDER = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4), (1, 3), (2, 4)]
"""Who plays whom on a ladder: 0 does not learn, each rung plays the two before it."""


@pytest.mark.parametrize(
    ("n", "drawn"), [(n, part) for n in (2, 12, 40) for part in (0.0, 0.8)] if THOROUGH else [(4, 0.0)]
)
def test_the_intervals_of_differences_from_one_player_cover_the_true_ones(n: int, drawn: float) -> None:
    """Those of a ladder, in which not every two players play."""
    strengths, zero = (0, 50, 250, 400, 500), 1
    true, draws, simulations = (
        np.subtract(strengths, strengths[zero]),
        np.random.default_rng(n),
        200 if THOROUGH else 30,
    )
    inside = 0
    for _ in range(simulations):
        won, ties = results_of(strengths, n, drawn, draws)
        for i, j in combinations(range(len(strengths)), 2):
            if (i, j) not in LADDER:
                won[i, j] = won[j, i] = ties[i, j] = ties[j, i] = 0
        found = ratings(won, ties, 0.0, zero=zero)
        assert found.rating[zero] == found.low[zero] == found.high[zero] == 0
        assert ((found.low <= found.rating) & (found.rating <= found.high)).all()
        inside += int(((found.low <= true) & (true <= found.high)).sum()) - 1
    total = simulations * (len(strengths) - 1)
    assert inside / total >= 0.95 - 2.5 * sqrt(0.05 * 0.95 / total) * sqrt(2)


def test_a_tournament_says_which_ends_are_not_known() -> None:
    won = np.array([[0, 3, 3], [0, 0, 2], [0, 1, 0]])
    found = ratings(won, np.zeros((3, 3)))
    assert found.high[0] == inf
    assert np.isfinite(found.low[0])
    assert found.low[1] == found.low[2] == -inf  # as far below the first as may be
    nothing = ratings(np.zeros((3, 3)), np.zeros((3, 3)))
    assert (nothing.low == -inf).all()
    assert (nothing.high == inf).all()
    tied = ratings(np.zeros((3, 3)), 10 * (1 - np.eye(3)))
    assert (tied.high - tied.low > 50).all()


def test_more_games_with_the_same_results_make_the_intervals_of_a_tournament_narrower() -> None:
    won, drawn = np.array([[0, 2, 3], [1, 0, 2], [0, 1, 0]]), np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    widths = [np.subtract(each.high, each.low) for each in (ratings(won * k, drawn * k) for k in (1, 2, 5, 20, 200))]
    for wide, narrow in pairwise(widths):
        assert (narrow < wide).all()


# Means over seeds


def test_a_standard_error_and_a_students_interval_cover_what_they_say() -> None:
    draws = np.random.default_rng(0)
    for n in (2, 3, 5, 10, 30):
        values = draws.normal(3, 2, (40_000, n))
        off = np.abs(values.mean(axis=1) - 3) / (values.std(axis=1, ddof=1) / sqrt(n))
        assert (off <= 1).mean() == pytest.approx(covered_by_standard_error(n), abs=0.01)
        assert (off <= student_quantile(n)).mean() == pytest.approx(0.95, abs=0.005)


@pytest.mark.parametrize("n", [1, 2, 5, 20, 50, 200])
def test_the_interval_of_a_mean_covers_the_truth_also_of_values_that_are_mostly_equal(n: int) -> None:
    """Points of a game, −3 … 3: mostly drawn, mostly won, two values far apart, two close together, all of them."""
    draws = np.random.default_rng(n)
    values = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
    for odds in ODDS:
        chances = np.array(odds) / sum(odds)
        seen = draws.choice(values, p=chances, size=(SIMULATIONS, n))
        ends = [mean_interval(*each, n, -3, 3) for each in zip(seen.mean(axis=1), seen.std(axis=1), strict=True)]
        inside = [low <= chances @ values <= high for low, high in ends]
        assert np.mean(inside) >= LEAST, odds
        assert all(high > low for low, high in ends)
