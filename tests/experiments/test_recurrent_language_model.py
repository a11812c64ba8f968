"""Kind recurrent-language-model: it learns from what a GPT learns from, and every state of a frame has its reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from txlab.errors import LabError
from txlab.experiments.kind import kind_named
from txlab.experiments.kinds.recurrent_language_model import KIND
from txlab.experiments.kinds.recurrent_language_model.experiment import experiment_of, open_model
from txlab.runs.scenario import load_scenario


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text('the cat "sees" a (small) mouse. ' * 300)
    return path


SMALL = [
    "model.layers=2", "model.width=12", "model.context=16", "train.steps=40", "train.batch=4",
    "train.validation_batches=2", "probe.positions=12", "compute.threads=1", 'compute.device="cpu"',
]  # fmt: skip


def scenario(text: Path, *settings: str, name: str = "recurrent-docs") -> Any:
    return KIND.resolve(load_scenario(name, [*SMALL, f'data.text="{text}"', *settings]).scenario)


@pytest.mark.parametrize("cell", ["rnn", "gru", "gru-mehlig", "lstm"])
def test_it_learns_and_every_number_of_its_frame_follows_from_the_others(text: Path, cell: str) -> None:
    experiment = experiment_of(scenario(text, f"model.cell={cell}", "train.learning_rate=0.02", "train.warmup=1"))
    first = experiment.evaluate()["val_loss"]
    for _ in range(40):
        experiment.step()
    assert experiment.evaluate()["val_loss"] < 0.8 * first
    frame = experiment.frame()
    for name in frame.facts["state"]:
        values = frame.tensors[f"state/{name}"]
        assert values.shape == (2, 12, 12)
        for index in ((0, 0, 0), (1, 0, 3), (0, 5, 7), (1, 11, 11)):
            why = KIND.explain_frame(frame, f"state/{name}", index)
            assert why.result == pytest.approx(float(values[index]))
            if why.steps:
                assert why.steps[-1].result == pytest.approx(why.result, abs=1e-6)
    # The states are those of the model, read again step by step.
    h, _ = experiment.model.recurrent(experiment.model.embed_ids(torch.tensor([experiment.data.probe])), steps="cells")
    np.testing.assert_allclose(frame.tensors["state/h"][1], h[0].detach(), atol=1e-6)


def test_its_curve_can_be_laid_over_a_gpt_s(text: Path) -> None:
    ours = experiment_of(scenario(text))
    theirs = load_scenario("gpt-docs", [*SMALL[:3], *SMALL[3:], f'data.text="{text}"', "model.heads=2"]).scenario
    from txlab.experiments.kinds.language_model.experiment import experiment_of as gpt

    compute = theirs.compute.model_copy(update={"dtype": "float32", "attention": "sdpa", "thread_mode": "operations"})
    peer = gpt(theirs.model_copy(update={"compute": compute.model_copy(update={"compile": False})}))
    assert ours.step().keys() == peer.step().keys()
    assert ours.evaluate().keys() == peer.evaluate().keys()
    assert torch.equal(ours.data.train_batch(3).inputs, peer.data.train_batch(3).inputs)
    assert ours.data.fingerprint == peer.data.fingerprint


def test_a_resumed_run_continues_bit_for_bit_and_its_model_opens(text: Path) -> None:
    straight, first = experiment_of(scenario(text)), experiment_of(scenario(text))
    for _ in range(4):
        straight.step()
    first.step()
    first.step()
    second = experiment_of(scenario(text))
    second.load_state_dict(first.state_dict())
    second.step()
    second.step()
    assert second.evaluate() == straight.evaluate()
    opened = open_model(scenario(text), second.state_dict())
    ids = torch.tensor([second.data.probe])
    assert opened.kind == "recurrent"
    torch.testing.assert_close(opened.model(ids), second.model.eval()(ids))


def test_generated_tasks_are_learnt_and_graphs_are_refused(text: Path) -> None:
    for source in ("induction", "few-shot"):
        experiment = experiment_of(
            scenario(text, f"data.source={source}", "data.vocabulary=8", "sampling.prompts=[]", 'probe.text=""')
        )
        assert "loss" in experiment.step()
        assert ("accuracy_1" in experiment.evaluate()) == (source == "few-shot")
    with pytest.raises(LabError, match="a state goes from token to token"):
        scenario(text, "data.source=graph")


def test_the_kind_is_found_by_its_name() -> None:
    assert kind_named("recurrent-language-model") is KIND
