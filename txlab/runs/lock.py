"""One run, one writer: an flock on the file `lock`, which the system lets go of however the process ends.

Notable: on one host this is certain, and on several as far as their file system carries locks from one to the other
(NFS does unless it is mounted with nolock or local_lock). Where it does not, two more things stand in the way: a run
that another host claims to compute is watched for some seconds first, and a process that meets the heartbeat of another
one in its run ends (see Recorder). Two that begin at the same moment may then compute side by side for those seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator

import orjson

from txlab.errors import LabError
from txlab.runs.directory import ALIVE, RunDirectory, RunInfo, read_heartbeat

WATCHED = 6.0  # seconds; three heartbeats


@contextlib.contextmanager
def writing(run: RunDirectory) -> Iterator[None]:
    """Hold the run's lock; raises LabError naming the process that has it, or what makes it no run of ours."""
    run.require_own()
    try:
        with run.folder() as top:
            descriptor = top.open("lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise LabError(f"{run.lock} cannot be opened: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LabError(f"{run.path} is being written by {_holder(descriptor)}") from None
        require_silence(run)
        with contextlib.suppress(OSError):  # who holds it is a courtesy; a full disk must not forbid the lock itself
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, orjson.dumps({"pid": os.getpid(), "host": socket.gethostname()}), 0)
        yield
    finally:
        os.close(descriptor)


def require_silence(run: RunDirectory) -> None:
    """Raise LabError if another host computes the run; one that claims to is watched for three heartbeats.

    Its clock, or ours, may be wrong, so an old heartbeat proves nothing; that no new one comes does.
    """
    before = read_heartbeat(run)
    try:
        info = RunInfo.load(run)
        host = info.host if info.status in ALIVE else ""
    except LabError:
        host = before["host"] if before else ""
    if host in ("", socket.gethostname()):
        return
    end = time.monotonic() + WATCHED
    while time.monotonic() < end:
        time.sleep(min(0.5, WATCHED))
        if (beat := read_heartbeat(run)) and beat != before:
            raise LabError(f"{run.path} is being written by process {beat['pid']} on {host}: its heartbeat goes on")


def _holder(descriptor: int) -> str:
    try:
        holder = orjson.loads(os.pread(descriptor, 1024, 0))
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
