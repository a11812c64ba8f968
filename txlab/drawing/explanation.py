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
    room = max(8, cells - MARGIN)
    lines: list[Text] = []

    def say(*parts: tuple[str, str], indent: int = MARGIN) -> None:
        lines.append(Text.assemble(" " * indent, *((text, style[part]) for text, part in parts)))

    def wrap(text: str, part: str, indent: int = MARGIN) -> None:
        for line in folded(text, max(8, cells - indent)):
            say((line, part), indent=indent)

    wrap(formula(explanation.question, ascii), "question", 0)
    lines.append(Text())
    wrap(formula(explanation.equation, ascii), "equation")
    dot = " - " if ascii else " · "
    wrap(dot.join(part for part in (f"MATH {explanation.math}", formula(explanation.source, ascii)) if part), "quiet")

    names = [formula(operand.name, ascii) for operand in explanation.operands]
    names += [formula(step.name, ascii) for step in (*explanation.steps, *explanation.meaning)]
    left = min(max((width(name) for name in names), default=0), max(4, room // 4))

    def entry(name: str, value: Value, expression: str, note: str) -> None:
        beside = max(12, room - left - 2)
        said = formula(note, ascii)
        shown = written(value, beside - 2 * bool(expression), ascii)  # after an expression comes "= "
        title = fit(formula(name, ascii), left, ellipsis="~" if ascii else "…")
        if expression:
            pieces = folded(f"= {formula(expression, ascii)}", beside)
            if not isinstance(value, (str, int, float)):  # a row or a matrix
                tail = [*pieces[1:], *[f"= {shown[0]}", *[f"  {line}" for line in shown[1:]]]]
                say((title, "name"), ("  ", "quiet"), (pieces[0], "quiet"))
                for line in tail:
                    say((" " * (left + 2), "quiet"), (line, "value" if line.startswith(("= [", "  [")) else "quiet"))
            elif width(pieces[-1]) + width(shown[0]) + 3 <= beside:
                room_left = beside - width(pieces[-1]) - width(shown[0]) - 6
                beside_it = f"   {said}" if said and width(said) <= room_left else ""
                for index, piece in enumerate(pieces):
                    result = [("  = ", "quiet"), (shown[0], "value"), (beside_it, "quiet")]
                    behind = result if index == len(pieces) - 1 else []
                    say((title if not index else " " * left, "name"), ("  ", "quiet"), (piece, "quiet"), *behind)
                said = "" if beside_it else said
            else:
                for index, piece in enumerate(pieces):
                    say((title if not index else " " * left, "name"), ("  ", "quiet"), (piece, "quiet"))
                say((" " * (left + 2), "quiet"), ("= ", "quiet"), (shown[0], "value"))
        else:
            for index, line in enumerate(shown):
                last = index == len(shown) - 1
                beside_it = said if last and said and width(line) + width(said) + 2 <= beside else ""
                say(
                    (title if not index else " " * left, "name"),
                    ("  ", "quiet"),
                    (line, "value"),
                    ("  " + beside_it if beside_it else "", "quiet"),
                )
                if beside_it:
                    said = ""
        for line in folded(said, beside) if said else []:
            say((" " * (left + 2), "quiet"), (line, "quiet"))

    if explanation.operands:
        lines.append(Text())
        say(("goes in", "heading"), indent=0)
        for operand in explanation.operands:
            entry(operand.name, operand.value, "", operand.note)
    lines.append(Text())
    say(("step by step", "heading"), indent=0)
    for step in explanation.steps:
        entry(step.name, step.result, step.expression, step.note)
    lines += row_table(explanation, cells, style, ascii)
    lines.append(Text())
    say(("result  ", "heading"), (written(explanation.result, room, ascii)[0], "asked"), indent=0)
    if explanation.meaning:
        lines.append(Text())
        say(("what it means", "heading"), indent=0)
        for step in explanation.meaning:
            entry(step.name, step.result, step.expression, step.note)
    return [line if line.cell_len <= cells else line[: len(cut(line.plain, cells))] for line in lines]


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
