"""The batches of training, each made and copied to the device during the previous step.

A batch is a pure function of (seed, update), so one that was made too early, or for an update that a rewind skipped, is
remade. Nothing about it is saved.

Notable: there is no thread. On a GPU a step returns as soon as its kernels are queued, and the device needs much longer
than the host: that is when the next batch is made. Its copy uses a separate stream, from pinned memory, since any other
copy would wait for the queued kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class Prefetch:
    """`make(update)` gives the tensors of an update, in main memory.

    ahead  whether batches are made in advance: on a GPU, since a CPU would do both itself
    """

    def __init__(self, make: Callable[[int], Sequence[Tensor]], device: torch.device, ahead: bool = True) -> None:
        self.make, self.device = make, device
        self.stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.ahead = ahead and self.stream is not None
        self.coming: tuple[int, tuple[Tensor, ...]] | None = None

    def take(self, update: int) -> tuple[Tensor, ...]:
        """The tensors of update n on the device, for work queued on the current stream."""
        made = self.coming[1] if self.coming is not None and self.coming[0] == update else self._copy(update)
        self.coming = None
        if self.stream is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(self.stream)
            for tensor in made:
                tensor.record_stream(current)  # its memory is not given to the next copy before it has been read
        return made

    def prepare(self, update: int) -> None:
        """Make the tensors of update n and start their copy; does nothing on a CPU."""
        if self.ahead:
            self.coming = update, self._copy(update)

    def _copy(self, update: int) -> tuple[Tensor, ...]:
        tensors = self.make(update)
        if self.stream is None:
            return tuple(tensor.to(self.device) for tensor in tensors)
        with torch.cuda.stream(self.stream):
            return tuple(
                tensor if tensor.is_cuda else tensor.pin_memory().to(self.device, non_blocking=True)
                for tensor in tensors
            )
