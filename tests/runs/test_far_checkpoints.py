"""Checkpoints of a run on another machine: fetched once when its model is opened, whole or not at all."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from far_machine import stand_in

from txlab.errors import Guess, LabError
from txlab.files import OpenFolder, lock
from txlab.progress import Listener, listener
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.finding import find_run
from txlab.runs.models import load_checkpoint, steps_to_open
from txlab.runs.remote import fetching, mirroring

NUMBERS = 300_000  # of a checkpoint, 8 bytes each: dozens of pieces


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDirectory]:
    """A run of the machine `box` with checkpoints of two steps."""
    run = RunDirectory(tmp_path / "far" / "runs" / "2026-01-01_000000_gpt")
    run.path.mkdir(parents=True)
    RunInfo(run.name, "gpt", "language-model", status="done", step=20).save(run)
    run.events.write_bytes(b"")
    for step in (10, 20):
        save(run, step)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TXLAB_SSH", stand_in(tmp_path, runs=run.path.parent))
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "here"))
    monkeypatch.setattr(fetching, "LARGEST_PIECE", 64 << 10)
    yield run
    mirroring.close_all()


def save(run: RunDirectory, step: int, seed: int = 0) -> None:
    checkpoints.save(run, step, {"weights": np.random.default_rng([step, seed]).normal(size=NUMBERS)})


def mirror() -> RunDirectory:
    return RunDirectory(find_run("box:latest"))


def files(run: RunDirectory) -> dict[str, bytes]:
    """The files of all checkpoints, complete or not."""
    there = [file for file in run.checkpoints.rglob("*") if file.is_file() and file.name != fetching.LOCK]
    return {str(file.relative_to(run.checkpoints)): file.read_bytes() for file in there}


def received(run: RunDirectory) -> int:
    """Bytes that this process has had from the machine."""
    host = mirroring.follow(run.path)
    assert host is not None
    assert host._line is not None
    return host.received + host._line.received


@contextmanager
def heard(show: Listener) -> Iterator[None]:
    token = listener.set(show)
    yield
    listener.reset(token)


class Left(Exception):
    pass


def half_way(act: Any) -> Listener:
    """Do something once, when half of a checkpoint is here."""
    acted: list[int] = []

    def show(what: str, done: int, total: int) -> None:
        if done > total // 2 and not acted:
            acted.append(done)
            act()

    return show


def leave() -> None:
    raise Left


def test_the_newest_checkpoint_or_the_nearest_is_fetched_once(far: RunDirectory) -> None:
    run = mirror()
    assert steps_to_open(run) == [10, 20]
    assert not files(run)
    seen: list[tuple[int, int]] = []
    with heard(lambda what, done, total: seen.append((done, total))):
        step, state, steps = load_checkpoint(run, arrays=True)
    assert (step, steps) == (20, (10, 20))
    np.testing.assert_array_equal(state["weights"], np.random.default_rng([20, 0]).normal(size=NUMBERS))
    size = sum(file.stat().st_size for file in (far.checkpoints / "00000020").iterdir())
    assert seen == sorted(seen)
    assert seen[-1] == (size, size)
    before = received(run)
    assert load_checkpoint(run, arrays=True)[0] == 20
    assert received(run) - before < 10_000
    assert load_checkpoint(run, 12, arrays=True)[0] == 10
    assert files(run) == files(far)


def test_a_changed_checkpoint_is_fetched_again_and_a_removed_one_is_not_kept(far: RunDirectory) -> None:
    run = mirror()
    load_checkpoint(run, 10, arrays=True)
    load_checkpoint(run, arrays=True)
    save(far, 20, seed=1)
    checkpoints.remove(far, [10])
    load_checkpoint(run, arrays=True)
    assert files(run) == files(far)


def test_a_fetch_that_was_left_leaves_no_checkpoint_and_is_continued(far: RunDirectory) -> None:
    run = mirror()
    with heard(half_way(leave)), pytest.raises(Left):
        load_checkpoint(run, arrays=True)
    assert checkpoints.steps(run) == []
    kept = sum(map(len, files(run).values()))
    mirroring.close_all()  # as at the end of a command
    run = mirror()
    load_checkpoint(run, arrays=True)
    assert checkpoints.steps(run) == [20]
    size = sum(map(len, files(run).values()))
    assert size / 2 < kept < size
    assert received(run) < size - kept + 60_000
    assert files(run).items() <= files(far).items()


def test_a_cut_connection_is_made_again_and_the_fetch_continues(far: RunDirectory) -> None:
    run = mirror()
    host = mirroring.follow(run.path)
    assert host is not None

    def cut() -> None:
        assert host._line is not None
        os.kill(host._line.process.pid, signal.SIGKILL)

    with heard(half_way(cut)):
        load_checkpoint(run, arrays=True)
    size = sum(map(len, files(run).values()))
    assert received(run) < size * 1.3
    assert files(run).items() <= files(far).items()


def test_a_connection_that_does_not_come_back_is_one_sentence(
    far: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = mirror()
    host = mirroring.follow(run.path)
    assert host is not None
    monkeypatch.setattr(fetching, "AGAIN_WITHIN", 0.3)

    def cut() -> None:
        monkeypatch.setenv("TXLAB_SSH", "false")
        assert host._line is not None
        os.kill(host._line.process.pid, signal.SIGKILL)

    with heard(half_way(cut)), pytest.raises(LabError, match="kept, and the next attempt continues there"):
        load_checkpoint(run, arrays=True)
    assert checkpoints.steps(run) == []


def test_without_a_connection_the_copies_here_are_opened(far: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    load_checkpoint(mirror(), 10, arrays=True)
    mirroring.close_all()
    monkeypatch.setenv("TXLAB_SSH", "false")
    with pytest.warns(Guess, match="copy from box|connection to box|not connected"):
        run = mirror()
    assert load_checkpoint(run, arrays=True)[::2] == (10, (10,))
    shutil.rmtree(run.checkpoints / "00000010")
    with pytest.raises(LabError, match=f"no checkpoint of {far.name} has been fetched from box: the connection"):
        load_checkpoint(run, arrays=True)


@pytest.mark.parametrize("change", ["removed", "replaced", "run deleted"])
def test_a_checkpoint_that_changes_while_it_is_fetched(far: RunDirectory, change: str) -> None:
    run = mirror()

    def act() -> None:
        if change == "removed":
            checkpoints.remove(far, [20])
        elif change == "replaced":
            save(far, 20, seed=1)
        else:
            shutil.rmtree(far.path)

    with heard(half_way(act)):
        if change == "run deleted":
            with pytest.raises(LabError, match=f"{far.name} cannot be read on box: "):
                load_checkpoint(run, arrays=True)
            return
        assert load_checkpoint(run, arrays=True)[0] == (10 if change == "removed" else 20)
    assert {name: data for name, data in files(run).items() if name[0] != "."}.items() <= files(far).items()


def test_a_checkpoint_that_does_not_fit_on_the_disk_is_refused(
    far: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "SPARE", 1 << 60)
    with pytest.raises(LabError, match=r"checkpoint 20 of .* from box has 2\.4 MB, .* and the disk of .* MB free"):
        load_checkpoint(mirror(), arrays=True)


def test_all_copies_together_are_bounded_and_those_opened_longest_ago_go_first(
    far: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = RunDirectory(far.path.parent / "2026-01-02_000000_gpt")
    shutil.copytree(far.path, other.path)
    originals = files(far), files(other)
    size = checkpoints.size_of(far, 20)
    monkeypatch.setattr(fetching, "KEPT", int(2.5 * size))
    first, second = (RunDirectory(find_run(f"box:{run.path.name}")) for run in (far, other))
    linked = RunDirectory(first.path.parent / "2026-01-03_000000_gpt")
    linked.path.symlink_to(far.path)
    copies: list[tuple[list[int], list[int]]] = []
    for run, step in ((first, 10), (first, 20), (first, 10), (second, 10), (second, 20)):
        assert load_checkpoint(run, step, arrays=True)[0] == step
        copies.append((checkpoints.steps(first), checkpoints.steps(second)))
    assert copies[-2:] == [([10], [10]), ([], [10, 20])]
    monkeypatch.setattr(fetching, "KEPT", size // 2)
    assert load_checkpoint(first, 20, arrays=True)[0] == 20
    assert (checkpoints.steps(first), checkpoints.steps(second)) == ([20], [])
    assert (files(far), files(other)) == originals


def test_one_process_fetches_and_the_others_wait(far: RunDirectory) -> None:
    run = mirror()
    with OpenFolder.at(run.checkpoints) as folder:
        held = folder.open(fetching.LOCK, os.O_RDWR | os.O_CREAT)
    lock(held)
    said: list[str] = []

    def show(what: str, done: int, total: int) -> None:
        said.append(what)
        if len(said) == 2:
            os.close(held)

    with heard(show):
        load_checkpoint(run, arrays=True)
    assert said[:2] == ["another process fetches checkpoint 20 from box"] * 2
    assert files(run).items() <= files(far).items()


def test_a_damaged_checkpoint_is_passed_over(far: RunDirectory) -> None:
    (far.checkpoints / "00000020" / checkpoints.TENSORS).write_bytes(b"cut")
    assert load_checkpoint(mirror(), arrays=True)[0] == 10


@pytest.mark.parametrize(
    "listed",
    [
        *(7, [7], [[1]], [[1, None]], None, [["a", [[1, 2, 3], [1, 2, 3]]]], [[1, [[1, 2, 3], [1, -2, 3]]]]),
        *([[1, [[1, 2, 3], [1, 2, 1 << 63]]]], [[[], [[1, 2, 3], [1, 2, 3]]]], [[-1, [[1, 2, 3], [1, 2, 3]]]]),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(listed: Any) -> None:
    answer: Future[Any] = Future()
    answer.set_result(({"checkpoints": listed}, b""))
    host: Any = SimpleNamespace(address=SimpleNamespace(host="box"), line="connected", request=lambda request: answer)
    with pytest.raises(LabError, match="box lists checkpoints of x that make no sense"):
        fetching.list_checkpoints(host, "x")


def test_the_copies_of_a_run_that_was_deleted_are_opened(far: RunDirectory) -> None:
    load_checkpoint(run := mirror(), 10, arrays=True)
    shutil.rmtree(far.path)
    assert load_checkpoint(run, arrays=True)[0] == 10
    assert steps_to_open(run) == [10]


def test_a_run_without_a_checkpoint_is_told_how_to_make_one(far: RunDirectory) -> None:
    shutil.rmtree(far.checkpoints)
    with pytest.raises(LabError, match=f"box:{far.name} has no checkpoint yet, so there is no model to open"):
        load_checkpoint(mirror(), arrays=True)
