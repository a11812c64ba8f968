"""What a planning scenario may say: which world, and how its values are computed.

Defaults live here. Letters in the descriptions are MATH.md's. No torch at import time.
"""

from typing import Annotated, Literal

from pydantic import Field

from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, several
from txlab.experiments.tabular.world import WorldSection

Method = Literal["evaluation", "value-iteration", "policy-iteration"]

TITLES: dict[Method, str] = {
    "evaluation": "policy evaluation",
    "value-iteration": "value iteration",
    "policy-iteration": "policy iteration",
}


class Plan(Section):
    """How the values are computed (MATH M1, M2)."""

    method: Method = Field("value-iteration", description="evaluation, value-iteration or policy-iteration")
    sweep: Literal["synchronous", "in-place", "prioritised"] = Field(
        "synchronous",
        description="all states from the old values; one after another from the newest; or always the one next that "
        "is furthest from its backup",
    )
    policy: str = Field(
        "even",
        min_length=1,
        max_length=60,
        description="what is evaluated, or what policy iteration begins with: even, optimal, or an action of the world",
    )
    epsilon: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0,
        description="ε, the share of all choices that is left to chance; best is then the best ε-soft policy",
    )
    evaluation_sweeps: NonNegativeInt = Field(
        0, description="sweeps between two improvements of policy iteration; 0 = until the tolerance is met"
    )
    tolerance: Annotated[float, Field(ge=0, le=1e6)] = Field(
        1e-6, description="it is done when a sweep changes no value by more than this"
    )
    sweeps: PositiveInt = Field(10_000, description="most sweeps; the run ends before where it is done before")


class PlanningScenario(Scenario):
    """Values and policies computed in a world whose probabilities and rewards are known."""

    kind: Literal["planning"] = "planning"
    world: WorldSection = Field(default_factory=lambda: WorldSection(name="gridworld"))
    plan: Plan = Field(default_factory=Plan)

    def length(self) -> int:
        return self.plan.sweeps

    def outline(self) -> list[tuple[str, str]]:
        plan = self.plan
        how = f"{TITLES[plan.method]}, {plan.sweep} sweeps"
        if plan.method != "value-iteration":
            how += f", {'of' if plan.method == 'evaluation' else 'from'} the policy “{plan.policy}”"
        return [
            ("World", self.world.name or self.world.file or "a map of its own"),
            ("Plan", how + (f", ε = {plan.epsilon:g}" if plan.epsilon else "")),
            ("Until", f"no value changes by more than {plan.tolerance:g}, at most {several(plan.sweeps, 'sweep')}"),
        ]
