"""The loss of a batch with hidden tokens (MATH T10)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.bert import Bert
from txlab.experiments.kinds.language_model.batch import NOT_SCORED


def summed_loss(
    model: Bert, inputs: Tensor, targets: Tensor, kernel: Kernel, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(Σ −log softmax(logits)[target] over the tokens asked for, logits): inputs, targets (B, T), logits (B, T, V).

    The model computes in `dtype`, the sum is taken in float32.
    """
    with torch.autocast(inputs.device.type, dtype, enabled=dtype != torch.float32):
        logits: Tensor = model(inputs, kernel=kernel)
    scores, wanted = logits.float().flatten(0, 1), targets.flatten()
    return F.cross_entropy(scores, wanted, ignore_index=NOT_SCORED, reduction="sum"), logits
