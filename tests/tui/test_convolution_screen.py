"""The Convolution screen on a real run: the filter moved, slid and explained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from picture import text_of
from recorded import settle

from txlab.drawing.diverging import Scale, ramp_for
from txlab.drawing.pixels import Part, pixel_lines
from txlab.runs.frames import FrameIndex
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.app import TxlabApp
from txlab.tui.screens.convolution.screen import ConvolutionScreen
from txlab.tui.screens.convolution.slide import Room, Sizes, first_place, sizes_in


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    settings = ["train.steps=4", "train.batch=8", "train.validation_batches=1", "compute.threads=1"]
    assert execute(prepare(load_scenario("conv-shapes", settings), out=folder / "conv")).status == "done"
    return folder


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (200, 60)])
@pytest.mark.parametrize("ascii", [False, True])
async def test_a_filter_is_moved_and_its_sum_is_that_of_the_products(
    root: Path, size: tuple[int, int], ascii: bool
) -> None:
    app = TxlabApp(root=root, ascii=ascii)
    async with app.run_test(size=size) as pilot:
        app.action_open_screen("convolution")
        await settle(pilot, lambda: isinstance(app.screen, ConvolutionScreen) and "the products" in text_of(app))
        screen = app.screen
        assert isinstance(screen, ConvolutionScreen)
        panel, found = screen.slide, screen.slide.arrays
        assert found is not None
        strongest = first_place(found[0], found[-1][0], 5)
        assert (panel.y, panel.x) == strongest, "it begins where the first filter finds most"
        panel.y = panel.x = 0
        await pilot.press("right", "right", "down", "tab")
        assert (panel.channel, panel.y, panel.x) == (1, 1, 2)
        picture, weights, bias, answers = found
        total = (picture[1:6, 2:7] * weights[1]).sum()
        assert total + bias[1] == pytest.approx(answers[1, 1, 2], abs=1e-5)
        text = text_of(app)
        assert f"{total:.2f}".lstrip("-") in text
        assert "the network says" in text
        assert text.isascii() or not ascii
        await pilot.press("w")
        await settle(pilot, lambda: "why does filter 2 answer" in text_of(app))
        await pilot.press("escape")
        await settle(pilot, lambda: app.screen is screen)


async def test_what_is_shown_before_the_body_has_its_size_is_drawn_when_it_has(root: Path, tmp_path: Path) -> None:
    (run,) = root.iterdir()
    frames = FrameIndex(run / "frames")
    frames.refresh()
    app = TxlabApp(root=tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        app.action_open_screen("convolution")
        await settle(pilot, lambda: isinstance(app.screen, ConvolutionScreen) and app.screen.empty)
        screen = app.screen
        assert isinstance(screen, ConvolutionScreen)
        assert not screen.slide.size.width
        screen.occupy()
        screen.slide.show(frames.read(int(frames.steps[-1])))  # a read can be quicker than the layout
        await settle(pilot, lambda: "the products" in text_of(app))


async def test_while_it_slides_only_what_it_has_passed_is_shown(root: Path) -> None:
    app = TxlabApp(root=root)
    async with app.run_test(size=(120, 40)) as pilot:
        app.action_open_screen("convolution")
        await settle(pilot, lambda: "the products" in text_of(app))
        panel = app.screen.query_one("SlidePanel")
        await pilot.press("enter")
        await settle(pilot, lambda: panel.x > 2)  # type: ignore[attr-defined]
        assert panel.sliding  # type: ignore[attr-defined]
        await pilot.press("enter")
        assert not panel.sliding  # type: ignore[attr-defined]
        panel.y, panel.x, panel.sliding = 19, 18, True  # type: ignore[attr-defined]
        panel.slide_on()  # type: ignore[attr-defined]
        panel.slide_on()  # type: ignore[attr-defined]
        assert not panel.sliding  # type: ignore[attr-defined]


def test_a_picture_has_a_piece_for_every_pixel_in_every_depth_of_colour() -> None:
    values = np.arange(30.0).reshape(5, 6) - 12
    values[4, 5] = np.nan
    for colours in ("truecolor", "256", "16", "none"):
        for ascii in (False, True):
            ramp = ramp_for(Scale(-12, 18), colours, True, ascii)  # type: ignore[arg-type]
            for zoom, (rows, cells) in enumerate(((3, 6), (5, 12), (10, 24))):
                lines = pixel_lines(values, Scale(-12, 18), ramp, (0, 0, 0), Part(1, 2, 2), (0, 255, 0), zoom)
                assert len(lines) == rows
                assert all(sum(len(piece.text) for piece in line) == cells for line in lines)
                assert any(piece.inside for line in lines for piece in line)


def test_no_pixel_is_dimmed_and_the_selected_ones_are_framed() -> None:
    ramp, scale, green = ramp_for(Scale(0, 1), "truecolor", True, False), Scale(0, 1), (0, 255, 0)
    values = np.linspace(0, 1, 36).reshape(6, 6)
    plain = pixel_lines(values, scale, ramp, (0, 0, 0), zoom=1)
    framed = pixel_lines(values, scale, ramp, (0, 0, 0), Part(1, 1, 2), green, 1)
    around = {(y, x) for y in range(4) for x in range(4)} - {(1, 1), (1, 2), (2, 1), (2, 2)}
    for y in range(6):
        for x in range(6):
            assert framed[y][x].fill == (green if (y, x) in around else plain[y][x].fill)
    assert plain[0][0].fill == ramp.fill[0]
    assert plain[5][5].fill == ramp.fill[-1]


def test_it_begins_where_something_is_and_not_where_a_filter_answers_to_nothing() -> None:
    picture = np.full((10, 10), -1.0)
    picture[5:8, 5:8] = 1.0
    answers = np.full((6, 6), 1.0)
    answers[0] = answers[:, 0] = 9.0  # to the empty background
    answers[3, 4], answers[4, 4] = 2.5, -8.0
    assert first_place(picture, answers, 5) == (3, 4)
    assert first_place(np.zeros((10, 10)), answers, 5) == (0, 0)  # a picture of nothing has a place, too


@pytest.mark.parametrize(
    ("width", "height", "wanted"),
    [
        (58, 13, Sizes(0, 0, 0, None)),
        (78, 17, Sizes(0, 0, 1, 0, True)),
        (118, 33, Sizes(1, 0, 3, 1, True)),
        (198, 53, Sizes(2, 1, 3, 0, True)),
    ],
)
def test_the_pictures_are_as_large_as_fit(width: int, height: int, wanted: Sizes) -> None:
    gap = 3 if width >= 100 else 1
    assert sizes_in(Room(width, height, gap), (24, 24), (20, 20), 5, 8) == wanted
