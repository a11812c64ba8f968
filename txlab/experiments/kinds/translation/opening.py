"""A translation's model made again from a checkpoint, without its pairs (MATH T8)."""

from __future__ import annotations

from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.experiments.kinds.translation.data import tokenizers_for
from txlab.experiments.kinds.translation.schema import TranslationScenario
from txlab.experiments.kinds.translation.shape import shape_of
from txlab.experiments.kinds.translation.symbols import END, PAD, SPECIAL, START
from txlab.experiments.learning.weights import made_again
from txlab.experiments.loaded_model import Opened, Special
from txlab.experiments.protocol import State

EXAMPLES = {
    "language": ("the old dog followed the small birds", "do borv-o vet-o dei lissan-ein parv-ein sekun-ot-ok"),
    "dates": ("5 March 2021", "2021-03-05"),
}


def open_model(scenario: TranslationScenario, state: State) -> Opened:
    """The model and tokenizers of a checkpoint; LabError if they do not belong to this scenario."""
    source, target = tokenizers_for(scenario.data, scenario.model.shared)
    model = made_again(lambda: EncoderDecoder(shape_of(scenario)), state["model"])
    example, translated = EXAMPLES[scenario.data.task]
    if scenario.look.source:
        example, translated = scenario.look.source, scenario.look.target
    return Opened(
        "encoder-decoder",
        model,
        source,
        target,
        Special(begin=START, end=END, pad=PAD, source_end=END, names=SPECIAL),
        example,
        translated,
    )
