"""What is timed to decide how a masked language model is computed: an encoder of its shape, on random tokens.

Notable: every token is to be guessed, since that many logits are computed however few of them are asked for.
"""

from __future__ import annotations

from txlab.engine.transformer.bert import Bert
from txlab.experiments.kinds.language_model.trial import MOST, expected_tokens, trial_on_ids
from txlab.experiments.kinds.masked_language_model.loss import summed_loss
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.kinds.masked_language_model.shape import shape_of
from txlab.experiments.kinds.masked_language_model.tokens import SPECIAL
from txlab.experiments.learning.timing import Trial


def trial_of(scenario: MaskedLanguageModelScenario) -> Trial[Bert]:
    """A step of this scenario, made smaller where it would take too long."""
    vocabulary = min(expected_tokens(scenario.data.tokenizer, scenario.data.vocabulary), MOST) + len(SPECIAL)
    return trial_on_ids(shape_of(scenario, vocabulary), Bert, scenario.train, summed_loss)
