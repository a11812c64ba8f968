"""What one short text looks like from inside an encoder: queries, keys, patterns, what each position says (MATH T10).

Notable: as for a decoder, training keeps nothing; looking runs the model once more on one text, in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from txlab.engine.transformer.attention import NO_MASK, pattern, scores
from txlab.engine.transformer.bert import Bert
from txlab.engine.transformer.hooks import keeping


@dataclass(frozen=True)
class Inspection:
    """queries, keys (L, H, T, K) as they enter the product · patterns (L, H, T, T) · probabilities (T, V)."""

    queries: Tensor
    keys: Tensor
    patterns: Tensor
    probabilities: Tensor


@torch.inference_mode()
def inspect(model: Bert, ids: Sequence[int]) -> Inspection:
    """Run the model on one text without dropout, in float32, and keep what attention did. The mode is put back."""
    device = model.embed.weight.device
    switched = model.training and model.dropout.p > 0
    if switched:
        model.eval()
    try:
        hooks, kept = keeping(*(f"encoder.blocks.*.attention.{name}" for name in ("query", "key")))
        with torch.autocast(device.type, enabled=False):
            logits = model(torch.tensor([list(ids)], device=device), kernel="matmul", hooks=hooks)[0]  # (T, V)
        q, k = (  # (L, H, T, K) each
            torch.cat([kept[f"encoder.blocks.{layer}.attention.{name}"] for layer in range(model.shape.layers)])
            for name in ("query", "key")
        )
        seen = pattern(scores(q, k), NO_MASK.allowed(len(ids), len(ids), device))
        return Inspection(q, k, seen, logits.float().softmax(-1))
    finally:
        if switched:
            model.train()
