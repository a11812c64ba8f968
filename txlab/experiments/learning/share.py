"""The part of a training step that this process computes, and what is added up with others'.

One process computes all of every batch (`Share`). Several that train one model together each compute a part; what they
add up, and where the parameters lie, is said by a subclass that whoever starts the processes puts in its place
(`take_share`). A kind of experiment needs no line of its own:

- `accumulate` gives `work` this process's rows, and adds up what it measured. `work` divides by the number scored in
  the whole batch already, so the sums are those of one process: a mean of means would weight targets by how they
  happened to be split.
- Where a kind calls its model itself, the model's rows are split between the processes and its outputs put together
  again, so that the loss, whatever it is, is computed from the whole batch in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)


class Share:
    """All of it.

    rank, count    this is process `rank` of `count`
    beside         how many of them share this machine
    splits_models  whether a process holds only a part of each parameter
    """

    rank, count, beside = 0, 1, 1
    splits_models = False

    def placed(self, model: Model) -> Model:
        """The model with its parameters where they are to lie; called once, before it has an optimizer."""
        return model

    def part(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """This process's rows of the tensors of a batch, whose loss is a sum over the rows of all processes."""
        return tensors

    def summed(self, measured: dict[str, Tensor]) -> dict[str, Tensor]:
        """The sums over all processes of what each measured of its part."""
        return measured

    def splitting(self, model: nn.Module) -> AbstractContextManager[None]:
        """Within it, the rows that the model is called with are split between the processes."""
        return nullcontext()

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Make the gradients those of the whole batch."""

    def norm(self, norm: Tensor) -> Tensor:
        """‖g‖ from that of the gradients that lie here."""
        return norm

    def anywhere(self, flags: Tensor) -> Tensor:
        """Which of the flags (bool) are set in any process."""
        return flags

    def here(self, tensor: Tensor) -> Tensor:
        """The part of a parameter, or of its gradient, that lies here."""
        return tensor

    def laid_out(self, tensor: Tensor, as_is: Tensor) -> Tensor:
        """A whole tensor laid out as another one is."""
        return tensor

    def whole(self, model: nn.Module) -> AbstractContextManager[None]:
        """Within it, the parameters lie here as a whole; all processes enter and leave it together."""
        return nullcontext()

    def copied(self, model: Model, make: Callable[[], Model]) -> Model:
        """A model with all of its parameters here: itself, or one that `make` makes."""
        return model


ALONE = Share()
_present: Share = ALONE


def take_share(share: Share) -> None:
    """What this process computes from now on, in every experiment that it builds."""
    global _present
    _present = share


def present_share() -> Share:
    return _present
