"""What a control scenario may say: which world, which learners, how many runs of each, which settings are swept.

Defaults live here. Letters in the descriptions are MATH.md's. No torch at import time.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from txlab.engine.rl.settings import TITLES, PolicyName, Rule, Settings, checked, numbers
from txlab.experiments.schema import PositiveInt, Scenario, Section, grouped, several
from txlab.experiments.tabular.world import WorldSection


def steers(rule: Rule) -> Rule:
    """All rules but those that choose no actions."""
    if rule in ("td-lambda", "value-iteration"):
        raise ValueError(f"{rule} does not steer; use kind = 'prediction' or 'planning'")
    return rule


Learning = Annotated[Rule, AfterValidator(steers)]

Share = Annotated[float, Field(ge=0, le=1)]
StepSize = Annotated[float, Field(gt=0, le=10)]
Steps = Annotated[int, Field(ge=1, le=1000)]
MOST_AGENTS = 1_000_000


class Learner(Section):
    """One learner, as rl.settings.Settings; `runs` of it learn at once, each with a table of its own."""

    rule: Learning = Field("q-learning", description="which update is made")
    label: str = Field("", max_length=40, pattern=r"^[^/]*$", description="its name in the curves; empty = the rule")
    alpha: StepSize = Field(0.5, description="α, the step size; REINFORCE: of the policy")
    beta: StepSize = Field(0.1, description="step size of REINFORCE's baseline")
    gamma: Share | None = Field(None, description="γ; left out = the world's own")
    lam: Share = Field(0.9, description="λ of the rules with traces")
    traces: Literal["accumulating", "replacing"] = Field("accumulating", description="how they grow")
    n: Steps = Field(4, description="n of n-step SARSA")
    planning: Annotated[int, Field(ge=0, le=1000)] = Field(5, description="Dyna-Q: updates from memory after each step")
    policy: PolicyName = Field("epsilon-greedy", description="how actions are chosen")
    epsilon: Share = Field(0.1, description="ε of ε-greedy")
    temperature: Annotated[float, Field(gt=0, le=1e6)] = Field(1.0, description="τ of softmax over Q")
    decay: Share = Field(1.0, description="ε, or τ, of episode n is its value · decayⁿ")
    floor: Annotated[float, Field(ge=0, le=1e6)] = Field(0.0, description="below which ε, or τ, does not fall")
    initial: Annotated[float, Field(ge=-1e6, le=1e6)] = Field(0.0, description="what every Q(s, a) is at first")

    preferences: list[float] = Field(
        default_factory=list, max_length=100, description="REINFORCE: of each action at first; none = initial for all"
    )

    @model_validator(mode="after")
    def settings_are_possible(self) -> Self:
        checked(self.settings())
        return self

    @model_validator(mode="after")
    def preferences_are_reinforce_s(self) -> Self:
        if self.preferences and not self.rule.startswith("reinforce"):
            raise ValueError(f"preferences are of reinforce and reinforce-baseline; the rule is {self.rule}")
        return self

    @model_serializer(mode="wrap")
    def said(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what was not said: TOML has no None."""
        return {key: value for key, value in serialize(self).items() if value is not None and value != []}

    @property
    def name(self) -> str:
        return self.label or self.rule

    def settings(self, **changes: float) -> Settings:
        """What the engine is told; `changes` are those of one point of a sweep."""
        told = {key: value for key, value in self if key not in ("label", "preferences")}
        return Settings(**(told | changes))


class Control(Section):
    """How much is run, and what is swept: every learner with every one of the values that are listed."""

    runs: Annotated[int, Field(ge=1, le=100_000)] = Field(100, description="seeds of each learner")
    episodes: PositiveInt = Field(500, description="episodes of each run")
    together: PositiveInt = Field(
        10,
        le=1000,
        description="episodes that a run may be ahead of the others; 1 = each waits for all after every episode",
    )
    score: PositiveInt = Field(100, description="how many of the last episodes a score is the mean return of")
    alpha: list[StepSize] = Field(default_factory=list, max_length=64, description="values of α; none = as it is")
    epsilon: list[Share] = Field(default_factory=list, max_length=64, description="values of ε")
    lam: list[Share] = Field(default_factory=list, max_length=64, description="values of λ")
    n: list[Annotated[int, Field(ge=1, le=1000)]] = Field(
        default_factory=list, max_length=64, description="values of n"
    )

    def axes(self) -> list[tuple[str, list[float]]]:
        """What is swept, by name."""
        return [(name, getattr(self, name)) for name in ("alpha", "epsilon", "lam", "n") if getattr(self, name)]

    @model_validator(mode="after")
    def values_differ(self) -> Self:
        for name, values in self.axes():
            if len(set(values)) < len(values):
                raise ValueError(f"{name} must not name a value twice; it is {values}")
        return self


def learners() -> list[Learner]:
    return [Learner(rule="sarsa"), Learner(rule="q-learning")]


class ControlScenario(Scenario):
    """Learners of a world, compared over many seeds."""

    kind: Literal["control"] = "control"
    world: WorldSection = Field(default_factory=lambda: WorldSection(name="cliff"))
    learners: list[Learner] = Field(default_factory=learners, min_length=1, max_length=8)
    control: Control = Field(default_factory=Control)

    @model_validator(mode="after")
    def names_differ(self) -> Self:
        names = [each.name for each in self.learners]
        if len(set(names)) < len(names):
            raise ValueError(f"learners need different labels; they are {', '.join(names)}")
        if self.agents() > MOST_AGENTS:
            most = grouped(MOST_AGENTS)
            raise ValueError(f"learners × settings × runs are {grouped(self.agents())} agents; allowed: at most {most}")
        return self

    def agents(self) -> int:
        points = 1
        for _, values in self.control.axes():
            points *= len(values)
        return len(self.learners) * points * self.control.runs

    def length(self) -> int:
        return self.control.episodes

    def outline(self) -> list[tuple[str, str]]:
        control = self.control
        rows = [("World", self.world.name or self.world.file or "a map of its own")]
        rows += [("Learner", told(each, [name for name, _ in control.axes()])) for each in self.learners]
        rows += [("Sweep", f"{LETTERS[name]} = {listed(values)}") for name, values in control.axes()]
        return [*rows, ("Runs", f"{several(control.runs, 'seed')} of each, {several(control.episodes, 'episode')}")]


LETTERS = {"alpha": "α", "epsilon": "ε", "lam": "λ", "temperature": "τ", "beta": "β", "n": "n", "planning": "planning"}


def listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def told(learner: Learner, swept: Sequence[str]) -> str:
    """A learner in one line, without what is swept."""
    shown = [name for name in numbers(learner.rule, learner.policy) if name not in swept]
    title = TITLES[learner.rule]
    said = [f"{LETTERS[name]} = {getattr(learner, name):g}" for name in shown]
    return ", ".join([f"{learner.label}: {title}" if learner.label else title, *said])
