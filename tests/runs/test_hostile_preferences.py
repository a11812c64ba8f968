"""Files of rankings and of instruction records with mistakes in them: read rightly, or refused in one sentence."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from txlab.engine.rlhf.instructions import prompt_of, read_instructions
from txlab.engine.rlhf.preferences import Line, Ranking, Skip, Undo, encode_line, line_of, read_file
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory
from txlab.runs.preferences import PREFERENCES, QUESTIONS, Answers

pytestmark = pytest.mark.evidence

MUTATIONS = 1000
ODD = [
    b"\0", b"\xff", b"\r", b"\n", b"\x1b[2J", b"\x1b]0;owned\x07", "\u202e".encode(), "日".encode(), b'"', b"\\",
    b"\\ud800",
    b"[", b"]", b"{", b"}", b",", b":", b"-1", b"0", b"1e999", b"NaN", b"Infinity", b"9" * 400, b"true", b"null", b"[]",
    b"{}", b'""', b"[[[[[[[[", b"[" * 3000, b"x" * 21_000, b'"ranks":[1]', b'"ranks":[0,1,2]', b'"ranks":[1.5,2,3]',
    b'"answers":"abc"', b'"answers":["a"]', b'"undo":3', b'"skipped":false', b'"time":-1', b'"by":null',
    b'"instruction":7', b'"output":""', b'"__class__":"os.system"',
]  # fmt: skip
RANKINGS: list[Line] = [
    Ranking("a1", "q1", "a film", ("good", "bad", "it was [bold]fine[/]"), (1, 3, 2), "ann", 1e9),
    Ranking("a2", "q2", "another\nfilm", ("x", "y", "z"), (1, 1, 2), "ben@host", 1e9 + 7.5),
    Skip("a3", "q3", "ann", 1e9),
    Undo("a4", "a2", "ben@host", 1e9),
    Ranking("a5", "", "日本", ("ä", "ö"), (2, 1)),
]
RECORDS = [
    {"instruction": "Reverse it.", "input": "abc", "output": "cba"},
    {"instruction": "Name a colour.", "input": "", "output": "red"},
    {"instruction": "Say\nyes.", "output": "yes"},
]


def mutated(data: bytes, choice: random.Random) -> bytes:
    """One to four changes of bytes, pieces or lines, or something odd in the place of a value."""
    for _ in range(choice.randint(1, 4)):
        place = choice.randrange(len(data) + 1)
        lines = data.split(b"\n")
        line = choice.randrange(len(lines))
        match choice.randrange(7):
            case 0:
                data = data[:place] + bytes([choice.randrange(256)]) + data[place + 1 :]
            case 1:
                data = data[:place] + choice.choice(ODD) + data[place:]
            case 2:
                data = data[:place] + data[place + choice.randint(1, 40) :]
            case 3:
                data = data[:place]
            case 4:
                data = b"\n".join(lines[:line] + [lines[line]] * 3 + lines[line + 1 :])
            case 5:
                parts = data.split(b",")
                parts[choice.randrange(len(parts))] = choice.choice(ODD)
                data = b",".join(parts)
            case _:
                end = data.find(b",", place)
                start = data.rfind(b":", 0, place)
                data = data[: start + 1] + choice.choice(ODD) + data[end:] if 0 < start < end else data
    return data


def one_sentence(path: Path, read: Callable[[Path], object]) -> str:
    """What `read` says of the file, "" = it is read."""
    try:
        read(path)
    except LabError as error:
        said = str(error)
        assert said.startswith(str(path)), said
        assert "\n" not in said
        assert said.isprintable(), said
        assert len(said) < len(str(path)) + 300, said
        return said
    return ""


def read_and_write_again(path: Path) -> None:
    for line in read_file(path):
        assert line_of(encode_line(line)) == line


@pytest.mark.parametrize("seed", range(4))
def test_a_file_of_rankings_is_read_or_refused_with_an_error(seed: int, tmp_path: Path) -> None:
    choice, path, refused = random.Random(seed), tmp_path / "shared.jsonl", 0
    for _ in range(MUTATIONS // 4):
        path.write_bytes(mutated(b"".join(map(encode_line, RANKINGS)), choice))
        said = one_sentence(path, read_and_write_again)
        assert not said or ", line " in said
        refused += bool(said)
    assert MUTATIONS // 8 < refused < MUTATIONS // 4  # both happen


@pytest.mark.parametrize("seed", range(4))
def test_a_file_of_records_is_read_or_refused_with_an_error(seed: int, tmp_path: Path) -> None:
    choice, path, refused = random.Random(seed), tmp_path / "records.json", 0
    whole = json.dumps(RECORDS).encode(), "\n".join(map(json.dumps, RECORDS)).encode()
    for number in range(MUTATIONS // 4):
        path.write_bytes(mutated(whole[number % 2], choice))
        refused += bool(one_sentence(path, lambda path: [prompt_of(record) for record in read_instructions(path)]))
    assert MUTATIONS // 8 < refused < MUTATIONS // 4


@pytest.mark.parametrize("seed", range(4))
def test_a_runs_own_file_loses_no_line_next_to_a_spoilt_one(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However some lines were damaged, the others count, and so do lines written later."""
    monkeypatch.setattr("txlab.runs.events.PATIENCE", 0.0)  # NULs are waited for: another machine may be writing there
    choice = random.Random(seed)
    for number in range(MUTATIONS // 4):
        run = RunDirectory(tmp_path / str(number))
        run.path.mkdir()
        lines = [encode_line(line) for line in RANKINGS]
        spoilt = choice.randrange(len(lines))
        changed = mutated(lines[spoilt].rstrip(b"\n"), choice)
        (run.path / PREFERENCES).write_bytes(b"".join([*lines[:spoilt], changed, b"\n", *lines[spoilt + 1 :]]))
        (run.path / QUESTIONS).write_bytes(mutated(b'{"id":"q9","prompt":"p","answers":["a","b"]}\n', choice))
        answers = Answers(run)
        answers.refresh()
        left = [line for place, line in enumerate(RANKINGS) if place != spoilt]
        assert [line for line in answers.lines if line in left] == left
        for question in answers.questions[:1]:
            kept = answers.rank(question, range(1, len(question.answers) + 1), "cleo")
            again = Answers(run)
            again.refresh()
            assert again.lines[-1] == kept
