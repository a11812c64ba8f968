"""Never a cut digit: where there is too little room, a number is rounded, scaled, or left out, never shortened."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from txlab.drawing import curve
from txlab.drawing.attention import pattern_lines
from txlab.drawing.boards import BoardView, value_text
from txlab.drawing.boards import connect_four as four_board
from txlab.drawing.boards import tictactoe as board
from txlab.drawing.curve import Curve
from txlab.drawing.diverging import ramp_for, scale_of
from txlab.drawing.explanation import PARTS, explanation_lines
from txlab.drawing.formatting import count, number
from txlab.drawing.plot import Furniture, plot_lines, text_chart
from txlab.drawing.text import cut, fit
from txlab.drawing.update_lines import term_lines
from txlab.drawing.world import draw, states_of
from txlab.drawing.world_scene import SHOWS, CellSize, Scene, Show, WorldAspect, best_value
from txlab.engine.explain import Explanation, Operand, Step
from txlab.engine.games import tictactoe
from txlab.engine.games.connect_four import rules as connect_four
from txlab.engine.rl.worlds import world_named

# As a reader sees them: digits with a point, groups of three, an exponent, a unit; a sign is part of the number.
SEEN = re.compile(r"[+\-−]?(?:\d{1,3}(?:[ \u2009]\d{3}(?!\d))+|\d+)?(?:\.\d+|(?<=\d))(?:e-?\d+)?[kMG%]?")
known_world = cache(world_named)
WORDS = st.sampled_from(["step", " of ", "·", "loss ", "", "日本", "é", "gpt-", " → ", "…", "x"])
FIGURES = st.one_of(
    st.integers(-(10**9), 10**9).map(count),
    st.floats(-1e12, 1e12, allow_nan=False).map(number),
    st.floats(-1, 1).map(value_text),
)
TEXTS = st.lists(WORDS | FIGURES, max_size=8).map(" ".join)
VALUES = st.floats(-1e9, 1e9, allow_nan=False) | st.floats(-1, 1) | st.integers(-999, 999).map(float)


def seen(text: str) -> set[str]:
    return {each for each in SEEN.findall(text) if any(sign.isdigit() for sign in each)}


@given(TEXTS, st.integers(0, 60), st.sampled_from(["left", "right", "center"]), st.sampled_from(["…", "", "~"]))
@example("1 240 tokens", 4, "left", "…")
@example("561.6", 2, "right", "")
@example("−.15", 3, "center", "")
def test_a_text_is_shortened_before_a_number_not_inside_it(text: str, cells: int, align: str, ellipsis: str) -> None:
    assert seen(fit(text, cells, align, ellipsis)) <= seen(text)
    assert seen(cut(text, cells)) <= seen(text)


@given(st.lists(VALUES, min_size=2, max_size=30), st.integers(1, 130), st.integers(4, 30), st.booleans())
@example([0.0, 0.0], 7, 4, False)
def test_the_axes_of_a_chart_have_whole_numbers(values: list[float], columns: int, rows: int, ascii: bool) -> None:
    curves = [Curve("", np.arange(len(values)) * 1000, np.array(values))]
    chart = curve.draw(curves, columns, rows, ascii=ascii)
    assert chart is not None
    labels = set().union(*(seen(tick.label) for tick in (*chart.x_ticks, *chart.y_ticks)))
    for line in plot_lines(chart, Furniture(), ascii)[1:]:
        assert seen(" ".join(text for text, role in line if role == "axis")) <= labels
    wide = text_chart(curves, 400, rows + 3, ascii=ascii)
    known = {each for line in wide for each in seen(line.plain[: line.plain.find("┤" if not ascii else "+")])}
    for line in text_chart(curves, columns, rows + 3, ascii=ascii)[1:-2]:
        head = re.split("[┤│+|]", line.plain)[0]
        assert seen(head) <= known


def words_in(found: set[str]) -> set[str]:
    """The numbers of a row are apart by a space, as the groups of a long one are."""
    return {word for each in found for word in each.split()}


@given(st.lists(VALUES, min_size=1, max_size=9), st.integers(1, 70), st.booleans())
def test_rules_and_explanations_have_whole_numbers(values: list[float], cells: int, ascii: bool) -> None:
    terms = [("Q(s,a)", value) for value in values]
    known = {
        each for pair in term_lines(terms, 1000, ascii) for line in pair for text, _ in line for each in seen(text)
    }
    for pair in term_lines(terms, cells, ascii):
        for line in pair:
            assert seen("".join(text for text, _ in line)) <= known
    explanation = Explanation(
        question="why?", equation="y = x", math="K1", source="", labels=[f"t{i}" for i in range(len(values))], asked=0,
        operands=[Operand("x", values, "all"), Operand("y", values[0])], steps=[Step("z", "x + y", values)],
    )  # fmt: skip
    style = dict.fromkeys(PARTS, "")
    whole = {each for line in explanation_lines(explanation, 2000, style, ascii) for each in seen(line.plain)}
    for text in explanation_lines(explanation, max(cells, 20), style, ascii):
        assert text.cell_len <= max(cells, 20)
        assert words_in(seen(text.plain)) <= words_in(whole)


@given(st.integers(1, 60), st.integers(1, 30), st.lists(st.floats(-1, 1), min_size=9, max_size=9), st.integers(0, 8))
def test_the_boards_round_their_numbers(columns: int, rows: int, values: list[float], here: int) -> None:
    expected = dict(enumerate(values))
    views = {
        board: BoardView(tictactoe, tictactoe.start(), values=expected, cursor=here),  # type: ignore[arg-type]
        four_board: BoardView(connect_four, connect_four.start(), values=expected, cursor=here),  # type: ignore[arg-type]
    }
    for drawing, view in views.items():
        for ascii in (False, True):
            for line in drawing.lines(view, columns, rows, ascii):
                for piece in line:
                    text = piece.text.strip()
                    if piece.merit is not None and piece.place is not None and re.search(r"\d", text):
                        close_to(text, [values[piece.place]])


def test_at_three_cells_a_square_shows_one_decimal() -> None:
    view = BoardView(tictactoe, tictactoe.start(), values=dict.fromkeys(range(9), -0.16), cursor=99)  # type: ignore[arg-type]
    line = board.lines(view, 11, 5, False)[0]
    assert "".join(piece.text for piece in line) == "−.2│−.2│−.2"


def close_to(text: str, values: Iterable[float]) -> None:
    """Whether a shown number is one of these, rounded to the digits that it shows."""
    plain = text.replace("−", "-").replace("%", "").lstrip("+")
    plain = re.sub("k$", "e3", re.sub("M$", "e6", re.sub("G$", "e9", plain)))
    mantissa, _, power = plain.partition("e")
    step = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    assert any(abs(float(plain) - value) <= 0.5001 * step + 1e-9 for value in values), (text, list(values))


SIZES = [(2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1), (4, 2), (5, 2), (7, 2), (9, 2), (7, 3), (9, 3)]


@pytest.mark.parametrize("name", ["car-rental", "cliff", "taxi", "gambler", "four-by-three", "blackjack"])
@settings(max_examples=60)
@given(
    room=st.sampled_from([*SIZES, (12, 3), (14, 5)]), show=st.sampled_from(SHOWS), seed=st.integers(0, 9),
    power=st.integers(-3, 7), ascii=st.booleans(),
)  # fmt: skip
def test_a_cell_of_a_world_has_its_numbers_whole(
    name: str, room: tuple[int, int], show: Show, seed: int, power: int, ascii: bool
) -> None:
    world, chance = known_world(name), np.random.default_rng(seed)
    process, (wide, tall) = world.process, room
    size = CellSize(wide, tall)
    q = np.where(process.allowed, chance.normal(-1, 1, process.allowed.shape) * 10.0**power, np.nan)
    value = np.nan_to_num(best_value(q))
    policy = np.where(process.allowed, chance.dirichlet(np.ones(q.shape[1]), len(q)), 0.0)
    visits, trace = chance.integers(0, 10**6, len(q)), chance.random(len(q))
    agent = int(process.start.argmax())
    scene = Scene(value, q, policy, trace, visits, agent, agent, (agent,))
    scale = scale_of(value)
    layout = world.layout
    view = WorldAspect(
        size, (0, 0), (min(layout.height, 6), min(layout.width, 6)), show, scale,
        ramp_for(scale, "truecolor", True, ascii), ascii=ascii,
    )  # fmt: skip
    states = states_of(world, 0)
    canvas = draw(world, scene, view, states)
    headings = seen(" ".join(layout.marks.values()))
    for (row, column), state in states.items():
        if process.terminal[state] or max(row, column) > 5:
            continue
        names = {each for action in process.actions for each in seen(action)} | headings
        known = [*q[state], value[state], visits[state], *(100 * policy[state])]
        for y in range(row * tall, (row + 1) * tall):
            for word in SEEN.findall("".join(canvas.text[y][column * wide : (column + 1) * wide])):
                if any(sign.isdigit() for sign in word) and word not in names and word.lstrip("+-−") not in names:
                    close_to(word, [each for each in known if each == each])


def test_the_value_of_a_car_rental_is_read_apart_from_its_action() -> None:
    """At five cells "+5" and 561.6 were "+556"."""
    world = known_world("car-rental")
    value = np.full(world.process.size, 561.6)
    q = np.where(world.process.allowed, 0.0, np.nan)
    q[:, 0] = 1.0
    scale = scale_of(value)
    for show, shown in (("values", "562"), ("policy", world.process.actions[0].split()[-1])):
        view = WorldAspect(
            CellSize(5, 1),
            (0, 0),
            (21, 21),
            show,
            scale,
            ramp_for(scale, "truecolor", True, False),  # type: ignore
        )
        canvas = draw(world, Scene(value, q), view, states_of(world, 0))
        assert "".join(canvas.text[9][50:55]).strip() == shown


def test_weights_in_a_pattern_are_whole() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(9), 9)
    queries = [f"{i}{i}{i}{i}" for i in range(9)]
    for cells in range(10, 80):
        whole = {"1.0", *queries, *(f".{round(100 * weight):02}" for weight in weights.ravel()), *map(str, range(9))}
        for line in pattern_lines(weights, queries, queries, cells).lines[8:]:
            assert seen(line.plain) <= whole
