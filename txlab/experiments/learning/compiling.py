"""A loss, and with it the model, through torch's compiler: when a run on a CPU is long enough to try it, and how.

Notable: what the compiler gives depends on the shape, the dtype and the machine (4 layers of width 128 on two cores:
the gradients in 17.6 ms where they took 21.1), and it asks for a C++ compiler that many machines lack. So it is tried
on the probe's model, and whatever goes wrong there is a reason not to, never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from txlab.experiments.schema import Compute

LONG = 900.0  # seconds that a run must be expected to take: the compiler has cost 15 to 60 of them
WORTH = 0.95  # compiled steps must be this much shorter


def compiled(loss: Callable[..., Any], share: str) -> Callable[..., Any]:
    """A loss through torch's compiler, and with it the model that it is called with.

    Threads that share the batch need the form that is C++ throughout: the other one keeps Python's lock while its
    kernels run, so that they run one after the other (two halves of a batch in 21.2 ms, where 17.9 suffice).
    """
    import torch

    if share != "batch":
        return torch.compile(loss)
    # Each thread's model is another one to the compiler, which by itself gives up after eight.
    torch._dynamo.config.cache_size_limit = max(64, torch._dynamo.config.cache_size_limit)
    return torch.compile(loss, options={"cpp_wrapper": True})


def as_asked(loss: Callable[..., Any], compute: Compute) -> Callable[..., Any]:
    """The loss that training runs: compiled where [compute] says so."""
    return compiled(loss, compute.share) if compute.compile is True else loss


def spoken(seconds: float) -> str:
    """A duration in the unit one would say it in.

    >>> spoken(50), spoken(600), spoken(9000)
    ('50 s', '10 min', '2.5 h')
    """
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
