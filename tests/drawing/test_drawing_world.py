"""Worlds as cells: scales that hold their numbers and hold still, all best actions shown, numbers that fit."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from txlab.drawing.diverging import ramp_for, round_down, round_up, scale_of, signed_ramp
from txlab.drawing.palette import contrast, rgb_to_oklab
from txlab.drawing.text import width
from txlab.drawing.world import Canvas, draw, profile, states_of
from txlab.drawing.world_scene import SHOWS, CellSize, Scene, WorldAspect, best_value, cell_size, scene_of
from txlab.drawing.world_signs import action_sign, actions_sign, decimals_for, mark_sign, short, whole
from txlab.engine.rl.maps.compiling import compile_map
from txlab.engine.rl.maps.drawn import parse_map
from txlab.engine.rl.world import World
from txlab.engine.rl.worlds import world_named

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)
DEPTHS = ("truecolor", "256", "16", "none")


def scene_in(world: World, seed: int = 0) -> Scene:
    """Made-up values, different ones everywhere."""
    chance = np.random.default_rng(seed)
    process = world.process
    q = np.where(process.allowed, chance.normal(-5, 4, process.allowed.shape), np.nan)
    agent = int(process.start.argmax())
    visits = chance.integers(0, 100_000, process.size)
    trace = chance.random(process.size) * (chance.random(process.size) > 0.5)
    policy = np.where(process.allowed, 0.25, 0.0)
    return Scene(np.nan_to_num(best_value(q)), q, policy, trace, visits, agent, agent, (agent,))


def picture(world: World, scene: Scene, size: CellSize, **named: object) -> Canvas:
    scale = scale_of(scene.value)
    ascii = bool(named.pop("ascii", False))
    colours = named.pop("colours", "truecolor")
    layout = world.layout
    view = WorldAspect(
        size, (0, 0), (layout.height, layout.width), named.pop("show", "values"), scale,  # type: ignore[arg-type]
        ramp_for(scale, colours, True, ascii), ascii=ascii, **named,  # type: ignore[arg-type]
    )  # fmt: skip
    return draw(world, scene, view, states_of(world, 0))


def cell(canvas: Canvas, size: CellSize, row: int, column: int) -> list[str]:
    x, y = column * size.wide, row * size.tall
    return ["".join(line[x : x + size.wide]) for line in canvas.text[y : y + size.tall]]


@given(st.lists(NUMBERS, min_size=1, max_size=30))
@example([-300_000.0, -500_001.0])  # on both sides of where zero is included
@example([-300_001.0, -500_001.0])
def test_a_scale_holds_all_numbers(values: list[float]) -> None:
    scale = scale_of(np.array(values))
    assert scale.low <= min(values) * (1 + 1e-6) + 1e-300 or scale.low <= min(values)
    assert scale.high >= max(values) - abs(max(values)) * 1e-6
    share = scale.share(np.array(values))
    assert ((share >= 0) & (share <= 1)).all()


def test_a_scale_of_two_signs_has_zero_in_the_middle() -> None:
    scale = scale_of(np.array([-3.0, 12.0]))
    assert scale.signed
    assert scale.share(np.array([0.0]))[0] == 0.5
    assert not scale_of(np.array([-13.0, 0.0])).signed


@given(st.floats(1e-9, 1e9))
def test_round_numbers_are_on_the_right_side(value: float) -> None:
    assert round_up(value) >= value * (1 - 1e-6)
    assert round_down(value) <= value * (1 + 1e-6)
    assert round_up(value) / round_down(value) <= 2.01


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("colours", ["truecolor", "256"])
def test_both_ends_of_a_signed_ramp_are_far_from_the_middle_and_told_apart(colours: str, dark: bool) -> None:
    ramp = signed_ramp(colours, dark)  # type: ignore[arg-type]
    points = [rgb_to_oklab(fill) for fill in ramp.fill if fill is not None]
    middle = len(points) // 2
    lightness = [point[0] for point in points]
    away = lightness if dark else [-each for each in lightness]
    assert away[middle] == min(away)
    assert np.linalg.norm(np.subtract(points[0], points[-1])) > 0.2


def test_all_best_actions_are_shown_not_the_first_of_them() -> None:
    world = world_named("cliff")
    size = CellSize(8, 3)
    scene = scene_in(world)
    assert scene.q is not None
    right, down = world.process.actions.index("right"), world.process.actions.index("down")
    scene.q[5] = -9.0
    scene.q[5, [right, down]] = -7.0, -7.0 + 1e-9  # equal but for rounding
    above = cell(picture(world, scene, size), size, 0, 5)
    assert "→" in above[1]
    assert "↓" in above[2]
    assert "".join(above).count("↑") + "".join(above).count("←") == 0
    scene.q[5] = -7.0  # nothing is better than anything else
    assert not set("".join(cell(picture(world, scene, size), size, 0, 5))) & set("→↓↑←")


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("low", [-20.0, -1.0])
def test_a_cell_has_one_background_in_16_colours_and_its_text_is_readable(dark: bool, low: float) -> None:
    """Shades between the lines of a cell were seen as stripes, and dark blue numbers on black not at all."""
    world = world_named("cliff")
    scene = scene_in(world)
    values = np.linspace(low, 1.0 if low == -1 else -2.0, len(scene.value))
    scale = scale_of(values)
    ramp = ramp_for(scale, "16", dark, False)
    assert all(fill is not None for fill in ramp.fill)
    assert len(ramp.fill) == ramp.levels
    assert ramp.ink == ramp.fill  # a shade next to an arrow would be a stripe again
    for fill in ramp.fill:
        assert fill is not None
        assert abs(rgb_to_oklab(fill)[0] - rgb_to_oklab(contrast(fill))[0]) > 0.4
    size = CellSize(4, 3)
    canvas = picture(world, replace(scene, value=values, agent=None, trace=None), size, colours="16")
    for (row, column), state in states_of(world, 0).items():
        if not world.process.terminal[state]:
            levels = {int(canvas.level[row * 3 + y][column * 4 + x]) for y in range(3) for x in range(4)}
            assert len(levels) == 1
            lines = cell(canvas, size, row, column)
            assert not set("".join(lines)) & set("░▒▓█")


def test_where_nothing_is_known_no_action_is_best() -> None:
    scene = Scene(np.zeros(2), np.array([[np.nan, np.nan], [1.0, np.nan]]))
    assert scene.best(0, ("left", "right")) == []
    assert scene.best(1, ("left", "right")) == [0]


@pytest.mark.parametrize(("wide", "tall"), [(2, 1), (6, 1), (4, 2), (5, 2), (7, 3), (13, 5)])
def test_every_value_can_be_read_where_there_is_room_for_a_number(wide: int, tall: int) -> None:
    world = world_named("cliff")
    size = CellSize(wide, tall)
    scene = scene_in(world)
    canvas = picture(world, scene, size)
    for state in range(world.process.size):
        if world.process.terminal[state] or size.kind == "sign":
            continue
        _, row, column = world.layout.place[state].tolist()
        said = " ".join(cell(canvas, size, row, column)).replace("−", "-")
        found = [float(word) for word in re.findall(r"-?[0-9]*\.?[0-9]+", said)]
        assert any(abs(value - scene.value[state]) <= 0.51 for value in found), (state, said, scene.value[state])


def is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("wide", [5, 6, 7, 8, 9])
@pytest.mark.parametrize("show", ["values", "visits"])
def test_the_letter_of_a_cell_of_one_line_never_touches_its_number(wide: int, show: str) -> None:
    world = world_named("cliff")
    scene = scene_in(world)
    size = CellSize(wide, 1)
    canvas = picture(world, scene, size, show=show)
    start = int(world.process.start.argmax())
    row, column = next(place for place, state in states_of(world, 0).items() if state == start)
    text = cell(canvas, size, row, column)[0]
    assert re.search(r"\d", text)
    assert not re.search(r"\dS", text)
    if wide >= 7 and show == "values":
        assert text.endswith(" S")


def test_four_numbers_are_drawn_in_their_directions() -> None:
    world = world_named("cliff")
    size = CellSize(13, 3)
    scene = scene_in(world)
    assert scene.q is not None
    for name, value in (("up", -1.0), ("right", -2.0), ("down", -3.0), ("left", -4.0)):
        scene.q[5, world.process.actions.index(name)] = value
    up, middle, down = cell(picture(world, scene, size, show="actions"), size, 0, 5)
    assert up.strip().startswith("−1")
    assert middle.strip().startswith("−4")
    assert middle.strip().endswith("−2.00") or "−2" in middle
    assert down.strip().startswith("−3")


@pytest.mark.parametrize(
    "name", ["cliff", "frozen-lake", "four-by-three", "taxi", "walk-5", "windy", "gambler", "car-rental"]
)
@pytest.mark.parametrize("ascii", [False, True])
def test_no_world_size_or_depth_breaks_the_picture(name: str, ascii: bool) -> None:
    world = world_named(name)
    scene = scene_in(world)
    for size in (CellSize(1, 1), CellSize(2, 1), CellSize(5, 1), CellSize(4, 2), CellSize(7, 3), CellSize(13, 5)):
        for colours in DEPTHS:
            for show in SHOWS:
                canvas = picture(world, scene, size, ascii=ascii, colours=colours, show=show)
                for line in canvas.text:
                    assert len(line) == canvas.columns
                    assert all(width(sign) == 1 for sign in line), line
                    assert not ascii or "".join(line).isascii(), "".join(line)


def test_the_agent_the_cursor_and_walls_are_seen_without_colour() -> None:
    world = world_named("four-by-three")
    scene = scene_in(world)
    canvas = picture(world, scene, CellSize(6, 2), colours="none", ascii=True)
    text = "\n".join("".join(line) for line in canvas.text)
    assert text.count("@") == 1
    assert "#" in text


@pytest.mark.parametrize("name", ["gambler", "walk-19"])
def test_a_long_row_becomes_bars(name: str) -> None:
    world = world_named(name)
    scene = scene_in(world)
    scale = scale_of(scene.value)
    view = WorldAspect(
        CellSize(1, 1), (0, 0), (1, world.layout.width), "values", scale, ramp_for(scale, "truecolor", True, False)
    )
    canvas = profile(world, scene, view, 8)
    assert canvas.rows == 8
    assert any("█" in line for line in canvas.text)


@given(st.floats(-1e5, 1e5), st.integers(3, 8), st.integers(0, 3))
def test_a_short_number_fits_and_is_the_number(value: float, cells: int, decimals: int) -> None:
    text = short(value, cells, decimals)
    assert len(text) <= cells
    if is_number(text.replace("−", "-")) and "e" not in text:
        assert abs(float(text.replace("−", "-")) - value) <= 0.5 + 1e-9


@given(st.floats(0, 1e9), st.integers(2, 7))
def test_all_numbers_of_a_world_have_equally_many_decimals(size: float, cells: int) -> None:
    places = decimals_for(size, cells)
    assert 0 <= places <= 3
    if places and size > 1e-3:
        assert len(short(-size, cells, places)) <= cells


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 200), st.integers(1, 60))
def test_cells_are_as_large_as_fit(height: int, width: int, columns: int, rows: int) -> None:
    size = cell_size(height, width, columns, rows)
    assert size.wide >= 2
    assert size.tall >= 1
    assert size.wide == 2 or size.wide * width <= columns
    assert size.tall == 1 or size.tall * height <= rows


def test_signs_of_actions() -> None:
    assert action_sign("north", 1, False) == "↑"
    assert actions_sign(("left", "right"), 1, False) == "─"
    assert actions_sign(("left", "right"), 1, True) == "+"
    assert actions_sign(("hit", "stick"), 4, False) == "hit+"
    assert whole(12_345_678, 3) == "12M"


def test_a_frame_gives_its_scene_and_a_torn_one_none() -> None:
    tensors = {"0/q": np.array([[1.0, np.nan], [2.0, 3.0]]), "0/trace": np.array([[0.0, np.nan], [0.5, 0.25]])}
    scene = scene_of(tensors, {"states": [1], "last": [{"state": 0}]}, 0)
    assert scene is not None
    assert scene.value.tolist() == [1.0, 3.0]
    assert scene.trace is not None
    assert scene.trace.tolist() == [0.0, 0.5]
    assert (scene.agent, scene.updated) == (1, 0)
    assert scene_of({}, {}, 0) is None
    assert scene_of(tensors, {"states": "x", "last": [None]}, 0) is not None


def test_the_text_before_a_row_is_written_as_far_as_it_fits() -> None:
    assert [mark_sign("21", False, cells) for cells in (1, 2, 7)] == [" ", "21", "21"]
    assert mark_sign("G", False, 7) == "★"
    world = world_named("blackjack")
    size = CellSize(7, 2)
    canvas = picture(world, scene_in(world), size)
    headed = [cell(canvas, size, 0, column)[0].strip() for column in range(1, 11)]
    assert headed == ["A", *map(str, range(2, 11))]
    assert [cell(canvas, size, row, 0)[0].strip() for row in range(1, 12)] == ["nat", *map(str, range(21, 11, -1))]


@pytest.mark.parametrize("ascii", [False, True])
def test_a_cell_shows_the_reward_that_an_edit_gave_it_and_not_the_letter_of_the_map(ascii: bool) -> None:
    drawn = parse_map("step: -1\n\nS..G\n....\n").with_reward(1, 1, 0.25).with_reward(1, 2, -3.0)
    signs = {drawn.rows[1][1], drawn.rows[1][2]}
    world = compile_map(drawn)
    wide = CellSize(9, 3)
    shown = picture(world, replace(scene_in(world), trace=None), wide, ascii=ascii)
    assert cell(shown, wide, 1, 1)[0].rstrip().endswith("+.25")
    assert cell(shown, wide, 1, 2)[0].rstrip().endswith("-3" if ascii else "−3")
    narrow = CellSize(6, 1)  # no room for the number: its sign alone, and never a part of it
    shown = picture(world, replace(scene_in(world), trace=None), narrow, ascii=ascii)
    assert cell(shown, narrow, 1, 1)[0][-1] == "+"
    assert not any(each in cell(shown, narrow, 1, 1)[0][-1] for each in signs)


def test_a_goal_that_pays_shows_what_it_pays() -> None:
    world = compile_map(parse_map("G: goal, pays 10\n1: goal, pays 1\n\nS.G\n..1\n"))
    size = CellSize(11, 3)
    shown = picture(world, replace(scene_in(world), trace=None), size)
    assert "★ +10" in cell(shown, size, 0, 2)[1]
    assert cell(shown, size, 1, 2)[1].strip() == "+1"
