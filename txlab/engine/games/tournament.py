"""Round-robin tournaments, with each player equally often in either seat, and the resulting ratings (MATH G1, H6).

    P(i beats j) = 1 / (1 + 10^((Rⱼ − Rᵢ)/400)), a draw counting as half a win

Notable: two deterministic players would play the same game a thousand times, and the result would look a thousand times
more certain than it is. So the first moves are drawn at random, each opening is played twice with the seats swapped,
and the number of *different* games is reported with the results. Tables play all their games at once, a ply at a time;
other players are asked move by move. The same draws give the same games.

The ratings are maximum-likelihood ones (Bradley and Terry 1952; Zermelo 1929), not Elo's running ones (Elo 1978), which
depend on the order of the games. Draws make results less uncertain than wins and losses with the same sum, so the
errors come from the empirical variance of the results (the sandwich, White 1982), not from the model's. One drawn game
of every player against an average one is added: a player that never lost a point would have no rating otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from txlab.engine.games.graph import GameGraph, compiled, cumulated
from txlab.engine.games.players import Player, TabularPlayer
from txlab.engine.rl.draws import uniforms
from txlab.errors import LabError

OPENING = 1
"""Moves made at random before the players are asked: after one, no game of tic-tac-toe is decided yet."""
SLICE = 500  # games of a pair between checks whether to continue
SCALE = 400 / log(10)  # rating points for a factor e in the odds
ROUNDS = 200  # most iterations of Newton's method
LONGEST = 512  # plies per game for which draws are made at once, if its length is unknown


@dataclass(frozen=True)
class Standing:
    """A row of the table: `error` is the rating's standard error, `score` is (won + ½ drawn) / games."""

    name: str
    rating: float
    error: float
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
            found.append(Standing(name, float(rated.rating[i]), float(rated.error[i]), total, won, drawn, lost))
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
    error       (P) float64, standard error of each, relative to the mean of all
    covariance  (P, P) float64 of the ratings
    """

    rating: np.ndarray
    error: np.ndarray
    covariance: np.ndarray

    def difference(self, i: int, j: int) -> tuple[float, float]:
        """(Rᵢ − Rⱼ, its standard error)."""
        variance = self.covariance[i, i] + self.covariance[j, j] - 2 * self.covariance[i, j]
        return float(self.rating[i] - self.rating[j]), float(np.sqrt(max(variance, 0.0)))


def ratings(won: np.ndarray, drawn: np.ndarray, centre: float = 1500.0, prior: float = 1.0) -> Ratings:
    """Maximum-likelihood Bradley–Terry ratings, by Newton's method.

        log L = Σᵢⱼ (wonᵢⱼ + ½ drawnᵢⱼ) log σ(θᵢ − θⱼ) + ½ prior Σᵢ (log σ(θᵢ) + log σ(−θᵢ))
        R = centre + 400 θ / ln 10

    won    (P, P): how often i beat j         drawn  (P, P), symmetric: how often they drew; the diagonals are not read
    prior  drawn games of every player against an average one; 0 = none: LabError if a player then has no rating
    """
    won, drawn = np.array(won, dtype=np.float64), np.array(drawn, dtype=np.float64)
    P = len(won)
    np.fill_diagonal(won, 0.0)
    np.fill_diagonal(drawn, 0.0)
    games = won + won.T + drawn  # (P, P)
    score = (won + 0.5 * drawn).sum(axis=1)
    if prior == 0 and ((score == 0) | (score == games.sum(axis=1))).any():
        raise LabError("a player that won or lost every game has no rating of greatest likelihood; give a prior")
    theta = np.zeros(P)
    for _ in range(ROUNDS):
        expected = sigmoid(theta[:, None] - theta[None, :])
        average = sigmoid(theta)
        gradient = score - (games * expected).sum(axis=1) + prior * (0.5 - average)
        hessian = curvature(games * expected * (1 - expected), prior * average * (1 - average))
        # without a prior only differences are determined: take the smallest of the possible steps
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]
        theta += step / max(1.0, float(np.abs(step).max()))  # at most e in the odds at once: Newton may overshoot
        if np.abs(step).max() < 1e-12:
            break
    expected = sigmoid(theta[:, None] - theta[None, :])
    average = sigmoid(theta)
    hessian = curvature(games * expected * (1 - expected), prior * average * (1 - average))
    # Σ over the games of (result − expected)², once per pair
    spread = won * (1 - expected) ** 2 + won.T * expected**2 + drawn * (0.5 - expected) ** 2
    inverse = np.linalg.pinv(hessian, rcond=1e-12, hermitian=True)
    centring = np.eye(P) - 1 / P
    covariance = SCALE**2 * centring @ inverse @ curvature(spread, np.zeros(P)) @ inverse @ centring
    rating = centre + SCALE * (theta - theta.mean())
    return Ratings(rating, np.sqrt(np.maximum(np.diag(covariance), 0.0)), covariance)


def sigmoid(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1 / (1 + np.exp(-x))
    return found


def curvature(pairs: np.ndarray, own: np.ndarray) -> np.ndarray:
    """(P, P): Σ over pairs of their weight times (eᵢ − eⱼ)(eᵢ − eⱼ)ᵀ, plus `own` on the diagonal."""
    found: np.ndarray = np.diag(pairs.sum(axis=1) + own) - pairs
    return found
