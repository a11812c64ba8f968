"""Starting a recording: tags and notes, going on after a kill, silence in the other processes."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from waiting import LONGEST

import txlab
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import live_branch, read_rows
from txlab.runs.frames import FrameIndex
from txlab.runs.label import read_label
from txlab.runs.reader import RunReader


def test_tags_group_and_notes_are_kept_where_lists_look_for_them(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path, tags=["small", "two"], group="sweep 1", notes="why it is") as run:
        pass
    info = RunInfo.load(run.path)
    assert (info.tags, info.group) == (["small", "two"], "sweep 1")
    assert read_label(run.path).note == "why it is"


@pytest.mark.parametrize("tags", ["small", [""], ["x" * 61], [1], ["a"] * 33])
def test_invalid_tags_are_refused(tmp_path: Path, tags: object) -> None:
    with pytest.raises(LabError, match="tags"):
        txlab.record("mine", root=tmp_path, tags=tags)  # type: ignore[arg-type]


def test_a_garbled_list_of_tags_reads_as_none(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path, tags=["a"]) as run:
        pass
    file = run.path / "run.json"
    file.write_text(file.read_text().replace('"a"', "7"))
    assert RunInfo.load(run.path).tags == []


KILLED = """
    import numpy, os, signal, sys, txlab
    run = txlab.record("mine", {"lr": 0.1}, root=sys.argv[1], id="abc", resume=True, tags=["a"])
    for step in range(1, 38):
        run.log(step, loss=1 / step)
        if step % 10 == 0:
            run.log(step // 10, epoch_loss=1.0)
            run.frame(step, {"x": numpy.ones(2)})
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_loop_continues_with_its_run_from_where_it_says(tmp_path: Path) -> None:
    program = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
    killed = subprocess.run(program, timeout=LONGEST, check=False)
    assert killed.returncode == -signal.SIGKILL
    with txlab.record("mine", root=tmp_path, id="abc", resume=True) as run:
        assert run.path == (tmp_path / "abc").resolve()
        run.log(4, epoch_loss=0.9)  # counts epochs: says nothing about where the loop is
        for step in range(26, 31):
            run.log(step, loss=10.0)
        run.frame(30, {"x": np.zeros(2)})
    rows = read_rows(RunDirectory(run.path).events)[0]
    (rewind,) = [row for row in rows if row["event"] == "rewind"]
    assert (rewind["step"], rewind["from"], rewind["reason"]) == (25, 37, "resumed at step 26")
    live = {r["step"]: r["values"]["loss"] for r in live_branch(rows) if "loss" in r.get("values", {})}
    assert live == {step: 1 / step if step < 26 else 10.0 for step in range(1, 31)}
    frames = FrameIndex(run.path / "frames")
    frames.refresh()
    assert frames.steps.tolist() == [10, 20, 30]
    info = RunInfo.load(run.path)
    assert (info.status, info.step, info.tags) == ("done", 30, ["a"])
    reader = RunReader(run.path)
    reader.poll()
    assert reader.scenario["config"] == {"lr": 0.1}


def test_a_loop_that_continues_after_the_last_step_rewinds_nothing(tmp_path: Path) -> None:
    for begin in (0, 5):
        with txlab.record("mine", root=tmp_path, id="abc", resume=True) as run:
            for step in range(begin, begin + 5):
                run.log(step, loss=1.0)
    rows = read_rows(RunDirectory(run.path).events)[0]
    assert not [row for row in rows if row["event"] == "rewind"]
    assert [row["resumed_from"] for row in rows if row["event"] == "start"] == [None, 4]


def test_the_loop_may_set_the_step_at_which_it_continues(tmp_path: Path) -> None:
    for _ in range(2):
        with txlab.record("mine", root=tmp_path, id="abc", resume=True) as run:
            run.rewind(2, "from my checkpoint")
            for step in range(2, 6):
                run.log(step, loss=1.0)
    rows = read_rows(RunDirectory(run.path).events)[0]
    assert [row["reason"] for row in rows if row["event"] == "rewind"] == ["from my checkpoint"] * 2


def test_an_id_is_taken_once_unless_it_is_resumed_and_by_one_process(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path, id="abc"):
        with pytest.raises(LabError, match="resume=True"):
            txlab.record("mine", root=tmp_path, id="abc")
        with pytest.raises(LabError, match="process"):
            txlab.record("mine", root=tmp_path, id="abc", resume=True)
    for wrong in ("../up", "a/b", ".hidden", "x" * 81):
        with pytest.raises(LabError, match="an id is"):
            txlab.record("mine", root=tmp_path, id=wrong)


def test_a_run_of_our_own_is_not_gone_on_with(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path, id="abc") as run:
        pass
    info = RunInfo.load(run.path)
    info.kind = "language-model"
    info.save(RunDirectory(run.path))
    with pytest.raises(LabError, match="txlab resume"):
        txlab.record("mine", root=tmp_path, id="abc", resume=True)


def test_other_ranks_record_nothing_and_are_not_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with txlab.record("mine", root=tmp_path) as run:
        model = torch.nn.Linear(2, 2)
        run.learning_rate(torch.optim.SGD(model.parameters(), lr=0.1))
        run.adjustable("x", 1, 0, 2, apply=print)
        run.saves(print)
        run.watch(model, torch.zeros(1, 2))
        for step in range(3):
            assert run.poll(step)
            run.log(step, loss=1.0)
        run.frame(3, {"x": np.ones(2)})
        run.image(3, "picture", np.ones((2, 2)))
        run.histogram(3, "weights", np.ones(3))
        run.text(3, "a", "b")
        run.sample(3, "a", "b")
        run.note(3, "c")
        run.alert("d")
        run.checkpoint(3)
        run.configure(a=1)
        run.rewind(1)
        run.flush()
        with pytest.raises(LabError, match="not a metric name"):
            run.log(4, {"": 1.0})
    assert list(tmp_path.iterdir()) == []


def test_a_worker_neither_polls_nor_ends_the_run(tmp_path: Path) -> None:
    with txlab.record("mine", root=tmp_path) as run:
        assert run.poll(1)
        if (child := os.fork()) == 0:
            try:
                run.poll(2)
            except LabError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        run.log(3, loss=1.0)
    assert RunInfo.load(run.path).status == "done"


def test_the_workers_of_a_data_loader_do_no_harm(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with txlab.record("mine", root=tmp_path) as run:
        loader = torch.utils.data.DataLoader(list(range(8)), num_workers=2, batch_size=2)
        for step, batch in enumerate(loader):
            assert run.poll(step)
            run.log(step, total=batch.sum())
    assert RunInfo.load(run.path).status == "done"


TWO = """
    import os, sys, time, torch, torch.distributed as dist, txlab
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=count)
    run = txlab.record("mine", root=sys.argv[1])
    at = {"lr": 0.1}
    run.adjustable("lr", lambda: at["lr"], 0, 1, apply=lambda value: at.update(lr=value))
    step = 0
    while run.poll(step, together=True):
        step += 1
        both = torch.tensor([at["lr"], float(step)], dtype=torch.float64)
        dist.all_reduce(both)
        assert both.tolist() == [2 * at["lr"], 2 * step], (both, at, step)
        run.log(step, lr=at["lr"])
        time.sleep(0.002)  # or the log would grow faster than the one who steers can read it
    print(dist.get_rank(), step, at["lr"], run.silent, flush=True)
    run.close()
    dist.destroy_process_group()
"""


@pytest.mark.evidence
def test_two_processes_pause_change_and_stop_at_the_same_step(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from steered import Person

    program = tmp_path / "two.py"
    program.write_text(textwrap.dedent(TWO))
    around = {**os.environ, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    person = Person(tmp_path / "runs", lr=0.05, saves=False)
    started = [
        subprocess.Popen(
            [sys.executable, str(program), str(tmp_path / "runs"), (tmp_path / "meeting").as_uri()],
            env={**around, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    person.start()
    said = [each.communicate(timeout=LONGEST)[0].split() for each in started]
    person.check()
    assert [each.returncode for each in started] == [0, 0]
    assert [words[0] for words in said] == ["0", "1"]
    assert said[0][1:3] == said[1][1:3]
    assert (said[0][2:], said[1][2:]) == (["0.05", "False"], ["0.05", "True"])
