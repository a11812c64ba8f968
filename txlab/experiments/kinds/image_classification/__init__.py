"""The experiment "image-classification": a vision transformer that learns to name generated shapes (MATH T14).

Notable: this file imports no torch, because validating a scenario imports the package that its schema lies in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from txlab.experiments.kinds.image_classification.schema import ImageScenario
from txlab.experiments.learning.explanations import MeanLoss
from txlab.experiments.learning.gradient import GradientKind

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.experiments.kinds.image_classification.experiment import ImageExperiment


class ImageClassificationKind(GradientKind):
    name = "image-classification"
    title = "Image classification"
    schema = ImageScenario
    mean = MeanLoss("L = −(1/n) Σ ln p(class | image)", "T14", "the images", "classes")

    def resolve(self, scenario: ImageScenario, say: Callable[[str], None] = lambda text: None) -> ImageScenario:
        """The same scenario with every "auto" of [compute] decided by a short measurement on this machine."""
        from txlab.experiments.kinds.image_classification.trial import trial_of
        from txlab.experiments.learning.autotune import resolve as decide

        resolved: ImageScenario = super().resolve(decide(scenario, trial_of, say, "these runs take a minute or two"))
        return resolved

    def build(self, scenario: ImageScenario) -> ImageExperiment:
        """Make the model and its optimizer; decides first what is still "auto"."""
        from txlab.experiments.kinds.image_classification.experiment import build as make

        return make(self.resolve(scenario))

    def explain_scenario(self, scenario: ImageScenario, seconds: float = 0.0) -> Explanation | None:
        from txlab.experiments.kinds.image_classification.size import explain_scenario

        return explain_scenario(scenario, seconds)


KIND = ImageClassificationKind()
resolve = KIND.resolve
build = KIND.build
