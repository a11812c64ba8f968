"""PPO in worlds: its rollouts, its numbers, and how near it comes to what is best (MATH M8)."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
import pytest
import torch

from txlab.engine.rl.dynamic_programming import from_start
from txlab.engine.rl.exact_values import solve_values
from txlab.engine.rl.process import Outcome, compile_process
from txlab.engine.rl.worlds import world_named
from txlab.errors import LabError
from txlab.experiments.kinds.actor_critic import KIND
from txlab.experiments.kinds.actor_critic.experiment import ActorCritic
from txlab.experiments.kinds.actor_critic.schema import ActorCriticScenario

SMALL: dict[str, Any] = {
    "seed": 3,
    "world": {"name": "windy"},
    "train": {"steps": 4, "environments": 4, "horizon": 8, "epochs": 2, "minibatches": 2},
    "compute": {"threads": 1},
}


def made(**changes: Any) -> ActorCritic:
    tables = {name: {**SMALL[name], **table} if isinstance(table, dict) else table for name, table in changes.items()}
    return KIND.build(ActorCriticScenario.model_validate(SMALL | tables))  # type: ignore[return-value]


def test_at_its_first_reading_a_rollout_has_ratio_one_and_nothing_is_clipped() -> None:
    learner = made()
    learner.rollout, _ = learner.collect(1, learner.policy())
    learner.whitened = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    measured = learner.gradients_on(torch.arange(32))
    assert float(measured["ratio"]) == pytest.approx(1.0, abs=1e-6)
    assert float(measured["clip_fraction"]) == 0.0
    assert float(measured["kl"]) == pytest.approx(0.0, abs=1e-7)


def test_the_return_is_the_mean_of_what_episodes_earn() -> None:
    """The exact return of the first policy, almost uniform, against 4000 episodes of a plain loop."""
    learner = made(world={"name": "gridworld-corners"})
    process, policy = learner.process, learner.policy()
    exact = from_start(process, solve_values(process, policy, learner.gamma))
    draws, earned = np.random.default_rng(0), []
    for _ in range(4000):
        state, total = int(draws.choice(process.size, p=process.start)), 0.0
        while not process.terminal[state]:
            action = int(draws.choice(process.choices, p=policy[state]))
            outcomes = process.outcomes(state, action)
            outcome = outcomes[int(draws.choice(len(outcomes), p=[each.probability for each in outcomes]))]
            total, state = total + outcome.reward, outcome.next
            if outcome.done:
                break
        earned.append(total)
    error = float(np.std(earned)) / len(earned) ** 0.5
    assert exact == pytest.approx(float(np.mean(earned)), abs=4 * error)
    assert float(learner.step()["return/PPO"]) == pytest.approx(exact)


@pytest.mark.parametrize("limit", [0, 5])
def test_advantages_are_those_of_a_plain_loop_over_the_same_steps(limit: int) -> None:
    """Where an episode ends nothing follows; where it is cut off, the value of the state it reached does."""
    learner = made(world={"name": "cliff", "limit": limit}, train={"horizon": 40})
    begun = learner.states.copy()
    worth = learner.values().detach().numpy()[learner.seen]
    rollout, finished = learner.collect(1, learner.policy())
    process, train, gamma = learner.process, learner.scenario.train, learner.gamma
    assert limit == 0 or len(finished) == 4 * 8
    for e in range(4):
        states, actions = rollout.states[e].tolist(), rollout.actions[e].tolist()
        assert states[0] == begun[e]
        deltas, over, taken = [], [], 0
        for t, (state, action) in enumerate(zip(states, actions, strict=True)):
            (outcome,) = process.outcomes(state, action)  # nothing is chance on the cliff
            taken += 1
            ended = outcome.done or bool(process.terminal[outcome.next])
            cut = not ended and taken == limit
            follows = 0.0 if ended else worth[outcome.next]
            deltas.append(outcome.reward * train.reward_scale + gamma * follows - worth[state])
            over.append(ended or cut)
            if over[-1]:
                taken = 0
            elif t + 1 < len(states):
                assert states[t + 1] == outcome.next
        advantage, expected = 0.0, np.zeros(40)
        for t in reversed(range(40)):
            advantage = deltas[t] + (0.0 if over[t] else gamma * train.gae * advantage)
            expected[t] = advantage
        np.testing.assert_allclose(rollout.advantages[e].numpy(), expected, atol=1e-4)
        np.testing.assert_allclose((rollout.returns[e] - rollout.values[e]).numpy(), expected, atol=1e-4)


def test_what_is_not_allowed_is_never_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world in which one state allows only the second action, and one only the first."""
    outcomes = {(0, 1): [Outcome(1.0, 1, -1.0)], (1, 0): [Outcome(1.0, 2, -1.0)]}
    process = compile_process(("left", "right"), ("a", "b", "end"), outcomes, 0)
    world = replace(world_named("cliff"), process=process)
    monkeypatch.setattr("txlab.experiments.kinds.actor_critic.experiment.world_of", lambda section: world)
    learner = made()
    assert learner.policy().tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    for _ in range(4):
        assert float(learner.step()["return/PPO"]) == -2.0
    rollout = learner.rollout
    assert all(action == 1 - state for state, action in zip(rollout.states.flatten(), rollout.actions.flatten()))  # noqa: B905


def test_a_resumed_run_continues_bit_for_bit() -> None:
    whole, first = made(), made()
    for _ in range(2):
        whole.step()
        first.step()
    resumed = made()
    resumed.load_state_dict(first.state_dict())
    for _ in range(2):
        assert resumed.step() == whole.step()
    for name, tensor in whole.state_dict()["model"].items():
        assert torch.equal(tensor, resumed.state_dict()["model"][name]), name
    with pytest.raises(LabError, match="4 environments, not 5"):
        made(train={"environments": 5}).load_state_dict(first.state_dict())


def test_a_step_of_many_updates_is_one_step_of_the_schedule() -> None:
    learner = made(train={"decay": "cosine", "final": 0.5, "learning_rate": 0.01})
    rates = [float(learner.step()["lr"]) for _ in range(4)]
    assert learner.step_count == 4
    assert rates[-1] == pytest.approx(0.005)
    assert rates == sorted(rates, reverse=True)


@pytest.mark.evidence
@pytest.mark.parametrize("seed", range(3))
def test_it_finds_the_best_way(seed: int) -> None:
    defaults = ActorCriticScenario(world=made().scenario.world, seed=seed).model_dump() | {"compute": {"threads": 1}}
    learner: ActorCritic = KIND.build(ActorCriticScenario.model_validate(defaults))  # type: ignore[assignment]
    while learner.step_count < learner.steps:
        metrics = learner.step()
    assert learner.optimum == -15.0
    assert float(metrics["gap"]) < 0.02
    assert float(learner.evaluate()["greedy/PPO"]) == -15.0


def test_a_loss_is_explained_by_all_of_its_terms() -> None:
    """Also in the middle of the schedule, and after the weight of the entropy was changed."""
    learner = made(train={"decay": "cosine", "warmup": 2, "entropy": 0.3})
    for step in range(1, 5):
        values = {name: float(value) for name, value in {**learner.step(), **learner.evaluate()}.items()}
        told = {name: KIND.explain_metric(learner.scenario, name, step, values, learner.facts()) for name in values}
        why = told["loss"]
        assert why is not None
        assert why.equation == "L = L_policy + c L_value − w H"
        assert {each.name for each in why.operands} == {"L_policy", "c", "L_value", "w", "H"}
        assert [each.name for each in why.steps] == ["c L_value", "w H", "L"]
        w, H = values["entropy_weight"], values["entropy"]
        assert why.steps[1].result == pytest.approx(w * H)
        assert values["loss"] == pytest.approx(values["policy_loss"] + 0.5 * values["value_loss"] - w * H, rel=1e-5)
        learner.adjust("entropy", 0.9)


def test_likeliest_actions_that_never_arrive_are_cut_off() -> None:
    learner = made(world={"name": "cliff"})
    with torch.no_grad():
        learner.model["policy"].head.bias.copy_(torch.tensor([5.0, 0.0, 0.0, 0.0]))  # up, for ever
    assert float(learner.evaluate()["greedy/PPO"]) == -learner.process.size * 4
    assert isfinite(float(learner.step()["return/PPO"]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"world": {"name": "gymnasium:Blackjack-v1"}}, "Blackjack"),
        ({"world": {"name": "no such world"}}, "no such world"),
        ({"train": {"minibatches": 64}}, "has no 64 parts"),
    ],
)
def test_what_it_cannot_learn_in_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises((LabError, ValueError), match=said):
        made(**changes)
