"""`txlab plot RUN --sweep`: the results of a sweep of settings as curves, as a picture, or as a table.

It reads the newest frame, so a running sweep is drawn as far as it has got.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.drawing.sweep import Surface


def plot_sweep(name: str, out: Path | None, as_table: bool, x: str | None, height: int) -> None:
    """Draw the sweep of a run. Raises LabError if the run is not a sweep or has no frame yet."""
    from txlab.cli.terminal import ascii_only, columns, depth, print_lines, shown
    from txlab.drawing.sweep import across, draw_sweep, surface_of, text_sweep
    from txlab.runs.directory import RunDirectory, RunInfo
    from txlab.runs.finding import find_run
    from txlab.runs.frames import FrameIndex

    path = find_run(name)
    index = FrameIndex(RunDirectory(path).frames)
    index.refresh()
    if not len(index.steps):
        raise LabError(f"{path.name} has no frame yet, and a sweep is drawn from the newest one")
    frame = index.read(int(index.steps[-1]))
    try:
        surface = surface_of(frame)
    except LabError as error:
        raise LabError(f"{path.name}: {error}") from None
    if as_table:
        if out is not None:
            raise LabError("--table prints, and --out makes a picture: one of them")
        print(table_of(surface))
        return
    axis = across(surface, x)
    if out is not None:
        title = f"{RunInfo.load(RunDirectory(path)).name}, step {frame.step}"
        print(shown(str(draw_sweep(surface, axis, out, title=title))))
        return
    print_lines(text_sweep(surface, axis, columns() - 1, height, ascii_only(), depth()))
    best = surface.best()
    if best is not None:
        from txlab.cli.terminal import numeral

        print(f"best of all: {numeral(float(surface.score[best]))} with {surface.named(best, ascii_only())}")


def table_of(surface: Surface) -> str:
    """Format a row per setting: its values, its score with the standard error, and a mark at the best one."""
    import numpy as np

    from txlab.cli.terminal import Column, ascii_only, numeral, shown, table

    best, rows = surface.best(), []
    for place in np.ndindex(surface.score.shape):
        values = [surface.axes[i][1][j] for i, j in enumerate(place)]
        cells = [shown(value) if isinstance(value, str) else f"{value:g}" for value in values]
        mark = ("*" if ascii_only() else "★") if place == best else ""
        rows.append([*cells, numeral(float(surface.score[place])), numeral(float(surface.error[place])), mark])
    head = [Column(shown(name), "left" if isinstance(values[0], str) else "right") for name, values in surface.axes]
    head += [Column(shown(surface.title), "right"), Column("standard error", "right"), Column("best")]
    return table(head, rows)
