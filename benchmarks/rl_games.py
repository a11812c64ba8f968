"""Tic-tac-toe by self-play: games per second while learning, compared with a program with an object per move.

    python benchmarks/rl_games.py [--games N] [--repeats R]

Target: the inspectable learner ("glass") 3 times, a batch of seeds 10 times the games per CPU second of the
object-per-move loop. That loop is an honest opponent: boards are small objects with slots, keys are tuples, only lines
are searched for a winner, and values are read once a move. It uses the same rule (TD(0) on after-states, α = ε = .1,
no learning from random moves), and its table is judged by the same exact match, so that all three learn the same. They
take turns over several rounds; the output gives medians of CPU time, and ratios of the medians.
"""

from __future__ import annotations

import argparse
import random
from statistics import median
from typing import Any

import numpy as np
from clock import cpu_seconds

from txlab.engine.games import tictactoe
from txlab.engine.games.graph import GameGraph, compile_graph
from txlab.engine.games.learner import RULES, Rule, SelfPlaySettings, make_learner
from txlab.engine.games.perfect_play import both_seats
from txlab.engine.games.players import random_player, table_player
from txlab.engine.games.population import LearnerBatch

SEEDS = (16, 64, 256, 1024)
LINES = tictactoe.LINES


class Board:
    """A position: the player on each square, and whose turn it is."""

    __slots__ = ("cells", "turn")

    def __init__(self, cells: tuple[int, ...] = (0,) * 9, turn: int = 1) -> None:
        self.cells, self.turn = cells, turn

    def moves(self) -> list[int]:
        return [square for square in range(9) if not self.cells[square]]

    def play(self, square: int) -> Board:
        return Board((*self.cells[:square], self.turn, *self.cells[square + 1 :]), -self.turn)

    def result(self) -> int | None:
        """+1, −1, 0, or None; only the player who moved last can have a line."""
        cells, last = self.cells, -self.turn
        for a, b, c in LINES:
            if cells[a] == last and cells[b] == last and cells[c] == last:
                return last
        return None if 0 in cells else 0


class ObjectLearner:
    """TD(0) on after-states, an object for every board considered, values in a dictionary."""

    def __init__(self, alpha: float, epsilon: float, seed: int) -> None:
        self.alpha, self.epsilon = alpha, epsilon
        self.random = random.Random(seed)
        self.values: dict[tuple[int, ...], float] = {}

    def value(self, board: Board) -> float:
        known = self.values.get(board.cells)
        if known is None:
            known = self.values[board.cells] = float(board.result() or 0)
        return known

    def game(self) -> None:
        board = Board()
        while board.result() is None:
            explore = self.random.random() < self.epsilon
            if explore:
                after = board.play(self.random.choice(board.moves()))
            else:
                boards = [board.play(square) for square in board.moves()]
                values = [self.value(each) for each in boards]
                best = max(values) if board.turn > 0 else min(values)
                after = self.random.choice([b for b, value in zip(boards, values, strict=True) if value == best])
                before = self.value(board)
                self.values[board.cells] = before + self.alpha * (self.value(after) - before)
            board = after


def quality(graph: GameGraph, table: np.ndarray) -> tuple[float, float]:
    """The greedy player's share of wins against random play, moving first and second."""
    first, second = both_seats(graph, table_player(graph, table, "").policy(), random_player(graph.game).policy())
    return first.won, second.won


def measure(games: int = 2000, repeats: int = 5) -> dict[str, Any]:
    """Games per CPU second: "object", "glass" and "batch" by rule (and seeds), and the ratios to the object's TD(0).

    games  the number that each plain loop plays in each of `repeats` rounds; batches play 100 with every seed
    """
    graph = compile_graph(tictactoe)
    plain = ObjectLearner(0.1, 0.1, 1)
    glass = {rule: make_learner(graph, SelfPlaySettings(rule=rule), 1) for rule in RULES}
    batch = {(rule, M): LearnerBatch(graph, SelfPlaySettings(rule=rule), range(M)) for rule in RULES for M in SEEDS}
    rates: dict[str, list[float]] = {"object": []}
    for _ in range(repeats):
        rates["object"].append(games / cpu_seconds(lambda: [plain.game() for _ in range(games)]))
        for rule, learner in glass.items():
            rates.setdefault(f"glass/{rule}", []).append(games / cpu_seconds(lambda one=learner: one.run(games)))
        for (rule, M), several in batch.items():
            rates.setdefault(f"batch/{rule}/{M}", []).append(100 * M / cpu_seconds(lambda all_=several: all_.run(100)))
    medians = {name: median(each) for name, each in rates.items()}
    ratios = {name: rate / medians["object"] for name, rate in medians.items()}
    return {"rates": medians, "ratios": ratios}


def judge_tables(games: int) -> dict[str, tuple[float, float]]:
    """The tables of the object-per-move loop and the inspectable learner after this many games."""
    graph = compile_graph(tictactoe)
    plain = ObjectLearner(0.1, 0.1, 1)
    for _ in range(games):
        plain.game()
    rule: Rule = "td"
    learner = make_learner(graph, SelfPlaySettings(rule=rule), 1)
    learner.run(games)
    table = np.array(
        [plain.values.get(each, float(graph.outcome[n])) for n, each in enumerate(graph.positions)]
    )  # fmt: skip
    return {"object": quality(graph, table), "glass": quality(graph, learner.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--games", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--learn", type=int, default=60_000, help="games after which the players are judged")
    options = parser.parse_args()
    measured = measure(options.games, options.repeats)
    print("tic-tac-toe by self-play, learning on, one core: games a CPU-second, and times the object-per-move loop")
    for name, rate in measured["rates"].items():
        wanted = {"glass": "wanted 3", "batch": "wanted 10"}.get(name.split("/")[0], "")
        print(f"  {name:24}{rate / 1000:8.1f} k {measured['ratios'][name]:7.2f}  {wanted}")
    for name, (first, second) in judge_tables(options.learn).items():
        print(f"after {options.learn} games, won against random: {name:8} {first:.4f} as X, {second:.4f} as O")


if __name__ == "__main__":
    main()
