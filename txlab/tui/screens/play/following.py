"""A run at the board, followed while it learns, in this process or another, or read from disk after it has ended.

Notable: it is only read, in a thread, no more often than its screen's `LookBudget` allows, and while the screen is in
front. The newest player replaces the old one once it has evaluated the position on the board, so the values there move
without a gap. Snapshots that become rungs are kept here, because a run removes old checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from txlab.engine.games.game import Position
from txlab.engine.games.ladder import further_rungs
from txlab.engine.games.players import Player
from txlab.errors import LabError
from txlab.runs.directory import ALIVE
from txlab.runs.models import kind_that_plays, player_of_run, scenario_of, steps_that_play
from txlab.tui.latest_task import LatestTask
from txlab.tui.panel import Panel
from txlab.tui.run_watch import LookBudget
from txlab.tui.screens.play.advice import Judged
from txlab.tui.screens.play.players import Seat, seat_at

if TYPE_CHECKING:
    from txlab.experiments.kind import Kind, Strength
    from txlab.runs.reader import RunReader

LOOKS = 1.0  # least seconds between two reads of a run
LOADING = 0.25  # seconds after which a read stops loading snapshots, and shows those loaded


@dataclass(frozen=True, eq=False)
class Progress:
    """The result of reading a run.

    unit     the unit of its ages: "games", or "steps" where the games of a step are not known
    about    the title of `curve`, (4, n): ages, values, and both ends of the intervals; "" = nothing is recorded
    rungs    new snapshots for the ladder, as (age, player)
    newest   its current player, if new, and that player's evaluation of the requested position
    rewound  whether it went back, so that its ladder restarts
    """

    path: Path
    learning: bool
    age: int
    most: int
    unit: str
    about: str
    curve: np.ndarray
    rungs: list[tuple[int, Player]]
    newest: tuple[Seat, Position, Judged | None] | None
    rewound: bool = False


@dataclass
class Known:
    """The parts of a run read since it is followed.

    rungs     the ages of the snapshots passed on
    shown     the step of the newest player passed on
    version   of the last data read
    all_read  whether no snapshot was left over
    """

    rungs: list[int] = field(default_factory=list)
    shown: int = -1
    version: object = None
    all_read: bool = True


class RunFollower:
    """Reads one run at a time, and passes its progress to `arrived`; `position` returns the one on the board."""

    def __init__(self, panel: Panel, arrived: Callable[[Progress], None], position: Callable[[], Position]) -> None:
        self.panel, self.arrived, self.position = panel, arrived, position
        self.path: Path | None = None
        self.learning = False
        self.complaint = ""
        self.budget = LookBudget()
        self.reading = LatestTask(panel, "following", self.show_failure)

    def follow(self, path: Path | None) -> None:
        """Follow another run from now on, from its first snapshot; None = none."""
        self.reading.forget()
        self.path, self.learning, self.complaint = path, False, ""
        self.known = Known()
        self.look(now=True)

    def look(self, now: bool = False) -> None:
        """Read if there is more; with `now`, even if the last read was a moment ago."""
        path = self.path
        if path is None or not self.reading.idle or not (now or self.budget.may_look()):
            return
        self.budget.note_read()
        position, known = self.position(), self.known
        reader_for: Callable[[Path], RunReader] = self.panel.app.reader_for  # type: ignore[attr-defined]
        self.reading.want(lambda lane: self.read(path, known, reader_for(path), position, lane), self.took)

    def took(self, progress: Progress | None) -> None:
        if progress is not None and progress.path == self.path:
            self.learning = progress.learning
            self.arrived(progress)

    def show_failure(self, sentence: str) -> None:
        if sentence != self.complaint:
            self.complaint = sentence
            self.panel.tell(sentence, "warning")

    # In the thread.

    def read(
        self, path: Path, known: Known, reader: RunReader, position: Position, lane: LatestTask
    ) -> Progress | None:
        """Return what is new; None if nothing is. LabError if the run is gone or cannot be read."""
        try:
            return self.read_on(path, known, reader, position, lane)
        except (OSError, ValueError) as error:
            raise LabError(f"{path.name} is not followed any more: {error}") from error

    def read_on(
        self, path: Path, known: Known, reader: RunReader, position: Position, lane: LatestTask
    ) -> Progress | None:
        reader.poll()
        version = (reader.version, reader.state.status)
        if version == known.version and known.all_read:
            return None
        kind = kind_that_plays(path)
        scenario, facts = scenario_of(reader.directory), reader.info.facts
        strength = kind.strength(scenario, facts)
        learning = reader.state.status in ALIVE
        steps = steps_that_play(path)
        ages = dict(zip((age_of(reader, strength, step) for step in steps), steps, strict=True))
        rewound = bool(known.rungs and steps) and max(ages) < known.rungs[-1]
        if rewound:
            known.rungs, known.shown = [], -1
        wanted = further_rungs(sorted(ages), known.rungs, ended=not learning)
        rungs = self.players(path, kind, ages, wanted, lane)
        newest = self.newest(path, known, steps, position)
        known.version, known.all_read = version, len(wanted) == len(rungs)
        known.rungs += [age for age, _ in rungs]
        return Progress(
            path,
            learning,
            age_of(reader, strength, reader.state.step),
            strength.most if strength is not None else reader.info.steps,
            "games" if strength is not None else "steps",
            "" if strength is None else strength.about,
            np.zeros((4, 0)) if strength is None else curve_of(reader, strength),
            rungs,
            newest,
            rewound,
        )

    def players(
        self, path: Path, kind: Kind, ages: dict[int, int], wanted: list[int], lane: LatestTask
    ) -> list[tuple[int, Player]]:
        """The snapshots of these ages, as far as there is time."""
        begun, players = time.monotonic(), []
        for age in wanted:
            if lane.late or time.monotonic() > begun + LOADING:
                break
            players.append((age, player_of_run(path, ages[age], kind.looks_quickly)))
        return players

    def newest(
        self, path: Path, known: Known, steps: tuple[int, ...], position: Position
    ) -> tuple[Seat, Position, Judged | None] | None:
        if not steps or steps[-1] <= known.shown:
            return None
        seat = seat_at(path, None)
        assert seat.player is not None
        game = seat.player.game
        judged = Judged.by(seat.player, position) if game.legal(position) else None
        known.shown = steps[-1]
        return seat, position, judged


def age_of(reader: RunReader, strength: Strength | None, step: int) -> int:
    """The games that a run had played at a step; its steps where that is not known."""
    if strength is None:
        return step
    if isinstance(strength.games, int):
        return min(step * strength.games, strength.most or step * strength.games)
    counted = reader.series(strength.games)
    place = int(np.searchsorted(counted.steps, step, side="right")) - 1
    return int(counted.values[place]) if place >= 0 else 0


def curve_of(reader: RunReader, strength: Strength) -> np.ndarray:
    """(4, n): ages, values and both ends of the intervals, where all metrics of the strength were recorded."""
    series = [reader.series(name) for name in strength.metrics]
    steps = series[0].steps
    for each in series[1:]:
        steps = np.intersect1d(steps, each.steps)
    columns = [each.values[np.searchsorted(each.steps, steps)] for each in series]
    points: list[Any] = []
    for step, *values in zip(steps.tolist(), *columns, strict=True):
        if np.isfinite(values).all():
            points.append((age_of(reader, strength, step), *strength.of(*map(float, values))))
    return np.array(points, dtype=np.float64).reshape(-1, 4).T
