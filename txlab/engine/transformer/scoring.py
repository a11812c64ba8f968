"""How probable a model finds a text: the log-probability of each token, their sum, perplexity (MATH R1).

The three kinds of model have three kinds of score. A decoder-only model gives log p(x₁ … x_T) = Σ log p(x_t | x_<t),
where the first token is not scored unless something precedes it; an encoder–decoder log p(target | source), including
the end token; BERT defines no probability of a text, only a *pseudo*-log-likelihood. A text longer than the context is
read in overlapping windows. Sums are in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp, inf, log, nan
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from txlab.engine.transformer.bert import Bert
from txlab.engine.transformer.generation import Translating, continues
from txlab.engine.transformer.gpt import GPT
from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.recurrent.language_model import RecurrentLM

FORMULAS = {
    "log-probability": "log p(x) = sum over t of log p(x_t | x_<t)",
    "pseudo-log-likelihood": "PLL(x) = sum over t of log p(x_t | x without x_t)",
    "log-probability given the source": "log p(y | x) = sum over t of log p(y_t | y_<t, x)",
}
AT_ONCE = 1 << 26  # logits per pass: 256 MB in float32


@dataclass(frozen=True)
class TokenScore:
    """One token, and how the model scored it.

    logp      its log p, in nats; NaN where nothing precedes it to predict it from
    rank      1 = no token was likelier; 0 where it is not scored
    entropy   −Σ p log p of the whole distribution, in nats: the surprise that the model expected
    likeliest, likeliest_logp   the model's most probable token
    seen      tokens of the text that the model could see
    """

    token: int
    logp: float
    rank: int = 0
    entropy: float = nan
    likeliest: int = -1
    likeliest_logp: float = nan
    seen: int = 0

    @property
    def scored(self) -> bool:
        return self.rank > 0


@dataclass(frozen=True)
class Score:
    """A scored text. `name` is one of FORMULAS; `stride` 0 = the whole text was read in one pass."""

    name: str
    tokens: tuple[TokenScore, ...]
    stride: int = 0

    @property
    def score_tokens(self) -> int:
        """The number of tokens that have a score."""
        return sum(token.scored for token in self.tokens)

    @property
    def total(self) -> float:
        """Σ log p, in nats."""
        return sum(token.logp for token in self.tokens if token.scored)

    @property
    def mean(self) -> float:
        """Nats per token: −Σ log p / n."""
        return -self.total / self.score_tokens if self.score_tokens else nan

    @property
    def perplexity(self) -> float:
        """exp(−Σ log p / n): the number of equally likely tokens that would be as uncertain on average."""
        mean = self.mean
        return exp(mean) if mean < 700 else inf if mean == mean else nan

    def bits_per_byte(self, size: int) -> float:
        """Return −Σ log₂ p / bytes of the scored tokens: comparable to a compressor, whatever the tokenizer."""
        return -self.total / log(2) / size if size and self.score_tokens else nan


def window_starts(length: int, context: int, stride: int) -> list[int]:
    """Return where windows of `context` inputs begin, so that each of the tokens 1 … length−1 is predicted once.

    >>> window_starts(8, 4, 2), window_starts(5, 4, 2), window_starts(1, 4, 2)
    ([0, 2, 4], [0], [])
    """
    if length < 2:
        return []
    beyond = max(0, length - 1 - context)
    return [stride * window for window in range(1 + -(-beyond // stride))]


def score_text(model: GPT | RecurrentLM, ids: Sequence[int], stride: int = 0) -> Score:
    """Compute log p(x_t | x_<t) of each token of a text under a decoder-only model. MATH R1.

    A text of more than T + 1 tokens is read in windows of T; each extends `stride` tokens beyond the one before (0 =
    half the context) and scores only those, so that a token sees at least the T − stride + 1 tokens before it, or all
    of them. stride = 1 gives every token the full context, at T times the cost. LabError for a stride outside 1 … T, or
    a token that is not in the vocabulary.
    """
    context = model.shape.context or max(1, len(ids))  # a model without a limit reads it in one pass
    continues(model)
    check(ids, model.shape.vocabulary, "text")
    if not 0 <= stride <= context:
        raise LabError(f"a stride of {stride} is not allowed; allowed: 1 to {context}, this model's context")
    stride = stride or max(1, context // 2)
    text = torch.tensor(list(ids))
    scores = [TokenScore(token, nan) for token in ids]
    starts = window_starts(len(ids), context, stride)
    with reading(model) as device:
        done = 1  # the first token is never predicted
        for start in starts:
            stop = min(start + context, len(ids) - 1)  # the last input; it predicts the token after it
            logits = model(text[None, start:stop].to(device))[0, done - 1 - start :]  # (new tokens, V)
            asked = text[done : stop + 1]
            seen = range(done - start, stop + 1 - start)
            scores[done : stop + 1] = score_rows(logits, asked, seen)
            done = stop + 1
    return Score("log-probability", tuple(scores), stride if len(starts) > 1 else 0)


def score_masked(
    model: Bert, ids: Sequence[int], mask: int, unasked: Sequence[int] = (), segments: Sequence[int] = ()
) -> Score:
    """Compute log p(x_t | all the others) of each token, masking one at a time; their sum is the PLL.

    Salazar et al. 2020, eq. 1. It is not a log-probability: the factors do not come from one distribution over texts.
    `unasked` are token ids that are not scored ([CLS], [SEP], and the mask itself); `segments` gives the text of a pair
    for each token. LabError past the context.
    """
    shape = model.shape
    check(ids, shape.vocabulary, "text")
    if len(ids) > shape.context:
        raise LabError(
            f"the text has {len(ids)} tokens; this model reads at most {shape.context}, and its prediction of a token "
            "depends on all of them"
        )
    places = [place for place, token in enumerate(ids) if token != mask and token not in unasked]
    scores = [TokenScore(token, nan) for token in ids]
    text = torch.tensor(list(ids))
    rows = max(1, AT_ONCE // max(1, len(ids) * shape.vocabulary))
    with reading(model) as device:
        for first in range(0, len(places), rows):
            asked = torch.tensor(places[first : first + rows])
            hidden = text.repeat(len(asked), 1)  # (B, T)
            hidden[torch.arange(len(asked)), asked] = mask
            belongs = torch.tensor([list(segments)] * len(asked), device=device) if segments else None
            logits = model(hidden.to(device), belongs)[torch.arange(len(asked)), asked.to(device)]  # (B, V)
            for place, token in zip(
                asked.tolist(), score_rows(logits, text[asked], [len(ids) - 1] * len(asked)), strict=True
            ):
                scores[place] = token
    return Score("pseudo-log-likelihood", tuple(scores))


def score_target(model: Translating, source: Sequence[int], target: Sequence[int]) -> Score:
    """Compute log p(y_t | y_<t, source) of each token of a target except the first, the decoder's start token.

    Include the end token; without it, this is the score of every target with this prefix. MATH R1, T8.
    """
    shape = model.shape
    check(source, shape.source_vocabulary, "source")
    check(target, shape.target_vocabulary, "target")
    for what, length in (("source", len(source)), ("target", len(target) - 1)):
        if length > shape.context:
            raise LabError(f"the {what} has {length} tokens; this model reads at most {shape.context}")
    scores = [TokenScore(token, nan) for token in target]
    if len(target) > 1:
        if not source:
            raise LabError("there is no source to translate: it has no tokens")
        with reading(model) as device:
            read = torch.tensor([list(source)], device=device)
            logits = model(read, torch.tensor([list(target[:-1])], device=device))[0]  # (T, V)
            scores[1:] = score_rows(logits, torch.tensor(list(target[1:])), range(1, len(target)))
    return Score("log-probability given the source", tuple(scores))


def score_rows(logits: Tensor, asked: Tensor, seen: Sequence[int]) -> list[TokenScore]:
    """Score tokens (n) by rows of logits (n, V), in float64, a few rows at a time."""
    scores: list[TokenScore] = []
    step = max(1, (AT_ONCE >> 3) // logits.shape[-1])
    for first in range(0, len(asked), step):
        row = logits[first : first + step].double()
        token = asked[first : first + step].to(row.device)
        logp = row.log_softmax(-1)  # (n, V)
        own = logp.gather(-1, token[:, None])  # (n, 1)
        rank = (logp > own).sum(-1) + 1
        entropy = -(logp.exp() * logp.nan_to_num(neginf=0.0)).sum(-1)
        best, likeliest = logp.max(-1)
        columns = (token, own[:, 0], rank, entropy, likeliest, best)
        for entry in zip(*(column.tolist() for column in columns), seen[first : first + step], strict=True):
            scores.append(TokenScore(*entry))
    return scores


@contextmanager
def reading(model: nn.Module) -> Iterator[torch.device]:
    """Yield the model's device, with dropout, gradients and autocast off; the model's mode is restored."""
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    try:
        with torch.inference_mode(), torch.autocast(device.type, enabled=False):
            yield device
    finally:
        model.train(training)


def check(ids: Sequence[int], vocabulary: int, what: str) -> None:
    """Raise LabError unless all ids are in the model's vocabulary."""
    for token in ids:
        if not 0 <= token < vocabulary:
            raise LabError(f"the {what} has the token {token}; this model's tokens are 0 … {vocabulary - 1}")
