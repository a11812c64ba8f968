"""A task that only messages along a graph solve: say the symbol that stood on the node `hops` edges before (MATH T2).

Every node of model.graph has a random symbol, and attention looks along the graph's edges alone (Yang: attention is
message passing). One layer carries a symbol over one edge, so a node can know what stands `hops` edges before it after
`hops` layers, and never with fewer. Notable: only nodes at whose end exactly one walk of that length comes in are
scored, the others have no answer or several; a node that nobody sends to gets zeros from every head.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from txlab.errors import LabError
from txlab.experiments.kinds.language_model.batch import NOT_SCORED, Batch
from txlab.experiments.kinds.language_model.induction import SymbolData
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.randomness import generator


def origins(nodes: int, edges: Iterable[tuple[int, int]], hops: int) -> list[int | None]:
    """Where the only walk of `hops` edges into each node begins; None where there is none, or more than one.

    >>> origins(4, [(0, 1), (1, 2), (3, 2)], 1)
    [None, 0, None, None]
    >>> origins(4, [(0, 1), (1, 2), (3, 2)], 2)
    [None, None, 0, None]
    """
    before: list[set[int]] = [set() for _ in range(nodes)]
    for j, i in edges:
        before[i].add(j)
    # Two of the walks into a node are enough to know that there is more than one.
    walks = [[node] for node in range(nodes)]
    for _ in range(hops):
        walks = [[start for j in sorted(before[i]) for start in walks[j]][:2] for i in range(nodes)]
    return [found[0] if len(found) == 1 else None for found in walks]


class GraphData(SymbolData):
    """Symbols on nodes, made as they are needed; every batch is a pure function of (seed, step)."""

    task = "graph"

    def __init__(self, scenario: LanguageModelScenario) -> None:
        edges, hops = scenario.model.edges, scenario.data.hops
        super().__init__(scenario, f"{sorted(set(edges))}/{hops}")
        found = origins(self.context, edges, hops)
        self.scored = np.array([origin is not None for origin in found])
        self.origin = np.array([origin or 0 for origin in found])
        if not self.scored.any():
            raise LabError(f"no node of model.graph has a single walk of data.hops = {hops} edges that ends in it")

    def example(self, length: int) -> list[int]:
        return [int(symbol) for symbol in generator(self.seed, "probe", 0).integers(0, self.vocabulary, size=length)]

    def made(self, random: np.random.Generator) -> Batch:
        import torch  # not for what is asked of the data before it is trained on

        symbols = random.integers(0, self.vocabulary, size=(self.batch, self.context))
        targets = np.where(self.scored, symbols[:, self.origin], NOT_SCORED)
        return Batch(torch.from_numpy(symbols), torch.from_numpy(targets))
