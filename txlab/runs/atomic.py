"""Files that are complete or absent.

Notable: every file of a run that is not a log is written aside and renamed, so a reader on another machine sees the old
or the new one and never half of one. Neither follows a link: a link in the file's place is replaced, not written
through.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path


def atomic_write(path: Path, data: bytes | Iterable[bytes], durable: bool = False) -> None:
    """Write bytes, or pieces of them, beside `path` and rename onto it.

    `durable` also waits until file and directory are on the disk. After an OSError the old file is as it was.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_in(folder, path.name, data, durable)
    finally:
        os.close(folder)


def write_in(folder: int, name: str, data: bytes | Iterable[bytes], durable: bool = False) -> None:
    """The same for a name in the directory of a descriptor."""
    aside = f".{name}.{os.getpid()}.{time.monotonic_ns()}"
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
        try:
            for piece in [data] if isinstance(data, bytes) else data:
                write_whole(descriptor, piece)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside, dir_fd=folder)
        raise
    if durable:
        os.fsync(folder)


def write_whole(descriptor: int, data: bytes | memoryview) -> None:
    """os.write until all of it is written: one call but for huge data and disks that fill up."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
