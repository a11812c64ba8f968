"""Training by gradient descent: each update, and the state needed to resume (MATH F3).

A subclass defines `gradients(update)`, which calls `backward` and returns its measurements; or, if that depends on
tensors of one shape alone, `batch_of(update)` and `gradients_of(*batch)`: then batches are prefetched on a GPU, and
whole steps can be CUDA graphs. This class does the rest: the schedule, clipping, AdamW, refusing updates that are not
finite, adjustable parameters, and the checkpoint. Parameters keep their ordinary `.grad`, so any torch.optim optimizer
and any data-parallel wrapper fit.

Notable: nothing random is saved. The batch and the dropout masks of update n are functions of (seed, n), so a
checkpoint is weights, the optimizers' moments, the number of updates, and the adjusted parameters. An update that
would write a NaN into the weights is refused before they are touched: immediately on a CPU; on a GPU, without waiting
for it, by a flag on the device that fused optimizers read and `verify` reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from math import isfinite
from typing import Any, Generic, TypeAlias, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from txlab.engine.device import DTYPES, choose_device, data_sheet_peak, describe, measure_peak, repeat_exactly
from txlab.engine.torch_internals import multiply_
from txlab.engine.transformer.blocks import Kernel
from txlab.engine.transformer.former_names import current_name
from txlab.errors import LabError, nearest
from txlab.experiments.learning.batch_threads import BatchThreads
from txlab.experiments.learning.graphed_step import GraphedStep
from txlab.experiments.learning.parallel_strategy import current_strategy
from txlab.experiments.learning.prefetch import Prefetch
from txlab.experiments.learning.schema import Optimizer as OptimizerSettings
from txlab.experiments.learning.schema import clip_factor, factor
from txlab.experiments.protocol import Adjustable, Budget, Frame, NotFinite, Sample, State
from txlab.experiments.randomness import derived_seed
from txlab.experiments.schema import Compute

Model = TypeVar("Model", bound=nn.Module)
Part = TypeVar("Part")
Measured: TypeAlias = dict[str, Tensor]  # "loss": the mean over the scored items of a batch; and other measurements
HIGHEST = {"lr": 10.0, "clip": 1e6, "weight_decay": 100.0, "dropout": 0.95}


def prepare(compute: Compute) -> None:
    """Set this process to the scenario's number of threads, and to kernels that give the same bits each time."""
    torch.set_num_threads(compute.threads)
    repeat_exactly(choose_device(compute.device))


def adamw(model: nn.Module, train: OptimizerSettings) -> AdamW:
    """θ ← θ − η (m̂ / (√v̂ + ε) + λ θ). MATH F3; Loshchilov & Hutter 2019.

    Only matrices decay: biases, γ and β gain nothing from being small. A tied weight is included once.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": train.weight_decay, "decays": True},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0, "decays": False},
    ]
    return AdamW(
        [group for group in groups if group["params"]],
        lr=train.learning_rate,
        betas=(train.beta1, train.beta2),
        eps=train.epsilon,
        fused=True,
    )


class GradientExperiment(Generic[Model]):
    """An Experiment (see protocol) that trains a model by gradients; no "auto" is left in its scenario.

    model       the trained model; several models are the children of one nn.ModuleDict
    optimizers  of the model's parameters; each is clipped by the norm of its own gradients
    how         attention kernel and dtype to compute in
    adjusted    current values of the adjustable parameters; lr is the *peak*: warm-up and cosine scale with it
    step_count  updates made so far
    why         one sentence for each decision of [compute] that was made by a measurement
    whole       makes whole steps, if they are CUDA graphs
    refused, first_refused   on the device: 1 once an update was refused, and its number; −1 = none was

    An experiment that collects its own data first (rollouts) overrides `step`, and calls `update_on` for its parts.
    """

    def __init__(
        self,
        scenario: Any,
        make: Callable[[torch.Generator], Model],
        further: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        """scenario   has seed, train (a learning.schema.Optimizer), compute, and perhaps model.dropout
        make       the model, its weights drawn with a generator of the scenario's seed
        further    other adjustable parameters of this kind: name → (value, highest value allowed)
        """
        train, compute = scenario.train, scenario.compute
        self.scenario = scenario
        self.device = choose_device(compute.device)
        self.strategy, self.make = current_strategy(), make
        self.model: Model = self.strategy.place_model(self.initial_model().to(self.device))
        self.optimizers: Sequence[Optimizer] = self.make_optimizers()
        fused = all(optimizer.defaults.get("fused") for optimizer in self.optimizers)
        self.checks_async = self.device.type == "cuda" and fused
        in_batches = type(self).batch_of is not GradientExperiment.batch_of
        self.batches = Prefetch(self.batch_of, self.device, in_batches)
        self.threads = BatchThreads(self.model, compute.threads if compute.thread_mode == "batch" else 1)
        self.how: tuple[Kernel, torch.dtype] = (cast(Kernel, compute.attention), DTYPES[compute.dtype])
        self.to_compile = compute.compile is True
        self.why: list[str] = []
        dropout = getattr(getattr(scenario, "model", None), "dropout", None)
        self.adjusted: dict[str, float] = {
            "lr": train.learning_rate,
            "clip": train.clip,
            "weight_decay": train.weight_decay,
            **({} if dropout is None else {"dropout": dropout}),
            **{name: value for name, (value, _) in (further or {}).items()},
        }
        self.highest = HIGHEST | {name: highest for name, (_, highest) in (further or {}).items()}
        self.step_count = 0
        self.refused = torch.zeros((), device=self.device)
        self.first_refused = torch.full((), -1, device=self.device)
        self.graphed_step = None
        if compute.cuda_graphs is True and in_batches and fused and self.strategy.count == 1:
            self.graphed_step, self.checks_async = GraphedStep(self), True

    def initial_model(self) -> Model:
        """The model before its first update."""
        # The constructors of torch's modules draw from the global generator, whose state is restored.
        with torch.random.fork_rng(devices=[]):
            return self.make(torch.Generator().manual_seed(derived_seed(self.scenario.seed, "weights", 0)))

    def make_optimizers(self) -> Sequence[Optimizer]:
        """One AdamW for all parameters. A group's "lr_scale" multiplies the scheduled learning rate."""
        return [adamw(self.model, self.scenario.train)]

    @property
    def steps(self) -> int:
        return int(self.scenario.train.steps)

    # Defined by each kind

    def gradients(self, update: int) -> Measured:
        """Leave the gradients of update n in the parameters; return {"loss"} and anything else measured."""
        return self.gradients_of(*self.batches.take(update))

    def batch_of(self, update: int) -> Sequence[Tensor]:
        """The tensors that update n learns from, of the same shapes for every n; a function of the seed and n."""
        raise NotImplementedError

    def gradients_of(self, *batch: Tensor) -> Measured:
        """As `gradients`, from these tensors on the device and no other changing state than `adjusted`."""
        raise NotImplementedError

    def evaluate(self) -> Mapping[str, float | Tensor]:
        raise NotImplementedError

    def frame(self) -> Frame:
        raise NotImplementedError

    def samples(self) -> Sequence[Sample]:
        return ()

    # Training
    def step(self) -> Mapping[str, float | Tensor]:
        """Make one update; return {"loss", "lr", "grad_norm"} and anything else `gradients` measured.

        loss       of this batch, before the update
        grad_norm  ‖g‖ before clipping; of several optimizers √Σ‖g‖²
        """
        metrics = self.graphed_step.step() if self.graphed_step else self.update(self.gradients)
        if self.step_count < self.steps:
            self.batches.prepare(self.step_count + 1)
        return metrics

    def update(self, gradients: Callable[[int], Measured]) -> Mapping[str, float | Tensor]:
        """Update all optimizers with the gradients that `gradients(number of the update)` leaves."""
        update = self.step_count + 1
        measured, norms = self.measure_with_norms(gradients, update)
        loss, norm = measured["loss"], norms[0] if len(norms) == 1 else torch.stack(norms).norm()
        rate = self.learning_rate(update)
        metrics: dict[str, float | Tensor] = {"loss": loss, "lr": rate, "grad_norm": norm, **measured}
        if self.checks_async:
            self.watch(loss, norm, update)
        else:
            metrics = {name: float(value) for name, value in metrics.items()}
            if not (isfinite(metrics["loss"]) and isfinite(metrics["grad_norm"])):
                self.refuse(update, loss)
        self.descend(norms, rate)
        self.step_count = update
        return metrics

    def descend(self, norms: Sequence[Tensor], rate: float | Tensor) -> None:
        """Clip the gradients, whose norms are given, and make the optimizers' steps at this rate."""
        for optimizer, norm in zip(self.optimizers, norms, strict=True):
            self._clip(optimizer, norm, self.adjusted["clip"])
            for group in optimizer.param_groups:
                group["lr"] = rate * group["lr_scale"] if "lr_scale" in group else rate
            if self.checks_async:
                optimizer.found_inf = self.refused  # type: ignore[attr-defined]  # a fused optimizer skips the step
            optimizer.step()

    def notes(self) -> Sequence[str]:
        """Notes for the user that have not been shown yet."""
        return self.graphed_step.notes() if self.graphed_step else ()

    def update_on(self, parts: Iterable[Part], gradients: Callable[[Part], Measured]) -> dict[str, float | Tensor]:
        """Make one step of several updates, one for each part; return the means of the updates' measurements."""
        number = self.step_count
        measured: dict[str, list[float]] = {}
        for part in parts:
            self.step_count = number  # the schedule, and the message about a refused update, refer to the step
            for name, value in self.update(lambda _, part=part: gradients(part)).items():  # type: ignore[misc]
                measured.setdefault(name, []).append(float(value))
        return {name: sum(values) / len(values) for name, values in measured.items()}

    def measure_with_norms(
        self, gradients: Callable[[int], Measured], update: int = 0
    ) -> tuple[Measured, list[Tensor]]:
        """The measurements, and ‖g‖ of each optimizer. A parameter that the loss does not reach gets zeros.

        update  seeds dropout; 0 = it is seeded
        """
        if update:
            self.seed_dropout(update)
        for parameter in self.model.parameters():
            parameter.grad = None
        with self.strategy.split_rows(self.model):
            measured = gradients(update)
        self.threads.add_gradients()
        for parameter in self.model.parameters():
            if parameter.grad is None and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        self.strategy.reduce_gradients(self.model.parameters())
        flat = [torch.cat([gradient.flatten() for gradient in self._gradients(each)]) for each in self.optimizers]
        return measured, [self.strategy.global_norm(torch.linalg.vector_norm(each)) for each in flat]

    def _gradients(self, optimizer: Optimizer) -> list[Tensor]:
        """The local gradients of an optimizer's parameters."""
        return [
            self.strategy.local_shard(cast(Tensor, p.grad)) for group in optimizer.param_groups for p in group["params"]
        ]

    def _clip(self, optimizer: Optimizer, norm: Tensor, clip: float) -> None:
        """Scale gradients by `clip_factor`; on a GPU the factor is computed on the device, without waiting."""
        if self.checks_async:
            scale: Tensor | float = (clip / (norm + 1e-6)).clamp(max=1.0) if clip else 1.0
        else:
            scale = clip_factor(float(norm), clip)
        if isinstance(scale, Tensor) or scale < 1:
            multiply_(self._gradients(optimizer), scale)

    def learning_rate(self, update: int) -> float:
        """Peak × schedule; a change of the peak scales the rest of the schedule."""
        train = self.scenario.train
        return self.adjusted["lr"] * factor(update, train.warmup, train.steps, train.final, train.decay)

    def seed_dropout(self, update: int, purpose: str = "dropout") -> None:
        """The masks of update n are a function of (seed, n), and of the process, whose rows are others."""
        if self.adjusted.get("dropout", 0.0) > 0:
            purpose = f"{purpose} of process {self.strategy.rank}" if self.strategy.rank else purpose
            torch.manual_seed(derived_seed(self.scenario.seed, purpose, update))

    def accumulate(self, work: Callable[..., Measured], micro_batches: Iterable[Sequence[Tensor]]) -> Measured:
        """Run `work(model, *tensors)`, which makes the backward pass, on all parts; return the sums that it measures.

        `work` divides its loss by the number scored in the whole batch: a mean of means would weight targets by how
        they happened to be split.
        """
        dropout = self.adjusted.get("dropout", 0.0) > 0
        total: Measured = {}
        for tensors in map(self.strategy.local_rows, micro_batches):
            # Dropout draws from one generator, in one order, so with dropout the batch is not split between threads.
            parts = (
                [work(self.model, *tensors)] if dropout else self.threads.each(work, *tensors, in_turn=self.to_compile)
            )
            self.to_compile = False
            for part in parts:
                for name, value in part.items():
                    total[name] = total[name] + value if name in total else value
        return self.strategy.sum_measured(total)

    # Refusing updates that are not finite

    def refuse(self, update: int, loss: Tensor) -> None:
        """Raise NotFinite naming the loss, else the first gradient that is not finite, else the norm."""
        name, value = "loss", loss
        if isfinite(float(loss)):
            gradients = [
                (name, self.strategy.local_shard(p.grad))
                for name, p in self.model.named_parameters()
                if p.grad is not None
            ]
            bad = self.strategy.any_rank(torch.stack([~gradient.isfinite().all() for _, gradient in gradients]))
            if not bool(bad.any()):
                raise NotFinite(update, "grad_norm", "Infinity")
            name, gradient = gradients[int(bad.int().argmax())]
            # The element itself may be in another process.
            name, value = f"the gradient of {name}", next(iter(gradient[~gradient.isfinite()]), torch.tensor(torch.nan))
        number = float(value)
        raise NotFinite(update, name, "NaN" if number != number else "Infinity" if number > 0 else "-Infinity")

    def watch(self, loss: Tensor, norm: Tensor, update: int | Tensor) -> None:
        """Note on the device whether this update must be refused: two scalars, read without waiting for each step.

        They are written in place, because a recorded step has their addresses.
        """
        bad = ~(loss.isfinite() & norm.isfinite())
        self.first_refused.copy_(torch.where(bad & (self.refused == 0), update, self.first_refused))
        self.refused.copy_(torch.maximum(self.refused, bad.float()))

    def watch_anew(self) -> None:
        """Forget that an update was refused."""
        self.refused.zero_()
        self.first_refused.fill_(-1)

    def verify(self) -> None:
        """Raise NotFinite for the first update that a GPU refused; its batch is computed again to name the tensor.

        The weights are still those before that update, and `step_count` is set back to it.
        """
        refused = int(self.first_refused) if self.checks_async else -1
        if refused < 0:
            return
        self.step_count = refused - 1
        measured, _ = self.measure_with_norms(self.gradients, refused)
        self.watch_anew()
        self.refuse(refused, measured["loss"])

    # Inspection

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Evaluation mode, without dropout; the mode is restored on exit."""
        training = self.model.training
        self.model.eval()
        try:
            yield
        finally:
            self.model.train(training)

    def on_device(self, tensor: Tensor) -> Tensor:
        """Move to the device; to a GPU from pinned memory, or the copy would wait for running kernels."""
        if self.device.type != "cuda":
            return tensor.to(self.device)
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def facts(self) -> Mapping[str, Any]:
        """The facts of run.json about computation: `peak_flops`, measured once, `data_sheet_flops` of a card that is
        known, and `compute`."""
        compute = {**self.scenario.compute.model_dump(), "name": describe(self.device), "why": list(self.why)}
        sheet = data_sheet_peak(self.device, self.how[1])
        return {"peak_flops": self.peak, **({"data_sheet_flops": sheet} if sheet else {}), "compute": compute}

    @cached_property
    def peak(self) -> float:
        try:
            return measure_peak(self.device, self.how[1])
        except torch.OutOfMemoryError:  # a model that fills its GPU trains without knowing its share
            return 0.0

    def budget(self) -> Budget:
        """The memory that a step is computed to need."""
        from txlab.experiments.learning.budget import budget_of  # only a run that had too little asks

        return budget_of(self.scenario, self.model, getattr(self, "shape", None))

    # Adjustable parameters

    def adjustable(self) -> Mapping[str, Adjustable]:
        """ "lr" is the *peak* learning rate: warm-up and cosine scale with it."""
        return {name: Adjustable(name, value, 0.0, self.highest[name]) for name, value in self.adjusted.items()}

    def adjust(self, name: str, value: float) -> None:
        """Set one of them. LabError for an unknown name."""
        if name not in self.adjusted:
            raise LabError(
                f"{name!r} cannot be changed while this runs{nearest(name, self.adjusted)}; "
                f"allowed: {', '.join(self.adjusted)}"
            )
        self.adjusted[name] = float(value)
        if name == "dropout":
            cast(Any, self.model).set_dropout(self.adjusted["dropout"])
        elif name == "weight_decay":
            for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
                group["weight_decay"] = self.adjusted["weight_decay"] if group.get("decays") else 0.0

    # Checkpoints

    def state_dict(self) -> State:
        """The moments are stored by parameter name: {"step", "exp_avg", "exp_avg_sq"} each for AdamW."""
        moments = {p: state for optimizer in self.optimizers for p, state in optimizer.state.items()}
        return {
            "step": self.step_count,
            "model": self.model.state_dict(),
            "optimizer": {name: dict(moments.get(p, {})) for name, p in self.model.named_parameters()},
            "adjusted": dict(self.adjusted),
            "why": list(self.why),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a state from `state_dict`. LabError if it is of another model shape."""
        load_weights(self.model, state["model"])
        saved = {current_name(name): moments for name, moments in state["optimizer"].items()}
        names = {p: name for name, p in self.model.named_parameters()}
        for optimizer in self.optimizers:
            for p in (p for group in optimizer.param_groups for p in group["params"]):
                optimizer.state.pop(p, None)
                if moments := saved.get(names[p]):
                    optimizer.state[p] = {key: self._put_back(value, p) for key, value in moments.items()}
        if self.graphed_step:
            self.graphed_step.graph.forget()  # it has the addresses of the moments before
        self.watch_anew()
        for name, value in state["adjusted"].items():
            self.adjust(name, value)
        self.step_count = int(state["step"])
        self.why = list(state["why"]) or self.why

    def _put_back(self, value: Any, parameter: Tensor) -> Any:
        """A copy of a part of a parameter's moments, on its device and laid out as it is."""
        if not isinstance(value, Tensor):
            return value
        there = value.clone().to(parameter.device)
        return self.strategy.distribute_like(there, parameter) if value.shape == parameter.shape else there

    def put_together(self) -> AbstractContextManager[None]:
        """Within it, this process holds the whole of the model's parameters: for inspection and saving."""
        return self.strategy.unshard(self.model)

    def full_model(self) -> Model:
        """The model with all of its parameters in this process."""
        return self.strategy.full_copy(self.model, lambda: self.initial_model().to(self.device))

    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Start from these weights instead of random ones, with no updates made and no other state."""
        load_weights(self.model, weights)


def rebuild_model(make: Callable[[], Model], weights: Mapping[str, Tensor]) -> Model:
    """The model of a checkpoint, in eval mode. LabError if its weights do not fit the scenario's shape."""
    with torch.random.fork_rng(devices=[]):
        model = make()
    load_weights(model, weights)
    return model.eval()


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load a checkpoint's weights into the model of its scenario. LabError if one does not fit.

    Weights saved under the names of an earlier version are renamed.
    """
    weights = {current_name(name): tensor for name, tensor in weights.items()}
    own = model.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
    for name, tensor in weights.items():
        if shapes.pop(name, None) != tuple(tensor.shape):
            raise LabError(f"the checkpoint's {name} {tuple(tensor.shape)} does not fit this scenario's [model]")
    if shapes:
        raise LabError(f"the checkpoint lacks {next(iter(shapes))}, which this scenario's [model] has")
    share = current_strategy()
    model.load_state_dict({name: share.distribute_like(tensor, own[name]) for name, tensor in weights.items()})
