"""Self-play training shown live: a learner, its curves, and its current player (MATH G1).

The points of the curves are computed exactly, not by playing (perfect_play.py), at ever wider intervals, so that the
first hundred games are visible and a hundred thousand cost no more than twenty points. `Training.run` is for a
background thread: it yields after every slice of a few milliseconds, and stops on request.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from txlab.engine.explain import Explanation
from txlab.engine.games import tictactoe
from txlab.engine.games.game import Position, SmallGame
from txlab.engine.games.graph import compile_graph
from txlab.engine.games.learner import SelfPlaySettings, make_learner
from txlab.engine.games.perfect_play import Chances, both_seats
from txlab.engine.games.players import MaskPlayer, perfect_player, random_player
from txlab.engine.games.self_play_why import explain

SLICE = 200  # games: 2 ms, the longest that a key press may wait
DENSER, DENSEST = 8, 64
"""A point follows after an eighth more games than at the last one; at the end of `run`, after a sixty-fourth more."""


@dataclass(frozen=True)
class Point:
    """After `games` games, the chances of the table's greedy player, from the first seat and from the second."""

    games: int
    random_first: Chances
    random_second: Chances
    perfect_first: Chances
    perfect_second: Chances


@dataclass
class Training:
    """A learner, untrained at first; `run` makes it play against itself.

    curve   the points so far, oldest first (append-only: a screen may read while `run` appends)
    """

    settings: SelfPlaySettings = field(default_factory=SelfPlaySettings)
    seed: int = 1
    game: SmallGame = tictactoe
    curve: list[Point] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph = compile_graph(self.game)
        self.learner = make_learner(self.graph, self.settings, self.seed)
        self.random, self.perfect = random_player(self.game).policy(), perfect_player(self.game).policy()
        self.measure()

    @property
    def games(self) -> int:
        return self.learner.games

    def run(
        self,
        games: int,
        late: Callable[[], bool] = lambda: False,
        say: Callable[[int], None] = lambda done: None,
        rest: float = 0.0,
    ) -> bool:
        """Play `games` more games; return True if all of them were played.

        late   called between slices: whether to stop here        say   called with the number of games so far
        rest   seconds of sleep after a slice, so that other threads can run
        """
        end = self.games + games
        end_point = self.curve[-1].games + max(10, self.curve[-1].games // DENSEST)
        while self.games < end:
            if late():
                return False
            self.learner.run(min(SLICE, end - self.games, self.next_point() - self.games))
            if self.games >= (end_point if self.games == end else self.next_point()):
                self.measure()
            say(self.games)
            time.sleep(rest)
        return True

    def next_point(self) -> int:
        """The number of games at the next point of the curve."""
        last = self.curve[-1].games if self.curve else 0
        return last + max(10, last // DENSER)

    def measure(self) -> None:
        """Add a point to the curve for the current table."""
        if self.curve and self.curve[-1].games == self.games:
            return
        policy = self.player().policy()
        seats = *both_seats(self.graph, policy, self.random), *both_seats(self.graph, policy, self.perfect)
        self.curve.append(Point(self.games, *seats))

    def player(self, name: str = "") -> MaskPlayer:
        """A snapshot of the greedy player of the table; it does not change during further training."""
        return self.learner.player(name)

    def explain(self, position: Position, move: int) -> Explanation:
        """Explain the value of a move: the last update of its after-state, term by term."""
        return explain(self.learner, position, move)
