"""Several processes that compute one run together. torch.distributed is used in this package and nowhere else.

launch    starts them, and waits for them    sharing    divides the rows, and adds up the gradients
group     their communication                computing  the run's loop in each of them
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True)
class RankInfo:
    """torchrun's environment: this is process `rank` of `count`, and process `local_rank` of the `local_world_size` on
    its host.

    restarts  how often all of them were restarted after one had failed
    launch    names the launch, independent of restarts
    """

    rank: int
    count: int
    local_rank: int
    local_world_size: int
    restarts: int
    launch: str

    @property
    def leads(self) -> bool:
        """Whether this process writes the run."""
        return self.rank == 0


def rank_info() -> RankInfo | None:
    """This process among those started by torchrun; None if torchrun did not start it."""
    environment = os.environ
    if "TORCHELASTIC_RUN_ID" not in environment or "RANK" not in environment:
        return None
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")
    rank, count, local, beside, restarts = (int(environment.get(name, "WORLD" in name)) for name in names)
    # The launcher is the parent of all its processes and outlives them; its pid may be in use on another host too.
    return RankInfo(rank, count, local, beside, restarts, f"{environment['TORCHELASTIC_RUN_ID']}/{os.getppid()}")


def exit_now(status: int) -> NoReturn:
    """End this process immediately: gloo threads that still hold tensors sometimes abort an interpreter at exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def distributed_rank_info() -> RankInfo | None:
    """Return this process's rank if it is one of several, else None."""
    here = rank_info()
    return here if here is not None and here.count > 1 else None
