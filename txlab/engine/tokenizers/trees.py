"""How a token is built from base symbols: the binary tree of its merges (MATH K2).

The tree depends on the token, not on the text: a token is always built by the same merges. Nothing here is recursive,
because a file may have a token whose tree is hundreds of merges deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from txlab.engine.explain import Explaining, Explanation, Step
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer


@dataclass(frozen=True, eq=False)
class MergeTree:
    """A token and the two that it was merged from; base tokens and special tokens have none.

    rank   the merge that made it, 0 being the first; None for base tokens and special tokens
    count  how often the pair occurred when it was merged, if the tokenizer knows it
    """

    token: int
    data: bytes
    rank: int | None = None
    left: MergeTree | None = None
    right: MergeTree | None = None
    count: int | None = None

    def leaves(self) -> Iterator[MergeTree]:
        """The base symbols (or the one special token) from left to right."""
        return (tree for tree in self.nodes() if tree.left is None)

    def nodes(self) -> Iterator[MergeTree]:
        """The whole tree, the root first, each left part before the right one."""
        waiting = [self]
        while waiting:
            tree = waiting.pop()
            yield tree
            if tree.left is not None and tree.right is not None:
                waiting += [tree.right, tree.left]


def merge_tree(tokenizer: BytePairTokenizer, token: int) -> MergeTree:
    """The tree of one token; raises LabError for an id outside the vocabulary."""
    tokenizer.token_bytes(token)
    needed, waiting = {token}, [token]
    while waiting:
        rank = tokenizer.rank_of(waiting.pop())
        for part in () if rank is None else tokenizer.merges[rank]:
            if part not in needed:
                needed.add(part)
                waiting.append(part)
    trees: dict[int, MergeTree] = {}
    # A part is shorter than the whole, so its tree is built first.
    for each in sorted(needed, key=lambda each: len(tokenizer.bytes_of[each])):
        rank = tokenizer.rank_of(each)
        data = tokenizer.bytes_of[each]
        if rank is None:
            trees[each] = MergeTree(each, data)
        else:
            left, right = tokenizer.merges[rank]
            count = tokenizer.counts[rank] if tokenizer.counts else None
            trees[each] = MergeTree(each, data, rank, trees[left], trees[right], count)
    return trees[token]


def quote_label(label: str) -> str:
    """A label as `repr` writes it, but the backslash of a byte that is not a character, \\xf0, stays single."""
    return repr(label).replace("\\\\", "\\")


def explain_token(tokenizer: BytePairTokenizer, token: int) -> Explanation:
    """Why these bytes are one token: its merges in the order in which they were learnt."""
    tree = merge_tree(tokenizer, token)
    merges = {node.token: node for node in tree.nodes() if node.left is not None}
    label = tokenizer.label(token)
    steps = []
    for node in sorted(merges.values(), key=lambda node: node.rank or 0):
        assert node.left is not None
        assert node.right is not None
        times = "" if node.count is None else f", found {node.count} times"
        left, right = (quote_label(tokenizer.label(each.token)) for each in (node.left, node.right))
        steps.append(
            Step(
                name=quote_label(tokenizer.label(node.token)),
                expression=f"{left} + {right}",
                result=node.token,
                note=f"merge {node.rank}{times}",
            )
        )
    if tree.rank is not None:
        note = f"made by merge {tree.rank}, out of {len(list(tree.leaves()))} symbols of the base"
    elif token in tokenizer.special_of.values():
        note = "a special token; nothing merges into it or with it"
    elif token not in tokenizer.ordinary and tokenizer.token_bytes(token):
        note = "an added token; nothing merges into it or with it"
    elif token in tokenizer.loose:
        note = "no merge makes it"
    elif token in tokenizer.base.tokens:
        note = "in the vocabulary from the beginning"
    else:
        note = "no token at all: the vocabulary has a hole here"
    if not steps:
        steps.append(Step(quote_label(label), "", token, note))
    why = Explaining(f"why is {quote_label(label)} the token {token}?", token)
    source = "Becker-Kahn §1.1; Sennrich et al. 2016, algorithm 1"
    why.equation("(s, s′) = argmax count(s s′), s̃ = s s′, V ← V ∪ {s̃}", "K2", source)
    why.input("t", label, note)
    for leaf in {leaf.token: leaf for leaf in tree.leaves()}.values() if tree.rank is not None else ():
        why.input(leaf.data.hex(" ") or tokenizer.label(leaf.token), leaf.token, "a symbol of the base")
    why.steps += steps
    return why.result()
