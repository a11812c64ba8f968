"""The runs of the Lab as a table: what differs as columns, order, groups, search."""

from __future__ import annotations

from pathlib import Path

import pytest
from picture import text_of
from recorded import app_on, settle
from test_lab import lab

import txlab
from txlab.runs.summary import RunSummary
from txlab.tui.screens.lab.table import RunTable, format_cell
from txlab.tui.widgets.rows import Rows


def three_runs(root: Path) -> None:
    for name, lr, loss in (("wide", 0.1, 2.0), ("deep", 0.2, 1.0), ("wide", 0.3, 3.0)):
        with txlab.record(name, {"train": {"lr": lr}, "same": 1, "who": "[/x]\x1b[31m"}, root) as run:
            run.log(5, loss=loss, accuracy=loss / 4)


@pytest.mark.parametrize(("size", "ascii"), [((120, 40), False), ((80, 24), True)])
async def test_the_table_has_what_differs_and_is_ordered_grouped_and_searched(
    tmp_path: Path, size: tuple[int, int], ascii: bool
) -> None:
    three_runs(tmp_path)
    app = app_on(tmp_path, ascii=ascii)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: lab(app).loaded and len(lab(app).runs.paths) == 3)
        await pilot.press("tab", "v")
        await settle(pilot, lambda: "accuracy" in text_of(app) and "0.750" in text_of(app))
        shown = text_of(app)
        assert "same" not in shown  # it is the same everywhere
        assert "\x1b" not in shown
        rows = lab(app).query_one("#runs", Rows)
        by_time = rows.selectable()
        await pilot.press("b")  # the cursor is on the results
        losses = [lab(app).runs.glances[Path(key)].value for key in rows.selectable()]
        assert losses == [1.0, 2.0, 3.0]  # the least loss is the best
        await pilot.press("b")
        assert [lab(app).runs.glances[Path(key)].value for key in rows.selectable()] == [3.0, 2.0, 1.0]
        await pilot.press("g")
        await settle(pilot, lambda: "by scenario" in text_of(app))
        assert [item.text for item in rows.items if item.key is None] == ["wide   2", "deep   1"]
        await pilot.press("slash", *"lr>0.1", "enter")
        await settle(pilot, lambda: len(rows.selectable()) == 2)
        await pilot.press("v")
        await settle(pilot, lambda: len(rows.selectable()) == 2)  # the list again, under the same filter
        assert lab(app).runs.table is None
        assert "lr>0.1" in text_of(app)
        await pilot.press("escape")
        await settle(pilot, lambda: rows.selectable() == by_time)


async def test_a_run_is_opened_from_the_table(tmp_path: Path) -> None:
    three_runs(tmp_path)
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: lab(app).loaded and len(lab(app).runs.paths) == 3)
        await pilot.press("tab", "v")
        await settle(pilot, lambda: "accuracy" in text_of(app))
        chosen = Path(lab(app).query_one("#runs", Rows).key or "")
        await pilot.press("enter")
        await settle(pilot, lambda: app.current_run == chosen.absolute())


def test_at_every_width_each_cell_shown_is_whole_and_the_cursor_in_view(tmp_path: Path) -> None:
    from txlab.drawing.text import width
    from txlab.runs.summary import RunsUnder

    three_runs(tmp_path)
    under = RunsUnder(tmp_path)
    under.look(set())
    runs = list(under.known.values())
    table = RunTable()
    table.fill(runs, [])
    for cells in range(30, 140):
        for column in table.columns:
            table.column = column
            line = table.line(runs[0], cells, ("x ", "plain"), True)
            header = "".join(text for text, _ in table.header(cells, True))
            assert width("".join(text for text, _ in line)) <= cells
            shown = table.in_view(cells)
            assert column == "name" or column in shown or not shown
            for name in shown:
                assert format_cell(runs[0], name) in "".join(text for text, _ in line)
                assert table.titles[name] in header


def test_useful_columns_are_first_none_twice_and_a_column_has_one_exponent() -> None:
    runs = [
        RunSummary(
            Path(f"r{at}"), f"r{at}", "gpt", status="done", kind="language-model", metric="loss", value=2.0 + at,
            settings={"train.learning_rate": rate},
            values={"loss": 2.0 + at, "val_loss": 3.0, "lr": rate, "memory_mb": 9.0},
        )
        for at, rate in enumerate((2.9e-4, 1e-3, 3e-3))
    ]  # fmt: skip
    table = RunTable()
    table.fill(runs, ())
    assert table.columns == ["name", "metric", "train.learning_rate", "step", "time", "val_loss", "memory_mb"]
    assert [table.format(run, "train.learning_rate") for run in runs] == ["0.29e-3", "1e-3", "3e-3"]
