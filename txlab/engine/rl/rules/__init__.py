"""What a rule is, and how rules are found (MATH M2, M4–M7).

Every module of this folder lists its rules as objects in `RULES`. An installed distribution adds one by an entry point
of the group `txlab.rules`, "module:object"; entry points are read only when a name is not built in, or to list all.
Two loops use the same rule objects: the glass box (`agent`: plain lists, one learner that can be taken apart) and the
sweep (`learn` or `teach`: arrays over thousands of learners).
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from txlab.errors import LabError, choices
from txlab.plugins import load_plugin, plugins

if TYPE_CHECKING:
    from txlab.engine.rl.agent import Agent
    from txlab.engine.rl.sweeps.arrays import Array
    from txlab.engine.rl.sweeps.block import AgentBlock, Trail
    from txlab.engine.rl.sweeps.tables import BatchTransition, StepState

ENTRY_POINTS = "txlab.rules"


class Rule:
    """The properties of a rule; a subclass says how it learns.

    parameters        which of `Settings` it uses besides γ; "policy" stands for ε or τ
    traces            which kinds of eligibility traces it supports; empty = it has no traces
    steers            whether it chooses the actions; if not, it learns the values of a given policy or of the world
    exploring_starts  whether it may begin its episodes with any action
    ahead             whether the action in s′ is chosen before the update, and then taken
    off_policy        whether it learns about a policy other than the one it follows

    For a sweep: `tables` that it keeps, by name (the policy chooses from "q", or from "q" + "q2"); `coin`, whether it
    uses a draw of its own; `prefers`, whether the table holds preferences: actions are drawn from their softmax, and
    `observation` is all that it sees.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    equation: ClassVar[str]
    math: ClassVar[str]
    source: ClassVar[str]
    agent: ClassVar[type[Agent]]
    parameters: ClassVar[tuple[str, ...]] = ("alpha", "policy")
    traces: ClassVar[tuple[str, ...]] = ()
    steers: ClassVar[bool] = True
    exploring_starts: ClassVar[bool] = False
    ahead: ClassVar[bool] = False
    off_policy: ClassVar[bool] = False
    tables: ClassVar[tuple[str, ...]] = ("q",)
    coin: ClassVar[bool] = False
    prefers: ClassVar[bool] = False

    def learn(self, now: StepState, step: BatchTransition) -> None:
        """Update the agents of a block after one step."""
        raise NotImplementedError(f"the rule {self.name} has no form for arrays")

    def teach(self, block: AgentBlock, trail: Trail, lengths: Array) -> None:
        """Update the agents of a block after a whole episode of `lengths` (n) steps."""
        raise NotImplementedError(f"the rule {self.name} does not learn from whole episodes")

    @property
    def learns_each_step(self) -> bool:
        return type(self).learn is not Rule.learn

    @property
    def has_array_form(self) -> bool:
        """Whether thousands of its agents can learn at once; otherwise each runs as a glass box."""
        return self.learns_each_step or type(self).teach is not Rule.teach

    def numbers(self, policy: str = "epsilon-greedy") -> tuple[str, ...]:
        """The names of the numbers in `Settings` that have an effect with this policy, apart from γ."""
        chosen = {"softmax": ("temperature",), "greedy": (), "exploring-starts": ()}.get(policy, ("epsilon",))
        return tuple(one for name in self.parameters for one in (chosen if name == "policy" else (name,)))


@cache
def built_in() -> dict[str, Rule]:
    """The rules of this folder by name, SARSA and its relatives first."""
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    modules.sort(key=lambda module: getattr(module, "ORDER", 99))
    return {rule.name: rule for module in modules for rule in module.RULES}


def rule_names() -> tuple[str, ...]:
    """The names of all rules: those of this folder, then those of other distributions."""
    return tuple(dict.fromkeys([*built_in(), *plugins(ENTRY_POINTS)]))


@cache
def rule_named(name: str) -> Rule:
    """The rule of that name. LabError with the nearest and all names if there is none, or if it is not a rule."""
    if name in built_in():
        return built_in()[name]
    installed = plugins(ENTRY_POINTS)
    if name not in installed:
        names = rule_names()
        raise LabError(f"no rule is called {name!r}{choices(name, names)}")
    rule = load_plugin(installed[name], Rule)
    if rule.name != name:
        raise LabError(f"the rule {name!r} of {installed[name].value!r} calls itself {rule.name!r}")
    return rule
