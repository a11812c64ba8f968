"""The experiment "masked-language-model": an encoder that learns to guess hidden tokens from both sides (MATH T10).

Notable: this file imports no torch, because validating a scenario imports the package that its schema lies in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from txlab.errors import LabError
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.learning.explanations import MeanLoss
from txlab.experiments.learning.gradient import GradientKind

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.experiments.kinds.masked_language_model.experiment import MaskedLanguageModelExperiment
    from txlab.experiments.loaded_model import Opened
    from txlab.experiments.protocol import State


class MaskedLanguageModelKind(GradientKind):
    name = "masked-language-model"
    title = "Masked language model"
    schema = MaskedLanguageModelScenario
    mean = MeanLoss("L = −(1/n) Σₜ ln p(xₜ | the text with its gaps)", "T10", "the tokens asked for", "tokens")

    def resolve(
        self, scenario: MaskedLanguageModelScenario, say: Callable[[str], None] = lambda text: None
    ) -> MaskedLanguageModelScenario:
        """The same scenario with every "auto" of [compute] decided by a short measurement on this machine."""
        from txlab.experiments.kinds.masked_language_model.trial import trial_of
        from txlab.experiments.learning.autotune import resolve as decide

        if scenario.compute.compile is True:
            raise LabError("compute.compile = true is not for a masked-language-model; allowed: auto, false")
        resolved: MaskedLanguageModelScenario = super().resolve(
            decide(scenario, trial_of, say, "not for a masked-language-model")
        )
        return resolved

    def build(self, scenario: MaskedLanguageModelScenario) -> MaskedLanguageModelExperiment:
        """Read the corpus, make the model and its optimizer; decides first what is still "auto"."""
        from txlab.experiments.kinds.masked_language_model.experiment import build as make

        return make(self.resolve(scenario))

    def open_model(self, scenario: MaskedLanguageModelScenario, state: State) -> Opened:
        """The model of a checkpoint, to be read and looked into; needs neither corpus nor optimizer."""
        from txlab.experiments.kinds.masked_language_model.opening import open_model as make

        return make(scenario, state)

    def adopt(self, scenario: MaskedLanguageModelScenario, opened: Opened) -> MaskedLanguageModelScenario:
        """The scenario with the shape of the model that it starts from; LabError where the two do not agree."""
        from txlab.experiments.kinds.masked_language_model.opening import adopt as fit

        return fit(scenario, opened)

    def explain_scenario(self, scenario: MaskedLanguageModelScenario, seconds: float = 0.0) -> Explanation | None:
        from txlab.experiments.kinds.masked_language_model.size import explain_scenario

        return explain_scenario(scenario, seconds)


KIND = MaskedLanguageModelKind()
resolve = KIND.resolve
build = KIND.build
open_model = KIND.open_model
adopt = KIND.adopt
