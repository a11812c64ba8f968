"""The list of the formulas: by chapter, or in the order of a lecture text, section by section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widgets import Input

from txlab.drawing.text import fit, formula
from txlab.experiments.formulas.content import Formula, content, lecture_texts
from txlab.experiments.schema import CHAPTERS
from txlab.tui.bindings import bind
from txlab.tui.panel import Panel
from txlab.tui.screens.plain_text import Words
from txlab.tui.theme import Signs
from txlab.tui.widgets.rows import Filter, Item, Line, Rows
from txlab.tui.widgets.terminal import is_ascii

BY_CHAPTER = "by chapter"


def sections(view: str) -> Iterator[tuple[str, list[Formula]]]:
    """Yield the headings of a view, each with its formulas: the chapters, or the sections of a lecture text."""
    formulas = content()[0]
    if view == BY_CHAPTER:
        for chapter, title in CHAPTERS.items():
            yield title, [each for each in formulas.values() if each.number.startswith(chapter)]
    else:
        for title, numbers in lecture_texts()[view].sections:
            yield title, [formulas[number] for number in numbers]


class ContentsPanel(Panel):
    """The formulas that match the filter. A row's key is the formula's number and its place: a text may cite a formula
    in several sections."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "v",
            "view",
            "list by chapter, or by the sections of a lecture text",
            "by text",
            id="formulas.view",
            synonyms="wang yang becker-kahn sull mehlig lecture sections order",
        ),
        bind("slash", "filter", "show only formulas with these words", "filter", id="formulas.filter"),
        bind("escape", "clear", "clear the filter", id="formulas.clear"),
    )

    class Chosen(Message):
        """Another formula is selected."""

    def __init__(self) -> None:
        super().__init__(id="contents-panel")
        self.view = BY_CHAPTER
        self.heading = Words(id="contents-title", classes="panel-title")
        self.rows = Rows(self.draw_row, "no match", id="contents")
        self.filter = Filter(self.rows, "/ filter: words", "formulas-filter")
        self.formulas: dict[str, Formula] = {}  # key of a row → formula

    def compose(self) -> ComposeResult:
        yield self.heading
        yield self.filter
        yield self.rows

    def on_mount(self) -> None:
        self.fill()

    @property
    def chosen(self) -> str:
        """The number of the selected formula; "" = none matches."""
        return self.formulas[self.rows.key].number if self.rows.key in self.formulas else ""

    def fill(self) -> None:
        """List the formulas of the view that match the filter; the same one stays selected."""
        before, words = self.chosen, self.filter.words
        self.formulas = {}
        items: list[Item] = []
        for heading, members in sections(self.view):
            found = [each for each in members if all(word in searched(each, heading) for word in words)]
            if not found and (words or not members):
                continue
            items.append(Item(None, heading, height=2 if items else 1))
            for each in found:
                key = f"{each.number} {len(items)}"
                self.formulas[key] = each
                items.append(Item(key))
        self.rows.set_items(items)
        exact = self.filter.value.strip().upper()
        if selected := self.key_of(exact) or self.key_of(before):
            self.rows.select(selected)
        self.say_heading()

    def select(self, number: str) -> None:
        """Select a formula; one that the view or the filter leaves out brings back the whole list."""
        if number == self.chosen or number not in content()[0]:
            return
        found = self.key_of(number)
        if found is None and not self.filter.has_focus:
            with self.prevent(Input.Changed):
                self.filter.value = ""
            if not any(each.number == number for _, members in sections(self.view) for each in members):
                self.view = BY_CHAPTER
            self.fill()
            found = self.key_of(number)
        if found is not None:
            self.rows.select(found)

    def key_of(self, number: str) -> str | None:
        return next((key for key, each in self.formulas.items() if each.number == number), None)

    def say_heading(self) -> None:
        title = self.view if self.view == BY_CHAPTER else lecture_texts()[self.view].title
        title = fit(formula(title, is_ascii(self)), max(8, self.size.width - 1)).rstrip()
        style = "bold underline $accent" if self.rows.has_focus else "bold"
        self.heading.say(Content.styled(title, style))

    def draw_row(self, item: Item, width: int, chosen: bool) -> list[Line]:
        if item.key is None:
            heading: Line = [(fit(formula(item.text, is_ascii(self)), width), "heading")]
            return [[], heading] if item.height == 2 else [heading]
        shown, focused = self.formulas[item.key], self.rows.has_focus
        mark = ("!" if is_ascii(self) else "≠") if shown.erratum else " "
        title = fit(formula(shown.title, is_ascii(self)), max(1, width - 7))
        strong: Line = [(Signs.cursor if chosen else " ", "accent" if focused else "quiet")]
        style = ("accent" if focused else "strong") if chosen else "plain"
        return [[*strong, (f"{shown.number:<4}", style), (title, style), (f" {mark}", "quiet")]]  # type: ignore[list-item]

    @on(Rows.Highlighted)
    def other_row(self) -> None:
        """Pass it on: a row that this panel's own handler selects would not reach the screen."""
        self.post_message(self.Chosen())

    @on(Input.Changed, "#formulas-filter")
    def filtered(self) -> None:
        self.fill()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "clear" or bool(self.filter.value)

    def action_view(self) -> None:
        views = [BY_CHAPTER, *lecture_texts()]
        self.view = views[(views.index(self.view) + 1) % len(views)]
        self.fill()

    def action_filter(self) -> None:
        self.filter.focus()

    def action_clear(self) -> None:
        self.filter.value = ""
        self.rows.focus()


def searched(shown: Formula, heading: str) -> str:
    """The text that the filter's words are looked for in."""
    parts = (shown.number, shown.title, heading, shown.source, "misprint erratum" if shown.erratum else "")
    return " ".join(parts).lower()
