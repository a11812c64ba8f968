"""TD(λ) with a network instead of the linear unit, for a batch of networks (MATH M4).

    δ = r + γ O(s′) − O(s),   e ← γλ e + ∂O(s)/∂w,   w ← w + α δ e

Each parameter has a trace of the same shape. N networks are one set of tensors with N rows; as they share
nothing, the gradient of the sum of their outputs gives the gradient of each. O(s′) is not differentiated, as usual in
TD. This file imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from txlab.engine.rl.features import Features
from txlab.engine.rl.prediction_sweep import PredictionSettings, rms_error
from txlab.engine.rl.rollouts import Episodes

Parameters = dict[str, Tensor]


def perceptron(width: int, hidden: int, generator: torch.Generator) -> nn.Module:
    """O(s) = w₂ · tanh(W₁ x + b₁) + b₂; without hidden units just w · x. Uniform in ±1/√(inputs); float64."""
    if not hidden:
        layers: list[nn.Module] = [nn.Linear(width, 1, bias=False)]
    else:
        layers = [nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, 1)]
    module = nn.Sequential(*layers).double()
    with torch.no_grad():
        for layer in module:
            if isinstance(layer, nn.Linear):
                bound = layer.in_features**-0.5
                for parameter in layer.parameters():
                    parameter.uniform_(-bound, bound, generator=generator)
    return module


class NetworkTD:
    """N networks of one shape, each with its own weights, traces, α and λ.

    parameters, traces   name → (N, …)      alphas, lams (N)
    """

    def __init__(
        self, modules: Sequence[nn.Module], alphas: Sequence[float], lams: Sequence[float], gamma: float
    ) -> None:
        stacked, _ = torch.func.stack_module_state(list(modules))  # type: ignore[arg-type]
        self.parameters: Parameters = {name: value.detach().clone() for name, value in stacked.items()}
        dtype = next(iter(self.parameters.values())).dtype
        self.alphas, self.lams = torch.tensor(alphas, dtype=dtype), torch.tensor(lams, dtype=dtype)
        self.gamma = gamma
        self._one = modules[0]
        self._outputs: Callable[..., Tensor] = torch.vmap(self._output)
        self.begin()

    def _output(self, parameters: Parameters, x: Tensor) -> Tensor:
        output: Tensor = torch.func.functional_call(self._one, parameters, (x,))
        return output.squeeze(-1)

    def begin(self) -> None:
        """Begin an episode: clear the traces."""
        self.traces = {name: torch.zeros_like(value) for name, value in self.parameters.items()}

    def values(self, x: Tensor) -> Tensor:
        """O: x (N, D) → (N), or (N, S, D) → (N, S)."""
        with torch.no_grad():
            return self._outputs(self.parameters, x)

    def gradients(self, x: Tensor) -> tuple[Tensor, Parameters]:
        """O(x) (N), and ∂O/∂w, name → (N, …)."""
        leaves = {name: value.detach().requires_grad_() for name, value in self.parameters.items()}
        outputs = self._outputs(leaves, x)
        slopes = torch.autograd.grad(outputs.sum(), list(leaves.values()))
        return outputs.detach(), dict(zip(leaves, slopes, strict=True))

    def learn(self, x: Tensor, reward: Tensor, following: Tensor, ended: Tensor, alive: Tensor | None = None) -> Tensor:
        """Learn from one transition of each: x, following (N, D), reward (N), ended (N) bool; return δ (N).

        Networks that are not `alive` (N) bool, because their episode is over, are not changed.
        """
        there = self.values(following).masked_fill(ended, 0.0)
        here, gradient = self.gradients(x)
        delta = reward + self.gamma * there - here
        for name, parameter in self.parameters.items():
            self.traces[name] = _rows(self.gamma * self.lams, parameter) * self.traces[name] + gradient[name]
            change = _rows(self.alphas * delta, parameter) * self.traces[name]
            if alive is not None:
                change = torch.where(_rows(alive, parameter), change, 0.0)
            parameter += change
        return delta

    def offline(self, x: Tensor, rewards: Tensor, ended: bool) -> Parameters:
        """Σₜ δₜ eₜ of one episode with w fixed: x (T + 1, D), rewards (T), the same for every network. Returns (N, …).

        With λ = 1 and γ = 1 this is −∂/∂w ½ Σₜ (Gₜ − O(sₜ))²: Monte Carlo.
        """
        N = len(self.alphas)
        self.begin()
        change = {name: torch.zeros_like(value) for name, value in self.parameters.items()}
        for t, reward in enumerate(rewards):
            last = torch.full((N,), ended and t == len(rewards) - 1)
            there = self.values(x[t + 1].expand(N, -1)).masked_fill(last, 0.0)
            here, gradient = self.gradients(x[t].expand(N, -1))
            delta = reward + self.gamma * there - here
            for name, trace in self.traces.items():
                self.traces[name] = _rows(self.gamma * self.lams, trace) * trace + gradient[name]
                change[name] += _rows(delta, trace) * self.traces[name]
        return change


def _rows(numbers: Tensor, like: Tensor) -> Tensor:
    """(N) → (N, 1, …), to broadcast with a parameter."""
    return numbers.view(-1, *[1] * (like.dim() - 1))


class NetworkSweep:
    """M runs × K settings of a network, with the interface of PredictionSweep; network m·K + k is run m, setting k.

    The networks of a run start with the same weights under every setting, drawn from its seed in `seeds` (M).
    """

    def __init__(self, features: Features, seeds: np.ndarray, settings: PredictionSettings, hidden: int) -> None:
        M, K = len(seeds), len(settings.alphas)
        modules = [
            module
            for seed in seeds
            for module in [perceptron(features.size, hidden, torch.Generator().manual_seed(int(seed)))] * K
        ]
        alphas, lams = np.tile(settings.alphas, M).tolist(), np.tile(settings.depths, M).tolist()
        self.features, self.runs, self.many = features, M, K
        self.learner = NetworkTD(modules, alphas, lams, settings.gamma)
        self._rows = torch.from_numpy(features.matrix)

    def learn(self, episodes: Episodes) -> None:
        """Learn on-line from one episode of every run."""
        self.learner.begin()
        K = self.many
        lengths = np.repeat(episodes.lengths, K)
        for t in range(int(episodes.lengths.max())):
            alive = lengths > t
            ended = np.repeat(episodes.ended & (episodes.lengths == t + 1), K)
            here, there = (self._rows[np.repeat(episodes.states[:, at], K)] for at in (t, t + 1))
            reward = torch.from_numpy(np.repeat(episodes.rewards[:, t], K))
            self.learner.learn(here, reward, there, torch.from_numpy(ended), torch.from_numpy(alive))

    def values(self) -> np.ndarray:
        """(M, S, K): the estimated values."""
        values = self.learner.values(self._rows.expand(self.runs * self.many, -1, -1))  # (M·K, S)
        return values.numpy().reshape(self.runs, self.many, -1).swapaxes(1, 2)

    def rms_error(self, true: np.ndarray, states: np.ndarray) -> np.ndarray:
        """(M, K), as in PredictionSweep."""
        return rms_error(self.values(), true, states)

    def state(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.learner.parameters.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.learner.parameters = {name: torch.as_tensor(value).clone() for name, value in state.items()}
