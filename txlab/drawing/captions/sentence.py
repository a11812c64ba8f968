"""The form of a caption: a sentence of clauses, of which a line shows as many as fit."""

from __future__ import annotations

from collections.abc import Sequence

from txlab.drawing.formatting import count
from txlab.drawing.text import fit, visible, width

Sentence = tuple[str, ...]
"""The first clause is a sentence by itself, the others add to it; () = nothing is known yet. No full stop."""


def clauses_that_fit(sentence: Sentence, cells: int) -> str:
    """Return the clauses that fit, from the first on, joined by commas; a first one that does not fit is cut.

    >>> clauses_that_fit(("The RNN's gradient has lost 25 powers of ten", "the LSTM's none"), 70)
    "The RNN's gradient has lost 25 powers of ten, the LSTM's none"
    >>> clauses_that_fit(("The RNN's gradient has lost 25 powers of ten", "the LSTM's none"), 50)
    "The RNN's gradient has lost 25 powers of ten"
    """
    said = ""
    for clause in map(visible, sentence):
        longer = f"{said}, {clause}" if said else clause
        if width(longer) > cells:
            return said or fit(clause, cells)
        said = longer
    return said


def join_names(items: Sequence[str]) -> str:
    """Join names as a sentence does.

    >>> join_names(["gru", "lstm"]), join_names(["a", "b", "c"])
    ('gru and lstm', 'a, b and c')
    """
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def ordinal(number: int) -> str:
    """Write a place.

    >>> ordinal(1), ordinal(12), ordinal(23), ordinal(1111)
    ('1st', '12th', '23rd', '1 111th')
    """
    last = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{count(number)}{last}"
