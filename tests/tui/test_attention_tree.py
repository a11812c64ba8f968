"""Screen 4: the likeliest continuations as a tree, and the game of guessing them."""

from __future__ import annotations

import threading
from math import log, log2
from pathlib import Path

import numpy as np
import pytest
from picture import text_of
from test_attention import app_on, until
from test_attention_bench import TEXT, by_hand, idle, loud, on_bench, told
from textual.pilot import Pilot
from waiting import LONGEST

from txlab.drawing.formatting import number
from txlab.tui.screens.attention.bench import Task, Workbench
from txlab.tui.screens.attention.continuation_tree import ContinuationTree
from txlab.tui.screens.attention.guessing_dialog import GuessingDialog, beginning_with_a_line, find_passage
from txlab.tui.screens.attention.screen import AttentionScreen
from txlab.tui.widgets.why import WhyPanel, WhyScreen

__all__ = ["loud"]  # a fixture

SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]


async def tree_on(pilot: Pilot) -> tuple[AttentionScreen, ContinuationTree]:  # type: ignore[type-arg]
    """The tree of what may follow TEXT, once the model has answered."""
    screen = pilot.app.screen
    if not isinstance(screen, AttentionScreen) or screen.model.live is None:
        screen = await on_bench(pilot)
    await pilot.press("T")
    await until(pilot, lambda: isinstance(pilot.app.screen, ContinuationTree))
    tree = pilot.app.screen
    assert isinstance(tree, ContinuationTree)
    await grown(pilot, tree)
    return screen, tree


async def grown(pilot: Pilot, tree: ContinuationTree) -> None:  # type: ignore[type-arg]
    await until(pilot, lambda: tree.opening.idle and bool(tree.by_key))
    await pilot.pause()


def likeliest(run: Path, text: str, off: tuple[int, int] | None = None) -> list[tuple[int, float]]:
    """(byte, ln p) after a text, likeliest first, by a plain loop over the weights."""
    p = by_hand(run, text, off)[0][-1]
    return [(int(token), log(p[token])) for token in (-p).argsort(kind="stable")]


@pytest.mark.parametrize("size", SIZES)
async def test_the_tree_is_walked_and_its_path_is_written(tiny_run: Path, size: tuple[int, int]) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=size) as pilot:
        screen, tree = await tree_on(pilot)
        first = likeliest(tiny_run, TEXT)
        assert [node.path for node in tree.start.listed] == [(token,) for token, _ in first[:6]]
        await pilot.press("down", "right")
        await grown(pilot, tree)
        written = TEXT + chr(first[1][0])
        second = likeliest(tiny_run, written)
        node = tree.start.listed[1]
        assert [child.path[-1] for child in node.listed] == [token for token, _ in second[:6]]
        await pilot.press("right", "down", "down")
        path = node.listed[2]
        assert tree.row is not None
        assert tree.row.node is path
        assert path.total == pytest.approx(first[1][1] + second[2][1], abs=1e-4)
        assert f"ln p {number(path.total)} nats" in text_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: bool(screen.model.live and screen.model.live.task.written) and idle(screen))
        assert screen.model.live is not None
        assert screen.model.live.texts[0] == written + chr(second[2][0])
        await pilot.press("comma")
        await until(pilot, lambda: screen.model.live.texts[0] == written)  # type: ignore[union-attr]


async def test_the_tree_grows_under_the_edits_in_force(
    tiny_run: Path, loud: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await on_bench(pilot)
        asked, read = threading.Event(), Workbench.read
        monkeypatch.setattr(Workbench, "read", lambda bench, task: asked.wait(LONGEST) and read(bench, task))
        await pilot.press("l", "x", "T")  # before the model has read under the edit
        await pilot.pause()
        assert app.screen is screen
        asked.set()
        await until(pilot, lambda: isinstance(app.screen, ContinuationTree))
        tree = app.screen
        assert isinstance(tree, ContinuationTree)
        await grown(pilot, tree)
        edited, plain = likeliest(tiny_run, TEXT, off=(0, 1)), likeliest(tiny_run, TEXT)
        assert [node.logp for node in tree.start.listed] == pytest.approx([p for _, p in edited[:6]], abs=1e-3)
        assert tree.start.listed[0].logp != pytest.approx(plain[0][1], abs=2e-3)


async def test_a_model_opened_without_a_text_writes_behind_its_own(tiny_run: Path) -> None:
    app = app_on(None, tiny_run.parent)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.screen, AttentionScreen))
        screen = app.screen
        assert isinstance(screen, AttentionScreen)
        screen.model.do(Task(str(tiny_run)), "model")
        await until(pilot, lambda: screen.model.live is not None and idle(screen))
        await pilot.press("full_stop")
        await until(pilot, lambda: screen.model.live is not None and len(screen.model.live.task.written) == 1)
        await until(pilot, lambda: idle(screen))
        assert screen.model.live is not None
        assert screen.model.live.texts[0] == "The " + chr(likeliest(tiny_run, "The ")[0][0])


async def test_a_node_closes_and_the_others_open(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(80, 24)) as pilot:
        _, tree = await tree_on(pilot)
        assert "250 others" in text_of(app)
        hidden, rest = tree.start.hidden
        everything = likeliest(tiny_run, TEXT)
        assert (hidden, rest) == (
            250,
            pytest.approx(1 - sum(2.718281828459045**p for _, p in everything[:6]), abs=1e-5),
        )
        await pilot.press("end", "right")
        assert len(tree.start.listed) == 12
        assert tree.row is not None
        assert tree.row.node.path == (everything[6][0],)
        await pilot.press("home", "right")
        await grown(pilot, tree)
        assert tree.start.listed[0].listed
        await pilot.press("right", "left")
        assert tree.row.node is tree.start.listed[0]
        await pilot.press("left")
        assert not tree.start.listed[0].listed
        await pilot.press("escape")
        assert isinstance(app.screen, AttentionScreen)


async def test_beyond_the_context_the_tree_says_so(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(80, 24)) as pilot:
        _, tree = await tree_on(pilot)
        for _ in range(5):  # TEXT has 12 of 16 tokens
            await pilot.press("right")
            await until(pilot, lambda: tree.opening.idle)
            await pilot.press("right")
        await pilot.pause()
        assert "17 tokens; this model reads at most 16" in text_of(app)


async def test_why_says_how_the_path_got_its_probability(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        _, tree = await tree_on(pilot)
        await pilot.press("right")
        await grown(pilot, tree)
        await pilot.press("right", "w")
        await until(pilot, lambda: isinstance(app.screen, WhyScreen) and len(app.screen.answers) == 2)
        assert tree.row is not None
        token, path = app.screen.answers  # type: ignore[attr-defined]
        assert log(token.result) == pytest.approx(tree.row.node.logp, abs=1e-4)
        assert log(path.result) == pytest.approx(tree.row.node.total, abs=1e-9)
        assert app.screen.query_one(WhyPanel).explanation is token


async def test_a_model_that_fills_masks_says_that_it_has_no_tree(tmp_path: Path) -> None:
    import torch

    from txlab.engine.transformer.bert import Bert, BertShape
    from txlab.engine.transformer.weights.saving import save_model

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat"]
    save_model(Bert(BertShape(1, 2, 16, 24, len(words)), torch.Generator().manual_seed(0)), None, tmp_path / "small")
    (tmp_path / "small" / "vocab.txt").write_text("\n".join(words) + "\n")
    app = app_on(None, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.screen, AttentionScreen))
        screen = app.screen
        assert isinstance(screen, AttentionScreen)
        screen.model.do(Task(str(tmp_path / "small"), None, "the [MASK]"), "model")
        await until(pilot, lambda: screen.model.live is not None and idle(screen))
        await pilot.press("T")
        await until(pilot, lambda: told(app, "fills masks"))
        assert app.screen is screen


# The game.

KEYS = {" ": "space", ".": "full_stop", "\n": "enter", ",": "comma"}


async def game_on(pilot: Pilot) -> tuple[AttentionScreen, GuessingDialog]:  # type: ignore[type-arg]
    """The game, once the model has read the passage."""
    screen = pilot.app.screen if isinstance(pilot.app.screen, AttentionScreen) else await on_bench(pilot)
    await pilot.press("G")
    await until(pilot, lambda: isinstance(pilot.app.screen, GuessingDialog) and pilot.app.screen.passage is not None)
    game = pilot.app.screen
    assert isinstance(game, GuessingDialog)
    await pilot.pause()
    return screen, game


@pytest.mark.parametrize("size", SIZES)
async def test_a_guessed_text_is_scored_against_the_model_under_its_edits(
    tiny_run: Path, loud: None, size: tuple[int, int]
) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=size) as pilot:
        await on_bench(pilot)
        await pilot.press("l", "x")
        screen, dialog = await game_on(pilot)
        passage = dialog.passage
        assert passage is not None
        game, text = passage.game, "".join(one.text for one in passage.game.ahead)
        assert len(passage.ids) == 17  # the context, and what it predicts
        assert text not in text_of(app)
        wrong = "~" if text[0] != "~" else "^"
        await pilot.press(wrong, KEYS.get(text[0], text[0]), "tab", KEYS.get(text[2], text[2]))  # faster than it draws
        await pilot.pause()
        assert (game.ranks, game.done) == ([2, 0, 1], 3)
        p = by_hand(tiny_run, passage.given + text[:-1], off=(0, 1))[0]
        first = len(passage.given)
        by_the_model = [-log2(p[first - 1 + at, ord(text[at])]) for at in range(3)]
        assert game.model_total == pytest.approx(sum(by_the_model), abs=1e-3)
        by_the_person = -log2(0.5 / 3) - log2(0.5 / 4) + 8 - log2(0.5 / 5)
        assert game.person == pytest.approx(by_the_person / 3)
        shown = text_of(app)
        for said in (number(game.person, 3), number(game.model, 3), "3 bytes", "rank"):
            assert said in shown
        ranked = (-p[first + 1]).argsort(kind="stable").tolist()
        assert f"rank {ranked.index(ord(text[2])) + 1}" in shown
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        line = f"3 bytes guessed: you {number(game.person, 3)}, the model {number(game.model, 3)} bits per byte"
        assert told(app, line)
        assert screen.side.result.display
        assert screen.side.result.text.plain == line


async def test_a_passage_is_guessed_to_its_end_and_another_begins(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(80, 24)) as pilot:
        _, dialog = await game_on(pilot)
        first = dialog.passage
        assert first is not None
        await pilot.press(*["tab"] * sum(len(one.text) for one in first.game.ahead))
        await pilot.pause()
        assert first.game.over
        assert "The passage is over" in text_of(app)
        await pilot.press("x", "enter")
        await until(pilot, lambda: dialog.passage not in (None, first))
        assert dialog.passage is not None
        assert dialog.passage.given != first.given
        assert dialog.passage.game.ranks == []


async def test_why_in_the_game_shows_its_numbers_and_names_shannon(tiny_run: Path) -> None:
    app = app_on(tiny_run, tiny_run.parent)
    async with app.run_test(size=(120, 40)) as pilot:
        _, dialog = await game_on(pilot)
        await pilot.press("tab", "f1")
        await until(pilot, lambda: isinstance(app.screen, WhyScreen) and bool(app.screen.answers))
        assert dialog.passage is not None
        assert app.screen.answers[0].result == dialog.passage.game.person  # type: ignore[attr-defined]
        assert "Shannon 1951" in text_of(app)


def test_the_passage_is_of_the_validation_text_and_the_same_for_the_same_number(tiny_run: Path) -> None:
    from txlab.runs.models import held_out_text, open_model

    live = Workbench().read(Task(str(tiny_run), None, TEXT))
    one, again, other = (find_passage(live, which) for which in (1, 1, 2))
    text, what = held_out_text(open_model(str(tiny_run)))
    assert what == "its validation text"
    whole = one.given + "".join(each.text for each in one.game.ahead)
    assert whole in text
    assert (one.ids, one.given) == (again.ids, again.given)
    assert one.ids != other.ids


def test_edits_that_name_positions_of_another_text_do_not_count_in_the_game(tiny_run: Path) -> None:
    edge = {"kind": "edge", "site": "self", "layer": 0, "head": 0, "row": 11, "column": 0, "allowed": False}
    plain, edited = (
        find_passage(Workbench().read(Task(str(tiny_run), None, TEXT, edits=edits)), 3) for edits in ((), (edge,))
    )
    assert plain.game.model_bits == edited.game.model_bits


def test_the_game_for_weights_without_a_run_uses_the_documentation_of_python(tmp_path: Path) -> None:
    import torch

    from txlab.engine.tokenizers.elementary import ByteTokenizer
    from txlab.engine.transformer.gpt import GPT, GPTShape
    from txlab.engine.transformer.weights.saving import save_model

    generator = torch.Generator().manual_seed(0)
    save_model(GPT(GPTShape(1, 2, 16, 32, 256), generator), ByteTokenizer(), tmp_path / "small")
    passage = find_passage(Workbench().read(Task(str(tmp_path / "small"), None, TEXT)), 0)
    assert passage.what == "Python's documentation"
    assert len(passage.ids) == 33


async def test_a_model_that_translates_says_that_it_has_no_game(tmp_path: Path) -> None:
    import torch

    from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
    from txlab.engine.transformer.weights.saving import save_model

    generator = torch.Generator().manual_seed(0)
    save_model(EncoderDecoder(EncoderDecoderShape(1, 1, 2, 16, 12, 12, 24), generator), None, tmp_path / "both")
    app = app_on(None, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.screen, AttentionScreen))
        screen = app.screen
        assert isinstance(screen, AttentionScreen)
        screen.model.do(Task(str(tmp_path / "both"), None, "1 2 3", "4"), "model")
        await until(pilot, lambda: screen.model.live is not None and idle(screen))
        await pilot.press("G")
        await until(pilot, lambda: told(app, "translates"))
        assert app.screen is screen
        await pilot.press("T")
        await until(pilot, lambda: isinstance(app.screen, ContinuationTree) and bool(app.screen.by_key))


@pytest.mark.parametrize("size", SIZES)
async def test_both_are_drawn_in_ascii(tiny_run: Path, size: tuple[int, int]) -> None:
    app = app_on(tiny_run, tiny_run.parent, ascii=True)
    async with app.run_test(size=size) as pilot:
        _, tree = await tree_on(pilot)
        await pilot.press("right")
        await grown(pilot, tree)
        assert "- " in text_of(app)
        assert text_of(app).isascii(), {sign for sign in text_of(app) if not sign.isascii()}
        await pilot.press("escape")
        await game_on(pilot)
        await pilot.press("~", "tab", "~")
        await pilot.pause()
        assert text_of(app).isascii(), {sign for sign in text_of(app) if not sign.isascii()}


def test_a_passage_begins_with_a_line_or_a_word() -> None:
    lines = "".join(f"line {at}\n" for at in range(1000))
    for seed in range(20):
        assert beginning_with_a_line(lines, 60, np.random.default_rng(seed)).startswith("line ")
        words = beginning_with_a_line(lines.replace("\n", " "), 60, np.random.default_rng(seed))
        assert words.startswith("line ") or words[0].isdigit()
    assert beginning_with_a_line("x" * 100, 60, np.random.default_rng(0)) == "x" * 60
