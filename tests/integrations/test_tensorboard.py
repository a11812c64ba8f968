"""A SummaryWriter's calls make a run; what torch's own writer would have stored is read from its files and compared."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import txlab
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import read_rows
from txlab.runs.finding import find_run
from txlab.runs.folder import list_runs
from txlab.runs.frames import FrameIndex
from txlab.runs.reader import RunReader


def write(writer: object) -> None:
    """What a program writes, to either writer."""
    rng = np.random.default_rng(0)
    for step in range(20):
        writer.add_scalar("Loss/train", 1 / (step + 1), step)  # type: ignore[attr-defined]
        writer.add_scalars("compare", {"a": step, "b": -step}, step)  # type: ignore[attr-defined]
    writer.add_scalar("epoch/accuracy", 0.5, 3)  # type: ignore[attr-defined]
    writer.add_scalar("Loss/train", 7.0, 4)  # type: ignore[attr-defined]
    writer.add_text("note", "hello", 2)  # type: ignore[attr-defined]
    writer.add_image("picture", rng.random((3, 8, 6)), 1)  # type: ignore[attr-defined]
    writer.add_histogram("weights", rng.standard_normal(1000), 1)  # type: ignore[attr-defined]
    writer.flush()  # type: ignore[attr-defined]


def test_the_scalars_are_those_that_torchs_writer_stores(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tensorboard.SummaryWriter(tmp_path / "theirs") as theirs:
        write(theirs)
    events = accumulator.EventAccumulator(str(tmp_path / "theirs"))
    events.Reload()
    with txlab.SummaryWriter(tmp_path / "ours") as ours:
        write(ours)
    reader = RunReader(ours.get_logdir())
    reader.poll()
    found = {event.step: event.value for event in events.Scalars("Loss/train")}
    series = reader.series("Loss/train")
    assert dict(zip(series.steps.tolist(), np.float32(series.values).tolist(), strict=True)) == found
    assert reader.latest("compare/b") == -19
    assert reader.latest("epoch/accuracy") == 0.5
    assert RunInfo.load(ours.get_logdir()).scenario == "ours"


def test_texts_images_and_histograms_are_kept_whatever_their_order(tmp_path: Path) -> None:
    with txlab.SummaryWriter(tmp_path / "mine") as writer:
        write(writer)
        writer.add_images("batch", np.zeros((12, 3, 4, 4)), 0)
        writer.add_image("grey", np.eye(4), 5, dataformats="HW")
        with pytest.raises(LabError, match="is not CHW"):
            writer.add_image("wrong", np.eye(4), 5)
    rows = read_rows(RunDirectory(writer.log_dir).events)[0]
    assert [(row["name"], row["text"]) for row in rows if row["event"] == "sample"] == [("note", "hello")]
    frames = FrameIndex(Path(writer.log_dir) / "frames")
    frames.refresh()
    frame = frames.read(1)
    assert frame.tensors["image/picture"].shape == (8, 6, 3)
    assert frame.tensors["image/batch"].shape == (4, 32, 3)
    assert frame.tensors["histogram/weights"].sum() == 1000
    assert frames.read(5).tensors["image/grey"].shape == (4, 4)


def test_hyperparameters_become_the_configuration(tmp_path: Path) -> None:
    with txlab.SummaryWriter(tmp_path / "mine", config={"lr": 1e-3}) as writer:
        writer.add_hparams({"layers": 3}, {"hparam/accuracy": 0.9})
    reader = RunReader(writer.log_dir)
    reader.poll()
    assert reader.scenario["config"] == {"lr": 1e-3, "layers": 3}
    assert reader.latest("hparam/accuracy") == 0.9


def test_every_method_of_torchs_writer_is_accepted(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with txlab.SummaryWriter(tmp_path / "mine") as writer:
        for name, _ in inspect.getmembers(tensorboard.SummaryWriter, inspect.isfunction):
            assert name.startswith("_") or callable(getattr(writer, name))
        for _ in range(3):
            writer.add_graph(None)
        with pytest.raises(AttributeError):
            writer.subtract_scalar  # noqa: B018
    rows = read_rows(RunDirectory(writer.log_dir).events)[0]
    assert [row["text"] for row in rows if row["event"] == "note"] == [
        "add_graph is left out: a run has no place for it"
    ]


def test_without_a_step_a_tag_counts_its_own(tmp_path: Path) -> None:
    with txlab.SummaryWriter(tmp_path / "mine") as writer:
        for value in (5.0, 6.0):
            writer.add_scalar("a", value)
        writer.add_scalar("b", 1.0)
    reader = RunReader(writer.log_dir)
    reader.poll()
    assert reader.series("a").steps.tolist() == [0, 1]
    assert reader.series("b").steps.tolist() == [0]


def test_what_others_train_with_is_not_imported_by_txlab() -> None:
    others = {"torch", "transformers", "lightning", "pytorch_lightning", "accelerate", "tensorboard", "wandb"}
    code = "import sys, txlab; txlab.record, txlab.SummaryWriter; print(*(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not others & set(done.stdout.split())


def test_a_writer_with_a_relative_folder_is_found_where_runs_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path / "elsewhere"))
    for given in ("runs/x", "runs/PPO/seed 1", "logs"):
        with txlab.SummaryWriter(given) as writer:
            writer.add_scalar("loss", 0.5, 1)
        assert Path(writer.log_dir).parent == tmp_path / "elsewhere"
    assert {RunInfo.load(path).scenario for path in list_runs()} == {"x", "PPO/seed 1", "logs"}
    assert find_run("x").name.endswith("_x")
    assert not (tmp_path / "runs").exists()
