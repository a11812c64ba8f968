"""Who may look at whom: masks as small things of their own (MATH T2).

Notable: a mask only says *allowed or not*, as a boolean matrix; how attention keeps to it (−∞ before the softmax, zeros
for a node that may look at nothing) is attention's business. Yang's view is taken literally: attention passes messages
along the edges of a directed graph, and the causal mask is one such graph among others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


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
class Graph:
    """Node i sees node j exactly where `sees[i][j]`: attention as message passing along a directed graph (Yang).

    A text that is shorter than the graph stands on its first nodes.
    """

    sees: tuple[tuple[bool, ...], ...]
    name: str = "graph"

    @classmethod
    def of_edges(cls, nodes: int, edges: Iterable[tuple[int, int]]) -> Graph:
        """The graph in which a message travels from j to i for each edge (j, i).

        >>> Graph.of_edges(2, [(0, 1)]).sees
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
