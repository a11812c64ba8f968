"""Simulated labellers, with stated noise and bias (MATH H2).

    u_i = gold_i + bias · characters_i / 10 + noise · g_i,   g_i ~ Gumbel;   the answers are ranked by u

With noise 1 and no bias, i is ranked before j with probability σ(gold_i − gold_j): the model of Bradley and Terry
1952, and of all K answers that of Plackett 1975 and Luce 1959. A bias towards long answers is one that labellers are
known to have, and that a policy finds at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SimulatedLabeller:
    """noise  scale of the Gumbel noise    bias  per ten characters    tie  answers whose u differ by less are equal"""

    noise: float = 1.0
    bias: float = 0.0
    tie: float = 0.0

    def rank(self, gold: Sequence[float], answers: Sequence[str], draws: np.random.Generator) -> list[int]:
        """The rank of each answer, 1 = best; answers that are tied have the same rank."""
        lengths = np.array([len(answer) for answer in answers])
        u = np.asarray(gold) + self.bias * lengths / 10 + self.noise * draws.gumbel(size=len(answers))
        order = np.argsort(-u, kind="stable")
        ranks = [0] * len(answers)
        for place, answer in enumerate(order):
            tied = place > 0 and u[order[place - 1]] - u[answer] < self.tie
            ranks[answer] = ranks[order[place - 1]] if tied else place + 1
        return ranks
