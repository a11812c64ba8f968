"""The transformers of the engine a second time, in NumPy and float64 (MATH T1–T10).

`weights` are a checkpoint's tensors by name (`weights_of(state_dict)`), and a part of them is named by its prefix.
Nothing is shared with the engine: one softmax, one way through, no kernels, no caches. A padded row is computed like
any other; `allowed` says who looks at whom.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from independent.tape import Array, concatenate, erf, log_softmax, maximum, sigmoid, softmax, tanh, where

Weights = Mapping[str, Array]


def weights_of(state: Mapping[str, Any], prefix: str = "") -> dict[str, Array]:
    """Torch tensors by name → float64 arrays by name without the prefix."""
    return {
        name.removeprefix(prefix): Array(tensor.detach().cpu().double().numpy())
        for name, tensor in state.items()
        if name.startswith(prefix)
    }


def part(weights: Weights, prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}


def linear(x: Array, w: Weights, rows: slice = slice(None)) -> Array:
    """W x + b with the weights "weight" and, if there is one, "bias"."""
    y = x @ w["weight"][rows].T
    return y + w["bias"][rows] if "bias" in w else y


def layer_norm(x: Array, w: Weights, epsilon: float = 1e-5, rms: bool = False) -> Array:
    """γ (x − μ) / √(σ² + ε) + β of each position; rms: γ x / √(mean x² + ε)."""
    centred = x if rms else x - x.mean(-1, keepdims=True)
    normal = centred / ((centred**2).mean(-1, keepdims=True) + epsilon) ** 0.5 * w["weight"]
    return normal + w["bias"] if "bias" in w else normal


def activation(x: Array, name: str) -> Array:
    if name == "gelu":
        return x * (erf(x * 0.5**0.5) + 1) * 0.5
    if name == "gelu_tanh":
        return x * (tanh((x + x**3 * 0.044715) * (2 / np.pi) ** 0.5) + 1) * 0.5
    return x * sigmoid(x) if name == "swish" else maximum(x, 0.0)


def attention(
    x: Array,
    w: Weights,
    heads: int,
    allowed: np.ndarray,
    angles: np.ndarray | None = None,
    memory: Array | None = None,
    kv_heads: int = 0,
) -> Array:
    """softmax(Q Kᵀ / √K) V of each head, mixed by W_O: x (B, T, D); K and V are the memory's (B, S, D) if there is one.

    allowed   boolean, broadcast to (B, heads, T, S); a row that may look at nothing gives zeros
    """
    qkv = part(w, "qkv_proj.")
    groups = kv_heads or heads
    K = qkv["weight"].shape[0] // (heads + 2 * groups)
    source = x if memory is None else memory

    def by_heads(x: Array, first: int, count: int) -> Array:
        y = linear(x, qkv, slice(first * K, (first + count) * K))  # (B, T, count · K)
        return y.reshape(*y.shape[:2], count, K).swapaxes(1, 2)  # (B, count, T, K)

    q, k, v = by_heads(x, 0, heads), by_heads(source, heads, groups), by_heads(source, heads + groups, groups)
    if angles is not None:
        q, k = rotated(q, angles), rotated(k, angles)
    shared = np.arange(heads) * groups // heads
    k, v = k[:, shared], v[:, shared]
    scores = q @ k.T / K**0.5  # (B, H, T, S)
    alpha = softmax(where(allowed, scores, -1e30)) * allowed
    mixed = (alpha @ v).swapaxes(1, 2)  # (B, T, H, K)
    return linear(mixed.reshape(*mixed.shape[:2], heads * K), part(w, "out_proj."))


def rotated(x: Array, angles: np.ndarray) -> Array:
    """Each pair (x₂ₙ, x₂ₙ₊₁) turned by its angle: x (B, H, T, K), angles (T, r/2), r ≤ K."""
    turned = []
    for n in range(x.shape[-1]):
        pair = n // 2
        if pair >= angles.shape[1]:
            turned.append(x[..., n : n + 1])
            continue
        cos, sin = np.cos(angles[:, pair])[:, None], np.sin(angles[:, pair])[:, None]
        even, odd = x[..., 2 * pair : 2 * pair + 1], x[..., 2 * pair + 1 : 2 * pair + 2]
        turned.append(even * cos - odd * sin if n % 2 == 0 else even * sin + odd * cos)
    return concatenate(turned, -1)


def rotary_angles(positions: int, head_width: int, base: float = 10_000.0) -> np.ndarray:
    return np.arange(positions)[:, None] * base ** (-np.arange(0, head_width, 2) / head_width)


def sinusoids(positions: int, width: int) -> np.ndarray:
    feature = np.arange(width)
    angle = np.arange(positions)[:, None] / 10_000 ** ((feature - feature % 2) / width)
    return np.where(feature % 2 == 0, np.sin(angle), np.cos(angle))


def causal(T: int) -> np.ndarray:
    return np.tril(np.ones((T, T), dtype=bool))


def feed_forward(x: Array, w: Weights, f: str) -> Array:
    """W₂ f(W₁ x + b₁) + b₂; with a gate W₂ (f(W₃ x + b₃) (W₁ x + b₁)) + b₂."""
    inner = linear(x, part(w, "up_proj."))
    gate = part(w, "gate_proj.")
    return linear(activation(linear(x, gate), f) * inner if gate else activation(inner, f), part(w, "down_proj."))


def blocks(
    x: Array,
    w: Weights,
    shape: Any,
    allowed: np.ndarray,
    angles: np.ndarray | None = None,
    memory: Array | None = None,
    memory_allowed: np.ndarray | None = None,
) -> Array:
    """The blocks "0.", "1.", … one after another. shape: norm, heads, activation, epsilon, and of a GPT block,
    normalisation and kv_heads."""
    order, pre = getattr(shape, "block", "sequential"), shape.norm == "pre"
    rms, kv_heads = getattr(shape, "normalisation", "layer") == "rms", getattr(shape, "kv_heads", 0)
    for number in range(1 + max(int(name.partition(".")[0]) for name in w)):
        own = part(w, f"{number}.")

        def norm(x: Array, name: str, own: Weights = own) -> Array:
            return layer_norm(x, part(own, f"{name}."), shape.epsilon, rms)

        def attend(x: Array, own: Weights = own) -> Array:
            return attention(x, part(own, "attention."), shape.heads, allowed, angles, kv_heads=kv_heads)

        def think(x: Array, own: Weights = own) -> Array:
            return feed_forward(x, part(own, "feed_forward."), shape.activation)

        def cross(x: Array, own: Weights = own) -> Array:
            assert memory_allowed is not None
            return attention(x, part(own, "cross."), shape.heads, memory_allowed, None, memory)

        if order == "parallel":
            if pre:
                x = x + attend(norm(x, "attention_norm")) + think(norm(x, "feed_forward_norm"))
            else:
                x = norm(x + attend(x) + think(x), "attention_norm")
            continue
        branches = [("attention_norm", attend)]
        branches += [("cross_norm", cross)] if memory is not None else []
        branches += [("feed_forward_norm", think)] if order != "attention" else []
        for name, branch in branches:
            x = x + branch(norm(x, name)) if pre else norm(x + branch(x), name)
    return x


def stream_of_gpt(ids: np.ndarray, w: Weights, shape: Any, allowed: np.ndarray | None = None) -> Array:
    """The residual stream (B, T, D) that the head of a decoder-only transformer reads, after its last norm."""
    T = ids.shape[1]
    x, angles = w["embed.weight"][ids], None
    if shape.positions == "learned":
        x = x + w["positions.weight"][:T]
    elif shape.positions == "sinusoidal":
        x = x * shape.width**0.5 + sinusoids(T, shape.width)
    else:
        assert shape.positions == "rotary"
        angles = rotary_angles(T, shape.head_dim or shape.width // shape.heads)
    x = blocks(x, part(w, "blocks."), shape, causal(T) if allowed is None else allowed, angles)
    if shape.norm == "post":
        return x
    return layer_norm(x, part(w, "final_norm."), shape.epsilon, shape.normalisation == "rms")


def gpt(ids: np.ndarray, w: Weights, shape: Any, allowed: np.ndarray | None = None) -> Array:
    """Token ids (B, T) → logits (B, T, V) of a GPT of this GPTShape; `allowed` (T, T) instead of the causal mask."""
    return stream_of_gpt(ids, w, shape, allowed) @ w.get("unembed.weight", w["embed.weight"]).T


def bert(ids: np.ndarray, w: Weights, shape: Any, real: np.ndarray | None = None) -> Array:
    """Token ids (B, T) → logits (B, T, V) of an encoder of this BertShape; real (B, T) is False for padding."""
    real = np.ones_like(ids, dtype=bool) if real is None else real
    x = w["embed.weight"][ids] + w["positions.weight"][: ids.shape[1]]
    x = x + w["segments.weight"][0] if "segments.weight" in w else x
    x = layer_norm(x, part(w, "embedding_norm."), shape.epsilon)
    x = blocks(x, part(w, "encoder.blocks."), shape, real[:, None, None, :])
    x = layer_norm(x, part(w, "encoder.final_norm."), shape.epsilon) if shape.norm == "pre" else x
    x = layer_norm(
        activation(linear(x, part(w, "transform.")), shape.activation), part(w, "transform_norm."), shape.epsilon
    )
    return x @ w.get("unembed.weight", w["embed.weight"]).T + w["unembed_bias"]


def encoder_decoder(source: np.ndarray, target: np.ndarray, w: Weights, shape: Any, real: np.ndarray) -> Array:
    """Source ids (B, S), target ids (B, T), real (B, S) False for the source's padding → logits (B, T, V)."""

    def placed(ids: np.ndarray, table: str, positions: str) -> Array:
        x = w[table][ids] * (shape.width**0.5 if shape.scale_embedding else 1.0)
        if shape.positions == "learned":
            return x + w[f"{positions}.weight"][: ids.shape[1]]
        return x + sinusoids(ids.shape[1], shape.width) if shape.positions == "sinusoidal" else x

    def turned(ids: np.ndarray) -> np.ndarray | None:
        return rotary_angles(ids.shape[1], shape.width // shape.heads) if shape.positions == "rotary" else None

    def ended(x: Array, side: str) -> Array:
        return layer_norm(x, part(w, f"{side}.final_norm."), shape.epsilon) if shape.norm == "pre" else x

    seen = real[:, None, None, :]
    x = placed(source, "embed_target.weight" if shape.shared else "embed_source.weight", "positions_source")
    memory = ended(blocks(x, part(w, "encoder.blocks."), shape, seen, turned(source)), "encoder")
    y = placed(target, "embed_target.weight", "positions_target")
    y = blocks(y, part(w, "decoder.blocks."), shape, causal(target.shape[1]), turned(target), memory, seen)
    logits = ended(y, "decoder") @ w.get("unembed.weight", w["embed_target.weight"]).T
    return logits + w["unembed_bias"] if "unembed_bias" in w else logits


def logprobs(logits: Array, ids: np.ndarray) -> Array:
    """(…, T, V), (…, T) → (…, T): ln p of these ids."""
    return log_softmax(logits)[(*np.indices(ids.shape), ids)]
