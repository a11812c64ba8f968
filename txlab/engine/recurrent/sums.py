"""What each gate of a network is the sum of, over one sequence: recorded with its states, so that each gate can be
explained (MATH R1, R3).

Notable: the part from the state before is recorded as U itself, half the size of a float32, from which the contribution
of every unit follows; U of a wide network is larger than what it would explain, so its products U h(t−1) are.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from txlab.engine.recurrent.network import Recurrent
from txlab.engine.recurrent.why import state_read

LARGEST = 0.5  # U, of the size of the gates and states: with the other parts, a frame is at most twice as large


@torch.no_grad()
def parts_of_sums(
    network: Recurrent, x: Tensor, states: Mapping[str, Tensor], first: Tensor | None = None
) -> dict[str, Tensor]:
    """Of each sum of the cells, of N layers of one direction, with D = H inputs but for the first:

    input/NAME (N, T, H)   W x, in half precision
    bias/NAME (N, 2, H)    b, c
    weight/NAME (N, H, H)  U, in half precision; or, if it is larger than `LARGEST`,
    recurrent/NAME (N, T, H)   U h(t−1), of the candidate of Mehlig's GRU U (r h(t−1)), in half precision

    x (T, D), what the first layer reads; states, from `network.look_at(x)`; first (N, H), h before x, None = 0
    """
    h = states["h"]
    begin = h.new_zeros(len(h), 1, network.width) if first is None else first[:, None]
    before = torch.cat((begin, h[:, :-1]), 1)
    cells = [layer[0] for layer in network.cells()]
    whole = sum(cell.U.numel() for cell in cells) * 2 <= LARGEST * sum(4 * each.numel() for each in states.values())
    parts: dict[str, list[Tensor]] = {}
    for layer, cell in enumerate(cells):
        read = x if layer == 0 else h[layer - 1]
        for name, W, U, b, c in zip(
            cell.sums, *(each.chunk(len(cell.sums)) for each in (cell.W, cell.U, cell.b, cell.c)), strict=True
        ):
            multiplied = state_read(cell.name, name, before[layer], states.get("r", h)[layer])
            one = {
                "input": (read @ W.T).half(),
                "bias": torch.stack((b, c)),
                **({"weight": U.half()} if whole else {"recurrent": (multiplied @ U.T).half()}),
            }
            for part, value in one.items():
                parts.setdefault(f"{part}/{name}", []).append(value)
    return {name: torch.stack(layers) for name, layers in parts.items()}
