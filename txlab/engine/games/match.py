"""A match of two players with paired luck, and its result (MATH G1, H6).

    x = (points of A in the first game of a pair + points of A in the second) / 2

Games are played in pairs: the same dice, or the same random first moves in a game without dice, once with A in the
first seat and once with B. Luck that favours A in one game favours B in the other, so x varies less than the points of
a game, and the interval is that of the mean of the pairs (engine/intervals.py). A game's draws follow from the seed and
its number alone, so a match is the beginning of a longer one with the same seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from txlab.engine.games.game import Move, Position
from txlab.engine.games.players import Player, PlaysWholeGames
from txlab.engine.games.records.record import PlayedGame, Turn
from txlab.engine.games.tournament import games_played, random_moves
from txlab.engine.intervals import mean_interval, probability_above
from txlab.errors import LabError

AT_ONCE = 64
"""Pairs that are played at the same time, at most: some players answer many positions in the time of one."""


def whole_games(first: Player, second: Player, throws: np.ndarray, choices: np.ndarray) -> list[int] | None:
    """The outcomes of whole games, if one of the players can compute them faster than move by move."""
    quick = next((each for each in (first, second) if isinstance(each, PlaysWholeGames)), None)
    outcomes = None if quick is None else quick.outcomes(first, second, throws, choices)
    return None if outcomes is None else list(map(int, outcomes))


def can_play_whole(a: Player, b: Player) -> bool:
    """Whether `play_match` can play whole games of these two."""
    nothing = np.zeros(0, dtype=np.uint64)
    return a.game.NAME == b.game.NAME and whole_games(a, b, nothing, nothing) is not None


def play_match(
    a: Player,
    b: Player,
    games: int,
    seed: int,
    opening: int | None = None,
    names: tuple[str, str] | None = None,
    whole: bool = False,
) -> Iterator[PlayedGame]:
    """The games in order: A has the first seat in games 0, 2, …, and two games have the same luck.

    names   of A and B, if not their own
    whole   only the outcomes are needed: where that is faster, games have no turns. The outcomes are the same.
    LabError for players of different games, of the same name, and for an odd number of games.
    """
    names = names or (a.name, b.name)
    if a.game.NAME != b.game.NAME:
        raise LabError(f"{names[0]} plays {a.game.TITLE}, {names[1]} {b.game.TITLE}")
    if names[0] == names[1]:
        raise LabError(f"two players of a match need different names; both are {names[0]}")
    if games < 2 or games % 2:
        raise LabError(f"a match has an even number of games, in which each has either seat; not {games}")
    opening = random_moves(a.game) if opening is None else opening

    def play(
        one: Player, other: Player, throws: np.ndarray, choices: np.ndarray
    ) -> tuple[list[int], list[list[tuple[Position, Move]]]]:
        outcomes = whole_games(one, other, throws, choices) if whole and not opening else None
        return (
            games_played(one, other, throws, choices, opening)
            if outcomes is None
            else (outcomes, [[] for _ in outcomes])
        )

    done = 0
    while done < games // 2:
        # at most a quarter of the games played so far: an interruption loses no more than that
        count = min(games // 2 - done, max(1, min(AT_ONCE, done // 3)))
        shared = np.uint64(seed * 2**32 + 2 * done) + np.uint64(2) * np.arange(count, dtype=np.uint64)
        first = play(a, b, shared, shared)
        second = play(b, a, shared, shared + np.uint64(1))
        for pair in range(count):
            for (outcomes, turns), seats in ((first, names), (second, names[::-1])):
                yield PlayedGame(seats, tuple(Turn(*turn) for turn in turns[pair]), outcomes[pair])
        done += count


@dataclass(frozen=True)
class Score:
    """The result of a match for its player A.

    points  of A in each game, in order; games 0 and 1 are a pair, and so on
    most    the points of the highest win
    """

    points: tuple[int, ...]
    most: int

    @classmethod
    def of(cls, games: Sequence[PlayedGame], a: str, most: int) -> Score:
        return cls(tuple(points for each in games if (points := each.points_of(a)) is not None), most)

    @property
    def won(self) -> int:
        return sum(each > 0 for each in self.points)

    @property
    def drawn(self) -> int:
        return self.points.count(0)

    @property
    def lost(self) -> int:
        return sum(each < 0 for each in self.points)

    def sizes(self) -> Counter[int]:
        """How many games had which points."""
        return Counter(self.points)

    @property
    def mean(self) -> float:
        """Points a game."""
        return sum(self.points) / len(self.points) if self.points else 0.0

    @cached_property
    def pairs(self) -> np.ndarray:
        """(n) float64: the mean of each whole pair."""
        whole = len(self.points) // 2 * 2
        means: np.ndarray = np.array(self.points[:whole], dtype=np.float64).reshape(-1, 2).mean(1)
        return means

    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the points A expects in a game; None before the first pair."""
        if not len(self.pairs):
            return None
        return mean_interval(*self.moments(), -self.most, self.most)

    def better(self) -> float | None:
        """The probability that A expects more points than B, by Student's distribution of the pairs; None before the
        first."""
        if not len(self.pairs):
            return None
        return probability_above(*self.moments(), -self.most, self.most)

    def moments(self) -> tuple[float, float, int]:
        return float(self.pairs.mean()), float(self.pairs.std()), len(self.pairs)
