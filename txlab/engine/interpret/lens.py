"""What each layer would predict, were it the last: the logit lens (MATH T9; nostalgebraist 2020).

Notable: the stream after each block goes through the model's own last norm and unembedding, nothing is trained for it;
so early rows are what the stream says in the output's language, which it need not speak yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from txlab.engine.interpret.acting import intervening
from txlab.engine.interpret.activation_cache import Seen, see
from txlab.engine.interpret.effects import divergence
from txlab.engine.interpret.interventions import EditWeight, Erratum, Intervention
from txlab.engine.interpret.sites import Model, Text, looking
from txlab.errors import LabError


@dataclass(frozen=True)
class Lens:
    """Row 0 is the embedding, row l the stream after block l; N layers make N + 1 rows.

    logits         (N + 1, V)
    ids            (N + 1, k) the likeliest tokens of each row
    probabilities  (N + 1, k)
    final          (N + 1) the probability of the token that the last row finds likeliest
    kl             (N + 1) KL(last row ‖ this row) in nats: how far this row is from what is said in the end
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
    """softmax(W_U LN(x_l)) of the stream x_l at a position after every layer."""
    check_position(text, position)
    return lens_at(model, see(model, text, interventions, second), position, k)


@torch.no_grad()
def lens_at(model: Model, seen: Seen, position: int = -1, k: int = 5) -> Lens:
    """`lens` of a pass that was already seen: no second one is run, so it may follow a cursor."""
    check_position(seen.text, position)
    lasting = [wish for wish in seen.interventions if isinstance(wish, EditWeight | Erratum)]
    with intervening(model, seen.text, lasting), looking(model):
        logits = model.logits(seen.streams[:, position])  # (N + 1, V)
    said = logits.double().log_softmax(-1)
    probabilities, ids = logits.softmax(-1).topk(min(k, logits.shape[-1]), -1)
    return Lens(
        position=position,
        logits=logits,
        ids=ids,
        probabilities=probabilities,
        final=said[:, ids[-1, 0]].exp(),
        kl=divergence(said[-1], said),
    )


def check_position(text: Text, position: int) -> None:
    """LabError unless the stream that predicts has such a position."""
    length = len(text.predicting)
    if not -length <= position < length:
        raise LabError(f"there are predictions at positions 0 to {length - 1}; {position} is none of them")
