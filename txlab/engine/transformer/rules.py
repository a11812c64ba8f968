"""What may be written whatever the model says: repetitions that cost, tokens that are forbidden or forced (MATH T9).

Notable: the rules of a generation_config.json, with the meaning and in the order that transformers gives them, so that
a folder of others writes here what it writes there. Sampling applies them to the logits; beam search to
log-probabilities, whose sums then rank hypotheses and are no longer the model's own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rules:
    """
    never           ids that are not written
    never_first     ids that are not written first
    never_rows      rows of ids that are not written one after the other
    first           the id that follows a text of a single one (the start token of a target), whatever is likelier
    last            ids one of which must be the last where the length is exhausted
    repetition      θ: the score of an id that stands in the text already is divided by θ if positive, else multiplied.
                    Keskar et al. 2019, §4.1, who divide; a negative score divided would be a larger one
    renormalised    probabilities of what is left sum to 1 again before beam search adds their logarithms
    """

    never: Collection[int] = ()
    never_first: Collection[int] = ()
    never_rows: Sequence[tuple[int, ...]] = ()
    first: int | None = None
    last: Collection[int] = ()
    repetition: float = 1.0
    renormalised: bool = False

    def __call__(self, scores: Tensor, texts: Sequence[Sequence[int]], written: int, left: int) -> Tensor:
        """Scores (B, V) of what follows each of B texts, which end with `written` new ids; at most `left` follow."""
        if self.repetition != 1:
            scores = scores.clone()
            for row, text in zip(scores, texts, strict=True):
                there = torch.tensor(sorted(set(text)), device=scores.device)
                row[there] = torch.where(row[there] < 0, row[there] * self.repetition, row[there] / self.repetition)
        if self.never_rows:
            scores = scores.clone()
            for row, text in zip(scores, texts, strict=True):
                for *before, token in self.never_rows:
                    if list(text[len(text) - len(before) :]) == before:
                        row[token] = float("-inf")
        scores = forbid(scores, self.never)
        if self.first is not None and len(texts[0]) == 1:
            scores = only(scores, [self.first])
        if self.last and left == 1:
            scores = only(scores, self.last)
        # Where the first id is forced, the second is the first that is chosen.
        if written == (self.first is not None and len(texts[0]) - written == 1):
            scores = forbid(scores, self.never_first)
        return scores.log_softmax(-1) if self.renormalised else scores


def forbid(logits: Tensor, never: Collection[int]) -> Tensor:
    """The logits with −∞ at the ids that must not be written (padding, say)."""
    return logits if not never else logits.index_fill(-1, torch.tensor(list(never), device=logits.device), -torch.inf)


def only(scores: Tensor, ids: Collection[int]) -> Tensor:
    """0 at these ids and −∞ at all others: one of them is certain."""
    index = torch.tensor(list(ids), device=scores.device)
    return torch.full_like(scores, -torch.inf).index_fill(-1, index, 0.0)
