"""The process that the user started, when several compute the run: it starts them, shows the run, and waits.

Notable: they are started by torch's elastic launcher in a separate process (`main`) and session, so that ctrl-c reaches
this process alone. It passes a signal on to rank 0, once: the ranks agree at which step they save and end, however long
that takes. The rows that it shows come from events.jsonl, and it returns run.json; if rank 0 died before it could write
the end, this process writes it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson

from txlab.errors import LabError, RunFailed, one_line
from txlab.runs import checkpoints
from txlab.runs.control import Inbox
from txlab.runs.directory import ALIVE, RunDirectory, RunInfo, info_of
from txlab.runs.events import each_row, json_object
from txlab.runs.ranks import RankInfo
from txlab.runs.recorder import Listener, Recorder
from txlab.runs.root import default_root
from txlab.runs.scenario import LoadedScenario, dump_scenario, load_scenario
from txlab.runs.writing import Signals, python_module, start_module, writing

# A file in which rank 0 tells the process that started it the error it ends with. In the environment, as torchrun tells
# its processes who they are: their words are those of the command.
ENDING = "TXLAB_ENDING"
LOOK_EVERY = 0.1


def launch(
    run: RunDirectory, count: int, observer: Listener | None, rewind_to: int | None, keep_requests: bool
) -> RunInfo:
    """Compute a run in `count` processes on this machine; returns its final run.json. Raises the errors of
    `execute`."""
    with Signals() as signals, tempfile.TemporaryDirectory(prefix="txlab-") as folder:
        with writing(run):
            info = info_of(run)
            if info.recorded:
                raise LabError(f"{run.path} was recorded by another program and can only be looked at")
            if info.status != "created" and not keep_requests:
                Inbox(run).clear()
        shown = run.events.stat().st_size if run.events.exists() else 0
        before, ending = (info.pid, info.started), Path(folder) / "ending.json"
        rewind = [] if rewind_to is None else ["--rewind-to", str(rewind_to)]
        words = (str(count), str(run.path), *rewind)
        agent = start_module(run, "txlab.runs.ranks.launch", *words, **{ENDING: str(ending)})
        passed_on = False
        while True:
            ended = agent.poll() is not None
            with contextlib.suppress(OSError):
                for row, behind in each_row(run.events, shown):
                    shown = behind
                    if observer is not None:
                        observer(row)
            if ended:
                break
            if signals.received and not passed_on:
                passed_on = _pass_on(run, before, signals.received)
            time.sleep(LOOK_EVERY)
        report = _read(ending)
        info = info_of(run)
        if info.status in ALIVE or (not report and (info.pid, info.started) == before):
            _finish(run, info, _read(Path(f"{ending}.agent")))
        if report.get("exit") == LabError.exit_status:
            raise LabError(report["error"])
        if report and info.status != "failed":
            raise RunFailed(report["error"])
    return info


def _pass_on(run: RunDirectory, before: tuple[int | None, float | None], name: str) -> bool:
    """Send the signal to rank 0 once its pid in run.json shows that it listens; returns whether it was sent."""
    with contextlib.suppress(LabError, OSError):
        info = RunInfo.load(run)
        if info.pid is not None and (info.pid, info.started) != before and info.status in ALIVE:
            os.kill(info.pid, getattr(signal, name))
            return True
    return False


def _finish(run: RunDirectory, info: RunInfo, failed: dict[str, Any]) -> None:
    """Write the end of a run whose rank 0 has died."""
    reason = failed.get("0") or next(iter(failed.values()), "its processes ended without a word")
    with writing(run):
        recorder = Recorder(run, info)
        recorder.finish("failed", f"{reason}; {checkpoints.last_good(run)} ({run.log} may say more)")


def report_error(error: LabError) -> None:
    """Rank 0: report the final error to the process that started it."""
    if ENDING in os.environ:
        data = orjson.dumps({"exit": error.exit_status, "error": one_line(error)})
        with contextlib.suppress(OSError):
            Path(os.environ[ENDING]).write_bytes(data)


def _read(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError):
        return json_object(path.read_bytes())
    return {}


# Launches by torchrun, and runs resumed with another number of processes


def with_process_count(loaded: LoadedScenario, here: RankInfo) -> LoadedScenario:
    """The scenario with as many processes as torchrun has started. LabError if it asks for another number."""
    compute = loaded.scenario.compute
    if compute.processes not in (1, here.count):
        raise LabError(
            f"compute.processes = {compute.processes}, and torchrun has started {here.count}; leave that setting out"
        )
    there = compute.model_copy(update={"processes": here.count})
    return replace(loaded, scenario=loaded.scenario.model_copy(update={"compute": there}))


def find_run_of_launch(here: RankInfo, out: Path | None) -> Path | None:
    """The newest run that this launch has begun, for its processes that are started again; None if there is none.

    On a different host only `out` can be recognised, which no other launch begins at the same time.
    """
    if out is not None:
        return out if (out / "run.json").is_file() else None
    with contextlib.suppress(OSError):
        for path in sorted(default_root().iterdir(), reverse=True):
            with contextlib.suppress(LabError):
                if RunInfo.load(path).launch == here.launch:
                    return path
    return None


def set_processes(run: Path, count: int) -> None:
    """Set the number of processes with which an idle run is resumed. LabError if they cannot compute it together."""
    from txlab.experiments.kind import kind_named

    directory = RunDirectory(run).hold_open()
    with writing(directory):
        scenario = load_scenario(directory.scenario_file).scenario
        if count > 1:
            kind_named(scenario.kind).require_divisible(scenario, count)
        compute = scenario.compute.model_copy(update={"processes": count})
        changed = dump_scenario(scenario.model_copy(update={"compute": compute}))
        directory.write("scenario.toml", changed.encode(), durable=True)


def main(arguments: Sequence[str]) -> int:
    """torch's elastic launcher, as a separate process: COUNT RUN [--rewind-to STEP].

    It writes into a file which processes failed, and how: a killed process cannot report that itself.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    count, *rest = arguments
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does; each process then sets its own number
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=int(count),
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.1,
    )
    try:
        program, *words = python_module("txlab.runs.process", *rest)
        elastic_launch(config, program)(*words)
    except ChildFailedError as error:
        failed = {}
        for rank, failure in error.failures.items():
            how = f"was ended by {failure.signal_name()}" if failure.exitcode < 0 else f"ended with {failure.exitcode}"
            failed[str(rank)] = f"process {rank} of {count} {how}"
        Path(f"{os.environ[ENDING]}.agent").write_bytes(orjson.dumps(failed))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
