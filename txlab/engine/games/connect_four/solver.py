"""Exact values of Connect Four: alpha-beta with a transposition table (MATH G3; Pons 2015).

    score > 0   the player to move wins: 22 − the stones it will then have played; < 0 it loses: 22 − those of the
                other, negated; 0 a draw

so a quick win scores high. The search asks whether the score exceeds a bound, with a window of one, and halves the
interval until it is known. Moves that leave the most squares to win on are tried first; a move that lets the other win
immediately is not tried; positions and their mirror images share an entry of the table.

Notable: this is for evaluation, never for training. With Numba (the extra txlab[games]) the search runs in compiled.py,
the same nodes in the same order.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy as np

from txlab.engine.games.connect_four.rules import (
    BOTTOM,
    COLUMN,
    SQUARES,
    STRIDE,
    has_four,
    legal,
    own_and_both,
    square_of,
)
from txlab.engine.games.connect_four.threats import FROM_CENTRE, OFFSET, entry, next_bound, not_losing, winning
from txlab.engine.games.game import Position
from txlab.errors import LabError

TABLE = 4_194_301
"""Entries of the compiled form's table, a prime; 38 MB."""
REMEMBERED = 2_000_000
"""Entries of the plain form's table, some 200 MB, before it is cleared."""


@cache
def load_compiled() -> ModuleType | None:
    """The compiled search, or None where Numba is not installed."""
    try:
        from txlab.engine.games.connect_four import compiled
    except ImportError:
        return None
    return compiled


def negamax(own: int, both: int, alpha: int, beta: int, table: dict[int, int]) -> int:
    """The score if it is within alpha … beta; else a bound on that side. The player to move has no immediate win."""
    stones = both.bit_count()
    squares = not_losing(both, winning(own ^ both, both))
    if not squares:
        return -((SQUARES - stones) // 2)
    if stones >= SQUARES - 2:
        return 0
    low, high = -((SQUARES - 2 - stones) // 2), (SQUARES - 1 - stones) // 2
    key = entry(own, both)
    known = table.get(key, 0)
    if known > 0:
        high = known - OFFSET
    elif known < 0:
        low = known + OFFSET
    alpha, beta = max(alpha, low), min(beta, high)
    if alpha >= beta:
        return alpha if alpha == low else beta
    # From the centre outwards, and those with more squares to win on first.
    tried = [square for column in FROM_CENTRE if (square := squares & COLUMN << STRIDE * column)]
    tried.sort(key=lambda square: -winning(own | square, both).bit_count())
    for square in tried:
        score = -negamax(own ^ both, both | square, -beta, -alpha, table)
        if score >= beta:
            table[key] = score - OFFSET
            return score
        alpha = max(alpha, score)
    table[key] = alpha + OFFSET
    return alpha


class Solver:
    """Exact scores, with a table that is kept from one question to the next.

    quick_from   the plies from which on all moves of a position are scored in a second. Of 500 random positions the
                 slowest took .33 s of 14 plies, 1.8 s of 13, 9.7 s of 9; without Numba .9 s of 22, 6.9 s of 18
    """

    def __init__(self, fast: bool = True) -> None:
        self.kernel = load_compiled() if fast else None
        self.quick_from = 22 if self.kernel is None else 14
        self.table: dict[int, int] = {}
        if self.kernel is not None:
            self.keys, self.bounds = np.zeros(TABLE, dtype=np.int64), np.zeros(TABLE, dtype=np.int8)

    def score(self, position: Position) -> int:
        """The score of an unfinished position for the player to move."""
        own, both = own_and_both(position)
        stones = both.bit_count()
        if winning(own, both) & (both + BOTTOM):
            return (SQUARES + 1 - stones) // 2
        if stones == SQUARES:
            return 0
        if self.kernel is not None:
            return int(self.kernel.score(own, both, self.keys, self.bounds))
        low, high = -((SQUARES - stones) // 2), (SQUARES + 1 - stones) // 2
        while low < high:
            bound = next_bound(low, high)
            if len(self.table) > REMEMBERED:
                self.table.clear()
            score = negamax(own, both, bound, bound + 1, self.table)
            if score <= bound:
                high = score
            else:
                low = score
        return low

    def scores(self, position: Position) -> dict[int, int]:
        """The score of each legal move, for the player who makes it. LabError if the game has ended."""
        moves = legal(position)
        if not moves:
            raise LabError("the game has ended, so there is no move to score")
        own, both = own_and_both(position)
        scores = {}
        for move in moves:
            square = square_of(both, move)
            if has_four(own | square):
                scores[move] = (SQUARES + 1 - both.bit_count()) // 2
            else:
                other = own ^ both
                after = (own | square, other) if both.bit_count() % 2 == 0 else (other, own | square)
                scores[move] = -self.score(after)
        return scores


@cache
def solver() -> Solver:
    """The solver of this process."""
    return Solver()


def sign(score: int) -> int:
    return (score > 0) - (score < 0)


def best_moves(scores: dict[int, int]) -> tuple[int, ...]:
    """The moves of the highest score: the quickest wins, or the slowest losses."""
    return tuple(move for move, score in scores.items() if score == max(scores.values()))


def optimal_moves(scores: dict[int, int]) -> tuple[int, ...]:
    """The moves that keep the outcome: a win, however long, stays a win."""
    outcome = sign(max(scores.values()))
    return tuple(move for move, score in scores.items() if sign(score) == outcome)
