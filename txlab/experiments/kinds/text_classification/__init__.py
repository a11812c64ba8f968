"""The kind "text-classification": an encoder fine-tuned to tell the verdict of a review, by the share of labels (MATH
T10, T12)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from operator import truediv
from typing import TYPE_CHECKING, Any

from txlab.engine.explain import Explaining, Explanation, Operand, Step
from txlab.experiments.kinds.text_classification.schema import TextClassificationScenario
from txlab.experiments.learning.explanations import MeanLoss, interval_steps
from txlab.experiments.learning.kind import GradientKind, Size, dimensions, explain_size, refuse_unknown, vocabulary_of
from txlab.experiments.metric import Metric

if TYPE_CHECKING:
    from txlab.engine.transformer.bert import BertShape


class TextClassificationKind(GradientKind):
    name = "text-classification"
    title = "Text classification"
    schema = TextClassificationScenario
    attends = True
    METRICS = (
        Metric("accuracy/", label="accuracy", title="accuracy by labelled reviews", less=False, primary=True),
        Metric("loss", "nats", less=True, note="mean over the classifiers"),
    )
    mean = MeanLoss("L = −(1/n) Σ ln p(verdict | review)", "T10, T12", "the reviews of all classifiers", "classes")
    uncompiled = "these runs take a minute or two"

    def shape_of(self, scenario: TextClassificationScenario) -> BertShape:
        data = scenario.data
        return scenario.shape(vocabulary_of(data.tokenizer, data.vocabulary) + 3)  # [CLS], [SEP], [MASK]

    def explain_metric(
        self,
        scenario: TextClassificationScenario,
        name: str,
        step: int,
        values: Mapping[str, float],
        facts: Mapping[str, Any],
    ) -> Explanation | None:
        family, _, which = name.partition("/")
        if family not in ("accuracy", "accuracy_low", "accuracy_high") or not isfinite(values[name]):
            return super().explain_metric(scenario, name, step, values, facts)
        share, count = values.get(f"accuracy/{which}"), scenario.data.held_out
        if share is None:
            return None
        start, _, labels = which.rpartition("-")
        why = Explaining(f"why is {name} {values[name]:.4g} at step {step}?", values[name])
        why.equation("accuracy = right / n", "T12, T10", "Devlin et al. 2019, §4.1; Mehlig")
        why.input("labels", int(labels), f"of {scenario.data.reviews} reviews, whose verdict it learns from")
        why.input("n", count, f"held-out reviews; it began {'pre-trained' if start == 'pretrained' else 'at random'}")
        right = round(share * count)
        why.step("right", "", right, "counted: the likelier verdict is the author's")
        why.compute("accuracy", "{} / {}", truediv, right, count)
        low, high = interval_steps(share, count)
        if family == "accuracy":
            why.means(low, high)
            best = facts.get("corpus", {}).get("best_possible")
            if isinstance(best, float):
                note = "by Bayes' rule from the words; the verdict is not certain even then"
                why.means(Step("best possible", "argmax P(liked | words)", best, note))
        else:
            why.steps.append(low if family == "accuracy_low" else high)
        return why.result()

    def explain_scenario(self, scenario: TextClassificationScenario, seconds: float = 0.0) -> Explanation:
        from txlab.engine.transformer.costs import costs

        refuse_unknown(scenario.start)
        shape, many = self.shape_of(scenario), len(scenario.classifiers)
        N, D, F, T = shape.layers, shape.width, shape.inner, shape.context
        cost = costs(shape)
        return explain_size(
            Size(cost, N, T, D, "token", "tables, norms, biases", (many, "classifiers")),
            scenario,
            seconds,
            equation="FLOPs a step = n B T · (6 w + 12 N T D),  w = N (4 D² + 2 D F) and the classes once a text",
            math="T10, T11, T12",
            operands=[*dimensions(N, shape.heads, D, F), Operand("T", T, "context")],
            weights=[
                Step("w", f"{N} · (4 · {D}² + 2 · {D} · {F}) + {2 * D // T}", cost.matmul_weights, "weights per token")
            ],
        )


KIND = TextClassificationKind()
