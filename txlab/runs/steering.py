"""Requests to another program's loop, which polls for them once per step: `if not run.poll(): break`.

Notable: from the first poll on, run.json lists the requests that the loop accepts, so that screens offer these keys; a
loop that never polls accepts none. A pause is a poll that does not return. All effects of a request (apply a value,
save) happen inside `poll`, in the loop's own thread, between two steps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, SupportsFloat

from txlab.errors import LabError, one_line
from txlab.experiments.protocol import Adjustable
from txlab.runs import agreement
from txlab.runs.control import Request, change
from txlab.runs.loop import POLL_EVERY
from txlab.runs.recorder import Recorder

Number = SupportsFloat | Callable[[], SupportsFloat]
ALONE = "this loop runs in several processes, and only one polls; run.poll(together=True) in all of them takes this"


@dataclass
class Parameter:
    """A parameter that the user may change: `value` is a number, or a function that reads it."""

    value: Number
    low: float
    high: float
    apply: Callable[[float], object]

    def now(self) -> float:
        return float(self.value() if callable(self.value) else self.value)


class Steered(Protocol):
    """The recording of a loop that accepts requests.

    silent  whether another process records
    open    whether it is still recording; only then is there a recorder, to be used within `turn`
    """

    silent: bool
    open: bool
    recorder: Recorder

    @property
    def turn(self) -> AbstractContextManager[None]: ...

    def requests(self) -> list[Request]: ...

    def note(self, step: int, text: str) -> None: ...

    def checkpoint(self, step: int, path: str | Path = "") -> None: ...


class Steering:
    """The requests of one recorded run, and whether it is paused.

    granted   single steps that the user requested, still to be taken before pausing again
    stopping  who requested the stop, and when; "" = none
    news      changes not sent to the other processes yet
    """

    def __init__(self, run: Steered) -> None:
        self.run = run
        self.parameters: dict[str, Parameter] = {}
        self.save: Callable[[int], object] | None = None
        self.paused = self.polled = self.alone = False
        self.granted = 0
        self.stopping = ""
        self.news: list[agreement.News] = []
        self.looked = -math.inf

    # Declarations of the loop

    def declare(self, name: str, parameter: Parameter) -> None:
        """Add a parameter, or replace it. Raises LabError if its value is outside its bounds."""
        now = parameter.now()
        if not isinstance(name, str) or not 0 < len(name) <= 200:
            raise LabError(f"a parameter needs a name of at most 200 characters, not {str(name)[:60]!r}")
        if not parameter.low <= now <= parameter.high:
            raise LabError(f"{name} = {now:g} is outside of what is allowed: {parameter.low:g} to {parameter.high:g}")
        self.parameters[name] = parameter
        if self.polled:
            self.say()

    def say(self) -> None:
        """List in run.json the requests that the loop accepts."""
        self.polled = True
        adjustable = {n: {"value": p.now(), "low": p.low, "high": p.high} for n, p in self.parameters.items()}
        takes = ["pause", "resume", "step", "stop"] + ["checkpoint"] * bool(self.save)
        takes += ["set", "scale"] * bool(self.parameters)
        takes = [] if self.alone else takes
        with self.run.turn:
            if self.run.open:
                recorder = self.run.recorder
                recorder.info.facts = {**recorder.info.facts, "takes": takes, "adjustable": adjustable}
                recorder.info.step = recorder.step
                recorder.info.save(recorder.run)

    def saves(self, save: Callable[[int], object]) -> None:
        self.save = save
        if self.polled:
            self.say()

    # Once per step

    def poll(self, step: int, together: bool) -> bool:
        """Carry out requests, wait while the run is paused, and return whether the loop should continue."""
        self.alone = not together and agreement.several()
        while True:
            verdict = self._verdict(step) if not self.run.silent else agreement.GO
            if together and agreement.several():
                news, self.news = self.news, []
                verdict, news = agreement.agree(verdict, news)
                if self.run.silent:
                    self._follow(news)
            if verdict == agreement.STOP:
                self.stopping = self.stopping or f"asked for at step {step}"
                return False
            if verdict == agreement.GO:
                self.granted = max(0, self.granted - 1)
                break
            time.sleep(POLL_EVERY)
        return True

    def _verdict(self, step: int) -> int:
        """Take the requests, and return whether to continue, wait or stop. If the directory is gone the loop
        continues."""
        if not self.run.open:
            return agreement.GO
        if not self.polled:
            self.say()
        now = time.monotonic()
        if now - self.looked >= POLL_EVERY or self.paused:
            self.looked = now
            for request in self.run.requests():
                self._do(step, request)
        if self.stopping:
            return agreement.STOP
        if not self.paused or self.granted:
            return agreement.GO
        with self.run.turn:
            if self.run.open:
                self.run.recorder.flush()
        return agreement.WAIT

    def _follow(self, news: list[agreement.News]) -> None:
        """Repeat the actions of the recording process."""
        for name, value in news:
            if not name and self.save is not None:
                self.save(int(value))
            elif name in self.parameters:
                self._apply(name, value)

    def _do(self, step: int, request: Request) -> None:
        """Carry out and answer a request."""
        error = request.error or (self.alone and ALONE) or (self.stopping and "the run was stopped before this") or None
        before = after = unsaved = None
        if not error:
            match request.request:
                case "set" | "scale":
                    known = {n: Adjustable(n, p.now(), p.low, p.high) for n, p in self.parameters.items()}
                    made = change(known, self._apply, request)
                    error, before, after = made.error or None, made.before, made.to
                    if not error and after is not None:
                        self.news.append((request.key or "", after))
                    request = replace(request, request="set", value=after)
                case "sample":
                    error = "this loop takes no requests for samples"
                case "checkpoint":
                    error = self._save(step)
                case "stop":
                    unsaved = self._save(step) if self.save is not None else None
                    self.stopping = f"{request.by or 'a user'} asked for it at step {step}"
                case _:  # pause, resume, step
                    self.granted = request.count if request.request == "step" else 0
                    self._pause(request.request != "resume")
        with self.run.turn:
            if self.run.open:
                self.run.recorder.control(step, request, error, before, after)
        if unsaved:
            self.run.note(step, unsaved)

    def _apply(self, name: str, value: float) -> None:
        parameter = self.parameters[name]
        parameter.apply(value)
        if not callable(parameter.value):
            parameter.value = value

    def _save(self, step: int) -> str | None:
        """Let the loop save, and record the path if it returns one; else why it was not saved."""
        if self.save is None:
            return "this loop has not said how it saves: run.saves(function)"
        self.news.append(("", step))
        try:
            where = self.save(step)
        except Exception as error:  # a request must never end a run
            return f"the loop could not save: {type(error).__name__}: {one_line(error)}"
        self.run.checkpoint(step, where if isinstance(where, (str, Path)) else "")
        return None

    def _pause(self, paused: bool) -> None:
        with self.run.turn:
            if paused != self.paused and self.run.open:
                self.paused = paused
                self.run.recorder.flush()
                self.run.recorder.status("paused" if paused else "running")


# The parameter of most loops

KEYS = ("lr", "initial_lr", "max_lr", "min_lr")  # of a group; the last two are OneCycleLR's


class LearningRate:
    """The learning rate of a torch optimizer as one number: the peak rate of its first group, and with a scheduler the
    peak of the schedule.

    Notable: a scheduler computes each rate from its own state, so a value written into the optimizer's groups is undone
    by its next step. A change is therefore a factor that everything is multiplied by: the groups, their peaks, and the
    base rates of the scheduler and of those inside it. Groups keep their ratios to each other.
    """

    def __init__(self, optimizer: Any, scheduler: Any = None) -> None:
        self.optimizer, self.scheduler = optimizer, scheduler
        if not getattr(optimizer, "param_groups", None):
            raise LabError(f"{type(optimizer).__name__} has no param_groups, so its learning rate cannot be changed")

    def value(self) -> float:
        for scheduler in self._schedulers():
            if bases := getattr(scheduler, "base_lrs", None):
                return float(bases[0])
        return float(self.optimizer.param_groups[0]["lr"])

    def set(self, value: float) -> None:
        """Multiply everything so that the peak becomes `value`; takes effect immediately. LabError if the peak is 0."""
        now = self.value()
        if now == 0:
            raise LabError("the learning rate is 0, and no factor changes that")
        factor = value / now
        changed: set[int] = set()  # tensors, which a group and its scheduler may share

        def scale(rate: Any) -> Any:
            if not hasattr(rate, "mul_"):
                return rate * factor
            if id(rate) not in changed:  # of a capturable optimizer: changed in place, since a graph may read it
                changed.add(id(rate))
                rate.mul_(factor)
            return rate

        for group in self.optimizer.param_groups:
            for key in KEYS:
                if key in group:
                    group[key] = scale(group[key])
        for scheduler in self._schedulers():
            for name in ("base_lrs", "min_lrs", "_last_lr"):
                held = getattr(scheduler, name, None)
                if isinstance(held, list):
                    setattr(scheduler, name, [scale(rate) for rate in held])
            if isinstance(getattr(scheduler, "eta_min", None), float):  # the floor of a cosine
                scheduler.eta_min *= factor

    def _schedulers(self) -> Iterator[Any]:
        """The scheduler and those inside it: SequentialLR, ChainedScheduler, and accelerate's wrapper."""
        waiting, seen = [self.scheduler], set()
        while waiting:
            scheduler = waiting.pop(0)
            if scheduler is None or id(scheduler) in seen:
                continue
            seen.add(id(scheduler))
            yield scheduler
            waiting += [getattr(scheduler, "scheduler", None), *getattr(scheduler, "_schedulers", ())]
