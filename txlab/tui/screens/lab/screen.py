"""Screen 1, the Lab: the scenarios with descriptions, and the runs so far."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content

from txlab.drawing.captions import runs as captions
from txlab.tui.bindings import MOVING, PALETTE, WHY, bind
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.screens.keyline import KeyLine
from txlab.tui.screens.lab.catalogue import START, CataloguePanel
from txlab.tui.screens.lab.describe import NO_MATCH, describe_run, describe_scenario, describe_tour
from txlab.tui.screens.lab.runs import RunsPanel
from txlab.tui.screens.plain_text import Words
from txlab.tui.widgets.page import Page
from txlab.tui.widgets.rows import Filter, Rows


class LabScreen(BenchScreen):
    """The catalogue by chapter, a description of the selection, and the runs."""

    CSS_PATH = "lab.tcss"
    FOLDS_IN_HALL = False
    AUTO_FOCUS = "#catalogue"
    HELP_ABOUT = (
        "Choose a scenario and press enter: it runs in its own process, and continues when you leave. Tab moves to "
        "the runs; enter there opens one, and v shows them as a table with the settings that differ as columns; space "
        "marks runs, and enter then compares them. Each list has its own filter (/), which esc clears: words, and for "
        "runs also #tag and comparisons, as in loss<2."
    )
    PANELS = (CataloguePanel, RunsPanel)
    KEY_ORDER = (
        *("lab.start", "lab.mark", "lab.change", "lab.resume", "lab.stop", "lab.delete", "lab.name"),
        *("screen.why", "lab.other"),
        *("lab.table", "lab.order", "lab.group", "lab.column-left"),
        *("lab.scroll", "lab.scroll-back", "lab.machines", "lab.filter", "lab.attach"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "enter",
            "start",
            "start the scenario, or open the run",
            "start",
            id="lab.start",
            key_display="enter",
            synonyms="run train begin go",
        ),
        WHY,
        bind(
            "tab,shift+tab",
            "other",
            "go from the scenarios to the runs and back",
            "runs",
            id="lab.other",
            key_display="tab",
        ),
        bind(
            "J,shift+down",
            "scroll(1)",
            "scroll the description down and up",
            "more text",
            id="lab.scroll",
            heading=MOVING,
            key_display="J K",
        ),
        bind("K,shift+up", "scroll(-1)", "scroll the description up", id="lab.scroll-back", heading=MOVING),
        bind(
            "slash",
            "filter",
            "show only scenarios or runs with these words",
            "filter",
            id="lab.filter",
            synonyms="search find",
        ),
        bind("escape", "clear", "take the marks away, or clear the filter", id="lab.clear"),
        bind("M", "formula", "look at the first formula of the scenario", id="lab.formula", synonyms="mathematics"),
        bind(
            "B",
            "app.open_screen('machines')",
            "the cards and processes of this machine and others",
            id="lab.box",
            synonyms="gpu box nvidia top memory",
        ),
        PALETTE,
    ]

    def __init__(self) -> None:
        super().__init__()
        self.catalogue = CataloguePanel()
        self.runs = RunsPanel()
        self.details = Page(id="details")
        self.loaded = False

    def compose_body(self) -> ComposeResult:
        yield Words(id="tabs")
        with Horizontal(id="panels"):
            yield self.catalogue
            yield self.details
            yield self.runs

    def on_mount(self) -> None:
        self.say_tabs()

    @on(CataloguePanel.Loaded)
    def catalogue_loaded(self) -> None:
        self.loaded = True
        self.say_tabs()
        self.say_details()
        self.say_caption()

    @on(CataloguePanel.Filtered)
    def show_filtered(self) -> None:
        self.say_tabs()
        self.say_details(home=True)

    @on(CataloguePanel.Started)
    def show_started(self, event: CataloguePanel.Started) -> None:
        self.runs.show_machine(None)
        self.runs.select_started(event.path)
        self.app.current_run = event.path.absolute()  # type: ignore[attr-defined]

    @on(RunsPanel.News)
    def news_of_runs(self) -> None:
        if self.runs.in_use:
            self.say_details()
        self.say_tabs()
        self.say_caption()

    def say_caption(self) -> None:
        """Say what the runs are doing."""
        known = [run for path in self.runs.paths if (run := self.runs.glances.get(path)) is not None]
        self.caption.say(captions.runs(known, len(self.runs.paths), len(self.catalogue.entries)))

    @on(RunsPanel.Shape)
    def other_shape(self) -> None:
        """The table fills the whole screen; back in the list, the keys still act on runs."""
        self.set_class(self.runs.table is not None, "-table")
        self.show_side("runs")
        self.call_after_refresh(self.refresh_keys)

    # The list that the keys act on, and the description of its row.

    def on_descendant_focus(self) -> None:
        self.use("runs" if self.runs.rows.has_focus or self.runs.filter.has_focus else "catalogue")
        self.say_tabs()
        self.say_details()

    def use(self, side: str) -> None:
        self.runs.in_use = side == "runs"
        self.catalogue.in_use = not self.runs.in_use
        self.catalogue.say_title()
        self.runs.say_title()
        self.fold()

    def show_side(self, side: str) -> None:
        self.use(side)
        (self.runs if self.runs.in_use else self.catalogue).rows.focus()

    @on(Rows.Highlighted)
    def other_row(self, event: Rows.Highlighted) -> None:
        if event.rows.has_focus or event.rows.id == "catalogue":
            self.say_details(home=True)

    @on(Rows.Chosen)
    async def start_clicked(self) -> None:
        await self.run_action("start")

    def say_details(self, home: bool = False) -> None:
        run, entry, page = self.runs.chosen, self.catalogue.chosen, self.details
        if self.runs.in_use and run is not None:
            page.say(describe_run(run, page.cells, min(18, self.size.height - 24), self.ascii), home)
        elif entry is not None:
            page.say(describe_scenario(entry, page.cells, self.ascii), home)
        elif self.catalogue.rows.key == START:
            page.say(describe_tour(page.cells), home)
        else:
            page.say(NO_MATCH if self.loaded else "")
        self.call_after_refresh(self.refresh_keys)

    def refresh_keys(self) -> None:
        """Redraw the bottom line if it has changed."""
        line = self.query_one(KeyLine)
        if line.rows != line.shown_keys():
            line.refresh()

    @on(events.Resize)
    def other_size(self) -> None:
        self.call_after_refresh(self.fold)
        self.call_after_refresh(self.say_details)  # its plots are as high as there is room

    @on(Page.Widened)
    def fold_details_again(self) -> None:
        self.say_details()

    def fold(self) -> None:
        """On a tabbed layout, show the list that the keys act on. On other layouts the class would change nothing, but
        every style would be matched again, 20 ms."""
        if self.has_class("-narrow") or self.has_class("-tiny"):
            self.set_class(self.runs.in_use, "-runs")

    def say_tabs(self) -> None:
        parts = []
        machine = f" on {self.runs.machine.host}" if self.runs.machine is not None else ""
        runs = f"Runs{machine} {self.runs.counted}"
        scenarios = f"Scenarios {self.catalogue.counted}"
        for here, title in ((self.catalogue.in_use, scenarios), (self.runs.in_use, runs)):
            parts += [Content.styled(title, "bold underline $accent" if here else "$quiet"), Content("   ")]
        tabs = Content.assemble(*parts, Content.styled("tab changes", "$quiet"))
        self.query_one("#tabs", Words).say(tabs)

    # Keys.

    def word_for(self, binding: Binding) -> str:
        if binding.id == "lab.scroll" and not self.details.overflows:
            return ""
        if self.runs.in_use and binding.id in ("lab.start", "lab.other"):
            return {"lab.start": "compare" if self.runs.compares else "open", "lab.other": "catalogue"}[binding.id]
        return super().word_for(binding)

    def action_start(self) -> None:
        """Start the scenario, or open the run."""
        if self.runs.in_use and self.runs.compares:
            self.runs.compare_marked()
        elif self.runs.in_use:
            self.runs.action_attach()
        else:
            self.catalogue.begin()

    def action_other(self) -> None:
        if self.runs.table is not None:
            self.runs.action_table()
        self.show_side("catalogue" if self.runs.in_use else "runs")

    def action_filter(self) -> None:
        """Type into the filter of the list that the keys act on."""
        self.filters[0].focus()

    @property
    def filters(self) -> tuple[Filter, Filter]:
        """The filter of the list that the keys act on, and the other one."""
        ours, other = self.catalogue.filter, self.runs.filter
        return (other, ours) if self.runs.in_use else (ours, other)

    def action_clear(self) -> None:
        """Take the marks away; else clear the filter of the list that the keys act on, or that of the other list."""
        if self.runs.in_use and self.runs.marked:
            self.runs.unmark()
            return
        next((each for each in self.filters if each.value), self.filters[0]).value = ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "clear":
            return any(each.value for each in self.filters) or (self.runs.in_use and bool(self.runs.marked))
        if action == "formula":
            return self.cited != ""
        return super().check_action(action, parameters)

    @property
    def cited(self) -> str:
        """The first formula that the scenario described cites; "" = none."""
        entry = self.catalogue.chosen
        return "" if entry is None or self.runs.in_use else next(iter(entry.scenario.about.math), "")

    async def action_formula(self) -> None:
        await self.run_action(f"app.open_formula({self.cited!r})")

    def action_scroll(self, by: int) -> None:
        """Scroll the description by half a page."""
        self.details.scroll_lines(by * max(1, self.details.size.height // 2))

    def action_why(self) -> None:
        """Explain the size of the scenario, or the state of the run."""
        from txlab.tui.screens.lab.why import why_run, why_scenario
        from txlab.tui.widgets.why import ask_why

        run, entry = self.runs.chosen, self.catalogue.chosen
        if self.runs.in_use and run is not None:
            path = run.path
            ask_why(self.app, lambda: why_run(path))
        elif entry is not None:
            ask_why(self.app, lambda: why_scenario(entry))
