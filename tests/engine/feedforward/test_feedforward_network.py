"""Feed-forward networks: a multilayer perceptron is one on a graph, text is read rightly or refused in a sentence."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from txlab.engine.feedforward.graph import ACTIVATIONS, Graph, Neuron, format_graph, read
from txlab.engine.feedforward.network import MLP, FeedForward, explain_gradient, explain_neuron, mlp_as_dag
from txlab.errors import LabError

SCALAR = {
    "tanh": math.tanh,
    "relu": lambda z: max(0.0, z),
    "sigmoid": lambda z: 1 / (1 + math.exp(-z)),
    "linear": lambda z: z,
    "sin": math.sin,
    "gelu": lambda z: z * (1 + math.erf(z / 2**0.5)) / 2,
}


@settings(max_examples=30, deadline=None)
@given(
    widths=st.lists(st.integers(1, 6), min_size=2, max_size=5),
    activation=st.sampled_from(ACTIVATIONS),
    seed=st.integers(0, 10**6),
)
def test_a_multilayer_perceptron_is_the_network_on_its_graph(widths: list[int], activation: str, seed: int) -> None:
    """MATH F6: the answers and every gradient, to rounding in fp64."""
    torch.manual_seed(seed)
    mlp = MLP(widths, activation, torch.float64)
    dag = mlp_as_dag(mlp, [f"x{place}" for place in range(widths[0])])
    x = torch.randn(7, widths[0], dtype=torch.float64)
    wanted = torch.randn(7, widths[-1], dtype=torch.float64)
    for network, answer in ((mlp, mlp(x)), (dag, dag.answer(x))):
        ((answer - wanted) ** 2).mean().backward()
        assert network is mlp or torch.allclose(answer, mlp(x), rtol=0, atol=1e-12)
    first = 0
    for depth, layer in enumerate(mlp.layers):
        first = dag.weights[depth].shape[1] - layer.weight.shape[1]
        assert torch.allclose(dag.weights[depth].grad[:, first:], layer.weight.grad, rtol=0, atol=1e-12)
        assert not dag.weights[depth].grad[:, :first].any()  # no edge, no gradient
        assert torch.allclose(dag.biases[depth].grad, layer.bias.grad, rtol=0, atol=1e-12)


def by_hand(graph: Graph, point: dict[str, float], added: dict[str, float] | None = None) -> dict[str, float]:
    """Pre-activations, neuron after neuron, in plain Python; `added` is added to activations."""
    a, z = dict(point), {}
    for neuron in graph.neurons:
        z[neuron.name] = sum(weight * a[source] for source, weight in neuron.weights.items()) + neuron.bias  # type: ignore
        a[neuron.name] = SCALAR[neuron.activation](z[neuron.name]) + (added or {}).get(neuron.name, 0.0)
    return z


numbers = st.floats(-3, 3).map(lambda value: float(f"{value:.3g}"))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any labelled directed acyclic graph of up to 8 neurons."""
    known, neurons = ["x", "y"], []
    for place in range(draw(st.integers(1, 8))):
        sources = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True))
        weights = {source: draw(numbers) for source in sources}
        neurons.append(Neuron(f"h{place}", weights, draw(numbers), draw(st.sampled_from(ACTIVATIONS))))
        known.append(f"h{place}")
    text = "\n".join(reversed(format_graph(Graph(("x", "y"), tuple(neurons))).splitlines()))  # in any order
    return read(text, ["x", "y"])


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), x=numbers, y=numbers)
def test_any_graph_answers_what_its_neurons_answer_one_by_one(graph: Graph, x: float, y: float) -> None:
    network = FeedForward(graph, torch.float64)
    point = {"x": x, "y": y}
    z, _ = network(torch.tensor([[point[name] for name in graph.inputs]], dtype=torch.float64))
    wanted = by_hand(graph, point)
    assert z[0].tolist() == pytest.approx([wanted[neuron.name] for neuron in graph.neurons], rel=1e-9, abs=1e-9)
    assert read(format_graph(network.present()), ["x", "y"]) == graph  # written exactly, and read again


@settings(max_examples=30, deadline=None)
@given(graph=graphs(), x=numbers, y=numbers)
def test_a_neurons_why_is_its_answer_and_its_terms_add_up(graph: Graph, x: float, y: float) -> None:
    network = FeedForward(graph, torch.float64)
    point = torch.tensor([{"x": x, "y": y}[name] for name in graph.inputs], dtype=torch.float64)
    wanted = by_hand(graph, {"x": x, "y": y})
    for neuron in graph.neurons:
        why = explain_neuron(network, point, neuron.name)
        z = wanted[neuron.name]
        output = neuron.name in graph.outputs
        assert why.result == pytest.approx(z if output else SCALAR[neuron.activation](z), rel=1e-9, abs=1e-9)
        products = [step.result for step in why.steps if step.name in neuron.weights]
        assert list(why.labels) == list(neuron.weights)
        assert sum(products) + neuron.bias == pytest.approx(z, rel=1e-9, abs=1e-9)  # type: ignore[operator, arg-type]


def test_the_gradient_by_the_activation_of_a_neuron_is_how_the_answer_follows_it() -> None:
    text = "h1 = tanh(2*x - y)\nh2 = sigmoid(x + 0.5)\nh3 = sin(h1 - 3*h2 + y)\nh4 = gelu(h1)\nout = h3 + 2*h4 - h1"
    graph, point = read(text, ["x", "y"]), {"x": 0.7, "y": -0.3}
    network = FeedForward(graph, torch.float64)
    nudge = torch.zeros(1, len(graph.neurons), dtype=torch.float64, requires_grad=True)
    place = [neuron.name for neuron in graph.neurons].index("out")
    z, _ = network(torch.tensor([[0.7, -0.3]], dtype=torch.float64), nudge)
    (found,) = torch.autograd.grad(z[0, place], nudge)
    ends = [[by_hand(graph, point, {neuron.name: by})["out"] for by in (1e-6, -1e-6)] for neuron in graph.neurons]
    assert found[0].tolist() == pytest.approx([(up - down) / 2e-6 for up, down in ends], abs=1e-8)


@pytest.mark.parametrize("off", ["", "h2", "h3"])
def test_the_why_of_a_gradient_adds_up_what_goes_through_each_neuron_that_follows(off: str) -> None:
    text = "h1 = tanh(2*x - y)\nh2 = sigmoid(x + 0.5)\nh3 = sin(h1 - 3*h2 + y)\nh4 = gelu(h1)\nout = h3 + 2*h4 - h1"
    graph = read(text, ["x", "y"])
    network = FeedForward(graph, torch.float64)
    network.switch_off([off] if off else [])
    point = torch.tensor([0.7, -0.3], dtype=torch.float64)
    for name in ("x", "y", "h1", "h2", "h3", "h4"):
        ends = []
        for by in (1e-6, -1e-6):
            moved = point.clone()
            nudge = torch.zeros(1, len(graph.neurons), dtype=torch.float64)
            if name in graph.inputs:
                moved[graph.inputs.index(name)] += by
            else:
                nudge[0, [neuron.name for neuron in graph.neurons].index(name)] = by
            ends.append(float(network(moved[None], nudge)[0][0, -1].detach()))
        why = explain_gradient(network, point, name)
        assert why.result == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-8)
        *paths, total = why.steps
        if name != off:
            assert [step.name for step in paths] == list(why.labels)
            assert sum(step.result for step in paths) == pytest.approx(why.result, abs=1e-12)  # type: ignore[arg-type]
        assert total.result == pytest.approx(why.result, abs=1e-12)
    with pytest.raises(LabError):
        explain_gradient(network, point, "h9")


def test_the_why_of_a_sum_ends_before_the_activation() -> None:
    network = FeedForward(read("h = tanh(2*x)\nout = 3*h", ["x"]), torch.float64)
    why = explain_neuron(network, torch.tensor([1.5], dtype=torch.float64), "h", of_sum=True)
    assert (why.result, why.steps[-1].name) == (3.0, "z")


def test_a_neuron_that_is_off_answers_nothing_and_the_gradient_passes_it_by() -> None:
    network = FeedForward(read("h = tanh(2*x)\nout = 3*h + 1*x + 0.5", ["x"]))
    network.switch_off(["h"])
    x = torch.tensor([[1.5]])
    network.answer(x).sum().backward()
    assert network.answer(x).item() == 2.0
    assert not network.weights[0].grad.any()
    assert "switched off" in explain_neuron(network, x[0], "h").steps[-1].note


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h = tanh(h)", "h ← h is a cycle"),
        ("a = b\nc = x\nb = 2*a + c", "a ← b ← a is a cycle"),
        ("a = x\na = y", "line 2: a is given twice"),
        ("x = y", "line 1: x is an input"),
        ("a = 2*z", "a takes from 'z', which is nowhere"),
        ("a = foo(x)", "line 1: 'foo' is not an activation"),
        ("a = tanh(x, y)", "line 1: tanh takes one sum"),
        ("a = x + 2*x", "line 1: x occurs twice in the sum of a"),
        ("a = 3", "line 1: a takes from nothing"),
        ("a = x*y", "it cannot have such a product"),
        ("a = x if y else 2", "it cannot have a choice with if and else"),
        ("a = 1e999*x", "a number is at most 1e+06"),
        ("a = [x", "is not a neuron"),
        ("tanh = x", "a neuron cannot be named 'tanh'"),
        ("a" * 40 + " = x", "a neuron cannot be named"),
        ("import os", "is not a neuron"),
        ("a = __import__('os').system('x')", "is not an activation"),
        ("", "a network needs a neuron"),
        ("\n".join(f"a{place} = x" for place in range(101)), "at most 100 neurons"),
        ("a = " + "+".join(f"{place}" for place in range(2000)), "at most 200 operations"),
        ("a = " + "-" * 1500 + "1*x", "at most 200 operations"),
        ("a = x*" + "-" * 1500 + "1", "at most 200 operations"),
        ("a = tanh(" + "+" * 1500 + "x)", "at most 200 operations"),
        ("a = x" + ".b" * 1500, "at most 200 operations"),
        ("a = " + "9" * 400 + "*x", "a number is at most 1e+06"),
        ("a = x + 0x" + "f" * 6000, "a number is at most 1e+06"),
        ("a = " + "(" * 900 + "x" + ")" * 900, "is not a neuron"),
    ],
)
def test_an_invalid_network_is_refused_with_an_error(text: str, said: str) -> None:
    with pytest.raises(LabError) as error:
        read(text, ["x", "y"])
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_a_description_is_read_as_it_is_written_by_hand() -> None:
    text = "# two neurons\nout = -h1 + 2*x - y*0.5   # past h1\n\nh1 = relu(_*x - 3 + _)\n"
    graph = read(text, ["w", "x", "y"])
    assert graph == Graph(
        ("x", "y"), (Neuron("h1", {"x": None}, None, "relu"), Neuron("out", {"h1": -1.0, "x": 2.0, "y": -0.5}))
    )
    assert (graph.outputs, dict(graph.depths)) == (("out",), {"x": 0, "y": 0, "h1": 1, "out": 2})
