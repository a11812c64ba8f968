"""What a formula says: its equations large, and below them its letters, relations, source and meaning."""

from __future__ import annotations

from textual.content import Content

from txlab.drawing.explanation import formula_lines, wrap_text
from txlab.drawing.text import formula, width
from txlab.experiments.formulas.content import Formula, Place, used_by
from txlab.tui.formula_links import link_citations, link_numbers

LETTERS = 10  # cells of the widest letter that has its meaning on the same line


def equation_content(shown: Formula, cells: int, lines: int, ascii: bool = False) -> Content:
    """Return the title and the equations in at most `lines` lines if possible: with blank lines between them if there
    is room."""
    head = f"{shown.number}  "
    title = Content.assemble(
        Content.styled(head, "bold $quiet"),
        Content.styled(hanging(formula(shown.title, ascii), cells - len(head), len(head)), "bold"),
    )
    indent = 4 if cells >= 60 else 2
    blocks = [formula_lines(formula(each, ascii), cells - indent) for each in shown.formulas]
    room = lines - 2 - sum(map(len, blocks))
    gap = "\n\n" if room >= len(blocks) - 1 else "\n"
    drawn = [Content("\n").join([equation_line(line, indent) for line in block]) for block in blocks]
    return Content.assemble(title, "\n\n" if lines > 4 else "\n", Content(gap).join(drawn))


def hanging(text: str, cells: int, indent: int) -> str:
    """A text of this width, whose further lines are indented."""
    return ("\n" + " " * indent).join(wrap_text(text, max(8, cells)))


def equation_line(line: str, indent: int) -> Content:
    """A line of an equation; a word before it, as in "Adam:", is quiet."""
    label, colon, rest = line.partition(":  ")
    if not colon:
        label, rest = "", line
    return Content.assemble(" " * indent, Content.styled(label + colon, "$quiet"), Content.styled(rest, "bold $accent"))


def about_content(shown: Formula, cells: int, ascii: bool = False) -> Content:
    """Return letters, what it uses and what uses it, source, misprint, meaning, and where it is at work."""
    parts: list[Content] = []
    letters = {formula(letter, ascii): formula(meaning, ascii) for letter, meaning in shown.letters.items()}
    left = min(LETTERS, max(map(width, letters), default=0))
    for letter, meaning in letters.items():
        parts.append(entry(letter, meaning, left, cells))
    parts.append(Content("\n"))
    relations = [("uses", shown.uses), ("used by", used_by(shown.number))]
    for name, numbers in relations:
        if numbers:
            links = link_numbers(hanging(", ".join(numbers), cells - 9, 9))
            parts += [Content.styled(f"{name:<9}", "$quiet"), links, Content("\n")]
    parts.append(labelled("source", formula(shown.source, ascii), cells))
    if any(vars(shown.place).values()):
        parts.append(labelled("at work", formula(place_words(shown.place), ascii), cells))
    parts.append(Content("\n"))
    if shown.erratum:
        sign = "!" if ascii else "≠"
        said = hanging(formula(shown.erratum, ascii), cells - 2, 2)
        parts += [Content.styled(f"{sign} ", "bold $accent"), link_citations(Content(said)), Content("\n\n")]
    meaning = hanging(formula(shown.meaning, ascii), cells, 0)
    return Content.assemble(*parts, link_citations(Content(meaning)))


def entry(letter: str, meaning: str, left: int, cells: int) -> Content:
    """A letter and its meaning; the meaning of a long one begins on a line of its own."""
    head = letter + (" " * (left - width(letter) + 2) if width(letter) <= left else "\n" + " " * (left + 2))
    return Content.assemble(Content.styled(head, "bold"), hanging(meaning, cells - left - 2, left + 2), "\n")


def labelled(name: str, text: str, cells: int) -> Content:
    return Content.assemble(Content.styled(f"{name:<9}", "$quiet"), hanging(text, cells - 9, 9), "\n")


def place_words(place: Place) -> str:
    """ "Attention, with a run of gpt-copy" """
    from txlab.tui.screen_registry import SCREENS

    titles = {each.name: each.title for each in SCREENS}
    words = titles.get(place.screen, place.screen)
    if place.scenario:
        words += f", with a run of {place.scenario}"
    if place.text:
        words += f", with the text {place.text!r}"
    return words
