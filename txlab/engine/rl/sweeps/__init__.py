"""Many independent learners at once: error bars over seeds, sweeps over settings (MATH M5–M7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from txlab.engine.rl.process import Process
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.sweep import Cancelled, Episodes, Sweep

__all__ = ["Cancelled", "Episodes", "Sweep", "sweep_on"]


def sweep_on(
    device: str,
    process: Process,
    settings: Sequence[Settings],
    seeds: Sequence[int],
    offset: np.ndarray | None = None,
) -> Sweep:
    """A sweep on a device: "cpu" computes with numpy, any other (cuda, cuda:1, mps) with torch."""
    if device in ("cpu", "auto"):
        return Sweep(process, settings, seeds, offset=offset)
    from txlab.engine.rl.sweeps.on_torch import Torch

    return Sweep(process, settings, seeds, Torch(device), offset)
