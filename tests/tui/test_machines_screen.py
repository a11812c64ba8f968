"""Machines: the cards and processes of this machine and two others, one of which dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from picture import strips_of, text_of
from pretended_boxes import Boxes
from recorded import app_on, make_run, settle

from txlab.drawing import box
from txlab.runs.remote import machine, mirroring
from txlab.runs.remote.address import Address
from txlab.runs.remote.machine import Shares
from txlab.tui.screens.machines.screen import MachinesPanel


@pytest.fixture
def boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Boxes]:
    yield Boxes(tmp_path, monkeypatch)
    mirroring.close_all()


async def test_eight_cards_and_three_machines_fit_and_a_dead_one_is_gray(
    boxes: Boxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(tmp_path / "here", screen="machines", machines=["a", "b"])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "H100" in text_of(app) and "RTX 4090" in text_of(app))
        lines = text_of(app).splitlines()
        shown = [line.split() for line in lines if "H100" in line]
        for n, (words, card) in enumerate(zip(shown, boxes.cards["a"], strict=True)):
            assert words[0] == str(n)
            assert f"{card['percent']} %" in " ".join(words)
            assert f"{card['used'] / 1e9:.1f}/85.0 GB 70/700 W 34 °C" in " ".join(words)
        assert sum("temperature (hardware)" in line for line in lines) == 2
        assert sum("RTX 4090" in line for line in lines) == 2
        assert "(this machine)" in text_of(app)
        monkeypatch.setattr(machine, "STALE_AFTER", 1.0)
        boxes.kill(Address("b"))
        await settle(pilot, lambda: "b: No route to host" in text_of(app))
        panel = app.screen.query_one(MachinesPanel)
        await settle(
            pilot, lambda: {row.machine.stale for row in panel.rows.values() if row.machine.name == "b"} == {True}
        )
        dead = [row for row in panel.rows.values() if row.machine.name == "b" and "title" not in row.key]
        assert {style for row in dead for _, style in row.parts} == {"quiet"}
        assert sum("RTX 4090" in line for line in text_of(app).splitlines()) == 2


async def test_enter_opens_the_run_of_a_process_here_and_there(boxes: Boxes, tmp_path: Path) -> None:
    make_run(tmp_path / "here", "near", status="open")
    make_run(boxes.runs, "distant", status="open")
    app = app_on(tmp_path / "here")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("B")
        await settle(pilot, lambda: app.current_mode == "machines" and "● near" in text_of(app))
        panel = app.screen.query_one(MachinesPanel)
        assert "open the run" not in text_of(app)  # the first row is a machine
        panel.list.select(next(key for key, row in panel.rows.items() if row.process and row.process.run))
        await settle(pilot, lambda: "open the run" in text_of(app))
        await pilot.press("enter")
        await settle(pilot, lambda: app.current_mode == "train" and "near" in str(app.current_run))

        await pilot.press("1")
        await settle(pilot, lambda: app.current_mode == "lab")
        await pilot.press("B", "o")
        await settle(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press("a", "colon", "enter")
        await settle(pilot, lambda: "● distant" in text_of(app))
        panel.list.select(next(key for key, row in panel.rows.items() if row.process and "distant" in row.process.run))
        await pilot.press("enter")
        await settle(pilot, lambda: app.current_mode == "train" and "distant" in str(app.current_run))

        await pilot.press("1")
        await settle(pilot, lambda: app.current_mode == "lab")
        await pilot.press("B")
        await settle(pilot, lambda: app.current_mode == "machines" and panel.check_action("leave", ()))
        await pilot.press("x")
        await settle(pilot, lambda: "H100" not in text_of(app))
        assert "● near" in text_of(app)


async def test_at_80_by_24_the_list_scrolls_under_the_names_of_its_columns(boxes: Boxes, tmp_path: Path) -> None:
    app = app_on(tmp_path / "here", screen="machines", machines=["a", "-b", "b"])
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: "H100" in text_of(app))
        panel = app.screen.query_one(MachinesPanel)
        assert panel.machines is not None
        assert [each and each.host for each in panel.machines.addresses] == [None, "a", "b"]  # -b is no machine
        await settle(pilot, lambda: any(row.machine.name == "b" and row.process is None for row in panel.rows.values()))
        assert all(len(line) <= 80 for line in text_of(app).splitlines())
        assert "slowed by" in text_of(app)
        await settle(pilot, lambda: len([key for key in panel.rows if "card" in key]) == 10)
        await pilot.press("end")
        await settle(pilot, lambda: "GeForce" in text_of(app) or "b  " in text_of(app))
        assert "run or command" in text_of(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
@pytest.mark.parametrize("ascii", [False, True])
async def test_a_machine_without_a_card_fills_the_screen(
    size: tuple[int, int], ascii: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlab.tui.screens.lab.machines.list_machines", lambda: [("gpu9", "from ~/.ssh/config")])
    monkeypatch.setattr(box, "MOST_OTHERS", {False: 0})  # whatever else is busy here: with many lines bars give way
    make_run(tmp_path / "here", "near", status="open")
    app = app_on(tmp_path / "here", screen="machines", ascii=ascii)
    async with app.run_test(size=size) as pilot:
        panel = app.screen.query_one(MachinesPanel)
        await settle(pilot, lambda: "% of " in text_of(app) and "near  step 40" in text_of(app))
        shown = text_of(app)
        first = [line.split()[0] for line in shown.splitlines() if line.split()]
        assert {"cpu", "memory", "space"} <= set(first)
        assert panel.machines is not None
        (newest,) = [past[-1] for past in panel.machines.past.values()]
        assert newest.memory is not None
        assert 0 < newest.memory < 1
        assert "o shows another machine" in shown
        assert "known: gpu9" in shown
        assert ("Python 3.6" in shown) == (size[0] > 80)
        assert "gpu mem" not in shown  # a column that no process here can have
        assert not ascii or shown.isascii()


async def test_eight_cards_are_in_sight_at_80_by_24_and_have_curves_where_there_is_room(
    boxes: Boxes, tmp_path: Path
) -> None:
    app = app_on(tmp_path / "here", screen="machines", machines=["a"])
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: text_of(app).count("H100") == 8)
        panel = app.screen.query_one(MachinesPanel)
        assert not panel.curves.display
        await pilot.resize_terminal(200, 60)
        await settle(pilot, lambda: panel.curves.display)
        panel.list.select("a\0card 0")
        await settle(pilot, lambda: "% of a" in text_of(app) and "% of each card" in text_of(app))
        assert len(panel.curves.cards.series) == 8
        assert [float(each.values[-1]) for each in panel.curves.cards.series] == [
            card["percent"] for card in boxes.cards["a"]
        ]


async def test_the_dialog_says_what_enter_does_with_a_machine_that_is_typed(boxes: Boxes, tmp_path: Path) -> None:
    app = app_on(tmp_path / "here", screen="machines")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "this machine" in text_of(app))
        await pilot.press("o")
        await settle(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press(*"box7", "slash")
        await settle(pilot, lambda: "enter cannot be pressed yet" in text_of(app))
        await pilot.press("backspace")
        await settle(pilot, lambda: "enter shows box7 over ssh" in text_of(app))
        await pilot.press("colon", *"run")
        await settle(pilot, lambda: "enter shows box7 over ssh, and opens run" in text_of(app))


@pytest.mark.parametrize("readings", [0, 1, 2])
async def test_curves_say_what_they_wait_for_until_there_are_two_readings(tmp_path: Path, readings: int) -> None:
    app = app_on(tmp_path, screen="machines")
    async with app.run_test(size=(120, 40)) as pilot:
        curves = app.screen.query_one(MachinesPanel).curves
        await settle(pilot, lambda: curves.display and curves.size.width > 0)
        past = [Shares(float(time), 0.5, 0.25, 0.0, (0.1, 0.2)) for time in range(readings)]
        curves.show("here", past)
        lines = [strip.text for strip in strips_of(app)][curves.region.y : curves.region.bottom]
        assert any("first reading of here" in line for line in lines) == (readings == 0)
        assert any("begin with the second" in line for line in lines) == (readings == 1)
        assert any("100 ┤" in line for line in lines) == (readings == 2)
