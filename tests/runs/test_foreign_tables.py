"""Any table, the Trainer's states, MLflow's stores, and W&B's step metrics and media: read whole, bounded, and safe."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from test_foreign_formats import field, history, needs, read_all, run_script, same, values_of, wandb_file

from txlab.errors import LabError
from txlab.runs.events import Replaced
from txlab.runs.external_logs import media
from txlab.runs.external_logs.finding import at_path, logs_at, logs_in, logs_under
from txlab.runs.external_logs.mlflow import MLflowDatabase, MLflowFolder
from txlab.runs.external_logs.tables import TableLog, TrainerLog
from txlab.runs.external_logs.weights_and_biases import WandbLog
from txlab.runs.finding import find_run
from txlab.runs.frames import FrameIndex
from txlab.runs.reader import RunReader


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


# Tables

SHAPES = {  # text, x, the rows that are right
    "step,loss,acc\n1,0.5,\n2,0.25,0.75\n": [(1, {"loss": 0.5}), (2, {"loss": 0.25, "acc": 0.75})],
    "time/iterations\ttime/total_timesteps\tloss\n1\t2048\t0.5\n": [(2048, {"time/iterations": 1, "loss": 0.5})],
    "epoch; train loss; note\n3; 0.5; good\n": [(3, {"train loss": 0.5})],
    "step,loss\nx,0.5\n2,0.25\n": [(2, {"loss": 0.25})],
    ",accuracy\n7,0.5\n8,0.75\n": [(7, {"accuracy": 0.5}), (8, {"accuracy": 0.75})],
    "accuracy,f1\n0.5,0.25\n0.75,0.5\n": [(0, {"accuracy": 0.5, "f1": 0.25}), (1, {"accuracy": 0.75, "f1": 0.5})],
    '#{"t_start": 1.0, "env_id": "CartPole"}\nr,l,t\n21.0,21,0.5\n30.0,30,0.9\n': [
        *[(0, {"r": 21.0, "l": 21.0, "t": 0.5}), (1, {"r": 30.0, "l": 30.0, "t": 0.9})]
    ],
    "Wall time,Step,Value\n1770000000.5,10,0.5\n1770000001.5,20,nan\n": [
        (10, {"Value": 0.5}),
        (20, {"Value": math.nan}),
    ],
    '{"step": 5, "train": {"loss": 0.5}, "msg": "x"}\n{"step": 6, "eval": {"loss": 0.7}}\nno JSON\n': [
        *[(5, {"train.loss": 0.5}), (6, {"eval.loss": 0.7})]
    ],
    '{"iter": 20, "lr": 0.1}\n{"epoch": 1, "iter": 40, "lr": 0.2}\n{"mAP": 0.5, "iter": 40}\n': [
        *[(20, {"lr": 0.1}), (40, {"epoch": 1.0, "lr": 0.2}), (40, {"mAP": 0.5})]
    ],
}


def rows(logged: list[Any]) -> list[tuple[int, dict[str, float]]]:
    return [(step, values) for event, step, _, values in logged if event == "metrics"]


@pytest.mark.parametrize("text", SHAPES, ids=lambda text: text.split("\n")[0][:30])
def test_a_table_of_any_shape_is_read_by_the_column_that_counts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text)
    assert repr(rows(read_all(TableLog(path)))) == repr(
        [(n, {k: float(v) for k, v in r.items()}) for n, r in SHAPES[text]]
    )


def test_the_column_of_the_step_may_be_named_and_the_choice_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("step,frame,loss\n1,100,0.5\n2,200,0.25\n")

    def steps(**how: Any) -> list[int]:
        reader = RunReader(find_run(path, **how))
        reader.poll()
        return [int(step) for step in reader.series("loss").steps]

    assert steps() == [1, 2]
    assert steps(x="frame") == [100, 200]
    assert steps() == [100, 200]
    with path.open("a") as file:
        file.write("3,300,0.125\n")
    assert steps() == [100, 200, 300]
    assert steps(x="") == [1, 2, 3]
    with pytest.raises(LabError, match=r"no column 'fram' \(nearest: frame\)"):
        find_run(path, x="fram")


def test_unix_times_date_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"step": 1, "timestamp": 1770000000.25, "loss": 0.5}\n')
    assert read_all(TableLog(path)) == [("metrics", 1, 1770000000.25, {"loss": 0.5})]


def test_tables_that_programs_write_are_found_and_others_only_by_their_path(tmp_path: Path) -> None:
    for name in ("sb3/progress.csv", "yolo/results.csv", "data/prices.csv", "d2/metrics.json"):
        path = tmp_path / "runs" / name
        path.parent.mkdir(parents=True)
        path.write_text('{"iteration": 1, "loss": 0.5}\n' if name.endswith("json") else "step,loss\n1,0.5\n")
    assert {log.path.name for log in logs_under(tmp_path / "runs")} == {"progress.csv", "results.csv", "metrics.json"}
    assert [log.program for log in logs_at(tmp_path / "runs/data/prices.csv")] == ["table"]


def test_the_output_of_a_program_is_no_log_and_the_sentence_names_watch(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1 loss 0.5\n")
    with pytest.raises(LabError, match=r"txlab watch --file train\.log"):
        find_run("train.log")


HOSTILE = [
    b"step,loss\n" + b"1," * 200_000 + b"\n2,0.5\n",
    b"step,loss\n1e999,1\nnan,2\n-5,3\n9223372036854775808,4\n2,0.5\n",
    b'{"step": 1' + b', "a": {' * 5000 + b"}" * 5000 + b'}\n{"step": 2, "loss": 0.5}\n',
    b'{"step": ' + b"9" * 6000 + b', "loss": 1}\n{"step": 2, "loss": 0.5}\n',
    b"step,loss\n\xff\xfe,1\n\x01\x02\n2,0.5\n",
    b'step,"lo\nss"\n2,0.5\n',
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_tables_cost_their_own_lines_only(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.csv"
    path.write_bytes(content)
    log = TableLog(path)
    found = rows(read_all(log))
    assert (2, 0.5) in [(step, value) for step, values in found for value in values.values()]
    assert all(-1 <= step <= 2**62 for step, _ in found)


# The Trainer


def state(folder: Path, *history: dict[str, Any], **about: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": list(history), "max_steps": 30, **about}))


def test_a_folder_of_the_trainer_is_one_run_whose_newest_checkpoint_has_its_history(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "out"
    entries = [{"step": n, "epoch": n / 10, "loss": math.nan if n == 20 else 1 / n} for n in (10, 20, 30)]
    state(out / "checkpoint-10", entries[0])
    os.utime(out / "checkpoint-10" / "trainer_state.json", (1e9, 1e9))
    state(out / "checkpoint-20", *entries[:2])
    (log,) = logs_under(tmp_path / "runs")
    assert (log.program, log.path) == ("trainer", out)
    reader = TrainerLog(out)
    assert same(values_of(read_all(reader), "loss"), [(10, 0.1), (20, math.nan)])
    assert reader.about.config["max_steps"] == 30
    state(out, *entries, {"step": 30, "train_runtime": 1.5})
    later = read_all(TrainerLog(out, reader.position))
    assert [(step, values) for _, step, _, values in later] == [
        (30, {"epoch": 3.0, "loss": 1 / 30}),
        (30, {"train_runtime": 1.5}),
    ]
    assert [log.path for log in logs_at(out / "checkpoint-20")] == [out / "checkpoint-20"]
    state(out, entries[0])
    with pytest.raises(Replaced):
        TrainerLog(out, reader.position).read()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"log_history": 3}', '{"log_history": [3, {"step": "x"}, {"step": true}]}']
)
def test_a_state_that_is_half_written_or_something_else_is_no_row(tmp_path: Path, content: str) -> None:
    (tmp_path / "trainer_state.json").write_text(content)
    assert not read_all(TrainerLog(tmp_path))


# MLflow

MLFLOW = """
import mlflow, sys
mlflow.set_tracking_uri(URI)
mlflow.set_experiment("demo")
with mlflow.start_run(run_name="first"):
    mlflow.log_params({"lr": 1e-3})
    for step in range(25):
        mlflow.log_metric("train/loss", 1 / (step + 1), step=10 * step)
    mlflow.log_metric("odd", float("nan"), step=3)
"""


@pytest.mark.evidence
@pytest.mark.parametrize("store", ["file", "sqlite"])
def test_what_mlflow_logged_is_read_whole(tmp_path: Path, store: str) -> None:
    needs("mlflow")
    uri = f"file://{tmp_path}/mlruns" if store == "file" else f"sqlite:///{tmp_path}/mlflow.db"
    run_script(MLFLOW.replace("URI", repr(uri)), tmp_path, MLFLOW_ALLOW_FILE_STORE="true", GIT_PYTHON_REFRESH="quiet")
    (log,) = logs_under(tmp_path / "mlruns") if store == "file" else logs_in(tmp_path / "mlflow.db")
    reader: Any = MLflowFolder(log.path) if store == "file" else MLflowDatabase(log.path, log.part)
    logged = read_all(reader)
    assert same(values_of(logged, "train/loss"), [(10 * step, 1 / (step + 1)) for step in range(25)])
    assert same(values_of(logged, "odd"), [(3, math.nan)])
    assert (reader.about.name, reader.about.status, reader.about.config) == ("demo/first", "done", {"lr": "0.001"})


def stored(folder: Path, **metrics: str) -> Path:
    """A run of the file store."""
    (folder / "params").mkdir(parents=True)
    (folder / "meta.yaml").write_text("run_name: first\nstatus: 1\nstart_time: 1770000000000\n")
    for name, lines in metrics.items():
        path = folder / "metrics" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lines)
    return folder


def test_a_run_of_mlflows_file_store_is_read_as_it_grows(tmp_path: Path) -> None:
    folder = stored(
        tmp_path / "mlruns/1/ab12", train__loss="1770000001000 0.5 1\n1770000002000 0.25 2\n17700000", acc="x\n"
    )
    (tmp_path / "outside").write_text("1770000001000 9 1\n")
    (folder / "metrics" / "linked").symlink_to(tmp_path / "outside")
    (folder / "params" / "lr").write_text("0.1")
    log = MLflowFolder(folder)
    assert values_of(read_all(log), "train/loss") == [(1, 0.5), (2, 0.25)]
    assert log.about.config == {"lr": "0.1"}
    assert log.about.left_out == {"lines of MLflow that are no metrics": 1}
    with (folder / "metrics/train/loss").open("a") as file:
        file.write("03000 0.125 3\n")
    again = MLflowFolder(folder, json.loads(json.dumps(log.position)))
    assert read_all(again) == [("metrics", 3, 1770000003.0, {"train/loss": 0.125})]


def test_a_database_of_mlflow_is_read_run_by_run(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    with sqlite3.connect(path) as database:
        database.executescript("""
            CREATE TABLE experiments (experiment_id, name);
            CREATE TABLE runs (run_uuid, name, status, start_time, lifecycle_stage, experiment_id);
            CREATE TABLE params (key, value, run_uuid);
            CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan);
            INSERT INTO experiments VALUES (1, 'demo');
            INSERT INTO runs VALUES ('aaaa', 'first', 'FAILED', 1770000000000, 'active', 1),
                ('bbbb', 'first', 'RUNNING', 1, 'active', 1), ('cccc', 'gone', 'RUNNING', 1, 'deleted', 1);
            INSERT INTO metrics VALUES ('loss', 0.5, 1770000001000, 'aaaa', 10, 0),
                ('loss', 0, 1770000002000, 'aaaa', 20, 1), ('loss', 'x', 1, 'aaaa', 30, 0),
                ('loss', 9, 1, 'bbbb', 1, 0), ('loss', 9, 1, 'cccc', 1, 0);
        """)
    assert [log.part for log in logs_in(path)] == ["first aaaa", "first bbbb"]
    log = MLflowDatabase(path, "first aaaa")
    assert same(values_of(read_all(log), "loss"), [(10, 0.5), (20, math.nan)])
    assert (log.about.name, log.about.status) == ("demo/first", "failed")
    assert log.about.left_out == {"rows of MLflow that are no metrics": 1}


# W&B


def defined(name: str, axis: str) -> bytes:
    return field(12, (field(2, name.encode()) if "*" in name else field(1, name.encode())) + field(4, axis.encode()))


def test_the_step_of_wandb_is_the_metric_that_define_metric_or_global_step_names(tmp_path: Path) -> None:
    records = [defined("val/*", "epoch"), defined("train/kl", "train/update")]
    for step in range(6):
        records.append(
            history(3 * step, loss=0.5, **{"train/global_step": 10 * step, "train/kl": 1.0, "train/update": step})
        )
        records.append(history(3 * step + 1, **{"val/acc": 0.25, "epoch": step // 2}))
        records.append(history(3 * step + 2, alone=2.0))
    path = tmp_path / "run-a.wandb"
    path.write_bytes(wandb_file(records))
    logged = read_all(WandbLog(path))
    steps = {name: [step for step, _ in values_of(logged, name)] for name in ("loss", "train/kl", "val/acc", "alone")}
    tens = list(range(0, 60, 10))
    assert steps == {"loss": tens, "train/kl": list(range(6)), "val/acc": [0, 0, 1, 1, 2, 2], "alone": tens}
    assert max(step for _, step, _, _ in logged) == 50
    assert not values_of(logged, "train/global_step")


def png(width: int, height: int, told: tuple[int, int] | None = None) -> bytes:
    """A grey picture; `told` is the size that its header claims."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", *(told or (width, height)), 8, 0, 0, 0, 0)
    lines = (b"\0" + bytes(place % 256 for place in range(width))) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def media_row(step: int, name: str, **content: Any) -> bytes:
    values = {f"{name}.{key}": value for key, value in content.items()}
    return history(step, **{key.replace("kind", "_type"): value for key, value in values.items()})


def test_pictures_histograms_and_tables_of_wandb_are_shown_at_their_steps(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    folder = tmp_path / "wandb" / "offline-run-1"
    (folder / "files/media").mkdir(parents=True)
    (folder / "files/media/a.png").write_bytes(png(6, 4))
    (folder / "files/media/t.json").write_text('{"columns": ["q", "a"], "data": [[1, "yes"], [20, "no\\u001b[31m"]]}')
    (folder / "run-a.wandb").write_bytes(
        wandb_file([
            history(0, loss=0.5),
            media_row(7, "im", kind="image-file", path="media/a.png", width=6, size=100),
            media_row(7, "h", kind="histogram", values=[1, 2, 5], bins=[0, 1, 2, 3]),
            media_row(8, "t", kind="table-file", path="media/t.json", nrows=2),
            media_row(9, "ims", kind="images/separated", filenames=["media/a.png"] * 20, count=20),
        ])
    )  # fmt: skip
    path = find_run(folder)
    index = FrameIndex(path / "frames")
    index.refresh()
    frame = index.read(7)
    assert frame.tensors["image/im"].tolist() == [list(range(6))] * 4
    assert frame.tensors["histogram/h"].tolist() == [1, 2, 5]
    assert frame.facts["histogram"]["h"] == [0.0, 3.0, 0.0]
    assert len(index.read(9).tensors) == 8
    reader = RunReader(path)
    reader.poll()
    (sample,) = reader.rows("sample")
    assert sample["text"].splitlines()[:2] == ["q   a", "1   yes"]
    assert reader.names("metrics") == ["loss"]


@pytest.mark.parametrize(
    "path",
    [
        "../../secret",
        "/etc/passwd",
        "media/link",
        "media/huge.png",
        "media/bomb.png",
        "media/large.png",
        "media/none",
        3,
        None,
    ],
)
def test_media_of_wandb_outside_their_folder_or_too_large_are_left_out(tmp_path: Path, path: Any) -> None:
    files = tmp_path / "files" / "media"
    files.mkdir(parents=True)
    (tmp_path / "secret").write_bytes(png(2, 2))
    (files / "link").symlink_to(tmp_path / "secret")
    (files / "huge.png").write_bytes(b"\0" * 100)
    os.truncate(files / "huge.png", 1 << 30)
    (files / "large.png").write_bytes(png(5000, 5000))
    (files / "bomb.png").write_bytes(png(2, 2, told=(60_000, 60_000)))
    log = WandbLog(tmp_path / "run-a.wandb")
    log.path.write_bytes(wandb_file([media_row(1, "im", kind="image-file", path=path), history(2, loss=0.5)]))
    logged = read_all(log)
    assert [event for event, *_ in logged] == ["metrics"]
    assert sum(log.about.left_out.values()) == 1


@pytest.mark.parametrize(
    ("counts", "edges"),
    [
        ([1, 2], [0, 1]),
        ([1, math.nan], [0, 1, 2]),
        ([1, 2], [0, 0, 0]),
        ([1, 2], [0, 1, 9]),
        ([], [0]),
        ([1] * 600, range(601)),
        (3, 4),
    ],
)
def test_a_histogram_that_is_none_is_refused(counts: Any, edges: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        media.histogram("h", counts, edges)


def test_a_long_table_is_cut_and_says_so() -> None:
    text = media.table_text(["a"], [[n] for n in range(200)])
    assert text.endswith("… 150 more rows")
    assert len(text) < 1000


# Folders


def test_a_folder_named_exactly_is_its_own_run_although_a_run_inside_it_was_written_later(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("tensorboardX")
    with tensorboard.SummaryWriter(str(tmp_path / "board/run")) as writer:
        for step in range(5):
            writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_hparams({"lr": 0.1}, {"best": 0.2}, name="trial")
    for file in (tmp_path / "board/run").glob("events*"):
        os.utime(file, (1e9, 1e9))
    path = at_path(str(tmp_path / "board/run"), math.inf)
    assert path is not None
    reader = RunReader(path)
    reader.poll()
    assert "loss" in reader.names("metrics")


def test_a_step_column_is_refused_for_what_is_no_table(tmp_path: Path) -> None:
    stored(tmp_path / "ab12", loss="1 2 3\n")
    with pytest.raises(LabError, match="--x"):
        find_run(tmp_path / "ab12", x="step")
