"""Screen 8, Descent: a typed function, and several methods that minimise it, side by side.

It shows one frame (`shown`) over the `ground`: f in the camera's view. Notable: f and every step are computed in
threads; the event loop only draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from txlab.drawing.captions import functions as captions
from txlab.drawing.scatter import Camera
from txlab.drawing.text import fit, formula
from txlab.engine.descent.known import KNOWN
from txlab.sources.source import Source
from txlab.tui.bindings import WHY, bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.playback import Playback
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.descent.functions import FunctionPanel
from txlab.tui.screens.descent.map import MapPanel
from txlab.tui.screens.descent.methods import MethodsPanel
from txlab.tui.screens.descent.shown import (
    Ground,
    Shown,
    camera_around,
    camera_of,
    following,
    ground_of,
    read_shown,
)
from txlab.tui.screens.descent.view import LABELS
from txlab.tui.screens.plain_text import Parts
from txlab.tui.session import Session
from txlab.tui.widgets.why import ask_why

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.tui.screens.descent.live import LiveDescent

FIRST_STEPS = 60  # made before the first picture, so that there is something to see
PACE, FASTEST = 15.0, 250.0  # steps a second; without a limit some 400, and keys would wait three times as long
RECORDED = "this is a recorded run: esc goes back to the live methods"


class DescentScreen(BenchScreen):
    """Opens with Rosenbrock's valley and four methods on their way down."""

    CSS_PATH = "descent.tcss"
    AUTO_FOCUS = ""
    HELP_ABOUT = (
        "Several methods minimise the same function. t types a function of x, or of x and y; o lists well-known ones. "
        "For two variables the map shows f by colour, closest to the background where f is low, and the path of each "
        "method ends at its letter; for one variable it shows the graph, with the tangent of the chosen method. "
        "Arrows move a cursor, enter starts there, z and Z zoom in and out. Space runs, . makes a step, , takes one "
        "back, n starts again. Tab chooses a method, m includes or excludes it, p chooses what - and + change: the "
        "pace, or a parameter of the method, also while it runs. w explains its last step."
    )
    PANELS: ClassVar[tuple[type[Panel], ...]] = (MapPanel, MethodsPanel, FunctionPanel, Playback)
    KEY_ORDER: ClassVar[tuple[str, ...]] = (
        "run.pause", "run.step", "descent.begin", "descent.type", "descent.open", "descent.next", "descent.turn",
        "descent.less", "run.slower", "screen.why", "descent.toggle", "descent.closer", "descent.new", "descent.view",
        "run.back", "time.earlier", "descent.leave",
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        WHY,
        bind("escape", "leave", "put the cursor away, or leave the recorded run", "done", id="descent.leave"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.session: Session[LiveDescent] = Session(self, pace=PACE, pictures=10.0, record=False)
        self.shown: Shown | None = None
        self.ground: Ground | None = None
        self.computing = LatestTask(self, "ground", self.show_failure)
        self.asked: tuple[object, ...] = ()  # the ground being computed
        self.home = self.camera = camera_of(KNOWN[0])
        self.place: tuple[object, ...] = ()  # the source and the function for which the camera was placed
        self.fresh = True  # the chosen method is that of another source
        self.chosen = 0
        self.turned = ""  # the target of - and +: a parameter of the chosen method; "" = the pace
        self.playback = Playback(
            self,
            lambda kind: kind.screen == "descent",
            self.session,
            fastest=FASTEST,
            hint=RECORDED,
            title=self.title_of,
        )
        self.map = MapPanel(self)
        self.methods, self.functions = MethodsPanel(self, self.map), FunctionPanel(self, self.map)

    def compose_body(self) -> ComposeResult:
        yield self.playback.header
        yield Rule()
        with Horizontal(id="panels"):
            yield self.map
            yield self.methods
        yield from (self.functions, self.playback)

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")

        def first(before: LiveDescent | None) -> LiveDescent:
            from txlab.tui.screens.descent.live import live

            descent = live(KNOWN[0].f, KNOWN[0].start, KNOWN[0])
            for _ in range(FIRST_STEPS):
                descent.step()
            return descent

        self.session.begin(first)

    def show_failure(self, sentence: str) -> None:
        self.tell(sentence, "error")

    def begin(self, make: Callable[[LiveDescent], LiveDescent], run: bool = True) -> None:
        """Begin with other methods, another function or another start; the present ones stay if that is impossible."""

        def work(old: LiveDescent | None) -> LiveDescent:
            assert old is not None
            return make(old)

        self.playback.go_live()
        self.session.begin(work, run=run)

    # The view of its Playback.

    def source_changed(self) -> None:
        self.fresh, self.map.cursor = True, None

    def read(self, source: Source, at: int | None, changed: bool) -> Shown | None:
        return read_shown(source.frame(at)) if changed else None

    def show(self, shown: Shown) -> None:
        before, self.shown = self.shown, shown
        place = (self.playback.source, shown.key)
        if place != self.place:
            self.place = place
            self.look_from(self.first_camera(shown))
        if self.fresh:
            on = [walker.number for walker in shown.walkers if walker.on]
            self.fresh, self.chosen = False, self.chosen if self.chosen in on else on[0] if on else 0
        self.chosen = min(self.chosen, len(shown.walkers) - 1)
        if before is not None and before.one != shown.one:
            self.map.cursor = None
        self.want_ground()
        self.show_all()

    def first_camera(self, shown: Shown) -> Camera:
        """The camera of a known function; for others, one that shows the start of the methods."""
        methods = self.session.picture.experiment if self.session.picture is not None else None
        if self.playback.can_edit and methods is not None and methods.known is not None:
            return camera_of(methods.known)
        return camera_around([point for each in shown.walkers for point in each.path[:1]])

    def look_from(self, camera: Camera) -> None:
        self.home = self.camera = camera
        self.map.follows = True
        self.map.view.reserved = self.methods.small.reserved = LABELS

    def title_of(self, spare: int, most: int) -> Parts:
        """`f(x, y) = (1 - x)**2 + …`"""
        shown = self.shown
        if shown is None:
            return [("loading the engine…", "")]
        names = shown.names[:1] if shown.one else ", ".join(shown.names)
        formula_text = fit(formula(f"f({names}) = {shown.f}", self.ascii), most, ellipsis="~" if self.ascii else "…")
        return [(formula_text.rstrip(), "bold")]

    # Drawing.

    def want_ground(self) -> None:
        """Compute f in the camera's view, unless it is known or being computed."""
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
        self.map.show()
        self.methods.show()
        if self.shown is not None:
            self.caption.say(captions.descent(self.shown.frame))
        self.playback.pace_chosen = not self.turned
        self.playback.show_header()

    def on_resize(self) -> None:
        self.call_after_refresh(self.fit_size)

    def fit_size(self) -> None:
        if self.is_attached:
            self.want_ground()
            self.show_all()
            self.refresh_bindings()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "leave":
            return self.map.cursor is not None or not self.playback.can_edit
        return super().check_action(action, parameters)

    def word_for(self, binding: Binding) -> str:
        if binding.id == "descent.leave" and not self.playback.can_edit and self.map.cursor is None:
            return "live methods"
        return super().word_for(binding)

    def action_leave(self) -> None:
        """Remove the cursor; from a recorded run, go back to the live methods."""
        if self.map.cursor is not None:
            self.map.cursor = None
            self.show_all()
        else:
            self.playback.go_live()
        self.refresh_bindings()

    def action_why(self) -> None:
        """Explain the last step of the chosen method."""
        shown, chosen, source = self.shown, self.chosen, self.playback.source
        if shown is None or source is None or not shown.walkers[chosen].on:
            self.tell("this method takes no part, so it has made no step; m lets it")
            return
        if source.can_edit:
            ask_why(self.app, lambda: source.ask(lambda methods: methods.why(chosen)), "asking the method…")
            return
        walker, step = shown.walkers[chosen], shown.frame.step
        name, here = walker.name, walker.path[-1].tolist()
        values = {f"{axis}/{name}": x for axis, x in zip("xy", here, strict=False)}
        values[f"value/{name}"] = walker.tangent.value if walker.tangent is not None else float("nan")

        def again() -> Explanation | str:
            from txlab.experiments.kind import explain_metric

            explanation = explain_metric(source.scenario, f"value/{name}", step + 1, values)
            return explanation or "its parameters were changed while it ran, so its steps cannot be repeated"

        ask_why(self.app, again, "making its steps again…")
