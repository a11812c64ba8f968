"""The loss of a batch, computed alike by training, by evaluation and by the probe that times it (MATH T9).

Notable: a plain function of its own, so that torch's compiler gets model and loss as one piece: the softmax over the
vocabulary is fused with the last product (4 layers of width 128 on two cores: 18.0 ms against 18.7).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.gpt import GPT
from txlab.experiments.kinds.language_model.batch import NOT_SCORED


def summed_loss(
    model: GPT, inputs: Tensor, targets: Tensor, kernel: Kernel, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(Σ −log softmax(logits)[target] over the scored targets, logits): inputs and targets (B, T), logits (B, T, V).

    The model computes in `dtype`; the sum is taken in float32, because bfloat16 has 8 bits and a loss needs more.
    """
    with torch.autocast(inputs.device.type, dtype, enabled=dtype != torch.float32):
        logits: Tensor = model(inputs, kernel)
    scores, wanted = logits.float().flatten(0, 1), targets.flatten()
    return F.cross_entropy(scores, wanted, ignore_index=NOT_SCORED, reduction="sum"), logits
