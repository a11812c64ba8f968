"""The experiment "planning": dynamic programming in a known world, sweep by sweep (MATH M1, M2).

A step is one sweep, or one improvement of the policy, so that the timeline of policy iteration shows the values settle
and then the arrows turn. `steps` is an upper bound that falls to the current step as soon as the method has converged.
Nothing is random: the next step depends on the values, the policy and three numbers, all of them in a checkpoint. The
change in a sweep bounds the remaining error, which its curve does not show by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from txlab.engine.explain import Explaining, Explanation, Step, compute_step
from txlab.engine.rl.dynamic_programming import (
    ROUNDING,
    UNSETTLED,
    backup,
    best_policy,
    constant,
    count_changed,
    even,
    find_converged_sweep,
    from_start,
    greedy,
    likely_path,
    sweep,
    sweeps,
    values,
)
from txlab.engine.rl.exact_values import check_values_exist
from txlab.errors import LabError, nearest
from txlab.experiments.protocol import Adjustable, Frame, State
from txlab.experiments.schema import NonNegativeInt, PositiveInt, Scenario, Section, several
from txlab.experiments.tabular.frames import facts_of, side_of
from txlab.experiments.tabular.world import WorldSection, world_facts, world_of, world_row
from txlab.experiments.untimed import UntimedExperiment, UntimedKind

Method = Literal["evaluation", "value-iteration", "policy-iteration"]

TITLES: dict[Method, str] = {
    "evaluation": "policy evaluation",
    "value-iteration": "value iteration",
    "policy-iteration": "policy iteration",
}


class PlanSection(Section):
    """How the values are computed (MATH M1, M2)."""

    method: Method = Field("value-iteration", description="evaluation, value-iteration or policy-iteration")
    sweep: Literal["synchronous", "in-place", "prioritised"] = Field(
        "synchronous",
        description="all states from the old values; in order from the newest; or always the one next that "
        "is furthest from its backup",
    )
    policy: str = Field(
        "even",
        min_length=1,
        max_length=60,
        description="the policy evaluated, or at first in policy iteration: even, optimal, or an action of the world",
    )
    epsilon: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0,
        description="ε, the share of random choices; best is then the best ε-soft policy",
    )
    evaluation_sweeps: NonNegativeInt = Field(
        0, description="sweeps between two improvements of policy iteration; 0 = until the tolerance is met"
    )
    tolerance: Annotated[float, Field(ge=0, le=1e6)] = Field(
        1e-6, description="the run ends when a sweep changes no value by more than this"
    )
    sweeps: PositiveInt = Field(10_000, description="maximum number of sweeps; the run ends earlier if converged")


class PlanningScenario(Scenario):
    """Values and policies computed in a world whose probabilities and rewards are known."""

    kind: Literal["planning"] = "planning"
    world: WorldSection = Field(default_factory=lambda: WorldSection(name="gridworld"))
    plan: PlanSection = Field(default_factory=PlanSection)

    def length(self) -> int:
        return self.plan.sweeps

    def outline(self) -> list[tuple[str, str]]:
        plan = self.plan
        how = f"{TITLES[plan.method]}, {plan.sweep} sweeps"
        if plan.method != "value-iteration":
            how += f", {'of' if plan.method == 'evaluation' else 'from'} the policy “{plan.policy}”"
        return [
            world_row(self.world),
            ("Plan", how + (f", ε = {plan.epsilon:g}" if plan.epsilon else "")),
            ("Until", f"no value changes by more than {plan.tolerance:g}, at most {several(plan.sweeps, 'sweep')}"),
        ]


BOUNDS = {"gamma": (0.0, 1.0), "epsilon": (0.0, 1.0), "tolerance": (0.0, 1e6)}


class PlanningExperiment(UntimedExperiment):
    """See protocol.Experiment; in `scenario` nothing is "auto".

    v, policy   the values (S), and the policy (S, A) being evaluated; value iteration has none
    judged      policy iteration: the values of this policy have settled, and an improvement is next
    """

    def __init__(self, scenario: PlanningScenario) -> None:
        self.scenario = scenario
        self.world = world_of(scenario.world)
        self.process = self.world.process
        plan = scenario.plan
        self.numbers = {"gamma": self.process.discount, "epsilon": plan.epsilon, "tolerance": plan.tolerance}
        self.improves = plan.method == "policy-iteration"
        self.searches = plan.method == "value-iteration"
        self.check(self.gamma, plan.epsilon)
        self.policy = None if self.searches else self.first_policy(plan.policy)
        if self.policy is not None:
            check_values_exist(self.process, self.gamma, self.policy)
        self.v = np.zeros(self.process.size)
        self.step_count = 0
        self.improvements = 0
        self.since = 0  # sweeps since the last improvement
        self.judged = False
        self.finished = False

    @property
    def gamma(self) -> float:
        return self.numbers["gamma"]

    @property
    def steps(self) -> int:
        return self.step_count if self.finished else max(self.scenario.plan.sweeps, self.step_count)

    def check(self, gamma: float, epsilon: float) -> None:
        """Raise LabError if γ = 1 and the values would be infinite."""
        if self.searches or self.improves or self.scenario.plan.policy == "optimal":
            check_values_exist(self.process, gamma, None, epsilon)

    def first_policy(self, name: str) -> np.ndarray:
        """The policy named by plan.policy, with a share ε of random actions."""
        process, epsilon = self.process, self.numbers["epsilon"]
        if name == "even":
            return even(process)
        if name == "optimal":
            best = find_converged_sweep(sweeps(process, self.gamma, epsilon=epsilon)).v
            return best_policy(process, best, self.gamma, epsilon)
        if name not in process.actions:
            known = ["even", "optimal", *process.actions]
            raise LabError(
                f"plan.policy = {name!r} is not a policy here{nearest(name, known)}; allowed: {', '.join(known)}"
            )
        policy: np.ndarray = (1 - epsilon) * constant(process, process.actions.index(name)) + epsilon * even(process)
        return policy

    # Planning

    def step(self) -> Mapping[str, float]:
        """Make one sweep, or one improvement.

        delta         the largest change of a value in this sweep
        residual      the largest remaining |V − T V|, T being the backup of the policy, or of the best choice
        value_start   Σ P(an episode begins in s) V(s)
        changed       number of states in which this step changed the policy: that of policy iteration (improvements
                      only), else the one that is greedy with respect to the values
        improvements  of the policy so far (policy iteration)
        gamma         γ, if it was changed from the world's
        """
        metrics = self.improve() if self.judged else self.sweep()
        self.step_count += 1
        q = backup(self.process, self.v, self.gamma)
        newer = values(q, self.policy, 0.0 if self.policy is not None else self.numbers["epsilon"])
        metrics["residual"] = float(np.abs(newer - self.v).max(initial=0.0))
        metrics["value_start"] = from_start(self.process, self.v)
        if self.gamma != self.process.discount:
            metrics["gamma"] = self.gamma
        if self.improves:
            metrics["improvements"] = float(self.improvements)
        return metrics

    def sweep(self) -> dict[str, float]:
        plan, epsilon, tolerance = self.scenario.plan, self.numbers["epsilon"], self.numbers["tolerance"]
        newer = sweep(self.process, self.v, self.gamma, self.policy, epsilon, plan.sweep)
        delta = float(np.abs(newer - self.v).max(initial=0.0))
        metrics = {"delta": delta}
        if not self.improves:
            metrics["changed"] = float(count_changed(self.greedy(newer), self.greedy(self.v)))
        self.v = newer
        self.since += 1
        near = delta <= tolerance
        if self.improves:
            self.judged = near or self.since == plan.evaluation_sweeps
        else:
            self.finished = near
        return metrics

    def improve(self) -> dict[str, float]:
        assert self.policy is not None
        better = self.greedy(self.v)
        changes = count_changed(better, self.policy)
        # An unchanged policy is optimal only if its values have settled; otherwise its evaluation continues.
        newer = sweep(self.process, self.v, self.gamma, self.policy)
        self.finished = not changes and float(np.abs(newer - self.v).max(initial=0.0)) <= self.numbers["tolerance"]
        self.policy = self.greedy(self.v) if self.finished else better
        self.improvements += bool(changes)
        self.since, self.judged = 0, False
        return {"changed": float(changes)}

    def greedy(self, v: np.ndarray) -> np.ndarray:
        """The policy that is greedy with respect to V; at the end of a search the best one, whose ties are exact."""
        epsilon = self.numbers["epsilon"]
        if self.finished and (self.searches or self.improves):
            return best_policy(self.process, v, self.gamma, epsilon)
        return greedy(backup(self.process, v, self.gamma), epsilon, ROUNDING if self.searches else UNSETTLED)

    # Frames and facts

    def frame(self) -> Frame:
        """0/v, 0/q = backup(v), 0/policy the one being evaluated, else the one greedy with respect to v, 0/path the
        states that the greedy one visits from the start; 0/greedy is the greedy one if another is evaluated."""
        plan = self.scenario.plan
        q = backup(self.process, self.v, self.gamma)
        best = self.greedy(self.v)
        policy = best if self.policy is None else self.policy
        side = side_of(
            plan.method,
            TITLES[plan.method],
            self.gamma,
            epsilon=self.numbers["epsilon"],
            sweep=plan.sweep,
            policy=plan.policy,
            improvements=self.improvements,
        )
        tensors: dict[str, np.ndarray] = {
            "0/q": q.astype(np.float32),
            "0/v": self.v.copy(),  # float64, so that an explanation gives the exact residual
            "0/policy": policy.astype(np.float32),
            "0/path": likely_path(self.process, best),
        }
        if self.policy is not None:
            tensors["0/greedy"] = best.astype(np.float32)
        facts = facts_of(self.scenario.world.model_dump(), [side], updates=[self.step_count])
        return Frame(self.step_count, tensors, facts=facts | {"finished": self.finished})

    def facts(self) -> Mapping[str, Any]:
        return world_facts(self.world, "sweeps", ["value_start", "delta"]) | {
            "actions": list(self.process.actions),
            "outcomes": len(self.process.next),
            "open_end": True,
        }

    # Adjustable parameters

    def adjustable(self) -> Mapping[str, Adjustable]:
        # A policy being evaluated is fixed, so ε can be changed only where a policy is searched for.
        names = ["gamma", "tolerance", *(["epsilon"] if self.searches or self.improves else [])]
        return {name: Adjustable(name, self.numbers[name], *BOUNDS[name]) for name in names}

    def change(self, name: str, value: float) -> None:
        """Go on from the current values with another γ, ε or tolerance. LabError if values would be infinite."""
        wanted = self.numbers | {name: value}
        self.check(wanted["gamma"], wanted["epsilon"])
        if self.policy is not None:
            check_values_exist(self.process, wanted["gamma"], self.policy)
        self.numbers = wanted
        self.judged = self.finished = False

    # Checkpoints

    def state_dict(self) -> State:
        return {
            "step": self.step_count,
            "v": self.v.copy(),
            "policy": np.zeros((0, 0)) if self.policy is None else self.policy.copy(),
            "numbers": dict(self.numbers),
            "improvements": self.improvements,
            "since": self.since,
            "judged": self.judged,
            "finished": self.finished,
        }

    def load_state_dict(self, state: State) -> None:
        v, policy = np.asarray(state["v"]), np.asarray(state["policy"])
        fits = (0, 0) if self.policy is None else self.policy.shape
        if v.shape != self.v.shape or policy.shape != fits:
            raise LabError(
                f"the checkpoint does not fit this world: it has values for {len(v)} states, not {len(self.v)}"
            )
        self.v = v.astype(np.float64)
        self.policy = None if self.policy is None else policy.astype(np.float64)
        self.numbers = {name: float(state["numbers"][name]) for name in self.numbers}
        self.step_count, self.improvements, self.since = state["step"], state["improvements"], state["since"]
        self.judged, self.finished = state["judged"], state["finished"]


class PlanningKind(UntimedKind):
    name = "planning"
    title = "Planning by dynamic programming"
    schema = PlanningScenario
    screen = "arena"

    def experiment(self, scenario: PlanningScenario) -> PlanningExperiment:
        return PlanningExperiment(scenario)

    def explain_metric(
        self, scenario: PlanningScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Explain the metrics of a step."""
        if name not in values:
            return None
        value = values[name]
        if name == "delta":
            return explain_change(scenario, step, values)
        meanings = {
            "residual": (
                f"how far from the Bellman equation after step {step}?",
                "residual = maxₛ |Σₐ π(a|s) Q(s,a) − V(s)|,  or with maxₐ Q(s,a) where the best choice is looked for",
                "the largest change that one more sweep would make",
            ),
            "value_start": (
                f"why {value:.4g} at the start?",
                "value_start = Σₛ P(an episode begins in s) V(s)",
                "the mean over the states in which an episode may begin",
            ),
            "changed": (
                f"what changed in {value:.0f} states at step {step}?",
                "π′(s) = argmaxₐ Q(s,a),  equals sharing;  changed = |{s : π′(s) ≠ π(s)}|",
                (
                    "of policy iteration the policy itself, improved with its own Q^π (Wang §6.1 writes V*, with which "
                    "nothing would be left to improve: erratum of M2); else the greedy one"
                ),
            ),
            "improvements": (
                f"why {value:.0f} improvements?",
                "π′(s) = argmaxₐ Q^π(s,a),  as often as Q^π has been evaluated;  until π′ = π",
                "of the policy so far; there are finitely many policies, and each is better than the one before",
            ),
            "gamma": (
                f"why a discount of {value:.4g}?",
                "v(s) = E[R₁ + γ R₂ + γ² R₃ + …]",
                f"changed while it ran; the world has {world_of(scenario.world).process.discount:g}",
            ),
        }.get(name)
        if meanings is None:
            return None
        question, equation, note = meanings
        why = Explaining(question, value)
        why.equation(equation, "M1, M2", "Sutton and Barto 2018, §4.1–4.4")
        why.measurement(name, note)
        return why.result()


def explain_change(scenario: PlanningScenario, step: int, values: Mapping[str, float]) -> Explanation:
    delta, residual = values["delta"], values.get("residual")
    gamma = values.get("gamma", world_of(scenario.world).process.discount)
    tolerance = scenario.plan.tolerance
    why = Explaining(f"what does a change of {delta:.4g} at step {step} say?", delta)
    why.means(Step("δ ≤ tolerance?", f"{delta:.4g} ≤ {tolerance:g}", "yes" if delta <= tolerance else "no"))
    equation = "δ = maxₛ |V_new(s) − V_old(s)|"
    nothing = "no value is further off than this"
    if gamma < 1 and scenario.plan.sweep != "prioritised":
        equation += ",  maxₛ |V_new(s) − V(s)| ≤ γ / (1 − γ) · δ"
        bound = gamma, gamma, delta
        why.means(compute_step("error ≤", "{} / (1 − {}) · {}", lambda a, γ, δ: a / (1 - γ) * δ, *bound, note=nothing))
    elif gamma < 1 and residual is not None:  # a sweep that skipped states is not a contraction: use its residual
        equation += ",  maxₛ |V_new(s) − V(s)| ≤ residual / (1 − γ)"
        why.means(compute_step("error ≤", "{} / (1 − {})", lambda b, γ: b / (1 - γ), residual, gamma, note=nothing))
    why.equation(equation, "M1, M2", "Puterman 1994, theorem 6.3.3")
    why.input("γ", gamma, "discount" if gamma < 1 else "without discount a small change bounds nothing")
    why.measurement("δ", "the largest change of a value in this sweep")
    return why.result()


KIND = PlanningKind()
