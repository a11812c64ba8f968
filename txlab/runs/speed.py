"""What a run asks of the machine: units a second, share of the peak, memory, time left.

Notable: throughput leaves out the time of evaluations, samples, frames and checkpoints; the time left counts it in.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

MACHINE_EVERY = 1.0  # seconds between two rows
WINDOW = 10  # rows that a speed is averaged over


class Speed:
    """Machine numbers about once a second, over a window of about ten; pauses and measurements are not counted."""

    def __init__(self, facts: Mapping[str, Any], steps: int) -> None:
        self.units = float(facts.get("units_per_step") or 0)
        self.unit = str(facts.get("unit") or "tokens")
        self.flops, self.peak = float(facts.get("flops_per_step") or 0), float(facts.get("peak_flops") or 0)
        self.steps = steps
        self.open_end = bool(facts.get("open_end"))  # `steps` is a bound: nobody knows how long it takes
        self.spent_aside = 0.0
        self.marks: deque[tuple[float, float, int]] = deque(maxlen=WINDOW + 1)  # (now, spent aside, step)
        self.began_aside = 0.0

    def begin(self, step: int) -> None:
        """Start measuring afresh (after a pause)."""
        self.marks.clear()
        self.marks.append((time.monotonic(), self.spent_aside, step))

    def aside(self) -> Speed:
        """`with speed.aside():` what is done here is no training."""
        return self

    def __enter__(self) -> None:
        self.began_aside = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.spent_aside += time.monotonic() - self.began_aside

    def look(self, step: int) -> dict[str, float]:
        """The machine row's values when a second has passed since the last, or the last step is done; else nothing.

        share_of_peak = flops_per_step · steps/s / peak_flops;  seconds_left counts evaluations and samples in.
        """
        now = time.monotonic()
        if now - self.marks[-1][0] < MACHINE_EVERY and step < self.steps:
            return {}
        then, aside, first = self.marks[0]
        wall, done = now - then, step - first
        training = wall - (self.spent_aside - aside)
        self.marks.append((now, self.spent_aside, step))
        values = memory()
        if done > 0 and training > 0:
            rate = done / training
            values["steps_per_second"] = rate
            if not self.open_end or step >= self.steps:
                values["seconds_left"] = (self.steps - step) * wall / done
            if self.units:
                values[f"{self.unit}_per_second"] = self.units * rate
            if self.flops and self.peak:
                values["share_of_peak"] = self.flops * rate / self.peak
        return values


def memory() -> dict[str, float]:
    """memory_mb: what the process holds; on a GPU the most it has held there, and the process is host_memory_mb."""
    import psutil

    host = psutil.Process().memory_info().rss / 1e6
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return {"memory_mb": torch.cuda.max_memory_allocated() / 1e6, "host_memory_mb": host}
    return {"memory_mb": host}
