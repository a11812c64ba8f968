"""The learning rate of any torch optimizer, as one number that a person may change, whatever its schedule does.

Notable: a scheduler computes each rate from what it keeps of its own, so a value written into the optimizer's groups is
undone by its next step. A change is therefore a factor that everything is multiplied by: the groups, their peaks, and
the base rates of the scheduler and of those inside it. Groups keep their ratios to each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from txlab.errors import LabError

KEYS = ("lr", "initial_lr", "max_lr", "min_lr")  # of a group; the last two are OneCycleLR's


class LearningRate:
    """The peak rate of the first group: with a scheduler, what its schedule is a share of."""

    def __init__(self, optimizer: Any, scheduler: Any = None) -> None:
        self.optimizer, self.scheduler = optimizer, scheduler
        if not getattr(optimizer, "param_groups", None):
            raise LabError(f"{type(optimizer).__name__} has no param_groups, so its learning rate cannot be changed")

    def value(self) -> float:
        for scheduler in self._schedulers():
            if bases := getattr(scheduler, "base_lrs", None):
                return float(bases[0])
        return float(self.optimizer.param_groups[0]["lr"])

    def set(self, value: float) -> None:
        """Multiply everything so that the peak becomes `value`; takes effect at once. LabError if the peak is 0."""
        now = self.value()
        if now == 0:
            raise LabError("the learning rate is 0, and no factor changes that")
        factor = value / now
        changed: set[int] = set()  # tensors, which a group and its scheduler may share

        def scaled(rate: Any) -> Any:
            if not hasattr(rate, "mul_"):
                return rate * factor
            if id(rate) not in changed:  # of a capturable optimizer: changed in place, since a graph may read it
                changed.add(id(rate))
                rate.mul_(factor)
            return rate

        for group in self.optimizer.param_groups:
            for key in KEYS:
                if key in group:
                    group[key] = scaled(group[key])
        for scheduler in self._schedulers():
            for name in ("base_lrs", "min_lrs", "_last_lr"):
                held = getattr(scheduler, name, None)
                if isinstance(held, list):
                    setattr(scheduler, name, [scaled(rate) for rate in held])
            if isinstance(getattr(scheduler, "eta_min", None), float):  # the floor of a cosine
                scheduler.eta_min *= factor

    def _schedulers(self) -> Iterator[Any]:
        """The scheduler and those inside it: SequentialLR, ChainedScheduler, and accelerate's wrapper."""
        waiting, seen = [self.scheduler], set()
        while waiting:
            scheduler = waiting.pop(0)
            if scheduler is None or id(scheduler) in seen:
                continue
            seen.add(id(scheduler))
            yield scheduler
            waiting += [getattr(scheduler, "scheduler", None), *getattr(scheduler, "_schedulers", ())]
