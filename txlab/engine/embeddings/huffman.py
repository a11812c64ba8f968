"""The binary tree of hierarchical softmax: frequent words near the root (MATH K5; Huffman 1952, Mikolov et al. 2013).

>>> tree = huffman([4, 2, 1, 1])
>>> [tree.code(word) for word in range(4)]
['1', '01', '001', '000']
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class HuffmanTree:
    """The way from the root to each of V words, padded to the longest, L.

    nodes  (V, L) int64, inner nodes 0 … V − 2, the root last
    turns  (V, L) int8, +1 left, −1 right, 0 past the leaf
    """

    nodes: np.ndarray
    turns: np.ndarray

    def code(self, word: int) -> str:
        return "".join("0" if turn > 0 else "1" for turn in self.turns[word] if turn)

    @property
    def lengths(self) -> np.ndarray:
        """Decisions from the root to each word, (V)."""
        lengths: np.ndarray = np.abs(self.turns).sum(1)
        return lengths


def huffman(counts: Sequence[int] | np.ndarray) -> HuffmanTree:
    """The tree that minimises Σ count · length: the two rarest nodes are joined, until one is left.

    Among equally rare nodes the oldest is taken, so the same counts give the same tree.
    """
    words = len(counts)
    heap = [(int(count), word) for word, count in enumerate(counts)]
    heapq.heapify(heap)
    parent = np.zeros(2 * words, dtype=np.int64)
    side = np.zeros(2 * words, dtype=np.int8)
    for made in range(words, 2 * words - 1):
        (rarest, right), (second, left) = heapq.heappop(heap), heapq.heappop(heap)
        parent[left], side[left] = made, 1
        parent[right], side[right] = made, -1
        heapq.heappush(heap, (rarest + second, made))
    root = 2 * words - 2
    ways = []
    for word in range(words):
        way, at = [], word
        while at != root:
            way.append((parent[at] - words, side[at]))
            at = parent[at]
        ways.append(way[::-1])
    longest = max(map(len, ways), default=0)
    nodes, turns = np.zeros((words, longest), dtype=np.int64), np.zeros((words, longest), dtype=np.int8)
    for word, way in enumerate(ways):
        for step, (node, turn) in enumerate(way):
            nodes[word, step], turns[word, step] = node, turn
    return HuffmanTree(nodes, turns)
