"""One row times a matrix, in slices, is the ordinary product; and only that case goes its own way."""

import pytest
import torch
import torch.nn.functional as F

from txlab.engine.transformer import linear as module
from txlab.engine.transformer.linear import Linear, linear


@pytest.mark.parametrize("height", [1024, 1031, 16, 5])
@pytest.mark.parametrize("bias", [True, False])
def test_one_row_is_the_ordinary_product(height: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALLEST", 1)
    generator = torch.Generator().manual_seed(1)
    weight, b = torch.randn(height, 48, generator=generator), torch.randn(height, generator=generator)
    for shape in ((48,), (1, 48), (1, 1, 48), (2, 48), (3, 2, 48)):
        x = torch.randn(*shape, generator=generator)
        with torch.no_grad():
            ours = linear(x, weight, b if bias else None)
        wanted = F.linear(x.double(), weight.double(), b.double() if bias else None)
        assert ours.shape == wanted.shape
        torch.testing.assert_close(ours.double(), wanted, atol=1e-4, rtol=0)


def test_only_large_float32_matrices_that_nobody_learns_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = []
    whole = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda *inputs: cuts.append(inputs) or whole(*inputs))
    layer, row = Linear(1024, 1024), torch.randn(1, 1024)
    layer(row)
    with torch.no_grad():
        layer(row.expand(2, 1024))
        Linear(512, 512)(row[:, :512])
        layer.double()(row.double())
        layer.float()
        with torch.autocast("cpu", torch.bfloat16):
            layer(row)
        assert not cuts
        layer(row)
    assert len(cuts) == 1
