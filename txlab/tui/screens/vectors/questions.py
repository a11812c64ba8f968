"""What a person types on the Words screen: a word, an analogy, pairs that name the axes; LabError if it is wrong."""

from __future__ import annotations

from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.plane import Pair
from txlab.errors import LabError


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
