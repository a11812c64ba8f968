"""What one step of a translation's training reads: sources with their padding, targets shifted by one (MATH T8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from txlab.experiments.kinds.language_model.batch import NOT_SCORED
from txlab.experiments.kinds.translation.symbols import END, PAD, START

if TYPE_CHECKING:
    import torch

    from txlab.engine.transformer.attention import Mask


@dataclass(frozen=True)
class Batch:
    """source (B, S), ending with the end token, then padding; `lengths` says where each ends.

    inputs (B, T) begin with the start token; targets (B, T), the token that follows each input, the last of them the
    end token, −100 where there is only padding.
    """

    source: torch.Tensor
    lengths: tuple[int, ...]
    inputs: torch.Tensor
    targets: torch.Tensor

    @property
    def source_mask(self) -> Mask:
        """The padding of the sources; nothing to mask where all are equally long."""
        from txlab.engine.transformer.attention import NO_MASK, Padding

        return NO_MASK if min(self.lengths) == max(self.lengths) else Padding(self.lengths)

    @property
    def scored(self) -> int:
        """Targets that count."""
        return int((self.targets != NOT_SCORED).sum())

    def part(self, first: int, after: int) -> Batch:
        """The pairs first … after − 1 as a batch."""
        rows = slice(first, after)
        return Batch(self.source[rows], self.lengths[rows], self.inputs[rows], self.targets[rows])

    def of(self, rows: torch.Tensor) -> Batch:
        """The pairs of these consecutive rows (at least one) as a batch: what a thread gets of it."""
        return self.part(int(rows[0]), int(rows[-1]) + 1)

    def to(self, device: torch.device) -> Batch:
        """The same batch there; to a GPU from pinned memory, or the copy would wait for what is computed."""
        source, inputs, targets = self.source, self.inputs, self.targets
        if device.type == "cuda":
            source, inputs, targets = source.pin_memory(), inputs.pin_memory(), targets.pin_memory()
        late = device.type == "cuda"
        return Batch(
            source.to(device, non_blocking=late),
            self.lengths,
            inputs.to(device, non_blocking=late),
            targets.to(device, non_blocking=late),
        )


def padded(rows: Sequence[Sequence[int]], filler: int) -> NDArray[np.int64]:
    """Rows of different lengths as one array, as wide as the longest."""
    table = np.full((len(rows), max(map(len, rows))), filler, dtype=np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return table


def as_batch(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Batch:
    """Pairs of ids, without special tokens → a batch.

    >>> batch = as_batch([([5, 6], [7]), ([5], [8, 9])])
    >>> batch.source.tolist(), batch.inputs.tolist(), batch.targets.tolist()
    ([[5, 6, 2], [5, 2, 0]], [[1, 7, 0], [1, 8, 9]], [[7, 2, -100], [8, 9, 2]])
    """
    import torch

    sources = [[*source, END] for source, _ in pairs]
    return Batch(
        torch.from_numpy(padded(sources, PAD)),
        tuple(map(len, sources)),
        torch.from_numpy(padded([[START, *target] for _, target in pairs], PAD)),
        torch.from_numpy(padded([[*target, END] for _, target in pairs], NOT_SCORED)),
    )
