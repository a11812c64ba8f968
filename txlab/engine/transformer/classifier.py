"""An encoder that classifies whole texts: fine-tuning as BERT does it (MATH T10, T12; Devlin et al. 2019, §4.1).

The head of masked tokens is replaced by one map from the output at [CLS] to the classes; everything else keeps the
weights of its pre-training, and all weights are trained.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.blocks import Kernel, set_dropout
from txlab.engine.transformer.hooks import NO_HOOKS, Hooks
from txlab.engine.transformer.masks import Padding


class BertClassifier(nn.Module):
    """Token ids (B, T) that begin with [CLS] → logits (B, classes) = C Wᵀ + b, C the encoder's output at [CLS] (B, D).

    Places: embedding (B, T, D) · encoder.blocks.0.…, see Block · logits (B, classes).
    """

    HEAD = ("transform.", "transform_norm.", "unembed.", "unembed_bias")  # of masked tokens, unused here

    def __init__(self, shape: BertShape, generator: torch.Generator | None = None) -> None:
        """ValueError for a shape without classes."""
        super().__init__()
        if not shape.classes:
            raise ValueError("a classifier needs the number of its classes")
        self.shape = shape
        self.body = Bert(shape, generator)
        for name in ("transform", "transform_norm", "unembed"):
            setattr(self.body, name, None)
        self.body.register_parameter("unembed_bias", None)
        self.head = nn.Linear(shape.width, shape.classes)  # (classes, D)
        with torch.no_grad():
            self.head.weight.normal_(0.0, 0.02, generator=generator)
            self.head.bias.zero_()

    def forward(self, ids: Tensor, lengths: Tensor, kernel: Kernel = "sdpa", hooks: Hooks = NO_HOOKS) -> Tensor:
        """`lengths` (B): tokens of each text, after which `ids` is padding."""
        return hooks("logits", self.head(self.encode(ids, lengths, kernel, hooks)[:, 0]))

    def encode(self, ids: Tensor, lengths: Tensor, kernel: Kernel = "sdpa", hooks: Hooks = NO_HOOKS) -> Tensor:
        """The encoder's output at every position, (B, T, D)."""
        return self.body.encode(ids, None, kernel, Padding(lengths), hooks)

    def pretrained(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights of this model with those of an encoder trained on masked tokens; the classes' map stays."""
        kept = {f"body.{name}": tensor for name, tensor in weights.items() if not name.startswith(self.HEAD)}
        return self.state_dict() | kept

    def set_dropout(self, share: float) -> None:
        """Set the dropout probability of embeddings, weights α and branch outputs."""
        set_dropout(self, share)
