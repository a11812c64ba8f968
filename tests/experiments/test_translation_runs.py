"""Translation as a run: what is recorded, going back, opening its model; and what the shipped scenarios say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_translation_pairs import Reader, read

from txlab.engine.transformer.generation import generate_target
from txlab.experiments.kind import kind_named
from txlab.experiments.kinds.translation.data import PairData
from txlab.experiments.kinds.translation.schema import TranslationScenario
from txlab.experiments.kinds.translation.tokens import tokenizers_for
from txlab.runs.models import open_model
from txlab.runs.process import execute, prepare
from txlab.runs.reader import RunReader
from txlab.runs.scenario import load_scenario

SCENARIO = """
kind = "translation"
seed = 3

[data]
task = "dates"
pairs = 200

[model]
width = 16
heads = 2
dropout = 0.1

[train]
steps = 12
batch = 8
warmup = 2
validation_batches = 1

[record]
evaluate_every = 6
sample_every = 6
frame_every = 4
checkpoint_every = 6

[compute]
device = "cpu"
dtype = "float32"
attention = "sdpa"
threads = 1
thread_mode = "operations"
compile = false
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translation")
    (folder / "few-dates.toml").write_text(SCENARIO)
    path = prepare(load_scenario(folder / "few-dates.toml"), root=folder / "runs")
    assert execute(path).status == "done"
    return path


def curves(path: Path) -> dict[str, list[tuple[int, float]]]:
    reader = RunReader(path)
    while reader.poll() or not reader.complete:
        reader.catch_up()
    names = ("loss", "grad_norm", "val_loss", "token_accuracy", "exact_match")
    found = {name: reader.series(name) for name in names}
    return {name: list(zip(each.steps.tolist(), each.values.tolist(), strict=True)) for name, each in found.items()}


def test_a_run_records_curves_frames_and_samples(run: Path) -> None:
    found = curves(run)
    assert [step for step, _ in found["loss"]] == list(range(1, 13))
    for name in ("val_loss", "token_accuracy", "exact_match"):
        assert [step for step, _ in found[name]] == [0, 6, 12], name
    reader = RunReader(run)
    reader.poll()
    assert reader.frames.steps.tolist() == [0, 4, 8, 12]
    frame = reader.frames.read(12)
    assert set(frame.tokens) == {"source", "target", "next"}
    cross = np.asarray(frame.tensors["cross/pattern"], dtype=np.float32)
    assert cross.shape == (2, 2, len(frame.tokens["target"]), len(frame.tokens["source"]))
    np.testing.assert_allclose(cross.sum(-1), 1.0, atol=5e-3)
    assert all(sample["text"].startswith(" → ") for sample in reader.rows("sample"))


def test_a_run_that_goes_back_repeats_itself_bit_for_bit(run: Path) -> None:
    before = curves(run)
    assert execute(run, rewind_to=6).status == "done"
    assert curves(run) == before


def test_a_run_s_model_opens_and_translates_as_its_samples_say(run: Path) -> None:
    opened = open_model(str(run))
    experiment = kind_named("translation").build(load_scenario(run / "scenario.toml").scenario)
    assert opened.step == 12
    reader = RunReader(run)
    reader.poll()
    samples = [sample for sample in reader.rows("sample") if sample["step"] == 12]
    assert len(samples) == 4
    for sample in samples:
        text = opened.text(sample["prompt"])
        assert opened.labels(text.ids)[-1] == "<end>"
        special, longest = opened.special, experiment.writing.longest  # type: ignore[attr-defined]
        assert special.begin is not None
        [written] = generate_target(
            opened.model,  # type: ignore[arg-type]
            [text.ids],
            longest,
            start=special.begin,
            end=special.end,
            never=(0, 1),
        )
        assert opened.target_tokenizer is not None
        assert sample["text"].startswith(f" → {opened.target_tokenizer.decode(written)} (")


# What is shipped


@pytest.mark.parametrize("name", ["translate", "dates"])
def test_a_shipped_scenario_fits_its_pairs_and_looks_at_a_right_one(name: str) -> None:
    scenario = load_scenario(name).scenario
    assert isinstance(scenario, TranslationScenario)
    assert (scenario.model.encoder_layers, scenario.data.pairs) == (2, 20_000)
    data = PairData(scenario)
    assert len(data.unseen) >= 500
    _, tokenizer = tokenizers_for(scenario.data.task, scenario.model.shared)
    look = scenario.probe
    if name == "translate":
        wanted = tokenizer.decode(tokenizer.ids(Reader(look.source.split()).translation()))
    else:
        wanted = read(look.source).date().isoformat()
    assert look.target == wanted
    assert data.target_tokenizer.decode(data.probe[1]) == wanted
