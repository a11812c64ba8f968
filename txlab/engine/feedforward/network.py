"""A feed-forward network on a labelled directed acyclic graph, and the multilayer perceptron as its special case
(MATH F6; Becker-Kahn §2, Wang §3); and explanations of a neuron's output.

Notable: neurons of one depth take from inputs and from neurons of smaller depth only, so each depth is one product with
a matrix whose missing edges are held at zero by a mask. Outputs are pre-activations, so that a loss can add its own
activation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from operator import mul

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.explain import Explaining, Explanation, bracket, number
from txlab.engine.feedforward.graph import Graph, Neuron

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "linear": lambda z: z,
    "sin": torch.sin,
    "gelu": F.gelu,
}


class FeedForward(nn.Module):
    """aⱼ = σⱼ(zⱼ),  zⱼ = Σ over edges i → j of wᵢⱼ aᵢ + bⱼ, the neurons in topological order (MATH F6).

    graph     its weights are the initial ones of this network, all of them given
    weights   of the neurons of each depth, (neurons, inputs and neurons of smaller depth)
    """

    alive: Tensor

    def __init__(self, graph: Graph, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.graph = graph
        self.names = (*graph.inputs, *(neuron.name for neuron in graph.neurons))
        place = {name: at for at, name in enumerate(self.names)}
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        before = len(graph.inputs)
        for depth, level in enumerate(graph.levels):
            weight, mask = torch.zeros(len(level), before, dtype=dtype), torch.zeros(len(level), before, dtype=dtype)
            for row, neuron in enumerate(level):
                for source, value in neuron.weights.items():
                    assert value is not None
                    weight[row, place[source]], mask[row, place[source]] = value, 1.0
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.tensor([neuron.bias for neuron in level], dtype=dtype)))
            self.register_buffer(f"mask{depth}", mask, persistent=False)
            before += len(level)
        self.register_buffer("alive", torch.ones(len(graph.neurons), dtype=dtype), persistent=False)
        self.answers = [place[name] - len(graph.inputs) for name in graph.outputs]

    def forward(self, x: Tensor, nudge: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, inputs) → z (B, neurons), a (B, inputs + neurons)

        nudge (B, neurons) is added to the activations: the gradient by it is ∂/∂a of each neuron.
        """
        a, pre_activations, first = x, [], 0
        for depth, level in enumerate(self.graph.levels):
            mask: Tensor = getattr(self, f"mask{depth}")
            z = torch.addmm(self.biases[depth], a, (self.weights[depth] * mask).T)  # (B, level)
            end = first + len(level)
            h = activate(z, level)
            if nudge is not None:
                h = h + nudge[:, first:end]
            a = torch.cat([a, h * self.alive[first:end]], 1)
            pre_activations.append(z)
            first = end
        return torch.cat(pre_activations, 1), a

    def answer(self, x: Tensor) -> Tensor:
        """(B, outputs): the pre-activations of the outputs."""
        z: Tensor = self(x)[0]
        return z[:, self.answers]

    def switch_off(self, names: Collection[str]) -> None:
        """Silence these neurons: they output 0, all others what they compute."""
        self.alive.copy_(torch.tensor([float(neuron.name not in names) for neuron in self.graph.neurons]))

    def present(self) -> Graph:
        """The graph with the weights of now."""
        neurons = []
        place = {name: at for at, name in enumerate(self.names)}
        for weight, bias, level in zip(self.weights, self.biases, self.graph.levels, strict=True):
            numbers, offsets = weight.tolist(), bias.tolist()
            for row, neuron in enumerate(level):
                taken = {source: numbers[row][place[source]] for source in neuron.weights}
                neurons.append(Neuron(neuron.name, taken, offsets[row], neuron.activation))
        return Graph(self.graph.inputs, tuple(neurons))


def activate(z: Tensor, level: Sequence[Neuron]) -> Tensor:
    """σⱼ(zⱼ) of each column j."""
    labels = [neuron.activation for neuron in level]
    if len(set(labels)) == 1:
        return FUNCTIONS[labels[0]](z)
    return torch.stack([FUNCTIONS[label](z[:, column]) for column, label in enumerate(labels)], 1)


class MLP(nn.Module):
    """h ← σ(W h + b) for each layer but the last, which answers W h + b (MATH F6; Wang §3)."""

    def __init__(self, widths: Sequence[int], activation: str = "tanh", dtype: torch.dtype = torch.float32) -> None:
        """widths   inputs, width of each hidden layer, outputs"""
        super().__init__()
        self.activation = activation
        self.layers = nn.ModuleList(nn.Linear(into, out, dtype=dtype) for into, out in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = FUNCTIONS[self.activation](layer(x))
        output: Tensor = last(x)
        return output


def mlp_as_dag(mlp: MLP, inputs: Sequence[str]) -> FeedForward:
    """The same network as a graph: neuron j of layer l is an edge from each neuron of layer l − 1 (MATH F6)."""
    sources, neurons = list(inputs), []
    last = len(mlp.layers) - 1
    for depth, layer in enumerate(mlp.layers):
        weight, bias = layer.weight.tolist(), layer.bias.tolist()  # type: ignore[union-attr, operator]
        label = "linear" if depth == last else mlp.activation
        level = [
            Neuron(f"h{depth + 1}_{row + 1}", dict(zip(sources, weights, strict=True)), bias[row], label)
            for row, weights in enumerate(weight)
        ]
        neurons += level
        sources = [neuron.name for neuron in level]
    return FeedForward(Graph(tuple(inputs), tuple(neurons)), mlp.layers[0].weight.dtype)  # type: ignore[arg-type]


LETTERS = {
    "tanh": "tanh z", "relu": "max(0, z)", "sigmoid": "1 / (1 + e^−z)", "linear": "z", "sin": "sin z",
    "gelu": "z Φ(z)",
}  # fmt: skip


@torch.no_grad()
def explain_neuron(network: FeedForward, x: Tensor, name: str, where: str = "", of_sum: bool = False) -> Explanation:
    """z = Σᵢ wᵢ aᵢ + b and a = σ(z) of a neuron at one point x (inputs), from the network's own forward pass.

    where   the point in words. LabError if there is no such neuron.
    of_sum  explain z, as always for an output
    """
    neuron = network.present().neuron_named(name)
    z, a = network(x[None])
    place = {each: at for at, each in enumerate(network.names)}
    own = place[name]
    first = len(network.graph.inputs)
    total, answer = float(z[0, own - first]), float(a[0, own])
    is_output = name in network.graph.outputs
    of_sum = of_sum or is_output
    sources = list(neuron.weights)
    values = [float(a[0, place[source]]) for source in sources]
    weights = [float(weight) for weight in neuron.weights.values() if weight is not None]
    assert neuron.bias is not None
    result = total if of_sum else answer
    verb = "sum up to" if of_sum and not is_output else "answer"
    why = Explaining(f"why does {name} {verb} {number(result, 3)}{where}?", result, sources)
    why.input("wᵢ", weights)
    why.input("aᵢ", values, "its input")
    why.input("b", neuron.bias, "bias")
    terms = [weight * value for weight, value in zip(weights, values, strict=True)] + [neuron.bias]
    for source, weight, value in zip(sources, weights, values, strict=True):
        why.compute(source, "{} · {}", mul, weight, value)
    meaning = "pre-activation" + (": the answer of the network" if is_output else "")
    why.compute("z", " + ".join(["{}"] * len(terms)), lambda *each: sum(each), *terms, note=meaning)
    equation = "z = Σᵢ wᵢ aᵢ + b"
    if not of_sum:
        letters = LETTERS[neuron.activation]
        equation += f",  a = {letters}"
        if network.alive[own - first] == 0:
            why.step("a", "0", 0.0, "switched off")
        else:
            written = letters.replace("−z", f"−{bracket(total)}").replace("z", bracket(total))
            why.step("a", written, float(FUNCTIONS[neuron.activation](z[0, own - first])), neuron.activation)
    why.equation(equation, "F6", "Becker-Kahn §2; Wang §3")
    return why.result()


def explain_gradient(network: FeedForward, x: Tensor, name: str, where: str = "") -> Explanation:
    """∂out/∂aᵢ = Σ over edges i → k of wᵢₖ σ′ₖ(zₖ) ∂out/∂aₖ of an input or a neuron that is not an output, at one point
    x (inputs): back-propagation, one step of it; out is the sum of the outputs.

    where   the point in words. LabError if there is no such neuron.
    """
    graph, first = network.graph, len(network.graph.inputs)
    if name not in graph.inputs:
        graph.neuron_named(name)
    x = x[None].detach().requires_grad_()
    nudge = torch.zeros(1, len(graph.neurons), dtype=x.dtype, requires_grad=True)
    z, _ = network(x, nudge)
    by_input, by_neuron = torch.autograd.grad(
        z[:, network.answers].sum(), [x, nudge], allow_unused=True, materialize_grads=True
    )
    place = {each: at for at, each in enumerate(network.names)}
    gradient = torch.cat([by_input, by_neuron], 1)[0]
    slopes = slopes_of(graph, z.detach()[0])
    result = float(gradient[place[name]])
    followers = [neuron for neuron in network.present().neurons if name in neuron.weights]
    why = Explaining(
        f"why does the answer change by {number(result, 3)} for each unit of {name}{where}?",
        result,
        [neuron.name for neuron in followers],
    )
    terms = []
    is_off = place[name] >= first and network.alive[place[name] - first] == 0
    for neuron in () if is_off else followers:
        own, weight = place[neuron.name] - first, neuron.weights[name]
        assert weight is not None
        if neuron.name in graph.outputs:
            terms.append(weight)
            why.compute(neuron.name, "{}", lambda w: w, weight, note="wᵢₖ; the answer itself follows its sum")
        elif network.alive[own] == 0:
            why.step(neuron.name, "0", 0.0, "switched off")
        else:
            slope, onward = float(slopes[own]), float(gradient[first + own])
            why.compute(neuron.name, "{} · {} · {}", lambda w, s, g: w * s * g, weight, slope, onward)
            terms.append(weight * slope * onward)
    if is_off or not terms:
        why.step("∂out/∂a", "0", 0.0, "switched off" if is_off else "nothing that is on follows it")
    else:
        why.compute("∂out/∂a", " + ".join(["{}"] * len(terms)), lambda *each: sum(each), *terms, note="over all paths")
    why.equation("∂out/∂aᵢ = Σₖ wᵢₖ σ′(zₖ) ∂out/∂aₖ", "F6", "back-propagation; Rumelhart, Hinton and Williams 1986")
    return why.result()


def slopes_of(graph: Graph, z: Tensor) -> Tensor:
    """σ′ⱼ(zⱼ) of each neuron j (neurons)."""
    z = z.detach().requires_grad_()
    answers = torch.stack([FUNCTIONS[neuron.activation](each) for neuron, each in zip(graph.neurons, z, strict=True)])
    (slopes,) = torch.autograd.grad(answers.sum(), z)
    return slopes
