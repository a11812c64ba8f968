"""Dynamic programming as an Experiment: a step is one sweep, or one improvement of the policy (MATH M1, M2).

Notable: sweeps and improvements are steps of their own, so that the time line of policy iteration shows values settling
and then the arrows turning. `steps` is a bound that falls to where the run is as soon as there is nothing left to do.
Nothing is random; what is computed next depends on the values, the policy and three numbers, all of which a checkpoint
holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txlab.engine.rl.dynamic_programming import (
    ROUNDING,
    UNSETTLED,
    backup,
    best_policy,
    changed,
    constant,
    even,
    from_start,
    greedy,
    likely_path,
    settled,
    sweep,
    sweeps,
    values,
)
from txlab.engine.rl.exact_values import check_values_exist
from txlab.errors import LabError, nearest
from txlab.experiments.kinds.planning.schema import TITLES, PlanningScenario
from txlab.experiments.protocol import Adjustable, Frame, Sample, State
from txlab.experiments.tabular.frames import facts_of, side_of
from txlab.experiments.tabular.world import world_of

BOUNDS = {"gamma": (0.0, 1.0), "epsilon": (0.0, 1.0), "tolerance": (0.0, 1e6)}


class PlanningExperiment:
    """See protocol.Experiment; in `scenario` nothing is "auto".

    v, policy   the values (S), and the policy (S, A) that is evaluated; value iteration has none
    judged      policy iteration: the values of this policy have settled, so an improvement is next
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
        """LabError where γ = 1 and the values that are looked for are infinite."""
        if self.searches or self.improves or self.scenario.plan.policy == "optimal":
            check_values_exist(self.process, gamma, None, epsilon)

    def first_policy(self, name: str) -> np.ndarray:
        """The policy that plan.policy names, a share ε of it left to chance."""
        process, epsilon = self.process, self.numbers["epsilon"]
        if name == "even":
            return even(process)
        if name == "optimal":
            best = settled(sweeps(process, self.gamma, epsilon=epsilon)).v
            return best_policy(process, best, self.gamma, epsilon)
        if name not in process.actions:
            known = ["even", "optimal", *process.actions]
            raise LabError(
                f"plan.policy = {name!r} is no policy here{nearest(name, known)}; allowed: {', '.join(known)}"
            )
        policy: np.ndarray = (1 - epsilon) * constant(process, process.actions.index(name)) + epsilon * even(process)
        return policy

    # Planning

    def step(self) -> Mapping[str, float]:
        """One sweep, or one improvement.

        delta         the largest change of a value in this sweep
        residual      the largest |V − T V| that is left, T being the backup of the policy, or of the best choice
        value_start   Σ P(an episode begins in s) V(s)
        changed       in how many states this step changed the policy: of policy iteration its own (improvements only),
                      else the one that is greedy to the values
        improvements  of the policy so far (policy iteration)
        gamma         γ, where it was turned and is no longer the world's
        """
        found = self.improve() if self.judged else self.sweep()
        self.step_count += 1
        q = backup(self.process, self.v, self.gamma)
        newer = values(q, self.policy, 0.0 if self.policy is not None else self.numbers["epsilon"])
        found["residual"] = float(np.abs(newer - self.v).max(initial=0.0))
        found["value_start"] = from_start(self.process, self.v)
        if self.gamma != self.process.discount:
            found["gamma"] = self.gamma
        if self.improves:
            found["improvements"] = float(self.improvements)
        return found

    def sweep(self) -> dict[str, float]:
        plan, epsilon, tolerance = self.scenario.plan, self.numbers["epsilon"], self.numbers["tolerance"]
        newer = sweep(self.process, self.v, self.gamma, self.policy, epsilon, plan.sweep)
        delta = float(np.abs(newer - self.v).max(initial=0.0))
        found = {"delta": delta}
        if not self.improves:
            found["changed"] = float(changed(self.greedy(newer), self.greedy(self.v)))
        self.v = newer
        self.since += 1
        near = delta <= tolerance
        if self.improves:
            self.judged = near or self.since == plan.evaluation_sweeps
        else:
            self.finished = near
        return found

    def improve(self) -> dict[str, float]:
        assert self.policy is not None
        better = self.greedy(self.v)
        changes = changed(better, self.policy)
        # A policy that stays is the best one only if its values have settled; else its evaluation goes on.
        newer = sweep(self.process, self.v, self.gamma, self.policy)
        self.finished = not changes and float(np.abs(newer - self.v).max(initial=0.0)) <= self.numbers["tolerance"]
        self.policy = self.greedy(self.v) if self.finished else better
        self.improvements += bool(changes)
        self.since, self.judged = 0, False
        return {"changed": float(changes)}

    def greedy(self, v: np.ndarray) -> np.ndarray:
        """The policy that is greedy to V; at the end of a search the best one, whose ties are exact."""
        epsilon = self.numbers["epsilon"]
        if self.finished and (self.searches or self.improves):
            return best_policy(self.process, v, self.gamma, epsilon)
        return greedy(backup(self.process, v, self.gamma), epsilon, ROUNDING if self.searches else UNSETTLED)

    def verify(self) -> None:
        return

    # Looking

    def evaluate(self) -> Mapping[str, float]:
        return {}

    def frame(self) -> Frame:
        """0/v as it is, 0/q = backup(v), 0/policy the one that is evaluated, or else the one greedy to v, 0/path where
        the greedy one leads from the start; 0/greedy is that one where another is evaluated."""
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
            "0/v": self.v.copy(),  # float64: asked why, it says exactly what is left over
            "0/policy": policy.astype(np.float32),
            "0/path": likely_path(self.process, best),
        }
        if self.policy is not None:
            tensors["0/greedy"] = best.astype(np.float32)
        facts = facts_of(self.scenario.world.model_dump(), [side], updates=[self.step_count])
        return Frame(self.step_count, tensors, facts=facts | {"finished": self.finished})

    def samples(self) -> Sequence[Sample]:
        return ()

    def facts(self) -> Mapping[str, Any]:
        return {
            "unit": "sweeps",
            "units_per_step": 1,
            "states": self.process.size,
            "actions": list(self.process.actions),
            "outcomes": len(self.process.next),
            "world": self.world.title,
            "notes": list(self.world.notes),
            "headline": ["value_start", "delta"],
            "open_end": True,
            "compute": {"device": "cpu", "dtype": "float64"},
        }

    # What a person may change

    def adjustable(self) -> Mapping[str, Adjustable]:
        # The policy that is evaluated stays what it was, so ε is turned only where policies are looked for.
        names = ["gamma", "tolerance", *(["epsilon"] if self.searches or self.improves else [])]
        return {name: Adjustable(name, self.numbers[name], *BOUNDS[name]) for name in names}

    def adjust(self, name: str, value: float) -> None:
        """Go on from the values there are with another γ, ε or tolerance. LabError where values would be infinite."""
        known = self.adjustable()
        if name not in known:
            raise LabError(f"{name!r} cannot be changed{nearest(name, known)}; allowed: {', '.join(known)}")
        wanted = self.numbers | {name: value}
        self.check(wanted["gamma"], wanted["epsilon"])
        if self.policy is not None:
            check_values_exist(self.process, wanted["gamma"], self.policy)
        self.numbers = wanted
        self.judged = self.finished = False

    # Being put back

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
