"""Heads analysed by their weights: two bilinear forms, their eigenvalues, and compositions of heads (MATH T3, T4).

W_QK determines which positions attend to which, W_OV what they copy. Becker-Kahn's forms have no biases, but trained
heads do: a bias is one more column, with a 1 appended to every x, so the forms stay exact (`head_weights`, `affine`).
The composition of two heads is again a head, with the pattern A²A¹ and the form W_OV² W_OV¹; it covers only what the
first head *adds* to the stream, and is exact if there is nothing between the two but the sum (no norm).

Notable: W_QK and W_OV have rank K, so their D − K other eigenvalues are 0 and the K that matter are those of a K × K
product: λ(AB) = λ(BA) up to zeros. The same swap gives the eigenvalues of the whole circuit from token to token,
W_U W_OV W_E, without forming its V² entries. Circuits leave out biases and rotary rotation (W_QK is then the form at
distance 0); with `norms` the gain γ and the centring of the norms before and after are multiplied in, which is what a
pre-LN model does except for the scale of each position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from txlab.engine.interpret.activation_cache import ActivationCache
from txlab.engine.interpret.sites import (
    Model,
    Site,
    attention_at,
    block_at,
    head_of,
    site_named,
    stream_of,
    unembedding,
)
from txlab.engine.transformer.blocks import MultiHeadAttention, pattern
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.masks import Mask
from txlab.engine.transformer.norms import Norm
from txlab.errors import LabError


@dataclass(frozen=True)
class HeadWeights:
    """The matrices of one head, or of all heads of a layer with a leading axis H.

    q, k, v   W_Q, W_K, W_V (K, D); with biases appended as a last column, D + 1 instead of D
    o         W_O (D, K), this head's columns
    """

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor

    def head(self, head: int) -> HeadWeights:
        """Return one head of a layer's weights."""
        return HeadWeights(self.q[head], self.k[head], self.v[head], self.o[head])


def head_weights(module: MultiHeadAttention, head: int) -> HeadWeights:
    """Slice head `head` out of [W_Q; W_K; W_V] and W_O, with biases if it has any. MATH T3."""
    K = module.head_width
    q, k, v = (each[head] for each in module.maps())  # (K, D) each
    return HeadWeights(q, k, v, module.out_proj.weight[:, head * K : (head + 1) * K])


def query_key_form(head: HeadWeights) -> Tensor:
    """Return W_QK = W_Qᵀ W_K (D, D): the score of (i, j) is xᵢᵀ W_QK xⱼ / √dₖ. MATH T3; Becker-Kahn §3.2."""
    return head.q.T @ head.k


def output_value_form(head: HeadWeights) -> Tensor:
    """Return W_OV = W_O W_V (D_out, D): attending to xⱼ adds W_OV xⱼ. MATH T3; Becker-Kahn §3.3."""
    return head.o @ head.v


def affine(module: MultiHeadAttention, x: Tensor) -> Tensor:
    """Return x as the forms expect it: (…, D), or (…, D + 1) with a last feature of 1 if the heads have biases."""
    return x if module.qkv_proj.bias is None else torch.cat((x, torch.ones_like(x[..., :1])), dim=-1)


def bilinear_pattern(
    module: MultiHeadAttention, head: int, x: Tensor, mask: Mask, memory: Tensor | None = None
) -> Tensor:
    """A = pattern(x W_QK yᵀ / √dₖ), y the memory (B, S, D) or x itself (B, T, D): (B, T, S). MATH T3, T8.

    In cross-attention the form pairs two streams: its left side reads the decoder, its right side the encoder.
    """
    K = module.head_width
    y = x if memory is None else memory
    allowed = mask.allowed_pairs(x.shape[-2], y.shape[-2], x.device)
    if allowed is not None and allowed.dim() == 4:
        allowed = allowed[:, 0]  # (B, T, S): one head at a time here
    form = query_key_form(head_weights(module, head))
    return pattern(affine(module, x) @ form @ affine(module, y).transpose(-2, -1) / sqrt(K), allowed)


def bilinear_attention(module: MultiHeadAttention, x: Tensor, mask: Mask, memory: Tensor | None = None) -> Tensor:
    """Σ_h A_h y W_OVᵀ, y the memory (B, S, D) or x itself: (B, T, D) → (B, T, D). MATH T3, T8.

    Equal to `module(x, mask)` to rounding, and with a memory to the module's cross-attention.
    """
    y = affine(module, x if memory is None else memory)  # (B, S, D)
    out = torch.zeros_like(x)
    for h in range(module.heads):
        form = output_value_form(head_weights(module, h))  # (D, D)
        out = out + bilinear_pattern(module, h, x, mask, memory) @ y @ form.T  # (B, T, D)
    return out if module.out_proj.bias is None else out + module.out_proj.bias


@dataclass(frozen=True)
class VirtualHead:
    """A² A¹ (B, T, S), the attention along two steps, and W_OV² W_OV¹ (D, D), what arrives. MATH T4."""

    pattern: Tensor
    form: Tensor

    def __call__(self, y: Tensor) -> Tensor:
        """Return (A²A¹ ⊗ W_OV²W_OV¹) y: (B, S, D) → (B, T, D), y as `affine` returns it for the first head."""
        return self.pattern @ y @ self.form.T


def virtual_head(first: HeadWeights, first_pattern: Tensor, second: HeadWeights, second_pattern: Tensor) -> VirtualHead:
    """Compose two heads: the result is what `second` moves of what `first` added. MATH T4.

    (A² ⊗ W_OV²)(A¹ ⊗ W_OV¹) = A²A¹ ⊗ W_OV²W_OV¹; Becker-Kahn rem. 3.1, who counts from the second; Elhage et al. 2021.
    Patterns (B, T, R) and (B, R, S). The second head's bias of V does not depend on the first and is left out.
    """
    D = first.o.shape[0]
    form = output_value_form(second)[:, :D] @ output_value_form(first)
    return VirtualHead(second_pattern @ first_pattern, form)


@torch.no_grad()
def layer_weights(model: Model, site: Site, layer: int, norms: bool = False) -> HeadWeights:
    """Return all heads of a layer (H, …), float64, without biases; with `norms` times the norm before, W Γ C."""
    module = attention_at(model, site, layer)
    D = module.out_proj.weight.shape[0]
    q, k, v = (each[..., :D].double() for each in module.maps())  # (H, K, D) each, without biases
    o = module.out_proj.weight.detach().double().view(D, module.heads, -1).transpose(0, 1)  # (H, D, K)
    if norms and (norm := _norm_before(model, site, layer)) is not None:
        q = norm.before(q)
        if site.name != "cross":  # keys and values come from another stream with its own final norm
            k, v = norm.before(k), norm.before(v)
    return HeadWeights(q, k, v, o)


def _norm_before(model: Model, site: Site, layer: int) -> Norm | None:
    block = block_at(model, site, layer)
    if block.norm == "post":
        return None
    return block.cross_norm if site.name == "cross" else block.attention_norm


@dataclass(frozen=True)
class Circuit:
    """The eigenvalues λ of a circuit, complex, largest |λ| first, and Σλ/Σ|λ|.

    positive   real, in [−1, 1]. For OV: near 1 a head copies (a token attended to becomes likelier), near −1 it
               suppresses. For QK: near 1 tokens attend to similar tokens, near −1 to dissimilar ones.
    """

    eigenvalues: Tensor
    positive: float


@torch.no_grad()
def circuit(
    model: Model, site: str, layer: int, head: int, kind: str, *, whole: bool = True, norms: bool = False
) -> Circuit:
    """Return one head's "qk" or "ov" circuit, with `whole` from token to token, else within the stream.

    ov   W_OV = W_O W_V (D, D);   whole: W_U W_OV W_Eᵀ, the logits from attending to each token (V, V)
    qk   W_QK = W_Qᵀ W_K / √dₖ;    whole: W_E W_QK W_Eᵀ, the score of each token for each (V, V)

    MATH T3; Becker-Kahn §3.2–3.3; Elhage et al. 2021, "Summarizing OV/QK matrices". LabError if no
    circuit leads from token to token: BERT's head, an encoder, separate tables or vocabularies.
    """
    place = head_of(model, site, layer, head)
    gram = _between(model, place, kind, norms) if whole else None
    return circuit_of(layer_weights(model, place, layer, norms), head, kind, gram)


def circuit_of(weights: HeadWeights, head: int, kind: str, gram: Tensor | None = None) -> Circuit:
    """Return the circuit of given weights; `gram` (D, D) = W_Eᵀ W_U for ov, W_Eᵀ W_E for qk, None within the stream."""
    if kind not in ("qk", "ov"):
        raise LabError(f"a head has no circuit {kind!r}; allowed: qk, ov")
    K, D = weights.q.shape[-2:]
    middle = torch.eye(D, dtype=torch.float64, device=weights.q.device) if gram is None else gram
    if kind == "ov":
        small = weights.v[head] @ middle @ weights.o[head]  # (K, K)
    else:
        small = weights.k[head] @ middle @ weights.q[head].T / sqrt(K)
    values = torch.linalg.eigvals(small)
    values = values[values.abs().argsort(descending=True)]
    size = float(values.abs().sum())
    return Circuit(values, float(values.real.sum()) / size if size > 0 else float("nan"))


@torch.no_grad()
def copying_scores(model: Model, site: str, kind: str = "ov", *, whole: bool = True, norms: bool = False) -> Tensor:
    """Return Σλ/Σ|λ| of every head's circuit: (L, H). With "ov", this is the copying score of Elhage et al. 2021."""
    rows = [[each.positive for each in heads] for heads in circuits(model, site, kind, whole=whole, norms=norms)]
    return torch.tensor(rows, dtype=torch.float64)


def circuits(model: Model, site: str, kind: str, *, whole: bool = True, norms: bool = False) -> Iterator[list[Circuit]]:
    """Yield `circuit` of every head, layer by layer; the shared (D, D) product of the (V, D) tables is made once."""
    place = site_named(model, site)
    with torch.no_grad():
        gram = _between(model, place, kind, norms) if whole else None
    for layer in range(place.layers):
        with torch.no_grad():
            weights = layer_weights(model, place, layer, norms)
            made = [circuit_of(weights, head, kind, gram) for head in range(place.heads)]
        yield made


@torch.no_grad()
def _between(model: Model, site: Site, kind: str, norms: bool) -> Tensor:
    """Return the map (D, D) between a head's output and its input by way of the tokens.

    W_Eᵀ W_U for ov, W_Eᵀ W_E for qk; with `norms` the unembedding includes the final norm's Γ C.
    """
    table = _embedding(model, site)  # W_E (V, D)
    if kind == "qk":
        return table.T @ table
    table_and_bias = unembedding(model)
    if table_and_bias is None or site.name == "encoder":
        what = "BERT's head is not a linear map" if table_and_bias is None else "an encoder's stream has no unembedding"
        raise LabError(f"{what}, so no circuit leads from token to token; ask for the circuit within the stream")
    if len(table_and_bias[0]) != len(table):
        raise LabError("source and target have different tokens, so a token looked at has no logit of its own")
    gram = table.T @ table_and_bias[0].double()  # (D, D)
    last = stream_of(model).final_norm
    return last.before(gram) if norms and last is not None else gram


def _embedding(model: Model, site: Site) -> Tensor:
    """Return W_E (V, D) of the tokens that a site attends to; the queries come from the same tokens."""
    if not isinstance(model, EncoderDecoder):
        return model.embed.weight.double()
    if site.name == "cross" and model.embed_source is not None:
        raise LabError("source and target have separate tables: no circuit leads from one's tokens to the other's")
    source = model.embed_source if site.name == "encoder" and model.embed_source is not None else model.embed_target
    return source.weight.double() * (sqrt(model.shape.width) if model.shape.scale_embedding else 1.0)


@dataclass(frozen=True)
class Composition:
    """How much each head reads what an earlier one wrote: (L, H, L, H), [l₂, h₂, l₁, h₁], NaN unless l₁ < l₂.

    query, key, value   through W_Q, W_K, W_V of the later head
    expected            the same ratio for random matrices (of their expected squares): 1/√D
    """

    query: Tensor
    key: Tensor
    value: Tensor
    expected: float


@torch.no_grad()
def composition(model: Model, site: str = "self", *, layer: int | None = None, norms: bool = False) -> Composition:
    """‖W¹ W²‖ / (‖W¹‖ ‖W²‖), Frobenius, of each pair of heads of a self-attention. Elhage et al. 2021, "Composition".

    query ‖W_QKᵀ W_OV‖ · key ‖W_QK W_OV‖ · value ‖W_OV W_OV‖, the later head's form first. All from K × K products.
    With `layer`, only the compositions of its heads with earlier ones are computed; the rest is NaN.
    """
    attention = site_named(model, site)
    if attention.name == "cross":
        raise LabError("cross-attention reads another stream than it writes: its heads do not compose with each other")
    L, H = attention.layers, attention.heads
    if layer is not None:
        head_of(model, site, layer)
    layers = [layer_weights(model, attention, each, norms) for each in range(L if layer is None else layer + 1)]
    shape = (L, H, L, H)
    query, key, value = (torch.full(shape, float("nan"), dtype=torch.float64) for _ in range(3))
    for a, first in enumerate(layers):
        written = first.v @ first.v.transpose(-2, -1)  # (H, K, K): W_V W_Vᵀ
        size = _norm(first.o.transpose(-2, -1) @ first.o, written)  # ‖W_OV‖ (H)
        for b, second in enumerate(layers[a + 1 :], a + 1):
            if layer not in (None, b):
                continue
            q, k = (w @ w.transpose(-2, -1) for w in (second.q, second.k))  # (H, K, K)
            v, o = second.v @ second.v.transpose(-2, -1), second.o.transpose(-2, -1) @ second.o
            looks, carries = _norm(q, k), _norm(o, v)  # ‖W_QK‖, ‖W_OV‖ (H)
            for table, reads, left, own in (
                (query, second.q, k, looks),
                (key, second.k, q, looks),
                (value, second.v, o, carries),
            ):
                middle = torch.einsum("hkd,gdj->hgkj", reads, first.o)  # (H, H, K, K)
                squares = torch.einsum("hkl,hglj,gji,hgki->hg", left, middle, written, middle)
                table[b, :, a, :] = squares.clamp_min(0).sqrt() / (own[:, None] * size)
    D = layers[0].q.shape[-1]
    return Composition(query, key, value, 1 / sqrt(D))


def _norm(left: Tensor, right: Tensor) -> Tensor:
    """Return ‖Aᵀ B‖ of A, B (K, D), from A Aᵀ and B Bᵀ: √tr(A Aᵀ B Bᵀ). (H, K, K) twice → (H)."""
    return (left * right.transpose(-2, -1)).sum((-2, -1)).clamp_min(0).sqrt()


@torch.no_grad()
def virtual_head_of(
    model: Model, cache: ActivationCache, first: tuple[int, int], second: tuple[int, int], site: str = "self"
) -> VirtualHead:
    """`virtual_head` of two heads (layer, head) of a model, with their patterns on a text, without biases.

    It acts on the first head's input (a pre-LN model's norm in between only scales it). LabError unless `first` is in
    an earlier layer than `second`.
    """
    attention = head_of(model, site, *first)
    head_of(model, site, *second)
    if first[0] >= second[0] or attention.name == "cross":
        raise LabError("a virtual head is made of a head and one of a later layer that reads the same stream")
    (one, one_pattern), (two, two_pattern) = (
        (layer_weights(model, attention, layer).head(head), cache.pattern(site, layer, head).double())
        for layer, head in (first, second)
    )
    return virtual_head(one, one_pattern, two, two_pattern)
