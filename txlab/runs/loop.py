"""The loop of every run: requests, step, record, checkpoint; written once for all kinds of experiment.

Notable: a person's requests are taken between steps only. The checkpoint is the last thing done at a step, so that it
holds all that the rows up to then tell; changes that a person made after it are repeated at their steps on a restart,
which keeps a killed run equal, bit for bit, to one that was never killed.
"""

from __future__ import annotations

import contextlib
import math
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from txlab.errors import RunFailed, nearest, one_line
from txlab.experiments.protocol import Experiment, Metrics, NotFinite
from txlab.experiments.schema import Record
from txlab.runs import checkpoints
from txlab.runs.control import Inbox, Request
from txlab.runs.directory import RunDirectory
from txlab.runs.recorder import Recorder, is_disk_full, number
from txlab.runs.speed import Speed

POLL_EVERY = 0.05  # seconds between two looks into the inbox: 20 Hz


@dataclass(frozen=True)
class Outcome:
    """How a run ended: done, stopped, interrupted or failed, and why."""

    status: str
    reason: str


def drive(
    experiment: Experiment,
    recorder: Recorder,
    inbox: Inbox,
    record: Record,
    *,
    interrupted: Callable[[], str | None] = lambda: None,
    pending: Sequence[Mapping[str, Any]] = (),
    val_loss: float | None = None,
) -> Outcome:
    """Run the experiment to its end, to a stop, to a signal or to a failure; writes all but the end itself.

    `interrupted` names the signal that came; `pending` are control rows to repeat at their steps; `val_loss` is the
    last one known. Nothing is raised: what went wrong is the outcome, and its traceback is in log.txt.
    """
    loop = _Loop(experiment, recorder, inbox, record, interrupted, list(pending), val_loss)
    try:
        outcome = loop.run()
    except BaseException as error:
        outcome = Outcome("failed", _reason(error, loop, recorder))
        if not isinstance(error, RunFailed) and not recorder.lost:
            write_traceback(recorder.run, error)
    loop.refuse_the_rest(outcome)
    return outcome


class _Loop:
    """What lives while a run goes: whether it is paused, what is still to be repeated, how fast it is."""

    def __init__(
        self,
        experiment: Experiment,
        recorder: Recorder,
        inbox: Inbox,
        record: Record,
        interrupted: Callable[[], str | None],
        pending: list[Mapping[str, Any]],
        val_loss: float | None,
    ) -> None:
        self.experiment, self.recorder, self.inbox, self.record = experiment, recorder, inbox, record
        self.interrupted, self.pending, self.val_loss = interrupted, pending, val_loss
        self.paused = False
        self.granted = 0  # steps that a person asked for one by one, before the pause
        self.saved_at = experiment.step_count if experiment.step_count else -1
        self.polled = -math.inf
        self.speed = Speed(experiment.facts(), experiment.steps)

    @property
    def step(self) -> int:
        return self.experiment.step_count

    def run(self) -> Outcome:
        if self.step == 0:
            self._measure()
        self.speed.begin(self.step)
        while True:
            self._repeat_changes()
            if name := self.interrupted():
                self._save()
                return Outcome("interrupted", f"{name} received at step {self.step}")
            if stop := self._take_requests():
                self._save()
                return stop
            if self.step >= self.experiment.steps:
                self._save()
                self.recorder.info.steps = self.experiment.steps  # it may have been done before its bound
                return Outcome("done", "")
            if self.paused and not self.granted:
                self.recorder.flush()  # if anything is wrong with the directory it is said here
                time.sleep(POLL_EVERY)
                continue
            self._one_step()

    def _one_step(self) -> None:
        values = self.experiment.step()
        step = self.step
        self.speed.steps = self.experiment.steps
        last = step >= self.experiment.steps
        if last or step % self.record.metrics_every == 0:
            self.recorder.metrics(step, values)
        else:
            self.recorder.step = step
        if self.recorder.due:
            self.experiment.verify()
            self.recorder.flush()
        with self.speed.aside():
            self._measure()
            if last or is_due(self.record.checkpoint_every, step):
                self._save()
        if values := self.speed.look(step):
            self.recorder.machine(step, values)
        if self.granted:
            self.granted -= 1
            if not self.granted:
                self.speed.begin(step)

    def _measure(self) -> None:
        """Evaluation, samples and a frame, where the cadence asks for them at this step."""
        step, last = self.step, self.step >= self.experiment.steps
        if self.record.evaluate_every and (last or is_due(self.record.evaluate_every, step)):
            self._evaluate()
        if self.record.sample_every and (last or is_due(self.record.sample_every, step)):
            self._sample()
        if self.record.frame_every and (last or is_due(self.record.frame_every, step)):
            self.recorder.frame(self.experiment.frame())

    def _evaluate(self) -> None:
        values: Metrics = {name: number(value) for name, value in self.experiment.evaluate().items()}
        if values:
            self.recorder.metrics(self.step, values)
        self.val_loss = float(values.get("val_loss", self.val_loss if self.val_loss is not None else math.nan))

    def _sample(self) -> None:
        for sample in self.experiment.samples():
            self.recorder.sample(self.step, sample)

    def _save(self) -> None:
        """A checkpoint of this step, unless there is one already."""
        if self.saved_at != self.step:
            self.experiment.verify()
            self.recorder.checkpoint(
                self.step, self.experiment.state_dict(), self.record.checkpoints_kept, self.val_loss, self.pending
            )
            self.saved_at = self.step

    # A person's requests

    def _repeat_changes(self) -> None:
        """Make the changes of an earlier life of this run that belong to this step."""
        while self.pending and self.pending[0]["step"] <= self.step:
            row = self.pending.pop(0)
            request = Request(
                "set", row["key"], row["to"], by=row.get("by", ""), id=row.get("id", ""), asked=row.get("asked", 0.0)
            )
            self._set(request, replayed=True)

    def _take_requests(self) -> Outcome | None:
        now = time.monotonic()
        if now - self.polled < POLL_EVERY:
            return None
        self.polled = now
        stop = None
        for request in self.inbox.take():
            if stop:
                self.recorder.control(self.step, request, "the run was stopped before this was done")
            else:
                stop = self._do(request)
        return stop

    def _do(self, request: Request) -> Outcome | None:
        """Do what is asked and record what came of it; an Outcome if the run is to stop."""
        if request.error is not None:
            self.recorder.control(self.step, request, request.error)
            return None
        match request.request:
            case "set":
                self._set(request)
                return None
            case "scale":
                self._scale(request)
                return None
            case "pause":
                self._pause(True)
            case "resume":
                self._pause(False)
            case "step":
                self.granted = request.count
                self._pause(True)
            case "checkpoint":
                self.saved_at = -1  # a change may have been made since the one of this step
        self.recorder.control(self.step, request)
        match request.request:
            case "checkpoint":
                self._save()
            case "sample":
                self._sample()
            case "stop":
                return Outcome("stopped", f"{request.by or 'somebody'} asked for it at step {self.step}")
        return None

    def _pause(self, paused: bool) -> None:
        if not paused:
            self.granted = 0
        if paused != self.paused:
            self.paused = paused
            self.recorder.flush()
            self.recorder.status("paused" if paused else "running")
        self.speed.begin(self.step)

    def _scale(self, request: Request) -> None:
        """A factor is recorded as the change it came to, so that a restart repeats the value and not the factor."""
        now = self.experiment.adjustable().get(request.key or "")
        value = None if now is None or request.value is None else float(f"{now.value * request.value:.4g}")
        self._set(replace(request, request="set", value=value))

    def _set(self, request: Request, replayed: bool = False) -> None:
        """Change an adjustable parameter, or say in one sentence why not."""
        key, value = request.key or "", request.value
        adjustable = self.experiment.adjustable()
        before = adjustable[key].value if key in adjustable else None
        error = None
        if key not in adjustable:
            error = f"set {key!r}: no such parameter{nearest(key, adjustable)}; adjustable: {', '.join(adjustable)}"
        elif value is None or not adjustable[key].low <= value <= adjustable[key].high:
            error = f"set {key} = {value}: allowed is {adjustable[key].low:g} to {adjustable[key].high:g}"
        else:
            try:
                self.experiment.adjust(key, value)
            except Exception as refused:  # a request must never end a run
                error = f"set {key} = {value}: {one_line(refused)}"
            else:
                self.saved_at = -1  # the checkpoint of this step does not know it
        self.recorder.control(self.step, request, error, before, value, replayed)

    def refuse_the_rest(self, outcome: Outcome) -> None:
        """Answer what came too late, so that nobody waits for it."""
        try:
            for request in self.inbox.take():
                self.recorder.control(self.step, request, f"the run has ended ({outcome.status})")
        except Exception:  # the disk that ended the run refuses this too
            return


def is_due(every: int, step: int) -> bool:
    """Whether a cadence (in steps; 0 = never) falls on this step."""
    return every > 0 and step % every == 0


# Why it failed


def _reason(error: BaseException, loop: _Loop, recorder: Recorder) -> str:
    """One sentence for run.json; names the last checkpoint that one can go back to."""
    if lost := recorder.lost:
        return lost
    saved = checkpoints.newest(recorder.run)
    back = "there is no checkpoint yet" if saved is None else f"last good checkpoint {saved}"
    if is_disk_full(error):
        return f"no space left on the disk that holds {recorder.run.path}; {back.replace('good ', '')}"
    if isinstance(error, NotFinite):
        return f"{one_line(error)}; {back}"
    at = f"step {loop.step}"
    if is_out_of_memory(error):
        return f"{at}: out of memory ({one_line(error)}); {back}"
    if isinstance(error, RunFailed):
        return f"{one_line(error)}; {back}"
    return f"{at}: {type(error).__name__}: {one_line(error)}; {back}"


def is_out_of_memory(error: BaseException) -> bool:
    """MemoryError, or torch's of a device or of the host."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def write_traceback(run: RunDirectory, error: BaseException) -> None:
    """Add it to log.txt, for whoever mends the bug; a disk that refuses must not hide the error itself."""
    said = "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
    with contextlib.suppress(OSError), run.log_file() as log:
        log.write(said)
