"""The decoder that a scenario asks for (MATH T9)."""

from __future__ import annotations

from txlab.engine.transformer.gpt import GPTShape
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario


def shape_of(scenario: LanguageModelScenario, vocabulary: int) -> GPTShape:
    """Its shape, once the tokenizer has said how many tokens there are."""
    model = scenario.model
    return GPTShape(
        layers=model.layers,
        heads=model.heads,
        width=model.width,
        feed_forward=model.feed_forward,
        context=model.context,
        vocabulary=vocabulary,
        positions=model.positions,
        norm=model.norm,
        normalisation=model.normalisation,
        gated=model.gated,
        kv_heads=model.kv_heads,
        block=model.block,
        activation=model.activation,
        tied=model.tied,
        bias=model.bias,
        dropout=model.dropout,
        one_hot=model.embedding == "one-hot",
        edges=model.edges,
    )
