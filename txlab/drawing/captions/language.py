"""Tokens, Attention and Words: what became of a text, where a head looks, which words are near."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

import numpy as np

from txlab.drawing.captions.sentence import Sentence, ordinal
from txlab.drawing.formatting import count, number, share
from txlab.drawing.text import label

LOOKS = 0.3  # the least score of a head that is named after it


def tokens(size: int, words: int, lanes: Sequence[tuple[str, int]], front: int) -> Sentence:
    """ "293 bytes are 182 tokens of 1.61 bytes (trained 1 024)", "4.14 tokens a word"

    size, words   of the text        lanes   (tokenizer, number of tokens) of those shown, `front` the one in front
    """
    if not lanes or not size or not lanes[front][1]:
        return ()
    name, many = lanes[front]
    first = f"{count(size)} bytes are {count(many)} tokens of {size / many:.2f} bytes ({name})"
    if len(lanes) == 1:
        return (first, f"{many / words:.2f} tokens a word") if words else (first,)
    others = [f"{count(other)} by {title}" for place, (title, other) in enumerate(lanes) if place != front]
    return first, *others


def merging(merges: int, lengths: np.ndarray, size: int, pair: str, becomes: str, times: int) -> Sentence:
    """ "After 84 merges 98 765 tokens are left of 465 000 bytes", "the next is t + h, found 851 times"

    lengths   tokens of the training text before the first merge and after each    pair   the next, "" = there is none
    """
    if len(lengths) != merges + 1 or not lengths[-1]:
        return ()
    after = f"After {count(merges)} merge{'s' * (merges != 1)}"
    first = f"{after} the text of {count(size)} bytes has {count(int(lengths[-1]))} tokens"
    return (first, f"the next merge is {pair}, found {count(times)} times") if pair and becomes else (first,)


def head(
    layer: int,
    head: int,
    scores: Mapping[str, float],
    queries: Sequence[str],
    keys: Sequence[str],
    row: int,
    weights: np.ndarray,
) -> Sentence:
    """ "Head 2.1 copies: .96 of its weight on what followed this token before", or for a head without such a
    habit "“was” looks most at “cat” in head 2.3, with .62 of its weight"

    scores    of the head: induction, previous        weights   of row `row` (S); NaN where they are not known
    """
    name = f"{layer + 1}.{head + 1}"
    induction, previous = (float(scores.get(score, np.nan)) for score in ("induction", "previous"))
    if isfinite(induction) and induction >= max(LOOKS, previous if isfinite(previous) else 0.0):
        return (f"Head {name} copies: {share(induction)} of its weight on what followed this token before",)
    if isfinite(previous) and previous >= LOOKS:
        return (f"Head {name} looks one back: {share(previous)} of its weight is on the token before",)
    if row >= len(queries) or len(weights) != len(keys) or not np.isfinite(weights).any():
        return ()
    most = int(np.nanargmax(weights))
    if not weights[most] > 0:
        return ()
    of = f"“{label(queries[row])}” looks most at “{label(keys[most])}”"
    if most == row and len(queries) == len(keys):
        of = f"“{label(queries[row])}” looks most at itself"
    return (f"{of} in head {name}, with {share(float(weights[most]))} of its weight",)


def prediction(
    lead: str, after: str, candidate: tuple[str, float, float | None] | None, kl: float | None, edits: int
) -> Sentence:
    """ "next after “y”: “m”, .97"; with edits "2 edits change what comes next by 2.31 nats", "“m” from .97 to .03"

    candidate   (token, probability, before the edits) of the most likely
    kl          KL(before ‖ now), nats
    """
    if candidate is None:
        return ()
    token, now, before = candidate
    if edits and kl is not None and isfinite(kl):
        change = "The edit changes" if edits == 1 else f"{edits} edits change"
        first = f"{change} what comes next by {number(kl, 3)} nats"
        return (first, f"“{label(token)}” from {share(before)} to {share(now)}") if before is not None else (first,)
    return (f"{lead} “{label(after)}”: “{label(token)}”, {share(now)}",) if isfinite(now) else ()


def nearest(word: str, listed: Sequence[tuple[str, float]], rank: int, words: int) -> Sentence:
    """ "“king” is nearest to “queen”, cosine .71, of 9 150 words", "then to “prince”, .66" """
    known = [(other, cosine) for other, cosine in listed if isfinite(cosine)]
    if not known:
        return ()
    (other, cosine), *rest = known
    place = f"{ordinal(rank)} of {count(words)} words"
    first = f"“{label(word)}”, {place}, is nearest to “{label(other)}”: cosine {share(cosine)}"
    return (first, *[f"then “{label(other)}”, {share(cosine)}" for other, cosine in rest[:1]])


def analogy(a: str, b: str, c: str, listed: Sequence[tuple[str, float]]) -> Sentence:
    """ "“man” is to “king” as “woman” is to “queen”: cosine .77", "then “princess”, .71" — of a − b + c."""
    known = [(other, cosine) for other, cosine in listed if isfinite(cosine)]
    if not known:
        return ()
    (other, cosine), *rest = known
    first = f"“{label(b)}” is to “{label(a)}” as “{label(c)}” is to “{label(other)}”: cosine {share(cosine)}"
    return (first, *[f"then “{label(other)}”, {share(cosine)}" for other, cosine in rest[:1]])
