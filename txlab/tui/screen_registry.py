"""The only registry of screens: their keys, their names and where they are defined.

Installed packages add screens by entry points of the group `txlab.screens`, whose value is "module:object", a
ScreenEntry. Screens are imported when first opened, and other packages are queried after the first paint, so the first
paint pays for one screen only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from txlab.errors import LabError
from txlab.plugins import import_in_turn, load_plugin, plugins

if TYPE_CHECKING:
    from textual.screen import Screen

ENTRY_POINTS = "txlab.screens"
KEYS = (*"1234567890", "11", "12")


GROUPS = {"1": "Language models", "6": "Learning", "M": ""}
"""The key of a group's first screen → its heading; "" = none."""


@dataclass(frozen=True)
class ScreenEntry:
    """A screen: `key` is its digit and the number of its F-key, with F10 for "0", or a letter; screens of other
    packages may have "11" and "12", which are F-keys only. `where` is "module:Class". A screen `within` another has no
    key and is listed under that screen's name. `scenario` is what it offers to start while it has nothing to show."""

    key: str
    name: str
    title: str
    where: str
    about: str
    within: str = ""
    scenario: str = ""

    @property
    def keys(self) -> str:
        """The names of its keys, as Textual has them: "3,f3"."""
        if self.key.isalpha():
            return self.key
        return f"f{self.key}" if len(self.key) > 1 else f"{self.key},f{'10' if self.key == '0' else self.key}"

    @property
    def label(self) -> str:
        """ "3 Train", or "F11 Toy" """
        return f"{'F' * (len(self.key) > 1)}{self.key} {self.title}"

    def load(self) -> type[Screen[None]]:
        module, _, name = self.where.partition(":")
        loaded: type[Screen[None]] = getattr(import_in_turn(module), name)
        return loaded

    def open(self) -> Screen[None]:
        return self.load()()


_OURS = "txlab.tui.screens."

SCREENS = [
    ScreenEntry("1", "lab", "Lab", _OURS + "lab.screen:LabScreen", "what can be run, and what has been"),
    ScreenEntry(
        "2", "tokens", "Tokens", _OURS + "tokens.screen:TokensScreen", "text as tokens, and how they are learnt"
    ),
    ScreenEntry(
        "3",
        "train",
        "Train",
        _OURS + "train.screen:TrainScreen",
        "curves, samples and controls of one run",
        scenario="gpt-tiny",
    ),
    ScreenEntry(
        "4",
        "attention",
        "Attention",
        _OURS + "attention.screen:AttentionScreen",
        "who looks at whom",
        scenario="gpt-copy",
    ),
    ScreenEntry(
        "5",
        "words",
        "Words",
        _OURS + "words.screen:WordsScreen",
        "word vectors, seen while they move",
        scenario="words-docs",
    ),
    ScreenEntry("6", "arena", "Arena", _OURS + "arena.screen:ArenaScreen", "learners of decisions in their worlds"),
    ScreenEntry(
        "7",
        "feedback",
        "Feedback",
        _OURS + "feedback.screen:FeedbackScreen",
        "people rank, a model follows",
        scenario="feedback-reviews",
    ),
    ScreenEntry(
        "8", "descent", "Descent", _OURS + "descent.screen:DescentScreen", "a function, and the methods that go down it"
    ),
    ScreenEntry(
        "9",
        "playground",
        "Playground",
        _OURS + "playground.screen:PlaygroundScreen",
        "a small network, every neuron a picture",
    ),
    ScreenEntry(
        "0",
        "recurrent",
        "Recurrent",
        _OURS + "recurrent.screen:RecurrentScreen",
        "units and their memory",
        scenario="vanishing-gradient",
    ),
    ScreenEntry(
        "M",
        "formulas",
        "Formulas",
        _OURS + "formulas.screen:FormulasScreen",
        "each formula with numbers that you may change",
    ),
    ScreenEntry(
        "", "machines", "Machines", _OURS + "machines.screen:MachinesScreen", "cards, processes and their runs", "lab"
    ),
    ScreenEntry(
        "",
        "convolution",
        "Convolution",
        _OURS + "convolution.screen:ConvolutionScreen",
        "a filter over a picture",
        "train",
        "conv-shapes",
    ),
    ScreenEntry(
        "",
        "figure",
        "Figure",
        _OURS + "figure.screen:FigureScreen",
        "what a run draws of itself",
        "train",
        "superposition",
    ),
    ScreenEntry(
        "",
        "play",
        "Board games",
        _OURS + "play.screen:PlayScreen",
        "games against a learner, a run, or another player",
        "arena",
    ),
]


def installed_screens() -> Iterator[ScreenEntry]:
    """Yield the screens of other packages. Raises LabError if an object is not a ScreenEntry, or its key or name is
    taken."""
    for point in plugins(ENTRY_POINTS).values():
        entry = load_plugin(point, ScreenEntry)
        taken = {each.key for each in SCREENS if each.key} | {each.name for each in SCREENS}
        if entry.key in taken or entry.name in taken:
            free = ", ".join(key for key in KEYS if key not in taken)
            raise LabError(f"the screen {entry.name!r} has a key or a name that is taken; free keys: {free}")
        yield entry


def screen_names() -> list[str]:
    """Return the names of all screens, those of other packages included."""
    return [*(entry.name for entry in SCREENS), *(entry.name for entry in installed_screens())]


def screen_of(run: Path) -> str:
    """Return the name of the screen that suits a run best."""
    from txlab.experiments.kind import kind_of_run
    from txlab.runs.directory import RunDirectory, RunInfo

    try:
        return kind_of_run(RunInfo.load(RunDirectory(run)).kind).screen
    except (LabError, OSError):
        return "train"
