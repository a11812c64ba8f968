"""What one pair looks like from inside: queries, keys and patterns of the three kinds of attention (MATH T1, T8).

Notable: as for a language model, training keeps nothing; looking runs the model once more on one pair, in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from txlab.engine.transformer.attention import CAUSAL, NO_MASK, Mask, pattern, scores
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.hooks import keeping

# Where attention is, and who may look at whom there.
SITES: dict[str, tuple[str, Mask]] = {
    "encoder": ("encoder.blocks.{}.attention", NO_MASK),
    "decoder": ("decoder.blocks.{}.attention", CAUSAL),
    "cross": ("decoder.blocks.{}.cross", NO_MASK),
}


@dataclass(frozen=True)
class Attention:
    """query (L, H, T, K) and key (L, H, S, K) as they enter the product, pattern (L, H, T, S)."""

    query: Tensor
    key: Tensor
    pattern: Tensor


@torch.inference_mode()
def look(model: EncoderDecoder, source: Sequence[int], target: Sequence[int]) -> tuple[Mapping[str, Attention], Tensor]:
    """(attention by site, next-token probabilities (T, V)): `target` begins with its start token. Mode is put back."""
    device = model.embed_target.weight.device
    switched = model.training and model.dropout.p > 0
    if switched:
        model.eval()
    try:
        hooks, kept = keeping(
            *(f"{place.format('*')}.{name}" for place, _ in SITES.values() for name in ("query", "key"))
        )
        ids = (torch.tensor([list(row)], device=device) for row in (source, target))
        with torch.autocast(device.type, enabled=False):
            logits = model(*ids, "matmul", hooks=hooks)[0]  # (T, V)
        seen = {}
        for site, (place, mask) in SITES.items():
            layers = model.shape.encoder_layers if site == "encoder" else model.shape.decoder_layers
            q, k = (
                torch.cat([kept[f"{place.format(layer)}.{name}"] for layer in range(layers)])
                for name in ("query", "key")
            )
            seen[site] = Attention(q, k, pattern(scores(q, k), mask.allowed(q.shape[-2], k.shape[-2], device)))
        return seen, logits.float().softmax(-1)
    finally:
        if switched:
            model.train()
