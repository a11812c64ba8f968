"""The experiment "image-classification": a vision transformer that learns to name generated shapes (MATH T14).

Notable: this file imports no torch, because validating a scenario imports the package that its schema lies in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from txlab.experiments.kinds.image_classification.schema import ImageScenario

if TYPE_CHECKING:
    from txlab.experiments.kinds.image_classification.experiment import ImageExperiment


def resolve(scenario: ImageScenario, say: Callable[[str], None] = lambda text: None) -> ImageScenario:
    """The same scenario with every "auto" of [compute] decided by a short measurement on this machine."""
    from txlab.experiments.kinds.image_classification.trial import trial_of
    from txlab.experiments.learning.autotune import resolve as decide

    return decide(scenario, trial_of, say, "these runs take a minute or two")


def build(scenario: ImageScenario) -> ImageExperiment:
    """Make the model and its optimizer; decides first what is still "auto"."""
    from txlab.experiments.kinds.image_classification.experiment import build as make

    return make(resolve(scenario))
