"""What blind comparisons say so far, in sentences for a screen and a shell."""

from __future__ import annotations

from collections.abc import Sequence

from txlab.drawing.formatting import count, minus, share
from txlab.engine.rlhf.ratings import Verdict


def verdict_lines(found: Verdict, names: Sequence[str]) -> list[str]:
    """Lines about the first of the names against the second: counts and Elo, the difference, whether it means anything.

    >>> verdict_lines(Verdict(0, 0, 0, (1500.0, 1500.0), 0.0, 0.0, 1.0, None), ("new", "old"))
    ['nothing is compared yet']
    """
    judged = found.won + found.lost + found.ties
    if not judged:
        return ["nothing is compared yet"]
    low, high = (minus(f"{edge:+.0f}") for edge in found.interval)
    own, other = (f"{rating:.0f}" for rating in found.elo)
    counts = f"{count(found.won)} better, {count(found.lost)} worse, {count(found.ties)} equal"
    return [
        f"{names[0]} against {names[1]}: {counts}; Elo {own} to {other}",
        f"difference {minus(f'{found.difference:+.0f}')}, with 95 % between {low} and {high} (Bradley–Terry)",
        f"sign test p = {share(found.p, 3)}: {meaning(found)}",
    ]


def meaning(found: Verdict) -> str:
    """Whether the difference means anything yet."""
    judged = found.won + found.lost + found.ties
    if found.significant:
        return f"the difference means something; equal models give one as large in {found.p:.2%} of cases"
    if found.needed is None:
        return "neither is ahead"
    more = max(1, found.needed - judged)
    return f"it means nothing yet; at this rate about {count(more)} more would settle it"
