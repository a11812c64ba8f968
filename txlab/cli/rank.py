"""`txlab rank RUN`: answer the questions of a run, or compare two models blindly, at a terminal or on a pipe.

The run need not be running, and may be on another machine: its questions are in its directory, and a ranking is written
there as soon as its line has been read.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlab.cli import options
from txlab.cli.output import Column, print_json, table
from txlab.cli.terminal import ascii_only, complain, is_terminal, plural, sanitize
from txlab.errors import LabError, RunFailed, convert_os_errors

if TYPE_CHECKING:
    from txlab.engine.rlhf.preferences import Question, Ranking
    from txlab.experiments.kinds.human_feedback.contest import Pair
    from txlab.runs.comparisons import Comparing
    from txlab.runs.directory import RunDirectory
    from txlab.runs.preferences import Answers

LOOK_EVERY = 0.2  # seconds between checks for the run's next question
PAUSE = 600.0  # seconds; a longer time between two rankings was a break
BEFORE = "before"  # the name of the run's own model as it was fine-tuned
HELP = "the numbers from best to worst, = between equal ones (3 1=4 2); s skip, u undo, q quit"
HELP_OF_PAIRS = "1 or 2 is better, = neither; s skip, u undo, q quit"


def rank(
    name: options.Run,
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="your name in the file; else USER@HOST")] = "",
    taken_from: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="give the run the rankings of this file")
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="write the valid rankings to this file")
    ] = None,
    against: Annotated[
        str,
        typer.Option("--against", metavar="MODEL", help="compare the run's model blindly with another: before, a run"),
    ] = "",
    status: Annotated[bool, typer.Option("--status", help="show how many rankings there are, and by whom")] = False,
    json: Annotated[bool, typer.Option("--json", help="one JSON object per line: questions and answers")] = False,
) -> None:
    """Rank the answers that a run asks about, or compare two models.

    Rankings teach its reward model. A comparison is blind: the models are named after the judgement.
    """
    import socket

    from txlab.runs.directory import RunDirectory, info_of, user_name
    from txlab.runs.finding import find_run
    from txlab.runs.remote.state import remote_state

    by = by or f"{user_name()}@{socket.gethostname()}"
    if len(by) > 100 or not by.isprintable():
        raise LabError("--by: a name has at most 100 printable characters")
    only_looks = status or (export is not None and not against)
    run = RunDirectory(find_run(name, to_change=not only_looks))
    if info_of(run).kind != "human-feedback":
        raise LabError(f"{run.name} is a run of the kind {info_of(run).kind or 'unknown'}; only human-feedback asks")
    rank_in(run, by, taken_from, export, against, status, json)
    if not only_looks and remote_state(run.path) is not None:
        from txlab.runs.remote.mirroring import wait_for_delivery

        if why := wait_for_delivery(run.path):
            raise RunFailed(f"{run.name}: {why}")


def rank_in(
    run: RunDirectory, by: str, taken_from: Path | None, export: Path | None, against: str, status: bool, json: bool
) -> None:
    from txlab.runs.preferences import Answers

    if against:
        from txlab.runs.comparisons import Comparing

        comparing = Comparing(run.path, by, "" if against == BEFORE else against)
        if not status:
            compare(comparing, json)
        print_verdict(comparing, json)
        return
    answers = Answers(run)
    answers.refresh()
    if taken_from is not None:
        take_from(answers, taken_from)
    elif export is not None:
        export_to(answers, export)
    elif status:
        print_status(answers, json)
    else:
        Asker(answers, by, json).ask()


class Asker:
    """One rater's session with one run."""

    def __init__(self, answers: Answers, by: str, json: bool) -> None:
        self.answers, self.by, self.json = answers, by, json

    def ask(self) -> None:
        """Ask until the run has enough, the user quits, or the input ends."""
        lines = read_lines(self.json)
        self.warn_if_simulated()
        while (question := self.next_question()) is not None:
            self.show(question)
            if not read_answer(lines, partial(self.keep, question)):
                self.say(f"{self.given} by {self.by}; txlab rank {self.answers.run.name} continues", {})
                return
        self.say(f"{self.answers.run.name} asks nothing more; {self.given} by {self.by}", {})

    def warn_if_simulated(self) -> None:
        """Report it if the run continues without human rankings."""
        from txlab.runs.preferences import human_ranks
        from txlab.runs.reader import RunReader

        reader = RunReader(self.answers.run.path, light=True)
        reader.poll()
        if not human_ranks(reader):
            name = self.answers.run.name
            self.say(f"a simulated labeller ranks in {name}; txlab control {name} set human=1 lets people rank", {})

    @property
    def given(self) -> str:
        return plural(sum(ranking.by == self.by for ranking in self.answers.rankings), "ranking")

    def next_question(self) -> Question | None:
        """The first open question; waits while a running run has none. None if it will ask no more."""
        from txlab.runs.directory import ALIVE, state_of

        has_told = False
        while True:
            self.answers.refresh()
            wanted = self.wanted
            if wanted and len(self.answers.rankings) >= wanted:
                return None
            if open_questions := self.answers.open_for(self.by):
                return open_questions[0]
            if state_of(self.answers.run).status not in ALIVE:
                return None
            if not has_told:
                self.say("the run has no question yet; waiting (ctrl-c ends)", {"waiting": True})
                has_told = True
            time.sleep(LOOK_EVERY)

    @property
    def wanted(self) -> int:
        """How many rankings the run uses; 0 = unknown."""
        from txlab.runs.models import scenario_of

        try:
            return int(scenario_of(self.answers.run).rankings.steps)  # type: ignore[attr-defined]
        except (LabError, AttributeError):
            return 0

    def show(self, question: Question) -> None:
        """The prompt and the answers, in this rater's order."""
        from txlab.runs.preferences import shown_order

        order = shown_order(question, self.by)
        done, wanted = len(self.answers.rankings), self.wanted
        if self.json:
            row = {"question": question.id, "prompt": question.prompt, "answers": [question.answers[i] for i in order]}
            print_json(row | {"done": done, "of": wanted})
            return
        print(f"\n{question.id}   {done} of {wanted or '?'} ranked")
        print_answers(question.prompt, [question.answers[place] for place in order])
        print(HELP if not done else "order, s, u, q, ?", flush=True)

    def keep(self, question: Question, line: str) -> bool:
        """Store an input line, and return whether the next question follows. LabError if it is invalid."""
        from txlab.engine.rlhf.preferences import ranks_of
        from txlab.runs.preferences import RankedMeanwhile, shown_order

        if line in ("?", "h", "help"):
            self.say(HELP, {})
            return False
        if line in ("s", "skip"):
            kept = self.answers.skip(question, self.by).as_row()
        elif line in ("u", "undo"):
            last = self.answers.undo(self.by)
            if last is None:
                raise LabError("there is nothing of yours to take back")
            kept = {"undo": last.id, "question": last.question}
        else:
            ranks = ranks_of(line, len(question.answers))  # of the answers as they are shown
            order = shown_order(question, self.by)
            own = [ranks[order.index(place)] for place in range(len(order))]
            try:
                kept = self.answers.rank(question, own, self.by).as_row()
            except RankedMeanwhile as error:
                complain(str(error))
                return True
        if self.json:
            print_json({"kept": kept})
        return True

    def say(self, text: str, row: dict[str, Any]) -> None:
        if not self.json:
            print(sanitize(text), flush=True)
        elif row:
            print_json(row)


def compare(comparing: Comparing, json: bool) -> None:
    """Show pairs of answers and store the judgements until the input ends."""

    def keep(pair: Pair, line: str) -> bool:
        """Store an input line, and print the names of the models. LabError if it is invalid."""
        if line in ("u", "undo"):
            if comparing.undo() is None:
                raise LabError("there is nothing of yours to take back")
            return True
        results = {"1": 0, "2": 1, "=": None}
        if line in results:
            last = comparing.judge(pair, pair.result(results[line]))
        elif line in ("s", "skip"):
            last = comparing.judge(pair, "skip")
        else:
            raise LabError(f"{line[:40]!r} is none of {HELP_OF_PAIRS}")
        if json:
            print_json({"kept": last.as_row()})
        else:
            first, second = (last.a, last.b) if last.shown == "ab" else (last.b, last.a)
            print(sanitize(f"1 was {first.model}, 2 was {second.model}"))
        return True

    lines = read_lines(json)
    while True:
        pair = comparing.next()
        if json:
            print_json({"pair": pair.id, "prompt": pair.prompt, "answers": list(pair.texts)})
        else:
            print()
            print_answers(pair.prompt, pair.texts)
            print(HELP_OF_PAIRS, flush=True)
        if not read_answer(lines, partial(keep, pair)):
            return


def print_verdict(comparing: Comparing, json: bool) -> None:
    """Print the result of the comparisons so far; in JSON an unknown end of the interval is null."""
    from txlab.drawing.verdict import verdict_lines

    a, b = comparing.names
    verdict = comparing.verdict()
    if json:
        content = {"model": b, "against": a, "better": verdict.won, "worse": verdict.lost, "equal": verdict.ties}
        content |= {"elo": verdict.elo, "difference": verdict.difference, "interval": verdict.interval}
        print_json(content | {"p": verdict.p, "needed": verdict.needed})
        return
    for line in verdict_lines(verdict, (b, a)):
        print(sanitize(line))


def print_answers(prompt: str, answers: Sequence[str]) -> None:
    """Print a prompt and its answers, numbered."""
    from txlab.drawing.text import visible_lines

    for line in visible_lines(prompt, ascii_only()):
        print(f"  {line}")
    for number, text in enumerate(answers, 1):
        print(f"  {number}  {sanitize(text)}")


def read_lines(json: bool) -> Iterator[str]:
    """The input lines, with a prompt at a terminal."""
    prompted = is_terminal() and not json
    while True:
        if prompted:
            sys.stdout.write("> ")
            sys.stdout.flush()
        line = sys.stdin.readline(10_000) if sys.stdin else ""
        if not line:
            return
        yield line


def read_answer(lines: Iterator[str], keep: Callable[[str], bool]) -> bool:
    """Read lines until one is stored; return False once the user quits or the input ends."""
    while (line := next(lines, "q").strip()) not in ("q", "quit"):
        try:
            if keep(line):
                return True
        except LabError as error:
            complain(str(error))
    return False


def take_from(answers: Answers, path: Path) -> None:
    """Append the new rankings of a file, after reading all of it. LabError names file and line."""
    from txlab.engine.rlhf.preferences import encode_line, read_file, standing
    from txlab.runs.preferences import PREFERENCES, append

    known = {line.id for line in answers.lines}
    rankings = standing(read_file(path))
    new = [ranking for ranking in rankings if ranking.id not in known]
    append(answers.run, PREFERENCES, map(encode_line, new))
    print(f"{plural(len(new), 'ranking')} taken, {len(rankings) - len(new)} there already")


def export_to(answers: Answers, path: Path) -> None:
    """Write the rankings that were not undone, one JSON object per line."""
    from txlab.engine.rlhf.preferences import encode_line
    from txlab.files import atomic_write

    with convert_os_errors(f"{path} cannot be written"):
        atomic_write(path, b"".join(map(encode_line, answers.rankings)))
    print(f"{plural(len(answers.rankings), 'ranking')} written")


def print_status(answers: Answers, json: bool) -> None:
    """The number of rankings, by rater, the time they took, and the agreement of people who ranked the same
    question."""
    rankings = answers.rankings
    times: dict[str, list[float]] = {}
    for ranking in rankings:
        times.setdefault(ranking.by, []).append(ranking.time)
    counts = Counter({by: len(each) for by, each in times.items()})
    seconds = {by: seconds_each(each) for by, each in times.items()}
    agreement, pairs = agreement_of(answers)
    if json:
        rows = [{"by": by, "rankings": count, "seconds": seconds[by]} for by, count in counts.items()]
        content = {"questions": len(answers.questions), "rankings": len(rankings), "by": rows}
        print_json(content | {"agreement": agreement, "pairs": pairs, "garbled": answers.garbled})
        return
    print(f"{plural(len(rankings), 'ranking')} of {plural(len(answers.questions), 'question')}")
    if counts:
        head = [Column("by", loose=True), Column("rankings", "right"), Column("seconds each", "right")]
        quick = {by: "" if each is None else f"{each:.0f}" for by, each in seconds.items()}
        print(table(head, [[sanitize(by), str(count), quick[by]] for by, count in counts.most_common()]))
    if agreement is not None:
        print(f"people who ranked the same answers agree on {agreement:.0%} of {pairs} pairs")
    if answers.garbled:
        print(f"passed over: {plural(answers.garbled, 'line')}, neither ranking nor skip nor undo")


def seconds_each(times: list[float]) -> float | None:
    """The median time between a rater's rankings without breaks; None if there are fewer than two."""
    gaps = [gap for one, other in itertools.pairwise(times) if 0 < (gap := other - one) < PAUSE]
    from statistics import median

    return round(median(gaps), 1) if gaps else None


def agreement_of(answers: Answers) -> tuple[float | None, int]:
    """(share, number) of the pairs that two people ordered, neither with a tie, in the same way."""
    of_question: dict[str, list[Ranking]] = {}
    for ranking in answers.rankings:
        if ranking.question:
            of_question.setdefault(ranking.question, []).append(ranking)
    same = total = 0
    for rankings in of_question.values():
        by_pair: dict[tuple[int, int], Counter[tuple[str, bool]]] = {}  # how often each rater had which of two first
        for ranking in rankings if len(rankings) > 1 else ():
            for winner, loser in ranking.pairs():
                pair = (min(winner, loser), max(winner, loser))
                by_pair.setdefault(pair, Counter())[ranking.by, winner < loser] += 1
        for counts in by_pair.values():
            people = {by for by, _ in counts}
            first, second = (sum(counts[by, way] for by in people) for way in (True, False))
            alike = first**2 + second**2 - sum(counts[by, way] ** 2 for by in people for way in (True, False))
            apart = first * second - sum(counts[by, True] * counts[by, False] for by in people)
            same += alike // 2
            total += alike // 2 + apart
    return (same / total if total else None), total
