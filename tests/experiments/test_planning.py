"""The kind "planning": steps, ends, frames and answers; and a run that is killed is the run that was not."""

import json
import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from txlab.engine.rl.dynamic_programming import backup, find_converged_sweep, sweeps
from txlab.engine.rl.process import Outcome, Process, compile_process
from txlab.errors import LabError
from txlab.experiments.kind import explain_metric, kind_named
from txlab.experiments.kinds.planning import KIND, PlanningExperiment, PlanningScenario
from txlab.experiments.reference_numbers.rl_planning import FIGURES
from txlab.experiments.tabular.world import WorldSection
from txlab.runs import checkpoints
from txlab.runs.control import Request, send
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import Row
from txlab.runs.frames import FrameIndex
from txlab.runs.loop import Speed
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import catalogue, dump_scenario, load_scenario

build, resolve = KIND.build, KIND.resolve


def scenario(world: str = "four-by-three", record: Mapping[str, Any] | None = None, **plan: Any) -> PlanningScenario:
    table = {"world": {"name": world}, "plan": plan, "record": record or {}}
    return PlanningScenario.model_validate(table)


def ran(experiment: PlanningExperiment) -> list[Mapping[str, float]]:
    found = []
    while experiment.step_count < experiment.steps:
        found.append(experiment.step())
    return found


# Reference numbers


@pytest.mark.parametrize("figure", [each for each in FIGURES if each.name != "car-rental"], ids=lambda each: each.name)
def test_reference_numbers_come_out_to_their_last_digit(figure: Any) -> None:
    measured = figure.measure(lambda text: None)
    for number, found in zip(figure.numbers, measured, strict=True):
        assert found.error == 0
        assert number.holds(found), f"{number.label}: {found.value}, reference {number.value}"


def test_the_car_rental_is_among_them() -> None:
    """Seven seconds, so `txlab verify` computes it; here its first improvement, and the number of states it changes."""
    experiment = build(load_scenario("car-rental", ["plan.tolerance=1", "plan.sweep=in-place"]).scenario)
    while not experiment.improvements:
        values = experiment.step()
    assert values["changed"] == pytest.approx(318, abs=3)
    number = experiment.process.states.index
    names = experiment.process.actions
    assert names[experiment.policy[number("(20,0)")].argmax()] == "+5"


# Steps and ends


def test_a_run_ends_where_there_is_nothing_left_to_do(tmp_path: Path) -> None:
    settings = scenario("gridworld-corners", {"frame_every": 10}, method="evaluation", tolerance=1e-4, sweeps=1000)
    (tmp_path / "small.toml").write_text(dump_scenario(settings))
    run = RunDirectory(prepare(load_scenario(tmp_path / "small.toml"), root=tmp_path / "runs"))
    assert RunInfo.load(run).steps == 1000
    info = execute(run.path)
    assert (info.status, info.step, info.steps) == ("done", 173, 173)
    index = FrameIndex(run.frames)
    index.refresh()
    assert index.steps.tolist() == [*range(0, 173, 10), 173]
    assert checkpoints.steps(run)[-1] == 173
    assert (execute(run.path).status, RunInfo.load(run).step) == ("done", 173)  # and it stays ended


def test_no_duration_is_shown_for_a_run_with_an_unknown_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(float(second) for second in range(100))
    monkeypatch.setattr("txlab.runs.loop.time.monotonic", lambda: next(clock))
    for facts, told in ((build(scenario()).facts(), False), ({"unit": "sweeps"}, True)):
        speed = Speed(facts, 1000)
        speed.begin(0)
        assert ("seconds_left" in speed.look(10)) is told


def test_a_run_that_does_not_settle_ends_at_its_bound() -> None:
    experiment = build(scenario("gridworld", sweeps=5))
    assert len(ran(experiment)) == 5
    assert not experiment.finished


@pytest.mark.parametrize("sweep", ["synchronous", "in-place", "prioritised"])
def test_all_ways_of_planning_come_to_the_same_values(sweep: str) -> None:
    best = find_converged_sweep(sweeps(build(scenario()).process, 1.0)).v
    plans: list[dict[str, Any]] = [
        {"method": "value-iteration"},
        {"method": "policy-iteration"},
        {"method": "policy-iteration", "evaluation_sweeps": 3},
        {"method": "evaluation", "policy": "optimal"},
    ]
    for plan in plans:
        experiment = build(scenario(sweep=sweep, tolerance=1e-12, **plan))
        ran(experiment)
        assert experiment.finished
        np.testing.assert_allclose(experiment.v, best, atol=1e-9)


def test_policy_iteration_improves_where_its_values_have_settled_and_only_there() -> None:
    experiment = build(scenario("gridworld", method="policy-iteration", tolerance=1e-4))
    metrics = ran(experiment)
    improvements = [values for values in metrics if "delta" not in values]
    assert [values["changed"] for values in improvements] == [23, 16, 7, 3, 0]
    before = [metrics[place - 1] for place, values in enumerate(metrics) if "delta" not in values]
    assert all(values["delta"] <= 1e-4 for values in before)
    starts = [values["value_start"] for values in improvements]
    assert starts == sorted(starts)
    assert experiment.improvements == 4


def test_evaluation_may_be_cut_short_and_improvements_then_come_in_time() -> None:
    metrics = ran(build(scenario("gridworld", tolerance=1e-4, method="policy-iteration", evaluation_sweeps=3)))
    improved = [step for step, values in enumerate(metrics, 1) if "delta" not in values]
    assert improved[:3] == [4, 8, 12]


def test_metrics_are_what_they_say() -> None:
    experiment = build(scenario(epsilon=0.2))
    for _ in range(7):
        before = experiment.v.copy()
        values = experiment.step()
        q = backup(experiment.process, experiment.v, 1.0)
        best = np.nanmax(np.where(np.isnan(q), -np.inf, q), 1)
        wanted = np.where(experiment.process.terminal, 0, 0.8 * best + 0.2 * np.nan_to_num(q).mean(1))
        assert values["residual"] == pytest.approx(np.abs(wanted - experiment.v).max(), abs=1e-12)
        assert values["delta"] == np.abs(experiment.v - before).max()
        assert values["value_start"] == pytest.approx(experiment.v[experiment.process.start.argmax()])


def test_a_policy_may_be_an_action_and_values_that_do_not_exist_are_refused() -> None:
    experiment = build(scenario("gridworld", method="evaluation", policy="up"))
    assert np.array_equal(experiment.policy.argmax(1), np.full(25, experiment.process.actions.index("up")))
    with pytest.raises(LabError, match="nearest: even"):
        build(scenario(method="evaluation", policy="evven"))
    with pytest.raises(LabError, match="this policy never ends"):
        build(scenario("cliff", method="evaluation", policy="up"))
    with pytest.raises(LabError, match="γ = 1, and a policy that never ends can collect reward for ever"):
        build(PlanningScenario.model_validate({"world": {"name": "gridworld", "discount": 1.0}}))
    with pytest.raises(LabError, match="computed on the CPU"):
        build(PlanningScenario.model_validate({"compute": {"device": "cuda"}}))


# Looking


def test_a_frame_holds_values_their_backup_and_where_they_lead() -> None:
    experiment = build(scenario("cliff"))
    ran(experiment)
    frame = experiment.frame()
    v, q = frame.tensors["0/v"], np.asarray(frame.tensors["0/q"])
    assert np.array_equal(v, experiment.v)
    np.testing.assert_array_equal(q, backup(experiment.process, experiment.v, 1.0).astype(np.float32))
    assert len(frame.tensors["0/path"]) == 14  # 13 steps
    assert json.loads(json.dumps(frame.facts))["sides"][0]["title"] == "value iteration"
    assert frame.facts["world"] == {"name": "cliff"}
    evaluated = build(scenario("cliff", method="evaluation")).frame()
    assert set(evaluated.tensors) >= {"0/policy", "0/greedy"}
    assert np.asarray(evaluated.tensors["0/policy"])[0].tolist() == [0.25] * 4


def test_a_number_of_a_frame_is_explained_from_the_frame_alone() -> None:
    experiment = build(scenario(tolerance=1e-14))
    ran(experiment)
    frame = experiment.frame()
    told = KIND.explain_frame(frame, "0/v", (2,))
    assert told.result == experiment.v[2]
    assert told.meaning[-1].note == "the equation holds"
    q = KIND.explain_frame(frame, "0/q", (2, experiment.process.actions.index("left")))
    assert q.result == pytest.approx(0.8 * experiment.v[1] + 0.1 * experiment.v[2] + 0.1 * experiment.v[5] - 0.04)
    with pytest.raises(LabError, match="holds no values"):
        KIND.explain_frame(frame, "3/v", (2,))


def test_looking_changes_nothing() -> None:
    watched, alone = build(scenario(method="policy-iteration")), build(scenario(method="policy-iteration"))
    for _ in range(90):
        watched.frame(), watched.evaluate(), watched.facts(), watched.samples(), watched.adjustable()
        watched.step(), alone.step()
    assert watched.v.tobytes() == alone.v.tobytes()


def test_a_change_says_how_far_off_the_values_can_be_at_most() -> None:
    experiment = build(scenario("gridworld"))
    best = find_converged_sweep(sweeps(experiment.process, 0.9)).v
    for _ in range(20):
        values = experiment.step()
    told = explain_metric(experiment.scenario.model_dump(), "delta", 20, values)
    assert told is not None
    bound = told.meaning[-1].result
    off = np.abs(experiment.v - best).max()
    assert isinstance(bound, float)
    assert off <= bound < 9.01 * values["delta"]
    for name in values:
        assert explain_metric(experiment.scenario.model_dump(), name, 20, values) is not None


# What a user may change, and what is put back


def test_gamma_may_be_turned_unless_values_would_become_infinite() -> None:
    experiment = build(scenario("gridworld", tolerance=1e-12))
    ran(experiment)
    experiment.adjust("gamma", 0.5)
    ran(experiment)
    np.testing.assert_allclose(experiment.v, find_converged_sweep(sweeps(experiment.process, 0.5)).v, atol=1e-9)
    with pytest.raises(LabError, match="for ever"):
        experiment.adjust("gamma", 1.0)
    assert experiment.numbers["gamma"] == 0.5
    experiment.adjust("gamma", 0.99)
    values = experiment.step()
    answer = explain_metric(experiment.scenario.model_dump(), "delta", experiment.step_count, values)
    assert answer is not None
    best = find_converged_sweep(sweeps(experiment.process, 0.99)).v
    assert np.abs(experiment.v - best).max() <= float(answer.meaning[-1].result) == pytest.approx(99 * values["delta"])
    with pytest.raises(LabError, match="nearest: gamma"):
        experiment.adjust("gama", 0.5)


MODIFIED = {"method": "policy-iteration", "evaluation_sweeps": 3}


@pytest.mark.parametrize(
    ("changes", "cut"),
    [({"method": "policy-iteration", "sweep": "in-place"}, 50), ({"epsilon": 0.3}, 50), (MODIFIED, 10), (MODIFIED, 11)],
)
def test_two_halves_in_two_processes_are_the_whole_bit_for_bit(
    changes: dict[str, Any], cut: int, tmp_path: Path
) -> None:
    settings = scenario("gridworld", tolerance=1e-4, **changes)
    whole = build(settings)
    metrics = ran(whole)
    program = (
        "import sys, numpy as np\n"
        "from txlab.experiments.kinds.planning import KIND\n"
        "from txlab.experiments.kinds.planning import PlanningScenario\n"
        "experiment = KIND.build(PlanningScenario.model_validate_json(sys.argv[1]))\n"
        "[experiment.step() for _ in range(int(sys.argv[3]))]\n"
        "state = experiment.state_dict()\n"
        "np.savez(sys.argv[2], v=state.pop('v'), policy=state.pop('policy'))\n"
        "import json; print(json.dumps(state))\n"
        "assert 'torch' not in sys.modules\n"
    )
    path = tmp_path / "state.npz"
    arguments = [sys.executable, "-c", program, settings.model_dump_json(), str(path), str(cut)]
    written = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    half = build(settings)
    half.load_state_dict(json.loads(written) | dict(np.load(path)))
    assert ran(half) == metrics[cut:]
    assert half.v.tobytes() == whole.v.tobytes()
    with pytest.raises(LabError, match="does not fit this world"):
        build(scenario("cliff", **changes)).load_state_dict(half.state_dict())


def test_a_run_continues_from_its_checkpoint_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    """With γ turned on the way: the change is repeated at its step."""
    record = {"checkpoint_every": 20, "frame_every": 5, "evaluate_every": 0, "sample_every": 0, "checkpoints_kept": 9}
    settings = scenario("gridworld", record, method="policy-iteration", tolerance=1e-3)
    (tmp_path / "small.toml").write_text(dump_scenario(settings))
    run = RunDirectory(prepare(load_scenario(tmp_path / "small.toml"), root=tmp_path / "runs"))
    asked: list[str] = []

    def observe(row: Row) -> None:
        if row["event"] == "metrics" and row["step"] >= 10 and not asked:
            asked.append(send(run, Request("set", "gamma", 0.8)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("txlab.runs.loop.POLL_EVERY", 0.0)
        info = execute(run.path, observer=observe)
    assert info.status == "done"
    assert info.step > 40
    whole = checkpoints.load(run, info.step)
    assert whole["numbers"]["gamma"] == 0.8
    assert execute(run.path, rewind_to=40).status == "done"
    again = checkpoints.load(run, info.step)
    assert again["v"].tobytes() == whole["v"].tobytes()
    assert again["policy"].tobytes() == whole["policy"].tobytes()


# The kind


def test_the_scenarios_of_planning_settle_as_they_say() -> None:
    """The number of steps is in the catalogue's expectations; the car rental takes too long for a test."""
    found = {entry.name: entry.scenario for entry in catalogue() if entry.scenario.kind == "planning"}
    assert len(found) >= 8
    counts = {"gridworld": 167, "gridworld-sweeps": 173, "four-by-three": 28, "gambler": 31, "taxi-plan": 19}
    counts |= {"frozen-lake-plan": 431, "windy-plan": 47}
    for name, count in counts.items():
        assert str(count) in found[name].about.expect
        experiment = build(found[name])  # type: ignore[arg-type]
        ran(experiment)
        assert (experiment.finished, experiment.step_count) == (True, count), name


def test_the_schema_needs_no_torch_and_nothing_is_left_open() -> None:
    assert kind_named("planning").schema is PlanningScenario
    program = (
        "import sys; import txlab.experiments.kinds.planning, txlab.experiments.tabular.explaining;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    decided = resolve(scenario())
    assert "auto" not in decided.compute.model_dump().values()
    assert decided.compute.threads == 1
    assert resolve(decided) == decided


def four_states(seed: int) -> Process:
    """Four states and two actions, each with two outcomes and a reward by chance; γ = .5."""
    random = np.random.default_rng(seed)
    outcomes = {}
    for pair in product(range(4), range(2)):
        to = random.choice(4, 2, replace=False)
        shares = random.dirichlet(np.full(2, 0.3))
        outcomes[pair] = [Outcome(float(p), int(s), float(random.normal())) for s, p in zip(to, shares, strict=True)]
    return compile_process(["a", "b"], list("0123"), outcomes, 0, 0.5)


@pytest.mark.parametrize("sweep", ["synchronous", "in-place", "prioritised"])
def test_no_value_is_further_off_than_the_answer_says(sweep: Any) -> None:
    """On random processes, from the first sweep on. γ/(1−γ)·δ holds for sweeps over all states; a prioritised one may
    leave a state out, where it does not, which is the reason for this test."""
    broken = 0
    for seed in (*range(25), 31, 81):
        process = four_states(seed)
        best = find_converged_sweep(sweeps(process, 0.5)).v
        experiment = build(scenario("gridworld", sweep=sweep))
        experiment.process, experiment.v = process, np.zeros(process.size)
        experiment.numbers["gamma"] = 0.5
        told = experiment.scenario.model_copy(update={"world": WorldSection(name="gridworld", discount=0.5)})
        for step in range(1, 4):
            values = experiment.step()
            answer = explain_metric(told.model_dump(), "delta", step, values)
            assert answer is not None
            [bound] = [float(each.result) for each in answer.meaning if each.name == "error ≤"]
            off = np.abs(experiment.v - best).max()
            assert off <= bound + 1e-12
            broken += off > values["delta"] + 1e-12  # γ/(1−γ) is 1 here
    assert (broken > 0) == (sweep == "prioritised")


def test_the_stakes_of_a_finished_plan_are_best_exactly() -> None:
    """With a fair coin all stakes are equally good, which values that are off by the tolerance do not show."""
    for method in ("value-iteration", "policy-iteration"):
        table = {"world": {"name": "gambler", "heads": 0.5}, "plan": {"method": method, "tolerance": 1e-4}}
        experiment = KIND.build(PlanningScenario.model_validate(table))
        ran(experiment)
        assert experiment.finished
        policy = np.asarray(experiment.frame().tensors["0/policy"])
        assert ((policy > 0) == experiment.process.allowed).all()
