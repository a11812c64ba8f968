"""Connect Four as a run: one whole step computed again, an exact restart, and what may be asked of it (MATH G3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from independent.descent import Descent, moved_apart, rate
from independent.tape import Array, log_softmax, maximum, tanh
from independent.transformer import linear, part

from txlab.engine.games.connect_four import rules
from txlab.engine.games.connect_four.judged import load_judged
from txlab.engine.games.connect_four.network import Remembered, evaluate
from txlab.engine.games.connect_four.search import Search
from txlab.engine.games.connect_four.solver import Solver, optimal_moves
from txlab.errors import LabError
from txlab.experiments.kinds.connect_four import KIND
from txlab.experiments.kinds.connect_four.experiment import ConnectFour, network_of
from txlab.experiments.kinds.connect_four.schema import ConnectFourScenario
from txlab.experiments.learning.parallel_strategy import ParallelStrategy
from txlab.experiments.randomness import generator

SEED = 5
SMALL: dict[str, Any] = {
    "seed": SEED,
    "network": {"channels": 4, "blocks": 2},
    "play": {"games": 8, "moves": 3, "visits": 10, "first_visits": 4, "random_plies": 3},
    "train": {
        "steps": 6, "batch": 24, "updates": 3, "replay": 28, "warmup": 1, "learning_rate": 1e-2, "epsilon": 1e-3,
        "clip": 0.5, "weight_decay": 0.1, "search_share": 0.3, "value_weight": 0.7,
    },
    "judge": {"positions": 30, "searched": 6, "visits": 8},
    "probe": {"positions": ["", "4444441", "55667"], "visits": 20},
    "compute": {"threads": 1, "device": "cpu"},
}  # fmt: skip


def made(**changes: Any) -> ConnectFour:
    tables = {name: {**SMALL[name], **table} if isinstance(table, dict) else table for name, table in changes.items()}
    return KIND.build(ConnectFourScenario.model_validate(SMALL | tables))  # type: ignore[return-value]


def same(one: Any, other: Any) -> bool:
    """Whether two states are the same, bit for bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other)


# The step


def board(own: int, both: int) -> np.ndarray:
    """(6, 7): 1 the mover's stones, −1 the other's, row 0 the lowest."""
    found = np.zeros((6, 7))
    for column in range(7):
        for row in range(6):
            bit = 1 << 7 * column + row
            found[row, column] = 0 if not both & bit else 1 if own & bit else -1
    return found


def seen(boards: np.ndarray) -> np.ndarray:
    """(B, 3, 6, 7) of boards (B, 6, 7)"""
    filled = boards != 0
    below = np.concatenate([np.ones_like(filled[:, :1]), filled[:, :-1]], axis=1)
    return np.stack([boards == 1, boards == -1, ~filled & below], axis=1).astype(float)


def shifted(up: int, right: int) -> np.ndarray:
    """(42, 42): x @ S has at each square what x has `up` rows and `right` columns further, 0 beyond the edge."""
    S = np.zeros((42, 42))
    for row in range(6):
        for column in range(7):
            if 0 <= row + up < 6 and 0 <= column + right < 7:
                S[7 * (row + up) + column + right, 7 * row + column] = 1
    return S


def convolved(x: Array, weights: Any) -> Array:
    """x (B, C, 42) by a convolution of 1 × 1 or 3 × 3."""
    w = weights["weight"]
    size = w.shape[-1]
    total = weights["bias"].reshape(-1, 1)
    for i in range(size):
        for j in range(size):
            total = w[:, :, i, j] @ (x @ shifted(i - size // 2, j - size // 2)) + total
    return total


def relu(x: Array) -> Array:
    return maximum(x, 0.0)


def network(weights: Any, boards: np.ndarray) -> tuple[Array, Array]:
    """Logits (B, 7) and values (B)."""

    def layer(name: str) -> Any:
        return part(weights, f"{name}.")

    x = relu(convolved(Array(seen(boards).reshape(-1, 3, 42)), layer("stem")))
    for block in ("blocks.0", "blocks.1"):
        x = relu(x + convolved(relu(convolved(x, layer(f"{block}.first"))), layer(f"{block}.second")))
    flat = [relu(convolved(x, layer(head))).reshape(len(boards), -1) for head in ("policy", "value")]
    v = tanh(linear(relu(linear(flat[1], layer("hidden"))), layer("expected")))
    return linear(flat[0], layer("columns")), v.reshape(len(boards))


def test_the_updates_of_a_step() -> None:
    learner, number = made(), 4
    for _ in range(number - 1):
        learner.step()
    with torch.no_grad():
        draws = torch.Generator().manual_seed(0)
        for parameter in learner.model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=draws))
    present = deepcopy(learner.state_dict())
    theirs = {name: float(value) for name, value in learner.step().items()}
    train, replay = learner.scenario.train, learner.games.replay  # a step plays first, so this is what it learnt from
    assert len(replay) == train.replay < replay.written
    descent = Descent.of(present, train)
    chance = generator(SEED, "batches", number)
    eta = rate(number, train, train.learning_rate)
    measured: dict[str, list[float]] = {}
    for _ in range(train.updates):
        rows, flips = chance.integers(0, len(replay), train.batch), chance.random(train.batch) < 0.5
        boards = np.stack([board(int(replay.own[row]), int(replay.both[row])) for row in rows])
        pi = replay.policy[rows].astype(float)
        boards[flips], pi[flips] = boards[flips][:, :, ::-1], pi[flips][:, ::-1]
        y = (1 - train.search_share) * replay.result[rows] + train.search_share * replay.value[rows]
        full = boards[:, 5] != 0
        assert (pi[full] == 0).all()
        logits, v = network(descent.weights, boards)
        policy_loss = -(log_softmax(logits + np.where(full, -1e9, 0.0)) * pi).sum(1).mean()
        value_loss = ((v - y) ** 2).mean()
        loss = policy_loss + value_loss * train.value_weight
        found = {"loss": loss.value, "policy_loss": policy_loss.value, "value_loss": value_loss.value,
                 "lr": eta, "grad_norm": descent.step(loss, eta)}  # fmt: skip
        for name, value in found.items():
            measured.setdefault(name, []).append(float(value))
    for name, values in measured.items():
        assert theirs[name] == pytest.approx(np.mean(values), rel=2e-5, abs=1e-6), name
    assert moved_apart(present["model"], learner.state_dict()["model"], descent.weights) < 1e-4
    assert theirs["visits"] == round(4 + 6 * 3 / 5)
    ended = learner.games.results - present["play"]["results"].numpy()
    assert ended.sum() > 0
    assert theirs["games"] == learner.games.ended == learner.games.results.sum()
    assert [theirs[name] for name in ("first_won", "drawn", "second_won")] == pytest.approx(ended / ended.sum())


def test_a_first_step_plays_until_there_is_a_batch_and_a_further_one_as_many_moves_as_asked() -> None:
    learner = made()
    learner.step()
    assert len(learner.games.replay) >= 24

    def moves() -> int:
        return learner.games.replay.written + int((learner.games.length - learner.games.begun).sum())

    before = moves()
    assert before % 8 == 0
    learner.step()
    assert moves() == before + 3 * 8


def test_it_resumes_bit_for_bit_in_the_middle_of_its_games() -> None:
    whole, again = made(), made()
    for _ in range(2):
        whole.step()
    whole.adjust("c", 3.0)
    whole.adjust("visits", 14)
    kept = deepcopy(whole.state_dict())
    assert (whole.games.length > 0).any()
    again.load_state_dict(kept)
    assert same(again.state_dict(), kept)
    for _ in range(3):
        assert {name: float(value) for name, value in whole.step().items()} == {
            name: float(value) for name, value in again.step().items()
        }
    assert same(whole.state_dict(), again.state_dict())
    assert whole.evaluate() == again.evaluate()
    one, other = whole.frame(), again.frame()
    assert one.tokens == other.tokens
    assert all(np.array_equal(one.tensors[name], other.tensors[name], equal_nan=True) for name in one.tensors)


def test_looking_and_evaluating_change_nothing() -> None:
    looked, other = made(), made()
    for _ in range(3):
        looked.step()
        looked.evaluate()
        looked.frame()
        other.step()
    assert same(looked.state_dict(), other.state_dict())


def test_the_network_of_a_checkpoint_and_the_one_before_any_update_are_built_again() -> None:
    learner = made()
    own, both = load_judged().own[:9], load_judged().both[:9]
    first = learner.ask(own, both)
    learner.step()
    for state, expected in ((None, first), (learner.state_dict(), learner.ask(own, both))):
        found = evaluate(network_of(learner.scenario, state), own, both)
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[1], expected[1])


def test_a_state_of_other_games_is_refused() -> None:
    learner = made()
    learner.step()
    kept = learner.state_dict()
    with pytest.raises(LabError, match="8 games in progress, not 4"):
        made(play={"games": 4}).load_state_dict(kept)
    with pytest.raises(LabError, match="more than 24"):
        made(train={"replay": 24}).load_state_dict(kept)
    with pytest.raises(LabError, match="does not fit"):
        made(network={"channels": 3}).load_state_dict(kept)


# What is looked at


def test_a_frame_shows_the_search_of_each_position() -> None:
    learner = made()
    learner.step()
    frame = learner.frame()
    playing = rules.moves_text(int(move) for move in learner.games.moves[0] if move >= 0)
    assert list(frame.tokens["shown"]) == ["", "4444441", "55667", playing]
    N, score = np.asarray(frame.tensors["shown/N"]), np.asarray(frame.tensors["shown/score"])
    assert N.sum(1).tolist() == [20, 20, 20, 20]
    assert np.flatnonzero(np.isnan(score[1])).tolist() == [3]
    assert np.flatnonzero(~np.isnan(score[2])).tolist() == [3]  # X would win there
    for row in range(4):
        for column in range(7):
            if np.isnan(score[row, column]):
                is_full = column not in rules.legal(rules.read(frame.tokens["shown"][row]))
                with pytest.raises(LabError, match=f"column {column + 1} is {'full' if is_full else 'left out'}"):
                    KIND.explain_frame(frame, "shown/score", (row, column))
                continue
            for name in ("N", "P", "Q", "U", "score"):
                why = KIND.explain_frame(frame, f"shown/{name}", (row, column))
                assert why.result == pytest.approx(float(frame.tensors[f"shown/{name}"][row, column]), abs=1e-5)
        for name in ("V", "value"):
            why = KIND.explain_frame(frame, f"shown/{name}", (row,))
            assert why.result == pytest.approx(float(frame.tensors[f"shown/{name}"][row]), abs=1e-5)
    with pytest.raises(LabError, match="allowed: shown/N"):
        KIND.explain_frame(frame, "shown/W", (0, 0))


def test_what_may_be_changed_changes_what_follows() -> None:
    learner, other = made(), made()
    assert set(learner.adjustable()) == {"lr", "clip", "weight_decay", "c", "temperature", "visits"}
    assert learner.adjustable()["visits"].low == 1
    learner.adjust("visits", 30)
    other.step()
    learner.step()
    assert (float(learner.step()["visits"]), float(other.step()["visits"])) == (9.0, 5.0)
    with pytest.raises(LabError, match="'tau' cannot be changed"):
        learner.adjust("tau", 1.0)


@pytest.mark.parametrize("name", ["c", "temperature"])
def test_a_setting_changed_while_it_runs_is_as_if_it_had_been_so_in_the_scenario(name: str) -> None:
    changed, other, plain = made(), made(play={name: 0.3}), made()
    changed.adjust(name, 0.3)
    for learner in (changed, other, plain):
        learner.step()
    assert same(changed.state_dict(), other.state_dict())
    assert not same(changed.state_dict()["play"]["moves"], plain.state_dict()["play"]["moves"])
    assert changed.evaluate() == other.evaluate()
    assert changed.frame().facts["c"] == other.frame().facts["c"]


def test_what_judges_and_what_is_shown_is_searched_without_noise() -> None:
    learner = made()
    for _ in range(2):
        learner.step()
    some, frame = load_judged().first(6), learner.frame()
    search = Search(some.own, some.both, tactics=True)
    search.run(Remembered(learner.ask), 8, 2.0)
    assert learner.evaluate()["optimal_search"] == some.right(search.visits().argmax(1)).mean()
    start = Search.of(rules.start())
    start.run(Remembered(learner.ask), 20, 2.0)
    assert frame.tensors["shown/N"][0].tolist() == start.visits()[0].tolist()
    assert frame.tensors["shown/P"][0] == pytest.approx(learner.ask(start.own, start.both)[0][0], abs=1e-6)


def test_the_leaves_and_batches_of_a_step_are_what_several_processes_share() -> None:
    learner, inside = made(), [False]
    rows: dict[bool, int] = {True: 0, False: 0}

    class Shared(ParallelStrategy):
        @contextmanager
        def split_rows(self, model: torch.nn.Module) -> Iterator[None]:
            inside[0] = True
            yield
            inside[0] = False

    learner.strategy = Shared()
    learner.model.register_forward_pre_hook(lambda _, given: rows.update({inside[0]: rows[inside[0]] + len(given[0])}))
    metrics = learner.step()
    assert rows == {True: int(metrics["evaluations"]) + 3 * 24, False: 0}
    learner.evaluate()  # and what only one of them may ask for is not shared
    learner.frame()
    assert rows[True] == int(metrics["evaluations"]) + 3 * 24
    assert rows[False] > 0


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"train": {"batch": 200}}, "holds no batch of 200"),
        ({"probe": {"positions": ["48"]}}, "is not a column"),
        ({"probe": {"positions": ["1212121"]}}, "the game has ended"),
    ],
)
def test_what_does_not_fit_together_is_refused(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        made(**table)


# The judge


def test_the_scores_of_late_positions_in_the_file_are_the_solvers() -> None:
    everything, judge = load_judged(), Solver()
    assert len(everything) == len(set(everything.names())) == 1000
    plies = np.array([len(moves) for moves in everything.moves])
    assert (plies.min(), plies.max()) == (8, 24)
    assert everything.by_chance() == pytest.approx(0.348, abs=0.001)
    for k in np.flatnonzero(plies >= judge.quick_from + 2)[::4]:
        scores = judge.scores(rules.read(everything.moves[k]))
        expected = {column: int(score) for column, score in enumerate(everything.scores[k]) if not np.isnan(score)}
        assert scores == expected
        assert tuple(np.flatnonzero(everything.optimal[k])) == optimal_moves(scores)
        assert len(optimal_moves(scores)) < len(scores)


def test_the_share_of_optimal_moves_is_counted_over_the_positions_asked_for() -> None:
    learner = made(judge={"positions": 30, "searched": 6})
    learner.step()
    found = learner.evaluate()
    some = load_judged().first(30)
    priors, _ = learner.ask(some.own, some.both)
    right = [bool(some.optimal[k, priors[k].argmax()]) for k in range(30)]
    assert found["optimal"] == pytest.approx(np.mean(right))
    assert learner.facts()["judged"]["searched"] == 6
    assert learner.games.unseen.tolist() == sorted(some.names())
