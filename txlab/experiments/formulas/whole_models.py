"""Examples of whole models, of width 3 and one layer (MATH T8–T10, T14).

Notable: except for what an example gives, every map of these models is the identity and every bias 0, so that W_Q =
W_K = W_V = W_O = W₁ = W₂ = 1, and f is ReLU: only the tables and the order of the parts decide.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import cast

import torch
from torch import Tensor

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.blocks import Block, Order
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.masks import CAUSAL, NO_MASK
from txlab.engine.transformer.variants import VARIANTS, switch_on
from txlab.engine.transformer.vision import Pooling, VisionShape, VisionTransformer, patches
from txlab.experiments.formulas.attention import M, add_products, set_weights, tensor, unset
from txlab.experiments.formulas.example import Example, Input, Misprint, Rows

CLASS = [1.0, 0.0, 0.0]
POSITIONS: Rows = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.5], [0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.5, 0.0, 0.5]]


@torch.no_grad()
def plain(build: Callable[[], M], **tables: Tensor) -> M:
    """A model whose maps are the identity, biases 0 and gains 1, except for these weights."""
    model = unset(build)
    eye = torch.eye(3, dtype=torch.float64)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and parameter.shape[1] == 3 and len(parameter) % 3 == 0:
            parameter.copy_(eye.repeat(len(parameter) // 3, 1))
        else:
            parameter.fill_(float("norm.weight" in name))
    set_weights(model, **tables)
    return model


def kept_by(kept: dict[str, Tensor], *places: str) -> list[Tensor]:
    """What the hooks kept at the places that end so, of the only text or head."""
    return [next(value for name, value in kept.items() if name.endswith(place)).squeeze(0) for place in places]


# T8


def cross_attention(x: Rows, memory: Rows, w_q: Rows, w_k: Rows, w_v: Rows, row: int, form: str = "") -> Explanation:
    """A position of the decoder that looks at the source, by the cross-attention of `engine.transformer.blocks`."""
    block = unset(lambda: Block(2, 1, 2, bias=False, crosses=True))
    cross = block.cross
    assert cross is not None
    maps = torch.cat([tensor(each).T for each in (w_q, w_k, w_v)])
    set_weights(cross, qkv_proj__weight=maps, out_proj__weight=torch.eye(2, dtype=torch.float64))
    hooks, kept = keeping("query", "key", "value", "scores", "pattern")
    with switch_on(form, block, hooks) if form else nullcontext(hooks) as running:
        out = cross(tensor(x)[None], NO_MASK, "matmul", hooks=running, memory=tensor(memory)[None])
    why = Explaining(f"what does position {row} of the target receive?", out[0, row - 1, 0].item())
    why.equation("cross-attention: Q from the decoder, K and V from M", "T8", "Vaswani et al. 2017, §3.2.3")
    why.input("X", x, "the decoder's stream, a row a position")
    why.input("M", memory, "the encoder's output, a row a position")
    q, k, v, s, shares = (each[0, 0].tolist() for each in kept.values())
    why.step("q", "a row of M W_Q" if form else "a row of X W_Q", q[row - 1], f"of position {row}")
    why.step("K", "M W_K", k)
    why.step("V", "X W_V" if form else "M W_V", v)
    why.step("s", "q·k / √2", s[row - 1])
    why.step("α", "softmax(s)", shares[row - 1])
    add_products(why, "y₁", shares[row - 1], [each[0] for each in v])
    return why.result()


T8 = Example(
    "T8",
    (
        Input("x", [[2.0, 0.0], [0.0, 1.0]], "the decoder's stream, a row a position", -5, 5),
        Input("memory", [[0.0, 2.0], [3.0, 1.0]], "M, the encoder's output, a row a position", -5, 5),
        Input("w_q", [[1.0, 0.0], [0.0, 1.0]], "W_Q", -5, 5),
        Input("w_k", [[1.0, 0.0], [0.0, 1.0]], "W_K", -5, 5),
        Input("w_v", [[1.0, 0.0], [0.0, 1.0]], "W_V", -5, 5),
        Input("row", 1, "the position of the target", 1, 2, 1),
    ),
    cross_attention,
    "Which position of the source does this one of the target look at, and what does it receive?",
    {
        "query-from-encoder": Misprint(
            VARIANTS["query-from-encoder"].says, partial(cross_attention, form="query-from-encoder"), "q"
        )
    },
)

# T9


def next_token(tokens: list[int], w_e: Rows, order: str, then: int) -> Explanation:
    """A pass of a GPT with three tokens and one block, place by place."""
    shape = GPTShape(1, 1, 3, 3, 3, feed_forward=3, block=cast(Order, order), activation="relu")
    model = plain(lambda: GPT(shape), embed__weight=tensor(w_e), positions__weight=tensor(POSITIONS[:3]))
    hooks, kept = keeping("*")
    logits = model(torch.tensor([tokens]), hooks=hooks)[0, -1]
    p, norm = logits.softmax(-1), cast(Block, model.blocks[0]).attention_norm
    assert norm is not None
    assert model.final_norm is not None
    X, heads, neurons, after = kept_by(kept, "embedding", "attention.out", "feed_forward.out", "resid_post")
    why = Explaining(f"how likely is token {then} next?", p[then].item())
    equation = "X ← X + ATTN(LN X),  X ← X + FF(LN X)"
    equation = equation if order == "sequential" else "X ← X + ATTN(LN X) + FF(LN X)"
    why.equation(equation, "T9", "Radford et al. 2019; Becker-Kahn §4")
    why.input("tokens", tokens, "ids")
    why.input("W_E", w_e, "a row a token; W_U = W_Eᵀ")
    why.input("P", POSITIONS[:3], "a row a position")
    why.step("X", "W_E[tokens] + P", X.tolist(), "a row a position")
    why.step("LN X", "what attention reads", norm(X).tolist())
    why.step("ATTN", "causal attention, W_Q = W_K = W_V = W_O = 1", heads.tolist())
    if order == "sequential":
        why.step("X′", "X + ATTN(LN X)", (X + heads).tolist(), "what the feed-forward layer reads, after a norm")
    why.step("FF", "max(0, LN X′)" if order == "sequential" else "max(0, LN X)", neurons.tolist(), "W₁ = W₂ = 1")
    why.step("X″", "the stream after the block", after.tolist())
    why.step("LN X″", "of the last position", model.final_norm(after[-1]).tolist())
    why.step("logits", "LN(X″) W_Eᵀ", logits.tolist(), "of each token")
    why.step("p", "softmax(logits)", p.tolist())
    why.step("p(next)", f"of token {then}", p[then].item())
    return why.result()


T9 = Example(
    "T9",
    (
        Input("tokens", [0, 1, 0], "ids of the text", 0, 2, 1),
        Input("w_e", [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [-1.0, 0.5, 1.0]], "W_E, a row a token", -5, 5),
        Input("order", "sequential", "of the branches of the block", allowed=("sequential", "parallel")),
        Input("then", 0, "the token asked for", 0, 2, 1),
    ),
    next_token,
    "Which of the tokens 0, 1 and 2 is likeliest next, and how likely is the one asked for?",
)

# T10

MASK = 3


def masked_text(tokens: list[int], hidden: list[int], w_e: Rows, form: str = "") -> Explanation:
    """The loss of an encoder on the tokens that are hidden from it, place by place."""
    shape = BertShape(1, 1, 3, 4, 4, feed_forward=3, segments=0, activation="relu")
    model = plain(lambda: Bert(shape), embed__weight=tensor(w_e), positions__weight=tensor(POSITIONS[:4]))
    asked = sorted({each - 1 for each in hidden})
    ids = [MASK if place in asked else token for place, token in enumerate(tokens)]
    hooks, kept = keeping("*")
    logits = model(torch.tensor([ids]), mask=CAUSAL if form else NO_MASK, hooks=hooks)[0, asked]
    logs = logits.log_softmax(-1)
    right = [row[tokens[place]].item() for row, place in zip(logs, asked, strict=True)]
    X, shares, after = kept_by(kept, "embedding", "pattern", "resid_post")
    why = Explaining("what is the loss on the hidden tokens?", -sum(right) / len(right))
    why.equation("L = −(1/|M|) Σ_{t∈M} ln p(xₜ | the text with the tokens of M hidden)", "T10", "Devlin et al. 2019")
    why.input("x", tokens, "ids; 3 is [MASK]")
    why.input("M", [place + 1 for place in asked], "the hidden positions")
    why.input("W_E", w_e, "a row a token")
    why.step("read", "x with [MASK] at M", ids)
    why.step("X", "LN(W_E[read] + P)", X.tolist(), "a row a position")
    why.step("A", "softmax(X Xᵀ / √3), the rows of M", shares[0, asked].tolist(), "causal" if form else "no mask")
    why.step("X′", "LN(X + A X), then LN(X′ + FF(X′)), the rows of M", after[asked].tolist())
    why.step("logits", "LN(max(0, X′)) W_Eᵀ, the rows of M", logits.tolist())
    why.step(
        "p(xₜ)",
        "softmax(logits) at the hidden token",
        logs.exp()[range(len(asked)), [tokens[t] for t in asked]].tolist(),
    )
    why.step("ln p(xₜ)", "nats", right)
    why.compute(
        "L", f"−({' + '.join(['{}'] * len(right))}) / {len(right)}", lambda *each: -sum(each) / len(each), *right
    )
    return why.result()


T10 = Example(
    "T10",
    (
        Input("tokens", [0, 1, 2, 1], "ids of the text", 0, 2, 1),
        Input("hidden", [2, 2], "M, the positions that are asked for", 1, 4, 1),
        Input(
            "w_e",
            [[-1.0, -0.5, 1.5], [2.0, -0.5, -0.5], [0.0, -1.0, 0.0], [0.5, 0.0, 0.0]],
            "W_E, a row a token; the last is [MASK]",
            -5,
            5,
        ),
    ),
    masked_text,
    "Does the hidden position look at what follows it, and what does not knowing its token cost?",
    {"causal-encoder": Misprint(VARIANTS["causal-encoder"].says, partial(masked_text, form="causal-encoder"), "A")},
)

# T14


def classify(image: Rows, w_e: Rows, pooling: str, label: int) -> Explanation:
    """The class of an image of four patches, place by place."""
    shape = VisionShape(1, 1, 3, 4, 2, 2, channels=1, feed_forward=3, pooling=cast(Pooling, pooling), activation="relu")
    P = tensor(POSITIONS[-shape.context :])
    head = tensor([[1.0, 0.0, -1.0], [-1.0, 0.0, 1.0]])
    model = plain(lambda: VisionTransformer(shape), embed__weight=tensor(w_e).T, positions__weight=P, head__weight=head)
    if model.class_token is not None:
        set_weights(model, class_token=tensor([CLASS]))
    hooks, kept = keeping("*")
    logits = model(tensor(image)[None, None], hooks=hooks)[0]
    p = logits.softmax(-1)
    X, shares, after, pooled = kept_by(kept, "embedding", "pattern", "resid_post", "pooled")
    cut = patches(tensor(image)[None, None], 2)[0]
    why = Explaining(f"how likely is class {label}?", p[label - 1].item())
    why.equation(
        "X = [class; patches · W_E] + positions,  N blocks,  logits = LN(X)₀ W", "T14", "Dosovitskiy et al. 2021"
    )
    why.input("image", image, "4 × 4 pixels")
    why.input("W_E", w_e, "a row a pixel of a patch")
    why.input("class", CLASS, "the learnt token, if the class is read from it")
    why.input("P", P.tolist(), "a row a position")
    why.step("patches", "2 × 2 pixels, row by row", cut.tolist(), "a row a patch")
    why.step("patches W_E", "a token a patch", (cut @ tensor(w_e)).tolist())
    why.step(
        "X", "[class; patches W_E] + P" if pooling == "class" else "patches W_E + P", X.tolist(), "a row a position"
    )
    why.step("A", "softmax of LN X, no mask", shares[0].tolist(), "who looks at whom")
    why.step("X′", "the stream after the block", after.tolist())
    why.step("read", "LN(X′)₀" if pooling == "class" else "mean of LN(X′)", pooled.tolist())
    why.step("logits", "LN(X′)₀ W" if pooling == "class" else "mean · W", logits.tolist())
    why.step("p", "softmax(logits)", p.tolist())
    why.step("p(class)", f"of class {label}", p[label - 1].item())
    return why.result()


T14 = Example(
    "T14",
    (
        Input(
            "image",
            [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]],
            "4 × 4 pixels",
            0,
            1,
        ),
        Input(
            "w_e",
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 1.0]],
            "W_E, a row a pixel of a patch",
            -5,
            5,
        ),
        Input("pooling", "class", "what the class is read from", allowed=("class", "mean")),
        Input("label", 1, "the class asked for", 1, 2, 1),
    ),
    classify,
    "Which patch does the class token look at most, and how likely is the class asked for?",
)

EXAMPLES = [T8, T9, T10, T14]
