"""A pretended GPU, for tests where there is none: tensors that would be on it are in main memory and marked.

What is computed is computed by the CPU. But an operation that mixes marked and unmarked tensors raises, as it would on
a GPU, and so does reading a marked tensor as a NumPy array. While a graph is recorded, whatever waits for the card or
copies from or to it raises. What only a GPU has (streams, names, memory) is replaced. It shows that a path
runs its tensors where it says, and records nothing that cannot be recorded; it says nothing of kernels or speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from txlab.experiments.learning.step_graph import StepGraph

CARD, CPU = torch.device("cuda:0"), torch.device("cpu")
# Operations for which a GPU takes tensors from main memory: copies and indices. And the CPU's attention takes a mask
# that it has made itself of the one that it was given.
ACROSS = ("aten::copy_", "aten::_to_copy", "aten::index.Tensor", "aten::index_put_", "aten::_scaled_dot_product")
WAITING = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::is_nonzero", "aten::unique")


class Marks:
    """Which storages are on the card. A weak reference keeps an address from being given to another storage."""

    def __init__(self) -> None:
        self.storages: dict[int, StorageWeakRef] = {}
        self.operations: set[str] = set()  # names of those that ran on marked tensors
        self.recording = False

    def refuse_in_recordings(self, what: str) -> None:
        if self.recording:
            raise RuntimeError(f"operation not permitted when stream is capturing: {what}")

    def has(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self.storages

    def add(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        self.storages[storage._cdata] = StorageWeakRef(storage)
        return tensor


class Operations(TorchDispatchMode):
    """Checks each operation, forward and backward, and marks what it makes."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self.marks = marks

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [each for each in tree_leaves((args, kwargs or {})) if isinstance(each, Tensor)]
        marked = [each for each in given if self.marks.has(each)]
        name = func.name()
        if marked and name.startswith(WAITING):
            self.marks.refuse_in_recordings(name)
        if name.startswith("aten::copy_") and len(marked) == 1 and all(each.dim() for each in given):
            self.marks.refuse_in_recordings(name)
        if marked and not name.startswith(ACROSS):
            elsewhere = [tuple(each.shape) for each in given if each.dim() and not self.marks.has(each)]
            assert not elsewhere, f"{name} on cuda:0 is given tensors in main memory: {elsewhere}"
        found = func(*args, **(kwargs or {}))
        own = args[0] if args and isinstance(args[0], Tensor) else None
        there = self.marks.has(own) if own is not None and name.startswith(ACROSS) else bool(marked)
        if there:
            self.marks.operations.add(name.partition(".")[0])
            for each in tree_leaves(found):
                if isinstance(each, Tensor):
                    self.marks.add(each)
        return found


class Functions(TorchFunctionMode):
    """Takes the word `cuda` for marked main memory wherever a tensor is made, moved or asked."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self.marks = marks

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func == Tensor.device.__get__:
            return CARD if self.marks.has(args[0]) else CPU
        if func == Tensor.is_cuda.__get__:
            return self.marks.has(args[0])
        if func is Tensor.numpy and self.marks.has(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if func is Tensor.pin_memory:
            return args[0]
        if func is Tensor.cpu:
            return args[0].clone() if not self.marks.has(args[0]) else self.moved(args[0], CPU, {})
        if func is Tensor.to:
            return self.to(*args, **kwargs)
        if func is Tensor.new_tensor and self.marks.has(args[0]):
            return self.marks.add(func(*args, **kwargs))
        wanted = kwargs.get("device")
        if wanted is not None and torch.device(wanted).type == "cuda":
            self.require_same(kwargs.get("generator"))
            if func is torch.tensor:
                self.marks.refuse_in_recordings("torch.tensor")
            made = func(*args, **kwargs | {"device": CPU})
            return self.marks.add(made)
        return func(*args, **kwargs)

    def require_same(self, generator: torch.Generator | None) -> None:
        assert generator is None, "a generator of the CPU cannot draw on cuda:0"

    def to(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        places = [each for each in (*args, kwargs.get("device")) if isinstance(each, (str, torch.device))]
        if args and isinstance(args[0], Tensor):
            places = [CARD if self.marks.has(args[0]) else CPU]
            kwargs["dtype"] = args[0].dtype
        if not places:
            return tensor.to(*args, **kwargs)
        dtypes = [each for each in (*args, kwargs.get("dtype")) if isinstance(each, torch.dtype)]
        return self.moved(tensor, torch.device(places[0]), {"dtype": dtypes[0]} if dtypes else {})

    def moved(self, tensor: Tensor, place: torch.device, how: dict[str, Any]) -> Tensor:
        here = CARD if self.marks.has(tensor) else CPU
        if place.type == here.type:
            return tensor.to(**how) if how else tensor
        self.marks.refuse_in_recordings(f"a copy to {place}")
        with torch._C._DisableTorchDispatch():  # the copy itself is what crosses
            found = tensor.detach().to(CPU, copy=True, **how)
        if place.type == "cuda":
            self.marks.add(found)
        return found


class Recording:
    """A substitute for a CUDA graph. Recording runs it, so the first replay does nothing; further ones run it again.

    A real graph is not run when it is recorded, and replays kernels, not Python.
    """

    def __init__(self) -> None:
        self.replays, self.work = 0, lambda: None

    def replay(self) -> None:
        if self.replays:
            self.work()
        self.replays += 1


class Stream:
    """Everything happens at once and in order."""

    def __init__(self, device: object = None) -> None: ...

    def wait_stream(self, other: object) -> None: ...


@contextmanager
def pretended_card(patch: pytest.MonkeyPatch) -> Iterator[Marks]:
    """Within it `cuda` is there; yields which storages are on it."""

    @contextmanager
    def stream(chosen: object) -> Iterator[None]:
        yield

    marks = Marks()

    @contextmanager
    def graph(recording: Recording, stream: object) -> Iterator[None]:
        marks.recording = True
        try:
            yield
        finally:
            marks.recording = False

    def record(step: StepGraph, side: object) -> None:
        plain_record(step, side)  # type: ignore[arg-type]
        if step.graph is not None:
            step.graph.work = lambda: setattr(step, "found", step.work(*step.inputs))  # type: ignore[attr-defined]

    def grouped(tensors: Any, with_indices: bool = False) -> Any:
        found = plain_grouped(tensors, with_indices)
        return {
            (CARD if marks.has(lists[0][0]) else CPU, dtype): (lists, i) for (_, dtype), (lists, i) in found.items()
        }

    plain_record, plain_grouped = StepGraph._record, Optimizer._group_tensors_by_device_and_dtype
    patch.setattr(StepGraph, "_record", record)
    patch.setattr(Optimizer, "_group_tensors_by_device_and_dtype", staticmethod(grouped))
    about = SimpleNamespace(name="NVIDIA H100 80GB HBM3", total_memory=80 << 30, uuid="aaaa")
    for name, value in {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "get_device_name": lambda device=None: about.name,
        "get_device_properties": lambda device=None: about,
        "is_bf16_supported": lambda including_emulation=True: True,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "reset_peak_memory_stats": lambda device=None: None,
        "current_stream": lambda device=None: Stream(),
        "set_stream": lambda chosen: None,
        "Stream": Stream,
        "stream": stream,
        "graph": graph,
        "CUDAGraph": Recording,
    }.items():
        patch.setattr(torch.cuda, name, value)
    patch.setattr(Tensor, "record_stream", lambda self, stream: None)
    with Operations(marks), Functions(marks):
        yield marks
