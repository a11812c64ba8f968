"""The likeliest text rather than the likeliest next token: beam search (MATH T8).

Notable: a hypothesis ends only when its end token is among the `beams` best continuations of that step, so one beam is
greedy decoding, token for token. The search stops as soon as `beams` hypotheses have ended (what most programs do, and
then something better may have been about to end), or, `patient`, when none that is alive could still overtake them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.generation import TargetReading, TextReading, forbid
from txlab.engine.transformer.gpt import GPT

Penalty = Literal["wu", "power"]


def length_penalty(length: int, alpha: float, penalty: Penalty = "wu") -> float:
    """What a log-probability is divided by, so that long texts, each token of which costs something, are not shunned.

    "wu" ((5 + length) / 6)^α, Wu et al. 2016, eq. 14 · "power" length^α, which at α = 1 is the mean a token.
    """
    return float(((5 + length) / 6) ** alpha if penalty == "wu" else length**alpha)


@torch.no_grad()
def beam_search(
    model: GPT | EncoderDecoder,
    text: Sequence[int],
    tokens: int,
    *,
    beams: int = 4,
    end: int | None = None,
    start: int | None = None,
    alpha: float = 0.0,
    penalty: Penalty = "wu",
    patient: bool = False,
    never: Sequence[int] = (),
    kernel: Kernel = "sdpa",
    cached: bool = True,
) -> list[tuple[list[int], float]]:
    """At most `beams` texts of at most `tokens` new ids with their log-probabilities, best first. MATH T8.

    `text` is a GPT's prompt or an encoder–decoder's source, which needs a `start` token. At each step the `beams` best
    of all continuations of all hypotheses are kept, by Σ log p(token | those before); the order at the end is that of
    log p / length_penalty. An `end` counts as a token, and is the last id of a text that came to it; texts that did not
    within the limit (of an encoder–decoder also its context) count as they stand. Never writes `never`.
    """
    if beams < 1:
        raise ValueError(f"a beam of {beams} hypotheses is none")
    reading: TextReading | TargetReading
    if isinstance(model, GPT):
        reading, given = TextReading(model, [text], kernel, cached), len(text)
    elif start is None:
        raise ValueError("an encoder–decoder begins with a start token, and none is given")
    else:
        reading, given, tokens = (
            TargetReading(model, [text], start, kernel, cached),
            1,
            min(tokens, model.shape.context),
        )
    alive = [0.0]  # log-probability of each hypothesis that is still written
    ended: list[tuple[list[int], float]] = []

    def score(hypothesis: tuple[list[int], float]) -> float:
        return hypothesis[1] / length_penalty(len(hypothesis[0]), alpha, penalty)

    for step in range(tokens):
        logits = forbid(reading.logits(), never)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        V = logits.shape[-1]
        # Twice as many as there are beams: each hypothesis has one end, so enough go on whatever ends.
        total = torch.tensor(alive, dtype=logits.dtype, device=logits.device)[:, None] + logits.log_softmax(-1)
        best, where = total.flatten().topk(min(2 * beams, total.numel()))
        rows: list[int] = []
        chosen: list[int] = []
        alive = []
        for rank, (value, index) in enumerate(zip(best.tolist(), where.tolist(), strict=True)):
            row, token = divmod(index, V)
            if value == float("-inf") or len(rows) == beams:
                break
            if token != end:
                rows.append(row)
                chosen.append(token)
                alive.append(value)
            elif rank < beams:
                ended.append(([*reading.texts[row][given:], token], value))
        if not rows:
            break
        ended = sorted(ended, key=score, reverse=True)[:beams]
        if step + 1 == tokens:
            texts = [[*reading.texts[row][given:], token] for row, token in zip(rows, chosen, strict=True)]
            ended += zip(texts, alive, strict=True)
        elif len(ended) == beams:
            # log p only falls; what divides it is largest at the limit (α ≥ 0) or now (α < 0).
            most = max(length_penalty(length, alpha, penalty) for length in (step + 2, tokens))
            if not patient or alive[0] / most <= score(ended[-1]):
                break
        reading.go_on(rows, chosen)
    return sorted(ended, key=score, reverse=True)[:beams]
