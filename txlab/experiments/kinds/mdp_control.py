"""The experiment "mdp-control": control learners, each with many seeds and many settings in parallel (MATH M5–M7).

Notable: a step is one episode of every run, but runs do not wait for each other after every episode. They synchronise
every `sync_every` episodes: on the cliff 500 episodes take 3.2 s instead of 5.4 (scenarios/cliff.toml, one core).
Metrics are still per episode; a frame is of the last episode that all runs have finished, which it names. Every setting
has the same random seeds, so that settings are compared under the same draws. torch is only needed for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import isfinite, sqrt
from operator import add, sub
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from txlab.engine.explain import Explaining, Explanation, Operand, Step, compute_step
from txlab.engine.intervals import covered_by_standard_error
from txlab.engine.rl.divergence import divergence
from txlab.engine.rl.dynamic_programming import likely_path
from txlab.engine.rl.rules import rule_named
from txlab.engine.rl.settings import PolicyName, Settings
from txlab.engine.rl.sweeps.sweep import policies, sweep_in
from txlab.errors import LabError
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Frame, State
from txlab.experiments.schema import PositiveInt, Scenario, Section, group_digits, several
from txlab.experiments.tabular.bands import mean_and_error, spread
from txlab.experiments.tabular.frames import facts_of, learner_side
from txlab.experiments.tabular.world import WorldSection, limit_steps, world_facts, world_of, world_row
from txlab.experiments.untimed import UntimedExperiment, UntimedKind


def steers(rule: str) -> str:
    """Validate a rule that chooses actions: one of txlab's, or of an installed distribution."""
    try:
        entry = rule_named(rule)
    except LabError as error:
        raise ValueError(str(error)) from None
    if not entry.steers:
        raise ValueError(f"{rule} does not steer; use kind = 'prediction' or 'planning'")
    return rule


Learning = Annotated[str, AfterValidator(steers)]

Share = Annotated[float, Field(ge=0, le=1)]
StepSize = Annotated[float, Field(gt=0, le=10)]
Steps = Annotated[int, Field(ge=1, le=1000)]
MOST_AGENTS = 1_000_000


class LearnerSection(Section):
    """One learner, as rl.settings.Settings; `runs` of it learn in parallel, each with its own table."""

    rule: Learning = Field("q-learning", description="which update is made")
    label: str = Field("", max_length=40, pattern=r"^[^/]*$", description="its name in the curves; empty = the rule")
    alpha: StepSize = Field(0.5, description="α, the step size; REINFORCE: of the policy")
    beta: StepSize = Field(0.1, description="step size of REINFORCE's baseline")
    gamma: Share | None = Field(None, description="γ; left out = the world's own")
    lam: Share = Field(0.9, description="λ of the rules with traces")
    traces: Literal["accumulating", "replacing"] = Field("accumulating", description="how they grow")
    n: Steps = Field(4, description="n of n-step SARSA")
    planning: Annotated[int, Field(ge=0, le=1000)] = Field(5, description="Dyna-Q: updates from memory after each step")
    policy: PolicyName = Field("epsilon-greedy", description="how actions are chosen")
    epsilon: Share = Field(0.1, description="ε of ε-greedy")
    temperature: Annotated[float, Field(gt=0, le=1e6)] = Field(1.0, description="τ of softmax over Q")
    decay: Share = Field(1.0, description="ε, or τ, of episode n is its value · decayⁿ")
    floor: Annotated[float, Field(ge=0, le=1e6)] = Field(0.0, description="lower bound of ε, or τ")
    initial: Annotated[float, Field(ge=-1e6, le=1e6)] = Field(0.0, description="initial Q(s, a)")

    preferences: list[float] = Field(
        default_factory=list, max_length=100, description="REINFORCE: one for each action; none = initial for all"
    )

    @model_validator(mode="after")
    def settings_are_possible(self) -> Self:
        rule_named(self.rule).check_settings(self.settings())
        return self

    @model_validator(mode="after")
    def preferences_are_reinforce_s(self) -> Self:
        if self.preferences and not rule_named(self.rule).prefers:
            raise ValueError(f"preferences are of reinforce and reinforce-baseline; the rule is {self.rule}")
        return self

    @model_serializer(mode="wrap")
    def serialize_given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the keys that were not given: TOML has no None."""
        return {key: value for key, value in serialize(self).items() if value is not None and value != []}

    @property
    def name(self) -> str:
        return self.label or self.rule

    def settings(self, **changes: float) -> Settings:
        """The engine's settings; `changes` are those of one point of a sweep."""
        values = {key: value for key, value in self if key not in ("label", "preferences")}
        return Settings(**(values | changes))


class ControlSection(Section):
    """The extent of the experiment and its sweep: every learner with each of the listed values."""

    runs: Annotated[int, Field(ge=1, le=100_000)] = Field(100, description="seeds of each learner")
    episodes: PositiveInt = Field(500, description="episodes of each run")
    sync_every: PositiveInt = Field(
        10,
        le=1000,
        description="episodes that a run may be ahead of the others; 1 = each waits for all after every episode",
    )
    score: PositiveInt = Field(100, description="a score is the mean return of this number of last episodes")
    alpha: list[StepSize] = Field(default_factory=list, max_length=64, description="values of α; none = as it is")
    epsilon: list[Share] = Field(default_factory=list, max_length=64, description="values of ε")
    lam: list[Share] = Field(default_factory=list, max_length=64, description="values of λ")
    n: list[Annotated[int, Field(ge=1, le=1000)]] = Field(
        default_factory=list, max_length=64, description="values of n"
    )

    def axes(self) -> list[tuple[str, list[float]]]:
        """(name, values) of each swept setting."""
        return [(name, getattr(self, name)) for name in ("alpha", "epsilon", "lam", "n") if getattr(self, name)]

    @model_validator(mode="after")
    def values_differ(self) -> Self:
        for name, values in self.axes():
            if len(set(values)) < len(values):
                raise ValueError(f"{name} must not name a value twice; it is {values}")
        return self


def learners() -> list[LearnerSection]:
    return [LearnerSection(rule="sarsa"), LearnerSection(rule="q-learning")]


class ControlScenario(Scenario):
    """Learners of a world, compared over many seeds."""

    kind: Literal["mdp-control"] = "mdp-control"
    world: WorldSection = Field(default_factory=lambda: WorldSection(name="cliff"))
    learners: list[LearnerSection] = Field(default_factory=learners, min_length=1, max_length=8)
    control: ControlSection = Field(default_factory=ControlSection)

    @model_validator(mode="after")
    def names_differ(self) -> Self:
        names = [each.name for each in self.learners]
        if len(set(names)) < len(names):
            raise ValueError(f"learners need different labels; they are {', '.join(names)}")
        if self.agents() > MOST_AGENTS:
            most = group_digits(MOST_AGENTS)
            raise ValueError(
                f"learners × settings × runs are {group_digits(self.agents())} agents; allowed: at most {most}"
            )
        return self

    def agents(self) -> int:
        points = 1
        for _, values in self.control.axes():
            points *= len(values)
        return len(self.learners) * points * self.control.runs

    def length(self) -> int:
        return self.control.episodes

    def outline(self) -> list[tuple[str, str]]:
        control = self.control
        rows = [world_row(self.world)]
        rows += [("Learner", describe_learner(each, [name for name, _ in control.axes()])) for each in self.learners]
        rows += [("Sweep", f"{LETTERS[name]} = {format_list(values)}") for name, values in control.axes()]
        return [*rows, ("Runs", f"{several(control.runs, 'seed')} of each, {several(control.episodes, 'episode')}")]


LETTERS = {"alpha": "α", "epsilon": "ε", "lam": "λ", "temperature": "τ", "beta": "β", "n": "n", "planning": "planning"}


def format_list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def describe_learner(learner: LearnerSection, swept: Sequence[str]) -> str:
    """A learner in one line, without its swept settings."""
    shown = [name for name in rule_named(learner.rule).numbers(learner.policy) if name not in swept]
    title = rule_named(learner.rule).title
    values = [f"{LETTERS[name]} = {getattr(learner, name):g}" for name in shown]
    return ", ".join([f"{learner.label}: {title}" if learner.label else title, *values])


MOST_BYTES = 8 << 30


class ControlExperiment(UntimedExperiment):
    """See protocol.Experiment; in `scenario` nothing is "auto".

    An agent's number is ((learner · points) + point) · runs + run; `points` are those of the sweep, 1 without a sweep.
    """

    fixed = "while many runs are compared; the arena is for that"

    def __init__(self, scenario: ControlScenario) -> None:
        self.scenario = scenario
        world = world_of(scenario.world, by_stepping=True)
        self.world = limit_steps(world)  # or an agent that goes in circles would never finish
        self.process = self.world.process
        self.walk = world.process.limit or self.process.size * self.process.choices  # longest greedy episode
        control = scenario.control
        self.runs = control.runs
        self.axes = control.axes()
        names = [name for name, _ in self.axes]
        self.points = [
            dict(zip(names, values, strict=True)) for values in product(*(values for _, values in self.axes))
        ]
        self.labels = [each.name for each in scenario.learners]
        self.settings: list[list[Settings]] = [
            [each.settings(**point) for point in self.points] for each in scenario.learners
        ]
        kept = min(control.score, control.episodes) + control.sync_every  # episodes whose return and length are kept
        bytes_needed = 16 * scenario.agents() * (self.process.size * self.process.choices + kept)
        if bytes_needed > MOST_BYTES:
            raise LabError(
                f"{scenario.agents()} agents with {self.process.size} states and {self.process.choices} actions each, "
                f"and {kept} episodes kept of each, need {bytes_needed >> 30} GB; "
                "make control.runs, control.score or the sweep smaller"
            )
        self.seeds = [(scenario.seed * 1_000_003 + run) % (1 << 63) for run in range(self.runs)]
        each_agent = [settings for row in self.settings for settings in row for _ in range(self.runs)]
        seeds = self.seeds * (len(each_agent) // self.runs)
        offset = self.offset(len(each_agent))
        self.sweep = sweep_in(self.world, each_agent, seeds, scenario.compute.device, offset)
        self.shape = (len(self.labels), len(self.points), self.runs)
        self.step_count = 0
        self.learnt = 0  # episodes that every run has finished
        # Returns and lengths of the runs, in the last `score` reported episodes and in those learnt ahead.
        self.returns = np.zeros((*self.shape, 0))
        self.lengths = np.zeros((*self.shape, 0))

    def offset(self, agents: int) -> np.ndarray | None:
        """(agents, S, A): the initial preferences of the learners, if the scenario gives them."""
        if not any(each.preferences for each in self.scenario.learners):
            return None
        preferences = np.zeros((len(self.labels), self.process.size, self.process.choices))
        for i, each in enumerate(self.scenario.learners):
            if each.preferences:
                if len(each.preferences) != self.process.choices:
                    raise LabError(
                        f"learners: {each.name} has {len(each.preferences)} preferences; "
                        f"this world has {self.process.choices} actions: {', '.join(self.process.actions)}"
                    )
                preferences[i] = each.preferences
        return np.repeat(preferences, agents // len(preferences), axis=0)

    @property
    def steps(self) -> int:
        return self.scenario.control.episodes

    # Training
    def step(self) -> Mapping[str, float]:
        """Report the next episode of every run. For each learner (in a sweep: in its best setting so far):

        return/LABEL        mean return of the episode over the runs, under the exploring policy
        return_low, return_high/LABEL   one standard error of that mean below and above it, with several runs
        length/LABEL        mean number of steps
        left/LABEL          bias: share of runs that went left, i.e. whose episode took two steps
        """
        control = self.scenario.control
        if self.step_count == self.learnt:
            count = min(control.sync_every, control.episodes - self.learnt)
            returns, lengths = self.sweep.run_episodes(count)
            self.learnt += count
            keep = control.score - 1
            old_returns, old_lengths = (x[..., x.shape[-1] - keep :] if keep < x.shape[-1] else x
                                        for x in (self.returns, self.lengths))  # fmt: skip
            self.returns = np.concatenate([old_returns, returns.reshape(*self.shape, count)], axis=-1)
            self.lengths = np.concatenate([old_lengths, lengths.reshape(*self.shape, count)], axis=-1)
        self.step_count += 1
        now = self.returns.shape[-1] - 1 - (self.learnt - self.step_count)
        metrics: dict[str, float] = {}
        for i, (label, point) in enumerate(zip(self.labels, self.best(), strict=True)):
            mean, low, high = spread(self.returns[i, point, :, now])
            metrics[f"return/{label}"] = float(mean)
            if np.isfinite(high):
                metrics[f"return_low/{label}"], metrics[f"return_high/{label}"] = float(low), float(high)
            metrics[f"length/{label}"] = float(self.lengths[i, point, :, now].mean())
            if self.world.name == "bias":
                metrics[f"left/{label}"] = float((self.lengths[i, point, :, now] > 1).mean())
        return metrics

    def window(self) -> np.ndarray:
        """(learners, points, runs): the mean return over the last `score` episodes up to this step."""
        end = self.returns.shape[-1] - (self.learnt - self.step_count)
        window: np.ndarray = self.returns[..., max(0, end - self.scenario.control.score) : end].mean(axis=-1)
        return window

    def best(self) -> list[int]:
        """For each learner, the point of the sweep with the highest score so far."""
        if len(self.points) == 1:
            return [0] * len(self.labels)
        return [int(np.argmax(row)) for row in self.window().mean(axis=-1)]

    def members(self, learner: int, point: int) -> np.ndarray:
        """(runs): the numbers of the agents of one learner in one setting."""
        first = (learner * len(self.points) + point) * self.runs
        return np.arange(first, first + self.runs)

    # Frames and facts

    def evaluate(self) -> Mapping[str, float]:
        """greedy/LABEL: mean return over the runs of one greedy episode, without learning.

        Ties are broken at random. A walk that does not end is cut off at the world's limit, or after as many steps as
        there are state-action pairs.
        A learner of preferences has no such metric: its policy is stochastic.
        """
        metrics = {}
        for i, label in enumerate(self.labels):
            if rule_named(self.scenario.learners[i].rule).prefers:
                continue
            members = self.members(i, self.best_points()[i])
            metrics[f"greedy/{label}"] = float(self.sweep.greedy_returns(members, self.walk).mean())
        return metrics

    def best_points(self) -> list[int]:
        return self.best() if self.step_count else [0] * len(self.labels)

    def frame(self) -> Frame:
        """One side per learner, in its best setting: i/q the mean table over the runs, i/v its maxima, i/policy the
        mean policy, i/path where its likeliest actions lead.Learners of preferences have i/preferences instead of
        i/q, and i/v is the mean return that followed visits.

        In a sweep: sweep/score (learners, …axes) the mean over the runs of a score, and sweep/error its standard error.
        """
        tensors: dict[str, np.ndarray] = {}
        sides, states, updates, warnings = [], [], [], []
        for i, (label, point) in enumerate(zip(self.labels, self.best_points(), strict=True)):
            members, settings = self.members(i, point), self.settings[i][point]
            prefers = rule_named(settings.rule).prefers
            tables = self.sweep.q(members)
            warnings.append(divergence(self.process, settings, tables, self.world.environment is None))
            q = tables.mean(axis=0)
            by: PolicyName = "softmax" if prefers else settings.policy
            policy = policies(self.process, tables, self.sweep.exploration[members], by).mean(axis=0)
            best = np.where(self.process.terminal, 0.0, np.nanmax(fill_missing(q), axis=1))
            v = self.sweep.w(members).mean(axis=0) if prefers else best
            tensors[f"{i}/preferences" if prefers else f"{i}/q"] = q.astype(np.float32)
            tensors[f"{i}/v"] = v.astype(np.float32)
            tensors[f"{i}/policy"] = policy.astype(np.float32)
            if self.world.environment is None:
                tensors[f"{i}/path"] = likely_path(self.process, policy)
            gamma = self.process.discount if settings.gamma is None else settings.gamma
            heat = float(self.sweep.exploration[members[0]])
            named = {"title": title} if (title := self.scenario.learners[i].label) else {}
            sides.append({**learner_side(settings, gamma, heat, label=label), **named})
            states.append(int(self.sweep.states[members[0]]))
            updates.append(int(self.sweep.steps[members].mean()))
        learnt = [self.learnt] * len(sides)
        facts = facts_of(self.scenario.world.model_dump(), sides, states=states, episodes=learnt, updates=updates)
        facts["warnings"] = warnings
        facts["table"] = f"mean of {self.runs} runs" if self.runs > 1 else "of one run"
        if self.axes:
            window = self.window() if self.step_count else np.full(self.shape, np.nan)
            shape = (len(self.labels), *(len(values) for _, values in self.axes))
            mean, error = mean_and_error(np.moveaxis(window, -1, 0))
            tensors["sweep/score"], tensors["sweep/error"] = mean.reshape(shape), error.reshape(shape)
            last = min(self.scenario.control.score, max(self.step_count, 1))
            facts["sweep"] = {
                "axes": [["learner", self.labels], *([name, list(values)] for name, values in self.axes)],
                "score": "return of the last episode" if last == 1 else f"mean return of the last {last} episodes",
                "better": "high",
            }
        return Frame(self.step_count, tensors, facts=facts)

    def facts(self) -> Mapping[str, Any]:
        compute = {"device": self.scenario.compute.device, "dtype": "float64", "arrays": self.sweep.arrays.name}
        headline = [f"{self.headline_metric()}/{label}" for label in self.labels]
        return world_facts(self.world, "episodes", headline, len(self.sweep)) | {
            "agents": len(self.sweep),
            "actions": list(self.process.actions),
            "band": "one standard error of the mean over the runs, below and above",
            "compute": compute,
        }

    def headline_metric(self) -> str:
        """The most telling metric: the length of an episode, if all terminal rewards are the same and the only ones."""
        if self.world.name == "bias":
            return "left"
        done, reward = self.process.done, self.process.reward
        same = done.any() and not reward[~done].any() and np.ptp(reward[done]) == 0
        return "length" if same else "return"

    # Checkpoints

    def state_dict(self) -> State:
        return {
            "step": self.step_count,
            "learnt": self.learnt,
            "returns": self.returns.copy(),
            "lengths": self.lengths.copy(),
            "sweep": self.sweep.state(),
        }

    def load_state_dict(self, state: State) -> None:
        returns = np.asarray(state["returns"])
        if returns.shape[:3] != self.shape:
            raise LabError(f"the checkpoint is of {returns.shape[:3]} learners, settings and runs, not {self.shape}")
        self.sweep.load(state["sweep"])
        self.step_count, self.learnt = int(state["step"]), int(state["learnt"])
        self.returns, self.lengths = returns.astype(np.float64), np.asarray(state["lengths"]).astype(np.float64)


def fill_missing(q: np.ndarray) -> np.ndarray:
    """(S, A) with zeros where a state has no action, so that a row has a maximum."""
    return np.where(np.isnan(q).all(axis=1, keepdims=True), 0.0, q)


class ControlKind(UntimedKind):
    name = "mdp-control"
    title = "Control: learning to act"
    schema = ControlScenario
    any_device = True
    METRICS = (
        Metric("return/", "return of an episode", less=False),
        Metric("length/", "steps of an episode"),
        Metric("left/", "share that went left"),
    )
    screen = "arena"

    def experiment(self, scenario: ControlScenario) -> ControlExperiment:
        return ControlExperiment(scenario)

    def explain_metric(
        self, scenario: ControlScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Explain a mean over the runs: its computation, its error, and its limits."""
        family, _, label = name.partition("/")
        learner = next((each for each in scenario.learners if each.name == label), None)
        if learner is None or name not in values or not isfinite(values[name]):
            return None
        if family in ("return", "return_low", "return_high"):
            return of_return(scenario, learner, family, step, values)
        explanations = {
            "length": ("L̄ = Σ Lᵢ / n", "how many steps episode {step} took on average"),
            "left": (
                "share = #(runs that went left) / n",
                "an episode of two steps went left, one of one step went right",
            ),
            "greedy": ("Ḡ = Σ Gᵢ / n", "one episode of each run without exploring and without learning"),
        }
        if family not in explanations:
            return None
        equation, note = explanations[family]
        why = Explaining(f"why {values[name]:.4g} for {label} at episode {step}?", values[name])
        why.equation(equation, "M5, M6", "Sutton and Barto 2018, §6.5")
        why.operands += about(scenario, learner)
        why.measurement(name, note.format(step=step))
        on_line = values.get(f"return/{label}")
        if family == "greedy" and on_line is not None:
            stumbles = "another quantity: it includes exploration"
            why.means(Step("while exploring", f"return/{label}", on_line, stumbles))
        return why.result()


def of_return(
    scenario: ControlScenario, learner: LearnerSection, family: str, step: int, values: Mapping[str, float]
) -> Explanation:
    """The mean return of an episode, or an edge of its band."""
    label, runs, value = learner.name, scenario.control.runs, values[f"{family}/{learner.name}"]
    mean = values.get(f"return/{label}", value)
    error = values.get(f"return_high/{label}", mean) - mean
    sign = {"return": "", "return_low": " − s/√n", "return_high": " + s/√n"}[family]
    why = Explaining(f"why {value:.4g} for {label} in episode {step}?", value)
    why.equation(f"Ḡ{sign},  Gᵢ = Σ r of run i", "M3, M5, M6", "Sutton and Barto 2018, §6.5")
    why.operands += about(scenario, learner)
    why.step("Ḡ", "Σ Gᵢ / n", mean, "while exploring: not the greedy policy's return")
    spread, covered = [], f"± this contains the true mean in {covered_by_standard_error(runs):.0%} of cases"
    if runs > 1:
        s, meaning = error * sqrt(runs), f"standard error: of normal values, {covered}"
        spread = [
            Step("s", "√(Σ (Gᵢ − Ḡ)² / (n − 1))", s, "the spread between runs"),
            compute_step("s/√n", "{} / √{}", lambda s, n: s / sqrt(n), s, runs, note=meaning),
        ]
    if sign:
        why.steps += spread
        form = "{}" + sign[:2] + " {}"
        why.compute(f"Ḡ{sign}", form, add if "+" in sign else sub, mean, error, note="edge of the band")
    else:
        why.means(*spread)
    return why.result()


def about(scenario: ControlScenario, learner: LearnerSection) -> list[Operand]:
    """The settings of a learner that are not swept, and the number of runs."""
    swept = [name for name, _ in scenario.control.axes()]
    title = rule_named(learner.rule).title
    operands = [
        Operand(
            LETTERS[name], getattr(learner, name), title + (", at first" if name in ("epsilon", "temperature") else "")
        )
        for name in rule_named(learner.rule).numbers(learner.policy)
        if name not in swept
    ]
    return [*operands, Operand("n", scenario.control.runs, "runs, a seed each")]


KIND = ControlKind()
