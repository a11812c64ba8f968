"""The viewer's own memory of a long log: its columns as they lie in memory, so that the second opening is immediate.

Notable: it is a cache and nothing else. It lies in the user's cache directory and never in the run, it is keyed by the
path and the inode of the log, and it is believed only if blocks of the log and the cache's own bytes still have their
checksums; anything else is thrown away. Values stay float64: float32 would halve the file, and then the same run would
show other digits at its second opening than at its first. It is data, read with numpy and JSON; no code is in it.
"""

import contextlib
import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
from platformdirs import user_cache_dir

from txlab.files import open_regular, read_regular
from txlab.runs.columns import Column, Table
from txlab.runs.live_rows import Branch

MAGIC = b"txlab sidecar 2\n"  # the version is in it: another one is simply not recognised
PROBES, PROBE = 17, 4096  # blocks of the log that must be the same, and their size
KEPT = 1024**3  # bytes of cache in all; the longest unused go first


@dataclass(frozen=True)
class Remembered:
    """The live branch of the first `offset` bytes of a log."""

    offset: int
    branch: Branch


def cache_directory() -> Path:
    return Path(user_cache_dir("txlab")) / "curves"


def sidecar_file(events: Path) -> Path:
    """Where the cache of a log lies: named by a hash of its path and inode. Raises OSError."""
    about = events.stat(follow_symlinks=False)
    key = f"{events.resolve()}\0{about.st_dev}\0{about.st_ino}"
    return cache_directory() / f"{hashlib.blake2b(os.fsencode(key), digest_size=16).hexdigest()}.columns"


def probe(events: Path, offset: int) -> str:
    """A hash of blocks spread over the first `offset` bytes of a log, the first and the last among them."""
    digest = hashlib.blake2b(digest_size=16)
    with os.fdopen(open_regular(events, follow=False), "rb") as file:
        for place in range(PROBES):
            start = max(offset - PROBE, 0) * place // (PROBES - 1)
            file.seek(start)
            digest.update(file.read(min(PROBE, offset - start)))
    return digest.hexdigest()


def save(events: Path, offset: int, branch: Branch) -> bool:
    """Remember a branch; False if the cache cannot be written (which nobody needs to be told)."""
    try:
        path = sidecar_file(events)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=".aside-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                write(file, probe(events, offset), offset, branch)
            Path(aside).replace(path)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
        forget_the_oldest(path)
    except (OSError, TypeError, ValueError):
        return False
    return True


def write(file: BinaryIO, probed: str, offset: int, branch: Branch) -> None:
    """Magic, length of the header, header (JSON), columns; then the CRC-32 of all that."""
    live = list(branch.tables.values())
    header = {
        "probe": probed,
        "offset": offset,
        "live": [describe(table) for table in live],
        "dead": [[describe(table) for table in tables] for tables in branch.dead],
        "rows": branch.rows,
        "dead_rows": branch.dead_rows,
        "skipped": branch.skipped,
    }
    encoded = orjson.dumps(header)
    encoded += b" " * (-len(encoded) % 8)  # numbers lie at multiples of eight
    checksum = 0
    for part in (MAGIC, len(encoded).to_bytes(8, "little"), encoded, *arrays(live, branch.dead)):
        checksum = zlib.crc32(part, checksum)
        file.write(part)
    file.write(checksum.to_bytes(4, "little"))


def arrays(live: list[Table], dead: list[list[Table]]) -> Iterator[Any]:
    for table in (*live, *(table for tables in dead for table in tables)):
        for column in table.columns():
            yield column.view().data


def describe(table: Table) -> dict[str, Any]:
    return {
        "event": table.event,
        "names": table.names,
        "rows": len(table),
        "ascending": table.ascending,
        "own": table.places is not table.steps,
    }


def load(events: Path) -> Remembered | None:
    """What is remembered of a log, if it is still true; a cache that is not is deleted."""
    try:
        path = sidecar_file(events)
        data = read_regular(path, KEPT)
    except OSError:
        return None
    try:
        found = decode(data)
        if (
            found is not None
            and events.stat().st_size >= found[0].offset
            and probe(events, found[0].offset) == found[1]
        ):
            os.utime(path)  # the longest unused are forgotten first
            return found[0]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        pass
    with contextlib.suppress(OSError):
        path.unlink()
    return None


def decode(data: bytes) -> tuple[Remembered, str] | None:
    """The content and its probe; None or an error of the usual kinds if it is not what `write` wrote."""
    begin = len(MAGIC) + 8
    if not data.startswith(MAGIC) or zlib.crc32(memoryview(data)[:-4]) != int.from_bytes(data[-4:], "little"):
        return None
    length = int.from_bytes(data[len(MAGIC) : begin], "little")
    header = orjson.loads(data[begin : begin + length])
    position = begin + length

    def take(description: dict[str, Any]) -> Table:
        nonlocal position
        table, rows = Table(description["event"], description["names"]), int(description["rows"])
        for name in ("steps", "places", "times") if description["own"] else ("steps", "times"):
            dtype = np.dtype(np.float64 if name == "times" else np.int64)
            setattr(table, name, Column(dtype, np.frombuffer(data, dtype, rows, position)))
            position += rows * dtype.itemsize
        if not description["own"]:
            table.places = table.steps
        for index in range(len(table.names)):
            table.values[index] = Column(np.float64, np.frombuffer(data, np.float64, rows, position))
            position += rows * 8
        table.ascending = bool(description["ascending"])
        return table

    branch = Branch()
    for description in header["live"]:
        table = take(description)
        branch.tables[table.event, table.names] = table
    branch.dead = [[take(description) for description in tables] for tables in header["dead"]]
    branch.rows, branch.dead_rows = list(header["rows"]), list(header["dead_rows"])
    branch.skipped = int(header["skipped"])
    return Remembered(int(header["offset"]), branch), str(header["probe"])


def forget_the_oldest(keep: Path) -> None:
    """Delete what has not been used longest until the cache is within its bounds."""
    entries = sorted(
        ((entry.stat().st_mtime, entry.stat().st_size, entry) for entry in keep.parent.iterdir()), reverse=True
    )
    total = 0
    for _, size, entry in entries:
        total += size
        if total > KEPT and entry != keep:
            entry.unlink(missing_ok=True)
