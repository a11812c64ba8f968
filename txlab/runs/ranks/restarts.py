"""With how many processes a run goes on, and which run it is that torchrun starts again after a process has failed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.finding import default_root
from txlab.runs.ranks import Place
from txlab.runs.scenario import LoadedScenario, dump_scenario, load_scenario


def counted(loaded: LoadedScenario, here: Place) -> LoadedScenario:
    """The scenario with as many processes as torchrun has started. LabError if it asks for another number."""
    compute = loaded.scenario.compute
    if compute.processes not in (1, here.count):
        raise LabError(
            f"compute.processes = {compute.processes}, and torchrun has started {here.count}; leave that setting out"
        )
    there = compute.model_copy(update={"processes": here.count})
    return replace(loaded, scenario=loaded.scenario.model_copy(update={"compute": there}))


def begun_by(here: Place, out: Path | None) -> Path | None:
    """The newest run that this launch has begun, for its processes that are started again; None if there is none.

    On another host than before only `out` can be recognised, which nobody else begins at the same time.
    """
    if out is not None:
        return out if (out / "run.json").is_file() else None
    with suppress(OSError):
        for path in sorted(default_root().iterdir(), reverse=True):
            with suppress(LabError):
                if RunInfo.load(path).launch == here.launch:
                    return path
    return None


def set_processes(run: Path, count: int) -> None:
    """Let a run that nobody computes go on with so many processes. LabError if they cannot compute it together."""
    from txlab.experiments.kind import kind_named
    from txlab.runs.process import writing

    directory = RunDirectory(run).held()
    with writing(directory):
        scenario = load_scenario(directory.scenario_file).scenario
        if count > 1:
            kind_named(scenario.kind).require_divisible(scenario, count)
        compute = scenario.compute.model_copy(update={"processes": count})
        changed = dump_scenario(scenario.model_copy(update={"compute": compute}))
        directory.write("scenario.toml", changed.encode(), durable=True)
