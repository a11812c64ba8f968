"""`txlab explain MODEL --circuits`: the circuits of each head from its weights, without a text (MATH T3–T6).

The copying score goes through the vocabulary, from the attended token to its own logit. Without such a path (BERT's
head, an encoder, cross-attention between two vocabularies) a sentence says so, and the eigenvalues within the residual
stream are still shown. Complex eigenvalues come in conjugate pairs; a pair is written once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from txlab.cli.models import about, open_text_model, print_explanation, print_model, shares
from txlab.cli.output import Column, print_json, table
from txlab.cli.terminal import ascii_only, columns
from txlab.drawing.formatting import complex_number
from txlab.errors import LabError

if TYPE_CHECKING:
    from torch import Tensor

    from txlab.engine.interpret.circuits import Circuit, Composition
    from txlab.engine.interpret.sites import Site
    from txlab.runs.models import OpenModel

EIGENVALUES = 3  # per line of the table
OF_ONE = 8  # for one head
STRONGEST = 5  # heads that a head composes with most, for each of query, key and value
THROUGH = ("query", "key", "value")


def explain_circuits(name: str, site: str | None, layer: int | None, head: int | None, json: bool) -> None:
    """Explain all heads (of `layer`, if given) in a table, or one head and the heads that compose with it."""
    from txlab.engine.interpret.sites import head_of, site_named

    model = open_text_model(name)
    looked = site_named(model.model, site or ("decoder" if model.kind == "encoder-decoder" else "self"))
    if layer is not None:
        head_of(model.model, looked.name, layer, head)
    if layer is None or head is None:
        content = explain_all(model, looked, layer, json)
    else:
        content = explain_one(model, looked, layer, head, json)
    if json:
        print_json({"model": about(model), "site": looked.name, **content})
    else:
        print_model(model)


def show_progress(layers: Iterable[list[Circuit]], what: str, many: int) -> Iterator[list[Circuit]]:
    """Yield the layers unchanged, showing the current one on stderr if it is a terminal."""
    waits = sys.stderr.isatty()
    for at, made in enumerate(layers, 1):
        if waits:
            print(f"\r{what}, layer {at} of {many}\x1b[K", end="", file=sys.stderr, flush=True)
        yield made
    if waits:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def explain_all(model: OpenModel, site: Site, layer: int | None, json: bool) -> dict[str, Any]:
    """Print the table, or return it for JSON."""
    from txlab.drawing.text import formula
    from txlab.engine.interpret.circuits import circuits

    def of(kind: str, whole: bool, what: str) -> list[Circuit]:
        layers = show_progress(circuits(model.model, site.name, kind, whole=whole), what, site.layers)
        return [each for at, heads in enumerate(layers) for each in heads if layer in (None, at)]

    copying, why_not = None, ""
    try:
        copying = [each.positive for each in of("ov", True, "copying scores")]
    except LabError as why:
        why_not = reason(why)
    qk, ov = of("qk", False, "W_QK"), of("ov", False, "W_OV")
    layers = range(site.layers) if layer is None else (layer,)
    names = [f"{each + 1}.{head + 1}" for each in layers for head in range(site.heads)]
    if json:
        heads = [
            {
                "name": name,
                "copying": None if copying is None else copying[at],
                "qk": pairs(qk[at].eigenvalues[:EIGENVALUES]),
                "ov": pairs(ov[at].eigenvalues[:EIGENVALUES]),
            }
            for at, name in enumerate(names)
        ]
        return {"no_copying": why_not or None, "heads": heads}
    values = [[formula(largest(each, 2), ascii_only()) for each in both] for both in zip(ov, qk, strict=True)]
    scores = [[]] * len(names) if copying is None else [[score] for score in shares(copying)]
    rows = [[name, *score, *both] for name, score, both in zip(names, scores, values, strict=True)]
    columns = [Column("head"), *([Column("copying", "right")] if copying is not None else [])]
    title = "eigenvalues of W_OV" if ascii_only() else "λ of W_OV"
    print(table([*columns, Column(title), Column("of W_QK")], rows))
    print()
    caption = "copying: Σλ/Σ|λ| of W_U W_OV W_E; near 1 an attended token becomes likelier, near −1 less likely"
    print(formula(f"no copying score: {why_not}" if why_not else caption, ascii_only()))
    print(f"--head {names[0]} shows one head, and its composition with earlier heads")
    return {}


def explain_one(model: OpenModel, site: Site, layer: int, head: int, json: bool) -> dict[str, Any]:
    """Print the circuits of one head, or return them for JSON."""
    from txlab.drawing.text import formula
    from txlab.engine.interpret.circuits import circuit, composition
    from txlab.engine.interpret.why import why_copying

    qk, ov = (circuit(model.model, site.name, layer, head, kind, whole=False) for kind in ("qk", "ov"))
    copying, why_not = None, ""
    try:
        copying = circuit(model.model, site.name, layer, head, "ov")
    except LabError as why:
        why_not = reason(why)
    title = f"{'' if site.name == 'self' else site.name + ' '}head {layer + 1}.{head + 1}"
    explanation = None if copying is None else why_copying(copying, "ov", title)
    composed, alone = None, ""
    if site.name == "cross":
        alone = "cross-attention reads another stream than it writes: its heads do not compose with each other"
    elif layer == 0:
        alone = "no heads precede the first layer, so it composes with none"
    else:
        composed = composition(model.model, site.name, layer=layer)
    if json:
        return {
            "head": f"{layer + 1}.{head + 1}",
            "copying": None if copying is None else copying.positive,
            "no_copying": why_not or None,
            "qk": pairs(qk.eigenvalues),
            "ov": pairs(ov.eigenvalues),
            "composition": None if composed is None else composition_json(composed, layer, head),
            "alone": alone or None,
            "explanation": None if explanation is None else explanation.as_json(),
        }
    print(title)
    for name, shown in (("λ of W_OV", ov), ("λ of W_QK", qk)):
        print(formula(f"{name}  {largest(shown, OF_ONE, columns() - 12)}", ascii_only()))
    print()
    if composed is None:
        print(alone)
    else:
        rows = []
        for through in THROUGH:
            most = reads_most(composed, layer, head, through, STRONGEST)
            values = shares([value for _, value in most])
            for at, ((name, value), text) in enumerate(zip(most, values, strict=True)):
                times = f"{value / composed.expected:.1f} times"
                rows.append([through if not at else "", name, text, shares([composed.expected])[0], times])
        heads = [Column("by its"), Column("reads"), Column("score"), Column("by chance"), Column("")]
        print(table(heads, rows))
    print()
    if explanation is None:
        print(formula(f"no copying score: {why_not}", ascii_only()))
    else:
        print_explanation(explanation)
    return {}


def reason(why: LabError) -> str:
    """Return why there is no path from a token to its own logit, without the advice."""
    return str(why).split("; ask for")[0]


def reads_most(composition: Composition, layer: int, head: int, through: str, most: int) -> list[tuple[str, float]]:
    """Return the earlier heads that a head composes with most through its query, key or value: ("1.2", score)."""
    scores = getattr(composition, through)[layer, head, :layer]  # (l, H)
    order = scores.flatten().argsort(descending=True)[:most].tolist()
    H = scores.shape[1]
    return [(f"{at // H + 1}.{at % H + 1}", float(scores[at // H, at % H])) for at in order]


def composition_json(composition: Composition, layer: int, head: int) -> dict[str, Any]:
    """Return the composition with every earlier head, and the baseline of random matrices."""
    tables = {through: getattr(composition, through)[layer, head] for through in THROUGH}
    return {
        "expected": composition.expected,
        "earlier": [
            {"head": f"{first + 1}.{each + 1}"} | {through: float(one[first, each]) for through, one in tables.items()}
            for first in range(layer)
            for each in range(composition.query.shape[1])
        ],
    }


def pairs(values: Tensor) -> list[list[float]]:
    """Return [real, imaginary] of each value."""
    return [[value.real, value.imag] for value in values.tolist()]


def largest(circuit: Circuit, most: int, room: int = 1000) -> str:
    """Format the eigenvalues of largest |λ|, a conjugate pair once; as many as fit."""
    values = [complex_number(value) for value in circuit.eigenvalues.tolist() if value.imag >= 0][:most]
    while len(values) > 1 and len("  ".join(values)) > room:
        values.pop()
    return "  ".join(values)
