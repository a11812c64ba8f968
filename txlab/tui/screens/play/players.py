"""The possible players at a board: humans, the players of the catalogue, learners, and the players of runs.

Runs are searched in a thread, and only where they are needed; a folder of a thousand runs takes a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from txlab.drawing.boards import sign_of
from txlab.drawing.text import visible
from txlab.engine.games.catalogue import GameEntry
from txlab.engine.games.game import Game
from txlab.engine.games.players import Player
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.folder import list_runs


@dataclass(frozen=True)
class Seat:
    """A player at the board: a human, one of the catalogue, a learner of this screen, or one from a run.

    key     stays the same while a player learns; its current state is used when it moves
    player  None for a human
    about   shown next to the title where players are chosen
    where   its address: "you", the name in the catalogue, RUN or RUN@STEP; "" = it has none
    family, age   the learner or the run of which it is a snapshot, and its age
    """

    key: str
    title: str
    about: str = ""
    player: Player | None = None
    where: str = ""
    family: str = ""
    age: int = 0

    @property
    def person(self) -> bool:
        return self.player is None


PERSON = Seat("you", "you", where="you")


def title_of(game: Game, seats: Mapping[int, Seat], side: int) -> str:
    """`perfect (O)`"""
    return f"{visible(seats[side].title)} ({sign_of(game, side)})"


def agents_of(entry: GameEntry) -> list[Seat]:
    """The built-in players of a game."""
    return [Seat(each.name, each.name, each.about, each.make_player(entry.game), each.name) for each in entry.players]


def seat_named(who: str, agents: Sequence[Seat], root: Path, missing: list[str]) -> Seat:
    """The seat of a saved game; the usual opponent if it no longer exists, in which case it is added to `missing`."""
    if who == PERSON.where:
        return PERSON
    agent = next((seat for seat in agents if seat.where == who), None)
    if agent is not None:
        return agent
    try:
        if ":" in who:  # on another machine, which is not contacted without a request
            raise LabError("not here")
        return seat_of_run(who, root)
    except LabError:
        missing.append(visible(who[:60]))
        return agents[0]


def usual_opponent(root: Path, entry: GameEntry, agents: Sequence[Seat], stop: Callable[[], bool]) -> Seat:
    """The initial opponent: the first of the catalogue; if none there has learnt the game, the player of the newest run
    that has one."""
    if agents[0].key != "random":
        return agents[0]
    for path, _ in runs_that_play(root, entry, stop):
        try:
            return seat_of_run(path.name, root)
        except LabError:  # it has not played yet
            continue
    return agents[0]


def runs_that_play(root: Path, entry: GameEntry, stop: Callable[[], bool]) -> Iterator[tuple[Path, RunInfo]]:
    """The runs of the kinds that play a game, newest first."""
    for path in list_runs(root):
        if stop():
            break
        try:
            info = RunInfo.load(RunDirectory(path))
        except (OSError, ValueError):
            continue
        if info.kind in entry.kinds and info.facts.get("game", entry.title) == entry.title:
            yield path, info


def seat_of_run(name: str, root: Path) -> Seat:
    """The player of a run, "RUN" or "RUN@STEP". LabError if it has none yet."""
    from txlab.runs.models import find_model

    return seat_at(*find_model(name, root))


def seat_at(path: Path, step: int | None) -> Seat:
    """The player of a run at a step, None = now. LabError if it has none yet."""
    from txlab.runs.models import player_of_run

    player = player_of_run(path, step)
    where = path.name if step is None else f"{path.name}@{step}"
    return Seat(f"run {path}@{step}", visible(f"run {where}"), player.name, player, where, f"run {path}")
