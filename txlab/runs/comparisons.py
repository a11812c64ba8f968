"""comparisons.jsonl of a run: two models compared blindly by any number of people (MATH H6)."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from txlab.engine.rlhf.comparisons import Comparison, Line, comparison_line, standing
from txlab.engine.rlhf.preferences import Undo
from txlab.engine.rlhf.ratings import Verdict, verdict
from txlab.errors import LabError
from txlab.experiments.tokenizer_store import fingerprint
from txlab.runs.directory import RunDirectory, info_of
from txlab.runs.models import load_checkpoint, open_model, scenario_of
from txlab.runs.preferences import SharedLines, append, new_id

if TYPE_CHECKING:
    from txlab.experiments.kinds.human_feedback.contest import Contest, Pair

COMPARISONS = "comparisons.jsonl"


class Comparing:
    """One rater who compares two models.

    names   (a, b): the run's model as fine-tuned, or another model; and the run's model as it is now
    """

    def __init__(self, path: Path, by: str, other: str = "", root: Path | None = None) -> None:
        """other  the name of another model, as in `open_model`; "" = the run's own before it followed the rankings

        LabError if there is no such model, it reads other tokens, or the run has none to compare it with.
        """
        self.run, self.by = RunDirectory(path), by
        if info_of(self.run).kind != "human-feedback":
            raise LabError(f"{self.run.name} is not a run of human feedback; only those can be compared")
        self.contest = self._contest(other, root)
        self.names = self.contest.names
        self._lines: SharedLines[Line] = SharedLines(self.run, COMPARISONS, comparison_line)
        self._lines.refresh()

    def _contest(self, other: str, root: Path | None) -> Contest:
        from txlab.experiments.kinds.human_feedback.contest import Contest, model_of
        from txlab.experiments.kinds.human_feedback.materials import Texts

        step, state, _ = load_checkpoint(self.run)
        scenario: Any = scenario_of(self.run)
        texts = Texts(scenario)
        now = model_of(scenario, texts, state["model"])
        named = f"{self.run.name}@{step}"
        if other:
            opened = open_model(other, root)
            if opened.kind != "gpt" or fingerprint(opened.tokenizer) != fingerprint(texts.tokenizer):
                raise LabError(f"{opened.title} reads other tokens than {self.run.name}, so they cannot be compared")
            if opened.title == named:
                raise LabError(f"{named} would be compared with itself")
            return Contest(texts, {opened.title: opened.model, named: now})  # type: ignore[dict-item]
        before = model_of(scenario, texts, state["fine_tuned"])
        return Contest(texts, {f"{named}, as fine-tuned": before, named: now})

    @property
    def comparisons(self) -> list[Comparison]:
        """The comparisons that were not undone, of all raters and models."""
        return standing(self._lines.lines)

    def verdict(self) -> Verdict:
        """b, the model as it is now, against a."""
        self._lines.refresh()
        return verdict(self.comparisons, self.names[1], self.names[0])

    def next(self) -> Pair:
        """The first pair that this rater has not judged. LabError if both models write the same."""
        from txlab.experiments.kinds.human_feedback.contest import MOST_ALIKE

        self._lines.refresh()
        judged = {each.pair for each in self.comparisons if each.by == self.by}
        alike = 0
        for number in count():
            if self.contest.id_of(number) in judged:
                continue
            if (pair := self.contest.pair(number, self.by)) is not None:
                return pair
            if (alike := alike + 1) == MOST_ALIKE:
                raise LabError(f"{' and '.join(self.names)} write the same: {alike} pairs in a row were equal")
        raise AssertionError("the numbers have an end")

    def judge(self, pair: Pair, result: str) -> Comparison:
        """Keep a result: "a", "b", "tie" or "skip"; it is on disk when this returns."""
        made = Comparison(new_id(), pair.id, pair.prompt, pair.a, pair.b, pair.shown, result, self.by, time.time())
        self._keep(made)
        return made

    def undo(self) -> Comparison | None:
        """Take back this rater's last comparison of these two; None if there is none."""
        self._lines.refresh()
        mine = [each for each in self.comparisons if each.by == self.by and each.pair.endswith(self.contest.mark)]
        if not mine:
            return None
        self._keep(Undo(new_id(), mine[-1].id, self.by, time.time()))
        return mine[-1]

    def _keep(self, line: Line) -> None:
        append(self.run, COMPARISONS, [orjson.dumps(line.as_row(), option=orjson.OPT_APPEND_NEWLINE)])
        self._lines.refresh()
