"""Answers to "why this number?" for a prediction: what an RMS error consists of, and what it was at first.

The true values are solved for again from the scenario; the learnt values are in the frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from operator import truediv
from typing import Any

import numpy as np

from txlab.engine.explain import Explanation, Operand, Step, computed, number
from txlab.engine.intervals import covered_by_standard_error
from txlab.engine.rl.dynamic_programming import even
from txlab.engine.rl.exact_values import solved
from txlab.engine.rl.prediction import METHODS, Learned, why_update
from txlab.errors import LabError
from txlab.experiments.kinds.prediction.schema import KINDS, LETTERS, OFF_POLICY, PredictionScenario, depth_of
from txlab.experiments.protocol import Frame
from txlab.experiments.tabular.world import WorldSection, world_of

SOURCE = "Sutton and Barto 2018, figures 6.2 and 12.3"

DEPTHS = {"lam": "0: one step ahead; 1: the whole return", "n": "1: one step ahead; many: the whole return"}

OFF_POLICY_ERRORS = {
    "rms": ("RMS = √( Σ_s d(s) [ V(s) − V^π(s) ]² )", "how far the values are off; it need not fall to 0"),
    "projected": ("√( Σ_s d(s) [ (Π δ)(s) ]² )", "of the part of δ that features can express; TDC, GTD2: towards 0"),
}


def explained(scenario: PredictionScenario, name: str, step: int, values: Mapping[str, float]) -> Explanation | None:
    """Explain what a prediction records at this step; None for anything else."""
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


def _error(scenario: PredictionScenario, label: str, step: int, found: float) -> Explanation | None:
    """For a run that is learnt step by step: the error of one transition."""
    curve = next((each for each in scenario.drawn() if each.name == label), None)
    if curve is None:
        return None
    moved = computed("α δ", "{} · {}", lambda α, δ: α * δ, curve.alpha, found, note="times e(s) in each state")
    return Explanation(
        question=f"why an error of {number(found)} at step {step}?",
        equation="δ = r + γ V(s′) − V(s),  V(s′) = 0 where the episode ended",
        math="M4",
        source="Mehlig; Sutton 1988",
        operands=[Operand("α", curve.alpha, "step size, as it was at first")],
        steps=[
            Step("δ", "", found, "above 0: it went better than V(s) said; the frame of this step has r, V(s′) and V(s)")
        ],
        meaning=[moved],
    )


def _off_policy(what: str, label: str, step: int, values: Mapping[str, float]) -> Explanation:
    """For Baird's counterexample: one of its two errors, beside the other."""
    found, beside = values[f"{what}/{label}"], "projected" if what == "rms" else "rms"
    other = values.get(f"{beside}/{label}")
    meaning = [] if other is None else [Step(beside, f"{beside}/{label}", other, OFF_POLICY_ERRORS[beside][1])]
    equation, note = OFF_POLICY_ERRORS[what]
    return Explanation(
        question=f"why {number(found)} for {label} after step {step}?",
        equation=equation,
        math="M4",
        source="Baird 1995; Sutton and Barto 2018, §11.2–11.7",
        operands=[
            Operand("d(s)", "1 / |S|", "how often the behaviour policy is in each state"),
            Operand("V^π(s)", 0.0, "in every state, which the features can say"),
        ],
        steps=[Step(what, "", found, note)],
        meaning=meaning,
    )


def _weight(name: str, label: str, step: int, found: float) -> Explanation:
    """A weight of Baird's counterexample."""
    return Explanation(
        question=f"why {number(found)} for {name.partition('/')[0]} of {label} after step {step}?",
        equation="V(s) = w · x(s):  V(sᵢ) = 2 wᵢ + w₈ for i = 1 … 6,  V(s₇) = w₇ + 2 w₈",
        math="M4",
        source="Baird 1995; Sutton and Barto 2018, §11.2",
        operands=[],
        steps=[Step("w", "", found, "all V^π are 0, which w = 0 says; semi-gradient updates drive w away from it")],
    )


def _bound(scenario: PredictionScenario, what: str, label: str, values: Mapping[str, float]) -> Explanation:
    """One standard error below or above a mean of RMS errors."""
    found, mean = values[f"{what}/{label}"], values.get(f"rms/{label}")
    runs = scenario.predict.runs
    meaning = (
        []
        if mean is None
        else [computed("s / √n", "|{} − {}|", lambda a, b: abs(a - b), found, mean, note="standard error")]
    )
    return Explanation(
        question=f"why {found:.4g} as a bound of the RMS error of {label}?",
        equation="mean ∓ s / √n,  s² = Σ (RMSᵢ − mean)² / (n − 1)",
        math="M4",
        source=SOURCE,
        operands=[
            Operand("mean", "not recorded" if mean is None else mean, f"rms/{label}: mean over the runs"),
            Operand("n", runs, "runs" if runs < 2 else of_normal(runs)),
        ],
        steps=[Step("mean ∓ s / √n", "", found)],
        meaning=meaning,
    )


def of_normal(runs: int) -> str:
    """What a bound of one standard error says."""
    return f"runs; of normal values, the bounds contain the true mean in {covered_by_standard_error(runs):.0%} of cases"


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
        if depth := depth_of(curve.method):
            operands.append(Operand(LETTERS[depth], curve.depth, DEPTHS[depth]))
        if curve.method in METHODS:
            operands.append(Operand("rule", METHODS[curve.method].formula, METHODS[curve.method].source))
    else:
        operands.append(Operand("setting", "the best so far of this method's grid"))
    ran_away = "" if isfinite(found) else "the values have run away: α is too large for these traces"
    meaning = []
    if curve is None or curve.method != "network":
        line = f"√ mean ({predict.initial:g} − V^π(s))²"
        meaning.append(Step("before", line, before, "with every value as it was at first"))
        if isfinite(found) and before > 0:
            meaning.append(computed("share left", "{} / {}", truediv, found, before))
    if low is not None and high is not None:
        meaning.append(
            computed(
                "standard error", "({} − {}) / 2", lambda a, b: (a - b) / 2, high, low, note="of the mean over runs"
            )
        )
    return Explanation(
        question=f"why an RMS error of {found:.4g} {after}?",
        equation="RMS = √( (1/|S|) Σ_s [ V(s) − V^π(s) ]² ), mean over the runs",
        math="M4",
        source=SOURCE,
        operands=operands,
        steps=[Step("RMS", ran_away, found)],
        meaning=meaning,
    )


def _score(scenario: PredictionScenario, method: str, step: int, found: float) -> Explanation:
    predict = scenario.predict
    over = "mean over the episodes so far" if predict.score == "mean" else "after the last episode"
    axis = scenario.axis
    depths: Sequence[Any] = getattr(predict, axis) if depth_of(method) else [0.0]
    return Explanation(
        question=f"why a score of {found:.4g}?",
        equation=f"score = min over {LETTERS[axis]}, α of the RMS error, {over}",
        math="M4",
        source="Sutton and Barto 2018, figures 12.3, 12.6 and 12.8",
        operands=[
            Operand("method", method),
            Operand(LETTERS[axis], list(depths), "tried"),
            Operand("α", list(predict.alpha), "tried"),
            Operand("episodes", step, "of every run"),
            Operand("runs", predict.runs, "all settings learn from the same ones"),
        ],
        steps=[
            Step("settings", f"{len(depths)} · {len(predict.alpha)}", len(depths) * len(predict.alpha)),
            Step("score", "the smallest RMS error of all settings", found),
        ],
    )


def explained_value(frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
    """Explain i/v of a state: by the last update if it was of this state, else beside the true value.

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
    found = float(np.asarray(frame.tensors[tensor])[state])
    if what == "trace":
        decay = about["gamma"] * about["lam"]
        return Explanation(
            question=f"why a trace of {found:.4g} at {name}?",
            equation=equation,
            math="M4",
            source=source,
            operands=[
                Operand("γ", about["gamma"], "discount"),
                Operand("λ", about["lam"], "how slowly traces fade"),
                Operand("α", about["alpha"], "step size"),
            ],
            steps=[
                Step("γλ", f"{about['gamma']:g} · {about['lam']:g}", decay, "what is left of a trace after a step"),
                Step("e(s)", "γλ e of the step before, and this step's visit", found),
            ],
            meaning=[
                Step("α e", f"{about['alpha']:g} · {found:.4g}", about["alpha"] * found, "the share of the next δ"),
            ],
        )
    last = frame.facts["last"][side]
    if last is not None and last["state"] == state:
        kind = KINDS[about["rule"]]
        return why_update(Learned(**last["learned"]), kind, about["alpha"], about["lam"], about["gamma"], names)
    true = float(np.asarray(frame.tensors["true/v"])[state])
    meaning = [
        computed("error", "{} − {}", lambda a, b: a - b, found, true, note="its square is a part of the RMS error")
    ]
    if f"{side}/spread" in frame.tensors:
        spread = float(np.asarray(frame.tensors[f"{side}/spread"])[state])
        meaning.append(Step("spread", "√ mean over the runs of (V − mean V)²", spread, "so far off is one run"))
    return Explanation(
        question=f"why is {name} worth {found:.4g}, by {about['label']}?",
        equation=equation,
        math="M4",
        source=source,
        operands=[
            Operand("V^π(s)", true, "true, of the policy that is evaluated"),
            Operand("α", about["alpha"], "step size"),
            *(
                [Operand("n", about["n"], DEPTHS["n"])]
                if "n" in about
                else [Operand("λ", about["lam"], "how far back an error is carried")]
            ),
        ],
        steps=[Step("V(s)", "", found, str(frame.facts.get("values", "")))],
        meaning=meaning,
    )
