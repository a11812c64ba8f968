"""Screen 8, Descent: a function that one types, and the methods that go down it, beside each other.

It shows one frame (`shown`), of the live methods or of a recorded run, over the `ground`: f in what the camera sees.
Notable: f and every step are computed in threads; the event loop only draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from txlab.drawing.scatter import Camera
from txlab.engine.descent.known import KNOWN
from txlab.errors import LabError
from txlab.experiments.kind import kind_of_run
from txlab.runs.summary import GOING
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import ROUTED, Panel
from txlab.tui.run_panel import RunPanel
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.descent.functions import FunctionPanel
from txlab.tui.screens.descent.map import MapPanel
from txlab.tui.screens.descent.methods import MethodsPanel
from txlab.tui.screens.descent.session_panel import SessionPanel
from txlab.tui.screens.descent.shown import (
    Ground,
    RunReading,
    Shown,
    camera_around,
    camera_of,
    following,
    ground_of,
    shown_of,
)
from txlab.tui.screens.descent.view import LABELS
from txlab.tui.session import Picture, Session
from txlab.tui.widgets.why import ask_why

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.runs.reader import RunReader
    from txlab.tui.screens.descent.live import LiveDescent

FIRST_STEPS = 60  # made before the first picture, so that there is something to see
PACE = 15.0


class DescentScreen(BenchScreen):
    """Opens with Rosenbrock's valley and four methods on their way down."""

    CSS_PATH = "descent.tcss"
    AUTO_FOCUS = ""
    HELP_ABOUT = (
        "Methods that go down a function, beside each other. t types a function of x, or of x and y; o has known ones. "
        "Of two variables the map shows f by its colour, nearest to the ground where it is low, and the path of "
        "each method up to its letter; of one variable the graph, with the tangent of the chosen method. Arrows move a "
        "cursor, enter begins there, z and Z come closer and go back. Space runs, . makes a step, , takes one back, n "
        "begins again. Tab chooses a method, m lets it take part or not, p chooses what - and + turn: the pace, or a "
        "parameter of the method, also while it runs. w explains its last step."
    )
    PANELS: ClassVar[tuple[type[Panel], ...]] = (SessionPanel, MapPanel, MethodsPanel, FunctionPanel, RunPanel)
    KEY_ORDER: ClassVar[tuple[str, ...]] = (
        "run.pause", "run.step", "descent.begin", "descent.type", "descent.open", "descent.next", "descent.turn",
        "descent.less", "screen.why", "descent.toggle", "descent.closer", "descent.new", "descent.view",
        "descent.back", "time.earlier", "descent.leave",
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "why", "why", id="screen.why"),
        Binding("escape", "leave", "done", id="descent.leave", key_display="esc"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.session: Session[LiveDescent] = Session(self, self.show_picture, self.failed, pictures=10.0, record=False)
        self.session.pace = PACE
        self.picture: Picture[LiveDescent] | None = None
        self.shown: Shown | None = None
        self.ground: Ground | None = None
        self.computing = LatestTask(self, "ground", self.failed)
        self.asked: tuple[object, ...] = ()  # the ground that is being computed
        self.home = self.camera = camera_of(KNOWN[0])
        self.chosen = 0
        self.reading: RunReading | None = None  # of the recorded run that is shown
        self.turned = ""  # what - and + turn: a parameter of the chosen method; "" = the pace
        self.run_panel = RunPanel(self)
        self.header, self.map = SessionPanel(self), MapPanel(self)
        self.methods, self.functions = MethodsPanel(self, self.map, self.header), FunctionPanel(self, self.map)

    def compose_body(self) -> ComposeResult:
        yield self.header
        yield Rule()
        with Horizontal(id="panels"):
            yield self.map
            yield self.methods
        yield from (self.functions, self.run_panel)

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        self.add_class("-timeless")

        def first(before: LiveDescent | None) -> LiveDescent:
            from txlab.tui.screens.descent.live import live

            found = live(KNOWN[0].f, KNOWN[0].start, KNOWN[0])
            for _ in range(FIRST_STEPS):
                found.step()
            return found

        self.session.begin(first)
        self.header.show()

    def failed(self, sentence: str) -> None:
        self.tell(sentence, "error")

    # The live methods…

    @property
    def replaying(self) -> bool:
        return self.reading is not None

    def begin(self, make: Callable[[LiveDescent], LiveDescent], camera: Camera | None = None, run: bool = True) -> None:
        """Begin with other methods, another function or another start; the present ones stay if that is impossible."""
        pace = self.session.pace

        def work(old: LiveDescent | None) -> LiveDescent:
            assert old is not None
            new = make(old)
            if camera is not None:
                self.session.say(self.look_from, camera)
            return new

        self.session.begin(work, run=run and pace > 0)

    def look_from(self, camera: Camera) -> None:
        self.home = self.camera = camera
        self.map.follows = True
        self.map.view.reserved = self.methods.small.reserved = LABELS

    def show_picture(self, picture: Picture[LiveDescent]) -> None:
        known, self.picture = self.picture, picture
        if not self.replaying:
            if known is None or known.experiment is not picture.experiment:
                self.chosen = self.first_on(shown_of(picture.frame), self.chosen)
            self.look_at(shown_of(picture.frame))
        if known is None or known.running != picture.running:
            self.refresh_bindings()

    def first_on(self, shown: Shown, wanted: int) -> int:
        """The chosen method, or the first one that takes part."""
        on = [walker.number for walker in shown.walkers if walker.on]
        return wanted if wanted in on else on[0] if on else 0

    def live(self) -> bool:
        """Whether there are methods to act on; tells the person if a recorded run is shown."""
        if self.replaying:
            self.tell("this is a recorded run: esc goes back to the live methods")
        return not self.replaying and (self.session.experiment is not None or self.session.alive)

    # … or a recorded run.

    def run_changed(self) -> None:
        if self.run_panel.path is None and self.replaying:
            self.back_to_the_methods()

    def read_run(self, reader: RunReader, changed: bool) -> RunReading | None:
        if kind_of_run(reader.scenario.get("kind")).screen != "descent":
            self.run_panel.watching = False
            return None
        if not changed:
            return None
        frames, state, at = reader.frames, reader.state, self.run_panel.at
        frames.refresh()
        steps = np.asarray(frames.steps, np.int64)
        found = (state.status, steps, state.step, state.steps, dict(reader.scenario))
        if not len(steps):
            return RunReading(*found, trouble="the run has recorded no frame yet")
        place = -1 if at is None else max(0, int(np.searchsorted(steps, at, "right")) - 1)
        try:
            return RunReading(*found, shown_of(frames.read(int(steps[place]))))
        except LabError as error:
            return RunReading(*found, trouble=str(error))

    def show_run(self, snapshot: RunReading) -> None:
        if not self.run_panel.watching:
            return
        before, self.reading = self.reading, snapshot
        self.run_panel.status = snapshot.status
        self.remove_class("-timeless")
        ended = snapshot.status not in GOING
        self.run_panel.timeline.set_frames(snapshot.steps, snapshot.total, snapshot.edge, ended=ended)
        if before is None:
            self.session.pause()
            self.map.cursor = None
        if snapshot.trouble and (before is None or before.trouble != snapshot.trouble):
            self.tell(snapshot.trouble, "warning")
        if snapshot.shown is not None:
            if before is None or self.shown is None or self.shown.key != snapshot.shown.key:
                self.look_from(camera_around([point for each in snapshot.shown.walkers for point in each.path[:1]]))
                self.chosen = self.first_on(snapshot.shown, 0)
            self.look_at(snapshot.shown)
        else:
            self.header.show()
        if before is None or before.status != snapshot.status:
            self.call_after_refresh(self.refresh_bindings)

    def back_to_the_methods(self) -> None:
        self.reading, self.run_panel.watching = None, False
        self.add_class("-timeless")
        if self.picture is not None:
            shown = shown_of(self.picture.frame)
            known = self.picture.experiment.known
            start = [walker.path[0] for walker in shown.walkers[:1]]
            self.look_from(camera_of(known) if known is not None else camera_around(start))
            self.chosen = self.first_on(shown, 0)
            self.look_at(shown)
        self.refresh_bindings()

    def moved(self) -> None:
        self.run_panel.wants_read()

    # What is drawn.

    def look_at(self, shown: Shown) -> None:
        """Show a frame of either source."""
        before, self.shown = self.shown, shown
        self.chosen = min(self.chosen, len(shown.walkers) - 1)
        if before is not None and before.one != shown.one:
            self.map.cursor = None
        self.want_ground()
        self.show_all()

    def want_ground(self) -> None:
        """Compute f where the camera looks, unless that is known or on its way."""
        shown, camera, room = self.shown, self.camera, self.map.view.room
        if shown is None or not self.map.view.size:
            return
        if self.map.follows:
            camera = following(camera, self.home, shown, room)
        wanted = (shown.key, camera, room)
        if wanted != self.asked:
            self.asked = wanted
            self.computing.want(lambda _: ground_of(shown, camera, room), self.show_ground)

    def show_ground(self, ground: Ground) -> None:
        self.ground = ground
        self.show_all()

    def show_all(self) -> None:
        self.header.show()
        self.map.show()
        self.methods.show()

    def on_resize(self) -> None:
        self.call_after_refresh(self.resized)

    def resized(self) -> None:
        if self.is_attached:
            self.want_ground()
            self.show_all()
            self.refresh_bindings()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == ROUTED and parameters[0] == "RunPanel":
            return self.replaying and super().check_action(action, parameters)
        if action == "leave":
            return self.map.cursor is not None or self.replaying
        return super().check_action(action, parameters)

    def word_for(self, binding: Binding) -> str:
        if binding.id == "descent.leave" and self.replaying and self.map.cursor is None:
            return "live methods"
        return super().word_for(binding)

    def action_leave(self) -> None:
        """Put the cursor away; from a recorded run, go back to the live methods."""
        if self.map.cursor is not None:
            self.map.cursor = None
            self.show_all()
        elif self.replaying:
            self.back_to_the_methods()
        self.refresh_bindings()

    def action_why(self) -> None:
        """Explain the last step of the chosen method."""
        shown, chosen = self.shown, self.chosen
        if shown is None or not shown.walkers[chosen].on:
            self.tell("this method takes no part, so it has made no step; m lets it")
            return
        if not self.replaying:
            ask_why(self.app, lambda: self.session.ask(lambda methods: methods.why(chosen)), "asking the method…")
            return
        assert self.reading is not None
        scenario, walker, step = self.reading.scenario, shown.walkers[chosen], shown.frame.step
        name, here = walker.name, walker.path[-1].tolist()
        values = {f"{axis}/{name}": x for axis, x in zip("xy", here, strict=False)}
        values[f"value/{name}"] = walker.tangent.value if walker.tangent is not None else float("nan")

        def again() -> Explanation | str:
            from txlab.experiments.kind import explain_metric

            found = explain_metric(scenario, f"value/{name}", step + 1, values)
            return found or "its parameters were turned while it ran, so that its steps cannot be made again"

        ask_why(self.app, again, "making its steps again…")
