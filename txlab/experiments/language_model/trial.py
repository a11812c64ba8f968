"""What is timed to decide how a language model is computed: a decoder of its shape, on tokens drawn at random."""

from __future__ import annotations

import torch

from txlab.engine.transformer.gpt import GPT
from txlab.experiments.language_model.loss import summed_loss
from txlab.experiments.language_model.schema import LanguageModelScenario
from txlab.experiments.language_model.shape import shape_of
from txlab.experiments.learning.probe import Trial, fitting

MOST = 4096  # tokens: more would take long to make, and to multiply with


def trial_of(scenario: LanguageModelScenario) -> Trial[GPT]:
    """A step of this scenario, made smaller where it would take too long."""
    data, train = scenario.data, scenario.train
    vocabulary = {"bytes": 256, "characters": 128}.get(data.tokenizer, data.vocabulary)
    if data.source != "text":
        vocabulary = data.vocabulary
    whole = shape_of(scenario, min(vocabulary, MOST))
    shape, batch, part, scale = fitting(whole, train.batch // train.accumulate)
    ids = torch.randint(shape.vocabulary, (batch, shape.context), generator=torch.Generator().manual_seed(0))
    return Trial(
        lambda generator: GPT(shape, generator),
        train,
        summed_loss,
        lambda: (ids, ids),
        batch,
        scenario.model.dropout,
        part,
        scale,
    )
