"""The process that a person started, when several compute the run: it starts them, shows the run, and waits.

Notable: they are started by torch's elastic launcher in a process of its own (`agent`), in a session of its own, so
that ctrl-c reaches this process alone. It passes a signal on to rank 0, once: the ranks agree at which step they save
and end, whatever time that takes. The rows that it shows are those of events.jsonl, and what it returns is run.json; if
rank 0 died before it could write the end, this process writes it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from txlab.errors import LabError, RunFailed, one_line
from txlab.runs import checkpoints
from txlab.runs.control import Inbox
from txlab.runs.directory import ALIVE, RunDirectory, RunInfo, info_of
from txlab.runs.events import each_row
from txlab.runs.recorder import Listener, Recorder

ENDING = "TXLAB_ENDING"  # a file in which rank 0 tells the process that started it the error it ends with
LOOK_EVERY = 0.1


def launch(
    run: RunDirectory, count: int, observer: Listener | None, rewind_to: int | None, keep_requests: bool
) -> RunInfo:
    """Compute a run in `count` processes on this machine; returns its final run.json. Errors are those of `execute`."""
    from txlab.runs.process import Signals, writing

    with Signals() as signals, tempfile.TemporaryDirectory(prefix="txlab-") as folder:
        with writing(run):
            info = info_of(run)
            if info.recorded:
                raise LabError(f"{run.path} was recorded by another program and can only be looked at")
            if info.status != "created" and not keep_requests:
                Inbox(run).clear()
        shown = run.events.stat().st_size if run.events.exists() else 0
        before, ending = (info.pid, info.started), Path(folder) / "ending.json"
        agent = _started(run, count, rewind_to, ending)
        passed_on = False
        while True:
            ended = agent.poll() is not None
            with contextlib.suppress(OSError):
                for row, behind in each_row(run.events, shown):
                    shown = behind
                    if observer is not None:
                        observer(row)
            if ended:
                break
            if signals.received and not passed_on:
                passed_on = _pass_on(run, before, signals.received)
            time.sleep(LOOK_EVERY)
        told = _read(ending)
        info = info_of(run)
        if info.status in ALIVE or (not told and (info.pid, info.started) == before):
            _finish(run, info, _read(Path(f"{ending}.agent")))
        if told.get("exit") == LabError.exit_status:
            raise LabError(told["error"])
        if told and info.status != "failed":
            raise RunFailed(told["error"])
    return info


def _started(run: RunDirectory, count: int, rewind_to: int | None, ending: Path) -> subprocess.Popen[bytes]:
    home = str(Path(__file__).resolve().parents[3])
    search = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    rewind = [] if rewind_to is None else ["--rewind-to", str(rewind_to)]
    try:
        with run.log_file() as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "txlab.runs.ranks.agent", str(count), str(run.path), *rewind],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(search), "PYTHONUNBUFFERED": "1", ENDING: str(ending)},
            )
    except OSError as error:
        raise LabError(f"no process can be started for {run.path}: {error.strerror}") from None


def _pass_on(run: RunDirectory, before: tuple[int | None, float | None], name: str) -> bool:
    """Send the signal to rank 0, once it has written its number into run.json and so listens; whether it was sent."""
    import signal

    with contextlib.suppress(LabError, OSError):
        info = RunInfo.load(run)
        if info.pid is not None and (info.pid, info.started) != before and info.status in ALIVE:
            os.kill(info.pid, getattr(signal, name))
            return True
    return False


def _finish(run: RunDirectory, info: RunInfo, failed: dict[str, Any]) -> None:
    """Write the end of a run whose rank 0 has died."""
    from txlab.runs.process import writing

    saved = checkpoints.newest(run)
    back = "there is no checkpoint yet" if saved is None else f"last good checkpoint {saved}"
    reason = failed.get("0") or next(iter(failed.values()), "its processes ended without a word")
    with writing(run):
        recorder = Recorder(run, info)
        recorder.finish("failed", f"{reason}; {back} ({run.log} may say more)")


def tell(error: LabError) -> None:
    """Rank 0: tell the process that started it the error it ends with."""
    if ENDING in os.environ:
        data = orjson.dumps({"exit": error.exit_status, "error": one_line(error)})
        with contextlib.suppress(OSError):
            Path(os.environ[ENDING]).write_bytes(data)


def _read(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = orjson.loads(path.read_bytes())
        if isinstance(found, dict):
            return found
    return {}
