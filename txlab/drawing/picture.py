"""Pictures for papers and chats: curves and attention patterns as PNG or SVG, light or dark.

Notable: matplotlib is imported lazily, starts from its own defaults (a user's matplotlibrc could turn on LaTeX and run
it on our texts), and takes every text literally: a token "$x^2$" is plain text and not a formula, a character that no
font has is an empty box and not an error. Pictures of the same numbers are identical byte for byte.
"""

import io
import logging
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from txlab.drawing.text import label, visible
from txlab.drawing.thinning import decimate, smooth
from txlab.errors import LabError, nearest
from txlab.experiments.metric import is_validation
from txlab.files import atomic_write
from txlab.runs.reader import RunReader

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Role = Literal["train", "validation", "dead"]
Theme = Literal["light", "dark"]

# Okabe & Ito's colour-blind-safe colours; on a dark background black and blue are lightened.
COLOURS = {
    "light": ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B", "#8A6D00"],
    "dark": ["#56B4E9", "#F28E2B", "#3CCB9C", "#E39BC4", "#F0C419", "#9AD0F5", "#C8C8C8", "#F0E442"],
}
GROUNDS = {"light": ("#FFFFFF", "#22262B", "#D9DDE2"), "dark": ("#14171B", "#E4E7EB", "#343A42")}  # paper, ink, lines
FONTS = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans", "Noto Emoji", "Symbola", "Unifont"]
THIN_TO = 4000  # columns: more than any picture is wide in pixels
DRAWING = threading.Lock()  # matplotlib's settings are global


@dataclass(frozen=True)
class Stroke:
    """One curve of a picture: train is faint with its average on top, validation dashed with markers, dead dim.

    `colour` is an index; curves that belong together share it. An empty `name` keeps it out of the legend.
    """

    name: str
    steps: npt.NDArray[Any]
    values: npt.NDArray[Any]
    role: Role = "train"
    colour: int = 0


def strokes_of(reader: RunReader, names: Sequence[str], run: str = "", colour: int | None = None) -> list[Stroke]:
    """Return the curves of a run, its dead branches first. `run` prefixes each name; `colour` is shared by all of them.

    Raises LabError for a metric that the run does not have.
    """
    strokes = []
    for index, name in enumerate(names):
        series = reader.series(name)
        if not len(series):
            raise LabError(f"{reader.directory.path} has no metric {name!r}{nearest(name, reader.names())}")
        own = index if colour is None else colour
        title = f"{run} {name}".strip()
        strokes += [Stroke("", dead.steps, dead.values, "dead", own) for dead in reader.dead_series(name)]
        strokes.append(
            Stroke(title, series.steps, series.values, "validation" if is_validation(name) else "train", own)
        )
    return sorted(strokes, key=lambda stroke: stroke.role != "dead")


def draw_curves(
    strokes: Sequence[Stroke],
    out: str | Path,
    *,
    title: str = "",
    x_label: str = "step",
    y_label: str = "",
    log_x: bool = False,
    log_y: bool = False,
    smoothing: float = 0.0,
    clipped: tuple[float, float] | None = None,
    theme: Theme = "light",
    size: tuple[float, float] = (9.0, 5.0),
) -> Path:
    """Draw curves to a PNG or SVG file, by its suffix, and return the path. `smoothing` is a span in steps; `clipped`
    are the smallest and largest value shown, else all are.

    Raises LabError for another suffix or a path that cannot be written.
    """
    out = check_path(out)
    colours = COLOURS[theme]
    if not any(drawable(stroke, log_x, log_y) for stroke in strokes):
        log_x = log_y = False  # a logarithmic axis of nothing cannot be drawn
    with drawing(theme, size) as (figure, axes):
        for stroke in strokes:
            xs, ys = thin_curve(stroke.steps, stroke.values, log_x, log_y)
            colour = colours[stroke.colour % len(colours)]
            name = visible(stroke.name) or None
            if stroke.role == "dead":
                axes.plot(xs, ys, color=colour, alpha=0.3, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
            elif stroke.role == "validation":
                axes.plot(xs, ys, color=colour, linestyle="--", marker="o", markersize=3.5, label=name, zorder=4)
            elif smoothing > 0:
                axes.plot(xs, ys, color=colour, alpha=0.25, linewidth=0.8, zorder=2)
                average = smooth(stroke.steps, stroke.values, smoothing)
                axes.plot(*thin_curve(stroke.steps, average, log_x, log_y), color=colour, label=name, zorder=3)
            else:
                axes.plot(xs, ys, color=colour, label=name, zorder=3)
        axes.set_xscale("log" if log_x else "linear")
        axes.set_yscale("log" if log_y else "linear")
        if clipped is not None:
            margin = 0.03 * (clipped[1] - clipped[0])
            axes.set_ylim(clipped[0] - margin, clipped[1] + margin)
        axes.set_xlabel(visible(x_label))
        axes.set_ylabel(visible(y_label))
        note = f"   average over {smoothing:g} steps" if smoothing > 0 else ""
        axes.set_title(visible(title) + note, loc="left")
        axes.grid(True, which="major")
        plain_numbers(axes, log_x, log_y)
        if any(stroke.name for stroke in strokes):
            axes.legend()
        else:
            axes.text(0.5, 0.5, "" if strokes else "no numbers yet", transform=axes.transAxes, ha="center")
        save(figure, out)
    return out


def draw_attention(
    pattern: npt.NDArray[Any],
    out: str | Path,
    *,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    title: str = "",
    causal: bool = False,
    theme: Theme = "light",
) -> Path:
    """Draw one head's pattern (T, S) with its tokens: queries down, keys across; weights 0 … 1, printed if few.

    `causal` leaves masked cells blank, so that a learnt zero looks different from an imposed one.
    Raises LabError for labels that do not fit the pattern, a suffix other than .png and .svg, or an unwritable path.
    """
    out = check_path(out)
    keys = queries if keys is None else keys
    weights = np.array(pattern, np.float64)
    if weights.ndim != 2 or weights.shape != (len(queries), len(keys)):
        raise LabError(f"a pattern {weights.shape} does not fit {len(queries)} queries and {len(keys)} keys")
    if causal:
        weights[np.triu_indices(len(weights), 1, weights.shape[1])] = np.nan
    rows, columns = weights.shape
    cell = min(0.42, 16 / max(rows, columns, 1))
    size = (max(4.2, columns * cell + 2.4), max(3.4, rows * cell + 1.8))
    ground, ink, lines = GROUNDS[theme]
    with drawing(theme, size) as (figure, axes):
        from matplotlib.colors import LinearSegmentedColormap

        ramp = LinearSegmentedColormap.from_list("weights", [ground, COLOURS[theme][0], ink])
        image = axes.imshow(weights, cmap=ramp.with_extremes(bad=lines), vmin=0, vmax=1, interpolation="nearest")
        letters = max(4.0, min(9.0, cell * 21))
        for axis, tokens in ((axes.yaxis, queries), (axes.xaxis, keys)):
            stride = max(1, len(tokens) // 80 + (len(tokens) > 80))
            places = range(0, len(tokens), stride)
            axis.set_ticks(list(places), [label(tokens[place])[:24] for place in places], fontsize=letters)
        axes.xaxis.tick_top()
        axes.tick_params(axis="x", rotation=90)
        axes.tick_params(length=0)
        if max(rows, columns) <= 16:
            for (row, column), weight in np.ndenumerate(weights):
                if np.isfinite(weight) and weight >= 0.005:
                    colour = ink if weight < 0.35 else ground
                    text = f"{weight:.2f}".removeprefix("0")
                    axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=letters * 0.8)
        axes.set_title(visible(title), loc="left")
        figure.colorbar(image, ax=axes, shrink=0.7, label="weight (rows sum to 1)")
        save(figure, out)
    return out


def thin_curve(
    steps: npt.NDArray[Any], values: npt.NDArray[Any], log_x: bool, log_y: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Thin a curve to the resolution of a picture, without points that a logarithmic axis cannot show."""
    keep = np.asarray(steps) > 0 if log_x else slice(None)
    steps, values = np.asarray(steps)[keep], np.asarray(values, np.float64)[keep]
    values = np.where(
        np.isfinite(values), values.clip(-4e307, 4e307), values
    )  # matplotlib adds margins, and takes differences
    if log_y:
        values = np.where(values > 0, values, np.nan)
    return decimate(steps, values, THIN_TO, log_x=log_x)


def drawable(stroke: Stroke, log_x: bool, log_y: bool) -> bool:
    """Whether any point of a curve can be shown on these axes."""
    steps, values = np.asarray(stroke.steps), np.asarray(stroke.values, np.float64)
    fits = np.isfinite(values) & ((steps > 0) | (not log_x)) & ((values > 0) | (not log_y))
    return bool(fits.any())


def plain_numbers(axes: "Axes", log_x: bool, log_y: bool) -> None:
    """Label the axes as on the screen: plain numbers with thin spaces."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    from txlab.drawing.axis import number

    for axis, log in ((axes.xaxis, log_x), (axes.yaxis, log_y)):
        low, high = sorted(axis.get_view_interval())
        if log:
            axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, leading(value))))
            few = low > 0 and high / low < 30  # less than two decades: minor ticks need labels
            axis.set_minor_formatter(NullFormatter())
            if few:
                axis.set_minor_formatter(FuncFormatter(lambda value, _: number(value, leading(value))))
                axis.grid(True, which="minor", linewidth=0.3)
        else:
            places = [place for place in axis.get_major_locator()() if low <= place <= high]
            step = min((b - a for a, b in pairwise(places)), default=0.0)
            axis.set_major_formatter(FuncFormatter(lambda value, _, step=step: number(value, step)))


def leading(value: float) -> float:
    """Return the largest power of ten that is at most `value`; 0 if it is not positive."""
    return float(10.0 ** np.floor(np.log10(value))) if value > 0 else 0.0


@contextmanager
def drawing(theme: Theme, size: tuple[float, float]) -> Iterator[tuple["Figure", "Axes"]]:
    """Yield a figure under our own settings, whatever the user's are, without warnings about missing glyphs."""
    import matplotlib
    from matplotlib import font_manager
    from matplotlib.figure import Figure

    ground, ink, lines = GROUNDS[theme]
    logger = logging.getLogger("matplotlib")
    with DRAWING, warnings.catch_warnings(), matplotlib.rc_context():
        warnings.simplefilter("ignore")
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            matplotlib.rcdefaults()
            known = set(font_manager.get_font_names())
            matplotlib.rcParams.update(
                {
                    "text.parse_math": False,
                    "svg.hashsalt": "txlab",
                    "font.family": [font for font in FONTS if font in known] or ["sans-serif"],
                    "font.size": 10,
                    "figure.facecolor": ground,
                    "axes.facecolor": ground,
                    "savefig.facecolor": ground,
                    "text.color": ink,
                    "axes.labelcolor": ink,
                    "axes.edgecolor": lines,
                    "axes.titlesize": 11,
                    "axes.titleweight": "bold",
                    "axes.spines.top": False,
                    "axes.spines.right": False,
                    "axes.axisbelow": True,
                    "xtick.color": ink,
                    "ytick.color": ink,
                    "grid.color": lines,
                    "grid.linewidth": 0.6,
                    "lines.linewidth": 1.6,
                    "lines.solid_joinstyle": "round",
                    "legend.frameon": False,
                    "axes.unicode_minus": True,
                }
            )
            figure = Figure(figsize=size, dpi=144, layout="constrained")
            yield figure, figure.add_subplot()
        finally:
            logger.setLevel(level)


def check_path(out: str | Path) -> Path:
    out = Path(out)
    if out.suffix.lower() not in (".png", ".svg"):
        raise LabError(f"{out} is not a picture file: its name must end in .png or .svg")
    return out


def save(figure: "Figure", out: Path) -> None:
    """Write the figure to a file atomically. Raises LabError."""
    data, kind = io.BytesIO(), out.suffix.lower()[1:]
    figure.savefig(data, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(out, data.getvalue())
    except OSError as error:
        raise LabError(f"{out} cannot be written: {error.strerror}") from None
