"""Threads that each run the whole model, forward and backward, on a part of the batch.

Notable: threads that share every operation synchronise after each of them, some hundred times a step, and wait for the
slowest every time; threads that share the batch synchronise once. On two idle cores both take the same (4 layers of
width 128 in bfloat16: 23 ms); next to three busy processes sharing the batch takes 64 ms a step instead of 163. The
result does not depend on timing: each thread has its own gradients, and they are added in the order of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from copy import deepcopy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from txlab.engine.torch_internals import add_

Model = TypeVar("Model", bound=nn.Module)
Result = TypeVar("Result")


class BatchThreads(Generic[Model]):
    """`threads` threads, of which the caller's is the first, and as many models with the same parameters.

    With one thread this just calls the model. The copies stay in evaluation mode: dropout draws from one generator of
    the process, and threads would draw from it in no fixed order.
    """

    def __init__(self, model: Model, threads: int) -> None:
        self.models = [model, *(twin(model) for _ in range(threads - 1))]
        self.pool = ThreadPoolExecutor(threads - 1, "batch", torch.set_num_threads, (1,)) if threads > 1 else None

    def each(
        self,
        work: Callable[..., Result],
        *batch: Tensor,
        in_turn: bool = False,
    ) -> list[Result]:
        """Return `work(model, *part)` for each part of the batch, in order.

        The first axis of each tensor of the batch indexes sequences; no part is empty.
        `in_turn`: run the parts sequentially in this thread, for work that is compiled on the first call: an exception
        in the compiler then stops all of it.
        """
        if self.pool is None:
            return [work(self.models[0], *batch)]
        models = self.models[: max(1, len(batch[0]))]
        parts = zip(*(tensor.tensor_split(len(models)) for tensor in batch), strict=True)
        mine, *others = [(model, *part) for model, part in zip(models, parts, strict=True)]
        with one_thread():
            if in_turn:
                return [work(*job) for job in (mine, *others)]
            theirs = [self.pool.submit(work, *job) for job in others]
            try:
                first = work(*mine)
            finally:
                wait(theirs)  # even if this part failed: no thread continues after an error
            return [first, *(future.result() for future in theirs)]

    def add_gradients(self) -> None:
        """Add the gradients of the copies to the model's own `.grad`, one copy after the other."""
        for copy in self.models[1:]:
            pairs = list(zip(self.models[0].parameters(), copy.parameters(), strict=True))
            shared = [(one.grad, other.grad) for one, other in pairs if one.grad is not None and other.grad is not None]
            add_([one for one, _ in shared], [other for _, other in shared])
            for one, other in pairs:
                one.grad = other.grad if one.grad is None else one.grad
                other.grad = None


def twin(model: Model) -> Model:
    """A copy of the model with its own gradients, whose parameters share the same memory."""
    shared: dict[int, object] = {id(parameter): nn.Parameter(parameter.data) for parameter in model.parameters()}
    return deepcopy(model, shared).eval()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the operations of the calling thread to that one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
