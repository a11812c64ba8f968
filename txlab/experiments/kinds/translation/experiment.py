"""An encoder–decoder that learns to translate (MATH T8), and loading it.

Evaluation translates every unseen source token by token, without teacher forcing, and counts it only if every token is
right. Training stores nothing for display: a frame runs the model once more on one pair, in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from txlab.engine.interpret.activation_cache import previous_token_scores, run_with_cache
from txlab.engine.interpret.sites import Text
from txlab.engine.transformer.beam import beam_search
from txlab.engine.transformer.blocks import Kernel
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.generation import Translating, generate_target
from txlab.errors import LabError
from txlab.experiments.kinds.translation.data import MAKERS, Ids, PairBatch, PairData, as_batch, lengths
from txlab.experiments.kinds.translation.pairs import draw_pairs
from txlab.experiments.kinds.translation.schema import PairScenario
from txlab.experiments.kinds.translation.tokens import END, PAD, SPECIAL, START, tokenizers_for
from txlab.experiments.learning.gradient import GradientExperiment, Measured, rebuild_model
from txlab.experiments.learning.text_data import NOT_SCORED
from txlab.experiments.learning.timing import Trial
from txlab.experiments.loaded_model import LoadedModel, Special
from txlab.experiments.protocol import Frame, Sample, State


def summed_loss(
    model: Translating, batch: PairBatch, kernel: Kernel, dtype: torch.dtype, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """(Σ over the scored targets of −Σᵥ q(v) log softmax(logits)[v], logits (B, T, V)), with teacher forcing.

    q = (1 − s) · [v is the target] + s / V, s the label smoothing (Szegedy et al. 2016, §7; Vaswani et al. 2017, §5.4).
    The model computes in `dtype`; the sum is taken in float32.
    """
    with torch.autocast(batch.source.device.type, dtype, enabled=dtype != torch.float32):
        logits: Tensor = model(batch.source, batch.inputs, kernel, source_mask=batch.source_mask)
    scores, wanted = logits.float().flatten(0, 1), batch.targets.flatten()
    return F.cross_entropy(scores, wanted, ignore_index=NOT_SCORED, reduction="sum", label_smoothing=smoothing), logits


def experiment_of(scenario: PairScenario) -> TranslationExperiment:
    """The experiment of a scenario without "auto"."""
    return TranslationExperiment(scenario, PairData(scenario))


class TranslationExperiment(GradientExperiment[Translating]):
    """See GradientExperiment; `data` gives the pairs; the label smoothing of the loss is adjustable too."""

    scenario: PairScenario

    def __init__(self, scenario: PairScenario, data: PairData) -> None:
        self.data, self.shape = data, scenario.shape()
        further = {"label_smoothing": (scenario.train.label_smoothing, 0.95)}
        super().__init__(scenario, scenario.network, further)
        # No right answer is longer than the longest pair; a few tokens more show how an answer goes wrong.
        self.writing = Writing(min(self.shape.context, data.longest + 4), *self.how)

    def gradients(self, update: int) -> Measured:
        """Gradients of the mean loss over the scored targets of a batch, and that loss."""
        batch = self.data.train_batch(update - 1)
        scored, there = batch.scored, batch.to(self.device)
        how, smoothing = self.how, self.adjusted["label_smoothing"]

        def work(model: Translating, rows: Tensor) -> Measured:
            loss = summed_loss(model, there.of(rows), *how, smoothing)[0] / scored
            loss.backward()  # type: ignore[no-untyped-call]
            return {"loss": loss.detach()}

        rows = torch.arange(len(batch.lengths))
        return self.accumulate(work, [(part,) for part in rows.chunk(self.scenario.train.accumulate)])

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """The same numbers for the same weights, on the unseen pairs, without dropout or label smoothing.

        val_loss        mean cross-entropy of the targets with teacher forcing, in nats per token
        token_accuracy  share of these targets that are the likeliest token
        exact_match     share of the sources whose greedy translation, without teacher forcing, is right in every token
        """

        how = self.how

        def measure(batch: PairBatch, model: Translating, rows: Tensor) -> tuple[float, int, int]:
            part = batch.of(rows)
            with torch.no_grad():  # which is set per thread
                loss, logits = summed_loss(model, part, *how)
                likeliest = int((logits.argmax(-1) == part.targets).sum())
                right = sum(
                    one == other
                    for one, other in zip(self.writing.greedy(model, sources_of(part)), targets_of(part), strict=True)
                )
            return float(loss), likeliest, right

        total, likeliest, right, scored, pairs = 0.0, 0, 0, 0, 0
        with self.quiet():
            for batch in self._validation:
                work = partial(measure, batch.to(self.device))
                for loss, tokens, exact in self.threads.each(work, torch.arange(len(batch.lengths))):
                    total, likeliest, right = total + loss, likeliest + tokens, right + exact
                scored, pairs = scored + batch.scored, pairs + len(batch.lengths)
        return {"val_loss": total / scored, "token_accuracy": likeliest / scored, "exact_match": right / pairs}

    @cached_property
    def _validation(self) -> list[PairBatch]:
        return self.data.validation_batches()

    def frame(self) -> Frame:
        """What `look_at` returns of the probe pair, the likeliest next tokens, and the names of all tokens."""
        source, target = [*self.data.probe[0], END], [START, *self.data.probe[1]]
        probabilities, shown, facts = self.look_at(source, target)
        probability, token = probabilities.topk(min(self.scenario.probe.next_tokens, self.shape.target_vocabulary))
        label = self.data.target_tokenizer.label
        return Frame(
            step=self.step_count,
            tensors={name: tensor.cpu() for name, tensor in {"next/probability": probability, **shown}.items()},
            tokens={
                "source": [self.data.source_tokenizer.label(token) for token in source],
                "target": [label(token) for token in target],
                "next": [label(token) for token in token.flatten().tolist()],
            },
            texts={
                "source": self.data.source_tokenizer.decode(source),
                "target": self.data.target_tokenizer.decode(target),
            },
            facts={"mask": "none", **facts},
        )

    def look_at(self, source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, dict[str, Tensor], dict[str, Any]]:
        """The probabilities of next tokens (T, V); patterns, queries and keys of the three attentions; facts."""
        cache = run_with_cache(cast(EncoderDecoder, self.model), Text(tuple(source), tuple(target)))
        shown = {}
        for site in cache.sites:
            patterns = cache.patterns(site)  # (L, H, T, S)
            shown[f"{site}/pattern"] = patterns.half()
            shown[f"{site}/query"], shown[f"{site}/key"] = cache.queries[site], cache.keys[site]
            if site != "cross":
                shown[f"{site}/previous"] = previous_token_scores(patterns)  # (L, H)
        facts = {
            "sites": list(cache.sites),
            "masks": [site.mask_name for site in cache.sites.values()],
            "layers": self.shape.encoder_layers,
            "decoder_layers": self.shape.decoder_layers,
            "heads": self.shape.heads,
            "head_width": self.shape.head_width,
        }
        return cache.probabilities(slice(None)), shown, facts

    def samples(self) -> Sequence[Sample]:
        """Translations of some unseen sources, with the right answers, and of the sources that were asked for."""
        sampling = self.scenario.sampling
        shown: list[Ids] = [*self.data.unseen[: sampling.pairs], *((source, []) for source in self.data.asked)]
        if not shown:
            return []
        sources = [[*source, END] for source, _ in shown]
        with self.quiet():
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
            "flops_per_step": batch * self.flops_per_pair(read),
            **super().facts(),
            **self.data.facts(),
        }

    def flops_per_pair(self, read: Iterable[tuple[int, int]]) -> float:
        """Mean FLOPs, forward and backward, of pairs with these numbers of source and target tokens."""
        return flops_per_pair(self.shape, read)

    def state_dict(self) -> State:
        return {
            "corpus": self.data.fingerprint,
            "tokenizer": self.data.tokenizer_fingerprint,
            **super().state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a saved state. LabError if it is of other pairs or another model shape."""
        for name, here in (("corpus", self.data.fingerprint), ("tokenizer", self.data.tokenizer_fingerprint)):
            if state[name] != here:
                raise LabError(
                    f"the checkpoint was learnt from other {'pairs' if name == 'corpus' else 'words'} than this "
                    f"scenario's [data] makes (fingerprint {here[:12]}, the checkpoint has {state[name][:12]}); "
                    "put seed, data, train.batch and train.validation_batches back, or start a new run"
                )
        super().load_state_dict(state)


# Translations without teacher forcing, in batches, and the right ones

NEVER = (PAD, START)  # ids that no translation has


@dataclass(frozen=True)
class Writing:
    """How translations are generated: at most `longest` tokens, including the end token."""

    longest: int
    kernel: Kernel
    dtype: torch.dtype

    def greedy(self, model: Translating, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        """The translation of each source (which ends with its end token), without the end token."""
        with self.autocast(model):
            written = generate_target(
                model, sources, self.longest, start=START, end=END, never=NEVER, kernel=self.kernel
            )
        return [without_end(target) for target in written]

    def beam(self, model: Translating, sources: Sequence[Sequence[int]], beams: int, alpha: float) -> list[list[int]]:
        """The same by beam search with the length penalty of Wu et al. 2016."""
        with self.autocast(model):
            written = [
                beam_search(
                    model,
                    source,
                    self.longest,
                    beams=beams,
                    start=START,
                    end=END,
                    alpha=alpha,
                    never=NEVER,
                    kernel=self.kernel,
                )
                for source in sources
            ]
        return [without_end(hypotheses[0][0]) for hypotheses in written]

    def autocast(self, model: Translating) -> torch.autocast:
        device = model.embed_target.weight.device
        return torch.autocast(device.type, self.dtype, enabled=self.dtype != torch.float32)


def without_end(target: Sequence[int]) -> list[int]:
    return [token for token in target if token != END]


def sources_of(batch: PairBatch) -> list[list[int]]:
    """The sources of a batch, with the end token and without padding."""
    return [row[:length] for row, length in zip(batch.source.tolist(), batch.lengths, strict=True)]


def targets_of(batch: PairBatch) -> list[list[int]]:
    """The right targets of a batch, without the end token."""
    return [[token for token in row if token not in (NOT_SCORED, END)] for row in batch.targets.tolist()]


# The cost of translating a pair, by the rules of `engine.transformer.costs`


def flops_per_pair(shape: EncoderDecoderShape, lengths: Iterable[tuple[int, int]]) -> float:
    """Mean FLOPs, forward and backward, of pairs of S source and T target tokens.

    6 · [S · (Nₑ (4D² + 2DF) + N_d 2D²) + T · (N_d (6D² + 2DF) + V D)] + 12 D (Nₑ S² + N_d T² + N_d S T)

    W_K and W_V of cross-attention read the source's positions, its W_Q and W_O the target's. Padding is not counted.
    """
    D, F, V = shape.width, shape.inner, shape.target_vocabulary
    encoder, decoder = shape.encoder_layers, shape.decoder_layers
    by_source = encoder * (4 * D * D + 2 * D * F) + decoder * 2 * D * D
    by_target = decoder * (6 * D * D + 2 * D * F) + V * D
    total, pairs = 0, 0
    for S, T in lengths:
        products = S * by_source + T * by_target
        total += 6 * products + 12 * D * (encoder * S * S + decoder * T * T + decoder * S * T)
        pairs += 1
    return total / pairs


# Timing and loading


def trial_of(scenario: PairScenario) -> Trial[Translating]:
    """A trial step: as many pairs as a micro-batch has, newly drawn, of similar length as in training."""
    source, target = tokenizers_for(scenario.data.task, scenario.model.shared)
    size = scenario.train.batch // scenario.train.accumulate
    pairs = draw_pairs(MAKERS[scenario.data.task], 0)
    made = sorted((next(pairs) for _ in range(8 * size)), key=lambda pair: len(pair.source))
    middle = made[len(made) // 2 - size // 2 :][:size]
    batch = as_batch([(source.ids(pair.source), target.ids(pair.target)) for pair in middle])

    def loss(model: Translating, rows: Tensor, kernel: Kernel, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return summed_loss(model, batch.of(rows), kernel, dtype)

    return Trial(
        scenario.network,
        scenario.train,
        scenario.train.steps * scenario.train.accumulate,
        loss,
        lambda: (torch.arange(size),),
        size,
        scenario.model.dropout,
    )


EXAMPLES = {
    "language": ("the old dog followed the small birds", "do borv-o vet-o dei lissan-ein parv-ein sekun-ot-ok"),
    "dates": ("5 March 2021", "2021-03-05"),
}


def open_model(scenario: PairScenario, state: State) -> LoadedModel:
    """The model and tokenizers of a checkpoint; LabError if they do not match this scenario."""
    source, target = tokenizers_for(scenario.data.task, scenario.model.shared)
    model = rebuild_model(scenario.network, state["model"])
    example, translated = EXAMPLES[scenario.data.task]
    if scenario.probe.source:
        example, translated = scenario.probe.source, scenario.probe.target
    return LoadedModel(
        "encoder-decoder",
        model,
        source,
        target,
        Special(begin=START, end=END, pad=PAD, source_end=END, names=SPECIAL),
        example,
        translated,
    )
