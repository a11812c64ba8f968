"""The inner loop of TD-Gammon, compiled by Numba: rules, network, and self-play with TD(λ) (MATH G2).

The same as rules.py, inputs.py and network.py, move for move and bit for bit (the tests compare them): boards are int8
arrays (2, 25), the traces only visit the inputs that were active in this game. Sums run in the order of the plain form
and nothing is reassociated, so there is no `fastmath`.
"""

from __future__ import annotations

from math import exp

import numba
import numpy as np

from txlab.engine.games.backgammon.inputs import INPUTS, TURN, UNITS_OF_A_SIDE

MOST_MOVES = 4096
"""More than any roll allows: the most that are known are 3 060, with duplicates."""
ACTIVE = 128
"""More than the inputs that thirty checkers can activate: at most three by one and a half checkers of each side."""

jit = numba.njit(cache=True, error_model="numpy")


@jit
def can_step(own, other, rearmost, point, die):
    """Whether a checker may go from `point` by `die`; `rearmost` is the side's rearmost occupied point."""
    if own[point] == 0 or (own[24] > 0 and point != 24):
        return False
    to = point - die
    if to < 0:
        return rearmost <= 5 and (to == -1 or rearmost <= point)
    return other[23 - to] < 2


@jit
def make_step(own, other, point, die):
    """Make a step in place; return whether it hit."""
    own[point] -= 1
    to = point - die
    if to < 0:
        return False
    own[to] += 1
    if other[23 - to] == 1:
        other[23 - to] = 0
        other[24] += 1
        return True
    return False


@jit
def undo_step(own, other, point, die, hit):
    own[point] += 1
    to = point - die
    if to >= 0:
        own[to] -= 1
        if hit:
            other[23 - to] = 1
            other[24] -= 1


@jit
def rearmost_of(own):
    for point in range(24, -1, -1):
        if own[point] > 0:
            return point
    return -1


@jit
def search(own, other, dice, number, found, count, deepest):
    """Collect the boards that are reached by playing the dice in order: count[0] boards after deepest[0] dice each.

    rules.sequences without its recursion, which Numba cannot cache: point[d] is where the die of depth d is tried next.
    """
    point, moved, hit = np.empty(5, dtype=np.int64), np.zeros(5, dtype=np.bool_), np.zeros(5, dtype=np.bool_)
    depth = 0
    point[0] = 24
    rearmost = rearmost_of(own)
    while True:
        if depth < number and point[depth] >= 0:
            at, die = point[depth], dice[depth]
            if not can_step(own, other, rearmost, at, die):
                point[depth] -= 1
                continue
            moved[depth], hit[depth] = True, make_step(own, other, at, die)
            depth += 1
            point[depth], moved[depth] = at, False
            rearmost = rearmost_of(own)
            continue
        if not moved[depth]:
            collect(own, other, depth, number, found, count, deepest)
        if depth == 0:
            return
        depth -= 1
        undo_step(own, other, point[depth], dice[depth], hit[depth])
        rearmost = rearmost_of(own)
        point[depth] -= 1


@jit
def equal(side, other):
    for point in range(24, -1, -1):  # noqa: SIM110  (two sequences mostly differ far from home; a loop compiles)
        if side[point] != other[point]:
            return False
    return True


@jit
def collect(own, other, depth, number, found, count, deepest):
    """Keep a board that no further die can be played on, if no other sequence plays more, and once: of equal dice
    (number 4) no two sequences lead to the same board."""
    if depth > deepest[0]:
        deepest[0], count[0] = depth, 0
    if depth < deepest[0]:
        return
    place = count[0]
    for earlier in range(0 if number == 4 else place):
        if equal(found[earlier, 0], own) and equal(found[earlier, 1], other):
            return
    found[place, 0, :], found[place, 1, :] = own, other
    count[0] = place + 1


@jit
def after_states(board, die, second, found):
    """Write the boards that the roll allows to `found` (MOST_MOVES, 2, 25); return how many there are.

    In the order of rules.moves: the higher die first, rearmost checkers first.
    """
    own, other = board[0].copy(), board[1].copy()
    high, low = max(die, second), min(die, second)
    dice = np.empty(4, dtype=np.int64)
    count, deepest = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    if high == low:
        dice[:] = high
        search(own, other, dice, 4, found, count, deepest)
        return count[0]
    dice[0], dice[1] = high, low
    search(own, other, dice, 2, found, count, deepest)
    higher = count[0] if deepest[0] == 1 else 0
    dice[0], dice[1] = low, high
    search(own, other, dice, 2, found, count, deepest)
    return higher if deepest[0] == 1 and higher else count[0]


@jit
def activate(board, place, value):
    """Write the inputs that are not 0: their numbers, ascending, and values; return how many (see inputs.py)."""
    n = 0
    for side in range(2):
        base, off = side * UNITS_OF_A_SIDE, 15
        for point in range(24):
            checkers = board[side, point]
            off -= checkers
            for unit in range(min(checkers, 3)):
                place[n], value[n] = base + 4 * point + unit, 1.0
                n += 1
            if checkers > 3:
                place[n], value[n] = base + 4 * point + 3, (checkers - 3) / 2
                n += 1
        off -= board[side, 24]
        if board[side, 24] > 0:
            place[n], value[n] = base + 96, board[side, 24] / 2
            n += 1
        if off > 0:
            place[n], value[n] = base + 97, off / 15
            n += 1
    place[n], value[n] = TURN, 1.0
    return n + 1


@jit
def forward(net, place, value, n, h, y):
    """h (H) and y (3) from the n active inputs, in place; `net` is (W₁, b₁, W₂, b₂)."""
    into, hidden, out, last = net
    units = len(hidden)
    h[:] = hidden
    for each in range(n):
        x, row = value[each], into[place[each]]
        for j in range(units):
            h[j] += x * row[j]
    a, b, c = last[0], last[1], last[2]
    for j in range(units):
        h[j] = sigmoid(h[j])
        a += h[j] * out[j, 0]
        b += h[j] * out[j, 1]
        c += h[j] * out[j, 2]
    y[0], y[1], y[2] = sigmoid(a), sigmoid(b), sigmoid(c)


@jit
def sigmoid(z):
    return np.float32(1.0 / (1.0 + exp(-np.float64(z))))


@jit
def points_won(board):
    """See rules.points_won."""
    for winner in range(2):
        if board[winner].sum() == 0:
            loser = board[1 - winner]
            points = 1 if loser.sum() < 15 else 3 if loser[18:].sum() > 0 else 2
            return points if winner == 0 else -points
    return 0


@jit
def workspace(units):
    """What `expects` writes to: active inputs, their values, h, y."""
    return (
        np.empty(ACTIVE, dtype=np.int64),
        np.empty(ACTIVE, dtype=np.float32),
        np.empty(units, dtype=np.float32),
        np.empty(3, dtype=np.float32),
    )


@jit
def expects(net, board, work):
    """Points that the player to roll expects; exact when the game has ended."""
    points = points_won(board)
    if points != 0:
        return float(points)
    place, value, h, y = work
    forward(net, place, value, activate(board, place, value), h, y)
    return 2.0 * y[0] + y[1] - y[2] - 1.0


@jit
def lowest(net, found, count, work, values, reached):
    """What the opponent, then to roll, expects after each of the boards found, to `values`; the place of the least.

    The first of equals. `reached` (2, 25) is where a board is turned.
    """
    best = 0
    for each in range(count):
        reached[0], reached[1] = found[each, 1], found[each, 0]
        values[each] = expects(net, reached, work)
        if values[each] < values[best]:
            best = each
    return best


@jit
def choose(net, board, die, second, plies, width, room, work, reached):
    """Make the best move: write the after-state, turned, to `reached`, and return what the opponent expects in it.

    plies   1: by the network's value of the after-states. 2: of the `width` best of these, by the mean over the
            opponent's 21 rolls of its best reply, valued by the network
    room    (found, values) for each ply
    """
    found, values = room[0]
    count = after_states(board, die, second, found)
    best = lowest(net, found, count, work, values, reached)
    if plies > 1 and count > 1:
        order = np.argsort(values[:count])
        deepest, best = np.inf, order[0]
        for each in order[:width]:
            reached[0], reached[1] = found[each, 1], found[each, 0]
            expected = expects_two(net, reached, room[1], work)
            if expected < deepest:
                deepest, best = expected, each
        values[best] = deepest
    reached[0], reached[1] = found[best, 1], found[best, 0]
    return values[best]


@jit
def expects_two(net, board, room, work):
    """Points that the player to roll expects if it plays each of the 21 rolls as the network values best."""
    points = points_won(board)
    if points != 0:
        return float(points)
    found, values = room
    reached = np.empty((2, 25), dtype=np.int8)
    total = 0.0
    for die in range(1, 7):
        for second in range(1, die + 1):
            count = after_states(board, die, second, found)
            best = lowest(net, found, count, work, values, reached)
            total -= values[best] * (1.0 if die == second else 2.0)
    return total / 36.0


@jit
def room_of():
    return np.empty((MOST_MOVES, 2, 25), dtype=np.int8), np.empty(MOST_MOVES, dtype=np.float64)


@jit
def match(first, second, start, seeds, plies, width, points):
    """Play a game for each seed, `first` in the first seat of even ones and in the second of odd ones: the first
    network's points, to `points` (G). plies (2): how far each looks."""
    work, other = workspace(len(first[1])), workspace(len(second[1]))
    room = (room_of(), room_of())
    board, reached, dice = np.empty((2, 25), np.int8), np.empty((2, 25), np.int8), np.empty(2, dtype=np.int64)
    for game in range(len(seeds)):
        board[:] = start
        ply, turn = 0, game % 2
        while True:
            roll(seeds[game], ply, dice)
            if turn == 0:
                choose(first, board, dice[0], dice[1], plies[0], width, room, work, reached)
            else:
                choose(second, board, dice[0], dice[1], plies[1], width, room, other, reached)
            board[:] = reached
            won = -points_won(board)
            if won != 0:
                points[game] = won if turn == 0 else -won
                break
            ply, turn = ply + 1, 1 - turn


GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@jit
def mixed(z):
    """See engine/rl/draws.py."""
    z ^= z >> np.uint64(30)
    z *= FIRST
    z ^= z >> np.uint64(27)
    z *= SECOND
    return z ^ (z >> np.uint64(31))


@jit
def roll(seed, ply, dice):
    """The dice of a ply, as dice.py draws them."""
    key = mixed(np.uint64(seed) * GOLDEN + GOLDEN)
    bits = mixed(key + np.uint64(2 * ply) * GOLDEN)
    low, high = bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(32)
    if ply == 0:
        dice[0] = 1 + np.int64((low * np.uint64(6)) >> np.uint64(32))
        second = np.int64((high * np.uint64(5)) >> np.uint64(32))
        dice[1] = second + (2 if second + 1 >= dice[0] else 1)
    else:
        dice[0] = 1 + np.int64((low * np.uint64(6)) >> np.uint64(32))
        dice[1] = 1 + np.int64((high * np.uint64(6)) >> np.uint64(32))


@jit
def learn(net, trace, active, board, start, ply, seed, games, most, alpha, lam):
    """Self-play with TD(λ) from a position in a game until `games` have ended or `most` moves are made; in place.

    board (2, 25) int8, ply, seed: where it is; the seed of the next game is one more. active (198) bool: the inputs
    that have been active in this game, whose traces are the only ones that are not zero.
    Returns (moves, ply, seed, games won by 0 … 3 points).
    """
    into, hidden, out, last = net
    e_into, e_hidden, e_out, e_last = trace
    units = len(hidden)
    work, room = workspace(units), (room_of(), room_of())
    place, value, h, y = workspace(units)
    z, slope, delta, back = (
        np.empty(3, np.float32),
        np.empty(3, np.float32),
        np.empty(3, np.float32),
        np.empty((3, units), np.float32),
    )
    reached, dice, results = np.empty((2, 25), np.int8), np.empty(2, dtype=np.int64), np.zeros(4, dtype=np.int64)
    alpha, lam = np.float32(alpha), np.float32(lam)
    one, zero = np.float32(1.0), np.float32(0.0)
    moves, ended = 0, 0
    while ended < games and moves < most:
        roll(seed, ply, dice)
        choose(net, board, dice[0], dice[1], 1, 1, room, work, reached)
        n = activate(board, place, value)
        forward(net, place, value, n, h, y)
        points = -points_won(reached)
        if points > 0:
            z[0], z[1], z[2] = one, one if points > 1 else zero, zero
        else:
            expects(net, reached, work)
            z[0], z[1], z[2] = one - work[3][0], work[3][2], work[3][1]
        for k in range(3):
            delta[k] = z[k] - y[k]
            slope[k] = y[k] * (one - y[k])
        for j in range(units):
            bend = h[j] * (one - h[j])
            for k in range(3):
                back[k, j] = (slope[k] * out[j, k]) * bend
        # e ← λ ē + ∂y/∂w, w ← w + α Σ δ e: first the inputs, of which a game activates about half
        for each in range(n):
            active[place[each]] = True
        at = 0
        for i in range(INPUTS):
            if not active[i]:
                continue
            x = np.float32(0.0)
            if at < n and place[at] == i:
                x = value[at]
                at += 1
            row, e0, e1, e2 = into[i], e_into[0, i], e_into[1, i], e_into[2, i]
            for j in range(units):
                a = lam * -e0[j] + x * back[0, j]
                b = lam * e2[j] + x * back[1, j]
                c = lam * e1[j] + x * back[2, j]
                e0[j], e1[j], e2[j] = a, b, c
                row[j] += alpha * (delta[0] * a + delta[1] * b + delta[2] * c)
        for j in range(units):
            a = lam * -e_hidden[0, j] + back[0, j]
            b = lam * e_hidden[2, j] + back[1, j]
            c = lam * e_hidden[1, j] + back[2, j]
            e_hidden[0, j], e_hidden[1, j], e_hidden[2, j] = a, b, c
            hidden[j] += alpha * (delta[0] * a + delta[1] * b + delta[2] * c)
            for k in range(3):  # a trace of output 1 may reach the weights of output 2: the turns exchange them
                g = h[j] * slope[k]
                a = lam * -e_out[0, j, k] + (g if k == 0 else zero)
                b = lam * e_out[2, j, k] + (g if k == 1 else zero)
                c = lam * e_out[1, j, k] + (g if k == 2 else zero)
                e_out[0, j, k], e_out[1, j, k], e_out[2, j, k] = a, b, c
                out[j, k] += alpha * (delta[0] * a + delta[1] * b + delta[2] * c)
        for k in range(3):
            a = lam * -e_last[0, k] + (slope[k] if k == 0 else zero)
            b = lam * e_last[2, k] + (slope[k] if k == 1 else zero)
            c = lam * e_last[1, k] + (slope[k] if k == 2 else zero)
            e_last[0, k], e_last[1, k], e_last[2, k] = a, b, c
            last[k] += alpha * (delta[0] * a + delta[1] * b + delta[2] * c)
        board[0], board[1] = reached[0], reached[1]
        ply += 1
        moves += 1
        if points > 0:
            results[points] += 1
            ended += 1
            seed += np.uint64(1)
            ply = 0
            board[:] = start
            active[:] = False
            e_into[:], e_hidden[:], e_out[:], e_last[:] = 0.0, 0.0, 0.0, 0.0
    return moves, ply, seed, results
