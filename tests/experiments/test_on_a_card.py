"""What takes a device computes there: every tensor of a step, of words, of sweeps and of generation, on a pretended
card that refuses to mix it with main memory (see pretended_card)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pretended_card import pretended_card

from txlab.experiments.kind import kind_named

GIVEN = {"dtype": "float32", "attention": "sdpa", "threads": 1, "thread_mode": "operations", "compile": False}
RECORD = {"evaluate_every": 0, "sample_every": 0, "frame_every": 0, "checkpoint_every": 0}
TINY = {"layers": 1, "heads": 2, "width": 8}
TRAIN = {"steps": 8, "batch": 4, "validation_batches": 1}
TEXT = "the quick brown fox jumps over the lazy dog. " * 60
KINDS: dict[str, dict[str, Any]] = {
    "language-model": {
        "model": TINY | {"context": 8},
        "data": {"source": "induction", "vocabulary": 16},
        "sampling": {"prompts": ["ab"], "tokens": 4},
        "train": TRAIN | {"accumulate": 2},
    },
    "masked-language-model": {"model": TINY | {"context": 8}, "train": TRAIN, "sampling": {"prompts": []}},
    "recurrent-language-model": {"model": {"width": 8, "context": 8}, "train": TRAIN},
    "image-classification": {"model": TINY, "train": TRAIN},
    "convolution": {"train": TRAIN},
    "translation": {
        "model": {"encoder_layers": 1, "decoder_layers": 1, "heads": 2, "width": 8},
        "data": {"pairs": 40},
        "train": TRAIN,
    },
    "modular-addition": {"model": {"heads": 2, "width": 8}, "data": {"modulus": 7}, "train": {"steps": 8}},
    "superposition": {"train": {"steps": 8, "batch": 8}},
    "recurrent-translation": {"model": {"width": 8}, "data": {"pairs": 40}, "train": TRAIN},
}


def made(kind: str, device: str, text: str, **compute: Any) -> Any:
    given = dict(KINDS[kind])
    if kind in ("masked-language-model", "recurrent-language-model"):
        given["data"] = {"text": text, "tokenizer": "bytes"}
    # torch's own cells of recurrent networks make tensors inside of which a pretended card does not learn.
    compute |= {"attention": "matmul"} if kind == "recurrent-translation" else {}
    scenario = kind_named(kind).schema.model_validate(
        {**given, "record": RECORD, "compute": GIVEN | {"cuda_graphs": False, "device": device} | compute}
    )
    return kind_named(kind).build(scenario)


@pytest.fixture
def text(tmp_path: Any) -> str:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return str(path)


@pytest.mark.parametrize("kind", KINDS)
def test_every_trained_kind_learns_looks_and_writes_on_its_device(
    kind: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = made(kind, "cpu", text)
    rows = [plain.step() for _ in range(3)]
    with pretended_card(monkeypatch) as marks:
        on_card = made(kind, "cuda:0", text)
        assert on_card.device == torch.device("cuda:0")
        assert all(marks.has(parameter) for parameter in on_card.model.parameters())
        found = [{name: float(value) for name, value in on_card.step().items()} for _ in range(3)]
        on_card.verify()
        evaluated = on_card.evaluate()
        frame = on_card.frame()
        samples = on_card.samples()
        state = on_card.state_dict()
        on_card.load_state_dict(state)
        on_card.step()
    for one, other in zip(rows, found, strict=True):
        assert other == pytest.approx(one, rel=1e-5)
    assert {name: float(value) for name, value in evaluated.items()} == pytest.approx(dict(plain.evaluate()), rel=1e-4)
    assert len(samples) == len(plain.samples())
    assert frame.tensors.keys() == plain.frame().tensors.keys()


RECORDED = [kind for kind in KINDS if "translation" not in kind]


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("kind", RECORDED)
def test_whole_steps_have_nothing_that_cannot_be_recorded_and_are_the_ordinary_ones(
    kind: str, dropout: float, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pretended_card(monkeypatch):
        plain, whole = (made(kind, "cuda:0", text, cuda_graphs=graphs, attention="matmul") for graphs in (False, True))
        assert whole.graphed_step is not None
        rows = []
        for each in (plain, whole):
            if "dropout" in each.adjusted:
                each.adjust("dropout", 0.0 if kind == "modular-addition" else dropout)  # it has sdpa, see ACROSS
            rows.append([{name: float(value) for name, value in each.step().items()} for _ in range(6)])
        assert whole.graphed_step.graph.refused == ""
        assert whole.graphed_step.graph.graph.replays == 3
        for one, other in zip(*rows, strict=True):
            assert other == pytest.approx(one, rel=1e-5)  # the learning rate has 32 bits in a recorded step


def test_a_step_that_waits_for_the_card_is_not_recorded_and_is_made_all_the_same(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pretended_card(monkeypatch):
        plain, whole = (made("superposition", "cuda:0", text, cuda_graphs=graphs) for graphs in (False, True))
        for each in (plain, whole):
            losses = each.losses
            monkeypatch.setattr(each, "losses", lambda x, losses=losses: losses(x) + 0.0 * float(x.sum()))
        for _ in range(6):
            assert float(whole.step()["loss"]) == pytest.approx(float(plain.step()["loss"]), rel=1e-5)
        (note,) = whole.notes()
        assert note.startswith(
            "graphs off: the step cannot be recorded (operation not permitted when stream is capturing"
        )
        assert whole.notes() == ()


@pytest.mark.parametrize("objective", ["sampling", "softmax", "hierarchical", "nce"])
@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
def test_words_are_learnt_on_the_device(architecture: str, objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "data": {"source": "planted", "tokens": 7000},
        "vectors": {"architecture": architecture, "objective": objective, "width": 8, "block": 64},
        "train": {"words": 500},
    }

    def learn(device: str) -> tuple[Any, list[float]]:
        kind = kind_named("word-vectors")
        experiment: Any = kind.build(kind.schema.model_validate({**given, "compute": GIVEN | {"device": device}}))
        losses = [experiment.step()["loss"] for _ in range(3)]
        experiment.evaluate()
        experiment.frame()
        experiment.samples()
        experiment.load_state_dict(experiment.state_dict())
        experiment.step()
        return experiment, losses

    _, expected = learn("cpu")
    with pretended_card(monkeypatch) as marks:
        experiment, losses = learn("cuda:0")
        assert marks.has(experiment.model.v)
        assert marks.has(experiment.model.u)
    assert losses == pytest.approx(expected, rel=1e-5)


RULES = ["q-learning", "expected-sarsa", "double-q", "sarsa-lambda", "monte-carlo", "reinforce"]


@pytest.mark.parametrize("rule", RULES)
def test_a_thousand_learners_on_the_device_are_those_of_numpy(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from txlab.engine.rl.settings import Settings
    from txlab.engine.rl.sweeps.sweep import sweep_in
    from txlab.engine.rl.worlds import world_named

    world = world_named("four-by-three")
    settings = [Settings(rule=rule, alpha=0.1 * (1 + m % 4)) for m in range(24)]
    returns, lengths = sweep_in(world, settings, range(24)).run_episodes(2)
    with pretended_card(monkeypatch) as marks:
        sweep: Any = sweep_in(world, settings, range(24), "cuda:0")
        assert all(marks.has(table) for _, block in sweep.blocks for table in block.table.values())
        found = sweep.run_episodes(2)
    np.testing.assert_allclose(found[0], returns, rtol=1e-12)
    np.testing.assert_array_equal(found[1], lengths)


def test_text_is_written_with_its_cache_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from txlab.engine.transformer.generation import generate, generate_batch
    from txlab.engine.transformer.gpt import GPT, GPTShape

    shape = GPTShape(2, 2, 16, 16, 11)
    model = GPT(shape, torch.Generator().manual_seed(1)).eval()
    how = {"temperature": 0.8, "top_k": 5, "top_p": 0.9}

    def written() -> list[list[int]]:
        draws = torch.Generator().manual_seed(3)
        one = list(generate(model, [1, 2], 20, generator=draws, **how))
        return [one, *generate_batch(model, [[1, 2, 3], [4]], 6, generator=draws, **how)]

    expected = written()
    with pretended_card(monkeypatch) as marks:
        model.to("cuda:0")
        assert written() == expected
        assert {"aten::bmm", "aten::softmax"} & {name.replace("_softmax", "softmax") for name in marks.operations}


METHODS = {
    "ppo": {"method": "ppo", "batch": 4, "minibatches": 2, "epochs": 1},
    "grpo": {"method": "grpo", "batch": 4, "group": 2, "minibatches": 1, "epochs": 1},
    "dpo": {"method": "dpo", "batch": 4},
    "best-of-n": {"method": "best-of-n", "batch": 4},
}


@pytest.mark.parametrize("method", METHODS)
def test_feedback_writes_ranks_and_learns_on_its_device(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "task": {"source": "spelling", "tokens": 8},
        "model": {"layers": 1, "heads": 2, "width": 8},
        "demonstrations": {"steps": 2, "batch": 4, "count": 8},
        "rankings": {"steps": 2, "settling": 1, "batch": 2, "answers": 3},
        "policy": {"steps": 2} | METHODS[method],
        "probe": {"held_out": 4, "prompts": 2},
    }

    def learn(device: str) -> tuple[Any, list[dict[str, float]]]:
        kind = kind_named("human-feedback")
        experiment: Any = kind.build(kind.schema.model_validate({**given, "compute": GIVEN | {"device": device}}))
        rows = []
        while experiment.step_count < experiment.steps:
            rows.append({name: float(value) for name, value in experiment.step().items()})
            experiment.evaluate()
            experiment.frame()
        experiment.load_state_dict(experiment.state_dict())
        return experiment, rows

    _, expected = learn("cpu")
    with pretended_card(monkeypatch) as marks:
        experiment, rows = learn("cuda:0")
        assert all(marks.has(parameter) for parameter in experiment.model().parameters())
        assert all(marks.has(parameter) for parameter in experiment.handed.reward.parameters())
    assert len(rows) == len(expected) == given["policy"]["steps"] + 4 + 1
    for one, other in zip(expected, rows, strict=True):
        assert other == pytest.approx(one, rel=1e-4, nan_ok=True)


def test_a_pretended_card_refuses_what_a_card_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended_card(monkeypatch):
        there, here = torch.ones(3, device="cuda"), torch.ones(3)
        assert (there.device.type, here.device.type, (there + 1).device.type) == ("cuda", "cpu", "cuda")
        assert (there * torch.tensor(2.0)).cpu().tolist() == [2.0, 2.0, 2.0]  # numbers may be anywhere
        with pytest.raises(AssertionError, match="main memory"):
            there + here
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()
        with pytest.raises(AssertionError, match="generator"):
            torch.rand(3, device="cuda", generator=torch.Generator())
        leaf = torch.ones(3, device="cuda", requires_grad=True)
        (leaf * 2).sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.device.type == "cuda"
