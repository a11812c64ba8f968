"""Machines: each card and process of this machine and of those that are followed, and which run a process computes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content

from txlab.drawing.box import Lines, Row
from txlab.drawing.captions import machines as captions
from txlab.drawing.text import visible
from txlab.errors import LabError
from txlab.runs.remote.address import Address, host_and_folder
from txlab.runs.remote.machine import Machines, Seen
from txlab.tui.bindings import PALETTE, WHY, bind
from txlab.tui.key_order import run_in_thread
from txlab.tui.panel import Panel
from txlab.tui.screens.base_screens import BenchScreen
from txlab.tui.screens.machines.curves import MachineCurves
from txlab.tui.screens.plain_text import Words
from txlab.tui.settings import settings_file
from txlab.tui.widgets.rows import Item, Line, Rows
from txlab.tui.widgets.terminal import is_ascii

LOOK_EVERY = 1.0  # seconds
ROOMY, WIDE = 26, 90  # lines and cells of the panel from which on there is more about other machines
LOWEST_CURVES = 9  # lines, with the blank one above
SLACK = 4  # lines by which the list may become shorter before the curves become higher
MOST_NAMES = 4  # machines that are known and not shown


class MachinesPanel(Panel):
    """`machines` are read in a thread while the screen is in front; a row is a machine, a card or a process. Below
    them, where there is room, are the curves of the machine under the cursor, and how another machine is shown."""

    KEYS: ClassVar[Sequence[Binding]] = (
        bind("enter", "open", "open the run that the process computes", "open the run", id="machines.open"),
        bind(
            "o", "add", "show another machine too, over ssh", "machine", id="machines.add", synonyms="ssh host remote"
        ),
        bind("x", "leave", "show the machine no longer", "leave it out", id="machines.leave", synonyms="remove delete"),
    )

    DEFAULT_CSS = """
    MachinesPanel { height: 1fr; width: 1fr; padding: 0 1; }
    MachinesPanel #machines-head { height: 2; width: 1fr; text-wrap: nowrap; }
    MachinesPanel #machines-more { height: auto; width: 1fr; margin-top: 1; color: $quiet; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.list = Rows(self.draw, "reading this machine…", id="machines")
        self.head = Words(id="machines-head")
        self.curves, self.more = MachineCurves(), Words(id="machines-more")
        self.known: list[str] | None = None  # the names of machines that may be shown; None = not read yet
        self.machines: Machines | None = None
        self.seen: list[Seen] = []
        self.left: set[str] = set()  # machines that are connected and not to be shown
        self.rows: dict[str, Row] = {}
        self.looking = self.in_front = False

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.list
        yield self.curves
        yield self.more

    def on_mount(self) -> None:
        self.set_interval(LOOK_EVERY, self.look)

    def come_to_front(self) -> None:
        from txlab.runs.remote.mirroring import connected_machines

        self.in_front = True
        if self.machines is None:
            self.machines = Machines([None], self.app.root)  # type: ignore[attr-defined]
            for name in self.app.settings.machines:  # type: ignore[attr-defined]
                try:
                    self.machines.add(host_and_folder(name))
                except LabError as error:
                    self.app.report(error)  # type: ignore[attr-defined]
        for address in connected_machines():
            if address.host not in self.left:
                self.machines.add(address)
        self.look()

    def unseen(self) -> None:
        self.in_front = False

    def look(self) -> None:
        """Read the machines in a thread, unless that is already in progress."""
        if self.looking or not self.in_front or self.machines is None:
            return
        self.looking = True
        run_in_thread(self, partial(self.look_in_thread, self.machines), "machines", keys=False)

    def look_in_thread(self, machines: Machines) -> None:
        from txlab.tui.screens.lab.machines import list_machines

        try:
            self.seen = machines.look()
            if self.known is None:
                self.known = [name for name, _ in list_machines()]
        finally:
            self.looking = False
        self.app.call_from_thread(self.show)

    def show(self) -> None:
        """Draw the last readings."""
        lines = Lines(self.list.room - 1, is_ascii(self))
        head = lines.head(self.seen)
        self.head.styles.height = len(head)
        self.head.say(Content.styled("\n".join(f" {line}" for line in head), "italic $quiet"))
        self.screen.caption.say(captions.machines(self.seen))  # type: ignore[attr-defined]
        more = self.words_below()
        room, below = self.size.height - len(head), len(more) + 1
        for least in (room - below - LOWEST_CURVES, room - below, room):
            rows = lines.rows(self.seen, time.time(), least)
            if len(rows) <= least:
                break
        self.lay_out(room - len(rows), below)
        self.more.say(Content("\n").join(more))
        self.rows = {row.key: row for row in rows}
        self.list.set_items([Item(None if row.is_heading else row.key, row.key) for row in rows])
        self.list.redraw()
        self.draw_curves()
        self.screen.refresh_bindings()

    def lay_out(self, left: int, below: int) -> None:
        """Divide the lines that the list leaves: first those about other machines, then the curves."""
        self.more.display = left >= below
        left -= below if self.more.display else 0
        self.curves.display = left >= LOWEST_CURVES
        before = int(self.curves.styles.height.value) if self.curves.styles.height is not None else 0
        if self.curves.display and not left - SLACK <= before <= left:
            self.curves.styles.height = left

    def draw_curves(self) -> None:
        """Draw the machine under the cursor."""
        row = self.chosen
        machine = row.machine if row is not None else next(iter(self.seen), None)
        if machine is not None and self.machines is not None and self.curves.display:
            name = machine.name or (machine.reading.host if machine.reading is not None else "this machine")
            self.curves.show(name, tuple(self.machines.past.get(machine.name, ())))

    def words_below(self) -> list[Content]:
        """How another machine is shown: in one line, or in three where there is room."""
        shown = {each.name for each in self.seen}
        names = [name for name in self.known or () if name.partition(":")[0] not in shown][:MOST_NAMES]
        known = f"  known: {', '.join(map(visible, names))}" if names else ""
        key = Content.styled("o", "bold $accent")
        short = Content.assemble(key, " shows another machine that ssh knows", known)
        if self.size.height < ROOMY or self.size.width < WIDE:
            return [short]
        return [
            Content.assemble(short, ": NAME, or NAME:/FOLDER of its runs"),
            Content("  it needs a login by ssh without a password, and Python 3.6; nothing is installed there"),
            Content(
                f"  machines = ['NAME'] in {visible(place_of_settings())} keeps it; in a shell: txlab box --hosts NAME"
            ),
        ]

    def draw(self, item: Item, width: int, chosen: bool) -> Sequence[Line]:
        mark = ">" if is_ascii(self) else "▸"
        return [[(mark if chosen else " ", "accent"), *self.rows[item.text].parts]]

    def on_resize(self) -> None:
        if self.seen:
            self.call_after_refresh(self.show)

    @property
    def chosen(self) -> Row | None:
        return self.rows.get(self.list.key or "")

    @on(Rows.Highlighted)
    def other_row(self) -> None:
        self.draw_curves()
        self.screen.refresh_bindings()

    @on(Rows.Chosen)
    def open_clicked(self) -> None:
        if self.check_action("open", ()):
            self.action_open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        row = self.chosen
        if action == "open":
            return row is not None and row.process is not None and bool(row.process.run)
        return action != "leave" or (row is not None and row.machine.address is not None)

    def action_open(self) -> None:
        """Open the run on the screen of its kind."""
        row = self.chosen
        if row is None or row.process is None:
            return
        run, address = row.process.run, row.machine.address
        if address is None:
            self.app.look_at(Path(self.app.root) / run)  # type: ignore[attr-defined]
            return
        self.tell(f"opening {run} on {address.host}…")
        run_in_thread(self, partial(self.open_there, address, run), "start", keys=False)

    def open_there(self, address: Address, run: str) -> None:
        from txlab.runs.remote.mirroring import open_run

        named = Address(address.host, f"{address.path}/{run}") if address.path else Address(address.host, "", run)
        self.app.call_from_thread(self.app.look_at, open_run(named))  # type: ignore[attr-defined]

    def action_add(self) -> None:
        """Ask for a machine."""
        from txlab.tui.screens.lab.machines import ask_machine

        def add(address: Address | None, run: str) -> None:
            if self.machines is not None and address is not None:
                self.left.discard(address.host)
                self.machines.add(address)
                self.look()
                if run:
                    run_in_thread(self, partial(self.open_there, address, run), "start", keys=False)

        ask_machine(self.app, None, add, "Show which machine?  NAME, NAME:/FOLDER of its runs", "shows")

    def action_leave(self) -> None:
        row = self.chosen
        if row is not None and self.machines is not None and row.machine.address in self.machines.addresses[1:]:
            self.machines.addresses.remove(row.machine.address)
            self.left.add(row.machine.name)
            self.look()


def place_of_settings() -> str:
    """config.toml with its folder, which is mostly below the home directory."""
    path = settings_file()
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


class MachinesScreen(BenchScreen):
    """The list fills the screen."""

    AUTO_FOCUS = "#machines"
    HELP_ABOUT = (
        "Each card: the share of the time in which a kernel ran, memory, power against its limit, temperature, and why "
        "its clock is slowed, if it is. Below are the users of the cards, and the processes on them, those that "
        "compute runs with their step, and the busiest others; cpu counts cores. Below, where there is room, are the "
        "shares of the machine under the cursor since this screen was opened. A machine that does not answer is gray, "
        "with its last values and their age. o adds a machine for this session; machines = ['box'] in config.toml "
        "keeps it."
    )
    PANELS = (MachinesPanel,)
    KEY_ORDER = ("machines.open", "machines.add", "machines.leave")
    BINDINGS: ClassVar[list[BindingType]] = [WHY, PALETTE]

    def compose_body(self) -> ComposeResult:
        yield MachinesPanel()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "why" and super().check_action(action, parameters)
