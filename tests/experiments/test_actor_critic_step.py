"""One whole step of PPO in a world, computed again in NumPy and float64 from the checkpoint before it: the rollout,
every metric, and the change of every weight (MATH M8)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from independent.descent import Descent, moved_apart, rate
from independent.tape import Array, clamp, exp, log_softmax, maximum, tanh, where
from independent.transformer import linear, part

from txlab.experiments.kinds.actor_critic import KIND
from txlab.experiments.kinds.actor_critic.experiment import ActorCritic
from txlab.experiments.kinds.actor_critic.schema import ActorCriticScenario
from txlab.experiments.randomness import generator

SEED, E, T = 3, 5, 12
TRAIN: dict[str, Any] = {
    "steps": 6, "environments": E, "horizon": T, "epochs": 2, "minibatches": 4, "learning_rate": 3e-2, "warmup": 1,
    "clip": 0.1, "clip_ratio": 0.1, "clip_value": 0.05, "weight_decay": 0.1, "epsilon": 1e-3, "gae": 0.7,
    "entropy": 0.3, "value_coefficient": 0.6, "reward_scale": 0.2, "final": 0.3,
}  # fmt: skip


def output(weights: Any, name: str) -> Array:
    """The table (S, outputs) of one network, of two hidden layers."""
    w = part(weights, f"{name}.")
    return linear(tanh(linear(tanh(w["rows"]), part(w, "hidden.0."))), part(w, "head."))


def returns_of(process: Any, policy: np.ndarray) -> float:
    """Σ P(an episode begins in s) V(s), from the equations V = R + γ P V."""
    S = process.size
    P, R = np.zeros((S, S)), np.zeros(S)
    for s in range(S):
        for a in range(process.choices):
            if not process.terminal[s]:
                for each in process.outcomes(s, a):
                    R[s] += policy[s, a] * each.probability * each.reward
                    P[s, each.next] += policy[s, a] * each.probability * (not each.done)
    P[:, process.terminal] = 0
    return float(process.start @ np.linalg.solve(np.eye(S) - process.discount * P, R))


def best_return(process: Any) -> float:
    """The same of the best policy, by value iteration."""
    V = np.zeros(process.size)
    for _ in range(300):
        V = np.array(
            [
                0.0
                if process.terminal[s]
                else max(
                    sum(o.probability * (o.reward + process.discount * V[o.next] * (not o.done)) for o in outcomes)
                    for a in range(process.choices)
                    if (outcomes := process.outcomes(s, a))
                )
                for s in range(process.size)
            ]
        )
    return float(process.start @ V)


def greedy_return(process: Any, policy: np.ndarray) -> float:
    """What the likeliest actions earn within the limit, from every start."""
    total = 0.0
    for start in np.flatnonzero(process.start):
        s = int(start)
        for t in range(process.limit):
            if process.terminal[s]:
                break
            (each,) = process.outcomes(s, int(policy[s].argmax()))
            total += process.start[start] * process.discount**t * each.reward
            s = each.next
            if each.done:
                break
    return total


@pytest.mark.parametrize(("name", "limit"), [("gridworld-corners", 4), ("corridor", 5)])
def test_a_step(name: str, limit: int) -> None:
    """In a world whose states are seen, and in one in which several look alike."""
    world = {"name": name, "discount": 0.9, "limit": limit}
    networks = {"layers": 2, "width": 6}
    scenario = {"seed": SEED, "world": world, "networks": networks, "train": TRAIN, "compute": {"threads": 1}}
    learner = KIND.build(ActorCriticScenario.model_validate(scenario))
    assert isinstance(learner, ActorCritic)
    learner.step()
    with torch.no_grad():
        draws = torch.Generator().manual_seed(0)
        for parameter in learner.model.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape, generator=draws))
    process, train = learner.process, learner.scenario.train
    present = deepcopy(learner.state_dict())
    theirs, number = learner.step(), 2

    descent = Descent.of(present, train)
    old_logits, V = log_softmax(output(descent.weights, "policy")).value, output(descent.weights, "value").value[:, 0]
    seen = np.arange(process.size) if process.observation is None else np.asarray(process.observation)
    policy = np.exp(old_logits)[seen]

    # The rollout
    chance = generator(SEED, "rollout", number).random((T, E, 3))
    now, taken, earned = (present[name].numpy().copy() for name in ("states", "taken", "earned"))
    states, actions = np.zeros((E, T), dtype=int), np.zeros((E, T), dtype=int)
    rewards, over, finished, cut = np.zeros((E, T)), np.zeros((E, T), dtype=bool), [], 0
    for t in range(T):
        for e in range(E):
            action = int((np.cumsum(policy[now[e]]) <= chance[t, e, 0]).sum())
            (each,) = process.outcomes(int(now[e]), action)
            states[e, t], actions[e, t] = seen[now[e]], action
            taken[e] += 1
            earned[e] += each.reward
            ended = each.done or bool(process.terminal[each.next])
            too_long = not ended and taken[e] == process.limit
            cut += too_long
            rewards[e, t] = train.reward_scale * each.reward + (
                process.discount * V[seen[each.next]] if too_long else 0.0
            )
            over[e, t], now[e] = ended or too_long, each.next
            if over[e, t]:
                finished.append(earned[e])
                starts = np.cumsum(process.start)
                now[e], taken[e], earned[e] = (starts <= chance[t, e, 2]).sum(), 0, 0.0
    assert cut > 0
    assert name == "corridor" or cut < len(finished)  # some were cut off, some ended
    advantages = np.zeros((E, T))
    for e in range(E):
        later = 0.0
        for t in reversed(range(T)):
            after = 0.0 if over[e, t] else V[states[e, t + 1]] if t + 1 < T else V[seen[now[e]]]
            delta = rewards[e, t] + process.discount * after - V[states[e, t]]
            later = advantages[e, t] = delta + (0.0 if over[e, t] else process.discount * train.gae * later)
    R = (advantages + V[states]).flatten()
    whitened = ((advantages - advantages.mean()) / np.sqrt(advantages.var() + 1e-8)).flatten()
    s, a = states.flatten(), actions.flatten()
    old_logprobs, old_values = old_logits[s, a], V[s]

    # The updates
    eta = rate(number, train, train.learning_rate)
    w = train.entropy * eta / train.learning_rate
    measured: dict[str, list[float]] = {}
    orders = generator(SEED, "minibatches", number)
    for _ in range(train.epochs):
        for chosen in np.split(orders.permutation(E * T), train.minibatches):
            logits = log_softmax(output(descent.weights, "policy"))
            logprobs, A = logits[s[chosen], a[chosen]], whitened[chosen]
            d = logprobs - old_logprobs[chosen]
            ratio = exp(d)
            free, held = ratio * -A, clamp(ratio, 1 - train.clip_ratio, 1 + train.clip_ratio) * -A
            v, before = output(descent.weights, "value")[s[chosen], np.zeros_like(chosen)], old_values[chosen]
            inside = abs(v.value - before) <= train.clip_value
            near = where(inside, v, clamp(v - before, -train.clip_value, train.clip_value) + before)
            policy_loss = maximum(free, held).mean()
            value_loss = maximum((v - R[chosen]) ** 2, (near - R[chosen]) ** 2).mean() * 0.5
            entropy = -(exp(logits) * logits).sum(1)[s[chosen]].mean()
            loss = policy_loss + value_loss * train.value_coefficient - entropy * w
            found = {
                "loss": loss.value,
                "policy_loss": policy_loss.value,
                "value_loss": value_loss.value,
                "entropy": entropy.value,
                "ratio": ratio.value.mean(),
                "clip_fraction": (held.value > free.value).mean(),
                "kl": (ratio.value - 1 - d.value).mean(),
                "lr": eta,
                "grad_norm": descent.step(loss, eta),
            }
            for name, value in found.items():
                measured.setdefault(name, []).append(float(value))

    exact = returns_of(process, policy)
    optimum = best_return(process)
    ours = {name: float(np.mean(values)) for name, values in measured.items()} | {
        "return/PPO": exact,
        "gap": (optimum - exact) / abs(optimum),
        "episode_return/PPO": float(np.mean(finished)),
        "explained_variance": 1 - (R - old_values).var() / R.var(),
        "entropy_weight": w,
    }
    assert set(theirs) == set(ours)
    for name, value in ours.items():
        assert float(theirs[name]) == pytest.approx(value, rel=1e-5, abs=2e-6), name
    assert 0 < ours["clip_fraction"] < 1
    assert ours["grad_norm"] > train.clip
    after = learner.state_dict()
    assert moved_apart(present["model"], after["model"], descent.weights) < 1e-4
    for name, expected in (("states", now), ("taken", taken), ("earned", earned)):
        np.testing.assert_allclose(after[name].numpy(), expected)
    last = output(descent.weights, "policy").value[seen]
    assert float(learner.evaluate()["greedy/PPO"]) == pytest.approx(greedy_return(process, last), rel=1e-9)
