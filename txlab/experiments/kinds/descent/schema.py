"""The scenarios of "descent": tables, keys, defaults, and what does not fit together; without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from txlab.errors import LabError
from txlab.experiments.schema import PositiveInt, Scenario, Section, several

if TYPE_CHECKING:
    from txlab.engine.descent.methods import Settings


MethodName = Literal["newton-root", "newton-minimum", "sign", "gradient", "momentum", "adam", "sgd"]
F = "x**2 - 2"


class FunctionSection(Section):
    """The function and its region."""

    f: str = Field(F, max_length=200, description="the function, of x or of x and y, as x**2 - 2 or sin(x)*y")
    start: list[Annotated[float, Field(ge=-1e8, le=1e8)]] = Field(
        default_factory=lambda: [1.0], min_length=1, max_length=2, description="where all methods begin: [x] or [x, y]"
    )

    @field_validator("f")
    @classmethod
    def is_a_formula(cls, text: str) -> str:
        from txlab.engine.descent.expressions import expression

        try:
            expression(text)
        except LabError as error:
            raise ValueError(str(error)) from None
        return text

    @model_validator(mode="after")
    def start_fits(self) -> Self:
        from txlab.engine.descent.expressions import expression

        if "y" in expression(self.f).variables and len(self.start) < 2:
            raise ValueError("f is of x and y, so start has two numbers, [x, y]")
        return self


class DataSection(Section):
    """Points near a line. If there are any, f is the mean squared error of the line v = w u + b, x is w, and y is b."""

    points: Annotated[int, Field(ge=0, le=10_000)] = Field(0, description="how many, instead of function.f; 0 = none")
    slope: Annotated[float, Field(ge=-1e3, le=1e3)] = Field(1.5, description="slope w of their true line")
    intercept: Annotated[float, Field(ge=-1e3, le=1e3)] = Field(-0.5, description="intercept b of that line")
    noise: Annotated[float, Field(ge=0, le=1e3)] = Field(0.5, description="standard deviation of v from it")


class MethodSection(Section):
    """One method; fields that its rule has no letter for are not used."""

    method: MethodName = Field("gradient", description="how the next point is found; sgd: one of the data at a time")
    label: str = Field("", max_length=40, pattern=r"^[^/]*$", description="its name in the curves; empty = the method")
    rate: Annotated[float, Field(ge=0, le=1e6)] = Field(0.1, description="γ, of descent")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="μ")
    beta1: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="β₁ of Adam")
    beta2: Annotated[float, Field(ge=0, lt=1)] = Field(0.999, description="β₂ of Adam")
    epsilon: Annotated[float, Field(gt=0, le=1)] = Field(1e-8, description="ε of Adam")
    noise: Annotated[float, Field(ge=0, le=1e6)] = Field(0.0, description="deviation of the noise on the gradient")
    anywhere: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0,
        description="newton-minimum: 1 = it goes on where f is not convex, also to a maximum or a saddle",
    )

    @property
    def name(self) -> str:
        return self.label or self.method

    def settings(self) -> Settings:
        from txlab.engine.descent.methods import Settings

        return Settings(self.rate, self.momentum, self.beta1, self.beta2, self.epsilon, self.anywhere)


class DescentSection(Section):
    """When it ends."""

    steps: PositiveInt = Field(100, le=1_000_000, description="maximum steps of each method")
    tolerance: Annotated[float, Field(ge=0, le=1)] = Field(
        1e-12, description="a method has converged when a step is shorter than this"
    )


def methods() -> list[MethodSection]:
    return [MethodSection(method="newton-root")]


class DescentScenario(Scenario):
    """Methods side by side on one function, or on the error of a line."""

    kind: Literal["descent"] = "descent"
    function: FunctionSection = Field(default_factory=FunctionSection)
    data: DataSection = Field(default_factory=DataSection)
    methods: list[MethodSection] = Field(default_factory=methods, min_length=1, max_length=8)
    descent: DescentSection = Field(default_factory=DescentSection)

    @model_validator(mode="after")
    def methods_fit(self) -> Self:
        names, used = [each.name for each in self.methods], {each.method for each in self.methods}
        if len(set(names)) < len(names):
            raise ValueError(f"methods need different labels; they are {', '.join(names)}")
        if self.data.points and self.function.f != F:
            raise ValueError("the objective is either function.f or [data], not both")
        if self.data.points == 1:
            raise ValueError("data.points: a line needs two points at least; 0 = no data")
        if self.data.points and len(self.function.start) < 2:
            raise ValueError("a line has a slope and an intercept, so function.start has two numbers, [w, b]")
        if not self.data.points and "sgd" in used:
            raise ValueError("sgd draws from data; without data.points, noise in the gradient is nearest to it")
        if len(self.function.start) > 1 and "newton-root" in used:
            raise ValueError("newton-root is for functions of x alone; newton-minimum is for x and y too")
        return self

    @property
    def names(self) -> str:
        """The names of the coordinates."""
        return "wb" if self.data.points else "xy"

    @property
    def told(self) -> str:
        """f, as it is written."""
        return "mean of (w·u + b − v)²" if self.data.points else self.function.f

    def length(self) -> int:
        return self.descent.steps

    def outline(self) -> list[tuple[str, str]]:
        start = ", ".join(f"{each:g}" for each in self.function.start)
        rows = [("Function", f"f = {self.told}")]
        if self.data.points:
            line = f"v = {self.data.slope:g} u {'−' if self.data.intercept < 0 else '+'} {abs(self.data.intercept):g}"
            rows += [("Data", f"{several(self.data.points, 'point')} about {line}, noise {self.data.noise:g}")]
        rows += [("Start", start)]
        rows += [
            ("Method", f"{each.name}{f', γ = {each.rate:g}' if uses_rate(each.method) else ''}")
            for each in self.methods
        ]
        return [*rows, ("Steps", f"at most {several(self.descent.steps, 'step')}")]


def uses_rate(method: str) -> bool:
    return not method.startswith("newton")
