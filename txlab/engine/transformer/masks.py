"""Which positions attention may look at (MATH T2).

A mask is a boolean matrix of allowed pairs; `attention` in blocks.py applies it. Following Yang, attention passes
messages along the edges of a directed graph, and the causal mask is one such graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Mask(Protocol):
    """A mask: `name` appears in frames, `allowed_pairs` says which keys each query may attend to."""

    @property
    def name(self) -> str: ...

    def allowed_pairs(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        """Return (queries, keys) or (B, 1, queries, keys) booleans, True = allowed; None = everything is allowed.

        With fewer queries than keys, the queries are the last positions: a cache holds the keys before them.
        """


@dataclass(frozen=True)
class NoMask:
    """Every position sees every position (an encoder)."""

    name: str = "none"

    def allowed_pairs(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        return None


@dataclass(frozen=True)
class Causal:
    """Position i sees j ≤ i: −∞ above the diagonal (Vaswani et al. 2017, §3.2.3)."""

    name: str = "causal"

    def allowed_pairs(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        if queries == 1:
            return None  # the newest position sees everything in the cache
        return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


@dataclass(frozen=True)
class Padding:
    """Hides the padding of each sequence; `lengths` has one entry per sequence, (B).

    Padding follows the sequence, or precedes it with `left`, as generation needs: the last position of every row is
    then a real token.
    """

    lengths: tuple[int, ...] | Tensor
    left: bool = False
    name: str = "padding"

    def allowed_pairs(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        lengths = torch.as_tensor(self.lengths, device=device)[:, None]  # (B, 1)
        place = torch.arange(keys, device=device)  # (S)
        real = place >= keys - lengths if self.left else place < lengths  # (B, S)
        return real[:, None, None, :].expand(-1, 1, queries, -1)


@dataclass(frozen=True)
class GraphMask:
    """Node i sees node j exactly where `sees[i][j]`: attention as message passing along a directed graph (Yang).

    A text shorter than the graph occupies its first nodes.
    """

    sees: tuple[tuple[bool, ...], ...]
    name: str = "graph"

    @classmethod
    def of_edges(cls, nodes: int, edges: Iterable[tuple[int, int]]) -> GraphMask:
        """Return the graph in which a message travels from j to i for each edge (j, i).

        >>> GraphMask.of_edges(2, [(0, 1)]).sees
        ((False, False), (True, False))
        """
        arrows = set(edges)
        return cls(tuple(tuple((j, i) in arrows for j in range(nodes)) for i in range(nodes)))

    def allowed_pairs(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        if keys > len(self.sees):
            raise ValueError(f"a graph on {len(self.sees)} nodes cannot mask {keys} positions")
        return torch.tensor(self.sees, dtype=torch.bool, device=device)[keys - queries : keys, :keys]


@dataclass(frozen=True)
class Every:
    """The intersection of several masks, e.g. causal and padding."""

    masks: Sequence[Mask]

    @property
    def name(self) -> str:
        return " and ".join(mask.name for mask in self.masks)

    def allowed_pairs(self, queries: int, keys: int, device: torch.device | None = None) -> Tensor | None:
        together: Tensor | None = None
        for mask in self.masks:
            one = mask.allowed_pairs(queries, keys, device)
            if one is not None:
                together = one if together is None else together & one
        return together


CAUSAL = Causal()
NO_MASK = NoMask()
