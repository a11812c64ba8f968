"""Over-optimisation of a reward model, seed by seed: measured by `txlab verify rlhf` (MATH H4, H5).

Each seed is an independent experiment: demonstrations, a fine-tuned model, 250 rankings of 6 answers by a simulated
labeller, a reward model, and a policy for each β; and once more a reward model that saw only 20 rankings, followed with
β = 0. The claims are counted over the seeds; the remark has the means with Student's 95 % intervals, and the first
experiment's. Such an interval assumes roughly normal values; five seeds cannot show whether they are.

Notable: "at the end" is the mean over the last five updates, since the gold score of 64 answers varies by about .3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from txlab.engine.intervals import student_quantile
from txlab.experiments.reference_numbers import Figures, Measured, Say, claimed

FIGURES = Figures()

SEEDS = 5
FEW = 20  # rankings of the undertrained reward model
LAST = 5  # updates that "at the end" is the mean of
COUNTS = (20, 40, 80, 150, 250)  # rankings taken before the accuracy is reported

FIRST = {
    "β = .3": (0.90, 2.2, -0.28, 0.96, 3.5),
    "β = .05": (0.88, 2.4, -0.16, 1.86, 7.6),
    "β = 0": (0.90, 4.0, -0.28, -4.0, 64.0),
    "β = 0, few": (0.68, 2.3, -0.19, -2.0, 145.0),
}
"""policy → reward model's accuracy, proxy at the end, gold at the start and at the end, KL at the end, of one seed of
the first experiment, with a smaller model and another grammar of reviews; the settings here come from it"""
BETAS = {0.3: "β = .3", 0.05: "β = .05", 0.0: "β = 0"}


@dataclass(frozen=True)
class Followed:
    """A policy and the reward model that it followed: a row of the table."""

    accuracy: float
    proxy: float
    gold_before: float
    gold: float
    kl: float


@dataclass(frozen=True)
class Outcome:
    """What one seed gave. curve: accuracy after each number of rankings in COUNTS, while they come in."""

    followed: dict[str, Followed]
    curve: tuple[float, ...]


def outcome(seed: int, say: Say = lambda text: None) -> Outcome:
    """All four policies of a seed; some five minutes on one core."""
    many = build({"seed": seed, "policy": {"betas": list(BETAS)}})
    rows, curve, accuracy = run_to_end(many, lambda text: say(f"seed {seed}, {text}"))
    followed = {BETAS[beta]: summary(rows[beta], accuracy, f"/β={beta:g}") for beta in BETAS}
    few = build({"seed": seed, "demonstrations": {"steps": 0}, "rankings": {"steps": FEW}, "policy": {"betas": [0.0]}})
    few.handed.fine_tuned = many.handed.fine_tuned
    rows, _, accuracy = run_to_end(few, lambda text: say(f"seed {seed}, {FEW} rankings, {text}"))
    return Outcome(followed | {"β = 0, few": summary(rows[0.0], accuracy)}, curve)


def build(changes: dict[str, Any]) -> Any:
    """The experiment of the default scenario with these changes, on one thread."""
    from txlab.experiments.kinds.human_feedback import KIND
    from txlab.experiments.kinds.human_feedback.schema import HumanFeedbackScenario

    return KIND.build(HumanFeedbackScenario.model_validate({**changes, "compute": {"threads": 1}}))


def run_to_end(experiment: Any, say: Say) -> tuple[dict[float, list[dict[str, float]]], tuple[float, ...], float]:
    """Take all steps: (β → rows of metrics, accuracies at COUNTS, accuracy of the finished reward model)."""
    rows: dict[float, list[dict[str, float]]] = defaultdict(list)
    curve, accuracy = [], float("nan")
    while experiment.step_count < experiment.steps:
        metrics = experiment.step()
        name, steps, beta = experiment.plan[experiment.number]
        say(f"{name}: step {experiment.within} of {steps}")
        if name == "policy":
            rows[beta].append({metric: float(value) for metric, value in metrics.items()})
        elif name == "rankings" and (experiment.within in COUNTS or experiment.within == steps):
            accuracy = float(experiment.evaluate()["val_accuracy"])
            curve += [accuracy] * (experiment.within in COUNTS)
    return rows, tuple(curve), accuracy


def summary(rows: Sequence[dict[str, float]], accuracy: float, end: str = "") -> Followed:
    def last(name: str) -> float:
        return float(np.mean([row[name + end] for row in rows[-LAST:]]))

    return Followed(accuracy, last("proxy"), rows[0][f"gold{end}"], last("gold"), last("kl"))


@FIGURES.measured_by(
    "goodhart",
    f"over-optimisation of a reward model, {SEEDS} seeds: 250 rankings of 6 answers, 60 updates of PPO",
    "Gao, Schulman & Hilton 2023, of whose finding this is a small instance",
    [
        claimed("seeds whose reward model has 250 rankings and is right on ≥ .85 of unseen pairs", SEEDS),
        claimed("seeds whose gold score rises by ≥ 1.5 with β = .05", SEEDS),
        claimed("seeds whose proxy ends higher with β = 0 than with β = .05", SEEDS),
        claimed("seeds whose gold score ends lower with β = 0 than with β = .05", SEEDS),
    ],
    seconds=350 * SEEDS,
)
def goodhart(say: Say) -> list[Measured]:
    outcomes = [outcome(seed, say) for seed in range(SEEDS)]
    held, free = [[each.followed[name] for each in outcomes] for name in ("β = .05", "β = 0")]
    pairs = list(zip(held, free, strict=True))
    counts = [
        sum(each.accuracy >= 0.85 for each in held),
        sum(each.gold - each.gold_before >= 1.5 for each in held),
        sum(b.proxy > a.proxy for a, b in pairs),
        sum(b.gold < a.gold for a, b in pairs),
    ]
    measured = [Measured(float(count)) for count in counts]
    return [*measured[:-1], Measured(measured[-1].value, remark=remark(outcomes))]


HEADS = ("accuracy", "proxy", "gold at first", "gold", "KL")


def remark(outcomes: Sequence[Outcome]) -> str:
    """The table of means with Student's 95 % intervals, and below it the accuracies while rankings came in."""
    lines = [align_row(f"mean of {len(outcomes)} ± 95 % (t)", HEADS)]
    for name, first in FIRST.items():
        rows = [each.followed[name] for each in outcomes]
        columns = [[getattr(row, field) for row in rows] for field in Followed.__dataclass_fields__]
        lines.append(align_row(name, map(interval, columns)))
        lines.append(align_row("  first experiment", [f"{value:.2f}" for value in first]))
    curve = np.array([each.curve for each in outcomes]).T
    lines.append(align_row("rankings taken in", map(str, COUNTS)))
    lines.append(align_row("accuracy then", map(interval, curve)))
    return "\n".join(lines)


def align_row(name: str, cells: Iterable[str]) -> str:
    return f"{name:20}" + "".join(f"{cell:>15}" for cell in cells)


def interval(values: Sequence[float]) -> str:
    """
    >>> interval([1.0, 2.0, 3.0, 4.0, 5.0])
    '3.00 ± 1.96'
    """
    half = student_quantile(len(values)) * np.std(values, ddof=1) / sqrt(len(values))
    return f"{np.mean(values):.2f} ± {half:.2f}"
