"""Heatmap and thumbnails: they draw the given values, the cursor is always visible, little is redrawn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from picture import text_of
from textual.geometry import Size

from txlab.tui.widgets.heatmap import Heatmap
from txlab.tui.widgets.matrix import layout_of
from txlab.tui.widgets.thumbnails import Thumbnails, max_pool

LABELS = [f" w{i}" for i in range(40)]


def causal(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    scores = np.random.default_rng(seed).normal(size=(count, count)) * 2
    mask = np.triu(np.ones((count, count), dtype=bool), 1)
    weights = np.exp(np.where(mask, -np.inf, scores))
    return weights / weights.sum(axis=1, keepdims=True), mask


async def test_the_weight_under_the_cursor_is_the_one_that_was_given(host: Callable) -> None:
    heatmap = Heatmap()
    app = host(heatmap)
    values, mask = causal(10)
    async with app.run_test(size=(80, 24)) as pilot:
        heatmap.set_values(values, LABELS[:10], LABELS[:10], mask)
        heatmap.focus()
        await pilot.press("down", "down", "down", "right")
        await pilot.pause()
        assert heatmap.cursor == (3, 1)
        assert heatmap.weight == pytest.approx(values[3, 1], rel=1e-6)
        assert [(m.row, m.column) for m in app.heard] == [(1, 0), (2, 0), (3, 0), (3, 1)]
        row = next(line for line in text_of(app).splitlines() if line.startswith("▸"))
        assert "·w3" in row
        assert f"[{round(values[3, 1] * 100):>2}]" in row or f"← {f'{values[3, 1]:.2f}'[1:]}" in row
        await pilot.press("end")
        assert heatmap.cursor == (3, 9)
        assert np.isnan(heatmap.weight)  # the mask
        await pilot.pause()
        assert "0" not in next(line for line in text_of(app).splitlines() if line.startswith("▸"))[8 + 4 * 4 :]


async def test_masked_cells_are_blank_and_zero_is_not(host: Callable) -> None:
    heatmap = Heatmap()
    app = host(heatmap, colours="none")
    async with app.run_test(size=(40, 12)) as pilot:
        heatmap.set_values(np.eye(3), ["a", "b", "c"], ["a", "b", "c"], np.triu(np.ones((3, 3), bool), 1))
        await pilot.pause()
        wide = heatmap.plan().wide
        left, middle = heatmap.plan().left, heatmap.plan().middle
        line = text_of(app).splitlines()[heatmap.plan().header + heatmap.plan().tall + middle]  # row b
        cells = [line.ljust(60)[left + i * wide : left + (i + 1) * wide] for i in range(3)]
        assert cells[0].strip() == "·"
        assert cells[1] == "█" * wide
        assert not cells[2].strip()


@pytest.mark.parametrize("size", [(20, 6), (30, 10), (50, 14), (80, 24)])
async def test_the_cursor_is_seen_wherever_it_goes(host: Callable, size: tuple[int, int]) -> None:
    heatmap = Heatmap()
    app = host(heatmap)
    values, mask = causal(40)
    async with app.run_test(size=size) as pilot:
        heatmap.set_values(values, LABELS, LABELS, mask)
        await pilot.pause()
        for cursor in ((39, 39), (0, 39), (39, 0), (20, 20), (0, 0)):
            heatmap.move_to(*cursor)
            await pilot.pause()
            assert any(line.startswith("▸") and "[" in line for line in text_of(app).splitlines())
        x, y = heatmap.plan().left + 1, heatmap.plan().header + 1
        await pilot.click(Heatmap, offset=(x, y))
        assert heatmap.cursor == heatmap.plan().at(x, y, heatmap.origin)


async def test_a_size_that_came_and_went_between_two_paints_leaves_nothing_behind(
    host: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    heatmap = Heatmap()
    app = host(heatmap)
    values, mask = causal(12)
    async with app.run_test(size=(60, 20)) as pilot:
        heatmap.set_values(values, LABELS[:12], LABELS[:12], mask)
        heatmap.move_to(11, 11)
        await pilot.pause()
        large = heatmap.size
        with monkeypatch.context() as patch:
            patch.setattr(Heatmap, "size", Size(20, 4))
            heatmap.move_to(10, 10)  # the visible part follows the cursor, and no line is drawn
        assert heatmap.size == large
        drawn = [heatmap.render_line(y).text for y in range(large.height)]
        assert all(any(f"·w{row} " in line[:8] for line in drawn) for row in range(12))


async def test_only_rows_that_differ_are_drawn_again(host: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    heatmap = Heatmap()
    app = host(heatmap)
    values, mask = causal(12)
    drawn: list[int] = []
    plainly = Heatmap.draw_row
    monkeypatch.setattr(Heatmap, "draw_row", lambda self, row, *rest: (drawn.append(row), plainly(self, row, *rest))[1])
    async with app.run_test(size=(60, 20)) as pilot:
        heatmap.set_values(values, LABELS[:12], LABELS[:12], mask)
        await pilot.pause()
        assert set(drawn) == set(range(12))
        drawn.clear()
        heatmap.set_values(values.copy(), LABELS[:12], LABELS[:12], mask)
        await pilot.pause()
        assert not drawn
        other = values.copy()
        other[7, 2] = 1.0 - other[7, 2]
        heatmap.set_values(other, LABELS[:12], LABELS[:12], mask)
        await pilot.pause()
        assert set(drawn) == {7}
        drawn.clear()
        heatmap.move_to(4, 1)
        await pilot.pause()
        assert set(drawn) == {0, 4}


async def test_numbers_are_hundredths(host: Callable) -> None:
    heatmap = Heatmap()
    app = host(heatmap)
    async with app.run_test(size=(60, 20)) as pilot:
        heatmap.set_values(np.array([[0.62, 0.381], [0.001, 1.0]]), ["a", "b"], ["x", "y"])
        heatmap.numbers = True
        heatmap.move_to(1, 1)
        await pilot.pause()
        text = text_of(app)
        assert "62" in text
        assert "38" in text
        assert "100" in text
        assert "·" in text


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 300), st.integers(1, 300), st.data())
def test_a_plan_fits_its_room_and_finds_its_cells(
    row_label: int, column_label: int, width: int, height: int, data: st.DataObject
) -> None:
    rows, columns = data.draw(st.integers(1, 80)), data.draw(st.integers(1, 80))
    shape = layout_of(row_label, column_label, rows, columns, width, height)
    assert 1 <= shape.rows <= rows
    assert 1 <= shape.columns <= columns
    if width >= 12 and height >= 4:
        assert shape.left + shape.columns * shape.wide + shape.trailer <= width
        assert shape.header + shape.rows * shape.tall <= height
    cursor = (data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1)))
    top, left = shape.follow((data.draw(st.integers(0, 80)), data.draw(st.integers(0, 80))), cursor)
    assert top <= cursor[0] < top + shape.rows
    assert left <= cursor[1] < left + shape.columns
    x = shape.left + (cursor[1] - left) * shape.wide + shape.wide - 1
    y = shape.header + (cursor[0] - top) * shape.tall + shape.tall - 1
    assert shape.at(x, y, (top, left)) == cursor
    assert shape.at(0, y, (top, left)) is None


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 5))
def test_pooling_keeps_every_maximum(count: int, size: int, seed: int) -> None:
    pattern = np.random.default_rng(seed).random((2, count, count))
    small = max_pool(pattern, size, size)
    assert small.shape == (2, size, size)
    if count >= size:
        edges = [count * i // size for i in range(size + 1)]
        for i in range(size):
            for j in range(size):
                block = pattern[:, edges[i] : edges[i + 1], edges[j] : edges[j + 1]]
                assert np.array_equal(small[:, i, j], block.max(axis=(1, 2)))


async def test_heads_are_chosen_by_keys_and_mouse(host: Callable) -> None:
    heads = Thumbnails()
    app = host(heads)
    async with app.run_test(size=(60, 20)) as pilot:
        heads.set_patterns(np.random.default_rng(0).random((3, 4, 9, 9)), [["p.85"] * 4] * 3)
        heads.focus()
        await pilot.pause()
        await pilot.press("down", "right", "right", "right", "right")
        assert heads.chosen == (1, 3)
        heads.next_head(1)
        assert heads.chosen == (2, 0)
        heads.next_head(4)
        assert heads.chosen == (0, 0)
        tall = heads.tall()
        await pilot.click(Thumbnails, offset=(4 + 2 * (2 * tall + 1) + 1, 1 + heads.pitch(tall) + heads.gutter.top))
        await pilot.pause()
        assert heads.chosen == (1, 2)
        assert [(m.layer, m.head) for m in app.heard][-1] == (1, 2)
        text = text_of(app)
        assert "p.85" in text
        assert "▐" in text


@pytest.mark.parametrize(("size", "lines"), [((120, 40), 3), ((200, 60), 6)])
async def test_thumbnails_are_as_large_as_the_room_next_to_the_pattern_allows(
    host: Callable, size: tuple[int, int], lines: int
) -> None:
    heads = Thumbnails()
    async with host(heads).run_test(size=size) as pilot:
        heads.set_patterns(np.random.default_rng(0).random((4, 4, 16, 16)))
        await pilot.pause()
        room = Size(*size)
        assert heads.get_content_width(room, room) == 4 + 4 * (2 * lines + 1) <= size[0] * 3 // 10


async def test_the_chosen_head_is_seen_even_where_few_fit(host: Callable) -> None:
    heads = Thumbnails()
    app = host(heads)
    async with app.run_test(size=(24, 9)) as pilot:
        heads.set_patterns(np.random.default_rng(0).random((24, 24, 8, 8)))
        await pilot.pause()
        heads.choose(23, 23)
        await pilot.pause()
        text = text_of(app)
        assert "24" in text.splitlines()[0]
        assert "▐" in text
        assert "▌" in text


async def test_only_lines_of_thumbnails_that_differ_are_drawn_again(
    host: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = Thumbnails()
    app = host(heads)
    patterns = np.random.default_rng(0).random((4, 4, 8, 8)) * 0.5
    drawn: list[int] = []
    plainly = Thumbnails.draw_line
    monkeypatch.setattr(Thumbnails, "draw_line", lambda self, y: (drawn.append(y), plainly(self, y))[1])
    async with app.run_test(size=(60, 24)) as pilot:
        heads.set_patterns(patterns)
        await pilot.pause()
        await pilot.pause()
        drawn.clear()
        heads.set_patterns(patterns.copy())
        await pilot.pause()
        assert not drawn
        other = patterns.copy()
        other[2, 1, 0, 0] = 1.0
        heads.set_patterns(other)
        await pilot.pause()
        assert drawn == [1 + 2 * heads.pitch(heads.tall())]


@pytest.mark.parametrize("size", [(50, 20), (120, 40)])
async def test_a_window_into_a_large_matrix_is_asked_for_before_its_edge_is_seen(
    host: Callable, size: tuple[int, int]
) -> None:
    tokens = 1024
    names = tuple(f"t{place}" for place in range(tokens))
    whole = np.random.default_rng(1).random((tokens, tokens)).astype(np.float32)
    heatmap = Heatmap()
    asked: list[int] = []

    def give(rows: tuple[int, int], columns: tuple[int, int]) -> None:
        asked.append((rows[1] - rows[0]) * (columns[1] - columns[0]))
        heatmap.set_values(whole[slice(*rows), slice(*columns)], names, names, at=(rows[0], columns[0]))

    class Giving(host):  # type: ignore[misc, valid-type]
        def on_heatmap_wanted(self, event: Heatmap.Wanted) -> None:
            give(event.rows, event.columns)

    app = Giving(heatmap)
    async with app.run_test(size=size) as pilot:
        heatmap.expect(names, names)
        assert np.isnan(heatmap.weight)
        assert "…" in heatmap.draw_row(0, heatmap.plan().middle, heatmap.plan())[-1].text
        give(*heatmap.wanted)
        await pilot.pause()
        for down, right in [(1, 0)] * 40 + [(8, 8)] * 12 + [(-300, 500), (900, -9999), (0, 9999), (-9999, 0)]:
            heatmap.action_move(down, right)
            await pilot.pause()
            row, column = heatmap.cursor
            assert heatmap.weight == whole[row, column]
            shape, (top, left) = heatmap.plan(), heatmap.origin
            assert heatmap.window.holds((top, top + shape.rows), (left, left + shape.columns))
        seen = shape.rows * shape.columns
        assert max(asked) <= 9 * max(seen, 33 * 33)
        assert len(asked) < 20  # not at every step


async def test_differences_are_read_by_their_sign(host: Callable) -> None:
    heatmap = Heatmap()
    app = host(heatmap)
    async with app.run_test(size=(60, 20)) as pilot:
        heatmap.set_values(np.array([[0.5, -0.5], [0.0, np.nan]]), ["a", "b"], ["x", "y"], signed=True)
        heatmap.move_to(1, 1)
        await pilot.pause()
        line = next(line for line in text_of(app).splitlines() if line.lstrip().startswith("a "))
        assert "+" in line
        assert "-" in line.split("+")[1]
        assert heatmap.window.value(0, 1) == -0.5
        heatmap.set_values(np.eye(2), ["a", "b"], ["x", "y"], marks={(0, 1): "×"})
        await pilot.pause()
        assert "×" in text_of(app)
