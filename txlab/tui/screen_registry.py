"""The registry of screens: their keys, their names and where they are defined. There is no other list of them.

Installed packages add screens by entry points of the group `txlab.screens`, whose value is "module:object", a
ScreenEntry. Screens are imported when first opened, and other packages are queried after the first paint, so the first
paint pays for one screen alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from txlab.errors import LabError
from txlab.plugins import load_plugin, plugins

if TYPE_CHECKING:
    from textual.screen import Screen

ENTRY_POINTS = "txlab.screens"


@dataclass(frozen=True)
class ScreenEntry:
    """A screen: `key` is its digit and the number of its F-key; `where` is "module:Class". A screen `within` another
    one has no key of its own and is listed under that one's name."""

    key: str
    name: str
    title: str
    where: str
    about: str
    within: str = ""

    def load(self) -> type[Screen[None]]:
        module, _, name = self.where.partition(":")
        loaded: type[Screen[None]] = getattr(import_module(module), name)
        return loaded

    def open(self) -> Screen[None]:
        return self.load()()


_OURS = "txlab.tui.screens."

SCREENS = [
    ScreenEntry("1", "lab", "Lab", _OURS + "lab.screen:LabScreen", "what can be run, and what has been"),
    ScreenEntry(
        "2", "tokens", "Tokens", _OURS + "tokens.screen:TokensScreen", "text as tokens, and how they are learnt"
    ),
    ScreenEntry("3", "train", "Train", _OURS + "train.screen:TrainScreen", "curves, samples and controls of one run"),
    ScreenEntry("4", "attention", "Attention", _OURS + "attention.screen:AttentionScreen", "who looks at whom"),
    ScreenEntry("5", "words", "Words", _OURS + "vectors.screen:WordsScreen", "word vectors, seen while they move"),
    ScreenEntry("6", "arena", "Arena", _OURS + "arena.screen:ArenaScreen", "learners of decisions in their worlds"),
    ScreenEntry("", "play", "Tic-tac-toe", _OURS + "play.screen:PlayScreen", "a game against a learner", "arena"),
]


def installed_screens() -> Iterator[ScreenEntry]:
    """Yield the screens of other packages. Raises LabError if one is not a ScreenEntry, or its key or name is taken."""
    for point in plugins(ENTRY_POINTS).values():
        entry = load_plugin(point, ScreenEntry)
        taken = {each.key for each in SCREENS if each.key} | {each.name for each in SCREENS}
        if entry.key in taken or entry.name in taken:
            free = ", ".join(digit for digit in "123456789" if digit not in taken)
            raise LabError(f"the screen {entry.name!r} has a key or a name that is taken; free keys: {free}")
        yield entry


def screen_of(run: Path) -> str:
    """Return the name of the screen that suits a run best."""
    from txlab.experiments.kind import kind_of_run
    from txlab.runs.directory import RunDirectory, RunInfo

    try:
        return kind_of_run(RunInfo.load(RunDirectory(run)).kind).screen
    except (LabError, OSError):
        return "train"
