"""Pre-training on whole texts and supervised fine-tuning on answers (MATH T9, H1)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, SerializeAsAny
from torch import Tensor

from txlab.engine.rlhf.rollouts import Episodes
from txlab.engine.transformer.gpt import GPT
from txlab.experiments.kinds.human_feedback.materials import Handed, Texts, copy_model
from txlab.experiments.learning.gradient import GradientExperiment, Measured
from txlab.experiments.learning.schema import Optimizer, TransformerSection
from txlab.experiments.schema import Compute

HELD_OUT = 128  # texts of the validation loss


class StageScenario(BaseModel):
    """The part of the scenario that a stage reads, under the names that `GradientExperiment` expects."""

    model_config = ConfigDict(frozen=True)

    seed: int
    train: SerializeAsAny[Optimizer]
    compute: Compute
    model: SerializeAsAny[TransformerSection] | None = None


class Imitation(GradientExperiment[GPT]):
    """loss = −(1/N) Σ log π(a_t | s_t), over the N answer tokens of a batch; of a pre-training text every token counts.

    The loss is a mean over tokens, so long answers weigh more, as in ordinary language modelling.
    """

    def __init__(self, scenario: StageScenario, texts: Texts, handed: Handed, answers_only: bool) -> None:
        start = handed.fine_tuned
        super().__init__(scenario, lambda generator: copy_model(lambda: GPT(start.shape), start))
        self.checks_async = False
        self.model.set_dropout(self.adjusted["dropout"])
        self.model.requires_grad_(True).train()
        self.texts, self.answers_only = texts, answers_only
        self.name = "demonstrations" if answers_only else "pretraining"
        self.count: int = getattr(scenario.train, "count", 0)
        self.held_out = self.pack(texts.demonstrations(f"held-out {self.name}", HELD_OUT))
        self.written = texts.demonstrations("demonstrations", self.count) if answers_only else []

    @property
    def policy(self) -> GPT:
        return self.model

    def pack(self, pairs: list[tuple[str, str]]) -> Episodes:
        if self.answers_only:
            return self.texts.pack_answers(pairs)
        ids = [self.texts.prompt_ids(prompt) + self.texts.answer_ids(answer) for prompt, answer in pairs]
        return Episodes.of([row[:1] for row in ids], [row[1:] for row in ids], self.texts.pad, self.texts.device)

    def batch(self, update: int) -> Episodes:
        """A function of (seed, update)."""
        draws, batch = self.texts.draws(f"{self.name} batch", update), self.scenario.train.batch
        if self.answers_only:
            return self.pack([self.written[i] for i in draws.integers(self.count, size=batch)])
        prompts = [self.texts.task.prompt(draws) for _ in range(batch)]
        return self.pack([(prompt, self.texts.task.demonstrate(draws, prompt)) for prompt in prompts])

    def gradients(self, update: int) -> Measured:
        self.seed_dropout(update, f"dropout {self.name}")
        loss = answer_loss(self.model, self.batch(update))
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": loss.detach()}

    def evaluate(self) -> Mapping[str, float | Tensor]:
        with self.quiet(), torch.no_grad():
            return {"val_loss": float(answer_loss(self.model, self.held_out))}


def answer_loss(model: GPT, episodes: Episodes) -> Tensor:
    """−(1/N) Σ log π(a_t | s_t) over the answers' tokens. MATH H1."""
    logits = episodes.logits(model)
    return F.cross_entropy(logits[episodes.mask], episodes.answers[episodes.mask])
