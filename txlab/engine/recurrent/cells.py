"""Recurrent cells, one step at a time: RNN, both GRUs and LSTM (MATH R1, R3).

A cell is the function (x, state) → state. Its matrices W (G·H, D) and U (G·H, H) and its biases b, c (G·H) hold one
part of H rows for each of its G sums, in the order of `sums`, the layout of torch.nn's cells.
The part that does not depend on the state, W x + b, is its *drive*, and is computed for all steps in one product.
"""

from __future__ import annotations

from math import sqrt
from typing import ClassVar

import torch
from torch import Tensor, nn

State = tuple[Tensor, ...]
"""(h,), or (h, c) of an LSTM; each (B, H)"""


class Cell(nn.Module):
    """sums   the names of its sums          state   the names of its state tensors, h first
    kernel  torch's function that runs all steps of such a cell in one call; "" = there is none"""

    name: ClassVar[str]
    sums: ClassVar[tuple[str, ...]]
    state: ClassVar[tuple[str, ...]] = ("h",)
    rule: ClassVar[str]
    source: ClassVar[str]
    kernel: ClassVar[str] = ""

    def __init__(self, inputs: int, width: int, generator: torch.Generator | None = None) -> None:
        """Weights and biases uniform in ± 1/√H, as in torch.nn."""
        super().__init__()
        self.inputs, self.width = inputs, width
        rows = len(self.sums) * width
        self.W = nn.Parameter(torch.empty(rows, inputs))
        self.U = nn.Parameter(torch.empty(rows, width))
        self.b = nn.Parameter(torch.empty(rows))
        self.c = nn.Parameter(torch.empty(rows))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-1 / sqrt(width), 1 / sqrt(width), generator=generator)

    def drive(self, x: Tensor) -> Tensor:
        """W x + b of all steps in one product: (…, D) → (…, G·H)."""
        return x @ self.W.T + self.b

    def start(self, batch: int) -> State:
        """The state before the first step: zeros."""
        return tuple(self.U.new_zeros(batch, self.width) for _ in self.state)

    def gates(self, drive: Tensor, state: State) -> dict[str, Tensor]:
        """The gates of the step, computed before the new state, by name: each (B, H)."""
        raise NotImplementedError

    def next(self, gates: dict[str, Tensor], state: State) -> State:
        """The new state, from the gates and the old one."""
        raise NotImplementedError

    def forward(self, drive: Tensor, state: State) -> State:
        """One step: (B, G·H), state → state."""
        return self.next(self.gates(drive, state), state)

    def recurrent(self, h: Tensor) -> Tensor:
        return h @ self.U.T + self.c  # (B, G·H)


class RNN(Cell):
    """h(t) = tanh(W x(t) + b + U h(t−1) + c). MATH R1; Elman 1990; torch.nn.RNN."""

    name, sums, kernel = "rnn", ("h",), "rnn_tanh"
    rule, source = "h(t) = tanh(W x(t) + U h(t−1) + b)", "Elman 1990"

    def gates(self, drive: Tensor, state: State) -> dict[str, Tensor]:
        return {"h": (drive + self.recurrent(state[0])).tanh()}

    def next(self, gates: dict[str, Tensor], state: State) -> State:
        return (gates["h"],)


class LSTM(Cell):
    """c(t) = f c(t−1) + i g,  h(t) = o tanh c(t). MATH R3; Hochreiter & Schmidhuber 1997, Gers et al. 2000;
    torch.nn.LSTM."""

    name, sums, state, kernel = "lstm", ("i", "f", "g", "o"), ("h", "c"), "lstm"
    rule = "c(t) = f c(t−1) + i g,  h(t) = o tanh c(t);  i, f, o = σ(W x + U h(t−1) + b),  g = tanh(…)"
    source = "Hochreiter and Schmidhuber 1997; Gers et al. 2000"

    def gates(self, drive: Tensor, state: State) -> dict[str, Tensor]:
        i, f, g, o = (drive + self.recurrent(state[0])).chunk(4, -1)
        return {"i": i.sigmoid(), "f": f.sigmoid(), "g": g.tanh(), "o": o.sigmoid()}

    def next(self, gates: dict[str, Tensor], state: State) -> State:
        c = gates["f"] * state[1] + gates["i"] * gates["g"]
        return gates["o"] * c.tanh(), c


class GRU(Cell):
    """h(t) = (1 − z) n + z h(t−1); the reset gate r multiplies the recurrent sum: n = tanh(W x + b + r (U h + c)).

    MATH R3; torch.nn.GRU; version 3 of Cho et al. 2014 (arXiv 1406.1078).
    """

    name, sums, kernel = "gru", ("r", "z", "n"), "gru"
    rule = "h(t) = (1 − z) n + z h(t−1);  z, r = σ(W x + U h(t−1) + b),  n = tanh(W x + r (U h(t−1) + c) + b)"
    source = "Cho et al. 2014, as in torch.nn.GRU"

    def gates(self, drive: Tensor, state: State) -> dict[str, Tensor]:
        r, z, n = drive.chunk(3, -1)
        to_r, to_z, to_n = self.recurrent(state[0]).chunk(3, -1)
        r, z = (r + to_r).sigmoid(), (z + to_z).sigmoid()
        return {"r": r, "z": z, "n": (n + r * to_n).tanh()}

    def next(self, gates: dict[str, Tensor], state: State) -> State:
        z = gates["z"]
        return ((1 - z) * gates["n"] + z * state[0],)


class MehligGRU(GRU):
    """The same, where r multiplies the state before the product: n = tanh(W x + b + U (r h) + c). MATH R3; Mehlig."""

    name, kernel = "gru-mehlig", ""
    rule = "V(t) = (1 − z) h + z V(t−1);  z, r = σ(W x + U V(t−1) + b),  h = tanh(W x + U (r V(t−1)) + b)"
    source = "Mehlig; Cho et al. 2014, eq. 8"

    def gates(self, drive: Tensor, state: State) -> dict[str, Tensor]:
        H, (h,) = self.width, state
        gates = (drive[..., : 2 * H] + h @ self.U[: 2 * H].T + self.c[: 2 * H]).sigmoid()
        r, z = gates.chunk(2, -1)
        n = (drive[..., 2 * H :] + (r * h) @ self.U[2 * H :].T + self.c[2 * H :]).tanh()
        return {"r": r, "z": z, "n": n}


CELLS: dict[str, type[Cell]] = {each.name: each for each in (RNN, GRU, MehligGRU, LSTM)}
