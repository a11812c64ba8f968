"""Many translations written at once, each token the likeliest one (MATH T8).

Notable: this is for evaluation, where hundreds of sources are read together: a row that has ended goes on with padding
until all have, and the encoder runs once. For one text, and with beams, see the engine's generation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.masks import Mask
from txlab.experiments.translation.symbols import END, PAD, START


@torch.no_grad()
def greedy(model: EncoderDecoder, source: Tensor, mask: Mask, kernel: Kernel, longest: int) -> list[list[int]]:
    """Source ids (B, S) under their padding mask → for each the target's ids, without start and end token.

    At most `longest` tokens; one that has not ended by then is returned as it is. Of equals the lowest id is taken.
    """
    memory = model.encode(source, kernel, mask)
    caches = model.empty_caches()
    newest = torch.full((len(source), 1), START, device=source.device)
    ended = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    written: list[Tensor] = []
    for _ in range(longest):
        logits = model(source, newest, kernel, source_mask=mask, caches=caches, memory=memory)[:, -1]  # (B, V)
        chosen = logits.argmax(-1).masked_fill(ended, PAD)  # (B)
        ended |= chosen == END
        written.append(chosen)
        if bool(ended.all()):
            break
        newest = chosen[:, None]
    rows: list[list[int]] = torch.stack(written, 1).tolist()
    return [row[: row.index(END)] if END in row else row for row in rows]
