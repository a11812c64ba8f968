"""Three lines turn any training loop into a run that the console can open.

    with txlab.record("my-model", config={"lr": 3e-4}) as run:
        for step in range(1000):
            run.log(step, loss=train())

Notable: the steps of one metric may repeat but not go back except by `rewind`, because a curve that zigzags is wrong;
another metric may count something else, such as epochs, and another thread may be at another step. A run that is not
closed explicitly is closed when the program ends, with a status that depends on how it ended (see ending.py). A run
belongs to the process that started it: in a fork (a worker of a DataLoader), recording is an error and closing does
nothing.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsFloat, SupportsIndex, TypeAlias, get_args
from weakref import WeakKeyDictionary

from txlab.errors import LabError, one_line
from txlab.experiments.protocol import Frame
from txlab.runs import ending
from txlab.runs.alerts import LEVELS, Alert
from txlab.runs.as_json import table_of, text_of
from txlab.runs.control import Inbox, Request
from txlab.runs.directory import RunDirectory
from txlab.runs.frames import FrameIndex, merge_frames
from txlab.runs.loop import write_traceback
from txlab.runs.loop_values import flatten_config, format_scenario, metric, whole
from txlab.runs.pictures import counts_of, pixels_of
from txlab.runs.recorder import Recorder
from txlab.runs.steering import LearningRate, Number, Parameter, Steering

if TYPE_CHECKING:
    from txlab.experiments.protocol import Array
    from txlab.runs.watched_model import Look, WatchedModel

ANSWER_EVERY = 0.5  # seconds between checks of the inbox
Status: TypeAlias = Literal["done", "stopped", "interrupted", "failed"]


class Recording:
    """A run written by another program's loop; `path` is its directory. All methods are thread-safe.

    If the directory disappears, this is reported once on stderr and nothing more is recorded; the loop continues.
    """

    def __init__(
        self, run: RunDirectory, recorder: Recorder | None, lock: contextlib.ExitStack, config: Mapping[str, Any]
    ) -> None:
        """Without a recorder it is silent: in a process that does not record, all calls do nothing."""
        self.path, self.config = run.path, dict(config if isinstance(config, Mapping) else table_of(config))
        self.silent = recorder is None
        self.inbox = Inbox(run)
        self._lock = lock  # of the run directory
        self.open, self._refusal = not self.silent, ""  # why nothing more can be recorded; "" = calls are ignored
        self.turn = _Turn(self)
        self.signal = ""  # the name of a signal that the program's own handler received
        self.failure: Exception | None = None  # what ended the thread that logged last
        self._logger = 0  # that thread
        self._answered = time.monotonic()
        self._reached: WeakKeyDictionary[threading.Thread, dict[str, int]] = WeakKeyDictionary()
        self._own: set[str] = set()  # metrics that count other steps: at some point behind the run
        self._before: dict[str, int] = {}  # of a resumed run: its last steps, until the loop logs one
        self.framed = 0  # the step of the last frame
        self.steering = Steering(self)
        self._watched: WatchedModel | None = None
        self._blind = False  # whether a look into the watched model has failed, which is noted once
        if recorder is not None:
            self.recorder = recorder
            self.framed = max([0, *recorder.frames.steps])
            ending.watch(self)

    def log(
        self, step: SupportsIndex, values: Mapping[str, SupportsFloat] | None = None, /, **named: SupportsFloat
    ) -> None:
        """Record the numbers of a step by name: `log(3, loss=.5)`, `log(3, {"train/loss": .5}, lr=1e-3)`.

        Tensors on a device are copied there and fetched later in batches. The steps of a metric may not go back, but
        metrics and threads may be at different steps.

        Raises LabError, and records nothing of this call, for a value that is not a single number, a step that goes
        back, a run that is closed, and in a fork of the recording process.
        """
        self._log(step, values, named, forward=True)

    def add(self, step: SupportsIndex, values: Mapping[str, SupportsFloat]) -> None:
        """Record numbers as `log` does, but allow the steps of a metric in any order: for writers and loggers of other
        programs, which pass on their input. Of two values at the same step the later counts."""
        self._log(step, values, {}, forward=False)

    def _log(
        self, step: SupportsIndex, values: Mapping[str, Any] | None, named: Mapping[str, Any], forward: bool
    ) -> None:
        step = whole(step)
        if values is not None:
            if not isinstance(values, Mapping):
                raise LabError(f"step {step}: log takes names with their numbers, not {text_of(values, 60)!r}")
            if twice := named.keys() & values.keys():
                raise LabError(f"step {step}: {min(twice)} is given twice")
            named = {**values, **named}
        metrics = {name: metric(step, name, value) for name, value in named.items()}
        with self.turn:
            if self._ignores():
                return
            if self._before:
                self._resumes_at(step, metrics)
            self._logger, self.failure = threading.get_ident(), None
            reached = self._reached.setdefault(threading.current_thread(), {})
            for name in metrics:
                if forward and step < (last := reached.get(name, 0)):
                    back = f"say rewind({step}) first if the loop went back"
                    raise LabError(f"step {step} of {name} comes after its step {last}; {back}")
            if step < self.recorder.step:
                self._own.update(metrics)
            self.recorder.metrics(step, metrics)
            for name in metrics:
                reached[name] = max(step, reached.get(name, 0))
            if self.recorder.due:
                self.recorder.flush()
            if time.monotonic() - self._answered >= ANSWER_EVERY:
                self._answer()
        if self._watched is not None:
            self._look(self._watched, step)

    def flush(self) -> None:
        """Write the values that still wait on a device."""
        with self.turn:
            if not self._ignores():
                self.recorder.flush()

    def frame(
        self,
        step: SupportsIndex,
        tensors: Mapping[str, Array],
        tokens: Mapping[str, Sequence[str]] | None = None,
        texts: Mapping[str, str] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a frame: named arrays, rows of labels, texts, and facts that describe them. Later frames of the same
        step are merged into it."""
        self._frame(Frame(whole(step), tensors, tokens or {}, texts or {}, facts or {}))

    def _frame(self, frame: Frame) -> None:
        with self.turn:
            if self._ignores():
                return
            if self._before:
                self._resumes_at(frame.step, ())
            if frame.step < self.framed:
                raise LabError(f"a frame of step {frame.step} comes after one of step {self.framed}")
            if frame.step == self.framed and frame.step in self.recorder.frames.steps:
                frame = merge_frames(FrameIndex(self.path / "frames").read(frame.step), frame)
            self.recorder.frames.write(frame)
            self.framed = frame.step

    def image(self, step: SupportsIndex, name: str, image: Array) -> None:
        """Record a picture: (H, W), (H, W, 3) or (3, H, W), bytes, numbers from 0 to 1, or any others, which are scaled
        from their least to their greatest. Sides longer than 512 pixels are averaged down."""
        pixels, span = pixels_of(image)
        self.frame(step, {f"image/{text_of(name)}": pixels}, facts={"image": {text_of(name): span}})

    def histogram(self, step: SupportsIndex, name: str, values: Array, bins: int = 64) -> None:
        """Record the distribution of the values of a tensor or an array; they are counted on their device."""
        counts, span = counts_of(values, bins)
        self.frame(step, {f"histogram/{text_of(name)}": counts}, facts={"histogram": {text_of(name): span}})

    def sample(self, step: SupportsIndex, prompt: str, text: str) -> None:
        """Record a text that the model generated."""
        self._row("sample", step, prompt=prompt, text=text)

    def text(self, step: SupportsIndex, name: str, text: str) -> None:
        """Record a text under a name: a translation, a table."""
        self._row("sample", step, prompt="", text=text, name=name)

    def note(self, step: SupportsIndex, text: str) -> None:
        """Record a remark."""
        self._row("note", step, text=text)

    def alert(self, title: str, text: str = "", level: str = "warning", step: SupportsIndex | None = None) -> None:
        """Raise an alert: a row of the log, a sign on the screens, and the user's command if there is one.

        level  info, warning or error; LabError if it is another
        """
        known_level = {"warn": "warning"}.get(level.lower(), level.lower()) if isinstance(level, str) else level
        if known_level not in LEVELS:
            raise LabError(f"level {text_of(level, 40)!r} is not allowed; allowed: {', '.join(LEVELS)}")
        with self.turn:
            if not self._ignores():
                at = self.recorder.step if step is None else whole(step)
                self.recorder.alert(at, Alert(text_of(title), text_of(text), known_level))

    def configure(self, values: Any = None, /, **named: Any) -> None:
        """Add entries, a mapping, a Namespace or a dataclass, to the run's configuration; entries of the same name are
        replaced."""
        self.config |= {**(values if isinstance(values, Mapping) else table_of(values)), **named}
        with self.turn:
            if not self._ignores():
                info = self.recorder.info
                info.config = flatten_config(self.config)
                self.recorder.run.write("scenario.toml", format_scenario(info.scenario, self.config))
                info.save(self.recorder.run)

    def checkpoint(self, step: SupportsIndex, path: str | Path = "") -> None:
        """Record that the loop has saved a checkpoint, and where."""
        self._row("checkpoint", step, **({"path": str(path)} if path else {}))

    def _row(self, event: str, step: SupportsIndex, **content: str) -> None:
        step = whole(step)
        with self.turn:
            if not self._ignores():
                self.recorder.row(event, step, **content)

    # Requests

    def adjustable(self, name: str, value: Number, low: float, high: float, apply: Callable[[float], object]) -> None:
        """Declare a number that the user may change while the loop runs and polls.

        value  its current value, or a function that reads it
        apply  called with the new value, in the thread that polls, between two steps
        """
        self.steering.declare(name, Parameter(value, low, high, apply))

    def learning_rate(
        self, optimizer: Any, scheduler: Any = None, low: float = 1e-12, high: float = 100.0, name: str = "lr"
    ) -> None:
        """Declare the learning rate of a torch optimizer as adjustable. With its scheduler, changes apply to the peak
        of the schedule."""
        rate = LearningRate(optimizer, scheduler)
        self.adjustable(name, rate.value, low, high, rate.set)

    def saves(self, save: Callable[[int], object]) -> None:
        """Declare how the loop saves: `save(step)` is called when a checkpoint is requested, and before a stop. If it
        returns a path, that is recorded."""
        self.steering.saves(save)

    def poll(self, step: SupportsIndex | None = None, together: bool = False) -> bool:
        """Carry out requests, and wait while the run is paused; False = the loop was asked to stop.

        To be called once per step, from one thread: `if not run.poll(): break`. It checks the inbox at most 20 times a
        second, and otherwise takes a microsecond.

        together  in a training of several processes: all of them call it, and act between the same two steps
        """
        if self._refusal:
            raise LabError(self._refusal)
        at = whole(step) if step is not None else 0 if self.silent else self.recorder.step
        if self._watched is not None:
            self._look(self._watched, at)
        return self.steering.poll(at, together)

    def watch(
        self,
        model: Any,
        probe: Any,
        every: int = 100,
        tokens: Sequence[str] | None = None,
        tokenizer: Any = None,
    ) -> None:
        """Record every `every` steps the attention of a torch module on one short input, and the norms of its
        activations and gradients, layer by layer. The Attention screen opens it.

        probe      the module's input: a tensor of token ids (1, T), a dictionary of arguments, or a tuple; with a
                   tokenizer, a text
        tokens     labels of the T positions; else decoded by the tokenizer, else the ids themselves

        The first is recorded immediately, so that a probe that does not fit the module raises LabError here. Costs a
        forward pass without gradients; the module's mode and all random states are restored.
        """
        from txlab.runs.watched_model import WatchedModel

        if not self.silent:
            watched = WatchedModel(model, probe, self.recorder.step, every, tokens, tokenizer)
            self._record_look(self.recorder.step, watched.first)
            self._watched = watched

    def _look(self, watched: WatchedModel, step: int) -> None:
        """Probe a watched model if it is due. A failure is noted once, and never ends the loop."""
        try:
            if (look := watched.look(step)) is not None:
                self._record_look(step, look)
        except Exception as error:
            if not self._blind:
                self._blind = True
                self.note(step, f"the model could not be looked into: {type(error).__name__}: {one_line(error)}")

    def _record_look(self, step: int, look: Look) -> None:
        if look.note:
            self.note(step, look.note)
        if look.frame is not None:
            self._frame(look.frame)
        if look.values:
            self.log(step, look.values)

    def rewind(self, step: SupportsIndex, reason: str = "") -> None:
        """Record that the loop went back to `step`: later values no longer count, for any metric."""
        step = whole(step, -1)
        with self.turn:
            if not self._ignores():
                self._before.clear()
                self.recorder.flush()
                self.recorder.rewind(step, self.recorder.step, reason, explicit=True)
                self.framed = min(self.framed, step)
                for reached in self._reached.values():
                    kept = {name: min(last, step) for name, last in reached.items() if name not in self._own}
                    reached.clear()
                    reached.update(kept)

    def close(self, status: Status | None = None, reason: str = "") -> None:
        """End the run as `status` says, else as done, as interrupted if a signal was received, or as failed if an
        exception ended the thread that logged last.

        Does nothing the second time, or in a fork.
        """
        if status is not None and status not in get_args(Status):
            raise LabError(f"a run does not end as {status!r}; allowed: {', '.join(get_args(Status))}")
        if status is None and self.failure is not None:
            ending.end_with(self, self.failure)
            return
        if status is None:
            status, reason = ("interrupted", self.signal) if self.signal else ("done", reason)
        self.end(status, reason)

    # Of a resumed run

    def goes_on(self, before: Mapping[str, int], step: int) -> None:
        """Store the last step of each metric of an earlier process."""
        self._before, self.recorder.step = dict(before), step

    def _resumes_at(self, step: int, names: Iterable[str]) -> None:
        """Rewind if a step is logged again: the loop resumed from a checkpoint before it."""
        known = [self._before[name] for name in names if name in self._before]
        furthest = max(known, default=-1 if names else max(self._before.values()))
        if step <= furthest:
            self.rewind(max(-1, step - 1), f"resumed at step {step}")
        elif known:
            self._before.clear()

    # Called by steering.py

    def requests(self) -> list[Request]:
        """Take the requests from the inbox; detects, as `log` does, that the directory is gone."""
        requests: list[Request] = []
        with self.turn:
            self._answered = time.monotonic()
            if self.recorder.gone:
                self.give_up()
            elif self.open:
                requests = self.inbox.take()
        return requests

    # Called by ending.py

    @property
    def busy(self) -> bool:
        """Whether the calling thread is writing the run."""
        return self.turn.thread == threading.get_ident()

    def note_signal(self, name: str) -> None:
        """Note a signal; the program's own handler decides what happens."""
        self.signal = self.signal or name
        with contextlib.suppress(LabError, OSError):
            self.note(self.recorder.step, f"{name} came; the handler of the program decides what it does")

    def thread_ended(self, thread: int, error: Exception) -> None:
        if thread == self._logger:
            self.failure = error

    def end(self, status: str, reason: str = "", error: BaseException | None = None) -> None:
        with self.turn:
            if self.open:
                self._answer(ended=True)
            if not self.open:
                return
            if status == "done" and self.steering.stopping:
                status, reason = "stopped", self.steering.stopping
            self.open, self._refusal = False, f"{self.path} is closed; nothing more can be recorded"
            with contextlib.ExitStack() as then:  # last first: if a callback raises, the others still run
                then.callback(ending.forget, self)
                then.callback(self._lock.close)
                then.callback(self.recorder.finish, status, reason)
                if error is not None:
                    write_traceback(self.recorder.run, error)
                if self._watched is not None:
                    self._watched.leave()

    def disown(self) -> None:
        """Stop recording in this process, which is a fork of the recording one."""
        owner = self.recorder.info.pid
        self.turn = _Turn(self)  # the lock may be held by a thread that does not exist in this process
        self.open, self._refusal = False, f"{self.path} is recorded by process {owner}, and this is a fork of it"
        self.recorder.events.close()
        self._lock.close()

    def _answer(self, ended: bool = False) -> None:
        """Refuse the requests in the inbox if the loop does not poll, and detect that the directory is gone."""
        self._answered = time.monotonic()
        if self.recorder.gone:
            self.give_up()
            return
        if self.steering.polled and not ended:
            return
        why = "this run is recorded by another program, which takes no requests"
        if self.steering.polled:
            why = "the run has ended"
        with contextlib.suppress(OSError, LabError):
            for request in self.inbox.take():
                error = request.error or why
                self.recorder.control(self.recorder.step, request, error)

    def _ignores(self) -> bool:
        """Whether calls do nothing because the directory is gone. LabError if the run is closed, or belongs to another
        process."""
        if self._refusal:
            raise LabError(self._refusal)
        return not self.open

    def give_up(self) -> None:
        """Report once that the directory is gone."""
        print(f"txlab: {self.path} is gone (deleted or moved); nothing more of this run is recorded", file=sys.stderr)
        self.abandon()

    def abandon(self) -> None:
        """Release the directory without writing an end."""
        self.open = False
        self.recorder.close()
        self._lock.close()
        ending.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.open:
            ending.end_with(self, error)


class _Turn:
    """A lock that lets one thread write the run; signals and a lost directory are handled on release."""

    def __init__(self, run: Recording) -> None:
        self.run, self.lock = run, threading.RLock()
        self.thread, self.depth = 0, 0

    def __enter__(self) -> None:
        self.lock.acquire()
        self.thread = threading.get_ident()
        self.depth += 1

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        lost = isinstance(error, OSError) and self.run.recorder.gone
        if lost:
            self.run.give_up()
        self.depth -= 1
        if not self.depth:
            self.thread = 0
        self.lock.release()
        ending.deliver()
        return lost
