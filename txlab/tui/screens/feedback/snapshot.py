"""The data of the Feedback screen for a run, gathered in a worker thread into one frozen snapshot.

Notable: any program may record frames and facts, so they are checked; parts that do not have the form of a feedback run
are left out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from txlab.engine.rlhf.preferences import Question, Ranking
from txlab.errors import LabError
from txlab.experiments.protocol import Frame
from txlab.runs.control import asker
from txlab.runs.directory import RunDirectory
from txlab.runs.live_rows import Series
from txlab.runs.preferences import Answers, RankedMeanwhile, human_ranks, shown_order
from txlab.runs.reader import RunReader
from txlab.runs.summary import handle_in

SWEPT = "/β="  # in the name of a metric of one policy of several


@dataclass(frozen=True)
class Stage:
    """A stage of the run: its steps are first + 1 … last."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class Asked:
    """The question to a rater.

    question  the next one for this rater, or None       order  of its answers, as shown to this rater
    rankings  on disk that were not undone, in order    mine   whether this rater has a line to take back
    version   how many lines this rater had written when this was read
    ranked    question → its rater
    refused   why the previous ranking was not kept, "" = it was
    """

    question: Question | None = None
    order: tuple[int, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    mine: bool = False
    version: int = 0
    ranked: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""

    @property
    def given(self) -> int:
        return len(self.rankings)


@dataclass(frozen=True)
class Snapshot:
    """All data of the screen, from one read.

    at      the selected step                          edge    the newest step of the run
    wanted  rankings that the run uses, 0 = unknown    human   whether people rank (else the simulated labeller)
    series  metrics by name, up to `at`
    judged  the frame with the last ranking that the reward model had learnt from at `at`: `frame`, or an earlier one
    """

    path: Path
    called: str
    status: str
    at: int
    edge: int
    steps: int
    stages: tuple[Stage, ...]
    frames: np.ndarray[Any, Any]
    frame: Frame | None
    judged: Frame | None
    human: bool
    wanted: int
    asked: Asked
    series: Mapping[str, Series] = field(default_factory=dict)
    scenario: Mapping[str, Any] = field(default_factory=dict)
    trouble: str = ""
    omission: str = ""  # omitted rows of the log

    @property
    def stage(self) -> str:
        """The name of the selected stage, without its β: "rankings"; "" if unknown."""
        return self.stages[self.place].name.partition(" ")[0] if self.stages else ""

    @property
    def place(self) -> int:
        """The index of the selected stage."""
        return next((i for i, stage in enumerate(self.stages) if self.at < stage.last), len(self.stages) - 1)

    @property
    def taking(self) -> bool:
        """Whether the run uses rankings now; afterwards the reward model settles on all of them."""
        stage = next((stage for stage in self.stages if stage.name == "rankings"), None)
        return stage is not None and stage.first <= self.edge < stage.first + self.wanted

    @property
    def ranked(self) -> int:
        """The rankings given so far; at an earlier step those that the reward model had learnt from by then."""
        learnt = max(0, self.at - self.stages[self.place].first) if self.stages else 0
        here = self.human and self.taking and self.at == self.edge
        return min(max(learnt, self.asked.given), self.wanted) if here else learnt

    @property
    def betas(self) -> list[str]:
        """The suffix of each policy's metrics: "" or "/β=0.05", …"""
        suffixes = [
            name.removeprefix(score) for name in self.series for score in ("proxy", "gold") if name.startswith(score)
        ]
        return [each for each in dict.fromkeys(suffixes) if not each or each.startswith(SWEPT)]

    @property
    def mark(self) -> str:
        """The suffix of the selected policy's metrics."""
        name = self.stages[self.place].name if self.stages else ""
        return next((each for each in self.betas if each and name.endswith(each[1:])), "")

    @property
    def ranking(self) -> Ranking | None:
        """The ranking that the reward model learnt from last, at the selected step."""
        row = self.judged.facts.get("ranking") if self.judged else None
        try:
            return Ranking.of_row(row) if isinstance(row, dict) else None
        except LabError:
            return None

    def scores_of(self, question: Question) -> tuple[float, ...] | None:
        """The reward model's scores (K,) of the answers to an open question; None if the frame lacks them."""
        names = self.frame.facts.get("open") if self.frame else None
        scores = self.frame.tensors.get("open/scores") if self.frame else None
        if not isinstance(names, list) or question.id not in names or scores is None:
            return None
        if scores.shape != (len(names), len(question.answers)) or not np.isfinite(scores).all():
            return None
        return tuple(float(score) for score in scores[names.index(question.id)])

    def latest(self, name: str) -> float | None:
        series = self.series.get(name)
        return float(series.values[-1]) if series is not None and len(series) else None


class RunFeedback:
    """Reads one run repeatedly, and writes this rater's lines; all methods are for worker threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers = Answers(RunDirectory(path))
        self.by = asker()
        self.lock = threading.Lock()
        self.version = 0
        self.wanted = 0  # rankings that the run uses, 0 = unknown
        self.judged: tuple[int, Frame | None] = (-1, None)  # the last frame of the rankings that was read, and its step

    # This rater's lines; on disk when these return.

    def rank(self, question: Question, ranks: Sequence[int]) -> Asked:
        """Store a ranking, a rank for each answer in the question's own order; returns the next state."""
        try:
            return self.write(lambda: self.answers.rank(question, ranks, self.by))
        except RankedMeanwhile as error:
            return replace(self.write(lambda: None), refused=str(error))

    def skip(self, question: Question) -> Asked:
        return self.write(lambda: self.answers.skip(question, self.by))

    def undo(self) -> Asked:
        """Take back this rater's last line."""
        return self.write(lambda: self.answers.undo(self.by))

    def write(self, line: Callable[[], object]) -> Asked:
        with self.lock:
            line()
            self.version += 1
            return self.read_asked()

    def read_asked(self) -> Asked:
        self.answers.refresh()
        enough = 0 < self.wanted <= len(self.answers.rankings)
        question = None if enough else next(iter(self.answers.open_for(self.by)), None)
        order = tuple(shown_order(question, self.by)) if question else ()
        mine = self.answers.last_of(self.by) is not None
        rankings = self.answers.rankings
        ranked = {each.question: each.by for each in rankings}
        return Asked(question, order, tuple(rankings), mine, self.version, ranked)

    # The run.

    def read(self, reader: RunReader, at: int | None) -> Snapshot:
        """The run at a step; None = the newest."""
        info, state, path = reader.info, reader.state, reader.directory.path
        stages = stages_of(info.facts.get("stages"))
        rankings = next((stage for stage in stages if stage.name == "rankings"), None)
        section = reader.scenario.get("rankings")
        wanted = section.get("steps") if isinstance(section, dict) else None
        wanted = wanted if isinstance(wanted, int) else rankings.last - rankings.first if rankings else 0
        with self.lock:
            self.wanted = wanted
            asked = self.read_asked()
        frames = reader.frames.steps
        frame, trouble = None, reader.problem
        if len(frames):
            index = len(frames) - 1 if at is None else int(np.searchsorted(frames, at, "right")) - 1
            try:
                frame = reader.frames.read(int(frames[max(0, index)]))
            except LabError as error:
                trouble = str(error)
        edge = max(state.step, int(frames[-1]) if len(frames) else 0)  # the heartbeat lags
        step = edge if at is None else at
        if rankings is not None and edge >= rankings.first + wanted:  # the run uses no more
            asked = replace(asked, question=None, mine=False)
        return Snapshot(
            path=path,
            called=handle_in(path, info),
            status=state.status,
            at=step,
            edge=edge,
            steps=state.steps,
            stages=stages,
            frames=frames,
            frame=frame,
            judged=self.judged_frame(reader, frame, rankings),
            human=human_ranks(reader),
            wanted=wanted,
            asked=asked,
            series={name: cut(reader.series(name), at) for name in reader.names("metrics")},
            scenario=reader.scenario,
            trouble=trouble,
            omission=reader.omission,
        )

    def judged_frame(self, reader: RunReader, frame: Frame | None, rankings: Stage | None) -> Frame | None:
        """The frame itself if it has a ranking, else the last frame of the rankings before it."""
        if frame is None or rankings is None or isinstance(frame.facts.get("ranking"), dict):
            return frame
        steps = reader.frames.steps
        steps = steps[(steps > rankings.first) & (steps <= min(frame.step, rankings.first + self.wanted))]
        if not len(steps):
            return frame
        if self.judged[0] != steps[-1]:
            try:
                self.judged = int(steps[-1]), reader.frames.read(int(steps[-1]))
            except LabError:  # it may be there at the next reading
                return frame
        return self.judged[1]


def cut(series: Series, at: int | None) -> Series:
    """The series up to a step; None = all of it."""
    if at is None:
        return series
    end = int(np.searchsorted(series.steps, at, "right"))
    return Series(series.name, series.steps[:end], series.values[:end], series.times[:end])


def stages_of(rows: object) -> tuple[Stage, ...]:
    """The stages in run.json, [name, first step, last step] each; () for anything else."""
    stages: list[Stage] = []
    for row in rows if isinstance(rows, list) else ():
        match row:
            case [str(name), int(first), int(last)] if 0 <= first <= last:
                stages.append(Stage(name, first, last))
            case _:
                return ()
    return tuple(stages)


def numbers(facts: Mapping[str, Any], *names: str) -> Sequence[float]:
    """The list of numbers at facts[name][name]…; () for anything else."""
    value: Any = facts
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    real = isinstance(value, list) and all(isinstance(each, (int, float)) for each in value)
    return tuple(float(each) for each in value) if real else ()
