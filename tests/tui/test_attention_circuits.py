"""The tab `circuits` next to the pattern: the engine's numbers for the selected head, explained row by row."""

from __future__ import annotations

from pathlib import Path

import pytest
from attention_runs import make_run as make_frames
from picture import text_of
from recorded import explained
from test_attention import app_on, opened, until
from test_attention_bench import idle, on_bench, translator_frame

from txlab.engine.interpret import circuits as engine
from txlab.tui.screens.attention.tables import TABS
from txlab.tui.widgets.tabs import TabLine


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_circuits_of_the_chosen_head_are_shown_and_explained(tiny_run: Path, size: tuple[int, int]) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=size) as pilot:
        screen = await on_bench(pilot)
        assert screen.model.live is not None
        model = screen.model.live.opened.model
        screen.side.choose_tab("circuits")
        await until(pilot, lambda: len(screen.side.table.rows) > 3 and idle(screen))
        await pilot.press("j", "l")
        await until(pilot, lambda: screen.side.table.columns[0].title == "of 2.2" and idle(screen))
        await pilot.pause()
        scores = engine.copying_scores(model, "self")
        rows = screen.side.table.rows
        assert rows[0][0] == "copying"
        assert float(rows[0][1].replace("−", "-")) == pytest.approx(float(scores[1, 1]), abs=0.006)
        found = engine.composition(model)
        composed = [row for row in rows if row[0].startswith("K ")]
        best = int(found.key[1, 1, 0].argmax())
        assert [float(row[1]) for row in rows[2:8]] == sorted((float(row[1]) for row in rows[2:8]), reverse=True)
        assert composed[0][0] == f"K 1.{best + 1}"
        assert float(composed[0][1]) == pytest.approx(float(found.key[1, 1, 0, best]), abs=0.006)
        assert float(composed[0][2]) == pytest.approx(found.expected, abs=0.006)
        text = text_of(app)
        for words in ("copying", "matching", "random", "circuits", rows[2][0]):
            assert words in text
        table = screen.query_one("#rows")
        table.focus()
        for row, result in ((0, float(scores[1, 1])), (rows.index(composed[0]), float(found.key[1, 1, 0, best]))):
            table.choose(row)  # type: ignore[attr-defined]
            await pilot.press("w")
            assert (await explained(pilot)).result == pytest.approx(result, rel=1e-6)
            await pilot.press("escape")
            await pilot.pause()


async def test_circuits_are_computed_once_for_a_checkpoint(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    plainly = engine.circuits

    def counted(*given: object, **named: object) -> object:
        asked.append((given[1:], named))
        return plainly(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "circuits", counted)
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        screen.side.choose_tab("circuits")
        await until(pilot, lambda: len(screen.side.table.rows) > 3 and idle(screen))
        before = len(asked)
        assert before == 4
        await pilot.press("x")  # another pass of the same checkpoint
        await until(pilot, lambda: screen.model.live is not None and bool(screen.model.live.edits) and idle(screen))
        await pilot.press("l")
        await until(pilot, lambda: screen.side.table.columns[0].title == "of 1.2" and idle(screen))
        assert len(asked) == before


async def test_every_tab_can_be_seen_and_clicked_where_it_is_narrow(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        line = screen.query_one(TabLine)
        for name in TABS:
            screen.side.choose_tab(name)
            await pilot.pause()
            line.render_line(0)
            assert name in [place[2] for place in line.places]
            assert line.places[-1][1] <= line.size.width
            assert name in text_of(app)
        assert "type a text" in text_of(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_without_scores_rows_and_columns_are_explained(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(make_frames(tmp_path, "translate", [translator_frame()]), tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, 9)
        await until(pilot, lambda: screen.recorded is not None)
        for _ in range(3):
            if screen.patterns.site == "cross":
                break
            await pilot.press("a")
            await pilot.pause()
        assert screen.patterns.site == "cross"
        await pilot.pause()
        text = " ".join(text_of(app).split())
        assert "induction" not in text
        assert "rows" in text
        assert "columns" in text
