"""An encoder learning to guess hidden tokens, as an Experiment (MATH T10; Devlin et al. 2019).

Notable: learning, refusing, changing, saving and putting back are the language model's, whose class this is one of:
the model, its loss, its data and what is shown of it are others. A class of its own would say 200 lines once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from txlab.engine.device import choose_device, repeat_exactly
from txlab.engine.transformer.bert import Bert
from txlab.engine.transformer.inspection import induction_scores, previous_token_scores
from txlab.engine.transformer.masks import NO_MASK
from txlab.errors import LabError
from txlab.experiments.language_model.experiment import LanguageModelExperiment
from txlab.experiments.masked_language_model.data import MaskedData
from txlab.experiments.masked_language_model.looking import inspect
from txlab.experiments.masked_language_model.loss import summed_loss
from txlab.experiments.masked_language_model.probe import reasons, shape_of
from txlab.experiments.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.protocol import Frame, Sample


def build(scenario: MaskedLanguageModelScenario) -> MaskedLanguageModelExperiment:
    """The experiment of a scenario without "auto", with its number of threads set for this process."""
    torch.set_num_threads(scenario.compute.threads)
    repeat_exactly(choose_device(scenario.compute.device))
    return MaskedLanguageModelExperiment(scenario, MaskedData(scenario))


class MaskedLanguageModelExperiment(LanguageModelExperiment):
    """See protocol.Experiment. Metrics: loss (of the tokens asked for, in nats), lr, grad_norm; val_loss and
    masked_accuracy on windows and gaps that are always the same."""

    model: Bert  # type: ignore[assignment]
    data: MaskedData  # type: ignore[assignment]
    loss_of = staticmethod(summed_loss)  # type: ignore[assignment]
    not_turned = ("temperature",)

    def __init__(self, scenario: MaskedLanguageModelScenario, data: MaskedData) -> None:
        if scenario.compute.compile is True:
            raise LabError("compute.compile = true is not for a masked-language-model; allowed: auto, false")
        super().__init__(cast(Any, scenario), cast(Any, data))
        self.masked = scenario
        self.why = reasons(scenario)

    def made(self, generator: torch.Generator) -> Bert:  # type: ignore[override]
        shape = shape_of(cast(MaskedLanguageModelScenario, self.scenario), self.data.vocabulary)
        return Bert(shape, generator)

    def frame(self) -> Frame:
        """Patterns, queries and keys of the probe text in every head; what each position takes its token to be."""
        ids = self.data.probe
        seen = inspect(self.model, ids)
        k = min(self.masked.look.next_tokens, self.data.vocabulary)
        probability, token = seen.probabilities.topk(k)  # (T, k)
        shown = {
            "attention/pattern": seen.patterns.half(),
            "attention/query": seen.queries,
            "attention/key": seen.keys,
            "attention/previous": previous_token_scores(seen.patterns),
            "attention/induction": induction_scores(seen.patterns, ids),
            "next/probability": probability,
        }
        labels = {token: self.data.label(token) for token in set(ids) | set(token.flatten().tolist())}
        shape = self.model.shape
        return Frame(
            step=self.step_count,
            tensors={name: tensor.cpu() for name, tensor in shown.items()},
            tokens={
                "probe": [labels[token] for token in ids],
                "next": [labels[token] for token in token.flatten().tolist()],
            },
            facts={
                "mask": NO_MASK.name,
                "layers": shape.layers,
                "heads": shape.heads,
                "head_width": shape.head_width,
            },
        )

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
                best = probabilities[place].topk(min(self.masked.sampling.fillings, tokenizer.vocabulary))
                whole[place] = int(best.indices[0])
                found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
                told.append(
                    ", ".join(f"{tokenizer.decode([t]).strip() or tokenizer.label(t)} {p:.2f}" for t, p in found)
                )
        return Sample(self.data.decode(ids), " · ".join([f" → {self.data.decode(whole)}", *told]))
