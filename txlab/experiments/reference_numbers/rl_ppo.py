"""PPO held against optimal returns in three worlds, ten seeds each (MATH M8)."""

from __future__ import annotations

from typing import Any

from txlab.experiments.reference_numbers import Figures, Measured, Say, claimed

FIGURES = Figures()
SEEDS, NEAR = 10, 0.02
WORLDS: dict[str, dict[str, float]] = {
    "cliff": {},
    "windy": {},
    "four-rooms": {"entropy": 0.1, "reward_scale": 0.1},
}
"""world → the settings in the scenario ppo-WORLD that are not the default"""


def final_gap(world: str, seed: int) -> float:
    """(J* − J(π)) / |J*| of the policy after all updates."""
    from txlab.engine.rl.dynamic_programming import from_start
    from txlab.engine.rl.exact_values import solve_values
    from txlab.experiments.kinds.actor_critic import KIND
    from txlab.experiments.kinds.actor_critic.schema import ActorCriticScenario

    asked = {"seed": seed, "world": {"name": world}, "train": WORLDS[world], "compute": {"threads": 1}}
    learner: Any = KIND.build(ActorCriticScenario.model_validate(asked))
    while learner.step_count < learner.steps:
        learner.step()
    earned = from_start(learner.process, solve_values(learner.process, learner.policy(), learner.gamma))
    return float((learner.optimum - earned) / abs(learner.optimum))


@FIGURES.measured_by(
    "ppo",
    f"PPO, {SEEDS} seeds in each world: the return of the final policy, computed exactly, against the optimal one",
    "Schulman et al. 2017, whose algorithm this is",
    [claimed(f"{world}: seeds within {NEAR:.0%} of the optimal return", SEEDS) for world in WORLDS],
    seconds=80,
)
def ppo(say: Say) -> list[Measured]:
    measured = []
    for world in WORLDS:
        gaps = []
        for seed in range(SEEDS):
            say(f"{world}: seed {seed + 1} of {SEEDS}")
            gaps.append(final_gap(world, seed))
        worst = f"{world}: {min(gaps):.2%} to {max(gaps):.2%} below the optimal return"
        measured.append(Measured(float(sum(gap <= NEAR for gap in gaps)), remark=worst))
    return measured
