"""Recorded runs of decisions in the arena: planning, prediction and control, finished or still growing.

Notable: the world of a run is made again from the [world] table that its frames carry, once for each table, in the
thread that reads. A run of another kind is none of the arena's business: the learners stay.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from txlab.drawing.text import visible
from txlab.engine.explain import Explanation
from txlab.engine.rl.world import World
from txlab.errors import LabError
from txlab.experiments.kind import kind_of_run
from txlab.experiments.protocol import Frame
from txlab.tui.run_summary import GOING
from txlab.tui.screens.arena.editing import EditingScreen
from txlab.tui.screens.arena.learning import told_of
from txlab.tui.screens.arena.memory import Curves
from txlab.tui.widgets.timeline import TimeLine

if TYPE_CHECKING:
    from txlab.runs.reader import RunReader

MOST_WORLDS = 8
INSTEAD = ("delta", "value_start")  # what planning records in place of returns


@dataclass(frozen=True, eq=False)
class Replay:
    """What was read of a run."""

    status: str
    steps: np.ndarray
    edge: int
    total: int
    frame: Frame | None = None
    world: World | None = None
    curves: tuple[Curves, ...] = ()
    trouble: str = ""


class ReplayScreen(EditingScreen):
    """The app's current run, if it is one of decisions, in the place of the match."""

    def __init__(self) -> None:
        super().__init__()
        self.worlds: dict[str, World] = {}
        self.foreign = False  # the current run is none of decisions
        self.read_at: tuple[int, int] = (-1, -1)  # step and number of the frames when one was read last
        self.trouble = ""

    def run_changed(self) -> None:
        """Look at the new run until it proves to be of another kind."""
        self.foreign, self.trouble, self.read_at = self.run_path is None, "", (-1, -1)
        if self.run_path is None and self.replaying:
            self.back_to_the_learners()

    def _tick(self) -> None:
        if not self.foreign:
            super()._tick()

    def read(self, reader: RunReader, changed: bool) -> Replay | None:
        if kind_of_run(reader.scenario.get("kind")).screen != "arena":
            self.foreign = True
            return None
        if not changed:
            return None
        frames = reader.frames
        frames.refresh()
        status, steps = reader.state.status, frames.steps
        edge, total = reader.state.step, reader.state.steps
        if not len(steps):
            return Replay(status, steps, edge, total, trouble="the run has recorded no frame yet")
        at = int(steps[-1])
        if self.at is not None:
            at = int(steps[max(0, int(np.searchsorted(steps, self.at, "right")) - 1)])
        try:
            frame = frames.read(at)
            world = self.world_of_frame(frame)
        except LabError as error:
            return Replay(status, steps, edge, total, trouble=str(error))
        return Replay(status, steps, edge, total, frame, world, curves_of_run(reader, frame))

    def world_of_frame(self, frame: Frame) -> World:
        """The world that a frame's [world] table means; LabError in one sentence for what is no world."""
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

    def show(self, snapshot: Replay) -> None:
        changed = not self.replaying or snapshot.status != self.status
        if not self.replaying:
            self.begin_replay()
        self.status = snapshot.status
        self.standing = snapshot.status, snapshot.edge, snapshot.total
        line = self.query_one(TimeLine)
        line.set_frames(snapshot.steps, snapshot.total, snapshot.edge, ended=snapshot.status not in GOING)
        if snapshot.trouble and snapshot.trouble != self.trouble:
            self.tell(snapshot.trouble, "warning")
        self.trouble = snapshot.trouble
        if snapshot.frame is not None and snapshot.world is not None:
            self.curves = snapshot.curves
            self.show_frame(snapshot.frame, snapshot.world)
            self.show_curves()
        else:
            self.show_header()
        if changed:
            self.call_after_refresh(self.refresh_bindings)

    def begin_replay(self) -> None:
        self.learning.go(False)
        self.end_walk()
        self.replaying, self.editing, self.turning = True, False, None
        self.begin_anew()
        self.bands.clear()

    def leave_replay(self) -> None:
        self.replaying, self.foreign = False, True
        self.begin_anew()

    def back_to_the_learners(self) -> None:
        """The match again, as it was left."""
        self.leave_replay()
        if self.look is not None:
            look = self.look
            self.query_one(TimeLine).set_frames(np.asarray(look.steps, np.int64), edge=look.frame.step, ended=True)
            self.curves = look.curves
            self.show_frame(look.frame, look.world)
            self.show_curves()
        self.learning.order(lambda _: None, "look")
        self.refresh_bindings()

    def paused(self) -> bool:
        return self.status == "paused"


def world_from(table: dict[str, Any]) -> World:
    """The world of a [world] table; LabError naming what is wrong with it."""
    from pydantic import ValidationError

    from txlab.experiments.tabular.world import WorldSection, world_of

    try:
        section = WorldSection.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise LabError(f"world{'.' if where else ''}{visible(where)}: {visible(str(first['msg']))[:200]}") from None
    return world_of(section, by_stepping=True)


def curves_of_run(reader: RunReader, frame: Frame) -> tuple[Curves, ...]:
    """What the run is looked at for, of each side, by the label that it has in the metrics: the family of its headline,
    as return/… or left/…; where it has neither that nor returns, the first of INSTEAD."""
    sides = frame.facts.get("sides")
    names = reader.names()
    about = reader.info.facts
    told = about.get("headline")
    family = next((str(each).partition("/")[0] for each in told if "/" in str(each)), "") if type(told) is list else ""
    across = {"episodes": "episode", "sweeps": "sweep"}.get(str(about.get("unit")), "step")
    nothing = np.empty(0)
    found = []
    for side in sides if isinstance(sides, (list, tuple)) else ():
        told = side if isinstance(side, dict) else {}
        labels = [str(told.get(key)) for key in ("label", "rule", "title") if told.get(key)]
        label = next((label for label in labels if f"{family}/{label}" in names), "")
        if label and family != "return":
            series = reader.series(f"{family}/{label}")
            found.append(Curves(series.steps, series.values, 1, nothing, nothing, label=family, across=across))
            continue
        label = next((label for label in labels if f"return/{label}" in names), "")
        if label:
            series = reader.series(f"return/{label}")
            low, high = (reader.series(f"return_{edge}/{label}").values for edge in ("low", "high"))
            banded = len(low) == len(high) == len(series)
            greedy = reader.series(f"greedy/{label}")
            found.append(
                Curves(
                    series.steps,
                    series.values,
                    1,
                    greedy.steps,
                    greedy.values,
                    low=low if banded else None,
                    high=high if banded else None,
                )
            )
            continue
        kept = [f"rms/{label}" for label in labels] + list(INSTEAD) + [name for name in names if name.startswith("rms")]
        name = next((name for name in kept if name in names), "")
        if name and not found:
            other = reader.series(name)
            found.append(Curves(other.steps, other.values, 1, nothing, nothing, label=name, across=across))
        else:
            found.append(Curves(nothing, nothing, 1, nothing, nothing))
    return tuple(found)


def explain_frame(frame: Frame, side: int, state: int) -> Explanation:
    """Why V(state), else the best Q(state, a), of a recorded frame is what it is, by the frame's own numbers."""
    from txlab.experiments.kind import kind_named

    explain = kind_named("prediction" if "true/v" in frame.tensors else "control").explain_frame
    if f"{side}/q" in frame.tensors and "sweep" not in told_of(frame.facts, side):
        row = np.asarray(frame.tensors[f"{side}/q"], np.float64)[state]
        if not np.isnan(row).all():
            return explain(frame, f"{side}/q", (state, int(np.nanargmax(row))))
    return explain(frame, f"{side}/v", (state,))
