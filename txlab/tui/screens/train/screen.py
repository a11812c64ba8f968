"""Screen 3, Train: the curves of one run, its numbers, what it writes, and the hands on it.

Notable: the screen follows the live edge or a step of the recording (`at`), and everything on it follows that. Requests
are answered by the run in its own log; until then they stand there as "asked…".
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content

from txlab.errors import LabError
from txlab.runs.directory import LOST_AFTER
from txlab.tui.formatting import STATES, duration, significant
from txlab.tui.history import answered
from txlab.tui.run_summary import GOING
from txlab.tui.screens.base_screens import Rule, RunScreen
from txlab.tui.screens.train.chart import ChartScreen
from txlab.tui.screens.train.text import Pending, brief, header, log_lines, nearest_sample, samples_text
from txlab.tui.screens.words import Words
from txlab.tui.theme import glyphs
from txlab.tui.train_snapshot import Look, Snapshot, snapshot
from txlab.tui.widgets.chart import Chart
from txlab.tui.widgets.facts import FactTable
from txlab.tui.widgets.timeline import TimeLine

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.runs.reader import RunReader

CLOCK = 1.0  # seconds between two readings of a run that does not move, for the clock in the header
# A chart of 120 × 40 whose axis grows changes in every cell, 12 kB: at four a second the terminal got 48 kB/s, at one a
# second 22, and 20 is what a slow line takes (benchmarks/tui_latency.py).
CHART_EVERY = 1.5  # seconds
STATED = {"compute", "frames", "memory_mb", "seconds_left"}  # facts that are read, not computed by a formula


class Log(Words):
    """What happened; how many lines of it are said depends on how many there are."""

    def on_resize(self) -> None:
        if isinstance(self.screen, TrainScreen):
            self.screen.show_words()


class TrainScreen(ChartScreen):
    """Curves, facts, samples, log and controls of the app's current run."""

    CSS_PATH = "train.tcss"
    AUTO_FOCUS = "#facts"
    HELP_ABOUT = (
        "The curve follows the run; [ and ] go through what was recorded, and everything follows. "
        "Up and down choose a number, w says why it is what it is. What you change is written into the run's log."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "pause", id="run.pause", key_display="space"),
        Binding("full_stop", "step", "step", id="run.step", key_display="."),
        Binding("x", "stop", "stop", id="run.stop"),
        Binding("r", "resume", "resume", id="train.resume"),
        Binding("v", "side", "numbers", id="train.side"),
        Binding("left_square_bracket", "timeline('earlier')", "earlier, later", id="time.earlier", key_display="[ ]"),
        Binding("right_square_bracket", "timeline('later')", "later", id="time.later", key_display="]", show=False),
        Binding("w", "why", "why", id="screen.why"),
        Binding("minus", "scale_lr(0.8)", "lr", id="train.lr-down", key_display="- +"),
        Binding("plus,equals_sign", "scale_lr(1.25)", "lr up", id="train.lr-up", key_display="+", show=False),
        Binding("tab", "metric(1)", "metric", id="train.metric-next", key_display="tab"),
        Binding("shift+tab", "metric(-1)", "metric before", id="train.metric-previous", show=False),
        Binding("l", "log_x", "log x", id="train.log-x", key_display="l"),
        Binding("L", "log_y", "log y", id="train.log-y", key_display="L"),
        Binding("m", "smooth", "smooth", id="train.smooth"),
        Binding("z", "zoom(0.5)", "zoom", id="train.zoom-in"),
        Binding("Z,backspace", "zoom(2.0)", "zoom out", id="train.zoom-out", show=False),
        Binding("o", "overlay", "overlay", id="train.overlay"),
        Binding("c", "checkpoint", "checkpoint", id="train.checkpoint"),
        Binding("e", "set", "set a parameter", id="train.set", show=False),
        Binding("t", "choose_metric", "choose a metric", id="train.metric", show=False),
        Binding("left", "across(-1)", "cursor or pan left", id="train.left", show=False),
        Binding("right", "across(1)", "cursor or pan right", id="train.right", show=False),
        Binding("escape", "whole", "whole curve", id="train.whole", show=False),
        Binding(
            "less_than_sign", "compare(-1)", "compare samples", id="train.compare-earlier", key_display="<", show=False
        ),
        Binding(
            "greater_than_sign", "compare(1)", "compare later", id="train.compare-later", key_display=">", show=False
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.read_at = self.shown_at = 0.0
        self.shown: tuple[object, ...] = ()
        self.beside: int | None = None
        self.pending: dict[str, Pending] = {}

    def compose_body(self) -> ComposeResult:
        yield Words(id="header")
        yield Rule()
        with Horizontal(id="panels"):
            with Vertical(id="chart-panel"):
                yield Words(id="brief")
                chart = Chart(id="chart")
                chart.can_focus = False  # its keys are the screen's
                yield chart
            with Vertical(id="side"):
                yield FactTable(id="facts")
                yield Rule()
                with VerticalScroll(id="samples", can_focus=False):
                    yield Words(id="samples-text")
        yield Rule()
        yield Log(id="log")
        yield TimeLine(id="timeline")

    def on_mount(self) -> None:
        super().on_mount()
        if self.run_path is None:
            self.say_no_run()

    def say_no_run(self) -> None:
        self.put("header", Content.styled("No run is chosen: press 1, then enter on a scenario or a run.", "$quiet"))
        self.put("log", "")

    # Reading, in a thread.

    def run_changed(self) -> None:
        self.snap, self.beside, self.pending, self.shown = None, None, {}, ()
        self.look = Look()
        if self.run_path is None:
            self.say_no_run()
        else:
            self.put("header", Content.styled(f"reading {self.run_path.name}…", "$quiet"))

    def read(self, reader: RunReader, changed: bool) -> Snapshot | None:
        now = time.monotonic()
        if not changed and now - self.read_at < CLOCK:
            return None
        if not changed and self.snap is not None and reader.state.status not in (*GOING, "lost"):
            return None
        self.read_at = now
        return snapshot(reader, self.look, self.app.reader_for)  # type: ignore[attr-defined]

    # Showing, on the event loop.

    def put(self, name: str, content: Content | str) -> None:
        self.query_one(f"#{name}", Words).say(content, layout=name == "samples-text")

    def show(self, snap: Snapshot) -> None:
        known, self.snap = self.snap, snap
        for ident in answered(snap.entries):
            self.pending.pop(ident, None)
        if not self.look.metric:  # otherwise a key may have chosen another one meanwhile
            self.look = Look(snap.metric, self.at, self.look.overlays)
        line = self.query_one(TimeLine)
        line.set_frames(snap.frames, snap.steps, snap.step, snap.checkpoints, snap.state.status not in GOING)
        self.query_one(FactTable).set_facts(snap.facts)
        self.show_curves(snap)
        self.show_words()
        if known is None or known.state.status != snap.state.status:
            self.refresh_bindings()

    def show_curves(self, snap: Snapshot) -> None:
        """At once if it is another picture; the same one, a little longer, at most every CHART_EVERY seconds."""
        shown = (snap.metric, len(snap.lines), self.look.overlays, snap.state.status, snap.complete)
        now = time.monotonic()
        if shown != self.shown or now - self.shown_at >= CHART_EVERY:
            self.shown, self.shown_at = shown, now
            self.show_chart(snap)

    def show_words(self) -> None:
        """Header, brief, samples and log: cheap, so also when only a key was pressed."""
        snap, signs = self.snap, glyphs(self.ascii)
        if snap is None:
            return
        self.put("header", header(snap, self.at, signs))
        self.put("brief", brief(snap, self.size.width - 2))
        room = self.query_one("#samples").scrollable_content_region
        cells = max(10, room.width - 1)
        kind = str(snap.scenario.get("kind", ""))
        self.put("samples-text", samples_text(snap.samples, self.at, self.beside, cells, signs, room.height, kind))
        log = self.query_one("#log", Words)
        lines = max(1, log.size.height)
        self.put("log", log_lines(snap.entries, self.pending, self.at, lines, time.time(), self.gone()))

    def gone(self) -> str:
        """Why nobody will answer, or ""."""
        state = self.snap.state if self.snap else None
        if state is None or state.status in ("running", "paused", "created"):
            return ""
        age = state.heartbeat_age
        beat = f" (heartbeat {duration(age)} old)" if age is not None and age > LOST_AFTER / 10 else ""
        return f"the run is {'gone' if state.status == 'lost' else STATES.get(state.status, state.status)}{beat}"

    def on_resize(self) -> None:
        self.call_after_refresh(self.show_words)

    # The time line.

    @on(TimeLine.Moved)
    def time_moved(self, event: TimeLine.Moved) -> None:
        self.at = None if event.live else event.step
        self.moved()

    def moved(self) -> None:
        self.look = Look(self.look.metric, self.at, self.look.overlays)
        self.query_one(Chart).marker = self.at
        self.show_words()
        self.wants_read()

    # Controls.

    def paused(self) -> bool:
        return self.snap is not None and self.snap.state.status == "paused"

    def word_for(self, binding: Binding) -> str:
        if binding.id == "run.pause" and self.paused():
            return "go on"
        if binding.id == "time.earlier" and self.snap is not None and not len(self.snap.frames):
            return ""
        return binding.description

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        status = self.snap.state.status if self.snap else ""
        controls = ("pause", "step", "stop", "checkpoint", "scale_lr", "set", "resume")
        if action in controls and self.snap and self.snap.recorded:
            return False
        if action == "resume":
            return status in ("lost", "failed", "stopped", "interrupted")
        if action == "scale_lr" and self.snap and self.snap.values and "lr" not in self.snap.values:
            return False  # a run that has no such rate
        if action in controls:
            return status in ("running", "paused", "created", "")
        if action == "side":
            return self.has_class("-narrow") or self.has_class("-tiny")
        return True

    @on(RunScreen.Asked)
    def asked(self, event: RunScreen.Asked) -> None:
        request = event.request
        sign = {"set": "→", "scale": "×"}.get(request.request)
        words = f"{request.key} {sign} {significant(request.value)}" if sign else request.request
        self.pending[event.ident] = Pending(words, time.time())
        self.show_words()

    def action_checkpoint(self) -> None:
        self.ask("checkpoint")

    def action_resume(self) -> None:
        if self.paused():
            self.ask("resume")
        elif self.run_path is not None:
            path = self.run_path
            self.tell(f"{path.name}: {STATES['created']}")

            def begin() -> None:
                from txlab.runs.process import start_detached

                start_detached(path)

            self.run_worker(begin, thread=True, group="start", exit_on_error=False)

    def action_scale_lr(self, factor: float) -> None:
        """Turn the peak of the schedule by a factor; the rate that the facts show goes with it."""
        self.ask("scale", key="lr", value=factor)

    def action_set(self) -> None:
        """Any adjustable parameter: `name = value`."""
        from txlab.tui.screens.dialogs import AskValue

        def check(text: str) -> str:
            name, value = parse_setting(text)
            return f"{name} becomes {significant(value)} at the next step; the run says if it may"

        def send(text: str | None) -> None:
            if text:
                name, value = parse_setting(text)
                self.ask("set", key=name, value=value)

        lr = self.snap.values.get("lr") if self.snap else None
        start = f"lr = {lr:.3g}" if lr is not None else ""
        self.app.push_screen(AskValue("Set a parameter of the run", "name = value", start, check), send)

    def action_side(self) -> None:
        self.toggle_class("-side")
        if self.has_class("-side"):
            self.query_one(FactTable).focus()
        self.call_after_refresh(self.show_words)

    # Samples.

    def action_compare(self, by: int) -> None:
        """< puts the sample before beside the one looked at, and goes further back; > comes back."""
        if self.snap is None:
            return
        steps = list(self.snap.samples)
        now = nearest_sample(steps, self.at)
        if now is None or len(steps) < 2:
            self.tell("there is nothing to compare yet: one sample at most")
            return
        place = steps.index(self.beside if self.beside in steps else now) + by
        beside = steps[max(0, min(place, len(steps) - 1))]
        self.beside = None if beside == now else beside
        self.show_words()

    # Why.

    def action_why(self) -> None:
        """The number chosen in the column of facts, explained by the experiment's own code."""
        from txlab.tui.widgets.why import ask_why

        snap, fact = self.snap, self.query_one(FactTable).chosen
        if snap is None or fact is None:
            self.tell("there is no number yet")
            return
        if fact.key in STATED or not fact.key or self.said_why(fact.key):
            self.tell(self.said_why(fact.key) or f"{fact.name} is counted, not computed")
            return
        step, key = self.at if self.at is not None else snap.step, fact.key
        ask_why(self.app, lambda: explain(snap, key, step))

    def said_why(self, key: str) -> str:
        """Why it is computed as it is: what the probe measured."""
        compute = self.snap.about.get("compute") if self.snap and key == "compute" else None
        why = compute.get("why") if isinstance(compute, dict) else None
        return "; ".join(str(reason) for reason in why) if isinstance(why, list) else ""


def explain(snap: Snapshot, key: str, step: int) -> Explanation | None:
    """The experiment's answer for one metric, with what run.json knows of machine and corpus."""
    from txlab.experiments.explanations import explain_metric

    return explain_metric(dict(snap.scenario), key, step, dict(snap.values), dict(snap.about))


def parse_setting(text: str) -> tuple[str, float]:
    """(name, value) of "name = value"; raises LabError with what is wrong."""
    name, equals, raw = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise LabError("write it as name = value, for example lr = 1e-4")
    try:
        value = float(raw)
    except ValueError:
        raise LabError(f"{raw.strip()!r} is not a number") from None
    if not np.isfinite(value):
        raise LabError(f"{raw.strip()} is not a finite number")
    return name, value
