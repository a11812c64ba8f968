"""Which world: one of the catalogue, with its options, a map from a file, one of Gymnasium's, or a recorded run.

Notable: worlds are made in a thread, because some take a second and Gymnasium has to be imported first; the learners of
now go on until the new world is there, and stay where it cannot be made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from txlab.engine.rl.world import World
from txlab.errors import LabError
from txlab.experiments.kind import kind_of_run
from txlab.tui.latest_task import Lane
from txlab.tui.screens.arena.replay import ReplayScreen, world_from

A_FILE, OTHERS = "a file with a map…", "by name, with options…"
MOST_RUNS = 12


class ChoosingScreen(ReplayScreen):
    """o opens another world."""

    def __init__(self) -> None:
        super().__init__()
        self.making = Lane(self, "world", lambda sentence: self.tell(sentence, "error"))

    def action_open(self) -> None:
        """Another world, or a recorded run."""
        root = self.app.root  # type: ignore[attr-defined]
        self.making.want(lambda _: choices(root), self.offer)

    def offer(self, found: tuple[list[tuple[str, str]], dict[str, Path]]) -> None:
        from txlab.tui.screens.dialogs import AskValue, Choose

        if self.app.screen is not self:
            return
        worlds, runs = found
        now = self.world.name if self.world is not None and not self.replaying else ""
        rows = [(name, about, name == now) for name, about in worlds]
        rows += [(A_FILE, "drawn as text, UTF-8", False)]
        rows += [(OTHERS, "frozen-lake slippery=false, gymnasium:Blackjack-v1", False)]
        rows += [(name, "a recorded run", False) for name in runs]

        def chosen(name: str | None) -> None:
            if name == A_FILE:
                question = AskValue("Which file?", "a map drawn as text")
                self.app.push_screen(question, lambda path: self.open_world({"file": path.strip()}) if path else None)
            elif name == OTHERS:
                question = AskValue(
                    "Which world?",
                    "its name, then options: windy moves=king, or gymnasium:Taxi-v4",
                    "",
                    lambda text: str(told(text)["name"]),
                )
                self.app.push_screen(question, lambda text: self.open_world(told(text)) if text else None)
            elif name in runs:
                self.foreign, self.replaying = False, False
                if self.app.current_run == runs[name]:  # type: ignore[attr-defined]
                    self.read_at = (-1, -1)
                    self.wants_read()
                self.app.current_run = runs[name]  # type: ignore[attr-defined]
            elif name:
                self.open_world({"name": name})

        self.app.push_screen(Choose("Which world?", rows), chosen)

    def open_world(self, table: dict[str, Any]) -> None:
        """The world of a [world] table, with the learners of now beginning anew in it."""

        def opened(world: World) -> None:
            if self.replaying:
                self.back_to_the_learners()
            self.end_walk()
            self.editing = False
            self.bands.clear()
            self.learning.order(lambda learning: learning.move_to(world, table), "world")
            for note in world.notes:
                self.tell(note)

        self.making.want(lambda _: world_from(table), opened)


def told(text: str) -> dict[str, Any]:
    """`windy moves=king` as a [world] table."""
    words = text.split()
    if not words:
        raise LabError("a world needs a name; o lists them")
    table: dict[str, Any] = {"name": words[0]}
    for word in words[1:]:
        key, sign, value = word.partition("=")
        if not sign or not key:
            raise LabError(f"{word[:40]!r} is no option; write key=value, as slippery=false")
        table[key] = {"true": True, "false": False}.get(value.lower(), number_or_text(value))
    return table


def number_or_text(value: str) -> Any:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def choices(root: Path) -> tuple[list[tuple[str, str]], dict[str, Path]]:
    """(name, what it is) of each world, and the runs of decisions by their names, newest first."""
    from txlab.engine.rl.worlds import worlds
    from txlab.runs.directory import RunInfo
    from txlab.runs.finding import list_runs

    runs: dict[str, Path] = {}
    for path in list_runs(root)[:200]:
        try:
            if kind_of_run(RunInfo.load(path / "run.json").kind).screen == "arena":
                runs[path.name] = path
        except (LabError, OSError):
            continue
        if len(runs) >= MOST_RUNS:
            break
    return [(entry.name, entry.title) for entry in worlds().values()], runs
