"""`txlab run` and `txlab resume`: compute here, or start a detached process that does.

All input is validated before the run directory is created. The run itself handles ctrl-c (it finishes the step and
writes a checkpoint); its status becomes the exit status.
"""

from __future__ import annotations

import contextlib
import json as json_
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from txlab.cli import options
from txlab.cli.loading import check_data, check_device, load_like
from txlab.cli.output import print_json
from txlab.cli.terminal import ascii_only, columns, group_digits, numeral, print_lines, sanitize, status_word
from txlab.cli.tokenize import standard_text
from txlab.drawing.formatting import duration
from txlab.errors import LabError, RunFailed

if TYPE_CHECKING:
    from txlab.runs.directory import RunInfo
    from txlab.runs.scenario import LoadedScenario

EXIT_STATUS = {"done": 0, "stopped": 0, "interrupted": 130}


def run(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="a name of `txlab scenarios`, or a TOML file")
    ] = None,
    like: Annotated[
        str | None, typer.Option("--like", metavar="RUN", help="repeat this run with its resolved settings")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change a setting, e.g. train.steps=100")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="auto, cpu, cuda, cuda:1 or mps")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="the seed of all randomness")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="the run directory; else a new one under the runs")
    ] = None,
    detach: options.Detach = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="only say what it will cost: memory, time, disk; SCENARIO may be a preset"),
    ] = False,
    json: options.JsonLog = False,
) -> None:
    """Run a scenario, in the foreground or detached.

    The same scenario and seed give the same numbers, bit for bit, on the same device with the same threads and kernels.
    The quickest ones are measured when a run begins, so they may differ next time. They are written into the run:
    --like RUN, or RUN/scenario.toml as the SCENARIO, repeats it.
    """
    if scenario is None and like is None:
        raise LabError(
            "SCENARIO is missing: a name of `txlab scenarios`, or a file; else --like RUN (txlab run --help)"
        )
    if scenario is not None and like is not None:
        raise LabError(f"give a SCENARIO or --like RUN, not both {scenario!r} and {like!r}")
    if dry_run:
        from txlab.cli.price import print_price_of

        print_price_of(scenario, like, overrides or [], seed, device, json)
        return
    from txlab.runs.folder import first_existing
    from txlab.runs.process import prepare
    from txlab.runs.ranks import rank_info
    from txlab.runs.ranks.launch import find_run_of_launch, with_process_count
    from txlab.runs.root import default_root
    from txlab.runs.scenario import load_scenario

    here = rank_info()
    if here is not None:
        follow_rank_0()
        if detach:
            raise LabError("torchrun waits for the processes that it started; leave --detach out")
        if here.restarts and (again := find_run_of_launch(here, out)) is not None:
            start(again, detach, json)
            return
    if like is not None:
        loaded = load_like(like, overrides or [], seed, device)
    else:
        loaded = load_scenario(scenario or "", overrides or [], seed=seed, device=device)
    if here is not None:
        loaded = with_process_count(loaded, here)
    check_device(loaded)
    check_data(loaded, detach)
    text = standard_input(loaded)
    warn_if_too_slow(loaded)
    before = first_existing(out or default_root())
    directory = prepare(loaded, out=out)
    try:
        if text is not None:
            keep_standard_input(directory, text)
            check_data(load_scenario(directory / "scenario.toml"), detach)
        start(directory, detach, json)
    except RunFailed:
        raise
    except LabError as error:  # found only while building the experiment: standard input that is too short
        take_back(directory, before)
        raise LabError(str(error).replace(repr(str(input_path(directory))), "-")) from None


def resume(
    name: options.Run,
    step: Annotated[
        int | None,
        typer.Option("--from", metavar="STEP", help="go back to the last checkpoint at or before STEP", min=0),
    ] = None,
    in_new_run: Annotated[
        bool, typer.Option("--branch", help="into a new run that begins with this run's log; this run stays unchanged")
    ] = False,
    processes: Annotated[
        int | None, typer.Option("--processes", metavar="N", help="resume with N processes", min=1)
    ] = None,
    detach: options.Detach = False,
    json: options.JsonLog = False,
) -> None:
    """Resume a run, or continue from an earlier step.

    A run that was interrupted, stopped, killed or lost, or that failed, continues from its last checkpoint.
    """
    from txlab.runs.branch import branch
    from txlab.runs.directory import RunDirectory, info_of, state_of
    from txlab.runs.events import LARGEST_STEP
    from txlab.runs.finding import find_run
    from txlab.runs.ranks.launch import set_processes

    follow_rank_0()
    directory = find_run(name)
    RunDirectory(directory).require_own()
    RunDirectory(directory).require_here()
    if in_new_run:
        directory = branch(directory, checkpoint_before(directory, LARGEST_STEP if step is None else step))
        if processes is not None:
            set_processes(directory, processes)
        start(directory, detach, json)
        return
    state = state_of(directory, info_of(RunDirectory(directory)))
    if state.status in ("running", "paused"):
        raise LabError(f"{directory.name} is {state.status} (process {state.pid} on {state.host}); nothing to resume")
    if state.status == "done" and step is None:
        raise LabError(f"{directory.name} is done at step {state.step}; --from STEP computes its last part again")
    if processes is not None:
        set_processes(directory, processes)
    start(directory, detach, json, None if step is None else checkpoint_before(directory, step))


def follow_rank_0() -> None:
    """In each of torchrun's processes except the first, compute a part of the first one's run, and exit."""
    from txlab.runs.ranks import distributed_rank_info, exit_now

    here = distributed_rank_info()
    if here is not None and not here.leads:
        from txlab.runs.writing import set_up_process

        set_up_process()  # before torch is imported
        from txlab.runs.ranks.computing import run_replica

        exit_now(run_replica(here))


def checkpoint_before(directory: Path, step: int) -> int:
    """Return the step of the last valid checkpoint at or before `step`."""
    from txlab.runs import checkpoints
    from txlab.runs.directory import RunDirectory

    kept = checkpoints.sound(RunDirectory(directory))
    before = [other for other in kept if other <= step]
    if not before:
        listed = f"; there are {', '.join(map(str, kept))}" if kept else "; it has none at all"
        raise LabError(f"{directory.name} has no checkpoint at or before step {step}{listed}")
    return before[-1]


def start(directory: Path, detach: bool, json: bool, rewind_to: int | None = None) -> None:
    """Execute a prepared run in this process or a detached one; raises typer.Exit if the exit status is not 0."""
    from txlab.runs import process
    from txlab.runs.ranks import distributed_rank_info, exit_now, rank_info

    if detach:
        pid = process.start_detached(directory, rewind_to=rewind_to)
        wait_until_taken(directory, pid)
        tell_started(directory, pid, json)
        return
    from txlab.cli.progress import observer_for
    from txlab.runs.writing import set_up_process

    set_up_process()
    observer = observer_for(directory, json)
    try:
        info = process.execute(directory, observer=observer, rewind_to=rewind_to)
    finally:
        observer.close()
    if info.status == "interrupted":  # all is written; a second ctrl-c must not change the exit status
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not json:
        with contextlib.suppress(BrokenPipeError):  # the output is closed; the exit status still tells
            report(directory, info)
    if info.status == "failed":
        raise RunFailed(f"{info.name} failed: {info.reason} (its directory: {directory})")
    if distributed_rank_info() is not None:  # torchrun restarts processes with any status other than 0
        exit_now(0)
    raise typer.Exit(0 if rank_info() is not None else EXIT_STATUS.get(info.status, 1))


def wait_until_taken(directory: Path, pid: int) -> None:
    """Wait (about half a second) until the new process, or the first of those it starts, has written run.json.

    A following command, such as `txlab stop` in a script, then finds it running. Raises RunFailed if it ends before.
    """
    from txlab.runs.directory import ALIVE, RunInfo, process_is_alive

    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        alive = process_is_alive(pid)  # checked first: it may write and end in between
        info = RunInfo.load(directory)
        if info.pid == pid or info.status in ALIVE:
            return
        if not alive:
            raise RunFailed(f"{directory.name} could not begin; {directory / 'log.txt'} says why")
        time.sleep(0.05)


def tell_started(directory: Path, pid: int, json: bool) -> None:
    if json:
        print_json({"run": str(directory), "name": directory.name, "pid": pid})
        return
    print(sanitize(f"{directory.name} is running as process {pid}; it continues when this terminal closes"))
    print(sanitize(f"run directory  {directory}"))
    print(sanitize(f"view it        txlab attach {directory.name}"))
    print(sanitize(f"end it         txlab stop {directory.name}"))


def report(directory: Path, info: RunInfo) -> None:
    """Print the summary of a run that ended: the curve, the last sample, the result, and the run directory."""
    from txlab.cli.curves import loss_chart
    from txlab.drawing.text import cut, visible_lines
    from txlab.experiments.kind import kind_of_run
    from txlab.experiments.metric import primary_metrics
    from txlab.runs.reader import RunReader
    from txlab.runs.root import default_root

    reader = RunReader(directory)
    reader.poll()
    if drawn := loss_chart(reader):
        print_lines(drawn)
    if (samples := reader.rows("sample")) and (sample := samples[-1])["step"] > 0:
        lines = visible_lines(str(sample.get("prompt", "")) + str(sample.get("text", "")), ascii_only())
        print(f"\nwritten at step {group_digits(sample['step'])}")
        print("\n".join("  " + cut(line, columns() - 3) for line in lines[:8]))
    for row in reader.rows("note"):
        if row["step"] > 0:  # notes at step 0 are about the world
            print("\n" + sanitize(f"step {group_digits(row['step'])}: {row['text']}"))
    spent = duration(info.seconds()) if info.ended else "?"
    names = primary_metrics(reader.names("metrics"), kind_of_run(info.kind).METRICS, reader.info.facts.get("headline"))
    results = [f"{sanitize(n)} {numeral(v)}" for n in names if (v := reader.latest(n)) is not None]
    word, _ = status_word(info.status)
    reason = f" ({info.reason})" if info.reason and info.status not in ("done", "failed") else ""
    at = f"step {group_digits(info.step)} of {group_digits(info.steps)}"
    print(f"\n{word}{sanitize(reason)}: {sanitize(info.name)} at {at} after {spent}")
    if results:
        print(f"result         {', '.join(results)}")
    name = directory.name if directory.parent == default_root().resolve() else str(directory)
    print(sanitize(f"run directory  {directory}"))
    print(sanitize(f"view it        txlab attach {name}"))
    if info.status in ("interrupted", "stopped"):
        print(sanitize(f"resume it      txlab resume {name}"))


def standard_input(loaded: LoadedScenario) -> bytes | None:
    """Read and check the text of `data.text = "-"`; None if the scenario does not use standard input."""
    data = getattr(loaded.scenario, "data", None)
    if getattr(data, "text", None) != "-" or getattr(data, "source", "text") != "text":
        return None
    text = standard_text().encode()
    if not text.strip():
        raise LabError("standard input is empty; data.text = - takes the text from it")
    return text


def take_back(directory: Path, before: Path) -> None:
    """Remove a run directory that this command has just created, if nothing was computed in it, and the folders created
    for it below `before`."""
    from txlab.runs.events import each_row

    if any(row["event"] == "metrics" for row, _ in each_row(directory / "events.jsonl")):
        return
    shutil.rmtree(directory, ignore_errors=True)  # created by this command; links in it are not followed
    for folder in directory.parents:
        if folder == before.resolve() or not folder.is_relative_to(before.resolve()):
            return
        with contextlib.suppress(OSError):  # another run was created in it
            folder.rmdir()


def input_path(directory: Path) -> Path:
    """Return the path of a run's copy of standard input."""
    return directory / "inputs" / "stdin.txt"


def keep_standard_input(directory: Path, text: bytes) -> None:
    """Store the text in the run, so that resuming reads the same text, and make its scenario refer to that file."""
    from txlab.files import atomic_write
    from txlab.runs.directory import RunDirectory
    from txlab.runs.scenario import dump_scenario, load_scenario

    run = RunDirectory(directory)
    kept = input_path(run.path)
    kept.parent.mkdir(exist_ok=True)
    atomic_write(kept, text)
    # "=" and a quoted string: a path may look like a number or a list
    changed = load_scenario(run.scenario_file, [f"data.text={json_.dumps(str(kept))}"]).scenario
    atomic_write(run.scenario_file, dump_scenario(changed).encode())


def warn_if_too_slow(loaded: LoadedScenario) -> None:
    """Warn if a scenario that needs a GPU will not have one."""
    from txlab.engine.cores import has_nvidia

    about, device = loaded.scenario.about, loaded.scenario.compute.device
    if about.device == "gpu" and (device == "cpu" or (device == "auto" and not has_nvidia())):
        print(f"txlab: {loaded.name} is meant for a GPU; on a CPU a step may take minutes", file=sys.stderr)
