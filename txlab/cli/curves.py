"""`txlab plot` and `txlab export`: the curves of runs and the scores of a sweep of settings, in the terminal, as a
picture, or as data for other programs.

The model itself is exported by models.py.

A running run is drawn up to its current step; a long one from a sample of its rows, except for exports and pictures,
which use every row.
"""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from txlab.cli import options
from txlab.cli.models import export_model
from txlab.cli.output import Column, print_rows, table
from txlab.cli.terminal import ascii_only, columns, complain, depth, group_digits, numeral, print_lines, sanitize
from txlab.errors import LabError, choices, nearest

if TYPE_CHECKING:
    from rich.text import Text

    from txlab.drawing.axis import Window
    from txlab.drawing.curve import Curve
    from txlab.drawing.picture import Stroke
    from txlab.drawing.sweep import Surface
    from txlab.runs.reader import RunReader

Format = Literal["csv", "tensorboard", "huggingface"]
FORMATS: tuple[Format, ...] = get_args(Format)


def plot(
    names: Annotated[list[str], typer.Argument(metavar="RUN", help="runs' names or directories, or latest")],
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="A,B", help="the metrics; else the runs' primary ones")
    ] = None,
    out: options.Picture = None,
    log_x: Annotated[bool, typer.Option("--log-x", help="logarithmic steps")] = False,
    log_y: Annotated[bool, typer.Option("--log-y", help="logarithmic values")] = False,
    smooth: Annotated[
        float, typer.Option("--smooth", metavar="STEPS", help="smooth over about this many steps", min=0)
    ] = 0,
    first: Annotated[float | None, typer.Option("--from", metavar="STEP", help="the first step shown")] = None,
    last: Annotated[float | None, typer.Option("--to", metavar="STEP", help="the last step shown")] = None,
    height: Annotated[
        int, typer.Option("--height", metavar="ROWS", help="height of the chart in the terminal", min=5, max=200)
    ] = 20,
    sweep: Annotated[bool, typer.Option("--sweep", help="the scores of a sweep of settings instead")] = False,
    table: Annotated[
        bool, typer.Option("--table", help="with --sweep: as a table", callback=options.only_form)
    ] = False,
    x: Annotated[
        str | None, typer.Option("--x", metavar="AXIS", help="with --sweep: alpha, lam … along; of a table: its steps")
    ] = None,
    json: options.JsonLines = False,
    csv: options.Csv = False,
) -> None:
    """Draw metrics of one or several runs."""
    if sweep or table:
        if not sweep or len(names) > 1:
            raise LabError("--table is for --sweep, and a sweep is drawn of one run")
        surface, title = newest_surface(names[0])
        if not print_rows(settings_of(surface), json, csv):
            plot_sweep(surface, title, out, table, x, height)
        return
    if first is not None and last is not None and not first < last:
        raise LabError(f"--from {first:g} is not before --to {last:g}")
    readers = open_readers(names, whole=out is not None or json or csv, x=x)
    metrics = choose_metrics(readers, metric)
    drawn = curves(readers, metrics)
    if print_rows(points_of(drawn, first, last), json, csv):
        return
    from txlab.drawing.curve import window_of
    from txlab.drawing.plot import text_chart

    window = whole = window_of(drawn, log_x, log_y, first, last)
    if metric is None and first is last is None and not (log_x or log_y):
        window = window_unasked(drawn, metrics)
    if out is not None:
        clipped = None if window is None or window == whole else (window.low, window.high)
        save_picture(readers, metrics, out, (log_x, log_y), smooth, (first, last), clipped)
        return
    if window is None:
        where = "" if first is last is None else " between these steps"
        raise LabError(f"{', '.join(metrics)}: no finite value to draw{where}")
    look: dict[str, Any] = {"ascii": ascii_only(), "colours": depth()}
    print_lines(
        text_chart(drawn, columns() - 1, height, window=window, log_x=log_x, log_y=log_y, smoothing=smooth, **look)
    )


def export(
    name: options.Run,
    format: Annotated[
        str | None,
        typer.Argument(metavar="FORMAT", help=f"{', '.join(FORMATS)} (the model); after --format, the file or folder"),
    ] = None,
    form: Annotated[Format | None, typer.Option("--format", "--form", help="the same as FORMAT")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PATH", help="a file (csv; else standard output) or a folder")
    ] = None,
    wide: Annotated[bool, typer.Option("--wide", help="csv: one row per step, one column per metric")] = False,
    images: Annotated[bool, typer.Option("--images", help="tensorboard: also the attention patterns")] = False,
    metric: Annotated[str | None, typer.Option("--metric", metavar="A,B", help="only these metrics; else all")] = None,
    x: options.StepColumn = None,
) -> None:
    """Export metrics or the model."""
    kind, out = form_and_place(format, form, out)
    if kind == "huggingface":
        if wide or images or metric is not None:
            raise LabError("--wide, --images and --metric are for metrics; huggingface is a format of models")
        if out is None:
            raise LabError("a model is written into a new folder; name it: --format huggingface FOLDER")
        export_model(name, out)
        return
    export_metrics(name, kind, out, wide, images, metric, x)


def form_and_place(format: str | None, form: Format | None, out: Path | None) -> tuple[Format, Path | None]:
    """Return the format and the path: `FORMAT --out PATH`, or `--format FORMAT PATH`."""
    if form is not None:
        if format is not None and out is not None:
            raise LabError(f"give one place, not both {format!r} and --out {str(out)!r}")
        return form, out if format is None else Path(format)
    asked = "csv" if format is None else format
    for known in FORMATS:
        if asked == known:
            return known, out
    allowed = ", ".join(map(repr, FORMATS))
    raise LabError(f"FORMAT: {format!r} is not allowed{nearest(asked, FORMATS)}; allowed: {allowed}")


def export_metrics(
    name: str, format: Format, out: Path | None, wide: bool, images: bool, metric: str | None, x: str | None
) -> None:
    """Export metrics of a run as CSV or as TensorBoard event files."""
    from txlab.runs.export import write_csv, write_tensorboard
    from txlab.runs.finding import find_run

    directory = find_run(name, x=x)
    names = None if metric is None else [m.strip() for m in metric.split(",") if m.strip()]
    if format == "tensorboard":
        if wide:
            raise LabError("--wide is for csv; TensorBoard's event files have one shape")
        folder = write_tensorboard(directory, out or Path(f"{directory.name}-tensorboard"), names=names, images=images)
        print(sanitize(f"{folder}: tensorboard --logdir {folder}"))
    elif images:
        raise LabError("--images is for tensorboard; csv holds numbers")
    elif out is not None:
        print(sanitize(str(write_csv(directory, out, wide=wide, names=names))))
    else:
        with tempfile.TemporaryDirectory() as aside:  # complete before the first byte is printed
            whole = write_csv(directory, Path(aside) / "metrics.csv", wide=wide, names=names)
            with whole.open(encoding="utf-8", newline="") as file:
                if sys.stdout.isatty():  # a program gets raw names, a terminal escaped ones
                    sys.stdout.writelines(sanitize(line.rstrip("\r\n")) + "\n" for line in file)
                else:
                    shutil.copyfileobj(file, sys.stdout)


def save_picture(
    readers: Sequence[RunReader],
    metrics: Sequence[str],
    out: Path,
    logs: tuple[bool, bool],
    smoothing: float,
    steps: tuple[float | None, float | None],
    clipped: tuple[float, float] | None,
) -> None:
    """Save the curves as a PNG or SVG, `clipped` at the same values as in the terminal; dead branches are drawn faintly
    behind them."""
    from txlab.drawing.picture import draw_curves, strokes_of
    from txlab.experiments.kind import kind_of_run

    strokes: list[Stroke] = []
    for i, reader in enumerate(readers):
        names = [metric for metric in dict.fromkeys(metrics) if len(reader.series(metric))]
        several = len(readers) > 1
        strokes += strokes_of(reader, names, reader.info.name if several else "", i if several else None)
    strokes = [between(stroke, *steps) for stroke in strokes]
    title = readers[0].info.name if len(readers) == 1 else ""
    units = {kind_of_run(reader.info.kind).metric(metric).unit for metric in metrics for reader in readers}
    path = draw_curves(
        strokes,
        out,
        title=title,
        y_label=units.pop() if len(units) == 1 else "",
        log_x=logs[0],
        log_y=logs[1],
        smoothing=smoothing,
        clipped=clipped,
    )
    print(sanitize(str(path)))


def points_of(drawn: Sequence[Curve], first: float | None, last: float | None) -> Iterator[dict[str, Any]]:
    """Yield a row per point of the curves between two steps."""
    for curve in drawn:
        for step, value in zip(curve.steps.tolist(), curve.values.tolist(), strict=True):
            if (first is None or step >= first) and (last is None or step <= last):
                yield {"curve": curve.name, "step": step, "value": value}


def between(stroke: Stroke, first: float | None, last: float | None) -> Stroke:
    """Return the part of a curve between two steps."""
    low = None if first is None else int(stroke.steps.searchsorted(first, "left"))
    high = None if last is None else int(stroke.steps.searchsorted(last, "right"))
    return replace(stroke, steps=stroke.steps[low:high], values=stroke.values[low:high])


def open_readers(names: Sequence[str], whole: bool = False, x: str | None = None) -> list[RunReader]:
    """Return readers of these runs; `whole` reads every row, even of long runs, and `x` is the step of a table."""
    from txlab.runs.finding import find_run
    from txlab.runs.reader import RunReader

    readers = [RunReader(path) for path in dict.fromkeys(find_run(name, x=x) for name in names)]
    for reader in readers:
        reader.poll()
        if whole:
            reader.catch_up()
        if reader.omission:
            complain(f"{reader.info.name}: {reader.omission}")
    return readers


def choose_metrics(readers: Sequence[RunReader], metric: str | None) -> list[str]:
    """Return the requested metrics, by default the runs' primary ones. Raises LabError if nothing is recorded yet."""
    if metric is not None:
        return [m.strip() for m in metric.split(",") if m.strip()]
    names = list(dict.fromkeys(name for reader in readers for name in foremost(reader)))
    if not names:
        raise LabError(f"{', '.join(reader.info.name for reader in readers)}: nothing has been recorded yet")
    return names


def curves(readers: Sequence[RunReader], metrics: Sequence[str]) -> list[Curve]:
    """Return one curve for each metric of each run that has it; raise LabError if no run has one of them."""
    from txlab.drawing.curve import Curve
    from txlab.experiments.metric import is_validation

    drawn = []
    for metric in metrics:
        having = [reader for reader in readers if len(reader.series(metric))]
        if not having:
            known = sorted({name for reader in readers for name in reader.names()})
            where = ", ".join(reader.info.name for reader in readers)
            listed = choices(metric, known, "recorded") if known else "; nothing has been recorded yet"
            raise LabError(f"{metric!r} was not recorded in {where}{listed}")
        for reader in having:
            series = reader.series(metric)
            label = f"{reader.info.name} {metric}" if len(readers) > 1 else metric
            drawn.append(Curve(label, series.steps, series.values, "points" if is_validation(metric) else "line"))
    return drawn


def foremost(reader: RunReader) -> list[str]:
    """Return the primary metrics of a run that share one scale; [] if nothing has been recorded."""
    from txlab.experiments.kind import kind_of_run
    from txlab.experiments.metric import primary_metrics, validation_of

    kind = kind_of_run(reader.info.kind)

    def scale(name: str) -> str:
        return kind.metric(name).unit or name.rpartition("/")[0]

    filled = [name for name in reader.names("metrics") if len(reader.series(name))]
    names = primary_metrics(filled, kind.METRICS, reader.info.facts.get("headline"))
    return names[:1] + [
        name
        for name in names[1:]
        if (scale(name) and scale(name) == scale(names[0])) or name == validation_of(names[0], names)
    ]


def window_unasked(drawn: Sequence[Curve], metrics: Sequence[str]) -> Window | None:
    """Return the window for metrics chosen by default: early returns, which are far below, are left out."""
    from txlab.drawing.curve import window_of, without_the_beginning

    returns = metrics[0].partition("/")[0] == "return"
    return without_the_beginning(drawn) if returns else window_of(drawn)


def loss_chart(reader: RunReader, height: int = 12) -> list[Text]:
    """Draw the primary metrics of a run as text, for the end of `txlab run`; [] if there is nothing to draw."""
    from txlab.drawing.plot import text_chart

    names = foremost(reader)
    drawn = curves([reader], names) if names else []
    window = window_unasked(drawn, names) if drawn else None
    if window is None:
        return []
    return text_chart(drawn, min(100, columns() - 1), height, ascii=ascii_only(), colours=depth(), window=window)


# Sweeps of settings.


def newest_surface(name: str) -> tuple[Surface, str]:
    """Return the scores in the newest frame of a sweep, and a title; raise LabError if there are none."""
    from txlab.drawing.sweep import surface_of
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
        return surface_of(frame), f"{RunInfo.load(RunDirectory(path)).name}, step {group_digits(frame.step)}"
    except LabError as error:
        raise LabError(f"{path.name}: {error}") from None


def plot_sweep(surface: Surface, title: str, out: Path | None, as_table: bool, x: str | None, height: int) -> None:
    from txlab.drawing.sweep import across, draw_sweep, text_sweep

    if as_table:
        print(table_of(surface))
        return
    axis = across(surface, x)
    if out is not None:
        print(sanitize(str(draw_sweep(surface, axis, out, title=title))))
        return
    print_lines(text_sweep(surface, axis, columns() - 1, height, ascii_only(), depth()))
    best = surface.best()
    if best is not None:
        print(f"best of all: {numeral(float(surface.score[best]))} with {surface.label_of(best, ascii_only())}")


def settings_of(surface: Surface) -> Iterator[dict[str, Any]]:
    """Yield a row per setting: its values, its score and standard error (NaN of a single run), if it is the best."""
    import numpy as np

    best = surface.best()
    for place in np.ndindex(surface.score.shape):
        values = {name: values[at] for (name, values), at in zip(surface.axes, place, strict=True)}
        scores = {surface.title: float(surface.score[place]), "standard error": float(surface.error[place])}
        yield values | scores | {"best": place == best}


def table_of(surface: Surface) -> str:
    """Format a row per setting, and a mark at the best one."""
    rows = []
    for *values, score, error, best in (row.values() for row in settings_of(surface)):
        cells = [sanitize(value) if isinstance(value, str) else f"{value:g}" for value in values]
        mark = ("*" if ascii_only() else "★") if best else ""
        rows.append([*cells, numeral(score), numeral(error) if math.isfinite(error) else "", mark])
    head = [Column(sanitize(name), "left" if isinstance(values[0], str) else "right") for name, values in surface.axes]
    head += [Column(sanitize(surface.title), "right"), Column("standard error", "right"), Column("best")]
    return table(head, rows)
