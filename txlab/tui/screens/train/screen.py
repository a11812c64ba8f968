"""Screen 3, Train: the curves of a run, its numbers, its samples, its log, and requests to it.

Everything on it shows either the live edge or a step of the recording (`run.at`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content

from txlab.drawing.text import visible
from txlab.experiments.kind import kind_of_run
from txlab.runs.summary import GOING
from txlab.tui.bindings import bind
from txlab.tui.playback import Playback
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.screens.plain_text import Words
from txlab.tui.screens.train.controls import ControlPanel
from txlab.tui.screens.train.curves import CurvePanel
from txlab.tui.screens.train.numbers import NumbersPanel
from txlab.tui.screens.train.text import header, sentence
from txlab.tui.train_snapshot import Look, Snapshot, snapshot
from txlab.tui.widgets.facts import FactTable
from txlab.tui.widgets.timeline import TimeLine

if TYPE_CHECKING:
    from txlab.sources.recorded import Recorded

CLOCK = 1.0  # seconds between two reads of an idle run, for the clock in the header


def deciding(snap: Snapshot) -> tuple[object, ...]:
    """The state that determines the keys on the bottom line."""
    return snap.state.status, len(snap.frames) > 0, "lr" in snap.values, snap.takes, len(snap.pictures.names) > 0


class TrainScreen(BenchScreen):
    """Curves, facts, samples, log and controls of the app's current run."""

    CSS_PATH = "train.tcss"
    AUTO_FOCUS = "#facts"
    HELP_ABOUT = (
        "The curve follows the run; [ and ] step through the recording, and the whole screen follows. Up and down "
        "choose a metric, w explains its value. Every change you make is written to the run's log."
    )
    PANELS = (Playback, ControlPanel, CurvePanel, NumbersPanel)
    KEY_ORDER = (
        *("run.pause", "run.step", "run.stop", "train.resume", "train.side", "time.earlier", "time.later"),
        *("screen.why", "train.lr-down", "train.lr-up"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "v", "side", "show the numbers instead of the curve, and images and histograms", "numbers", id="train.side"
        ),
        bind("g", "game", "play against what the run has learnt", "play", id="train.game"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.run = Playback(self, lambda kind: True)
        self.curves = CurvePanel()
        self.numbers = NumbersPanel(self.run)
        self.controls = ControlPanel(self.run)
        self.snap: Snapshot | None = None
        self.read_at = 0.0

    def compose_body(self) -> ComposeResult:
        yield Words(id="header")
        yield Rule()
        with Horizontal(id="panels"):
            yield self.curves
            yield self.numbers
        yield Rule()
        yield self.controls
        yield self.run

    def on_mount(self) -> None:
        self.source_changed()

    # The view of its Playback.

    def source_changed(self) -> None:
        self.snap = None
        self.caption.say(())
        for panel in (self.curves, self.numbers, self.controls):
            panel.forget()
        if self.run.path is not None:
            words = f"reading {self.run.path.name}…"
            self.query_one("#header", Words).say(Content.styled(visible(words), "$quiet"))

    def read(self, source: Recorded, at: int | None, changed: bool) -> Snapshot | None:
        reader = source.reader
        now = time.monotonic()
        if not changed and now - self.read_at < CLOCK:
            return None
        if not changed and self.snap is not None and reader.state.status not in (*GOING, "lost"):
            return None
        self.read_at = now
        look = Look(self.curves.metric, at, self.curves.overlays, self.numbers.picture)
        return snapshot(reader, look, self.app.reader_for)  # type: ignore[attr-defined]

    def show(self, snap: Snapshot) -> None:
        known, self.snap = self.snap, snap
        self.run.checkpoints = snap.checkpoints
        for panel in (self.curves, self.numbers, self.controls):
            panel.show(snap)
        self.show_words()
        if known is None or deciding(known) != deciding(snap):
            self.refresh_bindings()

    @on(TimeLine.Moved)
    def show_step(self) -> None:
        self.curves.chart.marker = self.run.at
        self.refresh_bindings()
        self.show_words()

    def show_words(self) -> None:
        """Redraw header, brief, samples and log: cheap enough for every key."""
        if self.snap is not None:
            words = header(self.snap, self.run.at, self.size.width - 2)
            self.query_one("#header", Words).say(words)
            self.curves.show_brief(self.snap, self.size.width - 2)
            self.numbers.show_samples()
            self.controls.draw()
            self.caption.say(sentence(self.snap, self.run.at))

    def on_resize(self) -> None:
        self.call_after_refresh(self.show_words)

    @on(CurvePanel.Changed)
    def other_curves(self) -> None:
        self.numbers.select(self.curves.metric)
        self.run.wants_read()

    @on(FactTable.Chosen)
    def draw_chosen(self, event: FactTable.Chosen) -> None:
        self.curves.follow(event.fact.key)

    @on(Playback.Asked)
    def take_request(self, event: Playback.Asked) -> None:
        self.controls.take_request(event)

    @property
    def folded(self) -> bool:
        """Whether the chart and the numbers do not fit side by side."""
        return self.has_class("-narrow") or self.has_class("-tiny")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "game":
            return self.snap is not None and bool(kind_of_run(self.snap.scenario.get("kind")).plays_from)
        if action == "side":
            return self.folded or bool(self.snap and self.snap.pictures.names)
        return super().check_action(action, parameters)

    def word_for(self, binding: Binding) -> str:
        if binding.id == "train.side" and self.snap and self.snap.pictures.names:
            return "pictures" if not self.folded or self.has_class("-side") else "numbers"
        return super().word_for(binding)

    async def action_game(self) -> None:
        """Play against the run's player, at the shown step."""
        if self.run.path is not None:
            name = self.run.path.name if self.run.at is None else f"{self.run.path.name}@{self.run.at}"
            await self.app.switch_mode("play")
            self.app.screen.open_run(name)  # type: ignore[attr-defined]

    def action_side(self) -> None:
        """Show the next image or histogram instead of the texts, and after the last the texts again. If they do not
        both fit, the numbers replace the chart first."""
        if self.folded and not self.has_class("-side"):
            self.add_class("-side")
            self.numbers.facts.focus()
        elif not self.numbers.next_picture() and self.folded:
            self.remove_class("-side")
        self.refresh_bindings()
        self.run.wants_read()
        self.call_after_refresh(self.show_words)
