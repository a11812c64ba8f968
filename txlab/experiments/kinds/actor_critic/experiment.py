"""PPO in a known world: rollouts of many copies, and the policy's exact return for comparison (MATH M8).

Notable: the mathematics of an update is that of human feedback (`engine/policy_gradient.py`); here the optimum is
known, so that it can be tested. The policy is fixed during a rollout, so all actions are drawn from one table. Three
metrics end in /PPO, as those of the other learners end in their names: the Arena draws them all in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from txlab.engine.policy_gradient import (
    clipped_policy_loss,
    clipped_value_loss,
    explained_variance,
    gae,
    token_entropy,
    whiten,
)
from txlab.engine.rl.dynamic_programming import (
    best_policy,
    find_converged_sweep,
    from_start,
    likely_path,
    sweeps,
    value_within,
)
from txlab.engine.rl.exact_values import check_values_exist, solve_values
from txlab.engine.rlhf.kl import k3
from txlab.errors import LabError
from txlab.experiments.kinds.actor_critic.schema import ActorCriticScenario
from txlab.experiments.learning.gradient import GradientExperiment, Measured
from txlab.experiments.learning.schema import factor
from txlab.experiments.protocol import Frame, State
from txlab.experiments.randomness import generator
from txlab.experiments.tabular.frames import facts_of, side_of
from txlab.experiments.tabular.world import world_facts, world_of

IMPOSSIBLE = -1e9  # the logit of an action that is not allowed: its probability is 0, and 0 · log 0 stays 0


class Table(nn.Module):
    """State numbers to outputs: a row of weights for each state, tanh, and further layers. () → (S, outputs)."""

    def __init__(self, states: int, width: int, layers: int, outputs: int, gain: float, draws: torch.Generator) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.empty(states, width).normal_(0.0, 1.0, generator=draws))
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(layers - 1))
        self.head = nn.Linear(width, outputs)
        for layer in (*self.hidden, self.head):
            assert isinstance(layer, nn.Linear)
            nn.init.orthogonal_(layer.weight, gain if layer is self.head else 2**0.5, generator=draws)
            nn.init.zeros_(layer.bias)

    def forward(self) -> Tensor:
        x = self.rows.tanh()
        for layer in self.hidden:
            x = layer(x).tanh()
        return self.head(x)  # type: ignore[no-any-return]


class Rollout:
    """E × T steps, and the quantities held fixed while the networks learn from them; tensors are (E, T)."""

    def __init__(self, states: Tensor, actions: Tensor, logprobs: Tensor, values: Tensor) -> None:
        self.states, self.actions, self.logprobs, self.values = states, actions, logprobs, values
        self.advantages = self.returns = torch.empty(0)


class ActorCritic(GradientExperiment[nn.ModuleDict]):
    """An Experiment (see protocol).

    states (E,) · taken (E,) steps of the present episode · earned (E,) its rewards so far, in each environment
    """

    def __init__(self, scenario: ActorCriticScenario) -> None:
        self.world = world_of(scenario.world)
        self.process = process = self.world.process
        self.gamma = process.discount
        check_values_exist(process, self.gamma)
        best = best_policy(process, find_converged_sweep(sweeps(process, self.gamma)).v, self.gamma)
        self.optimum = from_start(process, solve_values(process, best, self.gamma))
        self.seen = np.arange(process.size) if process.observation is None else np.asarray(process.observation)
        allowed = np.zeros((int(self.seen.max()) + 1, process.choices), dtype=bool)
        np.logical_or.at(allowed, self.seen, process.allowed | process.terminal[:, None])
        self.forbidden = torch.from_numpy(~allowed)
        networks = scenario.networks

        def make(draws: torch.Generator) -> nn.ModuleDict:
            def table(outputs: int, gain: float) -> Table:
                return Table(len(allowed), networks.width, networks.layers, outputs, gain, draws)

            return nn.ModuleDict({"policy": table(process.choices, 0.01), "value": table(1, 1.0)})

        super().__init__(scenario, make, {"entropy": (scenario.train.entropy, 100.0)})
        self.checks_async = False
        self._starts = np.cumsum(process.start)
        self._starts[np.flatnonzero(process.start)[-1] :] = 1.0
        E = scenario.train.environments
        self.states = self.draw_starts(generator(scenario.seed, "first states", 0).random(E))
        self.taken, self.earned = np.zeros(E, dtype=np.int64), np.zeros(E)

    # The networks as tables

    def logits(self) -> Tensor:
        """(S, A), for each state's observation."""
        return self.model["policy"]().masked_fill(self.forbidden, IMPOSSIBLE)  # type: ignore[no-any-return]

    def values(self) -> Tensor:
        """(S,) in the units of the scaled rewards, for each state's observation."""
        return self.model["value"]()[:, 0]  # type: ignore[no-any-return]

    @torch.no_grad()
    def policy(self) -> np.ndarray:
        """π(a|s), (S, A) float64 of the world's states; 0 where an action is not allowed."""
        shares: np.ndarray = self.logits().double().softmax(-1).numpy()[self.seen]
        shares = np.where(self.process.allowed, shares, 0.0)
        total = shares.sum(axis=1, keepdims=True)
        policy: np.ndarray = shares / np.where(total, total, 1.0)
        return policy

    def draw_starts(self, u: np.ndarray) -> np.ndarray:
        """The states in which episodes begin, selected by u in [0, 1)."""
        return np.searchsorted(self._starts, u, side="right")

    # Rollouts

    @torch.no_grad()
    def collect(self, number: int, policy: np.ndarray) -> tuple[Rollout, list[float]]:
        """The rollout of step `number` with this policy, and the returns of the episodes that ended in it.

        An episode that the world's limit cuts off has not ended: γ V of the state it reached is added to its last
        reward, and the following advantages are not propagated into it.
        """
        process, train = self.process, self.scenario.train
        E, T = train.environments, train.horizon
        draws = generator(self.scenario.seed, "rollout", number)
        chance = draws.random((T, E, 3))
        noise = draws.standard_normal((T, E)) if process.noise is not None else None
        running = policy.cumsum(axis=1)
        running[:, -1] = 1.0 + 1e-9  # u < 1 never falls beyond the last action with any probability
        worth = self.values().numpy()[self.seen]
        states, actions = np.zeros((T, E), dtype=np.int64), np.zeros((T, E), dtype=np.int64)
        rewards, ended, finished = np.zeros((T, E)), np.zeros((T, E), dtype=bool), []
        for t in range(T):
            states[t] = self.states
            actions[t] = (running[self.states] <= chance[t, :, :1]).sum(axis=1)
            pair = self.states * process.choices + actions[t]
            outcome = np.searchsorted(process.cumulative, pair + chance[t, :, 1], side="right")
            reward = process.reward[outcome]
            if noise is not None and process.noise is not None:
                reward = reward + process.noise[outcome] * noise[t]
            self.states = process.next[outcome]
            self.taken += 1
            self.earned += reward
            done = process.done[outcome] | process.terminal[self.states]
            over = done | (self.taken == process.limit)
            rewards[t] = reward * train.reward_scale + np.where(over & ~done, self.gamma * worth[self.states], 0.0)
            ended[t] = over
            if over.any():
                finished += self.earned[over].tolist()
                self.states = np.where(over, self.draw_starts(chance[t, :, 2]), self.states)
                self.taken[over], self.earned[over] = 0, 0.0
        seen = torch.from_numpy(self.seen[states].T.copy())
        chosen = torch.from_numpy(actions.T.copy())
        values = self.values()
        rollout = Rollout(seen, chosen, self.logits().log_softmax(-1)[seen, chosen], values[seen])
        after = values[torch.from_numpy(self.seen[self.states])]
        paid = torch.from_numpy(rewards.T.copy()).to(values.dtype)
        _, rollout.advantages, rollout.returns = gae(
            paid, rollout.values, None, self.gamma, train.gae, after, torch.from_numpy(ended.T.copy())
        )
        return rollout, finished

    # Learning

    def step(self) -> Mapping[str, float | Tensor]:
        """Collect a rollout and learn from it in epochs × minibatches updates; MEANINGS describes the result."""
        number, policy = self.step_count + 1, self.policy()
        metrics = {"return/PPO": from_start(self.process, solve_values(self.process, policy, self.gamma))}
        if self.optimum:
            metrics["gap"] = (self.optimum - metrics["return/PPO"]) / abs(self.optimum)
        rollout, finished = self.collect(number, policy)
        if finished:
            metrics["episode_return/PPO"] = float(np.mean(finished))
        metrics["explained_variance"] = explained_variance(rollout.returns, rollout.values)
        self.rollout, (self.whitened, _, _) = rollout, whiten(rollout.advantages)
        metrics["entropy_weight"] = self.entropy_weight()
        return {**metrics, **self.update_on(self.parts(number), self.gradients_on)}

    def entropy_weight(self) -> float:
        """w of the next update: it falls with the learning rate."""
        train = self.scenario.train
        return self.adjusted["entropy"] * factor(
            self.step_count + 1, train.warmup, train.steps, train.final, train.decay
        )

    def parts(self, number: int) -> Iterator[Tensor]:
        """The steps of the rollout, as numbers from 0, that each update learns from."""
        train = self.scenario.train
        draws = generator(self.scenario.seed, "minibatches", number)
        for _ in range(train.epochs):
            yield from torch.from_numpy(draws.permutation(train.environments * train.horizon)).chunk(train.minibatches)

    def gradients_on(self, part: Tensor) -> Measured:
        """Gradients of policy_loss + c · value_loss − w · H on some steps of the rollout."""
        rollout, train = self.rollout, self.scenario.train
        states, actions = rollout.states.flatten()[part], rollout.actions.flatten()[part]
        old = rollout.logprobs.flatten()[part]
        table = self.logits()
        logprobs = table.log_softmax(-1)[states, actions]
        advantages = self.whitened.flatten()[part]
        policy_loss, ratio, clipped = clipped_policy_loss(logprobs, old, advantages, None, train.clip_ratio)
        value_loss, _ = clipped_value_loss(
            self.values()[states],
            rollout.values.flatten()[part],
            rollout.returns.flatten()[part],
            None,
            train.clip_value,
        )
        entropy = token_entropy(table)[states].mean()
        weight = self.entropy_weight()
        loss = policy_loss + train.value_coefficient * value_loss - weight * entropy
        loss.backward()  # type: ignore[no-untyped-call]
        measured = {"loss": loss, "policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        measured |= {"ratio": ratio.mean(), "clip_fraction": clipped.float().mean(), "kl": k3(old, logprobs).mean()}
        return {name: value.detach() for name, value in measured.items()}

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """greedy/PPO: the return of the likeliest actions, within the world's limit, or as many steps as there are
        pairs of a state and an action."""
        process = self.process
        likeliest = np.eye(process.choices)[self.policy().argmax(axis=1)] * process.allowed
        longest = process.limit or process.size * process.choices
        return {"greedy/PPO": from_start(process, value_within(process, likeliest, longest, self.gamma))}

    # Inspection

    @torch.no_grad()
    def frame(self) -> Frame:
        """0/v in the world's units, 0/policy, 0/preferences (logits), 0/path of the likeliest actions."""
        train, policy = self.scenario.train, self.policy()
        logits = np.where(self.process.allowed, self.logits().numpy()[self.seen], np.nan)
        v = np.where(self.process.terminal, 0.0, self.values().numpy()[self.seen] / train.reward_scale)
        side = side_of(
            "ppo", "PPO", self.gamma, self.adjusted["lr"], train.gae, entropy=self.adjusted["entropy"], label="PPO"
        )
        facts = facts_of(
            self.scenario.world.model_dump(), [side], states=[int(self.states[0])], updates=[self.step_count]
        )
        tensors = {
            "0/preferences": logits.astype(np.float32),
            "0/v": v.astype(np.float32),
            "0/policy": policy.astype(np.float32),
            "0/path": likely_path(self.process, policy),
        }
        return Frame(self.step_count, tensors, facts=facts | {"warnings": [""]})

    def facts(self) -> Mapping[str, Any]:
        train = self.scenario.train
        about = world_facts(
            self.world, "rollouts", ["return/PPO", "episode_return/PPO"], train.environments * train.horizon
        )
        return {
            **about,
            "actions": list(self.process.actions),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "optimal_return": self.optimum,
            "compute": {**self.scenario.compute.model_dump(), "why": []},
        }

    # Checkpoints

    def state_dict(self) -> State:
        rollouts = {"states": self.states, "taken": self.taken, "earned": self.earned}
        return {**super().state_dict(), **{name: torch.from_numpy(array.copy()) for name, array in rollouts.items()}}

    def load_state_dict(self, state: State) -> None:
        """LabError if it is of another world or another number of environments."""
        if tuple(state["states"].shape) != self.states.shape:
            raise LabError(f"the checkpoint has {len(state['states'])} environments, not {len(self.states)}")
        super().load_state_dict(state)
        self.states, self.taken, self.earned = (
            np.asarray(state[name]).copy() for name in ("states", "taken", "earned")
        )
