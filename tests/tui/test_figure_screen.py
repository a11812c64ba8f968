"""The Figure screen on real runs: vectors of superposition, and the waves of a grokked embedding."""

from __future__ import annotations

from pathlib import Path

import pytest
from picture import text_of
from recorded import settle

from txlab.drawing.captions import figures as captions
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.app import TxlabApp
from txlab.tui.screens.figure.screen import FigureScreen
from txlab.tui.widgets.why import WhyScreen

SMALL = {
    "superposition": ["train.steps=20"],
    "grokking": ["train.steps=2", "data.modulus=7", "model.width=8", "model.heads=2"],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run of each; to be read, not changed."""
    folder = tmp_path_factory.mktemp("runs")
    for scenario, settings in SMALL.items():
        loaded = load_scenario(scenario, [*settings, "compute.threads=1"])
        assert execute(prepare(loaded, out=folder / scenario)).status == "done"
    return folder


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)])
@pytest.mark.parametrize("ascii", [False, True])
async def test_every_sparsity_has_its_vectors(root: Path, size: tuple[int, int], ascii: bool) -> None:
    app = TxlabApp(run=root / "superposition", root=root, ascii=ascii)
    async with app.run_test(size=size) as pilot:
        app.action_open_screen("figure")
        await settle(pilot, lambda: isinstance(app.screen, FigureScreen) and "S = 0.9" in text_of(app))
        screen, text = app.screen, text_of(app)
        assert isinstance(screen, FigureScreen)
        assert len(screen.groups) == 8
        for name, vectors in screen.groups.items():
            assert vectors.shape == (5, 2)
            assert f"S = {name} " in text
        assert text.isascii() or not ascii
        await pilot.press("left_curly_bracket")
        await settle(pilot, lambda: "step 0 of 20" in text_of(app))


async def test_curves_of_a_frame_are_drawn(root: Path) -> None:
    app = TxlabApp(run=root / "grokking", root=root)
    async with app.run_test(size=(100, 30)) as pilot:
        app.action_open_screen("figure")
        await settle(pilot, lambda: isinstance(app.screen, FigureScreen) and "frequency" in text_of(app))
        screen = app.screen
        assert isinstance(screen, FigureScreen)
        (energy,) = screen.curves.series
        assert energy.steps.tolist() == [1, 2, 3]
        assert energy.values.sum() == pytest.approx(1.0)


ASKS = {"superposition": "how much of a dimension", "grokking": "frequency"}


@pytest.mark.parametrize("scenario", ASKS)
async def test_w_explains_what_is_drawn_and_the_caption_says_it(root: Path, scenario: str) -> None:
    app = TxlabApp(run=root / scenario, root=root)
    async with app.run_test(size=(100, 30)) as pilot:
        app.action_open_screen("figure")
        await settle(pilot, lambda: isinstance(app.screen, FigureScreen) and app.screen.frame is not None)
        screen = app.screen
        assert isinstance(screen, FigureScreen)
        said = captions.vectors(screen.groups) if screen.groups else captions.curves(screen.frame)
        assert said
        assert said[0] in text_of(app)
        await pilot.press("w")
        await settle(pilot, lambda: isinstance(app.screen, WhyScreen) and "result" in text_of(app))
        assert ASKS[scenario] in text_of(app)
