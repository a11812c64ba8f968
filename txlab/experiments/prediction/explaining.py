"""Answers to "why this number?" for a prediction: what an RMS error is made of, and what it was before anything was learnt.

Notable: the true values are solved for again from the scenario; the values that were learnt are in the frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from txlab.engine.explain import Explanation, Operand, Step
from txlab.engine.rl.dynamic_programming import even
from txlab.engine.rl.linear_values import solved
from txlab.engine.rl.prediction import METHODS
from txlab.experiments.decisions.world import world_of
from txlab.experiments.prediction.schema import WITHOUT_LAMBDA, PredictionScenario
from txlab.experiments.protocol import Frame

SOURCE = "Sutton and Barto 2018, figures 6.2 and 12.3"


def explained(
    scenario: PredictionScenario, name: str, step: int, values: Mapping[str, float]
) -> Explanation | None:
    """Why rms/…, score/… or delta/… is what it is at this step; None for anything else, and for Baird's weights."""
    what, _, label = name.partition("/")
    if name not in values or scenario.off_policy:
        return None
    if what == "rms":
        return _rms(scenario, label, step, values)
    if what == "score":
        return _score(scenario, label, step, values[name])
    return None


def _rms(scenario: PredictionScenario, label: str, step: int, values: Mapping[str, float]) -> Explanation:
    predict, found = scenario.predict, values[f"rms/{label}"]
    curve = next((each for each in scenario.drawn() if each.name == label), None)
    process = world_of(scenario.world).process
    true = solved(process, even(process), process.discount)[~process.terminal]
    before = float(np.sqrt(np.mean((predict.initial - true) ** 2)))
    low, high = values.get(f"rms_low/{label}"), values.get(f"rms_high/{label}")
    runs = 1 if predict.watch else predict.runs
    after = f"after {step} step{'' if step == 1 else 's'}" if predict.watch else f"after episode {step}"
    operands = [
        Operand("V^π", [float(v) for v in true], "the true values under the policy that chooses evenly"),
        Operand("|S|", len(true), "states in which an episode goes on"),
        Operand("runs", runs, "each with an error of its own, of which this is the mean"),
    ]
    if curve is not None:
        operands.append(Operand("α", curve.alpha, "step size"))
        if curve.method not in WITHOUT_LAMBDA:
            operands.append(Operand("λ", curve.lam, "0: one step ahead; 1: the whole return"))
        if curve.method in METHODS:
            operands.append(Operand("rule", METHODS[curve.method].formula, METHODS[curve.method].source))
    else:
        operands.append(Operand("setting", "the best so far of this method's grid"))
    steps = []
    if curve is None or curve.method != "network":
        line = f"√ mean ({predict.initial:g} − V^π(s))²"
        steps.append(Step("before", line, before, "with every value as it was at first"))
        if isfinite(found) and before > 0:
            steps.append(Step("share left", f"{found:.4g} / {before:.4g}", found / before))
    if low is not None and high is not None:
        steps.append(Step("standard error", f"({high:.4g} − {low:.4g}) / 2", (high - low) / 2, "of the mean over runs"))
    if not isfinite(found):
        steps.append(Step("RMS", "the values have run away: α is too large for these traces", found))
    return Explanation(
        question=f"why an RMS error of {found:.4g} {after}?",
        equation="RMS = √( (1/|S|) Σ_s [ V(s) − V^π(s) ]² ), mean over the runs",
        math="M4",
        source=SOURCE,
        operands=operands,
        steps=steps,
        result=found,
    )


def _score(scenario: PredictionScenario, method: str, step: int, found: float) -> Explanation:
    predict = scenario.predict
    over = "mean over the episodes so far" if predict.score == "mean" else "after the last episode"
    lams: Sequence[Any] = [0.0] if method in WITHOUT_LAMBDA else predict.lam
    return Explanation(
        question=f"why a score of {found:.4g}?",
        equation="score = min over λ, α of the RMS error, " + over,
        math="M4",
        source="Sutton and Barto 2018, figures 12.3, 12.6 and 12.8",
        operands=[
            Operand("method", method),
            Operand("λ", list(lams), "tried"),
            Operand("α", list(predict.alpha), "tried"),
            Operand("episodes", step, "of every run"),
            Operand("runs", predict.runs, "all settings learn from the same ones"),
        ],
        steps=[Step("settings", f"{len(lams)} · {len(predict.alpha)}", len(lams) * len(predict.alpha))],
        result=found,
    )


def explained_value(frame: Frame, side: int, state: int) -> Explanation:
    """Why V(state) of a side stands where it stands, beside the true value: its part in the squared error."""
    shown = np.asarray(frame.tensors[f"{side}/v"], dtype=np.float64)
    true = np.asarray(frame.tensors["true/v"], dtype=np.float64)
    v, wanted = float(shown[state]), float(true[state])
    about = frame.facts["sides"][side]
    steps = [Step("error", f"{v:.4g} − {wanted:.4g}", v - wanted), Step("squared", "error²", (v - wanted) ** 2)]
    spread = frame.tensors.get(f"{side}/spread")
    if spread is not None:
        steps.append(Step("spread", "√ mean over runs of (V − mean V)²", float(spread[state]), "one run is so far off"))
    return Explanation(
        question=f"why {v:.4g} for state {state}, {about['label']}?",
        equation=METHODS[about["rule"]].formula if about["rule"] in METHODS else "w ← w + α δ e",
        math="M4",
        source=METHODS[about["rule"]].source if about["rule"] in METHODS else "Mehlig",
        operands=[
            Operand("V(s)", v, str(frame.facts.get("values", ""))),
            Operand("V^π(s)", wanted, "true, under the policy that chooses evenly"),
            Operand("α", about["alpha"], "step size"),
            Operand("λ", about["lam"]),
        ],
        steps=steps,
        result=v,
    )
