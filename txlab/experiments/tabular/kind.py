"""What the kinds that learn tables have in common: where they compute, what is fixed, and why a value is what it is.

Notable: a frame holds values, a policy and which world they are of, and the world is compiled again from that; so the
answer for a value is the Bellman equation over the values in the frame, and what is missing from it. The last update of
a learner is not in it: that one the arena asks the learner for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from txlab.engine.explain import Explanation
from txlab.engine.rl.why import Rule, why_value
from txlab.engine.rl.world import World
from txlab.errors import LabError, nearest
from txlab.experiments.kind import Kind
from txlab.experiments.protocol import Adjustable, Experiment, Frame, Sample
from txlab.experiments.schema import Compute
from txlab.experiments.tabular.world import WorldSection, with_its_map, world_of

FOR_NETWORKS = {"dtype": "float32", "attention": "matmul", "share": "operations", "compile": False}

OPTIMAL = ("value-iteration", "q-learning", "dyna-q", "double-q", "watkins-q-lambda")
"""Rules whose values are those of the best choice; those of the others are of the policy in the frame."""


class TabularKind(Kind):
    """any_device   whether it is computed elsewhere than by NumPy on the CPU, where the scenario says so"""

    any_device: ClassVar[bool] = False

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """The same scenario with [compute] as it is for tables, and the text of a map's file in its place.

        LabError for another device than the CPU, unless the kind has any.
        """
        compute: Compute = scenario.compute
        if not self.any_device and compute.device not in ("auto", "cpu"):
            raise LabError(
                f"compute.device = {compute.device!r}: {self.name} is computed on the CPU; allowed: auto, cpu"
            )
        # Most of [compute] is for networks. `auto` is the CPU: below 100 000 agents it is faster than a GPU's launches.
        chosen = {name: value for name, value in FOR_NETWORKS.items() if getattr(compute, name) == "auto"}
        chosen |= {"device": "cpu" if compute.device == "auto" else compute.device, "threads": compute.threads or 1}
        decided: dict[str, Any] = {"compute": compute.model_copy(update=chosen)}
        if hasattr(scenario, "world"):
            decided["world"] = with_its_map(scenario.world)
        return scenario.model_copy(update=decided)

    def build(self, scenario: Any) -> Experiment:
        """The experiment before its first step. LabError where a world, a rule or a device cannot be."""
        return self.experiment(self.resolve(scenario))

    def experiment(self, scenario: Any) -> Experiment:
        """The experiment of a scenario that leaves nothing open."""
        raise NotImplementedError

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """The Bellman equation over the values of the frame. LabError for what has none."""
        return explain_value(frame, tensor, index)


class TabularExperiment:
    """See protocol.Experiment: what most experiments with tables answer alike.

    fixed   why nothing can be changed while it runs, where `adjustable` is empty
    """

    fixed: ClassVar[str] = ""
    step_count = 0

    def verify(self) -> None:
        """NumPy refuses at once: nothing is told late."""

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
        """Set what is among `adjustable`."""


def world_facts(world: World, unit: str, headline: Sequence[str], units_per_step: int = 1) -> dict[str, Any]:
    """The facts of run.json that all experiments in a world have."""
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
    """Whether it is the name of values: "0/q" (S, A), "1/v" (S)."""
    side, _, name = tensor.partition("/")
    return side.isdecimal() and name in ("q", "v")


def explain_value(frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
    """Why `frame.tensors[tensor][index]` is what it is; index is (state,) of "0/v" and (state, action) of "0/q".

    LabError where the frame does not say which world it is of, or where there is no such number.
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
    """Whose values they are: of the best choice, or of the policy in the frame; of ε-soft ones that policy."""
    policy = frame.tensors.get(f"{number}/policy")
    planned_soft = "sweep" in side and side.get("epsilon")
    if policy is None or (side.get("rule") in OPTIMAL and not planned_soft):
        return "optimal"
    shares = np.asarray(policy, dtype=np.float64)
    normal: np.ndarray = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    return normal


def world_in(frame: Frame) -> World:
    """The world of a frame, compiled again; the last few are kept."""
    return _world(json.dumps(frame.facts["world"], sort_keys=True))


@lru_cache(maxsize=4)
def _world(section: str) -> World:
    return world_of(WorldSection.model_validate_json(section), by_stepping=True)
