"""The experiment "language-model": a decoder-only transformer that learns to guess the next token (MATH T9).

Notable: this file imports no torch, because validating a scenario imports the package that its schema lies in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from txlab.experiments.kind import Label
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.learning.gradient import GradientKind

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.experiments.kinds.language_model.experiment import LanguageModelExperiment
    from txlab.experiments.loaded_model import Opened
    from txlab.experiments.protocol import State


class LanguageModelKind(GradientKind):
    name = "language-model"
    title = "Language model"
    schema = LanguageModelScenario
    primary_metrics = ("loss", "val_loss", "val_bits_per_byte", "copy_accuracy")
    labels = {
        "copy_accuracy": Label("copies", "share of repeated tokens that are right"),
        "val_loss/": Label("val", unit="nats, validation of each text"),
        "epochs/": Label("epochs", unit="epochs of each text"),
        "accuracy_": Label("accuracy", unit="accuracy after so many examples"),
    }

    def resolve(
        self, scenario: LanguageModelScenario, say: Callable[[str], None] = lambda text: None
    ) -> LanguageModelScenario:
        """The same scenario with every "auto" of [compute] decided by a short measurement on this machine.

        Before a measurement that is not so short `say` gets a line.
        """
        from txlab.experiments.kinds.language_model.trial import trial_of
        from txlab.experiments.learning.autotune import resolve as decide

        resolved: LanguageModelScenario = super().resolve(decide(scenario, trial_of, say))
        return resolved

    def build(self, scenario: LanguageModelScenario) -> LanguageModelExperiment:
        """Read the corpus, make the model and its optimizer; decides first what is still "auto"."""
        from txlab.experiments.kinds.language_model.experiment import build as make

        return make(self.resolve(scenario))

    def open_model(self, scenario: LanguageModelScenario, state: State) -> Opened:
        """The model of a checkpoint, to be read and looked into; needs neither corpus nor optimizer."""
        from txlab.experiments.kinds.language_model.opening import open_model as make

        return make(scenario, state)

    def adopt(self, scenario: LanguageModelScenario, opened: Opened) -> LanguageModelScenario:
        """The scenario with the shape of the model that it starts from; LabError where the two do not agree."""
        from txlab.experiments.kinds.language_model.opening import adopt as fit

        return fit(scenario, opened)

    def explain_scenario(self, scenario: LanguageModelScenario, seconds: float = 0.0) -> Explanation | None:
        from txlab.experiments.kinds.language_model.size import explain_scenario

        return explain_scenario(scenario, seconds)

    def explain_metric(
        self,
        scenario: LanguageModelScenario,
        name: str,
        step: int,
        values: Mapping[str, float],
        facts: Mapping[str, Any],
    ) -> Explanation | None:
        from txlab.experiments.kinds.language_model.measures import explain_metric

        said = explain_metric(scenario, name, step, values, facts)
        return said or super().explain_metric(scenario, name, step, values, facts)


KIND = LanguageModelKind()
resolve = KIND.resolve
build = KIND.build
open_model = KIND.open_model
adopt = KIND.adopt
