"""Examples of chapter F: descent, functions and small networks."""

from __future__ import annotations

from dataclasses import replace
from math import exp, isfinite
from operator import add, mul

import numpy as np
import torch

from txlab.engine.convolution import slid
from txlab.engine.descent.expressions import Expression, expression
from txlab.engine.descent.methods import METHODS, Settings, State, hessian_of, step
from txlab.engine.descent.regression import LineData, sample_at
from txlab.engine.explain import Explaining, Explanation
from txlab.engine.feedforward.graph import Graph, Neuron
from txlab.engine.feedforward.network import LETTERS, FeedForward
from txlab.engine.rl.policies import weights
from txlab.errors import LabError
from txlab.experiments.formulas.example import Example, Input, Misprint, Rows, indexed


def function_of(text: str, variables: str = "x") -> Expression:
    """LabError for a text that is no function of these variables."""
    f = expression(text)
    if len(f.variables) > len(variables) or not set(f.variables) <= set(variables):
        raise LabError(f"f={text} is a function of {' and '.join(f.variables)}; allowed here: a function of x")
    return f


# F1, F2: one variable


def newton(f: str, x: float, seek: str, steps: int) -> Explanation:
    """Newton's method for a root of f, or for a root of f′ where f is convex, by `engine.descent.methods`."""
    method, function = METHODS[f"newton-{seek}"], function_of(f)
    state, path = State.at([x]), []
    for _ in range(steps):
        path.append(step(method, function, state, Settings()))
        state = path[-1].after
    why = Explaining(f"where is Newton's method after {steps} steps?", float(state.x))
    why.equation("x ← x − f(x) / f′(x)" if seek == "root" else "x ← x − f′(x) / f″(x)", "F1", "Press et al. 2007, §9.4")
    why.input("f", f)
    why.input("x₀", x, "where it begins")
    for n, taken in enumerate(path):
        at = indexed("x", n)
        if taken.trouble:
            why.step("end", at, float(taken.point), taken.trouble)
            break
        above, below = taken.value, float(taken.gradient)
        names = f"f({at})", f"f′({at})"
        if seek == "minimum":
            above, below = below, float(hessian_of(function, taken.point))
            names = names[1], f"f″({at})"
        why.step(names[0], "", above)
        why.step(names[1], "", below, "the slope of the tangent" if seek == "root" else "the curvature")
        why.compute(indexed("x", n + 1), "{} − {} / {}", lambda x, f, g: x - f / g, float(taken.point), above, below)
        why.steps[-1] = replace(why.steps[-1], digits=14)  # of which each step gets about twice as many right
    return why.result()


def descent(f: str, x: float, rate: float, form: str, steps: int) -> Explanation:
    """Descent along the slope of one variable, or along its sign, by `engine.descent.methods`."""
    method, function, settings = METHODS[{"slope": "gradient", "sign": "sign"}[form]], function_of(f), Settings(rate)
    state, path = State.at([x]), []
    for _ in range(steps):
        path.append(step(method, function, state, settings))
        state = path[-1].after
    why = Explaining(f"where is x after {steps} steps?", float(state.x))
    why.equation("x ← x − γ f′(x)" if form == "slope" else "x ← x − γ sign f′(x)", "F2", method.source)
    why.input("f", f)
    why.input("x₀", x, "where it begins")
    why.input("γ", rate, "the rate")
    for n, taken in enumerate(path):
        at, slope = indexed("x", n), float(taken.gradient)
        if taken.trouble:
            why.step("end", at, float(taken.point), taken.trouble)
            break
        why.step(f"f′({at})", "", slope)
        if form == "sign":
            slope = float(taken.letters["sign ∇f"])
            why.step(f"sign f′({at})", "", slope)
        why.compute(indexed("x", n + 1), "{} − {} · {}", lambda x, r, g: x - r * g, float(taken.point), rate, slope)
    return why.result()


# F3, F4: several variables


def descent_of_two(f: str, point: list[float], method: str, rate: float, steps: int) -> Explanation:
    """Gradient descent, momentum or Adam in the plane, by `engine.descent.methods`."""
    rule, function, settings = METHODS[method], function_of(f, "xy"), Settings(rate)
    state, path = State.at(point), []
    for _ in range(steps):
        path.append(step(rule, function, state, settings))
        state = path[-1].after
    result = float(function(state.x))
    if not isfinite(result):
        raise LabError(path[0].trouble)
    why = Explaining(f"how low is f after {steps} steps?", result)
    why.equation(rule.rule.replace("x", "θ").replace("γ", "η"), "F3", rule.source)
    why.input("f", f)
    why.input("θ₀", point, "where it begins")
    why.input("η", rate, "the rate")
    for letter, value in {"momentum": [("μ", 0.9)], "adam": [("β₁", 0.9), ("β₂", 0.999)]}.get(method, []):
        why.input(letter, value)
    for n, taken in enumerate(path, 1):
        if taken.trouble:
            why.step("end", indexed("θ", n - 1), taken.point.tolist(), taken.trouble)
            break
        why.step(indexed("g", n), f"∇f({indexed('θ', n - 1)})", taken.gradient.tolist())
        if method != "gradient":
            why.step(indexed("m", n), rule.rule.split(",")[0].rpartition("← ")[2], taken.after.m.tolist())
        if method == "adam":
            why.step(indexed("v", n), "β₂ v + (1 − β₂) g²", taken.after.v.tolist())
            why.step(indexed("m̂", n), f"m / (1 − β₁^{n})", taken.letters["m̂"].tolist())
            why.step(indexed("v̂", n), f"v / (1 − β₂^{n})", taken.letters["v̂"].tolist())
        moved = {"gradient": "η g", "momentum": "η m", "adam": "η m̂ / (√v̂ + ε)"}[method]
        why.step(indexed("θ", n), f"{indexed('θ', n - 1)} − {moved}", taken.after.x.tolist())
    why.step("f", f"f({indexed('θ', state.t)})", result)
    return why.result()


def line(
    x: list[float], y: list[float], w: float, b: float, rate: float, seed: int, visited: int | None = None
) -> Explanation:
    """One epoch of stochastic descent on the error of a line, by `engine.descent`; `visited` samples of it, or all."""
    data = LineData(torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64))
    order = np.random.default_rng(seed).permutation(len(x))
    state, path = State.at([w, b]), []
    for n in range(len(x) if visited is None else visited):
        sample = data.sample(sample_at(n, len(x), lambda _: order))
        path.append(step(METHODS["sgd"], data, state, Settings(rate), sampled=sample))
        state = path[-1].after
    why = Explaining("what is the mean squared error after one epoch?", float(data(state.x)))
    why.equation("w ← w + 2 η (yᵢ − w xᵢ − b) xᵢ,  b ← b + 2 η (yᵢ − w xᵢ − b)", "F4", "Robbins & Monro 1951; Wang (4)")
    for letter, value, note in (("x", x, "of each sample"), ("y", y, "of each sample"), ("w", w, ""), ("b", b, "")):
        why.input(letter, value, note)
    why.input("η", rate, "the rate")
    why.step("order", "drawn anew for each epoch", (order + 1).tolist())
    why.step("L before", "(1/n) Σᵢ (yᵢ − w xᵢ − b)²", float(data(State.at([w, b]).x)))
    for n, taken in enumerate(path, 1):
        i, (now_w, now_b) = int(order[n - 1]), taken.point.tolist()
        form, note = "{} − {} · {} − {}", f"y − w x − b of sample {i + 1}"
        why.compute(indexed("r", n), form, lambda y, w, x, b: y - w * x - b, y[i], now_w, x[i], now_b, note=note)
        why.step(indexed("(w, b)", n), "(w, b) + 2 η r (x, 1)", taken.after.x.tolist())
    last_w, last_b = state.x.tolist()
    residuals = [target - last_w * each - last_b for each, target in zip(x, y, strict=True)]
    why.step("residuals", "yᵢ − w xᵢ − b of each sample, after the epoch", residuals)
    form = f"1 / {{}} · ({' + '.join(['{}²'] * len(x))})"
    why.compute("L", form, lambda n, *r: sum(each * each for each in r) / n, len(x), *residuals)
    return why.result()


def line_over_parameters(x: list[float], y: list[float], w: float, b: float, rate: float, seed: int) -> Explanation:
    """The same with as many updates an epoch as there are parameters."""
    return line(x, y, w, b, rate, seed, 2)


# F5–F7: functions of a network


def softmax(z: list[float], tau: float, i: int) -> Explanation:
    """pᵢ of a row, by `engine.rl.policies.weights`."""
    p = weights(z, tau)[i - 1]
    why = Explaining(f"what is the probability of number {i}?", p)
    why.equation("pᵢ = exp(zᵢ / τ) / Σⱼ exp(zⱼ / τ)", "F5", "Bridle 1990; Yang (5)")
    why.input("z", z)
    why.input("τ", tau, "temperature")
    largest = max(z)
    why.step("max", "maxⱼ zⱼ", largest, "subtracted first, so that nothing overflows; it cancels")
    scaled = [(each - largest) / tau for each in z]
    why.step("(z − max) / τ", "", scaled)
    exponentials = [exp(each) for each in scaled]
    why.step("exp", "exp((z − max) / τ)", exponentials)
    why.compute("Σ", " + ".join(["{}"] * len(z)), lambda *terms: sum(terms), *exponentials)
    why.step("p", "exp / Σ", weights(z, tau), "sums to 1")
    why.compute("pᵢ", "{} / {}", lambda one, total: one / total, exponentials[i - 1], sum(exponentials))
    return why.result()


def network(
    x: list[float], w1: Rows, b1: list[float], w2: list[float], b2: float, past: float, phi: str
) -> Explanation:
    """Two hidden neurons and an output, as the graph of `engine.feedforward`; `past` is the weight of an edge from x₁
    to the output, which no multilayer perceptron has."""
    hidden = [
        Neuron(name, {"x1": row[0], "x2": row[1]}, bias, phi)
        for name, row, bias in zip(("h1", "h2"), w1, b1, strict=True)
    ]
    out = Neuron("out", {"h1": w2[0], "h2": w2[1], "x1": past}, b2)
    graph = FeedForward(Graph(("x1", "x2"), (*hidden, out)), torch.float64)
    z, a = (each[0].tolist() for each in graph(torch.tensor([x], dtype=torch.float64)))
    why = Explaining("what does the network answer?", z[2])
    why.equation("zᵢ = bᵢ + Σ_{j→i} wⱼᵢ aⱼ,  aᵢ = φ(zᵢ)", "F6", "Becker-Kahn §2; Wang §3")
    why.input("x", x, "inputs")
    why.input("φ", LETTERS[phi], phi)
    for n, (row, bias) in enumerate(zip(w1, b1, strict=True), 1):
        why.input(indexed("w", n), row, f"weights of hidden neuron {n}")
        form = "{} + {} · {} + {} · {}"
        why.compute(indexed("z", n), form, lambda b, w, x, v, y: b + w * x + v * y, bias, row[0], x[0], row[1], x[1])
        why.step(indexed("a", n), f"φ({indexed('z', n)})", a[n + 1])
    why.input("w₃", [*w2, past], "weights of the output: from a₁, from a₂, and from x₁ past the hidden layer")
    form, terms = "{} + {} · {} + {} · {} + {} · {}", [b2, w2[0], a[2], w2[1], a[3], past, x[0]]
    why.compute(
        *("z₃", form, lambda b, *each: b + sum(map(mul, each[::2], each[1::2])), *terms),
        note="the answer: the value before an activation",
    )
    return why.result()


def convolution(x: Rows, w: Rows, b: float, i: int, j: int) -> Explanation:
    """y[i, j] of one filter with relu, by `engine.convolution.slid`."""
    planes = slid(x, w, b)
    patch = [row[j - 1 : j - 1 + len(w)] for row in x[i - 1 : i - 1 + len(w)]]
    result = max(0.0, planes[i - 1][j - 1])
    why = Explaining(f"what does the filter answer at row {i}, column {j}?", result)
    why.equation("y[i, j] = φ(b + Σ_{a,c} w[a, c] · x[i + a, j + c]),  φ = relu", "F7", "LeCun et al. 1989; Wang §3")
    why.input("x", x, "brightness of each pixel")
    why.input("w", w, "the filter")
    why.input("b", b, "bias")
    why.step("patch", "the pixels below the filter", patch)
    products = [list(map(mul, *rows)) for rows in zip(w, patch, strict=True)]
    why.step("w · patch", "pixel by pixel", products)
    flat = [each for row in products for each in row]
    why.compute("Σ", " + ".join(["{}"] * len(flat)), lambda *terms: sum(terms), *flat)
    why.step("z", "b + Σ at every place of the picture", planes)
    why.compute("z[i, j]", "{} + {}", add, b, sum(flat))
    why.compute("y[i, j]", "max(0, {})", lambda z: max(0.0, z), planes[i - 1][j - 1])
    return why.result()


STEPS = Input("steps", 3, "steps made", 1, 6, 1)
EXAMPLES = [
    Example(
        "F1",
        (
            Input("f", "x**3 - 2*x - 5", "a function of x; this is Newton's own"),
            Input("x", 2.0, "where it begins", -10, 10, 0.25),
            Input("seek", "root", "a root of f, or a minimum", allowed=("root", "minimum")),
            STEPS,
        ),
        newton,
        "Where will x be after these steps, and how many of its digits will be right?",
    ),
    Example(
        "F2",
        (
            Input("f", "x**2", "a function of x"),
            Input("x", 2.0, "where it begins", -10, 10, 0.5),
            Input("rate", 0.25, "γ", 0, 2, 0.125),
            Input("form", "slope", "how far a step goes: γ times the slope, or γ", allowed=("slope", "sign")),
            STEPS,
        ),
        descent,
        "Where will x be after these steps? From which γ on will it move away?",
    ),
    Example(
        "F3",
        (
            Input("f", "10*x**2 + y**2", "a function of x and y"),
            Input("point", [1.0, 2.0], "where it begins", -10, 10, 0.25),
            Input("method", "gradient", allowed=("gradient", "momentum", "adam")),
            Input("rate", 0.08, "η", 0, 1, 0.01),
            Input("steps", 2, "steps made", 1, 5, 1),
        ),
        descent_of_two,
        "How low will f be after these steps? Would momentum or Adam be lower?",
    ),
    Example(
        "F4",
        (
            Input("x", [0.0, 1.0, 2.0], "x of each sample", -3, 3, 0.25),
            Input("y", [1.0, 2.0, 4.0], "y of each sample", -10, 10, 0.5),
            Input("w", 0.0, "slope at the beginning", -5, 5, 0.25),
            Input("b", 0.0, "intercept at the beginning", -5, 5, 0.25),
            Input("rate", 0.1, "η", 0, 0.5, 0.02),
            Input("seed", 0, "of the order of the samples", 0, 99, 1),
        ),
        line,
        "What will the error be when each sample has been seen once?",
        {
            "loop-over-parameters": Misprint(
                "Wang §2 lets the inner loop run to m, the number of parameters (here 2: w and b), not to n.",
                line_over_parameters,
                "r₃",
            )
        },
    ),
    Example(
        "F5",
        (
            Input("z", [2.0, 1.0, 0.0], "any numbers", -20, 20, 0.5),
            Input("tau", 1.0, "τ, the temperature", 0.1, 10, 0.1),
            Input("i", 1, "the number that is asked for", 1, 3, 1),
        ),
        softmax,
        "Which share does zᵢ get? Will it be more or less at a temperature of 2?",
    ),
    Example(
        "F6",
        (
            Input("x", [1.0, -1.0], "inputs", -5, 5, 0.5),
            Input("w1", [[1.0, -1.0], [0.5, 1.0]], "weights of the hidden neurons, a row each", -5, 5, 0.25),
            Input("b1", [0.0, 0.5], "biases of the hidden neurons", -5, 5, 0.25),
            Input("w2", [1.0, -2.0], "weights of the output", -5, 5, 0.25),
            Input("b2", 0.5, "bias of the output", -5, 5, 0.25),
            Input("past", 0.0, "weight of an edge from x₁ to the output, past the hidden layer", -5, 5, 0.5),
            Input("phi", "tanh", "φ, the activation", allowed=("tanh", "relu", "sigmoid", "sin", "gelu", "linear")),
        ),
        network,
        "Is the answer above or below zero?",
    ),
    Example(
        "F7",
        (
            Input(
                "x",
                [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]],
                "brightness of each pixel",
                -1,
                1,
                0.5,
            ),
            Input("w", [[-1.0, 1.0], [-1.0, 1.0]], "the filter: bright on its right", -5, 5, 0.5),
            Input("b", -0.5, "bias", -5, 5, 0.25),
            Input("i", 1, "row of the place", 1, 3, 1),
            Input("j", 2, "column of the place", 1, 3, 1),
        ),
        convolution,
        "Where in the picture does this filter answer most, and what?",
    ),
]
