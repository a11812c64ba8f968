"""Frames: recorded arrays are read back by name, in any order; packing and thinning lose no frame that should stay."""

import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.frames import PACKED, FrameIndex, FrameWriter, thin_out
from txlab.runs.tensor_files import PACK, encode_frame, encode_header, single_name


def frame(step: int, size: int = 4) -> Frame:
    return Frame(
        step,
        {"attention/pattern": np.full((2, size), step, np.float16), "next/probability": np.arange(size) + step},
        {"probe": ["a\n", "\x1b[31m", "é", "\ud800"]},
        {"title": f"frame {step}"},
        {"layers": 2, "number": step},
    )


def recorded(directory: Path, steps: range, budget: float = 1e9) -> FrameWriter:
    writer = FrameWriter(directory, budget)
    for step in steps:
        writer.write(frame(step))
    return writer


def look(directory: Path) -> FrameIndex:
    index = FrameIndex(directory)
    index.refresh()
    return index


def test_a_frame_comes_back_as_it_was(tmp_path: Path) -> None:
    recorded(tmp_path, range(0, 2000, 10))
    index = look(tmp_path)
    assert index.steps.tolist() == list(range(0, 2000, 10))
    assert index.steps.dtype == np.int64
    for step in (0, 630, 640, 1280, 1990):
        back = index.read(step)
        assert back.step == step
        for name, tensor in frame(step).tensors.items():
            np.testing.assert_array_equal(back.tensors[name], tensor)
            assert back.tensors[name].dtype == tensor.dtype
        assert back.tokens == {"probe": ["a\n", "\x1b[31m", "é", "\ufffd"]}
        assert (back.texts, back.facts) == (frame(step).texts, frame(step).facts)


def test_only_the_tensors_asked_for_are_read(tmp_path: Path) -> None:
    recorded(tmp_path, range(5))
    assert list(look(tmp_path).read(3, ["next/probability", "absent"]).tensors) == ["next/probability"]


def test_the_files_are_ordinary_safetensors(tmp_path: Path) -> None:
    recorded(tmp_path, range(PACKED + 1))
    single = safetensors.numpy.load_file(tmp_path / single_name(PACKED))
    assert set(single) == {"attention/pattern", "next/probability"}
    (pack,) = tmp_path.glob("pack-*")
    assert pack.name == f"pack-00000000-{PACKED - 1:08d}.safetensors"
    assert "00000003/attention/pattern" in safetensors.numpy.load_file(pack)


def test_torch_tensors_are_recorded_bfloat16_widened(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    values = torch.randn(3, 4, requires_grad=True)
    tensors: dict[str, Any] = {"half": values.bfloat16(), "turned": values.T, "count": torch.tensor(7)}
    FrameWriter(tmp_path, 1e9).write(Frame(1, tensors))
    back = look(tmp_path).read(1).tensors
    np.testing.assert_array_equal(back["half"], values.bfloat16().float().detach().numpy())
    np.testing.assert_array_equal(back["turned"], values.T.detach().numpy())
    assert back["count"].shape == ()
    assert back["count"] == 7


def test_bfloat16_written_by_others_is_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    values = torch.randn(5).bfloat16()
    save_file({"x": values}, tmp_path / single_name(2), {"00000002": '{"tokens":{},"texts":{},"facts":{}}'})
    np.testing.assert_array_equal(look(tmp_path).read(2).tensors["x"], values.float().numpy())


def test_a_reader_in_the_midst_of_packing_and_thinning_never_misses_a_kept_frame(tmp_path: Path) -> None:
    recorded(tmp_path, range(1))
    missed: list[set[int]] = []
    ended = threading.Event()

    def watch() -> None:
        index, known = FrameIndex(tmp_path), set[int]()
        while not ended.is_set():
            index.refresh()
            now = set(index.steps.tolist())
            if known - now:
                missed.append(known - now)
            known = now
            newest = max(now)
            assert index.read(newest).facts["number"] == newest

    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            watch()
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=guarded)
    reader.start()
    recorded(tmp_path, range(1, 1500))
    ended.set()
    reader.join()
    assert not failures
    assert not missed


def test_a_listing_that_missed_the_pack_and_its_singles_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory in the middle of a change: the pack does not exist yet, and the single frames are already gone."""
    recorded(tmp_path, range(PACKED - 1))
    index = look(tmp_path)
    FrameWriter(tmp_path, 1e9).write(frame(PACKED - 1))
    real, torn = index._listing, [{}]
    monkeypatch.setattr(index, "_listing", lambda: torn.pop() if torn else real())
    assert index.refresh()
    assert index.steps.tolist() == list(range(PACKED))


@pytest.mark.parametrize("budget", [1, 3_000, 40_000, 200_000])
def test_thinning_keeps_the_budget_the_first_and_the_newest(tmp_path: Path, budget: int) -> None:
    writer = FrameWriter(tmp_path, budget)
    for step in range(0, 4000, 10):
        writer.write(frame(step))
        assert writer.steps[-1] == step
        assert writer.steps[0] == 0
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size <= budget or len(writer.steps) == 2
    index = look(tmp_path)
    assert index.steps.tolist() == writer.steps
    assert all(index.read(step).facts["number"] == step for step in writer.steps)


def test_after_many_rounds_the_older_half_still_covers_its_time(tmp_path: Path) -> None:
    writer = recorded(tmp_path, range(0, 12_000, 10), budget=60_000)
    steps = np.array(writer.steps)
    older = steps[: len(steps) // 2 + 1]
    assert np.diff(older).max() <= 4 * (older[-1] - older[0]) / (len(older) - 1)


@given(st.lists(st.integers(0, 10**6), unique=True, max_size=60).map(sorted))
def test_a_round_of_thinning_drops_only_from_the_older_half_and_no_two_neighbours(steps: list[int]) -> None:
    dropped = thin_out(steps)
    places = [steps.index(step) for step in dropped]
    assert all(0 < place < max(2, len(steps) // 2) for place in places)
    assert all(later - earlier > 1 for earlier, later in pairwise(places))
    assert bool(dropped) == (len(steps) > 2)


def test_a_rewind_removes_later_frames_and_no_others(tmp_path: Path) -> None:
    writer = recorded(tmp_path, range(0, 2000, 10))
    writer.rewind(635)
    assert look(tmp_path).steps.tolist() == list(range(0, 640, 10))
    for step in range(640, 2000, 20):
        writer.write(frame(step))
    assert look(tmp_path).steps.tolist() == [*range(0, 640, 10), *range(640, 2000, 20)]
    writer.rewind(-1)
    assert look(tmp_path).steps.tolist() == []


def test_what_a_kill_in_the_midst_of_packing_left_is_tidied(tmp_path: Path) -> None:
    recorded(tmp_path, range(PACKED))
    (tmp_path / single_name(5)).write_bytes(encode_frame(frame(5)))  # packed, but not yet removed
    (tmp_path / ".00000070.safetensors.1.2").write_bytes(b"half")
    (tmp_path / single_name(70)).write_bytes(b"\0" * 100)
    writer = FrameWriter(tmp_path, 1e9)
    assert writer.steps == list(range(PACKED))
    assert [path.name for path in tmp_path.iterdir() if PACK.fullmatch(path.name) is None] == [f"{70:08d}.damaged"]


def test_a_damaged_pack_hides_its_own_frames_only(tmp_path: Path) -> None:
    recorded(tmp_path, range(2 * PACKED))
    first = min(tmp_path.glob("pack-*"))
    data = first.read_bytes()
    index = FrameIndex(tmp_path)
    for damaged in (data[:100], data[:-10], b"", b"\xff" * 64, (2**60).to_bytes(8, "little") + data[8:]):
        first.write_bytes(damaged)
        index.refresh()
        assert index.steps.tolist() == list(range(PACKED, 2 * PACKED))
        with pytest.raises(LabError, match="no readable frame of step 3"):
            index.read(3)
    first.write_bytes(data)
    assert index.refresh()
    assert index.read(3).facts["number"] == 3


def test_an_absent_directory_has_no_frames(tmp_path: Path) -> None:
    index = FrameIndex(tmp_path / "absent")
    assert not index.refresh()
    assert len(index) == 0


def test_many_names_for_one_stretch_of_a_file_are_damage(tmp_path: Path) -> None:
    shared = {f"t{number}": {"dtype": "U8", "shape": [1000], "data_offsets": [0, 1000]} for number in range(300)}
    backwards = {"t": {"dtype": "U8", "shape": [-1, -8], "data_offsets": [0, 8]}}
    for entries in (shared, backwards):
        (tmp_path / "00000003.safetensors").write_bytes(
            encode_header({"__metadata__": {"00000003": "{}"}, **entries}) + bytes(1000)
        )
        writer = FrameWriter(tmp_path, 1e6)
        assert writer.steps == []
        writer.write(Frame(4, {"x": np.ones(3)}))
        assert sum(path.stat().st_size for path in tmp_path.glob("*.safetensors")) < 2000
        for path in tmp_path.iterdir():
            path.unlink()
