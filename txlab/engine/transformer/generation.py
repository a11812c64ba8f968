"""One token after another (MATH T9): temperature, top-k, top-p, and a cache that changes no result.

Notable: a text longer than the context drops the *older half* of its window and reads the rest again, with or without
the cache. Sliding by one would shift every learned position at every token and make a cache useless; sliding by half
costs one full reading every T/2 tokens, and both ways of generating see exactly the same tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.gpt import GPT


def next_probabilities(logits: Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """softmax(logits / temperature), cut to the likeliest and made to sum to 1 again: (V) → (V) float32. MATH T9, F5.

    temperature 0   all the mass on the likeliest token (the lowest id among equals)
    top_k           only the k likeliest; 0 = all (Fan et al. 2018)
    top_p           only the smallest set whose mass reaches p, at least one token (Holtzman et al. 2020)
    """
    logits = logits.float()
    if temperature == 0:
        return torch.zeros_like(logits).index_fill(0, logits.argmax(), 1.0)
    probability = (logits / temperature).softmax(-1)
    if top_k or top_p < 1:
        ranked, order = probability.sort(descending=True, stable=True)
        keep = torch.ones_like(ranked, dtype=torch.bool)
        if top_k:
            keep[top_k:] = False
        # The mass *before* a token decides, so that the token that crosses p is still in.
        keep &= ranked.cumsum(-1) - ranked < top_p
        probability = torch.zeros_like(probability).index_copy(0, order, ranked * keep)
        probability = probability / probability.sum()
    return probability


def window_start(length: int, context: int) -> int:
    """Where the window of a text of `length` tokens begins: 0 until the context is full, then half a context on.

    >>> [window_start(length, 8) for length in (7, 8, 9, 12, 13)]
    [0, 0, 4, 4, 8]
    """
    half = max(1, context // 2)
    overflow = max(0, length - context)
    return -(-overflow // half) * half


@torch.no_grad()
def generate(
    model: GPT,
    prompt: Sequence[int],
    tokens: int,
    *,
    generator: torch.Generator,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    kernel: Kernel = "sdpa",
    cached: bool = True,
) -> Iterator[int]:
    """Yield `tokens` ids that continue the prompt (at least one id). MATH T9.

    `generator` is a CPU generator and the only source of randomness; the model is left in the mode it was in, so the
    caller turns dropout off with `model.eval()`. Raises ValueError for an empty prompt.
    """
    if not prompt:
        raise ValueError("there is nothing to continue: the prompt has no tokens")
    device = model.embed.weight.device
    text = list(prompt)
    caches, read, start = model.empty_caches(), 0, 0
    for _ in range(tokens):
        begin = window_start(len(text), model.shape.context)
        if begin != start or not cached:
            caches, read, start = model.empty_caches(), begin, begin
        fresh = torch.tensor([text[max(read, start) :]], device=device)  # (1, tokens not yet read)
        logits = model(fresh, kernel, caches=caches if cached else None)[0, -1]  # (V)
        read = len(text)
        probability = next_probabilities(logits, temperature, top_k, top_p).cpu()
        chosen = int(torch.multinomial(probability, 1, generator=generator))
        text.append(chosen)
        yield chosen
