"""The tables next to the pattern: heads by their scores, the edits, the prediction of each layer (the lens), the direct
contribution of each part to a logit, and the circuits of one head.

Notable: a table is plain rows of text, built in the calling thread, so that the screen only draws it; `keys` identify
the rows, for `w` and for undoing an edit. Circuits depend on the weights as they were opened, not on text or edits, so
they are cached for a checkpoint. Eigenvalues are computed for all heads of a site together, since the shared part (D ×
D from the vocabulary) costs more than the heads; compositions are computed layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from txlab.drawing.formatting import fixed, number, share
from txlab.drawing.text import label, visible
from txlab.engine.explain import Explanation
from txlab.errors import LabError
from txlab.tui.screens.attention.bench import LiveAttention
from txlab.tui.screens.attention.source import SCORES, AttentionSource, Cell, Edit, strongest
from txlab.tui.widgets.table import Column

if TYPE_CHECKING:
    from txlab.engine.interpret.circuits import Circuit

Known = TypeVar("Known")

TABS = ("heads", "edits", "lens", "direct", "circuits")
STRONGEST = 4  # heads to list for each score
PARTS = 16  # of a logit
EIGENVALUES = 2  # to list, a conjugate pair counting once
READS = 6  # earlier heads to list, each with the strongest of query, key and value
REAL = 1e-9  # of |λ|: below this an imaginary part is rounding error
THROUGH = {"query": "Q", "key": "K", "value": "V"}


@dataclass(frozen=True)
class SideTable:
    """A table; `keys` (one per row) depend on the tab; `waiting` is the text for a missing table."""

    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    marked: tuple[int, ...] = ()
    keys: tuple[Any, ...] = ()
    waiting: str = ""


def is_ready(source: AttentionSource, tab: str) -> bool:
    """Return whether the table is available immediately; otherwise the model takes some time."""
    return tab in ("heads", "edits") or not isinstance(source, LiveAttention)


def side_table(source: AttentionSource, tab: str, cell: Cell) -> SideTable:
    """Return the table of a tab for a cell and its head. Raises LabError, in one sentence, if there is none."""
    if tab == "heads":
        return heads_table(source, cell)
    if tab == "edits":
        return edits_table(source)
    if not isinstance(source, LiveAttention):
        return SideTable(waiting="type a text (t): opens the model")
    if tab == "lens":
        return lens_table(source, cell)
    return direct_table(source, cell) if tab == "direct" else circuits_table(source, cell)


def explain_row(source: AttentionSource, tab: str, cell: Cell, key: Any) -> Explanation:
    """Explain the number in a row; for an edit, the KL."""
    if not isinstance(source, LiveAttention):
        raise LabError("a frame explains the cells of a head; type a text (t) to open the model and ask it")
    from txlab.engine.interpret import why

    if tab == "heads":
        score, (layer, head) = key
        return why.why_score(source.cache, cell.site, layer, head, score, source.sites[cell.site].columns)
    if tab == "edits":
        return why.why_kl(source.effect(source.position(cell.site, cell.row)), source.token)
    if tab == "circuits":
        explain: Callable[[], Explanation] = key
        return explain()
    subject, one = key
    return (why.why_lens if tab == "lens" else why.why_direct)(subject, one, names=source.token)


def heads_table(source: AttentionSource, cell: Cell) -> SideTable:
    """List the heads with the highest scores; the selected one is highlighted."""
    scores = source.scores.get(cell.site, {})
    rows: list[tuple[str, ...]] = []
    keys: list[tuple[str, tuple[int, int]]] = []
    for name in (name for name in (*SCORES, "duplicate", "first") if name in scores):
        for place, (layer, head) in enumerate(strongest(scores, name, STRONGEST)):
            rows.append((name if not place else "", f"{layer + 1}.{head + 1}", share(float(scores[name][layer, head]))))
            keys.append((name, (layer, head)))
    if not rows:
        return SideTable(waiting="no score is known here")
    columns = (Column("score", right=False, quiet=True), Column("head"), Column("mean"))
    marked = tuple(at for at, (_, head) in enumerate(keys) if head == (cell.layer, cell.head))
    return SideTable(columns, tuple(rows), marked, tuple(keys))


def edits_table(source: AttentionSource) -> SideTable:
    if not source.edits:
        return SideTable(waiting="no edits; x a head, m an edge")
    columns = (Column("", right=True), Column("del takes one back", right=False))
    rows = tuple((str(at), visible(brief(edit, source))) for at, edit in enumerate(source.edits, 1))
    return SideTable(columns, rows, (), tuple(range(len(rows))))


def brief(edit: Edit, source: AttentionSource) -> str:
    """Return an edit in a few words, with its tokens: `head 2.2 off`, `2.2 mice ↛ the (6, 0)`."""
    where = f"{edit['site']} " if "site" in edit and len(source.sites) > 1 else ""
    factor = "" if "factor" not in edit else f"×{edit['factor']:g}" if edit["factor"] else "off"
    match edit["kind"]:
        case "scale-head":
            return f"{where}head {edit['layer'] + 1}.{edit['head'] + 1} {factor}"
        case "scale-block":
            return f"{where}{edit['part'].replace('feed_forward', 'feed-forward')} {edit['layer'] + 1} {factor}"
        case "edge":
            site, row, column = source.sites[edit["site"]], edit["row"], edit["column"]
            tokens = f"{label(site.rows[row])} {'→' if edit['allowed'] else '↛'} {label(site.columns[column])}"
            return f"{where}{edit['layer'] + 1}.{edit['head'] + 1} {tokens} ({row}, {column})"
        case "patch":
            return f"patch {edit['place'].removeprefix('blocks.')} at {edit['position']}"
        case "edit-weight":
            return f"{edit['parameter']}[{','.join(map(str, edit['index']))}] = {edit['value']:g}"
        case _:
            return f"erratum {edit['name']}"


def lens_table(source: LiveAttention, cell: Cell) -> SideTable:
    """Show each layer's prediction after the cursor's row."""
    from txlab.engine.interpret.effects import lens

    position = source.position(cell.site, cell.row)
    with source.lock:
        by_layer = lens(source.opened.model, source.text, position, 2, source.interventions, source.second)
    rows = []
    layers = range(len(by_layer.ids))[::-1]
    for layer in layers:
        first, second = source.opened.target_labels(by_layer.ids[layer].tolist()[:2])[:2]
        likely, next_to = (share(float(p)) for p in by_layer.probabilities[layer, :2])
        kl = number(float(by_layer.kl[layer]), 2)
        rows.append((f"L{layer}" if layer else "emb", label(first), likely, kl, label(second), next_to))
    columns = (
        Column("", right=False, quiet=True),
        Column("says", right=False),
        Column("p"),
        Column("KL"),
        Column("then", right=False, quiet=True),
        Column("p", quiet=True),
    )
    return SideTable(columns, tuple(rows), (0,), tuple((by_layer, layer) for layer in layers))


def direct_table(source: LiveAttention, cell: Cell) -> SideTable:
    """Show the contributions to the logit of the likeliest token after the cursor's row."""
    from txlab.engine.interpret.direct import direct_effects

    position = source.position(cell.site, cell.row)
    token = int(source.cache.following(position, 1)[0][0])
    with source.lock:
        effects = direct_effects(
            source.opened.model, source.text, token, None, position, source.interventions, source.second
        )
    parts = effects.largest(PARTS)
    here = (cell.site, cell.layer, cell.head)
    marked = tuple(at for at, part in enumerate(parts) if (part.site, part.layer, part.head) == here)
    columns = (
        Column(f"to the logit of {label(source.token(token))} {number(effects.logit, 3)}", False),
        Column("adds"),
    )
    rows = tuple((part.name, fixed(part.value, 2, signed=True)) for part in parts)
    return SideTable(columns, rows, marked, tuple((effects, part) for part in parts))


# Circuits. A key is the function that explains its row.


def circuits_table(source: LiveAttention, cell: Cell) -> SideTable:
    """Show copying and matching, eigenvalues, and the head's composition with earlier heads."""
    from txlab.engine.interpret.circuits import composition
    from txlab.engine.interpret.why import why_composition, why_copying

    site, layer, head = cell.site, cell.layer, cell.head
    name = f"head {layer + 1}.{head + 1}"
    rows: list[tuple[str, ...]] = []
    keys: list[Callable[[], Explanation]] = []

    def copying(circuit: Circuit, kind: str) -> Callable[[], Explanation]:
        return lambda: why_copying(circuit, kind, name)

    def reading(earlier: tuple[int, int], through: str) -> Callable[[], Explanation]:
        def explain() -> Explanation:
            with source.lock:
                return why_composition(source.opened.model, site, (layer, head), earlier, through)

        return explain

    for kind, title in (("ov", "copying"), ("qk", "matching")):
        whole = circuits_of(source, site, kind, whole=True)
        if whole is not None:
            rows.append((title, share(whole[layer][head].positive), ""))
            keys.append(copying(whole[layer][head], kind))
    if site != "cross" and layer:
        known, heads = (site, "composition", layer), source.sites[site].heads
        composed = once(source, known, lambda: composition(source.opened.model, site, layer=layer))
        scores = [
            (float(value), through, divmod(at, heads))
            for through in THROUGH
            for at, value in enumerate(getattr(composed, through)[layer, head, :layer].flatten().tolist())
        ]
        for score, through, earlier in sorted(scores, reverse=True)[:READS]:
            rows.append(
                (f"{THROUGH[through]} {earlier[0] + 1}.{earlier[1] + 1}", share(score), share(composed.expected))
            )
            keys.append(reading(earlier, through))
    for kind, title in (("ov", "λ W_OV"), ("qk", "λ W_QK")):
        inner = circuits_of(source, site, kind, whole=False)
        assert inner is not None
        one = inner[layer][head]
        for at, value in enumerate([each for each in one.eigenvalues.tolist() if each.imag >= 0][:EIGENVALUES]):
            rows.append((title if not at else "", number(value.real, 2), ""))
            if abs(value.imag) > REAL * abs(value):
                rows.append(("  ± i", number(value.imag, 2), ""))
            keys += [copying(one, kind)] * (len(rows) - len(keys))
    columns = (Column(f"of {layer + 1}.{head + 1}", right=False), Column("is"), Column("random", quiet=True))
    return SideTable(columns, tuple(rows), (), tuple(keys))


def circuits_of(source: LiveAttention, site: str, kind: str, whole: bool) -> list[list[Circuit]] | None:
    """Return the circuits of every head; None if no path leads from token to token."""
    from txlab.engine.interpret.circuits import circuits

    def make() -> list[list[Circuit]] | None:
        try:
            return list(circuits(source.opened.model, site, kind, whole=whole))
        except LabError:
            if not whole:
                raise
            return None

    return once(source, (site, kind, whole), make)


def once(source: LiveAttention, what: tuple[Any, ...], make: Callable[[], Known]) -> Known:
    """Return the result of `make`, cached for the checkpoint."""
    if what not in source.circuits:
        with source.lock:
            source.circuits[what] = make()
    known: Known = source.circuits[what]
    return known
