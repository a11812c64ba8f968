"""What a model predicts: after each layer (the logit lens), and with and without interventions (MATH T9, H5).

The divergence is computed from log-probabilities in float64, KL(before ‖ after): the extra surprise at the original
model's predictions under the changed one. Zero means that nothing changed. The lens applies the model's own final norm
and unembedding to the stream after each block (nostalgebraist 2020); nothing is trained for it, so early rows read the
stream in the basis of the output, which it need not use yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from txlab.engine.interpret.activation_cache import ActivationCache, run_with_cache
from txlab.engine.interpret.interventions import EditWeight, Erratum, Intervention, intervening, remarks
from txlab.engine.interpret.sites import Model, Text, looking, run
from txlab.errors import LabError


@dataclass(frozen=True)
class ProbabilityChange:
    """A token whose probability changed."""

    token: int
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before


@dataclass(frozen=True)
class Effect:
    """The next-token distribution at a position without and with interventions.

    before, after   probabilities (V), float64
    kl              Σ p ln(p/q) in nats, p before, q after
    moved           the tokens whose probability changed most, by |Δp|, largest first
    remarks         notes on the numbers, a sentence each
    """

    before: Tensor
    after: Tensor
    kl: float
    moved: tuple[ProbabilityChange, ...]
    remarks: tuple[str, ...] = ()


def effect(
    model: Model,
    text: Text,
    interventions: Iterable[Intervention],
    second: Text | None = None,
    position: int = -1,
    most: int = 20,
) -> Effect:
    """Run the model without and with the interventions, and compare what it predicts at `position`."""
    given = tuple(interventions)
    before = run(model, text)
    with intervening(model, text, given, second) as hooks:
        after = run(model, text, hooks)
    return compare_logits(before, after, position, most, remarks(model, given))


def compare(before: ActivationCache, after: ActivationCache, position: int = -1, most: int = 20) -> Effect:
    """`effect` of two existing passes (of two interventions, two checkpoints, two texts)."""
    if before.logits.shape[-1] != after.logits.shape[-1]:
        raise LabError(
            f"predictions over {before.logits.shape[-1]} and {after.logits.shape[-1]} tokens cannot be compared: "
            "the vocabularies differ"
        )
    return compare_logits(before.logits, after.logits, position, most)


def compare_logits(before: Tensor, after: Tensor, position: int, most: int, notes: Iterable[str] = ()) -> Effect:
    """Return the Effect at one position of two logits (T, V)."""
    for logits in (before, after):
        if not -len(logits) <= position < len(logits):
            raise LabError(f"there is no prediction at position {position}; allowed: 0 to {len(logits) - 1}")
    p, q = (logits[position].double().log_softmax(-1) for logits in (before, after))  # (V) each
    change = (q.exp() - p.exp()).abs()
    largest = change.topk(min(most, len(change))).indices
    moved = tuple(ProbabilityChange(int(token), float(p[token].exp()), float(q[token].exp())) for token in largest)
    return Effect(p.exp(), q.exp(), float(divergence(p, q)), tuple(one for one in moved if one.change), tuple(notes))


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """Return KL(p ‖ q) = Σ p (ln p − ln q) of log-probabilities (…, V) → (…), in nats, never below 0. MATH H5."""
    terms = p.exp() * (p - q)
    return torch.where(p == float("-inf"), 0.0, terms).sum(-1).clamp_min(0.0)


def divergences(before: Tensor, after: Tensor) -> Tensor:
    """Return KL(before ‖ after) at every position: logits (T, V) twice → (T), float64, one position at a time."""
    rows = zip(before, after, strict=True)
    return torch.stack([divergence(p.double().log_softmax(-1), q.double().log_softmax(-1)) for p, q in rows])


@dataclass(frozen=True)
class Lens:
    """The logit lens: row 0 is the embedding, row l the stream after block l; N layers give N + 1 rows.

    logits         (N + 1, V)
    ids            (N + 1, k) the likeliest tokens of each row
    probabilities  (N + 1, k)
    final          (N + 1) the probability of the last row's likeliest token
    kl             (N + 1) KL(last row ‖ this row) in nats: how far this row is from the final prediction
    """

    position: int
    logits: Tensor
    ids: Tensor
    probabilities: Tensor
    final: Tensor
    kl: Tensor


def lens(
    model: Model,
    text: Text,
    position: int = -1,
    k: int = 5,
    interventions: Iterable[Intervention] = (),
    second: Text | None = None,
) -> Lens:
    """Compute softmax(W_U LN(x_l)) of the stream x_l at a position after every layer."""
    check_position(text, position)
    return lens_at(model, run_with_cache(model, text, interventions, second), position, k)


@torch.no_grad()
def lens_at(model: Model, cache: ActivationCache, position: int = -1, k: int = 5) -> Lens:
    """`lens` of an existing pass: nothing is run again, so it is fast enough to follow a cursor."""
    check_position(cache.text, position)
    lasting = [wish for wish in cache.interventions if isinstance(wish, EditWeight | Erratum)]
    with intervening(model, cache.text, lasting), looking(model):
        logits = model.logits(cache.residual_stream[:, position])  # (N + 1, V)
    logprobs = logits.double().log_softmax(-1)
    probabilities, ids = logits.softmax(-1).topk(min(k, logits.shape[-1]), -1)
    return Lens(
        position=position,
        logits=logits,
        ids=ids,
        probabilities=probabilities,
        final=logprobs[:, ids[-1, 0]].exp(),
        kl=divergence(logprobs[-1], logprobs),
    )


def check_position(text: Text, position: int) -> None:
    """Raise LabError unless the predicting stream has this position."""
    length = len(text.predicting)
    if not -length <= position < length:
        raise LabError(f"there is no prediction at position {position}; allowed: 0 to {length - 1}")
