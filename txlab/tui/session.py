"""A live session: a thread of the console that steps an experiment and carries out orders between two updates.

A screen draws frames and does not know where they come from. A `Session` computes them here; a run directory is the
other source.

Notable: Python runs one thread at a time, so this one works in slices of a few milliseconds, yields for a moment when a
key has come, and has at most one picture on its way to the screen. The thread ends when there is nothing to do, and a
new one starts with the next order.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from textual.dom import DOMNode
from textual.worker import NoActiveWorker, get_current_worker

from txlab.errors import LabError
from txlab.experiments.protocol import Frame, Metrics
from txlab.tui.key_order import hold_keys, release_keys

SLICE = 0.004  # seconds of updates between two checks for orders
STAND_BACK = 0.04  # seconds for which a key has the processor nearly to itself
SLOW = 60.0  # updates a second slow enough not to delay keys
SEEN = 15.0  # updates a second up to which each one is shown
PICTURES = 18.0  # a second, at most
MOST_UPDATES = 200_000  # in one slice
PACES = (0.0, 2.0, 5.0, 15.0, 60.0, 1000.0, 20_000.0, float("inf"))
"""Paces to choose from, in updates a second: 0 is one update per key, the last one is unlimited."""

MOST_FRAMES = 600
MOST_BYTES = 48_000_000


class Steppable(Protocol):
    """What a session requires of an experiment. Every `Experiment` qualifies.

    What is used besides, if it is there, is in the protocols below it; `adjustable()` and `adjust(name, value)`, as an
    `Experiment` has them, serve `Session.adjust`.
    """

    @property
    def step_count(self) -> int: ...

    def step(self) -> Metrics: ...

    def frame(self) -> Frame: ...


@runtime_checkable
class MakesMany(Protocol):
    def run(self, updates: int) -> object:
        """Make several updates at once."""


@runtime_checkable
class Finite(Protocol):
    @property
    def steps(self) -> int:
        """The number of updates after which the session pauses by itself."""


E = TypeVar("E", bound=Steppable)


class FrameMemory:
    """The frames of a session by step, for the timeline. When there are too many, every second one is dropped."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.steps: list[int] = []
        self.gap = 1  # updates between two frames, at least
        self.bytes = 0

    def add(self, frame: Frame) -> None:
        """Keep a frame. One of an earlier step than the last (updates were undone) replaces all that follow it."""
        if self.steps and frame.step < self.steps[-1]:
            kept = bisect_left(self.steps, frame.step)
            self.frames, self.steps = self.frames[:kept], self.steps[:kept]
            self.bytes = sum(size_of(each) for each in self.frames)
        elif self.steps and frame.step < self.steps[-1] + self.gap:
            return
        self.frames.append(frame)
        self.steps.append(frame.step)
        self.bytes += size_of(frame)
        if len(self.frames) > MOST_FRAMES or (self.bytes > MOST_BYTES and len(self.frames) > 2):
            self.frames, self.steps = self.frames[::2], self.steps[::2]
            self.bytes = sum(size_of(each) for each in self.frames)
            self.gap = max(self.gap, (self.steps[-1] - self.steps[0]) // len(self.steps))

    def at(self, step: int) -> Frame | None:
        """Return the frame at a step, or the last one before it."""
        return self.frames[max(0, bisect_right(self.steps, step) - 1)] if self.frames else None


def size_of(frame: Frame) -> int:
    """Return the approximate size in bytes: the tensors, and 2 kB for the rest."""
    return sum(int(getattr(tensor, "nbytes", 0)) for tensor in frame.tensors.values()) + 2000


@dataclass(frozen=True, eq=False)
class Picture(Generic[E]):
    """The state to show now.

    experiment  the experiment of the frame: another one after `begin`; only its frozen parts may be read here
    steps       those of the recorded frames     speed   updates a second
    """

    experiment: E
    frame: Frame
    steps: tuple[int, ...]
    speed: float
    running: bool


class Session(Generic[E]):
    """Steps an experiment in a thread of `screen`. `show` receives pictures, `failed` the sentences of LabErrors.

    Any other exception ends the thread and reaches the screen like that of any worker. Pictures and sentences arrive on
    the event loop; `pictures` is the largest number a second; `record` keeps their frames.
    """

    def __init__(
        self,
        screen: DOMNode,
        show: Callable[[Picture[E]], None],
        failed: Callable[[str], None],
        *,
        pictures: float = PICTURES,
        record: bool = True,
    ) -> None:
        self.screen, self.show, self.failed = screen, show, failed
        self.pictures, self.record = pictures, record
        self.experiment: E | None = None
        self.recording = FrameMemory()
        self.running = False
        self.pace = PACES[-1]
        self.speed = 0.0
        self.alive = False  # a thread exists
        self.awake = threading.Condition()
        self.orders: dict[object, Callable[[], object]] = {}
        self.shown_first: list[object] = []  # what keeps keys waiting for the first picture
        self.taken = True  # the screen has drawn the last picture
        self.shown_at = 0.0
        self.due = 0.0  # when the next update is due, at a limited pace
        self.chunk = 1  # updates in a slice
        self.counted = (0.0, 0)  # (when, number of updates by then)

    @property
    def updates(self) -> int:
        return self.experiment.step_count if self.experiment is not None else 0

    @property
    def idle(self) -> bool:
        """Whether nothing is being done and the screen is up to date."""
        return not (self.orders or self.alive or not self.taken)

    # From any thread.

    def begin(self, make: Callable[[E | None], E], run: bool = False) -> None:
        """Replace the experiment by one that the thread makes from the present one; its recording starts empty. With
        `run` it runs at once; otherwise it runs if the present one does. Keys wait for its first picture."""

        hold = object()

        def work() -> None:
            self.shown_first.append(hold)
            self.experiment = make(self.experiment)
            self.running = self.running or run
            self.recording = FrameMemory()
            self.speed, self.counted, self.chunk = 0.0, (0.0, 0), 1

        self.running = self.running or run
        hold_keys(self.screen, hold)
        self._order(work)

    def order(self, work: Callable[[E], object], name: object = None) -> None:
        """Do this between two updates, then show the result; dropped if there is no experiment.

        A named order replaces a waiting one of the same name.
        """
        self._order(lambda: work(self.experiment) if self.experiment is not None else None, name)

    def run(self, running: bool = True) -> None:
        """Run or pause."""
        self.running = running
        self.counted = (0.0, 0)
        self.look()

    def pause(self) -> None:
        self.run(False)

    def step(self, updates: int = 1) -> None:
        """Make that many updates and pause, even beyond the experiment's own number of steps."""
        self.running = False
        self.order(lambda experiment: self._advance(experiment, updates, float("inf")))

    def look(self) -> None:
        """Show the present state."""
        self._order(lambda: None, "look")

    def adjust(self, name: str, value: float) -> None:
        """Set an adjustable parameter; `failed` is told the allowed range if the value is outside it."""

        def work(experiment: E) -> None:
            adjusted = cast(Any, experiment)
            bounds = adjusted.adjustable().get(name)
            if bounds is None:
                known = ", ".join(adjusted.adjustable()) or "none"
                raise LabError(f"{name} cannot be adjusted here; adjustable: {known}")
            if not bounds.low <= value <= bounds.high:
                raise LabError(f"{name} = {value:g} is not allowed; allowed: {bounds.low:g} … {bounds.high:g}")
            adjusted.adjust(name, value)

        self.order(work, ("adjust", name))

    def ask(self, question: Callable[[E], Any]) -> Any:
        """Return the answer to a question, computed between two updates; for another thread. None without an
        experiment, or when the asking worker is cancelled. Exceptions of the question are raised here."""
        answer: list[Any] = []
        there = threading.Event()

        def work() -> None:
            try:
                answer.append(question(self.experiment) if self.experiment is not None else None)
            except Exception as error:
                answer.append(error)
            there.set()

        self._order(work)
        worker = None
        with contextlib.suppress(NoActiveWorker):
            worker = get_current_worker()
        while not there.wait(0.05):
            if (worker is not None and worker.is_cancelled) or not self.screen.is_attached:
                return None
        if isinstance(answer[0], Exception):
            raise answer[0]
        return answer[0]

    def say(self, show: Callable[..., object], *values: object) -> None:
        """Call on the event loop."""
        self.screen.app.call_later(show, *values)

    def _order(self, work: Callable[[], object], name: object = None) -> None:
        """Leave an order and wake the thread.

        Only the event loop starts a thread, and without holding the lock: another thread would have to wait for the
        event loop, which may be waiting for the lock.
        """
        with self.awake:
            key = name if name is not None else object()
            self.orders.pop(key, None)
            self.orders[key] = work
            asleep = not self.alive
            self.awake.notify_all()
        if asleep:
            try:
                asyncio.get_running_loop()
            except RuntimeError:  # another thread
                self.say(self._start)
            else:
                self._start()

    def _start(self) -> None:
        with self.awake:
            if self.alive or not self.screen.is_attached:
                return
            self.alive = True
        self.screen.run_worker(self._live, thread=True, group="session", exit_on_error=False)

    # In the thread.

    def _live(self) -> None:
        worker = get_current_worker()
        try:
            while True:
                with self.awake:
                    orders, self.orders = list(self.orders.values()), {}
                    over = worker.is_cancelled or not self.screen.app.is_running
                    if over or (not orders and not (self.running and self.experiment is not None)):
                        self.alive = False  # set under the lock, so that the next order starts another thread
                        return
                for order in orders:
                    try:
                        order()
                    except LabError as error:
                        self.say(self.failed, str(error))
                if orders:
                    self._publish()
                    self._let_keys_go_on()
                if self.running and self.experiment is not None:
                    try:
                        self._slice(self.experiment)
                    except LabError as error:
                        self.running = False
                        self.say(self.failed, str(error))
        except BaseException:
            self.running = self.alive = False
            self._let_keys_go_on()
            raise

    def _slice(self, experiment: E) -> None:
        """Make updates for a few milliseconds, or wait briefly until the next one is due."""
        last = experiment.steps if isinstance(experiment, Finite) else sys.maxsize
        pace, left = self.pace, last - experiment.step_count
        if not pace or left <= 0:
            self.running = False
            self._publish()
            return
        now = time.monotonic()
        if not self.counted[0]:
            self.counted = (now, experiment.step_count)
            self.due = now
        if pace > SLOW and now - self._last_key < STAND_BACK:
            time.sleep(STAND_BACK / 2)  # then work all the same, for keys that are held down
        begun, updates = time.monotonic(), self.chunk
        if pace != float("inf"):
            owed = int((now - self.due) * pace)
            each = pace <= SEEN  # every update is shown, even if the screen is slow
            if owed <= 0 or (each and not self.taken):
                with self.awake:
                    if not self.orders:
                        self.awake.wait(min(0.05, max(0.005, self.due + 1 / pace - now)))
                return
            updates = 1 if each else min(owed, self.chunk)
            self.due = max(self.due + updates / pace, now - (0.0 if each else 0.2))
        self._advance(experiment, min(updates, left), begun + SLICE)
        now = time.monotonic()
        self.chunk = max(1, min(MOST_UPDATES, round(self.chunk * min(2.0, max(0.5, SLICE / max(now - begun, 1e-5))))))
        # A picture takes as long to paint as the answer to a key, so keys go first, unless they are held down.
        rest = STAND_BACK if now - self._last_key < STAND_BACK else 0.0
        if self.taken and (pace <= SEEN or now - self.shown_at >= 1 / self.pictures + 3 * rest):
            self._publish()
        else:
            time.sleep(0)

    def _advance(self, experiment: E, updates: int, until: float) -> None:
        """Make that many updates at once; an experiment that makes them one by one stops when the time is up."""
        if isinstance(experiment, MakesMany):
            experiment.run(updates)
            return
        for _ in range(updates):
            experiment.step()
            if time.monotonic() > until:
                return

    @property
    def _last_key(self) -> float:
        return float(getattr(self.screen.app, "last_input", 0.0))

    def _let_keys_go_on(self) -> None:
        while self.shown_first:
            self.say(release_keys, self.screen, self.shown_first.pop())

    def _publish(self) -> None:
        """Hand the screen a picture of the present state."""
        experiment = self.experiment
        if experiment is None:
            return
        now, updates = time.monotonic(), experiment.step_count
        if self.counted[0] and now - self.counted[0] > 0.5:
            self.speed = (updates - self.counted[1]) / (now - self.counted[0])
            self.counted = (now, updates)
        frame = experiment.frame()
        if self.record:
            self.recording.add(frame)
        self.shown_at, self.taken = now, False
        picture = Picture(experiment, frame, tuple(self.recording.steps), self.speed, self.running)
        self.say(self._arrived, picture)

    def _arrived(self, picture: Picture[E]) -> None:
        """Show a picture on the event loop, and allow the next one once it is drawn."""
        if not self.screen.is_attached:
            self.taken = True
            return
        self.screen.call_after_refresh(self._drawn)
        self.show(picture)

    def _drawn(self) -> None:
        self.taken = True
