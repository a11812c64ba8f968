"""Which kinds of experiment there are. Each is imported only when it is asked for.

Notable: the schema and the experiment are named apart, so that validating a scenario never imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.experiments.loaded_model import Opened
    from txlab.experiments.protocol import Experiment, State
    from txlab.experiments.schema import Scenario


class Build(Protocol):
    """Make the experiment of a validated scenario.

    `resolve(scenario, say)` in the experiment's module returns the same scenario with every "auto" decided (the probe
    runs here), and tells `say` what takes a while.
    """

    def __call__(self, scenario: Any) -> Experiment: ...


@dataclass(frozen=True)
class Kind:
    """One kind of experiment: `schema` is "module:Class", `module` has `resolve(scenario, say)`, `build(scenario)`.

    Where its models read texts, `module` has `open_model(scenario, state)` as well; where its schema has [start],
    `adopt(scenario, opened)`.
    """

    name: str
    schema: str
    module: str

    def load_schema(self) -> type[Scenario]:
        module, _, name = self.schema.partition(":")
        schema: type[Scenario] = getattr(import_module(module), name)
        return schema

    def resolve(self, scenario: Scenario, say: Callable[[str], None] = lambda text: None) -> Scenario:
        """Decide every `auto` and make explicit what a second run must repeat; `say` gets a line before a long wait."""
        resolved: Scenario = import_module(self.module).resolve(scenario, say)
        if resolved.compute.share != "auto":
            return resolved
        shared = resolved.compute.model_copy(update={"share": "operations"})  # not worth a probe by itself
        return resolved.model_copy(update={"compute": shared})

    def build(self, scenario: Scenario) -> Experiment:
        build: Build = import_module(self.module).build
        return build(scenario)

    def open(self, scenario: Scenario, state: State) -> Opened:
        """The model of a checkpoint, without its data; LabError where the kind has none, or they do not fit."""
        module = import_module(self.module)
        if not hasattr(module, "open_model"):
            raise LabError(f"an experiment of the kind {self.name} has no model that reads texts")
        opened: Opened = module.open_model(scenario, state)
        return opened

    def adopt(self, scenario: Scenario, opened: Opened) -> Scenario:
        """The scenario with what it does not say of the shape taken from the model that it starts from.

        LabError where what it says does not agree with that model or its tokenizer.
        """
        module = import_module(self.module)
        if not hasattr(module, "adopt"):
            raise LabError(f"an experiment of the kind {self.name} cannot start from weights")
        adopted: Scenario = module.adopt(scenario, opened)
        return adopted


KINDS = {
    kind.name: kind
    for kind in [
        Kind(
            "language-model",
            schema="txlab.experiments.kinds.language_model.schema:LanguageModelScenario",
            module="txlab.experiments.kinds.language_model",
        ),
        Kind(
            "masked-language-model",
            schema="txlab.experiments.kinds.masked_language_model.schema:MaskedLanguageModelScenario",
            module="txlab.experiments.kinds.masked_language_model",
        ),
        Kind(
            "translation",
            schema="txlab.experiments.kinds.translation.schema:TranslationScenario",
            module="txlab.experiments.kinds.translation",
        ),
        Kind(
            "image-classification",
            schema="txlab.experiments.kinds.image_classification.schema:ImageScenario",
            module="txlab.experiments.kinds.image_classification",
        ),
        Kind(
            "planning",
            schema="txlab.experiments.kinds.planning.schema:PlanningScenario",
            module="txlab.experiments.kinds.planning",
        ),
        Kind(
            "self-play",
            schema="txlab.experiments.kinds.self_play.schema:SelfPlayScenario",
            module="txlab.experiments.kinds.self_play",
        ),
        Kind(
            "control",
            schema="txlab.experiments.kinds.control.schema:ControlScenario",
            module="txlab.experiments.kinds.control",
        ),
        Kind(
            "bandits",
            schema="txlab.experiments.kinds.bandits:BanditScenario",
            module="txlab.experiments.kinds.bandits",
        ),
        Kind(
            "prediction",
            schema="txlab.experiments.kinds.prediction.schema:PredictionScenario",
            module="txlab.experiments.kinds.prediction",
        ),
    ]
}


def kind_named(name: str) -> Kind:
    """The kind of that name; raises LabError naming the allowed ones."""
    if name not in KINDS:
        raise LabError(f"kind = {name!r} is not an experiment{nearest(name, KINDS)}; allowed: {', '.join(KINDS)}")
    return KINDS[name]
