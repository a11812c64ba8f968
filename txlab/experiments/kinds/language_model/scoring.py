"""Learning from scored tokens, and being measured on them: for a decoder and for an encoder alike (MATH T9, T10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from txlab.engine.transformer.bert import BertShape
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.gpt import GPTShape
from txlab.experiments.kinds.language_model.batch import NOT_SCORED, Batch, Tally
from txlab.experiments.learning.learner import Learner, Measured

Loss: TypeAlias = Callable[..., tuple[Tensor, Tensor]]  # see `loss.summed_loss`


def learn(learner: Learner[Any], update: int, batch: Batch, loss_of: Loss, copying: bool = False) -> Measured:
    """Gradients of the mean loss over the scored targets of a batch; {"loss"}, with `copying` "copy_accuracy" too."""
    # One divisor for all micro-batches: a mean of means would weigh targets by how they happened to be dealt.
    scored = int((batch.targets != NOT_SCORED).sum())

    def work(model: nn.Module, inputs: Tensor, targets: Tensor) -> Measured:
        summed, logits = loss_of(model, inputs, targets, *learner.how)
        loss = summed / scored
        loss.backward()  # type: ignore[no-untyped-call]
        measured = {"loss": loss.detach()}
        if copying:
            measured["copy_accuracy"] = (logits.argmax(-1) == targets).sum() / scored
        return measured

    parts = learner.scenario.train.accumulate
    micro_batches = [
        (learner.on_device(inputs), learner.on_device(targets))
        for inputs, targets in zip(batch.inputs.chunk(parts), batch.targets.chunk(parts), strict=True)
    ]
    return learner.gradients(update, work, micro_batches)


def measure(
    learner: Learner[Any], batches: Sequence[Batch], loss_of: Loss, tally: Callable[[Tensor, Tensor], Tally]
) -> tuple[float, dict[str, float]]:
    """Mean cross-entropy over the scored targets, in nats a token; and the means of what `tally` counts."""

    def work(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[float, Tally]:
        with torch.no_grad():  # which is a thread's own
            summed, logits = loss_of(model, inputs, targets, *learner.how)
            return float(summed), tally(targets, logits)

    total = scored = 0.0
    tallies = defaultdict[str, list[float]](lambda: [0.0, 0.0])
    with learner.quiet():
        for batch in batches:
            parts = learner.crew.each(work, learner.on_device(batch.inputs), learner.on_device(batch.targets))
            summed, count = sum(part[0] for part in parts), int((batch.targets != NOT_SCORED).sum())
            total += batch.weight * summed
            scored += batch.weight * count
            counted = [{f"val_loss/{batch.source}": (summed, count)}] if batch.source else []
            for found in [*counted, *(part[1] for part in parts)]:
                for name, (value, of) in found.items():
                    tallies[name][0] += value
                    tallies[name][1] += of
    return total / scored, {name: value / of for name, (value, of) in tallies.items()}


def work_facts(shape: GPTShape | BertShape, batch: int) -> dict[str, Any]:
    """What run.json says of a step: parameters, tokens, and what they cost."""
    cost, tokens = costs(shape), batch * shape.context
    return {
        "parameters": cost.parameters,
        "unit": "tokens",
        "units_per_step": tokens,
        "flops_per_step": cost.flops_per_token * tokens,
    }
