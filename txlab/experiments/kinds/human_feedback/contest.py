"""Pairs of answers by two models, for blind comparison by the user (MATH H6).

Notable: pair n is a function of the scenario's seed, n and the two models, so all judges see the same pairs; only the
side of each answer is drawn separately for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from torch import Tensor

from txlab.engine.rlhf.comparisons import Contestant
from txlab.engine.transformer.gpt import GPT
from txlab.experiments.kinds.human_feedback.materials import Texts
from txlab.experiments.kinds.human_feedback.schema import HumanFeedbackScenario
from txlab.experiments.learning.gradient import rebuild_model

BLOCK = 8  # pairs whose answers are drawn in one batch
MOST_ALIKE = 64  # pairs in a row with the same two answers, after which the models are taken to be the same


@dataclass(frozen=True)
class Pair:
    """Two answers to a prompt. `shown`: "ab" = a is first."""

    id: str
    prompt: str
    a: Contestant
    b: Contestant
    shown: str

    @property
    def texts(self) -> tuple[str, str]:
        """In the order of the screen."""
        return (self.a.text, self.b.text) if self.shown == "ab" else (self.b.text, self.a.text)

    def result(self, better: int | None) -> str:
        """ "a", "b" or "tie", of the place (0 or 1) of the better answer on the screen."""
        return "tie" if better is None else self.shown[better]


class Contest:
    """Two models, by names that say which weights they have; a and b differ in their draws too."""

    def __init__(self, texts: Texts, models: Mapping[str, GPT]) -> None:
        self.texts = texts
        self.models = dict(models)
        self.names: tuple[str, ...] = tuple(models)
        self._blocks: dict[int, list[tuple[str, Contestant, Contestant]]] = {}
        self.mark = blake2b("\0".join(self.names).encode(), digest_size=4).hexdigest()

    def pair(self, number: int, by: str) -> Pair | None:
        """Pair n, as shown to this judge; None if both models wrote the same."""
        block = number // BLOCK
        if block not in self._blocks:
            self._blocks = {block: self._draw_block(block)}
        prompt, a, b = self._blocks[block][number % BLOCK]
        if a.text == b.text:
            return None
        id = self.id_of(number)
        return Pair(id, prompt, a, b, Random(f"{id}\0{by}").choice(("ab", "ba")))

    def id_of(self, number: int) -> str:
        return f"p{number:05d}-{self.mark}"

    def _draw_block(self, block: int) -> list[tuple[str, Contestant, Contestant]]:
        texts = self.texts
        prompts = texts.prompts("comparison prompts", block, BLOCK)
        answers = []
        for side, (name, model) in zip("ab", self.models.items(), strict=True):
            episodes = texts.sample_answers(model, prompts, f"comparison answers {side}", block)
            answers.append([Contestant(name, texts.answer(episodes, row)) for row in range(BLOCK)])
        return list(zip(prompts, *answers, strict=True))


def model_of(scenario: HumanFeedbackScenario, texts: Texts, weights: Mapping[str, Tensor]) -> GPT:
    """A language model of a checkpoint, from its state["model"] or state["fine_tuned"]."""
    model = rebuild_model(lambda: GPT(scenario.model.shape(texts.tokenizer.vocabulary)), weights)
    model.set_dropout(0.0)
    return model
