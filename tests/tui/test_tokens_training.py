"""The training view: it shows what a recount of every pair finds, and a scenario uses what it saves."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
import regex
from picture import text_of
from recorded import explained, settle
from textual.pilot import Pilot
from tokens_screen import app_on, notices, opened, quiet

from txlab.drawing.formatting import count
from txlab.engine.tokenizers.patterns import PATTERNS
from txlab.tui.screens.dialogs import Confirm
from txlab.tui.screens.tokens.encoded_text import TokenizerChoice
from txlab.tui.screens.tokens.screen import TokensScreen
from txlab.tui.screens.tokens.token_layout import show_bytes
from txlab.tui.screens.tokens.training_panel import TrainingState
from txlab.tui.widgets.chart import Chart
from txlab.tui.widgets.table import Table
from txlab.tui.widgets.why import WhyScreen

TEXT = "the cat that chased the mice sat on the mat, and the cat was tired of the mice. " * 3


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate folder for saved files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TXLAB_TOKENIZERS", str(tmp_path / "shelf"))


def counted(text: str, merges: int) -> list[tuple[tuple[bytes, bytes], int]]:
    """Byte pair encoding by recounting everything at each merge, over words with the space before them."""
    words = [[bytes([b]) for b in word.encode()] for word in regex.findall(PATTERNS["gpt4"], text)]
    order = {bytes([b]): b for b in range(256)}
    found = []
    for merge in range(merges):
        pairs = Counter(pair for word in words for pair in itertools.pairwise(word))
        pair, times = min(pairs.items(), key=lambda item: (-item[1], order[item[0][0]], order[item[0][1]]))
        found.append((pair, times))
        order.setdefault(pair[0] + pair[1], 256 + merge)
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == pair:
                    word[i : i + 2] = [pair[0] + pair[1]]
                i += 1
    return found


def state_of(screen: TokensScreen) -> TrainingState:
    assert screen.training.state is not None
    return screen.training.state


async def training(pilot: Pilot[None], folder: Path) -> TokensScreen:
    """The training view, before the first merge of TEXT."""
    (folder / "text.txt").write_text(TEXT)
    screen, _ = await opened(pilot)
    await pilot.press("t")
    screen.training.learn_from(str(folder / "text.txt"))
    await settle(
        pilot,
        lambda: quiet(screen) and screen.training.state is not None and screen.training.state.size == len(TEXT),
    )
    return screen


async def at(pilot: Pilot[None], screen: TokensScreen, merges: int) -> None:
    await settle(
        pilot,
        lambda: quiet(screen) and screen.training.state is not None and screen.training.state.merges == merges,
    )


async def test_each_merge_is_the_most_frequent_pair_and_can_be_taken_back(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    expected = counted(TEXT, 9)
    async with app.run_test(size=(140, 40)) as pilot:
        screen = await training(pilot, tmp_path)
        pairs, made = screen.query_one("#pairs", Table), screen.query_one("#made", Table)
        for done, ((left, right), times) in enumerate(expected[:8]):
            assert pairs.rows[0][0] == f"{show_bytes(left)} + {show_bytes(right)}"
            assert pairs.rows[0][2] == count(times)
            await pilot.press("full_stop")
            await at(pilot, screen, done + 1)
            assert made.rows[0][:3] == (
                f"{show_bytes(left)} + {show_bytes(right)}",
                show_bytes(left + right),
                count(times),
            )
        assert f"vocabulary {256 + 8}" in text_of(app)
        await pilot.press("comma", "comma", "comma")
        await at(pilot, screen, 5)
        (left, right), times = expected[5]
        assert pairs.rows[0][0] == f"{show_bytes(left)} + {show_bytes(right)}"
        assert pairs.rows[0][2] == count(times)


async def test_keys_that_come_quickly_are_counted(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await training(pilot, tmp_path)
        await pilot.press(*["full_stop"] * 12, "comma", "comma")
        await at(pilot, screen, 10)


async def test_a_run_goes_to_the_vocabulary_that_is_aimed_for_and_pauses(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await training(pilot, tmp_path)
        await pilot.press("z")
        await settle(pilot, lambda: "Vocabulary" in text_of(app))
        await pilot.press(*["backspace"] * 4, *"270", "enter")
        await settle(pilot, lambda: screen.training.recipe.vocabulary == 270)
        await pilot.press("right_curly_bracket")
        await at(pilot, screen, 14)
        await pilot.press("left_curly_bracket")
        await at(pilot, screen, 0)
        await pilot.press("minus", "minus", "space")
        await settle(pilot, lambda: screen.training.session.running)
        await pilot.press("space")
        await settle(pilot, lambda: not screen.training.learning)
        assert state_of(screen).merges < 14


async def test_curves_and_the_text_follow_the_merges(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(140, 44)) as pilot:
        screen = await training(pilot, tmp_path)
        await pilot.press(*["full_stop"] * 6)
        await at(pilot, screen, 6)
        lengths = screen.query_one("#length", Chart).series[0].values
        assert lengths[0] == len(TEXT)
        assert len(lengths) == 7
        assert (lengths[1:] < lengths[:-1]).all()
        found = {each.label: each.values for each in screen.query_one("#found", Chart).series}
        assert found["times the pair was found"].tolist() == [times for _, times in counted(TEXT, 6)]
        assert found["vocabulary"].tolist() == list(range(256, 263))
        assert "│th│" in text_of(app) or "│·t│" in text_of(app)


async def test_vocabularies_are_compared(tmp_path: Path) -> None:
    from txlab.engine.tokenizers.training import train_tokenizer

    app = app_on(tmp_path)
    async with app.run_test(size=(160, 44)) as pilot:
        screen, _ = await opened(pilot)
        await pilot.press("t", "m")
        await settle(pilot, lambda: bool(screen.query_one("#sizes", Table).rows))
        rows = screen.query_one("#sizes", Table).rows
        assert [row[0] for row in rows] == ["256", "512", "1 024"]
        assert screen.text.document is not None
        small = train_tokenizer([screen.text.corpus], 512)
        assert rows[1][1] == count(len(small.encode_long(screen.text.corpus)))
        assert rows[1][3] == count(len(small.encode(screen.text.document.data.decode())))
        await pilot.press("m")
        assert not screen.training.sizes


async def test_a_saved_tokenizer_is_immediately_usable_in_a_scenario(tmp_path: Path) -> None:
    from txlab.experiments.tokenizer_store import names_of_saved, tokenizer_named
    from txlab.runs.scenario import load_scenario

    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await training(pilot, tmp_path)
        await pilot.press(*["full_stop"] * 8)
        await at(pilot, screen, 8)
        await pilot.press("k")
        await settle(pilot, lambda: "Save this tokenizer" in text_of(app))
        await pilot.press(*["backspace"] * 20, *"mine", "enter")
        await settle(pilot, lambda: "data.tokenizer=mine" in notices(app))
        assert names_of_saved() == ["mine"]
        assert screen.text.trained is not None
        assert tokenizer_named("mine").encode(TEXT) == screen.text.trained.encode(TEXT)
        said = ["data.tokenizer=mine", f"data.text={tmp_path / 'text.txt'}"]
        from txlab.experiments.kinds.language_model.data import build_data
        from txlab.experiments.kinds.language_model.schema import LanguageModelScenario

        scenario = load_scenario("gpt-tiny", [*said, "model.context=8"]).scenario
        assert isinstance(scenario, LanguageModelScenario)
        assert build_data(scenario).vocabulary == 264
        # The same name again asks first.
        await pilot.press("full_stop")
        await at(pilot, screen, 9)
        await pilot.press("k")
        await settle(pilot, lambda: "Save this tokenizer" in text_of(app))
        await pilot.press(*["backspace"] * 20, *"mine", "enter")
        await settle(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        assert tokenizer_named("mine").vocabulary == 264
        await pilot.press("t")
        screen.text.toggle(TokenizerChoice("saved", "mine"))
        await settle(pilot, lambda: quiet(screen) and len(screen.text.lanes) == 2)


async def test_why_says_why_a_pair_is_next_and_which_merges_made_a_token(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await training(pilot, tmp_path)
        await pilot.press(*["full_stop"] * 3)
        await at(pilot, screen, 3)
        await pilot.press("w")
        await settle(pilot, lambda: isinstance(app.screen, WhyScreen) and "merged next" in text_of(app))
        await pilot.press("escape", "tab")
        await pilot.pause()
        assert screen.query_one("#made", Table).has_focus
        await pilot.press("w")
        await explained(pilot)


async def test_a_text_that_cannot_be_read_leaves_what_was_learnt(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await training(pilot, tmp_path)
        screen.training.learn_from(str(tmp_path / "nothing.txt"))
        await settle(pilot, lambda: "nothing.txt" in notices(app) and not screen.training.learning)
        assert state_of(screen).size == len(TEXT)
