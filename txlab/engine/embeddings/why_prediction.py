"""Why a word vector moved, where predictions are learnt from one by one: noise, a tree, or the softmax (MATH K4, K5).

A prediction has a hidden vector h, the centre's v in skip-gram and the mean of the window's v in CBOW, and scores some
rows u of the other table. Explained is the last prediction of a block in which a word took part and another was to be
found: what it alone would have done, and what the rest of the block did to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from torch import Tensor

from txlab.engine.embeddings.blocks import STRIP, Stretch
from txlab.engine.embeddings.why import explain_expected, sigmoid
from txlab.engine.embeddings.word2vec import Method, Word2Vec
from txlab.engine.explain import Explanation, Operand, Step, computed


@dataclass(frozen=True)
class Prediction:
    """One prediction as it was scored, and how it is scored after its block.

    inputs   the words whose mean h is; in skip-gram the centre alone
    rows     the rows of u that it scored (all, with the softmax), their u before, and what is taken off x = u·h
    errors   e = ∂L/∂x of each
    target   what was to be found, and where it stands among the rows; with a tree they are the nodes on the way to it
    times    predictions of this kind in the block
    h_after, u_after   after the block
    """

    inputs: list[int]
    target: int
    rows: list[int]
    h: Tensor
    u: Tensor
    offsets: Tensor
    errors: Tensor
    alpha: float
    times: int
    h_after: Tensor
    u_after: Tensor

    @property
    def gradient(self) -> Tensor:
        """∂L/∂h = Σ e u."""
        return self.errors @ self.u

    @property
    def h_alone(self) -> Tensor:
        """h, had this prediction alone moved its words: each by α/c ∂L/∂h."""
        return self.h - self.alpha / len(self.inputs) * self.gradient

    @property
    def u_alone(self) -> Tensor:
        return self.u - self.alpha * self.errors[:, None] * self.h


def takes_part(stretch: Stretch, method: Method, word: int, target: int) -> bool:
    """Whether `target` is predicted from `word` (CBOW: from a window with `word`) in a stretch of text."""
    strip, row, column = stretch.mask().nonzero(as_tuple=True)
    centres, contexts = stretch.centres[strip * STRIP + row], stretch.around[strip, column]
    one, other = (centres, contexts) if method.architecture == "skip-gram" else (contexts, centres)
    return bool(((one == word) & (other == target)).any())


def learn_and_trace(
    model: Word2Vec, stretch: Stretch, draws: np.random.Generator, alpha: float, word: int, target: int
) -> Prediction:
    """`Word2Vec.learn_examples`, and what became of its last prediction of `target` in which `word` took part."""
    examples = model.examples(stretch)
    scored = model.score(examples, draws)
    owners = examples.owner[examples.words == word]
    met = owners[examples.targets[owners] == target]
    at = int(met[-1])
    inputs = examples.words[examples.owner == at]
    rows = torch.arange(len(model.u), device=model.u.device) if scored.rows is None else scored.rows[at]
    counted = torch.ones_like(rows, dtype=torch.bool)
    offsets = torch.zeros(len(rows)).to(model.u)
    if model.method.objective == "hierarchical":
        counted = model.turns[target] != 0
    elif model.method.objective == "sampling":
        counted = (rows != target) | (torch.arange(len(rows), device=rows.device) == 0)
    elif model.method.objective == "nce":
        assert model.log_expected is not None
        offsets = model.log_expected[rows]
    rows = rows[counted]
    h, u = examples.h[at].double(), model.u[rows].double()
    model.descend(examples, scored, alpha)
    return Prediction(
        inputs.tolist(),
        target,
        rows.tolist(),
        h,
        u,
        offsets[counted].double(),
        scored.errors[at][counted].double(),
        alpha,
        len(met),
        model.v[inputs].double().mean(0),
        model.u[rows].double(),
    )


def why_prediction_moved(
    found: Prediction, method: Method, step: int, word: int, words: Sequence[str], turns: Sequence[int] = ()
) -> Explanation:
    """Explain the prediction by its objective; `turns` ±1 lead from the root of the tree to the target."""
    if method.objective == "softmax":
        return _by_softmax(found, step, word, words)
    if method.objective == "hierarchical":
        return _by_tree(found, step, word, words, turns)
    return _by_noise(found, step, word, words, method.objective == "nce")


def _asked(found: Prediction, step: int, word: int, words: Sequence[str]) -> str:
    target = words[found.target]
    if len(found.inputs) > 1 or found.inputs != [word]:
        return f"how did step {step} move {words[word]!r}, in a window of {len(found.inputs)} words around {target!r}?"
    return f"how did step {step} move {words[word]!r} and its context {target!r}?"


def _operands(found: Prediction, words: Sequence[str]) -> list[Operand]:
    c = len(found.inputs)
    if c == 1:
        said = "v of the word alone"
    else:
        shown = ", ".join(words[each] for each in found.inputs[:6]) + (", …" if c > 6 else "")
        said = f"words whose mean h is: {shown}"
    return [Operand("c", c, said), Operand("α", found.alpha, "the rate")]


def _times(found: Prediction) -> str:
    return (
        f"the rest of the block, {found.times - 1} more of this kind in it"
        if found.times > 1
        else "the rest of the block"
    )


def _moves(found: Prediction) -> Step:
    """How far each of the words is moved."""
    c, length = len(found.inputs), float(found.gradient.norm())
    expression = "α |Σ e u|" if c == 1 else "α/c |Σ e u|"
    return Step("|Δv|", expression, found.alpha / c * length, "how far v moves" if c == 1 else "how far each v moves")


def _by_noise(found: Prediction, step: int, word: int, words: Sequence[str], nce: bool) -> Explanation:
    scores, e = (found.u @ found.h - found.offsets).tolist(), float(found.errors[0])
    before, alone = float(found.u[0] @ found.h), float(found.u_alone[0] @ found.h_alone)
    after = float(found.u_after[0] @ found.h_after)
    labels = [1] + [0] * (len(found.rows) - 1)
    score = "x = u·h − ln(K q)" if nce else "x = u·h"
    offsets = [Operand("ln K q", found.offsets.tolist(), "how often the noise would draw it, K times")] if nce else []
    return Explanation(
        question=_asked(found, step, word, words),
        equation=f"e = σ(x) − label,  {score};  v ← v − α/c Σ e u,  u ← u − α e h,  h = 1/c Σ v",
        math="K5",
        source="Mnih and Teh 2012" if nce else "Wang (10)–(12); Mikolov et al. 2013b",
        operands=[
            *_operands(found, words),
            Operand("label", labels, "1 = stood there, 0 = noise"),
            *offsets,
            Operand("x", scores, score.removeprefix("x = ")),
        ],
        steps=[
            Step("e", "σ(x) − label", found.errors.tolist()),
            computed("e(o)", "1 / (1 + exp({})) − 1", lambda minus: sigmoid(-minus) - 1, -scores[0]),
            _moves(found),
            Step(
                "|Δu|",
                "α |e(o)| |h|",
                found.alpha * abs(e) * float(found.h.norm()),
                "how far u of what stood there moves",
            ),
            Step("u·h", "before", before),
            Step("u′·h′", "(u − α e h)·(h − α/c Σ e u)", alone, "had this prediction alone moved them"),
            computed("others", "{} − {}", lambda end, own: end - own, after, alone, note=_times(found)),
            Step("u·h after", "u′·h′ + others", after, "as the step left it"),
        ],
        labels=[words[row] for row in found.rows],
        asked=0,
    )


def _by_tree(found: Prediction, step: int, word: int, words: Sequence[str], turns: Sequence[int]) -> Explanation:
    def chance(h: Tensor, u: Tensor) -> float:
        return prod(sigmoid(sign * x) for sign, x in zip(turns, (u @ h).tolist(), strict=True))

    scores = (found.u @ found.h).tolist()
    before, alone, after = (
        chance(*each) for each in ((found.h, found.u), (found.h_alone, found.u_alone), (found.h_after, found.u_after))
    )
    return Explanation(
        question=_asked(found, step, word, words),
        equation="p(o) = Πⱼ σ(sⱼ xⱼ),  xⱼ = uⱼ·h;  e = σ(x) − [s = 1];  v ← v − α/c Σ e u,  u ← u − α e h",
        math="K5",
        source="Morin and Bengio 2005; Mikolov et al. 2013b",
        operands=[
            *_operands(found, words),
            Operand("s", list(turns), f"the way from the root to {words[found.target]!r}: 1 = left, −1 = right"),
            Operand("x", scores, "uⱼ·h of the nodes on it"),
        ],
        steps=[
            Step("σ(s x)", "1 / (1 + exp(−s x))", [sigmoid(s * x) for s, x in zip(turns, scores, strict=True)]),
            Step("p(o)", "Π σ(s x)", before, "before"),
            Step("e", "σ(x) − [s = 1]", found.errors.tolist()),
            _moves(found),
            Step("p′(o)", "Π σ(s (u − α e h)·(h − α/c Σ e u))", alone, "had this prediction alone moved them"),
            computed("others", "{} − {}", lambda end, own: end - own, after, alone, note=_times(found)),
            Step("p(o) after", "p′(o) + others", after, "as the step left it"),
        ],
        labels=[f"node {row}" for row in found.rows],
    )


def _by_softmax(found: Prediction, step: int, word: int, words: Sequence[str]) -> Explanation:
    expected = explain_expected(found.h, found.u, found.target, words, _asked(found, step, word, words), "h")
    operands, meaning = [*_operands(found, words), *expected.operands], [*expected.meaning, _moves(found)]
    return replace(expected, operands=operands, meaning=meaning)
