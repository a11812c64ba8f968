"""Checkpoints: complete or absent, exact, and never a way to run code."""

import gc
import json
import math
import subprocess
import sys
import weakref
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.errors import LabError
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory

torch = pytest.importorskip("torch")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    (tmp_path / "checkpoints").mkdir()
    return RunDirectory(tmp_path)


def test_an_optimizer_and_a_model_come_back_bit_for_bit(run: RunDirectory) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}
    checkpoints.save(run, 3, state)
    back = checkpoints.load(run, 3)
    other = torch.nn.Linear(3, 2)
    other.load_state_dict(back["model"])
    fresh = torch.optim.AdamW(other.parameters(), lr=0.5)
    fresh.load_state_dict(back["optimizer"])
    torch.set_rng_state(back["random"])
    first = torch.randn(4, 3)
    torch.set_rng_state(state["random"])
    assert torch.equal(first, torch.randn(4, 3))
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
    assert fresh.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
    assert torch.equal(fresh.state_dict()["state"][0]["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"])


def test_every_type_of_tensor_survives(run: RunDirectory) -> None:
    state = {
        str(kind): torch.arange(6).to(kind).reshape(2, 3)
        for kind in (torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool)
    }
    state |= {"scalar": torch.tensor(3), "empty": torch.zeros(0, 4), "turned": torch.arange(6.0).reshape(2, 3).T}
    state["array"] = np.arange(4, dtype=np.uint32)
    checkpoints.save(run, 0, state)
    back = checkpoints.load(run, 0)
    for name, tensor in state.items():
        assert back[name].dtype == tensor.dtype
        assert back[name].shape == tensor.shape
        assert (back[name] == tensor).all()
    assert isinstance(back["array"], np.ndarray)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_any_nested_state_is_put_together_as_it_was_taken_apart(value: Any) -> None:
    tree, tensors = checkpoints.take_apart(value)
    back = checkpoints.put_together(json.loads(json.dumps(tree, allow_nan=False)), tensors)
    assert back == value
    assert type(back) is type(value)


def test_not_a_number_and_dollar_keys_survive(run: RunDirectory) -> None:
    checkpoints.save(run, 0, {"nan": math.nan, "inf": -math.inf, "nest": {"$tensor": "x"}})
    back = checkpoints.load(run, 0)
    assert math.isnan(back["nan"])
    assert (back["inf"], back["nest"]) == (-math.inf, {"$tensor": "x"})


def test_a_tied_tensor_is_stored_once_and_tied_again(run: RunDirectory) -> None:
    weight = torch.nn.Parameter(torch.randn(50, 40))
    size = checkpoints.save(run, 1, {"embedding": weight, "unembedding": weight.detach(), "part": weight[:2]})
    assert size < 1.5 * weight.numel() * 4
    back = checkpoints.load(run, 1)
    assert back["embedding"] is back["unembedding"]
    assert back["part"].data_ptr() != back["embedding"].data_ptr()
    assert torch.equal(back["part"], weight[:2])


def test_the_copies_of_a_saved_state_are_freed_at_once(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when Python next looks for cycles: a run of some hundred checkpoints would hold several times its state."""
    copies: list[weakref.ref[Any]] = []
    as_it_is = checkpoints.take_apart

    def watch(state: Any) -> Any:
        tree, tensors = as_it_is(state)
        copies.extend(weakref.ref(each) for each in tensors.values())
        return tree, tensors

    monkeypatch.setattr(checkpoints, "take_apart", watch)
    gc.disable()
    try:
        checkpoints.save(run, 1, {"table": np.zeros(1000), "weights": torch.zeros(1000), "deep": [{"er": np.ones(3)}]})
        assert len(copies) == 3
        assert all(copy() is None for copy in copies)
    finally:
        gc.enable()


def test_what_an_exact_restart_cannot_hold_is_refused_by_name(run: RunDirectory) -> None:
    with pytest.raises(TypeError, match=r"state\.model\.hook is a function"):
        checkpoints.save(run, 1, {"model": {"hook": lambda: None}})
    assert list(run.checkpoints.iterdir()) == []


def damage_by(name: str) -> Any:
    def truncate(folder: Path) -> None:
        file = folder / "state.safetensors"
        file.write_bytes(file.read_bytes()[:-3])

    def flip(folder: Path) -> None:
        file = folder / "state.safetensors"
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)

    def bad_header(folder: Path) -> None:
        file = folder / "state.safetensors"
        data = file.read_bytes()
        file.write_bytes(b"\xff" * 8 + data[8:])

    def no_tensors(folder: Path) -> None:
        (folder / "state.safetensors").unlink()

    def no_json(folder: Path) -> None:
        (folder / "state.json").unlink()

    def half_json(folder: Path) -> None:
        file = folder / "state.json"
        file.write_bytes(file.read_bytes()[:40])

    def nuls(folder: Path) -> None:
        (folder / "state.json").write_bytes(b"\0" * 200)

    def other_json(folder: Path) -> None:
        (folder / "state.json").write_text("[[]]")

    return locals()[name]


@pytest.mark.parametrize(
    "damage", ["truncate", "flip", "bad_header", "no_tensors", "no_json", "half_json", "nuls", "other_json"]
)
def test_a_damaged_checkpoint_is_passed_over_with_a_note(run: RunDirectory, damage: str) -> None:
    for step in (10, 20):
        checkpoints.save(run, step, {"x": torch.full((3,), float(step))})
    damage_by(damage)(run.checkpoints / "00000020")
    with pytest.raises(LabError, match="checkpoint 20"):
        checkpoints.load(run, 20)
    found, damaged = checkpoints.read_newest(run)
    assert found is not None
    assert found.about.step == 10
    assert found.state["x"].tolist() == [10.0] * 3
    assert list(damaged) == [20]
    assert "\n" not in damaged[20]
    if damage not in ("flip", "bad_header"):  # these are found only by reading the whole file
        assert checkpoints.newest(run) == 10


@pytest.mark.parametrize(
    "lie",
    [
        {"log_bytes": -5},
        {"val_loss": "good"},
        {"pending": [5]},
        {"pending": [{"step": "x", "key": "lr", "to": 1.0}]},
        {"pending": [{"step": 8, "key": [], "to": 1.0}]},
        {"pending": [{"step": 8, "key": "lr", "to": {}}]},
    ],
)
def test_what_a_checkpoint_says_of_itself_is_checked(run: RunDirectory, lie: dict[str, Any]) -> None:
    checkpoints.save(run, 7, {"step": 7})
    path = run.checkpoints / "00000007" / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | lie))
    with pytest.raises(LabError, match=r"checkpoint 7 in .* is damaged"):
        checkpoints.look(run, 7)
    assert checkpoints.read_newest(run)[0] is None


def test_a_save_that_fails_leaves_nothing(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.save(run, 10, {"x": torch.ones(3)})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        checkpoints.save(run, 20, {"x": torch.ones(3)})
    assert [path.name for path in run.checkpoints.iterdir()] == ["00000010"]


def test_a_kill_while_a_checkpoint_is_written_or_replaced_costs_no_older_one(run: RunDirectory) -> None:
    checkpoints.save(run, 10, {"x": torch.ones(3)})
    half = run.checkpoints / ".00000020.77"
    half.mkdir()
    (half / "state.safetensors").write_bytes(b"half")
    (run.checkpoints / "00000010").rename(run.checkpoints / ".00000010.old")  # killed between the two renames
    checkpoints.tidy(run)
    assert [path.name for path in run.checkpoints.iterdir()] == ["00000010"]
    assert checkpoints.newest(run) == 10


def test_the_same_step_is_replaced(run: RunDirectory) -> None:
    for value in (1.0, 2.0):
        checkpoints.save(run, 10, {"x": value})
    assert checkpoints.load(run, 10) == {"x": 2.0}
    assert [path.name for path in run.checkpoints.iterdir()] == ["00000010"]


def test_pruning_keeps_the_newest_and_the_best(run: RunDirectory) -> None:
    for step, loss in [(10, 3.0), (20, 1.0), (30, 2.0), (40, math.nan), (50, None), (60, 1.5)]:
        checkpoints.save(run, step, {}, checkpoints.CheckpointInfo(step, val_loss=loss))
    assert checkpoints.prune(run, keep=2) == [10, 30, 40]
    assert checkpoints.steps(run) == [20, 50, 60]


def test_a_step_without_a_checkpoint_is_reported_with_the_existing_ones(run: RunDirectory) -> None:
    checkpoints.save(run, 10, {})
    with pytest.raises(LabError, match=r"no checkpoint of step 11; there are: 10"):
        checkpoints.load(run, 11)


def test_a_state_of_arrays_alone_is_kept_and_read_without_torch(run: RunDirectory) -> None:
    program = f"""
import sys
import zlib
import numpy as np
from pathlib import Path
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
run = RunDirectory(Path({str(run.path)!r}))
state = {{"q": np.arange(6.0).reshape(2, 3).T, "n": np.int64(3), "flags": np.array([True, False])}}
checkpoints.save(run, 7, state)
back = checkpoints.load(run, 7)
assert (back["q"] == state["q"]).all() and back["n"] == 3 and back["flags"].dtype == bool
back["q"][0, 0] = 5  # it can be learnt on
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (checkpoints.load(run, 7)["q"] == np.arange(6.0).reshape(2, 3).T).all()


def test_the_tensors_are_ordinary_safetensors_and_those_of_the_library_are_read(run: RunDirectory) -> None:
    import safetensors.torch

    from txlab.runs.tensor_files import load_tensors

    state = {
        "half": torch.randn(3).bfloat16(),
        "big": torch.randn(4, 5, dtype=torch.float64),
        "flag": torch.tensor(True),
    }
    checkpoints.save(run, 3, {**state, "empty": torch.zeros(0, 2)})
    theirs = safetensors.torch.load_file(run.checkpoints / "00000003" / "state.safetensors")
    assert set(theirs) == {"state.half", "state.big", "state.flag", "state.empty"}
    assert all(torch.equal(theirs[f"state.{name}"], tensor) for name, tensor in state.items())
    safetensors.torch.save_file(state, run.path / "theirs.safetensors", {"format": "pt"})
    with (run.path / "theirs.safetensors").open("rb") as file:
        ours = load_tensors(file.fileno(), None, as_torch=True)
    assert all(torch.equal(ours[name], tensor) and ours[name].dtype == tensor.dtype for name, tensor in state.items())


@pytest.mark.parametrize(
    "header",
    [
        {"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 12]}},
        {"x": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}},
        {"x": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}},
        {"x": {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]}},
        {"x": {"dtype": "Q7", "shape": [4], "data_offsets": [0, 16]}},
        {n: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for n in ("x", "y")},
        {"x": []},
        {},
    ],
)
def test_a_header_with_false_contents_is_damage(run: RunDirectory, header: dict[str, Any]) -> None:
    checkpoints.save(run, 3, {"x": torch.ones(4)})
    said = json.dumps(header).encode()
    data = len(said).to_bytes(8, "little") + said + bytes(16)
    (run.checkpoints / "00000003" / "state.safetensors").write_bytes(data)
    about = json.loads((run.checkpoints / "00000003" / "state.json").read_bytes())
    about["tensors"] = {"bytes": len(data), "crc32": zlib.crc32(data)}
    (run.checkpoints / "00000003" / "state.json").write_text(json.dumps(about))
    with pytest.raises(LabError, match=r"checkpoint 3 in .* is damaged"):
        checkpoints.load(run, 3)


def test_a_long_text_in_a_state_comes_back_and_a_great_structure_is_refused(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "LARGEST_STRUCTURE", 2000)
    text = '\u00e9"\\' * 5000  # for example another library's tokenizer
    checkpoints.save(run, 1, {"tokenizer_file": text})
    assert checkpoints.load(run, 1)["tokenizer_file"] == text
    with pytest.raises(ValueError, match="in addition to its tensors"):
        checkpoints.save(run, 2, {"numbers": [[0]] * 1000})
    assert checkpoints.steps(run) == [1]


def test_a_checkpoint_with_something_else_in_it_is_left_alone(run: RunDirectory) -> None:
    for step in (10, 20, 30):
        checkpoints.save(run, step, {})
    (run.checkpoints / "00000010" / "notes.txt").write_text("why this one was good")
    (run.checkpoints / ".config").mkdir()
    (run.checkpoints / ".00000005.gone").mkdir()
    (run.checkpoints / ".00000005.gone" / "thesis.tex").write_text("years")
    checkpoints.prune(run, keep=1)
    checkpoints.tidy(run)
    assert sorted(p.name for p in run.checkpoints.iterdir()) == [".00000005.gone", ".config", "00000010", "00000030"]
    assert (run.checkpoints / "00000010" / "notes.txt").exists()
    with pytest.raises(OSError, match="something else than a checkpoint"):
        checkpoints.save(run, 10, {})
    assert checkpoints.load(run, 10) == {}
