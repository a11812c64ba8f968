"""The translation experiment: what it learns, how it is judged, and that it continues where it stopped (MATH T8)."""

from __future__ import annotations

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
from decided import DECIDED
from torch.utils.flop_counter import FlopCounterMode

from txlab.engine.transformer.blocks import pattern, scores
from txlab.engine.transformer.hooks import keeping
from txlab.errors import LabError
from txlab.experiments.kind import explain_metric, kind_named
from txlab.experiments.kinds.translation import KIND
from txlab.experiments.kinds.translation.experiment import TranslationExperiment, flops_per_pair
from txlab.experiments.kinds.translation.schema import TranslationScenario
from txlab.experiments.kinds.translation.tokens import END, START
from txlab.experiments.learning.explanations import explain_attention
from txlab.experiments.protocol import NotFinite


def scenario(**changes: dict[str, Any]) -> TranslationScenario:
    """A model small enough for a test; `changes` are merged into its sections."""
    sections: dict[str, Any] = {
        "seed": 4,
        "data": {"pairs": 300},
        "model": {"heads": 2, "width": 16},
        "train": {"steps": 40, "batch": 6, "warmup": 5, "learning_rate": 3e-3, "validation_batches": 2},
        "sampling": {"pairs": 2},
        "compute": DECIDED,
    }
    for name, section in changes.items():
        sections[name] = {**sections.get(name, {}), **section}
    return TranslationScenario.model_validate(sections)


def weights(experiment: TranslationExperiment) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in experiment.model.state_dict().items()}


def assert_same_bits(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def alone(experiment: TranslationExperiment, source: list[int], target: list[int]) -> torch.Tensor:
    """−log p of each target token of one pair (the end token last), without padding, masks or batches."""
    logits = experiment.model(torch.tensor([[*source, END]]), torch.tensor([[START, *target]]), "matmul")[0]
    return F.cross_entropy(logits, torch.tensor([*target, END]), reduction="none")


def by_hand(experiment: TranslationExperiment, source: list[int]) -> list[int]:
    """Greedy decoding without caches: the whole target is read again for each of its tokens."""
    target: list[int] = []
    while len(target) < experiment.writing.longest:
        logits = experiment.model(torch.tensor([[*source, END]]), torch.tensor([[START, *target]]), "matmul")[0, -1]
        logits[:END] = -math.inf  # padding and start
        if (token := int(logits.argmax())) == END:
            break
        target.append(token)
    return target


@pytest.fixture(scope="module")
def learnt() -> TranslationExperiment:
    """A model that translates some of the shortest dates rightly, others not."""
    experiment = KIND.build(
        scenario(
            data={"task": "dates", "pairs": 400},
            model={"width": 48},
            train={"steps": 120, "batch": 16, "warmup": 10, "learning_rate": 6e-3, "validation_batches": 2},
        )
    )
    for _ in range(120):
        experiment.step()
    return experiment


def test_it_learns(learnt: TranslationExperiment) -> None:
    fresh = KIND.build(learnt.scenario).evaluate()
    after = learnt.evaluate()
    assert fresh["val_loss"] > math.log(14) - 0.2  # knowing nothing, or worse
    assert after["val_loss"] < 0.5 * math.log(14)
    assert after["token_accuracy"] > 0.6 > fresh["token_accuracy"]


@torch.no_grad()
def test_evaluation_is_what_one_pair_at_a_time_gives(learnt: TranslationExperiment) -> None:
    unseen = learnt.data.unseen
    assert len(unseen) == 32
    losses = [alone(learnt, source, target) for source, target in unseen]
    measured = learnt.evaluate()
    assert measured["val_loss"] == pytest.approx(float(torch.cat(losses).mean()), rel=1e-4)
    right = [by_hand(learnt, source) == target for source, target in unseen]
    assert measured["exact_match"] == pytest.approx(sum(right) / 32)
    assert measured == learnt.evaluate()


def test_exact_match_counts_whole_translations(learnt: TranslationExperiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is right in all but the last token of every second source."""
    wanted = {tuple(source): target for source, target in learnt.data.unseen}

    def written(self: object, model: object, sources: list[list[int]]) -> list[list[int]]:
        answers = [list(wanted[tuple(source[:-1])]) for source in sources]
        for answer in answers[::2]:
            answer[-1] = 3 if answer[-1] != 3 else 4
        return answers

    monkeypatch.setattr(type(learnt.writing), "greedy", written)
    assert learnt.evaluate()["exact_match"] == 0.5


def test_padding_and_threads_change_no_gradient() -> None:
    """The gradient of a batch is that of its pairs alone, added up, also where threads share the batch."""
    whole = KIND.build(scenario())
    shared = KIND.build(scenario(compute={"threads": 2, "thread_mode": "batch"}))
    parts = KIND.build(scenario(train={"accumulate": 3}))
    update, batch = next(
        (step + 1, batch) for step in range(50) if len(set((batch := whole.data.train_batch(step)).lengths)) > 2
    )
    losses = [
        alone(whole, source[: length - 1], [token for token in row if token >= 0][:-1])
        for source, length, row in zip(batch.source.tolist(), batch.lengths, batch.targets.tolist(), strict=True)
    ]
    mean = torch.cat(losses).mean()
    expected = torch.autograd.grad(mean, list(whole.model.parameters()))
    named = dict(zip(dict(whole.model.named_parameters()), expected, strict=True))
    for experiment in (whole, shared, parts):
        loss = experiment.gradients(update)["loss"]
        experiment.threads.add_gradients()
        assert float(loss) == pytest.approx(float(mean), rel=1e-5)
        for name, parameter in experiment.model.named_parameters():
            torch.testing.assert_close(parameter.grad, named[name], atol=2e-6, rtol=1e-4, msg=name)
    torch.set_num_threads(1)


def test_label_smoothing_spreads_its_share_over_the_vocabulary() -> None:
    plain, smooth = KIND.build(scenario()), KIND.build(scenario(train={"label_smoothing": 0.2}))
    batch = plain.data.train_batch(0)
    logits = plain.model(batch.source, batch.inputs, "matmul", source_mask=batch.source_mask).flatten(0, 1)
    real = batch.targets.flatten() >= 0
    log_p = logits.detach().log_softmax(-1)[real]
    right = log_p.gather(1, batch.targets.flatten()[real][:, None])[:, 0]
    assert smooth.step()["loss"] == pytest.approx(float(-(0.8 * right + 0.2 * log_p.mean(-1)).mean()), rel=1e-5)
    assert plain.step()["loss"] == pytest.approx(float(-right.mean()), rel=1e-5)
    assert smooth.adjustable()["label_smoothing"].value == 0.2


@torch.no_grad()
def test_evaluation_has_no_label_smoothing_in_it() -> None:
    plain, smooth = (
        KIND.build(scenario(data={"task": "dates", "pairs": 60}, train={"label_smoothing": share}))
        for share in (0.0, 0.3)
    )
    smooth.model.load_state_dict(plain.model.state_dict())
    losses = [alone(smooth, source, target) for source, target in smooth.data.unseen]
    measured = smooth.evaluate()
    assert measured["val_loss"] == pytest.approx(float(torch.cat(losses).mean()), rel=1e-5)
    assert measured == plain.evaluate()


# What must never reach the weights


def test_an_update_that_is_not_finite_is_refused() -> None:
    experiment = KIND.build(scenario())
    for _ in range(2):
        experiment.step()
    name = "decoder.blocks.1.cross.out_proj.weight"
    parameter = dict(experiment.model.named_parameters())[name]
    parameter.register_hook(lambda gradient: gradient * float("nan"))
    kept = weights(experiment)
    with pytest.raises(NotFinite, match=r"step 3: the gradient of .* is NaN"):
        experiment.step()
    assert_same_bits(weights(experiment), kept)
    assert experiment.step_count == 2


def test_a_device_that_tells_late_goes_back_to_the_update_before() -> None:
    """The way of a GPU, on the CPU."""
    late, prompt = KIND.build(scenario()), KIND.build(scenario())
    late.checks_async = True
    for _ in range(3):
        metrics, wanted = late.step(), prompt.step()
        assert isinstance(metrics["loss"], torch.Tensor)
        assert metrics["loss"].item() == pytest.approx(wanted["loss"], rel=1e-5)
    late.verify()
    kept = weights(late)
    parameter = late.model.embed_target.weight
    parameter.register_hook(lambda gradient: gradient * float("inf"))
    for _ in range(2):
        late.step()
    with pytest.raises(NotFinite, match="step 4"):
        late.verify()
    assert_same_bits(weights(late), kept)
    assert late.step_count == 3


# Again, and from the middle


SECOND_HALF = """
import json, sys
from pathlib import Path
from txlab.experiments.kinds.translation import KIND
from txlab.experiments.kinds.translation.schema import TranslationScenario
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
answers = []
for scenario, folder in json.loads(sys.argv[1]):
    experiment = KIND.build(TranslationScenario.model_validate_json(scenario))
    run = RunDirectory(Path(folder))
    experiment.load_state_dict(checkpoints.load(run, 7))
    rows = [experiment.step() for _ in range(8)]
    answers.append([rows, experiment.evaluate(), [sample.text for sample in experiment.samples()]])
    checkpoints.save(run, 15, experiment.state_dict())
print(json.dumps(answers))
"""


@pytest.mark.evidence
def test_two_halves_in_two_processes_are_the_whole_bit_for_bit(tmp_path: Path) -> None:
    from txlab.runs import checkpoints
    from txlab.runs.directory import RunDirectory

    asked, wanted, wholes = [], [], []
    for number, settings in enumerate(
        [
            scenario(model={"dropout": 0.2}, train={"label_smoothing": 0.1}),
            scenario(compute={"dtype": "bfloat16", "attention": "matmul"}, data={"task": "dates"}),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        whole, first = KIND.build(settings), KIND.build(settings)
        rows = [whole.step() for _ in range(15)]
        assert [first.step() for _ in range(7)] == rows[:7]
        checkpoints.save(RunDirectory(folder), 7, first.state_dict())
        asked.append([settings.model_dump_json(), str(folder)])
        wanted.append([rows[7:], whole.evaluate(), [sample.text for sample in whole.samples()]])
        wholes.append((folder, whole))
    torch.set_num_threads(1)
    command = [sys.executable, "-c", SECOND_HALF, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == wanted
    for folder, whole in wholes:
        state = checkpoints.load(RunDirectory(folder), 15)
        assert_same_bits(state["model"], weights(whole))
        for name, moments in whole.state_dict()["optimizer"].items():
            assert_same_bits(state["optimizer"][name], moments)


def test_looking_changes_nothing() -> None:
    settings = scenario(model={"dropout": 0.2})
    alone, watched = KIND.build(settings), KIND.build(settings)
    for _ in range(3):
        assert alone.step() == watched.step()
        assert watched.evaluate() == watched.evaluate()
        watched.frame()
        assert watched.samples() == watched.samples()
        watched.facts()
    assert_same_bits(weights(alone), weights(watched))


def test_user_changes_are_restored() -> None:
    one = KIND.build(scenario())
    changes = {"lr": 1e-4, "clip": 0.1, "weight_decay": 0.7, "dropout": 0.3, "label_smoothing": 0.2}
    assert set(changes) == set(one.adjustable())
    for name, value in changes.items():
        assert one.adjustable()[name].low <= value <= one.adjustable()[name].high
        one.adjust(name, value)
    one.step()
    other = KIND.build(scenario())
    other.load_state_dict(one.state_dict())
    assert {name: each.value for name, each in other.adjustable().items()} == changes
    assert one.step() == other.step()
    assert_same_bits(weights(one), weights(other))
    with pytest.raises(LabError, match="nearest: label_smoothing"):
        one.adjust("label_smooting", 0.1)


def test_a_checkpoint_of_other_pairs_or_another_shape_is_refused_with_an_error() -> None:
    state = KIND.build(scenario()).state_dict()
    with pytest.raises(LabError, match="was learnt from other pairs"):
        KIND.build(scenario(data={"pairs": 299})).load_state_dict(state)
    with pytest.raises(LabError, match="does not fit"):
        KIND.build(scenario(model={"width": 32})).load_state_dict(state)
    with pytest.raises(LabError, match="lacks"):
        KIND.build(scenario(model={"decoder_layers": 3})).load_state_dict(state)


def test_a_checkpoint_opens_without_its_pairs() -> None:
    for changes in ({"probe": {}}, {"model": {"shared": True}}, {"data": {"task": "dates"}}):
        experiment = KIND.build(scenario(**changes))
        experiment.step()
        kind = kind_named("translation")
        opened = kind.open_model(experiment.scenario, {"model": experiment.state_dict()["model"]})
        assert opened.kind == "encoder-decoder"
        assert opened.target_tokenizer is not None
        source, target = opened.tokenizer.encode(opened.example), opened.target_tokenizer.encode(opened.example_target)
        ids = (
            torch.tensor([[*source, opened.special.source_end]]),
            torch.tensor([[opened.special.begin, *target]]),
        )
        with torch.no_grad():
            assert torch.equal(opened.model(*ids), experiment.model.eval()(*ids))
        assert not opened.model.training


# What a user sees


def test_a_frame_shows_the_three_attentions_of_the_probe() -> None:
    experiment = KIND.build(scenario(model={"encoder_layers": 3, "dropout": 0.3}))
    for _ in range(3):
        experiment.step()
    frame = experiment.frame()
    assert experiment.model.training
    source, target = [*experiment.data.probe[0], END], [START, *experiment.data.probe[1]]
    S, T = len(source), len(target)
    assert {name: tuple(tensor.shape) for name, tensor in frame.tensors.items()} == {
        "encoder/pattern": (3, 2, S, S),
        "encoder/query": (3, 2, S, 8),
        "encoder/key": (3, 2, S, 8),
        "decoder/pattern": (2, 2, T, T),
        "decoder/query": (2, 2, T, 8),
        "decoder/key": (2, 2, T, 8),
        "cross/pattern": (2, 2, T, S),
        "cross/query": (2, 2, T, 8),
        "cross/key": (2, 2, S, 8),
        "encoder/previous": (3, 2),
        "decoder/previous": (2, 2),
        "next/probability": (T, 8),
    }
    # What the model itself forms on its way, caught by hooks at the patterns.
    hooks, kept = keeping("*.pattern")
    experiment.model.eval()
    with torch.no_grad():
        logits = experiment.model(torch.tensor([source]), torch.tensor([target]), "matmul", hooks=hooks)[0]
    places = {"encoder": "encoder.blocks.{}.attention", "decoder": "decoder.blocks.{}.attention"}
    places["cross"] = "decoder.blocks.{}.cross"
    for site, place in places.items():
        for layer, shown in enumerate(torch.as_tensor(frame.tensors[f"{site}/pattern"])):
            torch.testing.assert_close(shown.float(), kept[f"{place.format(layer)}.pattern"][0], atol=1e-3, rtol=0)
    q, k = (torch.as_tensor(frame.tensors[f"cross/{name}"]) for name in ("query", "key"))
    torch.testing.assert_close(pattern(scores(q, k), None).half(), frame.tensors["cross/pattern"], atol=1e-3, rtol=0)
    label = experiment.data.target_tokenizer.label
    assert list(frame.tokens["target"]) == [label(token) for token in target]
    assert list(frame.tokens["source"])[-1] == "<end>"
    assert frame.tokens["next"][8 * (T - 1)] == label(int(logits[-1].argmax()))
    assert frame.texts["source"] == experiment.data.source_tokenizer.decode(source)
    assert explain_attention(frame, "next/probability", (0, 0)).question.endswith("'<start>'?")
    assert frame.facts["sites"] == ["encoder", "decoder", "cross"]
    assert frame.facts["masks"] == ["none", "causal", "none"]


def test_samples_say_whether_they_are_right(learnt: TranslationExperiment) -> None:
    settings = learnt.scenario.model_copy(
        update={"sampling": learnt.scenario.sampling.model_copy(update={"pairs": 16, "sources": ["5 March 2021"]})}
    )
    experiment = KIND.build(settings)
    experiment.load_state_dict(learnt.state_dict())
    samples = experiment.samples()
    assert len(samples) == 17
    decode = experiment.data.target_tokenizer.decode
    for sample, (source, target) in zip(samples[:-1], experiment.data.unseen, strict=False):
        with torch.no_grad():
            written = by_hand(experiment, source)
        answer = "(right)" if written == target else f"(wrong; right is {decode(target)})"
        assert sample.prompt == experiment.data.source_tokenizer.decode(source)
        assert sample.text == f" → {decode(written)} {answer}"
    assert samples[-1].prompt == "5 March 2021"
    assert "right" not in samples[-1].text


def test_a_beam_of_several_finds_what_is_at_least_as_likely(learnt: TranslationExperiment) -> None:
    sources = [[*source, END] for source, _ in learnt.data.unseen[:8]]
    learnt.model.eval()
    greedy, beam = learnt.writing.greedy(learnt.model, sources), learnt.writing.beam(learnt.model, sources, 4, 0.0)
    with torch.no_grad():
        likelihood = [
            [-float(alone(learnt, source[:-1], written).sum()) for source, written in zip(sources, each, strict=True)]
            for each in (greedy, beam)
        ]
    assert sum(likelihood[1]) >= sum(likelihood[0]) - 1e-4
    assert learnt.writing.beam(learnt.model, sources, 1, 0.6) == greedy


def test_facts_are_json_and_count_what_is_there() -> None:
    experiment = KIND.build(scenario())
    facts = json.loads(json.dumps(experiment.facts()))
    assert facts["parameters"] == sum(parameter.numel() for parameter in experiment.model.parameters())
    pairs = experiment.data.train
    tokens = sum(len(source) + 1 + len(target) + 1 for source, target in pairs)
    assert facts["units_per_step"] == pytest.approx(6 * tokens / len(pairs))
    assert facts["corpus"]["pairs"] == 300
    assert facts["corpus"]["unseen_pairs"] == 12


def test_the_work_of_a_pair_is_what_torch_counts() -> None:
    experiment = KIND.build(scenario(model={"encoder_layers": 3}))
    source, target = torch.zeros(1, 11, dtype=torch.long), torch.zeros(1, 7, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        experiment.model(source, target, "matmul").sum().backward()
    assert flops_per_pair(experiment.shape, [(11, 7)]) == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_the_metrics_of_a_translation_are_explained() -> None:
    settings = scenario().model_dump()
    facts = {"corpus": {"unseen_pairs": 500, "target_tokens": 16.0}}
    values = {"exact_match": 0.9, "token_accuracy": 0.99, "lr": 3e-3, "grad_norm": 2.0, "val_loss": 0.5}
    exact = explain_metric(settings, "exact_match", 40, values, facts)
    assert exact is not None
    assert [step.result for step in exact.meaning] == pytest.approx([450.0, 50.0, math.exp(16 * math.log(0.99))])
    norm = explain_metric(settings, "grad_norm", 40, values, facts)
    assert norm is not None
    assert norm.meaning[0].result == pytest.approx(0.5, rel=1e-5)
    loss = explain_metric(settings, "val_loss", 40, values, facts)
    assert loss is not None
    assert "unseen pairs" in loss.steps[0].note


@pytest.mark.parametrize("p", [None, 0.5, 0.1])
def test_a_loss_with_label_smoothing_is_explained_with_it(p: float | None) -> None:
    """s = .1, V = 32. The least loss is .651, with p(yₜ) = q(yₜ) = .903 and perplexity 1.107; exp(.651) is 1.917."""
    s, V = 0.1, 32
    q = np.full(V, s / V)
    q[7] += 1 - s
    chances = q.copy()
    if p is not None:
        chances[:] = (1 - p) / (V - 1)
        chances[7] = p
    loss = float(-(q * np.log(chances)).sum())
    settings = scenario(train={"label_smoothing": s}).model_dump()
    facts = {"tokenizer": {"vocabulary": V}}
    told = explain_metric(settings, "loss", 40, {"loss": loss}, facts)
    assert told is not None
    steps = {step.name: step.result for step in told.meaning}
    assert "q(v) = (1 − s)" in told.equation
    assert steps["H(q)"] == pytest.approx(float(-(q * np.log(q)).sum()))
    assert steps["L − H(q)"] == pytest.approx(float((q * np.log(q / chances)).sum()), abs=1e-12)
    assert steps["perplexity"] == pytest.approx(1 / float(chances[7]), rel=1e-6)
    if p is None:
        assert (loss, steps["perplexity"]) == pytest.approx((0.651, 1.107), abs=5e-4)
    assert "exp L" not in steps
    unseen = explain_metric(settings, "val_loss", 40, {"val_loss": loss}, facts)
    assert unseen is not None
    assert {step.name: step.result for step in unseen.meaning}["exp L"] == pytest.approx(math.exp(loss))


def test_the_perplexity_told_of_a_smoothed_loss_is_a_bound_over_many_tokens() -> None:
    random = np.random.default_rng(1)
    s, V = 0.2, 6
    chances = random.dirichlet(np.ones(V), 50)
    right = random.integers(V, size=50)
    nats = -np.log(chances)
    loss = float(np.mean((1 - s) * nats[np.arange(50), right] + s * nats.mean(axis=1)))
    told = explain_metric(scenario(train={"label_smoothing": s}).model_dump(), "loss", 1, {"loss": loss},
                          {"tokenizer": {"vocabulary": V}})  # fmt: skip
    assert told is not None
    found = {step.name: step.result for step in told.meaning}["perplexity"]
    assert math.exp(nats[np.arange(50), right].mean()) <= found


# Settings


def test_the_probe_leaves_nothing_open_and_says_why() -> None:
    asked = scenario(
        compute={"dtype": "auto", "attention": "auto", "threads": 0, "thread_mode": "auto", "compile": "auto"}
    )
    decided = KIND.resolve(asked)
    assert "auto" not in decided.compute.model_dump().values()
    assert decided.compute.threads > 0
    assert KIND.resolve(decided) is decided
    why = KIND.build(decided).facts()["compute"]["why"]
    torch.set_num_threads(1)
    assert any("ms a step" in reason for reason in why)
    partly = KIND.resolve(scenario(compute={"dtype": "bfloat16", "threads": 1, "attention": "auto"}))
    assert (partly.compute.dtype, partly.compute.threads) == ("bfloat16", 1)
    with pytest.raises(LabError, match=r"compute\.compile = true"):
        KIND.resolve(scenario(compute={"compile": True}))


def test_a_probe_text_needs_its_translation() -> None:
    with pytest.raises(ValueError, match="must be given together"):
        scenario(probe={"source": "the old dog sleeps near the house"})
    with pytest.raises(LabError, match="'howse' is not known"):
        KIND.build(scenario(probe={"source": "the howse", "target": "da"}))
