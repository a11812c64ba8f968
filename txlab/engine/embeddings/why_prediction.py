"""Why a word vector moved, where predictions are learnt from one by one: noise, a tree, or the softmax (MATH K4, K5).

A prediction has a hidden vector h, the centre's v in skip-gram and the mean of the window's v in CBOW, and scores some
rows u of the other table. The explanation is of the last prediction of a block in which one word took part and another
was the target: its effect by itself, and the effect of the rest of the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import sub

import numpy as np
import torch
from torch import Tensor

from txlab.engine.embeddings.blocks import STRIP, Stretch
from txlab.engine.embeddings.why import explain_expected
from txlab.engine.embeddings.word2vec import Method, Word2Vec
from txlab.engine.explain import Explaining, Explanation, Operand, Step, sigmoid


@dataclass(frozen=True)
class Prediction:
    """One prediction as it was scored, and its scores after its block.

    inputs   the words whose mean h is; in skip-gram the centre alone
    rows     the rows of u that it scored (all, with the softmax), their u before, and what is subtracted from x = u·h
    errors   e = ∂L/∂x of each
    target   the target, and its position among the rows; with a tree the rows are the nodes on the way to it
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
    prediction: Prediction, method: Method, step: int, word: int, words: Sequence[str], turns: Sequence[int] = ()
) -> Explanation:
    """Explain the prediction by its objective; `turns` ±1 lead from the root of the tree to the target."""
    if method.objective == "softmax":
        return _by_softmax(prediction, step, word, words)
    if method.objective == "hierarchical":
        return _by_tree(prediction, step, word, words, turns)
    return _by_noise(prediction, step, word, words, method.objective == "nce")


def _question(prediction: Prediction, step: int, word: int, words: Sequence[str]) -> str:
    target = words[prediction.target]
    if len(prediction.inputs) > 1 or prediction.inputs != [word]:
        size = len(prediction.inputs)
        return f"how did step {step} move {words[word]!r}, in a window of {size} words around {target!r}?"
    return f"how did step {step} move {words[word]!r} and its context {target!r}?"


def _operands(prediction: Prediction, words: Sequence[str]) -> list[Operand]:
    c = len(prediction.inputs)
    if c == 1:
        meaning = "v of the word alone"
    else:
        shown = ", ".join(words[each] for each in prediction.inputs[:6]) + (", …" if c > 6 else "")
        meaning = f"words whose mean h is: {shown}"
    return [Operand("c", c, meaning), Operand("α", prediction.alpha, "the rate")]


def _times(prediction: Prediction) -> str:
    return (
        f"the rest of the block, {prediction.times - 1} more of this kind in it"
        if prediction.times > 1
        else "the rest of the block"
    )


def _moves(prediction: Prediction) -> Step:
    """How far each of the words is moved."""
    c, length = len(prediction.inputs), float(prediction.gradient.norm())
    expression = "α |Σ e u|" if c == 1 else "α/c |Σ e u|"
    return Step(
        "|Δv|", expression, prediction.alpha / c * length, "how far v moves" if c == 1 else "how far each v moves"
    )


def _by_noise(prediction: Prediction, step: int, word: int, words: Sequence[str], nce: bool) -> Explanation:
    scores, e = (prediction.u @ prediction.h - prediction.offsets).tolist(), float(prediction.errors[0])
    before, alone = float(prediction.u[0] @ prediction.h), float(prediction.u_alone[0] @ prediction.h_alone)
    after = float(prediction.u_after[0] @ prediction.h_after)
    labels = [1] + [0] * (len(prediction.rows) - 1)
    score = "x = u·h − ln(K q)" if nce else "x = u·h"
    why = Explaining(_question(prediction, step, word, words), after, [words[row] for row in prediction.rows], 0)
    source = "Mnih and Teh 2012" if nce else "Wang (10)–(12); Mikolov et al. 2013b"
    why.equation(f"e = σ(x) − label,  {score};  v ← v − α/c Σ e u,  u ← u − α e h,  h = 1/c Σ v", "K5", source)
    why.operands += _operands(prediction, words)
    why.input("label", labels, "1 = the target, 0 = noise")
    if nce:
        why.input("ln K q", prediction.offsets.tolist(), "how often the noise would draw it, K times")
    why.input("x", scores, score.removeprefix("x = "))
    why.step("e", "σ(x) − label", prediction.errors.tolist())
    why.compute("e(o)", "1 / (1 + exp({})) − 1", lambda minus: sigmoid(-minus) - 1, -scores[0])
    why.steps.append(_moves(prediction))
    moved = prediction.alpha * abs(e) * float(prediction.h.norm())
    why.step("|Δu|", "α |e(o)| |h|", moved, "how far u of the target moves")
    why.step("u·h", "before", before)
    why.step("u′·h′", "(u − α e h)·(h − α/c Σ e u)", alone, "had this prediction alone moved them")
    why.compute("others", "{} − {}", sub, after, alone, note=_times(prediction))
    why.step("u·h after", "u′·h′ + others", after, "as the step left it")
    return why.result()


def _by_tree(prediction: Prediction, step: int, word: int, words: Sequence[str], turns: Sequence[int]) -> Explanation:
    def chance(h: Tensor, u: Tensor) -> float:
        return prod(sigmoid(sign * x) for sign, x in zip(turns, (u @ h).tolist(), strict=True))

    scores = (prediction.u @ prediction.h).tolist()
    before, alone, after = (
        chance(*each)
        for each in (
            (prediction.h, prediction.u),
            (prediction.h_alone, prediction.u_alone),
            (prediction.h_after, prediction.u_after),
        )
    )
    why = Explaining(_question(prediction, step, word, words), after, [f"node {row}" for row in prediction.rows])
    equation = "p(o) = Πⱼ σ(sⱼ xⱼ),  xⱼ = uⱼ·h;  e = σ(x) − [s = 1];  v ← v − α/c Σ e u,  u ← u − α e h"
    why.equation(equation, "K5", "Morin and Bengio 2005; Mikolov et al. 2013b")
    why.operands += _operands(prediction, words)
    why.input("s", list(turns), f"the way from the root to {words[prediction.target]!r}: 1 = left, −1 = right")
    why.input("x", scores, "uⱼ·h of the nodes on it")
    why.step("σ(s x)", "1 / (1 + exp(−s x))", [sigmoid(s * x) for s, x in zip(turns, scores, strict=True)])
    why.step("p(o)", "Π σ(s x)", before, "before")
    why.step("e", "σ(x) − [s = 1]", prediction.errors.tolist())
    why.steps.append(_moves(prediction))
    why.step("p′(o)", "Π σ(s (u − α e h)·(h − α/c Σ e u))", alone, "had this prediction alone moved them")
    why.compute("others", "{} − {}", sub, after, alone, note=_times(prediction))
    why.step("p(o) after", "p′(o) + others", after, "as the step left it")
    return why.result()


def _by_softmax(prediction: Prediction, step: int, word: int, words: Sequence[str]) -> Explanation:
    expected = explain_expected(
        prediction.h, prediction.u, prediction.target, words, _question(prediction, step, word, words), "h"
    )
    operands, meaning = [*_operands(prediction, words), *expected.operands], [*expected.meaning, _moves(prediction)]
    return replace(expected, operands=operands, meaning=meaning)
