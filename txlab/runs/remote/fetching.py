"""Checkpoints of a run on another machine, fetched into its mirror when its model is opened.

Notable: a copy is complete or absent, as every checkpoint, and gets the times of the original, so equal sizes and times
mean that it need not be fetched again. A fetch that ended early continues where it was, unless the original has
changed. A copy is removed at the next fetch after the run has removed the original, and when all copies together exceed
KEPT, those opened longest ago first. Several processes may want the same checkpoint; one fetches it, and the others
wait.
"""

from __future__ import annotations

import os
import time
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from txlab.errors import LabError, convert_os_errors
from txlab.files import OpenFolder, closing, lock, write_whole
from txlab.progress import listener
from txlab.runs import checkpoints
from txlab.runs.checkpoints import STATE, TENSORS
from txlab.runs.directory import RunDirectory
from txlab.runs.remote.address import mirror_of, mirrors_root
from txlab.runs.remote.host import Host
from txlab.runs.remote.line import LineLost, Message
from txlab.runs.remote.mirror import mark_of
from txlab.runs.remote.mirroring import follow, wait_for_connection

Marks = tuple[list[int], list[int]]  # of the two files of a checkpoint: inode, size, time in ns

LOCK = ".lock"
LARGEST = 1 << 42  # bytes of a checkpoint
SPARE = 64 << 20  # bytes that are left free on the disk
KEPT = 10 * 10**9  # bytes of all copies together, unless one alone has more
SMALLEST_PIECE, LARGEST_PIECE = 4 << 10, 1 << 20  # bytes; the other side sends at most 1 MiB
AHEAD = 3  # pieces in transit
QUICK, SLOW = 0.25, 0.5  # seconds for a piece, below which the next are larger, and above which smaller
AGAIN_WITHIN = 40.0  # seconds from losing the connection to the next one
TRIES = 5  # of a checkpoint that is replaced or removed while it is fetched
MOST_DAMAGED = 3  # checkpoints that are fetched in search of a sound one


class Gone(LabError):
    """The run cannot be read on the other machine."""


class Changed(LabError):
    """The checkpoint was replaced or removed on the other machine meanwhile."""


def fetch_nearest(run: RunDirectory, step: int | None) -> list[int]:
    """Fetch the newest checkpoint of a mirrored run, or that nearest to `step`, unless it is here unchanged.

    Returns the steps of all checkpoints on the other machine; none if these cannot be read, and there are copies here.
    Raises LabError if it cannot be fetched, or does not fit on the disk.
    """
    host = follow(run.path)
    assert host is not None, "not a mirror"
    if not wait_for_connection(host):
        if checkpoints.sound(run):
            return []
        raise LabError(f"no checkpoint of {run.name} has been fetched from {host.address.host}: {host.why}")
    tries = 0
    while True:
        try:
            there = list_checkpoints(host, run.name)
            for nearest in checkpoints.order_of(list(there), step)[:MOST_DAMAGED]:
                fetch(host, run, nearest, there[nearest])
                checkpoints.remove(run, [old for old in checkpoints.steps(run) if old not in there])
                if nearest in checkpoints.sound(run):
                    mark_opened(run, nearest)
                    break
            return sorted(there)
        except Gone:
            if checkpoints.sound(run):
                return []
            raise
        except Changed:
            tries += 1
            if tries == TRIES:
                raise
        except LineLost as error:
            wait_again(host, error)


def steps_there(run: RunDirectory) -> list[int]:
    """The steps of the checkpoints of a mirrored run that can be opened: those on its machine while it is connected,
    else the copies here."""
    with suppress(LabError):
        host = follow(run.path)
        if host is not None and host.connected.is_set():
            return sorted(list_checkpoints(host, run.name))
    return checkpoints.sound(run)


def list_checkpoints(host: Host, run: str) -> dict[int, Marks]:
    """The checkpoints of a run on the other machine. Raises Gone if they cannot be listed."""
    head, _ = wait_for_answer(host, host.request({"do": "checkpoints", "run": run}))
    if "error" in head:
        raise Gone(f"{run} cannot be read on {host.address.host}: {str(head['error'])[:200]}")
    listed: Any = head.get("checkpoints")
    try:
        complete = [(step, marks) for step, marks in listed if None not in marks]
        there = {step: (checked_mark(state), checked_mark(tensors)) for step, (state, tensors) in complete}
        if not all(type(step) is int and 0 <= step < 10**18 for step in there):
            raise ValueError("a step that is none")
    except (TypeError, ValueError) as error:
        raise LabError(f"{host.address.host} lists checkpoints of {run} that make no sense ({error})") from None
    return there


def checked_mark(mark: Any) -> list[int]:
    checked = mark_of(mark)
    if checked is None or not (0 <= checked[1] <= LARGEST and 0 <= checked[2] < 1 << 62):
        raise ValueError("a file of an impossible size or time")
    return checked


def fetch(host: Host, run: RunDirectory, step: int, marks: Marks) -> None:
    """Fetch a checkpoint into the mirror, unless an equal copy is there. Raises Changed, LineLost, LabError."""
    what = f"checkpoint {step} of {run.name} from {host.address.host}"
    said, total = f"checkpoint {step} from {host.address.host}", sum(mark[1] for mark in marks)
    name, aside = f"{step:08d}", f".{step:08d}.{zlib.crc32(repr(marks).encode())}"
    with (
        convert_os_errors(f"{what} cannot be kept in {run.checkpoints}"),
        run.folder("checkpoints", make=True) as here,
        closing(here.open(LOCK, os.O_RDWR | os.O_CREAT)) as turn,
    ):
        wait_for_turn(turn, said, total)
        if is_copy(here, name, marks):
            return
        checkpoints.discard_leftovers(here, but=aside)
        with here.folder(aside, make=True) as folder:
            done = sum(folder.stat(file).st_size for file in folder.names())
            about = os.fstatvfs(folder.descriptor)
            if total - done + SPARE > (free := about.f_bavail * about.f_frsize):
                raise LabError(
                    f"{what} has {total / 1e6:.1f} MB, of which {done / 1e6:.1f} MB are here, and the disk of "
                    f"{run.checkpoints} has {free / 1e6:.1f} MB free"
                )
            make_room(run, step, total)
            for file, mark in zip((STATE, TENSORS), marks, strict=True):
                for size in copy_rest(host, f"{run.name}/checkpoints/{name}/{file}", mark, folder, file):
                    done += size
                    listener.get()(said, min(done, total - 1), total)
        checkpoints.put_in_place(here, aside, name)
        listener.get()(said, total, total)


def make_room(run: RunDirectory, step: int, size: int) -> None:
    """Remove the copies that were opened longest ago, of any run on any machine, until all of them, with `size` bytes
    for this checkpoint, have at most KEPT bytes."""
    mirrors = [RunDirectory(path) for path in mirrors_root().glob("*/*/*") if mirror_of(path) is not None]  # no links
    copies = [(each, old) for each in mirrors for old in checkpoints.steps(each)]
    copies = [(each, old) for each, old in copies if (each.path, old) != (run.path, step)]
    sizes = {copy: checkpoints.size_of(*copy) for copy in copies}
    for each, old in sorted(copies, key=last_opened):
        if size + sum(sizes.values()) <= KEPT:
            break
        with suppress(OSError):  # removed by another process
            checkpoints.remove(each, [old])
        del sizes[each, old]


def mark_opened(run: RunDirectory, step: int) -> None:
    with suppress(OSError), run.folder("checkpoints", f"{step:08d}") as copy:
        os.utime(copy.descriptor)


def last_opened(copy: tuple[RunDirectory, int]) -> int:
    """When a copy was opened last, in ns."""
    with suppress(OSError), copy[0].folder("checkpoints", f"{copy[1]:08d}") as folder:
        return os.fstat(folder.descriptor).st_mtime_ns
    return 0


def copy_rest(host: Host, path: str, mark: list[int], folder: OpenFolder, file: str) -> Iterator[int]:
    """Append to a file here what it lacks of that on the other machine; yields the bytes of each piece."""
    with closing(folder.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND)) as descriptor:
        for piece in pieces_of(host, path, os.fstat(descriptor).st_size, mark):
            write_whole(descriptor, piece)
            yield len(piece)
        os.fsync(descriptor)
        os.utime(descriptor, ns=(mark[2], mark[2]))


def wait_for_turn(descriptor: int, what: str, total: int) -> None:
    """Wait until no other process fetches a checkpoint of the run."""
    while True:
        with suppress(BlockingIOError):
            lock(descriptor)
            return
        listener.get()(f"another process fetches {what}", 0, total)
        time.sleep(0.1)


def is_copy(here: OpenFolder, name: str, marks: Marks) -> bool:
    """Whether a checkpoint has the sizes and times of the original, to the µs."""
    try:
        with here.folder(name) as folder:
            files = [folder.stat(file) for file in (STATE, TENSORS)]
    except OSError:
        return False
    return all(
        file.st_size == mark[1] and file.st_mtime_ns // 1000 == mark[2] // 1000
        for file, mark in zip(files, marks, strict=True)
    )


def pieces_of(host: Host, path: str, at: int, mark: list[int]) -> Iterator[bytes]:
    """The bytes of a file on the other machine from `at` on. Raises Changed if it no longer has the mark."""
    piece, asked, size = 16 << 10, at, mark[1]
    ahead: deque[tuple[int, float, Future[Message]]] = deque()
    while at < size:
        while len(ahead) < AHEAD and asked < size:
            count = min(piece, size - asked)
            answer = host.request({"do": "read", "path": path, "at": asked, "n": count})
            ahead.append((count, time.monotonic(), answer))
            asked += count
        count, began, answer = ahead.popleft()
        head, body = wait_for_answer(host, answer)
        if head.get("mark") != mark or len(body) != count:
            why = str(head.get("error", "it was replaced"))[:200]
            raise Changed(f"{path} on {host.address.host} cannot be fetched: {why}")
        took = time.monotonic() - began
        if took > SLOW:
            piece = max(SMALLEST_PIECE, piece // 2)
        elif took < QUICK:
            piece = min(LARGEST_PIECE, piece * 2)
        at += count
        yield body


def wait_for_answer(host: Host, answer: Future[Message]) -> Message:
    while True:
        with suppress(TimeoutError):
            return answer.result(0.2)
        if host.line == "closed":
            raise LineLost(f"the connection to {host.address.host} is closed")


def wait_again(host: Host, error: LineLost) -> None:
    """Wait for the next connection. Raises LabError if there is none for a long time."""
    deadline = time.monotonic() + AGAIN_WITHIN
    while not host.connected.wait(0.1):
        listener.get()(f"connection to {host.address.host} lost, trying again", 0, 1)
        if time.monotonic() > deadline or host.line == "closed":
            raise LabError(f"{error}; what has been fetched is kept, and the next attempt continues there") from None
