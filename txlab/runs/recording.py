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
import math
import operator
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
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

LARGEST_CONFIG = 200  # entries of the configuration that run.json repeats, for lists of runs; all are in scenario.toml
ANSWER_EVERY = 0.5  # seconds between checks of the inbox
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
    """Start a run named `name` under `root` ($TXLAB_RUNS or ./runs) and return its Recording.

    config  anything that describes the run; stored as the table [config] of scenario.toml
    steps   the total number of steps, if known, so that a screen can show the progress

    Raises LabError if the directory cannot be created.
    """
    import tomli_w

    name, title = encodable(name), encodable(title)
    run = create_run_directory(Path(root) if root is not None else None, name).held()
    info = new_info(run, name, "recorded", title, steps)
    info.command, info.git = command_line(), commit_of(program_folder())
    said = {"kind": "recorded", "name": name, "config": as_toml(config or {})}
    info.config = dict(islice(flattened(said["config"]), LARGEST_CONFIG))
    run.write("scenario.toml", tomli_w.dumps(said).encode())
    begin(run, info)
    return Recording(run, Recorder(run, info, frames_mb))


def as_toml(value: Any) -> Any:
    """A configuration in TOML's types: None is left out, and a value of any other type becomes a string."""
    if isinstance(value, Mapping):
        return {encodable(str(key)): as_toml(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, (list, tuple)):
        return [as_toml(entry) for entry in value if entry is not None]
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy's numbers and arrays, torch's tensors
        return as_toml(value.tolist())
    return value if isinstance(value, (bool, int, float)) else encodable(str(value))


def flattened(config: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested tables by dotted keys; a list is an entry.

    >>> dict(flattened({"lr": 0.1, "model": {"width": 64}}))
    {'lr': 0.1, 'model.width': 64}
    """
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{under}{key}.")
        else:
            yield f"{under}{key}", value


def encodable(text: str) -> str:
    """The text without what UTF-8 cannot encode, as a file name may contain."""
    return text.encode("utf-8", "replace").decode()


def whole(step: SupportsIndex, least: int = 0) -> int:
    """A step as a Python int: readers would not accept a row with an integer of NumPy or torch."""
    try:
        plain = operator.index(step)
    except TypeError:
        raise LabError(f"a step is a whole number, not {str(step)[:60]!r}") from None
    if not least <= plain <= LARGEST_STEP:
        raise LabError(f"a step is a whole number from {least} to 2^62, not {plain}")
    return plain


def metric(step: int, name: object, value: Any) -> Any:
    """A metric as a float, or as a copied tensor on its device. Raises LabError if it is not a single number."""
    if type(value) is float and type(name) is str and name:
        return value
    if not isinstance(name, str) or not name:
        raise LabError(f"step {step}: {name!r} is not a metric name; a name is a non-empty string")
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
            return value.detach().clone()  # detached from its graph, and copied since the loop may change it in place
        if bool(getattr(value, "mask", False)):
            raise TypeError("a masked one has no value")
        plain = value.item()
        return float(plain) if hasattr(plain, "shape") else metric(step, name, plain)  # longdouble.item() is itself
    except (TypeError, ValueError, OverflowError) as error:
        size = f"something of shape {tuple(shape)}" if shape else repr(str(value)[:60])
        raise LabError(f"step {step}: {name} = {size}: a metric is one number ({one_line(error)})") from None


class Recording:
    """A run written by another program's loop; `path` is its directory. All methods are thread-safe.

    If the directory disappears, this is reported once on stderr and nothing more is recorded; the loop continues.
    """

    def __init__(self, run: RunDirectory, recorder: Recorder) -> None:
        self.path = run.path
        self.recorder = recorder
        self.inbox = Inbox(run)
        self._lock = contextlib.ExitStack()
        self._lock.enter_context(writing(run))
        self._open, self._refusal = True, ""  # why nothing more can be recorded; "" = calls are silently ignored
        self._turn = _Turn(self)
        self.signal = ""  # the name of a signal that the program's own handler received
        self._answered = time.monotonic()
        self._reached: WeakKeyDictionary[threading.Thread, dict[str, int]] = WeakKeyDictionary()
        self._own: set[str] = set()  # metrics with steps of their own: at some point behind the run
        self._framed = 0
        recorder.row("start", 0, pid=recorder.info.pid, host=recorder.info.host, resumed_from=None)
        ending.watch(self)

    def log(
        self, step: SupportsIndex, values: Mapping[str, SupportsFloat] | None = None, /, **named: SupportsFloat
    ) -> None:
        """Record the numbers of a step by name: `log(3, loss=.5)`, `log(3, {"train/loss": .5}, lr=1e-3)`.

        Tensors on a device are copied there and fetched later, many at once. The steps of a metric may not go back,
        but each metric has steps of its own, and so has each thread.

        Raises LabError, and records nothing of this call, for a value that is not a single number, a step that goes
        back, a run that is closed, and in a fork of the recording process.
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
        """Record a frame: named arrays, rows of labels, texts, and facts that say how to read them."""
        frame = Frame(whole(step), tensors, tokens or {}, texts or {}, facts or {})
        with self._turn:
            if frame.step < self._framed:
                raise LabError(f"a frame of step {frame.step} comes after one of step {self._framed}")
            if not self._ignores():
                self.recorder.frames.write(frame)
                self._framed = frame.step

    def sample(self, step: SupportsIndex, prompt: str, text: str) -> None:
        """Record a text that the model generated."""
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
        """Record that the loop went back to `step`: later values no longer count, for any metric."""
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
        """End the run as done, or as interrupted if a signal was received, unless `status` says otherwise.

        Does nothing the second time, or in a fork.
        """
        if status is not None and status not in get_args(Status):
            raise LabError(f"a run does not end as {status!r}; allowed: {', '.join(get_args(Status))}")
        if status is None:
            status, reason = ("interrupted", self.signal) if self.signal else ("done", reason)
        self.end(status, reason)

    # Called by ending.py

    @property
    def busy(self) -> bool:
        """Whether the calling thread is writing the run."""
        return self._turn.thread == threading.get_ident()

    def signalled(self, name: str) -> None:
        """Note a signal; the program's own handler decides what happens."""
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
        """Stop recording in this process, which is a fork of the recording one."""
        owner = self.recorder.info.pid
        self._turn = _Turn(self)  # the lock may be held by a thread that does not exist in this process
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
        """Whether calls do nothing because the directory is gone. LabError if the run is closed, or belongs to another
        process."""
        if self._refusal:
            raise LabError(self._refusal)
        return not self._open

    def give_up(self) -> None:
        """Report once that the directory is gone."""
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
