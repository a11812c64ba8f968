"""Esc is recognized soon, and arrow keys stay arrow keys even if a slow line splits their sequences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import textual
from picture import text_of
from textual import constants, events
from textual.drivers.headless_driver import HeadlessDriver
from textual.drivers.linux_driver import LinuxDriver

import txlab
from txlab.tui import textual_internals
from txlab.tui.app import TxlabApp
from txlab.tui.textual_internals import POLL, QUICK, KeyDriver, Keys, quick_driver

pytestmark = pytest.mark.prepared


class Clock:
    """A clock that advances only when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for module in ("textual._parser", "txlab.tui.textual_internals"):
            monkeypatch.setattr(f"{module}.get_time", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.delenv("ESCDELAY", raising=False)
    return Clock(monkeypatch)


def names(messages: object) -> list[str]:
    return [message.key for message in messages if isinstance(message, events.Key)]  # type: ignore[attr-defined]


def test_an_escape_is_an_esc_when_nothing_follows(clock: Clock) -> None:
    keys = Keys()
    assert names(keys.feed("\x1b")) == []
    assert keys.left() == pytest.approx(QUICK)
    clock.now += QUICK / 2
    assert names(keys.tick()) == []
    clock.now += QUICK / 2 + 1e-6
    assert keys.left() == 0
    assert names(keys.tick()) == ["escape"]
    assert keys.left() == POLL
    assert names(keys.feed("q")) == ["q"]


@pytest.mark.parametrize(
    ("sequence", "key"), [("\x1b[A", "up"), ("\x1bOP", "f1"), ("\x1b[5~", "pageup"), ("\x1b[1;2B", "shift+down")]
)
def test_an_arrow_stays_an_arrow_wherever_it_is_torn(clock: Clock, sequence: str, key: str) -> None:
    for place in range(1, len(sequence)):
        keys = Keys()
        assert names(keys.feed(sequence[:place])) == []
        clock.now += QUICK * 0.9
        assert names(keys.tick()) == []
        assert names(keys.feed(sequence[place:])) == [key]


def test_the_late_rest_of_a_key_is_not_typed_as_letters_and_is_waited_for_afterwards(clock: Clock) -> None:
    keys = Keys()
    assert names(keys.feed("\x1b")) == []
    clock.now += 0.06
    assert names(keys.tick()) == ["escape"]  # too early, once
    assert names(keys.feed("[A")) == ["up"]
    clock.now += 1
    assert names(keys.feed("\x1b")) == []
    clock.now += 0.06
    assert names(keys.tick()) == []
    assert names(keys.feed("[B")) == ["down"]


def test_brackets_typed_after_an_esc_are_brackets(clock: Clock) -> None:
    keys = Keys()
    list(keys.feed("\x1b"))
    clock.now += QUICK * 2
    assert names(keys.tick()) == ["escape"]
    assert names(keys.feed("[")) == ["left_square_bracket"]
    clock.now += 0.1
    assert names(keys.feed("]")) == ["right_square_bracket"]
    clock.now += 2
    assert names(keys.feed("[A")) == ["left_square_bracket", "A"]


def test_a_sequence_that_has_begun_is_given_the_patience_of_textual(clock: Clock) -> None:
    keys = Keys()
    list(keys.feed("\x1b["))
    assert keys.left() == pytest.approx(constants.ESCAPE_DELAY)


def test_escdelay_is_obeyed(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESCDELAY", "400")
    monkeypatch.setattr(constants, "ESCAPE_DELAY", 0.4)
    keys = Keys()
    list(keys.feed("\x1b"))
    clock.now += 0.39
    assert names(keys.tick()) == []
    clock.now += 0.02
    assert names(keys.tick()) == ["escape"]


def test_private_names_of_textual_are_in_one_file() -> None:
    """Everything that Textual may change without notice is in one place, with its reason and its fallback."""
    names: set[str] = set()
    for file in Path(textual.__file__).parent.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        names |= set(re.findall(r"\bdef (_[a-z]\w+)", source)) | set(re.findall(r"\bself\.(_[a-z]\w+)", source))
    package = Path(txlab.__file__).parent
    found = []
    for file in [*package.joinpath("tui").rglob("*.py")]:
        source = file.read_text(encoding="utf-8")
        own = set(re.findall(r"def (_[a-z]\w+)|self\.(_[a-z]\w+)(?:: [^=]+)? =", source))
        mine = {name for pair in own for name in pair if name}
        used = {name for name in re.findall(r"\.(_[a-z]\w+)", source) if name in names and name not in mine}
        used |= set(re.findall(r"super\(\)\.(_[a-z]\w+)", source))
        used |= set(re.findall(r"(?:from|import) (textual\._\w+)", source))
        if used and file.name != "textual_internals.py":
            found.append((str(file.relative_to(package)), sorted(used)))
    assert found == []


async def test_without_the_private_names_screens_are_slower_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textual_internals, "picture_behind", lambda screen: None)
    monkeypatch.setattr("txlab.tui.screens.dialogs.picture_behind", lambda screen: None)
    monkeypatch.setattr("txlab.tui.preload.make_ready", lambda app, mode, make: None)
    app = TxlabApp(root=tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for key in ("question_mark", "escape", "3", "question_mark", "escape", "1"):
            await pilot.press(key)
            await pilot.pause()
        assert "Catalogue" in text_of(app) or "start" in text_of(app)


def test_another_driver_than_textuals_own_is_left_alone() -> None:
    assert quick_driver(HeadlessDriver) is HeadlessDriver
    assert quick_driver(LinuxDriver) is KeyDriver
