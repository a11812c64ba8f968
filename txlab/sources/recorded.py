"""A run directory as a source: the state of its reader, and requests to its inbox.

Reading and asking touch the disk, so both are called in worker threads; what a reader already knows (`status`, `steps`,
`can_…`) may be read in any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.control import Request, send
from txlab.runs.live_rows import Series
from txlab.runs.reader import RunReader
from txlab.runs.summary import GOING
from txlab.sources.source import Status


class Recorded:
    """A run. `open` creates its reader at the first `poll`; `asked` is called for each request, with the id of its
    answer."""

    can_edit = can_undo = can_pace = False
    can_replay = can_branch = True

    def __init__(
        self,
        path: Path,
        open: Callable[[Path], RunReader] = RunReader,
        asked: Callable[[str, Request], None] = lambda ident, request: None,
    ) -> None:
        self.path, self.open, self.asked = path, open, asked
        self._reader: RunReader | None = None

    @property
    def reader(self) -> RunReader:
        """Opened on first use. LabError if the directory is not a run."""
        if self._reader is None:
            self._reader = self.open(self.path)
        return self._reader

    def poll(self) -> bool:
        """Look for changes; True if there are any. LabError if the run cannot be read."""
        reader = self.reader
        _ = reader.frames  # opened here, because `steps` may be called where reading is not allowed
        changed = reader.poll()
        if not self.path.exists():  # a reader keeps its state
            raise LabError(f"{self.path.name} is gone: its folder was deleted or moved")
        return changed

    # The known state.

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def scenario(self) -> Mapping[str, Any]:
        return self.reader.scenario

    @property
    def status(self) -> Status:
        if self._reader is None:
            return Status()
        state, steps = self._reader.state, self.steps
        reached = max(state.step, self._reader.info.step, int(steps[-1]) if len(steps) else 0)
        return Status(state.status, reached, state.steps, state.status not in GOING)

    @property
    def steps(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return self._reader.frames.steps if self._reader is not None else np.empty(0, np.int64)

    def frame(self, at: int | None) -> Frame:
        steps = self.reader.frames.steps
        if not len(steps):
            raise LabError("the run has recorded no frame yet")
        place = len(steps) - 1 if at is None else max(0, int(np.searchsorted(steps, at, "right")) - 1)
        return self.reader.frames.read(int(steps[place]))

    def series(self, metric: str) -> Series:
        return self.reader.series(metric)

    @property
    def by_another_program(self) -> bool:
        return self._reader is not None and self._reader.info.recorded

    # Requests.

    def takes(self, request: str) -> bool:
        """Whether the run accepts a request now: an ended run accepts none, another program's run those that it
        lists."""
        if self._reader is None:
            return True
        info, status = self._reader.info, self._reader.state.status
        return status in GOING and (not info.recorded or request in info.takes)

    @property
    def can_step(self) -> bool:
        return self.takes("step")

    @property
    def can_pause(self) -> bool:
        return self.takes("pause")

    @property
    def can_stop(self) -> bool:
        return self.takes("stop")

    def request(self, request: str, key: str | None = None, value: float | None = None, count: int = 1) -> None:
        """Leave a request in the inbox. LabError if that is impossible."""
        wanted = Request(request, key=key, value=value, count=count)
        self.asked(send(self.path, wanted), wanted)

    def adjust(self, name: str, value: float) -> None:
        self.request("set", name, value)

    def step(self, updates: int = 1) -> None:
        self.request("step", count=updates)

    def run(self) -> None:
        self.request("resume")

    def pause(self) -> None:
        self.request("pause")

    def stop(self) -> None:
        self.request("stop")

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """The experiment is in another process, which answers no questions."""
        return None
