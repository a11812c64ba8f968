"""The scenarios of "recurrent-language-model": tables, keys, defaults, what does not fit together; without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.kinds.language_model.schema import ProbeText, SampleTexts, TextOrTask, TextTrain, text_row
from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, several

if TYPE_CHECKING:
    from txlab.engine.recurrent.language_model import RecurrentShape


CELL = Literal["rnn", "gru", "gru-mehlig", "lstm"]


class RecurrentModel(Section):
    """Layers of cells (MATH R1, R3)."""

    cell: CELL = Field("lstm", description="gru: as torch has it; gru-mehlig: the reset gate before the product")
    layers: Annotated[int, Field(ge=1, le=64)] = Field(1, description="N, stacked cells")
    width: PositiveInt = Field(128, description="H, units of a layer, and width of the embedding")
    context: Annotated[int, Field(ge=2, le=65_536)] = Field(64, description="T, steps of a training sequence")
    truncate: NonNegativeInt = Field(
        0, description="gradients go back at most this number of steps (MATH R2); 0 = to the beginning of the sequence"
    )
    tied: bool = Field(True, description="W_U = W_Eᵀ")
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @property
    def reach(self) -> int:
        """The most tokens of a text that are shown; the network itself has no limit."""
        return 256

    def shape(self, vocabulary: int) -> RecurrentShape:
        from txlab.engine.recurrent.language_model import RecurrentShape

        section = self.model_dump(exclude={"context"})
        return RecurrentShape(vocabulary=vocabulary, window=self.context, **section)


class RecurrentScenario(Scenario):
    """A recurrent network that learns to predict the next token."""

    kind: Literal["recurrent-language-model"] = "recurrent-language-model"
    data: TextOrTask = Field(default_factory=TextOrTask)
    model: RecurrentModel = Field(default_factory=RecurrentModel)
    train: TextTrain = Field(default_factory=TextTrain)
    sampling: SampleTexts = Field(default_factory=SampleTexts)
    probe: ProbeText = Field(default_factory=ProbeText)

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
