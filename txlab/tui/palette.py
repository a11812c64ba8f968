"""The palette: every action that is possible now, found by its words or their synonyms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from textual.app import App

from txlab.errors import LabError
from txlab.tui.dialog_cache import put_in_front
from txlab.tui.phrases import GROUPS, SYNONYMS, group_of, phrase_of
from txlab.tui.screen_registry import ScreenEntry
from txlab.tui.settings import save_theme

Report = Callable[[LabError], None]

LISTED_OTHERWISE = ("room.", "list.", "app.", "screen.palette")


@dataclass(frozen=True)
class Command:
    """An entry of the palette; `synonyms` find it too."""

    title: str
    about: str
    run: Callable[[], Any]
    synonyms: str = ""


def commands_of(app: App[None], entries: Sequence[ScreenEntry], report: Report) -> list[Command]:
    """The possible actions of the screen in front, as the help groups them; then the screens, themes, and quitting."""
    screen = app.screen
    word_for = getattr(screen, "word_for", lambda binding: binding.description)
    own = [binding.id for binding in type(screen).__dict__.get("BINDINGS", [])]
    actives = [active for active in screen.active_bindings.values() if active.enabled and active.binding.description]
    actives.sort(key=lambda active: own.index(active.binding.id) if active.binding.id in own else len(own))
    actives.sort(key=lambda active: GROUPS.index(group_of(active.binding)))
    found: dict[str, Command] = {}
    for active in actives:
        binding, node = active.binding, active.node
        if not binding.id or binding.id.startswith(LISTED_OTHERWISE):
            continue
        key = binding.key_display or app.get_key_display(binding)
        run = partial(app.run_action, binding.action, node)
        synonyms = f"{binding.description} {SYNONYMS.get(binding.id, '')}"
        phrase = phrase_of(binding, word_for(binding))
        found.setdefault(binding.action, Command(phrase, f"key {key}", run, synonyms))
    screens = [
        Command(
            entry.title,
            f"key {entry.label.partition(' ')[0]}" if entry.key else "",
            partial(app.run_action, f"app.open_screen({entry.name!r})"),
        )
        for entry in entries
    ]
    last = [
        Command("change the colours (theme)", "", partial(choose_theme, app, report), SYNONYMS["theme"]),
        Command(
            "quit txlab; runs go on without it", "key ^q", partial(app.run_action, "app.quit"), SYNONYMS["app.quit"]
        ),
    ]
    return [*found.values(), *screens, *last]


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
