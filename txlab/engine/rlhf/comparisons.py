"""Blind comparisons of two models by people, as lines of JSON in the run's folder (MATH H6).

    {"id": "c7…", "pair": "p00003", "prompt": "…", "a": {"model": "…", "text": "…"}, "b": {…}, "shown": "ba",
     "result": "a", "by": "ann", "time": 1e9}
    {"id": "d0…", "undo": "c7…", "by": "ann", "time": 1e9}

`shown` is the order in which the two answers were shown, `result` the better answer: "a", "b", "tie", or "skip".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from txlab.engine.rlhf.preferences import Undo, by_of, name_of, quote, row_of, text_of, time_of
from txlab.errors import LabError

RESULTS = ("a", "b", "tie", "skip")


@dataclass(frozen=True, slots=True)
class Contestant:
    """A model, by a name that says which weights it has, and its answer."""

    model: str
    text: str

    @classmethod
    def of_row(cls, row: Any, where: str) -> Contestant:
        if not isinstance(row, dict):
            raise LabError(f"{where} = {quote(row)}: an object with model and text is needed")
        return cls(name_of(row, "model"), text_of(row, "text"))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A judgement of two answers to a prompt."""

    id: str
    pair: str
    prompt: str
    a: Contestant
    b: Contestant
    shown: str
    result: str
    by: str = ""
    time: float = 0.0

    def as_row(self) -> dict[str, Any]:
        row = {"id": self.id, "pair": self.pair, "prompt": self.prompt, "a": asdict(self.a), "b": asdict(self.b)}
        return {**row, "shown": self.shown, "result": self.result, "by": self.by, "time": self.time}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Comparison:
        """LabError for anything that is not a comparison."""
        a, b = (Contestant.of_row(row.get(side), side) for side in ("a", "b"))
        for name, allowed in (("shown", ("ab", "ba")), ("result", RESULTS)):
            if row.get(name) not in allowed:
                raise LabError(f"{name} = {quote(row.get(name))}: allowed are {', '.join(allowed)}")
        kept = name_of(row, "id"), name_of(row, "pair"), text_of(row, "prompt")
        return cls(*kept, a, b, row["shown"], row["result"], by_of(row), time_of(row))


Line: TypeAlias = Comparison | Undo


def comparison_line(data: bytes) -> Line:
    """The comparison or undo of one line. LabError, one sentence, for anything else."""
    row = row_of(data)
    return Undo.of_row(row) if "undo" in row else Comparison.of_row(row)


def standing(lines: Iterable[Line]) -> list[Comparison]:
    """Those not retracted, in order, each id once; a line can only be retracted by its author."""
    kept: dict[str, Comparison] = {}
    for line in lines:
        if isinstance(line, Undo):
            if line.undo in kept and kept[line.undo].by == line.by:
                del kept[line.undo]
        else:
            kept.setdefault(line.id, line)
    return list(kept.values())
