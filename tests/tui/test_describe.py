"""Every built-in scenario is described in the catalogue, whatever its kind."""

import pytest

from txlab.runs.scenario import CatalogueEntry, catalogue
from txlab.tui.screens.lab.describe import describe_scenario
from txlab.tui.theme import IN_ASCII


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry.name)
@pytest.mark.parametrize("ascii", [False, True])
def test_every_scenario_says_what_it_trains_on_what_and_how(entry: CatalogueEntry, ascii: bool) -> None:
    lines = describe_scenario(entry, 84, ascii).plain.splitlines()
    names = [name for name, _ in entry.scenario.outline()]
    assert len(names) >= 2  # what, and how; of a network "Model" and "Training"
    assert {"Model", "Training"} <= set(names) or not hasattr(entry.scenario, "train")
    for name in [*names, "Takes"]:
        assert any(line.startswith(name) for line in lines), name
    assert not ascii or all(line.translate(IN_ASCII).isascii() for line in lines)  # as it is painted
