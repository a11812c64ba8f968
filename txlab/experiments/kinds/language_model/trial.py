"""What is timed to decide how a language model is computed: a decoder of its shape, on tokens drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from txlab.engine.transformer.bert import BertShape
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.experiments.kinds.language_model.loss import summed_loss
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.kinds.language_model.scoring import Loss
from txlab.experiments.kinds.language_model.shape import shape_of
from txlab.experiments.learning.schema import Train
from txlab.experiments.learning.timing import Trial, fitting
from txlab.experiments.learning.weights import Model

TextShape = TypeVar("TextShape", GPTShape, BertShape)
MOST = 4096  # tokens: more would take long to make, and to multiply with


def trial_of(scenario: LanguageModelScenario) -> Trial[GPT]:
    """A step of this scenario, made smaller where it would take too long."""
    data = scenario.data
    vocabulary = expected_tokens(data.tokenizer, data.vocabulary) if data.source == "text" else data.vocabulary
    return trial_on_ids(shape_of(scenario, min(vocabulary, MOST)), GPT, scenario.train, summed_loss)


def expected_tokens(tokenizer: str, vocabulary: int) -> int:
    """How many tokens there will be, about, before the text has been read."""
    return {"bytes": 256, "characters": 128}.get(tokenizer, vocabulary)


def trial_on_ids(
    whole: TextShape, model: Callable[[TextShape, torch.Generator], Model], train: Train, loss_of: Loss
) -> Trial[Model]:
    """A step of a decoder or encoder of this shape on tokens drawn at random, each of which is to be guessed."""
    shape, batch, part, scale = fitting(whole, train.batch // train.accumulate, train.steps * train.accumulate)
    ids = torch.randint(shape.vocabulary, (batch, shape.context), generator=torch.Generator().manual_seed(0))
    return Trial(
        lambda generator: model(shape, generator),
        train,
        loss_of,
        lambda: (ids, ids),
        batch,
        shape.dropout,
        part,
        scale,
    )
