"""Private names of torch, used in this file only. Each has a reason, and a fallback where it is missing.

_foreach_… one kernel for a list of tensors instead of one per tensor, as in torch's optimizers and `clip_grad_norm_`. A
GPT of 809 k parameters has 52 gradients, and a step of it on a GPU is otherwise
             bound by the launches.
_pytree      maps over the tensors in a module's arguments and results, with any nesting
_dynamo      how many variants of a function the compiler keeps; by default it gives up after eight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def multiply_(tensors: list[Tensor], factor: float | Tensor) -> None:
    """xᵢ ← xᵢ · factor"""
    if tensors and hasattr(torch, "_foreach_mul_"):
        torch._foreach_mul_(tensors, factor)  # type: ignore[call-overload]  # a number and a tensor are two of them
        return
    for tensor in tensors:
        tensor.mul_(factor)


def add_(tensors: list[Tensor], others: list[Tensor]) -> None:
    """xᵢ ← xᵢ + yᵢ"""
    if tensors and hasattr(torch, "_foreach_add_"):
        torch._foreach_add_(tensors, others)
        return
    for tensor, other in zip(tensors, others, strict=True):
        tensor.add_(other)


def copy_(tensors: list[Tensor], others: list[Tensor]) -> None:
    """xᵢ ← yᵢ"""
    if tensors and hasattr(torch, "_foreach_copy_"):
        torch._foreach_copy_(tensors, others)
        return
    for tensor, other in zip(tensors, others, strict=True):
        tensor.copy_(other)


def norms(tensors: list[Tensor]) -> Sequence[Tensor]:
    """‖xᵢ‖₂"""
    if tensors and hasattr(torch, "_foreach_norm"):
        return torch._foreach_norm(tensors)
    return [torch.linalg.vector_norm(tensor) for tensor in tensors]


def map_tensors(function: Callable[[Tensor], Any], value: Any) -> Any:
    """The value with each tensor replaced; other values as they are."""
    try:
        from torch.utils._pytree import tree_map_only
    except ImportError:
        return _map_tensors(function, value)
    return tree_map_only(Tensor, function, value)


def _map_tensors(function: Callable[[Tensor], Any], value: Any) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return type(value)({key: _map_tensors(function, each) for key, each in value.items()})  # type: ignore[call-arg]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map_tensors(function, each) for each in value))
    if isinstance(value, list | tuple):
        return type(value)(_map_tensors(function, each) for each in value)
    return value


def keep_compiled(variants: int) -> None:
    """Let the compiler keep at least this number of variants of a function."""
    config = getattr(getattr(torch, "_dynamo", None), "config", None)
    if config is not None:
        config.cache_size_limit = max(variants, config.cache_size_limit)
