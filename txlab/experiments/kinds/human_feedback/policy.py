"""The policy: answers are drawn, scored by the reward model, and made likelier or less likely (MATH H4, H5).

    score(x, y) − β Σ_t (log π − log ρ)          ρ the fine-tuned model

PPO has a value function, begun from the reward model, and gives each token its own advantage (GAE). RLOO and GRPO
compare the answers to one prompt with each other instead. All three share the rollout and the clipped loss. The β of
PPO and RLOO is the price of the KL of an answer, summed over its tokens, and is paid from its score; that of GRPO is
the price of k3 as a mean over tokens, and is a part of the loss: the same β binds T times less.

Notable: dropout is off throughout, and the temperature that answers are drawn at divides the logits wherever their
log-probabilities are computed: the ratio of an answer's first reading is 1 exactly because nothing differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from txlab.engine.policy_gradient import (
    clipped_policy_loss,
    clipped_value_loss,
    explained_variance,
    gae,
    masked_mean,
    token_entropy,
    whiten,
    zero_padding,
)
from txlab.engine.rlhf.direct import grpo_advantages, rloo_advantages
from txlab.engine.rlhf.kl import AdaptiveKL, exact_kl, k1, k2, k3, token_rewards
from txlab.engine.rlhf.reward import ScalarGPT
from txlab.engine.rlhf.rollouts import Episodes
from txlab.engine.transformer.gpt import GPT
from txlab.experiments.kinds.human_feedback.imitation import StageScenario, answer_loss
from txlab.experiments.kinds.human_feedback.materials import Handed, Texts, copy_model
from txlab.experiments.kinds.human_feedback.schema import HumanFeedbackScenario
from txlab.experiments.learning.gradient import GradientExperiment, Measured, adamw


@dataclass(frozen=True)
class Rollout:
    """A batch of answers and the quantities held fixed while the policy learns from them; (B, T) unless noted.

    logprobs, reference   log π and log ρ of each token      exact     KL(π‖ρ) over the vocabulary
    scores (B,)           of the reward model, normalised    golds     of each answer, NaN if unknown
    """

    prompts: list[str]
    episodes: Episodes
    logprobs: Tensor
    reference: Tensor
    exact: Tensor
    entropies: Tensor
    scores: Tensor
    golds: Tensor
    values: Tensor
    rewards: Tensor
    deltas: Tensor
    advantages: Tensor
    returns: Tensor
    whitened: Tensor
    whiten_mean: float
    whiten_sd: float


class PolicyLearning(GradientExperiment[nn.ModuleDict]):
    """One step = one batch of answers and `epochs` passes over it in minibatches."""

    def __init__(self, scenario: HumanFeedbackScenario, texts: Texts, handed: Handed, beta: float) -> None:
        self.section = section = scenario.policy
        self.texts, self.handed, self.probe = texts, handed, scenario.probe
        self.learns_values = section.method == "ppo"
        assert handed.reward is not None
        reward: ScalarGPT = handed.reward

        def make(generator: torch.Generator) -> nn.ModuleDict:
            start = handed.fine_tuned
            models: dict[str, nn.Module] = {"policy": copy_model(lambda: GPT(start.shape), start)}
            if self.learns_values:
                models["value"] = ScalarGPT.begin_from(reward)
            return nn.ModuleDict(models)

        super().__init__(
            StageScenario(seed=scenario.seed, train=section, compute=scenario.compute), make, {"beta": (beta, 100.0)}
        )
        self.checks_async = False
        for model in self.model.values():
            model.requires_grad_(True).eval()
            cast(GPT, model).set_dropout(0.0)
        self.rollout: Rollout | None = None

    def make_optimizers(self) -> list[Optimizer]:
        return [adamw(model, self.scenario.train) for model in self.model.values()]

    @property
    def policy(self) -> GPT:
        return self.model["policy"]  # type: ignore[return-value]

    @property
    def value(self) -> ScalarGPT:
        return self.model["value"]  # type: ignore[return-value]

    # Rollouts

    @torch.no_grad()
    def collect(self, number: int) -> Rollout:
        """The answers of step `number` and everything measured of them before the policy changes."""
        section, texts, beta = self.section, self.texts, self.adjusted["beta"]
        group = 1 if self.learns_values else section.group
        prompts = texts.prompts("rollout prompts", number, section.batch // group)
        prompts = [prompt for prompt in prompts for _ in range(group)]
        episodes = texts.sample_answers(self.policy, prompts, "rollout answers", number)
        mask = episodes.mask
        logits = episodes.logits(self.policy, texts.temperature)
        reference_logits = episodes.logits(self.handed.fine_tuned, texts.temperature)
        logprobs, reference = episodes.logprobs(logits), episodes.logprobs(reference_logits)
        scores = self.handed.proxy(episodes)
        golds = torch.full_like(scores, torch.nan)
        if texts.task.gold is not None:
            golds = torch.tensor(texts.gold(prompts, episodes), dtype=torch.float32).to(scores.device)
        divergence = k1(logprobs, reference)
        rewards = token_rewards(scores, divergence, beta, mask)
        values = self.values(episodes) if self.learns_values else torch.zeros_like(rewards)
        if self.learns_values:
            if section.whiten_rewards:  # (r − μ)/σ + μ, as Ziegler et al. 2019 and TRL have it
                rewards, _, _ = whiten(rewards, mask, shift_mean=False)
            deltas, advantages, returns = gae(rewards, values, mask, section.gamma, section.gae)
            whitened, mean, sd = whiten(advantages, mask)
        else:
            if section.method == "rloo":
                totals = (scores - beta * zero_padding(divergence, mask).sum(1)).view(-1, group)
                each = rloo_advantages(totals).flatten()
            else:
                each = grpo_advantages(scores.view(-1, group)).flatten()
            advantages = each[:, None] * mask
            deltas = returns = torch.zeros_like(advantages)
            whitened, mean, sd = advantages, torch.zeros(()), torch.ones(())
        return Rollout(
            prompts, episodes, logprobs, reference, exact_kl(logits, reference_logits), token_entropy(logits), scores,
            golds, values, rewards, deltas, advantages, returns, whitened, float(mean), float(sd),
        )  # fmt: skip

    def values(self, episodes: Episodes) -> Tensor:
        """V in the units of the normalised score: initially it equals the reward model's output."""
        return self.handed.normaliser(episodes.values(self.value))

    # Learning

    def step(self) -> Mapping[str, float | Tensor]:
        """Draw answers, learn from them in epochs × minibatches updates; means over the updates, and of the answers."""
        section, number = self.section, self.step_count + 1
        with self.put_together():
            self.rollout = self.collect(number)
        metrics = self.update_on(self.parts(number), self.gradients_on)
        metrics |= self.measure_rollout(self.rollout)
        if section.kl_target:
            controller = AdaptiveKL(section.kl_target, section.horizon)
            self.adjusted["beta"] = controller.update_weight(self.adjusted["beta"], float(metrics["kl"]), section.batch)
        return metrics

    def parts(self, number: int) -> Iterator[tuple[int, Tensor]]:
        """(number of the update, the answers it learns from), of all updates of a step."""
        section = self.section
        for epoch in range(section.epochs):
            draws = self.texts.draws("minibatches", number * 1000 + epoch)
            chosen = torch.from_numpy(draws.permutation(section.batch)).chunk(section.minibatches)
            for place, part in enumerate(chosen):
                yield (number * section.epochs + epoch) * section.minibatches + place, part

    def measure_rollout(self, rollout: Rollout) -> dict[str, float]:
        """The numbers of a rollout, of the policy that made it."""
        mask = rollout.episodes.mask
        answers = len(rollout.episodes)
        sums = {
            "kl": rollout.exact,
            "k1": k1(rollout.logprobs, rollout.reference),
            "k2": k2(rollout.logprobs, rollout.reference),
            "k3": k3(rollout.logprobs, rollout.reference),
        }
        metrics = {name: float(zero_padding(tensor, mask).sum()) / answers for name, tensor in sums.items()}
        metrics |= {
            "proxy": float(rollout.scores.mean()),
            "root_kl": sqrt(max(metrics["kl"], 0.0)),
            "beta": self.adjusted["beta"],
            "length": float(mask.sum()) / answers,
            "entropy": float(masked_mean(rollout.entropies, mask)),
        }
        if not bool(rollout.golds.isnan().any()):
            metrics["gold"] = float(rollout.golds.mean())
        if self.learns_values:
            metrics["explained_variance"] = explained_variance(rollout.returns[mask], rollout.values[mask])
        return metrics

    def gradients_on(self, numbered: tuple[int, Tensor]) -> Measured:
        """Gradients on some of the rollout's answers, of policy_loss + ptx · ptx_loss + the terms of the method: c ·
        value_loss (PPO), β · kl_loss (GRPO)."""
        rollout, section = self.rollout, self.section
        assert rollout is not None
        update, part = numbered
        episodes = rollout.episodes.rows(part)
        mask, T = episodes.mask, episodes.mask.shape[1]
        logprobs = episodes.logprobs(episodes.logits(self.policy, self.texts.temperature))
        policy_loss, ratio, clipped = clipped_policy_loss(
            logprobs, rollout.logprobs[part, :T], rollout.whitened[part, :T], mask, section.clip_ratio
        )
        loss = policy_loss
        measured = {
            "policy_loss": policy_loss.detach(),
            "ratio": masked_mean(ratio.detach(), mask),
            "clip_fraction": masked_mean(clipped.float(), mask),
        }
        if self.learns_values:
            value_loss, value_clipped = clipped_value_loss(
                self.values(episodes),
                rollout.values[part, :T],
                rollout.returns[part, :T],
                mask,
                section.clip_value,
            )
            loss = loss + section.value_coefficient * value_loss
            measured |= {
                "value_loss": value_loss.detach(),
                "value_clip_fraction": masked_mean(value_clipped.float(), mask),
            }
        elif section.method == "grpo":
            both = zero_padding(logprobs, mask), zero_padding(rollout.reference[part, :T], mask)
            penalty = masked_mean(k3(*both), mask)
            loss = loss + self.adjusted["beta"] * penalty
            measured["kl_loss"] = penalty.detach()
        if section.pretraining_mix:
            draws = self.texts.draws("pretraining mix", update)
            prompts = [self.texts.task.prompt(draws) for _ in range(len(part))]
            texts = self.texts.pack_answers(
                [(prompt, self.texts.task.demonstrate(draws, prompt)) for prompt in prompts]
            )
            ptx = answer_loss(self.policy, texts)
            loss = loss + section.pretraining_mix * ptx
            measured["ptx_loss"] = ptx.detach()
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": loss.detach(), **measured}

    def evaluate(self) -> Mapping[str, float | Tensor]:
        return {}
