"""The kind "superposition": more features than dimensions, kept in directions that are not at right angles (MATH F6,
F3; Elhage et al. 2022); the schema of its scenarios.

torch is not imported here, because validating a scenario imports its kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from txlab.engine.explain import Explanation, Operand, Step
from txlab.errors import LabError
from txlab.experiments.kind import Label
from txlab.experiments.learning import schema as learning
from txlab.experiments.learning.explanations import MeanLoss, explain_step
from txlab.experiments.protocol import Experiment, Frame
from txlab.experiments.schema import PositiveInt, Scenario, Section, several
from txlab.experiments.tabular.kind import TabularKind

KEPT = 0.5  # a feature whose vector is longer than this has a direction of its own
Sparsity = Annotated[float, Field(ge=0, lt=1)]


class Features(Section):
    """What is kept: numbers that are mostly zero, x_i uniform in 0 … 1, or 0 with probability S."""

    features: Annotated[int, Field(ge=2, le=256)] = Field(5, description="n")
    sparsities: list[Sparsity] = Field(
        [0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99],
        min_length=1,
        max_length=16,
        description="S, each for a model of its own: how often a feature is zero",
    )
    importance: Annotated[float, Field(gt=0, le=1)] = Field(
        0.9, description="r: an error in feature i = 0, 1 … counts rⁱ"
    )

    @model_validator(mode="after")
    def each_once(self) -> Self:
        if len(set(self.sparsities)) < len(self.sparsities):
            raise ValueError("each sparsity may be named once")
        return self


class Bottleneck(Section):
    """x′ = ReLU(Wᵀ W x + b), W (m, n): column i of W is the vector of feature i."""

    dimensions: Annotated[int, Field(ge=2, le=64)] = Field(2, description="m")
    restarts: Annotated[int, Field(ge=1, le=256)] = Field(
        8, description="models of each sparsity, from different first weights; the one of least loss is shown"
    )


class Train(learning.Train):
    """One Adam for all models: none of their weights is shared, so each learns as if alone."""

    steps: PositiveInt = 2000
    batch: PositiveInt = Field(1024, description="B, examples a step, the same for all models")
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 1e-2
    warmup: Annotated[int, Field(ge=0)] = Field(0, description="steps of linear warm-up")
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    clip: Annotated[float, Field(ge=0)] = Field(0.0, description="largest gradient norm, of all models; 0 = none")
    final: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="last learning rate, as a share of the peak")


class SuperpositionScenario(Scenario):
    """Features that share dimensions, the more the sparser they are."""

    kind: Literal["superposition"] = "superposition"
    data: Features = Field(default_factory=Features)
    model: Bottleneck = Field(default_factory=Bottleneck)
    train: Train = Field(default_factory=Train)

    def outline(self) -> list[tuple[str, str]]:
        data, model, train = self.data, self.model, self.train
        return [
            ("Model", f"{several(data.features, 'feature')} in {several(model.dimensions, 'dimension')} and back"),
            ("Sparsities", f"{', '.join(f'{S:g}' for S in data.sparsities)}; the best of {model.restarts} each"),
            ("Training", f"{several(train.steps, 'step')} of {several(train.batch, 'example')}"),
        ]


MEANINGS = {
    "loss": (
        "L = (1/B) Σ_b Σᵢ rⁱ (xᵢ − x′ᵢ)²,  x′ = ReLU(Wᵀ W x + b)",
        "of the best of the models of this sparsity, on examples that it does not learn from",
    ),
    "features": (f"number of i with ‖Wᵢ‖ > {KEPT}", "Wᵢ is column i of W: features that have a direction of their own"),
    "angle": (
        f"min over i ≠ j of arccos(Wᵢ·Wⱼ / ‖Wᵢ‖ ‖Wⱼ‖),  ‖Wᵢ‖, ‖Wⱼ‖ > {KEPT}",
        "90 is a cross, 72 a pentagon; 180 if there are no two",
    ),
}


class SuperpositionKind(TabularKind):
    name = "superposition"
    any_device = True
    title = "Superposition of features"
    schema = SuperpositionScenario
    screen = "figure"
    primary_metrics = ("loss",)
    units: ClassVar[Mapping[str, str]] = {"angle/": "degrees"}
    labels: ClassVar[Mapping[str, Label]] = {
        "loss/": Label("loss", unit="squared error, of each sparsity"),
        "angle/": Label("angle", "degrees, between neighbours"),
        "features/": Label("features", "with a direction of their own"),
    }

    def experiment(self, scenario: Any) -> Experiment:
        from txlab.experiments.kinds.superposition.experiment import SuperpositionExperiment
        from txlab.experiments.learning.gradient import prepare

        prepare(scenario.compute)
        return SuperpositionExperiment(scenario)

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        if not isfinite(values[name]):
            return None
        if name in ("lr", "grad_norm"):
            return explain_step(scenario, MeanLoss(), name, values, step, facts)
        metric, _, sparsity = name.partition("/")
        if metric not in MEANINGS:
            return None
        equation, note = MEANINGS[metric]
        operands = [
            Operand("n", scenario.data.features, "features"),
            Operand("m", scenario.model.dimensions, "dimensions"),
        ]
        if sparsity:
            operands.append(Operand("S", float(sparsity), "a feature is zero with this probability"))
        else:
            equation, note = "L = Σ L_model", "of all models, on the batch they learn from; they share no weights"
        return Explanation(
            question=f"why is {name} {values[name]:.4g} at step {step}?",
            equation=equation,
            math="F6, F3",
            source=f"Elhage et al. 2022: {note}",
            operands=operands,
            steps=[],
            result=values[name],
        )

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """points/S [i]: what feature i keeps of its own, and what the others put in its direction."""
        if not tensor.startswith("points/") or tensor not in frame.tensors:
            raise LabError(f"{tensor} has no explanation; allowed: {', '.join(frame.tensors)}")
        import numpy as np

        points = np.asarray(frame.tensors[tensor], dtype=np.float64)  # (n, m)
        i = int(index[0])
        length = float(np.linalg.norm(points[i]))
        onto = points @ points[i] / max(length, 1e-300)  # Ŵᵢ·Wⱼ
        others = float((onto**2).sum() - onto[i] ** 2)
        share = length**2 / max(length**2 + others, 1e-300)
        return Explanation(
            question=f"how much of a dimension has feature {i}?",
            equation="Dᵢ = ‖Wᵢ‖² / Σⱼ (Ŵᵢ · Wⱼ)²,  Ŵᵢ = Wᵢ / ‖Wᵢ‖",
            math="F6",
            source="Elhage et al. 2022, The geometry of superposition",
            operands=[Operand("Ŵᵢ · Wⱼ", onto.tolist(), "each feature, in the direction of this one")],
            steps=[
                Step("‖Wᵢ‖²", f"{length:.4g}²", length**2, "1 if it comes back as it went in"),
                Step("interference", "Σ_{j ≠ i} (Ŵᵢ · Wⱼ)²", others, "what the others look like in it"),
                Step("Dᵢ", f"{length**2:.4g} / {length**2 + others:.4g}", share, "1/2 in a pair, 2/5 in a pentagon"),
            ],
            result=share,
            labels=[str(j) for j in range(len(points))],
            asked=i,
        )


KIND = SuperpositionKind()
