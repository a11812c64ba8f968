"""A live source: a thread that steps an experiment and carries out orders between two updates.

Notable: Python runs one thread at a time, so this one works in slices of a few milliseconds, yields for a moment when a
key has come, and has at most one picture on its way to the screen. The thread ends when there is nothing to do, and a
new one starts with the next order. `Live` needs no terminal and runs in a plain thread; `txlab.tui.session.Session`
overrides the methods under "Where it runs" for the console.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from txlab.errors import LabError
from txlab.experiments.protocol import Frame, Metrics
from txlab.runs.live_rows import Series
from txlab.sources.source import Status

SLICE = 0.004  # seconds of updates between two checks for orders
STAND_BACK = 0.04  # seconds for which a key has the processor nearly to itself
SLOW = 60.0  # updates a second slow enough not to delay keys
SEEN = 15.0  # updates a second up to which each one is shown
PICTURES = 18.0  # a second, at most
MOST_UPDATES = 200_000  # in one slice
PACES = (0.0, 2.0, 5.0, 15.0, 60.0, 1000.0, 20_000.0, float("inf"))
"""Paces to choose from, in updates a second: 0 is one update for each key, the last one is unlimited."""

MOST_FRAMES = 600
MOST_BYTES = 48_000_000
MOST_POINTS = 2000  # of a metric


class Steppable(Protocol):
    """What a live source requires of an experiment. Every `Experiment` qualifies.

    What is used besides, if it is there, is in the protocols below it; `adjustable()` and `adjust(name, value)`, as an
    `Experiment` has them, serve `Live.adjust`; `back()` takes an update back. What a frame has as the fact "measured"
    (name → number) are the metrics of `Live.series`.
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
        """The number of updates after which the source pauses by itself."""


E = TypeVar("E", bound=Steppable)


class FrameMemory:
    """The frames by step, for the time line. When there are too many, every second one is dropped."""

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


class MetricMemory:
    """What frames have measured, by metric. A frame of an earlier step replaces all from there on."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float, Mapping[str, float]]] = []  # step, when, name → value

    def add(self, frame: Frame) -> None:
        measured = frame.facts.get("measured")
        if not isinstance(measured, Mapping):
            return
        while self.points and self.points[-1][0] >= frame.step:
            self.points.pop()
        self.points.append((frame.step, time.time(), measured))
        if len(self.points) > MOST_POINTS:
            self.points = self.points[::2]

    def series(self, name: str) -> Series:
        known = [(step, when, measured[name]) for step, when, measured in [*self.points] if name in measured]
        steps, times, values = zip(*known, strict=True) if known else ((), (), ())
        return Series(name, np.array(steps, np.int64), np.array(values, np.float64), np.array(times, np.float64))


class Live(Generic[E]):
    """Steps an experiment. `show` receives pictures, `failed` the sentences of LabErrors.

    Any other exception ends the thread. `pictures` is the largest number a second; `record` keeps their frames.
    """

    can_edit = can_step = can_pause = can_pace = True
    can_stop = can_branch = False
    name, scenario = "", MappingProxyType[str, Any]({})

    def __init__(
        self,
        show: Callable[[Picture[E]], object] = lambda picture: None,
        failed: Callable[[str], object] = lambda sentence: None,
        *,
        pace: float = PACES[-1],
        pictures: float = PICTURES,
        record: bool = True,
    ) -> None:
        self.show, self.failed = show, failed
        self.pictures, self.record = pictures, record
        self.experiment: E | None = None
        self.picture: Picture[E] | None = None  # the last one shown
        self.recording, self.measured = FrameMemory(), MetricMemory()
        self.running = False
        self.pace = pace
        self.speed = 0.0
        self.alive = False  # a thread exists
        self.awake = threading.Condition()
        self.orders: dict[object, Callable[[], object]] = {}
        self.shown_first: list[object] = []  # what keeps keys waiting for the first picture
        self.taken = True  # the last picture has been drawn
        self.shown_at = 0.0
        self.due = 0.0  # when the next update is due, at a limited pace
        self.chunk = 1  # updates in a slice
        self.counted = (0.0, 0)  # (when, number of updates by then)

    @property
    def updates(self) -> int:
        return self.experiment.step_count if self.experiment is not None else 0

    @property
    def idle(self) -> bool:
        """Whether nothing is being done and the last picture has been drawn."""
        return not (self.orders or self.alive or not self.taken)

    # Where it runs.

    @property
    def wanted(self) -> bool:
        """Whether there is still somewhere to show pictures."""
        return True

    @property
    def last_key(self) -> float:
        """When the last key came, by the monotonic clock."""
        return 0.0

    def say(self, show: Callable[..., object], *values: object) -> None:
        """Call where pictures are shown."""
        show(*values)

    def start(self) -> None:
        """Start the thread, which calls `work`."""
        threading.Thread(target=self.work, args=(lambda: not self.wanted,), daemon=True).start()

    def hold_keys(self, what: object) -> None:
        """Keep keys waiting until `what` is released."""

    def release_keys(self, what: object) -> None: ...

    def arrived(self, picture: Picture[E]) -> None:
        """Show a picture, and allow the next one."""
        self.picture, self.taken = picture, True
        self.show(picture)

    # As a source.

    @property
    def can_undo(self) -> bool:
        return hasattr(self.experiment, "back")

    @property
    def can_replay(self) -> bool:
        return self.record

    @property
    def status(self) -> Status:
        step = self.picture.frame.step if self.picture is not None else 0
        speed = self.picture.speed if self.picture is not None else 0.0
        return Status("running" if self.running else "paused", step, ended=not self.running, speed=speed)

    @property
    def steps(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.asarray(self.picture.steps if self.picture is not None else (), np.int64)

    def frame(self, at: int | None) -> Frame:
        if self.picture is None:
            raise LabError("nothing has been computed yet")
        return (self.recording.at(at) if at is not None else None) or self.picture.frame

    def series(self, metric: str) -> Series:
        return self.measured.series(metric)

    def undo(self) -> None:
        """Take an update back, and pause."""
        self.pause()
        self.edit(lambda experiment: cast(Any, experiment).back())

    def stop(self) -> None:
        self.pause()

    # From any thread.

    def begin(self, make: Callable[[E | None], E], run: bool = False) -> None:
        """Replace the experiment by one that the thread makes from the present one; its recording starts empty. With
        `run` it runs at once; otherwise it runs if the present one does. Keys wait for its first picture."""

        hold = object()

        def work() -> None:
            self.shown_first.append(hold)
            self.experiment = make(self.experiment)
            self.running = self.running or run
            self.recording, self.measured = FrameMemory(), MetricMemory()
            self.speed, self.counted, self.chunk = 0.0, (0.0, 0), 1

        self.running = self.running or run
        self.hold_keys(hold)
        self._order(work)

    def edit(self, work: Callable[[E], object], name: object = None) -> None:
        """Change the experiment between two updates, then show it; dropped if there is none.

        A named change replaces a waiting one of the same name.
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
        self.edit(lambda experiment: self._advance(experiment, updates, float("inf")))

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

        self.edit(work, ("adjust", name))

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
        while not there.wait(0.05):
            if self.abandoned():
                return None
        if isinstance(answer[0], Exception):
            raise answer[0]
        return answer[0]

    def abandoned(self) -> bool:
        """Whether the asking thread no longer needs the answer."""
        return not self.wanted

    def _order(self, work: Callable[[], object], name: object = None) -> None:
        """Leave an order and wake the thread, or have one started where pictures are shown: without holding the lock,
        which that may be waiting for."""
        with self.awake:
            key = name if name is not None else object()
            self.orders.pop(key, None)
            self.orders[key] = work
            asleep = not self.alive
            self.awake.notify_all()
        if asleep:
            try:
                asyncio.get_running_loop()
            except RuntimeError:  # another thread than that of the pictures
                self.say(self._start)
            else:
                self._start()

    def _start(self) -> None:
        with self.awake:
            if self.alive or not self.wanted:
                return
            self.alive = True
        self.start()

    # In the thread.

    def work(self, over: Callable[[], bool]) -> None:
        """Step and carry out orders until there is nothing to do, or it is `over`."""
        try:
            while True:
                with self.awake:
                    orders, self.orders = list(self.orders.values()), {}
                    if over() or (not orders and not (self.running and self.experiment is not None)):
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
        if pace > SLOW and now - self.last_key < STAND_BACK:
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
        rest = STAND_BACK if now - self.last_key < STAND_BACK else 0.0
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

    def _let_keys_go_on(self) -> None:
        while self.shown_first:
            self.say(self.release_keys, self.shown_first.pop())

    def _publish(self) -> None:
        """Hand on a picture of the present state."""
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
        self.measured.add(frame)
        self.shown_at, self.taken = now, False
        picture = Picture(experiment, frame, tuple(self.recording.steps), self.speed, self.running)
        self.say(self.arrived, picture)
