"""What one step of training reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Tally: TypeAlias = "Mapping[str, tuple[float, int]]"  # name of a metric → (sum, how many it is the sum of)

NOT_SCORED = -100  # torch's cross_entropy leaves such targets out


@dataclass(frozen=True)
class Batch:
    """`inputs` (B, T) int64; `targets` (B, T) int64, the token that follows each input, or −100 where not scored.

    weight  how much each of its targets counts in a validation loss over several batches
    source  the text of a mixture that it comes from; "" = there is but one
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    weight: float = 1.0
    source: str = ""


def as_batch(windows: NDArray[np.int64], scored: NDArray[np.bool_] | None = None) -> Batch:
    """(n, T + 1) tokens → inputs and the tokens that follow them; `scored` (n, T): which of these count."""
    import torch

    targets = windows[:, 1:] if scored is None else np.where(scored, windows[:, 1:], NOT_SCORED)
    return Batch(torch.from_numpy(windows[:, :-1].copy()), torch.from_numpy(np.ascontiguousarray(targets)))
