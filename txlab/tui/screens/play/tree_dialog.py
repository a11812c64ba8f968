"""The search tree of a position, opened and browsed while the search continues in a thread, or visit by visit.

Notable: the lines are drawn from a picture of the tree, which is replaced some ten times a second; a node is identified
by its path, so the cursor and the open nodes stay in place. The dialog has its own search, which starts from the
player's: the player is not affected, and the search ends with the dialog.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content

from txlab.drawing.boards import BoardView, least_columns
from txlab.drawing.formatting import count
from txlab.drawing.search_tree import Line, TreeRow, heading_line, line_words, row_line, tree_rows, visit_lines
from txlab.drawing.spark import ASCII_BARS, BARS
from txlab.drawing.text import visible
from txlab.engine.games.search_tree import Path, Tree, TreeSearch, favourite_line, positions
from txlab.experiments.protocol import Frame, Metrics
from txlab.sources.live import PACES, SEEN, Picture, next_pace
from txlab.tui.screens.dialogs import Dialog, key_hints
from txlab.tui.screens.plain_text import Words, fitting
from txlab.tui.session import Session
from txlab.tui.theme import Signs
from txlab.tui.widgets.board import Board
from txlab.tui.widgets.rows import Item, Rows
from txlab.tui.widgets.terminal import is_ascii
from txlab.tui.widgets.why import ask_why

PACE = 15.0  # visits a second
MOST_VISITS = 20_000  # then it pauses; its arrays have 4 MB
PICTURES = 10.0  # a second
HINTS = (
    ("→ ←", "in, up"), ("esc", "leave"), ("space", "pause"), (".", "one visit"), ("- +", "pace"), ("w", "why"),
    ("r", "from nothing"), ("enter", "open, close"),
)  # fmt: skip
STYLES = {"plain": "", "strong": "bold", "quiet": "$quiet", "accent": "$accent"}


@dataclass(frozen=True)
class TreeFrame(Frame):
    """A picture of a search."""

    tree: Tree | None = None


class LiveTree:
    """A search as a session steps it."""

    steps = MOST_VISITS

    def __init__(self, search: TreeSearch) -> None:
        self.search = search

    @property
    def step_count(self) -> int:
        return self.search.visits

    def step(self) -> Metrics:
        self.search.visit()
        return {}

    def frame(self) -> TreeFrame:
        return TreeFrame(self.search.visits, tree=self.search.tree())


class TreeDialog(Dialog[None]):
    """`search` begins where the player's own search of the position ended."""

    CSS_PATH = ["../dialogs.tcss", "tree_dialog.tcss"]
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = None  # the app's: it fills the terminal
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "enter", "in", id="tree.in"),
        Binding("left,h", "up", "up to the parent", id="tree.out"),
        Binding("enter", "open", "open, close", id="tree.open"),
        Binding("space", "run", "pause", id="tree.run"),
        Binding("full_stop", "step", "one visit", id="tree.step"),
        Binding("minus", "pace(-1)", "slower", id="tree.slower"),
        Binding("plus,equals_sign", "pace(1)", "faster", id="tree.faster"),
        Binding("r", "again", "from nothing", id="tree.again"),
        Binding("w", "why", "why", id="tree.why"),
        Binding("escape,q,T", "leave", "leave it", id="tree.leave"),
    ]

    def __init__(self, search: TreeSearch) -> None:
        super().__init__()
        self.search, self.game = search, search.game
        self.shown: Tree | None = None
        self.running = True
        self.opened: set[Path] = set()
        self.by_key: dict[str, TreeRow] = {}  # the lines that are listed
        self.wrong = ""
        self.rows = Rows(self.draw_row, "the root is evaluated…", id="tree")
        self.board = Board(id="node")
        self.session: Session[LiveTree] = Session(
            self, self.show_picture, self.show_failure, pictures=PICTURES, record=False
        )  # fmt: skip
        self.session.pace = PACE

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tree"):
            yield Words("", id="facts")
            with Horizontal(id="walk"):
                with Vertical():
                    yield Words("", id="names")
                    yield self.rows
                yield self.board
            yield Words("", id="said")
            yield Words("", id="visit")
            yield Words("", id="keys", classes="dialog-keys")

    def on_mount(self) -> None:
        self.rows.focus()
        self.session.begin(lambda _: LiveTree(self.search), run=True)

    def on_resize(self) -> None:
        self.call_after_refresh(self.show)

    # The search.

    def show_picture(self, picture: Picture[LiveTree]) -> None:
        assert isinstance(picture.frame, TreeFrame)
        self.shown, self.running = picture.frame.tree, self.session.running
        self.show()

    def show_failure(self, sentence: str) -> None:
        self.wrong = sentence
        self.show()

    @property
    def follows(self) -> bool:
        """Whether single visits can be followed."""
        return not self.running or self.session.pace <= SEEN

    # Drawing.

    @property
    def row(self) -> TreeRow | None:
        return self.by_key.get(self.rows.key or "")

    @property
    def path(self) -> Path:
        return self.row.path if self.row is not None else ()

    def key(self, path: Path) -> str:
        """The name of a node: the moves that lead to it."""
        names = []
        for position, move in zip(positions(self.game, self.search.position, path), path, strict=False):
            names.append(self.game.name_of_move(position, move))
        return "/".join(["", *names])

    def show(self) -> None:
        """Show the present picture; only the lines that differ are drawn again."""
        if not self.is_attached or self.shown is None:
            return
        last = self.shown.last if self.follows else None
        rows = tree_rows(self.game, self.shown, self.opened, last.path if last is not None else ())
        before, self.by_key = self.by_key, {self.key(row.path): row for row in rows}
        if list(before) != list(self.by_key):
            self.rows.set_items([Item(key) for key in self.by_key])
            self.rows.call_after_refresh(self.rows.show_selected)  # lines above it may have been added
        else:
            self.rows.redraw_items({key for key, row in self.by_key.items() if row != before[key]})
        self.say()

    def say(self) -> None:
        """Show the facts, the position under the cursor, and the last visit."""
        tree, row = self.shown, self.row
        if not self.is_attached or tree is None or row is None:
            return
        cells = max(8, self.query_one("#walk").size.width)
        self.query_one("#facts", Words).say(fitting(self.facts(tree), cells))
        self.query_one("#names", Words).say(draw_line(heading_line(self.rows.room)))
        self.query_one("#keys", Words).say(fitting([key_hints(each) for each in HINTS], cells))
        node = tree.node(row.path)
        wide = self.board.size.width >= least_columns(self.board.drawing)  # room for numbers
        reached = positions(self.game, self.search.position, row.path)
        line = () if node is None else favourite_line(tree, row.path)[len(row.path) :]
        if self.wrong:
            situation = Content.styled(visible(self.wrong), "$error")
        elif row.branch is not None and row.branch.ends:
            situation = Content.styled("the game ends with this move", "$quiet")
        elif node is None:
            situation = Content.styled("no visit has come here yet", "$quiet")
        else:
            words = line_words(self.game, reached[-1], line)
            situation = Content.styled(
                f"most visited from here: {words}" if line else "not visited beyond it yet", "$quiet"
            )
        self.query_one("#said", Words).say(situation)
        branches = node.branches if node is not None and wide else ()
        self.board.show(
            BoardView(
                game=self.game,
                position=reached[-1],
                moves=row.path,
                last=row.path[-1] if row.path else None,
                before=reached[-2] if row.path else None,
                values={each.move: each.Q for each in branches if each.N},
                shares={each.move: each.N / max(1, sum(other.N for other in branches)) for each in branches},
                cursor=-1,
            )
        )
        self.query_one("#visit", Words).say(self.visit_words(tree, cells))

    def facts(self, tree: Tree) -> list[Content]:
        """Return the player, the progress and the speed of the search, the most important first."""
        bars = ASCII_BARS if is_ascii(self) else BARS
        pace, at = self.session.pace, PACES.index(self.session.pace)
        limit = "as fast as it goes" if pace == inf else f"{count(pace)} a second"
        if tree.visits >= MOST_VISITS:
            state = "all that fit"
        else:
            state = f"{Signs.live} searching" if self.running else f"{Signs.paused} paused"
        return [
            Content.styled(f"{visible(self.search.name)}   ", "bold"),
            Content.styled(f"{count(tree.visits)} visits   {state}", "bold $accent" if self.running else ""),
            Content.styled(f"   pace {bars[: at + 1]}", "$accent"),
            Content.styled(f" {limit}", "$quiet"),
            Content.styled(f"   {count(tree.nodes)} nodes", "$quiet"),
        ]

    def visit_words(self, tree: Tree, cells: int) -> Content:
        rows = self.query_one("#visit").size.height
        if not self.follows:
            return Content.styled("too fast to follow single visits: - makes it slower, . makes one", "$quiet")
        if tree.last is None:
            return Content.styled("no visit since it was opened; . makes one", "$quiet")
        lines = visit_lines(self.game, self.search.position, tree.visits, tree.last, cells, rows, is_ascii(self))
        return Content("\n").join(draw_line(line) for line in lines)

    def draw_row(self, item: Item, cells: int, chosen: bool) -> list[Line]:
        return [row_line(self.by_key[item.key or ""], cells, chosen, is_ascii(self))]

    # Keys.

    def on_rows_highlighted(self) -> None:
        self.wrong = ""
        self.say()

    def on_rows_chosen(self) -> None:
        self.action_open()

    def go(self, path: Path) -> None:
        """Open the path to a node, and go there."""
        self.opened |= {path[:at] for at in range(1, len(path))}
        self.show()
        self.rows.select(self.key(path))

    @on(Board.PlaceChosen)
    def place_chosen(self, event: Board.PlaceChosen) -> None:
        """A click on the board goes to the move that it makes there."""
        event.stop()
        node = self.shown.node(self.path) if self.shown is not None else None
        move = None if node is None else self.game.ways(node.position).get((event.place,))
        if move is not None:
            self.go((*self.path, move))

    def action_enter(self) -> None:
        """Open a node; in an open node, go to the most visited move."""
        row, node = self.row, self.shown.node(self.path) if self.shown is not None else None
        if row is None or node is None:
            self.say_why_closed()
        elif row.is_open:
            self.go((*row.path, node.favourite.move))
        else:
            self.action_open()

    def action_open(self) -> None:
        """Open a node, or close it."""
        row = self.row
        if row is None or row.branch is None:
            return
        if row.is_open:
            self.opened.discard(row.path)
        elif row.branch.expanded:
            self.opened.add(row.path)
        else:
            self.say_why_closed()
            return
        self.show()

    def say_why_closed(self) -> None:
        row = self.row
        ends = row is not None and row.branch is not None and row.branch.ends
        self.wrong = "There is nothing to open: " + ("the game ends here." if ends else "no visit has come here yet.")
        self.say()

    def action_up(self) -> None:
        """Go to the parent."""
        if self.path:
            self.rows.select(self.key(self.path[:-1]))

    def action_run(self) -> None:
        """Pause, or search on."""
        self.session.run(not self.session.running)

    def action_step(self) -> None:
        """Make one visit and pause; the next key waits for it."""
        self.session.step(keys_wait=True)

    def action_pace(self, by: int) -> None:
        self.session.pace = next_pace(self.session.pace, by, PACES[1:])
        self.session.look()

    def action_again(self) -> None:
        """Search the position again, from the first visit on."""
        self.session.begin(lambda live: LiveTree((live.search if live is not None else self.search).anew()))

    def action_why(self) -> None:
        """Explain Q + U of the move under the cursor in the shown picture; for the root, its value."""
        tree, path = self.shown, self.path
        if tree is not None:
            ask_why(self.app, lambda: tree.explain(path))

    def action_leave(self) -> None:
        self.dismiss(None)


def draw_line(line: Line) -> Content:
    return Content.assemble(*(Content.styled(text, STYLES[style]) for text, style in line))
