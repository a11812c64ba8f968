"""Connect Four by self-play: a round of games, then batches from the replay buffer (MATH G3; Silver et al. 2018).

    L = −Σₐ π(a) ln p(a | s) + w (y − v(s))²,   π and y from the search (engine/games/connect_four/self_play.py)

Notable: the weights are fixed during a round, so a position is evaluated once in it. The chance of step n is a function
of (seed, n); the state has the games in progress, the trees below their roots and the replay buffer, so a killed run
resumes bit for bit. The evaluation positions never enter the replay buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from txlab.engine.games.connect_four import rules
from txlab.engine.games.connect_four.judged import Judged, load_judged
from txlab.engine.games.connect_four.network import (
    PolicyValueNet,
    Remembered,
    evaluate,
    legal_columns,
    log_priors,
    planes,
)
from txlab.engine.games.connect_four.search import FULL, Search, selection
from txlab.engine.games.connect_four.self_play import Exploring, Replay, SelfPlay
from txlab.errors import LabError
from txlab.experiments.kinds.connect_four.schema import MOST_VISITS, ConnectFourScenario, visits_of
from txlab.experiments.learning.gradient import GradientExperiment, Measured, rebuild_model
from txlab.experiments.protocol import Adjustable, Frame, State
from txlab.experiments.randomness import derived_seed, generator

Batch = tuple[Tensor, Tensor, Tensor, Tensor]
"""planes (B, 3, 6, 7), legal (B, 7), π (B, 7), y (B)"""


class ConnectFour(GradientExperiment[PolicyValueNet]):
    """An Experiment (see protocol).

    games   those in progress, with their trees and the replay
    """

    scenario: ConnectFourScenario

    def __init__(self, scenario: ConnectFourScenario) -> None:
        network, play = scenario.network, scenario.play
        further = {
            "c": (play.c, 100.0),
            "temperature": (play.temperature, 100.0),
            "visits": (float(play.visits), float(MOST_VISITS)),
        }
        super().__init__(scenario, lambda draws: PolicyValueNet(network.channels, network.blocks, draws), further)
        self.checks_async = False
        self.games = SelfPlay(play.games, Replay(scenario.train.replay), self.judged.names(), play.tactics)

    @cached_property
    def judged(self) -> Judged:
        return load_judged().first(self.scenario.judge.positions)

    def ask(self, own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Priors and values by the network as it is."""
        return evaluate(self.model, own, both)

    # Learning

    def ask_together(self, own: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `ask`, of several processes each a part: all play the same games, and share what takes long."""
        with self.strategy.split_rows(self.model):
            return self.ask(own, both)

    def step(self) -> Mapping[str, float | Tensor]:
        """Play a round and learn from the replay buffer; MEANINGS describes the result."""
        number, play, train = self.step_count + 1, self.scenario.play, self.scenario.train
        games, remembered = self.games, Remembered(self.ask_together)
        visits = visits_of(number, train.steps, play.first_visits, self.adjusted["visits"])
        how = Exploring(
            self.adjusted["c"], self.adjusted["temperature"], play.opening, play.noise, play.alpha, play.random_plies
        )
        draws = generator(self.scenario.seed, "self-play", number)
        before, moves = games.results.copy(), 0
        while moves < play.moves or len(games.replay) < train.batch:
            games.move(remembered, visits, how, draws)
            moves += 1
        metrics = {"visits": float(visits), "games": float(games.ended), "evaluations": float(remembered.asked)}
        ended = games.results - before
        if ended.sum():
            metrics |= dict(zip(("first_won", "drawn", "second_won"), (ended / ended.sum()).tolist(), strict=True))
        return {**metrics, **self.update_on(self.batches_of(number), self.gradients_on)}

    def batches_of(self, number: int) -> Iterator[Batch]:
        """The batches of a step: positions from the replay, drawn evenly, each mirrored or not."""
        train, replay = self.scenario.train, self.games.replay
        draws = generator(self.scenario.seed, "batches", number)
        for _ in range(train.updates):
            rows, is_mirrored = draws.integers(0, len(replay), train.batch), draws.random(train.batch) < 0.5
            own, both = (
                np.where(is_mirrored, rules.mirror(stones[rows]), stones[rows]) for stones in (replay.own, replay.both)
            )
            pi = np.where(is_mirrored[:, None], replay.policy[rows, ::-1], replay.policy[rows])
            mu = np.float32(train.search_share)
            y = (1 - mu) * replay.result[rows] + mu * replay.value[rows]
            x, legal, target, expected = (
                self.on_device(torch.from_numpy(each)) for each in (planes(own, both), legal_columns(both), pi, y)
            )
            yield x, legal, target, expected

    def gradients_on(self, batch: Batch) -> Measured:
        """Of the mean of −Σ π ln p + w (y − v)²."""
        x, legal, pi, y = batch
        logits, v = self.model(x)
        log_p = log_priors(logits, legal).masked_fill(~legal, 0.0)  # π is 0 there
        policy_loss = -(pi * log_p).sum(1).mean()
        value_loss = (y - v).square().mean()
        loss = policy_loss + self.scenario.train.value_weight * value_loss
        loss.backward()  # type: ignore[no-untyped-call]
        return {name: each.detach() for name, each in
                (("loss", loss), ("policy_loss", policy_loss), ("value_loss", value_loss))}  # fmt: skip

    def evaluate(self) -> Mapping[str, float | Tensor]:
        """optimal: share of right moves by the network alone, its likeliest column; optimal_search: by a search."""
        judge = self.scenario.judge
        priors, _ = self.ask(self.judged.own, self.judged.both)
        some = self.judged.first(judge.searched)
        search = self.search(some.own, some.both, judge.visits)
        return {
            "optimal": float(self.judged.right(priors.argmax(1)).mean()),
            "optimal_search": float(some.right(search.visits().argmax(1)).mean()),
        }

    def search(self, own: np.ndarray, both: np.ndarray, visits: int) -> Search:
        """A search of these positions by the network as it is, without noise."""
        search = Search(own, both, self.scenario.play.tactics)
        search.run(Remembered(self.ask), visits, self.adjusted["c"])
        return search

    # Inspection

    def frame(self) -> Frame:
        """A search of each position shown, the last of them that of the first game in progress.

        shown/N, W, P, Q, U, score (positions, 7)   the terms of the next choice at the root; P, U, score NaN where a
                                                    column is full or left out; score = Q + U
        shown/V, value (positions)                  the network's value, and that of the search; the mover's view
        tokens "shown"                              the moves that lead there; "lines": the moves visited most
        """
        look = self.scenario.probe
        playing = [int(move) for move in self.games.moves[0] if move >= 0]
        shown = [rules.read_moves(text) for text in look.positions] + [tuple(playing)]
        own, both = np.array([rules.own_and_both(rules.play(moves)) for moves in shown], dtype=np.int64).T
        search = self.search(own, both, look.visits)
        N, W, P = search.N[:, 0], search.W[:, 0], search.P[:, 0]
        Q, U = selection(N, W, P, self.adjusted["c"])
        left_out = search.child[:, 0] == FULL
        hidden = {"P": P, "U": U, "score": Q + U}
        arrays = {"W": W, "Q": Q, "V": search.V[:, 0], "value": search.value()}
        arrays |= {name: np.where(left_out, np.nan, each) for name, each in hidden.items()}
        return Frame(
            self.step_count,
            {"shown/N": N.copy(), **{f"shown/{name}": each.astype(np.float32) for name, each in arrays.items()}},
            tokens={
                "shown": tuple(rules.moves_text(moves) for moves in shown),
                "lines": tuple(rules.moves_text(search.line(game)) for game in range(len(shown))),
            },
            facts={
                "game": rules.NAME,
                "c": self.adjusted["c"],
                "games": self.games.ended,
                "replay": len(self.games.replay),
            },
        )

    def facts(self) -> Mapping[str, Any]:
        judge, play = self.scenario.judge, self.scenario.play
        return {
            **super().facts(),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "unit": "positions",
            "units_per_step": play.games * play.moves,
            "game": rules.TITLE,
            "headline": ["optimal_search", "optimal", "policy_loss", "value_loss"],
            "judged": {
                "positions": len(self.judged),
                "searched": min(judge.searched, len(self.judged)),
                "by_chance": self.judged.by_chance(),
            },
        }

    # Adjustable parameters

    def adjustable(self) -> Mapping[str, Adjustable]:
        """ "visits" are those of the last step; those of the present one follow."""
        return {**super().adjustable(), "visits": Adjustable("visits", self.adjusted["visits"], 1.0, MOST_VISITS)}

    # Checkpoints

    def state_dict(self) -> State:
        return {**super().state_dict(), "play": in_tensors(self.games.state())}

    def load_state_dict(self, state: State) -> None:
        """LabError if it has another number of games, or more positions than this replay."""
        kept, replay = len(state["play"]["length"]), len(state["play"]["replay"]["own"])
        if kept != self.games.search.games:
            raise LabError(f"the checkpoint has {kept} games in progress, not {self.games.search.games}")
        if replay > self.scenario.train.replay:
            raise LabError(f"the checkpoint has a replay of {replay} positions, more than {self.scenario.train.replay}")
        super().load_state_dict(state)
        self.games.load(state["play"])


def network_of(scenario: ConnectFourScenario, state: State | None = None) -> PolicyValueNet:
    """The network of a checkpoint, or before its first update. LabError if its weights do not fit the scenario."""
    network = scenario.network
    draws = torch.Generator().manual_seed(derived_seed(scenario.seed, "weights", 0))
    drawn = PolicyValueNet(network.channels, network.blocks, draws)
    return rebuild_model(lambda: drawn, (state or {"model": drawn.state_dict()})["model"])


def in_tensors(state: dict[str, Any]) -> dict[str, Any]:
    """A state with its arrays converted to tensors."""
    convert = {dict: in_tensors, np.ndarray: torch.from_numpy}
    return {name: convert[type(each)](each) if type(each) in convert else each for name, each in state.items()}
