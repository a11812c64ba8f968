"""Examples of chapter R: recurrent networks of one or two units, and texts of two letters."""

from __future__ import annotations

from math import exp, prod, tanh
from operator import mul

import torch

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.recurrent.cells import CELLS, Cell
from txlab.engine.recurrent.network import run_cells
from txlab.engine.recurrent.translation import additive_scores
from txlab.engine.recurrent.why import NOTES
from txlab.engine.transformer.blocks import pattern
from txlab.engine.transformer.blocks import scores as dot_scores
from txlab.engine.transformer.scoring import Score, score_rows
from txlab.errors import LabError
from txlab.experiments.formulas.example import Example, Input, Misprint, Rows, indexed

LONGEST = 30


def tensor(rows: Rows | list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def text_probability(text: str, p: list[float]) -> Explanation:
    """The perplexity of a text of the letters a and b, by `engine.transformer.scoring`."""
    if not 1 <= len(text) <= LONGEST or set(text) - set("ab"):
        raise LabError(f"text={text[:LONGEST]!r} is not allowed; allowed: 1 to {LONGEST} letters a and b, as in aabab")
    table = tensor([[each, 1 - each] for each in p]).log()  # (2 + 1, 2): ln p of a and b at the start, after a, after b
    ids = ["ab".index(letter) for letter in text]
    before = [0, *(each + 1 for each in ids[:-1])]
    score = Score("log-probability", tuple(score_rows(table[before], torch.tensor(ids), range(len(ids)))))
    why = Explaining(f"how uncertain is the model about {text!r}?", score.perplexity)
    why.equation("p(x₁ … x_T) = Πₜ p(xₜ | x₁ … xₜ₋₁),  perplexity = exp(−(1/T) Σₜ ln p)", "R1", "Shannon 1948; Wang §3")
    why.input("x", text)
    for place, each in zip(("at the start", "after a", "after b"), p, strict=True):
        why.input(f"p(a) {place}", each)
    shares = [p[row] if each == 0 else 1 - p[row] for row, each in zip(before, ids, strict=True)]
    why.step("p(xₜ)", "p(xₜ | xₜ₋₁) of each letter", shares)
    why.compute(
        "Π", " · ".join(["{}"] * len(shares)), lambda *each: prod(each), *shares, note="the probability of the text"
    )
    why.step("ln p(xₜ)", "nats", [token.logp for token in score.tokens])
    why.step("Σ ln p", "nats", score.total)
    why.compute("L", "−1 / {} · {}", lambda T, total: -total / T, len(text), score.total, note="nats a token")
    why.step("bits per byte", f"T · L / (ln 2 · {len(text)} bytes)", score.bits_per_byte(len(text)))
    why.compute("perplexity", "exp({})", exp, score.mean, note="as many equally likely letters")
    return why.result()


def through_time(x: list[float], w: float, u: float, target: float) -> Explanation:
    """∂L/∂h₁ of one tanh unit, by autograd through `engine.recurrent.network.run_cells`."""
    cell = cell_of("rnn", [[w]], [[u]])
    states: list[torch.Tensor] = []
    run_cells(
        cell, tensor([[each] for each in x])[None], cell.start(1), look=lambda t, values: states.append(values["h"])
    )
    loss = (states[-1] - target).square().sum() / 2
    gradients = [float(each) for each in torch.autograd.grad(loss, states)]
    why = Explaining("how much of the gradient reaches the first state?", gradients[0])
    equation = "∂L_T/∂hₜ = ∂L_T/∂h_T · Π_{k=t+1}^{T} ∂h_k/∂h_{k−1},  h_k = tanh(w x_k + u h_{k−1}),  L = ½ (h_T − y)²"
    why.equation(equation, "R2", "Hochreiter 1991; Bengio, Simard & Frasconi 1994; Mehlig")
    why.input("x", x, "input of each step")
    why.input("w", w, "weight of the input")
    why.input("u", u, "weight of the state before")
    why.input("y", target, "wanted at the end")
    h = [each.item() for each in states]
    for k, before in enumerate([0.0, *h[:-1]]):
        form = "tanh({} · {} + {} · {})"
        why.compute(indexed("h", k + 1), form, lambda w, x, u, h: tanh(w * x + u * h), w, x[k], u, before)
    factors = [u * (1 - each * each) for each in h[1:]]
    why.step("∂h_k/∂h_{k−1}", "u (1 − h_k²) of k = 2 … T", factors)
    why.compute("∂L/∂h_T", "{} − {}", lambda h, y: h - y, h[-1], target)
    why.step("∂L/∂hₜ", "of t = T … 1: times the factors, one after another", gradients[::-1])
    why.compute("∂L/∂h₁", " · ".join(["{}"] * len(x)), lambda *each: prod(each), h[-1] - target, *factors)
    return why.result()


def cell_of(name: str, w: Rows, u: Rows) -> Cell:
    """A cell of float64 with these matrices and no biases; both have the rows of each sum below each other."""
    cell = CELLS[name](len(w[0]), len(u[0]), torch.Generator()).double()  # torch's own state is that of a training
    with torch.no_grad():
        for parameter, value in ((cell.W, tensor(w)), (cell.U, tensor(u)), (cell.b, 0), (cell.c, 0)):
            parameter.copy_(torch.as_tensor(value))
    return cell


def gated(x: float, h: list[float], w: Rows, uz: Rows, ur: Rows, u: Rows, name: str = "gru-mehlig") -> Explanation:
    """h′ of two gated units, by `engine.recurrent.cells`."""
    z_row, r_row, n_row = w
    columns = [[each] for each in (*r_row, *z_row, *n_row)]  # of one input; the cells have r, z, n in this order
    cell, state = cell_of(name, columns, [*ur, *uz, *u]), (tensor([h]),)
    with torch.no_grad():
        gates = cell.gates(cell.drive(tensor([[x]])), state)
        after = cell.next(gates, state)[0][0].tolist()
    z, r, n = (gates[gate][0].tolist() for gate in "zrn")
    why = Explaining("what is the new state of the first unit?", after[0])
    why.equation(
        "z = σ(W_z x + U_z h),  r = σ(W_r x + U_r h),  n = tanh(W x + U (r ⊙ h)),  h′ = (1 − z) ⊙ n + z ⊙ h"
        if name == "gru-mehlig"
        else "z, r as before,  n = tanh(W x + r ⊙ (U h)),  h′ = (1 − z) ⊙ n + z ⊙ h",
        "R3",
        cell.source,
    )
    why.input("x", x, "the input")
    why.input("h", h, "the state")
    for letter, value in (("W_z, W_r, W", w), ("U_z", uz), ("U_r", ur), ("U", u)):
        why.input(letter, value)
    why.step("z", "σ(W_z x + U_z h)", z, NOTES["z"])
    why.step("r", "σ(W_r x + U_r h)", r, NOTES["r"])
    if name == "gru-mehlig":
        kept = list(map(mul, r, h))
        why.step("U …", "U (r ⊙ h)", [sum(map(mul, row, kept)) for row in u], "the gate before the product")
    else:
        through = [gate * sum(map(mul, row, h)) for gate, row in zip(r, u, strict=True)]
        why.step("U …", "r ⊙ (U h)", through, "the gate after the product")
    why.step("n", "tanh(W x + U …)", n, NOTES["n"])
    why.step("h′", "(1 − z) ⊙ n + z ⊙ h", after)
    form = "(1 − {}) · {} + {} · {}"
    why.compute("h′₁", form, lambda z, n, same, h: (1 - z) * n + same * h, z[0], n[0], z[0], h[0])
    return why.result()


def reset_after(x: float, h: list[float], w: Rows, uz: Rows, ur: Rows, u: Rows) -> Explanation:
    """The same with the reset gate after the recurrent product."""
    return gated(x, h, w, uz, ur, u, "gru")


def attend(q: list[float], h: Rows, w: Rows, u: Rows, v: list[float], score: str) -> Explanation:
    """The context of a decoder's state, by `engine.recurrent.translation`."""
    query, memory = tensor(q), tensor(h)
    queries, keys = tensor(w) @ query, memory @ tensor(u).T
    e = (additive_scores(queries[None, None], keys[None], tensor(v))[0] if score == "additive"
         else dot_scores(query[None], memory))[0]  # fmt: skip
    shares = pattern(e[None], None)[0]
    context = (shares @ memory).tolist()
    why = Explaining("what does the decoder read of the source?", context[0])
    additive = score == "additive"
    why.equation(
        f"eₛ = {'vᵀ tanh(W q + U hₛ)' if additive else 'q · hₛ / √H'},  c = Σₛ softmaxₛ(eₛ) hₛ", "R4",
        "Bahdanau, Cho & Bengio 2015" if additive else "Luong, Pham & Manning 2015, and divided by √H as in T1",
    )  # fmt: skip
    why.input("q", q, "the decoder's state")
    why.input("h", h, "the encoder's state at each place of the source")
    if additive:
        why.input("W", w)
        why.input("U", u)
        why.input("v", v)
        why.step("W q", "", queries.tolist())
        why.step("U h", "of each place", keys.tolist())
        why.step("tanh", "tanh(W q + U hₛ)", (queries + keys).tanh().tolist())
    else:
        why.step("q · h", "of each place", (memory @ query).tolist())
    why.step("e", "the score of each place", e.tolist())
    exponentials = e.exp().tolist()
    why.step("exp(e)", "", exponentials)
    why.compute("Σ", " + ".join(["{}"] * len(h)), lambda *terms: sum(terms), *exponentials)
    why.step("softmax", "exp(e) / Σ", shares.tolist(), "the share of each place")
    why.step("c", "the mean of h with these shares", context)
    terms = [number for share, row in zip(shares.tolist(), h, strict=True) for number in (share, row[0])]
    form = " + ".join(["{} · {}"] * len(h))
    why.compute("c₁", form, lambda *each: sum(map(mul, each[::2], each[1::2])), *terms)
    return why.result()


ONE = [[1.0, 0.0], [0.0, 1.0]]
CROSSED = [[0.0, 2.0], [2.0, 0.0]]
EXAMPLES = [
    Example(
        "R1",
        (
            Input("text", "aabab", f"a text of up to {LONGEST} letters a and b"),
            Input("p", [0.5, 0.2, 0.9], "probability of an a: at the start, after a, after b", 0.05, 0.95, 0.05),
        ),
        text_probability,
        "Is the model more or less uncertain than a coin, whose perplexity is 2?",
    ),
    Example(
        "R2",
        (
            Input("x", [1.0, 0.0, 0.0, 0.0, 0.0], "the input of each step", -3, 3, 0.25),
            Input("w", 1.0, "weight of the input", -3, 3, 0.25),
            Input("u", 0.9, "weight of the state before", -3, 3, 0.1),
            Input("target", 1.0, "y, wanted at the end", -1, 1, 0.25),
        ),
        through_time,
        "How much of ∂L/∂h₅ reaches h₁: more than a half? Is there a u with which all of it does?",
    ),
    Example(
        "R3",
        (
            Input("x", 1.0, "the input", -3, 3, 0.5),
            Input("h", [1.0, -1.0], "the state", -1, 1, 0.25),
            Input("w", [[0.0, 1.0], [2.0, -2.0], [0.5, 0.5]], "W_z, W_r, W: a row each, a column a unit", -5, 5, 0.5),
            Input("uz", ONE, "U_z", -5, 5, 0.5),
            Input("ur", ONE, "U_r", -5, 5, 0.5),
            Input("u", CROSSED, "U: each unit reads the other", -5, 5, 0.5),
        ),
        gated,
        "Does the first unit keep its state, or take the new one?",
        {
            "reset-after-product": Misprint(
                "torch.nn.GRU resets after the recurrent product, r ⊙ (U h): another form, not a mistake.",
                reset_after,
                "U …",
            )
        },
    ),
    Example(
        "R4",
        (
            Input("q", [1.0, 0.5], "the decoder's state", -3, 3, 0.25),
            Input("h", [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]], "the encoder's states, a row a place", -3, 3, 0.25),
            Input("w", ONE, "W, of additive scores", -3, 3, 0.25),
            Input("u", ONE, "U, of additive scores", -3, 3, 0.25),
            Input("v", [2.0, 1.0], "v, of additive scores", -3, 3, 0.25),
            Input("score", "additive", "how q and h are compared", allowed=("additive", "dot")),
        ),
        attend,
        "Which place of the source is read most, and what is the first number of the mean?",
    ),
]
