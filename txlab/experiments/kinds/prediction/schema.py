"""The scenarios of "prediction": tables, keys, defaults, and what does not fit together; without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from txlab.engine.rl.prediction import METHODS
from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, several
from txlab.experiments.tabular.world import WorldSection, world_row

if TYPE_CHECKING:
    pass


OnPolicy = Literal[
    "accumulating",
    "replacing",
    "true-online",
    "td-0",
    "offline-lambda-return",
    "offline-sum",
    "n-step-td",
    "monte-carlo",
    "monte-carlo-first",
    "network",
]
OffPolicy = Literal["semi-gradient-dp", "semi-gradient-td", "tdc", "gtd2"]
Method = OnPolicy | OffPolicy
OFF_POLICY: tuple[OffPolicy, ...] = get_args(OffPolicy)
LETTERS = {"lam": "λ", "n": "n"}
KINDS: dict[str, Literal["accumulating", "replacing", "true-online"]] = {
    "accumulating": "accumulating",
    "replacing": "replacing",
    "true-online": "true-online",
    "td-0": "accumulating",
}
MOST_CURVES = 12  # a grid of at most this size is drawn whole; of a larger one, the best of each method
Lambda = Annotated[float, Field(ge=0, le=1)]
Steps = Annotated[int, Field(ge=1, le=10_000)]
Alpha = Annotated[float, Field(ge=0, le=100)]


def depth_of(method: str) -> Literal["lam", "n", ""]:
    """The setting that determines how far a method looks ahead, or propagates an error back; "" = none."""
    if method in OFF_POLICY:
        return ""
    return METHODS[method].depth if method in METHODS else "lam"


class PredictSection(Section):
    """The learners: every method with every λ and α, from the same episodes."""

    methods: list[Method] = Field(default_factory=list, max_length=13, description="rules that go through the grid")
    lam: list[Lambda] = Field([0.8], min_length=1, max_length=100, description="λ of the grid")
    n: list[Steps] = Field([1], min_length=1, max_length=100, description="n of n-step TD, instead of λ")
    alpha: list[Alpha] = Field([0.1], min_length=1, max_length=200, description="α of the grid")
    runs: Annotated[int, Field(ge=1, le=100_000)] = Field(100, description="M, number of independent runs")
    episodes: PositiveInt = Field(10, description="episodes of a run; sweeps or steps of the off-policy rules")
    initial: float = Field(0.0, ge=-1e6, le=1e6, description="initial value of every state")
    features: Literal["tabular", "aggregated", "radial", "tiled"] = Field(
        "tabular", description="the linear unit's features of a state"
    )
    size: NonNegativeInt = Field(0, le=10_000, description="groups, bumps or tiles; 0 = a third of the states")
    tilings: PositiveInt = Field(4, le=64, description="tiled: ways to cut")
    hidden: NonNegativeInt = Field(16, le=1024, description="network: hidden units; 0 = linear")
    score: Literal["mean", "last"] = Field("mean", description="a setting's score: its mean error, or the last")
    watch: bool = Field(False, description="one run in which a step is one transition, to watch the traces")
    beta: Alpha = Field(0.05, description="β, the second step size of tdc and gtd2")


class CurveSection(Section):
    """One method with its λ and α that is drawn; it is learnt whether it is in the grid or not."""

    method: Method
    lam: Lambda = 0.0
    n: Steps = 1
    alpha: Alpha = 0.1
    label: str = Field("", max_length=40, description="its name on the chart; empty = made of the settings")

    @property
    def depth(self) -> float:
        """λ or n of methods that have one; else 0."""
        name = depth_of(self.method)
        return getattr(self, name) if name else 0.0

    @property
    def name(self) -> str:
        letter = {"lam": " λ=", "n": " n=", "": ""}[depth_of(self.method)]
        return self.label or f"{self.method}{letter}{f'{self.depth:g}' if letter else ''} α={self.alpha:g}"


class PredictionScenario(Scenario):
    """State values under the uniform policy, learnt from episodes."""

    kind: Literal["prediction"] = "prediction"
    world: WorldSection = Field(default_factory=lambda: WorldSection(name="walk-19"))
    predict: PredictSection = Field(default_factory=PredictSection)
    curves: list[CurveSection] = Field(default_factory=list, max_length=40)

    @property
    def methods(self) -> list[Method]:
        """The methods of the grid, then those of the curves, without duplicates."""
        return list(dict.fromkeys([*self.predict.methods, *(curve.method for curve in self.curves)]))

    @property
    def off_policy(self) -> bool:
        return any(method in OFF_POLICY for method in self.methods)

    def curves_to_draw(self) -> list[CurveSection]:
        """The curves; if there are none, the whole grid if it is small, else nothing."""
        if self.curves:
            return self.curves
        curves = []
        for method in self.predict.methods:
            depth = depth_of(method)
            deep: list[dict[str, Any]] = [{depth: each} for each in getattr(self.predict, depth)] if depth else [{}]
            curves += [
                CurveSection(method=method, **each, alpha=alpha) for each in deep for alpha in self.predict.alpha
            ]
        return curves if len(curves) <= MOST_CURVES else []

    @property
    def axis(self) -> Literal["lam", "n"]:
        """The axis of the grid other than α."""
        return "n" if any(depth_of(method) == "n" for method in self.predict.methods) else "lam"

    @model_validator(mode="after")
    def there_is_something_to_learn(self) -> Self:
        predict, methods = self.predict, self.methods
        if not methods:
            raise ValueError("predict.methods or [[curves]] must name a method; there is none")
        for key in ("methods", "lam", "n", "alpha"):
            given = getattr(predict, key)
            if len(set(given)) < len(given):
                raise ValueError(f"predict.{key} must not name one twice; it is {given}")
        other = [method for method in predict.methods if depth_of(method) not in (self.axis, "")]
        if other:
            raise ValueError(f"predict.methods: {other[0]} has λ where n-step-td has n; a grid has one of them")
        names = [curve.name for curve in self.curves_to_draw()]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"[[curves]] must have different names; {twice!r} occurs twice")
        mixed = [method for method in methods if method not in OFF_POLICY] if self.off_policy else []
        if mixed:
            raise ValueError(f"{mixed[0]} cannot be combined with {', '.join(OFF_POLICY)}, which sweep over the states")
        if self.off_policy and (self.world.name != "baird" or predict.features != "tabular"):
            raise ValueError(f"{methods[0]} runs in world.name = 'baird' with the features that this world has")
        if not self.off_policy and self.world.name == "baird":
            raise ValueError(f"world.name = 'baird' has no episodes; its methods are {', '.join(OFF_POLICY)}")
        if self.off_policy or predict.watch:
            if not self.curves_to_draw():
                raise ValueError(f"here all is drawn, so there can be {MOST_CURVES} settings at most")
            offline = [method for method in methods if method not in (*KINDS, *OFF_POLICY)]
            if offline:
                raise ValueError(f"predict.watch: {offline[0]} does not learn at every step, as {', '.join(KINDS)} do")
        return self

    def length(self) -> int:
        return self.predict.episodes

    def outline(self) -> list[tuple[str, str]]:
        predict = self.predict
        deep = len(getattr(predict, self.axis))
        grid = len(predict.methods) * deep * len(predict.alpha)
        what = f"{several(len(self.methods), 'method')}: {', '.join(self.methods)}"
        rows = [world_row(self.world), ("Methods", what)]
        if self.off_policy:
            return [*rows, ("Length", several(predict.episodes, "sweep"))]
        if predict.watch:
            return [*rows, ("Length", f"{several(predict.episodes, 'step')} of one run")]
        if predict.methods:
            axes = f"{deep} {LETTERS[self.axis]} × {len(predict.alpha)} α"
            rows.append(("Grid", f"{several(grid, 'setting')}, {axes} a method"))
        return [*rows, ("Length", f"{several(predict.runs, 'run')} of {several(predict.episodes, 'episode')}")]
