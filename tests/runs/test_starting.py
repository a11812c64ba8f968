"""A run starts from another run's weights: found when it is prepared, copied, and its own from then on (MATH T12)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from test_runs_exactness import equal

from txlab.errors import LabError
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.events import read_rows
from txlab.runs.models import open_model
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.runs.starting import TOKENIZER, WEIGHTS

SECOND = """
kind = "language-model"
seed = 11
[data]
text = "{text}"
{data}
[model]
{model}
[train]
steps = 10
batch = 4
warmup = 2
validation_batches = 1
[sampling]
prompts = ["corn "]
tokens = 4
[record]
evaluate_every = 5
sample_every = 0
frame_every = 0
checkpoint_every = 5
[compute]
device = "cpu"
dtype = "float32"
attention = "matmul"
threads = 1
thread_mode = "operations"
compile = false
[start]
run = "{run}"
{start}
"""


def scenario(folder: Path, run: object, model: str = "", data: str = "", start: str = "") -> Path:
    text = folder / "other.txt"
    text.write_text("corn is eaten by mice and cats eat corn.\n" * 60)
    path = folder / "second.toml"
    path.write_text(SECOND.format(text=text, run=run, model=model, data=data, start=start))
    return path


def prepared(folder: Path, run: object, changes: tuple[str, ...] = (), **said: str) -> RunDirectory:
    loaded = load_scenario(scenario(folder, run, **said), list(changes))
    return RunDirectory(prepare(loaded, root=folder / "runs"))


def state(run: Path | RunDirectory, step: int) -> dict[str, Any]:
    return checkpoints.load(run if isinstance(run, RunDirectory) else RunDirectory(run), step)


def first_val_loss(run: RunDirectory) -> float:
    rows, _ = read_rows(run.events)
    return next(float(row["values"]["val_loss"]) for row in rows if "val_loss" in row.get("values", {}))


def test_weights_and_shape_are_taken_over_and_what_was_found_is_written_down(tiny_run: Path, tmp_path: Path) -> None:
    run = prepared(tmp_path, tiny_run)
    resolved: Any = load_scenario(run.scenario_file).scenario
    assert (resolved.model.layers, resolved.model.heads, resolved.model.width, resolved.model.context) == (2, 2, 16, 16)
    assert (resolved.start.run, resolved.start.step) == (str(tiny_run.resolve()), 12)
    assert resolved.start.fingerprint == open_model(str(tiny_run)).fingerprint
    assert resolved.data.tokenizer == "bytes"

    from txlab.runs.process import build

    experiment = build(run, resolved)
    from txlab.runs.starting import read_start

    experiment.start_from(read_start(run, resolved))
    assert equal(dict(experiment.model.state_dict()), dict(state(tiny_run, 12)["model"]))
    assert experiment.step_count == 0
    moments = experiment.state_dict()["optimizer"].values()
    assert not any(bool(moment.any()) for entry in moments for moment in entry.values())


def test_a_chosen_checkpoint_is_the_one_that_is_taken(tiny_run: Path, tmp_path: Path) -> None:
    run = prepared(tmp_path, tiny_run, ("start.step=6",))
    assert load_scenario(run.scenario_file).scenario.start.step == 6  # type: ignore[attr-defined]
    from safetensors.torch import load_file

    assert equal(load_file(run.path / WEIGHTS), dict(state(tiny_run, 6)["model"]))
    with pytest.raises(LabError, match=r"start\.step = 7 is not a checkpoint of .*; there are: 6, 12"):
        prepared(tmp_path, tiny_run, ("start.step=7",))


def test_a_started_run_resumes_bit_for_bit_after_the_old_one_is_gone(tiny_run: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(tiny_run, old)
    whole, parts = (prepared(tmp_path, old) for _ in range(2))
    shutil.rmtree(old)
    moved = RunDirectory(tmp_path / "moved")
    shutil.move(parts.path, moved.path)
    assert execute(whole).status == "done"
    assert execute(moved).status == "done"
    checkpoints.remove(moved, [10])
    assert execute(moved).status == "done"  # from 5
    assert equal(state(moved, 10), state(whole, 10))
    checkpoints.remove(moved, checkpoints.steps(moved))
    assert execute(moved).status == "done"  # from its starting weights
    assert equal(state(moved, 10), state(whole, 10))
    notes = [row["text"] for row in read_rows(whole.events)[0] if row["event"] == "note"]
    assert notes == ["begins with the weights of old@12"]


def test_what_was_learnt_before_shows_in_the_first_validation(tiny_run: Path, tmp_path: Path) -> None:
    from_weights = prepared(tmp_path, tiny_run)
    from_scratch = prepared(tmp_path, tiny_run, ("start.weights=false",))
    assert not (from_scratch.path / WEIGHTS).exists()
    for run in (from_weights, from_scratch):
        assert execute(run).status == "done"
    assert first_val_loss(from_weights) < first_val_loss(from_scratch) - 0.1


def test_the_tokenizer_of_the_first_run_is_kept_in_the_second(tiny_scenario: Path, tmp_path: Path) -> None:
    first = RunDirectory(
        prepare(load_scenario(tiny_scenario, ["data.tokenizer=bpe", "data.vocabulary=280"]), root=tmp_path / "runs")
    )
    assert execute(first).status == "done"
    unsaid = prepared(tmp_path, first.path)
    said = prepared(tmp_path, first.path, data='tokenizer = "bpe"')
    shutil.rmtree(first.path)
    for run in (unsaid, said):
        assert f'tokenizer = "{TOKENIZER}"' in run.scenario_file.read_text()
        assert execute(run).status == "done"
        assert open_model(str(run.path)).tokenizer.vocabulary == 280


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"model": "width = 32"}, r"model\.width = 32 does not agree with start\.run = .*, which has 16; leave it out"),
        ({"model": "context = 24"}, r"model\.context = 24 does not agree .* which has 16"),  # learnt positions
        ({"model": "feed_forward = 63"}, r"model\.feed_forward = 63 does not agree"),
        ({"model": 'positions = "rotary"'}, r"model\.positions = 'rotary' does not agree .* 'learned'"),
        ({"model": "heads = 32"}, r"start\.run = .* and \[model\] do not agree: .*width must be a multiple of heads"),
        (
            {"data": 'tokenizer = "characters"'},
            r"data\.tokenizer = 'characters' is not the tokenizer of .*\(bytes, 256",
        ),
        ({"data": 'tokenizer = "python-docs"'}, r"data\.tokenizer = 'python-docs' is not the tokenizer of"),
        ({"start": 'fingerprint = "abc"'}, r"has other weights now .* than start\.fingerprint says \(abc\)"),
    ],
)
def test_a_disagreement_is_reported(tiny_run: Path, tmp_path: Path, said: dict[str, str], sentence: str) -> None:
    with pytest.raises(LabError, match=sentence) as error:
        prepared(tmp_path, tiny_run, **said)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()  # nothing was started


def test_what_agrees_may_be_said(tiny_run: Path, tmp_path: Path) -> None:
    run = prepared(tmp_path, tiny_run, model="feed_forward = 64\nlayers = 2\ndropout = 0.1", data='tokenizer = "bytes"')
    assert load_scenario(run.scenario_file).scenario.model.dropout == 0.1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        ("gpt-docs", r"start\.run = 'gpt-docs': no run of it is in .* yet; first run it: txlab run gpt-docs"),
        ("nobody", r"start\.run = 'nobody': there is no run 'nobody'"),
        ("/", r"start\.run = '/': "),
    ],
)
def test_a_missing_run_is_reported_with_how_to_make_it(tmp_path: Path, run: str, sentence: str) -> None:
    with pytest.raises(LabError, match=sentence):
        prepared(tmp_path, run)


def test_a_run_without_a_checkpoint_and_another_kind_are_refused(tiny_scenario: Path, tmp_path: Path) -> None:
    empty = prepare(load_scenario(tiny_scenario), root=tmp_path / "runs")
    with pytest.raises(LabError, match=r"start\.run = .*has no checkpoint yet"):
        prepared(tmp_path, empty)


def test_damaged_weights_end_the_run_before_it_begins(tiny_run: Path, tmp_path: Path) -> None:
    run = prepared(tmp_path, tiny_run)
    weights = run.path / WEIGHTS
    data = bytearray(weights.read_bytes())
    data[-5] ^= 1
    weights.write_bytes(data)
    with pytest.raises(LabError, match=r"start\.safetensors does not hold the weights that start\.fingerprint"):
        execute(run)
    weights.write_bytes(data[:100])
    with pytest.raises(LabError, match=r"start\.safetensors, the weights that this run begins with, cannot be read"):
        execute(run)
    weights.unlink()
    with pytest.raises(LabError, match=r"cannot be read: it is not there"):
        execute(run)


def test_a_relative_run_means_the_folder_of_its_file(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "first")
    run = prepared(tmp_path, "./first")
    assert load_scenario(run.scenario_file).scenario.start.run == str(tmp_path / "first")  # type: ignore[attr-defined]


def test_where_positions_are_computed_the_context_may_grow(tiny_scenario: Path, tmp_path: Path) -> None:
    first = prepare(load_scenario(tiny_scenario, ["model.positions=rotary"]), root=tmp_path / "runs")
    assert execute(first).status == "done"
    run = prepared(tmp_path, first, model="context = 20")
    assert execute(run).status == "done"
    assert torch.isfinite(torch.tensor(first_val_loss(run)))


@pytest.mark.parametrize(
    ("name", "setting", "said"),
    [
        ("gpt-tiny", "model.layers=1000000", "1 000 000 layers needs at least"),
        ("gpt-tiny", "train.batch=1000000000", "GB while it learns, and this machine has"),
        ("gpt-tiny", "train.steps=9223372036854775807", "years here"),
        ("gpt-tiny", "train.steps=99999999999999999999", "at most 63 bits"),
        ("bert-docs", "model.width=4000000", "parameters"),
        ("translate", "model.encoder_layers=100000000", "needs at least"),
        ("vit-shapes", "model.layers=100000000", "needs at least"),
    ],
)
def test_what_this_machine_could_never_compute_is_refused_before_anything_is_written(
    name: str, setting: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(LabError, match=said) as refused:
        prepare(load_scenario(name, [setting], device="cpu"), root=tmp_path / "runs")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "runs").exists()


def test_a_large_model_that_the_machine_may_hold_is_not_refused(tmp_path: Path) -> None:
    changes = ["model.layers=600", "model.width=16", "model.heads=1", "data.tokenizer=words"]
    assert prepare(load_scenario("gpt-tiny", changes, device="cpu"), root=tmp_path / "runs").is_dir()
