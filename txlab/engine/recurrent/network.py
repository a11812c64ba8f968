"""Layers of recurrent cells over sequences: stacked, in one direction or both, of different lengths, whole or truncated
(MATH R1, R2).

Notable: the same steps are made in two ways, which agree to rounding. "cells" makes them one by one, in the formulas of
cells.py, and every gate can be looked at; "fused" hands a whole layer to torch's own function for it (oneDNN, cuDNN),
which the speed of training needs: 128 units over 64 steps take .49 of its speed in "cells" (benchmarks/recurrent.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from txlab.engine.recurrent.cells import CELLS, Cell, State

Steps = Literal["fused", "cells"]
Look = Callable[[int, int, int, dict[str, Tensor]], None]
"""look(layer, direction, t, values): the gates and the new state of a step"""


class Recurrent(nn.Module):
    """x (B, T, D) → (y (B, T, H·directions), the states after the last step, a list by layer and direction).

    cells   one for each layer and direction: layers[l][0] reads forwards, layers[l][1], if there is one, backwards;
            a layer reads the concatenated outputs of both directions of the one below
    """

    def __init__(
        self,
        cell: str,
        inputs: int,
        width: int,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.width, self.directions = width, 2 if bidirectional else 1
        self.layers = nn.ModuleList(
            nn.ModuleList(
                CELLS[cell](inputs if layer == 0 else width * self.directions, width, generator)
                for _ in range(self.directions)
            )
            for layer in range(layers)
        )
        self.dropout = nn.Dropout(dropout)  # between layers

    def start(self, batch: int) -> list[State]:
        """Zero states of all layers and directions."""
        return [cell.start(batch) for layer in self.cells() for cell in layer]

    def cells(self) -> list[list[Cell]]:
        return [[cast(Cell, cell) for cell in cast(nn.ModuleList, layer)] for layer in self.layers]

    def forward(
        self,
        x: Tensor,
        state: Sequence[State] | None = None,
        lengths: Tensor | None = None,
        steps: Steps = "fused",
        truncate: int = 0,
        look: Look | None = None,
    ) -> tuple[Tensor, list[State]]:
        """lengths    (B) of each sequence, at least 1: past its end the output is 0 and the state is kept
        truncate   gradients go back at most to the last multiple of `truncate` steps (MATH R2); 0 = to the beginning
        look       called at every step, which forces the kernel "cells"

        ValueError if truncated in both directions, which a state from behind would cross.
        """
        state = self.start(len(x)) if state is None else list(state)
        if truncate and (self.directions == 2 or lengths is not None):
            raise ValueError("truncated back-propagation is for one direction and sequences of one length")
        outputs: list[Tensor] = []
        for part in torch.split(x, truncate, 1) if truncate else (x,):
            if outputs:
                state = [tuple(each.detach() for each in one) for one in state]
            y, state = self._read(part, state, lengths, steps, look, truncate * len(outputs))
            outputs.append(y)
        return torch.cat(outputs, 1), state

    @torch.no_grad()
    def look_at(self, x: Tensor, state: Sequence[State] | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        """Read one sequence, x (T, D), in one direction: y (T, H), and each gate and state by its name, (N, T, H)."""
        states: dict[str, Tensor] = {}

        def keep(layer: int, way: int, t: int, values: dict[str, Tensor]) -> None:
            for name, value in values.items():
                if name not in states:
                    states[name] = value.new_zeros(len(self.layers), len(x), self.width)
                states[name][layer, t] = value[0]

        return self(x[None], state, look=keep)[0][0], states

    def _read(
        self, x: Tensor, state: list[State], lengths: Tensor | None, steps: Steps, look: Look | None, first: int
    ) -> tuple[Tensor, list[State]]:
        """Read a part whose first step is number `first`."""
        after: list[State] = []
        for number, layer in enumerate(self.cells()):
            x = self.dropout(x) if number else x
            outputs = []
            for way, cell in enumerate(layer):
                before = state[number * self.directions + way]
                if steps == "fused" and look is None and cell.kernel:
                    y, last = run_fused(cell, x, before, lengths, way == 1)
                else:
                    shown = partial(look, number, way) if look else None
                    y, last = run_cells(cell, x, before, lengths, way == 1, shown, first)
                outputs.append(y)
                after.append(last)
            x = torch.cat(outputs, -1)
        return x, after


def run_cells(
    cell: Cell,
    x: Tensor,
    state: State,
    lengths: Tensor | None = None,
    backwards: bool = False,
    look: Callable[[int, dict[str, Tensor]], None] | None = None,
    first: int = 0,
) -> tuple[Tensor, State]:
    """One layer in one direction, step by step: (B, T, D) → (y (B, T, H), the state after the last step).

    `look(t, values)` is shown each step; the first has the number `first`.
    """
    T = x.shape[1]
    lengths = None if lengths is None else lengths.to(x.device)
    drives = cell.drive(x).unbind(1)
    outputs: list[Tensor] = [x] * T
    for t in reversed(range(T)) if backwards else range(T):
        gates = cell.gates(drives[t], state)
        new = cell.next(gates, state)
        if look is not None:  # copies, so that the gradient of an LSTM's c does not include the path through the same h
            new = tuple(each.clone() for each in new)
        if lengths is None:
            state, outputs[t] = new, new[0]
        else:
            there = (t < lengths)[:, None]  # (B, 1)
            state = tuple(torch.where(there, one, other) for one, other in zip(new, state, strict=True))
            outputs[t] = torch.where(there, new[0], 0.0)
        if look is not None:
            look(first + t, {**gates, **dict(zip(cell.state, state, strict=True))})
    return torch.stack(outputs, 1), state


def run_fused(
    cell: Cell, x: Tensor, state: State, lengths: Tensor | None = None, backwards: bool = False
) -> tuple[Tensor, State]:
    """The same by torch's function for such a cell."""
    function = getattr(torch, cell.kernel)
    weights = [cell.W, cell.U, cell.b, cell.c]
    hx = [each[None] for each in state]
    begins = hx if len(hx) == 2 else hx[0]
    if lengths is None:
        x = x.flip(1) if backwards else x
        y, *last = function(x, begins, weights, True, 1, 0.0, cell.training, False, True)
        return (y.flip(1) if backwards else y), tuple(each[0] for each in last)
    if backwards:
        x = reverse_within(x, lengths)
    packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    order = packed.sorted_indices
    begins = [each[:, order] for each in hx] if len(hx) == 2 else hx[0][:, order]
    y, *last = function(packed.data, packed.batch_sizes, begins, weights, True, 1, 0.0, cell.training, False)
    whole, _ = pad_packed_sequence(
        PackedSequence(y, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices),
        batch_first=True,
        total_length=x.shape[1],
    )
    whole = reverse_within(whole, lengths) if backwards else whole
    return whole, tuple(each[0, packed.unsorted_indices] for each in last)


def reverse_within(x: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence reversed, its padding left in place: (B, T, D)."""
    t = torch.arange(x.shape[1], device=x.device)
    ends = lengths.to(x.device)[:, None]
    place = torch.where(t < ends, ends - 1 - t, t)  # (B, T)
    return x.gather(1, place[..., None].expand_as(x))
