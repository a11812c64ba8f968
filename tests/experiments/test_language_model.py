"""The language-model experiment: what it learns, refuses, repeats and puts back (MATH T9, F3)."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from txlab.engine.interpret.activation_cache import run_with_cache
from txlab.engine.interpret.sites import Text
from txlab.errors import LabError
from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.kinds.language_model.experiment import LanguageModelExperiment
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.learning.schema import factor
from txlab.experiments.protocol import NotFinite

WORDS = ("the cat sees a mouse", "a mouse eats the corn", "the bird sings", "corn grows in the field")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(f"{WORDS[i * 7 % 4]} {WORDS[i * 5 % 3]}." for i in range(300)))
    return path


def scenario(corpus: Path | None, **changes: dict[str, Any]) -> LanguageModelScenario:
    """A model small enough for a test; `changes` are merged into its sections."""
    sections: dict[str, Any] = {
        "seed": 4,
        "data": {"text": str(corpus)} if corpus else {"source": "induction", "vocabulary": 24},
        "model": {"layers": 2, "heads": 2, "width": 16, "context": 24},
        "train": {"steps": 40, "batch": 4, "warmup": 5, "learning_rate": 3e-3, "validation_batches": 3},
        "sampling": {"prompts": ["the "] if corpus else ["abc"], "tokens": 20},
        "probe": {"positions": 16},
        "compute": {"device": "cpu", "dtype": "float32", "attention": "matmul", "threads": 1, "compile": False},
    }
    for name, section in changes.items():
        sections[name] = {**sections[name], **section}
    return LanguageModelScenario.model_validate(sections)


def weights(experiment: LanguageModelExperiment) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in experiment.model.state_dict().items()}


def assert_same_bits(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def test_it_learns(corpus: Path) -> None:
    experiment = KIND.build(scenario(corpus, train={"steps": 150}))
    before = experiment.evaluate()
    losses = [experiment.step()["loss"] for _ in range(150)]
    after = experiment.evaluate()
    assert losses[0] == pytest.approx(math.log(256), abs=0.1)
    assert after["val_loss"] < 0.5 * before["val_loss"]
    assert after["val_bits_per_byte"] == pytest.approx(after["val_loss"] / math.log(2), rel=1e-12)  # a byte a token


def test_a_step_is_adamw_written_out(corpus: Path) -> None:
    """Two updates, recomputed in NumPy from the gradients of autograd: schedule, clipping, moments, decay."""
    experiment = KIND.build(scenario(corpus, train={"clip": 0.5, "weight_decay": 0.3}))
    train = experiment.scenario.train
    parameters = dict(experiment.model.named_parameters())
    moments = dict.fromkeys(parameters, (0.0, 0.0))
    for update in (1, 2):
        batch = experiment.data.train_batch(update - 1)
        loss = F.cross_entropy(experiment.model(batch.inputs).flatten(0, 1), batch.targets.flatten())
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients))
        rate = 3e-3 * update / 5
        wanted = {}
        for (name, p), g in zip(parameters.items(), gradients, strict=True):
            g = g.double().numpy() * min(1.0, 0.5 / (norm + 1e-6))
            first = train.beta1 * moments[name][0] + (1 - train.beta1) * g
            second = train.beta2 * moments[name][1] + (1 - train.beta2) * g**2
            moments[name] = first, second
            decayed = p.detach().double().numpy() * (1 - rate * (0.3 if p.dim() >= 2 else 0.0))
            corrected = first / (1 - train.beta1**update)
            wanted[name] = decayed - rate * corrected / (np.sqrt(second / (1 - train.beta2**update)) + train.epsilon)
        metrics = experiment.step()
        assert metrics["loss"] == pytest.approx(loss.item(), rel=1e-5)
        assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-4)
        assert metrics["lr"] == pytest.approx(rate, rel=1e-12)
        for name, p in parameters.items():
            np.testing.assert_allclose(p.detach().numpy(), wanted[name], atol=2e-5)


def test_the_learning_rate_warms_up_and_follows_half_a_cosine() -> None:
    values = {n: factor(n, warmup=10, steps=110, final=0.2, decay="cosine") for n in (1, 5, 10, 35, 60, 110, 200)}
    wanted = {1: 0.1, 5: 0.5, 10: 1.0, 35: 0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2, 60: 0.6, 110: 0.2, 200: 0.2}
    assert values == pytest.approx(wanted)
    assert factor(1, warmup=0, steps=1, final=0.1, decay="cosine") == pytest.approx(0.1)
    assert factor(77, warmup=10, steps=110, final=0.2, decay="constant") == 1


def test_only_matrices_decay(corpus: Path) -> None:
    """Updates without a gradient: what changes is what decays, and by how much is AdamW's own 1 − ηλ."""
    experiment = KIND.build(scenario(corpus, train={"weight_decay": 0.3}))
    before = {name: parameter.detach().clone() for name, parameter in experiment.model.named_parameters()}
    (optimizer,) = experiment.optimizers
    for group in optimizer.param_groups:
        group["lr"] = 0.1
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in experiment.model.named_parameters():
        wanted = before[name] * (1 - 0.1 * 0.3) if parameter.dim() >= 2 else before[name]
        torch.testing.assert_close(parameter.detach(), wanted, msg=name)


FORMER = {
    "attention_norm": "norm_attention", "feed_forward_norm": "norm_feed_forward", "final_norm": "last_norm",
    "qkv_proj": "qkv", "out_proj": "out", "up_proj": "rise", "down_proj": "fall",
}  # fmt: skip


def test_a_checkpoint_under_the_former_names_continues_with_the_same_bits(corpus: Path) -> None:
    def former(tensors: dict[str, Any]) -> dict[str, Any]:
        return {".".join(FORMER.get(part, part) for part in name.split(".")): each for name, each in tensors.items()}

    experiment, other = KIND.build(scenario(corpus)), KIND.build(scenario(corpus))
    for _ in range(3):
        experiment.step()
    state = copy.deepcopy(dict(experiment.state_dict()))
    state |= {"model": former(state["model"]), "optimizer": former(state["optimizer"])}
    assert "blocks.0.feed_forward.rise.weight" in state["model"]
    other.load_state_dict(state)
    for _ in range(2):
        assert dict(experiment.step()) == dict(other.step())
    assert_same_bits(weights(experiment), weights(other))


def test_micro_batches_add_up_to_the_batch() -> None:
    """On the induction task every sequence scores another number of targets: a mean of means would be wrong."""
    whole, parts = KIND.build(scenario(None)), KIND.build(scenario(None, train={"accumulate": 4}))
    one, other = whole.step(), parts.step()
    assert other["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert other["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-4)
    assert other["copy_accuracy"] == pytest.approx(one["copy_accuracy"])


# What must never reach the weights


def poison(experiment: LanguageModelExperiment, value: float, at: int) -> str:
    """At one update a gradient has one bad entry, before and after it none; returns its parameter's name."""
    name = "blocks.1.feed_forward.down_proj.weight"
    parameter = dict(experiment.model.named_parameters())[name]

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        if experiment.step_count != at - 1:
            return gradient
        bad = gradient.clone()
        bad[0, 3] = value
        return bad

    parameter.register_hook(hook)
    return name


@pytest.mark.parametrize(("value", "spelt"), [(float("nan"), "NaN"), (float("-inf"), "-Infinity")])
def test_an_update_that_is_not_finite_leaves_every_bit_where_it_was(corpus: Path, value: float, spelt: str) -> None:
    experiment = KIND.build(scenario(corpus))
    name = poison(experiment, value, at=4)
    for _ in range(3):
        experiment.step()
    before = experiment.state_dict()
    kept, moments = weights(experiment), {n: s["exp_avg"].clone() for n, s in before["optimizer"].items()}
    with pytest.raises(NotFinite, match=f"step 4: the gradient of {name} is {spelt}"):
        experiment.step()
    assert_same_bits(weights(experiment), kept)
    assert_same_bits({n: s["exp_avg"] for n, s in experiment.state_dict()["optimizer"].items()}, moments)
    assert experiment.step_count == 3


def test_a_loss_that_is_not_finite_is_named(corpus: Path) -> None:
    experiment = KIND.build(scenario(corpus))
    with torch.no_grad():
        experiment.model.embed.weight[5] = float("nan")
    with pytest.raises(NotFinite, match="step 1: loss is NaN"):
        experiment.step()


def test_a_device_that_tells_late_refuses_all_updates_after_the_bad_one(corpus: Path) -> None:
    """The way of a GPU, on the CPU: no metric is read back, the flag goes to fused AdamW, verify() tells."""
    late, healthy, prompt = (KIND.build(scenario(corpus)) for _ in range(3))
    late.checks_async = healthy.checks_async = True
    for _ in range(3):
        metrics, wanted = late.step(), prompt.step()
        healthy.step()
        assert isinstance(metrics["loss"], torch.Tensor)
        assert metrics["loss"].item() == pytest.approx(wanted["loss"], rel=1e-5)
        assert metrics["grad_norm"].item() == pytest.approx(wanted["grad_norm"], rel=1e-5)
    late.verify()
    assert_same_bits(weights(late), weights(healthy))
    name = poison(late, float("inf"), at=5)
    for _ in range(4):
        late.step()  # the fourth goes through, the fifth is refused, and so are those after it
    healthy.step()
    assert_same_bits(weights(late), weights(healthy))
    with pytest.raises(NotFinite, match=f"step 5: the gradient of {name} is Infinity"):
        late.verify()
    assert late.step_count == 4
    for name, moments in late.state_dict()["optimizer"].items():
        for key, value in moments.items():
            assert torch.equal(value, healthy.state_dict()["optimizer"][name][key]), (name, key)


# Again, and from the middle


SECOND_HALF = """
import json, sys
from pathlib import Path
from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
answers = []
for scenario, folder in json.loads(sys.argv[1]):
    experiment = KIND.build(LanguageModelScenario.model_validate_json(scenario))
    run = RunDirectory(Path(folder))
    experiment.load_state_dict(checkpoints.load(run, 9))
    rows = [experiment.step() for _ in range(11)]
    answers.append([rows, experiment.evaluate(), [sample.text for sample in experiment.samples()]])
    checkpoints.save(run, 20, experiment.state_dict())
print(json.dumps(answers))
"""


@pytest.mark.evidence
def test_two_halves_in_two_processes_are_the_whole_bit_for_bit(corpus: Path, tmp_path: Path) -> None:
    from txlab.runs import checkpoints
    from txlab.runs.directory import RunDirectory

    asked, wanted, wholes = [], [], []
    for dtype in ("float32", "bfloat16"):
        settings = scenario(corpus, model={"dropout": 0.2}, compute={"dtype": dtype})
        folder = tmp_path / dtype
        folder.mkdir()
        whole, first = KIND.build(settings), KIND.build(settings)
        rows = [whole.step() for _ in range(20)]
        assert [first.step() for _ in range(9)] == rows[:9]
        checkpoints.save(RunDirectory(folder), 9, first.state_dict())
        asked.append([settings.model_dump_json(), str(folder)])
        wanted.append([rows[9:], whole.evaluate(), [sample.text for sample in whole.samples()]])
        wholes.append((folder, whole))
    command = [sys.executable, "-c", SECOND_HALF, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == wanted
    for folder, whole in wholes:
        state = checkpoints.load(RunDirectory(folder), 20)
        assert_same_bits(state["model"], weights(whole))
        for name, moments in whole.state_dict()["optimizer"].items():
            assert_same_bits(state["optimizer"][name], moments)


def test_looking_changes_nothing(corpus: Path) -> None:
    settings = scenario(corpus, model={"dropout": 0.2})
    alone, watched = KIND.build(settings), KIND.build(settings)
    for _ in range(4):
        assert alone.step() == watched.step()
        assert watched.evaluate() == watched.evaluate()
        watched.frame()
        assert watched.samples() == watched.samples()
        watched.facts()
    assert_same_bits(weights(alone), weights(watched))


def test_user_changes_are_restored(corpus: Path) -> None:
    settings = scenario(corpus)
    one = KIND.build(settings)
    for name, value in {"lr": 1e-4, "clip": 0.1, "weight_decay": 0.7, "dropout": 0.3, "temperature": 0.2}.items():
        assert one.adjustable()[name].low <= value <= one.adjustable()[name].high
        one.adjust(name, value)
    one.step()
    other = KIND.build(settings)
    other.load_state_dict(one.state_dict())
    assert {n: a.value for n, a in other.adjustable().items()} == {n: a.value for n, a in one.adjustable().items()}
    assert one.step() == other.step()
    assert_same_bits(weights(one), weights(other))
    assert one.learning_rate(5) == 1e-4  # the peak is what was set, and update 5 is the peak
    assert [group["weight_decay"] for group in one.optimizers[0].param_groups] == [0.7, 0.0]


def test_an_unknown_name_is_refused_with_the_nearest(corpus: Path) -> None:
    with pytest.raises(LabError, match="nearest: temperature"):
        KIND.build(scenario(corpus)).adjust("temprature", 1.0)


def test_a_checkpoint_of_another_corpus_or_shape_is_refused_with_an_error(corpus: Path, tmp_path: Path) -> None:
    state = KIND.build(scenario(corpus)).state_dict()
    other = tmp_path / "other.txt"
    other.write_text(corpus.read_text() + " and more")
    with pytest.raises(LabError, match="is not the corpus that this run began with"):
        KIND.build(scenario(other)).load_state_dict(state)
    with pytest.raises(LabError, match="does not fit"):
        KIND.build(scenario(corpus, model={"width": 32})).load_state_dict(state)
    with pytest.raises(LabError, match="lacks"):
        KIND.build(scenario(corpus, model={"layers": 3})).load_state_dict(state)


# What a user sees


def test_a_frame_shows_what_the_model_does(corpus: Path) -> None:
    experiment = KIND.build(scenario(corpus))
    for _ in range(5):
        experiment.step()
    frame, ids = experiment.frame(), experiment.data.probe
    shapes = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in frame.tensors.items()}
    assert shapes == {
        "attention/pattern": ((2, 2, 16, 16), torch.float16),
        "attention/query": ((2, 2, 16, 8), torch.float32),
        "attention/key": ((2, 2, 16, 8), torch.float32),
        "attention/previous": ((2, 2), torch.float32),
        "attention/induction": ((2, 2), torch.float32),
        "next/probability": ((16, 8), torch.float32),
    }
    assert frame.step == 5
    assert list(frame.tokens["probe"]) == [experiment.data.label(token) for token in ids]
    probabilities = run_with_cache(experiment.model, Text(tuple(ids))).probabilities(slice(None))
    for row in (0, 15):
        best = int(probabilities[row].argmax())
        assert frame.tokens["next"][8 * row] == experiment.data.label(best)
        assert float(frame.tensors["next/probability"][row, 0]) == float(probabilities[row, best])
    assert frame.facts == {"mask": "causal", "predicts": "next", "layers": 2, "heads": 2, "head_width": 8}


def test_samples_continue_every_prompt_and_a_cold_one_is_the_likeliest(corpus: Path) -> None:
    experiment = KIND.build(scenario(corpus, sampling={"prompts": ["the ", "corn "], "temperature": 0.0, "tokens": 30}))
    samples = experiment.samples()
    assert [sample.prompt for sample in samples] == ["the ", "corn "]
    text = experiment.data.tokenizer.encode("the ")
    experiment.model.eval()
    chosen = int(experiment.model(torch.tensor([text]))[0, -1].argmax())
    assert samples[0].text.startswith(experiment.data.decode([chosen]))


def test_facts_are_json_and_count_what_is_there(corpus: Path) -> None:
    experiment = KIND.build(scenario(corpus))
    facts = json.loads(json.dumps(experiment.facts()))
    assert facts["parameters"] == sum(parameter.numel() for parameter in experiment.model.parameters())
    assert facts["units_per_step"] == 4 * 24
    assert facts["peak_flops"] > 1e8
    assert facts["compute"]["threads"] == 1
    assert experiment.optimizers[0].defaults["betas"] == (0.9, 0.99)
