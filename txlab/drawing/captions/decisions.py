"""Arena and Play: what learners of decisions earn, and what the values of a position say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from txlab.drawing.captions.sentence import Sentence, join_names
from txlab.drawing.formatting import count
from txlab.drawing.update_lines import compact
from txlab.experiments.metric import short
from txlab.experiments.protocol import Frame

FAMILIES = {"left": "share of runs that went left", "rms": "root-mean-square error", "delta": "largest change"}
"""Metrics that a recorded run has instead of returns, in words."""
SETTLED = 5  # equal returns, from which on a learner without exploration is said to stay


@dataclass(frozen=True)
class Learner:
    """A side of the Arena.

    earned    its newest return while it explores, or the newest value of `measure`; None = none yet
    latest    its newest returns, one for each episode        greedy   of the greedy policy; None = it does not arrive
    measure   the metric that a recorded run has instead of returns
    warning   that it diverges, and why, up to a semicolon
    """

    title: str
    earned: float | None = None
    greedy: float | None = None
    epsilon: float | None = None
    latest: Sequence[float] = ()
    measure: str = ""
    warning: str = ""


def learners(sides: Sequence[Learner], across: str, reached: int) -> Sentence:
    """ "After 500 episodes SARSA earns −29.3 an episode", "Q-learning −50.5", "greedily −45.4 and −13"; without
    exploration "ε = 0: only what is already best is tried, so SARSA stays at −17"

    across, reached   the unit of the curves, and how many of them there were
    """
    diverging = [side for side in sides if side.warning]
    if diverging:
        more = [f"{side.title} diverges too" for side in diverging[1:]]
        return (diverging[0].warning.partition(";")[0], *more)
    for side in sides:
        tail = [*side.latest][-SETTLED:]
        if side.epsilon == 0 and len(tail) == SETTLED and len(set(tail)) == 1:
            return (f"ε = 0: only what is already best is tried, so {side.title} stays at {compact(tail[0])}",)
    known = [(side, side.earned) for side in sides if side.earned is not None and isfinite(side.earned)]
    if not known:
        return ()
    when = f"After {count(reached)} {across}{'s' * (reached != 1)}"
    (first, earned), *others = known
    if first.measure:
        name = short(first.measure)
        measure = "the " + FAMILIES.get(name, name.replace("_", " "))
        rest = [f"{compact(value, 3)} for {side.title}" for side, value in others]
        return (f"{when} {measure} is {compact(earned, 3)} for {first.title}", *rest)
    said = [f"{side.title} {compact(value, 3)}" for side, value in others]
    greedy = [side.greedy for side, _ in known if side.greedy is not None and isfinite(side.greedy)]
    more = [f"greedily {join_names([compact(value, 3) for value in greedy])}"] if len(greedy) == len(known) else []
    return (f"{when} {first.title} earns {compact(earned, 3)} an episode", *said, *more)


def planned(frame: Frame, side: int = 0) -> Sentence:
    """ "The best state is worth 1, the worst −1", of V (S) of a frame, for runs that only plan or predict."""
    values = np.asarray(frame.tensors.get(f"{side}/v", ()), np.float64)
    values = values[np.isfinite(values)]
    if not len(values) or values.min() == values.max():
        return ()
    return (f"The best state is worth {compact(float(values.max()), 3)}, the worst {compact(float(values.min()), 3)}",)


def position(
    mover: str, values: Mapping[str, float], notes: Mapping[str, str], whose: str, moves: int, end: str
) -> Sentence:
    """ "X is to move: centre is best, +.31 for TD(0)", "top left the worst, −.12"; of an ended game how it ended

    values   move → expected points of the mover       notes   move → what is known of it, "draws"
    whose    the player whose values these are, "" = they are exact
    end      how the game ended, "" = it has not
    """
    if end:
        return (f"{end[:1].upper()}{end[1:]}", f"after {count(moves)} moves")
    known = {move: value for move, value in values.items() if isfinite(value)}
    if not known:
        return ()
    best = max(known.values())
    top, low = [move for move in known if known[move] == best], min(known, key=known.__getitem__)
    note = f" ({notes[top[0]]})" if notes.get(top[0]) else ""
    if len(top) == len(known):
        return (f"{mover} is to move: all {len(known)} moves are worth {with_sign(best)}{note}",)
    name = top[0] if len(top) == 1 else f"{len(top)} of {len(known)} moves"
    verb = "is" if len(top) == 1 else "are"
    by = f" for {whose}" if whose else ""
    return (
        f"{mover} is to move: {name} {verb} best, {with_sign(best)}{by}{note}",
        f"{low} worst, {with_sign(known[low])}",
    )


def with_sign(value: float) -> str:
    """ "+.31" or "−.12"; "0" without a sign."""
    return f"{'+' if value > 0 else ''}{compact(value, 3)}"
