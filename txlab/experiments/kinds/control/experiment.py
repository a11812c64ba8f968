"""Learners compared over many seeds, as an Experiment: a step is one episode of every run (MATH M5–M7).

Notable: runs do not wait for one another at every episode. They go on together for `together` episodes, and then all
stand at the same one: on the cliff 500 episodes take 3.2 s in place of 5.4 (scenarios/cliff.toml, one core). A metric
is of its episode all the same; a frame is of the last episode that all have ended, which it names. Every setting has
the same seeds, so that settings are compared under the same chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from txlab.engine.rl.dynamic_programming import likely_path
from txlab.engine.rl.settings import PolicyName, Settings
from txlab.engine.rl.sweeps import sweep_in
from txlab.engine.rl.sweeps.greedy import policies
from txlab.engine.rl.sweeps.rules import prefers
from txlab.errors import LabError
from txlab.experiments.kinds.control.schema import ControlScenario
from txlab.experiments.protocol import Adjustable, Frame, Sample, State
from txlab.experiments.tabular.bands import spread
from txlab.experiments.tabular.frames import facts_of, learner_side
from txlab.experiments.tabular.world import limited, world_of

MOST_BYTES = 8 << 30


class ControlExperiment:
    """See protocol.Experiment; in `scenario` nothing is "auto".

    An agent has the number ((learner · points) + point) · runs + run; `points` are those of the sweep, 1 without one.
    """

    def __init__(self, scenario: ControlScenario) -> None:
        self.scenario = scenario
        world = world_of(scenario.world, by_stepping=True)
        self.world = limited(world)  # or a run whose agent goes in circles would never go on
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
        kept = min(control.score, control.episodes) + control.together  # episodes of which return and length are kept
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
        self.learnt = 0  # episodes that every run has ended
        # What runs earned and took: of the last `score` episodes that have been reported, and of those learnt ahead.
        self.returns = np.zeros((*self.shape, 0))
        self.lengths = np.zeros((*self.shape, 0))

    def offset(self, agents: int) -> np.ndarray | None:
        """(agents, S, A): the preferences that learners have at first, where a scenario gives them."""
        if not any(each.preferences for each in self.scenario.learners):
            return None
        found = np.zeros((len(self.labels), self.process.size, self.process.choices))
        for i, each in enumerate(self.scenario.learners):
            if each.preferences:
                if len(each.preferences) != self.process.choices:
                    raise LabError(
                        f"learners: {each.name} has {len(each.preferences)} preferences; "
                        f"this world has {self.process.choices} actions: {', '.join(self.process.actions)}"
                    )
                found[i] = each.preferences
        return np.repeat(found, agents // len(found), axis=0)

    @property
    def steps(self) -> int:
        return self.scenario.control.episodes

    # Learning

    def step(self) -> Mapping[str, float]:
        """The next episode of every run. Of each learner (in a sweep: in the setting that is best so far):

        return/LABEL        mean over the runs of what the episode earned, under the policy that explores
        return_low, return_high/LABEL   one standard error of that mean below and above it
        length/LABEL        mean number of steps
        left/LABEL          bias: share of runs that went left, which are the episodes of two steps
        """
        control = self.scenario.control
        if self.step_count == self.learnt:
            count = min(control.together, control.episodes - self.learnt)
            returns, lengths = self.sweep.run_episodes(count)
            self.learnt += count
            keep = control.score - 1
            old_returns, old_lengths = (x[..., x.shape[-1] - keep :] if keep < x.shape[-1] else x
                                        for x in (self.returns, self.lengths))  # fmt: skip
            self.returns = np.concatenate([old_returns, returns.reshape(*self.shape, count)], axis=-1)
            self.lengths = np.concatenate([old_lengths, lengths.reshape(*self.shape, count)], axis=-1)
        self.step_count += 1
        now = self.returns.shape[-1] - 1 - (self.learnt - self.step_count)
        found: dict[str, float] = {}
        for i, (label, point) in enumerate(zip(self.labels, self.best(), strict=True)):
            mean, low, high = spread(self.returns[i, point, :, now])
            found[f"return/{label}"] = float(mean)
            found[f"return_low/{label}"], found[f"return_high/{label}"] = float(low), float(high)
            found[f"length/{label}"] = float(self.lengths[i, point, :, now].mean())
            if self.world.name == "bias":
                found[f"left/{label}"] = float((self.lengths[i, point, :, now] > 1).mean())
        return found

    def window(self) -> np.ndarray:
        """(learners, points, runs): the mean return over the last `score` episodes up to this step."""
        end = self.returns.shape[-1] - (self.learnt - self.step_count)
        window: np.ndarray = self.returns[..., max(0, end - self.scenario.control.score) : end].mean(axis=-1)
        return window

    def best(self) -> list[int]:
        """Of each learner, the point of the sweep with the highest score so far."""
        if len(self.points) == 1:
            return [0] * len(self.labels)
        return [int(np.argmax(row)) for row in self.window().mean(axis=-1)]

    def members(self, learner: int, point: int) -> np.ndarray:
        """(runs) the numbers of the agents of one learner in one setting."""
        first = (learner * len(self.points) + point) * self.runs
        return np.arange(first, first + self.runs)

    def verify(self) -> None:
        return

    # Looking

    def evaluate(self) -> Mapping[str, float]:
        """greedy/LABEL: mean over the runs of what one episode earns when each acts greedily and learns nothing.

        Ties are broken by chance. A walk that does not end is cut off where the world does that, or after as many steps
        as there are pairs.
        A learner of preferences has none: its policy is to choose by chance.
        """
        found = {}
        for i, label in enumerate(self.labels):
            if prefers(self.scenario.learners[i].rule):
                continue
            members = self.members(i, self.shown()[i])
            found[f"greedy/{label}"] = float(self.sweep.greedy_returns(members, self.walk).mean())
        return found

    def shown(self) -> list[int]:
        return self.best() if self.step_count else [0] * len(self.labels)

    def frame(self) -> Frame:
        """One side a learner, in its best setting: i/q the mean over the runs of their tables, i/v its maxima, i/policy
        the mean of their policies, i/path where the likeliest action of that one leads. Of learners of preferences
        i/preferences in place of i/q, and i/v is what visits have been followed by.

        In a sweep: sweep/score (learners, …axes) the mean over the runs of a score, and sweep/error its standard error.
        """
        tensors: dict[str, np.ndarray] = {}
        sides, states, updates = [], [], []
        for i, (label, point) in enumerate(zip(self.labels, self.shown(), strict=True)):
            members, settings = self.members(i, point), self.settings[i][point]
            tables = self.sweep.q(members)
            q = tables.mean(axis=0)
            by: PolicyName = "softmax" if prefers(settings.rule) else settings.policy
            policy = policies(self.process, tables, self.sweep.exploration[members], by).mean(axis=0)
            best = np.where(self.process.terminal, 0.0, np.nanmax(filled(q), axis=1))
            v = self.sweep.w(members).mean(axis=0) if prefers(settings.rule) else best
            tensors[f"{i}/preferences" if prefers(settings.rule) else f"{i}/q"] = q.astype(np.float32)
            tensors[f"{i}/v"] = v.astype(np.float32)
            tensors[f"{i}/policy"] = policy.astype(np.float32)
            if self.world.environment is None:
                tensors[f"{i}/path"] = likely_path(self.process, policy)
            gamma = self.process.discount if settings.gamma is None else settings.gamma
            heat = float(self.sweep.exploration[members[0]])
            named = {"title": said} if (said := self.scenario.learners[i].label) else {}
            sides.append({**learner_side(settings, gamma, heat, label=label), **named})
            states.append(int(self.sweep.states[members[0]]))
            updates.append(int(self.sweep.steps[members].mean()))
        learnt = [self.learnt] * len(sides)
        facts = facts_of(self.scenario.world.model_dump(), sides, states, learnt, updates)
        facts["table"] = f"mean of {self.runs} runs" if self.runs > 1 else "of one run"
        if self.axes:
            window = self.window() if self.step_count else np.full(self.shape, np.nan)
            shape = (len(self.labels), *(len(values) for _, values in self.axes))
            mean, _, high = spread(np.moveaxis(window, -1, 0))
            tensors["sweep/score"] = mean.reshape(shape)
            tensors["sweep/error"] = (high - mean).reshape(shape)
            last = min(self.scenario.control.score, max(self.step_count, 1))
            facts["sweep"] = {
                "axes": [["learner", self.labels], *([name, list(values)] for name, values in self.axes)],
                "score": "return of the last episode" if last == 1 else f"mean return of the last {last} episodes",
                "better": "high",
            }
        return Frame(self.step_count, tensors, facts=facts)

    def samples(self) -> Sequence[Sample]:
        return ()

    def facts(self) -> Mapping[str, Any]:
        compute = {"device": self.scenario.compute.device, "dtype": "float64", "arrays": self.sweep.arrays.name}
        return {
            "unit": "episodes",
            "units_per_step": len(self.sweep),
            "agents": len(self.sweep),
            "states": self.process.size,
            "actions": list(self.process.actions),
            "world": self.world.title,
            "notes": list(self.world.notes),
            "headline": [f"{self.told_by()}/{label}" for label in self.labels],
            "band": "one standard error of the mean over the runs, below and above",
            "compute": compute,
        }

    def told_by(self) -> str:
        """The metric that says most: how long an episode took, where all that end earn the same and no more."""
        if self.world.name == "bias":
            return "left"
        done, reward = self.process.done, self.process.reward
        same = done.any() and not reward[~done].any() and np.ptp(reward[done]) == 0
        return "length" if same else "return"

    # What a person may change

    def adjustable(self) -> Mapping[str, Adjustable]:
        return {}

    def adjust(self, name: str, value: float) -> None:
        raise LabError(f"{name!r} cannot be changed while many runs are compared; the arena is for that")

    # Being put back

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


def filled(q: np.ndarray) -> np.ndarray:
    """(S, A) with zeros where a state has no action, so that a row has a maximum."""
    return np.where(np.isnan(q).all(axis=1, keepdims=True), 0.0, q)
