"""A decoder that reads "a b =" and names (a + b) mod p (MATH T9; Power et al. 2022, Nanda et al. 2023).

Which pairs it sees is a function of the seed, and each update sees all of them, so nothing random is left to save.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from txlab.engine.interpret.activation_cache import run_with_cache
from txlab.engine.interpret.sites import Text
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.gpt import GPT
from txlab.experiments.kinds.modular_addition.schema import STRONGEST, AdditionScenario
from txlab.experiments.learning.gradient import GradientExperiment, Measured
from txlab.experiments.protocol import Frame
from txlab.experiments.randomness import generator

SHOWN = 8  # likeliest signs that a frame keeps


@torch.no_grad()
def energies(numbers: Tensor) -> Tensor:
    """W (p, D) → the share of the energy in each frequency k = 1 … ⌊p/2⌋ along the numbers, the mean taken away.

    e(k) = ‖Σₐ W[a] exp(−2πi k a / p)‖², over its sum. k and p − k are the same wave, so only one of them is counted.
    """
    rows = numbers.double()
    waves = torch.fft.rfft(rows - rows.mean(0), dim=0)[1:]
    energy: Tensor = waves.abs().square().sum(1)
    return energy / energy.sum().clamp(min=1e-300)


class AdditionExperiment(GradientExperiment[GPT]):
    """See GradientExperiment; `seen` and `unseen` are (ids (n, 3), sums (n))."""

    scenario: AdditionScenario

    def __init__(self, scenario: AdditionScenario) -> None:
        self.shape = scenario.shape()
        super().__init__(scenario, lambda draws: GPT(self.shape, draws))
        p, n = scenario.data.modulus, scenario.data.pairs
        order = generator(scenario.seed, "pairs", 0).permutation(p * p)
        a, b = torch.from_numpy(order // p), torch.from_numpy(order % p)
        ids, sums = torch.stack([a, b, torch.full_like(a, p)], 1).to(self.device), ((a + b) % p).to(self.device)
        self.seen, self.unseen = (ids[:n], sums[:n]), (ids[n:], sums[n:])

    def judge(self, ids: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
        """(mean −ln p(sum), share of the pairs whose sum is the likeliest)"""
        logits = self.model(ids, self.how[0], last=True)[:, 0]  # (n, p + 1)
        return F.cross_entropy(logits, sums), (logits.argmax(-1) == sums).float().mean()

    def batch_of(self, update: int) -> tuple[Tensor, Tensor]:
        return self.seen

    def gradients_of(self, *batch: Tensor) -> Measured:
        loss, accuracy = self.judge(*batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": loss.detach(), "accuracy": accuracy}

    @property
    def numbers(self) -> Tensor:
        """The rows of W_E for numbers: (p, D)."""
        return self.model.embed.weight[: self.scenario.data.modulus]

    @torch.no_grad()
    def evaluate(self) -> Mapping[str, float | Tensor]:
        """{"val_loss", "val_accuracy"} on all pairs that are not learnt from; "fourier", see `energies`."""
        with self.quiet():
            loss, accuracy = self.judge(*self.unseen)
        strongest = energies(self.numbers).sort(descending=True).values[:STRONGEST]
        return {"val_loss": float(loss), "val_accuracy": float(accuracy), "fourier": float(strongest.sum())}

    @torch.no_grad()
    def frame(self) -> Frame:
        """Attention on one unseen pair, and curve/energy, see `energies`."""
        p, ids = self.scenario.data.modulus, self.unseen[0][0].tolist()
        with self.quiet():
            cache = run_with_cache(self.model, Text(tuple(ids)))
        probability, sign = cache.probabilities(slice(None)).topk(min(SHOWN, p + 1))  # (3, k)
        shown = {
            "attention/pattern": cache.patterns("self").half(),  # (L, H, 3, 3)
            "attention/query": cache.queries["self"],
            "attention/key": cache.keys["self"],
            "next/probability": probability,
            "curve/energy": energies(self.numbers),
        }
        a, b, _ = ids
        return Frame(
            self.step_count,
            {name: tensor.cpu() for name, tensor in shown.items()},
            tokens={"probe": [str(a), str(b), "="], "next": [self.sign(each) for each in sign.flatten().tolist()]},
            texts={"probe": f"{a} + {b} = {(a + b) % p}, taken for {self.sign(int(sign[-1, 0]))}"},
            facts={
                "mask": self.model.mask.name,
                "predicts": "next",
                "layers": self.shape.layers,
                "heads": self.shape.heads,
                "head_width": self.shape.head_width,
                "curve": {"x": "frequency", "y": "share of the energy", "from": 1},
            },
        )

    def sign(self, token: int) -> str:
        return str(token) if token < self.scenario.data.modulus else "="

    def facts(self) -> Mapping[str, Any]:
        cost, pairs = costs(self.shape), len(self.seen[0])
        return {
            "parameters": cost.parameters,
            "unit": "pairs",
            "units_per_step": pairs,
            "flops_per_step": cost.flops_per_token * 3 * pairs,
            **super().facts(),
            "classes": [self.sign(token) for token in range(self.shape.vocabulary)],
            "unseen": len(self.unseen[0]),
        }
