"""Curves as characters: nothing that mattered is lost by thinning, and what is drawn is where it belongs."""

import math
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from txlab.drawing.axis import Window, number, ticks
from txlab.drawing.curve import Curve, braille, draw, trace, window_of, without_the_beginning
from txlab.drawing.plot import text_chart
from txlab.drawing.text import width
from txlab.drawing.thinning import decimate, smooth

VALUES = st.floats(allow_nan=True, allow_infinity=True) | st.floats(-10, 10)
CURVES = st.lists(st.tuples(st.integers(0, 5000), VALUES), max_size=400).map(
    lambda found: sorted(found, key=lambda p: p[0])
)


def columns_of(curve: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([s for s, _ in curve], np.int64), np.array([v for _, v in curve], np.float64)


class TestThinning:
    @given(CURVES, st.integers(1, 60), st.booleans())
    @settings(max_examples=150, deadline=None)
    def test_it_keeps_the_extremes_of_every_column_and_only_points_that_were_there(
        self, curve: list[tuple[int, float]], columns: int, log: bool
    ) -> None:
        steps, values = columns_of([(s + 1, v) for s, v in curve] if log else curve)
        xs, ys = decimate(steps, values, columns, log_x=log)
        assert len(xs) <= 2 * columns or len(xs) == 0
        finite = values[np.isfinite(values)]
        if len(finite):
            assert np.nanmin(ys) == finite.min()
            assert np.nanmax(ys) == finite.max()
        else:
            assert not np.isfinite(ys).any()
        assert (np.diff(xs) >= 0).all()
        there = set(zip(steps.tolist(), values.tolist(), strict=True))
        assert all((x, y) in there for x, y in zip(xs.tolist(), ys.tolist(), strict=True) if math.isfinite(y))

    @given(CURVES, st.integers(1, 30))
    @settings(max_examples=100, deadline=None)
    def test_each_column_by_an_independent_loop(self, curve: list[tuple[int, float]], columns: int) -> None:
        steps, values = columns_of(curve)
        xs, ys = decimate(steps, values, columns)
        if len(steps) <= 2 * columns:
            return
        first, last = int(steps[0]), int(steps[-1])
        edges = [first * (1 - k / columns) + last * (k / columns) for k in range(columns + 1)]
        for column in range(columns):
            low, high = edges[column], math.inf if column == columns - 1 else edges[column + 1]
            inside = [v for s, v in curve if low <= s < high and math.isfinite(v)]
            kept = [y for x, y in zip(xs, ys, strict=True) if low <= x < high and math.isfinite(y)]
            assert (not inside and not kept) or (min(inside), max(inside)) == (min(kept), max(kept))

    def test_a_gap_as_wide_as_a_column_stays_a_gap(self) -> None:
        values = np.ones(1000)
        values[400:500] = np.nan
        values[700:800] = np.inf
        xs, ys = decimate(np.arange(1000), values, 20)
        assert {int(x) // 100 for x, y in zip(xs, ys, strict=True) if np.isnan(y)} == {4, 7}

    def test_a_window_takes_only_what_is_in_it(self) -> None:
        xs, _ = decimate(np.arange(10_000), np.arange(10_000.0), 10, left=100, right=300)
        assert (xs[0], xs[-1]) == (100, 300)


class TestSmoothing:
    @given(
        st.lists(st.integers(1, 50), min_size=1, max_size=80),
        st.data(),
        st.floats(0.05, 500),
    )
    @settings(max_examples=100, deadline=None)
    def test_it_is_the_weighted_average_that_it_says(self, gaps: list[int], data: st.DataObject, span: float) -> None:
        steps = np.cumsum(gaps)
        values = data.draw(arrays(np.float64, len(steps), elements=st.floats(-100, 100) | st.just(math.nan)))
        found = smooth(steps, values, span)
        for i, here in enumerate(steps):
            if math.isnan(values[i]):
                assert math.isnan(found[i])
                continue
            pairs = [
                (math.exp(-(here - t) / span), v)
                for t, v in zip(steps[: i + 1], values[: i + 1], strict=True)
                if v == v
            ]
            expected = math.fsum(w * v for w, v in pairs) / math.fsum(w for w, _ in pairs)
            assert found[i] == pytest.approx(expected, rel=1e-9, abs=1e-9)

    @pytest.mark.parametrize("span", [0.5, 3.0, 20.0, 1e6])
    def test_at_every_step_it_is_adams_bias_corrected_average(self, span: float) -> None:
        values = np.random.default_rng(0).normal(size=5000)
        beta = math.exp(-1 / span)
        total, weight, expected = 0.0, 0.0, []  # average / (1 − βⁿ), both multiplied by 1 / (1 − β)
        for value in values:
            total, weight = beta * total + value, beta * weight + 1
            expected.append(total / weight)
        np.testing.assert_allclose(smooth(np.arange(5000), values, span), expected, rtol=1e-9, atol=1e-12)

    def test_a_constant_stays_a_constant_and_no_span_changes_nothing(self) -> None:
        steps = np.array([1, 2, 50, 51, 100_000])
        np.testing.assert_allclose(smooth(steps, np.full(5, 3.0), 7.0), 3.0)
        assert smooth(steps, np.arange(5.0), 0).tolist() == [0, 1, 2, 3, 4]
        assert len(smooth(np.array([]), np.array([]), 5)) == 0


class TestAxes:
    @given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 12))
    @settings(max_examples=60, deadline=None)
    def test_linear_ticks_are_nice_inside_and_few(self, low: float, size: float, count: int) -> None:
        high = low + size
        if not low < high:
            return
        found = ticks(low, high, count)
        assert len(found) <= count + 1
        assert all(low <= tick.value <= high and -1e-6 <= tick.place <= 1 + 1e-6 for tick in found)
        gaps = np.diff([tick.value for tick in found])
        if len(gaps) and size > 1e-9 * abs(low):
            step = float(f"{gaps[0]:.4g}")  # two ticks at 1e9 differ by 0.1 to seven digits
            assert f"{step:e}"[0] in "125"
            assert len({tick.label for tick in found}) == len(found)

    def test_labels_are_plain_numbers(self) -> None:
        assert [t.label for t in ticks(0, 2_000_000, 4)] == [
            "0",
            *(f"{n:,}".replace(",", "\u2009") for n in range(500_000, 2_000_001, 500_000)),
        ]
        assert [t.label for t in ticks(-0.002, 0.002, 4)] == ["−0.002", "−0.001", "0.000", "0.001", "0.002"]
        assert [t.label for t in ticks(0, 4000, 4, ascii=True)] == ["0", "1 000", "2 000", "3 000", "4 000"]
        assert [t.label for t in ticks(1e-6, 1e-3, 4, log=True)] == ["1e-6", "1e-5", "0.0001", "0.001"]
        assert [t.label for t in ticks(1, 9, 6, log=True)] == ["1", "2", "5"]
        assert [t.label for t in ticks(2.0, 2.5, 5, log=True)] == ["2.0", "2.1", "2.2", "2.3", "2.4", "2.5"]
        assert ticks(1, 1, 4) == ticks(math.nan, 1, 4) == ticks(0, math.inf, 4) == []

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0.0, "0"),
            (2.11349, "2.113"),
            (1e15, "1.000e15"),
            (3e-5, "3.000e-5"),
            (math.nan, "NaN"),
            (math.inf, "∞"),
        ],
    )
    def test_numbers(self, value: float, text: str) -> None:
        assert number(value) == text

    def test_zooming_keeps_the_place_under_the_cursor(self) -> None:
        for log in (False, True):
            window = Window(1, 1000, 0, 1, log_x=log)
            near = window.zoom(0.1, centre=0.3)
            assert near.x_at(0.3) == pytest.approx(window.x_at(0.3))
            assert near.zoom(10, centre=0.3).left == pytest.approx(1)
        assert Window(0, 10, 0, 1).move(0.5) == Window(5, 15, 0, 1)

    def test_the_widest_numbers_do_not_overflow(self) -> None:
        window = Window(0, 1, -1.7e308, 1.7e308)
        assert window.up([-1.7e308, 0, 1.7e308]).tolist() == [0, 0.5, 1]
        assert draw([Curve("x", np.arange(3), np.array([-1.7e308, 0, 1.7e308]))], 20, 5) is not None


def dots_set(characters: np.ndarray) -> int:
    return sum(bin(ord(character) - 0x2800).count("1") for character in characters.ravel() if character != " ")


class TestDrawing:
    @given(arrays(np.bool_, (8, 6)))
    @settings(max_examples=50, deadline=None)
    def test_braille_has_every_dot_by_its_unicode_name(self, grid: np.ndarray) -> None:
        characters = braille(grid)
        places = {1: (0, 0), 2: (1, 0), 3: (2, 0), 4: (0, 1), 5: (1, 1), 6: (2, 1), 7: (3, 0), 8: (3, 1)}
        for row in range(2):
            for column in range(3):
                name = "BRAILLE PATTERN DOTS-" + "".join(
                    str(dot) for dot, (y, x) in places.items() if grid[row * 4 + y, column * 2 + x]
                )
                assert characters[row, column] == (" " if name.endswith("-") else unicodedata.lookup(name))

    def test_a_straight_line_is_a_diagonal_and_a_gap_is_open(self) -> None:
        grid = trace(np.array([0.0, 9.0]), np.array([0.0, 9.0]), 10, 10, "line")
        assert np.array_equal(grid, np.eye(10, dtype=bool))
        gapped = trace(np.array([0.0, 4, 5, 9]), np.array([0.0, 4, np.nan, 9]), 10, 10, "line")
        assert [bool(gapped[i, i]) for i in range(10)] == [True] * 5 + [False] * 4 + [True]
        points = trace(np.array([0.0, 9.0]), np.array([0.0, 9.0]), 10, 10, "points")
        assert points.sum() == 2
        dashed = trace(np.array([0.0, 9.0]), np.array([0.0, 0.0]), 10, 10, "dashed")
        assert 2 < dashed.sum() < 10

    @pytest.mark.parametrize(("down", "across"), [(1.0, 1.0), (-1.0, 1.0), (-1.0, 0.2), (0.3, 1.0), (1.0, 0.0)])
    def test_a_dashed_line_is_broken_evenly_in_every_direction(self, down: float, across: float) -> None:
        """A curve that falls by a dot for each to the right was either whole or absent."""
        far = np.array([0.0, 59.0])
        grid = trace(far * across, far * down + (59 if down < 0 else 0), 60, 60, "dashed")
        longer = grid.any(0) if abs(across) >= abs(down) else grid.any(1)
        runs = "".join("x" if each else " " for each in longer[:60].tolist()).split()
        assert all(1 <= len(run) <= 4 for run in runs)
        assert len(runs) >= 9

    def test_one_spike_among_a_hundred_thousand_points_is_seen_where_it_is(self) -> None:
        values = np.zeros(100_000)
        values[70_123] = 1.0
        chart = draw([Curve("loss", np.arange(100_000), values)], 100, 25)
        assert chart is not None
        top = [column for column in range(100) if chart.characters[0, column] != " "]
        assert top == [chart.column_of(70_123)] == [70]
        assert chart.row_of(1.0) == 0
        assert abs(chart.step_at(70) - 70_500) < 1

    def test_cells_belong_to_the_topmost_curve(self) -> None:
        steps = np.arange(50)
        chart = draw([Curve("a", steps, steps * 1.0), Curve("b", steps, 49.0 - steps)], 20, 10)
        assert chart is not None
        assert chart.series[0, 0] == 1
        assert chart.series[-1, 0] == 0
        assert (chart.series >= 0).sum() == (chart.characters != " ").sum()
        assert chart.names == ["a", "b"]

    def test_logarithmic_axes_leave_out_and_count_what_is_not_positive(self) -> None:
        curve = Curve("a", np.array([0, 1, 10, 100]), np.array([1.0, -1.0, 10.0, 100.0]))
        chart = draw([curve], 21, 10, log_x=True, log_y=True)
        assert chart is not None
        assert chart.dropped == 2
        assert (chart.window.left, chart.window.low, chart.window.high) == (10, 10, 100)
        assert draw([Curve("a", np.array([0]), np.array([1.0]))], 20, 5, log_x=True) is None

    def test_a_zoomed_line_goes_to_the_edges_of_the_window(self) -> None:
        curve = Curve("a", np.array([0, 100]), np.array([0.0, 100.0]))
        chart = draw([curve], 10, 5, window=Window(40, 60, 40, 60))
        assert chart is not None
        assert chart.characters[-1, 0] != " "
        assert chart.characters[0, -1] != " "
        assert (chart.characters != " ").any(axis=0).all()
        far = draw([curve], 10, 5, window=Window(200, 300, 0, 1))
        assert far is not None
        assert (far.characters == " ").all()

    def test_points_are_not_smoothed(self) -> None:
        noise = np.random.default_rng(0).normal(size=100)
        one = draw([Curve("a", np.arange(100), noise, "points")], 30, 10, smoothing=50)
        two = draw([Curve("a", np.arange(100), noise, "points")], 30, 10)
        assert one is not None
        assert two is not None
        assert np.array_equal(one.characters, two.characters)

    @given(CURVES, st.integers(1, 50), st.integers(1, 12), st.booleans(), st.booleans(), st.booleans())
    @example([(0, 6.9e-308)], 1, 1, False, True, False)
    @settings(max_examples=60, deadline=None)
    def test_whatever_the_numbers_a_chart_has_its_size_and_its_alphabet(
        self, curve: list[tuple[int, float]], columns: int, rows: int, log_x: bool, log_y: bool, ascii: bool
    ) -> None:
        steps, values = columns_of(curve)
        chart = draw([Curve("a", steps, values)], columns, rows, log_x=log_x, log_y=log_y, ascii=ascii)
        if chart is None:
            assert window_of([Curve("a", steps, values)], log_x, log_y) is None
            return
        assert chart.characters.shape == chart.series.shape == (rows, columns)
        assert all(c == " " or (c == "*" if ascii else "\u2801" <= c <= "\u28ff") for c in chart.characters.ravel())
        assert (chart.series >= 0).any()


class TestTheShellsChart:
    @given(CURVES, st.integers(16, 120), st.integers(5, 30), st.booleans(), st.booleans())
    @example([(0, 0.0), (0, 5e-324)], 16, 5, False, False)
    @example([(1, 5e-324)], 16, 5, False, True)
    @example([(1, 1.7e308)], 16, 5, False, True)
    @settings(max_examples=100, deadline=None)
    def test_it_fits_its_frame(
        self, curve: list[tuple[int, float]], columns: int, height: int, ascii: bool, log: bool
    ) -> None:
        steps, values = columns_of(curve)
        curves = [Curve("loss", steps, values), Curve("日本\x1b[31m", steps[::5], values[::5], "points")]
        drawn = text_chart(curves, columns, height, ascii=ascii, title="a run", log_x=log, log_y=log)
        lines = [line.plain for line in drawn]
        assert len(lines) == height or lines[1].startswith("no numbers")
        assert all(width(line) <= columns and line.replace("\u2009", " ").isprintable() for line in lines)
        if ascii:
            assert all(line.isascii() for line in lines)

    def test_it_reads_like_this(self) -> None:
        steps = np.arange(0, 11)
        lines = text_chart([Curve("loss", steps, 10.0 - steps)], 30, 9, ascii=True, title="run")
        assert [line.plain for line in lines] == [
            "run   * loss",
            "10 +*",
            "   | *********",
            "   |          *",
            " 5 +           *********",
            "   |                    *",
            " 0 +                     *****",
            "   ++-----------+------------+",
            "    0           5    step   10",
        ]

    def test_in_colours_every_curve_is_braille_in_its_own_colour(self) -> None:
        steps = np.arange(0, 100)
        curves = [Curve("loss", steps, 10.0 - steps), Curve("val", steps, steps - 5.0)]
        for depth in ("truecolor", "256", "16"):
            drawn = text_chart(curves, 60, 12, colours=depth)  # type: ignore[arg-type]
            inks: dict[str, set[str]] = {}
            for span, line in ((span, each) for each in drawn for span in each.spans if span.style):
                inks.setdefault(str(span.style), set()).update(line.plain[span.start : span.end])
            assert len(inks) == 2
            for signs in inks.values():
                assert len(signs) > 3
                assert all("\u2800" <= sign <= "\u28ff" for sign in signs)
        bare = text_chart(curves, 60, 12)
        assert not any(span.style for line in bare for span in line.spans)
        assert "+" in "".join(line.plain for line in bare)


@pytest.mark.filterwarnings("error")
def test_smoothing_the_largest_numbers_neither_overflows_nor_warns() -> None:
    values = np.array([1e300, 1.7e308, -1.7e308, np.nan, 1e308])
    small = smooth(np.arange(5), values / 2.0**900, 3.0)
    assert np.allclose(smooth(np.arange(5), values, 3.0) / 2.0**900, small, rtol=1e-12, equal_nan=True)


def test_a_curve_that_begins_far_off_does_not_make_the_rest_flat() -> None:
    values = np.concatenate([[-2000.0, -700.0, -300.0], np.linspace(-60, -20, 97)])
    window = without_the_beginning([Curve("return", np.arange(100), values)])
    whole = window_of([Curve("return", np.arange(100), values)])
    assert window is not None
    assert whole is not None
    assert (window.left, window.right) == (whole.left, whole.right)
    assert whole.low == -2000
    assert -60 <= window.low < -50
    assert window.high == -20
    assert without_the_beginning([]) is None


@pytest.mark.parametrize(("step", "left", "right"), [(0, 0, 1), (1, 0, 1), (40, 0, 40)])
def test_an_axis_with_a_single_step_counts_from_zero(step: int, left: float, right: float) -> None:
    window = window_of([Curve("loss", np.array([step]), np.array([5.5]))])
    assert window is not None
    assert (window.left, window.right) == (left, right)
