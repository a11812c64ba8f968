"""Screen 0 on real runs: the text of a recurrent network by its units, the search, and gradients that reach back."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from picture import text_of
from recorded import make_run, settle
from textual.pilot import Pilot

from txlab.errors import LabError
from txlab.experiments.kinds.memory import KIND
from txlab.experiments.protocol import Frame
from txlab.runs.directory import RunDirectory
from txlab.runs.models import open_checkpoint
from txlab.runs.process import execute, prepare
from txlab.runs.reader import RunReader
from txlab.runs.scenario import load_scenario
from txlab.tui.app import TxlabApp
from txlab.tui.screens.recurrent.screen import RecurrentScreen, explain_gradients
from txlab.tui.screens.recurrent.units import follow
from txlab.tui.widgets.token_strips import spaced
from txlab.tui.widgets.why import WhyPanel

TEXT = 'He said "no" (or "yes").\nThen A went on.\n\n' * 120


def run(root: Path, scenario: str, *settings: str) -> Path:
    folder = root / scenario
    loaded = load_scenario(scenario, [*settings, "compute.threads=1", "compute.device=cpu"])
    assert execute(prepare(loaded, out=folder)).status == "done"
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recurrent")
    text = folder / "text.txt"
    text.write_text(TEXT)
    run(
        folder / "runs", "recurrent-docs", f"data.text={text}", "model.width=8", "model.context=16", "train.steps=20",
        "train.batch=2", "train.validation_batches=1", "record.frame_every=10", "record.checkpoint_every=20",
    )  # fmt: skip
    run(folder / "memory", "vanishing-gradient", "data.length=20", "model.width=6", "train.steps=5", "train.batch=4")
    return folder


async def opened(pilot: Pilot[None], app: TxlabApp) -> RecurrentScreen:
    await pilot.press("0")
    await settle(pilot, lambda: isinstance(app.screen, RecurrentScreen))
    screen = app.screen
    assert isinstance(screen, RecurrentScreen)
    await settle(pilot, lambda: screen.run.status)
    return screen


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
@pytest.mark.parametrize("ascii", [False, True])
async def test_a_text_is_coloured_by_the_selected_unit(root: Path, size: tuple[int, int], ascii: bool) -> None:
    app = TxlabApp(root=root / "runs", ascii=ascii, screen="recurrent")
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: "unit 1 of 8, layer 1 of 2" in text_of(app))
        text = text_of(app)
        assert "open(path," in text.replace(" ", "")  # letters may be apart
        assert "forget gate" in text
        assert text.isascii() or not ascii
        assert screen.units.values is not None
        begun = screen.units.token
        assert begun == 1 + np.abs(screen.units.values[0, 1:, 0]).argmax(), "it begins where the state is large"
        await pilot.press("down", "down", "right", "tab")
        await settle(pilot, lambda: "unit 3 of 8, layer 2 of 2" in text_of(app))
        frame = screen.units.frame
        assert frame is not None
        row = screen.units.strips.rows[0]
        np.testing.assert_allclose(row.values, frame.tensors["state/h"][1, :, 2])
        assert screen.units.strips.token == begun + 1
        await pilot.press("v")
        np.testing.assert_allclose(screen.units.strips.rows[0].values, frame.tensors["state/c"][1, :, 2])
        await pilot.press("w")
        await settle(pilot, lambda: "why is c" in text_of(app))
        assert "in unit 3 of layer 2" in text_of(app)
        await pilot.press("escape")
        await settle(pilot, lambda: app.screen is screen)
        await pilot.press("left_square_bracket")
        await settle(pilot, lambda: "step 10 of 20" in text_of(app))


async def test_w_shows_the_sum_of_each_gate_and_of_a_frame_without_the_parts_its_gates(root: Path) -> None:
    app = TxlabApp(root=root / "runs", screen="recurrent")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: screen.units.display)
        frame = screen.units.frame
        assert frame is not None
        at = (0, screen.units.here, 0)
        await pilot.press("w")
        await settle(pilot, lambda: "1 of 5" in text_of(app))
        assert "= σ(" in text_of(app).replace("= σ(W x", "")
        for page, gate in enumerate("figo", 2):
            await pilot.press("tab")
            await settle(pilot, lambda page=page: f"{page} of 5" in text_of(app))  # type: ignore[misc]
            text = text_of(app)
            why = app.screen.query_one(WhyPanel).explanation
            assert why is not None
            assert why.result == pytest.approx(float(frame.tensors[f"gate/{gate}"][at]), rel=2**-9)
            assert f"why is {gate} " in text
            assert "the part from the input" in text
            assert "the part from the state before" in text
        await pilot.press("escape")
        await settle(pilot, lambda: app.screen is screen)
        kept = {name: values for name, values in frame.tensors.items() if name.startswith(("state/", "gate/"))}
        screen.units.show(replace(frame, tensors=kept), root / "runs" / "recurrent-docs", frame.step)
        await pilot.press("w")
        await settle(pilot, lambda: "forget gate: how much is kept" in text_of(app) and "why is h" in text_of(app))
        assert "= σ(" not in text_of(app).replace("= σ(W x", "")


@pytest.mark.parametrize(("size", "cells"), [((200, 60), (4, 2)), ((120, 40), (2, 1)), ((60, 20), (1, 1))])
async def test_letters_are_as_large_as_there_is_room_and_lines_end_between_words(
    root: Path, size: tuple[int, int], cells: tuple[int, int]
) -> None:
    app = TxlabApp(root=root / "runs", screen="recurrent")
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: screen.units.display and screen.units.strips.size.width > 20)
        strips = screen.units.strips
        await settle(pilot, lambda: (strips.cells, strips.tall) == cells)
        assert strips.size.height >= min(len(strips.lines) - 1, strips.most if strips.most > 0 else 1)
        assert screen.units.chart.size.height >= 5
        tokens = strips.rows[0].tokens
        for tokens_of_line in strips.tokens_of_lines(strips.rows[0], [strips.cells] * len(tokens)):
            last = "".join(tokens[t] for t in tokens_of_line)[-1]
            assert last in " \n" or tokens_of_line.stop == len(tokens)


def test_a_letter_has_its_cells_and_a_sign_of_two_parts_stays_whole() -> None:
    assert [spaced("日b", each) for each in (1, 2, 3)] == ["日b", " 日 b ", "  日   b "]
    assert spaced("e\u0301", 2) == "e\u0301 "


async def test_a_search_ranks_all_units_and_they_are_browsed(root: Path) -> None:
    app = TxlabApp(root=root / "runs", screen="recurrent")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: screen.units.display)
        await pilot.press("slash")
        await settle(pilot, lambda: "Which property" in text_of(app))
        await pilot.press("enter")
        await settle(pilot, lambda: screen.units.found is not None)
        await settle(pilot, lambda: 'follows “inside "quotes"” with r = ' in text_of(app))
        found = screen.units.found
        assert found is not None
        layer, unit, _ = found.units[0]
        assert f"unit {unit + 1} of 8, layer {layer + 1} of 2" in text_of(app)
        await pilot.press("down")
        layer, unit, _ = found.units[1]
        await settle(pilot, lambda: f"unit {unit + 1} of 8, layer {layer + 1} of 2" in text_of(app))
        await pilot.press("escape")
        await settle(pilot, lambda: "/ finds the unit" in text_of(app))
        assert f"unit {unit + 1} of 8, layer {layer + 1} of 2" in text_of(app)


def test_the_correlation_is_that_of_the_states_over_unseen_text(root: Path) -> None:
    path = root / "runs" / "recurrent-docs"
    found = follow(path, None, "brackets", "h")
    assert sorted((layer, unit) for layer, unit, _ in found.units) == [(n, u) for n in range(2) for u in range(8)]
    sizes = [abs(r) for _, _, r in found.units]
    assert sizes == sorted(sizes, reverse=True)
    opened = open_checkpoint(RunDirectory(path))
    reader = RunReader(path)
    facts = reader.info.facts["corpus"]
    held_out = TEXT.encode()[-facts["validation_bytes"] :][: found.tokens]
    h = opened.model.recurrent(opened.model.embed_ids(torch.tensor([list(held_out)])))[0][0].detach()
    depth, values = 0, []
    for byte in held_out:
        depth += byte == ord("(")
        values.append(float(depth > 0))
        depth -= byte == ord(")")
    _, unit, r = next(each for each in found.units if each[0] == 1)
    assert r == pytest.approx(np.corrcoef(h[:, unit].numpy(), values)[0, 1], abs=1e-5)


def test_a_missing_property_is_reported(root: Path, tmp_path: Path) -> None:
    text = tmp_path / "plain.txt"
    text.write_text("the cat sees a mouse. " * 200)
    path = run(
        tmp_path, "recurrent-docs", f"data.text={text}", "model.width=4", "model.context=8", "train.steps=1",
        "train.batch=2", "train.validation_batches=1",
    )  # fmt: skip
    with pytest.raises(LabError, match='is inside "quotes"'):
        follow(path, None, "quotes", "h")


async def test_gradients_that_reach_back_are_curves(root: Path) -> None:
    app = TxlabApp(root=root / "memory", screen="recurrent")
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: "steps back" in text_of(app))
        assert {each.label for each in screen.gradients.series} == {"rnn", "gru", "lstm"}
        assert all(len(each.steps) == 20 for each in screen.gradients.series)
        assert not screen.units.display
        assert screen.frame is not None
        curves = {name: values for name, values in screen.frame.tensors.items() if name.startswith("curve/")}
        first = min(curves, key=lambda name: float(curves[name][-1] - curves[name][0]))
        await pilot.press("w")
        await settle(pilot, lambda: "result" in text_of(app))
        shown = text_of(app)
        assert f"for the {first.removeprefix('curve/').upper()}, 19 steps back?" in shown


def test_the_mean_factor_of_a_gradient_is_the_root_of_its_loss() -> None:
    frame = Frame(5, {"curve/rnn": np.array([0.5, -0.5, -2.5]), "curve/lstm": np.array([0.0, 0.0, -0.1])})
    rnn, lstm = explain_gradients(frame)
    assert rnn.result == -2.5
    assert rnn.meaning[0].result == pytest.approx((10**-2.5 / 10**0.5) ** 0.5)
    assert lstm.result == -0.1
    with pytest.raises(LabError, match="curve/rnn, curve/lstm"):
        KIND.explain_frame(frame, "curve/gru", (0,))


async def test_a_run_that_was_deleted_is_named_and_the_next_one_is_shown(tmp_path: Path) -> None:
    app = TxlabApp(root=tmp_path, screen="recurrent")
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.press("0")
        await settle(pilot, lambda: isinstance(app.screen, RecurrentScreen))
        screen = app.screen
        assert isinstance(screen, RecurrentScreen)
        app.current_run = make_run(tmp_path, "vanished")
        await settle(pilot, lambda: screen.run.status)
        shutil.rmtree(app.current_run)
        await settle(pilot, lambda: "vanished was deleted or moved." in text_of(app))
        app.current_run = make_run(tmp_path, "another")
        await settle(pilot, lambda: "another" in text_of(app))


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (100, 30), (120, 40)])
async def test_the_axis_of_the_gradients_has_a_name_at_every_width(root: Path, size: tuple[int, int]) -> None:
    app = TxlabApp(root=root / "memory", screen="recurrent")
    async with app.run_test(size=size) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "└" in text_of(app))
        lines = text_of(app).splitlines()
        axis = next(at for at, line in enumerate(lines) if "└" in line)
        assert "T − t" in lines[axis + 1]
