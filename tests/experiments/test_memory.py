"""Kind memory: the gradients that reach back, checked by finite differences, and what a cell's company changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from txlab.experiments.kind import kind_named
from txlab.experiments.kinds.memory.experiment import MemoryExperiment, gradients_back
from txlab.runs.scenario import load_scenario

SMALL = ["data.length=9", "model.width=5", "train.steps=3", "train.batch=4", "train.validation_batches=1"]


def made(*settings: str) -> MemoryExperiment:
    scenario: Any = load_scenario("vanishing-gradient", [*SMALL, *settings]).scenario
    experiment = kind_named("memory").build(scenario)
    assert isinstance(experiment, MemoryExperiment)
    return experiment


@pytest.mark.parametrize("cell", ["rnn", "gru", "gru-mehlig", "lstm"])
def test_the_gradient_at_each_step_is_that_of_finite_differences(cell: str) -> None:
    experiment = made(f'model.cells=["{cell}"]', "data.length=5")
    model = experiment.model[cell].double()
    x, symbol = experiment.batch("train", 1)
    x = x.double()
    found = gradients_back(model, x, symbol)
    unit = model.cell

    def rest(state: tuple[torch.Tensor, ...], t: int) -> float:
        """The loss, from the state after step t on."""
        for later in range(t + 1, x.shape[1]):
            state = unit(unit.drive(x[:, later]), state)
        return float(F.cross_entropy(model.head(state[0]), symbol))

    state, step = unit.start(len(x)), 1e-6
    with torch.no_grad():
        for t in range(x.shape[1]):
            state = unit(unit.drive(x[:, t]), state)
            total = 0.0
            for part, tensor in enumerate(state):
                for place in range(tensor.numel()):
                    moved = []
                    for sign in (1, -1):
                        other = [each.clone() for each in state]
                        other[part].view(-1)[place] += sign * step
                        moved.append(rest(tuple(other), t))
                    total += ((moved[0] - moved[1]) / (2 * step)) ** 2
            assert float(found[t]) == pytest.approx(total**0.5, rel=1e-6, abs=1e-10), t


def test_a_cell_learns_the_same_alone_and_with_others() -> None:
    together, alone = made("train.clip=0.0"), made("train.clip=0.0", 'model.cells=["gru"]')
    for _ in range(3):
        one, other = together.step(), alone.step()
        assert one["loss/gru"] == other["loss/gru"]
    for mine, theirs in zip(together.model["gru"].parameters(), alone.model["gru"].parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_spread_memories_last_from_one_step_to_all() -> None:
    experiment = made("model.width=2000", "data.length=100")
    lstm, gru = experiment.model["lstm"].cell, experiment.model["gru"].cell
    forget = lstm.b[2000:4000].sigmoid()
    lasting = 1 / (1 - forget.detach())  # steps after which a share 1/e is left, about
    assert 1.9 < float(lasting.min()) < 4
    assert 80 < float(lasting.max()) < 101
    assert float(lasting.median()) == pytest.approx(51, rel=0.1)
    torch.testing.assert_close(lstm.b[:2000], -lstm.b[2000:4000])
    assert float(gru.b[2000:4000].detach().max()) == pytest.approx(float(torch.tensor(99.0).log()), rel=0.01)
    plain = made("model.memory=plain").model["lstm"].cell
    assert float(plain.b.detach().abs().max()) <= 5**-0.5


def test_a_resumed_run_continues_bit_for_bit() -> None:
    straight, first = made(), made()
    for _ in range(2):
        straight.step()
    first.step()
    second = made()
    second.load_state_dict(first.state_dict())
    second.step()
    for mine, theirs in zip(second.model.parameters(), straight.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert second.evaluate() == straight.evaluate()


def test_no_sequence_tells_its_symbol_but_the_first_input() -> None:
    x, symbol = made("train.batch=500").batch("train", 7)
    assert torch.equal(x[:, 0, :-1].argmax(-1), symbol)
    assert float(x[:, 1:, :-1].abs().max()) == 0.0
    assert abs(float(x[..., -1].mean())) < 0.1
    assert float(x[..., -1].std()) == pytest.approx(1, abs=0.1)
    again = made("train.batch=500").batch("train", 7)[0]
    assert torch.equal(x, again)
    assert not torch.equal(x, made("train.batch=500").batch("train", 8)[0])


def test_gated_cells_solve_what_the_plain_one_does_not_and_their_gradient_arrives() -> None:
    experiment = made("data.length=40", "model.width=24", "train.batch=32", "train.steps=150")
    for _ in range(150):
        experiment.step()
    found = experiment.evaluate()
    assert found["val_accuracy/gru"] == found["val_accuracy/lstm"] == 1.0
    assert found["val_accuracy/rnn"] < 0.8
    assert found["fall/rnn"] - found["fall/lstm"] > 3
    curve = experiment.frame().tensors["curve/rnn"]
    assert len(curve) == 40
    assert float(curve[0] - curve[-1]) == pytest.approx(found["fall/rnn"], rel=1e-6)
