"""Why a neuron answers what it does: its sum, term by term, and its activation (MATH F6)."""

from __future__ import annotations

import torch
from torch import Tensor

from txlab.engine.explain import Explanation, Operand, Step, bracketed, number
from txlab.engine.feedforward.network import FeedForward

LETTERS = {
    "tanh": "tanh z", "relu": "max(0, z)", "sigmoid": "1 / (1 + e^−z)", "linear": "z", "sin": "sin z",
    "gelu": "z Φ(z)",
}  # fmt: skip


@torch.no_grad()
def explain_neuron(network: FeedForward, x: Tensor, name: str, where: str = "") -> Explanation:
    """z = Σᵢ wᵢ aᵢ + b and a = σ(z) of a neuron at one point x (inputs), from the network's own forward pass.

    where   the point in words. LabError if there is no such neuron.
    """
    neuron = network.present().named(name)
    z, a = network(x[None])
    place = {each: at for at, each in enumerate(network.names)}
    own = place[name]
    first = len(network.graph.inputs)
    total, answer = float(z[0, own - first]), float(a[0, own])
    output = name in network.graph.outputs
    sources = list(neuron.weights)
    values = [float(a[0, place[source]]) for source in sources]
    weights = [float(weight) for weight in neuron.weights.values() if weight is not None]
    products = [weight * value for weight, value in zip(weights, values, strict=True)]
    steps = [
        Step(source, f"{number(weight)} · {bracketed(value)}", weight * value)
        for source, weight, value in zip(sources, weights, values, strict=True)
    ]
    assert neuron.bias is not None
    operands = [Operand("w", weights), Operand("a", values, "what it takes in"), Operand("b", neuron.bias, "bias")]
    sum_of = " + ".join(bracketed(each) if i else number(each) for i, each in enumerate([*products, neuron.bias]))
    steps.append(Step("z", sum_of, total, "pre-activation" + (": the answer of the network" if output else "")))
    if not output:
        letters = LETTERS[neuron.activation].replace("−z", f"−{bracketed(total)}").replace("z", bracketed(total))
        off = network.alive[own - first] == 0
        steps.append(Step("a", "0" if off else letters, answer, "switched off" if off else neuron.activation))
    result = total if output else answer
    return Explanation(
        question=f"why does {name} answer {number(result, 3)}{where}?",
        equation="z = Σᵢ wᵢ aᵢ + b" + ("" if output else f",  a = {LETTERS[neuron.activation]}"),
        math="F6",
        source="Becker-Kahn §2; Wang §3",
        operands=operands,
        steps=steps,
        result=result,
        labels=sources,
    )
