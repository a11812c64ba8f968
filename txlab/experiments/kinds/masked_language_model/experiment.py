"""An encoder that learns to predict masked tokens (MATH T10; Devlin et al. 2019); loading and starting from it (T12).

It is trained and measured on scored tokens just like a decoder. Gaps are filled without sampling. A frame is made by
running the model once more on one text, in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor

from txlab.engine.interpret.sites import Text, run
from txlab.engine.transformer.bert import Bert
from txlab.engine.transformer.masks import NO_MASK
from txlab.errors import LabError
from txlab.experiments.corpora import load_corpus
from txlab.experiments.kinds.masked_language_model.data import SPECIAL, MaskedData, special_of
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.learning.gradient import rebuild_model
from txlab.experiments.learning.text_data import tokenizer_of_state
from txlab.experiments.learning.text_experiment import MOST, TextExperiment, expected_tokens, trial_on_ids
from txlab.experiments.learning.timing import Trial
from txlab.experiments.loaded_model import LoadedModel, adopt_shape
from txlab.experiments.protocol import Frame, Sample, State
from txlab.experiments.schema import Scenario

EncoderScenario = TypeVar("EncoderScenario", bound=Scenario)


def experiment_of(scenario: MaskedLanguageModelScenario) -> MaskedLanguageModelExperiment:
    """The experiment of a scenario without "auto"."""
    return MaskedLanguageModelExperiment(scenario, MaskedData(scenario))


class MaskedLanguageModelExperiment(TextExperiment[Bert]):
    """See TextExperiment; its samples are texts with filled gaps."""

    data: MaskedData
    scenario: MaskedLanguageModelScenario

    def __init__(self, scenario: MaskedLanguageModelScenario, data: MaskedData) -> None:
        shape = scenario.model.shape(data.vocabulary)
        super().__init__(scenario, data, shape, lambda generator: Bert(shape, generator))

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """{"val_loss", "masked_accuracy"} on fixed windows and masks, without dropout."""
        loss, tallied = self.measure()
        return {"val_loss": loss, **tallied}

    def frame(self) -> Frame:
        """The frame, with the likeliest tokens of each position itself instead of the next one."""
        return self.text_frame(NO_MASK)

    def samples(self) -> Sequence[Sample]:
        """Each prompt with its gaps filled by the likeliest tokens, and the candidates of each gap with their
        probabilities; nothing is sampled."""
        return [self.fill(ids) for ids in self.data.prompts]

    def fill(self, ids: list[int]) -> Sample:
        """ "the [MASK] of" → " → the value of · value .34, name .12"."""
        tokenizer, special = self.data.tokenizer, self.data.special
        probabilities = run(self.model, Text(tuple(ids))).softmax(-1)[:, : tokenizer.vocabulary]  # no special tokens
        whole, guesses = list(ids), []
        for place, token in enumerate(ids):
            if token == special.mask:
                best = probabilities[place].topk(min(self.scenario.sampling.fillings, tokenizer.vocabulary))
                whole[place] = int(best.indices[0])
                likeliest = zip(best.indices.tolist(), best.values.tolist(), strict=True)
                guesses.append(
                    ", ".join(f"{tokenizer.decode([t]).strip() or tokenizer.label(t)} {p:.2f}" for t, p in likeliest)
                )
        return Sample(self.data.decode(ids), " · ".join([f" → {self.data.decode(whole)}", *guesses]))


def trial_of(scenario: MaskedLanguageModelScenario) -> Trial[Bert]:
    """A trial step of this scenario, made smaller if it would take too long. Every token of it is scored, since logits
    are computed for all tokens however few are scored."""
    vocabulary = min(expected_tokens(scenario.data.tokenizer, scenario.data.vocabulary), MOST) + len(SPECIAL)
    return trial_on_ids(scenario.model.shape(vocabulary), Bert, scenario)


def open_model(scenario: MaskedLanguageModelScenario, state: State) -> LoadedModel:
    """The model and tokenizer of a checkpoint; LabError if they do not match this scenario."""
    data = scenario.data
    tokenizer = tokenizer_of_state(state, data, lambda: load_corpus(data.text).split(data.validation).train)
    model = rebuild_model(lambda: Bert(scenario.model.shape(tokenizer.vocabulary + len(SPECIAL))), state["model"])
    example = scenario.probe.text or next(iter(scenario.sampling.prompts), "")
    return LoadedModel("bert", model, tokenizer, special=special_of(tokenizer), example=example)


def adopt(scenario: MaskedLanguageModelScenario, opened: LoadedModel) -> MaskedLanguageModelScenario:
    """The scenario as it runs when started from this model. LabError if they do not agree."""
    return adopt_encoder(scenario, opened)


def adopt_encoder(scenario: EncoderScenario, opened: LoadedModel) -> EncoderScenario:
    """The scenario of any kind that trains an encoder, with the shape and tokenizer of this one. LabError if they do
    not agree."""
    if opened.kind == "bert" and opened.special.names != special_of(opened.tokenizer).names:
        start: Any = scenario
        raise LabError(
            f"start.run = {start.start.run!r} does not have {', '.join(SPECIAL)} right behind the tokens of its "
            f"tokenizer; a {scenario.kind} starts from runs of masked-language-model"
        )
    return adopt_shape(scenario, opened, "bert", len(SPECIAL))
