"""The text around the map: the header, the description of a word, the nearest words, and the user's input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from textual.content import Content

from txlab.drawing.captions import language as captions
from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import count, number, share
from txlab.drawing.palette import RGB
from txlab.drawing.text import fit, label, visible, width
from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.plane import Pair
from txlab.errors import LabError
from txlab.tui.screens.words.picture import Laid
from txlab.tui.screens.words.recorded import WordPath
from txlab.tui.widgets.table import Column

LONGEST_NAME, TOLD = 24, 60  # least cells of the title, if needed; and of the text after it
SHORT, SHORTEST = 8, 5  # cells of a name in a line that is full

Analogy = tuple[str, str, str]


def header(
    laid: Laid,
    second: Laid | None,
    marks: Sequence[tuple[str, RGB | None]],
    path: WordPath | None,
    room: int,
    ascii: bool,
) -> Content:
    """`words-source @ 275   path of red, steps 0 to 275   nearest to red left min   9 150 words`: each part in the
    longest form that leaves room for what the colours mean, marks in theirs; without marks they mean frequency."""
    words = len(laid.embedding.words)
    step = "" if laid.step is None else f" @ {count(laid.step)}"
    room -= width(step)
    title = visible(laid.embedding.title, ascii)
    title = fit(title, min(width(title), max(LONGEST_NAME, room - TOLD)))
    room -= width(title)
    parts = [Content.styled(title, "bold"), Content(step)]
    shown: list[tuple[tuple[str, ...], str]] = []  # the forms of a part, the longest first, and its style
    shown += [((f"by {visible(laid.objective, ascii)}",), "bold")] if laid.objective else []
    if path is not None:
        name = label(path.word, ascii)
        steps = f"path of {name}, steps {count(path.first)} to {count(path.last)}"
        shown.append(((steps, f"path of {name}"), "$success bold"))
    shown += [(("context vectors", "context"), "$quiet")] if laid.look.context else []
    for some, what in ((laid.embedding.broken, "not in UTF-8"), (laid.embedding.left_out, "there twice, left out")):
        if some:
            shown.append(((f"{count(some)} {what}",), "$quiet"))
    if second is not None:
        other = visible(second.embedding.title, ascii)
        shown.append(((f"compared with {other}", f"and {other}", f"and {fit(other, SHORT).rstrip()}"), "bold"))
    colours = [Content.styled("colours: frequency", "$quiet")]
    if marks:
        styles = ["bold" if colour is None else "bold rgb({},{},{})".format(*colour) for _, colour in marks]

        def legend(longest: int) -> Content:
            names = (label(mark, ascii) for mark, _ in marks)
            short = (fit(name, min(width(name), longest), ellipsis="~" if ascii else "…") for name in names)
            return Content(" ").join(map(Content.styled, short, styles))

        colours = [Content.styled("nearest to ", "$quiet") + legend(room), *map(legend, (room, SHORT, SHORTEST))]
    of = "" if laid.of <= words else f" of {count(laid.of)}"
    axes = f"principal axes, {share(laid.plane.share)} of the variance"
    if laid.plane.pairs:
        axes = visible("axes " + ", ".join(f"{one} − {other}" for one, other in laid.plane.pairs), ascii)
    last = [f"{count(words)}{of} words", axes, *([] if laid.look.context else ["centre vectors"])]
    kept = min(form.cell_length for form in colours) + 3
    for texts, style in shown:
        room -= add_longest(parts, [Content.styled(text, style) for text in texts], room - kept)
    for forms in (colours, *([Content.styled(text, "$quiet")] for text in last)):
        room -= add_longest(parts, forms, room)
    return Content.assemble(*parts)


def add_longest(parts: list[Content], forms: Sequence[Content], room: int) -> int:
    """Add the first of the forms that fits into `room` cells, after a gap; returns the cells that they take, or 0."""
    fits = next((form for form in forms if form.cell_length + 3 <= room), None)
    if fits is None:
        return 0
    parts += [Content("   "), fits]
    return fits.cell_length + 3


def about(laid: Laid, row: int, analogy: Analogy | None, ascii: bool) -> Content:
    """The word under the cursor with its count, rank and length; or the analogy."""
    if analogy is not None:
        a, b, c = (label(word, ascii) for word in analogy)
        first, then = f"{a} − {b} + {c}", "nearest words, but these"
    else:
        embedding = laid.embedding
        known = "" if embedding.counts is None else f"{count(int(embedding.counts[row]))} times, "
        length = float(np.linalg.norm(embedding.vectors[row]))
        first, then = label(embedding.words[row], ascii), f"{known}rank {count(row + 1)}\nlength {number(length)}"
    return Content.assemble(Content.styled(first, "bold $accent"), Content.styled(f"\n{then}", "$quiet"))


def sentence(laid: Laid, row: int, analogy: Analogy | None, listed: Sequence[tuple[int, float]]) -> Sentence:
    """The caption: the nearest words, or the answer of the analogy."""
    known = [(laid.embedding.words[each], cosine) for each, cosine in listed[:2]]
    if analogy is not None:
        return captions.analogy(*analogy, known)
    return captions.nearest(laid.embedding.words[row], known, row + 1, len(laid.embedding.words))


def table(
    laid: Laid, row: int, listed: Sequence[tuple[int, float]], analogy: bool, second: Laid | None, ascii: bool
) -> tuple[list[Column], list[list[str]]]:
    """The listed words with their cosines, and next to them the nearest words in a second embedding."""
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


# The user's input; LabError if it is invalid.


def find_word(embedding: Embedding, text: str) -> int | None:
    """The row of a word, or of the most frequent word with this prefix; None for an empty text."""
    text = text.strip()
    if not text or text in embedding.ids:
        return embedding.ids.get(text)
    begins = (row for row, word in enumerate(embedding.words) if word.startswith(text))
    beginning = next(begins, None)
    return embedding.row(text) if beginning is None else beginning


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
        raise LabError(f"an analogy a − b + c has three words; {len(parts)} given")
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
