"""Reference numbers of backgammon: its rules, games of random moves, Tesauro's results, and ours.

Notable: measuring a network's strength needs another player. Here it is an earlier state of the network itself; points
against gnubg and pubeval, in the table below Tesauro's, are measured by benchmarks/backgammon.py.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from random import Random

import numpy as np

from txlab.engine.games.backgammon import choice
from txlab.engine.games.backgammon.dice import roll
from txlab.engine.games.backgammon.inputs import INPUTS
from txlab.engine.games.backgammon.learner import TDGammon
from txlab.engine.games.backgammon.network import Network
from txlab.engine.games.backgammon.rules import ROLLS, START, after_states, pips, points_won, swap_sides
from txlab.engine.intervals import mean_interval
from txlab.experiments.reference_numbers import (
    Figure,
    Figures,
    Measured,
    Say,
    claimed,
    computed,
    derived,
    exactly,
    mean_of,
    printed,
)
from txlab.experiments.schema import group_digits
from txlab.files import shipped_path

RANDOM_GAMES = 400
SEEDS, GAMES, EARLIER = 3, 10_000, 1_000
PAIRS, PAIRS_OF_TWO_PLIES = 200, 200
DICE = 2**62  # of the matches: far from those that are learnt from

FIGURES = Figures()


@FIGURES.measured_by(
    "backgammon-counts",
    "backgammon: rolls, the initial position, Tesauro's inputs, weights of his networks with three outputs",
    "the rules; Tesauro 1992",
    [
        derived("different rolls", 21, 0),
        derived("throws of two dice", 36, 0),
        derived("pips of a side at the start", 167, 0),
        derived("positions that 3-1 can lead to at the start", 16, 0),
        derived("inputs, 2 · (24 · 4 + 1 + 1) + 2", 198, 0),
        derived("weights, 40 hidden units, 198 · 40 + 40 + 40 · 3 + 3", 8083, 0),
        derived("weights, 80 hidden units", 16_163, 0),
    ],
)
def measure_counts(say: Say) -> list[Measured]:
    weights = [sum(each.size for each in Network.initialize(units, 0).weights()) for units in (40, 80)]
    throws = sum(weight for _, weight in ROLLS)
    return exactly([len(ROLLS), throws, pips(START[0]), len(after_states(START, (3, 1))), INPUTS, *weights])


@FIGURES.measured_by(
    "backgammon-random",
    "games of random moves, every position that the roll allows being as likely",
    "simulated with the rules of gnubg-nn: benchmarks/backgammon.py --random",
    [
        computed("plies a game", 96.92, 1, 0.28, 20_000),
        computed("share won as gammons", 0.36485, 3, 0.0034, 20_000),
        computed("share won as backgammons", 0.2611, 3, 0.0031, 20_000),
        computed("share won by who rolls first", 0.50455, 3, 0.0035, 20_000),
    ],
    seconds=10.0,
)
def measure_random(say: Say) -> list[Measured]:
    chance, rows = Random(1), []
    for game in range(RANDOM_GAMES):
        if game % 50 == 0:
            say(f"{game} of {RANDOM_GAMES} games")
        board, ply = START, 0
        while not points_won(board):
            board, ply = swap_sides(chance.choice(after_states(board, roll(game, ply)))), ply + 1
        points = -points_won(board)
        rows.append((ply, points == 2, points == 3, ply % 2))
    return [mean_of(column) for column in np.array(rows, dtype=np.float64).T]


@dataclass(frozen=True)
class Version:
    """A version of TD-Gammon, and its results against grandmasters."""

    name: str
    units: int
    games: int
    plies: int
    opponents: str
    points: int
    played: int
    a_game: float


TESAURO = (
    Version("1.0", 80, 300_000, 1, "Robertie, Davis, Magriel", -13, 51, -0.25),
    Version("2.0", 40, 800_000, 2, "Goulding, Woolsey, Snellings, Russell, Sylvester", -7, 38, -0.18),
    Version("2.1", 80, 1_500_000, 2, "Robertie", -1, 40, -0.02),
)


@dataclass(frozen=True)
class Strength:
    """Points a game of a network that has played `games` games against itself, looking `plies` ahead.

    against   "gnubg", which looks no ply ahead, or "pubeval"
    error     the standard error                                  played   games of the match
    """

    units: int
    games: int
    plies: int
    against: str
    points: float
    error: float
    played: int


@cache
def strengths() -> tuple[Strength, ...]:
    """What benchmarks/backgammon.py measured of networks that were trained here."""
    tables = tomllib.loads(shipped_path("texts/td_gammon.toml").read_text(encoding="utf-8"))
    return tuple(Strength(**table) for table in tables["measured"])


@FIGURES.measured_by(
    "td-gammon-versions",
    "TD-Gammon against grandmasters, points a game: as printed, and points / games as printed",
    "Tesauro 1995, table 1; Sutton and Barto 2018, table 16.1",
    [printed(f"TD-Gammon {each.name}", each.a_game, 2, cut=each.name == "2.1") for each in TESAURO],
)
def measure_versions(say: Say) -> list[Measured]:
    """The quotients of the printed points and games; the remark has his table and ours."""
    lines = [
        "his network, games and plies            against grandmasters        ours: against gnubg    against pubeval",
        *(version_line(each) for each in TESAURO),
        "ours has the 198 inputs alone; his also had handmade features. gnubg looks no ply ahead, and the",
        "doubling cube is not used. Measured by benchmarks/backgammon.py (± standard error), not here.",
    ]
    *rest, last = exactly(each.points / each.played for each in TESAURO)
    return [*rest, Measured(last.value, remark="\n".join(lines))]


def version_line(each: Version) -> str:
    looking = "1 ply" if each.plies == 1 else f"{each.plies} plies"
    description = f"{each.name}: {each.units} units, {group_digits(each.games)} games, {looking}"
    result = f"{each.points} {'point' if each.points == -1 else 'points'} in {each.played} games"
    ours = {
        strength.against: f"{strength.points:+.2f} ± {strength.error:.2f}"
        for strength in strengths()
        if (strength.units, strength.games, strength.plies) == (each.units, each.games, each.plies)
    }
    gnubg, pubeval = (ours.get(judge, "not measured") for judge in ("gnubg", "pubeval"))
    return f"{description:40}{result:28}{gnubg:23}{pubeval}".replace("-", "−")


def points_a_game(first: Network, second: Network, pairs: int, plies: tuple[int, int] = (1, 1)) -> np.ndarray:
    """(pairs) points a game of `first`, two games with the same dice each, the seats exchanged."""
    seeds = np.repeat(DICE + np.arange(pairs, dtype=np.uint64), 2)
    points: np.ndarray = choice.match(first, second, seeds, plies).reshape(pairs, 2).mean(axis=1)
    return points


def measure_learning(say: Say) -> list[Measured]:
    """For how many seeds each claim is true; the remark has the points of every seed."""
    true, lines = np.zeros(3), []
    for seed in range(1, SEEDS + 1):
        say(f"{group_digits(GAMES)} games, seed {seed} of {SEEDS}")
        learner = TDGammon(80, seed)
        untrained = learner.net.copy()
        learner.run(EARLIER)
        earlier = learner.net.copy()
        learner.run(GAMES - EARLIER)
        net = learner.net
        results = [
            points_a_game(net, untrained, PAIRS),
            points_a_game(net, earlier, PAIRS),
            points_a_game(net, net, PAIRS_OF_TWO_PLIES, (2, 1)),
        ]
        ends = [mean_interval(float(each.mean()), float(each.std()), len(each), -3, 3) for each in results]
        true += [ends[0][0] > 1, ends[1][0] > 0, ends[2][0] > 0]
        points = (
            f"{each.mean():+.2f} [{low:+.2f}, {high:+.2f}]" for each, (low, high) in zip(results, ends, strict=True)
        )
        lines.append(f"seed {seed}: untrained, earlier, two plies against one: {', '.join(points)}".replace("-", "−"))
    *rest, last = (Measured(float(each), runs=SEEDS) for each in true)
    return [*rest, Measured(last.value, runs=SEEDS, remark="\n".join(lines))]


FIGURES.append(
    Figure(
        "td-gammon-learning",
        f"TD(λ) by self-play, 80 hidden units, α = .1, λ = .7, {group_digits(GAMES)} games; "
        f"points a game, 95 % intervals",
        "Tesauro 1992",
        [
            claimed("it wins more than a point a game from its untrained network", SEEDS),
            claimed(f"it beats the network of {group_digits(EARLIER)} games", SEEDS),
            claimed("looking two plies ahead it beats itself looking one ahead", SEEDS),
        ],
        measure_learning,
        seconds=150.0,
        needs="" if find_spec("numba") else "Numba: pip install 'txlab[games]'",
    )
)
