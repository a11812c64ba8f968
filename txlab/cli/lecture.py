"""`txlab lecture`: list the lectures, prepare their runs, play one in the console, or record one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from txlab.cli.output import Column, table
from txlab.cli.terminal import ascii_only, has_screen, sanitize
from txlab.errors import LabError, RunFailed, convert_os_errors

if TYPE_CHECKING:
    from txlab.runs.lecture import Lecture


def lecture(
    name: Annotated[str | None, typer.Argument(metavar="LECTURE", help="a name, or a TOML file")] = None,
    prepare: Annotated[bool, typer.Option("--prepare", help="train the runs that it shows, and nothing else")] = False,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="of its runs; it can be carried")
    ] = None,
    first: Annotated[int | None, typer.Option("--from", metavar="N", help="begin at step N", min=1)] = None,
    notes: Annotated[bool, typer.Option("--notes", help="begin with the notes shown")] = False,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="write what you do in the console as a new lecture")
    ] = None,
) -> None:
    """Play a lecture in the console, or list the lectures.

    pgdn is the next step, pgup the one before. Without a name, the lectures are listed.
    """
    if record is not None:
        record_lecture(record, name)
    elif name is None:
        list_lectures()
    else:
        from txlab.runs.lecture import load_lecture
        from txlab.runs.lecture_runs import missing_runs, runs_folder
        from txlab.runs.root import default_root
        from txlab.tui.screen_registry import screen_names

        chosen = load_lecture(name, screen_names())
        where = folder or runs_folder(chosen)
        if prepare:
            prepare_runs(chosen, where)
            return
        require_console()
        if first is not None and first > len(chosen.steps):
            raise LabError(f"--from {first} is not a step of {chosen.name}; allowed: 1 to {len(chosen.steps)}")
        if missing := missing_runs(chosen, where, default_root()):
            raise LabError(
                f"{chosen.name} shows runs that are not computed yet ({', '.join(missing)}); compute them first: "
                f"txlab lecture {name} --prepare{'' if folder is None else f' --folder {folder}'}"
            )
        from txlab.tui.launch import launch

        number = None if first is None else first - 1
        begin = lambda app: app.play_lecture(name, where, number, notes)  # noqa: E731
        raise typer.Exit(launch(ascii=ascii_only(), begin=begin))


def require_console() -> None:
    if not has_screen():
        raise LabError("a lecture is played in the console, which needs a terminal; --prepare does not")


def list_lectures() -> None:
    """Print name, number of steps and title of each lecture of txlab."""
    from txlab.runs.lecture import load_lecture, shipped_lectures
    from txlab.tui.screen_registry import screen_names

    rows = []
    for name in shipped_lectures():
        chosen = load_lecture(name, screen_names())
        rows.append([name, str(len(chosen.steps)), sanitize(chosen.contents.title)])
    print(table([Column("lecture"), Column("steps", "right"), Column("title", loose=True)], rows), end="\n\n")
    print("txlab lecture NAME plays one; txlab lecture NAME --prepare trains its runs beforehand.")


def prepare_runs(lecture: Lecture, folder: Path) -> None:
    """Train the runs of a lecture one after the other, with a progress bar each."""
    from txlab.cli.progress import observer_for
    from txlab.runs import process
    from txlab.runs.lecture_runs import is_done, load_run, prepare_run
    from txlab.runs.writing import set_up_process

    set_up_process()
    with convert_os_errors(f"--folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)

    def compute(path: Path) -> None:
        observer = observer_for(path, json=False)
        try:
            info = process.execute(path, observer=observer)
        finally:
            observer.close()
        if info.status == "interrupted":
            raise typer.Exit(130)
        if info.status != "done":
            raise RunFailed(f"{path} {info.status}: {info.reason}")

    for name, run in lecture.runs.items():
        known = is_done(folder / name, load_run(lecture, run))
        print(sanitize(f"{name}: {'done before' if known else run.scenario}"), flush=True)
        prepare_run(lecture, name, folder, compute)
    runs = f"its {len(lecture.runs)} runs are" if len(lecture.runs) > 1 else "its run is"
    print(sanitize(f"{lecture.name} is prepared; {runs} in the folder {folder}"))


def record_lecture(file: Path, name: str | None) -> None:
    if name is not None:
        raise LabError(f"--record writes a new lecture; leave {name} out, or open it without --record")
    with convert_os_errors(f"--record {file}"):
        if file.exists():
            raise LabError(f"{file} exists already; give --record the name of a new file")
        if not os.access(file.parent, os.W_OK | os.X_OK):
            raise LabError(f"--record {file}: a file cannot be written in {file.parent}")
    require_console()
    from txlab.tui.launch import launch

    raise typer.Exit(launch(ascii=ascii_only(), begin=lambda app: app.record_lecture(file)))
