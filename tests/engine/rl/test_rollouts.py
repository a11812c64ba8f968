"""Episodes of many runs at once: each is what its run would live through alone (MATH M3)."""

import numpy as np
import pytest
from small_walks import walk

from txlab.engine.rl import rollouts as lives_module
from txlab.engine.rl.draws import uniforms
from txlab.engine.rl.dynamic_programming import even
from txlab.engine.rl.exact_values import solve_values
from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.engine.rl.rollouts import Rollouts
from txlab.errors import LabError


def plain_life(process: Process, seed: int, start: int, many: int) -> list[tuple[list[int], list[float], bool]]:
    """One step at a time, by the draws as they are documented."""
    found, t, state = [], 0, start
    for _ in range(many):
        states, rewards = [state], []
        while True:
            u = uniforms(seed, t, 1)[0, 0]
            t += 1
            can = [a for a in range(process.choices) if process.outcomes(state, a)]
            left = u[2]
            for outcome in process.outcomes(state, can[int(u[1] * len(can))]):
                left -= outcome.probability
                if left < 0:
                    break
            state = outcome.next
            states.append(state)
            rewards.append(outcome.reward)
            if outcome.done or len(rewards) == process.limit:
                found.append((states, rewards, outcome.done))
                state = int(np.flatnonzero(u[3] < np.cumsum(process.start))[0])
                break
    return found


def slippery() -> Process:
    """Chance in everything: what follows, which actions there are, where an episode begins."""
    return compile_process(
        ["a", "b"],
        ["0", "1", "2", "end"],
        {
            (0, 0): [Outcome(0.25, 1, 1.0), Outcome(0.75, 2, -1.0)],
            (0, 1): [Outcome(1, 0, 0.5)],
            (1, 1): [Outcome(0.5, 0, 0.0), Outcome(0.125, 3, 2.0, True), Outcome(0.375, 2, 0.0)],
            (2, 0): [Outcome(0.75, 1, 0.25), Outcome(0.25, 3, 0.0, True)],
            (2, 1): [Outcome(1, 2, 0.0)],
        },
        [0.25, 0.5, 0.25, 0],
        0.9,
        limit=9,
    )


@pytest.mark.parametrize("process", [walk(5, 0, 1), slippery()], ids=["walk", "slippery"])
def test_a_run_among_many_lives_as_it_would_alone(process: Process) -> None:
    rollouts = Rollouts(process, np.array([3, 9, 4, 1]))
    begins = rollouts.start.copy()
    together = [rollouts.episodes() for _ in range(6)]
    for run, seed in enumerate([3, 9, 4, 1]):
        for one, episodes in zip(plain_life(process, seed, int(begins[run]), 6), together, strict=True):
            lived = episodes.of(run)
            assert (lived.states.tolist(), lived.rewards.tolist(), lived.ended) == one
    if process.limit:
        assert any(not episodes.ended.all() for episodes in together), "no episode was cut off: nothing was tested"
        assert len(set(begins.tolist())) > 1


def test_noisy_rewards_have_the_mean_and_the_deviation_that_the_process_says() -> None:
    noisy = compile_process(["on"], ["0", "end"], {(0, 0): [Outcome(1, 1, -0.5, True, noise=2.0)]}, 0)
    rewards = Rollouts(noisy, np.arange(20_000)).episodes().rewards[:, 0]
    assert abs(rewards.mean() + 0.5) < 4 * 2 / np.sqrt(20_000)
    assert abs(rewards.std() - 2) < 4 * 2 / np.sqrt(40_000)
    u = uniforms(9, 0, 1)[0, 0]
    assert rewards[9] == pytest.approx(-0.5 + 2 * np.sqrt(-2 * np.log(1 - u[2])) * np.cos(2 * np.pi * u[3]))


def test_a_rollout_continues_where_it_stopped() -> None:
    rollouts = Rollouts(slippery(), np.arange(5))
    rollouts.episodes()
    kept = rollouts.state()
    after = [rollouts.episodes() for _ in range(3)]
    again = Rollouts(slippery(), np.arange(5))
    again.load(kept)
    for one in after:
        other = again.episodes()
        assert np.array_equal(one.states, other.states)
        assert np.array_equal(one.lengths, other.lengths)


def test_what_is_earned_is_worth_what_the_even_policy_is_worth() -> None:
    process = walk(5, 0, 1, discount=0.9)
    episodes = Rollouts(process, np.arange(4000)).episodes()
    earned = [episodes.rewards[run] @ 0.9 ** np.arange(episodes.rewards.shape[1]) for run in range(4000)]
    error = np.std(earned) / np.sqrt(4000)
    assert abs(np.mean(earned) - solve_values(process, even(process), 0.9)[3]) < 4 * error


def test_an_episode_without_end_is_reported_as_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives_module, "LONGEST", 300)
    ring = compile_process(["on"], ["0", "1"], {(0, 0): [Outcome(1, 1, 1)], (1, 0): [Outcome(1, 0, 1)]}, 0)
    with pytest.raises(LabError, match="set a limit"):
        Rollouts(ring, np.arange(3)).episodes()
