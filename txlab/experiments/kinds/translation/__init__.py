"""The experiment "translation": an encoder–decoder that learns to translate generated pairs (MATH T8).

Notable: this file imports no torch, because validating a scenario imports the package that its schema lies in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from txlab.errors import LabError
from txlab.experiments.kind import Label
from txlab.experiments.kinds.translation.schema import TranslationScenario
from txlab.experiments.learning.explanations import MeanLoss
from txlab.experiments.learning.gradient import GradientKind

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.experiments.kinds.translation.experiment import TranslationExperiment
    from txlab.experiments.loaded_model import Opened
    from txlab.experiments.protocol import State


class TranslationKind(GradientKind):
    name = "translation"
    title = "Translation"
    schema = TranslationScenario
    mean = MeanLoss("L = −(1/n) Σₜ ln p(yₜ | y₁ … yₜ₋₁, x)", "T8, R1", "the tokens of the targets", "tokens")
    primary_metrics = ("loss", "val_loss", "exact_match")
    labels = {
        "exact_match": Label("exact", "unseen ones right throughout"),
        "token_accuracy": Label("tokens", "right, the ones before given"),
    }

    def resolve(
        self, scenario: TranslationScenario, say: Callable[[str], None] = lambda text: None
    ) -> TranslationScenario:
        """The same scenario with every "auto" of [compute] decided by a short measurement on this machine."""
        from txlab.experiments.kinds.translation.trial import trial_of
        from txlab.experiments.learning.autotune import resolve as decide

        if scenario.compute.compile is True:
            raise LabError(
                "compute.compile = true is not for translation, whose batches have many shapes; allowed: auto, false"
            )
        resolved: TranslationScenario = super().resolve(decide(scenario, trial_of, say, "batches have many shapes"))
        return resolved

    def build(self, scenario: TranslationScenario) -> TranslationExperiment:
        """Make the pairs, the model and its optimizer; decides first what is still "auto"."""
        from txlab.experiments.kinds.translation.experiment import build as make

        return make(self.resolve(scenario))

    def open_model(self, scenario: TranslationScenario, state: State) -> Opened:
        """The model of a checkpoint, to be read and looked into; needs neither pairs nor optimizer."""
        from txlab.experiments.kinds.translation.opening import open_model as make

        return make(scenario, state)

    def explain_scenario(self, scenario: TranslationScenario, seconds: float = 0.0) -> Explanation | None:
        from txlab.experiments.kinds.translation.size import explain_scenario

        return explain_scenario(scenario, seconds)

    def explain_metric(
        self, scenario: TranslationScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        from txlab.experiments.kinds.translation.judging import explain_exact_match

        if name == "exact_match":
            return explain_exact_match(scenario, name, step, values, facts)
        return super().explain_metric(scenario, name, step, values, facts)


KIND = TranslationKind()
resolve = KIND.resolve
build = KIND.build
open_model = KIND.open_model
