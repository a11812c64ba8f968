"""What a rule is, and the glass box: a learner of one world, every update of which can be inspected (MATH M4–M7).

Notable: run(1) and run(100 000) are the same loop (one per family, in rules/), in plain Python over lists. Inspecting a
learner never slows it down: rows are replaced rather than written, so a record can keep the rows that an update was
computed from, and the rest (the draws, the settings at the time) is a pure function of (seed, step).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from txlab.engine.explain import Explaining, Explanation, Operand, Step, number
from txlab.engine.rl.draws import Draws, uniforms
from txlab.engine.rl.dynamic_programming import greedy
from txlab.engine.rl.environment import Environment
from txlab.engine.rl.policies import Exploration, break_tie, choose_action, exploring, probabilities
from txlab.engine.rl.process import Process
from txlab.engine.rl.settings import Settings, check
from txlab.engine.rl.sweeps.arrays import Array
from txlab.engine.rl.sweeps.tables import BatchTransition, StepState, Trail
from txlab.engine.rl.transition_table import ENDED, SteppedTransitions, Transition, TransitionTable, process_shell
from txlab.engine.rl.update import StepContext, Term, Update
from txlab.errors import LabError, nearest

NEVER = 1 << 62
BLOCK = 4096  # steps per block of draws

Row = list[float]


class Rule:
    """The properties of a rule; a subclass says how it learns.

    parameters        which of `Settings` it uses in addition to γ; "policy" means ε or τ
    traces            which kinds of eligibility traces it supports; empty = it has no traces
    steers            whether it chooses the actions; if not, it learns the values of a given policy or of the world
    exploring_starts  whether it may begin its episodes with any action
    ahead             whether the action in s′ is chosen before the update, and then taken
    off_policy        whether it learns about a policy other than the one it follows

    For a sweep: `tables` that it keeps, by name (the policy chooses from "q", or from "q" + "q2"); `coin`, whether it
    uses a draw of its own; `prefers`, whether the table holds preferences: actions are drawn from their softmax, and it
    sees only `observation`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    equation: ClassVar[str]
    math: ClassVar[str]
    source: ClassVar[str]
    agent: ClassVar[type[Agent]]
    parameters: ClassVar[tuple[str, ...]] = ("alpha", "policy")
    traces: ClassVar[tuple[str, ...]] = ()
    steers: ClassVar[bool] = True
    exploring_starts: ClassVar[bool] = False
    ahead: ClassVar[bool] = False
    off_policy: ClassVar[bool] = False
    tables: ClassVar[tuple[str, ...]] = ("q",)
    coin: ClassVar[bool] = False
    prefers: ClassVar[bool] = False

    def learn(self, now: StepState, step: BatchTransition) -> None:
        """Update the agents of a block after one step."""
        raise NotImplementedError(f"the rule {self.name} has no form for arrays")

    def teach(self, now: StepState, trail: Trail, lengths: Array) -> None:
        """Update the agents of a block after a whole episode of `lengths` (n) steps."""
        raise NotImplementedError(f"the rule {self.name} does not learn from whole episodes")

    @property
    def learns_each_step(self) -> bool:
        return type(self).learn is not Rule.learn

    @property
    def has_array_form(self) -> bool:
        """Whether thousands of its agents can learn as a batch; otherwise each runs as a glass box."""
        return self.learns_each_step or type(self).teach is not Rule.teach

    def check_settings(self, settings: Settings) -> Settings:
        """The settings of a learner of this rule, checked; LabError says what is allowed."""
        settings = check(settings)
        if settings.policy == "exploring-starts" and not self.exploring_starts:
            raise LabError(f"exploring-starts belongs to monte-carlo; {self.name} has another policy")
        if settings.traces == "true-online" and self.traces and "true-online" not in self.traces:
            raise LabError(f"true-online traces are for td-lambda; {self.name} has {' or '.join(self.traces)} ones")
        return settings

    def numbers(self, policy: str = "epsilon-greedy") -> tuple[str, ...]:
        """The names of the numbers in `Settings` that have an effect with this policy, apart from γ."""
        chosen = {"softmax": ("temperature",), "greedy": (), "exploring-starts": ()}.get(policy, ("epsilon",))
        return tuple(one for name in self.parameters for one in (chosen if name == "policy" else (name,)))


class Agent:
    """A learner with a table of Q(s, a), and what all rules share; a family adds its `loop` and `explain_update`.

    rows      [s][k] Q(s, a) of the allowed actions; a row is replaced, never written, so a record may hold it
    visits    [s][k] how often the pair was taken, or [s][0] the state visited by a rule without actions
    records   [s][k] the record of the pair's last update, or None; its first entry is the step
    returns, lengths   undiscounted returns and lengths of finished episodes; `ends`: `updates` when each ended
    """

    rule: Rule
    tables: ClassVar[tuple[str, ...]] = ("rows",)
    counting = False  # of visits, by the one-step rules, which it would slow by 12 %: only on inspection

    def __init__(self, rule: Rule, process: Process | Environment, settings: Settings, seed: int) -> None:
        self.rule, self.seed = rule, seed
        self.settings = rule.check_settings(settings)
        self.updates = 0
        self.returns: list[float] = []
        self.lengths: list[int] = []
        self.ends: list[int] = []
        self.began = 0  # the step at which the present episode began
        self.total = 0.0  # its return so far, undiscounted
        self.pending: int | None = None  # the action already chosen for the present state, by rules that choose ahead
        self.latest: tuple[int, int] | None = None  # the pair (s, k) updated last
        self.enter_world(process)
        for name in self.tables:
            setattr(self, name, [[settings.initial] * len(row) for row in self.world.actions])
        self.visits: list[list[int]] = [[0] * len(row) for row in self.world.actions]
        self.records: list[list[Any]] = [[None] * len(row) for row in self.world.actions]
        self.settings_history: list[tuple[int, Settings, float]] = [(0, self.settings, self.gamma)]
        self.state = self.world.begin(float(uniforms(seed, -1, 1)[0, 0, 3]))
        self.prepare()

    rows: list[Row]

    def enter_world(self, process: Process | Environment) -> None:
        if isinstance(process, Process):
            self.process: Process = process
            self.world: TransitionTable = TransitionTable(process)
        else:
            self.process = process_shell(process)
            self.world = SteppedTransitions(process, self.process)
        pairs = [s * self.world.choices + a for s, row in enumerate(self.world.actions) for a in row]
        self.pairs = np.array(pairs, dtype=np.int64)

    def prepare(self) -> None:
        """Build the state of a loop other than its tables."""

    # What a loop needs

    @property
    def gamma(self) -> float:
        """γ: the setting, or else the world's."""
        return self.world.discount if self.settings.gamma is None else self.settings.gamma

    @property
    def last_step(self) -> int:
        """The last step that the present episode may have."""
        # In an edited world the limit may already be past: then the next step is the last.
        return max(self.began + self.world.limit - 1, self.updates) if self.world.limit else NEVER

    def loop(self, draws: Draws, steps: int) -> None:
        raise NotImplementedError(f"the rule {self.rule.name} has no loop")

    def end_episode(self, t: int, total: float, u: float) -> int:
        """End the episode at step t, record its return, and return the state in which the next one begins."""
        self.returns.append(total)
        self.lengths.append(t - self.began + 1)
        self.ends.append(t + 1)
        self.began = t + 1
        return self.world.begin(u)

    @property
    def exploration(self) -> Exploration:
        """How the present episode explores."""
        return exploring(self.settings, len(self.returns))

    def choose(self, row: Row, u0: float, u1: float) -> int:
        """Choose an action by the policy of the present episode."""
        return choose_action(row, self.exploration, u0, u1)

    # The public interface

    def run(self, updates: int) -> None:
        """Make this many updates; for every rule but value iteration an update is a step in the world."""
        while updates > 0:
            steps = min(updates, BLOCK)
            # One more: SARSA's look-ahead action is the one that the next step will take.
            self.loop(Draws(self.seed, self.updates, steps + 1), steps)
            self.updates += steps
            updates -= steps

    @property
    def episode(self) -> int:
        """The number of finished episodes, which is also the number of the present one, from 0."""
        return len(self.returns)

    def q(self) -> np.ndarray | None:
        """Q (S, A), NaN where an action is not allowed; None for rules that learn only V."""
        return self.spread(self.rows)

    def spread(self, rows: Sequence[Sequence[float]]) -> np.ndarray:
        """Spread rows over the allowed actions to (S, A), with NaN elsewhere."""
        table = np.full(self.world.size * self.world.choices, np.nan)
        table[self.pairs] = [value for row in rows for value in row]
        return table.reshape(self.world.size, self.world.choices)

    def v(self) -> np.ndarray:
        """maxₐ Q(s, a), or V, (S); 0 in terminal states."""
        return np.array([max(row, default=0.0) for row in self.rows])

    def policy(self) -> np.ndarray:
        """The probabilities (S, A) with which it would act now."""
        q = self.q()
        assert q is not None
        return probabilities(q, self.settings, self.episode)

    def greedy(self) -> np.ndarray:
        """The greedy policy (S, A) learnt so far; tied actions share evenly."""
        q = self.q()
        assert q is not None
        return greedy(q)

    def trace(self) -> np.ndarray | None:
        """The present traces, (S, A) or (S); None for rules without traces."""
        return None

    @property
    def turn(self) -> int:
        """The number of updates in one step on the screen: one, or those of a planner's sweep."""
        return 1

    def progress(self) -> dict[str, Any]:
        """The contents of a frame, apart from the settings."""
        return {}

    @property
    def last(self) -> Update | None:
        """The most recent update."""
        return (
            None
            if self.latest is None
            else self.explain_update(*self.latest, self.records[self.latest[0]][self.latest[1]])
        )

    def last_at(self, state: int, action: int = -1) -> Update | None:
        """The last update of this cell; None if there has been none since the world was last edited."""
        actions = self.world.actions[state]
        if action not in actions:
            return None
        k = actions.index(action)
        record = self.records[state][k]
        return None if record is None else self.explain_update(state, k, record)

    def explain_cell(self, state: int, action: int) -> Explanation:
        """The actions of a cell side by side: Q(s,a), π(a|s), the traces and how often each was taken; `action` is
        marked."""
        q, trace, actions = self.q(), self.trace(), self.world.actions[state]
        assert q is not None
        name, row = self.process.states[state], q[state, actions]
        letters = "maxₐ Q(s,a)" if self.rule.off_policy else "Σₐ π(a|s) Q(s,a)"
        value = float(row.max() if self.rule.off_policy else self.policy()[state, actions] @ row)
        what = "the greedy policy's value" if self.rule.off_policy else "the value under the policy it follows"
        labels = [self.process.actions[a] for a in actions]
        why = Explaining(f"what is known about the actions in {name}?", value, labels, actions.index(action))
        source = f"{self.rule.title}: {self.rule.source}"
        why.equation(f"V(s) = {letters},  {self.rule.equation}", self.rule.math, source)
        why.input("Q(s,·)", row.tolist(), f"in {name}")
        if trace is not None:
            why.input("e(s,·)", trace[state, actions].tolist(), "current traces")
        why.input("π(·|s)", self.policy()[state, actions].tolist(), "its policy now")
        if self.rule.steers:
            why.input("visits", list(self.visits[state]), "how often each was taken")
        why.measurement("V(s)", what, letters)
        return why.result()

    def explain_update(self, state: int, k: int, record: Any) -> Update:
        raise NotImplementedError(f"the rule {self.rule.name} does not tell")

    def context(self, t: int) -> StepContext:
        """The settings and draws of step t."""
        _, settings, gamma = self.settings_history[bisect_right(self.settings_history, t, key=lambda each: each[0]) - 1]
        episode = bisect_right(self.ends, t)
        return StepContext(t, episode, settings, gamma, self.seed, self.world)

    def make_update(
        self,
        context: StepContext,
        pair: tuple[int, int],
        transition: Transition,
        numbers: tuple[float, float, float],
        terms: Sequence[Term],
        operands: list[Operand],
        steps: list[Step],
        *,
        ahead: int = -1,
        trace: dict[int, float] | None = None,
        labels: Sequence[str] = (),
        asked: int | None = None,
        question: str = "",
        chosen: Step | None = None,
    ) -> Update:
        """Build an `Update` from a loop's record; its explanation begins with how the action was chosen.

        pair (s, k) and the transition from there; numbers: before, δ, after; `ahead` is the k of a′ in the next state.
        `labels` name the numbers of a row among the operands; `asked` is the one in question. `explain_choice` is
        needed where the update was not made in the step that took the pair's action.
        """
        (s, k), (reward, then, end), (before, delta, after) = pair, transition, numbers
        actions, rule = self.world.actions, self.rule
        if not question:
            where = context.state(s) if k < 0 else f"{context.action(s, k)} in {context.state(s)}"
            question = f"why {number(after)} {'in' if k < 0 else 'for'} {where}?"
        if asked is None and 0 <= ahead < len(labels):
            asked = ahead
        if chosen is None and k >= 0:
            chosen = context.explain_choice(s, k)
        why = Explaining(question, after, list(labels), asked)
        why.equation(rule.equation, rule.math, f"{rule.title}: {rule.source}")
        why.operands += operands
        why.steps += [chosen, *steps] if chosen else steps
        return Update(
            number=context.t + 1,
            state=s,
            action=actions[s][k] if k >= 0 else -1,
            reward=reward,
            next=then,
            done=end == ENDED,
            truncated=end != ENDED and self.ends_at(context.t),
            before=before,
            after=after,
            delta=delta,
            terms=terms,
            explanation=why.result(),
            trace=trace or {},
        )

    def set(self, **changes: Any) -> None:
        """Change settings while it learns; LabError for values that are not allowed, or settings that cannot change."""
        if "rule" in changes and changes["rule"] != self.rule.name:
            raise LabError(f"the tables of {self.rule.title} mean nothing to another rule: begin a new learner")
        for name in changes:
            if not hasattr(self.settings, name):
                names = list(Settings.__dataclass_fields__)
                raise LabError(f"a learner has no {name!r}{nearest(name, names)}; it has {', '.join(names)}")
        self.settings = self.rule.check_settings(replace(self.settings, **changes))
        self.note()

    def ends_at(self, t: int) -> bool:
        """Whether an episode ended with step t."""
        place = bisect_right(self.ends, t + 1)
        return place > 0 and self.ends[place - 1] == t + 1

    def note(self) -> None:
        """Record that the present settings hold from this step on."""
        if self.settings_history[-1][0] == self.updates:
            self.settings_history.pop()
        self.settings_history.append((self.updates, self.settings, self.gamma))

    def greedy_path(self, limit: int = 1000) -> tuple[list[int], float]:
        """The states that the greedy policy passes through from a start state, and the return; at most `limit` steps.
        Chance (outcomes, ties) has a stream of its own, so the answer is the same each time."""
        with self.world.aside():
            s = self.world.begin(Draws(self.seed ^ 0x5EED, 0, 1).u3[0])
            total, path = 0.0, [s]
            for step in range(limit):
                place = step % 256
                if place == 0:
                    draws = Draws(self.seed ^ 0x5EED, step, 256)
                    draw_transition = self.world.sampler(draws)
                k = break_tie(self.acting_row(s), draws.u1[place])
                reward, s, end = self.world.moves[s][k] or draw_transition(s, k, place)
                total += reward
                path.append(s)
                if end:
                    break
        return path, total

    def acting_row(self, state: int) -> Row:
        """The values of which the greedy policy takes the largest."""
        return self.rows[state]

    def adopt(self, process: Process, states: Sequence[int] | np.ndarray) -> None:
        """Continue in an edited world with the present values; states[s] is its old number, or −1 if new.

        If the current state no longer exists or is now terminal, the episode starts over and does not count.
        """
        self.check_adoptable(process)
        olds = [int(s) for s in states]
        if len(olds) != process.size or max(olds, default=-1) >= self.world.size:
            raise LabError(f"{process.size} states need as many old numbers, each below {self.world.size}")
        news = {old: new for new, old in enumerate(olds) if old >= 0}
        actions = self.world.actions
        self.enter_world(process)

        def carry(table: list[list[Any]], empty: Any) -> list[list[Any]]:
            rows = []
            for s, allowed in enumerate(self.world.actions):
                known = {} if olds[s] < 0 else dict(zip(actions[olds[s]], table[olds[s]], strict=True))
                rows.append([known.get(a, empty) for a in allowed])
            return rows

        for name in self.tables:
            setattr(self, name, carry(getattr(self, name), self.settings.initial))
        self.visits = carry(self.visits, 0)
        self.records = [[self.renumber_record(record, news) for record in row] for row in carry(self.records, None)]
        self.latest = None
        self.renumber_states(olds, news, actions)
        self.pending = None
        there = news.get(self.state, -1)
        if there >= 0 and self.world.actions[there]:
            self.state = there
        else:
            self.restart()
        self.note()
        self.prepare()

    def check_adoptable(self, process: Process) -> None:
        """Raise LabError if `adopt` is not possible; nothing is changed."""
        if isinstance(self.world, SteppedTransitions):
            raise LabError(f"{self.world.environment.name} can only be stepped: there is nothing in it to edit")
        if tuple(self.process.actions) != tuple(process.actions):
            raise LabError("the edited world has other actions: begin a new learner")

    def renumber_record(self, record: Any, news: dict[int, int]) -> Any:
        """A record in the new numbering; None where the state it led to no longer exists or has changed."""
        if record is None:
            return None
        t, (reward, then, end), before, row, *rest = record
        there = news.get(then, -1)
        if there < 0 or len(self.world.actions[there]) != len(row):
            return None
        return (t, (reward, there, end), before, row, *rest)

    def renumber_states(self, olds: list[int], news: dict[int, int], actions: list[list[int]]) -> None:
        """Renumber the states in whatever else the rule keeps."""

    def restart(self) -> None:
        """Begin the present episode again, under the same number."""
        self.began, self.total, self.pending = self.updates, 0.0, None
        self.state = self.world.begin(float(uniforms(self.seed, self.updates - 1, 1)[0, 0, 3]))

    # Exact restart

    def state_dict(self) -> dict[str, Any]:
        """The complete state, for `load`."""
        return {
            "seed": self.seed,
            "updates": self.updates,
            "state": self.state,
            "began": self.began,
            "total": self.total,
            "pending": self.pending,
            "latest": self.latest,
            "returns": np.array(self.returns, dtype=np.float64),
            "lengths": np.array(self.lengths, dtype=np.int64),
            "ends": np.array(self.ends, dtype=np.int64),
            "settings": [[t, vars(settings), gamma] for t, settings, gamma in self.settings_history],
            "tables": {name: self.spread(getattr(self, name)) for name in self.tables},
            "visits": json.dumps(self.visits),
            "records": json.dumps(self.records),
            "outside": self.world.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`; the learner must have the same rule and world."""
        self.seed, self.updates, self.state = int(state["seed"]), int(state["updates"]), int(state["state"])
        self.began, self.total, self.pending = int(state["began"]), float(state["total"]), state["pending"]
        self.latest = None if state["latest"] is None else (int(state["latest"][0]), int(state["latest"][1]))
        self.returns = np.asarray(state["returns"]).tolist()
        self.lengths = np.asarray(state["lengths"]).tolist()
        self.ends = np.asarray(state["ends"]).tolist()
        self.settings_history = [(int(t), Settings(**kept), float(gamma)) for t, kept, gamma in state["settings"]]
        self.settings = self.settings_history[-1][1]
        for name in self.tables:
            flat = np.asarray(state["tables"][name], dtype=np.float64)
            setattr(self, name, [flat[s, row].tolist() for s, row in enumerate(self.world.actions)])
        self.records = json.loads(state["records"])
        self.visits = json.loads(state.get("visits", "null")) or self.visits
        self.world.load(state["outside"])
        self.prepare()
