"""Screen 4, Attention: every head at once, one head large, what comes next, and how it came to be so over the steps.

Notable: the screen draws what was recorded, or what a model does with a text that a person types, through one source
(attention_source.py), and computes nothing; `w` asks the engine. This file has the keys, the layout and the recording;
looking is in attention_looking.py, what a person switches in attention_hands.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from txlab.drawing.text import visible
from txlab.engine.explain import Explanation
from txlab.tui.run_summary import GOING
from txlab.tui.screens.attention.comparing import ComparingScreen
from txlab.tui.screens.attention.frame import Look, look
from txlab.tui.screens.attention.side import TABS, Question, explain_row
from txlab.tui.screens.attention.source import AttentionSource
from txlab.tui.screens.attention.words import HeadLine, legend
from txlab.tui.screens.base_screens import Rule
from txlab.tui.screens.words import Words
from txlab.tui.widgets.bars import Bars
from txlab.tui.widgets.heatmap import Heatmap
from txlab.tui.widgets.table import Table
from txlab.tui.widgets.tabs import TabLine
from txlab.tui.widgets.terminal import is_dark
from txlab.tui.widgets.thumbnails import Thumbnails
from txlab.tui.widgets.timeline import TimeLine
from txlab.tui.widgets.why import ask_why

if TYPE_CHECKING:
    from txlab.runs.reader import RunReader

NO_RUN = (
    "No run is chosen.",
    "Press 1 for the Lab, choose one and press enter; then come back with 4.",
    "Or press o to open a model: a run, or a folder with weights of others.",
)


class AttentionScreen(ComparingScreen):
    """Who looks at whom: at every recorded step of the app's current run, and in a model that one pokes at."""

    CSS_PATH = "attention.tcss"
    AUTO_FOCUS = "#pattern"
    HELP_ABOUT = (
        "A row is the token that looks, a column the token that is looked at; a row's weights sum to one. Under a "
        "small pattern stands what the head is called after: p previous token, i induction, with its score. The "
        "arrows move in the panel that has the focus (tab goes on to the next one), h and l change the head, j and k "
        "the layer. Typing a text or switching something opens the run's model at the newest checkpoint at or before "
        "the frame; beside it stands what comes next, before → now, and KL(before ‖ now). Esc goes back to the frames. "
        "w asks about what has the focus: a cell, a token that may come next, a row of the side; under edits, the KL."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "pause", id="run.pause", key_display="space"),
        Binding("h", "head(0, -1)", "head", id="attention.previous-head", key_display="h l"),
        Binding("l", "head(0, 1)", "next head", id="attention.next-head", show=False),
        Binding("j", "head(1, 0)", "layer", id="attention.next-layer", key_display="j k"),
        Binding("k", "head(-1, 0)", "layer above", id="attention.previous-layer", show=False),
        Binding("w", "why", "why", id="screen.why"),
        Binding("t", "text", "text", id="attention.text"),
        Binding("x", "switch_head", "head off", id="attention.switch-head"),
        Binding("m", "edge", "edge", id="attention.edge"),
        Binding("g", "heads", "heads", id="attention.heads"),
        Binding("i", "tab", "side", id="attention.tab"),
        Binding("a", "site", "site", id="attention.site"),
        Binding("left_square_bracket", "timeline('earlier')", "earlier, later", id="time.earlier", key_display="[ ]"),
        Binding("right_square_bracket", "timeline('later')", "later", id="time.later", key_display="]", show=False),
        Binding("v", "view", "view", id="attention.view"),
        Binding("c", "compare", "compare", id="attention.compare"),
        Binding("0", "reset", "reset", id="attention.reset"),
        Binding("escape", "leave_bench", "recording", id="attention.leave-bench", key_display="esc"),
        Binding("o", "open", "open", id="attention.open"),
        Binding("b", "block", "block", id="attention.block"),
        Binding("p", "patch", "patch", id="attention.patch"),
        Binding("e", "weight", "weight", id="attention.weight"),
        Binding("E", "errata", "errata", id="attention.errata"),
        Binding("plus,equals_sign", "scale(1)", "scale head", id="attention.scale-up", key_display="+ -"),
        Binding("minus", "scale(-1)", "scale head down", id="attention.scale-down", show=False),
        Binding("f", "first", "first token", id="attention.first-token"),
        Binding("n", "numbers", "numbers", id="attention.numbers"),
        Binding("delete,backspace", "remove", "take back", id="attention.remove", key_display="del"),
        Binding("full_stop", "step", "step", id="run.step", key_display="."),
        Binding("enter", "why", "why", id="attention.why", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.frames = 0  # how many there were when the frame that is drawn was read
        self.status = ""

    def compose_body(self) -> ComposeResult:
        yield HeadLine(id="headline")
        yield Rule()
        with Horizontal(id="panels"):
            yield Thumbnails(id="heads")
            yield Heatmap(id="pattern")
            yield Heatmap(id="other")
            yield Heatmap(id="difference")
            with Vertical(id="side"):
                yield Bars(id="next")
                yield TabLine(id="tabs")
                yield Table(id="rows")
                yield Words(legend(TABS[0]), id="legend")
        yield Static(id="empty")
        yield Rule()
        yield TimeLine()

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        if self.app.current_run is None:  # type: ignore[attr-defined]
            self.say_empty(NO_RUN)

    # The recording: read in a thread, and shown.

    def run_changed(self) -> None:
        self.attention, self.frames = None, 0
        self.job = self.bench = None
        self.remove_class("-timeless")
        self.working.forget()
        self.forget_view()
        self.stop_comparing()
        self.query_one(TimeLine).at = None
        self.query_one(TimeLine).set_frames(np.empty(0, np.int64))
        self.query_one(HeadLine).say("", "", "", "")
        name = visible(self.run_path.name, self.ascii) if self.run_path else ""
        self.say_empty((f"looking at {name}",) if name else NO_RUN)

    def read(self, reader: RunReader, changed: bool) -> Look | None:
        if not changed:
            return None
        drawn = (self.attention.step, self.frames) if self.attention is not None else None
        return look(reader, self.at, drawn)

    def show(self, snapshot: Look) -> None:
        if snapshot.status != self.status:
            self.call_after_refresh(self.refresh_bindings)
        self.status = snapshot.status
        if snapshot.attention is not None:
            self.attention, self.frames = snapshot.attention, len(snapshot.steps)
        elif snapshot.trouble:
            self.attention = None
        if self.bench is not None:  # it is what one looks at; the frames wait
            return
        line = self.query_one(TimeLine)
        ended = snapshot.status not in GOING
        line.set_frames(snapshot.steps, snapshot.total, snapshot.edge, snapshot.checkpoints, ended)
        if snapshot.trouble and self.job is None:
            self.say_empty(snapshot.trouble)
        elif snapshot.attention is not None:
            self.show_source()

    @on(TimeLine.Moved)
    def time_moved(self, event: TimeLine.Moved) -> None:
        if self.job is not None:
            self.bench_moved(event.step)
            return
        self.at = None if event.live else event.step
        self.moved()

    def word_for(self, binding: Binding) -> str:
        if binding.id == "run.pause" and self.paused():
            return "go on"
        return binding.description

    @on(Heatmap.Selected)
    def cell_clicked_twice(self) -> None:
        self.action_why()

    def action_heads(self) -> None:
        """On a narrow terminal: the heads in the place of the side panel."""
        self.toggle_class("-heads")
        self.query_one("#heads" if self.has_class("-heads") else "#pattern").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that would do nothing are not offered: the heads are only folded away where the terminal is narrow, a
        run that has ended cannot be paused, and one kind of attention leaves no choice."""
        if action in ("pause", "step"):
            return (
                self.job is None and self.run_path is not None and self.status in ("running", "paused", "created", "")
            )
        if action == "timeline":
            return self.bench is None or bool(self.bench.opened.steps)
        if action == "heads":
            return self.has_class("-narrow") or self.has_class("-tiny")
        if action == "site":
            return self.source is not None and len(self.source.sites) > 1
        if action in ("reset", "remove"):
            return self.job is not None and bool(self.job.switched)
        if action == "leave_bench":
            return self.job is not None or self.comparing
        return super().check_action(action, parameters)

    def on_resize(self) -> None:
        self.call_after_refresh(self.refresh_bindings)

    def paused(self) -> bool:
        return self.status == "paused"

    # Why, and pictures.

    def action_why(self) -> None:
        """Why the number that is chosen where the focus is: a weight, a probability, a row of the side."""
        source = self.source
        if source is None:
            self.tell("There is no number here yet to ask about.")
            return
        site, view, (layer, head), (row, column) = self.site, self.view, self.chosen, self.pattern.cursor
        other = self.query_one("#other", Heatmap)
        if self.second is not None and other.has_focus and site in self.second.sites:
            source, (row, column) = self.second, other.cursor
        bars, table = self.query_one("#next", Bars), self.query_one("#rows", Table)
        question, side = Question(self.tab, site, layer, head, row, column), self.side

        def ask() -> Explanation | str | None:
            return source.explain_cell(view, site, layer, head, row, column)

        if bars.has_focus and bars.bars:
            rank = bars.cursor

            def ask() -> Explanation | str | None:
                return source.explain_next(site, row, rank)

        elif table.has_focus and side.keys:
            key = side.keys[min(table.cursor, len(side.keys) - 1)]

            def ask() -> Explanation | str | None:
                return explain_row(source, question, key)

        ask_why(self.app, ask)

    def action_picture(self) -> None:
        """The screen as SVG, the chosen head as PNG and SVG, in the current folder."""
        super().action_picture()
        source = self.source
        if source is not None:
            path, theme = self.picture_path(".png"), "dark" if is_dark(self) else "light"
            site, layer, head = self.site, *self.chosen
            self.run_worker(
                lambda: self.save_head(path, source, site, layer, head, theme),
                thread=True,
                group="picture",
                exit_on_error=False,
            )

    def save_head(self, path: Path, source: AttentionSource, site: str, layer: int, head: int, theme: str) -> None:
        from txlab.drawing.picture import draw_attention

        rows, columns = source.rows(site), source.columns(site)
        weights = source.pattern(self.view, site, layer, head, (0, len(rows)), (0, len(columns)))
        kind = "" if len(source.sites) == 1 else f"{site} "
        for where in (path, path.with_name(f"{path.stem}-head.svg")):
            draw_attention(
                weights,
                where,
                queries=rows,
                keys=columns,
                title=f"{source.name}, {kind}head {layer + 1}.{head + 1}",
                causal=source.mask(site) == "causal",
                theme=theme,  # type: ignore[arg-type]
            )
        self.app.call_from_thread(self.tell, f"picture saved: {path}")
