"""The kind "recurrent-language-model": a recurrent network that learns to predict the next token (MATH R1–R3). Data,
samples and metrics are those of the kind "language-model", so that curves can be laid over each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from txlab.engine.explain import Explanation
from txlab.experiments.kinds.language_model import KIND as LANGUAGE_MODEL
from txlab.experiments.kinds.language_model import explanations
from txlab.experiments.kinds.recurrent_language_model.schema import RecurrentScenario
from txlab.experiments.learning.kind import GradientKind, vocabulary_of
from txlab.experiments.protocol import Frame
from txlab.experiments.recurrent_states import explain_state


class RecurrentLanguageModelKind(GradientKind):
    name = "recurrent-language-model"
    title = "Recurrent language model"
    schema = RecurrentScenario
    screen = "recurrent"
    METRICS = LANGUAGE_MODEL.METRICS
    uncompiled = "a layer of cells is one operation already"
    ungraphed = ""
    unfit = "recurrent layers, which are one operation already"

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """Decide about threads alone: cells compute in float32, and have no attention."""
        compute = scenario.compute
        fixed = {"dtype": "float32", "attention": "sdpa"}
        decided = {name: value for name, value in fixed.items() if getattr(compute, name) == "auto"}
        return super().resolve(scenario.model_copy(update={"compute": compute.model_copy(update=decided)}), say)

    def validation_text(self, scenario: Any) -> str:
        return LANGUAGE_MODEL.validation_text(scenario)

    def shape_of(self, scenario: RecurrentScenario) -> Any:
        data = scenario.data
        reads = data.source == "text"
        return scenario.model.shape(vocabulary_of(data.tokenizer, data.vocabulary) if reads else data.vocabulary)

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        explanation = (
            explanations.explain_metric(scenario, name, step, values, facts) if isfinite(values[name]) else None
        )
        return explanation or super().explain_metric(scenario, name, step, values, facts)

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        return explain_state(frame, tensor, index)


KIND = RecurrentLanguageModelKind()
