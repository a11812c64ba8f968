"""Screen 9, Playground: a small network learns points in the plane, every neuron is a picture, and everything may be
changed while it learns.

Notable: all pictures of a frame come from one pass over a grid, made by the thread that learns; this screen only draws.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content

from txlab.drawing.captions import functions as captions
from txlab.drawing.formatting import fixed
from txlab.drawing.text import formula, visible
from txlab.engine.feedforward.plane import CLASSES, FEATURES, REGRESSIONS
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.sources.recorded import Recorded
from txlab.sources.source import Source
from txlab.tui.bindings import MOVING, WHY, bind
from txlab.tui.key_order import run_in_thread
from txlab.tui.panel import Panel
from txlab.tui.playback import Playback
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.screens.dialogs import AskValue, Choose
from txlab.tui.screens.plain_text import Words
from txlab.tui.screens.playground import text
from txlab.tui.screens.playground.description import DescriptionDialog
from txlab.tui.screens.playground.knobs import KnobsPanel
from txlab.tui.screens.playground.shown import Shown, cell_of, neighbour
from txlab.tui.screens.playground.views import AnswerView, NetworkView, signs_of
from txlab.tui.session import Session
from txlab.tui.widgets.chart import Chart, ChartSeries
from txlab.tui.widgets.why import ask_why

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.experiments.kinds.playground.experiment import Playground

BEGIN = "playground-spiral"
PACE = 60.0  # updates a second, slow enough to watch
ENDLESS = 10_000_000  # steps
MOST_GRID = 64  # squares of the plane in each direction; further pixels are repeated
PICTURES = 20.0  # a second
RECORDED = "this is a recorded run: l continues by hand from this step"
CHART = 8  # fewest lines of a useful curve
ABOUT_DATA = {
    "circle": "a disc in a ring", "xor": "whether x and y have the same sign", "clouds": "two Gaussian clouds",
    "spiral": "two arms", "plane": "a number: (x + y) / 10", "bumps": "a number: six cones, up and down",
}  # fmt: skip


class PlaygroundScreen(BenchScreen):
    """`cursor` is the name of the chosen neuron, `chosen` counts its weights, `cell` is the cursor in the answer."""

    CSS_PATH = "playground.tcss"
    FOLDS_IN_HALL = False
    AUTO_FOCUS = ""
    HELP_ABOUT = (
        "Each small picture is a neuron's output over the plane: amber above zero, blue below. The lines are weights, "
        "dashed below zero; those into the neuron under the cursor are bright, with their numbers below. The large "
        "picture is the network's output, with the data: full points are trained on, hollow ones are not. Space runs; "
        "p chooses what - and + change. x switches a neuron off, or an input on; tab moves to the next weight and e "
        "edits it; a adds points, t shows the network as text, which can be any graph. w is the sum of a neuron at "
        "the point chosen last."
    )
    PANELS: ClassVar[tuple[type[Panel], ...]] = (KnobsPanel, Playback)
    KEY_ORDER = (
        *("run.branch", "playground.leave", "playground.drop", "playground.side", "run.pause", "run.step"),
        *("playground.knob", "playground.less", "playground.switch", "playground.weight", "playground.edit"),
        *("playground.data", "screen.why", "playground.add", "playground.text", "playground.view", "playground.large"),
        *("playground.new", "time.earlier"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("n", "new", "begin again with other weights", "begin again", id="playground.new"),
        bind(
            "x",
            "switch",
            "switch this neuron off or on, or add an input",
            "on/off",
            id="playground.switch",
            synonyms="ablate feature",
        ),
        bind("tab", "weight(1)", "go to the next weight of this neuron", "weight", id="playground.weight"),
        bind("shift+tab", "weight(-1)", "go to the weight before", id="playground.weight-before"),
        bind("e", "edit", "type this weight", "edit it", id="playground.edit"),
        bind(
            "o",
            "data",
            "choose the data",
            "data",
            id="playground.data",
            synonyms="circle xor spiral regression",
        ),
        WHY,
        bind("a", "add", "put points into the plane", "add points", id="playground.add"),
        bind("enter", "drop", "put a point here", "put it here", id="playground.drop"),
        bind("m", "side", "put points of the other class", "other class", id="playground.side"),
        bind("d", "forget", "take the nearest point by hand away", "take it away", id="playground.forget"),
        bind(
            "escape",
            "leave",
            "end this mode; from a recording, back to the network here",
            "done",
            id="playground.leave",
        ),
        bind(
            "t",
            "text",
            "show the network as text, and change it",
            "as text",
            id="playground.text",
            synonyms="graph dag description",
        ),
        bind("v", "view", "show activations, pre-activations, or gradients", "view", id="playground.view"),
        bind("z", "large", "show this neuron large instead of the output", "larger", id="playground.large"),
        bind("up,k", "move(-1, 0)", "cursor up", id="playground.up", heading=MOVING),
        bind("down,j", "move(1, 0)", "cursor down", id="playground.down", heading=MOVING),
        bind("left,h", "move(0, -1)", "cursor left", id="playground.left", heading=MOVING),
        bind("right", "move(0, 1)", "cursor right", id="playground.right", heading=MOVING),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.session: Session[Playground] = Session(self, pace=PACE, pictures=PICTURES)
        self.shown: Shown | None = None
        self.network, self.answer = NetworkView(id="network"), AnswerView(id="answer")
        self.playback = Playback(
            *(self, lambda kind: kind.screen == "playground", self.session),
            unit="update",
            hint=RECORDED,
            branch=self.go_on_by_hand,
        )
        self.knobs = KnobsPanel(self)
        self.cursor, self.chosen = "", 0
        self.adding, self.target = False, 1.0
        self.point = (1.5, 1.5)  # explained by w
        self.large = False  # the neuron under the cursor instead of the answer
        self.grid = 0
        self.lines = 1  # of the answer, once it is laid out

    def compose_body(self) -> ComposeResult:
        yield Words(id="header")
        yield self.knobs
        with Horizontal(id="panes"):
            yield self.network
            with Vertical(id="side"):
                yield self.answer
                chart = Chart(id="curve")
                chart.can_focus = False
                chart.log_y = True
                yield chart
        yield Words(id="neuron")
        yield self.playback

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        self.query_one("#header", Words).say(Content.styled("making the points…", "$quiet"))

        def first(_: Playground | None) -> Playground:
            from txlab.experiments.kinds.playground import KIND
            from txlab.experiments.kinds.playground.experiment import Playground
            from txlab.runs.scenario import load_scenario

            scenario = load_scenario(BEGIN, [f"train.steps={ENDLESS}"]).scenario
            return self.in_view(Playground(KIND.resolve(scenario)))

        self.session.begin(first)

    def in_view(self, experiment: Playground) -> Playground:
        experiment.grid = self.grid or experiment.grid
        return experiment

    # The view of its Playback.

    def source_changed(self) -> None:
        self.adding = False

    def read(self, source: Source, at: int | None, changed: bool) -> Shown | None:
        return Shown.of(source.frame(at)) if changed else None

    def show(self, shown: Shown) -> None:
        before, self.shown = self.shown, shown
        if not any(self.cursor in column for column in shown.columns):
            self.cursor, self.chosen = shown.out, 0
        if before is None or before.facts.get("classes") != shown.facts.get("classes"):
            self.refresh_bindings()
        self.caption.say(captions.playground(shown.frame))
        self.draw()
        self.draw_curve()

    def draw_curve(self) -> None:
        source, chart = self.playback.source, self.query_one("#curve", Chart)
        if chart.display and source is not None:
            loss, test = source.series("loss"), source.series("val_loss")
            chart.set_series(
                [
                    ChartSeries("loss", loss.steps, loss.values),
                    ChartSeries("test", test.steps, test.values, style="dashed"),
                ]
            )

    # Drawing.

    def draw(self) -> None:
        shown = self.shown
        if shown is None or not self.is_attached or not self.size.width:
            return
        sources = [source for source, _ in shown.incoming(self.cursor)] if self.cursor in shown.activations else []
        source = sources[self.chosen] if self.chosen < len(sources) else ""
        lines, cells = self.answer.area
        self.network.show(shown, self.cursor, source, 1 + self.lines // 2)
        name = self.cursor if self.large else shown.out
        sign = formula(FEATURES[name][0], self.ascii) if name in FEATURES else name
        own, other = signs_of("train", self.ascii), signs_of("test", self.ascii)
        signs = f"{' '.join(own)} train  {' '.join(other)} test"
        heads: tuple[str, ...] = (
            f"{'answer' if name == shown.out else sign}   {signs}",
            signs,
        )  # which picture it is can be seen
        marker = own[self.target <= 0]
        if self.adding:
            x, y = self.point
            heads = (f"({fixed(x, 1)}, {fixed(y, 1)})  enter puts {marker} here, m {own[self.target > 0]}",)
        here = cell_of(*self.point, lines, cells) if self.adding else None
        self.answer.show(shown, name, heads, self.large or self.cursor == shown.out, here, marker)
        self.show_words()

    def show_words(self) -> None:
        shown, source = self.shown, self.playback.source
        assert shown is not None
        state = f"run {source.name}" if source is not None and source.name else self.playback.state()
        cells = self.size.width - 2
        self.query_one("#header", Words).say(text.header(shown, visible(state), cells, self.ascii))
        self.knobs.show()
        words = self.query_one("#neuron", Words)
        lines = max(1, words.size.height)
        words.say(text.about(shown, self.cursor, self.chosen, cells, lines, self.ascii))

    def on_resize(self) -> None:
        self.call_after_refresh(self.lay_out)

    def room_changed(self) -> None:
        self.call_after_refresh(self.lay_out)

    def lay_out(self) -> None:
        """Give the answer as much as leaves the network more than half, and the curve the rest below it."""
        if not self.is_attached:
            return
        room, width = self.query_one("#panes").size.height, self.size.width - 2
        share = width if self.has_class("-tiny") else int(0.42 * width)
        lines = max(1, min(room - 1, share // 2))
        if room >= 3 * CHART and room - 1 - lines < CHART:
            lines = room - 1 - CHART
        self.set_class(self.large and self.has_class("-tiny"), "-large")
        self.lines = lines
        self.answer.styles.width, self.answer.styles.height = 2 * lines, lines + 1
        chart = self.query_one("#curve", Chart)
        chart.styles.width = 2 * lines
        chart.display = room - 1 - lines >= CHART - 1
        self.grid = max(8, min(2 * lines, MOST_GRID))
        self.session.edit(lambda experiment: self.in_view(experiment), "grid")
        self.call_after_refresh(self.draw)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("drop", "side", "forget"):
            return self.adding
        if action == "leave":
            return self.adding or self.large or not self.playback.can_edit
        if action in ("weight", "edit", "switch", "text", "large", "view", "data", "new", "add") and self.adding:
            return action in ("add", "new", "data")
        return super().check_action(action, parameters)

    def word_for(self, binding: Binding) -> str:
        ident = binding.id or ""
        recorded = not self.playback.can_edit
        if recorded and ident in ("playground.switch", "playground.edit", "playground.add", "playground.data"):
            return ""
        if ident == "playground.leave" and recorded:
            return "the network here"
        if ident == "playground.add" and self.adding:
            return ""
        return super().word_for(binding)

    def order(self, work: Callable[[Playground], object]) -> None:
        if self.playback.ready():
            self.session.edit(work)

    def action_new(self) -> None:
        self.order(lambda experiment: experiment.again())

    def action_move(self, down: int, right: int) -> None:
        if self.shown is None:
            return
        if self.adding:
            lines, cells = self.answer.area
            line, column = cell_of(*self.point, lines, cells)
            self.point = self.answer.at((max(0, min(line + down, lines - 1)), max(0, min(column + right, cells - 1))))
        else:
            self.cursor, self.chosen = neighbour(self.shown.columns, self.cursor, down, right), 0
        self.draw()

    @on(NetworkView.Pointed)
    def neuron_pointed(self, event: NetworkView.Pointed) -> None:
        self.cursor, self.chosen = event.name, 0
        self.draw()

    @on(AnswerView.Pointed)
    def plane_pointed(self, event: AnswerView.Pointed) -> None:
        self.point = self.answer.at((event.line, event.column))
        if self.shown is not None and not self.adding and not self.large:
            self.cursor, self.chosen = self.shown.out, 0
        self.draw()

    def action_weight(self, by: int) -> None:
        shown = self.shown
        if shown is not None and self.cursor in shown.activations:
            self.chosen = (self.chosen + by) % (len(shown.incoming(self.cursor)) + 1)
            self.draw()

    def action_switch(self) -> None:
        name = self.cursor
        self.order(lambda experiment: experiment.switch(name))

    def action_edit(self) -> None:
        """Type the chosen weight, or the bias."""
        shown, name = self.shown, self.cursor
        if shown is None or not self.playback.ready():
            return
        if name not in shown.activations:
            self.tell("an input has no weights; the wires from it belong to the neurons that they lead to")
            return
        edges = shown.incoming(name)
        source, value = edges[self.chosen] if self.chosen < len(edges) else (None, shown.bias(name))

        def number(typed: str) -> float:
            try:
                value = float(typed.replace("−", "-"))
            except ValueError:
                raise LabError(f"{typed[:30]!r} is not a number; write one such as -0.5") from None
            if not abs(value) <= 1e6:
                raise LabError("a weight is at most a million")
            return value

        def take(typed: str | None) -> None:
            if typed is not None:
                self.order(lambda experiment: experiment.set_weight(name, source, number(typed)))

        what = f"from {source} to {name}" if source is not None else f"the bias of {name}"
        title = f"Weight {what}" if source is not None else f"The bias of {name}"
        about = "it continues learning from there"
        self.app.push_screen(AskValue(title, about, f"{value:.4g}", lambda typed: f"= {number(typed):g}"), take)

    def action_data(self) -> None:
        if not self.playback.ready():
            return
        now = self.shown.facts.get("data") if self.shown is not None else ""
        rows = [(name, ABOUT_DATA[name], name == now) for name in (*CLASSES, *REGRESSIONS)]

        def take(name: str | None) -> None:
            if name is not None:
                self.order(lambda experiment: experiment.use_data(name))

        self.app.push_screen(Choose("Which points?", rows), take)

    # Points by hand.

    def action_add(self) -> None:
        if self.playback.ready():
            self.adding = not self.adding
            self.refresh_bindings()
            self.draw()

    def action_drop(self) -> None:
        (x, y), target = self.point, self.target
        self.order(lambda experiment: experiment.add_point(x, y, target))

    def action_side(self) -> None:
        self.target = -self.target
        self.draw()

    def action_forget(self) -> None:
        x, y = self.point
        self.order(lambda experiment: experiment.remove_point(x, y))

    def action_leave(self) -> None:
        """Leave the points, the large picture, or the recorded run, one after the other."""
        if self.adding:
            self.adding = False
        elif self.large:
            self.action_large()
        else:
            self.playback.go_live()
        self.refresh_bindings()
        self.draw()

    # Other views.

    def action_large(self) -> None:
        """Show the neuron under the cursor instead of the answer, and back."""
        self.large = not self.large
        if self.has_class("-tiny"):
            self.set_class(self.large, "-large")
            self.lay_out()
        self.draw()
        self.refresh_bindings()

    def action_view(self) -> None:
        """Turn to pre-activations, to gradients of the answer, and back to activations."""
        if self.playback.ready():
            names = list(text.VIEWS)
            now = str(self.shown.facts.get("view")) if self.shown is not None else names[0]
            view = names[(names.index(now) + 1) % len(names)] if now in names else names[0]
            self.session.edit(lambda experiment: setattr(experiment, "view", view))

    def action_text(self) -> None:
        """Show the network as text; changes apply to the network."""
        if self.shown is None or not self.playback.ready():
            return
        session = self.session

        def ask() -> None:
            from txlab.engine.feedforward.graph import format_graph

            now = session.ask(lambda experiment: format_graph(experiment.model.present(), 4))
            self.app.call_from_thread(self.app.push_screen, DescriptionDialog(now), lambda typed: take(now, typed))

        def take(now: str, typed: str | None) -> None:
            if typed is not None and typed != now:
                self.order(lambda experiment: experiment.describe(typed))

        run_in_thread(self, ask, "text", exclusive=True)

    def go_on_by_hand(self, run: Recorded) -> None:
        """Continue from the shown recorded frame: its network, points and settings."""
        shown = self.shown
        if shown is None:
            return
        self.playback.go_live()
        self.session.begin(lambda _: self.in_view(resume_run(run.path, shown.frame)))
        self.tell("live now: its network, points and settings; space runs")

    def action_why(self) -> None:
        """The sum of the neuron under the cursor at the last chosen point."""
        shown, name, (x, y) = self.shown, self.cursor, self.point
        if shown is None:
            return
        frame, live = shown.frame, self.playback.present

        def ask() -> Explanation | None:
            if live:
                explanation: Explanation | None = self.session.ask(lambda experiment: experiment.explain(x, y, name))
                return explanation
            from txlab.experiments.kinds.playground.experiment import explain_frame_at

            return explain_frame_at(frame, x, y, name)

        ask_why(self.app, ask, "asking the network…", again=self.action_why)


def resume_run(path: Path, frame: Frame) -> Playground:
    """The experiment of a run, with the network, the points and the settings of a frame."""
    from txlab.experiments.kinds.playground import KIND
    from txlab.experiments.kinds.playground.experiment import Playground
    from txlab.runs.directory import RunDirectory
    from txlab.runs.models import scenario_of

    scenario: Any = scenario_of(RunDirectory(path))
    endless = scenario.model_copy(update={"train": scenario.train.model_copy(update={"steps": ENDLESS})})
    experiment = Playground(KIND.resolve(endless))
    experiment.go_on(frame)
    return experiment
