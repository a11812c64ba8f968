"""Action values as a table, a linear unit or a network, and the loop that trains any of them (MATH M4–M6).

    δ = r + γ target(s′) − Q(s,a);   e ← e + ∇Q(s,a);   w ← w + α δ e;   e ← γ λ e

Notable: nothing here enumerates states. A state is any value that the world uses (a number, a position of a game), and
`encode` turns it into the input of the values: a key of a table, or a vector of features. The target is not
differentiated: semi-gradient. Every one-step or trace rule works with every form; on a table this is the glass box's
own arithmetic at a tenth of its speed, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from txlab.engine.rl.draws import Draws
from txlab.engine.rl.policies import Exploration, choose_action, exploring
from txlab.engine.rl.rules import rule_named
from txlab.engine.rl.rules.one_step import OneStepRule
from txlab.engine.rl.rules.with_traces import TraceRule
from txlab.engine.rl.settings import Settings
from txlab.errors import LabError

if TYPE_CHECKING:
    from torch import nn


class Values(Protocol):
    """Q(s, ·) of an encoded state x; `begin` clears the traces."""

    def begin(self) -> None: ...

    def row(self, x: Any) -> list[float]:
        """Q(s, a) of every action."""

    def learn(self, x: Any, a: int, change: float, fade: float, replacing: bool) -> None:
        """e ← e + ∇Q(s,a), or replacing;  w ← w + change · e;  e ← fade · e, where change = α δ and fade = γ λ."""


class Table:
    """One row per visited state; x is any key."""

    def __init__(self, actions: int, initial: float = 0.0) -> None:
        self.actions, self.initial = actions, initial
        self.rows: dict[Hashable, list[float]] = {}
        self.begin()

    def begin(self) -> None:
        self.traces: dict[tuple[Hashable, int], float] = {}

    def row(self, x: Hashable) -> list[float]:
        return self.rows.setdefault(x, [self.initial] * self.actions)

    def learn(self, x: Hashable, a: int, change: float, fade: float, replacing: bool) -> None:
        e = self.traces
        e[x, a] = 1.0 if replacing else e.get((x, a), 0.0) + 1.0
        for pair, share in e.items():
            self.rows[pair[0]][pair[1]] += change * share
            e[pair] = fade * share
        if not fade:
            e.clear()


class LinearValues:
    """Q(s, a) = w(a) · x(s): weights and traces (A, D). A replacing trace is x(s) where x(s) is not 0."""

    def __init__(self, actions: int, features: int, initial: float = 0.0) -> None:
        self.weights = np.full((actions, features), initial)
        self.begin()

    def begin(self) -> None:
        self.traces = np.zeros_like(self.weights)

    def row(self, x: np.ndarray) -> list[float]:
        values: list[float] = (self.weights @ x).tolist()
        return values

    def learn(self, x: np.ndarray, a: int, change: float, fade: float, replacing: bool) -> None:
        self.traces[a] = np.where(x != 0, x, self.traces[a]) if replacing else self.traces[a] + x
        self.weights += change * self.traces
        self.traces *= fade


class NetworkValues:
    """A torch module x (D) → (A); each parameter has a trace of its own shape, which accumulates."""

    def __init__(self, module: nn.Module) -> None:
        import torch

        self.torch, self.module = torch, module
        self.parameters = list(module.parameters())
        self.dtype = self.parameters[0].dtype
        self.begin()

    def begin(self) -> None:
        self.traces = [self.torch.zeros_like(each) for each in self.parameters]

    def row(self, x: np.ndarray) -> list[float]:
        with self.torch.no_grad():
            values: list[float] = self.module(self.torch.as_tensor(x, dtype=self.dtype)).tolist()
        return values

    def learn(self, x: np.ndarray, a: int, change: float, fade: float, replacing: bool) -> None:
        if replacing and fade:
            raise LabError("the traces of a network accumulate; replacing ones are of a table or of features 0 and 1")
        value = self.module(self.torch.as_tensor(x, dtype=self.dtype))[a]
        with self.torch.no_grad():
            for parameter, e, gradient in zip(
                self.parameters, self.traces, self.torch.autograd.grad(value, self.parameters), strict=True
            ):
                e.add_(gradient)
                parameter.add_(change * e)
                e.mul_(fade)


class Walk(Protocol):
    """A world that can be stepped; every action is allowed everywhere, and a state may be any object."""

    @property
    def discount(self) -> float: ...
    def reset(self, u: float) -> Any: ...
    def step(self, action: int) -> tuple[Any, float, bool, bool]:
        """(next state, reward, terminated, truncated), as in Environment."""


class ValueLearner:
    """A one-step or trace rule in a world, with values of any form; it uses draws as the glass box does.

    returns   the returns of finished episodes      delta   δ of the last update
    """

    def __init__(
        self, world: Walk, values: Values, encode: Callable[[Any], Any], settings: Settings, seed: int = 0
    ) -> None:
        rule = rule_named(settings.rule)
        if not isinstance(rule, OneStepRule | TraceRule) or not rule.runs_on_values:
            raise LabError(f"{rule.title} keeps tables of its own; values of other forms need a rule of one step")
        self.rule, self.settings = rule, rule.check_settings(settings)
        self.world, self.values, self.encode, self.seed = world, values, encode, seed
        self.updates, self.total, self.delta = 0, 0.0, 0.0
        self.returns: list[float] = []
        self.pending = -1  # the action already chosen for the present state
        self.state = world.reset(Draws(seed, -1, 1).u3[0])

    @property
    def exploration(self) -> Exploration:
        return exploring(self.settings, len(self.returns))

    def run(self, steps: int) -> None:
        settings, values, world, rule = self.settings, self.values, self.world, self.rule
        traced = isinstance(rule, TraceRule)
        target = rule.one_step.target if isinstance(rule, TraceRule) else rule.target
        gamma = world.discount if settings.gamma is None else settings.gamma
        draws, exploration = Draws(self.seed, self.updates, steps + 1), self.exploration
        for t in range(steps):
            x = self.encode(self.state)
            row = values.row(x)
            a = self.pending if self.pending >= 0 else choose_action(row, exploration, draws.u0[t], draws.u1[t])
            self.state, reward, terminated, truncated = world.step(a)
            value, fade, self.pending = 0.0, gamma * settings.lam if traced else 0.0, -1
            if not terminated:
                after = values.row(self.encode(self.state))
                best = max(after)
                if rule.ahead:
                    self.pending = choose_action(after, exploration, draws.u0[t + 1], draws.u1[t + 1])
                    if rule.off_policy and after[self.pending] != best:
                        fade = 0.0
                value = target(after, best, self.pending, exploration)
            self.delta = delta = reward + gamma * value - row[a]
            values.learn(x, a, settings.alpha * delta, fade, traced and settings.traces == "replacing")
            self.total += reward
            if terminated or truncated:
                values.begin()
                self.returns.append(self.total)
                self.total, self.pending = 0.0, -1
                self.state, exploration = world.reset(draws.u3[t]), self.exploration
        self.updates += steps
