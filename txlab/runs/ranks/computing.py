"""The loop of a run in each of several processes: the same loop, so that all do the same at the same step.

Rank 0 writes the run, reads the inbox, evaluates, samples and makes frames; the others compute their part of every step
and write nothing. Rank 0 reads the initial state and sends it, so that only it needs the run directory.
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

from txlab.engine.rlhf.preferences import Line, encode_line, line_of
from txlab.errors import LabError, RunFailed
from txlab.experiments.kind import kind_named
from txlab.experiments.learning.parallel_strategy import SINGLE_PROCESS, set_strategy
from txlab.experiments.protocol import Adjustable, Frame, Gathering, Measuring, Metrics, Sample, State
from txlab.experiments.schema import Scenario
from txlab.runs import checkpoints
from txlab.runs.control import Inbox, Request
from txlab.runs.directory import RunDirectory
from txlab.runs.loop import RunOutcome, run_loop, write_traceback
from txlab.runs.preferences import People
from txlab.runs.ranks import RankInfo
from txlab.runs.ranks.group import ProcessGroup
from txlab.runs.ranks.launch import report_error
from txlab.runs.ranks.strategies import ReplicatedStrategy, ShardedStrategy, gather, is_sharded
from txlab.runs.recorder import Recorder
from txlab.runs.writing import Signals

FORWARDED = ("verify", "adjustable", "adjust", "load_state_dict", "start_from", "asked", "given", "waiting")


class DistributedExperiment:
    """An Experiment (see protocol) of which each process computes its part. Answers of people are read by rank 0 and
    offered to all."""

    verify: Callable[[], None]
    adjustable: Callable[[], Mapping[str, Adjustable]]
    adjust: Callable[[str, float], None]
    load_state_dict: Callable[[State], None]

    def __init__(self, experiment: Any, ranks: ProcessGroup) -> None:
        self.experiment, self.ranks = experiment, ranks

    def __getattr__(self, name: str) -> Any:
        if name not in FORWARDED:
            raise AttributeError(name)
        return getattr(self.experiment, name)

    @property
    def step_count(self) -> int:
        return int(self.experiment.step_count)

    @property
    def steps(self) -> int:
        return int(self.experiment.steps)

    def step(self) -> Metrics:
        with self.ranks.explain_failures():
            return self.experiment.step()  # type: ignore[no-any-return]

    def take_speeds(self) -> Mapping[str, float]:
        return self.experiment.take_speeds() if isinstance(self.experiment, Measuring) else {}

    def _unshard(self) -> AbstractContextManager[None]:
        return self.experiment.put_together() if isinstance(self.experiment, Gathering) else nullcontext()

    def _on_rank_0(self, what: Callable[[], Any], otherwise: Any) -> Any:
        with self.ranks.explain_failures(), self._unshard():
            return what() if self.ranks.leads else otherwise

    def evaluate(self) -> Metrics:
        return self._on_rank_0(self.experiment.evaluate, {})  # type: ignore[no-any-return]

    def frame(self) -> Frame:
        return self._on_rank_0(self.experiment.frame, Frame(self.step_count))  # type: ignore[no-any-return]

    def samples(self) -> Sequence[Sample]:
        return self._on_rank_0(self.experiment.samples, ())  # type: ignore[no-any-return]

    def facts(self) -> Mapping[str, Any]:
        """The experiment's facts; the peak is that of all processes together."""
        if not self.ranks.leads:
            return {}
        facts = dict(self.experiment.facts())
        if facts.get("peak_flops"):
            facts["peak_flops"] *= self.ranks.count
        return facts

    def state_dict(self) -> State:
        """The whole state, on rank 0; the same for every number of processes."""
        with self.ranks.explain_failures():
            state: State = gather_state(self.experiment.state_dict(), self.ranks.leads)
            return state

    def offer(self, lines: Sequence[Line] = ()) -> bool:
        """Offer rank 0's lines to the experiment of every process; whether there were any."""
        with self.ranks.explain_failures():
            rows = self.ranks.broadcast([encode_line(line) for line in lines])
        self.experiment.offer([line_of(row) for row in rows])
        return bool(rows)


class ReplicaPeople(People):
    """The part of a process without access to the files: it receives the lines that rank 0 has read."""

    def __init__(self, experiment: DistributedExperiment, run: RunDirectory) -> None:
        self.listener = experiment
        self.listener.offer()

    def exchange(self) -> str:
        waiting: str = self.listener.waiting
        return self.listener.waiting if self.listener.offer() else waiting


def gather_state(state: Any, leads: bool) -> Any:
    """A state with its divided tensors gathered, on rank 0; the others take part and keep nothing."""
    parts: list[Any] = []
    _map_sharded(state, parts.append)
    if not parts:
        return state if leads else {}
    # A tied weight is gathered once, and is one tensor again. Rank 0 knows which are the same: it has a part of each,
    # while others may have none.
    met: dict[tuple[Any, ...], int] = {}
    same = [met.setdefault((part.to_local().data_ptr(), part.shape, part.dtype), i) for i, part in enumerate(parts)]
    firsts = torch.tensor(same)
    dist.broadcast(firsts, 0)
    whole: dict[int, torch.Tensor] = {}
    for i, part in enumerate(parts):
        if firsts[i] == i:
            gathered = gather(part)
            whole[i] = gathered.cpu() if leads else gathered.new_empty(0)
    order = iter(firsts.tolist())
    return _map_sharded(state, lambda part: whole[next(order)]) if leads else {}


def _map_sharded(value: Any, replace: Callable[[Any], Any]) -> Any:
    """The state with each divided tensor replaced, in an order that is the same in every process."""
    if isinstance(value, Mapping):
        return {key: _map_sharded(each, replace) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_map_sharded(each, replace) for each in value)
    return replace(value) if is_sharded(value) else value


class ReplicaInbox(Inbox):
    """The requests of the last meeting; on rank 0 also, after the end, the late ones."""

    polled = False

    def __init__(self, ranks: ProcessGroup) -> None:
        self.ranks = ranks

    def take(self) -> list[Request]:
        return self.ranks.take_requests()

    def late(self) -> list[Request]:
        return [*self.ranks.take_requests(), *(self.ranks.inbox.take() if self.ranks.inbox else ())]


class NullRecorder:
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


def join_strategy(scenario: Any, here: RankInfo) -> Any:
    """Compute only a part of experiments built from now on; returns the scenario with this process's device."""
    compute = scenario.compute
    if compute.device.startswith("cuda"):
        if here.local_rank >= torch.cuda.device_count():
            raise LabError(
                f"process {here.rank} has no GPU: {here.local_world_size} processes here and "
                f"{torch.cuda.device_count()} GPUs; allowed: at most one process for each, or compute.device = cpu"
            )
        compute = compute.model_copy(update={"device": f"cuda:{here.local_rank}"})
    share = ShardedStrategy(torch.device(compute.device)) if compute.parallel == "fsdp" else ReplicatedStrategy()
    share.local_world_size = here.local_world_size
    set_strategy(share)
    return scenario.model_copy(update={"compute": compute})


class RankZero:
    """Rank 0's side of a run that several processes compute; it is the one that writes the run."""

    def __init__(self, here: RankInfo, recorder: Recorder, signals: Signals) -> None:
        self.here, self.recorder, self.signals = here, recorder, signals
        self.ranks: ProcessGroup
        self.experiment: DistributedExperiment | None = None

    def join(self, scenario: Scenario) -> None:
        """Wait for the others."""
        self.ranks = ProcessGroup(self.here, scenario.compute.timeout)
        share = ReplicatedStrategy()
        share.local_world_size = self.here.local_world_size  # to divide the processors of this machine
        set_strategy(share)
        self.ranks.on_missing, self.ranks.received_signal = self._end_run, lambda: self.signals.received
        self.ranks.due = lambda: self.recorder.due

    def describe(self, scenario: Scenario) -> str:
        """The note about them in the log."""
        note = f"{self.here.count} processes compute it together ({scenario.compute.parallel})"
        again = f"; restart {self.here.restarts} after one of them had failed" if self.here.restarts else ""
        return note + again

    def broadcast_scenario(self, resolved: Scenario) -> Scenario:
        """Send the fully resolved scenario to the others; returns it with this process's device."""
        run = str(self.recorder.run.path)
        self.ranks.broadcast({"run": run, "kind": resolved.kind, "scenario": resolved.model_dump_json()})
        return join_strategy(resolved, self.here)  # type: ignore[no-any-return]

    def broadcast_start(
        self, experiment: Any, state: Any, weights: Any, pending: Sequence[Mapping[str, Any]]
    ) -> DistributedExperiment:
        """Send the initial state to the others."""
        with self.ranks.explain_failures():
            self.ranks.broadcast({"state": state, "weights": weights, "pending": list(pending)})
        self.experiment = DistributedExperiment(experiment, self.ranks)
        return self.experiment

    def inbox(self, run: RunDirectory) -> Inbox:
        self.ranks.inbox = Inbox(run)
        return ReplicaInbox(self.ranks)

    def signal_received(self) -> str | None:
        return self.ranks.synchronize(self.signals.received)

    def due(self) -> bool:
        return self.ranks.flushes

    def end(self, outcome: RunOutcome) -> None:
        """Called before the end is written: from now on missing processes are ignored."""
        if not hasattr(self, "ranks"):
            return
        self.ranks.stop_watching()
        if outcome.status != "failed" and self.experiment is not None:
            release(self.experiment)
            self.ranks.leave()

    def _end_run(self, reason: str) -> None:
        """End the run from the thread: the main thread waits, perhaps for ever, for a process that is gone."""
        back = checkpoints.last_good(self.recorder.run)
        error = RunFailed(f"step {self.recorder.step}: {reason}; {back}")
        self.recorder.finish("failed", str(error))
        report_error(error)
        os._exit(1)


def release(experiment: DistributedExperiment) -> None:
    """Release models and optimizers before leaving the group."""
    experiment.experiment = None
    set_strategy(SINGLE_PROCESS)
    gc.collect()


def run_replica(here: RankInfo) -> int:
    """The main function of every process but rank 0; returns its exit status."""
    with Signals() as signals:
        ranks = ProcessGroup(here)
        try:
            task = ranks.broadcast()
            scenario = kind_named(task["kind"]).schema.model_validate_json(task["scenario"])
            run = RunDirectory(task["run"])
            experiment = DistributedExperiment(kind_named(task["kind"]).build(join_strategy(scenario, here)), ranks)
            start = ranks.broadcast()
            if start["state"] is not None:
                experiment.load_state_dict(start["state"])
            elif start["weights"] is not None:
                experiment.start_from(start["weights"])
            outcome = run_loop(
                experiment,
                NullRecorder(run, experiment.step_count),  # type: ignore[arg-type]
                ReplicaInbox(ranks),
                scenario.record,
                interrupted=lambda: ranks.synchronize(signals.received),
                pending=start["pending"],
                due=lambda: ranks.flushes,
                people=ReplicaPeople,
            )
        except Exception as error:
            ranks.report_failure(f"{type(error).__name__}: {error}")
            if not isinstance(error, LabError):
                write_traceback(RunDirectory(run.path), error) if "run" in locals() else None
            os._exit(1)
        if outcome.status == "failed":
            ranks.report_failure(outcome.reason.rpartition("; ")[0] or outcome.reason)
            os._exit(1)  # the group is broken, and destroying it would wait for dead processes
        release(experiment)
        del experiment
        ranks.leave()
    return 0
