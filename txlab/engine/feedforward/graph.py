"""The graph of a feed-forward network: neurons, labelled with activations, on a directed acyclic graph whose edges have
weights (MATH F6; Becker-Kahn §2). It can be written as text, one neuron a line, and read from it:

    h1 = tanh(0.5*x - y + 0.1)
    out = h1 + 2*x            # an edge past h1; a weight that is given as _ is drawn at random

Notable: nothing evaluates the text. `ast` parses each line, and anything but a sum of numbers, names and their products
is refused by name. torch is not imported, so that a scenario can be checked without it.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from txlab.engine.syntax import in_words, syntax_tree
from txlab.errors import LabError, choices

ACTIVATIONS = ("tanh", "relu", "sigmoid", "linear", "sin", "gelu")
MOST_NEURONS = 100
DEEPEST = 2 * MOST_NEURONS  # signs and sums inside each other; each term of a sum is one
LONGEST = 10_000  # characters of a description
LONGEST_NAME = 16
DRAWN = "_"  # in the place of a number
LARGEST = 1e6  # of the numbers that are typed

Weight: TypeAlias = float | None  # None: to be drawn at random


@dataclass(frozen=True)
class Neuron:
    """a = σ(z),  z = Σᵢ wᵢ aᵢ + b

    weights      wᵢ by the name of the input or neuron i; the order is that of the description
    activation   the label σ
    """

    name: str
    weights: Mapping[str, Weight]
    bias: Weight = 0.0
    activation: str = "linear"


@dataclass(frozen=True)
class Graph:
    """inputs · neurons, each after all that it takes from: by depth, and in the order given where depths are equal."""

    inputs: tuple[str, ...]
    neurons: tuple[Neuron, ...]

    @cached_property
    def depths(self) -> Mapping[str, int]:
        """The longest way to each neuron from the inputs, which have 0. The layer of a multilayer perceptron."""
        depths = dict.fromkeys(self.inputs, 0)
        for neuron in self.neurons:
            depths[neuron.name] = 1 + max(depths[source] for source in neuron.weights)
        return depths

    @cached_property
    def levels(self) -> tuple[tuple[Neuron, ...], ...]:
        """The neurons of depth 1, 2, …"""
        levels: list[list[Neuron]] = [[] for _ in range(max(self.depths.values(), default=0))]
        for neuron in self.neurons:
            levels[self.depths[neuron.name] - 1].append(neuron)
        return tuple(tuple(level) for level in levels)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The neurons without an outgoing edge: their pre-activations are the network's output."""
        taken = {source for neuron in self.neurons for source in neuron.weights}
        return tuple(neuron.name for neuron in self.neurons if neuron.name not in taken)

    def neuron_named(self, name: str) -> Neuron:
        """LabError if there is no such neuron."""
        for neuron in self.neurons:
            if neuron.name == name:
                return neuron
        raise LabError(f"there is no neuron {name!r}{choices(name, [each.name for each in self.neurons])}")

    def draw_weights(self, normal: Callable[[], float], anew: bool = False) -> Graph:
        """With the missing weights drawn: w = g ε / √n, ε standard normal, n weights of the neuron, g = √2 for
        relu and gelu (He et al. 2015), else 1; biases 0. `anew` draws all of them."""

        def number(neuron: Neuron, weight: Weight) -> float:
            if weight is not None and not anew:
                return weight
            gain = 2.0 if neuron.activation in ("relu", "gelu") else 1.0
            return float(normal() * (gain / len(neuron.weights)) ** 0.5)

        return replace(
            self,
            neurons=tuple(
                replace(
                    each,
                    weights={source: number(each, weight) for source, weight in each.weights.items()},
                    bias=0.0 if each.bias is None or anew else each.bias,
                )
                for each in self.neurons
            ),
        )


def sort_neurons(inputs: Sequence[str], neurons: Iterable[Neuron]) -> Graph:
    """The graph of neurons given in any order. LabError that names a cycle or an unknown name."""
    waiting = {neuron.name: neuron for neuron in neurons}
    depths = dict.fromkeys(inputs, 0)
    for neuron in waiting.values():
        for source in neuron.weights:
            if source not in waiting and source not in depths:
                known = [*inputs, *waiting]
                raise LabError(f"{neuron.name} takes from {source!r}, which is nowhere{choices(source, known)}")
    neurons_by_depth = []
    while waiting:
        ready = [each for each in waiting.values() if all(source in depths for source in each.weights)]
        if not ready:
            raise LabError(
                f"{' ← '.join(circle(waiting))} is a cycle: no neuron may take from itself, even through others"
            )
        for neuron in ready:
            depths[neuron.name] = 1 + max(depths[source] for source in neuron.weights)
            neurons_by_depth.append(waiting.pop(neuron.name))
    return Graph(tuple(inputs), tuple(sorted(neurons_by_depth, key=lambda neuron: depths[neuron.name])))


def circle(waiting: Mapping[str, Neuron]) -> list[str]:
    """The names along a circle, among neurons of which each takes from one of them; the first one is also the last."""
    way = [next(iter(waiting))]
    while way[-1] not in way[:-1]:
        way.append(next(source for source in waiting[way[-1]].weights if source in waiting))
    return way[way.index(way[-1]) :]


# The text


def format_graph(graph: Graph, digits: int | None = None) -> str:
    """The description of a graph; by default with all digits, so that it is read back exactly.

    >>> format_graph(Graph(("x",), (Neuron("out", {"x": -2.0}, 0.5, "tanh"),)))
    'out = tanh(-2.0*x + 0.5)'
    """

    def number(value: Weight) -> str:
        return DRAWN if value is None else repr(float(value)) if digits is None else f"{value:.{digits}g}"

    lines = []
    for neuron in graph.neurons:
        terms = [f"{number(weight)}*{source}" for source, weight in neuron.weights.items()]
        terms += [number(neuron.bias)] if neuron.bias != 0.0 else []
        total = " + ".join(terms).replace("+ -", "- ")
        lines.append(f"{neuron.name} = {total if neuron.activation == 'linear' else f'{neuron.activation}({total})'}")
    return "\n".join(lines)


def read(text: str, inputs: Sequence[str]) -> Graph:
    """The graph of a description; its inputs are those of `inputs` that it uses, in their order.

    LabError, one sentence that names the line or the neuron: a line that is no such sum, a name that is unknown, is
    given twice, or cannot be given, a circle, and too many neurons.
    """
    if len(text) > LONGEST:
        raise LabError(f"a description has at most {LONGEST} characters; this one has {len(text)}")
    neurons: dict[str, Neuron] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.partition("#")[0].strip():
            try:
                neuron = _neuron(line)
                if neuron.name in neurons:
                    raise LabError(f"{neuron.name} is given twice")
                if neuron.name in inputs:
                    raise LabError(f"{neuron.name} is an input and cannot be given")
            except LabError as error:
                raise LabError(f"line {number}: {error}") from None
            neurons[neuron.name] = neuron
    if not neurons:
        raise LabError("a network needs a neuron, as in out = tanh(0.5*x - y + 0.1)")
    if len(neurons) > MOST_NEURONS:
        raise LabError(f"a network has at most {MOST_NEURONS} neurons here; these are {len(neurons)}")
    used = {source for neuron in neurons.values() for source in neuron.weights}
    graph = sort_neurons(inputs, neurons.values())
    return replace(graph, inputs=tuple(name for name in inputs if name in used))


def _neuron(line: str) -> Neuron:
    """The neuron of a line `name = activation(sum)` or `name = sum`."""
    try:
        parsed = syntax_tree(line.strip().replace("−", "-").replace("·", "*"), DEEPEST)
    except SyntaxError:
        raise LabError(f"{line.strip()[:40]!a} is not a neuron; write it as in h1 = tanh(0.5*x - y + 0.1)") from None
    match parsed.body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=value)]:
            pass
        case _:
            raise LabError(f"{line.strip()[:40]!a} is not a neuron; write it as in h1 = tanh(0.5*x - y + 0.1)")
    if name in (*ACTIVATIONS, DRAWN) or keyword.iskeyword(name) or len(name) > LONGEST_NAME or not name.isascii():
        raise LabError(
            f"a neuron cannot be named {name[:30]!a}; allowed: up to {LONGEST_NAME} plain letters and digits"
        )
    activation = "linear"
    if isinstance(value, ast.Call):
        if not isinstance(value.func, ast.Name) or value.func.id not in ACTIVATIONS:
            given = value.func.id if isinstance(value.func, ast.Name) else "what is called"
            raise LabError(f"{given[:30]!a} is not an activation{choices(given, ACTIVATIONS)}")
        if len(value.args) != 1 or value.keywords:
            raise LabError(f"{value.func.id} takes one sum")
        activation, value = value.func.id, value.args[0]
    weights: dict[str, Weight] = {}
    bias: Weight = 0.0
    for factor, source in _terms(value, 1.0):
        if source is None:
            bias = None if factor is None or bias is None else bias + factor
        elif source in weights:
            raise LabError(f"{source[:30]} occurs twice in the sum of {name}")
        else:
            weights[source] = factor
    if not weights:
        raise LabError(f"{name} takes from nothing")
    return Neuron(name, weights, bias, activation)


def _terms(node: ast.expr, sign: float) -> list[tuple[Weight, str | None]]:
    """The terms of a sum: (factor, name), the name being None for a number alone."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            other = sign if isinstance(op, ast.Add) else -sign
            return [*_terms(left, sign), *_terms(right, other)]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
            return _terms(operand, -sign if isinstance(op, ast.USub) else sign)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for number, name in ((left, right), (right, left)):
                if _is_number(number) and isinstance(name, ast.Name) and name.id != DRAWN:
                    [(factor, _)] = _terms(number, sign)
                    return [(factor, name.id)]
        case ast.Name(id=name):
            return [(None, None) if name == DRAWN else (sign, name)]
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            if abs(value) > LARGEST:
                raise LabError(f"a number is at most {LARGEST:g}")
            return [(sign * float(value), None)]
    raise LabError(f"a neuron is a sum of numbers, names and products like 0.5*x; it cannot have {in_words(node)}")


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id == DRAWN)
