"""Positions with exact scores, by which players of Connect Four are judged (MATH G3).

A move is optimal if it keeps the outcome: a win, however long, stays a win. In every position of the file some move is
not, since elsewhere any player is right: of positions after random moves 39 % have no wrong move.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from txlab.engine.games.connect_four.rules import COLUMNS, own_and_both, read
from txlab.engine.games.connect_four.self_play import name_of
from txlab.engine.games.connect_four.solver import optimal_moves
from txlab.files import shipped_path


@dataclass(frozen=True)
class Judged:
    """own, both (n) int64: positions; scores (n, 7), NaN where a column is full; optimal (n, 7) bool; moves: the moves
    that lead there. The even ones are after random moves, the odd ones from self-play."""

    own: np.ndarray
    both: np.ndarray
    scores: np.ndarray
    optimal: np.ndarray
    moves: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.own)

    def first(self, count: int) -> Judged:
        return Judged(
            self.own[:count], self.both[:count], self.scores[:count], self.optimal[:count], self.moves[:count]
        )

    def names(self) -> list[int]:
        """The positions' names, as they are kept out of the replay."""
        return name_of(self.own, self.both).tolist()  # type: ignore[no-any-return]

    def right(self, moves: np.ndarray) -> np.ndarray:
        """(n) bool: which of these moves (n) are optimal."""
        return np.asarray(self.optimal[np.arange(len(self)), moves])

    def by_chance(self) -> float:
        """The share of right moves of a player that moves at random."""
        legal = ~np.isnan(self.scores)
        return float((self.optimal.sum(1) / legal.sum(1)).mean())


def read_judged(path: Path) -> Judged:
    """Positions from a file: a line each, the moves that lead there and seven scores."""
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    own, both = np.array([own_and_both(read(moves)) for moves, *_ in lines], dtype=np.int64).T
    scores = np.array([[np.nan if score == "." else float(score) for score in row] for _, *row in lines])
    optimal = np.zeros((len(lines), COLUMNS), dtype=bool)
    for row, (_, *written) in enumerate(lines):
        known = {column: int(score) for column, score in enumerate(written) if score != "."}
        optimal[row, list(optimal_moves(known))] = True
    return Judged(own, both, scores, optimal, tuple(moves for moves, *_ in lines))


@cache
def load_judged() -> Judged:
    """The thousand positions that come with the program."""
    return read_judged(shipped_path("texts/connect_four.txt"))
