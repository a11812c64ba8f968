"""Methods side by side on a function that a user typed (MATH F1–F3)."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from math import isfinite, sqrt
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from txlab.experiments.kinds.descent import KIND
from txlab.experiments.kinds.descent.experiment import Descent
from txlab.experiments.kinds.descent.schema import DescentScenario
from txlab.experiments.randomness import generator


def made(f: str, start: list[float], *methods: dict[str, Any], **descent: Any) -> Descent:
    asked = {"function": {"f": f, "start": start}, "methods": list(methods), "descent": descent}
    return KIND.build(DescentScenario.model_validate(asked))  # type: ignore[return-value]


def run(experiment: Descent) -> list[dict[str, float]]:
    rows = []
    while experiment.step_count < experiment.steps:
        rows.append(dict(experiment.step()))
    return rows


def test_a_run_ends_when_all_methods_have_arrived() -> None:
    rows = run(experiment := made("x**2 - 2", [1.0], {"method": "newton-root"}, steps=50))
    assert experiment.trouble == ["arrived"]
    assert len(rows) == 6
    assert float(experiment.states[0].x) == pytest.approx(sqrt(2), rel=1e-15)
    assert rows[2] == {
        "value/newton-root": pytest.approx((17 / 12) ** 2 - 2),
        "gradient/newton-root": pytest.approx(17 / 6),
        "x/newton-root": pytest.approx(17 / 12),
    }


def test_one_that_rests_does_not_stop_the_others() -> None:
    methods = {"method": "gradient", "rate": 0.3}, {"method": "gradient", "rate": 3.0, "label": "too far"}
    rows = run(experiment := made("x**2", [1.0], *methods, steps=200))
    assert experiment.trouble[0] == "arrived"
    assert "it diverges" in experiment.trouble[1]
    assert "x/too far" not in rows[-1]
    assert [sample.text for sample in experiment.samples()][1].endswith(experiment.trouble[1])


def test_a_circle_is_reported_and_ends_it() -> None:
    run(experiment := made("x**3 - 2*x + 2", [0.0], {"method": "newton-root"}))
    assert experiment.trouble == ["it goes in a circle of 2 steps"]


def test_noise_follows_the_seed_and_is_not_in_the_reported_gradient() -> None:
    noisy = {"method": "gradient", "noise": 0.5, "rate": 0.05}
    one, again = (run(made("x**2 + y**2", [1.0, 1.0], noisy, steps=20)) for _ in range(2))
    assert one == again
    for row in one:
        assert row["gradient/gradient"] == pytest.approx(2 * np.hypot(row["x/gradient"], row["y/gradient"]))
    steps = np.diff([[row["x/gradient"], row["y/gradient"]] for row in one], axis=0)
    points = np.array([[row["x/gradient"], row["y/gradient"]] for row in one])[:-1]
    added = -steps / 0.05 - 2 * points
    assert 0.2 < added.std() < 0.9


METHODS = ("gradient", "sign", "momentum", "adam", "newton-minimum", "sgd")


def follows(name: str, x: np.ndarray, m: np.ndarray, v: np.ndarray, t: int, g: np.ndarray, H: np.ndarray) -> np.ndarray:
    """The next point of each method with rate .02, μ = .8, β₁ = .7, β₂ = .95, as the rules are written."""
    if name == "newton-minimum":
        return x - np.linalg.solve(H, g)
    if name == "sign":
        return x - 0.02 * np.sign(g)
    if name == "momentum":
        return x - 0.02 * (0.8 * m + g)
    if name == "adam":
        first, second = 0.7 * m + 0.3 * g, 0.95 * v + 0.05 * g**2
        return x - 0.02 * first / (1 - 0.7 ** (t + 1)) / (np.sqrt(second / (1 - 0.95 ** (t + 1))) + 1e-8)
    return x - 0.02 * g


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_step_of_every_method_is_what_its_rule_says(noise: float) -> None:
    """On the error of a line, from the checkpoint before it; the metrics are those of all points, without noise."""
    each = {"rate": 0.02, "momentum": 0.8, "beta1": 0.7, "beta2": 0.95, "noise": noise}
    asked: dict[str, Any] = {"function": {"start": [1.0, -0.5]}, "data": {"points": 7}, "seed": 4}
    asked["methods"] = [{"method": name, **each} for name in METHODS]
    experiment: Any = KIND.build(DescentScenario.model_validate(asked))
    u, w = experiment.f.u.numpy(), experiment.f.v.numpy()

    def error(x: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray]:
        residuals = x[0] * u[rows] + x[1] - w[rows]
        return float((residuals**2).mean()), 2 * np.array([(residuals * u[rows]).mean(), residuals.mean()])

    every, visited = np.arange(7), []
    hessian = 2 * np.array([[(u**2).mean(), u.mean()], [u.mean(), 1.0]])
    for number in range(1, 16):
        before = deepcopy(experiment.state_dict()["states"])
        found = experiment.step()
        for i, (name, state) in enumerate(zip(METHODS, before, strict=True)):
            if f"x/{name}" not in found:  # it rests
                continue
            x, m, v = (state[key].numpy() for key in ("x", "m", "v"))
            value, gradient = error(x, every)
            if name == "sgd":  # it goes down, and shows, the gradient of one point
                order = generator(4, f"shuffle {i}", state["t"] // 7).permutation(7)
                visited.append(int(order[state["t"] % 7]))
                gradient = error(x, np.array(visited[-1:]))[1]
            told = {"value": value, "gradient": float(np.linalg.norm(gradient)), "x": x[0], "y": x[1]}
            assert {key: found[f"{key}/{name}"] for key in told} == pytest.approx(told, rel=1e-9)
            draws = generator(4, f"noise {i}", number).standard_normal(2)
            after = follows(name, x, m, v, state["t"], gradient + noise * draws, hessian)
            assert experiment.states[i].x.numpy() == pytest.approx(after, rel=1e-10, abs=1e-12), name
    assert sorted(visited[:7]) == sorted(visited[7:14]) == list(range(7)) != visited[:7]
    assert visited[:7] != visited[7:14]


def test_a_resumed_run_continues_bit_for_bit() -> None:
    methods = [{"method": name, "rate": 1e-3} for name in ("gradient", "momentum", "adam", "newton-minimum")]
    f = "(1 - x)**2 + 100*(y - x**2)**2"
    whole, first, resumed = (made(f, [-1.2, 1.0], *methods, steps=60) for _ in range(3))
    for _ in range(20):
        whole.step()
        first.step()
    resumed.load_state_dict(first.state_dict())
    assert run(resumed) == run(whole)
    for ours, theirs in zip(resumed.frame().tensors.values(), whole.frame().tensors.values(), strict=True):
        assert np.array_equal(ours, theirs)


def test_every_number_is_explained_by_the_step_that_led_to_it() -> None:
    methods = [{"method": "gradient", "rate": 0.25}, {"method": "adam", "noise": 0.1}]
    experiment = made("x**2 + 2*y**2", [4.0, 1.0], *methods, steps=5)
    for number, values in enumerate(run(experiment), 1):
        for name, value in values.items():
            why = KIND.explain_metric(experiment.scenario, name, number, values, {})
            assert why is not None
            assert why.result == value
            label = name.partition("/")[2]
            if number > 1:
                assert why.steps[0].result == f"({values[f'x/{label}']:.4g}, {values[f'y/{label}']:.4g})".replace(
                    "-", "−"
                )


@pytest.mark.parametrize(
    ("function", "methods", "said"),
    [
        ({"f": "x.__class__"}, [{}], "a point between names"),
        ({"f": "2x"}, [{}], "products need a"),
        ({"f": "x*y"}, [{}], "start has two numbers"),
        ({"f": "x*y", "start": [1.0, 1.0]}, [{"method": "newton-root"}], "newton-root is for functions of x alone"),
        ({"f": "x"}, [{}, {}], "different labels"),
    ],
)
def test_what_cannot_be_is_refused(function: dict[str, Any], methods: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        DescentScenario.model_validate({"function": function, "methods": methods})


def test_a_function_is_checked_without_torch() -> None:
    program = (
        "import sys; from txlab.runs.scenario import load_scenario; load_scenario('descent');"
        "print('torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


@pytest.mark.evidence
def test_the_valley_is_gone_down_as_the_scenario_says() -> None:
    f = "(1 - x)**2 + 100*(y - x**2)**2"
    methods = [
        {"method": "gradient", "rate": 1e-3},
        {"method": "momentum", "rate": 1e-3},
        {"method": "adam", "rate": 1e-2},
        {"method": "newton-minimum"},
    ]
    experiment = made(f, [-1.2, 1.0], *methods, steps=2000)
    last = {name: value for row in run(experiment) for name, value in row.items()}
    assert experiment.states[3].t == 8
    assert last["value/gradient"] == pytest.approx(0.0783, abs=5e-4)
    assert last["value/adam"] == pytest.approx(0.0464, abs=5e-4)
    assert last["value/momentum"] < 1e-8
    assert all(isfinite(value) for value in last.values())
