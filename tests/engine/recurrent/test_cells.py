"""Cells and layers of them against torch.nn and against formulas written out in plain Python (MATH R1–R3)."""

from __future__ import annotations

from itertools import product
from math import exp, tanh

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from txlab.engine.recurrent.cells import CELLS, MehligGRU
from txlab.engine.recurrent.network import Recurrent, Steps

B, T, D, H = 4, 7, 3, 5
PEERS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
LENGTHS = torch.tensor([4, 7, 1, 6])


def pair(cell: str, layers: int, both: bool) -> tuple[Recurrent, nn.RNNBase]:
    """Ours and torch's, of the same weights, in float64."""
    peer = PEERS[cell](D, H, layers, batch_first=True, bidirectional=both).double()
    ours = Recurrent(cell, D, H, layers, both).double()
    with torch.no_grad():
        for mine, theirs in zip(ours.parameters(), peer.parameters(), strict=True):
            mine.copy_(theirs)
    return ours, peer


def of_peer(peer: nn.RNNBase, x: Tensor, lengths: Tensor | None, start: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    begun = tuple(start) if len(start) > 1 else start[0]
    y, last = peer(x if lengths is None else pack_padded_sequence(x, lengths, True, enforce_sorted=False), begun)
    y = y if lengths is None else pad_packed_sequence(y, True, total_length=T)[0]
    return y, list(last) if isinstance(last, tuple) else [last]


@pytest.mark.parametrize("steps", ["cells", "fused"])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "packed"])
@pytest.mark.parametrize(("cell", "layers", "both"), [*product(PEERS, (1, 3), (False, True))])
def test_outputs_states_and_all_gradients_are_torch_s(
    cell: str, layers: int, both: bool, lengths: Tensor | None, steps: Steps
) -> None:
    torch.manual_seed(0)
    ours, peer = pair(cell, layers, both)
    x = torch.randn(B, T, D, dtype=torch.float64)
    start = [torch.randn(layers * (1 + both), B, H, dtype=torch.float64) for _ in CELLS[cell].state]
    found = []
    for model, read in ((ours, None), (peer, of_peer)):
        inputs = x.clone().requires_grad_()
        if read is None:
            y, states = ours(inputs, [*zip(*start, strict=True)], lengths, steps)
            last = [torch.stack(parts) for parts in zip(*states, strict=True)]
        else:
            y, last = read(peer, inputs, lengths, start)
        weights = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).view_as(y)
        (sum((each * each).sum() for each in last) + (weights * y).sum()).backward()
        found.append([y, *last, inputs.grad, *(parameter.grad for parameter in model.parameters())])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_fused_steps_are_the_cell_s_with_any_first_state(cell: str) -> None:
    torch.manual_seed(1)
    ours = Recurrent(cell, D, H, 2, True).double()
    x = torch.randn(B, T, D, dtype=torch.float64)
    begin = [tuple(torch.randn_like(each) for each in one) for one in ours.double().start(B)]
    for lengths in (None, LENGTHS):
        one, first = ours(x, begin, lengths, "cells")
        other, second = ours(x, begin, lengths, "fused")
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
        for mine, theirs in zip(first, second, strict=True):
            torch.testing.assert_close(torch.stack(mine), torch.stack(theirs), rtol=0, atol=1e-12)


def sigma(a: float) -> float:
    return 1 / (1 + exp(-a))


def mehlig(cell: MehligGRU, xs: list[list[float]]) -> list[list[float]]:
    """V(t) of each step as on Mehlig's slide: sums over k and j written out, and thresholds added."""
    W, U, b, c = ([*map(list, p.tolist())] if p.dim() == 2 else p.tolist() for p in cell.parameters())
    n, V, found = cell.width, [0.0] * cell.width, []

    def total(part: int, i: int, x: list[float], state: list[float]) -> float:
        row = part * n + i
        recurrent = sum(w * v for w, v in zip(U[row], state, strict=True))
        return sum(w * v for w, v in zip(W[row], x, strict=True)) + recurrent + b[row] + c[row]

    for x in xs:
        r = [sigma(total(0, i, x, V)) for i in range(n)]
        z = [sigma(total(1, i, x, V)) for i in range(n)]
        shut = [r[j] * V[j] for j in range(n)]
        h = [tanh(total(2, i, x, shut)) for i in range(n)]
        V = [(1 - z[i]) * h[i] + z[i] * V[i] for i in range(n)]
        found.append(V)
    return found


def test_mehlig_s_gru_is_his_formula_and_not_torch_s() -> None:
    torch.manual_seed(2)
    ours = Recurrent("gru-mehlig", D, H).double()
    ((cell,),) = ours.cells()
    x = torch.randn(1, T, D, dtype=torch.float64, requires_grad=True)
    y, _ = ours(x)
    wanted = torch.tensor(mehlig(cell, x[0].tolist()), dtype=torch.float64)
    torch.testing.assert_close(y[0], wanted, rtol=0, atol=1e-12)
    peer = Recurrent("gru", D, H).double()
    peer.load_state_dict(ours.state_dict())
    assert float((peer(x)[0] - y).detach().abs().max()) > 1e-3
    # Its gradient, by central differences of the formula.
    (gradient,) = torch.autograd.grad(y[0, -1].sum(), x)
    step = 1e-6
    for t, k in ((0, 0), (3, 2), (T - 1, 1)):
        moved = []
        for sign in (1, -1):
            other = x.detach().clone()
            other[0, t, k] += sign * step
            moved.append(sum(mehlig(cell, other[0].tolist())[-1]))
        assert float(gradient[0, t, k]) == pytest.approx((moved[0] - moved[1]) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("steps", ["cells", "fused"])
@pytest.mark.parametrize("cell", CELLS)
def test_truncated_gradients_stop_where_they_are_told_to(cell: str, steps: Steps) -> None:
    torch.manual_seed(3)
    ours = Recurrent(cell, D, H, 2).double()
    x = torch.randn(B, 9, D, dtype=torch.float64, requires_grad=True)
    whole, last = ours(x, steps=steps)
    cut, end = ours(x, steps=steps, truncate=4)
    torch.testing.assert_close(cut, whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(end[-1][0], last[-1][0], rtol=0, atol=1e-12)
    (reached,) = torch.autograd.grad(cut[:, 6].sum(), x)
    assert bool((reached[:, :4] == 0).all())
    assert bool((reached[:, 4:7].abs().sum(-1) > 0).all())
    with pytest.raises(ValueError, match="one direction"):
        Recurrent(cell, D, H, 1, True)(x.float(), truncate=4)


def test_one_who_looks_sees_every_gate_and_state_of_every_layer() -> None:
    torch.manual_seed(4)
    ours = Recurrent("lstm", D, H, 2, True).double()
    x = torch.randn(B, T, D, dtype=torch.float64)
    seen: dict[tuple[int, int, int], dict[str, Tensor]] = {}
    y, _ = ours(x, look=lambda layer, way, t, values: seen.__setitem__((layer, way, t), values))
    assert set(seen) == set(product(range(2), range(2), range(T)))
    for t in range(T):
        forwards, backwards = seen[1, 0, t], seen[1, 1, t]
        torch.testing.assert_close(torch.cat((forwards["h"], backwards["h"]), -1), y[:, t])
        assert set(forwards) == {"i", "f", "g", "o", "h", "c"}
    before, now = seen[0, 0, 2], seen[0, 0, 3]
    torch.testing.assert_close(now["c"], now["f"] * before["c"] + now["i"] * now["g"])
