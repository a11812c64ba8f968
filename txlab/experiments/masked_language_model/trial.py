"""What is timed to decide how a masked language model is computed: an encoder of its shape, on random tokens.

Notable: every token is to be guessed, since that many logits are computed however few of them are asked for.
"""

from __future__ import annotations

import torch

from txlab.engine.transformer.bert import Bert
from txlab.experiments.language_model.trial import MOST
from txlab.experiments.learning.probe import Trial, fitting
from txlab.experiments.masked_language_model.loss import summed_loss
from txlab.experiments.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.masked_language_model.shape import shape_of
from txlab.experiments.masked_language_model.tokens import SPECIAL


def trial_of(scenario: MaskedLanguageModelScenario) -> Trial[Bert]:
    """A step of this scenario, made smaller where it would take too long."""
    data, train = scenario.data, scenario.train
    vocabulary = {"bytes": 256, "characters": 128}.get(data.tokenizer, data.vocabulary)
    whole = shape_of(scenario, min(vocabulary, MOST) + len(SPECIAL))
    shape, batch, part, scale = fitting(whole, train.batch // train.accumulate)
    ids = torch.randint(shape.vocabulary, (batch, shape.context), generator=torch.Generator().manual_seed(0))
    return Trial(
        lambda generator: Bert(shape, generator),
        train,
        summed_loss,
        lambda: (ids, ids),
        batch,
        scenario.model.dropout,
        part,
        scale,
    )
