"""The players that commands are given by name: "perfect", "td", a run's player, that of a snapshot RUN@STEP."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from txlab.errors import LabError, nearest

if TYPE_CHECKING:
    from txlab.engine.games.catalogue import GameEntry
    from txlab.engine.games.players import Player

LEARNS = "td"
LEARNT = 100_000  # games of `td`: as many as in the figures of `txlab verify`, about a second


def learns_at_once(entry: GameEntry) -> bool:
    """Whether "td" is a player of this game: a table of all its positions learns in a second."""
    return "self-play" in entry.kinds


def names_of(entry: GameEntry) -> list[str]:
    """The players that need no run."""
    return [*(each.name for each in entry.players), *([LEARNS] if learns_at_once(entry) else [])]


def player_named(entry: GameEntry, name: str, option: str, games: int = LEARNT, seed: int = 0) -> Player:
    """The player of that name. LabError, which begins with `option`, with the nearest of the names.

    games, seed   of what learns first
    """
    if name == LEARNS and learns_at_once(entry):
        from txlab.engine.games.graph import compiled
        from txlab.engine.games.learner import SelfPlaySettings, make_learner

        learner = make_learner(compiled(entry.game), SelfPlaySettings(), seed)  # type: ignore[arg-type]
        learner.run(games)
        return learner.player()
    if name in names_of(entry):
        return entry.player(name)
    from txlab.runs import models

    try:
        player = models.player_named(name)
    except LabError as error:
        known = names_of(entry)
        if close := nearest(name, known):
            sentence = f"{option}: {name!r} is not known{close}; allowed: {', '.join(known)}, or a run"
            raise LabError(sentence) from None
        raise LabError(f"{option}: {error}; or one of {', '.join(known)}") from None
    if entry.name != player.game.NAME:
        raise LabError(f"{option}: {name} plays {player.game.TITLE}, not {entry.title}")
    return player


def shown_name(entry: GameEntry, player: Player, name: str) -> str:
    """What a player is called: a run as it was named, others as they call themselves, "perfect from move 15"."""
    return player.name if name in names_of(entry) else name


def kind_of(name: str) -> str | None:
    """The kind of the run of that name; None if there is no such run."""
    from txlab.runs.directory import RunInfo
    from txlab.runs.models import find_model

    try:
        return RunInfo.load(find_model(name, None)[0]).kind
    except LabError:
        return None


def newest_run_of(entry: GameEntry) -> str | None:
    """The name of the directory of the newest run that plays this game, and has learnt something to play."""
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
    """The name of the opponent of those who name none: the perfect player of the game, its newest run, a random one."""
    first = entry.players[0].name
    return first if first != "random" else newest_run_of(entry) or first


def game_for(game: str | None, names: list[str]) -> GameEntry:
    """The game that was named, or that which all of these players can play. LabError if there is not exactly one."""
    from txlab.engine.games.catalogue import game_named, games

    if game is not None:
        return game_named(game)
    possible = list(games().values())
    for name in names:
        fitting = [each for each in possible if name in names_of(each)]
        if not fitting and (kind := kind_of(name)) is not None:
            fitting = [each for each in possible if kind in each.kinds]
        possible = fitting or possible  # of a name that is not known, `player_named` says so
    if len(possible) == 1:
        return possible[0]
    raise LabError(f"which game? give --game with one of {', '.join(each.name for each in possible)}")
