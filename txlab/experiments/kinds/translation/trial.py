"""What is timed to decide how a translation is computed: a model of its shape, on pairs of a middling length.

Notable: torch's compiler is never used: batches come in too many shapes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.experiments.kinds.translation.batch import as_batch
from txlab.experiments.kinds.translation.data import MAKERS, tokenizers_for
from txlab.experiments.kinds.translation.loss import summed_loss
from txlab.experiments.kinds.translation.pairs import drawn_pairs
from txlab.experiments.kinds.translation.schema import TranslationScenario
from txlab.experiments.kinds.translation.shape import shape_of
from txlab.experiments.learning.timing import Trial


def trial_of(scenario: TranslationScenario) -> Trial[EncoderDecoder]:
    """A step of this scenario: as many pairs as a micro-batch has, drawn anew and alike in length, as its own are."""
    source, target = tokenizers_for(scenario.data, scenario.model.shared)
    size = scenario.train.batch // scenario.train.accumulate
    pairs = drawn_pairs(MAKERS[scenario.data.task], 0)
    made = sorted((next(pairs) for _ in range(8 * size)), key=lambda pair: len(pair.source))
    middle = made[len(made) // 2 - size // 2 :][:size]
    batch = as_batch([(source.ids(pair.source), target.ids(pair.target)) for pair in middle])

    def loss(model: EncoderDecoder, rows: Tensor, kernel: Kernel, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return summed_loss(model, batch.of(rows), kernel, dtype)

    return Trial(
        lambda generator: EncoderDecoder(shape_of(scenario), generator),
        scenario.train,
        loss,
        lambda: (torch.arange(size),),
        size,
        scenario.model.dropout,
    )
