"""A frame of one text: what every head looks at, and what is likeliest at every position (MATH T1, T9, T10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor

from txlab.engine.transformer.attention import Mask
from txlab.engine.transformer.bert import BertShape
from txlab.engine.transformer.gpt import GPTShape
from txlab.engine.transformer.inspection import induction_scores, previous_token_scores
from txlab.experiments.protocol import Frame


class Seen(Protocol):
    """queries, keys (L, H, T, K) · patterns (L, H, T, T) · probabilities (T, V)."""

    @property
    def queries(self) -> Tensor: ...

    @property
    def keys(self) -> Tensor: ...

    @property
    def patterns(self) -> Tensor: ...

    @property
    def probabilities(self) -> Tensor: ...


def text_frame(
    step: int,
    ids: Sequence[int],
    seen: Seen,
    likeliest: int,
    label: Callable[[int], str],
    mask: Mask,
    shape: GPTShape | BertShape,
    text: str,
) -> Frame:
    """Patterns, queries and keys of the probe text in every head, two scores a head, the likeliest tokens.

    `text` is the probe as a person would type it.
    """
    probability, token = seen.probabilities.topk(min(likeliest, shape.vocabulary))  # (T, k)
    shown = {
        "attention/pattern": seen.patterns.half(),
        "attention/query": seen.queries,
        "attention/key": seen.keys,
        "attention/previous": previous_token_scores(seen.patterns),
        "attention/induction": induction_scores(seen.patterns, ids),
        "next/probability": probability,
    }
    labels = {token: label(token) for token in set(ids) | set(token.flatten().tolist())}
    return Frame(
        step=step,
        tensors={name: tensor.cpu() for name, tensor in shown.items()},
        tokens={
            "probe": [labels[token] for token in ids],
            "next": [labels[token] for token in token.flatten().tolist()],
        },
        texts={"probe": text},
        facts={
            "mask": mask.name,
            "predicts": "next" if isinstance(shape, GPTShape) and not shape.edges else "place",
            "layers": shape.layers,
            "heads": shape.heads,
            "head_width": shape.head_width,
            **({"edges": [list(edge) for edge in shape.edges]} if isinstance(shape, GPTShape) and shape.edges else {}),
        },
    )
