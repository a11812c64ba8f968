"""Links to formulas: where a text says "MATH T4", a click on the number opens it on the Formulas screen.

Notable: links are styles with an action, made from numbers that exist; the text itself is never parsed as markup.
"""

from __future__ import annotations

import re

from rich.style import Style as RichStyle
from rich.text import Text
from textual.content import Content
from textual.style import Style

from txlab.experiments.formulas.content import content

NUMBER = r"[FKRTMGH]\d{1,2}"
CITED = re.compile(rf"MATH {NUMBER}(?:(?:[,;]\s+|–| and ){NUMBER})*|\({NUMBER}\)")


def find_citations(text: str) -> list[tuple[int, str]]:
    """The formulas that a text cites: where each number is, and the number; a number that no formula has is none.

    >>> find_citations("the loss (MATH R1, T9) and H1")
    [(15, 'R1'), (19, 'T9')]
    """
    return [
        (citation.start() + number.start(), number.group())
        for citation in CITED.finditer(text)
        for number in re.finditer(NUMBER, citation.group())
        if number.group() in content()[0]
    ]


def open_action(number: str) -> dict[str, str]:
    return {"@click": f"app.open_formula({number!r})"}


def link_numbers(text: str) -> Content:
    """A list of formulas' numbers, each a link."""
    content = Content(text)
    for number in re.finditer(NUMBER, text):
        content = content.stylize(Style.from_meta(open_action(number.group())), number.start(), number.end())
    return content


def link_citations(text: Content) -> Content:
    """The text with a link on each number that it cites."""
    for start, number in find_citations(text.plain):
        text = text.stylize(Style.from_meta(open_action(number)), start, start + len(number))
    return text


def link_line(line: Text) -> Text:
    """The same for a line of an explanation."""
    for start, number in find_citations(line.plain):
        line.stylize(RichStyle.from_meta(open_action(number)), start, start + len(number))
    return line
