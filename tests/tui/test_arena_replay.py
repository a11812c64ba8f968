"""Recorded runs of decisions in the Arena: frames on the time line, worlds from their tables, and the way back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from arena_screen import notices, opened, order
from picture import text_of
from recorded import HOSTILE, app_on, make_run, settle

from txlab.runs.process import execute, prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.screens.arena import ArenaScreen
from txlab.tui.screens.arena_memory import MOST_FRAMES, MOST_POINTS, Recording, Returns
from txlab.tui.widgets.why import WhyScreen


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of planning and one of control."""
    root = tmp_path_factory.mktemp("decisions")
    execute(prepare(load_scenario("gridworld"), out=root / "planned"))
    small = ["control.runs=3", "control.episodes=40", "record.frame_every=10"]
    execute(prepare(load_scenario("cliff", small), out=root / "controlled"))
    return root


async def shown(pilot: object, app: object, run: Path) -> ArenaScreen:
    screen = await opened(pilot)  # type: ignore[arg-type]
    app.current_run = run  # type: ignore[attr-defined]
    await settle(pilot, lambda: screen.replaying and screen.frame is not None, 300)  # type: ignore[arg-type]
    return screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_planning_run_is_looked_at_sweep_by_sweep(root: Path, size: tuple[int, int]) -> None:
    app = app_on(root)
    async with app.run_test(size=size) as pilot:
        screen = await shown(pilot, app, root / "planned")
        assert "24.4" in text_of(app)  # V* of S&B figure 3.5
        await pilot.press("left_curly_bracket")
        await settle(pilot, lambda: screen.frame is not None and screen.frame.step == 0, 300)
        assert "24.4" not in text_of(app)
        await pilot.press("right_curly_bracket")
        await settle(pilot, lambda: "24.4" in text_of(app), 300)
        screen.cursor = (0, 1)
        await pilot.press("w")
        assert isinstance(app.screen, WhyScreen)
        await settle(pilot, lambda: "residual" in text_of(app) or "γ" in text_of(app), 300)
        await pilot.press("escape", "m")
        assert not screen.editing
        await pilot.press("escape", "escape")
        assert not screen.replaying
        assert "Cliff walking" in text_of(app)


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
        await settle(pilot, lambda: app.screen is not screen, 300)
        assert "controlled" in text_of(app) or "planned" in text_of(app)
        await pilot.press("escape")
        screen.open_world({"name": "frozen-lake"})
        await settle(pilot, lambda: not screen.replaying and "Frozen lake" in text_of(app), 300)
        await order(pilot, screen, "full_stop")
        assert app._exception is None


def heads(app: object) -> str:
    return "\n".join(text_of(app).splitlines()[3:5])  # type: ignore[arg-type]


async def test_a_run_of_another_kind_leaves_the_learners_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path, "gpt", text=HOSTILE)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await settle(pilot, lambda: screen.foreign, 300)
        assert not screen.replaying
        await order(pilot, screen, "full_stop")
        assert screen.learning.updates == 1
        assert not notices(app)


def test_a_long_learning_keeps_few_frames_of_all_of_it() -> None:
    from txlab.experiments.protocol import Frame

    recording = Recording()
    for step in range(5000):
        recording.add(Frame(step, {"0/v": np.zeros(10)}), None)  # type: ignore[arg-type]
    assert len(recording.frames) <= MOST_FRAMES
    assert recording.steps[0] == 0
    assert recording.steps[-1] > 4900
    found = recording.at(2500)
    assert found is not None
    assert abs(found[0].step - 2500) < 50


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
