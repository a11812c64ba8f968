"""The examples of chapter M, computed with NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np


def softmax(x: Any) -> Any:
    return np.exp(x) / np.exp(x).sum()


def race(p: float, rewards: Any) -> tuple[Any, Any]:
    """P (states, actions, next states) and r (states, actions) of a cool and a warm car; overheated, it is worth 0."""
    slow, fast, overheats = rewards
    P = np.array([[[1, 0], [1 - p, p]], [[1 - p, p], [0, 0]]])
    return P, np.array([[slow, fast], [slow, overheats]])


def solved(P: Any, r: Any, gamma: float, shares: Any) -> Any:
    """v = (I − γ P_π)⁻¹ r_π"""
    P, r = np.einsum("sa,sat->st", shares, P), (shares * r).sum(1)
    return np.linalg.solve(np.eye(2) - gamma * P, r)


def M1(p: float, rewards: Any, gamma: float, fast: Any, misprint: str) -> dict[str, Any]:
    P, r = race(p, rewards)
    shares = np.array([[1 - share, share] for share in fast])
    v = solved(P, r, gamma, shares)
    q = r + gamma * P @ v
    return {
        "P_π": np.einsum("sa,sat->st", shares, P),
        "r_π": (shares * r).sum(1),
        "v": v,
        "Q(slow)": q[0, 0],
        "Q(fast)": q[0, 1],
        "V(s)": v[0],
    }


def M2(p: float, rewards: Any, gamma: float, policy: Any, misprint: str) -> dict[str, Any]:
    P, r = race(p, rewards)
    v = solved(P, r, gamma, np.eye(2)[policy])
    if misprint:  # the best of all four policies
        v = max((solved(P, r, gamma, np.eye(2)[[a, b]]) for a in (0, 1) for b in (0, 1)), key=lambda each: each.sum())
    q = r + gamma * P @ v
    best = np.isclose(q, q.max(1, keepdims=True), rtol=0, atol=1e-12)
    better = best / best.sum(1, keepdims=True)
    after = solved(P, r, gamma, better)
    return {
        "v": v,
        "q(cool)": q[0],
        "q(warm)": q[1],
        "max q": q.max(1),
        "π′": better,
        "v_π′": after,
        "v_π′(cool)": after[0],
    }


def M3(rewards: Any, gamma: float, misprint: str) -> dict[str, Any]:
    powers = gamma ** np.arange(len(rewards))
    later = {f"G_{t}": sum(gamma**k * r for k, r in enumerate(rewards[t:])) for t in range(len(rewards))}
    return {"γᵏ": powers, "γᵏ R": powers * rewards, **later}


def M4(v: Any, rewards: Any, alpha: float, gamma: float, lam: float, misprint: str) -> dict[str, Any]:
    v, e, found = np.array(v), np.zeros(3), {}
    ahead = [sum(gamma**k * rewards[k] for k in range(n)) + (gamma**n * v[n] if n < 3 else 0) for n in (1, 2, 3)]
    share = np.array([1 - lam, (1 - lam) * lam, lam**2])
    for t, number in enumerate("₁₂₃"):
        delta = rewards[t] + (gamma * v[t + 1] if t < 2 else 0) - v[t]
        e = gamma * lam * e + np.eye(3)[t]
        v = v + alpha * delta * e
        found |= {f"δ{number}": delta, f"e{number}": e, f"v{number}": v}
    return {**found, "G⁽ⁿ⁾": ahead, "weights": share, "G^λ": share @ ahead, "v(A)": v[0]}


def M5(
    q: float, after: Any, taken: int, r: float, alpha: float, gamma: float, epsilon: float, tau: float, misprint: str
) -> dict[str, Any]:
    after = np.array(after)
    best, value = after == after.max(), after[taken - 1]
    delta = r + gamma * value - q
    return {
        "ε-greedy": epsilon / 3 + (1 - epsilon) * best / best.sum(),
        "softmax": softmax(after / tau),
        "Q(s′,a′)": value,
        "δ": delta,
        "Q(s,a)": q + alpha * delta,
    }


def M6(
    q: float, q1: Any, q2: Any, taken: int, r: float, alpha: float, gamma: float, epsilon: float, misprint: str
) -> dict[str, Any]:
    target = q1[taken - 1] if misprint else max(q1)
    delta = r + gamma * target - q
    return {
        "expected": (1 - epsilon) * max(q1) + epsilon * np.mean(q1),
        "double": q2[int(np.argmax(q1))],
        "target": target,
        "δ": delta,
        "Q(s,a)": q + alpha * delta,
    }


def M7(theta: Any, taken: int, G: float, b: float, alpha: float, misprint: str) -> dict[str, Any]:
    slope = np.eye(3)[taken - 1] - softmax(theta)
    after = np.array(theta) + alpha * (G - b) * slope
    return {
        "π": softmax(theta),
        "∇ ln π": slope,
        "G − b": G - b,
        "θ′": after,
        "π′": softmax(after),
        "π′(a)": softmax(after)[taken - 1],
    }


def M8(
    rewards: Any, v: Any, gamma: float, lam: float, old: Any, new: Any, clip: float, misprint: str
) -> dict[str, Any]:
    deltas = np.array(rewards) + gamma * np.array([*v[1:], 0]) - v
    A = np.array([sum((gamma * lam) ** k * delta for k, delta in enumerate(deltas[t:])) for t in range(3)])
    ratio = np.array(new) / old
    clipped = np.clip(ratio, 1 - clip, 1 + clip)
    least = np.minimum(ratio * A, clipped * A)
    return {
        "δ": deltas,
        "Â": A,
        "ρ": ratio,
        "clip(ρ)": clipped,
        "ρ Â": ratio * A,
        "clip(ρ) Â": clipped * A,
        "min": least,
        "L": least.mean(),
    }
