"""The part of a training step that this process computes, and the sums over processes.

One process computes all of every batch (`ParallelStrategy`). Several that train one model together each compute a part;
a subclass, installed by the code that starts the processes (`set_strategy`), defines their sums and the placement of
parameters. A kind of experiment needs no extra code:

- `accumulate` gives `work` this process's rows, and adds up its measurements. `work` divides by the number scored in
  the whole batch already, so the sums are those of one process: a mean of means would weight targets by the split.
- Where a kind calls its model itself, the model's rows are split between the processes and its outputs gathered, so
that any loss is computed from the whole batch in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)


class ParallelStrategy:
    """One process computes every batch and holds every parameter.

    rank, count       this is process `rank` of `count`
    local_world_size  the number of processes on this machine
    splits_models     whether a process holds only a part of each parameter
    """

    rank, count, local_world_size = 0, 1, 1
    splits_models = False

    def place_model(self, model: Model) -> Model:
        """The model with its parameters placed; called once, before it has an optimizer."""
        return model

    def local_rows(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """This process's rows of the tensors of a batch, whose loss is a sum over the rows of all processes."""
        return tensors

    def sum_measured(self, measured: dict[str, Tensor]) -> dict[str, Tensor]:
        """The sums over all processes of what each measured of its part."""
        return measured

    def split_rows(self, model: nn.Module) -> AbstractContextManager[None]:
        """Within it, the rows that the model is called with are split between the processes."""
        return nullcontext()

    def reduce_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Make the gradients those of the whole batch."""

    def global_norm(self, norm: Tensor) -> Tensor:
        """‖g‖ from that of the local gradients."""
        return norm

    def any_rank(self, flags: Tensor) -> Tensor:
        """Which of the flags (bool) are set in any process."""
        return flags

    def local_shard(self, tensor: Tensor) -> Tensor:
        """The local part of a parameter, or of its gradient."""
        return tensor

    def distribute_like(self, tensor: Tensor, as_is: Tensor) -> Tensor:
        """A whole tensor laid out as another one is."""
        return tensor

    def unshard(self, model: nn.Module) -> AbstractContextManager[None]:
        """Within it, this process has the whole parameters; all processes enter and leave it together."""
        return nullcontext()

    def full_copy(self, model: Model, make: Callable[[], Model]) -> Model:
        """A model with all of its parameters here: itself, or one that `make` makes."""
        return model


SINGLE_PROCESS = ParallelStrategy()
_current: ParallelStrategy = SINGLE_PROCESS


def set_strategy(share: ParallelStrategy) -> None:
    """Set the part that this process computes, in every experiment that it builds."""
    global _present
    _current = share


def current_strategy() -> ParallelStrategy:
    return _current
