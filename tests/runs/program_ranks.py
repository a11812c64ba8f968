"""Started by torchrun, or alone: trains small models in one of several processes, and saves what came of it.

OUT PARALLEL:CASE…: every case in float64 and in float32. Rank 0 writes OUT/PARALLEL-COUNT-CASE-DTYPE.npz: each metric
of every step, and the weights and moments of the last. In float64 the default dtype is changed, and `Tensor.float`, by
which losses are computed in float32, as well.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from txlab.experiments.kind import kind_named
from txlab.experiments.learning.parallel_strategy import SINGLE_PROCESS, set_strategy
from txlab.runs.checkpoints import take_apart
from txlab.runs.ranks.computing import gather_state
from txlab.runs.ranks.strategies import ReplicatedStrategy, ShardedStrategy

COMPUTE = {"device": "cpu", "dtype": "float32", "attention": "matmul", "threads": 1, "compile": False}
SMALL = {"heads": 2, "width": 16, "dropout": 0.0}
# ε: where a gradient is 0 but for rounding (biases of keys, the level of a reward) AdamW would make steps of the noise.
EPSILON = {"epsilon": 1e-4}
TRAIN = {"batch": 7, "warmup": 10, "validation_batches": 1, **EPSILON}
CASES: dict[str, tuple[int, dict[str, Any]]] = {
    # 53 symbols, which neither 2 nor 3 divide; only those of the repeated segment are scored, so that rows differ
    "gpt": (
        100,
        {
            "kind": "language-model",
            "data": {"source": "induction", "vocabulary": 53},
            "sampling": {"prompts": ["abc"]},
            "model": {**SMALL, "layers": 2, "context": 17},
            "train": {**TRAIN, "steps": 100},
        },
    ),
    "translation": (
        100,
        {
            "kind": "translation",
            "data": {"pairs": 400},
            "model": {**SMALL, "encoder_layers": 1, "decoder_layers": 1},
            "train": {**TRAIN, "steps": 100},
        },
    ),
    "feedback": (
        40,
        {
            "kind": "human-feedback",
            "task": {"tokens": 20},
            "model": {**SMALL, "layers": 2, "context": 48},
            "pretraining": {**EPSILON, "steps": 5, "batch": 7},
            "demonstrations": {**EPSILON, "steps": 5, "batch": 7},
            "rankings": {**EPSILON, "steps": 4, "answers": 3, "batch": 2, "settling": 1},
            "policy": {**EPSILON, "steps": 25, "batch": 14, "minibatches": 2},  # 100 updates
        },
    ),
    "accumulated": (
        20,
        {
            "kind": "language-model",
            "data": {"source": "few-shot", "vocabulary": 37},
            "sampling": {"prompts": ["abc"]},
            "model": {**SMALL, "layers": 1, "context": 17},
            "train": {**TRAIN, "batch": 10, "accumulate": 2, "steps": 20},
        },
    ),
    "masked": (
        20,
        {
            "kind": "masked-language-model",
            "model": {**SMALL, "layers": 1, "context": 16},
            "train": {**TRAIN, "steps": 20},
        },
    ),
    "vision": (
        20,
        {
            "kind": "image-classification",
            "model": {**SMALL, "layers": 1},
            "train": {**TRAIN, "steps": 20},
        },
    ),
    "dpo": (
        16,
        {
            "kind": "human-feedback",
            "task": {"tokens": 20},
            "model": {**SMALL, "layers": 1, "context": 48},
            "pretraining": {**EPSILON, "steps": 2, "batch": 7},
            "demonstrations": {**EPSILON, "steps": 2, "batch": 7},
            "rankings": {**EPSILON, "steps": 4, "answers": 3, "batch": 2, "settling": 1},
            "policy": {**EPSILON, "steps": 7, "batch": 7, "minibatches": 1, "method": "dpo"},
        },
    ),
}


def trained(case: str, share: Any) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """The metrics of each step, by name, and the tensors of the last state."""
    steps, said = CASES[case]
    set_strategy(share)
    kind = kind_named(said["kind"])
    experiment: Any = kind.build(kind.schema.model_validate({**said, "seed": 3, "compute": COMPUTE}))
    found: dict[str, list[float]] = {}
    for _ in range(steps):
        if hasattr(experiment, "waiting"):
            assert not experiment.waiting
        for name, value in experiment.step().items():
            found.setdefault(name, []).append(float(value))
    state = gather_state(experiment.state_dict(), share.rank == 0)
    return found, take_apart(state)[1]


def in_float64(work: Callable[[], Any]) -> Any:
    single = torch.Tensor.float
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign]
    try:
        return work()
    finally:
        torch.set_default_dtype(torch.float32)
        torch.Tensor.float = single  # type: ignore[method-assign]


def main(out: Path, chosen: list[str]) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    several = int(os.environ.get("WORLD_SIZE", 1)) > 1
    if several:
        dist.init_process_group("gloo")
    for each in chosen:
        parallel, case = each.split(":")
        for dtype in ("float64", "float32"):
            if (case, dtype) == ("vision", "float64"):
                continue  # its images are float32
            share = {
                "one": lambda: SINGLE_PROCESS,
                "ddp": ReplicatedStrategy,
                "fsdp": lambda: ShardedStrategy(torch.device("cpu")),
            }[parallel]()
            metrics, tensors = (in_float64 if dtype == "float64" else (lambda work: work()))(
                lambda case=case, share=share: trained(case, share)
            )
            if share.rank == 0:
                numbers = {f"metric/{name}": np.array(values) for name, values in metrics.items()}
                weights = {name: np.asarray(tensor) for name, tensor in tensors.items()}
                np.savez(out / f"{parallel}-{share.count}-{case}-{dtype}.npz", **numbers, **weights)
    if several:
        dist.barrier()
        os._exit(0)  # threads of gloo abort the interpreter's end, once in a while


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
