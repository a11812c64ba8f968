"""The tree of hierarchical softmax: optimal, complete, and the same for the same counts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from txlab.engine.embeddings.huffman import huffman

COUNTS = st.lists(st.integers(1, 1000), min_size=2, max_size=40)


def textbook_cost(counts: list[int]) -> int:
    """Σ count · length of an optimal code is the sum of all joined weights; with two queues, as van Leeuwen has it."""
    leaves, made, cost = sorted(counts), [], 0

    def rarest() -> int:
        return leaves.pop(0) if leaves and (not made or leaves[0] <= made[0]) else made.pop(0)

    while len(leaves) + len(made) > 1:
        joined = rarest() + rarest()
        cost += joined
        made.append(joined)
    return cost


@given(COUNTS)
def test_the_code_is_as_short_as_any(counts: list[int]) -> None:
    assert int(np.dot(counts, huffman(counts).lengths)) == textbook_cost(counts)


@given(COUNTS)
def test_no_code_begins_another_and_none_is_missing(counts: list[int]) -> None:
    tree = huffman(counts)
    codes = [tree.code(word) for word in range(len(counts))]
    assert sum(2.0 ** -len(code) for code in codes) == 1.0
    assert not any(b.startswith(a) for i, a in enumerate(codes) for j, b in enumerate(codes) if i != j)


def test_the_way_to_a_word_goes_through_the_nodes_that_its_code_names() -> None:
    tree = huffman([5, 9, 12, 13, 16, 45])  # the example of Cormen et al., figure 16.3
    assert tree.lengths.tolist() == [4, 4, 3, 3, 3, 1]
    root = len(tree.nodes) - 2
    for way, turns in zip(tree.nodes, tree.turns, strict=True):
        assert way[0] == root
        assert len(set(way[turns != 0].tolist())) == (turns != 0).sum()
