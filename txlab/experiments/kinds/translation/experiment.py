"""An encoder–decoder learning to translate, as an Experiment (MATH T8).

Notable: translating is tested in earnest: every unseen source is translated token by token by the model alone, and
counts only if every token is right. What is learnt with is `learning.Learner`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.inspection import previous_token_scores
from txlab.errors import LabError
from txlab.experiments.kinds.translation.batch import Batch
from txlab.experiments.kinds.translation.data import Ids, PairData, lengths
from txlab.experiments.kinds.translation.looking import SITES, look
from txlab.experiments.kinds.translation.loss import summed_loss
from txlab.experiments.kinds.translation.schema import TranslationScenario
from txlab.experiments.kinds.translation.shape import shape_of
from txlab.experiments.kinds.translation.symbols import END, START
from txlab.experiments.kinds.translation.work import flops_per_pair
from txlab.experiments.kinds.translation.writing import Writing, sources_of, wanted_of
from txlab.experiments.learning.learner import Learner, Measured, prepare
from txlab.experiments.learning.prefetch import Ahead
from txlab.experiments.protocol import Adjustable, Frame, Sample, State


def build(scenario: TranslationScenario) -> TranslationExperiment:
    """The experiment of a scenario without "auto", with its number of threads set for this process."""
    prepare(scenario.compute)
    return TranslationExperiment(scenario, PairData(scenario))


class TranslationExperiment:
    """See protocol.Experiment. `data` gives the pairs, the scenario all the rest; no "auto" is left in it."""

    def __init__(self, scenario: TranslationScenario, data: PairData) -> None:
        self.scenario, self.data = scenario, data
        self.shape = shape_of(scenario)
        self.learner = Learner(
            scenario,
            lambda generator: EncoderDecoder(self.shape, generator),
            {"label_smoothing": (scenario.train.label_smoothing, 0.95)},
        )
        self.model = self.learner.model
        self.batches = Ahead(data.train_batch, 2 * scenario.train.batch * data.longest)
        # Nothing that is right is longer than the longest pair; a few tokens more show what goes wrong.
        self.writing = Writing(min(self.shape.context, data.longest + 4), *self.learner.how)

    @property
    def step_count(self) -> int:
        return self.learner.updates

    @property
    def steps(self) -> int:
        return self.scenario.train.steps

    # Learning

    def step(self) -> Mapping[str, float | Tensor]:
        """One update of AdamW: {"loss", "lr", "grad_norm"}.

        loss       mean cross-entropy of this batch's targets, label smoothing in it, in nats, before the update
        grad_norm  ‖g‖ before clipping
        """
        return self.learner.step(self.gradients)

    def gradients(self, update: int) -> Measured:
        """Gradients of the mean loss over the scored targets of a batch, and that loss."""
        batch = self.batches(update - 1)
        scored, there = batch.scored, batch.to(self.learner.device)
        how, smoothing = self.learner.how, self.learner.adjusted["label_smoothing"]

        def work(model: EncoderDecoder, rows: Tensor) -> Measured:
            loss = summed_loss(model, there.of(rows), *how, smoothing)[0] / scored
            loss.backward()  # type: ignore[no-untyped-call]
            return {"loss": loss.detach()}

        rows = torch.arange(len(batch.lengths))
        return self.learner.gradients(update, work, [(part,) for part in rows.chunk(self.scenario.train.accumulate)])

    def verify(self) -> None:
        self.learner.verify(self.gradients)

    # Looking

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """The same numbers for the same weights, on the unseen pairs, without dropout and label smoothing.

        val_loss        mean cross-entropy of the targets with teacher forcing, in nats a token
        token_accuracy  share of these targets that are the likeliest token
        exact_match     share of the sources whose translation, written greedily without help, is right in every token
        """

        how = self.learner.how

        def measure(batch: Batch, model: EncoderDecoder, rows: Tensor) -> tuple[float, int, int]:
            part = batch.of(rows)
            with torch.no_grad():  # which is a thread's own
                loss, logits = summed_loss(model, part, *how)
                likeliest = int((logits.argmax(-1) == part.targets).sum())
                right = sum(
                    one == other
                    for one, other in zip(self.writing.greedy(model, sources_of(part)), wanted_of(part), strict=True)
                )
            return float(loss), likeliest, right

        total, likeliest, right, scored, pairs = 0.0, 0, 0, 0, 0
        with self.learner.quiet():
            for batch in self._validation:
                work = partial(measure, batch.to(self.learner.device))
                for loss, tokens, exact in self.learner.crew.each(work, torch.arange(len(batch.lengths))):
                    total, likeliest, right = total + loss, likeliest + tokens, right + exact
                scored, pairs = scored + batch.scored, pairs + len(batch.lengths)
        return {"val_loss": total / scored, "token_accuracy": likeliest / scored, "exact_match": right / pairs}

    @cached_property
    def _validation(self) -> list[Batch]:
        return self.data.validation_batches()

    def frame(self) -> Frame:
        """Patterns, queries and keys of the probe pair in every head of the three attentions, likeliest next tokens."""
        source, target = [*self.data.probe[0], END], [START, *self.data.probe[1]]
        seen, probabilities = look(self.model, source, target)
        probability, token = probabilities.topk(min(self.scenario.look.next_tokens, self.shape.target_vocabulary))
        shown = {"next/probability": probability}  # (T, k)
        for site, attention in seen.items():
            shown[f"{site}/pattern"] = attention.pattern.half()
            shown[f"{site}/query"], shown[f"{site}/key"] = attention.query, attention.key
            if site != "cross":
                shown[f"{site}/previous"] = previous_token_scores(attention.pattern)  # (L, H)
        label = self.data.target_tokenizer.label
        return Frame(
            step=self.step_count,
            tensors={name: tensor.cpu() for name, tensor in shown.items()},
            tokens={
                "source": [self.data.source_tokenizer.label(token) for token in source],
                "target": [label(token) for token in target],
                "next": [label(token) for token in token.flatten().tolist()],
            },
            texts={
                "source": self.data.source_tokenizer.decode(source),
                "target": self.data.target_tokenizer.decode(target),
            },
            facts={
                "mask": "none",
                "sites": list(SITES),
                "masks": [mask.name for _, mask in SITES.values()],
                "layers": self.shape.encoder_layers,
                "decoder_layers": self.shape.decoder_layers,
                "heads": self.shape.heads,
                "head_width": self.shape.head_width,
            },
        )

    def samples(self) -> Sequence[Sample]:
        """Translations of some of the unseen sources, with what would have been right, and of those that were asked."""
        sampling = self.scenario.sampling
        shown: list[Ids] = [*self.data.unseen[: sampling.pairs], *((source, []) for source in self.data.asked)]
        if not shown:
            return []
        sources = [[*source, END] for source, _ in shown]
        with self.learner.quiet():
            if sampling.beam == 1:
                written = self.writing.greedy(self.model, sources)
            else:
                written = self.writing.beam(self.model, sources, sampling.beam, sampling.length_penalty)
        return [self._sample(source, target, tokens) for (source, target), tokens in zip(shown, written, strict=True)]

    def _sample(self, source: Sequence[int], target: Sequence[int], written: Sequence[int]) -> Sample:
        """ "the bird sings" → " → ne lissan-e kann-u-ek (right)"; the judgement only where the answer is known."""
        decode = self.data.target_tokenizer.decode
        judged = f"(wrong; right is {decode(target)})" if list(written) != list(target) else "(right)"
        text = f" → {decode(written)} {judged if target else ''}".rstrip()
        return Sample(self.data.source_tokenizer.decode(source), text)

    def facts(self) -> Mapping[str, Any]:
        """A step's units are source and target tokens, special ones included, padding not."""
        batch = self.scenario.train.batch
        read = [(1 + source, 1 + target) for source, target in map(lengths, self.data.train)]
        return {
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "unit": "tokens",
            "units_per_step": batch * (self.data.source_tokens + self.data.target_tokens),
            "flops_per_step": batch * flops_per_pair(self.shape, read),
            **self.learner.facts(),
            **self.data.facts(),
        }

    # What a person may change

    def adjustable(self) -> Mapping[str, Adjustable]:
        """ "lr" is the *peak* learning rate: warm-up and cosine go on, scaled."""
        return self.learner.adjustable()

    def adjust(self, name: str, value: float) -> None:
        self.learner.adjust(name, value)

    # Saving and putting back

    def state_dict(self) -> State:
        return {
            "corpus": self.data.fingerprint,
            "tokenizer": self.data.tokenizer_fingerprint,
            **self.learner.state(),
        }

    def load_state_dict(self, state: State) -> None:
        """Go back to a saved state. LabError if it belongs to other pairs or another model shape."""
        for name, here in (("corpus", self.data.fingerprint), ("tokenizer", self.data.tokenizer_fingerprint)):
            if state[name] != here:
                raise LabError(
                    f"the checkpoint was learnt from other {'pairs' if name == 'corpus' else 'words'} than this "
                    f"scenario's [data] makes (fingerprint {here[:12]}, the checkpoint has {state[name][:12]}); "
                    "put seed, data, train.batch and train.validation_batches back, or start a new run"
                )
        self.learner.load(state)
