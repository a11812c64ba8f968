"""A line in which Tab completes paths, as in a shell."""

from __future__ import annotations

import os
from pathlib import Path

from textual import events
from textual.message import Message
from textual.widgets import Input

MOST_NAMED = 24  # names that are offered


def complete_path(typed: str) -> tuple[str, list[str]]:
    """Return the path continued as far as it is certain, and the names that are possible there, folders with a slash.

    `~` is the home folder, and stays written so; hidden files are offered only after a dot.
    """
    folder, _, begun = typed.rpartition("/")
    try:
        place = Path(f"{folder}/" if folder or typed.startswith("/") else ".").expanduser()
        with os.scandir(place) as entries:
            names = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in entries
                if entry.name.startswith(begun) and (begun or not entry.name.startswith("."))
            ]
    except (OSError, RuntimeError, ValueError):  # no folder; an unknown user; a NUL
        return typed, []
    if not names:
        return typed, []
    names.sort()
    shared = next((at for at, pair in enumerate(zip(names[0], names[-1], strict=False)) if pair[0] != pair[1]), None)
    end = min(len(names[0]), len(names[-1])) if shared is None else shared
    return typed[: len(typed) - len(begun)] + names[0][:end], names


class PathLine(Input):
    """Tab completes what was typed, or, with `setting`, what was typed after "=" as in `data.text = PATH`."""

    class Offered(Message):
        """The names that the path may continue with; [] = none."""

        def __init__(self, names: list[str]) -> None:
            super().__init__()
            self.names = names

    def __init__(self, value: str = "", placeholder: str = "", id: str | None = None, setting: bool = False) -> None:
        super().__init__(value, placeholder=placeholder, id=id)
        self.setting = setting

    def on_key(self, event: events.Key) -> None:
        key, equals, typed = self.value.partition("=") if self.setting else ("", "", self.value)
        if event.key != "tab" or (self.setting and not equals):
            return
        event.stop()
        event.prevent_default()
        begun = typed.lstrip()
        path, names = complete_path(begun)
        self.value = f"{key}{equals}{typed[: len(typed) - len(begun)]}{path}"
        self.cursor_position = len(self.value)
        if len(names) != 1:
            self.post_message(self.Offered(names[:MOST_NAMED]))
