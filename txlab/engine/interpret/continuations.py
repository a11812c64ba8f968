"""The tree of a text's likeliest continuations (MATH R1, T8, T9).

A path of tokens has the probability p(path | text) = Π p(x_t | text, x_<t); the likeliest token at each step need not
lead to the likeliest path. Notable: a node is a pass over the whole text without a cache of keys, because interventions
name positions and may change any of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp

import torch

from txlab.engine.explain import Explaining, Explanation
from txlab.engine.interpret.interventions import Intervention, intervening
from txlab.engine.interpret.sites import Model, Text, run
from txlab.engine.transformer.bert import Bert
from txlab.engine.transformer.generation import FREE, Rules, choose, continues, forbid
from txlab.engine.transformer.gpt import GPT
from txlab.errors import LabError


@dataclass(frozen=True)
class Continuations:
    """What may follow a path: the likeliest tokens with their ln p (nats, float64), likeliest first.

    others   how many tokens are not listed
    rest     their probability together
    """

    tokens: tuple[int, ...]
    logp: tuple[float, ...]
    others: int
    rest: float


def extend_text(text: Text, path: Sequence[int]) -> Text:
    """Return the text with these ids at the end of what predicts: an encoder–decoder's target, else the text itself."""
    if text.target:
        return replace(text, target=(*text.target, *path))
    return replace(text, ids=(*text.ids, *path))


def writes(model: Model) -> None:
    """Raise LabError for a model that does not predict the next token."""
    if isinstance(model, Bert):
        raise LabError("this model reads a text from both sides and fills masks: it does not predict the next token")
    if isinstance(model, GPT):
        continues(model)


def continuations(
    model: Model,
    text: Text,
    path: Sequence[int] = (),
    most: int = 8,
    interventions: Iterable[Intervention] = (),
    second: Text | None = None,
    never: Collection[int] = (),
) -> Continuations:
    """Return the `most` likeliest tokens after the text and the path, under the interventions, without those in
    `never`.

    Probabilities are the model's own: tokens in `never` keep their share, which counts among the others.
    LabError if the model does not predict the next token, or the text with the path is longer than its context.
    """
    writes(model)
    whole = extend_text(text, path)
    with intervening(model, whole, interventions, second) as hooks:
        logp = run(model, whole, hooks)[-1].double().log_softmax(-1)  # (V)
    allowed = forbid(logp, never)
    values, ids = allowed.topk(min(most, len(logp) - len(set(never))))
    return Continuations(
        tuple(ids.tolist()), tuple(values.tolist()), len(logp) - len(ids), max(0.0, 1 - float(values.exp().sum()))
    )


@torch.no_grad()
def write_under(
    model: Model,
    text: Text,
    tokens: int,
    interventions: Sequence[Intervention] = (),
    second: Text | None = None,
    *,
    context: int | None = None,
    end: Collection[int] = (),
    never: Collection[int] = (),
    rules: Rules = FREE,
    generator: torch.Generator | None = None,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Iterator[int]:
    """Yield at most `tokens` ids that continue the text under the interventions, without the `end` id that ends it.
    MATH T9.

    It ends at the model's `context`: interventions name positions of the text, so its beginning cannot be dropped. The
    other arguments are as in `generation.generate`. LabError as in `continuations`.
    """
    writes(model)
    path: list[int] = []
    for step in range(tokens):
        whole = extend_text(text, path)
        if context is not None and len(whole.predicting) > context:
            return
        with intervening(model, whole, interventions, second) as hooks:
            scores = run(model, whole, hooks)[-1:]  # (1, V)
        scores = rules(forbid(scores, never), [list(whole.predicting)], step, tokens - step)
        (token,) = choose(scores, generator, temperature, top_k, top_p)
        if token in end:
            return
        path.append(token)
        yield token


def why_path(labels: Sequence[str], logp: Sequence[float]) -> Explanation:
    """Explain the probability of a path: the tokens with their ln p, the sum, and e to the sum. MATH R1."""
    total = sum(logp)
    terms = " ".join(f"{each:+.4g}" for each in logp[:6]) + (" …" if len(logp) > 6 else "")
    why = Explaining(f"why {exp(total):.3g} for {''.join(labels)} to come next?", exp(total), list(labels))
    equation = "p(x₁ … xₙ | text) = Π p(xₜ | text, x₁ … xₜ₋₁) = exp(Σ ln p(xₜ | text, x₁ … xₜ₋₁))"
    why.equation(equation, "R1", "the chain rule; Becker-Kahn §4")
    why.input("ln p", list(logp), "of each token of the path, in nats")
    why.step("Σ ln p", terms.replace("-", "−"), total, "nats")
    why.compute("p", "exp({})", exp, total)
    return why.result()
