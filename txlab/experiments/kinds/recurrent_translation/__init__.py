"""The kind "recurrent-translation": recurrent cells with attention that learn to translate the pairs of the kind
"translation" (MATH R4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from txlab.engine.explain import Explanation, Operand, Step
from txlab.experiments.kinds.recurrent_translation.schema import RecurrentTranslationScenario
from txlab.experiments.kinds.translation import METRICS, explain_exact_match
from txlab.experiments.learning.explanations import MeanLoss, require
from txlab.experiments.learning.kind import GradientKind, Size, explain_size
from txlab.experiments.protocol import Frame
from txlab.experiments.recurrent_states import explain_state

if TYPE_CHECKING:
    from txlab.engine.recurrent.translation import RecurrentTranslatorShape


class RecurrentTranslationKind(GradientKind):
    name = "recurrent-translation"
    title = "Recurrent translation"
    attends = True
    remembers = True
    schema = RecurrentTranslationScenario
    mean = MeanLoss("L = −(1/n) Σₜ ln p(yₜ | y₁ … yₜ₋₁, x)", "R1, R4", "the tokens of the targets", "tokens")
    METRICS = METRICS
    uncompiled = "torch's functions for recurrent cells are not compiled"
    unfit = "recurrent cells, of which torch has functions of its own"

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """float32, and torch's functions for the cells; attention = "matmul" makes them step by step, in formulas."""
        given = {"dtype": "float32", "attention": "sdpa"}
        chosen = {name: value for name, value in given.items() if getattr(scenario.compute, name) == "auto"}
        return super().resolve(
            scenario.model_copy(update={"compute": scenario.compute.model_copy(update=chosen)}) if chosen else scenario,
            say,
        )

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        if name == "exact_match" and isfinite(values[name]):
            return explain_exact_match(values, facts)
        return super().explain_metric(scenario, name, step, values, facts)

    def shape_of(self, scenario: RecurrentTranslationScenario) -> RecurrentTranslatorShape:
        return scenario.shape()

    def explain_scenario(self, scenario: RecurrentTranslationScenario, seconds: float = 0.0) -> Explanation:
        """At the full context; real pairs are shorter and cost less."""
        from txlab.engine.recurrent.cells import CELLS
        from txlab.engine.transformer.costs import costs

        shape = scenario.shape()
        N, H, T, V, cost = shape.layers, shape.width, shape.context, shape.target_vocabulary, costs(shape)
        G = len(CELLS[shape.cell].sums)
        encoder = f"2 · {G} · (2 + {N - 1} · 3) · {H}²"
        compared = 3 if shape.attention == "additive" else 2
        made = f"{encoder} + {N} · 2 · {G} · {H}² + {compared + 3} · {H}² + {V} · {H}"
        return explain_size(
            Size(cost, 3, T, H / 2 if H % 2 else H // 2, "position", "tables, biases, first states"),
            scenario,
            seconds,
            equation="FLOPs a step ≤ B · T · (6 w + 12 · 3 T H / 2)",
            math="R3, R4",
            operands=[
                Operand("N", N, "layers of the encoder, each in both directions, and of the decoder"),
                Operand("G", G, f"sums of a cell: {', '.join(CELLS[shape.cell].sums)}"),
                Operand("H", H, "width; a place of the memory is two wide, its score one"),
                Operand("T", T, "most tokens of a source and of a target; a position is one of each"),
                Operand("V", V, f"tokens of the target; the source has {shape.source_vocabulary}"),
            ],
            weights=[Step("w", made, cost.matmul_weights, "weights per position")],
        )

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """A weight of additive attention by its score, one by products as in a transformer; a state by its gates, a
        gate by its sum."""
        if tensor.startswith(("state/", "gate/")):
            return explain_state(frame, tensor, index)
        if tensor != "cross/pattern" or frame.facts.get("attention") == "dot":
            return super().explain_frame(frame, tensor, index)
        names = ("cross/query", "cross/key", "cross/v")
        require(frame, tensor, *names)
        import torch

        from txlab.engine.recurrent.why_translation import explain_additive

        q, k, v = (torch.tensor(np.asarray(frame.tensors[name])) for name in names)
        rows, columns = frame.tokens["target"], frame.tokens["source"]
        return explain_additive(q[0, 0], k[0, 0], v, index[2], index[3], rows, columns)


KIND = RecurrentTranslationKind()
