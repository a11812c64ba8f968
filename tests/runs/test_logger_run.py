"""One logger is one run, however often it trains and whatever happens in between."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from txlab.runs import ending
from txlab.runs.directory import RunInfo
from txlab.runs.folder import list_runs
from txlab.runs.logger_run import LoggerRun
from txlab.runs.reader import RunReader


def log(logger: LoggerRun, step: int, **values: float) -> None:
    logger.run.add(logger.place(step, values), values)


def only(root: Path) -> tuple[RunInfo, RunReader]:
    (path,) = list_runs(root)
    reader = RunReader(path)
    reader.poll()
    return RunInfo.load(path), reader


def test_a_test_and_another_training_continue_the_run_and_its_steps(tmp_path: Path) -> None:
    logger = LoggerRun("mine", root=tmp_path)
    for step in range(5):
        log(logger, step, loss=1 / (step + 1))
    logger.end("done")
    assert only(tmp_path)[0].status == "done"
    log(logger, 0, test_loss=0.5)
    assert only(tmp_path)[0].status == "running"
    logger.end("done")
    for step in range(3):
        log(logger, step, loss=0.25)
    logger.end("done")
    info, reader = only(tmp_path)
    assert info.status == "done"
    assert reader.series("loss").steps.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert reader.series("test_loss").steps.tolist() == [4]
    assert [row["text"] for row in reader.rows("note")] == ["another training begins; its step 0 is step 5"]


def test_a_training_from_a_checkpoint_goes_back_and_one_that_goes_on_does_not(tmp_path: Path) -> None:
    logger = LoggerRun("mine", root=tmp_path)
    for step in range(10):
        log(logger, step, loss=1.0)
    logger.end("done")
    logger.begin_training(9)
    log(logger, 10, loss=2.0)
    logger.end("done")
    logger.begin_training(4)
    log(logger, 5, loss=3.0)
    logger.end("done")
    _, reader = only(tmp_path)
    assert reader.series("loss").values.tolist() == [1.0] * 5 + [3.0]


SCRIPT = """
import os, sys
from txlab.runs.logger_run import LoggerRun
logger = LoggerRun("mine", root=sys.argv[1])
logger.run.add(logger.place(1, ["loss"]), {"loss": 0.5})
logger.end("done")
child = os.fork()
if not child:
    raise ValueError("in a fork")
os.waitpid(child, 0)
END
"""


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        ("", "done", ""),
        ("raise ValueError('between')", "failed", "ValueError: between"),
        ("sys.exit(3)", "failed", "the program ended with exit status 3"),
        ("sys.exit(0)", "done", ""),
        ("os.kill(os.getpid(), 15)", "done", ""),
    ],
)
def test_what_happens_after_a_training_is_its_end_if_it_is_a_failure(
    tmp_path: Path, end: str, status: str, reason: str
) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT.replace("END", end), str(tmp_path)], capture_output=True)
    info, reader = only(tmp_path)
    assert (info.status, info.reason) == (status, reason)
    assert reader.series("loss").values.tolist() == [0.5]


def test_a_logger_that_is_gone_waits_for_nothing(tmp_path: Path) -> None:
    before = len(ending._open)
    for number in range(3):
        logger = LoggerRun(f"trial {number}", root=tmp_path)
        log(logger, 1, loss=1.0)
        logger.end("done")
    del logger
    gc.collect()
    assert len(ending._open) == before
    assert {RunInfo.load(path).status for path in list_runs(tmp_path)} == {"done"}


def test_a_run_whose_folder_is_gone_is_not_begun_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logger = LoggerRun("mine", root=tmp_path)
    log(logger, 1, loss=1.0)
    logger.end("done")
    (path,) = list_runs(tmp_path)
    path.rename(tmp_path / "elsewhere")
    assert logger.run.path == path
    assert not (tmp_path / path.name).exists()
