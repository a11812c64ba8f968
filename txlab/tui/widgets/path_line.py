"""A line in which Tab completes paths, as in a shell. A folder is read in a thread: it may be large, or far away."""

from __future__ import annotations

import os
from functools import partial
from itertools import islice
from pathlib import Path

from textual import events
from textual.message import Message
from textual.widgets import Input
from textual.worker import get_current_worker

from txlab.drawing.formatting import count
from txlab.tui.key_order import keys_wait

MOST_NAMED = 24  # names that are offered
MOST_READ = 20_000  # names of a folder that are read: a tenth of a second on a local disk


def complete_path(typed: str) -> tuple[str, list[str]]:
    """Return the path continued as far as it is certain, and the names that are possible there, folders with a slash.

    `~` is the home folder, and stays written so; hidden files are offered only after a dot. In a folder of more than
    MOST_READ names nothing is certain: the path stays as it is, and a last "name" says so.
    """
    folder, _, begun = typed.rpartition("/")
    try:
        place = Path(f"{folder}/" if folder or typed.startswith("/") else ".").expanduser()
        with os.scandir(place) as entries:
            names = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in islice(entries, MOST_READ)
                if entry.name.startswith(begun) and (begun or not entry.name.startswith("."))
            ]
            all_read = next(entries, None) is None
    except (OSError, RuntimeError, ValueError):  # no folder; an unknown user; a NUL
        return typed, []
    names.sort()
    if not all_read:
        return typed, [*names[: MOST_NAMED - 1], f"only {count(MOST_READ)} names of this folder were read"]
    if not names:
        return typed, []
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
        look = self.run_worker(
            partial(self.complete, self.value, f"{key}{equals}", typed), thread=True, group="paths", exclusive=True
        )
        keys_wait(self, look)

    def complete(self, seen: str, before: str, typed: str) -> None:
        begun = typed.lstrip()
        path, names = complete_path(begun)
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self.show, seen, f"{before}{typed[: len(typed) - len(begun)]}{path}", names)

    def show(self, seen: str, completed: str, names: list[str]) -> None:
        """Replace what was completed, unless it has been edited meanwhile."""
        if self.value != seen or not self.is_attached:
            return
        self.value = completed
        self.cursor_position = len(self.value)
        if len(names) != 1:
            self.post_message(self.Offered(names[:MOST_NAMED]))
