"""The experiment "bandits": agents that choose among arms, in many parallel runs; a step is one play of every run
(MATH M5; S&B 2018, chapter 2).

All agents play the same testbeds with the same random draws, so that only their choices differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from txlab.engine.explain import Explaining, Explanation, Step
from txlab.engine.rl.bandits import TITLES, Agents, Choice, Method, expected_maximum
from txlab.errors import LabError
from txlab.experiments.protocol import Frame, NotFinite, State
from txlab.experiments.randomness import generator
from txlab.experiments.schema import PositiveInt, Scenario, Section, several
from txlab.experiments.tabular.bands import mean_and_error
from txlab.experiments.untimed import UntimedExperiment, UntimedKind

LETTERS = {"epsilon": "ε", "c": "c", "alpha": "α", "initial": "Q₁"}
SETTINGS: dict[Method, tuple[str, ...]] = {
    "epsilon-greedy": ("epsilon", "alpha", "initial"),
    "ucb": ("c", "alpha", "initial"),
    "gradient": ("alpha",),
}
MOST_NUMBERS = 400_000_000  # floats of all tables, 3.2 GB


class AgentSection(Section):
    """An action-selection method; `runs` of it play in parallel."""

    method: Method = Field("epsilon-greedy", description="how an arm is chosen, and how its value is learnt")
    label: str = Field(
        "", max_length=40, pattern=r"^[^/]*$", description="its name in the curves; empty = its settings"
    )
    epsilon: float = Field(0.1, ge=0, le=1, description="ε, probability of a random arm (epsilon-greedy)")
    c: float = Field(2.0, ge=0, le=1e6, description="c, weight of the uncertainty (ucb)")
    alpha: float = Field(0.0, ge=0, le=10, description="α, the step size; 0 = sample averages")
    initial: float = Field(0.0, ge=-1e6, le=1e6, description="Q₁, initial value of every arm")
    baseline: bool = Field(True, description="whether the mean reward is subtracted (gradient)")
    vary: Literal["", "epsilon", "c", "alpha", "initial"] = Field(
        "", description="which of these takes the values 2 to testbed.powers"
    )

    @model_validator(mode="after")
    def a_gradient_bandit_has_a_step_size(self) -> Self:
        if self.method == "gradient" and not self.alpha and self.vary != "alpha":
            raise ValueError("a gradient bandit needs an alpha above 0")
        return self

    @property
    def name(self) -> str:
        shown = {"epsilon-greedy": "epsilon", "ucb": "c", "gradient": "alpha"}[self.method]
        return self.label or f"{TITLES[self.method]}, {LETTERS[shown]}={getattr(self, shown):g}"

    def choice(self) -> Choice:
        return Choice(self.method, self.epsilon, self.c, self.alpha, self.initial, self.baseline)


class Testbed(Section):
    """The testbed: arms whose values q* are drawn from N(mean, 1), and pay N(q*, 1)."""

    arms: Annotated[int, Field(ge=2, le=1000)] = Field(10, description="k")
    runs: Annotated[int, Field(ge=1, le=100_000)] = Field(2000, description="testbeds, one agent of each kind on each")
    steps: PositiveInt = Field(1000, description="plays")
    mean: float = Field(0.0, ge=-1e6, le=1e6, description="mean of the arms' values")
    drift: float = Field(0.0, ge=0, le=1e3, description="standard deviation of every arm's random step at each play")
    powers: list[Annotated[int, Field(ge=-20, le=20)]] = Field(
        default_factory=list, max_length=41, description="a sweep: the agent's parameter is 2 to each of these powers"
    )


def agents() -> list[AgentSection]:
    return [AgentSection(epsilon=0.0, label="greedy"), AgentSection(epsilon=0.01), AgentSection(epsilon=0.1)]


class BanditScenario(Scenario):
    """Ways to choose among arms, compared on the same testbeds."""

    kind: Literal["bandits"] = "bandits"
    testbed: Testbed = Field(default_factory=Testbed)
    agents: list[AgentSection] = Field(default_factory=agents, min_length=1, max_length=12)

    @model_validator(mode="after")
    def agents_fit(self) -> Self:
        names = [agent.name for agent in self.agents]
        if len(set(names)) < len(names):
            raise ValueError(f"agents need different labels; they are {', '.join(names)}")
        powers = self.testbed.powers
        if len(set(powers)) < len(powers):
            raise ValueError(f"testbed.powers must not name one twice; they are {powers}")
        for agent in self.agents:
            if bool(agent.vary) != bool(powers):
                missing = "agents.vary says which setting" if powers else "testbed.powers says which values"
                raise ValueError(f"a sweep needs both: {missing} ({agent.name})")
            if agent.vary and agent.vary not in SETTINGS[agent.method]:
                raise ValueError(
                    f"agents.vary = {agent.vary!r} means nothing to {TITLES[agent.method]};"
                    f" allowed: {', '.join(SETTINGS[agent.method])}"
                )
            if agent.vary == "epsilon" and min(powers) > 0:
                raise ValueError(f"testbed.powers has no ε of at most 1 = 2 to the power 0 ({agent.name})")
        numbers = 2 * len(self.agents) * max(len(powers), 1) * self.testbed.runs * self.testbed.arms
        if numbers > MOST_NUMBERS:
            raise ValueError(
                f"agents × powers × runs × arms are {numbers:,} numbers; allowed: at most {MOST_NUMBERS:,}"
            )
        return self

    def length(self) -> int:
        return self.testbed.steps

    def outline(self) -> list[tuple[str, str]]:
        bed = self.testbed
        rows = [("Testbed", f"{several(bed.arms, 'arm')}, {several(bed.runs, 'run')} of {several(bed.steps, 'play')}")]
        rows += [
            ("Agent", f"{agent.name}{f', {LETTERS[agent.vary]} varied' if agent.vary else ''}") for agent in self.agents
        ]
        return rows


class BanditExperiment(UntimedExperiment):
    """See protocol.Experiment; `table[i][j]`: agent i with power j, None for an impossible setting (ε above 1)."""

    fixed = "while agents are compared"

    def __init__(self, scenario: BanditScenario) -> None:
        self.scenario = scenario
        bed = scenario.testbed
        chance = generator(scenario.seed, "bandit arms", 0)
        self.true = bed.mean + chance.standard_normal((bed.runs, bed.arms))  # (runs, k) q*
        powers: Sequence[int | None] = bed.powers or [None]
        self.table = [[self._new(agent, power) for power in powers] for agent in scenario.agents]
        self.earned = np.zeros((len(self.table), len(self.table[0]), bed.runs))  # Σ of the rewards so far
        self.step_count = 0

    def _new(self, agent: AgentSection, power: int | None) -> Agents | None:
        if power is not None:
            if agent.vary == "epsilon" and power > 0:
                return None
            agent = agent.model_copy(update={agent.vary: 2.0**power})
        return Agents.new(agent.choice(), self.scenario.testbed.runs, self.scenario.testbed.arms)

    @property
    def steps(self) -> int:
        return self.scenario.testbed.steps

    def step(self) -> Mapping[str, float]:
        """Play once in every run. For each agent (in a sweep: with the value that has earned most so far):

        reward/NAME    mean reward over the runs
        optimal/NAME   share of the runs that played an arm of the highest value
        """
        bed, chance = self.scenario.testbed, generator(self.scenario.seed, "bandit plays", self.step_count)
        explore, pick = chance.random((2, bed.runs))
        noise = chance.standard_normal(bed.runs)
        rows, highest = np.arange(bed.runs), self.true.max(axis=1)
        rewards = np.full(self.earned.shape[:2], np.nan)
        optimal = rewards.copy()
        for i, (agent, row) in enumerate(zip(self.scenario.agents, self.table, strict=True)):
            for j, group in enumerate(row):
                if group is not None:
                    arm = group.choose(explore, pick)
                    value = self.true[rows, arm]
                    group.learn(arm, value + noise)
                    if not np.isfinite(group.q).all():
                        learnt = "H" if group.choice.method == "gradient" else "Q"
                        at = f", {LETTERS[agent.vary]}={2.0 ** bed.powers[j]:g}" if agent.vary else ""
                        raise NotFinite(self.step_count + 1, f"{learnt} of {agent.name}{at}", "not finite")
                    self.earned[i, j] += value + noise
                    rewards[i, j], optimal[i, j] = (value + noise).mean(), (value == highest).mean()
        if bed.drift:
            self.true = self.true + bed.drift * chance.standard_normal(self.true.shape)
        self.step_count += 1
        metrics = {}
        for i, (agent, j) in enumerate(zip(self.scenario.agents, self.best(), strict=True)):
            metrics[f"reward/{agent.name}"] = float(rewards[i, j])
            metrics[f"optimal/{agent.name}"] = float(optimal[i, j])
        return metrics

    def best(self) -> list[int]:
        """For each agent, the power that has earned most so far."""
        known = np.array([[group is not None for group in row] for row in self.table])
        return [int(place) for place in np.where(known, self.earned.mean(axis=-1), -np.inf).argmax(axis=1)]

    def frame(self) -> Frame:
        """Of the first run: arms/true (k), arms/learnt and arms/plays (agents, k). In a sweep: sweep/score (agents,
        powers), the mean reward per play over the runs so far, and sweep/error, its standard error."""
        shown = [row[j] or row[0] for row, j in zip(self.table, self.best(), strict=True)]
        tensors = {"arms/true": self.true[0]}
        tensors["arms/learnt"] = np.array([group.q[0] for group in shown if group])
        tensors["arms/plays"] = np.array([group.n[0] for group in shown if group])
        facts: dict[str, Any] = {"agents": [agent.name for agent in self.scenario.agents]}
        powers = self.scenario.testbed.powers
        if powers:
            mean, error = mean_and_error(np.moveaxis(self.earned / max(self.step_count, 1), -1, 0))
            unknown = np.array([[group is None for group in row] for row in self.table]) | (self.step_count == 0)
            tensors["sweep/score"] = np.where(unknown, np.nan, mean)
            tensors["sweep/error"] = np.where(unknown, np.nan, error)
            varied = ", ".join(dict.fromkeys(LETTERS[agent.vary] for agent in self.scenario.agents))
            facts["sweep"] = {
                "axes": [["agent", facts["agents"]], [f"log₂ of {varied}", list(powers)]],
                "score": f"mean reward over {several(self.step_count, 'play')}",
                "better": "high",
            }
        return Frame(self.step_count, tensors, facts=facts)

    def facts(self) -> Mapping[str, Any]:
        groups = sum(group is not None for row in self.table for group in row)
        return {
            "unit": "plays",
            "units_per_step": groups * self.scenario.testbed.runs,
            "agents": groups * self.scenario.testbed.runs,
            "headline": [f"reward/{agent.name}" for agent in self.scenario.agents],
            "compute": {"device": "cpu", "dtype": "float64"},
        }

    # Checkpoints

    def state_dict(self) -> State:
        tables = [
            None if group is None else {"q": group.q.copy(), "n": group.n.copy(), "mean": group.mean.copy()}
            for row in self.table
            for group in row
        ]
        return {"step": self.step_count, "true": self.true.copy(), "earned": self.earned.copy(), "tables": tables}

    def load_state_dict(self, state: State) -> None:
        groups = [group for row in self.table for group in row]
        shape = np.shape(state["true"])
        if shape != self.true.shape or len(state["tables"]) != len(groups):
            raise LabError(
                f"the checkpoint does not fit this scenario: runs and arms are {shape}, not {self.true.shape}"
            )
        self.step_count = int(state["step"])
        self.true, self.earned = (np.array(state[name], dtype=np.float64) for name in ("true", "earned"))
        for group, held in zip(groups, state["tables"], strict=True):
            if group is not None:
                group.q, group.n, group.mean = (np.array(held[name], dtype=np.float64) for name in ("q", "n", "mean"))
                group.steps = self.step_count


EQUATIONS: dict[Method, str] = {
    "epsilon-greedy": "A = argmax Q, or any arm with probability ε;  Q(A) ← Q(A) + step [R − Q(A)]",
    "ucb": "A = argmax Q(a) + c √(ln t / N(a));  Q(A) ← Q(A) + step [R − Q(A)]",
    "gradient": "A ~ softmax(H);  H(a) ← H(a) + α (R − b) (1[a = A] − π(a))",
}


class BanditsKind(UntimedKind):
    name = "bandits"
    title = "Bandits"
    schema = BanditScenario

    def experiment(self, scenario: BanditScenario) -> BanditExperiment:
        return BanditExperiment(scenario)

    def explain_metric(
        self, scenario: BanditScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Explain a mean reward or a share of optimal plays, and its bounds."""
        family, _, label = name.partition("/")
        agent = next((each for each in scenario.agents if each.name == label), None)
        if agent is None or family not in ("reward", "optimal") or name not in values:
            return None
        bed, letter = scenario.testbed, {"epsilon-greedy": "epsilon", "ucb": "c", "gradient": "alpha"}[agent.method]
        why = Explaining(f"why {values[name]:.4g} for {label} at play {step}?", values[name])
        why.equation(EQUATIONS[agent.method], "M5", "Sutton and Barto 2018, §2.2–2.8")
        why.input("n", bed.runs, "runs, a testbed each")
        why.input("k", bed.arms, "arms")
        if agent.vary != letter:
            why.input(LETTERS[letter], getattr(agent, letter), TITLES[agent.method])
        if agent.method != "gradient":
            why.input("step", agent.alpha or "1/N(A)", "constant" if agent.alpha else "sample averages")
        if family == "reward":
            why.measurement("R", f"mean over the runs at play {step}", "Σ Rᵢ / n")
            if not bed.drift:
                most = bed.mean + expected_maximum(bed.arms)
                why.means(Step("at most", "mean + E max of k standard normal numbers", most, "for known arms"))
        else:
            why.measurement("share", f"at play {step}", "#(A is an arm of the highest value) / n")
            if agent.method == "epsilon-greedy" and agent.epsilon and agent.vary != "epsilon":
                limit = 1 - agent.epsilon + agent.epsilon / bed.arms
                why.means(Step("in the end", "1 − ε + ε/k", limit, "once the best arm is known"))
        return why.result()


KIND = BanditsKind()
