"""Which figures there are, by area. An area is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from txlab.errors import LabError, nearest
from txlab.experiments.reference_numbers.figure import Figure

AREAS: dict[str, tuple[str, ...]] = {
    "rl": ("planning", "prediction", "control", "tictactoe"),
    "transformer": ("transformer",),
    "tokenizers": ("tokenizers",),
}
"""area → modules beside this one, each with FIGURES, or with figures_in(folder) where a folder of the user's holds
what they are compared with"""


def figures(area: str | None = None, only: Sequence[str] = (), folder: Path | None = None) -> list[Figure]:
    """The figures of an area (None = of all), or those of them that `only` names; LabError names what there is."""
    if area is not None and area not in AREAS:
        raise LabError(f"{area!r} is no area{nearest(area, AREAS)}; allowed: {', '.join(AREAS)}")
    modules = [name for key, names in AREAS.items() if area in (None, key) for name in names]
    found: list[Figure] = []
    for name in modules:
        module = import_module(f"txlab.experiments.reference_numbers.{name}")
        found += module.figures_in(folder) if hasattr(module, "figures_in") else module.FIGURES
    for name in only:
        if name not in {each.name for each in found}:
            names = [each.name for each in found]
            raise LabError(f"{name!r} is no figure{nearest(name, names)}; allowed: {', '.join(names)}")
    return [each for each in found if not only or each.name in only]
