"""Enter on a formula leads to where it is at work: its screen, a run of its scenario, and the promised answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from made_once import made_once
from picture import text_of
from recorded import app_on, settle
from textual.pilot import Pilot

from txlab.errors import LabError
from txlab.experiments.formulas.content import content
from txlab.runs.directory import RunInfo
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.app import TxlabApp
from txlab.tui.formula_links import find_citations
from txlab.tui.screens.formulas.screen import FormulasScreen
from txlab.tui.screens.lab.screen import LabScreen
from txlab.tui.widgets.why import WhyPanel, WhyScreen

SHORT = [
    *("train.steps=2", "train.batch=4", "train.validation_batches=1", "model.width=16", "record.frame_every=1"),
    *("data.pairs=300", "data.tokens=7000", "train.epochs=1", "sampling.prompts=[]", "data.length=8"),
    *("descent.steps=40", "control.runs=3", "learn.units=4", "learn.games=40", "learn.games_per_step=10"),
    *("match.games=4", "match.copies=[0, 1]", "demonstrations.batch=4", "demonstrations.steps=2"),
    *("rankings.steps=2", "rankings.settling=2", "policy.steps=2", "policy.batch=8"),
]
"""Settings that make runs short, where a scenario has them."""

A_WEIGHT = {"T2": "T1", "T7": "T1", "T8": "T1"}
"""Shown by a weight of attention, with the mask, the turned positions or the other text in its steps."""

FURTHER_ON = {"G2": "play"}
"""Whose keys lead to another screen."""

IN_WORDS = {"K2": "are adjacent"}
"""Answered by a sentence."""

PLACES = {each.number: each.place for each in content()[0].values() if any(vars(each.place).values())}


def short(scenario: str) -> list[str]:
    """Those of the settings that this scenario has, except for stages that it leaves out."""
    kept: list[str] = []
    for each in SHORT:
        key, _, value = each.partition("=")
        try:
            table, _, name = key.partition(".")
            present = getattr(getattr(load_scenario(scenario).scenario, table, None), name, None)
            if present != 0 and present != value:
                load_scenario(scenario, [*kept, each])
                kept.append(each)
        except LabError:
            continue
    return kept


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a short run of each scenario at which a place shows one."""
    return shutil.copytree(made_once("places", train), tmp_path_factory.mktemp("places") / "runs")


def train(root: Path) -> None:
    for scenario in dict.fromkeys(place.scenario for place in PLACES.values() if place.screen != "lab"):
        if scenario:
            execute(prepare(load_scenario(scenario, short(scenario)), root=root))


async def arrive(app: TxlabApp, pilot: Pilot[None], number: str) -> None:
    """Open a formula, and press enter."""
    app.current_formula = number
    await settle(pilot, lambda: isinstance(app.screen, FormulasScreen))
    await settle(pilot, lambda: app.screen.check_action("go", ()))
    await pilot.press("enter")
    await settle(pilot, lambda: not [each for each in app.workers if each.group == "lecture" and not each.is_finished])


def complaints(app: TxlabApp) -> list[str]:
    return [str(notice.message) for notice in app._notifications if notice.severity != "information"]


def test_every_formula_has_a_place() -> None:
    assert set(PLACES) == set(content()[0])


@pytest.mark.evidence
@pytest.mark.parametrize("number", PLACES)
async def test_a_formula_leads_to_its_screen_and_run_and_answer(number: str, runs: Path) -> None:
    app, place = app_on(runs, screen="formulas"), PLACES[number]
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await arrive(app, pilot, number)
        assert complaints(app) == []
        assert app.current_mode == FURTHER_ON.get(number, place.screen)
        if place.screen == "lab":
            screen = app.screen_stack[0]
            assert isinstance(screen, LabScreen)
            assert screen.catalogue.rows.key == place.scenario
        elif place.scenario:
            assert app.current_run is not None
            assert RunInfo.load(app.current_run).scenario == place.scenario
        if "w" in place.keys:
            dialog = app.screen
            assert isinstance(dialog, WhyScreen), text_of(app)
            panel = dialog.query_one(WhyPanel)
            if number in IN_WORDS:
                assert IN_WORDS[number] in panel.sentence
            else:
                assert panel.explanation is not None, text_of(app)
                numbers = [each for _, each in find_citations(f"MATH {panel.explanation.math}")]
                assert A_WEIGHT.get(number, number) in numbers, text_of(app)
        if place.text:
            assert f"{len(place.text)} characters" in text_of(app)


async def test_without_a_run_it_says_how_to_start_one(tmp_path: Path) -> None:
    app = app_on(tmp_path, screen="formulas")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await arrive(app, pilot, "T1")
        assert complaints(app) == ["there is no run of gpt-copy yet: 1 opens the Lab, where enter starts one"]
        assert app.current_mode == "formulas"


async def test_a_place_without_a_run_is_reached_with_its_text(tmp_path: Path) -> None:
    app = app_on(tmp_path, screen="formulas")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await arrive(app, pilot, "K1")
        assert app.current_mode == "tokens"
        assert "7 characters · 11 bytes" in text_of(app)
        assert complaints(app) == []
