"""Screen 2: the tokens are those of the text typed, pasted or opened; nothing slow runs on the event loop."""

from __future__ import annotations

import dataclasses
import itertools
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from picture import text_of
from recorded import explained, settle
from textual import events
from tokens_screen import MAIN, app_on, document_of, notices, opened, quiet, show

from txlab.drawing.formatting import count
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer
from txlab.engine.tokenizers.files import save_tokenizer
from txlab.errors import LabError
from txlab.tui.screens.tokens import encoded_text, text_panel, token_lines
from txlab.tui.screens.tokens.encoded_text import TokenizerChoice
from txlab.tui.screens.tokens.screen import TokensScreen
from txlab.tui.screens.tokens.token_view import TokensView
from txlab.tui.widgets.table import Table

HOSTILE = (
    b"[red]a[/x]\x1b[31m\x1b]0;owned\x07\x00\xff\xe2\x82 e\xcc\x81\xcc\x81 \xe2\x80\xae\xd7\xa9 \xc2\x9b2J "
    b"\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7\xcd\xb8\r\n\n\t$markup"
)


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate folder for saved files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TXLAB_TOKENIZERS", str(tmp_path / "shelf"))


# The text.


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_text_is_seen_as_its_tokens_with_ids_bytes_and_offsets(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen, view = await opened(pilot)
        text = "The cat that é chased"
        await show(pilot, text.encode())
        tokenizer = screen.text.trained
        assert tokenizer is not None
        ids = tokenizer.encode(text)
        assert view.lanes[0].ids.tolist() == ids
        shown = text_of(app)
        assert "│The│·c│at│·that│" in shown
        await pilot.press("right", "right")
        await pilot.pause()
        shown = text_of(app)
        assert str(ids[2]) in shown
        assert "61 74" in shown
        assert "5 … 6" in shown
        assert f"3 of {len(ids)}" in shown


async def test_the_text_is_shown_though_the_last_merge_was_reported_while_training_ran(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, view = await opened(pilot)
        training = screen.training
        assert training.state is not None
        assert isinstance(training.state.tokenizer, BytePairTokenizer)
        newest = BytePairTokenizer(training.state.tokenizer.merges[:20], training.state.tokenizer.pattern)
        training.state = dataclasses.replace(training.state, tokenizer=newest)
        training.session.running = True
        screen.take_tokenizer()
        training.session.running = False
        screen.take_tokenizer()
        await settle(pilot, lambda: quiet(screen) and view.lanes[0].tokenizer is newest)


async def test_why_tells_which_merges_made_the_token(tmp_path: Path) -> None:
    from txlab.engine.tokenizers.trees import explain_token, merge_tree

    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, view = await opened(pilot)
        await show(pilot, b" that")
        tokenizer, token = screen.text.trained, int(view.lanes[0].ids[0])
        assert isinstance(tokenizer, BytePairTokenizer)
        tree = merge_tree(tokenizer, token)
        assert tree.rank is not None
        assert tree.count is not None
        assert f"{count(tree.rank)} ×{count(tree.count)}" in text_of(app)
        assert "└─ t" in text_of(app)
        await pilot.press("w")
        found = await explained(pilot)
        assert found == explain_token(tokenizer, token)
        assert found.math == "K2"


async def test_on_a_narrow_terminal_the_tree_is_a_separate_page(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 20)) as pilot:
        _, view = await opened(pilot)
        await show(pilot, b" that characters")
        assert "merge tree" not in text_of(app)
        await pilot.press("v", "right")
        await settle(pilot, lambda: "merge tree" in text_of(app))
        assert view.cursor == 1
        before = text_of(app)
        await pilot.press("down", "down", "shift+down")
        await pilot.pause()
        assert text_of(app) != before
        await pilot.press("v", "left")
        await pilot.pause()
        assert "merge tree" not in text_of(app)
        assert view.cursor == 0


async def test_what_is_typed_becomes_tokens_and_digits_are_text(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen, view = await opened(pilot)
        await pilot.press("n", *"that", "space", "1", "2", "q", "enter", "tab", "question_mark")
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"that 12q\n\t?")
        assert app.current_mode == "tokens"
        assert screen.text.trained is not None
        assert view.lanes[0].ids.tolist() == screen.text.trained.encode("that 12q\n\t?")
        await pilot.press("left", "left", "backspace", "up", "home", "delete", "x")
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"xhat 12q\t?")
        await pilot.press("ctrl+z", "ctrl+z")
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"that 12q\t?")
        await pilot.press("escape")
        assert not view.editing
        await pilot.press("1")
        assert app.current_mode == "lab"


async def test_what_arrives_in_one_piece_with_the_key_that_begins_editing_is_text(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen, _ = await opened(pilot)
        for key in "n1q2e?":  # as a slow line delivers them: all at once
            app.post_message(events.Key(key, key))
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"1q2e?")
        assert app.screen is screen


async def test_letters_are_taken_out_whole(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen, view = await opened(pilot)
        await show(pilot, "aé日b".encode())
        await pilot.press("e", "end", "left", "backspace")
        await settle(pilot, lambda: view.text == "aéb".encode())
        await pilot.press("backspace", "delete")
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"a")


async def test_a_paste_is_the_new_text_and_goes_in_at_the_caret_while_editing(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen, view = await opened(pilot)
        app.post_message(events.Paste("two\rlines"))  # as terminals send them
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"two\nlines")
        await pilot.press("e", "right")
        app.post_message(events.Paste("[/x]\x1b"))
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"t[/x]\x1bwo\nlines")
        app.post_message(events.Paste("long " * 5000))
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"long " * 5000)
        assert not view.editing


async def test_any_file_is_opened_and_a_missing_one_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "some.bin"
    file.write_bytes(HOSTILE)
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, _ = await opened(pilot)
        await pilot.press("o", *"some.bin", "enter")
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == HOSTILE)
        await pilot.press("o", *"no.txt", "enter")
        await settle(pilot, lambda: "'no.txt' is not there" in text_of(app))
        await pilot.press("escape")
        await settle(pilot, lambda: not screen.text.encoding)
        assert screen.text.document is not None
        assert document_of(screen) == HOSTILE


@pytest.mark.parametrize("ascii", [False, True])
async def test_hostile_text_reaches_no_terminal(tmp_path: Path, ascii: bool) -> None:
    app = app_on(tmp_path, ascii=ascii)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, _ = await opened(pilot)
        await show(pilot, HOSTILE * 3, "bad[/x]\x1b\u202e.txt")
        screen.text.choices = [
            TokenizerChoice("trained"),
            TokenizerChoice("bytes"),
            TokenizerChoice("characters"),
            TokenizerChoice("words"),
        ]
        screen.text.wish()
        await settle(pilot, lambda: quiet(screen))
        for key in ("right", "i", "b", "down", "end", "v", "t", "full_stop", "m", "t", "l", "l", "e", "escape"):
            await pilot.press(key)
            await settle(pilot, lambda: not screen.training.learning)
            text = text_of(app)
            assert not set(text) & {"\x1b", "\x00", "\u202e", "\x07", "\x9b", "\u200d", "\r"}
            if ascii:
                assert text.isascii(), [c for c in text if not c.isascii()]
        assert "/x" in text_of(app)


# Long texts.


async def test_five_megabytes_are_encoded_in_a_worker_and_only_what_is_seen_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()
    laid: list[int] = []

    def noted(function: Any) -> Any:
        def wrapper(*arguments: Any, **named: Any) -> Any:
            threads.add(threading.current_thread())
            return function(*arguments, **named)

        return wrapper

    monkeypatch.setattr(text_panel, "lane_of", noted(text_panel.lane_of))
    monkeypatch.setattr(text_panel, "document_of", noted(text_panel.document_of))
    monkeypatch.setattr(encoded_text, "index", noted(encoded_text.index))
    plain = token_lines.layout
    monkeypatch.setattr(token_lines, "layout", lambda *a: laid.append(a[2]) or plain(*a))  # type: ignore[func-returns-value]
    data = b"".join(b"%d the cat that chased the mice \xe2\x82\xac\n" % line for line in range(130_000))
    assert len(data) > 5_000_000
    file = tmp_path / "big.txt"
    file.write_bytes(data)
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, view = await opened(pilot)
        laid.clear()
        screen.text.look_at_text(str(file), None)
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == data)
        assert MAIN not in threads
        assert threads
        assert len(laid) <= 2 * 40
        assert "view only" in text_of(app)
        for key in ("end", "home", "pagedown", "pagedown", "pageup", "down", "right"):
            laid.clear()
            await pilot.press(key)
            await pilot.pause()
            assert len(laid) <= 3 * 40, key
        await pilot.press("e")
        assert not view.editing
        assert "looked at, not edited" in notices(app)
        assert screen.text.trained is not None
        assert view.lanes[0].ids[:50].tolist() == screen.text.trained.encode(data[:400].decode())[:50]
        await pilot.press("end")
        await pilot.pause()
        assert f"{len(view.lanes[0]):,}".replace(",", " ") in text_of(app)
        app.post_message(events.Paste(data.decode()))
        await settle(pilot, lambda: quiet(screen) and screen.text.document.name == "pasted")
        assert MAIN not in threads
        assert screen.text.document is not None
        assert document_of(screen) == data


async def test_one_long_line_is_laid_out_piece_by_piece(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        _, view = await opened(pilot)
        before = view.laid_out
        await show(pilot, b"abc def " * 100_000)
        await pilot.press("end", "home", "pagedown")
        await pilot.pause()
        assert view.laid_out - before < 60
        assert view.top != (0, 0)


async def test_a_text_can_be_cancelled_and_the_one_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, _ = await opened(pilot)
        before = screen.text.document
        stopped = threading.Event()

        def slow(name: str, tokenizer: Any, document: Any, special: bool, progress: Any) -> Any:
            try:
                for _ in itertools.count():
                    progress(45, 100)
                    stopped.wait(0.01)
            finally:
                stopped.set()

        monkeypatch.setattr(text_panel, "lane_of", slow)
        screen.text.look_at_text("slow", b"never shown")
        await settle(pilot, lambda: "45%" in text_of(app))
        await pilot.press("x")
        await settle(pilot, lambda: stopped.is_set() and not screen.text.encoding)
        assert screen.text.document is before
        assert "cancelled" in notices(app)
        await pilot.press("right")


# Several tokenizers.


async def test_up_to_four_tokenizers_are_shown_side_by_side(tmp_path: Path) -> None:
    save = BytePairTokenizer([(97, 98)], "gpt4", ["<|end|>"])
    (tmp_path / "shelf").mkdir()
    save_tokenizer(save, tmp_path / "shelf" / "mine.json")
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, view = await opened(pilot)
        await show(pilot, b"ab <|end|> that")
        for name in ("bytes", "mine", "characters"):
            await pilot.press("c")
            await settle(pilot, lambda: "Compare tokenizers" in text_of(app))
            await pilot.press(*name, "enter")
            await settle(pilot, lambda: quiet(screen))
        assert [choice.title for choice in screen.text.shown] == ["trained", "bytes", "mine", "characters"]
        assert view.lanes[2].ids.tolist() == save.encode("ab <|end|> that")
        lines = [line for line in text_of(app).splitlines() if line[5:8].strip() in "1234" and "that" in line]
        assert len({line.index("that") for line in lines}) == 1
        assert len(lines) == 4
        screen.text.toggle(TokenizerChoice("words"))
        await settle(pilot, lambda: "4 tokenizers" in notices(app))
        await pilot.press("tab", "tab")
        assert view.front == 2
        await pilot.press("a")
        await settle(
            pilot, lambda: quiet(screen) and screen.text.lanes[2].ids.tolist() == save.encode("ab <|end|> that", True)
        )
        screen.text.toggle(TokenizerChoice("bytes"))
        await settle(pilot, lambda: quiet(screen) and len(view.lanes) == 3)


async def test_a_tokenizer_that_cannot_be_read_is_reported_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{[")
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, _ = await opened(pilot)
        screen.text.toggle(TokenizerChoice("file", "bad.json"))
        await settle(pilot, lambda: "bad.json" in notices(app) and quiet(screen))
        assert [choice.kind for choice in screen.text.shown] == ["trained"]


async def test_languages_are_compared_by_every_tokenizer_that_is_shown(tmp_path: Path) -> None:
    from txlab.experiments.sentences import languages

    app = app_on(tmp_path)
    async with app.run_test(size=(140, 40)) as pilot:
        screen, _ = await opened(pilot)
        screen.text.toggle(TokenizerChoice("bytes"))
        await settle(pilot, lambda: quiet(screen))
        await pilot.press("l")
        await settle(pilot, lambda: bool(screen.query_one("#languages", Table).rows))
        rows = {row[0]: row for row in screen.query_one("#languages", Table).rows}
        assert set(rows) == {language.name for language in languages()}
        for language in languages():
            assert screen.text.trained is not None
            assert rows[language.name][1] == count(len(screen.text.trained.encode(language.text)))
            assert count(len(language.text.encode())) in rows[language.name]
        assert rows["English"][3] == "1.00"
        await pilot.press("escape")
        assert screen.looked_at == "text"


def test_every_key_can_be_changed() -> None:
    for binding in [*TokensScreen.BINDINGS, *TokensView.BINDINGS]:
        assert binding.id.startswith(("tokens.", "screen.", "empty.")), binding


async def test_a_key_is_changed_by_its_id(tmp_path: Path) -> None:
    app = app_on(tmp_path, keys={"tokens.training": "y"})
    async with app.run_test(size=(120, 40)) as pilot:
        screen, _ = await opened(pilot)
        await pilot.press("t")
        assert screen.looked_at == "text"
        await pilot.press("y")
        assert screen.looked_at == "training"


def test_a_text_to_look_at_is_a_regular_file_of_a_bounded_size(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10 << 30)
    refused = {"fifo": "it is a FIFO", "huge": "at most 64 MiB", "": "it is a folder", "x" * 300: "too long"}
    for path, said in refused.items():
        with pytest.raises(LabError, match=said):
            encoded_text.read_text(str(tmp_path / path), lambda done, whole: None)
    with pytest.raises(LabError, match="it is a device"):
        encoded_text.read_text("/dev/zero", lambda done, whole: None)
