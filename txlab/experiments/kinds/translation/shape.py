"""The encoder–decoder that a scenario asks for (MATH T8)."""

from __future__ import annotations

from txlab.engine.transformer.encoder_decoder import EncoderDecoderShape
from txlab.experiments.kinds.translation.data import tokenizers_for
from txlab.experiments.kinds.translation.schema import TranslationScenario


def shape_of(scenario: TranslationScenario) -> EncoderDecoderShape:
    """Its shape; its vocabularies follow from the task."""
    model = scenario.model
    source, target = tokenizers_for(scenario.data, model.shared)
    return EncoderDecoderShape(
        encoder_layers=model.encoder_layers,
        decoder_layers=model.decoder_layers,
        heads=model.heads,
        width=model.width,
        source_vocabulary=source.vocabulary,
        target_vocabulary=target.vocabulary,
        context=model.context,
        feed_forward=model.feed_forward,
        norm=model.norm,
        activation=model.activation,
        positions=model.positions,
        shared=model.shared,
        tied=model.tied,
        bias=model.bias,
        dropout=model.dropout,
    )
