"""Players by name: "perfect", "td", a run's player, or the player of a snapshot RUN@STEP."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.engine.games.catalogue import GameEntry
    from txlab.engine.games.players import Player

LEARNS = "td"
LEARNT = 100_000  # games of `td`: as in the figures of `txlab verify`, about a second


def learns_at_once(entry: GameEntry) -> bool:
    """Whether "td" can play this game: a table of all its positions is learnt in a second."""
    return "self-play" in entry.kinds


def names_of(entry: GameEntry) -> list[str]:
    """The built-in players."""
    return [*(each.name for each in entry.players), *([LEARNS] if learns_at_once(entry) else [])]


@dataclass(frozen=True)
class Ahead:
    """The search depth of a run's player: 2 "plies", 400 "visits"."""

    unit: str
    far: int

    def __str__(self) -> str:
        return f"{self.far} {self.unit}" if self.far != 1 else f"1 {'ply' if self.unit == 'plies' else 'visit'}"

    def require(self, name: str) -> None:
        """LabError if the run of that name cannot look ahead that far, or not by that unit; None without one."""
        kind = kind_of(name)
        if kind is None:
            return
        from txlab.experiments.kind import kind_named

        unit, most = kind_named(kind).looks_ahead
        if not unit:
            raise LabError(f"--{self.unit}: {name} does not look ahead")
        if unit != self.unit:
            raise LabError(f"--{self.unit}: {name} looks ahead by {unit}; give --{unit}")
        if not 1 <= self.far <= most:
            raise LabError(f"--{unit}: {self.far} is not allowed; allowed: 1 to {most}")


def ahead_of(plies: int | None, visits: int | None) -> Ahead | None:
    """The value of `--plies` or `--visits`. LabError for both."""
    if plies is not None and visits is not None:
        raise LabError("--plies is for backgammon, --visits for Connect Four; give one of them")
    return Ahead("plies", plies) if plies is not None else Ahead("visits", visits) if visits is not None else None


def each_ahead(plies: str | None, visits: str | None, entry: GameEntry, names: Sequence[str]) -> list[Ahead | None]:
    """The same for several players: one number for all runs among them, or one for each, as in "1,2"."""
    given = {unit: text for unit, text in (("plies", plies), ("visits", visits)) if text is not None}
    if not given:
        return [None] * len(names)
    numbers = {}
    for unit, text in given.items():
        parts = text.split(",")
        if len(parts) not in (1, len(names)) or not all(part.strip().isdecimal() and len(part) < 10 for part in parts):
            raise LabError(f"--{unit}: {text[:40]!r} is not allowed; give a number, or as in 1,2 one for each player")
        numbers[unit] = [int(part) for part in parts]
    ahead_of(*(numbers[unit][0] if unit in numbers else None for unit in ("plies", "visits")))
    ((unit, plies_each),) = numbers.items()
    if len(plies_each) > 1:
        return [Ahead(unit, far) for far in plies_each]
    runs = [name not in names_of(entry) for name in names]
    if not any(runs):
        raise LabError(f"--{unit} is for runs; {names[0]} and {names[1]} are not runs")
    return [Ahead(unit, plies_each[0]) if run else None for run in runs]


def player_named(
    entry: GameEntry, name: str, option: str, games: int = LEARNT, seed: int = 0, ahead: Ahead | None = None
) -> Player:
    """The player of that name. LabError, beginning with `option`, with the nearest name.

    games, seed   of a player that learns first
    """
    if ahead is not None and name in names_of(entry):
        raise LabError(f"--{ahead.unit} is for runs; {name} is not a run")
    if name == LEARNS and learns_at_once(entry):
        from txlab.engine.games.graph import compile_graph
        from txlab.engine.games.learner import SelfPlaySettings, make_learner

        learner = make_learner(compile_graph(entry.game), SelfPlaySettings(), seed)  # type: ignore[arg-type]
        learner.run(games)
        return learner.player()
    if name in names_of(entry):
        return entry.player(name)
    from txlab.runs import models

    if ahead is not None:
        ahead.require(name)
    try:
        player = models.player_named(name, looking=None if ahead is None else ahead.far)
    except LabError as error:
        known = names_of(entry)
        if close := nearest(name, known):
            sentence = f"{option}: {name!r} is not known{close}; allowed: {', '.join(known)}, or a run"
            raise LabError(sentence) from None
        raise LabError(f"{option}: {error}; or one of {', '.join(known)}") from None
    if entry.name != player.game.NAME:
        raise LabError(f"{option}: {name} plays {player.game.TITLE}, not {entry.title}")
    return player


def display_name(entry: GameEntry, player: Player, name: str, ahead: Ahead | None = None) -> str:
    """The display name of a player: a run by the given name, "td-gammon, 2 plies", others by their own, "perfect from
    move 15"."""
    if name in names_of(entry):
        return player.name
    return name if ahead is None else f"{name}, {ahead}"


def kind_of(name: str) -> str | None:
    """The kind of the run of that name; None if there is no such run."""
    from txlab.runs.directory import RunInfo
    from txlab.runs.models import find_model

    try:
        return RunInfo.load(find_model(name, None)[0]).kind
    except LabError:
        return None


def newest_run_of(entry: GameEntry) -> str | None:
    """The directory name of the newest run that plays this game and has a trained player."""
    from txlab.runs.directory import RunInfo
    from txlab.runs.folder import list_runs
    from txlab.runs.models import player_of_run

    for path in list_runs():
        with suppress(LabError):
            if RunInfo.load(path).kind in entry.kinds:
                player_of_run(path)
                return path.name
    return None


def usual_player(entry: GameEntry) -> str:
    """The name of the default opponent: the perfect player of the game, its newest run, a random one."""
    first = entry.players[0].name
    return first if first != "random" else newest_run_of(entry) or first


def game_for(game: str | None, names: list[str]) -> GameEntry:
    """The given game, or the one that all of these players can play. LabError if there is not exactly one."""
    from txlab.engine.games.catalogue import game_named, games

    if game is not None:
        return game_named(game)
    possible = list(games().values())
    for name in names:
        fitting = [each for each in possible if name in names_of(each)]
        if not fitting and (kind := kind_of(name)) is not None:
            fitting = [each for each in possible if kind in each.kinds]
        possible = fitting or possible  # unknown names are reported by `player_named`
    if len(possible) == 1:
        return possible[0]
    raise LabError(f"which game? give --game with one of {', '.join(each.name for each in possible)}")
