"""The explanation of a value in a frame: the Bellman equation over the neighbouring values, and its residual.

A frame holds values, a policy and the table of their world, from which the world is recompiled. For the last update of
a learner the arena asks the learner itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from txlab.engine.explain import Explanation
from txlab.engine.rl.rules import rule_named, rule_names
from txlab.engine.rl.why import Rule, why_value
from txlab.engine.rl.world import World
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.experiments.tabular.world import WorldSection, world_of


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
    """The policy of the values: "optimal", or the one in the frame, as for planned ε-soft policies."""
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
