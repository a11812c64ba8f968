"""An engine Explanation laid out as lines: question, equation, inputs, steps, row, result, and meaning.

Long rows are elided in the middle; rows that have an entry for each label are also shown side by side as one table, in
which the explained entry is marked by a sign, not by colour alone. A long table begins with its largest entries, which
matter more than the first tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import inf, isfinite

from rich.style import Style
from rich.text import Text

from txlab.drawing.formatting import align_numbers, number, plain
from txlab.drawing.text import cut, fit, formula, prefix, visible, width
from txlab.engine.explain import SHOWN, Explanation, Operand, Step, Value, write_alike
from txlab.engine.explain import number as in_expression
from txlab.experiments.formulas.example import where_they_part

LONG = 12  # labels; the table of a longer row lists the largest entries first
PARTS = ("question", "equation", "quiet", "heading", "name", "value", "asked", "wrong")
MARGIN = 2
OPERATORS = ("= ", "← ", "→ ", "+ ", "− ", "· ", "/ ", "<-", "->", "- ", "* ")
BESIDE = 44  # cells from which two forms of a computation are shown next to each other, each this wide


def is_row(value: Value) -> bool:
    return not isinstance(value, (str, int, float)) and not any(isinstance(entry, Sequence) for entry in value)


def elide(entries: Sequence[str], cells: int, ellipsis: str = "…") -> str:
    """`[ a b … y z ]` with as many entries from both ends as fit, at least the first.

    >>> elide(["1", "2", "3", "4", "5"], 11), elide(["1", "2"], 20)
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


def format_lines(value: Value, cells: int, ascii: bool = False, digits: int = SHOWN) -> list[str]:
    """Return a value as lines of text, no wider than `cells` where possible; `digits` as in `formatting.number`, but
    without trailing zeros, and below 1 with as many digits as above: as the expressions are written."""

    def one(entry: float | int) -> str:
        text = in_expression(entry, digits) if abs(entry) < 1 else number(entry, digits)
        if not isinstance(value, (int, float)):  # spaces separate the entries of a row
            text = text.replace(" ", "")
        if "." in text and "e" not in text:
            text = text.rstrip("0").rstrip(".")
        return plain(text) if ascii else text

    ellipsis = "..." if ascii else "…"
    if isinstance(value, str):
        return [formula(value, ascii)]
    if isinstance(value, (int, float)):
        return [one(value)]
    if is_row(value):
        return [elide([one(entry) for entry in value], cells, ellipsis)]  # type: ignore[arg-type]
    rows = [[one(entry) for entry in row] for row in value]  # type: ignore[union-attr]
    size = max((len(entry) for row in rows for entry in row), default=0)
    lines = [elide([entry.rjust(size) for entry in row], cells, ellipsis) for row in rows]
    return lines if len(lines) <= 8 else [*lines[:5], ellipsis, *lines[-2:]]


def explanation_lines(
    explanation: Explanation, cells: int, style: Mapping[str, str | Style], ascii: bool = False
) -> list[Text]:
    """Lay out an explanation for `cells` columns; `style` has a rich style for each of PARTS."""
    page = page_of(explanation, cells, style, ascii)
    page.wrap(page.question(explanation), "question", 0)
    page.lines.append(Text())
    for line in formula_lines(formula(explanation.equation, ascii), page.room):
        page.say((line, "equation"))
    dot = " - " if ascii else " · "
    source = dot.join(part for part in (f"MATH {explanation.math}", formula(explanation.source, ascii)) if part)
    page.wrap(source, "quiet")
    page.operands(explanation.operands)
    page.head("step by step")
    page.steps(explanation.steps)
    page.lines += row_table(explanation, cells, style, ascii)
    page.head("result  ", (page.result(explanation), "asked"))
    page.meaning(explanation.meaning)
    return page.cut_lines()


def computation_lines(
    explanation: Explanation, cells: int, style: Mapping[str, str | Style], ascii: bool = False
) -> list[Text]:
    """Lay out an explanation below its equation: the question with its answer, then the steps."""
    page = page_of(explanation, cells, style, ascii)
    question, answer = page.question(explanation), page.result(explanation)
    if width(question) + width(answer) + 2 <= cells:
        page.say((f"{question}  ", "question"), (answer, "asked"), indent=0)
    else:
        page.wrap(question, "question", 0)
        page.say((answer, "asked"))
    page.operands(explanation.operands)
    page.lines.append(Text())
    page.steps(explanation.steps)
    page.lines += row_table(explanation, cells, style, ascii)
    page.meaning(explanation.meaning)
    return page.cut_lines()


def page_of(explanation: Explanation, cells: int, style: Mapping[str, str | Style], ascii: bool) -> Page:
    """An empty page whose left column fits all names of an explanation."""
    names = [operand.name for operand in explanation.operands]
    names += [step.name for step in (*explanation.steps, *explanation.meaning)]
    return Page(cells, style, ascii, names)


def comparison_lines(
    right: Explanation, wrong: Explanation, cells: int, style: Mapping[str, str | Style], ascii: bool = False
) -> list[Text]:
    """Lay out the steps of a formula and of a misprinted form of it: where they part, then the steps next to each other
    if there is room; if not, those that both share once, and from the first that differs on both, one below the other.
    """
    parting = where_they_part(right, wrong)
    others = {step.name: step for step in wrong.steps}
    known = {step.name: step for step in right.steps}
    beside = cells >= 2 * BESIDE + MARGIN
    half = (cells - MARGIN) // 2 if beside else cells
    misprinted = {**style, "name": style["wrong"], "value": style["wrong"]}

    def block(step: Step | None, form: Mapping[str, str | Style]) -> list[Text]:
        page = Page(half, form, ascii, [*known, *others])
        if step is not None:
            page.steps([step])
        return page.cut_lines()

    lines = [Text(line, style["asked"]) for line in wrap_text(parting_sentence(parting, others, ascii), cells)]
    lines.append(Text())
    if beside:
        lines.append(padded(Text("right", style["heading"]), half + MARGIN).append("misprinted", style["wrong"]))
    apart = False
    for name in merged_names(right, wrong):
        here = parting is not None and name == parting.name
        apart = apart or here
        first = block(known.get(name), style)
        second = block(others.get(name), misprinted if apart else style)
        if here:
            first[0] = Text.assemble(("!" if ascii else "≠", style["asked"]), first[0][1:])
        if second and apart and not beside:
            second[0] = Text.assemble(("x" if ascii else "✗", style["wrong"]), second[0][1:])
        if beside:
            pairs = zip_longest(first, second, fillvalue=Text())
            lines += [padded(one, half + MARGIN).append(other) for one, other in pairs]
        else:
            lines += first + second if apart else first
    return lines


def merged_names(right: Explanation, wrong: Explanation) -> list[str]:
    """The names of the steps of both, those of one form alone before the next step that both have."""
    names = [step.name for step in right.steps]
    for at, step in enumerate(wrong.steps):
        if step.name not in names:
            shared = next((names.index(each.name) for each in wrong.steps[at + 1 :] if each.name in names), len(names))
            names.insert(shared, step.name)
    return list(dict.fromkeys(names))


def parting_sentence(parting: Step | None, others: Mapping[str, Step], ascii: bool) -> str:
    """ "they part at Σ: 5.356 against 13.17" """
    if parting is None:
        return "with these inputs both forms give the same numbers"
    here = short(parting.result, ascii)
    there = short(others[parting.name].result, ascii) if parting.name in others else "no such step"
    return f"they part at {formula(parting.name, ascii)}: {here} against {there}"


def short(value: Value, ascii: bool) -> str:
    """A value on one line."""
    lines = format_lines(value, 30, ascii)
    return lines[0] + (" ..." if ascii else " …") * (len(lines) > 1)


def padded(line: Text, cells: int) -> Text:
    return Text.assemble(line, " " * (cells - line.cell_len))


class Page:
    """The lines of an explanation; the names of its entries are a column of `left` cells."""

    def __init__(self, cells: int, style: Mapping[str, str | Style], ascii: bool, names: Sequence[str]) -> None:
        self.cells, self.style, self.ascii = cells, style, ascii
        self.room = max(8, cells - MARGIN)
        widest = max((width(formula(name, ascii)) for name in names), default=0)
        self.left = min(widest, max(4, self.room // 3))
        self.right = max(12, self.room - self.left - 2)  # cells to the right of the names
        self.lines: list[Text] = []

    def cut_lines(self) -> list[Text]:
        return [
            line if line.cell_len <= self.cells else line[: len(cut(line.plain, self.cells))] for line in self.lines
        ]

    def operands(self, operands: Sequence[Operand]) -> None:
        if operands:
            self.head("goes in")
        for operand in operands:
            self.entry(operand.name, operand.value, "", operand.note)

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self.entry(step.name, step.result, step.expression, step.note, step.digits)

    def meaning(self, steps: Sequence[Step]) -> None:
        if steps:
            self.head("what it means")
            self.steps(steps)

    def result(self, explanation: Explanation) -> str:
        return format_lines(explanation.result, self.room, self.ascii, explanation.steps[-1].digits)[0]

    def question(self, explanation: Explanation) -> str:
        """The question, with the number in the form of the result."""
        result = explanation.result
        return formula(write_alike(explanation.question, result, self.result(explanation)), self.ascii)

    def say(self, *parts: tuple[str, str], indent: int = MARGIN) -> None:
        self.lines.append(Text.assemble(" " * indent, *((text, self.style[part]) for text, part in parts)))

    def wrap(self, text: str, part: str, indent: int = MARGIN) -> None:
        for line in wrap_text(text, max(8, self.cells - indent)):
            self.say((line, part), indent=indent)

    def head(self, text: str, *parts: tuple[str, str]) -> None:
        self.lines.append(Text())
        self.say((text, "heading"), *parts, indent=0)

    def below(self, *parts: tuple[str, str]) -> None:
        """Write a text without a name, in the right column."""
        self.say((" " * (self.left + 2), "quiet"), *parts)

    def add_named(self, title: str, *parts: tuple[str, str]) -> None:
        self.say((title, "name"), ("  ", "quiet"), *parts)

    def entry(self, name: str, value: Value, expression: str, note: str, digits: int = SHOWN) -> None:
        """A name, its computation (if any), the value and a note, on the same line if there is room."""
        note = formula(note, self.ascii)
        shown = format_lines(
            value, self.right - 2 * bool(expression), self.ascii, digits
        )  # after an expression comes "= "
        title = fit(formula(name, self.ascii), self.left, ellipsis="~" if self.ascii else "…")
        pieces = wrap_text(f"= {formula(expression, self.ascii)}", self.right) if expression else []
        fits = len(shown) == 1 and bool(pieces) and width(pieces[-1]) + width(shown[0]) + 4 <= self.right
        if not pieces:
            note = self.values(title, shown, note)
        elif isinstance(value, (str, int, float)) or fits:
            note = self.expression_and_value(title, pieces, shown[0], note)
        else:
            self.expression_and_rows(title, pieces, shown)
        for line in wrap_text(note, self.right) if note else []:
            self.below((line, "quiet"))

    def values(self, title: str, shown: Sequence[str], note: str) -> str:
        """A value on its lines; returns the note if it does not fit on the last."""
        for index, line in enumerate(shown):
            fits = index == len(shown) - 1 and bool(note) and width(line) + width(note) + 2 <= self.right
            beside = "  " + note if fits else ""
            self.add_named(title if not index else " " * self.left, (line, "value"), (beside, "quiet"))
            note = "" if beside else note
        return note

    def expression_and_value(self, title: str, pieces: Sequence[str], value: str, note: str) -> str:
        """An expression, and its value on the same line if there is room; returns the note if there is none for it."""
        titles = [title, *[" " * self.left] * (len(pieces) - 1)]
        for piece, name in zip(pieces[:-1], titles, strict=False):
            self.add_named(name, (piece, "quiet"))
        used = width(pieces[-1]) + width(value)
        if used + 4 > self.right:  # with the signs between them
            self.add_named(titles[-1], (pieces[-1], "quiet"))
            self.below(("= ", "quiet"), (value, "value"))
            return note
        beside = f"   {note}" if note and width(note) <= self.right - used - 7 else ""
        self.add_named(titles[-1], (pieces[-1], "quiet"), ("  = ", "quiet"), (value, "value"), (beside, "quiet"))
        return "" if beside else note

    def expression_and_rows(self, title: str, pieces: Sequence[str], shown: Sequence[str]) -> None:
        """An expression, and below it its value, a row or a matrix."""
        self.add_named(title, (pieces[0], "quiet"))
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
        entries = align_numbers([format_lines(entry, 20, ascii)[0] for entry in value])  # type: ignore[arg-type, union-attr]
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


def formula_lines(equation: str, cells: int) -> list[str]:
    """Break a formula between its equations if it does not fit, and inside one only if it must: before an operator or a
    relation if possible, indented.

    >>> formula_lines("x ← x + Attn(LN x);  x ← x + W₂ h", 24)
    ['x ← x + Attn(LN x);', 'x ← x + W₂ h']
    >>> formula_lines("L = E[min(ρ Â, clip(ρ, 1 − ε, 1 + ε) Â)] + w KL(p ‖ q)", 44)
    ['L = E[min(ρ Â, clip(ρ, 1 − ε, 1 + ε) Â)]', '    + w KL(p ‖ q)']
    """
    whole = " ".join(equation.split())
    if width(whole) <= cells:
        return [equation if width(equation) <= cells else whole]
    lines, label = [], ""
    for part in filter(None, map(str.strip, equation.split("  "))):
        if part.endswith(":"):
            label = f"{part}  "
            continue
        lines += broken_equation(label + part, cells)
        label = ""
    return lines


def broken_equation(equation: str, cells: int) -> list[str]:
    lines: list[str] = []
    indent = ""
    while width(indent + equation) > cells:
        room = max(8, cells - len(indent))
        begun = prefix(equation, room + 1)
        places = [at for at in range(room // 2, len(begun)) if begun[at] == " "]
        good = [at for at in places if equation[at + 1 : at + 3] in OPERATORS]
        best = [at for at in good if not is_inside(begun[:at])] or good or places
        if not best:
            break
        lines.append(indent + equation[: best[-1]])
        equation, indent = equation[best[-1] + 1 :], "    "
    return lines + [indent + line for line in wrap_text(equation, max(8, cells - len(indent)))]


def is_inside(begun: str) -> bool:
    """Whether a bracket is open at the end of this text."""
    return sum(map(begun.count, "([{")) > sum(map(begun.count, ")]}"))


def wrap_text(text: str, cells: int) -> list[str]:
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
