"""What is timed to decide how an image classification is computed: a model of its shape, on images of its own kind.

Notable: the images of an update are made on the CPU before each step, and that is part of what is timed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from txlab.engine.transformer.vision import VisionTransformer
from txlab.experiments.kinds.image_classification.loss import summed_loss
from txlab.experiments.kinds.image_classification.schema import ImageScenario
from txlab.experiments.kinds.image_classification.shape import shape_of
from txlab.experiments.kinds.image_classification.shapes import as_tensors, draw
from txlab.experiments.learning.timing import Trial, fitting


def trial_of(scenario: ImageScenario) -> Trial[VisionTransformer]:
    """A step of this scenario, made smaller where it would take too long."""
    train = scenario.train
    shape, batch, part, scale = fitting(
        shape_of(scenario), train.batch // train.accumulate, train.steps * train.accumulate
    )

    def images() -> tuple[Tensor, Tensor]:
        return as_tensors(draw(scenario.data, batch, scenario.seed, "trial", 0), torch.device("cpu"))

    return Trial(
        lambda generator: VisionTransformer(shape, generator),
        train,
        summed_loss,
        images,
        batch,
        scenario.model.dropout,
        part,
        scale,
    )
