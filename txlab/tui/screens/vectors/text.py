"""The words around the map: the header, what is said of a word, the nearest words, and what a person types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from textual.content import Content

from txlab.drawing.formatting import count, number, share
from txlab.drawing.palette import RGB
from txlab.drawing.text import fit, label, visible, width
from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.plane import Pair
from txlab.errors import LabError
from txlab.tui.screens.vectors.picture import Laid
from txlab.tui.theme import glyphs
from txlab.tui.widgets.table import Column

LONGEST_NAME, TOLD = 24, 60  # cells of the title at least, if they are needed; of what is told behind it

Analogy = tuple[str, str, str]


def header(laid: Laid, second: Laid | None, marks: Sequence[tuple[str, RGB | None]], room: int, ascii: bool) -> Content:
    """`words-source @ 275   9 150 words   centre vectors`: each part whole or not at all, marks in their colours."""
    words = len(laid.embedding.words)
    step = "" if laid.step is None else f" @ {count(laid.step)}"
    room -= width(step)
    title = visible(laid.embedding.title, ascii)
    title = fit(title, min(width(title), max(LONGEST_NAME, room - TOLD)), ellipsis=glyphs(ascii).ellipsis)
    room -= width(title)
    parts = [Content.styled(title, "bold"), Content(step)]
    told = [(f"by {visible(laid.objective, ascii)}", "bold")] if laid.objective else []
    told += [
        (f"{count(words)} words" if laid.of <= words else f"{count(words)} of {count(laid.of)} words", "$quiet"),
        (f"{'context' if laid.look.context else 'centre'} vectors", "$quiet"),
    ]
    for some, what in ((laid.embedding.broken, "not in UTF-8"), (laid.embedding.left_out, "there twice, left out")):
        if some:
            told.append((f"{count(some)} {what}", "$quiet"))
    if second is not None:
        told.append((f"beside {visible(second.embedding.title, ascii)}", "bold"))
    for mark, colour in marks:
        told.append((visible(mark, ascii), "bold" if colour is None else "rgb({},{},{})".format(*colour)))
    axes = f"principal axes, {share(laid.plane.share)} of the variance"
    if laid.plane.pairs:
        axes = visible("axes " + ", ".join(f"{one} − {other}" for one, other in laid.plane.pairs), ascii)
    for text, style in [*told, (axes, "$quiet")]:
        if width(text) + 3 <= room:
            parts.append(Content.styled(f"   {text}", style))
            room -= width(text) + 3
    return Content.assemble(*parts)


def about(laid: Laid, row: int, analogy: Analogy | None, ascii: bool) -> Content:
    """The word under the cursor with its count, rank and length; or the analogy that is asked."""
    if analogy is not None:
        a, b, c = (label(word, ascii) for word in analogy)
        first, then = f"{a} − {b} + {c}", "nearest words, but these"
    else:
        embedding = laid.embedding
        known = "" if embedding.counts is None else f"{count(int(embedding.counts[row]))} times, "
        length = float(np.linalg.norm(embedding.vectors[row]))
        first, then = label(embedding.words[row], ascii), f"{known}rank {count(row + 1)}\nlength {number(length)}"
    return Content.assemble(Content.styled(first, "bold $accent"), Content.styled(f"\n{then}", "$quiet"))


def table(
    laid: Laid, row: int, listed: Sequence[tuple[int, float]], analogy: bool, second: Laid | None, ascii: bool
) -> tuple[list[Column], list[list[str]]]:
    """The words listed with their cosines, and beside them the nearest words there, in a second embedding."""
    columns = [Column("word" if analogy else "nearest", right=False), Column("cos")]
    rows = [[label(laid.embedding.words[each], ascii), share(cosine)] for each, cosine in listed]
    if second is not None and not analogy:
        same = second.embedding.ids.get(laid.embedding.words[row])
        there = second.nearest(same) if same is not None else []
        columns += [Column("there", right=False), Column("cos")]
        other = [[label(second.embedding.words[each], ascii), share(cosine)] for each, cosine in there]
        other += [["", ""]] * (len(rows) - len(other))
        rows = [one + two for one, two in zip(rows, other, strict=False)]
    return columns, rows


# What a person types; LabError if it is wrong.


def found_word(embedding: Embedding, text: str) -> int | None:
    """The row of a word, or of the most frequent one that begins so; None for an empty text."""
    text = text.strip()
    if not text or text in embedding.ids:
        return embedding.ids.get(text)
    begins = (row for row, word in enumerate(embedding.words) if word.startswith(text))
    found = next(begins, None)
    return embedding.row(text) if found is None else found


def analogy_words(embedding: Embedding, text: str) -> tuple[str, str, str] | None:
    """a, b, c of "a b c" or "a - b + c"; None for an empty text.

    >>> import numpy as np
    >>> analogy_words(Embedding(("king", "man", "woman"), np.eye(3)), "king - man + woman")
    ('king', 'man', 'woman')
    """
    parts = [part for part in text.split() if part not in ("-", "−", "+")]
    if not parts:
        return None
    if len(parts) != 3:
        raise LabError("three words: a b c, as in king man woman")
    for part in parts:
        embedding.row(part)
    return parts[0], parts[1], parts[2]


def axis_pairs(embedding: Embedding, text: str) -> tuple[Pair, ...]:
    """Two pairs of "one other, one other"; none for an empty text."""
    parts = text.replace(",", " ").split()
    if len(parts) not in (0, 4):
        raise LabError("four words: x from the second to the first, y from the fourth to the third; or none")
    for part in parts:
        embedding.row(part)
    return ((parts[0], parts[1]), (parts[2], parts[3])) if parts else ()
