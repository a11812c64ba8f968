"""The arithmetic of a price: how often things happen, bytes on the disk, parts of the memory, presets, and the line."""

from __future__ import annotations

from typing import Any

import pytest

from txlab.engine.transformer.presets import PRESETS, parameters, training_flops
from txlab.errors import LabError
from txlab.experiments.price import (
    computed_price,
    counts,
    disk,
    lack,
    occasions,
    parts_of_memory,
    price_line,
    price_of_preset,
)
from txlab.experiments.schema import Record
from txlab.runs.loop import is_due
from txlab.runs.scenario import load_scenario


@pytest.mark.parametrize("every", [0, 1, 7, 50, 100, 1000])
@pytest.mark.parametrize("steps", [1, 6, 7, 100, 101])
def test_things_happen_as_often_as_the_loop_does_them(every: int, steps: int) -> None:
    """The loop's own rule, at every step from 0 to the last."""
    done = [step for step in range(steps + 1) if every and (step == steps or is_due(every, step))]
    assert occasions(every, steps) == len(done)
    saved = [step for step in range(1, steps + 1) if step == steps or is_due(every, step)]
    assert counts(Record(checkpoint_every=every), steps)["checkpoint"] == len(saved)


def test_the_disk_has_as_many_checkpoints_as_the_record_keeps() -> None:
    record = Record(checkpoint_every=10, checkpoints_kept=2, checkpoints_mb=10.0, frame_every=10, frames_mb=1.0)
    assert disk(record, 100, 1e6, 1e4) == {"checkpoints": 10_000_000, "frames": 110_000}
    assert disk(record, 100, 4e6, 1e4)["checkpoints"] == 12_000_000  # two, and the best, beyond the budget
    assert disk(record, 10, 4e6, 1e6) == {"checkpoints": 4_000_000, "frames": 1_000_000}
    assert disk(record, 10, 4e6, 3e6)["frames"] == 3_000_000  # one stays, whatever the budget
    assert disk(Record(checkpoint_every=0, frame_every=0), 10, 4e6, 1e6) == {"checkpoints": 4_000_000, "frames": 0}


def test_the_parts_of_the_memory_sum_to_what_was_held() -> None:
    assert sum(parts_of_memory({"weights": 3, "activations": 4}, 100).values()) == 100
    assert parts_of_memory({"weights": 300}, 100) == {"the whole process": 100}


def test_a_preset_is_priced_by_its_shape() -> None:
    price = price_of_preset("gpt2-xl", peak=1e12, there=10**9, free=10**15)
    P = parameters(PRESETS["gpt2-xl"].shape)
    assert price.parameters == P
    assert (price.memory["weights"], price.memory["moments of the optimizer"]) == (4 * P, 8 * P)
    assert not price.seconds  # its tokens are not published
    assert "memory" in price.warnings[0]
    three = price_of_preset("gpt3-175b", peak=1e15)
    assert three.total_seconds == pytest.approx(training_flops(PRESETS["gpt3-175b"]) / 1e15)
    assert three.warnings == lack(1, 0, "memory") == ()
    with pytest.raises(LabError, match="nearest: gpt2"):
        price_of_preset("gpt5")


def test_the_computed_price_is_that_of_the_built_model() -> None:
    from txlab.experiments.kind import kind_named

    settings = ["model.width=16", "model.layers=2", "train.batch=4", "train.steps=10"]
    scenario: Any = load_scenario("gpt-tiny", settings).scenario
    price = computed_price(scenario)
    assert price is not None
    experiment: Any = kind_named("language-model").build(scenario)
    facts = experiment.facts()
    assert price.parameters == sum(each.numel() for each in experiment.model.parameters())
    assert price.flops == 10 * facts["flops_per_step"]
    assert price.units == 10 * facts["units_per_step"]
    assert price.memory["weights"] == 4 * price.parameters
    labels: Any = load_scenario("reviews-labels", ["start.run=", "data.shares=[0.1,1.0]"]).scenario
    built: Any = kind_named("text-classification").build(labels)
    again = computed_price(labels)
    assert again is not None
    assert again.parameters == built.facts()["parameters"]
    assert again.flops == built.facts()["flops_per_step"] * labels.train.steps


def test_the_line_of_a_form_follows_the_settings_and_is_empty_where_nothing_follows() -> None:
    usual: Any = load_scenario("gpt-docs", []).scenario
    twice: Any = load_scenario("gpt-docs", ["train.steps=3600"]).scenario
    assert "about 6 min" in price_line(usual, usual)
    assert "about 12 min" in price_line(twice, usual)
    assert "about" not in price_line(twice)
    for name in ("cliff", "words-docs", "recurrent-docs"):
        assert price_line(load_scenario(name, []).scenario) == ""
