"""Reference numbers of tic-tac-toe: its positions, its exact match results, and self-play from an empty table.

Notable: all but the last two figures are computed, without a game being played. The learners are measured over the
seeds that are named; every seed arrives at the same player, so that the mean has no error left.
"""

from __future__ import annotations

import numpy as np

from txlab.engine.games import tictactoe
from txlab.engine.games.graph import compile_graph
from txlab.engine.games.learner import SelfPlaySettings, make_learner
from txlab.engine.games.perfect_play import best_response, both_seats, chances, fractions
from txlab.engine.games.players import perfect_player, random_player
from txlab.engine.games.tournament import play
from txlab.experiments.reference_numbers import Figures, Measured, Say, derived, exactly, mean_of

SELF_PLAY_GAMES, SEEDS = 100_000, 8
PLAYED = 1000
WINNERS = (1, -1, 0)

FIGURES = Figures()

COUNTS = {
    "positions": 5478, "open": 4520, "ended": 958, "X has won": 626, "O has won": 316, "drawn": 16,
    "up to symmetry": 765, "those: ended": 138, "those: X has won": 91, "those: O has won": 44, "those: drawn": 3,
    "games": 255_168, "games: won by X": 131_184, "games: won by O": 77_904, "games: drawn": 46_080,
    "games of 5 moves": 1440, "of 6": 5328, "of 7": 47_952, "of 8": 72_576, "of 9": 127_872,
}  # fmt: skip

LEARNT = [
    derived("won against random, first", 0.9678, 4),
    derived("won against random, second", 0.7775, 4),
    derived("chance to lose to the perfect player, the worse seat", 0.0, 12),
    derived(f"of {PLAYED} games from either seat, lost to it", 0, 0),
]


@FIGURES.measured_by(
    "tictactoe-positions",
    "tic-tac-toe: positions, positions up to turns and mirrors, games",
    "the rules, by exact enumeration",
    [derived(label, value, 0) for label, value in COUNTS.items()],
)
def measure_positions(say: Say) -> list[Measured]:
    graph = compile_graph(tictactoe)
    classes = np.unique(graph.symmetry)
    ended, ended_classes = np.flatnonzero(graph.ended), classes[graph.ended[classes]]
    ways = [1] + [0] * (graph.size - 1)  # how many games lead to each position
    for before, after in zip(graph.before.tolist(), graph.after.tolist(), strict=True):
        ways[after] += ways[before]
    lengths = [sum(ways[n] for n in ended[graph.ply[ended] == moves].tolist()) for moves in range(5, 10)]
    games = [sum(ways[n] for n in ended[graph.outcome[ended] == each].tolist()) for each in WINNERS]
    positions = [graph.size, graph.size - len(ended), len(ended)]
    positions += [(graph.outcome[ended] == each).sum() for each in WINNERS]
    classes_of = [len(classes), len(ended_classes), *((graph.outcome[ended_classes] == each).sum() for each in WINNERS)]
    return exactly([*positions, *classes_of, sum(games), *games, *lengths])


@FIGURES.measured_by(
    "tictactoe-random",
    "random against random",
    "the rules, by exact enumeration",
    [
        derived("X wins, 737/1260", 737 / 1260, 12),
        derived("drawn, 8/63", 8 / 63, 12),
        derived("O wins, 121/420", 121 / 420, 12),
    ],
)
def measure_random(say: Say) -> list[Measured]:
    everything = random_player(tictactoe).kept
    return exactly(map(float, fractions(compile_graph(tictactoe), everything, everything)))


@FIGURES.measured_by(
    "tictactoe-openings",
    "random against random, after X's first move",
    "the rules, by exact enumeration",
    [
        derived("X wins from the centre, 97/140", 97 / 140, 12),
        derived("from a corner, 17/28", 17 / 28, 12),
        derived("from an edge, 15/28", 15 / 28, 12),
    ],
)
def measure_openings(say: Say) -> list[Measured]:
    """X's chance after opening in the centre, in a corner, at an edge."""
    graph, everything = compile_graph(tictactoe), random_player(tictactoe).kept
    values = []
    for move in (4, 0, 1):
        kept = everything.copy()
        kept[: graph.first[1]] = graph.move[: graph.first[1]] == move
        values.append(fractions(graph, kept, everything)[0])
    return exactly(map(float, values))


@FIGURES.measured_by(
    "tictactoe-perfect",
    "the perfect player, evenly among equally good moves, against random",
    "the rules, by exact enumeration",
    [
        derived("first: won", 0.967811, 6),
        derived("first: drawn", 0.032189, 6),
        derived("first: lost", 0.0, 12),
        derived("second: won", 0.777484, 6),
        derived("second: drawn", 0.222516, 6),
        derived("second: lost", 0.0, 12),
    ],
)
def measure_perfect(say: Say) -> list[Measured]:
    graph = compile_graph(tictactoe)
    first, second = both_seats(graph, perfect_player(tictactoe).policy(), random_player(tictactoe).policy())
    return exactly(chance for seat in (first, second) for chance in (seat.won, seat.drawn, seat.lost))


@FIGURES.measured_by(
    "tictactoe-best-response",
    "the best response to random: most won less lost, and of those the most won",
    "the rules, by exact enumeration",
    [
        derived("first: won, 191/192", 191 / 192, 12),
        derived("second: won", 0.934392, 6),
        derived("second: lost, 1/105", 1 / 105, 12),
    ],
)
def measure_best_response(say: Say) -> list[Measured]:
    graph, random = compile_graph(tictactoe), random_player(tictactoe).policy()
    first, second = best_response(graph, random, 1)[0], best_response(graph, random, -1)[0]
    beaten = chances(graph, random, second).swap_sides()
    return exactly([chances(graph, first, random).won, beaten.won, beaten.lost])


def measure_self_play(settings: SelfPlaySettings, say: Say) -> list[Measured]:
    graph = compile_graph(tictactoe)
    random, perfect = random_player(tictactoe).policy(), perfect_player(tictactoe)
    rows = []
    for seed in range(1, SEEDS + 1):
        say(f"{settings.title}: {SELF_PLAY_GAMES} games, seed {seed} of {SEEDS}")
        learner = make_learner(graph, settings, seed)
        learner.run(SELF_PLAY_GAMES)
        player = learner.player()
        first, second = both_seats(graph, player.policy(), random)
        against = both_seats(graph, player.policy(), perfect.policy())
        draws = np.arange(PLAYED, dtype=np.uint64) + np.uint64(seed * PLAYED)
        as_first, as_second = play(player, perfect, draws, draws, 0)[0], play(perfect, player, draws, draws, 0)[0]
        rows.append(
            (first.won, second.won, max(each.lost for each in against), (as_first < 0).sum() + (as_second > 0).sum())
        )
    return [mean_of(column) for column in np.array(rows, dtype=np.float64).T]


@FIGURES.measured_by(
    "tictactoe-td",
    f"TD(0) on after-states by self-play, α = ε = .1, {SELF_PLAY_GAMES} games, {SEEDS} seeds, from V = 0",
    "Sutton and Barto 2018, sections 1.5 and 6.8",
    LEARNT,
    seconds=10.0,
)
def measure_td(say: Say) -> list[Measured]:
    return measure_self_play(SelfPlaySettings(), say)


@FIGURES.measured_by(
    "tictactoe-q-learning",
    f"Q-learning on moves by self-play, α = ε = .1, {SELF_PLAY_GAMES} games, {SEEDS} seeds, from Q = 0",
    "Sutton and Barto 2018, section 6.5",
    LEARNT,
    seconds=10.0,
)
def measure_q_learning(say: Say) -> list[Measured]:
    return measure_self_play(SelfPlaySettings(rule="q-learning"), say)
