"""`txlab rank`: what it asks, what it keeps, and how rankings come and go as files."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from waiting import LONGEST

from txlab.engine.rlhf.preferences import Question, Ranking, encode_line, read_file
from txlab.runs.directory import RunDirectory
from txlab.runs.preferences import PREFERENCES, QUESTIONS, Answers, RankedMeanwhile, append, shown_order
from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario

Ask = Callable[..., Any]
WANTED = 4


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run that wants four rankings of three answers and has asked six questions; nothing computes it."""
    changes = [f"rankings.steps={WANTED}", "rankings.answers=3", 'rankings.labeller="human"']
    made = RunDirectory(prepare(load_scenario("feedback-reviews", changes), root=tmp_path / "runs"))
    questions = [Question(f"q{n:04d}", f"film: heat {n}", (f"a{n}", f"b{n}", f"c{n}")) for n in range(1, 7)]
    append(made, QUESTIONS, map(encode_line, questions))
    return made


def kept(run: RunDirectory) -> Answers:
    answers = Answers(run)
    answers.refresh()
    assert answers.garbled == 0
    return answers


def test_numbers_are_those_of_the_answers_as_they_are_shown(run: RunDirectory, ask: Ask) -> None:
    said = ask("rank", str(run.path), "--by=ann", stdin=b"3 1=2\nq\n").out
    (ranking,) = kept(run).rankings
    shown = dict(re.findall(r"^  (\d)  (\w+)$", said, re.MULTILINE)[:3])
    rank_of = dict(zip(ranking.answers, ranking.ranks, strict=True))
    assert rank_of == {shown["3"]: 1, shown["1"]: 2, shown["2"]: 2}
    order = shown_order(kept(run).questions[0], "ann")
    assert [shown[str(place)] for place in (1, 2, 3)] == [ranking.answers[i] for i in order]
    assert (ranking.by, ranking.question) == ("ann", "q0001")
    assert "0 of 4 ranked" in said
    assert "1 of 4 ranked" in said


def test_an_invalid_order_is_reported_and_asked_again(run: RunDirectory, ask: Ask) -> None:
    answer = ask("rank", str(run.path), "--by=ann", stdin=b"3 1\n4 1 2\n=12 3\n\n\x1b[A\n1 2 3\nq\n")
    assert len(kept(run).rankings) == 1
    lines = answer.error.splitlines()
    assert len(lines) == 5
    assert "2 is missing" in lines[0]
    assert all(line.startswith("txlab: ") and "allowed: each number from 1 to 3 once" in line for line in lines)


def test_skipped_is_not_asked_again_and_undo_asks_again(run: RunDirectory, ask: Ask) -> None:
    ask("rank", str(run.path), "--by=ann", stdin=b"s\n1 2 3\nu\nq\n")
    answers = kept(run)
    assert answers.rankings == []
    assert [question.id for question in answers.open_for("ann")] == ["q0002", "q0003", "q0004", "q0005", "q0006"]
    assert answers.open_for("ben")[0].id == "q0001"
    ask("rank", str(run.path), "--by=ann", stdin=b"u\nq\n")
    assert kept(run).open_for("ann")[0].id == "q0001"
    said = ask("rank", str(run.path), "--by=ann", stdin=b"u\nq\n")
    assert "nothing of yours to take back" in said.error


def test_a_list_just_ranked_by_another_user_is_not_ranked_again(
    run: RunDirectory, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ben ranks what Ann sees, after it was shown to her and before her line is read."""
    asker = import_module("txlab.cli.rank").Asker  # txlab.cli.rank is also the name of a function
    show = asker.show

    def show_and_wait(self: Any, question: Question) -> None:
        show(self, question)
        if question.id == "q0001":
            kept(run).rank(question, [1, 2, 3], "ben")

    monkeypatch.setattr(asker, "show", show_and_wait)
    answer = ask("rank", str(run.path), "--by=ann", stdin=b"3 2 1\n2 1 3\nq\n")
    assert [(each.question, each.by) for each in kept(run).rankings] == [("q0001", "ben"), ("q0002", "ann")]
    assert answer.error == "txlab: q0001 was ranked by ben meanwhile; your ranking of it is not counted\n"
    assert "1 ranking by ann" in answer.out


def test_two_people_who_rank_at_the_same_time_give_one_ranking(run: RunDirectory) -> None:
    people = [kept(run) for _ in range(8)]
    start, refused = threading.Barrier(8), list[str]()

    def rank(place: int) -> None:
        start.wait(LONGEST)
        try:
            people[place].rank(people[place].questions[0], [1, 2, 3], f"person {place}")
        except RankedMeanwhile as error:
            refused.append(str(error))

    threads = [threading.Thread(target=rank, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    assert len(kept(run).rankings) == 1
    assert len(refused) == 7


def test_it_ends_when_the_run_has_enough(run: RunDirectory, ask: Ask) -> None:
    said = ask("rank", str(run.path), "--by=ann", stdin=b"1 2 3\n" * 9).out
    assert len(kept(run).rankings) == WANTED
    assert said.splitlines()[-1] == f"{run.name} asks nothing more; {WANTED} rankings by ann"


def test_the_end_of_the_input_quits_and_says_how_to_continue(run: RunDirectory, ask: Ask) -> None:
    said = ask("rank", str(run.path), "--by=ann", stdin=b"1 2 3\n").out
    assert said.splitlines()[-1] == f"1 ranking by ann; txlab rank {run.name} continues"


def test_json_is_a_question_a_line_and_what_was_kept(run: RunDirectory, ask: Ask) -> None:
    out = ask("rank", str(run.path), "--by=ann", "--json", stdin=b"2 1 3\ns\nq\n").out
    rows = [json.loads(line) for line in out.splitlines()]
    assert [next(iter(row)) for row in rows] == ["question", "kept", "question", "kept", "question"]
    shown, ranking = rows[0]["answers"], rows[1]["kept"]
    best = ranking["answers"][ranking["ranks"].index(1)]
    assert best == shown[1]
    assert rows[3]["kept"]["skipped"] is True


def test_rankings_travel_as_a_file_and_count_once(run: RunDirectory, ask: Ask, tmp_path: Path) -> None:
    ask("rank", str(run.path), "--by=ann", stdin=b"3 1=2\n1 2 3\nu\nq\n")
    file = tmp_path / "shared.jsonl"
    assert ask("rank", str(run.path), f"--export={file}").out == "1 ranking written\n"
    assert list(read_file(file)) == kept(run).rankings
    loose = {"prompt": "film", "answers": ["x", "y"], "ranks": [2, 1]}  # as written by hand
    file.write_bytes(file.read_bytes() + json.dumps(loose).encode())
    assert ask("rank", str(run.path), f"--from={file}").out == "1 ranking taken, 1 there already\n"
    assert ask("rank", str(run.path), f"--from={file}").out == "0 rankings taken, 2 there already\n"
    assert [ranking.ranks for ranking in kept(run).rankings][1] == (2, 1)


def test_a_file_with_a_mistake_gives_the_run_nothing(run: RunDirectory, ask: Ask, tmp_path: Path) -> None:
    good = Ranking("g1", "", "film", ("x", "y"), (1, 2))
    file = tmp_path / "shared.jsonl"
    file.write_bytes(encode_line(good) + b'{"prompt": "film", "answers": ["x", "y"], "ranks": [1]}\n')
    said = ask("rank", str(run.path), f"--from={file}").refused
    assert said == f"txlab: {file}, line 2: ranks = [1]: 2 whole numbers from 1 are needed, one an answer"
    assert not (run.path / PREFERENCES).exists()


def test_status_counts_people_and_how_far_they_agree(run: RunDirectory, ask: Ask) -> None:
    question = kept(run).questions[0]
    rankings = [
        Ranking("1", question.id, question.prompt, question.answers, (1, 2, 3), "ann", 100.0),
        Ranking("2", question.id, question.prompt, question.answers, (1, 3, 2), "ben", 101.0),
        Ranking("3", "q0002", "p", ("x", "y"), (1, 2), "ann", 112.0),
        Ranking("4", "q0003", "p", ("x", "y"), (1, 2), "ann", 9e8),  # after a break
    ]
    append(run, PREFERENCES, [*map(encode_line, rankings), b"no JSON\n"])
    told = ask("rank", str(run.path), "--status", "--json").json
    assert told["by"] == [{"by": "ann", "rankings": 3, "seconds": 12.0}, {"by": "ben", "rankings": 1, "seconds": None}]
    assert (told["questions"], told["rankings"], told["garbled"]) == (6, 4, 1)
    assert (told["agreement"], told["pairs"]) == (2 / 3, 3)
    said = ask("rank", str(run.path), "--status").out
    assert "agree on 67% of 3 pairs" in said
    assert "passed over: 1 line, neither" in said


def test_a_simulated_labeller_gives_way_only_when_it_is_told_to(tmp_path: Path, ask: Ask) -> None:
    """A user who ranks for a run that does not ask people reads how to make it ask."""
    made = RunDirectory(prepare(load_scenario("feedback-reviews"), root=tmp_path / "runs"))
    append(made, QUESTIONS, [encode_line(Question("q0001", "film", ("a", "b")))])
    said = ask("rank", str(made.path), "--by=ann", stdin=b"q\n").out
    assert f"txlab control {made.name} set human=1" in said


def test_only_a_run_of_human_feedback_asks(tiny_run: Path, ask: Ask) -> None:
    assert "only human-feedback asks" in ask("rank", str(tiny_run)).refused
