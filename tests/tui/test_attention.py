"""Screen 4 shows what was recorded, at every step, in every terminal."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attention_runs import WORDS, attention_frame, make_run
from picture import strips_of, text_of
from recorded import settle
from textual.pilot import Pilot

from txlab.experiments.protocol import Frame
from txlab.tui.app import TxlabApp
from txlab.tui.screens.attention.recorded import attention_of
from txlab.tui.screens.attention.screen import AttentionScreen
from txlab.tui.screens.attention.source import strongest
from txlab.tui.settings import Settings
from txlab.tui.widgets.bars import Bars
from txlab.tui.widgets.heatmap import Heatmap
from txlab.tui.widgets.thumbnails import Thumbnails
from txlab.tui.widgets.timeline import TimeLine
from txlab.tui.widgets.why import WhyScreen

FRAMES = [attention_frame(step) for step in range(0, 401, 40)]


def app_on(run: Path | None, root: Path, ascii: bool = False) -> TxlabApp:
    return TxlabApp(run=run, root=root, ascii=ascii, settings=Settings(), screen="attention")


async def opened(pilot: Pilot, step: int | None = None) -> AttentionScreen:  # type: ignore[type-arg]
    """The Attention screen, once it has drawn (the frame of `step`)."""
    await pilot.pause()
    await pilot.press("4")

    def drawn() -> bool:
        screen = pilot.app.screen
        if not isinstance(screen, AttentionScreen):
            return False
        seen = screen.recorded
        return (seen is not None and step in (None, seen.step)) or (step is None and screen.has_class("-empty"))

    await settle(pilot, drawn)
    screen = pilot.app.screen
    assert isinstance(screen, AttentionScreen)
    return screen


until = settle


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_newest_frame_is_seen_with_its_labels_and_numbers(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(make_run(tmp_path, frames=FRAMES), tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, 400)
        text = text_of(app)
        assert "gpt-docs @ 400" in text
        assert '"the cat' in text
        assert "head 1.1" in text
        for word in ("·cat", "·mice", "·tire"):
            assert word in text
        screen.query_one(Heatmap).move_to(0, 0)
        for _ in range(6):
            await pilot.press("down")
        await pilot.press("right", "l", "j")
        await pilot.pause()
        assert screen.patterns.heads.chosen == (1, 1)
        pattern = screen.query_one(Heatmap)
        expected = FRAMES[-1].tensors["attention/pattern"][1, 1, 6, 1]
        assert pattern.cursor == (6, 1)
        assert pattern.weight == pytest.approx(float(expected))
        text = text_of(app)
        assert "head 2.2" in text
        score = float(FRAMES[-1].tensors["attention/previous"][1, 1])
        assert f"previous {score:.2f}".replace("0.", ".") in text
        assert "next after ·mice" in text
        likeliest = float(FRAMES[-1].tensors["next/probability"][6, 0])
        assert f"{likeliest:.2f}".removeprefix("0") in text
        assert screen.query_one(Bars).bars[0] == (".", pytest.approx(likeliest))


async def test_the_time_line_shows_the_frame_of_each_step(tmp_path: Path) -> None:
    app = app_on(make_run(tmp_path, frames=FRAMES), tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        screen = await opened(pilot, 400)
        await pilot.press("left_square_bracket", "left_square_bracket")
        await until(pilot, lambda: screen.recorded is not None and screen.recorded.step == 320)
        shown = screen.query_one(Heatmap).values
        assert np.array_equal(shown, FRAMES[8].tensors["attention/pattern"][0, 0].astype(np.float32))
        assert "gpt-docs @ 320" in text_of(app)
        assert "frame 9 of 11" in text_of(app)
        await pilot.press("left_curly_bracket")
        await until(pilot, lambda: screen.recorded is not None and screen.recorded.step == 0)
        await pilot.press("right_curly_bracket")
        await until(pilot, lambda: screen.recorded is not None and screen.recorded.step == 400)
        assert screen.query_one(TimeLine).live


async def test_scrubbing_ends_at_the_frame_that_was_asked_for_last(tmp_path: Path) -> None:
    app = app_on(make_run(tmp_path, frames=[attention_frame(step) for step in range(0, 1000, 10)]), tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot, 990)
        line = screen.query_one(TimeLine)
        for _ in range(60):
            line.earlier()
            await asyncio.sleep(0)
        assert line.step == 390
        await until(pilot, lambda: screen.recorded is not None and screen.recorded.step == 390)


async def test_a_growing_run_is_followed_and_a_rewound_one_too(tmp_path: Path) -> None:
    from txlab.runs.directory import RunDirectory
    from txlab.runs.frames import FrameWriter

    run = make_run(tmp_path, frames=FRAMES[:3], status="running")
    app = app_on(run, tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot, 80)
        writer = FrameWriter(RunDirectory(run).frames, 1e9)
        writer.write(FRAMES[3])
        await until(pilot, lambda: screen.recorded is not None and screen.recorded.step == 120)
        writer.rewind(40)
        await until(pilot, lambda: screen.recorded is not None and screen.recorded.step == 40)


async def test_the_cursor_begins_at_the_last_tokens_strongest_weight_and_is_then_the_users(
    tmp_path: Path,
) -> None:
    app = app_on(make_run(tmp_path, frames=FRAMES), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, 400)
        heatmap = screen.query_one(Heatmap)
        weights = FRAMES[-1].tensors["attention/pattern"][0, 0]
        last = len(weights) - 1
        assert heatmap.cursor == (last, int(weights[last].argmax()))
        assert "next after" in text_of(app)
        await pilot.press("up", "l", "left_square_bracket")
        cursor = heatmap.cursor
        await until(pilot, lambda: screen.recorded is not None and screen.recorded.step < 400)
        assert heatmap.cursor == cursor
        assert cursor[0] == last - 1
        other = make_run(tmp_path, "other", frames=FRAMES[:2])
        app.current_run = other
        await until(pilot, lambda: screen.recorded is not None and screen.recorded.step == FRAMES[1].step)
        assert heatmap.cursor[0] == last


async def test_leaving_out_the_first_token_hides_it_and_says_what_remains(tmp_path: Path) -> None:
    app = app_on(make_run(tmp_path, frames=FRAMES), tmp_path)
    async with app.run_test(size=(140, 40)) as pilot:
        screen = await opened(pilot, 400)
        heatmap = screen.query_one(Heatmap)
        heatmap.move_to(0, 0)
        await pilot.press("f")
        await pilot.pause()
        assert np.isnan(heatmap.weight)  # the cursor is in the first column
        weights = FRAMES[-1].tensors["attention/pattern"][0, 0].astype(np.float32)
        text = text_of(app)
        assert "first token left out" in text
        remains = 1 - weights[5, 0]
        assert f"Σ {remains:.2f}".replace("0.", ".") in text
        assert np.array_equal(heatmap.values, weights)  # hidden, not rescaled
        await pilot.press("f")
        await pilot.pause()
        assert heatmap.weight == pytest.approx(float(weights[0, 0]))


async def test_why_asks_about_the_cell_and_about_the_next_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from txlab.engine.explain import Explanation, Step
    from txlab.experiments.learning import explanations

    asked: list[tuple[int, str, tuple[int, ...], set[str]]] = []

    def explain(frame: Frame, tensor: str, index: tuple[int, ...]) -> Explanation:
        asked.append((frame.step, tensor, tuple(index), set(frame.tensors)))
        return Explanation("why?", "y = x", "T1", "here", [], [Step("y", "x", 0.5)])

    monkeypatch.setattr(explanations, "explain_attention", explain)
    app = app_on(make_run(tmp_path, frames=FRAMES), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, 400)
        screen.query_one(Heatmap).move_to(0, 0)
        await pilot.press("down", "down", "down", "right", "l", "w")
        await until(pilot, lambda: asked and "y = x" in text_of(app))
        assert asked[-1][:3] == (400, "attention/pattern", (0, 1, 3, 1))
        assert asked[-1][3] == {"attention/pattern", "attention/query", "attention/key"}
        await pilot.press("escape")
        screen.query_one(Bars).focus()
        await pilot.press("down", "w")
        await until(pilot, lambda: len(asked) == 2)
        assert asked[-1][:3] == (400, "next/probability", (3, 1))
        assert isinstance(app.screen, WhyScreen)


async def test_the_engine_explains_what_is_seen(tmp_path: Path) -> None:
    app = app_on(make_run(tmp_path, frames=FRAMES), tmp_path)
    async with app.run_test(size=(120, 50)) as pilot:
        screen = await opened(pilot, 400)
        screen.query_one(Heatmap).move_to(4, 2)
        await pilot.press("w")
        await settle(pilot, lambda: "result" in text_of(app))
        weight = float(FRAMES[-1].tensors["attention/pattern"][0, 0, 4, 2])
        assert "MATH T" in text_of(app)
        panel = app.screen.query_one("WhyPanel")
        assert panel.explanation.result == pytest.approx(weight, abs=1e-3)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("columns", "seen"), [(120, {"heads", "pattern", "side"}), (80, {"pattern", "side"}), (50, {"pattern"})]
)
async def test_panels_fold_away_and_g_brings_the_heads(tmp_path: Path, columns: int, seen: set[str]) -> None:
    app = app_on(make_run(tmp_path, frames=FRAMES), tmp_path)
    async with app.run_test(size=(columns, 24)) as pilot:
        screen = await opened(pilot, 400)

        def visible() -> set[str]:
            return {name for name in ("heads", "pattern", "side") if screen.query_one(f"#{name}").display}

        assert visible() == seen
        assert ("g heads" in text_of(app)) == (columns == 80)  # at 50 the line of keys is too short to say so
        await pilot.press("g")
        await pilot.pause()
        assert "heads" in visible()
        await pilot.press("right")
        if columns < 100:
            assert screen.patterns.heads.chosen == (0, 1)


async def test_a_run_without_frames_says_how_to_record_them(tmp_path: Path) -> None:
    app = app_on(make_run(tmp_path, "bare"), tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: "frame_every" in text_of(app))
        assert "txlab run bare --set record.frame_every=10" in text_of(app)
        await pilot.press("w", "f", "n", "h", "j", "left_square_bracket", "left_curly_bracket", "up", "right")
        await pilot.pause()
        assert screen.recorded is None


async def test_having_no_run_at_all_is_reported(tmp_path: Path) -> None:
    app = app_on(None, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        assert "No run is chosen" in text_of(app)
        await pilot.press("w", "space")


async def test_foreign_frames_are_named_or_drawn_as_far_as_possible(tmp_path: Path) -> None:
    other = Frame(5, {"weights/[/x]": np.ones(3, np.float32)}, {}, {}, {})
    app = app_on(make_run(tmp_path, "other", [other]), tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "weights/[/x]" in text_of(app))
    one = Frame(5, {"attention/pattern": np.eye(3, dtype=np.float32)}, {"probe": ["too", "few"]}, {}, {})
    app = app_on(make_run(tmp_path, "one", [one]), tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot, 5)
        assert screen.query_one(Thumbnails).patterns.shape == (1, 1, 3, 3)
        assert screen.query_one(Heatmap).rows == ("1", "2", "3")
        assert "no next tokens recorded" in text_of(app)


@pytest.mark.parametrize("shape", [(), (3,), (0, 0), (1, 1, 1, 1, 1)])
def test_an_invalid_pattern_is_left_out(shape: tuple[int, ...]) -> None:
    assert attention_of(Frame(0, {"attention/pattern": np.zeros(shape, np.float32)})) is None


@pytest.mark.parametrize("ascii", [True, False])
async def test_hostile_tokens_reach_no_terminal(tmp_path: Path, ascii: bool) -> None:
    words = ("\x1b[31m", "[/x]", "日本", "e\u0301", "\u202e", "\n", "", "\x00", "[bold]", "a" * 90, "\x9b2J")
    frame = attention_frame(7, words=words)
    frame = replace(frame, tokens={"probe": list(words), "next": ["\x1b]0;x\x07"] * len(frame.tokens["next"])})
    app = app_on(make_run(tmp_path, "bad[/x]\x1b", [frame]), tmp_path, ascii=ascii)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, 7)
        text = text_of(app)
        assert not set(text) & {"\x1b", "\x00", "\u202e", "\x07", "\x9b"}
        assert "[/x]" in text
        if ascii:
            assert text.isascii(), [c for c in text if not c.isascii()]


async def test_space_and_step_ask_the_run(tmp_path: Path) -> None:
    from txlab.runs.control import Inbox
    from txlab.runs.directory import RunDirectory

    run = make_run(tmp_path, frames=FRAMES[:2], status="running")
    app = app_on(run, tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot, 40)
        await pilot.press("space", "full_stop")
        await until(pilot, lambda: len(list(RunDirectory(run).inbox.glob("[!.]*"))) >= 2)
        assert {request.request for request in Inbox(RunDirectory(run)).take()} == {"pause", "step"}


async def test_a_run_s_kind_explains_its_weights_from_its_own_frame(tmp_path: Path) -> None:
    """Additive scores of a recurrent translator, which a transformer's formula would get wrong."""
    draw = np.random.default_rng(3)
    q, k, v = draw.normal(size=(1, 1, 3, 6)), draw.normal(size=(1, 1, 4, 6)), draw.normal(size=6)
    scores = np.tanh(q[0, 0, :, None] + k[0, 0, None]) @ v
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    tensors = {"cross/pattern": weights[None, None], "cross/query": q, "cross/key": k, "cross/v": v}
    tokens = {"source": ["the", "dog", "sees", "<end>"], "target": ["<start>", "do", "borv"]}
    frame = Frame(0, tensors, tokens, {}, {"attention": "additive"})
    app = app_on(make_run(tmp_path, frames=[frame], kind="recurrent-translation"), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, 0)
        screen.query_one(Heatmap).move_to(2, 1)
        await pilot.press("w")
        asked = f"why does 'borv' look at 'dog' with {weights[2, 1]:.4f}?"
        await until(pilot, lambda: asked in text_of(app))
        assert "tanh" in text_of(app)


async def test_a_picture_of_screen_and_head_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_on(make_run(tmp_path / "runs", frames=FRAMES[:2]), tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot, 40)
        await pilot.press("s")
        await settle(pilot, lambda: list(tmp_path.glob("*.svg")) and list(tmp_path.glob("*.png")))
        assert "<svg" in next(tmp_path.glob("*.svg")).read_text("utf-8")
        assert next(tmp_path.glob("*.png")).read_bytes()[:4] == b"\x89PNG"


def test_the_words_of_the_fixture_have_a_pattern_each() -> None:
    found = attention_of(FRAMES[0])
    assert found is not None
    assert (found.sites["self"].layers, found.sites["self"].heads) == (4, 4)
    whole = found.patterns["self"]
    assert whole.shape[2:] == (len(WORDS), len(WORDS))
    assert np.allclose(whole.astype(np.float64).sum(-1), 1, atol=5e-3)
    assert strongest(found.scores["self"], "previous", 3)[0] == tuple(
        int(i) for i in np.unravel_index(np.nanargmax(found.scores["self"]["previous"]), (4, 4))
    )


async def test_a_head_that_is_chosen_before_the_first_frame_is_the_one_shown(tmp_path: Path) -> None:
    app = app_on(make_run(tmp_path, frames=FRAMES), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, 400)
        screen.patterns.heads.set_patterns(np.zeros((0, 0, 1, 1), np.float32), (), ())
        screen.patterns.action_head(1, 0)
        screen.patterns.action_head(0, 1)
        screen.show_source()
        await pilot.pause()
        assert screen.patterns.heads.chosen == (1, 1)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_the_heading_of_the_heads_has_rows_below_it(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(make_run(tmp_path, frames=FRAMES), tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, 400)
        await until(pilot, lambda: bool(screen.side.rows.rows))
        table = screen.side.rows
        lines = [strip.text for strip in strips_of(app)][table.region.y : table.region.bottom]
        assert "score" in lines[0]
        assert "induction" in lines[1]
        assert len(lines) >= 4
        bars = screen.side.next
        bars.focus()
        await pilot.press(*["down"] * 12)
        assert bars.cursor == min(len(bars.bars), bars.size.height - 1) - 1, "the cursor is on a visible bar"
