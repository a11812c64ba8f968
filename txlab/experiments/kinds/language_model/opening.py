"""A decoder-only model made again from a checkpoint, without its corpus (MATH T9); and what starts from one (T12)."""

from __future__ import annotations

from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.engine.transformer.gpt import GPT
from txlab.errors import LabError
from txlab.experiments.kinds.language_model.data import build_data, training_text
from txlab.experiments.kinds.language_model.few_shot import FewShotTokenizer
from txlab.experiments.kinds.language_model.identity import tokenizer_of_state
from txlab.experiments.kinds.language_model.induction import SymbolTokenizer
from txlab.experiments.kinds.language_model.schema import Data, LanguageModelScenario
from txlab.experiments.kinds.language_model.shape import shape_of
from txlab.experiments.learning.weights import made_again
from txlab.experiments.loaded_model import Opened
from txlab.experiments.protocol import State
from txlab.experiments.starting import adopted
from txlab.experiments.tokenizer_store import fingerprint


def open_model(scenario: LanguageModelScenario, state: State) -> Opened:
    """The model and tokenizer of a checkpoint; LabError if they do not belong to this scenario."""
    data = scenario.data
    if data.source != "text":
        tokenizer = task_tokenizer(data)
    else:
        tokenizer = tokenizer_of_state(state, data, lambda: training_text(data))
    model = made_again(lambda: GPT(shape_of(scenario, tokenizer.vocabulary)), state["model"])
    example = scenario.look.text
    if data.source != "text" and not example:
        example = tokenizer.decode(build_data(scenario).probe)
    if not example:
        example = next((prompt for prompt in scenario.sampling.prompts if prompt), "")
    return Opened("gpt", model, tokenizer, example=example)


def adopt(scenario: LanguageModelScenario, opened: Opened) -> LanguageModelScenario:
    """The scenario as it runs when it starts from this model; LabError where they do not agree."""
    source = scenario.data.source
    filled = adopted(scenario, opened, "gpt", shape_of)
    if source != "text" and fingerprint(task_tokenizer(filled.data)) != fingerprint(opened.tokenizer):
        raise LabError(f"start.run = {scenario.start.run!r} does not read the symbols of data.source = {source!r}")
    if source != "text" and "vocabulary" in scenario.data.model_fields_set and scenario.data != filled.data:
        raise LabError(
            f"data.vocabulary = {scenario.data.vocabulary} does not agree with start.run = {scenario.start.run!r}, "
            f"which has {filled.data.vocabulary} symbols; leave it out to take those"
        )
    return filled


def task_tokenizer(data: Data) -> Tokenizer:
    """One token for each symbol of a generated task."""
    return FewShotTokenizer(data.vocabulary) if data.source == "few-shot" else SymbolTokenizer(data.vocabulary)
