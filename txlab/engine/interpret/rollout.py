"""How much of each token has reached each position, if attention were all there is: rollout (MATH T1, T4).

Notable: heads are averaged and the residual stream counts as half (Abnar & Zuidema 2020, §3: A′ = ½ A + ½ I, multiplied
up the layers), so every row is a distribution over the tokens read. In a decoder that reads an encoder each branch is
such a half-and-half step in turn; what comes across is first rolled out through the encoder.
"""

from __future__ import annotations

import torch
from torch import Tensor

from txlab.engine.interpret.seeing import Seen
from txlab.errors import LabError


def rollout(seen: Seen, site: str, layers: int | None = None) -> Tensor:
    """R = A′_l … A′_1 with A′ = ½ A + ½ I: (T, S) after the first `layers` layers (all of them where None).

    "self", "encoder"  what each position holds of each token of its text; rows sum to 1
    "decoder"          what each position holds of each token of the target
    "cross"            what it holds of each token of the source; a row of both together sums to 1
    """
    if site not in seen.sites:
        raise LabError(f"this model has no attention called {site!r}; there is: {', '.join(seen.sites)}")
    most = seen.sites[site].layers
    layers = most if layers is None else layers
    if not 0 <= layers <= most:
        raise LabError(f"{site} attention can be rolled out through 0 to {most} layers, not {layers}")
    if site in ("self", "encoder"):
        return rolled(seen, site, layers)
    target, source = rolled_across(seen, layers)
    return target if site == "decoder" else source


def rolled(seen: Seen, site: str, layers: int) -> Tensor:
    """The product through the layers of one self-attention: (T, T)."""
    reached = _start(seen, site)
    for layer in range(layers):
        reached = half_step(seen.average(site, layer), reached)
    return reached


def half_step(average: Tensor, reached: Tensor) -> Tensor:
    """(½ A + ½ I) R, one layer further: A (T, T), R (T, S) → (T, S)."""
    return (average @ reached + reached) / 2


def rolled_across(seen: Seen, layers: int) -> tuple[Tensor, Tensor]:
    """Through the decoder: what each position holds of the target (T, T) and of the source (T, S)."""
    encoded = rolled(seen, "encoder", seen.sites["encoder"].layers)  # (S, S)
    target = _start(seen, "decoder")
    source = encoded.new_zeros(len(target), len(encoded))
    for layer in range(layers):
        looked = seen.average("decoder", layer)  # (T, T)
        target, source = half_step(looked, target), half_step(looked, source)
        read = seen.average("cross", layer) @ encoded  # (T, S)
        target, source = target / 2, (source + read) / 2
    return target, source


def _start(seen: Seen, site: str) -> Tensor:
    T, _ = seen.size(site)
    keys = seen.keys[site]
    return torch.eye(T, dtype=keys.dtype, device=keys.device)
