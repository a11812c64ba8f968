"""Alternatives to reinforcement learning: direct preference optimisation (DPO), and the best of n answers."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import torch
from torch import Tensor

from txlab.engine.policy_gradient import zero_padding
from txlab.engine.rlhf.direct import best_of_n_kl, dpo_loss, expected_best
from txlab.engine.rlhf.kl import exact_kl
from txlab.engine.rlhf.rollouts import Episodes
from txlab.engine.transformer.gpt import GPT
from txlab.errors import LabError
from txlab.experiments.kinds.human_feedback.imitation import StageScenario
from txlab.experiments.kinds.human_feedback.materials import DRAWN_AT_ONCE, Handed, Texts, copy_model
from txlab.experiments.kinds.human_feedback.schema import HumanFeedbackScenario
from txlab.experiments.learning.gradient import GradientExperiment, Measured
from txlab.experiments.protocol import State


class DirectPreference(GradientExperiment[GPT]):
    """DPO: the policy itself is the reward model, r = β (log π − log ρ). Rafailov et al. 2023, eq. 7."""

    def __init__(self, scenario: HumanFeedbackScenario, texts: Texts, handed: Handed, beta: float) -> None:
        start = handed.fine_tuned
        super().__init__(
            StageScenario(seed=scenario.seed, train=scenario.policy, compute=scenario.compute),
            lambda generator: copy_model(lambda: GPT(start.shape), start),
            {"beta": (beta, 100.0)},
        )
        self.checks_async = False
        self.model.requires_grad_(True).eval()
        self.model.set_dropout(0.0)
        self.texts, self.handed, self.probe = texts, handed, scenario.probe
        self.pairs = [
            (ranking.prompt, ranking.answers[winner], ranking.answers[loser])
            for ranking in handed.rankings
            for winner, loser in ranking.pairs()
        ]
        if not self.pairs:
            raise LabError('policy.method = "dpo" learns from rankings, and there are none: give rankings.steps some')

    @property
    def policy(self) -> GPT:
        return self.model

    def gradients(self, update: int) -> Measured:
        draws = self.texts.draws("dpo pairs", update)
        chosen = [self.pairs[i] for i in draws.integers(len(self.pairs), size=self.scenario.train.batch)]
        better = self.texts.pack_answers([(prompt, winner) for prompt, winner, _ in chosen])
        worse = self.texts.pack_answers([(prompt, loser) for prompt, _, loser in chosen])
        with torch.no_grad():
            reference = [self.sum_logprobs(self.handed.fine_tuned, each) for each in (better, worse)]
        policy = [self.sum_logprobs(self.model, each) for each in (better, worse)]
        loss = dpo_loss(policy[0], policy[1], reference[0], reference[1], self.adjusted["beta"])
        loss.backward()  # type: ignore[no-untyped-call]
        margin = (policy[0] - reference[0] - policy[1] + reference[1]).detach() * self.adjusted["beta"]
        return {"loss": loss.detach(), "margin": margin.mean(), "preferred": (margin > 0).float().mean()}

    @staticmethod
    def sum_logprobs(model: GPT, episodes: Episodes) -> Tensor:
        """(B,) log π(y | x)."""
        return zero_padding(episodes.logprobs(episodes.logits(model)), episodes.mask).sum(1)

    @torch.no_grad()
    def evaluate(self) -> Mapping[str, float | Tensor]:
        """proxy, gold and KL of answers drawn for the held-out prompts."""
        prompts = self.texts.prompts("held-out prompts", 0, self.probe.held_out)
        episodes = self.texts.sample_answers(self.model, prompts, "evaluation answers", self.step_count)
        logits = episodes.logits(self.model, self.texts.temperature)
        reference = episodes.logits(self.handed.fine_tuned, self.texts.temperature)
        kl = float(zero_padding(exact_kl(logits, reference), episodes.mask).sum()) / len(prompts)
        metrics = {"kl": kl, "root_kl": sqrt(max(kl, 0.0)), "length": float(episodes.mask.sum()) / len(prompts)}
        if self.handed.reward is not None:
            metrics["proxy"] = float(self.handed.proxy(episodes).mean())
        if self.texts.task.gold is not None:
            metrics["gold"] = sum(self.texts.gold(prompts, episodes)) / len(prompts)
        return metrics


class BestOfN:
    """The best of n answers by the reward model, n = 1, 2, 4 …: weights stay unchanged. Step s is n = 2^(s−1).

    All n are measured on the same answers, 2^(steps−1) to each prompt, by an estimate that is unbiased for every n.
    """

    def __init__(self, scenario: HumanFeedbackScenario, texts: Texts, handed: Handed, beta: float) -> None:
        self.section, self.texts, self.handed = scenario.policy, texts, handed
        self.model = handed.fine_tuned
        self.step_count = 0
        self.adjusted: dict[str, float] = {}
        self.steps = self.section.steps
        self.scored: tuple[Tensor, Tensor] | None = None

    @property
    def policy(self) -> GPT:
        return self.model

    def answers(self) -> tuple[Tensor, Tensor]:
        """proxy and gold of all answers, both (prompts, N); gold is NaN where it is unknown."""
        if self.scored is None:
            N, batch = 2 ** (self.steps - 1), self.section.batch
            prompts = [each for each in self.texts.prompts("best-of-n prompts", 0, batch) for _ in range(N)]
            proxies, golds = [], []
            for start in range(0, len(prompts), DRAWN_AT_ONCE):
                some = prompts[start : start + DRAWN_AT_ONCE]
                episodes = self.texts.sample_answers(self.model, some, "best-of-n answers", start)
                proxies.append(self.handed.proxy(episodes))
                known = self.texts.task.gold is not None
                golds += self.texts.gold(some, episodes) if known else [float("nan")] * len(some)
            self.scored = torch.cat(proxies).cpu().view(batch, N), torch.tensor(golds).view(batch, N)
        return self.scored

    def step(self) -> Mapping[str, float | Tensor]:
        proxies, golds = self.answers()
        n = 2**self.step_count
        self.step_count += 1
        kl = best_of_n_kl(n)
        metrics = {
            "n": float(n),
            "kl": kl,
            "root_kl": sqrt(kl),
            "proxy": float(expected_best(proxies, proxies, n).mean()),
        }
        if not bool(golds.isnan().any()):
            metrics["gold"] = float(expected_best(proxies, golds, n).mean())
        return metrics

    def evaluate(self) -> Mapping[str, float | Tensor]:
        return {}

    def verify(self) -> None:
        """Nothing is learnt, so nothing can be refused."""

    def state_dict(self) -> State:
        return {"step": self.step_count}

    def load_state_dict(self, state: State) -> None:
        self.step_count = int(state["step"])
