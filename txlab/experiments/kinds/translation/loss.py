"""The loss of a batch of pairs, computed alike by training, by evaluation and by the probe that times it (MATH T8)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from txlab.engine.transformer.attention import Kernel
from txlab.engine.transformer.encoder_decoder import EncoderDecoder
from txlab.experiments.kinds.language_model.batch import NOT_SCORED
from txlab.experiments.kinds.translation.batch import Batch


def summed_loss(
    model: EncoderDecoder, batch: Batch, kernel: Kernel, dtype: torch.dtype, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """(Σ over the scored targets of −Σᵥ q(v) log softmax(logits)[v], logits (B, T, V)), with teacher forcing.

    q = (1 − s) · [v is the target] + s / V, s the label smoothing (Szegedy et al. 2016, §7; Vaswani et al. 2017, §5.4).
    The model computes in `dtype`; the sum is taken in float32.
    """
    with torch.autocast(batch.source.device.type, dtype, enabled=dtype != torch.float32):
        logits: Tensor = model(batch.source, batch.inputs, kernel, source_mask=batch.source_mask)
    scores, wanted = logits.float().flatten(0, 1), batch.targets.flatten()
    return F.cross_entropy(scores, wanted, ignore_index=NOT_SCORED, reduction="sum", label_smoothing=smoothing), logits
