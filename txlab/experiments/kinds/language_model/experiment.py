"""A decoder-only transformer that learns to predict the next token (MATH T9); loading and starting from it (T12).

A batch is a function of (seed, n), and a sample of (seed, step), so there is nothing random to save.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, log
from typing import Any, TypeVar

import torch
from torch import Tensor

from txlab.engine.recurrent.language_model import RecurrentLM, RecurrentShape
from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.engine.transformer.generation import generate
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.errors import LabError
from txlab.experiments.kinds.language_model.data import build_data, training_text
from txlab.experiments.kinds.language_model.few_shot import FewShotTokenizer
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario, TextOrTask
from txlab.experiments.kinds.language_model.symbols import SymbolTokenizer
from txlab.experiments.learning.gradient import rebuild_model
from txlab.experiments.learning.text_data import TextData, tokenizer_of_state
from txlab.experiments.learning.text_experiment import MOST, TextExperiment, expected_tokens, trial_on_ids
from txlab.experiments.learning.timing import Trial
from txlab.experiments.loaded_model import LoadedModel, adopt_shape
from txlab.experiments.protocol import Frame, Sample, State
from txlab.experiments.randomness import derived_seed
from txlab.experiments.tokenizer_store import fingerprint

Decoder = TypeVar("Decoder", bound=GPT | RecurrentLM)


def experiment_of(scenario: LanguageModelScenario) -> LanguageModelExperiment[GPT]:
    """The experiment of a scenario without "auto"."""
    data = build_data(scenario)
    shape = scenario.model.shape(data.vocabulary)
    return LanguageModelExperiment(
        scenario,
        data,
        shape,
        lambda generator: GPT(shape, generator),
        lambda experiment: experiment.text_frame(experiment.model.mask),
    )


class LanguageModelExperiment(TextExperiment[Decoder]):
    """See TextExperiment; the temperature of its samples is adjustable too.

    look   makes a frame of the experiment
    """

    def __init__(
        self,
        scenario: Any,
        data: TextData,
        shape: GPTShape | RecurrentShape,
        make: Callable[[torch.Generator], Decoder],
        look: Callable[[Any], Frame],
    ) -> None:
        further = {"temperature": (scenario.sampling.temperature, 10.0)}
        super().__init__(scenario, data, shape, make, further)
        source = scenario.data.source
        self.copying = source == "graph" or (source == "induction" and scenario.data.again == "once")
        self.look = look

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """The same numbers for the same weights, without dropout.

        val_loss           mean cross-entropy over the fixed validation batches, in nats per token
        val_bits_per_byte  val_loss / ln 2 / bytes per token, if tokens are made of bytes
        val_loss/<text>, epochs/<text>   of each text of a mixture
        accuracy_<k>       of the few-shot task, after k examples
        in_context_score   of induction again and again: the loss late in the context minus that early
        """
        loss, tallied = self.measure()
        metrics: dict[str, float | Tensor] = {"val_loss": loss}
        if isfinite(self.data.bytes_per_token):
            metrics["val_bits_per_byte"] = loss / log(2) / self.data.bytes_per_token
        return {**metrics, **tallied, **self.data.progress(self.step_count)}

    def frame(self) -> Frame:
        return self.look(self)

    def samples(self) -> Sequence[Sample]:
        """One continuation per prompt, drawn with a generator that depends on (seed, step) alone."""
        sampling = self.scenario.sampling
        generator = torch.Generator().manual_seed(derived_seed(self.scenario.seed, "sample", self.step_count))
        samples = []
        with self.quiet():
            for prompt in self.data.prompts:
                written = generate(
                    self.model,
                    prompt,
                    sampling.tokens,
                    generator=generator,
                    temperature=self.adjusted["temperature"],
                    top_k=sampling.top_k,
                    top_p=sampling.top_p,
                )
                samples.append(Sample(self.data.decode(prompt), self.data.decode(list(written))))
        return samples


def trial_of(scenario: LanguageModelScenario) -> Trial[GPT]:
    """A trial step of this scenario, made smaller if it would take too long."""
    data = scenario.data
    vocabulary = expected_tokens(data.tokenizer, data.vocabulary) if data.source == "text" else data.vocabulary
    return trial_on_ids(scenario.model.shape(min(vocabulary, MOST)), GPT, scenario)


def open_model(scenario: LanguageModelScenario, state: State) -> LoadedModel:
    """The model and tokenizer of a checkpoint; LabError if they do not match this scenario."""
    data = scenario.data
    if data.source != "text":
        tokenizer = task_tokenizer(data)
    else:
        tokenizer = tokenizer_of_state(state, data, lambda: training_text(data))
    model = rebuild_model(lambda: GPT(scenario.model.shape(tokenizer.vocabulary)), state["model"])
    example = scenario.probe.text
    if data.source != "text" and not example:
        example = tokenizer.decode(build_data(scenario).probe)
    if not example:
        example = next((prompt for prompt in scenario.sampling.prompts if prompt), "")
    return LoadedModel("gpt", model, tokenizer, example=example)


def adopt(scenario: LanguageModelScenario, opened: LoadedModel) -> LanguageModelScenario:
    """The scenario as it runs when started from this model. LabError if they do not agree."""
    source = scenario.data.source
    filled = adopt_shape(scenario, opened, "gpt")
    if source != "text" and fingerprint(task_tokenizer(filled.data)) != fingerprint(opened.tokenizer):
        raise LabError(f"start.run = {scenario.start.run!r} does not read the symbols of data.source = {source!r}")
    if source != "text" and "vocabulary" in scenario.data.model_fields_set and scenario.data != filled.data:
        raise LabError(
            f"data.vocabulary = {scenario.data.vocabulary} does not agree with start.run = {scenario.start.run!r}, "
            f"which has {filled.data.vocabulary} symbols; leave it out to take those"
        )
    return filled


def task_tokenizer(data: TextOrTask) -> Tokenizer:
    """One token for each symbol of a generated task."""
    return FewShotTokenizer(data.vocabulary) if data.source == "few-shot" else SymbolTokenizer(data.vocabulary)
