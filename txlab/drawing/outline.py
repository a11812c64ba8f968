"""A tree as an outline: a line for each node that is listed, indented by branches │ ├ └."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Guides: TypeAlias = tuple[bool, ...]
"""For each level down to a node: whether a sibling follows."""


def outline(of: T, below: Callable[[T], Sequence[T]], guides: Guides = ()) -> Iterator[tuple[T, Guides]]:
    """Yield the nodes below one from top to bottom, as far as `below` lists them.

    >>> list(outline(4, lambda n: [n // 2, 1] if n > 2 else []))
    [(2, (True,)), (1, (False,))]
    """
    listed = below(of)
    for at, node in enumerate(listed):
        here = (*guides, at + 1 < len(listed))
        yield node, here
        yield from outline(node, below, here)


def branch(guides: Guides, cells: int, ascii: bool = False) -> str:
    """The branches before a node, in at most `cells` cells: of a deep node, only the nearest levels.

    >>> branch((True, False), 9), branch((True, True), 9, ascii=True), branch((True, True, False), 4)
    ('│ └ ', '| + ', '│ └ ')
    """
    if not guides:
        return ""
    shown = guides[-max(1, cells // 2) :]
    text = "".join("│ " if follows else "  " for follows in shown[:-1]) + ("├ " if shown[-1] else "└ ")
    return text.translate(str.maketrans("│├└", "|+`")) if ascii else text
