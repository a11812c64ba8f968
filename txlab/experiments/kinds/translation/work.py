"""What translating a pair costs, counted on paper (MATH T8, T9); the rules are those of `engine.transformer.costs`."""

from __future__ import annotations

from collections.abc import Iterable

from txlab.engine.transformer.encoder_decoder import EncoderDecoderShape


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
