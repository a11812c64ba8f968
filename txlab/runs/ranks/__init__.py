"""Several processes that compute one run together. torch.distributed is used in this package and nowhere else.

launch    how they are started, and waited for     sharing    which rows are whose, and what is added up
group     what they tell each other                computing  how the run's loop goes in each of them
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True)
class Place:
    """What torchrun says in the environment: this is process `rank` of `count`, `local` among the `beside` of its host.

    restarts  how often all of them were started again after one had failed
    launch    names the launch, whatever the number of restarts
    """

    rank: int
    count: int
    local: int
    beside: int
    restarts: int
    launch: str

    @property
    def leads(self) -> bool:
        """Whether this process writes the run."""
        return self.rank == 0


def place() -> Place | None:
    """Where this process stands among those that torchrun started; None if it has not started it."""
    said = os.environ
    if "TORCHELASTIC_RUN_ID" not in said or "RANK" not in said:
        return None
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")
    rank, count, local, beside, restarts = (int(said.get(name, "WORLD" in name)) for name in names)
    # The launcher is the parent of all its processes and outlives them; its number may be another's on another host.
    return Place(rank, count, local, beside, restarts, f"{said['TORCHELASTIC_RUN_ID']}/{os.getppid()}")


def leave(status: int) -> NoReturn:
    """End this process now: at the interpreter's end, threads of gloo that still hold tensors abort it now and then."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def many() -> Place | None:
    """As `place`, for one of several processes."""
    here = place()
    return here if here is not None and here.count > 1 else None
