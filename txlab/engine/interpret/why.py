"""Explains a number seen inside a model by the numbers that it was computed from (MATH T1–T9, H5).

Nothing is computed a second way. Each explanation takes the results of the activation cache, the lens, the circuits,
direct effects or interventions, spells out the last steps, and ends in the number in question. The caller names the
tokens: `names` turns an id into a word, `labels` name positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp, log, sqrt
from operator import truediv

import torch
from torch import Tensor

from txlab.engine.explain import HALF, Explaining, Explanation, Step, bracket, compute_step, number
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


def format_sum(values: Sequence[float]) -> str:
    """Format a sum: "0.5 + 0.25 − 0.125"."""
    text = " + ".join(number(value) for value in values)
    return text.replace("+ −", "− ") or "0"


def explain_weight(
    q: Tensor,
    k: Tensor,
    mask: Mask,
    i: int,
    j: int,
    labels: Sequence[str] = (),
    rows: Sequence[str] = (),
    recorded: float | None = None,
) -> Explanation:
    """Explain the weight αᵢⱼ of one head: q (T, K), k (S, K), as they enter the product. MATH T1.

    `labels` names the positions, `rows` those of the queries if they are another text's. `recorded` is the weight as a
    frame holds it, in half precision like its q and k; None = it is computed here.
    """
    names = list(labels) or [str(position) for position in range(len(k))]
    visible = row_of(mask, len(q), len(k), i, q.device)
    why = _explain_row(q[i].float(), k.float(), visible, mask.name, names, i, j, rows or names)
    if recorded is None:
        return why.result()
    why.value = recorded
    score = float(scores(q[i : i + 1].float(), k.float())[0, j])
    return why.result(HALF * (1 + abs(score)))  # exp makes an error of the score one of the weight


def row_of(mask: Mask, T: int, S: int, i: int, device: torch.device) -> Tensor:
    """Return the positions that position i may attend to: (S) booleans."""
    allowed = mask.allowed_pairs(T, S, device)
    return torch.ones(S, dtype=torch.bool, device=device) if allowed is None else allowed[i]


def _explain_row(
    q: Tensor, k: Tensor, visible: Tensor, mask: str, names: Sequence[str], i: int, j: int, rows: Sequence[str]
) -> Explaining:
    """Explain one row of a pattern: q (K), k (S, K), visible (S).

    The numbers come from `scores` and `pattern`, the functions that the model itself uses; the stable softmax in
    between (row maximum, exponentials, sum) is spelt out.
    """
    row = scores(q[None], k)[0]  # (S)
    alpha = pattern(row, visible)  # (S)
    product, root = float(q @ k[j]), sqrt(len(q))
    masked = row.masked_fill(~visible, float("-inf"))
    who = rows[i] if i < len(rows) else str(i)
    weight = float(alpha[j])
    why = Explaining(f"why does {who!r} look at {names[j]!r} with {weight:.3f}?", weight, names, j)
    why.equation("αᵢⱼ = exp(qᵢ·kⱼ/√dₖ) / Σⱼ′ exp(qᵢ·kⱼ′/√dₖ)", "T1", "Vaswani et al. 2017, eq. 1")
    why.input("qᵢ", q.tolist(), f"the query of {who!r}, position {i}")
    why.input("kⱼ", k[j].tolist(), f"the key of {names[j]!r}, position {j}")
    why.input("√dₖ", root, f"dₖ = {len(q)}, the width of the head")
    why.input("mask", mask, "allowed" if visible[j] else "this position may not be looked at")
    terms = " + ".join(
        f"{number(a, 2)}·{bracket(b, 2)}" for a, b in zip(q[:3].tolist(), k[j, :3].tolist(), strict=True)
    )
    why.step("q·k", f"{terms} + …".replace("+ −", "− "), product)
    why.compute("sᵢⱼ", "{} / {}", truediv, product, root)
    why.step("sᵢⱼ′", "the score of every position, −∞ where the mask forbids", masked.tolist())
    if bool(visible.any()):
        why.steps += softmax_steps(masked, j)
    else:
        why.step("αᵢⱼ", "0", 0.0, "this position may look at nothing, so its row is zeros")
    return why


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
        compute_step("αᵢⱼ", "{} / {}", truediv, float(exponentials[j]), total),
    ]


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
    why = _explain_row(q.float(), k.float(), visible, name, names, row, column, rows)
    who, whom = rows[row] if rows else str(row), names[column]
    why.question, why.value = f"why does {who!r} look at {whom!r} with {result:.3f}?", result
    reaching = [wish.says for wish in cache.interventions if isinstance(wish, Patch | Erratum)]
    return why.result(because="; ".join(reaching))


@torch.no_grad()
def with_form(
    answer: Explanation, model: Model, cache: ActivationCache, site: str, layer: int, head: int, row: int, column: int
) -> Explanation:
    """Extend `why_pattern` by the same score as a bilinear form of the stream: xᵢᵀ W_QK yⱼ / √dₖ. MATH T3.

    x is the head's input at `row`, y its input at `column`, of the same stream or, in cross-attention, the encoder's.
    Unchanged if self-attention positions are rotary or relative (a form for each distance), or under interventions.
    """
    attention = head_of(model, site, layer, head)
    if cache.interventions or (getattr(model.shape, "positions", "") in ("rotary", "relative") and site != "cross"):
        return answer
    block, module = block_at(model, attention, layer), attention_at(model, attention, layer)
    place = f"{attention.block(layer)}.{'resid_mid' if site == 'cross' else 'resid_pre'}"
    hooks, kept = keeping(place, "memory")
    run(model, cache.text, hooks)
    norm = block.cross_norm if site == "cross" else block.attention_norm
    read = kept[place][0] if block.norm == "post" or norm is None else norm(kept[place][0])  # (T, D)
    other = kept["memory"][0] if site == "cross" else read
    form = query_key_form(head_weights(module, head)).double()  # (D, D), with biases (D + 1, D + 1)
    x, y = (affine(module, each).double() for each in (read[row], other[column]))
    score = float(x @ form @ y) / sqrt(module.head_width)
    bilinear = "xᵢᵀ W_QK xⱼ / √dₖ,  W_QK = W_Qᵀ W_K" if other is read else "xᵢᵀ W_QK yⱼ / √dₖ,  W_QK = W_Qᵀ W_K"
    step = Step("sᵢⱼ", bilinear, score, "the same score as one bilinear form on what the head reads (MATH T3)")
    return replace(answer, steps=[*answer.steps[:2], step, *answer.steps[2:]])


def why_next(cache: ActivationCache, position: int, token: int, names: Names = str, after: str = "") -> Explanation:
    """Explain the probability that a token comes next (for BERT: is here); `after` names the position. MATH F5, T9."""
    where = f"after {after!r}" if after else f"at position {position % len(cache.logits)}"
    why = _softmax(cache.logits[position], token, names)
    why.question = f"why {number(why.value)} for {names(token)!r} {where}?"
    return why.result()


def why_lens(lens: Lens, layer: int, rank: int = 0, names: Names = str) -> Explanation:
    """Explain the probability of the rank-th token after `layer` blocks (0 = the embedding). MATH T9."""
    token = int(lens.ids[layer, rank])
    why = _softmax(lens.logits[layer], token, names)
    after = "the embedding" if layer == 0 else f"layer {layer}"
    why.question = f"why would {after} say {names(token)!r} with {number(why.value)}?"
    equation = "p(x) = exp(zₓ) / Σᵥ exp(zᵥ),  z = W_U LN(x_l)"
    why.equation(equation, "F5, T9", "nostalgebraist 2020, the logit lens")
    why.input("KL", float(lens.kl[layer]), "nats from what the last layer says")
    return why.result()


def _softmax(logits: Tensor, token: int, names: Names) -> Explaining:
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
    why = Explaining("", p, [names(one) for one in shown], shown.index(token))
    why.equation("p(x) = exp(zₓ) / Σᵥ exp(zᵥ)", "F5, T9", "Becker-Kahn §4")
    why.input("z", z[shown].tolist(), f"the logits of the likeliest tokens, of {len(z)}")
    why.input("zₓ", own, f"the logit of {names(token)!r}")
    why.step("max", "maxᵥ zᵥ", top, f"that of {names(int(largest.indices[0]))!r}; subtracted first, it cancels")
    why.compute("exp", "exp({} − {})", lambda own, top: exp(own - top), own, top)
    why.step("sum", "Σᵥ exp(zᵥ − max)", total, "over the whole vocabulary")
    why.step("rank", "tokens with a larger logit, and one", int((z > own).sum()) + 1)
    why.step("−ln p", f"−ln {number(p)}", -log(p) if p > 0 else float("inf"), "nats: the loss, if it is right")
    why.compute("p", "{} / {}", truediv, exp(own - top), total)
    return why


def why_kl(effect: Effect, names: Names = str) -> Explanation:
    """Explain by how many nats an intervention changed the next-token distribution. MATH H5."""
    p, q = effect.before, effect.after
    terms = torch.where(p > 0, p * (p.log() - q.log()), 0.0)  # (V)
    shown = terms.abs().topk(min(SHOWN, len(terms))).indices.tolist()
    largest = terms[shown].tolist()
    why = Explaining(f"why a KL of {number(effect.kl)} nats?", effect.kl, [names(token) for token in shown])
    why.equation("KL(p ‖ q) = Σᵥ pᵥ ln(pᵥ / qᵥ)", "H5", "Kullback & Leibler 1951, eq. 2.4")
    why.input("p", p[shown].tolist(), "untouched: the tokens with the largest terms")
    why.input("q", q[shown].tolist(), "with the interventions")
    for token, term in zip(shown, largest, strict=True):
        p_v, q_v = number(float(p[token])), number(float(q[token]))
        why.step(f"of {names(token)!r}", f"{p_v} · ln({p_v} / {q_v})", term)
    others = float(terms.sum()) - sum(largest)
    why.step("the others", f"Σ over {len(terms) - len(shown)} more tokens", others)
    why.step("KL", f"{format_sum(largest)} + the others", sum(largest) + others, "nats; 0 = nothing moved")
    return why.result(scale=float(terms.abs().sum()))


def why_direct(effects: DirectEffects, part: LogitTerm, names: Names = str) -> Explanation:
    """Explain how much a head, feed-forward or bias adds to a logit directly. MATH T5, T6."""
    what = f"the logit of {names(effects.token)!r}"
    if effects.against is not None:
        what += f" less that of {names(effects.against)!r}"
    place = next((place for place, one in enumerate(effects.parts) if one is part), None)
    question = f"why does {part.name} add {number(part.value)} to {what}?"
    why = Explaining(question, part.value, [one.name for one in effects.parts], place)
    why.equation("z = Σ_c w · c,  w = Γ C u / σ", "T5, T6", "Elhage et al. 2021")
    why.input("z", effects.logit, f"{what}, the sum of {len(effects.parts)} parts")
    if effects.scales:
        why.input("σ", list(effects.scales), "of the norms on the way, held as they are")
    values = [one.value for one in effects.parts]
    why.step("Σ", format_sum([one.value for one in effects.largest(SHOWN)]) + " + …", sum(values))
    if effects.logit:
        why.compute("share", "{} / {}", truediv, part.value, effects.logit)
    if part.reads is None or part.given is None:
        left = effects.logit - (sum(values) - part.value)
        why.step(part.name, "the rest of the logit, after all other parts", left)
        return why.result(scale=sum(map(abs, values)))
    letter = "W_Oᵀ w" if part.kind == "head" else "w"
    whose = "α V of this head" if part.kind == "head" else f"what the {part.name} adds to the stream"
    why.input("w", part.reads.tolist(), f"{letter}: what the logit reads it with, Γ C u / σ")
    why.input("c", part.given.tolist(), whose)
    products = (part.reads * part.given).tolist()
    why.step("w · c", format_sum(products[:3]) + " + …", sum(products), f"over {len(products)} features")
    return why.result(scale=sum(map(abs, products)))


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
    names = list(labels) or [str(place) for place in range(S)]
    why = Explaining(f"why does position {row} hold {number(result)} of {names[column]!r}?", result, names, column)
    why.input("Aᵢ", average.tolist(), "the last layer's row, averaged over its heads")
    why.input("Rⱼ", before[:, column].tolist(), "what each position held of this token one layer before")
    for layer in range(layers):
        why.step(f"R_{layer}", f"R[{row}, {column}] after {layer} layers", path[layer])
    largest = format_sum(through.topk(min(3, len(through))).values.tolist())
    why.step("Σₖ Aᵢₖ Rₖⱼ", f"{largest} + …", looked, "by looking")
    why.step("Rᵢⱼ", f"what it held after {layers - 1} layers", kept, "by the residual stream")
    if site in ("self", "encoder"):
        equation = "R_l = (½ A_l + ½ I) R_{l−1}"
        why.compute("R", "½ · {} + ½ · {}", lambda a, r: a / 2 + r / 2, looked, kept)
    elif site == "cross":
        equation = "R ← ½ (½ A + ½ I) R + ½ C E"
        across = cache.average("cross", layers - 1, slice(row, row + 1))[0]  # (S)
        read = across * rollout(cache, "encoder")[:, column]
        largest, sources = format_sum(read.topk(min(3, len(read))).values.tolist()), float(read.sum())
        why.step("Σₖ Cᵢₖ Eₖⱼ", f"{largest} + …", sources, "across, E rolled out in the encoder")
        form = "¼ · {} + ¼ · {} + ½ · {}"
        why.compute("R", form, lambda a, r, c: a / 4 + r / 4 + c / 2, looked, kept, sources)
    else:
        equation = "R ← ½ (½ A + ½ I) R"
        why.compute("R", "¼ · {} + ¼ · {}", lambda a, r: a / 4 + r / 4, looked, kept)
    why.equation(equation, "T1, T4", "Abnar & Zuidema 2020, §3")
    return why.result()


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
    counted = cache.terms_of_scores(site, layer, head)
    if score not in counted:
        raise LabError(f"{site} attention has no score {score!r}; allowed: {', '.join(counted)}")
    rows, looked = counted[score][0], counted[score][1][0]  # (n) each
    result = float(cache.scores_of_layer(site, layer)[score][head])
    equation, what = SCORES[score]
    names, whose = list(labels), "head" if site == "self" else f"{site} head"
    question = f"why has {whose} {layer + 1}.{head + 1} a {score} score of {number(result)}?"
    why = Explaining(question, result, [names[row] if names else str(row) for row in rows.tolist()])
    why.equation(f"score = {equation}", "T1", "Olsson et al. 2022, In-context Learning and Induction Heads")
    why.input("i", rows.tolist(), "the positions that count")
    why.input("αᵢ", looked.tolist(), what)
    why.step("Σ", format_sum(looked[:3].tolist()) + " + …", float(looked.sum()))
    why.step("n", "positions that count", len(rows))
    if len(rows):
        why.compute("score", "{} / {}", truediv, float(looked.sum()), len(rows), note="1 = always, 0 = never")
    else:
        why.measurement("score", "1 = always, 0 = never")
    return why.result()


def why_copying(circuit: Circuit, kind: str, head: str) -> Explanation:
    """Explain Σλ/Σ|λ| of a head's circuit. MATH T3."""
    values = circuit.eigenvalues
    total, size = float(values.real.sum()), float(values.abs().sum())
    what = "copying" if kind == "ov" else "matching"
    path = "of this head alone: what earlier layers write into its input is another path"
    why = Explaining(f"why has {head} a {what} score of {number(circuit.positive)}?", circuit.positive)
    why.equation("Σλ / Σ|λ|", "T3", "Elhage et al. 2021")
    why.input("Re λ", values.real.tolist(), "the eigenvalues that are not zero; imaginary parts cancel in pairs")
    why.input("Im λ", values.imag.tolist())
    why.step("Σλ", format_sum(values.real[:3].tolist()) + " + …", total)
    why.step("Σ|λ|", format_sum(values.abs()[:3].tolist()) + " + …", size)
    why.compute("score", "{} / {}", truediv, total, size, note=f"1 = all positive, −1 = all negative; {path}")
    return why.result()


FORMS = {"query": "W_QKᵀ", "key": "W_QK", "value": "W_OV"}  # of the later head, before the earlier one's W_OV


@torch.no_grad()
def why_composition(
    model: Model, site: str, later: tuple[int, int], earlier: tuple[int, int], through: str
) -> Explanation:
    """Explain the query, key or value composition of head `later` (layer, head) with `earlier`. Elhage et al. 2021."""
    if through not in FORMS or earlier[0] >= later[0] or site == "cross":
        raise LabError("a head composes, by query, key or value, with a head of an earlier layer of the same stream")
    attention = head_of(model, site, *later)
    head_of(model, site, *earlier)
    weights, before = layer_weights(model, attention, later[0]), layer_weights(model, attention, earlier[0])
    q, k, v, o = (one[later[1]] for one in (weights.q, weights.k, weights.v, weights.o))
    form = {"query": k.T @ q, "key": q.T @ k, "value": o @ v}[through]  # (D, D); √dₖ cancels
    writes = before.o[earlier[1]] @ before.v[earlier[1]]  # W_OV of the earlier head (D, D)
    size, left, right = (float(torch.linalg.matrix_norm(one)) for one in (form @ writes, form, writes))
    D, product = len(form), left * right
    score = size / product if product else float("nan")
    name = FORMS[through]
    first, second = (f"{layer + 1}.{head + 1}" for layer, head in (earlier, later))
    why = Explaining(f"why does head {second} read head {first} by its {through} with {number(score)}?", score)
    why.equation(f"‖{name}⁽²⁾ W_OV⁽¹⁾‖ / (‖{name}⁽²⁾‖ ‖W_OV⁽¹⁾‖)", "T3, T4", "Elhage et al. 2021, Composition")
    why.input(f"‖{name}⁽²⁾‖", left, f"Frobenius, of head {second}, without 1/√dₖ, which cancels")
    why.input("‖W_OV⁽¹⁾‖", right, f"of head {first}: what it writes, given what it looks at")
    why.input("‖product‖", size, "the product of both: what one reads of the other")
    why.step("by chance", f"1 / √{D}", 1 / sqrt(D), "the same ratio of random matrices")
    meaning = "1 = reads everything written"
    why.compute("score", "{} / ({} · {})", lambda *norms: score, size, left, right, note=meaning)
    return why.result()
