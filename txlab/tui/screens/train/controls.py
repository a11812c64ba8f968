"""The log of a run, and the requests to it: another learning rate, a checkpoint, any parameter, resuming.

A run answers requests in its own log; until then they are listed there as "asked…".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from textual.binding import Binding

from txlab.drawing.formatting import STATES, count, duration, significant
from txlab.errors import LabError
from txlab.runs.directory import LOST_AFTER
from txlab.tui.bindings import bind
from txlab.tui.history import answered_requests
from txlab.tui.key_order import run_in_thread
from txlab.tui.panel import Panel
from txlab.tui.playback import Playback
from txlab.tui.screens.plain_text import Words
from txlab.tui.screens.train.text import Pending, log_lines
from txlab.tui.train_snapshot import Snapshot

ENDED_EARLY = ("lost", "failed", "stopped", "interrupted")
BRANCH, REWIND = "in a new run", "in this run"
STOPS_WITHIN = 60.0  # seconds: a step, and a checkpoint, of a large model


class ControlPanel(Panel):
    """Events, newest last, and pending requests; the number of lines depends on the size."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "r",
            "resume",
            "resume or branch the run at the step shown",
            "resume",
            id="train.resume",
            synonyms="rewind continue fork restart",
        ),
        bind(
            "minus",
            "scale_lr(0.8)",
            "lower or raise the learning rate",
            "lr",
            id="train.lr-down",
            key_display="- +",
            synonyms="lr slower decay",
        ),
        bind(
            "plus,equals_sign",
            "scale_lr(1.25)",
            "raise the learning rate by a quarter",
            id="train.lr-up",
            key_display="+",
            synonyms="lr faster",
        ),
        bind(
            "c", "checkpoint", "save a checkpoint now", "checkpoint", id="train.checkpoint", synonyms="snapshot write"
        ),
        bind(
            "e", "set", "set any parameter of the running run", id="train.set", synonyms="change learning rate dropout"
        ),
    )

    def __init__(self, run: Playback) -> None:
        super().__init__(id="log")
        self.run = run
        self.words = Words()
        self.forget()

    def compose(self) -> Sequence[Words]:  # type: ignore[override]
        return [self.words]

    def forget(self) -> None:
        self.snap: Snapshot | None = None
        self.pending: dict[str, Pending] = {}

    def show(self, snap: Snapshot) -> None:
        self.snap = snap
        for ident in answered_requests(snap.entries):
            self.pending.pop(ident, None)

    def on_resize(self) -> None:
        self.draw()

    def draw(self) -> None:
        if self.snap is not None:
            lines = max(1, self.size.height)
            entries = self.snap.entries
            self.words.say(log_lines(entries, self.pending, self.run.at, lines, time.time(), self.why_gone()))

    def why_gone(self) -> str:
        """Return why the run cannot answer, or ""."""
        state = self.snap.state if self.snap else None
        if state is None or state.status in ("running", "paused", "created"):
            return ""
        age = state.heartbeat_age
        beat = f" (heartbeat {duration(age)} old)" if age is not None and age > LOST_AFTER / 10 else ""
        return f"the run is {'gone' if state.status == 'lost' else STATES.get(state.status, state.status)}{beat}"

    def take_request(self, event: Playback.Asked) -> None:
        request = event.request
        sign = {"set": "→", "scale": "×"}.get(request.request)
        words = f"{request.key} {sign} {significant(request.value)}" if sign and request.value else request.request
        self.pending[event.ident] = Pending(words, time.time())
        self.draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        run, status = self.run.recorded, self.run.status
        if run is None:
            return False
        if action == "resume":
            return bool(status) and not run.by_another_program
        declared = self.snap.about.get("adjustable") if self.snap else None
        of_another = run.by_another_program
        known = declared if of_another and isinstance(declared, dict) else self.snap.values if self.snap else {}
        if action == "scale_lr" and self.snap and (self.snap.step or of_another) and "lr" not in known:
            return False  # a run without a learning rate: it has made a step and reported none
        return run.takes({"scale_lr": "scale"}.get(action, action))

    def action_checkpoint(self) -> None:
        self.run.ask("checkpoint")

    def word_for(self, binding: Binding) -> str:
        at = self.run.at
        if binding.id != "train.resume" or at is None:
            return binding.description if self.run.status in ENDED_EARLY or binding.id != "train.resume" else ""
        return f"continue from {count(at)}"

    def action_resume(self) -> None:
        """Continue from the selected step, here or in a new run; at the live edge, resume a run that ended early."""
        path, at = self.run.path, self.run.at
        if path is None:
            return
        if at is not None:
            self.go_on_from(path, at)
        elif self.run.status in ENDED_EARLY:
            self.tell(f"{path.name}: {STATES['created']}")
            self.in_thread(lambda: start_detached_again(path))
        elif self.run.status == "done":
            self.tell(f"{path.name} is done; [ goes back to an earlier step, and r continues from there")
        else:
            self.tell(f"{path.name} is {self.run.status}; [ goes back to an earlier step, and r continues from there")

    def go_on_from(self, path: Path, at: int) -> None:
        """Ask whether this run goes back to the checkpoint before a step, or a new run begins there."""
        from txlab.tui.screens.dialogs import Choose

        checkpoint = max((step for step in self.checkpoints() if step <= at), default=None)
        if checkpoint is None:
            held = ", ".join(count(step) for step in self.checkpoints()) or "none"
            self.tell(f"there is no checkpoint at or before step {count(at)}; there are: {held}", "warning")
            return
        nearest = "" if checkpoint == at else f", the nearest before {count(at)}"
        stop = "; it stops first" if self.run.status in ("running", "paused", "created") else ""
        rows = [
            (BRANCH, "this run stays as it is", False),
            (REWIND, f"the rest is drawn as a branch{stop}", False),
        ]

        def go(choice: str | None) -> None:
            if choice == REWIND:
                self.tell(f"{path.name} goes back to checkpoint {count(checkpoint)}")
                self.in_thread(lambda: start_detached_again(path, checkpoint))
            elif choice == BRANCH:
                self.in_thread(lambda: self.branch_off(path, checkpoint))

        self.app.push_screen(Choose(f"Go on from checkpoint {count(checkpoint)}{nearest}", rows), go)

    def branch_off(self, path: Path, checkpoint: int) -> None:
        from txlab.runs.branch import branch
        from txlab.runs.process import start_detached

        new = branch(path, checkpoint)
        start_detached(new)
        self.app.call_from_thread(self.open_run, new)

    def open_run(self, path: Path) -> None:
        self.app.current_run = path  # type: ignore[attr-defined]
        self.tell(f"{path.name}: {STATES['created']}")

    def checkpoints(self) -> list[int]:
        return [] if self.snap is None else [int(step) for step in self.snap.checkpoints]

    def in_thread(self, work: Callable[[], object]) -> None:
        """Act on a run; a LabError is shown as a sentence."""

        def guard() -> None:
            try:
                work()
            except LabError as error:
                self.app.call_from_thread(self.tell, str(error), "error")

        run_in_thread(self, guard, "start")

    def action_scale_lr(self, factor: float) -> None:
        """Scale the peak of the schedule by a factor; the learning rate in the facts changes with it."""
        self.run.ask("scale", key="lr", value=factor)

    def action_set(self) -> None:
        """Set any adjustable parameter: `name = value`."""
        from txlab.tui.screens.dialogs import AskValue

        def check(text: str) -> str:
            name, value = parse_setting(text)
            return f"{name} becomes {significant(value)} at the next step; the run answers whether that is allowed"

        def send(text: str | None) -> None:
            if text:
                name, value = parse_setting(text)
                self.run.ask("set", key=name, value=value)

        lr = self.snap.values.get("lr") if self.snap else None
        start = f"lr = {lr:.3g}" if lr is not None else ""
        self.app.push_screen(AskValue("Set a parameter of the run", "name = value", start, check), send)


def start_detached_again(path: Path, rewind_to: int | None = None) -> None:
    """Continue a run in a separate process; a running one is stopped first. LabError if it does not stop."""
    from txlab.runs.control import Request, send
    from txlab.runs.directory import ALIVE, state_of
    from txlab.runs.process import start_detached

    if state_of(path).status in ALIVE:
        send(path, Request("stop"))
        deadline = time.monotonic() + STOPS_WITHIN
        while state_of(path).status in ALIVE:
            if time.monotonic() > deadline:
                raise LabError(f"{path.name} has not stopped within {STOPS_WITHIN:.0f} s; it is still running")
            time.sleep(0.1)
    start_detached(path, rewind_to)


def parse_setting(text: str) -> tuple[str, float]:
    """Return (name, value) of "name = value"; raises LabError if it is invalid."""
    name, equals, raw = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise LabError("write it as name = value, for example lr = 1e-4")
    try:
        value = float(raw)
    except ValueError:
        raise LabError(f"{raw.strip()!r} is not a number") from None
    if not np.isfinite(value):
        raise LabError(f"{raw.strip()} is not a finite number")
    return name, value
