"""Many independent learners at once: error bars over seeds, sweeps over settings (MATH M5–M7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from txlab.engine.rl.settings import TITLES, Settings
from txlab.engine.rl.sweeps.one_by_one import OneByOne
from txlab.engine.rl.sweeps.rules import RULES
from txlab.engine.rl.sweeps.sweep import Cancelled, FinishedEpisodes, Sweep
from txlab.engine.rl.world import World
from txlab.errors import LabError

__all__ = ["Cancelled", "FinishedEpisodes", "OneByOne", "Sweep", "sweep_in"]


def sweep_in(
    world: World,
    settings: Sequence[Settings],
    seeds: Sequence[int],
    device: str = "cpu",
    offset: np.ndarray | None = None,
) -> Sweep | OneByOne:
    """Learners of a world, on a device: "cpu" computes with numpy, any other (cuda, cuda:1, mps) with torch. In a world
    that can only be stepped, and where a rule has no batched form, they are glass boxes, one by one.

    LabError where that cannot be.
    """
    process = world.process
    alone = next((TITLES[each.rule] for each in settings if each.rule not in RULES), "")
    if alone or world.environment is not None:
        if offset is not None or device not in ("cpu", "auto"):
            why = f"{alone} learns one by one" if alone else f"{world.title} can only be stepped"
            raise LabError(f"{why}, on the CPU, beside learners that begin with equal values")
        return OneByOne(world.environment or (lambda: process), settings, seeds)
    if device in ("cpu", "auto"):
        return Sweep(process, settings, seeds, offset=offset)
    from txlab.engine.rl.sweeps.on_torch import Torch

    return Sweep(process, settings, seeds, Torch(device), offset)
