"""Data with nothing in them to draw: no picture raises or warns, and each says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from txlab.drawing import (
    attention,
    axis,
    curve,
    formatting,
    image,
    network,
    picture,
    pixels,
    plane,
    scatter,
    spark,
    sweep,
)
from txlab.drawing.axis import Window, ticks
from txlab.drawing.diverging import ramp_for, scale_of
from txlab.drawing.plot import text_chart
from txlab.drawing.thinning import decimate, smooth
from txlab.drawing.update_lines import compact
from txlab.drawing.world import draw, states_of
from txlab.drawing.world_scene import SHOWS, CellSize, Scene, WorldAspect
from txlab.engine.rl.worlds import world_named

DATA = {
    "none": [],
    "one": [2.0],
    "zero": [0.0] * 5,
    "constant": [3.0] * 5,
    "huge": [1e308, -1e308, 1e308],
    "large": [3e300, -3e300, 3e300],
    "tiny": [5e-324] * 5,
    "close": [1.0, 1.0 + 2e-16, 1.0],
    "nan": [np.nan] * 5,
    "infinite": [np.inf, -np.inf, np.inf],
    "mixed": [np.nan, 1.0, np.inf, -np.inf, 0.0],
}
Values = np.ndarray


@pytest.fixture(params=DATA)
def values(request: pytest.FixtureRequest) -> Values:
    return np.array(DATA[request.param], np.float64)


def square(values: Values) -> Values:
    """Each value in a row and a column: (n, n)."""
    return np.maximum(values[:, None], values[None]) if len(values) else np.empty((0, 0))


def camera(values: Values) -> scatter.Camera:
    return scatter.whole(np.stack([values, values], 1))


def map_of_words(values: Values) -> None:
    points = np.stack([values, values], 1)
    base = scatter.ground(points, camera(values), 6, 20)
    labels = [scatter.Label(index, "word") for index in range(len(values))]
    drawn = scatter.scatter(base, labels=labels, path=points, arrows=[(points[0], points[-1])] if len(points) else [])
    assert len(drawn.characters) == 6


def a_map(values: Values) -> None:
    window = plane.window_of(camera(values), 4, 8)
    ground = np.resize(values if len(values) else [np.nan], (8, 8))
    path = [plane.Path(np.stack([values, values], 1), "A", 0)] if len(values) else []
    for ascii in (False, True):
        plane.sheet_lines(plane.contours(window, ground, path, ascii), ascii, filled=not ascii)


def a_graph(values: Values) -> None:
    x = np.arange(len(values), dtype=np.float64)
    graph = plane.Graph(x, values, (0.0, float(values[0])), 1.0, 2.0) if len(values) else plane.Graph(x, values)
    low, high = plane.heights(graph, values.tolist())
    assert low < high
    paths = [plane.Path(np.stack([x, values], 1), "A", 0)] if len(values) else []
    plane.sheet_lines(plane.graph_sheet(Window(0, 5, low, high), graph, paths, 4, 20, False), False, filled=True)


def a_pattern(values: Values) -> None:
    weights = square(values)
    names = ["t"] * len(values)
    for sums in (False, True):
        attention.pattern_lines(weights, names, names, 40, sums=sums)


def some_pixels(values: Values) -> None:
    weights = square(values)
    scale = scale_of(weights)
    for ascii in (False, True):
        pixels.pixel_lines(weights, scale, ramp_for(scale, "truecolor", True, ascii), (0, 0, 0))


def an_axis(values: Values) -> None:
    finite = values[np.isfinite(values)].tolist()
    for low, high in ((min(finite, default=0.0), max(finite, default=0.0)), (-np.inf, np.inf), (np.nan, 1.0)):
        for log in (False, True):
            ticks(low, high, 5, log and low > 0)


def a_chart(values: Values) -> None:
    curves = [curve.Curve("c", np.arange(len(values)), values)]
    for log in (False, True):
        shown = np.isfinite(values) & (~np.array(log) | (values >= curve.TINY))
        drawn = curve.draw(curves, 30, 6, log_y=log)
        assert (drawn is None) == (not shown.any())
        text = "\n".join(line.plain for line in text_chart(curves, 40, 8, log_y=log))
        assert ("no numbers yet" in text) == (not shown.any())


def a_thinned_curve(values: Values) -> None:
    steps = np.arange(len(values))
    assert len(smooth(steps, values, 2.0)) == len(values)
    decimate(steps, values, 1)


def a_network(values: Values) -> None:
    names = [str(place) for place in range(len(values))]
    edges = [(name, "out") for name in names]
    wires = network.Wires(network.plan([names, ["out"]], 12, 40, 2), edges, 6)
    for ascii in (False, True):
        wires.draw(values, np.zeros(len(values), bool), ascii)


def a_world(values: Values) -> None:
    known = world_named("cliff")
    size = known.process.size
    value = np.resize(values if len(values) else [np.nan], size)
    q = np.repeat(value[:, None], len(known.process.actions), 1)
    scene = Scene(value, q, np.abs(q), value, np.abs(value))
    scale = scale_of(value)
    for show in SHOWS:
        for cell in (CellSize(2, 1), CellSize(7, 3), CellSize(11, 4)):
            view = WorldAspect(cell, (0, 0), (4, 12), show, scale, ramp_for(scale, "truecolor", True, False))
            draw(known, scene, view, states_of(known, 0))


def a_sweep(values: Values) -> None:
    axes = (("alpha", tuple(float(place) for place in range(len(values)))),)
    surface = sweep.Surface(axes, values, np.abs(values), "return", low=False)
    if len(values):
        sweep.text_sweep(surface, 0, 40, 8)


def numbers(values: Values) -> None:
    for value in values.tolist():
        for write in (formatting.number, formatting.share, formatting.significant, compact, axis.number):
            assert write(value)


DRAWN: dict[str, Callable[[Values], object]] = {
    "spark": lambda values: [spark.spark(values, cells, ascii) for cells in (0, 2, 9) for ascii in (False, True)],
    "bar": lambda values: [spark.bar(float(value), 5, ascii) for value in values for ascii in (False, True)],
    "histogram": lambda values: image.histogram_lines(np.nan_to_num(np.abs(values), posinf=9.0), 3, 9, False),
    "chart": a_chart,
    "axis": an_axis,
    "thinned": a_thinned_curve,
    "words": map_of_words,
    "map": a_map,
    "graph": a_graph,
    "pattern": a_pattern,
    "pixels": some_pixels,
    "network": a_network,
    "world": a_world,
    "sweep": a_sweep,
    "numbers": numbers,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_it_is_drawn_without_an_error_or_a_warning(draw: Callable[[Values], object], values: Values) -> None:
    draw(values)


def test_a_picture_is_written_of_it(values: Values, tmp_path: Path) -> None:
    strokes = [picture.Stroke("c", np.arange(len(values)), values)]
    for log in (False, True):
        assert picture.draw_curves(strokes, tmp_path / "curves.png", log_x=log, log_y=log).stat().st_size
    names = ["t"] * len(values)
    if len(values):
        assert picture.draw_attention(square(values), tmp_path / "head.png", queries=names).stat().st_size
