"""A ladder: snapshots of a learner, rated by games against each other during training (MATH G1, H6).

    rating of a rung: the first rung = 0, with the 95 % interval of the difference from it (tournament.py)
    points a game against the anchor, a player that does not learn, with their 95 % interval

Notable: a new rung plays the `EARLIER` rungs before it and the anchors, not all others, so a ladder of n rungs costs
O(n) games. The pair with the fewest games plays next, a few games at a time, so a new rung is rated immediately and all
intervals narrow together. Each opening of a pair has its number, which fixes the dice and the players' draws: the
results do not depend on when the games were played or in what batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from txlab.engine.games.game import Game
from txlab.engine.games.players import Player, TabularPlayer
from txlab.engine.games.tournament import Standings, add_results, contest, never, random_moves

EARLIER = 2
"""Earlier rungs that a new one plays."""
OPENINGS = 100
"""Openings of a pair in all; each is played from either seat."""
MOST_AT_ONCE = 25  # openings
DENSE, SPARSER = 8, 1.3
"""The first DENSE snapshots of a run all become rungs; after that, one that has trained SPARSER times as long as the
last."""


@dataclass(frozen=True)
class Rung:
    """A snapshot of a learner after `age` games or steps. points   a game against the anchor, with their 95 % interval;
    None: not played, or computed instead of played."""

    age: int
    rating: float
    low: float
    high: float
    games: int
    points: tuple[float, float, float] | None


class Ladder:
    """anchors  players that do not change; points are reported against the first
    openings   of a pair, in all
    """

    def __init__(self, game: Game, anchors: Sequence[Player], openings: int = OPENINGS) -> None:
        self.game, self.openings, self.opening = game, openings, random_moves(game)
        self.players: list[Player] = list(anchors)
        self.anchors = len(anchors)
        self.ages: list[int] = []
        self.results = np.zeros((self.anchors, self.anchors, 3), dtype=np.int64)
        self.pairs: dict[tuple[int, int], np.ndarray] = {}
        """(i, j), i < j: as in Standings, empty before the first game; only pairs that are to play."""

    def add(self, age: int, player: Player) -> None:
        """Add a rung, older than all others."""
        j = len(self.players)
        opponents = [*range(self.anchors), *range(max(self.anchors, j - EARLIER), j)]
        self.players.append(player)
        self.ages.append(age)
        self.results = np.pad(self.results, ((0, 1), (0, 1), (0, 0)))
        self.pairs |= {(i, j): np.zeros(0) for i in opponents}

    @property
    def next_pair(self) -> tuple[int, int] | None:
        """The pair that plays next: that with the fewest games, of these the earliest; None when all have played."""
        open = [pair for pair, points in self.pairs.items() if len(points) < self.openings]
        return min(open, key=lambda pair: (len(self.pairs[pair]), pair[1], pair[0])) if open else None

    def play(self, at_once: int = 1, late: Callable[[], bool] = never) -> int:
        """Let the next pair play the given number of further openings from both seats; return the number of games.

        Interrupted, and nothing is counted, if `late` returns True in between.
        """
        pair = self.next_pair
        if pair is None:
            return 0
        i, j = pair
        begin = len(self.pairs[pair])
        count = min(at_once, MOST_AT_ONCE, self.openings - begin)
        number = (j * (j - 1) // 2 + i) * self.openings + begin
        seeds = np.uint64(2 * number) + np.uint64(2) * np.arange(count, dtype=np.uint64)
        points, _ = contest(self.players[i], self.players[j], seeds, self.opening, late)
        add_results(self.results, i, j, points)
        self.pairs[pair] = np.concatenate([self.pairs[pair], points.mean(axis=1)])
        return 2 * count

    @property
    def games(self) -> int:
        return int(self.results.sum())

    def standings(self) -> Standings:
        """The anchors first, then the rungs."""
        names = tuple(player.name for player in self.players)
        played = {pair: points for pair, points in self.pairs.items() if len(points)}
        different = np.zeros(self.results.shape[:2], dtype=np.int64)
        return Standings(names, self.results.copy(), different, played, self.game.MOST_POINTS, self.opening)

    def rungs(self) -> list[Rung]:
        """The rungs that have played, youngest first."""
        if not self.games:
            return []
        standings = self.standings()
        rated = standings.ratings(0.0, zero=self.anchors)
        rungs = []
        for rung, age in enumerate(self.ages, start=self.anchors):
            games = sum(sum(standings.against(rung, other)) for other in range(len(self.players)))
            computed = isinstance(self.players[rung], TabularPlayer)
            points = None if computed or (0, rung) not in standings.pairs else standings.points(rung, 0)
            if games:
                rungs.append(Rung(age, float(rated.rating[rung]), *rated.interval(rung), games, points))
        return rungs


def next_age(ages: Sequence[int], dense: int = DENSE, factor: float = SPARSER) -> int:
    """The age from which a snapshot becomes the next rung, after rungs of these ages.

    >>> next_age([0, 250, 500]), next_age([0, 1, 2, 3, 4, 5, 6, 1000])
    (501, 1300)
    """
    last = ages[-1] if ages else -1
    return last + 1 if len(ages) < dense else max(last + 1, round(factor * last))


def further_rungs(
    ages: Sequence[int], rungs: Sequence[int], ended: bool, dense: int = DENSE, factor: float = SPARSER
) -> list[int]:
    """Which of the snapshots of these ages, in order, become rungs after the present ones; if the learning has ended,
    its last snapshot always does.

    >>> further_rungs(range(13), [0, 1], ended=True)
    [2, 3, 4, 5, 6, 7, 9, 12]
    """
    chosen = list(rungs)
    for age in ages:
        if age >= next_age(chosen, dense, factor):
            chosen.append(age)
    if ended and ages and chosen[-1] < ages[-1]:
        chosen.append(ages[-1])
    return chosen[len(rungs) :]
