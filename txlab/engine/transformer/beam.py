"""Beam search: the likeliest text rather than the likeliest next token (MATH T8).

Notable: a hypothesis ends only when its end token is among the `beams` best continuations of that step, so one beam
that stops at its first end is greedy decoding, token for token. Lengths count new tokens, including the end token.
Penalties and the three stopping rules are those of transformers; the log-probabilities returned are always the model's
own, unaffected by `never` and `rules`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

from txlab.engine.transformer.blocks import Kernel
from txlab.engine.transformer.generation import (
    FREE,
    Reading,
    Rules,
    TargetReading,
    Translating,
    ends_of,
    forbid,
    reading_of,
    require_choice,
)
from txlab.engine.transformer.gpt import GPT

if TYPE_CHECKING:
    from txlab.engine.recurrent.language_model import RecurrentLM

Penalty = Literal["wu", "power"]
# When to stop once `beams` hypotheses have ended: True, immediately (a better one may have been about to end); False,
# when the best unfinished one is not better than the worst of them at its present length; "never", when no unfinished
# one could become better at any length.
EarlyStopping = Literal[True, False, "never"]


class Hypothesis(NamedTuple):
    """ids    the generated ids, including the end token if there is one
    logp   Σ log p(token | those before) under the model itself, in nats
    score  the sort key: the same sum under the rules, divided by the length penalty
    """

    ids: list[int]
    logp: float
    score: float


def length_penalty(length: int, alpha: float, penalty: Penalty = "wu") -> float:
    """Return the divisor of a log-probability that keeps long texts, where each token lowers the sum, competitive.

    "wu" ((5 + length) / 6)^α, Wu et al. 2016, eq. 14 · "power" length^α, which at α = 1 gives the mean per token.
    """
    return float(((5 + length) / 6) ** alpha if penalty == "wu" else length**alpha)


def first_reading(
    model: GPT | RecurrentLM | Translating,
    text: Sequence[int],
    start: int | None,
    tokens: int,
    kernel: Kernel,
    cached: bool,
) -> tuple[Reading, int, int]:
    """Return (reading, given, tokens): its texts begin with `given` ids, and at most `tokens` can follow."""
    if not isinstance(model, Translating):
        return reading_of(model, [text], kernel, cached), len(text), tokens
    if start is None:
        raise ValueError("an encoder–decoder begins with a start token, and none is given")
    return TargetReading(model, [text], start, kernel, cached), 1, min(tokens, model.shape.context)


@torch.no_grad()
def beam_search(
    model: GPT | RecurrentLM | Translating,
    text: Sequence[int],
    tokens: int,
    *,
    beams: int = 4,
    end: int | Collection[int] | None = None,
    start: int | None = None,
    alpha: float = 0.0,
    penalty: Penalty = "wu",
    early_stopping: EarlyStopping = True,
    never: Collection[int] = (),
    rules: Rules = FREE,
    kernel: Kernel = "sdpa",
    cached: bool = True,
) -> list[Hypothesis]:
    """Return at most `beams` texts of at most `tokens` new ids, best first. MATH T8.

    `text` is a GPT's prompt or an encoder–decoder's source, which needs a `start` token. Each step keeps the `beams`
    best continuations of all hypotheses by Σ log p(token | those before); the final order is by this sum /
    length_penalty. The end token counts as a token and is the last id of a finished text; texts unfinished at the limit
    (for an encoder–decoder also its context) are ranked as they are. Ids in `never` are not generated, and `rules`
    apply.
    """
    if beams < 1:
        raise ValueError(f"the number of beams must be at least 1, not {beams}")
    reading, given, tokens = first_reading(model, text, start, tokens, kernel, cached)
    ends = ends_of(end)
    alive = [0.0]  # Σ log p under the rules, of each unfinished hypothesis
    logps = [0.0]  # the same without the rules
    ended: list[Hypothesis] = []

    def divisor(length: int) -> float:
        return length_penalty(length, alpha, penalty)

    for step in range(tokens):
        logits = reading.logits()
        own = (logits if logits.dtype == torch.float64 else logits.float()).log_softmax(-1)  # (B, V)
        ruled = rules(forbid(own, never), reading.texts, step, tokens - step)
        V = own.shape[-1]
        # Each hypothesis has len(ends) candidates that end it; take enough to fill the beams with others.
        total = torch.tensor(alive, dtype=own.dtype, device=own.device)[:, None] + ruled
        best, where = total.flatten().topk(min(max(2, 1 + len(ends)) * beams, total.numel()))
        if not ended:
            require_choice(best[:1])
        added = own.flatten()[where]
        rows: list[int] = []
        alive = []
        made: list[Hypothesis] = []  # unfinished
        for rank, (value, index, more) in enumerate(zip(best.tolist(), where.tolist(), added.tolist(), strict=True)):
            row, token = divmod(index, V)
            if value == float("-inf") or len(rows) == beams:
                break
            written = [*reading.texts[row][given:], token]
            hypothesis = Hypothesis(written, logps[row] + more, value / divisor(step + 1))
            if token not in ends:
                rows.append(row)
                alive.append(value)
                made.append(hypothesis)
            elif rank < beams:
                ended.append(hypothesis)
        if not rows:
            break
        logps = [hypothesis.logp for hypothesis in made]
        ended = sorted(ended, key=score_of, reverse=True)[:beams]
        if step + 1 == tokens:
            ended += made
        elif len(ended) == beams:
            # The sum only falls; the penalty is largest at the limit (α ≥ 0) or at the next step (α < 0).
            most = divisor(step + 1)
            if early_stopping == "never":
                most = max(divisor(length) for length in (step + 2, tokens))
            if early_stopping is True or alive[0] / most <= score_of(ended[-1]):
                break
        reading.go_on(rows, [hypothesis.ids[-1] for hypothesis in made])
    return sorted(ended, key=score_of, reverse=True)[:beams]


def score_of(hypothesis: Hypothesis) -> float:
    return hypothesis.score
