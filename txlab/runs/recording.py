"""Three lines make anybody's own loop a run that the console can open.

    with txlab.record("my-model", config={"lr": 3e-4}) as run:
        for step in range(1000):
            run.log(step, loss=train())

Notable: the steps of one metric may repeat but not go back unless `rewind` says so, because a curve that zigzags is a
wrong curve; another metric may count something else, epochs perhaps, and another thread may be at another step. A run
that nobody closes is closed when the program ends, by what it ended with (see ending.py). A run belongs to the process
that began it: in a fork of it (a worker of a DataLoader) to record is an error, and to end it does nothing.
"""

from __future__ import annotations

import contextlib
import math
import operator
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsFloat, SupportsIndex, TypeAlias, get_args
from weakref import WeakKeyDictionary

from txlab.errors import LabError, one_line
from txlab.experiments.protocol import Frame
from txlab.runs import ending
from txlab.runs.control import Inbox
from txlab.runs.directory import RunDirectory, new_info
from txlab.runs.events import LARGEST_STEP
from txlab.runs.finding import create_run_directory
from txlab.runs.loop import write_traceback
from txlab.runs.origin import command_line, commit_of, program_folder
from txlab.runs.process import begin, writing
from txlab.runs.recorder import Recorder, on_a_device

if TYPE_CHECKING:
    from txlab.experiments.protocol import Array

ANSWER_EVERY = 0.5  # seconds between two looks into the inbox
Status: TypeAlias = Literal["done", "stopped", "interrupted", "failed"]


def record(
    name: str,
    config: Mapping[str, Any] | None = None,
    root: str | Path | None = None,
    *,
    title: str = "",
    steps: int = 0,
    frames_mb: float = 64.0,
) -> Recording:
    """Begin a run named `name` under `root` ($TXLAB_RUNS or ./runs) and return what records it.

    config  whatever describes the run; stored as the table [config] of scenario.toml
    steps   how many there will be, if known: a screen can then show how far it is

    Raises LabError if the directory cannot be made.
    """
    import tomli_w

    name, title = encodable(name), encodable(title)
    run = create_run_directory(Path(root) if root is not None else None, name).held()
    info = new_info(run, name, "recorded", title, steps)
    info.command, info.git = command_line(), commit_of(program_folder())
    said = {"kind": "recorded", "name": name, "config": as_toml(config or {})}
    run.write("scenario.toml", tomli_w.dumps(said).encode())
    begin(run, info)
    return Recording(run, Recorder(run, info, frames_mb))


def as_toml(value: Any) -> Any:
    """A configuration as TOML can hold it: None left out, what TOML has no word for as its text."""
    if isinstance(value, Mapping):
        return {encodable(str(key)): as_toml(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, (list, tuple)):
        return [as_toml(entry) for entry in value if entry is not None]
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy's numbers and arrays, torch's tensors
        return as_toml(value.tolist())
    return value if isinstance(value, (bool, int, float)) else encodable(str(value))


def encodable(text: str) -> str:
    """A text that UTF-8 can hold: the name of a file need not be one."""
    return text.encode("utf-8", "replace").decode()


def whole(step: SupportsIndex, least: int = 0) -> int:
    """A step as Python's own integer: a row with numpy's or torch's would be no row to any reader."""
    try:
        plain = operator.index(step)
    except TypeError:
        raise LabError(f"a step is a whole number, not {str(step)[:60]!r}") from None
    if not least <= plain <= LARGEST_STEP:
        raise LabError(f"a step is a whole number from {least} to 2^62, not {plain}")
    return plain


def metric(step: int, name: object, value: Any) -> Any:
    """A metric as a float, or as a tensor of its own on its device. Raises LabError for what is not one number."""
    if type(value) is float and type(name) is str and name:
        return value
    if not isinstance(name, str) or not name:
        raise LabError(f"step {step}: {name!r} is no name of a metric; a name is a text that is not empty")
    shape = getattr(value, "shape", None)
    try:
        if isinstance(value, (str, bytes)) or value is None:
            raise TypeError(f"not {type(value).__name__}")
        if shape is None:
            return float(value)
        if math.prod(shape) != 1:
            raise TypeError("not several")
        if "complex" in str(value.dtype):
            raise TypeError("not a complex one")
        if on_a_device(value):
            if value.device.type == "meta":
                raise TypeError("a meta tensor has no value")
            return value.detach().clone()  # out of its graph; and the loop may well add to it in place
        if bool(getattr(value, "mask", False)):
            raise TypeError("a masked one has no value")
        plain = value.item()
        return float(plain) if hasattr(plain, "shape") else metric(step, name, plain)  # a longdouble is its own item
    except (TypeError, ValueError, OverflowError) as error:
        size = f"something of shape {tuple(shape)}" if shape else repr(str(value)[:60])
        raise LabError(f"step {step}: {name} = {size}: a metric is one number ({one_line(error)})") from None


class Recording:
    """A run that another program's loop writes; `path` is its directory. Any thread may call any method.

    If the directory disappears, that is said once on standard error, and nothing more is recorded: the loop goes on.
    """

    def __init__(self, run: RunDirectory, recorder: Recorder) -> None:
        self.path = run.path
        self.recorder = recorder
        self.inbox = Inbox(run)
        self._lock = contextlib.ExitStack()
        self._lock.enter_context(writing(run))
        self._open, self._refusal = True, ""  # why nothing more can be recorded; "" = that is silently ignored
        self._turn = _Turn(self)
        self.signal = ""  # the name of one that the program's own handler took
        self._answered = time.monotonic()
        self._reached: WeakKeyDictionary[threading.Thread, dict[str, int]] = WeakKeyDictionary()
        self._own: set[str] = set()  # metrics with steps of their own: at some time behind the run
        self._framed = 0
        recorder.row("start", 0, pid=recorder.info.pid, host=recorder.info.host, resumed_from=None)
        ending.watch(self)

    def log(
        self, step: SupportsIndex, values: Mapping[str, SupportsFloat] | None = None, /, **named: SupportsFloat
    ) -> None:
        """Record numbers of a step, by name: `log(3, loss=.5)`, `log(3, {"train/loss": .5}, lr=1e-3)`.

        Tensors on a device are copied there and fetched late, many at once. The steps of a metric may not go back,
        but each metric has steps of its own, and so has each thread.

        Raises LabError, and records nothing of this call, for what is not one number, a step that goes back, a run that
        is closed, and in a fork of the process that records.
        """
        step = whole(step)
        if values is not None:
            if not isinstance(values, Mapping):
                raise LabError(f"step {step}: log takes names with their numbers, not {str(values)[:60]!r}")
            if twice := named.keys() & values.keys():
                raise LabError(f"step {step}: {min(twice)} is given twice")
            named = {**values, **named}
        metrics = {name: metric(step, name, value) for name, value in named.items()}
        with self._turn:
            if self._ignores():
                return
            reached = self._reached.setdefault(threading.current_thread(), {})
            for name in metrics:
                if step < (last := reached.get(name, 0)):
                    back = f"say rewind({step}) first if the loop went back"
                    raise LabError(f"step {step} of {name} comes after its step {last}; {back}")
            if step < self.recorder.step:
                self._own.update(metrics)
            self.recorder.metrics(step, metrics)
            for name in metrics:
                reached[name] = step
            if self.recorder.due:
                self.recorder.flush()
            if time.monotonic() - self._answered >= ANSWER_EVERY:
                self._answer()

    def frame(
        self,
        step: SupportsIndex,
        tensors: Mapping[str, Array],
        tokens: Mapping[str, Sequence[str]] | None = None,
        texts: Mapping[str, str] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Record what may be looked at: named arrays, rows of labels, texts, and facts that say how to read them."""
        frame = Frame(whole(step), tensors, tokens or {}, texts or {}, facts or {})
        with self._turn:
            if frame.step < self._framed:
                raise LabError(f"a frame of step {frame.step} comes after one of step {self._framed}")
            if not self._ignores():
                self.recorder.frames.write(frame)
                self._framed = frame.step

    def sample(self, step: SupportsIndex, prompt: str, text: str) -> None:
        """Record a text that the model wrote."""
        step = whole(step)
        with self._turn:
            if not self._ignores():
                self.recorder.row("sample", step, prompt=prompt, text=text)

    def note(self, step: SupportsIndex, text: str) -> None:
        """Record a remark."""
        step = whole(step)
        with self._turn:
            if not self._ignores():
                self.recorder.note(step, text)

    def rewind(self, step: SupportsIndex, reason: str = "") -> None:
        """Say that the loop went back to `step`: what was recorded since then no longer counts, in any metric."""
        step = whole(step, -1)
        with self._turn:
            if not self._ignores():
                self.recorder.flush()
                self.recorder.rewind(step, self.recorder.step, reason, explicit=True)
                self._framed = min(self._framed, step)
                for reached in self._reached.values():
                    kept = {name: min(last, step) for name, last in reached.items() if name not in self._own}
                    reached.clear()
                    reached.update(kept)

    def close(self, status: Status | None = None, reason: str = "") -> None:
        """End the run: done, or interrupted if a signal has asked for it, unless `status` says something else.

        A second time nothing happens, nor in a fork.
        """
        if status is not None and status not in get_args(Status):
            raise LabError(f"a run does not end as {status!r}; allowed: {', '.join(get_args(Status))}")
        if status is None:
            status, reason = ("interrupted", self.signal) if self.signal else ("done", reason)
        self.end(status, reason)

    # What ending.py asks of a run

    @property
    def busy(self) -> bool:
        """Whether this very thread is writing the run."""
        return self._turn.thread == threading.get_ident()

    def signalled(self, name: str) -> None:
        """A signal came, and the program's own handler will say what happens."""
        self.signal = self.signal or name
        with contextlib.suppress(LabError, OSError):
            self.note(self.recorder.step, f"{name} came; the handler of the program decides what it does")

    def end(self, status: str, reason: str = "", error: BaseException | None = None) -> None:
        with self._turn:
            if self._open:
                self._answer()
            if not self._open:
                return
            self._open, self._refusal = False, f"{self.path} is closed; nothing more can be recorded"
            if error is not None:
                write_traceback(self.recorder.run, error)
            self.recorder.finish(status, reason)
            self._lock.close()
            ending.forget(self)

    def disown(self) -> None:
        """This process is a fork of the one that records."""
        owner = self.recorder.info.pid
        self._turn = _Turn(self)  # the lock may be held by a thread that is not in this process
        self._open, self._refusal = False, f"{self.path} is recorded by process {owner}, and this is a fork of it"
        self.recorder.events.close()
        self._lock.close()

    def _answer(self) -> None:
        """Refuse the requests in the inbox, and notice when the directory is gone."""
        self._answered = time.monotonic()
        if self.recorder.gone:
            self.give_up()
            return
        with contextlib.suppress(OSError):
            for request in self.inbox.take():
                error = request.error or "this run is recorded by another program, which takes no requests"
                self.recorder.control(self.recorder.step, request, error)

    def _ignores(self) -> bool:
        """Whether a call does nothing, since the directory is gone. LabError if the run is closed, or of another
        process."""
        if self._refusal:
            raise LabError(self._refusal)
        return not self._open

    def give_up(self) -> None:
        """The directory is gone: say so, once."""
        self._open = False
        print(f"txlab: {self.path} is gone (deleted or moved); nothing more of this run is recorded", file=sys.stderr)
        self.recorder.close()
        self._lock.close()
        ending.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._open:
            ending.end_with(self, error)


class _Turn:
    """One thread at a time writes the run; signals and a lost directory are handled when it has finished."""

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
