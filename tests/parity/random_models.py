"""What the comparisons with transformers share: random weights that show mistakes, what happens inside, mutations.

Weights have standard deviation .1 and norms random gains: with the usual .02 a wrong GELU moves logits by 1e-5 only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing is fetched
os.environ["TRANSFORMERS_OFFLINE"] = "1"

import pytest
import torch
from torch import Tensor

from txlab.engine.transformer import blocks
from txlab.engine.transformer.norms import LayerNorm, RMSNorm
from txlab.engine.transformer.weights import FAMILIES, Loaded

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

PRECISIONS = [pytest.param(torch.float64, 1e-10, id="float64"), pytest.param(torch.float32, 2e-5, id="float32")]


# What is computed and not learned.
FIXED = ("embed_positions.weight", "position_table", "inv_freq")


class Double:
    """torch, with float64 where it says float32: some of their formulas go through float32 whatever the weights are."""

    def __getattr__(self, name: str) -> Any:
        return torch.float64 if name in ("float32", "float") else getattr(torch, name)


def in_double(patch: pytest.MonkeyPatch, dtype: torch.dtype, *modules: Any) -> None:
    """Let these modules of theirs compute in float64 throughout, where that is what is compared."""
    for module in modules if dtype == torch.float64 else ():
        patch.setattr(module, "torch", Double())


@torch.no_grad()
def randomised(model: torch.nn.Module, dtype: torch.dtype, seed: int = 5) -> Any:
    """The same model with random weights, in eval mode; fixed sinusoids stay."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not tensor.is_floating_point() or name.endswith(FIXED):
            continue
        tensor.normal_(0.0, 0.1, generator=generator)
        module = name.rpartition(".")[0].rpartition(".")[2].lower()
        if ("norm" in module or "ln_" in module) and name.endswith("weight"):
            tensor.add_(1.0)
    return model.to(dtype).eval()


def saved(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


@contextmanager
def outputs_of(model: torch.nn.Module, wanted: Mapping[str, str]) -> Iterator[dict[str, Tensor]]:
    """Our place → what the module of that name in their model gave."""
    kept: dict[str, Tensor] = {}

    def keeper(place: str) -> Callable[..., None]:
        def keep(module: Any, inputs: Any, output: Any) -> None:
            kept[place] = output[0] if isinstance(output, tuple) else output

        return keep

    handles = [model.get_submodule(name).register_forward_hook(keeper(place)) for place, name in wanted.items()]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def compare(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], tolerance: float) -> None:
    """Everything by name: the same names, and each the same to the tolerance."""
    assert ours.keys() == theirs.keys()
    assert ours
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, atol=tolerance, rtol=0, msg=lambda text, name=name: name + text)


def gradients(theirs: torch.nn.Module, loaded: Loaded) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Ours and theirs by their names, ours cut and turned as theirs are."""
    family = FAMILIES[loaded.facts["model_type"]]
    ours_of = dict(loaded.model.named_parameters())
    parameters = dict(theirs.named_parameters())
    ours: dict[str, Tensor] = {}
    for piece in family.pieces(loaded.model.shape):
        if piece.theirs in parameters:
            ours[piece.theirs] = piece.cut(ours_of[piece.ours].grad)
    return ours, {name: parameters[name].grad for name in ours}


def mutate(name: str, loaded: Loaded, patch: pytest.MonkeyPatch) -> None:
    """A plausible mistake, in our model or in the formula that it runs."""
    model = loaded.model
    if name == "the other GELU":
        other = {"gelu_tanh": "gelu", "gelu": "gelu_tanh"}
        changed = [module for module in model.modules() if getattr(module, "activation", None) in other]
        assert changed
        for module in changed:
            module.activation = other[module.activation]
    elif name == "no 1/√K":
        patch.setattr(blocks, "scores", lambda q, k, bias=None: q @ k.transpose(-2, -1))
    elif name == "the other ε":
        for module in model.modules():
            if isinstance(module, LayerNorm | RMSNorm):
                module.epsilon = 1e-12 if module.epsilon == 1e-5 else 1e-5
    elif name == "a square map on its side":
        out = next(tensor for name, tensor in model.named_parameters() if name.endswith("attention.out_proj.weight"))
        out.data = out.data.T.contiguous()
    else:
        raise AssertionError(name)


MUTATIONS = ["the other GELU", "no 1/√K", "the other ε", "a square map on its side"]
