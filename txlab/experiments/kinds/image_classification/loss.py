"""The loss of a batch of images: the same in training, in evaluation and in the probe that times it (MATH T14)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.vision import VisionTransformer


def summed_loss(
    model: VisionTransformer, pixels: Tensor, classes: Tensor, kernel: Kernel, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(Σ −log softmax(logits)[class], logits (B, classes)): computed in `dtype`, summed in float32."""
    with torch.autocast(pixels.device.type, dtype, enabled=dtype != torch.float32):
        logits: Tensor = model(pixels, kernel)
    return F.cross_entropy(logits.float(), classes, reduction="sum"), logits
