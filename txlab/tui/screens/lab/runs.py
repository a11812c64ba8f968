"""The runs of the Lab, and their actions: open, resume, stop, delete. As a list, newest first, or as a
table (see table.py).

● gpt-docs         1 240/5 000
  loss 2.113 ▇▆▅▄▃▃▂▂▂▁  3m12s

Polling and all actions run in threads; the list reads only the runs in view (`txlab.runs.summary`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widgets import Input
from textual.worker import Worker, get_current_worker

from txlab.drawing.formatting import STATES, count, count_of, duration, number
from txlab.drawing.run_names import Spare, find_spare, fit_handle
from txlab.drawing.spark import spark
from txlab.drawing.text import cut, fit, visible, width
from txlab.experiments.metric import short
from txlab.runs.folder import delete_run
from txlab.runs.label import find_shared_handles, write_label
from txlab.runs.overview import is_meant
from txlab.runs.remote.address import Address
from txlab.runs.summary import ENDED, GOING, RunSummary, RunsUnder
from txlab.tui.bindings import bind
from txlab.tui.key_order import keys_wait, run_in_thread
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import Rule
from txlab.tui.screens.lab.comparison import MOST, Comparison, ComparisonDialog, compare
from txlab.tui.screens.lab.describe import NO_RUNS
from txlab.tui.screens.lab.machines import machine_title
from txlab.tui.screens.lab.table import RunTable
from txlab.tui.screens.plain_text import Words
from txlab.tui.theme import Signs
from txlab.tui.widgets.rows import Filter, Item, Line, Rows, StyleName
from txlab.tui.widgets.terminal import is_ascii

if TYPE_CHECKING:
    from txlab.runs.remote.host import Host

LOOK_EVERY = 0.5  # seconds
CAN_GO_ON = ("paused", "lost", "failed", "stopped", "interrupted")
SHORTEST = 12  # cells for the name of another program's run next to the program's name
CURVE_CELLS = 24  # the small curve at its widest
BESIDE_IT = 24  # cells for the number before it and the duration after it
STYLES: dict[str, StyleName] = {
    "created": "accent",
    "running": "accent",
    "paused": "accent",
    "done": "good",
    "failed": "error",
    "lost": "error",
    "unreadable": "error",
}


class RunsPanel(Panel):
    """`glances` has the summaries of the runs that were read."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind(
            "r",
            "resume",
            "resume the run from its newest checkpoint",
            "resume",
            id="lab.resume",
            synonyms="continue rewind",
        ),
        bind("x", "stop", "stop the run; it saves a checkpoint first", "stop", id="lab.stop"),
        bind("d", "delete", "delete the run", "delete", id="lab.delete", synonyms="remove"),
        bind("n", "name", "give the run a name and a note", "name", id="lab.name", synonyms="rename label note"),
        bind(
            "a",
            "attach",
            "watch the run on the screen of its kind",
            "attach",
            id="lab.attach",
            synonyms="watch open follow",
        ),
        bind(
            "o",
            "machines",
            "list the runs of another machine, over ssh",
            "machines",
            id="lab.machines",
            synonyms="ssh host remote far server",
        ),
        bind(
            "v",
            "table",
            "show the runs as a table, or as a list again",
            "table",
            id="lab.table",
            synonyms="all runs list columns compare many sort",
        ),
        bind(
            "b",
            "order",
            "order the table by this column; again: the other way",
            "order by",
            id="lab.order",
            synonyms="sort by",
        ),
        bind("g", "group", "group the runs by scenario, group, tag or state", "group", id="lab.group", synonyms="tags"),
        bind("space", "mark", "mark the run; enter compares the marked ones", "mark", id="lab.mark", synonyms="select"),
        bind("left,h", "column(-1)", "go through the columns", "column", id="lab.column-left", key_display="← →"),
        bind("right,l", "column(1)", "go to the next column", id="lab.column-right"),
    )

    class Shape(Message):
        """The runs are a table now, or a list again."""

    class News(Message):
        """The list of runs or a run in it has changed."""

    def __init__(self) -> None:
        super().__init__(id="runs-panel")
        self.paths: list[Path] = []
        self.glances: dict[Path, RunSummary] = {}
        self.rows = Rows(self.draw_run, NO_RUNS, id="runs")
        self.under: RunsUnder | None = None
        self.looking = False
        self.on_screen = True
        self.in_use = False  # whether the keys act on this list
        self.started = ""  # the run started here last; it is shown whatever the filter says, until the filter changes
        self.marked: list[Path] = []  # runs to compare, in the order in which they were marked
        self.unlisted: Path | None = None  # the same until it is found in the folder
        self.spare: Spare = frozenset()  # settings that do not tell the listed runs apart
        self.shared: set[str] = set()  # names that several runs have
        self.machine: Address | None = None  # the machine whose runs are listed; None = this one
        self.host: Host | None = None  # the connection to it
        self.said: tuple[object, ...] = ()  # its state in the title
        self.table: RunTable | None = None  # None = a list
        self.filter = Filter(self.rows, "/ filter: words, #tag, layers=3, loss<2", "runs-filter")

    def compose(self) -> ComposeResult:
        yield Words("Runs", classes="panel-title", id="runs-title")
        yield Rule()
        yield self.filter
        yield Words("", id="runs-header")
        yield self.rows

    def on_mount(self) -> None:
        self.under = RunsUnder(self.app.root)  # type: ignore[attr-defined]
        self.set_interval(LOOK_EVERY, self.look)
        self.look_now()

    def come_to_front(self) -> None:
        self.on_screen = True
        self.look_now()

    def unseen(self) -> None:
        self.on_screen = False

    @property
    def chosen(self) -> RunSummary | None:
        key = self.rows.key
        if key is None:
            return None
        path = Path(key)
        return self.glances.get(path) or RunSummary(path, path.name, path.name, handle=path.name)

    # Polling.

    def look(self) -> Worker[None] | None:
        """Poll the runs in a thread, unless that is already in progress."""
        if self.looking or not self.on_screen or self.under is None or not self.is_attached:
            return None
        if self.host is not None:
            self.host.want_list()
            if self.said != (self.host.line, self.host.why):
                self.say_title()
        self.looking = True
        seen = {Path(key).name for key in self.rows.visible_keys()}
        if self.rows.key:
            seen.add(Path(self.rows.key).name)
        everything = self.table is not None or bool(self.words)
        look = partial(self.look_in_thread, seen, everything=everything)
        return run_in_thread(self, look, "runs", keys=False)

    def look_now(self) -> None:
        """Poll the runs, and let the next key wait for them: it may act on the first of them."""
        if (worker := self.look()) is not None:
            keys_wait(self, worker)

    def look_in_thread(self, seen: set[str], force: bool = False, everything: bool = False) -> None:
        """Poll the list of runs, and the ones named in `come_to_front`; for a table or a search all are read, bit by
        bit."""
        worker, under = get_current_worker(), self.under
        paths: list[Path] = []
        news: dict[Path, RunSummary] = {}
        try:
            assert under is not None
            paths, news = under.look(seen, force, everything)
        finally:
            self.looking = False
        if not worker.is_cancelled and self.is_attached and under is self.under:
            self.app.call_later(self.show, paths, news)

    def show(self, paths: list[Path], news: dict[Path, RunSummary]) -> None:
        if not self.is_attached:
            return
        self.glances.update(news)
        if self.unlisted in paths:
            self.unlisted = None
        elif self.unlisted is not None:  # a poll that began before the run existed
            paths = [self.unlisted, *paths]
        self.marked = [path for path in self.marked if path in paths]
        handles = [run.handle for path in paths if (run := self.glances.get(path)) is not None]
        again = find_shared_handles(handles)
        if news:
            self.spare = find_spare(handles)
        if paths != self.paths or again != self.shared or (news and (self.table is not None or self.words)):
            self.paths, self.shared = paths, again
            self.fill()
            self.rows.redraw()
        elif news:
            self.rows.redraw_items({str(path) for path in news})
        if news or not paths:
            self.say_title()
            self.post_message(self.News())
        if (self.table is not None or self.words) and any(path not in self.glances for path in paths):
            self.look()  # the rest

    def show_machine(self, address: Address | None) -> None:
        """List the runs of another machine, or (None) of this one."""
        from txlab.runs.remote.mirroring import host_at

        if address == self.machine:
            return
        self.machine, self.host = address, host_at(address) if address is not None else None
        if self.host is not None:
            self.host.try_now()
        self.under = RunsUnder(self.app.root if address is None else address.mirrors)  # type: ignore[attr-defined]
        self.paths, self.glances, self.unlisted, self.looking = [], {}, None, False
        self.fill()
        self.say_title()
        self.post_message(self.News())
        self.look()

    @property
    def words(self) -> list[str]:
        """Show only the runs that match all of these words (see overview.is_meant)."""
        return self.filter.words

    @on(Input.Changed, "#runs-filter")
    def filter_runs(self, event: Input.Changed) -> None:
        event.stop()
        self.started = ""
        self.fill()
        self.say_title()
        self.post_message(self.News())
        self.look()

    def matches(self, path: Path) -> bool:
        run = self.glances.get(path)
        if str(path) == self.started:
            return True
        return is_meant(run, self.words) if run else all(word in path.name.lower() for word in self.words)

    def fill(self) -> None:
        empty = NO_RUNS if self.machine is None else "no runs there"
        if self.host is not None and not self.host.listed.is_set():
            empty = self.host.why if self.host.line == "lost" else "asking for its runs…"
        self.rows.empty = "no run matches" if self.words and self.paths else empty
        paths = [path for path in self.paths if self.matches(path)]
        if self.table is None:
            self.rows.set_items([Item(str(path), height=2) for path in paths])
            return
        known = [self.with_start_time(run) for path in paths if (run := self.glances.get(path)) is not None]
        self.rows.set_items(self.table.fill(known, [path for path in paths if path not in self.glances]))
        self.say_header()

    def select_started(self, path: Path) -> None:
        """List a run that was just started, and select it, so that it is opened next."""
        self.started = str(path)
        if path not in self.paths:
            self.unlisted, self.paths = path, [path, *self.paths]
        self.fill()
        self.rows.select(self.started)
        look = partial(self.look_in_thread, {path.name}, force=True)
        run_in_thread(self, look, "runs", keys=False)

    @property
    def counted(self) -> str:
        """ "17", or "3 of 17" that match the filter"""
        return count_of(len(self.rows.selectable()), len(self.paths))

    def say_title(self) -> None:
        """Say how many runs are listed and running; lit while the keys act on this list."""
        going = sum(run.going for run in self.glances.values())
        known = f"   {self.counted}" if self.paths else ""
        alive = f", {going} running" if going else ""
        there = Content("")
        if self.host is not None and self.machine is not None:
            self.said = self.host.line, self.host.why
            there = machine_title(self.machine, self.host.line, self.host.why)
            if not self.paths:
                self.fill()
                self.rows.redraw()
        if self.table is not None or self.words:
            read = sum(path in self.glances for path in self.paths)
            alive += f", {count(read)} read" if read < len(self.paths) else ""
        if self.table is not None and self.table.group:
            alive += f"   by {self.table.group}"
        style = "bold underline $accent" if self.in_use else "bold $quiet"
        title = Content.assemble(Content.styled("Runs", style), there, Content.styled(known + alive, "$quiet"))
        self.query_one("#runs-title", Words).say(title)
        self.query_one(Rule).light(self.in_use)

    def draw_run(self, item: Item, width: int, chosen: bool) -> list[Line]:
        path = Path(item.key or "")
        focused, ascii = self.rows.has_focus, is_ascii(self)
        run = self.glances.get(path)
        if run is not None:
            run = self.with_start_time(run)
        if self.table is None:
            return run_lines(path, run, width, chosen, focused, ascii, self.spare, path in self.marked)
        if item.key is None:
            return [[(fit(item.text, width), "heading")]]
        mark = "*" if path in self.marked else " "
        cursor: tuple[str, StyleName] = (f"{Signs.cursor if chosen else ' '}{mark}", "accent" if focused else "quiet")
        if run is None:
            return [[cursor, (fit(visible(path.name), max(1, width - 2)), "quiet")]]
        state: tuple[str, StyleName] = (f"{status_glyph(run.status)} ", STYLES.get(run.status, "quiet"))
        return [[cursor, *self.table.line(run, width, state, chosen and focused, self.spare)]]

    def with_start_time(self, run: RunSummary) -> RunSummary:
        """The run with its start time in the name, if another run has the same name."""
        if run.handle not in self.shared or not run.created:
            return run
        return replace(run, handle=f"{run.handle} {time.strftime('%d %b %H:%M:%S', time.localtime(run.created))}")

    # The table.

    def say_header(self) -> None:
        if self.table is None:
            return
        parts = self.table.header(self.rows.scrollable_content_region.width - 1, self.rows.has_focus)
        columns = [Content.styled(text, "bold $accent" if here else "$quiet") for text, here in parts]
        self.query_one("#runs-header", Words).say(Content.assemble(*columns))

    def action_table(self) -> None:
        """Change between the list and the table."""
        self.table = RunTable() if self.table is None else None
        self.set_class(self.table is not None, "-table")
        self.fill()
        self.post_message(self.Shape())
        self.look()
        self.call_after_refresh(self.say_header)

    def action_column(self, by: int) -> None:
        if self.table is not None:
            self.table.move(by)
            self.say_header()
            self.rows.redraw()

    def action_order(self) -> None:
        if self.table is not None:
            self.table.order()
            self.fill()
            self.rows.redraw()

    def action_group(self) -> None:
        if self.table is not None:
            self.table.next_group()
            self.fill()
            self.rows.redraw()
            self.say_title()

    def on_resize(self) -> None:
        self.call_after_refresh(self.say_header)

    # Actions.

    def word_for(self, binding: Binding) -> str:
        """Label only the keys that do something to the selected run."""
        run = self.chosen
        status = run.status if run else ""
        ours = run is not None and not run.recorded
        useful = {
            "lab.attach": not self.in_use,  # done by enter
            "lab.resume": ours and status in CAN_GO_ON and (self.machine is None or status == "paused"),
            "lab.stop": (ours or (run is not None and "stop" in run.takes)) and status in GOING,
            "lab.delete": status in (*ENDED, "lost") and run is not None and not run.source and self.machine is None,
            "lab.machines": self.in_use or self.machine is not None,
            "lab.name": self.in_use,
            "lab.table": self.in_use,
            "lab.mark": self.in_use,
            **dict.fromkeys(("lab.order", "lab.group", "lab.column-left"), self.table is not None),
        }
        if binding.id == "lab.mark" and run is not None and run.path in self.marked:
            return "unmark"
        if binding.id == "lab.table" and self.table is not None:
            return "list"
        return binding.description if useful.get(binding.id or "") else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Runs are stopped and deleted only if the keys act on this list; they can be opened from the other list
        too."""
        if action == "table":
            return True
        if action in ("order", "group", "column"):
            return self.table is not None
        run = self.chosen
        if action == "machines":
            return True
        if run is None or (action == "delete" and self.machine is not None):
            return False
        if action in ("resume", "stop") and run.recorded and (action == "resume" or action not in run.takes):
            return False  # it is recorded by another program, which does not accept this request
        return self.in_use or action == "attach"

    @property
    def compares(self) -> bool:
        """Whether enter compares the marked runs."""
        return len(self.marked) > 1

    def action_mark(self) -> None:
        """Mark the run, or take its mark away, and go to the next one."""
        if (run := self.chosen) is None:
            return
        if run.path in self.marked:
            self.marked.remove(run.path)
        elif len(self.marked) == MOST:
            self.tell(f"{count(MOST)} runs are compared at most", "warning")
            return
        else:
            self.marked.append(run.path)
        self.rows.redraw()
        self.rows.action_move(1)
        self.post_message(self.News())

    def unmark(self) -> None:
        self.marked = []
        self.rows.redraw()
        self.post_message(self.News())

    def compare_marked(self) -> None:
        """Show the curves of the marked runs, and what differs between them."""
        runs = [run for path in self.marked if (run := self.glances.get(path)) is not None]

        def show(comparison: Comparison) -> None:
            open_run = self.app.look_at  # type: ignore[attr-defined]
            self.app.push_screen(ComparisonDialog(comparison), lambda path: open_run(path) if path else None)

        def read() -> None:
            self.app.call_from_thread(show, compare(runs))

        run_in_thread(self, read, "compare")

    def action_attach(self) -> None:
        if (run := self.chosen) is not None:
            self.app.look_at(run.path)  # type: ignore[attr-defined]

    def action_machines(self) -> None:
        """Ask for a machine to list; a run named with its machine is opened."""
        from txlab.runs.remote.mirroring import open_run
        from txlab.tui.screens.lab.machines import ask_machine

        def open_there(address: Address, run: str) -> None:
            path = open_run(replace(address, run=run))
            self.app.call_from_thread(self.app.look_at, path)  # type: ignore[attr-defined]

        def choose(address: Address | None, run: str) -> None:
            self.show_machine(address)
            self.rows.focus()
            if address is not None and run:
                self.tell(f"opening {run} on {address.host}…")
                run_in_thread(self, partial(open_there, address, run), "start", keys=False)

        ask_machine(self.app, self.machine, choose)

    def action_name(self) -> None:
        """Ask for a name, then for a note."""
        from txlab.tui.screens.dialogs import AskValue

        if (run := self.chosen) is None:
            return

        def ask_note(name: str | None) -> None:
            if name is not None:
                note = AskValue("A note about it", "what you want to remember; empty = none", run.label.note)
                self.app.push_screen(note, lambda note: self.write_label(run.path, name, note))

        about = "empty = its scenario and what was changed"
        self.app.push_screen(AskValue(f"A name for {run.handle or run.name}", about, run.label.name), ask_note)

    def write_label(self, path: Path, name: str, note: str | None) -> None:
        from txlab.runs.remote.mirroring import follow

        def write() -> None:
            write_label(path, name, note)
            follow(path)  # a mirror passes it on
            self.look_in_thread({path.name}, force=True)

        run_in_thread(self, write, "name")

    def action_resume(self) -> None:
        run = self.chosen
        if run is None:
            return
        if run.status in ("running", "created"):
            self.tell(f"{run.name} is {STATES[run.status]}")
            return
        if run.status == "paused":
            self.request(run, "resume")
            return
        self.tell(f"{run.name}: {STATES['created']}")
        resume = partial(self.resume_run, run.path)
        run_in_thread(self, resume, "start")

    def resume_run(self, path: Path) -> None:
        """Resume a run; called in a thread."""
        from txlab.runs.process import start_detached

        start_detached(path)
        self.look_in_thread({path.name}, force=True)

    def action_stop(self) -> None:
        run = self.chosen
        if run is None:
            return
        if not run.going:
            self.tell(f"{run.name} is not running ({STATES.get(run.status, run.status)})")
            return
        from txlab.tui.screens.dialogs import Confirm

        self.app.push_screen(
            Confirm(f"Stop {run.name}?", "It saves a checkpoint first and can be resumed.", "stop"),
            lambda sure: self.request(run, "stop") if sure else None,
        )

    def request(self, run: RunSummary, what: str) -> None:
        from txlab.runs.control import Request, send
        from txlab.runs.remote.mirroring import follow

        def leave() -> None:
            send(run.path, Request(what))
            follow(run.path)  # a mirror passes it on

        run_in_thread(self, leave, "ask")

    def action_delete(self) -> None:
        run = self.chosen
        if run is None:
            return
        from txlab.tui.screens.dialogs import Confirm

        if run.source:
            self.tell(f"{run.handle} is a log of {run.source}, which is only read here", "warning")
            return
        if run.status not in (*ENDED, "lost"):
            self.tell(f"{run.name} is {STATES.get(run.status, run.status)}: stop it first (x)", "warning")
            return
        self.app.push_screen(
            Confirm(
                f"Delete {run.name}?", f"{run.path} with its curves, frames and checkpoints, permanently.", "delete"
            ),
            lambda sure: self.delete(run.path) if sure else None,
        )

    def delete(self, path: Path) -> None:
        root = self.app.root  # type: ignore[attr-defined]

        def finish() -> None:
            self.tell(f"{path.name} is deleted")
            if self.app.current_run == path.absolute():  # type: ignore[attr-defined]
                self.app.current_run = None  # type: ignore[attr-defined]

        def remove() -> None:
            delete_run(path, root)
            self.app.call_from_thread(finish)
            self.look_in_thread(set(), force=True)

        run_in_thread(self, remove, "delete")


def status_glyph(status: str) -> str:
    """Return the sign of a state; its name is next to it unless it is obvious."""
    return {
        "created": Signs.waiting,
        "running": Signs.live,
        "paused": Signs.paused,
        "done": Signs.done,
        "stopped": Signs.stopped,
        "interrupted": Signs.stopped,
        "failed": Signs.failed,
        "silent": Signs.dot,
    }.get(status, Signs.lost)


def run_lines(
    path: Path,
    run: RunSummary | None,
    width: int,
    chosen: bool,
    focused: bool,
    ascii: bool,
    spare: Spare = frozenset(),
    marked: bool = False,
) -> list[Line]:
    """Return the two lines of a run; of one that has not been read yet only the name is known."""
    mark = "*" if marked else " "
    cursor: tuple[str, StyleName] = (f"{Signs.cursor if chosen else ' '}{mark}", "accent" if focused else "quiet")
    if run is None:
        return [[cursor, (fit(visible(path.name), max(1, width - 2)), "quiet")], []]
    far, alerts = how_far(run), run.alerts.get("count", 0)
    badge = f" !{count(alerts)}" if isinstance(alerts, int) and alerts > 0 else ""
    bad: StyleName = "error" if run.alerts.get("level") == "error" else "accent"
    status = "lost" if run.going and run.stale else run.status
    state: tuple[str, StyleName] = (f"{status_glyph(status)} ", STYLES.get(status, "quiet"))
    name, origin = name_and_origin(run, max(1, width - 5 - len(far) - len(badge)), Signs.ellipsis, spare)
    style: StyleName = "accent" if chosen and focused else "strong"
    first: Line = [cursor, state, (name, style), (origin, "quiet"), (badge, bad), (f" {far}", "quiet")]
    return [first, [("    ", "plain"), *second_line(run, max(1, width - 4), ascii)]]


def name_and_origin(run: RunSummary, room: int, ellipsis: str, spare: Spare = frozenset()) -> tuple[str, str]:
    """Return the name of a run, and the program whose log it is, if it fits; together `room` wide."""
    name = visible(run.handle)
    taken = min(width(name), room - width(run.source) - 1)
    if not run.source or taken < min(width(name), SHORTEST):
        return fit(fit_handle(name, room, spare), room, ellipsis=ellipsis), ""
    return fit(name, taken, ellipsis=ellipsis), fit(f" {run.source}", room - taken)


def how_far(run: RunSummary) -> str:
    """Return `1 240/5 000`, or the state in a word and the step at which it was reached."""
    if run.status == "created":
        return STATES["created"]
    steps = f"{count(run.step)}/{count(run.steps)}" if run.going and run.steps else count(run.step) if run.step else ""
    if run.status in ("running", "done"):
        return steps
    return f"{STATES.get(run.status, visible(run.status))} {steps}".rstrip()


def metric_in(name: str, room: int) -> str:
    """Return as many whole words of a metric's name as fit, without its variant if necessary: "value" of
    "value_start"."""
    words = (name if width(name) <= room else short(name)).replace("_", " ")
    while width(words) > room and " " in words:
        words = words.rpartition(" ")[0]
    return cut(words, max(1, room))


def second_line(run: RunSummary, room: int, ascii: bool) -> Line:
    """Return `loss 2.113 ▇▆▅▄▃▃▂▂▂▁  3m12s`, or why the run ended."""
    ellipsis = Signs.ellipsis
    if run.going and run.stale:
        return [(fit(visible(run.stale), room, ellipsis=ellipsis), "error")]
    if run.status in ("failed", "lost", "unreadable") and run.reason:
        return [(fit(visible(run.reason), room, ellipsis=ellipsis), "error")]
    if run.value is None:
        text = "waits for its first step" if run.going else run.reason
        return [(fit(visible(text), room, ellipsis=ellipsis), "quiet")]
    cells = max(0, min(CURVE_CELLS, room - BESIDE_IT))
    value, name = number(run.value), visible(run.metric)
    free = min(12, room - cells - 10 - width(value))  # the number matters more than the end of its name
    value_words = f"{metric_in(name, free)} {value}"
    curve = spark(np.array(run.curve), cells, ascii) if len(run.curve) > 1 else " " * cells
    return [
        (fit(value_words, max(1, room - cells - 9), ellipsis=ellipsis), "plain"),
        (f" {curve}", "accent" if run.going else "quiet"),
        (f" {duration(run.seconds) if run.seconds else '':>7}", "quiet"),
    ]
