"""Why a head is said to read what an earlier one wrote: the ratio of norms behind a composition score (MATH T3, T4)."""

from __future__ import annotations

from math import sqrt

import torch

from txlab.engine.explain import Explanation, Operand, Step
from txlab.engine.interpret.circuits import layer_weights
from txlab.engine.interpret.sites import Model, head_of
from txlab.engine.interpret.why import said
from txlab.errors import LabError

FORMS = {"query": "W_QKᵀ", "key": "W_QK", "value": "W_OV"}  # of the later head, before the earlier one's W_OV


@torch.no_grad()
def why_composition(
    model: Model, site: str, later: tuple[int, int], earlier: tuple[int, int], through: str
) -> Explanation:
    """Why head `later` (layer, head) has this query, key or value composition with `earlier`. Elhage et al. 2021."""
    if through not in FORMS or earlier[0] >= later[0] or site == "cross":
        raise LabError("a head composes, by query, key or value, with a head of an earlier layer of the same stream")
    found = head_of(model, site, *later)
    head_of(model, site, *earlier)
    weights, before = layer_weights(model, found, later[0]), layer_weights(model, found, earlier[0])
    q, k, v, o = (one[later[1]] for one in (weights.q, weights.k, weights.v, weights.o))
    form = {"query": k.T @ q, "key": q.T @ k, "value": o @ v}[through]  # (D, D); √K cancels
    writes = before.o[earlier[1]] @ before.v[earlier[1]]  # W_OV of the earlier head (D, D)
    size, left, right = (float(torch.linalg.matrix_norm(one)) for one in (form @ writes, form, writes))
    D, product = len(form), left * right
    score = size / product if product else float("nan")
    name = FORMS[through]
    first, second = (f"{layer + 1}.{head + 1}" for layer, head in (earlier, later))
    return Explanation(
        question=f"why does head {second} read head {first} by its {through} with {said(score)}?",
        equation=f"‖{name}⁽²⁾ W_OV⁽¹⁾‖ / (‖{name}⁽²⁾‖ ‖W_OV⁽¹⁾‖)",
        math="T3, T4",
        source="Elhage et al. 2021, Composition",
        operands=[
            Operand(f"‖{name}⁽²⁾‖", left, f"Frobenius, of head {second}, without 1/√K, which cancels"),
            Operand("‖W_OV⁽¹⁾‖", right, f"of head {first}: what it writes, given what it looks at"),
            Operand("‖product‖", size, "what is left when one is read by the other"),
        ],
        steps=[
            Step("by chance", f"1 / √{D}", 1 / sqrt(D), "the same ratio of random matrices"),
            Step("score", f"{said(size)} / ({said(left)} · {said(right)})", score, "1 = reads all that is written"),
        ],
        result=score,
    )
