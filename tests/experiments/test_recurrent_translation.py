"""Recurrent translation as an experiment and as a run: it learns, continues where it stopped, and opens (MATH R4)."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from calculator import contradictions
from decided import DECIDED
from independent.recurrent import sums

from txlab.engine.transformer.generation import generate_target
from txlab.errors import LabError
from txlab.experiments.kind import explain_metric, explain_scenario
from txlab.experiments.kinds.recurrent_translation import KIND
from txlab.experiments.kinds.recurrent_translation.experiment import RecurrentTranslationExperiment
from txlab.experiments.kinds.recurrent_translation.schema import RecurrentTranslationScenario
from txlab.experiments.kinds.translation.data import PairData
from txlab.experiments.kinds.translation.tokens import END, START
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
from txlab.runs.models import open_model
from txlab.runs.process import execute, prepare
from txlab.runs.reader import RunReader
from txlab.runs.scenario import load_scenario


def scenario(**changes: dict[str, Any]) -> RecurrentTranslationScenario:
    """A model small enough for a test; `changes` are merged into its sections."""
    sections: dict[str, Any] = {
        "seed": 4,
        "data": {"pairs": 300},
        "model": {"width": 16},
        "train": {"steps": 40, "batch": 6, "warmup": 5, "learning_rate": 3e-3, "validation_batches": 2},
        "sampling": {"pairs": 2},
        "compute": DECIDED,
    }
    for name, section in changes.items():
        sections[name] = {**sections.get(name, {}), **section}
    return RecurrentTranslationScenario.model_validate(sections)


def build(**changes: dict[str, Any]) -> RecurrentTranslationExperiment:
    experiment = KIND.build(scenario(**changes))
    assert isinstance(experiment, RecurrentTranslationExperiment)
    return experiment


def alone(experiment: RecurrentTranslationExperiment, source: list[int], target: list[int]) -> torch.Tensor:
    """−log p of each target token of one pair (the end token last), by cells in formulas, without padding."""
    logits = experiment.model(torch.tensor([[*source, END]]), torch.tensor([[START, *target]]), "matmul")[0]
    return F.cross_entropy(logits, torch.tensor([*target, END]), reduction="none")


@pytest.mark.parametrize("model", [{}, {"attention": "dot"}, {"cell": "lstm", "layers": 2}])
def test_a_few_pairs_are_learnt_by_heart(model: dict[str, Any]) -> None:
    experiment = build(
        data={"task": "dates", "pairs": 8},
        model={"width": 48, **model},
        train={"steps": 100, "batch": 8, "learning_rate": 1e-2, "warmup": 10, "validation_batches": 1},
    )
    losses = [float(experiment.step()["loss"]) for _ in range(100)]
    assert losses[0] == pytest.approx(math.log(experiment.shape.target_vocabulary), rel=0.15)
    assert losses[-1] < 0.02
    known = experiment.data.train
    experiment.model.eval()
    written = experiment.writing.greedy(experiment.model, [[*source, END] for source, _ in known])
    assert written == [target for _, target in known]


@torch.no_grad()
def test_evaluation_is_what_one_pair_at_a_time_gives() -> None:
    experiment = build(data={"task": "dates", "pairs": 60}, model={"cell": "lstm", "layers": 2})
    for _ in range(10):
        with torch.enable_grad():
            experiment.step()
    losses = [alone(experiment, source, target) for source, target in experiment.data.unseen]
    measured = experiment.evaluate()
    assert measured["val_loss"] == pytest.approx(float(torch.cat(losses).mean()), rel=1e-5)
    assert measured == experiment.evaluate()


def test_padding_and_threads_change_no_gradient() -> None:
    """The gradient of a batch is that of its pairs alone, added up, also where threads share the batch."""
    whole, parts = build(), build(train={"accumulate": 3})
    shared = build(compute={"threads": 2, "thread_mode": "batch"})
    update, batch = next(
        (step + 1, batch) for step in range(50) if len(set((batch := whole.data.train_batch(step)).lengths)) > 2
    )
    losses = [
        alone(whole, source[: length - 1], [token for token in row if token >= 0][:-1])
        for source, length, row in zip(batch.source.tolist(), batch.lengths, batch.targets.tolist(), strict=True)
    ]
    mean = torch.cat(losses).mean()
    named = dict(whole.model.named_parameters())
    expected = dict(zip(named, torch.autograd.grad(mean, list(named.values())), strict=True))
    for experiment in (whole, shared, parts):
        loss = experiment.gradients(update)["loss"]
        experiment.threads.add_gradients()
        assert float(loss) == pytest.approx(float(mean.detach()), rel=1e-5)
        for name, parameter in experiment.model.named_parameters():
            torch.testing.assert_close(parameter.grad, expected[name], atol=2e-6, rtol=1e-4, msg=name)
    torch.set_num_threads(1)


SECOND_HALF = """
import json, sys
from pathlib import Path
from txlab.experiments.kinds.recurrent_translation import KIND
from txlab.experiments.kinds.recurrent_translation.schema import RecurrentTranslationScenario
from txlab.runs import checkpoints
from txlab.runs.directory import RunDirectory
answers = []
for scenario, folder in json.loads(sys.argv[1]):
    experiment = KIND.build(RecurrentTranslationScenario.model_validate_json(scenario))
    experiment.load_state_dict(checkpoints.load(RunDirectory(Path(folder)), 4))
    rows = [experiment.step() for _ in range(5)]
    answers.append([rows, experiment.evaluate(), [sample.text for sample in experiment.samples()]])
print(json.dumps(answers))
"""


@pytest.mark.evidence
def test_two_halves_in_two_processes_are_the_whole_bit_for_bit(tmp_path: Path) -> None:
    asked, wanted = [], []
    for number, settings in enumerate(
        [
            scenario(model={"dropout": 0.2, "layers": 2}, train={"label_smoothing": 0.1}),
            scenario(model={"cell": "lstm", "attention": "dot"}, data={"task": "dates"}),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        whole, first = KIND.build(settings), KIND.build(settings)
        rows = [whole.step() for _ in range(9)]
        assert [first.step() for _ in range(4)] == rows[:4]
        checkpoints.save(RunDirectory(folder), 4, first.state_dict())
        asked.append([settings.model_dump_json(), str(folder)])
        wanted.append([rows[4:], whole.evaluate(), [sample.text for sample in whole.samples()]])
    torch.set_num_threads(1)
    command = [sys.executable, "-c", SECOND_HALF, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == wanted


def test_looking_changes_nothing() -> None:
    watched, alone = build(model={"dropout": 0.2}), build(model={"dropout": 0.2})
    for _ in range(3):
        watched.frame(), watched.evaluate(), watched.samples()
        assert watched.step() == alone.step()


@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_a_frame_shows_the_cross_attention_of_the_probe_and_explains_each_weight(attention: str) -> None:
    experiment = build(model={"attention": attention})
    frame = experiment.frame()
    frame = replace(frame, tensors={name: np.asarray(tensor) for name, tensor in frame.tensors.items()})
    source, target = frame.tokens["source"], frame.tokens["target"]
    assert (source[-1], target[0]) == ("<end>", "<start>")
    pattern = np.asarray(frame.tensors["cross/pattern"], dtype=np.float32)
    assert pattern.shape == (1, 1, len(target), len(source))
    np.testing.assert_allclose(pattern.sum(-1), 1.0, atol=2e-3)
    for i, j in ((0, 0), (3, 2), (len(target) - 1, len(source) - 1)):
        why = KIND.explain_frame(frame, "cross/pattern", (0, 0, i, j))
        assert why.result == pytest.approx(float(pattern[0, 0, i, j]), abs=1e-3)
        assert f"{target[i]!r} look at {source[j]!r}" in why.question
        assert ("tanh" in why.equation) == (attention == "additive")
    shown = np.asarray(frame.tensors["next/probability"])
    assert shown.shape == (len(target), 8)
    assert len(frame.tokens["next"]) == shown.size
    assert KIND.explain_frame(frame, "next/probability", (1, 0)).result == pytest.approx(float(shown[1, 0]))
    for index in ((0, 0, 3), (0, 4, 1)):
        why = KIND.explain_frame(frame, "state/h", index)
        assert why.result == pytest.approx(float(frame.tensors["state/h"][index]))
        assert why.steps[-1].result == pytest.approx(why.result, abs=1e-6)
    less = replace(frame, tensors={"cross/pattern": pattern})
    with pytest.raises(LabError, match="recorded without cross/query"):
        KIND.explain_frame(less, "cross/pattern", (0, 0, 0, 0))


@pytest.mark.parametrize("width", [48, 4])  # U is larger than half of the states, or not
@pytest.mark.parametrize("cell", ["lstm", "gru", "gru-mehlig", "rnn"])
def test_each_gate_of_a_decoder_is_the_sum_of_its_parts_as_computed_from_a_checkpoint(cell: str, width: int) -> None:
    experiment = build(model={"cell": cell, "layers": 2, "width": width}, train={"learning_rate": 0.05})
    for _ in range(5):
        experiment.step()
    frame = experiment.frame()
    frame = replace(frame, tensors={name: np.asarray(tensor) for name, tensor in frame.tensors.items()})
    assert any(name.startswith("weight/") for name in frame.tensors) == (width == 4)
    w = {name: np.asarray(each, np.float64) for name, each in experiment.state_dict()["model"].items()}
    read = w["embed_target.weight"][[START, *experiment.data.probe[1]]]
    for layer in range(2):
        first = tuple(np.asarray(frame.tensors[f"first/{name}"][layer], np.float64) for name in frame.facts["state"])
        assert np.abs(first[0]).max() > 0.01
        own = {name: w[f"decoder.layers.{layer}.0.{name}"] for name in "WUbc"}
        steps = sums(cell, read, first, own)
        for t, unit in ((0, 1), (4, 3)):
            gates, state = steps[t]
            np.testing.assert_allclose(frame.tensors["state/h"][layer, t], state[0], atol=1e-5)
            for name, (x, products, b, c, gate) in gates.items():
                why = KIND.explain_frame(frame, f"{'state' if name == 'h' else 'gate'}/{name}", (layer, t, unit))
                shown = {each.name: each.value for each in why.operands}
                shown |= {each.name: each.result for each in why.steps}
                assert why.result == pytest.approx(gate[unit], abs=1e-5)
                assert shown["W x"] == pytest.approx(x[unit], rel=1e-3, abs=1e-4)
                product = "U (r h(t−1))" if (cell, name) == ("gru-mehlig", "n") else "U h(t−1)"
                assert shown[product] == pytest.approx(products[unit].sum(), rel=1e-3, abs=1e-3)
                both = (cell, name) != ("gru", "n")
                assert shown["b"] == pytest.approx(b[unit] + c[unit] * both, abs=1e-6)
                assert contradictions(why) == []
        read = np.array([state[0] for _, state in steps])


def test_a_checkpoint_of_another_shape_is_refused_with_an_error() -> None:
    state = build().state_dict()
    for changes in ({"attention": "dot"}, {"width": 24}, {"layers": 2}):
        with pytest.raises(LabError, match="checkpoint"):
            build(model=changes).load_state_dict(state)


def test_facts_metrics_and_the_size_are_explained() -> None:
    experiment = build()
    facts = json.loads(json.dumps(experiment.facts()))
    assert facts["parameters"] == sum(parameter.numel() for parameter in experiment.model.parameters())
    told = explain_scenario(scenario())
    assert told is not None
    assert {step.name: step.result for step in told.steps}["parameters"] == facts["parameters"]
    values = {"exact_match": 0.9, "token_accuracy": 0.99}
    exact = explain_metric(scenario().model_dump(), "exact_match", 40, values, facts)
    assert exact is not None
    assert exact.meaning[0].result == pytest.approx(0.9 * 12)


# As a run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recurrent")
    sizes = ["data.pairs=200", "model.width=16", "train.steps=12", "train.batch=8", "train.validation_batches=1"]
    often = [f"record.{what}_every=6" for what in ("evaluate", "sample", "frame", "checkpoint")]
    compute = [f"compute.{name}={str(value).lower()}" for name, value in DECIDED.items()]
    path = prepare(load_scenario("dates-recurrent", [*sizes, *often, *compute]), root=folder)
    assert execute(path).status == "done"
    return path


def test_a_run_s_model_opens_and_translates_as_its_samples_say(run: Path) -> None:
    opened = open_model(str(run))
    assert (opened.step, opened.kind) == (12, "encoder-decoder")
    reader = RunReader(run)
    reader.poll()
    samples = [sample for sample in reader.rows("sample") if sample["step"] == 12]
    assert len(samples) == 8
    longest = PairData(load_scenario(run / "scenario.toml").scenario).longest + 4  # type: ignore[arg-type]
    for sample in samples:
        ids = opened.text(sample["prompt"]).ids
        assert opened.special.begin is not None
        model: Any = opened.model
        [written] = generate_target(model, [ids], longest, start=opened.special.begin, end=END, never=(0, 1))
        assert sample["text"].startswith(f" → {opened.decode(written)}")


def commanded(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "txlab", *words], capture_output=True, text=True, check=False)


@pytest.mark.evidence
def test_commands_translate_and_score_and_refuse_what_is_for_transformers(run: Path) -> None:
    scored = commanded("score", str(run), "5 March 2021", "--target", "2021-03-05", "--json")
    assert scored.returncode == 0, scored.stderr
    answer = json.loads(scored.stdout)
    assert answer["score"] == "log-probability given the source"
    assert sum(token["log_probability"] is not None for token in answer["tokens"]) == len("2021-03-05") + 1
    written = commanded("generate", str(run), "5 March 2021", "--temperature", "0")
    assert written.returncode == 0, written.stderr
    for command in (
        ["attend", str(run), "5 March 2021"],
        ["explain", str(run), "--circuits"],
        ["explain", str(run), "5 March"],
    ):
        refused = commanded(*command)
        assert refused.returncode != 0
        assert "this model is recurrent" in refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("name", ["translate-recurrent", "dates-recurrent"])
def test_a_shipped_scenario_learns_the_pairs_of_the_transformer_s(name: str) -> None:
    ours, theirs = load_scenario(name).scenario, load_scenario(name.removesuffix("-recurrent")).scenario
    assert isinstance(ours, RecurrentTranslationScenario)
    assert PairData(ours).fingerprint == PairData(theirs).fingerprint  # type: ignore[arg-type]
    assert ours.probe == theirs.probe  # type: ignore[attr-defined]
