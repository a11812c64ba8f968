"""Convolution: one small neuron slid over the patches of a picture, and a network of such layers (MATH F7).

    z[c, y, x] = b[c] + Σ_{i, u, v} W[c, i, u, v] · a[i, y + u, x + v]

As everywhere in the field, the filter is not flipped: in mathematics this is the cross-correlation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.transformer.costs import Costs, costs


@dataclass(frozen=True)
class ConvShape:
    """image   Y = X, pixels per side, one brightness each
    channels   filters of each layer        sizes   pixels per side of each layer's filters
    classes    what a picture may show
    """

    image: int
    channels: tuple[int, ...]
    sizes: tuple[int, ...]
    classes: int

    context = 1  # a picture is one unit

    @property
    def sides(self) -> list[int]:
        """The sides of the layers' maps, before they are pooled; 0 or less where a filter does not fit."""
        sides, side = [], self.image
        for size in self.sizes:
            sides.append(side - size + 1)
            side = sides[-1] // 2
        return sides


@costs.register
def _(shape: ConvShape) -> Costs:
    before, weights, work = 1, 0, 0
    for channels, size, side in zip(shape.channels, shape.sizes, shape.sides, strict=True):
        weights += channels * before * size * size
        work += channels * before * size * size * side * side
        before = channels
    head = 2 * before * shape.classes
    biases = sum(shape.channels) + shape.classes
    return Costs(weights + head + biases, weights + head, 6 * (work + head))


class ConvNet(nn.Module):
    """Pictures (B, 3, Y, X) → logits (B, classes).

    Their brightness passes through layers of filters, relu and the largest of each 2 × 2; of the last
    maps the mean and the largest value are read by a linear map.
    """

    def __init__(self, shape: ConvShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape = shape
        before = 1
        self.layers = nn.ModuleList()
        for channels, size in zip(shape.channels, shape.sizes, strict=True):
            self.layers.append(nn.Conv2d(before, channels, size))
            before = channels
        self.head = nn.Linear(2 * before, shape.classes)
        with torch.no_grad():
            for layer in (*self.layers, self.head):
                assert isinstance(layer, nn.Conv2d | nn.Linear)
                layer.weight.normal_(0.0, sqrt(2 / layer.weight[0].numel()), generator=generator)
                assert layer.bias is not None
                layer.bias.zero_()

    def forward(self, pixels: Tensor, kernel: str = "") -> Tensor:
        return self.read(brightness(pixels))[0]

    def read(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """(logits, z of each layer (B, C, Y, X)) of brightnesses (B, 1, Y, X)."""
        maps = []
        for number, layer in enumerate(self.layers):
            x = F.max_pool2d(x, 2) if number else x
            z = layer(x)
            maps.append(z)
            x = z.relu()
        return self.head(torch.cat((x.mean((2, 3)), x.amax((2, 3))), 1)), maps


def brightness(pixels: Tensor) -> Tensor:
    """The mean of the colours, (B, 3, Y, X) → (B, 1, Y, X), from −1 (black) to 1 (white)."""
    return pixels.mean(1, keepdim=True)


def slid(picture: Sequence[Sequence[float]], weights: Sequence[Sequence[float]], bias: float) -> list[list[float]]:
    """One filter (k, k) slid over a picture (Y, X), as the formula says it: (Y − k + 1, X − k + 1)."""
    k = len(weights)
    return [
        [
            bias + sum(weights[u][v] * picture[y + u][x + v] for u in range(k) for v in range(k))
            for x in range(len(picture[0]) - k + 1)
        ]
        for y in range(len(picture) - k + 1)
    ]
