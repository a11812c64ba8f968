"""Screen 7, Feedback: proxy and gold over √KL, β by keys, answers before and now, tokens with their numbers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from feedback_runs import SWEEP, app_on, feedback_run, opened, screen_of
from picture import text_of
from recorded import settle, still_open

import txlab
from txlab.drawing.formatting import number
from txlab.tui.app import TxlabApp
from txlab.tui.screens.feedback.policy import by_root_kl
from txlab.tui.widgets.why import WhyScreen


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return feedback_run(tmp_path, "sweep", step=80, stages=SWEEP)


async def turned(app: TxlabApp, pilot: object, page: str) -> None:
    """Turn to a page and stay there; one that was not chosen follows the stage."""
    await pilot.press("tab")  # type: ignore[attr-defined]
    while screen_of(app).page != page:
        await pilot.press("tab")  # type: ignore[attr-defined]
    await settle(pilot)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40), (200, 60)])
@pytest.mark.parametrize("ascii", [False, True])
async def test_every_page_is_drawn_at_every_size(sweep: Path, size: tuple[int, int], ascii: bool) -> None:
    app = app_on(sweep.parent, sweep)
    app.ascii = ascii
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, app)
        wanted = {"ranking": "rankings", "policy": "gold", "answers": "film: heat", "episodes": "advantage A"}
        for page, text in wanted.items():
            await turned(app, pilot, page)
            await settle(pilot, lambda text=text: text in text_of(app))
            assert not ascii or text_of(app).isascii()
        assert screen.page == "episodes"


async def test_the_curves_of_one_beta_are_strong_and_b_turns_to_the_next(sweep: Path) -> None:
    app = app_on(sweep.parent, sweep)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        chart = screen.policy.chart
        await settle(pilot, lambda: screen.page == "policy" and len(chart.series) == 4)
        assert [(each.label, each.dim) for each in chart.series] == [
            ("proxy, optimised", False), ("gold, wanted", False), ("", True), ("", True)
        ]  # fmt: skip
        await settle(pilot, lambda: "score, β=0 " in text_of(app))
        await pilot.press("b")
        await settle(pilot, lambda: "score, β=0.3 " in text_of(app))
        proxy, gold = chart.series[:2]
        x = np.arange(1, 21) / 5
        assert np.allclose(proxy.steps, x)
        assert np.allclose(proxy.values, x / 2)
        assert np.allclose(gold.values, x - x * x / 4)
        assert "√KL" in text_of(app)
        await settle(pilot, lambda: "β=0.3 1.00 → 0.00" in text_of(app))
        await pilot.press("b")
        assert screen.policy.shown_beta == "/β=0"


async def test_the_curves_end_at_the_step_that_is_looked_at(sweep: Path) -> None:
    app = app_on(sweep.parent, sweep)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await turned(app, pilot, "policy")
        screen.run.timeline.go(55)
        await settle(pilot, lambda: screen.snap is not None and screen.snap.at == 55)
        assert [len(each.steps) for each in screen.policy.chart.series] == [5, 5]
        assert "policy β=0.3 5 of 20" in text_of(app)
        screen.run.timeline.go(5)
        await settle(pilot, lambda: "the policy begins at step 50" in text_of(app))


async def test_a_policy_without_a_reward_model_has_its_gold_score_alone(tmp_path: Path) -> None:
    run = txlab.record("dpo", root=tmp_path, steps=9)
    still_open.append(run)
    for at in range(1, 9):
        run.log(at, loss=1.0, gold=at / 2, root_kl=at / 4, margin=0.1)
    app = app_on(tmp_path, run.path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await turned(app, pilot, "policy")
        await settle(pilot, lambda: [each.label for each in screen.policy.chart.series] == ["gold, wanted"])


async def test_points_that_go_back_are_ordered_by_root_kl(sweep: Path) -> None:
    app = app_on(sweep.parent, sweep)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        assert screen.snap is not None
        series = dict(screen.snap.series)
        back = series["root_kl/β=0"]
        series["root_kl/β=0"] = type(back)(back.name, back.steps, back.values[::-1].copy(), back.times)
        object.__setattr__(screen.snap, "series", series)
        x, y = by_root_kl(screen.snap, "proxy/β=0", "root_kl/β=0")
        assert (np.diff(x) > 0).all()
        assert np.allclose(y, series["proxy/β=0"].values[::-1])


@pytest.mark.parametrize(("key", "wanted"), [("minus", b'"value":0.8'), ("plus", b'"value":1.25')])
async def test_beta_is_scaled_from_what_it_is_by_then(tmp_path: Path, key: str, wanted: bytes) -> None:
    """Pressed twice before a step is recorded, it changes twice: what is asked for is a factor."""
    run = feedback_run(tmp_path, step=60)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: screen.page == "policy" and screen.policy.beta == 0.3)
        sent: list[bytes] = []
        screen.run.ask = lambda request, key, value: sent.append(f'"{key}":"{request}","value":{value}'.encode())  # type: ignore[method-assign,assignment,misc]
        await pilot.press(key, key)
        assert len(sent) == 2
        assert all(each.startswith(b'"beta":"scale"') and each.endswith(wanted) for each in sent)


async def test_a_prompts_answers_are_shown_next_to_their_scores(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, step=60)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await turned(app, pilot, "answers")
        shown = text_of(app)
        assert "before, as it was fine-tuned   proxy 0.00   gold −1.25" in shown
        assert "dull, bold" in shown
        assert "now   proxy 2.00   gold 6.00" in shown
        assert "bold, bright 60" in shown
        await pilot.press("down")
        await settle(pilot, lambda: "now   proxy 0.50   gold 2.00" in text_of(app))


async def test_a_token_has_its_numbers_and_v_turns_to_others(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, step=60)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await turned(app, pilot, "episodes")
        found = screen.episodes.episodes
        assert found is not None
        await pilot.press("down", "right", "right")
        await settle(pilot, lambda: (screen.episodes.episode, screen.episodes.token) == (1, 2))
        delta = float(found.row("delta", 1)[2])
        shown = text_of(app)
        assert number(delta, 3) in shown
        assert "3 of 3" in shown
        await pilot.press("right", "right")
        assert screen.episodes.token == 2
        for title in ("KL, ln π − ln π_ref", "reward r", "value V", "advantage A"):
            await pilot.press("v")
            await settle(pilot, lambda title=title: title in text_of(app).splitlines()[7])


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 24), (200, 60)])
async def test_no_number_of_a_token_is_cut(size: tuple[int, int], tmp_path: Path) -> None:
    app = app_on(tmp_path, feedback_run(tmp_path, step=60))
    async with app.run_test(size=size) as pilot:
        await opened(pilot, app)
        await turned(app, pilot, "episodes")
        names = ("reward r", "return", "KL, exact", "ratio", "policy clipped", "value clipped")
        await settle(pilot, lambda: all(name in text_of(app) for name in names))
        legend = next(line for line in text_of(app).splitlines() if line.startswith(" advantage A"))
        low, high = legend.split()[-2:]
        assert float(low.replace("−", "-")) == -float(high)


async def test_w_explains_a_token_with_the_numbers_of_the_frame(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, step=60)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await turned(app, pilot, "episodes")
        found = screen.episodes.episodes
        assert found is not None
        answers = found.answers(0, 1)
        advantage, delta, ratio, kl = answers
        for answer, name in ((advantage, "advantage"), (delta, "delta"), (ratio, "ratio"), (kl, "kl_token")):
            assert answer.result == pytest.approx(float(found.row(name, 0)[1]), abs=1e-6)  # type: ignore[union-attr]
        # the steps come to the result: the sum of the discounted deltas, and r + γV′ − V
        total = next(step for step in advantage.steps if step.name == "Aₜ")  # type: ignore[union-attr]
        assert total.result == pytest.approx(advantage.result, abs=1e-5)  # type: ignore[union-attr]
        assert delta.steps[-1].result == pytest.approx(delta.result, abs=1e-5)  # type: ignore[union-attr]
        whitened = next(step for step in advantage.meaning if step.name == "whitened")  # type: ignore[union-attr]
        assert whitened.result == pytest.approx(float(found.row("whitened", 0)[1]), abs=1e-5)
        cut = "clipped: no gradient" if found.row("whitened", 0)[1] > 0 else "not clipped"
        assert any(cut in step.note for step in ratio.meaning)  # type: ignore[union-attr]
        found.facts = {**found.facts, "method": "rloo"}  # has no values, so no δ
        assert [answer.result for answer in found.answers(0, 1)] == [ratio.result, kl.result]  # type: ignore[union-attr]
        assert found.answers(0, 1)[1].meaning[-1].result == pytest.approx(kl.meaning[-1].result)  # type: ignore[union-attr]
        names = {fact.name for fact in screen.episodes.numbers(found, 0, 1)}
        found.facts = {**found.facts, "method": "grpo"}  # pays in its loss, and no token has a reward of its own
        d, beta = -kl.result, float(found.facts["beta"])  # type: ignore[arg-type, union-attr]
        assert found.answers(0, 1)[1].meaning[-1].result == pytest.approx(beta * (math.exp(d) - 1 - d))  # type: ignore[union-attr]
        assert {fact.name for fact in screen.episodes.numbers(found, 0, 1)} == names - {"reward r"}
        assert not names & {"δ", "value V", "return", "A whitened"}
        found.facts = {**found.facts, "method": "ppo"}
        await pilot.press("w")
        await settle(pilot, lambda: isinstance(app.screen, WhyScreen) and "Σₖ (γλ)ᵏ" in text_of(app))


async def test_w_explains_the_pairs_of_a_ranking_the_costliest_first(tmp_path: Path) -> None:
    run = feedback_run(tmp_path, step=12, labeller="simulated")
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        await settle(pilot, lambda: "by the simulated labeller" in text_of(app))
        await pilot.press("w")
        await settle(pilot, lambda: "−ln σ(r(w) − r(l))" in text_of(app))
        shown = text_of(app)
        assert "'answer 2.1' was ranked before 'answer 2.0'" in shown
        assert f"{np.log1p(np.exp(0.25)):.4f}" in shown
        assert "1 of 6" in shown


async def test_a_frame_with_other_shapes_does_not_fail(tmp_path: Path) -> None:
    run = txlab.record("odd", root=tmp_path, steps=9)
    still_open.append(run)
    facts = {"probe_scores": {"before": "no", "now": [1]}, "gold_now": [None], "ranking": {"ranks": [1]}, "beta": "x"}
    tensors = {"episode/reward": np.zeros(3), "episode/value": np.zeros((1, 1)), "ranking/scores": np.zeros((2, 2))}
    run.frame(1, tensors, tokens={"episode/0": ["a", "b"], "episode/1": []}, texts={"prompt/0": "p"}, facts=facts)
    run.log(1, proxy=1.0)
    app = app_on(tmp_path, run.path)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        for _ in range(4):
            await pilot.press("tab", "w", "escape", "v", "left", "right", "up", "down")
            await settle(pilot)
