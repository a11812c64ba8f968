"""TD-Gammon's update against autograd and an independent recomputation, its compiled loop against the plain one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_backgammon_rules import positions

from txlab.engine.games.backgammon import choice
from txlab.engine.games.backgammon.dice import roll
from txlab.engine.games.backgammon.inputs import inputs_of
from txlab.engine.games.backgammon.learner import TDGammon
from txlab.engine.games.backgammon.network import (
    Network,
    equity,
    forward,
    gradient,
    no_trace,
    sigmoid,
    turn_target,
    update,
)
from txlab.engine.games.backgammon.rules import START, after_states, points_won, swap_sides


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "load_compiled", lambda: None)


def same_bits(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_gradient_is_autograds() -> None:
    net = Network.initialize(7, seed=3, scale=2.0)
    x = inputs_of(after_states(START, (6, 4))[3])
    h, y = forward(net, x)
    weights = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in net.weights()]
    into, hidden, out, last = weights
    expected = torch.sigmoid(torch.sigmoid(torch.tensor(x, dtype=torch.float64) @ into + hidden) @ out + last)
    assert y == pytest.approx(expected.detach().numpy(), abs=1e-6)
    for k in range(3):
        true = torch.autograd.grad(expected[k], weights, retain_graph=True)
        for ours, theirs in zip(gradient(net, x, h, y), true, strict=True):
            assert ours[k] == pytest.approx(theirs.numpy(), abs=1e-6)


def test_a_game_of_updates_recomputed_in_the_view_of_one_player() -> None:
    """TD(λ) with all outputs from one player's view, in fp64, with autograd: nothing is ever turned."""
    alpha, lam, plies = 0.3, 0.6, 12
    net = Network.initialize(6, seed=5, scale=2.0)
    weights = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in net.weights()]
    boards = [START]
    for ply in range(plies):
        boards.append(swap_sides(after_states(boards[-1], roll(11, ply))[-1]))

    def outputs(board: Any, own_view: bool) -> torch.Tensor:
        """The three outputs as the player who rolled first sees them."""
        into, hidden, out, last = weights
        x = torch.tensor(inputs_of(board), dtype=torch.float64)
        win, gammon, lost = torch.sigmoid(torch.sigmoid(x @ into + hidden) @ out + last)
        return torch.stack([win, gammon, lost] if own_view else [1 - win, lost, gammon])

    traces = [[torch.zeros_like(each) for each in weights] for _ in range(3)]
    trace = no_trace(net)
    for ply in range(plies):
        own_view = ply % 2 == 0
        with torch.no_grad():
            after = outputs(boards[ply + 1], not own_view)
        now = outputs(boards[ply], own_view)
        for k in range(3):
            slope = torch.autograd.grad(now[k], weights, retain_graph=True)
            traces[k] = [lam * e + g for e, g in zip(traces[k], slope, strict=True)]
        with torch.no_grad():
            delta = after - now
            for n, weight in enumerate(weights):
                weight += alpha * sum(delta[k] * traces[k][n] for k in range(3))
        target = turn_target(forward(net, inputs_of(boards[ply + 1]))[1])
        trace, found = update(net, trace, inputs_of(boards[ply]), target, alpha, lam)
        seen = delta if own_view else torch.stack([-delta[0], delta[2], delta[1]])
        assert found == pytest.approx(seen.numpy(), abs=1e-5)
    for ours, theirs in zip(net.weights(), weights, strict=True):
        assert ours == pytest.approx(theirs.detach().numpy(), abs=1e-5)


@pytest.mark.evidence
def test_the_compiled_loop_is_the_plain_one_bit_for_bit() -> None:
    pytest.importorskip("numba")
    plain, fast = TDGammon(5, seed=8, fast=False), TDGammon(5, seed=8)
    for moves in (1, 40, 160):
        plain.run(100, moves)
        fast.run(100, moves)
        assert (fast.board, fast.ply, fast.games, fast.moves) == (plain.board, plain.ply, plain.games, plain.moves)
        assert same_bits(fast.net.weights(), plain.net.weights())
        assert same_bits(fast.trace, plain.trace)
    plain.run(1)
    fast.run(1)
    assert fast.games == plain.games > 0
    assert same_bits([fast.results, *fast.net.weights()], [plain.results, *plain.net.weights()])


def test_the_compiled_rules_are_the_plain_ones() -> None:
    pytest.importorskip("numba")
    from txlab.engine.games.backgammon import compiled

    found, _ = compiled.room_of()
    ended = 0
    for board, dice in positions(4_000, seed=4):
        count = compiled.after_states(np.array(board, dtype=np.int8), *dice, found)
        ours = [tuple(map(tuple, each)) for each in found[:count].tolist()]
        assert ours == after_states(board, dice)  # in the same order too: ties are broken by it
        for each in ours[:2]:
            ended += bool(points_won(swap_sides(each)))
            assert compiled.points_won(np.array(swap_sides(each), dtype=np.int8)) == points_won(swap_sides(each))
    assert ended > 20


@pytest.mark.parametrize("plies", [1, 2])
def test_matches_are_the_same_with_numba_and_without(plies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    one, other = Network.initialize(4, 1, 3.0), Network.initialize(3, 2, 3.0)
    late = after_states(START, (6, 5))[0]
    for dice in ((3, 1), (4, 4)):
        fast = compiled_choice(one, late, dice, plies)
        board, expected = choice.best_after_state(one, late, dice, plies)
        assert fast == (board, pytest.approx(expected, abs=1e-9))
    if plies == 1:
        seeds = np.arange(2)
        fast = choice.match(one, other, seeds)
        monkeypatch.setattr(choice, "load_compiled", lambda: None)
        assert choice.match(one, other, seeds).tolist() == fast.tolist()


def compiled_choice(net: Network, board: Any, dice: tuple[int, int], plies: int) -> tuple[Any, float]:
    from txlab.engine.games.backgammon import compiled

    room, work = (compiled.room_of(), compiled.room_of()), compiled.workspace(net.units)
    reached = np.empty((2, 25), dtype=np.int8)
    expected = compiled.choose(
        net.weights(), np.array(board, dtype=np.int8), *dice, plies, choice.WIDTH, room, work, reached
    )
    return tuple(map(tuple, reached.tolist())), float(expected)


def test_two_plies_are_the_mean_over_the_opponents_best_replies() -> None:
    net = Network.initialize(4, 9, 3.0)
    dice = (6, 5)
    board, expected = choice.best_after_state(net, START, dice, plies=2)
    by_hand = 0.0
    for first in range(1, 7):
        for second in range(1, 7):
            values = [
                equity(forward(net, inputs_of(swap_sides(each)))[1]) for each in after_states(board, (first, second))
            ]
            by_hand -= min(values) / 36
    assert expected == pytest.approx(by_hand, abs=1e-9)
    ranked = choice.value_moves(net, START, dice, plies=2)
    assert list(ranked.values()) == sorted(ranked.values())


def test_a_network_against_itself_wins_nothing_when_the_dice_are_shared() -> None:
    pytest.importorskip("numba")
    net = Network.initialize(4, 1, 3.0)
    points = choice.match(net, net, np.repeat(np.arange(10), 2)).reshape(-1, 2)
    assert (points.sum(axis=1) == 0).all()


def test_a_learner_restored_in_the_middle_of_a_game_continues_bit_for_bit() -> None:
    fast = choice.load_compiled() is not None
    whole, half = TDGammon(5, seed=8, fast=fast), TDGammon(5, seed=8, fast=fast)
    half.run(99, 70)
    after = TDGammon(5, seed=8, fast=fast)
    after.load(half.state())
    whole.run(99, 140)
    after.run(99, 70)
    assert (after.board, after.ply, after.games) == (whole.board, whole.ply, whole.games)
    assert same_bits(after.net.weights(), whole.net.weights())
    assert same_bits(after.trace, whole.trace)


def test_a_few_thousand_games_teach_it_to_win() -> None:
    pytest.importorskip("numba")
    learner = TDGammon(10, seed=1)
    untrained = learner.net.copy()
    learner.run(2_000)
    points = choice.match(learner.net, untrained, np.repeat(np.arange(10_000, 10_050), 2))
    assert points.mean() > 1.2


def test_where_nothing_can_be_cached_the_loop_is_compiled_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package and a home that cannot be written to; here `__pycache__` and the home are files."""
    numba = pytest.importorskip("numba")
    from txlab.engine.games.compiling import jit

    blocked = tmp_path / "__pycache__"
    blocked.write_text("")
    (tmp_path / "loop.py").write_text("def double(x):\n    return 2 * x\n")
    for variable in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(blocked / "none"))
    spec = importlib.util.spec_from_file_location("loop", tmp_path / "loop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(module.double)
    assert jit(module.double)(21) == 42
    assert blocked.read_text() == ""


LOOP = """
import sys
from txlab.engine.games.compiling import jit

def total(x):
    return sum([each * x for each in range(x)])

total = jit(total)
print("begun", flush=True)
sys.stdin.readline()
assert total(4) == 24
print(sum(total.stats.cache_hits.values()))
"""


def test_of_processes_that_need_a_loop_at_once_one_compiles_it_and_the_other_loads_it(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    (tmp_path / "loop.py").write_text(LOOP)
    command = [sys.executable, str(tmp_path / "loop.py")]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert sorted(int(process.communicate()[0]) for process in processes) == [0, 1]


def test_the_sigmoid_is_the_true_one_as_far_as_float32_tells() -> None:
    """Within a rounding where a unit is not saturated, and to four digits where it is."""
    z = np.linspace(-40, 40, 8_001, dtype=np.float32)
    found, true = sigmoid(z).astype(np.float64), 1 / (1 + np.exp(-np.clip(z.astype(np.float64), -32, 32)))
    assert np.abs(found / true - 1).max() < 1e-4
    near = np.abs(z) < 8
    assert np.abs(found - true)[near].max() < 2.0**-24
