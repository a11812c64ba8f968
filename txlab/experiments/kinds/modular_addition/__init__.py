"""The kind "modular-addition": a transformer that learns (a + b) mod p from a share of all pairs, by heart at first and
by waves later (MATH T9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar

from txlab.engine.explain import Explaining, Explanation, Step, compute_step
from txlab.experiments.kinds.modular_addition.schema import STRONGEST, AdditionScenario
from txlab.experiments.learning.explanations import MeanLoss, explain_attention, explain_step
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Experiment, Frame
from txlab.experiments.untimed import UntimedKind

MEANINGS = {
    "accuracy": ("share of the pairs whose sum is the likeliest", "T9", "of the pairs it learns from; chance is 1/p"),
    "val_accuracy": ("share of the pairs whose sum is the likeliest", "T9", "of the pairs it never sees"),
    "fourier": (
        "Σ_{k in the strongest} e(k) / Σₖ e(k),  e(k) = ‖Σₐ (W_E[a] − mean) exp(−2πi k a / p)‖²",
        "K3, T9",
        f"k = 1 … (p − 1)/2; the {STRONGEST} strongest frequencies of the numbers' embedding",
    ),
}


class ModularAdditionKind(UntimedKind):
    name = "modular-addition"
    networks = True
    any_device = True
    title = "Modular addition"
    attends = True
    draws = True
    schema = AdditionScenario
    METRICS = (
        Metric("val_loss", "nats", "val", less=True, primary=True),
        Metric("loss", "nats", less=True, primary=True),
        Metric("accuracy", label="right", note="of the pairs it learns from", less=False),
        Metric("val_accuracy", label="right", note="of the pairs it never sees", less=False, primary=True),
        Metric("fourier", label="waves", note=f"of W_E in {STRONGEST} frequencies", primary=True),
    )
    mean: ClassVar[MeanLoss] = MeanLoss("L = −(1/n) Σ ln p((a + b) mod p | a, b)", "T9", "the pairs", "signs")

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        resolved = super().resolve(scenario, say)
        return resolved.model_copy(update={"compute": resolved.compute.model_copy(update={"attention": "sdpa"})})

    def experiment(self, scenario: Any) -> Experiment:
        from txlab.experiments.kinds.modular_addition.experiment import AdditionExperiment

        return AdditionExperiment(scenario)

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        if not isfinite(values[name]):
            return None
        if name not in MEANINGS:
            return explain_step(scenario, self.mean, name, values, step, facts)
        value, (equation, math, note) = values[name], MEANINGS[name]
        p, n = scenario.data.modulus, scenario.data.pairs
        why = Explaining(f"why is {name} {value:.4g} at step {step}?", value)
        why.equation(equation, math, f"Nanda et al. 2023: {note}")
        why.input("p", p, "the modulus")
        why.measurement(name)
        if name == "fourier":
            few = min(1.0, 2 * STRONGEST / (p - 1))
            why.means(Step("even", f"{STRONGEST} / {(p - 1) // 2}", few, "were all frequencies as strong"))
        else:
            n = n if name == "accuracy" else p * p - n
            why.input("n", n, "pairs: all of them, so chance has no part in it")
            why.means(Step("right", f"{value:.6g} · {n}", value * n, "pairs"))
        return why.result()

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """As `explain_attention`, and curve/energy [k − 1], the share of frequency k in the rows of W_E."""
        if tensor != "curve/energy" or tensor not in frame.tensors:
            return explain_attention(frame, tensor, index)
        shares = [float(each) for each in frame.tensors[tensor]]
        k, share = int(index[0]) + 1, shares[int(index[0])]
        why = Explaining(f"why has frequency {k} the share {share:.4g}?", share)
        why.equation("e(k) = ‖Σₐ W[a] exp(−2πi k a / p)‖² / Σ", "K3, T9", "the rows of W_E as waves")
        why.input("frequencies", len(shares), "k and p − k are the same wave")
        others = sum(shares) - share
        why.input("others", others, "the shares of all other frequencies together")
        why.compute("e(k)", "1 − {}", lambda others: 1 - others, others)
        why.means(compute_step("even", "1 / {}", lambda n: 1 / n, len(shares), note="were all as strong"))
        return why.result()


KIND = ModularAdditionKind()
