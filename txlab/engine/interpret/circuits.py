"""What a head does, read off its weights: its two circuits, and how heads build on one another (MATH T3, T4).

Notable: W_QK and W_OV have rank K, so their D − K other eigenvalues are 0 and the K that matter are those of a K × K
product: λ(AB) = λ(BA) but for zeros. The same turn gives the eigenvalues of the whole circuit from token to token,
W_U W_OV W_E, without its V² numbers. Weights are taken as they are; with `norms` the gain γ and the centring of the
norms before and after are multiplied in, which is what a pre-LN model does but for each position's scale. Biases
belong to no circuit and are left out; so is rotary turning: W_QK is then the form at distance 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from txlab.engine.interpret.activation_cache import Seen
from txlab.engine.interpret.residual_stream import stream_of, unembedding
from txlab.engine.interpret.sites import Model, Site, attention_at, block_at, head_of, site_named
from txlab.engine.transformer.blocks import Norm
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.errors import LabError


@dataclass(frozen=True)
class LayerWeights:
    """The maps of all heads of a layer, float64, without biases: q, k, v (H, K, D) and o (H, D, K)."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor


@torch.no_grad()
def layer_weights(model: Model, site: Site, layer: int, norms: bool = False) -> LayerWeights:
    """W_Q, W_K, W_V, W_O by heads; with `norms` what the norm before multiplies in, W Γ C, where there is one."""
    module = attention_at(model, site, layer)
    D = module.out.weight.shape[0]
    q, k, v = (each[..., :D].double() for each in module.maps())  # (H, K, D) each, without biases
    o = module.out.weight.detach().double().view(D, module.heads, -1).transpose(0, 1)  # (H, D, K)
    if norms and (norm := _norm_before(model, site, layer)) is not None:
        q = norm.before(q)
        if site.name != "cross":  # keys and values of another stream, whose last norm is its own
            k, v = norm.before(k), norm.before(v)
    return LayerWeights(q, k, v, o)


def _norm_before(model: Model, site: Site, layer: int) -> Norm | None:
    block = block_at(model, site, layer)
    if block.norm == "post":
        return None
    return block.norm_cross if site.name == "cross" else block.norm_attention


@dataclass(frozen=True)
class Circuit:
    """The eigenvalues λ of a circuit, complex, largest |λ| first, and Σλ/Σ|λ|.

    positive   real, in [−1, 1]. For OV: near 1 a head copies (a token that is looked at becomes likelier), near −1 it
               forbids. For QK: near 1 tokens look at their like, near −1 at anything else.
    """

    eigenvalues: Tensor
    positive: float


@torch.no_grad()
def circuit(
    model: Model, site: str, layer: int, head: int, kind: str, *, whole: bool = True, norms: bool = False
) -> Circuit:
    """One head's "qk" or "ov" circuit, with `whole` from token to token, else within the stream.

    ov   W_OV = W_O W_V (D, D);   whole: W_U W_OV W_Eᵀ, the logits that a token gives when it is looked at (V, V)
    qk   W_QK = W_Qᵀ W_K / √K;    whole: W_E W_QK W_Eᵀ, the score of each token for each (V, V)

    MATH T3; Becker-Kahn §3.2–3.3; Elhage et al. 2021, "Summarizing OV/QK matrices". LabError where tokens do not
    enter and leave by one table's space.
    """
    found = head_of(model, site, layer, head)
    gram = _between(model, found, kind, norms) if whole else None
    return circuit_of(layer_weights(model, found, layer, norms), head, kind, gram)


def circuit_of(weights: LayerWeights, head: int, kind: str, gram: Tensor | None = None) -> Circuit:
    """The circuit of given weights; `gram` (D, D) = W_Eᵀ W_U for ov, W_Eᵀ W_E for qk, None = within the stream."""
    if kind not in ("qk", "ov"):
        raise LabError(f"a head has two circuits, qk and ov; {kind!r} is none of them")
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
    """Σλ/Σ|λ| of every head's circuit: (L, H). For a token's logits, "ov", the copying score of Elhage et al. 2021."""
    rows = [[each.positive for each in heads] for heads in circuits(model, site, kind, whole=whole, norms=norms)]
    return torch.tensor(rows, dtype=torch.float64)


def circuits(model: Model, site: str, kind: str, *, whole: bool = True, norms: bool = False) -> Iterator[list[Circuit]]:
    """`circuit` of every head, layer by layer; what they share, (D, D) out of (V, D), is made once."""
    found = site_named(model, site)
    with torch.no_grad():
        gram = _between(model, found, kind, norms) if whole else None
    for layer in range(found.layers):
        with torch.no_grad():
            weights = layer_weights(model, found, layer, norms)
            made = [circuit_of(weights, head, kind, gram) for head in range(found.heads)]
        yield made


@torch.no_grad()
def _between(model: Model, site: Site, kind: str, norms: bool) -> Tensor:
    """(D, D): what stands between a head's output and its input when one goes round by way of the tokens.

    W_Eᵀ W_U, for ov, or W_Eᵀ W_E: with `norms` the unembedding is read through the last norm's Γ C.
    """
    table = _embedding(model, site)  # W_E (V, D)
    if kind == "qk":
        return table.T @ table
    found = unembedding(model)
    if found is None or site.name == "encoder":
        what = "BERT's head is no linear map" if found is None else "an encoder's stream has no unembedding"
        raise LabError(f"{what}, so no circuit leads from token to token; ask for the circuit within the stream")
    if len(found[0]) != len(table):
        raise LabError("source and target have different tokens, so a token looked at has no logit of its own")
    gram = table.T @ found[0].double()  # (D, D)
    last = stream_of(model).last_norm
    return last.before(gram) if norms and last is not None else gram


def _embedding(model: Model, site: Site) -> Tensor:
    """W_E (V, D) of the tokens that a site looks at, as they enter the stream; what asks uses the same tokens."""
    if not isinstance(model, EncoderDecoder):
        return model.embed.weight.double()
    if site.name == "cross" and model.embed_source is not None:
        raise LabError("source and target have tables of their own: no circuit leads from one's tokens to the other's")
    source = model.embed_source if site.name == "encoder" and model.embed_source is not None else model.embed_target
    return source.weight.double() * (sqrt(model.shape.width) if model.shape.scale_embedding else 1.0)


@dataclass(frozen=True)
class Composition:
    """How much each head reads what an earlier one wrote: (L, H, L, H), [l₂, h₂, l₁, h₁], NaN unless l₁ < l₂.

    query, key, value   through W_Q, W_K, W_V of the later head
    expected            the same ratio of matrices drawn at random (of their expected squares): 1/√D
    """

    query: Tensor
    key: Tensor
    value: Tensor
    expected: float


@torch.no_grad()
def composition(model: Model, site: str = "self", *, layer: int | None = None, norms: bool = False) -> Composition:
    """‖W¹ W²‖ / (‖W¹‖ ‖W²‖), Frobenius, of each pair of heads of a self-attention. Elhage et al. 2021, "Composition".

    query ‖W_QKᵀ W_OV‖ · key ‖W_QK W_OV‖ · value ‖W_OV W_OV‖, the later head's form first. All from K × K products.
    With `layer` only what its heads read is computed, and all else is NaN.
    """
    found = site_named(model, site)
    if found.name == "cross":
        raise LabError("cross-attention reads another stream than it writes: its heads do not compose with each other")
    L, H = found.layers, found.heads
    if layer is not None:
        head_of(model, site, layer)
    layers = [layer_weights(model, found, each, norms) for each in range(L if layer is None else layer + 1)]
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
    """‖Aᵀ B‖ of A, B (K, D), from A Aᵀ and B Bᵀ: √tr(A Aᵀ B Bᵀ). (H, K, K) twice → (H)."""
    return (left * right.transpose(-2, -1)).sum((-2, -1)).clamp_min(0).sqrt()


@dataclass(frozen=True)
class VirtualHead:
    """Two heads one after the other as one: what it moves from where, and how it maps it.

    pattern   A² A¹ (T, T)
    reads     W_V¹ (K, D), what is taken up
    writes    W_O² W_V² W_O¹ (D, K), what is laid down: W_OV² W_OV¹ = writes @ reads
    """

    pattern: Tensor
    reads: Tensor
    writes: Tensor

    @property
    def form(self) -> Tensor:
        """W_OV² W_OV¹ (D, D)."""
        return self.writes @ self.reads


@torch.no_grad()
def virtual_head(
    model: Model, seen: Seen, first: tuple[int, int], second: tuple[int, int], site: str = "self"
) -> VirtualHead:
    """(A² ⊗ W_OV²)(A¹ ⊗ W_OV¹) = A² A¹ ⊗ W_OV² W_OV¹, for heads (layer, head), `first` in an earlier layer.

    MATH T4; Becker-Kahn, remark 3.1: with its patterns held, a head is linear. It acts on what the first head read (a
    pre-LN model's norm in between only scales it). LabError unless first is in an earlier layer.
    """
    found = head_of(model, site, *first)
    head_of(model, site, *second)
    if first[0] >= second[0] or found.name == "cross":
        raise LabError("a virtual head is made of a head and one of a later layer that reads the same stream")
    one, two = (layer_weights(model, found, layer) for layer in (first[0], second[0]))
    alpha = seen.pattern(site, *second).double() @ seen.pattern(site, *first).double()
    return VirtualHead(alpha, one.v[first[1]], two.o[second[1]] @ (two.v[second[1]] @ one.o[first[1]]))
