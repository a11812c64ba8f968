"""The examples of chapter T, computed with NumPy alone."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np


def softmax(x: Any) -> Any:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def layer_norm(x: Any, epsilon: float) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)


def T1(q: Any, k: Any, v: Any, row: int, misprint: str) -> dict[str, Any]:
    q, k, v, i = np.array(q), np.array(k), np.array(v), row - 1
    root = np.sqrt(q.shape[1])
    products = q @ k.T
    s = products if misprint in ("scaled-output", "unscaled-scores") else products / root
    weights = np.exp(s)
    total = weights.sum() if misprint == "softmax-over-matrix" else weights[i].sum()
    shares = weights[i] / total
    y = shares @ v[:, 0]
    return {
        "q·k": products[i],
        "√dₖ": root,
        "s": s[i],
        "exp(s)": weights[i],
        "Σ": total,
        "α": shares,
        "Σ α v": y,
        "y₁": y / root if misprint == "scaled-output" else y,
    }


def T2(scores: Any, v: Any, mask: str, row: int, misprint: str) -> dict[str, Any]:
    allowed = {
        "none": np.ones((3, 3), int),
        "causal": np.tril(np.ones((3, 3), int)),
        "padding": np.array([[1, 1, 0]] * 3),
        "graph": np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]]),
    }[mask][row - 1]
    weights = np.where(allowed, np.exp(scores[row - 1]), 0.0)
    shares = weights / weights.sum() if weights.any() else weights
    return {
        "allowed": allowed,
        "exp(s + M)": weights,
        "Σ": weights.sum(),
        "α": shares,
        "y": shares @ np.array(v),
    }


def T3(x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, row: int, misprint: str) -> dict[str, Any]:
    X, q, k, v = (np.array(each) for each in (x, w_q, w_k, w_v))
    steps: dict[str, Any] = {}
    mixed = []
    for h in range(2):
        steps[f"W_QK,{h + 1}"] = np.outer(q[:, h], k[:, h])
        steps[f"W_OV,{h + 1}"] = np.outer(v[:, h], w_o[h])
        s = (X[row - 1] @ q[:, h]) * (X @ k[:, h])  # of width 1, so √dₖ = 1
        steps[f"s,{h + 1}"] = s
        steps[f"α,{h + 1}"] = softmax(s)
        mixed.append(softmax(s) @ (X @ v[:, h]))  # the four matrices, as the layer has them
        steps[f"head {h + 1}"] = mixed[-1] * np.array(w_o[h])
    return {**steps, "y₁": (np.array(mixed) @ np.array(w_o))[0]}


def T4(x: Any, a1: Any, w1: Any, a2: Any, w2: Any, misprint: str) -> dict[str, Any]:
    X, A1, W1, A2, W2 = (np.array(each) for each in (x, a1, w1, a2, w2))
    whole = np.kron(A2, W2.T) @ np.kron(A1, W1.T) @ X.reshape(-1)  # (A ⊗ W) as one matrix of the whole stream
    return {
        "A² A¹": A2 @ A1,
        "W_OV¹ W_OV²": W1 @ W2,
        "h": (A2 @ A1 @ X)[-1],
        "A¹ X W_OV¹": A1 @ X @ W1,
        "in turn": whole.reshape(X.shape)[-1],
        "y₁": whole.reshape(X.shape)[-1, 0],
    }


def T5(
    x: Any, heads: Any, w1: Any, b1: Any, w2: Any, b2: Any, f: str, gated: str, w3: Any, misprint: str
) -> dict[str, Any]:
    activation = {
        "relu": lambda z: max(z, 0.0),
        "gelu": lambda z: z * (1 + erf(z / np.sqrt(2))) / 2,
        "swish": lambda z: z / (1 + np.exp(-z)),
    }[f]
    middle = np.array(x) + np.array(heads)
    inner = np.array(w1) @ middle + np.array(b1)
    neurons = np.array([activation(z) for z in inner])
    gates = np.array(w3) @ middle
    neurons = neurons * gates if gated == "yes" else neurons
    out = np.array(w2) @ neurons + np.array(b2)
    stays = np.array(x) if misprint else middle
    return {
        "x + heads": middle,
        "W₁ x + b₁": inner,
        "W₃ x": gates,
        "neurons": neurons,
        "W₂ f + b₂": out,
        "residual": stays,
        "x′₁": stays[0] + out[0],
    }


def T6(x: Any, gamma: Any, beta: Any, epsilon: float, row: int, misprint: str) -> dict[str, Any]:
    X, gain, shift = np.array(x), np.array(gamma), np.array(beta)
    own = X[row - 1]
    mean, variance = (X.mean(0), X.var(0)) if misprint == "batch-statistics" else (own.mean(), own.var())
    divisor = np.sqrt(variance) + epsilon if misprint == "sigma-plus-epsilon" else np.sqrt(variance + epsilon)
    rms = gain * own / np.sqrt((own**2).mean() + epsilon)
    if misprint == "scalar-gain":
        gain, shift = np.full(3, gain.mean()), np.full(3, shift.mean())
    normal = (own - mean) / divisor
    return {
        "μ": mean,
        "σ²": variance,
        "divisor": divisor,
        "x̂": normal,
        "RMS": rms,
        "γ ⊙ x̂": gain * normal,
        "y₃": (gain * normal + shift)[-1],
    }


def T7(q: Any, k: Any, i: int, j: int, positions: str, misprint: str) -> dict[str, Any]:
    frequencies = np.array([1.0, 10000.0**-0.5])
    steps: dict[str, Any] = {"ω": frequencies}
    placed = []
    for name, t, vector in (("i", i, q), ("j", j, k)):
        angles = t * frequencies
        table = np.array([np.sin(angles[0]), np.cos(angles[0]), np.sin(angles[1]), np.cos(angles[1])])
        pairs = np.array([complex(vector[0], vector[1]), complex(vector[2], vector[3])]) * np.exp(1j * angles)
        turned = np.array([pairs[0].real, pairs[0].imag, pairs[1].real, pairs[1].imag])
        placed.append(turned if positions == "rotary" else np.array(vector) + table)
        steps |= {f"θ_{name}": angles, f"p_{name}": table}
    return {**steps, "q_i": placed[0], "k_j": placed[1], "q_i·k_j": placed[0] @ placed[1]}


def T8(x: Any, memory: Any, w_q: Any, w_k: Any, w_v: Any, row: int, misprint: str) -> dict[str, Any]:
    X, M = np.array(x), np.array(memory)
    q = ((M if misprint else X) @ np.array(w_q))[row - 1]
    keys, values = M @ np.array(w_k), (X if misprint else M) @ np.array(w_v)
    s = keys @ q / np.sqrt(2)
    return {"q": q, "K": keys, "V": values, "s": s, "α": softmax(s), "y₁": softmax(s) @ values[:, 0]}


P = np.array([[0, 0, 0], [0, 0, 0.5], [0.5, 0, 0], [0, 0.5, 0], [0.5, 0, 0.5]])


def self_attention(x: Any, causal: bool) -> Any:
    s = x @ x.T / np.sqrt(3)
    return softmax(np.where(np.tril(np.ones_like(s)) > 0, s, -np.inf) if causal else s)


def T9(tokens: Any, w_e: Any, order: str, then: int, misprint: str) -> dict[str, Any]:
    table = np.array(w_e)
    X = table[tokens] + P[:3]
    normal = layer_norm(X, 1e-5)
    heads = self_attention(normal, causal=True) @ normal
    read = normal if order == "parallel" else layer_norm(X + heads, 1e-5)
    neurons = np.maximum(read, 0)
    after = X + heads + neurons
    last = layer_norm(after[-1], 1e-5)
    return {
        "X": X,
        "LN X": normal,
        "ATTN": heads,
        "X′": X + heads,
        "FF": neurons,
        "X″": after,
        "LN X″": last,
        "logits": table @ last,
        "p": softmax(table @ last),
        "p(next)": softmax(table @ last)[then],
    }


def T10(tokens: Any, hidden: Any, w_e: Any, misprint: str) -> dict[str, Any]:
    table, asked = np.array(w_e), sorted({place - 1 for place in hidden})
    ids = [3 if place in asked else token for place, token in enumerate(tokens)]
    X = layer_norm(table[ids] + P[:4], 1e-12)
    shares = self_attention(X, causal=bool(misprint))
    middle = layer_norm(X + shares @ X, 1e-12)
    after = layer_norm(middle + np.maximum(middle, 0), 1e-12)
    logits = layer_norm(np.maximum(after, 0), 1e-12)[asked] @ table.T
    right = softmax(logits)[range(len(asked)), [tokens[place] for place in asked]]
    return {
        "read": ids,
        "X": X,
        "A": shares[asked],
        "X′": after[asked],
        "logits": logits,
        "p(xₜ)": right,
        "ln p(xₜ)": np.log(right),
        "L": -np.log(right).mean(),
    }


def T11(
    layers: int,
    width: int,
    heads: int,
    head_width: int,
    feed_forward: int,
    gated: str,
    vocabulary: int,
    context: int,
    misprint: str,
) -> dict[str, Any]:
    N, D, F, V, T = layers, width, feed_forward, vocabulary, context
    across = heads * head_width
    if misprint == "gpt2-xl":
        across, F = 12 * (D // 12), 3072
    elif misprint == "gpt3-xl":
        across = (heads * 3 // 2) * head_width
    matrices = 3 if gated == "yes" else 2
    w = N * (4 * D * across + matrices * D * F) + V * D
    forward = 2 * w + 4 * N * T * across
    biases = 3 * across + D + (matrices - 1) * F + D  # of W_Q, W_K, W_V, W_O, the matrices to F, the one back
    others = N * (biases + 2 * 2 * D) + 2 * D + T * D
    return {
        "H dₖ": across,
        "4 D H dₖ": 4 * D * across,
        f"{matrices} D F": matrices * D * F,
        "V D": V * D,
        "w": w,
        "FLOPs forward": forward,
        "FLOPs in training": 3 * forward,
        "others": others,
        "parameters": w + others,
        "memory": 16 * (w + others),
    }


def T12(weights: Any, losses: Any, tokens: Any, drawn: float, misprint: str) -> dict[str, Any]:
    w = np.array(weights) / np.sum(weights)
    products = w * np.array(losses)
    return {
        "w": w,
        "drawn from each": w * drawn,
        "epochs": w * drawn / np.array(tokens),
        **{f"w · L of text {number}": product for number, product in enumerate(products, 1)},
        "L": products.sum(),
    }


def T13(examples: int, letters: int, answers: int, misprint: str) -> dict[str, Any]:
    unseen = ((letters - 1) / letters) ** examples
    return {
        "one other": (letters - 1) / letters,
        "not shown": unseen,
        "wrong guess": (answers - 1) / answers,
        "wrong": unseen * (answers - 1) / answers,
        "P(right)": (1 - unseen) + unseen / answers,
    }


def T14(image: Any, w_e: Any, pooling: str, label: int, misprint: str) -> dict[str, Any]:
    pixels = np.array(image)
    cut = np.array([pixels[y : y + 2, x : x + 2].reshape(-1) for y in (0, 2) for x in (0, 2)])
    tokens = cut @ np.array(w_e)
    X = np.vstack([[1.0, 0.0, 0.0], tokens]) + P if pooling == "class" else tokens + P[1:]
    normal = layer_norm(X, 1e-6)
    shares = self_attention(normal, causal=False)
    middle = X + shares @ normal
    after = middle + np.maximum(layer_norm(middle, 1e-6), 0)
    read = layer_norm(after, 1e-6)
    pooled = read[0] if pooling == "class" else read.mean(0)
    logits = np.array([pooled[0] - pooled[2], pooled[2] - pooled[0]])
    return {
        "patches": cut,
        "patches W_E": tokens,
        "X": X,
        "A": shares,
        "X′": after,
        "read": pooled,
        "logits": logits,
        "p": softmax(logits),
        "p(class)": softmax(logits)[label - 1],
    }
