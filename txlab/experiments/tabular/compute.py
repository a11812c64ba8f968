"""The table [compute] where tables are learnt: most of what it decides is for networks, and nothing is left open.

Notable: `auto` is the CPU. Below some 100 000 agents it is faster than launching a GPU's kernels.
"""

from __future__ import annotations

from txlab.errors import LabError
from txlab.experiments.schema import Compute

FOR_NETWORKS = {"dtype": "float32", "attention": "matmul", "share": "operations", "compile": False}


def for_tables(compute: Compute) -> Compute:
    """The same table with a value for all that was `auto`, on one thread unless it says how many."""
    chosen = {name: value for name, value in FOR_NETWORKS.items() if getattr(compute, name) == "auto"}
    device = "cpu" if compute.device == "auto" else compute.device
    return compute.model_copy(update={"device": device, "threads": compute.threads or 1, **chosen})


def on_the_cpu(compute: Compute, what: str) -> Compute:
    """The same for what is computed by NumPy alone. LabError for another device than the CPU."""
    if compute.device not in ("auto", "cpu"):
        raise LabError(f"compute.device = {compute.device!r}: {what} is computed on the CPU; allowed: auto, cpu")
    return for_tables(compute)
