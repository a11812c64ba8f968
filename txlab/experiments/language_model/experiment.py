"""A decoder-only transformer learning to guess the next token, as an Experiment (MATH T9).

Notable: nothing random is saved. The batch and the dropout masks of update n are functions of (seed, n), and a sample's
choices of (seed, step), so a checkpoint is weights, AdamW's moments, the step, and what a person has changed.
An update that would write a NaN into the weights is refused before the weights are touched: at once on a CPU, and on a
GPU by a flag that the optimizer reads there (see `optimizer.LateGuard`), told to the loop by `verify`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import isfinite, log
from typing import Any

import torch
from torch import Tensor

from txlab.engine.device import DTYPES, choose_device, describe, measure_peak, repeat_exactly
from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.generation import generate
from txlab.engine.transformer.gpt import GPT
from txlab.engine.transformer.inspection import induction_scores, inspect, previous_token_scores
from txlab.engine.transformer.masks import CAUSAL
from txlab.errors import LabError, nearest
from txlab.experiments.language_model.batch import NOT_SCORED, Batch, Tally
from txlab.experiments.language_model.compiling import compiled_loss
from txlab.experiments.language_model.crew import Crew
from txlab.experiments.language_model.data import Data, build_data
from txlab.experiments.language_model.loss import summed_loss
from txlab.experiments.language_model.opening import load_weights
from txlab.experiments.language_model.optimizer import (
    LateGuard,
    LongAdamW,
    first_not_finite,
)
from txlab.experiments.language_model.probe import reasons, shape_of
from txlab.experiments.language_model.schedule import factor
from txlab.experiments.language_model.schema import LanguageModelScenario
from txlab.experiments.opened import kept_tokenizer
from txlab.experiments.protocol import Adjustable, Frame, NotFinite, Sample, State
from txlab.experiments.randomness import derived_seed


def build(scenario: LanguageModelScenario) -> LanguageModelExperiment:
    """The experiment of a scenario without "auto", with its number of threads set for this process."""
    torch.set_num_threads(scenario.compute.threads)
    repeat_exactly(choose_device(scenario.compute.device))
    return LanguageModelExperiment(scenario, build_data(scenario))


class LanguageModelExperiment:
    """See protocol.Experiment. `data` gives batches and texts, the scenario all the rest; no "auto" is left in it.

    The masked language model is one of these with another model and another loss: `made` and `loss_of`.
    """

    loss_of = staticmethod(summed_loss)
    not_turned: tuple[str, ...] = ()  # of what a person may change here, what another kind does not have

    def __init__(self, scenario: LanguageModelScenario, data: Data) -> None:
        train, compute = scenario.train, scenario.compute
        self.scenario, self.data = scenario, data
        self.device = choose_device(compute.device)
        self.tells_late = self.device.type == "cuda"
        # The constructors of torch's modules draw from the global generator; the weights come from their own.
        with torch.random.fork_rng(devices=[]):
            generator = torch.Generator().manual_seed(derived_seed(scenario.seed, "weights", 0))
            self.model = self.made(generator).to(self.device)
        self.shape = self.model.shape
        self.optimizer = LongAdamW(self.model, train, train.weight_decay)
        # Compiled is what training does, for its shape; evaluation and generation have others, and are seldom.
        self.crew = Crew(self.model, self.optimizer, compute.threads if compute.share == "batch" else 1)
        self.training_loss = compiled_loss(compute.share) if compute.compile is True else self.loss_of
        self.to_compile = compute.compile is True
        self.how: tuple[Kernel, torch.dtype] = (compute.attention, DTYPES[compute.dtype])  # type: ignore[assignment]
        self.guard = LateGuard(self.device)
        self.why = reasons(scenario)
        self.adjusted = {
            "lr": train.learning_rate,
            "clip": train.clip,
            "weight_decay": train.weight_decay,
            "dropout": scenario.model.dropout,
        }
        if "temperature" not in self.not_turned:
            self.adjusted["temperature"] = scenario.sampling.temperature
        self._updates = 0

    def made(self, generator: torch.Generator) -> GPT:
        """The model with the weights that it begins with."""
        return GPT(shape_of(self.scenario, self.data.vocabulary), generator)

    @property
    def step_count(self) -> int:
        return self._updates

    @property
    def steps(self) -> int:
        return self.scenario.train.steps

    # Learning

    def step(self) -> Mapping[str, float | Tensor]:
        """One update of AdamW: {"loss", "lr", "grad_norm"}, and "copy_accuracy" for the induction task.

        loss       mean cross-entropy of the scored targets of this batch, in nats, before the update
        grad_norm  ‖g‖ before clipping
        """
        update = self._updates + 1
        loss, right = self._gradients(update)
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
        if right is not None:
            metrics["copy_accuracy"] = right if self.tells_late else right.item()
        self.optimizer.step(refused)
        self._updates = update
        return metrics

    def learning_rate(self, update: int) -> float:
        """Peak × schedule; the peak is what a person may turn, and the schedule goes on from there."""
        train = self.scenario.train
        return self.adjusted["lr"] * factor(update, train.warmup, train.steps, train.final, train.decay)

    def _gradients(self, update: int) -> tuple[Tensor, Tensor | None]:
        """Gradients of the mean loss over the scored targets of a batch; (loss, share copied rightly or None)."""
        batch = self.data.train_batch(update - 1)
        if self.adjusted["dropout"] > 0:
            torch.manual_seed(derived_seed(self.scenario.seed, "dropout", update))
        # One divisor for all micro-batches: a mean of means would weigh targets by how they happened to be dealt.
        scored = int((batch.targets != NOT_SCORED).sum())
        copying = self.scenario.data.source == "induction"
        total = torch.zeros((), device=self.device)
        right = torch.zeros((), device=self.device)

        def learn(model: GPT, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor | None]:
            loss, logits = self.training_loss(model, inputs, targets, *self.how)
            loss = loss / scored
            loss.backward()
            return loss.detach(), (logits.argmax(-1) == targets).sum() / scored if copying else None

        for inputs, targets in self._micro_batches(batch):
            # Dropout draws from one generator, in one order: with it the model works on the batch as a whole.
            if self.adjusted["dropout"] > 0:
                parts = [learn(self.model, inputs, targets)]
            else:
                parts = self.crew.each(learn, inputs, targets, in_turn=self.to_compile)
            self.to_compile = False
            for loss, copied in parts:
                total += loss
                if copied is not None:
                    right += copied
        return total, right if copying else None

    def _micro_batches(self, batch: Batch) -> list[tuple[Tensor, Tensor]]:
        parts = self.scenario.train.accumulate
        return [
            (self._on_device(inputs), self._on_device(targets))
            for inputs, targets in zip(batch.inputs.chunk(parts), batch.targets.chunk(parts), strict=True)
        ]

    def _on_device(self, ids: Tensor) -> Tensor:
        if self.device.type != "cuda":
            return ids.to(self.device)
        return ids.pin_memory().to(self.device, non_blocking=True)  # pinned, or the copy would wait for the GPU

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
        loss, _ = self._gradients(refused)
        self.crew.collect()
        self.guard = LateGuard(self.device)
        self._refuse(refused, loss)

    # Looking

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """The same numbers for the same weights, without dropout.

        val_loss           mean cross-entropy over the fixed validation batches, in nats a token
        val_bits_per_byte  val_loss / ln 2 / bytes a token, where tokens are made of bytes
        val_loss/<text>, epochs/<text>   of each text of a mixture
        accuracy_<k>       of the few-shot task, after k examples
        """

        def measure(model: GPT, inputs: Tensor, targets: Tensor) -> tuple[float, Tally]:
            with torch.no_grad():  # which is a thread's own
                summed, logits = self.loss_of(model, inputs, targets, *self.how)
                return float(summed), self.data.tally(targets, logits)

        training = self.model.training
        self.model.eval()
        try:
            total = scored = 0.0
            tallies = defaultdict[str, list[float]](lambda: [0.0, 0.0])
            for batch in self._validation:
                inputs, targets = self._on_device(batch.inputs), self._on_device(batch.targets)
                parts = self.crew.each(measure, inputs, targets)
                summed, count = sum(part[0] for part in parts), int((batch.targets != NOT_SCORED).sum())
                total += batch.weight * summed
                scored += batch.weight * count
                counted = [{f"val_loss/{batch.source}": (summed, count)}] if batch.source else []
                for tally in [*counted, *(part[1] for part in parts)]:
                    for name, (value, of) in tally.items():
                        tallies[name][0] += value
                        tallies[name][1] += of
        finally:
            self.model.train(training)
        loss = total / scored
        metrics: dict[str, float | Tensor] = {"val_loss": loss}
        if isfinite(self.data.bytes_per_token):
            metrics["val_bits_per_byte"] = loss / log(2) / self.data.bytes_per_token
        metrics |= {name: value / of for name, (value, of) in tallies.items()}
        return {**metrics, **self.data.progress(self._updates)}

    @cached_property
    def _validation(self) -> list[Batch]:
        return self.data.validation_batches()

    def frame(self) -> Frame:
        """Patterns, queries and keys of the probe text in every head, two scores a head, the likeliest next tokens."""
        ids = self.data.probe
        seen = inspect(self.model, ids)
        k = min(self.scenario.look.next_tokens, self.shape.vocabulary)
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
        return Frame(
            step=self._updates,
            tensors={name: tensor.cpu() for name, tensor in shown.items()},
            tokens={
                "probe": [labels[token] for token in ids],
                "next": [labels[token] for token in token.flatten().tolist()],
            },
            facts={
                "mask": CAUSAL.name,
                "layers": self.shape.layers,
                "heads": self.shape.heads,
                "head_width": self.shape.head_width,
            },
        )

    def samples(self) -> Sequence[Sample]:
        """One continuation a prompt, drawn with a generator that depends on (seed, step) alone."""
        sampling = self.scenario.sampling
        generator = torch.Generator().manual_seed(derived_seed(self.scenario.seed, "sample", self._updates))
        training = self.model.training
        self.model.eval()
        try:
            return [
                Sample(self.data.decode(prompt), self.data.decode(list(written)))
                for prompt in self.data.prompts
                for written in [
                    generate(
                        self.model,
                        prompt,
                        sampling.tokens,
                        generator=generator,
                        temperature=self.adjusted["temperature"],
                        top_k=sampling.top_k,
                        top_p=sampling.top_p,
                    )
                ]
            ]
        finally:
            self.model.train(training)

    def facts(self) -> Mapping[str, Any]:
        cost = costs(self.shape)
        tokens = self.scenario.train.batch * self.shape.context
        compute = self.scenario.compute
        return {
            "parameters": cost.parameters,
            "unit": "tokens",
            "units_per_step": tokens,
            "flops_per_step": cost.flops_per_token * tokens,
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
        bounds = {
            "lr": (0.0, 10.0, ""),
            "clip": (0.0, 1e6, ""),
            "weight_decay": (0.0, 100.0, ""),
            "dropout": (0.0, 0.95, ""),
            "temperature": (0.0, 10.0, ""),
        }
        return {name: Adjustable(name, self.adjusted[name], *bounds[name]) for name in self.adjusted}

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
            "tokenizer_file": self._tokenizer_file,
            "step": self._updates,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state(),
            "adjusted": dict(self.adjusted),
            "why": list(self.why),
        }

    @cached_property
    def _tokenizer_file(self) -> str | None:
        return kept_tokenizer(self.data.tokenizer)

    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Take these in place of random weights: no update has been made, and nothing else is taken over."""
        load_weights(self.model, weights)

    def load_state_dict(self, state: State) -> None:
        """Go back to a saved state. LabError if it belongs to another corpus, tokenizer or model shape."""
        if state["corpus"] != self.data.fingerprint:
            raise LabError(
                f"data.text = {self.scenario.data.text!r} is not the corpus that this run began with (fingerprint "
                f"{self.data.fingerprint[:12]}, the checkpoint has {state['corpus'][:12]}); put that text back, or "
                "start a new run"
            )
        if state.get("tokenizer", self.data.tokenizer_fingerprint) != self.data.tokenizer_fingerprint:
            raise LabError(
                f"data.tokenizer = {self.scenario.data.tokenizer!r} is not the tokenizer that this run began with "
                f"(fingerprint {self.data.tokenizer_fingerprint[:12]}, the checkpoint has {state['tokenizer'][:12]}); "
                "put that one back, or start a new run"
            )
        shapes = {name: tuple(tensor.shape) for name, tensor in self.model.state_dict().items()}
        for name, tensor in state["model"].items():
            if shapes.pop(name, None) != tuple(tensor.shape):
                raise LabError(f"the checkpoint's {name} {tuple(tensor.shape)} does not fit this scenario's [model]")
        if shapes:
            raise LabError(f"the checkpoint lacks {next(iter(shapes))}, which this scenario's [model] has")
        self.model.load_state_dict(state["model"])
        self.optimizer.load(state["optimizer"])
        self.guard = LateGuard(self.device)
        for name, value in state["adjusted"].items():
            self.adjust(name, value)
        self._updates = int(state["step"])
        self.why = list(state["why"]) or self.why
