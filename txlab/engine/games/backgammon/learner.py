"""TD-Gammon learning: a network plays both sides and learns from every move (MATH G2; Tesauro 1992, 1995).

    move      the after-state in which the opponent, then to roll, expects least; the dice explore enough
    δ         target − y(x), the target being y after the move, from the mover's view, or the result of the game
    update    e ← λ ē + ∂y/∂w,  w ← w + α Σ δ e   (network.py)

Notable: `learn_move` is this in plain Python. With Numba (the extra txlab[games]) whole blocks of games run in
compiled.py, some hundred times faster and with the same bits; without it the same learner runs, slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from txlab.engine.games.backgammon import choice
from txlab.engine.games.backgammon.dice import roll
from txlab.engine.games.backgammon.inputs import INPUTS, inputs_of
from txlab.engine.games.backgammon.network import Network, forward, no_trace, turn_target, update
from txlab.engine.games.backgammon.rules import START, Board, Dice, points_won

LAMBDA, ALPHA = 0.7, 0.1
ENDLESS = 2**62


@dataclass(frozen=True)
class LearntMove:
    """A move, and the update after it.

    board, dice, reached   the position, the roll, and the position that the opponent gets
    target, delta          (3) each: z and δ = z − y(board)          trace   e, from the mover's view
    """

    board: Board
    dice: Dice
    reached: Board
    target: np.ndarray
    delta: np.ndarray
    trace: list[np.ndarray]


class TDGammon:
    """A learner in the middle of a game.

    board, ply   the position of the player to roll, and the moves made in this game
    games        games ended; the dice of game n are those of seed + n
    results      games won by 1, 2 and 3 points
    trace        the eligibility traces, from the view of the player who moved last
    """

    def __init__(self, units: int, seed: int, alpha: float = ALPHA, lam: float = LAMBDA, fast: bool = True) -> None:
        self.seed, self.alpha, self.lam = seed, alpha, lam
        self.net = Network.initialize(units, seed)
        self.kernel = choice.load_compiled() if fast else None
        self.games, self.moves = 0, 0
        self.results = np.zeros(4, dtype=np.int64)
        self.begin()

    def begin(self) -> None:
        self.board, self.ply = START, 0
        self.trace = no_trace(self.net)
        self.active = np.zeros(INPUTS, dtype=bool)

    def run(self, games: int, moves: int = ENDLESS) -> None:
        """Learn until `games` more games have ended, or `moves` more moves are made."""
        if self.kernel is None:
            self.run_plainly(games, moves)
            return
        board = np.array(self.board, dtype=np.int8)
        made, self.ply, seed, results = self.kernel.learn(
            self.net.weights(), tuple(self.trace), self.active, board, np.array(START, dtype=np.int8), self.ply,
            np.uint64(self.seed + self.games), games, moves, self.alpha, self.lam,
        )  # fmt: skip
        self.board = tuple(board[0].tolist()), tuple(board[1].tolist())
        self.moves, self.games = self.moves + made, int(seed) - self.seed
        self.results += results

    def run_plainly(self, games: int, moves: int) -> None:
        last_game, last_move = self.games + games, self.moves + moves
        while self.games < last_game and self.moves < last_move:
            self.learn_move()

    def learn_move(self) -> LearntMove:
        """Make one move and learn from it."""
        board, dice = self.board, roll(self.seed + self.games, self.ply)
        reached = choice.best_after_state(self.net, board, dice)[0]
        points = -points_won(reached)
        if points:
            target = np.array([1, points > 1, 0], dtype=np.float32)
        else:
            target = turn_target(forward(self.net, inputs_of(reached))[1])
        x = inputs_of(board)
        self.active |= x != 0
        self.trace, delta = update(self.net, self.trace, x, target, self.alpha, self.lam)
        learnt = LearntMove(board, dice, reached, target, delta, self.trace)
        self.board, self.ply, self.moves = reached, self.ply + 1, self.moves + 1
        if points:
            self.results[points] += 1
            self.games += 1
            self.begin()
        return learnt

    # An exact restart

    def state(self) -> dict[str, Any]:
        return {
            "weights": [each.copy() for each in self.net.weights()],
            "trace": [each.copy() for each in self.trace],
            "board": np.array(self.board, dtype=np.int8), "active": self.active.copy(), "ply": self.ply,
            "games": self.games, "moves": self.moves, "results": self.results.copy(),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        self.net = Network(*(np.array(each, dtype=np.float32) for each in state["weights"]))
        self.trace = [np.array(each, dtype=np.float32) for each in state["trace"]]
        own, other = np.asarray(state["board"]).tolist()
        self.board, self.active = (tuple(own), tuple(other)), np.array(state["active"], dtype=bool)
        self.ply, self.games, self.moves = int(state["ply"]), int(state["games"]), int(state["moves"])
        self.results = np.array(state["results"], dtype=np.int64)
