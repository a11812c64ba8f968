"""What a RunPanel asks of a screen that shows one frame of a run: read it, say which it is, hand it to the panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from textual.content import Content

from txlab.drawing.text import cut, formula, visible
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.label import handle_of, read_label
from txlab.runs.summary import GOING, scenario_name
from txlab.tui.run_panel import RunPanel
from txlab.tui.screens.words import Words

if TYPE_CHECKING:
    from txlab.runs.reader import RunReader
    from txlab.tui.screens.base_screens import BenchScreen


@dataclass(frozen=True)
class Snapshot:
    """A run at a step: its name, what the heading says beside it, the steps of its frames, and the frame."""

    path: Path
    called: str
    heading: str
    status: str
    edge: int
    steps: int
    frames: np.ndarray
    frame: Frame | None


class FrameViewer:
    """The run of a screen, as a RunPanel reads it; `show(frame, path)` and `forget()` are the screen's.

    no_run   what the heading says while no run is chosen        about   of a scenario, in a few words
    `show` returns what is to be said beside the heading, "" = nothing.
    """

    def __init__(
        self,
        screen: BenchScreen,
        no_run: str,
        about: Callable[[Mapping[str, Any]], str],
        show: Callable[[Frame, Path], str],
        forget: Callable[[], None],
    ) -> None:
        self.screen, self.no_run, self.about, self.show, self.forget = screen, no_run, about, show, forget
        self.heading = Words(id="header")
        self.snap: Snapshot | None = None
        self.read: tuple[object, ...] = ()

    @property
    def run(self) -> RunPanel:
        return self.screen.query_one(RunPanel)

    def run_changed(self) -> None:
        self.snap, self.read = None, ()
        self.forget()
        path = self.run.path
        said = self.run.no_run(self.no_run) if path is None else f"reading {path.name}…"
        self.heading.say(Content.styled(visible(said), "$quiet"), layout=False)

    def read_run(self, reader: RunReader, changed: bool) -> Snapshot | None:
        path, at, state, info = reader.directory.path, self.run.at, reader.state, reader.info
        frames = reader.frames.steps
        seen = (path, at, len(frames), int(frames[-1]) if len(frames) else 0, state.status)
        if not changed and seen == self.read:
            return None
        self.read = seen
        frame = None
        if len(frames):
            place = len(frames) - 1 if at is None else max(0, int(np.searchsorted(frames, at, "right")) - 1)
            try:
                frame = reader.frames.read(int(frames[place]))
            except LabError:  # removed meanwhile
                return None
        called = handle_of(info, read_label(path), scenario_name(path, info.scenario))
        edge = max(state.step, int(frames[-1]) if len(frames) else 0)
        shown = frame.step if frame is not None else edge
        heading = f"   step {shown} of {state.steps}   {self.about(reader.scenario)}"
        return Snapshot(path, called, heading, state.status, edge, state.steps, frames, frame)

    def show_run(self, snap: Snapshot) -> None:
        run = self.run
        if snap.path != run.path:
            return
        self.snap = snap
        run.status = snap.status
        run.timeline.set_frames(snap.frames, snap.steps, snap.edge, ended=snap.status not in GOING)
        said = self.show(snap.frame, snap.path) if snap.frame is not None else "nothing is recorded yet"
        heading = visible(snap.heading + (f"   {said}" if said else ""))
        room = max(12, self.screen.size.width - 2 - len(heading))
        whole = formula(cut(visible(snap.called), room) + heading, self.screen.ascii)
        self.heading.say(Content.styled(whole, "bold"), layout=False)
        self.screen.refresh_bindings()

    def moved(self) -> None:
        self.run.wants_read()
