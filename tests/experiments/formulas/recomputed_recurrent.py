"""The examples of chapter R, computed with NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np


def R1(text: str, p: Any, misprint: str) -> dict[str, Any]:
    shares, before = [], 0
    for letter in text:
        shares.append(p[before] if letter == "a" else 1 - p[before])
        before = 1 if letter == "a" else 2
    nats = -np.log(shares)
    return {
        "p(xₜ)": shares,
        "Π": np.prod(shares),
        "ln p(xₜ)": -nats,
        "Σ ln p": -nats.sum(),
        "L": nats.mean(),
        "bits per byte": -np.log2(np.prod(shares)) / len(text),
        "perplexity": np.prod(shares) ** (-1 / len(text)),
    }


def R2(x: Any, w: float, u: float, target: float, misprint: str) -> dict[str, Any]:
    h, found = 0.0, {}
    factors = []
    for k, each in enumerate(x, 1):
        h = found[f"h{chr(0x2080 + k)}"] = np.tanh(w * each + u * h)
        factors.append(u * (1 - h**2))
    reached = (h - target) * np.cumprod([1.0, *factors[:0:-1]])
    return {
        **found,
        "∂h_k/∂h_{k−1}": factors[1:],
        "∂L/∂h_T": h - target,
        "∂L/∂hₜ": reached,
        "∂L/∂h₁": reached[-1],
    }


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def R3(x: float, h: Any, w: Any, uz: Any, ur: Any, u: Any, misprint: str) -> dict[str, Any]:
    h, (wz, wr, wn) = np.array(h), np.array(w)
    z, r = sigmoid(wz * x + np.array(uz) @ h), sigmoid(wr * x + np.array(ur) @ h)
    inner = r * (np.array(u) @ h) if misprint else np.array(u) @ (r * h)
    n = np.tanh(wn * x + inner)
    after = (1 - z) * n + z * h
    return {"z": z, "r": r, "U …": inner, "n": n, "h′": after, "h′₁": after[0]}


def R4(q: Any, h: Any, w: Any, u: Any, v: Any, score: str, misprint: str) -> dict[str, Any]:
    q, h = np.array(q), np.array(h)
    fits = np.tanh(np.array(w) @ q + h @ np.array(u).T)
    e = fits @ np.array(v) if score == "additive" else h @ q / np.sqrt(2)
    shares = np.exp(e) / np.exp(e).sum()
    return {
        "W q": np.array(w) @ q,
        "U h": h @ np.array(u).T,
        "tanh": fits,
        "q · h": h @ q,
        "e": e,
        "exp(e)": np.exp(e),
        "Σ": np.exp(e).sum(),
        "softmax": shares,
        "c": shares @ h,
        "c₁": (shares @ h)[0],
    }
