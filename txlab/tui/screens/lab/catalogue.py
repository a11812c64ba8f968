"""The catalogue of the Lab: scenarios by chapter, a filter above them, and starting one.

A run is a process of its own, started by the same code as `txlab run --detach`, so it survives the console.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input
from textual.worker import get_current_worker

from txlab.drawing.formatting import STATES, about
from txlab.drawing.text import fit, visible
from txlab.experiments.schema import CHAPTERS
from txlab.tui.key_order import keys_wait
from txlab.tui.panel import Panel
from txlab.tui.screens.lab.describe import place_of
from txlab.tui.theme import glyphs
from txlab.tui.widgets.rows import Item, Line, Rows

if TYPE_CHECKING:
    from txlab.runs.scenario import CatalogueEntry


class Filter(Input):
    """One line above a list, `rows`; the arrows and enter move on to it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "clear the filter", id="filter.clear", show=False),
        Binding("down,enter", "leave", "to the list", id="filter.leave", show=False),
    ]

    def __init__(self, rows: Rows, placeholder: str, id: str) -> None:
        super().__init__(placeholder=placeholder, id=id, classes="filter")
        self.rows = rows

    def action_clear(self) -> None:
        self.value = ""
        self.action_leave()

    def action_leave(self) -> None:
        self.rows.focus()

    @property
    def words(self) -> list[str]:
        return self.value.lower().split()


class CataloguePanel(Panel):
    """The scenarios that match the filter."""

    KEYS: ClassVar[Sequence[Binding]] = (Binding("e", "change", "change first", id="lab.change"),)

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
        yield self.filter
        yield self.rows

    def on_mount(self) -> None:
        keys_wait(self, self.run_worker(self.load, thread=True, group="catalogue", exit_on_error=False))

    @property
    def chosen(self) -> CatalogueEntry | None:
        return self.entries.get(self.rows.key or "")

    def load(self) -> None:
        from txlab.runs.scenario import catalogue

        entries = catalogue()
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self.show, entries)

    def show(self, entries: list[CatalogueEntry]) -> None:
        self.entries = {entry.name: entry for entry in sorted(entries, key=place_of)}
        self.fill()
        self.post_message(self.Loaded())

    def fill(self) -> None:
        written = self.filter.value.strip().lower()
        words = self.filter.words
        items: list[Item] = []
        chapter = None
        for name, entry in self.entries.items():
            said = entry.scenario.about
            text = f"{name} {said.title} {CHAPTERS[said.chapter]} {' '.join(said.math)}".lower()
            if not all(word in text for word in words):
                continue
            if said.chapter != chapter:
                chapter = said.chapter
                items.append(Item(None, CHAPTERS[chapter], height=1 if not items else 2))
            items.append(Item(name))
        self.rows.empty = "no match" if words else "no scenarios are installed"
        self.rows.set_items(items)
        if written in self.entries:  # an exact match: cliff, not cliff-alpha, which is listed before it
            self.rows.select(written)

    def draw_entry(self, item: Item, width: int, chosen: bool) -> list[Line]:
        signs = glyphs(getattr(self.app, "ascii", False))
        if item.key is None:
            heading: Line = [(fit(item.text, width), "heading")]
            return [[], heading] if item.height == 2 else [heading]
        said = self.entries[item.key].scenario.about
        takes = "GPU" if said.device == "gpu" else about(said.minutes)
        focused = self.rows.has_focus
        mark = "accent" if focused else "quiet"
        name = fit(visible(item.key), max(1, width - 3 - len(takes)), ellipsis=signs.ellipsis)
        style = ("accent" if focused else "strong") if chosen else "plain"
        return [[(f"{signs.cursor if chosen else ' '} ", mark), (name, style), (f" {takes}", "quiet")]]  # type: ignore[list-item]

    @on(Input.Changed, "#filter")
    def filtered(self) -> None:
        self.fill()
        self.post_message(self.Filtered())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.in_use

    def action_change(self) -> None:
        from txlab.tui.screens.lab.overrides import ChangeFirst

        name = self.rows.key
        if name is not None:
            self.app.push_screen(ChangeFirst(name), lambda changes: None if changes is None else self.begin(changes))

    def begin(self, overrides: Sequence[str] = ()) -> None:
        """Start the chosen scenario."""
        name = self.rows.key
        if name is not None:
            root = self.app.root  # type: ignore[attr-defined]
            self.tell(f"{name}: {STATES['created']}")
            start = partial(self.start, name, overrides, root)
            keys_wait(self, self.run_worker(start, thread=True, group="start", exit_on_error=False))

    def start(self, name: str, overrides: Sequence[str], root: Path) -> None:
        """Start a run; called in a thread."""
        from txlab.runs.process import prepare, start_detached
        from txlab.runs.scenario import load_scenario

        path = prepare(load_scenario(name, list(overrides)), root=root)
        self.post_message(self.Started(path))
        start_detached(path)
        self.app.call_from_thread(self.tell, f"{name} runs on its own now; tab, enter opens it")
