"""Marked runs are compared: their curves together, and a table of what differs and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from picture import text_of
from recorded import app_on, make_run, settle
from textual.pilot import Pilot

import txlab
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario
from txlab.tui.screens.lab.comparison import ComparisonDialog
from txlab.tui.widgets.chart import Chart


def run_of(root: Path, *overrides: str, steps: int = 20) -> Path:
    """A run of gpt-tiny with these settings, whose numbers are those of another one."""
    run = prepare(load_scenario("gpt-tiny", list(overrides)), root=root)
    other = make_run(root.parent / "numbers", f"n{len(list(root.iterdir()))}", steps=steps)
    (run / "events.jsonl").write_bytes((other / "events.jsonl").read_bytes())
    info = RunInfo.load(RunDirectory(run))
    info.status, info.step = "done", steps
    info.save(RunDirectory(run))
    return run


async def in_runs(pilot: Pilot[None], count: int) -> Any:
    app = pilot.app
    await settle(pilot, lambda: len(app.screen.runs.paths) == count and len(app.screen.runs.glances) == count)
    await pilot.press("tab")
    return app.screen.runs


async def test_marked_runs_are_compared_by_their_curves_and_by_what_differs(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    paths = [
        run_of(root, "train.learning_rate=0.016", "seed=5"),
        run_of(root, "train.learning_rate=0.03", "seed=5", steps=30),
        run_of(root, "seed=5", "model.layers=3"),
    ]
    default = load_scenario("gpt-tiny", []).scenario.train.learning_rate
    app = app_on(root)
    async with app.run_test(size=(120, 40)) as pilot:
        runs = await in_runs(pilot, 3)
        await pilot.press("space", "space")
        assert len(runs.marked) == 2
        await pilot.press("space")
        assert sorted(runs.marked) == sorted(path.absolute() for path in paths)
        assert "enter compare" in text_of(app)
        await pilot.press("enter")
        await settle(pilot, lambda: isinstance(app.screen, ComparisonDialog))
        dialog = app.screen
        assert isinstance(dialog, ComparisonDialog)
        columns, rows = dialog.rows()
        titles = [column.title for column in columns]
        assert sorted(titles[1:3]) == ["layers", "learning_rate"]  # not the seed, which all share
        assert titles[3:] == ["result", "step", "time"]
        rates = {row[titles.index("learning_rate")] for row in rows}
        assert {"0.016", "0.03", str(default)} == rates  # a setting that was not changed has its scenario's value
        assert len({row[0] for row in rows}) == 3
        assert not any("seed" in row[0] for row in rows)
        chart = dialog.query_one(Chart)
        assert len(chart.series) == 3
        assert sorted(int(each.steps[-1]) for each in chart.series) == [20, 20, 30]
        chosen = dialog.comparison.runs[1].path
        await pilot.press("down", "enter")
        await settle(pilot, lambda: app.current_run == chosen.absolute())


async def test_escape_takes_the_marks_away_and_enter_opens_again(tmp_path: Path) -> None:
    for name in ("alpha", "beta"):
        make_run(tmp_path, name)
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        runs = await in_runs(pilot, 2)
        await pilot.press("space")
        assert len(runs.marked) == 1
        assert "enter open" in text_of(app)  # one run has nothing to be compared with
        await pilot.press("k", "space")  # the same again
        assert runs.marked == []
        await pilot.press("space", "space", "escape")
        assert runs.marked == []
        assert "enter open" in text_of(app)


async def test_the_metric_that_most_runs_share_is_drawn_and_the_others_are_named(tmp_path: Path) -> None:
    for name, metric in (("alpha", "reward"), ("beta", "loss"), ("gamma", "loss")):
        run = txlab.record(name, root=tmp_path, steps=20)
        for step in range(1, 21):
            run.log(step, **{metric: 1.0 / step})
        run.close()
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await in_runs(pilot, 3)
        await pilot.press("space", "space", "space", "enter")
        await settle(pilot, lambda: isinstance(app.screen, ComparisonDialog))
        assert len(app.screen.query_one(Chart).series) == 2
        shown = " ".join(text_of(app).split())
        assert "3 runs: loss" in shown
        assert "not drawn, as a chart has one metric: alpha (reward)" in shown
        assert "reward 0.050" in shown  # a result names its metric where they differ
