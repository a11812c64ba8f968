"""Screen 1, the Lab: what can be run, what each scenario shows, and what has been run.

Notable: the catalogue, the runs and every start, resume or deletion are worked on in threads; the list of runs reads
only what one sees of it (`txlab.tui.run_summary`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input
from textual.worker import get_current_worker

from txlab.drawing.formatting import count
from txlab.drawing.text import fit, visible
from txlab.experiments.schema import CHAPTERS
from txlab.tui.formatting import about
from txlab.tui.run_summary import Glance, RunsUnder
from txlab.tui.screens.base_screens import Rule
from txlab.tui.screens.keyline import KeyLine
from txlab.tui.screens.lab.actions import RunsActions
from txlab.tui.screens.lab.describe import describe_run, describe_scenario, no_runs, place_of, welcome
from txlab.tui.screens.lab.rows import Item, Line, Rows
from txlab.tui.screens.run_lines import run_lines
from txlab.tui.screens.words import Words
from txlab.tui.theme import glyphs
from txlab.tui.widgets.page import Page

if TYPE_CHECKING:
    from txlab.runs.scenario import Entry


class Filter(Input):
    """One line above the catalogue; the arrows and enter go on to the list below it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "clear the filter", id="filter.clear", show=False),
        Binding("down,enter", "leave", "to the list", id="filter.leave", show=False),
    ]

    def action_clear(self) -> None:
        self.value = ""
        self.action_leave()

    def action_leave(self) -> None:
        self.screen.query_one("#catalogue", Rows).focus()


class LabScreen(RunsActions):
    """The catalogue by chapter, the description of what is selected, and the runs."""

    CSS_PATH = "lab.tcss"
    AUTO_FOCUS = "#catalogue"
    HELP_ABOUT = (
        "Choose a scenario and press enter: it runs in a process of its own, and goes on when you leave. "
        "Tab goes to the runs; enter there opens one."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", "start", id="lab.start", key_display="enter"),
        Binding("e", "change", "change first", id="lab.change"),
        Binding("r", "resume", "resume", id="lab.resume"),
        Binding("x", "stop", "stop", id="lab.stop"),
        Binding("d", "delete", "delete", id="lab.delete"),
        Binding("w", "why", "why", id="screen.why"),
        Binding("tab,shift+tab", "other", "runs", id="lab.other", key_display="tab"),
        Binding("J,shift+down", "scroll(1)", "more text", id="lab.scroll", key_display="J K"),
        Binding("K,shift+up", "scroll(-1)", "text before", id="lab.scroll-back", show=False),
        Binding("slash", "filter", "filter", id="lab.filter", key_display="/"),
        Binding("a", "attach", "attach", id="lab.attach"),
        Binding("colon", "palette", "everything", id="screen.palette", key_display=":"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, Entry] = {}
        self.paths: list[Path] = []
        self.glances: dict[Path, Glance] = {}
        self.under: RunsUnder | None = None
        self.looking = False
        self.seen_now = True
        self.loaded = False
        self.await_run = ""
        self.working_on = "catalogue"

    def compose_body(self) -> ComposeResult:
        yield Words(id="tabs")
        with Horizontal(id="panels"):
            with Vertical(id="catalogue-panel"):
                yield Filter(placeholder="/ filter", id="filter", select_on_focus=False)
                yield Rows(self.draw_entry, "reading the catalogue…", id="catalogue")
            yield Page(id="details")
            with Vertical(id="runs-panel"):
                yield Words("Runs", classes="panel-title", id="runs-title")
                yield Rule()
                yield Rows(self.draw_run, no_runs(), id="runs")

    def on_mount(self) -> None:
        self.under = RunsUnder(self.app.root)  # type: ignore[attr-defined]
        self.run_worker(self.load_catalogue, thread=True, group="catalogue", exit_on_error=False)
        self.set_interval(0.5, self.look)
        self.look()
        self.say_tabs()

    @on(events.ScreenResume)
    def seen(self) -> None:
        self.seen_now = True
        self.look()

    @on(events.ScreenSuspend)
    def unseen(self) -> None:
        self.seen_now = False

    # The catalogue.

    def load_catalogue(self) -> None:
        from txlab.runs.scenario import catalogue

        entries = catalogue()
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self.show_catalogue, entries)

    def show_catalogue(self, entries: list[Entry]) -> None:
        self.entries = {entry.name: entry for entry in sorted(entries, key=place_of)}
        self.loaded = True
        self.fill_catalogue()
        self.say_details()

    def fill_catalogue(self) -> None:
        words = self.query_one(Filter).value.lower().split()
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
        rows = self.query_one("#catalogue", Rows)
        rows.empty = "nothing of that name" if words else "no scenarios are installed"
        rows.set_items(items)

    def draw_entry(self, item: Item, width: int, chosen: bool) -> list[Line]:
        signs = glyphs(self.ascii)
        if item.key is None:
            heading: Line = [(fit(item.text, width), "heading")]
            return [[], heading] if item.height == 2 else [heading]
        said = self.entries[item.key].scenario.about
        takes = "GPU" if said.device == "gpu" else about(said.minutes)
        focused = self.query_one("#catalogue", Rows).has_focus
        mark = "accent" if focused else "quiet"
        name = fit(visible(item.key), max(1, width - 3 - len(takes)), ellipsis=signs.ellipsis)
        style = ("accent" if focused else "strong") if chosen else "plain"
        return [[(f"{signs.cursor if chosen else ' '} ", mark), (name, style), (f" {takes}", "quiet")]]  # type: ignore[list-item]

    @on(Input.Changed, "#filter")
    def filtered(self) -> None:
        self.fill_catalogue()
        self.fill_runs()
        written = self.query_one(Filter).value.strip().lower()
        if written in self.entries:  # cliff, and not cliff-alpha, which stands before it
            self.query_one("#catalogue", Rows).select(written)

    def action_filter(self) -> None:
        self.show_side("catalogue")
        self.query_one(Filter).focus()

    # The runs.

    def look(self) -> None:
        """Look at the runs in a thread, unless that is being done."""
        if self.looking or not self.seen_now or self.under is None or not self.is_attached:
            return
        self.looking = True
        rows = self.query_one("#runs", Rows)
        seen = {Path(key).name for key in rows.visible_keys()}
        if rows.key:
            seen.add(Path(rows.key).name)
        self.run_worker(lambda: self.look_at_runs(seen), thread=True, group="runs", exit_on_error=False)

    def look_at_runs(self, seen: set[str], force: bool = False) -> None:
        worker = get_current_worker()
        paths: list[Path] = []
        news: dict[Path, Glance] = {}
        try:
            assert self.under is not None
            paths, news = self.under.look(seen, force)
        finally:
            self.looking = False
        if not worker.is_cancelled and self.is_attached:
            self.app.call_later(self.show_runs, paths, news)

    def show_runs(self, paths: list[Path], news: dict[Path, Glance]) -> None:
        if not self.is_attached:
            return
        self.glances.update(news)
        if paths != self.paths:
            self.paths = paths
            self.fill_runs()
        elif news:
            self.query_one("#runs", Rows).redraw_items({str(path) for path in news})
        if news and self.side() == "runs":
            self.say_details()
        if news or not paths:
            self.say_tabs()

    def fill_runs(self) -> None:
        words = self.query_one(Filter).value.lower().split()
        rows = self.query_one("#runs", Rows)
        shown = [path for path in self.paths if all(word in path.name.lower() for word in words)]
        rows.empty = "no run of that name" if words and self.paths else no_runs()
        rows.set_items([Item(str(path), height=2) for path in shown])
        if self.await_run and self.await_run in rows.selectable():
            rows.select(self.await_run)
            self.await_run = ""

    def draw_run(self, item: Item, width: int, chosen: bool) -> list[Line]:
        path = Path(item.key or "")
        focused = self.query_one("#runs", Rows).has_focus
        return run_lines(path, self.glances.get(path), width, chosen, focused, self.ascii)

    # What is said about the selected one.

    def side(self) -> str:
        """Which list the keys work on.

        Kept here, because the focus itself moves a moment after the key: a quick tab, enter must not start a scenario.
        """
        return self.working_on

    def selected_run(self) -> Glance | None:
        key = self.query_one("#runs", Rows).key
        if key is None:
            return None
        path = Path(key)
        return self.glances.get(path) or Glance(path, path.name, path.name, status="created")

    @on(Rows.Highlighted)
    def other_row(self, event: Rows.Highlighted) -> None:
        if event.rows.has_focus or event.rows.id == "catalogue":
            self.say_details(home=True)

    @on(Rows.Chosen)
    async def clicked_again(self) -> None:
        await self.run_action("start")

    def on_descendant_focus(self) -> None:
        self.working_on = "runs" if self.query_one("#runs", Rows).has_focus else "catalogue"
        self.fold()
        self.say_tabs()
        self.say_details()
        self.refresh_keys()

    def say_details(self, home: bool = False) -> None:
        text = self.query_one("#details", Page)
        run, name = self.selected_run(), self.query_one("#catalogue", Rows).key
        if self.side() == "runs" and run is not None:
            text.say(describe_run(run, text.cells, min(18, self.size.height - 24), self.ascii), home)
        elif name is not None and name in self.entries:
            text.say(describe_scenario(self.entries[name], text.cells, self.ascii), home)
        else:
            text.say(welcome() if self.loaded else "")
        self.call_after_refresh(self.refresh_keys)

    def refresh_keys(self) -> None:
        """The bottom line once more, if it would say anything else."""
        line = self.query_one(KeyLine)
        if line.rows != line.shown():
            line.refresh()

    @on(events.Resize)
    def other_size(self) -> None:
        self.call_after_refresh(self.fold)
        self.call_after_refresh(self.say_details)

    def fold(self) -> None:
        """Where the lists are tabs, show the one that the keys work on. Elsewhere the class would change nothing, but
        every style would be matched again, 20 ms."""
        if self.has_class("-narrow") or self.has_class("-tiny"):
            self.set_class(self.side() == "runs", "-runs")

    def say_tabs(self) -> None:
        going = sum(run.going for run in self.glances.values())
        side = self.side()
        parts = []
        for name, title in (("catalogue", "Catalogue"), ("runs", f"Runs {len(self.paths)}")):
            parts += [Content.styled(title, "bold underline $accent" if name == side else "$quiet"), Content("   ")]
        self.query_one("#tabs", Words).say(
            Content.assemble(*parts, Content.styled("tab changes", "$quiet")), layout=False
        )
        known = f"   {count(len(self.paths))}" if self.paths else ""
        alive = f", {going} running" if going else ""
        self.query_one("#runs-title", Words).say(
            Content.assemble(Content.styled("Runs", "bold"), Content.styled(known + alive, "$quiet")), layout=False
        )

    def show_side(self, side: str) -> None:
        self.working_on = side
        self.fold()
        self.query_one(f"#{side}", Rows).focus()

    def action_other(self) -> None:
        self.show_side("catalogue" if self.side() == "runs" else "runs")

    # What one does.

    def action_start(self) -> None:
        """Enter: start the scenario, or open the run."""
        if self.side() == "runs":
            self.action_attach()
            return
        name = self.query_one("#catalogue", Rows).key
        if name is not None:
            self.begin(name, [])

    def action_change(self) -> None:
        name = self.query_one("#catalogue", Rows).key
        if name is None:
            return
        from txlab.tui.screens.lab.overrides import ChangeFirst

        def begin(overrides: list[str] | None) -> None:
            if overrides is not None:
                self.begin(name, overrides)

        self.app.push_screen(ChangeFirst(name), begin)

    def action_attach(self) -> None:
        if (run := self.selected_run()) is not None:
            self.app.look_at(run.path)  # type: ignore[attr-defined]

    def action_scroll(self, by: int) -> None:
        """The description, half a page on or back."""
        details = self.query_one("#details", Page)
        details.scroll_lines(by * max(1, details.size.height // 2))

    def action_why(self) -> None:
        """How large the scenario is, or why the run is where it is."""
        from txlab.tui.screens.lab.why import why_run, why_scenario
        from txlab.tui.widgets.why import ask_why

        run, name = self.selected_run(), self.query_one("#catalogue", Rows).key
        if self.side() == "runs" and run is not None:
            path = run.path
            ask_why(self.app, lambda: why_run(path))
        elif name is not None and name in self.entries:
            entry = self.entries[name]
            ask_why(self.app, lambda: why_scenario(entry))
