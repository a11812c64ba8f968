"""An engine Explanation laid out as lines: question, equation, inputs, steps, row, result, and what it means.

Long rows are elided in the middle; rows that have an entry for each label are also shown side by side as one table, in
which the entry that was asked about is marked by a sign, not by colour alone. A long table begins with its largest
entries: of forty weights in a row a reader wants the few that count, not the first forty tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite

from rich.style import Style
from rich.text import Text

from txlab.drawing.formatting import aligned, number, plain
from txlab.drawing.text import cut, fit, formula, prefix, visible, width
from txlab.engine.explain import Explanation, Value

LONG = 12  # labels; the table of a longer row lists the largest entries first
PARTS = ("question", "equation", "quiet", "heading", "name", "value", "asked")
MARGIN = 2


def is_row(value: Value) -> bool:
    return not isinstance(value, (str, int, float)) and not any(isinstance(entry, Sequence) for entry in value)


def elided(entries: Sequence[str], cells: int, ellipsis: str = "…") -> str:
    """`[ a b … y z ]` with as many entries from both ends as fit, at least the first.

    >>> elided(["1", "2", "3", "4", "5"], 11), elided(["1", "2"], 20)
    ('[ 1 2 … 5 ]', '[ 1 2 ]')
    """
    whole = f"[ {' '.join(entries)} ]"
    if width(whole) <= cells or len(entries) <= 2:
        return whole
    head, tail = 1, 0
    while head + tail < len(entries) - 1:
        grown = (head + 1, tail) if head <= tail * 2 + 1 else (head, tail + 1)
        trial = [*entries[: grown[0]], ellipsis, *entries[len(entries) - grown[1] :]]
        if width(f"[ {' '.join(trial)} ]") > cells:
            break
        head, tail = grown
    return f"[ {' '.join([*entries[:head], ellipsis, *entries[len(entries) - tail :]])} ]"


def written(value: Value, cells: int, ascii: bool = False) -> list[str]:
    """Return a value as lines of text, no wider than `cells` where possible."""

    def one(entry: float | int) -> str:
        return plain(number(entry)) if ascii else number(entry)

    ellipsis = "..." if ascii else "…"
    if isinstance(value, str):
        return [formula(value, ascii)]
    if isinstance(value, (int, float)):
        return [one(value)]
    if is_row(value):
        return [elided([one(entry) for entry in value], cells, ellipsis)]  # type: ignore[arg-type]
    rows = [[one(entry) for entry in row] for row in value]  # type: ignore[union-attr]
    size = max((len(entry) for row in rows for entry in row), default=0)
    lines = [elided([entry.rjust(size) for entry in row], cells, ellipsis) for row in rows]
    return lines if len(lines) <= 8 else [*lines[:5], ellipsis, *lines[-2:]]


def explanation_lines(
    explanation: Explanation, cells: int, style: Mapping[str, str | Style], ascii: bool = False
) -> list[Text]:
    """Lay out an explanation for `cells` columns; `style` has a rich style for each of PARTS."""
    names = [operand.name for operand in explanation.operands]
    names += [step.name for step in (*explanation.steps, *explanation.meaning)]
    page = Page(cells, style, ascii, names)
    page.wrap(formula(explanation.question, ascii), "question", 0)
    page.lines.append(Text())
    page.wrap(formula(explanation.equation, ascii), "equation")
    dot = " - " if ascii else " · "
    source = dot.join(part for part in (f"MATH {explanation.math}", formula(explanation.source, ascii)) if part)
    page.wrap(source, "quiet")
    if explanation.operands:
        page.head("goes in")
        for operand in explanation.operands:
            page.entry(operand.name, operand.value, "", operand.note)
    page.head("step by step")
    for step in explanation.steps:
        page.entry(step.name, step.result, step.expression, step.note)
    page.lines += row_table(explanation, cells, style, ascii)
    page.head("result  ", (written(explanation.result, page.room, ascii)[0], "asked"))
    if explanation.meaning:
        page.head("what it means")
        for step in explanation.meaning:
            page.entry(step.name, step.result, step.expression, step.note)
    return [line if line.cell_len <= cells else line[: len(cut(line.plain, cells))] for line in page.lines]


class Page:
    """The lines of an explanation; the names of its entries are a column of `left` cells."""

    def __init__(self, cells: int, style: Mapping[str, str | Style], ascii: bool, names: Sequence[str]) -> None:
        self.cells, self.style, self.ascii = cells, style, ascii
        self.room = max(8, cells - MARGIN)
        widest = max((width(formula(name, ascii)) for name in names), default=0)
        self.left = min(widest, max(4, self.room // 4))
        self.right = max(12, self.room - self.left - 2)  # cells to the right of the names
        self.lines: list[Text] = []

    def say(self, *parts: tuple[str, str], indent: int = MARGIN) -> None:
        self.lines.append(Text.assemble(" " * indent, *((text, self.style[part]) for text, part in parts)))

    def wrap(self, text: str, part: str, indent: int = MARGIN) -> None:
        for line in folded(text, max(8, self.cells - indent)):
            self.say((line, part), indent=indent)

    def head(self, text: str, *parts: tuple[str, str]) -> None:
        self.lines.append(Text())
        self.say((text, "heading"), *parts, indent=0)

    def below(self, *parts: tuple[str, str]) -> None:
        """Say something to the right of no name."""
        self.say((" " * (self.left + 2), "quiet"), *parts)

    def named(self, title: str, *parts: tuple[str, str]) -> None:
        self.say((title, "name"), ("  ", "quiet"), *parts)

    def entry(self, name: str, value: Value, expression: str, note: str) -> None:
        """A name, how its value is computed (if it is), the value and a note, which is beside it if there is room."""
        note = formula(note, self.ascii)
        shown = written(value, self.right - 2 * bool(expression), self.ascii)  # after an expression comes "= "
        title = fit(formula(name, self.ascii), self.left, ellipsis="~" if self.ascii else "…")
        pieces = folded(f"= {formula(expression, self.ascii)}", self.right) if expression else []
        if not pieces:
            note = self.values(title, shown, note)
        elif isinstance(value, (str, int, float)):
            note = self.expression_and_value(title, pieces, shown[0], note)
        else:
            self.expression_and_rows(title, pieces, shown)
        for line in folded(note, self.right) if note else []:
            self.below((line, "quiet"))

    def values(self, title: str, shown: Sequence[str], note: str) -> str:
        """A value on its lines; returns the note if it has no room beside the last."""
        for index, line in enumerate(shown):
            fits = index == len(shown) - 1 and bool(note) and width(line) + width(note) + 2 <= self.right
            beside = "  " + note if fits else ""
            self.named(title if not index else " " * self.left, (line, "value"), (beside, "quiet"))
            note = "" if beside else note
        return note

    def expression_and_value(self, title: str, pieces: Sequence[str], value: str, note: str) -> str:
        """An expression, and its value on the same line if there is room; returns the note if there is none for it."""
        titles = [title, *[" " * self.left] * (len(pieces) - 1)]
        for piece, name in zip(pieces[:-1], titles, strict=False):
            self.named(name, (piece, "quiet"))
        used = width(pieces[-1]) + width(value)
        if used + 3 > self.right:
            self.named(titles[-1], (pieces[-1], "quiet"))
            self.below(("= ", "quiet"), (value, "value"))
            return note
        beside = f"   {note}" if note and width(note) <= self.right - used - 6 else ""
        self.named(titles[-1], (pieces[-1], "quiet"), ("  = ", "quiet"), (value, "value"), (beside, "quiet"))
        return "" if beside else note

    def expression_and_rows(self, title: str, pieces: Sequence[str], shown: Sequence[str]) -> None:
        """An expression, and below it its value, a row or a matrix."""
        self.named(title, (pieces[0], "quiet"))
        for line in [*pieces[1:], f"= {shown[0]}", *[f"  {line}" for line in shown[1:]]]:
            self.below((line, "value" if line.startswith(("= [", "  [")) else "quiet"))


def row_table(explanation: Explanation, cells: int, style: Mapping[str, str | Style], ascii: bool) -> list[Text]:
    """Lay out rows that have an entry for each label side by side: one line per label, the asked one marked."""
    count = len(explanation.labels)
    things = [(step.name, step.result) for step in explanation.steps]
    things = [(operand.name, operand.value) for operand in explanation.operands] + things
    rows = [(name, value) for name, value in things if count and is_row(value) and len(value) == count]  # type: ignore[arg-type]
    if not rows:
        return []
    ellipsis = "~" if ascii else "…"
    labels = [visible(text, ascii) or ("''" if ascii else "∅") for text in explanation.labels]
    left = min(max(width(text) for text in labels), max(4, cells // 3))
    columns: list[tuple[str, list[str]]] = []
    used = MARGIN + 2 + left
    for name, value in rows:
        entries = aligned([written(entry, 20, ascii)[0] for entry in value])  # type: ignore[arg-type, union-attr]
        head = formula(name, ascii)
        size = max(width(head), *(width(entry) for entry in entries))
        if used + size + 2 > cells and columns:
            break
        used += size + 2
        columns.append((fit(head, size, "right"), [fit(entry, size, "right") for entry in entries]))
    place = explanation.asked
    heads = "".join(f"  {head}" for head, _ in columns)
    order, heading = list(range(count)), "the row"
    if count > LONG:
        last: Sequence[float] = rows[-1][1]  # type: ignore[assignment]
        order, heading = (
            sorted(order, key=lambda at: -abs(last[at]) if isfinite(last[at]) else inf),
            "the row, the largest first",
        )
    lines = [Text(), Text(heading, style["heading"])]
    lines.append(Text(" " * (MARGIN + 2 + left) + heads, style["quiet"]))
    for index in order:
        text, here = labels[index], index == place
        mark = (">" if ascii else "▸") if here else " "
        beside = "".join(f"  {column[index]}" for _, column in columns)
        start = Text(f"{' ' * MARGIN}{mark} {fit(text, left, 'right', ellipsis)}", style["asked" if here else "name"])
        lines.append(start.append(beside, style["asked" if here else "value"]))
    return lines


def folded(text: str, cells: int) -> list[str]:
    """Wrap a text to lines of at most `cells`, at spaces where there are any."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        if line and width(line) + 1 + width(word) > cells:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
        while width(line) > cells:
            piece = cut(line, cells).rstrip() or prefix(line, cells) or line[0]
            lines.append(piece)
            line = line[len(piece) :]
    return [*lines, line]
