"""Kind text-classification: its reviews, what each classifier learns from, what both starts share, its accuracies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from decided import DECIDED

from txlab.drawing.sweep import surface_of, text_sweep
from txlab.engine.rlhf.tasks import reviews
from txlab.engine.transformer.bert import BertShape
from txlab.engine.transformer.classifier import BertClassifier
from txlab.engine.transformer.costs import costs
from txlab.errors import LabError
from txlab.experiments.kind import kind_named
from txlab.experiments.kinds.text_classification.experiment import ReviewData, TextClassificationExperiment
from txlab.experiments.kinds.text_classification.schema import TextClassificationScenario
from txlab.runs.directory import RunDirectory
from txlab.runs.process import execute, prepare
from txlab.runs.reader import RunReader
from txlab.runs.scenario import LoadedScenario, load_scenario

KIND = kind_named("text-classification")
SMALL: dict[str, dict[str, Any]] = {
    "data": {"reviews": 40, "held_out": 30, "shares": [1.0, 0.1]},
    "model": {"layers": 1, "heads": 2, "width": 16, "context": 24, "norm": "pre"},
    "train": {"steps": 4, "batch": 4, "warmup": 1},
    "compute": DECIDED | {"attention": "matmul"},
}


def scenario(**changes: dict[str, Any]) -> TextClassificationScenario:
    sections = {name: {**SMALL.get(name, {}), **changes.get(name, {})} for name in {*SMALL, *changes}}
    return TextClassificationScenario.model_validate({"seed": 3, **sections})


def made(**changes: dict[str, Any]) -> TextClassificationExperiment:
    experiment = KIND.build(scenario(**changes))
    assert isinstance(experiment, TextClassificationExperiment)
    return experiment


def test_the_reviews_of_the_feedback_kinds_are_drawn_as_before() -> None:
    """The expression that the demonstrations were drawn by, with the same generator."""
    ours, plain = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(50):
        kinds = plain.choice(3, size=plain.integers(3, 6), p=reviews.SHARES[plain.random() < reviews.LIKED])
        words = [reviews.QUALITIES[kind][plain.integers(len(reviews.QUALITIES[kind]))] for kind in kinds]
        assert reviews.demonstrate(ours, "") == " " + ", ".join(words)


def test_the_probability_of_a_verdict_is_the_share_among_many_reviews_of_the_same_words() -> None:
    draws = np.random.default_rng(1)
    found: dict[tuple[int, int], list[bool]] = {}
    for _ in range(40_000):
        review, liked = reviews.draw_review(draws)
        words = review.replace(",", "").split()
        key = sum(word in reviews.PRAISE for word in words), sum(word in reviews.BLAME for word in words)
        found.setdefault(key, []).append(liked)
    for (praise, blame), verdicts in found.items():
        if len(verdicts) > 1000:
            text = ", ".join([*["warm"] * praise, *["dull"] * blame])
            assert np.mean(verdicts) == pytest.approx(reviews.probability_liked(text), abs=0.05)


def test_no_held_out_review_is_learnt_from_and_all_fit_the_context() -> None:
    data = ReviewData(scenario(data={"reviews": 300, "held_out": 200}))
    known = [review for review, _ in data.train]
    assert len(set(known)) > 290
    assert not set(known) & {review for review, _ in data.held_out}
    words = {word for review, _ in data.held_out for word in review.replace(",", "").split()}
    assert words <= reviews.WORDS  # none is cut in the middle
    assert max(len(review.encode()) for review in known) <= 22
    ids, lengths, classes = data.rows
    for row, length, verdict, (review, liked) in zip(ids.tolist(), lengths.tolist(), classes, data.train, strict=True):
        assert row == [256, *review.encode(), *[257] * (24 - 1 - len(review.encode()))]
        assert length == len(review.encode()) + 2
        assert bool(verdict) == liked
    right = sum((reviews.probability_liked(review) > 0.5) == liked for review, liked in data.held_out)
    assert data.best_possible == right / 200
    with pytest.raises(LabError, match="too short for the review"):
        ReviewData(scenario(model={"context": 5}))


def test_a_classifier_does_not_see_padding_and_has_the_counted_parameters() -> None:
    shape = BertShape(2, 2, 16, 12, 259, segments=1, norm="pre", classes=3)
    model = BertClassifier(shape, torch.Generator().manual_seed(1))
    assert costs(shape).parameters == sum(parameter.numel() for parameter in model.parameters())
    ids = torch.randint(259, (2, 8), generator=torch.Generator().manual_seed(2))
    longer = torch.cat((ids, torch.full((2, 4), 7)), 1)
    lengths = torch.tensor([8, 5])
    assert torch.allclose(model(ids, lengths), model(longer, lengths), atol=1e-6)
    assert not torch.allclose(model(ids, lengths)[1], model(ids, torch.tensor([8, 8]))[1], atol=1e-4)
    with pytest.raises(ValueError, match="classes"):
        BertClassifier(BertShape(1, 1, 4, 4, 9))


def test_each_classifier_learns_as_if_alone_from_the_first_labels() -> None:
    """A plain loop of AdamW with clipping, for the one with four labels, gives the same weights."""
    experiment = made(train={"weight_decay": 0.0, "decay": "constant"})
    alone = BertClassifier(experiment.shape)
    alone.load_state_dict(experiment.model["scratch-4"].state_dict())
    optimizer = torch.optim.AdamW(alone.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0)
    ids, lengths, classes = experiment.data.rows
    for update in range(1, 4):
        experiment.step()
        rows = torch.from_numpy(experiment.data.batch([4, 40], 4, update)[:, 0])
        assert rows.max() < 4
        optimizer.zero_grad()
        F.cross_entropy(alone(ids[rows], lengths[rows], "matmul"), classes[rows]).backward()
        torch.nn.utils.clip_grad_norm_(alone.parameters(), 1.0)
        optimizer.step()
    for name, parameter in experiment.model["scratch-4"].named_parameters():
        assert torch.allclose(parameter, dict(alone.named_parameters())[name], atol=1e-6), name
    whole = experiment.model["scratch-40"].state_dict()
    assert not torch.equal(whole["head.weight"], alone.state_dict()["head.weight"])


def test_accuracies_and_intervals_are_those_of_counting(tmp_path: Path) -> None:
    experiment = made()
    experiment.step()
    measured = experiment.evaluate()
    ids, lengths, classes = experiment.data.unseen
    for name in ("scratch-4", "scratch-40"):
        guess = experiment.model[name](ids, lengths).argmax(-1)
        share = float((guess == classes).float().mean())
        assert measured[f"accuracy/{name}"] == pytest.approx(share)
        # The normal approximation of the interval, to a tenth; test_intervals.py has the exact one.
        half = 1.96 * (share * (1 - share) / 30) ** 0.5
        assert measured[f"accuracy_low/{name}"] == pytest.approx(share - half, abs=0.1)
        assert measured[f"accuracy_high/{name}"] == pytest.approx(share + half, abs=0.1)
    frame = experiment.frame()
    surface = surface_of(frame)
    assert surface.axes == (("start", ("scratch",)), ("share of labels", (0.1, 1.0)))
    assert surface.score.tolist() == [[measured["accuracy/scratch-4"], measured["accuracy/scratch-40"]]]
    assert surface.log == {"share of labels"}
    assert any("0.2" in line.plain for line in text_sweep(surface, 1, 60, 8))
    assert np.asarray(frame.tensors["attention/pattern"]).sum(-1) == pytest.approx(1.0, abs=2e-3)


def test_both_starts_share_all_but_the_encoder_and_a_run_repeats_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path))
    text = tmp_path / "text.txt"
    text.write_text("the cat sees a mouse and the mouse eats corn. " * 60)
    small = ["model.width=16", "model.heads=2", "model.layers=1", "model.context=24", "train.steps=2", "train.batch=2"]
    once = [*small, f"data.text={text}", "sampling.prompts=[]", "probe.positions=8"]
    execute(prepare(load_scenario("bert-docs", [*once, "train.validation_batches=1"]), out=tmp_path / "first"))
    started = scenario(start={"run": "first"}).model_dump()
    del started["model"], started["data"]["tokenizer"], started["data"]["vocabulary"]
    asked = LoadedScenario(TextClassificationScenario.model_validate(started), "classify", "a test")
    for name in ("one", "two"):
        execute(prepare(asked, out=tmp_path / name))
    one, two = (RunReader(tmp_path / name) for name in ("one", "two"))
    for reader in (one, two):
        reader.poll()
    assert {f"accuracy/{start}-{n}" for start in ("pretrained", "scratch") for n in (4, 40)} <= set(
        one.names("metrics")
    )
    for name in (name for name in one.names("metrics") if name.startswith(("accuracy", "loss"))):
        assert one.latest(name) == two.latest(name)

    from txlab.runs import checkpoints
    from txlab.runs.starting import read_start

    loaded = load_scenario(tmp_path / "one" / "scenario.toml").scenario
    weights = read_start(RunDirectory(tmp_path / "one"), loaded)
    assert weights is not None
    experiment: Any = KIND.build(loaded)
    experiment.start_from(weights)
    for n in (4, 40):
        pretrained, scratch = (experiment.model[f"{start}-{n}"].state_dict() for start in ("pretrained", "scratch"))
        assert torch.equal(pretrained["head.weight"], scratch["head.weight"])
        for key, tensor in pretrained.items():
            if key.startswith("body."):
                assert torch.equal(tensor, weights[key.removeprefix("body.")])
        assert not torch.equal(scratch["body.embed.weight"], pretrained["body.embed.weight"])
    state = checkpoints.load(RunDirectory(tmp_path / "one"), 4)
    experiment.load_state_dict(state)
    assert experiment.evaluate()["accuracy/pretrained-4"] == one.latest("accuracy/pretrained-4")


def test_scenarios_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match="different numbers of reviews"):
        scenario(data={"shares": [0.001, 0.002]})
    assert [name for name, _, _ in scenario(start={"run": "x", "weights": False}).classifiers] == [
        "scratch-4",
        "scratch-40",
    ]
