"""TensorBoard's event files: what its own writers wrote is read as its own reader reads it, and damage costs no more
than what is damaged."""

from __future__ import annotations

import json
import math
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboardX import SummaryWriter as WriterX
from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from txlab.runs.events import Replaced
from txlab.runs.external_logs import tensorboard
from txlab.runs.external_logs.log import Logged
from txlab.runs.external_logs.tensorboard import TensorBoardLog, mask_crcs

FILE = "events.out.tfevents.1700000000.host.1.0"


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFF_FFFF)


def record(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    return head + masked(head) + data + masked(data)


def scalar(tag: str, step: int, value: float, when: float = 0.0) -> bytes:
    event = Event(wall_time=when or 1.7e9 + step, step=step)
    event.summary.CopyFrom(Summary(value=[Summary.Value(tag=tag, simple_value=value)]))
    return record(event.SerializeToString())


def begun() -> bytes:
    return record(Event(wall_time=1.7e9, file_version="brain.Event:2").SerializeToString())


def read_all(log: TensorBoardLog) -> list[Logged]:
    found: list[Logged] = []
    while (slice_ := log.read()) is not None:
        found += slice_
    return found


def scalars(logged: list[Logged]) -> dict[str, list[tuple[int, float, float]]]:
    """tag → (step, time, value), as far as rewinds leave them."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    for event, step, when, said in logged:
        if event == "metrics":
            for tag, value in said.items():
                found.setdefault(tag, []).append((step, when, value))
        elif event == "rewind":
            found = {tag: [row for row in rows if row[0] <= step] for tag, rows in found.items()}
    return found


def by_tensorboard(folder: Path) -> dict[str, list[tuple[int, float, float]]]:
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    found = {tag: [(e.step, e.wall_time, e.value) for e in accumulator.Scalars(tag)] for tag in tags}
    for tag in accumulator.Tags()["tensors"]:
        events = accumulator.Tensors(tag)
        if events[0].tensor_proto.dtype == 1:
            values = [e.tensor_proto.float_val or np.frombuffer(e.tensor_proto.tensor_content, "f4") for e in events]
            found[tag] = [(e.step, e.wall_time, v[0]) for e, v in zip(events, values, strict=True)]
    return found


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders by the two writers: old and new scalars, several tags, a text, hyperparameters, a histogram."""
    from torch.utils.tensorboard import SummaryWriter

    root = tmp_path_factory.mktemp("board")
    for name, writer in (("torch", SummaryWriter(str(root / "torch"))), ("x", WriterX(str(root / "x")))):
        for step in range(300):
            writer.add_scalar("train/loss", 1 / (step + 1), step * 1000)
            writer.add_scalar("lr", math.nan if step == 7 else 1e-3 * step, step)
            if step % 50 == 0:
                writer.add_scalar(
                    "epoch/accuracy", step / 300, step // 50, **({"new_style": True} if name == "torch" else {})
                )
        writer.add_scalar("überlänge " + "x" * 200, math.inf, 3)
        writer.add_text("note", "a **text**", 12)
        writer.add_histogram("weights", np.arange(1000), 5)
        writer.close()
    from torch.utils.tensorboard.summary import hparams

    with SummaryWriter(str(root / "torch")) as writer:
        for summary in hparams({"lr": 0.1, "name": "gpt", "bias": True}, {"best": 1.0}):
            writer.file_writer.add_summary(summary)
    return root


@pytest.mark.parametrize("name", ["torch", "x"])
def test_every_scalar_is_read_as_tensorboard_reads_it(board: Path, name: str) -> None:
    ours, theirs = scalars(read_all(TensorBoardLog(board / name))), by_tensorboard(board / name)
    assert ours.keys() == theirs.keys()
    assert len(ours) == 4
    for tag, rows in theirs.items():
        np.testing.assert_array_equal(np.array(ours[tag]), np.array(rows), err_msg=tag)


def test_texts_and_hyperparameters_are_read(board: Path) -> None:
    log = TensorBoardLog(board / "torch")
    texts = [said for event, _, _, said in read_all(log) if event == "sample"]
    assert texts == [{"prompt": "note\n", "text": "a **text**"}]
    assert log.about.config == {"lr": 0.1, "name": "gpt", "bias": True}
    assert not log.about.problem


def test_the_crcs_of_a_slice_are_those_of_its_records() -> None:
    rng = random.Random(3)
    pieces = [rng.randbytes(rng.choice([0, 1, 8, 46, 300])) for _ in range(200)]
    lengths = np.array([len(piece) for piece in pieces])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    found = mask_crcs(np.frombuffer(b"".join(pieces), np.uint8), starts, lengths)
    assert [struct.pack("<I", crc) for crc in found] == [masked(piece) for piece in pieces]


def test_a_growing_file_gives_every_row_once_wherever_it_was_cut(tmp_path: Path) -> None:
    whole = begun() + b"".join(scalar("loss", step, step / 2) for step in range(6))
    file = tmp_path / FILE
    expected = [(step, 1.7e9 + step, step / 2) for step in range(6)]
    for cut in range(len(whole) + 1):
        file.write_bytes(whole[:cut])
        first = TensorBoardLog(tmp_path)
        found = read_all(first)
        file.write_bytes(whole)
        found += read_all(first if cut % 2 else TensorBoardLog(tmp_path, json.loads(json.dumps(first.position))))
        assert scalars(found) == {"loss": expected}, cut


def test_a_damaged_record_costs_itself_and_a_damaged_length_what_follows_until_it_is_mended(tmp_path: Path) -> None:
    rows = [scalar("loss", step, step) for step in range(1, 6)]
    size = len(rows[0])
    file = tmp_path / FILE
    data = bytearray(b"".join(rows))
    data[size * 2 + 30] ^= 1
    file.write_bytes(data)
    log = TensorBoardLog(tmp_path)
    assert [step for step, _, _ in scalars(read_all(log))["loss"]] == [1, 2, 4, 5]
    assert "damaged record at byte" in log.about.problem

    data = bytearray(b"".join(rows))
    data[size * 2] ^= 1
    file.write_bytes(data)
    log = TensorBoardLog(tmp_path)
    assert [step for step, _, _ in scalars(read_all(log))["loss"]] == [1, 2]
    assert f"damaged at byte {size * 2}" in log.about.problem
    file.write_bytes(b"".join(rows) + rows[-1])  # what had been torn has arrived
    assert [step for step, _, _ in scalars(read_all(log))["loss"]] == [3, 4, 5, 5]
    assert not log.about.problem


def test_zeros_at_the_end_are_waited_for(tmp_path: Path) -> None:
    first, second = scalar("loss", 0, 1.0), scalar("loss", 1, 2.0)
    file = tmp_path / FILE
    file.write_bytes(first + bytes(len(second)))
    log = TensorBoardLog(tmp_path)
    assert len(read_all(log)) == 1
    import os

    file.write_bytes(first + second)
    os.utime(file, ns=(0, 12345))
    assert scalars(read_all(log))["loss"] == [(1, 1.7e9 + 1, 2.0)]


def test_a_picture_is_passed_over_without_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "LARGEST_RECORD", 100_000)
    monkeypatch.setattr(tensorboard, "SLICE", 4096)
    large = record(Event(wall_time=1.0, step=1, graph_def=bytes(200_000)).SerializeToString())
    middle = record(Event(wall_time=1.0, step=1, graph_def=bytes(20_000)).SerializeToString())
    (tmp_path / FILE).write_bytes(scalar("a", 0, 0) + large + scalar("a", 1, 1) + middle + scalar("a", 2, 2))
    assert [step for step, _, _ in scalars(read_all(TensorBoardLog(tmp_path)))["a"]] == [0, 1, 2]


def test_a_session_that_begins_at_a_step_drops_what_came_after_as_in_tensorboard(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    for purge, steps in ((None, range(10)), (5, range(5, 8))):
        with SummaryWriter(str(tmp_path), purge_step=purge, filename_suffix=f".{purge}") as writer:
            for step in steps:
                writer.add_scalar("loss", step + (purge or 0), step)
    ours, theirs = scalars(read_all(TensorBoardLog(tmp_path))), by_tensorboard(tmp_path)
    assert [row[0] for row in ours["loss"]] == [*range(5), 5, 6, 7]
    assert ours == theirs


def test_restarts_are_bounded_because_each_looks_at_all_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "MOST_RESTARTS", 3)
    start = Event(wall_time=1.7e9, session_log=SessionLog(status=SessionLog.START))
    session = record(start.SerializeToString())
    (tmp_path / "events.out.tfevents.1.host").write_bytes((scalar("loss", 5, 0.5) + session) * 5)
    log = TensorBoardLog(tmp_path)
    logged = read_all(log)
    assert [event for event, *_ in logged].count("rewind") == 3
    assert [step for event, step, *_ in logged if event == "metrics"] == [5] * 5
    assert log.about.left_out == {"restarts beyond 3": 2}


def test_a_resumed_run_that_goes_back_in_a_new_file_rewinds_and_a_second_writer_does_not(tmp_path: Path) -> None:
    (tmp_path / (FILE + "a")).write_bytes(
        b"".join(scalar("loss", s, s) for s in range(10)) + scalar("epoch", 1, 0.5, 1.7e9)
    )
    (tmp_path / (FILE + "b")).write_bytes(
        scalar("epoch", 0, 0.1, 1.8e9) + b"".join(scalar("loss", s, s, 1.8e9) for s in (6, 7))
    )
    found = read_all(TensorBoardLog(tmp_path))
    assert [said for event, _, _, said in found if event == "rewind"] == [
        {"reason": "loss continues from step 6 in a new file"}
    ]
    assert [row[0] for row in scalars(found)["loss"]] == [0, 1, 2, 3, 4, 5, 6, 7]

    (tmp_path / (FILE + "b")).write_bytes(b"".join(scalar("loss", s, s, 1.7e9 + s) for s in (1, 2, 3)))
    assert not [event for event, *_ in read_all(TensorBoardLog(tmp_path)) if event == "rewind"]


def test_a_file_that_shrank_or_is_gone_is_another_log(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_bytes(scalar("a", 0, 0) + scalar("a", 1, 1))
    log = TensorBoardLog(tmp_path)
    read_all(log)
    file.write_bytes(scalar("a", 0, 0))
    with pytest.raises(Replaced):
        log.read()
    file.unlink()
    with pytest.raises(Replaced):
        log.mark()


def test_mutated_files_are_read_as_far_as_they_are_right(tmp_path: Path) -> None:
    rng = random.Random(11)
    whole = begun() + b"".join(scalar(tag, step, step) for step in range(20) for tag in ("a", "val/b"))
    good = {tag: set(rows) for tag, rows in scalars(written(tmp_path, whole)).items()}
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            how = rng.random()
            if how < 0.6:
                data[place] = rng.randrange(256)
            elif how < 0.8:
                del data[place : place + rng.randrange(30)]
            else:
                data[place:place] = rng.randbytes(rng.randrange(30))
        for tag, rows in scalars(written(tmp_path, bytes(data))).items():
            assert set(rows) <= good.get(tag, set())  # a CRC lets nothing through that was not written


def test_events_with_right_crcs_and_wrong_contents_are_passed_over(tmp_path: Path) -> None:
    rng = random.Random(5)
    event = Event(wall_time=1.0, step=3)
    event.summary.CopyFrom(Summary(value=[Summary.Value(tag="a", simple_value=2.0)]))
    plain = event.SerializeToString()
    for _ in range(500):
        data = bytearray(plain)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        found = written(tmp_path, record(bytes(data[: rng.randrange(len(data) + 1)])) + scalar("b", 4, 4.0))
        assert scalars(found)["b"] == [(4, 1.7e9 + 4, 4.0)]


def written(folder: Path, data: bytes) -> list[Logged]:
    (folder / FILE).write_bytes(data)
    return read_all(TensorBoardLog(folder))


def test_names_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from txlab.runs.external_logs import log as limits

    monkeypatch.setattr(limits, "MOST_SERIES", 3)
    found: Any = scalars(written(tmp_path, b"".join(scalar(f"t{n}", 0, n) for n in range(10))))
    assert list(found) == ["t0", "t1", "t2"]
