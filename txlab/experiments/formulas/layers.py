"""Examples of what is around attention: feed-forward layer, normalisation, positions (MATH T5–T7)."""

from __future__ import annotations

from functools import partial
from operator import add
from typing import cast

import torch

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.transformer.blocks import Activation, FeedForward
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.norms import LayerNorm, RMSNorm
from txlab.engine.transformer.positions import TURNED, rotary_angles, rotate, sinusoids
from txlab.engine.transformer.variants import NORMS, VARIANTS
from txlab.experiments.formulas.attention import add_products, set_weights, tensor, unset
from txlab.experiments.formulas.example import Example, Input, Misprint, Rows

# T5


def feed_forward(
    x: list[float],
    heads: list[float],
    w1: Rows,
    b1: list[float],
    w2: Rows,
    b2: list[float],
    f: str,
    gated: str,
    w3: Rows,
    form: str = "",
) -> Explanation:
    """A position's stream after the heads, then after the feed-forward layer, by `engine.transformer.blocks`."""
    layer = unset(lambda: FeedForward(2, 3, cast(Activation, f), True, 0.0, gated == "yes"))
    W1, W3, zeros = tensor(w1), tensor(w3), torch.zeros(3, dtype=torch.float64)
    set_weights(layer, down_proj__weight=tensor(w2), down_proj__bias=tensor(b2))
    if gated == "yes":
        set_weights(layer, gate_proj__weight=W1, gate_proj__bias=tensor(b1), up_proj__weight=W3, up_proj__bias=zeros)
    else:
        set_weights(layer, up_proj__weight=W1, up_proj__bias=tensor(b1))
    hooks, kept = keeping("neurons")
    middle = tensor(x) + tensor(heads)
    out = layer(middle, hooks)
    kept_stream = tensor(x) if form else middle
    why = Explaining("what is the first number of the stream after the layer?", (kept_stream + out)[0].item())
    why.equation("x ← x + W₂ f(W₁ x + b₁) + b₂", "T5", "Vaswani et al. 2017, §3.3; He et al. 2016")
    why.input("x", x, "the stream before the block")
    why.input("heads", heads, "what attention adds")
    why.step("x + heads", "what the layer reads", middle.tolist())
    inner = W1 @ middle + tensor(b1)
    why.step("W₁ x + b₁", "F = 3 neurons", inner.tolist())
    if gated == "yes":
        why.step("W₃ x", "the gates", (W3 @ middle).tolist())
    why.step("neurons", f"{f}(W₁ x) ⊙ W₃ x" if gated == "yes" else f"{f}(W₁ x + b₁)", kept["neurons"].tolist())
    why.step("W₂ f + b₂", "what the layer adds", out.tolist())
    why.step("residual", "x" if form else "x + heads", kept_stream.tolist(), "what stays in the stream")
    why.compute("x′₁", "{} + {}", add, kept_stream[0].item(), out[0].item())
    return why.result()


T5 = Example(
    "T5",
    (
        Input("x", [1.0, -1.0], "the stream of a position", -10, 10),
        Input("heads", [0.5, 0.0], "what attention adds to it", -10, 10),
        Input("w1", [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], "W₁ (F, D)", -5, 5),
        Input("b1", [0.0, 0.0, 0.5], "b₁", -5, 5),
        Input("w2", [[1.0, 1.0, -1.0], [0.0, 2.0, 1.0]], "W₂ (D, F)", -5, 5),
        Input("b2", [0.1, 0.0], "b₂", -5, 5),
        Input("f", "relu", "the activation", allowed=("relu", "gelu", "swish")),
        Input("gated", "no", "whether f(W₁ x) is multiplied by W₃ x", allowed=("no", "yes")),
        Input("w3", [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], "W₃ (F, D), if gated", -5, 5),
    ),
    feed_forward,
    "Which of the three neurons are off, and what is the first number of the stream afterwards?",
    {
        "dropped-residual": Misprint(
            VARIANTS["dropped-residual"].says, partial(feed_forward, form="dropped-residual"), "residual"
        )
    },
)

# T6


def normalise(x: Rows, gamma: list[float], beta: list[float], epsilon: float, row: int, form: str = "") -> Explanation:
    """A position of LN(x), by `engine.transformer.norms`, or by the misprinted form of `variants`."""
    X, gain, shift = map(tensor, (x, gamma, beta))
    norm, rms = LayerNorm(3, epsilon=epsilon).double(), RMSNorm(3, epsilon).double()
    set_weights(norm, weight=gain, bias=shift)
    set_weights(rms, weight=gain)
    own = X[row - 1]
    over = X if form == "batch-statistics" else own[:, None]  # statistics are of the columns
    mean, variance = over.mean(0).squeeze(), over.var(0, correction=0).squeeze()
    divisor = variance.sqrt() + epsilon if form == "sigma-plus-epsilon" else (variance + epsilon).sqrt()
    if form == "scalar-gain":
        gain, shift = gain.mean().expand(3), shift.mean().expand(3)
    y = NORMS[form](X, tensor(gamma), tensor(beta), epsilon) if form else norm(X)
    why = Explaining(f"what is the last number of position {row}?", y[row - 1, -1].item())
    why.equation("LN(x) = γ ⊙ (x − μ) / √(σ² + ε) + β", "T6", "Ba, Kiros & Hinton 2016")
    why.input("x", x[row - 1], f"position {row}")
    why.input("γ", gamma, "one number a feature")
    why.input("β", beta, "one number a feature")
    why.step("μ", "mean of each feature over the positions" if over is X else "mean of x", mean.tolist())
    why.step("σ²", "mean (x − μ)²", variance.tolist())
    why.step("divisor", "σ + ε" if form == "sigma-plus-epsilon" else "√(σ² + ε)", divisor.tolist())
    normal = (own - mean) / divisor
    why.step("x̂", "(x − μ) / divisor", normal.tolist())
    why.step("RMS", "γ ⊙ x / √(mean x² + ε)", rms(own).tolist(), "the same without the mean and β")
    why.step("γ ⊙ x̂", "of each feature", (gain * normal).tolist())
    why.compute("y₃", "{} + {}", add, (gain * normal)[-1].item(), shift[-1].item())
    return why.result()


T6 = Example(
    "T6",
    (
        Input("x", [[1.0, 2.0, 6.0], [2.0, 2.0, 2.5], [-1.0, 0.0, 4.0]], "three positions of three features", -50, 50),
        Input("gamma", [1.0, 1.0, 2.0], "γ", -5, 5),
        Input("beta", [0.0, 0.0, 0.5], "β", -5, 5),
        Input("epsilon", 0.1, "ε; 0.00001 in most models, larger here to be seen", 1e-5, 10),
        Input("row", 1, "the position", 1, 3, 1),
    ),
    normalise,
    "Which positions does the result of this position depend on, and what is its last number?",
    {
        name: Misprint(VARIANTS[name].says, partial(normalise, form=name), parts)
        for name, parts in (("sigma-plus-epsilon", "divisor"), ("scalar-gain", "γ ⊙ x̂"), ("batch-statistics", "μ"))
    },
)

# T7


def at_positions(q: list[float], k: list[float], i: int, j: int, positions: str) -> Explanation:
    """The product of a query at i and a key at j, by `engine.transformer.positions`."""
    D, both = len(q), tensor([q, k])
    angles = rotary_angles(max(i, j) + 1, D, dtype=torch.float64)[[i, j]]
    table = sinusoids(max(i, j) + 1, D, dtype=torch.float64)[[i, j]]
    placed = rotate(both, angles) if positions == "rotary" else both + table
    why = Explaining("how much do the query and the key agree at these positions?", float(placed[0] @ placed[1]))
    why.equation("rotary: (q₂ₙ, q₂ₙ₊₁) turned by the angle t · 10000^(−2n/dₖ)", "T7", "Su et al. 2021, eq. 34")
    if positions != "rotary":
        why.equation("p[t, 2n] = sin(t ωₙ),  p[t, 2n + 1] = cos(t ωₙ)", "T7", "Vaswani et al. 2017, §3.5")
    why.input("q", q, f"at position {i}")
    why.input("k", k, f"at position {j}")
    why.step("ω", "10000^(−2n/D)", TURNED.frequencies(D).tolist(), "radians a position, of each pair")
    for name, row in (("i", 0), ("j", 1)):
        why.step(f"θ_{name}", f"{name} ω", angles[row].tolist())
        if positions != "rotary":
            why.step(f"p_{name}", "sin θ, cos θ", table[row].tolist())
    said = "each pair turned by θ" if positions == "rotary" else "with p added"
    why.step("q_i", said, placed[0].tolist())
    why.step("k_j", said, placed[1].tolist())
    add_products(why, "q_i·k_j", placed[0].tolist(), placed[1].tolist(), "before it is divided by √dₖ")
    return why.result()


T7 = Example(
    "T7",
    (
        Input("q", [1.0, 0.0, 1.0, 0.0], "a query", -5, 5),
        Input("k", [1.0, 0.0, 1.0, 0.0], "a key", -5, 5),
        Input("i", 3, "the position of the query", 0, 1000, 1),
        Input("j", 1, "the position of the key", 0, 1000, 1),
        Input("positions", "rotary", "turned, or added", allowed=("rotary", "sinusoidal")),
    ),
    at_positions,
    "What is q·k at these positions, and does it change if both move on by one?",
)

EXAMPLES = [T5, T6, T7]
