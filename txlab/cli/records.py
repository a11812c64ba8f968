"""Reads and writes files of games."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from txlab.errors import LabError, convert_os_errors

if TYPE_CHECKING:
    from txlab.engine.games.catalogue import GameEntry
    from txlab.engine.games.records.record import PlayedGame, Record


def require_folder(path: Path) -> None:
    """LabError if a file could not be written there, to be checked before a long match."""
    if "\0" in str(path):
        raise LabError("--record: a path cannot contain a NUL")
    with convert_os_errors(f"{path} cannot be written"):
        parent, there = path.absolute().parent.is_dir(), path.is_dir()
    if not parent:
        raise LabError(f"{path} cannot be written: there is no folder {path.parent}")
    if there:
        raise LabError(f"{path} cannot be written: it is a folder")


def write_record(entry: GameEntry, games: Sequence[PlayedGame], path: Path) -> None:
    """Write games in the standard format. LabError if the file cannot be written."""
    from txlab.engine.games.records.record import Record
    from txlab.files import atomic_write

    text = entry.form.write(entry.game, Record(tuple(games)))
    with convert_os_errors(f"{path} cannot be written"):
        atomic_write(path, text.encode())


def read_record(path: Path, game: str | None) -> tuple[GameEntry, Record]:
    """The games of a file, of the given game or the one that the file names or allows. LabError naming the line."""
    from txlab.engine.games.catalogue import game_named, games
    from txlab.engine.games.records.record import read_text

    text = read_text(path)
    known = [game_named(game)] if game is not None else list(games().values())
    if recognising := [each for each in known if each.form.recognises(each.game, text)]:
        known = recognising
    records, errors = [], []
    for entry in known:
        try:
            records.append((entry, entry.form.read(entry.game, text)))
        except LabError as error:
            errors.append(error)
    if len(records) == 1:
        return records[0]
    if len(known) == 1:
        raise LabError(f"{path}: {errors[0]}")
    names = [entry.name for entry, _ in records] or [entry.name for entry in known]
    what = "it fits several games" if records else f"it fits no known game ({errors[0]})"
    raise LabError(f"{path}: {what}; give --game with one of {', '.join(names)}")
