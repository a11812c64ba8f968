"""Whether this machine can hold and train a model at all, from the computed size of its shape (MATH T11).

The bounds are generous, so that only hopeless cases are refused: the least memory that training takes, and a speed
beyond any machine of today.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from txlab.errors import LabError
from txlab.experiments.schema import group_digits

if TYPE_CHECKING:
    from txlab.engine.recurrent.translation import RecurrentTranslatorShape
    from txlab.engine.transformer.costs import AnyShape

USUAL = 512  # sizes of [model] up to this one need no closer look, which would import torch
USUAL_STEPS = 10**9
BYTES_A_PARAMETER = 16  # float32: weight, gradient, two moments
BYTES_A_BLOCK = 20_000  # of Python objects, measured with blocks of width 4
FASTEST = {"cpu": 4e12, "mps": 1e14, "cuda": 4e15}  # FLOP/s of a core, and of a whole GPU
YEARS = 100


def is_usual(scenario: Any) -> bool:
    """Whether the settings alone show that the model is small and the training short."""
    sizes = [size for size in scenario.model.model_dump().values() if isinstance(size, int)]
    return bool(max(*sizes, scenario.train.batch) <= USUAL and scenario.train.steps <= USUAL_STEPS)


def require_possible(scenario: Any, shape: AnyShape | RecurrentTranslatorShape) -> None:
    """Raise LabError if the device cannot hold the model while it learns, or would be occupied for a hundred years.

    memory ≥ 16 parameters + 2 B T N D bytes: of every block at least its input is kept, in two bytes a number.
    """
    import psutil
    import torch

    from txlab.engine.cores import cores
    from txlab.engine.device import choose_device
    from txlab.engine.transformer.costs import costs

    train, cost = scenario.train, costs(shape)
    layers: int = sum(getattr(shape, name, 0) for name in ("layers", "encoder_layers", "decoder_layers"))
    kept = 2 * (train.batch // train.accumulate) * shape.context * layers * shape.width
    needed = BYTES_A_PARAMETER * cost.parameters + BYTES_A_BLOCK * layers + kept
    device = choose_device(scenario.compute.device)
    is_gpu = device.type == "cuda"
    there = torch.cuda.get_device_properties(device).total_memory if is_gpu else psutil.virtual_memory().total
    smaller = "smaller: model.layers, model.width, model.context, train.batch"
    if needed > there:
        raise LabError(
            f"a model of {group_digits(cost.parameters)} parameters in {group_digits(layers)} layers needs at least "
            f"{gigabytes(needed)} GB while it learns, and {'the GPU' if is_gpu else 'this machine'} has "
            f"{gigabytes(there)} GB; {smaller}"
        )
    work = train.steps * train.batch * shape.context * cost.flops_per_token
    years = work / (FASTEST[device.type] * (cores() if device.type == "cpu" else 1)) / (365.25 * 86400)
    if years > YEARS:
        raise LabError(
            f"train.steps = {train.steps} would take more than {group_digits(int(years))} years here "
            f"({work / train.steps:.1e} FLOPs a step); allowed: at most {YEARS} years; {smaller}, train.steps"
        )


def gigabytes(size: int) -> str:
    return group_digits(-(-size // 10**9))
