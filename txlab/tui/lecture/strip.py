"""The lines of a lecture above the keys of every screen: position, title, sentence, and what to press."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.content import Content
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widget import Widget

from txlab.drawing.text import visible, width
from txlab.runs.lecture import TYPED, Step, character_name, pressed_keys
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.screens.keyline import KeyLine
from txlab.tui.screens.plain_text import spread
from txlab.tui.widgets.terminal import is_ascii, refresh_layout

HINTS = "pgdn pgup  ^t notes  ^l leave"


class Shown(Protocol):
    """What is shown of a lecture."""

    @property
    def step(self) -> Step: ...
    @property
    def position(self) -> str:
        """ "3 of 7" """

    @property
    def waiting(self) -> str:
        """ "step 240 of 600", while the lecture waits for a step of the run; or that it continues here."""

    notes_shown: bool
    trouble: str
    """Why the state of the step is not there."""


class LectureStrip(Widget, can_focus=False):
    """Shows the present step of a lecture."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    LectureStrip { height: auto; width: 1fr; padding: 0 1; background: $panel; color: $foreground; }
    """

    def __init__(self, lecture: Shown) -> None:
        super().__init__(classes="above-keys")
        self.lecture = lecture

    def on_mount(self) -> None:
        if self.screen.is_modal:  # which has no keys below, and its dialog in the middle of what is left
            self.styles.dock = "bottom"
            self.styles.padding = (0, 1, 1, 1)

    def on_resize(self) -> None:
        if isinstance(self.screen, BenchScreen):
            self.call_after_refresh(self.screen.room_changed)

    def render(self) -> Content:
        lecture, step, ascii = self.lecture, self.lecture.step, is_ascii(self)
        hints = [[(f"  {HINTS}", "$text-muted")], [(f"  {lecture.position}", "bold")]]
        if lecture.waiting:
            hints.append([(f"  {lecture.waiting}", "$accent")])
        elif step.press:
            hints.append([("  press ", ""), (f" {display_of(step.press)} ", "bold $background on $accent")])
        cells = self.size.width
        parts = [spread([(fitted(visible(step.title, ascii), hints, cells), "bold $accent")], hints, cells)]
        parts.append(Content("\n" + visible(step.say, ascii)))
        if lecture.trouble:
            parts.append(Content.styled("\n" + visible(lecture.trouble, ascii), "bold $error"))
        if lecture.notes_shown and step.notes:
            parts.append(Content.styled("\n" + visible(step.notes, ascii), "italic $text-muted"))
        return Content.assemble(*parts)


def show_strip(screen: Screen[Any], lecture: Shown) -> None:
    """Show the present step on a screen, above its keys, of which the one to press glows."""
    key = lecture.step.press
    for line in screen.query(KeyLine):
        line.glow(next(pressed_keys([key]))[0] if key else "")
    strip = next(iter(screen.query(LectureStrip)), None)
    if strip is None:
        strip = LectureStrip(lecture)
        screen.mount(strip, before=next(iter(screen.query(KeyLine)), None))
    strip.lecture = lecture
    screen.add_class("-lecture")  # messages appear above the strip
    refresh_layout(strip)


def remove_strip(screen: Screen[Any]) -> None:
    """Remove what a lecture that was left shows on a screen."""
    screen.query(LectureStrip).remove()
    screen.remove_class("-lecture")
    for line in screen.query(KeyLine):
        line.glow("")


def fitted(title: str, hints: Sequence[Sequence[tuple[str, str]]], cells: int) -> str:
    """Return the title, cut so that at least the last hint fits to its right."""
    room = cells - sum(width(text) for text, _ in hints[-1]) - 1
    return title if width(title) <= room else title[: max(0, room)]


def display_of(key: str) -> str:
    """Return how a key is written on the screen.

    >>> display_of("full_stop"), display_of("ctrl+s"), display_of("enter")
    ('.', '^s', 'enter')
    """
    name = key if len(key) > 1 else character_name(key)
    return key if key == "space" else TYPED.get(name, name.replace("ctrl+", "^"))


class PointedWords(LineFilter):
    """Draws words in the style of a pointer wherever they are painted."""

    def __init__(self, words: Sequence[str], style: Style) -> None:
        super().__init__()
        self.style = style
        self.words = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))))

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        spans = [match.span() for match in self.words.finditer("".join(each.text for each in segments))]
        if not spans:
            return segments
        found: list[Segment] = []
        begin = 0
        for segment in segments:
            end, at = begin + len(segment.text), begin
            for first, last in spans:
                low, high = max(first, at), min(last, end)
                if low < high:
                    found.append(Segment(segment.text[at - begin : low - begin], segment.style, segment.control))
                    style = (segment.style or Style.null()) + self.style
                    found.append(Segment(segment.text[low - begin : high - begin], style, segment.control))
                    at = high
            found.append(Segment(segment.text[at - begin :], segment.style, segment.control))
            begin = end
        return [each for each in found if each.text or each.control]
