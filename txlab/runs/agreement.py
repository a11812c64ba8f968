"""Training on several processes: which of them records, and how a request to that one reaches all of them.

Notable: only the process of rank 0 has a run directory. Requests reach the others in one broadcast of two numbers per
step, so that all stop at the same step and change a parameter between the same two updates. While it waits it repeats
the broadcast, because a collective that times out ends the job (NCCL: 10 minutes).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

GO, WAIT, STOP = 0, 1, 2
News = tuple[str, float]  # a parameter and its new value; "" and a step: save


def _distributed_module() -> Any:
    """torch.distributed, if a process group of several processes has been made; else None."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if (
        distributed is None
        or not distributed.is_available()
        or not distributed.is_initialized()
        or distributed.get_world_size() < 2
    ):
        return None
    return distributed


def rank() -> int:
    """The rank of this process: of the process group, else $RANK where $WORLD_SIZE is above 1, else 0."""
    distributed = _distributed_module()
    if distributed is not None:
        return int(distributed.get_rank())
    try:
        return int(os.environ.get("RANK", 0)) if int(os.environ.get("WORLD_SIZE", 1)) > 1 else 0
    except ValueError:
        return 0


def several() -> bool:
    """Whether this process is one of several that train one model."""
    return _distributed_module() is not None


def agree(verdict: int = GO, news: Sequence[News] = ()) -> tuple[int, list[News]]:
    """Return rank 0's value on all ranks; a collective, so every rank must call it. Alone: the argument."""
    import torch

    distributed = _distributed_module()
    if distributed is None:
        return verdict, list(news)
    gloo = "gloo" in str(distributed.get_backend()) or "cpu:" in str(distributed.get_backend())
    device = torch.device("cpu") if gloo else torch.device("cuda", torch.cuda.current_device())
    message = torch.tensor([verdict, len(news)], dtype=torch.int64, device=device)
    distributed.broadcast(message, 0)
    verdict, many = (int(number) for number in message.tolist())
    parts: list[Any] = [list(news) if distributed.get_rank() == 0 else None]
    if many:
        distributed.broadcast_object_list(parts, 0, device=device)
    return verdict, list(parts[0] or ())
