"""Screen 4: the model writes under its edits, and no text is shown next to a model that has not read it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from picture import text_of
from test_attention import app_on, until
from test_attention_bench import TEXT, by_hand, idle, loud, on_bench, told, typed
from textual.pilot import Pilot

from txlab.errors import LabError
from txlab.tui.screens.attention.bench import Task, Workbench
from txlab.tui.screens.attention.screen import AttentionScreen, TextLine
from txlab.tui.screens.attention.written_dialog import WrittenDialog

__all__ = ["loud"]  # a fixture


def greedy(run: Path, text: str, tokens: int, off: tuple[int, int] | None = None) -> str:
    """Written by a plain loop over the weights."""
    for _ in range(tokens):
        text += chr(int(by_hand(run, text, off)[0][-1].argmax()))
    return text


async def written(pilot: Pilot, screen: AttentionScreen, count: int) -> str:  # type: ignore[type-arg]
    await until(pilot, lambda: screen.model.live is not None and len(screen.model.live.task.written) == count)
    await until(pilot, lambda: idle(screen))
    await pilot.pause()
    assert screen.model.live is not None
    return screen.model.live.texts[0]


async def test_the_model_writes_its_likeliest_token_and_takes_it_back(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        await pilot.press(".", ".", ".")  # faster than it reads
        assert await written(pilot, screen, 3) == greedy(tiny_run, TEXT, 3)
        heatmap = screen.patterns.pattern
        assert len(heatmap.rows) == len(TEXT) + 3
        assert heatmap.cursor[0] == len(TEXT) + 2  # on the newest token, next to what follows
        assert screen.patterns.next_tokens.candidates[0].token == greedy(tiny_run, TEXT, 4)[-1]
        await pilot.press(",")
        assert await written(pilot, screen, 2) == greedy(tiny_run, TEXT, 2)


async def test_it_writes_under_the_edits(tiny_run: Path, loud: None) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        await pilot.press("l", "x")
        await until(pilot, lambda: bool(screen.model.live and screen.model.live.edits) and idle(screen))
        await pilot.press(".", ".")
        assert await written(pilot, screen, 2) == greedy(tiny_run, TEXT, 2, off=(0, 1))


async def test_a_sampled_token_follows_the_distribution_and_another_text_restarts(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await on_bench(pilot)
        await pilot.press(">")
        await written(pilot, screen, 1)
        live = screen.model.live
        assert live is not None
        p = by_hand(tiny_run, TEXT)[0][-1]
        drawn = int(np.random.default_rng(0).choice(len(p), p=p / p.sum()))
        assert live.task.written == (drawn,)
        await typed(pilot, "t", "the bird")
        await until(pilot, lambda: screen.model.live is not live and idle(screen))
        assert screen.model.live is not None
        assert screen.model.live.texts == ("the bird",)
        assert screen.model.live.task.written == ()


def test_a_text_of_another_model_that_does_not_fit_gives_way_to_the_models_own(tiny_run: Path) -> None:
    bench = Workbench()
    task = Task(str(tiny_run), None, "far too long " * 50)
    with pytest.raises(LabError, match="reads at most"):
        bench.read(task)
    live = bench.read(Task(str(tiny_run), None, "far too long " * 50, carried=True))
    assert "reads at most" in live.note
    assert live.name.endswith("its own text")
    assert live.task.source is None
    fits = bench.read(Task(str(tiny_run), None, TEXT, carried=True))
    assert (fits.note, fits.texts, fits.name.endswith("its own text")) == ("", (TEXT,), False)


async def test_a_lasting_line_says_that_it_is_not_the_text_before(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        screen.model.do(Task(str(tiny_run), None, "far too long " * 50, carried=True), "model")
        await until(pilot, lambda: told(app, "reads its own text"))
        await until(pilot, lambda: idle(screen))
        await pilot.pause()
        assert screen.model.live is not None
        assert "its own text" in text_of(app).splitlines()[2]
        assert screen.patterns.pattern.rows == screen.model.live.sites["self"].rows


async def test_esc_takes_the_second_text_away_before_it_leaves_the_model(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        await typed(pilot, "c", "another", "the bird sings")
        await until(pilot, lambda: screen.comparing and idle(screen))
        await pilot.press("escape")
        assert not screen.comparing
        assert screen.model.live is not None
        await pilot.press("escape")
        assert screen.model.live is None


def test_a_translator_asked_with_an_empty_target_translates(tmp_path: Path) -> None:
    import torch

    from txlab.engine.transformer.generation import generate_target
    from txlab.runs.models import open_model
    from txlab.runs.process import execute, prepare
    from txlab.runs.scenario import load_scenario

    few = ["train.steps=2", "train.batch=4", "model.width=32", "data.pairs=200", "record.evaluate_every=0"]
    run = prepare(load_scenario("dates", [*few, "compute.threads=1", "compute.compile=false"]), root=tmp_path)
    assert execute(run).status == "done"
    live = Workbench().read(Task(str(run), None, "3 May 2024", "", translate=True))
    opened = open_model(str(run))
    begin, stops = opened.special.begin, opened.special.stops
    assert begin is not None
    with torch.no_grad():
        room = live.opened.context or 0
        (ids,) = generate_target(
            opened.model,
            [opened.ids("3 May 2024")],
            room - 1,
            start=begin,
            end=stops,
            never=opened.never,  # type: ignore[arg-type]
        )
    assert live.text.target == (begin, *(token for token in ids if token not in stops))
    assert not live.task.translate


def test_a_masked_model_fills_its_masks_from_the_left(tmp_path: Path) -> None:
    import torch

    from txlab.engine.transformer.bert import Bert, BertShape
    from txlab.engine.transformer.weights.saving import save_model

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat"]
    model = Bert(BertShape(1, 2, 16, 24, len(words)), torch.Generator().manual_seed(0))
    save_model(model, None, tmp_path / "small")
    (tmp_path / "small" / "vocab.txt").write_text("\n".join(words) + "\n")
    bench = Workbench()
    live = bench.read(Task(str(tmp_path / "small"), None, "the [MASK] sat on the [MASK]"))
    assert live.text.ids == (2, 5, 4, 7, 8, 5, 4, 3)
    assert live.next_position() == 2
    token = live.next_token()
    assert token == int(live.cache.probabilities(2).argmax())
    live = bench.read(Task(live.task.model, None, live.task.source, written=(6,)))
    assert live.text.ids == (2, 5, 6, 7, 8, 5, 4, 3)
    assert live.next_position() == 6
    live = bench.read(Task(live.task.model, None, live.task.source, written=(6, 9)))
    assert live.text.ids == (2, 5, 6, 7, 8, 5, 9, 3)
    with pytest.raises(LabError, match="no mask left"):
        live.next_token()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_cursor_begins_on_the_mask_that_is_filled_next_and_its_kl_is_not_cut(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    import torch

    from txlab.engine.transformer.bert import Bert, BertShape
    from txlab.engine.transformer.weights.saving import save_model

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat"]
    save_model(Bert(BertShape(1, 2, 16, 24, len(words)), torch.Generator().manual_seed(0)), None, tmp_path / "small")
    (tmp_path / "small" / "vocab.txt").write_text("\n".join(words) + "\n")
    app = app_on(None, tmp_path)
    async with app.run_test(size=size) as pilot:
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.screen, AttentionScreen))
        screen = app.screen
        assert isinstance(screen, AttentionScreen)
        screen.model.do(Task(str(tmp_path / "small"), None, "the [MASK] sat on the [MASK]"), "model")
        await until(pilot, lambda: screen.model.live is not None and idle(screen))
        assert screen.patterns.pattern.cursor[0] == 2
        await pilot.press("full_stop")
        await written(pilot, screen, 1)
        await until(pilot, lambda: screen.patterns.pattern.cursor[0] == 6)
        await pilot.press("full_stop")
        await written(pilot, screen, 2)
        await until(pilot, lambda: screen.patterns.pattern.cursor[0] == 7)  # nothing is left to fill: the last token
        await pilot.press("comma", "x")
        await until(pilot, lambda: bool(screen.model.live and screen.model.live.edits) and idle(screen))
        await pilot.pause()
        title = next(line for line in text_of(app).splitlines() if "KL" in line).rpartition("KL")[2].strip()
        assert re.fullmatch(r"(<?\.\d+|0|\d+\.\d+)( nats)?", title), title


async def test_another_text_ends_the_comparison_with_the_old_one(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        await typed(pilot, "c", "checkpoint 6")
        await until(pilot, lambda: screen.patterns.second_window is not None and idle(screen))
        await typed(pilot, "t", "another text")
        await until(pilot, lambda: screen.model.live.texts == ("another text",) and idle(screen))  # type: ignore[union-attr]
        assert not screen.comparing


def test_heads_of_another_model_do_not_replace_those_not_known_yet(tiny_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny_run, other)
    first = Workbench().read(Task(str(tiny_run), source=TEXT))
    first.form_layer("self", 0)
    again, another = (Workbench().read(Task(str(run), source=TEXT)) for run in (tiny_run, other))
    again.begin_like(first)
    another.begin_like(first)
    assert again.thumbnails("self").any()
    assert not another.thumbnails("self").any()


async def test_one_key_writes_a_continuation_without_and_with_the_edits(tiny_run: Path, loud: None) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        text = "the "
        await typed(pilot, "t", text)
        await until(pilot, lambda: bool(screen.model.live and screen.model.live.texts[0] == text) and idle(screen))
        await pilot.press("l", "x")
        await until(pilot, lambda: bool(screen.model.live and screen.model.live.edits) and idle(screen))
        await pilot.press("W")
        await until(pilot, lambda: isinstance(app.screen, WrittenDialog))
        dialog = app.screen
        assert isinstance(dialog, WrittenDialog)
        plain, edited = dialog.written.plain, dialog.written.edited
        assert text + "".join(map(chr, plain)) == greedy(tiny_run, text, len(plain))
        assert text + "".join(map(chr, edited)) == greedy(tiny_run, text, len(edited), off=(0, 1))
        assert plain != edited
        assert len(plain) > 10
        at = dialog.written.parts_at
        assert at is not None
        assert plain[:at] == edited[:at]
        await until(pilot, lambda: f"part at token {at + 1}" in " ".join(text_of(app).split()))
        assert "without the edits" in text_of(app)
        assert "head 1.2 is switched off" in text_of(app)
        await pilot.press("enter")
        room = len(edited) - 1  # the last token was predicted from a full context
        assert await written(pilot, screen, room) == greedy(tiny_run, text, room, off=(0, 1))


async def test_the_text_is_readable_above_the_pattern_with_the_cursors_tokens_lit(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        line = screen.query_one(TextLine)
        assert line.render_line(0).text.strip() == TEXT.strip()
        screen.patterns.pattern.move_to(4, 2)
        await until(pilot, lambda: line.shown[1:] == (4, 2))
        lit = [segment.text for segment in line.render_line(0) if segment.style and segment.style.reverse]
        assert lit == [TEXT[4]]
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 19)) as pilot:
        screen = await on_bench(pilot)
        assert not screen.query_one(TextLine).display or screen.query_one(TextLine).size.height == 0
