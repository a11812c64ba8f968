"""The worlds of one or two learners side by side or stacked, the line over each, and the greedy walk.

Notable: both sides share one colour scale, so that colours are comparable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.timer import Timer

from txlab.drawing.diverging import scale_of
from txlab.drawing.update_lines import compact
from txlab.drawing.world_scene import SHOWS, Scene, Show, scene_of
from txlab.tui.bindings import MOVING, bind
from txlab.tui.panel import Panel
from txlab.tui.screens.arena.layout import PanePlan
from txlab.tui.screens.arena.learners import GreedyWalk, describe_side
from txlab.tui.screens.arena.words import NAMES, side_head
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.world import WorldView

if TYPE_CHECKING:
    from txlab.tui.screens.arena.interface import Arena

WALK = 0.12  # seconds for a step of the greedy walk
LONGEST_WALK = 8.0  # seconds; longer walks go faster
LOST_STEPS = 60  # shown of a walk that does not arrive


class WorldsPanel(Panel):
    """`show` draws the current frame; the keys choose what a cell shows, the layer and the greedy walk."""

    KEYS: ClassVar = (
        bind("y", "layer", "show another layer of the world", "layer", id="arena.layer"),
        bind("g", "greedy", "walk the greedy path of every learner", "greedy run", id="arena.greedy"),
        bind("v", "view", "show values, Q, visits or the policy in the cells", "show", id="arena.view"),
        bind("up", "move(-1, 0)", "cursor up", id="arena.up", heading=MOVING),
        bind("down", "move(1, 0)", "cursor down", id="arena.down", heading=MOVING),
        bind("left", "move(0, -1)", "cursor left", id="arena.left", heading=MOVING),
        bind("right", "move(0, 1)", "cursor right", id="arena.right", heading=MOVING),
    )
    DEFAULT_CSS = "WorldsPanel { layout: horizontal; height: 8; width: 1fr; padding: 0 1; }"

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self.arena = arena
        self.showing: Show = "values"
        self.chosen_layer: int | None = None  # by the user; None: the learner's layer
        self.walks: list[GreedyWalk] = []
        self.walk_at = 0
        self.walk_timer: Timer | None = None
        self.walked: dict[int, tuple[int, ...]] = {}  # per side: the greedy path so far

    def compose(self) -> ComposeResult:
        for place in range(2):
            with Vertical(id=f"side{place}", classes="side"):
                yield Words(id=f"head{place}", classes="head")
                yield WorldView("making the world…" if not place else "", id=f"world{place}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "layer":
            return len(self.layers) > 1
        return action != "greedy" or not self.arena.editing

    @property
    def layers(self) -> tuple[str, ...]:
        world = self.arena.world
        return world.layout.layers if world is not None else ()

    @property
    def chosen_view(self) -> WorldView:
        """The view of the chosen side."""
        return self.query_one(f"#world{self.arena.shown.index(self.arena.side)}", WorldView)

    def begin_anew(self) -> None:
        """Forget the state of other learners or another run."""
        self.chosen_layer, self.walked = None, {}

    def lay_out(self, plan: PanePlan, sides: int) -> int:
        """Take the lines of the plan, and return how many they are."""
        each = plan.head + plan.world
        lines = each * (sides if plan.stacked else 1)
        self.styles.height = lines
        for place in range(2):
            self.query_one(f"#side{place}").styles.height = each
            self.query_one(f"#head{place}").styles.height = plan.head
        return lines

    # Drawing.

    def show(self) -> None:
        arena = self.arena
        scenes = {side: scene for side in arena.shown if (scene := self.scene(side)) is not None}
        if arena.world is not None and scenes:
            inside = ~arena.world.process.terminal
            scale = scale_of(np.concatenate([np.asarray(s.value)[inside] for s in scenes.values()]))
            for place, side in enumerate(arena.shown):
                if side in scenes:
                    chosen = arena.cursor if side == arena.side or arena.editing else None
                    view = self.query_one(f"#world{place}", WorldView)
                    view.show(arena.world, scenes[side], scale, self.showing, chosen, self.chosen_layer)
        self.show_heads()

    def scene(self, side: int) -> Scene | None:
        """Return the scene of a side; None if the frame has none that fits the world."""
        frame = self.arena.frame
        if frame is None:
            return None
        scene = scene_of(frame.tensors, frame.facts, side)
        if scene is None or len(scene.value) != frame.world.process.size:
            return None
        walked = self.walked.get(side)
        return replace(scene, agent=walked[-1], path=walked, updated=-1) if walked else scene

    def show_heads(self) -> None:
        arena = self.arena
        if arena.planned is None:
            return
        two = len(arena.shown) > 1 and not arena.planned.stacked
        cells = (arena.size.width - 3) // 2 - 1 if two else arena.size.width - 2
        for place, side in enumerate(arena.shown):
            here = side == arena.side and arena.sides > 1
            turned = arena.turning if side == arena.side else None
            curves = arena.curves[side] if side < len(arena.curves) else None
            head = side_head(arena.facts, side, curves, turned, here, arena.planned.head, cells, arena.ascii)
            self.query_one(f"#head{place}", Words).say(head)

    def where(self) -> str:
        """Return the content of the cells, unless it is the values, and the chosen layer."""
        words = NAMES[self.showing] if self.showing != "values" else ""
        layer = self.layer_seen()
        if layer and (self.chosen_layer is not None or not self.arena.session.running):
            words = f"{words}  {layer}".strip()
        planned = self.arena.planned
        cramped = planned is not None and not planned.cell.quad and self.showing == "actions"
        return f"{words}: no room, values" if cramped else words

    def layer_seen(self) -> str:
        """Return the name of the layer shown on the chosen side; "" in a world with a single layer."""
        layers, depth = self.layers, self.chosen_view.depth
        return layers[depth] if len(layers) > 1 and depth < len(layers) else ""

    # Keys.

    def action_view(self) -> None:
        """Cycle the content of the cells: values, Q in four directions, visits, the policy."""
        tensors = self.arena.frame.tensors if self.arena.frame is not None else {}
        needs = {"actions": "q", "visits": "visits", "policy": "policy"}
        known = [show for show in SHOWS if show not in needs or f"{self.arena.side}/{needs[show]}" in tensors]
        self.showing = known[(known.index(self.showing) + 1) % len(known)] if self.showing in known else "values"
        self.arena.lay_out()
        self.arena.show_all()

    def action_layer(self) -> None:
        """Show the next layer of a world that has several."""
        if len(self.layers) > 1:
            self.chosen_layer = (self.chosen_view.depth + 1) % len(self.layers)
            self.arena.show_all()

    def action_move(self, down: int, right: int) -> None:
        """Move the cursor by a cell, the first time from the learner."""
        arena = self.arena
        if arena.world is None:
            return
        layout = arena.world.layout
        row, column = arena.cursor or self.place_asked()
        arena.cursor = max(0, min(row + down, layout.height - 1)), max(0, min(column + right, layout.width - 1))
        self.show()
        arena.show_header()

    @on(WorldView.Pointed)
    def follow_pointer(self, event: WorldView.Pointed) -> None:
        event.stop()
        arena = self.arena
        arena.side = arena.shown[min(len(arena.shown) - 1, int((event.view.id or "world0")[-1]))]
        arena.cursor = (event.row, event.column)
        arena.show_all()

    def state_asked(self) -> int | None:
        """Return the state under the cursor, else the last updated one, else the learner's; without a learner, the
        likeliest start of an episode on this layer."""
        arena = self.arena
        if arena.world is None:
            return None
        depth = getattr(self.chosen_view, "depth", 0)
        if arena.cursor is not None:
            return arena.world.layout.state_at(*arena.cursor, depth)
        scene = self.scene(arena.side)
        if scene is None:
            return None
        if max(scene.updated, scene.agent) >= 0:
            return scene.updated if scene.updated >= 0 else scene.agent
        here = np.flatnonzero(arena.world.layout.place[:, 0] == depth)
        return int(here[arena.world.process.start[here].argmax()])

    def place_asked(self) -> tuple[int, int]:
        """Return (row, column) of that state."""
        state = self.state_asked()
        if state is None or self.arena.world is None:
            return 0, 0
        row, column = self.arena.world.layout.place[state, 1:].tolist()
        return int(row), int(column)

    # The greedy walk.

    def action_greedy(self) -> None:
        """Walk the greedy path of every learner, and report its return."""
        if self.walks:
            self.end_walk()
            self.arena.show_all()
        elif self.arena.playback.ready():
            session = self.arena.session
            session.pause()
            session.edit(lambda live: session.say(self.begin_walk, live.greedy_walks()), "greedy")

    def begin_walk(self, walks: list[GreedyWalk]) -> None:
        if not walks or not self.is_attached:
            return
        self.end_walk()
        self.walks = [(path[:LOST_STEPS] if fate else path, value, fate) for path, value, fate in walks]
        self.walk_at, longest = 0, max(len(path) for path, _, _ in self.walks)
        self.walk_timer = self.set_interval(min(WALK, LONGEST_WALK / max(1, longest)), self.walk_on)
        self.walk_on()

    def walk_on(self) -> None:
        self.walk_at += 1
        self.walked = {side: path[: self.walk_at] for side, (path, _, _) in enumerate(self.walks)}
        if all(self.walk_at > len(path) for path, _, _ in self.walks):
            if self.walk_timer is not None:
                self.walk_timer.stop()
            sentences = []
            for side, (path, value, fate) in enumerate(self.walks):
                title = describe_side(self.arena.facts, side).get("title", "")
                earned = f"greedy return {compact(value)} in {len(path) - 1} steps"
                sentences.append(f"{title}: {f'the greedy walk {fate}' if fate else earned}")
            self.tell("   ".join(sentences))
            self.walks = []
        self.arena.show_all()

    def end_walk(self) -> None:
        if self.walk_timer is not None:
            self.walk_timer.stop()
        self.walks, self.walked = [], {}


# The layout of the arena.
