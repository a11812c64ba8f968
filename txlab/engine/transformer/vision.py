"""The vision transformer: an image is a sequence of patches (MATH T14; Dosovitskiy et al. 2021).

Notable: cutting into patches and mapping each linearly is one convolution whose stride equals its size; it is written
as the cut and the map to show what it means. The blocks are those of the language models, without a mask. Positions are
learnt, so the model has to discover that an image has two dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import torch
from torch import Tensor, nn

from txlab.engine.transformer.blocks import Activation, Block, Kernel, Stack, set_dropout
from txlab.engine.transformer.hooks import NO_HOOKS, Hooks
from txlab.engine.transformer.masks import NO_MASK
from txlab.engine.transformer.norms import LayerNorm

Pooling = Literal["class", "mean"]


@dataclass(frozen=True)
class VisionShape:
    """The configuration of a model.

    layers N · heads H · width D · feed_forward F (0 = 4D)
    image    Y = X, pixels per side; a multiple of `patch`, the side of a patch
    channels C · classes, the number of classes
    pooling  "class": a learnt token before the patches, read at the end · "mean": the mean of the patches
    """

    layers: int
    heads: int
    width: int
    image: int
    patch: int
    classes: int
    channels: int = 3
    feed_forward: int = 0
    pooling: Pooling = "class"
    activation: Activation = "gelu"
    dropout: float = 0.0
    epsilon: float = 1e-6

    @property
    def side(self) -> int:
        """R, patches per side."""
        return self.image // self.patch

    @property
    def context(self) -> int:
        """T, positions: R² patches, and the class token."""
        return self.side**2 + (self.pooling == "class")

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def inner(self) -> int:
        """F, with 0 read as 4D."""
        return self.feed_forward or 4 * self.width

    @property
    def patch_numbers(self) -> int:
        """C P², the number of values in a patch."""
        return self.channels * self.patch**2


class VisionTransformer(nn.Module):
    """Images (B, C, Y, X) → logits (B, classes). MATH T14; Dosovitskiy et al. 2021, eq. 1–4.

    Places: embedding (B, T, D), with positions · blocks.0.…, see Block · pooled (B, D), after the last LayerNorm ·
    logits (B, classes).
    """

    def __init__(self, shape: VisionShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if shape.image % shape.patch:
            raise ValueError(f"an image of {shape.image} pixels cannot be cut into patches of {shape.patch}")
        self.shape = shape
        D = shape.width
        self.embed = nn.Linear(shape.patch_numbers, D)  # (D, C P²)
        self.class_token = nn.Parameter(torch.zeros(1, D)) if shape.pooling == "class" else None
        self.positions = nn.Embedding(shape.context, D)  # (T, D)
        self.dropout = nn.Dropout(shape.dropout)
        self.blocks = Stack(
            Block(
                D,
                shape.heads,
                shape.inner,
                activation=shape.activation,
                dropout=shape.dropout,
                epsilon=shape.epsilon,
            )
            for _ in range(shape.layers)
        )
        self.final_norm = LayerNorm(D, epsilon=shape.epsilon)
        self.head = nn.Linear(D, shape.classes)
        initialise(self, generator)

    def forward(self, images: Tensor, kernel: Kernel = "sdpa", hooks: Hooks = NO_HOOKS) -> Tensor:
        x = self.embed(patches(images, self.shape.patch))  # (B, R², D)
        if self.class_token is not None:
            x = torch.cat((self.class_token.expand(len(x), 1, -1), x), 1)  # (B, T, D)
        x = x + self.positions.weight
        x = self.blocks(self.dropout(hooks("embedding", x)), NO_MASK, kernel, hooks=hooks)  # (B, T, D)
        # LayerNorm acts on each position separately, so the class token can be selected before it; a mean cannot.
        pooled = self.final_norm(x[:, 0]) if self.class_token is not None else self.final_norm(x).mean(1)  # (B, D)
        return hooks("logits", self.head(hooks("pooled", pooled)))

    def set_dropout(self, share: float) -> None:
        """Set the dropout probability of embeddings, weights α and branch outputs."""
        set_dropout(self, share)


@torch.no_grad()
def initialise(model: VisionTransformer, generator: torch.Generator | None) -> None:
    """Maps N(0, 1/inputs), those into the residual stream divided by √(2N), positions N(0, ½²), biases 0.

    LeCun et al. 1998, §4.6, so that the output of a map is about as large as its input: with the .02 of the language
    models, which are ten times as wide, queries and keys of width 64 start so small that every pattern is flat.
    """
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif name in ("positions.weight", "class_token"):
            parameter.normal_(0.0, 0.5, generator=generator)
        elif parameter.dim() >= 2:
            deviation = 1 / sqrt(parameter.shape[1])
            if name.endswith(("attention.out_proj.weight", "feed_forward.down_proj.weight")):
                deviation /= sqrt(2 * model.shape.layers)
            parameter.normal_(0.0, deviation, generator=generator)


def patches(images: Tensor, patch: int) -> Tensor:
    """Cut images into patches, row by row: (B, C, Y, X) → (B, R², C P²), channel after channel within a patch.

    >>> patches(torch.arange(16.0).view(1, 1, 4, 4), 2)[0, 1].tolist()
    [2.0, 3.0, 6.0, 7.0]
    """
    B, C, Y, X = images.shape
    cut = images.reshape(B, C, Y // patch, patch, X // patch, patch)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(B, (Y // patch) * (X // patch), C * patch * patch)


def patch_names(shape: VisionShape) -> list[str]:
    """Return the names of the T positions, rows and columns counted from 1.

    >>> patch_names(VisionShape(1, 1, 4, image=4, patch=2, classes=2))
    ['class', 'r1c1', 'r1c2', 'r2c1', 'r2c2']
    """
    names = [f"r{row}c{column}" for row in range(1, shape.side + 1) for column in range(1, shape.side + 1)]
    return ["class", *names] if shape.pooling == "class" else names
