"""What a person does with the learners: run and pause them, one update, their speed, their numbers, their rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from txlab.drawing.update_lines import compact
from txlab.engine.explain import Explanation
from txlab.engine.rl.settings import RULES, TITLES, Settings
from txlab.tui.run_summary import GOING
from txlab.tui.screens.arena.learning import PACES, Learning, Walk, told_of
from txlab.tui.screens.arena.parameters import Parameter, parameters, typed
from txlab.tui.screens.arena.view import ShowingScreen
from txlab.tui.widgets.why import ask_why

WALK = 0.12  # seconds that a step of the greedy walk is seen
LONGEST_WALK = 8.0  # seconds; longer ones go faster
LOST_STEPS = 60  # that are seen of a walk that does not arrive


class HandsScreen(ShowingScreen):
    """Keys that change the learning. Each is an order to the thread that owns the match."""

    def __init__(self) -> None:
        super().__init__()
        self.walk_timer: Any = None
        self.walks: list[Walk] = []
        self.walk_at = 0

    def live(self) -> bool:
        """Whether there is a match to act on; says so where a recorded run is looked at."""
        if self.replaying:
            self.tell("this is a recorded run: l goes on from its world with its learners, by hand")
            return False
        return self.learning.match is not None or self.learning.alive

    # Running.

    def action_pause(self) -> None:
        """Run or pause; at the lowest speed, one update."""
        if self.replaying and self.status in GOING:
            super().action_pause()
        elif self.live():
            self.end_walk()
            self.to_now()
            self.storey = None
            if not self.learning.running and not self.learning.pace:
                self.action_step()
            else:
                self.learning.go(not self.learning.running)

    def action_step(self) -> None:
        """One update of every learner."""
        if self.replaying and self.status in GOING:
            super().action_step()
        elif self.live():
            self.end_walk()
            self.to_now()
            self.learning.running, self.storey = False, None
            self.learning.order(lambda learning: learning.match.run(1) if learning.match is not None else None)

    def action_pace(self, by: int) -> None:
        if not self.live():
            return
        at = max(0, min(self.pace_index() + by, len(PACES) - 1))
        self.learning.pace = PACES[at]
        if self.learning.running:
            self.learning.go(PACES[at] > 0)
        self.show_header()

    def to_now(self) -> None:
        """Look at now, not at an earlier frame."""
        if self.at is not None:
            self.action_timeline("last")

    def action_side(self) -> None:
        self.side = (self.side + 1) % self.sides
        told = parameters(told_of(self.facts(), self.side))
        if self.turning is not None:
            self.turning = min(self.turning, len(told) - 1)
        self.show_all()

    def action_forget(self) -> None:
        """Begin again: nothing learnt."""
        if self.live():
            self.end_walk()
            self.learning.order(lambda learning: learning.anew())

    # Numbers.

    @property
    def parameter(self) -> Parameter | None:
        told = parameters(told_of(self.facts(), self.side))
        return told[min(self.turning, len(told) - 1)] if self.turning is not None else None

    def action_turn_mode(self) -> None:
        """The arrows turn the numbers of this side: up and down choose, left and right turn, enter types."""
        if self.turning is not None:
            self.turning = None
        elif self.live():
            self.turning = 0
        self.refresh_bindings()
        self.show_heads()

    def choose_parameter(self, by: int) -> None:
        told = parameters(told_of(self.facts(), self.side))
        self.turning = ((self.turning or 0) + by) % len(told)
        self.show_heads()

    def action_turn(self, by: int) -> None:
        """The chosen number a stop up or down."""
        if not self.live():
            return
        if self.turning is None:
            self.action_turn_mode()
        parameter = self.parameter
        value = told_of(self.facts(), self.side).get(parameter.name) if parameter is not None else None
        if parameter is not None and isinstance(value, (int, float)):
            self.set_parameter(parameter, parameter.turned(float(value), by))

    def set_parameter(self, parameter: Parameter, value: float) -> None:
        side = self.side

        def turn(learning: Learning) -> None:
            if learning.match is not None and side < len(learning.sides):
                learning.match.set(side, **{parameter.name: value})
                self.app.call_later(self.changed)

        self.learning.order(turn, (parameter.name, side))

    def changed(self) -> None:
        """The settings, rules or world of the learners are others now: what was measured with the old ones goes."""

    def action_type(self) -> None:
        """The chosen number, written."""
        from txlab.tui.screens.dialogs import AskValue

        parameter = self.parameter
        if parameter is None or not self.live():
            return
        value = told_of(self.facts(), self.side).get(parameter.name)
        start = compact(float(value)).replace("−", "-") if isinstance(value, (int, float)) else ""
        self.app.push_screen(
            AskValue(f"{parameter.letter} ({parameter.name})", parameter.about, start, lambda t: f"= {typed(t):g}"),
            lambda text: self.set_parameter(parameter, typed(text)) if text else None,
        )

    # Rules and sides.

    def action_rule(self) -> None:
        """Another rule for this side; its tables begin anew, for those of one rule mean nothing to another."""
        from txlab.engine.rl.rules.all import AGENTS
        from txlab.tui.screens.dialogs import Choose

        if not self.live():
            return
        told = told_of(self.facts(), self.side)
        side, now = self.side, told.get("rule")
        known = [rule for rule in RULES if rule in AGENTS]
        rows = [(TITLES[rule], rule, rule == now) for rule in known]
        names = {TITLES[rule]: rule for rule in known}

        def choose(title: str | None) -> None:
            if title in names:
                rule = names[title]
                self.learning.order(lambda learning: learning.change_rule(side, rule))
                self.app.call_later(self.changed)

        which = "" if self.sides == 1 else f" in the place of {told.get('title', 'this one')}"
        self.app.push_screen(Choose(f"Which rule{which}?", rows), choose)

    def action_second(self) -> None:
        """Add a second learner beside the first, or take the side that is chosen away."""
        if self.live():
            side = self.side
            many = self.sides
            self.side = 0
            if many > 1:
                self.learning.order(lambda learning: learning.without(side))
            else:
                self.learning.order(lambda learning: learning.with_side(Settings("q-learning")))

    # The greedy walk.

    def action_greedy(self) -> None:
        """Walk the greedy path of every learner, and say what it earns."""
        if self.walks:
            self.end_walk()
            self.show_all()
            return
        if not self.live():
            return
        self.to_now()
        self.learning.go(False)
        self.learning.order(lambda learning: learning.then(self.begin_walk, learning.greedy_paths()), "greedy")

    def begin_walk(self, walks: list[Walk]) -> None:
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
            self.walk_timer.stop()
            said = []
            for side, (path, value, fate) in enumerate(self.walks):
                title = told_of(self.facts(), side).get("title", "")
                earned = f"greedy return {compact(value)} in {len(path) - 1} steps"
                said.append(f"{title}: {f'the greedy walk {fate}' if fate else earned}")
            self.tell("   ".join(said))
            self.walks = []
        self.show_all()

    def end_walk(self) -> None:
        if self.walk_timer is not None:
            self.walk_timer.stop()
        self.walks, self.walked = [], {}

    # Why.

    def state_asked(self) -> int | None:
        """The state under the cursor; else the one that was updated last, else where the learner stands; and where
        nobody stands anywhere, the one of this layer in which an episode most probably begins."""
        if self.world is None or self.frame is None:
            return None
        view = self.query_one(f"#world{self.shown.index(self.side)}")
        if self.cursor is not None:
            return self.world.layout.state_at(*self.cursor, getattr(view, "depth", 0))
        scene = self.scene(self.side)
        if scene is None:
            return None
        if max(scene.updated, scene.agent) >= 0:
            return scene.updated if scene.updated >= 0 else scene.agent
        here = np.flatnonzero(self.world.layout.place[:, 0] == getattr(view, "depth", 0))
        return int(here[self.world.process.start[here].argmax()])

    def action_why(self) -> None:
        """Why this number: the last update of the cell, or what the backup of its value is made of."""
        state = self.state_asked()
        if state is None:
            self.tell("no state is drawn in this cell; choose another one with the arrows, or click on it")
            return
        side, learning, frame = self.side, self.learning, self.frame
        live = not self.replaying and self.at is None

        def ask() -> Explanation | str | None:
            if live:
                found: Explanation | str | None = learning.ask(
                    lambda l: l.match.explain(side, state) if l.match is not None else None
                )
                return found
            from txlab.tui.screens.arena.replay import explain_frame

            assert frame is not None
            return explain_frame(frame, side, state)

        ask_why(self.app, ask, "asking the learner…")
