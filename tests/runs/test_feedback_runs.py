"""Runs of human feedback: killed in each of their phases, and answered by people in other processes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_loop import metrics_of, rows_of
from test_runs_exactness import equal, last_step, start

from txlab.engine.rlhf.preferences import Question
from txlab.errors import LabError
from txlab.runs import checkpoints
from txlab.runs.branch import branch
from txlab.runs.control import Request, send
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.frames import FrameIndex
from txlab.runs.models import open_model
from txlab.runs.preferences import PREFERENCES, QUESTIONS, Answers
from txlab.runs.process import prepare
from txlab.runs.scenario import load_scenario

pytest.importorskip("torch")

pytestmark = pytest.mark.evidence  # whole runs, killed and resumed

SCENARIO = """
kind = "human-feedback"
seed = 3
[task]
tokens = 10
[model]
layers = 1
heads = 2
width = 16
context = 32
[pretraining]
steps = 4
batch = 4
[demonstrations]
steps = 5
batch = 4
count = 20
[rankings]
steps = 6
settling = 3
answers = 3
batch = 3
[policy]
steps = 5
batch = 8
minibatches = 2
betas = [0.1, 0.0]
[probe]
prompts = 2
episodes = 3
held_out = 4
[record]
evaluate_every = 4
sample_every = 5
frame_every = 3
checkpoint_every = 2
[compute]
device = "cpu"
threads = 1
"""
PHASES = (2, 6, 12, 17, 20, 25)  # a step of each: pre-training, demonstrations, rankings, settling, both policies
STEPS = 4 + 5 + 6 + 3 + 5 + 5


def made(root: Path, changes: Sequence[str] = ()) -> RunDirectory:
    root.mkdir(parents=True, exist_ok=True)
    (root / "small.toml").write_text(SCENARIO)
    return RunDirectory(prepare(load_scenario(root / "small.toml", list(changes)), root=root))


def killed_at(run: RunDirectory, step: int) -> None:
    """Compute a run until that step, and kill it."""
    life = start(run)
    while last_step(run) < step:
        assert life.poll() is None, "the run ended before it could be killed"
        time.sleep(0.002)
    os.kill(life.pid, signal.SIGKILL)
    assert life.wait() == -signal.SIGKILL


def until_it_waits(run: RunDirectory, life: "subprocess.Popen[bytes]") -> None:
    while not RunInfo.load(run).facts.get("waiting"):
        assert life.poll() is None, RunInfo.load(run).reason
        time.sleep(0.02)


def answers_of(run: RunDirectory) -> Answers:
    answers = Answers(run)
    answers.refresh()
    return answers


def same_runs(one: RunDirectory, other: RunDirectory) -> None:
    assert metrics_of(one) == metrics_of(other)
    assert equal(checkpoints.load(one, STEPS), checkpoints.load(other, STEPS))


def test_a_run_killed_in_each_of_its_phases_equals_one_never_killed(tmp_path: Path) -> None:
    run, plain = made(tmp_path / "killed"), made(tmp_path / "plain")
    assert start(plain).wait() == 0
    for step in PHASES:
        killed_at(run, step)
    assert start(run).wait() == 0
    same_runs(run, plain)
    texts = [(row["step"], row["prompt"], row["text"]) for row in rows_of(plain, "sample")]
    assert [(row["step"], row["prompt"], row["text"]) for row in rows_of(run, "sample")] == texts
    for name in (QUESTIONS, PREFERENCES):
        assert (run.path / name).read_bytes() == (plain.path / name).read_bytes()
    assert [ranking.id for ranking in answers_of(run).rankings] == [f"sim-q{n:04d}" for n in range(1, 7)]


HUMAN = ['rankings.labeller="human"']
ANSWERING = """
import contextlib, sys
from txlab.runs.directory import RunDirectory
from txlab.runs.preferences import Answers, RankedMeanwhile
answers = Answers(RunDirectory(sys.argv[1]))
answers.refresh()
for question in answers.open_for(sys.argv[2])[: int(sys.argv[3])]:
    with contextlib.suppress(RankedMeanwhile):
        answers.rank(question, range(1, len(question.answers) + 1), sys.argv[2])
"""


def answer(run: RunDirectory, by: str, count: int) -> None:
    """Ranks in a process of its own."""
    subprocess.run([sys.executable, "-c", ANSWERING, str(run.path), by, str(count)], check=True)


def test_a_run_that_waits_for_people_resumes_where_it_was_killed(tmp_path: Path) -> None:
    run = made(tmp_path / "asked", HUMAN)
    life = start(run)
    until_it_waits(run, life)
    assert "0 of 6" in RunInfo.load(run).facts["waiting"]
    assert checkpoints.newest(run) == 9
    frames = FrameIndex(run.frames)
    frames.refresh()
    assert frames.steps[-1] == 9  # a rater who is asked sees the model as it is now
    answer(run, "ann", 2)
    while last_step(run) < 11:
        time.sleep(0.01)
    os.kill(life.pid, signal.SIGKILL)
    life.wait()
    answer(run, "bob", 3)  # while nothing runs
    life = start(run)
    while "5 of 6" not in RunInfo.load(run).facts.get("waiting", ""):
        assert life.poll() is None
        time.sleep(0.02)
    answer(run, "ann", 1)
    assert life.wait() == 0
    assert [ranking.by for ranking in answers_of(run).rankings] == ["ann", "ann", "bob", "bob", "bob", "ann"]
    assert RunInfo.load(run).facts["waiting"] == ""

    known = made(tmp_path / "known", HUMAN)  # the same answers, all there from the beginning
    for name in (QUESTIONS, PREFERENCES):
        shutil.copy(run.path / name, known.path / name)
    assert start(known).wait() == 0
    same_runs(known, run)


def test_the_user_takes_over_from_the_simulated_labeller_and_leaves_again(tmp_path: Path) -> None:
    run = made(tmp_path / "taken-over", HUMAN)
    life = start(run)
    until_it_waits(run, life)
    answer(run, "ann", 1)
    while last_step(run) < 10:
        time.sleep(0.01)
    send(run, Request("set", "human", 0.0, by="ann"))
    assert life.wait() == 0
    assert [ranking.by for ranking in answers_of(run).rankings] == ["ann"] + ["simulated"] * 5


def test_what_is_taken_back_or_skipped_is_not_learnt_from(tmp_path: Path) -> None:
    run = made(tmp_path / "undone", [*HUMAN, "policy.steps=0"])
    life = start(run)
    until_it_waits(run, life)
    answers = answers_of(run)
    first, second = answers.open_for("ann")[:2]
    answers.rank(first, [1, 2, 3], "ann")
    answers.undo("ann")
    assert answers.open_for("ann")[0] == first  # it is asked again
    answers.rank(first, [3, 2, 1], "ann")
    answers.skip(second, "ann")
    assert second not in answers.open_for("ann")
    for question in answers.open_for("ann")[:4]:
        answers.rank(question, [1, 1, 2], "ann")
    assert life.wait() == 0
    learnt = checkpoints.load(run, 18)["rankings"]
    assert [row["ranks"] for row in learnt] == [[3, 2, 1]] + [[1, 1, 2]] * 4
    assert second.id not in {row["question"] for row in learnt}


def test_two_concurrent_raters_each_count_once(tmp_path: Path) -> None:
    run = made(tmp_path / "two")
    asked = Answers(run)
    (run.path / QUESTIONS).write_bytes(b"".join(
        b'{"id":"q%04d","prompt":"p","answers":["a","b"]}\n' % n for n in range(200)
    ))  # fmt: skip
    people = [
        subprocess.Popen([sys.executable, "-c", ANSWERING, str(run.path), by, "200"]) for by in ("ann", "bob", "cy")
    ]
    assert [person.wait() for person in people] == [0, 0, 0]
    asked.refresh()
    assert asked.garbled == 0
    by_person = {by: [line for line in asked.rankings if line.by == by] for by in ("ann", "bob", "cy")}
    assert len({line.question for line in asked.rankings}) == len(asked.rankings)
    assert {line.question for line in asked.rankings} == {f"q{n:04d}" for n in range(200)}
    assert len({line.id for line in asked.lines}) == len(asked.lines) == sum(map(len, by_person.values()))


def test_a_writer_killed_in_the_middle_of_a_line_spoils_no_other(tmp_path: Path) -> None:
    run = made(tmp_path / "torn")
    answers = Answers(run)
    answers.rank(Question("q1", "p", ("a", "b")), [1, 2], "ann")
    with (run.path / PREFERENCES).open("ab") as file:
        file.write(b'{"id":"x","ranks":[1')
    answers.rank(Question("q2", "p", ("a", "b")), [2, 1], "bob")
    again = answers_of(run)
    assert [ranking.by for ranking in again.rankings] == ["ann", "bob"]
    assert again.garbled == 1


@pytest.mark.evidence
def test_a_busy_writer_is_killed_twenty_times(tmp_path: Path) -> None:
    run = made(tmp_path / "killed-writer")
    writing = ANSWERING.replace("answers.open_for(sys.argv[2])[: int(sys.argv[3])]", "endless()").replace(
        "for question",
        "from itertools import count\nfrom txlab.engine.rlhf.preferences import Question\n"
        "def endless():\n    for n in count():\n        yield Question(f'q{n}', 'p', ('a' * 3000, 'b'))\nfor question",
    )
    for n in range(20):
        person = subprocess.Popen([sys.executable, "-c", writing, str(run.path), f"p{n}", "0"])
        size = (run.path / PREFERENCES).stat().st_size if n else 0
        while not (run.path / PREFERENCES).exists() or (run.path / PREFERENCES).stat().st_size < size + 20_000:
            time.sleep(0.002)
        person.kill()
        person.wait()
    answers = answers_of(run)
    Answers(run).rank(Question("last", "p", ("a", "b")), [1, 2], "ann")
    assert {ranking.by for ranking in answers.rankings} == {f"p{n}" for n in range(20)}
    assert answers.garbled <= 20  # what was torn, and nothing else
    assert answers_of(run).rankings[-1].question == "last"


def test_a_branch_takes_the_answers_of_people_with_it(tmp_path: Path) -> None:
    run = made(tmp_path / "trunk")
    assert start(run).wait() == 0
    off = RunDirectory(branch(run, 14, root=tmp_path))
    assert start(off).wait() == 0
    assert [line.id for line in answers_of(off).rankings] == [line.id for line in answers_of(run).rankings]


def test_each_step_begins_with_the_one_before(tmp_path: Path) -> None:
    none = ["pretraining.steps=0", "demonstrations.steps=0"]
    first = made(tmp_path, ["rankings.steps=0", "policy.steps=0"])
    assert start(first).wait() == 0
    with pytest.raises(LabError, match="has learnt none: give rankings"):
        made(tmp_path, [*none, "rankings.steps=0", f'start.run="{first.path}"'])
    second = made(tmp_path, [*none, "policy.steps=0", f'start.run="{first.path}"'])
    assert start(second).wait() == 0
    third = made(tmp_path, [*none, "rankings.steps=0", f'start.run="{second.path}"', "policy.betas=[0.1]"])
    assert start(third).wait() == 0
    begun, learnt = checkpoints.load(third, 5), checkpoints.load(second, 9)
    assert equal(begun["reward"], learnt["reward"])
    assert begun["normaliser"] == learnt["normaliser"]
    assert equal(begun["fine_tuned"], checkpoints.load(first, 9)["fine_tuned"])
    # the value function's first word on an answer's last token is that of the reward model, so early KL is 0
    rows = metrics_of(third)
    assert rows[0][1]["kl"] == pytest.approx(0, abs=1e-6)
    assert open_model(str(third.path)).beside
