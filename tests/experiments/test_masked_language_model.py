"""The masked-language-model experiment: what it hides, learns, fills, repeats and puts back (MATH T10)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from decided import DECIDED

from txlab.engine.tokenizers.elementary import ByteTokenizer
from txlab.engine.tokenizers.training import train_tokenizer
from txlab.errors import LabError
from txlab.experiments.kinds.masked_language_model import KIND
from txlab.experiments.kinds.masked_language_model.data import decode_masked, encode_masked, special_of
from txlab.experiments.kinds.masked_language_model.schema import MaskedLanguageModelScenario
from txlab.experiments.learning.text_data import NOT_SCORED
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.models import open_model as open_run
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario

WORDS = ("the cat sees a mouse", "a mouse eats the corn", "the bird sings", "corn grows in the field")
COMPUTE = DECIDED | {"attention": "matmul"}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(f"{WORDS[i * 7 % 4]} {WORDS[i * 5 % 3]}." for i in range(300)))
    return path


def scenario(corpus: Path, **changes: dict[str, Any]) -> MaskedLanguageModelScenario:
    sections: dict[str, Any] = {
        "seed": 4,
        "data": {"text": str(corpus), "tokenizer": "bytes"},
        "model": {"layers": 2, "heads": 2, "width": 16, "context": 24, "norm": "pre"},
        "train": {"steps": 40, "batch": 8, "warmup": 5, "learning_rate": 3e-3, "validation_batches": 3},
        "sampling": {"prompts": ["the c[MASK]t sees"], "fillings": 2},
        "probe": {"positions": 16},
        "compute": COMPUTE,
    }
    for name, section in changes.items():
        sections[name] = {**sections[name], **section}
    return MaskedLanguageModelScenario.model_validate(sections)


def test_windows_are_pieces_of_the_text_between_cls_and_sep_with_gaps(corpus: Path) -> None:
    """At a target, putting it back restores the text; everywhere else the text is unchanged."""
    data = KIND.build(scenario(corpus)).data
    text = corpus.read_text()
    asked = hidden = same = 0
    for step in range(60):
        batch = data.train_batch(step)
        assert batch.inputs.shape == batch.targets.shape == (8, 24)
        assert (batch.inputs[:, 0] == 256).all()
        assert (batch.inputs[:, -1] == 257).all()
        whole = torch.where(batch.targets == NOT_SCORED, batch.inputs, batch.targets)
        for row in whole[:, 1:-1].tolist():
            assert bytes(row).decode() in text
        wanted = batch.targets != NOT_SCORED
        assert not wanted[:, [0, -1]].any()
        asked += int(wanted.sum())
        hidden += int((batch.inputs[wanted] == 258).sum())
        same += int((batch.inputs[wanted] == batch.targets[wanted]).sum())
        assert (batch.inputs[wanted] != 256).all()  # a token put in another's place is one of the text's
        assert (batch.inputs[wanted] != 257).all()
    tokens = 60 * 8 * 22
    assert asked / tokens == pytest.approx(0.15, abs=4 * math.sqrt(0.15 * 0.85 / tokens))
    assert hidden / asked == pytest.approx(0.8, abs=4 * math.sqrt(0.16 / asked))
    assert same / asked == pytest.approx(0.1 + 0.1 / 256, abs=4 * math.sqrt(0.09 / asked))


def test_batches_are_functions_of_seed_and_step_and_gaps_change_with_the_step(corpus: Path) -> None:
    one, other = KIND.build(scenario(corpus)).data, KIND.build(scenario(corpus)).data
    other.train_batch(9)
    for step in (0, 5):
        assert torch.equal(one.train_batch(step).inputs, other.train_batch(step).inputs)
        assert torch.equal(one.train_batch(step).targets, other.train_batch(step).targets)
    assert not torch.equal(one.train_batch(0).targets != -100, one.train_batch(1).targets != -100)
    first, second = one.validation_batches(), other.validation_batches()
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(first, second, strict=True))


def test_validation_is_the_loss_and_the_accuracy_of_the_gaps(corpus: Path) -> None:
    experiment = KIND.build(scenario(corpus))
    for _ in range(5):
        experiment.step()
    metrics = experiment.evaluate()
    inputs = torch.cat([batch.inputs for batch in experiment.data.validation_batches()])
    targets = torch.cat([batch.targets for batch in experiment.data.validation_batches()])
    with torch.no_grad():
        logits = experiment.model(inputs)
    asked = targets != NOT_SCORED
    assert metrics["val_loss"] == pytest.approx(F.cross_entropy(logits[asked], targets[asked]).item(), rel=1e-5)
    right = (logits[asked].argmax(-1) == targets[asked]).float().mean().item()
    assert metrics["masked_accuracy"] == pytest.approx(right, abs=1e-6)
    assert set(metrics) == {"val_loss", "masked_accuracy"}
    assert experiment.evaluate() == metrics


def test_it_learns_to_fill_gaps_from_both_sides(corpus: Path) -> None:
    experiment = KIND.build(scenario(corpus, train={"steps": 250, "learning_rate": 1e-2}, data={"masked": 0.3}))
    before = experiment.evaluate()
    for _ in range(250):
        experiment.step()
    after = experiment.evaluate()
    assert before["val_loss"] == pytest.approx(math.log(259), abs=0.3)
    assert after["val_loss"] < 0.6 * before["val_loss"]
    assert after["masked_accuracy"] > 0.15  # a space is one in six
    # A token behind the gap changes the prediction in the gap: nothing is causal here.
    ids = torch.tensor([encode_masked(ByteTokenizer(), "the c[MASK]t sees a mouse")])
    other = ids.clone()
    other[0, 8] = ord("x")
    with torch.no_grad():
        assert not torch.allclose(experiment.model(ids)[0, 6], experiment.model(other)[0, 6], atol=1e-3)


def test_a_restored_state_continues_bit_for_bit(corpus: Path) -> None:
    whole, parts = KIND.build(scenario(corpus)), KIND.build(scenario(corpus))
    losses = [whole.step()["loss"] for _ in range(12)]
    for _ in range(7):
        parts.step()
    parts.adjust("lr", 3e-3)
    fresh = KIND.build(scenario(corpus))
    fresh.load_state_dict(parts.state_dict())
    assert [fresh.step()["loss"] for _ in range(5)] == losses[7:]
    assert fresh.evaluate() == whole.evaluate()
    assert "temperature" not in fresh.adjustable()


def test_samples_fill_every_gap_and_tell_what_else_was_likely(corpus: Path) -> None:
    experiment = KIND.build(scenario(corpus, sampling={"prompts": ["the c[MASK]t s[MASK]es"], "fillings": 3}))
    sample = experiment.samples()[0]
    assert sample.prompt == "the c[MASK]t s[MASK]es"
    filled, *gaps = sample.text.split(" · ")
    assert filled.startswith(" → the c")
    assert len(gaps) == 2
    ids = encode_masked(ByteTokenizer(), "the c[MASK]t s[MASK]es")
    with torch.no_grad():
        probabilities = experiment.model(torch.tensor([ids]))[0].softmax(-1)
    for place, told in zip([6, 10], gaps, strict=True):
        assert ids[place] == 258
        best = probabilities[place, :256].topk(3).values.tolist()
        assert [float(entry.rpartition(" ")[2]) for entry in told.split(", ")] == pytest.approx(best, abs=0.006)


def test_a_frame_is_like_a_decoders_but_without_a_mask(corpus: Path) -> None:
    frame = KIND.build(scenario(corpus, probe={"text": "a [MASK]at"})).frame()
    assert list(frame.tokens["probe"]) == ["[CLS]", "a", " ", "[MASK]", "a", "t", "[SEP]"]
    assert frame.texts == {"probe": "a [MASK]at"}
    assert frame.facts == {"mask": "none", "predicts": "place", "layers": 2, "heads": 2, "head_width": 8}
    q, k = (np.asarray(frame.tensors[name], np.float64) for name in ("attention/query", "attention/key"))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(8)
    wanted = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(np.asarray(frame.tensors["attention/pattern"], np.float64), wanted, atol=1e-3)
    assert wanted[..., 0, -1].min() > 0  # the first position sees the last
    assert frame.tensors["next/probability"].shape == (7, 8)
    assert len(frame.tokens["next"]) == 7 * 8


def test_a_space_before_a_gap_belongs_to_what_is_hidden() -> None:
    pairs = train_tokenizer(["the cat and the cat and the cat"] * 9, 262, "gpt4")
    ids = encode_masked(pairs, "the [MASK] and")
    assert decode_masked(pairs, ids) == "the[MASK] and"
    assert decode_masked(ByteTokenizer(), encode_masked(ByteTokenizer(), "the [MASK] and")) == "the [MASK] and"
    assert special_of(pairs).names == {262: "[CLS]", 263: "[SEP]", 264: "[MASK]"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"sampling": {"prompts": ["no gap"]}},
            r"sampling\.prompts has 'no gap', in which no \[MASK\] is to be filled",
        ),
        (
            {"sampling": {"prompts": ["[MASK]" * 23]}},
            r"which is 25 tokens with \[CLS\] and \[SEP\]; model\.context = 24",
        ),
        ({"probe": {"positions": 2}}, r"probe\.positions = 2 leaves no token between"),
        ({"compute": {"compile": True}}, r"compute\.compile = true is not for a masked-language-model"),
        ({"data": {"text": "/nowhere.txt"}}, r"data\.text = '/nowhere\.txt' is not there"),
        ({"model": {"context": 4000}}, r"is too short: its .* share has \d+ tokens"),
    ],
)
def test_a_mistake_is_reported(corpus: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LabError, match=sentence) as error:
        KIND.build(scenario(corpus, **changes))
    assert "\n" not in str(error.value)


def test_the_probe_decides_what_is_auto(corpus: Path) -> None:
    decided = KIND.resolve(scenario(corpus, compute={"dtype": "auto", "attention": "auto", "compile": "auto"})).compute
    assert "auto" not in (decided.dtype, decided.attention, decided.compile)
    assert decided.compile is False


RUN = """
kind = "masked-language-model"
seed = 3
[data]
text = "{text}"
tokenizer = "bpe"
vocabulary = 280
[model]
layers = 1
heads = 2
width = 16
context = 16
{model}
[train]
steps = 8
batch = 4
warmup = 2
validation_batches = 1
[sampling]
prompts = ["the [MASK] sees"]
[probe]
positions = 10
[record]
evaluate_every = 4
sample_every = 4
frame_every = 4
checkpoint_every = 4
[compute]
device = "cpu"
dtype = "float32"
attention = "matmul"
threads = 1
thread_mode = "operations"
compile = false
[start]
run = "{run}"
"""


def prepared(folder: Path, corpus: Path, run: object = "", model: str = "") -> RunDirectory:
    path = folder / "masked.toml"
    path.write_text(RUN.format(text=corpus, run=run, model=model))
    return RunDirectory(prepare(load_scenario(path), root=folder / "runs"))


def test_a_run_resumes_opens_and_is_started_from(corpus: Path, tmp_path: Path) -> None:
    run = prepared(tmp_path, corpus)
    assert execute(run).status == "done"
    last = checkpoints.load(run, 8)
    checkpoints.remove(run, [8])
    assert execute(run).status == "done"
    again = checkpoints.load(run, 8)
    assert all(torch.equal(again["model"][name], tensor) for name, tensor in last["model"].items())

    corpus_text = corpus.read_text()
    corpus.unlink()
    opened = open_run(str(run.path))  # without its corpus
    assert opened.kind == "bert"
    assert opened.special.mask == 282
    assert opened.labels(opened.ids("a[MASK]b")) == ["[CLS]", "a", "[MASK]", "b", "[SEP]"]
    corpus.write_text(corpus_text)

    second = prepared(tmp_path, corpus, run.path)
    assert execute(second).status == "done"
    with pytest.raises(LabError, match=r"model\.norm = 'pre' does not agree with start\.run = .*, which has 'post'"):
        prepared(tmp_path, corpus, run.path, 'norm = "pre"')


def test_an_encoder_cannot_start_from_a_decoder(corpus: Path, tmp_path: Path, tiny_run: Path) -> None:
    with pytest.raises(LabError, match=r"is a model of the kind gpt; masked-language-model starts from one of bert"):
        prepared(tmp_path, corpus, tiny_run)


def test_what_opens_is_what_was_saved(corpus: Path) -> None:
    experiment = KIND.build(scenario(corpus))
    experiment.step()
    opened = KIND.open_model(scenario(corpus), experiment.state_dict())
    for name, tensor in opened.model.state_dict().items():
        assert torch.equal(tensor, experiment.model.state_dict()[name])
    assert opened.example == "the c[MASK]t sees"
    fitted = KIND.adopt(scenario(corpus), opened)
    assert fitted.model == scenario(corpus).model
