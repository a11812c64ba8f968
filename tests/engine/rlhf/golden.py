"""Golden numbers of human feedback, in plain Python floats (fp64) with a loop for every sum: no torch, no numpy.

    python tests/engine/rlhf/golden.py     writes golden.json next to it

Written from the formulas of Schulman et al. 2016 and 2017, Ziegler et al. 2019, Ouyang et al. 2022, Rafailov et al.
2023, Ahmadian et al. 2024 and Shao et al. 2024, without a look at the engine.
"""

from __future__ import annotations

import json
from math import exp, log, sqrt
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).with_name("golden.json")
B, T, K = 4, 6, 5
LENGTHS = [6, 3, 1, 5]
GAMMA, LAMBDA, CLIP, VALUE_CLIP, BETA = 0.9, 0.8, 0.2, 0.15, 0.3


def table(random: Random, spread: float) -> list[list[float]]:
    return [[random.gauss(0, spread) for _ in range(T)] for _ in range(B)]


def steps() -> list[tuple[int, int]]:
    return [(b, t) for b in range(B) for t in range(LENGTHS[b])]


def zeros() -> list[list[float]]:
    return [[0.0] * T for _ in range(B)]


def computed() -> dict[str, Any]:
    random = Random(20260101)
    rewards, values = table(random, 1.0), table(random, 0.5)
    old, new, reference = (table(random, 0.4) for _ in range(3))
    new_values, scores = table(random, 0.5), [random.gauss(0, 1) for _ in range(B)]
    given = {
        "rewards": rewards, "values": values, "old": old, "new": new, "reference": reference,
        "new_values": new_values, "scores": scores, "lengths": LENGTHS, "gamma": GAMMA, "lambda": LAMBDA,
        "clip": CLIP, "value_clip": VALUE_CLIP, "beta": BETA,
    }  # fmt: skip

    # Advantages: A_t as the sum of discounted TD errors, by definition and not by recursion
    deltas, advantages, returns = zeros(), zeros(), zeros()
    for b, t in steps():
        following = values[b][t + 1] if t + 1 < LENGTHS[b] else 0.0
        deltas[b][t] = rewards[b][t] + GAMMA * following - values[b][t]
    for b, t in steps():
        advantages[b][t] = sum((GAMMA * LAMBDA) ** (k - t) * deltas[b][k] for k in range(t, LENGTHS[b]))
        returns[b][t] = advantages[b][t] + values[b][t]

    n = len(steps())
    mean = sum(advantages[b][t] for b, t in steps()) / n
    variance = sum((advantages[b][t] - mean) ** 2 for b, t in steps()) / n
    whitened, unshifted = zeros(), zeros()
    for b, t in steps():
        whitened[b][t] = (advantages[b][t] - mean) / sqrt(variance + 1e-8)
        unshifted[b][t] = whitened[b][t] + mean

    policy_loss = value_loss = 0.0
    clipped = value_clipped = 0
    for b, t in steps():
        ratio = exp(new[b][t] - old[b][t])
        near = min(max(ratio, 1 - CLIP), 1 + CLIP)
        policy_loss += max(-whitened[b][t] * ratio, -whitened[b][t] * near) / n
        clipped += -whitened[b][t] * near > -whitened[b][t] * ratio
        moved = min(max(new_values[b][t] - values[b][t], -VALUE_CLIP), VALUE_CLIP)
        free, held = (new_values[b][t] - returns[b][t]) ** 2, (values[b][t] + moved - returns[b][t]) ** 2
        value_loss += 0.5 * max(free, held) / n
        value_clipped += held > free

    token_rewards = zeros()
    for b, t in steps():
        token_rewards[b][t] = -BETA * (old[b][t] - reference[b][t])
        if t == LENGTHS[b] - 1:
            token_rewards[b][t] += scores[b]

    # Rankings of up to K answers, with ties, and one of fewer
    answers = [[random.gauss(0, 1) for _ in range(K)] for _ in range(3)]
    ranks = [[2, 1, 2, 4, 4], [1, 2, 3, 4, 5], [3, 1, 1, 0, 0]]
    losses, pairs, right = [], [], []
    for row, places in zip(answers, ranks, strict=True):
        won = [(i, j) for i in range(K) for j in range(K) if places[i] and places[j] and places[i] < places[j]]
        losses.append(sum(log(1 + exp(-(row[i] - row[j]))) for i, j in won) / len(won))
        pairs.append(len(won))
        right.append(sum(row[i] > row[j] for i, j in won))
    choice = sum(-row[1] + log(sum(exp(score) for score in row)) for row in answers) / 3

    logps = [[random.gauss(-10, 2) for _ in range(B)] for _ in range(4)]
    dpo = sum(log(1 + exp(-BETA * ((w - rw) - (l - rl)))) for w, l, rw, rl in zip(*logps, strict=True)) / B
    rloo = [[r - (sum(row) - r) / (K - 1) for r in row] for row in answers]
    grpo = []
    for row in answers:
        middle = sum(row) / K
        sd = sqrt(sum((r - middle) ** 2 for r in row) / (K - 1))
        grpo.append([(r - middle) / (sd + 1e-6) for r in row])

    # The best of n of N, by listing all subsets
    from itertools import combinations

    of = [random.gauss(0, 1) for _ in range(7)]
    by = [random.gauss(0, 1) for _ in range(7)]
    best = []
    for size in range(1, 8):
        subsets = list(combinations(range(7), size))
        best.append(sum(of[max(subset, key=lambda i: by[i])] for subset in subsets) / len(subsets))

    logits = [[random.gauss(0, 1) for _ in range(5)] for _ in range(2)]
    p, q = ([exp(x) / sum(exp(y) for y in row) for x in row] for row in logits)
    kl = sum(a * log(a / b) for a, b in zip(p, q, strict=True))

    adaptive = {}
    for nats in (3, 12, 100):
        adaptive[str(nats)] = 0.2 * (1 + min(max(nats / 6 - 1, -0.2), 0.2) * 256 / 10_000)
    return {
        "given": given,
        "gae": {"deltas": deltas, "advantages": advantages, "returns": returns},
        "whiten": {"mean": mean, "sd": sqrt(variance), "whitened": whitened, "unshifted": unshifted},
        "policy_loss": policy_loss, "clipped": clipped, "value_loss": value_loss, "value_clipped": value_clipped,
        "token_rewards": token_rewards,
        "ranking": {"scores": answers, "ranks": ranks, "per_prompt": losses, "loss": sum(losses) / 3,
                    "pairs": pairs, "right": right, "choice_of_second": choice},
        "dpo": {"logps": logps, "loss": dpo}, "rloo": rloo, "grpo": grpo,
        "best": {"of": of, "by": by, "expected": best},
        "kl": {"logits": logits, "exact": kl},
        "adaptive": adaptive,
    }  # fmt: skip


if __name__ == "__main__":
    HERE.write_text(json.dumps(computed(), indent=1) + "\n", encoding="utf-8")
