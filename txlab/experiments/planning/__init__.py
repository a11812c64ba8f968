"""The experiment "planning": dynamic programming in a world that is known, sweep by sweep (MATH M1, M2).

Notable: NumPy alone, so nothing here or below imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from txlab.errors import LabError
from txlab.experiments.planning.schema import PlanningScenario

if TYPE_CHECKING:
    from txlab.experiments.planning.experiment import PlanningExperiment


def resolve(scenario: PlanningScenario, say: Callable[[str], None] = lambda text: None) -> PlanningScenario:
    """The same scenario with [compute] as it is for NumPy, on one thread, and the text of a map's file in its place.

    LabError for another device than the CPU.
    """
    from txlab.experiments.decisions.world import settled as with_its_map

    compute = scenario.compute
    if compute.device not in ("auto", "cpu"):
        raise LabError(f"compute.device = {compute.device!r}: planning is computed on the CPU; allowed: auto, cpu")
    # What the rest of [compute] decides is for networks; a value for each, so that nothing is left open.
    settled = {"dtype": "float32", "attention": "matmul", "share": "operations", "compile": False}
    chosen = {name: value for name, value in settled.items() if getattr(compute, name) == "auto"}
    compute = compute.model_copy(update={"device": "cpu", "threads": compute.threads or 1, **chosen})
    return scenario.model_copy(update={"compute": compute, "world": with_its_map(scenario.world)})


def build(scenario: PlanningScenario) -> PlanningExperiment:
    """The experiment at its first step. LabError where the world or the plan cannot be."""
    from txlab.experiments.planning.experiment import PlanningExperiment

    return PlanningExperiment(resolve(scenario))
