"""Preparations of a process before it writes a run, computed or recorded: lock, signals, threads and memory."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import platform
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Self

import orjson

from txlab.errors import LabError, convert_os_errors
from txlab.files import closing, lock
from txlab.runs.directory import ALIVE, RunDirectory, RunInfo, read_heartbeat, state_of, user_name
from txlab.runs.ranks import rank_info
from txlab.runs.root import environment_of_child

SILENT_FOR = 6.0  # seconds, three heartbeats: how long to watch a run that another host claims to compute
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAKE = signal.SIGUSR2  # from a thread of this process to its main one
LOOK_EVERY = 0.25  # seconds
OF_CLUSTERS = (signal.SIGUSR1,)  # usually requested from Slurm shortly before the time limit
PACKAGES = ("txlab", "torch", "numpy", "safetensors")


@contextlib.contextmanager
def writing(run: RunDirectory) -> Iterator[None]:
    """Hold the run's lock, an flock, which the system releases however the process ends.

    Notable: this is reliable on one host, and across hosts if their file system shares locks (NFS does unless mounted
    with nolock or local_lock). If it does not, or has none at all, there are two more safeguards: a run that another
    host claims to compute is watched for some seconds first, and a process that finds the heartbeat of another process
    in its run ends (see Recorder). Two that start at the same moment may then compute side by side for those seconds.

    Raises LabError naming the process that holds the lock, or the entry that does not belong in a run.
    """
    run.require_own()
    run.require_here()
    with convert_os_errors(f"{run.lock} cannot be opened"), run.folder() as top:
        descriptor = top.open("lock", os.O_RDWR | os.O_CREAT)
    with closing(descriptor):
        try:
            locked = lock(descriptor)
        except BlockingIOError:
            holder = "another process"
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                writer = orjson.loads(os.pread(descriptor, 1024, 0))
                holder = f"process {writer['pid']} on {writer['host']}"
            raise LabError(f"{run.path} is being written by {holder}") from None
        except OSError as error:
            raise LabError(f"{run.lock} cannot be locked: {error.strerror}") from None
        require_silence(run, locked)
        with contextlib.suppress(OSError):  # naming the holder is a courtesy; a full disk must not prevent the lock
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, orjson.dumps({"pid": os.getpid(), "host": socket.gethostname()}), 0)
        yield


def require_silence(run: RunDirectory, locked: bool = True) -> None:
    """Raise LabError if another host computes the run; if a host claims to, watch the run for three heartbeats. Without
    a lock, raise it also if another process of this host does.

    Its clock or ours may be wrong, so an old heartbeat proves nothing; the absence of a new one does.
    """
    before = read_heartbeat(run)
    try:
        info = RunInfo.load(run)
        host = info.host if info.status in ALIVE else ""
    except LabError:
        host = before["host"] if before else ""
    if host in ("", socket.gethostname()):
        if host and not locked and (state := state_of(run)).status in ALIVE and state.pid != os.getpid():
            raise LabError(f"{run.path} is being written by process {state.pid} on {host}")
        return
    end = time.monotonic() + SILENT_FOR
    while time.monotonic() < end:
        time.sleep(min(0.5, SILENT_FOR))
        if (beat := read_heartbeat(run)) and beat != before:
            raise LabError(f"{run.path} is being written by process {beat['pid']} on {host}: its heartbeat continues")


def begin(run: RunDirectory, info: RunInfo) -> None:
    """Record in run.json that this process now computes the run."""
    beat = read_heartbeat(run)  # of a process that was killed, and wrote no end
    info.spent = info.seconds(until=beat["time"] if beat else None)
    info.status, info.reason, info.pid = "running", "", os.getpid()
    info.host, info.user = socket.gethostname(), user_name()
    info.started, info.ended = time.time(), None
    info.versions = versions()
    with convert_os_errors(f"{run.run_file} cannot be written"):
        info.save(run)


def versions() -> dict[str, str]:
    """The versions of the software that the numbers depend on."""
    by_package = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            by_package[package] = importlib.metadata.version(package)
    return by_package


class Signals:
    """A context in which `received` is the name of the first signal received ("SIGTERM"), or None.

    The loop reads it at a step boundary; nothing is raised into a computation, except within `at_once`. A signal that
    was ignored when the process started stays ignored, so that `nohup` and shells without job control work as usual.
    Outside the main thread, where Python allows no handlers, it does nothing. On exit the previous handlers are
    restored.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self.raising = False
        self._before: dict[int, Any] = {}

    @contextlib.contextmanager
    def at_once(self, asked: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Raise KeyboardInterrupt for a signal: while a run is prepared (read, probed, compiled) nothing can be lost,
        and no step boundary comes for a long time. Likewise once `asked()` is true, which another thread checks."""
        left = threading.Event()
        main = threading.get_ident()

        def watch() -> None:
            while not left.wait(LOOK_EVERY):
                if self.received or asked():  # repeatedly: an exception raised in a finaliser is lost
                    signal.pthread_kill(main, WAKE)

        self.raising = True
        watcher = threading.Thread(target=watch, name="txlab at once", daemon=True)
        try:
            if self.received:
                raise KeyboardInterrupt
            if WAKE in self._before:
                watcher.start()
            yield
        finally:
            self.raising = False
            left.set()
            if watcher.is_alive():
                watcher.join()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS if rank_info() is None else SIGNALS + OF_CLUSTERS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
            self._before[WAKE] = signal.signal(WAKE, self._wake)
        return self

    def _wake(self, number: int, frame: FrameType | None) -> None:
        if self.raising:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = self.received or signal.Signals(number).name
        if self.raising:
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before.clear()


def set_thread_environment() -> None:
    """Environment variables that must be set before torch is imported.

    GOMP_SPINCOUNT: how many iterations waiting threads spin before they sleep. Long spinning is best on an idle machine
    and ruinous on a busy one, where it burns the time of others. A bfloat16 step of a GPT of 809 k parameters, 2
    threads on 2 cores, in ms, alone and together with three busy processes: default (about 300 000) 23.6 and 166; 10
    000 23.6 and 126; 1 000 26.1 and 94.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def keep_freed_memory() -> None:
    """Let the allocator keep freed memory, since the next step needs the same again.

    glibc returns every large block to the system and faults it in again, zeroed page by page: 3 100 faults per step of
    a GPT of 809 k parameters in bfloat16, and 32.4 instead of 27.3 ms (float32: 44.9 instead of 42.2). The price is
    that the process never shrinks. Does nothing without glibc.
    """
    mmap_threshold, trim_threshold = -3, -1  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of malloc.h
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        for most in (1 << 30, 1 << 25):  # every version accepts 32 MB
            if libc.mallopt(mmap_threshold, most):
                break
        libc.mallopt(trim_threshold, (1 << 31) - 1)


def set_up_process() -> None:
    """The settings of a process that does nothing but compute a run. They affect the whole process, so only the
    commands apply them, before torch is imported; a program that calls `execute` keeps its own."""
    set_thread_environment()
    keep_freed_memory()


def python_module(module: str, *words: str) -> list[str]:
    """The command that runs a module of txlab, with `search_path` as its PYTHONPATH.

    Without -P, Python would look for modules in the current folder first, and would run a txlab/, a torch.py or a
    json.py there.
    """
    return [sys.executable, "-P", "-m", module, *words]


def search_path() -> str:
    """The PYTHONPATH with which another process finds the package where this one found it.

    The folder of an installed package is left out: it is searched anyway, and a program that the process starts in turn
    (an alert command) may run in another Python, with other packages. Relative folders are resolved from this process's
    current folder; empty entries, which stand for the current folder, are dropped.
    """
    package = Path(__file__).resolve().parents[2]
    installed = {Path(folder).resolve() for folder in (sysconfig.get_path("purelib"), site.getusersitepackages())}
    given = [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return os.pathsep.join([*([] if package in installed else [str(package)]), *given])


def start_module(run: RunDirectory, module: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start a module of txlab as a process that outlives terminal, session and parent, and writes into the run's
    log.txt. Raises LabError."""
    with convert_os_errors(f"no process can be started for {run.path}"), run.log_file() as log:
        return subprocess.Popen(
            python_module(module, *words),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",  # so that no mount is held busy
            start_new_session=True,
            env=environment_of_child() | {"PYTHONPATH": search_path(), "PYTHONUNBUFFERED": "1"} | environment,
        )
