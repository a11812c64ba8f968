"""Feedback: what a reward model has learnt from rankings, and what optimising it has done to the real score."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import count, number, share

Metric = tuple[np.ndarray, np.ndarray]
"""(steps, values)"""


def stage(name: str, series: Mapping[str, Metric], mark: str, rankings: int) -> Sentence:
    """What is to be seen in a stage: "demonstrations", "rankings", "policy".

    series   metric → its values up to the shown step     mark   the suffix of the shown policy's, "/β=0.05" or ""
    """
    if name == "policy":
        return policy(series, mark)
    if name == "rankings":
        return reward(series, rankings)
    first, last = ends(series, "loss")
    said = f"The model's loss {way(first, last)} from {number(first, 3)} to {number(last, 3)} nats"
    return (said,) if np.isfinite(last) else ()


def reward(series: Mapping[str, Metric], rankings: int) -> Sentence:
    """ "After 40 rankings the reward model agrees with .84 of the unseen ones", "at first with .52" """
    first, last = ends(series, "val_accuracy")
    if not np.isfinite(last):
        return ()
    when = f"After {count(rankings)} ranking{'s' * (rankings != 1)} the" if rankings else "The"
    said = f"{when} reward model agrees with {share(last)} of the unseen answers"
    return (said, f"at first with {share(first)}") if first != last else (said,)


def policy(series: Mapping[str, Metric], mark: str = "") -> Sentence:
    """ "The proxy rose to 2.31, gold fell from its best 0.84 to −0.1", "at a KL of 12.3 nats" """
    first, last = ends(series, "proxy" + mark)
    gold = finite(series, "gold" + mark)
    if not np.isfinite(last):
        return ()
    beta = f"{mark.removeprefix('/').replace('=', ' = ')}: t" if mark else "T"
    said = f"{beta}he proxy {way(first, last)} to {number(last, 3)}"
    if len(gold):
        best, now = float(gold.max()), float(gold[-1])
        said += f", gold is best now, {number(now, 3)}" if now == best else ""
        said += f", gold fell from its best {number(best, 3)} to {number(now, 3)}" if now < best else ""
    kl = finite(series, "kl" + mark)
    return (said, f"at a KL of {number(float(kl[-1]), 3)} nats") if len(kl) else (said,)


def way(first: float, last: float) -> str:
    return "rose" if last > first else "fell" if last < first else "went"


def finite(series: Mapping[str, Metric], name: str) -> np.ndarray:
    values = np.asarray(series.get(name, ((), ()))[1], np.float64)
    kept: np.ndarray = values[np.isfinite(values)]
    return kept


def ends(series: Mapping[str, Metric], name: str) -> tuple[float, float]:
    """The first and the last finite value; NaN where there is none."""
    values = finite(series, name)
    return (float(values[0]), float(values[-1])) if len(values) else (np.nan, np.nan)
