"""Training on several processes: which of them records, and how all of them do what a person asked one for.

Notable: only the process of rank 0 has a run directory. What it was asked for reaches the others in one broadcast of
two numbers a step, so that all stop at the same step and change a parameter between the same two updates. While it
waits it repeats the broadcast, because a collective that nobody joins for minutes ends the job (NCCL: 10 minutes).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

GO, WAIT, STOP = 0, 1, 2
News = tuple[str, float]  # a parameter and its new value; "" and a step: save


def _distributed() -> Any:
    """torch.distributed, if a process group of several processes has been made; else None."""
    torch = sys.modules.get("torch")
    found = getattr(torch, "distributed", None)
    if found is None or not found.is_available() or not found.is_initialized() or found.get_world_size() < 2:
        return None
    return found


def rank() -> int:
    """The rank of this process: of the process group, else $RANK where $WORLD_SIZE is above 1, else 0."""
    found = _distributed()
    if found is not None:
        return int(found.get_rank())
    try:
        return int(os.environ.get("RANK", 0)) if int(os.environ.get("WORLD_SIZE", 1)) > 1 else 0
    except ValueError:
        return 0


def several() -> bool:
    """Whether this process is one of several that train one model."""
    return _distributed() is not None


def agree(verdict: int = GO, news: Sequence[News] = ()) -> tuple[int, list[News]]:
    """Return what rank 0 says, on all ranks; a collective, so every rank must call it. Alone: what was given."""
    import torch

    distributed = _distributed()
    if distributed is None:
        return verdict, list(news)
    gloo = "gloo" in str(distributed.get_backend()) or "cpu:" in str(distributed.get_backend())
    device = torch.device("cpu") if gloo else torch.device("cuda", torch.cuda.current_device())
    told = torch.tensor([verdict, len(news)], dtype=torch.int64, device=device)
    distributed.broadcast(told, 0)
    verdict, many = (int(number) for number in told.tolist())
    parts: list[Any] = [list(news) if distributed.get_rank() == 0 else None]
    if many:
        distributed.broadcast_object_list(parts, 0, device=device)
    return verdict, list(parts[0] or ())
