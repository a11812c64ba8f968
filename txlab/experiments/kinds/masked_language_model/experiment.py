"""An encoder learning to guess hidden tokens, as an Experiment (MATH T10; Devlin et al. 2019).

Notable: it is trained and measured on scored tokens just as a decoder is (`language_model.scoring`); its model, its
loss, its data and what is shown of it are its own. Nothing is drawn when gaps are filled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from torch import Tensor

from txlab.engine.transformer.attention import NO_MASK
from txlab.engine.transformer.bert import Bert
from txlab.experiments.kinds.language_model.batch import Batch
from txlab.experiments.kinds.language_model.identity import identity, refuse_other
from txlab.experiments.kinds.language_model.scoring import learn, measure, work_facts
from txlab.experiments.kinds.language_model.text_frame import text_frame
from txlab.experiments.kinds.masked_language_model.data import MaskedData
from txlab.experiments.kinds.masked_language_model.looking import inspect
from txlab.experiments.kinds.masked_language_model.loss import summed_loss
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.kinds.masked_language_model.shape import shape_of
from txlab.experiments.learning.learner import Learner, Measured, prepare
from txlab.experiments.learning.prefetch import Ahead
from txlab.experiments.learning.weights import load_weights
from txlab.experiments.protocol import Adjustable, Frame, Sample, State


def build(scenario: MaskedLanguageModelScenario) -> MaskedLanguageModelExperiment:
    """The experiment of a scenario without "auto", with its number of threads set for this process."""
    prepare(scenario.compute)
    return MaskedLanguageModelExperiment(scenario, MaskedData(scenario))


class MaskedLanguageModelExperiment:
    """See protocol.Experiment. `data` gives windows and gaps, the scenario all the rest; no "auto" is left in it."""

    def __init__(self, scenario: MaskedLanguageModelScenario, data: MaskedData) -> None:
        self.scenario, self.data = scenario, data
        self.shape = shape_of(scenario, data.vocabulary)
        self.learner = Learner(scenario, lambda generator: Bert(self.shape, generator))
        self.model = self.learner.model
        self.batches = Ahead(data.train_batch, scenario.train.batch * self.shape.context)

    @property
    def step_count(self) -> int:
        return self.learner.updates

    @property
    def steps(self) -> int:
        return self.scenario.train.steps

    # Learning

    def step(self) -> Mapping[str, float | Tensor]:
        """One update of AdamW: {"loss", "lr", "grad_norm"}.

        loss       mean cross-entropy of the tokens asked for, in nats, before the update
        grad_norm  ‖g‖ before clipping
        """
        return self.learner.step(self.gradients)

    def gradients(self, update: int) -> Measured:
        """Gradients of the mean loss over the tokens asked for in a batch, and that loss."""
        return learn(self.learner, update, self.batches(update - 1), summed_loss)

    def verify(self) -> None:
        self.learner.verify(self.gradients)

    # Looking

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """{"val_loss", "masked_accuracy"} on windows and gaps that are always the same, without dropout."""
        loss, tallied = measure(self.learner, self._validation, summed_loss, self.data.tally)
        return {"val_loss": loss, **tallied}

    @cached_property
    def _validation(self) -> list[Batch]:
        return self.data.validation_batches()

    def frame(self) -> Frame:
        """Patterns, queries and keys of the probe text in every head; what each position takes its token to be."""
        ids = self.data.probe
        likeliest, seen = self.scenario.look.next_tokens, inspect(self.model, ids)
        text = self.data.decode(ids)
        return text_frame(self.step_count, ids, seen, likeliest, self.data.label, NO_MASK, self.shape, text)

    def samples(self) -> Sequence[Sample]:
        """Each prompt with its gaps filled by the likeliest tokens, and the likeliest ones of each with their
        probabilities; nothing is drawn."""
        return [self.filled(ids) for ids in self.data.prompts]

    def filled(self, ids: list[int]) -> Sample:
        """ "the [MASK] of" → " → the value of · value .34, name .12"."""
        tokenizer, special = self.data.tokenizer, self.data.special
        probabilities = inspect(self.model, ids).probabilities[:, : tokenizer.vocabulary]  # of what is no special token
        whole, told = list(ids), []
        for place, token in enumerate(ids):
            if token == special.mask:
                best = probabilities[place].topk(min(self.scenario.sampling.fillings, tokenizer.vocabulary))
                whole[place] = int(best.indices[0])
                found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
                told.append(
                    ", ".join(f"{tokenizer.decode([t]).strip() or tokenizer.label(t)} {p:.2f}" for t, p in found)
                )
        return Sample(self.data.decode(ids), " · ".join([f" → {self.data.decode(whole)}", *told]))

    def facts(self) -> Mapping[str, Any]:
        step = work_facts(self.shape, self.scenario.train.batch)
        return {**step, **self.learner.facts(), **self.data.facts()}

    # What a person may change

    def adjustable(self) -> Mapping[str, Adjustable]:
        """ "lr" is the *peak* learning rate: warm-up and cosine go on, scaled."""
        return self.learner.adjustable()

    def adjust(self, name: str, value: float) -> None:
        self.learner.adjust(name, value)

    # Saving and putting back

    def state_dict(self) -> State:
        return {**self._identity, **self.learner.state()}

    @cached_property
    def _identity(self) -> State:
        return identity(self.data)

    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Take these in place of random weights: no update has been made, and nothing else is taken over."""
        load_weights(self.model, weights)

    def load_state_dict(self, state: State) -> None:
        """Go back to a saved state. LabError if it belongs to another corpus, tokenizer or model shape."""
        refuse_other(state, self.data, self.scenario.data)
        self.learner.load(state)
