"""An encoder–decoder learning to translate, as an Experiment (MATH T8).

Notable: what a language model's experiment says about exactness holds here too: batch and dropout of update n are
functions of (seed, n), a checkpoint is weights, AdamW's moments, the step and what a person has changed, and an update
that is not finite is refused before the weights are touched. Translating is tested in earnest: every unseen source is
translated token by token by the model alone, and counts only if every token is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from txlab.engine.device import DTYPES, choose_device, describe, measure_peak, repeat_exactly
from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.inspection import previous_token_scores
from txlab.errors import LabError, nearest
from txlab.experiments.learning.crew import Crew
from txlab.experiments.learning.optimizer import LateGuard, LongAdamW, first_not_finite
from txlab.experiments.learning.schedule import factor
from txlab.experiments.learning.weights import load_weights
from txlab.experiments.protocol import Adjustable, Frame, NotFinite, Sample, State
from txlab.experiments.randomness import derived_seed
from txlab.experiments.translation.batch import Batch
from txlab.experiments.translation.data import Ids, PairData, lengths
from txlab.experiments.translation.looking import SITES, look
from txlab.experiments.translation.loss import summed_loss
from txlab.experiments.translation.probe import reasons, shape_of
from txlab.experiments.translation.schema import TranslationScenario
from txlab.experiments.translation.symbols import END, START
from txlab.experiments.translation.work import flops_per_pair
from txlab.experiments.translation.writing import Writing, sources_of, wanted_of

BOUNDS = {
    "lr": (0.0, 10.0),
    "clip": (0.0, 1e6),
    "weight_decay": (0.0, 100.0),
    "dropout": (0.0, 0.95),
    "label_smoothing": (0.0, 0.95),
}


def build(scenario: TranslationScenario) -> TranslationExperiment:
    """The experiment of a scenario without "auto", with its number of threads set for this process."""
    torch.set_num_threads(scenario.compute.threads)
    repeat_exactly(choose_device(scenario.compute.device))
    return TranslationExperiment(scenario, PairData(scenario))


class TranslationExperiment:
    """See protocol.Experiment. `data` gives the pairs, the scenario all the rest; no "auto" is left in it."""

    def __init__(self, scenario: TranslationScenario, data: PairData) -> None:
        train, compute = scenario.train, scenario.compute
        self.scenario, self.data = scenario, data
        self.device = choose_device(compute.device)
        self.tells_late = self.device.type == "cuda"
        self.shape = shape_of(scenario)
        # The constructors of torch's modules draw from the global generator; the weights come from their own.
        with torch.random.fork_rng(devices=[]):
            generator = torch.Generator().manual_seed(derived_seed(scenario.seed, "weights", 0))
            self.model = EncoderDecoder(self.shape, generator).to(self.device)
        self.optimizer = LongAdamW(self.model, train, train.weight_decay)
        self.crew = Crew(self.model, self.optimizer, compute.threads if compute.share == "batch" else 1)
        self.how: tuple[Kernel, torch.dtype] = (compute.attention, DTYPES[compute.dtype])  # type: ignore[assignment]
        # Nothing that is right is longer than the longest pair; a few tokens more show what goes wrong.
        self.writing = Writing(min(self.shape.context, data.longest + 4), *self.how)
        self.guard = LateGuard(self.device)
        self.why = reasons(scenario)
        self.adjusted = {
            "lr": train.learning_rate,
            "clip": train.clip,
            "weight_decay": train.weight_decay,
            "dropout": scenario.model.dropout,
            "label_smoothing": train.label_smoothing,
        }
        self._updates = 0

    @property
    def step_count(self) -> int:
        return self._updates

    @property
    def steps(self) -> int:
        return self.scenario.train.steps

    # Learning

    def step(self) -> Mapping[str, float | Tensor]:
        """One update of AdamW: {"loss", "lr", "grad_norm"}.

        loss       mean cross-entropy of this batch's targets, label smoothing in it, in nats, before the update
        grad_norm  ‖g‖ before clipping
        """
        update = self._updates + 1
        loss = self._gradients(update)
        norm = self.crew.collect()
        rate = self.learning_rate(update)
        self.optimizer.lr = rate
        metrics: dict[str, float | Tensor]
        refused = None
        if self.tells_late:
            refused = self.guard.look(update, loss, norm)
            self.optimizer.clip_late(norm, self.adjusted["clip"])
            metrics = {"loss": loss, "lr": rate, "grad_norm": norm}
        else:
            length = norm.item()
            metrics = {"loss": loss.item(), "lr": rate, "grad_norm": length}
            if not (isfinite(metrics["loss"]) and isfinite(length)):
                self._refuse(update, loss)
            self.optimizer.clip_now(length, self.adjusted["clip"])
        self.optimizer.step(refused)
        self._updates = update
        return metrics

    def learning_rate(self, update: int) -> float:
        """Peak × schedule; the peak is what a person may turn, and the schedule goes on from there."""
        train = self.scenario.train
        return self.adjusted["lr"] * factor(update, train.warmup, train.steps, train.final, train.decay)

    def _gradients(self, update: int) -> Tensor:
        """Gradients of the mean loss over the scored targets of a batch, and that loss."""
        batch = self.data.train_batch(update - 1)
        if self.adjusted["dropout"] > 0:
            torch.manual_seed(derived_seed(self.scenario.seed, "dropout", update))
        scored = batch.scored  # one divisor for all parts: a mean of means would weigh targets by their part
        total = torch.zeros((), device=self.device)

        def learn(model: EncoderDecoder, part: Batch) -> Tensor:
            loss = summed_loss(model, part, *self.how, self.adjusted["label_smoothing"])[0] / scored
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach()

        for micro in batch.chunks(self.scenario.train.accumulate):
            # Dropout draws from one generator, in one order: with it the model works on the batch as a whole.
            if self.adjusted["dropout"] > 0:
                total += learn(self.model, micro.to(self.device))
            else:
                total += sum(self._shared(learn, micro.to(self.device)))
        return total

    def _shared(self, work: Any, batch: Batch) -> list[Any]:
        """work(model, part) for each thread's part of a batch, in the order of the parts."""
        if len(batch.lengths) < len(self.crew.models):
            return [work(self.model, batch)]
        rows = torch.arange(len(batch.lengths))
        return self.crew.each(
            lambda model, rows, _: work(model, batch.part(int(rows[0]), int(rows[-1]) + 1)), rows, rows
        )

    # What must never reach the weights

    def _refuse(self, update: int, loss: Tensor) -> None:
        name, value = first_not_finite(self.optimizer, loss)
        raise NotFinite(update, name, value)

    def verify(self) -> None:
        """Raise NotFinite for the first update that a GPU refused; its batch is computed again to name the tensor.

        The weights still are those before that update, and `step_count` goes back to them.
        """
        refused = self.guard.first() if self.tells_late else None
        if refused is None:
            return
        self._updates = refused - 1
        loss = self._gradients(refused)
        self.crew.collect()
        self.guard = LateGuard(self.device)
        self._refuse(refused, loss)

    # Looking

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """The same numbers for the same weights, on the unseen pairs, without dropout and label smoothing.

        val_loss        mean cross-entropy of the targets with teacher forcing, in nats a token
        token_accuracy  share of these targets that are the likeliest token
        exact_match     share of the sources whose translation, written greedily without help, is right in every token
        """

        def measure(model: EncoderDecoder, part: Batch) -> tuple[float, int, int]:
            with torch.no_grad():  # which is a thread's own
                loss, logits = summed_loss(model, part, *self.how)
                likeliest = int((logits.argmax(-1) == part.targets).sum())
                right = sum(
                    one == other
                    for one, other in zip(self.writing.greedy(model, sources_of(part)), wanted_of(part), strict=True)
                )
            return float(loss), likeliest, right

        training = self.model.training
        self.model.eval()
        try:
            total, likeliest, right, scored, pairs = 0.0, 0, 0, 0, 0
            for batch in self._validation:
                for loss, tokens, exact in self._shared(measure, batch.to(self.device)):
                    total, likeliest, right = total + loss, likeliest + tokens, right + exact
                scored, pairs = scored + batch.scored, pairs + len(batch.lengths)
        finally:
            self.model.train(training)
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
            step=self._updates,
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
        training = self.model.training
        self.model.eval()
        try:
            sources = [[*source, END] for source, _ in shown]
            if sampling.beam == 1:
                written = self.writing.greedy(self.model, sources)
            else:
                written = self.writing.beam(self.model, sources, sampling.beam, sampling.length_penalty)
        finally:
            self.model.train(training)
        return [self._sample(source, target, tokens) for (source, target), tokens in zip(shown, written, strict=True)]

    def _sample(self, source: Sequence[int], target: Sequence[int], written: Sequence[int]) -> Sample:
        """ "the bird sings" → " → ne lissan-e kann-u-ek (right)"; the judgement only where the answer is known."""
        decode = self.data.target_tokenizer.decode
        judged = f"(wrong; right is {decode(target)})" if list(written) != list(target) else "(right)"
        text = f" → {decode(written)} {judged if target else ''}".rstrip()
        return Sample(self.data.source_tokenizer.decode(source), text)

    def facts(self) -> Mapping[str, Any]:
        """A step's units are source and target tokens, special ones included, padding not."""
        batch, compute = self.scenario.train.batch, self.scenario.compute
        read = [(1 + source, 1 + target) for source, target in map(lengths, self.data.train)]
        return {
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "unit": "tokens",
            "units_per_step": batch * (self.data.source_tokens + self.data.target_tokens),
            "flops_per_step": batch * flops_per_pair(self.shape, read),
            "peak_flops": self._peak,
            "compute": {
                "device": compute.device,
                "name": describe(self.device),
                "dtype": compute.dtype,
                "attention": compute.attention,
                "threads": compute.threads,
                "share": compute.share,
                "compile": compute.compile,
                "why": list(self.why),
            },
            **self.data.facts(),
        }

    @cached_property
    def _peak(self) -> float:
        return measure_peak(self.device, DTYPES[self.scenario.compute.dtype])

    # What a person may change

    def adjustable(self) -> Mapping[str, Adjustable]:
        """ "lr" is the *peak* learning rate: warm-up and cosine go on, scaled."""
        return {name: Adjustable(name, self.adjusted[name], *bounds) for name, bounds in BOUNDS.items()}

    def adjust(self, name: str, value: float) -> None:
        if name not in self.adjusted:
            raise LabError(
                f"{name!r} cannot be changed while this runs{nearest(name, self.adjusted)}; "
                f"allowed: {', '.join(self.adjusted)}"
            )
        self.adjusted[name] = float(value)
        if name == "dropout":
            self.model.set_dropout(self.adjusted["dropout"])
        elif name == "weight_decay":
            self.optimizer.weight_decay = self.adjusted["weight_decay"]

    # Saving and putting back

    def state_dict(self) -> State:
        return {
            "corpus": self.data.fingerprint,
            "tokenizer": self.data.tokenizer_fingerprint,
            "step": self._updates,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state(),
            "adjusted": dict(self.adjusted),
            "why": list(self.why),
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
        load_weights(self.model, state["model"])
        self.optimizer.load(state["optimizer"])
        self.guard = LateGuard(self.device)
        for name, value in state["adjusted"].items():
            self.adjust(name, value)
        self._updates = int(state["step"])
        self.why = list(state["why"]) or self.why
