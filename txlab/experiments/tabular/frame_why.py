"""Why a value in a frame of decisions is what it is, where no learner is alive that could be asked (MATH M1, M2).

Notable: a frame holds values, a policy and which world they are of, and the world is compiled again from that; so the
answer is the Bellman equation over the values in the frame, and what is missing from it. The last update of a learner
is not in it: that one the arena asks the learner for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from txlab.engine.explain import Explanation
from txlab.engine.rl.why import Rule, why_value
from txlab.engine.rl.world import World
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.experiments.tabular.world import WorldSection, world_of

OPTIMAL = ("value-iteration", "q-learning", "dyna-q", "double-q", "watkins-q-lambda")
"""Rules whose values are those of the best choice; those of the others are of the policy in the frame."""


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
