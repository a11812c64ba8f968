"""What torch has no public name for gives the same without it, and no other file names it."""

from __future__ import annotations

import re
import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import txlab
from txlab.engine import torch_internals as internals

Pair = namedtuple("Pair", "left right")
PRIVATE = re.compile(r"\btorch(\.\w+)*\._(?!_)|from torch(\.\w+)*\._")


def tensors(seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((3,), (2, 5), (1, 1), (4, 2, 2))]


@pytest.fixture(params=["with", "without"])
def available(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        for name in ("_foreach_mul_", "_foreach_add_", "_foreach_copy_", "_foreach_norm", "_dynamo"):
            monkeypatch.delattr(torch, name, raising=False)
        monkeypatch.setitem(sys.modules, "torch.utils._pytree", None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda xs, ys: internals.multiply_(xs, 0.3), lambda x, y: x * 0.3),
        (lambda xs, ys: internals.multiply_(xs, torch.tensor(0.3, dtype=torch.float64)), lambda x, y: x * 0.3),
        (lambda xs, ys: internals.add_(xs, ys), lambda x, y: x + y),
        (lambda xs, ys: internals.copy_(xs, ys), lambda x, y: y),
    ],
)
@pytest.mark.usefixtures("available")
def test_lists_of_tensors_change_as_each_of_them_would(
    change: Callable[[list[Tensor], list[Tensor]], None], expected: Callable[[Tensor, Tensor], Tensor]
) -> None:
    change([], [])
    xs, ys = tensors(1), tensors(2)
    change(xs, ys)
    for x, before, y in zip(xs, tensors(1), tensors(2), strict=True):
        assert torch.equal(x, expected(before, y))


@pytest.mark.usefixtures("available")
def test_norms_are_roots_of_sums_of_squares() -> None:
    assert list(internals.norms([])) == []
    for norm, x in zip(internals.norms(tensors(3)), tensors(3), strict=True):
        assert float(norm) == pytest.approx(sum(value * value for value in x.flatten().tolist()) ** 0.5, rel=1e-14)


@pytest.mark.usefixtures("available")
def test_every_tensor_of_a_nested_value_is_replaced_and_nothing_else() -> None:
    one = torch.ones(1)
    given = {"a": [one, 3, Pair(one, "b")], "c": (None, {"d": one})}
    found = internals.map_tensors(lambda tensor: int(tensor.sum()) + 6, given)
    assert found == {"a": [7, 3, Pair(7, "b")], "c": (None, {"d": 7})}
    assert isinstance(found["a"][2], Pair)
    internals.keep_compiled(64)


def test_no_other_file_names_what_is_private_in_torch() -> None:
    package = Path(txlab.__file__).parent
    found = [
        f"{file.relative_to(package)}: {line.strip()}"
        for file in package.rglob("*.py")
        if file.name != "torch_internals.py"
        for line in file.read_text().splitlines()
        if PRIVATE.search(line)
    ]
    assert found == []
