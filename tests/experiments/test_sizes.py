"""How large every scenario that ships is, counted on paper, against the module itself (MATH T8–T11, T14)."""

import pytest
import torch

from txlab.engine.transformer.bert import Bert
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.engine.transformer.gpt import GPT
from txlab.engine.transformer.vision import VisionTransformer
from txlab.errors import LabError
from txlab.experiments.kind import explain_scenario
from txlab.runs.scenario import load_scenario


@pytest.mark.parametrize("name", ["bert-docs", "translate", "dates", "vit-shapes"])
def test_the_parameters_are_those_of_the_module(name: str) -> None:
    scenario = load_scenario(name).scenario
    with torch.device("meta"):
        model = {
            "bert-docs": lambda: Bert(scenario.model.shape(256 + 3)),
            "vit-shapes": lambda: VisionTransformer(scenario.shape()),
        }.get(name, lambda: EncoderDecoder(scenario.shape()))()
    why = explain_scenario(scenario, seconds=100.0)
    assert why is not None
    steps = {step.name: step.result for step in (*why.steps, *why.meaning)}
    assert steps["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert steps["FLOPs a step"] == why.result
    assert steps["in all"] == scenario.train.steps * why.result
    assert steps["FLOP/s"] == steps["in all"] / 100


@pytest.mark.parametrize("settings", [[], ["model.gated=true", "model.kv_heads=2", "model.normalisation=rms"]])
def test_the_parameters_of_a_decoder_are_those_of_the_module_however_it_is_made(settings: list[str]) -> None:
    scenario = load_scenario("gpt-tiny", settings).scenario
    with torch.device("meta"):
        model = GPT(scenario.model.shape(256))
    why = explain_scenario(scenario)
    assert why is not None
    steps = {step.name: step.result for step in (*why.steps, *why.meaning)}
    assert steps["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    block = sum(p.numel() for name, p in model.blocks[0].named_parameters() if p.dim() == 2)
    assert steps["a block"] == block
    assert steps["w"] == len(model.blocks) * block + model.embed.weight.numel()


def test_what_only_the_text_can_tell_is_refused() -> None:
    with pytest.raises(LabError, match="depends on how many words its text has"):
        explain_scenario(load_scenario("bert-docs", ["data.tokenizer=words"]).scenario)
    with pytest.raises(LabError, match="depends on the run that it starts from"):
        explain_scenario(load_scenario("gpt-finetune").scenario)
