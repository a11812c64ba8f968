"""Several texts in given shares: what is drawn, what each has had, what is scored (MATH T12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from decided import DECIDED

from txlab.errors import LabError
from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.kinds.language_model.data import BLOCK, MixtureData, build_data, part_names
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario

COMPUTE = DECIDED | {"attention": "matmul"}


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    """Three texts of different letters, so that a window tells where it comes from."""
    paths = []
    random = np.random.default_rng(3)
    for name, letters, length in (("small", "ab ", 900), ("large", "xyz", 6000), ("other", "123", 2000)):
        path = tmp_path / f"{name}.txt"
        path.write_text("".join(letters[i] for i in random.integers(0, 3, size=length)))
        paths.append(path)
    return paths


def scenario(texts: list[Path], weights: tuple[float, ...] = (1, 2, 5), **changes: Any) -> LanguageModelScenario:
    sections: dict[str, Any] = {
        "seed": 5,
        "data": {
            "mixture": [{"text": str(text), "weight": weight} for text, weight in zip(texts, weights, strict=False)]
        },
        "model": {"layers": 1, "heads": 2, "width": 16, "context": 16},
        "train": {"steps": 30, "batch": 8, "warmup": 2, "validation_batches": 2},
        "sampling": {"prompts": ["ab"], "tokens": 4},
        "compute": COMPUTE,
    }
    for name, section in changes.items():
        sections[name] = {**sections.get(name, {}), **section}
    return LanguageModelScenario.model_validate(sections)


def source_of(row: list[int]) -> int:
    """Which of the three texts a window of bytes comes from, by its letters alone."""
    found = {next(n for n, letters in enumerate(("ab ", "xyz", "123")) if chr(token) in letters) for token in row}
    assert len(found) == 1
    return found.pop()


def test_each_text_is_drawn_as_often_as_its_weight_says(texts: list[Path]) -> None:
    data = build_data(scenario(texts))
    counts = np.zeros(3)
    for step in range(400):
        for row in data.train_batch(step).inputs.tolist():
            counts[source_of(row)] += 1
    shares = counts / counts.sum()
    np.testing.assert_allclose(shares, [1 / 8, 2 / 8, 5 / 8], atol=4 * 0.5 / np.sqrt(400 * 8))


def test_epochs_are_what_was_drawn_over_what_is_there(texts: list[Path]) -> None:
    """Counted from the batches themselves, across the border of a block of steps."""
    data = build_data(scenario(texts, train={"batch": 2}))
    assert isinstance(data, MixtureData)
    drawn = np.zeros(3)
    for step in range(BLOCK + 20):
        for row in data.train_batch(step).inputs.tolist():
            drawn[source_of(row)] += len(row)
        if step + 1 in (1, 7, BLOCK, BLOCK + 20):
            there = [len(text.train) for text in data.texts]
            wanted = dict(zip(("epochs/small", "epochs/large", "epochs/other"), drawn / there, strict=True))
            assert data.progress(step + 1) == pytest.approx(wanted, rel=1e-12)
    assert set(data.progress(0).values()) == {0.0}


def test_a_batch_depends_on_seed_and_step_and_on_nothing_else(texts: list[Path]) -> None:
    data, again = (build_data(scenario(texts)) for _ in range(2))
    late = again.train_batch(3 * BLOCK + 5)
    for step in (0, 9, BLOCK, 3 * BLOCK + 5):
        assert torch.equal(data.train_batch(step).inputs, again.train_batch(step).inputs)
    assert torch.equal(late.inputs, data.train_batch(3 * BLOCK + 5).inputs)
    assert not torch.equal(data.train_batch(0).inputs, data.train_batch(1).inputs)


def test_the_validation_loss_is_that_of_the_mixture_and_of_each_text(texts: list[Path]) -> None:
    experiment = KIND.build(scenario(texts))
    for _ in range(5):
        experiment.step()
    metrics = experiment.evaluate()
    losses: dict[str, list[float]] = {}
    for batch in experiment.data.validation_batches():
        with torch.no_grad():
            loss = F.cross_entropy(experiment.model(batch.inputs).flatten(0, 1), batch.targets.flatten())
        losses.setdefault(batch.source, []).append(loss.item())
        assert {source_of(row) for row in batch.inputs.tolist()} == {["small", "large", "other"].index(batch.source)}
    means = {name: sum(values) / len(values) for name, values in losses.items()}
    for name, mean in means.items():
        assert metrics[f"val_loss/{name}"] == pytest.approx(mean, rel=1e-5)
    mixed = (means["small"] + 2 * means["large"] + 5 * means["other"]) / 8
    assert metrics["val_loss"] == pytest.approx(mixed, rel=1e-5)
    assert metrics["val_bits_per_byte"] == pytest.approx(mixed / np.log(2), rel=1e-5)
    assert metrics["epochs/small"] > 0


def test_training_continues_bit_for_bit_from_a_state(texts: list[Path]) -> None:
    whole, parts = KIND.build(scenario(texts)), KIND.build(scenario(texts))
    losses = [whole.step()["loss"] for _ in range(12)]
    for _ in range(7):
        parts.step()
    fresh = KIND.build(scenario(texts))
    fresh.load_state_dict(parts.state_dict())
    assert [fresh.step()["loss"] for _ in range(5)] == losses[7:]
    assert fresh.evaluate() == whole.evaluate()


def test_another_mixture_is_another_corpus(texts: list[Path]) -> None:
    state = KIND.build(scenario(texts)).state_dict()
    with pytest.raises(LabError, match="is not the corpus that this run began with"):
        KIND.build(scenario(texts, (1, 2, 4))).load_state_dict(state)


def test_one_tokenizer_is_learnt_from_all_training_shares(texts: list[Path]) -> None:
    data = build_data(scenario(texts, data={"tokenizer": "bpe", "vocabulary": 300}))
    pieces = [data.tokenizer.token_bytes(token).decode() for token in range(256, data.vocabulary)]
    for letters in ("ab", "xyz", "123"):
        assert any(set(piece) <= set(letters) for piece in pieces)


def test_names_tell_the_texts_apart() -> None:
    assert part_names(["a/b.c.txt", "python-docs", "x/b.c.md", "?!"]) == ["b.c", "python-docs", "b.c-2", "text"]


def write(folder: Path, mixture: str) -> Path:
    path = folder / "mixed.toml"
    path.write_text(f'kind = "language-model"\n[data]\nmixture = {mixture}\n')
    return path


@pytest.mark.parametrize(
    ("mixture", "sentence"),
    [
        ('[{text = "nowhere.txt"}]', r"data\.mixture\[0\]\.text = .*nowhere\.txt.* is neither a corpus nor a file"),
        (
            '[{text = "small.txt", weight = 0}]',
            r"line 3: data\.mixture\[0\]\.weight = 0 is not allowed; allowed: a number, greater than 0",
        ),
        ('[{text = "small.txt", share = 1}]', r"line 3: data\.mixture\[0\]\.share is not a key; allowed: text, weight"),
        ("[{weight = 2.0}]", r"line 3: data\.mixture\[0\]\.text is missing; allowed: a text"),
        ('["python-docs"]', r"line 3: data\.mixture\[0\] = .python-docs. is not allowed; allowed: a (list|table)"),
        ('"python-docs"', r"line 3: data\.mixture = .python-docs. is not allowed; allowed: a list"),
    ],
)
def test_a_mistake_in_a_mixture_is_a_readable_error(
    texts: list[Path], tmp_path: Path, mixture: str, sentence: str
) -> None:
    with pytest.raises(LabError, match=sentence) as error:
        load_scenario(write(tmp_path, mixture))
    assert "\n" not in str(error.value)


def test_paths_of_a_mixture_are_written_down_absolute(texts: list[Path], tmp_path: Path) -> None:
    path = write(tmp_path, '[{text = "small.txt", weight = 3}, {text = "python-docs"}]')
    run = prepare(load_scenario(path), root=tmp_path / "runs")
    mixture = load_scenario(run / "scenario.toml").scenario.data.mixture  # type: ignore[attr-defined]
    assert [(part.text, part.weight) for part in mixture] == [(str(texts[0]), 3.0), ("python-docs", 1.0)]


def test_a_short_part_is_named(texts: list[Path], tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("too short\n")
    with pytest.raises(LabError, match=r"data\.mixture\[1\]\.text is too short: its training share has 10 tokens"):
        build_data(scenario([texts[0], short]))


def test_epochs_and_losses_of_a_text_are_explained_by_what_was_drawn(texts: list[Path]) -> None:
    from txlab.experiments.kind import explain_metric

    settings = scenario(texts)
    experiment = KIND.build(settings)
    for _ in range(6):
        experiment.step()
    values = {name: float(value) for name, value in experiment.evaluate().items()}
    told = explain_metric(settings.model_dump(), "epochs/large", 6, values, experiment.facts())
    assert told is not None
    assert told.result == values["epochs/large"]
    steps = {step.name: step.result for step in told.steps}
    rows = [row for step in range(6) for row in experiment.data.train_batch(step).inputs.tolist()]
    assert steps["drawn"] == pytest.approx(16 * sum(source_of(row) == 1 for row in rows))
    assert steps["expected"] == pytest.approx(6 * 8 * 16 * 2 / 8)
    told = explain_metric(settings.model_dump(), "val_loss", 6, values, experiment.facts())
    assert told is not None
    assert told.equation.startswith("L = Σᵢ wᵢ Lᵢ")
    weighted = [step.result for step in told.steps if step.name.startswith("w · L")]
    losses = {name: value for name, value in values.items() if name.startswith("val_loss/")}
    shares = {"val_loss/small": 1 / 8, "val_loss/large": 2 / 8, "val_loss/other": 5 / 8}
    assert sorted(weighted) == pytest.approx(sorted(shares[name] * value for name, value in losses.items()))  # type: ignore[type-var]
    assert sum(weighted) == pytest.approx(values["val_loss"], rel=1e-6)  # type: ignore[arg-type]
    told = explain_metric(settings.model_dump(), "val_loss/small", 6, values, experiment.facts())
    assert told is not None
    assert told.steps[-1].result == pytest.approx(values["val_loss"], rel=1e-6)
