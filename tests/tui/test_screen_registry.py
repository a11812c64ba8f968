"""Which screen a run is looked at on."""

from pathlib import Path

import pytest

from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.screen_registry import room_of


@pytest.mark.parametrize(("scenario", "room"), [("cliff", "arena"), ("gambler", "arena"), ("gpt-tiny", "train")])
def test_a_run_is_looked_at_where_its_kind_is_shown(scenario: str, room: str, tmp_path: Path) -> None:
    assert room_of(prepare(load_scenario(scenario), root=tmp_path)) == room


def test_what_cannot_be_read_is_looked_at_on_train(tmp_path: Path) -> None:
    assert room_of(tmp_path / "nothing") == "train"
