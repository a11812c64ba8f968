"""Why a pair of word vectors moved: by negative sampling, and by the full softmax (MATH K4, K5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from operator import sub

import torch
from torch import Tensor

from txlab.engine.embeddings import blocks, objectives
from txlab.engine.embeddings.blocks import LONGEST, STRIP, Block
from txlab.engine.explain import Explaining, Explanation, Step, sigmoid

LIKELIEST = 10  # words of a softmax that are shown


# The update of a pair


@dataclass(frozen=True)
class PairUpdate:
    """What one block did to a centre v and a context u.

    before, after  v·u, the score
    contexts       n, how often the context was in a window of the centre
    noise          m, its weight as a noise word: K/N for each pair of each centre whose strip drew it
    shortened      sᵥ, sᵤ: the share of the whole block's step that each row made, see `blocks.LONGEST`
    squares        |v|², |u|² before
    words, labels, weights, scores   everything the centre was scored against at the last place where they met
    """

    before: float
    after: float
    alpha: float
    contexts: int
    noise: float
    shortened: tuple[float, float]
    squares: tuple[float, float]
    words: list[int]
    labels: list[int]
    weights: list[float]
    scores: list[float]


def meetings(block: Block, centre: int, context: int) -> Tensor:
    """(S, STRIP, R) boolean: where the context counts, as a context or as noise, for the centre."""
    centres = block.centres.view(-1, STRIP, 1) == centre
    return centres & (block.rows.view(len(block.weights), 1, -1) == context) & (block.weights > 0)


def learn_and_trace(block: Block, v: Tensor, u: Tensor, alpha: float, centre: int, context: int) -> PairUpdate:
    """`blocks.learn`, and its effect on a pair that meets in the block."""
    met = meetings(block, centre, context)
    start_v, start_u = v[centre].clone(), u[context].clone()
    made = blocks.learn(block, v, u, alpha)
    steps = made.centres[block.centres == centre].sum(0), made.rows[block.rows == context].sum(0)
    lengths = [alpha * float(step.norm()) for step in steps]
    strip, row, _ = met.nonzero()[-1].tolist()
    counted = block.weights[strip, row] > 0
    return PairUpdate(
        before=float(start_v @ start_u),
        after=float(v[centre] @ u[context]),
        alpha=alpha,
        contexts=int((met * block.labels).sum()),
        noise=float((met * block.weights * (1 - block.labels)).sum()),
        shortened=(min(1.0, LONGEST / max(lengths[0], 1e-30)), min(1.0, LONGEST / max(lengths[1], 1e-30))),
        squares=(float(start_v @ start_v), float(start_u @ start_u)),
        words=block.rows.view(len(block.weights), -1)[strip][counted].tolist(),
        labels=block.labels[counted].int().tolist(),
        weights=block.weights[strip, row][counted].tolist(),
        scores=made.scores[strip, row][counted].tolist(),
    )


def why_pair_moved(update: PairUpdate, step: int, centre: int, context: int, words: Sequence[str]) -> Explanation:
    """Explain v·u of a centre and a context by the update that moved them last, and the effect of the rest of it on
    them."""
    x, n, m, alpha = update.before, update.contexts, update.noise, update.alpha
    (part_v, part_u), (v_square, u_square) = update.shortened, update.squares
    error = n * (sigmoid(x) - 1) + m * sigmoid(x)
    a, b = alpha * part_v * error, alpha * part_u * error
    alone = x - a * u_square - b * v_square + a * b * x
    errors = [
        weight * (sigmoid(score) - label)
        for weight, score, label in zip(update.weights, update.scores, update.labels, strict=True)
    ]
    kept = f"share of its step; a row moves by {LONGEST:g} at most in a block"
    question = f"how did step {step} move {words[centre]!r} and its context {words[context]!r}?"
    why = Explaining(question, update.after, [words[word] for word in update.words], update.words.index(context))
    equation = "e = n (σ(x) − 1) + m σ(x),  x = v·u;  v ← v − α sᵥ e u,  u ← u − α sᵤ e v"
    why.equation(equation, "K5", "Wang (10)–(12); Mikolov et al. 2013b")
    why.input("x", x, "v·u before, nats")
    why.input("n", n, f"times that {words[context]!r} was in its window: label 1")
    why.input("m", m, "its weight as noise, K/N for each pair of the centre: label 0")
    why.input("α", alpha, "the rate")
    why.input("sᵥ", part_v, kept)
    why.input("sᵤ", part_u, kept)
    why.input("|v|²", v_square)
    why.input("|u|²", u_square)
    why.input("label", update.labels, "1 = in the window, 0 = noise, at the last place where they met")
    why.input("score", update.scores, "v·u of each")
    why.input("weight", update.weights)
    why.step("error", "weight (σ(score) − label)", errors)
    why.compute("σ(x)", "1 / (1 + exp({}))", lambda minus: sigmoid(-minus), -x)
    why.compute("e", "{} · (σ(x) − 1) + {} · {}", lambda n, m, s: n * (s - 1) + m * s, n, m, sigmoid(x))
    why.step("v along u", "−α sᵥ e |u|", -a * sqrt(u_square), "towards it" if a < 0 else "away from it")
    why.step("u along v", "−α sᵤ e |v|", -b * sqrt(v_square), "towards it" if b < 0 else "away from it")
    why.step("x′", "(v − α sᵥ e u)·(u − α sᵤ e v)", alone, "v·u, had this pair alone moved them")
    why.compute("others", "{} − {}", sub, update.after, alone, note="the rest of the block")
    why.step("v·u after", "x′ + others", update.after, "as the step left it")
    return why.result()


# A prediction by the full softmax


def why_predicted(v: Tensor, u: Tensor, centre: int, context: int, words: Sequence[str]) -> Explanation:
    """Explain the direction in which the full softmax moves a centre: the observed context vector minus the expected.

    v, u (V, D); the gradient is that of `objectives.softmax`.
    """
    asked = f"where does {words[context]!r} next to it move {words[centre]!r}?"
    return explain_expected(v[centre].double(), u.double(), context, words, asked, "v")


def explain_expected(
    hidden: Tensor, table: Tensor, context: int, words: Sequence[str], question: str, letter: str
) -> Explanation:
    """Explain −∂L/∂h of the full softmax for a hidden vector (D), which is called `letter`, and a table u (V, D)."""
    h = hidden[None]
    scored = objectives.softmax(h, table, torch.tensor([context]))
    difference = -scored.hidden_gradient(table)[0]
    observed = table[context]
    expected = observed - difference
    p = scored.errors[0].clone()
    p[context] += 1
    count = min(LIKELIEST, len(p))
    count -= count == len(observed)  # as many labels as numbers in a vector would be taken for theirs
    shown = p.topk(count).indices.tolist()
    shown = shown if context in shown else [*shown[:-1], context]
    lengths = [float(each.norm()) for each in (observed, expected, difference)]
    loss = float(scored.loss[0])
    why = Explaining(question, lengths[2], [words[word] for word in shown], shown.index(context))
    equation = "−∂L/∂v = u_o − E[u],  E[u] = Σₓ p(x) uₓ,  p(x) = exp(uₓ·v) / Σ exp(uₓ′·v)"
    why.equation(equation.replace("v", letter), "K4", "Wang (5)–(9)")
    why.input("V", len(p), "words that share the probability")
    why.input("p", p[shown].tolist(), "the likeliest words")
    why.input("score", (table[shown] @ h[0]).tolist(), f"uₓ·{letter}")
    why.step("p(o)", f"exp(u_o·{letter}) / Σ exp(uₓ·{letter})", float(p[context]), f"loss {loss:.4g} nats")
    why.step("u_o", "the observed context vector", observed.tolist())
    why.step("E[u]", "Σₓ p(x) uₓ, the expected one", expected.tolist())
    why.step("d", "u_o − E[u], the difference", difference.tolist())
    why.step("|u_o|", "√(u_o·u_o)", lengths[0])
    why.step("|E[u]|", "√(E[u]·E[u])", lengths[1])
    why.step("|d|", "√(d·d)", lengths[2], "0 where the prediction is right")
    why.means(Step(f"d·{letter}", f"Σᵢ dᵢ {letter}ᵢ", float(difference @ h[0]), f"above 0: {letter} grows longer"))
    return why.result()
