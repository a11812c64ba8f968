"""Screen 4, Attention: every head at once, one head large, what comes next, and how it came to be so over the steps.

Notable: the screen draws what was recorded and computes nothing; `w` asks the engine, which takes the very queries and
keys of the frame. While one scrubs, the newest wish wins: what comes during a reading is read by the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from txlab.drawing.numerals import count, share
from txlab.drawing.text import fit, label, visible, width
from txlab.engine.explain import Explanation
from txlab.tui.glance import GOING
from txlab.tui.screens.attention_frame import PATTERN, SCORES, Attention, Look, look
from txlab.tui.screens.attention_words import HeadLine, legend, note, strongest
from txlab.tui.screens.bench import Rule, RunScreen
from txlab.tui.screens.words import Words
from txlab.tui.widgets.bars import Bars
from txlab.tui.widgets.facts import FactTable
from txlab.tui.widgets.heatmap import Heatmap
from txlab.tui.widgets.terminal import is_dark
from txlab.tui.widgets.thumbnails import Thumbnails
from txlab.tui.widgets.timeline import TimeLine
from txlab.tui.widgets.why import WhyScreen

if TYPE_CHECKING:
    from txlab.runs.reader import RunReader

NO_RUN = ("No run is chosen.", "Press 1 for the Lab, choose one and press enter; then come back with 4.")


class AttentionScreen(RunScreen):
    """Who looks at whom, in every layer and head, at every recorded step of the app's current run."""

    CSS_PATH = "attention.tcss"
    AUTO_FOCUS = "#pattern"
    HELP_ABOUT = (
        "A row is the token that looks, a column the token that is looked at; a row's weights sum to one. Under a "
        "small pattern stands what the head is called after: p previous token, i induction, with its score. The "
        "arrows move in the panel that has the focus (tab goes on to the next one), h and l change the head, j and k "
        "the layer."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "pause", id="run.pause", key_display="space"),
        Binding("h", "head(0, -1)", "head", id="attention.previous-head", key_display="h l"),
        Binding("l", "head(0, 1)", "next head", id="attention.next-head", show=False),
        Binding("j", "head(1, 0)", "layer", id="attention.next-layer", key_display="j k"),
        Binding("k", "head(-1, 0)", "layer above", id="attention.previous-layer", show=False),
        Binding("left_square_bracket", "timeline('earlier')", "earlier, later", id="time.earlier", key_display="[ ]"),
        Binding("right_square_bracket", "timeline('later')", "later", id="time.later", key_display="]", show=False),
        Binding("w", "why", "why", id="screen.why"),
        Binding("t", "heads", "heads", id="attention.heads"),
        Binding("f", "first", "first token", id="attention.first-token"),
        Binding("n", "numbers", "numbers", id="attention.numbers"),
        Binding("full_stop", "step", "step", id="run.step", key_display="."),
        Binding("enter", "why", "why", id="attention.why", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.attention: Attention | None = None
        self.frames = 0  # how many there were when that one was read
        self.status = ""
        self.run_name = ""
        self.without_first = False
        self.placed = False  # whether the cursor has been put somewhere in this run

    def compose_body(self) -> ComposeResult:
        yield HeadLine(id="headline")
        yield Rule()
        with Horizontal(id="panels"):
            yield Thumbnails(id="heads")
            yield Heatmap(id="pattern")
            with Vertical(id="side"):
                yield Bars(id="next")
                yield FactTable(id="scores")
                yield Words(legend(), id="legend")
        yield Static(id="empty")
        yield Rule()
        yield TimeLine()

    def on_mount(self) -> None:
        self.set_class(self.ascii, "-ascii")
        if self.app.current_run is None:  # type: ignore[attr-defined]
            self.say_empty(NO_RUN)

    # Reading, in a thread, and showing.

    def run_changed(self) -> None:
        self.attention, self.frames, self.run_name, self.placed = None, 0, "", False
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

    def word_for(self, binding: Binding) -> str:
        return "go on" if binding.id == "run.pause" and self.paused() else binding.description

    def show(self, snapshot: Look) -> None:
        if snapshot.status != self.status:
            self.call_after_refresh(self.refresh_bindings)
        self.status, self.run_name = snapshot.status, snapshot.run
        line = self.query_one(TimeLine)
        ended = snapshot.status not in GOING
        line.set_frames(snapshot.steps, snapshot.total, snapshot.edge, snapshot.checkpoints, ended)
        if snapshot.trouble:
            self.attention = None
            self.say_empty(snapshot.trouble)
        elif snapshot.attention is not None:
            self.attention, self.frames = snapshot.attention, len(snapshot.steps)
            self.remove_class("-empty")
            self.show_heads()
            self.show_pattern()
            self.place_cursor()
        self.show_words()

    def place_cursor(self) -> None:
        """Where a run's first look begins: the last token, from which the model guesses what comes next, and what it
        looks at most. From then on the cursor is the person's, over steps and heads."""
        pattern = self.query_one(Heatmap)
        if not self.placed and len(pattern.values):
            self.placed = True
            last = len(pattern.values) - 1
            pattern.move_to(last, pattern.strongest(last))

    def say_empty(self, sentences: Sequence[str]) -> None:
        """In place of the panels: why there is nothing to see, and what would change that."""
        cells = max((width(line) for line in sentences), default=0)
        lines = [fit(visible(line, self.ascii), cells) for line in sentences]
        self.query_one("#empty", Static).update(Content("\n".join(lines)))
        self.add_class("-empty")

    @property
    def chosen(self) -> tuple[int, int]:
        """The layer and head that are shown large, from 0."""
        return self.query_one(Thumbnails).chosen

    def show_heads(self) -> None:
        seen = self.attention
        if seen is None:
            return
        layers, heads = seen.shape
        self.query_one(Thumbnails).set_patterns(
            seen.pattern, [[note(seen, layer, head) for head in range(heads)] for layer in range(layers)]
        )

    def show_pattern(self) -> None:
        """The chosen head; with `f`, its first column is left out and what remains of each row is said."""
        seen = self.attention
        if seen is None:
            return
        values = seen.pattern[self.chosen].astype(np.float32)
        masked, sums = seen.masked, None
        if self.without_first and values.shape[1] > 1:
            masked = np.zeros(values.shape, dtype=bool) if masked is None else masked.copy()
            masked[:, 0] = True
            sums = values[:, 1:].sum(axis=1)
        self.query_one(Heatmap).set_values(values, seen.probe, seen.columns, masked, sums)

    def show_words(self) -> None:
        """What stands around the pattern: the line above it, what comes next, the scores."""
        seen = self.attention
        if seen is None:
            self.query_one(HeadLine).say("", visible(self.run_name, self.ascii), "", "")
            return
        layer, head = self.chosen
        dot = " - " if self.ascii else " · "
        said = [f"head {layer + 1}.{head + 1}"]
        known = [(name, seen.score(name, layer, head)) for name in SCORES]
        said += [f"{name} {share(score)}" for name, score in known if np.isfinite(score)]
        run = f"{visible(self.run_name, self.ascii)} @ {count(seen.step)}"
        rows = "softmax rows" + (", first token left out" if self.without_first else "")
        mask = dot.join(part for part in (visible(seen.mask, self.ascii), rows) if part)
        probe = visible("".join(seen.probe), self.ascii)
        self.query_one(HeadLine).say(f'"{probe}"', run, mask, dot.join(said))
        row = min(self.query_one(Heatmap).cursor[0], len(seen.probe) - 1)
        following = seen.following(row)
        after = label(seen.probe[row], self.ascii)
        title = f"next after {after}" if following else "no next tokens recorded"
        self.query_one(Bars).set_bars(title, following)
        self.query_one(FactTable).set_facts(strongest(seen, self.chosen))

    # Choosing.

    @on(Thumbnails.Selected)
    def head_chosen(self) -> None:
        self.show_pattern()
        self.show_words()

    @on(Heatmap.CursorMoved)
    def cell_chosen(self) -> None:
        self.show_words()

    @on(Heatmap.Selected)
    def cell_clicked_twice(self) -> None:
        self.action_why()

    @on(TimeLine.Moved)
    def time_moved(self, event: TimeLine.Moved) -> None:
        self.at = None if event.live else event.step
        self.moved()

    def action_head(self, down: int, right: int) -> None:
        heads = self.query_one(Thumbnails)
        if down:
            heads.choose(heads.chosen[0] + down, heads.chosen[1])
        else:
            heads.next_head(right)

    def action_first(self) -> None:
        """Leave out the first token, where heads rest that have nothing to look at; the weights stay as they are."""
        self.without_first = not self.without_first
        self.show_pattern()
        self.show_words()

    def action_numbers(self) -> None:
        pattern = self.query_one(Heatmap)
        pattern.numbers = not pattern.numbers

    def action_heads(self) -> None:
        """On a narrow terminal: the heads in the place of the side panel."""
        self.toggle_class("-heads")
        self.query_one("#heads" if self.has_class("-heads") else "#pattern").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The heads are only folded away, and `t` only offered, where the terminal is narrow; a run that has ended
        cannot be paused."""
        if action in ("pause", "step"):
            return self.status in ("running", "paused", "created", "")
        if action == "heads":
            return self.has_class("-narrow") or self.has_class("-tiny")
        return super().check_action(action, parameters)

    def on_resize(self) -> None:
        self.call_after_refresh(self.refresh_bindings)

    def paused(self) -> bool:
        return self.status == "paused"

    # Why, and pictures.

    def action_why(self) -> None:
        """Why the weight under the cursor; with the focus on what comes next, why that probability."""
        seen, path = self.attention, self.run_path
        if seen is None or path is None:
            self.tell("There is no number here yet to ask about.")
            return
        pattern, bars = self.query_one(Heatmap), self.query_one(Bars)
        row, column = pattern.cursor
        step = seen.step
        tensor: str
        names: tuple[str, ...]
        place: tuple[int, ...]
        if bars.has_focus and bars.bars:
            tensor, names, place = "next/probability", ("next/probability",), (row, bars.cursor)
        else:
            tensor, names = PATTERN, (PATTERN, "attention/query", "attention/key")
            place = (*self.chosen, row, column)

        def ask() -> Explanation | None:
            from txlab.experiments.explanations import explain
            from txlab.runs.directory import RunDirectory
            from txlab.runs.frames import FrameIndex

            frames = FrameIndex(RunDirectory(path).frames)  # one of its own: the reader's belongs to its thread
            return explain(frames.read(step, names=names), tensor, place)

        self.app.push_screen(WhyScreen(ask))

    def action_picture(self) -> None:
        """The screen as SVG and the chosen head as PNG, in the current folder."""
        super().action_picture()
        seen = self.attention
        if seen is not None:
            path = self.picture_path(".png")
            layer, head = self.chosen
            self.run_worker(
                lambda: self.save_head(path, seen, layer, head), thread=True, group="picture", exit_on_error=False
            )

    def save_head(self, path: Path, seen: Attention, layer: int, head: int) -> None:
        from txlab.drawing.picture import draw_attention

        title = f"{self.run_name} @ {count(seen.step)}, head {layer + 1}.{head + 1}"
        draw_attention(
            seen.pattern[layer, head],
            path,
            queries=seen.probe,
            keys=seen.columns,
            title=title,
            causal=seen.masked is not None,
            theme="dark" if is_dark(self) else "light",
        )
        self.app.call_from_thread(self.tell, f"picture saved: {path}")
