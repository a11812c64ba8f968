"""Screen 6, Arena: learners side by side in one world, their values, their paths, and the update rule in numbers.

The screen shows one frame with its world and its curves (`look_at`), whether it comes from the session, its timeline,
or a recorded run. This file decides what is shown and which panel draws what; the panels own the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from txlab.engine.explain import Explanation
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.world import World
from txlab.errors import LabError
from txlab.experiments.kind import kind_of_run
from txlab.experiments.protocol import Frame
from txlab.runs.summary import GOING
from txlab.tui.panel import ROUTED, Panel
from txlab.tui.run_panel import RunPanel
from txlab.tui.screens.arena.choosing import WorldChoice
from txlab.tui.screens.arena.curves import CurvesPanel
from txlab.tui.screens.arena.editor import EditorPanel
from txlab.tui.screens.arena.layout import RULE_LINES, PanePlan, plan
from txlab.tui.screens.arena.learners import LiveMatch, ReturnCurves, WorldFrame, told_of
from txlab.tui.screens.arena.parameters import ParametersPanel, parameters
from txlab.tui.screens.arena.recorded import RecordedWorlds, RunReading, explain_frame, learners_of
from txlab.tui.screens.arena.session_panel import SessionPanel
from txlab.tui.screens.arena.words import update_lines
from txlab.tui.screens.arena.worlds import WorldsPanel
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.words import Words
from txlab.tui.session import Picture, Session
from txlab.tui.widgets.why import ask_why

if TYPE_CHECKING:
    from txlab.runs.reader import RunReader

AROUND = 5  # lines outside the plan: header, timeline, navigation, its rule, the keys
RUN_KEYS = {"run.pause", "run.step"}  # which act on a recorded run while it is running
LIVE_KEYS = RUN_KEYS | {
    *("arena.slower", "arena.new", "arena.turn", "arena.rule", "arena.second", "arena.greedy", "arena.bands"),
    "arena.edit",
}
EDIT_KEYS = {
    *("arena.wall", "arena.floor", "arena.goal", "arena.hole", "arena.cliff", "arena.start", "arena.reward"),
    *("run.pause", "arena.slip", "arena.leave", "screen.help"),
}


class ArenaScreen(BenchScreen):
    """Opens with cliff walking, SARSA on the left and Q-learning on the right, ready to run."""

    CSS_PATH = "arena.tcss"
    AUTO_FOCUS = ""
    HELP_ABOUT = (
        "Two learners in one world. A cell's colour and number are its value, its arrows the best actions, the round "
        "sign (@ in ASCII) is the learner, the star (G) the goal, a green bar at the left a trace. Space runs, . "
        "makes one update, - and + change the speed. Below the worlds stands the rule with the numbers of the last "
        "update under its letters; w says the same of the cell under the cursor (arrows, or a click). p turns the "
        "parameters of a side: up and down choose, left and right turn, enter types. m changes the map while they "
        "learn on: # wall, . floor, g goal, h hole, c cliff, s start, r a reward, p slip. y goes through the layers "
        "of a world that has several. On-line is what episodes earned while exploring; greedy, what the best actions "
        "would earn without. Of a recorded run, l goes on by hand: its world, and its learners anew."
    )
    PANELS: ClassVar[tuple[type[Panel], ...]] = (
        EditorPanel, SessionPanel, ParametersPanel, WorldsPanel, CurvesPanel, WorldChoice, RunPanel,
    )  # fmt: skip
    KEY_ORDER: ClassVar[tuple[str, ...]] = (
        "arena.live", "run.pause", "arena.leave", "arena.wall", "arena.floor", "arena.goal", "arena.hole",
        "arena.cliff", "arena.start", "screen.picture", "arena.reward", "arena.slip", "run.step", "arena.slower",
        "arena.faster", "arena.side", "arena.edit", "screen.why", "arena.layer", "arena.greedy", "arena.open",
        "arena.play", "arena.turn", "arena.rule", "arena.view", "arena.new", "arena.bands", "arena.second",
        "arena.curves", "time.earlier", "time.later",
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "live", "go on by hand", id="arena.live"),
        Binding("escape", "leave", "done", id="arena.leave", key_display="esc"),
        Binding("s", "picture", "picture", id="screen.picture", show=False),  # after the editor's start
        Binding("tab", "side", "side", id="arena.side"),
        Binding("w", "why", "why", id="screen.why"),
        Binding("t", "play", "board games", id="arena.play"),
        Binding("enter", "enter", "type it", id="arena.enter"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.session: Session[LiveMatch] = Session(self, self.show_picture, lambda error: self.tell(error, "error"))
        self.picture: Picture[LiveMatch] | None = None  # the newest of the live learners
        self.frame: WorldFrame | None = None  # what is shown
        self.curves: tuple[ReturnCurves, ...] = ()
        self.replaying = False  # a recorded run is shown
        self.standing: tuple[str, int, int] = ("", 0, 0)  # of that run: status, step, total steps
        self.trouble = ""
        self.recorded = RecordedWorlds()
        self.side = 0
        self.alone = False  # only the chosen side is shown; the others learn on
        self.cursor: tuple[int, int] | None = None
        self.turning: int | None = None  # index of the parameter that the arrows change
        self.editing = False
        self.planned: PanePlan | None = None
        self.header, self.worlds, self.below = SessionPanel(self), WorldsPanel(self), CurvesPanel(self)
        self.parameters, self.editor, self.choice = ParametersPanel(self), EditorPanel(self), WorldChoice(self)
        self.run_panel = RunPanel(self)

    def compose_body(self) -> ComposeResult:
        yield self.header
        yield self.worlds
        with Vertical(id="rule"):
            yield Rule()
            yield Words(id="update")
        yield self.below
        yield from (self.parameters, self.editor, self.choice, self.run_panel)

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")

        def on_the_cliff(_: LiveMatch | None) -> LiveMatch:
            from txlab.engine.rl.worlds import world_named

            settings = [Settings("sarsa"), Settings("q-learning")]
            return LiveMatch(world_named("cliff"), {"name": "cliff"}, settings, 0, lambda: self.session.running)

        self.session.begin(on_the_cliff)
        self.show_header()

    # The source of what is shown: the session…

    def begin(self, make: Callable[[LiveMatch], LiveMatch]) -> None:
        """Replace the learners, or move them to another world."""
        self.worlds.end_walk()
        self.session.begin(lambda old: make(old) if old is not None else old)  # type: ignore[arg-type, return-value]

    def show_picture(self, picture: Picture[LiveMatch]) -> None:
        """Show a picture of the session."""
        known, self.picture = self.picture, picture
        fresh = known is None or known.experiment is not picture.experiment
        if known is None or known.running != picture.running:
            self.refresh_bindings()
        if self.replaying:
            return
        if fresh:
            self.begin_anew()
        self.curves = picture.experiment.curves
        steps = np.asarray(picture.steps, np.int64)
        self.run_panel.timeline.set_frames(steps, edge=picture.frame.step, ended=not picture.running)
        if self.at is None:
            self.look_at(picture.frame)
        else:
            self.show_header()
        self.below.show_now_and_then(picture.running)
        if fresh and self.editor.begins_next:
            self.editor.begins_next = False
            self.begin_editing()

    def enter_world(self, world: World, table: Mapping[str, Any]) -> None:
        """Put the present learners, with nothing learnt, into another world."""
        if self.replaying:
            self.back_to_the_learners()
        self.editing = False
        self.below.bands.clear()
        self.begin(lambda old: old.another(old.settings, world, table))

    # … or a recorded run.

    def run_changed(self) -> None:
        """Show the new run unless it turns out to be of another kind."""
        self.trouble = ""
        if self.run_panel.path is None and self.replaying:
            self.back_to_the_learners()

    def read_run(self, reader: RunReader, changed: bool) -> RunReading | None:
        if kind_of_run(reader.scenario.get("kind")).screen != "arena":
            self.run_panel.watching = False
            return None
        return self.recorded.read(reader, self.at) if changed else None

    def show_run(self, snapshot: RunReading) -> None:
        if not self.run_panel.watching:  # the user left it while it was read
            return
        changed = not self.replaying or snapshot.status != self.run_panel.status
        if not self.replaying:
            self.session.pause()
            self.worlds.end_walk()
            self.replaying, self.editing, self.turning = True, False, None
            self.begin_anew()
            self.below.bands.clear()
        self.run_panel.status = snapshot.status
        self.standing = snapshot.status, snapshot.edge, snapshot.total
        ended = snapshot.status not in GOING
        self.run_panel.timeline.set_frames(snapshot.steps, snapshot.total, snapshot.edge, ended=ended)
        if snapshot.trouble and snapshot.trouble != self.trouble:
            self.tell(snapshot.trouble, "warning")
        self.trouble = snapshot.trouble
        if snapshot.frame is not None:
            self.curves = snapshot.curves
            self.look_at(snapshot.frame)
            self.below.show()
        else:
            self.show_header()
        if changed:
            self.call_after_refresh(self.refresh_bindings)

    def look_at_run(self, path: Path) -> None:
        """Show a run that was chosen here."""
        self.replaying, self.run_panel.watching = False, True
        if self.app.current_run == path:  # type: ignore[attr-defined]
            self.run_panel.wants_read()
        self.app.current_run = path  # type: ignore[attr-defined]

    def leave_run(self) -> None:
        self.replaying, self.run_panel.watching = False, False
        self.begin_anew()

    def back_to_the_learners(self) -> None:
        """Return to the match as it was left."""
        self.leave_run()
        if self.picture is not None:
            picture = self.picture
            steps = np.asarray(picture.steps, np.int64)
            self.run_panel.timeline.set_frames(steps, edge=picture.frame.step, ended=True)
            self.curves = picture.experiment.curves
            self.look_at(picture.frame)
            self.below.show()
        self.session.look()
        self.refresh_bindings()

    def go_live(self) -> bool:
        """Turn the recorded world and its learners into a live match; return whether that was possible."""
        frame = self.frame
        table = self.facts.get("world")
        if not self.replaying or frame is None or not isinstance(table, Mapping):
            return False
        try:
            settings, left = learners_of(self.facts)
        except LabError as error:
            self.tell(str(error), "error")
            return False
        self.leave_run()
        self.begin(lambda old: old.another(settings, frame.world, table))
        self.tell("live now: its world and its learners, knowing nothing yet; space runs" + left)
        return True

    # What is shown.

    @property
    def at(self) -> int | None:
        """The step selected on the timeline; None is the present."""
        return self.run_panel.at

    @property
    def world(self) -> World | None:
        return self.frame.world if self.frame is not None else None

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.frame.facts if self.frame is not None else {}

    @property
    def sides(self) -> int:
        """The number of learners in the current frame."""
        told = self.facts.get("sides")
        return max(1, len(told)) if isinstance(told, (list, tuple)) else 1

    @property
    def shown(self) -> range:
        """The visible sides: at most two, including the chosen one (a run may have more), or that one alone."""
        if self.alone:
            return range(self.side, self.side + 1)
        first = max(0, min(self.side, self.sides - 2))
        return range(first, min(first + 2, self.sides))

    @property
    def run_goes_on(self) -> bool:
        """Whether a run is shown that takes requests."""
        return self.replaying and self.run_panel.status in GOING

    def live(self) -> bool:
        """Return whether there is a match to act on; tells the user if a recorded run is shown."""
        if self.replaying:
            self.tell("this is a recorded run: l goes on from its world with its learners, by hand")
        return not self.replaying and (self.session.experiment is not None or self.session.alive)

    def begin_anew(self) -> None:
        """Forget selections that are meaningless in another match or run."""
        self.alone = False
        self.cursor, self.run_panel.at, self.run_panel.timeline.at = None, None, None
        self.worlds.begin_anew()

    def moved(self) -> None:
        """Show another step of the timeline."""
        self.worlds.walked = {}
        if self.replaying:
            self.run_panel.wants_read()
        elif self.picture is not None:
            found = self.session.recording.at(self.at) if self.at is not None else None
            self.look_at(found or self.picture.frame)

    def follow_now(self) -> None:
        """Show the present instead of an earlier frame."""
        if self.at is not None:
            self.run_panel.action_last()

    def look_at_now(self) -> None:
        """Do the same, and drop the greedy walk and the chosen layer: something is about to happen."""
        self.worlds.end_walk()
        self.follow_now()
        self.worlds.chosen_layer = None

    def look_at(self, frame: Frame) -> None:
        """Show a frame of either source."""
        assert isinstance(frame, WorldFrame)
        changed, before = frame.world is not self.world, self.sides
        self.frame = frame
        self.side = min(self.side, self.sides - 1)
        layout = frame.world.layout
        if self.cursor is not None and not (0 <= self.cursor[0] < layout.height and 0 <= self.cursor[1] < layout.width):
            self.cursor = None
        if changed or before != self.sides:
            self.lay_out()
            self.refresh_bindings()
        self.show_all()

    # What is drawn.

    def lay_out(self) -> None:
        """Give every pane its lines."""
        if self.world is None or not self.size.width:
            return
        lines, sides = max(1, self.size.height - AROUND), len(self.shown)
        found = plan(
            *(self.world.layout, sides, self.size.width - 2, lines, self.worlds.showing, self.below.wanted),
            with_updates=any(each is not None for each in self.facts.get("last") or ()) or not self.replaying,
        )
        if found == self.planned and self.has_class("-two") == (sides > 1):
            return
        self.planned = found
        self.set_class(found.stacked, "-stacked")
        self.set_class(sides > 1, "-two")
        self.set_class(found.chart > 0, "-chart")
        rule = 1 + RULE_LINES * found.updates if found.updates else 0
        self.query_one("#rule").display = bool(rule)
        self.query_one("#rule").styles.height = rule or 1
        worlds = self.worlds.lay_out(found, sides)
        self.below.display = worlds + rule < lines  # otherwise it would need a line that is not there

    def show_all(self) -> None:
        self.worlds.show()
        self.show_header()
        self.show_update()
        self.below.show_facts()

    def show_header(self) -> None:
        self.header.show()

    def show_heads(self) -> None:
        self.worlds.show_heads()

    def show_update(self) -> None:
        if self.world is None or self.planned is None or not self.planned.updates:
            return
        cells, world = self.size.width - 2, self.world
        sides = self.shown if self.planned.updates > 1 else [self.side]
        lines = RULE_LINES if len(sides) > 1 else 5
        said = [update_lines(self.facts, side, world, cells, lines, self.ascii, self.replaying) for side in sides]
        self.query_one("#update", Words).say(Content("\n").join(said), layout=False)

    def settings_changed(self) -> None:
        """Drop everything measured with the old parameters, rules or world."""
        self.below.settings_changed()

    def where(self) -> str:
        """Return the present mode, unless it is plain watching."""
        if self.editing:
            return "editing the map"
        if self.turning is not None:
            return "home lowest, end highest" if self.ascii else "↑↓ choose  ←→ turn  home lowest  enter type"
        if self.worlds.walked:
            return "the greedy policy walks"
        if self.replaying and self.run_panel.path is not None:
            return f"run {self.run_panel.path.name}  {self.worlds.layer_seen()}".rstrip()
        return self.worlds.where()

    def on_resize(self) -> None:
        self.planned = None
        self.call_after_refresh(self.resized)

    def resized(self) -> None:
        if self.is_attached:
            self.lay_out()
            self.show_all()
            self.below.show()
            self.refresh_bindings()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a map is edited, letters are tiles; a recorded run is only for viewing."""
        if action == ROUTED and parameters[0] == "RunPanel" and parameters[1] in ("pause", "step", "stop"):
            return self.run_goes_on and super().check_action(action, parameters)
        if action == "play":
            return not self.editing
        if action == "live":
            return self.replaying
        if action == "side":
            return self.sides > 1
        if action in ("enter", "picture"):
            return not self.editing
        if action == "leave":
            return self.editing or self.turning is not None or self.cursor is not None or self.replaying
        return super().check_action(action, parameters)

    def word_for(self, binding: Binding) -> str:
        """Return what a key would do now; a mode has only its own keys on the bottom line."""
        ident = binding.id or ""
        if self.replaying and ident in LIVE_KEYS and not (ident in RUN_KEYS and self.run_goes_on):
            return ""  # it only explains what a recording is
        if ident == "run.pause" and self.replaying:
            return "pause" if self.run_panel.status == "running" else "run"
        if self.editing and ident not in EDIT_KEYS:
            return ""
        if ident == "arena.enter":
            return binding.description if self.turning is not None else ""
        if ident == "arena.leave" and self.replaying and not self.editing:
            return "the learners"
        return super().word_for(binding)

    async def action_play(self) -> None:
        """Open the other screen of decisions: the board games."""
        await self.run_action("app.open_screen('play')")

    def action_live(self) -> None:
        self.go_live()

    def action_side(self) -> None:
        """Choose the other learner for the keys."""
        self.side = (self.side + 1) % self.sides
        if self.turning is not None:
            self.turning = min(self.turning, len(parameters(told_of(self.facts, self.side))) - 1)
        self.show_all()

    def action_enter(self) -> None:
        """Type the parameter that the arrows change; otherwise ask why."""
        if self.turning is not None:
            self.parameters.type()
        else:
            self.action_why()

    def action_leave(self) -> None:
        """Leave the editor, the parameters, the chosen cell or the recorded run, one after the other."""
        if self.editing:
            self.editor.action_edit()
        elif self.turning is not None:
            self.parameters.action_turn_mode()
        elif self.cursor is not None:
            self.cursor = None
            self.show_all()
        elif self.replaying:
            self.back_to_the_learners()
        self.refresh_bindings()

    def begin_editing(self) -> None:
        """Start editing the map, with the cursor at the learner."""
        self.worlds.end_walk()
        self.follow_now()
        self.editing, self.turning = True, None
        if self.cursor is None:
            self.cursor = self.worlds.place_asked()
        self.refresh_bindings()
        self.show_all()

    def action_why(self) -> None:
        """Explain this number: the update just made, or the last one of the cell; then the actions of that cell."""
        side, frame, state = self.side, self.frame, self.worlds.state_asked()
        if frame is None or state is None:
            self.tell("no state is drawn in this cell; choose another one with the arrows, or click on it")
            return
        live = not self.replaying and self.at is None

        def ask() -> Explanation | list[Explanation] | None:
            if live:
                answer: list[Explanation] | None = self.session.ask(lambda match: match.match.explanations(side, state))
                return answer
            return explain_frame(frame, side, state)

        ask_why(self.app, ask, "asking the learner…", again=self.action_why)
