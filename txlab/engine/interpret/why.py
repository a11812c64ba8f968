"""Explains a number seen inside a model by the numbers that it was computed from (MATH T1–T9, H5).

Nothing is computed a second way. Each explanation takes the results of the activation cache, the lens, the circuits,
direct effects or interventions, spells out the last steps, and ends in the number in question. The caller names the
tokens: `names` turns an id into a word, `labels` name positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log, sqrt
from operator import truediv

import torch
from torch import Tensor

from txlab.engine.explain import Explanation, Operand, Step, number, substituted
from txlab.engine.interpret.activation_cache import ActivationCache, rollout, rollouts
from txlab.engine.interpret.circuits import Circuit, affine, head_weights, layer_weights, query_key_form
from txlab.engine.interpret.direct import DirectEffects, LogitTerm
from txlab.engine.interpret.effects import Effect, Lens
from txlab.engine.interpret.interventions import Edge, Erratum, Patch, with_edges
from txlab.engine.interpret.sites import Model, attention_at, block_at, head_of, run
from txlab.engine.transformer.blocks import pattern, scores
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.masks import Mask
from txlab.errors import LabError

Names = Callable[[int], str]
SHOWN = 8  # terms spelt out in a sum; the rest is one line


def summed(values: Sequence[float]) -> str:
    """Format a sum: "0.5 + 0.25 − 0.125"."""
    text = " + ".join(number(value) for value in values)
    return text.replace("+ −", "− ") or "0"


def explain_weight(
    q: Tensor, k: Tensor, mask: Mask, i: int, j: int, labels: Sequence[str] = (), rows: Sequence[str] = ()
) -> Explanation:
    """Explain the weight αᵢⱼ of one head: q (T, K), k (S, K), as they enter the product. MATH T1.

    `labels` names the positions, `rows` those of the queries if they are another text's.
    """
    names = list(labels) or [str(position) for position in range(len(k))]
    visible = row_of(mask, len(q), len(k), i, q.device)
    return _explain_row(q[i].float(), k.float(), visible, mask.name, names, i, j, rows or names)


def row_of(mask: Mask, T: int, S: int, i: int, device: torch.device) -> Tensor:
    """Return the positions that position i may attend to: (S) booleans."""
    allowed = mask.allowed(T, S, device)
    return torch.ones(S, dtype=torch.bool, device=device) if allowed is None else allowed[i]


def _explain_row(
    q: Tensor, k: Tensor, visible: Tensor, mask: str, names: Sequence[str], i: int, j: int, rows: Sequence[str]
) -> Explanation:
    """Explain one row of a pattern: q (K), k (S, K), visible (S).

    The numbers come from `scores` and `pattern`, the functions that the model itself uses; the stable softmax in
    between (row maximum, exponentials, sum) is spelt out.
    """
    row = scores(q[None], k)[0]  # (S)
    alpha = pattern(row, visible)  # (S)
    product, root = float(q @ k[j]), sqrt(len(q))
    masked = row.masked_fill(~visible, float("-inf"))
    who = rows[i] if i < len(rows) else str(i)
    operands = [
        Operand(f"q{_sub(i)}", q.tolist(), f"the query of {who!r}"),
        Operand(f"k{_sub(j)}", k[j].tolist(), f"the key of {names[j]!r}"),
        Operand("√dₖ", root, f"dₖ = {len(q)}, the width of the head"),
        Operand("mask", mask, "allowed" if visible[j] else "this position may not be looked at"),
    ]
    terms = " + ".join(f"{_n(a)}·{_n(b)}" for a, b in zip(q[:3].tolist(), k[j, :3].tolist(), strict=True))
    steps = [
        Step("q·k", f"{terms} + …", product),
        Step("sᵢⱼ", substituted("{} / {}", truediv, product, root), float(row[j])),
        Step("sᵢⱼ′", "the score of every position, −∞ where the mask forbids", masked.tolist()),
    ]
    if bool(visible.any()):
        steps += softmax_steps(masked, j)
    else:
        steps.append(Step("αᵢⱼ", "0", 0.0, "this position may look at nothing, so its row is zeros"))
    return Explanation(
        question=f"why does {who!r} look at {names[j]!r} with {float(alpha[j]):.3f}?",
        equation="αᵢⱼ = exp(qᵢ·kⱼ/√dₖ) / Σⱼ′ exp(qᵢ·kⱼ′/√dₖ)",
        math="T1",
        source="Vaswani et al. 2017, eq. 1",
        operands=operands,
        steps=steps,
        labels=names,
        asked=j,
    )


def softmax_steps(scores: Tensor, j: int) -> list[Step]:
    """Spell out the stable softmax of a row (S), and its weight αᵢⱼ; a score may be −∞."""
    largest = float(scores.max())
    exponentials = (scores - largest).exp()
    total = float(exponentials.sum())
    weights = pattern(scores, None)
    return [
        Step("max", "maxⱼ′ sᵢⱼ′", largest, "subtracted first, so that no exponential overflows; it cancels"),
        Step("exp", "exp(sᵢⱼ′ − max)", exponentials.tolist()),
        Step("sum", "Σⱼ′ exp(sᵢⱼ′ − max)", total),
        Step("αᵢⱼ′", "exp / sum", weights.tolist(), "the row of weights; it sums to 1"),
        Step("αᵢⱼ", substituted("{} / {}", truediv, float(exponentials[j]), total), float(weights[j])),
    ]


def _n(value: float, places: int = 2) -> str:
    """Format a number inside an expression, with a minus sign rather than a hyphen."""
    return f"{value:.{places}f}".replace("-", "−")


def _sub(index: int) -> str:
    return str(index).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def why_pattern(
    cache: ActivationCache,
    site: str,
    layer: int,
    head: int,
    row: int,
    column: int,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Explanation:
    """Explain the weight αᵢⱼ of `column` in `row`; `rows` and `columns` name the positions. MATH T1, T2."""
    T, S = cache.size(site)
    if not (0 <= row < T and 0 <= column < S):
        raise LabError(f"{site} attention has rows 0 to {T - 1} and columns 0 to {S - 1}; {row}, {column} is outside")
    result = float(cache.row(site, layer, head, row)[column])
    mask, q, k = cache.sites[site].mask, cache.queries[site][layer, head, row], cache.keys[site][layer, head]
    edges = [
        replace(wish, row=0, head=None)
        for wish in cache.interventions
        if isinstance(wish, Edge) and wish.site == site and wish.layer in (None, layer) and wish.head in (None, head)
        if wish.row == row
    ]
    visible = with_edges(row_of(mask, T, S, row, k.device)[None], edges, 1)[0, 0]  # (S)
    names = list(columns) or [str(j) for j in range(S)]
    name = mask.name + (", changed by hand in this row" if edges else "")
    answer = _explain_row(q.float(), k.float(), visible, name, names, row, column, rows)
    who, whom = rows[row] if rows else str(row), columns[column] if columns else str(column)
    query = replace(answer.operands[0], name="qᵢ", note=f"the query of {who!r}, position {row}")
    key = replace(answer.operands[1], name="kⱼ", note=f"the key of {whom!r}, position {column}")
    steps = list(answer.steps)
    reaching = [wish.says for wish in cache.interventions if isinstance(wish, Patch | Erratum)]
    if reaching and abs(answer.result - result) > 1e-6:
        steps.append(Step("αᵢⱼ", "; ".join(reaching), result, "what interventions made of it"))
    else:
        steps[-1] = replace(steps[-1], result=result)
    return replace(
        answer,
        question=f"why does {who!r} look at {whom!r} with {result:.3f}?",
        operands=[query, key, *answer.operands[2:]],
        steps=steps,
    )


@torch.no_grad()
def with_form(
    answer: Explanation, model: Model, cache: ActivationCache, site: str, layer: int, head: int, row: int, column: int
) -> Explanation:
    """Extend `why_pattern` by the same score as a bilinear form of the stream: xᵢᵀ W_QK yⱼ / √dₖ. MATH T3.

    x is the head's input at `row`, y its input at `column`, of the same stream or, in cross-attention, the encoder's.
    Unchanged if self-attention positions are rotary or relative (a form for each distance), or under interventions.
    """
    found = head_of(model, site, layer, head)
    if cache.interventions or (getattr(model.shape, "positions", "") in ("rotary", "relative") and site != "cross"):
        return answer
    block, module = block_at(model, found, layer), attention_at(model, found, layer)
    place = f"{found.block(layer)}.{'middle' if site == 'cross' else 'enter'}"
    hooks, kept = keeping(place, "memory")
    run(model, cache.text, hooks)
    norm = block.cross_norm if site == "cross" else block.attention_norm
    read = kept[place][0] if block.norm == "post" or norm is None else norm(kept[place][0])  # (T, D)
    other = kept["memory"][0] if site == "cross" else read
    form = query_key_form(head_weights(module, head)).double()  # (D, D), with biases (D + 1, D + 1)
    x, y = (affine(module, each).double() for each in (read[row], other[column]))
    score = float(x @ form @ y) / sqrt(module.head_width)
    said = "xᵢᵀ W_QK xⱼ / √dₖ,  W_QK = W_Qᵀ W_K" if other is read else "xᵢᵀ W_QK yⱼ / √dₖ,  W_QK = W_Qᵀ W_K"
    step = Step("sᵢⱼ", said, score, "the same score as one bilinear form on what the head reads (MATH T3)")
    return replace(answer, steps=[*answer.steps[:2], step, *answer.steps[2:]])


def why_next(cache: ActivationCache, position: int, token: int, names: Names = str, after: str = "") -> Explanation:
    """Explain the probability that a token comes next (for BERT: is here); `after` names the position. MATH F5, T9."""
    where = f"after {after!r}" if after else f"at position {position % len(cache.logits)}"
    answer = _softmax(cache.logits[position], token, names)
    return replace(answer, question=f"why {number(answer.result)} for {names(token)!r} {where}?")


def why_lens(found: Lens, layer: int, rank: int = 0, names: Names = str) -> Explanation:
    """Explain the probability of the rank-th token after `layer` blocks (0 = the embedding). MATH T9."""
    token = int(found.ids[layer, rank])
    answer = _softmax(found.logits[layer], token, names)
    after = "the embedding" if layer == 0 else f"layer {layer}"
    away = Operand("KL", float(found.kl[layer]), "nats from what the last layer says")
    return replace(
        answer,
        question=f"why would {after} say {names(token)!r} with {number(answer.result)}?",
        equation="p(x) = exp(zₓ) / Σᵥ exp(zᵥ),  z = W_U LN(x_l)",
        source="nostalgebraist 2020, the logit lens",
        operands=[*answer.operands, away],
    )


def _softmax(logits: Tensor, token: int, names: Names) -> Explanation:
    """Explain p of one token from a row of logits (V), in float64."""
    if not 0 <= token < len(logits):
        raise LabError(f"there is no token {token}; allowed: 0 to {len(logits) - 1}")
    z = logits.double()
    largest = z.topk(min(SHOWN, len(z)))
    shown = largest.indices.tolist()
    if token not in shown:
        shown[-1] = token
    top, own = float(largest.values[0]), float(z[token])
    total = float((z - top).exp().sum())
    p = float(z.softmax(-1)[token])
    return Explanation(
        question="",
        equation="p(x) = exp(zₓ) / Σᵥ exp(zᵥ)",
        math="F5, T9",
        source="Becker-Kahn §4",
        operands=[
            Operand("z", z[shown].tolist(), f"the logits of the likeliest tokens, of {len(z)}"),
            Operand("zₓ", own, f"the logit of {names(token)!r}"),
        ],
        steps=[
            Step("max", "maxᵥ zᵥ", top, f"that of {names(int(largest.indices[0]))!r}; subtracted first, it cancels"),
            Step("exp", f"exp({number(own)} − {number(top)})".replace("− −", "+ "), float((z[token] - top).exp())),
            Step("sum", "Σᵥ exp(zᵥ − max)", total, "over the whole vocabulary"),
            Step("rank", "tokens with a larger logit, and one", int((z > own).sum()) + 1),
            Step("−ln p", f"−ln {number(p)}", -log(p) if p > 0 else float("inf"), "nats: the loss, if it is right"),
            Step("p", f"{number(float((z[token] - top).exp()))} / {number(total)}", p),
        ],
        labels=[names(one) for one in shown],
        asked=shown.index(token),
    )


def why_kl(found: Effect, names: Names = str) -> Explanation:
    """Explain by how many nats an intervention changed the next-token distribution. MATH H5."""
    p, q = found.before, found.after
    terms = torch.where(p > 0, p * (p.log() - q.log()), 0.0)  # (V)
    shown = terms.abs().topk(min(SHOWN, len(terms))).indices.tolist()
    largest = terms[shown].tolist()
    return Explanation(
        question=f"why a KL of {number(found.kl)} nats?",
        equation="KL(p ‖ q) = Σᵥ pᵥ ln(pᵥ / qᵥ)",
        math="H5",
        source="Kullback & Leibler 1951, eq. 2.4",
        operands=[
            Operand("p", p[shown].tolist(), "untouched: the tokens with the largest terms"),
            Operand("q", q[shown].tolist(), "with the interventions"),
        ],
        steps=[
            *(
                Step(
                    f"of {names(token)!r}",
                    f"{number(float(p[token]))} · ln({number(float(p[token]))} / {number(float(q[token]))})",
                    term,
                )
                for token, term in zip(shown, largest, strict=True)
            ),
            Step("the others", f"Σ over {len(terms) - len(shown)} more tokens", found.kl - sum(largest)),
            Step("KL", f"{summed(largest)} + the others", found.kl, "nats; 0 = nothing moved"),
        ],
        labels=[names(token) for token in shown],
    )


def why_direct(found: DirectEffects, part: LogitTerm, names: Names = str) -> Explanation:
    """Explain how much a head, feed-forward or bias adds to a logit by itself. MATH T5, T6."""
    what = f"the logit of {names(found.token)!r}"
    if found.against is not None:
        what += f" less that of {names(found.against)!r}"
    operands = [Operand("z", found.logit, f"{what}, the sum of {len(found.parts)} parts")]
    operands += [Operand("σ", list(found.scales), "of the norms on the way, held as they are")] * bool(found.scales)
    steps = [
        Step("Σ", summed([one.value for one in found.largest(SHOWN)]) + " + …", sum(p.value for p in found.parts)),
        Step(
            "share", f"{number(part.value)} / {number(found.logit)}", part.value / found.logit if found.logit else 0.0
        ),
    ]
    if part.reads is not None and part.given is not None:
        letter = "W_Oᵀ w" if part.kind == "head" else "w"
        whose = "α V of this head" if part.kind == "head" else f"what the {part.name} adds to the stream"
        operands += [
            Operand("w", part.reads.tolist(), f"{letter}: what the logit reads it with, Γ C u / σ"),
            Operand("c", part.given.tolist(), whose),
        ]
        products = (part.reads * part.given).tolist()
        steps.append(Step("w · c", summed(products[:3]) + " + …", part.value, f"over {len(products)} features"))
    else:
        steps.append(Step(part.name, "what is left of the logit after all other parts", part.value))
    return Explanation(
        question=f"why does {part.name} add {number(part.value)} to {what}?",
        equation="z = Σ_c w · c,  w = Γ C u / σ",
        math="T5, T6",
        source="Elhage et al. 2021",
        operands=operands,
        steps=steps,
        labels=[one.name for one in found.parts],
        asked=next((place for place, one in enumerate(found.parts) if one is part), None),
    )


def why_rollout(cache: ActivationCache, site: str, row: int, column: int, labels: Sequence[str] = ()) -> Explanation:
    """Explain the share of token `column` in position `row`, rolled out through all layers. MATH T1, T4."""
    T, S = cache.size(site)
    if not (0 <= row < T and 0 <= column < S):
        raise LabError(f"{site} rollout has rows 0 to {T - 1} and columns 0 to {S - 1}; {row}, {column} is outside")
    layers = cache.sites[site].layers
    path, before = [], torch.empty(0)
    for reached in rollouts(cache, site):
        path.append(float(reached[row, column]))
        if len(path) == layers:
            before = reached  # (T, S), one layer before the end
    result = path[-1]
    looks = "decoder" if site == "cross" else site
    average = cache.average(looks, layers - 1, slice(row, row + 1))[0]  # (T)
    through = average * before[:, column]
    looked, kept = float(through.sum()), float(before[row, column])
    steps = [Step(f"R_{layer}", f"R[{row}, {column}] after {layer} layers", path[layer]) for layer in range(layers)]
    steps += [
        Step("Σₖ Aᵢₖ Rₖⱼ", summed(through.topk(min(3, len(through))).values.tolist()) + " + …", looked, "by looking"),
        Step("Rᵢⱼ", f"what it held after {layers - 1} layers", kept, "by the residual stream"),
    ]
    if site in ("self", "encoder"):
        steps.append(Step("R", f"½ · {number(looked)} + ½ · {number(kept)}", result))
        equation = "R_l = (½ A_l + ½ I) R_{l−1}"
    else:
        equation = "R ← ½ (½ A + ½ I) R" + (" + ½ C E" if site == "cross" else "")
        line = f"¼ · {number(looked)} + ¼ · {number(kept)}"
        if site == "cross":
            across = cache.average("cross", layers - 1, slice(row, row + 1))[0]  # (S)
            read = across * rollout(cache, "encoder")[:, column]
            largest = summed(read.topk(min(3, len(read))).values.tolist())
            steps.append(Step("Σₖ Cᵢₖ Eₖⱼ", f"{largest} + …", float(read.sum()), "across, E rolled out in the encoder"))
            line += f" + ½ · {number(float(read.sum()))}"
        steps.append(Step("R", line, result))
    names = list(labels) or [str(place) for place in range(S)]
    return Explanation(
        question=f"why does position {row} hold {number(result)} of {names[column]!r}?",
        equation=equation,
        math="T1, T4",
        source="Abnar & Zuidema 2020, §3",
        operands=[
            Operand("Aᵢ", average.tolist(), "the last layer's row, averaged over its heads"),
            Operand("Rⱼ", before[:, column].tolist(), "what each position held of this token one layer before"),
        ],
        steps=steps,
        labels=names,
        asked=column,
    )


SCORES = {
    "previous": ("mean over i ≥ 1 of αᵢ,ᵢ₋₁", "the attention of each position to the one before it"),
    "induction": ("mean over i that have such a j of Σⱼ αᵢⱼ, tokenⱼ₋₁ = tokenᵢ, j < i", "to what followed it there"),
    "duplicate": ("mean over i whose token came before of Σⱼ αᵢⱼ, tokenⱼ = tokenᵢ, j < i", "to where it came before"),
    "first": ("mean over i ≥ 1 of αᵢ₀", "the attention of each position to the first"),
}


def why_score(
    cache: ActivationCache, site: str, layer: int, head: int, score: str, labels: Sequence[str] = ()
) -> Explanation:
    """Explain a head's previous-token, induction, duplicate-token or first-token score. Olsson et al. 2022."""
    counted = cache.counted(site, layer, head)
    if score not in counted:
        raise LabError(f"{site} attention has no score {score!r}; allowed: {', '.join(counted)}")
    rows, looked = counted[score][0], counted[score][1][0]  # (n) each
    result = float(cache.scores_of_layer(site, layer)[score][head])
    equation, what = SCORES[score]
    names, whose = list(labels), "head" if site == "self" else f"{site} head"
    return Explanation(
        question=f"why has {whose} {layer + 1}.{head + 1} a {score} score of {number(result)}?",
        equation=f"score = {equation}",
        math="T1",
        source="Olsson et al. 2022, In-context Learning and Induction Heads",
        operands=[
            Operand("i", rows.tolist(), "the positions that count"),
            Operand("αᵢ", looked.tolist(), what),
        ],
        steps=[
            Step("Σ", summed(looked[:3].tolist()) + " + …", float(looked.sum())),
            Step("n", "positions that count", len(rows)),
            Step("score", f"{number(float(looked.sum()))} / {len(rows)}", result, "1 = always, 0 = never"),
        ],
        labels=[names[row] if names else str(row) for row in rows.tolist()],
    )


def why_copying(found: Circuit, kind: str, head: str) -> Explanation:
    """Explain Σλ/Σ|λ| of a head's circuit. MATH T3."""
    values = found.eigenvalues
    total, size = float(values.real.sum()), float(values.abs().sum())
    what = "copying" if kind == "ov" else "matching"
    path = "of this head alone: what earlier layers write into its input is another path"
    return Explanation(
        question=f"why has {head} a {what} score of {number(found.positive)}?",
        equation="Σλ / Σ|λ|",
        math="T3",
        source="Elhage et al. 2021",
        operands=[
            Operand("Re λ", values.real.tolist(), "the eigenvalues that are not zero; imaginary parts cancel in pairs"),
            Operand("Im λ", values.imag.tolist()),
        ],
        steps=[
            Step("Σλ", summed(values.real[:3].tolist()) + " + …", total),
            Step("Σ|λ|", summed(values.abs()[:3].tolist()) + " + …", size),
            Step(
                "score",
                f"{number(total)} / {number(size)}",
                found.positive,
                f"1 = all positive, −1 = all negative; {path}",
            ),
        ],
    )


FORMS = {"query": "W_QKᵀ", "key": "W_QK", "value": "W_OV"}  # of the later head, before the earlier one's W_OV


@torch.no_grad()
def why_composition(
    model: Model, site: str, later: tuple[int, int], earlier: tuple[int, int], through: str
) -> Explanation:
    """Explain the query, key or value composition of head `later` (layer, head) with `earlier`. Elhage et al. 2021."""
    if through not in FORMS or earlier[0] >= later[0] or site == "cross":
        raise LabError("a head composes, by query, key or value, with a head of an earlier layer of the same stream")
    found = head_of(model, site, *later)
    head_of(model, site, *earlier)
    weights, before = layer_weights(model, found, later[0]), layer_weights(model, found, earlier[0])
    q, k, v, o = (one[later[1]] for one in (weights.q, weights.k, weights.v, weights.o))
    form = {"query": k.T @ q, "key": q.T @ k, "value": o @ v}[through]  # (D, D); √dₖ cancels
    writes = before.o[earlier[1]] @ before.v[earlier[1]]  # W_OV of the earlier head (D, D)
    size, left, right = (float(torch.linalg.matrix_norm(one)) for one in (form @ writes, form, writes))
    D, product = len(form), left * right
    score = size / product if product else float("nan")
    name = FORMS[through]
    first, second = (f"{layer + 1}.{head + 1}" for layer, head in (earlier, later))
    return Explanation(
        question=f"why does head {second} read head {first} by its {through} with {number(score)}?",
        equation=f"‖{name}⁽²⁾ W_OV⁽¹⁾‖ / (‖{name}⁽²⁾‖ ‖W_OV⁽¹⁾‖)",
        math="T3, T4",
        source="Elhage et al. 2021, Composition",
        operands=[
            Operand(f"‖{name}⁽²⁾‖", left, f"Frobenius, of head {second}, without 1/√dₖ, which cancels"),
            Operand("‖W_OV⁽¹⁾‖", right, f"of head {first}: what it writes, given what it looks at"),
            Operand("‖product‖", size, "what is left when one is read by the other"),
        ],
        steps=[
            Step("by chance", f"1 / √{D}", 1 / sqrt(D), "the same ratio of random matrices"),
            Step(
                "score", f"{number(size)} / ({number(left)} · {number(right)})", score, "1 = reads all that is written"
            ),
        ],
    )
