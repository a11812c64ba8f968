"""The games that can be named: ours, and those of other packages.

A game is an object GameEntry: `GAME` of a file here, or an entry point of the group "txlab.games" in another
distribution. Its rules are imported when they are needed. How its board is drawn is found by the same name in
txlab.drawing.boards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from txlab.errors import LabError, choices
from txlab.plugins import load_plugin, plugins

if TYPE_CHECKING:  # NumPy, for the sake of names and titles
    from txlab.engine.games.game import Game
    from txlab.engine.games.players import Player
    from txlab.engine.games.records.record import Form

GROUP = "txlab.games"
RECORDS = "txlab.engine.games.records"


@dataclass(frozen=True)
class NamedPlayer:
    """A player that needs no run: "perfect", "random"; `where` is "module:function", called with the game."""

    name: str
    about: str
    where: str

    def make_player(self, game: Game) -> Player:
        made: Player = import_object(self.where)(game)
        return made


@dataclass(frozen=True)
class GameEntry:
    """A game before its rules are imported.

    rules     the module that implements the protocol of game.py
    players   those that need no run, the usual opponent first
    kinds     the kinds of experiments whose runs have a player of it; the first is the kind of its catalogue scenario
    scenario  the scenario of the catalogue that learns it
    records   the module of the file format that other programs read and write
    anchors   those of `players` that a learner is measured against during training: they answer immediately
    """

    name: str
    title: str
    rules: str
    players: tuple[NamedPlayer, ...]
    kinds: tuple[str, ...] = ()
    scenario: str = ""
    records: str = f"{RECORDS}.moves"
    anchors: tuple[str, ...] = ("random",)

    @property
    def form(self) -> Form:
        form: Form = import_module(self.records)  # type: ignore[assignment]
        return form

    @property
    def game(self) -> Game:
        module: Game = import_module(self.rules)  # type: ignore[assignment]  # a module is the protocol's object
        return module

    def player(self, name: str) -> Player:
        """The player of that name. LabError with the nearest."""
        for each in self.players:
            if each.name == name:
                return each.make_player(self.game)
        known = [each.name for each in self.players]
        raise LabError(f"{name[:60]!r} is not a player of {self.title}{choices(name[:60], known)}")


FOUR = "txlab.engine.games.connect_four.players"
PLAYERS = "txlab.engine.games.players"
RANDOM = NamedPlayer("random", "any legal move", f"{PLAYERS}:RandomPlayer")

OURS = (
    GameEntry(
        "tictactoe",
        "Tic-tac-toe",
        "txlab.engine.games.tictactoe",
        (
            NamedPlayer("perfect", "never loses; evenly among the best moves", f"{PLAYERS}:perfect_player"),
            NamedPlayer("random", "any legal move", f"{PLAYERS}:random_player"),
        ),
        ("self-play",),
        "tictactoe",
        anchors=("random", "perfect"),
    ),
    GameEntry(
        "connect-four",
        "Connect Four",
        "txlab.engine.games.connect_four.rules",
        (
            NamedPlayer("perfect", "solves what it can in a second, searches before", f"{FOUR}:solver_player"),
            NamedPlayer("search", "tree search by random play, 200 visits a move", f"{FOUR}:rollout_player"),
            RANDOM,
        ),
        ("connect-four",),
        "connect-four",
    ),
    GameEntry(
        "backgammon",
        "Backgammon",
        "txlab.engine.games.backgammon.game",
        (RANDOM,),
        ("td-gammon",),
        "td-gammon",
        f"{RECORDS}.mat",
    ),
)


def import_object(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


@cache
def load_installed() -> dict[str, GameEntry]:
    return {point.name: load_plugin(point, GameEntry) for point in plugins(GROUP).values()}


def games() -> dict[str, GameEntry]:
    """All games by name: ours, then those of other packages under other names."""
    own = {each.name: each for each in OURS}
    return own | {name: each for name, each in load_installed().items() if name not in own}


def game_named(name: str) -> GameEntry:
    """The game of that name. LabError with the nearest."""
    entries = games()
    if name not in entries:
        raise LabError(f"GAME: {name[:60]!r} is not known{choices(name[:60], list(entries))}")
    return entries[name]


def of_kind(kind: str) -> Sequence[GameEntry]:
    """The games whose players runs of that kind have."""
    return [each for each in games().values() if kind in each.kinds]
