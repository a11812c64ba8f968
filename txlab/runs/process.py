"""From a scenario to a finished run: prepare the directory, execute it here, or start it as a separate process.

`execute` and the detached command share their code, so a run started from a screen equals one started from a
shell. Nothing here depends on the experiment; torch is imported when it is built, after the thread settings.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txlab.errors import LabError, RunFailed, convert_os_errors, one_line
from txlab.experiments.protocol import Deciding
from txlab.runs import checkpoints
from txlab.runs.control import Inbox
from txlab.runs.directory import ALIVE, RunDirectory, RunInfo, info_of, new_info
from txlab.runs.events import Row, each_row
from txlab.runs.folder import new_run
from txlab.runs.loop import RunOutcome, run_loop, write_traceback
from txlab.runs.origin import command_line, commit_of
from txlab.runs.ranks import distributed_rank_info, exit_now, rank_info
from txlab.runs.recorder import Listener, Recorder, begin_recording, is_disk_full
from txlab.runs.writing import Signals, set_up_process, start_module, writing

if TYPE_CHECKING:
    from txlab.experiments.schema import Scenario
    from txlab.runs.ranks.computing import RankZero
    from txlab.runs.scenario import LoadedScenario

EXIT_STATUS = {"done": 0, "stopped": 0, "interrupted": 130}


def prepare(loaded: LoadedScenario, out: Path | None = None, root: Path | None = None) -> Path:
    """Create the run directory of a scenario, ready to be executed, and return its path. Raises LabError.

    The weights that the scenario starts from are copied into the run. A run that this machine could never compute is
    refused first.
    """
    from txlab.experiments.kind import kind_named
    from txlab.runs.scenario import dump_scenario
    from txlab.runs.starting import find_start, write_start

    scenario = loaded.scenario
    start = find_start(scenario, root)
    kind = kind_named(scenario.kind)
    kind.require_possible(start.scenario if start else scenario)
    if scenario.compute.processes > 1:
        kind.require_divisible(scenario, scenario.compute.processes)
    with new_run(root, loaded.name, out) as (run, path):
        if start is not None:
            write_start(run, start)
            scenario = start.scenario
        run.write("scenario.toml", dump_scenario(scenario).encode(), durable=True)
        info = new_info(run, loaded.name, scenario.kind, scenario.about.title, scenario.length())
        info.name, info.changes = path.name, dict(loaded.changes)
        info.command, info.git = command_line(), commit_of(Path.cwd())
        if (here := rank_info()) is not None:
            info.launch = here.launch
        info.save(run)
    return path


def execute(
    run: Path | RunDirectory,
    observer: Listener | None = None,
    rewind_to: int | None = None,
    keep_requests: bool = False,
) -> RunInfo:
    """Compute a prepared, stopped or killed run to its end in this process, or in the several that its scenario asks
    for; returns its final run.json.

    Continues from the newest sound checkpoint, or from checkpoint `rewind_to`, dropping everything later. `observer`
    gets every row. Requests left for an earlier process of the run are moved away, unless they are meant for this one
    (`keep_requests`). A run that fails returns with status "failed"; if its directory cannot record that any more (it
    was deleted), RunFailed is raised. Raises LabError if the run cannot start: no such checkpoint, another process that
    writes it, an invalid scenario.
    """
    run = RunDirectory.of(run).hold_open()
    info_of(run)  # something that is not a run is refused before anything is written
    if (count := processes_of(run)) > 1 and rank_info() is None:
        from txlab.runs.ranks.launch import launch

        return launch(run, count, observer, rewind_to, keep_requests)
    with writing(run), Signals() as signals:
        info = info_of(run)
        if info.recorded:
            raise LabError(f"{run.path} was recorded by another program and can only be looked at")
        checkpoints.tidy(run)
        if rewind_to is not None:
            checkpoints.read(run, rewind_to)  # refuse before anything is changed
        from txlab.runs.scenario import load_scenario

        scenario = load_scenario(run.scenario_file).scenario
        if info.status != "created" and not keep_requests:
            Inbox(run).clear()
        with convert_os_errors(f"{run.path} cannot be written to"):
            recorder = begin_recording(run, info, scenario.record.frames_mb, [observer] if observer else [])
        lead = None
        try:
            if (group := distributed_rank_info()) is not None:
                from txlab.runs.ranks.computing import RankZero

                lead = RankZero(group, recorder, signals)
            outcome = _compute(run, info, scenario, recorder, signals, rewind_to, lead)
            if lead is not None:
                lead.end(outcome)
        except BaseException as error:
            recorder.finish("failed", one_line(error))
            raise
        lost = recorder.lost
        recorder.finish(outcome.status, outcome.reason)
        if lost:
            raise RunFailed(lost)
    return info


def _compute(
    run: RunDirectory,
    info: RunInfo,
    scenario: Scenario,
    recorder: Recorder,
    signals: Signals,
    rewind_to: int | None,
    lead: RankZero | None,
) -> RunOutcome:
    """Build the experiment, restore its state, and drive it."""
    inbox = Inbox(run)
    try:
        with signals.at_once(inbox.asks_to_stop if lead is None else lambda: False):
            if lead is not None:
                lead.join(scenario)
            experiment = build(run, scenario, lambda text: recorder.note(max(0, info.step), text), lead, info)
        past = Past.of(run, rewind_to)
        experiment = _restore(run, scenario, experiment, past, recorder, lead)
        _record_rewind(run, info, past, recorder)
        _record_start(info, scenario, experiment, past, recorder, lead)
    except LabError:
        raise
    except KeyboardInterrupt:
        if lead is None and signals.received is None and (stop := stop_early(recorder, inbox, info.step)):
            return stop
        return RunOutcome("interrupted", f"{signals.received or 'ctrl-c'} received while it was being prepared")
    except BaseException as error:
        write_traceback(run, error)
        if is_disk_full(error):
            return RunOutcome("failed", f"no space left on the disk that holds {run.path}; the run had not begun")
        return RunOutcome("failed", f"it could not begin: {type(error).__name__}: {one_line(error)}")
    return run_loop(
        experiment,
        recorder,
        inbox if lead is None else lead.inbox(run),
        scenario.record,
        interrupted=(lambda: signals.received) if lead is None else lead.signal_received,
        pending=past.pending,
        val_loss=past.checkpoint.about.val_loss if past.checkpoint else None,
        due=None if lead is None else lead.due,
    )


@dataclass
class Past:
    """The state in which earlier processes left a run.

    checkpoint  the one to continue from; None = from the beginning
    damaged     newer ones that are not sound: step → why
    newest      the last step in the log after it; None = no row
    pending     changes of parameters that it does not include
    rewind_to   the requested step
    """

    checkpoint: checkpoints.Checkpoint | None
    damaged: dict[int, str]
    newest: int | None
    pending: list[dict[str, Any]]
    rewind_to: int | None

    @classmethod
    def of(cls, run: RunDirectory, rewind_to: int | None) -> Past:
        checkpoint, damaged = checkpoints.read_newest(run, rewind_to)
        rows, newest = rows_behind(run, checkpoint.about.log_bytes if checkpoint else 0)
        known = checkpoint.about.pending if checkpoint else ()
        pending = [] if rewind_to is not None else pending_changes(known, rows)
        return cls(checkpoint, damaged, newest, pending, rewind_to)

    @property
    def step(self) -> int:
        return self.checkpoint.about.step if self.checkpoint else -1


def _restore(
    run: RunDirectory, scenario: Scenario, experiment: Any, past: Past, recorder: Recorder, lead: RankZero | None
) -> Any:
    """Give the experiment the state of the checkpoint, or the weights that the scenario starts from."""
    from txlab.runs.starting import describe_start, read_start, start_of

    state = past.checkpoint.state if past.checkpoint else None
    weights = None if past.checkpoint else read_start(run, scenario)
    if lead is not None:
        experiment = lead.broadcast_start(experiment, state, weights, past.pending)
    if state is not None:  # this may fail (the text has changed): until then nothing is dropped
        experiment.load_state_dict(state)
    elif weights is not None:
        experiment.start_from(weights)
        recorder.note(0, f"begins with the weights of {describe_start(start_of(scenario))}")
    return experiment


def _record_rewind(run: RunDirectory, info: RunInfo, past: Past, recorder: Recorder) -> None:
    """Set damaged checkpoints aside, and log the step that a resumed run returns to."""
    step, newest = past.step, past.newest
    for bad, why in past.damaged.items():
        recorder.note(max(0, step), why)
        checkpoints.set_aside(run, bad)
    if past.checkpoint is None and newest is None:
        return
    reason = "there is no checkpoint; started from the beginning" if step < 0 else f"resumed from checkpoint {step}"
    if newest is None and info.branched:
        reason = f"branched from {info.branched.get('run')} at checkpoint {step}"
    if past.rewind_to is not None:
        checkpoints.remove(run, [later for later in checkpoints.steps(run) if later > step])
        reason = f"rewound to checkpoint {step}"
    recorder.rewind(step, step if newest is None else max(step, newest), reason, explicit=past.rewind_to is not None)


def _record_start(
    info: RunInfo, scenario: Scenario, experiment: Any, past: Past, recorder: Recorder, lead: RankZero | None
) -> None:
    """Log that this process begins, and the experiment's facts."""
    recorder.step = info.step = experiment.step_count
    recorder.row(
        "start",
        experiment.step_count,
        pid=info.pid,
        host=info.host,
        resumed_from=past.step if past.checkpoint else None,
    )
    if lead is not None:
        recorder.note(experiment.step_count, lead.describe(scenario))
    facts = experiment.facts()
    info.facts, info.steps = dict(facts), experiment.steps
    compute = facts.get("compute")
    info.device = str(compute.get("device", "")) if isinstance(compute, Mapping) else ""
    if past.newest is None:  # notes for the user, e.g. that episodes of a world without an end are cut off
        for note in facts.get("notes", ()):
            recorder.note(experiment.step_count, str(note))
    recorder.status("running")


def stop_early(recorder: Recorder, inbox: Inbox, step: int) -> RunOutcome | None:
    """End a run that was stopped while it was being prepared; every request is answered."""
    outcome = None
    for request in inbox.take():
        if outcome is None and request.request == "stop" and request.error is None:
            recorder.control(max(0, step), request)
            outcome = RunOutcome("stopped", f"{request.by or 'a user'} asked for it during preparation")
        else:
            recorder.control(max(0, step), request, request.error or "the run was stopped before this was done")
    return outcome


def build(
    run: RunDirectory,
    scenario: Scenario,
    say: Callable[[str], None] = lambda text: None,
    lead: RankZero | None = None,
    info: RunInfo | None = None,
) -> Any:
    """Build the experiment of a scenario. Settings that are `auto` are resolved first, once, and written into
    scenario.toml, which then repeats the run: `txlab run RUN/scenario.toml`. The reasons are stored in run.json,
    `info`, so that a process that continues after a kill has them too.

    `say` is called with a line if that takes a while.
    """
    from txlab.experiments.kind import kind_named
    from txlab.runs.scenario import dump_scenario
    from txlab.runs.starting import portable

    kind = kind_named(scenario.kind)
    resolved = kind.resolve(scenario, say)
    if resolved != scenario:
        if info is not None:
            info.facts = {**info.facts, "compute": {"why": list(kind.reasons(resolved))}}
            info.save(run)
        run.write("scenario.toml", dump_scenario(portable(resolved, run)).encode(), durable=True)
    experiment = kind.build(resolved if lead is None else lead.broadcast_scenario(resolved))
    compute = info.facts.get("compute") if info is not None else None
    known = compute.get("why") if isinstance(compute, dict) else None
    if isinstance(experiment, Deciding) and experiment.why == [] and isinstance(known, list):
        experiment.why.extend(why for why in known if isinstance(why, str))
    return experiment


def processes_of(run: RunDirectory) -> int:
    """The number of processes of a run: as started by torchrun, else as set in its scenario.

    LabError if they cannot compute it together; an unreadable scenario is reported later.
    """
    from txlab.experiments.kind import kind_named
    from txlab.runs.scenario import load_scenario

    try:
        scenario = load_scenario(run.scenario_file).scenario
    except LabError:
        return 1
    here = rank_info()
    count = scenario.compute.processes if here is None else here.count
    if count > 1:
        kind_named(scenario.kind).require_divisible(scenario, count)
    return count


def rows_behind(run: RunDirectory, offset: int) -> tuple[list[Row], int | None]:
    """From that offset of the log on: the controls, and the rewinds that the user requested (of several without a
    control between them, the furthest); and the last step of any row (None = there is no row)."""
    kept: list[Row] = []
    newest = None
    for row, _ in each_row(run.events, offset):
        newest = max(row["step"], row["step"] if newest is None else newest)
        if row["event"] == "rewind" and row.get("explicit"):
            if kept and kept[-1]["event"] == "rewind":
                row["step"] = min(row["step"], kept.pop()["step"])
            kept.append(row)
        elif row["event"] == "control":
            kept.append(row)
    return kept, newest


def pending_changes(known: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The changes of parameters that a checkpoint does not include, in the order of their steps.

    known  changes still to be repeated when the checkpoint was taken
    rows   the log after the checkpoint, dead branches included: a process that was killed before it could repeat an
           earlier change has not undone it. Only a rewind that the user requested drops the changes after it.
    """
    changes = [dict(change) for change in known]
    ids = {str(change.get("id")) for change in changes}
    for row in rows:
        if row["event"] == "rewind" and row.get("explicit"):
            changes = [change for change in changes if change["step"] < row["step"]]
            ids = {str(change.get("id")) for change in changes}
        elif row["event"] == "control" and row.get("request") == "set" and row.get("applied") and "to" in row:
            if row.get("id") and str(row["id"]) in ids:
                continue  # a repetition, not another change
            ids.add(str(row.get("id")))
            changes.append({name: row.get(name) for name in ("step", "key", "to", "by", "asked", "id")})
    return sorted(changes, key=lambda change: change["step"])


# A separate process


def start_detached(run: Path | RunDirectory, rewind_to: int | None = None) -> int:
    """Execute a run in a separate process that outlives terminal, session and parent; returns its pid.

    Requests left for an earlier process of this run are moved away. Raises LabError if a process already writes it.
    """
    run = RunDirectory.of(run).hold_open()
    info_of(run)  # something that is not a run is refused before anything is written
    with writing(run):
        info = info_of(run)
        if info.status != "created":
            Inbox(run).clear()
        if info.status in ALIVE:
            info.status, info.reason = "interrupted", "its process is gone"
        with contextlib.suppress(OSError):  # unchanged or rebuilt: it is read when the process has ended
            info.save(run)
    rewind = [] if rewind_to is None else ["--rewind-to", str(rewind_to)]
    process = start_module(run, "txlab.runs.process", str(run.path), *rewind)
    # Reap the child when it ends, if this process lives longer: otherwise it would remain a zombie.
    threading.Thread(target=process.wait, name="txlab child", daemon=True).start()
    return process.pid


def start_scenario(name: str, overrides: Sequence[str], root: Path, prepared: Callable[[Path], object]) -> None:
    """Start a run of a scenario in a separate process; `prepared` gets its path before that. Raises LabError."""
    from txlab.runs.scenario import load_scenario

    path = prepare(load_scenario(name, list(overrides)), root=root)
    prepared(path)
    start_detached(path)


def main(arguments: Sequence[str]) -> int:
    """The detached command: RUN [--rewind-to STEP]. Exit status as `txlab run`: 0, 1 failed, 2 wrong input, 130.

    It is also the command of each of several processes, where an interruption ends with 0, since their launcher treats
    any other status as a failure.
    """
    set_up_process()
    if (here := distributed_rank_info()) is not None and not here.leads:
        from txlab.runs.ranks.computing import run_replica

        return run_replica(here)
    rewind_to = int(arguments[2]) if len(arguments) == 3 and arguments[1] == "--rewind-to" else None
    try:
        info = execute(Path(arguments[0]), rewind_to=rewind_to, keep_requests=True)
    except LabError as error:
        print(error, file=sys.stderr)
        if rank_info() is not None:
            from txlab.runs.ranks.launch import report_error

            report_error(error)
        return error.exit_status
    status = EXIT_STATUS.get(info.status, 1)
    return 0 if rank_info() is not None and info.status == "interrupted" else status


if __name__ == "__main__":
    ended_with = main(sys.argv[1:])
    exit_now(ended_with) if distributed_rank_info() is not None else sys.exit(ended_with)
