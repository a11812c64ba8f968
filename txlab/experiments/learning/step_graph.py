"""Whole training steps as CUDA graphs: some hundred kernels started by one launch (MATH F3).

A small model is bound by launches: each kernel takes less time than starting it from Python. A graph is recorded once,
and replayed for every further step on the same addresses, so everything that differs between two steps must be a tensor
written beforehand: the batch, the learning rate, the number of the update. A plain number in the recorded code
(clipping, weight decay, dropout) is part of the recording; `forget` has it recorded again.

Notable: the first WARM_UP calls run the same code unrecorded, since libraries allocate and choose kernels when they are
first used, and these calls are real updates. Dropout is exact: inside a graph, torch reads seed and offset of the
generator from memory that each replay fills, so a seed set before the replay gives the masks of the same step run
without a graph ("CUDA Graph-safe RNG states" in ATen/cuda/CUDAGeneratorImpl.h). A failed recording is not an error:
training continues without it, and `refused` says why. On a CPU nothing is recorded, all the rest is the same.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from txlab.errors import one_line

WARM_UP = 3  # as torch's own make_graphed_callables


class StepGraph:
    """`work(*tensors)` makes a step with tensors of these shapes and returns numbers, a vector on the device.

    inputs   the tensors that the step reads, at addresses that stay
    refused  why the work cannot be recorded; "" = it can, or has not been tried yet
    """

    def __init__(self, work: Callable[..., Tensor], device: torch.device) -> None:
        self.work, self.device = work, device
        self.side: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self.side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.inputs: tuple[Tensor, ...] = ()
        self.refused = ""
        self.forget()

    def forget(self) -> None:
        """Drop the recording: a number or an address in it is no longer right."""
        self.graph: torch.cuda.CUDAGraph | None = None
        self.found: Tensor | None = None
        self.calls = 0

    def __call__(self, *tensors: Tensor) -> Tensor:
        """Make one step with these tensors; the numbers are a copy, which later steps do not overwrite."""
        self._put(tensors)
        if self.graph is None and self.side is not None and not self.refused and self.calls >= WARM_UP:
            self._record(self.side)
        if self.graph is not None:
            self.graph.replay()
        elif self.side is None or self.refused:
            self.found = self.work(*self.inputs)
        else:
            self._warm_up(self.side)
        self.calls += 1
        assert self.found is not None
        return self.found.clone()

    def _put(self, tensors: tuple[Tensor, ...]) -> None:
        """Copy into the inputs; tensors of other shapes get separate inputs and another recording."""
        if [(each.shape, each.dtype) for each in tensors] != [(each.shape, each.dtype) for each in self.inputs]:
            self.inputs = tuple(torch.empty_like(each, device=self.device) for each in tensors)
            self.forget()
        for mine, given in zip(self.inputs, tensors, strict=True):
            mine.copy_(given, non_blocking=True)

    def _warm_up(self, side: torch.cuda.Stream) -> None:
        """Run the work on the stream that will record it, in order with everything on the current stream."""
        current = torch.cuda.current_stream(self.device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            self.found = self.work(*self.inputs)
        current.wait_stream(side)

    def _record(self, side: torch.cuda.Stream) -> None:
        """Record the work, which does not run it. Why that failed (a copy to the host, memory) is then in `refused`."""
        current = torch.cuda.current_stream(self.device)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=side):
                self.found = self.work(*self.inputs)
        except RuntimeError as error:  # also an OutOfMemoryError: a graph keeps memory of its own
            torch.cuda.set_stream(current)  # torch leaves the stream of a recording that was broken off selected
            self.refused = one_line(error)[:200]
            return
        self.graph = graph
