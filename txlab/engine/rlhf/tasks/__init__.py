"""Labelling tasks: prompts, demonstrations, and, where known, the score that a perfect judge would give (MATH H2). The
project generates two tasks, so that a reward model can be compared with the intended score, and simulates labellers,
with known noise and bias.

A task is a module with an object `TASK`; a text is a character string, and an answer ends before END.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from txlab.errors import LabError, choices

END = "\n"
TASKS = ("reviews", "spelling")


@dataclass(frozen=True)
class Task:
    """A generated task.

    prompt       draws a prompt; it ends where the answer begins
    demonstrate  draws an answer, of mixed quality, like human ones
    gold         the score of an answer to a prompt: the ranking criterion of a noiseless labeller; None = unknown
    characters   the alphabet of its texts; empty = any
    unit         the unit of the gold score
    """

    name: str
    prompt: Callable[[np.random.Generator], str]
    demonstrate: Callable[[np.random.Generator, str], str]
    gold: Callable[[str, str], float] | None
    characters: str
    unit: str


def task_named(name: str) -> Task:
    """The task of that name. LabError with the nearest name."""
    if name not in TASKS:
        raise LabError(f"task = {name!r} is not a task{choices(name, TASKS)}")
    task: Task = import_module(f"{__name__}.{name}").TASK
    return task


@dataclass(frozen=True)
class SimulatedLabeller:
    """Ranks answers by u_i = gold_i + bias · characters_i / 10 + noise · g_i, g_i ~ Gumbel.

    With noise 1 and no bias, i is ranked before j with probability σ(gold_i − gold_j): the model of Bradley and Terry
    1952, and of all K answers that of Plackett 1975 and Luce 1959. A bias towards long answers is known from real
    labellers, and policies exploit it quickly.

    noise  scale of the Gumbel noise    bias  per ten characters    tie  answers whose u differ by less are equal
    """

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
