"""Networks in layers: built, and changed while the remaining weights stay (MATH F6).

Each function takes a graph with numbers and returns another one; new weights are None (see `Graph.draw_weights`).
Neurons are named by layer and place, h2_3; the last one is `out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from txlab.engine.feedforward.graph import Graph, Neuron
from txlab.errors import LabError

OUT = "out"
MOST_LAYERS, MOST_WIDE = 6, 12


def build_layers(inputs: Sequence[str], widths: Sequence[int], activation: str) -> Graph:
    """Hidden layers of these widths and one output, all weights to be drawn."""
    sources = tuple(inputs)
    neurons: list[Neuron] = []
    for layer, width in enumerate(widths, 1):
        level = tuple(Neuron(f"h{layer}_{j + 1}", dict.fromkeys(sources), 0.0, activation) for j in range(width))
        neurons += level
        sources = tuple(each.name for each in level)
    return Graph(tuple(inputs), (*neurons, Neuron(OUT, dict.fromkeys(sources))))


def hidden_layers(graph: Graph) -> list[list[Neuron]]:
    """The hidden layers, from the inputs. LabError if the graph is not in layers with one output."""
    sources: tuple[str, ...] = graph.inputs
    for level in graph.levels:
        if any(set(neuron.weights) != set(sources) for neuron in level):
            raise LabError("this network is not in layers: it is changed by its description (t)")
        sources = tuple(neuron.name for neuron in level)
    if len(graph.levels[-1]) > 1:
        raise LabError("this network has several outputs: it is changed by its description (t)")
    return [list(level) for level in graph.levels[:-1]]


def is_layered(graph: Graph) -> bool:
    try:
        hidden_layers(graph)
    except LabError:
        return False
    return True


def rebuild_layers(inputs: Sequence[str], layers: Sequence[Sequence[Neuron]], out: Neuron) -> Graph:
    """The graph of these layers, in which each neuron keeps the weights of the inputs that remain and gets new ones."""
    sources = tuple(inputs)
    neurons: list[Neuron] = []
    for layer in (*layers, [out]):
        level = [replace(each, weights={source: each.weights.get(source) for source in sources}) for each in layer]
        neurons += level
        sources = tuple(each.name for each in level)
    return Graph(tuple(inputs), tuple(neurons))


def with_width(graph: Graph, layer: int, width: int) -> Graph:
    """With neurons added to the end of a hidden layer (0 is the first), or taken from there."""
    if not 1 <= width <= MOST_WIDE:
        raise LabError(f"a layer has 1 to {MOST_WIDE} neurons here")
    layers = hidden_layers(graph)
    if not 0 <= layer < len(layers):
        raise LabError("only a hidden layer has a width that can be changed")
    activation = layers[layer][0].activation
    new = fresh_names(graph, layer + 1, max(0, width - len(layers[layer])))
    layers[layer] = [*layers[layer][:width], *(Neuron(name, {}, 0.0, activation) for name in new)]
    return rebuild_layers(graph.inputs, layers, graph.neurons[-1])


def with_depth(graph: Graph, depth: int) -> Graph:
    """With hidden layers added before the output, as wide as the last one, or taken from there. A new layer passes its
    input on: its neuron j takes neuron j of the layer before with weight 1, and the output keeps its weights."""
    if not 0 <= depth <= MOST_LAYERS:
        raise LabError(f"a network has up to {MOST_LAYERS} hidden layers here")
    layers, out = hidden_layers(graph), graph.neurons[-1]
    if depth < len(layers):
        layers = layers[:depth]
    while len(layers) < depth:
        before = layers[-1] if layers else None
        wide, activation = (len(before), before[0].activation) if before else (4, "tanh")
        new = fresh_names(graph, len(layers) + 1, wide)
        sources = [each.name for each in before] if before else []
        layer = [Neuron(name, {}, 0.0, activation) for name in new]
        if before:
            layer = [
                replace(each, weights={source: float(i == j) for i, source in enumerate(sources)})
                for j, each in enumerate(layer)
            ]
            out = replace(out, weights=dict(zip(new, out.weights.values(), strict=True)))
        layers.append(layer)
    return rebuild_layers(graph.inputs, layers, out)


def with_inputs(graph: Graph, inputs: Sequence[str]) -> Graph:
    """With these inputs; the weights of those that stay are kept."""
    if not inputs:
        raise LabError("a network needs an input")
    return rebuild_layers(inputs, hidden_layers(graph), graph.neurons[-1])


def with_activation(graph: Graph, activation: str) -> Graph:
    """With this activation in all neurons but the outputs."""
    return replace(
        graph,
        neurons=tuple(
            each if each.name in graph.outputs else replace(each, activation=activation) for each in graph.neurons
        ),
    )


def fresh_names(graph: Graph, layer: int, count: int) -> list[str]:
    """Names for the neurons of a layer that no neuron has."""
    known = {neuron.name for neuron in graph.neurons}
    fresh = (name for j in range(1, 200) if (name := f"h{layer}_{j}") not in known)
    return [next(fresh) for _ in range(count)]
