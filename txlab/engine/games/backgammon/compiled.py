"""The inner loop of TD-Gammon, compiled by Numba: rules, network, and self-play with TD(λ) (MATH G2).

The same as rules.py, inputs.py and network.py, move for move and bit for bit (the tests compare them): boards are int8
arrays (2, 25), the traces only visit the inputs that were active in this game. Sums run in the order of the plain form
and nothing is reassociated, so there is no `fastmath`.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.games.backgammon import network
from txlab.engine.games.backgammon.inputs import INPUTS, TURN, UNITS_OF_A_SIDE
from txlab.engine.games.compiling import jit

MOST_MOVES = 4096
"""More than any roll allows: the most that are known are 3 060, with duplicates."""

exponential = jit(network.exponential)


@jit
def can_step(own, other, point, die):
    """Whether a checker may go from `point` by `die`."""
    if own[point] == 0 or (own[24] > 0 and point != 24):
        return False
    to = point - die
    if to >= 0:
        return other[23 - to] < 2
    rearmost = rearmost_of(own)
    return rearmost <= 5 and (to == -1 or rearmost <= point)


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
def search(own, other, dice, number, boards, count, deepest):
    """Add the boards reached by playing the dice in order; returns (count, deepest): `count` boards after `deepest`
    dice.

    rules.sequences without its recursion, which Numba cannot cache: point[d] is where the die of depth d is tried next.
    """
    point, moved, hit = np.empty(5, dtype=np.int64), np.zeros(5, dtype=np.bool_), np.zeros(5, dtype=np.bool_)
    earlier, depth = count, 0
    point[0] = 24
    while True:
        if depth < number and point[depth] >= 0:
            at, die = point[depth], dice[depth]
            if not can_step(own, other, at, die):
                point[depth] -= 1
                continue
            moved[depth], hit[depth] = True, make_step(own, other, at, die)
            depth += 1
            point[depth], moved[depth] = at, False
            continue
        if not moved[depth] and depth >= deepest:
            if depth > deepest:
                deepest, count, earlier = depth, 0, 0
            if not (can_be_another(point, dice, depth) and is_among(own, other, boards, earlier)):
                boards[count, 0, :], boards[count, 1, :] = own, other
                count += 1
        if depth == 0:
            return count, deepest
        depth -= 1
        undo_step(own, other, point[depth], dice[depth], hit[depth])
        point[depth] -= 1


@jit
def can_be_another(point, dice, depth):
    """Whether the dice may lead to the same board in the other order: only with one checker, with two of one point, or
    if one of them is borne off or cannot be played. (In one order, different ways lead to different boards.)"""
    if depth < 2 or point[0] < dice[0] or point[1] < dice[1]:
        return True
    return point[1] == point[0] or point[1] == point[0] - dice[0]


@jit
def is_among(own, other, boards, count):
    for each in range(count):  # noqa: SIM110
        if equal(boards[each, 0], own) and equal(boards[each, 1], other):
            return True
    return False


@jit
def equal(side, other):
    for point in range(24, -1, -1):  # noqa: SIM110  (two sequences mostly differ far from home; a loop compiles)
        if side[point] != other[point]:
            return False
    return True


@jit
def after_states(board, die, second, boards):
    """Write the boards that the roll allows to `boards` (MOST_MOVES, 2, 25); return how many there are.

    In the order of rules.moves: the higher die first, rearmost checkers first.
    """
    own, other = board[0].copy(), board[1].copy()
    high, low = max(die, second), min(die, second)
    dice = np.empty(4, dtype=np.int64)
    if high == low:
        dice[:] = high
        return search(own, other, dice, 4, boards, 0, 0)[0]
    dice[0], dice[1] = high, low
    first, deepest = search(own, other, dice, 2, boards, 0, 0)
    higher = first if deepest == 1 else 0
    dice[0], dice[1] = low, high
    count, deepest = search(own, other, dice, 2, boards, first, deepest)
    return higher if deepest == 1 and higher else count


@jit
def activate(board, x):
    """Write the inputs to x (198); see inputs.py."""
    x[:] = 0.0
    for side in range(2):
        base, off = side * UNITS_OF_A_SIDE, 15
        for point in range(24):
            checkers = board[side, point]
            off -= checkers
            for unit in range(min(checkers, 3)):
                x[base + 4 * point + unit] = 1.0
            if checkers > 3:
                x[base + 4 * point + 3] = (checkers - 3) / 2
        x[base + 96] = board[side, 24] / 2
        x[base + 97] = (off - board[side, 24]) / 15
    x[TURN] = 1.0


@jit
def add_side(into, side, base, z):
    """z (H) += W₁ᵀx over the inputs of one side, in their order; most of them are 0 or 1 (see inputs.py)."""
    units, off = len(z), 15
    for point in range(24):
        checkers = side[point]
        if checkers == 0:
            continue
        off -= checkers
        first = base + 4 * point
        one, two, three = into[first], into[first + 1], into[first + 2]
        if checkers == 1:
            for j in range(units):
                z[j] += one[j]
        elif checkers == 2:
            for j in range(units):
                z[j] = (z[j] + one[j]) + two[j]
        else:
            for j in range(units):
                z[j] = ((z[j] + one[j]) + two[j]) + three[j]
        if checkers > 3:
            add_scaled(np.float32((checkers - 3) / 2), into[first + 3], z)
    off -= side[24]
    if side[24] > 0:
        add_scaled(np.float32(side[24] / 2), into[base + 96], z)
    if off > 0:
        add_scaled(np.float32(off / 15), into[base + 97], z)


@jit
def add_scaled(x, row, z):
    for j in range(len(z)):
        z[j] += x * row[j]


@jit
def forward(net, half, side, h, y):
    """h (H) and y (3), in place; `net` is (W₁, b₁, W₂, b₂).

    half (H) is b₁ + W₁ᵀx over the inputs of the player to roll, `side` the opponent's checkers.
    """
    into, _, out, last = net
    units = len(half)
    h[:] = half
    add_side(into, side, UNITS_OF_A_SIDE, h)
    add_scaled(np.float32(1.0), into[TURN], h)
    for j in range(units):
        h[j] = sigmoid(h[j])
    a, b, c = last[0], last[1], last[2]
    for j in range(units):
        a += h[j] * out[j, 0]
        b += h[j] * out[j, 1]
        c += h[j] * out[j, 2]
    y[0], y[1], y[2] = sigmoid(a), sigmoid(b), sigmoid(c)


@jit
def sigmoid(z):
    return np.float32(1.0 / (1.0 + exponential(-min(max(np.float64(z), -32.0), 32.0))))


@jit
def has_finished(side):
    for point in range(25):  # noqa: SIM110  (a loop compiles)
        if side[point] > 0:
            return False
    return True


@jit
def size_of_win(loser):
    """See rules.won_by."""
    return 1 if loser.sum() < 15 else 3 if loser[18:].sum() > 0 else 2


@jit
def points_won(board):
    """See rules.points_won."""
    if has_finished(board[0]):
        return size_of_win(board[1])
    return -size_of_win(board[0]) if has_finished(board[1]) else 0


@jit
def workspace(units):
    """Where the values of a network are computed: `half` (see forward), h, y, and the y of the `lowest`."""
    half, h = np.empty(units, dtype=np.float32), np.empty(units, dtype=np.float32)
    return half, h, np.empty(3, dtype=np.float32), np.empty(3, dtype=np.float32)


@jit
def look(net, own, other, work):
    """h and y of a position, to `work`."""
    half, h, y, _ = work
    half[:] = net[1]
    add_side(net[0], own, 0, half)
    forward(net, half, other, h, y)


@jit
def equity(y):
    return 2.0 * y[0] + y[1] - y[2] - 1.0


@jit
def lowest(net, boards, count, work, values):
    """Write the opponent's expected points before its roll in each board found to `values`; return the index of the
    least.

    Ties go to the first. Where no checker is hit, the opponent's half of the inputs is unchanged.
    """
    half, h, y, least = work
    best, seen = 0, -1
    for each in range(count):
        mover, roller = boards[each, 0], boards[each, 1]
        if has_finished(mover):
            values[each] = -size_of_win(roller)
        else:
            if seen < 0 or not equal(roller, boards[seen, 1]):
                half[:] = net[1]
                add_side(net[0], roller, 0, half)
                seen = each
            forward(net, half, mover, h, y)
            values[each] = equity(y)
        if each == 0 or values[each] < values[best]:
            best = each
            least[:] = y
    return best


@jit
def choose(net, board, die, second, plies, width, room, work, reached):
    """Make the best move: write the after-state, turned, to `reached`, and return the opponent's expected points in it.

    plies   1: by the network's value of the after-states. 2: of the `width` best of these, by the mean over the
            opponent's 21 rolls of its best reply, valued by the network
    room    (boards, values) for each ply
    """
    boards, values = room[0]
    count = after_states(board, die, second, boards)
    best = lowest(net, boards, count, work, values)
    if plies > 1 and count > 1:
        order = np.argsort(values[:count])
        deepest, best = np.inf, order[0]
        for each in order[:width]:
            reached[0], reached[1] = boards[each, 1], boards[each, 0]
            expected = expects_two(net, reached, room[1], work)
            if expected < deepest:
                deepest, best = expected, each
        values[best] = deepest
    reached[0], reached[1] = boards[best, 1], boards[best, 0]
    return values[best]


@jit
def expects(net, board, work):
    """Points that the player to roll expects by the network; exact when the game has ended."""
    points = points_won(board)
    if points != 0:
        return float(points)
    look(net, board[0], board[1], work)
    return equity(work[2])


@jit
def expects_two(net, board, room, work):
    """Points that the player to roll expects if it plays each of the 21 rolls as the network values best."""
    points = points_won(board)
    if points != 0:
        return float(points)
    boards, values = room
    total = 0.0
    for die in range(1, 7):
        for second in range(1, die + 1):
            count = after_states(board, die, second, boards)
            best = lowest(net, boards, count, work, values)
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
def mix(z):
    """See engine/rl/draws.py."""
    z ^= z >> np.uint64(30)
    z *= FIRST
    z ^= z >> np.uint64(27)
    z *= SECOND
    return z ^ (z >> np.uint64(31))


@jit
def roll(seed, ply, dice):
    """The dice of a ply, as dice.py draws them."""
    key = mix(np.uint64(seed) * GOLDEN + GOLDEN)
    bits = mix(key + np.uint64(2 * ply) * GOLDEN)
    low, high = bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(32)
    if ply == 0:
        dice[0] = 1 + np.int64((low * np.uint64(6)) >> np.uint64(32))
        second = np.int64((high * np.uint64(5)) >> np.uint64(32))
        dice[1] = second + (2 if second + 1 >= dice[0] else 1)
    else:
        dice[0] = 1 + np.int64((low * np.uint64(6)) >> np.uint64(32))
        dice[1] = 1 + np.int64((high * np.uint64(6)) >> np.uint64(32))


@jit
def draw(seed, number, column):
    """A draw of a seed, as draws.uniforms gives it."""
    key = mix(np.uint64(seed) * GOLDEN + GOLDEN)
    bits = mix(key + np.uint64(2 * number + column // 2) * GOLDEN)
    return (bits >> np.uint64(32) if column % 2 else bits & np.uint64(0xFFFFFFFF)) * 2.0**-32


@jit
def throw_dice(chance, probabilities):
    """Which throw it is, as game.thrown finds it."""
    for each in range(len(probabilities)):
        chance -= probabilities[each]
        if chance < 0:
            return each
    return len(probabilities) - 1


@jit
def play_out(nets, start, throws, choices, columns, openings, rolls, plies, width, outcomes):
    """Play games as tournament.games_played does, with the dice of the seeds `throws` (G) and the random choices of
    `choices` (G): their points for the first seat, to `outcomes` (G).

    nets      of the first and the second seat         plies (2)  how far each looks ahead; 0: it plays at random
    columns   (2): those of the draws for a throw and for a choice
    openings, rolls   the dice (k, 2) and the probability (k) of each; the second half of the openings begins with the
                      second seat
    """
    work, other = workspace(len(nets[0][1])), workspace(len(nets[1][1]))
    room = (room_of(), room_of())
    board, reached = np.empty((2, 25), np.int8), np.empty((2, 25), np.int8)
    for game in range(len(throws)):
        board[:] = start
        place = throw_dice(draw(throws[game], 0, columns[0]), openings[1])
        turn, die, second = 2 * place // len(openings[1]), openings[0][place, 0], openings[0][place, 1]
        ply = 0
        while True:
            if plies[turn] == 0:
                count = after_states(board, die, second, room[0][0])
                chosen = room[0][0][int(draw(choices[game], ply, columns[1]) * count)]
                reached[0], reached[1] = chosen[1], chosen[0]
            elif turn == 0:
                choose(nets[0], board, die, second, plies[0], width, room, work, reached)
            else:
                choose(nets[1], board, die, second, plies[1], width, room, other, reached)
            board[:] = reached
            won = -points_won(board)
            if won != 0:
                outcomes[game] = won if turn == 0 else -won
                break
            ply, turn = ply + 1, 1 - turn
            place = throw_dice(draw(throws[game], ply, columns[0]), rolls[1])
            die, second = rolls[0][place, 0], rolls[0][place, 1]


@jit
def follow(weights, trace, i, x, slope, rate, decay, delta):
    """e ← λ ē + ∂y/∂w and w ← w + α Σ δ e for row i of weights (R, n), its traces (3, R, n), its gradients x · (3, n).

    ē is the trace of the other player (network.turned_trace).
    """
    row, e0, e1, e2 = weights[i], trace[0, i], trace[1, i], trace[2, i]
    d0, d1, d2 = delta
    for j in range(len(row)):
        a = decay * -e0[j] + x * slope[0, j]
        b = decay * e2[j] + x * slope[1, j]
        c = decay * e1[j] + x * slope[2, j]
        e0[j], e1[j], e2[j] = a, b, c
        row[j] += rate * (d0 * a + d1 * b + d2 * c)


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
    work, here, room = workspace(units), workspace(units), (room_of(), room_of())
    _, h, y, _ = here
    x = np.zeros(INPUTS, dtype=np.float32)
    back = np.empty((3, units), dtype=np.float32)  # ∂y/∂z, z being the input of the hidden units
    g_out, g_last = np.zeros((3, units, 3), dtype=np.float32), np.zeros((3, 3), dtype=np.float32)
    rest = (  # the other layers, each as one row
        (hidden.reshape(1, units), e_hidden.reshape(3, 1, units), back),
        (out.reshape(1, 3 * units), e_out.reshape(3, 1, 3 * units), g_out.reshape(3, 3 * units)),
        (last.reshape(1, 3), e_last.reshape(3, 1, 3), g_last),
    )
    reached, dice, results = np.empty((2, 25), np.int8), np.empty(2, dtype=np.int64), np.zeros(4, dtype=np.int64)
    rate, decay, one, zero = np.float32(alpha), np.float32(lam), np.float32(1.0), np.float32(0.0)
    moves, ended = 0, 0
    while ended < games and moves < most:
        roll(seed, ply, dice)
        choose(net, board, dice[0], dice[1], 1, 1, room, work, reached)
        look(net, board[0], board[1], here)
        points = -points_won(reached)
        if points > 0:
            target = one, one if points > 1 else zero, zero
        else:
            least = work[3]
            target = one - least[0], least[2], least[1]
        delta = target[0] - y[0], target[1] - y[1], target[2] - y[2]
        for k in range(3):
            slope = y[k] * (one - y[k])
            g_last[k, k] = slope
            for j in range(units):
                g_out[k, j, k] = h[j] * slope
                back[k, j] = (slope * out[j, k]) * (h[j] * (one - h[j]))
        activate(board, x)
        for i in range(INPUTS):
            active[i] |= x[i] != zero
            if active[i]:
                follow(into, e_into, i, x[i], back, rate, decay, delta)
        for weights, e, slopes in rest:
            follow(weights, e, 0, one, slopes, rate, decay, delta)
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
