"""The examples of chapter F, computed with NumPy alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"
# f with its first and second derivative, by hand
CUBIC = (lambda x: x**3 - 2 * x - 5, lambda x: 3 * x * x - 2, lambda x: 6 * x)


def F1(f: str, x: float, seek: str, steps: int, misprint: str) -> dict[str, Any]:
    assert f == "x**3 - 2*x - 5"
    found: dict[str, Any] = {}
    order = 0 if seek == "root" else 1
    for n in range(steps):
        above, below = CUBIC[order](x), CUBIC[order + 1](x)
        names = ("f", "f′", "f″")[order : order + 2]
        found |= {f"{names[0]}(x{SUBSCRIPTS[n]})": above, f"{names[1]}(x{SUBSCRIPTS[n]})": below}
        x -= above / below
        found[f"x{SUBSCRIPTS[n + 1]}"] = x
    return found


def F2(f: str, x: float, rate: float, form: str, steps: int, misprint: str) -> dict[str, Any]:
    assert f == "x**2"
    found: dict[str, Any] = {}
    for n in range(steps):
        slope = found[f"f′(x{SUBSCRIPTS[n]})"] = 2 * x
        sign = found[f"sign f′(x{SUBSCRIPTS[n]})"] = np.sign(slope)
        x -= rate * (slope if form == "slope" else sign)
        found[f"x{SUBSCRIPTS[n + 1]}"] = x
    return found


def F3(f: str, point: Any, method: str, rate: float, steps: int, misprint: str) -> dict[str, Any]:
    assert f == "10*x**2 + y**2"
    curvature, theta, m, v = np.array([20.0, 2.0]), np.array(point), np.zeros(2), np.zeros(2)
    found: dict[str, Any] = {}
    for n in range(1, steps + 1):
        g = curvature * theta
        if method == "adam":
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            m_hat, v_hat = m / (1 - 0.9**n), v / (1 - 0.999**n)
            theta = theta - rate * m_hat / (np.sqrt(v_hat) + 1e-8)
            found |= {f"m̂{SUBSCRIPTS[n]}": m_hat, f"v̂{SUBSCRIPTS[n]}": v_hat}
        else:
            m = (0.9 if method == "momentum" else 0.0) * m + g
            theta = theta - rate * m
        found |= {f"{name}{SUBSCRIPTS[n]}": each for name, each in (("g", g), ("m", m), ("v", v), ("θ", theta))}
    return {**found, "f": curvature @ theta**2 / 2}


def F4(x: Any, y: Any, w: float, b: float, rate: float, seed: int, misprint: str) -> dict[str, Any]:
    x, y = np.array(x), np.array(y)
    order = np.random.default_rng(seed).permutation(len(x))
    found: dict[str, Any] = {"order": order + 1, "L before": np.mean((y - w * x - b) ** 2)}
    for n, i in enumerate(order[:2] if misprint else order, 1):
        r = y[i] - w * x[i] - b
        w, b = w + 2 * rate * r * x[i], b + 2 * rate * r
        found |= {f"r{SUBSCRIPTS[n]}": r, f"(w, b){SUBSCRIPTS[n]}": (w, b)}
    residuals = y - w * x - b
    return {**found, "residuals": residuals, "L": np.mean(residuals**2)}


def F5(z: Any, tau: float, i: int, misprint: str) -> dict[str, Any]:
    z = np.array(z)
    scaled = (z - z.max()) / tau
    raw = np.exp(scaled)
    p = np.exp(z / tau) / np.exp(z / tau).sum()
    return {
        "max": z.max(), "(z − max) / τ": scaled, "exp": raw, "Σ": raw.sum(), "p": p, "pᵢ": p[i - 1],
    }  # fmt: skip


def F6(x: Any, w1: Any, b1: Any, w2: Any, b2: float, past: float, phi: str, misprint: str) -> dict[str, Any]:
    activation = {
        "tanh": math.tanh,
        "relu": lambda z: max(z, 0.0),
        "sigmoid": lambda z: 1 / (1 + math.exp(-z)),
        "sin": math.sin,
        "gelu": lambda z: z * (1 + math.erf(z / math.sqrt(2))) / 2,
        "linear": lambda z: z,
    }[phi]
    z = np.array(w1) @ np.array(x) + np.array(b1)
    a = np.array([activation(each) for each in z])
    return {"z₁": z[0], "a₁": a[0], "z₂": z[1], "a₂": a[1], "z₃": b2 + np.array(w2) @ a + past * x[0]}


def F7(x: Any, w: Any, b: float, i: int, j: int, misprint: str) -> dict[str, Any]:
    x, w = np.array(x), np.array(w)
    patches = np.lib.stride_tricks.sliding_window_view(x, w.shape)
    z = b + np.einsum("ijac,ac->ij", patches, w)
    patch = patches[i - 1, j - 1]
    return {
        "patch": patch,
        "w · patch": w * patch,
        "Σ": (w * patch).sum(),
        "z": z,
        "z[i, j]": z[i - 1, j - 1],
        "y[i, j]": max(0.0, z[i - 1, j - 1]),
    }
