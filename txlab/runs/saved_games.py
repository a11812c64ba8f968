"""Unfinished games, one file each, so that no game is lost when a console dies.

    {"format": 1, "game": "backgammon", "seed": 7, "seats": {"1": "you", "-1": "random"}, "moves": ["8/5 6/5"], …}

A file is written whole after each move, removed when the game ends, and named after the process that plays it. A game
whose process is gone may be continued by any other, which takes the file over by renaming it: if two try, one succeeds.
Files are checked when read: their size, their form, and every move by the rules.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from platformdirs import user_state_path

from txlab.engine.games.catalogue import game_named
from txlab.engine.games.playing import Playing
from txlab.errors import LabError, one_line
from txlab.files import atomic_write, read_regular

FORMAT = 1
LARGEST = 256 * 1024
MOST_MOVES, LONGEST_NAME = 5_000, 300
ELSEWHERE = 86_400.0  # seconds without a move after which another machine's game counts as abandoned
KEPT = 20
"""Games that are kept; the oldest beyond that are removed."""
NAME = re.compile(r"(\d{1,10})-([0-9a-f]{8})\.json", re.ASCII)  # process, a random number


def games_folder() -> Path:
    return user_state_path("txlab", appauthor=False) / "games"


@dataclass(frozen=True)
class SavedGame:
    """seats   side → its player: "you", a named player, or RUN@STEP
    time    of the last move, Unix seconds
    """

    game: str
    seed: int
    seats: Mapping[str, str]
    moves: tuple[str, ...]
    time: float
    host: str = ""
    format: int = FORMAT

    def playing(self) -> Playing:
        """The game, replayed. LabError if it is not known or a move is not legal."""
        return Playing.replay_moves(game_named(self.game).game, self.seed, self.moves)


class GameFile:
    """The file of this console's game; it exists between `write` and `remove`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = games_folder() if folder is None else folder
        self.name = f"{os.getpid()}-{secrets.token_hex(4)}.json"

    def write(self, playing: Playing, seats: Mapping[int, str]) -> None:
        """OSError if that is not possible."""
        saved = SavedGame(
            playing.game.NAME, playing.seed, {str(side): who for side, who in seats.items()}, tuple(playing.names()),
            time.time(), socket.gethostname(),
        )  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        atomic_write(self.folder / self.name, orjson.dumps(asdict(saved)))

    def remove(self) -> None:
        with suppress(OSError):
            (self.folder / self.name).unlink(missing_ok=True)

    def take_over(self, path: Path) -> bool:
        """Take over that file; False if another process was quicker, or it is gone."""
        try:
            path.rename(self.folder / self.name)
        except OSError:
            return False
        return True


def left_behind(folder: Path | None = None) -> Iterator[tuple[Path, SavedGame]]:
    """The games whose process is gone, newest first; unreadable ones are skipped, the oldest removed."""
    folder = games_folder() if folder is None else folder
    games: list[tuple[float, Path]] = []
    with suppress(OSError):
        for path in folder.iterdir():
            named = NAME.fullmatch(path.name)
            if named:
                with suppress(OSError):
                    when = path.lstat().st_mtime
                    if not plays_on(int(named[1]), when):
                        games.append((when, path))
    games.sort(reverse=True)
    for _, path in games[KEPT:]:
        with suppress(OSError):
            path.unlink()
    for when, path in games[:KEPT]:
        with suppress(LabError):
            saved = read_saved(path)
            if saved.host == socket.gethostname() or time.time() - when > ELSEWHERE:
                yield path, saved


def plays_on(process: int, written: float) -> bool:
    """Whether the process that wrote a file is still running, and not another one that reuses its pid."""
    import psutil

    try:
        return bool(psutil.Process(process).create_time() <= written + 1)
    except (psutil.NoSuchProcess, OverflowError):
        return False
    except psutil.Error:
        return True


def read_saved(path: Path) -> SavedGame:
    """A game from its file. LabError in one sentence if it is not one."""
    try:
        value = orjson.loads(read_regular(path, LARGEST, follow=False))
    except OSError as error:
        raise LabError(f"{path.name}: cannot be read: {one_line(error)}") from error
    except orjson.JSONDecodeError as error:
        raise LabError(f"{path.name}: not JSON: {one_line(error)}") from error
    return check_game(value, path.name)


def check_game(value: Any, where: str) -> SavedGame:
    """The game in this JSON value. LabError that names the invalid entry."""

    def require(key: str, fits: bool) -> None:
        if not fits:
            raise LabError(f"{where}: {key} is not that of a saved game")

    require("the file", isinstance(value, dict))
    require("format", value.get("format") == FORMAT)
    name, seed, seats, moves = (value.get(key) for key in ("game", "seed", "seats", "moves"))
    require("game", isinstance(name, str))
    require("seed", type(seed) is int and 0 <= seed < 2**63)
    require("seats", isinstance(seats, dict) and set(seats) == {"1", "-1"})
    require("seats", all(isinstance(who, str) and 0 < len(who) <= LONGEST_NAME for who in seats.values()))
    require("moves", isinstance(moves, list) and len(moves) <= MOST_MOVES)
    require("moves", all(isinstance(move, str) and len(move) <= LONGEST_NAME for move in moves))
    when, host = value.get("time"), value.get("host", "")
    require("time", isinstance(when, (int, float)) and 0 <= when < 1e11)
    require("host", isinstance(host, str))
    return SavedGame(name, seed, seats, tuple(moves), float(when), host[:LONGEST_NAME])
