"""Explains a weight of additive attention by the decoder's state and the memory (MATH R4)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from txlab.engine.explain import Explaining, Explanation, bracket, number
from txlab.engine.interpret.why import softmax_steps
from txlab.engine.recurrent.translation import additive_scores
from txlab.engine.transformer.blocks import pattern


def explain_additive(
    q: Tensor, k: Tensor, v: Tensor, i: int, j: int, rows: Sequence[str], columns: Sequence[str]
) -> Explanation:
    """Explain αᵢⱼ: q (T, H), k (S, H), v (H). MATH R4. `rows` name the target's tokens, `columns` the source's."""
    row = additive_scores(q[None], k[None], v)[0, i]  # (S)
    fits = (q[i] + k[j]).tanh()
    weight = float(pattern(row, None)[j])
    terms = [f"{number(a, 3)} · {bracket(b, 3)}" for a, b in zip(v[:3].tolist(), fits[:3].tolist(), strict=True)]
    why = Explaining(f"why does {rows[i]!r} look at {columns[j]!r} with {weight:.3f}?", weight, list(columns), j)
    why.equation("αᵢⱼ = exp(sᵢⱼ) / Σⱼ′ exp(sᵢⱼ′),  sᵢⱼ = vᵀ tanh(qᵢ + kⱼ)", "R4", "Bahdanau et al. 2015, §A.1.2")
    why.input("qᵢ", q[i].tolist(), f"W sᵢ, from the decoder's state behind {rows[i]!r}")
    why.input("kⱼ", k[j].tolist(), f"U mⱼ, from the encoder's states at {columns[j]!r}")
    why.input("v", v.tolist(), "the weight of each unit")
    why.step("tⱼ", "tanh(qᵢ + kⱼ)", fits.tolist(), "a number for each unit")
    why.step("sᵢⱼ", f"v · tⱼ = {' + '.join(terms).replace('+ −', '− ')} + …", float(row[j]))
    why.step("sᵢⱼ′", "the score of every place", row.tolist())
    why.steps += softmax_steps(row, j)
    return why.result()
