"""An encoder made again from a checkpoint, without its corpus (MATH T10); and what starts from one (T12)."""

from __future__ import annotations

import torch

from txlab.engine.tokenizers.tokenizer import Tokenizer
from txlab.engine.transformer.bert import Bert
from txlab.errors import LabError
from txlab.experiments.corpora import load_corpus
from txlab.experiments.language_model.opening import load_weights
from txlab.experiments.language_model.trained_tokenizers import tokenizer_for
from txlab.experiments.masked_language_model.probe import shape_of
from txlab.experiments.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.masked_language_model.tokens import SPECIAL, special_of
from txlab.experiments.opened import Opened, tokenizer_kept
from txlab.experiments.protocol import State
from txlab.experiments.shelf import fingerprint
from txlab.experiments.starting import adopted


def open_model(scenario: MaskedLanguageModelScenario, state: State) -> Opened:
    """The model and tokenizer of a checkpoint; LabError if they do not belong to this scenario."""
    tokenizer = tokenizer_of_state(scenario, state)
    with torch.random.fork_rng(devices=[]):  # the constructors draw weights, which are replaced at once
        model = Bert(shape_of(scenario, tokenizer.vocabulary + len(SPECIAL)))
    load_weights(model, state["model"])
    model.eval()
    example = scenario.look.text or next(iter(scenario.sampling.prompts), "")
    return Opened("bert", model, tokenizer, special=special_of(tokenizer), example=example)


def tokenizer_of_state(scenario: MaskedLanguageModelScenario, state: State) -> Tokenizer:
    """The tokenizer that the checkpoint carries; one that carries none is given what its scenario names."""
    kept = tokenizer_kept(state.get("tokenizer_file"))
    if kept is not None:
        return kept
    data = scenario.data
    learnt = data.tokenizer in ("characters", "words", "bpe")
    text = load_corpus(data.text).split(data.validation).train if learnt else ""
    found = tokenizer_for(data, text)
    if state.get("tokenizer", fingerprint(found)) != fingerprint(found):
        raise LabError(
            f"data.tokenizer = {data.tokenizer!r} is not the tokenizer that this run began with, and the checkpoint "
            "does not carry that one"
        )
    return found


def adopt(scenario: MaskedLanguageModelScenario, opened: Opened) -> MaskedLanguageModelScenario:
    """The scenario as it runs when it starts from this model; LabError where they do not agree."""
    if opened.kind == "bert" and opened.special.names != special_of(opened.tokenizer).names:
        raise LabError(
            f"start.run = {scenario.start.run!r} does not have {', '.join(SPECIAL)} right behind the tokens of its "
            "tokenizer; a masked-language-model starts from runs of this kind"
        )
    return adopted(scenario, opened, "bert", shape_of, len(SPECIAL))
