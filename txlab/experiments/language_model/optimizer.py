"""AdamW, and the guard that lets no update with a NaN through (MATH F3; Loshchilov & Hutter 2019).

Notable: whether an update may happen is known before it happens, on a GPU too and without waiting for it: there a flag
that stays on the device is handed to fused AdamW as its `found_inf`, and once up, it holds back every later update as
well. The weights are those before the bad step whenever somebody comes to look.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

import torch
from torch import Tensor, nn

from txlab.experiments.language_model.schedule import clip_factor
from txlab.experiments.language_model.schema import Train


def adamw(model: nn.Module, train: Train, weight_decay: float) -> torch.optim.AdamW:
    """Fused AdamW; only matrices decay (biases, γ and β have nothing to gain from being small)."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay, "decays": True},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0, "decays": False},
    ]
    return torch.optim.AdamW(
        groups, lr=train.learning_rate, betas=(train.beta1, train.beta2), eps=train.epsilon, fused=True
    )


def gradient_norm(parameters: Iterable[nn.Parameter]) -> Tensor:
    """‖g‖ over all gradients together, a scalar on their device."""
    return torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])


def spell(value: float) -> str:
    """A number that is not finite, as events.jsonl writes it.

    >>> spell(float("-inf"))
    '-Infinity'
    """
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def first_not_finite(model: nn.Module, loss: Tensor) -> tuple[str, str]:
    """(tensor, value) of what went wrong: the loss, else the first gradient, else the norm of finite gradients."""
    if not isfinite(float(loss)):
        return "loss", spell(float(loss))
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
            bad = parameter.grad[~parameter.grad.isfinite()]
            return f"the gradient of {name}", spell(float(bad[0]))
    return "grad_norm", "Infinity"


class LateGuard:
    """The device's own memory of the first update that was refused: two scalars that nobody waits for."""

    def __init__(self, device: torch.device) -> None:
        self.refused = torch.zeros((), device=device)  # 0 or 1; once 1 it stays
        self.update = torch.full((), -1, device=device)  # number of the first refused update

    def look(self, update: int, loss: Tensor, norm: Tensor, optimizer: torch.optim.AdamW) -> None:
        """Raise the flag if loss or norm is not finite, and hand it to the optimizer. No host sync."""
        bad = ~(loss.isfinite() & norm.isfinite())
        self.update = torch.where(bad & (self.refused == 0), update, self.update)
        self.refused = torch.maximum(self.refused, bad.float())
        optimizer.grad_scale = None  # type: ignore[attr-defined]
        optimizer.found_inf = self.refused  # type: ignore[attr-defined]

    def first(self) -> int | None:
        """Number of the first refused update, None if all went through. Waits for the device."""
        number = int(self.update)
        return None if number < 0 else number


def clip_now(parameters: Iterable[nn.Parameter], norm: float, clip: float) -> None:
    """Scale all gradients by `clip_factor`, the norm being known: a gradient small enough is not touched at all."""
    scale = clip_factor(norm, clip)
    if scale < 1:
        torch._foreach_mul_([p.grad for p in parameters if p.grad is not None], scale)


def clip_late(parameters: Iterable[nn.Parameter], norm: Tensor, clip: float) -> None:
    """The same where the norm is still on its way: the scale is computed on the device."""
    if clip:
        scale = (clip / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_([p.grad for p in parameters if p.grad is not None], scale)


def optimizer_state(model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, dict[str, Tensor]]:
    """{parameter name: {"step", "exp_avg", "exp_avg_sq"}}: by name, where torch's own form numbers the parameters."""
    return {name: dict(optimizer.state[p]) for name, p in model.named_parameters() if p in optimizer.state}


def load_optimizer_state(model: nn.Module, optimizer: torch.optim.AdamW, state: dict[str, dict[str, Tensor]]) -> None:
    """Put back what `optimizer_state` gave, on each parameter's device."""
    for name, p in model.named_parameters():
        optimizer.state.pop(p, None)
        if name in state:
            optimizer.state[p] = {key: value.to(p.device, copy=True) for key, value in state[name].items()}
