"""What people are asked to judge: prompts, demonstrations, and where it is known the score that a perfect judge would
give. The project generates two tasks, so that what a reward model measures can be compared with what was meant.

A task is a module with an object `TASK`; a text is a character string, and an answer ends before END.
"""

from __future__ import annotations

from collections.abc import Callable
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
    demonstrate  draws an answer, of mixed quality, as people write them
    gold         the score of an answer to a prompt: what a labeller without noise would rank by; None = nobody knows
    characters   all that its texts have; empty = any
    unit         what the gold score counts
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
