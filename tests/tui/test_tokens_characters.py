"""Screen 2: why a character is several tokens, where tokenizers differ, and numbers that belong to what is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from picture import text_of
from recorded import settle
from textual import events
from tokens_screen import app_on, document_of, opened, quiet, show

from txlab.drawing.formatting import count
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer, passes
from txlab.engine.tokenizers.characters import why_no_merge
from txlab.engine.tokenizers.files import save_tokenizer
from txlab.engine.tokenizers.trees import explain_token
from txlab.tui.screens.dialogs import AskValue, Confirm
from txlab.tui.screens.tokens.detail_panel import cut_off, why_unmerged
from txlab.tui.screens.tokens.encoded_text import TokenizerChoice, explain_character_of, index, lane_of
from txlab.tui.screens.tokens.screen import TokensScreen
from txlab.tui.screens.tokens.token_layout import layout
from txlab.tui.widgets.table import Table

FAMILY = "👩\u200d👩\u200d👧"


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TXLAB_TOKENIZERS", str(tmp_path / "shelf"))


def never(done: int, total: int) -> None: ...


def on_one_line(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_character_is_shown_above_its_bytes(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=size) as pilot:
        _, view = await opened(pilot)
        await show(pilot, "我 a\nplain".encode())
        above, below = next(
            (text_of(app).splitlines()[at - 1], line)
            for at, line in enumerate(text_of(app).splitlines())
            if "\\xe6" in line[:30]
        )
        assert "我" in above
        assert below.index("\\xe6") <= above.index("我") <= below.index("\\x91") + 4
        row = view.rows(0)[0]
        ((column, _, cells),) = row.above
        assert cells == sum(span.width for span in row.lanes[0] if span.column < column + cells) + 2  # and two borders
        assert not view.rows(1)[0].above  # where every character is whole there is no such line
        await pilot.press("down")
        assert view.byte > 3


def test_a_token_says_which_byte_of_which_character_it_is() -> None:
    data = f"a {FAMILY}!".encode()
    points = "👩 U+200D 👩 U+200D 👧"
    assert cut_off(data, 2, 3, False) == [f"byte 1 of 4 of 👩 U+1F469 woman, code point 1 of 5 of {points}"]
    assert cut_off(data, 4, 6, False) == [f"bytes 3–4 of 4 of 👩 U+1F469 woman, code point 1 of 5 of {points}"]
    assert cut_off(data, 10, 11, False)[0].startswith("byte 2 of 4 of 👩 U+1F469 woman, code point 3 of 5")
    assert cut_off("我".encode(), 0, 1, False) == ["byte 1 of 3 of 我 U+6211 cjk unified ideograph-6211"]
    assert cut_off(data, 0, 2, False) == []


def test_a_line_ends_in_no_character() -> None:
    data = "aя日👩é".encode() * 20
    document = index(data)
    lane = lane_of("bytes", BytePairTokenizer([]), document, False, never)
    for cells in range(44, 90):  # where a character takes less than half a line
        for row in layout(document, [lane], 0, cells):
            assert data[row.start : row.stop].decode()


def test_a_token_says_that_no_merge_was_learnt() -> None:
    document = index("👩".encode())
    plain = lane_of("a", BytePairTokenizer([]), document, False, never)
    assert why_unmerged(document, plain, 0) == "f0 + 9f: never learnt, its training text is not known here"
    told = replace(plain, corpus=b"the cat")
    assert why_unmerged(document, told, 3) == "91 + a9: never learnt, not once in the training text"
    some = lane_of("b", BytePairTokenizer([(0xF0, 0x9F)]), document, False, never)
    assert why_unmerged(document, some, 0).startswith("f0 9f + 91: never learnt")


async def test_why_an_emoji_is_several_tokens_is_answered_in_four_keys(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, _ = await opened(pilot)
        await pilot.press("n")
        for character in FAMILY:  # a joiner that is typed is kept
            app.post_message(events.Key(character, character))
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == FAMILY.encode())
        await pilot.press("escape", "home")
        await settle(pilot, lambda: "byte 1 of 4 of 👩 U+1F469" in text_of(app))
        said = on_one_line(screen.detail.card.text.plain)
        assert "code point 1 of 5 of" in said
        assert "f0 + 9f: never learnt, not once in the training text" in said


async def test_why_on_a_token_of_a_character_is_the_whole_answer(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, view = await opened(pilot)
        await show(pilot, f"a {FAMILY}!".encode())
        view.go(7)  # a byte in the middle of the family, a joiner's
        await pilot.press("w")
        await settle(pilot, lambda: "why are 👩 U+200D 👩 U+200D 👧" in text_of(app))
        said = on_one_line(text_of(app))
        assert "U+1F469 woman, 4 bytes: f0 9f 91 a9" in said
        assert "e2 + 80 token 373 merge 117" in said
        assert "f0 + 9f never learnt not once in the training text" in said
        tokens = len(screen.text.lanes[0]) - 3
        assert f"18 bytes − {18 - tokens} merges = {tokens}" in said
        await pilot.press("right")
        await settle(pilot, lambda: "why is" in text_of(app) and "the token" in text_of(app))


async def test_why_on_a_letter_lists_its_merges_alone(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await show(pilot, b"The cat")
        await pilot.press("w")
        await settle(pilot, lambda: "why is 'The' the token" in text_of(app))
        assert "the others" not in text_of(app)  # no second page


def test_a_pattern_that_cuts_a_character_is_the_reason() -> None:
    document = index("e\u0301".encode())
    lane = lane_of("a", BytePairTokenizer([(0x65, 0xCC)]), document, False, never)
    why = explain_character_of(document, lane, 0)
    assert why is not None
    assert why.result == 3
    assert why.steps[0].result == "cut apart"
    assert explain_character_of(index(b"e"), lane_of("a", BytePairTokenizer([]), index(b"e"), False, never), 0) is None


def test_a_rare_pair_is_not_learnt_because_it_is_rare() -> None:
    tokenizer = BytePairTokenizer([(97, 98)], counts=[9])
    pair = (0xC3, 0xA9)
    assert why_no_merge(tokenizer, pair, "né é".encode())[1] == "too rare: 2 times; the last merge, 9"
    assert why_no_merge(tokenizer, pair, b"ab")[1] == "not once in the training text"
    assert why_no_merge(tokenizer, (97, 98), b"ab")[0] == "merge 0"


@pytest.mark.parametrize("ascii", [False, True])
async def test_below_a_short_text_are_the_merges_of_the_word_under_the_cursor(tmp_path: Path, ascii: bool) -> None:
    app = app_on(tmp_path, ascii=ascii)
    async with app.run_test(size=(80, 24)) as pilot:
        screen, view = await opened(pilot)
        assert not screen.text.has_class("-short")  # the sample fills the screen
        await show(pilot, b"hi unbelievably")
        await pilot.press("right", "right")
        await settle(pilot, lambda: "13 bytes" in text_of(app))
        tokenizer = screen.text.lanes[0].tokenizer
        assert isinstance(tokenizer, BytePairTokenizer)
        ranks = [rank for rank, _ in passes(list(b" unbelievably"), tokenizer.ranks, tokenizer.made)]
        shown = text_of(app)
        assert [line.split()[1] for line in shown.splitlines() if line.startswith(" merge ")] == [
            count(rank) for rank in ranks
        ]
        assert "never learnt, and why" in shown
        assert not ascii or shown.isascii()
        await show(pilot, b"line\n" * 40)
        assert not screen.text.has_class("-short")
        assert view.size.height == screen.text.size.height


@pytest.mark.parametrize("columns", [60, 80, 120])
async def test_the_tokenizer_in_use_is_named_at_the_top(tmp_path: Path, columns: int) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(columns, 24)) as pilot:
        screen, _ = await opened(pilot)
        assert text_of(app).splitlines()[2].startswith(" trained 1 024")
        assert ("on python-docs" in text_of(app).splitlines()[2]) == (columns > 60)
        screen.text.choices = [TokenizerChoice("trained"), TokenizerChoice("bytes")]
        screen.text.wish()
        await settle(pilot, lambda: quiet(screen) and len(screen.text.lanes) == 2)
        await pilot.press("tab")
        assert text_of(app).splitlines()[2].startswith(" 2 of 2: bytes")


def test_the_backslash_of_a_byte_is_not_doubled() -> None:
    found = explain_token(BytePairTokenizer([(0xF0, 0x9F)]), 256)
    assert found.question == r"why is '\xf0\x9f' the token 256?"
    assert (found.steps[0].name, found.steps[0].expression) == (r"'\xf0\x9f'", r"'\xf0' + '\x9f'")


async def test_where_tokenizers_cut_differently_is_marked(tmp_path: Path) -> None:
    document = index(b"ab cd ab")
    pairs = BytePairTokenizer([(97, 98)], "none")
    lanes = [lane_of(str(n), each, document, False, never) for n, each in enumerate((pairs, BytePairTokenizer([])))]
    (row,) = layout(document, lanes, 0, 60, False)
    assert row.differing == ((0, 2), (6, 8))
    assert layout(document, lanes[:1], 0, 60)[0].differing == ()
    (tmp_path / "shelf").mkdir()
    save_tokenizer(pairs, tmp_path / "shelf" / "mine.json")
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, _ = await opened(pilot)
        await show(pilot, b"ab cd ab")
        screen.text.choices = [TokenizerChoice("saved", "mine"), TokenizerChoice("bytes")]
        screen.text.wish()
        await settle(pilot, lambda: quiet(screen) and len(screen.text.lanes) == 2)
        assert "▔▔    ▔▔" in text_of(app)


async def test_languages_are_never_those_of_an_older_encoding(tmp_path: Path) -> None:
    from txlab.experiments.sentences import languages

    app = app_on(tmp_path)
    async with app.run_test(size=(140, 40)) as pilot:
        screen, _ = await opened(pilot)
        await pilot.press("l")
        table = screen.query_one("#languages", Table)
        await settle(pilot, lambda: bool(table.rows))
        before = table.rows
        await pilot.press("t", "left_curly_bracket")
        await settle(pilot, lambda: screen.training.state is not None and screen.training.state.merges == 0)
        await pilot.press("l")
        assert table.rows != before  # not one moment
        await settle(pilot, lambda: quiet(screen) and bool(table.rows))
        english = next(language for language in languages() if language.name == "English")
        shown = {row[0]: row for row in table.rows}
        assert shown["English"][1] == count(len(english.text.encode()))


async def test_vocabularies_are_compared_on_the_text_that_is_shown(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(160, 44)) as pilot:
        screen, _ = await opened(pilot)
        await pilot.press("t", "m")
        sizes = screen.query_one("#sizes", Table)
        await settle(pilot, lambda: bool(sizes.rows))
        await pilot.press("t")
        app.post_message(events.Paste("abc"))
        await pilot.press("t")
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"abc" and not sizes.rows)
        await pilot.press("m")
        await settle(pilot, lambda: bool(sizes.rows))
        assert sizes.rows[0][3] == "3"


async def test_a_text_of_ones_own_is_erased_after_a_question_only(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen, view = await opened(pilot)
        app.post_message(events.Paste("mine"))
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"mine")
        await pilot.press("n")
        await settle(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        assert document_of(screen) == view.text == b"mine"
        await pilot.press("n")
        await settle(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"" and view.editing)
        await pilot.press("a", "escape")
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"a")


async def test_the_built_in_tokenizer_is_offered_and_a_mistyped_path_keeps_the_dialog(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, _ = await opened(pilot)
        await pilot.press("c")
        await settle(pilot, lambda: "Compare tokenizers" in text_of(app))
        assert "python-docs" in text_of(app)
        await pilot.press("escape", "o", *"nowhere.txt", "enter")
        await settle(pilot, lambda: "'nowhere.txt' is not there" in text_of(app))
        assert isinstance(app.screen, AskValue)
        (tmp_path / "nowhere.txt").write_text("found")
        await pilot.press("enter")
        await settle(pilot, lambda: quiet(screen) and document_of(screen) == b"found")


async def test_the_merges_are_headed_in_plain_words(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen: Any = (await opened(pilot))[0]
        assert isinstance(screen, TokensScreen)
        await pilot.press("t")
        await settle(pilot, lambda: "merges so far" in text_of(app))
