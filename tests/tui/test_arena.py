"""The Arena: two learners run, are inspected and tuned, and walk greedily; their world is edited while they learn."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from arena_screen import app_on, learn, notices, opened, order, quiet, settings_of, walks
from picture import text_of
from recorded import settle

from txlab.drawing.palette import rgb_to_oklab
from txlab.drawing.world_scene import SHOWS
from txlab.engine.rl.maps.compiling import compile_map
from txlab.engine.rl.maps.drawn import parse_map
from txlab.engine.rl.settings import Settings
from txlab.errors import LabError
from txlab.sources.live import PACES
from txlab.tui.screens.arena import worlds
from txlab.tui.screens.arena.choosing import size_of
from txlab.tui.screens.base_screens import NavigationLine
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.chart import Chart
from txlab.tui.widgets.why import WhyScreen

SIZES = [(80, 24), (120, 40)]


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("size", SIZES)
async def test_it_opens_on_the_cliff_with_two_learners_ready(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        text = text_of(app)
        assert "Cliff walking" in text
        assert text.index("SARSA") < text.index("Q-learning")
        for key in ("space run", ". update", "m edit map", "- + speed", "? help", "paused", "nothing learnt yet"):
            assert key in text, (key, text)
        assert app.query_one(NavigationLine)


@pytest.mark.parametrize("size", SIZES)
async def test_one_update_shows_its_numbers_under_the_rules_letters(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        await order(pilot, screen, "full_stop")
        rows = text_of(app).splitlines()
        above = next(at for at, row in enumerate(rows) if "Q(s,a) ←" in row)
        letters, numbers = rows[above], rows[above + 1]
        assert "α" in letters
        assert numbers[letters.index("α") :].split()[0] == ".5"
        assert numbers[letters.index(" r ") + 1 :].split()[0] in ("−1", "−100")
        assert screen.session.picture is not None
        assert screen.session.picture.frame.facts["updates"] == [1, 1]


async def test_space_runs_and_pauses_and_the_speed_is_shown(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        assert "as fast as it goes" in text_of(app)
        await pilot.press("space")
        await settle(pilot, lambda: screen.session.updates > 1000)
        assert "space pause" in text_of(app)
        await settle(pilot, lambda: "updates/s" in text_of(app))
        await pilot.press("space")
        await settle(pilot, lambda: quiet(screen))
        stood = screen.session.updates
        await pilot.pause(0.1)
        assert screen.session.updates == stood
        await pilot.press(*["minus"] * len(PACES))
        assert "one update a key" in text_of(app)
        await pilot.press("s")
        await settle(pilot, lambda: list(tmp_path.glob("*.svg")))
        await order(pilot, screen, "space")
        assert screen.session.updates == stood + 1
        await pilot.press("plus", "plus")
        assert screen.session.pace == PACES[2]


async def test_each_step_is_seen_at_a_few_updates_a_second(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        screen.session.pace = PACES[3]
        await pilot.press("space")
        await settle(pilot, lambda: screen.session.updates >= 6)
        await pilot.press("space")
        await settle(pilot, lambda: quiet(screen))
        steps = screen.session.recording.steps
        assert steps[:5] == list(range(5)), steps


@pytest.mark.parametrize("size", SIZES)
async def test_the_learners_part_and_bend_round_a_wall(tmp_path: Path, size: tuple[int, int]) -> None:
    """A typical session: start, see the learners diverge, build a wall across the path, see the policy change."""
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 60_000)
        assert screen.curves[1].greedy_returns[-1] == -13  # along the edge
        assert screen.curves[0].returns[-20:].mean() > screen.curves[1].returns[-20:].mean()  # SARSA explores safely
        (path, value, fate) = walks(screen)[1]
        world = screen.world
        assert world is not None
        assert (value, fate) == (-13, "")
        crossed = world.layout.state_at(2, 5)
        assert crossed in path
        before = screen.session.updates
        await pilot.press("m")
        screen.cursor = (2, 5)
        await order(pilot, screen, "number_sign")
        assert screen.world is not None
        assert screen.world.layout.state_at(2, 5) is None
        assert screen.session.updates == before  # nothing was forgotten
        await learn(pilot, screen, 60_000)
        (path, value, _) = walks(screen)[1]
        assert value == -15
        places = [tuple(screen.world.layout.place[state, 1:].tolist()) for state in path]
        assert (2, 5) not in places
        assert (1, 5) in places
        await pilot.press("escape")
        assert not screen.editing


async def test_an_impossible_edit_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 500)
        world = screen.world
        assert world is not None
        await pilot.press("m")
        screen.cursor = (2, 11)  # the only way to the goal
        await order(pilot, screen, "number_sign")
        assert screen.world is world
        assert screen.session.updates == 500
        assert len(notices(app).splitlines()) == 1, notices(app)
        screen.cursor = (0, 0)
        await order(pilot, screen, "h")
        assert screen.world.layout.marks.get((0, 0)) == "H"
        await pilot.press("r")
        await pilot.press(*["backspace"] * 3, *"no", "enter")
        assert "not a number" in text_of(app)
        await pilot.press(*["backspace"] * 2, "minus", "3", "enter")
        await settle(pilot, lambda: quiet(screen))
        assert screen.world.map is not None
        assert screen.world.map.tile(0, 0).pays == -3
        await pilot.press("p", *["backspace"] * 3, *"0.2", "enter")
        await settle(pilot, lambda: quiet(screen))
        assert screen.world.map.slip == 0.2


async def test_the_only_goal_can_be_moved_by_taking_it_away_first(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        world = compile_map(parse_map("S...\n...G"))
        screen.enter_world(world, {"map": "S...\n...G"})
        await settle(pilot, lambda: quiet(screen) and screen.world is not None and screen.world.layout.width == 4)
        await learn(pilot, screen, 50)
        await pilot.press("m")
        screen.cursor = (1, 3)
        await order(pilot, screen, "full_stop")
        assert screen.world is not None
        assert "G" not in screen.world.layout.marks.values()
        assert "neither a goal nor a reward" in notices(app)
        await learn(pilot, screen, 50)
        screen.cursor = (0, 3)
        await order(pilot, screen, "g")
        assert screen.world.layout.marks.get((0, 3)) == "G"
        assert screen.session.updates == 100


async def test_the_greedy_walk_tells_what_it_earns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 60_000)
        monkeypatch.setattr(worlds, "WALK", 0.02)
        await pilot.press("g")
        await settle(pilot, lambda: len(screen.worlds.walked.get(1, ())) > 3)
        assert "the greedy policy walks" in text_of(app)
        await settle(pilot, lambda: "Q-learning: greedy return −13 in 13 steps" in notices(app))
        await order(pilot, screen, "full_stop")
        assert not screen.worlds.walked


async def test_why_answers_for_the_last_update_and_for_a_chosen_cell(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 3000)
        for keys in (["w"], ["up", "right", "w"]):
            await pilot.press(*keys)
            assert isinstance(app.screen, WhyScreen)
            await settle(pilot, lambda: "asking the learner" not in text_of(app))
            assert "MATH" in text_of(app) or "α" in text_of(app), text_of(app)
            await pilot.press("escape")
        screen.cursor = (3, 5)  # the cliff
        await pilot.press("w")
        assert "no state" in notices(app)


async def test_numbers_are_turned_and_typed_while_it_learns(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await order(pilot, screen, "p", "left")
        assert settings_of(screen)[0].alpha == 0.4
        await order(pilot, screen, "down", "right", "right")
        assert settings_of(screen)[0].epsilon == 0.3
        await order(pilot, screen, "tab", "up", "greater_than_sign")
        assert settings_of(screen)[1].alpha == 0.7
        await pilot.press("enter", *["backspace"] * 3, *"1/4", "enter")
        await settle(pilot, lambda: quiet(screen))
        assert settings_of(screen)[1].alpha == 0.25
        await pilot.press("enter", *["backspace"] * 4, *"-7", "enter")
        await settle(pilot, lambda: "7" in notices(app))
        assert settings_of(screen)[1].alpha == 0.25


async def test_a_parameter_turned_twice_before_a_picture_moves_two_stops(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await order(pilot, screen, "p")
        before = settings_of(screen)[0].alpha
        for _ in range(3):  # in one turn of the event loop, so that nothing new is shown between them
            screen.parameters.action_turn(-1)
        await settle(pilot, lambda: quiet(screen))
        stops = screen.parameters.chosen.stops if screen.parameters.chosen else ()
        assert settings_of(screen)[0].alpha == stops[stops.index(before) - 3]


async def test_sides_and_rules_come_and_go(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.press("u", *"expected", "enter")
        await settle(pilot, lambda: quiet(screen) and "Expected SARSA" in text_of(app))
        await order(pilot, screen, "tab", "a")
        assert len(screen.shown) == 1
        assert "Expected SARSA   α" not in text_of(app)
        await order(pilot, screen, "a")
        assert len(screen.shown) == 2
        assert "Expected SARSA   α" in text_of(app)
        await learn(pilot, screen, 100)
        await order(pilot, screen, "n")
        assert screen.session.updates == 0
        assert screen.curves[0].episodes.size == 0


async def test_earlier_frames_are_shown_while_it_continues(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        for _ in range(4):
            await order(pilot, screen, "full_stop")
        await pilot.press("left_square_bracket", "left_square_bracket")
        await pilot.pause()
        assert screen.playback.at == 2
        assert screen.frame is not None
        assert screen.frame.step == 2
        await pilot.press("w")
        assert isinstance(app.screen, WhyScreen)
        await settle(pilot, lambda: "asking" not in text_of(app))
        await pilot.press("escape", "right_curly_bracket")
        await pilot.pause()
        assert screen.playback.at is None
        assert screen.frame.step == 4
        await pilot.press("left_curly_bracket", "full_stop")
        await settle(pilot, lambda: quiet(screen))
        assert screen.frame.step == 5


async def test_other_worlds_are_opened_and_bad_ones_are_readable_errors(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    bad = tmp_path / "[red]map[x].txt"
    bad.write_text("slip: 7\n\nS.G\n")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 200)
        cliff = screen.world
        screen.choice.open_world({"file": str(bad)})
        await settle(pilot, lambda: bool(notices(app)))
        assert "slip" in notices(app)
        assert screen.world is cliff
        assert screen.session.updates == 200
        await pilot.press("o")
        await settle(pilot, lambda: app.screen is not screen)
        await pilot.press(*"frozen lake", "enter")
        await settle(pilot, lambda: screen.world is not cliff and quiet(screen))
        assert screen.world is not None
        assert screen.world.name == "frozen-lake"
        assert [each.rule for each in settings_of(screen)] == ["sarsa", "q-learning"]


async def test_worlds_without_maps_are_drawn_and_not_edited(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        for name in ("taxi", "gambler", "car-rental", "bias"):
            screen.choice.open_world({"name": name})
            await settle(
                pilot, lambda name=name: screen.world is not None and screen.world.name == name and quiet(screen)
            )
            await learn(pilot, screen, 300)
            assert not screen.show_vertical_scrollbar, name
            for _ in SHOWS:
                await pilot.press("v")
            if screen.world is not None and screen.world.map is None:
                app.clear_notifications()
                await pilot.press("m")
                assert "cannot be edited" in notices(app)
        assert app._exception is None


@pytest.mark.parametrize("ascii", [False, True])
async def test_no_size_breaks_it(tmp_path: Path, ascii: bool) -> None:
    app = app_on(tmp_path, ascii=ascii)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 2000)
        for keys in (["v", "c", "p"], ["p", "m"]):
            await pilot.press(*keys)
            for size in ((20, 5), (59, 19), (1, 1), (150, 45)):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                text = text_of(app)
                assert not ascii or text.isascii(), [c for c in text if not c.isascii()]
        assert app._exception is None


async def test_leaving_ends_the_learning_immediately(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press("space")
        await settle(pilot, lambda: screen.session.updates > 100)
        session = screen.session
        before = set(threading.enumerate())
    end = time.monotonic() + 5
    while session.alive and time.monotonic() < end:
        time.sleep(0.01)
    assert not session.alive
    stood = session.updates
    time.sleep(0.1)
    assert session.updates == stood
    assert set(threading.enumerate()) <= before


async def test_the_other_room_is_behind_t_under_the_same_name(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("t")
        await settle(pilot, lambda: app.current_mode == "play")
        assert "6 Arena" in text_of(app)
        await pilot.press("t")
        await settle(pilot, lambda: app.current_mode == "arena")


async def test_bands_over_seeds_are_computed_in_the_background_and_removed(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 5000)
        await pilot.press("b")
        await settle(pilot, lambda: screen.below.banding.idle and len(screen.below.bands) == 2)
        mean, low, high = screen.below.bands[0]
        assert len(mean) >= 200
        assert (low <= mean).all()
        assert (mean <= high).all()
        assert "30 seeds" in text_of(app)
        await order(pilot, screen, "less_than_sign")  # another α: other bands
        await settle(pilot, lambda: screen.below.banding.idle and len(screen.below.bands) == 2)
        assert (screen.below.bands[0][0] != mean[: len(screen.below.bands[0][0])]).any()
        await pilot.press("b")
        assert not screen.below.bands


async def test_an_order_of_another_thread_and_one_of_the_keys_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Both find the learning thread asleep; this used to deadlock between the lock and the event loop."""
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await settle(pilot, lambda: not screen.session.alive)
        done = threading.Event()
        other = threading.Thread(target=screen.session.edit, args=(lambda _: done.set(),), daemon=True)
        other.start()
        time.sleep(0.05)  # the event loop is blocked meanwhile
        screen.session.pause()
        await settle(pilot, done.is_set)
        assert done.is_set()


async def test_why_begins_with_the_update_just_made_and_goes_through_the_cells_actions(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await order(pilot, screen, "full_stop")
        assert screen.frame is not None
        last = screen.frame.facts["last"][0]
        assert screen.world is not None
        action = screen.world.process.actions[last["action"]]
        await pilot.press("w")
        await settle(pilot, lambda: "1 of" in text_of(app))
        assert f"for {action} in " in text_of(app), text_of(app)
        assert "Q(s′,a′)" in text_of(app)  # SARSA's own equation
        told = set()
        for _ in range(5):
            told.add(next(line for line in text_of(app).splitlines() if "why " in line and "?" in line))
            await pilot.press("right")
            await pilot.pause()
        assert len(told) >= 4, told
        assert "1 of" in text_of(app)


async def test_one_side_alone_loses_nothing_and_a_second_learner_resets_none(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 300)
        live = screen.session.experiment
        assert live is not None
        await pilot.press("tab", "a")
        await pilot.pause()
        assert list(screen.shown) == [1]
        assert "Q-learning   α" in text_of(app)
        assert "SARSA   α" not in text_of(app)
        await pilot.press("a")
        await pilot.pause()
        assert "SARSA   α" in text_of(app)
        assert screen.session.experiment is live
        assert screen.session.updates == 300
        table = live.match.agents[0].q()
        live.match.agents.pop()  # a match of one learner
        live.match.asked.pop()
        live.memory.pop()
        screen.session.look()
        await settle(pilot, lambda: quiet(screen) and screen.sides == 1)
        await order(pilot, screen, "a")
        assert screen.sides == 2
        assert np.array_equal(live.match.agents[0].q(), table, equal_nan=True)
        assert [agent.updates for agent in live.match.agents] == [300, 0]


async def test_q_in_four_directions_has_room_on_the_cliff_at_120_columns(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 20_000)
        await pilot.press("v")
        await pilot.pause()
        assert "no room" not in text_of(app)
        assert screen.planned is not None
        assert screen.planned.cell.quad


async def test_the_chart_takes_at_most_half_of_a_large_terminal(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(200, 60)) as pilot:
        screen = await opened(pilot)
        assert screen.planned is not None
        assert 0 < screen.planned.chart < 30, screen.planned


async def test_sarsa_takes_the_short_way_after_five_keys(tmp_path: Path) -> None:
    """From the Lab: 6, p, down to ε, home for its lowest value, space. Without exploration the edge is safe."""
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)  # 6
        await order(pilot, screen, "p", "down", "home")
        assert "‹ε 0›" in text_of(app)
        await pilot.press("space")
        await settle(pilot, lambda: screen.session.updates > 20_000)
        await pilot.press("space")
        await settle(pilot, lambda: quiet(screen))
        path, value, fate = walks(screen)[0]
        assert (len(path) - 1, value, fate) == (13, -13, "")


async def test_a_zero_typed_over_the_old_value_is_zero(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await order(pilot, screen, "p", "down", "enter", "0", "enter")
        assert settings_of(screen)[0].epsilon == 0


async def test_a_learner_that_diverges_says_so_and_what_helps(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        learner = Settings("sarsa-lambda", alpha=0.9, lam=0.95, traces="accumulating")
        screen.begin(lambda old: old.another([learner]))
        await settle(pilot, lambda: quiet(screen) and screen.sides == 1)
        await learn(pilot, screen, 400)
        assert "diverges" in text_of(app), text_of(app)
        assert "helps" in text_of(app)


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (120, 40)])
async def test_the_line_of_each_learner_that_diverges_says_so(tmp_path: Path, size: tuple[int, int]) -> None:
    """Also where its update has no room: at `c`, and that of the side that is not chosen."""
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        learner = Settings("sarsa-lambda", alpha=0.9, lam=0.95, traces="accumulating")
        screen.begin(lambda old: old.another([Settings("q-learning"), learner]))
        await settle(pilot, lambda: quiet(screen) and settings_of(screen)[1:] == [learner])
        await learn(pilot, screen, 400)
        await pilot.press("c")
        await pilot.pause()
        heads = [str(screen.query_one(f"#head{place}", Words).text) for place in range(2)]
        assert ["diverges" in head for head in heads] == [False, True], heads
        assert "diverges" in text_of(app)


@pytest.mark.parametrize("theme", ["txlab-dark", "txlab-light"])
async def test_the_cursor_stands_out_from_the_value_under_it(tmp_path: Path, theme: str) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        app.theme = theme
        screen = await opened(pilot)
        await learn(pilot, screen, 3000)
        await pilot.press("up", "right")
        await pilot.pause()
        view = screen.worlds.chosen_view
        assert view.ramp is not None
        seen = 0
        for level, fill in enumerate(view.ramp.fill):
            if fill is not None:
                colour = view.style_of("cursor", level).bgcolor
                assert colour is not None
                assert colour.triplet is not None
                assert abs(rgb_to_oklab(tuple(colour.triplet))[0] - rgb_to_oklab(fill)[0]) > 0.3, level
                seen += 1
        assert seen > 2


async def test_the_first_arrow_moves_the_cursor_from_the_learner(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        row, column = screen.worlds.place_asked()
        await pilot.press("up")
        assert screen.cursor == (row - 1, column)
        await pilot.press("right")
        assert screen.cursor == (row - 1, column + 1)


async def test_an_empty_map_is_drawn_and_learnt_in_nine_keys(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.press("o")
        await settle(pilot, lambda: len(app.screen_stack) > 1)
        await pilot.press("enter")  # it is the first choice
        await settle(pilot, lambda: "6 rows of 8 cells" in text_of(app))
        await pilot.press("enter")
        await settle(pilot, lambda: screen.editing)
        assert screen.world is not None
        assert screen.world.map is not None
        assert screen.world.map.rows == (".......G", *["........"] * 4, "S.......")
        await order(pilot, screen, "up", "right", "number_sign", "escape")
        assert screen.world.map.rows[4] == ".#......"
        await order(pilot, screen, "n")
        await pilot.press("space")
        await settle(pilot, lambda: any(len(each.returns) for each in screen.curves))


def test_a_size_that_no_map_has_is_refused() -> None:
    for text in ("", "6", "1 x 4", "6 x 401", "six x two", "2 x 3 x 4"):
        with pytest.raises(LabError, match="is not a size; write rows x columns, as 6 x 8, each from 2 to 400"):
            size_of(text)
    assert size_of("6 × 8") == size_of("6x8") == size_of(" 6 8 ") == (6, 8)


async def test_a_changed_parameter_says_what_goes_on_and_what_begins_anew(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 200)
        await order(pilot, screen, "greater_than_sign")
        await settle(pilot, lambda: "changed: space goes on, n begins anew" in text_of(app))
        await order(pilot, screen, "p")
        assert "changed: space goes on, n begins anew" in text_of(app)
        await order(pilot, screen, "n")
        await settle(pilot, lambda: "n begins anew" not in text_of(app))


async def test_the_line_of_a_learner_and_its_greedy_points_have_two_colours(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await learn(pilot, screen, 3000)
        series = screen.query_one("#returns", Chart).series
        lines = {each.colour for each in series if each.style == "line"}
        points = [each for each in series if each.style == "points"]
        assert points  # of those whose greedy policy arrives
        assert all(each.label == "greedy" and each.colour not in lines for each in points)
