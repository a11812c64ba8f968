"""The whole curve of a huge log at once: its tail, and two thousand rows spread evenly over the rest.

Notable: what is sampled must be live, or the curve would show a past that was rewound. So the rewinds are looked for
first (a search for eight bytes, 0.5 ms a megabyte) and a sampled row counts only if no later rewind goes below its
place. Beyond `SEARCHED` bytes that search is given up, and the places themselves decide: walking backwards, only rows
at or below the places that come later are kept.
"""

import os
from pathlib import Path

from txlab.files import open_regular
from txlab.runs.events import LONGEST, Row, place_of
from txlab.runs.live_rows import MEASURED, Branch, parse

TAIL = 256 * 1024
SAMPLES = 2000
BLOCK = 4096  # read at each sampled offset: about 28 rows, so that rows logged seldom (validation) are met too
SEARCHED = 1024 * 1024 * 1024
CHUNK = 4 * 1024 * 1024
REWIND = b'"rewind"'
MOST_REWINDS = 100_000
PARSED = 64 * 1024 * 1024  # bytes of rows that are parsed because they have that word in them


def coarse_branch(
    path: Path, tail: int = TAIL, samples: int = SAMPLES, block: int = BLOCK, searched: int = SEARCHED
) -> tuple[Branch, int]:
    """A branch of sampled live rows plus all of the tail, and the offset behind the last complete line.

    Raises OSError.
    """
    with os.fdopen(open_regular(path, follow=False), "rb", buffering=0) as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        start = max(size - tail, 0)
        ending = os.pread(descriptor, size - start, start)
        first = ending.find(b"\n") + 1 if start else 0  # a tail that begins inside a row begins after it
        end = usable_end(ending)
        last = [row for line in ending[first:end].split(b"\n") if (row := parse(line)) is not None]
        rewinds = find_rewinds(descriptor, start + first, searched)
        floor = min(map(place_of, last), default=None)
        if rewinds is not None:
            sampled = sample(descriptor, start + first, samples, block)
            kept = live_samples(sampled, [*rewinds, *[(size, row["step"]) for row in last if row["event"] == "rewind"]])
        else:
            kept = ascending_samples(sample(descriptor, start + first, samples, block), floor)
    branch = Branch()
    branch.add(kept)
    branch.add(last)
    return branch, start + max(end, first)


def usable_end(block: bytes) -> int:
    """Behind the last newline that comes before any NUL byte."""
    nul = block.find(0)
    return (block.rfind(b"\n") if nul < 0 else block.rfind(b"\n", 0, nul)) + 1


def find_rewinds(descriptor: int, end: int, searched: int) -> list[tuple[int, int]] | None:
    """(offset, step) of every rewind before `end`, in order; None if that would take too long."""
    if end > searched:
        return None
    found: list[tuple[int, int]] = []
    position, carried, parsed = 0, b"", 0
    while position < end:
        chunk = carried + os.pread(descriptor, min(CHUNK, end - position), position)
        if len(chunk) == len(carried):
            break
        base = position - len(carried)
        position = base + len(chunk)
        complete = chunk.rfind(b"\n") + 1 if position < end else len(chunk)
        at = chunk.find(REWIND, 0, complete)
        while at >= 0:
            line_start, line_end = chunk.rfind(b"\n", 0, at) + 1, chunk.find(b"\n", at)
            line_end = line_end if line_end >= 0 else complete
            row = parse(chunk[line_start:line_end])
            if row is not None and row["event"] == "rewind":
                found.append((base + line_start, row["step"]))
            parsed += line_end - line_start
            if len(found) > MOST_REWINDS or parsed > PARSED:
                return None
            at = chunk.find(REWIND, line_end, complete)
        carried = chunk[complete:] if len(chunk) - complete <= LONGEST else b""  # what is longer is no row
    return found


def sample(descriptor: int, end: int, samples: int, size: int) -> list[tuple[int, Row]]:
    """From evenly spaced blocks: the first row of each set of metrics, and every other row; with their offsets."""
    found: list[tuple[int, Row]] = []
    stride = max(end // max(samples, 1), size)
    for place in range(0, end, stride):
        block = os.pread(descriptor, min(size, end - place), place)
        position = 0 if place == 0 else block.find(b"\n") + 1
        if position == 0 and place:
            continue
        seen: set[tuple[str, ...]] = set()
        while (newline := block.find(b"\n", position)) >= 0:
            row = parse(block[position:newline])
            if row is not None and row["event"] in MEASURED:
                names = (row["event"], *row["values"])
                if names not in seen:
                    seen.add(names)
                    found.append((place + position, row))
            elif row is not None and row["event"] != "rewind":
                found.append((place + position, row))
            position = newline + 1
    return found


def live_samples(sampled: list[tuple[int, Row]], rewinds: list[tuple[int, int]]) -> list[Row]:
    """Of rows in file order, those whose place no later rewind goes below."""
    kept: list[Row] = []
    lowest, later = None, len(rewinds)
    for offset, row in reversed(sampled):
        while later and rewinds[later - 1][0] > offset:
            later -= 1
            lowest = rewinds[later][1] if lowest is None else min(lowest, rewinds[later][1])
        if lowest is None or place_of(row) <= lowest:
            kept.append(row)
    return kept[::-1]


def ascending_samples(sampled: list[tuple[int, Row]], floor: int | None) -> list[Row]:
    """Of rows in file order, those at or below every place that comes later."""
    kept: list[Row] = []
    for _, row in reversed(sampled):
        place = place_of(row)
        if floor is None or place <= floor:
            floor = place
            kept.append(row)
    return kept[::-1]
