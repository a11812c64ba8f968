"""The time line: the recorded frames of a run on a bar, the current position, and the live edge.

├──────┼─────────┼────────●┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┤ 1 200 · frame 38 of 96

Notable: the steps of the frames are one sorted array that is drawn by bisection, so ten thousand frames cost as much as
ten. Looking at the last frame and following the live edge are different: when following, `at` is None.
"""

from __future__ import annotations

import numpy as np
from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from txlab.drawing.formatting import count
from txlab.drawing.text import fit, width
from txlab.tui.widgets.painted import Painted


class TimeLine(Painted, can_focus=False):
    """Posts `Moved(step, live)` when the user moves; `at` is the step shown, None at the live edge."""

    COMPONENT_CLASSES = {"timeline--past", "timeline--future", "timeline--position", "timeline--words"}
    DEFAULT_CSS = """
    TimeLine { height: 1; width: 1fr; padding: 0 1; }
    TimeLine > .timeline--past { color: $secondary; }
    TimeLine > .timeline--future { color: $text-muted 60%; }
    TimeLine > .timeline--position { color: $accent; text-style: bold; }
    TimeLine > .timeline--words { color: $foreground; }
    """

    class Moved(Message):
        """The user moved to `step`; `live` when following the newest frame."""

        def __init__(self, timeline: TimeLine, step: int, live: bool) -> None:
            super().__init__()
            self.timeline, self.step, self.live = timeline, step, live

        @property
        def control(self) -> TimeLine:
            return self.timeline

    def __init__(self, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.steps = np.empty(0, dtype=np.int64)
        self.total = 0
        self.edge = 0
        self.ended = False
        self.noun = "frame"
        self.checkpoints = np.empty(0, dtype=np.int64)
        self.at: int | None = None
        self.drawn: tuple[object, ...] = ()

    def set_frames(
        self,
        steps: np.ndarray,
        total: int = 0,
        edge: int = 0,
        checkpoints: np.ndarray | None = None,
        ended: bool = False,
        noun: str = "frame",
    ) -> None:
        """Show these frames: `steps` are theirs, sorted; `edge` is the step that the run has reached, `total` its last
        step. A run that has `ended` has no live edge. `noun` names the frames in the label.

        If the current frame disappears (the run was rewound), the one before it is shown, without a message: the user
        did not move.
        """
        self.steps = np.asarray(steps, dtype=np.int64)
        last = int(self.steps[-1]) if len(self.steps) else 0
        self.edge, self.ended = max(edge, last), ended
        self.total, self.noun = max(total, self.edge), noun
        self.checkpoints = np.empty(0, np.int64) if checkpoints is None else np.asarray(checkpoints, np.int64)
        if self.at is not None and len(self.steps):
            self.at = int(self.steps[self.index])
        now = (self.position(), self.label(), self.marks())
        if now != self.drawn:
            self.refresh()

    def forget(self) -> None:
        """Show that there are no frames, and follow the live edge of the next run."""
        self.at = None
        self.set_frames(np.empty(0, np.int64))

    @property
    def live(self) -> bool:
        return self.at is None

    @property
    def index(self) -> int:
        """The index of the current frame, the last one at or before `at`; −1 if there is none."""
        if self.at is None:
            return len(self.steps) - 1
        return max(0, int(np.searchsorted(self.steps, self.at, side="right")) - 1) if len(self.steps) else -1

    @property
    def step(self) -> int | None:
        """The step of the current frame; None if there is none."""
        return int(self.steps[self.index]) if len(self.steps) else None

    def earlier(self) -> None:
        if len(self.steps):
            self.show_frame(max(0, self.index - 1))

    def later(self) -> None:
        """Go to the next frame or, from the last one, to the live edge."""
        if self.at is None or not len(self.steps):
            return
        if self.index >= len(self.steps) - 1:
            self.last()
        else:
            self.show_frame(self.index + 1)

    def first(self) -> None:
        if len(self.steps):
            self.show_frame(0)

    def last(self) -> None:
        """Follow the live edge."""
        if self.at is not None:
            self.at = None
            self.show_move()

    def go(self, step: int) -> None:
        """Go to the frame nearest to a step."""
        if not len(self.steps):
            return
        right = int(np.searchsorted(self.steps, step))
        near = [index for index in (right - 1, right) if 0 <= index < len(self.steps)]
        self.show_frame(min(near, key=lambda index: abs(int(self.steps[index]) - step)))

    def show_frame(self, index: int) -> None:
        step = int(self.steps[index])
        if step != self.at:
            self.at = step
            self.show_move()

    def show_move(self) -> None:
        self.refresh()
        step = self.step
        if step is not None:
            self.post_message(self.Moved(self, step, self.live))

    # Drawing.

    def label(self) -> str:
        dot = "-" if self.ascii else "·"
        if not len(self.steps):
            return f"step {count(self.edge)} {dot} no frames recorded" if self.edge else f"no {self.noun}s yet"
        place = (
            (f"last {self.noun}" if self.ended else "live")
            if self.at is None
            else f"{self.noun} {count(self.index + 1)} of {count(len(self.steps))}"
        )
        return f"{count(self.step or 0)} {dot} {place}"

    def bar_width(self) -> int:
        """Return the width of the bar; the label's width does not depend on the step, so that the bar does not jump."""
        longest = f"{count(self.total)} · {self.noun} {count(len(self.steps))} of {count(len(self.steps))}"
        room = self.size.width - max(width(longest), width(self.label())) - 2
        return room if room >= 8 else 0

    def column(self, step: int) -> int:
        cells = self.bar_width()
        return min(cells - 1, round(step / self.total * (cells - 1))) if self.total and cells else 0

    def position(self) -> int:
        return self.column(self.step or 0)

    def marks(self) -> tuple[int, ...]:
        """Return the columns to mark: of the checkpoints if they are few, else of the frames if they are."""
        cells = self.bar_width()
        for steps in (self.checkpoints, self.steps):
            if 0 < len(steps) <= cells // 4:
                return tuple(sorted({self.column(int(step)) for step in steps}))
        return ()

    def render_line(self, y: int) -> Strip:
        surface = self.surface
        size = self.size.width
        if y or size <= 0:
            return Strip.blank(size, surface)
        ascii = self.ascii
        past = self.part("past")
        future = self.part("future")
        words = self.part("words")
        here = self.part("position")
        label = self.label()
        self.drawn = (self.position(), label, self.marks())
        cells = self.bar_width()
        if not cells:
            return Strip([Segment(fit(label, size, ellipsis="~" if ascii else "…"), words)], size)
        edge = self.column(self.edge)
        line, ahead, start, tick, end, knob = "-.|+|O" if ascii else "─┄├┼┤●"
        bar = [line] * (edge + 1) + [ahead] * (cells - edge - 1)
        for column in self.marks():
            bar[column] = tick
        bar[0], bar[-1] = start, end
        segments = []
        if len(self.steps):
            place = self.position()
            bar[place] = knob
            parts = [(0, place, past), (place, place + 1, here), (place + 1, edge + 1, past if self.live else future)]
            parts.append((max(place, edge) + 1, cells, future))
        else:
            parts = [(0, edge + 1, past), (edge + 1, cells, future)]
        for first, last, style in parts:
            if last > first:
                segments.append(Segment("".join(bar[first:last]), style))
        segments.append(Segment("  ", surface))
        segments.append(Segment(label, here if self.live and len(self.steps) else words))
        return self.strip(segments)

    # The mouse.

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1 and len(self.steps):
            self.capture_mouse()
            self.go_to_column(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self.go_to_column(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self.app.mouse_captured is self:
            self.release_mouse()

    def go_to_column(self, event: events.MouseEvent) -> None:
        cells = self.bar_width()
        column = event.x - self.gutter.left
        if cells < 2:
            return
        if column >= self.column(self.edge):
            self.last()
        else:
            self.go(round(max(0, column) / (cells - 1) * self.total))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.earlier()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.later()
