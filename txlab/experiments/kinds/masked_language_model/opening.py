"""An encoder made again from a checkpoint, without its corpus (MATH T10); and what starts from one (T12)."""

from __future__ import annotations

from txlab.engine.transformer.bert import Bert
from txlab.errors import LabError
from txlab.experiments.corpora import load_corpus
from txlab.experiments.kinds.language_model.identity import tokenizer_of_state
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.kinds.masked_language_model.shape import shape_of
from txlab.experiments.kinds.masked_language_model.tokens import SPECIAL, special_of
from txlab.experiments.learning.weights import made_again
from txlab.experiments.loaded_model import Opened
from txlab.experiments.protocol import State
from txlab.experiments.starting import adopted


def open_model(scenario: MaskedLanguageModelScenario, state: State) -> Opened:
    """The model and tokenizer of a checkpoint; LabError if they do not belong to this scenario."""
    data = scenario.data
    tokenizer = tokenizer_of_state(state, data, lambda: load_corpus(data.text).split(data.validation).train)
    model = made_again(lambda: Bert(shape_of(scenario, tokenizer.vocabulary + len(SPECIAL))), state["model"])
    example = scenario.look.text or next(iter(scenario.sampling.prompts), "")
    return Opened("bert", model, tokenizer, special=special_of(tokenizer), example=example)


def adopt(scenario: MaskedLanguageModelScenario, opened: Opened) -> MaskedLanguageModelScenario:
    """The scenario as it runs when it starts from this model; LabError where they do not agree."""
    if opened.kind == "bert" and opened.special.names != special_of(opened.tokenizer).names:
        raise LabError(
            f"start.run = {scenario.start.run!r} does not have {', '.join(SPECIAL)} right behind the tokens of its "
            "tokenizer; a masked-language-model starts from runs of this kind"
        )
    return adopted(scenario, opened, "bert", shape_of, len(SPECIAL))
