"""W&B's, trackio's and Lightning's logs: every number that their own packages logged is read, and a file that is cut,
damaged or hostile is a sentence, never an exception or a lost log."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import random
import sqlite3
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from txlab.runs.events import Replaced
from txlab.runs.external_logs import databases, weights_and_biases
from txlab.runs.external_logs.finding import logs_in
from txlab.runs.external_logs.log import Logged, LogReader
from txlab.runs.external_logs.tables import TableLog
from txlab.runs.external_logs.trackio import TrackioLog
from txlab.runs.external_logs.weights_and_biases import BLOCK, WandbLog

WANDB = """
import math, wandb
run = wandb.init(project="demo", name="quiet-river", config={"lr": 1e-3, "model": {"width": 128}}, tags=["a", "b"],
                 group="g", notes="a note")
for step in range(300):
    row = {"train/loss": math.nan if step == 7 else 1 / (step + 1), "lr": 1e-3}
    if step % 50 == 0:
        row |= {"val": {"loss": step / 10}, "histogram": wandb.Histogram([1, 2, 3]), "text": "no number", "flag": True}
    run.log(row)
run.summary["best"] = 0.25
run.finish(exit_code=EXIT)
"""
TRACKIO = """
import math, trackio
trackio.init(project="demo", name="first", config={"lr": 1e-3}, auto_log_gpu=False)
for step in range(300):
    trackio.log({"loss": math.nan if step == 3 else 1 / (step + 1), "val": {"loss": math.inf if step == 4 else step}})
trackio.finish()
trackio.init(project="demo", name="second", auto_log_gpu=False)
for step in range(20):
    trackio.log({"loss": step}, step=10 * step)
trackio.finish()
"""
LIGHTNING = """
from lightning.pytorch.loggers import CSVLogger
logger = CSVLogger(".", flush_logs_every_n_steps=7)
logger.log_hyperparams({"lr": 0.1, "model": {"width": 3}})
for step in range(40):
    logger.log_metrics({"train_loss": 1 / (step + 1), "epoch": step // 10}, step)
    if step % 10 == 9:
        logger.log_metrics({"val_loss": step / 10}, step)
logger.save()
"""


def run_script(script: str, folder: Path, **environment: str) -> None:
    subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=os.environ | environment, check=True, capture_output=True
    )


def needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def read_all(log: LogReader) -> list[Logged]:
    found: list[Logged] = []
    log.mark()
    while (slice_ := log.read()) is not None:
        found += slice_
    return found


def values_of(logged: list[Logged], name: str) -> list[tuple[int, float]]:
    return [(step, said[name]) for event, step, _, said in logged if event == "metrics" and name in said]


def same(found: list[tuple[int, float]], expected: list[tuple[int, float]]) -> bool:
    """Equality in which NaN equals NaN."""
    return repr(found) == repr([(step, float(value)) for step, value in expected])


# The packages themselves


@pytest.mark.parametrize("code", [0, 3])
def test_what_wandb_logged_offline_is_read_whole(tmp_path: Path, code: int) -> None:
    needs("wandb")
    run_script(WANDB.replace("EXIT", str(code)), tmp_path, WANDB_MODE="offline", WANDB_SILENT="true")
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    log = WandbLog(file)
    logged = read_all(log)
    losses = [(s, math.nan if s == 7 else 1 / (s + 1)) for s in range(300)]
    assert same(values_of(logged, "train/loss"), losses)
    assert same(values_of(logged, "lr"), [(s, 1e-3) for s in range(300)])
    assert same(values_of(logged, "val.loss"), [(s, s / 10) for s in range(0, 300, 50)])
    assert values_of(logged, "best") == [(299, 0.25)]  # of the summary only
    names = {name for event, _, _, said in logged if event == "metrics" for name in said}
    assert names == {"train/loss", "lr", "val.loss", "best"}
    times = [when for event, _, when, _ in logged if event == "metrics"]
    assert times == sorted(times)
    about = log.about
    assert about.config == {"lr": 1e-3, "model": {"width": 128}}
    assert (about.name, about.group, about.note, about.tags) == ("demo/quiet-river", "g", "a note", ["a", "b"])
    assert (about.status, about.reason) == (("failed", "exit status 3") if code else ("done", ""))
    assert not about.problem


def test_a_log_of_trackio_is_read_completely_and_nothing_is_written_next_to_it(tmp_path: Path) -> None:
    needs("trackio")
    run_script(TRACKIO, tmp_path, TRACKIO_DIR=str(tmp_path / "home"))
    file = tmp_path / "home" / "demo.db"
    before = sorted((path.name, path.stat().st_mtime_ns) for path in file.parent.iterdir())
    logs = {log.part: log for log in logs_in(file)}
    assert logs.keys() == {"first", "second"}
    log = TrackioLog(file, "first")
    logged = read_all(log)
    assert same(values_of(logged, "loss"), [(s, math.nan if s == 3 else 1 / (s + 1)) for s in range(300)])
    assert same(values_of(logged, "val.loss"), [(s, math.inf if s == 4 else s) for s in range(300)])
    assert log.about.config == {"lr": 1e-3}
    assert same(values_of(read_all(TrackioLog(file, "second")), "loss"), [(10 * s, s) for s in range(20)])
    assert sorted((path.name, path.stat().st_mtime_ns) for path in file.parent.iterdir()) == before


def test_what_lightning_logged_is_read_whole(tmp_path: Path) -> None:
    needs("lightning")
    run_script(LIGHTNING, tmp_path)
    log = TableLog(tmp_path / "lightning_logs" / "version_0" / "metrics.csv")
    logged = read_all(log)
    assert same(values_of(logged, "train_loss"), [(s, 1 / (s + 1)) for s in range(40)])
    assert same(values_of(logged, "val_loss"), [(s, s / 10) for s in range(9, 40, 10)])
    assert log.about.config == {"lr": 0.1, "model": {"width": 3}}


# W&B's format, written here as LevelDB's log format says


def item(key: bytes, told: bytes) -> bytes:
    return field(2, key) + field(16, told)


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    found = b""
    while value >= 0x80:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def history(step: int, **values: Any) -> bytes:
    items = {"_step": step, "_timestamp": 1.7e9 + step, **values}
    return field(2, b"".join(field(1, item(name.encode(), json.dumps(v).encode())) for name, v in items.items()))


def wandb_file(records: list[bytes]) -> bytes:
    data = b":W&B\xe1\xbe\x00"
    for record in records:
        first = True
        while True:
            left = BLOCK - len(data) % BLOCK
            if left < 7:
                data += bytes(left)
                continue
            piece, record = record[: left - 7], record[left - 7 :]
            kind = (1 if not record else 2) if first else (4 if not record else 3)
            body = bytes([kind]) + piece
            data += struct.pack("<IH", zlib.crc32(body), len(piece)) + body
            first = False
            if not record:
                break
    return data


ROWS = [history(step, loss=step / 2, note="x" * 900) for step in range(200)]


def losses(logged: list[Logged]) -> list[tuple[int, float]]:
    return values_of(logged, "loss")


def test_a_wandb_row_without_a_finite_step_or_time_is_left_out(tmp_path: Path) -> None:
    rows = [history(0, loss=1.0)]
    for name in ("_step", "_timestamp"):
        for told in (b"Infinity", b"-Infinity", b"NaN", b"1e999"):
            items = {"_step": b"1", "_timestamp": b"1.7e9", "loss": b"2", name: told}
            rows.append(field(2, b"".join(field(1, item(key.encode(), value)) for key, value in items.items())))
    file = tmp_path / "run-a.wandb"
    file.write_bytes(wandb_file([*rows, history(2, loss=3.0)]))
    log = WandbLog(file)
    assert values_of(read_all(log), "loss") == [(0, 1.0), (2, 3.0)]
    assert sum(log.about.left_out.values()) == 8


def test_values_of_wandb_whose_names_are_written_alike_are_all_kept(tmp_path: Path) -> None:
    nested = field(2, b"a") + field(2, b"b")
    row = [item(b"_step", b"3"), item(b"_timestamp", b"1.7e9"), item(b"a.b", b"1"), nested + field(16, b"2")]
    settings = [item(b"a.b", b"3"), nested + field(16, b"4"), item(b"a.b", b"5")]
    file = tmp_path / "run-a.wandb"
    file.write_bytes(wandb_file([field(2, b"".join(field(1, each) for each in row))]))
    logged = read_all(WandbLog(file))
    assert (values_of(logged, "a.b"), values_of(logged, "a.b (2)")) == ([(3, 1.0)], [(3, 2.0)])
    log = WandbLog(file)
    log.configure(b"".join(field(1, each) for each in settings))
    assert log.about.config == {"a.b": 5, "a.b (2)": 4}


def test_a_growing_wandb_file_gives_every_row_once_wherever_it_was_cut(tmp_path: Path) -> None:
    whole = wandb_file([*ROWS[:40], history(40, loss=20.0, note="y" * 100_000), *ROWS[41:]])
    file = tmp_path / "run-a.wandb"
    rng = random.Random(1)
    near = [BLOCK * n + d for n in range(1, 5) for d in range(-9, 9)]
    for cut in [*range(0, 60), *near, *(rng.randrange(len(whole)) for _ in range(60))]:
        file.write_bytes(whole[:cut])
        log = WandbLog(file)
        found = read_all(log)
        file.write_bytes(whole)
        found += read_all(log if cut % 2 else WandbLog(file, json.loads(json.dumps(log.position))))
        assert losses(found) == [(step, step / 2) for step in range(200)], cut


def test_a_damaged_block_of_wandb_costs_its_rows_only(tmp_path: Path) -> None:
    data = bytearray(wandb_file(ROWS))
    data[BLOCK + 5000] ^= 255
    file = tmp_path / "run-a.wandb"
    file.write_bytes(data)
    log = WandbLog(file)
    found = losses(read_all(log))
    assert 160 < len(found) < 200
    assert found[0] == (0, 0.0)
    assert found[-1] == (199, 99.5)
    assert "damaged block" in log.about.problem


def test_mutated_wandb_files_give_only_rows_that_were_written(tmp_path: Path) -> None:
    whole, good = wandb_file(ROWS), {(step, step / 2) for step in range(200)}
    file = tmp_path / "run-a.wandb"
    rng = random.Random(2)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 5)):
            place = rng.randrange(len(data))
            if rng.random() < 0.7:
                data[place] = rng.randrange(256)
            else:
                del data[place : place + rng.randrange(2000)]
        file.write_bytes(data)
        assert set(losses(read_all(WandbLog(file)))) <= good


def test_records_of_wandb_with_wrong_contents_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "run-a.wandb"
    rng = random.Random(4)
    for _ in range(300):
        data = bytearray(history(1, a=1.5))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        file.write_bytes(wandb_file([bytes(data), history(5, b=2.0)]))
        assert values_of(read_all(WandbLog(file)), "b") == [(5, 2.0)]


def test_a_file_that_is_none_of_wandb_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "run-a.wandb"
    file.write_bytes(b"\x00" * 100_000)
    log = WandbLog(file)
    assert read_all(log) == []
    assert "is not a log of W&B" in log.about.problem


def test_a_record_that_is_too_long_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_and_biases, "SLICE", 2 * BLOCK)
    monkeypatch.setattr(weights_and_biases, "LARGEST_RECORD", 4 * BLOCK)
    file = tmp_path / "run-a.wandb"
    file.write_bytes(wandb_file([*ROWS[:3], history(3, loss=1.5, note="z" * 20 * BLOCK), *ROWS[4:9]]))
    assert losses(read_all(WandbLog(file))) == [(step, step / 2) for step in range(9) if step != 3]


# trackio's database, made here as its table is


def database(file: Path, rows: list[tuple[str, int, Any]], journal: str = "delete") -> sqlite3.Connection:
    found = sqlite3.connect(file, isolation_level=None)
    found.execute(f"PRAGMA journal_mode = {journal}")
    found.execute("PRAGMA synchronous = OFF")
    found.execute(
        "CREATE TABLE IF NOT EXISTS metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT, timestamp TEXT,"
        " run_name TEXT, step INTEGER, metrics TEXT)"
    )
    append(found, rows)
    return found


def append(found: sqlite3.Connection, rows: list[tuple[str, int, Any]]) -> None:
    found.execute("BEGIN")
    found.executemany(
        "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics)"
        " VALUES (?, '2026-01-01T00:00:00+00:00', ?, ?, ?)",
        [
            (f"id-of-{name}", name, step, json.dumps(said) if isinstance(said, dict) else said)
            for name, step, said in rows
        ],
    )
    found.execute("COMMIT")


def test_a_live_writer_is_followed_and_its_files_stay_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "p.db"
    writer = database(file, [("a", step, {"loss": step}) for step in range(3)], "wal")
    log = TrackioLog(file, "a")
    assert values_of(read_all(log), "loss") == [(0, 0.0), (1, 1.0), (2, 2.0)]
    before = sorted(path.name for path in tmp_path.iterdir())
    append(writer, [("b", 9, {"loss": 9}), ("a", 3, {"loss": 3})])
    assert values_of(read_all(log), "loss") == [(3, 3.0)]
    again = TrackioLog(file, "a", json.loads(json.dumps(log.position)))
    append(writer, [("a", 4, {"loss": 4})])
    assert values_of(read_all(again), "loss") == [(4, 4.0)]
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    writer.execute("DELETE FROM metrics")
    with pytest.raises(Replaced):
        read_all(again)
    writer.close()


def test_runs_of_one_name_are_distinguished(tmp_path: Path) -> None:
    writer = database(tmp_path / "p.db", [("a", 1, {"x": 1})])
    writer.execute("INSERT INTO metrics SELECT 9, 'other-id', timestamp, run_name, 2, metrics FROM metrics")
    parts = sorted(log.part for log in logs_in(tmp_path / "p.db"))
    assert parts == ["a id-of-a", "a other-id"]
    assert values_of(read_all(TrackioLog(tmp_path / "p.db", parts[1])), "x") == [(2, 1.0)]
    writer.close()


def test_hostile_databases_are_a_sentence_or_a_row_less(tmp_path: Path) -> None:
    file = tmp_path / "p.db"
    for content in (b"", b"SQLite format 3\x00" + bytes(5000), b"no database"):
        file.write_bytes(content)
        with pytest.raises(OSError, match=r"trackio|metrics"):
            logs_in(file)
    file.unlink()
    database(
        file,
        [("a", 1, "no json"), ("a", 2, {"x": 1e999}), ("a", 2**62 + 1, {"x": 1}), ("a", 3, {"x": True, "y": 10**400})],
    ).close()
    append_raw = sqlite3.connect(file, isolation_level=None)
    append_raw.execute("INSERT INTO metrics VALUES (77, x'ff', 5, x'fe', 'step', x'00')")
    append_raw.close()
    assert [said for _, _, _, said in read_all(TrackioLog(file, "a"))] == []
    assert logs_in(file)
    view = tmp_path / "v.db"
    made = sqlite3.connect(view)
    made.execute(
        "CREATE VIEW metrics AS SELECT 1 AS id,"
        " 'a' AS run_name, 'a' AS run_id, 1 AS step, '{}' AS metrics, 'x' AS timestamp"
    )
    made.close()
    with pytest.raises(OSError, match="no table of metrics"):
        logs_in(view)


def test_a_query_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p.db"
    database(file, [("a", step, {"x": 1}) for step in range(20_000)]).close()
    monkeypatch.setattr(databases, "PATIENCE", -1.0)
    with pytest.raises(OSError, match="interrupted"):
        logs_in(file)


def test_mutated_databases_raise_nothing_but_os_errors(tmp_path: Path) -> None:
    file = tmp_path / "p.db"
    database(file, [("a", step, {"loss": step}) for step in range(300)]).close()
    whole = file.read_bytes()
    rng = random.Random(8)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 20)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        file.write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
        try:
            read_all(TrackioLog(file, "a"))
        except (OSError, Replaced):
            continue


# Lightning's table


def test_a_rewritten_table_gives_every_row_once(tmp_path: Path) -> None:
    file = tmp_path / "metrics.csv"
    file.write_text("epoch,step,loss\n0,0,1.0\n0,1,nan\n")
    log = TableLog(file)
    found = read_all(log)
    file.write_text("epoch,step,loss\n0,0,1.0\n0,1,nan\n0,2,0.5\n0,3,0.2")  # the last line has not ended
    found += read_all(log)
    file.write_text("epoch,step,loss,val_loss\n0,0,1.0,\n0,1,nan,\n0,2,0.5,\n0,3,0.25,\n0,3,,9.0\n")
    found += read_all(log)
    again = TableLog(file, json.loads(json.dumps(log.position)))
    with file.open("a") as more:
        more.write("1,4,-inf,\n")
    found += read_all(again)
    assert same(values_of(found, "loss"), [(0, 1.0), (1, math.nan), (2, 0.5), (3, 0.25), (4, -math.inf)])
    assert values_of(found, "val_loss") == [(3, 9.0)]
    file.write_text("epoch,step,loss\n0,0,1.0\n")
    with pytest.raises(Replaced):
        read_all(again)


def test_hostile_tables_and_settings_are_read_as_far_as_they_are_right(tmp_path: Path) -> None:
    file = tmp_path / "metrics.csv"
    bomb = "a: &a [1,1]\n" + "".join(f"b{n}: &b{n} [*a,*a]\n" for n in range(3))
    for settings in (bomb, "!!python/object/apply:os.system ['touch /tmp/owned']", "[" * 5000, "\x00", "- 1"):
        (tmp_path / "hparams.yaml").write_text(settings)
        file.write_bytes(b'step,loss\n1,0.5\n"unclosed\n\xff,,,\n99999999999999999999999,1\n2,0.25\ninf,3\n')
        log = TableLog(file)
        assert values_of(read_all(log), "loss") == [(1, 0.5), (2, 0.25)]
        assert log.about.config == {}
