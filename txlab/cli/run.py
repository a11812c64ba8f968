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
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.output import print_json
from txlab.cli.terminal import ascii_only, columns, numeral, print_lines, shown, status_word
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
        str | None, typer.Option("--like", metavar="RUN", help="what a run did, with all that was decided for it")
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
    json: options.JsonLog = False,
) -> None:
    """Run a scenario: watched here, or detached.

    The same scenario and seed give the same numbers, bit for bit, on the same device with the same threads and kernels.
    Which of these are quickest is measured when a run begins, so another time they may be others. What was decided is
    written into the run: --like RUN, or RUN/scenario.toml as the SCENARIO, repeats it.
    """
    if scenario is None and like is None:
        raise LabError(
            "SCENARIO is missing: a name of `txlab scenarios`, or a file; else --like RUN (txlab run --help)"
        )
    if scenario is not None and like is not None:
        raise LabError(f"give a SCENARIO or --like RUN, not both {scenario!r} and {like!r}")
    from txlab.runs.folder import first_existing
    from txlab.runs.process import prepare
    from txlab.runs.ranks import place
    from txlab.runs.ranks.launch import begun_by, counted
    from txlab.runs.root import default_root
    from txlab.runs.scenario import load_scenario

    here = place()
    if here is not None:
        follow_rank_0()
        if detach:
            raise LabError("torchrun waits for the processes that it started; leave --detach out")
        if here.restarts and (again := begun_by(here, out)) is not None:
            start(again, detach, json)
            return
    if like is not None:
        loaded = load_like(like, overrides or [], seed, device)
    else:
        loaded = load_scenario(scenario or "", overrides or [], seed=seed, device=device)
    if here is not None:
        loaded = counted(loaded, here)
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
        raise LabError(str(error).replace(repr(str(kept_input(directory))), "-")) from None


def load_like(name: str, overrides: list[str], seed: int | None, device: str | None) -> LoadedScenario:
    """Load the resolved scenario of a run, changed by the command line, and describe it on stderr.

    Raises LabError for a run recorded by another program, and for a scenario that is missing or no longer readable.
    """
    import socket

    from txlab.runs.directory import RunDirectory, info_of
    from txlab.runs.finding import find_run
    from txlab.runs.process import pending_changes, rows_behind
    from txlab.runs.scenario import load_scenario
    from txlab.runs.writing import versions

    directory = find_run(name)
    info = info_of(RunDirectory(directory))
    if info.recorded:
        raise LabError(f"{directory.name} was recorded by another program; only that program can repeat it")
    file = directory / "scenario.toml"
    if not file.is_file():
        raise LabError(f"{directory.name} has no scenario.toml, so nothing says what it did")
    try:
        load_scenario(file)
    except LabError as error:
        written = info.versions.get("txlab", "?")
        raise LabError(f"{directory.name}, of txlab {written}, cannot be repeated as it is: {error}") from None
    loaded = load_scenario(file, overrides, seed=seed, device=device)
    compute = loaded.scenario.compute
    said = [f"{key} {value}" for key, value in compute.model_dump().items()]
    changed = [*overrides, *([f"seed={seed}"] if seed is not None else []), *([f"device={device}"] if device else [])]
    print(shown(f"like {directory.name}: seed {loaded.scenario.seed}, {', '.join(said)}"), file=sys.stderr)
    if changed:
        print(shown(f"but for {', '.join(changed)}"), file=sys.stderr)
    here = versions() | {"host": socket.gethostname()}
    there = info.versions | {"host": info.host}
    other = [f"{key} {there[key]} there, {value} here" for key, value in here.items() if there.get(key, value) != value]
    if by_hand := len(pending_changes((), rows_behind(RunDirectory(directory), 0)[0])):
        other.append(f"{by_hand} change{'s' if by_hand > 1 else ''} by hand while it ran, which are not repeated")
    if compute.threads == 0:
        other.append("it had not decided how it computes, which is now measured")
    if other:
        print(shown(f"so perhaps not bit for bit: {'; '.join(other)}"), file=sys.stderr)
    return loaded


def resume(
    name: options.Run,
    step: Annotated[
        int | None,
        typer.Option("--from", metavar="STEP", help="go back to the last checkpoint at or before STEP", min=0),
    ] = None,
    in_new_run: Annotated[
        bool, typer.Option("--branch", help="in a new run, which begins with this one's log; this one stays as it is")
    ] = False,
    processes: Annotated[
        int | None, typer.Option("--processes", metavar="N", help="in so many processes from here on", min=1)
    ] = None,
    detach: options.Detach = False,
    json: options.JsonLog = False,
) -> None:
    """Go on with a run that is not done, or from an earlier step.

    Interrupted, stopped, failed, killed or lost: it goes on from its last checkpoint.
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
    """In each of the processes that torchrun started but the first, compute a part of what that one says, and exit."""
    from txlab.runs.ranks import leave, many

    here = many()
    if here is not None and not here.leads:
        from txlab.runs.writing import set_up_process

        set_up_process()  # before torch is imported
        from txlab.runs.ranks.computing import follow

        leave(follow(here))


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
    from txlab.runs.ranks import leave, many, place

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
    if many() is not None:  # to torchrun, everything but 0 is a process that failed, to be started again
        leave(0)
    raise typer.Exit(0 if place() is not None else EXIT_STATUS.get(info.status, 1))


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
    print(shown(f"{directory.name} is running as process {pid}; it goes on when this terminal closes"))
    print(shown(f"run directory  {directory}"))
    print(shown(f"look at it     txlab attach {directory.name}"))
    print(shown(f"end it         txlab stop {directory.name}"))


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
        print(f"\nwritten at step {sample['step']}")
        print("\n".join("  " + cut(line, columns() - 3) for line in lines[:8]))
    for row in reader.rows("note"):
        if row["step"] > 0:  # those of step 0 are of the world
            print("\n" + shown(f"step {row['step']}: {row['text']}"))
    spent = duration(info.seconds()) if info.ended else "?"
    told = primary_metrics(reader.names("metrics"), kind_of_run(info.kind).METRICS, reader.info.facts.get("headline"))
    results = [f"{shown(n)} {numeral(v)}" for n in told if (v := reader.latest(n)) is not None]
    word, _ = status_word(info.status)
    reason = f" ({info.reason})" if info.reason and info.status not in ("done", "failed") else ""
    print(f"\n{word}{shown(reason)}: {shown(info.name)} at step {info.step} of {info.steps} after {spent}")
    if results:
        print(f"result         {', '.join(results)}")
    name = directory.name if directory.parent == default_root().resolve() else str(directory)
    print(shown(f"run directory  {directory}"))
    print(shown(f"look at it     txlab attach {name}"))
    if info.status in ("interrupted", "stopped"):
        print(shown(f"go on          txlab resume {name}"))


def standard_input(loaded: LoadedScenario) -> bytes | None:
    """Read and check the text of `data.text = "-"`; None if the scenario does not use standard input."""
    data = getattr(loaded.scenario, "data", None)
    if getattr(data, "text", None) != "-" or getattr(data, "source", "text") != "text":
        return None
    text = standard_text().encode()
    if not text.strip():
        raise LabError("standard input is empty; data.text = - takes the text from it")
    return text


def check_device(loaded: LoadedScenario) -> None:
    """Check that a requested device is available before anything is created."""
    device = loaded.scenario.compute.device
    if device not in ("auto", "cpu"):
        from txlab.runs.writing import set_thread_environment

        set_thread_environment()
        from txlab.engine.device import choose_device

        choose_device(device)


def check_data(loaded: LoadedScenario, detach: bool = False) -> None:
    """Check the user's text, map or tokenizer before anything is created.

    Nobody sees the errors of a detached process, so for it the text is also tokenized as the run will do. Byte pairs
    that are yet to be learnt would take long: for them the bytes are counted instead, since a text too short in bytes
    is too short in byte pairs.
    """
    from txlab.experiments.tokenizer_store import KINDS, tokenizer_named
    from txlab.runs.scenario import NAMED_TEXTS

    scenario: Any = loaded.scenario
    world: Any = getattr(scenario, "world", None)
    if getattr(world, "file", ""):
        from txlab.experiments.tabular.world import drawn

        drawn(world)
    data: Any = getattr(scenario, "data", None)
    text, tokenizer = getattr(data, "text", None), getattr(data, "tokenizer", None)
    if not isinstance(text, str) or not isinstance(tokenizer, str) or getattr(data, "source", "text") != "text":
        return
    if tokenizer not in KINDS:
        tokenizer_named(tokenizer)
    mixture = getattr(data, "mixture", None) or []
    if all(part in NAMED_TEXTS for part in ([each.text for each in mixture] or [text])):
        return
    if not detach:
        from txlab.experiments.corpora import load_corpus
        from txlab.experiments.kinds.language_model.data import read_parts

        read_parts(data) if mixture else load_corpus(text)
        return
    from txlab.experiments.kinds.language_model.data import build_data

    quick = data.model_copy(update={"tokenizer": "bytes"}) if tokenizer == "bpe" else data
    build_data(scenario.model_copy(update={"data": quick}))


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


def kept_input(directory: Path) -> Path:
    """Return the path of a run's copy of standard input."""
    return directory / "inputs" / "stdin.txt"


def keep_standard_input(directory: Path, text: bytes) -> None:
    """Store the text in the run, so that resuming reads the same text, and make its scenario refer to that file."""
    from txlab.files import atomic_write
    from txlab.runs.directory import RunDirectory
    from txlab.runs.scenario import dump_scenario, load_scenario

    run = RunDirectory(directory)
    kept = kept_input(run.path)
    kept.parent.mkdir(exist_ok=True)
    atomic_write(kept, text)
    # "=" and a quoted string: a path may look like a number or a list
    changed = load_scenario(run.scenario_file, [f"data.text={json_.dumps(str(kept))}"]).scenario
    atomic_write(run.scenario_file, dump_scenario(changed).encode())


def warn_if_too_slow(loaded: LoadedScenario) -> None:
    """Warn, and go on, if a scenario that needs a GPU will not have one."""
    from txlab.engine.cores import has_nvidia

    about, device = loaded.scenario.about, loaded.scenario.compute.device
    if about.device == "gpu" and (device == "cpu" or (device == "auto" and not has_nvidia())):
        print(f"txlab: {loaded.name} is meant for a GPU; on a CPU a step may take minutes", file=sys.stderr)
