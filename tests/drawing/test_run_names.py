"""Names of runs keep what tells them apart, however little room there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.drawing.run_names import find_spare, fit_handle, name_runs
from txlab.drawing.text import width
from txlab.runs.label import format_changes
from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario

RATES = [f"playground-xor learning_rate={rate} model.width=8 seed={seed}" for rate in (0.016, 0.03) for seed in (1, 2)]
SETTINGS = st.lists(st.sampled_from(["learning_rate=0.016", "seed=2", "layers=3", "text=mine.txt"]), unique=True)


@pytest.mark.parametrize("cells", range(14, 60))
def test_ten_runs_of_a_sweep_have_ten_names(cells: int) -> None:
    names = [fit_handle(name, cells, find_spare(RATES)) for name in RATES]
    assert len(set(names)) == len(RATES)
    assert all(width(name) <= cells for name in names)


def test_what_all_runs_share_is_left_out_first() -> None:
    assert [fit_handle(name, 18, find_spare(RATES)) for name in RATES[:2]] == [
        "xor lr=.016 seed=1",
        "xor lr=.016 seed=2",
    ]


def test_a_setting_that_another_scenario_shares_is_kept() -> None:
    names = ["xor seed=1 width=123456", "xor seed=2 width=123456", "gpt seed=1 width=123456", "gpt seed=1 width=654321"]
    assert [fit_handle(name, 12, find_spare(names)) for name in names[:2]] == ["xor seed=1", "xor seed=2"]


@given(st.sampled_from(["playground-xor", "gpt", "random-walk-19"]), SETTINGS, st.integers(1, 60))
def test_a_setting_is_whole_or_absent(scenario: str, settings: list[str], cells: int) -> None:
    short = {"learning_rate=0.016": "lr=.016"}
    shown = fit_handle(" ".join([scenario, *settings]), cells)
    assert width(shown) <= cells
    if cells >= 16:
        kept = [word for word in shown.split(" ") if "=" in word]
        assert all(word in [*settings, *(short.get(each, each) for each in settings)] for word in kept)


def test_two_settings_of_one_name_have_their_sections() -> None:
    assert (
        format_changes({"policy.steps": 60, "rankings.steps": 12, "seed": 3})
        == "policy.steps=60 rankings.steps=12 seed=3"
    )


def test_runs_are_called_by_what_was_changed_and_two_of_one_name_by_their_start(tmp_path: Path) -> None:
    paths = [
        prepare(load_scenario("playground-xor", changes), root=tmp_path)
        for changes in (["train.learning_rate=0.016"], ["seed=2"], ["seed=2"])
    ]
    called = name_runs(paths)
    assert called[paths[0].name] == "playground-xor learning_rate=0.016"
    for path in paths[1:]:
        assert called[path.name].startswith("playground-xor seed=2 20"), "the same settings twice"
    assert name_runs([tmp_path / "absent"]) == {}
