"""The kind "control": what it reports of many runs, sweeps and frames; a killed run is the run that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from txlab.engine.rl.settings import Settings
from txlab.engine.rl.sweeps.sweep import Sweep
from txlab.engine.rl.world import World
from txlab.engine.rl.worlds import world_named
from txlab.errors import LabError
from txlab.experiments.kind import explain_metric
from txlab.experiments.kinds.mdp_control import KIND, ControlExperiment, ControlScenario
from txlab.experiments.reference_numbers import rl_control as reference
from txlab.experiments.tabular.bands import band, growing
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.frames import FrameIndex
from txlab.runs.process import execute, prepare
from txlab.runs.reader import RunReader
from txlab.runs.scenario import LoadedScenario, dump_scenario, load_scenario

build, resolve = KIND.build, KIND.resolve


SCENARIOS = [
    "cliff",
    "cliff-alpha",
    "windy",
    "windy-king",
    "maximisation-bias",
    "frozen-lake",
    "taxi",
    "reinforce",
    "four-rooms",
    "dyna-maze",
    "windy-n-step",
    "blackjack",
]


def scenario(**changes: Any) -> ControlScenario:
    """A few runs of two learners on the cliff; `changes` are merged into its sections."""
    sections: dict[str, Any] = {
        "world": {"name": "cliff"},
        "learners": [{"rule": "sarsa"}, {"rule": "q-learning", "alpha": 0.25, "decay": 0.9}],
        "control": {"runs": 4, "episodes": 12, "sync_every": 5, "score": 3},
    }
    for name, section in changes.items():
        old = sections.get(name, {})
        sections[name] = {**old, **section} if isinstance(section, dict) and "name" not in section else section
    return ControlScenario.model_validate(sections)


SWEPT = {"alpha": [0.2, 0.6, 1.0], "epsilon": [0.1, 0.3]}


def ran(experiment: ControlExperiment, until: int | None = None) -> list[dict[str, float]]:
    found = []
    while experiment.step_count < (until or experiment.steps):
        found.append(dict(experiment.step()))
    return found


# What is reported


def test_a_metric_is_the_mean_of_the_runs_with_one_standard_error() -> None:
    experiment = build(scenario())
    said = ran(experiment)
    sweep = Sweep(world_named("cliff").process, [Settings(rule="sarsa")] * 4, experiment.seeds)
    returns, lengths = sweep.run_episodes(12)
    error = returns.std(axis=0, ddof=1) / 2
    assert [row["return/sarsa"] for row in said] == pytest.approx(list(returns.mean(axis=0)))
    assert [row["return_low/sarsa"] for row in said] == pytest.approx(list(returns.mean(axis=0) - error))
    assert [row["return_high/sarsa"] for row in said] == pytest.approx(list(returns.mean(axis=0) + error))
    assert [row["length/sarsa"] for row in said] == pytest.approx(list(lengths.mean(axis=0)))
    assert experiment.evaluate().keys() == {"greedy/sarsa", "greedy/q-learning"}


@pytest.mark.parametrize("control", [{}, SWEPT])
def test_how_far_runs_may_be_ahead_of_one_another_changes_nothing(control: dict[str, Any]) -> None:
    waiting, ahead = (build(scenario(control={"sync_every": n, **control})) for n in (1, 12))
    assert ran(waiting) == ran(ahead)
    assert np.array_equal(waiting.frame().tensors["0/q"], ahead.frame().tensors["0/q"], equal_nan=True)


def test_the_share_that_goes_left_is_the_share_of_episodes_of_two_steps() -> None:
    changes: dict[str, Any] = {"world": {"name": "bias"}, "control": {"runs": 300, "episodes": 20}}
    said = ran(build(scenario(**changes)))
    assert all(row["left/q-learning"] == pytest.approx(row["length/q-learning"] - 1) for row in said)
    assert said[0]["left/q-learning"] < 0.6
    assert said[-1]["left/q-learning"] > 0.7


def test_a_frame_shows_the_mean_of_the_tables_and_where_it_leads() -> None:
    experiment = build(scenario(control={"runs": 20, "episodes": 200, "sync_every": 50}))
    ran(experiment)
    frame = experiment.frame()
    tables = experiment.sweep.q(np.arange(20, 40))
    assert np.allclose(frame.tensors["1/q"], tables.mean(axis=0), equal_nan=True)
    live = ~experiment.process.terminal
    assert np.allclose(np.asarray(frame.tensors["1/v"])[live], np.nanmax(tables.mean(axis=0)[live], axis=1))
    assert np.allclose(np.asarray(frame.tensors["1/policy"])[live].sum(axis=1), 1)
    assert len(np.asarray(frame.tensors["1/path"])) == 14
    assert experiment.evaluate()["greedy/q-learning"] == -13
    assert [side["rule"] for side in frame.facts["sides"]] == ["sarsa", "q-learning"]
    assert frame.facts["sides"][1]["epsilon"] == pytest.approx(0.1 * 0.9**200)
    assert frame.facts["episodes"] == [200, 200]
    assert frame.facts["table"] == "mean of 20 runs"
    assert frame.facts["world"]["name"] == "cliff"


def test_a_frame_says_of_which_episode_it_is_where_runs_are_ahead() -> None:
    experiment = build(scenario())
    ran(experiment, 6)
    assert (experiment.frame().step, experiment.frame().facts["episodes"]) == (6, [10, 10])


def test_looking_changes_nothing() -> None:
    watched, alone = build(scenario()), build(scenario())
    for _ in range(12):
        watched.frame()
        watched.evaluate()
        assert watched.step() == alone.step()


def test_a_greedy_walk_in_circles_is_cut_off_after_as_many_steps_as_there_are_pairs() -> None:
    experiment = build(scenario())
    for _, block in experiment.sweep.blocks:
        block.table["q"][0] = 1.0  # up, against the wall
    assert experiment.evaluate()["greedy/sarsa"] == -experiment.process.size * 4


# Sweeps


def test_a_sweep_scores_every_setting_by_its_own_runs() -> None:
    experiment = build(scenario(control=SWEPT))
    said = ran(experiment)
    frame = experiment.frame()
    score, error = (np.asarray(frame.tensors[f"sweep/{name}"]) for name in ("score", "error"))
    assert frame.facts["sweep"] == {
        "axes": [["learner", ["sarsa", "q-learning"]], ["alpha", [0.2, 0.6, 1.0]], ["epsilon", [0.1, 0.3]]],
        "score": "mean return of the last 3 episodes",
        "better": "high",
    }
    assert score.shape == error.shape == (2, 3, 2)
    told = Settings(rule="q-learning", decay=0.9, alpha=0.6, epsilon=0.3)
    returns, _ = Sweep(experiment.process, [told] * 4, experiment.seeds).run_episodes(12)
    last = returns[:, -3:].mean(axis=1)
    assert score[1, 1, 1] == pytest.approx(last.mean())
    assert error[1, 1, 1] == pytest.approx(last.std(ddof=1) / 2)
    # Captions and pictures of a learner are of its best setting.
    best = np.unravel_index(score[0].argmax(), score[0].shape)
    side = frame.facts["sides"][0]
    assert (side["alpha"], side["epsilon"]) == (SWEPT["alpha"][best[0]], SWEPT["epsilon"][best[1]])
    assert np.isfinite([said[-1][f"return/{label}"] for label in ("sarsa", "q-learning")]).all()


def test_a_sweep_is_drawn_before_its_first_step() -> None:
    frame = build(scenario(control=SWEPT)).frame()
    assert np.isnan(np.asarray(frame.tensors["sweep/score"])).all()


# REINFORCE


def test_preferences_begin_as_the_scenario_says_and_have_no_greedy_walk() -> None:
    learners = [
        {"rule": "reinforce", "alpha": 0.001, "preferences": [1.0, -1.0]},
        {"rule": "reinforce-baseline", "alpha": 0.001},
    ]
    experiment = build(scenario(world={"name": "corridor", "limit": 200}, learners=learners))
    frame = experiment.frame()
    right = 1 / (1 + np.exp(2))
    assert np.allclose(np.asarray(frame.tensors["0/policy"])[:3, 1], right)
    assert np.allclose(np.asarray(frame.tensors["1/policy"])[:3], 0.5)
    ran(experiment)
    assert np.asarray(experiment.frame().tensors["0/policy"])[0, 1] > right
    assert experiment.evaluate() == {}


# Being put back


@pytest.mark.parametrize("rule", ["sarsa", "double-q", "watkins-q-lambda", "reinforce"])
def test_a_restored_experiment_continues_bit_for_bit(rule: str) -> None:
    table = {"learners": [{"rule": rule, "alpha": 0.01}], "world": {"name": "frozen-lake"}}
    made = scenario(**table, control={"alpha": [0.1, 0.01]})
    experiment, again = build(made), build(made)
    ran(experiment, 7)  # in the middle of what was learnt ahead
    again.load_state_dict(experiment.state_dict())
    assert ran(again) == ran(experiment)
    assert again.evaluate() == experiment.evaluate()
    assert np.array_equal(again.sweep.q(), experiment.sweep.q(), equal_nan=True)
    with pytest.raises(LabError, match="not"):
        build(scenario(**table, control={"runs": 3})).load_state_dict(experiment.state_dict())


def test_a_killed_run_resumes_to_what_it_would_have_been(tmp_path: Path) -> None:
    """kill −9 at step 8, with a checkpoint of step 7, in the middle of what was learnt ahead."""
    record = {"checkpoint_every": 7, "frame_every": 2, "evaluate_every": 4}
    made = ControlScenario.model_validate({**scenario(control=SWEPT).model_dump(), "record": record})

    def fresh(folder: str) -> RunDirectory:
        return RunDirectory(prepare(LoadedScenario(made, "control", "a test"), root=tmp_path / folder))

    def rows(run: RunDirectory) -> dict[str, list[float]]:
        reader = RunReader(run.path)
        reader.catch_up()
        names = [each for each in reader.names() if "/" in each]
        assert "greedy/sarsa" in names
        return {each: [float(value) for value in reader.series(each).values] for each in names}

    plain, killed = fresh("plain"), fresh("killed")
    assert execute(plain).status == "done"

    def observe(row: dict[str, Any]) -> None:
        if row["event"] == "metrics" and row["step"] == 8:
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if not pid:
        execute(killed, observer=observe)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    assert checkpoints.newest(killed) == 7
    assert execute(killed).status == "done"
    assert rows(killed) == rows(plain)
    shown = []
    for run in (plain, killed):
        index = FrameIndex(run.frames)
        index.refresh()
        shown.append({int(step): index.read(int(step)) for step in index.steps})
    assert shown[0].keys() == shown[1].keys()
    for step, frame in shown[0].items():
        for name, tensor in frame.tensors.items():
            assert np.array_equal(np.asarray(tensor), np.asarray(shown[1][step].tensors[name]), equal_nan=True), name


def test_torch_on_the_cpu_is_not_asked_for_and_not_imported() -> None:
    code = (
        "import sys\nfrom txlab.experiments.kinds.mdp_control import KIND\n"
        "from txlab.runs.scenario import load_scenario\n"
        "x = KIND.build(load_scenario('cliff', ['control.runs=2']).scenario)\n"
        "x.step(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# What may not be said


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"learners": [{"rule": "sarsa"}, {"rule": "sarsa"}]}, "different labels"),
        ({"learners": []}, "at least 1"),
        ({"learners": [{"rule": "td-lambda"}]}, "td-lambda does not steer"),
        ({"learners": [{"preferences": [1.0, 2.0]}]}, "preferences are of reinforce"),
        ({"control": {"alpha": [0.1, 0.1]}}, "must not name a value twice"),
        ({"control": {"alpha": [0.0]}}, "greater than 0"),
        ({"control": {"runs": 100_000, "alpha": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}}, "at most 1 000 000"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_made(sections: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        scenario(**sections)


def test_what_only_the_world_can_tell_is_refused_when_it_is_made() -> None:
    learner = {"rule": "reinforce", "preferences": [1.0, 2.0, 3.0]}
    with pytest.raises(LabError, match="reinforce has 3 preferences; this world has 2 actions: left, right"):
        build(scenario(world={"name": "corridor"}, learners=[learner]))
    with pytest.raises(LabError, match=r"make control\.runs, control\.score or the sweep smaller"):
        build(scenario(world={"name": "taxi"}, control={"runs": 100_000}))
    with pytest.raises(LabError, match="the arena is for that"):
        build(scenario()).adjust("alpha", 0.1)
    assert build(scenario()).adjustable() == {}


def test_nothing_is_left_open_and_what_is_written_down_is_read_again() -> None:
    made = resolve(scenario(control=SWEPT))
    assert made.compute.device == "cpu"
    assert "auto" not in made.compute.model_dump().values()
    assert "gamma" not in dump_scenario(made)


@pytest.mark.parametrize("name", SCENARIOS)
def test_shipped_scenarios_begin(name: str) -> None:
    loaded = load_scenario(name, ["control.runs=2", "control.sync_every=1"]).scenario
    assert isinstance(loaded, ControlScenario)
    assert loaded.about.chapter == "M"
    assert loaded.outline()
    experiment = build(loaded)
    said = experiment.step()
    assert all(np.isfinite(value) for value in said.values())
    frame = experiment.frame()
    assert len(frame.facts["sides"]) == len(loaded.learners)


# Bands


def test_one_run_has_no_band_and_its_return_no_error() -> None:
    for runs in (1, 3):
        told = scenario(control={"runs": runs, "episodes": 4})
        values = build(resolve(told)).step()
        label = told.learners[0].name
        assert (f"return_low/{label}" in values) is (runs > 1)
        answer = KIND.explain_metric(told, f"return/{label}", 1, values, {})
        assert answer is not None
        assert ("s/√n" in [step.name for step in answer.meaning]) is (runs > 1)


def a_world() -> World:
    return world_named("cliff")


def test_a_band_is_one_standard_error_about_the_mean_of_the_seeds() -> None:
    told = Settings(rule="expected-sarsa", epsilon=0.2)
    mean, low, high = band(a_world(), told, range(9), 15)
    returns, _ = Sweep(a_world().process, [told] * 9, range(9)).run_episodes(15)
    assert np.allclose(mean, returns.mean(axis=0))
    assert np.allclose(high - mean, returns.std(axis=0, ddof=1) / 3)
    assert np.allclose(mean - low, high - mean)
    mean, low, high = band(a_world(), told, [1], 4)
    assert np.isfinite(mean).all()
    assert np.isnan([low, high]).all()  # one seed says nothing about others


def test_a_band_grows_and_can_be_left_off() -> None:
    told, given = Settings(), []
    for mean, _, _ in growing(a_world(), told, range(3), 23, parts=5):
        given.append(mean)
    assert [len(mean) for mean in given] == [5, 10, 15, 20, 23]
    assert np.array_equal(given[-1][:5], given[0])
    asked = [0]

    def cancelled() -> bool:
        asked[0] += 1
        return asked[0] > 20

    assert len(band(a_world(), told, range(3), 2000, cancelled)[0]) < 2000
    assert len(band(a_world(), told, range(3), 2000, lambda: True)[0]) == 0


# Reference numbers, at run counts that take seconds; `txlab verify` runs them in full


def test_the_corridor_is_exactly_what_is_printed() -> None:
    figure = next(each for each in reference.FIGURES if each.name == "corridor")
    for number, measured in zip(figure.numbers, figure.measure(print), strict=True):
        assert number.holds(measured), number.label


def held(name: str, measured: list[Any], skip: int = 0) -> None:
    figure = next(each for each in reference.FIGURES if each.name == name)
    assert len(figure.numbers) == len(measured)
    for number, found in list(zip(figure.numbers, measured, strict=True))[: len(measured) - skip]:
        assert number.holds(found), (number.label, found)


@pytest.mark.evidence
def test_the_cliff_comes_out_with_fewer_runs() -> None:
    measured = reference.measure_cliff(lambda text: None, runs=100)
    held("cliff", measured, skip=2)
    assert [found.value for found in measured[-2:]] == [100, 100]


def test_the_wind_and_the_bias_come_out_with_fewer_runs() -> None:
    held("windy", reference.measure_windy(lambda text: None, runs=100))
    held("bias", reference.measure_bias(lambda text: None, runs=1500))


# Why


def test_metrics_are_explained_by_what_they_are_made_of() -> None:
    made = scenario()
    experiment = build(made)
    values = {**ran(experiment)[-1], **experiment.evaluate()}
    for name, value in values.items():
        said = explain_metric(made.model_dump(), name, 12, values)
        assert said is not None
        assert said.result == value
    band_of = explain_metric(made.model_dump(), "return/sarsa", 12, values)
    assert band_of is not None
    last = build(made)
    ran(last)
    deviation = last.returns[0, 0, :, -1].std(ddof=1)
    assert band_of.meaning[0].result == pytest.approx(deviation)
    assert explain_metric(made.model_dump(), "return/nobody", 12, {"return/nobody": 1.0}) is None
    nothing = {"return/sarsa": float("nan")}
    assert explain_metric(made.model_dump(), "return/sarsa", 12, nothing) is None


def test_values_of_a_frame_are_explained_from_the_frame() -> None:
    experiment = build(scenario())
    ran(experiment)
    assert KIND.explain_frame(experiment.frame(), "1/q", (36, 0)).operands
    assert KIND.explain_frame(experiment.frame(), "0/v", (36,)).operands


def test_more_episodes_than_memory_holds_are_refused_before_the_first() -> None:
    control = {"runs": 100, "episodes": 1_000_000_000, "score": 1_000_000_000}
    scenario = ControlScenario.model_validate({"control": control})
    with pytest.raises(LabError, match=r"control\.score"):
        build(scenario)
    with pytest.raises(ValueError, match="sync_every"):
        ControlScenario.model_validate({"control": control | {"sync_every": 1001}})


def test_a_world_that_nothing_ends_is_cut_off_and_the_run_says_so(tmp_path: Path) -> None:
    scenario = tmp_path / "endless.toml"
    scenario.write_text(
        'kind = "mdp-control"\n[world]\nmap = "discount: .9\\nP: pays 3\\n\\nS..P\\n"\n[[learners]]\nrule = "sarsa"\n'
        "[control]\nruns = 2\nepisodes = 2\n"
    )
    run = prepare(load_scenario(scenario), root=tmp_path / "runs")
    assert execute(run).status == "done"
    reader = RunReader(run)
    reader.poll()
    assert [row["text"] for row in reader.rows("note")] == [
        "Nothing ends an episode here: it is cut off after 1000 steps."
    ]
    assert reader.latest("length/sarsa") == 1000


def test_learners_of_one_rule_go_by_their_labels_and_a_maze_by_the_length_of_its_episodes() -> None:
    learners = [{"rule": "dyna-q", "label": f"{n} from memory", "planning": n} for n in (0, 5)]
    table = {"world": {"name": "dyna-maze"}, "learners": learners, "control": {"runs": 2, "episodes": 4}}
    experiment = build(ControlScenario.model_validate(table))
    first = experiment.step()
    assert first["length/0 from memory"] == first["length/5 from memory"] > 100
    assert experiment.facts()["headline"] == ["length/0 from memory", "length/5 from memory"]
    assert [side["title"] for side in experiment.frame().facts["sides"]] == ["0 from memory", "5 from memory"]
    assert build(scenario()).facts()["headline"] == ["return/sarsa", "return/q-learning"]


# Worlds that can only be stepped

CARDS: dict[str, Any] = {
    "world": {"name": "gymnasium:Blackjack-v1"},
    "learners": [{"rule": "monte-carlo", "alpha": 0.05}, {"rule": "sarsa-lambda", "alpha": 0.05}],
    "control": {"runs": 3, "episodes": 60, "sync_every": 10, "score": 5},
}


def test_an_environment_of_gymnasium_s_without_tables_is_learnt_in_by_stepping() -> None:
    experiment = build(ControlScenario.model_validate(CARDS))
    for _ in range(60):
        metrics = experiment.step()
    assert set(metrics) >= {"return/monte-carlo", "return/sarsa-lambda"}
    assert -1 <= metrics["return/monte-carlo"] <= 1
    assert -1 <= experiment.evaluate()["greedy/monte-carlo"] <= 1
    frame = experiment.frame()
    assert frame.tensors["0/q"].shape == (704, 2)
    assert "0/path" not in frame.tensors
    assert "does not tell its probabilities" in experiment.facts()["notes"][0]
    with pytest.raises(LabError, match="does not tell its probabilities"):
        KIND.explain_frame(frame, "0/q", (300, 1))


def test_it_is_resumed_bit_for_bit() -> None:
    whole, first, second = (build(ControlScenario.model_validate(CARDS)) for _ in range(3))
    wanted = [whole.step() for _ in range(60)]
    for _ in range(25):
        first.step()
    second.load_state_dict(first.state_dict())
    assert [second.step() for _ in range(35)] == wanted[25:]
    assert second.frame().tensors["0/q"].tobytes() == whole.frame().tensors["0/q"].tobytes()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"learners": [{"rule": "reinforce", "preferences": [1.0, 0.0]}]}, "can only be stepped"),
        ({"compute": {"device": "cuda"}}, "can only be stepped"),
        ({"world": {"name": "gymnasium:CartPole-v1"}}, "observation space is Box"),
    ],
)
def test_what_cannot_be_stepped_is_refused_with_an_error(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(LabError, match=said):
        build(ControlScenario.model_validate({**CARDS, **changes}))


def test_a_learner_that_diverges_is_reported_in_the_frame_and_in_the_run_s_events(tmp_path: Path) -> None:
    learners = [{"rule": "sarsa-lambda", "alpha": 0.5, "lam": 0.9}, {"rule": "q-learning"}]
    control = {"runs": 2, "episodes": 60, "sync_every": 5, "score": 3}
    made = ControlScenario.model_validate({"world": {"name": "cliff"}, "learners": learners, "control": control})
    run = RunDirectory(prepare(LoadedScenario(made, "diverging", "a test"), root=tmp_path))
    execute(run.path)
    index = FrameIndex(run.frames)
    index.refresh()
    first, second = index.read(60).facts["warnings"]
    assert first.startswith("SARSA(λ) diverges")
    assert second == ""
    reader = RunReader(run.path)
    reader.poll()
    (note,) = [row for row in reader.rows("note") if row["step"]]
    assert "replacing traces" in note["text"]
