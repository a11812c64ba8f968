"""Linear regression by gradient and stochastic descent, compared with the closed form and a loop (MATH F4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from txlab.engine.descent.methods import gradient_of
from txlab.engine.descent.regression import LineData, line_data, sample_at
from txlab.errors import LabError
from txlab.experiments.kinds.descent import KIND
from txlab.experiments.kinds.descent.experiment import Descent
from txlab.experiments.kinds.descent.schema import DescentScenario


def made(*methods: dict[str, Any], seed: int = 1, steps: int = 2000, **data: Any) -> Descent:
    asked = {"seed": seed, "function": {"start": [-2.0, 3.0]}, "data": data or {"points": 30}}
    scenario = DescentScenario.model_validate(asked | {"methods": list(methods), "descent": {"steps": steps}})
    return KIND.build(scenario)  # type: ignore[return-value]


def data_of(experiment: Descent) -> LineData:
    assert isinstance(experiment.f, LineData)
    return experiment.f


def test_the_closed_form_is_numpys_least_squares_and_where_descent_arrives() -> None:
    for seed in range(3):
        experiment = made({"method": "gradient"}, {"method": "newton-minimum"}, seed=seed)
        data = data_of(experiment)
        while experiment.step_count < experiment.steps:
            experiment.step()
        design = np.stack([data.u.numpy(), np.ones(30)], 1)
        (w, b), *_ = np.linalg.lstsq(design, data.v.numpy(), rcond=None)
        assert data.least_squares() == pytest.approx((w, b), rel=1e-12)
        for state in experiment.states:
            assert state.x.tolist() == pytest.approx([w, b], rel=1e-9)
        assert experiment.trouble == ["arrived", "arrived"]
        assert experiment.states[1].t == 2  # there after one step, and the second one is too short to count


def test_the_error_of_a_line_is_the_mean_over_the_points_for_one_line_or_many() -> None:
    data = line_data(7, 2.0, -1.0, 0.3, np.random.default_rng(0))
    lines = torch.tensor([[0.5, 2.0, -1.0], [0.0, 1.0, 3.0]], dtype=torch.float64)
    expected = [
        sum((w * u + b - v) ** 2 for u, v in zip(data.u.tolist(), data.v.tolist(), strict=True)) / 7
        for w, b in lines.T.tolist()
    ]
    assert data(lines).tolist() == pytest.approx(expected, rel=1e-13)
    assert [float(data(line)) for line in lines.T] == pytest.approx(expected, rel=1e-13)


def test_epochs_of_stochastic_descent_are_those_of_a_plain_loop() -> None:
    rate, epochs = 0.05, 3
    experiment = made({"method": "sgd", "rate": rate}, steps=30 * epochs)
    data = data_of(experiment)
    w, b = -2.0, 3.0
    for epoch in range(epochs):
        for i in experiment.order(0, epoch).tolist():
            u, v = float(data.u[i]), float(data.v[i])
            error = w * u + b - v
            w, b = w - rate * 2 * error * u, b - rate * 2 * error
        for _ in range(30):
            experiment.step()
        assert experiment.states[0].x.tolist() == pytest.approx([w, b], rel=1e-12)


def test_each_sample_is_visited_once_an_epoch_in_an_order_of_the_epoch_and_the_seed() -> None:
    one, again, other = (made({"method": "sgd"}, seed=seed) for seed in (1, 1, 2))
    for epoch in range(4):
        steps = range(30 * epoch, 30 * (epoch + 1))
        visited = [sample_at(step, 30, lambda e: one.order(0, e)) for step in steps]
        assert sorted(visited) == list(range(30))
        assert visited == again.order(0, epoch).tolist()
        assert visited != other.order(0, epoch).tolist()
        assert visited != one.order(0, epoch + 1).tolist()


def test_the_mean_of_the_samples_gradients_is_the_gradient() -> None:
    data, x = line_data(12, 1.0, 0.0, 1.0, np.random.default_rng(1)), torch.tensor([0.3, -2.0], dtype=torch.float64)
    each = torch.stack([gradient_of(data.sample(i), x)[1] for i in range(12)])
    assert torch.allclose(each.mean(0), gradient_of(data, x)[1], rtol=1e-13)


def test_stochastic_descent_resumed_within_an_epoch_continues_bit_for_bit() -> None:
    whole, first, resumed = (made({"method": "sgd", "rate": 0.05}) for _ in range(3))
    for _ in range(47):
        whole.step()
        first.step()
    resumed.load_state_dict(first.state_dict())
    for _ in range(47):
        assert resumed.step() == whole.step()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"function": {"f": "x*y", "start": [1.0, 1.0]}}, "not both"),
        ({"function": {"start": [1.0]}}, "two numbers"),
        ({"data": {"points": 0}}, "sgd draws from data"),
        ({"data": {"points": 1}}, "a line needs two points at least"),
    ],
)
def test_an_invalid_regression_is_refused(change: dict[str, Any], said: str) -> None:
    asked = {"function": {"start": [0.0, 0.0]}, "data": {"points": 5}, "methods": [{"method": "sgd"}]}
    with pytest.raises(ValueError, match=said):
        DescentScenario.model_validate(asked | change)


def test_a_parameter_is_turned_while_it_runs_and_kept_in_the_checkpoint() -> None:
    experiment = made({"method": "gradient"}, {"method": "sgd"})
    assert set(experiment.adjustable()) == {"gradient.rate", "gradient.noise", "sgd.rate", "sgd.noise"}
    before = experiment.states[0].x
    experiment.adjust("gradient.rate", 0.25)
    experiment.step()
    slope = gradient_of(experiment.f, before)[1]
    assert torch.equal(experiment.states[0].x, before - 0.25 * slope)
    other = made({"method": "gradient"}, {"method": "sgd"})
    other.load_state_dict(experiment.state_dict())
    assert other.adjustable()["gradient.rate"].value == 0.25
    with pytest.raises(LabError, match="cannot be changed"):
        experiment.adjust("gradient.momentum", 0.5)
    name = "x/gradient"
    row = dict(experiment.step())
    assert KIND.explain_metric(experiment.scenario, name, 2, row, {}) is None  # its steps would be others
