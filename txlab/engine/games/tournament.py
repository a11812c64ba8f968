"""Round-robin tournaments, with each player equally often in each seat, and the resulting ratings (MATH G1, H6).

    P(i beats j) = 1 / (1 + 10^((Rⱼ − Rᵢ)/400)), a draw counting as half a win

Notable: two deterministic players would play the same game a thousand times, and the result would look a thousand times
more certain than it is. So the first moves are drawn at random, each opening is played twice with the seats swapped,
and the number of *different* games is reported with the results. With dice no move is drawn: the two games of a pair
have the same throws, so that each side plays with the luck of the other. All games of a pair are played together, a ply
at a time. The same draws give the same games.

A win by several points is one win for the ratings; points a game, and their interval, are reported with them.

The ratings are maximum-likelihood ones (Bradley and Terry 1952; Zermelo 1929), not Elo's running ones (Elo 1978), which
depend on the order of the games. One drawn game of every player against an average one is added: a player that never
lost a point would have no rating otherwise.

The 95 % interval of a rating is where the profile likelihood ratio of the games alone is below 3.84, after half a point
was moved towards the end in question: without that correction for continuity (Yates 1934) few games cover less than
95 %. A player that never lost a point has no upper end. Draws make results less uncertain than wins and losses with the
same sum, so the bound shrinks by their variance over that of decided games. Of two players the interval is half of the
exact one of their difference (engine/intervals.py). tests/engine/test_intervals.py simulates the coverage; standard
errors from the residuals, which vanish for one-sided results, covered as little as 56 %.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any, Protocol, runtime_checkable

import numpy as np

from txlab.engine.games.game import CHANCE, FIRST, SECOND, Game, Move, OpensAtRandom, Position, throw_dice
from txlab.engine.games.graph import GameGraph, compile_graph, cumulate
from txlab.engine.games.players import AnswersMany, Player, RandomPlayer, TabularPlayer
from txlab.engine.games.playing import CHOICE, DICE, OPENING, Draws
from txlab.engine.intervals import difference_interval, mean_interval
from txlab.engine.rl.draws import uniforms
from txlab.errors import LabError

CENTRE = 1500.0  # the mean rating of a tournament
RANDOM_MOVES = 1
"""Moves made at random before the players take over: after one, no game of tic-tac-toe is decided yet."""
SLICE = 500  # games of a pair between checks whether to continue
SCALE = 400 / log(10)  # rating points for a factor e in the odds
ROUNDS = 200  # most iterations of Newton's method
BOUND = 3.841459  # the .95 quantile of χ² with one degree of freedom
UNSEEN = 4.0  # decided games added to each pair in the variance: as many drawn games may hide a share that is decided
FARTHEST = 25.0  # in units of θ, 4 300 points: an end of an interval farther out is infinite
CLOSE = 1e-6  # in log L, for the ends of intervals
PRECISION = 1e-3  # of the ends of intervals: in units of θ, .2 points, or of √(likelihood ratio)
LONGEST = 20_000  # plies: a game of players who never end it


class Interrupted(Exception):
    """Games were not played to their end, since `late` returned True."""


def never() -> bool:
    return False


@dataclass(frozen=True)
class Standing:
    """A row of the table: [low, high] is the rating's 95 % interval, `score` is (won + ½ drawn) / games.

    points   a game, and the 95 % interval
    """

    name: str
    rating: float
    low: float
    high: float
    games: int
    won: int
    drawn: int
    lost: int
    points: float
    points_low: float
    points_high: float

    @property
    def score(self) -> float:
        return (self.won + 0.5 * self.drawn) / max(self.games, 1)


@dataclass(frozen=True, eq=False)
class Standings:
    """results    (P, P, 3) int64: [i, j] is how often i, as first player, won, drew and lost against j
    different  (P, P) int64: the number of distinct games among them
    pairs      (i, j), i < j → (openings) float64: points a game of i, over the two games of each opening
    most       the most points of a game
    """

    names: tuple[str, ...]
    results: np.ndarray
    different: np.ndarray
    pairs: Mapping[tuple[int, int], np.ndarray]
    most: int
    opening: int

    def against(self, i: int, j: int) -> tuple[int, int, int]:
        """(won, drawn, lost) of i against j from both seats together."""
        totals = self.results[i, j] + self.results[j, i, ::-1]
        return int(totals[0]), int(totals[1]), int(totals[2])

    def points(self, i: int, j: int | None = None) -> tuple[float, float, float]:
        """(mean, low, high): points a game of i, against j or against all, with the 95 % interval."""
        against = range(len(self.names)) if j is None else [j]
        played = [(i, each) for each in against if (min(i, each), max(i, each)) in self.pairs]
        means = np.concatenate([self.pairs[pair] if pair in self.pairs else -self.pairs[pair[::-1]] for pair in played])
        mean, deviation = float(means.mean()), float(means.std())
        return mean, *mean_interval(mean, deviation, len(means), -self.most, self.most)

    def ratings(self, centre: float = CENTRE, zero: int | None = None) -> Ratings:
        """In the order of `names`; see `ratings`."""
        both = self.results + self.results.transpose(1, 0, 2)[:, :, ::-1]
        return ratings(both[:, :, 0], both[:, :, 1], centre, zero=zero)

    def rows(self) -> list[Standing]:
        """Best first."""
        rated = self.ratings()
        standings = []
        for i, name in enumerate(self.names):
            won, drawn, lost = np.sum([self.against(i, j) for j in range(len(self.names)) if j != i], axis=0).tolist()
            total = won + drawn + lost
            rating = float(rated.rating[i]), *rated.interval(i)
            standings.append(Standing(name, *rating, total, won, drawn, lost, *self.points(i)))
        return sorted(standings, key=lambda row: -row.rating)


def tournament(
    players: Sequence[Player],
    games: int,
    seed: int,
    opening: int | None = None,
    late: Callable[[], bool] = never,
    say: Callable[[int, int], None] = lambda done, total: None,
    names: Sequence[str] | None = None,
) -> Standings | None:
    """Let every two players play `games` games, half from each seat; None if `late` returned True before the end.

    opening  the number of random first moves; None = as many as `random_moves` says
    say      gets how many games are done and how many there are in all
    names    of the players, if not their own
    LabError for fewer than two players, two of the same name, players of different games, or an odd number of games.
    """
    names = tuple(names or (player.name for player in players))
    if len(names) < 2:
        raise LabError("a tournament needs two players or more")
    if len(set(names)) < len(names):
        raise LabError(f"players of a tournament need different names; given are {', '.join(names)}")
    if len({player.game.NAME for player in players}) > 1:
        raise LabError("players of a tournament must play the same game")
    if games < 2 or games % 2:
        raise LabError(f"every two players play an even number of games, for each sits first in half; not {games}")
    game, P = players[0].game, len(players)
    if opening is None:
        opening = random_moves(game)
    results, different = np.zeros((P, P, 3), dtype=np.int64), np.zeros((P, P), dtype=np.int64)
    pairs = [(i, j) for i in range(P) for j in range(i + 1, P)]
    means: dict[tuple[int, int], np.ndarray] = {}
    openings = games // 2
    done = 0
    for pair, (i, j) in enumerate(pairs):
        seen: tuple[set[object], set[object]] = set(), set()
        batches = []
        for begin in range(0, openings, SLICE):
            if late():
                return None
            # each opening has a fixed number; its two games have different draws, except for first moves and throws
            number = ((seed * len(pairs) + pair) * openings + begin) * 2 % 2**64
            seeds = np.uint64(number) + np.uint64(2) * np.arange(min(SLICE, openings - begin), dtype=np.uint64)
            try:
                points, moves = contest(players[i], players[j], seeds, opening, late)
            except Interrupted:
                return None
            batches.append(points.mean(axis=1))
            add_results(results, i, j, points)
            for seat in (0, 1):
                seen[seat].update(moves[seat])
            done += 2 * len(seeds)
            say(done, len(pairs) * games)
        different[i, j], different[j, i] = map(len, seen)
        means[i, j] = np.concatenate(batches)
    return Standings(names, results, different, means, game.MOST_POINTS, opening)


def random_moves(game: Game) -> int:
    """The number of random first moves: two deterministic players would play a single game only. One move decides no
    game of tic-tac-toe; other games say how many."""
    if game.chances(game.start()):
        return 0
    return game.RANDOM_MOVES if isinstance(game, OpensAtRandom) else RANDOM_MOVES


def add_results(results: np.ndarray, i: int, j: int, points: np.ndarray) -> None:
    """Count games of i against j, whose points for i from either seat are (G, 2), in `Standings.results`."""
    for seat, (first, second) in enumerate(((i, j), (j, i))):
        outcomes = points[:, seat] * (1 - 2 * seat)
        results[first, second] += [int((np.sign(outcomes) == each).sum()) for each in (1, 0, -1)]


@runtime_checkable
class Matched(Protocol):
    """A player with a faster way to play many games against another of its class."""

    def match(self, other: Any, seeds: np.ndarray) -> np.ndarray:
        """(G): the points that it wins in a game for each seed; it sits first in games 0, 2, …, equal seeds have equal
        dice."""


def contest(
    one: Player, other: Player, seeds: np.ndarray, opening: int, late: Callable[[], bool] = never
) -> tuple[np.ndarray, tuple[Iterable[Hashable], Iterable[Hashable]]]:
    """Two games for each seed (G), from both seats: the points of `one` (G, 2), and for each seat keys that distinguish
    its games.

    late   asked before each ply, where players choose their moves: whether to stop, with Interrupted
    """
    if isinstance(one, Matched) and type(one) is type(other):
        points = one.match(other, np.repeat(seeds, 2)).reshape(-1, 2)
        return points, (seeds.tolist(), seeds.tolist())
    outcomes, first = play(one, other, seeds, seeds, opening, late)
    turned, second = play(other, one, seeds, seeds + np.uint64(1), opening, late)
    return np.stack([outcomes, -turned], axis=1), (first, second)


def play(
    first: Player,
    second: Player,
    openings: np.ndarray,
    seeds: np.ndarray,
    opening: int,
    late: Callable[[], bool] = never,
) -> tuple[np.ndarray, list[tuple[Move, ...]]]:
    """Play G games in parallel: outcomes (G), the first player's view, and the moves of each.

    openings (G), seeds (G) uint64: the seeds of the first `opening` moves and all throws, and of the players' draws.
    """
    if isinstance(first, TabularPlayer) and isinstance(second, TabularPlayer):
        return tables_play(compile_graph(first.game), first.policy(), second.policy(), openings, seeds, opening)
    return players_play(first, second, openings, seeds, opening, late)


def tables_play(
    graph: GameGraph, first: np.ndarray, second: np.ndarray, openings: np.ndarray, seeds: np.ndarray, opening: int
) -> tuple[np.ndarray, list[tuple[Move, ...]]]:
    """`play` for two policies (E): all games a ply at a time."""
    longest = int(graph.ply.max())
    chance = uniforms(seeds, 0, longest)[:, :, 1]  # (G, plies)
    chance[:, :opening] = uniforms(openings, 0, longest)[:, :opening, 3]
    evenly = cumulate(graph, 1 / graph.count[graph.before])  # (N, places)
    asked = np.stack([cumulate(graph, first), cumulate(graph, second)])  # (2, N, places)
    position = np.zeros(len(seeds), dtype=np.int64)
    moves = np.full((len(seeds), longest), -1)
    for ply in range(longest):
        going = np.flatnonzero(~graph.ended[position])
        n = position[going]
        seat = (graph.mover[n] < 0).astype(np.int64)
        running = evenly[n] if ply < opening else asked[seat, n]  # (unfinished games, places)
        place = (running <= chance[going, ply, None]).sum(axis=1)
        edge = graph.first[n] + place
        moves[going, ply] = graph.move[edge]
        position[going] = graph.after[edge]
    return graph.outcome[position], [tuple(each for each in row if each >= 0) for row in moves.tolist()]


def players_play(
    first: Player,
    second: Player,
    openings: np.ndarray,
    seeds: np.ndarray,
    opening: int,
    late: Callable[[], bool] = never,
) -> tuple[np.ndarray, list[tuple[Move, ...]]]:
    """`play` for any two players."""
    outcomes, games = games_played(first, second, openings, seeds, opening, late)
    return np.array(outcomes, dtype=np.int64), [tuple(move for _, move in each) for each in games]


def games_played(
    first: Player,
    second: Player,
    openings: np.ndarray,
    seeds: np.ndarray,
    opening: int,
    late: Callable[[], bool] = never,
) -> tuple[list[int], list[list[tuple[Position, Move]]]]:
    """The outcomes, and the positions of each game with the move made there.

    Each player chooses its moves in all games in one call, if it has `moves`, or game by game.
    """
    game, G = first.game, len(seeds)
    positions = [game.start()] * G
    histories: list[list[tuple[Position, Move]]] = [[] for _ in range(G)]
    outcomes = [0] * G
    chance = [Draws(seed, CHOICE) for seed in seeds.tolist()]
    drawn, throws = ([Draws(seed, column) for seed in openings.tolist()] for column in (OPENING, DICE))
    thrown_so_far = [0] * G
    going = list(range(G))
    for ply in range(LONGEST):
        if late():
            raise Interrupted
        asked: dict[int, list[int]] = {FIRST: [], SECOND: []}
        for n in going:
            while game.mover(positions[n]) == CHANCE and game.outcome(positions[n]) is None:
                positions[n] = throw_dice(game, positions[n], throws[n][thrown_so_far[n]])
                thrown_so_far[n] += 1
            if (outcome := game.outcome(positions[n])) is None:
                asked[game.mover(positions[n])].append(n)
            else:
                outcomes[n] = outcome
        going = sorted(asked[FIRST] + asked[SECOND])
        if not going:
            return outcomes, histories
        for side, rows in asked.items():
            if ply < opening:
                chosen = [RandomPlayer(game).move(positions[n], drawn[n][ply]) for n in rows]
            else:
                player = first if side == FIRST else second
                chosen = moves_of(player, [positions[n] for n in rows], [chance[n][ply] for n in rows])
            for n, move in zip(rows, chosen, strict=True):
                histories[n].append((positions[n], move))
                positions[n] = game.after(positions[n], move)
    raise LabError(f"{first.name} and {second.name} do not end a game of {game.TITLE} in {LONGEST} moves")


def moves_of(player: Player, positions: list[Position], draws: list[float]) -> list[Move]:
    """The player's moves in several positions, in one call if it supports that."""
    if isinstance(player, AnswersMany) and positions:
        return player.moves(positions, draws)
    return [player.move(position, draw) for position, draw in zip(positions, draws, strict=True)]


# Ratings


@dataclass(frozen=True)
class Ratings:
    """rating      (P) float64, with mean `centre`, or `centre` for the player at zero
    low, high   (P) float64, the ends of the 95 % interval of each, relative to the mean of all or to the player at
                zero; they may be infinite
    """

    rating: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def interval(self, i: int) -> tuple[float, float]:
        return float(self.low[i]), float(self.high[i])


def ratings(
    won: np.ndarray, drawn: np.ndarray, centre: float = CENTRE, prior: float = 1.0, zero: int | None = None
) -> Ratings:
    """Maximum-likelihood Bradley–Terry ratings, by Newton's method, with intervals.

        log L = Σᵢⱼ (wonᵢⱼ + ½ drawnᵢⱼ) log σ(θᵢ − θⱼ) + ½ prior Σᵢ (log σ(θᵢ) + log σ(−θᵢ))
        R = centre + 400 θ / ln 10

    won    (P, P): how often i beat j         drawn  (P, P), symmetric: how often they drew; the diagonals are not read
    prior  drawn games of every player against an average one; 0 = none: LabError if a player then has no rating
    zero   the player whose rating is `centre`; the intervals are those of the differences from it. None = of those
           from the mean of all
    """
    won, drawn = np.array(won, dtype=np.float64), np.array(drawn, dtype=np.float64)
    P = len(won)
    np.fill_diagonal(won, 0.0)
    np.fill_diagonal(drawn, 0.0)
    points = won + 0.5 * drawn
    if prior == 0 and ((points.sum(axis=1) == 0) | (points.sum(axis=0) == 0)).any():
        raise LabError("a player that won or lost every game has no rating of greatest likelihood; give a prior")
    theta = likeliest(points, prior, np.zeros(P))
    theta -= theta.mean() if zero is None else theta[zero]
    if P == 2:
        low, high = difference_interval(int(won[0, 1]), int(drawn[0, 1]), int(won[1, 0]))
        ends = np.array([[low, high], [-high, -low]]) / (2 if zero is None else 1)
    else:
        origin = np.full(P, 1 / P) if zero is None else np.eye(P)[zero]
        ends = SCALE * np.array(
            [[likelihood_end(won, drawn, theta, i, origin, up) for up in (False, True)] for i in range(P) if i != zero]
        )
        ends = ends if zero is None else np.insert(ends, zero, 0.0, axis=0)
    if zero is not None:
        ends[zero] = 0.0
    return Ratings(centre + SCALE * theta, centre + ends[:, 0], centre + ends[:, 1])


def likeliest(
    points: np.ndarray, prior: float, start: np.ndarray, fixed: np.ndarray | None = None, close: float = 1e-12
) -> np.ndarray:
    """The θ (P) of greatest likelihood, from `start` on; θ · `fixed` stays as it is there, `fixed` (P) having sum 0.

    points  (P, P): of i against j, a draw being half a point     close  what log L may still gain by the last step
    """
    P, theta = len(points), start.copy()
    games = points + points.T
    for _ in range(ROUNDS):
        expected = sigmoid(theta[:, None] - theta[None, :])
        average = sigmoid(theta)
        gradient = points.sum(axis=1) - (games * expected).sum(axis=1) + prior * (0.5 - average)
        hessian = curvature(games * expected * (1 - expected), prior * average * (1 - average))
        if fixed is not None:  # Lagrange: no step along it
            hessian = np.block([[hessian, fixed[:, None]], [fixed[None, :], np.zeros((1, 1))]])
            gradient = np.append(gradient, 0.0)
        # without a prior only differences are determined: take the smallest of the possible steps
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0][:P]
        theta += step / max(1.0, float(np.abs(step).max()))  # at most e in the odds per step: Newton may overshoot
        if abs(float(gradient[:P] @ step)) < close:
            break
    return theta


def likelihood_end(
    won: np.ndarray, drawn: np.ndarray, theta: np.ndarray, i: int, origin: np.ndarray, up: bool
) -> float:
    """The end of the 95 % interval of θᵢ − θ · origin, or ±∞; `origin` (P) has sum 1: 1/P for the mean."""
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
    along = np.eye(len(won))[i] - origin
    bound = BOUND * draws_shrink(won, drawn, theta, along)

    def excess(at: float) -> float:
        """√(likelihood ratio) − √bound, nearly linear in `at`."""
        start = best + (at - best @ along) / (along @ along) * along
        held = likeliest(points, 0.0, start, along, CLOSE)
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


def draws_shrink(won: np.ndarray, drawn: np.ndarray, theta: np.ndarray, along: np.ndarray) -> float:
    """The variance of θ · along over that of results without draws, at most 1.

    A result has the variance s (1 − s) − ¼ P(draw), s being the expected score.
    """
    expected = sigmoid(theta[:, None] - theta[None, :])
    each = expected * (1 - expected)
    games = won + won.T + drawn
    decided = np.maximum(games * each - drawn / 4, 0.0) + UNSEEN * each * (games > 0)
    nothing = np.zeros(len(won))
    a = np.linalg.pinv(curvature(games * each, nothing), rcond=1e-12, hermitian=True) @ along
    return min(1.0, float(a @ curvature(np.minimum(decided, games * each), nothing) @ a / (a @ along)))


def log_likelihood(points: np.ndarray, theta: np.ndarray) -> float:
    return float(-(points * np.logaddexp(0, theta[None, :] - theta[:, None])).sum())


def sigmoid(x: np.ndarray) -> np.ndarray:
    probability: np.ndarray = 1 / (1 + np.exp(-x))
    return probability


def curvature(pairs: np.ndarray, own: np.ndarray) -> np.ndarray:
    """(P, P): Σ over pairs of their weight times (eᵢ − eⱼ)(eᵢ − eⱼ)ᵀ, plus `own` on the diagonal."""
    matrix: np.ndarray = np.diag(pairs.sum(axis=1) + own) - pairs
    return matrix
