"""Answers to "why this number?" for a prediction: the parts of an RMS error, and its initial value.

The true values are solved for again from the scenario; the learnt values are in the frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from operator import mul, sub, truediv
from typing import Any

import numpy as np

from txlab.engine.explain import Explaining, Explanation, Step, compute_step, number
from txlab.engine.intervals import covered_by_standard_error
from txlab.engine.rl.dynamic_programming import even
from txlab.engine.rl.exact_values import solve_values
from txlab.engine.rl.prediction import METHODS, Learned, why_update
from txlab.errors import LabError
from txlab.experiments.kinds.prediction.schema import KINDS, LETTERS, OFF_POLICY, PredictionScenario, depth_of
from txlab.experiments.protocol import Frame
from txlab.experiments.tabular.world import WorldSection, world_of

SOURCE = "Sutton and Barto 2018, figures 6.2 and 12.3"

DEPTHS = {"lam": "0: one step ahead; 1: the whole return", "n": "1: one step ahead; many: the whole return"}

OFF_POLICY_ERRORS = {
    "rms": ("RMS = √( Σ_s d(s) [ V(s) − V^π(s) ]² )", "how far the values are off; it does not have to fall to 0"),
    "projected": ("√( Σ_s d(s) [ (Π δ)(s) ]² )", "of the part of δ that features can express; TDC, GTD2: towards 0"),
}


def explain_metric(
    scenario: PredictionScenario, name: str, step: int, values: Mapping[str, float]
) -> Explanation | None:
    """Explain a prediction's metric at this step; None for any other."""
    what, _, label = name.partition("/")
    if name not in values:
        return None
    if scenario.off_policy:
        if what in ("rms", "projected"):
            return _off_policy(what, label, step, values)
        return _weight(name, label, step, values[name]) if what[0] == "w" and what[1:].isdigit() else None
    if what == "rms":
        return _rms(scenario, label, step, values)
    if what in ("rms_low", "rms_high"):
        return _bound(scenario, what, label, values)
    if what == "score":
        return _score(scenario, label, step, values[name])
    if what == "delta":
        return _error(scenario, label, step, values[name])
    return None


def _error(scenario: PredictionScenario, label: str, step: int, error: float) -> Explanation | None:
    """For a run that is learnt step by step: the error of one transition."""
    curve = next((each for each in scenario.curves_to_draw() if each.name == label), None)
    if curve is None:
        return None
    why = Explaining(f"why an error of {number(error)} at step {step}?", error)
    why.equation("δ = r + γ V(s′) − V(s),  V(s′) = 0 where the episode ended", "M4", "Mehlig; Sutton 1988")
    why.input("α", curve.alpha, "step size, as it was at first")
    why.measurement("δ", "above 0: it went better than V(s) said; the frame of this step has r, V(s′) and V(s)")
    why.means(compute_step("α δ", "{} · {}", mul, curve.alpha, error, note="times e(s) in each state"))
    return why.result()


def _off_policy(what: str, label: str, step: int, values: Mapping[str, float]) -> Explanation:
    """For Baird's counterexample: one of its two errors, compared with the other."""
    error, beside = values[f"{what}/{label}"], "projected" if what == "rms" else "rms"
    other = values.get(f"{beside}/{label}")
    equation, note = OFF_POLICY_ERRORS[what]
    why = Explaining(f"why {number(error)} for {label} after step {step}?", error)
    why.equation(equation, "M4", "Baird 1995; Sutton and Barto 2018, §11.2–11.7")
    why.input("d(s)", "1 / |S|", "how often the behaviour policy is in each state")
    why.input("V^π(s)", 0.0, "in every state, which the features can say")
    why.measurement(what, note)
    if other is not None:
        why.means(Step(beside, f"{beside}/{label}", other, OFF_POLICY_ERRORS[beside][1]))
    return why.result()


def _weight(name: str, label: str, step: int, weight: float) -> Explanation:
    """A weight of Baird's counterexample."""
    why = Explaining(f"why {number(weight)} for {name.partition('/')[0]} of {label} after step {step}?", weight)
    equation = "V(s) = w · x(s):  V(sᵢ) = 2 wᵢ + w₈ for i = 1 … 6,  V(s₇) = w₇ + 2 w₈"
    why.equation(equation, "M4", "Baird 1995; Sutton and Barto 2018, §11.2")
    why.measurement("w", "all V^π are 0, which w = 0 says; semi-gradient updates drive w away from it")
    return why.result()


def _bound(scenario: PredictionScenario, what: str, label: str, values: Mapping[str, float]) -> Explanation:
    """One standard error below or above a mean of RMS errors."""
    bound, mean = values[f"{what}/{label}"], values.get(f"rms/{label}")
    runs = scenario.predict.runs
    why = Explaining(f"why {bound:.4g} as a bound of the RMS error of {label}?", bound)
    why.equation("mean ∓ s / √n,  s² = Σ (RMSᵢ − mean)² / (n − 1)", "M4", SOURCE)
    why.input("mean", "not recorded" if mean is None else mean, f"rms/{label}: mean over the runs")
    why.input("n", runs, "runs" if runs < 2 else of_normal(runs))
    why.measurement("mean ∓ s / √n")
    if mean is not None:
        why.means(compute_step("s / √n", "|{} − {}|", lambda a, b: abs(a - b), bound, mean, note="standard error"))
    return why.result()


def of_normal(runs: int) -> str:
    """The meaning of a bound of one standard error."""
    return f"runs; of normal values, the bounds contain the true mean in {covered_by_standard_error(runs):.0%} of cases"


def _rms(scenario: PredictionScenario, label: str, step: int, values: Mapping[str, float]) -> Explanation:
    predict, error = scenario.predict, values[f"rms/{label}"]
    curve = next((each for each in scenario.curves_to_draw() if each.name == label), None)
    process = world_of(scenario.world).process
    true = solve_values(process, even(process), process.discount)[~process.terminal]
    before = float(np.sqrt(np.mean((predict.initial - true) ** 2)))
    low, high = values.get(f"rms_low/{label}"), values.get(f"rms_high/{label}")
    runs = 1 if predict.watch else predict.runs
    after = f"after {step} step{'' if step == 1 else 's'}" if predict.watch else f"after episode {step}"
    why = Explaining(f"why an RMS error of {error:.4g} {after}?", error)
    why.equation("RMS = √( (1/|S|) Σ_s [ V(s) − V^π(s) ]² ), mean over the runs", "M4", SOURCE)
    why.input("V^π", [float(v) for v in true], "the true values under the policy that chooses evenly")
    why.input("|S|", len(true), "non-terminal states")
    why.input("runs", runs, "each with an error of its own, of which this is the mean")
    if curve is not None:
        why.input("α", curve.alpha, "step size")
        if depth := depth_of(curve.method):
            why.input(LETTERS[depth], curve.depth, DEPTHS[depth])
        if curve.method in METHODS:
            why.input("rule", METHODS[curve.method].formula, METHODS[curve.method].source)
    else:
        why.input("setting", "the best so far of this method's grid")
    ran_away = "" if isfinite(error) else "the values have run away: α is too large for these traces"
    why.measurement("RMS", expression=ran_away)
    if curve is None or curve.method != "network":
        line = f"√ mean ({predict.initial:g} − V^π(s))²"
        why.means(Step("before", line, before, "with every value as it was at first"))
        if isfinite(error) and before > 0:
            why.means(compute_step("share left", "{} / {}", truediv, error, before))
    if low is not None and high is not None:
        form, note = "({} − {}) / 2", "of the mean over runs"
        why.means(compute_step("standard error", form, lambda a, b: (a - b) / 2, high, low, note=note))
    return why.result()


def _score(scenario: PredictionScenario, method: str, step: int, score: float) -> Explanation:
    predict = scenario.predict
    over = "mean over the episodes so far" if predict.score == "mean" else "after the last episode"
    axis = scenario.axis
    depths: Sequence[Any] = getattr(predict, axis) if depth_of(method) else [0.0]
    why = Explaining(f"why a score of {score:.4g}?", score)
    source = "Sutton and Barto 2018, figures 12.3, 12.6 and 12.8"
    why.equation(f"score = min over {LETTERS[axis]}, α of the RMS error, {over}", "M4", source)
    why.input("method", method)
    why.input(LETTERS[axis], list(depths), "tried")
    why.input("α", list(predict.alpha), "tried")
    why.input("episodes", step, "of every run")
    why.input("runs", predict.runs, "all settings learn from the same ones")
    why.compute("settings", "{} · {}", mul, len(depths), len(predict.alpha))
    why.measurement("score", expression="the smallest RMS error of all settings")
    return why.result()


def explain_value(frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
    """Explain i/v of a state: by the last update if it was of this state, else compared with the true value.

    For i/trace of a state: the share of the next error that it takes. LabError for another tensor.
    """
    number, _, what = tensor.partition("/")
    if what not in ("v", "trace") or not number.isdigit() or tensor not in frame.tensors:
        raise LabError(f"{tensor} has no explanation; allowed: the values and traces of a side, 0/v, 0/trace …")
    side, state = int(number), index[0]
    about = frame.facts["sides"][side]
    names = world_of(WorldSection.model_validate(frame.facts["world"])).process.states
    name = names[state]
    rule = METHODS.get(about["rule"])
    equation = rule.formula if rule else "w ← w + α δ e"
    source = rule.source if rule else "Sutton and Barto 2018, chapter 11" if about["rule"] in OFF_POLICY else "Mehlig"
    value = float(np.asarray(frame.tensors[tensor])[state])
    if what == "trace":
        why = Explaining(f"why a trace of {value:.4g} at {name}?", value)
        why.equation(equation, "M4", source)
        why.input("γ", about["gamma"], "discount")
        why.input("λ", about["lam"], "how slowly traces fade")
        why.input("α", about["alpha"], "step size")
        left = "decay of a trace per step"
        why.compute("γλ", "{} · {}", mul, about["gamma"], about["lam"], note=left)
        why.measurement("e(s)", expression="γλ e of the step before, and this step's visit")
        why.means(compute_step("α e", "{} · {}", mul, about["alpha"], value, note="the share of the next δ"))
        return why.result()
    last = frame.facts["last"][side]
    if last is not None and last["state"] == state:
        kind = KINDS[about["rule"]]
        return why_update(Learned(**last["learned"]), kind, about["alpha"], about["lam"], about["gamma"], names)
    true = float(np.asarray(frame.tensors["true/v"])[state])
    why = Explaining(f"why is {name} worth {value:.4g}, by {about['label']}?", value)
    why.equation(equation, "M4", source)
    why.input("V^π(s)", true, "true, of the policy that is evaluated")
    why.input("α", about["alpha"], "step size")
    if "n" in about:
        why.input("n", about["n"], DEPTHS["n"])
    else:
        why.input("λ", about["lam"], "how far back an error is carried")
    why.measurement("V(s)", str(frame.facts.get("values", "")))
    why.means(compute_step("error", "{} − {}", sub, value, true, note="its square is a part of the RMS error"))
    if f"{side}/spread" in frame.tensors:
        spread = float(np.asarray(frame.tensors[f"{side}/spread"])[state])
        why.means(Step("spread", "√ mean over the runs of (V − mean V)²", spread, "so far off is one run"))
    return why.result()
