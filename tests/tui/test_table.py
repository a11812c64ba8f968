"""A table of text: its heading is there only where a row is seen below it."""

from __future__ import annotations

import pytest
from picture import text_of
from textual.app import App, ComposeResult

from txlab.tui.widgets.table import Column, Table


class OneTable(App[None]):
    def __init__(self, lines: int, rows: list[tuple[str, str]]) -> None:
        super().__init__()
        self.lines, self.rows = lines, rows

    def compose(self) -> ComposeResult:
        table = Table(waiting="nothing yet")
        table.styles.height = self.lines
        yield table

    def on_mount(self) -> None:
        self.query_one(Table).set_table([Column("head", right=False), Column("mean")], self.rows)


@pytest.mark.parametrize("lines", [1, 2, 3])
async def test_a_heading_is_never_without_a_row(lines: int) -> None:
    app = OneTable(lines, [("1.1", ".14"), ("1.2", ".11"), ("1.3", ".08")])
    async with app.run_test(size=(30, 6)) as pilot:
        await pilot.pause()
        table = app.query_one(Table)
        shown = text_of(app).splitlines()[:lines]
        assert ("head" in shown[0]) == (lines > 1)
        assert "1.1" in shown[lines > 1]
        await pilot.click(Table, offset=(2, lines - 1))
        assert table.cursor == max(0, lines - 2)
        await pilot.press("end")
        assert table.cursor == 2
        assert "1.3" in text_of(app).splitlines()[lines - 1]


async def test_without_rows_it_says_what_it_waits_for() -> None:
    app = OneTable(4, [])
    async with app.run_test(size=(30, 6)) as pilot:
        await pilot.pause()
        assert text_of(app).split() == ["nothing", "yet"]
