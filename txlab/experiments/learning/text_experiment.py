"""Training on the scored tokens of texts, for decoders and encoders (MATH T9, T10).

Notable: the loss is a separate plain function, so that torch compiles model and loss as one piece: the softmax over the
vocabulary is fused with the last product (4 layers of width 128 on two cores: 18.0 ms against 18.7).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.interpret.activation_cache import induction_scores, previous_token_scores, run_with_cache
from txlab.engine.interpret.sites import Text
from txlab.engine.recurrent.language_model import RecurrentShape
from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.blocks import Kernel
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.masks import Mask
from txlab.experiments.learning.gradient import GradientExperiment, Measured, Model
from txlab.experiments.learning.text_data import NOT_SCORED, Batch, Tally, TextData, identity, refuse_other
from txlab.experiments.learning.timing import Trial, as_asked, fitting
from txlab.experiments.protocol import Frame, State

TextShape = TypeVar("TextShape", GPTShape, BertShape)
MOST = 4096  # largest vocabulary that is timed: a larger one would take long to allocate and multiply


def summed_loss(
    model: nn.Module, inputs: Tensor, targets: Tensor, kernel: Kernel, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(Σ −log softmax(logits)[target] over the scored targets, logits): inputs and targets (B, T), logits (B, T, V).

    The model computes in `dtype`; the sum is taken in float32, because bfloat16 has 8 bits and a loss needs more.
    """
    with torch.autocast(inputs.device.type, dtype, enabled=dtype != torch.float32):
        logits: Tensor = model(inputs, kernel=kernel)
    scores, wanted = logits.float().flatten(0, 1), targets.flatten()
    return F.cross_entropy(scores, wanted, ignore_index=NOT_SCORED, reduction="sum"), logits


class TextExperiment(GradientExperiment[Model]):
    """A model that predicts the scored tokens of texts. `data` gives batches and texts, the scenario everything else.

    copying   whether training also measures "copy_accuracy", the share of scored targets that are the likeliest token
    """

    copying = False

    def __init__(
        self,
        scenario: Any,
        data: TextData,
        shape: GPTShape | BertShape | RecurrentShape,
        make: Callable[[torch.Generator], Model],
        further: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        super().__init__(scenario, make, further)
        self.data, self.shape = data, shape
        # Only training is compiled, for its shape; evaluation and generation have other shapes and are rare.
        self.training_loss = as_asked(summed_loss, scenario.compute)

    def batch_of(self, update: int) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs and targets (B, T), and how many targets are scored."""
        batch = self.data.train_batch(update - 1)
        return batch.inputs, batch.targets, (batch.targets != NOT_SCORED).sum()

    def gradients_of(self, *batch: Tensor) -> Measured:
        """Gradients of the mean loss over the scored targets of a batch; {"loss"}, and "copy_accuracy" if `copying`."""
        all_inputs, all_targets, scored = batch
        parts = self.scenario.train.accumulate

        def work(model: nn.Module, inputs: Tensor, targets: Tensor) -> Measured:
            summed, logits = self.training_loss(model, inputs, targets, *self.how)
            # One divisor for all micro-batches: a mean of means would weight targets by how they happened to be split.
            loss = summed / scored
            loss.backward()
            measured = {"loss": loss.detach()}
            if self.copying:
                measured["copy_accuracy"] = (logits.argmax(-1) == targets).sum() / scored
            return measured

        return self.accumulate(work, zip(all_inputs.chunk(parts), all_targets.chunk(parts), strict=True))

    def measure(self) -> tuple[float, dict[str, float]]:
        """Mean cross-entropy over the scored targets of the validation batches, in nats per token, without dropout; and
        the means of the metrics that the data tally."""

        def work(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[float, Tally]:
            with torch.no_grad():  # which is set per thread
                summed, logits = summed_loss(model, inputs, targets, *self.how)
                return float(summed), self.data.tally(targets, logits)

        total = scored = 0.0
        tallies = defaultdict[str, list[float]](lambda: [0.0, 0.0])
        with self.quiet():
            for batch in self._validation:
                parts = self.threads.each(work, self.on_device(batch.inputs), self.on_device(batch.targets))
                summed, count = sum(part[0] for part in parts), int((batch.targets != NOT_SCORED).sum())
                total += batch.weight * summed
                scored += batch.weight * count
                counted = [{f"val_loss/{batch.source}": (summed, count)}] if batch.source else []
                for sums in [*counted, *(part[1] for part in parts)]:
                    for name, (value, of) in sums.items():
                        tallies[name][0] += value
                        tallies[name][1] += of
        return total / scored, {name: value / of for name, (value, of) in tallies.items()}

    @cached_property
    def _validation(self) -> list[Batch]:
        return self.data.validation_batches()

    def text_frame(self, mask: Mask) -> Frame:
        """Patterns, queries and keys of the probe text in every head, two scores per head, the likeliest tokens."""
        ids, shape, label = self.data.probe, self.shape, self.data.label
        edges = shape.edges if isinstance(shape, GPTShape) else ()
        assert isinstance(self.model, GPT | Bert)
        assert not isinstance(shape, RecurrentShape)
        cache = run_with_cache(self.model, Text(tuple(ids)))
        patterns = cache.patterns("self")  # (L, H, T, T)
        probability, token = cache.probabilities(slice(None)).topk(
            min(self.scenario.probe.next_tokens, shape.vocabulary)
        )  # (T, k)
        shown = {
            "attention/pattern": patterns.half(),
            "attention/query": cache.queries["self"],
            "attention/key": cache.keys["self"],
            "attention/previous": previous_token_scores(patterns),
            "attention/induction": induction_scores(patterns, ids),
            "next/probability": probability,
        }
        likeliest = token.flatten().tolist()
        labels = {token: label(token) for token in {*ids, *likeliest}}
        return Frame(
            step=self.step_count,
            tensors={name: tensor.cpu() for name, tensor in shown.items()},
            tokens={"probe": [labels[token] for token in ids], "next": [labels[token] for token in likeliest]},
            texts={"probe": self.data.decode(ids)},
            facts={
                "mask": mask.name,
                "predicts": "next" if isinstance(shape, GPTShape) and not edges else "place",
                "layers": shape.layers,
                "heads": shape.heads,
                "head_width": shape.head_width,
                **({"edges": [list(edge) for edge in edges]} if edges else {}),
            },
        )

    def facts(self) -> Mapping[str, Any]:
        cost, tokens = costs(self.shape), self.scenario.train.batch * self.scenario.model.context
        return {
            "parameters": cost.parameters,
            "unit": "tokens",
            "units_per_step": tokens,
            "flops_per_step": cost.flops_per_token * tokens,
            **super().facts(),
            **self.data.facts(),
        }

    def state_dict(self) -> State:
        return {**self._identity, **super().state_dict()}

    @cached_property
    def _identity(self) -> State:
        return identity(self.data)

    def load_state_dict(self, state: State) -> None:
        """Restore a saved state. LabError if it is of another corpus, tokenizer or model shape."""
        refuse_other(state, self.data, self.scenario.data)
        super().load_state_dict(state)


def expected_tokens(tokenizer: str, vocabulary: int) -> int:
    """The approximate vocabulary, before the text has been read."""
    return {"bytes": 256, "characters": 128}.get(tokenizer, vocabulary)


def trial_on_ids(whole: TextShape, model: Callable[[TextShape, torch.Generator], Model], scenario: Any) -> Trial[Model]:
    """A trial step of a decoder or encoder of this shape on random tokens, every one of which is scored."""
    train, device = scenario.train, scenario.compute.device
    steps = train.steps * train.accumulate
    shape, batch, part, scale = fitting(whole, train.batch // train.accumulate, steps, device)
    ids = torch.randint(shape.vocabulary, (batch, shape.context), generator=torch.Generator().manual_seed(0))
    return Trial(
        lambda generator: model(shape, generator),
        train,
        steps * part,
        summed_loss,
        lambda: (ids, ids),
        batch,
        shape.dropout,
        scale,
    )
