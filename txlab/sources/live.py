"""A live source: a thread that steps an experiment and carries out orders between two updates.

Notable: Python runs one thread at a time, so this one works in slices of a few milliseconds, yields for a moment after
a key, and has at most one picture in transit to the screen. The thread ends when there is nothing to do, and a new one
starts with the next order. `Live` needs no terminal and runs in a plain thread; `txlab.tui.session.Session` overrides
the methods under "Where it runs" for the console.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from txlab.errors import LabError
from txlab.experiments.protocol import Adjustable, Frame, Metrics
from txlab.runs.live_rows import Series
from txlab.sources.source import Status

SLICE = 0.004  # seconds of updates between two checks for orders
STAND_BACK = 0.04  # seconds after a key in which updates are nearly suspended
SLOW = 60.0  # updates a second slow enough not to delay keys
SEEN = 15.0  # updates a second up to which each one is shown
PICTURES = 18.0  # a second, at most
MOST_UPDATES = 200_000  # in one slice
PACES = (0.0, 2.0, 5.0, 15.0, 60.0, 1000.0, 20_000.0, float("inf"))
"""Selectable paces, in updates per second: 0 is one update for each key, the last one is unlimited."""

MOST_FRAMES = 600
MOST_BYTES = 48_000_000
MOST_POINTS = 2000  # of a metric


def next_pace(pace: float, by: int, paces: Sequence[float] = PACES) -> float:
    """Return the pace `by` places further in `paces`, or the first or last one.

    >>> next_pace(2.0, 2), next_pace(2.0, -5)
    (15.0, 0.0)
    """
    return paces[max(0, min(paces.index(pace) + by, len(paces) - 1))]


class Steppable(Protocol):
    """The requirements of a live source on an experiment; every `Experiment` meets them.

    What is used besides, if it is there, is in the protocols below it. What a frame has as the fact "measured"
    (name → number) are the metrics of `Live.series`.
    """

    @property
    def step_count(self) -> int: ...

    def step(self) -> Metrics: ...

    def frame(self) -> Frame: ...


@runtime_checkable
class MakesMany(Protocol):
    def run(self, updates: int) -> object:
        """Make several updates in one call."""


@runtime_checkable
class Finite(Protocol):
    @property
    def steps(self) -> int:
        """The number of updates after which the source pauses by itself."""


@runtime_checkable
class Undoes(Protocol):
    def back(self) -> None:
        """Take the last update back. LabError if there is none."""


@runtime_checkable
class Adjusts(Protocol):
    """Its parameters can be changed between two updates; every `Experiment` has this."""

    def adjustable(self) -> Mapping[str, Adjustable]: ...

    def adjust(self, name: str, value: float) -> None: ...


E = TypeVar("E", bound=Steppable)


class FrameMemory:
    """The frames by step, for the time line. When there are too many, every second one is dropped.

    One thread adds while others read: a reader takes the list once, and it is only appended to or replaced.
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.gap = 1  # updates between two frames, at least
        self.bytes = 0

    @property
    def steps(self) -> list[int]:
        return [frame.step for frame in self.frames]

    def add(self, frame: Frame) -> None:
        """Keep a frame. A frame of an earlier step than the last (updates were undone) replaces all that follow it."""
        last = self.frames[-1].step if self.frames else frame.step - self.gap
        if frame.step < last:
            self.frames = self.frames[: bisect_left(self.frames, frame.step, key=step_of)]
            self.bytes = sum(size_of(each) for each in self.frames)
        elif frame.step < last + self.gap:
            return
        self.frames.append(frame)
        self.bytes += size_of(frame)
        if len(self.frames) > MOST_FRAMES or (self.bytes > MOST_BYTES and len(self.frames) > 2):
            self.frames = self.frames[::2]
            self.bytes = sum(size_of(each) for each in self.frames)
            self.gap = max(self.gap, (self.frames[-1].step - self.frames[0].step) // len(self.frames))

    def at(self, step: int) -> Frame | None:
        """Return the frame at a step, or the last one before it."""
        frames = self.frames
        return frames[max(0, bisect_right(frames, step, key=step_of) - 1)] if frames else None


step_of = attrgetter("step")


def size_of(frame: Frame) -> int:
    """Return the approximate size in bytes: the tensors, and 2 kB for the rest."""
    return sum(int(getattr(tensor, "nbytes", 0)) for tensor in frame.tensors.values()) + 2000


@dataclass(frozen=True, eq=False)
class Picture(Generic[E]):
    """The state to show now.

    experiment  the experiment of the frame, replaced by `begin`; only its frozen parts may be read here
    steps       of the recorded frames     speed   updates a second
    """

    experiment: E
    frame: Frame
    steps: tuple[int, ...]
    speed: float
    running: bool


class MetricMemory:
    """The measurements of frames, by metric. A frame of an earlier step replaces all later ones."""

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
        self.awaited: set[object] = set()  # the names of the orders whose picture keys wait for
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
        """Whether pictures can still be shown."""
        return True

    @property
    def last_key(self) -> float:
        """When the last key came, by the monotonic clock."""
        return 0.0

    def say(self, show: Callable[..., object], *values: object) -> None:
        """Call a function in the thread that shows pictures."""
        show(*values)

    def start(self) -> None:
        """Start the thread, which calls `work`."""
        threading.Thread(target=self.work, args=(lambda: not self.wanted,), daemon=True).start()

    def hold_keys(self, what: object) -> None:
        """Hold back keys until `what` is released."""

    def release_keys(self, what: object) -> None: ...

    def receive(self, picture: Picture[E]) -> None:
        """Show a picture, and allow the next one."""
        self.picture, self.taken = picture, True
        self.show(picture)

    # As a source.

    @property
    def can_undo(self) -> bool:
        return isinstance(self.experiment, Undoes)

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
        self.edit(lambda experiment: experiment.back() if isinstance(experiment, Undoes) else None)

    def stop(self) -> None:
        self.pause()

    # From any thread.

    def begin(self, make: Callable[[E | None], E], run: bool = False) -> None:
        """Replace the experiment by one that the thread makes from the present one; its recording starts empty. With
        `run` it runs immediately; otherwise it runs if the present one is running. Keys wait for its first picture."""

        def work() -> None:
            self.experiment = make(self.experiment)
            self.running = self.running or run
            self.recording, self.measured = FrameMemory(), MetricMemory()
            self.speed, self.counted, self.chunk = 0.0, (0.0, 0), 1

        self.running = self.running or run
        self._order(work, keys_wait=True)

    def edit(self, work: Callable[[E], object], name: object = None, keys_wait: bool = False) -> None:
        """Change the experiment between two updates, then show it; dropped if there is none.

        A named change replaces a waiting one of the same name. With `keys_wait`, keys wait until it is shown.
        """
        self._order(lambda: work(self.experiment) if self.experiment is not None else None, name, keys_wait)

    def run(self, running: bool = True) -> None:
        """Run or pause."""
        self.running = running
        self.counted = (0.0, 0)
        self.look()

    def pause(self) -> None:
        self.run(False)

    def step(self, updates: int = 1, keys_wait: bool = False) -> None:
        """Make that many updates and pause, even beyond the experiment's own number of steps. With `keys_wait`, keys
        wait until they are shown."""
        self.running = False
        self.edit(lambda experiment: self._advance(experiment, updates, float("inf")), keys_wait=keys_wait)

    def look(self) -> None:
        """Show the present state."""
        self._order(lambda: None, "look")

    def adjust(self, name: str, value: float) -> None:
        """Set an adjustable parameter; `failed` gets the allowed range if the value is outside it."""

        def work(experiment: E) -> None:
            known: Mapping[str, Adjustable] = experiment.adjustable() if isinstance(experiment, Adjusts) else {}
            if not isinstance(experiment, Adjusts) or name not in known:
                raise LabError(f"{name} cannot be adjusted here; adjustable: {', '.join(known) or 'none'}")
            bounds = known[name]
            if not bounds.low <= value <= bounds.high:
                raise LabError(f"{name} = {value:g} is not allowed; allowed: {bounds.low:g} … {bounds.high:g}")
            experiment.adjust(name, value)

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
            if self.is_abandoned():
                return None
        if isinstance(answer[0], Exception):
            raise answer[0]
        return answer[0]

    def is_abandoned(self) -> bool:
        """Whether the asking thread no longer needs the answer."""
        return not self.wanted

    def _order(self, work: Callable[[], object], name: object = None, keys_wait: bool = False) -> None:
        """Leave an order and wake the thread, or have one started where pictures are shown: without holding the lock,
        which that may be waiting for. With `keys_wait`, only where pictures are shown, keys wait for the picture that
        follows the order."""
        key = name if name is not None else object()
        if keys_wait:
            self.hold_keys(key)
            self.awaited.add(key)
        with self.awake:
            self.orders.pop(key, None)
            self.orders[key] = work
            asleep = not self.alive
            self.awake.notify_all()
        if asleep:
            try:
                asyncio.get_running_loop()
            except RuntimeError:  # a thread other than that of the pictures
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
                    orders, self.orders = self.orders, {}
                    if over() or (not orders and not (self.running and self.experiment is not None)):
                        self.alive = False  # set under the lock, so that the next order starts another thread
                        return
                for order in orders.values():
                    try:
                        order()
                    except LabError as error:
                        self.say(self.failed, str(error))
                if orders:
                    self._publish()
                    self._let_keys_go_on(orders)
                if self.running and self.experiment is not None:
                    try:
                        self._slice(self.experiment)
                    except LabError as error:
                        self.running = False
                        self.say(self.failed, str(error))
        except BaseException:
            self.running = self.alive = False
            self._let_keys_go_on([*self.awaited])
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
            time.sleep(STAND_BACK / 2)  # then work anyway, for keys that are held down
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
        """Make that many updates in one call; an experiment that makes them one by one stops when the time is up."""
        if isinstance(experiment, MakesMany):
            experiment.run(updates)
            return
        for _ in range(updates):
            experiment.step()
            if time.monotonic() > until:
                return

    def _let_keys_go_on(self, orders: Iterable[object]) -> None:
        for order in self.awaited.intersection(orders):
            self.awaited.remove(order)
            self.say(self.release_keys, order)

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
        self.say(self.receive, picture)
