"""What the tabular kinds share: where they compute, what is fixed, and explanations of values.

A frame holds values, a policy and the table of their world, from which the world is compiled again; so a value is
explained by the Bellman equation over the values in the frame, and by its residual. For the last update of a learner
the arena asks the learner itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from txlab.engine.explain import Explanation
from txlab.engine.rl.rules import rule_named, rule_names
from txlab.engine.rl.why import Rule, why_value
from txlab.engine.rl.world import World
from txlab.errors import LabError, nearest
from txlab.experiments.kind import Kind
from txlab.experiments.protocol import Adjustable, Experiment, Frame, Sample
from txlab.experiments.schema import Compute
from txlab.experiments.tabular.world import WorldSection, with_its_map, world_of

FOR_NETWORKS = {"dtype": "float32", "attention": "matmul", "share": "operations", "compile": False, "graphs": False}


class TabularKind(Kind):
    """any_device   whether the scenario may ask for something other than NumPy on the CPU"""

    any_device: ClassVar[bool] = False

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """Return the scenario with [compute] as it is for tables, and with a map's file replaced by its text.

        LabError for a device other than the CPU, unless `any_device`.
        """
        compute: Compute = scenario.compute
        if not self.any_device and compute.device not in ("auto", "cpu"):
            raise LabError(
                f"compute.device = {compute.device!r}: {self.name} is computed on the CPU; allowed: auto, cpu"
            )
        # Most of [compute] is for networks. `auto` is the CPU, which is faster than a GPU below 100 000 agents.
        chosen = {name: value for name, value in FOR_NETWORKS.items() if getattr(compute, name) == "auto"}
        chosen |= {"device": "cpu" if compute.device == "auto" else compute.device, "threads": compute.threads or 1}
        decided: dict[str, Any] = {"compute": compute.model_copy(update=chosen)}
        if hasattr(scenario, "world"):
            decided["world"] = with_its_map(scenario.world)
        return scenario.model_copy(update=decided)

    def build(self, scenario: Any) -> Experiment:
        """The experiment before its first step. LabError for an impossible world, rule or device."""
        return self.experiment(self.resolve(scenario))

    def experiment(self, scenario: Any) -> Experiment:
        """The experiment of a scenario that leaves nothing open."""
        raise NotImplementedError

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """The Bellman equation over the values of the frame. LabError if `tensor` has none."""
        return explain_value(frame, tensor, index)


class TabularExperiment:
    """Default answers of tabular experiments; see protocol.Experiment.

    fixed   why nothing can be changed while it runs, if `adjustable` is empty
    """

    fixed: ClassVar[str] = ""
    step_count = 0

    def verify(self) -> None:
        """Do nothing: NumPy reports errors at once."""

    def evaluate(self) -> Mapping[str, float]:
        return {}

    def samples(self) -> Sequence[Sample]:
        return ()

    def adjustable(self) -> Mapping[str, Adjustable]:
        return {}

    def adjust(self, name: str, value: float) -> None:
        known = self.adjustable()
        if not known:
            raise LabError(f"{name!r} cannot be changed {self.fixed}")
        if name not in known:
            raise LabError(f"{name!r} cannot be changed{nearest(name, known)}; allowed: {', '.join(known)}")
        self.change(name, value)

    def change(self, name: str, value: float) -> None:
        """Set one of the `adjustable` parameters."""


def world_facts(world: World, unit: str, headline: Sequence[str], units_per_step: int = 1) -> dict[str, Any]:
    """The facts of run.json that all experiments in a world share."""
    return {
        "unit": unit,
        "units_per_step": units_per_step,
        "states": world.process.size,
        "world": world.title,
        "notes": list(world.notes),
        "headline": list(headline),
        "compute": {"device": "cpu", "dtype": "float64"},
    }


def world_row(section: WorldSection) -> tuple[str, str]:
    """The row of an outline that names the world."""
    return "World", section.name or section.file or "a map of its own"


def is_value(tensor: str) -> bool:
    """Whether a tensor holds values: "0/q" (S, A), "1/v" (S)."""
    side, _, name = tensor.partition("/")
    return side.isdecimal() and name in ("q", "v")


def explain_value(frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
    """Explain `frame.tensors[tensor][index]`; index is (state,) for "0/v" and (state, action) for "0/q".

    LabError if the frame does not name its world, or there is no such number.
    """
    if not is_value(tensor) or tensor not in frame.tensors:
        raise LabError(f"{tensor} holds no values in this frame")
    side_number, _, name = tensor.partition("/")
    sides = frame.facts.get("sides", [])
    if "world" not in frame.facts or int(side_number) >= len(sides):
        raise LabError("this frame does not say which world its values are of")
    side = sides[int(side_number)]
    world = world_in(frame)
    if world.environment is not None:
        raise LabError(f"{world.title} does not tell its probabilities, so there is no sum to hold this number against")
    shown = np.asarray(frame.tensors[tensor], dtype=np.float64)
    action = int(index[1]) if name == "q" else None
    if "sweep" in side and name == "q":  # dynamic programming: its Q is one backup of its V
        shown = np.asarray(frame.tensors[f"{side_number}/v"], dtype=np.float64)
    if len(shown) != world.process.size:
        raise LabError(f"the frame has values for {len(shown)} states, and its world has {world.process.size}")
    return why_value(world.process, shown, int(index[0]), action, side.get("gamma"), rule_of(frame, side_number, side))


def rule_of(frame: Frame, number: str, side: Mapping[str, Any]) -> Rule:
    """The policy that the values are of: "optimal", or the one in the frame, as for planned ε-soft policies."""
    policy = frame.tensors.get(f"{number}/policy")
    planned_soft = "sweep" in side and side.get("epsilon")
    if policy is None or (off_policy(side.get("rule")) and not planned_soft):
        return "optimal"
    shares = np.asarray(policy, dtype=np.float64)
    normal: np.ndarray = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    return normal


def off_policy(rule: Any) -> bool:
    """Whether the values of this rule are those of the greedy policy, and not of the one in the frame."""
    return rule in rule_names() and rule_named(rule).off_policy


def world_in(frame: Frame) -> World:
    """The world of a frame, compiled again; the last few are cached."""
    return _world(json.dumps(frame.facts["world"], sort_keys=True))


@lru_cache(maxsize=4)
def _world(section: str) -> World:
    return world_of(WorldSection.model_validate_json(section), by_stepping=True)
