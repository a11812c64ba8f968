"""The experiment "masked-language-model": an encoder that learns to guess hidden tokens from both sides (MATH T10).

Notable: this file imports no torch, because validating a scenario imports the package that its schema lies in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from txlab.errors import LabError
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario

if TYPE_CHECKING:
    from txlab.experiments.kinds.masked_language_model.experiment import MaskedLanguageModelExperiment
    from txlab.experiments.loaded_model import Opened
    from txlab.experiments.protocol import State


def resolve(
    scenario: MaskedLanguageModelScenario, say: Callable[[str], None] = lambda text: None
) -> MaskedLanguageModelScenario:
    """The same scenario with every "auto" of [compute] decided by a short measurement on this machine."""
    from txlab.experiments.kinds.masked_language_model.trial import trial_of
    from txlab.experiments.learning.autotune import resolve as decide

    if scenario.compute.compile is True:
        raise LabError("compute.compile = true is not for a masked-language-model; allowed: auto, false")
    return decide(scenario, trial_of, say, "not for a masked-language-model")


def build(scenario: MaskedLanguageModelScenario) -> MaskedLanguageModelExperiment:
    """Read the corpus, make the model and its optimizer; decides first what is still "auto"."""
    from txlab.experiments.kinds.masked_language_model.experiment import build as make

    return make(resolve(scenario))


def open_model(scenario: MaskedLanguageModelScenario, state: State) -> Opened:
    """The model of a checkpoint, to be read and looked into; needs neither corpus nor optimizer."""
    from txlab.experiments.kinds.masked_language_model.opening import open_model as make

    return make(scenario, state)


def adopt(scenario: MaskedLanguageModelScenario, opened: Opened) -> MaskedLanguageModelScenario:
    """The scenario with the shape of the model that it starts from; LabError where the two do not agree."""
    from txlab.experiments.kinds.masked_language_model.opening import adopt as fit

    return fit(scenario, opened)
