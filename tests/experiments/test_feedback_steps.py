"""One whole step of each stage and method of human feedback, computed again in NumPy and float64 from the checkpoint
before it: every metric that it records, and the change of every weight (MATH H1–H5).

Given are the texts and the ids of the answers that were drawn; everything else is computed here, one answer at a time
and without padding. The models are in float64 and only the losses in float32: otherwise a loss whose terms cancel has
four right digits on one processor and five on another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from independent.descent import Descent, moved_apart, rate
from independent.tape import Array, clamp, concatenate, exp, log_sigmoid, log_softmax, maximum, where
from independent.transformer import part, stream_of_gpt, weights_of

from txlab.engine.rlhf.rollouts import Episodes
from txlab.experiments.kinds.human_feedback import KIND, ranking
from txlab.experiments.kinds.human_feedback.experiment import HumanFeedback
from txlab.experiments.kinds.human_feedback.schema import HumanFeedbackScenario
from txlab.experiments.randomness import generator

SEED = 5
# A small clip and ε = 1e-3: gradients are clipped, and no weight moves by the sign of a rounding error alone.
LEARNS = {"clip": 0.3, "epsilon": 1e-3, "weight_decay": 0.1, "warmup": 3, "learning_rate": 2e-2}
SMALL: dict[str, Any] = {
    "kind": "human-feedback",
    "seed": SEED,
    "task": {"tokens": 14, "temperature": 1.3},
    "model": {"layers": 1, "heads": 2, "width": 8, "feed_forward": 16, "context": 40},
    "pretraining": {"steps": 3, "batch": 4, **LEARNS},
    "demonstrations": {"steps": 3, "batch": 4, "count": 20, **LEARNS},
    "rankings": {"steps": 6, "settling": 3, "answers": 4, "batch": 2, "tie": 0.3, **LEARNS},
    "policy": {"steps": 8, "batch": 8, "minibatches": 2, **LEARNS},
    "probe": {"prompts": 1, "episodes": 2, "held_out": 4},
    "compute": {"device": "cpu", "threads": 1},
}


@pytest.fixture(autouse=True)
def models_in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def made(**changes: Any) -> HumanFeedback:
    tables = {name: {**SMALL.get(name, {}), **change} for name, change in changes.items()}
    return KIND.build(HumanFeedbackScenario.model_validate(SMALL | tables))  # type: ignore[return-value]


def perturb(model: torch.nn.Module, seed: int, by: float = 0.15) -> None:
    """Change all weights, so that policy, reference, reward model and value function have nothing in common."""
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draws) * by)


def at(stage: str, **changes: Any) -> HumanFeedback:
    """A run after the first step of this stage, its models perturbed and its moments not zero; earlier stages are left
    out but for one ranking, without which there is no reward model."""
    for name in ("pretraining", "demonstrations"):
        if name != stage:
            changes[name] = {"steps": 0}
    if stage == "policy":
        changes["rankings"] = {"steps": 1, "settling": 0, **changes.get("rankings", {})}
    experiment = made(**changes)
    while experiment.plan[experiment.number][0] != stage:
        experiment.step()
        experiment.go_on()
    perturb(experiment.handed.fine_tuned, 1)
    if experiment.handed.reward is not None:
        perturb(experiment.handed.reward, 2)
    if stage != "policy" or experiment.scenario.policy.method != "best-of-n":
        experiment.step()
        perturb(experiment.stage.model, 3)  # type: ignore[arg-type]
    if stage == "policy":  # ends of answers are likelier, so that some of them are padded
        policy = experiment.stage.policy  # type: ignore[union-attr]
        with torch.no_grad():
            end = policy.embed.weight[experiment.texts.end]
            policy.final_norm.bias += 2.5 * end / end.square().sum()  # type: ignore[union-attr]
    return experiment


# Answers, one at a time


@dataclass(frozen=True)
class Answer:
    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def ids(self) -> np.ndarray:
        return np.array([[*self.prompt, *self.answer]])

    @property
    def states(self) -> slice:
        """The rows from which the tokens of the answer were chosen."""
        return slice(len(self.prompt) - 1, len(self.prompt) + len(self.answer) - 1)


def answers_in(episodes: Episodes) -> list[Answer]:
    """Those that were drawn, without their padding."""
    lengths = [int(length) for length in episodes.mask.sum(1)]
    return [
        Answer(tuple(ids[:P].tolist()), tuple(ids[P : P + T].tolist()))
        for ids, P, T in zip(episodes.ids, episodes.prompts.tolist(), lengths, strict=True)
    ]


def written(experiment: HumanFeedback, pairs: list[tuple[str, str]]) -> list[Answer]:
    """Texts as ids: the answer with its end, cut off at task.tokens."""
    encode, most = experiment.texts.tokenizer.encode, experiment.scenario.task.tokens
    return [Answer(tuple(encode(prompt)), tuple(encode(answer + "\n")[:most])) for prompt, answer in pairs]


@dataclass(frozen=True)
class Read:
    """An answer as a language model reads it: `all` (T, V) log-probabilities, and those of its tokens (T,)."""

    all: Array
    tokens: Array


def read(w: Any, shape: Any, each: Answer, temperature: float = 1.0) -> Read:
    logits = stream_of_gpt(each.ids, w, shape)[0] @ w["embed.weight"].T / temperature
    found = log_softmax(logits[each.states])
    return Read(found, found[np.arange(len(each.answer)), np.array(each.answer)])


def numbers(w: Any, shape: Any, each: Answer) -> Array:
    """(P + T) what a scalar model says at each token."""
    return (stream_of_gpt(each.ids, w, shape)[0] @ w["head.weight"].T + w["head.bias"])[:, 0]


def mean(parts: list[Array]) -> Array:
    """Over the tokens of all answers."""
    return concatenate(parts).mean()


def imitation(w: Any, shape: Any, answers: list[Answer]) -> Array:
    """−(1/N) Σ ln π(a_t), over the tokens of all answers."""
    return -mean([read(w, shape, each).tokens for each in answers])


def draws(purpose: str, number: int) -> np.random.Generator:
    return generator(SEED, purpose, number)


def agree(theirs: Any, ours: dict[str, float]) -> None:
    """Every metric that was recorded, and no other."""
    assert set(theirs) == set(ours)
    for name, value in ours.items():
        assert float(theirs[name]) == pytest.approx(value, rel=2e-6, abs=2e-6), name


# Imitation


@pytest.mark.parametrize("stage", ["pretraining", "demonstrations"])
def test_a_step_of_imitation(stage: str) -> None:
    experiment = at(stage)
    shape, section = experiment.stage.policy.shape, getattr(experiment.scenario, stage)
    present = deepcopy(experiment.stage.state_dict())
    theirs = experiment.step()
    after = experiment.stage.state_dict()["model"]

    def whole(each: Answer) -> Answer:
        ids = (*each.prompt, *each.answer)
        return Answer(ids[:1], ids[1:])

    batch, unseen = draws(f"{stage} batch", 2), demonstrated(experiment, draws(f"held-out {stage}", 0), 128)
    if stage == "demonstrations":
        there = demonstrated(experiment, draws("demonstrations", 0), section.count)
        chosen = [there[i] for i in batch.integers(section.count, size=section.batch)]
    else:
        chosen, unseen = [whole(each) for each in demonstrated(experiment, batch, section.batch)], [*map(whole, unseen)]
    descent = Descent.of(present, section)
    loss, eta = imitation(descent.weights, shape, chosen), rate(2, section, section.learning_rate)
    agree(theirs, {"loss": float(loss.value), "lr": eta, "grad_norm": descent.step(loss, eta)})
    assert moved_apart(present["model"], after, descent.weights) < 1e-4
    agree(experiment.evaluate(), {"val_loss": float(imitation(weights_of(after), shape, unseen).value)})


# The reward model


def pairs_of(ranks: Any) -> list[tuple[int, int]]:
    return [(w, l) for w in range(len(ranks)) for l in range(len(ranks)) if ranks[w] < ranks[l]]


@pytest.mark.parametrize("form", ["pairs", "choice"])
def test_every_step_of_the_reward_model(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While rankings come in (with ties, and one with ties only) and while it settles; four are recent ones here."""
    assert ranking.RECENT == 20
    monkeypatch.setattr(ranking, "RECENT", 4)
    experiment = at("rankings", rankings={"loss": form, "normalise": "demonstrations"})
    stage, section, shape = experiment.stage, experiment.scenario.rankings, experiment.handed.fine_tuned.shape
    recent: list[tuple[int, int]] = [tuple(each) for each in stage.state_dict()["right"]]  # type: ignore[misc]
    tied = 0

    def scores(w: Any, given: Any) -> list[Array]:
        answers = written(experiment, [(given.prompt, answer) for answer in given.answers])
        return [numbers(w, shape, each)[-1] for each in answers]

    for update in range(2, section.steps + section.settling + 1):
        present = deepcopy(stage.state_dict())
        theirs = experiment.step()
        given = stage.rankings  # type: ignore[union-attr]
        descent = Descent.of(present, section)
        order, count = draws("ranking batch", update).permutation(len(given)), min(section.batch, len(given))
        chosen, newest = order[:count].tolist(), len(given) - 1
        if update <= section.steps and newest not in chosen:
            chosen[0] = newest
        losses = []
        for each in (given[i] for i in chosen):
            r = scores(descent.weights, each)
            best = [i for i, rank in enumerate(each.ranks) if rank == min(each.ranks)]
            if len(best) == len(r):
                continue  # ties only
            tied += len(set(each.ranks)) < len(r)
            if form == "pairs":
                terms = [log_sigmoid(r[w] - r[l]) for w, l in pairs_of(each.ranks)]
            else:
                joined = log_softmax(concatenate([each.reshape(1) for each in r]))
                terms = [joined[i] for i in best]
            losses.append(-concatenate([term.reshape(1) for term in terms]).mean())
        loss = concatenate([each.reshape(1) for each in losses]).mean() if losses else Array(0.0)
        ours = {"loss": float(loss.value), "rankings": float(len(given))}
        if update <= section.steps:
            r = [float(each.value) for each in scores(weights_of(present["model"]), given[newest])]
            pairs = pairs_of(given[newest].ranks)
            if pairs:
                recent.append((sum(r[w] > r[l] for w, l in pairs), len(pairs)))
                ours["accuracy"] = recent[-1][0] / len(pairs)
            ours["accuracy_20"] = sum(right for right, _ in recent[-4:]) / sum(pairs for _, pairs in recent[-4:])
            ours["lr"] = section.learning_rate * update / section.steps
        else:
            share = (1 + np.cos(np.pi * (update - section.steps) / section.settling)) / 2
            ours["lr"] = section.learning_rate * (section.final + (1 - section.final) * share)
        ours["grad_norm"] = descent.step(loss, ours["lr"])
        agree(theirs, ours)
        after = stage.state_dict()["model"]
        assert moved_apart(present["model"], after, descent.weights) < 1e-4
    assert tied >= 2
    assert len(recent) > 4
    agree(experiment.evaluate(), {"val_accuracy": unseen_accuracy(experiment, weights_of(after))})
    written_ones = demonstrated(experiment, draws("normalising", 0), 256)
    shift = np.mean([numbers(weights_of(after), shape, each)[-1].value for each in written_ones])
    assert experiment.handed.normaliser.shift == pytest.approx(shift, rel=1e-4)
    assert experiment.handed.normaliser.scale == 1


def unseen_accuracy(experiment: HumanFeedback, reward: Any) -> float:
    """Of the pairs of answers to the held-out prompts whose gold scores differ, the share in their order."""
    texts, shape, K = experiment.texts, experiment.handed.fine_tuned.shape, experiment.scenario.rankings.answers
    prompts = [prompt for prompt in texts.prompts("held-out prompts", 0, 4) for _ in range(K)]
    episodes = texts.sample_answers(experiment.handed.fine_tuned, prompts, "held-out answers", 0)
    golds = np.array(texts.gold(prompts, episodes)).reshape(4, K)
    r = np.array([float(numbers(reward, shape, each)[-1].value) for each in answers_in(episodes)]).reshape(4, K)
    differ = golds[:, :, None] > golds[:, None, :]
    return float((differ & (r[:, :, None] > r[:, None, :])).sum() / differ.sum())


def demonstrated(experiment: HumanFeedback, there: np.random.Generator, count: int) -> list[Answer]:
    """As many demonstrations: all prompts are drawn before the first answer."""
    task = experiment.texts.task
    prompts = [task.prompt(there) for _ in range(count)]
    return written(experiment, [(prompt, task.demonstrate(there, prompt)) for prompt in prompts])


# The policy


class SecondPolicy:
    """A step of PPO, RLOO or GRPO, from the checkpoint before it."""

    def __init__(self, experiment: HumanFeedback, number: int) -> None:
        self.experiment, self.section, self.number = experiment, experiment.scenario.policy, number
        self.state = deepcopy(experiment.state_dict())
        self.shape, self.T = experiment.handed.fine_tuned.shape, experiment.scenario.task.temperature
        self.beta = self.state["present"]["adjusted"]["beta"]
        ppo = self.section.method == "ppo"
        self.descent = Descent.of(self.state["present"], self.section, ["policy.", "value."] if ppo else ["policy."])

    def models(self) -> tuple[Any, Any]:
        return part(self.descent.weights, "policy."), part(self.descent.weights, "value.")

    def told(self, answers: list[Answer], golds: list[float]) -> dict[str, float]:
        """What is fixed before the first update, and the metrics of it."""
        section, (policy, value) = self.section, self.models()
        reference, reward = weights_of(self.state["fine_tuned"]), weights_of(self.state["reward"])
        shift, scale = self.state["normaliser"]
        self.shift, self.scale = shift, scale
        self.answers = answers
        mine = [read(policy, self.shape, each, self.T) for each in answers]
        theirs = [read(reference, self.shape, each, self.T) for each in answers]
        self.old = [each.tokens.value for each in mine]
        self.reference = [each.tokens.value for each in theirs]
        scores = np.array([(numbers(reward, self.shape, each).value[-1] - shift) / scale for each in answers])
        ratio = [b - a for a, b in zip(self.old, self.reference, strict=True)]  # ln ρ − ln π
        B, tokens = len(answers), sum(len(each.answer) for each in answers)
        p = [np.exp(each.all.value) for each in mine]
        kl = sum((q * (a.all.value - b.all.value)).sum() for q, a, b in zip(p, mine, theirs, strict=True)) / B
        found = {
            "kl": kl,
            "root_kl": sqrt(kl),
            "k1": -sum(each.sum() for each in ratio) / B,
            "k2": sum((each**2).sum() for each in ratio) / 2 / B,
            "k3": sum((np.exp(each) - 1 - each).sum() for each in ratio) / B,
            "proxy": scores.mean(),
            "gold": sum(golds) / B,
            "beta": self.beta,
            "length": tokens / B,
            "entropy": -sum((q * each.all.value).sum() for q, each in zip(p, mine, strict=True)) / tokens,
        }
        if section.method == "ppo":
            self.values = [(numbers(value, self.shape, each).value[each.states] - shift) / scale for each in answers]
            rewards = [self.beta * each for each in ratio]
            for each, score in zip(rewards, scores, strict=True):
                each[-1] += score
            if section.whiten_rewards:
                every = np.concatenate(rewards)
                rewards = [every.mean() + (each - every.mean()) / sqrt(every.var() + 1e-8) for each in rewards]
            advantages = [self.estimated(r, v) for r, v in zip(rewards, self.values, strict=True)]
            self.returns = [a + v for a, v in zip(advantages, self.values, strict=True)]
            every = np.concatenate(advantages)
            self.advantages = [(each - every.mean()) / sqrt(every.var() + 1e-8) for each in advantages]
            returns, values = np.concatenate(self.returns), np.concatenate(self.values)
            found["explained_variance"] = 1 - (returns - values).var() / returns.var()
        else:
            K = section.group
            if section.method == "rloo":
                total = scores + self.beta * np.array([each.sum() for each in ratio])
                groups = total.reshape(-1, K)
                each = groups - (groups.sum(1, keepdims=True) - groups) / (K - 1)
            else:
                groups = scores.reshape(-1, K)
                each = (groups - groups.mean(1, keepdims=True)) / (groups.std(1, ddof=1, keepdims=True) + 1e-6)
            self.advantages = [np.full(len(a.answer), A) for a, A in zip(answers, each.flatten(), strict=True)]
        return found

    def estimated(self, rewards: np.ndarray, values: np.ndarray) -> np.ndarray:
        """A_t = Σ_k (γλ)^k δ_{t+k}, written out as the double sum."""
        gamma, lam, T = self.section.gamma, self.section.gae, len(rewards)
        after = np.append(values[1:], 0.0)
        deltas = rewards + gamma * after - values
        return np.array([sum((gamma * lam) ** k * deltas[t + k] for k in range(T - t)) for t in range(T)])

    def learn(self) -> dict[str, float]:
        """All updates of the step; the means of what each measures."""
        section, found = self.section, {}
        eta = rate(self.number, section, section.learning_rate)
        B, size = section.batch, section.batch // section.minibatches
        for epoch in range(section.epochs):
            order = draws("minibatches", self.number * 1000 + epoch).permutation(B)
            for place in range(section.minibatches):
                update = (self.number * section.epochs + epoch) * section.minibatches + place
                loss, measured = self.loss(order[place * size : (place + 1) * size].tolist(), update)
                measured |= {"loss": float(loss.value), "lr": eta, "grad_norm": self.descent.step(loss, eta)}
                for name, value in measured.items():
                    found.setdefault(name, []).append(value)
        return {name: float(np.mean(values)) for name, values in found.items()}

    def loss(self, chosen: list[int], update: int) -> tuple[Array, dict[str, float]]:
        section, (policy, value) = self.section, self.models()
        logprobs = concatenate([read(policy, self.shape, self.answers[i], self.T).tokens for i in chosen])
        A = np.concatenate([self.advantages[i] for i in chosen])
        ratio = exp(logprobs - np.concatenate([self.old[i] for i in chosen]))
        free, held = ratio * -A, clamp(ratio, 1 - section.clip_ratio, 1 + section.clip_ratio) * -A
        loss = policy_loss = maximum(free, held).mean()
        measured = {
            "policy_loss": float(policy_loss.value),
            "ratio": ratio.value.mean(),
            "clip_fraction": (held.value > free.value).mean(),
        }
        if section.method == "ppo":
            V = concatenate([numbers(value, self.shape, self.answers[i])[self.answers[i].states] for i in chosen])
            V = (V - self.shift) / self.scale
            old, R = (np.concatenate([each[i] for i in chosen]) for each in (self.values, self.returns))
            moved = V - old
            near = where(
                abs(moved.value) <= section.clip_value, V, clamp(moved, -section.clip_value, section.clip_value) + old
            )
            value_loss = maximum((V - R) ** 2, (near - R) ** 2).mean() * 0.5
            loss = loss + value_loss * section.value_coefficient
            measured["value_loss"] = float(value_loss.value)
            measured["value_clip_fraction"] = ((near.value - R) ** 2 > (V.value - R) ** 2).mean()
        elif section.method == "grpo":
            d = np.concatenate([self.reference[i] for i in chosen]) - logprobs
            penalty = (exp(d) - 1 - d).mean()
            loss = loss + penalty * self.beta
            measured["kl_loss"] = float(penalty.value)
        if section.pretraining_mix:
            mixed = demonstrated(self.experiment, draws("pretraining mix", update), len(chosen))
            ptx = imitation(policy, self.shape, mixed)
            loss = loss + ptx * section.pretraining_mix
            measured["ptx_loss"] = float(ptx.value)
        return loss, measured


PPO = {"gamma": 0.8, "gae": 0.7, "clip_ratio": 0.1, "clip_value": 0.1, "epochs": 2, "betas": [0.4]}
POLICIES: dict[str, dict[str, Any]] = {
    "ppo": PPO | {"pretraining_mix": 0.7, "kl_target": 0.9, "horizon": 50},
    "ppo with whitened rewards": PPO | {"whiten_rewards": True, "decay": "cosine", "warmup": 1},
    "rloo": PPO | {"method": "rloo"},
    "grpo": PPO | {"method": "grpo", "pretraining_mix": 0.7, "group": 2},
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_step_of_the_policy(name: str) -> None:
    experiment = at("policy", policy=POLICIES[name])
    second = SecondPolicy(experiment, experiment.stage.step_count + 1)
    theirs = experiment.step()
    stage = experiment.stage
    rollout = stage.rollout  # type: ignore[union-attr]
    assert rollout is not None
    golds = [experiment.texts.gold(rollout.prompts, rollout.episodes)[i] for i in range(len(rollout.episodes))]
    assert len(set(rollout.episodes.mask.sum(1).tolist())) > 1  # there is padding
    before = second.told(answers_in(rollout.episodes), golds)
    ours = before | second.learn()
    agree(theirs, ours)
    assert ours["kl"] > 0.1
    assert 0 < ours["clip_fraction"] < 1
    assert ours["grad_norm"] > experiment.scenario.policy.clip
    assert moved_apart(second.state["present"]["model"], stage.state_dict()["model"], second.descent.weights) < 1e-4
    section = experiment.scenario.policy
    looks_the_same(experiment, second)
    expected = second.beta
    if section.kl_target:
        error = min(max(ours["kl"] / section.kl_target - 1, -0.2), 0.2)
        expected *= 1 + error * section.batch / section.horizon
    assert stage.adjusted["beta"] == pytest.approx(expected, rel=2e-6)
    assert (stage.adjusted["beta"] != second.beta) == bool(section.kl_target)


def test_every_beta_of_a_sweep_begins_as_a_separate_run_would() -> None:
    changes = {"pretraining": {"steps": 0}, "demonstrations": {"steps": 0}, "rankings": {"steps": 1, "settling": 0}}
    both = made(**changes, policy={"betas": [0.4, 0.1], "steps": 2})
    alone = made(**changes, policy={"betas": [0.1], "steps": 2})
    for _ in range(3):
        both.step()
    alone.step()
    for _ in range(2):
        assert dict(both.step()) == {f"{name}/β=0.1": value for name, value in alone.step().items()}
    for name, tensor in alone.stage.state_dict()["model"].items():
        assert torch.equal(tensor, both.stage.state_dict()["model"][name])


def looks_the_same(experiment: HumanFeedback, second: SecondPolicy) -> None:
    """The ratios in a frame, and what is clipped now, are those of the losses."""
    section, (policy, value), tensors = second.section, second.models(), experiment.frame().tensors
    for row, each in enumerate(second.answers[:2]):
        shown = {name: tensors[f"episode/{name}"][row].numpy() for name in ("ratio", "clipped")}
        T, A = len(each.answer), second.advantages[row]
        ratio = np.exp(read(policy, second.shape, each, second.T).tokens.value - second.old[row])
        np.testing.assert_allclose(shown["ratio"][:T], ratio, rtol=5e-3)
        assert np.isnan(shown["ratio"][T:]).all()
        outside = np.where(A > 0, ratio > 1 + section.clip_ratio, ratio < 1 - section.clip_ratio)
        assert (shown["clipped"][:T] == outside).all()
        assert ("episode/value_clipped" in tensors) == (section.method == "ppo")
        if section.method == "ppo":
            old, R = second.values[row], second.returns[row]
            V = (numbers(value, second.shape, each).value[each.states] - second.shift) / second.scale
            near = old + np.clip(V - old, -section.clip_value, section.clip_value)
            worse = (abs(V - old) > section.clip_value) & ((near - R) ** 2 > (V - R) ** 2)
            assert (tensors["episode/value_clipped"][row].numpy()[:T] == worse).all()


def test_a_step_of_dpo(tmp_path: Path) -> None:
    """On rankings of answers of many lengths, some of them tied: padding counts in no sum."""
    file, texts = tmp_path / "rankings.jsonl", (" warm", " dull, slow", " wise, fun", " bold", " a")
    rows = [
        {"prompt": "film: heat\nreview:", "answers": texts[: 2 + n], "ranks": [2, 1, 1, 3, 2][: 2 + n]}
        for n in range(4)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rankings = {"preferences": str(file), "steps": 1}
    experiment = at("policy", rankings=rankings, policy={"method": "dpo", "batch": 6, "minibatches": 1, "betas": [0.7]})
    stage, section, shape = experiment.stage, experiment.scenario.policy, experiment.handed.fine_tuned.shape
    state = deepcopy(experiment.state_dict())
    theirs = experiment.step()
    pairs = [
        (each.prompt, each.answers[w], each.answers[l])
        for each in experiment.handed.rankings
        for w, l in pairs_of(each.ranks)
    ]
    chosen = [pairs[i] for i in draws("dpo pairs", 2).integers(len(pairs), size=section.batch)]
    descent, reference = Descent.of(state["present"], section), weights_of(state["fine_tuned"])
    margins = []
    for prompt, *texts in chosen:
        better, worse = (
            read(descent.weights, shape, each).tokens.sum() - read(reference, shape, each).tokens.sum()
            for each in written(experiment, [(prompt, text) for text in texts])
        )
        margins.append(((better - worse) * 0.7).reshape(1))
    margin = concatenate(margins)
    loss, eta = -log_sigmoid(margin).mean(), rate(2, section, section.learning_rate)
    assert len({len(text) for _, *texts in chosen for text in texts}) > 2  # there is padding
    ours = {"loss": float(loss.value), "lr": eta, "margin": margin.value.mean(), "preferred": (margin.value > 0).mean()}
    agree(theirs, ours | {"grad_norm": descent.step(loss, eta)})
    after = stage.state_dict()["model"]  # type: ignore[union-attr]
    assert moved_apart(state["present"]["model"], after, descent.weights) < 1e-4
    agree(experiment.evaluate(), evaluated(experiment, weights_of(after), reference))


def evaluated(experiment: HumanFeedback, policy: Any, reference: Any) -> dict[str, float]:
    """What DPO's answers are worth."""
    texts, shape = experiment.texts, experiment.handed.fine_tuned.shape
    prompts = texts.prompts("held-out prompts", 0, 4)
    episodes = texts.sample_answers(experiment.stage.policy, prompts, "evaluation answers", 2)  # type: ignore[union-attr]
    answers = answers_in(episodes)
    both = [[read(w, shape, each, texts.temperature).all.value for w in (policy, reference)] for each in answers]
    kl = sum((np.exp(mine) * (mine - theirs)).sum() for mine, theirs in both) / 4
    return {
        "kl": kl,
        "root_kl": sqrt(kl),
        "length": sum(len(each.answer) for each in answers) / 4,
        "proxy": float(np.mean(proxies(experiment, answers))),
        "gold": sum(texts.gold(prompts, episodes)) / 4,
    }


def proxies(experiment: HumanFeedback, answers: list[Answer]) -> list[float]:
    """The reward model's normalised scores."""
    assert experiment.handed.reward is not None
    reward, shape = weights_of(experiment.handed.reward.state_dict()), experiment.handed.fine_tuned.shape
    normaliser = experiment.handed.normaliser
    return [(numbers(reward, shape, each).value[-1] - normaliser.shift) / normaliser.scale for each in answers]


def test_every_step_of_the_best_of_n_is_the_mean_over_all_subsets() -> None:
    experiment = at("policy", policy={"method": "best-of-n", "steps": 3, "batch": 3, "minibatches": 1})
    texts = experiment.texts
    prompts = [each for each in texts.prompts("best-of-n prompts", 0, 3) for _ in range(4)]
    episodes = texts.sample_answers(experiment.handed.fine_tuned, prompts, "best-of-n answers", 0)
    scores = np.array(proxies(experiment, answers_in(episodes))).reshape(3, 4)
    golds = np.array(texts.gold(prompts, episodes)).reshape(3, 4)
    for n in (1, 2, 4):
        best = [
            (scores[row, i], golds[row, i])
            for row in range(3)
            for subset in combinations(range(4), n)
            for i in [max(subset, key=lambda i: scores[row, i])]
        ]
        kl = log(n) - (n - 1) / n
        proxy, gold = np.mean(best, axis=0)
        agree(experiment.step(), {"n": n, "kl": kl, "root_kl": sqrt(kl), "proxy": proxy, "gold": gold})
