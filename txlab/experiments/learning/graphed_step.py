"""A gradient experiment's whole updates as one recording: gradients, watching, clipping and AdamW (see `step_graph`).

An update is that of `GradientExperiment.update` with late reports of refusals. Everything that differs between two of
them is written into tensors beforehand; other adjustable parameters (`adjusted`) are plain numbers in the recording,
which is redone when they change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from txlab.experiments.learning.prefetch import Prefetch
from txlab.experiments.learning.step_graph import StepGraph


class UpdatableExperiment(Protocol):
    """The interface of an experiment to a recorded update; see GradientExperiment, whose update it is."""

    device: torch.device
    optimizers: Sequence[Optimizer]
    batches: Prefetch
    adjusted: dict[str, float]
    step_count: int

    def learning_rate(self, update: int) -> float: ...
    def seed_dropout(self, update: int) -> None: ...
    def gradients_of(self, *batch: Tensor) -> dict[str, Tensor]: ...
    def measure_with_norms(
        self, gradients: Callable[[int], dict[str, Tensor]]
    ) -> tuple[dict[str, Tensor], list[Tensor]]: ...
    def watch(self, loss: Tensor, norm: Tensor, update: int | Tensor) -> None: ...
    def descend(self, norms: Sequence[Tensor], rate: float | Tensor) -> None: ...
    def verify(self) -> None: ...


class GraphedStep:
    """graph     makes the updates
    recorded  the adjusted parameters that are plain numbers in the recording
    told      the reason for a failed recording, once reported
    """

    def __init__(self, experiment: UpdatableExperiment) -> None:
        self.experiment, device = experiment, experiment.device
        for group in (group for optimizer in experiment.optimizers for group in optimizer.param_groups):
            group["capturable"] = device.type == "cuda"  # tells torch so; a fused step is the same
        self.graph = StepGraph(self._work, device)
        self.recorded: tuple[float, ...] = ()
        self.noted = ""
        # A fused AdamW on a GPU reads a learning rate of 32 bits; a CPU has the 64 of a Python number.
        self.rate = torch.zeros((), device=device, dtype=torch.float64 if device.type == "cpu" else torch.float32)
        self.number = torch.zeros((), device=device, dtype=torch.int64)

    def step(self) -> Mapping[str, float | Tensor]:
        """The next update, and its measurements."""
        experiment = self.experiment
        update = experiment.step_count + 1
        rate, plain = experiment.learning_rate(update), tuple(v for k, v in experiment.adjusted.items() if k != "lr")
        if plain != self.recorded:
            self.graph.forget()
            self.recorded = plain
        self.rate.fill_(rate)
        self.number.fill_(update)
        batch = experiment.batches.take(update)
        experiment.seed_dropout(update)
        numbers = self.graph(*batch)
        measured = dict(zip(self.names, numbers, strict=True))
        experiment.step_count = update
        if experiment.device.type == "cpu":
            experiment.verify()  # immediately, where it costs nothing
        return {"loss": measured["loss"], "lr": rate, "grad_norm": measured.pop("grad_norm"), **measured}

    def _work(self, *batch: Tensor) -> Tensor:
        """The recorded code. Returns the measurements, in the order of `names`."""
        experiment = self.experiment
        measured, norms = experiment.measure_with_norms(lambda _: experiment.gradients_of(*batch))
        loss, norm = measured["loss"], norms[0] if len(norms) == 1 else torch.stack(norms).norm()
        experiment.watch(loss, norm, self.number)
        experiment.descend(norms, self.rate)
        self.names = ["grad_norm", *measured]
        return torch.stack([norm.float(), *(value.float() for value in measured.values())])

    def notes(self) -> Sequence[str]:
        """Why updates are not recorded after all, once."""
        if self.graph.refused == self.noted:
            return ()
        self.noted = self.graph.refused
        return (f"graphs off: the step cannot be recorded ({self.noted})",)
