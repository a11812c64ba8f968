"""Answers as tensors: sampled in a batch, read again by policy, reference, reward model and value function (MATH H4).

A prompt of P tokens and its answer of T share a row, padded on the right, where a causal model never looks. The
token a_t was chosen in the state that ends with the token before it, so log-probabilities and values of an answer are
in the rows P − 1 … P + T − 2 of a model's output, and the answer's score in row P + T − 1, its last token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from txlab.engine.rlhf.reward import ScalarGPT
from txlab.engine.transformer.generation import generate_batch
from txlab.engine.transformer.gpt import GPT


@dataclass(frozen=True)
class Episodes:
    """Prompts with their answers.

    ids      (B, S) prompt, answer, padding         prompts  (B,) lengths P of the prompts
    answers  (B, T) the answers' tokens, padded     mask     (B, T) True for the tokens of an answer, its end included
    """

    ids: Tensor
    prompts: Tensor
    answers: Tensor
    mask: Tensor

    @classmethod
    def of(
        cls,
        prompts: Sequence[Sequence[int]],
        answers: Sequence[Sequence[int]],
        pad: int,
        device: torch.device | str = "cpu",
    ) -> Episodes:
        """Pack them, on the device of the models that will read them. ValueError for an empty prompt or answer."""
        if not all(prompts) or not all(answers):
            raise ValueError("a prompt and an answer have at least one token each")
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        answer_lengths = torch.tensor([len(answer) for answer in answers])
        S, T = int((lengths + answer_lengths).max()), int(answer_lengths.max())
        rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
        packed = (
            torch.tensor([[*row, *[pad] * (S - len(row))] for row in rows]),
            lengths,
            torch.tensor([[*answer, *[pad] * (T - len(answer))] for answer in answers]),
            torch.arange(T) < answer_lengths[:, None],
        )
        return cls(*(tensor.to(device) for tensor in packed))

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, chosen: Tensor) -> Episodes:
        """Some of them, without columns that are padding for all."""
        prompts, mask = self.prompts[chosen], self.mask[chosen]
        T, S = int(mask.sum(1).max()), int((prompts + mask.sum(1)).max())
        return Episodes(self.ids[chosen, :S], prompts, self.answers[chosen, :T], mask[:, :T])

    def states(self, x: Tensor) -> Tensor:
        """(B, S, …) → (B, T, …): the rows from which each token of the answer was chosen; padding repeats one."""
        places = self.prompts[:, None] - 1 + torch.arange(self.mask.shape[1], device=self.mask.device)
        places = places.clamp(max=x.shape[1] - 1)
        return x.gather(1, places.reshape(*places.shape, *[1] * (x.dim() - 2)).expand(-1, -1, *x.shape[2:]))

    def logits(self, model: GPT, temperature: float = 1.0) -> Tensor:
        """The logits (B, T, V) at each token of the answer, divided by the temperature."""
        return self.states(model(self.ids)).float() / temperature  # type: ignore[no-any-return]

    def logprobs(self, logits: Tensor) -> Tensor:
        """(B, T) log π(a_t | s_t), from `logits`."""
        return logits.log_softmax(-1).gather(-1, self.answers[..., None])[..., 0]

    def values(self, model: ScalarGPT) -> Tensor:
        """(B, T) V(s_t), of the state before each token of the answer: the same rows as the log-probabilities."""
        return self.states(model(self.ids))[..., 0].float()

    def scores(self, model: ScalarGPT) -> Tensor:
        """(B,) the reward model's number at the last token of each answer, never at the padding behind it."""
        last = self.prompts + self.mask.sum(1) - 1
        scores: Tensor = model(self.ids)[torch.arange(len(self), device=last.device), last, 0].float()
        return scores


@torch.no_grad()
def sample(
    model: GPT,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    end: int,
    generator: torch.Generator,
    temperature: float = 1.0,
    never: Sequence[int] = (),
) -> Episodes:
    """One answer to each prompt, drawn from the model in one batch with its cache; the padding is not the end token."""
    answers = generate_batch(model, prompts, tokens, generator=generator, temperature=temperature, end=end, never=never)
    return Episodes.of(prompts, answers, 0 if end else 1, model.embed.weight.device)
