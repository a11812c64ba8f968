"""Bandits: arrays equal the rules written out for one agent; bounds, resume, and the shapes of the book."""

from __future__ import annotations

from collections import deque
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from txlab.engine.rl.bandits import Agents, Choice, argmax_evenly, expected_maximum
from txlab.experiments.kinds.bandits import KIND, BanditExperiment, BanditScenario
from txlab.experiments.protocol import NotFinite
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.scenario import load_scenario

build, explain_metric = KIND.build, KIND.explain_metric


def scenario(**testbed: Any) -> BanditScenario:
    agents = [
        {"label": "greedy", "epsilon": 0.0},
        {"label": "ε", "epsilon": 0.1, "alpha": 0.2},
        {"label": "ucb", "method": "ucb", "c": 1.5},
        {"label": "gradient", "method": "gradient", "alpha": 0.3},
    ]
    return BanditScenario.model_validate({"testbed": {"runs": 6, "steps": 40, "arms": 4, **testbed}, "agents": agents})


def play_alone(choice: Choice, values: list[float], chance: list[tuple[float, float, float]]) -> list[float]:
    """One agent, written out with lists: the reference that the arrays are held against."""
    k = len(values)
    q, n, rewards = [choice.initial if choice.method != "gradient" else 0.0] * k, [0] * k, []
    for t, (explore, pick, noise) in enumerate(chance, start=1):
        if choice.method == "gradient":
            weights = [exp(each) for each in q]
            pi = [weight / sum(weights) for weight in weights]
            arm = next((a for a in range(k) if sum(pi[: a + 1]) > pick), k - 1)
        elif choice.method == "epsilon-greedy" and explore < choice.epsilon:
            arm = int(pick * k)
        else:
            scores = list(q)
            if choice.method == "ucb":
                scores = [float("inf") if not n[a] else q[a] + choice.c * sqrt(log(t) / n[a]) for a in range(k)]
            best = [a for a in range(k) if scores[a] == max(scores)]
            arm = best[int(pick * len(best))]
        reward = values[arm] + noise
        n[arm] += 1
        if choice.method == "gradient":
            mean = sum(rewards) / len(rewards) if rewards else reward
            advantage = reward - mean if choice.baseline else reward
            for a in range(k):
                q[a] += choice.alpha * advantage * ((1 if a == arm else 0) - pi[a])
        else:
            q[arm] += (choice.alpha or 1 / n[arm]) * (reward - q[arm])
        rewards.append(reward)
    return q


@pytest.mark.parametrize(
    "choice",
    [
        Choice(epsilon=0.0),
        Choice(epsilon=0.3),
        Choice(epsilon=0.0, alpha=0.1, initial=5.0),
        Choice("ucb", c=2.0),
        Choice("ucb", c=0.5, initial=-20.0),
        Choice("gradient", alpha=0.2),
        Choice("gradient", alpha=0.2, baseline=False),
    ],
    ids=str,
)
def test_runs_in_a_batch_equal_the_agents_alone(choice: Choice) -> None:
    random = np.random.default_rng(0)
    runs, k, plays = 7, 5, 60
    values, chance = random.normal(size=(runs, k)), random.random((plays, 3, runs))
    agents = Agents.new(choice, runs, k)
    for explore, pick, noise in chance:
        arm = agents.choose(explore, pick)
        agents.learn(arm, values[np.arange(runs), arm] + noise)
    for run in range(runs):
        alone = play_alone(choice, values[run].tolist(), [tuple(draws[:, run]) for draws in chance])
        np.testing.assert_allclose(agents.q[run], alone, rtol=0, atol=1e-12)


def test_equal_values_share_the_choice() -> None:
    pick = np.linspace(0, 1, 3000, endpoint=False)
    arms = argmax_evenly(np.tile([1.0, 3.0, 2.0, 3.0, 3.0], (3000, 1)), pick)
    assert np.bincount(arms, minlength=5).tolist() == [0, 1000, 0, 1000, 1000]


def test_the_most_that_can_be_earned_is_the_expected_maximum() -> None:
    """Mean of the largest order statistic; k = 2 and 3 have the closed forms 1/√π and 3/(2√π)."""
    assert expected_maximum(2) == pytest.approx(1 / sqrt(np.pi), abs=1e-7)
    assert expected_maximum(3) == pytest.approx(1.5 / sqrt(np.pi), abs=1e-7)
    assert expected_maximum(10) == pytest.approx(1.5387527, abs=1e-6)


def test_a_resumed_experiment_continues_bit_for_bit(tmp_path: Path) -> None:
    whole, first = build(scenario(drift=0.1)), build(scenario(drift=0.1))
    rows = [whole.step() for _ in range(40)]
    for _ in range(17):
        first.step()
    run = RunDirectory(tmp_path)
    checkpoints.save(run, 17, first.state_dict())
    second: BanditExperiment = build(scenario(drift=0.1))
    second.load_state_dict(checkpoints.load(run, 17))
    assert [second.step() for _ in range(23)] == rows[17:]
    np.testing.assert_equal(second.frame().tensors["arms/learnt"], whole.frame().tensors["arms/learnt"])


def test_the_testbed_behaves_as_in_the_book() -> None:
    """S&B §2.3: greedy stays near a reward of 1 and finds the best arm on about a third of the testbeds; figure 2.2."""
    experiment = build(load_scenario("bandits", ["testbed.runs=1000"]).scenario)
    rows = [experiment.step() for _ in range(1000)]
    last = {name: float(np.mean([row[name] for row in rows[-100:]])) for name in rows[0]}
    assert last["reward/greedy"] == pytest.approx(1.0, abs=0.1)
    assert last["optimal/greedy"] == pytest.approx(1 / 3, abs=0.06)
    assert last["reward/greedy"] < last["reward/ε=.01"] < last["reward/ε=.1"] < last["reward/UCB c=2"]
    assert 0.7 < last["optimal/ε=.1"] < 0.91  # 1 − ε + ε/k, which it may not pass
    assert max(value for name, value in last.items() if name.startswith("reward")) < expected_maximum(10)


def test_a_sweep_leaves_out_what_cannot_be() -> None:
    swept = load_scenario("bandits-parameters", ["testbed.runs=20", "testbed.steps=30"]).scenario
    experiment = build(swept)
    assert np.isnan(experiment.frame().tensors["sweep/score"]).all()  # nothing is known before the first play
    for _ in range(30):
        experiment.step()
    score = experiment.frame().tensors["sweep/score"]
    assert np.isnan(score[0]).tolist() == [False] * 8 + [True, True]  # no ε above 1
    assert not np.isnan(score[1:]).any()


def test_values_that_leave_the_finite_numbers_end_the_run_with_an_error() -> None:
    diverging = {"label": "wild", "alpha": 10.0, "initial": 1e6, "epsilon": 0.0}
    experiment = build(BanditScenario.model_validate({"testbed": {"runs": 2, "arms": 2}, "agents": [diverging]}))
    many = (experiment.step() for _ in range(3000))  # every update makes a value −9 times what it was
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(NotFinite, match="Q of wild is not finite"):
        deque(many, maxlen=0)


def test_a_share_is_explained_with_its_bound() -> None:
    told = load_scenario("bandits").scenario
    answer = explain_metric(told, "optimal/ε=.1", 900, {"optimal/ε=.1": 0.8}, {})
    assert answer is not None
    assert answer.meaning[-1].result == pytest.approx(0.91)
    reward = explain_metric(told, "reward/UCB c=2", 900, {"reward/UCB c=2": 1.5}, {})
    assert reward is not None
    assert reward.meaning[-1].result == pytest.approx(1.53875, abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"agents": [{"method": "gradient"}]}, "alpha above 0"),
        ({"agents": [{}, {}]}, "different labels"),
        ({"testbed": {"powers": [0]}, "agents": [{}]}, "agents.vary"),
        ({"agents": [{"vary": "c"}]}, "testbed.powers"),
        ({"testbed": {"powers": [0, 1]}, "agents": [{"method": "ucb", "vary": "epsilon"}]}, "means nothing to upper"),
        ({"testbed": {"powers": [1, 2]}, "agents": [{"vary": "epsilon"}]}, "no ε of at most 1"),
        ({"testbed": {"runs": 100_000, "arms": 1000}}, "allowed: at most"),
    ],
)
def test_what_cannot_be_played_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        BanditScenario.model_validate(changes)
