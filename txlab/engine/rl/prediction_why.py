"""An update of TD(λ) as it is written, with its numbers under the letters, and as an answer to "why?" (MATH M4).

Notable: nothing is computed again from weights that have moved on; all is read from the record of the update.
"""

from __future__ import annotations

from collections.abc import Sequence

from txlab.engine.explain import Explanation, Operand, Step
from txlab.engine.rl.prediction import Learned, TraceKind
from txlab.engine.rl.update import Term, terms

FORMULAS: dict[TraceKind, str] = {
    "accumulating": "V(s) ← V(s) + α [ r + γ V(s′) − V(s) ] e(s),  e ← γλ e, then e(s) ← e(s) + 1",
    "replacing": "V(s) ← V(s) + α [ r + γ V(s′) − V(s) ] e(s),  e ← γλ e, then e(s) ← 1",
    "true-online": "V(s) ← V(s) + α (δ + V(s) − V_old) e(s) − α (V(s) − V_old),  e(s) ← γλ e(s) + 1 − α γλ e(s)",
}
SOURCES: dict[TraceKind, str] = {
    "accumulating": "Mehlig; Sutton 1988",
    "replacing": "Singh and Sutton 1996",
    "true-online": "van Seijen and Sutton 2014",
}


def terms_of(update: Learned, kind: TraceKind, alpha: float, gamma: float) -> list[Term]:
    """The rule piece by piece, for a table: V(s) stands for O(s)."""
    here, by_trace = ("V(s)", update.here), ("e(s)", update.trace)
    head = (("V(s)", update.after), "←", here, "+", ("α", alpha))
    if kind == "true-online":
        moved = (here, "−", ("V_old", update.old))
        return terms(*head, "(", ("δ", update.delta), "+", *moved, ")", by_trace, "−", ("α", alpha), "(", *moved, ")")
    error = (("r", update.reward), "+", ("γ", gamma), "·", ("V(s′)", update.there), "−", here)
    return terms(*head, "[", *error, "]", by_trace)


def why_update(
    update: Learned, kind: TraceKind, alpha: float, lam: float, gamma: float, names: Sequence[str]
) -> Explanation:
    """Why V(s) is what it is since this update; `names` are those of the states."""
    here, there = names[update.state], names[update.following]
    ends = "the episode ended: nothing follows" if update.ended else f"the value of {there}, bootstrapped"
    steps = [
        Step(
            "δ",
            f"{update.reward:.4g} + {gamma:g} · {update.there:.4g} − {update.here:.4g}",
            update.delta,
            "the error of this step; every state takes its share α e of it",
        )
    ]
    if kind == "true-online":
        moved = update.here - update.old
        expression = f"{update.here:.4g} + {alpha:g} · ({update.delta:.4g} + {moved:.4g}) · {update.trace:.4g}"
        steps.append(Step("V(s)", f"{expression} − {alpha:g} · {moved:.4g}", update.after))
    else:
        expression = f"{update.here:.4g} + {alpha:g} · {update.delta:.4g} · {update.trace:.4g}"
        steps.append(Step("V(s)", expression, update.after))
    operands = [
        Operand("V(s)", update.here, f"{here}, before"),
        Operand("r", update.reward, "what the step paid"),
        Operand("V(s′)", update.there, ends),
        Operand("α", alpha, "step size"),
        Operand("γ", gamma, "discount"),
        Operand("λ", lam, "how slowly traces fade: e ← γλ e each step"),
        Operand("e(s)", update.trace, "the trace, this visit included"),
    ]
    if kind == "true-online":
        operands.append(Operand("V_old", update.old, "what s was worth when it was arrived at"))
    return Explanation(
        question=f"why is {here} worth {update.after:.4g}?",
        equation=FORMULAS[kind],
        math="M4",
        source=SOURCES[kind],
        operands=operands,
        steps=steps,
        result=update.after,
    )
