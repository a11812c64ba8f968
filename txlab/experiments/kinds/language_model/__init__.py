"""The experiment "language-model": a decoder-only transformer that learns to guess the next token (MATH T9).

Notable: this file imports no torch, because validating a scenario imports the package that its schema lies in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from txlab.experiments.kinds.language_model.schema import LanguageModelScenario

if TYPE_CHECKING:
    from txlab.experiments.kinds.language_model.experiment import LanguageModelExperiment
    from txlab.experiments.loaded_model import Opened
    from txlab.experiments.protocol import State


def resolve(scenario: LanguageModelScenario, say: Callable[[str], None] = lambda text: None) -> LanguageModelScenario:
    """The same scenario with every "auto" of [compute] decided by a short measurement on this machine.

    Before a measurement that is not so short `say` gets a line.
    """
    from txlab.experiments.kinds.language_model.trial import trial_of
    from txlab.experiments.learning.autotune import resolve as decide

    return decide(scenario, trial_of, say)


def build(scenario: LanguageModelScenario) -> LanguageModelExperiment:
    """Read the corpus, make the model and its optimizer; decides first what is still "auto"."""
    from txlab.experiments.kinds.language_model.experiment import build as make

    return make(resolve(scenario))


def open_model(scenario: LanguageModelScenario, state: State) -> Opened:
    """The model of a checkpoint, to be read and looked into; needs neither corpus nor optimizer."""
    from txlab.experiments.kinds.language_model.opening import open_model as make

    return make(scenario, state)


def adopt(scenario: LanguageModelScenario, opened: Opened) -> LanguageModelScenario:
    """The scenario with the shape of the model that it starts from; LabError where the two do not agree."""
    from txlab.experiments.kinds.language_model.opening import adopt as fit

    return fit(scenario, opened)
