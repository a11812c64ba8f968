"""Screen 6, Arena: learners side by side in one world, their values, their paths, and the update rule in numbers.

It shows one frame with its world and its curves. This file selects what is shown and assigns it to panels; the panels
own the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from txlab.drawing.text import visible, width
from txlab.engine.explain import Explanation
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.world import World
from txlab.errors import LabError
from txlab.sources.recorded import Recorded
from txlab.tui.bindings import PICTURE, WHY, bind
from txlab.tui.panel import Panel
from txlab.tui.playback import Playback
from txlab.tui.screens.arena.choosing import WorldChoice
from txlab.tui.screens.arena.curves import CurvesPanel
from txlab.tui.screens.arena.editor import EditorPanel
from txlab.tui.screens.arena.layout import RULE_LINES, PanePlan, plan
from txlab.tui.screens.arena.learners import LiveMatch, ReturnCurves, WorldFrame, describe_side
from txlab.tui.screens.arena.parameters import ParametersPanel, parameters
from txlab.tui.screens.arena.recorded import RecordedWorlds, curves_of_run, explain_frame, learners_of
from txlab.tui.screens.arena.words import sentence, update_lines
from txlab.tui.screens.arena.worlds import WorldsPanel
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.plain_text import Parts, Words
from txlab.tui.session import Session
from txlab.tui.widgets.timeline import TimeLine
from txlab.tui.widgets.why import ask_why

AROUND = 5  # lines outside the plan: header, timeline, navigation, its rule, the keys
RECORDED = "this is a recorded run: l continues by hand, in its world with its learners"
LIVE_KEYS = {  # which only explain recordings
    *("arena.new", "arena.turn", "arena.rule", "arena.second", "arena.greedy", "arena.bands", "arena.edit"),
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
        "Two learners in the same world. A cell's colour and number are its value, its arrows the best actions, the "
        "round sign (@ in ASCII) is the learner, the star (G) the goal, a green bar at the left a trace. Space runs, "
        ". makes one update, - and + change the speed. Below the worlds is the rule, with the numbers of the last "
        "update under its letters; w explains the cell under the cursor (arrows, or a click). p opens the parameters "
        "of a side: up and down choose, left and right change, enter types a value. m edits the map while they keep "
        "learning: # wall, . floor, g goal, h hole, c cliff, s start, r a reward, p slip. y shows the next layer of a "
        "world that has several. On-line is the return of episodes with exploration; greedy, the return of the best "
        "actions without it. In a recorded run, l continues by hand: in its world, with its learners untrained."
    )
    PANELS: ClassVar[tuple[type[Panel], ...]] = (
        EditorPanel, ParametersPanel, WorldsPanel, CurvesPanel, WorldChoice, Playback,
    )  # fmt: skip
    KEY_ORDER: ClassVar[tuple[str, ...]] = (
        "run.branch", "run.pause", "arena.leave", "arena.wall", "arena.floor", "arena.goal", "arena.hole",
        "arena.cliff", "arena.start", "screen.picture", "arena.reward", "arena.slip", "run.step", "run.slower",
        "run.faster", "arena.side", "arena.edit", "screen.why", "arena.layer", "arena.greedy", "arena.open",
        "arena.play", "arena.turn", "arena.rule", "arena.view", "arena.new", "arena.bands", "arena.second",
        "arena.curves", "time.earlier", "time.later",
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("n", "forget", "start again with nothing learnt", "new", id="arena.new", synonyms="reset restart forget"),
        bind("escape", "leave", "end this mode; from a recording, back to the learners", "done", id="arena.leave"),
        PICTURE,  # after the editor's start
        bind("tab", "side", "choose the other learner", "side", id="arena.side"),
        WHY,
        bind("t", "play", "go to the board games", "board games", id="arena.play"),
        bind("enter", "enter", "type the chosen parameter", "type it", id="arena.enter"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.session: Session[LiveMatch] = Session(self)
        self.frame: WorldFrame | None = None  # the shown frame
        self.curves: tuple[ReturnCurves, ...] = ()
        self.recorded = RecordedWorlds()
        self.side = 0
        self.alone = False  # only the chosen side is shown; the others keep learning
        self.cursor: tuple[int, int] | None = None
        self.turning: int | None = None  # index of the parameter that the arrows change
        self.editing = False
        self.planned: PanePlan | None = None
        self.worlds, self.below = WorldsPanel(self), CurvesPanel(self)
        self.parameters, self.editor, self.choice = ParametersPanel(self), EditorPanel(self), WorldChoice(self)
        self.playback = Playback(
            *(self, lambda kind: kind.screen == "arena", self.session),
            unit="update",
            hint=RECORDED,
            title=self.title_of,
            branch=self.go_live,
        )

    def compose_body(self) -> ComposeResult:
        yield self.playback.header
        yield self.worlds
        with Vertical(id="rule"):
            yield Rule()
            yield Words(id="update")
        yield self.below
        yield from (self.parameters, self.editor, self.choice, self.playback)

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")

        def on_the_cliff(_: LiveMatch | None) -> LiveMatch:
            from txlab.engine.rl.worlds import world_named

            settings = [Settings("sarsa"), Settings("q-learning")]
            return LiveMatch(world_named("cliff"), {"name": "cliff"}, settings, 0, lambda: self.session.running)

        self.session.begin(on_the_cliff)

    # The learners.

    def begin(self, make: Callable[[LiveMatch], LiveMatch]) -> None:
        """Replace the learners, or move them to another world."""
        self.worlds.end_walk()
        self.session.begin(lambda old: make(old) if old is not None else old)  # type: ignore[arg-type, return-value]

    def enter_world(self, world: World, table: Mapping[str, Any], edit: bool = False) -> None:
        """Move the present learners, untrained, to another world; `edit` its map."""
        self.editor.begins_in = world if edit else None
        self.playback.go_live()
        self.editing = False
        self.below.bands.clear()
        self.begin(lambda old: old.another(old.settings, world, table))

    def go_live(self, run: Recorded | None = None) -> bool:
        """Turn the recorded world and its learners into a live match; return whether that was possible."""
        frame = self.frame
        table = self.facts.get("world")
        if self.playback.can_edit or frame is None or not isinstance(table, Mapping):
            return False
        try:
            settings, left = learners_of(self.facts)
        except LabError as error:
            self.tell(str(error), "error")
            return False
        self.playback.go_live()
        self.begin(lambda old: old.another(settings, frame.world, table))
        self.tell("live now: its world and its learners, knowing nothing yet; space runs" + left)
        return True

    def action_forget(self) -> None:
        """Restart untrained."""
        if self.playback.ready():
            self.parameters.changed = False
            self.begin(lambda old: old.again())

    # The view of its Playback.

    def source_changed(self) -> None:
        """Forget state that does not apply to another match or run."""
        self.parameters.changed = False
        self.alone, self.cursor = False, None
        self.worlds.begin_anew()
        if not self.playback.can_edit:
            self.editing, self.turning = False, None
            self.worlds.end_walk()
            self.below.bands.clear()

    def read(self, source: Any, at: int | None, changed: bool) -> WorldFrame | None:
        if not changed:
            return None
        frame = source.frame(at)
        if isinstance(frame, WorldFrame):
            return frame
        world = self.recorded.world_of(frame)
        return WorldFrame(**vars(frame), world=world, curves=curves_of_run(source.reader, frame))

    # The shown frame.

    @property
    def world(self) -> World | None:
        return self.frame.world if self.frame is not None else None

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.frame.facts if self.frame is not None else {}

    @property
    def sides(self) -> int:
        """The number of learners in the current frame."""
        sides = self.facts.get("sides")
        return max(1, len(sides)) if isinstance(sides, (list, tuple)) else 1

    @property
    def shown(self) -> range:
        """The visible sides: at most two, including the chosen one (a run may have more), or that one alone."""
        if self.alone:
            return range(self.side, self.side + 1)
        first = max(0, min(self.side, self.sides - 2))
        return range(first, min(first + 2, self.sides))

    @on(TimeLine.Moved)
    def show_step(self) -> None:
        self.worlds.walked = {}
        self.worlds.show()

    @on(Playback.Stepped)
    def look_at_now(self) -> None:
        """Drop the greedy walk and the chosen layer: something is about to happen."""
        self.worlds.end_walk()
        self.worlds.chosen_layer = None
        self.parameters.changed = False
        self.show_all()

    def show(self, frame: WorldFrame) -> None:
        changed, before = frame.world is not self.world, self.sides
        self.frame = frame
        learners = self.session.picture if self.playback.can_edit else None
        self.curves = learners.experiment.curves if learners is not None else frame.curves
        self.side = min(self.side, self.sides - 1)
        layout = frame.world.layout
        if self.cursor is not None and not (0 <= self.cursor[0] < layout.height and 0 <= self.cursor[1] < layout.width):
            self.cursor = None
        if changed or before != self.sides:
            self.lay_out()
            self.refresh_bindings()
        self.show_all()
        self.below.show_now_and_then(self.session.running)
        begins = self.editor.begins_in
        if self.playback.can_edit and begins is not None and begins.map == frame.world.map:
            self.editor.begins_in = None
            self.begin_editing()

    # Drawing.

    def lay_out(self) -> None:
        """Give every pane its lines."""
        if self.world is None or not self.size.width:
            return
        lines, sides = max(1, self.size.height - AROUND - self.lines_above_keys), len(self.shown)
        planned = plan(
            *(self.world.layout, sides, self.size.width - 2, lines, self.worlds.showing, self.below.wanted),
            with_updates=any(each is not None for each in self.facts.get("last") or ()) or self.playback.can_edit,
        )
        if planned == self.planned and self.has_class("-two") == (sides > 1):
            return
        self.planned = planned
        self.set_class(planned.stacked, "-stacked")
        self.set_class(sides > 1, "-two")
        self.set_class(planned.chart > 0, "-chart")
        rule = 1 + RULE_LINES * planned.updates if planned.updates else 0
        self.query_one("#rule").display = bool(rule)
        self.query_one("#rule").styles.height = rule or 1
        worlds = self.worlds.lay_out(planned, sides)
        self.below.display = worlds + rule < lines  # otherwise it would not fit

    def show_all(self) -> None:
        self.worlds.show()
        self.show_header()
        self.show_update()
        self.below.show_facts()
        if self.frame is not None:
            until = None if self.playback.can_edit else self.frame.step
            self.caption.say(sentence(self.frame, self.curves, until))

    def show_header(self) -> None:
        self.playback.show_header()

    def title_of(self, spare: int, most: int) -> Parts:
        """`Cliff walking   Sutton and Barto 2018, example 6.6`, or the present mode instead of the source."""
        world, where = self.world, self.where()
        left: Parts = [(visible(world.title or world.name, self.ascii) if world is not None else "Arena", "bold")]
        if where:
            left.append((f"   {visible(where, self.ascii)}", "$accent"))
        elif world is not None and world.source:
            source = f"   {visible(world.source, self.ascii)}"
            if width(left[0][0]) + width(source) + 5 < spare:
                left.append((source, "$quiet"))
        return left

    def show_heads(self) -> None:
        self.worlds.show_heads()

    def show_update(self) -> None:
        if self.world is None or self.planned is None or not self.planned.updates:
            return
        cells, world = self.size.width - 2, self.world
        sides = self.shown if self.planned.updates > 1 else [self.side]
        lines = RULE_LINES if len(sides) > 1 else 5
        content = [
            update_lines(self.facts, side, world, cells, lines, self.ascii, not self.playback.can_edit)
            for side in sides
        ]
        self.query_one("#update", Words).say(Content("\n").join(content))

    def settings_changed(self) -> None:
        """Drop everything measured with the old parameters, rules or world."""
        self.below.settings_changed()

    def where(self) -> str:
        """Return the present mode, unless it is plain watching."""
        if self.editing:
            return "editing the map"
        if self.parameters.changed and not self.session.running:
            return "changed: space goes on, n begins anew"
        if self.parameters.changed and self.turning is not None:
            return "what is learnt stays; n begins anew"
        if self.turning is not None:
            return "home lowest, end highest" if self.ascii else "↑↓ choose  ←→ turn  home lowest  enter type"
        if self.worlds.walked:
            return "the greedy policy walks"
        return self.worlds.where()

    def on_resize(self) -> None:
        self.planned = None
        self.call_after_refresh(self.fit_size)

    def room_changed(self) -> None:
        self.fit_size()

    def fit_size(self) -> None:
        if self.is_attached:
            self.lay_out()
            self.show_all()
            self.below.show()
            self.refresh_bindings()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a map is edited, letters are tiles; a recorded run is only for viewing."""
        if action == "play":
            return not self.editing
        if action == "side":
            return self.sides > 1
        if action in ("enter", "picture"):
            return not self.editing
        if action == "leave":
            return self.editing or self.turning is not None or self.cursor is not None or not self.playback.can_edit
        return super().check_action(action, parameters)

    def word_for(self, binding: Binding) -> str:
        """Return the label of a key now; a mode has only its own keys on the bottom line."""
        ident = binding.id or ""
        recorded = not self.playback.can_edit
        if recorded and ident in LIVE_KEYS:
            return ""
        if self.editing and ident not in EDIT_KEYS:
            return ""
        if ident == "arena.enter":
            return binding.description if self.turning is not None else ""
        if ident == "arena.leave" and recorded and not self.editing:
            return "the learners"
        return super().word_for(binding)

    async def action_play(self) -> None:
        """Open the other screen of decisions: the board games."""
        await self.run_action("app.open_screen('play')")

    def action_side(self) -> None:
        """Choose the other learner for the keys."""
        self.side = (self.side + 1) % self.sides
        if self.turning is not None:
            self.turning = min(self.turning, len(parameters(describe_side(self.facts, self.side))) - 1)
        self.show_all()

    def action_enter(self) -> None:
        """Type the parameter that the arrows change; otherwise explain."""
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
        else:
            self.playback.go_live()
        self.refresh_bindings()

    def begin_editing(self) -> None:
        """Start editing the map, with the cursor at the learner."""
        self.worlds.end_walk()
        self.playback.to_present()
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
        live = self.playback.present

        def ask() -> Explanation | list[Explanation] | None:
            if live:
                answer: list[Explanation] | None = self.session.ask(lambda match: match.match.explanations(side, state))
                return answer
            return explain_frame(frame, side, state)

        ask_why(self.app, ask, "asking the learner…", again=self.action_why)
