"""Decides what is "auto" in [compute], by what a decoder of the same shape takes on this machine.

Notable: nothing of its own is timed. A step of the two differs by the mask and by a map before the logits, so dtype,
kernel and threads that are best for one are for the other. torch's compiler is used only when asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from txlab.engine.transformer.bert import BertShape
from txlab.experiments.language_model import probe as of_decoder
from txlab.experiments.language_model.schema import LanguageModelScenario
from txlab.experiments.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.masked_language_model.tokens import SPECIAL

SEGMENTS = 1  # there is but one kind of text


def shape_of(scenario: MaskedLanguageModelScenario, vocabulary: int) -> BertShape:
    """The model that a scenario asks for; `vocabulary` with [CLS], [SEP] and [MASK]."""
    model = scenario.model
    return BertShape(
        layers=model.layers,
        heads=model.heads,
        width=model.width,
        feed_forward=model.feed_forward,
        context=model.context,
        vocabulary=vocabulary,
        segments=SEGMENTS,
        activation=model.activation,
        norm=model.norm,
        dropout=model.dropout,
        tied=model.tied,
    )


def as_decoder(scenario: MaskedLanguageModelScenario) -> LanguageModelScenario:
    """A language model whose step takes as long."""
    data, model = scenario.data, scenario.model
    compile_it = scenario.compute.compile is True
    return LanguageModelScenario.model_validate(
        {
            "data": {"tokenizer": data.tokenizer, "vocabulary": min(data.vocabulary + len(SPECIAL), 200_000)},
            "model": {name: getattr(model, name) for name in type(model).model_fields},
            "train": scenario.train.model_dump(),
            "compute": scenario.compute.model_dump() | {"compile": compile_it},
        }
    )


def resolve(
    scenario: MaskedLanguageModelScenario, say: Callable[[str], None] = lambda text: None
) -> MaskedLanguageModelScenario:
    """The same scenario with all of [compute] decided. LabError for a device that is not here."""
    return scenario.model_copy(update={"compute": of_decoder.resolve(as_decoder(scenario), say).compute})


def reasons(scenario: MaskedLanguageModelScenario) -> list[str]:
    """One sentence a decision; empty where nothing was measured in this process."""
    return of_decoder.reasons(as_decoder(scenario))
