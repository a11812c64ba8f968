"""TD-Gammon as an experiment: stepped, judged, looked at, put back, killed, and its next moves recomputed."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from calculator import miscalculated
from waiting import wait_for

from txlab.engine.games.backgammon import choice
from txlab.engine.games.backgammon.inputs import NAMES
from txlab.engine.games.backgammon.rules import points_won
from txlab.engine.games.backgammon.why import LAYERS, next_moves
from txlab.engine.intervals import mean_interval
from txlab.errors import LabError
from txlab.experiments.kind import explain_metric
from txlab.experiments.kinds.td_gammon import (
    KIND,
    MATCH_SEED,
    LearnSection,
    MatchSection,
    TDGammonScenario,
    learner_of,
    network_of,
)
from txlab.experiments.protocol import Frame
from txlab.experiments.schema import Record
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory, process_is_alive
from txlab.runs.events import read_rows
from txlab.runs.frames import FrameIndex
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import LoadedScenario

KILLS = int(os.environ.get("TXLAB_KILLS", "3"))


def made(record: Record | None = None, match: dict[str, Any] | None = None, **learn: Any) -> TDGammonScenario:
    wanted = {"units": 4, "games": 6, "games_per_step": 2} | learn
    judged = MatchSection(**{"games": 4, "copies": [0, 1]} | (match or {}))
    return TDGammonScenario(seed=3, learn=LearnSection(**wanted), match=judged, record=record or Record())


def alike(one: Any, other: Any) -> bool:
    """Nested states, array for array."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return np.array_equal(np.asarray(one), np.asarray(other))


def test_an_experiment_put_back_in_the_middle_of_a_run_continues_bit_for_bit() -> None:
    whole, first = KIND.build(made()), KIND.build(made())
    whole.adjust("alpha", 0.25)
    first.adjust("alpha", 0.25)
    expected = [whole.step(), whole.evaluate(), whole.step(), whole.evaluate()]
    seen = [first.step(), first.evaluate()]
    again = KIND.build(made())
    again.load_state_dict(first.state_dict())
    first.step()  # what was put back shares no array with it
    seen += [again.step(), again.evaluate()]
    assert seen == expected
    assert again.adjustable()["alpha"].value == 0.25
    assert alike(again.state_dict(), whole.state_dict())
    assert alike(dict(again.frame().tensors), dict(whole.frame().tensors))


def test_a_larger_step_size_moves_the_weights_further() -> None:
    small, large = KIND.build(made()), KIND.build(made())
    begun = small.learner.net.copy()
    large.adjust("alpha", 0.4)
    for experiment in (small, large):
        experiment.learner.run_plainly(1, 1)
    moved = [np.abs(each.learner.net.into - begun.into).max() for each in (small, large)]
    assert moved[1] == pytest.approx(4 * moved[0], rel=1e-3)
    with pytest.raises(LabError, match="nearest: alpha"):
        small.adjust("alfa", 0.1)


def test_a_checkpoint_of_another_network_is_refused() -> None:
    with pytest.raises(LabError, match="4 hidden units, not 5"):
        KIND.build(made(units=5)).load_state_dict(KIND.build(made()).state_dict())


@pytest.mark.evidence
def test_a_run_killed_at_random_moments_is_one_never_killed(tmp_path: Path) -> None:
    """Anywhere in a step, also while it writes: the same metrics, weights, traces, copies and frames."""
    steps = 120
    scenario = made(
        Record(evaluate_every=4, frame_every=6, checkpoint_every=5), games=3 * steps, games_per_step=3, units=8
    )

    def begun(root: Path) -> RunDirectory:
        return RunDirectory(prepare(LoadedScenario(scenario, "backgammon", "a test"), root=root))

    whole, killed = begun(tmp_path / "whole"), begun(tmp_path / "killed")
    assert execute(whole).status == "done"
    chance = random.Random(7)
    kills = 0
    for at in sorted(chance.choices(range(1, steps // 2), k=KILLS)):
        pid = os.fork()
        if not pid:
            try:
                execute(killed)
            finally:
                os._exit(0)
        wait_for(lambda at=at, pid=pid: reached(killed, pid) >= at or not process_is_alive(pid))  # type: ignore[misc]
        time.sleep(chance.uniform(0, 0.02))
        os.kill(pid, signal.SIGKILL)
        kills += os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert kills > 0  # on a machine so busy that a run ended meanwhile, there were fewer than KILLS
    print(f"{kills} of {KILLS} were killed")
    assert execute(killed).status == "done"
    assert metrics_of(whole) == metrics_of(killed)
    assert alike(*(checkpoints.load(run, steps) for run in (whole, killed)))
    frames = [FrameIndex(run.frames) for run in (whole, killed)]
    for index in frames:
        index.refresh()
    last = [index.read(steps) for index in frames]
    assert alike(dict(last[0].tensors), dict(last[1].tensors))


def reached(run: RunDirectory, pid: int) -> int:
    """The last step that this process recorded; −1 before it has begun."""
    rows = read_rows(run.events)[0]
    own = any(row["event"] == "start" and row["pid"] == pid for row in rows)
    return int(rows[-1]["step"]) if own else -1


def metrics_of(run: RunDirectory) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for row in read_rows(run.events)[0]:
        if row["event"] == "metrics":
            found.setdefault(row["step"], {}).update(row["values"])
    return found


def test_a_frame_gives_the_player_and_the_learner_back(tmp_path: Path) -> None:
    """From the disk, where a run keeps it: the same moves in a match, and the same learning, bit for bit."""
    scenario = made(Record(frame_every=1, checkpoint_every=1), games=2, games_per_step=1)
    run = RunDirectory(prepare(LoadedScenario(scenario, "backgammon", "a test"), root=tmp_path))
    assert execute(run).status == "done"
    index = FrameIndex(run.frames)
    index.refresh()
    frame = index.read(1)
    experiment = KIND.build(scenario)
    experiment.step()
    assert alike(list(network_of(frame).weights()), list(experiment.learner.net.weights()))
    again = learner_of(frame)
    again.run_plainly(1, 5)
    experiment.learner.run_plainly(1, 5)
    assert alike(list(again.net.weights()), list(experiment.learner.net.weights()))
    with pytest.raises(LabError, match="without the network"):
        network_of(Frame(0, {}))
    with pytest.raises(LabError, match="does not tell where the learner was"):
        learner_of(Frame(0, frame.tensors))


# What it learns from next, recomputed with autograd in fp64: own inputs, moves read from their notation


def outputs(weights: list[torch.Tensor], board: list[list[int]]) -> torch.Tensor:
    """y of a position: 24 × 4 units, the bar and what is borne off, for either side, and whose turn it is."""
    x = []
    for side in board:
        for n in side[:24]:
            x += [n > 0, n > 1, n > 2, max(n - 3, 0) / 2]
        x += [side[24] / 2, (15 - sum(side)) / 15]
    into, hidden, out, last = weights
    seen = torch.tensor([*map(float, x), 1.0, 0.0], dtype=torch.float64)
    found: torch.Tensor = torch.sigmoid(torch.sigmoid(seen @ into + hidden) @ out + last)
    return found


def moved(board: list[list[int]], steps: str) -> list[list[int]]:
    """The board that the opponent gets after "24/18 13/11(2)"."""
    own, other = (list(side) for side in board)
    for start, end, times in re.findall(r"(\w+)/(\w+)(?:\((\d)\))?", steps):
        for _ in range(int(times or 1)):
            own[24 if start == "bar" else int(start) - 1] -= 1
            if end != "off":
                to = int(end) - 1
                own[to] += 1
                if other[23 - to]:
                    assert other[23 - to] == 1
                    other[23 - to], other[24] = 0, other[24] + 1
    return [other, own]


def test_delta_the_trace_and_the_change_of_a_weight_are_recomputed_from_a_frame() -> None:
    experiment = KIND.build(made(units=6))
    experiment.step()
    experiment.adjust("lam", 0.8)
    frame = experiment.frame()
    alpha, lam = float(frame.facts["alpha"]), float(frame.facts["lam"])
    weights = [torch.tensor(frame.tensors[name], dtype=torch.float64, requires_grad=True) for name in LAYERS]
    traces = [[torch.zeros_like(each) for each in weights] for _ in range(3)]
    opening = [0] * 25
    for point, count in {6: 5, 8: 3, 13: 5, 24: 2}.items():
        opening[point - 1] = count
    board, followed = [list(opening), list(opening)], NAMES.index("own point 6, 1 or more")
    for move, told in enumerate(frame.tokens["next"]):
        after = moved(board, told.partition(": ")[2])
        with torch.no_grad():
            win, gammon, lost = outputs(weights, after)
        target = torch.stack([1 - win, lost, gammon])
        y = outputs(weights, board)
        delta = target - y.detach()
        traces = [[-e for e in traces[0]], traces[2], traces[1]]
        for k in range(3):
            slopes = torch.autograd.grad(y[k], weights, retain_graph=True)
            traces[k] = [lam * e + slope for e, slope in zip(traces[k], slopes, strict=True)]
        changes = [alpha * sum(delta[k] * traces[k][n] for k in range(3)) for n in range(4)]
        norm = float(torch.sqrt(sum((e**2).sum() for trace in traces for e in trace)))  # type: ignore[arg-type]
        assert frame.tensors["next/delta"][move] == pytest.approx(delta.numpy(), abs=1e-6)
        assert frame.tensors["next/trace"][move] == pytest.approx(norm, rel=1e-5)
        assert frame.tensors["next/change"][move] == pytest.approx(float(changes[0][followed, 0]), abs=1e-7)
        for tensor, index, true in (
            ("next/delta", (move, 1), float(delta[1])),
            ("next/trace", (move,), norm),
            ("next/change", (move,), float(changes[0][followed, 0])),
        ):
            why = KIND.explain_frame(frame, tensor, index)
            assert why.result == pytest.approx(true, rel=1e-4, abs=1e-7)
            assert miscalculated([*why.steps, *why.meaning], within=0.001) == []
            assert told in why.question
        if move == 0:
            why = KIND.explain_frame(frame, "out", (2, 1))
            assert why.result == pytest.approx(weights[2][2, 1].item())
            assert why.meaning[-1].result == pytest.approx(float(changes[2][2, 1]), abs=1e-7)
            assert KIND.explain_frame(frame, "next/trace", (0,)).operands[1].value == 0
        with torch.no_grad():
            for weight, change in zip(weights, changes, strict=True):
                weight += change
        board = after


def test_the_last_move_of_a_game_is_explained_by_its_result() -> None:
    experiment = KIND.build(made())
    learner = experiment.learner
    while True:
        before = learner.state()
        if points_won(learner.learn_move().reached):
            break
    learner.load(before)
    (last,) = next_moves(learner, 1)
    assert last.learnt.target[0] == 1
    assert last.learnt.target[2] == 0
    from txlab.engine.games.backgammon.why import explain_delta, explain_norm

    why = explain_delta(last, 0)
    assert why.result == pytest.approx(float(last.learnt.delta[0]))
    assert "the game has ended" in why.steps[0].note
    assert explain_norm(last).result == pytest.approx(last.norm)
    assert alike(learner.state(), before)  # looking ahead has not moved it


# Strength


def test_the_interval_is_that_of_the_pairs_that_were_played() -> None:
    experiment = KIND.build(made(match={"games": 12}))
    experiment.step()
    values = experiment.evaluate()
    assert values == experiment.evaluate()
    seeds = np.repeat(MATCH_SEED + np.arange(6, dtype=np.uint64), 2)
    points = choice.match(experiment.learner.net, experiment.copies[0], seeds).reshape(6, 2).mean(axis=1)
    assert values["against/0"] == points.mean()
    ends = values["against/0_low"], values["against/0_high"]
    assert ends == mean_interval(float(points.mean()), float(points.std()), 6, -3, 3)
    assert ends[0] < values["against/0"] < ends[1]
    assert set(values) == {f"against/{age}{end}" for age in (0, 1) for end in ("", "_low", "_high")}


def test_copies_are_kept_after_the_games_that_the_scenario_names_also_within_a_step() -> None:
    experiment, apart = KIND.build(made(match={"copies": [3, 99, 1, 3]})), KIND.build(made()).learner
    assert experiment.evaluate() == {}  # there is no copy yet that is younger
    for _ in range(2):
        experiment.step()
    assert list(experiment.copies) == [1, 3]
    assert experiment.facts()["headline"] == ["against/1", "against/3"]
    apart.run(3)
    assert alike(list(experiment.copies[3].weights()), list(apart.net.weights()))
    assert {name.split("_")[0] for name in experiment.evaluate()} == {"against/1", "against/3"}


def test_two_plies_are_judged_where_the_scenario_asks_for_it() -> None:
    pytest.importorskip("numba")
    experiment = KIND.build(made(match={"two_plies_games": 2}))
    experiment.step()
    values = dict(experiment.evaluate())
    assert values["two_plies_low"] < values["two_plies_high"]
    why = explain_metric(made(match={"two_plies_games": 2}).model_dump(mode="json"), "two_plies_low", 1, values)
    assert why is not None
    assert why.result == pytest.approx(values["two_plies_low"])


@pytest.mark.parametrize("mean", [0.5, 3.0, -3.0])
def test_an_end_that_no_result_can_pass_is_explained_as_such(mean: float) -> None:
    low, high = mean_interval(mean, 0.0, 20, -3, 3)
    assert (low == -3 or high == 3) == (abs(mean) == 3)
    values = {"against/0": mean, "against/0_low": low, "against/0_high": high}
    for name, value in values.items():
        why = explain_metric(made(match={"games": 40}).model_dump(mode="json"), name, 1, values)
        assert why is not None
        assert why.result == pytest.approx(value)
        assert miscalculated(why.steps, within=0.001) == []
        assert ("no game is worth more" in why.steps[-1].note) == (abs(value) == 3 and name != "against/0")


def test_without_numba_the_same_is_learnt_and_a_note_says_that_it_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = choice.load_compiled()
    fast = KIND.build(made())
    monkeypatch.setattr(choice, "load_compiled", lambda: None)
    plain = KIND.build(made())
    assert "pip install 'txlab[games]'" in plain.notes()[0]
    assert plain.facts()["compute"]["kernel"] == "plain Python and NumPy"
    assert [plain.step(), plain.evaluate()] == [*([fast.step()]), fast.evaluate()]
    assert plain.notes() == ()
    assert alike(plain.state_dict(), fast.state_dict())
    if compiled is not None:
        assert fast.facts()["compute"]["kernel"] == "compiled by Numba"


def test_moves_and_gammons_of_a_step_are_counted_over_its_games_alone() -> None:
    experiment, apart = KIND.build(made(games=9, games_per_step=3)), KIND.build(made()).learner
    for _ in range(3):
        values = experiment.step()
        ends: list[int] = []
        moves = 0
        while len(ends) < 3:
            moves += 1
            if points := -points_won(apart.learn_move().reached):
                ends.append(points)
        assert values == {"plies": moves / 3, "gammons": sum(points > 1 for points in ends) / 3}


def test_the_last_step_has_the_games_that_are_left() -> None:
    experiment = KIND.build(made(games=3))
    assert experiment.steps == 2
    experiment.step()
    values = dict(experiment.step())
    assert experiment.learner.games == 3
    why = explain_metric(made(games=3).model_dump(mode="json"), "plies", 2, values)
    assert why is not None
    assert why.operands[0].value == 1
