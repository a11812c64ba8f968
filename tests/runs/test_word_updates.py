"""The update that moved a pair last, computed again from a run's files: it is the one that the run made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from txlab.errors import LabError
from txlab.experiments.kinds.word_vectors.experiment import WordVectors
from txlab.runs import checkpoints
from txlab.runs.control import Request
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.runs.word_updates import WordUpdates, open_updates

FEW = ["data.tokens=7000", "train.words=800", "train.epochs=1", "vectors.width=8", "vectors.block=64"]


def trained(root: Path, *changes: str, name: str = "words-planted") -> RunDirectory:
    run = prepare(load_scenario(name, [*FEW, "record.checkpoint_every=4", *changes]), root=root)
    execute(run)
    return RunDirectory(run)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return trained(tmp_path_factory.mktemp("runs"))


def pairs_of(updates: WordUpdates, step: int) -> list[tuple[int, int, float]]:
    """(centre, context, weight) of everything scored in the blocks before `step`, in order, in plain loops."""
    found = []
    for block in updates.experiment.blocks(step - 1):
        rows = block.rows.view(len(block.weights), -1)
        for strip, row, column in block.weights.nonzero().tolist():
            centre = int(block.centres.view(-1, 16)[strip, row])
            found.append((centre, int(rows[strip, column]), float(block.weights[strip, row, column])))
    return found


def test_the_last_update_ends_at_the_score_of_the_run(run: RunDirectory) -> None:
    """A pair that met last in step 8 keeps its score unless another pair of either word follows; both are in step 8's
    last block, so the score after this block is that of the checkpoint of step 8."""
    updates = WordUpdates(run)
    words, state = updates.words, checkpoints.load(run, 8)
    last = updates.experiment.blocks(7)[-1]
    centre, context = int(last.centres[0]), int(last.rows.view(len(last.weights), -1)[0, -1])
    told = updates.last(words[centre], words[context], 8)
    assert "step 8 " in told.question
    assert told.result == float(state["v"][centre] @ state["u"][context])
    torch.testing.assert_close(updates.experiment.state_dict()["v"], restored(run, 7).model.v, rtol=0, atol=0)


def restored(run: RunDirectory, step: int) -> WordVectors:
    """The run made again from its beginning, without its checkpoints."""
    experiment = WordUpdates(run).experiment
    while experiment.step_count < step:
        experiment.step()
    return experiment


def test_the_step_is_the_last_in_which_the_pair_met(run: RunDirectory) -> None:
    updates = WordUpdates(run)
    met: dict[tuple[int, int], int] = {}
    for step in range(1, 11):
        met |= {(centre, context): step for centre, context, _ in pairs_of(updates, step)}
    for pair in [pair for pair in met if 1 < met[pair] < 9][:3]:
        centre, context = (updates.words[each] for each in pair)
        assert f"step {met[pair]} " in updates.last(centre, context).question
    (rare,) = [pair for pair in met if met[pair] == 6][:1]
    with pytest.raises(LabError, match="have not met up to step 0"):
        updates.last(*(updates.words[each] for each in rare), step=0)


def test_a_rate_changed_by_the_user_is_the_rate_of_the_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from txlab.runs import control

    asked = [Request("set", "alpha", 0.5, by="test", id="1")]
    monkeypatch.setattr(control.Inbox, "take", lambda inbox: [asked.pop()] if asked else [])
    made = trained(tmp_path, "record.checkpoint_every=0")
    assert RunInfo.load(made).step == 10
    updates = WordUpdates(made)
    centre, context, _ = pairs_of(updates, 10)[-1]
    told = updates.last(updates.words[centre], updates.words[context])
    (alpha,) = [operand.value for operand in told.operands if operand.name == "α"]
    assert alpha == pytest.approx(0.5 * 0.1)


def test_a_run_with_the_softmax_tells_where_its_prediction_moves_the_centre(tmp_path: Path) -> None:
    made = trained(tmp_path, 'vectors.objective="softmax"', "data.most=400")
    updates, step = open_updates(f"{made.path}@8")
    told = updates.last(updates.words[3], updates.words[5], step)
    state = checkpoints.load(made, 8)
    v, u = state["v"].double().numpy(), state["u"].double().numpy()
    p = np.exp(u @ v[3]) / np.exp(u @ v[3]).sum()
    assert told.result == pytest.approx(np.linalg.norm(u[5] - p @ u), abs=1e-9)


WAYS = [
    ("skip-gram", "nce"), ("skip-gram", "hierarchical"), ("skip-gram", "sampling"),
    ("cbow", "sampling"), ("cbow", "nce"), ("cbow", "hierarchical"), ("cbow", "softmax"),
]  # fmt: skip


@pytest.mark.parametrize(("architecture", "objective"), WAYS)
def test_a_prediction_of_any_objective_is_explained_as_the_run_made_it(
    tmp_path: Path, architecture: str, objective: str
) -> None:
    """The last prediction of step 8, a step of one block: before it the tables are those of step 7, after it those of
    the checkpoint of step 8. What it does alone is computed by autograd."""
    changes = [f'vectors.architecture="{architecture}"', f'vectors.objective="{objective}"', "vectors.block=1024"]
    changes += ["data.most=2000"]
    made = trained(tmp_path, *changes, "vectors.strip_noise=0")
    updates = WordUpdates(made)
    seen, words = updates.experiment.windows(7), updates.words
    at = max(i for i in range(len(seen.tokens)) if seen.before[i] and seen.tokens[i] != seen.tokens[i - 1])
    window = [*seen.tokens[at - seen.before[at] : at], *seen.tokens[at + 1 : at + 1 + seen.after[at]]]
    centre, beside = int(seen.tokens[at]), int(seen.tokens[at - 1])
    inputs, word, target = ([centre], centre, beside) if architecture == "skip-gram" else (window, beside, centre)
    told = updates.last(words[word], words[target], 8)
    assert f"step 8 move {words[word]!r}" in told.question
    values = {each.name: each.value for each in told.operands} | {
        each.name: each.result for each in (*told.steps, *told.meaning)
    }
    assert values["c"] == len(inputs)
    first, model = restored(made, 7), restored(made, 7).model
    v, u = (table.double().clone().requires_grad_() for table in (model.v, model.u))
    h = v[list(map(int, inputs))].mean(0)
    alpha = first.rate(7)
    assert values["α"] == alpha
    after = checkpoints.load(made, 8)
    h_after = after["v"].double()[list(map(int, inputs))].mean(0)
    if objective == "hierarchical":
        nodes = model.nodes[target][model.turns[target] != 0]
        turns = model.turns[target][model.turns[target] != 0].double()
        p = (turns * (u[nodes] @ h)).sigmoid().prod()
        loss, alone = -p.log(), lambda h, u: (turns * (u[nodes] @ h)).sigmoid().prod()
        assert values["p(o)"] == pytest.approx(float(p.detach()), rel=1e-5)
        assert told.result == pytest.approx(float(alone(h_after, after["u"].double())), rel=1e-5)
    elif objective == "softmax":
        loss = -(u @ h).log_softmax(0)[target]
        assert values["p(o)"] == pytest.approx(float((-loss).exp().detach()), rel=1e-5)
        assert told.result == pytest.approx(float(torch.autograd.grad(loss, h, retain_graph=True)[0].norm()), rel=1e-4)
    else:
        rows = [words.index(label) for label in told.labels]
        assert rows[0] == target
        x = u[rows] @ h
        if objective == "nce":
            assert model.log_expected is not None
            x = x - model.log_expected[rows].double()
        sign = torch.tensor([1.0] + [-1.0] * (len(rows) - 1), dtype=torch.float64)
        loss = -torch.nn.functional.logsigmoid(sign * x).sum()
        assert values["x"] == pytest.approx(x.tolist(), rel=1e-4, abs=1e-6)
        assert told.result == pytest.approx(float(after["u"].double()[target] @ h_after), rel=1e-4, abs=1e-6)
    to_v, to_h, to_u = torch.autograd.grad(loss, (v, h, u))
    assert values["|Δv|"] == pytest.approx(alpha * float(to_h.norm()) / len(inputs), rel=1e-3)
    moved_h = (v - alpha * to_v).detach()[list(map(int, inputs))].mean(0)
    moved_u = (u - alpha * to_u).detach()
    if objective == "hierarchical":
        assert values["p′(o)"] == pytest.approx(float(alone(moved_h, moved_u)), rel=1e-4)
    elif objective in ("sampling", "nce") and len(set(rows)) == len(rows) and len(set(map(int, inputs))) == len(inputs):
        assert values["u′·h′"] == pytest.approx(float(moved_u[target] @ moved_h), rel=1e-4, abs=1e-6)
    # and the run is left as it was
    torch.testing.assert_close(updates.experiment.state_dict()["v"], model.v, rtol=0, atol=0)


def test_the_update_of_a_second_objective_is_its_own(tmp_path: Path) -> None:
    made = trained(tmp_path, name="words-softmax")
    updates, step = open_updates(f"{made.path}@8")
    words = updates.words
    seen = updates.experiment.windows(7)
    at = max(i for i in range(len(seen.tokens)) if seen.before[i])
    pair = words[int(seen.tokens[at])], words[int(seen.tokens[at - 1])]
    equations = {name: updates.last(*pair, step, name).equation for name in updates.experiment.models}
    assert "u_o − E[u]" in equations["softmax"]
    assert "Πⱼ σ(sⱼ xⱼ)" in equations["hierarchical"]
    assert "ln(K q)" in equations["nce"]
    assert "n (σ(x) − 1) + m σ(x)" in equations["sampling"]
    with pytest.raises(LabError, match="allowed: softmax, hierarchical, nce, sampling"):
        updates.last(*pair, step, "cbow")


def test_unknown_words_and_steps_are_refused(run: RunDirectory) -> None:
    updates = WordUpdates(run)
    with pytest.raises(LabError, match="'zebra' has no vector"):
        updates.last("zebra", updates.words[1])
    with pytest.raises(LabError, match="allowed: 0 to 10"):
        updates.last(updates.words[0], updates.words[1], 11)
