"""What is drawn around a chart: a legend that names every curve, and what was done to a run, at its steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlab.drawing.curve import Curve, draw
from txlab.drawing.plot import Furniture, plot_lines, readout
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


@given(st.lists(st.text(min_size=1, max_size=40), max_size=6), st.integers(1, 100))
def test_a_legend_never_is_wider_than_its_line(names: list[str], cells: int) -> None:
    assert CHART is not None
    legend = [("--", name, index, "1.25") for index, name in enumerate(names)]
    for ascii in (False, True):
        line = readout(CHART, Furniture("nats", cursor=3, legend=legend), cells, ascii)
        assert width("".join(text for text, _ in line)) <= cells


def test_what_was_done_to_a_run_stands_at_its_step() -> None:
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
