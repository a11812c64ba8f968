"""How the loop of a run goes in each of several processes: the same loop, so that all do the same at the same step.

Rank 0 writes the run, reads the inbox, evaluates, samples and makes frames; the others compute their part of every
step and are silent. What a run begins with is read by rank 0 and sent, so that only it needs the run directory.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from txlab.engine.rlhf.preferences import Line, encoded, line_of
from txlab.errors import LabError, RunFailed
from txlab.experiments.kind import kind_named
from txlab.experiments.learning.share import ALONE, take_share
from txlab.experiments.protocol import Adjustable, Frame, Gathering, Measuring, Metrics, Sample, State
from txlab.experiments.schema import Scenario
from txlab.runs import checkpoints
from txlab.runs.control import Inbox, Request
from txlab.runs.directory import RunDirectory
from txlab.runs.loop import RunOutcome, drive, write_traceback
from txlab.runs.preferences import People
from txlab.runs.ranks import Place
from txlab.runs.ranks.group import Ranks
from txlab.runs.ranks.launch import tell
from txlab.runs.ranks.sharing import Replicated, Sharded, gathered, is_divided
from txlab.runs.recorder import Recorder
from txlab.runs.writing import Signals

AS_IT_IS = ("verify", "adjustable", "adjust", "load_state_dict", "start_from", "asked", "given", "waiting")


class Divided:
    """An Experiment (see protocol) of which each process computes its part. Of one that asks people, what they wrote is
    read by rank 0 and offered to all."""

    verify: Callable[[], None]
    adjustable: Callable[[], Mapping[str, Adjustable]]
    adjust: Callable[[str, float], None]
    load_state_dict: Callable[[State], None]

    def __init__(self, experiment: Any, ranks: Ranks) -> None:
        self.experiment, self.ranks = experiment, ranks

    def __getattr__(self, name: str) -> Any:
        if name not in AS_IT_IS:
            raise AttributeError(name)
        return getattr(self.experiment, name)

    @property
    def step_count(self) -> int:
        return int(self.experiment.step_count)

    @property
    def steps(self) -> int:
        return int(self.experiment.steps)

    def step(self) -> Metrics:
        with self.ranks.explaining():
            return self.experiment.step()  # type: ignore[no-any-return]

    def measured(self) -> Mapping[str, float]:
        return self.experiment.measured() if isinstance(self.experiment, Measuring) else {}

    def _together(self) -> AbstractContextManager[None]:
        return self.experiment.put_together() if isinstance(self.experiment, Gathering) else nullcontext()

    def _by_rank_0(self, what: Callable[[], Any], otherwise: Any) -> Any:
        with self.ranks.explaining(), self._together():
            return what() if self.ranks.leads else otherwise

    def evaluate(self) -> Metrics:
        return self._by_rank_0(self.experiment.evaluate, {})  # type: ignore[no-any-return]

    def frame(self) -> Frame:
        return self._by_rank_0(self.experiment.frame, Frame(self.step_count))  # type: ignore[no-any-return]

    def samples(self) -> Sequence[Sample]:
        return self._by_rank_0(self.experiment.samples, ())  # type: ignore[no-any-return]

    def facts(self) -> Mapping[str, Any]:
        """Those of the experiment; the peak is that of all processes together."""
        if not self.ranks.leads:
            return {}
        facts = dict(self.experiment.facts())
        if facts.get("peak_flops"):
            facts["peak_flops"] *= self.ranks.count
        return facts

    def state_dict(self) -> State:
        """The whole state, on rank 0; the same for every number of processes."""
        with self.ranks.explaining():
            state: State = collected(self.experiment.state_dict(), self.ranks.leads)
            return state

    def offer(self, lines: Sequence[Line] = ()) -> bool:
        """Offer rank 0's lines to the experiment of every process; whether there were any."""
        with self.ranks.explaining():
            rows = self.ranks.told([encoded(line) for line in lines])
        self.experiment.offer([line_of(row) for row in rows])
        return bool(rows)


class Listening(People):
    """The side of a process that does not see the files: it hears what rank 0 has read."""

    def __init__(self, experiment: Divided, run: RunDirectory) -> None:
        self.listener = experiment
        self.listener.offer()

    def exchange(self) -> str:
        waiting: str = self.listener.waiting
        return self.listener.waiting if self.listener.offer() else waiting


def collected(state: Any, leads: bool) -> Any:
    """A state with its divided tensors put together, on rank 0; the others take part and keep nothing."""
    parts: list[Any] = []
    _replaced(state, parts.append)
    if not parts:
        return state if leads else {}
    # A tied weight is put together once, and is one tensor again. Rank 0 knows which are the same: it has a part of
    # each, where others may have none.
    met: dict[tuple[Any, ...], int] = {}
    same = [met.setdefault((part.to_local().data_ptr(), part.shape, part.dtype), i) for i, part in enumerate(parts)]
    firsts = torch.tensor(same)
    dist.broadcast(firsts, 0)
    whole: dict[int, torch.Tensor] = {}
    for i, part in enumerate(parts):
        if firsts[i] == i:
            found = gathered(part)
            whole[i] = found.cpu() if leads else found.new_empty(0)
    order = iter(firsts.tolist())
    return _replaced(state, lambda part: whole[next(order)]) if leads else {}


def _replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """The state with something in place of each divided tensor, in an order that is the same in every process."""
    if isinstance(value, Mapping):
        return {key: _replaced(each, replace) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(each, replace) for each in value)
    return replace(value) if is_divided(value) else value


class Told(Inbox):
    """The requests of the last meeting; on rank 0 also, after the end, those that came too late."""

    polled = False

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks

    def take(self) -> list[Request]:
        return self.ranks.taken()

    def late(self) -> list[Request]:
        return [*self.ranks.taken(), *(self.ranks.inbox.take() if self.ranks.inbox else ())]


class Silent:
    """The recorder of a process that writes nothing."""

    lost = ""
    due = False

    def __init__(self, run: RunDirectory, step: int) -> None:
        self.run, self.step = run, step
        self.info, self.frames = SimpleNamespace(steps=0), SimpleNamespace(write=self._nothing)

    def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    row = metrics = flush = note = control = checkpoint = status = waiting = _nothing


# The beginning, in each process


def take_part(scenario: Any, here: Place) -> Any:
    """Compute a part of what is built from now on; returns the scenario with this process's own device."""
    compute = scenario.compute
    if compute.device.startswith("cuda"):
        if here.local >= torch.cuda.device_count():
            raise LabError(
                f"process {here.rank} has no GPU: {here.beside} processes here and {torch.cuda.device_count()} GPUs; "
                "allowed: at most one process for each, or compute.device = cpu"
            )
        compute = compute.model_copy(update={"device": f"cuda:{here.local}"})
    share = Sharded(torch.device(compute.device)) if compute.parallel == "fsdp" else Replicated()
    share.beside = here.beside
    take_share(share)
    return scenario.model_copy(update={"compute": compute})


class Lead:
    """Rank 0's side of a run that several processes compute; it is the one that writes the run."""

    def __init__(self, here: Place, recorder: Recorder, signals: Signals) -> None:
        self.here, self.recorder, self.signals = here, recorder, signals
        self.ranks: Ranks
        self.experiment: Divided | None = None

    def join(self, scenario: Scenario) -> None:
        """Wait for the others."""
        self.ranks = Ranks(self.here, scenario.compute.timeout)
        share = Replicated()
        share.beside = self.here.beside  # for those who divide the processors of this machine
        take_share(share)
        self.ranks.missed, self.ranks.alarmed = self._missed, lambda: self.signals.received
        self.ranks.due = lambda: self.recorder.due

    def said(self, scenario: Scenario) -> str:
        """What the log says of them."""
        said = f"{self.here.count} processes compute it together ({scenario.compute.parallel})"
        again = f"; restart {self.here.restarts} after one of them had failed" if self.here.restarts else ""
        return said + again

    def take_part(self, resolved: Scenario) -> Scenario:
        """Tell the others the scenario, of which nothing is open any more; returns it with this process's device."""
        run = str(self.recorder.run.path)
        self.ranks.told({"run": run, "kind": resolved.kind, "scenario": resolved.model_dump_json()})
        return take_part(resolved, self.here)  # type: ignore[no-any-return]

    def shared(self, experiment: Any, state: Any, weights: Any, pending: Sequence[Mapping[str, Any]]) -> Divided:
        """Tell the others what the run begins with."""
        with self.ranks.explaining():
            self.ranks.told({"state": state, "weights": weights, "pending": list(pending)})
        self.experiment = Divided(experiment, self.ranks)
        return self.experiment

    def inbox(self, run: RunDirectory) -> Inbox:
        self.ranks.inbox = Inbox(run)
        return Told(self.ranks)

    def interrupted(self) -> str | None:
        return self.ranks.meet(self.signals.received)

    def due(self) -> bool:
        return self.ranks.flushes

    def end(self, outcome: RunOutcome) -> None:
        """Before the end is written: from now on nobody is missed."""
        if not hasattr(self, "ranks"):
            return
        self.ranks.stop_watching()
        if outcome.status != "failed" and self.experiment is not None:
            free(self.experiment)
            self.ranks.leave()

    def _missed(self, reason: str) -> None:
        """End the run from the thread: the main thread waits for a process that is gone, perhaps for ever."""
        back = checkpoints.last_good(self.recorder.run)
        error = RunFailed(f"step {self.recorder.step}: {reason}; {back}")
        self.recorder.finish("failed", str(error))
        tell(error)
        os._exit(1)


def free(experiment: Divided) -> None:
    """Forget models and optimizers before the group is left."""
    experiment.experiment = None
    take_share(ALONE)
    gc.collect()


def follow(here: Place) -> int:
    """What every process but rank 0 does from its start to its end; returns its exit status."""
    with Signals() as signals:
        ranks = Ranks(here)
        try:
            told = ranks.told()
            scenario = kind_named(told["kind"]).schema.model_validate_json(told["scenario"])
            run = RunDirectory(told["run"])
            experiment = Divided(kind_named(told["kind"]).build(take_part(scenario, here)), ranks)
            start = ranks.told()
            if start["state"] is not None:
                experiment.load_state_dict(start["state"])
            elif start["weights"] is not None:
                experiment.start_from(start["weights"])
            outcome = drive(
                experiment,
                Silent(run, experiment.step_count),  # type: ignore[arg-type]
                Told(ranks),
                scenario.record,
                interrupted=lambda: ranks.meet(signals.received),
                pending=start["pending"],
                due=lambda: ranks.flushes,
                people=Listening,
            )
        except Exception as error:
            ranks.fails(f"{type(error).__name__}: {error}")
            if not isinstance(error, LabError):
                write_traceback(RunDirectory(run.path), error) if "run" in locals() else None
            os._exit(1)
        if outcome.status == "failed":
            ranks.fails(outcome.reason.rpartition("; ")[0] or outcome.reason)
            os._exit(1)  # the group is broken, and taking it down would wait for those that are gone
        free(experiment)
        del experiment
        ranks.leave()
    return 0
