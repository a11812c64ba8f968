"""A mirror of another program's log is an ordinary run, is right after any interruption, and writes nothing there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from waiting import wait_for

from txlab.errors import Guess, LabError
from txlab.runs.directory import RunDirectory, RunInfo, state_of
from txlab.runs.events import read_rows
from txlab.runs.export import live_rows
from txlab.runs.finding import find_run
from txlab.runs.folder import delete_run
from txlab.runs.foreign import mirror as mirrors
from txlab.runs.foreign.finding import found_logs, logs_at, logs_under, with_logs
from txlab.runs.foreign.log import ForeignLog
from txlab.runs.foreign.mirror import Mirror, mirror_at, mirror_path
from txlab.runs.label import read_label, write_label
from txlab.runs.reader import RunReader


class SummaryWriter(EventFileWriter):
    """TensorBoard's own writer, whose flush waits until everything is in the file."""

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        self.add_event(Event(wall_time=1.7e9 + step, step=step, summary=summary))

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return tmp_path / "board" / "train"


@pytest.fixture
def writer(board: Path) -> Iterator[SummaryWriter]:
    with SummaryWriter(str(board)) as writer:
        write(writer, range(20))
        yield writer


def write(writer: SummaryWriter, steps: range) -> None:
    for step in steps:
        writer.add_scalar("loss", step / 2, step)
        writer.add_scalar("lr", 0.5, step)
        if step % 10 == 0:
            writer.add_scalar("epoch/accuracy", 0.25, step // 10)
    writer.flush()


def only_log(folder: Path) -> ForeignLog:
    (log,) = logs_under(folder)
    return log


def losses(run: Path) -> list[tuple[int, float]]:
    return [(row["step"], row["values"]["loss"]) for row in live_rows(run) if "loss" in row.get("values", {})]


EXPECTED = [(step, step / 2) for step in range(20)]


def test_a_folder_opens_as_a_run_by_its_path(board: Path, writer: SummaryWriter) -> None:
    before = sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in board.iterdir())
    run = find_run(board)
    reader = RunReader(run)
    reader.poll()
    assert reader.series("loss").values.tolist() == [value for _, value in EXPECTED]
    assert reader.series("epoch/accuracy").steps.tolist() == [0, 1]  # steps of its own
    assert reader.names() == ["loss", "lr", "epoch/accuracy"]
    assert (reader.info.name, reader.info.source["program"]) == ("board/train", "tensorboard")
    assert not reader.problem
    assert len(read_rows(run / "events.jsonl")[0]) == 21  # scalars of one step share a row
    assert sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in board.iterdir()) == before


def test_it_says_running_while_the_log_is_written_and_silent_afterwards(board: Path, writer: SummaryWriter) -> None:
    run = find_run(board)
    assert state_of(run).status == "running"
    (file,) = board.iterdir()
    then = time.time() - 3600
    os.utime(file, (then, then))
    Mirror(only_log(board)).update()
    state = state_of(run)
    assert state.status == "silent"
    assert 3600 <= state.heartbeat_age <= time.time() - then
    assert "does not say" in state.reason
    assert RunInfo.load(run).ended == pytest.approx(then, abs=0.01)


def test_what_is_added_comes_once_whoever_reads_on(board: Path, writer: SummaryWriter) -> None:
    log = only_log(board)
    first, second = Mirror(log), Mirror(log)
    first.update()
    write(writer, range(20, 30))
    second.update()
    write(writer, range(30, 40))
    first.update()
    assert losses(first.path) == [(step, step / 2) for step in range(40)]


def test_rows_of_a_process_that_died_before_it_kept_its_position_are_not_doubled(
    board: Path, writer: SummaryWriter
) -> None:
    run = find_run(board)
    state = (run / mirrors.STATE).read_bytes()
    write(writer, range(20, 30))
    find_run(board)
    (run / mirrors.STATE).write_bytes(state)
    find_run(board)
    assert losses(run) == [(step, step / 2) for step in range(30)]


@pytest.mark.parametrize("garbage", [b"", b"{}", b'{"size": 1e999}', b"[1]", b'{"size": 5, "step": 1, "position": 7}'])
def test_a_garbled_state_begins_anew(board: Path, writer: SummaryWriter, garbage: bytes) -> None:
    run = find_run(board)
    (run / mirrors.STATE).write_bytes(garbage)
    assert losses(find_run(board)) == EXPECTED


def test_a_full_disk_loses_nothing_of_the_log(
    board: Path, writer: SummaryWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror(only_log(board))
    mirror.update()
    write(writer, range(20, 30))
    with monkeypatch.context() as full:
        full.setattr(mirrors, "write_whole", lambda *_: (_ for _ in ()).throw(OSError(28, "no space left")))
        with pytest.raises(LabError, match="no space left"):
            mirror.update()
    mirror.update()
    assert losses(mirror.path) == [(step, step / 2) for step in range(30)]


def test_another_log_in_its_place_replaces_it_and_the_label_stays(board: Path, writer: SummaryWriter) -> None:
    run = find_run(board)
    reader = RunReader(run)
    reader.poll()
    write_label(run, "mine")
    writer.close()
    for path in board.iterdir():
        path.unlink()
    with SummaryWriter(str(board)) as again:
        again.add_scalar("other", 1.0, 5)
    assert find_run(board) == run
    reader.poll()
    assert reader.names() == ["other"]
    assert read_label(run).name == "mine"


def test_a_reader_keeps_it_up_to_date_and_stops_when_it_is_not_asked(
    board: Path, writer: SummaryWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "POLL_EVERY", 0.01)
    monkeypatch.setattr(mirrors, "LOOKED_AT", 0.5)
    reader = RunReader(find_run(board))
    write(writer, range(20, 30))
    wait_for(lambda: reader.poll() and len(reader.series("loss")) == 30)
    wait_for(lambda: not mirrors._threads)


def test_a_run_of_somebody_else_that_claims_to_be_a_mirror_is_none(tmp_path: Path, board: Path, writer: object) -> None:
    theirs = tmp_path / "runs" / "theirs"
    theirs.mkdir(parents=True)
    run = find_run(board)
    for path in run.iterdir():
        (theirs / path.name).write_bytes(path.read_bytes())
    assert mirror_at(run) is not None
    assert mirror_at(theirs) is None
    said = orjson.loads((run / mirrors.STATE).read_bytes())
    (run / mirrors.STATE).write_bytes(orjson.dumps(said | {"path": "/etc"}))
    assert mirror_at(run) is None


def test_a_mirror_is_not_deleted_as_a_run(board: Path, writer: object, tmp_path: Path) -> None:
    run = find_run(board)
    with pytest.raises(LabError, match="not deleted"):
        delete_run(run, tmp_path / "runs")


def test_mirrors_of_logs_that_are_long_gone_are_deleted(board: Path, writer: SummaryWriter) -> None:
    run = find_run(board)
    os.utime(run, (1, 1))
    mirrors.forget_old()
    assert run.exists()
    writer.close()
    for path in board.iterdir():
        path.unlink()
    board.rmdir()
    mirrors.forget_old()
    assert not run.parent.exists()


def test_of_several_runs_the_one_written_last_is_opened_and_said(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "old/deep", "older")):
        with SummaryWriter(str(tmp_path / "board" / name)) as writer:
            writer.add_scalar("loss", age, 1)
        (file,) = (tmp_path / "board" / name).glob("events*")
        os.utime(file, (time.time() - 100 * age,) * 2)
    with pytest.warns(Guess, match="3 runs"):
        assert losses(find_run(tmp_path / "board")) == [(1, 0.0)]


def test_logs_are_found_below_a_folder_but_not_in_runs_links_or_too_deep(
    tmp_path: Path, board: Path, writer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "board"
    (file,) = board.iterdir()
    for place in ("lightning_logs/version_0", "ours", ".hidden", "a/b/c/d/e/f/g/h"):
        (root / place).mkdir(parents=True)
    (root / "lightning_logs/version_0/metrics.csv").write_text("step,loss\n1,2\n")
    (root / "ours/run.json").write_text("{}")
    for place in ("ours", ".hidden", "a/b/c/d/e/f/g/h"):
        (root / place / file.name).write_bytes(file.read_bytes())
    (root / "link").symlink_to(board)
    (root / "fifo").mkdir()
    os.mkfifo(root / "fifo" / file.name)
    (root / "some.db").write_bytes(b"no database")
    found = {(log.program, log.name) for log in logs_under(root)}
    assert found == {("tensorboard", "board/train"), ("lightning", "lightning_logs/version_0")}
    assert [log.path for log in logs_at(board / file.name)] == [board]

    monkeypatch.setattr("txlab.runs.foreign.finding.MOST_ENTRIES", 2)
    assert len(logs_under(root)) < 2


def test_the_usual_places_of_the_current_folder_are_searched(
    tmp_path: Path, board: Path, writer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    board.parent.rename(tmp_path / "runs")
    root = tmp_path / "elsewhere"
    (log,) = found_logs(root)
    assert log.name == "train"
    assert with_logs(root, [log]) == [mirror_path(log)]
    assert losses(find_run("train", root)) == EXPECTED
    write_label(mirror_path(log), "the best")
    assert find_run("the best", root) == mirror_path(log)
    with pytest.raises(LabError, match="there is no run 'nothing'"):
        find_run("nothing", root)


def test_a_database_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    file.write_bytes(b"no database")
    with pytest.raises(LabError, match=r"x.db cannot be read: it is not a database of trackio"):
        find_run(file)


def test_a_mirror_has_the_entries_of_a_run_and_is_misplaced_nowhere(board: Path, writer: object) -> None:
    assert RunDirectory(find_run(board)).misplaced() == ""
