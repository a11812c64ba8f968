"""The runs of a lecture: trained beforehand into one folder that can be carried, and found again.

The folder of a shipped lecture is in the user's data; that of a file `talk.toml` is `talk` in the same
folder. A run of the same settings in the folder of runs serves as well, unless it was steered while it was computed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from platformdirs import user_data_path

from txlab.errors import LabError, prefix_errors
from txlab.runs.directory import RunDirectory, RunInfo, info_of
from txlab.runs.events import each_row
from txlab.runs.folder import is_run, list_runs
from txlab.runs.lecture import Lecture, LectureRun
from txlab.runs.scenario import LoadedScenario, load_scenario


def runs_folder(lecture: Lecture) -> Path:
    """Return the usual folder of a lecture's runs."""
    if lecture.argument == lecture.name:
        return user_data_path("txlab", appauthor=False) / "lectures" / lecture.name
    return lecture.path.with_suffix("")


def load_run(lecture: Lecture, run: LectureRun) -> LoadedScenario:
    """Load the scenario of a run; a file is relative to the lecture."""
    of_file = run.scenario.endswith(".toml")
    with prefix_errors(f"{lecture.path}: the run {run.name}"):
        return load_scenario(str(lecture.path.parent / run.scenario) if of_file else run.scenario, run.set)


def is_done(path: Path, loaded: LoadedScenario) -> bool:
    """Whether a directory is a finished run of a scenario with the same settings."""
    with suppress(LabError):
        info = RunInfo.load(RunDirectory(path))
        return info.status == "done" and info.scenario == loaded.name and info.changes == dict(loaded.changes)
    return False


def was_steered(path: Path) -> bool:
    """Whether a run is not what its scenario alone gives: a parameter was changed meanwhile, or it is a branch; also if
    its log cannot be read, which then shows nothing either."""
    run = RunDirectory(path)
    with suppress(LabError):
        set_meanwhile = (
            row["event"] == "control" and row.get("request") == "set" and bool(row.get("applied"))
            for row, _ in each_row(run.events)
        )
        return bool(RunInfo.load(run).branched) or any(set_meanwhile)
    return True


def find_lecture_run(lecture: Lecture, name: str, folder: Path, root: Path) -> Path | None:
    """Return the path of a run of a lecture: the prepared one, else the newest of the same settings under `root`."""
    loaded = load_run(lecture, lecture.runs[name])
    if is_done(folder / name, loaded):
        return (folder / name).absolute()
    places = (path for path in list_runs(root) if loaded.name in path.name)
    return next((path.absolute() for path in places if is_done(path, loaded) and not was_steered(path)), None)


def missing_runs(lecture: Lecture, folder: Path, root: Path) -> list[str]:
    """Return the names of the runs that steps show and that are not there; a live step does not need its run."""
    names = dict.fromkeys(step.run for step in lecture.steps if step.run and not step.live)
    return [name for name in names if find_lecture_run(lecture, name, folder, root) is None]


def prepare_run(lecture: Lecture, name: str, folder: Path, compute: Callable[[Path], object]) -> None:
    """Train a run into `folder`/`name` by calling `compute` with its directory, unless it is done.

    LabError if the directory is a run of other settings, which is never removed.
    """
    path, loaded = folder / name, load_run(lecture, lecture.runs[name])
    if is_done(path, loaded):
        return
    if not is_run(path):
        from txlab.runs.process import prepare

        prepare(loaded, out=path, root=folder)  # where a run that it starts from was prepared, under the same name
    else:
        info = info_of(RunDirectory(path))
        if info.scenario != loaded.name or info.changes != dict(loaded.changes):
            raise LabError(f"{path} is a run of other settings than the lecture's; remove it, or give another --folder")
    compute(path)
