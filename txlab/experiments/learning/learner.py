"""A model that learns by AdamW: every update of it, and all that must be put back for the next one (MATH F3).

Notable: nothing random is saved. The batch and the dropout masks of update n are functions of (seed, n), so a
checkpoint is weights, AdamW's moments, the number of updates, and what a person has turned. An update that would write
a NaN into the weights is refused before they are touched: at once on a CPU, and on a GPU by a flag that the optimizer
reads there (see `optimizer.LateGuard`), told to the loop by `verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import isfinite
from typing import Any, Generic, Protocol, TypeAlias, cast

import torch
from torch import Tensor

from txlab.engine.device import DTYPES, choose_device, describe, measure_peak, repeat_exactly
from txlab.engine.transformer.attention import Kernel
from txlab.errors import LabError, nearest
from txlab.experiments.learning.autotune import reasons
from txlab.experiments.learning.batch_threads import Crew
from txlab.experiments.learning.optimizer import LateGuard, LongAdamW, first_not_finite
from txlab.experiments.learning.schedule import factor
from txlab.experiments.learning.schema import Train
from txlab.experiments.learning.weights import Model, load_weights, made
from txlab.experiments.protocol import Adjustable, NotFinite, State
from txlab.experiments.randomness import derived_seed
from txlab.experiments.schema import Compute

Measured: TypeAlias = dict[str, Tensor]  # "loss" of a batch, the mean over what is scored, and what else was counted
HIGHEST = {"lr": 10.0, "clip": 1e6, "weight_decay": 100.0, "dropout": 0.95}


class Scenario(Protocol):
    """What a learner reads of a scenario of any kind; its [model] has dropout."""

    @property
    def seed(self) -> int: ...

    @property
    def train(self) -> Train: ...

    @property
    def model(self) -> Any: ...

    @property
    def compute(self) -> Compute: ...

    def model_dump_json(self) -> str: ...


def prepare(compute: Compute) -> None:
    """Set this process to the scenario's number of threads, and to kernels that give the same bits each time."""
    torch.set_num_threads(compute.threads)
    repeat_exactly(choose_device(compute.device))


class Learner(Generic[Model]):
    """A model and what changes it; no "auto" is left in its scenario.

    how       attention kernel and dtype to compute in
    adjusted  what a person may turn, as it stands; lr is the *peak*: warm-up and cosine go on, scaled
    updates   made so far
    why       one sentence a decision of [compute]
    """

    def __init__(
        self,
        scenario: Scenario,
        make: Callable[[torch.Generator], Model],
        further: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        """`further`: what a person may turn in this kind besides, each with its value and the highest one."""
        train, compute = scenario.train, scenario.compute
        self.scenario = scenario
        self.device = choose_device(compute.device)
        self.tells_late = self.device.type == "cuda"
        self.model = made(make, scenario.seed).to(self.device)
        self.optimizer = LongAdamW(self.model, train, train.weight_decay)
        self.crew = Crew(self.model, self.optimizer, compute.threads if compute.share == "batch" else 1)
        self.how: tuple[Kernel, torch.dtype] = (cast(Kernel, compute.attention), DTYPES[compute.dtype])
        self.to_compile = compute.compile is True
        self.guard = LateGuard(self.device)
        self.why = reasons(scenario)
        further = further or {}
        self.highest = HIGHEST | {name: highest for name, (_, highest) in further.items()}
        self.adjusted: dict[str, float] = {
            "lr": train.learning_rate,
            "clip": train.clip,
            "weight_decay": train.weight_decay,
            "dropout": scenario.model.dropout,
            **{name: value for name, (value, _) in further.items()},
        }
        self.updates = 0

    # Learning

    def step(self, gradients: Callable[[int], Measured]) -> dict[str, float | Tensor]:
        """One update of AdamW: {"loss", "lr", "grad_norm"} and what else `gradients(update)` has measured.

        loss       of this batch, before the update
        grad_norm  ‖g‖ before clipping
        """
        update = self.updates + 1
        measured = gradients(update)
        norm, loss, clip = self.crew.collect(), measured["loss"], self.adjusted["clip"]
        rate = self.optimizer.lr = self.learning_rate(update)
        metrics: dict[str, float | Tensor] = {"loss": loss, "lr": rate, "grad_norm": norm, **measured}
        refused = None
        if self.tells_late:
            refused = self.guard.look(update, loss, norm)
            self.optimizer.clip_late(norm, clip)
        else:
            told = {name: float(value) for name, value in metrics.items()}
            if not (isfinite(told["loss"]) and isfinite(told["grad_norm"])):
                self.refuse(update, loss)
            self.optimizer.clip_now(told["grad_norm"], clip)
            metrics = {**told}
        self.optimizer.step(refused)
        self.updates = update
        return metrics

    def learning_rate(self, update: int) -> float:
        """Peak × schedule; the peak is what a person may turn, and the schedule goes on from there."""
        train = self.scenario.train
        return self.adjusted["lr"] * factor(update, train.warmup, train.steps, train.final, train.decay)

    def gradients(
        self, update: int, work: Callable[..., Measured], micro_batches: Iterable[Sequence[Tensor]]
    ) -> Measured:
        """Sums of what `work(model, *tensors)` measures, after the backward passes that it makes, over all parts.

        `work` divides its loss by what the whole batch scores: a mean of means would weigh targets by how they
        happened to be dealt.
        """
        dropout = self.adjusted["dropout"] > 0
        if dropout:
            torch.manual_seed(derived_seed(self.scenario.seed, "dropout", update))
        total: Measured = {}
        for tensors in micro_batches:
            # Dropout draws from one generator, in one order: with it the model works on the batch as a whole.
            parts = [work(self.model, *tensors)] if dropout else self.crew.each(work, *tensors, in_turn=self.to_compile)
            self.to_compile = False
            for part in parts:
                for name, value in part.items():
                    total[name] = total[name] + value if name in total else value
        return total

    # What must never reach the weights

    def refuse(self, update: int, loss: Tensor) -> None:
        name, value = first_not_finite(self.optimizer, loss)
        raise NotFinite(update, name, value)

    def verify(self, gradients: Callable[[int], Measured]) -> None:
        """Raise NotFinite for the first update that a GPU refused; its batch is computed again to name the tensor.

        The weights still are those before that update, and `updates` goes back to them.
        """
        refused = self.guard.first() if self.tells_late else None
        if refused is None:
            return
        self.updates = refused - 1
        loss = gradients(refused)["loss"]
        self.crew.collect()
        self.guard = LateGuard(self.device)
        self.refuse(refused, loss)

    # Looking

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Without dropout; the mode is put back."""
        training = self.model.training
        self.model.eval()
        try:
            yield
        finally:
            self.model.train(training)

    def on_device(self, tensor: Tensor) -> Tensor:
        """The same there; to a GPU from pinned memory, or the copy would wait for what is computed."""
        if self.device.type != "cuda":
            return tensor.to(self.device)
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def facts(self) -> dict[str, Any]:
        """What run.json says of how it is computed: `peak_flops`, measured once, and `compute`."""
        compute = self.scenario.compute
        return {
            "peak_flops": self.peak,
            "compute": {
                "device": compute.device,
                "name": describe(self.device),
                "dtype": compute.dtype,
                "attention": compute.attention,
                "threads": compute.threads,
                "share": compute.share,
                "compile": compute.compile,
                "why": list(self.why),
            },
        }

    @cached_property
    def peak(self) -> float:
        return measure_peak(self.device, self.how[1])

    # What a person may change

    def adjustable(self) -> Mapping[str, Adjustable]:
        return {name: Adjustable(name, value, 0.0, self.highest[name]) for name, value in self.adjusted.items()}

    def adjust(self, name: str, value: float) -> None:
        """Turn one of them; LabError for a name that is none."""
        if name not in self.adjusted:
            raise LabError(
                f"{name!r} cannot be changed while this runs{nearest(name, self.adjusted)}; "
                f"allowed: {', '.join(self.adjusted)}"
            )
        self.adjusted[name] = float(value)
        if name == "dropout":
            cast(Any, self.model).set_dropout(self.adjusted["dropout"])
        elif name == "weight_decay":
            self.optimizer.weight_decay = self.adjusted["weight_decay"]

    # Saving and putting back

    def state(self) -> State:
        return {
            "step": self.updates,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state(),
            "adjusted": dict(self.adjusted),
            "why": list(self.why),
        }

    def load(self, state: State) -> None:
        """Go back to what `state` gave. LabError if it belongs to another model shape."""
        load_weights(self.model, state["model"])
        self.optimizer.load(state["optimizer"])
        self.guard = LateGuard(self.device)
        for name, value in state["adjusted"].items():
            self.adjust(name, value)
        self.updates = int(state["step"])
        self.why = list(state["why"]) or self.why
