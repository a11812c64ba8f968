"""The examples of chapter G, computed with NumPy alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

SQUARES = ["top left", "top", "top right", "left", "centre", "right", "bottom left", "bottom", "bottom right"]
LINES = ("012", "345", "678", "036", "147", "258", "048", "246")


@cache
def solved(board: str) -> tuple[int, bool]:
    """The value of nine signs to X with best play, and whether the game has ended."""
    for line in LINES:
        signs = {board[int(square)] for square in line}
        if signs in ({"X"}, {"O"}):
            return (1 if signs == {"X"} else -1), True
    if "." not in board:
        return 0, True
    return best(board, [solved(each)[0] for each in replies(board).values()]), False


def replies(board: str) -> dict[str, str]:
    sign = "X" if board.count("X") == board.count("O") else "O"
    return {SQUARES[at]: board[:at] + sign + board[at + 1 :] for at in range(9) if board[at] == "."}


def best(board: str, values: Any) -> Any:
    return max(values) if board.count("X") == board.count("O") else min(values)


def G1(position: str, guess: float, alpha: float, misprint: str) -> dict[str, Any]:
    board = position.replace("/", "")
    value, ended = solved(board)
    if ended:
        return {"V(s)": value}
    after = [solved(each) for each in replies(board).values()]
    known = [exact if over else guess for exact, over in after]
    delta = best(board, known) - guess
    return {
        **{f"V(s·{name})": exact for name, (exact, _) in zip(replies(board), after, strict=True)},
        "V(s)": value,
        "V̂(s·a)": known,
        "V̂(s′)": best(board, known),
        "δ": delta,
        "V̂(s)": guess + alpha * delta,
    }


def σ(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def G2(s0: Any, s1: Any, w: Any, u: float, won: int, alpha: float, lam: float, misprint: str) -> dict[str, Any]:
    weights, e, found = np.array([*w, u]), np.zeros(3), {}

    def value(s: Any) -> Any:
        return σ(weights[2] * σ(weights[:2] @ s))

    for number, s, after in (("₁", s0, s1), ("₂", s1, None)):
        h, here, there = σ(weights[:2] @ s), value(s), won if after is None else value(after)
        found |= {f"h{number}(s)": h, f"V{number}(s)": here, f"h{number}(s′)": σ(weights[:2] @ s1)}
        slope = here * (1 - here) * np.array([*(weights[2] * h * (1 - h) * np.array(s)), h])
        e = lam * e + slope
        weights = weights + alpha * (there - here) * e
        found |= {f"V{number}(s′)": there, f"δ{number}": there - here}
        found |= {f"∇V{number}": slope, f"e{number}": e, f"w{number}": weights}
    return {**found, "h(s₀)": σ(weights[:2] @ s0), "V(s₀)": value(s0)}


def G3(n: Any, q: Any, p: Any, c: float, misprint: str) -> dict[str, Any]:
    n, p = np.array(n), np.array(p) / sum(p)
    mean = np.where(n > 0, q, 0.0)
    bonus = c * p * np.sqrt(1 + n.sum()) / (1 + n)
    return {
        "W": n * q,
        "Q": mean,
        "P": p,
        "N(s)": 1 + n.sum(),
        "U": bonus,
        "Q + U": mean + bonus,
        "a": np.argmax(mean + bonus) + 1,
    }
