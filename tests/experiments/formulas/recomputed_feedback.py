"""The examples of chapter H, computed with NumPy and plain Python alone."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np


def H1(prompt: Any, answer: Any, logits: Any, misprint: str) -> dict[str, Any]:
    rows = range(len(prompt), len(prompt) + len(answer))
    z = np.array(logits)[[row - 1 for row in rows]]
    p = np.array([np.exp(row[token]) / np.exp(row).sum() for row, token in zip(z, answer, strict=True)])
    return {"rows": list(rows), "z": z, "p(yₜ)": p, "ln p(yₜ)": np.log(p), "L": -np.log(p).sum()}


def H2(rewards: Any, ranks: Any, misprint: str) -> dict[str, Any]:
    steps: dict[str, Any] = {}
    logs = []
    for one, other in combinations(range(4), 2):
        if ranks[one] == ranks[other]:
            continue
        best, worst = (one, other) if ranks[one] < ranks[other] else (other, one)
        apart = rewards[best] - rewards[worst]
        steps[f"r({'abcd'[best]}) − r({'abcd'[worst]})"] = apart
        steps[f"ln σ, {'abcd'[best]} ≻ {'abcd'[worst]}"] = -np.log1p(np.exp(-apart))
        logs.append(-np.log1p(np.exp(-apart)))
    mean = np.mean(logs) if logs else 0.0
    return {**steps, "pairs": len(logs), "Σ": sum(logs), "L": mean if misprint else -mean}


def H3(rewards: Any, best: int, misprint: str) -> dict[str, Any]:
    weights = np.exp(rewards)
    p = weights[best - 1] / weights.sum()
    return {"exp r": weights, "Σ": weights.sum(), "p(b)": p, "L": -np.log(p)}


def H4(
    score: float, policy: Any, tuned: Any, beta: float, gamma: float, pretraining: Any, misprint: str
) -> dict[str, Any]:
    apart = np.log(np.array(policy) / np.array(tuned))
    total = score - beta * np.log(np.prod(policy) / np.prod(tuned))
    mean = np.log(np.prod(pretraining)) / len(pretraining)
    return {
        "ln(π / π_SFT)": apart,
        "rewards": -beta * apart + np.array([0.0, 0.0, score]),
        "R": total,
        "ln π(x)": np.log(pretraining),
        "E[ln π(x)]": mean,
        "R + mix": total + gamma * mean,
    }


def H5(p: Any, q: Any, misprint: str) -> dict[str, Any]:
    p, q = np.array(p) / sum(p), np.array(q) / sum(q)
    ratio = q / p
    estimates = {"k₁": -np.log(ratio), "k₂": np.log(ratio) ** 2 / 2, "k₃": ratio - 1 - np.log(ratio)}
    return {
        "p": p,
        "q": q,
        "ρ": ratio,
        **estimates,
        **{f"Σ p {name}": p @ values for name, values in estimates.items()},
        "p ln(p / q)": p * np.log(p / q),
        "KL": (p * np.log(p / q)).sum(),
    }


def H6(results: Any, k: float, misprint: str) -> dict[str, Any]:
    rating, steps = 1500.0, {}
    for game, result in enumerate(results, 1):
        p = 1 / (1 + 10 ** ((3000 - 2 * rating) / 400))  # what one wins the other loses
        rating += k * (result - p)
        steps |= {f"P, {game}": p, f"R_A, {game}": rating}
    return steps


def H7(instruction: str, input: str, output: str, misprint: str) -> dict[str, Any]:
    parts = ["### Instruction:", instruction, *(["### Input:", input] if input else []), "### Response:", ""]
    prompt = "\n".join(parts)
    P, T = len(prompt.encode()), len(output.encode()) + 1
    return {"prompt": prompt, "P": P, "answer": output, "T": T, "all": P + T, "first row": P - 1, "count": T}
