"""Choosing a move with a network, one or two plies deep, and matches of networks (MATH G2).

    1 ply     the after-state s′ in which the opponent, then to roll, expects least: min E(y(s′))
    2 plies   of the `WIDTH` best of these, the one with the least mean over the opponent's 21 rolls of what it can
              expect after its best reply: min Σ p(roll) max −E(y(s″))

Tesauro's TD-Gammon 1.0 chose by 1 ply, 2.0 and 2.1 by 2 plies. With Numba (the extra txlab[games]) both run in
compiled.py with the same bits.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy as np

from txlab.engine.games.backgammon.dice import roll
from txlab.engine.games.backgammon.inputs import inputs_of
from txlab.engine.games.backgammon.network import Network, equity, forward
from txlab.engine.games.backgammon.rules import ROLLS, START, Board, Dice, after_states, points_won, swap_sides

WIDTH = 8
"""After-states that are looked into at 2 plies; the best at 2 plies is nearly always among the first few at 1."""


@cache
def load_compiled() -> ModuleType | None:
    """The compiled loops, or None where Numba is not installed."""
    try:
        from txlab.engine.games.backgammon import compiled
    except ImportError:
        return None
    return compiled


def value(net: Network, board: Board) -> float:
    """Points that the player to roll expects by the network; exact when the game has ended."""
    points = points_won(board)
    return float(points) if points else equity(forward(net, inputs_of(board))[1])


def value_after_reply(net: Network, board: Board) -> float:
    """Points that the player to roll expects if each roll is played as the network values best."""
    points = points_won(board)
    if points:
        return float(points)
    return sum(weight * -best_after_state(net, board, dice)[1] for dice, weight in ROLLS) / 36


def expect_points(net: Network, boards: list[Board], plies: int = 1) -> list[float]:
    """The expected points of the player to roll in each of these boards: `value`, or with 2 plies
    `value_after_reply`."""
    kernel = load_compiled()
    if kernel is None:
        return [value(net, each) if plies == 1 else value_after_reply(net, each) for each in boards]
    work, room, weights = kernel.workspace(net.units), kernel.room_of(), net.weights()
    arrays = [np.array(each, dtype=np.int8) for each in boards]
    if plies == 1:
        return [float(kernel.expects(weights, each, work)) for each in arrays]
    return [float(kernel.expects_two(weights, each, room, work)) for each in arrays]


def value_moves(net: Network, board: Board, dice: Dice, plies: int = 1) -> dict[Board, float]:
    """The after-states, turned, best first: the opponent's expected points in each, with 1 or 2 plies."""
    reached = {(after := swap_sides(each)): value(net, after) for each in after_states(board, dice)}
    ranked = sorted(reached, key=reached.__getitem__)
    if plies == 1 or len(ranked) == 1:
        return {each: reached[each] for each in ranked}
    deeper = {each: value_after_reply(net, each) for each in ranked[:WIDTH]}
    return {each: deeper[each] for each in sorted(deeper, key=deeper.__getitem__)}


def best_after_state(net: Network, board: Board, dice: Dice, plies: int = 1) -> tuple[Board, float]:
    """The first of `value_moves`."""
    return next(iter(value_moves(net, board, dice, plies).items()))


def match(first: Network, second: Network, seeds: np.ndarray, plies: tuple[int, int] = (1, 1)) -> np.ndarray:
    """(G) int64: the points that `first` wins in a game for each seed (G); it rolls first in games 0, 2, …

    Equal seeds have equal dice: with each twice in a row, either side plays with the luck of the other.
    """
    seeds = np.asarray(seeds, dtype=np.uint64)
    points = np.zeros(len(seeds), dtype=np.int64)
    kernel = load_compiled()
    if kernel is not None:
        start = np.array(START, dtype=np.int8)
        kernel.match(first.weights(), second.weights(), start, seeds, np.array(plies), WIDTH, points)
        return points
    for game, seed in enumerate(seeds.tolist()):
        board, ply, turn = START, 0, game % 2
        while not points[game]:
            board = best_after_state((first, second)[turn], board, roll(seed, ply), plies[turn])[0]
            won = -points_won(board)
            points[game] = won if turn == 0 else -won
            ply, turn = ply + 1, 1 - turn
    return points
