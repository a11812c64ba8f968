"""The tree of a search in characters: a line for each move of the opened nodes, and one visit taken apart (MATH G3).

Lines are pairs of a text and the name of a style of `widgets/rows`. Accents are also marked by a sign: › the next
visit's choice in a node, • the last visit's path.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from txlab.drawing.boards import sign_of, value_text
from txlab.drawing.formatting import count, share
from txlab.drawing.outline import Guides, branch, outline
from txlab.drawing.spark import bar
from txlab.drawing.text import fit, visible, width
from txlab.engine.games.game import Game, Position
from txlab.engine.games.search_tree import Branch, Path, Tree, Visit, positions

Style: TypeAlias = Literal["plain", "strong", "quiet", "accent"]
Line: TypeAlias = list[tuple[str, Style]]

MARGIN = 3  # cells before the tree: the cursor, and the mark of the last visit
NUMBERS = {"N": 7, "Q": 7, "P": 5, "U": 6, "Q+U": 8}  # cells of each column, with a space before it
NEXT = 2  # cells behind Q + U
LEAST_ROOM, MOST_ROOM = 7, 30  # cells of the moves
LEAST_BAR, MOST_BAR = 4, 24


@dataclass(frozen=True)
class TreeRow:
    """A line: a move of an opened node, or the root, which has no `branch`.

    name     "X 4"                          share   0 … 1, of the visits of its node
    is_open  whether its own moves follow   next, passed   whether the next visit goes this way, and whether the last
             one did
    """

    path: Path
    guides: Guides
    name: str
    N: int
    value: float
    branch: Branch | None = None
    share: float = 1.0
    is_open: bool = True
    next: bool = False
    passed: bool = False

    @property
    def sign(self) -> str:
        """− open, + can be opened, ■ the game ends"""
        if self.branch is None or self.is_open:
            return "−"
        return "+" if self.branch.expanded else "■" if self.branch.ends else " "


def tree_rows(game: Game, tree: Tree, opened: Collection[Path], last: Path = ()) -> list[TreeRow]:
    """The root and, from top to bottom, the moves of the opened nodes; `last` is the path of a visit to be marked."""
    root = tree.node(())
    if root is None:
        return []
    first = TreeRow((), (), "root", root.visits, root.value, passed=bool(last))

    def below(of: TreeRow) -> list[TreeRow]:
        node = tree.node(of.path) if of.is_open else None
        if node is None:
            return []
        visits, chosen = max(1, node.visits - 1), node.next
        sign = sign_of(game, game.mover(node.position))
        rows_below = []
        for each in node.branches:
            path = (*of.path, each.move)
            rows_below.append(
                TreeRow(
                    path, (), f"{sign} {visible(game.name_of_move(node.position, each.move))}", each.N, each.Q, each,
                    each.N / visits, path in opened and each.expanded, each is chosen, last[: len(path)] == path,
                )
            )  # fmt: skip
        return rows_below

    return [first, *(replace(row, guides=guides) for row, guides in outline(first, below))]


@dataclass(frozen=True)
class Layout:
    """Cells of the moves, of the bar, and the numbers shown."""

    room: int
    bar: int
    numbers: tuple[str, ...]


def layout(cells: int) -> Layout:
    """Fit the columns: on a narrow screen the bar is dropped first, then Q + U, then U and P."""
    for numbers in (("N", "Q", "P", "U", "Q+U"), ("N", "Q", "P", "U"), ("N", "Q")):
        rest = cells - MARGIN - sum(NUMBERS[name] for name in numbers) - (NEXT if "Q+U" in numbers else 0)
        if rest >= LEAST_ROOM:
            break
    spare = rest - LEAST_ROOM - 1  # a space before the bar
    bars = min(MOST_BAR, max(LEAST_BAR, spare // 2)) if spare >= LEAST_BAR else 0
    return Layout(min(MOST_ROOM, max(1, rest - bars - bool(bars))), bars, numbers)


def heading_line(cells: int) -> Line:
    at = layout(cells)
    names = {"N": "N", "Q": "Q", "P": "P", "U": "U", "Q+U": "Q + U"}
    text = " " * MARGIN + fit("move", at.room)
    for name in at.numbers:
        text += fit(names[name], NUMBERS[name], "right")
        text += " " + fit("share" if at.bar >= 5 else "", at.bar) if name == "N" and at.bar else ""
    return [(text, "quiet")]


def row_line(row: TreeRow, cells: int, chosen: bool, ascii: bool = False) -> Line:
    """`▸• │ └ + O 3     312 ███████▌   +.213  .14  .120   +.333 ›`"""
    at = layout(cells)
    before = branch(row.guides, at.room - 5, ascii) if at.room > 2 else ""
    name = fit(f"{row.sign} {row.name}", at.room - width(before), ellipsis="~" if ascii else "…")
    plain: Style = "plain" if row.N else "quiet"
    cursor, passed = (">" if ascii else "▸") if chosen else " ", ("*" if ascii else "•") if row.passed else " "
    line: Line = [(f"{cursor}{passed} ", "accent"), (before, "quiet"), (name, "accent" if chosen else plain)]
    each = row.branch
    texts = {"N": count(row.N), "Q": value_text(row.value, 3), "P": "", "U": "", "Q+U": ""}
    if each is not None:
        texts |= {"P": share(each.P), "U": share(each.U, 3), "Q+U": value_text(each.score, 3)}
    for number in at.numbers:
        style: Style = "strong" if number == "Q+U" and row.next else "quiet" if number == "P" else plain
        line.append((fit(texts[number], NUMBERS[number], "right"), style))
        if number == "N" and at.bar:
            line += [(" ", plain), (fit(bar(row.share, at.bar, ascii) if each is not None else "", at.bar), "quiet")]
    if "Q+U" in at.numbers:
        line.append((f" {'<' if ascii else '›'}" if row.next else "  ", "accent"))
    return line


def visit_lines(
    game: Game, root: Position, number: int, visit: Visit, cells: int, rows: int, ascii: bool = False
) -> list[Line]:
    """Visit `number` step by step: the choice in each node by Q + U, the leaf, the backed-up value; of a long path the
    choices next to the root are left out.

        visit 414    selection by Q + U            backup       N       Q
          X 4        +.213 +  .120 = +.333          −.310     313   +.211
          O 3        −.120 +  .530 = +.410          +.310     121   −.116
          expansion  a new node, O to move: V = +.310
    """
    if rows < 2:
        return []
    reached = positions(game, root, visit.path)
    left = 13
    wide = cells >= left + 49
    head = fit(f"visit {count(number)}", left) + fit("selection by Q + U", 26)
    head += f"{'backup':>8}" + (f"{'N':>8}{'Q':>7}" if wide else "")
    lines: list[Line] = [[(fit(head, cells), "quiet")]]
    hidden = max(0, len(visit.choices) - max(1, rows - 2 - (len(visit.choices) > rows - 2)))
    if hidden:
        lines.append([(f"  {count(hidden)} choices before{' ...' if ascii else '…'}", "quiet")])
    for position, choice in list(zip(reached, visit.choices, strict=False))[hidden:]:
        name = f"{sign_of(game, game.mover(position))} {visible(game.name_of_move(position, choice.move))}"
        q, u, score = choice.before.Q, choice.before.U, choice.before.score
        total = f"{value_text(q, 3):>6} + {share(u, 3):>5} = {value_text(score, 3):>6}"
        after = f"{count(choice.after.N):>8}{value_text(choice.after.Q, 3):>7}" if wide else ""
        back = f"{value_text(choice.back, 3):>8}"
        line: Line = [(fit(f"  {name}", left), "accent"), (fit(total, 26), "plain"), (back, "strong"), (after, "plain")]
        lines.append(line if cells >= left + 34 else [(fit("".join(text for text, _ in line), cells), "plain")])
    result = game.outcome(reached[-1])
    value = value_text(visit.value, 3)
    if result is None:
        words = f"a new node, {sign_of(game, game.mover(reached[-1]))} to move: V = {value}"
    else:
        words = f"{sign_of(game, result)} has won: no node is needed" if result else "drawn: no node is needed"
    label = "  expansion" if visit.expanded else "  the end"
    lines.append([(fit(label, left), "quiet"), (fit(words, max(1, cells - left)), "plain")])
    return lines[:1] + lines[-(rows - 1) :] if len(lines) > rows else lines


def line_words(game: Game, start: Position, line: Path) -> str:
    """ "X 4, O 3, X 5" """
    return ", ".join(
        f"{sign_of(game, game.mover(position))} {visible(game.name_of_move(position, move))}"
        for position, move in zip(positions(game, start, line), line, strict=False)
    )
