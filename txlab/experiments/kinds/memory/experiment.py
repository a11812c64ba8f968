"""Recurrent cells that learn to remember, side by side, and the gradient that reaches the beginning (MATH R2, R3).

The sequences of update n are a function of (seed, n), so nothing can be memorised. Input t = 1 is the symbol,
one-hot; every input also has a noise component, which disturbs the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from txlab.engine.recurrent.cells import CELLS, Cell
from txlab.engine.recurrent.network import Recurrent, Steps
from txlab.experiments.kinds.memory.schema import MemoryScenario, Remembering
from txlab.experiments.learning.gradient import GradientExperiment, Measured, adamw
from txlab.experiments.protocol import Frame
from txlab.experiments.randomness import generator

SMALLEST = 1e-300  # the value of a gradient that has vanished completely


class Rememberer(nn.Module):
    """x (B, T, K + 1) → logits (B, K): one layer of a cell, and a linear map of its last h."""

    def __init__(self, cell: str, data: Remembering, width: int, memory: str, draws: torch.Generator) -> None:
        super().__init__()
        self.recurrent = Recurrent(cell, data.symbols + 1, width, generator=draws)
        self.head = nn.Linear(width, data.symbols)
        nn.init.normal_(self.head.weight, 0.0, width**-0.5, generator=draws)
        nn.init.zeros_(self.head.bias)
        if memory == "spread":
            spread(self.cell, data.length, draws)

    @property
    def cell(self) -> Cell:
        return self.recurrent.cells()[0][0]

    def forward(self, x: Tensor, steps: Steps = "fused") -> Tensor:
        return self.head(self.recurrent(x, steps=steps)[0][:, -1])  # type: ignore[no-any-return]


@torch.no_grad()
def spread(cell: Cell, length: int, draws: torch.Generator) -> None:
    """Biases by which units forget after τ steps, τ uniform in 1 … T − 1: ln τ for f or z, and −ln τ for i.

    Tallec and Ollivier 2018, eq. 17. A plain RNN has no gate to bias.
    """
    H = cell.width
    first = torch.empty(H).uniform_(1.0, max(1.0, length - 1.0), generator=draws).log()
    for gate, sign in (("f", 1.0), ("z", 1.0), ("i", -1.0)):
        if gate in cell.sums:
            rows = slice(cell.sums.index(gate) * H, (cell.sums.index(gate) + 1) * H)
            cell.b[rows] = sign * first
            cell.c[rows] = 0.0


def gradients_back(model: Rememberer, x: Tensor, symbol: Tensor) -> Tensor:
    """‖∂L_T/∂s_t‖ of the states s_1 … s_T, of h, or of h and c together: (T). L is the mean over the batch. MATH R2."""
    states: list[Tensor] = []
    names = model.cell.state

    def keep(layer: int, way: int, t: int, values: dict[str, Tensor]) -> None:
        states.extend(values[name] for name in names)

    y, _ = model.recurrent(x, look=keep)
    loss = F.cross_entropy(model.head(y[:, -1]), symbol)
    gradients = torch.autograd.grad(loss, states, allow_unused=True)
    norms = torch.stack(
        [torch.zeros((), dtype=x.dtype) if each is None else torch.linalg.vector_norm(each) for each in gradients]
    )
    reached: Tensor = torch.linalg.vector_norm(norms.view(-1, len(names)), dim=1)
    return reached


class MemoryExperiment(GradientExperiment[nn.ModuleDict]):
    """An Experiment (see protocol). The children of `model` are named after their cells."""

    scenario: MemoryScenario

    def __init__(self, scenario: MemoryScenario) -> None:
        cells, data = scenario.model, scenario.data

        def make(draws: torch.Generator) -> nn.ModuleDict:
            # Each from its own generator: a cell learns the same, regardless of the others.
            first = draws.initial_seed()
            return nn.ModuleDict(
                {
                    name: Rememberer(name, data, cells.width, cells.memory, torch.Generator().manual_seed(first))
                    for name in cells.cells
                }
            )

        super().__init__(scenario, make)

    def make_optimizers(self) -> Sequence[Optimizer]:
        return [adamw(each, self.scenario.train) for each in self.model.values()]

    def batch(self, purpose: str, number: int) -> tuple[Tensor, Tensor]:
        """x (B, T, K + 1), the symbols (B)."""
        data, B = self.scenario.data, self.scenario.train.batch
        draws = generator(self.scenario.seed, purpose, number)
        symbol = draws.integers(data.symbols, size=B)
        x = np.zeros((B, data.length, data.symbols + 1), dtype=np.float32)
        x[:, :, -1] = draws.standard_normal((B, data.length))
        x[np.arange(B), 0, symbol] = 1.0
        return torch.from_numpy(x).to(self.device), torch.from_numpy(symbol).to(self.device)

    def gradients(self, update: int) -> Measured:
        x, symbol = self.batch("train", update)
        measured: Measured = {}
        total = torch.zeros((), device=self.device)
        for name, model in self.model.items():
            logits = model(x)
            loss = F.cross_entropy(logits, symbol)
            total = total + loss
            measured[f"loss/{name}"] = loss.detach()
            measured[f"accuracy/{name}"] = (logits.argmax(-1) == symbol).float().mean()
        total.backward()  # type: ignore[no-untyped-call]
        return {"loss": total.detach(), **measured}

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """Of each cell: val_loss/, val_accuracy/, and fall/, how many orders of magnitude the gradient loses."""
        x, symbol = (torch.cat(parts) for parts in zip(*self._validation, strict=True))
        metrics: dict[str, float | Tensor] = {}
        with self.quiet():
            for name, model in self.model.items():
                with torch.no_grad():
                    logits = model(x)
                metrics[f"val_loss/{name}"] = float(F.cross_entropy(logits, symbol))
                metrics[f"val_accuracy/{name}"] = float((logits.argmax(-1) == symbol).float().mean())
            for name, norms in self.measure_gradients().items():
                metrics[f"fall/{name}"] = float(norms[-1].log10() - norms[0].log10())
        return metrics

    def measure_gradients(self) -> dict[str, Tensor]:
        """‖∂L_T/∂s_t‖ (T) of each cell, on the first batch of validation; in float64, which goes down to 1e-308."""
        x, symbol = self._validation[0]
        models: Any = {name: deepcopy(model).double() for name, model in self.model.items()}
        return {name: gradients_back(model, x.double(), symbol).clamp(min=SMALLEST) for name, model in models.items()}

    @cached_property
    def _validation(self) -> list[tuple[Tensor, Tensor]]:
        return [self.batch("validation", number) for number in range(self.scenario.train.validation_batches)]

    def frame(self) -> Frame:
        """curve/NAME (T): log₁₀ ‖∂L_T/∂s_t‖ of each cell against T − t."""
        with self.quiet():
            curves = {f"curve/{name}": norms.flip(0).log10().cpu() for name, norms in self.measure_gradients().items()}
        facts = {"curve": {"x": "T − t, steps back", "y": "log₁₀ ‖∂L_T/∂s_t‖", "from": 0}}
        return Frame(self.step_count, curves, facts=facts)

    def facts(self) -> Mapping[str, Any]:
        scenario = self.scenario
        T, H, D = scenario.data.length, scenario.model.width, scenario.data.symbols + 1
        weights = sum(len(CELLS[name].sums) * H * (D + H) for name in scenario.model.cells)
        return {
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "unit": "steps of sequences",
            "units_per_step": scenario.train.batch * T * len(scenario.model.cells),
            "flops_per_step": 6 * scenario.train.batch * T * weights,
            **super().facts(),
        }
