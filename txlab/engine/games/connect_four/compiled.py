"""The solver of Connect Four, compiled by Numba: the nodes of solver.negamax, in the same order (MATH G3).

Without recursion, which Numba cannot cache: the arrays have a row for each node on the path to the present one.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.games.compiling import jit
from txlab.engine.games.connect_four import threats
from txlab.engine.games.connect_four.rules import COLUMN, SQUARES, STRIDE

OFFSET = threats.OFFSET
FROM_CENTRE = np.array(threats.FROM_CENTRE)


winning, not_losing, entry, next_bound = map(
    jit, (threats.winning, threats.not_losing, threats.entry, threats.next_bound)
)


@jit
def count(stones):
    number = 0
    while stones:
        stones &= stones - 1
        number += 1
    return number


@jit
def sort_moves(own, both, squares, tried):
    """Write the squares into `tried` in the order in which they are searched; return their number."""
    rank = np.empty(7, dtype=np.int64)
    n = 0
    for column in FROM_CENTRE:
        square = squares & (COLUMN << (STRIDE * column))
        if square == 0:
            continue
        more = count(winning(own | square, both))
        place = n
        while place > 0 and rank[place - 1] < more:
            tried[place], rank[place] = tried[place - 1], rank[place - 1]
            place -= 1
        tried[place], rank[place] = square, more
        n += 1
    return n


@jit
def negamax(own, both, alpha, beta, keys, bounds):
    path = np.empty((SQUARES, 6), dtype=np.int64)  # own, both, alpha, beta, key, and how many moves are left to try
    tried = np.empty((SQUARES, 7), dtype=np.int64)
    move_count = np.empty(SQUARES, dtype=np.int64)  # how many moves there are
    root = stones = count(both)
    depth = 0
    while True:
        # Enter a node: its value is known, or its moves are put down.
        squares = not_losing(both, winning(own ^ both, both))
        known = True
        if squares == 0:
            value = -((SQUARES - stones) // 2)
        elif stones >= SQUARES - 2:
            value = 0
        else:
            low, high = -((SQUARES - 2 - stones) // 2), (SQUARES - 1 - stones) // 2
            key = entry(own, both)
            place = key % keys.size
            bound = bounds[place] if keys[place] == key else 0
            if bound > 0:
                high = bound - OFFSET
            elif bound < 0:
                low = bound + OFFSET
            alpha, beta = max(alpha, low), min(beta, high)
            if alpha >= beta:
                value = alpha if alpha == low else beta
            else:
                known = False
                move_count[depth] = sort_moves(own, both, squares, tried[depth])
                path[depth, 0], path[depth, 1], path[depth, 2] = own, both, alpha
                path[depth, 3], path[depth, 4], path[depth, 5] = beta, key, move_count[depth]
        # Leave all nodes whose value that settles.
        while known:
            if depth == 0:
                return value
            depth -= 1
            stones -= 1
            value = -value
            alpha, beta = path[depth, 2], path[depth, 3]
            key = path[depth, 4]
            if value >= beta:
                keys[key % keys.size], bounds[key % keys.size] = key, value - OFFSET
                continue
            alpha = path[depth, 2] = max(alpha, value)
            if path[depth, 5] == 0:
                value = alpha
                keys[key % keys.size], bounds[key % keys.size] = key, alpha + OFFSET
                continue
            known = False
        # Go to the next move's node.
        square = tried[depth, move_count[depth] - path[depth, 5]]
        path[depth, 5] -= 1
        own, both = path[depth, 0] ^ path[depth, 1], path[depth, 1] | square
        alpha, beta = -path[depth, 3], -path[depth, 2]
        depth += 1
        stones = root + depth


@jit
def score(own, both, keys, bounds):
    """Solver.score of a position in which the player to move has no immediate win and the board is not full."""
    stones = count(both)
    low, high = -((SQUARES - stones) // 2), (SQUARES + 1 - stones) // 2
    while low < high:
        bound = next_bound(low, high)
        value = negamax(own, both, bound, bound + 1, keys, bounds)
        if value <= bound:
            high = value
        else:
            low = value
    return low
