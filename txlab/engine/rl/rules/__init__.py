"""What a rule is, and how rules are found (MATH M2, M4–M7).

Every module of this folder has its rules as objects, in `RULES`. An installed distribution adds one by an entry point
of the group `txlab.rules`, "module:object"; these are only read when a name is not built in, or when all are listed.
Two loops take what they learn from the same object: the glass box (`agent`: plain lists, one learner that can be taken
apart) and the sweep (`learn` or `teach`: arrays over thousands of learners).
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, ClassVar

from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.engine.rl.agent import Agent
    from txlab.engine.rl.sweeps.arrays import Array
    from txlab.engine.rl.sweeps.block import AgentBlock, Trail
    from txlab.engine.rl.sweeps.tables import BatchTransition, StepState

ENTRY_POINTS = "txlab.rules"


class Rule:
    """All that is said of a rule, once; a subclass says how it learns.

    parameters        which of `Settings` mean something to it beside γ; "policy" stands for ε, or for τ
    traces            which kinds of eligibility traces it may have; none = it has no traces
    steers            whether it chooses the actions; else it learns what a policy, or the world, is worth
    exploring_starts  whether it may begin its episodes with any action
    ahead             whether the action in s′ is chosen before the update, and then taken
    off_policy        whether it learns of another policy than the one that it acts by

    For a sweep: `tables` that it keeps, by name (the policy chooses from "q", or from "q" + "q2"); `coin`, whether it
    draws on its own; `prefers`, whether the table holds preferences: actions are drawn from their softmax, and
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
        """What one step teaches the agents of a block."""
        raise NotImplementedError(f"the rule {self.name} has no form for arrays")

    def teach(self, block: AgentBlock, trail: Trail, lengths: Array) -> None:
        """What a whole episode, which took `lengths` (n) steps, teaches the agents of a block."""
        raise NotImplementedError(f"the rule {self.name} does not learn from whole episodes")

    @property
    def learns_each_step(self) -> bool:
        return type(self).learn is not Rule.learn

    @property
    def has_array_form(self) -> bool:
        """Whether thousands of its agents are learnt at once; else they are glass boxes, one by one."""
        return self.learns_each_step or type(self).teach is not Rule.teach

    def numbers(self, policy: str = "epsilon-greedy") -> tuple[str, ...]:
        """The names of the numbers in `Settings` that mean something with this policy, γ aside."""
        chosen = {"softmax": ("temperature",), "greedy": (), "exploring-starts": ()}.get(policy, ("epsilon",))
        return tuple(one for name in self.parameters for one in (chosen if name == "policy" else (name,)))


@cache
def built_in() -> dict[str, Rule]:
    """The rules of this folder by name, SARSA and its kin first."""
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    modules.sort(key=lambda module: getattr(module, "ORDER", 99))
    return {rule.name: rule for module in modules for rule in module.RULES}


@cache
def installed() -> dict[str, EntryPoint]:
    """Those that other distributions declare; importing one waits until it is asked for."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def rule_names() -> tuple[str, ...]:
    """All that there are: those of this folder, then those of other distributions."""
    return tuple(dict.fromkeys([*built_in(), *installed()]))


@cache
def rule_named(name: str) -> Rule:
    """LabError where there is none, with the nearest name and all names, or where a distribution's is not a rule."""
    if name in built_in():
        return built_in()[name]
    if name not in installed():
        names = rule_names()
        raise LabError(f"no rule is called {name!r}{nearest(name, names)}; allowed are {', '.join(names)}")
    point = installed()[name]
    try:
        rule = point.load()
    except Exception as error:
        raise LabError(f"the rule {name!r} of {point.value!r} cannot be imported: {error}") from error
    if not isinstance(rule, Rule) or rule.name != name:
        raise LabError(f"the entry point {name} = {point.value!r} of {ENTRY_POINTS} is not a rule of that name")
    return rule
