"""A decoder-only model made again from a checkpoint, without its corpus (MATH T9)."""

from __future__ import annotations

import torch

from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.engine.transformer.gpt import GPT
from txlab.errors import LabError
from txlab.experiments.corpora import load_corpus
from txlab.experiments.language_model.induction import InductionData, SymbolTokenizer
from txlab.experiments.language_model.probe import shape_of
from txlab.experiments.language_model.schema import LanguageModelScenario
from txlab.experiments.language_model.trained_tokenizers import tokenizer_for
from txlab.experiments.opened import Opened, tokenizer_kept
from txlab.experiments.protocol import State
from txlab.experiments.shelf import fingerprint


def open_model(scenario: LanguageModelScenario, state: State) -> Opened:
    """The model and tokenizer of a checkpoint; LabError if they do not belong to this scenario."""
    tokenizer = tokenizer_of_state(scenario, state)
    with torch.random.fork_rng(devices=[]):  # the constructors draw weights, which are replaced at once
        model = GPT(shape_of(scenario, tokenizer.vocabulary))
    load_weights(model, state["model"])
    model.eval()
    example = scenario.look.text
    if isinstance(tokenizer, SymbolTokenizer) and not example:
        example = tokenizer.decode(InductionData(scenario).probe)
    if not example:
        example = next((prompt for prompt in scenario.sampling.prompts if prompt), "")
    return Opened("gpt", model, tokenizer, example=example)


def load_weights(model: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Put a checkpoint's weights into the model of its scenario; LabError where one does not fit."""
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name, tensor in weights.items():
        if shapes.pop(name, None) != tuple(tensor.shape):
            raise LabError(f"the checkpoint's {name} {tuple(tensor.shape)} does not fit this scenario's [model]")
    if shapes:
        raise LabError(f"the checkpoint lacks {next(iter(shapes))}, which this scenario's [model] has")
    model.load_state_dict(weights)


def tokenizer_of_state(scenario: LanguageModelScenario, state: State) -> Tokenizer:
    """The tokenizer that the checkpoint carries; one that carries none is given what its scenario names."""
    if scenario.data.source == "induction":
        return SymbolTokenizer(scenario.data.vocabulary)
    kept = tokenizer_kept(state.get("tokenizer_file"))
    if kept is not None:
        return kept
    learnt = scenario.data.tokenizer in ("characters", "words", "bpe")
    text = load_corpus(scenario.data.text).split(scenario.data.validation).train if learnt else ""
    found = tokenizer_for(scenario.data, text)
    if state.get("tokenizer", fingerprint(found)) != fingerprint(found):
        raise LabError(
            f"data.tokenizer = {scenario.data.tokenizer!r} is not the tokenizer that this run began with, and the "
            "checkpoint does not carry that one"
        )
    return found
