"""The loop of every run: requests, step, record, checkpoint; the same for all kinds of experiment.

Requests are handled only between steps. The checkpoint is the last action of a step, so that it holds
everything the rows up to then report; changes that the user made after it are repeated at their steps on a restart,
which keeps a killed run equal, bit for bit, to one that was never killed.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from txlab.engine.card import Card
from txlab.errors import RunFailed, one_line
from txlab.experiments.protocol import Experiment, Measuring, Metrics, NotFinite, Noting
from txlab.experiments.schema import Record
from txlab.runs import checkpoints, out_of_memory
from txlab.runs.control import Inbox, Request, change
from txlab.runs.directory import RunDirectory
from txlab.runs.preferences import Asking, People
from txlab.runs.recorder import Recorder, is_disk_full, number

POLL_EVERY = 0.05  # seconds between checks of the inbox: 20 Hz
MACHINE_EVERY = 1.0  # seconds between rows
WINDOW = 10  # rows over which a speed is averaged


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: done, stopped, interrupted or failed, and why."""

    status: str
    reason: str


def run_loop(
    experiment: Experiment,
    recorder: Recorder,
    inbox: Inbox,
    record: Record,
    *,
    interrupted: Callable[[], str | None] = lambda: None,
    pending: Sequence[Mapping[str, Any]] = (),
    val_loss: float | None = None,
    due: Callable[[], bool] | None = None,
    people: Callable[[Any, RunDirectory], People] = People,
) -> RunOutcome:
    """Run the experiment until it ends, is stopped, gets a signal or fails; writes everything but the end row.

    `interrupted` returns the name of a received signal; `pending` are control rows to repeat at their steps;
    `val_loss` is the last one known. Never raises: an error becomes the outcome, and its traceback goes to log.txt.
    Where several processes compute the run and have to agree, `due` decides when values on a device are fetched, and
    `people` creates the object that asks the user.
    """
    due = due or (lambda: recorder.due)
    loop = _Loop(experiment, recorder, inbox, record, interrupted, list(pending), val_loss, due, people)
    try:
        outcome = loop.run()
    except BaseException as error:
        outcome = RunOutcome("failed", _reason(error, loop, recorder))
        if not isinstance(error, RunFailed) and not recorder.lost:
            write_traceback(recorder.run, error)
    with contextlib.suppress(Exception):  # the disk that ended the run may refuse this too
        for request in inbox.late():  # answer late requests, so that their senders do not wait
            recorder.control(loop.step, request, f"the run has ended ({outcome.status})")
    return outcome


@dataclass
class _Loop:
    """The state of a running loop: whether it is paused, what is still to be repeated, how fast it is.

    granted  single steps that the user requested, still to be taken before pausing again
    """

    experiment: Experiment
    recorder: Recorder
    inbox: Inbox
    record: Record
    interrupted: Callable[[], str | None]
    pending: list[Mapping[str, Any]]
    val_loss: float | None
    due: Callable[[], bool]
    make_people: Callable[[Any, RunDirectory], People]
    paused: bool = False
    granted: int = 0
    polled: float = -math.inf
    warned: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.saved_at = self.experiment.step_count or -1
        self.speed = Speed(self.experiment.facts(), self.experiment.steps)
        asks = isinstance(self.experiment, Asking)
        self.people = self.make_people(self.experiment, self.recorder.run) if asks else None
        self.waiting = ""
        self.framed_at = -1

    @property
    def step(self) -> int:
        return self.experiment.step_count

    def run(self) -> RunOutcome:
        if self.step == 0:
            self._measure()
        self.speed.begin(self.step)
        while True:
            self._repeat_changes()
            if name := self.interrupted():
                self._save()
                return RunOutcome("interrupted", f"{name} received at step {self.step}")
            if stop := self._take_requests():
                self._save()
                return stop
            if self.step >= self.experiment.steps:
                if self.people is not None:
                    self.people.exchange()
                self._save()
                self.recorder.info.steps = self.experiment.steps  # it may have finished before its bound
                return RunOutcome("done", "")
            if self.paused and not self.granted:
                self.recorder.flush()  # raises if anything is wrong with the directory
                time.sleep(POLL_EVERY)
                continue
            if self.people is not None and self._waits(self.people.exchange()):
                time.sleep(POLL_EVERY)
                continue
            self._one_step()

    def _waits(self, waiting: str) -> bool:
        """Whether the next step has to wait for the user; the checkpoint taken first allows the run to be resumed."""
        if waiting != self.waiting:
            self.waiting = waiting
            if waiting:
                if "waiting" not in self.warned:  # once is enough: it waits before every ranking
                    self.recorder.note(self.step, waiting)
                    self.warned.add("waiting")
                self._save()
                self._frame()  # whoever is waited for sees what the last answer has changed
            else:
                self.speed.begin(self.step)
            self.recorder.waiting(waiting)
        if waiting:
            self.recorder.flush()
        return bool(waiting)

    def _one_step(self) -> None:
        values = self.experiment.step()
        step = self.step
        self.speed.steps = self.experiment.steps
        last = step >= self.experiment.steps
        if last or step % self.record.metrics_every == 0:
            self.recorder.metrics(step, values)
        else:
            self.recorder.step = step
        if self.due():
            self.experiment.verify()
            self.recorder.flush()
        with self.speed.aside():
            self._measure()
            if last or is_due(self.record.checkpoint_every, step):
                self._save()
        if values := self.speed.look(step):
            if isinstance(self.experiment, Measuring):
                values = values | dict(self.experiment.take_speeds())
            self.recorder.row("machine", step, values=values)
            for text in (
                *self.speed.notes(),
                *(self.experiment.notes() if isinstance(self.experiment, Noting) else ()),
            ):
                self.recorder.note(step, text)
        if self.granted:
            self.granted -= 1
            if not self.granted:
                self.speed.begin(step)

    def _measure(self) -> None:
        """Evaluate, sample and record a frame if they are due at this step."""
        step, last = self.step, self.step >= self.experiment.steps
        if self.record.evaluate_every and (last or is_due(self.record.evaluate_every, step)):
            values: Metrics = {name: number(value) for name, value in self.experiment.evaluate().items()}
            if values:
                self.recorder.metrics(step, values)
            self.val_loss = float(values.get("val_loss", self.val_loss if self.val_loss is not None else math.nan))
        if self.record.sample_every and (last or is_due(self.record.sample_every, step)):
            self._sample()
        if self.record.frame_every and (last or is_due(self.record.frame_every, step)):
            self._frame()

    def _frame(self) -> None:
        """Record a frame of this step, if frames are recorded and there is none yet."""
        if not self.record.frame_every or self.framed_at == self.step:
            return
        frame = self.experiment.frame()
        self.recorder.frames.write(frame)
        self.framed_at = self.step
        for text in filter(None, frame.facts.get("warnings", ())):
            if text.partition(":")[0] not in self.warned:  # the number in it changes, the warning does not
                self.recorder.note(self.step, text)
                self.warned.add(text.partition(":")[0])

    def _sample(self) -> None:
        for sample in self.experiment.samples():
            self.recorder.row("sample", self.step, prompt=sample.prompt, text=sample.text)

    def _save(self) -> None:
        """Save a checkpoint of this step, unless there is one already."""
        if self.saved_at != self.step:
            self.experiment.verify()
            self.recorder.checkpoint(
                self.step,
                self.experiment.state_dict(),
                self.record.checkpoints_kept,
                self.val_loss,
                self.pending,
                round(self.record.checkpoints_mb * 1e6),
            )
            self.saved_at = self.step

    # The user's requests

    def _repeat_changes(self) -> None:
        """Repeat the changes that the user made at this step before the run was resumed."""
        while self.pending and self.pending[0]["step"] <= self.step:
            row = self.pending.pop(0)
            request = Request(
                "set", row["key"], row["to"], by=row.get("by", ""), id=row.get("id", ""), asked=row.get("asked", 0.0)
            )
            self._set(request, replayed=True)

    def _take_requests(self) -> RunOutcome | None:
        now = time.monotonic()
        if self.inbox.polled and now - self.polled < POLL_EVERY:
            return None
        self.polled = now
        stop = None
        for request in self.inbox.take():
            if stop:
                self.recorder.control(self.step, request, "the run was stopped before this was done")
            else:
                stop = self._do(request)
        return stop

    def _do(self, request: Request) -> RunOutcome | None:
        """Carry out a request and record the result; a RunOutcome if the run is to stop."""
        if request.error is not None:
            self.recorder.control(self.step, request, request.error)
            return None
        match request.request:
            case "set" | "scale":
                self._set(request)
                return None
            case "pause" | "resume" | "step":
                if request.request == "step":
                    self.granted = request.count
                self._pause(request.request != "resume")
            case "checkpoint":
                self.saved_at = -1  # a change may have been made since the checkpoint of this step
        self.recorder.control(self.step, request)
        match request.request:
            case "checkpoint":
                self._save()
            case "sample":
                self._sample()
            case "stop":
                return RunOutcome("stopped", f"{request.by or 'a user'} asked for it at step {self.step}")
        return None

    def _pause(self, paused: bool) -> None:
        if not paused:
            self.granted = 0
        if paused != self.paused:
            self.paused = paused
            self.recorder.flush()
            self.recorder.status("paused" if paused else "running")
        self.speed.begin(self.step)

    def _set(self, request: Request, replayed: bool = False) -> None:
        """Change an adjustable parameter, or record why not. For a factor the resulting value is recorded, so that a
        restart repeats the value."""
        made = change(self.experiment.adjustable(), self.experiment.adjust, request)
        if not made.error:
            self.saved_at = -1  # the checkpoint of this step does not include it
        request = replace(request, request="set", value=made.to)
        self.recorder.control(self.step, request, made.error or None, made.before, made.to, replayed)


def is_due(every: int, step: int) -> bool:
    """Whether something done every `every` steps (0 = never) is due at this step."""
    return every > 0 and step % every == 0


# Why it failed


def _reason(error: BaseException, loop: _Loop, recorder: Recorder) -> str:
    """The reason of the failure in one sentence for run.json; it names the last usable checkpoint."""
    if lost := recorder.lost:
        return lost
    back = checkpoints.last_good(recorder.run)
    if is_disk_full(error):
        return f"no space left on the disk that holds {recorder.run.path}; {back.replace('good ', '')}"
    if isinstance(error, NotFinite):
        return f"{one_line(error)}; {back}"
    at = f"step {loop.step}"
    if out_of_memory.is_out_of_memory(error):
        sentence, table = out_of_memory.describe_memory(error, loop.experiment)
        write_log(recorder.run, table)
        return f"{at}: {sentence}; {back}"
    if isinstance(error, RunFailed):
        return f"{one_line(error)}; {back}"
    return f"{at}: {type(error).__name__}: {one_line(error)}; {back}"


def write_traceback(run: RunDirectory, error: BaseException) -> None:
    """Append the traceback to log.txt; a full disk must not hide the error itself."""
    write_log(run, "".join(traceback.format_exception(error)))


def write_log(run: RunDirectory, text: str) -> None:
    with contextlib.suppress(OSError), run.log_file() as log:
        log.write(text.encode("utf-8", "backslashreplace"))


# Speed and memory


class Speed:
    """Machine metrics about once a second, over a window of about ten; pauses and measurements are not counted."""

    def __init__(self, facts: Mapping[str, Any], steps: int) -> None:
        self.units = float(facts.get("units_per_step") or 0)
        self.unit = str(facts.get("unit") or "tokens")
        self.flops, self.peak = float(facts.get("flops_per_step") or 0), float(facts.get("peak_flops") or 0)
        self.sheet = float(facts.get("data_sheet_flops") or 0)
        compute = facts.get("compute")
        self.device = str(compute.get("device") or "") if isinstance(compute, Mapping) else ""
        self.card = card_of(self.device)
        self.told = ""
        self.steps = steps
        self.open_end = bool(facts.get("open_end"))  # `steps` is only a bound, so the remaining time is unknown
        self.spent_aside = 0.0
        self.marks: deque[tuple[float, float, int]] = deque(maxlen=WINDOW + 1)  # (now, spent aside, step)
        self.began_aside = 0.0

    def begin(self, step: int) -> None:
        """Restart the measurement (after a pause)."""
        self.marks.clear()
        self.marks.append((time.monotonic(), self.spent_aside, step))

    def aside(self) -> Speed:
        """Time spent inside `with speed.aside():` is not counted as training."""
        return self

    def __enter__(self) -> None:
        self.began_aside = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.spent_aside += time.monotonic() - self.began_aside

    def look(self, step: int) -> dict[str, float]:
        """The values of a machine row if a second has passed since the last, or the last step is done; else nothing.

        share_of_peak = flops_per_step · steps/s / peak_flops;  share_of_data_sheet the same with data_sheet_flops;
        seconds_left includes evaluations and samples.
        """
        now = time.monotonic()
        if now - self.marks[-1][0] < MACHINE_EVERY and step < self.steps:
            return {}
        then, aside, first = self.marks[0]
        wall, done = now - then, step - first
        training = wall - (self.spent_aside - aside)
        self.marks.append((now, self.spent_aside, step))
        values = memory(self.device) | (self.card.read() if self.card else {})
        if done > 0 and training > 0:
            rate = done / training
            values["steps_per_second"] = rate
            if not self.open_end or step >= self.steps:
                values["seconds_left"] = (self.steps - step) * wall / done
            if self.units:
                values[f"{self.unit}_per_second"] = self.units * rate
            if self.flops and self.peak:
                values["share_of_peak"] = self.flops * rate / self.peak
            if self.flops and self.sheet:
                values["share_of_data_sheet"] = self.flops * rate / self.sheet
        return values

    def notes(self) -> list[str]:
        """Why the card reports no measurements; returned once."""
        trouble = self.card.trouble if self.card else ""
        if trouble == self.told:
            return []
        self.told = trouble
        return [trouble]


def card_of(device: str) -> Card | None:
    """The card behind "cuda:1"; None for other devices."""
    torch = sys.modules.get("torch")
    if torch is None or not device.startswith("cuda") or not torch.cuda.is_available():
        return None
    return Card(str(torch.cuda.get_device_properties(device).uuid))


def memory(device: str = "") -> dict[str, float]:
    """memory_mb is the memory of the process. On a GPU it is the most that tensors have taken there, memory_reserved_mb
    what torch holds for them, and host_memory_mb the process's."""
    import psutil

    host = psutil.Process().memory_info().rss / 1e6
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        there = device if device.startswith("cuda") else None
        return {
            "memory_mb": torch.cuda.max_memory_allocated(there) / 1e6,
            "memory_reserved_mb": torch.cuda.memory_reserved(there) / 1e6,
            "host_memory_mb": host,
        }
    return {"memory_mb": host}
