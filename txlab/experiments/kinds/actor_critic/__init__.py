"""The kind "actor-critic": PPO in a world whose optimal return is known (MATH M8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from operator import mul
from typing import Any

from txlab.engine.explain import Explaining, Explanation, compute_step
from txlab.experiments.kinds.actor_critic.schema import ActorCriticScenario
from txlab.experiments.learning.explanations import MeanLoss, explain_norm_of_updates, explain_step, explain_sum
from txlab.experiments.learning.schema import factor
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Experiment
from txlab.experiments.untimed import UntimedKind

MEANINGS = {
    "return": ("J(π) = Σₛ P(an episode begins in s) V^π(s)", "M1, M8",
               "exact, from the world's probabilities, of the policy that made this rollout; no episode is cut off"),
    "gap": ("gap = (J* − J(π)) / |J*|", "M2, M8", "J* by value iteration, before the first step"),
    "episode_return": ("mean of Σ r over the episodes that ended in this rollout", "M8",
                       "available to the learner itself"),
    "greedy": ("J(π_greedy),  π_greedy(s) = argmaxₐ π(a|s)", "M1",
               "computed exactly; an episode that never ends is cut off"),
    "policy_loss": ("mean of max(−A ρ, −A clamp(ρ, 1 − ε, 1 + ε))", "M8", "Schulman et al. 2017, eq. 7"),
    "value_loss": ("½ mean of max((V − R)², (V′ − R)²),  V′ = V_old + clamp(V − V_old)", "M8",
                   "in the units of the scaled rewards"),
    "entropy": ("H = −mean Σₐ π(a|s) ln π(a|s)", "F5, M8", "Schulman et al. 2017, eq. 9: S"),
    "ratio": ("ρ = π(a|s) / π_old(a|s)", "M8", "Schulman et al. 2017, eq. 6; 1 at the first reading of a rollout"),
    "entropy_weight": ("w = w_peak · s(n),  s(n) = η / η_peak", "M8", "computed here: it falls with the learning rate"),
    "clip_fraction": ("share of steps where −A clamp(ρ, 1 ± ε) > −A ρ", "M8",
                      "they have no gradient (counted as in TRL; CleanRL counts every |ρ − 1| > ε)"),
    "kl": ("mean of e^d − 1 − d,  d = ln π − ln π_old", "H5, M8", "Schulman 2020, of the policy before this rollout"),
    "explained_variance": ("1 − Var(R − V) / Var(R)", "M8", "before the values learn from this rollout: 1 is perfect"),
}  # fmt: skip


class ActorCriticKind(UntimedKind):
    name = "actor-critic"
    networks = True
    title = "Actor and critic: PPO in a known world"
    schema = ActorCriticScenario
    screen = "arena"
    METRICS = (
        Metric("return/PPO", "return of an episode", "return", "of the policy, exactly", less=False, primary=True),
        Metric("episode_return/PPO", label="episode return", less=False, primary=True),
        Metric("return/", "return of an episode", "return", "of the policy, exactly", less=False),
        Metric("gap", label="gap", note="to the optimal return, as a share of it", less=True),
        Metric("greedy/", label="greedy", note="return of the likeliest actions", less=False),
        Metric("entropy", "nats a step"),
        Metric("kl", "nats a step"),
    )

    def experiment(self, scenario: Any) -> Experiment:
        from txlab.experiments.kinds.actor_critic.experiment import ActorCritic

        return ActorCritic(scenario)

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        resolved = super().resolve(scenario, say)
        compute = resolved.compute.model_copy(update={"attention": "sdpa"})
        return resolved.model_copy(update={"compute": compute})

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Explain the metrics of a step."""
        if not isfinite(values[name]):
            return None
        train, value = scenario.train, values[name]
        share = factor(step, train.warmup, train.steps, train.final, train.decay)
        weight = values.get("entropy_weight", train.entropy * share)  # runs of earlier versions did not record it
        if name == "lr":
            return explain_step(scenario, MeanLoss(), name, values, step, facts)
        if name == "grad_norm":
            return explain_norm_of_updates(train, value, step, train.epochs * train.minibatches)
        if name == "loss":
            return explain_sum(
                f"why is loss {value:.4g} at step {step}?",
                "M8",
                "Schulman et al. 2017, eq. 9",
                value,
                [
                    ("L_policy", "", 1.0, values.get("policy_loss")),
                    ("L_value", "c", train.value_coefficient, values.get("value_loss")),
                    ("H", "w", -weight, values.get("entropy")),
                ],
            )
        metric = name.removesuffix("/PPO")
        if metric not in MEANINGS:
            return None
        equation, math, note = MEANINGS[metric]
        why = Explaining(f"why is {name} {value:.4g} at step {step}?", value)
        why.equation(equation, math, note)
        if name == "entropy_weight":
            why.input("w_peak", train.entropy, "train.entropy")
            why.compute("w", "{} · {}", mul, train.entropy, share)
            return why.result(because="it was changed while it ran")
        why.measurement(name)
        optimum = facts.get("optimal_return")
        if metric in ("return", "gap", "greedy") and isinstance(optimum, (int, float)):
            why.input("J*", float(optimum), "the optimal return")
            own = values.get("return/PPO" if name == "gap" else name)
            if own is not None and optimum:
                gap = compute_step(
                    "gap", "({} − {}) / |{}|", lambda a, b, c: (a - b) / abs(c), float(optimum), own, float(optimum)
                )
                why.steps, why.meaning = ([gap], []) if name == "gap" else (why.steps, [gap])
        if name == "entropy":
            note = "the bonus in the loss; w falls with η"
            why.means(compute_step("w H", "{} · {}", mul, weight, value, note=note))
        return why.result()


KIND = ActorCriticKind()
