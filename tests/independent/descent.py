"""The update of gradient-trained kinds a second time: norm, clipping, schedule and AdamW, in NumPy (MATH F3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import cos, pi
from typing import Any

import numpy as np
from independent.tape import Array, gradients


def rate(update: int, train: Any, peak: float) -> float:
    """Linear warm-up to the peak, then the cosine to `final` of it, or constant."""
    if update <= train.warmup:
        return peak * update / train.warmup
    if train.decay == "constant":
        return peak
    share = min(1.0, (update - train.warmup) / max(1, train.steps - train.warmup))
    return peak * (train.final + (1 - train.final) * (1 + cos(pi * share)) / 2)


def norm(parts: Sequence[np.ndarray]) -> float:
    return float(np.sqrt(sum((part**2).sum() for part in parts)))


@dataclass
class Descent:
    """Weights by name, the moments and the number of updates of each, and what AdamW is given.

    groups  names of the weights that share an optimizer, and so a norm that they are clipped by; () = all share one
    """

    weights: dict[str, Array]
    train: Any
    moments: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    clip: float = 0.0
    groups: Sequence[Sequence[str]] = ()

    @classmethod
    def of(cls, state: Mapping[str, Any], train: Any, groups: Sequence[str] = ()) -> Descent:
        """From a checkpoint's state (see GradientExperiment.state_dict); groups are prefixes of names."""
        made = cls({}, train, clip=state["adjusted"]["clip"])
        for name, tensor in state["model"].items():
            made.weights[name] = Array(tensor.double().numpy().copy())
            kept = state["optimizer"][name]
            zero = np.zeros(tensor.shape)
            exp_avg, exp_avg_sq = (
                kept[key].double().numpy().copy() if kept else zero for key in ("exp_avg", "exp_avg_sq")
            )
            made.moments[name], made.counts[name] = (exp_avg, exp_avg_sq), int(kept["step"]) if kept else 0
        made.groups = [[name for name in made.weights if name.startswith(group)] for group in groups]
        return made

    def step(self, loss: Array, rate: float) -> float:
        """Change the weights by one update; return ‖g‖ before clipping."""
        found = dict(zip(self.weights, gradients(loss, self.weights.values()), strict=True))
        for names in self.groups or [list(self.weights)]:
            own = norm([found[name] for name in names])
            scale = min(1.0, self.clip / (own + 1e-6)) if self.clip else 1.0
            for name in names:
                self.weights[name] = Array(self._moved(name, found[name] * scale, rate))
        return norm(list(found.values()))

    def _moved(self, name: str, g: np.ndarray, rate: float) -> np.ndarray:
        train, w = self.train, self.weights[name].value
        m, v = self.moments[name]
        m, v = train.beta1 * m + (1 - train.beta1) * g, train.beta2 * v + (1 - train.beta2) * g**2
        self.moments[name], self.counts[name] = (m, v), self.counts[name] + 1
        n = self.counts[name]
        direction = m / (1 - train.beta1**n) / (np.sqrt(v / (1 - train.beta2**n)) + train.epsilon)
        decay = train.weight_decay if w.ndim >= 2 else 0.0
        return w - rate * (direction + decay * w)


def moved_apart(before: Mapping[str, Any], after: Mapping[str, Any], ours: Mapping[str, Array]) -> float:
    """‖our change − the engine's‖ / ‖the engine's change‖ over all weights: 0 is agreement.

    before, after  the engine's tensors by name        ours  the weights that the independent update ended at
    """
    difference, length = 0.0, 0.0
    for name, w in ours.items():
        start, end = before[name].double().numpy(), after[name].double().numpy()
        difference += float((((w.value - start) - (end - start)) ** 2).sum())
        length += float(((end - start) ** 2).sum())
    return (difference / length) ** 0.5
