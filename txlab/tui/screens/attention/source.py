"""What the Attention screen asks of whatever it draws, and the piece of it that is drawn now.

Notable: a recorded frame and a model that one pokes at answer the same questions, so there is one screen and one
drawing. Nobody ever hands over L × H × T² numbers: a pattern is asked for by the rows and columns that are seen and
some around them, all heads at once only as small pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from txlab.engine.explain import Explanation

View = Literal["pattern", "average", "rollout"]
VIEWS: tuple[View, ...] = ("pattern", "average", "rollout")
VIEW_WORDS = {
    "pattern": "softmax rows",
    "average": "mean of the layer's heads",
    "rollout": "rollout through all layers",
}
SCORES = ("induction", "previous")
# What a model's predictions are to the token at which they stand: a frame's fact "predicts".
LEADS = {"next": "next after", "place": "in the place of", "class": "classes, by"}
WORTH_A_NOTE = 0.3  # a head with a lower score is not called after it
THUMB = 24  # rows and columns that a small picture has at most

Span = tuple[int, int]  # from, to


@dataclass(frozen=True)
class Candidate:
    """A token that may come next: as it is, its probability, and what it was before anything was switched."""

    token: str
    probability: float
    before: float | None = None


@dataclass(frozen=True)
class Following:
    """What comes next after the token `after`; `kl` (nats) is by how much what is switched changed it.
    `lead`: what the candidates are to that token; most often they come next after it."""

    after: str = ""
    candidates: tuple[Candidate, ...] = ()
    kl: float | None = None
    lead: str = LEADS["next"]


class AttentionSource(Protocol):
    """`name` as it is shown; `sites` are the kinds of attention: "self", or "encoder", "decoder", "cross"."""

    @property
    def name(self) -> str: ...

    @property
    def sites(self) -> tuple[str, ...]: ...

    @property
    def texts(self) -> tuple[str, ...]:
        """What is read, as a person would type it; of a translator source and target."""
        ...

    def instant(self, view: View) -> bool:
        """Whether the answers lie ready: else they are asked for in a thread."""
        ...

    def shape(self, site: str) -> tuple[int, int]:
        """Layers and heads."""
        ...

    def rows(self, site: str) -> tuple[str, ...]:
        """The tokens that look, as they are."""
        ...

    def columns(self, site: str) -> tuple[str, ...]:
        """The tokens that are looked at."""
        ...

    def mask(self, site: str) -> str: ...

    def pattern(self, view: View, site: str, layer: int, head: int, rows: Span, columns: Span) -> np.ndarray:
        """(r, c) weights of a window; a rollout is through all layers."""
        ...

    def thumbnails(self, site: str) -> np.ndarray:
        """(L, H, ≤ THUMB, ≤ THUMB), pooled by the maximum."""
        ...

    def scores(self, site: str) -> Mapping[str, np.ndarray]:
        """name → (L, H), NaN = undefined."""
        ...

    def marks(self, site: str, layer: int, head: int) -> Mapping[tuple[int, int], str]:
        """Edges that a person cut (×) or opened (+)."""
        ...

    def following(self, site: str, row: int) -> Following: ...

    def explain_cell(self, view: View, site: str, layer: int, head: int, row: int, column: int) -> Explanation: ...

    def explain_next(self, site: str, row: int, rank: int) -> Explanation: ...


@dataclass(frozen=True)
class Wish:
    """What the screen wants to see: `cell` is the cursor; `place`: find where the cursor may begin in its row."""

    site: str
    view: View
    layer: int
    head: int
    rows: Span
    columns: Span
    row: int
    without_first: bool = False
    place: bool = False


@dataclass(frozen=True)
class Sight:
    """An answer to a wish: the window of the chosen head, what is blank in it, and what comes next after the row."""

    wish: Wish
    values: np.ndarray
    blank: np.ndarray
    sums: np.ndarray | None = None
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    following: Following = field(default_factory=Following)
    column: int | None = None

    @property
    def at(self) -> tuple[int, int]:
        return self.wish.rows[0], self.wish.columns[0]


def sight(source: AttentionSource, wish: Wish) -> Sight:
    """Ask a source for all that is drawn of a wish."""
    site, view, layer, head = wish.site, wish.view, wish.layer, wish.head
    all_columns = (0, len(source.columns(site)))
    marks = source.marks(site, layer, head) if view == "pattern" else {}
    sums = None
    if wish.without_first:
        # Whole rows, since what is summed may lie outside of what is seen.
        band = source.pattern(view, site, layer, head, wish.rows, all_columns)
        values = band[:, wish.columns[0] : wish.columns[1]]
        sums = band[:, 1:].astype(np.float32).sum(-1)
    else:
        values = source.pattern(view, site, layer, head, wish.rows, wish.columns)
    column = None
    if wish.place and all_columns[1]:
        row = np.array(source.pattern(view, site, layer, head, (wish.row, wish.row + 1), all_columns)[0], np.float32)
        if source.mask(site) == "causal":
            row[wish.row + 1 :] = -1
        column = int(np.nan_to_num(row, nan=-1).argmax())
    return Sight(
        wish,
        np.asarray(values, np.float32),
        blank(source.mask(site), wish, marks),
        sums,
        marks,
        source.following(site, wish.row),
        column,
    )


def blank(mask: str, wish: Wish, marks: Mapping[tuple[int, int], str]) -> np.ndarray:
    """(r, c): what may not be looked at, and the first column where it is left out."""
    rows, columns = np.arange(*wish.rows), np.arange(*wish.columns)
    hidden: np.ndarray = np.zeros((len(rows), len(columns)), dtype=bool)
    if mask == "causal":
        hidden |= columns[None] > rows[:, None]
        for row, column in marks:  # a later token that a person lets be looked at
            if row in rows and column in columns:
                hidden[row - wish.rows[0], column - wish.columns[0]] = False
    if wish.without_first:
        hidden[:, columns == 0] = True
    return hidden


def note(scores: Mapping[str, np.ndarray], layer: int, head: int) -> str:
    """What a head is called after: `i.91` induction, `p.85` previous token, whichever is stronger; '' below .3."""
    from txlab.drawing.formatting import share

    known = [(float(scores[name][layer, head]), name[0]) for name in SCORES if name in scores]
    best, letter = max(((score, letter) for score, letter in known if np.isfinite(score)), default=(0.0, ""))
    return f"{letter}{share(best)}" if best >= WORTH_A_NOTE else ""


def strongest(scores: Mapping[str, np.ndarray], name: str, count: int) -> list[tuple[int, int]]:
    """The heads with the highest scores, (layer, head) from 0."""
    if name not in scores or not scores[name].size:
        return []
    flat = np.nan_to_num(scores[name], nan=-1.0).ravel()
    order = [int(index) for index in np.argsort(-flat, kind="stable")[:count] if flat[index] >= 0]
    return [divmod(index, scores[name].shape[1]) for index in order]


def thumbs(patterns: np.ndarray) -> np.ndarray:
    """(..., T, S) → (..., ≤ THUMB, ≤ THUMB) by the maximum over blocks; what is small enough stays as it is."""
    for axis in (-2, -1):
        length = patterns.shape[axis]
        if length > THUMB:
            edges = np.linspace(0, length, THUMB + 1).astype(np.int64)[:-1]
            patterns = np.maximum.reduceat(patterns, edges, axis=axis)
    return patterns
