"""Ratings of two models from comparisons, and the significance of their difference (MATH H6).

Notable: checking p after every comparison and stopping when it is below .05 finds a difference between equal models in
more than 5 of 100 cases; fix the number of comparisons beforehand. Two answers compared by several people are one
sample of the models' output: their results are averaged and count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, nan

from txlab.engine.intervals import difference_interval, rating_difference
from txlab.engine.rlhf.comparisons import Comparison

NORMAL = 1.959964  # the .975 quantile of the standard normal distribution
K = 32.0  # of Elo's running ratings
FIRST = 1500.0  # the rating of a model without comparisons


def expected_score(own: float, other: float) -> float:
    """1 / (1 + 10^((R′ − R)/400)): the share of points that ratings R against R′ promise. MATH H6; Elo 1978, §1.4.

    >>> expected_score(1500, 1500), round(expected_score(1900, 1500), 3)
    (0.5, 0.909)
    """
    return float(1 / (1 + 10 ** ((other - own) / 400)))


def elo(results: Sequence[float], k: float = K, first: float = FIRST) -> tuple[float, float]:
    """Elo's running ratings of two after these results in order, 1 = the first was better, ½ = a tie, 0 = the second.

        R ← R + K (S − E)        E = expected_score(R, R′)

    Unlike a verdict's difference they depend on the order, and never stop fluctuating by about K. MATH H6; Elo 1978,
    §1.6.
    """
    one = other = first
    for result in results:
        change = k * (result - expected_score(one, other))
        one, other = one + change, other - change
    return one, other


def sign_test(won: int, lost: int) -> float:
    """The two-sided p of H₀: either is better equally often; ties say nothing. 2 · P(X ≤ min), X ~ Bin(won + lost, ½).

    >>> sign_test(5, 0), sign_test(3, 3)
    (0.0625, 1.0)
    """
    n = won + lost
    tail = sum(comb(n, k) for k in range(min(won, lost) + 1)) / (1 << n)
    return min(1.0, 2 * tail)


@dataclass(frozen=True)
class Verdict:
    """The results of comparing a with b so far; each pair of answers counts once.

    won, lost, ties   of a                      elo            both running ratings
    difference        R_a − R_b of greatest likelihood after Bradley and Terry 1952, 400 log₁₀(s / (1 − s)) with the
                      share s of the points; ±∞ if all of them went to one side, NaN if there are none
    interval          its exact 95 % interval; an end is ±∞ where the results set no bound. MATH H6
    p                 of the sign test: below .05 exactly if the interval does not contain 0
    needed            about how many comparisons, at this rate of wins and ties, give p < .05;
                      None = unknown
    """

    won: int
    lost: int
    ties: int
    elo: tuple[float, float]
    difference: float
    interval: tuple[float, float]
    p: float
    needed: int | None

    @property
    def significant(self) -> bool:
        return self.p < 0.05


def verdict(comparisons: Sequence[Comparison], a: str, b: str) -> Verdict:
    """The results of all comparisons between these two models, in either order."""
    points = {"a": 1.0, "b": 0.0, "tie": 0.5}
    by_pair: dict[str, list[float]] = {}
    for each in comparisons:
        if each.result in points and {each.a.model, each.b.model} == {a, b}:
            point = points[each.result]
            by_pair.setdefault(each.pair, []).append(point if each.a.model == a else 1 - point)
    results = [0.5 + 0.5 * sign(sum(each) / len(each) - 0.5) for each in by_pair.values()]  # what most people said
    won, lost, ties = (results.count(value) for value in (1.0, 0.0, 0.5))
    gap = rating_difference((won + 0.5 * ties) / len(results)) if results else nan
    interval = difference_interval(won, ties, lost)
    return Verdict(
        won, lost, ties, elo(results), gap, interval, sign_test(won, lost), comparisons_needed(won, lost, ties)
    )


def sign(x: float) -> int:
    return (x > 0) - (x < 0)


def comparisons_needed(won: int, lost: int, ties: int) -> int | None:
    """How many comparisons it takes at this rate until |won − lost| = 1.96 √(won + lost); None if neither leads.

    Of n decided ones a leads by n (2q − 1) with a standard deviation of √n, so n = (1.96 / (2q − 1))², and at least 6,
    for five in a row have p = .0625.
    """
    decided = won + lost
    if won == lost:
        return None
    lead = abs(won - lost) / decided
    return round(max(6.0, (NORMAL / lead) ** 2) * (decided + ties) / decided)
