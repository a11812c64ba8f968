"""Examples of attention: a row of scores, masks, several heads, and one head after another (MATH T1–T4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import exp, sqrt
from typing import TypeVar

import torch
from torch import Tensor, nn

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.interpret.circuits import (
    HeadWeights,
    bilinear_pattern,
    head_weights,
    output_value_form,
    query_key_form,
    virtual_head,
)
from txlab.engine.transformer.blocks import MultiHeadAttention, attention, pattern, scores
from txlab.engine.transformer.masks import CAUSAL, NO_MASK, GraphMask, Mask, Padding
from txlab.engine.transformer.variants import VARIANTS, softmax_over_matrix
from txlab.experiments.formulas.example import Example, Input, Misprint, Rows

VASWANI = "Vaswani et al. 2017, eq. 1"
M = TypeVar("M", bound=nn.Module)
tensor = partial(torch.tensor, dtype=torch.float64)


def unset(build: Callable[[], M]) -> M:
    """A module in float64 whose weights are still to be set.

    Nothing is drawn for them: a model that learns in another thread draws from the same generator."""
    with torch.device("meta"):
        module = build()
    return module.double().to_empty(device="cpu")


def set_weights(module: nn.Module, **weights: Tensor) -> None:
    """Set the parameters of these names, with __ for a dot."""
    module.load_state_dict({name.replace("__", "."): weight for name, weight in weights.items()}, strict=False)


def add_products(why: Explaining, name: str, left: list[float], right: list[float], note: str = "") -> None:
    """A step that is a scalar product, with its terms written out."""
    terms = [number for pair in zip(left, right, strict=True) for number in pair]
    form = " + ".join(["{} · {}"] * len(left))
    why.compute(
        name,
        form,
        lambda *all: sum(a * b for a, b in zip(all[::2], all[1::2], strict=True)),
        *terms,
        note=note,
    )


# T1


def attend(q: Rows, k: Rows, v: Rows, row: int, form: str = "") -> Explanation:
    """Yᵢ of one row, by `engine.transformer.blocks.attention`, or in the misprinted `form`."""
    queries, keys, values = map(tensor, (q, k, v))
    i, root = row - 1, sqrt(len(q[0]))
    over_matrix, divided = form == "softmax-over-matrix", form == "scaled-output"
    all_scores = scores(queries, keys) * (1 if over_matrix or not form else root)
    weights = pattern(all_scores, None)
    if over_matrix:
        weights = softmax_over_matrix(all_scores, torch.ones_like(all_scores, dtype=torch.bool))
    mixed = weights @ values / (root if divided else 1) if form else attention(queries, keys, values, NO_MASK)
    why = Explaining(f"what does position {row} receive?", mixed[i, 0].item())
    why.equation("A = softmax(Q Kᵀ / √dₖ),  Y = A V", "T1", VASWANI)
    why.input(f"q{row}", q[i], "what this position asks")
    why.input("K", k, "what each position offers")
    why.input("V", v, "what each position gives")
    why.step("q·k", "of each key", (queries @ keys.T)[i].tolist())
    why.compute("√dₖ", "√{}", sqrt, len(q[i]))
    s, shares = all_scores[i].tolist(), weights[i].tolist()
    why.step("s", "q·k / √dₖ" if over_matrix or not form else "q·k", s)
    why.step("exp(s)", "e to the power of each score", [exp(each) for each in s])
    if over_matrix:
        why.step("Σ", "over every row", all_scores.exp().sum().item())
    else:
        terms = [exp(each) for each in s]
        why.compute("Σ", " + ".join(["{}"] * len(s)), lambda *terms: sum(terms), *terms, note="over row i")
    why.step("α", "exp(s) / Σ", shares, f"sums to {sum(shares):.3g}")
    first = [value[0] for value in v]
    add_products(why, "Σ α v" if divided else "y₁", shares, first)
    if divided:
        why.compute("y₁", "{} / {}", lambda y, root: y / root, (weights @ values)[i, 0].item(), root)
    return why.result()


T1 = Example(
    "T1",
    (
        Input("q", [[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]], "queries, a row a position", -10, 10),
        Input("k", [[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]], "keys", -10, 10),
        Input("v", [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]], "values", -10, 10),
        Input("row", 1, "the position that asks", 1, 3, 1),
    ),
    attend,
    "Which position does row i look at most, and what is the first number it receives?",
    {
        name: Misprint(VARIANTS[name].says, partial(attend, form=name), parts)
        for name, parts in (("softmax-over-matrix", "Σ"), ("scaled-output", "s"), ("unscaled-scores", "s"))
    },
)

# T2

MASKS: dict[str, Mask] = {
    "none": NO_MASK,
    "causal": CAUSAL,
    "padding": Padding((2,)),
    "graph": GraphMask.of_edges(3, [(0, 1), (1, 2)]),
}
"""The padding hides the last position; along the graph each position sees the one before it, and the first nothing."""


def masked(scores: Rows, v: list[float], mask: str, row: int) -> Explanation:
    """One row under a mask, by `engine.transformer.blocks.pattern`."""
    found = MASKS[mask].allowed_pairs(3, 3)
    allowed = torch.ones(3, 3, dtype=torch.bool) if found is None else found.reshape(-1, 3, 3)[0]
    weights = pattern(tensor(scores), allowed)
    s, sees, shares = scores[row - 1], allowed[row - 1].tolist(), weights[row - 1].tolist()
    why = Explaining(f"what does position {row} receive?", (weights @ tensor(v))[row - 1].item())
    why.equation("A = softmax(Q Kᵀ / √dₖ + M),  Mᵢⱼ = 0 or −∞", "T2", "Vaswani et al. 2017, §3.2.3")
    why.input("s", s, "q·k / √dₖ of this row")
    why.input("mask", mask)
    why.input("v", v, "one number a position")
    why.step("allowed", "Mᵢⱼ = 0", [int(each) for each in sees], "0 where Mᵢⱼ = −∞")
    terms = [exp(each) * see for each, see in zip(s, sees, strict=True)]
    why.step("exp(s + M)", "exp(−∞) = 0", terms)
    why.compute("Σ", "{} + {} + {}", lambda *terms: sum(terms), *terms)
    note = "sums to 1" if any(sees) else "a position that may look at nothing receives zeros"
    why.step("α", "exp(s + M) / Σ", shares, note)
    add_products(why, "y", shares, v)
    return why.result()


T2 = Example(
    "T2",
    (
        Input("scores", [[1.0, 2.0, 3.0], [0.0, 1.0, 2.0], [2.0, 0.0, 1.0]], "q·k / √dₖ, a row a position", -20, 20),
        Input("v", [1.0, 2.0, 4.0], "values, a number a position", -10, 10),
        Input("mask", "causal", "who may look at whom", allowed=tuple(MASKS)),
        Input("row", 2, "the position that asks", 1, 3, 1),
    ),
    masked,
    "What does the position receive from those that it may look at?",
)

# T3


def two_heads(x: Rows, w_q: Rows, w_k: Rows, w_v: Rows, w_o: Rows, row: int) -> Explanation:
    """Two heads of width 1 by their bilinear forms; the layer computes the same with its four matrices."""
    layer = unset(lambda: MultiHeadAttention(2, 2, bias=False, dropout=0.0))
    maps = torch.cat([tensor(each).T for each in (w_q, w_k, w_v)])  # the layer's rows are columns here
    set_weights(layer, qkv_proj__weight=maps, out_proj__weight=tensor(w_o).T)
    X = tensor(x)[None]  # (1, T, D)
    why = Explaining(f"what do the heads add at position {row}?", layer(X, NO_MASK, "matmul")[0, row - 1, 0].item())
    why.equation("MHA(X) = Σ_h A_h X W_OV,h,  W_QK = W_Q W_Kᵀ,  W_OV = W_V W_O", "T3", "Elhage et al. 2021")
    why.input("X", x, "the stream")
    written = []
    for h in range(2):
        weights = head_weights(layer, h)
        form, carried = query_key_form(weights), output_value_form(weights).T
        shares = bilinear_pattern(layer, h, X, NO_MASK)[0, row - 1]
        adds = shares @ X[0] @ carried
        why.step(f"W_QK,{h + 1}", "W_Q W_Kᵀ", form.tolist(), f"where head {h + 1} looks")
        why.step(f"s,{h + 1}", "xᵢ W_QK xⱼᵀ / √1", (X[0, row - 1] @ form @ X[0].T).tolist())
        why.step(f"α,{h + 1}", "softmax(s)", shares.tolist())
        why.step(f"W_OV,{h + 1}", "W_V W_O", carried.tolist(), "what it carries from there")
        why.step(f"head {h + 1}", "α X W_OV", adds.tolist())
        written.append(adds[0].item())
    why.compute("y₁", "{} + {}", lambda *heads: sum(heads), *written, note="the layer's four matrices give the same")
    return why.result(scale=1e-6)  # where products cancel, the two ways differ by rounding


T3 = Example(
    "T3",
    (
        Input("x", [[1.0, 0.0], [0.0, 1.0]], "the stream, a row a position", -5, 5),
        Input("w_q", [[2.0, 0.0], [0.0, 1.0]], "W_Q; a column a head, here and in w_k and w_v", -5, 5),
        Input("w_k", [[0.0, 1.0], [2.0, 1.0]], "W_K", -5, 5),
        Input("w_v", [[1.0, 2.0], [3.0, 0.0]], "W_V", -5, 5),
        Input("w_o", [[1.0, 0.0], [0.5, 1.0]], "W_O; a row a head", -5, 5),
        Input("row", 1, "the position that is written to", 1, 2, 1),
    ),
    two_heads,
    "Which head writes more into the first number of the stream, and how much do both add to it?",
)

# T4


def one_after_another(x: Rows, a1: Rows, w1: Rows, a2: Rows, w2: Rows) -> Explanation:
    """The last row of a virtual head, by `engine.interpret.circuits.virtual_head`, and of the two heads in turn."""
    X, A1, W1, A2, W2 = map(tensor, (x, a1, w1, a2, w2))
    eye = torch.eye(2, dtype=torch.float64)
    first, second = (HeadWeights(eye, eye, each.T, eye) for each in (W1, W2))  # W_O = 1, so that W_OV is the input
    virtual = virtual_head(first, A1, second, A2)
    why = Explaining("what reaches the last position through both heads?", virtual(X)[-1, 0].item())
    why.equation("(A² ⊗ W_OV²)(A¹ ⊗ W_OV¹) = A² A¹ ⊗ W_OV¹ W_OV²", "T4", "Elhage et al. 2021")
    why.input("X", x, "the stream")
    why.input("A¹", a1, "where the earlier head looks")
    why.input("A²", a2, "where the later head looks")
    why.step("A² A¹", "the pattern of the virtual head", virtual.pattern.tolist(), "along two steps")
    why.step("W_OV¹ W_OV²", "its map", virtual.form.T.tolist())
    why.step("h", "A² A¹ X, last row", (virtual.pattern @ X)[-1].tolist(), "what it looks at")
    why.step("A¹ X W_OV¹", "what the earlier head writes", (A1 @ X @ W1).tolist())
    why.step("in turn", "A² (A¹ X W_OV¹) W_OV², last row", (A2 @ (A1 @ X @ W1) @ W2)[-1].tolist())
    add_products(why, "y₁", (virtual.pattern @ X)[-1].tolist(), virtual.form[0].tolist(), "the same in one step")
    return why.result()


T4 = Example(
    "T4",
    (
        Input("x", [[2.0, 1.0], [0.0, 1.0], [1.0, 0.0]], "the stream, a row a position", -5, 5),
        Input("a1", [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], "A¹: each looks at the one before it", 0, 1),
        Input("w1", [[1.0, 0.5], [0.0, 1.0]], "W_OV¹", -5, 5),
        Input("a2", [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], "A²: the last looks at the second", 0, 1),
        Input("w2", [[0.0, 1.0], [1.0, 0.0]], "W_OV²: the two numbers change places", -5, 5),
    ),
    one_after_another,
    "Which position does the last one hear from, and what is the first number it receives?",
)

EXAMPLES = [T1, T2, T3, T4]
