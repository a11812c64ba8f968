"""The Descent screen: functions are typed, methods go down them side by side, each number is the right one."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import recorded
from picture import text_of
from recorded import HOSTILE, settle
from textual.pilot import Pilot
from textual.widgets import Input

import txlab
from txlab.drawing.plane import HERE, Graph, Sheet, Shows, heights
from txlab.experiments.protocol import Frame
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.screens.descent.screen import DescentScreen
from txlab.tui.screens.descent.shown import LETTERS, Walker, curves_sheet, read_shown
from txlab.tui.screens.descent.view import PlaneView
from txlab.tui.widgets.why import WhyScreen

SIZES = [(80, 24), (120, 40)]


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def quiet(screen: DescentScreen) -> bool:
    return screen.session.idle and screen.computing.idle and screen.session.picture is not None


app_on = partial(recorded.app_on, screen="descent")


async def opened(pilot: Pilot[None]) -> DescentScreen:
    await pilot.pause()
    await pilot.press("8")
    screen = pilot.app.screen
    assert isinstance(screen, DescentScreen)
    await settle(pilot, lambda: screen.ground is not None and quiet(screen))
    return screen


async def order(pilot: Pilot[None], screen: DescentScreen, *keys: str) -> None:
    await pilot.press(*keys)
    await settle(pilot, lambda: quiet(screen))


async def type_f(pilot: Pilot[None], screen: DescentScreen, text: str) -> None:
    """Type a function and stop at its start."""
    screen.session.pace = 2.0
    await pilot.press("t")
    pilot.app.screen.query_one(Input).value = text
    await pilot.pause()
    await pilot.press("enter")
    await settle(pilot, lambda: screen.shown is not None and screen.shown.f == text)
    screen.session.pause()
    await order(pilot, screen, "n")
    assert screen.shown is not None
    assert screen.shown.frame.step == 0


def walker(screen: DescentScreen, rule: str) -> Walker:
    assert screen.shown is not None
    return next(each for each in screen.shown.walkers if each.rule == rule)


def choose(screen: DescentScreen, rule: str) -> None:
    screen.chosen = walker(screen, rule).number
    screen.show_all()


def notices(app: object) -> str:
    return "\n".join(str(notice.message) for notice in app._notifications)  # type: ignore[attr-defined]


def valley(x: float, y: float) -> tuple[float, float, float]:
    """Rosenbrock's function and its derivatives, by hand."""
    return (
        (1 - x) ** 2 + 100 * (y - x * x) ** 2,
        -2 * (1 - x) - 400 * x * (y - x * x),
        200 * (y - x * x),
    )


@pytest.mark.parametrize("size", SIZES)
async def test_it_opens_with_four_methods_on_their_way_down_a_valley(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        text = text_of(app)
        for said in ("f(x, y) = (1 - x)**2 + 100*(y - x**2)**2", "gradient descent", "Adam", "paused", "step 60",
                     "x ← x − γ ∇f(x)", "tangent plane", "arrived  8", "space run", "? help"):  # fmt: skip
            assert said in text, said
        sheet = screen.map.view.sheet
        assert sheet is not None
        inks = {each.letter: each.ink for each in screen.shown.walkers if each.on}  # type: ignore[union-attr]
        assert set(inks) == set("GMAN")
        assert len(set(inks.values())) == 4
        for letter, ink in inks.items():
            row, column = np.argwhere(sheet.shows == HERE + ink)[0]
            assert sheet.characters[row, column] == letter
        for drawn in (inks["M"], inks["N"]):
            assert (sheet.shows == drawn).sum() > 5


async def test_the_numbers_next_to_the_map_are_those_of_an_independent_descent(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        x, y, path = -1.2, 1.0, [(-1.2, 1.0)]
        for _ in range(60):
            _, dx, dy = valley(x, y)
            x, y = x - 0.001 * dx, y - 0.001 * dy
            path.append((x, y))
        assert walker(screen, "gradient").path == pytest.approx(np.array(path), rel=1e-9)
        f, dx, dy = valley(x, y)
        text = text_of(app)
        assert f"f {f:.3f}  ‖∇f‖ {math.hypot(dx, dy):.3f}" in text
        assert f"z = {f:.3f}" in text
        assert f"normal (−{abs(dx):.4f}".replace("−0.", "−.") in text  # f_x, f_y, −1
        u = v = mx = my = 0.0
        u, v = -1.2, 1.0
        for _ in range(60):
            _, dx, dy = valley(u, v)
            mx, my = 0.9 * mx + dx, 0.9 * my + dy
            u, v = u - 0.001 * mx, v - 0.001 * my
        assert walker(screen, "momentum").path[-1].tolist() == pytest.approx([u, v], rel=1e-9)


@pytest.mark.parametrize("size", SIZES)
async def test_newtons_method_for_a_root_shows_where_the_tangent_meets_the_axis(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        await type_f(pilot, screen, "x**2 - 2")
        choose(screen, "newton-root")
        x = 1.0
        for _ in range(3):
            text = text_of(app)
            assert f"z = −{x * x + 2:.4g} + {2 * x:.4g} x" in text  # x² − 2 at x₀: (2 x₀) x − (x₀² + 2)
            x = x - (x * x - 2) / (2 * x)
            assert f"meets 0   at x = {x:.4g}" in text
            await order(pilot, screen, "full_stop")
            assert walker(screen, "newton-root").path[-1, 0] == pytest.approx(x, rel=1e-15)
        sheet = screen.map.view.sheet
        assert sheet is not None
        for shows in (Shows.CURVE, Shows.AXIS, Shows.TANGENT):
            assert (sheet.shows == shows).any()


async def test_a_step_is_taken_back_exactly_and_a_new_beginning_forgets_all(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        before = {each.rule: each.path for each in screen.shown.walkers}  # type: ignore[union-attr]
        await order(pilot, screen, "comma", "comma", "comma")
        assert screen.shown is not None
        assert screen.shown.frame.step == 57
        assert walker(screen, "adam").steps == 57
        assert len(walker(screen, "adam").path) == 58
        await order(pilot, screen, "full_stop", "full_stop", "full_stop")
        for rule, path in before.items():
            assert np.array_equal(walker(screen, rule).path, path)
        await order(pilot, screen, "n")
        assert [len(each.path) for each in screen.shown.walkers] == [1] * 5
        await order(pilot, screen, "backspace")
        assert "there is no step to take back" in notices(app)


@pytest.mark.parametrize(
    "typed",
    ["x +", "__import__('os').system('touch owned')", "x.__class__", "z**2", "2x", "x[0]", "9**9**9**9" + "*x" * 100],
)
async def test_a_bad_function_is_refused_with_an_error_and_loses_nothing(tmp_path: Path, typed: str) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot)
        shown = screen.shown
        await pilot.press("t")
        app.screen.query_one(Input).value = typed
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen is not screen  # it is still being asked, and says what is wrong
        sentences = (
            "is not a formula",
            "is not a function",
            "is unknown",
            "a formula cannot have",
            "at most",
            "a formula has",
        )
        assert any(said in text_of(app) for said in sentences)
        await pilot.press("escape")
        await settle(pilot, lambda: quiet(screen))
        assert screen.shown is shown
        assert "step 60" in text_of(app)
        assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("f", "rule", "said"),
    [
        ("log(x) + 5", "newton-root", "is not defined"),
        ("x**2 + 1e99*x", "gradient", "diverges"),
        ("1/(x - 1)", "gradient", "is not defined"),
        ("x**4", "newton-minimum", ""),
        ("5", "newton-root", "f′(x) = 0"),
        ("sqrt(0 - x)", "adam", "is not defined"),
        ("x**3", "newton-minimum", ""),
        ("-x**2", "newton-minimum", "not convex"),
        ("tan(x)", "newton-root", ""),
        ("exp(exp(exp(x)))", "gradient", ""),
    ],
)
async def test_the_reason_why_a_method_stops_is_shown_and_nothing_hangs(
    tmp_path: Path, f: str, rule: str, said: str
) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await type_f(pilot, screen, f)
        choose(screen, rule)
        for _ in range(12):
            screen.session.step()
        await settle(pilot, lambda: quiet(screen))
        assert screen.shown is not None
        assert said in screen.shown.walkers[screen.chosen].rests
        assert "".join(said.split())[:12] in "".join(text_of(app).split())


async def test_a_circle_of_newtons_method_is_reported(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        screen.functions.open("Newton's circle")
        await settle(pilot, lambda: "it goes in a circle of 2 steps" in text_of(app))
        assert walker(screen, "newton-root").path[:, 0].tolist() == [0.0, 1.0, 0.0]
        await settle(pilot, lambda: not screen.session.running)


@pytest.mark.parametrize("size", SIZES)
async def test_all_methods_begin_under_the_cursor(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        await pilot.press("down", "right", "right", "right", "l", "j", "down")
        cursor = screen.map.cursor
        assert cursor is not None
        assert cursor[0] > -1.2
        assert cursor[1] < 1.0
        assert "enter begins there" in text_of(app)
        await pilot.press("enter")
        await settle(pilot, lambda: walker(screen, "adam").path[0].tolist() == list(cursor))
        await settle(pilot, lambda: screen.shown is not None and screen.shown.frame.step > 2)
        await order(pilot, screen, "space")
        assert {tuple(each.path[0]) for each in screen.shown.walkers} == {cursor}  # type: ignore[union-attr]
        assert screen.map.cursor is None


async def test_a_click_sets_the_cursor_and_esc_puts_it_away(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        sheet, view = screen.map.view.sheet, screen.map.view
        assert sheet is not None
        await pilot.click(view, offset=(view.left + 30, 5))
        assert screen.map.cursor == pytest.approx(sheet.point_at(5, 30), abs=0.06)
        await pilot.press("escape")
        assert screen.map.cursor is None


async def test_it_comes_closer_goes_back_and_follows_what_leaves_the_view(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        assert screen.ground is not None
        wide = screen.ground.window
        await order(pilot, screen, "z", "z")
        near = screen.ground.window
        assert near.right - near.left == pytest.approx((wide.right - wide.left) / 1.5**2)
        here = walker(screen, "gradient").path[-1]
        assert (near.left + near.right) / 2 == pytest.approx(here[0])
        await order(pilot, screen, "Z", "Z", "home")
        assert screen.ground.window == wide
        await type_f(pilot, screen, "-x - y")
        await order(pilot, screen, "home")
        start = screen.ground.window
        for _ in range(80):
            screen.session.step()
        await settle(pilot, lambda: quiet(screen))
        x = walker(screen, "gradient").path[-1, 0]
        assert x > start.right
        assert screen.ground.window.right >= x


async def test_the_view_goes_back_for_what_leaves_it_and_comes_again_with_it(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await type_f(pilot, screen, "(x + y)**2")
        assert screen.ground is not None
        begun = screen.ground.window
        screen.session.edit(lambda methods: methods.adjust("gradient.rate", 0.6))  # to and fro, ever further
        widest = begun.right - begun.left
        for _ in range(17):
            await order(pilot, screen, "full_stop")
            widest = max(widest, screen.ground.window.right - screen.ground.window.left)
        assert np.abs(walker(screen, "gradient").path[-1]).max() > 20  # too far to be followed
        assert widest > 1.4 * (begun.right - begun.left)
        assert screen.ground.window == begun


async def test_a_parameter_is_turned_while_it_runs_and_the_next_step_has_it(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        choose(screen, "gradient")
        await pilot.press("p")
        assert "‹γ .001›" in text_of(app)
        await order(pilot, screen, "plus", "plus", "minus")
        assert "‹γ .002›" in text_of(app)
        x, y = walker(screen, "gradient").path[-1].tolist()
        _, dx, dy = valley(x, y)
        await order(pilot, screen, "full_stop")
        assert walker(screen, "gradient").path[-1].tolist() == pytest.approx([x - 0.002 * dx, y - 0.002 * dy])
        await pilot.press("p", "p")  # noise, then the pace again
        assert "‹speed" in text_of(app)
        pace = screen.session.pace
        await pilot.press("plus")
        assert screen.session.pace > pace
        assert "‹γ" not in text_of(app)


async def test_a_method_takes_part_or_not_and_one_always_does(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        while walker(screen, "sign").number != screen.chosen:
            await pilot.press("tab")
        await order(pilot, screen, "m")
        assert walker(screen, "sign").on
        assert len(walker(screen, "sign").path) == 1
        await order(pilot, screen, "full_stop")
        assert walker(screen, "sign").path.tolist() == [[-1.2, 1.0], [-1.2 + 0.1, 1.0 + 0.1]]  # against the signs
        for rule in ("gradient", "momentum", "adam", "newton-minimum", "sign"):
            choose(screen, rule)
            await order(pilot, screen, "m")
        assert [each.rule for each in screen.shown.walkers if each.on] == ["sign"]  # type: ignore[union-attr]
        assert "one method at least takes part" in notices(app)


@pytest.mark.parametrize("size", SIZES)
async def test_why_explains_the_last_step_with_its_numbers(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        await order(pilot, screen, "n", "full_stop")
        choose(screen, "gradient")
        await pilot.press("w")
        await settle(pilot, lambda: isinstance(app.screen, WhyScreen) and "∇f" in text_of(app))
        text = text_of(app)
        assert "x ← x − γ ∇f(x)" in text
        assert "F2, F3" in text
        assert "−215.6" in text  # ∂f/∂x at (−1.2, 1)
        assert re.search(r"−1\.2 − 0\.001 · \(−215\.6\)\s+= −0\.984", text)
        await pilot.press("escape")
        await settle(pilot, lambda: app.screen is screen)


@pytest.mark.parametrize("size", SIZES)
async def test_a_line_through_points_has_its_data_next_to_the_bowl(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        screen.functions.open("a line through points")
        await settle(pilot, lambda: "f(w, b) = mean of (w·u + b − v)²" in text_of(app))
        await settle(pilot, lambda: screen.shown is not None and screen.shown.frame.step > 40)
        await order(pilot, screen, "space")
        assert "stochastic descent" in text_of(app)
        if size == (80, 24):
            await pilot.press("v")
        await settle(pilot, lambda: "●" in text_of(app))
        shown = screen.shown
        assert shown is not None
        assert shown.u is not None
        (w, b), *_ = np.linalg.lstsq(np.stack([shown.u, np.ones(len(shown.u))], 1), shown.v, rcond=None)
        found = walker(screen, "gradient").path
        assert np.hypot(*(found[-1] - [w, b])) < 0.1 * np.hypot(*(found[0] - [w, b]))


async def test_f_over_the_steps_is_another_view(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press("v")
        sheet = screen.map.view.sheet
        assert sheet is not None
        assert (sheet.window.left, sheet.window.right) == (0, 60)
        assert sheet.window.high == pytest.approx(float(np.nanmax([each.values.max() for each in
                                                                   screen.shown.walkers if each.on])))  # type: ignore # fmt: skip
        await pilot.press("up", "v", "v")
        assert screen.map.cursor is None
        assert screen.map.looking == "map"


@pytest.mark.parametrize("size", SIZES)
async def test_the_tangent_plane_is_the_triangle_of_the_text_with_its_numbers(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        await type_f(pilot, screen, "20 - 2*x - y")
        await pilot.press("v", "v")
        await settle(pilot, lambda: screen.map.looking == "plane")
        sheet = screen.map.view.sheet
        assert sheet is not None
        assert {"O", "A", "B", "C", "D", "n"} <= set(sheet.characters.ravel().tolist())
        text = text_of(app)
        assert "OD leads along −∇f" in text
        assert "n = (2, 1, 1)" in text
        at = walker(screen, "gradient").tangent
        assert at is not None
        await order(pilot, screen, "m")  # out of the game, so it has no plane
        assert screen.map.view.sheet is None
        assert "takes no part" in text_of(app)
        await order(pilot, screen, "m")
        await type_f(pilot, screen, "0*x + 0*y")
        await settle(pilot, lambda: "the plane is level" in text_of(app))
        await type_f(pilot, screen, "x**2")
        assert "plane" not in screen.map.views


def after_steps(rules: dict[str, list[float]], ascii: bool = False) -> tuple[str, Sheet | None]:
    """What is drawn of f after each step of these methods, in 12 rows and 40 columns."""
    tensors: dict[str, np.ndarray] = {}
    for i, values in enumerate(rules.values()):
        tensors[f"{i}/path"] = np.zeros((len(values), 1))
        tensors[f"{i}/values"] = np.array(values)
    shown = read_shown(Frame(3, tensors, facts={"methods": list(rules), "f": "x"}))
    return curves_sheet(shown, 0, (12, 40), ascii)


@pytest.mark.parametrize("ascii", [False, True])
def test_only_the_method_that_seeks_a_root_is_drawn_by_its_distance_from_zero(ascii: bool) -> None:
    title, sheet = after_steps({"gradient": [1.0, -1.0, -2.0, -3.0], "newton-root": [1.0, -0.5, 0.1, 0.0]}, ascii)
    assert title == "f after each step, |f| of R"
    assert sheet is not None
    assert not sheet.window.log_y
    assert sheet.window.low == -3
    rows = [np.argwhere(sheet.shows == HERE + each)[0, 0] for each in range(2)]
    assert rows[0] == 11 > rows[1]  # the descent has come down
    assert after_steps({"newton-root": [1.0, -0.5]})[0] == "|f| after each step"


@pytest.mark.parametrize("ascii", [False, True])
def test_zero_has_a_separate_mark_on_a_logarithmic_axis(ascii: bool) -> None:
    title, sheet = after_steps({"gradient": [1.0, 0.1, 0.01, 0.0], "adam": [1.0, 0.5, 0.1, 0.01]}, ascii)
    mark = "v" if ascii else "▼"
    assert title == f"f after each step   {mark} 0"
    assert sheet is not None
    assert sheet.window.log_y
    assert 0 < sheet.window.low < 0.01  # the smallest that is not zero has another row
    ink = list(LETTERS).index("gradient")
    assert (sheet.shows[-1, 36:] % HERE == ink).any()
    adam = list(LETTERS).index("adam")
    assert np.argwhere((sheet.shows == adam) | (sheet.shows == HERE + adam))[-1, 0] < 11
    assert "0" not in after_steps({"gradient": [1.0, 0.1, 0.01]})[0]
    title, _ = after_steps({"gradient": [1.0, 1e-30, 0.5]}, ascii)
    assert title == f"f after each step   {mark} below 1e-16"


@pytest.mark.parametrize("size", [(120, 40), (200, 60)])
async def test_no_picture_is_drawn_before_it_has_its_size(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    show, drawn = PlaneView.show, []  # the widget, and its size then

    def noted(view: PlaneView, sheet: Sheet | None, cursor: tuple[int, int] | None = None) -> None:
        drawn.append((view.id, tuple(view.size)))
        show(view, sheet, cursor)

    monkeypatch.setattr(PlaneView, "show", noted)
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        small = screen.methods.small
        await settle(pilot, lambda: small.sheet is not None)
        assert {each for each, _ in drawn} == {"plane", "small"}
        assert all(cells[0] and cells[1] for _, cells in drawn), drawn
        assert (small.sheet.rows, small.sheet.columns) == small.room  # type: ignore[union-attr]
        await pilot.resize_terminal(110, 50)
        await settle(pilot, lambda: small.sheet is not None and (small.sheet.rows, small.sheet.columns) == small.room)


@pytest.mark.parametrize("size", [*SIZES, (40, 12), (200, 60)])
async def test_in_ascii_everything_is_ascii_and_the_methods_have_letters(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path, ascii=True)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        sheet = screen.map.view.sheet
        assert sheet is not None
        assert {"n", "m", "N", "M"} <= set(sheet.characters.ravel().tolist()) or size == (40, 12)
        await pilot.press("right", "right")
        for key in ("v", "v", "tab", "p", "m"):
            await order(pilot, screen, key)
            assert text_of(app).isascii(), [c for c in text_of(app) if not c.isascii()]
        await type_f(pilot, screen, "x**3 - 2*x + 2")
        await order(pilot, screen, "full_stop", "full_stop")
        text = text_of(app)
        assert text.isascii()
        assert size == (40, 12) or "tangent" in text


async def test_without_colours_the_paths_are_still_told_apart(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        app.colours = "none"  # type: ignore[attr-defined]
        screen = await opened(pilot)
        sheet = screen.map.view.sheet
        assert sheet is not None
        assert {"N", "M", "A", "G"} <= set(text_of(app))
        assert {"░", "▒"} <= set(text_of(app))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("descents")
    execute(prepare(load_scenario("descent", ["descent.steps=60"]), out=root / "valley"))
    execute(prepare(load_scenario("newton-root"), out=root / "root"))
    execute(prepare(load_scenario("linear-regression", ["descent.steps=60"]), out=root / "line"))
    return root


@pytest.mark.parametrize("size", SIZES)
async def test_a_recorded_run_is_gone_through_and_explained(root: Path, size: tuple[int, int]) -> None:
    app = app_on(root)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        app.current_run = root / "valley"
        await settle(pilot, lambda: not screen.playback.can_edit and "momentum" in text_of(app) and quiet(screen))
        assert "done  step 60" in text_of(app)
        await pilot.press("left_square_bracket")
        await settle(pilot, lambda: "done  step 40" in text_of(app))
        assert [len(each.path) for each in screen.shown.walkers] == [41, 41, 41, 9]  # type: ignore[union-attr]
        await pilot.press("w")
        await settle(pilot, lambda: isinstance(app.screen, WhyScreen) and "∇f" in text_of(app))
        x, y = walker(screen, "gradient").path[-2].tolist()
        assert f"{valley(x, y)[1]:.6g}".replace("-", "−") in text_of(app)
        await pilot.press("escape")
        await pilot.press("space")  # a run that has ended takes no requests, and the live methods do not move
        await pilot.press("escape")
        await settle(pilot, lambda: screen.playback.can_edit)
        assert "step 60" in text_of(app)
        assert "arrived  8" in text_of(app)


@pytest.mark.parametrize("run", ["root", "line"])
async def test_runs_of_one_variable_and_of_a_line_are_shown(root: Path, run: str) -> None:
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        app.current_run = root / run
        await settle(pilot, lambda: not screen.playback.can_edit and quiet(screen))
        text = text_of(app)
        assert ("f(x) = x**2 - 2" if run == "root" else "f(w, b) = mean of") in text
        assert "●" in text


async def test_a_hostile_recording_is_refused_with_an_error(tmp_path: Path) -> None:
    """Frames of the right kind that another program may have written."""
    facts = [
        {"methods": HOSTILE, "f": HOSTILE},
        {"methods": [HOSTILE], "f": HOSTILE},
        {"methods": [HOSTILE], "f": "x", "settings": [{"rate": HOSTILE}], "steps": [HOSTILE]},
        {"methods": [HOSTILE, "b"], "f": "x.__class__", "rules": [1], "rests": {}, "names": 7},
    ]
    path = [np.zeros((3, 1)), np.full((2, 2), np.nan), np.zeros((2, 7)), np.array([[1e300], [-1e300]])]
    runs = []
    for at, (told, points) in enumerate(zip(facts, path, strict=True)):
        run = txlab.record(f"bad{at}", root=tmp_path, steps=3)
        run.frame(1, {"0/path": points, "0/value": np.zeros(4), "1/path": points}, facts=told)
        run.close("done", "")
        info = run.path / "run.json"
        runs.append(run.path)
        info.write_text(info.read_text().replace('"kind": "recorded"', '"kind": "descent"'))
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        for bad in runs:
            app.current_run = bad
            await pilot.pause(0.3)
            await settle(pilot, lambda: screen.computing.idle)
            await pilot.press("w", "escape", "v", "tab", "z", "escape", "escape")
        assert app._exception is None
        await settle(pilot, lambda: quiet(screen))


async def test_long_labels_of_an_axis_do_not_push_the_picture_out_of_its_place(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await type_f(pilot, screen, "123456789*x**2 - 2")
        await order(pilot, screen, "full_stop")
        view = screen.map.view
        assert view.sheet is not None
        assert view.left > 8
        assert view.left + view.sheet.columns <= view.size.width


def test_a_graph_is_framed_by_its_minima() -> None:
    x = np.linspace(-3, 3, 400)
    low, high = heights(Graph(x, x**4 - 3 * x**2 + x), [-3.5], [2.0])
    assert -5 < low < -3.5
    assert high < 25  # f(3) is 57, and would leave the minima a tenth of the rows
    low, high = heights(Graph(x, x**2), [0.0], [1.0])
    assert 1 < high < 4
    assert heights(Graph(x, x), [0.0], [1.0])[1] > 2.5  # without a minimum, the graph


async def test_newton_shows_h_and_goes_on_where_f_is_not_convex_when_asked(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await type_f(pilot, screen, "x**2 - y**2 + x*y")
        choose(screen, "newton-minimum")
        await settle(pilot, lambda: "its eigenvalues  −2.236  2.236" in text_of(app))
        await order(pilot, screen, "full_stop")
        await settle(pilot, lambda: "not convex" in walker(screen, "newton-minimum").rests)
        await order(pilot, screen, "p")
        assert "rests where f is not convex" in text_of(app)
        await order(pilot, screen, "plus")
        await settle(pilot, lambda: "goes on where f is not convex" in text_of(app))
        await order(pilot, screen, "full_stop", "full_stop", "full_stop")
        await settle(pilot, lambda: walker(screen, "newton-minimum").rests == "arrived")
        assert np.allclose(walker(screen, "newton-minimum").path[-1], 0)
