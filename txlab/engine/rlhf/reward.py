"""The reward model: a language model whose unembedding is replaced by a scalar head, and the losses it learns from
ranked answers by (MATH H2, H3).

Notable: all pairs of one prompt are averaged before the prompts are, as Ouyang et al. 2022, §3.5, do: K answers give up
to K(K−1)/2 correlated pairs, and a prompt with fewer ties should not count for more. The loss does not change if a
constant is added to every score; `Normaliser` fixes that constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.gpt import GPT, GPTShape


class ScalarGPT(GPT):
    """Token ids (B, T) → (B, T, 1): one number per token, from a GPT without its unembedding. MATH H2, H4.

    As a reward model its number at an answer's last token is the answer's score; as a value function, the number at
    each token is the value of the state before the next one.
    """

    def __init__(self, shape: GPTShape, generator: torch.Generator | None = None) -> None:
        super().__init__(shape, generator)
        self.head = nn.Linear(shape.width, 1)
        with torch.no_grad():  # standard deviation 1/√(D + 1), as in Ziegler et al. 2019
            self.head.weight.normal_(0.0, (shape.width + 1) ** -0.5, generator=generator)
            self.head.bias.zero_()

    def logits(self, x: Tensor) -> Tensor:
        """(…, D) → (…, 1), instead of the unembedding."""
        return self.head(x if self.final_norm is None else self.final_norm(x))  # type: ignore[no-any-return]

    @classmethod
    def begin_from(cls, model: GPT, generator: torch.Generator | None = None) -> ScalarGPT:
        """A scalar model with a language model's (or another scalar model's) weights; a new head unless it has one."""
        with torch.random.fork_rng(devices=[]):
            made = cls(model.shape, generator)
        made.load_state_dict(
            {name: tensor for name, tensor in model.state_dict().items() if "unembed" not in name}, False
        )
        return made


@dataclass(frozen=True)
class RankingLoss:
    """loss of all prompts · per_prompt (B,) · pairs (B,) that are not ties · right (B,) of them in the right order"""

    loss: Tensor
    per_prompt: Tensor
    pairs: Tensor
    right: Tensor

    @property
    def accuracy(self) -> Tensor:
        """The share of pairs in the right order; NaN if all are ties."""
        return self.right.sum() / self.pairs.sum()


def ranking_loss(scores: Tensor, ranks: Tensor) -> RankingLoss:
    """−(1/B′) Σ_prompts (1/#pairs) Σ log σ(r_w − r_l), over the pairs w ranked before l; ties are left out.

    scores  (B, K)      ranks  (B, K): 1 is best, equal numbers are ties, 0 is padding for fewer than K answers
    MATH H2 (with the minus sign that Wang's copy lacks); Ouyang et al. 2022, eq. 1. B′ of the B prompts have a pair: a
    prompt of ties only is left out of the denominator too. The loss is 0 if B′ is.
    """
    there = ranks > 0
    scores = scores.masked_fill(~there, 0.0)
    before = (ranks[:, :, None] < ranks[:, None, :]) & there[:, :, None] & there[:, None, :]  # (B, K, K): i before j
    difference = scores[:, :, None] - scores[:, None, :]
    pairs = before.sum((1, 2))
    per_prompt = -(F.logsigmoid(difference) * before).sum((1, 2)) / pairs.clamp(min=1)
    right = ((difference > 0) & before).sum((1, 2))
    return RankingLoss(per_prompt.sum() / (pairs > 0).sum().clamp(min=1), per_prompt, pairs, right)


def choice_loss(scores: Tensor, ranks: Tensor) -> Tensor:
    """−mean log softmax(r)_b: of K answers b is the best; several that share the first rank share the target.

    scores (B, K); ranks (B, K) as in `ranking_loss`, of which only who is first counts; a prompt on which all are first
    says nothing and is left out, of the mean too. MATH H3; Ziegler et al. 2019, eq. 1, with four answers.
    """
    there = ranks > 0
    first = (ranks == ranks.masked_fill(~there, ranks.max() + 1).min(1, keepdim=True).values) & there
    says = (first != there).any(1)
    scores, there, first = scores[says], there[says], first[says]
    logprobs = scores.masked_fill(~there, -torch.inf).log_softmax(1).masked_fill(~there, 0.0)
    losses = -(first / first.sum(1, keepdim=True) * logprobs).sum(1)
    return losses.sum() / says.sum().clamp(min=1)


@dataclass(frozen=True)
class Normaliser:
    """r ↦ (r − shift) / scale. The loss leaves the shift free, and β is measured in units of the scale."""

    shift: float = 0.0
    scale: float = 1.0

    def __call__(self, scores: Tensor) -> Tensor:
        return (scores - self.shift) / self.scale

    @classmethod
    def of_samples(cls, scores: Tensor) -> Normaliser:
        """Mean 0 and standard deviation 1 on samples of the reference policy (Ziegler et al. 2019, §2.1).

        ValueError for fewer than two samples, which have no standard deviation.
        """
        if len(scores) < 2:
            raise ValueError(f"scores are normalised on at least 2 samples; given {len(scores)}")
        return cls(float(scores.mean()), max(float(scores.std()), 1e-6))

    @classmethod
    def of_demonstrations(cls, scores: Tensor) -> Normaliser:
        """Demonstrations average 0 (Ouyang et al. 2022, §3.5)."""
        return cls(float(scores.mean()))
