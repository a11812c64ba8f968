"""The experiment "translation": an encoder–decoder that learns to translate generated pairs (MATH T8).

Notable: this file imports no torch, because validating a scenario imports the package that its schema lies in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from txlab.errors import LabError
from txlab.experiments.kinds.translation.schema import TranslationScenario

if TYPE_CHECKING:
    from txlab.experiments.kinds.translation.experiment import TranslationExperiment
    from txlab.experiments.loaded_model import Opened
    from txlab.experiments.protocol import State


def resolve(scenario: TranslationScenario, say: Callable[[str], None] = lambda text: None) -> TranslationScenario:
    """The same scenario with every "auto" of [compute] decided by a short measurement on this machine."""
    from txlab.experiments.kinds.translation.trial import trial_of
    from txlab.experiments.learning.autotune import resolve as decide

    if scenario.compute.compile is True:
        raise LabError(
            "compute.compile = true is not for translation, whose batches have many shapes; allowed: auto, false"
        )
    return decide(scenario, trial_of, say, "batches have many shapes")


def build(scenario: TranslationScenario) -> TranslationExperiment:
    """Make the pairs, the model and its optimizer; decides first what is still "auto"."""
    from txlab.experiments.kinds.translation.experiment import build as make

    return make(resolve(scenario))


def open_model(scenario: TranslationScenario, state: State) -> Opened:
    """The model of a checkpoint, to be read and looked into; needs neither pairs nor optimizer."""
    from txlab.experiments.kinds.translation.opening import open_model as make

    return make(scenario, state)
