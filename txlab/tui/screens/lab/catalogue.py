"""The catalogue of the Lab: scenarios by chapter, a filter above them, and starting one.

A run is a separate process, started by the same code as `txlab run --detach`, so it survives the console.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widgets import Input
from textual.worker import get_current_worker

from txlab.drawing.formatting import STATES, about, count_of
from txlab.drawing.text import fit, visible
from txlab.experiments.schema import CHAPTERS
from txlab.tui.bindings import bind
from txlab.tui.key_order import run_in_thread
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import Rule
from txlab.tui.screens.lab.describe import place_of
from txlab.tui.screens.plain_text import Words
from txlab.tui.theme import Signs
from txlab.tui.widgets.rows import Filter, Item, Line, Rows

if TYPE_CHECKING:
    from txlab.runs.scenario import CatalogueEntry


TOUR_WORDS = "start here tour first-steps lecture begin"
START = "Start here"
"""The key of the first row, which starts the tour."""


class CataloguePanel(Panel):
    """The scenarios that match the filter."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "e",
            "change",
            "change its settings before it starts",
            "change first",
            id="lab.change",
            synonyms="settings parameters configure set options",
        ),
    )

    class Loaded(Message):
        """The scenarios have been read."""

    class Filtered(Message):
        """The filter has changed."""

    class Started(Message):
        """A run was prepared in this folder and is running in its own process."""

        def __init__(self, path: Path) -> None:
            super().__init__()
            self.path = path

    def __init__(self) -> None:
        super().__init__(id="catalogue-panel")
        self.entries: dict[str, CatalogueEntry] = {}
        self.rows = Rows(self.draw_entry, "reading the catalogue…", id="catalogue")
        self.filter = Filter(self.rows, "/ filter: words", "filter")
        self.in_use = True  # whether the keys work on this list

    def compose(self) -> ComposeResult:
        yield Words("Scenarios", classes="panel-title", id="catalogue-title")
        yield Rule()
        yield self.filter
        yield self.rows

    def on_mount(self) -> None:
        run_in_thread(self, self.load, "catalogue")

    @property
    def chosen(self) -> CatalogueEntry | None:
        return self.entries.get(self.rows.key or "")

    def load(self) -> None:
        from txlab.runs.folder import list_runs
        from txlab.runs.scenario import catalogue

        # The first command of the README has made one run.
        entries, first_start = catalogue(), len(list_runs(self.app.root)) <= 1  # type: ignore[attr-defined]
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self.show, entries, first_start)

    def show(self, entries: list[CatalogueEntry], first_start: bool) -> None:
        self.entries = {entry.name: entry for entry in sorted(entries, key=place_of)}
        if not first_start:
            self.rows.key = next(iter(self.entries), None)
        self.fill()
        self.post_message(self.Loaded())

    def fill(self) -> None:
        written = self.filter.value.strip().lower()
        words = self.filter.words
        items = [Item(START)] if all(word in TOUR_WORDS for word in words) else []
        chapter = None
        for name, entry in self.entries.items():
            described = entry.scenario.about
            text = f"{name} {described.title} {CHAPTERS[described.chapter]} {' '.join(described.math)}".lower()
            if not all(word in text for word in words):
                continue
            if described.chapter != chapter:
                chapter = described.chapter
                items.append(Item(None, CHAPTERS[chapter], height=2 if items else 1))
            items.append(Item(name))
        self.rows.empty = "no match" if words else "no scenarios are installed"
        self.rows.set_items(items)
        self.say_title()
        if written in self.entries:  # an exact match: cliff, not cliff-alpha, which is listed first
            self.rows.select(written)

    @property
    def counted(self) -> str:
        """ "73", or "3 of 73" that match the filter"""
        return count_of(sum(key != START for key in self.rows.selectable()), len(self.entries))

    def say_title(self) -> None:
        """The heading is lit while the keys act on this list."""
        style = "bold underline $accent" if self.in_use else "bold $quiet"
        number = Content.styled(f"   {self.counted}", "$quiet") if self.entries else Content("")
        title = Content.assemble(Content.styled("Scenarios", style), number)
        self.query_one("#catalogue-title", Words).say(title)
        self.query_one(Rule).light(self.in_use)

    def draw_entry(self, item: Item, width: int, chosen: bool) -> list[Line]:
        if item.key is None:
            heading: Line = [(fit(item.text, width), "heading")]
            return [[], heading] if item.height == 2 else [heading]
        takes = "10 min"
        if item.key != START:
            info = self.entries[item.key].scenario.about
            takes = "GPU" if info.device == "gpu" else about(info.minutes)
        focused = self.rows.has_focus
        mark = "accent" if focused else "quiet"
        name = fit(visible(item.key), max(1, width - 3 - len(takes)))
        style = ("accent" if focused else "strong") if chosen else "plain"
        return [[(f"{Signs.cursor if chosen else ' '} ", mark), (name, style), (f" {takes}", "quiet")]]  # type: ignore[list-item]

    @on(Input.Changed, "#filter")
    def filter_entries(self) -> None:
        self.fill()
        self.post_message(self.Filtered())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.in_use

    def action_change(self) -> None:
        from txlab.tui.screens.lab.overrides import OverridesDialog

        name = self.rows.key
        if name in self.entries:
            self.app.push_screen(
                OverridesDialog(name), lambda changes: None if changes is None else self.begin(changes)
            )

    def begin(self, overrides: Sequence[str] = ()) -> None:
        """Start the chosen scenario, or the tour."""
        name = self.rows.key
        if name == START:
            from txlab.runs.lecture import FIRST_STEPS

            self.app.play_lecture(FIRST_STEPS)  # type: ignore[attr-defined]
        elif name is not None:
            root, lecture = self.app.root, self.app.lecture  # type: ignore[attr-defined]
            overrides = overrides or (lecture.settings_of(name) if lecture is not None else ())
            self.tell(f"{name}: {STATES['created']}")
            start = partial(self.start, name, overrides, root)
            run_in_thread(self, start, "start")

    def start(self, name: str, overrides: Sequence[str], root: Path) -> None:
        """Start a run; called in a thread."""
        from txlab.runs.process import start_scenario

        start_scenario(name, overrides, root, lambda path: self.post_message(self.Started(path)))
        self.app.call_from_thread(self.tell, f"{name} runs on its own now; tab, enter opens it")
