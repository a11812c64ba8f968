"""The scenarios of "recurrent-translation": tables, keys, defaults, and what does not fit together; without torch.

Letters are those of `txlab formulas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from txlab.experiments.kinds.memory.schema import CellName
from txlab.experiments.kinds.translation.schema import PairTask, PairTrain, ProbePair, Translations, outline
from txlab.experiments.schema import PositiveInt, Scenario, Section, several

if TYPE_CHECKING:
    import torch

    from txlab.engine.recurrent.translation import RecurrentTranslator, RecurrentTranslatorShape


class RecurrentModel(Section):
    """The shape of encoder and decoder (MATH R4)."""

    cell: CellName = "gru"
    layers: PositiveInt = Field(1, description="N, of the encoder and of the decoder")
    width: PositiveInt = Field(128, description="H: embeddings, each direction of the encoder, the decoder's state")
    attention: Literal["additive", "dot"] = Field(
        "additive",
        description="score of a place: vᵀ tanh(W s + U m) (Bahdanau et al. 2015), or s · U m / √H (Luong et al.)",
    )
    context: Annotated[int, Field(ge=2, le=65_536)] = Field(32, description="most positions of a source and a target")
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @property
    def shared(self) -> bool:
        """Source and target have separate tables."""
        return False


class RecurrentTranslationScenario(Scenario):
    """Recurrent cells that learn to translate."""

    kind: Literal["recurrent-translation"] = "recurrent-translation"
    data: PairTask = Field(default_factory=PairTask)
    model: RecurrentModel = Field(default_factory=RecurrentModel)
    train: PairTrain = Field(default_factory=lambda: PairTrain(steps=500))
    sampling: Translations = Field(default_factory=Translations)
    probe: ProbePair = Field(default_factory=ProbePair)

    def shape(self) -> RecurrentTranslatorShape:
        """The model's shape; its vocabularies follow from the task."""
        from txlab.engine.recurrent.translation import RecurrentTranslatorShape
        from txlab.experiments.kinds.translation.tokens import tokenizers_for

        source, target = (each.vocabulary for each in tokenizers_for(self.data.task, self.model.shared))
        return RecurrentTranslatorShape(source_vocabulary=source, target_vocabulary=target, **self.model.model_dump())

    def network(self, generator: torch.Generator | None = None) -> RecurrentTranslator:
        """A model of this shape with its weights drawn."""
        from txlab.engine.recurrent.translation import RecurrentTranslator

        return RecurrentTranslator(self.shape(), generator)

    def outline(self) -> list[tuple[str, str]]:
        model = self.model
        layers = f"{model.cell}, {several(model.layers, 'layer')} of {several(model.width, 'unit')}"
        return outline(f"{layers}, {model.attention} attention", self.data, self.train)
