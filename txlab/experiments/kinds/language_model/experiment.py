"""A decoder-only transformer learning to guess the next token, as an Experiment (MATH T9).

Notable: what is learnt with is `learning.Learner`'s; a batch is a function of (seed, n), and a sample's choices of
(seed, step), so there is nothing random to save.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import isfinite, log
from typing import Any

import torch
from torch import Tensor

from txlab.engine.transformer.generation import generate
from txlab.engine.transformer.gpt import GPT
from txlab.engine.transformer.inspection import inspect
from txlab.experiments.kinds.language_model.batch import Batch
from txlab.experiments.kinds.language_model.data import Data, build_data
from txlab.experiments.kinds.language_model.identity import identity, refuse_other
from txlab.experiments.kinds.language_model.loss import summed_loss
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.kinds.language_model.scoring import learn, measure, work_facts
from txlab.experiments.kinds.language_model.shape import shape_of
from txlab.experiments.kinds.language_model.text_frame import text_frame
from txlab.experiments.learning.compiling import as_asked
from txlab.experiments.learning.learner import Learner, Measured, prepare
from txlab.experiments.learning.prefetch import Ahead
from txlab.experiments.learning.weights import load_weights
from txlab.experiments.protocol import Adjustable, Frame, Sample, State
from txlab.experiments.randomness import derived_seed


def build(scenario: LanguageModelScenario) -> LanguageModelExperiment:
    """The experiment of a scenario without "auto", with its number of threads set for this process."""
    prepare(scenario.compute)
    return LanguageModelExperiment(scenario, build_data(scenario))


class LanguageModelExperiment:
    """See protocol.Experiment. `data` gives batches and texts, the scenario all the rest; no "auto" is left in it."""

    def __init__(self, scenario: LanguageModelScenario, data: Data) -> None:
        self.scenario, self.data = scenario, data
        self.shape = shape_of(scenario, data.vocabulary)
        self.learner = Learner(
            scenario,
            lambda generator: GPT(self.shape, generator),
            {"temperature": (scenario.sampling.temperature, 10.0)},
        )
        self.model = self.learner.model
        self.batches = Ahead(data.train_batch, scenario.train.batch * self.shape.context)
        # Compiled is what training does, for its shape; evaluation and generation have others, and are seldom.
        self.training_loss = as_asked(summed_loss, scenario.compute)

    @property
    def step_count(self) -> int:
        return self.learner.updates

    @property
    def steps(self) -> int:
        return self.scenario.train.steps

    # Learning

    def step(self) -> Mapping[str, float | Tensor]:
        """One update of AdamW: {"loss", "lr", "grad_norm"}, and "copy_accuracy" for the induction and graph tasks.

        loss       mean cross-entropy of the scored targets of this batch, in nats, before the update
        grad_norm  ‖g‖ before clipping
        """
        return self.learner.step(self.gradients)

    def gradients(self, update: int) -> Measured:
        """Gradients of the mean loss over the scored targets of a batch; that loss, and the share copied rightly."""
        batch = self.batches(update - 1)
        copying = self.scenario.data.source in ("induction", "graph")
        return learn(self.learner, update, batch, self.training_loss, copying)

    def verify(self) -> None:
        self.learner.verify(self.gradients)

    # Looking

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """The same numbers for the same weights, without dropout.

        val_loss           mean cross-entropy over the fixed validation batches, in nats a token
        val_bits_per_byte  val_loss / ln 2 / bytes a token, where tokens are made of bytes
        val_loss/<text>, epochs/<text>   of each text of a mixture
        accuracy_<k>       of the few-shot task, after k examples
        """
        loss, tallied = measure(self.learner, self._validation, summed_loss, self.data.tally)
        metrics: dict[str, float | Tensor] = {"val_loss": loss}
        if isfinite(self.data.bytes_per_token):
            metrics["val_bits_per_byte"] = loss / log(2) / self.data.bytes_per_token
        return {**metrics, **tallied, **self.data.progress(self.step_count)}

    @cached_property
    def _validation(self) -> list[Batch]:
        return self.data.validation_batches()

    def frame(self) -> Frame:
        """Patterns, queries and keys of the probe text in every head, two scores a head, the likeliest next tokens."""
        ids = self.data.probe
        likeliest, seen = self.scenario.look.next_tokens, inspect(self.model, ids)
        text = self.data.decode(ids)
        return text_frame(self.step_count, ids, seen, likeliest, self.data.label, self.model.mask, self.shape, text)

    def samples(self) -> Sequence[Sample]:
        """One continuation a prompt, drawn with a generator that depends on (seed, step) alone."""
        sampling = self.scenario.sampling
        generator = torch.Generator().manual_seed(derived_seed(self.scenario.seed, "sample", self.step_count))
        found = []
        with self.learner.quiet():
            for prompt in self.data.prompts:
                written = generate(
                    self.model,
                    prompt,
                    sampling.tokens,
                    generator=generator,
                    temperature=self.learner.adjusted["temperature"],
                    top_k=sampling.top_k,
                    top_p=sampling.top_p,
                )
                found.append(Sample(self.data.decode(prompt), self.data.decode(list(written))))
        return found

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
