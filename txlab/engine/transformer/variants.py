"""What the lecture texts write wrongly, as variants that can be switched on to see what breaks (MATH T1, T6, T8, T10).

Notable: the models know nothing of this. Attention is changed through hooks, and what has no place to hook into
(LayerNorm, where Q and K come from) by putting another forward over the module's own until the `with` block ends. So a
variant that is off costs nothing, and one that is on needs no other weights: the same model, read wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.blocks import Block, LayerCache, LayerNorm, MultiHeadAttention
from txlab.engine.transformer.gpt import GPT
from txlab.engine.transformer.hooks import Hook, Hooks
from txlab.errors import LabError, nearest


@dataclass(frozen=True)
class Variant:
    """An erratum.

    math    the item of MATH.md
    says    what the source writes, in one sentence
    right   what is right, and is what the models do
    breaks  what one sees when it is switched on
    """

    name: str
    math: str
    says: str
    right: str
    breaks: str


VARIANTS = {
    variant.name: variant
    for variant in [
        Variant(
            "softmax-over-matrix",
            "T1",
            "Becker-Kahn §3.1 divides exp(sᵢⱼ) by the sum over the whole matrix of scores.",
            "The softmax runs along each row: Σⱼ αᵢⱼ = 1 for every position i.",
            "The matrix sums to 1 and its rows to about 1/T, so attention hardly speaks; and a token that comes later "
            "changes the rows before it, in spite of the causal mask.",
        ),
        Variant(
            "scaled-output",
            "T1",
            "Yang's prose scales the weighted average, softmax(QKᵀ) V / √K (his equation 13 is right).",
            "The scores are scaled before the softmax: softmax(QKᵀ/√K) V.",
            "Rows still sum to 1 but are sharper, as at temperature 1/√K, and what a head says is √K times smaller.",
        ),
        Variant(
            "sigma-plus-epsilon",
            "T6",
            "Wang §5 divides by σ + ε.",
            "LayerNorm divides by √(σ² + ε).",
            "Nothing, while σ is near 1; where σ is far below √ε ≈ .003 the output is up to 1/√ε ≈ 300 times larger.",
        ),
        Variant(
            "scalar-gain",
            "T6",
            "Yang calls γ and β two scalars of a layer.",
            "γ and β are vectors with an entry for each of the D features.",
            "Every feature gets the mean of the learned gains and of the shifts; a trained model loses what it "
            "had put into them. A freshly made one is unchanged, its γ being 1 and its β 0.",
        ),
        Variant(
            "batch-statistics",
            "T6",
            "Yang estimates mean and variance from the layer's past outputs, which is batch normalisation.",
            "Mean and variance are those of the D features of one position, and of nothing else.",
            "What a position becomes depends on the other positions, later ones too, and a text of one token is "
            "normalised to nothing: all that is left of it is β.",
        ),
        Variant(
            "causal-encoder",
            "T10",
            "Yang calls the attention of an encoder causal.",
            "In an encoder every position sees every other.",
            "The upper triangle of every pattern is empty: a word is read without what follows it.",
        ),
        Variant(
            "query-from-encoder",
            "T8",
            "Wang §5 takes Q and K from the encoder and V from the decoder.",
            "Cross-attention takes Q from the decoder, and K and V from the encoder.",
            "It can only be computed where source and target have the same length, S = T; then the decoder never "
            "reads the source, only which of its own positions to mix, later ones included.",
        ),
    ]
}


def variant_named(name: str) -> Variant:
    """The variant of that name; LabError with the nearest one otherwise."""
    if name not in VARIANTS:
        raise LabError(f"no variant is called {name!r}{nearest(name, VARIANTS)}; allowed: {', '.join(VARIANTS)}")
    return VARIANTS[name]


def unfit(name: str, model: nn.Module) -> str | None:
    """Why this variant cannot be switched on in this model, in one sentence; None if it can."""
    variant_named(name)
    if name == "causal-encoder" and isinstance(model, GPT):
        return "a decoder-only model has no encoder; its attention is causal as it should be"
    if name == "query-from-encoder" and not _crossing(model):
        return "only an encoder–decoder has cross-attention"
    if name in NORMS and not any(isinstance(module, LayerNorm) for module in model.modules()):
        return "its norms are RMSNorm, which this erratum of LayerNorm does not concern"
    return None


@contextmanager
def switched_on(name: str, model: nn.Module, hooks: Hooks | None = None) -> Iterator[Hooks]:
    """The model with this erratum, inside the block: pass the Hooks that it gives to the model's forward.

    `hooks` of one's own come first and are passed on. The weights are not touched, and after the block, also after an
    exception, everything is as before. While it lasts everybody who runs this model runs the variant.
    LabError for an unknown name, and for a model that the variant does not fit.
    """
    if reason := unfit(name, model):
        raise LabError(f"{name} cannot be switched on here: {reason}")
    own = HOOKS[name](model) if name in HOOKS else {}
    replaced: list[tuple[nn.Module, str]] = []
    try:
        for module, attribute, function in REPLACEMENTS[name](model) if name in REPLACEMENTS else []:
            setattr(module, attribute, function)  # hides the method of its class
            replaced.append((module, attribute))
        yield together(*([hooks] if hooks is not None else []), Hooks(own))
    finally:
        for module, attribute in reversed(replaced):
            delattr(module, attribute)


def together(*several: Hooks) -> Hooks:
    """All of these hooks as one; at a place where several wait, each gets what the one before it left."""
    merged: dict[str, Hook] = {}
    for hooks in several:
        for place, hook in hooks.hooks.items():
            # Later ones go behind: a key that is there already keeps its place in the order, so it is taken out first.
            earlier = merged.pop(place, None)
            merged[place] = hook if earlier is None else partial(_one_after_the_other, earlier, hook)
    return Hooks(merged)


def _one_after_the_other(first: Hook, second: Hook, name: str, value: Tensor) -> Tensor:
    for hook in (first, second):
        changed = hook(name, value)
        value = value if changed is None else changed
    return value


# Attention, through hooks


def softmax_over_matrix(scores: Tensor, allowed: Tensor) -> Tensor:
    """exp(sᵢⱼ) / Σ_pq exp(s_pq) over the allowed (p, q) of the whole matrix: (…, T, S) → (…, T, S). Erratum T1."""
    visible = scores.masked_fill(~allowed, float("-inf")).flatten(-2)
    somebody = allowed.flatten(-2).any(-1, keepdim=True)
    visible = visible.masked_fill(~somebody, 0.0)  # a matrix in which nobody sees anything is zeros, not NaN
    return (visible.softmax(-1) * somebody).view(scores.shape)


def _matrix_hooks(model: nn.Module) -> dict[str, Hook]:
    waiting: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> None:
        waiting[name.removesuffix("scores")] = value

    def spread(name: str, value: Tensor) -> Tensor:
        # A weight of the right pattern is above zero exactly where the mask allows it (or so small that it is zero
        # here too, since the sum over the matrix is larger than that over the row).
        return softmax_over_matrix(waiting.pop(name.removesuffix("pattern")), value > 0)

    return {"*.scores": keep, "*.pattern": spread}


def _output_hooks(model: nn.Module) -> dict[str, Hook]:
    """softmax(QKᵀ) V / √K: the scores get their √K back, the result is divided by it."""
    attention = next(module for module in model.modules() if isinstance(module, MultiHeadAttention))
    root = sqrt(attention.out.in_features // attention.heads)
    return {"*.scores": lambda name, value: value * root, "*.heads": lambda name, value: value / root}


def _causal_hooks(model: nn.Module) -> dict[str, Hook]:
    def hide(name: str, value: Tensor) -> Tensor:
        later = torch.ones(value.shape[-2:], dtype=torch.bool, device=value.device).triu(1)
        # The lowest finite number: exp of it is zero beside any real score, and a row of nothing else gives no NaN.
        return value.masked_fill(later, torch.finfo(value.dtype).min)

    place = "encoder.*.attention.scores" if hasattr(model, "encoder") else "*.attention.scores"
    return {place: hide}


HOOKS: dict[str, Callable[[nn.Module], dict[str, Hook]]] = {
    "softmax-over-matrix": _matrix_hooks,
    "scaled-output": _output_hooks,
    "causal-encoder": _causal_hooks,
}


# What stands in for a module's own method: (module, name of the method, function)

Replacement = tuple[nn.Module, str, Callable[..., object]]


def _shifted(y: Tensor, gain: Tensor, shift: Tensor | None) -> Tensor:
    return y * gain if shift is None else y * gain + shift


def sigma_plus_epsilon(x: Tensor, gain: Tensor, shift: Tensor | None, epsilon: float) -> Tensor:
    """γ ⊙ (x − μ) / (σ + ε) + β. Erratum T6, Wang §5."""
    return _shifted((x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + epsilon), gain, shift)


def scalar_gain(x: Tensor, gain: Tensor, shift: Tensor | None, epsilon: float) -> Tensor:
    """γ̄ (x − μ) / √(σ² + ε) + β̄, with the means of the vectors γ and β as scalars. Erratum T6, Yang."""
    return _shifted(F.layer_norm(x, gain.shape, eps=epsilon), gain.mean(), None if shift is None else shift.mean())


def batch_statistics(x: Tensor, gain: Tensor, shift: Tensor | None, epsilon: float) -> Tensor:
    """γ ⊙ (x − μ) / √(σ² + ε) + β with μ, σ of each feature over all positions of all texts. Erratum T6, Yang."""
    rows = x.flatten(0, -2)  # (B·T, D)
    mean, variance = rows.mean(0), rows.var(0, correction=0)  # (D) each
    return _shifted((x - mean) / (variance + epsilon).sqrt(), gain, shift)


NORMS = {
    "sigma-plus-epsilon": sigma_plus_epsilon,
    "scalar-gain": scalar_gain,
    "batch-statistics": batch_statistics,
}


def _normalise(norm: LayerNorm, rule: Callable[[Tensor, Tensor, Tensor | None, float], Tensor], x: Tensor) -> Tensor:
    return rule(x, norm.weight, norm.bias, norm.epsilon)


def _other_norms(name: str, model: nn.Module) -> list[Replacement]:
    norms = [module for module in model.modules() if isinstance(module, LayerNorm)]
    return [(norm, "forward", partial(_normalise, norm, NORMS[name])) for norm in norms]


def _query_of_encoder(
    cross: MultiHeadAttention, x: Tensor, memory: Tensor, cache: LayerCache | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Q and K of the encoder's output, V of the decoder: (B, H, S, K) each, which fit only where S = T."""
    (B, T, D), S = x.shape, memory.shape[1]
    if S != T:
        raise LabError(
            f"query-from-encoder cannot be computed: the encoder's Q and K make a pattern of {S} × {S}, and the "
            f"decoder has {T} values to mix; allowed: a target as long as its source"
        )
    weights, biases = cross.qkv.weight, cross.qkv.bias
    both = F.linear(memory, weights[: 2 * D], None if biases is None else biases[: 2 * D])  # (B, S, 2D)
    q, k = both.view(B, S, 2, cross.heads, D // cross.heads).permute(2, 0, 3, 1, 4)  # (B, H, S, K) each
    v = F.linear(x, weights[2 * D :], None if biases is None else biases[2 * D :])  # (B, T, D)
    return q, k, v.view(B, T, cross.heads, D // cross.heads).transpose(1, 2)


def _crossing(model: nn.Module) -> list[MultiHeadAttention]:
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    return [block.cross for block in blocks if block.cross is not None]


REPLACEMENTS: dict[str, Callable[[nn.Module], list[Replacement]]] = {
    **{name: partial(_other_norms, name) for name in NORMS},
    "query-from-encoder": lambda model: [
        (cross, "_across", partial(_query_of_encoder, cross)) for cross in _crossing(model)
    ],
}
