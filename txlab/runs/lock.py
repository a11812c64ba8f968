"""One run, one writer: an flock on the file `lock`, which the system lets go of however the process ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator

import orjson

from txlab.errors import LabError
from txlab.runs.directory import RunDirectory


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
        with contextlib.suppress(OSError):  # who holds it is a courtesy; a full disk must not forbid the lock itself
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, orjson.dumps({"pid": os.getpid(), "host": socket.gethostname()}), 0)
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    try:
        holder = orjson.loads(os.pread(descriptor, 1024, 0))
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
