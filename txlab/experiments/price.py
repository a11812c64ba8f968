"""What a run will cost, before it starts: the arithmetic of memory, time and disk (MATH T11). Nothing is measured here.

    time  = begin + Σ (how often · seconds once) over steps, evaluations, samples, frames, checkpoints
    FLOPs = steps · FLOPs a step, with 6 w + 12 N T D a token, w the weights that it is multiplied with

Notable: the loop also evaluates, samples and makes a frame at step 0, and does everything once more at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from txlab.experiments.schema import Record

PARTS = ("step", "evaluation", "sample", "frame", "checkpoint")


def occasions(every: int, steps: int, at_start: bool = True) -> int:
    """How often something is done every `every` steps in a run of `steps`, at its start and its end as well.

    >>> occasions(100, 250), occasions(100, 300), occasions(100, 250, at_start=False), occasions(0, 250)
    (4, 4, 3, 0)
    """
    if not every:
        return 0
    return steps // every + (steps % every > 0) + at_start


def counts(record: Record, steps: int) -> dict[str, int]:
    """How often each of PARTS happens in a whole run. A checkpoint is always saved at the end, never at the start."""
    return {
        "step": steps,
        "evaluation": occasions(record.evaluate_every, steps),
        "sample": occasions(record.sample_every, steps),
        "frame": occasions(record.frame_every, steps),
        "checkpoint": occasions(record.checkpoint_every, steps, at_start=False) or 1,
    }


def disk(record: Record, steps: int, checkpoint: float, frame: float) -> dict[str, int]:
    """Bytes on the disk at the end, of checkpoints and frames of these sizes, within the budgets of [record].

    The newest checkpoints and the best stay whatever the budget; older ones stay while all fit into it.
    """
    often = counts(record, steps)
    always = min(often["checkpoint"], record.checkpoints_kept + (record.evaluate_every > 0))
    kept = max(always, min(often["checkpoint"], int(record.checkpoints_mb * 1e6 // max(checkpoint, 1.0))))
    return {
        "checkpoints": round(kept * checkpoint),
        "frames": round(min(often["frame"] * frame, max(record.frames_mb * 1e6, frame))),
    }


def mean_size(measured: Sequence[tuple[int, int]], steps: int) -> float:
    """The mean size of what is written throughout a run, from its (step, size) at the beginning and later: on the line
    through both, as the path of a method grows by a point a step. What did not grow keeps its size.

    >>> mean_size([(0, 100), (50, 200)], 1000), mean_size([(0, 100), (50, 100)], 1000), mean_size([(0, 70)], 1000)
    (1100.0, 100.0, 70.0)
    """
    (before, small), (after, large) = measured[0], measured[-1]
    if after <= before or large <= small:
        return float(large)
    return small + (large - small) / (after - before) * (steps / 2 - before)


@dataclass(frozen=True)
class Price:
    """What a scenario or a preset will cost.

    device       where it would be computed, in words
    compute      the settings of [compute] that were decided by measuring, as `--set` takes them
    parameters   0 = no model is trained, or not known
    units        of data, named by `unit`, in all; 0 = not known
    flops        in all; 0 = not known
    memory       bytes by part, at the same moment, the highest
    memory_how   how it is known: "measured in a trial", "computed"
    there        bytes of memory that are free
    seconds      each part's share of the time; empty = not known
    seconds_how  how it is known
    disk, disk_free   bytes by part at the end, and free where runs are written
    refused      why the run would not begin, a sentence each
    warnings     what would go wrong later
    """

    name: str
    title: str = ""
    device: str = ""
    compute: Mapping[str, Any] = field(default_factory=dict)
    parameters: int = 0
    unit: str = ""
    units: float = 0.0
    units_per_step: float = 0.0
    steps: int = 0
    flops: float = 0.0
    memory: Mapping[str, int] = field(default_factory=dict)
    memory_how: str = ""
    there: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    seconds_how: str = ""
    disk: Mapping[str, int] = field(default_factory=dict)
    disk_free: int = 0
    refused: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def total_memory(self) -> int:
        return sum(self.memory.values())

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    def as_json(self) -> dict[str, Any]:
        """Every number, by the names of the attributes; None for what is not known."""
        return {
            "name": self.name,
            "title": self.title,
            "device": self.device or None,
            "compute": dict(self.compute),
            "parameters": self.parameters or None,
            "unit": self.unit or None,
            "units": self.units or None,
            "units_per_step": self.units_per_step or None,
            "steps": self.steps or None,
            "flops": self.flops or None,
            "memory": dict(self.memory),
            "memory_total": self.total_memory or None,
            "memory_how": self.memory_how or None,
            "memory_free": self.there or None,
            "seconds": dict(self.seconds),
            "seconds_total": self.total_seconds or None,
            "seconds_how": self.seconds_how or None,
            "disk": dict(self.disk),
            "disk_free": self.disk_free or None,
            "refused": list(self.refused),
            "warnings": list(self.warnings),
        }


def lack(needed: float, there: float, what: str) -> tuple[str, ...]:
    """A sentence if more is needed than there is; nothing if enough is there, or unknown.

    >>> lack(3e12, 2e9, "memory"), lack(1e9, 2e9, "memory"), lack(1e9, 0, "memory")
    (('it needs 3000 GB of memory, and 2.00 GB are free',), (), ())
    """
    if not there or needed <= there:
        return ()
    sizes = [f"{each / 1e9:.0f}" if each >= 1e11 else f"{each / 1e9:#.3g}" for each in (needed, there)]
    return (f"it needs {sizes[0]} GB of {what}, and {sizes[1]} GB are free",)


def parts_of_memory(computed: Mapping[str, int], held: int) -> dict[str, int]:
    """The computed parts of a step, and the rest of what a process was measured to hold: Python, torch, and the data.

    Where the computed parts are more than was held, as in models of a few numbers, only the whole is known.
    """
    rest = held - sum(computed.values())
    if rest < 0:
        return {"the whole process": held}
    return {**computed, "Python, libraries and data": rest}


def computed_price(scenario: Any) -> Price | None:
    """What follows from a scenario's shape alone, without time and disk; None if nothing does.

    Its memory is that of a step's tensors in float32, without Python, torch and the data.
    """
    from txlab.errors import LabError
    from txlab.experiments.kind import kind_named
    from txlab.experiments.learning.kind import GradientKind

    kind = kind_named(scenario.kind)
    if not isinstance(kind, GradientKind) or not hasattr(scenario, "model"):
        return None
    try:
        shape: Any = kind.shape_of(scenario)
        from txlab.engine.transformer.costs import AnyShape, costs, step_memory

        cost = costs(shape)
    except (LabError, TypeError):  # known once the data have been read, or of no model that is counted
        return None
    if not isinstance(shape, AnyShape):
        return None
    train = scenario.train
    needed = step_memory(shape, train.batch // train.accumulate)
    copies = len(getattr(scenario, "classifiers", ())) or 1
    per_step = float(copies * train.batch * shape.context)
    return Price(
        scenario.about.title,
        parameters=copies * cost.parameters,
        unit="tokens",
        units=per_step * train.steps,
        units_per_step=per_step,
        steps=train.steps,
        flops=cost.flops_per_token * per_step * train.steps,
        memory={
            "weights": copies * needed.weights,
            "gradients": copies * needed.gradients,
            "moments of the optimizer": copies * needed.moments,
            "activations": needed.activations,
        },
        memory_how="computed, MATH T11",
    )


def price_line(scenario: Any, usual: Any = None) -> str:
    """The computed price in a line, for a form: parameters, memory of a step's tensors, FLOPs, and a time; "" if none
    follows.

    usual   the same scenario as it comes, whose time its catalogue states; the other's is in proportion to the FLOPs
    """
    price = computed_price(scenario)
    if price is None:
        return ""
    parts = [
        f"{in_thousands(price.parameters)} parameters",
        f"{in_thousands(price.total_memory)}B in a step",
        f"{price.flops:.1e} FLOPs".replace("e+", "e"),
    ]
    before = computed_price(usual) if usual is not None and usual.about.minutes else None
    if before is not None and before.flops:
        minutes = usual.about.minutes * price.flops / before.flops
        parts.append(f"about {60 * minutes:.0f} s" if minutes < 2 else f"about {minutes:.0f} min")
    return ", ".join(parts)


def in_thousands(number: float) -> str:
    """Three digits and k, M, G or T, with a space before it.

    >>> in_thousands(809_000), in_thousands(1.2e10), in_thousands(7)
    ('809 k', '12 G', '7 ')
    """
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g} {letter}"
    return f"{number:.3g} "


def price_of_preset(name: str, peak: float = 0.0, there: int = 0, free: int = 0) -> Price:
    """The price of training a published model on this machine, one sequence a step, by arithmetic. LabError for an
    unknown name.

    peak     FLOP/s, of which all would be used; 0 = no time is given
    there, free   bytes of free memory and disk; 0 = not known
    """
    from txlab.engine.transformer.costs import costs, step_memory
    from txlab.engine.transformer.presets import preset_named, training_flops

    preset = preset_named(name)
    cost, needed = costs(preset.shape), step_memory(preset.shape, 1, bfloat16=True)
    memory = {
        "weights": needed.weights,
        "gradients": needed.gradients,
        "moments of the optimizer": needed.moments,
        "weights in bfloat16": needed.copies,
        "activations": needed.activations,
    }
    work = training_flops(preset)
    kept = {"checkpoints": needed.weights + needed.moments}
    short = lack(sum(memory.values()), there, "memory") + lack(kept["checkpoints"], free, "disk")
    return Price(
        preset.name,
        preset.title,
        parameters=cost.parameters,
        unit="tokens",
        units=preset.tokens,
        units_per_step=float(preset.shape.context),
        flops=work,
        memory=memory,
        memory_how="computed for one sequence a step in bfloat16, MATH T11",
        there=there,
        seconds={"steps": work / peak} if peak and work else {},
        seconds_how="at the measured peak of this machine, all of which no training reaches" if peak else "",
        disk=kept,
        disk_free=free,
        warnings=short,
    )
