"""Kind recurrent-language-model: it learns from what a GPT learns from, and every state of a frame has its reasons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from calculator import contradictions, miscalculated
from independent.recurrent import Steps, sums

from txlab.engine.explain import IN_FACT, Explanation
from txlab.errors import LabError
from txlab.experiments.kind import kind_named
from txlab.experiments.kinds.recurrent_language_model import KIND
from txlab.experiments.kinds.recurrent_language_model.experiment import experiment_of, open_model
from txlab.experiments.recurrent_states import explain_with_gates
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


def layers_in_fp64(cell: str, state: dict[str, Any], ids: list[int]) -> list[Steps]:
    """The sums of both layers over a text, from the tensors of a checkpoint, by NumPy in fp64."""
    weights = {name: np.asarray(each, np.float64) for name, each in state["model"].items()}
    read, layers = weights["embed.weight"][ids] * np.sqrt(12), []
    for layer in range(2):
        own = {name: weights[f"recurrent.layers.{layer}.0.{name}"] for name in "WUbc"}
        layers.append(sums(cell, read, (np.zeros(12),) * (2 if cell == "lstm" else 1), own))
        read = np.array([state[0] for _, state in layers[-1]])
    return layers


def values_in(why: Explanation) -> dict[str, Any]:
    return {each.name: each.value for each in why.operands} | {each.name: each.result for each in why.steps}


@pytest.mark.parametrize("positions", [12, 4])  # of a short text the products U h(t−1) are smaller than U
@pytest.mark.parametrize("cell", ["rnn", "gru", "gru-mehlig", "lstm"])
def test_each_gate_is_the_sum_of_its_parts_as_computed_from_a_checkpoint(text: Path, cell: str, positions: int) -> None:
    settings = (f"model.cell={cell}", "train.learning_rate=0.05", "train.warmup=1", f"probe.positions={positions}")
    experiment = experiment_of(scenario(text, *settings))
    for _ in range(20):
        experiment.step()
    frame, wanted = experiment.frame(), layers_in_fp64(cell, experiment.state_dict(), list(experiment.data.probe))
    assert any(name.startswith("weight/") for name in frame.tensors) == (positions == 12)
    for layer, t, unit in ((0, 0, 0), (0, 1, 2), (1, 3, 7), (1, positions - 1, 11)):
        gates, after = wanted[layer][t]
        pages = explain_with_gates(frame, "state/h", (layer, t, unit))
        assert pages[0].result == pytest.approx(after[0][unit], abs=1e-5)
        own = [why for why in pages if why.question.split()[2] in gates]
        assert len(own) == len(gates), "a page for each gate; an RNN's state is one"
        for why in own:
            name, shown = why.question.split()[2], values_in(why)
            x, products, b, c, value = gates[name]
            assert why.result == pytest.approx(value[unit], abs=1e-5)
            assert shown["W x"] == pytest.approx(x[unit], rel=1e-3, abs=1e-4)
            product = "U (r h(t−1))" if (cell, name) == ("gru-mehlig", "n") else "U h(t−1)"
            assert shown[product] == pytest.approx(products[unit].sum(), rel=1e-3, abs=1e-3)
            biases = (b[unit], c[unit]) if (cell, name) == ("gru", "n") else (b[unit] + c[unit], None)
            assert (shown["b"], shown.get("c")) == (
                pytest.approx(biases[0], abs=1e-6),
                biases[1] and pytest.approx(biases[1]),
            )
            assert contradictions(why) == miscalculated(why.steps, within=0.01) == []
            if positions == 12 and t:
                largest = np.argsort(-np.abs(products[unit]))[:3]
                note = why.steps[-1].note
                assert [int(each.split(":")[0]) for each in note.split("unit ")[1:]] == (largest + 1).tolist()
                assert shown["products"] == pytest.approx(products[unit], rel=1e-3, abs=1e-4)
        lines = {step.name for step in pages[0].steps}
        assert lines >= set("fig" if cell == "lstm" else "rzn" if "gru" in cell else ())
        assert contradictions(pages[0]) == miscalculated(pages[0].steps, within=0.01) == []


@pytest.mark.parametrize("cell", ["rnn", "gru", "gru-mehlig", "lstm"])
def test_a_frame_from_before_the_sums_were_recorded_is_explained_by_its_gates(text: Path, cell: str) -> None:
    whole = experiment_of(scenario(text, f"model.cell={cell}")).frame()
    kept = {name: values for name, values in whole.tensors.items() if name.startswith(("state/", "gate/", "next/"))}
    frame = replace(whole, tensors=kept)
    (why,) = explain_with_gates(frame, "state/h", (1, 3, 5))
    assert why.result == pytest.approx(float(whole.tensors["state/h"][1, 3, 5]))
    gates = [name.removeprefix("gate/") for name in kept if name.startswith("gate/")]
    assert {each.name for each in why.operands} >= set(gates)
    assert KIND.explain_frame(whole, f"{'gate' if gates else 'state'}/{(*gates, 'h')[0]}", (1, 3, 5)).operands
    with pytest.raises(LabError, match="nothing explains gate/"):
        KIND.explain_frame(frame, f"gate/{(*gates, 'h')[0]}", (1, 3, 5))


def test_parts_that_do_not_give_the_gate_are_told(text: Path) -> None:
    frame = experiment_of(scenario(text)).frame()
    wrong = replace(frame, tensors={**frame.tensors, "input/f": frame.tensors["input/f"] + 1})
    why = KIND.explain_frame(wrong, "state/c", (1, 3, 5))
    assert [step.name for step in why.steps if "these steps give" in step.note] == [IN_FACT]
    assert why.result == pytest.approx(float(frame.tensors["state/c"][1, 3, 5]))


@pytest.mark.parametrize("cell", ["rnn", "gru", "gru-mehlig", "lstm"])
def test_the_parts_at_most_double_a_frame(text: Path, cell: str) -> None:
    for width, positions in ((12, 12), (12, 4), (40, 12), (8, 12)):
        settings = (f"model.cell={cell}", f"model.width={width}", f"probe.positions={positions}")
        frame = experiment_of(scenario(text, *settings)).frame()
        bytes_of = {name: np.asarray(values).nbytes for name, values in frame.tensors.items()}
        before = sum(size for name, size in bytes_of.items() if name.startswith(("state/", "gate/")))
        biases = sum(size for name, size in bytes_of.items() if name.startswith("bias/"))
        added = sum(size for name, size in bytes_of.items() if name.startswith(("input/", "weight/", "recurrent/")))
        assert added <= before
        assert biases == 2 * 2 * width * 4 * sum(name.startswith("input/") for name in bytes_of)


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
