"""The kind "superposition": more features than dimensions, kept in directions that are not at right angles (MATH F6,
F3; Elhage et al. 2022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txlab.engine.explain import Explaining, Explanation
from txlab.errors import LabError
from txlab.experiments.kinds.superposition.schema import KEPT, SuperpositionScenario
from txlab.experiments.metric import Metric
from txlab.experiments.protocol import Experiment, Frame
from txlab.experiments.untimed import UntimedKind

MEANINGS = {
    "loss": (
        "L = (1/B) Σ_b Σᵢ rⁱ (xᵢ − x′ᵢ)²,  x′ = ReLU(Wᵀ W x + b)",
        "of the best of the models of this sparsity, on examples that it does not learn from",
    ),
    "features": (f"number of i with ‖Wᵢ‖ > {KEPT}", "Wᵢ is column i of W: features that have a separate direction"),
    "angle": (
        f"min over i ≠ j of arccos(Wᵢ·Wⱼ / ‖Wᵢ‖ ‖Wⱼ‖),  ‖Wᵢ‖, ‖Wⱼ‖ > {KEPT}",
        "90 is a cross, 72 a pentagon; 180 if there are no two",
    ),
}


class SuperpositionKind(UntimedKind):
    name = "superposition"
    networks = True
    any_device = True
    title = "Superposition of features"
    schema = SuperpositionScenario
    screen = "figure"
    draws = True
    METRICS = (
        Metric("loss", less=True, primary=True),
        Metric("loss/", label="loss", title="squared error, of each sparsity", less=True),
        Metric("angle/", "degrees", "angle", "degrees, between neighbours"),
        Metric("features/", label="features", note="with a separate direction"),
    )

    def experiment(self, scenario: Any) -> Experiment:
        from txlab.experiments.kinds.superposition.experiment import SuperpositionExperiment

        return SuperpositionExperiment(scenario)

    def explain_result(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        metric, _, sparsity = name.partition("/")
        if metric not in MEANINGS:
            return None
        equation, note = MEANINGS[metric]
        why = Explaining(f"why is {name} {values[name]:.4g} at step {step}?", values[name])
        why.input("n", scenario.data.features, "features")
        why.input("m", scenario.model.dimensions, "dimensions")
        if sparsity:
            why.input("S", float(sparsity), "a feature is zero with this probability")
        else:
            equation, note = "L = Σ L_model", "of all models, on the batch they learn from; they share no weights"
        why.equation(equation, "F6, F3", f"Elhage et al. 2022: {note}")
        why.measurement(name)
        return why.result()

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """points/S [i]: the part of feature i that is kept, and the interference of the others in its direction."""
        if not tensor.startswith("points/") or tensor not in frame.tensors:
            raise LabError(f"{tensor} has no explanation; allowed: {', '.join(frame.tensors)}")
        import numpy as np

        points = np.asarray(frame.tensors[tensor], dtype=np.float64)  # (n, m)
        i = int(index[0])
        length = float(np.linalg.norm(points[i]))
        onto = points @ points[i] / max(length, 1e-300)  # Ŵᵢ·Wⱼ
        others = float((onto**2).sum() - onto[i] ** 2)
        share = length**2 / max(length**2 + others, 1e-300)
        why = Explaining(f"how much of a dimension has feature {i}?", share, [str(j) for j in range(len(points))], i)
        why.equation(
            "Dᵢ = ‖Wᵢ‖² / Σⱼ (Ŵᵢ · Wⱼ)²,  Ŵᵢ = Wᵢ / ‖Wᵢ‖", "F6", "Elhage et al. 2022, The geometry of superposition"
        )
        why.input("Ŵᵢ · Wⱼ", onto.tolist(), "each feature, in the direction of this one")
        why.step("‖Wᵢ‖²", f"{length:.4g}²", length**2, "1 if it comes back as it went in")
        why.step("interference", "Σ_{j ≠ i} (Ŵᵢ · Wⱼ)²", others, "interference of the others")
        why.step("Dᵢ", f"{length**2:.4g} / {length**2 + others:.4g}", share, "1/2 in a pair, 2/5 in a pentagon")
        return why.result()


KIND = SuperpositionKind()
