"""Requests sent to a user's own training program while it trains, and their effects."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from waiting import LONGEST, wait_for

from txlab.runs.control import Request, send
from txlab.runs.directory import state_of
from txlab.runs.events import Row, read_rows
from txlab.runs.folder import list_runs


class Person(threading.Thread):
    """Waits for the first run under `root`, pauses it, changes its learning rate, saves, continues, and stops it."""

    def __init__(self, root: Path, lr: float, saves: bool = True) -> None:
        super().__init__(daemon=True)
        self.root, self.lr, self.saves = root, lr, saves
        self.paused_at: tuple[int, int] = (0, 0)  # number of rows when it was paused, and a while later
        self.answers: dict[str, Row] = {}
        self.failure: BaseException | None = None
        self._rows: list[Row] = []
        self._offset = 0

    def run(self) -> None:
        try:
            self._steer()
        except BaseException as error:
            self.failure = error

    def _steer(self) -> None:
        wait_for(lambda: bool(list_runs(self.root)) and bool(self.metrics()))
        self._ask("pause", Request("pause"))
        assert state_of(self.path).status == "paused"
        before = len(self.metrics())
        time.sleep(0.15)
        self.paused_at = before, len(self.metrics())
        self._ask("set", Request("set", key="lr", value=self.lr))
        if self.saves:
            self._ask("checkpoint", Request("checkpoint"))
        self._ask("resume", Request("resume"))
        wait_for(lambda: any(row["values"].get("lr") == self.lr for row in self.metrics()))
        self._ask("stop", Request("stop"))

    @property
    def path(self) -> Path:
        return list_runs(self.root)[0]

    def metrics(self) -> list[Row]:
        return [row for row in self.rows() if row["event"] == "metrics"]

    def rows(self) -> list[Row]:
        """All rows so far. What was read is not read again: a loop that is not paused writes thousands a second."""
        more, self._offset = read_rows(self.path / "events.jsonl", self._offset)
        self._rows += more
        return self._rows

    def _ask(self, name: str, request: Request) -> None:
        ident = send(self.path, request)
        wait_for(lambda: any(row.get("id") == ident for row in self.rows()))
        self.answers[name] = next(row for row in self.rows() if row.get("id") == ident)

    def check(self) -> None:
        """Everything that was asked for was done, and nothing was computed during the pause."""
        self.join(LONGEST)
        assert self.failure is None, self.failure
        assert all(row["applied"] for row in self.answers.values()), self.answers
        assert self.answers["set"]["to"] == self.lr
        assert self.paused_at[0] == self.paused_at[1]
        assert state_of(self.path).status == "stopped"


def watched(path: Path) -> tuple[int, ...]:
    """The shape of the patterns that the Attention screen shows of the newest frame, and the number of frames."""
    from txlab.runs.frames import FrameIndex
    from txlab.tui.screens.attention.recorded import attention_of

    frames = FrameIndex(path / "frames")
    frames.refresh()
    found = attention_of(frames.read(int(frames.steps[-1])))
    assert found is not None
    return (len(frames), *found.patterns["self"].shape)
