"""The log: rows are read as written, a torn last line loses no complete one, rewinds leave the live branch."""

import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.errors import LabError
from txlab.runs.events import EventWriter, decode_row, encode_row, live_branch, read_rows


def row(step: int, event: str = "metrics", **said: Any) -> dict[str, Any]:
    return {"event": event, "time": 1.5, "step": step, **said}


@given(st.dictionaries(st.text(max_size=5), st.floats(), max_size=4))
def test_every_float_survives_the_log(values: dict[str, float]) -> None:
    line = encode_row(row(3, values=values))
    assert line.count(b"\n") == 1
    back = decode_row(line)
    assert back is not None
    assert {k: repr(v) for k, v in back["values"].items()} == {
        k: "nan" if math.isnan(v) else repr(v) for k, v in values.items()
    }


def test_a_sample_that_says_nan_stays_a_text() -> None:
    line = encode_row(row(1, "sample", prompt="NaN", text="Infinity"))
    back = decode_row(line)
    assert back is not None
    assert (back["prompt"], back["text"]) == ("NaN", "Infinity")


def test_values_without_a_json_form_are_approximated() -> None:
    import numpy as np

    back = decode_row(encode_row(row(1, text="a\ud800b", values={"x": np.float32(0.5), "big": 2**70, "bad": math.inf})))
    assert back is not None
    assert back["text"] == "a\ufffdb"
    assert back["values"]["x"] == 0.5
    assert back["values"]["bad"] == math.inf


@pytest.mark.parametrize(
    "line", [b"", b"{", b"\0\0", b"[]", b"3", b'{"event":1}', b'{"event":"x"}', b'{"event":"x","step":true,"time":1}']
)
def test_an_invalid_row_is_none(line: bytes) -> None:
    assert decode_row(line) is None


LINES = [encode_row(row(step, values={"loss": 1 / (step + 1)})) for step in range(4)]


def split_rows(folder: Path, data: bytes) -> tuple[list[dict[str, Any]], int]:
    (folder / "part.jsonl").write_bytes(data)
    return read_rows(folder / "part.jsonl")


def test_a_log_cut_at_any_byte_gives_its_whole_rows_and_is_taken_up_there_later(tmp_path: Path) -> None:
    whole = b"".join(LINES)
    for cut in range(len(whole) + 1):
        rows, consumed = split_rows(tmp_path, whole[:cut])
        assert len(rows) == whole[:cut].count(b"\n")
        rest, _ = split_rows(tmp_path, whole[consumed:])
        assert [r["step"] for r in rows + rest] == [0, 1, 2, 3]


def test_a_tail_of_nuls_is_not_consumed_and_rubbish_between_rows_is_passed_over(tmp_path: Path) -> None:
    rows, consumed = split_rows(tmp_path, LINES[0] + b"\0" * 100)
    assert (len(rows), consumed) == (1, len(LINES[0]))
    rows, consumed = split_rows(tmp_path, LINES[0] + b"\0\0\n")
    assert (len(rows), consumed) == (1, len(LINES[0]))
    rows, consumed = split_rows(tmp_path, LINES[0] + b"\0\0\n" + LINES[1])
    assert [r["step"] for r in rows] == [0, 1]


@pytest.mark.parametrize("tail", [b"", b'{"event":"metr', b"\0" * 5000, b"\0" * 200_000, b'{"event":"metrics"\0\0\0'])
def test_the_next_writer_starts_on_a_fresh_line_and_keeps_all_that_is_whole(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(LINES) + tail)
    writer = EventWriter(path)
    assert writer.mended == len(tail)
    writer.write(row(4))
    writer.close()
    rows, consumed = read_rows(path)
    assert [r["step"] for r in rows] == [0, 1, 2, 3, 4]
    assert consumed == writer.size == path.stat().st_size


def test_a_last_row_that_lacks_only_its_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(LINES)[:-1])
    writer = EventWriter(path)
    writer.write(row(4))
    writer.close()
    assert writer.mended == 0
    assert [r["step"] for r in read_rows(path)[0]] == [0, 1, 2, 3, 4]


def test_a_row_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    real = os.write
    monkeypatch.setattr("os.write", lambda fd, data: sizes.append(len(data)) or real(fd, data))
    writer = EventWriter(tmp_path / "events.jsonl")
    for step in range(5):
        writer.write(row(step))
    writer.close()
    assert sizes == [len(encode_row(row(step))) for step in range(5)]


def test_a_row_that_the_disk_takes_only_a_part_of_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = EventWriter(tmp_path / "events.jsonl")
    writer.write(row(0))
    real, calls = os.write, []

    def part(descriptor: int, data: bytes) -> int:
        calls.append(1)
        if len(calls) == 1:
            return real(descriptor, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", part)
    with pytest.raises(OSError, match="No space"):
        writer.write(row(1))
    monkeypatch.undo()
    writer.write(row(2))
    writer.close()
    assert (tmp_path / "events.jsonl").read_bytes() == encode_row(row(0)) + encode_row(row(2))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=25))
def test_the_live_branch_is_what_no_later_rewind_goes_below(script: list[tuple[bool, int]]) -> None:
    rows = [row(step, "rewind" if back else "metrics", number=place) for place, (back, step) in enumerate(script)]
    expected = [
        r
        for place, r in enumerate(rows)
        if not any(later["event"] == "rewind" and later["step"] < r["step"] for later in rows[place + 1 :])
    ]
    assert live_branch(rows) == expected


def test_a_row_that_no_reader_would_take_for_one_is_refused_and_the_next_is_written(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "events.jsonl")
    with pytest.raises(LabError, match="at most 8 MiB"):
        writer.write(row(1, "note", text="x" * (9 << 20)))
    writer.write(row(2, "note", text="x" * (7 << 20)))
    writer.close()
    assert [r["step"] for r in read_rows(tmp_path / "events.jsonl")[0]] == [2]


def test_the_hole_of_a_sparse_log_is_stepped_over_and_never_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with path.open("wb") as file:
        file.write(LINES[0])
        file.seek(20 << 30)
        file.write(b"\n" + LINES[1])
    assert [r["step"] for r in read_rows(path)[0]] == [0, 1]
    os.truncate(path, 20 << 30)
    with pytest.raises(OSError, match="contain no rows"):
        EventWriter(path)
    assert path.stat().st_size == 20 << 30
