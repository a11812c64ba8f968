"""Change a scenario before it starts: its settings as a form, validated at every key stroke.

One input line: letters filter the settings, and `key = value` changes one. The list below has each setting's current
and allowed values; enter on one copies it into the line with its old value selected, and enter on the last row starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import tomli_w
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input
from textual.widgets.input import Selection
from textual.worker import get_current_worker

from txlab.drawing.text import fit, visible, width
from txlab.errors import LabError, nearest
from txlab.experiments.price import price_line
from txlab.experiments.schema import Scenario
from txlab.runs.scenario import load_scenario
from txlab.runs.scenario_errors import describe_allowed, every_key, format_value, locate
from txlab.tui.key_order import run_in_thread
from txlab.tui.screens.dialogs import Dialog, key_hints
from txlab.tui.screens.plain_text import Words
from txlab.tui.theme import Signs
from txlab.tui.widgets.path_line import PathLine
from txlab.tui.widgets.rows import Item, Line, Rows

FIRST = ("data", "model", "train")  # the tables most often changed
LAST = ("", "record", "compute")
START = "start"  # the last row
WIDE = 80  # cells of a row from which its columns are wide


@dataclass(frozen=True)
class Setting:
    """A key of a scenario: its value, the allowed values, and its meaning ("" = clear from its name)."""

    key: str
    value: Any
    allowed: str
    about: str

    @property
    def text(self) -> str:
        """The value as typed."""
        return type_value(self.value)


def type_value(value: Any) -> str:
    """Return a value as typed: a text without quotes, anything else as TOML, a table not at all.

    >>> type_value("notes.txt"), type_value(True), type_value([1, 2]), type_value([{"a": 1}])
    ('notes.txt', 'true', '[1, 2]', '')
    """
    if isinstance(value, str) or value is None:
        return value or ""
    if isinstance(value, dict) or (isinstance(value, Sequence) and any(isinstance(each, dict) for each in value)):
        return ""
    return " ".join(tomli_w.dumps({"v": value}).partition("=")[2].split()).replace("[ ", "[").replace(", ]", "]")


def settings_of(scenario: Scenario) -> list[Setting]:
    """Return all settings of a scenario without its description: data, model and training first."""
    schema, table = type(scenario), scenario.model_dump()
    settings = []
    for key in every_key(schema):
        if key == "kind" or key.startswith("about."):
            continue
        value: Any = table
        for part in key.split("."):
            value = value[part]
        field = locate(schema, tuple(key.split(".")))[1]
        settings.append(Setting(key, value, describe_allowed(field), (field and field.description) or ""))
    tables = [setting.key.rpartition(".")[0] for setting in settings]
    order = [*FIRST, *(name for name in dict.fromkeys(tables) if name not in (*FIRST, *LAST)), *LAST]
    return sorted(settings, key=lambda setting: order.index(setting.key.rpartition(".")[0]))


def resolve_key(word: str, keys: Sequence[str]) -> str:
    """Return the key that was typed: whole, or its last part where only one key ends so. LabError with the nearest."""
    word = word.strip()
    ending = [key for key in keys if key.rpartition(".")[2] == word]
    if word in keys:
        return word
    if len(ending) == 1:
        return ending[0]
    raise LabError(
        f"{format_value(word)} is not a setting{nearest(word, [*keys, *(key.rpartition('.')[2] for key in keys)])}"
    )


class OverridesDialog(Dialog[list[str]]):
    """Answers with the overrides ("train.steps=200"), or None."""

    CSS_PATH = ["../dialogs.tcss", "overrides.tcss"]
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = None  # the app's: the list fills the terminal
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f5", "start", "start", id="change.start", priority=True),
        Binding("escape", "leave", "leave it", id="change.leave", priority=True),
        Binding("up", "move(-1)", "up", id="change.up", priority=True),
        Binding("down", "move(1)", "down", id="change.down", priority=True),
        Binding("pageup", "page(-1)", "page up", id="change.page-up", priority=True),
        Binding("pagedown", "page(1)", "page down", id="change.page-down", priority=True),
    ]

    def __init__(self, name: str) -> None:
        super().__init__()
        self.scenario_name = name
        self.base: dict[str, Setting] = {}  # as in the scenario's file
        self.settings: dict[str, Setting] = {}  # with the changes
        self.changes: dict[str, str] = {}
        self.judged: str | None = None  # the line to which `wrong` refers
        self.wrong = ""
        self.cost = ""  # of the last settings that were valid
        self.rows = Rows(self.draw_row, "no setting matches", id="settings")
        self.rows.can_focus = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog change"):
            yield Words(Content(f"{visible(self.scenario_name)}, changed"), classes="dialog-title")
            yield PathLine(placeholder="filter, or key = value", id="line", setting=True)
            yield Words("", id="verdict")
            yield Words("", id="cost")
            yield self.rows
            yield Words("", id="about")
            hints = (("enter", "change it"), ("tab", "complete a path"), ("^s", "start"), ("esc", "cancel"))
            yield Words(key_hints(("↑ ↓", "choose"), *hints), classes="dialog-keys")

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.judge()

    # The input line, and its validation.

    def collect_changes(self) -> dict[str, str]:
        """Return the changes including the typed one; an empty value takes a change back. Raises LabError."""
        key, equals, value = self.query_one(Input).value.partition("=")
        if not equals:
            return self.changes
        key = resolve_key(key, list(self.base))
        others = {name: text for name, text in self.changes.items() if name != key}
        value = value.strip()
        return others if value in ("", self.base[key].text) else {**others, key: value}

    @property
    def good(self) -> bool:
        """Whether the current content of the line has been validated. Enter and F5 wait for the check, unless the user
        interrupts it."""
        return self.judged == self.query_one(Input).value and not self.wrong

    def judge(self) -> None:
        """Validate in a thread, for which enter waits; only the newest text counts."""
        line = self.query_one(Input).value
        try:
            changes = self.collect_changes() if self.base else {}
        except LabError as error:
            self.workers.cancel_group(self, "check")
            self.say(line, {}, str(error))
            return
        check = partial(self.check, line, changes)
        run_in_thread(self, check, "check", exclusive=True)

    def check(self, line: str, changes: Mapping[str, str]) -> None:
        settings: dict[str, Setting] = {}
        wrong = cost = ""
        try:
            scenario = load_scenario(self.scenario_name, overrides_of(changes)).scenario
            settings = {setting.key: setting for setting in settings_of(scenario)}
            cost = price_line(scenario, load_scenario(self.scenario_name, []).scenario)
        except LabError as error:
            wrong = str(error).removeprefix("--set: ").removeprefix("--set ")
        if not get_current_worker().is_cancelled and self.is_attached:
            self.app.call_later(self.say, line, settings, wrong, cost)

    def say(self, line: str, settings: dict[str, Setting], wrong: str, cost: str = "") -> None:
        """Show the result for a line. Text typed before the settings were known is checked now."""
        if not self.is_attached:
            return
        unknown = not self.base
        self.base = self.base or settings
        if line != self.query_one(Input).value or (unknown and settings and "=" in line):
            self.settings = self.settings or settings
            self.judge()
            return
        self.judged, self.wrong, self.cost = line, wrong, cost or self.cost
        self.settings = settings or self.settings
        self.fill()

    # The list.

    def is_changed(self, key: str) -> bool:
        return bool(self.settings[key].value != self.base[key].value)

    def fill(self) -> None:
        line, equals, _ = self.query_one(Input).value.partition("=")
        words = line.lower().split()
        if equals and not any(line.strip() in key for key in self.settings):
            words = []  # the error is shown above; here are all settings
        items: list[Item] = []
        heading = None
        for key, setting in self.settings.items():
            if not all(word in f"{key} {setting.about}".lower() for word in words):
                continue
            table = key.rpartition(".")[0]
            if table != heading:
                heading = table
                items.append(Item(None, table or "the run"))
            items.append(Item(key))
        if self.settings:
            items += [Item(None, ""), Item(START)]
        self.rows.set_items(items)
        if words and (exact := next((key for key in self.settings if key.rpartition(".")[2] == words[0]), "")):
            self.rows.select(exact)
        self.rows.redraw()
        self.describe()

    def describe(self) -> None:
        """Show the error, or the number of changes; and the meaning of the selected setting."""
        changed = [setting for key, setting in self.settings.items() if self.is_changed(key)]
        changes = (
            "  ".join(f"{setting.key} = {format_value(setting.value)}" for setting in changed) or "nothing changed yet"
        )
        verdict = Content.styled(visible(self.wrong), "$error") if self.wrong else Content.styled(changes, "$quiet")
        self.query_one("#verdict", Words).say(verdict)
        self.query_one("#cost", Words).say(Content.styled(self.cost, "$quiet"))
        setting = self.settings.get(self.rows.key or "")
        about = (
            f"{setting.key}: {'; '.join(filter(None, (setting.about, setting.allowed)))}" if setting is not None else ""
        )
        self.query_one("#about", Words).say(Content.styled(visible(about), "$quiet"))

    def draw_row(self, item: Item, cells: int, chosen: bool) -> list[Line]:
        if item.key is None:
            return [[(fit(item.text, cells), "heading")]]
        if item.key == START:
            cursor = Signs.cursor if chosen else " "
            return [
                [
                    (f"{cursor} ", "accent"),
                    (fit("start with these settings", cells - 2), "strong" if chosen else "plain"),
                ]
            ]
        setting = self.settings[item.key]
        changed = self.is_changed(item.key)
        was = f"was {format_value(self.base[item.key].value)}; " if changed else ""
        for_key, for_value = (24, 20) if cells >= WIDE else (18, 14)
        name = fit(f"{'*' if changed else ' '} {item.key.rpartition('.')[2]}", for_key)
        value = fit(visible(format_value(setting.value)), for_value)
        rest = max(0, cells - 3 - width(name) - width(value))
        return [
            [
                (f"{Signs.cursor if chosen else ' '} ", "accent"),
                (name, "accent" if changed else "strong" if chosen else "plain"),
                (f"{value} ", "accent" if changed else "plain"),
                (fit(visible(was + setting.allowed), rest), "quiet"),
            ]
        ]

    # Keys.

    @on(PathLine.Offered)
    def show_names(self, event: PathLine.Offered) -> None:
        names = visible("   ".join(event.names)) or "no file or folder begins so"
        self.query_one("#about", Words).say(Content.styled(names, "$quiet"))

    def on_input_changed(self) -> None:
        self.fill()
        self.judge()

    def on_input_submitted(self) -> None:
        """Apply the typed text, or copy the selected setting into the line, its value selected."""
        line = self.query_one(Input)
        if "=" in line.value:
            if self.good:
                self.changes = self.collect_changes()
                line.value = ""
            else:
                self.app.bell()
        elif self.rows.key == START:
            self.action_start()
        elif (setting := self.settings.get(self.rows.key or "")) is not None:
            line.value = f"{setting.key} = {setting.text}"
            line.selection = Selection(len(setting.key) + 3, len(line.value))

    def action_start(self) -> None:
        """Start with the typed changes."""
        if self.good:
            self.dismiss(overrides_of(self.collect_changes()))
            return
        self.app.bell()
        if self.wrong:
            self.wrong = f"not started: {self.wrong.removeprefix('not started: ')}"
            self.describe()

    def action_leave(self) -> None:
        """Clear the line; leave if it is empty."""
        line = self.query_one(Input)
        if line.value:
            line.value = ""
        else:
            self.dismiss(None)

    def action_move(self, by: int) -> None:
        self.rows.action_move(by)
        self.describe()

    def action_page(self, by: int) -> None:
        self.rows.action_page(by)
        self.describe()


def overrides_of(changes: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in changes.items()]
