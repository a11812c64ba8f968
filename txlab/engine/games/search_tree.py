"""A search as a tree that grows visit by visit, whatever the game (MATH G3).

A visit goes down from the root to a position without a node (selection), gives it one (expansion), values it, and
carries the value back up to the root (backup). A node is named by the moves from the root, its path, which growth does
not change; reading a tree gives a snapshot, so that it can be walked while a thread keeps searching.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from txlab.engine.explain import Explanation
from txlab.engine.games.game import Game, Move, Position

Path: TypeAlias = tuple[Move, ...]


@dataclass(frozen=True)
class Branch:
    """A move of a node, with the numbers by which the next visit chooses; Q is seen from the player who makes the move.

    N   its visits      P   its prior     Q   the mean of the values backed up by them, 0 before the first
    U   the exploration bonus                   expanded   whether there is a node below it
    """

    move: Move
    N: int
    P: float
    Q: float
    U: float
    expanded: bool = False

    @property
    def ends(self) -> bool:
        """Whether the game ends with this move, as far as a visit has found out."""
        return self.N > 0 and not self.expanded

    @property
    def score(self) -> float:
        return self.Q + self.U


@dataclass(frozen=True)
class Node:
    """A position of the tree.

    V      its value when it was added, for its player to move
    value  the mean of V and of what all later visits brought back
    branches   the moves that may be visited, in the order of the game
    """

    position: Position
    V: float
    value: float
    branches: tuple[Branch, ...]

    @property
    def visits(self) -> int:
        """1 + Σ N: its own evaluation is the first."""
        return 1 + sum(each.N for each in self.branches)

    @property
    def next(self) -> Branch:
        """The choice of the next visit here: the largest Q + U, the first of equals."""
        return max(self.branches, key=lambda each: each.score)

    @property
    def favourite(self) -> Branch:
        """The most visited move."""
        return max(self.branches, key=lambda each: each.N)

    def branch(self, move: Move) -> Branch:
        return next(each for each in self.branches if each.move == move)


@dataclass(frozen=True)
class Choice:
    """The choice of a visit in a node, by Q + U `before`; `back`, the value backed up for the player who chose, is part
    of Q and N `after`."""

    before: Branch
    after: Branch
    back: float

    @property
    def move(self) -> Move:
        return self.before.move


@dataclass(frozen=True)
class Visit:
    """One visit, from the root down: `value` is that of the position it reached, for its player to move.

    expanded   whether that position was given a node; if not, the game has ended there
    """

    choices: tuple[Choice, ...]
    value: float
    expanded: bool

    @property
    def path(self) -> Path:
        return tuple(each.move for each in self.choices)


class Tree(Protocol):
    """A picture of a search: `visits` made, `nodes` there are, and the `last` visit; None if it was made elsewhere."""

    @property
    def visits(self) -> int: ...

    @property
    def nodes(self) -> int: ...

    @property
    def last(self) -> Visit | None: ...

    def node(self, path: Path) -> Node | None:
        """The node of a path; None if there is none, yet or because the game has ended."""

    def explain(self, path: Path) -> Explanation:
        """Q + U of the last move of a path among those of its node; of the empty path, the value of the root."""


class TreeSearch(Protocol):
    """A search of one position that can be continued. Used by one thread at a time; its trees by any.

    name   who searches
    """

    @property
    def name(self) -> str: ...

    @property
    def game(self) -> Game: ...

    @property
    def position(self) -> Position: ...

    @property
    def visits(self) -> int: ...

    def visit(self) -> None:
        """Make one visit."""

    def tree(self) -> Tree:
        """The tree as it is now."""

    def anew(self) -> TreeSearch:
        """The same search before its first visit."""


def positions(game: Game, root: Position, path: Path) -> Sequence[Position]:
    """The positions from the root along a path."""
    reached = [root]
    for move in path:
        reached.append(game.after(reached[-1], move))
    return reached


def favourite_line(tree: Tree, path: Path = ()) -> Path:
    """A path and the most visited moves below it."""
    while (node := tree.node(path)) is not None and node.favourite.N:
        path = (*path, node.favourite.move)
    return path
