"""Toy models of superposition: x′ = ReLU(Wᵀ W x + b), for several sparsities and initial weights in parallel (MATH F6).

All models are one tensor, W (K, R, m, n) of K sparsities and R initialisations, and share neither weights nor moments.
The examples of update n are a function of (seed, n): the same draws for all sparsities, of which each keeps its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from txlab.experiments.kinds.superposition.schema import KEPT, SuperpositionScenario
from txlab.experiments.learning.gradient import GradientExperiment, Measured
from txlab.experiments.protocol import Frame
from txlab.experiments.randomness import generator


class Bottlenecks(nn.Module):
    """x (K, 1, B, n) → x′ (K, R, B, n), by the model [k, r] each."""

    def __init__(self, shape: tuple[int, int, int, int], draws: torch.Generator) -> None:
        super().__init__()
        K, R, m, n = shape
        self.W = nn.Parameter(torch.empty(shape).normal_(0.0, (2 / (m + n)) ** 0.5, generator=draws))
        self.b = nn.Parameter(torch.zeros(K, R, 1, n))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ (self.W.mT @ self.W) + self.b)


def smallest_angle(vectors: Tensor) -> float:
    """In degrees, between any two of the vectors (n, m) that are longer than KEPT; 180 if there are no two."""
    kept = vectors[vectors.norm(dim=1) > KEPT].double()
    directions = kept / kept.norm(dim=1, keepdim=True)
    cosines = (directions @ directions.T).fill_diagonal_(-1.0)
    return float(cosines.clamp(-1, 1).max().arccos().rad2deg()) if len(kept) > 1 else 180.0


class SuperpositionExperiment(GradientExperiment[Bottlenecks]):
    """An Experiment (see protocol); for each sparsity, it shows the model of least validation loss."""

    scenario: SuperpositionScenario

    def __init__(self, scenario: SuperpositionScenario) -> None:
        data, model = scenario.data, scenario.model
        shape = (len(data.sparsities), model.restarts, model.dimensions, data.features)
        super().__init__(scenario, lambda draws: Bottlenecks(shape, draws))
        self.importance = (data.importance ** torch.arange(data.features)).to(self.device)
        self.names = [f"{S:g}" for S in data.sparsities]

    def examples(self, purpose: str, number: int, count: int) -> Tensor:
        """x (K, 1, B, n), x_i uniform in 0 … 1, or 0 with probability S."""
        data = self.scenario.data
        value, chance = generator(self.scenario.seed, purpose, number).random((2, count, data.features), np.float32)
        least = np.array(data.sparsities, np.float32)[:, None, None, None]
        return torch.from_numpy(np.where(chance >= least, value, np.float32(0)))

    def losses(self, x: Tensor) -> Tensor:
        """(1/B) Σ_b Σᵢ rⁱ (xᵢ − x′ᵢ)² of each model: (K, R)."""
        errors: Tensor = (x - self.model(x)).square()  # (K, R, B, n)
        return (errors @ self.importance).mean(-1)

    def batch_of(self, update: int) -> tuple[Tensor]:
        return (self.examples("train", update, self.scenario.train.batch),)

    def gradients_of(self, *batch: Tensor) -> Measured:
        loss = self.losses(*batch).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": loss.detach()}

    @torch.no_grad()
    def best(self) -> tuple[Tensor, Tensor]:
        """Of each sparsity the least validation loss (K), and the feature vectors of that model (K, n, m)."""
        least, restart = self.losses(self._validation).min(1)
        return least, self.model.W[torch.arange(len(least)), restart].mT

    @cached_property
    def _validation(self) -> Tensor:
        train = self.scenario.train
        return self.on_device(self.examples("validation", 0, train.batch * train.validation_batches))

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """features/S, angle/S and loss/S, see `explain_metric`."""
        losses, vectors = (dict(zip(self.names, each, strict=True)) for each in self.best())
        return {
            **{f"features/{name}": float((each.norm(dim=1) > KEPT).sum()) for name, each in vectors.items()},
            **{f"angle/{name}": smallest_angle(each) for name, each in vectors.items()},
            **{f"loss/{name}": float(loss) for name, loss in losses.items()},
        }

    def frame(self) -> Frame:
        """points/S (n, m): the vector of each feature."""
        points = {f"points/{name}": vectors.clone() for name, vectors in zip(self.names, self.best()[1], strict=True)}
        return Frame(self.step_count, points, facts={"points": {"of": "features"}})

    def facts(self) -> Mapping[str, Any]:
        K, R, _, n = self.model.W.shape
        examples = self.scenario.train.batch * K * R
        return {
            "parameters": self.model.W.numel() + self.model.b.numel(),
            "unit": "examples",
            "units_per_step": examples,
            "flops_per_step": 6 * examples * n * n,
            **super().facts(),
        }
