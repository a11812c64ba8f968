"""A sweep of settings as curves: the score against one axis, a curve for each value of another, the best marked.

Notable: settings that diverge are part of the result and stay in the table, but one score of 1e35 would flatten all
others: a picture ends at five times the distance from the best to the median, and reports what it left out. Error bars
are standard errors of a mean over runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.text import Text

from txlab.drawing.axis import Window
from txlab.drawing.curve import ASCII_MARKS, MARKS, Curve
from txlab.drawing.formatting import number, plain
from txlab.drawing.palette import Colours, lines
from txlab.drawing.picture import COLOURS, Theme, check_path, drawing, plain_numbers, save
from txlab.drawing.plot import ink, text_chart
from txlab.drawing.text import visible
from txlab.errors import LabError, nearest
from txlab.experiments.protocol import Frame

Value = float | str
LETTERS = {"alpha": "α", "epsilon": "ε", "lam": "λ", "n": "n", "gamma": "γ", "beta": "β"}


@dataclass(frozen=True)
class Surface:
    """axes    (name, values) each, in the order of the dimensions of `score`
    score, error   the score of every setting, and its standard error; NaN where unknown
    title      the name of the score; `low`: whether the lowest is the best
    log        the axes that are drawn logarithmically; their values are positive
    """

    axes: tuple[tuple[str, tuple[Value, ...]], ...]
    score: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]
    title: str
    low: bool
    log: frozenset[str] = frozenset()

    def best(self) -> tuple[int, ...] | None:
        """Return the index of the best setting; None if no score is known."""
        known = np.isfinite(self.score)
        if not known.any():
            return None
        worst = np.inf if self.low else -np.inf
        filled = np.where(known, self.score, worst)
        place = filled.argmin() if self.low else filled.argmax()
        return tuple(int(i) for i in np.unravel_index(place, self.score.shape))

    def at(self, axis: int, place: int) -> Surface:
        """Return the slice at a fixed value of an axis."""
        axes = self.axes[:axis] + self.axes[axis + 1 :]
        score, error = (np.asarray(values.take(place, axis)) for values in (self.score, self.error))
        return replace(self, axes=axes, score=score, error=error)

    def label_of(self, place: Sequence[int], ascii: bool = False) -> str:
        """ "sarsa, α = .5" """
        return ", ".join(
            format_setting(name, values[i], ascii)
            for (name, values), i in zip(self.axes, place, strict=True)
            if len(values) > 1
        )


def format_setting(name: str, value: Value, ascii: bool = False) -> str:
    """Format a setting: a name as it is, a number after its letter."""
    if isinstance(value, str):
        return visible(value, ascii)
    letter = visible(name, ascii) if ascii else LETTERS.get(name, visible(name))
    return f"{letter} = {value:g}"


def surface_of(frame: Frame) -> Surface:
    """Read sweep/score, sweep/error and facts["sweep"] of a frame. Raises LabError if they do not match."""
    about = frame.facts.get("sweep")
    if not isinstance(about, Mapping) or "sweep/score" not in frame.tensors:
        raise LabError("this run swept no settings; a scenario with lists of alpha, epsilon or lam does")
    try:
        axes = tuple(
            (str(name), tuple(v if isinstance(v, str) else float(v) for v in vs)) for name, vs in about["axes"]
        )
        score = np.asarray(frame.tensors["sweep/score"], np.float64)
        error = np.asarray(frame.tensors.get("sweep/error", np.zeros_like(score)), np.float64)
        shape = tuple(len(values) for _, values in axes)
    except (KeyError, TypeError, ValueError) as trouble:
        raise LabError(f"the sweep of this run cannot be read: {trouble}") from None
    if score.shape != shape or error.shape != shape or not axes or 0 in shape:
        raise LabError(f"the sweep of this run does not fit its axes: scores {score.shape}, axes {shape}")
    wanted = about.get("log")
    log = [
        name
        for name, values in axes
        if isinstance(wanted, list) and name in wanted and all(_positive(v) for v in values)
    ]
    return Surface(axes, score, error, str(about.get("score", "score")), about.get("better") == "low", frozenset(log))


def _positive(value: Value) -> bool:
    return not isinstance(value, str) and value > 0


def across(surface: Surface, wanted: str | None) -> int:
    """Return the x axis: the requested one, or the last with numbers and more than one value."""
    names = [name for name, _ in surface.axes]
    numeric = [i for i, (_, values) in enumerate(surface.axes) if not any(isinstance(value, str) for value in values)]
    if wanted is not None:
        by_letter = {LETTERS.get(name, name): i for i, name in enumerate(names)}
        if wanted not in names and wanted not in by_letter:
            raise LabError(
                f"--x {wanted!r} is not an axis of this sweep{nearest(wanted, names)}; allowed: {', '.join(names)}"
            )
        axis = names.index(wanted) if wanted in names else by_letter[wanted]
        if axis not in numeric:
            raise LabError(f"--x {wanted}: its values are names; allowed: {', '.join(names[i] for i in numeric)}")
        return axis
    several = [i for i in numeric if len(surface.axes[i][1]) > 1]
    if not (several or numeric):
        raise LabError("this sweep has no axis of numbers to draw along; --table prints it")
    return (several or numeric)[-1]


@dataclass(frozen=True)
class SweepLine:
    """One curve: x ascending, y, its standard error, and the index of its best point (−1 if nothing is known)."""

    name: str
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]
    best: int


def lines_of(surface: Surface, x: int, ascii: bool = False) -> list[SweepLine]:
    """Return a line for every combination of the other axes' values."""
    values = np.array(surface.axes[x][1], np.float64)
    order = np.argsort(values, kind="stable")
    others = [i for i in range(len(surface.axes)) if i != x]
    curves = []
    for places in product(*(range(len(surface.axes[i][1])) for i in others)):
        where: list[Any] = [slice(None)] * len(surface.axes)
        for i, place in zip(others, places, strict=True):
            where[i] = place
        y, error = surface.score[tuple(where)][order], surface.error[tuple(where)][order]
        known = np.isfinite(y)
        best = -1
        if known.any():
            best = int(np.where(known, y, np.inf).argmin() if surface.low else np.where(known, y, -np.inf).argmax())
        varying = [(i, place) for i, place in zip(others, places, strict=True) if len(surface.axes[i][1]) > 1]
        name = ", ".join(format_setting(surface.axes[i][0], surface.axes[i][1][place], ascii) for i, place in varying)
        curves.append(SweepLine(name or surface.title, values[order], y, error, best))
    return curves


def bounds(surface: Surface) -> tuple[float, float]:
    """Return the range of scores to show, from the best to five times the distance to the median."""
    known = surface.score[np.isfinite(surface.score)]
    if not len(known):
        return 0.0, 1.0
    low, high, middle = float(known.min()), float(known.max()), float(np.median(known))
    if surface.low:
        high = min(high, low + 5 * (middle - low) if middle > low else high)
    else:
        low = max(low, high - 5 * (high - middle) if middle < high else low)
    margin = 0.03 * (high - low) or 0.5
    return low - margin, high + margin


def panels(surface: Surface, x: int) -> list[tuple[str, Surface, int]]:
    """Return (title, part, its axis x), one for each value of the first other axis if there are at least two others."""
    others = [i for i, (_, values) in enumerate(surface.axes) if i != x and len(values) > 1]
    if len(others) < 2:
        return [("", surface, x)]
    first = others[0]
    name, values = surface.axes[first]
    return [(format_setting(name, value), surface.at(first, i), x - (first < x)) for i, value in enumerate(values)]


def text_sweep(
    surface: Surface, x: int, width: int, height: int, ascii: bool = False, colours: Colours = "none"
) -> list[Text]:
    """Draw the curves as characters, the best of each listed below."""
    low, high = bounds(surface)
    palette = lines(colours)
    letter = surface.axes[x][0] if ascii else LETTERS.get(surface.axes[x][0], surface.axes[x][0])
    out = [Text(visible(surface.title, ascii))]
    for title, part, axis in panels(surface, x):
        shown = lines_of(part, axis, ascii)
        if title:
            out += [Text(), Text(visible(title, ascii))]
        across_all = shown[0].x
        curves = [
            Curve(line.name, line.x, np.where((line.y >= low) & (line.y <= high), line.y, np.nan)) for line in shown
        ]
        log = surface.axes[x][0] in surface.log and across_all[0] < across_all[-1]
        window = Window(float(across_all[0]), float(across_all[-1]), low, high, log)
        if window.left == window.right:
            window = replace(window, left=window.left - 0.5, right=window.right + 0.5)
        out += text_chart(curves, width, height, ascii=ascii, colours=colours, x_label=letter, window=window)
        size = max(len(line.name) for line in shown)
        for i, line in enumerate(shown):  # with its mark, since a long legend is cut
            bare = colours == "none"
            mark = ASCII_MARKS[i % len(ASCII_MARKS)] if ascii else MARKS[i % len(MARKS)] if i and bare else "⠤"
            label = f" {visible(line.name, ascii):<{size}}  best {describe_best(line, letter, ascii)}"
            out.append(Text.assemble("  ", (mark, ink(palette[i % len(palette)])), label))
    if np.isfinite(surface.error).any():
        out.append(Text(f"{'+-' if ascii else '±'} one standard error"))
    outside = int((~((surface.score >= low) & (surface.score <= high))).sum())
    if outside:
        out.append(Text(f"{outside} of {surface.score.size} settings are outside the picture; --table has them all"))
    return out


def describe_best(line: SweepLine, letter: str, ascii: bool) -> str:
    """ "−67.5 ± .8 at α = .8" """
    if line.best < 0:
        return "unknown"
    score, error = float(line.y[line.best]), float(line.error[line.best])
    error = 0.0 if error < 1e-12 * abs(score) else error  # rounding error of equal numbers
    known = f" ± {number(error, 2)}" if np.isfinite(error) else ""  # of one run it is not
    text = f"{number(score)}{known} at {letter} = {line.x[line.best]:g}"
    return plain(text).replace("±", "+-") if ascii else text


def draw_sweep(surface: Surface, x: int, out: str | Path, *, title: str = "", theme: Theme = "light") -> Path:
    """Draw the curves with error bars to a PNG or SVG, a star at the best of all. LabError for another suffix."""
    path = check_path(out)
    low, high = bounds(surface)
    parts = panels(surface, x)
    colours = COLOURS[theme]
    with drawing(theme, (max(7.5, 4.2 * len(parts)), 5.0)) as (figure, first):
        shown = [first]
        if len(parts) > 1:
            first.remove()
            shown = list(figure.subplots(1, len(parts), sharey=True))
        top = surface.best()
        for (part_title, part, axis), axes in zip(parts, shown, strict=True):
            best = part.best()
            for i, line in enumerate(lines_of(part, axis)):
                colour, style = colours[i % len(colours)], ["-", "--", ":", "-."][i // len(colours) % 4]
                seen = np.isfinite(line.error) & (line.y >= low) & (line.y <= high)
                bars = np.where(seen, line.error, 0.0)  # the error bar of a point outside would cross the picture
                axes.errorbar(
                    line.x, line.y, yerr=bars, color=colour, linestyle=style, marker="o", markersize=3, capsize=2,
                    label=visible(line.name),
                )  # fmt: skip
                if line.best >= 0:
                    axes.plot(line.x[line.best], line.y[line.best], "o", color=colour, markersize=7, zorder=5)
            if best is not None and top is not None and part.score[best] == surface.score[top]:
                at = part.axes[axis][1][best[axis]]
                axes.plot(at, part.score[best], "*", color=colours[1], markersize=15, zorder=6)
            axes.set_ylim(low, high)
            if log := surface.axes[x][0] in surface.log:
                axes.set_xscale("log")
            axes.set_xlabel(LETTERS.get(surface.axes[x][0], visible(surface.axes[x][0])))
            axes.set_title(visible(part_title or title), loc="left")
            axes.grid(True, which="major")
            if len(parts) == 1:
                axes.legend(fontsize=8)
            plain_numbers(axes, log, False)
        known = np.isfinite(surface.error).any()  # of one run no error is
        shown[0].set_ylabel(visible(surface.title) + ", ± one standard error" * bool(known))
        if len(parts) > 1:
            figure.legend(*shown[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
        if len(parts) > 1 and title:
            figure.suptitle(visible(title), x=0.01, ha="left", weight="bold", size=11)
        save(figure, path)
    return path
