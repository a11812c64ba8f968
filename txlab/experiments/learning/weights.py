"""Weights put into a model: random ones of a seed, or those of a checkpoint, which must fit (MATH T9).

Notable: the constructors of torch's modules draw from the global generator, which is left as it was; a model's own
weights come from a generator of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from txlab.engine.transformer.blocks import current_name
from txlab.errors import LabError
from txlab.experiments.randomness import derived_seed

Model = TypeVar("Model", bound=nn.Module)


def made(make: Callable[[torch.Generator], Model], seed: int) -> Model:
    """A new model, its weights a function of the scenario's seed."""
    with torch.random.fork_rng(devices=[]):
        return make(torch.Generator().manual_seed(derived_seed(seed, "weights", 0)))


def made_again(make: Callable[[], Model], weights: Mapping[str, Tensor]) -> Model:
    """The model of a checkpoint, in eval mode; LabError where its weights do not fit the scenario's shape."""
    with torch.random.fork_rng(devices=[]):
        model = make()
    load_weights(model, weights)
    return model.eval()


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Put a checkpoint's weights into the model of its scenario; LabError where one does not fit.

    Weights that were saved under the names of an earlier version are found under today's.
    """
    weights = {current_name(name): tensor for name, tensor in weights.items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name, tensor in weights.items():
        if shapes.pop(name, None) != tuple(tensor.shape):
            raise LabError(f"the checkpoint's {name} {tuple(tensor.shape)} does not fit this scenario's [model]")
    if shapes:
        raise LabError(f"the checkpoint lacks {next(iter(shapes))}, which this scenario's [model] has")
    model.load_state_dict(weights)
