"""Errors in the lecture texts, as variants that can be switched on to see what breaks (MATH T1, T5, T6, T8).

Notable: the models know nothing of this. Attention is changed through hooks; parts without a hook (LayerNorm, the
source of Q and K) by replacing a method of the module until the `with` block ends. A variant that is off costs nothing,
and one that is on uses the same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import sqrt

import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.blocks import Block, MultiHeadAttention
from txlab.engine.transformer.hooks import NO_HOOKS, Hook, Hooks, together
from txlab.engine.transformer.key_value_cache import LayerCache
from txlab.engine.transformer.norms import LayerNorm
from txlab.errors import LabError, nearest


@dataclass(frozen=True)
class Variant:
    """An erratum.

    math    the number of its formula
    says    the source's statement, in one sentence
    right   the correct form, which the models use
    breaks  the visible effect of switching it on
    never   why it cannot be switched on; "" if it can
    """

    name: str
    math: str
    says: str
    right: str
    breaks: str
    never: str = ""


VARIANTS = {
    variant.name: variant
    for variant in [
        Variant(
            "softmax-over-matrix",
            "T1",
            "Becker-Kahn §3.1 divides exp(sᵢⱼ) by the sum over the whole matrix of scores.",
            "The softmax runs along each row: Σⱼ αᵢⱼ = 1 for every position i.",
            "The matrix sums to 1 and its rows to about 1/T, so attention contributes almost nothing; and a later "
            "token changes the rows before it, in spite of the causal mask.",
        ),
        Variant(
            "scaled-output",
            "T1",
            "Yang's prose scales the weighted average, softmax(QKᵀ) V / √dₖ (his equation 13 is right).",
            "The scores are scaled before the softmax: softmax(QKᵀ/√dₖ) V.",
            "Rows still sum to 1 but are sharper, as at temperature 1/√dₖ, and a head's output is √dₖ times smaller.",
        ),
        Variant(
            "unscaled-scores",
            "T1",
            "Becker-Kahn's (3.2) and (3.5) have no 1/√dₖ: softmax*(X W_QK Xᵀ).",
            "The scores are scaled before the softmax: softmax(QKᵀ/√dₖ) V.",
            "Rows still sum to 1 but are sharper, as at temperature 1/√dₖ. A model could be trained so, W_QK taking "
            "the factor in; one that was trained with it looks at too few positions.",
        ),
        Variant(
            "model-width-scale",
            "T1",
            "Wang §5 first divides by √512, d_k being the width of the model; d_k = 64, that of a head, comes later.",
            "Each head divides by √dₖ, dₖ its own width.",
            "Scores are √(D/K) times smaller, so every row is flatter and each head mixes more than it was taught.",
        ),
        Variant(
            "dropped-residual",
            "T5",
            "Becker-Kahn's (4.2) is X + m(X + Σ h(X)), which drops the residual around attention from his own (4.1).",
            "X + Σ h(X) + m(X + Σ h(X)): the heads' output stays in the stream.",
            "A head's output reaches later layers only through the feed-forward of its own block; copying by heads "
            "alone is gone.",
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
            "Every feature gets the mean of the learnt gains and of the shifts; a trained model loses what it "
            "had put into them. A freshly made one is unchanged, its γ being 1 and its β 0.",
        ),
        Variant(
            "batch-statistics",
            "T6",
            "Yang estimates mean and variance from the layer's past outputs, which is batch normalisation.",
            "Mean and variance are taken over the D features of one position only.",
            "The result at a position depends on the other positions, later ones too, and a text of one token is "
            "normalised to nothing: only β is left.",
        ),
        Variant(
            "causal-encoder",
            "T10",
            "Yang calls the attention of encoders causal as well, while he connects every node to every other.",
            "Causal means that no position sees a later one; in an encoder every position sees every other.",
            "Nothing: his graph of an encoder is right, only the word is not.",
            never="Yang masks nothing in an encoder; only the word is wrong",
        ),
        Variant(
            "query-from-encoder",
            "T8",
            "Wang §5 takes Q and K from the encoder and V from the decoder.",
            "Cross-attention takes Q from the decoder, and K and V from the encoder.",
            "It can only be computed where source and target have the same length, S = T; then the decoder never "
            "reads the source, only which of its own positions to mix, later ones included.",
        ),
        Variant(
            "gradient-over-all-centres",
            "K4",
            "Wang's (9) keeps the sum over all T centres in the gradient by the vector of one of them.",
            "∂J/∂v_w = −(1/T) Σ over the places i with wᵢ = w: the others do not contain v_w.",
            "Every word would be pulled by the contexts of all words, and all vectors would move in the same way.",
            never="it is of word2vec, and this model learns no word vectors",
        ),
    ]
}


def variant_named(name: str) -> Variant:
    """Return the variant of that name; LabError suggests the nearest one otherwise."""
    if name not in VARIANTS:
        raise LabError(f"no variant is called {name!r}{nearest(name, VARIANTS)}; allowed: {', '.join(VARIANTS)}")
    return VARIANTS[name]


def unfit(name: str, model: nn.Module) -> str | None:
    """Return why this variant cannot be switched on in this model, in one sentence; None if it can."""
    if never := variant_named(name).never:
        return never
    if name == "model-width-scale":
        attention = _attention(model)
        if attention.head_width == attention.out_proj.out_features:
            return "its one head is as wide as the model"
    if name == "dropped-residual" and not all(
        block.norm == "pre" and block.order == "sequential" and block.cross is None for block in _blocks(model)
    ):
        return "it is of sequential pre-LN blocks without cross-attention"
    if name == "query-from-encoder" and not _crossing(model):
        return "only an encoder–decoder has cross-attention"
    if name in NORMS and not any(isinstance(module, LayerNorm) for module in model.modules()):
        return "its norms are RMSNorm, which this erratum of LayerNorm does not concern"
    return None


@contextmanager
def switch_on(name: str, model: nn.Module, hooks: Hooks = NO_HOOKS) -> Iterator[Hooks]:
    """Context manager that applies this erratum to a model: pass the Hooks it yields to the model's forward.

    The caller's `hooks` run first. The weights are not touched, and on exit, also after an exception, everything is
    restored. Inside the block every run of this model uses the variant.
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
        yield together(hooks, Hooks(own))
    finally:
        for module, attribute in reversed(replaced):
            delattr(module, attribute)


# Attention, through hooks


def softmax_over_matrix(scores: Tensor, allowed: Tensor) -> Tensor:
    """exp(sᵢⱼ) / Σ_pq exp(s_pq) over the allowed (p, q) of the whole matrix: (…, T, S) → (…, T, S). Erratum T1."""
    visible = scores.masked_fill(~allowed, float("-inf")).flatten(-2)
    any_allowed = allowed.flatten(-2).any(-1, keepdim=True)
    visible = visible.masked_fill(~any_allowed, 0.0)  # a fully masked matrix gives zeros, not NaN
    return (visible.softmax(-1) * any_allowed).view(scores.shape)


def _matrix_hooks(model: nn.Module) -> dict[str, Hook]:
    waiting: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> None:
        waiting[name.removesuffix("scores")] = value

    def spread(name: str, value: Tensor) -> Tensor:
        # A weight of the correct pattern is positive exactly where the mask allows it (or so small that it is zero
        # here too, since the sum over the matrix is larger than that over the row).
        return softmax_over_matrix(waiting.pop(name.removesuffix("pattern")), value > 0)

    return {"*.scores": keep, "*.pattern": spread}


def _output_hooks(model: nn.Module) -> dict[str, Hook]:
    """softmax(QKᵀ) V / √dₖ: undo the scaling of the scores and divide the result by √dₖ instead."""
    root = sqrt(_attention(model).head_width)
    return {"*.scores": lambda name, value: value * root, "*.heads": lambda name, value: value / root}


def _unscaled_hooks(model: nn.Module) -> dict[str, Hook]:
    """softmax(QKᵀ) V"""
    root = sqrt(_attention(model).head_width)
    return {"*.scores": lambda name, value: value * root}


def _model_width_hooks(model: nn.Module) -> dict[str, Hook]:
    """softmax(QKᵀ/√D) V"""
    attention = _attention(model)
    smaller = sqrt(attention.head_width / attention.out_proj.out_features)
    return {"*.scores": lambda name, value: value * smaller}


def _residual_hooks(model: nn.Module) -> dict[str, Hook]:
    """Remove what the heads added from the output of a block: X + m(X + Σ h(X))."""
    waiting: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> None:
        waiting[name] = value

    def drop(name: str, value: Tensor) -> Tensor:
        block = name.removesuffix("resid_post")
        return value - (waiting.pop(block + "resid_mid") - waiting.pop(block + "resid_pre"))

    return {"*.resid_pre": keep, "*.resid_mid": keep, "*.resid_post": drop}


def _attention(model: nn.Module) -> MultiHeadAttention:
    return next(module for module in model.modules() if isinstance(module, MultiHeadAttention))


HOOKS: dict[str, Callable[[nn.Module], dict[str, Hook]]] = {
    "softmax-over-matrix": _matrix_hooks,
    "scaled-output": _output_hooks,
    "unscaled-scores": _unscaled_hooks,
    "model-width-scale": _model_width_hooks,
    "dropped-residual": _residual_hooks,
}


# A replacement for a module's method: (module, name of the method, function)

Replacement = tuple[nn.Module, str, Callable[..., object]]


def _scale_and_shift(y: Tensor, gain: Tensor, shift: Tensor | None) -> Tensor:
    return y * gain if shift is None else y * gain + shift


def sigma_plus_epsilon(x: Tensor, gain: Tensor, shift: Tensor | None, epsilon: float) -> Tensor:
    """γ ⊙ (x − μ) / (σ + ε) + β. Erratum T6, Wang §5."""
    return _scale_and_shift(
        (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + epsilon), gain, shift
    )


def scalar_gain(x: Tensor, gain: Tensor, shift: Tensor | None, epsilon: float) -> Tensor:
    """γ̄ (x − μ) / √(σ² + ε) + β̄, with the means of the vectors γ and β as scalars. Erratum T6, Yang."""
    return _scale_and_shift(
        F.layer_norm(x, gain.shape, eps=epsilon), gain.mean(), None if shift is None else shift.mean()
    )


def batch_statistics(x: Tensor, gain: Tensor, shift: Tensor | None, epsilon: float) -> Tensor:
    """γ ⊙ (x − μ) / √(σ² + ε) + β with μ, σ of each feature over all positions of all texts. Erratum T6, Yang."""
    rows = x.flatten(0, -2)  # (B·T, D)
    mean, variance = rows.mean(0), rows.var(0, correction=0)  # (D) each
    return _scale_and_shift((x - mean) / (variance + epsilon).sqrt(), gain, shift)


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
    """Q and K from the encoder's output, V from the decoder: (B, H, S, K) each, which fit only if S = T."""
    (B, T, D), S = x.shape, memory.shape[1]
    if S != T:
        raise LabError(
            f"query-from-encoder cannot be computed: the encoder's Q and K make a pattern of {S} × {S}, and the "
            f"decoder has {T} values to mix; allowed: a target as long as its source"
        )
    weights, biases = cross.qkv_proj.weight, cross.qkv_proj.bias
    both = F.linear(memory, weights[: 2 * D], None if biases is None else biases[: 2 * D])  # (B, S, 2D)
    q, k = both.view(B, S, 2, cross.heads, D // cross.heads).permute(2, 0, 3, 1, 4)  # (B, H, S, K) each
    v = F.linear(x, weights[2 * D :], None if biases is None else biases[2 * D :])  # (B, T, D)
    return q, k, v.view(B, T, cross.heads, D // cross.heads).transpose(1, 2)


def _blocks(model: nn.Module) -> list[Block]:
    return [module for module in model.modules() if isinstance(module, Block)]


def _crossing(model: nn.Module) -> list[MultiHeadAttention]:
    return [block.cross for block in _blocks(model) if block.cross is not None]


REPLACEMENTS: dict[str, Callable[[nn.Module], list[Replacement]]] = {
    **{name: partial(_other_norms, name) for name in NORMS},
    "query-from-encoder": lambda model: [
        (cross, "_across", partial(_query_of_encoder, cross)) for cross in _crossing(model)
    ],
}
