"""What one short text looks like from inside: queries, keys, patterns, next tokens, two scores of each head (MATH T1).

Notable: training runs the fast kernel and keeps nothing; looking runs the model once more on one text, in float32, and
forms its patterns with the same `scores` and `pattern`. That costs about one per cent; keeping the patterns of whole
batches would cost 7 to 25.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from txlab.engine.transformer.attention import Mask, pattern, scores
from txlab.engine.transformer.gpt import GPT
from txlab.engine.transformer.hooks import keeping

KEPT = ("query", "key", "value")


@dataclass(frozen=True)
class Inspection:
    """queries, keys, values (L, H, T, K) as they enter the product · patterns (L, H, T, T) · probabilities (T, V)."""

    queries: Tensor
    keys: Tensor
    values: Tensor
    patterns: Tensor
    probabilities: Tensor


@torch.inference_mode()
def inspect(model: GPT, ids: Sequence[int], mask: Mask | None = None) -> Inspection:
    """Run the model on one text without dropout, in float32, and keep what attention did. The mode is put back."""
    device = model.embed.weight.device
    # Without dropout the two modes are one, and switching walks all modules: as long as one layer takes.
    switched = model.training and model.dropout.p > 0
    if switched:
        model.eval()
    try:
        hooks, kept = keeping(*(f"blocks.*.attention.{name}" for name in KEPT))
        with torch.autocast(device.type, enabled=False):
            logits = model(torch.tensor([list(ids)], device=device), "sdpa", mask, hooks=hooks)[0]  # (T, V)
        layers = range(model.shape.layers)
        q, k, v = (  # (L, H, T, K) each
            torch.cat([kept[f"blocks.{layer}.attention.{name}"] for layer in layers]) for name in KEPT
        )
        allowed = (mask or model.mask).allowed(len(ids), len(ids), device)
        return Inspection(q, k, v, pattern(scores(q, k), allowed), logits.float().softmax(-1))
    finally:
        if switched:
            model.train()


def previous_token_scores(patterns: Tensor) -> Tensor:
    """mean over i ≥ 1 of α[i, i−1]: patterns (L, H, T, T) → (L, H); NaN for a text of one token. Olsson et al. 2022."""
    return patterns.diagonal(offset=-1, dim1=-2, dim2=-1).mean(-1)


def induction_scores(patterns: Tensor, ids: Sequence[int]) -> Tensor:
    """How much a head looks at what followed the current token before: (L, H, T, T) → (L, H) in [0, 1].

    The mean of Σⱼ α[i, j] over j < i with token(j−1) = token(i), over the positions i that have such a j: the attention
    to what followed the token where it came before. After an immediate repeat that is the position itself, which does
    not count. NaN where no i has a j. On a text whose second half repeats its first, a perfect induction head has 1.
    Olsson et al. 2022 ("prefix matching").
    """
    after, rows = repeats(tuple(ids), patterns.device)
    looked = (patterns * after).sum(-1)  # (L, H, T)
    return looked[..., rows].mean(-1)


@lru_cache(maxsize=8)
def repeats(ids: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """after[i, j], the token before j < i is the token at i: (T, T); and the rows where that is so anywhere: (T).

    Remembered, because one text is looked at thousands of times while a model learns.
    """
    tokens = torch.tensor(ids, device=device)
    after = torch.zeros(len(ids), len(ids), dtype=torch.bool, device=device)
    after[:, 1:] = tokens[:, None] == tokens[None, :-1]
    after = after.tril(-1)
    return after, after.any(-1)
