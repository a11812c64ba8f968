"""Recorded reinforcement learning runs in the Arena: frames on the time line, worlds from tables, and the way back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from arena_screen import app_on, notices, opened, order, quiet, settings_of
from picture import text_of
from recorded import HOSTILE, make_run, settle

from txlab.engine.rl.rules import make_agent
from txlab.engine.rl.settings import Settings
from txlab.engine.rl.worlds import world_named
from txlab.errors import LabError
from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.screens.arena.learners import CIRCLES, LOST, MOST_POINTS, Returns, expected_return, fate_of
from txlab.tui.screens.arena.recorded import learners_of
from txlab.tui.screens.arena.screen import ArenaScreen
from txlab.tui.screens.arena.words import side_head, titles_of
from txlab.tui.widgets.why import WhyScreen
from txlab.tui.widgets.world import WorldView


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of planning and one of control."""
    root = tmp_path_factory.mktemp("decisions")
    execute(prepare(load_scenario("gridworld"), out=root / "planned"))
    small = ["control.runs=3", "control.episodes=40", "record.frame_every=10"]
    execute(prepare(load_scenario("cliff", small), out=root / "controlled"))
    execute(prepare(load_scenario("maximisation-bias", small), out=root / "biased"))
    execute(prepare(load_scenario("taxi-plan"), out=root / "taxi"))
    walked = ["predict.runs=3", "predict.n=[1, 4]", "predict.alpha=[0.2, 0.4]"]
    execute(prepare(load_scenario("random-walk-n-step", walked), out=root / "walked"))
    execute(prepare(load_scenario("blackjack-plan"), out=root / "cards"))
    return root


async def shown(pilot: object, app: object, run: Path) -> ArenaScreen:
    screen = await opened(pilot)  # type: ignore[arg-type]
    app.current_run = run  # type: ignore[attr-defined]
    await settle(pilot, lambda: not screen.playback.can_edit and screen.frame is not None)  # type: ignore[arg-type]
    return screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_planning_run_is_looked_at_sweep_by_sweep(root: Path, size: tuple[int, int]) -> None:
    app = app_on(root)
    async with app.run_test(size=size) as pilot:
        screen = await shown(pilot, app, root / "planned")
        assert "24.4" in text_of(app)  # V* of S&B figure 3.5
        await pilot.press("left_curly_bracket")
        await settle(pilot, lambda: screen.frame is not None and screen.frame.step == 0)
        assert "24.4" not in text_of(app)
        await pilot.press("right_curly_bracket")
        await settle(pilot, lambda: "24.4" in text_of(app))
        screen.cursor = (0, 1)
        await pilot.press("w")
        assert isinstance(app.screen, WhyScreen)
        await settle(pilot, lambda: "residual" in text_of(app) or "γ" in text_of(app))
        await pilot.press("escape", "escape", "escape")
        assert screen.playback.can_edit
        assert "Cliff walking" in text_of(app)


@pytest.mark.parametrize(("run", "asked"), [("walked", "n-step-td n=1"), ("cards", "v 10?"), ("planned", "V(s′)")])
async def test_without_a_cursor_w_asks_for_the_state_where_episodes_begin(root: Path, run: str, asked: str) -> None:
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(pilot, app, root / run)
        await pilot.press("w")
        await settle(pilot, lambda: asked in text_of(app))


async def test_a_run_with_three_learners_is_gone_through_with_tab(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, app, root / "controlled")
        assert screen.sides == 3
        seen = set()
        for _ in range(3):
            seen |= {title for title in ("SARSA", "Q-learning", "Expected SARSA") if title in heads(app)}
            await pilot.press("tab")
            await pilot.pause()
        assert seen == {"SARSA", "Q-learning", "Expected SARSA"}
        assert len(screen.curves[0].episodes) > 5
        await pilot.press("o")
        await settle(pilot, lambda: app.screen is not screen)
        assert "controlled" in text_of(app) or "planned" in text_of(app)
        await pilot.press("escape")
        screen.choice.open_world({"name": "frozen-lake"})
        await settle(pilot, lambda: screen.playback.can_edit and "Frozen lake" in text_of(app))
        await order(pilot, screen, "full_stop")
        assert app._exception is None


async def test_a_recorded_run_continues_by_hand(root: Path) -> None:
    """The key l makes the world and its learners live; until then, keys that need a live match say so."""
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, app, root / "controlled")
        assert "l continue by hand" in text_of(app)
        await pilot.press("space", "full_stop", "p", "u", "n")
        assert not screen.playback.can_edit
        assert len(app.screen_stack) == 1
        assert "l continues" in notices(app)
        await order(pilot, screen, "l")
        assert screen.playback.can_edit
        assert [each.rule for each in settings_of(screen)] == ["sarsa", "q-learning", "expected-sarsa"]
        assert {each.alpha for each in settings_of(screen)} == {0.5}
        assert screen.session.updates == 0
        await order(pilot, screen, "full_stop")
        assert screen.session.updates == 1
        await pilot.press("tab", "tab", "u")  # the third of three also has rules
        assert len(app.screen_stack) == 2
        await pilot.press("escape")
        await order(pilot, screen, "a")  # the chosen one alone; none is lost
        assert list(screen.shown) == [2]
        assert [each.rule for each in settings_of(screen)] == ["sarsa", "q-learning", "expected-sarsa"]
        app.current_run = root / "planned"
        await settle(pilot, lambda: not screen.playback.can_edit and screen.sides == 1)
        await pilot.press("m")
        await settle(pilot, lambda: screen.editing and quiet(screen))
        assert [each.rule for each in settings_of(screen)] == ["policy-iteration"]
        assert screen.session.experiment is not None
        assert screen.session.experiment.world.name == "gridworld"
        assert app._exception is None


async def test_a_layer_with_possible_actions_is_shown_and_y_goes_to_the_next(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, app, root / "taxi")
        await pilot.pause()
        assert screen.world is not None
        view = screen.query_one("#world0", WorldView)
        process, place = screen.world.process, screen.world.layout.place
        assert not process.terminal[place[:, 0] == view.depth].all()
        before = view.depth
        assert screen.world.layout.layers[before] in text_of(app)
        await pilot.press("y")
        assert view.depth == before + 1
        assert screen.world.layout.layers[before + 1] in text_of(app)
        assert "even" not in heads(app)


async def test_the_curve_is_what_the_run_is_looked_at_for(root: Path) -> None:
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, app, root / "biased")
        await settle(pilot, lambda: "share of runs that went left" in text_of(app))
        assert all(each.label == "left" for each in screen.curves)
        assert all(((each.returns >= 0) & (each.returns <= 1)).all() for each in screen.curves)


def heads(app: object) -> str:
    return "\n".join(text_of(app).splitlines()[3:5])  # type: ignore[arg-type]


async def test_a_run_of_another_kind_leaves_the_learners_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path, "gpt", text=HOSTILE)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await settle(pilot, lambda: not screen.playback.watch_run.watching)
        assert screen.playback.can_edit
        await order(pilot, screen, "full_stop")
        assert screen.session.updates == 1
        assert not notices(app)


async def test_choosing_a_run_of_another_kind_brings_the_learners_back(root: Path, tmp_path: Path) -> None:
    """Otherwise the screen would show one run, and its keys would act on another."""
    app = app_on(root)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await shown(pilot, app, root / "planned")
        app.current_run = make_run(tmp_path, "gpt")
        await settle(pilot, lambda: screen.playback.can_edit)
        assert "Cliff walking" in text_of(app)
        app.current_run = root / "planned"
        await settle(pilot, lambda: screen.playback.source is screen.playback.recorded)
        assert screen.playback.run is not None
        assert screen.playback.run.path == root / "planned"


def test_a_walk_that_does_not_arrive_says_so_and_earns_nothing() -> None:
    cliff, lake = (world_named(name).process for name in ("cliff", "frozen-lake"))
    there = int(np.flatnonzero(cliff.terminal)[0])
    assert fate_of([0, 1, 2, there], cliff) == ""
    assert fate_of([5, 6, 0, 1, 2] + [0, 1, 2] * 40, cliff) == CIRCLES
    chance = np.random.default_rng(1)
    assert fate_of(chance.integers(0, 30, 1001).tolist(), cliff) == LOST
    assert fate_of([0, 4] * 50 + [0], lake) == ""  # cut off by the world's own limit, which is its normal return
    assert fate_of([0, 4, 0], lake) == LOST
    assert fate_of([0, 1] * 500, world_named("gridworld").process) == ""  # it has no terminal state


def test_where_chance_decides_the_greedy_return_is_an_expected_one() -> None:
    world = world_named("four-by-three")
    agent = make_agent(world.process, Settings("value-iteration"), 0)
    agent.run(4000)
    expected = expected_return(world.process, agent)
    assert expected is not None
    again = np.random.default_rng(2)
    earned = []
    for _ in range(2000):  # independently: by simulation
        state, total = int(again.choice(world.process.size, p=world.process.start)), 0.0
        for _ in range(200):
            action = int(again.choice(world.process.choices, p=agent.greedy()[state]))
            first, end = world.process.first[state * world.process.choices + action :][:2]
            outcome = first + again.choice(end - first, p=world.process.probability[first:end])
            total += world.process.reward[outcome]
            state = int(world.process.next[outcome])
            if world.process.done[outcome]:
                break
        earned.append(total)
    assert abs(np.mean(earned) - expected) < 4 * np.std(earned) / np.sqrt(len(earned))
    cliff = world_named("cliff").process
    assert expected_return(cliff, make_agent(cliff, Settings(), 0)) is None


def test_learners_of_a_run_are_those_that_the_arena_has() -> None:
    told = [
        {"rule": "evaluation", "title": "policy evaluation", "gamma": 0.9, "sweep": "in place"},
        {"rule": "true-online", "title": "true on-line TD(λ)", "alpha": 0.25, "lam": 0.8, "gamma": 1.0},
        {"rule": "offline-lambda-return", "title": "off-line", "alpha": 7.0, "lam": 0.5},
        {"rule": "sarsa", "alpha": None, "epsilon": 0.02, "policy": "even", "traces": "true-online"},
    ]
    settings, said = learners_of({"sides": told})
    assert [each.rule for each in settings] == ["value-iteration", "td-lambda", "td-lambda", "sarsa"]
    assert [each.gamma for each in settings[:2]] == [0.9, 1.0]
    assert (settings[1].traces, settings[1].alpha, settings[1].lam) == ("true-online", 0.25, 0.8)
    assert settings[2].alpha == Settings().alpha  # 7 is not a step size
    assert settings[3].epsilon == 0.02
    assert "policy evaluation" in said
    planned = {"rule": "policy-iteration", "title": "policy iteration", "gamma": 0.9, "sweep": "in place"}
    ((same,), said) = learners_of({"sides": [planned]})
    assert (same.rule, same.gamma, said) == ("policy-iteration", 0.9, "")
    assert "true on-line" not in said
    with pytest.raises(LabError):
        learners_of({"sides": "none"})


def test_returns_are_means_over_blocks_and_none_is_lost() -> None:
    chance = np.random.default_rng(3)
    values = chance.normal(size=10_007)
    returns = Returns()
    at = 0
    while at < len(values):
        step = int(chance.integers(1, 400))
        returns.extend(values[at : at + step].tolist())
        at += step
    episodes, means = returns.curve()
    assert len(means) <= MOST_POINTS
    assert returns.episodes == len(values)
    whole = len(means) * returns.block
    np.testing.assert_allclose(means, values[:whole].reshape(-1, returns.block).mean(axis=1), atol=1e-12)
    assert episodes[-1] == whole


def test_learners_of_one_rule_are_distinguished_by_what_differs() -> None:
    sides = [
        {"title": "TD(0)", "rule": "td-0", "alpha": 0.05, "gamma": 1.0},
        {"title": "TD(0)", "rule": "td-0", "alpha": 0.1, "gamma": 1.0},
        {"title": "Monte Carlo", "rule": "mc", "alpha": 0.1, "gamma": 1.0},
    ]
    assert titles_of({"sides": sides}, 3, False) == ["TD(0) α .05", "TD(0) α .1", "Monte Carlo"]


def test_a_parameter_without_room_is_left_out_and_not_cut_unless_it_is_the_one_that_is_turned() -> None:
    side = {"title": "Expected SARSA", "rule": "expected-sarsa", "alpha": 0.25, "epsilon": 0.125, "gamma": 0.95}
    whole = side_head({"sides": [side]}, 0, None, None, True, 2, 99, False).plain.splitlines()[0]
    for cells in range(24, 50):
        line = side_head({"sides": [side]}, 0, None, None, True, 2, cells, False).plain.splitlines()[0]
        assert len(line) <= cells
        assert whole.startswith(line)
        assert whole[len(line) :][:1] in ("", " ")
    assert "γ .95" in side_head({"sides": [side]}, 0, None, 2, True, 2, 27, False).plain
