"""`txlab rank RUN --against MODEL`: two models compared blindly, at a terminal or on a pipe."""

from __future__ import annotations

import json as json_
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from txlab.errors import LabError

if TYPE_CHECKING:
    from txlab.engine.rlhf.comparisons import Comparison
    from txlab.experiments.kinds.human_feedback.contest import Pair
    from txlab.runs.comparisons import Comparing

BEFORE = "before"  # the name of the run's own model as it was fine-tuned
HELP = "1 or 2 is better, = neither; s skip, u undo, q quit"


def compare(run: Path, against: str, by: str, lines: Iterator[str], status: bool, json: bool) -> None:
    """Show pairs and keep what the lines say of them until they end; then, or at once for `status`, the verdict."""
    from txlab.runs.comparisons import Comparing

    comparing = Comparing(run, by, "" if against == BEFORE else against)
    if not status:
        ask(comparing, lines, json)
    tell_verdict(comparing, json)


def ask(comparing: Comparing, lines: Iterator[str], json: bool) -> None:
    from txlab.cli.terminal import complain, shown

    while True:
        pair = comparing.next()
        show(pair, json)
        while (line := next(lines, "q").strip()) not in ("q", "quit"):
            try:
                last = keep(comparing, pair, line)
            except LabError as error:
                complain(str(error))
                continue
            if json and last is not None:
                print(json_.dumps({"kept": last.as_row()}, ensure_ascii=False), flush=True)
            elif last is not None:
                first, second = (last.a, last.b) if last.shown == "ab" else (last.b, last.a)
                print(shown(f"1 was {first.model}, 2 was {second.model}"))
            break
        else:
            return


def show(pair: Pair, json: bool) -> None:
    from txlab.cli.terminal import ascii_only, shown
    from txlab.drawing.text import visible_lines

    if json:
        row = {"pair": pair.id, "prompt": pair.prompt, "answers": list(pair.texts)}
        print(json_.dumps(row, ensure_ascii=False), flush=True)
        return
    print()
    for line in visible_lines(pair.prompt, ascii_only()):
        print(f"  {line}")
    for number, text in enumerate(pair.texts, 1):
        print(f"  {number}  {shown(text)}")
    print(HELP, flush=True)


def keep(comparing: Comparing, pair: Pair, line: str) -> Comparison | None:
    """Put a person's line on disk; None if it takes one back. LabError if it means nothing."""
    results = {"1": 0, "2": 1, "=": None}
    if line in results:
        return comparing.judge(pair, pair.result(results[line]))
    if line in ("s", "skip"):
        return comparing.judge(pair, "skip")
    if line in ("u", "undo"):
        if comparing.undo() is None:
            raise LabError("there is nothing of yours to take back")
        return None
    raise LabError(f"{line[:40]!r} is none of {HELP}")


def tell_verdict(comparing: Comparing, json: bool) -> None:
    from txlab.cli.terminal import shown
    from txlab.drawing.verdict import verdict_lines

    a, b = comparing.names
    found = comparing.verdict()
    if json:
        told = {
            "model": b,
            "against": a,
            "better": found.won,
            "worse": found.lost,
            "equal": found.ties,
            "elo": found.elo,
        }
        told |= {"difference": found.difference, "interval": found.interval, "p": found.p, "needed": found.needed}
        print(json_.dumps(told, ensure_ascii=False))
        return
    for line in verdict_lines(found, (b, a)):
        print(shown(line))
