"""The chart, the time line, facts and explanations."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from picture import text_of
from recorded import settle
from waiting import LONGEST

from txlab.drawing.spark import bar
from txlab.engine.explain import Explanation, Operand, Step
from txlab.errors import LabError
from txlab.tui.widgets import chart as chart_module
from txlab.tui.widgets.chart import Chart, ChartSeries
from txlab.tui.widgets.facts import Fact, FactTable
from txlab.tui.widgets.timeline import TimeLine
from txlab.tui.widgets.why import WhyPanel, WhyScreen, ask_why

STEPS = np.arange(0, 1000, 10)
LOSS = 5 * np.exp(-STEPS / 300) + 1


def curves() -> list[ChartSeries]:
    return [ChartSeries("train", STEPS, LOSS), ChartSeries("val", STEPS[::10], LOSS[::10] + 0.2, style="dashed")]


async def test_the_cursor_reads_the_values_that_were_logged(host: Callable) -> None:
    chart = Chart()
    app = host(chart)
    async with app.run_test(size=(90, 20)) as pilot:
        chart.set_series(curves(), "nats")
        chart.cursor = 257
        await pilot.pause()
        top = text_of(app).splitlines()[0]
        assert "nats" in top
        assert "step 257" in top
        assert f"train {LOSS[25]:.3f}" in top  # logged at 250
        assert f"val {LOSS[20] + 0.2:.3f}" in top  # logged at 200
        assert app.heard[-1].step == 257
        await pilot.press("escape")
        await pilot.pause()
        assert "step 257" not in text_of(app)


async def test_keys_and_mouse_zoom_and_never_leave_the_curve(host: Callable) -> None:
    chart = Chart()
    app = host(chart)
    async with app.run_test(size=(90, 20)) as pilot:
        chart.set_series(curves())
        chart.focus()
        await pilot.pause()
        await pilot.press("z", "z")
        assert chart.zoomed is not None
        left, right = chart.zoomed
        assert right - left == pytest.approx(990 / 4, rel=0.01)
        for _ in range(9):
            await pilot.press("greater_than_sign")
        assert chart.zoomed[1] == pytest.approx(990)
        for _ in range(13):
            await pilot.press("less_than_sign")
        assert chart.zoomed == pytest.approx((0, right - left))  # as wide as before
        for _ in range(30):
            await pilot.press("z")
        assert chart.zoomed[1] - chart.zoomed[0] >= 2
        for _ in range(12):
            await pilot.press("Z")
        assert chart.zoomed is None
        await pilot.mouse_down(Chart, offset=(20, 5))
        await pilot.hover(Chart, offset=(50, 5))
        await pilot.mouse_up(Chart, offset=(50, 5))
        assert chart.zoomed is not None
        assert 150 < chart.zoomed[0] < 300
        await pilot.press("escape")
        await pilot.click(Chart, offset=(45, 6))
        assert chart.cursor is not None
        assert 400 < chart.cursor < 600


async def test_a_long_series_is_drawn_off_the_event_loop(host: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    chart = Chart()
    app = host(chart)
    where: list[str] = []
    plainly = chart_module.curve.draw

    def draw(*given: object, **named: object) -> object:
        where.append(threading.current_thread().name)
        return plainly(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(chart_module.curve, "draw", draw)
    async with app.run_test(size=(90, 20)) as pilot:
        chart.set_series(curves())
        await pilot.pause()
        assert set(where) == {threading.main_thread().name}
        where.clear()
        steps = np.arange(200_000)
        chart.set_series([ChartSeries("train", steps, np.sin(steps / 9000) + 3)])
        await settle(pilot, lambda: chart.chart is not None and chart.chart.window.right > 100_000)
        assert chart.chart is not None
        assert chart.chart.window.right == 199_999
        assert where
        assert threading.main_thread().name not in where
        assert "train" in text_of(app)


async def test_an_empty_chart_says_what_it_waits_for(host: Callable) -> None:
    chart = Chart(waiting="the first number comes with step 10")
    app = host(chart)
    async with app.run_test(size=(60, 10)) as pilot:
        await pilot.pause()
        assert "the first number comes with step 10" in text_of(app)
        chart.set_series([ChartSeries("train", np.array([1]), np.array([np.nan]))], waiting="only NaN so far")
        await pilot.pause()
        assert "only NaN so far" in text_of(app)
        chart.set_series([ChartSeries("train", np.array([1]), np.array([2.0]))])
        await pilot.pause()
        assert "train" in text_of(app)


async def test_curves_are_distinguished_without_colours(host: Callable) -> None:
    chart = Chart()
    app = host(chart, colours="none")
    async with app.run_test(size=(70, 16)) as pilot:
        chart.set_series([ChartSeries("train", STEPS, LOSS), ChartSeries("other", STEPS, LOSS + 2)])
        await pilot.pause()
        top, *rest = text_of(app).splitlines()
        assert "── train" in top
        assert "++ other" in top
        body = "\n".join(rest)
        assert "+" in body
        assert any(0x2800 < ord(character) <= 0x28FF for character in body)


async def test_the_time_line_moves_through_ten_thousand_frames(host: Callable) -> None:
    line = TimeLine()
    app = host(line)
    steps = np.arange(0, 100_000, 10)
    async with app.run_test(size=(100, 3)) as pilot:
        line.set_frames(steps, 200_000, 99_995)
        assert line.live
        assert line.step == 99_990
        for method, step, live in [
            (line.later, 99_990, True),  # nothing is later than the live edge
            (line.earlier, 99_980, False),
            (line.later, 99_990, False),
            (line.later, 99_990, True),
            (line.first, 0, False),
            (line.earlier, 0, False),
            (line.later, 10, False),
            (lambda: line.go(43_217), 43_220, False),
            (line.last, 99_990, True),
        ]:
            method()
            assert (line.step, line.live) == (step, live)
        await pilot.pause()
        said = [(message.step, message.live) for message in app.heard]
        assert said == [
            (99_980, False), (99_990, False), (99_990, True), (0, False), (10, False), (43_220, False), (99_990, True)
        ]  # fmt: skip
        assert "live" in text_of(app)


async def test_the_time_line_follows_the_mouse_and_the_run(host: Callable) -> None:
    line = TimeLine()
    app = host(line)
    async with app.run_test(size=(100, 3)) as pilot:
        line.set_frames(np.arange(0, 1001, 100), 1000, 1000)
        await pilot.pause()
        cells = line.bar_width()
        await pilot.click(TimeLine, offset=(1 + round(0.42 * (cells - 1)), 0))
        assert line.step == 400
        assert "frame 5 of 11" in text_of(app)
        line.set_frames(np.arange(0, 1101, 100), 2000, 1100)  # the run continues: the view stays where it is
        assert line.step == 400
        line.set_frames(np.arange(0, 301, 100), 2000, 300)  # and was rewound: the frame before it is shown
        assert (line.step, line.live) == (300, False)
        line.last()
        line.set_frames(np.arange(0, 501, 100), 2000, 500)
        assert (line.step, line.live) == (500, True)
        line.set_frames(np.empty(0, np.int64), 2000, 500)
        line.earlier()
        line.first()
        line.go(7)
        await pilot.pause()
        assert line.step is None
        assert "no frames recorded" in text_of(app)


async def test_values_of_facts_end_in_one_column(host: Callable) -> None:
    table = FactTable()
    app = host(table)
    async with app.run_test(size=(50, 6)) as pilot:
        table.set_facts([Fact("loss", "2.113", "nats"), Fact("tokens/s", "54 300"), Fact("lr", "2.9e-4", "cosine")])
        await pilot.pause()
        lines = text_of(app).splitlines()
        assert (
            len({lines[row].index(value) + len(value) for row, value in enumerate(["2.113", "54 300", "2.9e-4"])}) == 1
        )
        table.focus()
        await pilot.press("down", "down", "down", "up")
        assert table.chosen is not None
        assert table.chosen.name == "tokens/s"
        assert [message.fact.name for message in app.heard] == ["tokens/s", "lr", "tokens/s"]
        table.set_facts([])
        await pilot.pause()
        assert table.chosen is None


async def test_a_note_of_which_nothing_would_be_seen_is_left_out(host: Callable) -> None:
    table = FactTable()
    app = host(table)
    async with app.run_test(size=(27, 4)) as pilot:  # five cells are left for the notes
        table.set_facts([Fact("advantage", "−0.012", "of a token"), Fact("ratio", "0.99", "π/ρ")])
        await pilot.pause()
        first, second, *_ = text_of(app).splitlines()
        assert first.rstrip().endswith("−0.012")
        assert second.rstrip().endswith("π/ρ")


@pytest.mark.parametrize(("value", "cells", "drawn"), [(0, 4, ""), (1, 4, "████"), (2, 4, "████"), (0.25, 2, "▌")])
def test_a_bar_is_as_long_as_its_share(value: float, cells: int, drawn: str) -> None:
    assert bar(value, cells) == drawn


ANSWER = Explanation(
    "why .62?", "α = exp(s) / Σ exp(s)", "T1", "Vaswani et al. 2017, eq. 1",
    [Operand("s", [0.1, 1.7], "scores")], [Step("α", "exp(s) / Σ", [0.38, 0.62])], ["[/x]", "\x1b[31m"], asked=1,
)  # fmt: skip


async def shown(host: Callable, ask: Callable[[], Explanation | None], words: str, ascii: bool = False) -> str:
    app = host(ascii=ascii)
    async with app.run_test(size=(90, 30)) as pilot:
        ask_why(app, ask)
        await settle(pilot, lambda: words in text_of(app))
        text = text_of(app)
        await pilot.press("down", "pagedown", "home")
        await pilot.press("w")
        await pilot.pause()
        assert not isinstance(app.screen, WhyScreen)
    return text


async def test_why_shows_the_answer_and_closes(host: Callable) -> None:
    text = await shown(host, lambda: ANSWER, "result")
    for words in ("why .62?", "α = exp(s) / Σ exp(s)", "MATH T1", "goes in", "▸", "0.62", "[/x]"):
        assert words in text
    assert "\x1b" not in text


async def test_why_reports_a_mistake(host: Callable) -> None:
    def wrong() -> Explanation:
        raise LabError("this frame was recorded without [/x] queries")

    def broken() -> Explanation:
        raise ValueError("[bold]unexpected")

    assert "this frame was recorded without [/x] queries" in await shown(host, wrong, "without [/x]")
    assert "ValueError: [bold]unexpected" in await shown(host, broken, "unexpected")
    assert "Nothing is known" in await shown(host, lambda: None, "Nothing is known")


async def test_why_speaks_ascii(host: Callable) -> None:
    text = await shown(host, lambda: ANSWER, "result", ascii=True)
    assert text.isascii()
    assert "alpha = exp(s) / sum exp(s)" in text


async def test_the_event_loop_does_not_wait_for_the_engine(host: Callable) -> None:
    answer = threading.Event()

    def slow() -> Explanation:
        assert answer.wait(LONGEST)
        return ANSWER

    app = host()
    async with app.run_test(size=(90, 30)) as pilot:
        ask_why(app, slow)
        await pilot.pause(0.05)
        assert "loading" in text_of(app)
        answer.set()
        await settle(pilot, lambda: app.screen.query_one(WhyPanel).explanation is ANSWER)
        assert "MATH T1" in text_of(app)


async def test_every_curve_is_named_before_the_smoothing_is(host: Callable) -> None:
    chart = Chart()
    async with host(chart).run_test(size=(40, 10)):
        chart.set_series(curves(), "nats, smoothed over 20 steps")
        shown = text_of(chart.app)
        assert "train" in shown
        assert "val" in shown
        assert "nats" in shown


@pytest.mark.parametrize("ascii", [False, True])
async def test_more_facts_than_lines_stand_side_by_side(host: Callable, ascii: bool) -> None:
    table = FactTable()
    table.styles.height, table.can_focus = 4, False
    app = host(table, ascii=ascii)
    async with app.run_test(size=(60, 4)) as pilot:
        table.set_facts([Fact(f"fact {number}", str(number)) for number in range(7)])
        await pilot.pause()
        lines = text_of(app).splitlines()
        assert [line.split() for line in lines][:4] == [
            ["fact", str(row), str(row), *(["fact", str(row + 4), str(row + 4)] if row < 3 else [])] for row in range(4)
        ]
        await pilot.click(table, offset=(table.size.width // 2 + 2, 1))
        assert table.chosen == Fact("fact 5", "5")
        table.set_facts([Fact(f"fact {number}", "1" * 30) for number in range(7)])  # values are not cut for it
        await pilot.pause()
        assert text_of(app).splitlines()[0].split() == ["fact", "0", "1" * 30]
