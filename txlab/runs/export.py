"""Exporting a run to other programs: CSV tables and TensorBoard event files.

Notable: everything is streamed from the log in two passes, one for the rewinds and one for the live rows, so a log of
any length is exported in little memory. CSV numbers are exact (Python's shortest digits); TensorBoard's format is
float32. Only the live branch is exported; steps that were rewound would make any plot zigzag.
"""

import csv
import io
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from txlab.errors import LabError, choices, convert_os_errors
from txlab.files import atomic_write, open_regular
from txlab.runs.as_json import LARGEST_ROW, text_of
from txlab.runs.directory import RunDirectory
from txlab.runs.events import LineCursor, Replaced, Row, place_of
from txlab.runs.frames import FrameIndex
from txlab.runs.live_rows import MEASURED, as_number, parse

WIDEST = 10_000  # columns of a wide table: each line has a field for every one of them
ASIDE = ".being-written"  # in the folder of an export: its event file, until it is complete


def every_row(run: str | Path) -> Iterator[Row]:
    """Yield all rows of a log in file order, including dead ones; lines that are not rows are skipped.

    Raises LabError if there is no log, or if it was replaced while being read.
    """
    events = RunDirectory(run).events
    require_log(events)
    cursor = LineCursor(events)
    try:
        while lines := cursor.read():
            yield from (row for line in lines if (row := parse(line)) is not None)
    except Replaced:
        raise LabError(f"{events} was replaced while it was exported; export it again") from None


def require_log(events: Path) -> None:
    """Raise LabError if there is no log to export."""
    try:
        os.close(open_regular(events, follow=False))
    except FileNotFoundError:
        raise LabError(f"{events.parent} cannot be exported: it has no events.jsonl") from None
    except OSError as error:
        raise LabError(f"{events} cannot be exported: {error.strerror}") from None


def live_rows(run: str | Path) -> Iterator[Row]:
    """Yield the rows of the live branch, those whose place no later rewind goes below, by step, then in file order."""
    rewinds: list[tuple[int, int]] = []
    end, mixed = 0, False
    for place, row in enumerate(every_row(run)):
        end = place + 1
        if row["event"] == "rewind":
            while rewinds and rewinds[-1][1] >= row["step"]:  # this one drops all that they drop
                rewinds.pop()
            rewinds.append((place, row["step"]))
        mixed |= "at" in row
    limits = rewinds[::-1]  # (place, lowest step of the rewinds from here on), last first
    if not mixed:
        return follow_rows(run, limits, end)
    # Metrics with steps of their own: few rows are behind the run's step, and they fit into memory.
    behind = sorted((row for row in follow_rows(run, limits, end) if "at" in row), key=itemgetter("step"))
    ahead = (row for row in follow_rows(run, limits, end) if "at" not in row)
    return merge(ahead, behind, key=itemgetter("step"))


def follow_rows(run: str | Path, limits: Sequence[tuple[int, int]], end: int) -> Iterator[Row]:
    """Yield the first `end` rows except those beyond the lowest step of the rewinds that come after them."""
    limits = list(limits)
    for place, row in enumerate(islice(every_row(run), end)):  # no further: a later rewind is not known
        while limits and limits[-1][0] <= place:
            limits.pop()
        if not limits or place_of(row) <= limits[-1][1]:
            yield row


def measurements(run: str | Path, names: Sequence[str] | None = None) -> Iterator[tuple[int, float, dict[str, float]]]:
    """Yield (step, time, {name: value}) for each live row that measures one of the names; all names if None."""
    wanted = None if names is None else frozenset(names)
    for row in live_rows(run):
        if row["event"] in MEASURED:
            values = {key: as_number(value) for key, value in row["values"].items() if wanted is None or key in wanted}
            if values:
                yield row["step"], float(row["time"]), values


def metric_names(run: str | Path, wanted: Sequence[str] | None = None) -> list[str]:
    """The names of the live branch in order of first appearance, or the wanted names.

    Raises LabError for a name that was not recorded, with the nearest one.
    """
    names: dict[str, None] = {}
    for _, _, values in measurements(run):
        names.update(dict.fromkeys(values))
    for name in wanted or ():
        if name not in names:
            recorded = choices(name, names, "recorded") if names else "; nothing has been recorded yet"
            raise LabError(f"{Path(run).name} has no metric {name!r}{recorded}")
    return list(wanted) if wanted else list(names)


def write_csv(run: str | Path, out: str | Path, *, wide: bool = False, names: Sequence[str] | None = None) -> Path:
    """Write the live branch as CSV and return the path.

    Long: `step,name,value,time`, a line for each value. Wide: `step,time,NAME…`, a line for each step, with empty
    fields where nothing was measured. Floats are written as Python's repr: the shortest digits that read back as the
    same number, and `nan`, `inf`, `-inf`.

    Raises LabError for an unknown name, a missing log, or a file that cannot be written.
    """
    out = Path(out)
    chosen = metric_names(run, names)
    if wide and len(chosen) > WIDEST:
        raise LabError(f"{Path(run).name} has {len(chosen)} metrics: a wide table has at most {WIDEST}, so name some")
    with convert_os_errors(f"{out} cannot be written"):
        out.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(out, encode_lines(wide_lines(run, chosen) if wide else long_lines(run, chosen)))
    return out


def long_lines(run: str | Path, chosen: Sequence[str]) -> Iterator[Sequence[object]]:
    yield "step", "name", "value", "time"
    for step, time, values in measurements(run, chosen):
        yield from ((step, name, repr(value), repr(time)) for name, value in values.items())


def wide_lines(run: str | Path, chosen: Sequence[str]) -> Iterator[Sequence[object]]:
    yield "step", "time", *chosen
    for step, group in groupby(measurements(run, chosen), key=lambda entry: entry[0]):
        for time, values in merge_rows(group):
            yield step, repr(time), *(repr(values[name]) if name in values else "" for name in chosen)


def encode_lines(lines: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """Lines as the bytes of a CSV file, a thousand at a time."""
    lines = iter(lines)
    while some := list(islice(lines, 1000)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(some)
        yield text.getvalue().encode()


def merge_rows(group: Iterator[tuple[int, float, dict[str, float]]]) -> Iterator[tuple[float, dict[str, float]]]:
    """Merge the rows of one step into as few lines as possible: a second value of the same name starts a new line."""
    begun, line = 0.0, dict[str, float]()
    for _, time, values in group:
        if not line or line.keys() & values.keys():
            if line:
                yield begun, line
            begun, line = time, {}
        line |= values
    if line:
        yield begun, line


def write_tensorboard(
    run: str | Path, out: str | Path, *, names: Sequence[str] | None = None, images: bool = False
) -> Path:
    """Write an event file for TensorBoard into the folder `out` and return that folder.

    Scalars are float32 and carry their step and wall time; samples become texts, quoted so that they are not rendered
    as Markdown; `images` adds the attention patterns of every recorded frame, heads side by side.

    Raises LabError as `write_csv` does, and if `out` already has event files (TensorBoard would show both as one run).
    """
    out = Path(out)
    if out.is_dir() and any(out.glob("events.out.tfevents.*")):
        raise LabError(f"{out} already holds TensorBoard event files; name another folder")
    chosen = None if names is None else set(metric_names(run, names))
    require_log(RunDirectory(run).events)
    with convert_os_errors(f"{out} cannot be written"):
        aside = out / ASIDE
        shutil.rmtree(aside, ignore_errors=True)  # left by a killed export
        aside.mkdir(parents=True)
        try:
            write_events(run, aside, chosen, images)
            for file in aside.iterdir():
                file.rename(out / file.name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return out


def write_events(run: str | Path, out: Path, chosen: set[str] | None, images: bool) -> None:
    from tensorboardX import SummaryWriter
    from tensorboardX.proto.summary_pb2 import Summary

    writer = SummaryWriter(str(out), flush_secs=3600, max_queue=1000)
    try:
        for row in live_rows(run):
            if row["event"] in MEASURED:
                values = [
                    Summary.Value(tag=text_of(name), simple_value=single(as_number(value)))
                    for name, value in row["values"].items()
                    if chosen is None or name in chosen
                ]
                if values:
                    writer.file_writer.add_summary(Summary(value=values), row["step"], float(row["time"]))
            elif row["event"] == "sample":
                lines = text_of(f"{row.get('prompt', '')}{row.get('text', '')}", LARGEST_ROW).splitlines() or [""]
                quoted = "\n".join("    " + line for line in lines)  # a code block, so nothing in it is markup
                writer.add_text("sample", quoted, row["step"], float(row["time"]))
        if images:
            frames = FrameIndex(RunDirectory(run).frames)
            frames.refresh()
            for step in frames.steps.tolist():
                add_patterns(writer, frames, step)
    finally:
        writer.close()


def single(value: float) -> float:
    """A double that a float32 field accepts: numbers too large for it become infinite, as in NumPy."""
    return math.copysign(math.inf, value) if math.isfinite(value) and abs(value) >= 3.4028235677973366e38 else value


def add_patterns(writer: Any, frames: FrameIndex, step: int) -> None:
    """Add the attention patterns of one frame as one grey image per layer, its heads from left to right."""
    import numpy as np

    from txlab.runs.remote.mirroring import exact_frame

    with suppress(LabError):  # without a connection: the levels of the mirror are as fine as the image's
        exact_frame(frames.directory.parent, step)
    try:
        pattern = frames.read(step, ["attention/pattern"]).tensors.get("attention/pattern")
    except LabError:  # thinned out since the frames were listed
        return
    if pattern is None:
        return
    for layer, heads in enumerate(np.asarray(pattern, np.float32)):
        grey = (np.clip(np.nan_to_num(np.concatenate(list(heads), axis=1)), 0, 1) * 255).astype(np.uint8)
        writer.add_image(f"attention/layer_{layer}", grey, step, dataformats="HW")
