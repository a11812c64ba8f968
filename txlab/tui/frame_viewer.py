"""The view of a screen that shows one frame of a run: reads the frame, says which it is, hands it to the panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.content import Content

from txlab.drawing.text import cut, formula, visible
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.label import handle_of, read_label
from txlab.runs.summary import scenario_name
from txlab.tui.playback import Playback
from txlab.tui.screens.words import Words

if TYPE_CHECKING:
    from txlab.sources.recorded import Recorded
    from txlab.tui.screens.base_screens import BenchScreen


@dataclass(frozen=True)
class Snapshot:
    """A run at a step: its name, what the heading says after it, and the frame."""

    path: Path
    called: str
    heading: str
    frame: Frame | None


class FrameViewer:
    """The run of a screen, as a Playback reads it; `draw(frame, path)` and `forget()` are the screen's.

    no_run   what the heading says while no run is chosen        about   of a scenario, in a few words
    `draw` returns what the heading says at its end, "" = nothing.
    """

    def __init__(
        self,
        screen: BenchScreen,
        no_run: str,
        about: Callable[[Mapping[str, Any]], str],
        draw: Callable[[Frame, Path], str],
        forget: Callable[[], None],
    ) -> None:
        self.screen, self.no_run, self.about, self.draw, self.forget = screen, no_run, about, draw, forget
        self.heading = Words(id="header")
        self.seen: tuple[object, ...] = ()  # what was read last

    @property
    def run(self) -> Playback:
        return self.screen.query_one(Playback)

    def source_changed(self) -> None:
        self.seen = ()
        self.forget()
        path = self.run.path
        said = self.run.no_run(self.no_run) if path is None else f"reading {path.name}…"
        self.heading.say(Content.styled(visible(said), "$quiet"), layout=False)

    def read(self, source: Recorded, at: int | None, changed: bool) -> Snapshot | None:
        reader, frames, status = source.reader, source.steps, source.status
        seen = (source.path, at, len(frames), int(frames[-1]) if len(frames) else 0, status.word)
        if not changed and seen == self.seen:
            return None
        self.seen = seen
        frame = None
        if len(frames):
            try:
                frame = source.frame(at)
            except LabError:  # removed meanwhile
                return None
        called = handle_of(reader.info, read_label(source.path), scenario_name(source.path, reader.info.scenario))
        shown = frame.step if frame is not None else status.step
        return Snapshot(
            source.path, called, f"   step {shown} of {status.total}   {self.about(reader.scenario)}", frame
        )

    def show(self, snap: Snapshot) -> None:
        said = self.draw(snap.frame, snap.path) if snap.frame is not None else "nothing is recorded yet"
        heading = visible(snap.heading + (f"   {said}" if said else ""))
        room = max(12, self.screen.size.width - 2 - len(heading))
        whole = formula(cut(visible(snap.called), room) + heading, self.screen.ascii)
        self.heading.say(Content.styled(whole, "bold"), layout=False)
        self.screen.refresh_bindings()
