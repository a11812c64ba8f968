"""Reference numbers, their sources, and our measurements against them, as printed by `txlab verify`.

A file's area is the beginning of its name ("rl_planning" is of rl), and it is imported only when its area is requested.
It has FIGURES, or figures_in(folder) if the references are in a folder of the user's. Notable: an exact number holds if
it is the same to the digits of the reference. A simulated one holds within three standard errors, those of the
reference and of the measurement added in quadrature, never within an arbitrary margin. A claim is a sentence about the
outcome of learning; the number of seeds for which it is true is measured, and it holds if that is all of them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import hypot, isfinite, sqrt, trunc
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from txlab.errors import LabError, choices
from txlab.plugins import plugins

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Say = Callable[[str], None]
Provenance = Literal["printed", "derived", "computed here", "claimed"]


@dataclass(frozen=True)
class Measured:
    """`error` is the standard error of `value`; 0 = computed exactly. `runs` is how many were simulated.

    remark  further measurements, as lines shown below the figure
    """

    value: float
    error: float = 0.0
    runs: int = 0
    remark: str = ""


@dataclass(frozen=True)
class Number:
    """label           e.g. "V(0,1) after 3 sweeps"
    value, digits   of the reference, and its number of digits after the point; −1 = tens
    provenance      the origin of the reference value: see `printed`, `derived`, `computed`, `claimed`, which set it
    error, runs     standard error of a simulated reference value, and the number of runs
    cut             printed with further digits cut off, not rounded
    """

    label: str
    value: float
    digits: int
    provenance: Provenance
    error: float = 0.0
    runs: int = 0
    cut: bool = False

    def holds(self, measured: Measured) -> bool:
        """Equal to the digits of the reference (exact), or within three standard errors and half a last digit."""
        if not isfinite(measured.value):
            return False
        unit = 10.0**-self.digits
        if self.cut:
            return trunc(measured.value / unit * (1 + 1e-12)) == round(self.value / unit)
        spread = 3 * hypot(measured.error, self.error)
        return abs(measured.value - self.value) <= spread + unit / 2 * (1 + 1e-9)


def printed(label: str, value: float, digits: int, cut: bool = False) -> Number:
    """A number printed in the figure's source, with the digits printed there."""
    return Number(label, value, digits, "printed", cut=cut)


def derived(label: str, value: float, digits: int) -> Number:
    """A number that follows exactly from the definitions in the figure's source, even if it is not printed there."""
    return Number(label, value, digits, "derived")


def computed(label: str, value: float, digits: int, error: float, runs: int) -> Number:
    """The mean of `runs` simulated by this project with a program independent of the engine, and its standard error."""
    return Number(label, value, digits, "computed here", error, runs)


def claimed(sentence: str, seeds: int) -> Number:
    """A claim of this project: how many of the seeds the sentence is true for; it holds if for all of them."""
    return Number(sentence, seeds, 0, "claimed")


@dataclass(frozen=True)
class Figure:
    """name     short, for --only: "cliff"
    title    the computation or simulation, with its settings
    source   e.g. "Sutton and Barto 2018, figure 3.2", which prints the numbers, or whose definition they follow from
    numbers  in the order in which `measure` returns them
    measure  computes them, and reports progress to `say`, as it may take a minute; `seconds` is about how long
    needs    what the user must provide before it can be measured; "" = nothing
    """

    name: str
    title: str
    source: str
    numbers: Sequence[Number]
    measure: Callable[[Say], Sequence[Measured]]
    seconds: float = 1.0
    needs: str = ""


Measure = Callable[[Say], Sequence[Measured]]


class Figures(list[Figure]):
    """The figures of a file, in order. `measured_by(name, title, source, numbers)` decorates the measuring function."""

    def measured_by(
        self, name: str, title: str, source: str, numbers: Sequence[Number], seconds: float = 1.0
    ) -> Callable[[Measure], Measure]:
        def add(measure: Measure) -> Measure:
            self.append(Figure(name, title, source, numbers, measure, seconds))
            return measure

        return add


def exactly(values: Iterable[float]) -> list[Measured]:
    """Numbers that were computed exactly."""
    return [Measured(float(value)) for value in values]


def mean_of(values: NDArray[np.float64]) -> Measured:
    """The mean of one number per run, and its standard error s/√n; 0 where the runs differ by rounding alone."""
    spread = float(values.std(ddof=1))
    return Measured(float(values.mean()), 0.0 if spread < 1e-12 else spread / sqrt(len(values)), len(values))


AREAS: dict[str, list[str]] = {}
"""area → full names of its modules: in this folder, and of other packages by entry points of `txlab.figures`"""
for _module in pkgutil.iter_modules(__path__):
    AREAS.setdefault(_module.name.partition("_")[0], []).append(f"{__name__}.{_module.name}")
for _point in plugins("txlab.figures").values():
    AREAS.setdefault(_point.name, []).append(_point.value)


def figures(area: str | None = None, only: Sequence[str] = (), folder: Path | None = None) -> list[Figure]:
    """The figures of an area (None = all), or those of them named by `only`. LabError lists the known names."""
    if area is not None and area not in AREAS:
        raise LabError(f"{area!r} is not an area{choices(area, AREAS)}")
    chosen: list[Figure] = []
    for name in (name for key, names in AREAS.items() if area in (None, key) for name in names):
        module = import_module(name)
        chosen += module.figures_in(folder) if hasattr(module, "figures_in") else module.FIGURES
    names = [each.name for each in chosen]
    for name in only:
        if name not in names:
            raise LabError(f"{name!r} is not a figure{choices(name, names)}")
    return [each for each in chosen if not only or each.name in only]
