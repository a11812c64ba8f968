"""TD-Gammon's network and one update of it, as the lecture writes them (MATH G2; Tesauro 1992).

    h = σ(W₁ᵀx + b₁)        y = σ(W₂ᵀh + b₂)        σ(z) = 1/(1 + e^{−z})

x (198) are the inputs, h (H) the hidden units, y (3) the prospects of the player to roll: the probabilities to win, to
win a gammon, and to lose one. Notable: Tesauro has a fourth output, to lose, which is 1 − y₀ here; backgammons (3
points) are counted as gammons. The arithmetic is float32, and each sum is taken in a fixed order, so that the compiled
loop (compiled.py) gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from txlab.engine.games.backgammon.inputs import INPUTS

OUTPUTS = 3
WIN, WIN_GAMMON, LOSE_GAMMON = range(OUTPUTS)


@dataclass
class Network:
    """into (198, H), hidden (H), out (H, 3), last (3): W₁, b₁, W₂, b₂, float32."""

    into: np.ndarray
    hidden: np.ndarray
    out: np.ndarray
    last: np.ndarray

    @staticmethod
    def initialize(units: int, seed: int, scale: float = 0.5) -> Network:
        """An untrained network, weights uniform in ±`scale`/√198 and ±`scale`/√H, biases 0."""
        chance = np.random.Generator(np.random.Philox(seed))
        into = chance.uniform(-scale, scale, (INPUTS, units)) / INPUTS**0.5
        out = chance.uniform(-scale, scale, (units, OUTPUTS)) / units**0.5
        return Network(
            into.astype(np.float32),
            np.zeros(units, dtype=np.float32),
            out.astype(np.float32),
            np.zeros(OUTPUTS, dtype=np.float32),
        )

    @property
    def units(self) -> int:
        """H"""
        return len(self.hidden)

    def copy(self) -> Network:
        return Network(*(each.copy() for each in self.weights()))

    def weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.into, self.hidden, self.out, self.last


def sigmoid(z: np.ndarray) -> np.ndarray:
    """1/(1 + e^{−z}), in float64 and rounded once; |z| above 32 counts as 32."""
    y: np.ndarray = 1.0 / (1.0 + exponential(-np.clip(z.astype(float), -32.0, 32.0)))
    return y.astype(np.float32)


def exponential(t: Any) -> Any:
    """eᵗ = (e^{t/64})⁶⁴, by the series to its sixth power; within 10⁻⁸ for |t| < 8.

    Only additions and products, which NumPy and the processor's vector instructions round identically. Learning spends
    most of its time here: some 1 100 exponentials a move, nearly four times as fast as with the C library.
    """
    x = t / 64.0
    e = 1.0 + x * (1.0 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x * (1 / 720))))))
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    return e * e


def forward(net: Network, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """h (H) and y (3) for the inputs x (198), summed in the order of the inputs and of the hidden units."""
    z = net.hidden.copy()
    for i in np.flatnonzero(x):
        z += x[i] * net.into[i]
    h = sigmoid(z)
    terms = np.concatenate([net.last[None], h[:, None] * net.out])
    return h, sigmoid(np.add.accumulate(terms)[-1])


def equity(y: np.ndarray) -> float:
    """Points that the player to roll expects without a doubling cube: 2·win − 1 + win gammon − lose gammon."""
    win, win_gammon, lose_gammon = (float(each) for each in y)
    return 2 * win + win_gammon - lose_gammon - 1


def gradient(net: Network, x: np.ndarray, h: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """∂yₖ/∂w for each output k and each weight: (3, 198, H), (3, H), (3, H, 3) and (3, 3)."""
    slope = y * (1 - y)  # ∂y/∂(W₂ᵀh + b₂)
    back = (slope[:, None] * net.out.T) * (h * (1 - h))  # (3, H): ∂yₖ/∂(W₁ᵀx + b₁)
    each = np.eye(OUTPUTS, dtype=np.float32)
    return [x[:, None] * back[:, None, :], back, (h[:, None] * slope) * each[:, None, :], slope * each]


def turn_target(y: np.ndarray) -> np.ndarray:
    """The other player's outputs: it loses what this one wins."""
    return np.array([1 - y[WIN], y[LOSE_GAMMON], y[WIN_GAMMON]], dtype=np.float32)


def turn_trace(trace: list[np.ndarray]) -> list[np.ndarray]:
    """The trace of the same outputs from the view of the other player."""
    return [np.stack([-each[WIN], each[LOSE_GAMMON], each[WIN_GAMMON]]) for each in trace]


def no_trace(net: Network) -> list[np.ndarray]:
    return [np.zeros((OUTPUTS, *each.shape), dtype=np.float32) for each in net.weights()]


def update(
    net: Network, trace: list[np.ndarray], x: np.ndarray, target: np.ndarray, alpha: float, lam: float
) -> tuple[list[np.ndarray], np.ndarray]:
    """One step of TD(λ), in place; returns the trace and δ (3).

        δ = target − y(x)        e ← λ ē + ∂y/∂w        w ← w + α Σₖ δₖ eₖ

    target  y of the position after the move, from this player's view (`turn_target`), or the game's result
    trace   ē is the trace of the move before, which was the other player's: it is turned first; zero at a game's begin
    """
    rate, decay = np.float32(alpha), np.float32(lam)
    h, y = forward(net, x)
    delta = target - y
    trace = [decay * old + new for old, new in zip(turn_trace(trace), gradient(net, x, h, y), strict=True)]
    for weight, e in zip(net.weights(), trace, strict=True):
        weight += rate * (delta[0] * e[0] + delta[1] * e[1] + delta[2] * e[2])
    return trace, delta
