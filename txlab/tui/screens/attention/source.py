"""The data of the Attention screen: the attention of one model on one text, recorded or just computed.

Notable: a recorded frame (recorded.py) is a stored pass through a model, the bench (bench.py) makes one on demand. Both
have the same interface, so there is one screen and one way of drawing. The L × H × T² numbers are never passed as a
whole: a pattern is requested by the visible rows and columns with a margin, all heads together only as thumbnails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from txlab.drawing.formatting import share
from txlab.engine.explain import Explanation

View = Literal["pattern", "average", "rollout"]
VIEWS: tuple[View, ...] = ("pattern", "average", "rollout")
VIEW_WORDS = {
    "pattern": "softmax rows",
    "average": "mean of the layer's heads",
    "rollout": "rollout through all layers",
}
LONGEST_NAME = 32  # cells of the name of a run
SCORES = ("induction", "previous")
# How a model's predictions relate to the token at their position: a frame's fact "predicts".
LEADS = {"next": "next after", "place": "in the place of", "class": "classes, by"}
MASKS = ("[MASK]", "<mask>")  # BERT's and RoBERTa's
WORTH_A_NOTE = 0.3  # heads with a lower score are not labelled with it
THUMB = 24  # largest number of rows and columns of a thumbnail

Span = tuple[int, int]  # from, to
Edit = Mapping[str, Any]
"""An intervention as JSON (engine/interpret/interventions.py), so that keys are answered before torch is imported."""


@dataclass(frozen=True)
class AttentionSite:
    """One kind of attention: its size, the query tokens (`rows`) and the key tokens (`columns`)."""

    layers: int
    heads: int
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    mask: str = ""


@dataclass(frozen=True)
class Cell:
    """One weight: row and column in a head of a site, all counted from 0."""

    site: str
    layer: int
    head: int
    row: int
    column: int


@dataclass(frozen=True)
class Candidate:
    """A token that may come next: its text, its probability, and its probability before the edits."""

    token: str
    probability: float
    before: float | None = None


@dataclass(frozen=True)
class NextTokens:
    """The predictions after the token `after`; `kl` (nats) is the change by the edits. `lead`: how the candidates
    relate to that token; usually they come next after it."""

    after: str = ""
    candidates: tuple[Candidate, ...] = ()
    kl: float | None = None
    lead: str = LEADS["next"]


class AttentionSource(Protocol):
    """The source of patterns, scores, next tokens and explanations."""

    @property
    def name(self) -> str:
        """The name as shown: the run with its step, or the model."""
        ...

    @property
    def texts(self) -> tuple[str, ...]:
        """The model's input as a user would type it; for a translator source and target."""
        ...

    @property
    def sites(self) -> Mapping[str, AttentionSite]:
        """The kinds of attention by name: "self", or "encoder", "decoder", "cross"."""
        ...

    @property
    def scores(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """site → name of a score → (L, H), NaN if undefined or not known yet."""
        ...

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The interventions that were in force."""
        ...

    @property
    def stored(self) -> bool:
        """Whether everything except rollouts is in memory; otherwise threads compute it, and heads arrive layer by
        layer."""
        ...

    def thumbnails(self, site: str) -> np.ndarray:
        """Return (L, H, ≤ THUMB, ≤ THUMB), pooled by the maximum."""
        ...

    def form_layer(self, site: str, layer: int) -> None:
        """Compute the thumbnails and scores of one layer, if they are not stored."""
        ...

    def pattern(self, view: View, site: str, layer: int, head: int, rows: Span, columns: Span) -> np.ndarray:
        """Return the (r, c) weights of a window; a rollout is through all layers."""
        ...

    def next_tokens(self, site: str, row: int) -> NextTokens: ...

    def explain_cell(self, view: View, cell: Cell) -> Explanation: ...

    def explain_next(self, site: str, row: int, rank: int) -> Explanation: ...


class AttentionViewer(Protocol):
    """The state of the screen that panels use."""

    @property
    def source(self) -> AttentionSource | None:
        """The drawn source: the open model, else the recorded frame, if there is one."""
        ...

    @property
    def cell(self) -> Cell:
        """The cell under the cursor."""
        ...

    @property
    def comparing(self) -> bool:
        """Whether a second source is shown next to the first."""
        ...


@dataclass(frozen=True)
class WindowRequest:
    """The part of a pattern around the cursor's `cell`; `place`: find the strongest column of its row."""

    cell: Cell
    view: View
    rows: Span
    columns: Span
    without_first: bool = False
    place: bool = False


@dataclass(frozen=True)
class PatternWindow:
    """The answer: `values` and where they are `blank`, both (r, c), and the predictions after the cursor's row.

    sums    of whole rows without their first column, if that is left out
    marks   {(row, column): sign} of edges that are cut (×) or allowed (+)
    column  the strongest of the cursor's row, if requested
    """

    request: WindowRequest
    values: np.ndarray
    blank: np.ndarray
    sums: np.ndarray | None = None
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    next_tokens: NextTokens = field(default_factory=NextTokens)
    column: int | None = None

    @property
    def at(self) -> tuple[int, int]:
        return self.request.rows[0], self.request.columns[0]


def read_window(source: AttentionSource, request: WindowRequest) -> PatternWindow:
    """Query a source for all data of a request."""
    cell, view = request.cell, request.view
    site = source.sites[cell.site]
    everything = (0, len(site.columns))

    def weights(rows: Span, columns: Span) -> np.ndarray:
        return np.asarray(source.pattern(view, cell.site, cell.layer, cell.head, rows, columns), np.float32)

    marks = edge_marks(source.edits, cell) if view == "pattern" else {}
    sums = column = None
    if request.without_first:  # whole rows, since the sums may include columns outside the window
        whole = weights(request.rows, everything)
        values, sums = whole[:, slice(*request.columns)], whole[:, 1:].sum(-1)
    else:
        values = weights(request.rows, request.columns)
    if request.place and site.columns:
        row = weights((cell.row, cell.row + 1), everything)[0].copy()
        if site.mask == "causal":
            row[cell.row + 1 :] = -1
        column = int(np.nan_to_num(row, nan=-1).argmax())
    hidden = blank(site.mask, request, marks)
    return PatternWindow(request, values, hidden, sums, marks, source.next_tokens(cell.site, cell.row), column)


def blank(mask: str, request: WindowRequest, marks: Mapping[tuple[int, int], str]) -> np.ndarray:
    """Return (r, c): the masked cells, and the first column if it is left out."""
    rows, columns = np.arange(*request.rows), np.arange(*request.columns)
    hidden: np.ndarray = np.zeros((len(rows), len(columns)), dtype=bool)
    if mask == "causal":
        hidden |= columns[None] > rows[:, None]
        for row, column in marks:  # a later token that the user has allowed
            if row in rows and column in columns:
                hidden[row - request.rows[0], column - request.columns[0]] = False
    if request.without_first:
        hidden[:, columns == 0] = True
    return hidden


def edge_marks(edits: tuple[Edit, ...], cell: Cell) -> dict[tuple[int, int], str]:
    """Return the edges of the cell's head that the user cut (×) or allowed (+)."""
    head = {"kind": "edge", "site": cell.site, "layer": cell.layer, "head": cell.head}
    return {(edit["row"], edit["column"]): "+" if edit["allowed"] else "×" for edit in edits if concerns(edit, head)}


def concerns(edit: Edit, what: Edit) -> bool:
    """Return whether an edit matches every item of `what`."""
    return all(edit.get(key) == value for key, value in what.items())


def row_to_begin(site: AttentionSite) -> int:
    """Return the initial row of the cursor: the first mask of a masked model, else the last row."""
    masks = [row for row, token in enumerate(site.rows) if token in MASKS] if site.mask == "none" else []
    return masks[0] if masks else len(site.rows) - 1


def head_notes(source: AttentionSource, site: str) -> list[list[str]]:
    """Return (L, H): the label of each head: off or its factor if it is scaled, else its highest score, `i.91` for
    induction, `p.85` for previous token; nothing below .3."""
    scores, size = source.scores.get(site, {}), source.sites[site]
    scaled = {
        (edit["layer"], edit["head"]): f"×{edit['factor']:g}" if edit["factor"] else "off"
        for edit in source.edits
        if concerns(edit, {"kind": "scale-head", "site": site})
    }

    def note(layer: int, head: int) -> str:
        known = [(float(scores[name][layer, head]), name[0]) for name in SCORES if name in scores]
        best, letter = max(((score, letter) for score, letter in known if np.isfinite(score)), default=(0.0, ""))
        return f"{letter}{share(best)}" if best >= WORTH_A_NOTE else ""

    return [
        [scaled.get((layer, head)) or note(layer, head) for head in range(size.heads)] for layer in range(size.layers)
    ]


def strongest(scores: Mapping[str, np.ndarray], name: str, count: int) -> list[tuple[int, int]]:
    """Return the heads with the highest scores, (layer, head) from 0."""
    if name not in scores or not scores[name].size:
        return []
    flat = np.nan_to_num(scores[name], nan=-1.0).ravel()
    order = [int(index) for index in np.argsort(-flat, kind="stable")[:count] if flat[index] >= 0]
    return [divmod(index, scores[name].shape[1]) for index in order]
