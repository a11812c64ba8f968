"""The view of a screen that shows one frame of a run: reads the frame, names it, and passes it to the panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.content import Content

from txlab.drawing.formatting import count
from txlab.drawing.run_names import fit_handle
from txlab.drawing.text import formula, visible
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.summary import handle_in
from txlab.tui.playback import Playback
from txlab.tui.screens.plain_text import Words

if TYPE_CHECKING:
    from txlab.sources.recorded import Recorded
    from txlab.tui.screens.base_screens import BenchScreen


@dataclass(frozen=True)
class Snapshot:
    """A run at a step: its name, the rest of the heading, and the frame."""

    path: Path
    called: str
    heading: str
    frame: Frame | None


class FrameViewer:
    """The run of a screen, as a Playback reads it; `draw(frame, path)` and `forget()` are the screen's.

    about   of a scenario, in a few words
    `draw` returns the end of the heading, "" = nothing.
    """

    def __init__(
        self,
        screen: BenchScreen,
        about: Callable[[Mapping[str, Any]], str],
        draw: Callable[[Frame, Path], str],
        forget: Callable[[], None],
    ) -> None:
        self.screen, self.about, self.draw, self.forget = screen, about, draw, forget
        self.heading = Words(id="header")
        self.seen: tuple[object, ...] = ()  # what was read last

    @property
    def run(self) -> Playback:
        return self.screen.query_one(Playback)

    def source_changed(self) -> None:
        self.seen = ()
        self.forget()
        if (path := self.run.path) is not None:
            self.heading.say(Content.styled(visible(f"reading {path.name}…"), "$quiet"))

    def read(self, source: Recorded, at: int | None, changed: bool) -> Snapshot | None:
        reader, frames, status = source.reader, source.steps, source.status
        seen = (source.path, at, len(frames), int(frames[-1]) if len(frames) else 0, status.word)
        if not changed and seen == self.seen:
            return None
        frame = None
        if len(frames):
            try:
                frame = source.frame(at)
            except LabError:  # removed meanwhile
                return None
        self.seen = seen
        called = handle_in(source.path, reader.info)
        shown = frame.step if frame is not None else status.step
        return Snapshot(
            source.path,
            called,
            f"   step {count(shown)} of {count(status.total)}   {self.about(reader.scenario)}",
            frame,
        )

    def show(self, snap: Snapshot) -> None:
        words = self.draw(snap.frame, snap.path) if snap.frame is not None else "nothing is recorded yet"
        heading = visible(snap.heading + (f"   {words}" if words else ""))
        room = max(12, self.screen.size.width - 2 - len(heading))
        whole = formula(fit_handle(visible(snap.called), room) + heading, self.screen.ascii)
        self.heading.say(Content.styled(whole, "bold"))
        self.screen.refresh_bindings()
