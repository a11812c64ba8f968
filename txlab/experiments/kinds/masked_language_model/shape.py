"""The encoder that a scenario asks for (MATH T10)."""

from __future__ import annotations

from txlab.engine.transformer.bert import BertShape
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario

SEGMENTS = 1  # there is but one kind of text


def shape_of(scenario: MaskedLanguageModelScenario, vocabulary: int) -> BertShape:
    """Its shape; `vocabulary` with [CLS], [SEP] and [MASK]."""
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
