"""The palette: every action that is possible now, found by its words or their synonyms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from textual.app import App

from txlab.errors import LabError
from txlab.runs.lecture import shipped_lectures
from txlab.tui.bindings import HEADINGS, active_keys
from txlab.tui.dialog_cache import put_in_front
from txlab.tui.screen_registry import ScreenEntry
from txlab.tui.settings import save_theme

Report = Callable[[LabError], None]

LISTED_OTHERWISE = ("room.", "list.", "app.palette", "screen.palette")


@dataclass(frozen=True)
class Command:
    """An entry of the palette; `synonyms` find it too."""

    title: str
    about: str
    run: Callable[[], Any]
    synonyms: str = ""


def commands_of(app: App[None], entries: Sequence[ScreenEntry], report: Report) -> list[Command]:
    """The possible actions of the screen in front, as the help groups them; then the screens, themes, and quitting."""
    commands: dict[str, Command] = {}
    for key in sorted(active_keys(app.screen), key=lambda key: HEADINGS.index(key.heading)):
        binding = key.binding
        if binding.id and not binding.id.startswith(LISTED_OTHERWISE):
            run = partial(app.run_action, binding.action, key.node)
            synonyms = f"{binding.description} {key.synonyms}"
            commands.setdefault(binding.action, Command(key.sentence, f"key {key.display}", run, synonyms))
    screens = [
        Command(
            entry.title,
            f"key {entry.label.partition(' ')[0]}" if entry.key else "",
            partial(app.run_action, f"app.open_screen({entry.name!r})"),
        )
        for entry in entries
    ]
    manual = Command("the manual about this screen", "", partial(read_manual, app), "documentation pages guide")
    lectures = [
        Command(f"lecture: {name}", "", partial(app.play_lecture, name), "tour talk lesson")  # type: ignore[attr-defined]
        for name in shipped_lectures()
    ]
    theme = Command("change the colours (theme)", "", partial(choose_theme, app, report), "colours colors dark light")
    quit = commands.pop("quit")
    return [*commands.values(), *screens, *lectures, manual, theme, quit]


def open_palette(app: App[None], entries: Sequence[ScreenEntry], report: Report) -> None:
    """List every action by its name, and these screens; `report` takes what goes wrong."""
    from txlab.tui.screens.dialogs import Choose

    if len(app.screen_stack) > 1:
        return
    commands = {command.title: command for command in commands_of(app, entries, report)}

    def run(title: str | None) -> None:
        if title in commands:
            app.call_later(commands[title].run)

    def begin(choose: Choose) -> None:
        choose.synonyms = {command.title: command.synonyms for command in commands.values()}
        choose.begin([(command.title, command.about, False) for command in commands.values()])

    put_in_front(app, "palette", lambda: Choose("Commands", []), begin, run)


def read_manual(app: App[None]) -> None:
    """Open the page of the manual about the screen."""
    from txlab.tui.screens.manual import open_manual

    open_manual(app)


def choose_theme(app: App[None], report: Report) -> None:
    """Ask for the colours and keep them in the settings."""
    from txlab.tui.screens.dialogs import Choose

    def change(name: str | None) -> None:
        if name not in app.available_themes:
            return
        app.theme = name
        try:
            where = save_theme(name)
        except LabError as error:
            report(error)
        else:
            app.notify(f"kept in {where}", markup=False)

    rows = [(name, "", name == app.theme) for name in sorted(app.available_themes, key=lambda n: "txlab" not in n)]
    app.push_screen(Choose("Which theme?", rows), change)
