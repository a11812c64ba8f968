"""Why TD-Gammon changes a weight: the next moves that it will learn from, term by term (MATH G2).

The moves are made by `TDGammon.learn_move` itself, on a copy of the learner, so its numbers are those that the next
step of learning will use, to the bit. Nothing about them is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from operator import sub

import numpy as np

from txlab.engine.explain import Explaining, Explanation, Number, Step, compute_step, number
from txlab.engine.games.backgammon.inputs import NAMES, inputs_of
from txlab.engine.games.backgammon.learner import LearntMove, TDGammon
from txlab.engine.games.backgammon.network import Network, forward, gradient, turn_trace
from txlab.engine.games.backgammon.rules import moves, notation, points_won, swap_sides

OUTPUT_NAMES = ("win", "win gammon", "lose gammon")
LAYERS = ("into", "hidden", "out", "last")
LETTERS = {"into": "W₁", "hidden": "b₁", "out": "W₂", "last": "b₂"}
FOLLOWED = ("into", (NAMES.index("own point 6, 1 or more"), 0))
"""The weight whose changes a frame shows."""
SOURCE = "Tesauro 1992, eq. 1"


@dataclass(frozen=True)
class Learning:
    """What one move changes: the network before, the trace that was carried over (ē, the mover's view), the move."""

    before: Network
    carried: list[np.ndarray]
    learnt: LearntMove
    alpha: float
    lam: float

    @property
    def norm(self) -> float:
        """‖e‖, over all outputs and weights."""
        return float(np.sqrt(sum(np.sum(each.astype(float) ** 2) for each in self.learnt.trace)))

    def change(self, layer: str, index: Sequence[int]) -> float:
        """α Σₖ δₖ eₖ of one weight."""
        e = [float(each[tuple(index)]) for each in self.learnt.trace[LAYERS.index(layer)]]
        return weighted_sum(self.alpha, *delta_and_trace(self.learnt.delta, e))

    def describe(self) -> str:
        """The roll and the move, as "3-1: 8/5 6/5"."""
        board, dice = self.learnt.board, self.learnt.dice
        steps = moves(board, dice)[swap_sides(self.learnt.reached)]
        return f"{max(dice)}-{min(dice)}: {notation(steps)}"


def next_moves(learner: TDGammon, count: int) -> list[Learning]:
    """The next moves that a learner makes and learns from; the learner itself is left as it is."""
    ahead = copy(learner)
    ahead.load(learner.state())
    learnings = []
    for _ in range(count):
        before, carried = ahead.net.copy(), turn_trace(ahead.trace)
        learnings.append(Learning(before, carried, ahead.learn_move(), ahead.alpha, ahead.lam))
    return learnings


def name_of_weight(layer: str, index: Sequence[int]) -> str:
    """A weight in words.

    >>> name_of_weight("out", (3, 0)), name_of_weight("into", (20, 0))
    ('from hidden unit 4 to win', "from 'own point 6, 1 or more' to hidden unit 1")
    """
    match layer:
        case "into":
            return f"from '{NAMES[index[0]]}' to hidden unit {index[1] + 1}"
        case "hidden":
            return f"bias of hidden unit {index[0] + 1}"
        case "out":
            return f"from hidden unit {index[0] + 1} to {OUTPUT_NAMES[index[1]]}"
    return f"bias of {OUTPUT_NAMES[index[0]]}"


def explain_delta(move: Learning, k: int) -> Explanation:
    """Explain δₖ of a move."""
    learnt = move.learnt
    y = forward(move.before, inputs_of(learnt.board))[1]
    delta, z = float(learnt.delta[k]), float(learnt.target[k])
    why = Explaining(f"why δ = {number(delta)} for {OUTPUT_NAMES[k]}, after {move.describe()}?", delta)
    why.equation("δ = z − y(s);  z = y(s′) from this player's view, or the result of the game", "G2", SOURCE)
    why.input("y(s)", [float(each) for each in y], f"before the move: {', '.join(OUTPUT_NAMES)}")
    there = float(forward(move.before, inputs_of(learnt.reached))[1][(0, 2, 1)[k]])
    if points_won(learnt.reached):
        why.step("z", "", z, "the game has ended: 1 or 0")
    elif k == 0:
        why.compute("z", "1 − {}", lambda win: 1 - win, there, note="the opponent, who is to roll, wins else")
    else:
        why.step("z", "", there, f"{OUTPUT_NAMES[(0, 2, 1)[k]]} in s′, the opponent's view")
    why.compute("δ", "{} − {}", sub, z, float(y[k]))
    return why.result()


def explain_norm(move: Learning) -> Explanation:
    """Explain ‖e‖ after a move."""
    norms = [float(np.linalg.norm(each.astype(float))) for each in move.learnt.trace]
    carried = float(np.sqrt(sum(np.sum(each.astype(float) ** 2) for each in move.carried)))
    why = Explaining(f"why is the trace {number(move.norm)} long after {move.describe()}?", move.norm)
    why.equation("‖e‖ = √(Σ e²),  e ← λ ē + ∂y/∂w", "G2", SOURCE)
    why.input("λ", move.lam)
    why.input("‖ē‖", carried, "of the moves before; 0 when a game begins")
    for layer, norm in zip(LAYERS, norms, strict=True):
        why.step(f"‖e({LETTERS[layer]})‖", "", norm, "all three outputs")
    why.compute("‖e‖", "√({}^2 + {}^2 + {}^2 + {}^2)", lambda *each: sum(one**2 for one in each) ** 0.5, *norms)
    return why.result()


def change_steps(move: Learning, layer: str, index: Sequence[int]) -> list[Step]:
    """e of the three outputs and the change of one weight: λ ēₖ + ∂yₖ/∂w, then α Σ δₖ eₖ."""
    place, at, x = LAYERS.index(layer), tuple(index), inputs_of(move.learnt.board)
    slopes = gradient(move.before, x, *forward(move.before, x))[place]
    steps = []
    for name, carried, slope in zip(OUTPUT_NAMES, move.carried[place], slopes, strict=True):
        terms = move.lam, float(carried[at]), float(slope[at])
        steps.append(compute_step(f"e({name})", "{} · {} + {}", lambda lam, e, slope: lam * e + slope, *terms))
    e = [float(each[at]) for each in move.learnt.trace[place]]
    pairs = delta_and_trace(move.learnt.delta, e)
    return [*steps, compute_step("Δw", "{} · ({} · {} + {} · {} + {} · {})", weighted_sum, move.alpha, *pairs)]


def delta_and_trace(delta: np.ndarray, e: Sequence[float]) -> list[float]:
    """δ₀, e₀, δ₁, e₁, δ₂, e₂"""
    return [each for pair in zip(map(float, delta), e, strict=True) for each in pair]


def weighted_sum(alpha: Number, *terms: Number) -> float:
    """α (δ₀e₀ + δ₁e₁ + δ₂e₂)"""
    return float(alpha * sum(delta * e for delta, e in zip(terms[::2], terms[1::2], strict=True)))


def explain_change(move: Learning, layer: str, index: Sequence[int]) -> Explanation:
    """Explain how much a move changes one weight."""
    weight = float(move.before.weights()[LAYERS.index(layer)][tuple(index)])
    change = move.change(layer, index)
    why = Explaining(
        f"why does {move.describe()} change the weight {name_of_weight(layer, index)} by {number(change)}?", change
    )
    why.equation("w ← w + α Σₖ δₖ eₖ,  e ← λ ē + ∂y/∂w", "G2", SOURCE)
    why.input("α", move.alpha)
    why.input("λ", move.lam)
    why.input("δ", [float(each) for each in move.learnt.delta], ", ".join(OUTPUT_NAMES))
    why.input("w", weight, f"before, an entry of {LETTERS[layer]}")
    why.steps += change_steps(move, layer, index)
    why.means(compute_step("w", "{} + {}", lambda w, by: w + by, weight, change, note="afterwards"))
    return why.result()


def explain_weight(move: Learning, layer: str, index: Sequence[int]) -> Explanation:
    """Explain a weight, with the change that the next move makes to it."""
    weight = float(move.before.weights()[LAYERS.index(layer)][tuple(index)])
    why = Explaining(f"why {number(weight)} for the weight {name_of_weight(layer, index)}?", weight)
    why.equation("w ← w + α Σₖ δₖ eₖ after every move", "G2", SOURCE)
    why.input("δ", [float(each) for each in move.learnt.delta], f"of the next move, {move.describe()}")
    why.measurement("w", "learnt from all moves so far")
    why.meaning += change_steps(move, layer, index)
    return why.result()
