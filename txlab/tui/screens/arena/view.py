"""What the arena shows: the worlds of one or two learners, the rule with its numbers, curves, and time.

Notable: everything that is drawn comes from one frame and its world, whether it was made a moment ago in the thread
beside, is looked at again on the time line, or was read from a run. Colours of both sides mean the same numbers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content

from txlab.drawing.diverging import Scale
from txlab.drawing.world_scene import SHOWS, Scene, Show, scene_of
from txlab.engine.rl.world import World
from txlab.experiments.protocol import Frame
from txlab.tui.screens.arena.learning import PACES, Learning, Look, told_of
from txlab.tui.screens.arena.memory import Curves
from txlab.tui.screens.arena.plan import RULE_LINES, Plan, plan
from txlab.tui.screens.arena.words import NAMES, facts_panel, header, live_groups, run_groups, side_head, update_lines
from txlab.tui.screens.base_screens import Rule, RunScreen
from txlab.tui.screens.words import Words
from txlab.tui.widgets.chart import ChartSeries
from txlab.tui.widgets.returns import ReturnsChart, banded
from txlab.tui.widgets.timeline import TimeLine
from txlab.tui.widgets.world import WorldView

FAMILIES = {"left": "share of runs that went left", "rms": "root-mean-square error", "delta": "largest change"}
CURVES_EVERY = 0.6  # seconds between two drawings of the curves while one learns
AROUND = 5  # lines that are not between the header and the time line: those two, navigation, its rule, the keys


class ShowingScreen(RunScreen):
    """The panes, and what is in them."""

    def __init__(self) -> None:
        super().__init__()
        self.learning = Learning(self)
        self.look: Look | None = None
        self.frame: Frame | None = None  # what is shown
        self.world: World | None = None  # where
        self.curves: tuple[Curves, ...] = ()
        self.side = 0
        self.showing: Show = "values"
        self.scale = Scale()
        self.cursor: tuple[int, int] | None = None
        self.storey: int | None = None  # that the person has chosen; None: where the learner is
        self.turning: int | None = None  # which parameter the arrows turn
        self.editing = False
        self.walked: dict[int, tuple[int, ...]] = {}  # per side: the greedy path, as far as it was walked
        self.with_curves = False
        self.planned: Plan | None = None
        self.match_seen = -1
        self.curves_drawn = 0.0
        self.replaying, self.status = False, ""
        self.standing: tuple[str, int, int] = ("", 0, 0)  # of a recorded run: status, step, steps in all
        self.bands: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self.band_said = ""

    def compose_body(self) -> ComposeResult:
        yield Words(id="header")
        with Container(id="worlds"):
            for side in range(2):
                with Vertical(id=f"side{side}", classes="side"):
                    yield Words(id=f"head{side}", classes="head")
                    yield WorldView("making the world…" if not side else "", id=f"world{side}")
        rule = Rule()
        rule.id = "update-rule"
        yield rule
        yield Words(id="update")
        rule = Rule()
        rule.id = "below-rule"
        yield rule
        with Horizontal(id="below"):
            chart = ReturnsChart("returns of episodes will stand here", id="returns")
            chart.across = "episode"
            chart.can_focus = False
            yield chart
            yield Words(id="facts")
        yield TimeLine()

    # What arrives from the thread that learns.

    def take(self, look: Look) -> None:
        """A picture of now."""
        if not self.is_attached:
            self.learning.drawn()
            return
        self.call_after_refresh(self.learning.drawn)
        known, self.look = self.look, look
        if look.match != self.match_seen:
            self.match_seen = look.match
            self.begin_anew()
        if known is None or known.running != look.running:
            self.refresh_bindings()
        if self.replaying:
            return
        self.curves = look.curves
        line = self.query_one(TimeLine)
        line.set_frames(np.asarray(look.steps, np.int64), edge=look.frame.step, ended=not look.running)
        if self.at is None:
            self.show_frame(look.frame, look.world)
        else:
            self.show_header()
        if not look.running or time.monotonic() - self.curves_drawn > CURVES_EVERY:
            self.show_curves()

    def begin_anew(self) -> None:
        """Another match: what was chosen and looked at in the old one means nothing in it."""
        self.at, self.cursor, self.storey, self.scale = None, None, None, Scale()
        self.query_one(TimeLine).at = None
        self.walked = {}

    def told(self, sentence: str) -> None:
        """From the thread: what went wrong, in one line."""
        self.tell(sentence, "error")

    @on(TimeLine.Moved)
    def time_moved(self, event: TimeLine.Moved) -> None:
        self.at = None if event.live else event.step
        self.walked = {}
        if self.replaying:
            self.moved()
        elif self.look is not None:
            found = self.learning.recording.at(event.step) if self.at is not None else None
            frame, world = found or (self.look.frame, self.look.world)
            self.show_frame(frame, world)

    # What is drawn.

    @property
    def sides(self) -> int:
        """How many learners the frame that is shown has."""
        told = self.frame.facts.get("sides") if self.frame is not None else None
        return max(1, len(told)) if isinstance(told, (list, tuple)) else 1

    @property
    def shown(self) -> range:
        """Those that are seen: two at most, the chosen one among them (a run may have more)."""
        first = max(0, min(self.side, self.sides - 2))
        return range(first, min(first + 2, self.sides))

    def show_frame(self, frame: Frame, world: World) -> None:
        changed = world is not self.world or self.frame is None
        before, self.frame, self.world = self.sides, frame, world
        self.side = min(self.side, self.sides - 1)
        if self.cursor is not None and not self.inside(self.cursor):
            self.cursor = None
        if changed or before != self.sides:
            self.lay_out()
            self.refresh_bindings()
        self.show_all()

    def inside(self, place: tuple[int, int]) -> bool:
        layout = self.world.layout if self.world is not None else None
        return layout is not None and 0 <= place[0] < layout.height and 0 <= place[1] < layout.width

    def lay_out(self) -> None:
        """Give every pane its lines."""
        if self.world is None or not self.size.width:
            return
        lines = max(1, self.size.height - AROUND)
        found = plan(
            *(self.world.layout, len(self.shown), self.size.width - 2, lines, self.showing, self.with_curves),
            with_updates=any(each is not None for each in self.facts().get("last") or ()) or not self.replaying,
        )
        if found == self.planned and self.has_class("-two") == (len(self.shown) > 1):
            return
        self.planned = found
        self.set_class(found.stacked, "-stacked")
        self.set_class(len(self.shown) > 1, "-two")
        self.set_class(found.chart > 0, "-chart")
        self.set_class(not found.updates, "-no-update")
        self.query_one("#update").styles.height = RULE_LINES * max(1, found.updates)
        each = found.head + found.world
        worlds = each * (len(self.shown) if found.stacked else 1)
        self.query_one("#worlds").styles.height = worlds
        rule = 1 + RULE_LINES * found.updates if found.updates else 0
        self.query_one("#below").display = worlds + rule < lines  # or it would take a line that is not there
        for side in range(2):
            self.query_one(f"#side{side}").styles.height = each
            self.query_one(f"#head{side}").styles.height = found.head

    def show_all(self) -> None:
        self.show_worlds()
        self.show_header()
        self.show_heads()
        self.show_update()
        if self.has_class("-chart"):
            self.show_facts()

    def scene(self, side: int) -> Scene | None:
        """What is drawn of a side; None where the frame has nothing of it that fits the world."""
        if self.frame is None or self.world is None:
            return None
        scene = scene_of(self.frame.tensors, self.frame.facts, side)
        if scene is None or len(scene.value) != self.world.process.size:
            return None
        walked = self.walked.get(side)
        return replace(scene, agent=walked[-1], path=walked, updated=-1) if walked else scene

    def show_worlds(self) -> None:
        frame, world = self.frame, self.world
        if frame is None or world is None:
            return
        scenes = {side: scene for side in self.shown if (scene := self.scene(side)) is not None}
        if not scenes:
            return
        open_states = ~world.process.terminal
        self.scale = self.scale.following(np.concatenate([np.asarray(s.value)[open_states] for s in scenes.values()]))
        for place, side in enumerate(self.shown):
            if side in scenes:
                chosen = self.cursor if side == self.side or self.editing else None
                view = self.query_one(f"#world{place}", WorldView)
                view.show(world, scenes[side], self.scale, self.showing, chosen, self.storey)

    def show_header(self) -> None:
        learning = self.learning
        speed = self.look.speed if self.look is not None else 0.0
        groups = live_groups(learning.pace, learning.running, speed, self.ascii)
        if self.replaying:
            groups = run_groups(*self.standing, self.ascii)
        said = header(self.world, self.where(), groups, self.size.width - 2, self.ascii)
        self.query_one("#header", Words).say(said, layout=False)

    def where(self) -> str:
        """What one is doing, where it is not simply watching."""
        if self.editing:
            return "editing the map"
        if self.walked:
            return "the greedy policy walks"
        if self.replaying and self.run_path is not None:
            return f"run {self.run_path.name}  {self.layer_seen()}".rstrip()
        found = NAMES[self.showing] if self.showing != "values" else ""
        layer = self.layer_seen()
        if layer and (self.storey is not None or not self.learning.running):
            found = f"{found}  {layer}".strip()
        cramped = self.planned is not None and not self.planned.cell.quad and self.showing == "actions"
        return f"{found}: no room, values" if cramped else found

    def layer_seen(self) -> str:
        """What the layer of the chosen side is; "" in a world that has but one."""
        layers = self.world.layout.layers if self.world is not None else ()
        view = self.query_one(f"#world{self.shown.index(self.side)}", WorldView)
        return layers[view.depth] if len(layers) > 1 and view.depth < len(layers) else ""

    def facts(self) -> Mapping[str, Any]:
        return self.frame.facts if self.frame is not None else {}

    def show_heads(self) -> None:
        if self.planned is None:
            return
        two = len(self.shown) > 1 and not self.planned.stacked
        cells = (self.size.width - 3) // 2 - 1 if two else self.size.width - 2
        for place, side in enumerate(self.shown):
            here = side == self.side and self.sides > 1
            chosen = self.turning if side == self.side else None
            curves = self.curves[side] if side < len(self.curves) else None
            said = side_head(self.facts(), side, curves, chosen, here, self.planned.head, cells, self.ascii)
            self.query_one(f"#head{place}", Words).say(said, layout=False)

    def show_update(self) -> None:
        if self.world is None or self.planned is None or not self.planned.updates:
            return
        cells, world = self.size.width - 2, self.world
        sides = self.shown if self.planned.updates > 1 else [self.side]
        lines = RULE_LINES if len(sides) > 1 else 5
        said = [update_lines(self.facts(), side, world, cells, lines, self.ascii, self.replaying) for side in sides]
        self.query_one("#update", Words).say(Content("\n").join(said), layout=False)

    def show_facts(self) -> None:
        speed = self.look.speed if self.look is not None else 0.0
        height = self.planned.chart if self.planned is not None else 0
        said = facts_panel(self.facts(), self.curves, speed, height - 1, self.ascii)
        self.query_one("#facts", Words).say(said, layout=False)

    def show_curves(self) -> None:
        """Returns while exploring, and as points what the greedy policy would earn; or the bands over seeds."""
        self.curves_drawn = time.monotonic()
        if not self.has_class("-chart"):
            return
        chart = self.query_one("#returns", ReturnsChart)
        if self.band_said:
            chart.set_series(self.band_series(), f"on-line return, {self.band_said}", "computing the bands…")
            return
        drawn: list[ChartSeries] = []
        blocks, what = 1, "on-line return"
        for side, each in enumerate(self.curves):
            title = str(told_of(self.facts(), side).get("title", ""))
            blocks, what = max(blocks, each.block), each.label or what
            band = (each.low, each.high) if each.low is not None and each.high is not None else ()
            if self.replaying:
                drawn += banded(title, side, each.episodes, each.returns, band)
            elif len(each.episodes):
                drawn.append(ChartSeries(title, each.episodes, each.returns, colour=side))
            if len(each.greedy_episodes):
                greedy = ChartSeries("greedy", each.greedy_episodes, each.greedy_returns, colour=side, style="points")
                drawn.append(greedy)
        chart.log_y = what == "delta"
        chart.across = self.curves[0].across if self.curves else "episode"
        what = FAMILIES.get(what, what)
        chart.set_series(drawn, what + (f", mean of {blocks}" if blocks > 1 else ""), "no returns of episodes yet")

    def band_series(self) -> list[ChartSeries]:
        """Per side the mean over seeds and its error."""
        found: list[ChartSeries] = []
        for side, (mean, low, high) in self.bands.items():
            if side < self.sides:
                title = str(told_of(self.facts(), side).get("title", ""))
                found += banded(title, side, np.arange(1, len(mean) + 1), mean, (low, high))
        return found

    def on_resize(self) -> None:
        self.planned = None
        self.call_after_refresh(self.resized)

    def resized(self) -> None:
        if self.is_attached:
            self.lay_out()
            self.show_all()
            self.show_curves()
            self.refresh_bindings()

    # Looking.

    def action_view(self) -> None:
        """What cells show: values, Q in four directions, visits, the policy."""
        tensors = self.frame.tensors if self.frame is not None else {}
        needs = {"actions": "q", "visits": "visits", "policy": "policy"}
        known = [show for show in SHOWS if show not in needs or f"{self.side}/{needs[show]}" in tensors]
        self.showing = known[(known.index(self.showing) + 1) % len(known)] if self.showing in known else "values"
        self.lay_out()
        self.show_all()

    def action_layer(self) -> None:
        """The next layer of a world that has several."""
        layers = len(self.world.layout.layers) if self.world is not None else 1
        if layers > 1:
            view = self.query_one(f"#world{self.shown.index(self.side)}", WorldView)
            self.storey = (view.depth + 1) % layers
            self.show_all()

    def action_curves(self) -> None:
        """The curves in any case, on a small terminal in the place of the rule and of a part of the worlds."""
        self.with_curves = not self.with_curves
        self.lay_out()
        self.show_all()
        self.show_curves()

    @on(WorldView.Pointed)
    def pointed(self, event: WorldView.Pointed) -> None:
        self.side = self.shown[min(len(self.shown) - 1, int((event.view.id or "world0")[-1]))]
        self.cursor = (event.row, event.column)
        self.show_all()

    def pace_index(self) -> int:
        return PACES.index(self.learning.pace)
