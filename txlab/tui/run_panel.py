"""The run that a screen shows: its timeline, requests to its inbox, and reading it as it grows.

Notable: it reads in a worker thread and shows on the event loop, at most `refresh` times a second and no more often
than is cheap (`LookBudget`), only while its screen is in front, and one read at a time: whatever arrives meanwhile is
left to the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.worker import get_current_worker

from txlab.engine.cores import cores
from txlab.errors import LabError
from txlab.tui.key_order import keys_wait
from txlab.tui.panel import Panel
from txlab.tui.widgets.timeline import TimeLine

if TYPE_CHECKING:
    from txlab.experiments.kind import Kind
    from txlab.runs.control import Request
    from txlab.runs.far.state import FarState
    from txlab.runs.reader import RunReader

NO_RUN = "No run is chosen"
CATCH_UP = 0.25  # seconds between two checks whether the user has gone elsewhere
SHARE = 0.008  # of each core, at most, for the console as a whole
LONGEST = 2.0  # seconds between two reads, whatever they cost


class LookBudget:
    """How often a live run is read: as often as requested, as long as it takes only a small share of this machine.

    The cost of a read depends on the terminal's size, the curves and the processor, so the budget counts the processor
    time that the console has really used since the last one. On two cores, where training waits for the slower of its
    two threads, a console that used 3 % of one took 8 % of the run's speed (benchmarks/watching.py).
    """

    def __init__(self) -> None:
        self.share = SHARE * cores()
        self.looked()

    def looked(self) -> None:
        """Note that a read begins."""
        self.began, self.used = time.monotonic(), time.process_time()

    def may_look(self) -> bool:
        wall = time.monotonic() - self.began
        return time.process_time() - self.used <= self.share * wall or wall > LONGEST


class RunViewer(Protocol):
    """What a RunPanel requires of its screen."""

    def run_changed(self) -> None:
        """The current run has changed (`panel.path`, possibly None): forget what belongs to the old one."""

    def read_run(self, reader: RunReader, changed: bool) -> Any:
        """Read the run in a worker thread and return what `show_run` needs, or None if nothing is new."""

    def show_run(self, snapshot: Any) -> None:
        """Show the snapshot; called on the event loop."""

    def moved(self) -> None:
        """The selected step has changed (`panel.at`; None = live)."""


class RunPanel(Panel):
    """Follows the app's current run for a screen. The selected step is `at`; None follows the live edge."""

    KEYS: ClassVar = (
        Binding("space", "pause", "pause", id="run.pause", key_display="space"),
        Binding("full_stop", "step", "step", id="run.step", key_display="."),
        Binding("x", "stop", "stop", id="run.stop"),
        Binding("left_square_bracket", "earlier", "earlier, later", id="time.earlier", key_display="[ ]"),
        Binding("right_square_bracket", "later", "later", id="time.later", key_display="]", show=False),
        Binding("left_curly_bracket", "first", "first frame", id="time.first", key_display="{", show=False),
        Binding("right_curly_bracket", "last", "live", id="time.last", key_display="}", show=False),
    )
    DEFAULT_CSS = "RunPanel { height: 1; width: 1fr; }"

    class Asked(Message):
        """A request was left in the run's inbox."""

        def __init__(self, ident: str, request: Request) -> None:
            super().__init__()
            self.ident, self.request = ident, request

    def __init__(self, viewer: RunViewer, opens: Callable[[Kind], bool] | None = None) -> None:
        """`opens` tells which kinds of runs the screen shows: if no run is chosen, the newest of these is opened."""
        super().__init__()
        self.viewer, self.opens = viewer, opens
        self.path: Path | None = None
        self.at: int | None = None
        self.status = ""  # as last shown by the screen
        self.gone = ""  # the name of the run that was shown until its folder was deleted or moved
        self.recorded = False  # by another program
        self.takes: tuple[str, ...] = ()  # the requests that that program takes
        self.timeline = TimeLine(id="timeline")
        self.budget = LookBudget()
        self.watching = True  # whether this run is read at all
        self.visible_now = self._reading = self._again = self._catching_up = False
        self._shown = False  # anything of this run; until then keys wait, which act on what is shown
        self._failure = ""
        self.anew = False  # whether the frame on the screen is read again because its numbers have become exact
        self._asking_again: list[Callable[[], object]] = []
        self._line_lost: bool | None = None  # None: not known yet, or no line is needed

    def compose(self) -> ComposeResult:
        yield self.timeline

    def on_mount(self) -> None:
        self.watch(self.app, "current_run", self._run_changed)
        self.set_interval(1 / float(getattr(self.app, "refresh_rate", 4.0)), self._look_again)

    # Reading.

    def seen(self) -> None:
        self.visible_now = True
        self.wants_read()
        if self.opens is not None and self.app.current_run is None:  # type: ignore[attr-defined]
            newest = self.run_worker(
                self._open_newest, thread=True, group="newest", exclusive=True, exit_on_error=False
            )
            keys_wait(self, newest)

    def _open_newest(self) -> None:
        from txlab.experiments.kind import kind_of_run
        from txlab.runs.directory import RunDirectory, RunInfo
        from txlab.runs.folder import list_runs

        def choose(path: Path) -> None:
            if self.app.current_run is None and self.visible_now:  # type: ignore[attr-defined]
                self.app.current_run = path  # type: ignore[attr-defined]

        assert self.opens is not None
        for path in list_runs(self.app.root):  # type: ignore[attr-defined]
            with suppress(LabError):
                if self.opens(kind_of_run(RunInfo.load(RunDirectory(path)).kind)):
                    self.app.call_later(choose, path.absolute())
                    return

    def unseen(self) -> None:
        self.visible_now = False
        self.app.far = None  # type: ignore[attr-defined]

    def _run_changed(self, path: Path | None) -> None:
        if path != self.path:
            before = self.path
            self.gone = before.name if path is None and before is not None and not before.exists() else ""
            self.path, self.at, self._failure, self.watching = path, None, "", True
            self.status, self.recorded, self.takes = "", False, ()
            self._line_lost, self._shown = None, False
            self.app.far = None  # type: ignore[attr-defined]
            self.timeline.forget()
            self.viewer.run_changed()
            self.screen.refresh_bindings()
            self.wants_read()

    def no_run(self, words: str) -> str:
        """What to say while no run is chosen, or that the one before is gone: `words` begin "No run is chosen"."""
        return words.replace(NO_RUN, f"{self.gone} was deleted or moved", 1) if self.gone else words

    def _look_again(self) -> None:
        if self.budget.may_look():
            self._read_if_idle()

    def wants_read(self) -> None:
        """Read now, whether or not the run grew."""
        self._again = True
        self._read_if_idle()

    def _read_if_idle(self) -> None:
        if self._reading or self.path is None or not (self.watching and self.visible_now and self.is_attached):
            return
        self._reading = True
        self.budget.looked()
        forced, self._again = self._again, False
        path = self.path
        read = self.run_worker(lambda: self._read(path, forced), thread=True, group="read", exit_on_error=False)
        if not self._shown:
            keys_wait(self, read)

    def _read(self, path: Path, forced: bool) -> None:
        worker = get_current_worker()
        snapshot = None
        try:
            reader = self.app.reader_for(path)  # type: ignore[attr-defined]
            changed = reader.poll() or forced
            if not path.exists():  # a reader keeps what it knows
                raise LabError(f"{path.name} is gone: its folder was deleted or moved")
            if not worker.is_cancelled:
                snapshot = self.viewer.read_run(reader, changed)
        except LabError as error:  # the folder is gone, or no longer a run: reported once, tried again
            if not worker.is_cancelled and self.is_attached:
                self.app.call_later(self._read_failed, path, str(error))
            return
        finally:
            self._reading = False
        if worker.is_cancelled or not self.is_attached:
            return
        self.app.call_later(self._show, path, snapshot)
        self.app.call_later(self._say_far, path, reader.state.far)
        if not reader.complete and not self._catching_up:
            self._catching_up = True
            self.app.call_later(self._catch_up, reader)

    def _catch_up(self, reader: RunReader) -> None:
        """Read the rest of a long log alongside the polls, until it is complete or another run is selected."""

        def read_on() -> None:
            worker, path = get_current_worker(), self.path
            try:
                while not worker.is_cancelled and path == self.path and not reader.catch_up(CATCH_UP):
                    continue
            finally:
                self._catching_up = False
            self._again = True  # more is known now than is shown

        self.run_worker(read_on, thread=True, group="catch up", exit_on_error=False)

    def _read_failed(self, path: Path, sentence: str) -> None:
        """Report once that the run cannot be read, however often that is tried; one that is gone is let go."""
        if path == self.path and sentence != self._failure:
            self._failure = sentence
            self.tell(sentence, "error")
            if not path.exists():  # what was read of it would stand there as if it were still to be had
                self.app.current_run = None  # type: ignore[attr-defined]

    def _show(self, path: Path, snapshot: Any) -> None:
        if snapshot is not None and path == self.path and self.is_attached:
            self._shown = True
            self.viewer.show_run(snapshot)
            self.anew, asking, self._asking_again = False, self._asking_again, []
            for ask in asking:
                self.call_after_refresh(ask)
        if self._again:
            self._read_if_idle()

    def exactly(self, again: Callable[[], object]) -> bool:
        """If the frame on the screen is a mirrored one of 253 levels, fetch its digits, show it, and then call `again`.

        Returns whether that is under way. At the live edge the time line stays at this frame: the next ones would come
        while its digits are on their way.
        """
        from txlab.runs.far.address import mirror_of
        from txlab.runs.far.mirroring import exact_frame, is_approximate

        path, step = self.path, self.timeline.step
        if path is None or step is None or not self.watching or mirror_of(path) is None:
            return False
        try:
            if not is_approximate(path, step):
                return False
        except LabError:  # thinned out meanwhile
            return False
        stays = self.at is None
        if stays:
            self.timeline.show_frame(self.timeline.index)
        self.tell("fetching all digits of this frame…" + (" } follows the run again" if stays else ""))

        def fetch() -> None:
            exact_frame(path, step)
            self.app.call_later(read_anew)

        def read_anew() -> None:
            if path == self.path and self.is_attached:
                self.anew = True
                self._asking_again = [again]
                self.wants_read()

        self.run_worker(fetch, thread=True, group="exact", exclusive=True, exit_on_error=False)
        return True

    def _say_far(self, path: Path, far: FarState | None) -> None:
        """Say in the corner which machine the run is on, and once what has become of the line to it."""
        if path != self.path or not (self.is_attached and self.visible_now):
            return
        self.app.far = far  # type: ignore[attr-defined]
        trouble = far is not None and not far.connected
        if far is not None and trouble != self._line_lost and (trouble or self._line_lost is not None):
            sentence = f"{far.sentence} ({far.why})" if trouble and far.why else far.sentence
            self.tell(sentence if trouble else f"connected to {far.host}", "warning" if trouble else "information")
        self._line_lost = trouble if far is not None else None

    # Requests.

    def ask(self, request: str, key: str | None = None, value: float | None = None, count: int = 1) -> None:
        """Leave a request in the inbox of the run; `Asked` is posted with its id."""
        if self.path is None:
            self.tell("no run is chosen: press enter on one in the Lab (1)")
            return
        path = self.path

        def leave() -> None:
            from txlab.runs.control import Request, send

            asked = Request(request, key=key, value=value, count=count)
            self.post_message(self.Asked(send(path, asked), asked))

        self.run_worker(leave, thread=True, group="ask", exit_on_error=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable requests for a run that has ended or whose program takes none."""
        if action in ("pause", "step", "stop"):
            if self.recorded and action not in self.takes:
                return False
            return self.path is not None and self.status in ("running", "paused", "created", "")
        return True

    def word_for(self, binding: Binding) -> str:
        if binding.id == "run.pause" and self.status == "paused":
            return "go on"
        return "" if binding.id == "time.earlier" and not len(self.timeline.steps) else binding.description

    def action_pause(self) -> None:
        """Pause a running run, resume a paused one."""
        self.ask("resume" if self.status == "paused" else "pause")

    def action_step(self) -> None:
        self.ask("step", count=1)

    def action_stop(self) -> None:
        from txlab.tui.screens.dialogs import Confirm

        name = self.path.name if self.path else "the run"
        what = "It saves a checkpoint first and can be resumed."
        if self.recorded:
            what = "Its loop is asked to end" + (", and saves first." if "checkpoint" in self.takes else ".")
        self.app.push_screen(
            Confirm(f"Stop {name}?", what, "stop"),
            lambda sure: self.ask("stop") if sure else None,
        )

    # The timeline.

    def action_earlier(self) -> None:
        self.timeline.earlier()

    def action_later(self) -> None:
        self.timeline.later()

    def action_first(self) -> None:
        self.timeline.first()

    def action_last(self) -> None:
        self.timeline.last()

    @on(TimeLine.Moved)
    def time_moved(self, event: TimeLine.Moved) -> None:
        event.stop()
        self.at = None if event.live else event.step
        self.viewer.moved()
