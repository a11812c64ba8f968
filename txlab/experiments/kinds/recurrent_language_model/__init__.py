"""The kind "recurrent-language-model": a recurrent network that learns to predict the next token (MATH R1–R3), and the
schema of its scenarios. Data, samples and metrics are those of the kind "language-model", so that curves can be laid
over each other.

torch is not imported here, because validating a scenario imports its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from txlab.engine.explain import Explanation
from txlab.experiments.kinds.language_model import (
    KIND as LANGUAGE_MODEL,
)
from txlab.experiments.kinds.language_model import (
    ProbeText,
    SampleTexts,
    TextOrTask,
    TextTrain,
    explanations,
    text_row,
)
from txlab.experiments.learning.kind import GradientKind, vocabulary_of
from txlab.experiments.protocol import Frame
from txlab.experiments.recurrent_states import explain_state
from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, several

if TYPE_CHECKING:
    from txlab.engine.recurrent.language_model import RecurrentShape

CELL = Literal["rnn", "gru", "gru-mehlig", "lstm"]


class RecurrentModel(Section):
    """Layers of cells (MATH R1, R3)."""

    cell: CELL = Field("lstm", description="gru: as torch has it; gru-mehlig: the reset gate before the product")
    layers: Annotated[int, Field(ge=1, le=64)] = Field(1, description="N, cells above each other")
    width: PositiveInt = Field(128, description="H, units of a layer, and width of the embedding")
    context: Annotated[int, Field(ge=2, le=65_536)] = Field(64, description="T, steps of a training sequence")
    truncate: NonNegativeInt = Field(
        0, description="gradients go back at most so many steps (MATH R2); 0 = to the beginning of the sequence"
    )
    tied: bool = Field(True, description="W_U = W_Eᵀ")
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @property
    def reach(self) -> int:
        """The most tokens of a text that are shown; it could read any number."""
        return 256

    def shape(self, vocabulary: int) -> RecurrentShape:
        from txlab.engine.recurrent.language_model import RecurrentShape

        section = self.model_dump(exclude={"context"})
        return RecurrentShape(vocabulary=vocabulary, window=self.context, **section)


class RecurrentScenario(Scenario):
    """A recurrent network that learns to guess the next token."""

    kind: Literal["recurrent-language-model"] = "recurrent-language-model"
    data: TextOrTask = Field(default_factory=TextOrTask)
    model: RecurrentModel = Field(default_factory=RecurrentModel)
    train: TextTrain = Field(default_factory=TextTrain)
    sampling: SampleTexts = Field(default_factory=SampleTexts)
    look: ProbeText = Field(default_factory=ProbeText)

    @model_validator(mode="after")
    def there_is_an_order(self) -> Self:
        if self.data.source == "graph":
            raise ValueError('data.source = "graph" is for attention along a graph; a state goes from token to token')
        return self

    def outline(self) -> list[tuple[str, str]]:
        model, train = self.model, self.train
        cells = f"{model.cell}, {several(model.layers, 'layer')} of {several(model.width, 'unit')}"
        return [
            ("Model", cells),
            ("Text", text_row(self.data)),
            ("Training", f"{several(train.steps, 'step')} of {train.batch} × {model.context} tokens"),
        ]


class RecurrentLanguageModelKind(GradientKind):
    name = "recurrent-language-model"
    title = "Recurrent language model"
    schema = RecurrentScenario
    screen = "recurrent"
    primary_metrics = LANGUAGE_MODEL.primary_metrics
    labels = LANGUAGE_MODEL.labels
    uncompiled = "a layer of cells is one operation already"
    ungraphed = ""
    unfit = "recurrent layers, which are one operation already"

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """Decide about threads alone: cells compute in float32, and have no attention."""
        compute = scenario.compute
        fixed = {"dtype": "float32", "attention": "sdpa"}
        decided = {name: value for name, value in fixed.items() if getattr(compute, name) == "auto"}
        return super().resolve(scenario.model_copy(update={"compute": compute.model_copy(update=decided)}), say)

    def held_out(self, scenario: Any) -> str:
        return LANGUAGE_MODEL.held_out(scenario)

    def shape_of(self, scenario: RecurrentScenario) -> Any:
        data = scenario.data
        reads = data.source == "text"
        return scenario.model.shape(vocabulary_of(data.tokenizer, data.vocabulary) if reads else data.vocabulary)

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        said = explanations.explain_metric(scenario, name, step, values, facts) if isfinite(values[name]) else None
        return said or super().explain_metric(scenario, name, step, values, facts)

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        return explain_state(frame, tensor, index)


KIND = RecurrentLanguageModelKind()
