"""Reading the current run as it grows, for the screen in front.

Notable: it reads in a worker thread and shows on the event loop, at most `refresh` times a second and no more often
than is cheap (`LookBudget`), only while its screen is in front, and one read at a time; data that arrives meanwhile is
left to the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from textual.worker import get_current_worker

from txlab.engine.cores import cores
from txlab.errors import LabError
from txlab.experiments.kind import kind_of_run
from txlab.tui.key_order import keys_wait, run_in_thread

if TYPE_CHECKING:
    from txlab.experiments.kind import Kind
    from txlab.runs.remote.state import RemoteState
    from txlab.sources.recorded import Recorded
    from txlab.sources.source import Source, Status
    from txlab.tui.panel import Panel
    from txlab.tui.widgets.timeline import TimeLine

Questions: TypeAlias = list[Callable[[], object]]

CATCH_UP = 0.25  # seconds between two checks whether the user has left
SHARE = 0.008  # of each core, at most, for the console as a whole
LONGEST = 2.0  # seconds between two reads, regardless of their cost


class LookBudget:
    """Limits how often a live run is read: as often as requested, but within a small share of this machine.

    The cost of a read depends on the terminal's size, the curves and the processor, so the budget counts the processor
    time that the console has actually used since the last one. On two cores, where training waits for the slower of its
    two threads, a console that used 3 % of one took 8 % of the run's speed (benchmarks/watching.py).
    """

    def __init__(self) -> None:
        self.share = SHARE * cores()
        self.note_read()

    def note_read(self) -> None:
        """Note that a read begins."""
        self.began, self.used = time.monotonic(), time.process_time()

    def may_look(self) -> bool:
        wall = time.monotonic() - self.began
        return time.process_time() - self.used <= self.share * wall or wall > LONGEST


class View(Protocol):
    """What a Playback requires of its screen."""

    def source_changed(self) -> None:
        """Another source is shown from now on (`playback.source`, possibly None): forget the state of the old one."""

    def read(self, source: Any, at: int | None, changed: bool) -> Any:
        """Return the argument of `show` for the frame at a step (None: the newest), or None if nothing is new; called
        in a worker thread for runs. `changed` is False if the run has not changed. LabError if there is nothing to
        show."""

    def show(self, picture: Any) -> None:
        """Draw it; called on the event loop."""


class Owner(Protocol):
    """The owner of the run that is read, which shows it; documented in Playback."""

    view: View
    recorded: Recorded | None
    source: Source | None
    at: int | None
    timeline: TimeLine

    def shows(self, kind: Kind) -> bool: ...
    def take(self, source: Source, status: Status, steps: Any, picture: Any, trouble: str) -> None: ...
    def go_live(self) -> None: ...


class RunWatch:
    """Reads the run of `owner`, and passes on the result of its view; `panel` is the same object as a widget.

    watching  whether this run is read at all: not if it was left, or the screen does not show its kind
    anew      whether the frame on the screen is read again because its numbers have become exact
    """

    def __init__(self, panel: Panel, owner: Owner) -> None:
        self.panel, self.owner = panel, owner
        self.budget = LookBudget()
        self.visible = False
        self.reading = self.again = self._catching_up = False
        self.follow()

    def follow(self) -> None:
        """Read another run, or none, from now on."""
        self.watching, self.anew = True, False
        self._shown = False  # anything of this run; until then keys wait, as they act on the shown state
        self._failure = ""
        self._asking_again: Questions = []
        self._line_lost: bool | None = None  # None: not known yet, or no connection is needed

    @property
    def app(self) -> Any:
        return self.panel.app

    def in_thread(self, work: Callable[[], object], group: str, exclusive: bool = False) -> Any:
        return run_in_thread(self.panel, work, group, keys=False, exclusive=exclusive)

    def follows(self, run: Recorded | None) -> bool:
        """Whether this is still the run to show."""
        return run is not None and run is self.owner.recorded and self.panel.is_attached

    def open_newest(self, opens: Callable[[Any], bool]) -> None:
        """Choose the newest run of the screen's kinds, if none is chosen by then."""
        from txlab.runs.directory import RunDirectory, RunInfo
        from txlab.runs.folder import list_runs

        def choose(path: Path) -> None:
            if self.app.current_run is None and self.visible:
                self.app.current_run = path

        def find() -> None:
            for path in list_runs(self.app.root):
                with suppress(LabError):
                    if opens(kind_of_run(RunInfo.load(RunDirectory(path)).kind)):
                        self.app.call_later(choose, path.absolute())
                        return

        keys_wait(self.panel, self.in_thread(find, "newest", exclusive=True))

    def look_again(self) -> None:
        if self.budget.may_look():
            self.read_if_idle()

    def want(self) -> None:
        """Read now, whether or not the run grew."""
        self.again = True
        self.read_if_idle()

    def read_if_idle(self) -> None:
        run = self.owner.recorded
        if self.reading or run is None or not (self.watching and self.visible and self.panel.is_attached):
            return
        self.reading = True
        self.budget.note_read()
        forced, self.again = self.again, False
        at = self.owner.at if self.owner.source is run else None
        asking = self._asking_again if self.anew else None  # of a read that begins after the digits arrived
        read = self.in_thread(lambda: self._read(run, at, forced, asking), "read")
        if not self._shown:
            keys_wait(self.panel, read)

    def _read(self, run: Recorded, at: int | None, forced: bool, asking: Questions | None) -> None:
        worker, owner = get_current_worker(), self.owner
        picture, trouble = None, ""
        try:
            changed = run.poll() or forced
            if not owner.shows(kind_of_run(run.reader.info.kind)):
                self.app.call_later(self._not_for_here, run)
                return
            try:
                picture = owner.view.read(run, at, changed) if not worker.is_cancelled else None
            except LabError as error:
                if not run.path.exists():  # deleted while it was read
                    raise
                trouble = str(error)
            known = run.status, run.steps
        except LabError as error:  # the folder is gone, or no longer a run: reported once, tried again
            if not worker.is_cancelled and self.panel.is_attached:
                self.app.call_later(self._report_failure, run, str(error))
            return
        finally:
            self.reading = False
        if worker.is_cancelled or not self.panel.is_attached:
            return
        self.app.call_later(
            self._show, run, known if changed or picture is not None else None, picture, trouble, asking
        )
        self.app.call_later(self._say_far, run, run.reader.state.remote)
        if not run.reader.complete and not self._catching_up:
            self._catching_up = True
            self.app.call_later(self._catch_up, run)

    def _not_for_here(self, run: Recorded) -> None:
        """The screen does not show this kind of run; the previous run is removed from it too."""
        if self.follows(run):
            self.owner.go_live()

    def _catch_up(self, run: Recorded) -> None:
        """Read the rest of a long log alongside the polls, until it is complete or another run is selected."""

        def read_on() -> None:
            worker = get_current_worker()
            try:
                while not worker.is_cancelled and run is self.owner.recorded and not run.reader.catch_up(CATCH_UP):
                    continue
            finally:
                self._catching_up = False
            self.again = True  # the shown data is out of date

        self.in_thread(read_on, "catch up")

    def _report_failure(self, run: Recorded, sentence: str) -> None:
        """Report only once that the run cannot be read; a run that is gone is closed."""
        if self.follows(run) and sentence != self._failure:
            self._failure = sentence
            self.panel.tell(sentence, "error")
            if not run.path.exists():  # its data would be shown as if it still existed
                self.app.current_run = None

    def _show(
        self, run: Recorded, known: tuple[Status, Any] | None, picture: Any, trouble: str, asking: Questions | None
    ) -> None:
        if self.follows(run) and self.watching and known is not None:
            self.owner.take(run, *known, picture, trouble)
            if picture is not None or trouble:
                self._shown = True
                if asking is not None and asking is self._asking_again:
                    self.anew, self._asking_again = False, []
                    for ask in asking:
                        self.panel.call_after_refresh(ask)
        if self.again:
            self.read_if_idle()

    def exactly(self, again: Callable[[], object]) -> bool:
        """If the frame on the screen is a mirrored one of 253 levels, fetch its digits, show it, and then call `again`.

        Returns whether that is in progress. At the live edge the time line stays at this frame, since new frames would
        arrive before its digits.
        """
        from txlab.runs.remote.address import mirror_of
        from txlab.runs.remote.mirroring import exact_frame, is_approximate

        run, line = self.owner.recorded, self.owner.timeline
        step = line.step
        if run is None or step is None or not self.watching or mirror_of(run.path) is None:
            return False
        try:
            if not is_approximate(run.path, step):
                return False
        except LabError:  # thinned out meanwhile
            return False
        stays = self.owner.at is None
        if stays:
            line.show_frame(line.index)
        self.panel.tell("fetching all digits of this frame…" + (" } follows the run again" if stays else ""))

        def fetch() -> None:
            exact_frame(run.path, step)
            self.app.call_later(read_anew)

        def read_anew() -> None:
            if self.follows(run):
                self.anew = True
                self._asking_again = [again]
                self.want()

        self.in_thread(fetch, "exact", exclusive=True)
        return True

    def _say_far(self, run: Recorded, far: RemoteState | None) -> None:
        """Show the machine of the run in the corner, and report changes of its connection once."""
        if not (self.follows(run) and self.visible):
            return
        self.app.far = far
        trouble = far is not None and not far.connected
        if far is not None and trouble != self._line_lost and (trouble or self._line_lost is not None):
            sentence = f"{far.sentence} ({far.why})" if trouble and far.why else far.sentence
            self.panel.tell(
                sentence if trouble else f"connected to {far.host}", "warning" if trouble else "information"
            )
        self._line_lost = trouble if far is not None else None
