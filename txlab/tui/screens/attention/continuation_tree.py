"""The likeliest continuations of the text as a tree: opened node by node, and taken as the text.

Notable: a node is computed when it is opened, by the model under the edits in force, in a thread. If several nodes are
opened in quick succession the last one opens; the others are computed, and open without the model the next time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from txlab.drawing.formatting import count, number, share
from txlab.drawing.outline import Guides, branch, outline
from txlab.drawing.spark import bar
from txlab.drawing.text import fit, label, visible, width
from txlab.engine.explain import Explanation
from txlab.tui.latest_task import LatestTask
from txlab.tui.screens.attention.bench import LiveAttention
from txlab.tui.screens.dialogs import Dialog, key_hints
from txlab.tui.screens.plain_text import Words
from txlab.tui.theme import Signs
from txlab.tui.widgets.rows import Item, Line, Rows, StyleName
from txlab.tui.widgets.terminal import is_ascii
from txlab.tui.widgets.why import ask_why

CHILDREN = 6  # listed at first, and as many more each time
MOST = 60  # kept per node
MARGIN = 2  # cells before the tree, for the cursor
FIGURES = 26  # cells of the columns after the tree, without the bar
LEAST_BAR = 4  # cells of a bar
LEAST_ROOM, MOST_ROOM = 14, 40  # cells of the tree next to the figures


@dataclass
class Node:
    """A token at the end of a path; the root has none. `path` are the ids from the root, `total` their Σ ln p.

    children   None = not computed yet
    shown      how many of them are listed while it is open
    others, rest   the number of tokens that are not among the children, and their probability
    """

    path: tuple[int, ...] = ()
    token: str = ""
    logp: float = 0.0
    total: float = 0.0
    ends: bool = False
    children: list[Node] | None = None
    shown: int = CHILDREN
    is_open: bool = False
    others: int = 0
    rest: float = 0.0

    @property
    def key(self) -> str:
        return " ".join(map(str, self.path))

    @property
    def listed(self) -> list[Node]:
        return (self.children or [])[: self.shown] if self.is_open else []

    @property
    def hidden(self) -> tuple[int, float]:
        """The number of unlisted tokens, and their total probability."""
        further = (self.children or [])[self.shown :]
        return self.others + len(further), self.rest + sum(exp(each.logp) for each in further)


@dataclass(frozen=True)
class TreeRow:
    """A line: a node, or the unlisted tokens (`of` a node); `guides`: whether a sibling follows, by level."""

    node: Node
    guides: Guides
    more: bool = False

    @property
    def key(self) -> str:
        return f"{self.node.key} more" if self.more else self.node.key


def tree_rows(node: Node) -> Iterator[TreeRow]:
    """Yield the lines below a node, from top to bottom."""

    def below(of: tuple[Node, bool]) -> list[tuple[Node, bool]]:
        node, more = of
        if more:
            return []
        listed = [(child, False) for child in node.listed]
        return [*listed, (node, True)] if node.is_open and node.hidden[0] else listed

    return (TreeRow(each, guides, more) for (each, more), guides in outline((node, False), below))


def along(node: Node, path: tuple[int, ...]) -> list[Node]:
    """Return the nodes of a path from a node, exclusive."""
    nodes = []
    for token in path:
        node = next(child for child in node.children or [] if child.path[-1] == token)
        nodes.append(node)
    return nodes


def compute_children(live: LiveAttention, node: Node) -> None:
    """Compute the children of a node; called in a thread. LabError if the model has no context left."""
    continuations = live.continuations(node.path, MOST)
    labels, stops = live.opened.target_labels(continuations.tokens), live.opened.special.stops
    node.others, node.rest = continuations.others, continuations.rest
    node.children = [
        Node((*node.path, token), name, logp, node.total + logp, token in stops)
        for token, name, logp in zip(continuations.tokens, labels, continuations.logp, strict=True)
    ]


class ContinuationTree(Dialog[tuple[int, ...]]):
    """Answers with the ids of the path that is taken, or None."""

    CSS_PATH = ["../dialogs.tcss", "continuations.tcss"]
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = None  # the app's: the tree fills the terminal
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "open", "open", id="tree.open"),
        Binding("left,h", "close", "close", id="tree.close"),
        Binding("enter,full_stop", "take", "write it", id="tree.take"),
        Binding("w", "why", "why", id="tree.why"),
        Binding("escape,q,T", "leave", "leave it", id="tree.leave"),
    ]

    def __init__(self, live: LiveAttention) -> None:
        super().__init__()
        self.live, self.start = live, Node()
        self.by_key: dict[str, TreeRow] = {}  # the lines that are listed
        self.rows = Rows(self.draw_row, "the model reads the text…", id="tree")
        self.opening = LatestTask(self, "continuations", self.show_failure)
        self.wrong = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog continuations"):
            yield Words("What may come next", classes="dialog-title")
            yield Words("", id="path")
            yield self.rows
            yield Words("", id="verdict")
            hints = ("→ ←", "open, close"), ("enter", "write it"), ("w", "why"), ("esc", "leave")
            yield Words(key_hints(*hints), classes="dialog-keys")

    def on_mount(self) -> None:
        self.rows.focus()
        self.open(self.start)

    def on_resize(self) -> None:
        self.call_after_refresh(self.say)

    # The tree.

    @property
    def row(self) -> TreeRow | None:
        return self.by_key.get(self.rows.key or "")

    @property
    def path(self) -> tuple[int, ...]:
        return self.row.node.path if self.row is not None else ()

    def open(self, node: Node) -> None:
        """List the candidates after a node, once the model has read it."""
        self.wrong = ""
        if node.children is None:
            self.opening.want(lambda _: compute_children(self.live, node), lambda _: self.open(node), holds_keys=True)
        else:
            node.is_open = True
            self.fill()

    def show_failure(self, sentence: str) -> None:
        self.wrong = sentence
        self.rows.empty = ""
        self.rows.redraw()
        self.say()

    def fill(self) -> None:
        self.by_key = {row.key: row for row in tree_rows(self.start)}
        self.rows.set_items([Item(None), *(Item(key) for key in self.by_key)])
        self.say()

    def say(self) -> None:
        """Show the text with the path at its end, and the path's probability."""
        if not self.is_attached:
            return
        text, row = self.live.texts[-1], self.row
        cells = max(8, self.rows.size.width - MARGIN)
        written = visible(self.live.opened.decode(self.path), is_ascii(self))
        path = tail(written, cells - 4, is_ascii(self)) if row is not None else ""
        before = tail(visible(text, is_ascii(self)), cells - width(path), is_ascii(self))
        self.query_one("#path", Words).say(Content.styled(before, "$quiet") + Content.styled(path, "bold $accent"))
        words = ""
        if row is not None and row.more:
            hidden, rest = row.node.hidden
            words = f"{count(hidden)} further tokens, {number(rest)} together; → lists the likeliest of them"
        elif row is not None:
            node, tokens = row.node, "1 token" if len(row.node.path) == 1 else f"{len(row.node.path)} tokens"
            words = f"{tokens}: p {number(exp(node.total))}, ln p {number(node.total)} nats"
            words += "; the text ends here" if node.ends else ""
        verdict = Content.styled(visible(self.wrong), "$error") if self.wrong else Content.styled(words, "$quiet")
        self.query_one("#verdict", Words).say(verdict)

    def draw_row(self, item: Item, cells: int, chosen: bool) -> list[Line]:
        """`▸ ├ + ess    .62 ███████▌      .57   −0.562`: p after its parent, p and ln p of the path."""
        ascii = is_ascii(self)
        spare = cells - MARGIN - FIGURES - LEAST_ROOM - LEAST_BAR
        room = LEAST_ROOM + min(spare // 2, MOST_ROOM - LEAST_ROOM) if spare >= 0 else max(8, cells - MARGIN - 5)
        bars = cells - MARGIN - FIGURES - room if spare >= 0 else 0
        if item.key is None:
            heads = figures("p", "", "p of path", "ln p", bars)
            return [[(" " * (MARGIN + room), "quiet"), *((text, "quiet") for text in heads)]]
        row = self.by_key[item.key]
        node, (hidden, rest) = row.node, row.node.hidden
        before = branch(row.guides, room - 9, ascii)
        sign = "■" if node.ends else "−" if node.is_open else "+"
        name = f"{count(hidden)} others" if row.more else f"{sign} {label(node.token, ascii)}"
        p = rest if row.more else exp(node.logp)
        path = ("", "") if row.more else (number(exp(node.total)), number(node.total))
        main: StyleName = "quiet" if row.more else "plain"
        return [
            [
                (f"{Signs.cursor if chosen else ' '} ", "accent"),
                (before, "quiet"),
                (fit(name, room - width(before)), "accent" if chosen else main),
                *zip(figures(share(p), bar(p, bars, ascii), *path, bars), ("plain", "quiet", main, main), strict=False),
            ]
        ]

    # Keys.

    def on_rows_highlighted(self) -> None:
        self.wrong = ""
        self.say()

    def on_rows_chosen(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        """List the candidates; on an open node, go to the first; on the line of unlisted tokens, list more."""
        row = self.row
        if row is None:
            return
        if row.more:
            node = row.node
            if node.shown < len(node.children or []):
                first = (node.children or [])[node.shown].key
                node.shown += CHILDREN
                self.fill()
                self.rows.select(first)
            else:
                self.show_failure(f"The {MOST} likeliest are listed.")
        elif row.node.ends:
            self.show_failure("The text ends here: nothing follows.")
        elif row.node.is_open:
            self.rows.action_move(1)
        else:
            self.open(row.node)

    def action_close(self) -> None:
        """Close a node; on a closed node, go to its parent."""
        row = self.row
        if row is None:
            return
        if row.node.is_open and not row.more:
            row.node.is_open = False
            self.fill()
        else:
            path = row.node.path if row.more else row.node.path[:-1]
            self.rows.select(" ".join(map(str, path)))

    def action_take(self) -> None:
        """Write the path after the text."""
        row = self.row
        if row is None or row.more:
            self.action_open()
        elif row.node.ends:
            self.show_failure("The text ends here: this token is not written.")
        else:
            self.dismiss(row.node.path)

    def action_why(self) -> None:
        """Explain the probability of the token after its parent, and of the path."""
        row = self.row
        if row is not None and not row.more:
            nodes = along(self.start, row.node.path)
            ask_why(self.app, lambda: explain(self.live, nodes))

    def action_leave(self) -> None:
        self.dismiss(None)


def explain(live: LiveAttention, nodes: list[Node]) -> list[Explanation]:
    """Return the explanations of the last node: its probability, and that of the path to it."""
    from txlab.engine.interpret.continuations import why_path

    last = nodes[-1]
    return [
        live.explain_continuation(last.path),
        why_path([label(node.token) for node in nodes], [node.logp for node in nodes]),
    ]


def figures(p: str, drawn: str, path: str, total: str, bars: int) -> list[str]:
    """Return the columns after the tree: p and, if bars fit, the bar, p and ln p of the path."""
    columns = [fit(p, 5, "right")]
    return [*columns, " " + fit(drawn, bars), fit(path, 10, "right"), fit(total, 10, "right")] if bars else columns


def tail(text: str, cells: int, ascii: bool = False) -> str:
    """Return the end of a visible text, at most `cells` wide, with an ellipsis where its beginning is left out.

    >>> tail("the value of the", 9), tail("short", 9)
    ('…e of the', 'short')
    """
    if width(text) <= cells:
        return text
    while text and width(text) >= cells:
        text = text[1 + max(0, width(text) - cells) // 2 :]
    return ("~" if ascii else "…") + visible(text, ascii)
