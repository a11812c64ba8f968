"""What blind comparisons say so far, in sentences for a screen and a shell."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from txlab.drawing.formatting import count, interval, minus, share
from txlab.engine.rlhf.ratings import Verdict


def verdict_lines(found: Verdict, names: Sequence[str]) -> list[str]:
    """Lines about the first of the names against the second: counts and Elo, the difference, whether it means anything.

    `['nothing is compared yet']` without comparisons.
    """
    if not found.won + found.lost + found.ties:
        return ["nothing is compared yet"]
    own, other = (f"{rating:.0f}" for rating in found.elo)
    counts = f"{count(found.won)} better, {count(found.lost)} worse, {count(found.ties)} equal"
    return [
        f"{names[0]} against {names[1]}: {counts}; Elo {own} to {other}",
        f"difference {difference(found)}",
        f"sign test p = {share(found.p, 3)}: {meaning(found)}",
    ]


def difference(found: Verdict) -> str:
    """The difference with its interval, or what is known of it while all points went to one side."""
    told = interval(*found.interval, signed=True)
    if all(map(isfinite, found.interval)):
        return f"{minus(f'{found.difference:+.0f}')}, 95 % interval {told}"
    if found.significant:
        return f"{told}; the other end of the 95 % interval is not known yet"
    return f"not known yet; 95 % interval: {told}"


def meaning(found: Verdict) -> str:
    """Whether the difference means anything yet."""
    judged = found.won + found.lost + found.ties
    if found.significant:
        return f"the difference means something; equal models give one as large in {found.p:.2%} of cases"
    if found.needed is None:
        return "neither is ahead"
    more = max(1, found.needed - judged)
    return f"it means nothing yet; at this rate about {count(more)} more would settle it"
