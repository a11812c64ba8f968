"""The screens that one can switch to: their keys, names and where they live. This registry is the only such list.

Notable: a screen is imported when it is first opened, so that the first paint pays for one screen alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from txlab.errors import LabError

if TYPE_CHECKING:
    from textual.screen import Screen


@dataclass(frozen=True)
class Room:
    """A screen: `key` is its digit and the number of its F-key; `where` is "module:Class" within
    txlab.tui.screens. One that is `within` another has no key of its own, and stands under that one's name."""

    key: str
    name: str
    title: str
    where: str
    about: str
    within: str = ""

    def open(self) -> Screen[None]:
        module, _, name = self.where.partition(":")
        screen: Screen[None] = getattr(import_module(f"txlab.tui.screens.{module}"), name)()
        return screen


ROOMS = [
    Room("1", "lab", "Lab", "lab.screen:LabScreen", "what can be run, and what has been"),
    Room(
        "2",
        "tokens",
        "Tokens",
        "tokens.screen:TokensScreen",
        "text as tokens, and how they are learnt",
    ),
    Room("3", "train", "Train", "train.screen:TrainScreen", "curves, samples and controls of one run"),
    Room("4", "attention", "Attention", "attention.screen:AttentionScreen", "who looks at whom"),
    Room("6", "arena", "Arena", "arena.screen:ArenaScreen", "learners of decisions in their worlds"),
    Room(
        "",
        "play",
        "Tic-tac-toe",
        "play.screen:PlayScreen",
        "a game against a learner",
        within="arena",
    ),
]


def room_of(run: Path) -> str:
    """The screen that a run is best looked at on."""
    from txlab.experiments.kind import kind_of_run
    from txlab.runs.directory import RunDirectory, RunInfo

    try:
        return kind_of_run(RunInfo.load(RunDirectory(run)).kind).screen
    except (LabError, OSError):
        return "train"
