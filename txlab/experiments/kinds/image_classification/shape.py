"""The vision transformer that a scenario asks for (MATH T14)."""

from __future__ import annotations

from txlab.engine.transformer.vision import VisionShape
from txlab.experiments.kinds.image_classification.schema import ImageScenario


def shape_of(scenario: ImageScenario) -> VisionShape:
    """Its shape; it has as many classes as there are shapes to be named."""
    model = scenario.model
    return VisionShape(
        layers=model.layers,
        heads=model.heads,
        width=model.width,
        image=scenario.data.image,
        patch=model.patch,
        classes=len(scenario.data.shapes),
        feed_forward=model.feed_forward,
        pooling=model.pooling,
        activation=model.activation,
        dropout=model.dropout,
    )
