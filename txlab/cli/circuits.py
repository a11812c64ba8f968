"""`txlab explain MODEL --circuits`: what the weights of each head do, without any text (MATH T3, T4).

Notable: the copying score goes through the vocabulary, from the token that is looked at to its own logit. Where no such
way leads (BERT's head, an encoder, cross-attention between two vocabularies) one sentence says so, and the eigenvalues
within the stream are there all the same. Eigenvalues come in conjugate pairs; a pair is written once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from txlab.errors import LabError

if TYPE_CHECKING:
    from torch import Tensor

    from txlab.engine.interpret.circuits import Circuit, Composition
    from txlab.engine.interpret.sites import Site
    from txlab.runs.models import OpenModel

EIGENVALUES = 3  # a line of the table
OF_ONE = 8  # of one head
STRONGEST = 5  # heads that one composes with, for each of query, key and value
THROUGH = ("query", "key", "value")


def explain_circuits(name: str, site: str | None, layer: int | None, head: int | None, json: bool) -> None:
    """The table of all heads (of one layer, with `layer`), or one head with what composes with it."""
    from txlab.cli.models import opened
    from txlab.engine.interpret.sites import head_of, site_named

    model = opened(name)
    looked = site_named(model.model, site or ("decoder" if model.kind == "encoder-decoder" else "self"))
    if layer is not None:
        head_of(model.model, looked.name, layer, head)
    if layer is None or head is None:
        explain_all(model, looked, layer, json)
    else:
        explain_one(model, looked, layer, head, json)


def reason(why: LabError) -> str:
    """Why no way leads from a token to its own logit, without the advice."""
    return str(why).split("; ask for")[0]


def told(layers: Iterable[list[Circuit]], what: str, many: int) -> Iterator[list[Circuit]]:
    """The same, with the layer that is at work on stderr where a person waits."""
    waits = sys.stderr.isatty()
    for at, made in enumerate(layers, 1):
        if waits:
            print(f"\r{what}, layer {at} of {many}\x1b[K", end="", file=sys.stderr, flush=True)
        yield made
    if waits:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def explain_all(model: OpenModel, site: Site, layer: int | None, json: bool) -> None:
    from txlab.cli.models import about, print_json, print_model, shares
    from txlab.cli.terminal import Column, ascii_only, table
    from txlab.drawing.text import formula
    from txlab.engine.interpret.circuits import circuits

    many = site.layers

    def of(kind: str, whole: bool, what: str) -> list[Circuit]:
        found = told(circuits(model.model, site.name, kind, whole=whole), what, many)
        return [each for at, heads in enumerate(found) for each in heads if layer in (None, at)]

    copying, why_not = None, ""
    try:
        copying = [each.positive for each in of("ov", True, "copying scores")]
    except LabError as why:
        why_not = reason(why)
    qk, ov = of("qk", False, "W_QK"), of("ov", False, "W_OV")
    layers = range(many) if layer is None else (layer,)
    names = [f"{each + 1}.{head + 1}" for each in layers for head in range(site.heads)]
    if json:
        heads = [
            {
                "name": names[at],
                "copying": None if copying is None else copying[at],
                "qk": pairs(qk[at].eigenvalues[:EIGENVALUES]),
                "ov": pairs(ov[at].eigenvalues[:EIGENVALUES]),
            }
            for at in range(len(names))
        ]
        print_json({"model": about(model), "site": site.name, "no_copying": why_not or None, "heads": heads})
        return
    scores = [""] * len(names) if copying is None else shares(copying)
    rows = [
        [
            name,
            *([score] if copying is not None else []),
            *(formula(largest(each, 2), ascii_only()) for each in (one, two)),
        ]
        for name, score, one, two in zip(names, scores, ov, qk, strict=True)
    ]
    columns = [Column("head"), *([Column("copying", "right")] if copying is not None else [])]
    print(
        table([*columns, Column("λ of W_OV" if not ascii_only() else "eigenvalues of W_OV"), Column("of W_QK")], rows)
    )
    print()
    if why_not:
        print(formula(f"no copying score: {why_not}", ascii_only()))
    else:
        said = "copying: Σλ/Σ|λ| of W_U W_OV W_E; near 1 a token looked at becomes likelier, near −1 less likely"
        print(formula(said, ascii_only()))
    print(f"--head {names[0]} shows one head, and what it reads of earlier heads")
    print_model(model)


def explain_one(model: OpenModel, site: Site, layer: int, head: int, json: bool) -> None:
    from txlab.cli.explain import explanation_json, print_explanation
    from txlab.cli.models import about, print_json, print_model, shares
    from txlab.cli.terminal import Column, ascii_only, columns, table
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
        alone = "no head comes before the first layer, so it reads none"
    else:
        composed = composition(model.model, site.name, layer=layer)
    if json:
        print_json(
            {
                "model": about(model),
                "site": site.name,
                "head": f"{layer + 1}.{head + 1}",
                "copying": None if copying is None else copying.positive,
                "no_copying": why_not or None,
                "qk": pairs(qk.eigenvalues),
                "ov": pairs(ov.eigenvalues),
                "composition": None if composed is None else composition_json(composed, layer, head),
                "alone": alone or None,
                "explanation": None if explanation is None else explanation_json(explanation),
            }
        )
        return
    print(title)
    for name, found in (("λ of W_OV", ov), ("λ of W_QK", qk)):
        print(formula(f"{name}  {largest(found, OF_ONE, columns() - 12)}", ascii_only()))
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
    print_model(model)


def reads_most(found: Composition, layer: int, head: int, through: str, most: int) -> list[tuple[str, float]]:
    """The earlier heads that a head reads most by its query, key or value: ("1.2", score)."""
    scores = getattr(found, through)[layer, head, :layer]  # (l, H)
    order = scores.flatten().argsort(descending=True)[:most].tolist()
    H = scores.shape[1]
    return [(f"{at // H + 1}.{at % H + 1}", float(scores[at // H, at % H])) for at in order]


def composition_json(found: Composition, layer: int, head: int) -> dict[str, Any]:
    """With every earlier head, and what random matrices would have."""
    H = found.query.shape[1]
    tables = [getattr(found, through)[layer, head] for through in THROUGH]
    return {
        "expected": found.expected,
        "earlier": [
            {"head": f"{first + 1}.{each + 1}"}
            | {through: float(one[first, each]) for through, one in zip(THROUGH, tables, strict=True)}
            for first in range(layer)
            for each in range(H)
        ],
    }


def pairs(values: Tensor) -> list[list[float]]:
    """[real, imaginary] of each."""
    return [[value.real, value.imag] for value in values.tolist()]


def largest(found: Circuit, most: int, room: int = 1000) -> str:
    """The eigenvalues of largest |λ|, a conjugate pair once; as many as there is room for."""
    from txlab.drawing.formatting import complex_number

    values = [complex_number(value) for value in found.eigenvalues.tolist() if value.imag >= 0][:most]
    while len(values) > 1 and len("  ".join(values)) > room:
        values.pop()
    return "  ".join(values)
