"""Esc is known for one soon, arrows stay arrows, also on a line that tears them apart."""

from __future__ import annotations

import pytest
from textual import constants, events

from txlab.tui import keyboard
from txlab.tui.keyboard import QUICK, Keys


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for module in ("textual._parser", "txlab.tui.keyboard"):
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
    assert keys.left() == keyboard.POLL
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


def test_the_rest_of_a_key_that_came_late_is_no_letters_and_is_waited_for_from_then_on(clock: Clock) -> None:
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


def test_brackets_that_a_person_types_after_an_esc_are_brackets(clock: Clock) -> None:
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
