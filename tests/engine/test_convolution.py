"""A convolution is one small neuron slid over patches, and a network of them costs what its matrices cost (MATH F7)."""

from __future__ import annotations

import pytest
import torch

from txlab.engine.convolution import ConvNet, ConvShape, brightness, slid
from txlab.engine.transformer.costs import costs

SHAPE = ConvShape(14, (3, 4), (3, 2), 5)


def net() -> ConvNet:
    return ConvNet(SHAPE, torch.Generator().manual_seed(2)).double()


def test_what_a_filter_answers_is_the_neuron_slid_over_the_picture() -> None:
    model = net()
    with torch.no_grad():
        model.layers[0].bias.copy_(torch.tensor([0.5, -1.0, 2.0]))
    x = torch.randn(2, 1, 14, 14, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    _, maps = model.read(x)
    assert [tuple(each.shape) for each in maps] == [(2, 3, 12, 12), (2, 4, 5, 5)]
    assert [each.shape[-1] for each in maps] == SHAPE.sides
    layer = model.layers[0]
    for channel in range(3):
        wanted = slid(x[1, 0].tolist(), layer.weight[channel, 0].tolist(), float(layer.bias[channel].detach()))
        torch.testing.assert_close(maps[0][1, channel], torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-12)
    # The second layer: over the largest of each 2 × 2 of relu z, summed over the three filters before it.
    a = maps[0][1].relu()
    pooled = torch.stack([a[:, y : y + 2, x : x + 2].amax((1, 2)) for y in range(0, 12, 2) for x in range(0, 12, 2)], 1)
    pooled = pooled.view(3, 6, 6)
    second = model.layers[1]
    for channel in range(4):
        parts = [slid(pooled[i].tolist(), second.weight[channel, i].tolist(), 0.0) for i in range(3)]
        total = torch.tensor(parts, dtype=torch.float64).sum(0) + second.bias[channel]
        torch.testing.assert_close(maps[1][1, channel], total, rtol=0, atol=1e-12)


def test_the_cost_is_that_of_every_place_of_every_filter() -> None:
    found = costs(SHAPE)
    assert found.parameters == sum(parameter.numel() for parameter in net().parameters())
    assert found.flops_per_token == 6 * (3 * 9 * 12 * 12 + 4 * 3 * 4 * 5 * 5 + 8 * 5)


def test_colours_do_not_matter_but_brightness_does() -> None:
    pixels = torch.rand(1, 3, 14, 14, dtype=torch.float64)
    model = net()
    torch.testing.assert_close(model(pixels), model(pixels.flip(1)))
    assert float((model(pixels) - model(pixels * 0.5)).detach().abs().max()) > 1e-3
    assert brightness(pixels).shape == (1, 1, 14, 14)


@pytest.mark.parametrize("image", [14, 15])
def test_sides_are_those_of_the_maps(image: int) -> None:
    shape = ConvShape(image, (2, 2, 2), (3, 2, 1), 2)
    _, maps = ConvNet(shape).read(torch.zeros(1, 1, image, image))
    assert [each.shape[-1] for each in maps] == shape.sides
