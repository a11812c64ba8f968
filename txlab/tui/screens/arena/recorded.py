"""Recorded decision runs in the arena: planning, prediction and control, finished or still growing.

The world of a run is rebuilt from the [world] table in its frames, once for each table, in the thread that reads.

Notable: a run may have rules that the arena lacks. When it is continued by hand, planning becomes value iteration, a
prediction-only rule becomes TD(λ) with the traces it had, and a parameter that a learner cannot have keeps its
default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from txlab.drawing.text import visible
from txlab.engine.explain import Explanation
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.world import World
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.tui.screens.arena.learners import ReturnCurves, describe_side
from txlab.tui.screens.arena.parameters import PLANNED

if TYPE_CHECKING:
    from txlab.runs.reader import RunReader

MOST_WORLDS = 8
MOST_SIDES = 4
INSTEAD = ("delta", "value_start")  # recorded by planning instead of returns
NUMBERS = ("alpha", "beta", "lam", "n", "planning", "gamma", "epsilon", "temperature", "decay")
PREDICTED: dict[str, dict[str, Any]] = {
    "td-0": {"lam": 0.0},
    "accumulating": {"traces": "accumulating"},
    "replacing": {"traces": "replacing"},
    "true-online": {"traces": "true-online"},
}
"""Prediction rules, and their equivalents in TD(λ)."""


class RecordedWorlds:
    """The worlds of recorded frames, cached by table."""

    def __init__(self) -> None:
        self.worlds: dict[str, World] = {}

    def world_of(self, frame: Frame) -> World:
        """Return the world of a frame's [world] table; raises LabError if it describes none."""
        table = frame.facts.get("world")
        if not isinstance(table, dict):
            raise LabError("the frames of this run do not say in which world it learns")
        key = json.dumps(table, sort_keys=True, default=str)
        if key not in self.worlds:
            if len(self.worlds) >= MOST_WORLDS:
                self.worlds.clear()
            self.worlds[key] = world_from(table)
        world = self.worlds[key]
        values = frame.tensors.get("0/v", frame.tensors.get("0/q"))
        if values is not None and len(values) != world.process.size:
            raise LabError(f"the frame has {len(values)} states and its world {world.process.size}")
        return world


def world_from(table: dict[str, Any]) -> World:
    """Build the world of a [world] table; LabError names what is wrong with it."""
    from pydantic import ValidationError

    from txlab.experiments.tabular.world import WorldSection, world_of

    try:
        section = WorldSection.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise LabError(f"world{'.' if where else ''}{visible(where)}: {visible(str(first['msg']))[:200]}") from None
    return world_of(section, by_stepping=True)


def curves_of_run(reader: RunReader, frame: Frame) -> tuple[ReturnCurves, ...]:
    """Return the headline curves of a run for each side, by the label in the metric names: the family of its headline,
    as return/… or left/…; if it has neither that nor returns, the first of INSTEAD."""
    sides = frame.facts.get("sides")
    names = reader.names()
    about = reader.info.facts
    headline = about.get("headline")
    families = [str(each).partition("/")[0] for each in headline if "/" in str(each)] if type(headline) is list else []
    family = families[0] if families else ""
    across = {"episodes": "episode", "sweeps": "sweep", "rollouts": "rollout"}.get(str(about.get("unit")), "step")
    nothing = np.empty(0)

    def other(name: str, label: str) -> ReturnCurves:
        series = reader.series(name)
        return ReturnCurves(series.steps, series.values, 1, nothing, nothing, label=label, across=across)

    curves_found: list[ReturnCurves] = []
    for side in sides if isinstance(sides, (list, tuple)) else ():
        facts = side if isinstance(side, dict) else {}
        labels = [str(facts.get(key)) for key in ("label", "rule", "title") if facts.get(key)]
        label = next((label for label in labels if f"{family}/{label}" in names), "")
        if label and family != "return":
            curves_found.append(other(f"{family}/{label}", family))
            continue
        label = next((label for label in labels if f"return/{label}" in names), "")
        if label:
            series, greedy = reader.series(f"return/{label}"), reader.series(f"greedy/{label}")
            low, high = (reader.series(f"return_{edge}/{label}").values for edge in ("low", "high"))
            banded = len(low) == len(high) == len(series)
            curves = ReturnCurves(series.steps, series.values, 1, greedy.steps, greedy.values, across=across)
            curves_found.append(replace(curves, low=low, high=high) if banded else curves)
            continue
        kept = [f"rms/{label}" for label in labels] + list(INSTEAD) + [name for name in names if name.startswith("rms")]
        name = next((name for name in kept if name in names), "")
        curves_found.append(
            other(name, name) if name and not curves_found else ReturnCurves(nothing, nothing, 1, nothing, nothing)
        )
    return tuple(curves_found)


def explain_frame(frame: Frame, side: int, state: int) -> Explanation:
    """Explain V(state), else the best Q(state, a), of a recorded frame by the frame's own numbers."""
    from txlab.experiments.kind import kind_named

    explain = kind_named("prediction" if "true/v" in frame.tensors else "mdp-control").explain_frame
    if f"{side}/q" in frame.tensors and "sweep" not in describe_side(frame.facts, side):
        row = np.asarray(frame.tensors[f"{side}/q"], np.float64)[state]
        if not np.isnan(row).all():
            return explain(frame, f"{side}/q", (state, int(np.nanargmax(row))))
    return explain(frame, f"{side}/v", (state,))


# Continuing a run by hand.


def learners_of(facts: Mapping[str, Any]) -> tuple[list[Settings], str]:
    """Return the settings of the sides in a frame, and a sentence about differences here.

    Raises LabError if there are none.
    """
    sides = [side for side in facts.get("sides") or () if isinstance(side, Mapping)]
    if not sides:
        raise LabError("this run does not name its learners")
    settings_of: list[Settings] = []
    others: list[str] = []
    for side in sides:
        settings, same = learner_of(side)
        if settings not in settings_of:
            settings_of.append(settings)
        if not same:
            others.append(visible(str(side.get("title") or side.get("rule")))[:40])
    note = f"; the arena's learner instead of {', '.join(dict.fromkeys(others))}" if others else ""
    if len(settings_of) > MOST_SIDES:
        note += f"; the first {MOST_SIDES} of its {len(settings_of)} learners"
    return settings_of[:MOST_SIDES], note


def learner_of(side: Mapping[str, Any]) -> tuple[Settings, bool]:
    """Return the side of a frame as a learner of the arena, and whether its rule is the same."""
    from txlab.engine.rl.rules import rule_named, rule_names

    rule = str(side.get("rule"))
    if rule in PLANNED or "sweep" in side:
        gamma = side.get("gamma")
        planner = Settings(
            rule if rule in rule_names() else "value-iteration",
            gamma=float(gamma) if isinstance(gamma, (int, float)) else None,
        )
        return rule_named(planner.rule).check_settings(planner), rule == planner.rule
    known = rule in rule_names()
    same, settings = known or rule in PREDICTED, Settings(rule if known else "td-lambda")
    wanted: dict[str, Any] = {name: float(side[name]) for name in NUMBERS if isinstance(side.get(name), (int, float))}
    wanted |= {name: side[name] for name in ("policy", "traces") if isinstance(side.get(name), str)}
    wanted |= PREDICTED.get(rule, {})
    for name, value in wanted.items():
        try:
            settings = rule_named(settings.rule).check_settings(replace(settings, **{name: value}))
        except LabError:
            continue  # a parameter that this rule lacks
    return settings, same
