"""Scaled dot-product attention: who may look at whom (masks), the scores, the pattern, the weighted sum (MATH T1, T2).

Notable: three small functions carry everything: `scores`, `pattern`, and the product with V; explanations call the same
three, so they cannot disagree with the model. A mask only says *allowed or not*, as a boolean matrix; how attention
keeps to it (−∞ before the softmax, zeros for a row that may look at nothing) is decided here. Yang's view is taken
literally: attention passes messages along the edges of a directed graph, and the causal mask is one such graph. The
softmax runs along each row (erratum T1: one of the lecture texts normalises over the whole matrix). Two kernels compute
the same: "matmul" writes the formula out and wins for short contexts in bfloat16 on a CPU, "sdpa" is torch's fused
kernel and wins for long ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from txlab.engine.explain import Explanation, Operand, Step
from txlab.engine.transformer.hooks import Hooks


class Mask(Protocol):
    """`name` goes into frames; `allowed` tells which keys each query may look at."""

    @property
    def name(self) -> str: ...

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        """(queries, keys) or (B, 1, queries, keys) booleans, True = may look; None = everybody sees everything.

        Where there are fewer queries than keys, the queries are the last ones: a cache holds the keys before them.
        """


@dataclass(frozen=True)
class NoMask:
    """Every position sees every position (an encoder)."""

    name: str = "none"

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        return None


@dataclass(frozen=True)
class Causal:
    """Position i sees j ≤ i: −∞ above the diagonal (Vaswani et al. 2017, §3.2.3)."""

    name: str = "causal"

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        if queries == 1:
            return None  # the newest position sees all that the cache holds
        return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


@dataclass(frozen=True)
class Padding:
    """Nobody sees the positions beyond its own sequence; `lengths` has one entry a sequence.

    They lie past its end, or with `left` before its beginning, where generation wants them: then the last position of
    every row is a real one.
    """

    lengths: tuple[int, ...]
    left: bool = False
    name: str = "padding"

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        lengths = torch.tensor(self.lengths, device=device)[:, None]  # (B, 1)
        place = torch.arange(keys, device=device)  # (S)
        real = place >= keys - lengths if self.left else place < lengths  # (B, S)
        return real[:, None, None, :].expand(-1, 1, queries, -1)


@dataclass(frozen=True)
class GraphMask:
    """Node i sees node j exactly where `sees[i][j]`: attention as message passing along a directed graph (Yang).

    A text that is shorter than the graph stands on its first nodes.
    """

    sees: tuple[tuple[bool, ...], ...]
    name: str = "graph"

    @classmethod
    def of_edges(cls, nodes: int, edges: Iterable[tuple[int, int]]) -> GraphMask:
        """The graph in which a message travels from j to i for each edge (j, i).

        >>> GraphMask.of_edges(2, [(0, 1)]).sees
        ((False, False), (True, False))
        """
        arrows = set(edges)
        return cls(tuple(tuple((j, i) in arrows for j in range(nodes)) for i in range(nodes)))

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        if keys > len(self.sees):
            raise ValueError(f"a graph on {len(self.sees)} nodes cannot mask {keys} positions")
        return torch.tensor(self.sees, dtype=torch.bool, device=device)[keys - queries : keys, :keys]


@dataclass(frozen=True)
class Every:
    """What all of several masks allow, e.g. causal and padding."""

    masks: Sequence[Mask]

    @property
    def name(self) -> str:
        return " and ".join(mask.name for mask in self.masks)

    def allowed(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        together: Tensor | None = None
        for mask in self.masks:
            one = mask.allowed(queries, keys, device)
            if one is not None:
                together = one if together is None else together & one
        return together


CAUSAL = Causal()
NO_MASK = NoMask()


Kernel = Literal["matmul", "sdpa"]


def scores(q: Tensor, k: Tensor, bias: Tensor | None = None) -> Tensor:
    """sᵢⱼ = qᵢ·kⱼ / √K (+ biasᵢⱼ): q (…, T, K), k (…, S, K), bias (T, S) → (…, T, S).

    MATH T1; Vaswani et al. 2017, eq. 1. With a bias the product, the scaling and the
    sum are one pass: 106 instead of 172 µs in bfloat16 for 48 heads of 64 positions, forward.
    """
    if bias is None:
        return q @ k.transpose(-2, -1) / sqrt(q.shape[-1])
    flat_q, flat_k = q.flatten(0, -3), k.flatten(0, -3)  # (B·H, T, K), (B·H, S, K)
    flat = torch.baddbmm(bias, flat_q, flat_k.transpose(-2, -1), alpha=1 / sqrt(q.shape[-1]))  # (B·H, T, S)
    return flat.view(*q.shape[:-1], k.shape[-2])  # (B, H, T, S)


def pattern(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """αᵢⱼ = exp(sᵢⱼ) / Σⱼ′ exp(sᵢⱼ′) over the allowed j′ of row i, 0 elsewhere: (…, T, S) → (…, T, S). MATH T1, T2.

    A row that may look at nothing is all zeros: the softmax of nothing would be 0/0, and its NaN would reach every
    weight through the gradient, so such a row is given finite scores first and zeroed after.
    """
    if allowed is None:
        return scores.softmax(-1)
    somebody = allowed.any(-1, keepdim=True)  # (…, T, 1)
    visible = scores.masked_fill(somebody & ~allowed, float("-inf"))
    return visible.softmax(-1) * somebody.to(scores.dtype)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    kernel: Kernel = "matmul",
    dropout: float = 0.0,
    hooks: Hooks | None = None,
) -> Tensor:
    """softmax(QKᵀ/√K) V along rows: q (…, T, K), k and v (…, S, K) → (…, T, K). MATH T1; Vaswani et al. 2017, eq. 1.

    `dropout` drops weights α (training only; the caller passes 0 otherwise). Where somebody waits at the places
    `scores` (before the mask) or `pattern` (α, before dropout), both are formed whatever the kernel.
    """
    queries, keys = q.shape[-2], k.shape[-2]
    if hooks is not None and hooks.want("scores", "pattern"):
        alpha = pattern(hooks("scores", scores(q, k)), mask.allowed(queries, keys, q.device))
        return F.dropout(hooks("pattern", alpha), dropout) @ v
    if isinstance(mask, Causal):
        return _causal(q, k, v, kernel, dropout)
    allowed = mask.allowed(queries, keys, q.device)
    if kernel == "sdpa" and allowed is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)
    if kernel == "sdpa" and allowed is not None:
        # Some of torch's kernels give zeros for a row that sees nothing, others NaN: let it see all, then zero it.
        somebody = allowed.any(-1, keepdim=True)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed | ~somebody, dropout_p=dropout)
        return mixed * somebody.to(mixed.dtype)
    return F.dropout(pattern(scores(q, k), allowed), dropout) @ v


def _causal(q: Tensor, k: Tensor, v: Tensor, kernel: Kernel, dropout: float) -> Tensor:
    """`attention` under the causal mask, where every row sees at least itself and the empty-row care costs nothing."""
    queries, keys = q.shape[-2], k.shape[-2]
    if kernel == "sdpa":
        if queries == keys or queries == 1:
            # is_causal with one query would hide all keys but the first: a single query needs no mask.
            return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=queries > 1)
        allowed = Causal().allowed(queries, keys, q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout)
    bias = causal_bias(queries, keys, q) if queries > 1 else None
    return F.dropout(scores(q, k, bias).softmax(-1), dropout) @ v


def causal_bias(queries: int, keys: int, like: Tensor) -> Tensor:
    """0 where a query may look and −∞ where not, (queries, keys): added to scores, one pass less than a masked fill."""
    return torch.full((queries, keys), float("-inf"), dtype=like.dtype, device=like.device).triu(keys - queries + 1)


def explain_weight(q: Tensor, k: Tensor, mask: Mask, i: int, j: int, labels: Sequence[str] = ()) -> Explanation:
    """Why position i of one head looks at position j with αᵢⱼ: q (T, K), k (S, K), as they enter the product. MATH T1.

    `labels` names the positions. The numbers come from `scores`, the mask and `pattern`, the functions that the model
    itself runs; the stable softmax in between (row maximum, exponentials, sum) is spelt out for the reader.
    """
    names = list(labels) or [str(position) for position in range(k.shape[-2])]
    q, k = q.float(), k.float()
    allowed = mask.allowed(q.shape[-2], k.shape[-2], q.device)
    row = scores(q, k)[i]  # (S)
    visible = torch.ones_like(row, dtype=torch.bool) if allowed is None else allowed[i]
    alpha = pattern(row, visible)  # (S)
    product, root = float(q[i] @ k[j]), sqrt(q.shape[-1])
    seen = row.masked_fill(~visible, float("-inf"))
    operands = [
        Operand(f"q{_sub(i)}", q[i].tolist(), f"the query of {names[i]!r}"),
        Operand(f"k{_sub(j)}", k[j].tolist(), f"the key of {names[j]!r}"),
        Operand("√K", root, f"K = {q.shape[-1]}, the head's width"),
        Operand("mask", mask.name, "allowed" if visible[j] else "this position may not be looked at"),
    ]
    steps = [
        Step("q·k", " + ".join(f"{_n(a)}·{_n(b)}" for a, b in _first_terms(q[i], k[j])) + " + …", product),
        Step("sᵢⱼ", f"{_n(product, 4)} / {root:.4f}", float(row[j])),
        Step("sᵢⱼ′", "the score of every position, −∞ where the mask forbids", seen.tolist()),
    ]
    if bool(visible.any()):
        largest = float(seen.max())
        exponentials = (seen - largest).exp()
        total = float(exponentials.sum())
        steps += [
            Step("max", "maxⱼ′ sᵢⱼ′", largest, "subtracted first, so that no exponential overflows; it cancels"),
            Step("exp", "exp(sᵢⱼ′ − max)", exponentials.tolist()),
            Step("sum", "Σⱼ′ exp(sᵢⱼ′ − max)", total),
            Step("αᵢⱼ′", "exp / sum", alpha.tolist(), "the row of weights; it sums to 1"),
            Step("αᵢⱼ", f"{float(exponentials[j]):.4f} / {total:.4f}", float(alpha[j])),
        ]
    else:
        steps.append(Step("αᵢⱼ", "0", 0.0, "this position may look at nothing, so its row is zeros"))
    return Explanation(
        question=f"why does {names[i]!r} look at {names[j]!r} with {float(alpha[j]):.3f}?",
        equation="αᵢⱼ = exp(qᵢ·kⱼ/√K) / Σⱼ′ exp(qᵢ·kⱼ′/√K)",
        math="T1",
        source="Vaswani et al. 2017, eq. 1",
        operands=operands,
        steps=steps,
        result=float(alpha[j]),
        labels=names,
        asked=j,
    )


def _first_terms(a: Tensor, b: Tensor, terms: int = 3) -> list[tuple[float, float]]:
    return list(zip(a[:terms].tolist(), b[:terms].tolist(), strict=True))


def _n(number: float, places: int = 2) -> str:
    """A number inside an expression, with a minus sign rather than a hyphen."""
    return f"{number:.{places}f}".replace("-", "−")


def _sub(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
