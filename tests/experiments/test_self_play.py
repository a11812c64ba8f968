"""Self-play as an experiment: stepped, judged, looked at, put back, killed, and its players found again."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from txlab.engine.games import tictactoe
from txlab.engine.games.graph import compile_graph
from txlab.engine.games.learner import RULES, SelfPlaySettings
from txlab.engine.games.perfect_play import both_seats
from txlab.engine.games.players import perfect_player, random_player
from txlab.engine.games.population import Population
from txlab.errors import LabError
from txlab.experiments.kind import explain_metric, kind_named
from txlab.experiments.kinds.self_play import (
    KIND,
    LearnSection,
    PositionsSection,
    SelfPlayScenario,
    player_of,
)
from txlab.experiments.protocol import Frame
from txlab.experiments.schema import Record
from txlab.experiments.tabular.training import Training
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import read_rows
from txlab.runs.frames import FrameIndex
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import LoadedScenario

build, resolve = KIND.build, KIND.resolve

GRAPH = compile_graph(tictactoe)
RANDOM, PERFECT = random_player(tictactoe).policy(), perfect_player(tictactoe).policy()


def made(record: Record | None = None, **learn: Any) -> SelfPlayScenario:
    wanted = {"games": 500, "games_per_step": 50} | learn
    return SelfPlayScenario(seed=3, learn=LearnSection(**wanted), record=record or Record())


def alike(one: Any, other: Any) -> bool:
    """Nested states, array for array."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and one and isinstance(one[0], dict):
        return len(one) == len(other) and all(map(alike, one, other))
    return np.array_equal(np.asarray(one), np.asarray(other), equal_nan=np.asarray(one).dtype.kind == "f")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seeds", [1, 3, 40])
def test_a_restored_experiment_continues_as_if_never_interrupted(rule: str, seeds: int) -> None:
    scenario = made(rule=rule, seeds=seeds, games=90, games_per_step=25)
    whole, before = build(scenario), build(scenario)
    for _ in range(2):
        whole.step()
        before.step()
    after = build(scenario)
    after.load_state_dict(before.state_dict())
    rows = [(whole.step(), after.step()) for _ in range(2)]
    assert all(one == other for one, other in rows)
    assert alike(whole.state_dict(), after.state_dict())
    assert whole.evaluate() == after.evaluate()
    assert whole.step_count == whole.steps == 4
    assert whole.population.games == 90  # the last block is what is left of them


def test_how_it_is_computed_cannot_be_told_from_the_numbers() -> None:
    settings = SelfPlaySettings(rule="q-learning")
    plain, batched = Population(GRAPH, settings, [1, 2], 3), Population(GRAPH, settings, [1, 2], 1)
    assert plain.batch is None
    assert batched.batch is not None
    plain.run(40)
    batched.run(40)
    assert np.array_equal(plain.results, batched.results)
    assert all(np.array_equal(plain.values(row), batched.values(row)) for row in (0, 1))


def test_what_is_measured_is_what_its_player_would_do() -> None:
    experiment = build(made())
    values = experiment.step()
    assert values["self_won"] + values["self_drawn"] + values["self_lost"] == pytest.approx(1)
    found = experiment.evaluate()
    first, second = both_seats(GRAPH, experiment.player().policy(), RANDOM)
    against = both_seats(GRAPH, experiment.player().policy(), PERFECT)
    assert (found["won_first"], found["drawn_first"], found["lost_first"]) == (first.won, first.drawn, first.lost)
    assert (found["won_second"], found["drawn_second"], found["lost_second"]) == (second.won, second.drawn, second.lost)
    assert [found[f"lost_to_perfect_{seat}"] for seat in ("first", "second")] == [each.lost for each in against]
    assert found["unbeaten"] == 0.0
    assert experiment.evaluate() == found  # nothing is learnt by looking


def test_several_learners_are_summarised_by_their_mean_and_its_error() -> None:
    several = build(made(seeds=3))
    several.step()
    alone = []
    for seed in (3, 4, 5):
        one = build(made().model_copy(update={"seed": seed}))
        one.step()
        alone.append(one.evaluate()["won_first"])
    found = several.evaluate()
    assert found["won_first"] == pytest.approx(np.mean(alone))
    assert found["won_first_high"] - found["won_first"] == pytest.approx(np.std(alone, ddof=1) / 3**0.5)
    assert found["won_first"] - found["won_first_low"] == pytest.approx(np.std(alone, ddof=1) / 3**0.5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seeds", [1, 40])
def test_a_player_comes_back_from_a_frame_and_from_a_state(rule: str, seeds: int) -> None:
    experiment = build(made(rule=rule, seeds=seeds))
    experiment.step()
    player = experiment.player()
    frame = experiment.frame()
    for again in (player_of(frame), player_of(experiment.state_dict())):
        assert np.array_equal(again.kept, player.kept)
        assert again.name == player.name
    start = tictactoe.start()
    assert frame.tensors["openings"] == pytest.approx(list(player.values(start).values()), rel=1e-6)
    assert frame.tokens["shown"][0] == "X../.../..."
    shown = np.asarray(frame.tensors["shown"][0])
    assert np.isnan(shown[0])
    expected = player.values(tictactoe.read("X../.../..."))
    assert shown[1:] == pytest.approx([expected[move] for move in range(1, 9)], rel=1e-6)


def test_an_invalid_record_of_a_player_is_refused() -> None:
    experiment = build(made())
    frame = experiment.frame()
    with pytest.raises(LabError, match="not a record of self-play"):
        player_of(Frame(0, {"attention/pattern": np.zeros(3)}))
    with pytest.raises(LabError, match="without its table"):
        player_of(Frame(0, {}, facts=frame.facts))
    with pytest.raises(LabError, match="has 5478 values; this one has 7"):
        player_of(Frame(0, {"values": np.zeros(7)}, facts=frame.facts))
    with pytest.raises(LabError, match="of td at tictactoe, not of sarsa"):
        build(made(rule="sarsa")).load_state_dict(experiment.state_dict())


def test_numbers_changed_by_the_user_stay_changed_after_a_restart() -> None:
    experiment = build(made(rule="td-lambda"))
    assert list(experiment.adjustable()) == ["alpha", "epsilon", "lam"]
    assert list(build(made()).adjustable()) == ["alpha", "epsilon"]
    experiment.adjust("epsilon", 0.4)
    experiment.step()
    again = build(made(rule="td-lambda"))
    again.load_state_dict(experiment.state_dict())
    assert again.adjustable()["epsilon"].value == 0.4
    assert again.step()["epsilon"] == 0.4
    with pytest.raises(LabError, match="nearest: alpha"):
        experiment.adjust("alfa", 0.1)


def test_a_run_killed_and_resumed_is_one_never_killed(tmp_path: Path) -> None:
    record = Record(evaluate_every=2, frame_every=4, checkpoint_every=5)
    scenario = made(record, games=6000, games_per_step=100, seeds=2)

    def life(root: Path) -> RunDirectory:
        return RunDirectory(prepare(LoadedScenario(scenario, "tictactoe", "a test"), root=root))

    whole, killed = life(tmp_path / "whole"), life(tmp_path / "killed")
    assert execute(whole).status == "done"
    pid = os.fork()
    if not pid:

        def die(row: dict[str, Any]) -> None:
            if row["event"] == "metrics" and row["step"] == 33:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            execute(killed, observer=die)
        finally:
            os._exit(4)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert checkpoints.newest(killed) == 30
    assert RunInfo.load(killed).status == "running"
    assert execute(killed).status == "done"

    def told(run: RunDirectory) -> dict[int, dict[str, float]]:
        found: dict[int, dict[str, float]] = {}
        for row in read_rows(run.events)[0]:
            if row["event"] == "metrics":
                found.setdefault(row["step"], {}).update(row["values"])
        return found

    assert told(whole) == told(killed)
    states = [checkpoints.load(run, 60) for run in (whole, killed)]
    assert alike(*states)
    frames = [FrameIndex(run.frames) for run in (whole, killed)]
    for index in frames:
        index.refresh()
    last = [index.read(60) for index in frames]
    assert np.array_equal(last[0].tensors["values"], last[1].tensors["values"])
    assert np.array_equal(player_of(last[0]).kept, player_of(states[1]).kept)


def test_a_scenario_says_what_is_wrong_with_it() -> None:
    for wrong, why in [
        (lambda: LearnSection(rule="sarsa", exploring=True), "sarsa learns of every move anyway"),
        (lambda: LearnSection(alpha=2.0), "less than or equal to 1"),
        (lambda: SelfPlayScenario(probe=PositionsSection(positions=["XX./.../..."])), "cannot come up"),
        (lambda: SelfPlayScenario(probe=PositionsSection(positions=["XXX/OO./..."])), "no move to show"),
    ]:
        with pytest.raises(ValueError, match=why):
            wrong()
    scenario = made()
    gpu = scenario.model_copy(update={"compute": scenario.compute.model_copy(update={"device": "cuda"})})
    with pytest.raises(LabError, match="computed on the CPU"):
        resolve(gpu)
    assert kind_named("self-play").schema is SelfPlayScenario
    assert resolve(scenario).compute.device == "cpu"
    assert [name for name, _ in scenario.outline()] == ["Game", "Learner", "Training"]


def test_a_training_that_is_looked_at_learns_what_the_run_learns() -> None:
    training, run = Training(seed=3), build(made())
    said: list[int] = []
    assert training.run(500, say=said.append)
    while run.step_count < run.steps:
        run.step()
    assert np.array_equal(training.learner.values(), run.population.values())
    assert said == sorted(said)
    assert said[-1] == training.games == training.curve[-1].games == 500
    games = [point.games for point in training.curve]
    assert games[0] == 0
    assert games == sorted(set(games))
    assert len(games) < 60
    last = training.curve[-1]
    assert (last.random_first, last.random_second) == both_seats(GRAPH, training.player().policy(), RANDOM)
    assert (last.perfect_first, last.perfect_second) == both_seats(GRAPH, training.player().policy(), PERFECT)


def test_a_training_stops_and_continues_on_request() -> None:
    training = Training(seed=3)
    asked = iter([False, False, True])
    assert training.run(100_000, late=lambda: next(asked)) is False
    assert 0 < training.games < 1000
    stopped = training.games
    player = training.player()
    assert training.run(1000 - stopped)
    assert training.games == 1000
    assert player.name.endswith(f"{stopped} games")  # it is what it was
    whole = Training(seed=3)
    whole.run(1000)
    assert np.array_equal(whole.learner.values(), training.learner.values())
    assert training.explain(tictactoe.start(), 4).math == "G1"


@pytest.mark.parametrize("rule", ["td", "q-learning"])
def test_a_move_in_a_frame_is_explained_by_the_table_in_the_mover_s_view(rule: str) -> None:
    experiment = build(made(rule=rule))
    experiment.step()
    frame = experiment.frame()
    openings, shown = np.asarray(frame.tensors["openings"]), np.asarray(frame.tensors["shown"])
    why = KIND.explain_frame(frame, "openings", (4,))
    assert np.float32(why.result) == openings[4]
    assert why.steps[0].result == why.result  # X moves, and the table is shown from X's view
    assert why.meaning[1].result == "a draw with best play"
    assert tictactoe.mover(tictactoe.read(frame.tokens["shown"][0])) < 0
    move = int(np.flatnonzero(~np.isnan(shown[0]))[0])
    why = KIND.explain_frame(frame, "shown", (0, move))
    assert np.float32(why.result) == shown[0, move]
    assert why.steps[0].result == -why.result
    assert why.asked is not None
    assert why.labels[why.asked] == tictactoe.MOVES[move]
    with pytest.raises(LabError, match="no move"):
        KIND.explain_frame(frame, "shown", (0, int(np.flatnonzero(np.isnan(shown[0]))[0])))
    with pytest.raises(LabError, match="no explanation"):
        KIND.explain_frame(frame, "values", (0,))


def test_every_metric_that_is_judged_is_explained_by_its_own_number() -> None:
    experiment = build(made(decay=0.99))
    values = dict(experiment.step()) | dict(experiment.evaluate())
    scenario = experiment.scenario.model_dump(mode="json")
    for name in (
        "won_first",
        "drawn_second",
        "lost_first",
        "lost_to_perfect_first",
        "lost_to_perfect_second",
        "epsilon",
    ):
        why = explain_metric(scenario, name, 1, values)
        assert why is not None
        assert why.result == values[name]
        assert not any("changed" in operand.note for operand in why.operands)
    why = explain_metric(scenario, "won_second", 1, values)
    assert why is not None
    told = {step.name: step.result for step in why.meaning}
    assert told["all"] == pytest.approx(1)
    assert (round(float(told["perfect"]), 6), round(float(told["best"]), 6)) == (0.777484, 0.934392)  # type: ignore[arg-type]
    assert explain_metric(scenario, "self_won", 1, values).result == values["self_won"]
    assert explain_metric(scenario, "no_such_metric", 1, values) is None


@pytest.mark.parametrize("seeds", [1, 40])
def test_a_checkpoint_before_the_first_game_is_one_too(tmp_path: Path, seeds: int) -> None:
    scenario = made(seeds=seeds, rule="td-lambda")
    run = RunDirectory(prepare(LoadedScenario(scenario, "tictactoe", "a test"), root=tmp_path))
    before = build(scenario)
    checkpoints.save(run, 0, before.state_dict())
    after = build(scenario)
    after.load_state_dict(checkpoints.load(run, 0))
    assert after.step() == before.step()
    assert alike(before.state_dict(), after.state_dict())


@pytest.mark.parametrize(
    "learn", [{"games_per_step": 1_000_001}, {"games_per_step": 1_000_000, "seeds": 11}, {"games": 0}, {"seeds": 5000}]
)
def test_a_step_that_would_not_end_soon_is_refused(learn: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(learn))):
        SelfPlayScenario.model_validate({"learn": learn})
