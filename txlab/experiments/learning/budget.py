"""The memory that a training step is computed to need (MATH T11), for the report of a run that had too little."""

from __future__ import annotations

from typing import Any

from torch import nn

from txlab.engine.transformer.costs import AnyShape, step_memory
from txlab.experiments.protocol import Budget


def budget_of(scenario: Any, model: nn.Module, shape: Any) -> Budget:
    """Weights, gradients and moments as the model has them; activations as well, if its shape is a transformer's."""
    train, compute = scenario.train, scenario.compute
    accumulate = getattr(train, "accumulate", 1)
    sequences = getattr(train, "batch", 1) // accumulate
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    parts = {"weights": weights, "gradients": weights, "moments of the optimizer": 2 * weights}
    of = f"batches of {sequences}"
    if isinstance(shape, AnyShape):
        needed = step_memory(
            shape, sequences, bfloat16=compute.dtype == "bfloat16", pattern=compute.attention == "matmul"
        )
        parts |= {"weights in bfloat16": needed.copies} if needed.copies else {}
        parts["activations"] = needed.activations
        of = f"{sequences} × {shape.context} positions, width {shape.width}"
    of += f", {compute.dtype}, {compute.attention} attention"
    context = getattr(getattr(scenario, "model", None), "context", 0)
    lower = [
        *(["lower train.batch"] if sequences > 1 and accumulate == 1 else []),
        *(["raise train.accumulate"] if sequences > 1 and hasattr(train, "accumulate") else []),
        *(["lower model.context"] if context else []),
        *(['set compute.dtype to "bfloat16"'] if compute.dtype == "float32" else []),
        *(['set compute.attention to "sdpa"'] if compute.attention == "matmul" else []),
        *(["set compute.cuda_graphs to false"] if compute.cuda_graphs is True else []),
        *(["lower model.layers or model.width"] if hasattr(scenario, "model") else []),
    ]
    return Budget(of, parts, lower)
