"""The table of what the weights of one head do: copying and matching, eigenvalues, what it reads of earlier heads.

Notable: it is made in the lane of the side and kept for a checkpoint. The eigenvalues of all heads of a site come at
once, since what they share (D × D out of the vocabulary) costs more than they do; compositions come by layers. It is
of the weights as they were opened: no text, and nothing that is switched, is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from txlab.drawing.formatting import number, share
from txlab.engine.explain import Explanation
from txlab.errors import LabError
from txlab.tui.widgets.table import Column

if TYPE_CHECKING:
    from txlab.engine.interpret.circuits import Circuit
    from txlab.tui.screens.attention.bench import BenchSource

LARGEST = 2  # eigenvalues that are named, a conjugate pair once
READS = 6  # earlier heads that are named, with query, key or value by which most is read
REAL = 1e-9  # of |λ|: an imaginary part that is rounding
THROUGH = {"query": "Q", "key": "K", "value": "V"}


@dataclass(frozen=True)
class Key:
    """What a row is about: a circuit, or the earlier head that is read `through` query, key or value."""

    head: tuple[int, int]
    kind: str
    circuit: Circuit | None = None
    earlier: tuple[int, int] = (0, 0)


def circuits_rows(
    source: BenchSource, site: str, layer: int, head: int
) -> tuple[tuple[Column, ...], tuple[tuple[str, ...], ...], tuple[int, ...], tuple[Key, ...]]:
    """Columns, rows, marked rows, and what each row is about."""
    where = (layer, head)
    rows: list[tuple[str, ...]] = []
    keys: list[Key] = []
    for kind, name in (("ov", "copying"), ("qk", "matching")):
        whole = circuits_of(source, site, kind, whole=True)
        if whole is not None:
            rows.append((name, share(whole[layer][head].positive), ""))
            keys.append(Key(where, kind, whole[layer][head]))
    if site != "cross" and layer:
        found = composition_of(source, site, layer)
        heads = source.shape(site)[1]
        scores = [
            (float(value), through, divmod(at, heads))
            for through in THROUGH
            for at, value in enumerate(getattr(found, through)[layer, head, :layer].flatten().tolist())
        ]
        for score, through, earlier in sorted(scores, reverse=True)[:READS]:
            rows.append((f"{THROUGH[through]} {earlier[0] + 1}.{earlier[1] + 1}", share(score), share(found.expected)))
            keys.append(Key(where, through, earlier=earlier))
    for kind, name in (("ov", "λ W_OV"), ("qk", "λ W_QK")):
        inner = circuits_of(source, site, kind, whole=False)
        assert inner is not None
        one = inner[layer][head]
        for at, value in enumerate([each for each in one.eigenvalues.tolist() if each.imag >= 0][:LARGEST]):
            rows.append((name if not at else "", number(value.real, 2), ""))
            if abs(value.imag) > REAL * abs(value):
                rows.append(("  ± i", number(value.imag, 2), ""))
            keys += [Key(where, kind, one)] * (len(rows) - len(keys))
    columns = (Column(f"of {layer + 1}.{head + 1}", right=False), Column("is"), Column("random", quiet=True))
    return columns, tuple(rows), (), tuple(keys)


def circuits_of(source: BenchSource, site: str, kind: str, whole: bool) -> list[list[Circuit]] | None:
    """Of every head; None where no way leads from token to token."""
    from txlab.engine.interpret.circuits import circuits

    place = (site, kind, whole)
    if place not in source.circuits:
        with source.lock:
            try:
                source.circuits[place] = list(circuits(source.opened.model, site, kind, whole=whole))
            except LabError:
                if not whole:
                    raise
                source.circuits[place] = None
    found: list[list[Circuit]] | None = source.circuits[place]
    return found


def composition_of(source: BenchSource, site: str, layer: int) -> Any:
    """What the heads of one layer read of those before."""
    from txlab.engine.interpret.circuits import composition

    place = (site, "composition", layer)
    if place not in source.circuits:
        with source.lock:
            source.circuits[place] = composition(source.opened.model, site, layer=layer)
    return source.circuits[place]


def explain_circuit(source: BenchSource, site: str, key: Key) -> Explanation:
    """Why a row says what it says."""
    from txlab.engine.interpret.why import why_composition, why_copying

    if key.circuit is not None:
        return why_copying(key.circuit, key.kind, f"head {key.head[0] + 1}.{key.head[1] + 1}")
    with source.lock:
        return why_composition(source.opened.model, site, key.head, key.earlier, key.kind)
