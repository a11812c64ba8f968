"""The playground: every set of points is learnt, and whatever is changed while it learns is kept and resumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from calculator import contradictions, miscalculated

from txlab.engine.feedforward.graph import format_graph, read
from txlab.errors import LabError
from txlab.experiments.kinds.playground import KIND
from txlab.experiments.kinds.playground.experiment import VIEWS, Playground, View, explain_square
from txlab.experiments.kinds.playground.schema import PlaygroundScenario
from txlab.runs.scenario import load_scenario

Change = Callable[[Playground], object]


def made(**tables: Any) -> Playground:
    asked = {"train": {"batch": 16}, "data": {"name": "xor", "points": 60}, **tables}
    return Playground(KIND.resolve(PlaygroundScenario.model_validate(asked)))


def learnt(experiment: Playground, steps: int) -> Playground:
    for _ in range(steps):
        experiment.step()
    return experiment


@pytest.mark.parametrize("name", ["circle", "xor", "clouds", "spiral"])
def test_every_set_is_distinguished(name: str) -> None:
    scenario = load_scenario("playground-spiral", [f"data.name={name}"]).scenario
    experiment = learnt(Playground(KIND.resolve(scenario)), 500)
    assert float(experiment.evaluate()["val_accuracy"]) >= 0.98


@pytest.mark.parametrize(("name", "most"), [("plane", 0.001), ("bumps", 0.03)])
def test_numbers_are_approximated(name: str, most: float) -> None:
    experiment = made(data={"name": name}, train={"steps": 1500, "decay": "cosine"})
    assert set(learnt(experiment, 1500).evaluate()) == {"val_loss"}
    assert float(experiment.evaluate()["val_loss"]) < most


def test_one_neuron_cannot_do_exclusive_or_but_can_with_the_product() -> None:
    alone = learnt(made(network={"layers": []}), 300)
    product = learnt(made(network={"layers": [], "features": ["xy"]}), 300)
    assert float(alone.evaluate()["val_accuracy"]) < 0.8
    assert float(product.evaluate()["val_accuracy"]) == 1.0


def test_the_loss_and_its_gradient_are_those_of_the_equation() -> None:
    experiment = made(train={"batch": 16, "l1": 0.1}, network={"layers": [3], "activation": "relu"})
    rows = experiment.batch(1)
    x, y = experiment.train_x[rows].double(), experiment.train_y[rows].double()
    weights = [weight.detach().double().requires_grad_() for weight in experiment.model.weights]
    z = torch.relu(x @ weights[0].T) @ weights[1][0, 2:]
    wanted = torch.log(1 + torch.exp(-y * z)).mean()
    (wanted + 0.1 * sum(weight.abs().sum() for weight in weights)).backward()
    assert float(experiment.gradients(1)["loss"]) == pytest.approx(wanted.item(), rel=1e-6)
    for ours, theirs in zip(experiment.model.weights, weights, strict=True):
        assert torch.allclose(ours.grad.double(), theirs.grad, atol=1e-6)


def test_an_epoch_sees_every_point_once() -> None:
    experiment = made(data={"name": "xor", "points": 64})
    seen = torch.cat([experiment.batch(update) for update in (3, 4)])
    assert sorted(seen.tolist()) == list(range(32))
    assert experiment.batch(5).tolist() != experiment.batch(3).tolist()


CHANGES: dict[str, Change] = {
    "width": lambda one: one.set_width(0, 10),
    "fewer": lambda one: one.set_width(1, 3),
    "depth": lambda one: one.set_depth(3),
    "shallow": lambda one: one.set_depth(1),
    "activation": lambda one: one.set_activation("relu"),
    "input": lambda one: one.switch("sin_x"),
    "off": lambda one: one.switch("h1_2"),
    "noise": lambda one: one.adjust("noise", 0.3),
    "rate": lambda one: one.adjust("lr", 0.1),
    "decay": lambda one: one.adjust("weight_decay", 0.5),
    "l1": lambda one: one.adjust("l1", 0.01),
    "batch": lambda one: one.adjust("batch", 5),
    "weight": lambda one: one.set_weight("h1_1", "x", 3.5),
    "bias": lambda one: one.set_weight("out", None, -1.0),
    "point": lambda one: one.add_point(1.0, -2.0, 1.0),
    "data": lambda one: one.use_data("bumps"),
    "graph": lambda one: one.describe("a = sin(_*x + _)\nb = relu(a - y)\nout = 2*b + a + _*xy"),
    "again": lambda one: one.again(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_changed_while_it_learns_resumes_bit_for_bit(name: str) -> None:
    one = learnt(made(), 7)
    CHANGES[name](one)
    learnt(one, 5)
    state = one.state_dict()
    state = {**state, "model": {key: value.clone() for key, value in state["model"].items()}}
    other = made()
    other.load_state_dict(torch.load(saved(state)))
    for _ in range(6):
        assert {**one.step()} == {**other.step()}
    assert format_graph(one.model.present()) == format_graph(other.model.present())
    assert one.evaluate() == other.evaluate()
    CHANGES["width" if name == "depth" else "data"](one)  # what is drawn next is the same as well
    CHANGES["width" if name == "depth" else "data"](other)
    assert format_graph(one.model.present()) == format_graph(other.model.present())


def saved(state: Any) -> Any:
    import io

    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


def weights_of(experiment: Playground) -> dict[tuple[str, str], float | None]:
    present = experiment.model.present()
    return {(each.name, source): weight for each in present.neurons for source, weight in each.weights.items()}


@pytest.mark.parametrize("name", ["width", "fewer", "shallow", "activation", "input", "weight"])
def test_a_change_keeps_all_other_weights(name: str) -> None:
    experiment = learnt(made(), 5)
    before = weights_of(experiment)
    CHANGES[name](experiment)
    after = weights_of(experiment)
    both = set(before) & set(after) - {("h1_1", "x")}
    assert len(both) >= 15
    assert all(before[edge] == after[edge] for edge in both)


def test_a_new_layer_of_a_relu_network_changes_no_answer() -> None:
    experiment = made(network={"layers": [5], "activation": "relu"})
    before = experiment.model.answer(experiment.test_x)
    experiment.set_depth(3)
    assert torch.allclose(experiment.model.answer(experiment.test_x), before, atol=1e-6)
    assert len(experiment.model.graph.levels) == 4


def test_an_impossible_change_is_reported_and_changes_nothing() -> None:
    experiment = made()
    before = format_graph(experiment.model.present())
    wrong: list[tuple[Change, str]] = [
        (lambda one: one.set_width(0, 0), "1 to 12 neurons"),
        (lambda one: one.set_width(2, 4), "only a hidden layer"),
        (lambda one: one.set_depth(7), "up to 6 hidden layers"),
        (lambda one: one.switch("out"), "the output cannot be switched off"),
        (lambda one: one.set_weight("h1_1", "h1_2", 1.0), "takes nothing from"),
        (lambda one: one.describe("a = x\nb = y"), "a and b lead nowhere"),
        (lambda one: one.use_data("moons"), "not a set of points"),
        (lambda one: one.remove_point(0, 0), "no point was added"),
    ]
    for change, said in wrong:
        with pytest.raises(LabError, match=said):
            change(experiment)
    assert format_graph(experiment.model.present()) == before
    experiment.describe("a = tanh(x)\nout = a + y")
    with pytest.raises(LabError, match="changed by its description"):
        experiment.set_width(0, 5)


def test_beginning_again_draws_other_weights_but_keeps_what_was_described() -> None:
    experiment = learnt(made(), 5)
    before = weights_of(experiment)
    experiment.again()
    assert experiment.step_count == 0
    assert not set(before.values()) & set(weights_of(experiment).values())
    text = "a = tanh(2.0*x)\nout = a + 0.5*y"
    experiment.describe(text)
    learnt(experiment, 3).again()
    assert experiment.model.present() == read(text, ["x", "y"])


def test_a_point_by_hand_is_learnt_and_forgotten() -> None:
    experiment = made()
    experiment.add_point(5.5, 5.5, -1.0)
    experiment.add_point(-5.5, -5.5, -1.0)
    assert len(experiment.train) == 32
    experiment.remove_point(5.0, 5.0)
    assert experiment.train[-1].tolist() == [-5.5, -5.5, -1.0]
    assert len(experiment.test) == 30  # no point is moved between the two


@pytest.mark.parametrize("view", VIEWS)
def test_the_pictures_of_a_frame_are_the_networks_own_answers(view: str) -> None:
    experiment = learnt(made(network={"layers": [4], "features": ["x", "y", "x2"]}), 5)
    experiment.grid, experiment.view = 6, view  # type: ignore[assignment]
    frame = experiment.frame()
    shown = np.asarray(frame.tensors["plane"], np.float64)
    assert shown.shape == (3 + 5, 6, 6)
    x, y = -1.0, 3.0  # row 1 from the top, column 2
    point = {"x": torch.tensor(x), "y": torch.tensor(y), "x2": torch.tensor(x * x)}
    a: dict[str, torch.Tensor] = {name: value.double().requires_grad_() for name, value in point.items()}
    z = dict(a)
    for neuron in experiment.model.present().neurons:
        total = sum(weight * a[source] for source, weight in neuron.weights.items()) + neuron.bias  # type: ignore
        z[neuron.name] = total
        a[neuron.name] = torch.tanh(total) if neuron.activation == "tanh" else total
    gradients = dict(zip(a, torch.autograd.grad(z["out"], list(a.values()), allow_unused=True), strict=True))
    found = {
        "answers": a,
        "pre-activations": z,
        "gradients": gradients | {"out": z["out"]},
    }[view]
    assert shown[:, 1, 2] == pytest.approx([found[name].item() for name in experiment.model.names], rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("view", VIEWS)
def test_a_square_of_a_recorded_frame_is_explained_from_the_frame_alone(view: View) -> None:
    experiment = learnt(made(), 5)
    experiment.switch("h1_3")
    experiment.view = view
    frame = experiment.frame()
    for neuron in (0, 4, len(experiment.model.names) - 1):
        why = explain_square(frame, neuron, 3, 5)
        assert why.result == pytest.approx(float(frame.tensors["plane"][neuron][3][5]), rel=2e-3, abs=1e-3)
        assert contradictions(why) == []
        assert miscalculated(why.steps, within=0.01) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"network": {"description": "a = b"}},
        {"network": {"layers": [0]}},
        {"network": {"features": []}},
        {"data": {"name": "moons"}},
        {"data": {"points": 4, "test": 0.01}},
    ],
)
def test_an_impossible_scenario_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        PlaygroundScenario.model_validate(wrong)
