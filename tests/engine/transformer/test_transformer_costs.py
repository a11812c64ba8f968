"""The count on paper against the count of what was allocated and of what ran (MATH T9)."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.gpt import GPT, GPTShape

EVERY = itertools.product(
    ["learned", "rotary"], ["pre", "post"], ["sequential", "parallel"], [True, False], [True, False]
)


@pytest.mark.parametrize(("positions", "norm", "block", "tied", "bias"), list(EVERY))
def test_parameters_on_paper_are_those_allocated(positions: str, norm: str, block: str, tied: bool, bias: bool) -> None:
    shape = GPTShape(3, 2, 12, 7, 19, 31, positions=positions, norm=norm, block=block, tied=tied, bias=bias)
    allocated = sum(parameter.numel() for parameter in GPT(shape).parameters())
    assert costs(shape).parameters == allocated


def test_gpt2_has_its_published_number_of_parameters() -> None:
    small = GPTShape(layers=12, heads=12, width=768, context=1024, vocabulary=50257)
    assert costs(small).parameters == 124_439_808


@pytest.mark.parametrize("tied", [True, False])
def test_flops_on_paper_are_those_of_a_training_step(tied: bool) -> None:
    shape = GPTShape(3, 2, 16, 10, 23, tied=tied)
    model, ids = GPT(shape), torch.zeros(4, 10, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(model(ids, "matmul").flatten(0, 1), ids.flatten()).backward()
    assert counter.get_total_flops() == costs(shape).flops_per_token * 4 * 10
