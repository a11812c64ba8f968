"""A finite Markov decision process, compiled to arrays (MATH M1).

The outcomes of a state and an action are a slice of four flat arrays, so that a world with one outcome per
move and one with four hundred look the same to every algorithm. A state without actions is terminal. Whether the
episode *ends* is a property of the outcome: only an ending removes the bootstrap. `limit` cuts an episode off after
that many steps; this truncates it and does not end it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from txlab.errors import LabError

MOST_OUTCOMES = 20_000_000  # 500 MB of arrays


@dataclass(frozen=True)
class Outcome:
    """A possible outcome of an action: with `probability` the state becomes `next` with `reward`; `done` ends the
    episode. `noise` is the standard deviation of normal noise added to the reward."""

    probability: float
    next: int
    reward: float
    done: bool = False
    noise: float = 0.0


@dataclass(frozen=True, eq=False)
class Process:
    """(S, A, P, γ, R). The pair (s, a) has number i = s·A + a and the outcomes first[i] … first[i + 1] − 1.

    actions      (A) names                     states  (S) names
    first        (S·A + 1) int64
    next         (O) int64                     probability, reward  (O) float64      done  (O) bool
    start        (S) float64, the probability that an episode begins there
    discount     γ; 1 only where every sensible policy ends
    limit        steps after which an episode is cut off (truncated); 0 = never
    noise        (O) float64, the standard deviation of normal noise added to `reward`, the mean:
                 √(−2 ln(1 − u₂)) · cos(2π u₃) of the step's draws 2 and 3, which have no other use in such a world
    observation  (S) int64: what a learner of preferences observes instead of the state; None = the state
    """

    actions: tuple[str, ...]
    states: tuple[str, ...]
    first: np.ndarray
    next: np.ndarray
    probability: np.ndarray
    reward: np.ndarray
    done: np.ndarray
    start: np.ndarray
    discount: float = 1.0
    limit: int = 0
    noise: np.ndarray | None = None
    observation: np.ndarray | None = None

    @property
    def size(self) -> int:
        """The number of states, S."""
        return len(self.states)

    @property
    def choices(self) -> int:
        """The number of actions, A."""
        return len(self.actions)

    @cached_property
    def allowed(self) -> np.ndarray:
        """(S, A) bool: which actions are possible in each state."""
        return np.diff(self.first).reshape(self.size, self.choices) > 0

    @cached_property
    def terminal(self) -> np.ndarray:
        """(S) bool: the states without actions."""
        return np.logical_not(self.allowed.any(axis=1))

    @cached_property
    def pair(self) -> np.ndarray:
        """(O) int64: the pair i = s·A + a of each outcome."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @cached_property
    def cumulative(self) -> np.ndarray:
        """(O) float64: i + P(this outcome or one before it | i), so that one sorted search can draw from any pair.

        The outcome of pair i for u in [0, 1) is the first whose entry is above i + u.
        """
        running = np.cumsum(self.probability)
        before = np.concatenate([[0.0], running])[self.first[:-1]]
        within = running - before[self.pair]
        last = self.first[1:][np.diff(self.first) > 0] - 1
        within[last] = 1.0  # not 1 − 1e-16: no u may fall beyond the last outcome
        cumulative: np.ndarray = self.pair + within
        return cumulative

    @cached_property
    def expected_reward(self) -> np.ndarray:
        """(S·A) float64: r(s, a) = Σ p r; 0 where an action is not allowed."""
        return np.bincount(self.pair, self.probability * self.reward, minlength=len(self.first) - 1)

    @cached_property
    def onward(self) -> np.ndarray:
        """(O) float64: the probability of an outcome after which the episode continues; 0 where it ends, because the
        outcome is `done` or because the next state is terminal."""
        onward: np.ndarray = self.probability * ~(self.done | self.terminal[self.next])
        return onward

    @cached_property
    def leading(self) -> tuple[np.ndarray, np.ndarray]:
        """(S + 1), (O) int64: the outcomes that lead to state s are second[first[s] : first[s + 1]]."""
        counts = np.bincount(self.next, minlength=self.size)
        return np.concatenate([[0], np.cumsum(counts)]), np.argsort(self.next, kind="stable")

    def outcomes(self, state: int, action: int) -> list[Outcome]:
        """The possible outcomes, in order."""
        i = state * self.choices + action
        return [
            Outcome(
                float(self.probability[o]),
                int(self.next[o]),
                float(self.reward[o]),
                bool(self.done[o]),
                0.0 if self.noise is None else float(self.noise[o]),
            )
            for o in range(int(self.first[i]), int(self.first[i + 1]))
        ]


def compile_process(
    actions: Sequence[str],
    states: Sequence[str],
    outcomes: Mapping[tuple[int, int], Sequence[Outcome]],
    start: int | Sequence[float] | np.ndarray,
    discount: float = 1.0,
    limit: int = 0,
    observation: np.ndarray | None = None,
) -> Process:
    """Compile outcomes by (state, action); a pair that is missing is not allowed. LabError as in `check`."""
    A = len(actions)
    counts = np.zeros(len(states) * A, dtype=np.int64)
    for (s, a), listed in outcomes.items():
        counts[s * A + a] = len(listed)
    rows = [each for pair in sorted(outcomes) for each in outcomes[pair]]
    begins = np.eye(len(states))[start] if isinstance(start, int) else np.asarray(start, dtype=np.float64)
    process = Process(
        actions=tuple(actions),
        states=tuple(states),
        first=np.concatenate([[0], np.cumsum(counts)]),
        next=np.array([each.next for each in rows], dtype=np.int64),
        probability=np.array([each.probability for each in rows], dtype=np.float64),
        reward=np.array([each.reward for each in rows], dtype=np.float64),
        done=np.array([each.done for each in rows], dtype=bool),
        start=begins,
        discount=float(discount),
        limit=limit,
        noise=np.array([each.noise for each in rows]) if any(each.noise for each in rows) else None,
        observation=observation,
    )
    check(process)
    return process


def check(process: Process) -> None:
    """Raise LabError, naming state and action, if this is not a decision process: probabilities that do not sum to one,
    a state that does not exist, a reward that is not finite, an episode that begins nowhere or in a terminal state."""

    def name_of(i: int) -> str:
        return f"{process.states[i // process.choices]}, {process.actions[i % process.choices]}"

    if len(process.first) != process.size * process.choices + 1:
        raise LabError(f"{process.size} states and {process.choices} actions need as many stretches of outcomes")
    if len(process.next) > MOST_OUTCOMES:
        raise LabError(f"{len(process.next)} outcomes are more than the {MOST_OUTCOMES} that are allowed")
    if not 0 <= process.discount <= 1:
        raise LabError(f"the discount γ must be from 0 to 1; it is {process.discount}")
    outside = (process.next < 0) | (process.next >= process.size)
    if outside.any():
        o = int(outside.argmax())
        raise LabError(f"{name_of(process.pair[o])}: state {process.next[o]} does not exist; there are {process.size}")
    for name, values in (("probability", process.probability), ("reward", process.reward)):
        if not np.isfinite(values).all():
            o = int((~np.isfinite(values)).argmax())
            raise LabError(f"{name_of(process.pair[o])}: a {name} is {values[o]}")
    if process.noise is not None and (
        process.noise.shape != process.next.shape or not np.isfinite(process.noise).all() or (process.noise < 0).any()
    ):
        raise LabError("the noise of rewards must be one number an outcome, none below zero")
    if process.observation is not None and (
        process.observation.shape != (process.size,) or (process.observation < 0).any()
    ):
        raise LabError("observations must be one number per state, none below zero")
    if (process.probability < 0).any():
        o = int((process.probability < 0).argmax())
        raise LabError(f"{name_of(process.pair[o])}: a probability is {process.probability[o]:g}, below zero")
    sums = np.bincount(process.pair, process.probability, minlength=len(process.first) - 1)
    wrong = (np.diff(process.first) > 0) & (abs(sums - 1) > 1e-9)
    if wrong.any():
        i = int(wrong.argmax())
        raise LabError(f"{name_of(i)}: the probabilities of what may follow sum to {sums[i]:.6g}, not to 1")
    if process.start.shape != (process.size,) or (process.start < 0).any() or not abs(process.start.sum() - 1) <= 1e-9:
        raise LabError("the probabilities of where an episode begins must be one a state and sum to 1")
    if (process.start[process.terminal] > 0).any():
        s = int(((process.start > 0) & process.terminal).argmax())
        raise LabError(f"an episode cannot begin in {process.states[s]}: nothing can be done there")
