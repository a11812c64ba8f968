"""The result of blind comparisons so far, in sentences for a screen and a shell."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from txlab.drawing.formatting import count, interval, minus, share
from txlab.engine.rlhf.ratings import Verdict


def verdict_lines(verdict: Verdict, names: Sequence[str]) -> list[str]:
    """Lines about the first of the names against the second: counts and Elo, the difference, its significance.

    `['nothing is compared yet']` without comparisons.
    """
    if not verdict.won + verdict.lost + verdict.ties:
        return ["nothing is compared yet"]
    own, other = (f"{rating:.0f}" for rating in verdict.elo)
    counts = f"{count(verdict.won)} better, {count(verdict.lost)} worse, {count(verdict.ties)} equal"
    return [
        f"{names[0]} against {names[1]}: {counts}; Elo {own} to {other}",
        f"difference {difference(verdict)}",
        f"sign test p = {share(verdict.p, 3)}: {meaning(verdict)}",
    ]


def difference(verdict: Verdict) -> str:
    """The difference with its interval, or its known bound while all points went to one side."""
    bounds = interval(*verdict.interval, signed=True)
    if all(map(isfinite, verdict.interval)):
        return f"{minus(f'{verdict.difference:+.0f}')}, 95 % interval {bounds}"
    if verdict.significant:
        return f"{bounds}; the other end of the 95 % interval is not known yet"
    return f"not known yet; 95 % interval: {bounds}"


def meaning(verdict: Verdict) -> str:
    """The significance of the difference."""
    judged = verdict.won + verdict.lost + verdict.ties
    if verdict.significant:
        return f"the difference means something; equal models give one as large in {verdict.p:.2%} of cases"
    if verdict.needed is None:
        return "neither is ahead"
    more = max(1, verdict.needed - judged)
    return f"it means nothing yet; at this rate about {count(more)} more would settle it"
