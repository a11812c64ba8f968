"""Screen 4 on a model: typed text is read, and switches have the effect that an independent computation finds."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attention_runs import attention_frame
from attention_runs import make_run as make_frames
from picture import text_of
from test_attention import app_on, opened, until
from textual.pilot import Pilot
from textual.widgets import Input
from waiting import LONGEST

from txlab.engine.explain import Explanation
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.directory import RunDirectory
from txlab.runs.frames import FrameWriter
from txlab.tui.app import TxlabApp
from txlab.tui.latest_task import LatestTask
from txlab.tui.screens.attention.bench import LiveAttention, Task, Workbench
from txlab.tui.screens.attention.recorded import attention_of
from txlab.tui.screens.attention.screen import AttentionScreen
from txlab.tui.screens.attention.source import Cell, WindowRequest, read_window
from txlab.tui.screens.dialogs import Choose
from txlab.tui.widgets.bars import Bars
from txlab.tui.widgets.heatmap import Heatmap
from txlab.tui.widgets.thumbnails import Thumbnails
from txlab.tui.widgets.timeline import TimeLine
from txlab.tui.widgets.why import WhyPanel, WhyScreen

TEXT = "the cat sees"


def idle(screen: AttentionScreen) -> bool:
    return all(lane.idle for lane in tasks_of(screen))


def tasks_of(screen: AttentionScreen) -> tuple[LatestTask, ...]:
    """Everything that the screen may be waiting for."""
    model, patterns = screen.model, screen.patterns
    asking = screen.side.asking
    return model.working, model.opening_second, patterns.reading, patterns.forming, patterns.reading_second, asking


def told(app: TxlabApp, words: str) -> bool:
    """Whether a notification with these words is on the screen."""
    return any(words in notification.message for notification in app._notifications)


async def typed(pilot: Pilot, key: str, *texts: str) -> None:  # type: ignore[type-arg]
    """Press a key that asks for texts, one dialog after another, and answer them."""
    await pilot.press(key)
    for text in texts:
        await until(pilot, lambda: isinstance(pilot.app.focused, Input))  # it has its first value by then
        pilot.app.screen.query(Input).first().value = text
        asking = pilot.app.screen
        await pilot.press("enter")
        await until(pilot, lambda asking=asking: pilot.app.screen is not asking)


async def on_bench(pilot: Pilot, text: str = TEXT) -> AttentionScreen:  # type: ignore[type-arg]
    screen = await opened(pilot)
    await until(pilot, lambda: screen.recorded is not None)
    await typed(pilot, "t", text)
    await until(pilot, lambda: screen.model.live is not None and idle(screen))
    await pilot.pause()
    return screen


@pytest.fixture
def loud(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's model with weights ten times as large: after twelve steps a head has hardly any effect."""
    from txlab.runs import models

    quietly = models.open_model

    def louder(*given: object, **named: object) -> models.OpenModel:
        opened = quietly(*given, **named)  # type: ignore[arg-type]
        for parameter in opened.model.parameters():
            parameter.data.mul_(10 if parameter.dim() > 1 else 1)
        return opened

    monkeypatch.setattr(models, "open_model", louder)


def by_hand(run: Path, text: str, off: tuple[int, int] | None = None) -> tuple[np.ndarray, list[np.ndarray]]:
    """(probabilities (T, V), patterns of each layer (H, T, T)) by a plain loop over the blocks' own weights; `off`: a
    head whose columns of W_O are zero."""
    import torch

    from txlab.runs.models import open_model

    opened = open_model(str(run))
    model = opened.model
    ids = torch.tensor(opened.ids(text))
    patterns = []
    with torch.no_grad():
        x = model.embed.weight[ids] + (model.positions.weight[: len(ids)] if model.positions is not None else 0)
        later = torch.ones(len(ids), len(ids)).triu(1).bool()
        for layer, block in enumerate(model.blocks):
            H, D = block.attention.heads, x.shape[-1]
            normed = torch.nn.functional.layer_norm(x, (D,), block.attention_norm.weight, block.attention_norm.bias)
            qkv = normed @ block.attention.qkv_proj.weight.T + block.attention.qkv_proj.bias
            q, k, v = (part.view(-1, H, D // H).transpose(0, 1) for part in qkv.split(D, -1))
            alpha = (q @ k.transpose(1, 2) / (D // H) ** 0.5).masked_fill(later, -torch.inf).softmax(-1)
            patterns.append(alpha.numpy())
            heads = alpha @ v
            if off is not None and off[0] == layer:
                heads[off[1]] = 0
            x = x + block.attention.out_proj(heads.transpose(0, 1).reshape(len(ids), D))
            x = x + block.feed_forward(
                torch.nn.functional.layer_norm(x, (D,), block.feed_forward_norm.weight, block.feed_forward_norm.bias)
            )
        return model.logits(x).softmax(-1).double().numpy(), patterns


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_typed_text_is_seen_and_a_head_switched_off_changes_what_comes_next(
    tiny_run: Path, loud: None, size: tuple[int, int]
) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=size) as pilot:
        screen = await on_bench(pilot)
        plain, patterns = by_hand(tiny_run, TEXT)
        assert "checkpoint 12" in text_of(app)
        heatmap = screen.patterns.pattern
        last = len(heatmap.rows) - 1
        assert heatmap.rows == tuple(TEXT)
        assert heatmap.cursor == (last, int(patterns[0][0, last].argmax()))
        await pilot.press("l")
        await until(pilot, lambda: idle(screen))
        await pilot.pause()
        assert np.allclose(heatmap.values, patterns[0][1], atol=1e-4)
        bars = screen.query_one("#next", Bars)
        assert bars.bars[0][1] == pytest.approx(plain[last].max(), abs=1e-5)
        await pilot.press("x")
        await until(pilot, lambda: screen.model.live is not None and screen.model.live.edits and idle(screen))
        await pilot.pause()
        off, _ = by_hand(tiny_run, TEXT, off=(0, 1))
        kl = float((plain[last] * np.log(plain[last] / off[last])).sum())
        assert kl > 0.0005
        assert screen.patterns.next_tokens.kl == pytest.approx(kl, rel=1e-3)
        shown = dict(zip([token for token, _ in bars.bars], zip(bars.before, bars.bars, strict=True), strict=True))
        best = chr(int(plain[last].argmax()))
        assert shown[best][0] == pytest.approx(plain[last].max(), rel=1e-3)
        assert shown[best][1][1] == pytest.approx(off[last, ord(best)], rel=1e-3)
        text = text_of(app)
        assert "head 1.2 off" in text
        assert "KL " in text
        assert size[0] < 100 or screen.query_one(Thumbnails).notes[0][1] == "off"
        await pilot.press("x")
        await until(pilot, lambda: screen.model.live is not None and not screen.model.live.edits and idle(screen))
        assert screen.patterns.next_tokens.kl is None


async def test_edges_blocks_weights_errata_and_patches_are_listed_and_taken_back(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        heatmap = screen.patterns.pattern
        heatmap.move_to(5, 2)
        await until(pilot, lambda: idle(screen))
        row = heatmap.values[5].copy()
        await pilot.press("m")
        await until(pilot, lambda: screen.model.live is not None and screen.model.live.edits and idle(screen))
        await pilot.pause()
        cut = np.where(np.arange(len(row)) == 2, 0, row)
        assert np.allclose(heatmap.values[5], cut / cut.sum(), atol=1e-5)
        assert "×" in text_of(app)
        heatmap.move_to(3, 9)  # a masked weight may be allowed
        await pilot.press("m")
        await until(pilot, lambda: len(screen.model.live.edits) == 2 and idle(screen))  # type: ignore[union-attr]
        await pilot.pause()
        assert heatmap.weight > 0
        await typed(pilot, "b", "feed")
        await typed(pilot, "p", "a mouse eats", "leaves")
        await typed(pilot, "E", "matrix")
        await pilot.press("e")
        await until(pilot, lambda: bool(app.screen.query("#value")) and app.screen.query_one("#name").has_focus)
        for name, value in (("name", "embed.weight"), ("index", "3, 1"), ("value", "2.5")):
            app.screen.query_one(f"#{name}", Input).value = value
        await pilot.press("enter")
        await until(pilot, lambda: len(screen.model.live.edits) == 6 and idle(screen))  # type: ignore[union-attr]
        await pilot.pause()
        text = text_of(app)
        for said in (
            "edits 6",
            "1.1 a ↛ e (5, 2)",
            "1.1 · → · (3, 9)"[:6],
            "feed-forward 1 off",
            "patch 0.resid_post at",
            "softmax-over",
        ):
            assert said in text, said
        assert "embed.weight[3,1] = 2.5" in text
        assert told(app, "the edit acts in both")  # the table is also the unembedding
        await pilot.press("delete")
        await until(pilot, lambda: len(screen.model.live.edits) == 5 and idle(screen))  # type: ignore[union-attr]
        assert "embed.weight[" not in text_of(app)
        await pilot.press("0")
        await until(pilot, lambda: not screen.model.live.edits and idle(screen))  # type: ignore[union-attr]
        plain, _ = by_hand(tiny_run, TEXT)
        assert screen.patterns.next_tokens.candidates[0].probability == pytest.approx(plain[3].max(), abs=1e-5)


async def test_a_model_of_attention_alone_offers_no_feed_forward(tmp_path: Path) -> None:
    from txlab.runs.process import execute, prepare
    from txlab.runs.scenario import load_scenario

    plain = ["compute.device=cpu", "compute.dtype=float32", "compute.attention=matmul", "compute.compile=false"]
    small = ["train.steps=2", "model.width=16", "train.batch=2", "train.validation_batches=1", "compute.threads=1"]
    run = prepare(load_scenario("gpt-copy-attention", [*plain, *small]), root=tmp_path)
    assert execute(run).status == "done"
    app = app_on(run, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot, "kCzxmadtwkCzx")
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, Choose))
        await pilot.pause()
        assert "attention" in text_of(app)
        assert "feed" not in text_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: len(screen.model.live.edits) == 1 and idle(screen))  # type: ignore[union-attr]
        await pilot.pause()
        assert "attention 1 off" in text_of(app)


async def test_tabs_and_views_are_answered_and_explained(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        plain, patterns = by_hand(tiny_run, TEXT)
        last = len(TEXT) - 1

        async def why() -> Explanation:
            await pilot.press("w")
            await until(pilot, lambda: isinstance(app.screen, WhyScreen))
            panel = app.screen.query_one(WhyPanel)
            await until(pilot, lambda: panel.explanation is not None or "loading" not in panel.sentence)
            assert panel.explanation is not None, panel.sentence
            await pilot.press("escape")
            return panel.explanation

        assert (await why()).result == pytest.approx(screen.patterns.pattern.weight, abs=1e-4)
        screen.side.choose_tab("lens")
        await until(pilot, lambda: len(screen.side.table.rows) == 3 and idle(screen))
        assert float(screen.side.table.rows[0][2]) == pytest.approx(plain[last].max(), abs=0.006)
        screen.query_one("#rows").focus()
        assert (await why()).result == pytest.approx(plain[last].max(), abs=1e-4)
        screen.side.choose_tab("direct")
        await until(pilot, lambda: len(screen.side.table.rows) > 4 and idle(screen))
        assert (await why()).math.startswith("T")
        screen.query_one("#next").focus()
        assert (await why()).result == pytest.approx(plain[last].max(), abs=1e-4)
        screen.query_one("#pattern").focus()
        await pilot.press("v")
        await until(pilot, lambda: idle(screen))
        await pilot.pause()
        assert np.allclose(screen.patterns.pattern.values, patterns[0].mean(0), atol=1e-5)
        assert (await why()).result == pytest.approx(screen.patterns.pattern.weight, abs=1e-4)
        await pilot.press("v")
        await until(pilot, lambda: idle(screen))
        await pilot.pause()
        rolled = np.eye(len(TEXT))
        for layer in patterns:
            rolled = (layer.mean(0) + np.eye(len(TEXT))) / 2 @ rolled
        assert np.allclose(screen.patterns.pattern.values, rolled, atol=1e-5)
        assert (await why()).result == pytest.approx(screen.patterns.pattern.weight, abs=1e-4)


async def test_the_checkpoint_is_at_or_before_the_frame_and_the_time_line_continues_from_there(
    tiny_run: Path,
) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.recorded is not None)
        line = screen.query_one(TimeLine)
        line.first()
        await until(pilot, lambda: screen.recorded is not None and screen.recorded.step < 6)
        await pilot.press("x")
        await until(pilot, lambda: idle(screen) and told(app, "the first is at 6"))
        assert screen.model.live is None
        for _ in range(4):
            line.later()
        await until(pilot, lambda: screen.recorded is not None and 6 <= screen.recorded.step < 12)
        await typed(pilot, "t", TEXT)
        await until(pilot, lambda: screen.model.live is not None and idle(screen))
        assert screen.model.live is not None
        assert screen.model.live.opened.step == 6
        assert line.step == 6
        await pilot.press("right_square_bracket")
        await until(
            pilot, lambda: screen.model.live is not None and screen.model.live.opened.step == 12 and idle(screen)
        )
        assert screen.patterns.pattern.rows == tuple(TEXT)
        await pilot.press("escape")
        await until(pilot, lambda: screen.model.live is None and len(line.steps) > 3)
        assert "checkpoint" not in text_of(app).splitlines()[2]


async def test_two_texts_are_side_by_side_under_one_cursor(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        await typed(pilot, "c", "another", "the bird sings")
        await until(pilot, lambda: screen.patterns.second_window is not None and idle(screen))
        await pilot.pause()
        first, other, between = (screen.query_one(f"#{name}", Heatmap) for name in ("pattern", "other", "difference"))
        assert other.rows == tuple("the bird sings")
        size = len(TEXT)
        assert np.allclose(between.values, other.values[:size, :size] - first.values, atol=1e-6)
        first.move_to(4, 1)
        await until(pilot, lambda: idle(screen))
        await pilot.pause()
        assert between.cursor == other.cursor == (4, 1)
        assert between.weight == pytest.approx(other.weight - first.weight, abs=1e-6)
        assert "differ by" in text_of(app)
        await pilot.press("c")
        assert not screen.query_one("#other").display


@pytest.mark.parametrize("ascii", [True, False])
async def test_hostile_texts_are_read_and_shown_as_text(tiny_run: Path, ascii: bool) -> None:
    app = app_on(tiny_run, tiny_run.parent, ascii=ascii)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await on_bench(pilot, "[/x]日\x1b[0m")
        for key in ("x", "m", "i", "i", "i", "v", "g", "g"):
            await pilot.press(key)
            await until(pilot, lambda: idle(screen))
        text = text_of(app)
        assert "[/x]" in text
        assert not set(text) & {"\x1b", "\x00"}
        assert not ascii or text.isascii(), {c for c in text if not c.isascii()}
        await typed(pilot, "t", "much too long a text for a context of sixteen")
        await until(pilot, lambda: idle(screen) and told(app, "reads at most 16"))
        assert screen.patterns.pattern.rows[0] == "["  # the previous content stays


async def test_a_folder_of_others_is_opened_by_its_name(tmp_path: Path) -> None:
    import torch

    from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
    from txlab.engine.transformer.weights.saving import save_model

    shape = EncoderDecoderShape(1, 2, 2, 16, 90, 90, 32, output_bias=True, half_sinusoids=True, activation="swish")
    model = EncoderDecoder(shape, torch.Generator().manual_seed(0))
    save_model(model, None, tmp_path / "models" / "small", special={"start": 1, "end": 0, "pad": 1})
    app = app_on(None, tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("o")
        await until(pilot, lambda: "esc close" in text_of(app) and "no match" not in text_of(app))
        await typed_into(pilot, "small")
        screen = app.screen
        assert isinstance(screen, AttentionScreen)
        await until(pilot, lambda: screen.model.live is not None and idle(screen))
        assert screen.model.live is not None
        await typed(pilot, "t", "5 6 7", "1 8")
        await until(pilot, lambda: screen.model.live.text.ids[:3] == (5, 6, 7) and idle(screen))  # type: ignore[union-attr]
        await pilot.press("a", "a", "j")
        await until(pilot, lambda: idle(screen))
        await pilot.pause()
        assert (screen.patterns.site, screen.patterns.heads.chosen) == ("cross", (1, 0))
        ids = screen.model.live.text
        kept: dict[str, torch.Tensor] = {}
        from txlab.engine.transformer.hooks import Hooks

        hooks = Hooks({"decoder.blocks.1.cross.pattern": lambda name, value: kept.update({name: value})})
        with torch.no_grad():
            screen.model.live.opened.model(torch.tensor([ids.ids]), torch.tensor([ids.target]), hooks=hooks)
        expected = kept["decoder.blocks.1.cross.pattern"][0, 0].numpy()
        assert np.allclose(screen.patterns.pattern.values, expected, atol=1e-5)
        assert not screen.query_one(TimeLine).visible


async def typed_into(pilot: Pilot, text: str) -> None:  # type: ignore[type-arg]
    """Answer the dialog that is open."""
    pilot.app.screen.query(Input).first().value = text
    asking = pilot.app.screen
    await pilot.pause()
    await pilot.press("enter")
    await until(pilot, lambda: pilot.app.screen is not asking)


# The recorded frames of a translation model


def translator_frame() -> Frame:
    draw = np.random.default_rng(3)
    source, target = ("ein", " Hund", " bellt", "."), ("<s>", " a", " dog")
    tensors: dict[str, np.ndarray] = {}
    for name, rows, columns in (("encoder", 4, 4), ("decoder", 3, 3), ("cross", 3, 4)):
        q, k = draw.normal(size=(2, 2, rows, 8)), draw.normal(size=(2, 2, columns, 8))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(8)
        if name == "decoder":
            scores = np.where(np.tril(np.ones((3, 3), bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        tensors[f"{name}/pattern"] = (weights / weights.sum(-1, keepdims=True)).astype(np.float16)
        tensors[f"{name}/query"], tensors[f"{name}/key"] = q.astype(np.float32), k.astype(np.float32)
    tensors["next/probability"] = np.array([[0.6, 0.2]] * 3, np.float32)
    tokens = {"source": list(source), "target": list(target), "next": [" a", " the"] * 3}
    return Frame(9, tensors, tokens, {}, {"mask": "causal", "sites": ["encoder", "decoder", "cross"]})


async def test_a_translators_frames_have_three_kinds_of_attention(tmp_path: Path) -> None:
    frame = translator_frame()
    app = app_on(make_frames(tmp_path, "translate", [frame]), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, 9)
        seen = {}
        for _ in range(3):
            seen[screen.patterns.site] = (screen.patterns.pattern.rows, screen.patterns.pattern.columns)
            layer, head = screen.patterns.heads.chosen
            expected = frame.tensors[f"{screen.patterns.site}/pattern"][layer, head].astype(np.float32)
            assert np.allclose(screen.patterns.pattern.values, expected)
            await pilot.press("a")
            await pilot.pause()
        source, target = tuple(frame.tokens["source"]), tuple(frame.tokens["target"])
        assert seen == {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
        found = attention_of(frame)
        assert found is not None
        assert [site.mask for site in found.sites.values()] == ["none", "causal", "none"]
        assert found.texts == ("".join(source), "".join(target))
        given = attention_of(
            Frame(9, frame.tensors, frame.tokens, {"source": "a dog", "target": "ein Hund"}, frame.facts)
        )
        assert given is not None
        assert given.texts == ("a dog", "ein Hund")
        assert found.next_tokens("cross", 1).after == " a"
        assert found.next_tokens("encoder", 0).after == " dog"
        await pilot.press("a", "a")
        screen.patterns.pattern.move_to(1, 2)
        await pilot.press("w")
        panel = app.screen.query_one(WhyPanel)
        await until(pilot, lambda: panel.explanation is not None)
        assert panel.explanation.result == pytest.approx(  # type: ignore[union-attr]
            float(frame.tensors["cross/pattern"][0, 0, 1, 2]), abs=1e-3
        )


def test_a_window_and_its_blanks_are_cut_from_the_whole() -> None:
    found = attention_of(attention_frame(40))
    assert found is not None
    whole = found.patterns["self"][1, 2].astype(np.float32)
    cell = Cell("self", 1, 2, 5, 0)
    seen = read_window(found, WindowRequest(cell, "pattern", (3, 7), (2, 9), without_first=False, place=True))
    assert np.array_equal(seen.values, whole[3:7, 2:9])
    assert seen.column == int(whole[5, :6].argmax())
    rows, columns = np.indices((4, 7))
    assert np.array_equal(seen.blank, columns + 2 > rows + 3)
    without = read_window(found, WindowRequest(cell, "pattern", (3, 7), (2, 9), without_first=True))
    assert without.sums is not None
    assert np.allclose(without.sums, 1 - whole[3:7, 0], atol=1e-3)


@pytest.mark.parametrize("known", ["", "cross"])
async def test_frames_that_come_while_a_model_is_being_opened_are_seen_also_if_it_cannot_be(
    known: str, tmp_path: Path
) -> None:
    """The kind of attention is that of the frames, whatever was shown before."""
    run = make_frames(tmp_path, status="running")
    app, gate = app_on(run, tmp_path), threading.Event()

    class Slow(Workbench):
        def read(self, task: Task) -> LiveAttention:
            gate.wait(LONGEST)
            raise LabError("no such model")

    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        screen = app.screen
        assert isinstance(screen, AttentionScreen)
        screen.model.workbench, screen.patterns.wanted_site = Slow(), known
        screen.model.do(Task("nowhere"))
        writer = FrameWriter(RunDirectory(run).frames, 1e9)
        for step in (10, 20):
            writer.write(attention_frame(step))
        await until(pilot, lambda: screen.recorded is not None and screen.recorded.step == 20)
        await pilot.press_at_once("l")  # keys act on what is shown
        gate.set()
        await until(pilot, lambda: idle(screen) and told(app, "no such model"))
        await pilot.pause()
        assert app._exception is None
        assert (screen.patterns.site, screen.model.wanted, screen.patterns.heads.chosen) == ("self", None, (0, 1))
        assert not screen.has_class("-empty")
        assert "head 1.2" in text_of(app)
        line = screen.query_one(TimeLine)
        assert list(line.steps) == [10, 20]


# Latest tasks, and when torch is imported


async def test_a_newer_wish_overtakes_an_older_one(tmp_path: Path) -> None:
    app = app_on(None, tmp_path)
    async with app.run_test(size=(60, 20)) as pilot:
        lane, gate, done, shown = LatestTask(app.screen, "test", shown_error := []), threading.Event(), [], []
        assert shown_error == []

        def work(name: int) -> object:
            def inner(lane: LatestTask) -> int:
                gate.wait(LONGEST)
                done.append((name, lane.late))
                return name

            return inner

        for name in range(20):
            lane.want(work(name), shown.append)  # type: ignore[arg-type]
            await asyncio.sleep(0)
        gate.set()
        await until(pilot, lambda: lane.idle)
        assert done == [(0, True), (19, False)]
        assert shown == [19]


def test_the_screen_and_its_bench_are_imported_without_torch() -> None:
    modules = "txlab.tui.screens.attention.screen, txlab.tui.screens.attention.model_panel"
    code = f"import sys, {modules}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LONGEST)


async def test_a_bert_is_asked_for_a_second_text_and_reads_the_pair(tmp_path: Path) -> None:
    import torch

    from txlab.engine.transformer.bert import Bert, BertShape
    from txlab.engine.transformer.weights.saving import save_model

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat"]
    model = Bert(BertShape(1, 2, 16, 24, len(words)), torch.Generator().manual_seed(0))
    save_model(model, None, tmp_path / "models" / "small")
    (tmp_path / "models" / "small" / "vocab.txt").write_text("\n".join(words) + "\n")
    app = app_on(None, tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("o")
        await until(pilot, lambda: "esc close" in text_of(app) and "no match" not in text_of(app))
        await typed_into(pilot, "small")
        screen = app.screen
        assert isinstance(screen, AttentionScreen)
        await until(pilot, lambda: screen.model.live is not None and idle(screen))
        await typed(pilot, "t", "the cat", "sat on")
        await until(pilot, lambda: bool(screen.model.live.text.segments) and idle(screen))  # type: ignore[union-attr]
        assert screen.model.live is not None
        assert screen.model.live.text.ids == (2, 5, 6, 3, 7, 8, 3)
        assert screen.model.live.text.segments == (0, 0, 0, 0, 1, 1, 1)
        assert screen.model.live.texts == ("the cat", "sat on")
        assert '"the cat" + "sat on"' in text_of(app)  # and no arrow: nothing is translated
        await typed(pilot, "t", "the mat", "")
        await until(pilot, lambda: screen.model.live.text.ids == (2, 5, 9, 3) and idle(screen))  # type: ignore[union-attr]
        assert screen.model.live.text.segments == ()


async def test_each_head_of_a_llama_is_shown_with_its_own_pattern(tmp_path: Path) -> None:
    """Heads that share keys and values still attend differently."""
    import torch

    from txlab.engine.transformer.gpt import GPT, GPTShape
    from txlab.engine.transformer.hooks import keeping
    from txlab.engine.transformer.weights.saving import save_model

    shape = GPTShape(
        1, 4, 16, 24, 90, 20, "rotary", bias=False, normalisation="rms", gated=True, activation="swish", kv_heads=2
    )
    model = GPT(shape, torch.Generator().manual_seed(0))
    for parameter in model.parameters():
        parameter.data.mul_(20 if parameter.dim() > 1 else 1)
    save_model(model, None, tmp_path / "models" / "small")
    app = app_on(None, tmp_path / "runs")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("o")
        await until(pilot, lambda: "esc close" in text_of(app) and "no match" not in text_of(app))
        await typed_into(pilot, "small")
        screen = app.screen
        assert isinstance(screen, AttentionScreen)
        await until(pilot, lambda: screen.model.live is not None and idle(screen))
        await typed(pilot, "t", "5 6 7 8 9")
        await until(pilot, lambda: len(screen.model.live.text.ids) == 5 and idle(screen))  # type: ignore[union-attr]
        assert screen.model.live is not None
        assert (screen.model.live.sites["self"].layers, screen.model.live.sites["self"].heads) == (1, 4)
        hooks, kept = keeping("*.pattern")
        with torch.no_grad():
            screen.model.live.opened.model(torch.tensor([[5, 6, 7, 8, 9]]), hooks=hooks)
        (pattern,) = kept.values()
        for head in range(4):
            if head:
                await pilot.press("l")
            await until(pilot, lambda head=head: screen.patterns.heads.chosen == (0, head) and idle(screen))
            await pilot.pause()
            shown = np.nan_to_num(screen.patterns.pattern.values)
            assert np.allclose(shown, pattern[0, head].numpy(), atol=1e-5)


async def test_the_patterns_compared_have_titles_and_both_lists_of_next_tokens(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        await typed(pilot, "c", "checkpoint 6")
        await until(pilot, lambda: screen.patterns.second_window is not None and idle(screen))
        await pilot.pause()
        text = text_of(app)
        assert "second − first: + orange, − blue" in text
        assert len([line for line in text.splitlines() if "checkpoint 12" in line and "checkpoint 6" in line]) >= 2
        first, second = screen.query_one("#next", Bars), screen.query_one("#next-second", Bars)
        assert second.display
        assert first.bars != second.bars
        earlier = Workbench().read(Task(str(tiny_run), at=6, source=TEXT)).next_tokens("self", screen.patterns.cell.row)
        assert [token for token, _ in second.bars] == [one.token for one in earlier.candidates]
        await pilot.press("escape")
        await pilot.pause()
        assert not second.display
        assert "second − first" not in text_of(app)


async def test_a_head_that_is_off_is_grey_among_the_heads(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        heads = screen.patterns.heads

        def coloured(head: int) -> bool:
            colours = [part.style.color for line in range(2) for part in heads.pixels(0, head, line) if part.style]
            return any(len(set(colour.get_truecolor())) > 1 for colour in colours if colour is not None)

        assert coloured(0)
        await pilot.press("x")
        await until(pilot, lambda: heads.off == {(0, 0)} and idle(screen))
        assert not coloured(0)
        assert coloured(1)
        await pilot.press("x")
        await until(pilot, lambda: not heads.off and idle(screen))
        assert coloured(0)


async def test_checkpoints_that_a_run_makes_while_its_model_is_read_are_on_the_time_line(
    tiny_run: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(tiny_run, tmp_path / tiny_run.name)
    saved = tmp_path / "saved"
    shutil.move(run / "checkpoints" / "00000012", saved)
    app = app_on(run, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.recorded is not None)
        await pilot.press("x")
        await until(pilot, lambda: screen.model.live is not None and idle(screen))
        line = screen.query_one(TimeLine)
        assert line.steps.tolist() == [6]
        shutil.move(saved, run / "checkpoints" / "00000012")
        await until(pilot, lambda: line.steps.tolist() == [6, 12])
        assert line.label() == "6 · checkpoint 1 of 2"  # the edits stay with the checkpoint they were made on
        await pilot.press("x")
        await until(pilot, lambda: screen.model.live is not None and not screen.model.live.edits and idle(screen))
        assert screen.model.live.opened.step == 6
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: screen.model.live is not None and screen.model.live.opened.step == 12)
        await pilot.press("c")
        assert isinstance(app.screen, Choose)
        assert "checkpoint 6" in text_of(app)
        await pilot.press("escape")
        shutil.rmtree(run / "checkpoints" / "00000006")
        await until(pilot, lambda: line.steps.tolist() == [12])


def test_a_name_is_resolved_once_and_then_the_folder_is_meant(tiny_run: Path, tmp_path: Path) -> None:
    first = shutil.copytree(tiny_run, tmp_path / "2026-11-20_000000_first")
    bench = Workbench()
    live = bench.read(Task("latest", None, TEXT, root=tmp_path))
    assert (Path(live.task.model), live.task.at) == (first, 12)
    second = shutil.copytree(tiny_run, tmp_path / "2026-11-21_000000_second")
    earlier = bench.read(replace(live.task, at=6))
    assert (earlier.opened.origin, earlier.opened.step) == (first, 6)
    shutil.rmtree(first / "checkpoints" / "00000006")  # as a run does that keeps only its newest ones
    assert bench.read(replace(earlier.task, source="the dog")).opened is earlier.opened
    assert bench.read(replace(live.task, at=None)).opened.step == 12
    assert bench.read(Task("latest", None, TEXT, root=tmp_path)).opened.origin == second
    nearest = Task("second@7", None, TEXT, root=tmp_path)
    assert bench.read(nearest).opened.step == 6
