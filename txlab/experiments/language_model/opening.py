"""A decoder-only model made again from a checkpoint, without its corpus (MATH T9); and what starts from one (T12)."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.engine.transformer.gpt import GPT
from txlab.errors import LabError
from txlab.experiments.language_model.data import build_data, training_text
from txlab.experiments.language_model.few_shot import FewShotTokenizer
from txlab.experiments.language_model.induction import SymbolTokenizer
from txlab.experiments.language_model.probe import shape_of
from txlab.experiments.language_model.schema import Data, LanguageModelScenario
from txlab.experiments.language_model.trained_tokenizers import tokenizer_for
from txlab.experiments.opened import Opened, tokenizer_kept
from txlab.experiments.protocol import State
from txlab.experiments.shelf import fingerprint
from txlab.experiments.starting import adopted


def open_model(scenario: LanguageModelScenario, state: State) -> Opened:
    """The model and tokenizer of a checkpoint; LabError if they do not belong to this scenario."""
    tokenizer = tokenizer_of_state(scenario, state)
    with torch.random.fork_rng(devices=[]):  # the constructors draw weights, which are replaced at once
        model = GPT(shape_of(scenario, tokenizer.vocabulary))
    load_weights(model, state["model"])
    model.eval()
    example = scenario.look.text
    if scenario.data.source != "text" and not example:
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


def load_weights(model: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Put a checkpoint's weights into the model of its scenario; LabError where one does not fit."""
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name, tensor in weights.items():
        if shapes.pop(name, None) != tuple(tensor.shape):
            raise LabError(f"the checkpoint's {name} {tuple(tensor.shape)} does not fit this scenario's [model]")
    if shapes:
        raise LabError(f"the checkpoint lacks {next(iter(shapes))}, which this scenario's [model] has")
    model.load_state_dict(dict(weights))


def task_tokenizer(data: Data) -> Tokenizer:
    """One token for each symbol of a generated task."""
    return FewShotTokenizer(data.vocabulary) if data.source == "few-shot" else SymbolTokenizer(data.vocabulary)


def tokenizer_of_state(scenario: LanguageModelScenario, state: State) -> Tokenizer:
    """The tokenizer that the checkpoint carries; one that carries none is given what its scenario names."""
    if scenario.data.source != "text":
        return task_tokenizer(scenario.data)
    kept = tokenizer_kept(state.get("tokenizer_file"))
    if kept is not None:
        return kept
    learnt = scenario.data.tokenizer in ("characters", "words", "bpe")
    text = training_text(scenario.data) if learnt else ""
    found = tokenizer_for(scenario.data, text)
    if state.get("tokenizer", fingerprint(found)) != fingerprint(found):
        raise LabError(
            f"data.tokenizer = {scenario.data.tokenizer!r} is not the tokenizer that this run began with, and the "
            "checkpoint does not carry that one"
        )
    return found
