"""Any model is opened by name: a run, a checkpoint of it, a folder; without its data, and with its own vocabulary."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from txlab.errors import LabError
from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.loaded_model import encode_tokenizer, tokenizer_kept
from txlab.runs import checkpoints, models
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.models import open_model
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(tiny_run, tmp_path / "runs" / tiny_run.name))


def test_a_run_opens_with_the_weights_of_its_newest_checkpoint(tiny_run: Path) -> None:
    opened = open_model(str(tiny_run))
    state = checkpoints.load(RunDirectory(tiny_run), 12)
    assert (opened.kind, opened.step, opened.steps, opened.name) == ("gpt", 12, (6, 12), tiny_run.name)
    assert opened.title == f"{tiny_run.name}@12"
    for name, tensor in opened.model.state_dict().items():
        assert torch.equal(tensor, state["model"][name])
    assert not opened.model.training
    assert opened.labels(opened.ids("ab")) == ["a", "b"]
    assert opened.decode(opened.ids("the cat")) == "the cat"


def test_an_opened_model_says_what_the_experiment_says(tiny_run: Path) -> None:
    experiment = KIND.build(load_scenario(tiny_run / "scenario.toml").scenario)
    experiment.load_state_dict(checkpoints.load(RunDirectory(tiny_run), 12))
    experiment.model.eval()
    opened = open_model(str(tiny_run))
    ids = torch.tensor([opened.ids("the cat sees")])
    with torch.no_grad():
        assert torch.equal(opened.model(ids), experiment.model(ids))


@pytest.mark.parametrize(("asked", "found"), [("6", 6), ("0", 6), ("9", 6), ("10", 12), ("99999", 12)])
def test_a_step_behind_the_name_means_the_nearest_checkpoint(tiny_run: Path, asked: str, found: int) -> None:
    assert open_model(f"{tiny_run.name}@{asked}", tiny_run.parent).step == found
    assert open_model("latest", tiny_run.parent, step=int(asked)).step == found


def test_a_checkpoint_s_own_folder_is_a_name_too(tiny_run: Path) -> None:
    opened = open_model(str(tiny_run / "checkpoints" / "00000006"))
    assert (opened.step, opened.origin) == (6, tiny_run)


def test_different_weights_have_different_fingerprints_in_any_place(tiny_run: Path, run: Path) -> None:
    assert open_model(str(tiny_run)).fingerprint == open_model(str(run)).fingerprint
    assert open_model(f"{tiny_run}@6").fingerprint != open_model(str(tiny_run)).fingerprint


def test_a_damaged_checkpoint_is_skipped_and_reported_if_all_are_damaged(run: Path) -> None:
    (run / "checkpoints" / "00000012" / "state.safetensors").write_bytes(b"torn")
    assert open_model(str(run)).step == 6
    weights = run / "checkpoints" / "00000006" / "state.safetensors"
    data = bytearray(weights.read_bytes())
    data[-3] ^= 255
    weights.write_bytes(data)
    with pytest.raises(LabError, match="damaged"):
        open_model(str(run))


def test_a_run_without_a_checkpoint_says_what_to_do(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(LabError, match=f"no checkpoint yet.*txlab resume {run.name}"):
        open_model(str(run))


def test_a_run_that_is_alive_may_be_opened(run: Path) -> None:
    info = RunInfo.load(run)
    info.status, info.ended = "running", None
    info.save(RunDirectory(run))
    assert open_model(str(run)).step == 12


def test_something_that_is_not_a_model_is_a_readable_error(tiny_run: Path, tmp_path: Path) -> None:
    for name, said in {
        "latst": "nearest: latest",
        str(tmp_path): "neither a run .run.json. nor a model",
        "a\0b": "no run",
        "": "no run",
        "x@12": "no run 'x'",
    }.items():
        with pytest.raises(LabError, match=said) as refused:
            open_model(name, tiny_run.parent)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("tokenizer", ["characters", "words", "bpe"])
def test_a_learnt_tokenizer_travels_with_the_checkpoint(tiny_scenario: Path, tmp_path: Path, tokenizer: str) -> None:
    """Neither the corpus nor a cache exists any more."""
    text = tmp_path / "text.txt"
    shutil.copy(tiny_scenario.parent / "text.txt", text)
    settings = [f"data.text={text}", f"data.tokenizer={tokenizer}", "data.vocabulary=300", "train.steps=2"]
    run = prepare(load_scenario(str(tiny_scenario), settings), root=tmp_path / "runs")
    assert execute(run).status == "done"
    text.unlink()
    opened = open_model(str(run))
    assert opened.decode(opened.ids("the cat sees a mouse")) == "the cat sees a mouse"
    assert opened.model.shape.vocabulary == opened.tokenizer.vocabulary


def test_the_induction_task_opens_with_its_symbols_and_an_example(tiny_scenario: Path, tmp_path: Path) -> None:
    settings = ["data.source=induction", "data.vocabulary=32", "train.steps=2", 'sampling.prompts=["ab"]']
    run = prepare(load_scenario(str(tiny_scenario), settings), root=tmp_path)
    assert execute(run).status == "done"
    opened = open_model(str(run))
    assert opened.labels(opened.ids(opened.example)) == list(opened.example)
    assert len(opened.example) == 12


def test_a_tokenizer_that_was_tampered_with_is_a_readable_error() -> None:
    from txlab.engine.tokenizers.elementary import ByteTokenizer

    kept = encode_tokenizer(ByteTokenizer())
    assert tokenizer_kept(kept) is not None
    for wrong in ("{", "[]", '{"format": 1, "kind": "bytes", "x": 1}', 3):
        with pytest.raises(LabError, match="the tokenizer in the checkpoint"):
            tokenizer_kept(wrong)


def test_a_mask_takes_the_space_before_it_where_words_begin_with_theirs() -> None:
    from txlab.engine.tokenizers.elementary import ByteTokenizer
    from txlab.engine.tokenizers.training import train_tokenizer
    from txlab.engine.transformer.bert import Bert, BertShape
    from txlab.experiments.loaded_model import Special

    learnt = train_tokenizer(["the cat sees the cat"], 260)
    special = Special(begin=300, end=301, mask=302, names={300: "[CLS]", 301: "[SEP]", 302: "[MASK]"})
    model = Bert(BertShape(1, 1, 4, 8, 303))
    for tokenizer, first in ((learnt, "the"), (ByteTokenizer(), "the ")):
        opened = models.OpenModel("bert", "bert", model, tokenizer, special=special)
        expected = (300, *tokenizer.encode(first), 302, *tokenizer.encode(" sees"), 302, 301)
        assert opened.ids(f"the [MASK] sees{' ' if tokenizer is learnt else ''}[MASK]") == expected


def test_steps_are_tried_from_the_nearest() -> None:
    assert checkpoints.order_of([100, 200, 300], 250) == [200, 300, 100]
