"""A mirror of another program's log is an ordinary run, is right after any interruption, and writes nothing there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from waiting import wait_for

from txlab.errors import Guess, LabError
from txlab.runs.directory import RunDirectory, RunInfo, state_of
from txlab.runs.events import read_rows
from txlab.runs.export import live_rows
from txlab.runs.external_logs import mirror as mirrors
from txlab.runs.external_logs.finding import find_logs, logs_at, logs_under, with_logs
from txlab.runs.external_logs.log import ExternalLog
from txlab.runs.external_logs.mirror import Mirror, mirror_at, mirror_path
from txlab.runs.finding import find_run
from txlab.runs.folder import delete_run
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


def only_log(folder: Path) -> ExternalLog:
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


def test_additions_are_read_once_by_any_reader(board: Path, writer: SummaryWriter) -> None:
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
def test_a_garbled_state_restarts(board: Path, writer: SummaryWriter, garbage: bytes) -> None:
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


def test_a_foreign_run_that_claims_to_be_a_mirror_is_not_one(tmp_path: Path, board: Path, writer: object) -> None:
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

    monkeypatch.setattr("txlab.runs.external_logs.finding.MOST_ENTRIES", 2)
    assert len(logs_under(root)) < 2


def test_the_usual_places_of_the_current_folder_are_searched(
    tmp_path: Path, board: Path, writer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    board.parent.rename(tmp_path / "runs")
    root = tmp_path / "elsewhere"
    (log,) = find_logs(root)
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
    assert RunDirectory(find_run(board)).find_misplaced() == ""


def notes(run: Path) -> list[str]:
    reader = RunReader(run)
    reader.poll()
    return [row["text"] for row in reader.rows("note")]


def test_a_scalar_at_a_negative_step_is_left_out_with_a_word(board: Path, writer: SummaryWriter) -> None:
    write(writer, range(-7, 3))
    mirror = Mirror(only_log(board))
    assert mirror.update()
    assert losses(mirror.path)[0][0] == -1
    assert [note.partition(", first ")[0] for note in notes(mirror.path)] == [
        "left out: values at steps below -1 or beyond 2^62"
    ]
    assert " at -7" in notes(mirror.path)[0]
    assert "values at steps below -1" in RunInfo.load(mirror.path).reason
    assert Mirror(only_log(board)).update()  # another process says it no second time
    assert len(notes(mirror.path)) == 1


def test_omitted_content_of_tensorboard_is_reported(board: Path, writer: SummaryWriter) -> None:
    histogram = HistogramProto(min=0, max=1, num=1, bucket_limit=[1.0], bucket=[1.0])
    several = TensorProto(dtype=1, tensor_shape=None, float_val=[1.0, 2.0])
    for value in (Summary.Value(tag="weights", histo=histogram), Summary.Value(tag="several", tensor=several)):
        writer.add_event(Event(wall_time=1.7e9, step=0, summary=Summary(value=[value])))
    writer.flush()
    mirror = Mirror(only_log(board))
    assert mirror.update()
    assert notes(mirror.path) == [
        "left out: pictures and histograms of TensorBoard, first weights",
        "left out: tensors of TensorBoard, first several",
    ]


CONFIGURATION = b"""
seed: 1180591620717411303424
digits: %d
set: !!set {1, 2}
bytes: !!binary aGVsbG8=
betas: !!python/tuple [0.9, 0.999]
object: !!python/object:argparse.Namespace {width: 3}
when: 2020-01-31
nan: .nan
"a.b": 1
a: {b: 2}
1: one
? [1, 2]
: pair
"""


def test_every_setting_of_a_yaml_file_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "lightning_logs" / "version_0"
    folder.mkdir(parents=True)
    (folder / "hparams.yaml").write_bytes(CONFIGURATION % 10**4000)
    (folder / "metrics.csv").write_text("step,loss,word\n-5,1,\n1,0.5,\n2,0.25,late\n")
    mirror = Mirror(only_log(folder))
    assert mirror.update()
    config = RunInfo.load(mirror.path).config
    assert config["seed"] == str(2**70)
    assert config["betas"] == [0.9, 0.999]
    assert config["object.width"] == 3
    assert (config["bytes"], config["when"], config["nan"]) == ("aGVsbG8=", "2020-01-31", "NaN")
    assert sorted((config["a.b"], config["a.b (2)"])) == [1, 2]
    assert {"set.1", "set.2", "1", "[1, 2]", "digits"} <= config.keys()
    assert "[config.object]" in (mirror.path / "scenario.toml").read_text()
    assert losses(mirror.path) == [(1, 0.5), (2, 0.25)]
    said = " ".join(notes(mirror.path))
    assert "loss at -5" in said
    assert "word = late" in said


def test_a_yaml_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "lightning_logs" / "version_0"
    folder.mkdir(parents=True)
    (folder / "hparams.yaml").write_text("[" * 5000)
    (folder / "metrics.csv").write_text("step,loss\n1,0.5\n")
    mirror = Mirror(only_log(folder))
    assert mirror.update()
    assert "hparams.yaml cannot be read" in RunInfo.load(mirror.path).reason
