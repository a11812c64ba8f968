"""Timing training steps, which are then discarded, to find the fastest settings on this machine; and torch's compiler.

Notable: the settings take turns. Timed sequentially, half a second of other load once made the best of them look five
times slower; taking turns spreads it over all of them. The compiler's gain depends on the shape, the dtype and the
machine (4 layers of width 128 on two cores: the gradients in 17.6 ms where they took 21.1), and it needs a C++ compiler
that many machines lack. So it is tried on the trial model, and any failure there is a reason not to use it, never an
error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Generic, Literal, TypeVar

import torch
from torch import Tensor

from txlab.engine.device import DTYPES
from txlab.engine.torch_internals import keep_compiled, multiply_
from txlab.engine.transformer.bert import BertShape
from txlab.engine.transformer.blocks import Kernel
from txlab.engine.transformer.costs import costs
from txlab.engine.transformer.gpt import GPTShape
from txlab.engine.transformer.vision import VisionShape
from txlab.experiments.learning.batch_threads import BatchThreads, Model
from txlab.experiments.learning.gradient import adamw
from txlab.experiments.learning.schema import Optimizer
from txlab.experiments.schema import Compute

Dtype = Literal["float32", "bfloat16"]
ThreadMode = Literal["operations", "batch"]
SHARED: dict[ThreadMode, str] = {"operations": "every operation", "batch": "the batch"}
Shape = TypeVar("Shape", GPTShape, BertShape, VisionShape)

LARGEST = 6e9  # FLOPs of a timed step: the model of 4 layers, width 128 and batch 12 × 64 has 4e9 and is timed whole
LARGEST_OF_LONG = 4e10  # of a run for which this is negligible: a larger trial resembles the whole model more
LARGEST_ON_A_GPU = 1e13  # a tenth of a second there: the balance of launches and arithmetic depends on the size
LONG = 900.0  # seconds that a run must be expected to take: compiling has cost 15 to 60 of them
WORTH = 0.95  # compiled steps must take at most this share of the time
NOTHING = 5e-6  # a negligible share of a run's computation


@dataclass(frozen=True)
class Setting:
    """One way of computing a step."""

    dtype: Dtype
    attention: Kernel
    threads: int
    thread_mode: ThreadMode = "operations"
    compiled: bool = False

    def __str__(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads sharing {SHARED[self.thread_mode]}"
        return f"{self.dtype}, {self.attention} attention, {threads}{', compiled' if self.compiled else ''}"


class Trial(Generic[Model]):
    """A model of a scenario's shape, or a smaller one, to be stepped under different settings.

    steps  the run's length, in steps of this size
    scale  how much smaller it is, in words
    """

    def __init__(
        self,
        make: Callable[[torch.Generator], Model],
        train: Optimizer,
        steps: float,
        loss: Callable[..., tuple[Tensor, Tensor]],
        batch: Callable[[], Sequence[Tensor]],
        sequences: int,
        dropout: float,
        scale: str = "",
    ) -> None:
        """`loss(model, *tensors, kernel, dtype)` is the training loss, `batch` makes its tensors before every step."""
        # The constructors of torch's modules draw from the global generator, whose state is restored.
        with torch.random.fork_rng(devices=[]):
            self.model = make(torch.Generator().manual_seed(0))
        self.optimizer = adamw(self.model, train)
        self.loss, self.batch, self.sequences, self.dropout, self.scale = loss, batch, sequences, dropout, scale
        self.steps = steps
        self.crews: dict[int, BatchThreads[Model]] = {}
        self.compiled: set[Setting] = set()

    def step(self, setting: Setting) -> None:
        """Make one training step and discard the result."""
        loss_of = compile_loss(self.loss, setting.thread_mode) if setting.compiled else self.loss
        members = setting.threads if setting.thread_mode == "batch" else 1
        if members not in self.crews:
            self.crews[members] = BatchThreads(self.model, members)
        crew = self.crews[members]

        def learn(model: Model, *tensors: Tensor) -> None:
            loss_of(model, *tensors, setting.attention, DTYPES[setting.dtype])[0].backward()  # type: ignore[no-untyped-call]

        crew.each(learn, *self.batch(), in_turn=setting.compiled and setting not in self.compiled)
        self.compiled.add(setting)
        crew.add_gradients()
        float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0))
        self.optimizer.step()
        self.optimizer.zero_grad()

    def whole_step(self, setting: Setting) -> Callable[..., Tensor]:
        """A function of a batch that makes a step without waiting for the device, as `GradientExperiment` does."""

        def step(*tensors: Tensor) -> Tensor:
            self.optimizer.zero_grad()
            loss = self.loss(self.model, *tensors, setting.attention, DTYPES[setting.dtype])[0]
            loss.backward()  # type: ignore[no-untyped-call]
            parameters = list(self.model.parameters())
            norm: Tensor = torch.linalg.vector_norm(
                torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
            )
            multiply_([p.grad for p in parameters if p.grad is not None], (1 / norm).clamp(max=1.0))
            self.optimizer.step()
            return norm[None]

        return step

    def time(self, setting: Setting) -> float:
        """Seconds of one step."""
        torch.set_num_threads(setting.threads)
        start = time.perf_counter()
        self.step(setting)
        return time.perf_counter() - start


def compare(
    trial: Trial[Any], settings: Sequence[Setting], budget: float, most_rounds: int = 7
) -> dict[Setting, float]:
    """Median seconds of a step under each setting, the settings taking turns after a warm-up step each.

    There are up to `most_rounds` rounds within the budget, and at least three if they take less than three times the
    budget. A setting that is hopelessly slow in its warm-up is not timed again, and one without even the time of four
    steps of the first is missing from the result.
    """
    if len(settings) == 1:
        return {}  # nothing to compare
    began = time.perf_counter()
    taken: dict[Setting, list[float]] = {}
    for setting in settings:
        if not taken or time.perf_counter() - began < max(3 * budget, 4 * taken[settings[0]][0]):
            taken[setting] = [trial.time(setting)]
    slowest = 10 * min(times[0] for times in taken.values())
    contenders = [setting for setting, times in taken.items() if times[0] <= slowest]
    for rounds in range(most_rounds):
        if time.perf_counter() - began > budget * (3 if rounds < 3 else 1):
            break
        for setting in contenders:
            taken[setting].append(trial.time(setting))
    return {setting: median(times[1:] or times) for setting, times in taken.items()}


def fitting(shape: Shape, batch: int, steps: int, device: str = "cpu") -> tuple[Shape, int, float, str]:
    """(shape, sequences, steps of it that make one of the whole, description, "" for the whole): a step of at most
    LARGEST FLOPs, with fewer layers first, then fewer sequences, down to two, which threads can still share.

    If the `steps` compute so much that LARGEST_OF_LONG is negligible, that is the limit; on a GPU LARGEST_ON_A_GPU.
    """
    small, few = shape, batch
    largest = max(LARGEST, min(LARGEST_OF_LONG, NOTHING * steps * _work(shape, batch)))
    largest = LARGEST_ON_A_GPU if device.startswith("cuda") else largest
    while _work(small, few) > largest and (small.layers > 1 or few > 2):
        if small.layers > 1:
            small = replace(small, layers=(small.layers + 1) // 2)
        else:
            few = (few + 1) // 2
    scale = f" (timed on {small.layers} of {shape.layers} layers, {few} of {batch} sequences)"
    return small, few, _work(shape, batch) / _work(small, few), scale if (small, few) != (shape, batch) else ""


def _work(shape: GPTShape | BertShape | VisionShape, batch: int) -> int:
    return costs(shape).flops_per_token * batch * shape.context


def compile_loss(loss: Callable[..., Any], share: str) -> Callable[..., Any]:
    """Compile a loss, together with the model that it is called with.

    Threads that share the batch need the form that is C++ throughout: the other one holds the GIL while its kernels
    run, so that they run sequentially (two halves of a batch in 21.2 ms instead of 17.9).
    """
    if share != "batch":
        return torch.compile(loss)
    # To the compiler each thread's model is a different one, and by default it gives up after eight.
    keep_compiled(64)
    return torch.compile(loss, options={"cpp_wrapper": True})


def as_asked(loss: Callable[..., Any], compute: Compute) -> Callable[..., Any]:
    """The training loss, compiled if [compute] says so."""
    return compile_loss(loss, compute.thread_mode) if compute.compile is True else loss


def format_duration(seconds: float) -> str:
    """A duration in its natural unit.

    >>> format_duration(50), format_duration(600), format_duration(9000)
    ('50 s', '10 min', '2.5 h')
    """
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
