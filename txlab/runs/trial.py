"""The price of a run by a trial: it is prepared in a folder of its own, which is removed, built, and stepped for two
seconds (MATH T11).

Notable: the trial goes the way of a real run, with its checks, its measured settings, its evaluation, frame and
checkpoint, so what refuses it refuses the trial, and the memory is that of a real process. Only a model of which a
single step would take minutes is not built: a smaller one is timed, and its memory is computed.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from txlab.errors import LabError
from txlab.experiments.kind import Kind, kind_named
from txlab.experiments.price import Price, counts, disk, lack, mean_size, parts_of_memory
from txlab.experiments.protocol import Budgeted, Experiment
from txlab.runs.directory import RunDirectory
from txlab.runs.root import default_root
from txlab.runs.scenario import LoadedScenario

SECONDS = 2.0  # of steps: on a busy machine, one sees too little of them
LONGEST_AGAIN = 10.0  # seconds: an evaluation, a frame or a checkpoint that took longer is not timed a second time
LEAST_STEPS = 3  # timed, of which the first, which allocates, does not count
LARGEST_STEP = 2e12  # FLOPs on a CPU: beyond, a smaller model is timed


def price_of(loaded: LoadedScenario, seconds: float = SECONDS, before: float = 0.0) -> Price:
    """The price of a scenario by a trial in this process, whose memory counts as the run's. Never raises LabError: what
    would refuse the run is in `refused`.

    before   seconds that a process takes before it is built, which this one has taken
    """
    scenario, begun = loaded.scenario, time.perf_counter()
    price = Price(loaded.name, scenario.about.title, steps=scenario.length(), disk_free=disk_free())
    folder = Path(tempfile.mkdtemp(prefix="txlab-trial-"))
    try:
        return _try(loaded, price, folder / "run", seconds, begun, before)
    except LabError as error:
        return replace(price, refused=(str(error),))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def disk_free() -> int:
    """Bytes free where runs are written."""
    from txlab.runs.folder import first_existing

    return shutil.disk_usage(first_existing(default_root())).free


def _try(loaded: LoadedScenario, price: Price, folder: Path, seconds: float, begun: float, before: float) -> Price:
    from txlab.runs import checkpoints
    from txlab.runs.process import build, prepare
    from txlab.runs.scenario import load_scenario
    from txlab.runs.starting import read_start
    from txlab.runs.tensor_files import encode_frame

    scenario = loaded.scenario
    directory = prepare(replace(loaded, scenario=_without_compiler(scenario)), out=folder)
    run = RunDirectory(directory)
    prepared: Any = load_scenario(directory / "scenario.toml").scenario
    kind = kind_named(prepared.kind)
    small = _smaller(kind, prepared, price)
    if small is not None:
        return small
    load_what_a_run_loads()
    experiment: Any = build(run, prepared)
    decided: Any = load_scenario(directory / "scenario.toml").scenario.compute
    weights = read_start(run, prepared)
    if weights is not None:
        experiment.start_from(weights)
    facts = experiment.facts()
    device = str(getattr(experiment, "device", "cpu"))
    building = time.perf_counter() - begun
    frames: list[tuple[int, int]] = []  # (step, bytes)
    saved: list[int] = []  # bytes

    def frame() -> None:
        frames.append((experiment.step_count, len(encode_frame(experiment.frame()))))

    def checkpoint() -> None:
        saved.append(checkpoints.save(run, max(1, experiment.step_count), experiment.state_dict()))

    asides: dict[str, Callable[[], Any]] = {
        "evaluation": experiment.evaluate,
        "sample": lambda: list(experiment.samples()),
        "frame": frame,
        "checkpoint": checkpoint,
    }
    first = {part: _seconds(aside) for part, aside in asides.items()}
    once = {}
    once["step"], made, took = _steps(experiment, seconds)
    # The first of each also imports, compiles, and makes the data of all that follow: once in a run, not each time.
    once |= {part: _seconds(aside) if first[part] < LONGEST_AGAIN else first[part] for part, aside in asides.items()}
    steps = experiment.steps or price.steps
    often = counts(prepared.record, steps)
    building += sum(max(0.0, first[part] - once[part]) for part in asides if often[part])
    budget = experiment.budget() if isinstance(experiment, Budgeted) else None
    computed = dict(budget.parts) if budget is not None else {}
    on_card = device.startswith("cuda")
    held = _held(device)
    parts = {**computed, "not accounted for": max(0, held - sum(computed.values()))} if on_card else None
    memory = parts or parts_of_memory(computed, held)
    there = _free(device)
    size = disk(prepared.record, steps, saved[-1], mean_size(frames, steps))
    per_step = float(facts.get("units_per_step") or 0)
    return replace(
        price,
        device=device,
        compute=decided.model_dump(exclude={"processes", "parallel", "timeout"}) if computed else {},
        parameters=int(facts.get("parameters") or 0),
        unit=str(facts.get("unit") or ""),
        units=per_step * steps,
        units_per_step=per_step,
        steps=steps,
        flops=float(facts.get("flops_per_step") or 0) * steps,
        memory=memory,
        memory_how="measured in the trial; its parts computed, MATH T11" if computed else "measured in the trial",
        there=there,
        seconds={"beginning": before + building, **{part: often[part] * once[part] for part in often}},
        seconds_how=f"{made} steps in {took:.2g} s",
        disk=size,
        warnings=lack(sum(memory.values()) - (0 if on_card else _held_now()), there, "memory")
        + lack(sum(size.values()), price.disk_free, "disk"),
    )


def load_what_a_run_loads() -> None:
    """Import the modules of the loop, so that their memory is counted: 15 MB, a fifth of a small run without torch."""
    import txlab.runs.loop
    import txlab.runs.recorder
    import txlab.runs.writing  # noqa: F401


def _without_compiler(scenario: Any) -> Any:
    """A trial does not wait a minute for torch's compiler, if it is left to a measurement."""
    if scenario.compute.compile != "auto":
        return scenario
    return scenario.model_copy(update={"compute": scenario.compute.model_copy(update={"compile": False})})


def _smaller(kind: Kind, scenario: Any, price: Price) -> Price | None:
    """The price by a smaller model, if a step of this one would take too long here; None if it would not."""
    from txlab.experiments.learning.kind import GradientKind

    if not isinstance(kind, GradientKind) or not hasattr(scenario, "model"):
        return None
    try:
        shape: Any = kind.shape_of(scenario)
        from txlab.engine.transformer.costs import AnyShape, costs, step_memory

        cost = costs(shape)
    except (LabError, TypeError):  # known only once the data have been read
        return None
    if not isinstance(shape, AnyShape):
        return None
    from txlab.engine.device import choose_device

    train, compute = scenario.train, scenario.compute
    per_step = float(train.batch * shape.context)
    work = cost.flops_per_token * per_step
    device = choose_device(compute.device)
    if device.type != "cpu" or work < LARGEST_STEP:
        return None
    from txlab.experiments.learning.autotune import setting_of

    bare = _held_now()
    free = _free("cpu")
    resolved = kind.resolve(scenario)
    trial = kind.mathematics().trial_of(resolved)
    setting = setting_of(resolved.compute)
    trial.time(setting)
    taken = min(trial.time(setting) for _ in range(2))
    needed = step_memory(
        shape,
        train.batch // train.accumulate,
        bfloat16=resolved.compute.dtype == "bfloat16",
        pattern=resolved.compute.attention == "matmul",
    )
    parts = {
        "weights": needed.weights,
        "gradients": needed.gradients,
        "moments of the optimizer": needed.moments,
        **({"weights in bfloat16": needed.copies} if needed.copies else {}),
        "activations": needed.activations,
        "Python and libraries": bare,
    }
    saved = needed.weights + needed.moments
    size = disk(scenario.record, train.steps, saved, 0.0)
    total = sum(parts.values())
    return replace(
        price,
        device="cpu",
        parameters=cost.parameters,
        unit="tokens",
        units=per_step * train.steps,
        units_per_step=per_step,
        steps=train.steps,
        flops=work * train.steps,
        memory=parts,
        memory_how="computed, MATH T11",
        there=free,
        seconds={"step": trial.steps * taken},
        seconds_how=f"of a smaller model{trial.scale}" if trial.scale else "of a trial step",
        disk=size,
        warnings=lack(total - bare, free, "memory") + lack(sum(size.values()), price.disk_free, "disk"),
    )


def _steps(experiment: Experiment, seconds: float) -> tuple[float, int, float]:
    """(Seconds of a step, how many were timed, and in how many seconds); the last step of a run is not made."""
    times: list[float] = []
    while experiment.step_count < max(1, experiment.steps - 1):
        began = time.perf_counter()
        values = experiment.step()
        for value in list(values.values())[:1]:
            float(value)  # waits for a device
        times.append(time.perf_counter() - began)
        if len(times) > LEAST_STEPS and sum(times) > seconds:
            break
    counted = times[1:] or times
    return sum(counted) / len(counted) if counted else 0.0, len(counted), sum(counted)


def _seconds(what: Callable[[], Any]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def _held(device: str) -> int:
    """Bytes: the most that this process has held, or its tensors on a card."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    if sys.platform == "linux":  # getrusage begins with what the parent had
        return int(Path("/proc/self/status").read_text("utf-8").partition("VmHWM:")[2].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _held_now() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


def _free(device: str) -> int:
    """Bytes of free memory: of the machine, or of the card."""
    import psutil

    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
