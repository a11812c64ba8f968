"""The kind prediction: what its steps record, that it is put back exactly, and what it refuses (MATH M3, M4)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from txlab.engine.rl.prediction import METHODS
from txlab.engine.rl.rollouts import Rollouts
from txlab.errors import LabError
from txlab.experiments.kind import explain_metric, kind_named, kind_of_run
from txlab.experiments.kinds.prediction import KIND
from txlab.experiments.kinds.prediction.episodes import EpisodeExperiment, seeds_of
from txlab.experiments.kinds.prediction.schema import PredictionScenario
from txlab.experiments.kinds.prediction.transitions import TransitionExperiment
from txlab.experiments.protocol import Experiment
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.frames import FrameIndex
from txlab.runs.process import execute, prepare
from txlab.runs.reader import RunReader
from txlab.runs.scenario import LoadedScenario, dump_scenario, load_scenario

build, explain_frame, resolve = KIND.build, KIND.explain_frame, KIND.resolve


SHIPPED = ["random-walk", "random-walk-19", "td-lambda", "td-network", "baird", "random-walk-n-step"]

GRID: dict[str, Any] = {
    "world": {"name": "walk-5"},
    "predict": {
        "methods": ["accumulating", "monte-carlo", "offline-lambda-return"],
        "lam": [0.0, 0.5, 1.0],
        "alpha": [0.05, 0.1, 0.2, 0.4, 0.8],
        "runs": 6,
        "episodes": 7,
        "initial": 0.5,
    },
}
CURVES: dict[str, Any] = {
    "world": {"name": "walk-5"},
    "predict": {"runs": 4, "episodes": 6, "features": "radial", "size": 4, "hidden": 3, "score": "last"},
    "curves": [
        {"method": "network", "lam": 0.5, "alpha": 0.05},
        {"method": "true-online", "lam": 0.5, "alpha": 0.1, "label": "true"},
        {"method": "td-0", "alpha": 0.1},
    ],
}
WATCHED: dict[str, Any] = {
    "world": {"name": "walk-5"},
    "predict": {"watch": True, "episodes": 60, "initial": 0.5},
    "curves": [
        {"method": "accumulating", "lam": 0.8, "alpha": 0.2, "label": "piled"},
        {"method": "true-online", "lam": 0.8, "alpha": 0.2},
        {"method": "td-0", "alpha": 0.1},
    ],
}
BAIRD: dict[str, Any] = {
    "world": {"name": "baird"},
    "predict": {"episodes": 40},
    "curves": [{"method": method, "alpha": 0.01} for method in ("semi-gradient-dp", "semi-gradient-td", "tdc", "gtd2")],
}
ALL = {"grid": GRID, "curves": CURVES, "watched": WATCHED, "baird": BAIRD}


def scenario(sections: dict[str, Any], **predict: Any) -> PredictionScenario:
    return PredictionScenario.model_validate({**sections, "predict": {**sections["predict"], **predict}})


def recorded(experiment: Experiment, steps: int) -> list[dict[str, float]]:
    return [{name: float(value) for name, value in experiment.step().items()} for _ in range(steps)]


# What is learnt


def test_scores_are_the_mean_error_of_the_plain_functions() -> None:
    """Every cell of the grid, learnt again one run and one setting at a time."""
    experiment = build(scenario(GRID))
    assert isinstance(experiment, EpisodeExperiment)
    recorded(experiment, 7)
    frame = experiment.frame()
    score, error = np.asarray(frame.tensors["sweep/score"]), np.asarray(frame.tensors["sweep/error"])
    rollouts = Rollouts(experiment.process, seeds_of(1, 6))
    lived = [rollouts.episodes() for _ in range(7)]
    features, true = experiment.features, np.array([0, 1, 2, 3, 4, 5, 0]) / 6
    for m, method in enumerate(GRID["predict"]["methods"]):
        for i, lam in enumerate(GRID["predict"]["lam"]):
            for j, alpha in enumerate(GRID["predict"]["alpha"]):
                errors = np.zeros(6)
                for run in range(6):
                    w = np.full(7, 0.5)
                    for episodes in lived:
                        w = METHODS[method].rule(w, features, episodes.of(run), alpha, lam, 1.0)
                        errors[run] += np.sqrt(np.mean((w - true)[1:6] ** 2)) / 7
                assert score[m, i, j] == pytest.approx(errors.mean(), rel=1e-12)
                assert error[m, i, j] == pytest.approx(errors.std(ddof=1) / np.sqrt(6), rel=1e-9)
    assert frame.facts["sweep"] == {
        "axes": [
            [name, GRID["predict"][key]] for name, key in (("method", "methods"), ("lam", "lam"), ("alpha", "alpha"))
        ],
        "score": "RMS error",
        "better": "low",
    }


def test_a_grid_of_n_steps_has_n_where_others_have_lambda() -> None:
    predict = {**GRID["predict"], "methods": ["n-step-td", "td-0"], "n": [1, 4], "alpha": [0.2, 0.4]}
    experiment = build(PredictionScenario.model_validate({**GRID, "predict": predict}))
    for _ in range(3):
        values = experiment.step()
    frame = experiment.frame()
    assert frame.facts["sweep"]["axes"] == [["method", ["n-step-td", "td-0"]], ["n", [1, 4]], ["alpha", [0.2, 0.4]]]
    score = np.asarray(frame.tensors["sweep/score"])
    assert score[0, 0] == pytest.approx(score[1, 0], rel=1e-12)  # n = 1 is TD(0)
    assert score[1, 0].tolist() == score[1, 1].tolist()
    told = explain_metric(experiment.scenario.model_dump(), "rms/n-step-td n=4 α=0.2", 3, values)
    assert told is not None
    assert {each.name: each.value for each in told.operands}["n"] == 4
    side = [each["label"] for each in frame.facts["sides"]].index("n-step-td n=4 α=0.2")
    assert {each.name: each.value for each in explain_frame(frame, f"{side}/v", (3,)).operands}["n"] == 4
    predict["methods"] = ["n-step-td", "accumulating"]
    with pytest.raises(ValidationError, match="a grid has one of them"):
        PredictionScenario.model_validate({**GRID, "predict": predict})


def test_a_large_grid_draws_the_best_of_each_method() -> None:
    experiment = build(scenario(GRID))
    last = recorded(experiment, 7)[-1]
    frame = experiment.frame()
    scores = np.asarray(frame.tensors["sweep/score"])
    for i, (method, side) in enumerate(zip(GRID["predict"]["methods"], frame.facts["sides"], strict=True)):
        assert last[f"score/{method}"] == scores[i].min()
        lam, alpha = GRID["predict"]["lam"].index(side["lam"]), GRID["predict"]["alpha"].index(side["alpha"])
        assert scores[i, lam, alpha] == scores[i].min()
        assert f"rms/{method}" in last


def test_curves_show_their_own_settings_with_a_standard_error() -> None:
    experiment = build(scenario(CURVES))
    assert isinstance(experiment, EpisodeExperiment)
    last = recorded(experiment, 6)[-1]
    assert {name for name in last if name.startswith("rms/")} == {
        "rms/network λ=0.5 α=0.05",
        "rms/true",
        "rms/td-0 α=0.1",
    }
    errors = experiment.error["true-online"][:, 0]
    assert last["rms/true"] == pytest.approx(errors.mean())
    assert last["rms_high/true"] - last["rms/true"] == pytest.approx(errors.std(ddof=1) / 2)
    frame = experiment.frame()
    values = experiment.sweeps["true-online"].values()[:, 1:6, 0]
    assert np.asarray(frame.tensors["1/v"])[1:6] == pytest.approx(values.mean(axis=0), rel=1e-5)
    assert np.asarray(frame.tensors["1/spread"])[1:6] == pytest.approx(values.std(axis=0), rel=1e-5)
    assert np.asarray(frame.tensors["true/v"]) == pytest.approx(np.array([0, 1, 2, 3, 4, 5, 0]) / 6)
    assert "sweep/score" not in frame.tensors


def test_values_that_run_away_are_recorded_as_infinite_and_end_no_run(tmp_path: Path) -> None:
    wild = scenario(GRID, methods=["accumulating"], alpha=[100.0, 0.1], lam=[1.0], runs=2, episodes=60)
    run = RunDirectory(prepare(LoadedScenario(wild, "wild", "a test"), root=tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing of this is printed on the terminal
        assert execute(run).status == "done"
    reader = RunReader(run.path)
    reader.catch_up()
    assert reader.series("rms/accumulating λ=1 α=100").values[-1] == inf
    assert reader.series("rms/accumulating λ=1 α=0.1").values[-1] < 1
    frames = FrameIndex(run.frames)
    frames.refresh()
    score = frames.read(60).tensors["sweep/score"]
    assert score.shape == (1, 1, 2)
    assert score[0, 0, 0] == inf


def test_a_watched_run_is_the_plain_rule_step_by_step() -> None:
    experiment = build(scenario(WATCHED))
    assert isinstance(experiment, TransitionExperiment)
    rollouts = Rollouts(experiment.process, seeds_of(1, 1))
    w = [np.full(7, 0.5) for _ in range(3)]
    settings = [("accumulating", 0.2, 0.8), ("true-online", 0.2, 0.8), ("td-0", 0.1, 0.0)]
    made = 0
    while made < 50:
        episode = rollouts.episodes().of(0)
        recorded(experiment, len(episode.rewards))
        made += len(episode.rewards)
        for i, (method, alpha, lam) in enumerate(settings):
            w[i] = METHODS[method].rule(w[i], experiment.features, episode, alpha, lam, 1.0)
            assert np.array_equal(experiment.learners[i].weights, w[i])
    assert experiment.number >= 2


def test_the_numbers_under_the_letters_make_the_value() -> None:
    experiment = build(scenario(WATCHED))
    for _ in range(40):
        before = experiment.frame()
        experiment.step()
        frame = experiment.frame()
        for i, last in enumerate(frame.facts["last"]):
            terms = last["terms"]
            after, written = terms[0][1], terms[2:]
            text = "".join(
                {"[": "*(", "]": ")*", "(": "*(", ")": ")*", "·": "*", "−": "-"}.get(letters, letters)
                if value is None
                else repr(value)
                for letters, value in written
            )
            # In true on-line TD(λ) the last bracket has nothing behind it.
            assert eval(text.removesuffix("*")) == pytest.approx(after, rel=1e-12, abs=1e-13)
            state = last["state"]
            assert np.asarray(frame.tensors[f"{i}/v"])[state] == np.float32(after)
            assert np.asarray(before.tensors[f"{i}/v"])[state] == np.float32(terms[2][1])


def test_baird_runs_away_as_derived_and_the_cures_do_not() -> None:
    experiment = build(scenario(BAIRD, episodes=1000))
    last = recorded(experiment, 1000)[-1]
    label = "semi-gradient-dp α=0.01"
    assert [last[f"{w}/{label}"] for w in ("w1", "w7", "w8")] == pytest.approx([114.4, 6.9, 335.0], abs=0.06)
    assert last["rms/semi-gradient-td α=0.01"] > 100
    assert last["rms/tdc α=0.01"] < 5
    assert last["projected/gtd2 α=0.01"] < 0.1


# Being put back


@pytest.mark.parametrize("name", list(ALL))
def test_a_restored_experiment_continues_bit_for_bit(name: str) -> None:
    made = scenario(ALL[name])
    straight = build(made)
    many = 3 if name in ("grid", "curves") else 20  # of the watched run: more than an episode
    recorded(straight, many)
    state = straight.state_dict()
    after = recorded(straight, many)
    again = build(made)
    again.load_state_dict(state)
    assert recorded(again, many) == after
    one, other = straight.frame(), again.frame()
    assert one.facts == other.facts
    for tensor, value in one.tensors.items():
        assert np.array_equal(value, other.tensors[tensor], equal_nan=True), tensor


@pytest.mark.parametrize("name", list(ALL))
def test_a_killed_run_resumes_to_what_it_would_have_been(name: str, tmp_path: Path) -> None:
    """kill −9 at step 3, with a checkpoint of step 2."""
    record = {"checkpoint_every": 2, "frame_every": 1}
    made = PredictionScenario.model_validate({**scenario(ALL[name], episodes=6).model_dump(), "record": record})

    def fresh(folder: str) -> RunDirectory:
        return RunDirectory(prepare(LoadedScenario(made, "prediction", "a test"), root=tmp_path / folder))

    def rows(run: RunDirectory) -> dict[str, list[float]]:
        reader = RunReader(run.path)
        reader.catch_up()
        names = [each for each in reader.names() if "/" in each]
        return {each: [float(value) for value in reader.series(each).values] for each in names}

    plain, killed = fresh("plain"), fresh("killed")
    execute(plain)

    def observe(row: dict[str, Any]) -> None:
        if row["event"] == "metrics" and row["step"] == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if not pid:
        execute(killed, observer=observe)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    assert checkpoints.newest(killed) == 2
    assert execute(killed).status == "done"
    assert rows(killed) == rows(plain)


def test_a_checkpoint_of_another_scenario_is_refused() -> None:
    for name, other in (("grid", {"runs": 3}), ("curves", {"runs": 3})):
        state = build(scenario(ALL[name])).state_dict()
        with pytest.raises(LabError, match="does not fit"):
            build(scenario(ALL[name], **other)).load_state_dict(state)
    with pytest.raises(LabError, match="does not fit"):
        build(scenario(WATCHED)).load_state_dict(
            build(scenario({**WATCHED, "curves": WATCHED["curves"][:2]})).state_dict()
        )


# What a user may change, and may not say


def test_alpha_of_a_watched_rule_can_be_turned_and_is_kept() -> None:
    made = scenario(WATCHED)
    experiment = build(made)
    assert experiment.adjustable()["alpha/piled"].value == 0.2
    assert "lam/td-0 α=0.1" not in experiment.adjustable()
    experiment.adjust("alpha/piled", 0.5)
    experiment.adjust("lam/piled", 0.1)
    assert experiment.frame().facts["sides"][0] | {"alpha": 0.5, "lam": 0.1} == experiment.frame().facts["sides"][0]
    again = build(made)
    again.load_state_dict(experiment.state_dict())
    assert recorded(again, 20) == recorded(experiment, 20)
    with pytest.raises(LabError, match="nearest: alpha/piled"):
        experiment.adjust("alpha/pile", 1.0)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"predict": {}}, "there is none"),
        ({"predict": {"methods": ["accumulated"]}}, "accumulating"),
        ({"predict": {"methods": ["td-0"], "alpha": [0.1, 0.1]}}, "twice"),
        ({"predict": {"methods": ["td-0"], "lam": [1.5]}}, "less than or equal to 1"),
        ({"curves": [{"method": "td-0"}, {"method": "td-0"}]}, "occurs twice"),
        ({"predict": {"methods": ["td-0", "tdc"]}}, "td-0 cannot be combined with"),
        ({"predict": {"methods": ["tdc"]}}, "runs in world.name = 'baird'"),
        ({"world": {"name": "baird"}, "predict": {"methods": ["td-0"]}}, "no episodes"),
        ({"predict": {"methods": ["monte-carlo"], "watch": True}}, "does not learn at every step"),
    ],
)
def test_an_impossible_lesson_is_refused_with_an_error(sections: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        PredictionScenario.model_validate(sections)


@pytest.mark.parametrize(
    ("predict", "words"),
    [
        ({"runs": 100_000, "lam": [0.1 * k for k in range(11)], "alpha": [0.01 * k for k in range(101)]}, "GB"),
        ({"features": "aggregated", "size": 50}, "more than the 7 states"),
        ({"features": "radial", "methods": ["replacing"]}, "zeros and ones"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_made(predict: dict[str, Any], words: str) -> None:
    with pytest.raises(LabError, match=words):
        build(scenario(GRID, **predict))


def test_a_device_that_is_not_used_is_refused() -> None:
    with pytest.raises(LabError, match="allowed: auto, cpu"):
        resolve(PredictionScenario.model_validate({**GRID, "compute": {"device": "cuda"}}))


# Looking


def test_metrics_are_explained_by_what_they_are_made_of() -> None:
    made = resolve(scenario(CURVES))
    values = recorded(build(made), 6)[-1]
    answer = explain_metric(made.model_dump(), "rms/true", 6, values)
    assert answer is not None
    assert answer.result == values["rms/true"]
    before = next(step for step in answer.meaning if step.name == "before")
    assert before.result == pytest.approx(np.sqrt(np.mean((np.arange(1, 6) / 6) ** 2)))
    error = next(step for step in answer.meaning if step.name == "standard error")
    assert error.result == pytest.approx(values["rms_high/true"] - values["rms/true"])
    wild = explain_metric(made.model_dump(), "rms/true", 6, {"rms/true": inf})
    assert wild is not None
    assert "run away" in wild.steps[-1].expression
    grid = resolve(scenario(GRID))
    values = recorded(build(grid), 2)[-1]
    score = explain_metric(grid.model_dump(), "score/accumulating", 2, values)
    assert score is not None
    assert score.result == values["score/accumulating"]
    assert explain_metric(made.model_dump(), "memory_mb", 6, {"memory_mb": 3.0}).result == 3.0
    assert explain_metric(made.model_dump(), "no_such_metric", 6, {"no_such_metric": 3.0}) is None


def test_a_value_is_explained_by_its_last_update_or_against_the_true_one() -> None:
    experiment = build(scenario(WATCHED))
    recorded(experiment, 30)
    frame = experiment.frame()
    for i in range(3):
        state = frame.facts["last"][i]["state"]
        answer = explain_frame(frame, f"{i}/v", (state,))
        assert np.float32(answer.result) == np.asarray(frame.tensors[f"{i}/v"])[state]
        assert answer.steps[0].result == frame.facts["last"][i]["delta"]
        other = 1 if state != 1 else 2
        beside = explain_frame(frame, f"{i}/v", (other,))
        assert beside.meaning[0].result == pytest.approx(beside.result - other / 6)
    assert explain_frame(frame, "0/trace", (3,)).steps[0].result == pytest.approx(0.8)
    with pytest.raises(LabError, match="no explanation"):
        explain_frame(frame, "true/v", (3,))


def test_the_door_of_all_answers_knows_a_prediction_from_the_best_choice() -> None:
    experiment = build(scenario(WATCHED))
    recorded(experiment, 30)
    frame = experiment.frame()
    state = frame.facts["last"][0]["state"]
    explain = kind_of_run("prediction").explain_frame
    assert explain(frame, "0/v", (state,)) == explain_frame(frame, "0/v", (state,))
    assert explain(frame, "0/v", (state,)).math == "M4"  # not the Bellman equation with a maximum
    assert explain(frame, "0/trace", (state,)) == explain_frame(frame, "0/trace", (state,))


def test_the_error_of_a_step_and_both_errors_of_the_counterexample_are_explained() -> None:
    watched = scenario(WATCHED)
    values = recorded(build(watched), 5)[-1]
    name = next(name for name in values if name.startswith("delta/"))
    answer = explain_metric(watched.model_dump(), name, 5, values)
    assert answer is not None
    assert answer.result == values[name]
    assert answer.meaning[0].result == pytest.approx(watched.curves_to_draw()[0].alpha * values[name])
    baird = load_scenario("baird").scenario
    assert isinstance(baird, PredictionScenario)
    values = recorded(build(baird), 5)[-1]
    for name in values:
        what, _, label = name.partition("/")
        answer = explain_metric(baird.model_dump(), name, 5, values)
        assert answer is not None
        assert answer.result == values[name]
        if what in ("rms", "projected"):
            beside = "projected" if what == "rms" else "rms"
            assert answer.meaning[0].result == values[f"{beside}/{label}"]


def test_one_run_has_no_standard_error() -> None:
    experiment = build(scenario(GRID, runs=1))
    values = recorded(experiment, 2)[-1]
    assert not any(name.startswith("rms_low") for name in values)
    assert isnan(np.asarray(experiment.frame().tensors["sweep/error"])[0, 0, 0])


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenarios_are_what_the_schema_reads_and_begin(name: str) -> None:
    loaded = load_scenario(name).scenario
    assert isinstance(loaded, PredictionScenario)
    assert loaded.outline()
    assert loaded.length() == loaded.predict.episodes
    small = ["predict.runs=2", "predict.episodes=2"]
    begun = load_scenario(name, overrides=small).scenario
    experiment = kind_named("prediction").build(begun)
    assert experiment.step()
    assert set(experiment.facts()["headline"]) <= set(experiment.step())
    assert all("auto" not in line for line in dump_scenario(kind_named("prediction").resolve(begun)).splitlines())


def test_torch_is_imported_for_networks_alone() -> None:
    program = (
        "import sys; from txlab.runs.scenario import load_scenario; from txlab.experiments.kind import kind_named;"
        "e = kind_named('prediction').build(load_scenario('random-walk', ['predict.runs=2']).scenario); e.step();"
        "e.frame(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
