"""What a screen offers while it has nothing to show: the newest run of its kinds, and the scenario that belongs to it.

`BenchScreen.invite` replaces the screen's body by this panel, and `occupy` brings the body back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.worker import get_current_worker

from txlab.drawing.explanation import wrap_text
from txlab.drawing.formatting import STATES, about, duration
from txlab.drawing.run_names import fit_handle
from txlab.drawing.text import formula, sentences, visible, width
from txlab.errors import LabError
from txlab.tui.bindings import bind
from txlab.tui.key_order import keys_wait, run_in_thread
from txlab.tui.panel import Panel
from txlab.tui.screens.plain_text import Words
from txlab.tui.theme import Signs
from txlab.tui.widgets.rows import Item, Line, Rows, StyleName

if TYPE_CHECKING:
    from txlab.experiments.kind import Kind
    from txlab.runs.scenario import CatalogueEntry
    from txlab.tui.screen_registry import ScreenEntry

LINES_PER_LINE = 8  # of the terminal, to a line about the scenario: three at 24; the Lab has the whole text
LOOKED_INTO = 24  # the newest runs whose state decides which of them is offered
ORDER = ("paused", "created", "running")  # the states of a run that is offered before a newer one that has ended
RUN, SCENARIO = "run", "scenario"


@dataclass(frozen=True)
class OfferedRun:
    path: Path
    called: str
    status: str
    created: float


def find_run(root: Path, opens: Callable[[Kind], bool]) -> OfferedRun | None:
    """Return the run under `root` to offer: one that waits, else one that runs, else the newest; None if there is no
    run of a kind that `opens`."""
    from txlab.experiments.kind import kind_of_run
    from txlab.runs.directory import RunDirectory, RunInfo, state_of
    from txlab.runs.folder import list_runs
    from txlab.runs.summary import handle_in

    found: list[OfferedRun] = []
    for path in list_runs(root):
        try:
            info = RunInfo.load(RunDirectory(path))
            if not opens(kind_of_run(info.kind)):
                continue
            called = handle_in(path, info)
            found.append(OfferedRun(path.absolute(), called, state_of(path, info).status, info.created))
        except LabError:
            continue
        if len(found) == LOOKED_INTO:
            break
    return min(found, key=lambda run: ORDER.index(run.status) if run.status in ORDER else len(ORDER), default=None)


class Invitation(Panel):
    """Why the screen is empty, and what enter opens or starts."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "enter",
            "accept",
            "open the run, or start the scenario",
            "start",
            id="empty.enter",
            key_display="enter",
            synonyms="begin run",
        ),
    )
    DEFAULT_CSS = """
    Invitation { display: none; height: 1fr; width: 1fr; align: center middle; }
    Invitation > Vertical { width: 100%; max-width: 88; height: auto; max-height: 100%; padding: 0 2; }
    Invitation #reason, Invitation #about-offer { width: 1fr; height: auto; }
    Invitation Rows { height: auto; margin: 1 0; }
    """

    def __init__(self) -> None:
        super().__init__(id="invitation")
        self.opens: Callable[[Kind], bool] | None = None
        self.reason, self.described = Words(id="reason"), Words(id="about-offer")
        self.rows = Rows(self.draw_offer, "", id="offers")
        self.rows.can_focus = False  # until it is shown: the first widget that can have the keys gets them
        self.run: OfferedRun | None = None
        self.entry: CatalogueEntry | None = None
        self.wanted = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self.reason
            yield self.rows
            yield self.described

    @property
    def screen_entry(self) -> ScreenEntry | None:
        name = f":{type(self.screen).__name__}"
        entries: Sequence[ScreenEntry] = self.app.entries  # type: ignore[attr-defined]
        return next((each for each in entries if each.where.endswith(name)), None)

    def say(self, reason: str, opens: Callable[[Kind], bool] | None) -> None:
        """Show the reason, and what can be opened or started: a run of a kind that `opens`; None = nothing."""
        entry = self.screen_entry
        title = (
            [Content.styled(entry.title, "bold"), Content.styled(f"   {entry.about}\n\n", "$quiet")] if entry else []
        )
        self.reason.say(Content.assemble(*title, Content("\n".join(map(visible, reason.split("\n"))))))
        self.opens = opens
        self.draw()
        self.want()
        self.rows.can_focus = True
        self.rows.focus()

    def leave(self) -> None:
        """Give up the keys: the screen has something to show."""
        self.rows.can_focus = False

    def come_to_front(self) -> None:
        if self.screen.has_class("-empty"):
            self.want()

    def want(self) -> None:
        """Look in a thread for what to offer, if the screen is seen and not only being prepared."""
        opens = self.opens
        if opens is not None and not self.wanted and self.screen in self.app.screen_stack:
            self.wanted = True
            look = run_in_thread(self, lambda: self.look(opens), "offers", keys=False)
            keys_wait(self, look)

    def look(self, opens: Callable[[Kind], bool]) -> None:
        from txlab.runs.scenario import entry_at, installed_scenarios

        try:
            wanted = self.screen_entry.scenario if self.screen_entry is not None else ""
            path = installed_scenarios().get(wanted)
            entry = None if path is None else entry_at(wanted, path)
            run = find_run(self.app.root, opens)  # type: ignore[attr-defined]
        finally:
            self.wanted = False
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self.show, run, entry)

    def show(self, run: OfferedRun | None, entry: CatalogueEntry | None) -> None:
        self.run, self.entry = run, entry
        self.draw()

    def draw(self) -> None:
        offers = [name for name, known in ((RUN, self.run), (SCENARIO, self.entry)) if self.opens is not None and known]
        self.rows.set_items([Item(name) for name in offers])
        self.rows.styles.height = len(offers)
        self.rows.display = bool(offers)
        self.describe()

    @on(Rows.Highlighted)
    def describe(self) -> None:
        """Describe the selected offer, and say where everything else is."""
        parts, entry = [], self.entry
        if self.rows.key == SCENARIO and entry is not None:
            described, ascii = entry.scenario.about, bool(self.app.ascii)  # type: ignore[attr-defined]
            parts.append(Content.styled(formula(described.title or entry.name, ascii) + "\n", "bold"))
            told = sentences(formula(described.shows, ascii))
            cells, lines = max(20, min(84, self.size.width - 4)), self.app.size.height // LINES_PER_LINE
            while len(told) > 1 and len(wrap_text(" ".join(told), cells)) > lines:
                told.pop()
            parts.append(Content(" ".join(told) + "\n\n"))
        if self.opens is not None:
            parts.append(Content.styled("The Lab (1) lists everything else that can be run or opened.", "$quiet"))
        self.described.say(Content.assemble(*parts))
        self.call_after_refresh(self.screen.refresh_bindings)

    def draw_offer(self, item: Item, cells: int, chosen: bool) -> list[Line]:
        """`▸ open   cliff seed=2        ✓ done, 12m ago`"""
        focused = self.rows.has_focus
        mark: StyleName = "accent" if focused else "quiet"
        if item.key == RUN and self.run is not None:
            verb, name = "open", self.run.called
            sign = {"running": Signs.live, "paused": Signs.paused, "done": Signs.done}.get(self.run.status, "")
            ago = f", {duration(time.time() - self.run.created)} ago" if self.run.created else ""
            note = f"{sign} {STATES.get(self.run.status, self.run.status)}{ago}".strip()
        elif self.entry is not None:
            verb, name, note = "start", self.entry.name, about(self.entry.scenario.about.minutes)
        else:
            return [[]]
        room = max(1, cells - 9 - width(note) - 3)
        style: StyleName = ("accent" if focused else "strong") if chosen else "plain"
        shown = fit_handle(visible(name), room)
        return [
            [
                (f"{Signs.cursor if chosen else ' '} ", mark),
                (f"{verb:<7}", "quiet"),
                (shown, style),
                (f"   {note}", "quiet"),
            ]
        ]

    # Keys.

    @on(Rows.Chosen)
    def accept_clicked(self) -> None:
        self.action_accept()

    def word_for(self, binding: Binding) -> str:
        return "open" if self.rows.key == RUN else "start"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.screen.has_class("-empty") and self.rows.key is not None and self.rows.display

    def action_accept(self) -> None:
        """Open the run, or start the scenario; this screen shows it."""
        app: Any = self.app
        if self.rows.key == RUN and self.run is not None:
            app.current_run = self.run.path
        elif self.entry is not None:
            name, root = self.entry.name, app.root
            self.tell(f"{name}: {STATES['created']}")
            run_in_thread(self, lambda: self.start(name, root), "start")

    def start(self, name: str, root: Path) -> None:
        """Start a run of the scenario, and show it; called in a thread."""
        from txlab.runs.process import start_scenario

        def show(path: Path) -> None:
            self.app.call_from_thread(setattr, self.app, "current_run", path.absolute())

        start_scenario(name, (), root, show)
