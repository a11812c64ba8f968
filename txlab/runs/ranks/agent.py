"""torch's elastic launcher on this machine, as a process of its own: COUNT RUN [--rewind-to STEP].

It says in a file which processes failed, and how: a process that was killed cannot say so itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import orjson

from txlab.runs.ranks.launch import ENDING


def main(arguments: Sequence[str]) -> int:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    count, *rest = arguments
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does; each process then sets its own number
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=int(count),
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.1,
    )
    try:
        elastic_launch(config, sys.executable)("-P", "-m", "txlab.runs.process", *rest)
    except ChildFailedError as error:
        failed = {}
        for rank, failure in error.failures.items():
            how = f"was ended by {failure.signal_name()}" if failure.exitcode < 0 else f"ended with {failure.exitcode}"
            failed[str(rank)] = f"process {rank} of {count} {how}"
        Path(f"{os.environ[ENDING]}.agent").write_bytes(orjson.dumps(failed))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
