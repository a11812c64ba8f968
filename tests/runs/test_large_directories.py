"""A run directory in which each file is small enough and the sum is not: it is read in little memory, or refused in a
sentence. Each case runs in a process of its own, which reports the most memory that it ever used."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from peak_memory import PEAK

pytestmark = pytest.mark.evidence

MOST_MEMORY = 300  # MB, with Python, NumPy and all that is imported
MOST_SECONDS = 10  # of processor time, with the imports, and on a busy machine, where each takes twice as long

CHILD = f"""{PEAK}
import json, sys
from pathlib import Path
from txlab.errors import LabError
path, what = Path(sys.argv[1]), sys.argv[2]
try:
    exec(what)
    said = ""
except LabError as error:
    said = str(error)
print(json.dumps([said, peak_memory() / 1e6]))
"""


def soon() -> None:
    """End this process when it has computed for too long."""
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))


def read(run: Path, what: str) -> str:
    """What the code `what` is refused with in a process of its own, which must stay small."""
    command = [sys.executable, "-c", CHILD, str(run), what]
    ended = subprocess.run(command, capture_output=True, text=True, preexec_fn=soon)
    assert ended.returncode == 0, ended.stderr[-2000:]
    said, most = json.loads(ended.stdout.splitlines()[-1])
    assert most < MOST_MEMORY, f"{most:.0f} MB"
    return str(said)


def lines_until(size: int, line: Callable[[int], str]) -> bytes:
    """This number of bytes of lines, each made from its number."""
    pieces, written = [], 0
    while written < size:
        pieces.append(line(len(pieces)).encode() + b"\n")
        written += len(pieces[-1])
    return b"".join(pieces)


LONG = "x" * 19_000 + "🦙"  # Python keeps four bytes of each of its characters
SHARED: dict[str, Callable[[int], str]] = {
    "undos": lambda n: f'{{"id":"{n}","undo":"{n}"}}',
    "rankings": lambda n: f'{{"id":"{n}","prompt":"","answers":["a{n}","b{n}"],"ranks":[1,2]}}',
    "long texts": lambda n: json.dumps(
        {"id": f"{n}", "prompt": "p", "answers": [LONG] * 9, "ranks": [1] * 9}, ensure_ascii=False
    ),
}


@pytest.mark.parametrize("kind", SHARED)
def test_rankings_are_read_within_a_bound_or_refused_with_an_error(kind: str, tmp_path: Path) -> None:
    (tmp_path / "preferences.jsonl").write_bytes(lines_until(40 << 20, SHARED[kind]))
    how = "from txlab.runs.preferences import *; Answers(RunDirectory(path)).refresh()"
    assert read(tmp_path, how) == (
        f"{tmp_path}/preferences.jsonl is too large: at most 250000 lines and 32 MiB are possible"
    )


def test_a_file_of_rankings_from_elsewhere_has_the_same_bound(tmp_path: Path) -> None:
    file = tmp_path / "shared.jsonl"
    file.write_bytes(lines_until(40 << 20, SHARED["long texts"]))
    how = "from txlab.engine.rlhf.preferences import *; list(read_file(path / 'shared.jsonl'))"
    assert read(tmp_path, how) == f"{file} is too large: at most 250000 lines and 32 MiB are possible"


@pytest.mark.parametrize(
    ("name", "line", "parse"),
    [
        (
            "questions.jsonl",
            '{"id":"%d","prompt":"p","answers":["a","b"]}',
            "lambda data: Question.of_row(row_of(data))",
        ),
        (
            "comparisons.jsonl",
            '{"id":"%d","pair":"p","prompt":"","a":{"model":"m","text":""},"b":{"model":"n","text":""},"shown":"ab","result":"a"}',
            "comparison_line",
        ),
    ],
)
def test_questions_and_comparisons_have_the_same_bound(name: str, line: str, parse: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(lines_until(33 << 20, lambda n: line % n))
    imports = "from txlab.runs.preferences import *; from txlab.engine.rlhf.comparisons import comparison_line"
    how = f"{imports}; SharedLines(RunDirectory(path), {name!r}, {parse}).refresh()"
    assert "is too large: at most 250000 lines and 32 MiB" in read(tmp_path, how)


READ_ALL = """
from txlab.runs.reader import RunReader
from txlab.tui.train_snapshot import Look, snapshot
reader = RunReader(path, background=False)
reader.poll()
reader.catch_up()
assert snapshot(reader, Look(), RunReader).omission == reader.omission
assert reader.left_out and reader.omission.startswith(f"{reader.left_out:,} rows of the log left out".replace(",", " "))
assert reader.latest("loss") == 7.0
"""
LISTS = "[]," * 50_000 + "0"
LOGS: dict[str, Callable[[int], str]] = {
    "a name in each row": lambda n: f'{{"event":"metrics","time":1,"step":{n},"values":{{"a{n}":1}}}}',
    "many names in each row": lambda n: json.dumps(
        {"event": "metrics", "time": 1, "step": n, "values": {f"{n}/{i}": 1 for i in range(300)}}
    ),
    "rewinds": lambda n: f'{{"event":"rewind","time":1,"step":{n % 7}}}',
    "rewinds among many names": lambda n: (
        f'{{"event":"rewind","time":1,"step":{n % 1000}}}'
        if n % 3 == 2
        else f'{{"event":"metrics","time":1,"step":{n % 1000 + 1},"values":{{"a{n % 999}":1}}}}'
    ),
    "notes": lambda n: f'{{"event":"note","time":1,"step":{n},"text":"{n}"}}',
    "lists in lists": lambda n: f'{{"event":"note","time":1,"step":{n},"text":[{LISTS}]}}',
}


@pytest.mark.parametrize("kind", LOGS)
def test_a_log_of_too_many_names_or_rows_is_read_within_a_bound(kind: str, tmp_path: Path) -> None:
    first, last = ({"event": "metrics", "time": 1, "step": step, "values": {"loss": 7.0}} for step in (0, 1 << 40))
    rows = lines_until(20 << 20, LOGS[kind])
    (tmp_path / "events.jsonl").write_bytes(
        json.dumps(first).encode() + b"\n" + rows + json.dumps(last).encode() + b"\n"
    )
    assert read(tmp_path, READ_ALL) == ""


def test_frames_and_requests_beyond_a_bound_are_left_out(tmp_path: Path) -> None:
    """Packs of a thousand frames each, none of which has a tensor; and more requests than are listed in one call."""
    for folder in ("frames", "inbox"):
        (tmp_path / folder).mkdir()
    for pack in range(600):
        steps = range(pack * 1000, (pack + 1) * 1000)
        header = json.dumps({"__metadata__": {f"{step:08d}": "{}" for step in steps}}).encode()
        name = f"pack-{steps[0]:08d}-{steps[-1]:08d}.safetensors"
        (tmp_path / "frames" / name).write_bytes(len(header).to_bytes(8, "little") + header)
    for number in range(30):
        (tmp_path / "inbox" / f"{number:02d}.json").write_text('{"request": "pause"}')
    how = """
from txlab.runs import control, frames
from txlab.runs.directory import RunDirectory
index = frames.FrameIndex(path / "frames")
index.refresh()
assert len(index) == frames.MOST_LISTED, len(index)
assert index.steps[-1] == 599_999
control.LISTED_AT_ONCE = 10
inbox = control.Inbox(RunDirectory(path))
assert [len(inbox.take()) for _ in range(4)] == [10, 10, 10, 0]
"""
    assert read(tmp_path, how) == ""
