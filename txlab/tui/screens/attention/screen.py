"""Screen 4, Attention: all heads, one head large, the next token, and the patterns over the steps.

Notable: the screen draws a recording, or a model that reads the user's text, through one source (source.py), and
computes nothing; `w` asks the engine. It is composed of panels: the patterns, the side, the model behind them, its
writing, and the run with its timeline. An open model is shown instead of the recorded frame; the panels report changes,
and the screen passes them on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.strip import Strip

from txlab.drawing.text import fit, visible, width
from txlab.tui.bindings import WHY, bind
from txlab.tui.panel import ROUTED
from txlab.tui.playback import Playback
from txlab.tui.screens.attention.bench import Task
from txlab.tui.screens.attention.model_panel import ModelPanel
from txlab.tui.screens.attention.pattern_panel import PatternPanel
from txlab.tui.screens.attention.recorded import FrameReading, RecordedAttention, read_frame
from txlab.tui.screens.attention.side_panel import SidePanel
from txlab.tui.screens.attention.source import AttentionSource, Cell
from txlab.tui.screens.attention.writing_panel import WritingPanel
from txlab.tui.screens.base_screens import BenchScreen, Rule
from txlab.tui.widgets.heatmap import Heatmap
from txlab.tui.widgets.painted import Painted
from txlab.tui.widgets.timeline import TimeLine
from txlab.tui.widgets.why import ask_why

if TYPE_CHECKING:
    from txlab.experiments.kind import Kind
    from txlab.sources.recorded import Recorded


def has_attention(kind: Kind) -> bool:
    """Whether runs of a kind record attention."""
    return kind.attends


class AttentionScreen(BenchScreen):
    """Attention patterns of the app's current run at every recorded step, and of a live model under edits."""

    CSS_PATH = "attention.tcss"
    AUTO_FOCUS = "#pattern"
    HELP_ABOUT = (
        "A row is the token that attends, a column the token attended to; the weights of a row sum to one. Under each"
        " small pattern is the head's strongest score: p previous token, i induction. The arrows move in the focused "
        "panel (tab moves to the next one), h and l change the head, j and k the layer. Typing a text or editing "
        "something opens the run's model at the newest checkpoint at or before the frame; the side panel then shows "
        "the next token, before → now, and KL(before ‖ now). A full stop lets the model write its most likely token, "
        "> a sampled one, a comma removes it; W writes 40 tokens without and with the edits; a masked model fills its"
        " masks. T opens the most likely continuations as a tree; G is Shannon's game: you and the model guess the "
        "same text, and both are measured in bits per byte. Esc returns to the frames. w explains what has the focus:"
        " a cell, a possible next token, a row of the side panel; for an edit, the KL."
    )
    PANELS = (Playback, PatternPanel, SidePanel, ModelPanel, WritingPanel)
    KEY_ORDER = (
        "run.pause", "run.step", "attention.previous-head", "attention.next-head", "attention.next-layer",
        "attention.previous-layer", "screen.why", "attention.text", "attention.heads", "attention.write",
        "attention.write-both",
        "attention.tree", "attention.switch-head", "attention.edge", "attention.tab", "attention.guess",
        "attention.site", "time.earlier", "time.later", "attention.view", "attention.compare", "attention.reset",
        "attention.leave-bench", "attention.open", "attention.block", "attention.patch", "attention.weight",
        "attention.errata", "attention.scale-up", "attention.scale-down", "attention.first-token",
        "attention.numbers", "attention.remove",
    )  # fmt: skip
    KEYS_WHEN_EMPTY = ("open", "text", "leave")
    BINDINGS: ClassVar[list[BindingType]] = [
        WHY,
        bind("g", "heads", "show the heads instead of the side panel", "heads", id="attention.heads"),
        bind("enter", "why", "why is this weight what it is?", id="attention.why"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.recorded: RecordedAttention | None = None
        self.frames = 0  # their number when the drawn frame was read
        self.frame_at: int | None = None  # the selected step of the recording, also while a model is open
        self.run = Playback(self, has_attention)
        self.side = SidePanel(self)
        self.patterns = PatternPanel(self.show_details, self.side)
        self.model = ModelPanel(self, self.patterns, self.side)
        self.writing = WritingPanel(self.model, self.side)

    def compose_body(self) -> ComposeResult:
        yield HeadLine(id="headline")
        yield TextLine(id="textline")
        yield Rule()
        yield self.patterns
        yield self.model
        yield self.writing
        yield Rule()
        yield self.run

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")

    # What is shown.

    @property
    def source(self) -> AttentionSource | None:
        return self.model.live or self.recorded

    @property
    def cell(self) -> Cell:
        return self.patterns.cell

    @property
    def comparing(self) -> bool:
        return self.patterns.second is not None

    def show_source(self) -> None:
        """Redraw everything: the source has changed."""
        source = self.source
        if source is not None:
            self.occupy()
            self.patterns.show(source)
            self.side.ask()

    def show_details(self, change: str) -> None:
        """The cell, head, site or window shown has changed, or more of its data is known."""
        if self.source is not None:
            self.query_one(HeadLine).say(*self.patterns.words())
            self.show_text()
            second = self.patterns.second_window
            self.side.show_next(self.patterns.next_tokens, second.next_tokens if second is not None else None)
            self.caption.say(self.patterns.sentence())
            if change == "site":
                self.side.ask()
            else:
                self.side.follow(change)

    def show_text(self) -> None:
        """Show the text of the rows, with the token that attends and the one attended to."""
        source, cell = self.source, self.cell
        if source is not None and cell.site in source.sites:
            site = source.sites[cell.site]
            other = cell.column if site.rows == site.columns else None
            self.query_one(TextLine).show(site.rows, cell.row, other)

    def say_empty(self, sentences: Sequence[str]) -> None:
        """Replace the panels by the reason why there is nothing to show, and how to change that."""
        self.invite("\n".join(sentences))

    # The recording: read in a thread, and shown.

    def source_changed(self) -> None:
        self.recorded, self.frames, self.frame_at = None, 0, None
        self.run.of_run = True
        self.model.forget()
        self.patterns.forget()
        self.patterns.compare(None)
        self.remove_class("-timeless")
        self.query_one(HeadLine).say("", "", "", "")

    def read(self, source: Recorded, at: int | None, changed: bool) -> FrameReading | None:
        drawn = (self.recorded.step, self.frames) if self.recorded is not None and not self.run.watch_run.anew else None
        return read_frame(source.reader, self.frame_at, drawn) if changed else None

    def show(self, snapshot: FrameReading) -> None:
        self.run.checkpoints = snapshot.checkpoints
        if snapshot.attention is not None:
            self.recorded, self.frames = snapshot.attention, len(snapshot.steps)
        elif snapshot.trouble:
            self.recorded = None
        if self.model.live is not None:  # the model is shown; the frames wait
            return
        if snapshot.trouble and self.model.wanted is None:
            self.say_empty(snapshot.trouble)
        elif snapshot.attention is not None:
            self.show_source()

    @on(TimeLine.Moved)
    def show_step(self) -> None:
        """Show another frame of the timeline, or the same text and edits at another checkpoint."""
        if self.model.wanted is not None:
            self.model.do(replace(self.model.wanted, at=self.run.at), "checkpoint")
        else:
            self.frame_at = self.run.at
            self.run.wants_read()

    # The model.

    def task_of_recording(self) -> Task | None:
        if self.run.path is None:
            return None
        seen = self.recorded
        source, target = (*seen.texts, None)[:2] if seen is not None else (None, None)
        at = seen.step if seen is not None and self.frame_at is not None else None
        return Task(str(self.run.path), at, source, target, root=self.app.root)  # type: ignore[attr-defined]

    def show_task(self, what: str) -> None:
        if what == "model":
            self.patterns.forget()
        elif what == "edits":
            self.side.show_edits()
        if self.source is None:
            self.say_empty(("opening the model…",))

    def show_fetch(self, sentence: str) -> None:
        if self.source is not None:
            self.side.say_result(sentence)
        else:
            self.say_empty((sentence or "opening the model…",))

    def model_read(self, same_text: bool) -> None:
        """Show the model's result, and on the timeline the checkpoints; a folder has none."""
        live, line = self.model.live, self.run.timeline
        assert live is not None
        line.at = live.opened.step
        self.checkpoints_changed()
        line.refresh()
        if not same_text:
            self.patterns.placed = False
        self.show_source()
        self.refresh_bindings()

    def checkpoints_changed(self) -> None:
        """Show on the timeline the checkpoints that the model can be opened at."""
        steps = np.array(self.model.steps, dtype=np.int64)
        self.run.of_run = False
        self.set_class(not len(steps), "-timeless")
        self.run.timeline.set_frames(steps, 0, 0, steps, ended=True, noun="checkpoint")

    def model_left(self, sentence: str = "") -> None:
        if self.model.live is not None:  # the previous task, whose picture is still there
            self.show_details("window")
            return
        self.run.of_run = True
        if not sentence:
            self.patterns.forget()
            self.run.timeline.at = self.frame_at
            self.remove_class("-timeless")
        self.refresh_bindings()
        if self.recorded is not None:
            self.show_source()
        elif sentence:
            self.say_empty((sentence, "", "o opens another model"))
        elif self.run.path is None:
            self.run.invite()
        self.run.wants_read()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable keys that would do nothing: the heads are folded away only on a narrow terminal, and a run accepts
        requests while its frames are shown. (x is not `stop` here: it switches a head off.)"""
        if action == "heads":
            return not self.empty and (self.has_class("-narrow") or self.has_class("-tiny"))
        if action == ROUTED and parameters[0] == Playback.__name__:
            if parameters[1] == "stop":
                return False
            if parameters[1] in ("pause", "step"):
                return (
                    self.model.wanted is None and self.run.path is not None and super().check_action(action, parameters)
                )
            if self.model.live is not None and not self.model.live.opened.steps:
                return False
        return super().check_action(action, parameters)

    def on_resize(self) -> None:
        self.call_after_refresh(self.refresh_bindings)

    def action_heads(self) -> None:
        """Show the heads instead of the side panel on a narrow terminal."""
        self.toggle_class("-heads")
        self.query_one("#heads" if self.has_class("-heads") else "#pattern").focus()

    @on(Heatmap.CellAsked)
    def cell_clicked_twice(self) -> None:
        self.action_why()

    def action_why(self) -> None:
        """Explain the number selected in the focused widget: a weight, a probability, a row of the side."""
        ask = self.side.question() or self.patterns.question()
        if ask is None:
            self.tell("There is no number here yet to ask about.")
        else:
            ask_why(self.app, ask, again=self.action_why)

    def action_picture(self) -> None:
        """Save the screen as SVG, and the selected head as PNG and SVG, in the current folder."""
        super().action_picture()
        self.patterns.save_picture(self.picture_path(".png"))


class TextLine(Painted, can_focus=False):
    """The text as it reads: the token that attends in the accent colour, the one attended to underlined; of a long text
    the part around the first of them."""

    COMPONENT_CLASSES = {"textline--plain", "textline--here", "textline--there", "textline--quiet"}
    DEFAULT_CSS = """
    TextLine { height: 1; width: 1fr; padding: 0 1; }
    TextLine > .textline--plain { color: $foreground; }
    TextLine > .textline--here { color: $accent; text-style: bold reverse; }
    TextLine > .textline--there { color: $foreground; text-style: bold underline; }
    TextLine > .textline--quiet { color: $text-muted; }
    """

    shown: tuple[Sequence[str], int, int | None] = ((), 0, None)

    def show(self, tokens: Sequence[str], here: int, there: int | None) -> None:
        """Show the tokens; `here` attends to `there`, which is None if it is in another text."""
        if self.shown != (tokens, here, there):
            self.shown = (tokens, here, there)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        tokens, here, there = self.shown
        size = self.size.width
        if not tokens or size < 8:
            return Strip.blank(size, self.surface)
        words = [visible(token, self.ascii) for token in tokens]
        first, end = window_around(list(map(width, words)), min(here, len(words) - 1), size - 4)
        segments = [Segment("… " if first else "", self.part("quiet"))]
        for at in range(first, end):
            name = "here" if at == here else "there" if at == there else "plain" if at < here else "quiet"
            segments.append(Segment(words[at], self.part(name)))
        segments.append(Segment(" …" if end < len(words) else "", self.part("quiet")))
        return self.strip(segments)


def window_around(sizes: Sequence[int], place: int, cells: int) -> tuple[int, int]:
    """Return (first, end) of the entries around a place that fit, two thirds of them before it.

    >>> window_around([3, 3, 3, 3], 2, 20), window_around([3, 3, 3, 3], 2, 7), window_around([30], 0, 7)
    ((0, 4), (1, 3), (0, 1))
    """
    first, end, used = place, place + 1, sizes[place]
    while True:
        before = first > 0 and used + sizes[first - 1] <= cells
        after = end < len(sizes) and used + sizes[end] <= cells
        if before and (not after or place - first <= 2 * (end - 1 - place)):
            first -= 1
            used += sizes[first]
        elif after:
            used += sizes[end]
            end += 1
        else:
            return first, end


class HeadLine(Painted, can_focus=False):
    """`"the cat …"   gpt-docs @ 1 200   causal        head 2.3 · induction .91`: shortened from the left to fit, so
    that the head is always shown."""

    COMPONENT_CLASSES = {"headline--quiet", "headline--here"}
    DEFAULT_CSS = """
    HeadLine { height: 1; width: 1fr; padding: 0 1; color: $foreground; }
    HeadLine > .headline--quiet { color: $text-muted; }
    HeadLine > .headline--here { color: $accent; text-style: bold; }
    """

    parts: tuple[str, str, str, str] = ("", "", "", "")

    def say(self, text: str, source: str, mask: str, head: str) -> None:
        """Show the four parts; all are safe to show."""
        if self.parts != (text, source, mask, head):
            self.parts = (text, source, mask, head)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        size, surface = self.size.width, self.surface
        text, source, mask, head = self.parts
        ellipsis = "~" if self.ascii else "…"
        head = fit(head, min(size, width(head)), ellipsis=ellipsis)
        left: list[Segment] = []
        room = size - width(head) - 3
        for words, style, spare in ((source, surface, 0), (mask, self.part("quiet"), min(width(text), 24))):
            if words and width(words) + 3 + spare <= room:
                left.append(Segment(words + "   ", style))
                room -= width(words) + 3
        if text and room >= 8:
            left.insert(0, Segment(fit(text, min(room - 3, width(text)), ellipsis=ellipsis) + "   ", surface))
        gap = size - sum(width(segment.text) for segment in left) - width(head)
        line = [*left, Segment(" " * max(0, gap), surface), Segment(head, self.part("here"))]
        return Strip(line).adjust_cell_length(size, surface)
