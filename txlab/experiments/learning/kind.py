"""The interface of kinds trained by gradients to the program: the size of the model and the cost of a step
(MATH F3, T8–T11, T14).

Sizes are computed before running: nothing is allocated and no text is read; if a size depends on the text, a
LabError says so. torch is imported inside functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

from txlab.engine.explain import Explaining, Explanation, Operand, Step
from txlab.errors import LabError
from txlab.experiments.kind import Kind
from txlab.experiments.learning.explanations import MeanLoss, explain_step
from txlab.experiments.metric import Metric
from txlab.experiments.schema import Start
from txlab.experiments.tokenizer_store import tokenizer_named

if TYPE_CHECKING:
    from txlab.engine.recurrent.translation import RecurrentTranslatorShape
    from txlab.engine.transformer.costs import AnyShape, Costs
    from txlab.experiments.learning.gradient import GradientExperiment
    from txlab.experiments.loaded_model import LoadedModel
    from txlab.experiments.protocol import Experiment, State


LOSSES = (
    Metric("loss", "nats", less=True, primary=True),
    Metric("val_loss", "nats", "val", less=True, primary=True),
)


class GradientKind(Kind):
    """A kind trained by gradients.

    mean        the terms that its loss is a mean of
    uncompiled  why torch's compiler is not tried unless requested; "" = it is tried if training is long
    ungraphed   why its whole steps cannot be CUDA graphs; "" = they can
    unfit       the settings that it does not support, and why; "" = none
    """

    METRICS: ClassVar[Sequence[Metric]] = LOSSES
    mean: ClassVar[MeanLoss] = MeanLoss()
    uncompiled: ClassVar[str] = ""
    ungraphed: ClassVar[str] = "its steps are not functions of batches of one shape"
    unfit: ClassVar[str] = ""

    def mathematics(self) -> Any:
        """The module `experiment` of the kind's package, which may import torch. It has `experiment_of(scenario)`,
        `trial_of(scenario)`, which is timed to decide "auto", and, if its models can be loaded and started from,
        `open_model` and `adopt` as in `Kind`."""
        return import_module(f"{type(self).__module__}.experiment")

    def resolve(self, scenario: Any, say: Callable[[str], None] = lambda text: None) -> Any:
        """Return the scenario with every "auto" of [compute] decided by a short measurement on this machine."""
        from txlab.experiments.learning.autotune import resolve

        if self.unfit and scenario.compute.compile is True:
            raise LabError(f"compute.compile = true is not for {self.unfit}; allowed: auto, false")
        if self.ungraphed and scenario.compute.cuda_graphs is True:
            raise LabError(f"compute.cuda_graphs = true is not for {self.name}: {self.ungraphed}; allowed: auto, false")
        uncompiled = self.uncompiled
        if scenario.compute.processes > 1 and scenario.compute.parallel == "fsdp":
            uncompiled = "blocks are put together while they compute"
            shared = scenario.compute.model_copy(update={"thread_mode": "operations"})
            scenario = scenario.model_copy(update={"compute": shared})
        return super().resolve(resolve(scenario, self.mathematics().trial_of, say, uncompiled, self.ungraphed))

    def require_divisible(self, scenario: Any, count: int) -> None:
        train = scenario.train
        require_rows(count, train.batch // train.accumulate, "train.batch / train.accumulate")
        require_whole_models(scenario)

    def reasons(self, scenario: Any) -> Sequence[str]:
        from txlab.experiments.learning.autotune import reasons

        return reasons(scenario)

    def build(self, scenario: Any) -> Experiment:
        from txlab.experiments.learning.gradient import prepare

        resolved = self.resolve(scenario)
        prepare(resolved.compute)
        experiment: GradientExperiment[Any] = self.mathematics().experiment_of(resolved)
        experiment.why = list(self.reasons(resolved))
        return experiment

    def open_model(self, scenario: Any, state: State) -> LoadedModel:
        make = getattr(self.mathematics(), "open_model", super().open_model)
        opened: LoadedModel = make(scenario, state)
        return opened

    def adopt(self, scenario: Any, opened: LoadedModel) -> Any:
        return getattr(self.mathematics(), "adopt", super().adopt)(scenario, opened)

    def shape_of(self, scenario: Any) -> AnyShape | RecurrentTranslatorShape:
        """The shape of the model; LabError if it is known only once the data have been read."""
        raise LabError(f"how large a {self.name} is, only its run can say")

    def require_possible(self, scenario: Any) -> None:
        from txlab.experiments.learning.feasible import is_usual, require_possible

        if not hasattr(scenario, "model") or is_usual(scenario):
            return
        data: Any = getattr(scenario, "data", None)
        try:
            shape = self.shape_of(scenario)
        except LabError:  # only the vocabulary is unknown: that of bytes is among the smallest
            if not hasattr(data, "tokenizer"):
                return
            shape = self.shape_of(scenario.model_copy(update={"data": data.model_copy(update={"tokenizer": "bytes"})}))
        require_possible(scenario, shape)

    def explain_metric(
        self, scenario: Any, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        if not isfinite(values[name]):
            return None
        return explain_step(scenario, self.mean, name, values, step, facts)


def require_rows(count: int, rows: int, setting: str) -> None:
    """Raise LabError if there is not at least one row of a batch for each of several processes."""
    if rows < count:
        raise LabError(
            f"compute.processes = {count}: a batch of {rows} ({setting}) cannot be split between them; "
            f"allowed: at most {rows}"
        )


def require_whole_models(scenario: Any) -> None:
    """Raise LabError if threads were to share a batch, which takes whole models, where each process has only a part."""
    if scenario.compute.parallel == "fsdp" and scenario.compute.thread_mode == "batch":
        raise LabError(
            'compute.thread_mode = "batch" needs the whole model, of which compute.parallel = "fsdp" leaves each '
            "process a part; allowed: auto, operations"
        )


SOURCE = "Kaplan et al. 2020, §2.1; Chowdhery et al. 2022, appendix B"


def refuse_unknown(start: Start) -> None:
    if start.run and not start.fingerprint:
        raise LabError("how large it is depends on the run that it starts from; its own run will say (w on the run)")


def vocabulary_of(tokenizer: str, learnt: int) -> int:
    """The vocabulary that a text's tokenizer will have; `learnt` is the size requested of a byte pair encoding."""
    if tokenizer in ("characters", "words"):
        raise LabError(f"how large it is depends on how many {tokenizer} its text has; its run will say (w on the run)")
    return learnt if tokenizer == "bpe" else tokenizer_named(tokenizer).vocabulary


@dataclass(frozen=True)
class Size:
    """The terms counted: `layers` × `context` × `width` is the cost of a unit's attention, in units of 12 FLOPs;
    `beside` are the parameters not used in a unit's products; `copies`, how many such models learn, and their name."""

    cost: Costs
    layers: int
    context: int
    width: float
    unit: str
    beside: str
    copies: tuple[int, str] = (1, "")

    @property
    def several(self) -> str:
        return self.unit + ("es" if self.unit.endswith("ch") else "s")


def dimensions(layers: int, heads: int, width: int, feed_forward: int) -> list[Operand]:
    return [
        Operand("N", layers, f"layers, of {heads} heads each"),
        Operand("D", width, "width"),
        *([Operand("F", feed_forward, "width of the feed-forward layer")] if feed_forward else []),
    ]


def explain_size(
    size: Size, scenario: Any, seconds: float, *, equation: str, math: str, operands: list[Operand], weights: list[Step]
) -> Explanation:
    """The explanation, from the weights that take part in products to the cost of the whole training."""
    train = scenario.train
    cost, B, T, unit = size.cost, train.batch, size.context, size.unit
    copies, what = size.copies
    work = copies * cost.flops_per_token * B * T
    attention = f"12 · {size.layers} · {T} · {size.width}"
    whole = train.steps * work
    why = Explaining(f"how large is it, and why does a step cost {format_power(work)} FLOPs?", work)
    why.equation(equation, math, SOURCE)
    why.operands += operands
    why.input("B", B, "sequences, pairs or images a step")
    if copies > 1:
        why.input("n", copies, f"{what}, each with weights of its own")
    times = f"{copies} · " if copies > 1 else ""
    why.steps += weights
    count = cost.parameters
    why.step("parameters", f"w + {count - cost.matmul_weights}", count, f"and {size.beside}")
    why.step("memory", f"{times}16 · {count} / 10⁶", copies * 16e-6 * count, "MB: float32 weight, gradient, 2 moments")
    why.step(f"FLOPs a {unit}", f"6 · {cost.matmul_weights} + {attention}", cost.flops_per_token)
    why.step(
        "FLOPs a step", f"{times}{B} · {T} · {cost.flops_per_token}", work, f"{copies * B * T} {size.several} a step"
    )
    meaning = f"FLOPs, {train.steps * copies * B * T} {size.several}"
    why.means(Step("in all", f"{train.steps} · {format_power(work)}", whole, meaning))
    if seconds > 0:
        why.means(Step("FLOP/s", f"{format_power(whole)} / {seconds:g} s", whole / seconds))
    return why.result()


def format_power(number: float) -> str:
    """A large number in scientific notation: 1245708288 → "1.25 · 10⁹"."""
    digits, _, exponent = f"{number:.2e}".partition("e")
    return f"{digits} · 10{str(int(exponent)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
