"""Lab and Train: what the runs are doing, and where the curve of a metric has got to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from txlab.drawing.captions.sentence import Sentence
from txlab.drawing.formatting import count, duration, number
from txlab.experiments.metric import short
from txlab.runs.summary import GOING, RunSummary

KEPT = 0.005  # of the range of a curve, a smaller change is none


def runs(known: Sequence[RunSummary], total: int, scenarios: int) -> Sentence:
    """ "gpt-docs is at step 1 240 of 5 000", "loss 2.113", "9m40s to go", "1 more is running"

    known       the runs that have been read, of `total` in the folder
    scenarios   those of the catalogue
    """
    if not known:
        return (f"No run yet: each of the {count(scenarios)} scenarios starts one",) if scenarios and not total else ()
    going = [run for run in known if run.status in GOING]
    newest = max(going or known, key=lambda run: run.created)
    name = newest.label.name or newest.scenario or newest.name
    value = f"{short(newest.metric)} {number(newest.value)}" if newest.value is not None and newest.metric else ""
    if going:
        of = f" of {count(newest.steps)}" if newest.steps else ""
        first = f"{name} is at step {count(newest.step)}{of}"
        rest = [value] if value else []
        rest += [f"{duration(newest.seconds_left)} to go"] if newest.seconds_left else []
        more = len(going) - 1
        return (first, *rest, *([f"{more} more {'is' if more == 1 else 'are'} running"] if more else []))
    verb = {"done": "ended", "stopped": "was stopped", "failed": "failed", "interrupted": "was interrupted"}
    first = f"The newest of {count(total)} runs, {name}," if total > 1 else f"The run {name}"
    first += f" {verb.get(newest.status, 'ended')} at step {count(newest.step)}"
    rest = [value] if value else []
    failed = sum(run.status == "failed" for run in known)
    return (first, *rest, *([f"{count(failed)} of all failed"] if failed and len(known) == total > 1 else []))


def curve(
    name: str,
    unit: str,
    less: bool | None,
    line: tuple[np.ndarray, np.ndarray],
    unseen: tuple[np.ndarray, np.ndarray] | None = None,
    at: int | None = None,
) -> Sentence:
    """ "The loss has fallen from 3.51 to 0.0379 nats in 450 steps", "on unseen data 0.038, the best so far"

    line, unseen   (steps, values) of a metric and of the same on unseen data, up to step `at`; None = all
    less           whether less is better
    """
    steps, values = finite_until(*line, at)
    if len(values) < 2:
        return ()
    first, last, what = float(values[0]), float(values[-1]), name.replace("_", " ")
    span, unit = float(np.ptp(values)), f" {unit}" if unit and what not in unit else ""  # "return of an episode"
    if abs(last - first) <= KEPT * span or span == 0:
        begins = f"The {what} is {number(last)}{unit}, as it was {count(steps[-1] - steps[0])} steps before"
    else:
        way = "fallen" if last < first else "risen"
        taken = int(steps[-1] - steps[0])
        in_steps = f"{count(taken)} step{'s' * (taken != 1)}"
        begins = f"The {what} has {way} from {number(first)} to {number(last)}{unit} in {in_steps}"
    if unseen is None:
        return (begins,)
    steps, values = finite_until(*unseen, at)
    if not len(values):
        return (begins,)
    last = float(values[-1])
    if less is None or len(values) < 2:
        return begins, f"on unseen data {number(last)}"
    best = int(values.argmin() if less else values.argmax())
    rank = f"its best was {number(float(values[best]))} at step {count(steps[best])}"
    rank = "the best so far" if values[best] == last else rank
    return begins, f"on unseen data {number(last)}", rank


def family(
    name: str,
    unit: str,
    less: bool | None,
    lines: Sequence[tuple[str, np.ndarray, np.ndarray]],
    at: int | None = None,
    across: str = "step",
) -> Sentence:
    """ "At step 500 expected-sarsa has the best return, −23.1", "q-learning the worst, −50.51"

    lines   (label, steps, values) of curves that are drawn together
    """
    ends = [(label, *finite_until(steps, values, at)) for label, steps, values in lines]
    known = [(label, int(steps[-1]), float(values[-1])) for label, steps, values in ends if len(values)]
    if len(known) < 2:
        return ()
    known.sort(key=lambda each: each[2], reverse=less is not True)
    (best, _, most), (worst, _, least) = known[0], known[-1]
    words = ("highest", "lowest") if less is None else ("best", "worst")
    step = max(each[1] for each in known)
    if most == least:
        return (f"At {across} {count(step)} all {len(known)} are at {number(most)}{f' {unit}' if unit else ''}",)
    first = f"At {across} {count(step)} {best} has the {words[0]} {name.replace('_', ' ')}, {number(most)}"
    return first, f"{worst} the {words[1]}, {number(least)}"


def finite_until(steps: np.ndarray, values: np.ndarray, at: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the finite values up to a step, with their steps."""
    steps, values = np.asarray(steps), np.asarray(values, np.float64)
    kept = np.isfinite(values) if at is None else np.isfinite(values) & (steps <= at)
    return steps[kept], values[kept]
