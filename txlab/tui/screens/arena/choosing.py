"""Choosing a world: one of the catalogue, with options, a map from a file, one of Gymnasium's, or a recorded run.

Worlds are made in a thread, because some take a second and Gymnasium has to be imported first; the present learners
continue until the new world is ready, and stay if it cannot be made.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from txlab.drawing.run_names import name_runs
from txlab.engine.rl.maps.drawn import MOST_SIDE, Map
from txlab.engine.rl.world import World
from txlab.errors import LabError
from txlab.experiments.kind import kind_of_run
from txlab.tui.bindings import bind
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.screens.arena.recorded import world_from
from txlab.tui.screens.dialogs import AskValue, Choose

if TYPE_CHECKING:
    from txlab.tui.screens.arena.interface import Arena

AN_EMPTY_MAP, SIZE = "an empty map…", "6 x 8"
A_FILE, OTHERS = "a file with a map…", "by name, with options…"
MOST_RUNS = 12


class WorldChoice(Panel):
    """Opens another world or a recorded run with o."""

    KEYS: ClassVar = (
        bind("o", "open", "choose another world", "world", id="arena.open", synonyms="map environment gridworld"),
    )
    DEFAULT_CSS = "WorldChoice { display: none; }"

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self.arena = arena
        self.making = LatestTask(arena, "world", lambda sentence: self.tell(sentence, "error"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not self.arena.editing

    def action_open(self) -> None:
        """Choose another world or a recorded run."""
        root = self.app.root  # type: ignore[attr-defined]
        self.making.want(lambda _: choices(root), self.offer, holds_keys=True)

    def offer(self, offered: tuple[list[tuple[str, str]], dict[str, Path], dict[str, str]]) -> None:
        if self.app.screen is not self.screen:
            return
        worlds, runs, called = offered
        now = self.arena.world.name if self.arena.world is not None and self.arena.playback.can_edit else ""
        rows = [(AN_EMPTY_MAP, "rows x columns of floor, to draw your own", False)]
        rows += [(name, about, name == now) for name, about in worlds]
        rows += [(A_FILE, "drawn as text, UTF-8", False)]
        rows += [(OTHERS, "frozen-lake slippery=false, gymnasium:Blackjack-v1", False)]
        rows += [(name, "a recorded run", False) for name in runs]

        def choose(name: str | None) -> None:
            if name == AN_EMPTY_MAP:
                question = AskValue("How large?", "rows x columns", SIZE, lambda text: describe_size(size_of(text)))
                self.app.push_screen(
                    question, lambda text: self.open_world(empty_map(text), edit=True) if text else None
                )
            elif name == A_FILE:
                question = AskValue("Which file?", "a map drawn as text", path=True)
                self.app.push_screen(question, lambda path: self.open_world({"file": path.strip()}) if path else None)
            elif name == OTHERS:
                about = "its name, then options: windy moves=king, or gymnasium:Taxi-v4"
                question = AskValue("Which world?", about, "", lambda text: str(table_of(text)["name"]))
                self.app.push_screen(question, lambda text: self.open_world(table_of(text)) if text else None)
            elif name in runs:
                self.arena.playback.look_at_run(runs[name])
            elif name:
                self.open_world({"name": name})

        dialog = Choose("Which world?", rows)
        dialog.called = called
        self.app.push_screen(dialog, choose)

    def open_world(self, table: dict[str, Any], edit: bool = False) -> None:
        """Open the world of a [world] table, with the present learners starting from scratch in it; `edit` its map."""

        def take_world(world: World) -> None:
            self.arena.enter_world(world, table, edit)
            for note in world.notes:
                self.tell(note)

        self.making.want(lambda _: world_from(table), take_world, holds_keys=True)


def size_of(text: str) -> tuple[int, int]:
    """Parse `6 x 8` as rows and columns; LabError says what is allowed."""
    parts = re.split(r"[x×*, ]+", text.strip().lower())
    if len(parts) != 2 or not all(part.isdecimal() and 2 <= int(part[:6]) <= MOST_SIDE for part in parts):
        raise LabError(
            f"{text.strip()[:40]!r} is not a size; write rows x columns, as {SIZE}, each from 2 to {MOST_SIDE}"
        )
    return int(parts[0]), int(parts[1])


def empty_map(size: str) -> dict[str, Any]:
    """Return the [world] table of floor with a start at the lower left and a goal at the upper right, −1 a move."""
    rows, columns = size_of(size)
    floor = "." * (columns - 1)
    drawn = Map((floor + "G", *["." * columns] * (rows - 2), "S" + floor), step=-1.0, title="Own map")
    return {"map": drawn.text()}


def describe_size(size: tuple[int, int]) -> str:
    return f"{size[0]} rows of {size[1]} cells; the editor opens"


def table_of(text: str) -> dict[str, Any]:
    """Parse `windy moves=king` as a [world] table."""
    words = text.split()
    if not words:
        raise LabError("a world needs a name; o lists them")
    table: dict[str, Any] = {"name": words[0]}
    for word in words[1:]:
        key, sign, value = word.partition("=")
        if not sign or not key:
            raise LabError(f"{word[:40]!r} is not an option; write key=value, as slippery=false")
        table[key] = {"true": True, "false": False}.get(value.lower(), number_or_text(value))
    return table


def number_or_text(value: str) -> Any:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def choices(root: Path) -> tuple[list[tuple[str, str]], dict[str, Path], dict[str, str]]:
    """Return (name, title) of each world, the recorded decision runs by name, newest first, and what these are
    called."""
    from txlab.engine.rl.worlds import worlds
    from txlab.runs.directory import RunInfo
    from txlab.runs.folder import list_runs

    runs: dict[str, Path] = {}
    for path in list_runs(root)[:200]:
        try:
            if kind_of_run(RunInfo.load(path / "run.json").kind).screen == "arena":
                runs[path.name] = path
        except (LabError, OSError):
            continue
        if len(runs) >= MOST_RUNS:
            break
    return [(entry.name, entry.title) for entry in worlds().values()], runs, name_runs(runs.values())
