"""What is drawn around a chart: a legend that names every curve, and what was done to a run, at its steps."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.drawing.curve import Curve, draw
from txlab.drawing.plot import Furniture, lines_of_legend, plot_lines, readout, readouts
from txlab.drawing.text import width

STEPS = np.arange(401)
CHART = draw([Curve("loss", STEPS, 5 * np.exp(-STEPS / 40))], 60, 14)
RUNS = ("train", "val", "gpt-tiny layers=3 seed=7", "gpt-tiny layers=3 seed=8 mine.txt")


def text_of(furniture: Furniture, ascii: bool = False) -> list[str]:
    assert CHART is not None
    return ["".join(text for text, _ in line) for line in plot_lines(CHART, furniture, ascii)]


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("cells", [58, 76, 200])
def test_the_legend_names_every_curve_by_what_tells_it_apart(cells: int, ascii: bool) -> None:
    assert CHART is not None
    legend = [("--", name, index, "") for index, name in enumerate(RUNS)]
    unit = "nats, smoothed over 20 steps"
    top = "".join(text for text, _ in readout(CHART, Furniture(unit, legend=legend), cells, ascii))
    assert width(top) == cells
    assert all(end in top for end in ("train", "val", "seed=7", "mine.txt"))
    assert top.count("--") == 4


@pytest.mark.parametrize("ascii", [False, True])
def test_a_long_legend_takes_a_second_line_where_the_chart_is_high(ascii: bool) -> None:
    """Six curves of random-walk at 80 columns, of which the first line holds three."""
    names = [f"td-0 a=0.{each}" for each in ("05", "1", "15")] + [f"mc a=0.0{each}" for each in (1, 2, 3)]
    legend = [("--", name, index, "") for index, name in enumerate(names)]
    furniture = Furniture("RMS error", legend=legend)
    assert CHART is not None
    cells = len(text_of(furniture)[1])
    assert lines_of_legend(furniture, cells, 20, ascii) == 2
    assert lines_of_legend(furniture, cells, 8, ascii) == 1
    assert lines_of_legend(Furniture("RMS error", legend=legend[:2]), cells, 20, ascii) == 1
    plain, lines = text_of(furniture, ascii), text_of(replace(furniture, legend_lines=2), ascii)
    assert len(lines) == len(plain) + 1
    assert lines[2:] == plain[1:]
    assert [width(line) for line in lines[:2]] == [cells, cells]
    assert all(name in lines[0] + lines[1] for name in names)


@given(st.lists(st.text(min_size=1, max_size=40), max_size=6), st.integers(1, 100))
def test_a_legend_never_is_wider_than_its_line(names: list[str], cells: int) -> None:
    assert CHART is not None
    legend = [("--", name, index, "1.25") for index, name in enumerate(names)]
    for ascii in (False, True):
        line = readout(CHART, Furniture("nats", cursor=3, legend=legend), cells, ascii)
        assert width("".join(text for text, _ in line)) <= cells
        two = readouts(CHART, Furniture("nats", cursor=3, legend=legend, legend_lines=2), cells, ascii)
        assert len(two) == 2
        assert all(width("".join(text for text, _ in line)) <= cells for line in two)


def test_events_of_a_run_are_drawn_at_their_steps() -> None:
    plain, marked = text_of(Furniture()), text_of(Furniture(events=[(100, "lr 2e-5"), (300, "resumed")]))
    assert [len(line) for line in marked] == [len(line) for line in plain]
    assert CHART is not None
    for step, words in ((100, "lr 2e-5"), (300, "resumed")):
        line = next(line for line in marked if words in line)
        at = line.index("│" if "│" in line else "┤") + 1 + CHART.column_of(step)  # type: ignore[operator]
        assert line[at] == "╎"
        assert line.index(words) == at + 1
    assert sum("resumed" in line for line in marked) == 1
    assert ":resumed" in "\n".join(text_of(Furniture(events=[(300, "resumed")]), ascii=True))


@given(
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["lr 2e-5", "resumed", "rewound", "x" * 70])), max_size=12)
)
def test_marks_hide_no_part_of_a_curve_and_no_words_of_each_other(events: list[tuple[int, str]]) -> None:
    assert CHART is not None
    left = len(text_of(Furniture())[1]) - 60
    for row, line in enumerate(text_of(Furniture(events=events))[1:15]):
        for column, letter in enumerate(line[left:]):
            if CHART.series[row, column] >= 0:
                assert letter == CHART.characters[row, column]
    for line in text_of(Furniture(events=events))[1:15]:
        rest = line
        for _, words in events:
            rest = rest.replace(words, "")
        assert not any(letter.isalpha() and letter.isascii() for letter in rest)
