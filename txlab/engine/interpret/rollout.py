"""How much of each token has reached each position, if attention were all there is: rollout (MATH T1, T4).

Notable: heads are averaged and the residual stream counts as half (Abnar & Zuidema 2020, §3: A′ = ½ A + ½ I, multiplied
up the layers), so every row is a distribution over the tokens read. In a decoder that reads an encoder each branch is
such a half-and-half step in turn; what comes across is first rolled out through the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from txlab.engine.interpret.activation_cache import Seen
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
    return next(islice(rollouts(seen, site), layers, None))


def rollouts(seen: Seen, site: str) -> Iterator[Tensor]:
    """R (T, S) after 0, 1, … layers, one after the other."""
    if site in ("self", "encoder"):
        yield from _rolled(seen, site)
    else:
        for target, source in _rolled_across(seen):
            yield target if site == "decoder" else source


def half_step(average: Tensor, reached: Tensor) -> Tensor:
    """(½ A + ½ I) R, one layer further: A (T, T), R (T, S) → (T, S)."""
    return (average @ reached + reached) / 2


def _rolled(seen: Seen, site: str) -> Iterator[Tensor]:
    reached = _start(seen, site)
    yield reached
    for layer in range(seen.sites[site].layers):
        reached = half_step(seen.average(site, layer), reached)
        yield reached


def _rolled_across(seen: Seen) -> Iterator[tuple[Tensor, Tensor]]:
    """Through the decoder: what each position holds of the target (T, T) and of the source (T, S)."""
    encoded = rollout(seen, "encoder")  # (S, S)
    target = _start(seen, "decoder")
    source = encoded.new_zeros(len(target), len(encoded))
    yield target, source
    for layer in range(seen.sites["decoder"].layers):
        looked = seen.average("decoder", layer)  # (T, T)
        target, source = half_step(looked, target), half_step(looked, source)
        read = seen.average("cross", layer) @ encoded  # (T, S)
        target, source = target / 2, (source + read) / 2
        yield target, source


def _start(seen: Seen, site: str) -> Tensor:
    keys = seen.keys[site]
    return torch.eye(seen.size(site)[0], dtype=keys.dtype, device=keys.device)
