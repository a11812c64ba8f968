"""Round-robin tournaments, with each player equally often in either seat, and the resulting ratings (MATH G1, H6).

    P(i beats j) = 1 / (1 + 10^((Rⱼ − Rᵢ)/400)), a draw counting as half a win

Notable: two deterministic players would play the same game a thousand times, and the result would look a thousand times
more certain than it is. So the first moves are drawn at random, each opening is played twice with the seats swapped,
and the number of *different* games is reported with the results. Tables play all their games at once, a ply at a time;
other players are asked move by move. The same draws give the same games.

The ratings are maximum-likelihood ones (Bradley and Terry 1952; Zermelo 1929), not Elo's running ones (Elo 1978), which
depend on the order of the games. One drawn game of every player against an average one is added: a player that never
lost a point would have no rating otherwise.

The 95 % interval of a rating is where the profile likelihood ratio of the games alone is below 3.84, after half a point
was moved towards the end that is asked for: without that correction for continuity (Yates 1934) few games cover less
than 95 %. A player that never lost a point has no upper end. Draws make results less uncertain than wins and losses
with the same sum, so the bound shrinks by their variance over that of decided games. Of two players the interval is
half of the exact one of their difference (engine/intervals.py). tests/engine/test_intervals.py simulates what is
covered; standard errors from the residuals, which vanish for one-sided results, covered as little as 56 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np

from txlab.engine.games.graph import GameGraph, compiled, cumulated
from txlab.engine.games.players import Player, TabularPlayer
from txlab.engine.intervals import difference_interval
from txlab.engine.rl.draws import uniforms
from txlab.errors import LabError

OPENING = 1
"""Moves made at random before the players are asked: after one, no game of tic-tac-toe is decided yet."""
SLICE = 500  # games of a pair between checks whether to continue
SCALE = 400 / log(10)  # rating points for a factor e in the odds
ROUNDS = 200  # most iterations of Newton's method
BOUND = 3.841459  # the .95 quantile of χ² with one degree of freedom
UNSEEN = 4.0  # decided games added to each pair in the variance: as many drawn games may hide a share that is decided
FARTHEST = 25.0  # in units of θ, 4 300 points: an end of an interval farther out is infinite
CLOSE = 1e-6  # in log L, for the ends of intervals
PRECISION = 1e-3  # of the ends of intervals: in units of θ, .2 points, or of √(likelihood ratio)
LONGEST = 512  # plies per game for which draws are made at once, if its length is unknown


@dataclass(frozen=True)
class Standing:
    """A row of the table: [low, high] is the rating's 95 % interval, `score` is (won + ½ drawn) / games."""

    name: str
    rating: float
    low: float
    high: float
    games: int
    won: int
    drawn: int
    lost: int

    @property
    def score(self) -> float:
        return (self.won + 0.5 * self.drawn) / max(self.games, 1)


@dataclass(frozen=True, eq=False)
class Standings:
    """results    (P, P, 3) int64: [i, j] is how often i, as first player, won, drew and lost against j
    different  (P, P) int64: the number of distinct games among them
    """

    names: tuple[str, ...]
    results: np.ndarray
    different: np.ndarray
    opening: int

    def against(self, i: int, j: int) -> tuple[int, int, int]:
        """(won, drawn, lost) of i against j from both seats together."""
        found = self.results[i, j] + self.results[j, i, ::-1]
        return int(found[0]), int(found[1]), int(found[2])

    def ratings(self) -> Ratings:
        """In the order of `names`."""
        both = self.results + self.results.transpose(1, 0, 2)[:, :, ::-1]
        return ratings(both[:, :, 0], both[:, :, 1])

    def rows(self) -> list[Standing]:
        """Best first."""
        rated = self.ratings()
        found = []
        for i, name in enumerate(self.names):
            won, drawn, lost = np.sum([self.against(i, j) for j in range(len(self.names)) if j != i], axis=0).tolist()
            total = won + drawn + lost
            found.append(Standing(name, float(rated.rating[i]), *rated.interval(i), total, won, drawn, lost))
        return sorted(found, key=lambda row: -row.rating)


def tournament(
    players: Sequence[Player],
    games: int,
    seed: int,
    opening: int = OPENING,
    late: Callable[[], bool] = lambda: False,
    say: Callable[[int, int], None] = lambda done, total: None,
) -> Standings | None:
    """Let every two players play `games` games, half from either seat; None if `late` returned True before the end.

    opening  the number of random first moves; `say` gets how many games are done and how many there are in all
    LabError for fewer than two players, two of the same name, players of different games, or an odd number of games.
    """
    names = tuple(player.name for player in players)
    if len(names) < 2:
        raise LabError("a tournament needs two players or more")
    if len(set(names)) < len(names):
        raise LabError(f"players of a tournament need names of their own; given are {', '.join(names)}")
    if len({player.game.NAME for player in players}) > 1:
        raise LabError("players of a tournament must play the same game")
    if games < 2 or games % 2:
        raise LabError(f"every two players play an even number of games, for each sits first in half; not {games}")
    P = len(players)
    results, different = np.zeros((P, P, 3), dtype=np.int64), np.zeros((P, P), dtype=np.int64)
    pairs = [(i, j) for i in range(P) for j in range(i + 1, P)]
    openings = games // 2
    done = 0
    for pair, (i, j) in enumerate(pairs):
        seen: dict[tuple[int, int], set[tuple[int, ...]]] = {(i, j): set(), (j, i): set()}
        for begin in range(0, openings, SLICE):
            if late():
                return None
            count = min(SLICE, openings - begin)
            for seat, (first, second) in enumerate(((i, j), (j, i))):
                # each opening has a fixed number; its two games have different draws, except for their first moves
                number = ((seed * len(pairs) + pair) * openings + begin) * 2 % 2**64
                seeds = np.uint64(number) + np.uint64(2) * np.arange(count, dtype=np.uint64)
                outcomes, moves = play(players[first], players[second], seeds, seeds + np.uint64(seat), opening)
                results[first, second] += [int((outcomes == each).sum()) for each in (1, 0, -1)]
                seen[first, second] |= set(map(tuple, moves.tolist()))
            done += 2 * count
            say(done, len(pairs) * games)
        for seats, each in seen.items():
            different[seats] = len(each)
    return Standings(names, results, different, opening)


def play(
    first: Player, second: Player, openings: np.ndarray, seeds: np.ndarray, opening: int
) -> tuple[np.ndarray, np.ndarray]:
    """Play G games at once: outcomes (G), the first player's view, and moves (G, plies), −1 after the end.

    openings (G), seeds (G) uint64: the seeds of the draws for the first `opening` moves, and for all others.
    """
    if isinstance(first, TabularPlayer) and isinstance(second, TabularPlayer):
        return tables_play(compiled(first.game), first.policy(), second.policy(), openings, seeds, opening)
    return players_play(first, second, openings, seeds, opening)


def tables_play(
    graph: GameGraph, first: np.ndarray, second: np.ndarray, openings: np.ndarray, seeds: np.ndarray, opening: int
) -> tuple[np.ndarray, np.ndarray]:
    """`play` for two policies (E): all games a ply at a time."""
    longest = int(graph.ply.max())
    chance = uniforms(seeds, 0, longest)[:, :, 1]  # (G, plies)
    chance[:, :opening] = uniforms(openings, 0, longest)[:, :opening, 3]
    evenly = cumulated(graph, 1 / graph.count[graph.before])  # (N, places)
    asked = np.stack([cumulated(graph, first), cumulated(graph, second)])  # (2, N, places)
    position = np.zeros(len(seeds), dtype=np.int64)
    moves = np.full((len(seeds), longest), -1)
    for ply in range(longest):
        going = np.flatnonzero(~graph.ended[position])
        n = position[going]
        seat = (graph.mover[n] < 0).astype(np.int64)
        running = evenly[n] if ply < opening else asked[seat, n]  # (games that go on, places)
        place = (running <= chance[going, ply, None]).sum(axis=1)
        edge = graph.first[n] + place
        moves[going, ply] = graph.move[edge]
        position[going] = graph.after[edge]
    return graph.outcome[position], moves


def players_play(
    first: Player, second: Player, openings: np.ndarray, seeds: np.ndarray, opening: int
) -> tuple[np.ndarray, np.ndarray]:
    """`play` for any two players: each is asked for each of its moves."""
    game = first.game
    outcomes, histories = [], []
    for begin, seed in zip(openings.tolist(), seeds.tolist(), strict=True):
        position, history = game.start(), list[int]()
        chance = uniforms(seed, 0, LONGEST)[0, :, 1].tolist()
        drawn = uniforms(begin, 0, max(opening, 1))[0, :, 3].tolist()
        while (outcome := game.outcome(position)) is None:
            ply = len(history)
            if ply and ply % LONGEST == 0:
                chance += uniforms(seed, ply, LONGEST)[0, :, 1].tolist()
            if ply < opening:
                legal = game.legal(position)
                move = legal[int(drawn[ply] * len(legal))]
            else:
                player = first if game.mover(position) > 0 else second
                move = player.move(position, chance[ply])
            history.append(move)
            position = game.after(position, move)
        outcomes.append(outcome)
        histories.append(history)
    moves = np.full((len(histories), max(map(len, histories), default=0)), -1)
    for row, history in zip(moves, histories, strict=True):
        row[: len(history)] = history
    return np.array(outcomes), moves


# Ratings


@dataclass(frozen=True)
class Ratings:
    """rating      (P) float64, with mean `centre`
    low, high   (P) float64, the ends of the 95 % interval of each, relative to the mean of all; they may be infinite
    """

    rating: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def interval(self, i: int) -> tuple[float, float]:
        return float(self.low[i]), float(self.high[i])


def ratings(won: np.ndarray, drawn: np.ndarray, centre: float = 1500.0, prior: float = 1.0) -> Ratings:
    """Maximum-likelihood Bradley–Terry ratings, by Newton's method, with intervals.

        log L = Σᵢⱼ (wonᵢⱼ + ½ drawnᵢⱼ) log σ(θᵢ − θⱼ) + ½ prior Σᵢ (log σ(θᵢ) + log σ(−θᵢ))
        R = centre + 400 θ / ln 10

    won    (P, P): how often i beat j         drawn  (P, P), symmetric: how often they drew; the diagonals are not read
    prior  drawn games of every player against an average one; 0 = none: LabError if a player then has no rating
    """
    won, drawn = np.array(won, dtype=np.float64), np.array(drawn, dtype=np.float64)
    P = len(won)
    np.fill_diagonal(won, 0.0)
    np.fill_diagonal(drawn, 0.0)
    points = won + 0.5 * drawn
    if prior == 0 and ((points.sum(axis=1) == 0) | (points.sum(axis=0) == 0)).any():
        raise LabError("a player that won or lost every game has no rating of greatest likelihood; give a prior")
    theta = likeliest(points, prior, np.zeros(P))
    theta -= theta.mean()
    if P == 2:
        low, high = difference_interval(int(won[0, 1]), int(drawn[0, 1]), int(won[1, 0]))
        ends = np.array([[low, high], [-high, -low]]) / 2
    else:
        ends = SCALE * np.array([[likelihood_end(won, drawn, theta, i, up) for up in (False, True)] for i in range(P)])
    return Ratings(centre + SCALE * theta, centre + ends[:, 0], centre + ends[:, 1])


def likeliest(
    points: np.ndarray, prior: float, start: np.ndarray, fixed: int | None = None, close: float = 1e-12
) -> np.ndarray:
    """The θ (P) of greatest likelihood, from `start` on; the difference of `fixed` from the mean stays as it is there.

    points  (P, P): of i against j, a draw being half a point     close  what log L may still gain by the last step
    """
    P, theta = len(points), start.copy()
    games = points + points.T
    for _ in range(ROUNDS):
        expected = sigmoid(theta[:, None] - theta[None, :])
        average = sigmoid(theta)
        gradient = points.sum(axis=1) - (games * expected).sum(axis=1) + prior * (0.5 - average)
        hessian = curvature(games * expected * (1 - expected), prior * average * (1 - average))
        if fixed is not None:  # Lagrange: no step along eᵢ − 1/P
            along = np.eye(P)[fixed] - 1 / P
            hessian = np.block([[hessian, along[:, None]], [along[None, :], np.zeros((1, 1))]])
            gradient = np.append(gradient, 0.0)
        # without a prior only differences are determined: take the smallest of the possible steps
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0][:P]
        theta += step / max(1.0, float(np.abs(step).max()))  # at most e in the odds at once: Newton may overshoot
        if abs(float(gradient[:P] @ step)) < close:
            break
    return theta


def likelihood_end(won: np.ndarray, drawn: np.ndarray, theta: np.ndarray, i: int, up: bool) -> float:
    """The end of the 95 % interval of θᵢ − mean θ, or ±∞."""
    sign = 1.0 if up else -1.0
    points = won + 0.5 * drawn
    taken = points[:, i] if up else points[i]  # of the others from i, or of i: half a point of them changes sides
    if taken.sum() <= 0.5:
        return sign * inf
    moved = 0.5 * taken / taken.sum()
    points[:, i] -= sign * moved
    points[i] += sign * moved
    best = likeliest(points, 0.0, theta, close=CLOSE)
    most = log_likelihood(points, best)
    bound = BOUND * draws_shrink(won, drawn, theta, i)
    along = np.eye(len(won))[i] - 1 / len(won)

    def excess(at: float) -> float:
        """√(likelihood ratio) − √bound, nearly linear in `at`."""
        start = best + (at - best @ along) / (along @ along) * along
        held = likeliest(points, 0.0, start, i, CLOSE)
        return sqrt(max(0.0, 2 * (most - log_likelihood(points, held)))) - sqrt(bound)

    near, far = float(best @ along), float(best @ along) + sign
    below, above = -sqrt(bound), excess(far)
    while above <= 0:
        near, far, below = far, far + 2 * (far - near), above
        if abs(far) > FARTHEST:
            return sign * inf
        above = excess(far)
    while abs(far - near) > PRECISION:  # regula falsi; halved where it keeps an end, which is then too far (Illinois)
        between = far - above * (far - near) / (above - below)
        if (value := excess(between)) > 0:
            far, above, below = between, value, below / 2
        else:
            near, below, above = between, value, above / 2
        if abs(value) < PRECISION:
            return between
    return far


def draws_shrink(won: np.ndarray, drawn: np.ndarray, theta: np.ndarray, i: int) -> float:
    """The variance of θᵢ − mean θ over that of results without draws, at most 1.

    A result has the variance s (1 − s) − ¼ P(draw), s being the expected score.
    """
    expected = sigmoid(theta[:, None] - theta[None, :])
    each = expected * (1 - expected)
    games = won + won.T + drawn
    decided = np.maximum(games * each - drawn / 4, 0.0) + UNSEEN * each * (games > 0)
    nothing = np.zeros(len(won))
    a = np.linalg.pinv(curvature(games * each, nothing), rcond=1e-12, hermitian=True)[i]
    return min(1.0, float(a @ curvature(np.minimum(decided, games * each), nothing) @ a / a[i]))


def log_likelihood(points: np.ndarray, theta: np.ndarray) -> float:
    return float(-(points * np.logaddexp(0, theta[None, :] - theta[:, None])).sum())


def sigmoid(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1 / (1 + np.exp(-x))
    return found


def curvature(pairs: np.ndarray, own: np.ndarray) -> np.ndarray:
    """(P, P): Σ over pairs of their weight times (eᵢ − eⱼ)(eᵢ − eⱼ)ᵀ, plus `own` on the diagonal."""
    found: np.ndarray = np.diag(pairs.sum(axis=1) + own) - pairs
    return found
